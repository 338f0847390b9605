"""Encoders x datasets x orders: each cell is one run, and the ranks follow from it.

The second witness of every codelength is a switcher fitted by hand.
"""

import html
import re
import sys

import numpy as np
import pandas as pd
import pytest
from each_case import for_each
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import (
    RFE,
    GenericUnivariateSelect,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import ExtraTreeClassifier

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    PrequentialSplit,
    RepresentationScorer,
    compare,
    uniform_codelength,
)
from sklearn_mdl.model_selection import (
    EncoderRace,
    _forecast,
    _representation_scorer,
    _tasks,
)
from sklearn_mdl.model_selection._tasks import draw_order
from sklearn_mdl.ranking import friedman_test, nemenyi_critical_difference
from sklearn_mdl.report import Comparison
from sklearn_mdl.report._page import page_of

WINE = load_wine(return_X_y=True)
SUPERVISED = {
    "SelectKBest": SelectKBest(k=2),
    "SelectPercentile": SelectPercentile(),
    "GenericUnivariateSelect": GenericUnivariateSelect(),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    "TargetEncoder": TargetEncoder(),
    "PLSRegression": PLSRegression(),
    "ExtraTreeClassifier": SelectFromModel(ExtraTreeClassifier(random_state=0)),
}
COMPOSED = {
    "pipeline": lambda e: make_pipeline(StandardScaler(), e),
    "first step": lambda e: make_pipeline(e, PCA(1)),
    "union": lambda e: FeatureUnion([("pca", PCA(1)), ("supervised", e)]),
    "columns": lambda e: ColumnTransformer([("a", PCA(1), [0]), ("b", e, [1, 2])]),
    "remainder": lambda e: ColumnTransformer([("a", PCA(1), [0])], remainder=e),
    "nested": lambda e: make_pipeline(FeatureUnion([("p", make_pipeline(e))])),
}


def readouts():
    return [LinearReadout(lr=0.01)]


def small(**settings):
    return RepresentationScorer(MDLReadoutSwitcher(readouts()), **settings)


def blobs(n_samples=60, n_features=4, centers=2, seed=0):
    return make_blobs(n_samples, n_features, centers=centers, random_state=seed)


def by_hand(X, y, order=0, seed=0, switcher=None):
    """Fit in the order of the cell, without any code of the representation module."""
    rows = np.random.default_rng([seed, order]).permutation(len(y))
    switcher = MDLReadoutSwitcher(readouts()) if switcher is None else clone(switcher)
    return switcher.set_params(random_state=seed).fit(np.asarray(X)[rows], y[rows])


def table(scorer):
    """Codelengths by name, (dataset, encoder, order): nats."""
    return {(c.dataset, c.encoder, c.order): c.codelength for c in scorer.cells_}


@pytest.fixture(scope="module")
def datasets():
    return {"two": blobs(), "three": blobs(50, 3, 3, 1), "wine": WINE}


@pytest.fixture(scope="module")
def encoders():
    return {
        "raw": "passthrough",
        "line": PCA(1),
        "scaled": make_pipeline(StandardScaler(), PCA(2)),
    }


@pytest.fixture(scope="module")
def fitted(datasets, encoders):
    return small(n_orders=2).fit(datasets, encoders)


# Cells


def test_a_codelength_is_that_of_a_switcher_fitted_by_hand(fitted, datasets):
    for d, (name, (X, y)) in enumerate(datasets.items()):
        features = {
            "raw": X,
            "line": PCA(1).fit_transform(X),
            "scaled": PCA(2).fit_transform(StandardScaler().fit_transform(X)),
        }
        for e, (encoder, F) in enumerate(features.items()):
            for order in range(2):
                switcher = by_hand(F, y, order)
                cell = fitted.cells_[(d * 3 + e) * 2 + order]
                assert (cell.dataset, cell.encoder, cell.order) == (
                    name,
                    encoder,
                    order,
                )
                assert_allclose(cell.codelength, switcher.codelength_, rtol=1e-6)
                assert_allclose(cell.codelengths, switcher.codelengths_, atol=1e-5)
                assert_allclose(
                    list(cell.readouts.values()),
                    switcher.readout_codelengths_,
                    rtol=1e-6,
                )
                assert list(cell.readouts) == switcher.readout_names_
                assert cell.n_features == F.shape[1]
                assert (cell.n_samples, cell.n_classes) == (len(y), len(set(y)))


def test_a_cell_knows_the_uniform_code(fitted, datasets):
    for cell in fitted.cells_:
        y = datasets[cell.dataset][1]
        uniform = len(y) * np.log(len(set(y)))
        assert_allclose(cell.uniform, uniform)
        assert_allclose(cell.per_example, cell.codelength / len(y))
        assert_allclose(cell.savings_per_example, (uniform - cell.codelength) / len(y))
        assert cell.seconds > 0
        assert cell.diverged == []


def test_the_posterior_of_a_cell_sums_settings_by_architecture(datasets):
    switcher = MDLReadoutSwitcher(
        [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01), LinearReadout(lr=0.001)]
    )
    X, y = datasets["two"]
    (cell,) = RepresentationScorer(switcher).fit({"two": (X, y)}, {"raw": None}).cells_
    assert cell.architectures == ["linear", "mlp 1x4"]
    posterior = by_hand(X, y, switcher=switcher).posterior_
    assert_allclose(cell.posterior[:, 0], posterior[:, 0] + posterior[:, 2], atol=1e-6)
    assert_allclose(cell.posterior.sum(1), 1)


def test_orders_are_permutations_that_differ_by_seed_and_number():
    orders = [draw_order(seed, order, 30) for seed in range(3) for order in range(3)]
    for order in orders:
        assert_array_equal(np.sort(order), np.arange(30))
    assert len({tuple(order) for order in orders}) == 9


def test_codelengths_are_means_over_orders(fitted):
    totals = [cell.codelength for cell in fitted.cells_]
    assert_array_equal(fitted.order_codelengths_, np.reshape(totals, (3, 3, 2)))
    first, second = np.moveaxis(fitted.order_codelengths_, -1, 0)
    assert_allclose(fitted.codelengths_, (first + second) / 2)
    assert not np.allclose(first, second)


def test_more_orders_leave_the_first_ones_as_they_were(fitted, datasets, encoders):
    one = small(n_orders=1).fit(datasets, encoders)
    assert_array_equal(one.codelengths_, fitted.order_codelengths_[..., 0])


def test_all_encoders_see_the_same_orders(datasets):
    scorer = small(n_orders=2).fit(datasets, {"a": None, "b": "passthrough"})
    first, second = np.moveaxis(scorer.order_codelengths_, 1, 0)
    assert_array_equal(first, second)
    assert_array_equal(scorer.average_ranks_, [1.5, 1.5])


def test_the_order_of_the_mappings_changes_no_number(fitted, datasets, encoders):
    backwards = small(n_orders=2).fit(
        dict(reversed(datasets.items())), dict(reversed(encoders.items()))
    )
    assert backwards.dataset_names_ == ["wine", "three", "two"]
    assert backwards.encoder_names_ == ["scaled", "line", "raw"]
    assert table(backwards) == table(fitted)
    assert_array_equal(backwards.average_ranks_, fitted.average_ranks_[::-1])


def test_an_encoder_costs_the_same_in_any_company(fitted, datasets, encoders):
    alone = small(n_orders=2).fit({"wine": WINE}, {"line": encoders["line"]})
    expected = {k: v for k, v in table(fitted).items() if k[:2] == ("wine", "line")}
    assert table(alone) == expected


@pytest.mark.slow
def test_side_by_side_gives_the_numbers_of_one_by_one(
    fitted, datasets, encoders, monkeypatch
):
    monkeypatch.setattr(_forecast, "START_SECONDS", 0)  # whatever is short, too
    both = small(n_orders=2, n_jobs=2).fit(datasets, encoders)
    assert list(table(both)) == list(table(fitted))
    assert_allclose(both.order_codelengths_, fitted.order_codelengths_, rtol=1e-6)


def test_the_seed_settles_the_numbers(datasets):
    data, encoders = {"wine": WINE}, {"raw": None}
    numbers = [
        small(random_state=s).fit(data, encoders).codelengths_[0, 0] for s in (0, 0, 5)
    ]
    assert numbers[0] == numbers[1] != numbers[2]
    assert_allclose(numbers[2], by_hand(*WINE, seed=5).codelength_, rtol=1e-6)


def test_the_switcher_is_copied_and_its_order_overruled():
    switcher = MDLReadoutSwitcher(readouts(), shuffle=True, random_state=3)
    scorer = RepresentationScorer(switcher).fit({"wine": WINE}, {"raw": None})
    assert not hasattr(switcher, "classes_")
    assert switcher.random_state == 3
    assert scorer.codelengths_[0, 0] == by_hand(*WINE).codelength_


@for_each(
    "n_labels, readouts, n_orders",
    [(30, "linear", 4), (31, "closed-form", 1), (41, None, 1)],
)
def test_without_a_switcher_the_number_of_labels_decides(
    monkeypatch, n_labels, readouts, n_orders
):
    monkeypatch.setattr(_tasks, "FEW_LABELS", 40)
    for module in (_tasks, _representation_scorer):
        monkeypatch.setattr(module, "LINEAR_LABELS", 30)
    X, y = (rows[:n_labels] for rows in blobs(50, 2))
    scorer = RepresentationScorer().fit({"two": (X, y)}, {"raw": None})
    by_order = scorer.order_codelengths_[0, 0]
    assert len(by_order) == n_orders
    alone = by_hand(X, y, switcher=MDLReadoutSwitcher(readouts))
    assert_allclose(by_order[0], alone.codelength_, rtol=1e-6)
    used = f"{readouts!r}) with " if readouts else ") with the list 'default', "
    told = (
        f"ettings: MDLReadoutSwitcher({used}{len(alone.readouts_)} "
        f"readouts on two; orders of the rows: {n_orders}; random_state=0"
    )
    assert scorer.summary().endswith(f"\n\nS{told}")
    assert f">S{told}.</p>" in html.unescape(page_of(Comparison(scorer)))
    if readouts is not None:
        score = RepresentationScorer()(FunctionTransformer().fit(X), X, y)
        assert_allclose(score, -by_order.mean() / n_labels, rtol=1e-6)


def test_the_largest_dataset_sets_the_orders_and_each_its_own_list(monkeypatch):
    monkeypatch.setattr(_tasks, "FEW_LABELS", 40)
    for module in (_tasks, _representation_scorer):
        monkeypatch.setattr(module, "LINEAR_LABELS", 30)
    data = {str(n): ({"raw": X[:n]}, y[:n]) for n in (30, 40) for X, y in [blobs(50)]}
    found = RepresentationScorer().dry_run(data)
    assert [row.n_cells for row in found.rows] == [1, 1]
    few = {"30": data["30"]}
    assert [row.n_cells for row in RepresentationScorer().dry_run(few).rows] == [4]
    assert [row.n_cells for row in small().dry_run(few).rows] == [1]
    data["50"] = {"raw": blobs(50)[0]}, blobs(50)[1]
    tasks = RepresentationScorer()._tasks(data, None)
    lists = [task.switcher.readouts for task in tasks]
    assert lists == ["linear", "closed-form", None]
    told = small().fit(few).summary()
    assert "Settings: MDLReadoutSwitcher(...) with 1 readout on 30; orders" in told
    text = RepresentationScorer().fit(data).summary().rpartition("\n\n")[2]
    assert re.findall(r"\((.*?)\d+ readouts on (\d+);", text) == [
        ("'linear') with ", "30"),
        ("'closed-form') with ", "40"),
        (") with the list 'default', ", "50"),
    ]


def test_precomputed_features_cost_what_the_encoder_costs(fitted, datasets):
    data = {
        name: ({"raw": X, "line": PCA(1).fit_transform(X)}, y)
        for name, (X, y) in datasets.items()
    }
    scorer = small(n_orders=2).fit(data)
    assert scorer.encoder_names_ == ["raw", "line"]
    expected = fitted.order_codelengths_[:, :2]
    assert_allclose(scorer.order_codelengths_, expected, rtol=1e-6)


@for_each(
    "form",
    [
        np.ndarray.tolist,
        pd.DataFrame,
        lambda X: X.astype(np.float32),
        np.asfortranarray,
    ],
)
def test_features_may_come_in_any_form_of_a_table(form):
    X, y = blobs()
    plain = small().fit({"d": ({"e": X}, y)}).codelengths_
    for labels in (y, y.tolist(), pd.Series(y, index=range(100, 160))):
        scorer = small().fit({"d": ({"e": form(X)}, labels)})
        assert_allclose(scorer.codelengths_, plain, rtol=1e-4)
    scorer = small().fit({"d": (form(X), y)}, {"e": None})
    assert_allclose(scorer.codelengths_, plain, rtol=1e-4)


def test_labels_may_be_words():
    X, y = blobs()
    words = np.array(["dog", "cat"])[y]
    (cell,) = small().fit({"d": (X, words)}, {"raw": None}).cells_
    assert cell.n_classes == 2
    assert_allclose(cell.codelength, by_hand(X, words).codelength_, rtol=1e-6)


# Ranks


def test_average_ranks_are_those_of_the_codelengths(fitted):
    by_dataset = [rankdata(row) for row in fitted.codelengths_]
    assert_allclose(fitted.average_ranks_, np.mean(by_dataset, axis=0))


def test_the_best_encoder_ranks_first():
    data = {name: blobs(seed=s) for s, name in enumerate("abc")}
    noise = GaussianRandomProjection(4, random_state=0)
    encoders = {"nothing": _Nothing(), "raw": None, "noise": noise}
    scorer = small().fit(data, encoders)
    assert scorer.average_ranks_[0] == 3.0


def test_the_critical_difference_is_that_of_nemenyi(fitted, datasets, encoders):
    assert fitted.critical_difference_ == nemenyi_critical_difference(3, 3, 0.1)
    stricter = small(alpha=0.05).fit({"wine": WINE}, {"a": None, "b": PCA(1)})
    assert stricter.critical_difference_ == nemenyi_critical_difference(2, 1, 0.05)


def test_one_encoder_ranks_first_and_has_no_critical_difference():
    scorer = small().fit({"two": blobs()}, {"raw": None})
    assert scorer.average_ranks_.tolist() == [1.0]
    assert np.isnan(scorer.critical_difference_)
    assert "nan" not in scorer.summary()


# As a scorer


def test_a_score_is_minus_the_codelength_per_example():
    X, y = WINE
    pca = PCA(2).fit(X)
    scorer = small(n_orders=2)
    fitted = clone(scorer).fit({"wine": WINE}, {"pca": PCA(2)})
    score = scorer(pca, X, y)
    assert isinstance(score, float)
    assert_allclose(score, -fitted.codelengths_[0, 0] / len(y), rtol=1e-6)
    two = [by_hand(pca.transform(X), y, order).codelength_ for order in range(2)]
    assert_allclose(score, -np.mean(two) / len(y), rtol=1e-6)
    assert not hasattr(scorer, "cells_")


def test_sorted_labels_cost_no_more_than_shuffled_ones():
    X, y = WINE
    assert np.all(np.diff(y) >= 0)
    rows = np.random.default_rng(1).permutation(len(y))
    scorer = small(n_orders=3)
    pca = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    as_shipped, shuffled = scorer(pca, X, y), scorer(pca, X[rows], y[rows])
    assert_allclose(as_shipped, shuffled, atol=0.05)
    with pytest.warns(UserWarning, match="grouped by class"):
        fitted_sorted = MDLReadoutSwitcher(readouts(), random_state=0).fit(
            pca.transform(X), y
        )
    assert fitted_sorted.codelength_ / len(y) > -as_shipped + 0.2


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (PCA(), "n_components"),
        (make_pipeline(StandardScaler(), PCA()), "pca__n_components"),
    ],
    ids=["alone", "pipeline"],
)
def test_grid_search_ranks_by_codelength_on_wine_as_shipped(search, name):
    X, y = WINE
    scorer = small()
    found = GridSearchCV(
        search, {name: [2, 8]}, scoring=scorer, cv=PrequentialSplit()
    ).fit(X, y)
    features = [clone(search).set_params(**{name: n}).fit_transform(X) for n in (2, 8)]
    expected = [-by_hand(F, y).codelength_ / len(y) for F in features]
    assert_allclose(found.cv_results_["mean_test_score"], expected, rtol=1e-5)
    assert found.best_params_ == {name: [2, 8][int(np.argmax(expected))]}
    assert_allclose(found.best_score_, max(expected), rtol=1e-5)


def test_cells_of_one_score_may_run_side_by_side():
    pca = PCA(2).fit(WINE[0])
    with parallel_config(backend="threading"):
        both = small(n_orders=2, n_jobs=2)(pca, *WINE)
    assert_allclose(both, small(n_orders=2)(pca, *WINE), rtol=1e-6)


def test_a_search_that_holds_a_scorer_can_be_cloned_and_shown():
    search = GridSearchCV(PCA(), {"n_components": [2]}, scoring=small(n_orders=2))
    assert clone(search).scoring.n_orders == 2
    assert "RepresentationScorer" in repr(search)


def test_no_search_without_labels_compresses_random_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.integers(0, 2, 120)
    search = GridSearchCV(
        Pipeline([("e", PCA(random_state=0))]),
        [
            {"e__n_components": [1, 5, 30]},
            {
                "e": [GaussianRandomProjection(3)],
                "e__random_state": list(range(12)),
            },
        ],
        scoring=small(),
        cv=PrequentialSplit(),
    ).fit(X, y)
    assert -search.best_score_ * len(y) > uniform_codelength(len(y), 2) - 20


def test_what_has_seen_the_labels_would_compress_random_ones():
    """Why supervised encoders are refused: frozen on the same labels, they cheat."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2000)), rng.integers(0, 2, 120)
    cheat = FrozenEstimator(SelectKBest(k=50).fit(X, y))
    assert -small()(cheat, X, y) * len(y) < uniform_codelength(len(y), 2) - 20


@pytest.mark.parametrize("n_labels", [59, 61])
def test_a_score_needs_a_label_a_row(n_labels):
    X, _ = blobs()
    y = np.arange(n_labels) % 2
    with pytest.raises(ValueError, match=rf"PCA gives shape \(60, 1\) for {n_labels}"):
        small()(PCA(1).fit(X), X, y)


def test_sparse_features_have_the_codes_of_dense_ones():
    X, y = blobs()
    given = {"given": ({"raw": csr_array(X)}, y)}
    codes = [small().fit(given), small().fit({"by": (csr_array(X), y)}, {"raw": None})]
    dense = small().fit({"blobs": (X, y)}, {"raw": None})
    assert all(code.codelengths_ == dense.codelengths_ for code in codes)
    as_sparse = FunctionTransformer(csr_array).fit(X)
    assert small()(as_sparse, X, y) == small()(FunctionTransformer().fit(X), X, y)


def test_real_labels_are_sent_to_the_regressor():
    X, y = blobs()
    words = "{} must hold classes, .*; use MDLReadoutSwitcherRegressor"
    with pytest.raises(ValueError, match=words.format("dataset 'blobs'")):
        small().fit({"blobs": (X, y + 0.5)}, {"raw": None})
    with pytest.raises(ValueError, match=words.format("y")):
        small()(PCA(1).fit(X), X, y + 0.5)


@pytest.mark.parametrize("n_columns", [1, 2])
def test_labels_in_columns_are_refused_before_anything_runs(n_columns, monkeypatch):
    monkeypatch.delattr("sklearn_mdl.model_selection._representation_scorer.run_tasks")
    X, y = blobs()
    columns = np.repeat(y[:, None], n_columns, axis=1)
    words = rf"of shape \(n_samples,\), but .* in shape \(60, {n_columns}\); pass one"
    with pytest.raises(ValueError, match=words):
        small().fit({"blobs": (X, columns)}, {"raw": None})
    with pytest.raises(ValueError, match=words):
        small()(PCA(1).fit(X), X, columns)


def test_labels_that_cannot_be_compared_are_refused_in_a_line():
    X, y = blobs()
    mixed = y.astype(object)
    mixed[3] = "three"
    for labels in (mixed, y + 1j):
        with pytest.raises(ValueError, match=r"pass (y.astype\(str\)|\[str)") as no:
            small().fit({"blobs": (X, labels)}, {"raw": None})
        assert "\n" not in str(no.value)


def test_a_score_validates_the_parameters():
    with pytest.raises(ValueError, match="n_orders"):
        small(n_orders=0)(PCA(1).fit(WINE[0]), *WINE)


# Encoders learn without labels


class _Nothing(TransformerMixin, BaseEstimator):
    """Features that say nothing; counts how often it was fitted."""

    fits = 0

    def fit(self, X, y=None):
        assert y is None
        type(self).fits += 1
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.zeros((len(X), 1))


@for_each("name", SUPERVISED)
def test_what_needs_labels_is_refused_by_name(name):
    encoder = SUPERVISED[name]
    with pytest.raises(ValueError, match=rf"'best'.* holds {name}.*FrozenEstimator"):
        small().fit({"wine": WINE}, {"pca": PCA(1), "best": encoder})
    with pytest.raises(ValueError, match=rf"holds {name}.*FrozenEstimator"):
        small()(clone(encoder).fit(*WINE), *WINE)


@for_each("selector", [RFE, SelectFromModel, SequentialFeatureSelector])
def test_selectors_are_judged_by_what_they_ask(selector):
    with pytest.raises(ValueError, match="holds LogisticRegression"):
        small().fit({"wine": WINE}, {"best": selector(LogisticRegression())})


@for_each("form", COMPOSED)
@for_each("name", ["SelectKBest", "LinearDiscriminantAnalysis"])
def test_what_needs_labels_is_found_inside(name, form):
    X, y = WINE
    encoder = COMPOSED[form](clone(SUPERVISED[name]))
    with pytest.raises(ValueError, match=rf"holds {name}, which requires y"):
        small().fit({"wine": WINE}, {"all": encoder})
    with pytest.raises(ValueError, match=rf"holds {name}, which requires y"):
        small()(encoder.fit(X, y), X, y)


def test_grid_search_refuses_what_needs_labels():
    search = GridSearchCV(
        make_pipeline(SelectKBest(), PCA(1)),
        {"selectkbest__k": [2]},
        scoring=small(),
        cv=PrequentialSplit(),
        error_score="raise",
    )
    with pytest.raises(ValueError, match="holds SelectKBest"):
        search.fit(*WINE)


@for_each(
    "encoder",
    [
        VarianceThreshold(),
        KMeans(3, n_init=1, random_state=0),
        make_pipeline("passthrough", PCA(1)),
        FeatureUnion([("kept", "passthrough"), ("none", "drop"), ("pca", PCA(1))]),
        ColumnTransformer(
            [("a", PCA(1), [0]), ("b", "drop", [1])], remainder="passthrough"
        ),
    ],
)
def test_what_needs_no_labels_is_taken(encoder):
    scorer = small().fit({"wine": WINE}, {"e": encoder})
    F = clone(encoder).fit(WINE[0]).transform(WINE[0])
    assert_allclose(scorer.codelengths_, [[by_hand(F, WINE[1]).codelength_]], rtol=1e-6)
    score = small()(clone(encoder).fit(WINE[0]), *WINE)
    assert_allclose(score, -scorer.codelengths_[0, 0] / len(WINE[1]), rtol=1e-6)


def test_none_and_passthrough_keep_the_data(datasets):
    scorer = small().fit({"two": datasets["two"]}, {"a": None, "b": "passthrough"})
    expected = by_hand(*datasets["two"]).codelength_
    assert_array_equal(scorer.codelengths_, [[expected, expected]])


def test_frozen_encoders_may_have_learned_other_labels():
    X, y = WINE
    rest, half = slice(0, None, 2), slice(1, None, 2)
    lda = LinearDiscriminantAnalysis().fit(X[half], y[half])
    frozen = FrozenEstimator(lda)
    encoders = {
        "alone": frozen,
        "in a pipeline": make_pipeline(frozen, "passthrough"),
        "in a union": FeatureUnion([("lda", frozen)]),
    }
    codelength = by_hand(lda.transform(X[rest]), y[rest]).codelength_
    scorer = small().fit({"rest": (X[rest], y[rest])}, encoders)
    assert_allclose(scorer.codelengths_, [[codelength] * 3], rtol=1e-6)
    for encoder in encoders.values():
        score = small()(encoder.fit(X[rest], y[rest]), X[rest], y[rest])
        assert_allclose(score, -codelength / len(y[rest]), rtol=1e-6)


def test_frozen_encoders_are_not_fitted_again():
    X, y = WINE
    pca = PCA(2).fit(X[:40])
    mean = pca.mean_.copy()
    scorer = small().fit({"wine": WINE}, {"frozen": FrozenEstimator(pca)})
    assert_array_equal(pca.mean_, mean)
    expected = by_hand((X - mean) @ pca.components_.T, y).codelength_
    assert_allclose(scorer.codelengths_, [[expected]], rtol=1e-6)


def test_encoders_are_copied_not_fitted():
    pipeline = make_pipeline(StandardScaler(), PCA(1))
    encoders = {"pipeline": pipeline, "pca": PCA(1)}
    before = repr(encoders)
    small().fit({"wine": WINE}, encoders)
    assert repr(encoders) == before
    for encoder in (encoders["pca"], pipeline[0], pipeline[1]):
        assert not hasattr(encoder, "n_features_in_")


def test_every_dataset_fits_an_encoder_once(datasets):
    _Nothing.fits = 0
    small(n_orders=2).fit(datasets, {"nothing": _Nothing()})
    assert _Nothing.fits == len(datasets)


def test_the_data_stay_as_they_were(datasets, encoders):
    before = {name: (X.copy(), y.copy()) for name, (X, y) in datasets.items()}
    small().fit(datasets, encoders)
    for name, (X, y) in datasets.items():
        assert_array_equal(X, before[name][0])
        assert_array_equal(y, before[name][1])


# Missing encoders


@pytest.fixture
def gappy():
    X, y = blobs()
    return {
        "full": ({"a": X, "b": X[:, :1]}, y),
        "gap": ({"b": X}, y),
        "other": ({"b": X[:, :2], "a": X[:, ::-1]}, y),
    }


@pytest.mark.parametrize("budget", [None, 60.0])
@pytest.mark.parametrize(
    "switcher", [MDLReadoutSwitcher("typo"), MDLReadoutSwitcherRegressor("linear")]
)
def test_names_of_no_list_of_readouts_are_refused(switcher, budget):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    labels = y if isinstance(switcher, MDLReadoutSwitcher) else X[:, 0]
    scorer = RepresentationScorer(switcher, time_budget=budget)
    said = (
        r"The name of a list of readouts must be one of \['closed-form', .*'stream'\], "
        f"or None for the default list, got {switcher.readouts!r}; pass None"
    )
    with pytest.raises(ValueError, match=said):
        scorer.fit({"data": ({"raw": X}, labels)})


def test_a_missing_encoder_is_refused_by_name(gappy):
    with pytest.raises(ValueError, match=r"'gap' lacks \['a'\].*missing='drop'"):
        small().fit(gappy)


def test_dropping_leaves_the_complete_datasets_and_says_so(gappy):
    with pytest.warns(UserWarning, match=r"Dropped .*'gap' lacks \['a'\]") as record:
        scorer = small(missing="drop").fit(gappy)
    assert [warning.filename for warning in record] == [__file__]
    assert scorer.dataset_names_ == ["full", "other"]
    complete = {name: gappy[name] for name in ("full", "other")}
    assert table(scorer) == table(small().fit(complete))


def test_dropping_says_nothing_where_nothing_is_missing(gappy):
    del gappy["gap"]
    assert small(missing="drop").fit(gappy).dataset_names_ == ["full", "other"]


def test_encoders_are_matched_by_name_not_by_place(gappy):
    del gappy["gap"]
    scorer = small().fit(gappy)
    X, y = gappy["other"][0]["a"], gappy["other"][1]
    assert scorer.encoder_names_ == ["a", "b"]
    assert scorer.codelengths_[1, 0] == by_hand(X, y).codelength_


def test_dropping_everything_is_refused():
    X, y = blobs()
    disjoint = {"one": ({"a": X}, y), "two": ({"b": X}, y)}
    with (
        pytest.warns(UserWarning, match="Dropped"),
        pytest.raises(
            ValueError, match=r"at least one dataset .*\['a', 'b'\], got none"
        ),
    ):
        small(missing="drop").fit(disjoint)


# Bad input is answered with one sentence


def _bad_inputs():
    X, y = blobs()
    holes = np.where(np.eye(60, 4) > 0, np.nan, X)
    lost, mixed = np.r_[np.nan, y[1:]], np.array([*y[1:], "a"], dtype=object)
    plain, given = {"d": (X, y)}, {"d": ({"a": X}, y)}
    return {
        "list of datasets": ([(X, y)], None, TypeError, "mapping.*got list"),
        "no dataset": ({}, None, TypeError, "non-empty"),
        "list of encoders": (plain, [PCA(1)], TypeError, "mapping.*got list"),
        "no encoders": (plain, {}, TypeError, "non-empty"),
        "class of encoder": (plain, {"e": PCA}, TypeError, "instance"),
        "number as encoder": (plain, {"e": 5}, TypeError, "'e' is 5"),
        "word as encoder": (plain, {"e": "pca"}, TypeError, "'e' is 'pca'"),
        "numbered dataset": ({1: (X, y)}, {"e": None}, TypeError, "got 1; write '1'"),
        "numbered encoder": ({"d": ({7: X}, y)}, None, TypeError, "write '7'"),
        "no labels": ({"d": (X,)}, {"e": None}, TypeError, r"pair .*'d' is tuple"),
        "features alone": ({"d": X}, {"e": None}, TypeError, "pair .*'d' is ndarray"),
        "data without encoders": (
            plain,
            None,
            ValueError,
            "'d' needs encoders, got none",
        ),
        "features, encoders": (
            given,
            {"e": None},
            ValueError,
            "'d' already holds features, but encoders are given; pass encoders=None",
        ),
        "mixed": (
            {**given, "x": (X, y)},
            None,
            ValueError,
            "'x' needs encoders, got none",
        ),
        "too few rows": (
            {"d": ({"a": X[:9]}, y)},
            None,
            ValueError,
            r"\(9, 4\) for 60",
        ),
        "too few labels": ({"d": (X, y[:9])}, {"e": None}, ValueError, "for 9 labels"),
        "no width": ({"d": ({"a": X[:, 0]}, y)}, None, ValueError, r"shape \(60,\)"),
        "images": ({"d": (X[:, None], y)}, {"e": None}, ValueError, r"\(60, 1, 4\)"),
        "holes": (
            {"d": ({"a": holes}, y)},
            None,
            ValueError,
            "'a' on dataset 'd'.*NaN",
        ),
        "one class": (
            {"d": (X, y * 0)},
            {"e": None},
            ValueError,
            r"'d' needs .* only one class, \[0\]",
        ),
        "no label": ({"d": (X, lost)}, {"e": None}, ValueError, "Dataset 'd' .* NaN"),
        "a word": (
            {"d": (X, mixed)},
            {"e": None},
            ValueError,
            "Dataset 'd' must hold only text or only numbers",
        ),
        "no features": ({"d": ({}, y)}, None, ValueError, "encoder"),
    }


@for_each("case", _bad_inputs())
def test_bad_input_gets_one_sentence(case):
    datasets, encoders, error, message = _bad_inputs()[case]
    with pytest.raises(error, match=message) as caught:
        small().fit(datasets, encoders)
    assert "\n" not in str(caught.value)


@for_each(
    "settings",
    [
        {"n_orders": 0},
        {"n_orders": 1.5},
        {"n_orders": "few"},
        {"alpha": 0.0},
        {"alpha": 1},
        {"missing": "ignore"},
        {"n_jobs": "two"},
        {"verbose": -1},
        {"random_state": None},
        {"random_state": -1},
        {"switcher": LogisticRegression()},
        {"switcher": "default"},
    ],
)
def test_parameters_are_checked_before_anything_runs(settings):
    scorer = RepresentationScorer(**settings)
    (name,) = settings
    with pytest.raises(ValueError, match=f"The '{name}' parameter of Representation"):
        scorer.fit({"wine": WINE}, {"raw": None})


def test_a_seed_is_required_with_the_reason_and_the_code():
    words = r"at least 0 \(such as 0\), since resumed calls need the same seed.*None"
    with pytest.raises(ValueError, match=words):
        compare({"raw": WINE[0]}, y=WINE[1], random_state=None)
    with pytest.raises(ValueError, match=words):
        EncoderRace(["a", "b"], 3, random_state=None).resume()


@pytest.mark.parametrize("method", ["to_frame", "summary"])
def test_tables_need_a_fit(method):
    with pytest.raises(NotFittedError):
        getattr(small(), method)()


# Tables, text and the bar


def test_the_frame_holds_the_cells(fitted):
    frame = fitted.to_frame()
    assert list(frame.columns) == [
        *("dataset", "encoder", "order", "n_samples", "n_features", "n_classes"),
        *("codelength", "switching_codelength", "per_example", "savings_per_example"),
        *(
            "savings_over_labels",
            "accuracy",
            "rank",
            "best_readout",
            "n_readouts",
            "streams",
            "scalings",
            "seconds",
        ),
    ]
    assert len(frame) == len(fitted.cells_) == 18
    for row, cell in zip(frame.itertuples(), fitted.cells_, strict=True):
        for name in set(frame.columns) - {"rank", "best_readout"}:
            value = getattr(cell, name)
            if isinstance(value, list):
                value = " ".join(map(str, value))
            assert getattr(row, name) == value
        assert cell.readouts[row.best_readout] == min(cell.readouts.values())


def test_ranks_in_the_frame_are_those_within_dataset_and_order(fitted):
    frame = fitted.to_frame()
    expected = frame.groupby(["dataset", "order"])["codelength"].rank()
    assert_array_equal(frame["rank"], expected)


def test_the_frame_gives_the_table_of_codelengths_back(fitted):
    wide = fitted.to_frame().pivot_table("codelength", "dataset", "encoder")
    found = wide.loc[fitted.dataset_names_, fitted.encoder_names_]
    assert_allclose(found, fitted.codelengths_)


class _WithoutPandas:
    """First finder of imports: as if pandas were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def test_without_pandas_all_but_the_frame_works(monkeypatch, datasets, encoders):
    monkeypatch.delitem(sys.modules, "pandas")
    monkeypatch.setattr(sys, "meta_path", [_WithoutPandas(), *sys.meta_path])
    scorer = small().fit({"two": datasets["two"]}, encoders)
    assert "two" in scorer.summary()
    with pytest.raises(ImportError, match=r'pandas.*pip install "sklearn-mdl\[plot\]"'):
        scorer.to_frame()


def test_the_summary_holds_the_numbers(fitted, datasets):
    verdict, *blocks, ranking, settings = fitted.summary().split("\n\n")
    assert settings.startswith("Settings: ")
    assert verdict == str(fitted.verdict())
    cells = {(cell.dataset, cell.encoder): cell for cell in fitted.cells_}
    assert len(blocks) == len(datasets)
    for block, name, totals in zip(blocks, datasets, fitted.codelengths_, strict=True):
        n, n_classes = len(datasets[name][1]), len(set(datasets[name][1]))
        uniform = n * np.log(n_classes)
        saved = fitted.savings_per_example("labels")[list(datasets).index(name)]
        head, _, *rows = block.splitlines()
        assert head.startswith(f"{name}: {n} examples, {n_classes} classes")
        assert f"{uniform:.1f} nats" in head
        order = np.argsort(totals)
        for rank, (row, e) in enumerate(zip(rows, order, strict=True), start=1):
            assert row.split() == [
                fitted.encoder_names_[e],
                f"{totals[e]:.1f}",
                f"{totals[e] / n:.4f}",
                f"{saved[e]:.4f}",
                f"{fitted.accuracies_[list(datasets).index(name), e]:.1%}",
                str(cells[name, fitted.encoder_names_[e]].n_features),
                str(rank),
            ]
    title, _, *rows, warning, spread, test, foot = ranking.splitlines()
    assert title == "Average ranks"
    found = {row.split()[0]: float(row.split()[1]) for row in rows}
    expected = dict(zip(fitted.encoder_names_, fitted.average_ranks_, strict=True))
    assert found == pytest.approx(expected, abs=0.006)
    assert list(found.values()) == sorted(found.values())
    intervals = fitted.rank_intervals()
    for row in rows:
        e = fitted.encoder_names_.index(row.split()[0])
        lower, upper = intervals.lower[e], intervals.upper[e]
        assert row.endswith(f"  [{lower:.2f}, {upper:.2f}]")
    assert warning == "intervals are too short, since they resample only 3 datasets"
    relative = fitted.order_codelengths_.std(-1, ddof=1) / fitted.codelengths_
    assert f"median {np.median(relative):.2%}, largest {relative.max():.2%}" in spread
    expected = friedman_test(fitted.codelengths_)
    assert f"F = {expected.f_statistic:.2f}, p = {expected.f_p_value:.2g}" in test
    assert f"critical difference {fitted.critical_difference_:.2f}" in foot
    assert "alpha = 0.1, 3 encoders, 3 datasets)" in foot
    assert spread.endswith("; number of orders: 2")


def test_columns_of_the_summary_line_up():
    X, y = blobs()
    names = {"a": X, "a rather long name": X[:, :2]}
    text = small().fit({"d": (names, y)}).summary()
    tables = text.split("\n\n", 1)[1]  # below the verdict
    lines = [line for line in tables.splitlines() if line.startswith("  ")]
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1
    tables = small().fit({"c": (names, y), "d": (names, y)}).summary()
    lines = [line for line in tables.split("\n\n")[-2].splitlines() if line[:2] == "  "]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, True)])
def test_the_bar_shows_only_if_asked(capsys, verbose, shown, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.model_selection._running.LATE", 0.0)
    data, encoders = {"two": blobs()}, {"a": None, "b": PCA(1)}
    small(verbose=verbose).fit(data, encoders)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("cells: 100%" in err and "2/2" in err) == shown
    assert shown or err == ""


def test_params_reach_the_switcher():
    scorer = small().set_params(switcher__batch_size=8, n_orders=2)
    assert clone(scorer).switcher.batch_size == 8
    X, y = blobs()
    found = scorer.fit({"two": (X, y)}, {"raw": None}).order_codelengths_[0, 0, 0]
    switcher = MDLReadoutSwitcher(readouts(), batch_size=8)
    assert_allclose(found, by_hand(X, y, switcher=switcher).codelength_, rtol=1e-6)
