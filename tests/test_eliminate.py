"""Rankings that race encoders first, and score those that stay."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_blobs

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RepresentationScorer,
    compare,
    write_results,
)
from sklearn_mdl.model_selection import EncoderRace
from sklearn_mdl.model_selection._tasks import draw_order

SWITCHER = MDLReadoutSwitcher([KernelReadout("linear")])


def dataset(seed, n_classes=3):
    X, y = make_blobs(90, 4, centers=n_classes, cluster_std=1.5, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(90, 3))
    return {"noise": noise, "whole": X, "half": X[:, :2] * 2}, y


def scorer(**options):
    given = {"eliminate": 0.05, "n_orders": 2} | options
    return RepresentationScorer(SWITCHER, **given)


def test_those_that_stay_are_ranked_as_if_alone():
    datasets = {"a": dataset(0), "b": dataset(1, 2)}
    fitted = scorer().fit(datasets)
    assert "noise" in fitted.eliminated_
    stay = [name for name in ("whole", "half") if name not in fitted.eliminated_]
    assert fitted.encoder_names_ == stay
    left = {
        name: ({encoder: features[encoder] for encoder in stay}, y)
        for name, (features, y) in datasets.items()
    }
    alone = scorer(eliminate=None).fit(left)
    assert alone.eliminated_ == {}
    assert_array_equal(fitted.codelengths_, alone.codelengths_)
    assert len(fitted.cells_) == 2 * 2 * len(stay)
    text = fitted.summary()
    verdict, *others = alone.summary().split("\n\n")
    out = ", ".join(fitted.eliminated_)
    title, first, *rest = verdict.splitlines()
    told = "\n".join([title, f"{first} Eliminated before ranking: {out}.", *rest])
    assert str(fitted.verdict()) == told
    assert fitted.verdict().record()["sentences"][-1] in told
    *same, last, settings = text.split("\n\n")
    assert [*same, settings] == [told, *others]
    last = last.splitlines()
    assert last[0] == "Eliminated (not ranked)"
    n_labels = fitted.eliminated_["noise"]["a"]
    (noise,) = (line for line in last if line.startswith("  noise"))
    assert f"out at {n_labels} labels on a" in noise


def test_the_only_encoder_that_is_ranked_is_called_so():
    features, y = dataset(0)
    pair = {name: features[name] for name in ("whole", "noise")}
    found = compare(pair, y=y, switcher=SWITCHER, eliminate=0.05, verbose=0)
    assert found.scorer.encoder_names_ == ["whole"]
    (sentence,) = found.scorer.verdict().sentences()
    assert sentence.endswith(" nats. Eliminated before ranking: noise.")
    assert found.verdict().startswith("whole, the only encoder ranked: ")
    assert (
        "the only encoder ranked:"
        in compare({"a": pair["whole"]}, y=y, verbose=0).verdict()
    )


@pytest.mark.slow
def test_labels_to_leave_are_those_of_the_race_in_the_first_order():
    features, y = dataset(0)
    fitted = scorer().fit({"a": (features, y)})
    rows = draw_order(0, 0, 90)
    race = EncoderRace(list(features), 3, switcher=SWITCHER)
    race.update({name: X[rows] for name, X in features.items()}, y[rows])
    found = {name: where["a"] for name, where in fitted.eliminated_.items()}
    assert found.items() <= race.eliminated_at_.items()
    assert found


def test_a_failed_race_ends_with_the_labels_before(monkeypatch):
    update, out = EncoderRace.update, {}

    def failing(race, features, y):
        if race.n_labels_ == end:
            raise MemoryError("no memory left")
        return update(race, features, y)

    monkeypatch.setattr(EncoderRace, "update", failing)
    for end in (0, 64):
        with pytest.warns(UserWarning, match="'a' stopped after MemoryError"):
            out[end] = scorer(n_orders=1).fit({"a": dataset(0)}).eliminated_
    monkeypatch.undo()
    assert out == {0: {}, 64: scorer(n_orders=1).fit({"a": dataset(0)}).eliminated_}


@pytest.mark.slow
def test_groups_are_not_raced_and_real_labels_are():
    features, y = dataset(0)
    groups = np.arange(90) // 3
    assert scorer().fit({"a": (features, y, groups)}).eliminated_ == {}
    switcher = MDLReadoutSwitcherRegressor("closed-form")
    ranking = RepresentationScorer(switcher, eliminate=0.05)
    real = features["whole"] @ np.ones(4)
    assert "noise" in ranking.fit({"a": (features, real)}).eliminated_


def test_only_losers_to_the_same_encoder_on_every_dataset_are_out():
    features, y = dataset(0)
    whole, noise = features["whole"], features["noise"]
    none = np.zeros((90, 1))
    one = {"a": whole, "b": noise, "second": features["half"], "none": none}
    other = {"a": noise, "b": whole, "second": features["half"], "none": none}
    ranking = scorer(n_orders=1)
    for data in ({"x": (one, y)}, {"x": (one, y), "y": (one, y)}):
        assert {"b", "none"} <= set(ranking.fit(data).eliminated_)
        assert "a" in ranking.encoder_names_
    found = ranking.fit({"x": (one, y), "y": (other, y)}).eliminated_
    assert not {"a", "b", "second"} & set(found)
    grouped = np.arange(90) // 3
    both = {"x": (one, y), "y": (one, y, grouped)}
    assert ranking.fit(both).eliminated_ == {}


@pytest.mark.slow
def test_the_page_and_the_files_name_those_that_are_out(tmp_path):
    features, y = dataset(0)
    X = np.hstack([features[name] for name in ("noise", "whole", "half")])
    given = {
        "noise": Columns(0, 3),
        "whole <b>": Columns(3, 7),
        "half": Columns(7, 9),
    }
    options = {"switcher": SWITCHER, "eliminate": 0.05, "verbose": 0}
    options |= {"n_orders": 1, "results": tmp_path / "cells"}
    found = compare(given, X, y, **options)
    n_labels = found.scorer.eliminated_["noise"]
    (where,) = n_labels
    page = found.to_html(tmp_path / "page.html").read_text()
    table = page.partition("<tfoot>")[2].partition("</tfoot>")[0]
    assert f">out at {n_labels[where]} labels on {where}</td>" in table
    assert "<b>" not in table
    write_results(found, tmp_path)
    kept = json.loads((tmp_path / "statistics.json").read_text())
    assert kept["eliminated"] == found.scorer.eliminated_
    assert "noise" not in kept["encoders"]
    again = compare(given, X, y, **options)
    assert again.scorer.eliminated_ == found.scorer.eliminated_
    assert again.scorer.summary() == found.scorer.summary()


class Columns(TransformerMixin, BaseEstimator):
    """Some columns."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, self.first : self.last]


@pytest.mark.slow
def test_pairs_of_a_comparison_are_coded_whatever_was_eliminated():
    X, y = make_blobs(200, 6, centers=3, cluster_std=6.0, random_state=0)
    noise = np.random.default_rng(0).normal(size=(200, 3))
    encoders = {"noise": noise, "a": X, "b": X[:, :5], "c": X[:, 1:]}
    options = {"switcher": SWITCHER, "n_orders": 1, "verbose": 0}
    found = compare(encoders, y=y, eliminate=0.3, **options)
    left = {name: encoders[name] for name in found.scorer.encoder_names_}
    alone = compare(left, y=y, **options)
    assert set(found.pairs) == set(alone.pairs)
    assert found.gains == alone.gains
    assert "noise" in found.scorer.eliminated_
    first, *others = found.verdict().splitlines()
    assert first == f"{alone.lines()[0]} Eliminated before ranking: noise."
    assert others == alone.lines()[1:]
