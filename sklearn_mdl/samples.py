"""The rows that a walk has been given, in the order in which it walks them."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.growing import GrowingArray

COPIED_AT_ONCE = 64 * 2**20  # bytes of rows that are gathered in one go


def is_mapped(X: Any) -> bool:
    """Whether an array looks at a file instead of memory of its own."""
    while isinstance(X, np.ndarray):  # not by its class, which copies of a map keep
        X = X.base
    return isinstance(X, mmap.mmap)


class SampleStore:
    """The rows that have come so far, in their order.

    Rows are copied, to memory or to a file, since their owner may change them while
    they are still being replayed. Rows of a memory map are not: they are read from
    their own file, a few at a time, and converted to float32 then.

    Parameters
    ----------
    n_features : int
        Width ``d`` of a row.
    path : Path or None
        A ``.npy`` file for the rows that are copied; None keeps them in memory.
    """

    def __init__(self, n_features: int, path: Path | None = None) -> None:
        self.n_features = n_features
        self.path = path
        self._parts: list[_Copied | _Mapped | _Borrowed] = []
        self._starts = [0]  # first row of each part, and of the rows to come

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._starts[-1]

    def append(self, X: np.ndarray, order: np.ndarray | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            A memory map must keep its content from now on.
        order : ndarray of shape (n,) or None
            In which the rows of X come; None takes them as they lie.
        """
        if is_mapped(X):
            self._parts.append(_Mapped(X, order))
            self._starts.append(len(self) + len(X))
            return
        self._last_copied().append(X, order)
        self._starts[-1] += len(X)

    def _last_copied(self) -> _Copied:
        """Return the part that takes copies: the last one, or a new one after maps."""
        if self._parts and isinstance(self._parts[-1], _Copied):
            return self._parts[-1]
        n_copied = sum(isinstance(part, _Copied) for part in self._parts)
        part = _Copied(self.n_features, _numbered(self.path, n_copied))
        self._parts.append(part)
        self._starts.append(len(self))
        return part

    def cut(self, n_rows: int) -> None:
        """Forget all rows but the first ``n_rows``."""
        while len(self) > n_rows:
            start = self._starts[-2]
            if start >= n_rows:
                self._parts.pop()
                self._starts.pop()
            else:
                self._parts[-1].cut(n_rows - start)
                self._starts[-1] = n_rows

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows from ``start`` up to ``stop``, float32: a view where one will do."""
        pieces = []
        part = bisect_right(self._starts, start) - 1
        while start < stop:
            first = self._starts[part]
            piece = self._parts[part].rows(start - first, stop - first)
            pieces.append(piece)
            start += len(piece)
            part += 1
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([np.empty((0, self.n_features), np.float32), *pieces])

    def branch(self) -> SampleStore:
        """Return a store that begins with these rows and goes on in memory alone."""
        other = SampleStore(self.n_features)
        other._parts.append(_Borrowed(self))
        other._starts.append(len(self))
        return other


def _numbered(path: Path | None, number: int) -> Path | None:
    """Each run of copied rows between two maps has a file of its own."""
    if path is None or not number:
        return path
    return path.with_stem(f"{path.stem}-{number}")


class _Copied:
    """Rows of our own."""

    def __init__(self, n_features: int, path: Path | None) -> None:
        self._kept = GrowingArray(n_features, path, dtype="<f4")
        self._step = max(1, COPIED_AT_ONCE // (4 * max(1, n_features)))

    def append(self, X: np.ndarray, order: np.ndarray | None) -> None:
        if len(X) > self._step:
            self._kept.reserve(len(X))
        for start in range(0, len(X), self._step):
            chosen = slice(start, start + self._step)
            self._kept.append(X[chosen] if order is None else X[order[chosen]])

    def cut(self, n_rows: int) -> None:
        self._kept.cut(n_rows)

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._kept.rows[start:stop]


class _Mapped:
    """Rows that are left where they are."""

    def __init__(self, X: np.ndarray, order: np.ndarray | None) -> None:
        self._X = X
        self._order = order

    def cut(self, n_rows: int) -> None:
        if self._order is None:
            self._X = self._X[:n_rows]
        else:
            self._order = self._order[:n_rows]

    def rows(self, start: int, stop: int) -> np.ndarray:
        if self._order is None:
            found = self._X[start:stop]
        else:
            found = self._X[self._order[start:stop]]
        return np.asarray(found, dtype=np.float32)


class _Borrowed:
    """Rows that another store has."""

    def __init__(self, store: SampleStore) -> None:
        self._store = store
        self._n_rows = len(store)

    def cut(self, n_rows: int) -> None:
        self._n_rows = n_rows

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._store.rows(start, min(stop, self._n_rows))
