"""What features depend on, in short: weights, and the images themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sklearn_mdl.conditions import fingerprint
from sklearn_mdl.images.lazy import LazyImages
from sklearn_mdl.images.reading import (
    FilePart,
    as_images,
    convert,
    located,
    open_image,
)


def weights_fingerprint(module: nn.Module) -> str:
    """SHA-256 of the names, shapes, types and numbers of a module's state."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, torch.Tensor):  # state of another kind
            digest.update(f"{name} {tensor!r}\n".encode())
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().view(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def images_fingerprint(X: Any) -> str:
    """SHA-256 of images: of their files' content, or else of their pixels.

    Parameters
    ----------
    X : images, as encoders take them
        Lazy images are not decoded: the items behind them are read.

    Raises
    ------
    ValueError
        If a file cannot be read.
    """
    images = as_images(X)
    rows = range(len(images))
    if isinstance(images, LazyImages):
        return _joined(images.about, (_digest(images.items, row) for row in rows))
    if isinstance(images, np.ndarray) and images.dtype.kind not in "OU":
        kind = f"{images.shape} {images.dtype.str}"
        return _joined(kind, [fingerprint(images, images.dtype.str)])
    return _joined("", (_digest(images, row) for row in rows))


def _joined(about: str, digests: Iterable[str]) -> str:
    whole = hashlib.sha256(about.encode())
    for digest in digests:
        whole.update(f"\n{digest}".encode())
    return whole.hexdigest()


def _digest(images: Any, row: int) -> str:
    item = images[row]
    if isinstance(item, tuple | list):
        item = item[0]
    return _digest_of_item(row, item)


def _digest_of_item(row: int, item: Any) -> str:
    digest = hashlib.sha256()
    if isinstance(item, str | Path):
        try:
            with Path(item).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ValueError(
                f"Images must be readable, but that of {located(row, item)} is not "
                f"({error}); mend it or leave it out"
            ) from error
    if isinstance(item, FilePart):
        digest.update(item.read_bytes())
    elif isinstance(item, bytes):
        digest.update(item)
    else:
        where = located(row, item)
        image = convert(open_image(item, where), where, "RGB")
        digest.update(f"{image.size}".encode())
        digest.update(image.tobytes())
    return digest.hexdigest()
