"""The images, labels and parts of a task."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_mdl._core.images.lazy import LazyImages, chained
from sklearn_mdl._core.images.reading import Images
from sklearn_mdl._core.validation import invalid

if TYPE_CHECKING:
    from numpy.random import RandomState
    from PIL.Image import Image

TRAIN, VALIDATION, TEST = "train", "validation", "test"
# Name (None if the files do not define parts), items and labels of each part.
Parts = Iterable[tuple[str | None, Images, ArrayLike]]


@dataclass(frozen=True, eq=False)
class VtabData:
    """Images decoded on demand, and VTAB's labels.

    You can also use an instance as a torch dataset of pairs (image, label).

    Attributes
    ----------
    task : VtabTask
    images : LazyImages
        PIL images in colour, for encoders.
    y : ndarray of shape (N,), int64
        Labels from 0 to ``task.n_classes - 1``.
    parts : ndarray of shape (N,) of str, or None
        "train", "validation" or "test", or None if the files do not define parts.
    """

    task: VtabTask
    images: LazyImages
    y: np.ndarray
    parts: np.ndarray | None

    def __post_init__(self) -> None:
        """Check that labels match the images and the classes of the task."""
        counts = len(self.images), len(self.y)
        if len(set(counts)) > 1 or not len(self.y):
            required = "equal" if len(set(counts)) > 1 else "positive"
            raise invalid("Image and label counts", required, counts, "download again")
        limits, most = [int(self.y.min()), int(self.y.max())], self.task.n_classes - 1
        if limits[0] < 0 or limits[1] > most:
            raise invalid("y", f"labels from 0 to {most}", limits, "download again")

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Image, int]:
        """Return a decoded image and its label."""
        return self.images[i], int(self.y[i])

    def take(self, rows: ArrayLike) -> VtabData:
        """Return a subset of the rows, in the given order.

        Parameters
        ----------
        rows : array-like of int
            At least one row.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if not rows.size:
            raise invalid("rows", "one or more row numbers", [], "pass rows=[0]")
        parts = None if self.parts is None else self.parts[rows]
        return replace(self, images=self.images.take(rows), y=self.y[rows], parts=parts)

    def split(self) -> tuple[VtabData, VtabData]:
        """Return the train and validation parts together, and the test part.

        Raises
        ------
        ValueError
            If the files do not define parts, or all images are in one of the two parts.
        """
        if self.parts is None:
            raise ValueError(
                f"The files of {self.task.name} do not say which images are for "
                "training and which for testing; call reshuffled() instead of split()"
            )
        is_test = self.parts == TEST
        if is_test.all() or not is_test.any():
            given = sorted({*self.parts.tolist()})
            cure = "call split() on the result of load_vtab()"
            raise invalid("The parts", "'test' and at least one other", given, cure)
        return self.take(np.flatnonzero(~is_test)), self.take(np.flatnonzero(is_test))

    def reshuffled(
        self, random_state: int | RandomState | None = None, n_train: int | None = None
    ) -> tuple[VtabData, VtabData]:
        """Shuffle and split all images in two, as in Li, Bornschein and Hutter (2023).

        Parameters
        ----------
        random_state : int, RandomState instance or None, default=None
            Seed of the permutation.
        n_train : int, default=None
            Number of rows of the train part. If None, the task's ``n_examples``.

        Returns
        -------
        train, test : VtabData
            Li et al. evaluate online on ``train``.

        Raises
        ------
        ValueError
            If there is one image, images are missing and ``n_train`` is None, or
            ``n_train`` is not between 1 and ``len(self) - 1``.
        """
        n, whole = len(self), self.task.n_examples + self.task.n_test
        if n < 2:
            raise invalid("Number of images", "at least 2", n, "reshuffle more images")
        cure = f"pass n_train={n // 2}"
        if n_train is None and n != whole:
            raise ValueError(
                f"reshuffled() needs all {whole} images of {self.task.name} for its "
                f"default n_train, got {n}; {cure}, or download any missing images"
            )
        cut = self.task.n_examples if n_train is None else n_train
        if not 0 < cut < n:
            raise invalid("n_train", f"between 1 and {n - 1}", n_train, cure)
        rows = check_random_state(random_state).permutation(n)
        return self.take(rows[:cut]), self.take(rows[cut:])


def joined(
    task: VtabTask,
    parts: Parts,
    decode: Callable[..., Image] | None = None,
    about: str = "",
) -> VtabData:
    """Join the parts that a reader returns.

    Parameters
    ----------
    task : VtabTask
    parts : iterable of (name, items, labels)
        For the items, see :class:`LazyImages`.
    decode, about
        As for :class:`LazyImages`.
    """
    names, images, labels = zip(*parts, strict=True)
    items = chained(images)
    if all(isinstance(part, np.ndarray) for part in images):
        items = np.concatenate(images)
    elif all(isinstance(part, list) for part in images):
        items = list(chain(*images))
    y = np.concatenate([np.asarray(part, dtype=np.int64) for part in labels])
    of_rows = None if None in names else np.repeat(names, list(map(np.size, labels)))
    return VtabData(task, LazyImages(items, decode, about), y, of_rows)


@dataclass(frozen=True, kw_only=True)
class VtabTask:
    """One task of the Visual Task Adaptation Benchmark (Zhai et al., 2019).

    Attributes
    ----------
    name : str
        Name in the tables of Li, Bornschein and Hutter (2023).
    group : {"natural", "specialized", "structured"}
    n_classes : int
    n_examples : int
        Number of rows of the reshuffled train part, on which Li et al. evaluate online.
    n_test : int
        Number of rows of the reshuffled test part.
    labels : str
        Meaning of the label.
    parts : str
        How VTAB divides the images, and whether the files define the parts.
    origin : str
        Web page where the owners publish the data.
    licence : str
        Terms of use. If none are stated, ask the owners.
    files : tuple of str
        Required files and folders, relative to `data_dir` of
        :func:`~sklearn_mdl.datasets.load_vtab`.
    download : str
        Archives to download, and folders to unpack them into.
    """

    name: str
    group: str
    n_classes: int
    n_examples: int
    n_test: int
    labels: str
    parts: str
    origin: str
    licence: str
    files: tuple[str, ...]
    download: str


def _read_tasks() -> Mapping[str, VtabTask]:
    text = Path(__file__).with_name("tasks.toml").read_text(encoding="utf-8")
    tasks = {}
    for source in tomllib.loads(text)["sources"]:
        source["files"] = tuple(source["files"])
        for entry in source.pop("tasks"):
            tasks[entry["name"]] = VtabTask(**entry, **source)
    return MappingProxyType(tasks)


VTAB_TASKS = _read_tasks()
