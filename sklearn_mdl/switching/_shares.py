"""Fixed share within each of several groups of experts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class GroupedShare:
    """Fixed share within each of several groups of experts.

    The results are those of a :class:`~sklearn_mdl.switching.ForwardPass` for each
    group with ``FixedShare()`` or, if `rate` is given, ``FixedShare(alpha=rate)``. All
    groups together take the time of a single pass.

    Parameters
    ----------
    weights : ndarray of shape (K,)
        Prior weights of the experts, all positive. The experts of a group are adjacent.
    starts : ndarray of shape (G,)
        First expert of every group.
    rate : float, ndarray of shape (K,) or None, default=None
        Rate at which experts are redrawn (``1 / t`` if None). An array has a rate for
        each expert, equal within a group.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        Probability of each expert at the next step, including sleeping ones. The
        probabilities sum to one in each group.
    """

    def __init__(
        self,
        weights: Floats,
        starts: NDArray[np.intp],
        rate: float | Floats | None = None,
    ) -> None:
        self._rate = rate
        self._starts = starts
        sizes = np.diff([*starts, len(weights)])
        self._members = np.repeat(np.arange(len(starts)), sizes)
        self._prior = weights / np.add.reduceat(weights, starts)[self._members]
        self.weights = self._prior.copy()
        self._t = 1

    def ahead(self, n_steps: int) -> Floats:
        """Return the weights (K,) after ``n_steps`` further steps without labels."""
        if not n_steps:
            return self.weights
        if self._rate is None:  # probability of no redraw at rates 1 / (t + i)
            kept: float | Floats = self._t / (self._t + n_steps)
        else:
            kept = (1 - self._rate) ** n_steps
        return self._prior + kept * (self.weights - self._prior)

    def moved(self, n_steps: int) -> Self:
        """Return a copy advanced by some steps without labels."""
        copied = copy.copy(self)
        copied.weights = self.ahead(n_steps)
        return copied

    def observe(self, losses: Floats) -> Floats:
        """Update the weights with the losses (K,) of a step, in nats.

        NaN means that an expert is asleep. A sleeping expert is given the loss of the
        mixture of its group's awake experts.

        Returns
        -------
        codelengths : ndarray of shape (G,)
            Cost of the step under each group's mixture, in nats. If the label is
            impossible for all awake experts of a group, the cost is infinite and the
            label does not affect the group's weights.
        """
        shifts = np.minimum.reduceat(losses, self._starts)  # NaN if an expert sleeps
        finite = np.isfinite(shifts)
        irregular = np.count_nonzero(finite) < len(finite)  # much faster than np.any
        if irregular:
            asleep = np.isnan(losses)
            losses = np.where(asleep, np.inf, losses)
            shifts = np.minimum.reduceat(losses, self._starts)
            finite = np.isfinite(shifts)
            shifts[~finite] = 0.0
        joint = np.exp(shifts[self._members] - losses)
        joint *= self.weights
        totals = np.add.reduceat(joint, self._starts)
        if irregular:
            awake = np.add.reduceat(np.where(asleep, 0.0, self.weights), self._starts)
            # Groups whose experts are all awake need no correction.
            partly = np.logical_or.reduceat(asleep, self._starts) & finite
            np.divide(totals, awake, out=totals, where=partly)
            np.copyto(joint, self.weights * totals[self._members], where=asleep)
            np.copyto(joint, self.weights, where=~finite[self._members])
            totals = np.where(finite, totals, 1.0)
        joint /= totals[self._members]
        self._t += 1
        # The transition into the next step may redraw the expert.
        if self._rate is None:
            self.weights = joint + (self._prior - joint) / self._t
        else:
            self.weights = joint + (self._prior - joint) * self._rate
        codelengths: Floats = shifts - np.log(totals)
        if irregular:
            codelengths[~finite] = np.inf
        return codelengths

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the number of the next step."""
        return {"weights": self.weights, "step": np.array([self._t])}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of another share."""
        self.weights, self._t = np.array(state["weights"]), int(state["step"][0])


class LearnedGroupedShare:
    """Fixed share with an unknown constant rate within each of several groups.

    Each group has its own Bayesian mixture over rates. A sleeping expert is treated as
    if it predicted like the mixture of its group's awake experts over all rates.

    Parameters
    ----------
    weights, starts
        As for :class:`GroupedShare`.
    rates : sequence of float
        Constant rates, equally probable at first.
    """

    def __init__(
        self, weights: Floats, starts: NDArray[np.intp], rates: Sequence[float]
    ) -> None:
        n_rates, n_groups = len(rates), len(starts)
        # One share holds a copy of every group for each rate.
        offsets = np.repeat(np.arange(n_rates) * len(weights), n_groups)
        by_expert = np.repeat(np.asarray(rates, dtype=np.float64), len(weights))
        copies = np.tile(weights, n_rates), np.tile(starts, n_rates) + offsets
        self._share = GroupedShare(*copies, by_expert)
        self._whole = GroupedShare(weights, starts)  # its weights are set before use
        self._sizes = np.diff([*starts, len(weights)])
        self.posterior = np.full((n_rates, n_groups), 1 / n_rates)

    @property
    def weights(self) -> Floats:
        """Probability (K,) of each expert at the next step."""
        return self.ahead(0)

    def ahead(self, n_steps: int) -> Floats:
        """Return the weights (K,) after ``n_steps`` further steps without labels."""
        shares = self._by_rate(self._share.ahead(n_steps))
        posterior = np.repeat(self.posterior, self._sizes, axis=1)
        return np.asarray(np.add.reduce(posterior * shares))

    def _by_rate(self, values: Floats) -> Floats:
        """Return values of all copies as an array with one row per rate."""
        return values.reshape(len(self.posterior), -1)

    def observe(self, losses: Floats) -> Floats:
        """Update weights and posterior with losses (K,); return codelengths (G,)."""
        asleep = np.isnan(losses)
        if np.count_nonzero(asleep):
            self._whole.weights = self.weights
            mixed = np.repeat(self._whole.observe(losses), self._sizes)
            losses = np.where(asleep, mixed, losses)
        n_rates = len(self.posterior)
        # Concatenating is faster than np.tile.
        costs = self._by_rate(self._share.observe(np.concatenate([losses] * n_rates)))
        least = np.minimum.reduce(costs)
        finite = np.isfinite(least)
        excesses = np.where(finite, costs, 0.0) - np.where(finite, least, 0.0)
        joint = self.posterior * np.exp(-excesses)
        totals = np.add.reduce(joint)
        self.posterior = joint / totals
        return np.asarray(least - np.log(totals))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the weights under each rate, and the posterior over rates."""
        weights = self._by_rate(self._share.weights)
        return {"weights": weights, "posterior": self.posterior}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of another share."""
        self.posterior = np.array(state["posterior"])
        self._share.weights = np.ravel(state["weights"]).astype(np.float64)
