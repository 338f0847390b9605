"""The priors: for each, where the state begins and how it moves.

A prior knows nothing of losses. It is a parameter object with two tiny methods, so that
its parameters can be searched and cloned as those of any estimator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]


# scikit-learn carries no types, and how strictly that is taken is a matter of settings.
class SwitchingPrior(BaseEstimator, ABC):  # type: ignore[misc, unused-ignore]
    """Prior over expert sequences: a hidden Markov model with a cheap transition.

    A subclass writes `transition`, and `initial` if its state has more than one row.
    A state is an array of probabilities of shape (n_states, K), non-negative and
    summing to one; column ``k`` belongs to expert ``k``, and the number of rows may
    change from step to step. Both methods cost O(n_states K), never write into an array
    they are given and never use the length of the stream: the first codelengths must
    not know how many will follow. On states that sum to one, `transition` is linear.

    Probabilities are used rather than their logs because a step is then several times
    faster; `ForwardPass` normalises the state at every step.

    Parameters are checked when the prior is used, by `check_params`, and not by the
    constructor, as scikit-learn asks.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, Section 3 (expert sequence prior, Eq. (1)).
    """

    @property
    def shares(self) -> bool:
        """Whether weight ever flows between experts.

        False exactly where the transition is the identity. The forward pass then uses
        cumulative sums in logs, because a weight that only falls would underflow to
        zero and its expert could not come back.
        """
        return True

    def check_params(self) -> None:
        """Check the parameters; without parameters there is nothing to check.

        Raises
        ------
        ValueError
            If a parameter is outside its domain.
        """

    def initial(self, w: Floats) -> Floats:
        """Return the state at the first step, before its label.

        Parameters
        ----------
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.

        Returns
        -------
        state : ndarray of shape (n_states, K)
            p(state_1): one row that holds `w`, unless a subclass says otherwise.
        """
        return w[np.newaxis, :]

    @abstractmethod
    def transition(self, state: Floats, w: Floats, t: int) -> Floats:
        """Carry the state from step ``t - 1`` to step ``t``.

        Parameters
        ----------
        state : ndarray of shape (n_states, K)
            p(state_{t-1} | y_{<t}), conditioned on the label of step ``t - 1``.
        w : ndarray of shape (K,)
            Prior weights of the experts, summing to one.
        t : int
            The step that is entered, counted from 1, so at least 2.

        Returns
        -------
        state : ndarray of shape (n_states, K)
            p(state_t | y_{<t}).
        """


class BayesMixture(SwitchingPrior):
    """One expert speaks for the whole stream: the Bayesian mixture.

    The codelength is ``-log sum_k w(k) exp(-sum_t L_t(k))``. It exceeds that of expert
    ``k`` by at most ``-log w(k)`` nats, which is ``log K`` for uniform weights.

    See Also
    --------
    FixedShare : Lets the best expert change along the stream.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3 and Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> forward(BayesMixture(), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.5662...
    """

    @property
    def shares(self) -> bool:
        """False: no weight flows between experts."""
        return False

    def transition(self, state: Floats, w: Floats, t: int) -> Floats:
        """Return the state as it is: the expert stays."""
        return state


class ElementwiseMixture(SwitchingPrior):
    """A fresh expert at every step: the mixture with fixed weights.

    The codelength is ``-sum_t log sum_k w(k) exp(-L_t(k))``; nothing is learned about
    the experts.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> forward(ElementwiseMixture(), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.7597...
    """

    def transition(self, state: Floats, w: Floats, t: int) -> Floats:
        """Draw the expert anew from the prior weights."""
        return w[np.newaxis, :]


class FixedShare(SwitchingPrior):
    """Stay with the expert, or now and then draw one anew: fixed share.

    Entering step ``t``, the expert is drawn anew from the prior weights with
    probability ``alpha_t`` and kept otherwise,

        s_t = (1 - alpha_t) r_{t-1} + alpha_t w .

    A draw may return the same expert ("redraw" convention), so that with uniform
    weights the expert stays with probability ``1 - alpha_t (K - 1) / K``: Eq. (2) of
    the paper.

    Parameters
    ----------
    m : float, optional
        Number of blocks to prepare for, at least 1; the rate falls as
        ``alpha_t = min(1, (m - 1) / t)``. ``m=1`` is the Bayesian mixture. With neither
        `m` nor `alpha`, ``m`` is 2.
    alpha : float, optional
        Constant rate between 0 and 1, instead of `m`. 0 is the Bayesian mixture, 1 the
        elementwise mixture.

    Notes
    -----
    The paper writes ``alpha_t = (m - 1) / t`` without the cut at one, which is needed
    for ``t < m - 1``. It uses ``m = 2`` for ImageNet and ``m = 11`` for VTAB, chosen to
    make the codelength short; that choice is not paid for in the codelength.

    With ``m = 2`` and uniform weights the codelength exceeds the Bayesian mixture's by
    at most ``sum_{t=2}^N -log(1 - (K - 1) / (K t)) <= log N`` nats.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (2).
    Herbster and Warmuth, 1998, Tracking the best expert, Machine Learning 32.

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> bayes, shared = forward("bayes", losses), forward(FixedShare(m=2), losses)
    >>> round(bayes.codelength, 1), round(shared.codelength, 1)
    (60.0, 6.0)
    """

    def __init__(self, m: float | None = None, *, alpha: float | None = None) -> None:
        self.m = m
        self.alpha = alpha

    @property
    def shares(self) -> bool:
        """False where the rate is always zero: ``m=1`` or ``alpha=0``."""
        return self.rate(1) > 0

    def check_params(self) -> None:
        """Check that at most one of `m` and `alpha` is given, and its range.

        Raises
        ------
        ValueError
            If both are given, if `m` is not a finite number of at least 1, or if
            `alpha` is not a number between 0 and 1.
        """
        if self.m is not None and self.alpha is not None:
            raise ValueError(
                "FixedShare takes `m` or `alpha`, not both, got "
                f"m={self.m!r} and alpha={self.alpha!r}; leave one of them out."
            )
        if self.m is not None and not _is_number_in(self.m, 1, math.inf):
            raise ValueError(
                f"`m` must be a finite number of at least 1, got m={self.m!r}; give "
                "the number of blocks to prepare for."
            )
        if self.alpha is not None and not _is_number_in(self.alpha, 0, 1):
            raise ValueError(
                f"`alpha` must be a number between 0 and 1, got alpha={self.alpha!r}; "
                "give the probability of a new draw."
            )

    def rate(self, t: int) -> float:
        """Return the probability of a new draw on entering a step.

        Parameters
        ----------
        t : int
            The step that is entered, counted from 1. There is no transition into the
            first step; its rate is defined by the same formula.

        Returns
        -------
        alpha_t : float
            A probability: `alpha` if given, else ``min(1, (m - 1) / t)``.
        """
        if self.alpha is not None:
            return self.alpha
        blocks = 2.0 if self.m is None else self.m
        return min(1.0, (blocks - 1) / t)

    def transition(self, state: Floats, w: Floats, t: int) -> Floats:
        """Keep the expert, or draw it anew with probability ``rate(t)``."""
        alpha = self.rate(t)
        return (1.0 - alpha) * state + alpha * w


_PRIORS: dict[str, type[SwitchingPrior]] = {
    "bayes": BayesMixture,
    "elementwise": ElementwiseMixture,
    "fixed-share": FixedShare,
}


def as_prior(switching: SwitchingPrior | str | None) -> SwitchingPrior:
    """Return the switching prior that a name, a prior or None stands for.

    Parameters
    ----------
    switching : SwitchingPrior, str or None
        A prior is returned as it is. ``"bayes"``, ``"elementwise"`` and
        ``"fixed-share"`` name a prior with its default parameters. None is
        ``FixedShare()``.

    Returns
    -------
    prior : SwitchingPrior
        The prior; its parameters are not checked here.

    Raises
    ------
    ValueError
        If a string names no prior.
    TypeError
        If `switching` is neither a prior, nor a string, nor None.

    Examples
    --------
    >>> as_prior("bayes")
    BayesMixture()
    """
    if switching is None:
        return FixedShare()
    if isinstance(switching, SwitchingPrior):
        return switching
    if isinstance(switching, str) and switching in _PRIORS:
        return _PRIORS[switching]()
    error = ValueError if isinstance(switching, str) else TypeError
    raise error(
        f"`switching` must be one of {sorted(_PRIORS)}, a SwitchingPrior or None, got "
        f"{switching!r}; name a known prior or pass one."
    )


def _is_number_in(value: object, low: float, high: float) -> bool:
    """Whether `value` is a finite real number between two bounds, bounds included."""
    if not isinstance(value, Real):
        return False
    return math.isfinite(value) and low <= float(value) <= high
