"""Reader of SmallNORB, whose images and labels are in binary matrix files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from sklearn_mdl.datasets._vtab import data

# The first four bytes of a file give the number type, as documented by the authors.
TYPES: dict[int, np.dtype] = {
    0x1E3D4C51: np.dtype("<f4"),
    0x1E3D4C53: np.dtype("<f8"),
    0x1E3D4C54: np.dtype("<i4"),
    0x1E3D4C55: np.dtype("u1"),
    0x1E3D4C56: np.dtype("<i2"),
}
ELEVATION, AZIMUTH = 1, 2  # columns of the info files; azimuths are 0, 2, ..., 34
READ_AT_ONCE = 256  # pairs of images


def smallnorb(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read the left camera's images, labelled with one of the camera's angles."""
    for name, file in ((data.TRAIN, task.files[0]), (data.TEST, task.files[2])):
        stem = file.removesuffix("-dat.mat")
        images = read_matrix(_existing_path(folder / f"{stem}-dat.mat"), left=True)
        info = read_matrix(_existing_path(folder / f"{stem}-info.mat"))
        is_azimuth = task.name == "SmallNORBAzimuth"
        labels = info[:, AZIMUTH] // 2 if is_azimuth else info[:, ELEVATION]
        yield name, images, labels


def _existing_path(path: Path) -> Path:
    return path if path.exists() else path.with_name(f"{path.name}.gz")


def read_matrix(path: Path, *, left: bool = False) -> np.ndarray:
    """Read a matrix file.

    The file contains the number type, the number of axes, at least three axis lengths,
    and the numbers.

    Parameters
    ----------
    path : Path
        A ``.mat`` file (not Matlab's), possibly compressed as ``.gz``.
    left : bool, default=False
        Keep only the first image of each pair in a matrix (N, 2, H, W).

    Returns
    -------
    matrix : ndarray

    Raises
    ------
    ValueError
        If the file has another format or is too short.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return _read(cast(BinaryIO, file), path, left)


def _read(file: BinaryIO, path: Path, left: bool) -> np.ndarray:
    magic, n_axes = (int(n) for n in _numbers(file, path, np.dtype("<i4"), 2))
    if magic not in TYPES or not 0 < n_axes < 10:
        raise ValueError(f"{path} begins with {magic:#010x}, not with a matrix type")
    shape = _numbers(file, path, np.dtype("<i4"), max(3, n_axes))[:n_axes].tolist()
    dtype, width = TYPES[magic], int(np.prod(shape[1:]))
    if not left:
        return _numbers(file, path, dtype, shape[0] * width).reshape(shape)
    kept = np.empty((shape[0], *shape[2:]), dtype)
    for start in range(0, shape[0], READ_AT_ONCE):
        stop = min(start + READ_AT_ONCE, shape[0])
        block = _numbers(file, path, dtype, (stop - start) * width)
        kept[start:stop] = block.reshape(stop - start, *shape[1:])[:, 0]
    return kept


def _numbers(file: BinaryIO, path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    content = file.read(count * dtype.itemsize)
    if len(content) < count * dtype.itemsize:
        n_read = len(content) // dtype.itemsize
        raise ValueError(f"{path} ends after {n_read} of the next {count} numbers")
    return np.frombuffer(content, dtype)
