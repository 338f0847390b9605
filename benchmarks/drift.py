"""Streams that drift: the list "drift" compared with an oracle that knows the changes.

``made`` draws streams from cells of real features by the rules of
``benchmarks/_streams.py``. It computes codelengths with lists of readouts, with the
oracle (the default list, restarted at the true changes), and with a logistic regression
refitted at the ends of blocks that grow by a fifth. ``river`` compares lists with the
classifiers of river on streams from river and other packages. ``real`` compares lists
with river's regressors. ``picture`` draws the posterior over lengths of memory.
"""

import math
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from benchmarks._data import feature_cells
from benchmarks._kept import OPTION, kept
from benchmarks._streams import KINDS, drifting
from sklearn_mdl import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, RefitReadout
from sklearn_mdl.readouts import (
    DefaultGrid,
    DummyReadout,
    DummyReadoutRegressor,
    named_readouts,
)

CONTENDERS = {
    "drift": {"readouts": "drift"},
    "stream": {"readouts": "stream"},
    "windows": {"readouts": "drift", "without": "restart"},
    "restarts": {"readouts": "drift", "without": "window"},
    "default": {},
    "closed-form": {"readouts": "closed-form"},
    "logistic": {"readouts": [RefitReadout(LogisticRegression(), schedule=1.2)]},
}
ORACLE = "oracle"
LABELS = {"readouts": [DummyReadout(strategy) for strategy in ("frequency", "decayed")]}


def fitted(X, y, n_classes, settings):
    """Return a switcher fitted on a stream in its order."""
    settings = dict(settings)
    left_out = settings.pop("without", None)
    if left_out is not None:
        listed = named_readouts(settings["readouts"], X.shape[1], n_classes)
        kept = [one for one in listed if getattr(one, left_out, None) is None]
        settings["readouts"] = DefaultGrid(kept)
    switcher = MDLReadoutSwitcher(**settings, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some fits do not converge
        return switcher.partial_fit(X, y, classes=range(n_classes))


class Made:
    """Streams made from cells of real features."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--kinds": {"nargs": "*", "default": ["abrupt"], "choices": KINDS},
        "--seeds": {"nargs": "*", "type": int, "default": [0]},
        "--rows": {"type": int, "default": 4300},
        "--least": {
            "type": int,
            "default": 1000,
            "help": "smallest number of rows per segment (%(default)s)",
        },
        "--contenders": {
            "nargs": "*",
            "default": [*CONTENDERS, ORACLE],
            "choices": [*CONTENDERS, ORACLE],
        },
        **OPTION,
    }
    param_names = ["cell", "kind", "seed", "contender"]
    unit = "nats; saved: relative to labels alone"
    formats = {"track_codelength": ".1f", "track_accuracy": ".4f", "track_saved": ".0f"}

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets, self.encoders)

    @property
    def params(self):
        return [list(self.cells), self.kinds, self.seeds, self.contenders]

    def setup(self, cell, kind, seed, name):
        key = ["made", cell, kind, seed, self.rows, self.least, name]
        self.found = kept(self.results, key, lambda: self.measure(*key[1:4], name))

    def measure(self, cell, kind, seed, name):
        X, y = self.cells[cell]
        n_classes = int(y.max()) + 1
        X, y, changes = drifting(X, y, kind, self.rows, self.least, seed)
        settings = CONTENDERS["default" if name == ORACLE else name]
        starts = [0, *changes.tolist()] if name == ORACLE else [0]
        codelength, hits, blind = 0.0, 0, 0.0
        for start, end in zip(starts, [*starts[1:], len(y)], strict=True):
            switcher = fitted(X[start:end], y[start:end], n_classes, settings)
            codelength += switcher.codelength_
            hits += switcher.measures().accuracy * (end - start)
            blind += switcher.reference_codelengths_.sum()
        return {
            "codelength": codelength,
            "accuracy": hits / len(y),
            "saved": blind - codelength,
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_accuracy(self, *row):
        return self.found["accuracy"]

    def track_saved(self, *row):
        """Nats saved relative to a code that ignores the features."""
        return self.found["saved"]

    def report(self, table):
        """Print ratios of codelengths to the oracle's, or to the last contender's."""
        base = ORACLE if ORACLE in self.contenders else self.contenders[-1]
        for kind in self.kinds:
            for name in self.contenders:
                ratios = [
                    columns["track_codelength"][0]
                    / table[*row[:3], base]["track_codelength"][0]
                    for row, columns in table.items()
                    if row[1] == kind and row[3] == name
                ]
                print(
                    f"{kind}: {name} {np.mean(ratios):.3f} of {base} "
                    f"({min(ratios):.3f} to {max(ratios):.3f})"
                )


RIVER = (
    "adaptive random forest",
    "Hoeffding adaptive tree",
    "logistic regression",
    "nearest neighbours",
    "naive Bayes",
    "ADWIN bagging of naive Bayes",
)


def classifiers():
    """Return river's classifiers for numeric features, keyed by name."""
    from river import (
        ensemble,
        forest,
        linear_model,
        multiclass,
        naive_bayes,
        neighbors,
        preprocessing,
        tree,
    )

    logistic = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    bayes = naive_bayes.GaussianNB()
    models = [
        forest.ARFClassifier(seed=0),
        tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        logistic,
        neighbors.KNNClassifier(engine=neighbors.SWINN(seed=0)),
        bayes,
        ensemble.ADWINBaggingClassifier(bayes, seed=0),
    ]
    scaled = [preprocessing.StandardScaler() | model for model in models]
    return dict(zip(RIVER, scaled, strict=True))


def progressive(model, X, y, n_classes):
    """Return losses (n,) in nats and hits (n,) of a river classifier, row by row.

    As in the package's wrappers, probabilities are mixed with Krichevsky-Trofimov
    frequencies, which have weight 1 / (n + 2). So no probability is zero.
    """
    losses, hits, counts = np.empty(len(y)), np.zeros(len(y)), np.full(n_classes, 0.5)
    for t, (row, label) in enumerate(zip(X, y.tolist(), strict=True)):
        features = dict(enumerate(row.tolist()))
        given = model.predict_proba_one(features)
        proba = np.array([given.get(c, 0.0) for c in range(n_classes)])
        frequencies = counts / counts.sum()
        proba = proba / proba.sum() if proba.sum() > 0 else frequencies
        mixed = proba + (frequencies - proba) / (t + 2)
        losses[t], hits[t] = -math.log(mixed[label]), mixed.argmax() == label
        counts[label] += 1
        model.learn_one(features, label)
    return losses, hits


def bundled(name):
    """Return features and labels of a stream in order, and the number of classes."""
    if name == "SeattleWeather":
        return _weather()
    if name.startswith("Digits"):
        X, y = load_digits(return_X_y=True)
        X, y, _ = drifting(X, y, name.split()[1], len(y), 300, 0)
        return X.astype(np.float32), y, 10
    from river import datasets

    rows = list(getattr(datasets, name)())
    names = sorted({key for features, _ in rows for key in features})
    X = np.array([[features[key] for key in names] for features, _ in rows])
    y = np.unique([label for _, label in rows], return_inverse=True)[1]
    return X.astype(np.float32), y, int(y.max()) + 1


def _weather():
    """Return the weather in Seattle, 2012 to 2015, and its kind on the next day.

    Also return the number of kinds.
    """
    from vega_datasets import local_data

    table = local_data.seattle_weather()
    kinds, today = np.unique(table["weather"], return_inverse=True)
    numbers = table[["precipitation", "temp_max", "temp_min", "wind"]].to_numpy()
    angle = 2 * np.pi * table["date"].dt.dayofyear.to_numpy()[:, None] / 365.25
    own = np.eye(len(kinds))[today]
    X = np.hstack([numbers, own, np.cos(angle), np.sin(angle)])[:-1]
    return X.astype(np.float32), today[1:], len(kinds)


STREAMS = [
    *("Phishing", "Bananas", "ImageSegments", "SeattleWeather"),
    *("Digits abrupt", "Digits none"),
]


class River:
    """Classifiers of river and lists of readouts, on streams of packages."""

    options = {
        "--streams": {"nargs": "*", "default": STREAMS, "choices": STREAMS},
        "--contenders": {
            "nargs": "*",
            "default": ["drift", "stream", *RIVER],
            "choices": [*CONTENDERS, *RIVER],
        },
        **OPTION,
    }
    param_names = ["stream", "contender"]
    unit = "nats; saved: relative to labels alone"
    formats = {
        "track_codelength": ".1f",
        "track_per_row": ".4f",
        "track_accuracy": ".4f",
        "track_saved": ".1f",
    }

    @property
    def params(self):
        return [self.streams, self.contenders]

    def setup(self, stream, name):
        key = ["river", stream, name]
        self.found = kept(self.results, key, lambda: self.measure(stream, name))

    def measure(self, stream, name):
        X, y, n_classes = bundled(stream)
        if name in CONTENDERS:
            switcher = fitted(X, y, n_classes, CONTENDERS[name])
            losses, accuracy = switcher.codelengths_, switcher.measures().accuracy
        else:
            losses, hits = progressive(classifiers()[name], X, y, n_classes)
            accuracy = hits.mean()
        blind = fitted(X[:, :1], y, n_classes, LABELS).reference_codelengths_.sum()
        return {
            "codelength": losses.sum(),
            "per_row": losses.mean(),
            "accuracy": accuracy,
            "saved": blind - losses.sum(),
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_per_row(self, *row):
        return self.found["per_row"]

    def track_accuracy(self, *row):
        return self.found["accuracy"]

    def track_saved(self, *row):
        """Nats saved relative to a code that ignores the features."""
        return self.found["saved"]


HALF_LIFE = 50  # rows after which the weight of a squared error has halved


def regressors():
    """Return river's regressors for numeric features, keyed by name.

    Each regressor is also wrapped in a scaler of targets, since many predict zero at
    first.
    """
    from river import forest, linear_model, neighbors, preprocessing, tree

    models = {
        "adaptive random forest": forest.ARFRegressor(seed=0),
        "Hoeffding adaptive tree": tree.HoeffdingAdaptiveTreeRegressor(seed=0),
        "linear regression": linear_model.LinearRegression(intercept_lr=0.1),
        "passive-aggressive": linear_model.PARegressor(),
        "Bayesian linear regression": linear_model.BayesianLinearRegression(),
        "nearest neighbours": neighbors.KNNRegressor(),
    }
    scaled = {
        f"{name}, targets scaled": preprocessing.TargetStandardScaler(model.clone())
        for name, model in models.items()
    }
    return {
        name: preprocessing.StandardScaler() | model
        for name, model in (models | scaled).items()
    }


def progressive_real(model, X, y):
    """Return losses (n,) in nats and predictions (n,) of a river regressor, row by row.

    The density is a Gaussian centred on the prediction. Its variance is a weighted mean
    of past squared errors, whose weights have a half-life of ``HALF_LIFE`` rows. To
    begin with, there is one squared error of 1.
    """
    losses, means, count, squares = np.empty(len(y)), np.empty(len(y)), 1.0, 1.0
    kept = 0.5 ** (1 / HALF_LIFE)
    for t, (row, label) in enumerate(zip(X, y.tolist(), strict=True)):
        features = dict(enumerate(row.tolist()))
        means[t] = model.predict_one(features)
        error, variance = label - means[t], squares / count
        losses[t] = 0.5 * (math.log(2 * math.pi * variance) + error**2 / variance)
        count, squares = kept * count + 1, kept * squares + error**2
        model.learn_one(features, label)
    return losses, means


class Real:
    """Regressors of river and lists of readouts, on the stream TrumpApproval.

    The mean absolute error excludes the first minibatch of the switcher. Losses are
    summed over all rows, and over the rows after the first 100.
    """

    def report(self, table):
        from river.datasets import TrumpApproval

        rows = list(TrumpApproval())
        names = sorted(rows[0][0])
        X = np.array([[features[key] for key in names] for features, _ in rows])
        y = np.array([label for _, label in rows])
        lists = {
            "drift": "drift",
            "stream": "stream",
            "default": None,
            "closed-form": "closed-form",
        }
        lists |= {
            f"labels alone, {strategy}": DummyReadoutRegressor(strategy)
            for strategy in ("mean", "decayed", "last")
        }
        for name, readouts in lists.items():
            switcher = MDLReadoutSwitcherRegressor(readouts, random_state=0)
            switcher.partial_fit(X.astype(np.float32), y)
            error = switcher.measures().mean_absolute_error
            self.show(name, switcher.codelengths_, error)
        n_first = len(y) - switcher.measures().n_measured
        for name, model in regressors().items():
            losses, means = progressive_real(model, X, y)
            self.show(name, losses, np.abs(means - y)[n_first:].mean())

    def show(self, name, losses, error):
        later = losses[100:].sum()
        print(
            f"{name:45s}{losses.sum():10.1f} nats, {later:8.1f} after row 100, "
            f"mean absolute error {error:.4f}",
            flush=True,
        )


BLIND = "labels alone"


def memory_of(readout):
    """Return a text that states how many past rows a readout remembers."""
    if isinstance(readout, DummyReadout):
        return BLIND
    if getattr(readout, "restart", None) is not None:
        return "restarted"
    window = getattr(readout, "window", None)
    return "all rows" if window is None else f"{window} rows"


class Picture:
    """Posterior over lengths of memory, on digits whose labels change."""

    options = {
        "image": {"type": Path, "help": "PNG to write"},
        "--seed": {"type": int, "default": 0},
    }

    def report(self, table):
        import matplotlib.pyplot as plt

        X, y = load_digits(return_X_y=True)
        X, y, changes = drifting(X, y, "abrupt", len(y), 300, self.seed)
        switcher = fitted(X, y, 10, CONTENDERS["drift"])
        fixed = fitted(X, y, 10, CONTENDERS["default"])
        parts = [slice(*pair) for pair in pairwise([0, *changes, len(y)])]
        restarted = [fitted(X[p], y[p], 10, CONTENDERS["default"]) for p in parts]
        codelengths = {
            "default": fixed.codelengths_,
            "stream": fitted(X, y, 10, CONTENDERS["stream"]).codelengths_,
            "drift": switcher.codelengths_,
            "oracle": np.concatenate([one.codelengths_ for one in restarted]),
        }
        memories = [memory_of(readout) for readout in switcher.readouts_]
        figure, (upper, lower) = plt.subplots(
            2, 1, figsize=(7.5, 5), sharex=True, layout="constrained"
        )
        names = list(dict.fromkeys(memories))
        places = [np.equal(memories, name) for name in names]
        shares = [switcher.posterior_[:, place].sum(1) for place in places]
        colours = plt.get_cmap("viridis")(np.linspace(0.1, 0.95, len(names)))
        colours[names.index(BLIND)] = 0.6, 0.6, 0.6, 1
        upper.stackplot(range(len(y)), shares, labels=names, colors=colours)
        upper.set(ylabel="posterior of readouts", ylim=(0, 1))
        upper.legend(title="memory", loc="center left", bbox_to_anchor=(1, 0.5))
        for (name, costs), colour in zip(
            codelengths.items(),
            ("#E69F00", "#009E73", "#0072B2", "#000000"),
            strict=True,
        ):
            lower.plot(np.cumsum(costs), label=name, color=colour)
            print(f"{name}: {costs.sum():.1f} nats")
        extra = codelengths["drift"] - codelengths["oracle"]
        for n in (16, 64, 256):
            soon = sum(extra[change : change + n].sum() for change in changes)
            print(f"beyond the oracle in {n} rows after changes: {soon:.1f} nats")
        lower.set(xlabel="rows", ylabel="nats", xlim=(0, len(y)), ylim=(0, None))
        lower.legend(title="readouts", loc="center left", bbox_to_anchor=(1, 0.5))
        for axis in (upper, lower):
            for change in changes:
                axis.axvline(change, color="black", linestyle=":", linewidth=1)
        print(f"labels change before rows {changes.tolist()} of {len(y)}")
        figure.savefig(self.image, dpi=100, metadata={"Software": None})
