"""``sklearn-mdl shift``: test whether the train and test parts differ."""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np

import sklearn_mdl
from sklearn_mdl.cli import _options

Part = tuple[np.ndarray, np.ndarray]


HELP = "Test whether the train and test parts of a dataset differ in distribution."
EXAMPLE = "sklearn-mdl shift train.npy train-labels.npy test.npy test-labels.npy"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    helps = {"features": _options.FEATURES_HELP, "labels": _options.LABELS_HELP}
    for part, what in product(("train", "test"), helps):
        name = f"{part}_{what}"
        _options.add(parser, name, helps[what], name.upper(), type=Path)
    help = "number of reshuffled splits with which the given split is compared"
    _options.add(parser, "--n-reshuffles", help, "N", 19)
    _options.add(parser, "--level", "significance level of the test", "N", 0.05)
    help = "use about this many rows in total, drawn at random from both parts"
    _options.add(parser, "--max-samples", help, "N", type=int)
    _options.add(parser, "--seed", "seed for reshuffling and drawing rows", "N", 0)
    _options.add(parser, "--n-jobs", "number of splits to fit in parallel", "N", 1)


def run(options: argparse.Namespace) -> None:
    """Print accuracies on the given split and on reshuffled splits."""
    parts = [
        _options.load_rows(options.train_features, options.train_labels),
        _options.load_rows(options.test_features, options.test_labels),
    ]
    if options.max_samples is not None:
        parts = _subsample(parts, options.max_samples, options.seed)
    shift = sklearn_mdl.datasets.train_test_shift(
        *parts,
        n_reshuffles=options.n_reshuffles,
        level=options.level,
        random_state=options.seed,
        n_jobs=options.n_jobs,
    )
    print(shift.summary())


def _subsample(parts: list[Part], max_samples: int, seed: int) -> list[Part]:
    """Draw about ``max_samples`` rows in total, in proportion to the parts' sizes."""
    n = sum(len(y) for _, y in parts)
    if max_samples < len(parts):
        raise ValueError(
            "--max-samples must leave a row in each part, got "
            f"{max_samples}; for example, pass --max-samples 1000"
        )
    rng = np.random.default_rng(seed)
    drawn = []
    for X, y in parts:
        n_rows = min(len(y), max(1, round(max_samples * len(y) / n)))
        rows = np.sort(rng.permutation(len(y))[:n_rows])
        drawn.append((X[rows], y[rows]))
    return drawn
