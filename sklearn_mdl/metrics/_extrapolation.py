"""Extrapolation of codelengths by a weighted average over many laws of the loss.

Under a law, the expected loss after ``t`` of ``N`` labels is a level times ``f + (1
- f) g(t / N)``. The floor ``f`` is between 0 and 1, and with ``f = 1`` the curve is
flat. ``g`` is an exponential, or a power law that starts to fall at a knee,
``(1 + (t / knee)^k)^(-power / k)``. The parameters of the laws form a grid. Each law
is weighted by its posterior probability, given the mean losses over intervals of
geometrically growing length.

A prediction interval covers the law, its level, the noise of future losses and, given
several orders, the variation of codelengths over orders. The method assumes that future
losses vary like the losses in the later half of the curve. Two more rows, as noisy as
the noisiest row of the whole curve, are added to that half. Curves over the same rows
and orders share noise, which cancels in differences of curves. Laws are drawn
separately for each curve. Hestness et al., 2017, arXiv:1712.00409, describe learning
curves that are power laws. Caballero et al., 2023, arXiv:2210.14891, describe curves
with knees.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from sklearn_mdl.metrics._learning_curves import check_losses
from sklearn_mdl.metrics._references import Floats, Integers, checked_count, invalid

LEAST_LABELS = 40
START = 0.05  # share of the labels that is skipped at the beginning of a curve
N_INTERVALS = 12
FLOORS = np.arange(40)[:, None] / 40  # as shares of the last loss
# Pairs of a knee, in units of the curve's length, and its sharpness.
KNEES = (
    *((knee, 1.0) for knee in (0.0, 0.02, 0.05, 0.1, 0.2)),
    *product((0.3, 0.6, 1.0, 3.0), (1.0, 2.0, 4.0)),
)
LAWS = (  # (power, knee, sharpness); an infinite power is an exponential
    *((power, *knee) for power in np.arange(1, 17) / 4 for knee in KNEES),
    *((np.inf, knee, 1.0) for knee in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)),
)
FLAT = 0.15  # prior probability of the flat law; the other laws share the rest
NEIGHBOURS = 4  # the variance is averaged over this many intervals on either side
MISFIT = 0.02  # standard deviation of a law's own error, as a share of the loss
# All losses depend on the same training rows, which makes them vary together. This
# factor on the standard deviation of the noise was measured on three datasets.
TRAINING = 1.35
N_DRAWS = 400
MOST_CELLS = 1000  # largest number of intervals in the sum over future labels
WIDEST = 0.1  # largest informative half-width, as a share of the codelength


def is_narrow(values: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Return True where codelength intervals are narrow enough to be useful."""
    return (upper - lower) / 2 <= WIDEST * values


class Extrapolation(NamedTuple):
    """Codelengths predicted for a larger number of labels.

    Attributes
    ----------
    n : int
        Total number of labels, including the labels of the curves.
    values : ndarray of shape (n_curves,)
        Predicted codelengths of ``n`` labels, in nats.
    lower, upper : ndarray of shape (n_curves,)
        Bounds of the prediction intervals.
    level : float
        Coverage of each interval.
    draws : ndarray of shape (n_draws, n_curves)
        Random draws of the codelengths. In each draw, the curves share the noise, so
        the difference of two columns consists of draws of the codelengths' difference.
    """

    n: int
    values: Floats
    lower: Floats
    upper: Floats
    level: float
    draws: Floats

    @property
    def is_precise(self) -> NDArray[np.bool_]:
        """True where half the interval's width is at most 10 % of the codelength."""
        return is_narrow(self.values, self.lower, self.upper)

    def difference(self, i: int, j: int) -> tuple[float, float, float]:
        """Return codelength ``i`` minus codelength ``j``, and its interval's bounds.

        Parameters
        ----------
        i, j : int
            Indices of the curves.
        """
        lower, upper = _interval(self.draws[:, i] - self.draws[:, j], self.level)
        return float(self.values[i] - self.values[j]), float(lower), float(upper)


def extrapolate(
    curves: ArrayLike, n: int, *, level: float = 0.9, groups: ArrayLike | None = None
) -> Extrapolation:
    """Predict codelengths of a larger number of labels by averaging over loss laws.

    Parameters
    ----------
    curves : array-like of shape (N,), (n_curves, N) or (n_curves, n_orders, N)
        Cost of each label in the order of the run, in nats, for one run or for several
        runs over the same rows in the same orders. At least 40 labels are required.
    n : int
        Total number of labels of the predicted codelengths, larger than N.
    level : float, default=0.9
        Coverage of each interval, between 0 and 1 exclusive.
    groups : array-like of shape (N,) or (n_orders, N), default=None
        Group of each row in the order of the run, such as a patient. Intervals are then
        for more groups of similar sizes. At least two groups are required.

    Returns
    -------
    extrapolation : Extrapolation
        Predictions for more rows from the same source. The intervals cover the noise of
        these rows, but not a change of the law itself. No law rises, so do not
        extrapolate a curve that rises. With several orders, the intervals are for the
        means over as many new orders. One order does not reveal the variation over
        orders, so the intervals are then for the same run, continued.

    Raises
    ------
    ValueError
        If a shape is invalid, a cost is negative or not finite, there is only one
        group, or an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> losses = 0.3 + np.arange(1, 501) ** -0.5
    >>> extrapolation = extrapolate(losses, 1000)
    >>> extrapolation.values.round(1)  # 0.3 + t ** -0.5 sums to 361.8 up to t = 1,000
    array([360.9])
    """
    costs = np.asarray(curves, dtype=np.float64)
    if costs.ndim not in (1, 2, 3) or not costs.size or costs.shape[-1] < LEAST_LABELS:
        raise ValueError(
            "`curves` must have shape (n_labels,), (n_curves, n_labels) or (n_curves, "
            f"n_orders, n_labels) with at least {LEAST_LABELS} labels, got "
            f"{costs.shape}; pass codelengths_ of {LEAST_LABELS} or more rows"
        )
    check_losses("curves", costs)
    if costs.ndim < 3:
        costs = costs.reshape(-1, 1, costs.shape[-1])
    checked_count("n", n, costs.shape[-1] + 1)
    if not 0 < level < 1:
        required = "a number between 0 and 1 exclusive"
        raise invalid("level", required, level, "for example, pass level=0.9")
    given = np.arange(costs.shape[-1]) if groups is None else np.asarray(groups)
    keys = np.unique(given, return_inverse=True)[1].reshape(given.shape)
    if keys.shape not in (costs.shape[-1:], costs.shape[1:]):
        required = f"of shape {costs.shape[-1:]} or {costs.shape[1:]}"
        raise invalid("groups", required, keys.shape, "pass the group of each row")
    rows = np.broadcast_to(keys, costs.shape[1:])
    starts = [np.flatnonzero(np.diff(row, prepend=-1)) for row in rows]
    if len(starts[0]) < 2:
        cure = "pass rows of more groups, or groups=None if rows are independent"
        raise invalid("groups", "labels of two or more groups", 1, cure)
    return _extrapolated(costs, starts, int(n), float(level))


def _noise(costs: Floats, starts: Integers) -> Floats:
    """Return noise (n_curves, N) whose squares sum to the variance of the total cost.

    Differences between the means of successive groups have almost no trend, and twice
    the variance of one mean.
    """
    sizes = np.diff(starts, append=costs.shape[1])
    means = np.add.reduceat(costs, starts, axis=1) / sizes
    noise = np.diff(means) / np.sqrt(2) * np.sqrt(sizes[1:])
    return np.repeat(np.c_[noise[:, :1], noise], sizes, axis=1)


def _extrapolated(
    costs: Floats, starts: list[Integers], n: int, level: float
) -> Extrapolation:
    n_seen = costs.shape[-1]
    first = max(int(START * n_seen), 1)
    edges = np.unique(np.rint(np.geomspace(first, n_seen, N_INTERVALS + 1)).astype(int))
    noise = np.stack([_noise(costs[:, k], s) for k, s in enumerate(starts)], axis=1)
    # Rare large losses, such as those of wrong labels, may be missing from the later
    # half. So two rows (or groups) that are as noisy as the noisiest are added to it.
    rare = 8 * (noise**2).max((1, 2)) / len(starts[0])
    noise = noise[:, :, first:]
    late = (noise[:, :, -(n_seen // 2) :] ** 2).mean((1, 2)) + rare
    curves = costs.mean(1)
    # Averaging over orders reduces the noise, since each position then has several
    # examples. Future rows are the same for all orders, so their noise remains.
    counts = np.diff(edges)
    means = np.add.reduceat(curves[:, :n_seen], edges[:-1], axis=1) / counts
    squares = np.add.reduceat(noise.mean(1) ** 2, edges[:-1] - first, axis=1)
    places = np.arange(len(counts))
    near = np.abs(places[:, None] - places) <= NEIGHBOURS
    variance = squares @ near / (counts @ near) / counts + (MISFIT * means) ** 2 + 1e-12
    probability, scale, error, future = _posterior(means, 1 / variance, edges, n)
    rng = np.random.default_rng(0)
    # Curves share the noise, but their laws are drawn independently.
    known, to_come = (_normal(rng, noise) * TRAINING for _ in range(2))
    total = np.empty(known.shape)
    for i, weights in enumerate(probability):
        drawn = (rng.permutation(N_DRAWS) + 0.5) / N_DRAWS * weights.sum()
        law = np.searchsorted(np.cumsum(weights), drawn)
        total[:, i] = (scale[i, law] + known[:, i] * error[i, law]) * future[law]
    total += to_come * np.sqrt(late * (n - n_seen))
    seen, degrees = curves.sum(1), max(len(starts) - 1, 1)
    # The given orders and those of a later ranking are two samples of all orders.
    orders = (costs.sum(2).T - seen) * np.sqrt(2 / (len(starts) * degrees))
    values = seen + (probability * scale) @ future
    drawn = rng.standard_normal((N_DRAWS, len(starts))) @ orders
    drawn /= np.sqrt(rng.chisquare(degrees, (N_DRAWS, 1)) / degrees)
    draws = np.maximum(seen + np.maximum(total, 0.0) + drawn, 0.0)
    return Extrapolation(n, values, *_interval(draws, level), level, draws)


def _normal(rng: np.random.Generator, noise: Floats) -> Floats:
    """Draw normal numbers (N_DRAWS, n_curves), correlated like the curves' noise."""
    flat = noise.reshape(len(noise), -1)
    flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300)
    mean, covariance = np.zeros(len(flat)), flat @ flat.T
    return rng.multivariate_normal(mean, covariance, N_DRAWS, method="eigh")


def _posterior(
    means: Floats, weights: Floats, edges: Integers, n: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the posterior probabilities of the laws, given mean losses of intervals.

    Parameters
    ----------
    means : ndarray of shape (n_curves, M)
        Mean loss of each interval.
    weights : ndarray of shape (n_curves, M)
        Inverse variances of the means.
    edges : ndarray of shape (M + 1,)
        Bounds of the intervals, in numbers of labels.
    n : int
        Total number of labels.

    Returns
    -------
    probability, scale, error : ndarray of shape (n_curves, n_laws)
        Probability of each law, its loss at the last label of the curves, and the
        standard error of that loss.
    future : ndarray of shape (n_laws,)
        Sum of future losses under each law at scale 1.
    """
    laws, future, prior = _laws(edges, n)
    information = weights @ (laws**2).T
    scale = (weights * means) @ laws.T / information
    fit = scale**2 * information  # explained part of the sum of squares
    # The level, whose logarithm has a flat prior, is integrated out.
    log = np.log(prior) - np.log(information) / 2 - np.log(scale + 1e-300) + fit / 2
    return softmax(log, axis=1), scale, 1 / np.sqrt(information), future


def _laws(edges: Integers, n: int) -> tuple[Floats, Floats, Floats]:
    """Return each law's interval means (n_laws, M), sum of future losses, and prior.

    Laws are scaled to 1 at the last label of the curves.
    """
    n_seen, counts = int(edges[-1]), np.diff(edges)
    n_more = n - n_seen
    seen = np.arange(1, n_seen + 1) / n_seen
    ends = np.linspace(n_seen, n, min(n_more, MOST_CELLS) + 1)
    to_come = ((ends[:-1] + ends[1:] + 1) / 2) / n_seen
    laws, future = [np.ones((1, len(counts)))], [[n_more]]
    for law in LAWS:
        past, later = _falling(seen, *law), _falling(to_come, *law)
        mean = np.add.reduceat(past, edges[:-1]) / counts / past[-1]
        laws.append(FLOORS + (1 - FLOORS) * mean)
        share = later.mean() / past[-1]
        future.append(n_more * (FLOORS[:, 0] * (1 - share) + share))
    means, sums = np.concatenate(laws), np.concatenate(future)
    prior = np.full(len(means), (1 - FLAT) / (len(means) - 1))
    prior[0] = FLAT
    return means, sums, prior


def _falling(times: Floats, power: float, knee: float, sharpness: float) -> Floats:
    """Return a law's falling part at ``times``, in units of the curve's length."""
    if knee == 0:
        return times**-power
    if np.isinf(power):
        return np.exp(-times / knee)
    return (1 + (times / knee) ** sharpness) ** (-power / sharpness)


def _interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return lower, upper
