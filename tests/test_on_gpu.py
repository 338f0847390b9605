"""A real GPU: all laws hold there, and its numbers are those of a CPU.

Run with ``pytest -m gpu``; what a CPU can tell is in ``test_gpu_path.py``.
"""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scenarios import SCENARIOS
from sklearn.datasets import load_diabetes, load_digits
from test_precision import READOUTS
from test_scenarios import LAWS, check

from sklearn_mdl import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor
from sklearn_mdl.baselines import MLPProbe
from sklearn_mdl.readouts import MLPReadoutRegressor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:y should be in random order"),
    pytest.mark.filterwarnings("ignore:The number of unique classes"),
    pytest.mark.filterwarnings("ignore:The best readout should lie inside"),
]

X, Y = load_digits(return_X_y=True)
X, Y = X[:600].astype(np.float32), Y[:600]
PREDICT = """
import sys
from pathlib import Path

import numpy as np

from sklearn_mdl import MDLReadoutSwitcher

folder = Path(sys.argv[1])
model = MDLReadoutSwitcher.load(folder / "a.safetensors")
np.save(folder / "p.npy", model.predict_proba(np.load(folder / "X.npy")))
"""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__[4:])
def test_every_law_holds_on_a_gpu(law, scenario, tmp_path):
    check(law, replace(scenario, device="cuda"), tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenarios_cost_what_they_cost_on_a_cpu(scenario):
    there = replace(scenario, device="cuda").fitted()
    assert there.codelength_ == pytest.approx(scenario.fitted().codelength_, rel=0.01)


def test_calls_change_no_bit_of_networks():
    scenario = replace(SCENARIOS[0], device="cuda")
    (rows, labels, _), whole = scenario.rows(), scenario.fitted()
    pieces = scenario.switcher()
    for start, stop in ((0, 3), (3, 40), (40, len(labels))):
        pieces.partial_fit(rows[start:stop], labels[start:stop], classes=range(3))
    assert_array_equal(pieces.readout_losses_, whole.readout_losses_)


@pytest.mark.parametrize("readouts", [None, "closed-form", "nets", "mixed"])
def test_lists_of_classifiers_cost_what_they_cost_on_a_cpu(readouts):
    codes = [
        MDLReadoutSwitcher(readouts, random_state=0, device=device).fit(X, Y)
        for device in ("cpu", "cuda")
    ]
    here, there = (code.codelength_ for code in codes)
    assert there == pytest.approx(here, rel=1e-3)


@pytest.mark.parametrize("readouts", [None, "closed-form", "nets"])
def test_lists_of_regressors_cost_what_they_cost_on_a_cpu(readouts):
    rows, targets = load_diabetes(return_X_y=True)
    here, there = (
        MDLReadoutSwitcherRegressor(readouts, random_state=0, device=device)
        .fit(rows, targets)
        .codelength_
        for device in ("cpu", "cuda")
    )
    assert there == pytest.approx(here, rel=1e-3)


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_factors_are_rounded(precision):
    settings = {"device": "cuda", "random_state": 0, "race": None}
    full = MDLReadoutSwitcher(READOUTS, **settings).fit(X, Y)
    rounded = MDLReadoutSwitcher(READOUTS, precision=precision, **settings).fit(X, Y)
    assert rounded.codelength_ != full.codelength_
    assert rounded.codelength_ == pytest.approx(full.codelength_, rel=0.02)
    again = MDLReadoutSwitcher(READOUTS, precision=precision, **settings).fit(X, Y)
    assert_array_equal(again.codelengths_, rounded.codelengths_)
    reals = [
        MDLReadoutSwitcherRegressor(
            [MLPReadoutRegressor((16,))], precision=p, random_state=0, device="cuda"
        )
        .fit(X, X[:, 20])
        .codelength_
        for p in ("float32", precision)
    ]
    assert reals[0] == pytest.approx(reals[1], rel=0.02)


def test_a_file_of_a_gpu_predicts_on_a_machine_without_one(tmp_path):
    there = MDLReadoutSwitcher(random_state=0, device="auto").fit(X[:500], Y[:500])
    assert there._run.rows.device.type == "cuda"
    there.save(tmp_path / "a.safetensors")
    np.save(tmp_path / "X.npy", X[500:])
    subprocess.run(
        [sys.executable, "-c", PREDICT, tmp_path],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=True,
    )
    found, expected = np.load(tmp_path / "p.npy"), there.predict_proba(X[500:])
    assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_probes_cost_what_they_cost_on_a_cpu():
    scores = [
        MLPProbe(32, max_steps=100, random_state=0, device=device)
        .fit(X[:400], Y[:400])
        .score(X[400:], Y[400:])
        for device in ("cpu", "cuda")
    ]
    assert scores[1] == pytest.approx(scores[0], abs=0.05)


def test_memory_of_a_pass_is_given_back():
    switcher = MDLReadoutSwitcher(random_state=0, device="cuda")
    switcher.fit(X, Y)
    held = torch.cuda.memory_allocated()
    for _ in range(2):
        switcher.fit(X, Y)
    assert torch.cuda.memory_allocated() <= 1.05 * held
