"""VTAB's labels from files as their owners publish them."""

import csv
import gzip
import json
import pickle
import re
import shutil
import struct
import sys
from importlib.util import find_spec

import lazy_loader
import numpy as np
import pytest
import torch
from image_cases import SHARED

from sklearn_mdl._core.images.lazy import images_fingerprint
from sklearn_mdl.datasets import VTAB_TASKS, VtabTask, load_vtab
from sklearn_mdl.datasets._vtab import norb, records, retina
from sklearn_mdl.datasets._vtab.loading import READERS
from sklearn_mdl.encoders import TorchEncoder

Image = pytest.importorskip("PIL.Image")
if find_spec("torchvision") is None:
    pytest.skip("could not import 'torchvision'", allow_module_level=True)
torchvision = lazy_loader.load("torchvision")  # seconds, not spent on collecting

import vtab_files  # noqa: E402, it needs Pillow

PAPER = SHARED.parent / "paper" / "vtab_tasks.csv"


@pytest.fixture(autouse=True)
def any_checksum(monkeypatch):
    """Let torchvision take tiny files for the whole ones."""
    for name in ("cifar", "svhn", "flowers102"):
        module = getattr(torchvision.datasets, name)
        monkeypatch.setattr(module, "check_integrity", lambda path, *_: True)


@pytest.fixture
def write(tmp_path):
    """A function that writes the files of a task and returns what is to be found."""

    def files(task):
        match task:
            case "PatchCamelyon":
                pytest.importorskip("h5py")
                return vtab_files.patch_camelyon(tmp_path)
            case "DMLab":
                return write_dmlab(tmp_path)
            case "DSpritesLocation" | "DSpritesOrientation":
                labels, parts, reds = vtab_files.dsprites(tmp_path)
                return labels[task.removeprefix("DSprites").lower()], parts, reds
            case "SmallNORBAzimuth" | "SmallNORBElevation":
                labels, parts, reds = vtab_files.smallnorb(tmp_path)
                return labels[task.removeprefix("SmallNORB").lower()], parts, reds
            case "ClevrCount" | "ClevrDistance":
                labels, parts, reds = vtab_files.clevr(tmp_path)
                return labels[task.removeprefix("Clevr").lower()], parts, reds
            case "KittiDistance":
                return vtab_files.kitti(tmp_path)
        return getattr(vtab_files, task.lower())(tmp_path)

    return files


# TFRecords, written by hand


def varint(number):
    digits = []
    number &= (1 << 64) - 1
    while True:
        number, digit = number >> 7, number & 127
        digits.append(digit | (128 if number else 0))
        if not number:
            return bytes(digits)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(value):
    if isinstance(value, bytes):
        return field(1, field(1, value))
    return field(3, field(1, varint(value)))


def example(**features):
    entries = (
        field(1, field(1, name.encode()) + field(2, feature(value)))
        for name, value in features.items()
    )
    return field(1, b"".join(entries))


def record(message):
    head = struct.pack("<Q", len(message))
    body_checksum = struct.pack("<I", records.masked_crc(message))
    return head + struct.pack("<I", records.masked_crc(head)) + message + body_checksum


def write_dmlab(folder):
    reds = iter(vtab_files.REDS)
    (folder / "dmlab").mkdir()
    wanted, parts = [], []
    for part, shards in {
        "train": [[5, 0], [3]],
        "validation": [[1]],
        "test": [[2, 5]],
    }.items():
        for number, labels in enumerate(shards):
            content = b""
            for label in labels:
                vtab_files.picture(folder / "one.jpg", next(reds))
                message = example(
                    filename=b"a/b.jpg",
                    label=label,
                    image=(folder / "one.jpg").read_bytes(),
                )
                content += record(message)
            name = f"dmlab-{part}.tfrecord-{number:05}-of-{len(shards):05}"
            (folder / "dmlab" / name).write_bytes(content)
            wanted += labels
            parts += [part] * len(labels)
    return wanted, parts, vtab_files.REDS[:6]


# The tasks


@pytest.mark.skipif(not PAPER.is_file(), reason="needs the paper's tables")
def test_tasks_are_those_of_the_paper():
    with PAPER.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["dataset"] for row in rows] == list(VTAB_TASKS)
    for row in rows:
        task = VTAB_TASKS[row["dataset"]]
        assert task.name == row["dataset"]
        assert (task.group, task.n_examples) == (row["group"], int(row["n_examples"]))


def test_descriptions_of_tasks_are_complete():
    assert len(VTAB_TASKS) == 19
    groups = [task.group for task in VTAB_TASKS.values()]
    counts = [groups.count(name) for name in ("natural", "specialized", "structured")]
    assert counts == [7, 4, 8]
    for task in VTAB_TASKS.values():
        assert isinstance(task, VtabTask)
        assert task.n_classes >= 2
        assert task.n_test > 0
        assert task.origin.startswith(("https://", "http://"))
        assert all([task.labels, task.parts, task.licence, task.files, task.download])
    assert list(READERS) == list(VTAB_TASKS)


def test_all_images_of_a_task_are_in_its_parts():
    # Sizes of the whole sets, as their owners state them.
    whole = {
        "Caltech101": 9144,
        "Cifar100": 60_000,
        "DTD": 5640,
        "Flowers102": 8189,
        "Pets": 7349,
        "SVHN": 99_289,
        "Sun397": 108_753,
        "EuroSAT": 27_000,
        "PatchCamelyon": 327_680,
        "Resisc45": 31_500,
        "Retinopathy": 88_702,
        "ClevrCount": 85_000,
        "ClevrDistance": 85_000,
        "DMLab": 110_913,
        "DSpritesLocation": 737_280,
        "DSpritesOrientation": 737_280,
        "KittiDistance": 7481,
        "SmallNORBAzimuth": 48_600,
        "SmallNORBElevation": 48_600,
    }
    for name, n in whole.items():
        assert VTAB_TASKS[name].n_examples + VTAB_TASKS[name].n_test == n


def test_licences_say_where_they_are_stated():
    for task in VTAB_TASKS.values():
        assert re.fullmatch(r"[^()]+ \([^()]+\)", task.licence)


# Reading


@pytest.mark.parametrize("name", VTAB_TASKS)
def test_labels_parts_and_images_are_read(name, write, tmp_path):
    labels, parts, reds = write(name)
    data = load_vtab(name, tmp_path)
    assert data.task == VTAB_TASKS[name]
    assert data.y.dtype == np.int64
    assert data.y.tolist() == list(labels)
    assert (None if data.parts is None else data.parts.tolist()) == parts
    images = list(data.images)
    assert all(image.mode == "RGB" for image in images)
    if reds is not None:
        found = [np.asarray(image)[..., 0].mean() for image in images]
        np.testing.assert_allclose(found, reds, atol=1.5)
    assert len(data) == len(labels)
    image, label = data[1]
    assert (np.asarray(image) == np.asarray(images[1])).all()
    assert label == labels[1]
    again = pickle.loads(pickle.dumps(data))
    assert (np.asarray(again.images[2]) == np.asarray(images[2])).all()


@pytest.mark.parametrize("name", VTAB_TASKS)
def test_missing_files_are_named_with_their_origin(name, write, tmp_path):
    write(name)
    task = VTAB_TASKS[name]
    for file in task.files:
        place, aside = tmp_path / file, tmp_path / "aside"
        place.rename(aside)
        with pytest.raises(FileNotFoundError) as caught:
            load_vtab(name, str(tmp_path))
        text = str(caught.value)
        assert text.startswith(f"{name} needs {place}, which is missing; download ")
        assert task.origin in text
        assert task.download in text
        aside.rename(place)
    load_vtab(name, tmp_path)


def test_names_that_are_no_task_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"task must .* pass one of \['KittiDistance'"):
        load_vtab("kitti distance", tmp_path)


def test_encoders_take_the_images(write, tmp_path):
    write("Pets")
    data = load_vtab(VTAB_TASKS["Pets"], tmp_path)
    encoder = TorchEncoder(torch.nn.Identity(), pool="avg")
    found = encoder.transform(data.images)
    np.testing.assert_allclose(found[:, 0] * 255, [0, 10, 20], atol=1.5)
    np.testing.assert_array_equal(encoder.transform(data), found)
    loader = torch.utils.data.DataLoader(data, batch_size=None)
    assert [label for _, label in loader] == [0, 1, 36]


def test_labels_beyond_those_of_the_task_are_refused(write, tmp_path):
    write("Pets")
    file = tmp_path / "oxford-iiit-pet" / "annotations" / "test.txt"
    file.write_text("yorkshire_terrier_9 38 2 25\n")
    with pytest.raises(ValueError, match=r"Pets .*y must be labels from 0 to 36, got"):
        load_vtab("Pets", tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ClevrCount", "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json"),
        ("DTD", "dtd/dtd/labels/val1.txt"),
        ("SVHN", "test_32x32.mat"),
        ("Cifar100", "cifar-100-python/test"),
        ("Pets", "oxford-iiit-pet/annotations/test.txt"),
        ("DSpritesLocation", "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"),
        ("KittiDistance", "Kitti/raw/training/label_2/000005.txt"),
    ],
)
def test_damaged_files_are_reported(name, file, write, tmp_path):
    write(name)
    (tmp_path / file).write_text("Car what")
    with pytest.raises(ValueError, match="must be as their owners publish them, but"):
        load_vtab(name, tmp_path)


def test_damaged_packed_files_are_reported(tmp_path):
    vtab_files.smallnorb(tmp_path, packed=True)
    for file in tmp_path.glob("smallnorb/*-dat.mat.gz"):
        file.write_text("Car what")
    with pytest.raises(ValueError, match=r"must be as their owners .*BadGzipFile"):
        load_vtab("SmallNORBAzimuth", tmp_path)


def test_depths_are_compared_in_single_precision(tmp_path):
    vtab_files.clevr(tmp_path)
    file = tmp_path / "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json"
    content = json.loads(file.read_text())
    # As single numbers these are 8 itself, and the next above it.
    for scene, depth in zip(content["scenes"], [8 + 1e-8, 8 + 9e-7], strict=True):
        scene["objects"] = [{"pixel_coords": [0, 0, depth]}] * 3
    file.write_text(json.dumps(content))
    assert load_vtab("ClevrDistance", tmp_path).y[-2:].tolist() == [0, 1]


# PatchCamelyon's HDF5


def test_patches_are_those_of_torchvisions_own_class(write, tmp_path):
    write("PatchCamelyon")
    data = load_vtab("PatchCamelyon", tmp_path)
    own = [
        torchvision.datasets.PCAM(tmp_path, split=part)
        for part in ("train", "val", "test")
    ]
    pairs = [pair for part in own for pair in part]
    assert len(pairs) == len(data)
    for (image, label), (found, found_label) in zip(pairs, data, strict=True):
        assert (np.asarray(found) == np.asarray(image)).all()
        assert found_label == label


def test_patches_that_are_still_packed_are_to_be_unpacked(write, tmp_path):
    write("PatchCamelyon")
    place = tmp_path / "pcam" / "camelyonpatch_level_2_split_valid_x.h5"
    place.with_name(f"{place.name}.gz").write_bytes(gzip.compress(place.read_bytes()))
    load_vtab("PatchCamelyon", tmp_path)
    place.unlink()
    match = r"needs .*valid_x.h5; unpack .*valid_x.h5.gz"
    with pytest.raises(FileNotFoundError, match=match):
        load_vtab("PatchCamelyon", tmp_path)


@pytest.mark.parametrize("kind", ["x", "y"])
def test_files_that_are_not_the_owners_hdf5_are_named(kind, write, tmp_path):
    write("PatchCamelyon")
    place = tmp_path / "pcam" / f"camelyonpatch_level_2_split_test_{kind}.h5"
    other = "xy".replace(kind, "")
    shutil.copy(place.with_name(place.name.replace(f"{kind}.h5", f"{other}.h5")), place)
    with pytest.raises(ValueError, match=f"test_{kind}.h5 must hold HDF5"):
        load_vtab("PatchCamelyon", tmp_path)
    place.write_bytes(b"no HDF5")
    with pytest.raises(ValueError, match=rf"test_{kind}.h5 .* signature not found"):
        load_vtab("PatchCamelyon", tmp_path)


def test_patches_without_labels_are_reported(write, tmp_path):
    write("PatchCamelyon")
    stem = tmp_path / "pcam" / "camelyonpatch_level_2_split"
    shutil.copy(f"{stem}_train_x.h5", f"{stem}_test_x.h5")
    with pytest.raises(ValueError, match=r"counts must be equal, got \(8, 7\)"):
        load_vtab("PatchCamelyon", tmp_path)


def test_files_with_another_checksum_are_reported(write, tmp_path, monkeypatch):
    write("SVHN")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"SVHN .* cannot be read .*corrupted"):
        load_vtab("SVHN", tmp_path)


@pytest.mark.parametrize(
    ("name", "extra"),
    [("EuroSAT", "torchvision.datasets"), ("PatchCamelyon", "h5py")],
)
def test_missing_libraries_are_named(name, extra, write, tmp_path, monkeypatch):
    write(name)
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(ImportError, match=r"sklearn-mdl\[vtab\]"):
        load_vtab(name, tmp_path)


# Parts


def test_parts_are_the_owners(write, tmp_path):
    write("DTD")
    data = load_vtab("DTD", tmp_path)
    train, test = data.split()
    assert (len(train), len(test)) == (4, 2)
    assert set(train.parts) == {"train", "validation"}
    np.testing.assert_allclose(np.asarray(test.images[1])[..., 0], 50, atol=1.5)
    write_again = load_vtab("Sun397", sun(tmp_path))
    unknown = "Sun397 do not say which images are for training and which for testing"
    cure = r"call reshuffled\(\) instead of split\(\)$"
    with pytest.raises(ValueError, match=f"{unknown}; {cure}"):
        write_again.split()


def test_a_part_cannot_be_split_again_and_no_subset_is_empty(write, tmp_path):
    write("DTD")
    train, test = load_vtab("DTD", tmp_path).split()
    for part, name in ((train, r"\['train', 'validation'\]"), (test, r"\['test'\]")):
        said = rf"^The parts must be 'test' and at least one other, got {name}; call "
        said += r"split\(\) on the result of load_vtab\(\)$"
        with pytest.raises(ValueError, match=said):
            part.split()
    with pytest.raises(ValueError, match=r"row numbers, got \[\]; pass rows=\[0\]$"):
        train.take([])
    with pytest.raises(ValueError, match="at least 2, got 1; reshuffle more images"):
        train.take([0]).reshuffled()


def sun(folder):
    vtab_files.sun397(folder)
    return folder


def test_reshuffled_parts_have_the_papers_sizes(write, tmp_path):
    labels, _, _ = write("DTD")
    data = load_vtab("DTD", tmp_path)
    required = r"reshuffled\(\) needs all 5640 images of DTD for its default n_train"
    cure = "pass n_train=3, or download any missing images$"
    with pytest.raises(ValueError, match=f"{required}, got 6; {cure}"):
        data.reshuffled(random_state=0)
    with pytest.raises(ValueError, match="between 1 and 5, got 6"):
        data.reshuffled(random_state=0, n_train=6)
    train, test = data.reshuffled(random_state=0, n_train=4)
    assert (len(train), len(test)) == (4, 2)
    for part in (train, test):
        for image, label in part:
            red = np.asarray(image)[..., 0].mean()
            assert labels[round(red / 10)] == label
    again, _ = data.reshuffled(random_state=0, n_train=4)
    np.testing.assert_array_equal(again.y, train.y)
    task = VtabTask(**{**vars(data.task), "n_examples": 4, "n_test": 2})
    whole = type(data)(task, data.images, data.y, data.parts)
    np.testing.assert_array_equal(whole.reshuffled(random_state=0)[0].y, train.y)


def test_fingerprints_of_images_do_not_ask_for_their_pixels(write, tmp_path):
    write("Retinopathy")
    data = load_vtab("Retinopathy", tmp_path)
    one = images_fingerprint(data.images)
    assert one != images_fingerprint([*data.images.items])  # they are processed
    path = data.images.items[3]
    path.write_bytes(path.read_bytes() + b"no pixel moves")
    assert images_fingerprint(data.images) != one


# KITTI's videos


def test_images_of_one_video_are_in_one_part(tmp_path):
    vtab_files.kitti(tmp_path, mapping=True)
    data = load_vtab("KittiDistance", tmp_path)
    # By hand: lines 6, 2, 3, 1, 5, 4 of the mapping are of these videos.
    videos = ["one", "two", "two", "one", "four", "three"]
    parts = dict(zip(videos, data.parts, strict=True))
    assert [parts[video] for video in videos] == data.parts.tolist()
    assert sorted(parts.values()) == ["test", "train", "train", "validation"]
    np.random.seed(123)  # noqa: NPY002, what TensorFlow Datasets does
    names = sorted(f"2011_09_26_drive_{video}_sync" for video in parts)
    test = np.random.choice(names, 1, replace=False)  # noqa: NPY002
    rest = sorted(set(names) - set(test))
    validation = np.random.choice(rest, 1, replace=False)  # noqa: NPY002
    assert parts[test[0].split("_")[-2]] == "test"
    assert parts[validation[0].split("_")[-2]] == "validation"


# SmallNORB's matrices


@pytest.mark.parametrize("kind", ["azimuth", "elevation"])
def test_packed_matrices_are_read_as_well(kind, tmp_path):
    labels, parts, reds = vtab_files.smallnorb(tmp_path, packed=True)
    data = load_vtab(f"SmallNORB{kind.capitalize()}", tmp_path)
    assert data.y.tolist() == labels[kind]
    assert data.parts.tolist() == parts
    assert [np.asarray(image)[0, 0].tolist() for image in data.images] == [
        [red] * 3 for red in reds
    ]


def test_a_matrix_is_read_byte_by_byte(tmp_path):
    # The owners' description: a matrix of int32, two axes, of 2 x 3, padded to three.
    content = bytes.fromhex("544c3d1e 02000000 02000000 03000000 01000000")
    content += np.arange(6, dtype="<i4").tobytes()
    (tmp_path / "info.mat").write_bytes(content)
    found = norb.read_matrix(tmp_path / "info.mat")
    np.testing.assert_array_equal(found, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"MATLAB 5.0 MAT-file", "begins with 0x4c54414d"),
        (b"UL", "ends after 0"),
        (struct.pack("<5i", 0x1E3D4C55, 2, 9, 9, 1) + b"123", "ends after 3"),
    ],
)
def test_other_matrices_are_refused(content, match, tmp_path):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        norb.read_matrix(tmp_path / "x.mat")


# DMLab's records


def test_checksums_are_castagnolis():
    assert records.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert records.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, appendix B.4
    assert records.masked_crc(b"") == 0xA282EAD8


def test_a_message_that_tensorflow_wrote_is_read():
    # From TensorFlow's tutorial on tf.train.Example: False, 4, b"goat", 0.9876.
    message = (
        b"\nR\n\x11\n\x08feature0\x12\x05\x1a\x03\n\x01\x00\n\x11\n\x08feature1\x12"
        b"\x05\x1a\x03\n\x01\x04\n\x14\n\x08feature2\x12\x08\n\x06\n\x04goat\n\x14\n"
        b"\x08feature3\x12\x08\x12\x06\n\x04[\xd3|?"
    )
    found = records.parse_example(message)
    assert (found["feature0"], found["feature1"]) == ([0], [4])
    ((start, stop),) = found["feature2"]
    assert message[start:stop] == b"goat"
    assert found["feature3"] == []  # floats are not needed
    fields = {"feature0": 0, "feature1": 4, "feature2": b"goat"}
    assert example(**fields)[2:] == message[2 : 2 + len(example(**fields)) - 2]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**40, -1])
def test_integers_are_read_packed_or_not(value, packed):
    if packed:
        values = field(1, varint(value) + varint(7))
    else:
        values = b"\x08" + varint(value) + b"\x08" + varint(7)
    message = field(1, field(1, field(1, b"n") + field(2, field(3, values))))
    assert records.parse_example(message) == {"n": [value, 7]}


@pytest.mark.parametrize("cut", [1, 9, 13, 60, -1])
def test_records_that_are_cut_off_are_refused(cut, tmp_path):
    content = record(example(image=b"i" * 90, label=3))
    path = tmp_path / "dmlab-train.tfrecord"
    path.write_bytes(content * 2)
    assert [label for _, label in records.examples(path)] == [3, 3]
    path.write_bytes((content * 2)[: len(content) + (cut if cut > 0 else -1)])
    with pytest.raises(ValueError, match="is damaged at byte"):
        list(records.examples(path))


def test_a_record_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "dmlab-train.tfrecord"
    path.write_bytes(record(example(label=3)))
    with pytest.raises(ValueError, match=r"holds only \['label'\]"):
        list(records.examples(path))
    path.write_bytes(record(b"\xff" * 20))
    with pytest.raises(ValueError, match="does not end"):
        list(records.examples(path))
    path.write_bytes(b"a text, and no records at all")
    with pytest.raises(ValueError, match="damaged at byte 12"):
        list(records.examples(path))


def test_a_part_of_dmlab_without_records_is_named(tmp_path):
    write_dmlab(tmp_path)
    for path in (tmp_path / "dmlab").glob("dmlab-test*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"dmlab-test\S+, which is missing"):
        load_vtab("DMLab", tmp_path)


@pytest.mark.parametrize("wire", [3, 4, 6, 7, 5], ids="a field of wire type {}".format)
def test_a_record_with_fields_of_other_kinds_or_cut_off_is_refused(wire):
    with pytest.raises(ValueError, match="unreadable field at byte 1"):
        records.parse_example(bytes([1 << 3 | wire, 0, 0]))


# Photographs of eyes


def eye(radius, height, width, value=120):
    rows, columns = np.mgrid[:height, :width]
    inside = (rows - height // 2) ** 2 + (columns - width // 2) ** 2 < radius**2
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[inside] = value
    return Image.fromarray(pixels)


@pytest.mark.parametrize("radius", [80, 250, 700])
def test_eyes_of_all_sizes_look_alike(radius, tmp_path):
    image = eye(radius, 2 * radius + 11, 3 * radius)
    scaled = retina.scale_to_radius(image)
    lit = (scaled[len(scaled) // 2].sum(1) > 0).sum() / 2
    assert lit == pytest.approx(300, abs=3)
    image.save(tmp_path / "eye.png")
    found = np.asarray(retina.open_retina(tmp_path / "eye.png"))
    assert found.shape == (540, 540, 3)  # nine tenths of the radius, on both sides
    np.testing.assert_allclose(found[150:390, 150:390], 128, atol=2)  # flat: grey
    np.testing.assert_allclose(found[:20, :20], 128, atol=3)  # outside: masked


def test_scaling_interpolates_between_four_neighbours():
    # Twice as large: a pixel lies a quarter from the nearest of two neighbours.
    row = np.tile(np.array([[0, 100, 200, 100]], np.uint8)[..., None], (2, 1, 3))
    found = retina.scale_to_radius(Image.fromarray(row), radius=3)  # 3 are lit: x 2
    wanted = [0, 25, 75, 125, 175, 175, 125, 100]
    np.testing.assert_allclose(found[1, :, 0], wanted, atol=1)


def test_local_averages_are_subtracted_four_times_over():
    pixels = np.full((90, 90, 3), 100, np.uint8)
    pixels[45, 45] = 110
    found = retina.subtract_local_average(pixels, radius=60)  # sigma is 2
    weight = 1 / (2 * np.pi * 4)  # of the middle, in a Gaussian average
    assert found[45, 45, 0] == pytest.approx(128 + 40 * (1 - weight), abs=3)
    assert (found[:20] == 128).all()


def test_an_eye_that_cannot_be_found_has_half_the_height():
    black = Image.new("RGB", (40, 20))
    assert retina.scale_to_radius(black, radius=30).shape == (60, 120, 3)
    assert json.dumps(retina.PROCESSING) == '"btgraham-300"'


def test_images_of_dsprites_must_be_bytes(tmp_path):
    vtab_files.dsprites(tmp_path)
    (path,) = tmp_path.glob("dsprites*.npz")
    with np.load(path, allow_pickle=True) as archive:
        arrays = dict(archive)
    np.savez_compressed(path, **{**arrays, "imgs": arrays["imgs"] / 255})
    with pytest.raises(ValueError, match=r"images .* and dtype float64.* download"):
        load_vtab("DSpritesLocation", tmp_path)
