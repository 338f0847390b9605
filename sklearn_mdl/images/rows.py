"""Images as rows of pixels: so a walk takes them as it takes features."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, uint8

from sklearn_mdl.images.extras import needed
from sklearn_mdl.images.reading import as_images, image_at, located

CHANNELS = {"RGB": 3, "L": 1}
CHECKED_AT_ONCE = 2**24  # numbers
Shape = tuple[int, int, int]  # height, width, channels


def image_rows(
    images: Any,
    size: Any = None,
    *,
    mode: str = "RGB",
    path: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """Make rows of pixels of images, as readouts that look at images take them.

    Parameters
    ----------
    images : images
        An array (N, H, W, C) or (N, H, W), uint8 or floats from 0 to 1; a list of
        paths, PIL images or arrays; or a torch dataset with a length.
    size : int or (int, int), default=None
        Height and width. Images are cropped at the centre to this aspect and resized
        (bicubic, with Pillow). None takes images of one size as they are.
    mode : {"RGB", "L"}, default="RGB"
        Colour or grey: three numbers a pixel, or one.
    path : path-like, default=None
        A ``.npy`` file for the rows, which is whole or not there. A walk reads them
        where they lie, so that they may be more than memory holds.

    Returns
    -------
    rows : ndarray of shape (N, H * W * C), uint8
        A read-only memory map of the file, if there is one. Of an array that holds
        such pixels already, a view.

    Raises
    ------
    ValueError
        Naming the row and file, if an image cannot be read or has another size.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import image_rows
    >>> image_rows(load_digits().images / 16, mode="L").shape
    (1797, 64)
    """
    if mode not in CHANNELS:
        raise ValueError(f"mode must be 'RGB' or 'L', got {mode!r}; choose one of them")
    images = as_images(images)
    wanted = _height_and_width(size)
    if _is_ready(images, wanted, CHANNELS[mode]):
        rows = images.reshape(len(images), -1)
        return rows if path is None else _written(rows, Path(path))
    first = _pixels(images, 0, mode, wanted)
    rows = _room((len(images), first.size), path)
    try:
        for row in range(len(images)):
            pixels = _pixels(images, row, mode, wanted)
            _check_shape(pixels, first, row, images)
            rows[row] = pixels.ravel()
    except BaseException:
        if path is not None:
            _part(Path(path)).unlink()
        raise
    return rows if path is None else _finished(rows, Path(path))


def _check_shape(pixels: np.ndarray, first: np.ndarray, row: int, images: Any) -> None:
    if pixels.shape != first.shape:
        raise ValueError(
            f"Images must be of one size, but that of {located(row, images[row])} has "
            f"shape {pixels.shape} and the first {first.shape}; pass a size"
        )


def _height_and_width(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, Iterable) else (size, size)
    if len(pair) != 2 or not all(_is_count(n) for n in pair):
        raise ValueError(
            f"size must be one or two positive integers, got {size!r}; pass for "
            "example 224"
        )
    return int(pair[0]), int(pair[1])


def _is_count(number: Any) -> bool:
    return isinstance(number, Integral) and int(number) > 0


def _is_ready(images: Any, size: tuple[int, int] | None, n_channels: int) -> bool:
    """Whether these are such pixels already."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        return False
    n_own = images.shape[3] if images.ndim == 4 else 1
    return n_own == n_channels and size in (None, images.shape[1:3])


def _pixels(
    images: Any, row: int, mode: str, size: tuple[int, int] | None
) -> np.ndarray:
    image = image_at(images, row, mode)
    if size is not None:
        pil = needed("PIL.Image", "image_rows", "images")
        ops = needed("PIL.ImageOps", "image_rows", "images")
        image = ops.fit(image, size[::-1], method=pil.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.uint8)


def _room(shape: tuple[int, int], path: Any) -> np.ndarray:
    if path is None:
        return np.empty(shape, np.uint8)
    return np.lib.format.open_memmap(_part(Path(path)), "w+", np.uint8, shape)


def _part(path: Path) -> Path:
    if path.suffix != ".npy":
        raise ValueError(
            f"path must end in .npy, got {str(path)!r}; name it {path.stem}.npy"
        )
    return path.with_suffix(".part.npy")


def _written(rows: np.ndarray, path: Path) -> np.ndarray:
    room = _room(rows.shape, path)
    room[:] = rows
    return _finished(room, path)


def _finished(rows: np.ndarray, path: Path) -> np.ndarray:
    if isinstance(rows, np.memmap):
        rows.flush()
    _part(path).replace(path)
    found: np.ndarray = np.load(path, mmap_mode="r")
    return found


def image_shape_of(n_features: int, image_shape: Any) -> Shape:
    """Return height, width and channels of images whose rows have so many pixels.

    Parameters
    ----------
    n_features : int
    image_shape : (H, W, C), (H, W) or None
        None takes squares of one or three channels: no number of pixels is that of
        both.

    Raises
    ------
    ValueError
        If no image of that shape has so many pixels.
    """
    if image_shape is None:
        for n_channels in CHANNELS.values():
            side = math.isqrt(n_features // n_channels)
            if side and side * side * n_channels == n_features:
                return side, side, n_channels
        raise ValueError(
            "Rows must hold the pixels of square images of one or three channels, got "
            f"{n_features} columns; make them with image_rows or pass image_shape"
        )
    shape = tuple(image_shape)
    full = (*shape, 1) if len(shape) == 2 else shape
    whole = all(_is_count(n) for n in full)
    if len(full) != 3 or not whole or math.prod(full) != n_features:
        raise ValueError(
            f"image_shape must be (H, W, C) with the {n_features} numbers of a row, got"
            f" {image_shape!r}; pass the shape of one image"
        )
    return int(full[0]), int(full[1]), int(full[2])


def check_pixels(X: np.ndarray) -> None:
    """Raise ValueError unless rows (n, d) hold whole numbers from 0 to 255."""
    if X.dtype == np.uint8:
        return
    step = max(1, CHECKED_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        strange = ~((rows >= 0) & (rows <= 255) & (rows == np.floor(rows)))
        if strange.any():
            row, column = np.argwhere(strange)[0]
            raise ValueError(
                "Rows of pixels must hold whole numbers from 0 to 255, but row "
                f"{start + row}, column {column} holds {rows[row, column]:g}; make them"
                " with image_rows"
            )


def pixels_of(rows: Tensor, shape: Shape) -> Tensor:
    """Turn rows (n, d) into images (n, H, W, C), uint8."""
    return rows.to(uint8).view(-1, *shape)
