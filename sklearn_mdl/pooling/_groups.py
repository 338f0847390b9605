"""Sums over groups of experts, and Newton steps of their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

Floats = NDArray[np.float64]


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
    return np.asarray(weights[~gone] + moved), left
