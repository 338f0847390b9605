"""Groups of experts: fixed share inside each, and what a pool of them must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class GroupedShare:
    """Fixed share, at rate ``1 / t``, inside each of several groups of experts.

    As one :class:`~sklearn_mdl.switching.ForwardPass` of ``FixedShare()`` for each
    group, in the time of one.

    Parameters
    ----------
    weights : ndarray of shape (K,)
        Prior weights of the experts, all positive, those of a group side by side.
    starts : ndarray of shape (G,)
        First expert of every group.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        Probability of each expert at the incoming step, those asleep included; they sum
        to one in each group.
    """

    def __init__(self, weights: Floats, starts: NDArray[np.intp]) -> None:
        self._starts = starts
        self._members = np.repeat(
            np.arange(len(starts)), np.diff([*starts, len(weights)])
        )
        self._prior = weights / np.add.reduceat(weights, starts)[self._members]
        self.weights = self._prior.copy()
        self._t = 1

    def observe(self, losses: Floats) -> Floats:
        """Move the weights by the losses (K,) of a step, in nats.

        NaN is an expert asleep, which costs what the mixture of those awake in its
        group does.

        Returns
        -------
        codelengths : ndarray of shape (G,)
            Cost of the step under each group's mixture, in nats. It is infinite where
            it is for every expert awake, and such a step moves no weight.
        """
        asleep = np.isnan(losses)
        losses = losses.copy()
        losses[asleep] = np.inf
        least = np.minimum.reduceat(losses, self._starts)
        finite = np.isfinite(least)
        shifts = np.where(finite, least, 0.0)
        joint = self.weights * np.exp(shifts[self._members] - losses)
        totals = np.add.reduceat(joint, self._starts)
        if asleep.any():
            awake = np.add.reduceat(np.where(asleep, 0.0, self.weights), self._starts)
            awake[~finite] = 1.0
            totals /= awake
            totals[~finite] = 1.0
            joint = np.where(asleep, self.weights * totals[self._members], joint)
        if not finite.all():
            joint = np.where(finite[self._members], joint, self.weights)
            totals = np.where(finite, totals, 1.0)
        joint /= totals[self._members]
        self._t += 1
        # The next step redraws the expert with probability 1 / t.
        self.weights = joint + (self._prior - joint) / self._t
        codelengths: Floats = np.where(finite, shifts - np.log(totals), np.inf)
        return codelengths


def without(
    weights: Floats, hessian: Floats, groups: Sequence[int]
) -> tuple[Floats, Floats]:
    """Weights (G,) and Hessian (G, G) of the groups that stay when others are dropped.

    A loss that is quadratic around the weights, with that Hessian, is then least:
    ``w += H^-1 H[:, gone] w[gone]`` with the Hessian ``H`` of those that stay.
    """
    gone = np.isin(np.arange(len(weights)), groups)
    rows = hessian[~gone]
    left: Floats = rows[:, ~gone]
    moved = np.linalg.solve(left, rows[:, gone] @ weights[gone])
    found: Floats = weights[~gone] + moved
    return found, left


class GroupPass(ABC):
    """One online pass of a pool over the mixtures of ``G`` groups, row by row.

    Parameters
    ----------
    prior_precision : float
    n_groups : int

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Weights of the groups for the incoming row.
    hessian : ndarray of shape (G, G)
        Of the log-losses so far, in the weights.
    """

    def __init__(self, prior_precision: float, n_groups: int) -> None:
        self.weights = np.full(n_groups, 1 / n_groups)
        self.hessian = float(prior_precision) * np.eye(n_groups)

    @abstractmethod
    def mix(self, values: Floats, weights: Floats, starts: NDArray[np.intp]) -> Floats:
        """Mix the experts of each group for one row.

        Parameters
        ----------
        values : ndarray of shape (K, P)
            Predictions of the experts, those of a group side by side.
        weights : ndarray of shape (K,)
            Of the experts in their group.
        starts : ndarray of shape (G,)
            First expert of every group.

        Returns
        -------
        mixed : ndarray of shape (G, Q)
            As :meth:`predict` and :meth:`observe` take them.
        """

    @abstractmethod
    def predict(self, mixed: Floats) -> Floats:
        """Predict one row."""

    @abstractmethod
    def observe(self, mixed: Floats, label: float) -> tuple[Floats, float]:
        """Predict a row, then move the weights by its label.

        Returns
        -------
        predicted : ndarray
            As of :meth:`predict`.
        cost : float
            Of the label, in nats; NaN where the groups cannot be pooled yet.
        """

    def retire(self, groups: Sequence[int]) -> None:
        """Drop some groups; the others take over what their weights can."""
        weights, self.hessian = without(self.weights, self.hessian, groups)
        self.weights = self._allowed(weights)

    def _allowed(self, weights: Floats) -> Floats:
        """Return the nearest weights that a pool may have."""
        return weights

    def state_dict(self) -> dict[str, Floats]:
        """Return what the labels so far have left: weights and Hessian."""
        return {"weights": self.weights.copy(), "hessian": self.hessian.copy()}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Go on from where another pass was."""
        self.weights = np.array(state["weights"])
        self.hessian = np.array(state["hessian"])
