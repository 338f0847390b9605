"""Streams that drift, made from rows of real features by stated rules."""

import numpy as np

ROOM = 1.05  # of the shortest segments, or places are drawn for ever


def change_points(rng, n_rows, n_least, n_changes=3):
    """Draw rows before which labels change: all segments have ``n_least`` rows."""
    needed = (n_changes + 1) * n_least * ROOM
    if n_rows < needed:
        raise ValueError(
            f"{n_changes + 1} segments of at least {n_least} rows, at places drawn at "
            f"random, need {needed:.0f} rows, got {n_rows}; pass --least or --rows"
        )
    while True:
        points = np.sort(rng.integers(n_least, n_rows, n_changes))
        if np.diff([0, *points, n_rows]).min() >= n_least:
            return points


def other_meaning(rng, n_classes):
    """Draw a permutation of the classes."""
    return rng.permutation(n_classes)


def drifting(X, y, kind, n_rows, n_least, seed):
    """Draw rows, in random order, and let the meaning of their labels drift.

    Parameters
    ----------
    X, y : ndarray
        Labels are 0, 1, 2, and so on.
    kind : {"abrupt", "partial", "gradual", "recurring", "none"}
        "abrupt": all labels are permuted at three rows drawn at random, each time by a
        new permutation. "partial": three classes change places there. "gradual": the
        new permutation holds with a probability that rises from 0 to 1 along a logistic
        curve, of which 300 rows are the middle 76 per cent. "recurring": one
        permutation comes at the first, goes at the second and comes again at the third.
    n_rows, n_least : int
        Rows of the stream, and of a segment at least.
    seed : int

    Returns
    -------
    X, y : ndarray
    changes : ndarray of shape (3,)
        First row of each new segment; none where nothing drifts.
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
