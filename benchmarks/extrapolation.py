"""Extrapolation: how often intervals of ``extrapolate`` hold the end of a hidden half.

Every encoder's features of a dataset are scored on all rows, or the first ``--rows`` in
the order that is drawn, by the list "closed-form". Of the losses the later half is
hidden; from the first half the codelength of all labels is predicted, and the sign of
every pair's difference. Settings of ``extrapolate`` were chosen on draws of 300 rows.
With ``--results`` cells are kept; without, all are scored again.
"""

import tempfile
from itertools import combinations

import numpy as np

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.metrics import extrapolate


class Ends:
    """Shares of hidden ends that lie in the intervals, and what is told of pairs."""

    options = {
        "folder": {"help": "folder of features, as load_feature_directory reads it"},
        "--results": {"default": None, "help": "where cells are kept"},
        "--rows": {"type": int, "default": None, "help": "rows of each dataset"},
        "--level": {"type": float, "default": 0.9, "help": "level of the intervals"},
    }
    param_names = ["dataset"]
    unit = (
        "curves; ends in their intervals; median half width and error as shares of the "
        "end; shares of no answer; pairs, those with a sign, and right signs"
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
        rows = slice(self.rows)
        task = {name: np.asarray(X[rows]) for name, X in features.items()}, y[rows]
        switcher = MDLReadoutSwitcher(readouts="closed-form")
        with tempfile.TemporaryDirectory() as folder:
            scorer = RepresentationScorer(switcher, results=self.results or folder)
            cells = scorer.fit({dataset: task}).cells_
            losses = np.array([cell.codelengths for cell in cells])
        n = losses.shape[1]
        self.found = extrapolate(losses[:, : n // 2], n, level=self.level)
        self.ends = losses.sum(1)
        self.half = (self.found.upper - self.found.lower) / 2 / self.ends
        self.halves.extend(self.half)
        pairs = list(combinations(range(len(cells)), 2))
        differences = np.array([self.found.difference(*pair) for pair in pairs])
        signs = np.sign(differences[:, 1]) * (differences[:, 1:].prod(1) > 0)
        ends = np.array([self.ends[i] - self.ends[j] for i, j in pairs])
        self.signs, self.is_right = signs, signs * ends > 0

    def track_curves(self, dataset):
        return len(self.ends)

    def track_inside(self, dataset):
        found = self.found
        return ((found.lower <= self.ends) & (self.ends <= found.upper)).sum()

    def track_half_width(self, dataset):
        return np.median(self.half)

    def track_error(self, dataset):
        return np.median(np.abs(self.found.values / self.ends - 1))

    def track_untold(self, dataset):
        return (~self.found.can_tell).sum()

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
            f"ends inside, median half width {np.median(self.halves):.3f} of the end, "
            f"no answer {total['untold'] / total['curves']:.3f}; {total['pairs']} "
            f"pairs: {total['signs'] / total['pairs']:.3f} have a sign, "
            f"{total['right_signs'] / total['signs']:.3f} of these are right"
        )
