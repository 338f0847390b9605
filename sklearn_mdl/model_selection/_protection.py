"""Copies of data, so that encoders cannot change what other encoders are given."""

from __future__ import annotations

import pickle
import sys
from collections import UserDict
from collections.abc import MutableMapping
from contextlib import suppress
from copy import copy
from io import BytesIO
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor

from sklearn_mdl._core.validation import damaged

_FAULT = "sklearn_mdl_fault"  # attribute of damaged images
_PICKLED = {list, tuple, dict, set, bytearray, str, int, float, bool, type(None)}
_SHARED = (bytes, type, FunctionType, BuiltinFunctionType, ModuleType)


def protected(data: Any) -> Any:
    """Protect data against changes by an encoder.

    Arrays of numbers become read-only views. Other arrays, data frames, sparse
    matrices, tensors and PIL's images are copied, since they have no such views. Lists,
    tuples and dicts are copied with all that they hold, as by pickle, except for parts
    that cannot be pickled. Anything else is returned unchanged: images of several
    frames too, since PIL copies only one.

    Raises
    ------
    ValueError
        If an image of one frame is damaged. The message names its file.
    """
    if isinstance(data, list | tuple | dict | UserDict) or _holds_objects(data):
        return _copied_with_parts(data)
    return _copied(data)


def _holds_objects(data: object) -> bool:
    return isinstance(data, np.ndarray) and data.dtype.hasobject


def _copied(data: Any) -> Any:
    """Return a copy or a view if this is possible without pickle, or else the data."""
    kind = type(data)
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        view = data.view()
        view.flags.writeable = False
        return view
    if hasattr(kind, "iloc"):
        return _frame_copy(data)
    if _is_image(data):
        return _image_copy(data)
    if issparse(data):
        return data.copy()
    is_frame = hasattr(kind, "to_arrow") and hasattr(kind, "clone")  # of polars
    return data.clone() if is_frame or isinstance(data, Tensor) else data


def _copied_with_parts(data: Any) -> Any:
    with suppress(pickle.PicklingError, AttributeError, TypeError, RecursionError):
        pickler = _Pickler(file := BytesIO(), protocol=5)
        pickler.parts = {}
        pickler.dump(data)
        file.seek(0)
        with suppress(Exception):  # such as a dict that refuses new items
            unpickler = _Unpickler(file)
            unpickler.parts = pickler.parts
            return unpickler.load()
    return data


class _Pickler(pickle.Pickler):
    """Pickler that copies or shares some parts instead of pickling them.

    Attributes
    ----------
    parts : dict of int to (object, object)
        These parts and their copies, keyed by id.
    """

    parts: dict[int, tuple[object, object]]

    def persistent_id(self, part: Any) -> int | None:
        """Return the key of a part in ``parts``, or None to pickle it."""
        if type(part) in _PICKLED or _holds_objects(part):
            return None
        if id(part) not in self.parts:
            is_shared = isinstance(part, _SHARED) or _is_image(part)
            own = part if isinstance(part, _SHARED) else _copied(part)
            if own is part and not is_shared:
                with suppress(Exception):
                    part.__reduce_ex__(5)
                    return None
            self.parts[id(part)] = part, own
        return id(part)


class _Unpickler(pickle.Unpickler):
    parts: dict[int, tuple[object, object]]

    def persistent_load(self, key: int) -> object:
        return self.parts[key][1]


def _frame_copy(frame: Any) -> Any:
    """Return a copy of a data frame or series, whose objects pandas would share."""
    copied, rows = frame.copy(), slice(None)
    places = [rows] if frame.ndim == 1 else [(rows, j) for j in range(frame.shape[1])]
    for place in places:
        column = frame.iloc[place]
        if column.dtype == object and hasattr(column, "to_numpy"):  # Dask has none
            copied.iloc[place] = _copied_with_parts(column.to_numpy())
    return copied


def _is_image(data: object) -> bool:
    return isinstance(data, getattr(sys.modules.get("PIL.Image"), "Image", ()))


def _image_copy(image: Any) -> Any:
    """Return a copy with the same file name and format.

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
