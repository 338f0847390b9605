"""Codelengths beyond the data: power laws with a floor, fitted to paired curves.

The expected loss after ``t`` labels is taken to be ``c + a (t + o)^-b``, all at least
0: a floor, and a power law whose offset lets a curve start flat. Means over intervals
of geometrically growing length are fitted by weighted least squares, which are linear
in ``a`` and ``c``, on a grid of ``b`` and ``o``. What the fit does not know is shown by
fits to perturbed curves: means of intervals vary as their losses do, in all curves
together, so that what is common to two curves cancels in their difference. The losses
to come vary as the later half does.
Twelve noisy means tell little of a floor, so that high ones have a penalty: it is what
a curve would fall to, and few losses of labels stop far above 0.
Power laws of learning curves: Hestness et al., 2017, arXiv:1712.00409.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.metrics._learning_curves import check_losses
from sklearn_mdl.metrics._references import Floats, Integers, checked_count, invalid

LEAST_LABELS = 40
START = 0.05  # of the curve: the first losses are left out
N_INTERVALS = 12
POWERS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
OFFSETS = (0.0, 0.1, 0.3, 1.0)  # in lengths of the curve
# Floors as shares of the mean loss: standard deviation of a normal law, chosen on draws
# of 300 rows of six datasets.
FLOOR_WIDTH = 1 / 3
N_DRAWS = 400
WIDEST = 0.1  # half of an interval, as a share of the codelength, that says something


def is_narrow(values: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Return whether intervals of codelengths are narrow enough to say something."""
    narrow: NDArray[np.bool_] = (upper - lower) / 2 <= WIDEST * values
    return narrow


class Extrapolation(NamedTuple):
    """Codelengths of more labels than were seen.

    Attributes
    ----------
    n : int
        Labels, seen ones included.
    values : ndarray of shape (n_curves,)
        Codelengths of that many labels, in nats.
    lower, upper : ndarray of shape (n_curves,)
        Bounds of their intervals.
    level : float
        Level of each interval by itself.
    draws : ndarray of shape (n_draws, n_curves)
        Codelengths as they might be; differences of columns are those of paired curves.
    """

    n: int
    values: Floats
    lower: Floats
    upper: Floats
    level: float
    draws: Floats

    @property
    def can_tell(self) -> NDArray[np.bool_]:
        """Whether an interval is at most 10 % of the codelength to either side."""
        return is_narrow(self.values, self.lower, self.upper)

    def difference(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the codelength of one curve less another's, and its interval."""
        lower, upper = _interval(self.draws[:, i] - self.draws[:, j], self.level)
        return float(self.values[i] - self.values[j]), float(lower), float(upper)


def extrapolate(curves: ArrayLike, n: int, *, level: float = 0.9) -> Extrapolation:
    """Predict the codelengths of more labels, by power laws with a floor.

    Parameters
    ----------
    curves : array-like of shape (N,), (n_curves, N) or (n_curves, n_orders, N)
        Cost of each label in the order of the run, in nats: of one run, or of several
        over the same rows in the same orders. At least 40 labels.
    n : int
        Labels to predict for, more than N.
    level : float, default=0.9
        Level of the intervals, between 0 and 1 exclusive.

    Returns
    -------
    found : Extrapolation
        Predictions for the same source of rows. The intervals hold the noise of rows
        not seen; they do not hold that the law itself may change.

    Raises
    ------
    ValueError
        If the shape is another, a cost is NaN or negative, or an argument is out of
        range.

    Examples
    --------
    >>> import numpy as np
    >>> losses = 0.3 + np.arange(1, 501) ** -0.5
    >>> found = extrapolate(losses, 1000)
    >>> found.values.round(1)  # the sum of 0.3 + t ** -0.5 up to 1,000 is 361.8
    array([361.8])
    """
    costs = np.asarray(curves, dtype=np.float64)
    if costs.ndim not in (1, 2, 3) or not costs.size or costs.shape[-1] < LEAST_LABELS:
        raise ValueError(
            "`curves` must have shape (n_labels,), (n_curves, n_labels) or (n_curves, "
            f"n_orders, n_labels) with at least {LEAST_LABELS} labels, got "
            f"{costs.shape}; give one cost per label."
        )
    check_losses("curves", costs)
    if costs.ndim < 3:
        costs = costs.reshape(-1, 1, costs.shape[-1])
    checked_count("n", n, costs.shape[-1] + 1)
    if not 0 < level < 1:
        required = "a number between 0 and 1 exclusive"
        raise invalid("level", required, level, "pass for example level=0.9")
    return _extrapolated(costs, int(n), float(level))


def _extrapolated(costs: Floats, n: int, level: float) -> Extrapolation:
    n_seen = costs.shape[-1]
    first = max(int(START * n_seen), 1)
    edges = np.rint(np.geomspace(first, n_seen, N_INTERVALS + 1)).astype(np.int64)
    edges = np.unique(edges)
    counts = np.diff(edges)
    means = np.add.reduceat(costs[:, :, first:], edges[:-1] - first, axis=2) / counts
    rest = costs[:, :, first:] - np.repeat(means, counts, axis=2)
    rng = np.random.default_rng(0)
    # The same place is another example in every order: noise of orders averages out.
    n_orders = costs.shape[1]
    parts = [rest[:, :, slice(*ends)] for ends in pairwise(edges - first)]
    noise = np.stack([_normal(rng, part) for part in parts], axis=-1)
    seen = means.mean(1)
    data = np.concatenate([seen[None], seen + noise / (n_orders * counts)])
    future = _best_fit(data, edges, _weights(rest, seen, counts), n)
    # Rows to come are new to all orders alike: it does not.
    late = rest[:, :, -(n_seen // 2) :]
    scale = np.sqrt((n - n_seen) / late[0].size)
    totals = costs.sum(2).mean(1) + future
    draws = totals[1:] + scale * _normal(rng, late)
    return Extrapolation(n, totals[0], *_interval(draws, level), level, draws)


def _normal(rng: np.random.Generator, rest: Floats) -> Floats:
    """Draw (n_draws, n_curves) with the covariances of sums of (n_curves, ...)."""
    flat = rest.reshape(len(rest), -1)
    values, vectors = np.linalg.eigh(flat @ flat.T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: Floats = rng.standard_normal((N_DRAWS, len(rest))) @ root.T
    return drawn


def _weights(rest: Floats, seen: Floats, counts: Integers) -> Floats:
    """Return inverse variances of means (n_curves, M): losses vary as they do."""
    variance = (rest**2).mean((1, 2))[:, None] + 1e-12
    share = seen / (seen.mean(1, keepdims=True) + 1e-12)
    weights: Floats = counts / (variance * (share + 0.1))
    return weights


def _best_fit(data: Floats, edges: Integers, weights: Floats, n: int) -> Floats:
    """Return sums of the losses to come by the best law of each curve, (D, n_curves).

    Parameters
    ----------
    data : ndarray of shape (D, n_curves, M)
        Mean losses of intervals.
    edges : ndarray of shape (M + 1,)
    weights : ndarray of shape (n_curves, M)
    n : int
    """
    n_seen, counts = int(edges[-1]), np.diff(edges)
    times = np.arange(n) / n_seen + 1 / n_seen
    least, future = np.full(data.shape[:2], np.inf), np.zeros(data.shape[:2])
    total, y = weights.sum(1), (weights * data).sum(-1)
    for power, offset in ((p, o) for p in POWERS for o in OFFSETS):
        law = (times + offset) ** -power
        x = np.add.reduceat(law[edges[0] : n_seen], edges[:-1] - edges[0]) / counts
        xx, xy = (weights * x**2).sum(1), (weights * x * data).sum(-1)
        wx = (weights * x).sum(1)
        a = (total * xy - wx * y) / (total * xx - wx**2)
        floor = (y - a * wx) / total
        a = np.where(floor < 0, xy / xx, a)  # no floor below zero
        floor = np.where(floor < 0, 0.0, floor)
        floor = np.where(a < 0, y / total, floor)  # no loss that grows
        a = np.maximum(a, 0.0)
        misfit = (weights * (data - floor[..., None] - a[..., None] * x) ** 2).sum(-1)
        misfit += (floor / (np.abs(y) / total + 1e-12) / FLOOR_WIDTH) ** 2
        better = misfit < least
        least = np.where(better, misfit, least)
        predicted = floor * (n - n_seen) + a * law[n_seen:].sum()
        future = np.where(better, predicted, future)
    return future


def _interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return lower, upper
