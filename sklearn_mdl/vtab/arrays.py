"""Tasks whose images lie in arrays: CIFAR-100, SVHN, PatchCamelyon and dSprites."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.images import LazyImages
from sklearn_mdl.images.extras import needed
from sklearn_mdl.images.lazy import Chain
from sklearn_mdl.vtab.data import (
    TEST,
    TRAIN,
    VALIDATION,
    UnfitFilesError,
    VtabData,
    joined,
)
from sklearn_mdl.vtab.folders import datasets
from sklearn_mdl.vtab.tasks import VtabTask

READ_AT_ONCE = 4096  # images of dSprites


def cifar100(task: VtabTask, folder: Path) -> VtabData:
    """Read torchvision's CIFAR100."""
    found = [datasets().CIFAR100(folder, train=train) for train in (True, False)]
    images = LazyImages(np.concatenate([part.data for part in found]))
    labels = [label for part in found for label in part.targets]
    return joined(task, images, labels, _lengths(TRAIN, TEST, parts=found))


def svhn(task: VtabTask, folder: Path) -> VtabData:
    """Read torchvision's SVHN, channels last."""
    found = [datasets().SVHN(folder, split=split) for split in ("train", "test")]
    images = [part.data.transpose(0, 2, 3, 1) for part in found]
    labels = np.concatenate([np.atleast_1d(part.labels) for part in found])
    parts = _lengths(TRAIN, TEST, parts=found)
    return joined(task, LazyImages(np.concatenate(images)), labels, parts)


def _lengths(*names: str, parts: Sequence[Any]) -> list[tuple[str, int]]:
    return [(name, len(part)) for name, part in zip(names, parts, strict=True)]


@contextmanager
def _hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file; the library's own messages do not name it."""
    h5py = needed("h5py", "load_vtab", "vtab")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except FileNotFoundError:
        raise
    except (OSError, KeyError) as error:
        raise UnfitFilesError(
            f"{path} must be the HDF5 file that its owners publish, but it cannot be "
            f"read ({str(error).strip(chr(34))}); fetch and unpack it again"
        ) from error


class _Patches(Sequence[Any]):
    """Images inside one HDF5 file, which is opened at each look.

    So they can be pickled, and be read by several processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _hdf5(path) as file:
            self.n_images = len(file["x"])

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, i: Any) -> Any:
        with _hdf5(self.path) as file:
            return file["x"][i]


def patch_camelyon(task: VtabTask, folder: Path) -> VtabData:
    """Read the owners' HDF5 files; torchvision's class reads labels one by one."""
    images, labels = [], []
    for part in ("train", "valid", "test"):
        stem = folder / "pcam" / f"camelyonpatch_level_2_split_{part}"
        with _hdf5(Path(f"{stem}_y.h5")) as file:
            labels.append(np.asarray(file["y"][:]).reshape(-1))
        images.append(_Patches(Path(f"{stem}_x.h5")))
    parts = _lengths(TRAIN, VALIDATION, TEST, parts=labels)
    return joined(task, LazyImages(Chain(images)), np.concatenate(labels), parts)


class _Bits(Sequence[Any]):
    """Images of zeros and ones, eight pixels in a byte: 0.4 GB instead of 3."""

    def __init__(self, packed: np.ndarray, shape: tuple[int, int]) -> None:
        self.packed = packed
        self.shape = shape

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, i: Any) -> Any:
        n_pixels = self.shape[0] * self.shape[1]
        bits = np.unpackbits(self.packed[i], count=n_pixels)
        return bits.reshape(self.shape) * np.uint8(255)


LOCATION, ORIENTATION = 4, 3  # columns of the latents: colour, shape, scale, ...
N_BINS = 16


def dsprites(task: VtabTask, folder: Path) -> VtabData:
    """Read the owners' .npz: white sprites on black, positions or angles in 16 bins."""
    path = folder / task.files[0]
    column, n_values = {
        "DSpritesLocation": (LOCATION, 32),
        "DSpritesOrientation": (ORIENTATION, 40),
    }[task.name]
    with np.load(path, allow_pickle=False) as archive:
        values = archive["latents_classes"][:, column]
    images = LazyImages(_read_bits(path))
    return joined(task, images, values * N_BINS // n_values, None)


def _read_bits(path: Path) -> _Bits:
    """Read the images of an .npz a few at a time: no array of all is made."""
    with zipfile.ZipFile(path) as archive, archive.open("imgs.npy") as file:
        np.lib.format.read_magic(file)
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype != np.uint8 or len(shape) != 3 or by_column:
            raise UnfitFilesError(
                f"{path} must hold images (N, H, W) of uint8, got shape {shape} and "
                f"dtype {dtype}; fetch it again"
            )
        n, height, width = shape
        packed = np.empty((n, -(-height * width // 8)), np.uint8)
        for start in range(0, n, READ_AT_ONCE):
            stop = min(start + READ_AT_ONCE, n)
            content = file.read((stop - start) * height * width)
            pixels = np.frombuffer(content, np.uint8).reshape(stop - start, -1)
            packed[start:stop] = np.packbits(pixels, axis=1)
    return _Bits(packed, (height, width))
