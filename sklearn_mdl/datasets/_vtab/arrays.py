"""Tasks with images in arrays: CIFAR-100, SVHN, PatchCamelyon and dSprites."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl.datasets._files import check_member
from sklearn_mdl.datasets._vtab import data
from sklearn_mdl.datasets._vtab.folders import datasets

READ_AT_ONCE = 4096  # images of dSprites


def cifar100(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read torchvision's CIFAR100."""
    for name in (data.TRAIN, data.TEST):
        raw = datasets().CIFAR100(folder, train=name == data.TRAIN)
        yield name, raw.data, raw.targets


def svhn(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read torchvision's SVHN, with channels last."""
    for name in (data.TRAIN, data.TEST):
        raw = datasets().SVHN(folder, split=name)
        yield name, raw.data.transpose(0, 2, 3, 1), np.atleast_1d(raw.labels)


@contextmanager
def _hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file, and name the file in errors."""
    h5py = needed("h5py", "load_vtab", "vtab")
    cure = "download and unpack it again"
    with (
        readable(path, "HDF5 as published by its owners", cure, OSError, KeyError),
        h5py.File(path, "r") as file,
    ):
        yield file


class _Patches:
    """Images inside one HDF5 file.

    The file is opened for each image, so several processes can read images.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _hdf5(path) as file:
            self.n_images = len(file["x"])

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, i: int) -> object:
        with _hdf5(self.path) as file:
            return file["x"][i]


def patch_camelyon(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read the owners' HDF5 files, since torchvision reads labels one by one."""
    own_names = {data.TRAIN: "train", data.VALIDATION: "valid", data.TEST: "test"}
    for name, part in own_names.items():
        stem = folder / "pcam" / f"camelyonpatch_level_2_split_{part}"
        with _hdf5(Path(f"{stem}_y.h5")) as file:
            labels = np.asarray(file["y"][:]).reshape(-1)
        yield name, _Patches(Path(f"{stem}_x.h5")), labels


class _Bits:
    """Binary images with eight pixels per byte (0.4 GB instead of 3 GB)."""

    def __init__(self, packed: np.ndarray, shape: tuple[int, int]) -> None:
        self.packed = packed
        self.shape = shape

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, i: int) -> np.ndarray:
        bits = np.unpackbits(self.packed[i], count=self.shape[0] * self.shape[1])
        return bits.reshape(self.shape) * np.uint8(255)


# Column of each task's latent variable, and the number of this variable's values.
LATENTS = {"DSpritesLocation": (4, 32), "DSpritesOrientation": (3, 40)}
N_BINS = 16


def dsprites(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read white sprites on black, labelled with a position or angle in 16 bins."""
    path = folder / task.files[0]
    column, n_values = LATENTS[task.name]
    with np.load(path, allow_pickle=False) as archive:
        check_member(archive.zip, "latents_classes")
        values = archive["latents_classes"][:, column]
    yield None, _read_bits(path), values * N_BINS // n_values


def _read_bits(path: Path) -> _Bits:
    """Read the images of an .npz file, a few at a time to save memory."""
    with zipfile.ZipFile(path) as archive, archive.open("imgs.npy") as file:
        check_member(archive, "imgs")
        np.lib.format.read_magic(file)
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype != np.uint8 or len(shape) != 3 or by_column:
            raise ValueError(f"{path} holds images of shape {shape} and dtype {dtype}")
        n, height, width = shape
        packed = np.empty((n, -(-height * width // 8)), np.uint8)
        for start in range(0, n, READ_AT_ONCE):
            stop = min(start + READ_AT_ONCE, n)
            content = file.read((stop - start) * height * width)
            pixels = np.frombuffer(content, np.uint8).reshape(stop - start, -1)
            packed[start:stop] = np.packbits(pixels, axis=1)
    return _Bits(packed, (height, width))
