"""What a walk leaves behind: every readout's loss at every example, and their reading.

In memory, or in ``.npy`` files that grow on disk, since ``N x K`` can be larger than
memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np


class GrowingArray:
    """Rows of float64 that are appended, never changed.

    Parameters
    ----------
    width : int or None
        Numbers in a row; None for a plain vector.
    path : Path or None
        A ``.npy`` file to keep them in; None keeps them in memory.
    """

    def __init__(self, width: int | None, path: Path | None = None) -> None:
        self.width = width
        self.path = path
        self.n_rows = 0
        self._tail = () if width is None else (width,)
        self._buffer = np.empty((0, *self._tail))

    def append(self, rows: np.ndarray) -> None:
        """Add rows, shape (n,) or (n, width)."""
        if self.path is None:
            self._append_in_memory(rows)
        else:
            self._append_on_disk(self.path, rows)
        self.n_rows += len(rows)

    def _append_in_memory(self, rows: np.ndarray) -> None:
        stop = self.n_rows + len(rows)
        if stop > len(self._buffer):  # double the room: appending stays linear
            room = np.empty((max(stop, 2 * len(self._buffer)), *self._tail))
            room[: self.n_rows] = self._buffer[: self.n_rows]
            self._buffer = room
        self._buffer[self.n_rows : stop] = rows

    def _append_on_disk(self, path: Path, rows: np.ndarray) -> None:
        # numpy pads the header of a .npy file so that the first axis may grow in place.
        if not self.n_rows:
            path.unlink(missing_ok=True)  # an old map of the file keeps its rows
        with path.open("r+b" if self.n_rows else "x+b") as file:
            self._write_header(file, self.n_rows)
            end = file.tell() + self.n_rows * rows[:1].nbytes
            if self.n_rows and file.seek(0, 2) != end:
                raise ValueError(
                    f"{path} must hold the {self.n_rows} rows of this stream alone, "
                    "but another stream has written to it; give each its own store"
                )
            file.seek(end)
            file.write(np.ascontiguousarray(rows, dtype="<f8").data)
            file.seek(0)
            self._write_header(file, self.n_rows + len(rows))

    def _write_header(self, file, n_rows: int) -> None:
        header = {
            "descr": "<f8",
            "fortran_order": False,
            "shape": (n_rows, *self._tail),
        }
        np.lib.format.write_array_header_1_0(file, header)

    @property
    def rows(self) -> np.ndarray:
        """All rows: a read-only view of memory, or a memory map of the file."""
        if self.path is not None and self.n_rows:
            found = np.load(self.path, mmap_mode="r")
            return found[: self.n_rows]
        view = self._buffer[: self.n_rows]
        view.flags.writeable = False
        return view


class PrequentialTrace:
    """Losses, codelengths and posterior of a walk, all in nats and by example.

    Parameters
    ----------
    n_readouts : int
        Number ``K`` of readouts.
    store : "memory" or path-like
        A directory for ``losses.npy`` and ``posterior.npy``, or "memory".

    Attributes
    ----------
    losses : ndarray of shape (N, K)
        ``-log p_k(y_t | past)``.
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | past)`` of the mixture.
    posterior : ndarray of shape (N, K)
        ``p(readout at t | labels before t)``.
    description : str or None
        Text that says whose losses these are; it stands in ``losses.json`` from the
        first row on.
    """

    def __init__(self, n_readouts: int, store: str = "memory") -> None:
        self.description: str | None = None
        self._folder = folder = None if store == "memory" else Path(store)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._losses = GrowingArray(n_readouts, folder and folder / "losses.npy")
        self._posterior = GrowingArray(n_readouts, folder and folder / "posterior.npy")
        self._codelengths = GrowingArray(None)

    def __len__(self) -> int:
        """Return the number of examples."""
        return self._codelengths.n_rows

    def append(
        self, losses: np.ndarray, codelengths: np.ndarray, posterior: np.ndarray
    ) -> None:
        """Add a segment: losses (n, K), codelengths (n,) and posterior (n, K)."""
        if self._folder is not None and not len(self):
            self._describe(self._folder)
        self._losses.append(losses)
        self._posterior.append(posterior)
        self._codelengths.append(codelengths)

    def _describe(self, folder: Path) -> None:
        # Losses of an earlier stream go first: they never stand under another's names.
        (folder / "losses.npy").unlink(missing_ok=True)
        sidecar = folder / "losses.json"
        sidecar.unlink(missing_ok=True)
        if self.description is not None:
            sidecar.write_text(self.description, encoding="utf-8")

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
