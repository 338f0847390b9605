"""Bad input gets one sentence that says what was required and what to do."""

import re
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from PIL import Image

from sklearn_mdl import (
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RepresentationScorer,
)
from sklearn_mdl._core.io.whole_files import make_folder
from sklearn_mdl.cli._options import check_output
from sklearn_mdl.encoders import image_rows
from sklearn_mdl.switcher import check_losses_path

READOUTS = [LinearReadout(n_replay_streams=1), MLPReadout((3,), n_replay_streams=1)]


def data(n=60, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(3, size=n)


def switcher(**options):
    return MDLReadoutSwitcher(READOUTS, random_state=0, **options)


@for_each(
    "groups",
    [
        np.r_[np.nan, np.ones(59)],
        np.ma.masked_array(np.arange(60), mask=np.arange(60) == 0),
        np.array([None, *range(59)], dtype=object),
        [float("nan"), *"a" * 59],
        np.r_[np.datetime64("NaT", "s"), np.repeat(np.datetime64(0, "s"), 59)],
        pd.Series([pd.NA, *"a" * 59], dtype="string"),
        pd.array([None, *range(59)], dtype="Int64"),
        pd.Categorical([None, *"a" * 59]),
    ],
)
def test_rows_without_a_group_are_refused(groups):
    X, y = data()
    match = "must name the group of every row, but row 0 has no group; drop"
    with pytest.raises(ValueError, match=f"^groups {match}"):
        switcher(shuffle=True).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=f"^groups of dataset 'd' {match}"):
        RepresentationScorer(switcher()).fit({"d": ({"a": X, "b": X}, y, groups)})


def test_rows_of_groups_are_accepted_in_the_order_that_the_error_names():
    (X, y), groups = data(), np.tile([2, 1, 3], 20)
    named = r"pass X\[i\], y\[i\] and groups\[i\] in one call, with i = np\.argsort"
    with pytest.raises(ValueError, match=named):
        switcher().fit(X, y, groups=groups)
    i = np.argsort(groups, kind="stable")
    assert switcher().fit(X[i], y[i], groups=groups[i]).n_samples_seen_ == 60


def test_images_with_channels_first_are_accepted_as_the_error_says():
    images = np.random.default_rng(0).random((2, 3, 8, 8))
    with pytest.raises(ValueError, match=r"pass image\.transpose\(1, 2, 0\) for "):
        image_rows(images)
    assert image_rows([image.transpose(1, 2, 0) for image in images]).shape == (2, 192)


IMAGE = np.eye(8) / 2
TENSORS = torch.from_numpy(np.stack([IMAGE] * 3))


@pytest.mark.parametrize(
    ("X", "cure", "n"),
    [
        (TENSORS, "X.numpy(force=True)", 3),
        (TENSORS, "[X]", 1),  # one image in colour
        (torch.stack([TENSORS] * 2), "X.permute(0, 2, 3, 1).numpy(force=True)", 2),
        (torch.zeros(2, 8, 8, 3), "X.numpy(force=True)", 2),
        (torch.zeros(2, 64), "X.reshape(N, H, W).numpy(force=True)", 2),
        (np.zeros((2, 64)), "np.asarray(X).reshape(N, H, W)", 2),
        ({"image": [IMAGE]}, "X['image']", 1),
        ([{"image": IMAGE}] * 2, "[row['image'] for row in X]", 2),
        ([[[0.0, 1.0], [1.0, 0.0]]], "np.asarray(X)", 1),
    ],
)
def test_images_are_accepted_as_the_error_says(X, cure, n):
    with pytest.raises((TypeError, ValueError), match=re.escape(cure)):
        image_rows(X)
    fixed = eval(cure, {"np": np, "X": X, "N": 2, "H": 8, "W": 8})
    assert len(image_rows(fixed)) == n


@pytest.mark.parametrize(
    ("image", "cure"),
    [
        (3 * IMAGE - 1, "(image - low) / (high - low)"),
        (np.full((8, 8), 9, np.uint16), "(image - low) / (high - low)"),
        (np.where(IMAGE > 0, np.nan, 1.0), "np.nan_to_num(image)"),
        (np.zeros((8, 8, 2)), "image[:, :, :1]"),
        (np.zeros(64), "image.reshape(H, W)"),
        (torch.zeros(2, 8, 8), "tensor[:1]"),
        (torch.zeros(8, 8, 3), "tensor.permute(2, 0, 1)"),
        (Image.fromarray(np.float32(IMAGE)), "np.asarray(image) / top"),
        (Image.fromarray(np.full((8, 8), 9, np.int32)), "np.asarray(image) / top"),
    ],
)
def test_single_images_are_accepted_as_the_error_says(image, cure):
    with pytest.raises(ValueError, match=re.escape(cure)):
        image_rows([image])
    low = -1 if cure.startswith("(") and image.dtype.kind == "f" else 0
    names = {"np": np, "image": image, "tensor": image, "H": 8, "W": 8}
    fixed = eval(cure, {**names, "low": low, "high": 65535, "top": 65535})
    assert len(image_rows([fixed])) == 1


def test_folders_of_images_are_accepted_as_the_error_says(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    cure = f"sorted(Path({str(tmp_path)!r}).rglob('*.*'))"
    with pytest.raises(TypeError, match=re.escape(f"pass {cure}")):
        image_rows(str(tmp_path))
    assert len(image_rows(eval(cure, {"Path": type(tmp_path)}))) == 1
    with pytest.raises(ValueError, match="correct its path, or omit this row"):
        image_rows([tmp_path / "b.png"])


@pytest.mark.parametrize("pooling", [[np.nan, 1.0], [np.nan, np.nan]])
def test_groups_of_a_pool_need_names(pooling):
    with pytest.raises(ValueError, match=r"must be names without NaN, got \[nan"):
        switcher(pooling=pooling).fit(*data())


def test_a_forecast_needs_as_many_labels_as_rows():
    X, y = data()
    for rows, labels in ((X, y[:3]), (X[:3], y)):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            switcher().dry_run(rows, labels)


@for_each(
    "readout, name",
    [
        (KernelReadout(depth=10**6), "depth"),
        (LinearReadout(n_replay_streams=10**9), "n_replay_streams"),
    ],
)
def test_settings_that_no_machine_could_compute_are_refused(readout, name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter .* must be an int"):
        readout.fit(*data())


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("name", ["checkpoint", "store"])
def test_a_folder_that_cannot_be_made_is_named_with_the_cure(name):
    match = r"folder must be writable .* pass another folder: '/proc/nowhere/"
    with pytest.raises(OSError, match=match):
        switcher(**{name: "/proc/nowhere"}).fit(*data())


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_folder_that_is_not_writable_is_refused_before_a_pass():
    for call in (
        switcher(store="/proc").fit,
        lambda X, y: check_losses_path(Path("/proc/losses.npy")),
        lambda X, y: check_output(Path("/proc/message.mdl"), []),
        lambda X, y: make_folder(Path("/proc")),
    ):
        with pytest.raises(OSError, match=r"must be writable .*another folder"):
            call(*data())


def test_results_that_are_not_writable_are_refused_before_a_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", Mock(side_effect=PermissionError))
    scorer = RepresentationScorer(switcher(), results=tmp_path)
    with pytest.raises(OSError, match=r"must be writable .*another folder"):
        scorer.fit({"d": ({"e": data()[0]}, data()[1])})


@pytest.fixture
def small_files():
    """No file of more than 20 kB may be written."""
    resource = pytest.importorskip("resource")  # not on Windows
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of file sizes")
@pytest.mark.parametrize("name", ["checkpoint", "store"])
def test_a_file_that_the_disk_does_not_take_is_named(name, tmp_path, small_files):
    with pytest.raises(
        OSError, match=rf"free disk space, make .* another path: '{tmp_path}/.*\.npy'"
    ):
        switcher(**{name: tmp_path}).fit(*data(400, 40))
