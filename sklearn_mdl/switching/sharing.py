"""Priors with one row: the expert is drawn anew never, always, or at a known rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching.moves import Moves
from sklearn_mdl.switching.prior import Component, MarkovPrior, is_number_in
from sklearn_mdl.switching.weights import normalised_weights

Floats = NDArray[np.float64]


class BayesMixture(MarkovPrior):
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

    def moves(self, t: int) -> Moves:
        """Keep the expert."""
        return Moves(draw=np.zeros(1))


class ElementwiseMixture(MarkovPrior):
    """A fresh expert at every step: the mixture with fixed weights.

    The codelength is ``-sum_t log sum_k w(k) exp(-L_t(k))``; nothing is learned about
    the experts.

    Parameters
    ----------
    weights : array-like of shape (K,), optional
        The fixed weights, non-negative with a positive sum; normalised here. They take
        the place of the prior weights of the experts, which hold if not given.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> forward(ElementwiseMixture(), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.7597...
    >>> forward(ElementwiseMixture([3, 1]), [[0.0, 1.0], [0.0, 1.0]]).codelength
    0.3440...
    """

    def __init__(self, weights: ArrayLike | None = None) -> None:
        self.weights = weights

    def components(self, w: Floats) -> list[Component]:
        """Return the prior itself, drawing from its own weights if it has some."""
        if self.weights is None:
            return super().components(w)
        own = normalised_weights(self.weights, len(w), "ElementwiseMixture.weights")
        return [Component(1.0, self, own)]

    def moves(self, t: int) -> Moves:
        """Draw the expert anew."""
        return Moves(draw=np.ones(1))


class FixedShare(MarkovPrior):
    """Stay with the expert, or now and then draw one anew: fixed share.

    Entering step ``t``, the expert is drawn anew from the prior weights with
    probability ``alpha_t`` and kept otherwise::

        s_t = (1 - alpha_t) r_{t-1} + alpha_t w .

    Parameters
    ----------
    m : float, optional
        Number of blocks to prepare for, at least 1; the rate falls as
        ``alpha_t = min(1, (m - 1) / t)``. ``m=1`` is the Bayesian mixture. With neither
        `m` nor `alpha`, ``m`` is 2.
    alpha : float or "summable", optional
        Instead of `m`, a constant rate between 0 and 1: 0 is the Bayesian mixture, 1
        the elementwise mixture. Or "summable", the rate
        ``1 - exp(-1 / ((t + 1) log(t + 1)^2))``: never to switch then costs at most
        1.1 nats however long the stream, and a switch into step ``t`` about ``2 log
        log t`` nats more than with ``m = 2``.
    redraw : bool, default=True
        Whether the draw may return the expert that spoke before. True is the paper's
        convention: with uniform weights the expert stays with probability
        ``1 - alpha_t (K - 1) / K``, Eq. (2). False is that of Herbster and Warmuth: it
        stays with ``1 - alpha_t``, and the others share ``alpha_t`` in proportion to
        their weights. With uniform weights, rate ``alpha`` of the second is rate
        ``alpha K / (K - 1)`` of the first.

    Notes
    -----
    The paper writes ``alpha_t = (m - 1) / t`` without the cut at one, which is needed
    for ``t < m - 1``. It uses ``m = 2`` for ImageNet and ``m = 11`` for VTAB, chosen to
    make the codelength short; that choice is not paid for in the codelength, and
    `LearnedShare` is the prior that pays for it.

    With ``m = 2`` and uniform weights the codelength exceeds the Bayesian mixture's by
    at most ``sum_{t=2}^N -log(1 - (K - 1) / (K t)) <= log N`` nats, and the loss of any
    sequence of ``b`` blocks by at most ``b (log K + log N)``. The paper's bound,
    ``b log K + (b - 1) log(N / (b - 1))``, does not hold for every sequence: a single
    switch half way through ``N = 1000`` steps between ``K = 2`` experts costs 10.9
    nats, where the bound says 8.3.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (2).
    Herbster and Warmuth, 1998, Tracking the best expert, Machine Learning 32.
    Koolen and de Rooij, 2013, Universal codes from switching strategies, IEEE
    Transactions on Information Theory 59 (rates that add up to a finite sum).

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> bayes, shared = forward("bayes", losses), forward(FixedShare(m=2), losses)
    >>> round(bayes.codelength, 1), round(shared.codelength, 1)
    (60.0, 6.0)
    """

    def __init__(
        self,
        m: float | None = None,
        *,
        alpha: float | str | None = None,
        redraw: bool = True,
    ) -> None:
        self.m = m
        self.alpha = alpha
        self.redraw = redraw

    @property
    def shares(self) -> bool:
        """False where the rate is always zero: ``m=1`` or ``alpha=0``."""
        return self.rate(1) > 0

    def check_params(self) -> None:
        """Check that at most one of `m` and `alpha` is given, and their range.

        Raises
        ------
        ValueError
            If both are given, if `m` is not a finite number of at least 1, if `alpha`
            is neither a number between 0 and 1 nor "summable", or if `redraw` is not
            a bool.
        """
        if self.m is not None and self.alpha is not None:
            raise ValueError(
                "FixedShare takes `m` or `alpha`, not both, got "
                f"m={self.m!r} and alpha={self.alpha!r}; leave one of them out."
            )
        if self.m is not None and not is_number_in(self.m, 1, math.inf):
            raise ValueError(
                f"`m` must be a finite number of at least 1, got m={self.m!r}; give "
                "the number of blocks to prepare for."
            )
        named = isinstance(self.alpha, str) and self.alpha == "summable"
        if not (self.alpha is None or named or is_number_in(self.alpha, 0, 1)):
            raise ValueError(
                "`alpha` must be a number between 0 and 1 or 'summable', got "
                f"alpha={self.alpha!r}; give the probability of a new draw."
            )
        if not isinstance(self.redraw, (bool, np.bool_)):
            raise ValueError(
                f"`redraw` must be True or False, got redraw={self.redraw!r}; say "
                "whether a draw may return the expert that spoke before."
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
            A probability: `alpha` if that is a number, else by its formula.
        """
        if isinstance(self.alpha, str):
            return -math.expm1(-1.0 / ((t + 1) * math.log(t + 1) ** 2))
        if self.alpha is not None:
            return float(self.alpha)  # a float32 would cost digits in every step
        blocks = 2.0 if self.m is None else float(self.m)
        return min(1.0, (blocks - 1.0) / t)

    def moves(self, t: int) -> Moves:
        """Keep the expert, or draw it anew with probability ``rate(t)``."""
        return Moves(draw=np.array([self.rate(t)]), others=not self.redraw)
