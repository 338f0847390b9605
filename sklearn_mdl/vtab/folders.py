"""Tasks whose images lie in folders, one file each."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from sklearn_mdl.images import LazyImages
from sklearn_mdl.images.extras import needed
from sklearn_mdl.vtab.data import TEST, TRAIN, VALIDATION, VtabData, joined
from sklearn_mdl.vtab.retina import PROCESSING, open_retina
from sklearn_mdl.vtab.tasks import VtabTask

Example = tuple[Path, int]

# In it every program sees other pixels; TensorFlow Datasets leaves it out.
SUN397_LEFT_OUT = ("church", "outdoor", "sun_bhenjvsvrtumjuri.jpg")


def datasets() -> Any:
    """Return the module of torchvision's datasets."""
    return needed("torchvision.datasets", "load_vtab", "vtab")


def caltech101(task: VtabTask, folder: Path) -> VtabData:
    """Read 102 folders of pictures; torchvision's own class leaves one of them out."""
    return _categories(task, folder / "caltech101" / "101_ObjectCategories")


def resisc45(task: VtabTask, folder: Path) -> VtabData:
    """Read 45 folders of pictures."""
    return _categories(task, folder / "NWPU-RESISC45")


def _categories(task: VtabTask, folder: Path) -> VtabData:
    dataset = datasets().ImageFolder(
        folder, loader=Path, is_valid_file=lambda name: name.lower().endswith(".jpg")
    )
    return _of_examples(task, [(None, list(dataset))])


def eurosat(task: VtabTask, folder: Path) -> VtabData:
    """Read torchvision's EuroSAT."""
    return _of_examples(task, [(None, list(datasets().EuroSAT(folder, loader=Path)))])


def sun397(task: VtabTask, folder: Path) -> VtabData:
    """Read torchvision's SUN397, sorted by name, without the picture left out."""
    examples = [
        example
        for example in sorted(datasets().SUN397(folder, loader=Path))
        if example[0].parts[-3:] != SUN397_LEFT_OUT
    ]
    return _of_examples(task, [(None, examples)])


def dtd(task: VtabTask, folder: Path) -> VtabData:
    """Read the first partition of torchvision's DTD."""
    of = partial(datasets().DTD, folder, partition=1, loader=Path)
    return _in_parts(task, lambda part: of(split=part))


def flowers102(task: VtabTask, folder: Path) -> VtabData:
    """Read torchvision's Flowers102."""
    of = partial(datasets().Flowers102, folder, loader=Path)
    return _in_parts(task, lambda part: of(split=part))


def _in_parts(task: VtabTask, of: Callable[[str], Any]) -> VtabData:
    names = {TRAIN: "train", VALIDATION: "val", TEST: "test"}
    parts = [(part, list(of(name))) for part, name in names.items()]
    return _of_examples(task, parts)


def pets(task: VtabTask, folder: Path) -> VtabData:
    """Read lists of names and breeds; torchvision's class would open every image."""
    folder = folder / "oxford-iiit-pet"
    parts = []
    for part, name in ((TRAIN, "trainval.txt"), (TEST, "test.txt")):
        lines = (folder / "annotations" / name).read_text(encoding="utf-8").split("\n")
        rows = [line.split() for line in lines if line and not line.startswith("#")]
        images = folder / "images"
        found = [(images / f"{row[0]}.jpg", int(row[1]) - 1) for row in rows]
        parts.append((part, found))
    return _of_examples(task, parts)


def retinopathy(task: VtabTask, folder: Path) -> VtabData:
    """Read photographs of eyes, processed as the winner of the competition did."""
    folder = folder / "diabetic-retinopathy"
    parts = [
        (TRAIN, _graded(folder / "trainLabels.csv", folder / "train", None)),
        (VALIDATION, _graded(folder / SOLUTION, folder / "test", "Public")),
        (TEST, _graded(folder / SOLUTION, folder / "test", "Private")),
    ]
    return _of_examples(task, parts, open_retina, PROCESSING)


SOLUTION = "retinopathy_solution.csv"


def _graded(table: Path, images: Path, usage: str | None) -> list[Example]:
    with table.open(encoding="utf-8", newline="") as file:
        return [
            (images / f"{row['image']}.jpeg", int(row["level"]))
            for row in csv.DictReader(file)
            if usage is None or row["Usage"] == usage
        ]


def _of_examples(
    task: VtabTask,
    parts: Iterable[tuple[str | None, list[Example]]],
    decode: Callable[[Any], Any] | None = None,
    about: str = "",
) -> VtabData:
    """Join lists of paths and labels; without a name, the parts are unknown."""
    parts = list(parts)
    examples = [example for _, found in parts for example in found]
    images = LazyImages([path for path, _ in examples], decode, about)
    named = [(name, len(found)) for name, found in parts if name is not None]
    return joined(task, images, [label for _, label in examples], named or None)
