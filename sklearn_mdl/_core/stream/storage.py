"""Storage of a run: the rows in their order, and the trace that they leave.

In memory or on disk, since rows and ``N x K`` losses can be larger than memory.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl._core.io.append_array import GrowingArray

COPIED_AT_ONCE = 64 * 2**20  # bytes of rows that are gathered in one go


def is_mapped(X: Any) -> bool:
    """Return True if an array is a view of a file, not of memory of its own."""
    while isinstance(X, np.ndarray):  # not by its class, which copies of a map keep
        X = X.base
    return isinstance(X, mmap.mmap)


class SampleStore:
    """The rows of a stream, in their order.

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
        self._parts: list[_Copied | _Mapped] = []
        self._own: _Copied | None = None  # the last part that copies of rows went to
        self._starts = [0]  # first row of each part, and of the next one

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._starts[-1]

    def check_reuse(self, X: np.ndarray) -> None:
        """Refuse a writable map of rows that lie where earlier ones do.

        It was filled a second time: the earlier rows are gone, which were to be read
        again.

        Raises
        ------
        ValueError
            Also if the map holds the same rows as before, which nobody can know.
        """
        if not (is_mapped(X) and X.flags.writeable):
            return
        for part, start in zip(self._parts, self._starts, strict=False):
            if isinstance(part, _Mapped) and part.overlaps(X):
                raise ValueError(
                    "A memory map must keep the rows that it held, but these lie where "
                    f"rows from {start} of this stream on do, in a map that can be "
                    "written; pass a copy of each block, or open the map with mode='r'"
                )

    def append(self, X: np.ndarray, order: np.ndarray | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            A memory map must keep its content from now on.
        order : ndarray of shape (n,) or None
            In which the rows of X are added; None takes them as they lie.
        """
        if is_mapped(X):
            self._parts.append(_Mapped(X, order))
            self._starts.append(len(self) + len(X))
            return
        if self._own is None or self._parts[-1:] != [self._own]:
            n_copied = sum(isinstance(part, _Copied) for part in self._parts)
            path = self.path  # rows copied after a map have a file of their own
            if path is not None and n_copied:
                path = path.with_stem(f"{path.stem}-{n_copied}")
            self._own = _Copied(self.n_features, path)
            self._parts.append(self._own)
            self._starts.append(len(self))
        self._own.append(X, order)
        self._starts[-1] += len(X)

    def cut(self, n_rows: int) -> None:
        """Forget all rows but the first ``n_rows``."""
        while len(self) > n_rows:
            start, last = self._starts[-2], self._parts[-1]
            if start >= n_rows:
                self._parts.pop()
                self._starts.pop()
            else:
                last.cut(n_rows - start)
                self._starts[-1] = n_rows

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows from ``start`` up to ``stop``, float32: a view where one will do."""
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

    def branch(self) -> SampleStore:
        """Return a store that begins with these rows and goes on in memory alone."""
        other = SampleStore(self.n_features)
        other._parts, other._starts = [*self._parts], [*self._starts]
        return other


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

    def overlaps(self, X: np.ndarray) -> bool:
        return np.may_share_memory(self._X, X)

    def rows(self, start: int, stop: int) -> np.ndarray:
        if self._order is None:
            found = self._X[start:stop]
        else:
            found = self._X[self._order[start:stop]]
        return np.asarray(found, dtype=np.float32)


class PrequentialTrace:
    """Losses, codelengths and posterior of a run, all in nats and by example.

    Parameters
    ----------
    n_readouts : int
        Number ``K`` of readouts.
    store : "memory" or path-like
        A directory for ``losses.npy`` and ``posterior.npy``, or "memory".
    n_kept : int, default=3
        Numbers that are kept of every prediction of the mixture.

    Attributes
    ----------
    losses : ndarray of shape (N, K)
        ``-log p_k(y_t | past)``.
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | past)`` of the mixture.
    posterior : ndarray of shape (N, K)
        ``p(readout at t | labels before t)``.
    summaries : ndarray of shape (N, n_kept)
        Summaries of the mixture's predictions for the measures; always in memory.
    description : str or None
        Text that says whose losses these are; it stands in ``losses.json`` from the
        first row on.
    """

    def __init__(
        self, n_readouts: int, store: str | PathLike[str] = "memory", n_kept: int = 3
    ) -> None:
        self.description: str | None = None
        self._folder = folder = None if store == "memory" else Path(store)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._losses = GrowingArray(n_readouts, folder and folder / "losses.npy")
        self._posterior = GrowingArray(n_readouts, folder and folder / "posterior.npy")
        self._codelengths = GrowingArray(None)
        self._summaries = GrowingArray(n_kept)
        self._n_readouts = n_readouts
        self._n_kept = n_kept
        self._n_before = 0

    def __len__(self) -> int:
        """Return the number of examples."""
        return self._n_before + self._codelengths.n_rows

    def branch(self) -> PrequentialTrace:
        """Return a trace in memory for what follows; it counts these examples too."""
        other = PrequentialTrace(self._n_readouts, n_kept=self._n_kept)
        other._n_before = len(self)
        return other

    def append(
        self,
        losses: np.ndarray,
        codelengths: np.ndarray,
        posterior: np.ndarray,
        summaries: np.ndarray,
    ) -> None:
        """Add a segment of n rows, in the shapes of the attributes."""
        if self._folder is not None and not len(self):
            # Losses of an earlier stream go first: they never stand under another's
            # names.
            losses_file, sidecar, _ = self.files
            losses_file.unlink(missing_ok=True)
            sidecar.unlink(missing_ok=True)
            if self.description is not None:
                sidecar.write_text(self.description, encoding="utf-8")
        self._losses.append(losses)
        self._posterior.append(posterior)
        self._summaries.append(summaries)
        self._codelengths.append(codelengths)

    def check_room(self, n_rows: int, available: int | None) -> None:
        """Refuse so many rows more if they cannot be kept in memory.

        Raises
        ------
        MemoryError
            If losses and posterior would need more bytes than are ``available``; None
            is unknown.
        """
        n_own = self._losses.n_rows + n_rows
        needed = 2 * 8 * n_own * self._n_readouts
        if self._folder is None and available is not None and needed > available:
            raise MemoryError(
                f"Losses and posterior of {n_own} examples and "
                f"{self._n_readouts} readouts need {needed / 1e9:.3g} GB, but there "
                f"are {available / 1e9:.3g} GB of memory; pass store=path to keep them "
                "on disk"
            )

    def adopt(self, n_rows: int) -> None:
        """Take the first losses and posteriors in the store for those of this trace.

        Codelengths and summaries must follow (:meth:`account`).

        Raises
        ------
        ValueError
            If the store does not hold so many rows of so many readouts.
        """
        self._losses.adopt(n_rows)
        self._posterior.adopt(n_rows)

    def account(self, codelengths: np.ndarray, summaries: np.ndarray) -> None:
        """Add codelengths and summaries of rows whose losses were adopted."""
        self._codelengths.append(codelengths)
        self._summaries.append(summaries)

    def secure(self) -> None:
        """See that all that was added is on the disk, if that is where it goes."""
        self._losses.secure()
        self._posterior.secure()

    @property
    def files(self) -> list[Path]:
        """The files that this trace writes; none in memory."""
        names = ("losses.npy", "losses.json", "posterior.npy")
        return [] if self._folder is None else [self._folder / name for name in names]

    @property
    def losses(self) -> np.ndarray:
        """Loss of every readout at every example, (N, K), in nats."""
        return self._losses.rows

    @property
    def codelengths(self) -> np.ndarray:
        """Codelength of every example under the mixture, (N,), in nats."""
        return self._codelengths.rows

    @property
    def posterior(self) -> np.ndarray:
        """Posterior over readouts before each label, (N, K)."""
        return self._posterior.rows

    @property
    def summaries(self) -> np.ndarray:
        """Kept of the mixture, (N, n_kept).

        Of classes the most probable one, its probability and the sum of squared ones;
        of real numbers mean and standard deviation.
        """
        return self._summaries.rows
