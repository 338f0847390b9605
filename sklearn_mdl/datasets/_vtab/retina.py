"""Photographs of eyes, processed by the method that won Kaggle's 2015 competition.

VTAB uses the data after this processing ("btgraham-300" of TensorFlow Datasets). Eyes
are scaled to the same radius, their local average is subtracted, and pixels beyond nine
tenths of the radius are greyed out.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.images.reading import decode

if TYPE_CHECKING:
    from PIL.Image import Image

RADIUS = 300  # pixels
KEPT = 0.9  # share of the radius that stays visible
QUALITY = 72  # quality of the intermediate JPEG
GREY = 128
PROCESSING = f"btgraham-{RADIUS}"


def open_retina(path: Path) -> Image:
    """Open a photograph and process it.

    Parameters
    ----------
    path : Path

    Returns
    -------
    image : PIL.Image.Image
    """
    where = repr(str(path))
    image = decode(path, where, "RGB")
    pixels = mask_and_crop(subtract_local_average(scale_to_radius(image)))
    pil = needed("PIL.Image", "Reading images", "vtab")
    buffer = io.BytesIO()
    pil.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return decode(buffer.getvalue(), where, "RGB")


def scale_to_radius(image: Image, radius: int = RADIUS) -> np.ndarray:
    """Scale an image so that its eye has a given radius.

    The eye's radius is half the number of pixels in the middle row that are brighter
    than a tenth of that row's mean. If fewer than two pixels are, the radius is half
    the image's height.
    """
    pil = needed("PIL.Image", "Reading images", "vtab")
    pixels = np.asarray(image)
    row = pixels[len(pixels) // 2].sum(axis=1, dtype=np.int64)
    measured = np.count_nonzero(row > row.mean() / 10) / 2
    scale = radius / (measured if measured >= 1 else len(pixels) / 2)
    width, height = (max(1, round(n * scale)) for n in image.size)
    # As in OpenCV, interpolate between four pixels, even when the image shrinks.
    steps = (1 / scale, 0, 0, 0, 1 / scale, 0)
    affine, linear = pil.Transform.AFFINE, pil.Resampling.BILINEAR
    return np.asarray(image.transform((width, height), affine, steps, linear))


def subtract_local_average(pixels: np.ndarray, radius: int = RADIUS) -> np.ndarray:
    """Return grey plus four times each pixel's difference from its local average."""
    values = pixels.astype(np.float32)
    sigma = (radius / 30, radius / 30, 0)
    average = gaussian_filter(values, sigma, mode="mirror", truncate=3.0)
    centred = np.rint(4 * (values - np.rint(average)) + GREY)
    return np.asarray(np.clip(centred, 0, 255).astype(np.uint8))


def mask_and_crop(pixels: np.ndarray) -> np.ndarray:
    """Grey out pixels outside a central circle, and crop to the square around it."""
    height, width = pixels.shape[:2]
    y, x, r = height // 2, width // 2, int(RADIUS * KEPT)
    rows, columns = np.ogrid[:height, :width]
    outside = (rows - y) ** 2 + (columns - x) ** 2 > r**2
    masked = np.where(outside[:, :, None], np.uint8(GREY), pixels)
    return np.ascontiguousarray(masked[max(y - r, 0) : y + r, max(x - r, 0) : x + r])
