"""Tiny files in the layouts in which the owners of VTAB's data publish theirs.

Each writer returns the labels that VTAB defines, written down by hand, the parts that
the files tell, and the mean red of each image, by which it is known.
"""

import csv
import gzip
import json
import pickle
import struct

import numpy as np
from PIL import Image
from scipy.io import savemat

REDS = [10 * i for i in range(26)]


def picture(path, red, size=(12, 9)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (red, 5, 7)).save(path, quality=100, subsampling=0)


def pictures(count, start=0):
    return REDS[start : start + count]


def in_folders(folder, names):
    """Two images for each name."""
    reds = iter(REDS)
    for name in names:
        for i in range(2):
            picture(folder / name / f"{name}_{i:03}.jpg", next(reds))
    labels = np.repeat(np.argsort(np.argsort(names)), 2).tolist()
    order = np.argsort(labels, kind="stable")
    found = [REDS[i] for i in order]
    return sorted(labels), None, found


def caltech101(folder):
    root = folder / "caltech101" / "101_ObjectCategories"
    found = in_folders(root, ["BACKGROUND_Google", "Faces", "ant"])
    (root / "BACKGROUND_Google" / "tmp").write_text("the owners left it there")
    return found


def resisc45(folder):
    return in_folders(folder / "NWPU-RESISC45", ["airplane", "beach", "wetland"])


def eurosat(folder):
    return in_folders(folder / "eurosat" / "2750", ["AnnualCrop", "River"])


def sun397(folder):
    root = folder / "SUN397"
    names = ["a/abbey", "c/church/outdoor", "z/zoo"]
    for i, name in enumerate(names):
        picture(root / name / f"sun_{i}.jpg", REDS[i])
    picture(root / "c/church/outdoor" / "sun_bhenjvsvrtumjuri.jpg", 200)
    (root / "ClassName.txt").write_text("".join(f"/{name}\n" for name in names))
    return [0, 1, 2], None, REDS[:3]


def dtd(folder):
    root = folder / "dtd" / "dtd"
    (root / "labels").mkdir(parents=True)
    red = iter(REDS)
    for part in ("train", "val", "test"):
        names = [f"{word}/{word}_{part}.jpg" for word in ("banded", "zigzagged")]
        for name in names:
            picture(root / "images" / name, next(red))
        (root / "labels" / f"{part}1.txt").write_text("\n".join(names) + "\n")
        (root / "labels" / f"{part}2.txt").write_text("another/partition.jpg\n")
    parts = ["train"] * 2 + ["validation"] * 2 + ["test"] * 2
    return [0, 1] * 3, parts, REDS[:6]


def flowers102(folder):
    root = folder / "flowers-102"
    for i in range(6):
        picture(root / "jpg" / f"image_{i + 1:05}.jpg", REDS[i])
    savemat(root / "imagelabels.mat", {"labels": [[77, 1, 102, 5, 6, 7]]})
    ids = {"trnid": [[6, 1]], "valid": [[3, 2]], "tstid": [[4, 5]]}
    savemat(root / "setid.mat", ids)
    parts = ["train"] * 2 + ["validation"] * 2 + ["test"] * 2
    return [6, 76, 101, 0, 4, 5], parts, [REDS[i - 1] for i in (6, 1, 3, 2, 4, 5)]


def pets(folder):
    root = folder / "oxford-iiit-pet"
    (root / "annotations").mkdir(parents=True)
    rows = {
        "trainval": ["Abyssinian_100 1 1 1", "american_bulldog_1 2 2 1"],
        "test": ["yorkshire_terrier_9 37 2 25"],
    }
    red = iter(REDS)
    for part, lines in rows.items():
        for line in lines:
            picture(root / "images" / f"{line.split()[0]}.jpg", next(red))
        text = "\n".join(lines) + "\n"
        (root / "annotations" / f"{part}.txt").write_text(text)
    return [0, 1, 36], ["train", "train", "test"], REDS[:3]


def retinopathy(folder):
    root = folder / "diabetic-retinopathy"
    tables = {
        "trainLabels.csv": [("image", "level"), ("10_left", 0), ("10_right", 4)],
        "retinopathy_solution.csv": [
            ("image", "level", "Usage"),
            ("1_left", 2, "Private"),
            ("1_right", 1, "Public"),
            ("2_left", 3, "Private"),
        ],
    }
    root.mkdir()
    for name, rows in tables.items():
        with (root / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    for name in ("train/10_left", "train/10_right", "test/1_left"):
        picture(root / f"{name}.jpeg", 100, (60, 40))
    for name in ("test/1_right", "test/2_left"):
        picture(root / f"{name}.jpeg", 100, (60, 40))
    parts = ["train"] * 2 + ["validation"] + ["test"] * 2
    return [0, 4, 1, 2, 3], parts, None


def cifar100(folder):
    root = folder / "cifar-100-python"
    root.mkdir()
    reds = {"train": [10, 20, 30], "test": [40, 50]}
    labels = {"train": [99, 0, 3], "test": [7, 99]}
    for part, values in reds.items():
        data = np.zeros((len(values), 3, 32, 32), np.uint8)
        data[:, 0] = np.array(values)[:, None, None]
        content = {
            "data": data.reshape(len(values), -1),
            "fine_labels": labels[part],
            "coarse_labels": [0] * len(values),
        }
        (root / part).write_bytes(pickle.dumps(content))
    meta = {"fine_label_names": [str(i) for i in range(100)]}
    (root / "meta").write_bytes(pickle.dumps(meta))
    parts = ["train"] * 3 + ["test"] * 2
    return labels["train"] + labels["test"], parts, reds["train"] + reds["test"]


def svhn(folder):
    for part, reds, labels in (
        ("train", [10, 20, 30], [1, 10, 9]),
        ("test", [40, 50], [10, 2]),
    ):
        images = np.zeros((32, 32, 3, len(reds)), np.uint8)
        images[:, :, 0] = reds
        content = {"X": images, "y": np.array(labels, np.uint8)[:, None]}
        savemat(folder / f"{part}_32x32.mat", content)
    parts = ["train"] * 3 + ["test"] * 2
    return [1, 0, 9, 0, 2], parts, [10, 20, 30, 40, 50]


def patch_camelyon(folder):
    import h5py  # the only writer that needs it

    root = folder / "pcam"
    root.mkdir()
    labels, parts, reds = [], [], []
    for part, count in (("train", 3), ("valid", 2), ("test", 2)):
        images = np.zeros((count, 96, 96, 3), np.uint8)
        images[..., 0] = np.array(pictures(count, len(reds)))[:, None, None]
        y = np.arange(count) % 2
        stem = f"camelyonpatch_level_2_split_{part}"
        with h5py.File(root / f"{stem}_x.h5", "w") as file:
            file["x"] = images
        with h5py.File(root / f"{stem}_y.h5", "w") as file:
            file["y"] = y.astype(np.uint8).reshape(-1, 1, 1, 1)
        labels += y.tolist()
        reds += pictures(count, len(reds))
        parts += ["validation" if part == "valid" else part] * count
    return labels, parts, reds


def dsprites(folder):
    orientations = [0, 1, 2, 3, 4, 5, 39]
    locations = [0, 1, 2, 31, 30, 16, 15]
    latents = np.zeros((7, 6), np.int64)
    latents[:, 3], latents[:, 4] = orientations, locations
    latents[:, 5] = 9  # the vertical position is another matter
    images = np.zeros((7, 64, 64), np.uint8)
    for i, image in enumerate(images):
        image[: 8 * i] = 1  # so many rows of 64 are white
    np.savez_compressed(
        folder / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        metadata=np.array({"a": "pickled object, as theirs"}, dtype=object),
        imgs=images,
        latents_classes=latents,
        latents_values=latents.astype(float),
    )
    reds = [255 * i / 8 for i in range(7)]
    labels = {
        "location": [0, 0, 1, 15, 15, 8, 7],
        "orientation": [0, 0, 0, 1, 1, 2, 15],
    }
    return labels, None, reds


def norb_matrix(array, magic):
    """Write as the owners describe: magic, axes, at least three lengths, numbers."""
    shape = list(array.shape) + [1] * (3 - array.ndim)
    head = struct.pack(f"<{2 + len(shape)}i", magic, array.ndim, *shape)
    return head + array.tobytes()


def smallnorb(folder, packed=False):
    root = folder / "smallnorb"
    root.mkdir()
    # Of each image: instance, elevation 0 to 8, azimuth 0, 2, ... 34, lighting.
    infos = {
        "5x46789x9x18x6x2x96x96-training": [[4, 0, 34, 5], [6, 8, 0, 1]],
        "5x01235x9x18x6x2x96x96-testing": [[0, 3, 2, 0], [1, 4, 10, 2], [2, 5, 6, 2]],
    }
    reds = iter(REDS)
    for stem, info in infos.items():
        images = np.full((len(info), 2, 96, 96), 251, np.uint8)
        for image in images:
            image[0] = next(reds)  # the left camera
        files = {
            "dat": norb_matrix(images, 0x1E3D4C55),
            "info": norb_matrix(np.array(info, "<i4"), 0x1E3D4C54),
        }
        for kind, content in files.items():
            path = root / f"smallnorb-{stem}-{kind}.mat"
            if packed:
                path = path.with_name(f"{path.name}.gz")
                content = gzip.compress(content)
            path.write_bytes(content)
    parts = ["train"] * 2 + ["test"] * 3
    labels = {"azimuth": [17, 0, 1, 5, 3], "elevation": [0, 8, 3, 4, 5]}
    return labels, parts, REDS[:5]


def clevr(folder):
    root = folder / "clevr" / "CLEVR_v1.0"
    (root / "scenes").mkdir(parents=True)
    depths = {
        "train": [[9.0, 11.2, 7.9], [8.0, 8.4, 12.0, 10.0], [9.0, 9.1, 9.6]],
        "val": [[8.5] * 10, [10.01, 12.0, 14.0]],
    }
    reds = iter(REDS)
    for part, scenes in depths.items():
        content = []
        for i, scene in enumerate(scenes):
            name = f"CLEVR_{part}_{i:06}.png"
            picture(root / "images" / part / name, next(reds))
            objects = [{"pixel_coords": [3, 4, depth]} for depth in scene]
            content.append({"image_filename": name, "objects": objects})
        file = root / "scenes" / f"CLEVR_{part}_scenes.json"
        file.write_text(json.dumps({"info": {}, "scenes": content}))
    labels = {"count": [0, 1, 0, 7, 0], "distance": [0, 0, 2, 1, 5]}
    return labels, ["train"] * 3 + ["test"] * 2, REDS[:5]


KITTI = {
    # A line: type, truncated, occluded, alpha, 4 of the box, 3 sizes, x, y, z, turn.
    0: "Car 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 8.41 0.1\n"
    "Pedestrian 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 3.00 0.1\n",
    1: "DontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1000 -1000 -1000 -10\n",
    2: "Van 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 30.0 0.1\n"
    "Truck 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 -9.0 1.5 8.00 0.1\n",
    3: "Tram 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 5.00 0.1\n"
    "Car 0.50 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 20.01 0.1\n",
    4: "Cyclist 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 5.00 0.1\n",
    5: "Car 0.00 0 1.5 1 2 3 4 1.5 1.6 3.9 1.0 1.5 20.00 0.1\n",
}


def kitti(folder, mapping=False):
    root = folder / "Kitti" / "raw"
    (root / "training" / "label_2").mkdir(parents=True)
    for i, text in KITTI.items():
        (root / "training" / "label_2" / f"{i:06}.txt").write_text(text)
        picture(root / "training" / "image_2" / f"{i:06}.png", REDS[i])
    if mapping:
        (root / "mapping").mkdir()
        # Image i is line number[i] of the second file, which tells the video.
        (root / "mapping" / "train_rand.txt").write_text("6,2,3,1,5,4")
        videos = ["one", "two", "two", "three", "four", "one"]
        lines = [
            f"2011_09_26 2011_09_26_drive_{video}_sync 00000000{i:02}\n"
            for i, video in enumerate(videos)
        ]
        (root / "mapping" / "train_mapping.txt").write_text("".join(lines))
    return [1, 3, 0, 2, 3, 1], None, REDS[:6]
