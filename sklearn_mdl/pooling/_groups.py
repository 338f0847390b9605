"""Groups of experts: fixed share inside each, and what a pool of them must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

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
        Probability of each expert at the incoming step; they sum to one in each group.
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

        Returns
        -------
        codelengths : ndarray of shape (G,)
            Cost of the step under each group's mixture, in nats. It is infinite where
            it is for every expert, and such a step moves no weight.
        """
        least = np.minimum.reduceat(losses, self._starts)
        finite = np.isfinite(least)
        shifts = np.where(finite, least, 0.0)
        joint = self.weights * np.exp(shifts[self._members] - losses)
        totals = np.add.reduceat(joint, self._starts)
        if not finite.all():
            joint = np.where(finite[self._members], joint, self.weights)
            totals = np.where(finite, totals, 1.0)
        joint /= totals[self._members]
        self._t += 1
        # The next step redraws the expert with probability 1 / t.
        self.weights = joint + (self._prior - joint) / self._t
        codelengths: Floats = np.where(finite, shifts - np.log(totals), np.inf)
        return codelengths


class GroupPass(ABC):
    """One online pass of a pool over the mixtures of ``G`` groups, row by row.

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Weights of the groups for the incoming row.
    """

    weights: Floats

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

    @abstractmethod
    def state_dict(self) -> dict[str, Floats]:
        """Return what the labels so far have left."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Go on from where another pass was."""
