"""Codelengths of the default switcher: on digits, and on real deep features.

    python benchmarks/bench_codelength.py digits
    python benchmarks/bench_codelength.py features FEATURES_DIR --n-jobs 2
    python benchmarks/bench_codelength.py choices
    python benchmarks/bench_codelength.py mixed FEATURES_DIR ucmerced mnist

The first prints the codelength and wall time of a default fit on digits in ten orders,
``default_rng(s).permutation(N)`` for s = 100, ..., 109, beside switching priors that
read the same losses and a block-wise logistic regression. The second prints, for every
encoder and dataset of a directory, nats per example beside those of a block-wise
logistic regression (``blockwise_logistic.py``). The third takes one choice of the
default board back at a time, on digits, wine and breast cancer, each in the orders
``default_rng(s).permutation(N)`` for s = 0, 1, 2. The fourth walks the mixed board,
and reads off the default one and every single readout from the same losses: on digits
in the ten orders of the first, and on datasets of a directory if it is given.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from blockwise_logistic import best_codelength
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from sklearn_mdl import (
    LearnedShare,
    MDLReadoutSwitcher,
    forward,
    load_feature_directory,
    uniform_codelength,
)
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


KINDS = {
    "best net": ("linear", "mlp"),
    "neighbours": ("neighbors",),
    "lda": ("LinearDiscriminantAnalysis",),
    "logistic": ("LogisticRegression",),
}


def mixed(X, y):
    """Nats of the mixed board, of the default one in it, of all readouts; seconds."""
    start = time.perf_counter()
    switcher = MDLReadoutSwitcher("mixed", random_state=0).fit(X, y)
    seconds = time.perf_counter() - start
    names = [readout.architecture for readout in switcher.readouts_]
    is_net = np.array([name.startswith(KINDS["best net"]) for name in names])
    default = forward(LearnedShare(), switcher.readout_losses_[:, is_net]).codelength
    members = switcher.readout_codelengths_
    best = [
        members[[name.startswith(kind) for name in names]].min()
        for kind in KINDS.values()
    ]
    return [switcher.codelength_, default, *best], members, seconds


def bench_mixed(options):
    """Ten orders of digits, or every cell of some datasets."""
    if options.features is None:
        X, y = load_digits(return_X_y=True)
        orders = [np.random.default_rng(s).permutation(len(y)) for s in ORDERS]
        cells = {
            f"digits {s}": (X[o], y[o]) for s, o in zip(ORDERS, orders, strict=True)
        }
    else:
        cells = {
            f"{dataset}/{encoder}": (np.asarray(X, dtype=np.float32), y)
            for dataset, (features, y) in load_feature_directory(
                options.features
            ).items()
            if dataset in options.datasets
            for encoder, X in features.items()
        }
    width = max(map(len, cells)) + 1
    titles = ("mixed", "default", *KINDS)
    print("nats".ljust(width) + "".join(title.rjust(12) for title in titles))
    parallel = Parallel(n_jobs=options.n_jobs, return_as="generator")
    found = []
    for name, cell in zip(
        cells, parallel(delayed(mixed)(X, y) for X, y in cells.values()), strict=True
    ):
        found.append(cell)
        print(name.ljust(width) + "".join(f"{v:12.1f}" for v in cell[0]), flush=True)
    rows = np.array([row for row, _, _ in found])
    print("mean".ljust(width) + "".join(f"{value:12.1f}" for value in rows.mean(0)))
    if options.features is None:
        members = np.mean([members for _, members, _ in found], axis=0)
        print(
            f"\nthe best of {len(members)} readouts in the mean of all orders: "
            f"{members.min():.1f} nats"
        )
    else:
        ratios = rows[:, 0] / rows[:, 1]
        print(
            f"\nmixed over default: mean ratio {ratios.mean():.4f}, "
            f"shorter in {np.sum(ratios < 1)} of {len(ratios)} cells"
        )
    print(f"seconds a fit: {np.mean([seconds for _, _, seconds in found]):.1f}")


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
    mixed_board = tables.add_parser("mixed")
    mixed_board.add_argument("features", type=Path, nargs="?")
    mixed_board.add_argument("datasets", nargs="*")
    mixed_board.set_defaults(run=bench_mixed)
    for table in (digits, features, choices, mixed_board):
        table.add_argument("--n-jobs", type=int, default=None)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
