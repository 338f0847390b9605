"""Tasks whose labels are computed from what is where: CLEVR and KITTI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.images import LazyImages
from sklearn_mdl.vtab.data import TEST, TRAIN, VALIDATION, VtabData, joined
from sklearn_mdl.vtab.tasks import VtabTask

# Each class ends at its bound, and includes it. Depths are compared in single
# precision, as TensorFlow Datasets keeps them.
CLEVR_BOUNDS = (8.0, 8.5, 9.0, 9.5, 10.0)
KITTI_BOUNDS = (8.0, 20.0, 999.0)  # metres; no vehicle counts as 1000
FEWEST_OBJECTS = 3
NO_VEHICLE = 1000.0
VEHICLES = ("Car", "Van", "Truck")
DEPTH = 13  # of a KITTI label: x, y and z in columns 11 to 13
TEST_SHARE = VALIDATION_SHARE = 10  # percent of the videos
MAPPING_SEED = 123


def clevr(task: VtabTask, folder: Path) -> VtabData:
    """Read scenes: how many objects there are, or how deep the nearest lies."""
    folder = folder / "clevr" / "CLEVR_v1.0"
    paths, labels, parts = [], [], []
    for part, name in ((TRAIN, "train"), (TEST, "val")):
        file = folder / "scenes" / f"CLEVR_{name}_scenes.json"
        scenes = json.loads(file.read_text(encoding="utf-8"))["scenes"]
        for scene in scenes:
            paths.append(folder / "images" / name / scene["image_filename"])
            labels.append(_of_scene(task, scene["objects"]))
        parts.append((part, len(scenes)))
    return joined(task, LazyImages(paths), labels, parts)


def _of_scene(task: VtabTask, objects: list[dict[str, Any]]) -> int:
    if task.name == "ClevrCount":
        return len(objects) - FEWEST_OBJECTS
    depth = min(thing["pixel_coords"][2] for thing in objects)
    return int(np.searchsorted(CLEVR_BOUNDS, np.float32(depth)))


def kitti(task: VtabTask, folder: Path) -> VtabData:
    """Read label files: how deep the nearest car, van or truck lies.

    Depth is the third coordinate of an object's location, in metres from the camera.
    """
    folder = folder / "Kitti" / "raw"
    files = sorted((folder / "training" / "label_2").glob("*.txt"))
    images = folder / "training" / "image_2"
    paths = [images / f"{file.stem}.png" for file in files]
    labels = [vehicle_class(file) for file in files]
    data = joined(task, LazyImages(paths), labels, None)
    parts = video_parts(folder / "mapping", [int(file.stem) for file in files])
    return VtabData(task, data.images, data.y, parts)


def vehicle_class(file: Path) -> int:
    """Class of the nearest vehicle's distance in a KITTI label file."""
    depths = [NO_VEHICLE]
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields and fields[0] in VEHICLES:
            depths.append(float(fields[DEPTH]))
    return int(np.searchsorted(KITTI_BOUNDS, np.float32(min(depths))))


def video_parts(mapping: Path, numbers: list[int]) -> np.ndarray | None:
    """Divide images by the videos that they come from, as VTAB does.

    Of the videos, a tenth each goes to the test and to the validation part, drawn as in
    TensorFlow Datasets with seed 123.

    Parameters
    ----------
    mapping : Path
        The folder of the development kit that says which image comes from which video.
    numbers : list of int
        Of the images.

    Returns
    -------
    parts : ndarray of str, or None
        None if the folder is not there.
    """
    if not (mapping / "train_rand.txt").is_file():
        return None
    text = (mapping / "train_rand.txt").read_text(encoding="utf-8")
    lines = (mapping / "train_mapping.txt").read_text(encoding="utf-8").splitlines()
    videos = [lines[int(number) - 1].split()[1] for number in text.split(",")]
    names = sorted(set(videos))
    # The old generator, whose draws are fixed for good: VTAB's parts hang on them.
    rng = np.random.RandomState(MAPPING_SEED)
    n_test = max(1, TEST_SHARE * len(names) // 100)
    test = set(rng.choice(names, n_test, replace=False).tolist())
    rest = sorted(set(names) - test)
    n_validation = max(1, VALIDATION_SHARE * len(names) // 100)
    validation = set(rng.choice(rest, n_validation, replace=False).tolist())
    part = dict.fromkeys(names, TRAIN)
    part |= dict.fromkeys(validation, VALIDATION) | dict.fromkeys(test, TEST)
    return np.array([part[videos[number]] for number in numbers])
