"""Codelengths of the default switcher: on digits, and on real deep features.

    python benchmarks/bench_codelength.py digits
    python benchmarks/bench_codelength.py features ../shared/data/features --n-jobs 2
    python benchmarks/bench_codelength.py choices

The first prints the codelength and wall time of a default fit on digits in ten orders,
``default_rng(s).permutation(N)`` for s = 100, ..., 109, beside switching priors that
read the same losses and a block-wise logistic regression. The second prints, for every
encoder and dataset of a directory, nats per example beside those of a block-wise
logistic regression (``blockwise_logistic.py``). The third takes one choice of the
default board back at a time, on digits, wine and breast cancer, each in the orders
``default_rng(s).permutation(N)`` for s = 0, 1, 2.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from blockwise_logistic import best_codelength
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from sklearn_mdl import MDLReadoutSwitcher, load_feature_directory, uniform_codelength
from sklearn_mdl.readouts import default_readouts

ORDERS = range(100, 110)


def bench_digits(options):
    """Ten orders of digits."""
    X, y = load_digits(return_X_y=True)
    titles = ("learned share", "bayes", "elementwise", "best readout", "logistic")
    print("".join(title.rjust(14) for title in ("order", *titles, "seconds")))
    rows = []
    for seed in ORDERS:
        order = np.random.default_rng(seed).permutation(len(y))
        start = time.perf_counter()
        switcher = MDLReadoutSwitcher(random_state=0, n_jobs=options.n_jobs)
        switcher.fit(X[order], y[order])
        seconds = time.perf_counter() - start
        others = [
            switcher.switch(prior).codelength for prior in ("bayes", "elementwise")
        ]
        best = switcher.readout_codelengths_.min()
        logistic = best_codelength(f"digits/{seed}", X[order], y[order])
        rows.append([switcher.codelength_, *others, best, logistic, seconds])
        print(
            f"{seed:14d}" + "".join(f"{value:14.1f}" for value in rows[-1]), flush=True
        )
    print("mean".rjust(14) + "".join(f"{value:14.1f}" for value in np.mean(rows, 0)))
    print(
        "sd".rjust(14) + "".join(f"{value:14.1f}" for value in np.std(rows, 0, ddof=1))
    )
    print(
        f"\nnats; {len(switcher.readouts_)} readouts; uniform code "
        f"{uniform_codelength(len(y), 10):.1f}"
    )


CHOICES = {
    "default": {},
    "no calibration": {"calibration": False},
    "no label smoothing": {"label_smoothing": 0.0},
    "neither": {"calibration": False, "label_smoothing": 0.0},
    "no weight decay": {"weight_decay": 0.0},
    "no averaged weights": {"ema_step_size": 1.0},
    "standard scaling only": {"scaling": "standard"},
    "whitening only": {"scaling": "whiten"},
    "no scaling": {"scaling": None},
    "10 replay streams": {"n_replay_streams": 10},
    "3 replay streams": {"n_replay_streams": 3},
}


def bench_choices(options):
    """What each choice of the default board is worth."""
    loaders = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
    data = {name: load(return_X_y=True) for name, load in loaders.items()}
    print("nats, mean of 3 orders".ljust(24) + "".join(n.rjust(10) for n in data))
    for choice, settings in CHOICES.items():
        totals = [
            np.mean([_with_choice(X, y, settings, seed) for seed in range(3)])
            for X, y in data.values()
        ]
        print(choice.ljust(24) + "".join(f"{t:10.1f}" for t in totals), flush=True)


def _with_choice(X, y, settings, seed):
    board = default_readouts(X.shape[1], len(np.unique(y)))
    board = [readout.set_params(**settings) for readout in board]
    distinct = {(r.architecture, str(r.get_params())): r for r in board}
    order = np.random.default_rng(seed).permutation(len(y))
    switcher = MDLReadoutSwitcher(list(distinct.values()), random_state=0)
    return switcher.fit(X[order], y[order]).codelength_


def score(X, y):
    """Nats, seconds and number of readouts of a default fit."""
    start = time.perf_counter()
    switcher = MDLReadoutSwitcher(random_state=0).fit(X, y)
    return switcher.codelength_, time.perf_counter() - start


def bench_features(options):
    """Every cell of a directory, rows in the order of the files."""
    cells = {
        (dataset, encoder): (np.asarray(X, dtype=np.float32), y)
        for dataset, (features, y) in load_feature_directory(options.features).items()
        for encoder, X in features.items()
    }
    parallel = Parallel(n_jobs=options.n_jobs, return_as="generator")
    found = parallel(delayed(score)(X, y) for X, y in cells.values())
    print(
        f"{'dataset':12s}{'encoder':32s}{'d':>5s}{'logistic':>10s}{'ours':>8s}"
        f"{'ratio':>7s}{'seconds':>9s}"
    )
    ratios, times = [], []
    for ((dataset, encoder), (X, y)), (nats, seconds) in zip(
        cells.items(), found, strict=True
    ):
        reference = best_codelength(f"{dataset}/{encoder}", X.astype(np.float64), y)
        ratios.append(nats / reference)
        times.append(seconds)
        print(
            f"{dataset:12s}{encoder:32s}{X.shape[1]:5d}{reference / len(y):10.4f}"
            f"{nats / len(y):8.4f}{ratios[-1]:7.3f}{seconds:9.1f}",
            flush=True,
        )
    shorter = sum(ratio < 1 for ratio in ratios)
    print(
        f"\nshorter than the logistic regression in {shorter} of {len(ratios)} cells; "
        f"mean ratio {np.mean(ratios):.4f}; seconds a cell: "
        f"median {np.median(times):.1f}, "
        f"longest {max(times):.1f}"
    )


def main():
    """Choose a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = parser.add_subparsers(required=True)
    digits = tables.add_parser("digits")
    digits.set_defaults(run=bench_digits)
    features = tables.add_parser("features")
    features.add_argument("features", type=Path)
    features.set_defaults(run=bench_features)
    choices = tables.add_parser("choices")
    choices.set_defaults(run=bench_choices)
    for table in (digits, features, choices):
        table.add_argument("--n-jobs", type=int, default=None)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
