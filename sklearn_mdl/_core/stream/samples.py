"""The rows of a run in order, in memory or on disk."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.stream_folder import StreamFolder

COPIED_AT_ONCE = 64 * 2**20  # bytes of rows gathered at a time


def is_mapped(X: Any) -> bool:
    """Return True if an array is a view of a memory-mapped file."""
    while isinstance(X, np.ndarray):  # a copy of a memmap is also a memmap
        X = X.base
    return isinstance(X, mmap.mmap)


class SampleStore:
    """The rows of a stream in order.

    Rows are copied to memory or to a file, since the caller may change the array while
    its rows are still replayed. Rows of a memory map are not copied. They are read from
    the mapped file a few at a time, and converted to float32.

    Parameters
    ----------
    n_features : int
        Width ``d`` of a row.
    folder : StreamFolder or None
        Folder of the stream, for files of copied rows. If None, they are kept in
        memory.
    """

    def __init__(self, n_features: int, folder: StreamFolder | None = None) -> None:
        self.n_features = n_features
        self.folder = folder
        self._parts: list[_Copied | _Mapped] = []
        self._own: _Copied | None = None  # the last part for copied rows
        self._starts = [0]  # first row of each part, then the number of rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._starts[-1]

    def check_reuse(self, X: np.ndarray) -> None:
        """Raise for a writable map that shares memory with earlier rows.

        Such a map has probably been filled with new rows, so that the earlier rows,
        which the stream still needs, are lost. The stream must then begin again.

        Raises
        ------
        ValueError
            If memory is shared, even if the map still contains the same rows.
        """
        if not (is_mapped(X) and X.flags.writeable):
            return
        for part, start in zip(self._parts, self._starts, strict=False):
            if isinstance(part, _Mapped) and np.may_share_memory(part.X, X):
                raise ValueError(
                    "A memory map must keep its earlier rows, but new rows are in "
                    "a writable map at the same place as earlier rows of this stream, "
                    f"starting at row {start}; begin the stream again with X.copy() in "
                    "every call, or with maps opened with mode='r'"
                )

    def append(self, X: np.ndarray, order: np.ndarray | None = None) -> None:
        """Add all rows or, if there is an error, none.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            A memory map must keep its content from now on.
        order : ndarray of shape (n,) or None
            Order in which to add the rows of X. If None, their order does not change.
        """
        if is_mapped(X):
            self._parts.append(_Mapped(X, order))
            self._starts.append(len(self) + len(X))
            return
        if self._own is not None and self._parts[-1:] == [self._own]:
            self._own.append(X, order)
        else:
            n_copied = sum(isinstance(part, _Copied) for part in self._parts)
            own = _Copied(self.n_features, self.folder, n_copied)
            own.append(X, order)
            self._own = own
            self._parts.append(own)
            self._starts.append(len(self))
        self._starts[-1] += len(X)

    def cut(self, n_rows: int) -> None:
        """Forget all rows except the first ``n_rows``."""
        while len(self) > n_rows:
            start, last = self._starts[-2], self._parts[-1]
            if start >= n_rows:
                self._parts.pop()
                self._starts.pop()
            else:
                last.cut(n_rows - start)
                self._starts[-1] = n_rows

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return float32 rows from ``start`` to ``stop``, as a view if possible."""
        pieces = []
        part = bisect_right(self._starts, start) - 1
        while start < stop:
            first, end = self._starts[part], min(stop, self._starts[part + 1])
            piece = self._parts[part].rows(start - first, end - first)
            pieces.append(piece)
            start += len(piece)
            part += 1
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([np.empty((0, self.n_features), np.float32), *pieces])

    def pick(self, X: np.ndarray) -> np.ndarray:
        """Return the columns of rows ``X`` that this store contains."""
        return X

    def branch(self) -> SampleStore:
        """Return a store that begins with these rows and continues in memory."""
        branch = SampleStore(self.n_features)
        branch._parts, branch._starts = [*self._parts], [*self._starts]
        return branch


class SomeFeatures(SampleStore):
    """View of some features of the rows of another store.

    Parameters
    ----------
    store : SampleStore
    features : tuple of int
        Columns of the store, in the order of the view.
    """

    def __init__(self, store: SampleStore, features: tuple[int, ...]) -> None:
        super().__init__(len(features))
        self.store = store
        first, last = features[0], features[-1] + 1
        adjacent = features == tuple(range(first, last))
        self._picked = slice(first, last) if adjacent else list(features)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.store)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return this view's features of rows ``start`` to ``stop``, in float32."""
        return np.ascontiguousarray(self.pick(self.store.rows(start, stop)))

    def pick(self, X: np.ndarray) -> np.ndarray:
        """Return the features of this view, from rows ``X`` with all features."""
        return X[:, self._picked]


class _Copied:
    """Rows copied by the store."""

    def __init__(
        self, n_features: int, folder: StreamFolder | None, number: int
    ) -> None:
        # Rows copied after a map get their own file.
        name = f"features-{number}.npy" if number else "features.npy"
        path = None if folder is None else Path(name)
        self._kept = GrowingArray(n_features, path, dtype="<f4", folder=folder)
        self._step = max(1, COPIED_AT_ONCE // (4 * max(1, n_features)))

    def append(self, X: np.ndarray, order: np.ndarray | None) -> None:
        if len(X) > self._step:
            self._kept.reserve(len(X))
        folder = self._kept.folder
        resumes = folder is not None and folder.is_begun and not self._kept.n_rows
        parts = [slice(i, i + self._step) for i in range(0, len(X), self._step)]
        pick = X.__getitem__ if order is None else lambda part: X[order[part]]
        # Rows of a stream that resumes from a checkpoint may already be in the file.
        if not (resumes and self._kept.adopt_if_equal(map(pick, parts))):
            self._kept.extend(map(pick, parts))

    def cut(self, n_rows: int) -> None:
        self._kept.cut(n_rows)

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._kept.rows[start:stop]


class _Mapped:
    """Rows of a memory map, which are not copied."""

    def __init__(self, X: np.ndarray, order: np.ndarray | None) -> None:
        self.X = X
        self._order = order

    def cut(self, n_rows: int) -> None:
        if self._order is None:
            self.X = self.X[:n_rows]
        else:
            self._order = self._order[:n_rows]

    def rows(self, start: int, stop: int) -> np.ndarray:
        rows = slice(start, stop)
        picked = self.X[rows if self._order is None else self._order[rows]]
        return np.asarray(picked, dtype=np.float32)
