"""Features and labels on disk.

Arrays are stored in ``.npy``, ``.npz`` or ``.safetensors`` files. A study is a
directory with one folder per dataset, which holds one feature file per encoder and the
labels::

    features/
        cifar100/
            labels.npy
            resnet50.npy
            vit-base.safetensors
        svhn/
            ...
"""

from __future__ import annotations

import errno
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

_FEATURE_NAMES = ("features", "X")
_LABEL_NAMES = ("labels", "y")
_LABELS_STEM, _GROUPS_STEM = "labels", "groups"
MOST_TO_ONE = 1100  # bytes out of one: more than deflate can make


def load_features(path: str | Path) -> np.ndarray:
    """Load the features of one encoder on one dataset.

    Parameters
    ----------
    path : str or Path
        A ``.npy``, ``.npz`` or ``.safetensors`` file. The latter two must hold
        an array called "features" or "X", or a single array.

    Returns
    -------
    features : ndarray of shape (n_samples, n_features)
        Memory-mapped and read-only if the file is a ``.npy`` file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is of another kind or unreadable, if it is ambiguous which array is
        meant, or if the array is not two-dimensional and numeric.
    """
    features = _load_array(Path(path), _FEATURE_NAMES)
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        raise ValueError(
            "Features must be a real numeric array of shape (n_samples, n_features), "
            f"got shape={features.shape} and dtype={features.dtype} in {path}; store "
            "one row of numbers per sample"
        )
    return features


def load_labels(path: str | Path) -> np.ndarray:
    """Load the labels of one dataset.

    Parameters
    ----------
    path : str or Path
        A ``.npy``, ``.npz`` or ``.safetensors`` file. The latter two must hold
        an array called "labels" or "y", or a single array.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Memory-mapped and read-only if the file is a ``.npy`` file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is of another kind or unreadable, if it is ambiguous which array is
        meant, or if the array is not one-dimensional.
    """
    labels = _load_array(Path(path), _LABEL_NAMES)
    if labels.ndim != 1:
        raise ValueError(
            f"Labels must be an array of shape (n_samples,), got shape={labels.shape} "
            f"in {path}; store one label per sample"
        )
    return labels


def load_feature_directory(
    directory: str | Path,
) -> dict[str, tuple[Any, ...]]:
    """Load the features of several encoders on several datasets.

    Hidden entries, empty folders, ``__pycache__`` and files of other kinds are ignored.
    Encoders may differ from dataset to dataset.

    Parameters
    ----------
    directory : str or Path
        Holds one folder per dataset; that holds one ``.npy``, ``.npz`` or
        ``.safetensors`` file per encoder, named after it, and the labels in a file
        called "labels" with one of these suffixes; a file called "groups", if there is
        one, names the group of each row, such as its patient.

    Returns
    -------
    datasets : dict
        From the name of a dataset to a pair: a dict from the name of an encoder to its
        features, of shape (n_samples, n_features), and the labels, of shape
        (n_samples,); where there are groups, a third part, (n_samples,). Names are
        sorted.

    Raises
    ------
    FileNotFoundError
        If the directory or the labels of a dataset are missing.
    ValueError
        If the directory holds no dataset, a dataset no features, an encoder two files
        on one dataset, or features and labels differ in their number of rows.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(
            "Features must be in a directory with one folder per dataset, got "
            f"{str(directory)!r}, which is no directory; check the path"
        )
    folders = sorted(p for p in _visible(directory) if p.is_dir() and _is_filled(p))
    if not folders:
        raise ValueError(
            "A feature directory must hold one folder per dataset, got none in "
            f"{directory}; move the feature files to DATASET/ENCODER.npy"
        )
    return {folder.name: _load_dataset(folder) for folder in folders}


def _load_dataset(folder: Path) -> tuple[Any, ...]:
    files = _files_by_stem(folder)
    labels_file = files.pop(_LABELS_STEM, None)
    groups_file = files.pop(_GROUPS_STEM, None)
    if labels_file is None:
        raise FileNotFoundError(
            f"Dataset {folder.name!r} must have its labels in "
            f"{_alternatives(folder / _LABELS_STEM)}, got no such file; store them "
            "there"
        )
    if not files:
        raise ValueError(
            f"Dataset {folder.name!r} must have at least one feature file "
            f"{_alternatives(folder / 'ENCODER')}, got labels alone; store one file "
            "per encoder"
        )
    labels = load_labels(labels_file)
    features = {encoder: load_features(file) for encoder, file in files.items()}
    for encoder, array in features.items():
        if len(array) != len(labels):
            raise ValueError(
                "Features and labels must have the same number of rows, got "
                f"{len(array)} rows from encoder {encoder!r} and {len(labels)} labels "
                f"on dataset {folder.name!r}; extract both from the same samples in "
                "one order"
            )
    if groups_file is None:
        return features, labels
    return features, labels, load_groups(groups_file)


def load_groups(path: str | Path) -> np.ndarray:
    """Load the groups of the rows of one dataset.

    Parameters
    ----------
    path : str or Path
        As for :func:`load_labels`; an array among several is called "groups".

    Returns
    -------
    groups : ndarray of shape (n_samples,)

    Raises
    ------
    FileNotFoundError, ValueError
        As :func:`load_labels`.
    """
    groups = _load_array(Path(path), (_GROUPS_STEM,))
    if groups.ndim != 1:
        raise ValueError(
            f"Groups must be an array of shape (n_samples,), got shape={groups.shape} "
            f"in {path}; store the name of one group per sample"
        )
    return groups


def _files_by_stem(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in sorted(_visible(folder), key=lambda p: (p.stem, p.suffix)):
        if file.suffix not in _READERS or not file.is_file():
            continue
        if file.stem in found:
            raise ValueError(
                f"Dataset {folder.name!r} must have one file called {file.stem!r}, got "
                f"{found[file.stem].name!r} and {file.name!r}; remove one of them"
            )
        found[file.stem] = file
    return found


def _visible(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if not p.name.startswith(".")]


def _is_filled(folder: Path) -> bool:
    return folder.name != "__pycache__" and bool(_visible(folder))


def _alternatives(path: Path) -> str:
    *others, last = (f"{path}{suffix}" for suffix in _READERS)
    return f"{', '.join(others)} or {last}"


def _load_array(path: Path, names: Collection[str]) -> np.ndarray:
    """Read the array of a file with one of these names, or its only array."""
    if path.suffix not in _READERS:
        raise ValueError(
            f"A file of arrays must end in {', '.join(_READERS)}, got {str(path)!r}; "
            "store it as one of these"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"A file of arrays must exist, got {str(path)!r}, which is no file; check "
            "the path"
        )
    try:
        return _READERS[path.suffix](path, names)
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} must be a {path.suffix} file with a plain array called "
            f"{' or '.join(map(repr, names))}, or with a single array, got: "
            f"{str(error) or type(error).__name__}; write it again, labels of text as "
            "y.astype(str)"
        ) from error


def _read_npy(path: Path, names: Collection[str]) -> np.ndarray:
    return np.lib.format.open_memmap(path, mode="r")


def _read_npz(path: Path, names: Collection[str]) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as archive:
            name = _choose(archive.files, names)
            check_member(archive.zip, name)
            array: np.ndarray = archive[name]
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place before the beginning of the file
            raise ValueError("a directory of parts that are not there") from error
        raise
    return array


def check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse an array of which the archive holds less than its header promises."""
    member = name if name in archive.namelist() else f"{name}.npy"
    info = archive.getinfo(member)
    if info.file_size > MOST_TO_ONE * info.compress_size:
        raise ValueError(f"{info.file_size} bytes in {info.compress_size} of {member}")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = (
            np.lib.format.read_array_header_1_0(file)
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0(file)
        )
        promised = file.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and promised != info.file_size:
        raise ValueError(f"{info.file_size} bytes of an array of {promised}")


def _read_safetensors(path: Path, names: Collection[str]) -> np.ndarray:
    # One array is taken from the file, the others are not read.
    with safe_open(path, framework="numpy") as archive:
        array: np.ndarray = archive.get_tensor(_choose(archive.keys(), names))
    return array


def _choose(present: Collection[str], names: Collection[str]) -> str:
    """Choose the array with one of these names, or the only array."""
    candidates = [name for name in names if name in present] or list(present)
    if len(candidates) != 1:
        raise ValueError(f"the arrays {sorted(present)}" if present else "no array")
    return candidates[0]


_READERS: dict[str, Callable[[Path, Collection[str]], np.ndarray]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}

# Raised by the readers for a damaged file, pickled objects, a type that numpy lacks
# (bfloat16), and a file whose arrays have other names.
_UNREADABLE = (
    MemoryError,  # an array that fits into the file, but not into memory
    RuntimeError,  # an encrypted or newer .npz
    tokenize.TokenError,  # numpy lets it out of a damaged header
    *(ValueError, TypeError, EOFError),
    *(zipfile.BadZipFile, zlib.error, SafetensorError),
)
