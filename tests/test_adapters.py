"""Adapters with stand-ins for the libraries that they serve.

The libraries themselves are installed for ``tests/clients``.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import validate_data

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RefitReadout,
    frequency_codelength,
)
from sklearn_mdl.model_selection import two_axes, with_codelength

X, Y = load_iris(return_X_y=True)
X, Y = X[::2], Y[::2]


# mteb


class AbsTaskClassification:
    """The part of mteb's class that is used; others have its name in their bases."""

    label_column_name = "label"

    def __init__(self, evaluator_model):
        self.evaluator_model = evaluator_model

    def _run_experiment(self, train_split, eval_split, train_X, test_X, timer):
        self.evaluator_model.fit(train_X, train_split["label"])
        predictions = self.evaluator_model.predict(test_X)
        hits = np.mean(predictions == np.asarray(eval_split["label"]))
        return {"accuracy": hits}, predictions.tolist()


class AbsTaskMultilabelClassification(AbsTaskClassification):
    pass


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_nats_stand_beside_accuracy(kind):
    task = AbsTaskClassification(LogisticRegression())
    switcher = MDLReadoutSwitcher([KernelReadout()], shuffle=True, random_state=0)
    changed = with_codelength(task, switcher)
    split, embeddings = {"label": Y.tolist()}, kind(X)
    scores, _ = changed._run_experiment(split, split, X, embeddings, timer=None)
    again, _ = changed._run_experiment(split, split, X, embeddings, timer=None)
    assert scores == again
    plain, _ = task._run_experiment(split, split, X, embeddings, timer=None)
    assert set(plain) == {"accuracy"}
    nats = switcher.fit(X.astype(np.float32), Y).codelength_
    assert_allclose(scores["codelength"], nats, rtol=1e-5)
    assert_allclose(scores["nats_per_label"], nats / len(Y), rtol=1e-5)
    assert scores["accuracy"] == plain["accuracy"]


def test_nats_of_real_labels():
    switcher = with_codelength(AbsTaskClassification(LinearRegression()))
    switcher = switcher._run_experiment.switcher
    assert isinstance(switcher, MDLReadoutSwitcherRegressor)


@pytest.mark.parametrize(
    ("task", "cure"),
    [
        (LogisticRegression(), r"mteb.get_task\('Banking77Classification'\)$"),
        (AbsTaskMultilabelClassification(None), r"fit MultiOutputSwitcher\(\) on the"),
    ],
)
def test_other_tasks_are_refused(task, cure):
    with pytest.raises(TypeError, match=f"^task must be .*{cure}"):
        with_codelength(task)


# Cells


@pytest.mark.slow
def test_codes_of_label_and_batch_and_their_nulls():
    rng = np.random.default_rng(0)
    label, batch = rng.integers(0, 2, (2, 120))
    noise = rng.normal(size=(120, 2))
    features = {
        "both": noise + 5 * np.column_stack([label, batch]),
        "label": noise + 5 * np.column_stack([label, label]),
        "none": noise,
    }
    display = two_axes(features, label, batch)
    nats = display.frame()
    null = nats.loc["no features"]
    assert_allclose(null["batch"], frequency_codelength(batch) / 120)
    assert nats.loc["both", "batch"] < 0.4 * null["batch"]
    assert abs(nats.loc["label", "batch"] - null["batch"]) < 0.1
    assert (nats.loc[["both", "label"], "label"] < 0.4 * null["label"]).all()
    assert nats.loc["none", "label"] > 0.9 * null["label"]
    assert display.plot().ax_.get_xlabel().startswith("nats per row for the batch")
    # Batches that the label says are no fault of the embedding.
    nats = two_axes({"label": features["label"]}, label, label).frame()
    assert nats.loc["batch given label", "batch"] < 0.05
    cells = SimpleNamespace(
        obs=pd.DataFrame({"kind": label, "batch": batch}),
        obsm=features,
        obs_names=np.arange(120),
    )
    assert two_axes(cells, "kind", "batch").frame().equals(display.frame())
    with pytest.raises(TypeError, match="label and batch must be an AnnData"):
        two_axes(features, "kind", batch)
    with pytest.raises(ValueError, match=r"^eliminate must be None \(long batch"):
        two_axes(features, label, batch, eliminate=0.05)
    with pytest.raises(
        TypeError, match=r"got ndarray, ndarray, ndarray; write .*'raw'"
    ):
        two_axes(noise, label, batch)


# Tabular foundation models


class InContext(ClassifierMixin, BaseEstimator):
    """A stand-in for TabICL and TabPFN: fit stores rows, predictions read them all."""

    contexts = []  # noqa: RUF012, of all copies

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.X_, self.y_ = validate_data(self, X, y)
        self.classes_ = np.unique(y)
        self.contexts.append(len(X))
        return self

    def predict_proba(self, X):
        X = validate_data(self, X, reset=False)
        near = np.exp(-((X[:, None] - self.X_) ** 2).sum(-1))
        votes = near @ (self.y_[:, None] == self.classes_) + 1e-3
        return votes / votes.sum(1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


@pytest.mark.parametrize(("schedule", "factor"), [("doubling", 2.0), (1.5, 1.5)])
def test_a_model_that_learns_in_context_is_an_expert(schedule, factor):
    InContext.contexts.clear()
    expert = RefitReadout(InContext(), scaling=None, schedule=schedule)
    options = {"shuffle": True, "random_state": 0, "batch_size": 5}
    switcher = MDLReadoutSwitcher([expert, KernelReadout()], **options).fit(X, Y)
    sizes = np.array(InContext.contexts)
    assert sizes[0] == 5
    assert (sizes[1:] >= factor * sizes[:-1]).all()
    assert sizes[-1] * factor + 5 > len(Y)
    assert switcher.readout_codelengths_[0] < 0.6 * frequency_codelength(Y)
    assert switcher.codelength_ < switcher.readout_codelengths_.min() + 3
    assert not switcher.readout_notes_
    shuffled = np.random.default_rng(1).permutation(Y)
    noise = MDLReadoutSwitcher([expert], **options).fit(X, shuffled)
    assert noise.codelength_ > 0.95 * frequency_codelength(shuffled)
