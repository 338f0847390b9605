"""Races, in which experts retire because of their past losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_mdl.switching._checks import check_integer, invalid, is_number_in

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class Race(BaseEstimator):
    """Rule for retiring experts with high losses, applied each time the stream doubles.

    Losses over the last half of the examples are compared after about `min_samples`
    examples, and whenever the number of examples has doubled since then. An expert
    stays if its loss exceeds the lowest loss by at most `slack` nats plus a share of a
    reference. The reference is the lowest loss or, if smaller, the difference between
    the loss of a uniform code and the lowest loss. The share is ``tolerance *
    sqrt(min_samples / n)`` after ``n`` examples. The share decreases because noise
    decreases, too. An expert that is further behind rarely catches up.

    With a pool, the best expert of a kind also stays if the pool needs the kind: if
    dropping it would lengthen the code of all labels so far by more than ``pool_slack *
    sqrt(n / min_samples)`` nats. The change of the code is estimated to second order,
    with the weights of the remaining kinds adapted.

    After ``2 * min_samples`` examples, the rule is stricter for closed-form experts of
    a pool, such as kernels. Such an expert stays only if no expert has a lower loss, or
    if the pool needs its kind and no expert of this kind has a lower loss. Unlike
    networks, closed-form experts rarely catch up late. However, at least `min_readouts`
    experts always stay.

    All other experts retire: they are no longer evaluated or trained. A retired expert
    is treated as if it predicted like the mixture of the experts that still run (Freund
    et al., 1997). A decoder retires the same experts, since the rule uses only past
    losses.

    Parameters
    ----------
    tolerance : float, default=0.075
        Share of the reference by which a loss may exceed the lowest loss after
        `min_samples` examples. Losses of real-valued labels have no natural zero, so
        their reference is 0.2 nats per example.
    slack : float, default=10.0
        Nats by which a loss may exceed the lowest loss in addition to this share.
    min_readouts : int, default=4
        Smallest number of experts that stay.
    min_samples : int, default=1024
        Number of examples before which no expert retires. With fewer labels, it would
        be unclear which kinds a pool needs.
    pool_slack : float, default=0.25
        If a kind saves the pool more than this many nats over the first `min_samples`
        examples, its best expert stays. The limit grows as the square root of the
        number of examples.

    References
    ----------
    Freund, Schapire, Singer and Warmuth, 1997, "Using and combining predictors that
    specialize", STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.switching import Race
    >>> race = Race(tolerance=0.1, slack=5, min_readouts=1)
    >>> race.survivors(np.array([100.0, 114.0, 116.0]))
    array([ True,  True, False])
    """

    tolerance: float = 0.075
    slack: float = 10.0
    min_readouts: int = 4
    min_samples: int = 1024
    pool_slack: float = 0.25

    def check_params(self, n_experts: int) -> None:
        """Check the parameters for a race between `n_experts` experts.

        Raises
        ------
        ValueError
            If a parameter is out of range, or if there are fewer than `min_readouts`
            experts.
        """
        for name in ("tolerance", "slack", "pool_slack"):
            if not is_number_in(value := getattr(self, name), 0, math.inf):
                required, default = "a finite number of at least 0", getattr(Race, name)
                raise invalid(name, required, value, f"pass {name}={default}")
        for name in ("min_readouts", "min_samples"):
            cure = f"pass {name}={getattr(Race, name)}"
            check_integer(name, getattr(self, name), 1, cure)
        if n_experts < self.min_readouts:
            raise ValueError(
                f"A race needs at least min_readouts={self.min_readouts} readouts, "
                f"got {n_experts}; pass race=None, or a smaller min_readouts to Race"
            )

    def next_count(self, n_steps: int, batch_size: int) -> int:
        """Return the number of examples after which experts may retire next.

        This is the first of ``batch_size * 2^j`` that is at least `min_samples` and
        more than ``n_steps``.
        """
        count = batch_size
        while count < self.min_samples or count <= n_steps:
            count *= 2
        return int(count)

    def slack_of_pool(self, n_samples: int) -> float:
        """Return how many nats a kind must save a pool after ``n_samples`` examples.

        Parameters
        ----------
        n_samples : int

        Returns
        -------
        slack : float
            In nats.
        """
        return self.pool_slack * math.sqrt(n_samples / self.min_samples)

    def survivors(
        self,
        losses: Floats,
        kinds: Sequence[NDArray[np.intp]] = (),
        unit: float | None = None,
        n_samples: int | None = None,
        closed_form: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_]:
        """Return a mask of the experts that stay.

        Parameters
        ----------
        losses : ndarray of shape (K,)
            Sums over the last half, in nats (infinite for experts that do not run).
        kinds : sequence of ndarray of int
            For each kind that the pool needs, the columns of its experts.
        unit : float or None
            The reference, in nats (the lowest loss if None).
        n_samples : int or None
            Number of examples so far, which determines the share of the reference
            (`min_samples` if None).
        closed_form : ndarray of shape (K,), bool, or None
            Mask of the experts that learn in closed form (no expert if None).

        Returns
        -------
        survivors : ndarray of shape (K,), bool
        """
        least = losses.min()
        unit = least if unit is None else unit
        seen = max(n_samples or 0, self.min_samples)
        tolerance = self.tolerance * math.sqrt(self.min_samples / seen)
        survivors: NDArray[np.bool_] = losses <= least + tolerance * unit + self.slack
        if closed_form is not None and len(kinds) and seen >= 2 * self.min_samples:
            survivors[closed_form & (losses > least)] = False
        for kind in kinds:
            survivors[kind[losses[kind].argmin()]] = True
        if survivors.sum() < self.min_readouts:
            survivors[np.argsort(losses, kind="stable")[: self.min_readouts]] = True
        survivors &= losses < np.inf
        return survivors
