"""Named arrays and a description in one file, written atomically and checked.

The format is safetensors: eight bytes with the length of a JSON header, the header, and
the numbers. Other tools can read such files, and reading them never runs code. The
safetensors library can only write arrays in memory, so this module writes them block by
block.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from sklearn_mdl._core.io.formats import KEY, check_format, format_of
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.io.whole_files import replaced
from sklearn_mdl._core.validation import damaged

ABOUT = f"{KEY}.about"
DIGEST = f"{KEY}.sha256"
BLOCK = 2**24  # bytes written or read at a time

TYPES = "F64", "F32", "F16", "I64", "I32", "U8", "BOOL"
_DTYPES = "<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "|b1"  # as NumPy calls them
_CODES = dict(zip(TYPES, _DTYPES, strict=True))
_NAMES = {code: name for name, code in _CODES.items()}
CURE = "save it again, or delete it to begin again"
# Raised for invalid headers and descriptions, such as deeply nested ones.
_UNREADABLE = (
    *(SafetensorError, ValueError, TypeError, KeyError, OverflowError),
    RecursionError,
)


def write_archive(
    path: Path, kind: str, arrays: Mapping[str, np.ndarray], about: Mapping[str, object]
) -> None:
    """Write arrays and a description atomically, so readers never see a partial file.

    Parameters
    ----------
    path : Path
    kind : str
        A key of ``FORMATS``.
    arrays : mapping of str to ndarray
        Arrays of any shape, possibly memory-mapped.
    about : mapping
        Any JSON data.

    Raises
    ------
    OSError
        If the disk is full or the folder is missing. An existing file is kept.
    """
    entries: dict[str, Json] = {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        dtype, shape = _NAMES[_code(array)], list(array.shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    content = {"about": about, "tensors": entries, "sha256": _checksum(arrays)}
    metadata = {KEY: format_of(kind), ABOUT: json.dumps(content)}
    metadata[DIGEST] = _digest_of(metadata)
    header = json.dumps({"__metadata__": metadata, **entries}).encode()
    header += b" " * (-len(header) % 8)  # numbers then begin at a multiple of 8
    with replaced(path) as aside, aside.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.writelines(_blocks(arrays))
        file.flush()
        os.fsync(file.fileno())


def _digest_of(metadata: Mapping[str, str]) -> str:
    return hashlib.sha256((metadata[KEY] + metadata[ABOUT]).encode()).hexdigest()


def _code(array: np.ndarray) -> str:
    return array.dtype.newbyteorder("<").str


def storable(array: np.ndarray) -> np.ndarray:
    """Return an array unchanged, or as float64 if an archive cannot hold its type."""
    return array if _code(array) in _NAMES else array.astype(np.float64)


def _blocks(arrays: Mapping[str, np.ndarray]) -> Iterator[memoryview]:
    """Yield the bytes of arrays in blocks, in the order of their rows."""
    for given in arrays.values():
        array = given if given.ndim else given[None]
        step = max(1, BLOCK // max(1, array[:1].nbytes))
        n_rows = 0 if 0 in array.shape else len(array)  # files can claim empty rows
        for start in range(0, n_rows, step):
            part = array[start : start + step]
            yield np.ascontiguousarray(part, dtype=_code(array)).view(np.uint8).data


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for block in _blocks(arrays):
        digest.update(block)
    return digest.hexdigest()


def read_archive(
    path: Path, kind: str, cure: str = CURE
) -> tuple[dict[str, np.ndarray], Json]:
    """Read a file written by :func:`write_archive`.

    Parameters
    ----------
    path : Path
    kind : str
    cure : str
        What to do about a damaged file, for messages.

    Returns
    -------
    arrays : dict of str to ndarray
        Read-only memory maps of the file, except for single numbers and empty arrays.
    about : dict

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    NewerFormat
        If a later version of this package wrote the file.
    ValueError
        If the file is of another kind or program, or is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} must exist, but does not; check the path")
    required = "arrays saved by sklearn_mdl"
    with readable(path, required, cure, *_UNREADABLE):
        metadata, entries, start = read_head(path)
        unknown = {entry["dtype"] for entry in entries.values()} - set(_CODES)
        if unknown:
            raise ValueError(f"unknown types {', '.join(sorted(unknown))}")
        if not {KEY, ABOUT, DIGEST} <= metadata.keys():
            raise damaged(path, required, "it holds other tensors", "pass another path")
        check_format(path, kind, metadata)
        if _digest_of(metadata) == metadata[DIGEST]:
            content = json.loads(metadata[ABOUT])
            arrays = {n: mapped(path, entry, start) for n, entry in entries.items()}
            whole = content["tensors"] == entries and _is_as_written(path, start)
            if whole and content["sha256"] == _checksum(arrays):
                return arrays, content["about"]
    raise damaged(path, required, "its checksum differs", cure)


def _is_as_written(path: Path, start: int) -> bool:
    """Return False if the header contains what it should, but in another layout."""
    with path.open("rb") as file:
        header = file.read(start)[8:]
    return json.dumps(json.loads(header)).encode() == header.rstrip(b" ")


def is_archive(path: Path) -> bool:
    """Return True for a file with a header that :func:`write_archive` wrote."""
    try:
        return KEY in read_head(path)[0]
    except (*_UNREADABLE, OSError):
        return False


def read_some(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Memory-map some arrays of a file that this package wrote, without checks."""
    _, entries, start = read_head(path)
    return {name: mapped(path, entries[name], start) for name in names}


def read_head(path: Path) -> tuple[dict[str, str], dict[str, Json], int]:
    """Return metadata, the entries of all arrays, and the offset of their numbers."""
    with safe_open(path, framework="numpy") as archive:  # checks header and offsets
        metadata = archive.metadata() or {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
    entries.pop("__metadata__", None)
    ordered = sorted(entries.items(), key=lambda item: item[1]["data_offsets"])
    return metadata, dict(ordered), 8 + length


def mapped(path: Path, entry: Json, start: int) -> np.ndarray:
    """Memory-map an array read-only; ``start`` is the offset from :func:`read_head`."""
    code, shape = _CODES[entry["dtype"]], tuple(entry["shape"])
    if 0 in shape:  # nothing to map
        return np.empty(shape, dtype=code)
    offset = start + entry["data_offsets"][0]
    return np.memmap(path, dtype=code, mode="r", offset=offset, shape=shape)
