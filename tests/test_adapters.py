"""Adapters with stand-ins for the libraries that they serve.

The libraries themselves are installed for ``tests/clients``.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression

from sklearn_mdl import KernelReadout, MDLReadoutSwitcher, MDLReadoutSwitcherRegressor
from sklearn_mdl.model_selection import with_codelength

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
    "task", [LogisticRegression(), AbsTaskMultilabelClassification(None)]
)
def test_other_tasks_are_refused(task):
    with pytest.raises(TypeError, match="one label a row"):
        with_codelength(task)
