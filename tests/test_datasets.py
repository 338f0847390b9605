"""Every format gives back what was stored; every fault is named in one sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_array_equal
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from sklearn_mdl.datasets import load_feature_directory, load_features, load_labels

SUFFIXES = (".npy", ".npz", ".safetensors")
FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS = np.array([2, 0, 1, 0])


def store(path: Path, array: np.ndarray, name: str = "any") -> Path:
    """Write one array, in the format that the suffix asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        store_named(path, {name: array})
    return path


def store_named(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)
    return path


def study(root: Path) -> Path:
    """Two datasets, two encoders, all formats."""
    store(root / "svhn" / "vit.base.npz", FEATURES)
    store(root / "svhn" / "resnet.safetensors", FEATURES + 1)
    store(root / "svhn" / "labels.safetensors", LABELS)
    store(root / "cifar" / "vit.base.npy", FEATURES[:3])
    store(root / "cifar" / "labels.npy", LABELS[:3])
    return root


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_features_are_loaded(tmp_path, suffix):
    loaded = load_features(store(tmp_path / f"a{suffix}", FEATURES))
    assert_array_equal(loaded, FEATURES, strict=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_are_loaded(tmp_path, suffix):
    loaded = load_labels(store(tmp_path / f"a{suffix}", LABELS))
    assert_array_equal(loaded, LABELS, strict=True)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_labels_may_be_words(tmp_path, suffix):
    words = np.array(["cat", "dog", "cat"])
    assert_array_equal(load_labels(store(tmp_path / f"a{suffix}", words)), words)


def test_path_may_be_a_string(tmp_path):
    assert_array_equal(load_labels(str(store(tmp_path / "a.npy", LABELS))), LABELS)


def test_npy_is_memory_mapped_and_read_only(tmp_path):
    loaded = load_features(store(tmp_path / "a.npy", FEATURES))
    assert isinstance(loaded, np.memmap)
    assert not loaded.flags.writeable


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
@pytest.mark.parametrize(("x_name", "y_name"), [("features", "labels"), ("X", "y")])
def test_known_names_are_found_among_others(tmp_path, suffix, x_name, y_name):
    arrays = {"a": FEATURES * 2, x_name: FEATURES, y_name: LABELS, "z": LABELS * 2}
    path = store_named(tmp_path / f"both{suffix}", arrays)
    assert_array_equal(load_features(path), FEATURES, strict=True)
    assert_array_equal(load_labels(path), LABELS, strict=True)


@pytest.mark.parametrize("load", [load_features, load_labels])
def test_unknown_suffix_is_refused(tmp_path, load):
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"path must .* \.npz.* np.save"):
        load(tmp_path / "a.csv")


@pytest.mark.parametrize("load", [load_features, load_labels])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_file_is_named(tmp_path, load, suffix):
    with pytest.raises(FileNotFoundError, match=f"nowhere{suffix}'; call np.save"):
        load(tmp_path / f"nowhere{suffix}")


def test_directory_is_no_file(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(FileNotFoundError, match=r"call np\.save"):
        load_features(tmp_path / "a.npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(), (4,), (2, 2, 1)])
def test_features_must_be_two_dimensional(tmp_path, suffix, shape):
    path = store(tmp_path / f"a{suffix}", np.zeros(shape))
    with pytest.raises(ValueError, match=r"real numbers \(n, d\), .* shape \("):
        load_features(path)


@pytest.mark.parametrize("dtype", [np.complex128, "U1", "M8[s]"])
def test_features_must_be_numeric(tmp_path, dtype):
    path = store(tmp_path / "a.npy", np.zeros((2, 2)).astype(dtype))
    with pytest.raises(ValueError, match=r"real numbers \(n, d\), .* dtype "):
        load_features(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(), (4, 1)])
def test_labels_must_be_one_dimensional(tmp_path, suffix, shape):
    path = store(tmp_path / f"a{suffix}", np.zeros(shape))
    with pytest.raises(ValueError, match="labels, one per sample"):
        load_labels(path)


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
@pytest.mark.parametrize("names", [("a", "b"), ("features", "X"), ("labels", "y")])
def test_ambiguous_array_is_refused(tmp_path, suffix, names):
    path = store_named(tmp_path / f"a{suffix}", dict.fromkeys(names, FEATURES))
    with pytest.raises(ValueError, match=r"'features' or 'X'.*it holds \['"):
        load_features(path)


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_file_without_arrays_is_refused(tmp_path, suffix):
    path = store_named(tmp_path / f"a{suffix}", {})
    with pytest.raises(ValueError, match=r"'labels' or 'y'.*it holds no array"):
        load_labels(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"junk, and a good deal of it"])
def test_damaged_file_is_named(tmp_path, suffix, content):
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"damaged{suffix} must hold a plain array"):
        load_features(path)


@for_each(
    "kind, shape",
    [*((k, (2, 1)) for k in ("'<,,'", "[(((", "-" * 9000 + "1")), ("'<f8'", (2, -1))],
)
def test_an_npy_header_that_cannot_be_is_named(tmp_path, kind, shape):
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"
    size = len(header).to_bytes(2, "little")
    path = tmp_path / "damaged.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + size + header.encode() + bytes(16))
    with pytest.raises(ValueError, match=r"damaged\.npy must hold a plain array"):
        load_features(path)


@pytest.mark.parametrize("suffix", SUFFIXES[:2])
def test_pickled_objects_are_refused(tmp_path, suffix):
    path = store(tmp_path / f"a{suffix}", np.array([[{}, "a"]], dtype=object))
    with pytest.raises(ValueError, match=r"a plain array.*y.astype\(str\)"):
        load_features(path)


def test_type_that_numpy_lacks_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    save_torch_file({"X": torch.ones(1, 2, dtype=torch.bfloat16)}, path)
    with pytest.raises(ValueError, match="bfloat16"):
        load_features(path)


def test_directory_gives_datasets_and_encoders(tmp_path):
    loaded = load_feature_directory(study(tmp_path))
    assert list(loaded) == ["cifar", "svhn"]
    features, labels = loaded["svhn"]
    assert list(features) == ["resnet", "vit.base"]
    assert_array_equal(features["resnet"], FEATURES + 1)
    assert_array_equal(features["vit.base"], FEATURES)
    assert_array_equal(labels, LABELS)
    features, labels = loaded["cifar"]
    assert list(features) == ["vit.base"]
    assert_array_equal(features["vit.base"], FEATURES[:3])
    assert_array_equal(labels, LABELS[:3])


def test_directory_may_be_a_string(tmp_path):
    assert list(load_feature_directory(str(study(tmp_path)))) == ["cifar", "svhn"]


def test_directory_ignores_what_is_not_meant(tmp_path):
    study(tmp_path)
    (tmp_path / "README.txt").write_text("not a dataset")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "svhn" / "notes.txt").write_text("not an encoder")
    (tmp_path / "svhn" / ".vit.npy").write_bytes(b"half written")
    (tmp_path / "svhn" / "folder.npy").mkdir()
    loaded = load_feature_directory(tmp_path)
    assert list(loaded) == ["cifar", "svhn"]
    assert list(loaded["svhn"][0]) == ["resnet", "vit.base"]


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_missing_directory_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        FileNotFoundError,
        match=f"{name} must be a directory that exists, but is not; correct the path$",
    ):
        load_feature_directory(tmp_path / name)


def test_directory_without_datasets_is_refused(tmp_path):
    store(tmp_path / "vit.npy", FEATURES)
    (tmp_path / ".hidden").mkdir()
    with pytest.raises(ValueError, match=r"must hold one folder .*ENCODER\.npy"):
        load_feature_directory(tmp_path)


def test_dataset_without_labels_is_named(tmp_path):
    store(tmp_path / "svhn" / "vit.npy", FEATURES)
    with pytest.raises(FileNotFoundError, match=r"svhn must .* labels\.npy, .* or "):
        load_feature_directory(tmp_path)


def test_dataset_without_features_is_named(tmp_path):
    store(tmp_path / "svhn" / "labels.npy", LABELS)
    with pytest.raises(ValueError, match="svhn must hold at least one feature file"):
        load_feature_directory(tmp_path)


@pytest.mark.parametrize("stem", ["vit.base", "labels"])
def test_same_name_with_two_suffixes_is_refused(tmp_path, stem):
    study(tmp_path)
    store(tmp_path / "cifar" / f"{stem}.safetensors", FEATURES)
    match = f"cifar must .*'{stem}.npy' and '{stem}.safetensors'; remove one"
    with pytest.raises(ValueError, match=match):
        load_feature_directory(tmp_path)


def test_rows_must_match_labels(tmp_path):
    study(tmp_path)
    store(tmp_path / "cifar" / "resnet.npz", FEATURES)
    match = (
        "cifar must hold 3 rows for each encoder, like the labels, .* 'resnet' has 4"
    )
    with pytest.raises(ValueError, match=match):
        load_feature_directory(tmp_path)
