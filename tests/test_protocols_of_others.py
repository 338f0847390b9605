"""Requirements of other programs and notebooks on a classifier."""

import html
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    PrequentialSplit,
    RepresentationScorer,
    codelength_scorer,
    heldout_codelength_scorer,
    readout_grid,
)

READOUTS = [LinearReadout(lr=0.02), MLPReadout((16,), lr=0.02)]


# mteb: evaluator_model


class Task:
    """Mimic mteb's classification tasks and their ``evaluator_model``.

    A few examples of each class are drawn several times; the model, given a seed, is
    cloned for each, fitted on arrays with labels in a list, and asked to predict.
    """

    samples_per_label = 8
    n_experiments = 2
    seed = 42

    def __init__(self, evaluator_model):
        self.evaluator_model = evaluator_model

    def evaluate(self, X_train, y_train, X_test, y_test):
        if "random_state" in self.evaluator_model.get_params():
            self.evaluator_model = self.evaluator_model.set_params(
                random_state=self.seed
            )
        scores, predictions = [], []
        for experiment in range(self.n_experiments):
            rows = self.undersampled(y_train, np.random.RandomState(experiment))
            model = clone(self.evaluator_model)
            model.fit(X_train[rows], [y_train[i] for i in rows])
            predictions.append(model.predict(X_test))
            scores.append(model.score(X_test, y_test))
        return scores, predictions

    def undersampled(self, labels, rng):
        rows, seen = [], {}
        for i in rng.permutation(len(labels)).tolist():
            if seen.setdefault(labels[i], 0) < self.samples_per_label:
                seen[labels[i]] += 1
                rows.append(i)
        return rows


def embeddings():
    X, y = load_digits(return_X_y=True)
    return X[:900].astype(np.float32), y[:900].tolist(), X[900:1100], y[900:1100]


@pytest.mark.parametrize(
    "model",
    [
        MDLReadoutSwitcher(READOUTS),
        MDLReadoutSwitcher(),
        LinearReadout(lr=0.02),
        make_pipeline(StandardScaler(), MDLReadoutSwitcher(READOUTS)),
    ],
    ids=["readouts", "default readouts", "readout", "pipeline"],
)
def test_it_serves_as_an_evaluator_model(model):
    X, y, X_test, y_test = embeddings()
    scores, predictions = Task(clone(model)).evaluate(X, y, X_test, y_test)
    assert min(scores) > 0.75
    for predicted, score in zip(predictions, scores, strict=True):
        assert predicted.shape == y_test.shape
        assert np.mean(predicted == y_test) == score
    if getattr(model, "readouts", None) is READOUTS:
        again, _ = Task(clone(model)).evaluate(X, y, X_test, y_test)
        assert again == scores


def test_an_evaluator_model_keeps_nothing_of_the_run():
    model = MDLReadoutSwitcher(READOUTS)
    Task(model).evaluate(*embeddings())
    assert model.get_params()["random_state"] == Task.seed
    with pytest.raises(NotFittedError):
        model.predict(embeddings()[0])


# Notebooks


def text_of(page):
    page = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(MDLReadoutSwitcher()) == "MDLReadoutSwitcher()"
    switcher = MDLReadoutSwitcher(READOUTS, switching=FixedShare(m=3))
    assert " ".join(repr(switcher).split()) == (
        "MDLReadoutSwitcher(readouts=[LinearReadout(lr=0.02), "
        "MLPReadout(hidden_layer_sizes=(16,), lr=0.02)], switching=FixedShare(m=3))"
    )
    scorer = RepresentationScorer(MDLReadoutSwitcher(shuffle=True), alpha=0.05)
    assert repr(scorer) == (
        "RepresentationScorer(alpha=0.05, switcher=MDLReadoutSwitcher(shuffle=True))"
    )


def test_repr_of_a_long_list_of_readouts_is_cut():
    readouts = readout_grid(
        lr=np.geomspace(1e-4, 1e-1, 12), ema_step_size=[1, 0.1, 0.01]
    )
    assert len(repr(MDLReadoutSwitcher(readouts))) < 2000


@pytest.mark.parametrize("n_values", [2, 12])
def test_notebooks_fold_the_readouts(n_values):
    readouts = readout_grid(lr=np.geomspace(1e-3, 1e-2, n_values), beta1=[0.5, 0.9])
    page = make_pipeline(StandardScaler(), MDLReadoutSwitcher(readouts))._repr_html_()
    (shown,) = re.findall(r" readouts (\[.*?\]) switching ", text_of(page))
    assert shown.startswith("[Linear")
    assert shown.endswith(", ...]")
    assert len(shown) < 90


def test_notebooks_show_a_fitted_switcher():
    X, y, *_ = embeddings()
    page = (
        MDLReadoutSwitcher(READOUTS, random_state=0).fit(X[:60], y[:60])._repr_html_()
    )
    assert "MDLReadoutSwitcher" in text_of(page)


# Tags and parameters


@pytest.mark.parametrize(
    "estimator", [MDLReadoutSwitcher(), LinearReadout(), MLPReadout()]
)
def test_tags_say_what_it_takes(estimator):
    tags = get_tags(estimator)
    assert is_classifier(estimator)
    assert tags.target_tags.required
    assert not tags.target_tags.multi_output
    assert tags.classifier_tags.multi_class
    assert not tags.classifier_tags.multi_label
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan


@pytest.mark.parametrize(
    "settings",
    [
        {"readouts": 3},
        {"switching": 1.5},
        {"readout_weights": "uniform"},
        {"batch_size": 0},
        {"shuffle": "yes"},
        {"device": None},
        {"store": 5},
        {"n_jobs": "two"},
        {"verbose": -1},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_parameters_are_checked_by_declaration(settings):
    (name,) = settings
    words = f"The '{name}' parameter of MDLReadoutSwitcher must be"
    with pytest.raises(ValueError, match=words):
        MDLReadoutSwitcher(**settings).fit(*embeddings()[:2])


# Configurations of scikit-learn


def test_metadata_routing_changes_no_number():
    X, y, *_ = embeddings()
    pipeline = make_pipeline(StandardScaler(), MDLReadoutSwitcher(READOUTS))
    pipeline.set_params(mdlreadoutswitcher__random_state=0)
    search = GridSearchCV(
        pipeline,
        {"mdlreadoutswitcher__batch_size": [16, 32]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
        error_score="raise",
    )
    expected = clone(search).fit(X[:100], y[:100])
    with sklearn.config_context(enable_metadata_routing=True):
        found = search.fit(X[:100], y[:100])
        scores = cross_val_score(
            pipeline, X[:100], y[:100], scoring=heldout_codelength_scorer, cv=2
        )
        assert np.isfinite(scores).all()
        with pytest.raises(TypeError, match="sample_weight"):
            pipeline[-1].fit(X, y, sample_weight=np.ones(len(y)))
    assert found.best_score_ == expected.best_score_


@pytest.mark.parametrize("transform", ["default", "pandas", "polars"])
def test_steps_before_it_may_put_out_frames(transform):
    X, y, *_ = embeddings()
    pipeline = make_pipeline(StandardScaler(), MDLReadoutSwitcher(READOUTS))
    pipeline.set_params(mdlreadoutswitcher__random_state=0)
    expected = clone(pipeline).fit(X[:60], y[:60])
    found = pipeline.set_output(transform=transform).fit(X[:60], y[:60])
    assert codelength_scorer(found, X[:60], y[:60]) == pytest.approx(
        codelength_scorer(expected, X[:60], y[:60])
    )
    assert hasattr(found[-1], "feature_names_in_") == (transform != "default")


ARRAYS = """
import numpy as np, sklearn, torch
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, codelength_scorer

X, y = load_digits(return_X_y=True)
X, y = X[:100].astype(np.float32), y[:100]
switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01)], random_state=0, device="cpu")
expected = switcher.fit(X, y).codelengths_
rows, labels = torch.tensor(X), torch.tensor(y)
with sklearn.config_context(array_api_dispatch=True):
    switcher.fit(rows, labels)
    assert np.array_equal(switcher.codelengths_, expected)
    assert switcher.predict_proba(rows).shape == (100, 10)
    pipeline = make_pipeline(StandardScaler(), switcher).fit(rows, labels)
    assert pipeline.score(rows, labels) > 0.5
    assert codelength_scorer(pipeline, rows, labels) < 0
"""


@pytest.mark.slow
@pytest.mark.skipif(
    parse_version(scipy.__version__) < parse_version("1.14"),
    reason="scikit-learn asks for scipy 1.14 to dispatch on arrays",
)
def test_tensors_pass_where_scikit_learn_dispatches_on_arrays():
    """In a process of its own, since scipy reads its switch when it is imported."""
    surroundings = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-W", "ignore", "-c", ARRAYS]
    ended = subprocess.run(
        command, env=surroundings, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_it_can_be_frozen():
    X, y, *_ = embeddings()
    switcher = MDLReadoutSwitcher(READOUTS, random_state=0).fit(X[:60], y[:60])
    np.testing.assert_array_equal(
        FrozenEstimator(switcher).fit(X, y).predict(X), switcher.predict(X)
    )
