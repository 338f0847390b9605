"""Combined transitions over several unlabelled steps, for one-row states."""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np

from sklearn_mdl.switching._prior import Floats, MarkovPrior, Steps
from sklearn_mdl.switching._sharing import FixedShare


class KeptShares:
    """Probabilities of keeping an expert over several steps, for one-row states.

    Steps without labels turn a weight ``s`` into ``w + kept (s - w)``, where ``kept``
    is the product of ``1 - alpha_t`` over these steps, ``alpha_t`` is the probability
    of a redraw, and ``w`` is the prior weight.

    Parameters
    ----------
    prior : MarkovPrior
    """

    def __init__(self, prior: MarkovPrior) -> None:
        self._prior = prior
        self._n_steps = 2  # number of entries filled; step 1 has no transition
        self._logs = np.zeros(2)  # logs of products up to each step, skipping zeros
        # For each step, the latest step up to it at which a redraw is certain, or 0.
        self._redrawn = np.zeros(2, dtype=np.intp)

    def between(self, first: Steps | int, n_steps: Steps | int) -> Floats | None:
        """Return the probability of no redraw in ``n_steps`` steps after ``first``.

        Return None unless all steps are plain (see `Transition.is_plain`).
        """
        start = np.asarray(first)
        stop = start + n_steps
        if not self._extend(int(stop.max(initial=0)) + 1):
            return None
        products = np.exp(self._logs[stop] - self._logs[start])
        return np.where(self._redrawn[stop] > start, 0.0, products)

    def _extend(self, n_steps: int) -> bool:
        """Fill the entries up to step ``n_steps - 1``; False if a step is not plain."""
        rates = redraw_rates(self._prior, self._n_steps, n_steps)
        if rates is None:
            return False
        if n_steps > len(self._logs):
            self._logs = np.pad(self._logs, (0, n_steps))
            self._redrawn = np.pad(self._redrawn, (0, n_steps))
        for t, rate in enumerate(rates.tolist(), start=self._n_steps):
            kept = 1.0 - rate
            self._logs[t] = self._logs[t - 1] + (math.log(kept) if kept > 0 else 0.0)
            self._redrawn[t] = self._redrawn[t - 1] if kept > 0 else t
        self._n_steps = max(self._n_steps, n_steps)
        return True


def redraw_rates(prior: MarkovPrior, start: int, stop: int) -> Floats | None:
    """Return the probability of a redraw on entering each step of a range.

    Return None unless all steps have one-row states, and redraws that may return the
    previous expert (see `Transition.is_plain`).
    """
    if type(prior) is FixedShare and prior.redraw and prior.alpha is None:
        # The same numbers as below, but hundreds of times as fast.
        return np.minimum(1.0, (float(prior.m or 2.0) - 1.0) / np.arange(start, stop))
    steps = range(start, stop)
    plain = takewhile(lambda step: step.is_plain, map(prior.transition, steps))
    rates = np.array([step.draw[0] for step in plain])
    return rates if len(rates) == len(steps) else None
