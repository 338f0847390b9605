"""Read images from files, arrays and PIL images."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.validation import invalid

if TYPE_CHECKING:
    from PIL.Image import Image


class Images(Protocol):
    """Indexable images of any of the `KINDS`."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> object: ...


KINDS = (
    "an array (N, H, W, C) or (N, H, W), a list of paths, PIL images or arrays, or a "
    "torch dataset with a length"
)
CHANNELS = (1, 3, 4)  # allowed numbers of channels
DEEP = ("I", "F")  # first letters of PIL modes with more than 8 bits per channel


@dataclass(frozen=True)
class FilePart:
    """An encoded image inside a larger file."""

    path: Path
    offset: int
    length: int

    def read_bytes(self) -> bytes:
        """Read the bytes of the image."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


def as_images(X: object) -> Images:
    """Check that X may contain images, and return it as a sequence of rows.

    Raises
    ------
    TypeError
        If X is a tensor, or is neither an array nor a sequence.
    ValueError
        If X is empty, or an array that does not have three or four axes.
    """
    if isinstance(X, torch.Tensor):
        raise TypeError(
            "Images must be arrays with channels last, got a tensor of shape "
            f"{tuple(X.shape)}; {_tensor_cure(X)}"
        )
    by_row = hasattr(X, "__len__") and hasattr(X, "__getitem__")
    no_rows = isinstance(X, torch.utils.data.IterableDataset) or hasattr(X, "keys")
    has_rows = (by_row and not no_rows) or hasattr(X, "to_numpy")
    if isinstance(X, str | bytes | Path) or not has_rows:
        cure = "pass [image] for one image, or list(images)"
        if hasattr(X, "keys"):
            cure = "pass the images themselves, such as X['image']"
        elif isinstance(X, str | Path) and os.path.isdir(X):
            cure = f"pass sorted(Path({str(X)!r}).rglob('*.*'))"
        raise TypeError(f"Images must be {KINDS}, got {type(X).__name__}; {cure}")
    if hasattr(X, "to_numpy"):  # a column of a data frame
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        is_column = X.dtype.kind in "OU" and X.ndim == 1
        if not is_column and X.ndim not in (3, 4):
            cure = "pass np.asarray(X).reshape(N, H, W), or (N, H, W, 3) for colours"
            cure = "pass one column as a list" if X.dtype.kind in "OU" else cure
            raise invalid("Images", KINDS, X.shape, cure)
    images = cast(Images, X)
    if not len(images):
        cure = "pass [image], or correct the folder or pattern of the files"
        raise ValueError(f"X must hold at least one image, got none; {cure}")
    return images


def _tensor_cure(X: torch.Tensor) -> str:
    """Return how to convert a tensor to images."""
    if X.ndim == 4 and X.shape[1] in CHANNELS:
        return "pass X.permute(0, 2, 3, 1).numpy(force=True)"
    if X.ndim not in (3, 4):
        return "pass X.reshape(N, H, W).numpy(force=True), or (N, H, W, 3) for colours"
    one = ", or [X] for one image" if X.ndim == 3 and X.shape[0] in CHANNELS else ""
    return f"pass X.numpy(force=True){one}"


def item_at(images: Images, row: int) -> object:
    """Return the undecoded image of a row, which may be the first item of a tuple."""
    item = images[row]
    return item[0] if isinstance(item, tuple | list) else item


def located(row: int, item: object) -> str:
    """Describe an image by its row, and by its file if it has one."""
    match item:
        case FilePart():
            return f"row {row} ({str(item.path)!r} at byte {item.offset})"
        case str() | Path():
            return f"row {row} ({str(item)!r})"
    return f"row {row}"


def image_at(images: Images, row: int, mode: str) -> Image:
    """Decode the image of a row.

    Parameters
    ----------
    images : as returned by `as_images`
    row : int
    mode : {"RGB", "L"}
        Mode of the result, colour or grey.

    Raises
    ------
    ValueError
        If the image cannot be read or has more than 8 bits per channel. The message
        names its row and file.
    """
    item = item_at(images, row)
    return decode(item, located(row, item), mode)


def decode(item: object, where: str, mode: str) -> Image:
    """Decode an item of `Images` to an 8-bit PIL image in a given mode."""
    image = _open_image(item, where)
    if image.mode.startswith(DEEP):
        cure = "pass np.asarray(image) / top, if pixels range from 0 to top"
        raise invalid(f"Mode of {where}", "of 8 bits per channel", image.mode, cure)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == mode else image.convert(mode)


def _open_image(item: object, where: str) -> Image:
    pil = needed("PIL.Image", "Reading images", "images")
    if isinstance(item, pil.Image):
        return cast("Image", item)
    if isinstance(item, torch.Tensor):
        item = item.detach().cpu()  # torch datasets have (C, H, W) or (H, W)
        if item.ndim == 3:
            if item.shape[0] not in CHANNELS:
                name, shape = f"The tensor of {where}", tuple(item.shape)
                required = "of shape (H, W) or (C, H, W) with 1, 3 or 4 channels"
                cure = "pass tensor[:1] for one channel"
                if shape[2] in CHANNELS:
                    cure = "pass tensor.permute(2, 0, 1)"
                raise invalid(name, required, shape, cure)
            item = item.permute(1, 2, 0)
        item = np.asarray(item.numpy())
    if isinstance(item, np.ndarray):
        return cast("Image", pil.fromarray(_eight_bits(item, where)))
    if not isinstance(item, str | Path | FilePart | bytes):
        cure = "pass np.asarray(X)" if isinstance(item, list) else "pass a path"
        if isinstance(item, dict):
            cure = "pass [row['image'] for row in X]"
        kind = f"but {where} is of type {type(item).__name__}"
        raise TypeError(f"Images must be {KINDS}, {kind}; {cure}")
    try:
        content = item.read_bytes() if isinstance(item, FilePart) else item
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        with pil.open(file) as image:
            image.load()
            return cast("Image", image)
    except Exception as error:  # PIL may raise anything for a broken file
        raise unreadable(where, error) from error


def unreadable(where: str, error: Exception) -> ValueError:
    """Return the error for an image that cannot be read."""
    cure = "correct its path, or " if getattr(error, "errno", None) else ""
    cure += "omit this row"
    return ValueError(f"The image of {where} cannot be read ({error}); {cure}")


def _eight_bits(array: np.ndarray, where: str) -> np.ndarray:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in CHANNELS)
    if not fits or not array.size:
        required = "(H, W) or (H, W, C) with 1, 3 or 4 channels"
        cure = "pass image.transpose(1, 2, 0) for channels first, or image[:, :, :1]"
        if array.ndim != 3:
            cure = "pass image[0] of a batch, or image.reshape(H, W) of a vector"
        if not array.size:
            cure = "omit this row"
        raise invalid(f"Shape of {where}", required, array.shape, cure)
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    is_float = array.dtype.kind == "f"
    if is_float and array.min() >= 0 and array.max() <= 1:  # false if any is NaN
        return np.asarray(np.rint(array * 255), dtype=np.uint8)
    given = f"{array.dtype}, from {array.min():g} to {array.max():g}"
    cure = "if pixels range from low to high, pass (image - low) / (high - low)"
    if is_float and np.isnan(array).any():
        cure = "pass np.nan_to_num(image)"
    required = "uint8 or floats from 0 to 1"
    raise ValueError(f"Pixels of {where} must be {required}, got {given}; {cure}")
