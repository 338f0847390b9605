"""The forward pass over a stream whose labels come late."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching._filtering import condition_scores, logs
from sklearn_mdl.switching._forward import ForwardPass
from sklearn_mdl.switching._registry import PriorLike

Floats = NDArray[np.float64]


class DelayedForwardPass(ForwardPass):
    """Forward pass in which a label is known ``delay`` steps after it was coded.

    The posterior of step ``t`` is p(expert at t | labels before t - delay): that of the
    first label not yet known, after ``delay`` further transitions.

    Parameters
    ----------
    prior, n_experts, weights
        As of :class:`ForwardPass`.
    delay : int
        At least 0, which is the plain pass but for rounding.
    """

    def __init__(
        self,
        prior: PriorLike,
        n_experts: int,
        weights: ArrayLike | None = None,
        *,
        delay: int,
    ) -> None:
        super().__init__(prior, n_experts, weights)
        self._delay = delay
        self._late: deque[Floats] = deque()  # losses whose labels are not known yet

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the next step, given the labels known then."""
        shares = self._filter.ahead(len(self._late))
        if self._asleep.any():
            shares = np.where(self._asleep, 0.0, shares)
            shares /= max(float(shares.sum()), np.finfo(float).tiny)
        return shares

    def _advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        for i, row in enumerate(losses):
            self._asleep = np.isnan(row)
            awake, shares = ~self._asleep, self.weights
            codelengths[i], _ = condition_scores(logs(shares[awake]), row[awake])
            posterior[i] = shares
            self._late.append(row.copy())
            if len(self._late) > self._delay:
                self._observe(self._late.popleft())
