"""Arrays that grow row by row: in memory, or in ``.npy`` files on disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np


class GrowingArray:
    """Rows of numbers that are appended, never changed.

    Parameters
    ----------
    width : int or None
        Numbers in a row; None for a plain vector.
    path : Path or None
        A ``.npy`` file to keep them in; None keeps them in memory.
    dtype : str, default="<f8"
        As numpy writes it.
    """

    def __init__(
        self, width: int | None, path: Path | None = None, *, dtype: str = "<f8"
    ) -> None:
        self.width = width
        self.path = path
        self.dtype = np.dtype(dtype)
        self.n_rows = 0
        self._tail = () if width is None else (width,)
        self._buffer = np.empty((0, *self._tail), self.dtype)
        self._map: np.ndarray | None = None

    def reserve(self, n_rows: int) -> None:
        """Make room for so many more rows, which then need not be moved again."""
        n_places = self.n_rows + n_rows
        if self.path is None and n_places > len(self._buffer):
            # Twice as much at least: so rows are moved a few times each, all in all.
            n_places = max(n_places, 2 * len(self._buffer))
            room = np.empty((n_places, *self._tail), self.dtype)
            room[: self.n_rows] = self._buffer[: self.n_rows]
            self._buffer = room

    def append(self, rows: np.ndarray) -> None:
        """Add rows, shape (n,) or (n, width)."""
        if self.path is None:
            self.reserve(len(rows))
            self._buffer[self.n_rows : self.n_rows + len(rows)] = rows
        else:
            self._append_on_disk(self.path, rows)
        self.n_rows += len(rows)

    def _append_on_disk(self, path: Path, rows: np.ndarray) -> None:
        # numpy pads the header of a .npy file so that the first axis may grow in place.
        if not self.n_rows:
            path.unlink(missing_ok=True)  # an old map of the file keeps its rows
        with path.open("r+b" if self.n_rows else "x+b") as file:
            self._write_header(file, self.n_rows)
            end = file.tell() + self.n_rows * self._row_bytes
            if self.n_rows and file.seek(0, 2) != end:
                raise ValueError(
                    f"{path} must hold the {self.n_rows} rows of this stream alone, "
                    "but another stream has written to it; give each its own store"
                )
            file.seek(end)
            file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
            file.seek(0)
            self._write_header(file, self.n_rows + len(rows))

    def cut(self, n_rows: int) -> None:
        """Forget all rows but the first ``n_rows``."""
        if self.path is not None and n_rows < self.n_rows:
            self._map = None
            with self.path.open("r+b") as file:
                self._write_header(file, n_rows)
                file.truncate(file.tell() + n_rows * self._row_bytes)
        self.n_rows = n_rows

    def adopt(self, n_rows: int) -> None:
        """Take the first rows that its file holds for its own, and forget the others.

        Raises
        ------
        ValueError
            If there is no such file, or if it does not hold so many rows of this kind.
        """
        found = self.count_left()
        if found is None or found < n_rows:
            held = "no such array" if found is None else f"{found}"
            raise ValueError(
                f"{self.path} must still hold the {n_rows} rows that were written to "
                f"it, but it holds {held}; begin again"
            )
        self.n_rows = found + 1  # so that a torn row after the last is cut off, too
        self.cut(n_rows)

    def count_left(self) -> int | None:
        """Count the whole rows in its file; None where there are none of this kind."""
        path = self.path
        if path is None or not path.is_file():
            return None
        # Of damaged headers numpy lets the last one through.
        with path.open("rb") as file, suppress(ValueError, TokenError):
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            n_whole = (path.stat().st_size - file.tell()) // self._row_bytes
            if (shape[1:], dtype) == (self._tail, self.dtype):
                return min(int(shape[0]), n_whole)
        return None

    def secure(self) -> None:
        """See that the rows are on the disk, and outlive a loss of power."""
        if self.path is not None and self.n_rows:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def _write_header(self, file: BinaryIO, n_rows: int) -> None:
        shape = (n_rows, *self._tail)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * (1 if self.width is None else self.width)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the map, which would be copied, and room that holds no rows."""
        return {**self.__dict__, "_map": None, "_buffer": self._buffer[: self.n_rows]}

    @property
    def rows(self) -> np.ndarray:
        """All rows: a read-only view of memory, or a memory map of the file."""
        if self.path is not None and self.n_rows:
            # A map is opened again when rows were added, not at every access.
            if self._map is None or len(self._map) < self.n_rows:
                self._map = np.load(self.path, mmap_mode="r")
            return self._map[: self.n_rows]
        view = self._buffer[: self.n_rows]
        view.flags.writeable = False
        return view
