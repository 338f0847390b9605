"""How a state moves from one step to the next, for every prior and in both directions.

Every prior here lets the expert stay or draws one anew from the prior weights, so that
a step needs no K x K matrix: the mass that leaves is added up and dealt out again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Logs that are held at once: e^-300 leaves room for the rates and weights of a move.
_BAND = 300.0

_FIRST_ROW = np.ones(1)
_FIRST_ROW.flags.writeable = False


class Moves(NamedTuple):
    """The moves into one step: in every row the expert is kept or drawn anew.

    Attributes
    ----------
    draw : ndarray of shape (n_rows,)
        Probability, for each row, that the expert is drawn anew from the prior weights.
    enter : ndarray of shape (n_new_rows,) or None
        Probabilities of the rows that a drawn expert enters, wherever it came from; the
        first by default. None: the row after its own, which adds a row to the state.
    ageing : bool
        Whether a kept expert goes on to the next row, which adds a row to the state; it
        stays in its row otherwise.
    others : bool
        Whether the draw is from the experts other than the one left, with their prior
        weights in proportion. For states of one row.

    Examples
    --------
    >>> moves = Moves(draw=np.array([0.1]))
    >>> carry(np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), moves)
    array([[0.95, 0.05]])
    """

    draw: Floats
    enter: Floats | None = _FIRST_ROW
    ageing: bool = False
    others: bool = False


def carry(state: Floats, w: Floats, moves: Moves) -> Floats:
    """Return the state one step on.

    Parameters
    ----------
    state : ndarray of shape (n_rows, K)
        Probabilities that sum to one.
    w : ndarray of shape (K,)
        Prior weights of the experts, summing to one.
    moves : Moves

    Returns
    -------
    state : ndarray of shape (n_new_rows, K)
    """
    draw, enter, ageing, others = moves
    if others:
        return _carry_to_others(state, w, draw[0])
    if enter is not None and len(state) == len(enter) == 1 and not ageing:
        alpha = draw[0]
        moved: Floats = (1.0 - alpha) * state + alpha * w
        return moved
    kept = (1.0 - draw)[:, np.newaxis] * state
    leaving = draw * np.add.reduce(state, axis=1)
    if enter is None:
        arriving, kept = _aged(leaving), _grown(kept)
    else:
        arriving = np.add.reduce(leaving) * enter
        kept = _aged(kept) if ageing else kept
    kept[: len(arriving)] += arriving[:, np.newaxis] * w
    return kept


def in_bands(scores: Floats, linear: Callable[[Floats], Floats]) -> Floats:
    """Apply a linear map to numbers that are given by their logs, and span any range.

    They are cut into bands, each of which plain numbers can hold.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, K)
        Logs of non-negative numbers, such as the probabilities of a state.
    linear : callable
        The map, such as `carry` into a step; it is handed numbers that sum to one.

    Returns
    -------
    scores : ndarray
        Logs of what the map makes of the numbers.
    """
    mapped: Floats | None = None
    with np.errstate(divide="ignore"):
        while mapped is None or scores.max() > -np.inf:
            top = scores.max()
            band = scores > top - _BAND
            part = np.exp(np.where(band, scores - top, -np.inf))
            total = part.sum()
            logs = top + np.log(total) + np.log(linear(part / total))
            mapped = logs if mapped is None else np.logaddexp(mapped, logs)
            scores = np.where(band, -np.inf, scores)
    return mapped


def carry_back(values: Floats, w: Floats, moves: Moves) -> Floats:
    """Return the expected value, one step earlier, of values one step on.

    The transpose of `carry`: ``carry_back(values)[j, k]`` is the mean of `values` over
    the states to which state ``(j, k)`` may move.

    Parameters
    ----------
    values : ndarray of shape (n_new_rows, K)
        A non-negative number for each state one step on.
    w : ndarray of shape (K,)
    moves : Moves

    Returns
    -------
    values : ndarray of shape (n_rows, K)
    """
    draw, enter, ageing, others = moves
    if others:
        return _carry_back_from_others(values, w, draw[0])
    stay = values[1:] if ageing else values[: len(draw)]
    drawn = values @ w
    arrive = drawn[1:] if enter is None else enter @ drawn[: len(enter)]
    return (1.0 - draw)[:, np.newaxis] * stay + (draw * arrive)[:, np.newaxis]


def sums_of_others(values: Floats) -> Floats:
    """For each entry of a vector, the sum of all the others, without subtraction.

    Subtracting an entry from the total would lose every digit of the others where the
    entry is nearly all there is.
    """
    sums = np.zeros_like(values)
    np.add.accumulate(values[:-1], out=sums[1:])
    sums[:-1] += np.add.accumulate(values[:0:-1])[::-1]
    return sums


def _carry_to_others(state: Floats, w: Floats, alpha: float) -> Floats:
    leave = _leave(w, alpha)
    kept = np.where(leave > 0, 1.0 - alpha, 1.0) * state[0]
    moved: Floats = kept + w * sums_of_others(leave * state[0])
    return moved[np.newaxis]


def _carry_back_from_others(values: Floats, w: Floats, alpha: float) -> Floats:
    leave = _leave(w, alpha)
    kept = np.where(leave > 0, 1.0 - alpha, 1.0) * values[0]
    means: Floats = kept + leave * sums_of_others(w * values[0])
    return means[np.newaxis]


def _leave(w: Floats, alpha: float) -> Floats:
    """Rate of leaving, over the weight of the others; zero where there are none."""
    rest = sums_of_others(w)
    leave: Floats = np.divide(alpha, rest, out=np.zeros_like(w), where=rest > 0)
    return leave


def _aged(rows: Floats) -> Floats:
    """Return rows moved on by one, with a first row of zeros."""
    return np.concatenate([np.zeros_like(rows[:1]), rows])


def _grown(rows: Floats) -> Floats:
    """Return rows with a last row of zeros."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])
