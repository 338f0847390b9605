"""Cells in a directory: one JSON each and its trace, whole or not there.

The trace is written first, and the JSON, whose name says what it follows from, last:
a cell is there as soon as its JSON is, and a process that is killed leaves none by
halves. Whoever asks for a cell of other settings, data or versions asks for another
name.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from sklearn_mdl.archives import read_archive, replaced, write_archive
from sklearn_mdl.representation.cells import Cell, Task, Trace
from sklearn_mdl.representation.identity import (
    digest_of,
    identity_of,
    settings_of_cells,
    versions,
)
from sklearn_mdl.representation.naming import stem_of
from sklearn_mdl.representation.records import MOST_BYTES, cell_of, text_of

ARRAYS = Trace._fields


class TraceFile(NamedTuple):
    """A trace that lies in a file."""

    path: Path
    key: str

    def read(self) -> Trace:
        """Return the trace.

        Raises
        ------
        FileNotFoundError
            If the file is gone.
        ValueError
            If it is damaged, or of another cell.
        """
        arrays, about = read_archive(self.path)
        if about != {"key": self.key} or arrays.keys() != set(ARRAYS):
            raise ValueError(f"{self.path} must be the trace of its cell, got another")
        return Trace(*(arrays[name] for name in ARRAYS))


class CellStore:
    """The cells of a ranking in a directory.

    Parameters
    ----------
    folder : Path
        Made with the first cell.
    switcher : MDLReadoutSwitcher
        Its settings are part of what a cell follows from.

    Raises
    ------
    TypeError
        If a setting of the switcher cannot be written down.
    """

    def __init__(self, folder: Path, switcher: Any) -> None:
        self.folder = folder
        self._settings = settings_of_cells(switcher)
        self._versions = versions()

    def path_of(self, task: Task) -> Path:
        """Return the place of the JSON of a cell; its trace lies beside it."""
        return self._place(task, digest_of(self._identity(task)))

    def _place(self, task: Task, key: str) -> Path:
        stem = stem_of(task.dataset, task.encoder, task.order, key=key)
        return self.folder / f"{stem}.json"

    def _identity(self, task: Task) -> dict[str, Any]:
        return identity_of(task, self._settings, self._versions)

    def load(self, task: Task) -> Cell | None:
        """Return a cell if it is there, whole, and follows from this very task.

        What is damaged is told with a warning.
        """
        identity = self._identity(task)
        key = digest_of(identity)
        path = self._place(task, key)
        source = TraceFile(path.with_suffix(".safetensors"), key)
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            cell = cell_of(text, identity, source)
            n_samples = len(source.read().codelengths)
            if n_samples != cell.n_samples:
                raise ValueError(f"its trace is of {n_samples} examples")
        except (ValueError, FileNotFoundError) as error:
            warnings.warn(
                f"{path} must be a whole cell, but {error}; it is walked anew",
                UserWarning,
                stacklevel=2,
            )
            return None
        return cell

    def save(self, task: Task, cell: Cell) -> Cell:
        """Write a cell down, and return it with its trace in the file.

        Raises
        ------
        OSError
            If the disk is full; a cell that stood there still does.
        """
        identity = self._identity(task)
        key = digest_of(identity)
        path = self._place(task, key)
        source = TraceFile(path.with_suffix(".safetensors"), key)
        text = text_of(cell, identity)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_archive(source.path, cell.source.read()._asdict(), {"key": key})
        with replaced(path) as aside, aside.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return cell_of(text, identity, source)
