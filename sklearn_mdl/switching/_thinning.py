"""Storage of posteriors that arrive in blocks, thinned and summed by kind."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching._checks import check_integer, invalid
from sklearn_mdl.switching._inputs import Floats, group_columns


class PosteriorThinner:
    """Storage of a posterior that arrives in blocks, thinned and summed by kind.

    Parameters
    ----------
    n_experts : int
    kinds : sequence of length K or None
        The kind of each expert.
    max_rows : int or None
        Largest number of rows to store. Every ``2^j``-th step is stored, with the
        smallest ``j`` that suffices.
    """

    def __init__(
        self,
        n_experts: int,
        kinds: Sequence[Hashable] | None = None,
        max_rows: int | None = None,
    ) -> None:
        self.names: tuple[Hashable, ...] | None = None
        if kinds is not None:
            self.names, members = group_columns(kinds)
            if len(members) != n_experts:
                required, cure = f"of length {n_experts}", "pass one kind per expert"
                raise invalid("kinds", required, len(members), cure)
            counts = np.bincount(members)
            self._order = np.argsort(members, kind="stable")  # experts by kind
            self._starts = np.cumsum(counts) - counts
        if max_rows is not None:
            check_integer("max_rows", max_rows, 0, "pass max_rows=1000, or None")
        self._max_rows = max_rows
        self._stride = 1
        self._n_seen = 0
        self._n_kept = 0
        width = n_experts if self.names is None else len(self.names)
        self._rows: Floats = np.empty((0, width))

    def reserve(self, n_rows: int) -> None:
        """Allocate memory for a stream of known length, unless it is thinned."""
        if self._max_rows is None:
            self._allocate(n_rows)

    def append(self, rows: Floats) -> None:
        """Store all or some of the next rows, of shape (n, K)."""
        kept = rows[-self._n_seen % self._stride :: self._stride]
        self._n_seen += len(rows)
        if self._max_rows == 0:
            return
        stop = self._n_kept + len(kept)
        if stop > len(self._rows):  # doubling keeps the total cost linear
            self._allocate(max(stop, 2 * len(self._rows)))
        if self.names is not None:
            kept = np.add.reduceat(kept[:, self._order], self._starts, axis=1)
        self._rows[self._n_kept : stop] = kept
        self._n_kept = stop
        while self._max_rows is not None and self._n_kept > self._max_rows:
            thinned = self._rows[: self._n_kept : 2].copy()
            self._n_kept = len(thinned)
            self._rows[: self._n_kept] = thinned
            self._stride *= 2

    def result(self) -> tuple[Floats, NDArray[np.intp]]:
        """Return the posterior (n_kept, K or n_kinds) and its steps (n_kept,)."""
        return self._rows[: self._n_kept], self._stride * np.arange(self._n_kept)

    def _allocate(self, n_rows: int) -> None:
        rows = np.empty((n_rows, self._rows.shape[1]))
        rows[: self._n_kept] = self._rows[: self._n_kept]
        self._rows = rows
