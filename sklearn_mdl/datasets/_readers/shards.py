"""Copy shards of features into one memory-mapped file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.io.safetensors_io import TYPES, mapped, read_head
from sklearn_mdl._core.io.whole_files import make_folder, note_ours, refuse_foreign_in
from sklearn_mdl._core.validation import damaged, invalid, non_finite
from sklearn_mdl.datasets._readers.arrow import block_of, check_size, is_vector
from sklearn_mdl.datasets._readers.parts import RECREATE, ReadRequest, label_column

ROWS = "features.npy"
AT_ONCE = 4096  # rows
Block = tuple[np.ndarray, np.ndarray]  # features (n, d), labels (n,)


def stage_rows(
    shards: Sequence[str | PathLike[str]],
    folder: str | PathLike[str],
    *,
    features: str | None = None,
    label: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Copy the rows of shards to one file, in order, and memory-map the file.

    Shards are read a few thousand rows at a time, so features may exceed memory.
    Shards must be local files, so download remote shards first.

    Parameters
    ----------
    shards : sequence of path-like
        Arrow (``.arrow``) or parquet files with a column of lists of numbers and a
        column of labels, or safetensors files with tensors (n, d) and (n,). Pass shards
        in the order of the rows. All shards must have the same width.
    folder : path-like
        Folder for ``features.npy``, in float32 (4 bytes per number). An existing file
        is replaced only if this package wrote it, which the file ``.sklearn_mdl`` in
        the folder records.
    features, label : str, default=None
        Names of columns or tensors. By default, the only possible name is used. For
        labels, the only common name, such as "label", is preferred.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Read-only memory map of the features.
    y : ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        If `shards` is not a list of paths or is empty, if `folder` is a file, if a
        shard has an unknown format, or if widths differ.
        Also if a label is missing or has another type, if a value is not finite as
        float32, or if the choice of columns is ambiguous. Also if another program wrote
        ``features.npy``. An existing ``features.npy`` is not changed in these cases.
    FileNotFoundError
        If a shard is missing.
    ImportError
        If pyarrow is needed and missing.

    Examples
    --------
    >>> import numpy as np
    >>> from safetensors.numpy import save_file
    >>> from sklearn_mdl.datasets import stage_rows
    >>> for i in range(2):
    ...     rows = np.full((3, 2), i, dtype=np.float32)
    ...     save_file({"rows": rows, "y": np.arange(3)}, f"rows-{i}.safetensors")
    >>> X, y = stage_rows(["rows-0.safetensors", "rows-1.safetensors"], ".")
    >>> X.shape, y.tolist()
    ((6, 2), [0, 1, 2, 0, 1, 2])
    """
    paths = [] if isinstance(shards, str | PathLike) else list(map(Path, shards))
    if not paths:
        cure = "pass [path], or correct the folder or pattern of the files"
        raise invalid("shards", "a non-empty list of paths", shards, cure)
    place = Path(folder) / ROWS
    refuse_foreign_in(place.parent, [ROWS])
    labels = list[np.ndarray]()
    blocks = chain.from_iterable(_checked(path, features, label) for path in paths)
    first = next(blocks, None)
    if first is None:
        raise damaged(paths[0], "rows", "no shard has any", "pass shards with rows")
    width = first[0].shape[1]

    def rows() -> Iterator[np.ndarray]:
        for X, y in chain([first], blocks):
            if X.shape[1] != width:
                required, cure = f"{width} as in the first", "pass one encoder's shards"
                raise invalid("The width of all shards", required, X.shape[1], cure)
            if labels and _kind(y) != _kind(labels[0]):
                required, cure = f"of type {labels[0].dtype}", "save y.astype(str)"
                raise invalid("Labels of all shards", required, y.dtype.name, cure)
            labels.append(y)
            yield X

    make_folder(place.parent)
    GrowingArray(width, place, dtype="<f4").extend(rows())
    note_ours(place.parent, [ROWS])
    return np.load(place, mmap_mode="r"), np.concatenate(labels)


def _kind(labels: np.ndarray) -> str:
    """Return the kind of the labels, which must be the same for all shards."""
    kind = labels.dtype.kind
    return "number" if kind in "iuf" else "text" if kind in "OUS" else kind


def _checked(path: Path, features: str | None, label: str | None) -> Iterator[Block]:
    """Yield a shard's blocks. Raise ValueError for non-finite values and NaN labels."""
    start = 0  # the block's first row in the shard
    for X, y in _blocks_of(path, features, label):
        fault = non_finite(X, first=start)
        if not fault and y.dtype.kind == "f" and np.isnan(y).any():
            fault = f"a NaN label in row {start + int(np.isnan(y).argmax())}"
        if fault:
            cure = "k = np.isfinite(np.float32(X)).all(1) & (y == y); save X[k], y[k]"
            required = "finite float32 numbers and labels"
            raise damaged(path, required, f"it contains {fault}", cure)
        start += len(X)
        yield X, y


def _blocks_of(path: Path, features: str | None, label: str | None) -> Iterator[Block]:
    if path.suffix == ".safetensors":
        return _tensors(path, features, label)
    if path.suffix in (".parquet", ".arrow"):
        return _tables(path, features, label)
    required = ".parquet, .arrow or .safetensors files"
    raise invalid("shards", required, str(path), RECREATE)


def _tensors(path: Path, features: str | None, label: str | None) -> Iterator[Block]:
    with readable(path, "tensors", "call save_file({'X': X, 'y': y}, path)", Exception):
        _, entries, start = read_head(path)
    ranks = {name: len(entry["shape"]) for name, entry in entries.items()}
    rows = _vectors_in([n for n in ranks if ranks[n] == 2], features, path)
    labels = label_column([n for n in ranks if ranks[n] == 1], ReadRequest(label), path)
    kinds = [entries[name]["dtype"] for name in (rows, labels)]
    if unknown := [kind for kind in kinds if kind not in TYPES]:
        required, reason = f"types {', '.join(TYPES)}", f"it holds {unknown[0]}"
        cure = "save X.astype('float32') and y.astype('int64')"
        raise damaged(path, required, reason, cure)
    X, y = (mapped(path, entries[name], start) for name in (rows, labels))
    if len(X) != len(y):
        raise damaged(path, f"{len(X)} labels", f"it holds {len(y)}", "save all of y")
    for first in range(0, len(X), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        yield X[part], np.array(y[part])


def _tables(path: Path, features: str | None, label: str | None) -> Iterator[Block]:
    pa = needed("pyarrow", "stage_rows", "readers")
    errors = OSError, ValueError, pa.ArrowException
    with readable(path, f"a {path.suffix} table", RECREATE, *errors):
        for batch in _batches(pa, path):
            batch.validate(full=True)  # else pyarrow may read beyond buffers
            if len(batch):
                yield _block(pa, batch, path, features, label)


def _block(
    pa: Any, batch: Any, path: Path, features: str | None, label: str | None
) -> Block:
    """Return the features and labels of an Arrow batch."""
    schema = batch.schema
    vectors = [field.name for field in schema if is_vector(pa, field.type)]
    vector = _vectors_in(vectors, features, path)
    scalars = [f.name for f in schema if not pa.types.is_nested(f.type)]
    column = batch.column(label_column(scalars, ReadRequest(label), path))
    if column.null_count:
        reason, cure = "some rows lack one", "save df[df[label].notna()]"
        raise damaged(path, "a label in each row", reason, cure)
    lists = batch.column(vector)
    width = len(lists[0]) if lists[0].is_valid else 0
    rows = block_of(lists, width, vector, path)
    return rows, np.asarray(column.to_numpy(zero_copy_only=False))


def _batches(pa: Any, path: Path) -> Iterator[Any]:
    parquet = needed("pyarrow.parquet", "stage_rows", "readers")
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path, memory_map=True) as file:
            check_size(file, path)
            yield from file.iter_batches(batch_size=AT_ONCE)
        return
    with pa.memory_map(str(path)) as source:
        yield from pa.ipc.open_stream(source)


def _vectors_in(names: Sequence[str], wanted: str | None, path: Path) -> str:
    """Return the requested name of the features, or the only name if None."""
    if wanted in names:
        return str(wanted)
    if wanted is None and len(names) == 1:
        return names[0]
    if not names:
        cure = "save an array (n, d), or a column of lists of numbers"
        raise damaged(path, "features", "it holds none", cure)
    required, cure = f"one of {list(names)} in {path}", f"pass features={names[0]!r}"
    raise invalid("features", required, wanted, cure)
