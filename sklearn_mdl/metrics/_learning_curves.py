"""The loss-data curve of a prequential run, and numbers derived from the curve.

A loss-data curve is the expected loss of a prediction as a function of the number of
labels learned. It shows how many labels are needed to reach a target loss ``epsilon``,
and how much these labels cost (Whitney et al., 2020, Evaluating representations by the
complexity of learning low-loss predictors, arXiv:2009.07368).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.metrics._references import Floats, Integers, checked_count, invalid


class LossDataCurve(NamedTuple):
    """Mean loss of predictions over intervals of the number of learned labels.

    Attributes
    ----------
    starts, stops : ndarray of shape (M,)
        Interval ``i`` contains the predictions made after ``starts[i]`` to
        ``stops[i] - 1`` labels. Together the intervals cover the run.
    losses : ndarray of shape (M,)
        Mean cost per label in each interval, in nats.
    """

    starts: Integers
    stops: Integers
    losses: Floats


def loss_data_curve(codelengths: ArrayLike, *, n_intervals: int = 20) -> LossDataCurve:
    """Average the losses of a run over intervals of geometrically growing length.

    Parameters
    ----------
    codelengths : array-like of shape (N,) or (n_orders, N)
        Cost of each label in the order of the run, in nats. If there are several
        orders, their costs are averaged, which reduces the variance of the curve.
    n_intervals : int, default=20
        Largest number of intervals, at least 2. The first interval has one label.

    Returns
    -------
    curve : LossDataCurve

    Raises
    ------
    ValueError
        If the shape is invalid, a cost is negative or not finite, or `n_intervals` is
        out of range.

    References
    ----------
    Whitney et al., 2020, Section 3 (loss-data curves).

    Examples
    --------
    >>> curve = loss_data_curve([0.7, 0.5, 0.3, 0.1], n_intervals=3)
    >>> curve.starts, curve.losses
    (array([0, 1, 2]), array([0.7, 0.5, 0.2]))
    """
    costs = checked_costs("codelengths", codelengths)
    n_intervals = checked_count("n_intervals", n_intervals, 2)
    ends = np.rint(np.geomspace(1, len(costs), n_intervals)).astype(np.int64)
    edges = np.unique(np.append(ends, 0))
    starts, stops = edges[:-1], edges[1:]
    means = np.add.reduceat(costs, starts) / (stops - starts)
    return LossDataCurve(starts, stops, means)


class CurveReading(NamedTuple):
    """A number derived from a loss-data curve.

    Attributes
    ----------
    value : float
    is_bound : bool
        True if labels outside the curve may increase `value`, since the curve ends too
        early or, for a surplus, its first size exceeds 1.
    """

    value: float
    is_bound: bool


def surplus_description_length(
    losses: ArrayLike,
    epsilon: float,
    *,
    sizes: ArrayLike | None = None,
    n_intervals: int = 20,
) -> CurveReading:
    """Return the number of nats that a run costs above a target loss per label.

    Let ``L(n)`` be the expected loss after ``n`` labels. The surplus is ``sum_n max(0,
    L(n) - epsilon)``, the part of the codelength that is due to learning. A label
    adds nothing if its expected loss is at most ``epsilon``.

    Parameters
    ----------
    losses : array-like of shape (N,) or (n_orders, N)
        Cost of each label of a run, in nats, averaged by `loss_data_curve`. With
        `sizes`, the expected loss at each size, of shape (M,).
    epsilon : float
        The target loss, in nats per label. No prediction can reach a target below the
        entropy of the labels given the features.
    sizes : array-like of int of shape (M,), optional
        Number of labels learned before each loss, in increasing order. At least two
        sizes are required. Each loss is assumed to hold until the next size, which
        overestimates the surplus if the curve falls. More sizes give a tighter value.
    n_intervals : int, default=20
        Passed to `loss_data_curve`.

    Returns
    -------
    surplus : CurveReading
        Surplus in nats. If the last loss exceeds ``epsilon / 2`` or the smallest size
        exceeds 1, part of the surplus may be outside the measured sizes, and `is_bound`
        is True. With few sizes, the value can still be too large.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range.

    References
    ----------
    Whitney et al., 2020, Eq. (12), Appendix C and Algorithm 1.

    Examples
    --------
    >>> surplus_description_length([0.7, 0.5, 0.3, 0.1], 0.25, n_intervals=5)
    CurveReading(value=0.7..., is_bound=False)
    """
    epsilon = _checked_loss(epsilon)
    if sizes is None:
        costs = checked_costs("losses", losses)
        curve = loss_data_curve(costs, n_intervals=n_intervals)
        lengths, surplus = curve.stops - curve.starts, curve.losses - epsilon
        is_bound = curve.losses[-1] > epsilon / 2
    else:
        measured, at = _checked_sizes(losses, sizes)
        lengths, surplus = np.diff(at), measured[:-1] - epsilon
        is_bound = measured[-1] > epsilon / 2 or at[0] > 1
    return CurveReading(float(lengths @ np.maximum(0.0, surplus)), bool(is_bound))


def excess_description_length(
    losses: ArrayLike, final_loss: float | None = None, *, tail: float = 0.1
) -> float:
    """Return the part of a codelength that was spent on learning, in nats.

    The excess ``sum_t l_t - N l`` is the area between the loss curve and ``l``. If
    ``l`` is the final predictor's loss on other rows, the result is the excess
    description length: the information that training stored in the predictor. If ``l``
    is the loss at the end of the run, the result estimates the final predictor's
    epiplexity, the amount of structure that the predictor has learned. ``N l`` then
    estimates the time-bounded entropy. Only pass a training loss as `final_loss` if the
    predictor has learned from each label once and memorised none.

    Parameters
    ----------
    losses : array-like of shape (N,) or (n_orders, N)
        Cost of each label of a run, in nats.
    final_loss : float, default=None
        Loss of the final predictor in nats per label. By default, the mean loss at the
        end of the run.
    tail : float, default=0.1
        Share of the run that counts as its end.

    Returns
    -------
    excess : float
        Excess in nats. It is close to 0 if nothing can be learned from the features, or
        if nothing is left to learn. It is negative if predictions become worse.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range.

    References
    ----------
    Donoway, Joren, Roger and Leike, 2026, Excess description length of learning
    generalizable predictors, arXiv:2601.04728, definition 3.2. Finzi, Qiu, Jiang,
    Izmailov, Kolter and Wilson, 2026, From entropy to epiplexity, arXiv:2601.03220,
    definition 8 and equation 8.

    Examples
    --------
    >>> excess_description_length([0.7, 0.5, 0.3, 0.1], 0.2)
    0.8...
    """
    costs = checked_costs("losses", losses)
    if not 0 < tail <= 1:
        required = "a share above 0 and at most 1"
        raise invalid("tail", required, tail, "pass tail=0.1 for the last tenth")
    if final_loss is None:
        final_loss = float(costs[-max(1, round(tail * len(costs))) :].mean())
    return float(costs.sum()) - len(costs) * _checked_loss(final_loss, "final_loss")


def sample_complexity(
    losses: ArrayLike,
    epsilon: float,
    *,
    sizes: ArrayLike | None = None,
    n_intervals: int = 20,
) -> CurveReading:
    """Count the labels needed until predictions cost at most ``epsilon`` nats.

    Parameters
    ----------
    losses : array-like
    epsilon : float
    sizes : array-like, optional
    n_intervals : int, optional
        As for :func:`surplus_description_length`.

    Returns
    -------
    complexity : CurveReading
        Without `sizes`, the number of labels learned before the last prediction in the
        first interval from which on all mean losses are at most `epsilon`. So a few
        lucky predictions have little effect. With `sizes`, the first size from which on
        all losses are at most `epsilon`. If the last mean or loss exceeds `epsilon`,
        the value is a lower bound: the number of labels learned before the last
        prediction, or the last size.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range.

    References
    ----------
    Whitney et al., 2020, Eq. (13).

    Examples
    --------
    >>> sample_complexity([0.7, 0.5, 0.3, 0.1], 0.4, n_intervals=5)
    CurveReading(value=2.0, is_bound=False)
    """
    epsilon = _checked_loss(epsilon)
    if sizes is None:
        costs = checked_costs("losses", losses)
        curve = loss_data_curve(costs, n_intervals=n_intervals)
        means, reached = curve.losses, curve.stops - 1
    else:
        means, reached = _checked_sizes(losses, sizes)
    first = int(np.flatnonzero(np.append(True, means > epsilon))[-1])
    return CurveReading(float(reached[: first + 1][-1]), first == len(means))


def _checked_sizes(losses: ArrayLike, sizes: ArrayLike) -> tuple[Floats, Integers]:
    """Return losses and sizes as arrays, or raise ValueError if they are invalid."""
    measured, at = np.asarray(losses, dtype=np.float64), np.asarray(sizes)
    whole = at.dtype.kind in "iu" and at.ndim == 1 and at.size > 1
    if not whole or at.min() < 0 or (at[1:] <= at[:-1]).any():
        required = "two or more increasing integers of at least 0"
        raise invalid("sizes", required, sizes, "for example, pass sizes=[0, 10, 100]")
    if measured.shape != at.shape:
        required = f"of the same shape as `sizes`, {at.shape}"
        raise invalid("losses", required, measured.shape, "pass one loss for each size")
    check_losses("losses", measured)
    return measured, at


def checked_costs(name: str, losses: ArrayLike) -> Floats:
    """Return the costs of a run (N,), averaged over orders if there are several."""
    costs = np.asarray(losses, dtype=np.float64)
    if costs.ndim not in (1, 2) or not costs.size:
        required = "of shape (n_samples,) or (n_orders, n_samples)"
        raise invalid(name, required, costs.shape, "pass switcher.codelengths_")
    costs = costs if costs.ndim == 1 else costs.mean(axis=0)
    check_losses(name, costs)
    return costs


def check_losses(name: str, losses: Floats) -> None:
    """Raise ValueError if a loss is NaN, infinite, or negative except for rounding."""
    wrong = losses[~((losses >= -1e-9) & (losses < math.inf))]
    if wrong.size:
        cure = "pass costs -np.log(p) of classes with p > 0, not of real labels"
        raise invalid(name, "finite and at least 0", float(wrong[0]), cure)


def _checked_loss(epsilon: float, name: str = "epsilon") -> float:
    """Return a loss as a float, or raise if it is negative or not finite."""
    if not 0 <= epsilon < math.inf:
        required = "a finite loss of at least 0 nats"
        raise invalid(name, required, epsilon, f"for example, pass {name}=0.1")
    return float(epsilon)
