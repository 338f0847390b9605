"""Find out what a path holds, and read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_mdl.datasets._files import load_feature_directory
from sklearn_mdl.datasets._readers import arrow, eva, hdf5, hear, npz
from sklearn_mdl.datasets._readers.parts import (
    Part,
    Representations,
    Wanted,
    groups_of,
    joined,
    label_column,
    labels_of,
)


class Reader(NamedTuple):
    """A format: its name, how it is recognised, and how it is read."""

    kind: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Wanted], list[Part]]


def _has_suffix(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: path.is_file() and path.suffix in suffixes


def _holds_files(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: (
        path.is_dir()
        and any(file.suffix in suffixes and file.is_file() for file in path.iterdir())
    )


def _holds_one(*names: str) -> Callable[[Path], bool]:
    return lambda path: any((path / name).is_file() for name in names)


def _marked(path: Path, name: str) -> list[Path]:
    """List the folders that hold a file of this name: MODEL/DATASET or above."""
    for pattern in (name, f"*/{name}", f"*/*/{name}"):
        found = sorted(file.parent.absolute() for file in path.glob(pattern))
        if found:
            return found
    return []


def _by_mark(
    name: str, read: Callable[[Path, Wanted], Part]
) -> tuple[Callable[[Path], bool], Callable[[Path, Wanted], list[Part]]]:
    """Make a reader of trees MODEL/DATASET, in which a file marks each dataset."""

    def recognises(path: Path) -> bool:
        return path.is_dir() and bool(_marked(path, name))

    def read_all(path: Path, wanted: Wanted) -> list[Part]:
        return [read(folder, wanted) for folder in _marked(path, name)]

    return recognises, read_all


def _each(
    read: Callable[[Path, Wanted], list[Part]], suffix: str
) -> Callable[[Path, Wanted], list[Part]]:
    """Make a reader of folders that hold a dataset in each file."""
    return lambda folder, wanted: [
        part
        for file in sorted(folder.glob(f"*{suffix}"))
        for part in read(file, wanted)
    ]


READERS = (
    Reader("AnnData file", _has_suffix(".h5ad"), hdf5.read_h5ad),
    Reader("parquet file", _has_suffix(".parquet"), arrow.read_parquet),
    Reader(".npz file", _has_suffix(".npz"), npz.read_npz),
    Reader(
        "HDF5 file of embeddings by id", _has_suffix(*hdf5.SUFFIXES), hdf5.read_by_id
    ),
    Reader("folder of HEAR", *_by_mark(hear.METADATA, hear.read_task)),
    Reader("folder of eva", *_by_mark(eva.MANIFEST, eva.read_manifest)),
    Reader(
        "folder of Hugging Face datasets",
        _holds_one(arrow.STATE, arrow.SPLITS),
        arrow.read_saved,
    ),
    Reader(
        "folder of AnnData files",
        _holds_files(".h5ad"),
        _each(hdf5.read_h5ad, ".h5ad"),
    ),
    Reader(
        "folder of parquet files", _holds_files(".parquet"), arrow.read_parquet_folder
    ),
    Reader(
        "folder of HDF5 files of embeddings by id",
        _holds_files(*hdf5.SUFFIXES),
        hdf5.read_by_id,
    ),
    Reader("folder of .npz files", _holds_files(".npz"), _each(npz.read_npz, ".npz")),
)


def load_representations(
    source: str | PathLike[str] | object,
    *,
    label: str | None = None,
    splits: Sequence[str] | None = None,
    groups: str | None = None,
    missing: str = "raise",
) -> Representations:
    """Read embeddings and labels from the files of other programs.

    The format is recognised by what the path is: an AnnData file ``.h5ad`` (``obsm``
    are encoders, a column of ``obs`` has the labels), parquet, or a folder that
    ``datasets`` saved (columns of lists are encoders), ``.npz`` (arrays with two axes
    are encoders), HDF5 with an embedding for each id and a CSV file of labels beside
    it, folders ``MODEL/DATASET`` of kaiko's eva (``manifest.csv``) or of HEAR
    (``task_metadata.json``), a folder of such files, or else one for
    :func:`load_feature_directory`. No file is read in a way that could run code.

    Parameters
    ----------
    source : path-like or AnnData
    label : str, default=None
        Column of labels; by default that with a usual name, or the only one.
    splits : list of str, default=None
        Splits to read, where files tell them; by default all, one after the other,
        since a prequential code holds nothing out.
    groups : str, default=None
        Column that names the group of each row, such as its patient: a column of
        ``obs``, of the manifest or of the table, or an array of the ``.npz``. No label
        of a group is then learned before all its rows are coded. HEAR names none, and a
        directory of features has files of groups.
    missing : {"raise", "drop"}, default="raise"
        Refuse rows without a label, or without one of the encoders, or leave them out.

    Returns
    -------
    found : Representations
        ``found.datasets`` is what ``RepresentationScorer.fit`` takes; printed, it
        says what was found.

    Raises
    ------
    ImportError
        If a format needs h5py or pyarrow: ``pip install "sklearn_mdl[readers]"``.
    FileNotFoundError
        If there is no such path, or a file is missing.
    ValueError
        If a file is damaged or of another kind, if it is not clear which column holds
        the labels, if embeddings are of unequal length, if encoders have other rows or
        labels, if labels are missing, or if there is no such column of groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.datasets import load_representations
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> np.savez("three.npz", raw=X, labels=[0, 1, 1])
    >>> print(load_representations("three.npz"))
    found .npz file: 1 dataset
      three: 3 rows, 2 classes; raw (2)
      three: labels are array 'labels'
    """
    if missing not in ("raise", "drop"):
        raise ValueError(
            f"missing must be 'raise' or 'drop', got {missing!r}; choose one of these"
        )
    wanted = Wanted(label, splits, groups)
    if is_anndata(source):
        return joined("AnnData", _of_anndata(source, wanted), missing)
    path = Path(source)  # type: ignore[arg-type]
    for reader in READERS:
        if reader.recognises(path):
            return joined(reader.kind, reader.read(path, wanted), missing)
    if path.is_file():
        raise ValueError(
            "A file of embeddings must end in .h5ad, .parquet, .npz, .h5 or .hdf5, got "
            f"{str(path)!r}; other arrays go to DATASET/ENCODER.npy with "
            "DATASET/labels.npy"
        )
    if groups is not None:
        raise ValueError(
            "Groups of a feature directory must be in files DATASET/groups.npy, got "
            f"groups={groups!r} for {str(path)!r}; write them there, and leave it out"
        )
    return Representations("feature directory", load_feature_directory(path), {}, [])


def is_anndata(source: object) -> bool:
    """Say if an object is an AnnData, without importing that."""
    return all(hasattr(source, name) for name in ("obsm", "obs", "obs_names"))


def _of_anndata(adata: Any, wanted: Wanted) -> list[Part]:
    """Take the arrays in ``obsm`` and a column of ``obs`` from memory."""
    column = label_column(list(adata.obs.columns), wanted, "obs")
    values = adata.obs[column]
    known = np.asarray(values.notna(), dtype=bool)
    labels, _ = labels_of(
        [v if k else None for v, k in zip(values.tolist(), known, strict=True)]
    )
    named = None
    if wanted.groups is not None:
        own = adata.obs[wanted.groups]
        pairs = zip(own.tolist(), own.notna().tolist(), strict=True)
        named = groups_of([v if k else None for v, k in pairs], "obs")
    tables = {
        key: np.asarray(X) if hasattr(X, "__array__") else X
        for key, X in adata.obsm.items()
    }
    arrays = {
        key: X
        for key, X in tables.items()
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
    }
    skipped = [key for key in tables if key not in arrays]
    ids = np.asarray(adata.obs_names, dtype=str)
    fields = {"dataset": "AnnData", "labels": labels, "known": known, "ids": ids}
    parts = hdf5.encoders_of(arrays, column, skipped, "obsm", **fields)
    return [part._replace(groups=named) for part in parts]
