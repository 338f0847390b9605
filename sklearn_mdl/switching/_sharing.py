"""Priors that redraw the expert: never, always, or at a fixed or learned rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.switching._checks import (
    are_numbers_in,
    check_max_steps,
    invalid,
    is_number_in,
)
from sklearn_mdl.switching._inputs import normalised_weights
from sklearn_mdl.switching._prior import (
    Component,
    Floats,
    MarkovPrior,
    SwitchingPrior,
    Transition,
)


class BayesMixture(MarkovPrior):
    """The Bayesian mixture: one expert for the whole stream.

    The codelength ``-log sum_k w(k) exp(-sum_t L_t(k))`` exceeds the codelength of
    expert ``k`` by at most ``-log w(k)`` nats, which is ``log K`` for uniform weights.

    See Also
    --------
    FixedShare : Allows the best expert to change along the stream.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3 and Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> forward(BayesMixture(), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.5662...
    """

    @property
    def shares(self) -> bool:
        """False, since no weight flows between experts."""
        return False

    def transition(self, t: int) -> Transition:
        """Keep the expert."""
        return Transition(draw=np.zeros(1))


@dataclass(eq=False, repr=False)
class ElementwiseMixture(MarkovPrior):
    """The mixture with fixed weights, which draws a new expert at every step.

    The codelength is ``-sum_t log sum_k w(k) exp(-L_t(k))``. The weights do not adapt
    to the losses.

    Parameters
    ----------
    weights : array-like of shape (K,), optional
        The fixed weights, non-negative with a positive sum. They need not sum to one.
        By default, the prior weights of the experts.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> forward(ElementwiseMixture(), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.7597...
    >>> forward(ElementwiseMixture([3, 1]), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.3440...
    """

    weights: ArrayLike | None = None

    def components(self, w: Floats) -> list[Component]:
        """Return the prior itself, with its own weights if it has any."""
        if self.weights is None:
            return super().components(w)
        fixed = normalised_weights(self.weights, len(w), "ElementwiseMixture.weights")
        return [Component(1.0, self, fixed)]

    def transition(self, t: int) -> Transition:
        """Redraw the expert."""
        return Transition(draw=np.ones(1))


@dataclass(eq=False, repr=False)
class FixedShare(MarkovPrior):
    """Fixed share, with a constant or decreasing rate of switching.

    On entering step ``t``, the expert is redrawn from the prior weights with
    probability ``alpha_t`` and kept otherwise::

        s_t = (1 - alpha_t) r_{t-1} + alpha_t w .

    Parameters
    ----------
    m : float, optional
        Number of blocks to which the rate is suited, at least 1. The rate decreases as
        ``alpha_t = min(1, (m - 1) / t)``. ``m=1`` is the Bayesian mixture. If neither
        `m` nor `alpha` is given, ``m`` is 2.
    alpha : float or "summable", optional
        A constant rate between 0 and 1, instead of `m`. 0 is the Bayesian mixture, and
        1 is the elementwise mixture. "summable" is the rate ``1 - exp(-1 / ((t + 1)
        log(t + 1)^2))``. At this rate, never switching costs at most 1.1 nats more than
        with the Bayesian mixture, even in an infinite stream. A switch into step ``t``
        costs about ``2 log log t`` nats more than with ``m = 2``.
    redraw : bool, default=True
        If True, a draw may return the previous expert. This is the paper's convention:
        with uniform weights the expert stays with probability
        ``1 - alpha_t (K - 1) / K``, Eq. (2). If False, as in Herbster and Warmuth
        (1998), the expert stays with probability ``1 - alpha_t``, and the other experts
        share ``alpha_t`` in proportion to their weights. With uniform weights,
        ``alpha`` with ``redraw=False`` equals ``alpha K / (K - 1)`` with
        ``redraw=True``.

    Notes
    -----
    The paper writes ``alpha_t = (m - 1) / t`` without the limit of one, which is needed
    for ``t < m - 1``. The paper uses ``m = 2`` for ImageNet and ``m = 11`` for VTAB,
    chosen to make the codelength short. A codelength with a value chosen in this way
    does not include the cost of the choice, unlike the codelength of `LearnedShare`.

    With ``m = 2`` and uniform weights the codelength exceeds the Bayesian mixture's by
    at most ``sum_{t=2}^N -log(1 - (K - 1) / (K t)) <= log N`` nats. So if switching is
    not needed, allowing it costs at most 7 nats for 1,000 labels. The codelength
    exceeds the loss of any sequence of ``b`` blocks by at most ``b (log K + log N)``.
    The paper's bound, ``b log K + (b - 1) log(N / (b - 1))``, does not hold for every
    sequence. For example, a single switch halfway through ``N = 1000`` steps between
    ``K = 2`` experts costs 10.9 nats, but the bound says 8.3.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (2).
    Herbster and Warmuth, 1998, Tracking the best expert, Machine Learning 32.
    Koolen and de Rooij, 2013, Universal codes from switching strategies, IEEE
    Transactions on Information Theory 59 (rates that add up to a finite sum).

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> bayes, shared = forward("bayes", losses), forward(FixedShare(m=2), losses)
    >>> round(bayes.codelength, 1), round(shared.codelength, 1)
    (60.0, 6.0)
    """

    m: float | None = None
    _: KW_ONLY
    alpha: float | str | None = None
    redraw: bool = True

    @property
    def shares(self) -> bool:
        """False if the rate is always zero, with ``m=1`` or ``alpha=0``."""
        return self.rate(1) > 0

    def check_params(self) -> None:
        """Check the ranges of `m` and `alpha`, and that at most one is given.

        Raises
        ------
        ValueError
            If both are given, or if `m` is not a finite number of at least 1. Also if
            `alpha` is neither a number between 0 and 1 nor "summable", or if `redraw`
            is not a bool.
        """
        if self.m is not None and self.alpha is not None:
            raise ValueError(
                "FixedShare takes `m` or `alpha`, not both, got "
                f"m={self.m!r} and alpha={self.alpha!r}; omit one of the two"
            )
        if self.m is not None and not is_number_in(self.m, 1, math.inf):
            raise invalid("m", "a finite number of at least 1", self.m, "pass m=2")
        named = isinstance(self.alpha, str) and self.alpha == "summable"
        if not (self.alpha is None or named or is_number_in(self.alpha, 0, 1)):
            required = "a number between 0 and 1 or 'summable'"
            raise invalid("alpha", required, self.alpha, "for example, pass alpha=0.01")
        if not isinstance(self.redraw, (bool, np.bool_)):
            raise invalid("redraw", "True or False", self.redraw, "pass redraw=True")

    def rate(self, t: int) -> float:
        """Return the probability that the expert is redrawn on entering a step.

        Parameters
        ----------
        t : int
            The step that is entered, counted from 1. The rate for the first step is
            not used by a pass, since this step has no transition.

        Returns
        -------
        alpha_t : float
            `alpha` if it is a number, otherwise the rate that `m` or "summable" gives.
        """
        if isinstance(self.alpha, str):
            return -math.expm1(-1.0 / ((t + 1) * math.log(t + 1) ** 2))
        if self.alpha is not None:
            return float(self.alpha)  # a float32 would lose digits in every step
        return min(1.0, (float(self.m or 2.0) - 1.0) / t)

    def transition(self, t: int) -> Transition:
        """Keep the expert, or redraw it with probability ``rate(t)``."""
        return Transition(draw=np.array([self.rate(t)]), others=not self.redraw)


@dataclass(eq=False, repr=False)
class LearnedShare(SwitchingPrior):
    """Fixed share with an unknown ``m``: a Bayesian mixture over several values.

    If you choose ``m`` after seeing the codelengths, the result is not a codelength.
    This prior gives each of ``J`` values of ``m`` the same probability instead. The
    codelength exceeds the codelength under the best value in hindsight by at most ``log
    J`` nats, unless there are groups, delayed labels or retired experts.

    Parameters
    ----------
    ms : sequence of float, default=(2, 3, 6, 11, 21)
        Candidate values of ``m`` in `FixedShare`, each at least 1. The value 1 is the
        Bayesian mixture. At most 1000 values, since time is linear in their number.

    References
    ----------
    Monteleoni and Jaakkola, 2003, Online learning of non-stationary sequences, NIPS
    (the algorithm Learn-alpha).
    Li, Bornschein and Hutter, 2023, Section 4 (``m = 2`` and ``m = 11``, chosen to
    make the codelength short).

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(LearnedShare(), losses).codelength, 1)
    7.3
    """

    ms: Sequence[float] = (2, 3, 6, 11, 21)

    def check_params(self) -> None:
        """Check that `ms` is a sequence of valid values of ``FixedShare.m``.

        Raises
        ------
        ValueError
            If `ms` is not a sequence, does not hold 1 to 1000 values, or contains a
            value out of range.
        """
        if not are_numbers_in(self.ms, 1, math.inf):
            required = "a sequence of 1 to 1000 finite numbers of at least 1"
            raise invalid("ms", required, self.ms, "for example, pass ms=(2, 6, 21)")

    def components(self, w: Floats) -> list[Component]:
        """Return one fixed share for each ``m``, with equal probabilities."""
        return [Component(1.0 / len(self.ms), FixedShare(m), w) for m in self.ms]


@dataclass(eq=False, repr=False)
class UniversalShare(MarkovPrior):
    """Fixed share with an unknown constant rate, integrated under a Beta prior.

    After ``s`` draws in ``n`` transitions, the next transition draws an expert with
    probability ``(s + a) / (n + a + b)``. For ``a = b = 1/2`` this is the
    Krichevsky-Trofimov estimator. The codelength then exceeds that of the best constant
    rate in hindsight by at most ``log 2 + 1/2 log N`` nats, about 4 nats for 1,000
    labels, unless there are groups, delayed labels or retired experts. The states have
    a row for each number of draws, so a stream takes O(K N^2) time.

    Parameters
    ----------
    a, b : float, default=0.5
        Parameters of the Beta prior, positive.
    max_steps : int, default=5000
        Length of the longest stream that the prior accepts.

    See Also
    --------
    LearnedShare : Learn which of a few decreasing rates is best, in O(K N) time.

    References
    ----------
    Volf and Willems, 1998, Switching between two universal source coding algorithms,
    Data Compression Conference.
    Koolen and de Rooij, 2013, Universal codes from switching strategies, IEEE
    Transactions on Information Theory 59, Theorem 12.

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(UniversalShare(), losses).codelength, 1)
    7.0
    """

    a: float = 0.5
    b: float = 0.5
    _: KW_ONLY
    max_steps: int = 5000

    def check_params(self) -> None:
        """Check the parameters of the Beta prior and `max_steps`.

        Raises
        ------
        ValueError
            If `a` or `b` is not a positive, finite number, or if `max_steps` is not a
            non-negative integer.
        """
        check_max_steps(self.max_steps)
        for name, value in (("a", self.a), ("b", self.b)):
            if not is_number_in(value, 0, math.inf) or value == 0:
                cure = "pass UniversalShare(a=0.5, b=0.5)"
                raise invalid(name, "a positive, finite number", value, cure)

    def check_length(self, n_steps: int) -> None:
        """Check that the stream is no longer than `max_steps`.

        Raises
        ------
        ValueError
            If the stream is longer.
        """
        if n_steps > self.max_steps:
            raise ValueError(
                f"UniversalShare takes O(K N^2) time and at most max_steps="
                f"{self.max_steps} steps, got {n_steps}; use LearnedShare(), which "
                f"takes O(K N) time, or pass max_steps={n_steps}"
            )

    def transition(self, t: int) -> Transition:
        """Redraw at the rate learned so far; every draw enters the next row."""
        n_chances = t - 2
        a, b = float(self.a), float(self.b)
        draws = np.arange(n_chances + 1.0)
        return Transition(draw=(draws + a) / (n_chances + a + b), enter=None)
