"""Storage of a run: the rows in their order, and the trace that they leave.

In memory or on disk, since rows and ``N x K`` losses can be larger than memory.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.stream_folder import StreamFolder

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
    folder : StreamFolder or None
        Of the stream that the file belongs to; the path is then relative to it.
    """

    def __init__(
        self,
        n_features: int,
        path: Path | None = None,
        folder: StreamFolder | None = None,
    ) -> None:
        self.n_features = n_features
        self.path = path
        self.folder = folder
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
        """Add rows: all or, if there is an error, none.

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
        if self._own is not None and self._parts[-1:] == [self._own]:
            self._own.append(X, order)
        else:
            n_copied = sum(isinstance(part, _Copied) for part in self._parts)
            path = self.path  # rows copied after a map have a file of their own
            if path is not None and n_copied:
                path = path.with_stem(f"{path.stem}-{n_copied}")
            own = _Copied(self.n_features, path, self.folder)
            own.append(X, order)
            self._own = own
            self._parts.append(own)
            self._starts.append(len(self))
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

    def pick(self, X: np.ndarray) -> np.ndarray:
        """Return of rows (n, d) that are not in it what it would hold."""
        return X

    def branch(self) -> SampleStore:
        """Return a store that begins with these rows and goes on in memory alone."""
        other = SampleStore(self.n_features)
        other._parts, other._starts = [*self._parts], [*self._starts]
        return other


class SomeFeatures(SampleStore):
    """Some features of the rows of another store, which keeps them.

    Parameters
    ----------
    store : SampleStore
    features : tuple of int
        Columns of its rows, in the order wanted.
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
        """Rows from ``start`` up to ``stop``, float32, as a store of them has them."""
        return np.ascontiguousarray(self.pick(self.store.rows(start, stop)))

    def pick(self, X: np.ndarray) -> np.ndarray:
        """Return these features of other rows of the stream."""
        found: np.ndarray = X[:, self._picked]
        return found


class _Copied:
    """Rows of our own."""

    def __init__(
        self, n_features: int, path: Path | None, folder: StreamFolder | None
    ) -> None:
        self._kept = GrowingArray(n_features, path, dtype="<f4", folder=folder)
        self._step = max(1, COPIED_AT_ONCE // (4 * max(1, n_features)))

    def append(self, X: np.ndarray, order: np.ndarray | None) -> None:
        if len(X) > self._step:
            self._kept.reserve(len(X))
        folder = self._kept.folder
        goes_on = folder is not None and folder.is_begun and not self._kept.n_rows
        parts = [slice(i, i + self._step) for i in range(0, len(X), self._step)]
        pick = X.__getitem__ if order is None else lambda part: X[order[part]]
        # Of a stream that goes on from a checkpoint, they may be in the file already.
        if not (goes_on and self._kept.adopt_if_equal(map(pick, parts))):
            self._kept.extend(map(pick, parts))

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


class StoredMixtures(NamedTuple):
    """What groups of readouts have predicted for ``n`` rows, and their labels.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    mixtures : ndarray of shape (n, G, P)
        NaN where a group was asleep.
    """

    labels: np.ndarray
    mixtures: np.ndarray

    @classmethod
    def none(cls, n_groups: int, n_numbers: int, dtype: torch.dtype) -> Self:
        """Return those of no rows, for labels of a type."""
        labels = torch.empty(0, dtype=dtype).numpy()
        return cls(labels, np.empty((0, n_groups, n_numbers)))


class PrequentialTrace:
    """Losses, codelengths and posterior of a run, all in nats and by example.

    Parameters
    ----------
    n_readouts : int
        Number ``K`` of readouts.
    folder : StreamFolder or None
        Of the files, ``losses.npy`` and so on; None keeps them in memory.
    n_kept : int, default=3
        Numbers that are kept of every prediction of the mixture.
    stored : StoredMixtures or None
        An empty one, if predictions of groups are kept, too.

    Attributes
    ----------
    losses : ndarray of shape (N, K)
        ``-log p_k(y_t | past)``.
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | past)`` of the mixture.
    posterior : ndarray of shape (N, K)
        ``p(readout at t | labels before t)``.
    stored : StoredMixtures or None
        Of all rows.
    summaries : ndarray of shape (N, n_kept)
        Summaries of the mixture's predictions for the measures; always in memory.
    refusal : OSError or None
        Why the last rows wait in memory: the disk did not take them.
    """

    def __init__(
        self,
        n_readouts: int,
        folder: StreamFolder | None = None,
        n_kept: int = 3,
        stored: StoredMixtures | None = None,
    ) -> None:
        self.folder = folder
        self.refusal: OSError | None = None
        empty = np.empty((0, n_readouts))
        # In the order of writing: who reads losses finds their mixtures.
        files = {} if stored is None else stored._asdict()
        self._files = {
            name: GrowingArray(
                rows.shape[1:] or None,
                None if folder is None else Path(f"{name}.npy"),
                dtype=rows.dtype.newbyteorder("<").str,
                folder=folder,
            )
            for name, rows in (files | {"losses": empty, "posterior": empty}).items()
        }
        self._waiting: list[dict[str, np.ndarray]] = []
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
        stored: StoredMixtures | None = None,
    ) -> None:
        """Add a segment of n rows, in the shapes of the attributes.

        Rows that the disk does not take wait in memory, since they were learned.

        Raises
        ------
        ValueError
            If another stream has written to the files.
        """
        given = {"losses": losses, "posterior": posterior}
        given |= {} if stored is None else stored._asdict()
        self._waiting.append({name: given[name] for name in self._files})
        self._summaries.append(summaries)
        self._codelengths.append(codelengths)
        try:
            self.write_waiting()
        except OSError as error:
            self.refusal = error

    def write_waiting(self) -> None:
        """Write the rows that the disk did not take before.

        Raises
        ------
        OSError
            If it still does not take them.
        """
        while self._waiting:
            n_rows = self._files["losses"].n_rows
            try:
                for name, rows in self._waiting[0].items():
                    self._files[name].append(rows)
            except BaseException:
                for file in self._files.values():
                    file.cut(min(n_rows, file.n_rows))
                raise
            self._waiting.pop(0)
        self.refusal = None

    def check_room(self, n_rows: int, available: int | None) -> None:
        """Refuse so many rows more if they cannot be kept in memory.

        Raises
        ------
        MemoryError
            If they would need more bytes than are ``available``; None is unknown.
        """
        n_own = self._files["losses"].n_rows + n_rows
        needed = n_own * sum(file.row_bytes for file in self._files.values())
        if self.folder is None and available is not None and needed > available:
            raise MemoryError(
                f"{' and '.join(self._files).capitalize()} of {n_own} examples and "
                f"{self._n_readouts} readouts need {needed / 1e9:.3g} GB, but there "
                f"are {available / 1e9:.3g} GB of memory; pass store=path to keep them "
                "on disk"
            )

    def record(self) -> Json:
        """Say what :meth:`adopt` must find in the files; they are on the disk then."""
        self.write_waiting()
        for file in self._files.values():
            file.secure()
        digests = {name: file.digest() for name, file in self._files.items()}
        return {"stream": None if self.folder is None else self.folder.stream} | digests

    def adopt(self, n_rows: int, record: Json) -> None:
        """Take the first rows in the files for those of this trace.

        Codelengths and summaries must follow (:meth:`account`). Nothing is written.

        Raises
        ------
        ValueError
            If the folder is that of another stream, or a file does not hold so many
            rows of so many readouts, or is damaged.
        """
        if missing := sorted(self._files.keys() - record.keys()):
            raise ValueError(
                f"A checkpoint must hold the {missing[0]} that the trace goes on from, "
                "but was written without; pass store_mixtures=False or name another "
                "folder"
            )
        if self.folder is not None:
            self.folder.adopt(record["stream"])
        for name, file in self._files.items():
            file.adopt(n_rows, record[name])

    def account(self, codelengths: np.ndarray, summaries: np.ndarray) -> None:
        """Add codelengths and summaries of rows whose losses were adopted."""
        self._codelengths.append(codelengths)
        self._summaries.append(summaries)

    @property
    def losses(self) -> np.ndarray:
        """Loss of every readout at every example, (N, K), in nats."""
        self.write_waiting()
        return self._files["losses"].rows

    @property
    def codelengths(self) -> np.ndarray:
        """Codelength of every example under the mixture, (N,), in nats."""
        return self._codelengths.rows

    @property
    def posterior(self) -> np.ndarray:
        """Posterior over readouts before each label, (N, K)."""
        self.write_waiting()
        return self._files["posterior"].rows

    @property
    def stored(self) -> StoredMixtures | None:
        """What groups have predicted, and labels; None if that is not kept."""
        if "mixtures" not in self._files:
            return None
        self.write_waiting()
        names = StoredMixtures._fields
        return StoredMixtures(*(self._files[name].rows for name in names))

    def known_summaries(self) -> np.ndarray:
        """Return `summaries`; raises ValueError where predictions were not kept."""
        if np.isnan(self.summaries).any():
            raise ValueError(
                "Measures need predictions of the mixture, but a split pass without a "
                "pool has losses of readouts alone; fit with pooling or split=None"
            )
        return self.summaries

    @property
    def summaries(self) -> np.ndarray:
        """Kept of the mixture, (N, n_kept).

        Of classes the most probable one, its probability and the sum of squared ones;
        of real numbers mean and standard deviation.
        """
        return self._summaries.rows
