"""Priors that learn the rate of switching from the stream, and pay for learning it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching.moves import Moves
from sklearn_mdl.switching.prior import (
    Component,
    MarkovPrior,
    SwitchingPrior,
    check_max_steps,
    is_number_in,
)
from sklearn_mdl.switching.sharing import FixedShare

Floats = NDArray[np.float64]


class LearnedShare(SwitchingPrior):
    """Fixed share with an unknown ``m``: a Bayesian mixture over several.

    Choosing ``m`` after the codelengths are known is not a code. This prior gives each
    ``m`` the same probability instead, lets the labels decide, and costs at most ``log
    J`` nats more than the best of the ``J`` values in hindsight.

    Parameters
    ----------
    ms : sequence of float, default=(2, 3, 6, 11, 21)
        Numbers of blocks to prepare for, each at least 1, as in `FixedShare`; 1 is the
        Bayesian mixture.

    References
    ----------
    Monteleoni and Jaakkola, 2003, Online learning of non-stationary sequences, NIPS
    (the algorithm Learn-alpha).
    Li, Bornschein and Hutter, 2023, Section 4 (``m = 2`` and ``m = 11``, chosen to
    make the codelength short).

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(LearnedShare(), losses).codelength, 1)
    7.3
    """

    def __init__(self, ms: Sequence[float] = (2, 3, 6, 11, 21)) -> None:
        self.ms = ms

    def check_params(self) -> None:
        """Check that `ms` is a sequence of numbers in the range of ``FixedShare.m``.

        Raises
        ------
        ValueError
            If it is not, or is empty.
        """
        if (
            not np.iterable(self.ms)
            or not hasattr(self.ms, "__len__")
            or not len(self.ms)
            or not all(is_number_in(m, 1, math.inf) for m in self.ms)
        ):
            raise ValueError(
                "`ms` must be a sequence of finite numbers of at least 1, got "
                f"ms={self.ms!r}; give numbers of blocks to prepare for."
            )

    def components(self, w: Floats) -> list[Component]:
        """Return one fixed share for each ``m``, with equal probabilities."""
        return [Component(1.0 / len(self.ms), FixedShare(m), w) for m in self.ms]


class UniversalShare(MarkovPrior):
    """Fixed share with an unknown constant rate, integrated under a Beta prior.

    With ``s`` draws among ``n`` chances so far the next draw has probability
    ``(s + a) / (n + a + b)``: the estimator of Krichevsky and Trofimov for ``a = b =
    1/2``. The codelength exceeds that of the best constant rate in hindsight by at most
    ``log 2 + 1/2 log N`` nats. It keeps a row per number of draws: O(K N^2) in all.

    Parameters
    ----------
    a, b : float, default=0.5
        Parameters of the Beta prior, positive.
    max_steps : int, default=5000
        Longest stream that is taken.

    See Also
    --------
    LearnedShare : Learns among few falling rates, in O(K N).

    References
    ----------
    Volf and Willems, 1998, Switching between two universal source coding algorithms,
    Data Compression Conference.
    Koolen and de Rooij, 2013, Universal codes from switching strategies, IEEE
    Transactions on Information Theory 59, Theorem 12.

    Examples
    --------
    >>> from sklearn_mdl.switching import forward
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> round(forward(UniversalShare(), losses).codelength, 1)
    7.0
    """

    def __init__(
        self, a: float = 0.5, b: float = 0.5, *, max_steps: int = 5000
    ) -> None:
        self.a = a
        self.b = b
        self.max_steps = max_steps

    def check_params(self) -> None:
        """Check the parameters of the Beta prior, and `max_steps`.

        Raises
        ------
        ValueError
            If `a` or `b` is not a positive, finite number, or if `max_steps` is not a
            non-negative integer.
        """
        check_max_steps(self.max_steps)
        for name, value in (("a", self.a), ("b", self.b)):
            if not is_number_in(value, 0, math.inf) or value == 0:
                raise ValueError(
                    f"`{name}` must be a positive, finite number, got "
                    f"{name}={value!r}; 0.5 for both is the usual choice."
                )

    def check_length(self, n_steps: int) -> None:
        """Check that the stream is no longer than `max_steps`.

        Raises
        ------
        ValueError
            If it is.
        """
        if n_steps > self.max_steps:
            raise ValueError(
                f"UniversalShare takes O(K N^2) time and at most max_steps="
                f"{self.max_steps} steps, got {n_steps}; take LearnedShare(), which "
                "learns among falling rates in O(K N), or raise max_steps."
            )

    def moves(self, t: int) -> Moves:
        """Draw anew as often as before; every draw moves one row on."""
        n_chances = t - 2
        a, b = float(self.a), float(self.b)
        draws = np.arange(n_chances + 1.0)
        return Moves(draw=(draws + a) / (n_chances + a + b), enter=None)
