"""Detect the format of the files at a path, and read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.datasets._files import is_dataset, load_feature_directory
from sklearn_mdl.datasets._readers import arrow, eva, hdf5, hear, npz, parts

Finder = Callable[[Path], list[Path]]


class Reader(NamedTuple):
    """A format, with functions that find and read its files at a path."""

    kind: str
    find: Finder
    read: Callable[[Path, parts.ReadRequest], list[parts.Part]]


def _file(*suffixes: str) -> Finder:
    return lambda path: [path] if path.is_file() and path.suffix in suffixes else []


def _files_in(*suffixes: str) -> Finder:
    return lambda path: sorted(
        file for file in path.glob("*") if file.suffix in suffixes and file.is_file()
    )


def _folder_of(*suffixes: str) -> Finder:
    """Return a finder that returns a folder if it has files with these suffixes."""
    return lambda path: [path] if _files_in(*suffixes)(path) else []


def _saved(path: Path) -> list[Path]:
    marks = path / arrow.STATE, path / arrow.SPLITS
    return [path] if any(mark.is_file() for mark in marks) else []


def _marked(name: str) -> Finder:
    """Return a finder for folders with a file ``name``, at most two levels down."""

    def find(path: Path) -> list[Path]:
        for pattern in (name, f"*/{name}", f"*/*/{name}"):
            if files := sorted(path.glob(pattern)):
                return [file.parent.absolute() for file in files]
        return []

    return find


READERS = (
    Reader("AnnData file", _file(".h5ad"), hdf5.read_h5ad),
    Reader("parquet file", _file(".parquet"), arrow.read_parquet),
    Reader(".npz file", _file(".npz"), npz.read_npz),
    Reader("HDF5 file of embeddings by id", _file(*hdf5.SUFFIXES), hdf5.read_by_id),
    Reader("HEAR folder", _marked(hear.METADATA), hear.read_task),
    Reader("eva folder", _marked(eva.MANIFEST), eva.read_manifest),
    Reader("folder of Hugging Face datasets", _saved, arrow.read_saved),
    Reader("folder of AnnData files", _files_in(".h5ad"), hdf5.read_h5ad),
    Reader(
        "folder of parquet files", _folder_of(".parquet"), arrow.read_parquet_folder
    ),
    Reader(
        "folder of HDF5 files of embeddings by id",
        _folder_of(*hdf5.SUFFIXES),
        hdf5.read_by_id,
    ),
    Reader("folder of .npz files", _files_in(".npz"), npz.read_npz),
)


def load_representations(
    source: str | PathLike[str] | object,
    *,
    label: str | None = None,
    splits: Sequence[str] | None = None,
    groups: str | None = None,
    missing: str = "raise",
) -> parts.Representations:
    """Read embeddings and labels from the files of other programs.

    The format is detected automatically. Reading never runs code from a file. A folder
    of AnnData, parquet, ``.npz`` or HDF5 files can be read, too. The source may have
    any of these formats:

    * an AnnData file ``.h5ad``, where ``obsm`` holds the encoders and a column of
      ``obs`` holds the labels
    * parquet or a folder saved by ``datasets``, where columns of lists are encoders
    * ``.npz``, where arrays with two axes are encoders
    * HDF5 with an embedding for each id, next to a CSV file of labels
    * folders ``MODEL/DATASET`` of kaiko's eva (``manifest.csv``) or of HEAR
      (``task_metadata.json``)
    * a directory that :func:`load_feature_directory` can read

    Parameters
    ----------
    source : path-like or AnnData
    label : str, default=None
        Name of the column or array of labels. By default, the only column with a common
        name such as "label", or else the only column. Feature directories and HEAR
        files have no such columns.
    splits : list of str, default=None
        Splits to read. By default, all splits are concatenated, since a prequential
        code needs no held-out data. Only Hugging Face, eva and HEAR folders, and
        folders of parquet files named like splits, can have splits.
    groups : str, default=None
        Name of the column or array with the group of each row, such as a patient. The
        labels of a group are learned only after all its rows are coded. HEAR files
        cannot have groups. In a feature directory, save a file "groups" for each
        dataset instead.
    missing : {"raise", "drop"}, default="raise"
        What to do with rows that have no label, or whose id is missing in the file of
        some encoder: raise an error, or drop them. Ignored for feature directories.

    Returns
    -------
    representations : Representations
        Pass its ``datasets`` to ``RepresentationScorer.fit``. Print it for a summary.

    Raises
    ------
    ImportError
        If h5py or pyarrow is needed but not installed. Install both with
        ``pip install "sklearn-mdl[readers]"``.
    FileNotFoundError
        If the path does not exist, or a file is missing.
    ValueError
        If a file is damaged or has another format, or if embeddings have different
        lengths. Also if encoders have different rows or labels, if labels are missing
        (not in a feature directory), if the label column is ambiguous, or if the group
        column does not exist. Also if `label`, `splits` or `groups` are given for files
        that cannot have them.

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
        raise invalid("missing", "'raise' or 'drop'", missing, "pass missing='raise'")
    wanted = parts.ReadRequest(label, splits, groups)
    if is_anndata(source):
        return parts.joined("AnnData", _of_anndata(source, wanted), missing)
    path = Path(source)  # type: ignore[arg-type]
    if path.exists() and (not path.name or ".." in path.parts):
        # The names of this folder and its parent become those of dataset and encoder.
        is_named = path.name not in ("", "..")
        path = path.parent.resolve() / path.name if is_named else path.resolve()
    for reader in () if is_dataset(path) else READERS:
        if places := reader.find(path):
            found = [part for place in places for part in reader.read(place, wanted)]
            return parts.joined(reader.kind, found, missing)
    if not path.exists():
        problem = f"but there is no {str(path)!r}"
        raise FileNotFoundError(f"source must exist, {problem}; correct the path")
    if not path.is_dir():
        required = "a directory, .h5ad, .parquet, .npz, .h5 or .hdf5 file"
        cure = "pass a folder with DATASET/ENCODER.npy and DATASET/labels.npy"
        raise invalid("source", required, str(path), cure)
    datasets = load_feature_directory(path)
    wanted.refuse(f"the directory {path}", *parts.ReadRequest._fields)
    return parts.Representations("feature directory", datasets, {}, [])


def is_anndata(source: object) -> bool:
    """Return True for an AnnData object, without importing anndata."""
    return all(hasattr(source, name) for name in ("obsm", "obs", "obs_names"))


def _of_anndata(adata: Any, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read the arrays in ``obsm`` as encoders and a column of ``obs`` as labels."""
    wanted.refuse("an AnnData", "splits")
    column = parts.label_column(list(adata.obs.columns), wanted, "obs")
    columns = {
        name: parts.masked(adata.obs[name].tolist(), adata.obs[name].notna())
        for name in (column, wanted.groups)
        if name
    }
    labels, known = parts.labels_of(columns[column])
    dense = [key for key, X in adata.obsm.items() if hasattr(X, "__array__")]
    arrays = {key: np.asarray(adata.obsm[key]) for key in dense}
    arrays = {key: X for key, X in arrays.items() if hdf5.is_table(X)}
    ids = np.asarray(adata.obs_names, dtype=str)
    fields = {"dataset": "AnnData", "labels": labels, "known": known, "ids": ids}
    groups = parts.groups_in(columns, wanted, "obs")
    others = {"groups": groups, "note": f"labels are obs[{column!r}]"}
    return hdf5.encoders_of(arrays, adata.obsm, "obsm", **fields, **others)
