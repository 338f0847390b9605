"""Images as people have them, one by one: arrays, files, PIL images, torch datasets."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sklearn_mdl.images.extras import needed

KINDS = (
    "an array (N, H, W, C) or (N, H, W), a list of paths, PIL images or arrays, or a "
    "torch dataset with a length"
)
DEEP = ("I", "F")  # modes of more than 8 bits a channel begin so


@dataclass(frozen=True)
class FilePart:
    """An encoded image inside a larger file."""

    path: Path
    offset: int
    length: int

    def read_bytes(self) -> bytes:
        """Read it."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


def as_images(X: Any) -> Any:
    """Check that X holds images, and return it with a length and rows.

    Raises
    ------
    TypeError
        If it is nothing that holds images.
    ValueError
        If it is empty, or an array of another shape.
    """
    if isinstance(X, torch.Tensor):
        raise TypeError(
            "Images must come as arrays with channels last, got a tensor of shape "
            f"{tuple(X.shape)}; pass X.permute(0, 2, 3, 1).numpy()"
        )
    if isinstance(X, str | bytes | Path) or not _has_rows(X):
        raise TypeError(f"Images must be {KINDS}, got {type(X).__name__}; pass a list")
    if hasattr(X, "to_numpy"):  # a column of a data frame
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        X = _checked_array(X)
    if not len(X):
        raise ValueError("Images must be at least one, got none; pass more")
    return X


def _has_rows(X: Any) -> bool:
    is_iterable_dataset = isinstance(X, torch.utils.data.IterableDataset)
    return (
        hasattr(X, "__len__")
        and hasattr(X, "__getitem__")
        and not is_iterable_dataset
        and not hasattr(X, "keys")
    ) or hasattr(X, "to_numpy")


def _checked_array(X: np.ndarray) -> np.ndarray:
    if X.dtype.kind in "OU" and X.ndim == 1:
        return X
    if X.ndim not in (3, 4):
        raise ValueError(
            f"Images must be {KINDS}, got an array of shape {X.shape} and dtype "
            f"{X.dtype}; give every image its height and width"
        )
    return X


def located(row: int, item: Any) -> str:
    """Say where an image is: its row, and its file if it has one."""
    match item:
        case FilePart():
            return f"row {row} ({str(item.path)!r} at byte {item.offset})"
        case str() | Path():
            return f"row {row} ({str(item)!r})"
    return f"row {row}"


def image_at(images: Any, row: int, mode: str) -> Any:
    """Decode the image of a row.

    Parameters
    ----------
    images : as `as_images` returns them
    row : int
    mode : {"RGB", "L"}
        Colour or grey.

    Returns
    -------
    image : PIL.Image.Image

    Raises
    ------
    ValueError
        Naming the row and file, if it cannot be read, or is no image of 8 bits a
        channel.
    """
    item = images[row]
    if isinstance(item, tuple | list):  # an example of a dataset: the image comes first
        item = item[0]
    where = located(row, item)
    return convert(open_image(item, where), where, mode)


def open_image(item: Any, where: str) -> Any:
    """Make a PIL image of a path, bytes, an array, a tensor or such an image."""
    pil = needed("PIL.Image", "Reading images", "images")
    if isinstance(item, pil.Image):
        return item
    if isinstance(item, torch.Tensor):
        item = _channels_last(item, where)
    if isinstance(item, np.ndarray):
        return pil.fromarray(_eight_bits(item, where))
    if isinstance(item, FilePart):
        item = item.read_bytes()
    if isinstance(item, bytes):
        item = io.BytesIO(item)
    elif not isinstance(item, str | Path):
        raise TypeError(
            f"Images must be {KINDS}, but {where} holds {type(item).__name__}; convert "
            "it first"
        )
    try:
        with pil.open(item) as image:
            image.load()
            return image
    except Exception as error:  # a broken file may make PIL raise anything
        raise ValueError(
            f"Images must be readable, but that of {where} is not ({error}); mend it or"
            " leave it out"
        ) from error


def convert(image: Any, where: str, mode: str) -> Any:
    """Bring a PIL image of any kind to colour or grey of 8 bits."""
    if image.mode.startswith(DEEP):
        raise ValueError(
            f"Images must have 8 bits a channel, but that of {where} has mode "
            f"{image.mode!r}; scale its values to 0 to 255 first"
        )
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == mode else image.convert(mode)


def _channels_last(tensor: torch.Tensor, where: str) -> np.ndarray:
    """Turn what torch datasets hold, (C, H, W) or (H, W), into an array."""
    array = tensor.detach().cpu()
    if array.ndim == 3:
        if array.shape[0] not in (1, 3, 4):
            raise ValueError(
                "Tensors in a dataset must have shape (C, H, W) with 1, 3 or 4 "
                f"channels, but {where} has {tuple(array.shape)}; permute its axes"
            )
        array = array.permute(1, 2, 0)
    return np.asarray(array.numpy())


def _eight_bits(array: np.ndarray, where: str) -> np.ndarray:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not fits or not array.size:
        raise ValueError(
            "An image must have shape (H, W) or (H, W, C) with 1, 3 or 4 channels, but "
            f"that of {where} has {array.shape}; convert it first"
        )
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype.kind != "f":
        raise ValueError(
            "Pixels must be uint8, or floats from 0 to 1, but those of "
            f"{where} have dtype {array.dtype}; convert them first"
        )
    if not (array.min() >= 0 and array.max() <= 1):  # also if any is NaN
        raise ValueError(
            "Pixels must be uint8, or floats from 0 to 1, but those of "
            f"{where} go from {array.min():g} to {array.max():g}; scale them first"
        )
    return np.asarray(np.rint(array * 255), dtype=np.uint8)
