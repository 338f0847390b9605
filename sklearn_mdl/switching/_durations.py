"""Priors on the lengths of blocks: the switch distribution and run lengths."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral

import numpy as np

from sklearn_mdl.switching._checks import check_max_steps, invalid, is_number_in
from sklearn_mdl.switching._prior import Floats, MarkovPrior, Transition


@dataclass(eq=False, repr=False)
class SwitchDistribution(MarkovPrior):
    """The switch distribution, under which the number of switches is finite.

    A stream has ``b`` blocks with probability ``theta^(b-1) (1 - theta)``. After a
    switch that follows ``t'`` outcomes, the next switch follows ``t > t'`` outcomes
    with probability ``(t' + 1) / (t (t + 1))``. Every block draws its expert from the
    prior weights. The hidden Markov model has two rows: one for blocks that will end
    and one for the last block. A block that will end does so on entering step ``t``
    with probability ``1 / t``.

    The cost of a sequence stays bounded after its last switch. If the last block begins
    after ``t`` outcomes, the bound depends on ``t`` and on the experts, but not on the
    length of the stream.

    Parameters
    ----------
    theta : float, default=0.5
        Probability that a block is not the last one, strictly between 0 and 1.

    Notes
    -----
    Take any sequence of ``b`` blocks whose last block begins after ``t_b`` outcomes. If
    ``theta = 1/2`` and the weights are uniform, the codelength exceeds the loss of this
    sequence by at most ``b log 2 + b log K + (b - 1) log t_b + log(t_b + 1)`` nats.

    References
    ----------
    van Erven, Grunwald and de Rooij, 2012, Catching up faster by switching sooner,
    Journal of the Royal Statistical Society B 74, Eqs. (10) and (11).
    Li, Bornschein and Hutter, 2023, Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(SwitchDistribution(), losses).codelength, 1)
    7.3
    """

    theta: float = 0.5

    def check_params(self) -> None:
        """Check the range of `theta`.

        Raises
        ------
        ValueError
            If `theta` is not strictly between 0 and 1.
        """
        if not is_number_in(self.theta, 0, 1) or self.theta in (0, 1):
            required = "a number between 0 and 1, both excluded"
            cure = "pass BayesMixture() for 0, FixedShare(m=2) for 1, or theta=0.5"
            raise invalid("theta", required, self.theta, cure)

    def rows(self) -> Floats:
        """Return the probabilities that a block will end and that it is the last."""
        theta = float(self.theta)
        return np.array([theta, 1.0 - theta])

    def transition(self, t: int) -> Transition:
        """Leave row 0 with probability ``1 / t``; a new expert may enter either row."""
        return Transition(draw=np.array([1.0 / t, 0.0]), enter=self.rows())


@dataclass(eq=False, repr=False)
class RunLength(MarkovPrior):
    """Prior under which a block has length ``d`` with probability ``1 / (d (d + 1))``.

    Blocks are independent, and each draws its expert from the prior weights. The exact
    model has a row for each length of the current block, so step ``t`` takes O(K t)
    time. The mixture form takes O(n_rates K) time per step. It approximates
    ``1 / (d (d + 1)) = int_0^1 a (1 - a)^(d-1) da`` by a mixture of geometric
    distributions. Their rates are ``a = 1/2, 1/4, ..., 2^-n_rates``, and their weights
    are proportional to ``a``. Every block draws a rate. The mixture is itself a valid
    prior. For lengths up to ``2^n_rates``, the log-probability of a block differs from
    that under the exact model by at most 0.41 nats (0.45 with fewer than five rates).

    Parameters
    ----------
    n_rates : int or None, default=40
        Number of geometric rates in the mixture, or None for the exact model.
    max_steps : int, default=5000
        Longest stream that the exact model accepts. The mixture form has no limit.

    Notes
    -----
    Under the exact model the codelength exceeds the loss of any sequence of ``b``
    blocks by at most ``b (log K + 2 log(N / b + 1))`` nats. So each block costs
    ``log K`` and about twice the log of the mean block length.

    References
    ----------
    Koolen and de Rooij, 2008, Combining expert advice efficiently, COLT, Section 5.2.
    Li, Bornschein and Hutter, 2023, Appendix A.6.

    Examples
    --------
    >>> from sklearn_mdl import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(RunLength(), losses).codelength, 1)
    7.0
    >>> round(forward(RunLength(n_rates=None), losses).codelength, 1)
    7.7
    """

    n_rates: int | None = 40
    _: KW_ONLY
    max_steps: int = 5000

    def check_params(self) -> None:
        """Check the range of `n_rates` and of `max_steps`.

        Raises
        ------
        ValueError
            If `n_rates` is neither None nor an integer between 1 and 1000, or if
            `max_steps` is not a non-negative integer.
        """
        check_max_steps(self.max_steps)
        is_count = isinstance(self.n_rates, Integral) and 1 <= self.n_rates <= 1000
        if self.n_rates is not None and not is_count:
            required = "None or an integer between 1 and 1000"
            raise invalid("n_rates", required, self.n_rates, "pass n_rates=40")

    def check_length(self, n_steps: int) -> None:
        """Check that the stream is not too long for the exact model.

        Raises
        ------
        ValueError
            If the stream is longer than `max_steps`.
        """
        if self.n_rates is None and n_steps > self.max_steps:
            raise ValueError(
                "RunLength(n_rates=None) takes O(K N^2) time and at most "
                f"max_steps={self.max_steps} steps, got {n_steps}; use RunLength(), "
                f"whose cost per step is constant, or pass max_steps={n_steps}"
            )

    def rows(self) -> Floats:
        """Return the probability of each rate; the exact model begins with one row."""
        if self.n_rates is None:
            return np.ones(1)
        rates = self._rates(self.n_rates)
        return np.asarray(rates / rates.sum())

    def transition(self, t: int) -> Transition:
        """Redraw at the rate of the block, or at ``1 / (length + 1)`` if exact."""
        if self.n_rates is None:
            return Transition(draw=1.0 / np.arange(2.0, t + 1), ageing=True)
        return Transition(draw=self._rates(self.n_rates), enter=self.rows())

    @staticmethod
    def _rates(n_rates: int) -> Floats:
        return np.ldexp(1.0, -np.arange(1, n_rates + 1))
