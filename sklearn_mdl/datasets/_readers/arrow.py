"""Parquet files and folders of Hugging Face datasets.

A column of lists holds the embeddings of an encoder, and a column of scalars holds the
labels. Reading a folder saved by ``datasets`` needs only pyarrow, which memory-maps the
folder's Arrow files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.datasets._files import MOST_TO_ONE
from sklearn_mdl.datasets._readers import parts

STATE, SPLITS = "state.json", "dataset_dict.json"
_NEEDS = "pyarrow", "load_representations", "readers"
# File names of splits and shards, without the suffix.
_SPLIT = re.compile(
    r"(train|validation|valid|val|dev|test)(-\d+-of-\d+)?|.*-\d+-of-\d+"
)


# Finding and reading tables


def read_saved(folder: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read a folder written by ``save_to_disk`` of Hugging Face ``datasets``."""
    folders = {folder: ""}
    if (folder / SPLITS).is_file():
        with _naming(folder / SPLITS):
            names = json.loads((folder / SPLITS).read_text(encoding="utf-8"))["splits"]
            names = [str(name) for name in names]
        chosen = parts.chosen_splits(names, wanted, folder)
        folders = {parts.named_in(folder, s, folder / SPLITS): s for s in chosen}
    else:
        wanted.refuse(folder, "splits")
    tables = {split: _read_arrow(place) for place, split in folders.items()}
    return _parts(folder.name, tables, wanted, folder)


def _read_arrow(folder: Path) -> Any:
    """Memory-map the Arrow files of one split."""
    pa = needed(*_NEEDS)
    with _naming(folder):
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        named = [str(entry["filename"]) for entry in state["_data_files"]]
        names = dict.fromkeys(parts.named_in(folder, n, folder / STATE) for n in named)
        if state.get("_indices_data_files"):
            fault = "it holds indices into them"
            cure = "call dataset.flatten_indices().save_to_disk(path)"
            raise damaged(folder, "its rows in order", fault, cure)
        table = pa.concat_tables(
            [pa.ipc.open_stream(pa.memory_map(str(name))).read_all() for name in names]
        )
        n_bytes = sum(name.stat().st_size for name in names)
        if table.num_rows > MOST_TO_ONE * n_bytes:  # a column of nulls takes no bytes
            raise ValueError(f"{n_bytes} bytes cannot hold {table.num_rows} rows")
        table.validate(full=True)  # else pyarrow may read beyond the ends of buffers
    return table


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file or folder in errors of json and pyarrow."""
    try:
        with readable(path, "a saved dataset", "call save_to_disk(path)", Exception):
            yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} must contain all files that save_to_disk wrote, but one is missing"
            f" ({error}); call save_to_disk(path) again"
        ) from error


def read_parquet(path: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read a parquet file as one dataset."""
    wanted.refuse(path, "splits")
    return _parts(path.stem, {"": _read_table(path)}, wanted, path)


def read_parquet_folder(folder: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read a folder of parquet files.

    If all files are named like splits or shards, they form one dataset. Otherwise, each
    file is a dataset.
    """
    pa = needed(*_NEEDS)
    files = sorted(folder.glob("*.parquet"))
    if not all(_SPLIT.fullmatch(file.stem) for file in files):
        return [part for file in files for part in read_parquet(file, wanted)]
    shards: dict[str, list[Path]] = {}
    for file in files:
        shards.setdefault(re.sub(r"-\d+-of-\d+$", "", file.stem), []).append(file)
    tables = {
        split: pa.concat_tables([_read_table(file) for file in shards[split]])
        for split in parts.chosen_splits(list(shards), wanted, folder)
    }
    return _parts(folder.name, tables, wanted, folder)


def _read_table(path: Path) -> Any:
    pa = needed(*_NEEDS)
    parquet = needed("pyarrow.parquet", *_NEEDS[1:])
    errors = OSError, pa.ArrowException
    with (
        readable(path, "a parquet table", parts.RECREATE, *errors, ValueError),
        parquet.ParquetFile(path, memory_map=True) as file,
    ):
        check_size(file, path)
        table = file.read()
        table.validate(full=True)
    return table


def check_size(file: Any, path: Path) -> None:
    """Raise ValueError if a parquet file declares more data than its bytes can hold."""
    # This raises an error for files on which `column` below would abort the process.
    for group in range(file.num_row_groups):
        next(file.iter_batches(1, row_groups=[group]), None)
    n_bytes = sum(
        max(8 * column.num_values, column.total_uncompressed_size)
        for group in map(file.metadata.row_group, range(file.num_row_groups))
        for column in map(group.column, range(group.num_columns))
    )
    if n_bytes > MOST_TO_ONE * path.stat().st_size:
        raise ValueError(f"{path.stat().st_size} bytes cannot expand to {n_bytes}")


# Contents of tables


def _parts(
    dataset: str, tables: dict[str, Any], wanted: parts.ReadRequest, place: Path
) -> list[parts.Part]:
    """Return a part for each column of lists, with the rows of all splits."""
    pa = needed(*_NEEDS)
    cure = "save the same columns in every file"
    with readable(place, "tables with the same columns", cure, Exception):
        schema = next(iter(tables.values())).schema
        encoders = [field.name for field in schema if is_vector(pa, field.type)]
        if not encoders:
            types = {field.name: str(field.type) for field in schema}
            required, fault = "a column of lists of numbers", f"it holds {types}"
            raise damaged(place, required, fault, "store X.tolist() as a column")
        scalars = [f.name for f in schema if not pa.types.is_nested(f.type)]
        key, column = parts.id_and_label(scalars, wanted, place)
        columns = {
            name: [v for table in tables.values() for v in table[name].to_pylist()]
            for name in (column, key, wanted.groups)
            if name is not None
        }
        columns[column] = [*_class_names(schema, column, columns[column])]
        features = {name: _vectors(tables, name, place) for name in encoders}
    labels, known = parts.labels_of(columns[column])
    groups = parts.groups_in(columns, wanted, place)
    ids = None if key is None else parts.texts_of(columns[key], "ids")
    counts = ", ".join(f"{k} {len(v)}" for k, v in tables.items() if k)
    splits = f"; splits: {counts}" if counts else ""
    rest = labels, known, ids, f"labels are column {column!r}{splits}", groups
    return [parts.Part(dataset, name, X, *rest) for name, X in features.items()]


def is_vector(pa: Any, kind: Any) -> bool:
    """Return True if a column type is a list of numbers."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)):
        return False
    inner = kind.value_type
    return bool(pa.types.is_floating(inner) or pa.types.is_integer(inner))


def _class_names(schema: Any, column: str, labels: list[Any]) -> Sequence[object]:
    """Replace the integers of a ``ClassLabel`` by names, and -1 by None."""
    about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    feature = about.get("info", {}).get("features", {}).get(column, {})
    if feature.get("_type") != "ClassLabel":
        return labels
    names = feature.get("names") or []
    return [None if v is None or v == -1 else names[v] if names else v for v in labels]


def _vectors(tables: dict[str, Any], column: str, place: Path) -> np.ndarray:
    """Return a column of lists from all tables as an array (n, width)."""
    chunks = [c for table in tables.values() for c in table[column].chunks if len(c)]
    if not chunks:
        raise damaged(place, "rows", "it has none", "save at least one row")
    width = next((len(v) for v in chunks[0] if v.is_valid), 0)
    blocks = [block_of(chunk, width, column, place) for chunk in chunks]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def block_of(chunk: Any, width: int, column: str, place: Path) -> np.ndarray:
    """Return a chunk of lists as an array (n, width), or raise ValueError."""
    lengths = np.asarray(chunk.value_lengths().fill_null(0))
    other = lengths[lengths != width]
    if len(other):
        vector = np.empty(other[0])
        parts.check_vector(vector, width, f"a row of column {column!r}", place)
    numbers: np.ndarray = chunk.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(len(chunk), width)
