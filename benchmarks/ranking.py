"""Rankings: time of tests and of storing results, and coverage of intervals.

``speed`` times every statistic on one core, on random codelengths of 50 datasets. Tests
of all pairs are timed for 40 encoders, and the other statistics for 1,000; the win
table is timed for both. ``coverage`` draws tables of five encoders with known true
average ranks, and counts how often the intervals of ``rank_intervals`` contain these
ranks. ``overhead`` ranks ten encoders on ten datasets in two orders. Each of the 200
cells (one encoder, dataset and order) scores four readouts and is saved on disk. The
benchmark compares the time of ``fit`` with the time spent on scoring the cells, and
then times a second ``fit``, which reads all cells from disk.
"""

import tempfile
import time

import numpy as np
from scipy.stats import norm
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.ranking import (
    average_ranks,
    bayesian_signed_rank,
    friedman_test,
    nemenyi_critical_difference,
    pairwise_wilcoxon,
    rank_groups,
    rank_intervals,
    win_table,
)

ALL = {
    "average ranks": average_ranks,
    "Friedman, Iman-Davenport": friedman_test,
    "critical difference": lambda s: nemenyi_critical_difference(*s.shape[::-1]),
    "groups": lambda s: rank_groups(
        average_ranks(s), nemenyi_critical_difference(*s.shape[::-1])
    ),
    "bootstrap, 1,000 resamples": rank_intervals,
    "win table": win_table,
    "Wilcoxon, Holm, top 40": lambda s: pairwise_wilcoxon(s, top_k=40),
}
PAIRS = {
    "Wilcoxon, Holm": pairwise_wilcoxon,
    "Wilcoxon, Holm, with ties": lambda s: pairwise_wilcoxon(s.round(1)),
    "Bayesian, 50,000 draws": bayesian_signed_rank,
    "win table": win_table,
}
STATISTICS = {1000: ALL, 40: PAIRS}
QUALITIES = np.array([0.0, 0.2, 0.5, 1.0, 1.5])
LEVELS = (0.8, 0.9, 0.95)


class Speed:
    """Seconds that every statistic takes on one core."""

    params = [list(STATISTICS), list({**ALL, **PAIRS})]
    param_names = ["encoders", "statistic"]
    unit = "seconds, 50 datasets"
    formats = {"time_seconds": ".3f"}

    def has(self, n_encoders, name):
        return name in STATISTICS[n_encoders]

    def setup(self, n_encoders, name):
        rng = np.random.default_rng(0)
        self.codelengths = rng.gamma(9.0, size=(50, n_encoders))

    def time_seconds(self, n_encoders, name):
        with threadpool_limits(1):
            STATISTICS[n_encoders][name](self.codelengths)

    def report(self, table):
        for n in STATISTICS:
            times = [v["time_seconds"][0] for row, v in table.items() if row[0] == n]
            print(f"{n} encoders, together {sum(times):.3f} s")


class Coverage:
    """Shares of intervals that contain the true average rank, by level."""

    options = {"--tables": {"type": int, "default": 2000, "help": "tables per row"}}
    params = [[2, 3, 4, 5, 7, 10, 19, 50, 200]]
    param_names = ["datasets"]
    unit = "shares, and the mean width at the level of 90 %"
    formats = {
        **{f"track_level_{100 * level:.0f}": ".1%" for level in LEVELS},
        "track_width": ".2f",
    }

    def setup(self, n_datasets):
        rng = np.random.default_rng(n_datasets)
        gaps = QUALITIES[:, None] - QUALITIES
        truth = 0.5 + norm.cdf(gaps / np.sqrt(2)).sum(axis=1)
        self.covered, self.width = dict.fromkeys(LEVELS, 0.0), 0.0
        for _ in range(self.tables):
            scores = rng.normal(QUALITIES, size=(n_datasets, len(QUALITIES)))
            for level in LEVELS:
                ranks = rank_intervals(scores, level=level, random_state=rng)
                covers = (ranks.lower <= truth) & (truth <= ranks.upper)
                self.covered[level] += covers.mean() / self.tables
                if level == 0.9:
                    self.width += (ranks.upper - ranks.lower).mean() / self.tables

    def track_level_80(self, n_datasets):
        return self.covered[0.8]

    def track_level_90(self, n_datasets):
        return self.covered[0.9]

    def track_level_95(self, n_datasets):
        return self.covered[0.95]

    def track_width(self, n_datasets):
        return self.width


class Overhead:
    """Seconds to fit a ranking of 200 cells, and to score these cells alone."""

    params = [["scored", "read from disk"]]
    param_names = ["cells"]
    unit = "seconds; scoring is the time of the first fit, in both rows"
    formats = {f"track_{name}": ".2f" for name in ("fit", "scoring")}

    def prepare(self, n_encoders=10, n_datasets=10, n_samples=1000):
        self.data = {}
        for d in range(n_datasets):
            X, y = make_classification(
                n_samples, 64, n_informative=16, n_classes=10, random_state=d
            )
            features = {
                f"encoder {e}": np.roll(X, e, axis=1) for e in range(n_encoders)
            }
            self.data[f"dataset {d}"] = features, y
        self.folder = tempfile.TemporaryDirectory()

    def setup(self, title):
        readouts = readout_grid(hidden_layer_sizes=[(), (32,)], lr=[3e-3, 1e-2])
        self.scorer = RepresentationScorer(
            MDLReadoutSwitcher(readouts, device="cpu"),
            n_orders=2,
            results=self.folder.name,
        )

    def track_fit(self, title):
        start = time.perf_counter()
        with threadpool_limits(1):
            self.scorer.fit(self.data)
        return time.perf_counter() - start

    def track_scoring(self, title):
        return sum(cell.seconds for cell in self.scorer.cells_)

    def report(self, table):
        scored = table["scored",]
        share = scored["track_fit"][0] / scored["track_scoring"][0] - 1
        print(f"fit took {share:.2%} longer than scoring")
        self.folder.cleanup()
