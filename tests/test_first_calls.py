"""First calls: what is clearly meant works, other forms name the right one."""

import socket
import time

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from torch import nn

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    RepresentationScorer,
    compare,
)
from sklearn_mdl.cli._main import main
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.encoders import TimmEncoder, TorchEncoder

X, Y = load_wine(return_X_y=True)
X, Y = X[::3], Y[::3]
A, B = X[:, :4], X[:, 4:]
FRAME, COLUMN = pd.DataFrame(X), pd.Series(Y)
SMALL = MDLReadoutSwitcher([KernelReadout("linear")])
NET = nn.Sequential(*(nn.Linear(500, 500) for _ in range(9)))
FORMS = [
    ((X, Y), 'datasets must be .* got ndarray of shape .* write {"data": (X, y)}'),
    ((FRAME, COLUMN), "got DataFrame of shape (60, 13); write"),
    (((X, Y), {"raw": None}), 'got tuple of length 2; write {"data": (X, y)}'),
    (([("w", X, Y)], {"raw": None}), "got list of length 1; write"),
    ((X,), "got ndarray of shape (60, 13); write"),
    (("features/mnist",), "got 'features/mnist'; write"),
    (
        ({"w": (X, Y)},),
        "Dataset 'w' needs encoders, got none; for example, pass encoders={\"raw\": "
        "None}",
    ),
    (
        ({"w": (X, Y)}, {"clip": A, "dino": B}),
        "write {'w': ({'clip': array, 'dino': array}, y)} without",
    ),
    (({"w": (X, Y)}, {"clip": FRAME}), "'clip': DataFrame of shape"),
    (({"w": (X, Y)}, {"clip": torch.ones(60, 3)}), "'clip': Tensor of shape"),
    (({"w": (X, Y)}, {"clip": A.tolist()}), "'clip': list of length 60"),
    (({"clip": A, "dino": B}, Y), "{'data': ({'clip': array, 'dino': array}, y)}"),
    (({"clip": A, "dino": B},), "'clip' is ndarray .* ({\"clip\": array}, y)"),
    (
        ({"w": ({"clip": A}, Y)}, {"raw": None}),
        "'w' already holds features, but encoders are given; pass encoders=None",
    ),
    (({"w": (X, Y)}, PCA(2)), 'got PCA; write encoders={"name": encoder}'),
    (
        ({"w": (X, Y)}, [PCA(2)]),
        'got list of length 1; write encoders={"raw": None, "pca": PCA(50)}',
    ),
    (
        ({"w": (X, Y)}, {"pca": PCA}),
        "'pca' is the class PCA; pass an instance",
    ),
    (({"w": (X, Y)}, {"net": NET}), "write encoders.TorchEncoder(module)"),
    (({"w": (X, Y)}, {"net": "resnet18"}), "write encoders.TimmEncoder('resnet18')"),
    (({"w": (X, Y)}, NET), 'encoders={"name": encoders.TorchEncoder(module)}'),
    (({"w": (X, Y)}, {"a": 3}), "'a' is 3; pass None to use X as it is"),
]


@for_each("given, words", FORMS)
def test_a_wrong_form_names_the_right_one_in_code(given, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        RepresentationScorer(SMALL).fit(*given)
    text = str(caught.value)
    assert all(part in text for part in words.split(" .* ")), text
    assert len(text) < 400
    assert "\n" not in text


def test_a_module_of_timm_names_its_encoder():
    timm = pytest.importorskip("timm")
    module = timm.create_model("resnet10t", pretrained=False)
    with pytest.raises(TypeError, match=r'write encoders.TimmEncoder\("resnet10t'):
        RepresentationScorer(SMALL).fit({"w": (X, Y)}, {"net": module})


@for_each("kind", ["npy", "npz"])
def test_the_folder_of_one_dataset_is_ranked(tmp_path, capsys, monkeypatch, kind):
    folder = tmp_path / "features" / "wine"
    folder.mkdir(parents=True)
    for name, array in {"all": X, "some": A, "labels": Y}.items():
        if kind == "npy":
            np.save(folder / f"{name}.npy", array)
        else:
            np.savez(folder / f"{name}.npz", array)
    assert list(load_feature_directory(folder)) == ["wine"]
    monkeypatch.chdir(folder)
    assert list(load_feature_directory(".")) == ["wine"]
    out = str(tmp_path / "out")
    for path in (folder.parent, folder):
        assert main(["rank", str(path), "--dry-run", "--out", out]) == 0
        assert "wine: 60 rows, 3 classes; all (13), some (4)" in capsys.readouterr().out
        assert main(["rank", str(path), "--datasets", "foo", "--out", out]) == 2
        required = "--datasets must be among ['wine'], got 'foo'"
        said = capsys.readouterr().err
        assert said == f"sklearn-mdl rank: {required}; pass --datasets wine\n"


def test_names_of_datasets_are_checked_before_anything_is_read(tmp_path, capsys):
    for name in ("mnist", "pets"):
        (tmp_path / "features" / name).mkdir(parents=True)
        (tmp_path / "features" / name / "labels.npy").write_text("unreadable")
    status = main(["rank", str(tmp_path / "features"), "--datasets", "pets", "mnits"])
    assert status == 2
    said = capsys.readouterr().err
    required = "--datasets must be among ['mnist', 'pets'], got 'mnits'"
    assert said == f"sklearn-mdl rank: {required}; pass --datasets mnist\n"


@for_each("verbose", [0, 1])
def test_progress_is_shown_while_images_are_encoded(verbose, capsys):
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3)).astype(np.uint8)
    encoder = TorchEncoder(nn.Conv2d(3, 4, 3), pool="avg")
    scorer = RepresentationScorer(SMALL, verbose=verbose)
    scorer.fit({"images": (images, Y)}, {"conv": encoder})
    said = capsys.readouterr().err
    assert ("TorchEncoder: 100%" in said) == bool(verbose)
    assert encoder.verbose == 0


def test_weights_are_refused_at_once_without_a_network(monkeypatch, tmp_path):
    pytest.importorskip("timm")

    def unreachable(*address):
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    start = time.monotonic()
    with pytest.raises(
        OSError, match=r"checkpoint_path=PATH, or pass pretrained=False"
    ):
        TimmEncoder("resnet10t.c3_in1k").fit(np.zeros((1, 32, 32, 3), np.uint8))
    assert time.monotonic() - start < 20


MISSING = r"needs more GPUs than torch finds \(0\); pass device='auto'$"


@for_each("device", ["cuda", "cuda:7"])
def test_a_gpu_that_is_not_there_is_refused_before_the_pass(device):
    with pytest.raises(ValueError, match=f"^device='{device}' {MISSING}"):
        MDLReadoutSwitcher("linear", device=device).fit(X, Y)


@for_each("device", ["meta", "mps", "xpu", "nonsense"])
def test_a_device_that_cannot_compute_is_refused_before_the_pass(device):
    with pytest.raises(ValueError, match=rf"supports float64, .*, got '{device}'"):
        MDLReadoutSwitcher("linear", device=device).fit(X, Y)


def test_a_comparison_needs_encoders():
    with pytest.raises(
        ValueError,
        match=r"^A mapping of encoders must be non-empty, got {}; pass {'raw': X}$",
    ):
        compare({}, X, Y)


@for_each("weights", [[1, 2], [1] * 9, [[1] * 4]])
def test_weights_of_other_readouts_are_refused(weights):
    with pytest.raises(ValueError, match=r"must be of shape \(4,\), got"):
        MDLReadoutSwitcher("linear", readout_weights=weights).fit(X, Y)
