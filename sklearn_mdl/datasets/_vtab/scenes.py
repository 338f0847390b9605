"""CLEVR and KITTI, whose labels depend on the objects in an image."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from sklearn_mdl.datasets._vtab import data

# Each class includes its upper bound. As in TensorFlow Datasets, depths are compared in
# single precision.
CLEVR_BOUNDS = (8.0, 8.5, 9.0, 9.5, 10.0)
KITTI_BOUNDS = (8.0, 20.0, 999.0)  # metres; NO_VEHICLE is above all bounds
FEWEST_OBJECTS = 3
NO_VEHICLE = 1000.0
VEHICLES = ("Car", "Van", "Truck")
DEPTH = 13  # column of z in a KITTI label, after x and y
SHARE = 10  # per cent of the videos, for the test part and for the validation part
MAPPING_SEED = 123


def clevr(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read images, labelled with the number of objects or the smallest depth."""
    folder = folder / "clevr" / "CLEVR_v1.0"
    for part, name in ((data.TRAIN, "train"), (data.TEST, "val")):
        file = folder / "scenes" / f"CLEVR_{name}_scenes.json"
        scenes = json.loads(file.read_text(encoding="utf-8"))["scenes"]
        paths = [folder / "images" / name / scene["image_filename"] for scene in scenes]
        objects = [scene["objects"] for scene in scenes]
        if task.name == "ClevrCount":
            labels = [len(scene) - FEWEST_OBJECTS for scene in objects]
        else:
            depths = [min(o["pixel_coords"][2] for o in scene) for scene in objects]
            labels = [_class_of(depth, CLEVR_BOUNDS) for depth in depths]
        yield part, paths, labels


def kitti(task: data.VtabTask, folder: Path) -> data.VtabData:
    """Read images, labelled with the depth of the nearest car, van or truck.

    Depth is the third coordinate of an object's location, in metres from the camera.
    """
    folder = folder / "Kitti" / "raw"
    files = sorted((folder / "training" / "label_2").glob("*.txt"))
    images = folder / "training" / "image_2"
    paths = [images / f"{file.stem}.png" for file in files]
    labels = [vehicle_class(file) for file in files]
    parts = video_parts(folder / "mapping", [int(file.stem) for file in files])
    return replace(data.joined(task, [(None, paths, labels)]), parts=parts)


def vehicle_class(file: Path) -> int:
    """Read a KITTI label file, and return the class of the nearest vehicle."""
    depths = [NO_VEHICLE]
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields and fields[0] in VEHICLES:
            depths.append(float(fields[DEPTH]))
    return _class_of(min(depths), KITTI_BOUNDS)


def _class_of(depth: float, bounds: tuple[float, ...]) -> int:
    return int(np.searchsorted(bounds, np.float32(depth)))


def video_parts(mapping: Path, numbers: list[int]) -> np.ndarray | None:
    """Assign images to parts by their videos, as VTAB does.

    A tenth of the videos goes to the test part and another tenth to the validation
    part. As in TensorFlow Datasets, these videos are drawn with seed 123.

    Parameters
    ----------
    mapping : Path
        The development kit's folder, which lists the video of each image.
    numbers : list of int
        Numbers of the images.

    Returns
    -------
    parts : ndarray of str, or None
        Part of each image, or None if the folder has no ``train_rand.txt``.
    """
    if not (mapping / "train_rand.txt").is_file():
        return None
    text = (mapping / "train_rand.txt").read_text(encoding="utf-8")
    lines = (mapping / "train_mapping.txt").read_text(encoding="utf-8").splitlines()
    videos = [lines[int(number) - 1].split()[1] for number in text.split(",")]
    names = sorted(set(videos))
    # VTAB's parts require the legacy generator, whose draws never change.
    rng = np.random.RandomState(MAPPING_SEED)
    n_drawn = max(1, SHARE * len(names) // 100)
    parts = dict.fromkeys(names, data.TRAIN)
    for part in (data.TEST, data.VALIDATION):
        rest = [name for name in names if parts[name] == data.TRAIN]
        drawn = rng.choice(rest, n_drawn, replace=False).tolist()
        parts |= dict.fromkeys(drawn, part)
    return np.array([parts[videos[number]] for number in numbers])
