"""Images that are decoded when they are asked for, and sequences of what is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sklearn_mdl.images.reading import convert, located, open_image


class Chain(Sequence[Any]):
    """Several sequences, one after the other."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        """Return the number of items of all."""
        return int(self.ends[-1])

    def __getitem__(self, i: Any) -> Any:
        """Return one item."""
        i = range(len(self))[i]
        which = int(np.searchsorted(self.ends, i, side="right"))
        part = self.parts[which]
        return part[i - int(self.ends[which]) + len(part)]


class Chosen(Sequence[Any]):
    """Some items of a sequence, in some order."""

    def __init__(self, items: Sequence[Any], rows: np.ndarray) -> None:
        self.items = items
        self.rows = rows

    def __len__(self) -> int:
        """Return the number of items chosen."""
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        """Return one item."""
        return self.items[int(self.rows[i])]


class LazyImages(Sequence[Any]):
    """Images that are decoded when they are asked for, as PIL images in colour.

    Parameters
    ----------
    items : sequence
        Paths, file parts or arrays, one an image.
    decode : callable, default=None
        From an item to a PIL image; None opens the item.
    about : str, default=""
        What ``decode`` does to pixels, for those who remember features.
    """

    def __init__(
        self,
        items: Sequence[Any] | np.ndarray,
        decode: Callable[[Any], Any] | None = None,
        about: str = "",
    ) -> None:
        self.items = items
        self.decode = decode
        self.about = about

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        """Decode one after the other."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: Any) -> Any:
        """Decode one image, or take a slice of them, which is not decoded."""
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        item = self.items[i]
        if self.decode is not None:
            return self.decode(item)
        where = located(i, item)
        return convert(open_image(item, where), where, "RGB")

    def __add__(self, other: LazyImages) -> LazyImages:
        """Return the images of both, in this order."""
        if (self.decode, self.about) != (other.decode, other.about):
            raise ValueError(
                "Images can be joined if they are decoded alike, got "
                f"{self.about or 'plain images'} and {other.about or 'plain images'}; "
                "encode them apart"
            )
        both = Chain([self.items, other.items])
        return LazyImages(both, self.decode, self.about)

    def take(self, rows: Any) -> LazyImages:
        """Return the images of some rows, in their order."""
        rows = np.asarray(rows, dtype=np.int64)
        if isinstance(self.items, np.ndarray):
            return LazyImages(self.items[rows], self.decode, self.about)
        return LazyImages(Chosen(self.items, rows), self.decode, self.about)
