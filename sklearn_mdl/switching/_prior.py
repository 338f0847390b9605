"""Base classes of switching priors: hidden Markov models over experts.

A prior does not depend on losses. It is a parameter object, so its parameters can be
searched and cloned like the parameters of any estimator. At each step after the first,
the expert is kept or redrawn from the prior weights. This needs no K x K matrix:
the probability of redrawn experts is summed and then redistributed in proportion to the
weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]
Steps = NDArray[np.intp]


# scikit-learn has no type hints; some settings of mypy report this.
class SwitchingPrior(BaseEstimator, ABC):  # type: ignore[misc, unused-ignore]
    """Prior over expert sequences, before any label is seen.

    To write your own prior, derive from `MarkovPrior`. As scikit-learn requires, the
    constructor does not check parameters. `check_params` checks them when the prior is
    used.

    Notes
    -----
    The docstrings of priors bound how much longer a codelength can be than that of the
    best experts. These bounds hold for the codelength of the prior itself, as in
    `switching_codelength_`, and not for that of a pool. They do not hold with groups,
    delayed labels or retired experts.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, Section 3 (expert sequence prior, Eq. (1)).
    Koolen and de Rooij, 2008, Combining expert advice efficiently, COLT.
    """

    def check_params(self) -> None:
        """Check the parameters (by default, nothing is checked).

        Raises
        ------
        ValueError
            If a parameter is outside its domain.
        """

    def check_length(self, n_steps: int) -> None:
        """Check the length of a stream (by default any length is allowed).

        Parameters
        ----------
        n_steps : int
            Number of steps in the stream, including the next block.

        Raises
        ------
        ValueError
            If the stream is longer than the prior allows.
        """

    @abstractmethod
    def components(self, w: Floats) -> list[Component]:
        """Return the Markov priors whose mixture is this prior.

        Parameters
        ----------
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.

        Returns
        -------
        components : list of Component
            Exactly one of these priors holds for the whole stream, so their
            probabilities sum to one.
        """


class MarkovPrior(SwitchingPrior):
    """Prior over expert sequences: a hidden Markov model with an O(K) transition.

    A state is a pair (row ``j``, expert ``k``). An array of shape (n_rows, K) holds the
    probabilities of all states. The first step draws its expert from the prior weights
    and its row from `rows`. At every later step the expert is kept or redrawn, as
    `transition` specifies. A subclass implements `transition` and, if states have
    several rows, `rows`. Neither may use the length of the stream, since codelengths
    must not depend on how many labels follow.

    Examples
    --------
    A prior that redraws the expert at every tenth step:

    >>> import numpy as np
    >>> from sklearn_mdl import forward
    >>> from sklearn_mdl.switching import MarkovPrior, Transition
    >>> class Tenth(MarkovPrior):
    ...     def transition(self, t):
    ...         return Transition(draw=np.array([float(t % 10 == 1)]))
    >>> losses = [[0.0, 3.0]] * 10 + [[3.0, 0.0]] * 10
    >>> forward(Tenth(), losses).codelength  # 2 log 2
    1.386...
    """

    @property
    def shares(self) -> bool:
        """True if experts are ever redrawn, which lets weight flow between them.

        Without sharing, a weight that has underflowed to zero would stay zero. So if
        False, the forward pass uses cumulative sums of logs.
        """
        return True

    def rows(self) -> Floats:
        """Return the probabilities (n_rows,) of the rows at the first step."""
        return np.ones(1)

    @abstractmethod
    def transition(self, t: int) -> Transition:
        """Return the transition from step ``t - 1`` into step ``t``.

        Parameters
        ----------
        t : int
            The step that is entered, counted from 1. It is at least 2.

        Returns
        -------
        transition : Transition
        """

    def initial(self, w: Floats) -> Floats:
        """Return the state at the first step, before its label.

        Parameters
        ----------
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.

        Returns
        -------
        state : ndarray of shape (n_rows, K)
            p(state_1).
        """
        return np.outer(self.rows(), w)

    def advance(self, state: Floats, w: Floats, t: int) -> Floats:
        """Apply the transition from step ``t - 1`` into step ``t``, in O(n_rows K).

        Parameters
        ----------
        state : ndarray of shape (n_rows, K)
            p(state_{t-1} | y_{<t}), conditioned on the label of step ``t - 1``.
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.
        t : int
            The step that is entered, counted from 1. It is at least 2.

        Returns
        -------
        state : ndarray of shape (n_new_rows, K)
            p(state_t | y_{<t}).
        """
        return apply(state, w, self.transition(t))

    def components(self, w: Floats) -> list[Component]:
        """Return the prior itself, with probability one."""
        return [Component(1.0, self, w)]


class Component(NamedTuple):
    """A Markov prior in a mixture of Markov priors.

    Attributes
    ----------
    probability : float
        Probability that this prior holds for the whole stream.
    prior : MarkovPrior
    w : ndarray of shape (K,)
        The weights with which the prior draws experts.
    """

    probability: float
    prior: MarkovPrior
    w: Floats


# Range of logs in one band: e^-300 times rates and weights does not underflow.
_BAND = 300.0

_FIRST_ROW = np.ones(1)
_FIRST_ROW.flags.writeable = False


class Transition(NamedTuple):
    """Transition into one step: in every row the expert is kept or redrawn.

    Attributes
    ----------
    draw : ndarray of shape (n_rows,)
        Probability, for each row, that the expert is redrawn from the prior weights.
    enter : ndarray of shape (n_new_rows,) or None
        Probabilities of the rows that a redrawn expert enters, whatever its previous
        row. By default, a redrawn expert enters the first row. If None, it enters the
        row after its previous row, which adds a row to the state.
    ageing : bool
        If True, a kept expert enters the row after its previous row, which adds a row
        to the state. Otherwise the expert stays in its row.
    others : bool
        If True, a redraw never returns the previous expert. The other experts are drawn
        in proportion to their prior weights. Only for states with one row.

    Examples
    --------
    >>> transition = Transition(draw=np.array([0.1]))
    >>> apply(np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), transition)
    array([[0.95, 0.05]])
    """

    draw: Floats
    enter: Floats | None = _FIRST_ROW
    ageing: bool = False
    others: bool = False

    @property
    def is_plain(self) -> bool:
        """True for one-row states, if a redraw may return the previous expert."""
        fixed = self.enter is not None and not (self.ageing or self.others)
        return fixed and len(self.draw) == 1


def apply(state: Floats, w: Floats, transition: Transition) -> Floats:
    """Return the state at the next step.

    Parameters
    ----------
    state : ndarray of shape (n_rows, K)
        Probabilities that sum to one.
    w : ndarray of shape (K,)
        Prior weights of the experts, summing to one.
    transition : Transition

    Returns
    -------
    state : ndarray of shape (n_new_rows, K)
    """
    draw, enter, ageing, others = transition
    if others:
        return _apply_others(state, w, draw[0])
    if enter is not None and len(state) == len(enter) == 1 and not ageing:
        return np.asarray((1.0 - draw[0]) * state + draw[0] * w)
    kept = (1.0 - draw)[:, np.newaxis] * state
    leaving = draw * np.add.reduce(state, axis=1)
    zeros = np.zeros((1, kept.shape[1]))
    if enter is None:
        arriving, kept = np.append(0.0, leaving), np.concatenate([kept, zeros])
    else:
        arriving = np.add.reduce(leaving) * enter
        kept = np.concatenate([zeros, kept]) if ageing else kept
    kept[: len(arriving)] += arriving[:, np.newaxis] * w
    return kept


def apply_log(scores: Floats, linear: Callable[[Floats], Floats]) -> Floats:
    """Apply a linear map to numbers of any range, given as logs.

    Numbers are split into bands whose range floats can represent.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, K)
        Logs of non-negative numbers, such as the probabilities of a state.
    linear : callable
        The map, such as `apply` for a transition; its argument sums to one.

    Returns
    -------
    scores : ndarray
        Logs of the mapped numbers.
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


def apply_adjoint(values: Floats, w: Floats, transition: Transition) -> Floats:
    """Return the expected value at the next step for each current state.

    This is the transpose of `apply`: ``apply_adjoint(values)[j, k]`` is the mean of
    `values` over the states that follow state ``(j, k)``.

    Parameters
    ----------
    values : ndarray of shape (n_new_rows, K)
        A non-negative number for each state at the next step.
    w : ndarray of shape (K,)
    transition : Transition

    Returns
    -------
    values : ndarray of shape (n_rows, K)
    """
    draw, enter, ageing, others = transition
    if others:
        return _apply_others(values, w, draw[0], adjoint=True)
    stay = values[1:] if ageing else values[: len(draw)]
    drawn = values @ w
    arrive = drawn[1:] if enter is None else enter @ drawn[: len(enter)]
    return (1.0 - draw)[:, np.newaxis] * stay + (draw * arrive)[:, np.newaxis]


def sums_of_others(values: Floats) -> Floats:
    """Return, for each entry of a vector, the sum of all the others.

    Entries are not subtracted from the total, since this would lose all digits of the
    other entries if one entry is almost the whole total.
    """
    sums = np.zeros_like(values)
    np.add.accumulate(values[:-1], out=sums[1:])
    sums[:-1] += np.add.accumulate(values[:0:-1])[::-1]
    return sums


def _apply_others(
    values: Floats, w: Floats, alpha: float, *, adjoint: bool = False
) -> Floats:
    """Redraw from the other experts at rate `alpha`, or apply the transposed map."""
    rest = sums_of_others(w)  # zero if there are no others
    leave = np.divide(alpha, rest, out=np.zeros_like(w), where=rest > 0)
    before, after = (w, leave) if adjoint else (leave, w)
    kept = np.where(leave > 0, 1.0 - alpha, 1.0) * values[0]
    return np.asarray(kept + after * sums_of_others(before * values[0]))[np.newaxis]
