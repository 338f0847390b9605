"""HDF5 files with embeddings by id and a table of labels, and AnnData files.

Protein tools write one HDF5 dataset of shape (d,) for each sequence. The key of this
dataset is the sequence's id. If the key is a hash, the attribute ``original_id`` has
the id. AnnData files have an array for each encoder in ``obsm``, and labels in ``obs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack_from
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.datasets._files import MOST_TO_ONE
from sklearn_mdl.datasets._readers import parts
from sklearn_mdl.datasets._readers.text_tables import read_csv

if TYPE_CHECKING:
    import h5py

SUFFIXES = (".h5", ".hdf5")
RECREATE = "recreate the file with h5py, or with adata.write_h5ad(path)"
HEAP = b"GCOL\1\0\0\0"  # signature of a heap, which stores strings


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file, and name it in errors raised while it is read."""
    library = needed("h5py", "load_representations", "readers")
    with readable(path, "HDF5", RECREATE, OSError, ValueError):
        _check_heaps(path)
        file: h5py.File = library.File(path, "r")
    with readable(path, "plain arrays", RECREATE, Exception), file:
        _check_links(file, path.parent, [path])
        yield file


def _check_links(file: h5py.File, folder: Path, known: list[Path]) -> None:
    """Raise an error for links to missing files or out of the folder, recursively."""
    library, names = needed("h5py", "load_representations", "readers"), []

    def note(name: bytes, info: Any) -> None:
        if info.type == library.h5l.TYPE_EXTERNAL:
            names.append(name)

    file.id.links.visit(note, info=True)
    for name in names:
        path = parts.named_in(folder, file.get(name, getlink=True).filename, known[-1])
        if not path.is_file():  # libhdf5 would look for it in the working directory
            raise FileNotFoundError(
                f"{path} must exist, since {file.filename} links to it; copy the file"
            )
        if path not in known:
            with library.File(path, "r") as linked:
                _check_links(linked, folder, [*known, path])


def _check_heaps(path: Path) -> None:
    """Raise ValueError for a heap entry of 0 bytes, on which libhdf5 loops forever."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        start = content.find(HEAP)
        while 0 <= start <= len(content) - 16:
            place = start + 16
            end = min(start + unpack_from("<Q", content, start + 8)[0], len(content))
            while place + 16 <= end:
                index, size = unpack_from("<H6xQ", content, place)
                # Index 0 marks free space, whose size includes the 16 bytes read here.
                step = (16 + (size + 7) // 8 * 8) % 2**64 if index else size
                if not step:
                    raise ValueError(f"a heap entry of 0 bytes at byte {place}")
                place += step
            start = content.find(HEAP, start + 1)


def _read(item: h5py.Dataset) -> np.ndarray:
    """Read an array, or raise ValueError if the file cannot contain all of it."""
    _check_size(item)
    return np.asarray(item.asstr()[()] if item.dtype.kind == "O" else item[()])


def _check_size(item: h5py.Dataset) -> None:
    home = Path(item.file.filename)
    if item.is_virtual or item.external:
        fault, cure = f"{item.name} is in other files", "copy it into this file"
        raise damaged(home, "the arrays that it names", fault, cure)
    stored = min(item.id.get_storage_size(), home.stat().st_size)
    n_bytes = item.size * item.dtype.itemsize
    if n_bytes > MOST_TO_ONE * stored:
        fault = f"{item.name} needs {n_bytes} bytes and has {stored}"
        raise damaged(home, "the arrays that it names", fault, RECREATE)


# Embeddings by id


def read_by_id(path: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read the embeddings in a file, or in all files of a folder, and their labels."""
    wanted.refuse(path, "splits")
    folder, files = path.parent, [path]
    if path.is_dir():
        folder, files = path, sorted(f for f in path.iterdir() if f.suffix in SUFFIXES)
    table = _labels_file(path, folder)
    columns = read_csv(table)
    key = next(name for name in (*parts.ID_NAMES, *columns) if name in columns)
    column = parts.label_column([n for n in columns if n != key], wanted, table)
    labels = dict(zip(columns[key], parts.parsed(columns[column], table), strict=True))
    groups = None
    if wanted.groups is not None:
        groups = dict(zip(columns[key], columns[wanted.groups], strict=True))
    if len(labels) < len(columns[key]):
        fault = f"{len(columns[key]) - len(labels)} rows repeat an id"
        raise damaged(table, f"distinct ids in {key!r}", fault, "keep one row per id")
    dataset = path.name if path.is_dir() else table.stem
    return [_part_of(dataset, file, labels, groups, table) for file in files]


def _labels_file(path: Path, folder: Path) -> Path:
    """Return the CSV file named like `path`, or labels.csv, or the only CSV file."""
    named = [path.with_suffix(".csv"), folder / "labels.csv"]
    tables = [file for file in named if file.is_file()] or sorted(folder.glob("*.csv"))
    if not tables or (len(tables) > 1 and tables[0] not in named):
        raise FileNotFoundError(
            f"{named[0]} or {named[1]} must hold the labels, in columns id and label, "
            f"but neither exists; save {named[1].name}"
        )
    return tables[0]


def _part_of(
    dataset: str,
    path: Path,
    labels: dict[str, object],
    groups: dict[str, str] | None,
    table: Path,
) -> parts.Part:
    ids, features = _read_vectors(path)
    values, known = parts.labels_of([labels.get(name) for name in ids])
    n_unused = len(labels.keys() - set(ids))
    note = f"ids of {table.name} without an embedding in {path.name}: {n_unused}"
    # The group of an id without a label is never used, so any text will do.
    named = None
    if groups is not None:
        texts = [groups.get(name, f"without a label: {name}") for name in ids]
        named = parts.groups_of(texts, table)
    rest = values, known, parts.texts_of(ids, "ids"), note if n_unused else "", named
    return parts.Part(dataset, path.stem, features, *rest)


def _read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the ids and the embeddings in a file, in the same order."""
    with opened(path) as file:
        entries = {key: item for key, item in file.items() if hasattr(item, "shape")}
        if not entries:
            cure = "store each embedding as file[id] = vector"
            fault = f"it holds {list(file)[:5]}"
            raise damaged(path, "an HDF5 dataset for each id", fault, cure)
        first = next(iter(entries.values()))
        width = first.shape[-1] if first.shape else 0
        for key, item in entries.items():
            parts.check_vector(item, width, repr(key), path)
            _check_size(item)
        dtype = np.result_type(*{item.dtype for item in entries.values()})
        features = np.empty((len(entries), width), dtype=dtype)
        for row, item in enumerate(entries.values()):
            item.read_direct(features, dest_sel=np.s_[row])
        ids = [_attribute(item, "original_id", key) for key, item in entries.items()]
    return ids, features


def _attribute(item: Any, name: str, default: str) -> str:
    """Return an attribute as text. Raise TypeError unless it is text or an integer."""
    if name not in item.attrs:
        return default
    kind = item.attrs.get_id(name).dtype
    is_text = (kind.metadata or {}).get("vlen") in (str, bytes)
    if not is_text and kind.kind not in "SUiu":
        raise TypeError(f"attribute {name!r} of {item.name} is not text")
    value = item.attrs[name]
    return value.decode() if isinstance(value, bytes) else str(value)


# AnnData


def read_h5ad(path: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read the arrays in ``obsm`` as encoders and a column of ``obs`` as labels."""
    wanted.refuse(path, "splits")
    with opened(path) as file:
        if not all(hasattr(file.get(name), "keys") for name in ("obs", "obsm")):
            fault, cure = f"it holds {list(file)}", "write it with AnnData.write_h5ad"
            raise damaged(path, "obs and obsm of an AnnData", fault, cure)
        obs, obsm = file["obs"], file["obsm"]
        index = _attribute(obs, "_index", "_index")
        names = [n for n in obs if n not in (index, "__categories", "_index")]
        column = parts.label_column(names, wanted, f"obs of {path}")
        columns = {n: _obs_column(obs, n) for n in (column, wanted.groups) if n}
        labels, known = columns[column]
        lists = {name: parts.masked(v.tolist(), k) for name, (v, k) in columns.items()}
        groups = parts.groups_in(lists, wanted, path)
        ids = parts.texts_of(_read(obs[index]).tolist(), "ids")
        arrays = {k: mapped(item, path) for k, item in obsm.items() if is_table(item)}
        fields = {"dataset": path.stem, "labels": labels, "known": known, "ids": ids}
        note, place = f"labels are obs[{column!r}]", f"obsm of {path}"
        return encoders_of(arrays, obsm, place, groups=groups, note=note, **fields)


def encoders_of(
    arrays: dict[str, np.ndarray], keys: Iterable[str], place: str, **fields: Any
) -> list[parts.Part]:
    """Return a part for each array (n_cells, width), with the given other fields.

    The note of each part also names those of the keys that have no array.
    """
    skipped = [key for key in keys if key not in arrays]
    if not arrays:
        fault = f"it holds {skipped or 'none'}"
        required = "dense arrays (n_cells, width)"
        raise damaged(place, required, fault, "set adata.obsm[encoder_name] = X")
    if skipped:
        fields["note"] += f"; skipped, since they are not dense tables: {skipped}"
    return [parts.Part(encoder=e, features=X, **fields) for e, X in arrays.items()]


def is_table(item: Any) -> bool:
    """Return True for a dense array of real numbers with two axes."""
    return getattr(item, "ndim", 0) == 2 and item.dtype.kind in "biuf"


def mapped(item: h5py.Dataset, path: Path) -> np.ndarray:
    """Memory-map an array if it is contiguous in the file, or else read the array."""
    offset = item.id.get_offset()
    # The dataset may be a link into another file.
    elsewhere = item.is_virtual or item.external or Path(item.file.filename) != path
    if offset is None or elsewhere or item.file.userblock_size:
        return _read(item)
    return np.memmap(path, item.dtype, "r", offset, item.shape)


def _obs_column(obs: h5py.Group, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a column of ``obs``, and a mask of known values."""
    item = obs[column]
    if hasattr(item, "keys") and "codes" not in item:  # nullable numbers and strings
        return _read_values(item["values"]), ~_read(item["mask"]).astype(bool)
    if hasattr(item, "keys"):
        return _decode(_read(item["codes"]), _read_values(item["categories"]))
    if "__categories" in obs and column in obs["__categories"]:  # before anndata 0.8
        return _decode(_read(item), _read_values(obs["__categories"][column]))
    values = _read_values(item)
    known = ~np.isnan(values) if values.dtype.kind == "f" else values != ""
    return values, np.broadcast_to(known, values.shape)


def _decode(codes: np.ndarray, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return names[np.where(codes >= 0, codes, 0)], codes >= 0


def _read_values(item: h5py.Dataset) -> np.ndarray:
    """Read an array of numbers or strings."""
    values = _read(item)
    return parts.texts_of(values.tolist(), "text") if values.dtype == object else values
