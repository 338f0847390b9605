"""The learning curves of a ranking with their bands, and the readouts' weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sklearn_mdl.model_selection import Cell

Floats = NDArray[np.float64]

N_POINTS = 24  # largest number of points in a curve
FEWEST = 6  # smallest number of labels per point


class Curve(NamedTuple):
    """An encoder's learning curve, averaged over orders.

    Attributes
    ----------
    labels : ndarray of shape (M,)
        Middle of each interval, as a number of labels seen before a prediction.
    nats, nats_half : ndarray of shape (M,)
        Mean loss per label, and the half-width of its band.
    accuracy, accuracy_half : ndarray of shape (M,)
        Share of labels predicted correctly, and the half-width of its band. Empty for
        real-valued labels.
    kinds : dict of str to ndarray of shape (M,)
        Mean posterior of each kind of readout.
    kept : float
        Mean size of the arrays that are stored for a run, in megabytes before
        compression.
    """

    labels: Floats
    nats: Floats
    nats_half: Floats
    accuracy: Floats
    accuracy_half: Floats
    kinds: dict[str, Floats]
    kept: float


def curve_of(cells: Sequence[Cell], alpha: float) -> Curve:
    """Average an encoder's losses on one dataset over intervals of labels.

    Bands have level ``1 - alpha`` at each point, if rows are a random sample.

    Parameters
    ----------
    cells : sequence of Cell
        All orders of the encoder on the dataset.
    alpha : float

    Raises
    ------
    FileNotFoundError
        If files with the losses are missing.
    """
    traces = [cell.source.read() for cell in cells]
    edges = _edges(cells[0].n_samples)
    z = float(norm.isf(alpha / 2))
    losses = np.stack([trace.codelengths for trace in traces])
    correct = np.stack([trace.correct for trace in traces]).astype(float)
    nats = _means(losses, edges, z)
    accuracy = _means(correct, edges, z) if correct.size else (np.empty(0),) * 2
    kinds: dict[str, Floats] = {}
    for trace, cell in zip(traces, cells, strict=True):
        last = len(trace.steps) - 1
        rows = np.minimum(np.searchsorted(trace.steps, edges[:-1]), last)
        # Each row of a trace represents the labels up to the next row.
        stops = np.maximum(np.searchsorted(trace.steps, edges[1:]), rows + 1)
        places = zip(rows, stops, strict=True)
        shares = np.stack([trace.posterior[a:b].mean(0) for a, b in places])
        for name, share in zip(cell.architectures, shares.T, strict=True):
            kinds[name] = kinds.get(name, 0.0) + share / len(cells)
    kept = sum(array.nbytes for trace in traces for array in trace) / len(traces) / 1e6
    return Curve((edges[:-1] + edges[1:] - 1) / 2, *nats, *accuracy, kinds, kept)


def _edges(n: int) -> NDArray[np.intp]:
    """Return the edges of growing intervals of at least ``FEWEST`` labels."""
    edges = [0]
    for end in np.geomspace(min(FEWEST, n), n, N_POINTS).astype(int).tolist():
        if end - edges[-1] >= FEWEST:
            edges.append(end)
    return np.array([*edges[: max(1, len(edges) - 1)], n])


def _means(table: Floats, edges: NDArray[np.intp], z: float) -> tuple[Floats, Floats]:
    """Return means over intervals and orders, and the half-widths of their bands."""
    sizes = np.diff(edges) * len(table)
    sums = np.add.reduceat(table, edges[:-1], axis=1).sum(0)
    squares = np.add.reduceat(table**2, edges[:-1], axis=1).sum(0)
    means = sums / sizes
    variances = np.maximum(squares / sizes - means**2, 0) / np.maximum(sizes - 1, 1)
    return means, z * np.sqrt(variances)


def labels_to_reach(curve: Curve, level: float) -> float:
    """Return the labels from which accuracy stays at or above a level, or NaN."""
    below = np.flatnonzero(curve.accuracy < level)
    first = below[-1] + 1 if below.size else 0
    return float(curve.labels[first]) if first < len(curve.labels) else math.nan


def level_of(curves: Sequence[Curve]) -> float:
    """Return 90 % of the best final accuracy, rounded down to a multiple of 5 %."""
    last = max(float(curve.accuracy[-1]) for curve in curves)
    return math.floor(last * 0.9 * 20) / 20
