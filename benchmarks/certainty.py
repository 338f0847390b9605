"""Certainty: how often a choice with a high stated probability is right.

``choices`` and ``spread`` rank encoders on disjoint draws of a dataset's rows, in two
orders. They use the list "linear", which is the default for so few labels, or another
list. With ``n`` labels, a task has at most the ``n / 5`` most frequent classes. For
each draw, ``choices`` finds the best of all encoders and of random subsets. It counts
how often this encoder has the shortest code on average over all other draws. If
``choice.json`` has the reference scores for the dataset and ``n``, ``choices`` also
counts how often the chosen encoder is the most accurate, and how much accuracy the
choice loses. ``spread`` measures the standard deviation of paired differences over
draws. It divides this by the standard error computed from the losses of a single draw,
without the factor ``TRAINING``. We chose that factor on three datasets, with the list
"closed-form"; these datasets are counted separately. ``nulls`` ranks simulated encoders
that are equally good, and counts false alarms.

With ``--results``, cells are saved and reused. Without it, all cells are scored again.
"""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from typing import ClassVar

import numpy as np

from benchmarks._choice_tables import Kept
from benchmarks._data import tables_of
from benchmarks.choice import KEPT
from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.model_selection import Ranking
from sklearn_mdl.model_selection._certainty import TRAINING

CHOSEN_ON = ("caltech101", "cifar10", "gtsrb")
N_DRAWS = {100: 8, 200: 6, 300: 5}
N_ORDERS = 2
N_SUBSETS = 12
LEAST, MOST = 0.8, 0.95
NULLS = {(60, 1), (60, 4), (60, 10), (200, 1), (200, 4)}  # numbers of labels and orders
N_EQUAL = 4  # number of equally good encoders
COUNTS = ("choices", "said", "right", "surer", "surer_right")
TRUTHS = ("judged", "true", "regret")
GROUPS = {
    "chosen on": lambda name: name in CHOSEN_ON,
    "others": lambda name: name not in CHOSEN_ON,
    "all": lambda name: True,
}


def draws_of(features, y, n):
    """Return disjoint draws of ``n`` rows from the most frequent classes."""
    classes, counts = np.unique(y, return_counts=True)
    kept = classes[np.argsort(-counts, kind="stable")[: max(2, n // 5)]]
    rows = np.random.default_rng(n).permutation(np.flatnonzero(np.isin(y, kept)))
    draws = np.split(rows[: n * (len(rows) // n)], len(rows) // n)[: N_DRAWS[n]]
    return [
        ({name: np.asarray(X)[chosen] for name, X in features.items()}, y[chosen])
        for chosen in draws
    ]


def later_accuracies(dataset, n):
    """Return the reference score of each encoder in ``choice.json``, or None."""
    known = Kept.from_json(json.loads(KEPT.read_text()))
    scores = known.accuracy.get((dataset, n))
    return None if scores is None else dict(zip(known.encoders, scores, strict=True))


class _Draws:
    """Rankings of the draws of a dataset, for one number of labels."""

    options = {
        "folder": {"help": "folder of features, as load_feature_directory reads it"},
        "--results": {"default": None, "help": "folder in which cells are saved"},
        "--readouts": {"default": "linear", "help": "name of a list (%(default)s)"},
        "--orders": {"type": int, "default": N_ORDERS, "help": "number of orders (2)"},
    }
    param_names = ["labels", "dataset"]
    least = 2  # number of encoders

    def prepare(self):
        self.data = tables_of(self.folder, self.least)
        self.params = [list(N_DRAWS), sorted(self.data)]

    def setup(self, n, dataset):
        features, y = self.data[dataset]
        draws = draws_of(features, np.asarray(y), n)
        named = {f"{dataset} {n} {k}": draw for k, draw in enumerate(draws)}
        switcher = MDLReadoutSwitcher(readouts=self.readouts)
        self.scorer = RepresentationScorer(
            switcher, n_orders=max(N_ORDERS, self.orders), results=self.results
        ).fit(named)
        self.draws = [
            [cell for cell in self.scorer.cells_ if cell.dataset == name]
            for name in named
        ]

    def codelengths(self):
        """Return codelengths (n_draws, n_encoders), averaged over the orders."""
        return self.scorer.order_codelengths_[:, :, : self.orders].mean(-1)

    def rankings(self, encoders):
        """Return rankings of some encoders, one for each draw."""
        for cells in self.draws:
            yield Ranking(
                [
                    cell
                    for cell in cells
                    if cell.encoder in encoders and cell.order < self.orders
                ]
            )


class Choices(_Draws):
    """Shares of choices that are right, by their stated probability."""

    unit = "choices with probability 0.8 to 0.95, and above, and how many were right"
    least = 5
    formats = {
        **dict.fromkeys(["track_choices", "track_right"], "g"),
        **dict.fromkeys(["track_surer", "track_surer_right"], "g"),
        **dict.fromkeys(["track_judged", "track_true"], "g"),
        "track_regret": ".4f",
        "track_said": ".3f",
    }

    def setup(self, n, dataset):
        super().setup(n, dataset)
        names, rng = self.scorer.encoder_names_, np.random.default_rng(n)
        codes, rows = self.codelengths(), []
        truth = later_accuracies(dataset, n)
        subsets = [
            rng.choice(names, 2 + k % 4, replace=False) for k in range(N_SUBSETS)
        ]
        for subset in [names, *map(list, subsets)]:
            columns = [names.index(name) for name in names if name in subset]
            for k, ranking in enumerate(self.rankings(subset)):
                best = ranking.best()
                others = np.delete(codes[:, columns], k, axis=0).mean(0)
                right = names[columns[int(others.argmin())]]
                lost = truth and max(map(truth.get, subset)) - truth[best.encoder]
                lost = np.nan if lost is None else lost
                rows.append((best.probability, right == best.encoder, lost))
        stated, is_right, self.lost = np.array(rows).T
        self.stated, self.is_right = stated, is_right.astype(bool)
        self.is_sure = (stated >= LEAST) & (stated < MOST)

    def track_choices(self, n, dataset):
        return self.is_sure.sum()

    def track_said(self, n, dataset):
        return self.stated[self.is_sure].mean() if self.is_sure.any() else 0.0

    def track_right(self, n, dataset):
        return (self.is_sure & self.is_right).sum()

    def track_surer(self, n, dataset):
        return (self.stated >= MOST).sum()

    def track_surer_right(self, n, dataset):
        return (self.is_right & (self.stated >= MOST)).sum()

    def track_judged(self, n, dataset):
        """Number of choices with probability 0.8 to 0.95 and known reference scores."""
        return np.isfinite(self.lost[self.is_sure]).sum()

    def track_true(self, n, dataset):
        return (self.lost[self.is_sure] == 0).sum()

    def track_regret(self, n, dataset):
        """Mean accuracy lost by choices with probability 0.8 to 0.95."""
        lost = self.lost[self.is_sure]
        return np.nanmean(lost) if np.isfinite(lost).any() else 0.0

    def report(self, table):
        rows = {
            key: np.array([values[f"track_{name}"][0] for name in COUNTS + TRUTHS])
            for key, values in table.items()
        }
        for title, is_in in GROUPS.items():
            counts = np.array([row for (_, name), row in rows.items() if is_in(name)])
            n_sure, stated, right, n_surer, surer_right, n_judged, true, lost = counts.T
            rng = np.random.default_rng(0)
            draws = rng.integers(0, len(counts), (1000, len(counts)))
            shares = right[draws].sum(1) / n_sure[draws].sum(1)
            low, high = np.quantile(shares, [0.05, 0.95])
            n_all, n_beyond = n_sure.sum(), n_surer.sum()
            print(
                f"{title}: {n_all:.0f} choices, stated {stated @ n_sure / n_all:.3f}, "
                f"right {right.sum() / n_all:.3f} [{low:.3f}, {high:.3f}]; surer "
                f"{n_beyond:.0f}, right {surer_right.sum() / n_beyond:.3f}; of "
                f"{n_judged.sum():.0f} choices the most accurate later: "
                f"{true.sum() / n_judged.sum():.3f}, accuracy lost "
                f"{lost @ n_judged / n_judged.sum():.4f}"
            )


class Spread(_Draws):
    """Standard deviations over draws, divided by the estimates from one draw."""

    unit = "standard deviation over draws / estimate from rows and orders of one draw"
    formats = {"track_ratio": ".2f"}

    def track_ratio(self, n, dataset):
        codes = self.codelengths()
        pairs = list(combinations(range(codes.shape[1]), 2))
        over = [np.var(codes[:, i] - codes[:, j], ddof=1) for i, j in pairs]
        within = []
        for ranking in self.rankings(self.scorer.encoder_names_):
            (sample,) = ranking.codelength_samples_
            rows = replace(sample, contrasts=sample.contrasts / TRAINING)
            within.append(np.mean([rows.variance(i, j)[0] for i, j in pairs]))
        return np.sqrt(np.mean(over) / np.mean(within))

    def report(self, table):
        for title, is_in in GROUPS.items():
            ratio = [
                v["track_ratio"][0] for (_, name), v in table.items() if is_in(name)
            ]
            print(f"{title}: root mean square {np.sqrt(np.mean(np.square(ratio))):.2f}")


def equal_encoders(seed, n_samples, n_classes=3, n_features=8, is_separated=False):
    """Return the features of equally good encoders, keyed by name, and the labels.

    All encoders share the signal and half of the noise variance. If ``is_separated``,
    ten classes have one axis each and are well separated, and all noise is independent.
    """
    rng = np.random.default_rng([n_samples, seed])
    if is_separated:
        y = rng.integers(10, size=n_samples)
        X = 3.0 * np.eye(10)[y]
        return {str(e): X + rng.standard_normal(X.shape) for e in range(N_EQUAL)}, y
    y = rng.integers(n_classes, size=n_samples)
    X = rng.standard_normal((n_classes, n_features))[y]
    X += rng.standard_normal(X.shape)
    return {str(e): X + rng.standard_normal(X.shape) for e in range(N_EQUAL)}, y


class Nulls:
    """False alarms when all encoders are equally good."""

    options = {
        "--runs": {"type": int, "default": 500, "help": "draws (default: %(default)s)"},
        "--readouts": {"default": "linear", "help": "name of a list (%(default)s)"},
        "--separated": {
            "action": "store_true",
            "help": "ten well-separated classes (default: three that overlap)",
        },
    }
    param_names = ["labels", "orders", "encoders"]
    unit = "share of draws with an encoder that is called worse, or best (p >= 0.95)"
    formats = {"track_worse": ".3f", "track_sure": ".3f"}
    cells: ClassVar[dict] = {}  # cells of all draws, keyed by the number of labels

    def prepare(self):
        self.params = [*map(sorted, map(set, zip(*NULLS, strict=True))), [2, N_EQUAL]]

    def has(self, n, n_orders, n_encoders):
        return (n, n_orders) in NULLS

    def setup(self, n, n_orders, n_encoders):
        if n not in self.cells:
            most = max(orders for labels, orders in NULLS if labels == n)
            scorer = RepresentationScorer(
                MDLReadoutSwitcher(readouts=self.readouts), n_orders=most
            )
            draws = {
                str(k): equal_encoders(k, n, is_separated=self.separated)
                for k in range(self.runs)
            }
            self.cells[n] = scorer.fit(draws).cells_
        by_draw = defaultdict(list)
        for cell in self.cells[n]:
            if cell.order < n_orders and int(cell.encoder) < n_encoders:
                by_draw[cell.dataset].append(cell)
        self.verdicts = [
            Ranking(cells, alpha=0.1).verdict().datasets[0]
            for cells in by_draw.values()
        ]

    def track_worse(self, n, n_orders, n_encoders):
        return np.mean([bool(verdict.worse) for verdict in self.verdicts])

    def track_sure(self, n, n_orders, n_encoders):
        return np.mean([verdict.best.probability >= MOST for verdict in self.verdicts])
