"""What is kept of a posterior too large to keep whole: fewer rows, fewer columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching.weights import group_columns

Floats = NDArray[np.float64]


class PosteriorKeeper:
    """A posterior that arrives in blocks of rows, thinned and summed by group.

    Parameters
    ----------
    n_experts : int
    groups : sequence of length K or None
        The group of each expert.
    max_rows : int or None
        Rows to keep at most: every ``2^j``-th, for the smallest ``j`` that does.
    """

    def __init__(
        self,
        n_experts: int,
        groups: Sequence[Hashable] | None = None,
        max_rows: int | None = None,
    ) -> None:
        self.names: tuple[Hashable, ...] | None = None
        if groups is not None:
            self.names, self._order, self._starts = _grouping(groups, n_experts)
        if max_rows is not None and (
            not isinstance(max_rows, Integral) or max_rows < 0
        ):
            raise ValueError(
                "`max_rows` must be a non-negative integer or None, got "
                f"{max_rows=}; say how many rows of the posterior to keep."
            )
        self._max_rows = max_rows
        self._stride = 1
        self._n_seen = 0
        self._n_kept = 0
        width = n_experts if self.names is None else len(self.names)
        self._rows: Floats = np.empty((0, width))

    def reserve(self, n_rows: int) -> None:
        """Make room for a stream of known length, if it is kept whole."""
        if self._max_rows is None:
            self._make_room(n_rows)

    def append(self, rows: Floats) -> None:
        """Take in the next rows, shape (n, K)."""
        kept = rows[-self._n_seen % self._stride :: self._stride]
        self._n_seen += len(rows)
        if self._max_rows == 0:
            return
        stop = self._n_kept + len(kept)
        if stop > len(self._rows):  # double the room: appending stays linear
            self._make_room(max(stop, 2 * len(self._rows)))
        self._rows[self._n_kept : stop] = self._by_group(kept)
        self._n_kept = stop
        while self._max_rows is not None and self._n_kept > self._max_rows:
            thinned = self._rows[: self._n_kept : 2].copy()
            self._n_kept = len(thinned)
            self._rows[: self._n_kept] = thinned
            self._stride *= 2

    def result(self) -> tuple[Floats, NDArray[np.intp]]:
        """Return the posterior (n_kept, K or n_groups) and its steps (n_kept,)."""
        return self._rows[: self._n_kept], self._stride * np.arange(self._n_kept)

    def _make_room(self, n_rows: int) -> None:
        room = np.empty((n_rows, self._rows.shape[1]))
        room[: self._n_kept] = self._rows[: self._n_kept]
        self._rows = room

    def _by_group(self, rows: Floats) -> Floats:
        if self.names is None:
            return rows
        sums: Floats = np.add.reduceat(rows[:, self._order], self._starts, axis=1)
        return sums


def _grouping(
    groups: Sequence[Hashable], n_experts: int
) -> tuple[tuple[Hashable, ...], NDArray[np.intp], NDArray[np.intp]]:
    """Names of the groups, experts in their order, and where each group begins."""
    names, members = group_columns(groups)
    if len(members) != n_experts:
        raise ValueError(
            f"`groups` must have length {n_experts}, got {len(members)}; name the "
            "group of each expert."
        )
    order = np.argsort(members, kind="stable")
    counts = np.bincount(members)
    return names, order, np.cumsum(counts) - counts
