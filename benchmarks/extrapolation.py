"""Extrapolation: how often the intervals of ``extrapolate`` contain the hidden values.

``families`` draws curves with known expected losses and exponential noise. ``ends``
hides the later half of real curves. The list "closed-form" scores every encoder of a
dataset on all rows, or on ``--draws`` draws of ``--rows`` rows. From the first half, we
predict the codelength of all labels and the sign of every pair's difference. With
``--results``, cells are saved and reused. Without it, all cells are scored again.

We chose the settings of ``extrapolate`` on similar families with other horizons and
seeds. We also looked at draws of 300, 700 and 1,400 real rows, so the real curves are
not an independent test.
"""

import tempfile
from itertools import combinations

import numpy as np

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.metrics import extrapolate

HORIZONS = ((120, 480), (350, 700), (600, 2400))


def _late(onset, power):
    return lambda t, n: np.where(t < onset * n, 1.6, 1.6 * (t / n / onset) ** -power)


# Expected losses after t labels, if the first n are observed.
FAMILIES = {
    "flat": [lambda t, n: 0.7 + 0 * t, lambda t, n: 1 + 3 / t],
    "falling": [
        lambda t, n: 0.35 + 1.2 * t**-0.6,
        lambda t, n: 1.8 * t**-0.25,
        lambda t, n: 0.15 + 2.5 * (t + 10) ** -0.5,
    ],
    "falling late": [_late(0.45, 0.8), _late(0.35, 0.5), _late(0.5, 0.7)],
    "exponential": [
        lambda t, n: 1.8 * np.exp(-1.6 * t / n) + 0.2,
        lambda t, n: 1.8 * np.exp(-2.5 * t / n) + 0.3,
        lambda t, n: 2 * np.exp(-t / 250) + 0.25,
    ],
    "hardly begun to fall": [_late(0.7, 0.5), _late(0.85, 1.0)],
}


def ends_held(family, n_seen, n, *, n_curves, seed):
    """Return an array (4, n_functions * n_curves) about intervals of random curves.

    The rows are: whether the codelength of ``n`` labels is in the interval, whether the
    codelength is above the interval, ``is_precise``, and the half-width of the interval
    relative to the codelength.
    """
    rng, t = np.random.default_rng(seed), np.arange(1.0, n + 1)
    rows = []
    for law in FAMILIES[family]:
        losses = law(t, n_seen) * rng.exponential(size=(n_curves, n))
        one = extrapolate(losses[:, :n_seen], n)
        ends, half = losses.sum(1), (one.upper - one.lower) / 2
        inside = (one.lower <= ends) & (ends <= one.upper)
        rows.append((inside, ends > one.upper, one.is_precise, half / ends))
    return np.concatenate(rows, axis=1)


class Families:
    """Shares of codelengths in the intervals, with known expected losses."""

    options = {
        "--curves": {"type": int, "default": 200, "help": "curves per function (200)"},
        "--seed": {"type": int, "default": 8, "help": "seed of the noise (8)"},
    }
    param_names = ["family"]
    params = [list(FAMILIES)]
    unit = "shares of curves: end in interval, end above, precise; median half-width"
    formats = dict.fromkeys(
        ["track_inside", "track_above", "track_told", "track_half_width"], ".3f"
    )

    def setup(self, family):
        found = [
            ends_held(family, *ends, n_curves=self.curves, seed=self.seed)
            for ends in HORIZONS
        ]
        self.found = np.concatenate(found, axis=1)

    def track_inside(self, family):
        return self.found[0].mean()

    def track_above(self, family):
        return self.found[1].mean()

    def track_told(self, family):
        return self.found[2].mean()

    def track_half_width(self, family):
        return np.median(self.found[3])


def signs_of(found, ends):
    """Return the predicted sign of each difference (0: unknown), and if it is right."""
    pairs = list(combinations(range(len(ends)), 2))
    intervals = np.array([found.difference(*pair)[1:] for pair in pairs])
    signs = np.sign(intervals[:, 0]) * (intervals.prod(1) > 0)
    differences = np.array([ends[i] - ends[j] for i, j in pairs])
    return signs, signs * differences > 0


class Ends:
    """Numbers of hidden codelengths in the intervals, and of correct signs."""

    options = {
        "folder": {"help": "folder of features, as load_feature_directory reads it"},
        "--results": {"default": None, "help": "folder in which cells are saved"},
        "--rows": {"type": int, "default": None, "help": "rows per draw (all)"},
        "--draws": {"type": int, "default": 1, "help": "number of disjoint draws"},
        "--level": {"type": float, "default": 0.9, "help": "level of the intervals"},
    }
    param_names = ["dataset"]
    unit = (
        "curves; ends in their intervals; median half-width and error as shares of the "
        "end; curves without an answer; pairs; pairs with a sign; right signs"
    )
    formats = {
        **dict.fromkeys(["track_curves", "track_inside", "track_untold"], "g"),
        **dict.fromkeys(["track_half_width", "track_error"], ".3f"),
        **dict.fromkeys(["track_pairs", "track_signs", "track_right_signs"], "g"),
    }

    def prepare(self):
        self.data = load_feature_directory(self.folder)
        self.params = [sorted(self.data)]
        self.halves = []

    def setup(self, dataset):
        features, y = self.data[dataset]
        width = self.rows or len(y)
        draws = [slice(k * width, (k + 1) * width) for k in range(self.draws)]
        results = [self.draw(dataset, features, y, rows) for rows in draws]
        self.found, self.ends = zip(*results, strict=True)
        parts = ("values", "lower", "upper", "is_precise")
        values, lower, upper, self.is_precise = (
            np.concatenate([getattr(one, name) for one in self.found]) for name in parts
        )
        signs, is_right = zip(*map(signs_of, self.found, self.ends), strict=True)
        self.signs, self.is_right = np.concatenate(signs), np.concatenate(is_right)
        ends = np.concatenate(self.ends)
        self.inside = (lower <= ends) & (ends <= upper)
        self.half, self.error = (upper - lower) / 2 / ends, np.abs(values / ends - 1)
        self.halves.extend(self.half)

    def draw(self, dataset, features, y, rows):
        """Return extrapolations from the first half of rows, and true codelengths."""
        task = {name: np.asarray(X[rows]) for name, X in features.items()}, y[rows]
        switcher = MDLReadoutSwitcher(readouts="closed-form")
        with tempfile.TemporaryDirectory() as folder:
            scorer = RepresentationScorer(switcher, results=self.results or folder)
            cells = scorer.fit({dataset: task}).cells_
            losses = np.array([cell.codelengths for cell in cells])
        n = losses.shape[1]
        return extrapolate(losses[:, : n // 2], n, level=self.level), losses.sum(1)

    def track_curves(self, dataset):
        return len(self.inside)

    def track_inside(self, dataset):
        return self.inside.sum()

    def track_half_width(self, dataset):
        return np.median(self.half)

    def track_error(self, dataset):
        return np.median(self.error)

    def track_untold(self, dataset):
        return (~self.is_precise).sum()

    def track_pairs(self, dataset):
        return len(self.signs)

    def track_signs(self, dataset):
        return np.count_nonzero(self.signs)

    def track_right_signs(self, dataset):
        return self.is_right.sum()

    def report(self, table):
        names = ("curves", "inside", "untold", "pairs", "signs", "right_signs")
        total = {
            name: sum(values[f"track_{name}"][0] for values in table.values())
            for name in names
        }
        print(
            f"{total['curves']} curves: {total['inside'] / total['curves']:.3f} of the "
            f"ends inside, median half-width {np.median(self.halves):.3f} of the end, "
            f"no answer {total['untold'] / total['curves']:.3f}; {total['pairs']} "
            f"pairs: {total['signs'] / total['pairs']:.3f} have a sign, "
            f"{total['right_signs'] / total['signs']:.3f} of these are right"
        )
