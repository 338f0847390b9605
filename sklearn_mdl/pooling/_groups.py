"""Sums over groups of experts, and the base class of a pool's passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

Floats = NDArray[np.float64]


class PoolSettings(Protocol):
    """Settings of a ``LogLinearPool`` that a pass reads."""

    prior_precision: float
    half_life: float | None
    rates: Sequence[float] | None


class Members:
    """Sums over groups, each in an order that depends only on the group's members.

    One operation adds the second members of all groups with at least two members, the
    next operation adds the third members, and so on.

    Parameters
    ----------
    starts : ndarray of shape (G,)
        Index of the first member of each group. The members of a group are adjacent.
    size : int
        Number of members.

    Attributes
    ----------
    order : ndarray of shape (size,)
        Members, in the order in which they are added.
    groups : ndarray of shape (size,)
        Group of each member in `order`.
    """

    def __init__(self, starts: NDArray[np.intp], size: int) -> None:
        sizes = np.diff([*starts, size])
        by_size = np.argsort(-sizes)
        self._counts = [int((sizes > rank).sum()) for rank in range(sizes.max())]
        ranked = [by_size[:count] for count in self._counts]
        self.groups = np.concatenate(ranked)
        ranks = np.repeat(np.arange(len(ranked)), self._counts)
        self.order = starts[self.groups] + ranks
        self._places = np.argsort(by_size)

    def sums(self, values: Floats) -> Floats:
        """Return the sums (G, ...) of values within groups.

        The values (size, ...) are given in `order`, and are overwritten.
        """
        end = self._counts[0]
        total = values[:end]
        for count in self._counts[1:]:
            total[:count] += values[end : end + count]
            end += count
        return total[self._places]


def newton_step(hessian: Floats, gradient: Floats) -> Floats:
    """Solve for a step (G,), given a positive definite Hessian (G, G)."""
    step: Floats
    _, step, failed = dposv(hessian, gradient)
    if failed:  # rounding can make the Hessian indefinite
        step = np.linalg.solve(hessian, gradient).astype(np.float64)
    return step


def without(
    weights: Floats, hessian: Floats, groups: Sequence[int]
) -> tuple[Floats, Floats]:
    """Return the weights and the Hessian without the given groups.

    The remaining weights minimise a loss that is quadratic around the old weights:
    ``w[left] += H[left, left]^-1 H[left, gone] w[gone]``, where ``H`` is the Hessian.
    """
    gone = np.isin(np.arange(len(weights)), groups)
    rows = hessian[~gone]
    left: Floats = rows[:, ~gone]
    moved = np.linalg.solve(left, rows[:, gone] @ weights[gone])
    remaining: Floats = weights[~gone] + moved
    return remaining, left


class GroupPass(ABC):
    """One online pass of a pool over the mixtures of ``G`` groups, row by row.

    Parameters
    ----------
    pool : PoolSettings
    n_groups : int

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Weights of the groups for the next row.
    hessian : ndarray of shape (G, G)
        Prior precision plus the Hessians (or expected Hessians) of the log-losses so
        far. If the pool has a half-life, older losses weigh less.
    rates : sequence of float or None
        Rates of the fixed share within groups (see ``LogLinearPool``).
    """

    def __init__(self, pool: PoolSettings, n_groups: int) -> None:
        self.rates = pool.rates
        self.weights = np.full(n_groups, 1 / n_groups)
        self._precision = float(pool.prior_precision)
        self._kept = 1.0 if pool.half_life is None else 0.5 ** (1 / pool.half_life)
        self.hessian = self._precision * np.eye(n_groups)

    def _fade(self) -> None:
        """Discount past losses before the loss of a row is added."""
        if self._kept < 1:
            self.hessian = self._kept * self.hessian
            np.einsum("ii->i", self.hessian)[:] += (1 - self._kept) * self._precision

    @abstractmethod
    def mix(self, values: Floats, weights: Floats, members: Members) -> Floats:
        """Mix the experts of each group, for one or more rows.

        Parameters
        ----------
        values : ndarray of shape (K, ..., P)
            Predictions of the experts, in ``members.order``. May be overwritten.
        weights : ndarray of shape (K, ...)
            Weights of the experts within their groups, in ``members.order``.
        members : Members

        Returns
        -------
        mixed : ndarray of shape (G, ..., Q)
            Mixtures of the groups. :meth:`predict` and :meth:`observe` take the
            mixtures (G, Q) of one row.
        """

    @abstractmethod
    def predict(self, mixed: Floats) -> Floats:
        """Predict one row."""

    @abstractmethod
    def observe(self, mixed: Floats, label: float) -> tuple[Floats, float]:
        """Predict a row, then update the weights with its label.

        Returns
        -------
        predicted : ndarray
            As returned by :meth:`predict`.
        cost : float
            As returned by :meth:`cost`.
        """

    @abstractmethod
    def cost(self, predicted: Floats, label: float) -> float:
        """Return the cost of a label in nats, or NaN if the prediction is NaN."""

    def retire(self, groups: Sequence[int]) -> None:
        """Drop some groups, and transfer their weights to the remaining groups."""
        weights, self.hessian = without(self.weights, self.hessian, groups)
        self.weights = self._project(weights)

    def add_classes(self, n: int) -> None:  # noqa: B027
        """Add ``n`` classes, or do nothing if labels are real numbers."""

    def _project(self, weights: Floats) -> Floats:
        """Return valid weights near the given weights."""
        return weights

    def state_dict(self) -> dict[str, Floats]:
        """Return the weights and the Hessian after the labels so far."""
        return {"weights": self.weights.copy(), "hessian": self.hessian.copy()}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Continue from the state of another pass."""
        self.weights = np.array(state["weights"])
        self.hessian = np.array(state["hessian"])
