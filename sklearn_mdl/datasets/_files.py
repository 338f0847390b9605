"""Features and labels on disk.

Arrays are stored in ``.npy``, ``.npz`` or ``.safetensors`` files. A study is a
directory with one folder per dataset. Each folder contains a file of labels and one
feature file per encoder::

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
import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from sklearn_mdl._core.io.reading import DAMAGED_HEADER, readable
from sklearn_mdl._core.validation import damaged, invalid

_FEATURE_NAMES = ("features", "X")
_LABEL_NAMES = ("labels", "y")
_LABELS_STEM, _GROUPS_STEM = "labels", "groups"
MOST_TO_ONE = 1100  # largest plausible compression ratio; zip files reach 1032


def load_features(path: str | Path) -> np.ndarray:
    """Load the features of one encoder on one dataset.

    Parameters
    ----------
    path : str or Path
        A ``.npy``, ``.npz`` or ``.safetensors`` file. The latter two must contain an
        array called "features" or "X", or a single array.

    Returns
    -------
    features : ndarray of shape (n_samples, n_features)
        Memory-mapped and read-only if the file is a ``.npy`` file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file has another format or is unreadable, if the choice of the array is
        ambiguous, or if the array is not two-dimensional and numeric.
    """
    features = _load_array(Path(path), _FEATURE_NAMES)
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        fault = f"it has shape {features.shape} and dtype {features.dtype}"
        cure = "save X.reshape(len(X), -1).astype('float32')"
        raise damaged(path, "real numbers (n, d)", fault, cure)
    return features


def load_labels(path: str | Path) -> np.ndarray:
    """Load the labels of one dataset.

    Parameters
    ----------
    path : str or Path
        A ``.npy``, ``.npz`` or ``.safetensors`` file. The latter two must contain an
        array called "labels" or "y", or a single array.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Memory-mapped and read-only if the file is a ``.npy`` file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file has another format or is unreadable, if the choice of the array is
        ambiguous, or if the array is not one-dimensional.
    """
    return _load_vector(path, _LABEL_NAMES)


def load_feature_directory(directory: str | Path) -> dict[str, tuple[Any, ...]]:
    """Load the features of several encoders on several datasets.

    Hidden entries, empty folders, ``__pycache__`` and files of other kinds are ignored.
    Datasets may have different encoders.

    Parameters
    ----------
    directory : str or Path
        Directory with one folder per dataset. Each folder contains one ``.npy``,
        ``.npz`` or ``.safetensors`` file per encoder, named after the encoder, and a
        file "labels" with one of these suffixes. An optional file "groups" contains the
        group of each row, such as a patient. You may also pass the folder of a single
        dataset.

    Returns
    -------
    datasets : dict
        Maps each dataset's name to a tuple ``(features, labels)``, or ``(features,
        labels, groups)`` if the folder has groups. ``features`` maps each encoder's
        name to an array of shape (n_samples, n_features). Labels and groups have shape
        (n_samples,). Names are sorted.

    Raises
    ------
    FileNotFoundError
        If the directory or the labels of a dataset are missing.
    ValueError
        If the directory has no dataset, a dataset has no features, or a file is
        invalid. Also if a dataset has two files for an encoder, groups in a file of
        another kind, or features and labels of different lengths.
    """
    directory = Path(directory)
    _check_folder(directory)
    if is_dataset(directory):
        return {directory.resolve().name: _load_dataset(directory)}
    places = (p for p in _visible(directory) if p.is_dir() and p.name != "__pycache__")
    folders = sorted(place for place in places if _visible(place))
    if not folders:
        cure = f"store DATASET/ENCODER.npy and DATASET/{_LABELS_STEM}.npy in it"
        raise damaged(directory, "one folder per dataset", "none has files", cure)
    return {folder.name: _load_dataset(folder) for folder in folders}


def is_dataset(folder: Path) -> bool:
    """Return True if a folder contains a file of labels, as a dataset's folder does."""
    return any((folder / f"{_LABELS_STEM}{s}").is_file() for s in _READERS)


def _load_dataset(folder: Path) -> tuple[Any, ...]:
    files = _files_by_stem(folder)
    labels_file, groups_file = files.get(_LABELS_STEM), files.get(_GROUPS_STEM)
    if labels_file is None:
        raise FileNotFoundError(
            f"{folder} must hold the labels, but there is no {_names(_LABELS_STEM)}; "
            f"call np.save({str(folder / 'labels.npy')!r}, y)"
        )
    labels = load_labels(labels_file)
    features = load_encoders(folder, len(labels))
    if groups_file is None:
        if unread := sorted(file.name for file in folder.glob(f"{_GROUPS_STEM}.*")):
            cure = f"call np.save({str(folder / 'groups.npy')!r}, groups)"
            raise damaged(folder, _names(_GROUPS_STEM), f"it has {unread[0]!r}", cure)
        return features, labels
    return features, labels, load_groups(groups_file)


def load_encoders(folder: Path, n_labels: int | None = None) -> dict[str, np.ndarray]:
    """Load the features of all encoders from the folder of one dataset.

    Parameters
    ----------
    folder : Path
    n_labels : int or None
        Required number of rows. If None, the number of rows of the first encoder.

    Returns
    -------
    features : dict of str to ndarray of shape (n_samples, n_features)

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    ValueError
        If there are no features, or if encoders have different numbers of rows.
    """
    _check_folder(folder)
    files = _files_by_stem(folder)
    apart = (_LABELS_STEM, _GROUPS_STEM)
    features = {e: load_features(file) for e, file in files.items() if e not in apart}
    if not features:
        cure = f"store {_names('ENCODER')} for each encoder"
        raise damaged(folder, "at least one feature file", "it has none", cure)
    model = "first encoder" if n_labels is None else "labels"
    n_rows = len(next(iter(features.values()))) if n_labels is None else n_labels
    for encoder, array in features.items():
        if len(array) != n_rows:
            fault = f"encoder {encoder!r} has {len(array)} rows"
            required = f"{n_rows} rows for each encoder, like the {model}"
            raise damaged(folder, required, fault, "save the same rows for all")
    return features


def load_groups(path: str | Path) -> np.ndarray:
    """Load the group of each row of one dataset.

    Parameters
    ----------
    path : str or Path
        As for :func:`load_labels`, except that the name of the array is "groups".

    Returns
    -------
    groups : ndarray of shape (n_samples,)

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        For the reasons given in :func:`load_labels`.
    """
    return _load_vector(path, (_GROUPS_STEM,))


def _load_vector(path: str | Path, names: Sequence[str]) -> np.ndarray:
    values = _load_array(Path(path), names)
    if values.ndim != 1:
        fault, required = f"it has shape {values.shape}", f"{names[0]}, one per sample"
        raise damaged(path, required, fault, "save one column, such as y[:, 0]")
    return values


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} must be a directory that exists, but is not; correct the path"
        )


def _files_by_stem(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for file in sorted(_visible(folder), key=lambda p: (p.stem, p.suffix)):
        if file.suffix not in _READERS or not file.is_file():
            continue
        if file.stem in files:
            both = f"it holds {files[file.stem].name!r} and {file.name!r}"
            raise damaged(folder, f"one file {file.stem!r}", both, "remove one of them")
        files[file.stem] = file
    return files


def _visible(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if not p.name.startswith(".")]


def _names(stem: str) -> str:
    *others, last = (f"{stem}{suffix}" for suffix in _READERS)
    return f"{', '.join(others)} or {last}"


def _load_array(path: Path, names: Collection[str]) -> np.ndarray:
    """Read the array with one of `names`, or the only array of a file."""
    if path.suffix not in _READERS:
        required = f"a file ending in {', '.join(_READERS)}"
        raise invalid("path", required, str(path), "call np.save('X.npy', X)")
    if not path.is_file():
        raise FileNotFoundError(
            f"path must be a file, got {str(path)!r}; call np.save('X.npy', X)"
        )
    required = f"a plain array called {' or '.join(map(repr, names))}, or one array"
    cure = "call np.save('X.npy', X), or np.save('y.npy', y.astype(str)) for text"
    with readable(path, required, cure, *UNREADABLE):
        return _READERS[path.suffix](path, names)


def _read_npy(path: Path, names: Collection[str]) -> np.ndarray:
    array = np.lib.format.open_memmap(path, mode="r")
    if not array.dtype.itemsize:
        raise ValueError(f"its {array.size} values take 0 bytes")
    return array


def _read_npz(path: Path, names: Collection[str]) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as archive:
            name = _choose(archive.files, names)
            check_member(archive.zip, name)
            return np.asarray(archive[name])
    except OSError as error:
        if error.errno == errno.EINVAL:  # the archive refers to a byte before its start
            raise ValueError("parts of the archive are missing") from error
        raise


def check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Raise ValueError if an array in an archive cannot have the size it declares."""
    member = name if name in archive.namelist() else f"{name}.npy"
    info = archive.getinfo(member)
    if info.file_size > MOST_TO_ONE * info.compress_size:
        raise ValueError(f"{member} cannot expand to {info.file_size} bytes")
    with archive.open(member) as file:
        npy = np.lib.format
        is_first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, _, dtype = read(file)
        promised = file.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.itemsize or not (dtype.hasobject or promised == info.file_size):
        raise ValueError(f"{member} has {info.file_size} bytes instead of {promised}")


def _read_safetensors(path: Path, names: Collection[str]) -> np.ndarray:
    with safe_open(path, framework="numpy") as archive:
        return np.asarray(archive.get_tensor(_choose(archive.keys(), names)))


def _choose(present: Collection[str], names: Collection[str]) -> str:
    """Return which of `names` is present, or the name of the only array."""
    candidates = [name for name in names if name in present] or list(present)
    if len(candidates) != 1:
        raise ValueError(f"it holds {sorted(present) or 'no array'}")
    return candidates[0]


_READERS: dict[str, Callable[[Path, Collection[str]], np.ndarray]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}

# Readers raise these for damaged files, pickled objects, types that NumPy lacks
# (bfloat16), and files with other array names.
UNREADABLE = (
    MemoryError,  # an array that fits on disk but not into memory
    RuntimeError,  # an encrypted .npz, or a newer version of the format
    AttributeError,  # 8-bit floats in a .safetensors file
    *DAMAGED_HEADER,
    *(ValueError, TypeError, EOFError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, SafetensorError),
)
