"""Tasks whose images are in folders, with one file per image."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sklearn_mdl._core.extras import needed
from sklearn_mdl.datasets._vtab import data
from sklearn_mdl.datasets._vtab.retina import PROCESSING, open_retina

if TYPE_CHECKING:
    from PIL.Image import Image

Example = tuple[Path, int]

# TensorFlow Datasets omits this image, since programs decode it differently.
SUN397_LEFT_OUT = ("church", "outdoor", "sun_bhenjvsvrtumjuri.jpg")


def datasets() -> ModuleType:
    """Return the module of torchvision's datasets."""
    return needed("torchvision.datasets", "load_vtab", "vtab")


def categories(task: data.VtabTask, folder: Path, place: str) -> data.VtabData:
    """Read a folder of images for each category.

    torchvision's Caltech101 would omit one of the 102 categories.
    """
    dataset = datasets().DatasetFolder(folder / place, Path, extensions=(".jpg",))
    return _of_examples(task, [(None, dataset)])


def eurosat(task: data.VtabTask, folder: Path) -> data.VtabData:
    """Read torchvision's EuroSAT."""
    return _of_examples(task, [(None, datasets().EuroSAT(folder, loader=Path))])


def sun397(task: data.VtabTask, folder: Path) -> data.VtabData:
    """Read torchvision's SUN397, sorted by path and without SUN397_LEFT_OUT."""
    examples = sorted(datasets().SUN397(folder, loader=Path))
    kept = [row for row in examples if row[0].parts[-3:] != SUN397_LEFT_OUT]
    return _of_examples(task, [(None, kept)])


OWN_PARTS = {data.TRAIN: "train", data.VALIDATION: "val", data.TEST: "test"}


def own_parts(
    task: data.VtabTask, folder: Path, kind: str, **options: int
) -> data.VtabData:
    """Read the three parts of a dataset of torchvision."""
    read = partial(getattr(datasets(), kind), folder, loader=Path, **options)
    parts = [(part, read(split=name)) for part, name in OWN_PARTS.items()]
    return _of_examples(task, parts)


def pets(task: data.VtabTask, folder: Path) -> data.VtabData:
    """Read lists of names and breeds, since torchvision would open every image."""
    folder = folder / "oxford-iiit-pet"
    images = folder / "images"
    parts = []
    for part, name in ((data.TRAIN, "trainval.txt"), (data.TEST, "test.txt")):
        lines = (folder / "annotations" / name).read_text(encoding="utf-8").split("\n")
        rows = [line.split() for line in lines if line and not line.startswith("#")]
        examples = [(images / f"{row[0]}.jpg", int(row[1]) - 1) for row in rows]
        parts.append((part, examples))
    return _of_examples(task, parts)


def retinopathy(task: data.VtabTask, folder: Path) -> data.VtabData:
    """Read photographs of eyes, processed as by the winner of Kaggle's competition."""
    folder = folder / "diabetic-retinopathy"
    test, solution = folder / "test", folder / "retinopathy_solution.csv"
    parts = [
        (data.TRAIN, _graded_eyes(folder / "trainLabels.csv", folder / "train", None)),
        (data.VALIDATION, _graded_eyes(solution, test, "Public")),
        (data.TEST, _graded_eyes(solution, test, "Private")),
    ]
    return _of_examples(task, parts, open_retina, PROCESSING)


def _graded_eyes(table: Path, images: Path, usage: str | None) -> list[Example]:
    with table.open(encoding="utf-8", newline="") as file:
        return [
            (images / f"{row['image']}.jpeg", int(row["level"]))
            for row in csv.DictReader(file)
            if usage is None or row["Usage"] == usage
        ]


def _of_examples(
    task: data.VtabTask,
    parts: Sequence[tuple[str | None, Iterable[Example]]],
    decode: Callable[[Path], Image] | None = None,
    about: str = "",
) -> data.VtabData:
    """Return the data of a task, given the pairs (path, label) of each part."""
    columns = []
    for name, examples in parts:
        pairs = list(examples)
        columns.append((name, [path for path, _ in pairs], [y for _, y in pairs]))
    return data.joined(task, columns, decode, about)
