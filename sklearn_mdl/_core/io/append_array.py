"""Arrays that grow row by row, in memory or in ``.npy`` files."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np

from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.io.whole_files import naming, replaced

READ_AT_ONCE = 2**24  # bytes
RESTART = "delete its folder and the checkpoint to begin again"


class GrowingArray:
    """Rows of numbers that are appended but never changed.

    Appending the first rows creates a new file, which replaces an existing one. Memory
    maps of the old file keep its rows.

    Parameters
    ----------
    width : int, tuple of int or None
        Number of values in a row, or shape of a row. If None, rows are single numbers.
    path : Path or None
        A ``.npy`` file for the rows. If None, they are kept in memory.
    dtype : str, default="<f8"
        NumPy's name of the dtype.
    folder : StreamFolder or None
        Folder of the stream. The path is then relative to this folder.
    """

    def __init__(
        self,
        width: int | tuple[int, ...] | None,
        path: Path | None = None,
        *,
        dtype: str = "<f8",
        folder: StreamFolder | None = None,
    ) -> None:
        self.folder = folder
        self.dtype = np.dtype(dtype)
        self.n_rows = 0
        self._path = path
        self._tail = (width,) if isinstance(width, int) else width or ()
        self.row_bytes = self.dtype.itemsize * math.prod(self._tail)
        self._buffer = np.empty((0, *self._tail), self.dtype)
        self._map: np.ndarray | None = None
        self._grows_in_place = False  # True if the file ends with the array's last row
        self._hash = hashlib.sha256()  # hash of the first rows
        self._n_hashed = 0

    @property
    def path(self) -> Path | None:
        """The file, or None if the rows are in memory."""
        return None if self._path is None else self._file

    @property
    def _file(self) -> Path:
        assert self._path is not None
        return self._path if self.folder is None else self.folder.path / self._path

    def reserve(self, n_rows: int) -> None:
        """Reserve memory for more rows, to avoid moving rows later."""
        n_places, n_before = self.n_rows + n_rows, len(self._buffer)
        if self._path is None and n_places > n_before:
            # At least double the memory, so rows are only moved a few times.
            room = np.empty((max(n_places, 2 * n_before), *self._tail), self.dtype)
            room[:n_before] = self._buffer
            self._buffer = room

    def append(self, rows: np.ndarray) -> None:
        """Add rows of shape (n,), (n, width) or (n, *width)."""
        self.extend([rows])

    def extend(self, blocks: Iterable[np.ndarray]) -> None:
        """Add all blocks of rows or, if there is an error, none.

        Raises
        ------
        OSError
            If the disk is full.
        ValueError
            If another stream has written to the file.
        """
        if self._path is None:
            stop = self.n_rows
            for rows in blocks:
                start, stop = stop, stop + len(rows)
                self.reserve(stop - self.n_rows)
                self._buffer[start:stop] = rows
            self.n_rows = stop
            return
        if self.folder is not None:
            self.folder.claim()
        extend = self._extend_in_place if self._grows_in_place else self._write_new
        extend(self._file, blocks)

    def _write_new(self, path: Path, blocks: Iterable[np.ndarray]) -> None:
        """Write a new file, starting with the adopted rows."""
        with replaced(path) as aside:
            with aside.open("wb") as file:
                file.write(self._header(0))
                n_rows = sum(self._write(file, rows) for rows in self._blocks())
                n_rows += sum(self._write(file, rows) for rows in blocks)
                file.seek(0)
                file.write(self._header(n_rows))
            self._map = None  # some systems cannot replace a mapped file
        self._grows_in_place, self.n_rows = True, n_rows

    def _extend_in_place(self, path: Path, blocks: Iterable[np.ndarray]) -> None:
        # NumPy pads the header of a .npy file so that the first axis may grow in place.
        end = len(self._header(0)) + self.n_rows * self.row_bytes
        if path.stat().st_size != end:
            raise ValueError(
                f"{path} must contain only the {self.n_rows} rows of this stream, but "
                "another stream has written to it; pass another store= to each fit"
            )
        try:
            with naming(path), path.open("r+b") as file:
                file.seek(end)
                n_new = sum(self._write(file, rows) for rows in blocks)
                file.seek(0)
                file.write(self._header(self.n_rows + n_new))
        except BaseException:
            self._cut_file(path, self.n_rows)
            raise
        self.n_rows += n_new

    def _write(self, file: BinaryIO, rows: np.ndarray) -> int:
        file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        return len(rows)

    def cut(self, n_rows: int) -> None:
        """Forget all rows except the first ``n_rows``."""
        if self._grows_in_place and n_rows < self.n_rows:
            self._map = None
            self._cut_file(self._file, n_rows)
        if n_rows < self._n_hashed:
            self._hash, self._n_hashed = hashlib.sha256(), 0
        self.n_rows = n_rows

    def _cut_file(self, path: Path, n_rows: int) -> None:
        header = self._header(n_rows)
        with path.open("r+b") as file:
            file.write(header)
            file.truncate(len(header) + n_rows * self.row_bytes)

    def adopt(self, n_rows: int, digest: str | None = None) -> None:
        """Adopt the first rows of the file and forget the others.

        If the array has a `folder`, its file does not change, and rows added later go
        to a new file. Otherwise the file is cut to the adopted rows.

        Parameters
        ----------
        n_rows : int
        digest : str or None
            The value that :meth:`digest` must return.

        Raises
        ------
        ValueError
            If there is no such file, or if it has too few, different or damaged rows.
        """
        n_found = self.count_left()
        if n_found is None or n_found < n_rows:
            held = "is missing or damaged" if n_found is None else f"contains {n_found}"
            raise _lost(self.path, n_rows, held, RESTART)
        if self.folder is None:
            self._grows_in_place = True
            self.n_rows = n_found + 1  # also cuts off an incomplete row at the end
            self.cut(n_rows)
        self.n_rows = n_rows
        if digest is not None and self.digest() != digest:
            fault = "it is damaged, since its checksum differs"
            raise _lost(self.path, n_rows, fault, RESTART)

    def adopt_if_equal(self, blocks: Iterable[np.ndarray]) -> bool:
        """Adopt ``blocks`` and return True if the file begins with them."""
        if self.count_left() is None:
            return False
        kept, n_rows = np.load(self._file, mmap_mode="r"), 0
        for rows in blocks:
            stored = kept[n_rows : n_rows + len(rows)]
            if stored.tobytes() != np.asarray(rows, dtype=self.dtype).tobytes():
                return False
            n_rows += len(rows)
        self.n_rows = n_rows
        return True

    def digest(self) -> str:
        """Return the SHA-256 of all rows. A later call reads only the added rows."""
        for rows in self._blocks(self._n_hashed):
            self._hash.update(np.ascontiguousarray(rows).data)
        self._n_hashed = self.n_rows
        return self._hash.hexdigest()

    def _blocks(self, start: int = 0) -> Iterator[np.ndarray]:
        rows, step = self.rows, max(1, READ_AT_ONCE // max(1, self.row_bytes))
        return (rows[i : i + step] for i in range(start, self.n_rows, step))

    def count_left(self) -> int | None:
        """Count the complete rows in the file, or return None if there is no array."""
        if self._path is None or not self._file.is_file():
            return None
        path = self._file
        # NumPy raises TokenError for one kind of damaged header.
        with path.open("rb") as file, suppress(ValueError, TokenError):
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            n_whole = (path.stat().st_size - file.tell()) // self.row_bytes
            if (shape[1:], dtype) == (self._tail, self.dtype):
                return min(int(shape[0]), n_whole)
        return None

    def secure(self) -> None:
        """Flush the rows to disk, so they survive a power failure."""
        if self._path is not None and self.n_rows:
            with self._file.open("rb") as file:
                os.fsync(file.fileno())

    def _header(self, n_rows: int) -> bytes:
        text, shape = BytesIO(), (n_rows, *self._tail)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(text, header)
        return text.getvalue()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without unused memory and the map, which would be copied."""
        kept = {**self.__dict__, "_map": None, "_buffer": self._buffer[: self.n_rows]}
        del kept["_hash"], kept["_n_hashed"]
        return kept

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restart the digest, since hashes cannot be pickled."""
        self.__dict__.update(state, _hash=hashlib.sha256(), _n_hashed=0)

    @property
    def rows(self) -> np.ndarray:
        """All rows, as a read-only view of memory or a memory map of the file.

        Raises
        ------
        ValueError
            If another stream has written to the file, or if the file has lost rows.
        """
        if self._path is not None and self.n_rows:
            # Reopen the map only if rows were added.
            if self._map is None or len(self._map) < self.n_rows:
                self._map = self._open_map(self._file)
            return self._map[: self.n_rows]
        view = self._buffer[: self.n_rows]
        view.flags.writeable = False
        return view

    def _open_map(self, path: Path) -> np.ndarray:
        try:
            rows: np.ndarray = np.load(path, mmap_mode="r")
        finally:
            if self.folder is not None:  # last, since files may change while opening
                self.folder.check()
        if len(rows) < self.n_rows:
            raise _lost(path, self.n_rows, f"it contains {len(rows)}", "call fit again")
        return rows


def _lost(path: Path | None, n_rows: int, fault: str, cure: str) -> ValueError:
    required = f"must still contain the {n_rows} rows written to it"
    return ValueError(f"{path} {required}, but {fault}; {cure}")
