"""Images decoded on demand: sequences, minibatches and fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset

from sklearn_mdl._core.images.reading import (
    FilePart,
    Images,
    as_images,
    decode,
    item_at,
    located,
    unreadable,
)
from sklearn_mdl._core.io.environment import fingerprint
from sklearn_mdl._core.validation import invalid

if TYPE_CHECKING:
    from PIL.Image import Image


def chained(parts: Sequence[Images]) -> Images:
    """Concatenate several sequences."""
    return ConcatDataset(cast(list[Dataset[object]], parts))


@dataclass(eq=False, repr=False)
class LazyImages(Sequence[Any]):
    """PIL images that are decoded on access.

    Parameters
    ----------
    items : sequence
        Paths, file parts or arrays, one per image.
    decode : callable, default=None
        Maps an item to a PIL image. If None, items are read as RGB images.
    about : str, default=""
        Name of what ``decode`` does. Fingerprints depend on this name.
    """

    items: Images
    decode: Callable[[Any], Image] | None = None
    about: str = ""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.items)

    def __iter__(self) -> Iterator[Image]:
        """Decode the images one after the other."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: Any) -> Any:
        """Decode one image, or return a slice of images without decoding."""
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        item = self.items[i]
        if self.decode is not None:
            return self.decode(item)
        return decode(item, located(i, item), "RGB")

    def __add__(self, other: LazyImages) -> LazyImages:
        """Return the images of both sequences in order."""
        if (self.decode, self.about) != (other.decode, other.about):
            kinds, cure = [self.about, other.about], "transform each part separately"
            raise invalid("Joined images", "decoded in the same way", kinds, cure)
        return LazyImages(chained([self.items, other.items]), self.decode, self.about)

    def take(self, rows: ArrayLike) -> LazyImages:
        """Return the images of some rows in the given order."""
        rows = np.asarray(rows, dtype=np.int64)
        if isinstance(self.items, np.ndarray):
            return LazyImages(self.items[rows], self.decode, self.about)
        chosen = Subset(cast(Dataset[object], self.items), rows.tolist())
        return LazyImages(chosen, self.decode, self.about)


def minibatches(
    prepare: Callable[[int], Tensor], rows: range, batch_size: int, n_threads: int
) -> Iterator[Tensor]:
    """Prepare images row by row, and yield them stacked in minibatches.

    Parameters
    ----------
    prepare : callable
        Maps a row to a tensor (C, H, W).
    rows : range
    batch_size : int
    n_threads : int
        If greater than 1, the next minibatch is prepared while the caller uses the
        current one. Threads run in parallel, since decoding and resizing release the
        interpreter's lock.

    Yields
    ------
    batch : Tensor of shape (B, C, H, W)
    """
    batches = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    if n_threads == 1:
        for batch in batches:
            yield _stack(map(prepare, batch), batch)
        return
    pool = ThreadPoolExecutor(n_threads)
    # Threads begin with a minibatch as soon as it is drawn from this generator.
    prepared = (pool.map(prepare, batch) for batch in batches)
    try:
        ahead = next(prepared, iter(()))
        for batch in batches:
            tensors, ahead = ahead, next(prepared, iter(()))
            yield _stack(tensors, batch)
    finally:
        pool.shutdown(cancel_futures=True)


def _stack(tensors: Iterable[Tensor], batch: range) -> Tensor:
    images = list(tensors)
    for row, tensor in zip(batch, images, strict=True):
        if tensor.shape != images[0].shape:
            first, other = tuple(images[0].shape), tuple(tensor.shape)
            words = f"but row {batch[0]} has shape {first} and row {row} has {other}"
            cure = "resize with preprocess=Compose([Resize((224, 224)), ToTensor()])"
            raise ValueError(f"Preprocessing must give one shape, {words}; {cure}")
    return torch.stack(images)


def images_fingerprint(X: object) -> str:
    """Return the SHA-256 of image files or, in memory, of pixels and information.

    Parameters
    ----------
    X : images, as for encoders
        The files of lazy images are hashed without decoding them.

    Raises
    ------
    ValueError
        If a file cannot be read.
    """
    images = as_images(X)
    about = ""
    if isinstance(images, LazyImages):
        about, images = images.about, images.items
    elif isinstance(images, np.ndarray) and images.dtype.kind not in "OU":
        about = f"{images.shape} {images.dtype.str}\n"
        whole = about + fingerprint(images, images.dtype.str)
        return hashlib.sha256(whole.encode()).hexdigest()
    digest = hashlib.sha256(about.encode())
    for row in range(len(images)):
        item = item_at(images, row)
        digest.update(f"\n{_item_fingerprint(item, located(row, item))}".encode())
    return digest.hexdigest()


def _item_fingerprint(item: object, where: str) -> str:
    if isinstance(item, str | Path):
        try:
            with Path(item).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise unreadable(where, error) from error
    if isinstance(item, FilePart):
        item = item.read_bytes()
    if isinstance(item, bytes):
        return hashlib.sha256(item).hexdigest()
    image = decode(item, where, "RGB")
    pixels = image.tobytes()  # PIL may add information as it loads
    return hashlib.sha256(f"{image.size} {image.info}".encode() + pixels).hexdigest()
