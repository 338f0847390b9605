"""Copies of data, so that encoders cannot change what other encoders are given."""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import MutableMapping
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor

from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.encoders._base import ImageEncoder

_CONSTANTS = {str, bytes, int, float, bool, type(None)}
_FAULT = "sklearn_mdl_fault"  # attribute of damaged images


def protected(data: Any, encoder: Any = None) -> Any:
    """Protect data against changes by an encoder.

    Arrays, data frames, sparse matrices, tensors and PIL's images are copied. Lists,
    tuples, dicts and sets are copied with their items. Anything else is returned
    unchanged: read-only memory maps, objects of other classes, read-only dicts, and
    images of several frames, of which PIL copies only one. Copies of polars frames
    share numbers and objects with the original, and copies of pandas frames share Arrow
    columns. Arrays of numbers are not copied for an ``ImageEncoder``, whose own code
    never changes them. Copies of images lack edits to EXIF data, the EXIF data of
    TIFFs, and attributes such as ``text``. Copies of dicts share attributes.

    Raises
    ------
    ValueError
        If an image of one frame is damaged, or if PIL cannot count the frames of an
        image. The message names its file.
    """
    numbers = isinstance(data, np.ndarray) and data.dtype != object
    return data if numbers and isinstance(encoder, ImageEncoder) else _copied(data, {})


def _copied(part: Any, copies: dict[int, Any]) -> Any:
    """Return the copy of a part. `copies` has each part and its copy, by id."""
    if type(part) in _CONSTANTS:
        return part
    if id(part) not in copies:  # it may be in several rows, or in itself
        copies.setdefault(id(part), (part, _copy_of(part, copies)))
    return copies[id(part)][1]


def _copy_of(data: Any, copies: dict[int, Any]) -> Any:
    kind = type(data)
    if isinstance(data, np.ndarray) and data.dtype == object:
        return np.frompyfunc(lambda part: _copied(part, copies), 1, 1)(data)
    if isinstance(data, np.ndarray) and is_mapped(data) and not data.flags.writeable:
        return data
    if issparse(data) or isinstance(data, np.ndarray) or kind in (set, bytearray):
        return data.copy() if issparse(data) else copy(data)
    if kind is list or isinstance(data, dict | UserDict):
        return _items_copy(data, copies)
    if kind is tuple or (isinstance(data, tuple) and hasattr(kind, "_make")):
        return getattr(kind, "_make", kind)(_copied(part, copies) for part in data)
    if hasattr(kind, "iloc"):
        return _frame_copy(data, copies)
    if isinstance(data, getattr(sys.modules.get("PIL.Image"), "Image", ())):
        return _image_copy(data)
    is_frame = hasattr(kind, "to_arrow") and hasattr(kind, "clone")  # of polars
    return data.clone() if is_frame or isinstance(data, Tensor) else data


def _items_copy(data: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of a list or dict, whose items may refer to the list or dict."""
    items = [*(enumerate(data) if isinstance(data, list) else data.items())]
    try:
        copied = copy(data)
        if getattr(data, "__dict__", None) is data:  # its keys are its attributes
            copied.__dict__ = copied
        for key, part in items:
            copied[key] = part
    except Exception:  # a dict that cannot be changed
        return data
    copies[id(data)] = data, copied
    for key, part in items:
        copied[key] = _copied(part, copies)
    return copied


def _frame_copy(frame: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of a data frame or series, whose objects pandas would share."""
    copied, rows = frame.copy(), slice(None)
    places = [rows] if frame.ndim == 1 else [(rows, j) for j in range(frame.shape[1])]
    for place in places:
        column = frame.iloc[place]
        if column.dtype == object and hasattr(column, "to_numpy"):  # Dask has none
            copied.iloc[place] = _copied(column.to_numpy(), copies)
    return copied


def _image_copy(image: Any) -> Any:
    """Return a copy with the same information, file name and format.

    Images of several frames are returned unchanged and unchecked, and so are images
    that were closed before they were loaded. If loading fails, the error is kept, since
    PIL would report it only once and then return what it has decoded.
    """
    counted, kept, own = object.__new__(type(image)), dict[str, Any](), vars(image)
    # Counting its frames would undo changes that the caller made to the image.
    parts = {k: copy(v) for k, v in own.items() if isinstance(v, list | MutableMapping)}
    vars(counted).update(own | parts, _exif=None)
    try:
        for name in ("filename", "format", "n_frames", "is_animated"):
            with suppress(AttributeError, ValueError):  # of another format, or closed
                kept[name] = getattr(counted, name)
        if kept.get("n_frames", 1) > 1:
            return image
        if _FAULT not in own or sys.modules["PIL.ImageFile"].LOAD_TRUNCATED_IMAGES:
            copied = image.copy()
            vars(copied).update(kept)
            return copied
    except (AssertionError, AttributeError, ValueError, MemoryError):  # closed
        return image
    except Exception as error:
        own[_FAULT] = f"PIL reports {error!r}"
    path, cure = kept.get("filename") or image, "repair or remove it"
    raise damaged(path, "a readable image", own[_FAULT], cure)
