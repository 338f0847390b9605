"""Whether train and test part differ, at the door."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.cli.files import FEATURES_HELP, LABELS_HELP, load_rows
from sklearn_mdl.shift import train_test_shift

Part = tuple[np.ndarray, np.ndarray]


def add_shift_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which files and settings ``shift`` takes."""
    for part in ("train", "test"):
        for what, text in (("features", FEATURES_HELP), ("labels", LABELS_HELP)):
            name = f"{part}_{what}"
            parser.add_argument(name, type=Path, metavar=name.upper(), help=text)
    parser.add_argument(
        "--n-reshuffles",
        type=int,
        default=19,
        metavar="N",
        help="reshuffled splits to compare with (default: 19)",
    )
    parser.add_argument(
        "--level", type=float, default=0.05, help="of the test (default: 0.05)"
    )
    parser.add_argument(
        "--max-samples",
        type=int,
        metavar="N",
        help="use so many rows of both parts together, drawn at random",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of reshuffles and draws (default: 0)"
    )
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=1,
        metavar="N",
        help="splits fitted side by side (default: 1)",
    )


def shift(options: argparse.Namespace) -> None:
    """Print accuracies on the own split, and on reshuffled ones."""
    parts = [
        load_rows(options.train_features, options.train_labels),
        load_rows(options.test_features, options.test_labels),
    ]
    if options.max_samples is not None:
        parts = _drawn(parts, options.max_samples, options.seed)
    train, test = parts
    found = train_test_shift(
        train,
        test,
        n_reshuffles=options.n_reshuffles,
        level=options.level,
        random_state=options.seed,
        n_jobs=options.n_jobs,
    )
    print(found.summary())


def _drawn(parts: list[Part], max_samples: int, seed: int) -> list[Part]:
    """Draw rows of each part, in the same proportion."""
    n = sum(len(y) for _, y in parts)
    if max_samples < len(parts):
        raise ValueError(
            f"--max-samples must leave a row in each part, got {max_samples}; raise it"
        )
    rng = np.random.default_rng(seed)
    drawn: list[Any] = []
    for X, y in parts:
        n_rows = min(len(y), max(1, round(max_samples * len(y) / n)))
        rows = np.sort(rng.permutation(len(y))[:n_rows])
        drawn.append((X[rows], y[rows]))
    return drawn
