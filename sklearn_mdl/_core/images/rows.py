"""Images as rows of pixels, so that readouts accept them like features."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path

import numpy as np
from torch import Tensor, uint8

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.images.reading import Images, as_images, image_at, located
from sklearn_mdl._core.io.whole_files import refuse_foreign, replaced
from sklearn_mdl._core.validation import CHECKED_AT_ONCE, invalid

CHANNELS = {"RGB": 3, "L": 1}
Shape = tuple[int, int, int]  # height, width, channels


def image_rows(
    images: object,
    size: int | Sequence[int] | None = None,
    *,
    mode: str = "RGB",
    path: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """Convert images to rows of pixels, for readouts that take images.

    Parameters
    ----------
    images : array, sequence or torch dataset
        An array (N, H, W, C) or (N, H, W) of uint8 or of floats from 0 to 1. A list of
        paths, PIL images or arrays also works, and so does a torch dataset with a
        length.
    size : int or (int, int), default=None
        Height and width. Images are cropped at the centre to this aspect ratio and
        resized (bicubic, with Pillow). If None, all images must have the same size.
    mode : {"RGB", "L"}, default="RGB"
        Colour with three numbers per pixel, or grey with one.
    path : path-like, default=None
        A ``.npy`` file for the rows, written atomically. Rows are read from the file as
        needed, so they may be larger than memory.

    Returns
    -------
    rows : ndarray of shape (N, H * W * C), uint8
        With `path`, a read-only memory map of the file. Otherwise a new array, or a
        view of `images` if no conversion is needed.

    Raises
    ------
    ValueError
        If an image cannot be read, or if it differs in size from the first. The message
        names its row and file. Also if `path` exists or does not end in ``.npy``, or if
        another argument is invalid.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.encoders import image_rows
    >>> image_rows(load_digits().images / 16, mode="L").shape
    (1797, 64)
    """
    if mode not in CHANNELS:
        raise invalid("mode", "'RGB' or 'L'", mode, "pass mode='RGB'")
    images = as_images(images)
    target = _height_and_width(size)
    is_ready = _is_ready(images, target, CHANNELS[mode])
    if is_ready and path is None:
        return np.asarray(images).reshape(len(images), -1)
    first = np.asarray(images[0]) if is_ready else _pixels(images, 0, mode, target)
    shape = len(images), first.size

    def fill(rows: np.ndarray) -> np.ndarray:
        if is_ready:
            rows[:] = np.asarray(images).reshape(shape)
            return rows
        for row in range(len(images)):
            pixels = _pixels(images, row, mode, target)
            if pixels.shape != first.shape:
                where = located(row, images[row])
                required = f"of shape {first.shape}, like the first image"
                cure = "for example, pass size=224"
                raise invalid(where, required, pixels.shape, cure)
            rows[row] = pixels.ravel()
        return rows

    if path is None:
        return fill(np.empty(shape, np.uint8))
    path = Path(path)
    if path.suffix != ".npy":
        cure = f"pass path={str(path.with_suffix('.npy'))!r}"
        raise invalid("path", "a .npy file", str(path), cure)
    refuse_foreign(path)
    with replaced(path) as aside:
        mapped = np.lib.format.open_memmap(aside, "w+", np.uint8, shape)
        fill(mapped)
        mapped.flush()
    return np.lib.format.open_memmap(path, mode="r")


def _height_and_width(size: object) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, Iterable) else (size, size)
    if len(pair) != 2 or not all(map(_is_count, pair)):
        required = "None, a positive integer or a pair of them"
        raise invalid("size", required, size, "for example, pass size=224")
    return int(pair[0]), int(pair[1])


def _is_count(number: object) -> bool:
    return isinstance(number, Integral) and int(number) > 0


def _is_ready(images: Images, size: tuple[int, int] | None, n_channels: int) -> bool:
    """Return True for an array of pixels that need no conversion."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        return False
    n_own = images.shape[3] if images.ndim == 4 else 1
    return n_own == n_channels and size in (None, images.shape[1:3])


def _pixels(
    images: Images, row: int, mode: str, size: tuple[int, int] | None
) -> np.ndarray:
    image = image_at(images, row, mode)
    if size is not None:
        pil = needed("PIL.Image", "image_rows", "images")
        ops = needed("PIL.ImageOps", "image_rows", "images")
        image = ops.fit(image, size[::-1], method=pil.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.uint8)


def image_shape_of(n_features: int, image_shape: Sequence[int] | None) -> Shape:
    """Return height, width and channels of images, given the number of features.

    Parameters
    ----------
    n_features : int
    image_shape : (H, W, C), (H, W) or None
        If None, images must be square, with one or three channels. `n_features`
        determines which.

    Raises
    ------
    ValueError
        If images of that shape do not have `n_features` numbers.
    """
    if image_shape is None:
        for n_channels in CHANNELS.values():
            side = math.isqrt(n_features // n_channels)
            if side and side * side * n_channels == n_features:
                return side, side, n_channels
        required, cure = "H * H or 3 * H * H", "pass image_shape=(H, W, C)"
        raise invalid("The length of rows", required, n_features, cure)
    shape = (*image_shape, 1) if len(image_shape) == 2 else tuple(image_shape)
    whole = all(map(_is_count, shape))
    if len(shape) != 3 or not whole or math.prod(shape) != n_features:
        required = f"(H, W) or (H, W, C) with product {n_features}, the length of rows"
        cure = "pass image_shape=(H, W, C) of the images"
        raise invalid("image_shape", required, image_shape, cure)
    return int(shape[0]), int(shape[1]), int(shape[2])


def check_pixels(X: np.ndarray) -> None:
    """Raise ValueError unless rows (n, d) hold whole numbers from 0 to 255."""
    if X.dtype == np.uint8:
        return
    step = max(1, CHECKED_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        refused = ~((rows >= 0) & (rows <= 255) & (rows == np.floor(rows)))
        if refused.any():
            row, column = np.argwhere(refused)[0]
            place = f"The pixel in row {start + row}, column {column}"
            given, required = float(rows[row, column]), "a whole number from 0 to 255"
            raise invalid(place, required, given, "pass image_rows(images)")


def pixels_of(rows: Tensor, shape: Shape) -> Tensor:
    """Turn rows (n, d) into uint8 images (n, H, W, C)."""
    return rows.to(uint8).view(-1, *shape)
