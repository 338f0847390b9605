"""Rankings: what statistics and cells cost in seconds, and what intervals cover.

    python benchmarks/bench_ranking.py speed
    python benchmarks/bench_ranking.py coverage
    python benchmarks/bench_ranking.py overhead

The first times every statistic on one core, on random codelengths: those of average
ranks at 1,000 encoders and 50 datasets, those of pairs at 40 and 50. The second draws
tables of five encoders whose true average ranks are known, and counts how often the
intervals of `rank_intervals` hold them. The third ranks ten encoders on ten datasets in
two orders, 200 cells with a board of four readouts, kept on disk, and compares the time
of `fit` with that of the walks in it; then it reads them all from the disk.
"""

import argparse
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

POOL = {
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
QUALITIES = np.array([0.0, 0.2, 0.5, 1.0, 1.5])


def bench_speed():
    """Print the seconds of every statistic, and their sums."""
    for title, statistics, n_encoders in (
        ("statistics of the pool", POOL, 1000),
        ("statistics of all pairs", PAIRS, 40),
    ):
        codelengths = np.random.default_rng(0).gamma(9.0, size=(50, n_encoders))
        print(f"{title}, {n_encoders} encoders, 50 datasets")
        total = 0.0
        for name, statistic in statistics.items():
            start = time.perf_counter()
            statistic(codelengths)
            seconds = time.perf_counter() - start
            total += seconds
            print(f"  {name:30s}{seconds:8.3f} s")
        print(f"  {'together':30s}{total:8.3f} s\n")


def bench_coverage(n_tables=2000):
    """Print the share of intervals that hold the true average rank."""
    levels = (0.8, 0.9, 0.95)
    gaps = QUALITIES[:, None] - QUALITIES
    truth = 0.5 + norm.cdf(gaps / np.sqrt(2)).sum(axis=1)
    print("datasets" + "".join(f"{level:>10.0%}" for level in levels) + "   mean width")
    for n_datasets in (2, 3, 4, 5, 7, 10, 19, 50, 200):
        rng, held = np.random.default_rng(n_datasets), np.zeros(len(levels))
        width = 0.0
        for _ in range(n_tables):
            scores = rng.normal(QUALITIES, size=(n_datasets, len(QUALITIES)))
            for i, level in enumerate(levels):
                found = rank_intervals(scores, level=level, random_state=rng)
                held[i] += ((found.lower <= truth) & (truth <= found.upper)).mean()
                width += (found.upper - found.lower).mean() if level == 0.9 else 0.0
        shares = "".join(f"{share:>10.1%}" for share in held / n_tables)
        print(f"{n_datasets:8d}{shares}{width / n_tables:13.2f}")


def bench_overhead(n_encoders=10, n_datasets=10, n_samples=1000):
    """Print the time of a ranking beside that of its walks."""
    data = {}
    for d in range(n_datasets):
        X, y = make_classification(
            n_samples, 64, n_informative=16, n_classes=10, random_state=d
        )
        features = {f"encoder {e}": np.roll(X, e, axis=1) for e in range(n_encoders)}
        data[f"dataset {d}"] = features, y
    board = readout_grid(hidden_layer_sizes=[(), (32,)], lr=[3e-3, 1e-2])
    with tempfile.TemporaryDirectory() as folder:
        scorer = RepresentationScorer(
            MDLReadoutSwitcher(board, device="cpu"), n_orders=2, results=folder
        )
        for title in ("walked", "read"):
            start = time.perf_counter()
            scorer.fit(data)
            seconds = time.perf_counter() - start
            print(f"{len(scorer.cells_)} cells {title}: {seconds:.2f} s")
            if title == "walked":
                walks = sum(cell.seconds for cell in scorer.cells_)
                print(f"  walks alone: {walks:.2f} s")
                print(f"  overhead: {seconds / walks - 1:.2%}")


TABLES = {"speed": bench_speed, "coverage": bench_coverage, "overhead": bench_overhead}


def main():
    """Choose a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=list(TABLES))
    options = parser.parse_args()
    with threadpool_limits(1):
        TABLES[options.table]()


if __name__ == "__main__":
    main()
