"""A task's images and labels, and how they are divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_mdl.images import LazyImages
from sklearn_mdl.vtab.tasks import VtabTask

TRAIN, VALIDATION, TEST = "train", "validation", "test"


class UnfitFilesError(ValueError):
    """Files that are not those of a task, in a sentence that says so."""


@dataclass(frozen=True, eq=False)
class VtabData:
    """Images that are decoded when they are asked for, and VTAB's labels.

    It is a torch dataset of pairs (image, label), too.

    Attributes
    ----------
    task : VtabTask
    images : LazyImages
        PIL images in colour. Encoders take them as they are.
    y : ndarray of shape (N,), int64
        Labels from 0 to ``task.n_classes - 1``.
    parts : ndarray of shape (N,) of str, or None
        "train", "validation" or "test"; None if the files say nothing of it.
    """

    task: VtabTask
    images: LazyImages
    y: np.ndarray
    parts: np.ndarray | None

    def __post_init__(self) -> None:
        """Check labels against the task."""
        if len(self.images) != len(self.y) or not len(self.y):
            raise UnfitFilesError(
                f"{self.task.name} needs one label for each image, got "
                f"{len(self.images)} images and {len(self.y)} labels; fetch the files "
                "again"
            )
        low, high = int(self.y.min()), int(self.y.max())
        if low < 0 or high >= self.task.n_classes:
            raise UnfitFilesError(
                f"{self.task.name} has labels from 0 to {self.task.n_classes - 1}, but "
                f"the files give {low} to {high}; fetch them again"
            )

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        """Decode an image, and return it with its label."""
        return self.images[i], int(self.y[i])

    def take(self, rows: Any) -> VtabData:
        """Return some rows, in their order."""
        rows = np.asarray(rows, dtype=np.int64)
        parts = None if self.parts is None else self.parts[rows]
        return replace(self, images=self.images.take(rows), y=self.y[rows], parts=parts)

    def split(self) -> tuple[VtabData, VtabData]:
        """Return train and validation part together, and the test part.

        Raises
        ------
        ValueError
            If the files do not tell the parts.
        """
        if self.parts is None:
            raise ValueError(
                f"The files of {self.task.name} do not tell its parts: they are "
                f"{self.task.parts}; call reshuffled"
            )
        is_test = self.parts == TEST
        return self.take(np.flatnonzero(~is_test)), self.take(np.flatnonzero(is_test))

    def reshuffled(
        self, random_state: Any = None, n_train: int | None = None
    ) -> tuple[VtabData, VtabData]:
        """Shuffle all images, and cut at the sizes of VTAB's parts, as the paper did.

        Parameters
        ----------
        random_state : int, RandomState instance or None, default=None
            Seeds the permutation.
        n_train : int, default=None
            Rows of the train part; None takes the task's own number.

        Returns
        -------
        train, test : VtabData
            The paper walks the first one.

        Raises
        ------
        ValueError
            If images are missing, and ``n_train`` does not say where to cut.
        """
        n, whole = len(self), self.task.n_examples + self.task.n_test
        if n_train is None and n != whole:
            raise ValueError(
                f"{self.task.name} has {whole} images, but the files hold {n}; fetch "
                "the others, or pass n_train"
            )
        cut = self.task.n_examples if n_train is None else n_train
        if not 0 < cut < n:
            raise ValueError(
                f"n_train must lie between 1 and {n - 1}, got {n_train}; leave some "
                "images to the test part"
            )
        rows = check_random_state(random_state).permutation(n)
        return self.take(rows[:cut]), self.take(rows[cut:])


def joined(
    task: VtabTask,
    images: LazyImages,
    labels: Any,
    parts: Sequence[tuple[str, int]] | None,
) -> VtabData:
    """Bring readers' findings into form; parts are names with their numbers of rows."""
    names = None
    if parts is not None:
        names = np.repeat([name for name, _ in parts], [n for _, n in parts])
    return VtabData(task, images, np.asarray(labels, dtype=np.int64), names)
