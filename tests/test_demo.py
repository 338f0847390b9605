"""The first ranking: data that scikit-learn ships, encoders without labels."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.cli import _demo_ranking
from sklearn_mdl.cli._demo_ranking import (
    MaskedReconstruction,
    demo_datasets,
    demo_encoders,
    run_demo,
)

SHAPES = {"digits": (1797, 64, 10), "wine": (178, 13, 3), "breast-cancer": (569, 30, 2)}
WIDTHS = {
    "raw": None,
    "PCA to 8": 8,
    "random projection to 8": 8,
    "RBF features": 256,
    "masked reconstruction": 64,
}


FEW_STEPS_SUFFICE = pytest.mark.filterwarnings(
    "ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning"
)


@pytest.fixture(scope="module")
def few_rows():
    """Every dataset of the demo, thinned to some hundred rows."""
    return {
        name: (X[:: len(y) // 100], y[:: len(y) // 100])
        for name, (X, y) in demo_datasets().items()
    }


def reconstruction(**settings):
    return MaskedReconstruction(4, random_state=0, **settings)


@pytest.mark.slow
@FEW_STEPS_SUFFICE
def test_masked_reconstruction_keeps_the_contract_of_scikit_learn():
    check_estimator(MaskedReconstruction(4, n_copies=2), on_skip=None)


def test_masked_reconstruction_ignores_labels(few_rows):
    X, y = few_rows["wine"]
    without, with_labels = reconstruction().fit(X), reconstruction().fit(X, y)
    assert_array_equal(without.transform(X), with_labels.transform(X))
    assert not get_tags(without).target_tags.required


@FEW_STEPS_SUFFICE
def test_masked_reconstruction_gives_the_hidden_layer(few_rows):
    X, _ = few_rows["wine"]
    X = (X - X.mean(0)) / X.std(0)
    encoder = reconstruction().fit(X)
    features = encoder.transform(X)
    assert features.shape == (len(X), 4)
    assert features.min() == 0  # a rectifier
    network = encoder.network_
    filled = features @ network.coefs_[1] + network.intercepts_[1]
    np.testing.assert_allclose(filled, network.predict(X))


@FEW_STEPS_SUFFICE
def test_masked_reconstruction_learns_to_fill_in():
    axis = np.random.default_rng(0).normal(size=(400, 1))
    X = axis @ np.ones((1, 6))  # one visible feature determines all
    network = MaskedReconstruction(16, random_state=0).fit(X).network_
    shown = X * [1, 1, 1, 0, 0, 0]
    assert np.mean((network.predict(shown) - X) ** 2) < 0.3 * np.mean(X**2)


@FEW_STEPS_SUFFICE
@pytest.mark.parametrize(("n_copies", "least"), [(1, 11), (4, 3), (20, 2)])
def test_masked_reconstruction_says_how_many_rows_it_needs(n_copies, least):
    X = np.random.default_rng(0).normal(size=(least, 3))
    reconstruction(n_copies=n_copies).fit(X)
    with pytest.raises(ValueError, match=f"minimum of {least} is required"):
        reconstruction(n_copies=n_copies).fit(X[:-1])


def test_the_demo_has_the_datasets_it_promises():
    datasets = demo_datasets()
    assert {
        name: (*X.shape, len(set(y))) for name, (X, y) in datasets.items()
    } == SHAPES


def test_the_demo_has_the_encoders_it_promises():
    encoders = demo_encoders()
    assert list(encoders) == list(WIDTHS)
    assert encoders["raw"] == "passthrough"
    for name, encoder in encoders.items():
        if name != "raw":
            assert isinstance(encoder, Pipeline)
            assert "standardscaler" in encoder.named_steps


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDTHS)
def test_every_encoder_takes_every_dataset_without_labels(few_rows, name):
    encoder = demo_encoders()[name]
    for X, _ in few_rows.values():
        if encoder == "passthrough":
            continue
        assert not get_tags(encoder).target_tags.required
        features = clone(encoder).fit(X).transform(X)
        assert features.shape == (len(X), WIDTHS[name])
        assert np.isfinite(features).all()
        assert np.ptp(features, axis=0).max() > 0
        again = clone(encoder).fit(X).transform(X)
        assert_array_equal(features, again)


def test_the_demo_is_a_ranking_of_these(monkeypatch, few_rows):
    """On few rows, with encoders fitted before and one readout."""
    frozen = {
        name: e if e == "passthrough" else FrozenEstimator(_Rows())
        for name, e in demo_encoders().items()
    }
    monkeypatch.setattr(_demo_ranking, "demo_datasets", lambda: few_rows)
    monkeypatch.setattr(_demo_ranking, "demo_encoders", lambda: frozen)
    small = MDLReadoutSwitcher([LinearReadout(lr=0.01)])
    monkeypatch.setattr(
        _demo_ranking,
        "RepresentationScorer",
        lambda **settings: RepresentationScorer(small, **settings),
    )
    scorer = run_demo(n_orders=2, n_jobs=1)
    assert scorer.dataset_names_ == list(SHAPES)
    assert scorer.encoder_names_ == list(WIDTHS)
    assert scorer.order_codelengths_.shape == (3, 5, 2)


class _Rows:
    """The rows themselves."""

    fitted_ = True

    def fit(self, X):
        return self

    def transform(self, X):
        return X


@pytest.mark.slow
def test_the_demo_runs_end_to_end_in_less_than_five_minutes(tmp_path):
    command = [sys.executable, "-m", "sklearn_mdl", "demo", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "critical difference" in done.stdout
    assert "45/45" in done.stderr
    assert "Warning" not in done.stderr
    for name in (*SHAPES, *WIDTHS):
        assert name in done.stdout
    (tmp_path / ".sklearn_mdl").unlink()  # the list of our files
    for path in tmp_path.iterdir():
        assert f"wrote {path}" in done.stdout
    tables = {"cells.csv", "cells.json", "ranking.csv", "readouts.csv", "scores.csv"}
    tables |= {"statistics.json", "ranking.tex", "codelengths.tex", "readouts.tex"}
    written = {path.name for path in tmp_path.iterdir()}
    assert written == tables | {"report.html"}
    with (tmp_path / "cells.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cells = json.loads((tmp_path / "cells.json").read_text(encoding="utf-8"))["cells"]
    assert len(rows) == len(cells) == 45
    for cell in cells:
        assert 0 < cell["codelength"] < cell["uniform"]
        assert cell["diverged"] == []
