"""Losses to and from files: a ``.npy`` with its ``.json``, or a ``.safetensors``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from safetensors import SafetensorError

from sklearn_mdl.archives import KEY, head_of, mapped, read_head, replaced
from sklearn_mdl.stored_losses.contents import (
    FORMAT,
    StoredLosses,
    described,
    description,
)

TENSOR = "losses"

# Types that losses are written in, and those that a tensor may come in.
_TYPES = {"float64": ("<f8", "F64"), "float32": ("<f4", "F32")}
_TENSOR_TYPES = ("F64", "F32", "F16")


def save_losses(
    path: str | Path, losses: StoredLosses | Any, *, dtype: str = "float64"
) -> list[Path]:
    """Write losses to a file, from which they can be mixed without training again.

    Parameters
    ----------
    path : path-like
        Ends in ``.npy``, which puts what is known of the readouts into a ``.json`` of
        the same stem beside it, or in ``.safetensors``, one file with the tensor
        "losses" and the same JSON in its metadata under "sklearn_mdl". The folder must
        be there; a file of that name is replaced.
    losses : StoredLosses or array-like of shape (N, K)
        In nats. Read by blocks of rows, so it may be a memory map larger than memory.
    dtype : {"float64", "float32"}, default="float64"
        The type to store: half the room, or the very bits of the walk.

    Returns
    -------
    paths : list of Path
        The files written.

    Raises
    ------
    FileNotFoundError
        If the folder is missing.
    ValueError
        If the path has another suffix, a JSON that is none of ours stands where the
        description belongs, ``dtype`` is another, or bare losses are no array that
        :class:`~sklearn_mdl.StoredLosses` takes.

    Notes
    -----
    Files are written under another name and put in place when they are whole. The
    description of what stood there before goes first and the new one comes last: broken
    off between, losses stand there bare, but never with another's names.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.3 (second stage).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl import StoredLosses, load_losses, save_losses
    >>> stored = StoredLosses(np.ones((5, 2)), ["linear", "mlp 1x8"])
    >>> [path.name for path in save_losses("losses.npy", stored)]
    ['losses.npy', 'losses.json']
    >>> load_losses("losses.npy").readouts
    ['linear', 'mlp 1x8']
    """
    path = check_losses_path(path)
    if not isinstance(losses, StoredLosses):
        losses = StoredLosses(losses)
    if dtype not in _TYPES:
        raise ValueError(
            f"dtype must be one of {list(_TYPES)}, got {dtype!r}; name one of these"
        )
    save = _save_npy if path.suffix == ".npy" else _save_safetensors
    return save(path, losses, dtype)


def load_losses(path: str | Path) -> StoredLosses:
    """Open a file of losses, to mix them under any switching prior.

    Parameters
    ----------
    path : path-like
        What :func:`~sklearn_mdl.save_losses` has written, or the ``losses.npy`` of a
        switcher's ``store``, also while it walks: there come the rows written so far.
        A bare ``.npy`` of shape (N, K), or a ``.safetensors`` with a tensor "losses",
        will do as well; names are then "readout 0" and so on, and architectures are
        None.

    Returns
    -------
    stored : StoredLosses
        Its ``losses``, in nats, are a read-only memory map of shape (N, K).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is of another kind or unreadable, or if its description is another
        file's, or of a version to come.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.3 (second stage).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl import forward, load_losses
    >>> np.save("bare.npy", np.log([[2.0, 4.0], [2.0, 1.0]]))
    >>> stored = load_losses("bare.npy")
    >>> stored.readouts, stored.architectures
    (['readout 0', 'readout 1'], None)
    >>> round(forward("bayes", stored.losses, stored.weights).codelength, 3)
    1.386
    """
    path = _checked_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"A file of losses must exist, got {str(path)!r}, which is no file; check "
            "the path"
        )
    try:
        losses, text = _READERS[path.suffix](path)
        return described(losses, text)
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} must hold losses, and its description must be theirs, got: "
            f"{error}; write both again with save_losses, or remove what is not theirs"
        ) from error


def check_losses_path(path: str | Path) -> Path:
    """Return the path if losses can be written there; raises as `save_losses`."""
    path = _checked_suffix(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"Losses must be written to a folder that is there, got {str(path)!r}; "
            "make the folder first"
        )
    for file in (path, path.with_suffix(".json")):
        if file.is_dir():
            raise ValueError(
                f"Losses must be written to a file, got {str(file)!r}, which is a "
                "folder; choose another name"
            )
    if path.suffix == ".npy" and not _is_ours_or_free(path.with_suffix(".json")):
        raise ValueError(
            f"{path} needs {path.with_suffix('.json').name} for its description, but a "
            "file of another kind has that name; choose another name"
        )
    return path


def _checked_suffix(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in _READERS:
        raise ValueError(
            f"A file of losses must end in {' or '.join(_READERS)}, got {str(path)!r}; "
            "choose one of these"
        )
    return path


def _is_ours_or_free(sidecar: Path) -> bool:
    if not sidecar.exists():
        return True
    try:
        found = json.loads(sidecar.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


# Writing


def _save_npy(path: Path, stored: StoredLosses, dtype: str) -> list[Path]:
    code, sidecar = _TYPES[dtype][0], path.with_suffix(".json")
    head = io.BytesIO()
    shape = stored.losses.shape
    about = {"descr": code, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, about)
    text = description(stored, dtype).encode()
    with replaced(sidecar) as new_sidecar, replaced(path) as new_losses:
        _write(new_losses, head.getvalue(), _rows(stored, code))
        _write(new_sidecar, text)
        sidecar.unlink(missing_ok=True)  # losses take their place first
    return [path, sidecar]


def _save_safetensors(path: Path, stored: StoredLosses, dtype: str) -> list[Path]:
    code, name = _TYPES[dtype]
    shape = list(stored.losses.shape)
    end = int(np.prod(shape, dtype=np.int64)) * np.dtype(code).itemsize
    entry = {"dtype": name, "shape": shape, "data_offsets": [0, end]}
    head = head_of({KEY: description(stored, dtype)}, {TENSOR: entry})
    with replaced(path) as new_losses:
        _write(new_losses, head, _rows(stored, code))
    return [path]


def _rows(stored: StoredLosses, code: str) -> Iterator[memoryview]:
    for block in stored.blocks():
        yield np.ascontiguousarray(block, dtype=code).data


def _write(path: Path, head: bytes, rows: Iterable[memoryview] = ()) -> None:
    with path.open("xb") as file:
        file.write(head)
        for block in rows:
            file.write(block)


# Reading

# What comes of damaged files; numpy lets the last one through from a .npy header.
_UNREADABLE = (ValueError, TypeError, EOFError, SafetensorError, TokenError)


def _read_npy(path: Path) -> tuple[np.ndarray, str | None]:
    sidecar = path.with_suffix(".json")
    text = _text(sidecar)
    losses = np.lib.format.open_memmap(path, mode="r")
    if _text(sidecar) != text:
        raise ValueError("losses that were being replaced by others")
    return losses, text


def _text(sidecar: Path) -> str | None:
    return sidecar.read_text(encoding="utf-8") if sidecar.is_file() else None


def _read_safetensors(path: Path) -> tuple[np.ndarray, str | None]:
    metadata, entries, start = read_head(path)
    if TENSOR not in entries:
        raise ValueError(f"the tensors {sorted(entries)} and none called {TENSOR!r}")
    found = entries[TENSOR]["dtype"]
    if found not in _TENSOR_TYPES:
        raise ValueError(f"numbers of type {found}, none of {', '.join(_TENSOR_TYPES)}")
    return mapped(path, entries[TENSOR], start), metadata.get(KEY)


_READERS: dict[str, Callable[[Path], tuple[np.ndarray, str | None]]] = {
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
}
