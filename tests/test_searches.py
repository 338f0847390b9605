"""A ranking's scorer chooses transformers in whatever search scikit-learn has."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    PrequentialSplit,
    RepresentationScorer,
)
from sklearn_mdl.model_selection._tasks import draw_order

X, Y = load_wine(return_X_y=True)
N = len(Y)
ALL = {"cv": PrequentialSplit()}


def scorer_of(**options):
    return RepresentationScorer(
        MDLReadoutSwitcher([LinearReadout(lr=0.02, n_replay_streams=2)]), **options
    )


def by_hand(features, labels=Y):
    """Score features without any code of the representation module."""
    rows = draw_order(0, 0, len(labels))
    switcher = clone(scorer_of().switcher).set_params(random_state=0)
    switcher.fit(np.asarray(features)[rows], labels[rows])
    return -switcher.codelength_ / len(labels)


def maps():
    """Transformers of every make, with the parameter to search."""
    scaled = StandardScaler()
    return {
        "alone": (PCA(random_state=0), "n_components", [1, 6]),
        "pipeline": (
            make_pipeline(scaled, PCA(random_state=0)),
            "pca__n_components",
            [1, 6],
        ),
        "Nystroem": (
            make_pipeline(scaled, Nystroem(n_components=30, random_state=0)),
            "nystroem__gamma",
            [0.05, 5.0],
        ),
        "RBFSampler": (
            make_pipeline(scaled, RBFSampler(n_components=60, random_state=0)),
            "rbfsampler__gamma",
            [0.05, 5.0],
        ),
        "union": (
            FeatureUnion([("pca", PCA(2)), ("scaled", scaled)]),
            "scaled",
            ["drop", scaled],
        ),
        "columns": (
            ColumnTransformer([("pca", PCA(1), [0, 1, 2])], remainder="drop"),
            "remainder",
            ["drop", "passthrough"],
        ),
        "step": (
            Pipeline([("scale", scaled), ("e", None)]),
            "e",
            [PCA(1), "passthrough"],
        ),
    }


@pytest.mark.parametrize("name", maps())
def test_grid_search_scores_every_candidate_as_by_hand(name):
    transformer, parameter, values = maps()[name]
    search = GridSearchCV(
        transformer, {parameter: values}, scoring=scorer_of(), refit=True, **ALL
    ).fit(X, Y)
    expected = [
        by_hand(clone(transformer).set_params(**{parameter: value}).fit_transform(X))
        for value in values
    ]
    assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-4)
    assert search.best_index_ == int(np.argmax(expected))
    best = search.best_estimator_
    assert_allclose(by_hand(best.transform(X)), max(expected), rtol=1e-4)
    assert_allclose(search.score(X, Y), max(expected), rtol=1e-4)


def test_random_search_scores_alike():
    search = RandomizedSearchCV(
        make_pipeline(StandardScaler(), PCA(random_state=0)),
        {"pca__n_components": range(1, 13)},
        n_iter=3,
        scoring=scorer_of(),
        random_state=0,
        **ALL,
    ).fit(X, Y)
    for params, score in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_score"],
        strict=True,
    ):
        encoder = clone(search.estimator).set_params(**params)
        assert_allclose(score, by_hand(encoder.fit_transform(X)), rtol=1e-4)


@pytest.mark.slow
def test_search_in_processes_gives_the_same_scores():
    search = GridSearchCV(
        FeatureUnion([("pca", PCA(random_state=0)), ("map", Nystroem(random_state=0))]),
        {"pca__n_components": [1, 4], "map__n_components": [5, 20]},
        scoring=scorer_of(),
        **ALL,
    )
    one, two = (
        clone(search).set_params(n_jobs=n_jobs).fit(X, Y).cv_results_
        for n_jobs in (1, 2)
    )
    assert_allclose(one["mean_test_score"], two["mean_test_score"], rtol=1e-6)


def test_cross_validation_scores_the_one_split():
    pca = make_pipeline(StandardScaler(), PCA(3))
    (score,) = cross_val_score(pca, X, Y, scoring=scorer_of(), **ALL)
    assert_allclose(score, by_hand(pca.fit_transform(X)), rtol=1e-4)
    found = cross_validate(
        pca, X, Y, scoring={"nats": scorer_of()}, return_train_score=True, **ALL
    )
    assert found["test_nats"] == found["train_nats"] == score


def test_folds_score_held_out_features_of_an_encoder_fitted_elsewhere():
    rows = np.random.default_rng(0).permutation(N)
    cv = [(rows[:89], rows[89:]), (rows[89:], rows[:89])]
    scores = cross_val_score(PCA(2), X, Y, scoring=scorer_of(), cv=cv)
    for score, (train, test) in zip(scores, cv, strict=True):
        features = PCA(2).fit(X[train]).transform(X[test])
        assert_allclose(score, by_hand(features, Y[test]), rtol=1e-4)


@pytest.mark.parametrize("random_state", [None, 0])
def test_halving_compares_encoders_at_equal_numbers_of_rows(random_state):
    sizes = []

    def scorer(transformer, X, y):
        sizes.append((len(X), len(transformer[0].scale_) and len(y)))
        return scorer_of()(transformer, X, y)

    search = HalvingGridSearchCV(
        make_pipeline(StandardScaler(), PCA(random_state=0)),
        {"pca__n_components": [1, 2, 4, 8]},
        scoring=scorer,
        min_resources=80,
        max_resources=160,
        factor=2,
        random_state=random_state,
        return_train_score=False,
        **ALL,
    ).fit(X, Y)
    assert search.n_resources_ == [80, 160]
    assert search.n_candidates_ == [4, 2]
    assert sizes == [(80, 80)] * 4 + [(160, 160)] * 2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_learning_curve_of_an_encoder():
    sizes, train, test = learning_curve(
        make_pipeline(StandardScaler(), PCA(4, random_state=0)),
        X,
        Y,
        train_sizes=[60, 120],
        shuffle=True,
        random_state=0,
        scoring=scorer_of(),
        **ALL,
    )
    rows = np.random.RandomState(0).permutation(N)
    for n, on_train, on_all in zip(sizes, train[:, 0], test[:, 0], strict=True):
        encoder = make_pipeline(StandardScaler(), PCA(4, random_state=0))
        encoder.fit(X[rows[:n]])
        expected = by_hand(encoder.transform(X[rows[:n]]), Y[rows[:n]])
        assert_allclose(on_train, expected, rtol=1e-4)
        assert_allclose(on_all, by_hand(encoder.transform(X)), rtol=1e-4)


def test_validation_curve_of_an_encoder():
    train, test = validation_curve(
        PCA(random_state=0),
        X,
        Y,
        param_name="n_components",
        param_range=[1, 5],
        scoring=scorer_of(),
        **ALL,
    )
    assert_array_equal(train, test)
    expected = [by_hand(PCA(n, random_state=0).fit_transform(X)) for n in (1, 5)]
    assert_allclose(test[:, 0], expected, rtol=1e-4)


def test_data_frames_go_through_columns():
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(13)])
    columns = ColumnTransformer(
        [("scale", StandardScaler(), ["f0", "f12"])], remainder="drop"
    ).set_output(transform="pandas")
    (score,) = cross_val_score(columns, frame, Y, scoring=scorer_of(), **ALL)
    assert_allclose(score, by_hand(StandardScaler().fit_transform(X[:, [0, 12]])))


def test_parameters_of_the_scorers_own_switcher_can_be_set():
    scorer = scorer_of()
    scorer.set_params(switcher__switching=FixedShare(), switcher__switching__m=7)
    assert scorer.switcher.switching.m == 7


def test_a_search_inside_an_encoder_is_looked_into():
    inner = GridSearchCV(SelectKBest(), {"k": [1, 2]}, scoring=lambda e, X, y: 0.0)
    with pytest.raises(ValueError, match="holds SelectKBest, which requires y"):
        scorer_of()(inner.fit(X, Y), X, Y)
    blind = GridSearchCV(
        VarianceThreshold(), {"threshold": [0.0, 0.1]}, scoring=lambda e, X, y=None: 0.0
    ).fit(X)
    assert_allclose(scorer_of()(blind, X, Y), by_hand(X), rtol=1e-4)


def test_an_encoder_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        scorer_of()(StandardScaler(), X, Y)
