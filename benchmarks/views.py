"""Many views of a language model in one code: seconds, ROC AUC, and a shift.

``seconds`` makes 500 rows of 24 layers x 3 positions x 2,048 features and fits all
views in one pass. ``auroc`` uses binary datasets of ``text``, nine views of its byte
transformer and 100 labels. It compares the mixture of all views with two logistic
regressions. The first uses the view and the regularisation with the best
cross-validated ROC AUC, and the second uses all views in one table. The ROC AUC of all
three is measured on held-out rows. ``shift`` codes the labels of 400 rows of a dataset
and then of up to 200 rows of its shifted version, with four encoders as views. It
prints nats per label just before the shift, just after it, and later.

    python -m benchmarks views seconds
    python -m benchmarks views auroc --model text/model.pt
    python -m benchmarks views shift --model text/model.pt
"""

import time
from pathlib import Path

import numpy as np
from scipy.stats import t
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import _criteria as criteria, _text_data as data
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.encoders import HiddenStatesEncoder
from sklearn_mdl.readouts import view_readouts


class Seconds:
    """CPU seconds of one pass over many views."""

    options = {
        "--layers": {"type": int, "default": 24},
        "--features": {"type": int, "default": 2048},
        "--rows": {"type": int, "default": 500},
    }
    params = [["linear", "closed-form"]]
    param_names = ["readouts"]
    formats = {"track_cpu_seconds": ".1f", "track_nats": ".1f", "track_left": ".0f"}

    def setup(self, readouts):
        rng = np.random.default_rng(0)
        names = [f"layer {i}|{p}" for i in range(self.layers) for p in range(3)]
        shape = self.rows, len(names) * self.features
        self.y = (rng.random(self.rows) < 0.4).astype(int)
        self.X = rng.standard_normal(shape, dtype=np.float32)
        ends = range(self.features, shape[1] + 1, self.features)
        self.columns = {
            name: slice(end - self.features, end)
            for name, end in zip(names, ends, strict=True)
        }
        for number, own in enumerate(self.columns.values()):
            signal = rng.standard_normal(self.features, dtype=np.float32)
            height = 0.1 * np.exp(-(((number // 3) / self.layers - 0.6) ** 2) / 0.05)
            self.X[:, own] += height * np.outer(self.y - 0.5, signal)
        start = time.process_time()
        blocks = view_readouts(self.columns, readouts)
        self.switcher = MDLReadoutSwitcher(blocks, random_state=0).fit(self.X, self.y)
        self.seconds = time.process_time() - start

    def track_cpu_seconds(self, readouts):
        return self.seconds

    def track_nats(self, readouts):
        return self.switcher.codelength_

    def track_left(self, readouts):
        return int((self.switcher.retired_at_ < 0).sum())


class Auroc:
    """Held-out ROC AUC of the mixture of all views and of two regressions."""

    options = {
        "--model": {"type": Path, "default": Path("text/model.pt")},
        "--datasets": {"type": int, "default": 20, "help": "number of datasets (20)"},
        "--labels": {"type": int, "default": 100},
        "--rows": {"type": int, "default": 800},
    }

    def prepare(self):
        parts = data.parts()
        model = data.byte_model(self.model, parts["others"][-12:])
        names = np.random.default_rng(0).permutation(parts["apart"])
        self.values = {}
        print(f"{'dataset':32}{'all views':>10}{'best view':>10}{'together':>10}")
        for name in map(str, names):
            texts, y = data.load(name, self.rows)
            if len(np.unique(y)) == 2:
                self.values[name] = self.measured(model, texts, y)
                cells = "".join(f"{value:10.3f}" for value in self.values[name])
                print(f"{name:32}{cells}", flush=True)
            if len(self.values) == self.datasets:
                break

    def measured(self, model, texts, y):
        layers = ["embed", "layers.0", "layers.1"]
        positions = ["last", "mean", "max"]
        encoder = HiddenStatesEncoder(
            model, layers=layers, positions=positions, batch_size=32
        )
        X = encoder.fit_transform(data.ids_of(texts))
        y = np.unique(y, return_inverse=True)[1]
        columns = encoder.view_slices_
        seen, others = np.arange(self.labels), np.arange(self.labels, len(y))
        readouts = view_readouts(columns, "linear")
        mixture = MDLReadoutSwitcher(readouts, random_state=0).fit(X[seen], y[seen])
        tried = [_tuned(X[seen][:, own], y[seen]) for own in columns.values()]
        best = int(np.argmax([score for score, _ in tried]))
        own = list(columns.values())[best]
        proba = [
            mixture.predict_proba(X[others])[:, 1],
            tried[best][1].predict_proba(X[others][:, own])[:, 1],
            _tuned(X[seen], y[seen])[1].predict_proba(X[others])[:, 1],
        ]
        return [roc_auc_score(y[others], one) for one in proba]

    def report(self, table):
        values = np.array(list(self.values.values()))
        n = len(values)
        print(
            f"{'mean of ' + str(n):32}" + "".join(f"{v:10.3f}" for v in values.mean(0))
        )
        for other, title in [(1, "best view"), (2, "one regression on all")]:
            gaps = values[:, 0] - values[:, other]
            half = t.ppf(0.95, n - 1) * gaps.std(ddof=1) / np.sqrt(n)
            print(
                f"all views less {title}: {gaps.mean():+.4f}, paired 90 % interval "
                f"{gaps.mean() - half:+.4f} to {gaps.mean() + half:+.4f}"
            )


class Shift:
    """Nats per label before and after a shift of the texts, by code."""

    options = {
        "--model": {"type": Path, "default": Path("text/model.pt")},
        "--before": {"type": int, "default": 400, "help": "rows before the shift"},
        "--after": {
            "type": int,
            "default": 200,
            "help": "largest number of rows after the shift",
        },
    }
    views = ("words-128", "characters-128", "wordllama", "transformer layers.1")

    def prepare(self):
        parts = data.parts()
        self.network = data.byte_model(self.model, parts["others"][-12:])
        print(f"{'nats per label':28}{'code':>12}{'before':>9}{'after':>9}{'later':>9}")
        table = []
        for path in sorted((data.folder() / "OOD data").glob("*_OOD.csv.zst")):
            name = path.name.removesuffix("_OOD.csv.zst")
            if set(data.read(path)[1]) != set(data.load(name, self.before)[1]):
                continue  # the shifted set has other class names
            rows = self.coded(path, name)
            for title, values in rows.items():
                cells = "".join(f"{value:9.3f}" for value in values)
                print(f"{name[:27]:28}{title:>12}{cells}", flush=True)
            table.append(list(rows.values()))
        means = np.mean(table, axis=0)
        for title, values in zip(rows, means, strict=True):
            cells = "".join(f"{value:9.3f}" for value in values)
            print(f"{f'mean of {len(table)}':28}{title:>12}{cells}")

    def coded(self, path, name):
        texts, y = data.load(name, self.before)
        others, labels = data.read(path)
        rows = np.random.default_rng(0).permutation(len(labels))[: self.after]
        every = [*texts, *(others[row] for row in rows)]
        arrays = data.features(every, self.network)
        X = np.hstack([arrays[view] for view in self.views])
        ends = np.cumsum([arrays[view].shape[1] for view in self.views]).tolist()
        columns = dict(zip(self.views, map(slice, [0, *ends[:-1]], ends), strict=True))
        labels = np.concatenate([y, labels[rows]])
        switcher = MDLReadoutSwitcher(view_readouts(columns, "linear"), random_state=0)
        switcher.fit(X, labels)
        codes = {
            "pool": switcher.codelengths_,
            "switching": switcher.switching_codelengths_,
            "labels alone": switcher.reference_codelengths_,
        }
        start, n = len(y), len(rows) // 2
        parts = [
            slice(start - n, start),
            slice(start, start + n),
            slice(start + n, None),
        ]
        return {
            k: [float(nats[part].mean()) for part in parts] for k, nats in codes.items()
        }


def _tuned(X, y):
    """Return the best cross-validated ROC AUC, and a regression fitted on all rows."""
    search = LogisticRegressionCV(
        Cs=list(criteria.STRENGTHS), cv=5, scoring="roc_auc", max_iter=300
    )
    model = make_pipeline(StandardScaler(), search).fit(X, y)
    score = float(np.mean(next(iter(search.scores_.values())), axis=0).max())
    final = LogisticRegression(C=float(search.C_[0]), max_iter=300)
    return score, make_pipeline(model[0], final).fit(X, y)
