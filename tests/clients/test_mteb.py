"""mteb: our estimators as its classifier, and nats in its result files."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.model_selection import with_codelength

datasets = pytest.importorskip("datasets")
mteb = pytest.importorskip("mteb")
abstasks = pytest.importorskip("mteb.abstasks")
TaskMetadata = pytest.importorskip("mteb.abstasks.task_metadata").TaskMetadata
ModelMeta = pytest.importorskip("mteb.models.model_meta").ModelMeta

X, Y = load_digits(return_X_y=True)
N_TRAIN, N = 200, 400
ROUNDED = {"rtol": 0, "atol": 0.5e-6}  # mteb writes six decimals


class Pixels:
    """A model of texts that name rows of digits."""

    mteb_model_meta = ModelMeta.create_empty({"name": "us/pixels", "revision": "1"})

    def encode(self, inputs, **options):
        rows = [int(text) for batch in inputs for text in batch["text"]]
        return X[rows].astype(np.float32)

    def similarity(self, one, other):
        return one @ other.T

    def similarity_pairwise(self, one, other):
        return (one * other).sum(1)


def metadata(name, kind, score):
    return TaskMetadata(
        name=name,
        type=kind,
        main_score=score,
        description="Digits by their numbers.",
        reference="https://scikit-learn.org",
        dataset={"path": "digits", "revision": "1"},
        eval_langs=["eng-Latn"],
        category="t2c",
    )


class InMemory:
    n_experiments = 2

    def load_data(self, **options):
        def part(rows):
            columns = {"text": [str(row) for row in rows]}
            columns[self.label_column_name] = [self.label(row) for row in rows]
            return datasets.Dataset.from_dict(columns)

        parts = {"train": part(range(N_TRAIN)), "test": part(range(N_TRAIN, N))}
        self.dataset = datasets.DatasetDict(parts)
        self.data_loaded = True


class Digits(InMemory, abstasks.AbsTaskClassification):
    metadata = metadata("Digits", "Classification", "accuracy")

    def label(self, row):
        return int(Y[row])


class Ink(InMemory, abstasks.AbsTaskRegression):
    metadata = metadata("Ink", "Regression", "kendalltau")

    def label(self, row):
        return float(X[row].sum())


def scores_in_file(task, folder):
    """Run mteb, and return the scores that it wrote to its result file."""
    cache = mteb.ResultCache(folder)
    result = mteb.evaluate(Pixels(), task, cache=cache, show_progress_bar=False)
    (file,) = folder.rglob(f"{task.metadata.name}.json")
    (scores,) = json.loads(file.read_text())["scores"]["test"]
    assert_allclose(scores["main_score"], result[0].get_score(), **ROUNDED)
    return scores


def test_nats_stand_beside_accuracy_in_the_result_file(tmp_path):
    plain = scores_in_file(Digits(), tmp_path / "plain")
    found = scores_in_file(with_codelength(Digits()), tmp_path / "nats")
    assert {name: found[name] for name in plain if name != "scores_per_experiment"} == {
        name: plain[name] for name in plain if name != "scores_per_experiment"
    }
    rows = slice(N_TRAIN, N)
    expected = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    expected.fit(X[rows].astype(np.float32), Y[rows])
    nats = expected.codelength_
    assert_allclose(found["codelength"], nats, **ROUNDED)
    assert_allclose(found["nats_per_label"], nats / (N - N_TRAIN), **ROUNDED)
    assert found["nats_per_label"] < found["frequency_nats_per_label"] / 2
    assert len(found["scores_per_experiment"]) == Digits.n_experiments


def test_nats_of_real_labels(tmp_path):
    found = scores_in_file(with_codelength(Ink()), tmp_path)
    assert np.isfinite(found["codelength"])
    assert found["main_score"] > 0.9  # the sum of the pixels


def test_a_switcher_is_a_classifier_for_mteb(tmp_path):
    task = Digits()
    task.evaluator_model = MDLReadoutSwitcher("closed-form")
    scores = scores_in_file(task, tmp_path)
    plain = scores_in_file(Digits(), tmp_path / "plain")
    assert scores["accuracy"] > plain["accuracy"] - 0.05
