"""The learning curves of a ranking with their bands, and the readouts' weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from sklearn_mdl.model_selection import TRAINING, Cell, total_variance

Floats = NDArray[np.float64]

N_POINTS = 24  # largest number of points in a curve
FEWEST = 6  # smallest number of rows (or groups) per point, if there are so many


class Curve(NamedTuple):
    """An encoder's learning curve, averaged over orders.

    Attributes
    ----------
    labels : ndarray of shape (M,)
        Middle of each interval, as a number of labels seen before a prediction.
    nats, nats_half : ndarray of shape (M,)
        Mean loss per label, and the half-width of its band (NaN for a single group).
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

    Bands have level ``1 - alpha`` at each point, if rows, or groups of rows, are a
    random sample.

    Parameters
    ----------
    cells : sequence of Cell
        All orders of the encoder on the dataset.
    alpha : float

    Raises
    ------
    FileNotFoundError
        If the losses or the groups of rows are missing.
    """
    traces = [cell.source.read() for cell in cells]
    starts = [cell.starts for cell in cells]
    edges = _edges(len(starts[0])) * cells[0].n_samples // len(starts[0])
    losses = np.stack([trace.codelengths for trace in traces])
    correct = np.stack([trace.correct for trace in traces]).astype(float)
    nats = _means(losses, edges, starts, alpha)
    accuracy = np.empty(0), np.empty(0)  # for real-valued labels
    if correct.size:
        accuracy = _means(correct, edges, starts, alpha, is_share=True)
    kinds: dict[str, Floats] = {}
    for trace, cell in zip(traces, cells, strict=True):
        last = len(trace.steps) - 1
        rows = np.minimum(np.searchsorted(trace.steps, edges[:-1]), last)
        # Each row of the posterior applies to the labels up to the next row.
        stops = np.maximum(np.searchsorted(trace.steps, edges[1:]), rows + 1)
        places = zip(rows, stops, strict=True)
        shares = np.stack([trace.posterior[a:b].mean(0) for a, b in places])
        for name, share in zip(cell.architectures, shares.T, strict=True):
            kinds[name] = kinds.get(name, 0.0) + share / len(cells)
    kept = sum(array.nbytes for trace in traces for array in trace) / len(traces) / 1e6
    return Curve((edges[:-1] + edges[1:] - 1) / 2, *nats, *accuracy, kinds, kept)


def _edges(n: int) -> NDArray[np.intp]:
    """Return the edges of growing intervals of at least ``min(FEWEST, n)`` units."""
    edges = [0]
    for end in np.geomspace(min(FEWEST, n), n, N_POINTS).astype(int).tolist():
        if end - edges[-1] >= FEWEST:
            edges.append(end)
    return np.array([*edges[: max(1, len(edges) - 1)], n])


def _means(
    table: Floats,
    edges: NDArray[np.intp],
    starts: Sequence[NDArray[np.intp]],
    alpha: float,
    is_share: bool = False,
) -> tuple[Floats, Floats]:
    """Return means over intervals and orders, and the half-widths of their bands.

    The variances are those of a `Sample`, except that orders share only a part of an
    interval's rows. The other rows differ between orders, which lowers the variance of
    a mean over orders and raises the variance between orders.
    """
    n_orders, sizes = len(table), np.diff(edges)
    sums = np.add.reduceat(table, edges[:-1], axis=1)
    means = sums.sum(0) / (sizes * n_orders)
    residuals = table - np.repeat(means, sizes)
    noise = np.mean(list(map(_noise, residuals, starts)), axis=0)
    rows = np.add.reduceat(noise, edges[:-1]) / sizes**2
    if is_share:  # even if all are right, others may be wrong (Agresti and Coull)
        groups = np.maximum(np.diff(np.searchsorted(starts[0], edges)), 1)
        share = means + (2 - 4 * means) / (groups * n_orders + 4)
        rows += np.maximum(share * (1 - share) - means * (1 - means), 0) / groups
    shared = sizes / edges[-1]
    own = (1 - shared) / n_orders
    orders = np.zeros(len(sizes))
    if n_orders > 1:
        between = (sums / sizes).var(0, ddof=1)
        orders = np.maximum(between / n_orders - own * rows, 0)
    shared_rows = (shared + own) * rows
    n_pairs = len(starts[0]) // 2 * shared / (shared + own)
    variance, freedom = total_variance(shared_rows, n_pairs, orders, n_orders)
    return means, t.isf(alpha / 2, freedom) * np.sqrt(variance)


def _noise(residuals: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the variance that each row adds to a sum of losses, in one order.

    Variances are estimated from differences between neighbouring rows or groups. A
    single row or group gives NaN.
    """
    n_pairs = len(starts) // 2
    if not n_pairs:
        return np.full(len(residuals), np.nan)
    sums = np.add.reduceat(residuals, starts)[: 2 * n_pairs].reshape(n_pairs, 2)
    ends = np.append(starts, len(residuals))[: 2 * n_pairs + 1 : 2]
    variances = (TRAINING * np.diff(sums)[:, 0]) ** 2 / np.diff(ends)
    ends[-1] = len(residuals)  # a last group without a pair
    return np.repeat(variances, np.diff(ends))


def labels_to_reach(curve: Curve, level: float) -> float:
    """Return the number of labels until accuracy stays at or above a level, or NaN."""
    below = np.flatnonzero(curve.accuracy < level)
    first = below[-1] + 1 if below.size else 0
    return float(curve.labels[first]) if first < len(curve.labels) else math.nan


def level_of(curves: Sequence[Curve]) -> float:
    """Return 90 % of the best final accuracy, rounded down to a multiple of 5 %."""
    last = max(float(curve.accuracy[-1]) for curve in curves)
    return math.floor(last * 0.9 * 20) / 20
