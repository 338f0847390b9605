"""HDF5 files: embeddings by id with a table of labels, and AnnData files.

Protein tools write one HDF5 dataset of shape (d,) for each sequence, under its id or
under a hash with the attribute ``original_id``. AnnData writes ``obsm`` (one array for
each encoder) and ``obs`` (columns, of which one holds labels).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_mdl._core.images.reading import needed
from sklearn_mdl.datasets._readers.parts import (
    ID_NAMES,
    Part,
    Wanted,
    check_vector,
    groups_of,
    label_column,
    labels_of,
    parsed,
)
from sklearn_mdl.datasets._readers.text_tables import read_csv

if TYPE_CHECKING:
    import h5py

SUFFIXES = (".h5", ".hdf5")


def opened(path: Path) -> h5py.File:
    """Open an HDF5 file, or say what is missing."""
    library = needed("h5py", "load_representations", "readers")
    try:
        file: h5py.File = library.File(path, "r")
    except OSError as error:
        raise ValueError(
            f"{path} must be an HDF5 file, got: {error}; write it again"
        ) from error
    return file


# Embeddings by id


def read_by_id(path: Path, wanted: Wanted) -> list[Part]:
    """Read one file of embeddings by id, or all in a folder, and their labels."""
    folder = path if path.is_dir() else path.parent
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    table = _labels_file(path, folder)
    columns = read_csv(table)
    key = next((name for name in ID_NAMES if name in columns), next(iter(columns)))
    column = label_column([name for name in columns if name != key], wanted, table)
    labels = dict(zip(columns[key], parsed(columns[column]), strict=True))
    groups = None
    if wanted.groups is not None:
        groups = dict(zip(columns[key], columns[wanted.groups], strict=True))
    if len(labels) < len(columns[key]):
        raise ValueError(
            f"Ids must differ, but {len(columns[key]) - len(labels)} of column {key!r} "
            f"occur again in {table}; keep one row for each id"
        )
    dataset = path.name if path.is_dir() else table.stem
    return [_labelled(dataset, file, labels, groups, table) for file in files]


def _labels_file(path: Path, folder: Path) -> Path:
    """Find the table of labels: of the file's name, labels.csv, or the only one."""
    named = [path.with_suffix(".csv"), folder / "labels.csv"]
    tables = [file for file in named if file.is_file()] or sorted(folder.glob("*.csv"))
    if not tables or (len(tables) > 1 and tables[0] not in named):
        found = [file.name for file in tables]
        raise FileNotFoundError(
            f"Embeddings by id must have their labels in {named[0].name} or labels.csv "
            f"in {folder}, with columns id and label, got {found or 'no .csv'}; store "
            "them there"
        )
    return tables[0]


def _labelled(
    dataset: str,
    path: Path,
    labels: dict[str, object],
    groups: dict[str, str] | None,
    table: Path,
) -> Part:
    ids, features = _read_vectors(path)
    found, known = labels_of([labels.get(name) for name in ids])
    n_unused = len(labels.keys() - set(ids))
    note = f"{n_unused} ids of {table.name} have no embedding in {path.name}"
    # An id without a label is in no group of others: it is refused, or left out.
    named = None
    if groups is not None:
        own = [groups.get(name, f"without a label: {name}") for name in ids]
        named = groups_of(own, table)
    return Part(
        *(dataset, path.stem, features, found, known, np.array(ids)),
        note=note if n_unused else "",
        groups=named,
    )


def _read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Return ids and their embeddings, in the order of the file."""
    with opened(path) as file:
        entries = {key: item for key, item in file.items() if hasattr(item, "shape")}
        if not entries:
            raise ValueError(
                f"{path} must hold one HDF5 dataset for each id, got {list(file)[:5]}; "
                "store each embedding as file[id] = vector"
            )
        first = next(iter(entries.values()))
        width = first.shape[-1] if first.shape else 0
        features = np.empty((len(entries), width), dtype=first.dtype)
        for row, (key, item) in enumerate(entries.items()):
            check_vector(item, width, repr(key), path)
            item.read_direct(features, dest_sel=np.s_[row])
        ids = [
            _text(item.attrs.get("original_id", key)) for key, item in entries.items()
        ]
    return ids, features


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# AnnData


def read_h5ad(path: Path, wanted: Wanted) -> list[Part]:
    """Read the arrays in ``obsm`` and a column of ``obs``."""
    with opened(path) as file:
        if not all(hasattr(file.get(name), "keys") for name in ("obs", "obsm")):
            raise ValueError(
                f"{path} must be an AnnData file with obs and obsm, got {list(file)}; "
                "write it by AnnData.write_h5ad"
            )
        obs, obsm = file["obs"], file["obsm"]
        index = _text(obs.attrs.get("_index", "_index"))
        names = [n for n in obs if n not in (index, "__categories", "_index")]
        column = label_column(names, wanted, f"obs of {path}")
        labels, known = _obs_column(obs, column)
        groups = None
        if wanted.groups is not None:
            own, in_one = _obs_column(obs, wanted.groups)
            groups = groups_of(
                [v if k else None for v, k in zip(own.tolist(), in_one, strict=True)],
                path,
            )
        ids = np.asarray(obs[index].asstr()[()], dtype=str)
        arrays = {
            key: mapped(item, path) for key, item in obsm.items() if _is_table(item)
        }
        skipped = [key for key in obsm if key not in arrays]
    fields = {"dataset": path.stem, "labels": labels, "known": known, "ids": ids}
    parts = encoders_of(arrays, column, skipped, f"obsm of {path}", **fields)
    return [part._replace(groups=groups) for part in parts]


def encoders_of(
    arrays: dict[str, np.ndarray],
    column: str,
    skipped: list[str],
    place: str,
    **fields: Any,
) -> list[Part]:
    """Return a part for every array of cells by embeddings, with these other fields."""
    if not arrays:
        raise ValueError(
            f"Embeddings must be dense arrays (n_cells, width) in {place}, got "
            f"{skipped or 'none'}; store one array for each encoder"
        )
    note = f"labels are obs[{column!r}]"
    if skipped:
        note += f"; not read, since no dense tables: {skipped}"
    return [
        Part(encoder=encoder, features=X, note=note, **fields)
        for encoder, X in arrays.items()
    ]


def _is_table(item: Any) -> bool:
    """Say if an HDF5 item is a dense array of numbers with two axes."""
    return getattr(item, "ndim", 0) == 2 and item.dtype.kind in "biuf"


def mapped(item: h5py.Dataset, path: Path) -> np.ndarray:
    """Map an array that lies in one piece, as AnnData writes it; read others."""
    offset = item.id.get_offset()
    if offset is None or item.is_virtual or item.external or item.file.userblock_size:
        array: np.ndarray = item[()]
        return array
    return np.memmap(path, item.dtype, "r", offset, item.shape)


def _obs_column(obs: h5py.Group, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Decode a column of obs: categories, strings, numbers, or numbers with a mask."""
    item = obs[column]
    if "codes" in item and "categories" in item if hasattr(item, "keys") else False:
        codes, categories = item["codes"][()], _plain(item["categories"])
        known = codes >= 0
        return categories[np.where(known, codes, 0)], known
    if hasattr(item, "keys"):  # nullable numbers and strings
        return _plain(item["values"]), ~item["mask"][()].astype(bool)
    if "__categories" in obs and column in obs["__categories"]:  # before anndata 0.8
        codes, categories = item[()], _plain(obs["__categories"][column])
        return categories[np.where(codes >= 0, codes, 0)], codes >= 0
    values = _plain(item)
    known = ~np.isnan(values) if values.dtype.kind == "f" else values != ""
    return values, np.broadcast_to(known, values.shape)


def _plain(item: h5py.Dataset) -> np.ndarray:
    """Read an array of numbers or strings."""
    if item.dtype.kind == "O":
        return np.asarray(item.asstr()[()], dtype=str)
    values: np.ndarray = item[()]
    return values
