"""Stopping: how often races of encoders err, and how many labels they need.

Every encoder of a dataset is run once over up to 1,000 labels in each of many orders,
with the readouts of an ``EncoderRace``. All tables use these losses, except ``updates``
and ``figure``. With ``--results`` the losses are saved, and an interrupted command
resumes.
"""

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import kendalltau, t as student

from benchmarks._choice_tables import Kept
from benchmarks._data import tables_of
from benchmarks._stopping_rivals import (
    CHECKPOINTS,
    MOST,
    halved,
    known_on_all,
    probed,
    stream,
    tested,
)
from benchmarks.choice import KEPT
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.display import RaceDisplay
from sklearn_mdl.model_selection import EncoderRace, on_equal_terms
from sklearn_mdl.ranking import LossRace, forecast_interval

START, LEAST = 32, 30  # labels before the comparison, and labels that a test needs
N_NULLS = 2000
FEWEST, REPEATS = 5, 12  # encoders in a race, and races of each size
WITHIN = (0.05, 0.1, 0.2, 0.3, 0.5)
WRONG = 0.02  # a choice that loses more accuracy is wrong
METHODS = ("exact", "asymptotic", "t-test")
FEATURES = {
    "folder": {"help": "folder of features, as load_feature_directory reads it"}
}
OPTIONS = {
    **FEATURES,
    "--orders": {"type": int, "default": 20, "help": "number of orders (20)"},
    "--readouts": {"default": "linear", "help": "name of a list (%(default)s)"},
    "--results": {"type": Path, "help": "folder of the losses of one list"},
}


def losses_of(dataset, features, y, order, readouts, results):
    """Return all encoders' losses in an order, (n_labels, n_encoders), in nats."""
    path = results and results / f"{dataset}-{order}.npy"
    if path and path.exists():
        return np.load(path)
    rows, classes = stream(y, order), np.unique(y, return_inverse=True)[1]
    width = max(X.shape[1] for X in features.values())
    codes = []
    for X in features.values():
        switcher = MDLReadoutSwitcher(readouts, random_state=0)
        switcher = on_equal_terms(switcher, width, classes.max() + 1)
        named = np.arange(classes.max() + 1)
        switcher.partial_fit(np.asarray(X)[rows], classes[rows], classes=named)
        codes.append(switcher.codelengths_)
    losses = np.stack(codes, axis=1)
    if path:
        results.mkdir(parents=True, exist_ok=True)
        np.save(path, losses)
    return losses


class _Streams:
    """Losses of all encoders of each dataset, in many orders."""

    options = OPTIONS
    param_names = ["dataset"]
    least = 2  # number of encoders
    kept = None  # reference scores that are needed

    def prepare(self):
        self.data = tables_of(self.folder, self.least, self.kept)
        self.params = [sorted(self.data)]
        self.losses = {name: [] for name in self.data}
        for order in range(self.orders):
            for name, (features, y) in self.data.items():
                given = name, features, np.asarray(y), order
                losses = losses_of(*given, self.readouts, self.results)
                self.losses[name].append(losses)

    def races(self, dataset):
        """Return losses (n_orders, n_labels, n_encoders)."""
        return np.stack(self.losses[dataset])

    def classes(self, dataset):
        """Return the classes of all labels, as integers (n_orders, n_labels)."""
        y = np.unique(self.data[dataset][1], return_inverse=True)[1]
        return np.stack([y[stream(y, order)] for order in range(self.orders)])

    def n_classes(self, dataset):
        return len(np.unique(self.data[dataset][1]))


class Races(_Streams):
    """How often races drop the best encoder, and how many passes they save."""

    unit = (
        "lost: random races of 5 encoders or more that dropped the encoder with the "
        "smallest mean loss;\nbehind: lost races in which another encoder was ahead "
        "then, on average over orders;\nleft, saved: encoders left in races of all "
        "encoders, and share of forward passes saved, at these numbers of labels"
    )
    param_names = ["dataset", "method"]
    formats = {
        **dict.fromkeys(["track_races", "track_lost", "track_behind"], "g"),
        **dict.fromkeys([f"track_left_{n}" for n in (100, 300, 1000)], ".1f"),
        **dict.fromkeys([f"track_saved_{n}" for n in (300, 1000)], ".0%"),
    }

    def prepare(self):
        super().prepare()
        self.params = [sorted(self.data), list(METHODS)]

    def setup(self, dataset, method):
        streams, n_classes = self.races(dataset), self.n_classes(dataset)
        labels = self.classes(dataset)
        self.race = raced(streams, n_classes, method, labels=labels)
        means = streams.mean(0)[START:].cumsum(0)  # summed losses, averaged over orders
        rng = np.random.default_rng(0)
        self.lost, self.behind, n_encoders = [], [], streams.shape[-1]
        for size in range(FEWEST, n_encoders + 1):
            subsets = np.stack(
                [rng.choice(n_encoders, size, replace=False) for _ in range(REPEATS)]
            )
            orders = rng.choice(len(streams), REPEATS, replace=len(streams) < REPEATS)
            drawn = np.stack(
                [streams[o][:, c] for o, c in zip(orders, subsets, strict=True)]
            )
            race = raced(drawn, n_classes, method, labels=labels[orders])
            best = drawn[:, START:].mean(1).argmin(-1)
            out_at = race.out_at[np.arange(REPEATS), best]
            self.lost += list(out_at > 0)
            for i in np.flatnonzero(out_at):
                then = means[out_at[i] - START - 1, subsets[i]]
                self.behind.append(then.argmin() != best[i])

    def track_races(self, dataset, method):
        return len(self.lost)

    def track_lost(self, dataset, method):
        return sum(self.lost)

    def track_behind(self, dataset, method):
        return sum(self.behind)

    def _ends(self, n):
        """Return the number of labels on which each encoder was run, at most n."""
        return np.where(self.race.out_at > 0, self.race.out_at, n).clip(max=n)

    def _left(self, n):
        return (self._ends(n + 1) > n).sum(-1).mean()

    def _saved(self, n):
        return 1 - self._ends(n).mean() / n

    def track_left_100(self, dataset, method):
        return self._left(100)

    def track_left_300(self, dataset, method):
        return self._left(300)

    def track_left_1000(self, dataset, method):
        return self._left(1000)

    def track_saved_300(self, dataset, method):
        return self._saved(300)

    def track_saved_1000(self, dataset, method):
        return self._saved(1000)

    def report(self, table):
        for method in METHODS:
            rows = np.array(
                [
                    [value[0] for value in row.values()]
                    for (_, own), row in table.items()
                    if own == method
                ]
            )
            n, lost, behind = rows[:, :3].sum(0)
            left, saved = rows[:, 3:6].mean(0), rows[:, 6:].mean(0)
            print(
                f"{method}: {lost:g} of {n:g} lost ({lost / n:.3f}), {behind:g} behind "
                f"then; left {left.round(1)}, saved {saved.round(2)}"
            )


class Forecasts(_Streams):
    """How often forecasts contain the number of labels at which races stop."""

    unit = "forecasts after 64, 100 and 200 labels; shares; actual / forecast labels"
    least = 5
    formats = {"track_forecasts": "g", "track_ratio": ".2f"} | dict.fromkeys(
        ["track_inside", "track_earlier", "track_later"], ".2f"
    )
    summarise = True

    def setup(self, dataset):
        rng, rows = np.random.default_rng(0), []
        streams = zip(self.races(dataset), self.classes(dataset), strict=True)
        for losses, labels in streams:
            for size in (5, 5, 5, 5, losses.shape[1]):
                own = losses[:, rng.choice(losses.shape[1], size, replace=False)]
                for within in (0.1, 0.2):
                    n_classes = self.n_classes(dataset)
                    rows += self._forecasts(own, labels, n_classes, within)
        self.low, self.median, self.high, self.actual = np.reshape(rows, (-1, 4)).T

    def _forecasts(self, losses, labels, n_classes, within):
        options = {"alpha": 0.05, "method": "asymptotic", "start": START}
        race = LossRace((losses.shape[1],), n_classes, within=within, **options)
        made = []
        for n, row in enumerate(losses, 1):
            race.add(row, labels[n - 1])
            if race.stopped_at:
                break
            if n in (64, 100, 200):
                given = {"most": MOST, "labels": labels[:n]}
                made.append((n, forecast_interval(race, losses[:n], **given)))
        end = race.stopped_at or np.inf
        return [(*ends, end - n) for n, ends in made]

    def track_forecasts(self, dataset):
        return len(self.actual)

    def track_inside(self, dataset):
        return ((self.low <= self.actual) & (self.actual <= self.high)).mean()

    def track_earlier(self, dataset):
        return (self.actual < self.low).mean()

    def track_later(self, dataset):
        return (self.actual > self.high).mean()

    def track_ratio(self, dataset):
        has = np.isfinite(self.median) & np.isfinite(self.actual)
        return np.median(self.actual[has] / self.median[has])


class Nulls(_Streams):
    """How often the first of two equal encoders is called worse, in 1,000 labels."""

    unit = "share of 2,000 pairs of equal encoders in which the first was called worse"
    param_names = ["nulls"]
    formats = dict.fromkeys([f"track_{m.replace('-', '_')}" for m in METHODS], ".4f")

    def prepare(self):
        super().prepare()
        self.params = [["signs flipped", "coins"]]

    def setup(self, nulls):
        rng = np.random.default_rng(0)
        make = {"signs flipped": self._flipped, "coins": _coins}[nulls]
        self.streams, self.n_classes = make(rng)

    def _flipped(self, rng):
        """Return losses of pairs, swapped at random for each label, and 10 classes."""
        pairs, names = [], sorted(self.losses)
        while len(pairs) < N_NULLS:
            streams = self.losses[names[rng.integers(len(names))]]
            losses = streams[rng.integers(len(streams))]
            pairs.append(losses[:, rng.choice(losses.shape[1], 2, replace=False)])
        drawn = np.stack(pairs)
        swap = rng.random((*drawn.shape[:2], 1)) < 0.5
        return np.where(swap, drawn[..., ::-1], drawn), 10

    def _called(self, method):
        race = raced(self.streams, self.n_classes, method)
        return (race.out_at[:, 0] > 0).mean()

    def track_exact(self, nulls):
        return self._called("exact")

    def track_asymptotic(self, nulls):
        return self._called("asymptotic")

    def track_t_test(self, nulls):
        return self._called("t-test")


def _coins(rng):
    """Return losses of forecasts of coin flips and of the opposites, and 2 classes."""
    coins = rng.random((N_NULLS, MOST)) < 0.5
    before = np.pad(coins.cumsum(1), ((0, 0), (1, 0)))[:, :-1]
    share = (before + 0.5) / (np.arange(MOST) + 1)
    p = 0.5 + np.clip(10 * (share - 0.5), -0.45, 0.45)
    losses = [-np.log(np.where(coins, q, 1 - q)) for q in (p, 1 - p)]
    return np.stack(losses, axis=-1), 2


class _TTest(LossRace):
    """A race by t-tests with Bonferroni's correction, repeated after every label."""

    def log_values(self, method=None):
        if method == "exact":
            return super().log_values(method)
        n = np.maximum(self.sums.n, LEAST)
        sd = np.sqrt(self.sums.variances * n / (n - 1))
        t = self.sums.means / np.maximum(sd, 1e-12) * np.sqrt(n)
        return np.where(self.sums.n >= LEAST, -student.logsf(t, n - 1), -np.inf)


def raced(streams, n_classes, method, *, alpha=0.05, within=None, labels=None):
    """Run races in parallel on streams of shape (n_races, n_labels, n_encoders)."""
    shape = len(streams), streams.shape[-1]
    options = {"alpha": alpha, "within": within, "start": START}
    if method == "t-test":
        race = _TTest(shape, None, method="asymptotic", **options)
    else:
        race = LossRace(shape, n_classes, method=method, **options)
    for n, losses in enumerate(streams.transpose(1, 0, 2)):
        race.add(losses, None if labels is None else labels[:, n])
    return race


class Rivals(_Streams):
    """Labels and wrong choices of races, codes, probes, tests and halving."""

    def prepare(self):
        kept = self.kept = Kept.from_json(json.loads(KEPT.read_text()))
        super().prepare()
        self.found = {}  # rows of (labels, accuracy lost), keyed by rule
        for dataset, (features, y) in self.data.items():
            later = kept.accuracy[dataset, MOST]
            truth = np.array([later[kept.encoders.index(name)] for name in features])
            streams = self.races(dataset)
            for rule, labels, chosen in self._rules(dataset, features, y, streams):
                rows = self.found.setdefault(rule, {})
                lost = truth.max() - truth[chosen]
                rows[dataset] = np.transpose([labels, lost])

    def _rules(self, dataset, features, y, streams):
        """Yield each rule, with the labels and the chosen encoder for each order."""
        orders = np.arange(len(streams))
        given = {"n_classes": self.n_classes(dataset), "labels": self.classes(dataset)}
        for method in ("asymptotic", "exact"):
            for within in WITHIN:
                race = raced(streams, method=method, within=within, **given)
                has = race.stopped_at > 0
                labels = np.where(has, race.stopped_at, streams.shape[1])
                chosen = np.where(has, race.leader_at_stop, race.leader)
                yield f"race, {method}, within {within:g}", labels, chosen
        right = np.stack(
            [probed(dataset, features, np.asarray(y), i, self.results) for i in orders]
        )
        for n in CHECKPOINTS:
            chosen = streams[:, :n].mean(1).argmin(-1)
            yield f"code of {n:4d} labels", np.full(len(orders), n), chosen
        for i, n in enumerate(CHECKPOINTS):
            chosen = right[:, i, :, :n].mean(-1).argmax(-1)
            yield f"probe of {n:4d} labels", np.full(len(orders), n), chosen
        for level in (0.01, 0.05, 0.2):
            for within in (0.01, 0.02, 0.05, 0.1):
                picks = [tested(one, level, within) for one in right]
                rule = f"tests of probes, {level:g}, within {within:g}"
                yield rule, *np.transpose(picks)
        for first in (12, 25, 50, 100, 200):
            picks = [halved(one, first) for one in right]
            yield f"halving of probes from {first:3d}", *np.transpose(picks)
        for n in (50, 100, 200, 400, 800):
            shares = [known_on_all(features, np.asarray(y), i, n) for i in orders]
            chosen = np.argmax(shares, axis=-1)
            yield f"known accuracy of probes of {n:3d}", np.full(len(orders), n), chosen

    def report(self, table):
        print("rule, labels (mean, median), share of wrong choices, accuracy lost\n")
        means = {}
        for rule, by_dataset in self.found.items():
            labels, lost = np.concatenate(list(by_dataset.values())).T
            means[rule] = labels.mean(), (lost > WRONG).mean(), lost.mean()
            n, wrong, regret = means[rule]
            numbers = f"{n:6.0f} {np.median(labels):6.0f} {wrong:8.3f} {regret:9.4f}"
            print(f"{rule:42s} {numbers}")
        for within in (0.1, 0.2):
            own = f"race, asymptotic, within {within:g}"
            print(f"\n{own}: median labels by dataset")
            for dataset, rows in self.found[own].items():
                print(f"  {dataset:12s} {np.median(rows[:, 0]):6.0f}")
            print("fewest mean labels without more wrong choices")
            print(f"  {own:32s} {means[own][0]:6.0f}")
            for kind in ("race, exact", "code", "probe", "tests", "halving", "known"):
                good = {
                    rule: row[0]
                    for rule, row in means.items()
                    if rule.startswith(kind) and row[1] <= means[own][1]
                }
                best = min(good, key=good.get) if good else f"{kind}: none"
                print(f"  {best:32s} {good.get(best, np.nan):6.0f}")


class Updates:
    """CPU seconds to add a label to a race of 16 encoders with 500 labels."""

    options = FEATURES
    params = [["labels of a folder kept", "nothing kept"]]
    param_names = ["race"]

    def setup(self, race):
        features, y = load_feature_directory(self.folder)["mnist"]
        self.y = np.asarray(y)
        arrays = {name: np.asarray(X) for name, X in features.items()}
        halves = {f"{n}, half": X[:, ::2] for n, X in list(arrays.items())[:5]}
        self.features = arrays | halves
        self.folder_of_race = TemporaryDirectory()
        kept = self.folder_of_race.name if race != "nothing kept" else None
        # Use an alpha so small that all encoders stay.
        options = {"alpha": 1e-300, "folder": kept}
        self.race = EncoderRace(list(self.features), 10, **options)
        self._add(500)

    def _add(self, n):
        start = self.race.resume().n_labels_
        rows = {name: X[start : start + n] for name, X in self.features.items()}
        self.race.update(rows, self.y[start : start + n])

    def track_cpu_seconds(self, race):
        seconds = []
        for _ in range(20):
            start = time.process_time()
            self._add(1)
            seconds.append(time.process_time() - start)
        assert len(self.race.alive_) == 16
        return np.median(seconds)


class Figure:
    """A figure of a race on one dataset."""

    options = {
        **FEATURES,
        "--dataset": {"default": "mnist", "help": "name of a dataset (%(default)s)"},
        "--out": {
            "type": Path,
            "default": Path("docs/images/race.png"),
            "help": "PNG to write (%(default)s)",
        },
    }

    def report(self, table):
        features, y = load_feature_directory(self.folder)[self.dataset]
        y = np.asarray(y)
        race = EncoderRace(list(features), len(np.unique(y)), within=0.2).resume()
        while not race.should_stop_ and race.n_labels_ + 10 <= len(y):
            rows = slice(race.n_labels_, race.n_labels_ + 10)
            now = {name: np.asarray(X)[rows] for name, X in features.items()}
            race.update(now, y[rows])
        display = RaceDisplay.from_race(race)
        display.figure_.savefig(self.out, dpi=80, metadata={"Software": None})
        print(race.verdict(), f"\nwrote {self.out}")


class Halves(_Streams):
    """Agreement of reference scores with the code of all labels or of the last half."""

    unit = "Kendall's tau with reference scores, mean over orders"
    param_names = ["dataset", "labels"]
    formats = dict.fromkeys(["track_whole", "track_last_half"], ".3f")
    summarise = True

    def prepare(self):
        self.kept = Kept.from_json(json.loads(KEPT.read_text()))
        super().prepare()
        self.params = [sorted(self.data), [300, 1000]]

    def _tau(self, dataset, n, first):
        later = self.kept.accuracy[dataset, MOST]
        truth = [later[self.kept.encoders.index(k)] for k in self.data[dataset][0]]
        codes = self.races(dataset)[:, first:n].mean(1)
        return np.mean([kendalltau(truth, -code).statistic for code in codes])

    def track_whole(self, dataset, n):
        return self._tau(dataset, n, 0)

    def track_last_half(self, dataset, n):
        return self._tau(dataset, n, n // 2)
