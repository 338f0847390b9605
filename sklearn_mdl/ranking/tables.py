"""Checks that the statistics share: tables of scores, counts and levels."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def checked_scores(scores: ArrayLike, name: str = "scores") -> Floats:
    """Return a non-empty table of finite scores, one row per dataset."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(
            f"`{name}` must have shape (n_datasets, n_encoders) and not be empty, got "
            f"{table.shape}; give one row per dataset and one column per encoder, and "
            "average over orders first."
        )
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0].tolist()
        raise ValueError(
            f"`{name}` must be finite, got {table[row, column]} in row {row}, column "
            f"{column}; leave out datasets or encoders without a score."
        )
    return table


def checked_codelengths(codelengths: ArrayLike) -> Floats:
    """Return a table of positive codelengths, of which logarithms can be taken."""
    table = checked_scores(codelengths, "codelengths")
    if not (table > 0).all():
        row, column = np.argwhere(table <= 0)[0].tolist()
        raise ValueError(
            "`codelengths` must be positive, since their ratios are compared, got "
            f"{table[row, column]} in row {row}, column {column}; give codelengths in "
            "nats that are not rounded to zero."
        )
    return table


def check_repeats(table: Floats, purpose: str) -> None:
    """Refuse a table of one dataset, or of one encoder."""
    if min(table.shape) < 2:
        raise ValueError(
            f"{purpose} needs at least 2 datasets and 2 encoders, got {table.shape[0]} "
            f"and {table.shape[1]}; add rows or columns to the table."
        )


def check_count(name: str, value: int, least: int, advice: str) -> None:
    """Refuse what is no integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}, got {name}={value!r}; "
            f"{advice}."
        )


def check_fraction(name: str, value: float, advice: str) -> None:
    """Refuse what is no number strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(
            f"`{name}` must be a number between 0 and 1 exclusive, got "
            f"{name}={value!r}; {advice}."
        )


def log_margin(rope: float) -> float:
    """Return the largest log ratio of codelengths that are practically equivalent."""
    if not isinstance(rope, Real) or not 0 <= float(rope) < np.inf:
        raise ValueError(
            "`rope` must be a finite number of at least 0, the share by which "
            f"equivalent codelengths may differ, got rope={rope!r}; 0.01 is one per "
            "cent."
        )
    return float(np.log1p(rope))
