"""Storage of a ranking's cells in files, written atomically and checked when read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_origin, get_type_hints

from sklearn_mdl._core.io.formats import KEY, NewerFormat, check_format, with_format
from sklearn_mdl._core.io.safetensors_io import write_archive
from sklearn_mdl._core.io.whole_files import replaced
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.model_selection._cells import NOT_IN_JSON, Cell, Trace, TraceFile
from sklearn_mdl.model_selection._file_names import DIGITS, stem_of
from sklearn_mdl.model_selection._tasks import (
    Switcher,
    Task,
    canonical,
    default_terms,
    digest_of,
    settings_of_cells,
    versions,
)
from sklearn_mdl.readouts import Terms, grouped

MOST_BYTES = 2**26  # maximum length of a cell's JSON

_KINDS = {
    name: get_origin(kind) or kind
    for name, kind in get_type_hints(Cell).items()
    if name not in NOT_IN_JSON
}


def text_of(cell: Cell, identity: Mapping[str, object]) -> bytes:
    """Return a cell as JSON: its results (`Cell.kept`), its identity and a checksum."""
    kept = cell.kept()
    if math.isnan(cell.accuracy):  # NaN is not JSON
        kept["accuracy"] = None
    kept["readouts"] = {
        name: nats if math.isfinite(nats) else repr(nats)  # infinity is not JSON
        for name, nats in cell.readouts.items()
    }
    content = with_format("cell", {"identity": identity, "cell": kept})
    whole = {"sha256": digest_of(content), **content}
    return (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()


def cell_of(
    text: bytes,
    identity: Mapping[str, object],
    source: Trace | TraceFile,
    where: object = "it",
) -> Cell:
    """Return the cell from the JSON that :func:`text_of` returned.

    Parameters
    ----------
    text : bytes
    identity : mapping
        Identity of the expected cell.
    source : Trace or TraceFile
        The trace, or its file.
    where : path-like or str, default="it"
        Name of the text in the message if a later version wrote it.

    Raises
    ------
    NewerFormat
        If a later version of this package wrote the text.
    ValueError
        If the text is damaged or describes another cell.
    """
    content = _content(text, where)
    if canonical(content["identity"]) != canonical(identity):
        raise ValueError("it describes another cell")
    kept = content["cell"]
    if not isinstance(kept, dict) or kept.keys() != _KINDS.keys():
        raise ValueError("its entries differ from those of a cell")
    if kept["accuracy"] is None:
        kept["accuracy"] = math.nan
    for name, kind in _KINDS.items():
        if not isinstance(kept[name], kind) or isinstance(kept[name], bool):
            raise ValueError(f"its {name} is {kept[name]!r}")
    for name, nats in kept["readouts"].items():
        if not isinstance(nats, float) and nats not in ("inf", "-inf", "nan"):
            raise ValueError(f"its readout {name!r} has {nats!r} nats")
    readouts = {name: float(nats) for name, nats in kept["readouts"].items()}
    return Cell(**{**kept, "readouts": readouts}, source=source)


def _content(text: bytes, where: object) -> dict[str, object]:
    if len(text) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    try:
        content = json.loads(text)
        canonical(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict) or KEY not in content:
        raise ValueError("it is not the record of a cell")
    check_format(where, "cell", content)
    if content.keys() != {"sha256", KEY, "identity", "cell"}:
        raise ValueError("it is not the record of a cell")
    checksum = content.pop("sha256")
    if digest_of(content) != checksum:
        raise ValueError("its checksum does not match")
    return content


def _other_terms(path: Path, identity: Mapping[str, object]) -> Terms | None:
    """Return the ``terms`` of a stored cell if the rest of its identity is the same.

    Return None if the rest differs, if the file is unreadable, or if the user gave a
    list of readouts.
    """
    try:
        with path.open("rb") as file:
            stored = _content(file.read(MOST_BYTES + 1), path)["identity"]
    except (ValueError, OSError):  # reported when the cell itself is needed
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("terms"), dict):
        return None
    rest, own = (canonical({**each, "terms": None}) for each in (stored, identity))
    return Terms.from_json(stored["terms"]) if rest == own else None


class CellStore:
    """A directory with the cells of a ranking.

    Parameters
    ----------
    folder : Path
        The directory, which is created when the first cell is saved.
    *switchers : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
        Switchers of different classes. The identity of a cell includes the settings of
        the switcher that has the same class as the switcher of the cell's task.

    Raises
    ------
    TypeError
        If a setting of a switcher cannot be written to JSON.
    NotADirectoryError
        If the path or one of its parents exists but is not a directory.
    """

    def __init__(self, folder: Path, *switchers: Switcher) -> None:
        places = folder, *folder.parents
        if files := [p for p in places if os.path.lexists(p) and not p.is_dir()]:
            raise NotADirectoryError(
                f"Cells must be kept in a directory, but {files[0]} is a file; pass "
                "another results=FOLDER (--out FOLDER)"
            )
        self.folder = folder
        self._shared = {
            type(each): {"settings": settings_of_cells(each), "versions": versions()}
            for each in switchers
        }

    def entry(self, task: Task) -> tuple[dict[str, object], Path, TraceFile]:
        """Return the identity of a cell, the path of its JSON, and its trace file.

        The names of both files contain the digest of the identity.
        """
        identity = task.identity(self._shared[type(task.switcher)])
        key = digest_of(identity)
        stem = stem_of(task.dataset, task.encoder, task.order, key=key)
        path = self.folder / f"{stem}.json"
        return identity, path, TraceFile(path.with_suffix(".safetensors"), key)

    def load(self, task: Task) -> Cell | None:
        """Return the stored cell of a task, or None if there is none.

        If the cell's files are damaged or unreadable, warn and return None.

        Raises
        ------
        NewerFormat
            If a later version of this package wrote the cell.
        IsADirectoryError
            If a directory has the name of one of the cell's files.
        """
        identity, path, source = self.entry(task)
        for place in (path, source.path):
            if place.is_dir():
                raise IsADirectoryError(
                    f"{place} must be a file of a cell, but it is a directory; rename "
                    "or delete it"
                )
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
            cell = cell_of(text, identity, source, path)
            n_samples = len(source.read().codelengths)
            if n_samples != cell.n_samples:
                raise ValueError(f"its trace has {n_samples} examples")
        except NewerFormat:
            raise
        except (ValueError, OSError) as error:
            if not os.path.lexists(path):
                return None
            reason = str(error).rpartition("; ")[0] or error  # without the cure
            warn_caller(f"Running cell {path} again, since it is damaged: {reason}")
            return None
        return cell

    def warn_of_other_terms(self, tasks: Sequence[Task]) -> None:
        """Warn about stored cells that cannot be reused because their readouts differ.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks whose cells are missing.
        """
        paths = self.folder.glob("*.json")
        kept = grouped((path.stem[: -DIGITS - 1], path) for path in paths)
        changes: dict[tuple[str, Terms], list[Terms]] = {}
        for task in tasks:
            identity, own, _ = self.entry(task)
            others = kept.get(own.stem[: -DIGITS - 1], ())
            # A user's list is part of the settings. `load` warns of a damaged cell.
            if task.readouts is None or own in others:
                continue
            now = default_terms(*task.readouts)[0]
            stored = [t for p in others if (t := _other_terms(p, identity))]
            if stored and stored[0] != now:
                changes.setdefault((task.dataset, now), []).append(stored[0])
        for (dataset, now), was in changes.items():
            warn_caller(
                f"On {dataset!r}, stored cells with other readouts ({was[0]}) are run "
                f"again ({len(was)} in all), since all encoders must have {now}"
            )

    def save(self, task: Task, cell: Cell) -> Cell:
        """Write a cell to files, and return a copy that reads its trace from the file.

        Raises
        ------
        OSError
            If a file cannot be written, for example because the disk is full.
        """
        identity, path, source = self.entry(task)
        text = text_of(cell, identity)
        self.folder.mkdir(parents=True, exist_ok=True)
        arrays = cell.source.read()._asdict()
        write_archive(source.path, "trace", arrays, {"key": source.key})
        with replaced(path) as aside, aside.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return cell_of(text, identity, source)
