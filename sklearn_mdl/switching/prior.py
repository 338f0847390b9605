"""What a switching prior is: a mixture of hidden Markov models over expert sequences.

A prior knows nothing of losses. It is a parameter object with two tiny methods, so that
its parameters can be searched and cloned as those of any estimator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_mdl.switching.moves import Moves, carry

Floats = NDArray[np.float64]


# scikit-learn carries no types, and how strictly that is taken is a matter of settings.
class SwitchingPrior(BaseEstimator, ABC):  # type: ignore[misc, unused-ignore]
    """Prior over expert sequences: what may speak when, before any label is seen.

    To write one, derive from `MarkovPrior`. Parameters are checked when the prior is
    used, by `check_params`, and not by the constructor, as scikit-learn asks.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, Section 3 (expert sequence prior, Eq. (1)).
    Koolen and de Rooij, 2008, Combining expert advice efficiently, COLT.
    """

    def check_params(self) -> None:
        """Check the parameters; without parameters there is nothing to check.

        Raises
        ------
        ValueError
            If a parameter is outside its domain.
        """

    def check_length(self, n_steps: int) -> None:
        """Check that a stream may be as long as that; by default it may always be.

        Parameters
        ----------
        n_steps : int
            Steps of the stream so far and of the block to come.

        Raises
        ------
        ValueError
            If the cost of a step grows with the stream and the limit is passed.
        """

    @abstractmethod
    def components(self, w: Floats) -> list[Component]:
        """Return the Markov priors that this one is a mixture of.

        Parameters
        ----------
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.

        Returns
        -------
        components : list of Component
            Their probabilities sum to one; one of them speaks for the whole stream.
        """


class MarkovPrior(SwitchingPrior):
    """Prior over expert sequences: a hidden Markov model with a cheap transition.

    A state is a pair (row ``j``, expert ``k``), held as an array of probabilities of
    shape (n_rows, K). The expert of the first step is drawn from the prior weights and
    its row from `rows`; into every later step the expert is kept or drawn anew, as
    `moves` says. A subclass writes `moves`, and `rows` if there is more than one.
    Neither may use the length of the stream: the first codelengths must not know how
    many will follow.

    Examples
    --------
    A prior that draws anew at every tenth step:

    >>> import numpy as np
    >>> from sklearn_mdl.switching import MarkovPrior, Moves, forward
    >>> class Tenth(MarkovPrior):
    ...     def moves(self, t):
    ...         return Moves(draw=np.array([float(t % 10 == 1)]))
    >>> losses = [[0.0, 3.0]] * 10 + [[3.0, 0.0]] * 10
    >>> forward(Tenth(), losses).codelength  # 2 log 2
    1.386...
    """

    @property
    def shares(self) -> bool:
        """Whether weight ever flows between experts.

        False exactly where no expert is ever drawn anew. The forward pass then uses
        cumulative sums in logs, because a weight that only falls would underflow to
        zero and its expert could not come back.
        """
        return True

    def rows(self) -> Floats:
        """Return the probabilities of the rows at the first step, shape (n_rows,)."""
        return np.ones(1)

    @abstractmethod
    def moves(self, t: int) -> Moves:
        """Return the moves from step ``t - 1`` into step ``t``.

        Parameters
        ----------
        t : int
            The step that is entered, counted from 1, so at least 2.

        Returns
        -------
        moves : Moves
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

    def transition(self, state: Floats, w: Floats, t: int) -> Floats:
        """Carry the state from step ``t - 1`` to step ``t``, in O(n_rows K).

        Parameters
        ----------
        state : ndarray of shape (n_rows, K)
            p(state_{t-1} | y_{<t}), conditioned on the label of step ``t - 1``.
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.
        t : int
            The step that is entered, counted from 1, so at least 2.

        Returns
        -------
        state : ndarray of shape (n_new_rows, K)
            p(state_t | y_{<t}).
        """
        return carry(state, w, self.moves(t))

    def components(self, w: Floats) -> list[Component]:
        """Return the prior itself, with probability one."""
        return [Component(1.0, self, w)]


class Component(NamedTuple):
    """One of the Markov priors that a prior is a mixture of.

    Attributes
    ----------
    probability : float
        That this one speaks for the whole stream.
    prior : MarkovPrior
    w : ndarray of shape (K,)
        The prior weights of the experts that it draws from.
    """

    probability: float
    prior: MarkovPrior
    w: Floats


def is_number_in(value: object, low: float, high: float) -> bool:
    """Whether `value` is a finite real number between two bounds, bounds included."""
    if not isinstance(value, Real):
        return False
    return math.isfinite(value) and low <= float(value) <= high


def check_max_steps(max_steps: object) -> None:
    """Refuse a longest stream that is not a number of steps."""
    if not isinstance(max_steps, Integral) or max_steps < 0:
        raise ValueError(
            f"`max_steps` must be a non-negative integer, got {max_steps=}; give the "
            "longest stream that is worth its O(K N^2) time."
        )
