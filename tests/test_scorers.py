"""Scorers read the code of a stream, or go on with it, and lend themselves to no cheat.

A codelength needs no held-out rows: one split, all rows on both sides.
"""

import copy
import functools
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.decomposition import NMF, PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    check_cv,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder
from sklearn.utils import shuffle

from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    MultiOutputSwitcher,
    PrequentialSplit,
    codelength_scorer,
    heldout_codelength_scorer,
    readout_grid,
    uniform_codelength,
)
from sklearn_mdl.model_selection import refit_codelength_scorer
from sklearn_mdl.model_selection._returning import count_returning

ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 2


class Recorder:
    """A scorer that remembers how many rows it was given."""

    def __init__(self):
        self.sizes = []

    def __call__(self, estimator, X, y):
        self.sizes.append((len(X), len(y)))
        return float(estimator.n_components_)


@for_each("y", [None, LABELS, LABELS[:3]])
@for_each("X", [ROWS, ROWS.tolist(), range(12)])
def test_the_one_split_has_all_rows_on_both_sides(X, y):
    ((train, test),) = PrequentialSplit().split(X, y, groups=None)
    assert_array_equal(train, np.arange(12))
    assert_array_equal(test, np.arange(12))


def test_every_call_splits_again():
    split = PrequentialSplit()
    for _ in range(2):
        assert len(list(split.split(ROWS))) == 1
    assert len(next(split.split(ROWS[:5]))[0]) == 5


@pytest.mark.parametrize("words", [{}, {"X": ROWS, "y": LABELS, "groups": None}])
def test_there_is_one_split_whatever_is_asked(words):
    assert PrequentialSplit().get_n_splits(**words) == 1
    assert PrequentialSplit().get_n_splits(*words.values()) == 1


def test_scikit_learn_takes_it_as_cross_validation():
    split = PrequentialSplit()
    assert check_cv(split) is split


def test_grid_search_scores_and_refits_on_all_rows():
    scorer = Recorder()
    search = GridSearchCV(
        PCA(), {"n_components": [1, 3, 2]}, scoring=scorer, cv=PrequentialSplit()
    ).fit(ROWS, LABELS)
    assert scorer.sizes == [(12, 12)] * 3
    assert search.n_splits_ == 1
    assert search.best_params_ == {"n_components": 3}
    assert_allclose(search.best_estimator_.mean_, ROWS.mean(0))


def test_cross_validate_fits_on_the_rows_it_scores():
    found = cross_validate(
        PCA(2),
        ROWS,
        LABELS,
        scoring=lambda pca, X, y: float(np.abs(pca.mean_ - X.mean(0)).max()),
        cv=PrequentialSplit(),
        return_indices=True,
    )
    assert_allclose(found["test_score"], [0.0], atol=1e-12)
    assert_array_equal(found["indices"]["train"], found["indices"]["test"])


@pytest.mark.parametrize(
    "copy", [lambda s: pickle.loads(pickle.dumps(s)), lambda s: clone(s, safe=False)]
)
def test_a_copy_splits_alike(copy):
    ((train, test),) = copy(PrequentialSplit()).split(ROWS)
    assert_array_equal(train, test)


def test_a_search_that_holds_one_can_be_cloned():
    search = GridSearchCV(PCA(), {"n_components": [1]}, cv=PrequentialSplit())
    assert isinstance(clone(search).cv, PrequentialSplit)


def test_its_repr_makes_one():
    assert repr(PrequentialSplit()) == "PrequentialSplit()"
    assert "cv=PrequentialSplit()" in repr(
        GridSearchCV(PCA(), {}, cv=PrequentialSplit())
    )


# What a scorer reads

N = 160
FAST = {"lr": 0.02, "n_replay_streams": 2}
READOUTS = [LinearReadout(**FAST), MLPReadout((9,), **FAST, scaling="whiten")]
SCORERS = [codelength_scorer, heldout_codelength_scorer]
each_scorer = pytest.mark.parametrize("scorer", SCORERS, ids=lambda s: s.__name__)


@functools.cache
def digits(n=N):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def switcher_of(**options):
    return MDLReadoutSwitcher(READOUTS, **{"random_state": 0, **options})


def piped(*steps, **options):
    return make_pipeline(*steps, switcher_of(**options))


@functools.cache
def fitted():
    return switcher_of().fit(*digits())


@functools.cache
def fitted_pipe():
    return piped(StandardScaler(), PCA(10, random_state=0)).fit(*digits())


def in_pieces(switcher, X, y):
    for start in range(0, len(X), 50):
        part = slice(start, start + 50)
        switcher.partial_fit(X[part], y[part], classes=np.arange(10))
    return switcher


def searched(X, y):
    search = GridSearchCV(
        piped(PCA(10, random_state=0)),
        {"pca__whiten": [False]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
    )
    return search.fit(X, y)


STREAMS = {
    "switcher": lambda X, y: switcher_of().fit(X, y),
    "shuffled": lambda X, y: switcher_of(shuffle=True).fit(X, y),
    "in pieces": lambda X, y: in_pieces(switcher_of(), X, y),
    "readout": lambda X, y: LinearReadout(**FAST, random_state=0).fit(X, y),
    "pipeline": lambda X, y: piped(StandardScaler()).fit(X, y),
    "nested": lambda X, y: make_pipeline(
        StandardScaler(), piped(PCA(10, random_state=0), shuffle=True)
    ).fit(X, y),
    "pipeline of one": lambda X, y: piped().fit(X, y),
    "search": searched,
}


def switcher_in(estimator):
    estimator = getattr(estimator, "best_estimator_", estimator)
    while hasattr(estimator, "steps"):
        estimator = estimator[-1]
    return estimator


@each_scorer
@for_each("kind", STREAMS)
def test_score_of_the_stream_is_minus_its_codelength_by_example(kind, scorer):
    estimator = STREAMS[kind](*digits())
    score = scorer(estimator, *digits())
    assert isinstance(score, float)
    assert_allclose(score, -switcher_in(estimator).codelength_ / N, rtol=1e-12)


@each_scorer
def test_stream_may_be_given_in_any_form(scorer):
    X, y = digits()
    expected = -fitted().codelength_ / N
    for form in (np.ndarray.tolist, np.float32, np.asfortranarray):
        assert_allclose(scorer(fitted(), form(X), y.tolist()), expected)
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    pipe = piped(StandardScaler()).set_output(transform="pandas")
    pipe.fit(frame, pd.Series(y, index=range(500, 500 + N)))
    assert_allclose(scorer(pipe, frame, y), -pipe[-1].codelength_ / N)


@each_scorer
def test_labels_may_be_words(scorer):
    X, y = digits()
    words = np.array([f"n{label}" for label in y])
    switcher = switcher_of().fit(X, words)
    assert_allclose(scorer(switcher, X, words), -switcher.codelength_ / N)


@each_scorer
def test_stream_that_went_on_after_a_shuffled_fit_is_one_stream(scorer):
    X, y = digits()
    switcher = switcher_of(shuffle=True).fit(X[:100], y[:100])
    switcher.partial_fit(X[100:], y[100:])
    assert_allclose(scorer(switcher, X, y), -switcher.codelength_ / N, rtol=1e-12)


@each_scorer
def test_rows_of_a_memory_map_are_compared_too(scorer, tmp_path):
    X, y = digits()
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    switcher = switcher_of(shuffle=True, store=tmp_path / "store").fit(mapped, y)
    assert_allclose(scorer(switcher, mapped, y), -switcher.codelength_ / N)


@each_scorer
def test_scorers_travel(scorer):
    assert pickle.loads(pickle.dumps(scorer)) is scorer
    again = pickle.loads(pickle.dumps(fitted()))
    assert scorer(again, *digits()) == scorer(fitted(), *digits())


# codelength_scorer knows its stream


def swapped_within_a_class(X, y):
    one, other = np.flatnonzero(y == 3)[:2]
    X = X.copy()
    X[[one, other]] = X[[other, one]]
    return X, y


def moved_by_one_bit(X, y):
    X = X.copy()
    X[N // 2, 30] = np.nextafter(np.float32(X[N // 2, 30]), np.float32(np.inf))
    return X, y


def moved_a_little(X, y):
    X = X.copy()
    X[N // 2, 30] += 1e-3
    return X, y


OTHERS = {
    "permuted": lambda X, y: (X[::-1], y[::-1]),
    "permuted within a class": swapped_within_a_class,
    "other rows": lambda X, y: (np.roll(X, 1, axis=0), y),
    "other labels": lambda X, y: (X, np.roll(y, 1)),
    "one label more": lambda X, y: (X, np.where(np.arange(N) == 7, (y + 1) % 10, y)),
    "a label never seen": lambda X, y: (X, np.where(np.arange(N) == 7, 11, y)),
    "first part": lambda X, y: (X[:80], y[:80]),
    "twice": lambda X, y: (np.concatenate([X, X]), np.concatenate([y, y])),
}


@for_each("estimator", [fitted, fitted_pipe])
@for_each("other", OTHERS)
def test_what_is_not_the_stream_is_refused_in_a_sentence(other, estimator):
    X, y = OTHERS[other](*digits())
    with pytest.raises(ValueError, match=r"but .*PrequentialSplit\(\)") as caught:
        codelength_scorer(estimator(), X, y)
    assert "\n" not in str(caught.value)


def test_bare_switcher_knows_its_rows_to_the_bit():
    X, y = moved_by_one_bit(*digits())
    with pytest.raises(ValueError, match="X holds other rows"):
        codelength_scorer(fitted(), X, y)


ENCODERS = [
    PCA(5, svd_solver="randomized", random_state=0),
    NMF(5, max_iter=2000, random_state=0),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda e: type(e).__name__)
def test_rows_that_a_transformer_makes_a_little_different_are_known(encoder):
    X, y = digits()
    pipe = piped(clone(encoder)).fit(X, y)
    assert not np.array_equal(
        pipe[0].transform(X), clone(encoder).fit_transform(X).astype(np.float32)
    )
    assert codelength_scorer(pipe, X, y) == -pipe[-1].codelengths_.mean()


@for_each("encoder", ENCODERS)
@for_each("other", [swapped_within_a_class, moved_a_little])
def test_rows_a_little_different_before_a_transformer_are_others(encoder, other):
    X, y = digits()
    pipe = piped(clone(encoder)).fit(X, y)
    with pytest.raises(ValueError, match="X holds other rows"):
        codelength_scorer(pipe, *other(X, y))


def test_steps_that_draw_unseeded_numbers_need_a_seed():
    X, y = digits()
    pipe = piped(PCA(5, svd_solver="randomized")).fit(X, y)
    text = (
        "X and y must be the rows and labels of the fit, but X holds other rows, or "
        "the same rows in another order; pass the X and y of fit (in a search, "
        "cv=PrequentialSplit()), set random_state in steps that have it, or score new "
        "rows with heldout_codelength_scorer"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        codelength_scorer(pipe, X, y)


def test_constant_features_after_a_transformer_are_known():
    X, y = digits()
    pipe = piped(FunctionTransformer(np.zeros_like)).fit(X, y)
    assert codelength_scorer(pipe, X, y) == -pipe[-1].codelengths_.mean()


@for_each("estimator, cv", [(switcher_of(), 2), (piped(PCA(5, random_state=0)), 3)])
def test_folds_are_scored_as_held_out_rows_with_the_cure(estimator, cv):
    X, y = digits()
    splits = list(KFold(cv).split(X))[-1:]
    options = {"cv": splits, "error_score": "raise"}
    with pytest.warns(UserWarning, match=r"pass cv=PrequentialSplit\(\)"):
        found = cross_val_score(estimator, X, y, scoring=codelength_scorer, **options)
    expected = cross_val_score(
        estimator, X, y, scoring=heldout_codelength_scorer, **options
    )
    assert_array_equal(found, expected)


def test_a_search_with_the_default_cv_has_a_best_that_was_scored():
    X, y = digits(60)
    y = y % 2
    search = GridSearchCV(
        LinearReadout(random_state=0), {"lr": [1e-9, 0.1]}, scoring=codelength_scorer
    )
    with pytest.warns(UserWarning, match="held-out rows") as caught:
        search.fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}
    assert search.best_params_ == {"lr": 0.1}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@for_each(
    "estimator, name",
    [
        (LogisticRegression(), "LogisticRegression"),
        (make_pipeline(StandardScaler()), "StandardScaler"),
        (GridSearchCV(switcher_of(), {}), "GridSearchCV"),
        (None, "None"),
    ],
)
@each_scorer
def test_what_is_no_switcher_is_refused_by_name(scorer, estimator, name):
    with pytest.raises(TypeError, match=rf"{scorer.__name__} needs .*got {name}"):
        scorer(estimator, *digits())


@each_scorer
@for_each("estimator", [switcher_of(), piped(StandardScaler())])
def test_what_is_not_fitted_says_so(scorer, estimator):
    with pytest.raises(NotFittedError):
        scorer(estimator, *digits())


# heldout_codelength_scorer goes on


@pytest.mark.parametrize("n", [100, 128, 150])
@pytest.mark.parametrize("steps", [(), (StandardScaler(),)], ids=["bare", "pipeline"])
def test_heldout_rows_cost_what_the_stream_would_pay_for_them(n, steps):
    X, y = digits()
    pipe = piped(*map(clone, steps)).fit(X[:n], y[:n])
    switcher = pipe[-1]
    score = heldout_codelength_scorer(pipe, X[n:], y[n:])
    features = pipe[:-1].transform(X[n:]) if steps else X[n:]
    assert_array_equal(
        switcher.heldout_codelengths(features, y[n:]),
        copy.deepcopy(switcher).partial_fit(features, y[n:]).codelengths_[n:],
    )
    assert score == -switcher.heldout_codelengths(features, y[n:]).mean()


def test_scoring_leaves_the_estimator_as_it_was(tmp_path):
    X, y = digits()
    for store in ("memory", tmp_path):
        switcher = switcher_of(store=store).fit(X[:100], y[:100])
        twin = copy.deepcopy(switcher) if store == "memory" else None
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        files = {path: path.read_bytes() for path in written}
        before = switcher.predict_proba(X)
        one, two = (
            heldout_codelength_scorer(switcher, X[100:], y[100:]) for _ in range(2)
        )
        assert one == two
        assert switcher.n_samples_seen_ == len(switcher.codelengths_) == 100
        assert_array_equal(switcher.predict_proba(X), before)
        assert {path: path.read_bytes() for path in written} == files
        if twin is not None:
            switcher.partial_fit(X[100:], y[100:])
            twin.partial_fit(X[100:], y[100:])
            assert_array_equal(switcher.codelengths_, twin.codelengths_)
            assert_allclose(one, -twin.codelengths_[100:].mean(), rtol=1e-12)


def test_rows_of_the_stream_cost_what_they_cost_in_the_fit():
    X, y = digits()
    switcher = switcher_of(shuffle=True).fit(X[:100], y[:100])
    whole = heldout_codelength_scorer(switcher, X, y)
    switcher.partial_fit(X[100:], y[100:])
    assert_allclose(whole, -switcher.codelength_ / N, rtol=1e-12)


def test_a_fit_that_was_interrupted_is_not_taken_for_another_stream():
    X, y = digits()
    order = np.random.default_rng(1).permutation(N)[:100]
    switcher = switcher_of().partial_fit(X[order], y[order], classes=np.arange(10))
    switcher.order_ = order  # as `fit` leaves it, shuffled and then interrupted
    with pytest.raises(ValueError, match="the fit had 100 rows and X has 160"):
        codelength_scorer(switcher, X, y)
    with pytest.raises(ValueError, match="the fit was interrupted"):
        codelength_scorer(switcher, X[:100], y[:100])
    with pytest.raises(ValueError, match="100 of 160 rows were already learned"):
        heldout_codelength_scorer(switcher, X, y)


# Rows of the stream that come back


def changed(X, y):
    """Rows of a stream as they may come back: in part, in another order, permuted."""
    order = np.random.default_rng(0).permutation(len(X))
    permuted = X.copy()
    permuted[:, 1] = X[order, 1]
    yield X[:40], y[:40]
    yield X[40:], y[40:]
    yield X[order], y[order]
    yield permuted, y
    yield permuted[20:60], y[20:60]
    yield np.concatenate([X, X[:10]]), np.concatenate([y, y[:10]])


@for_each("width", [13, 2])
@for_each("shuffled", [False, True])
def test_rows_that_come_back_changed_are_refused(width, shuffled):
    X, y = shuffle(*load_wine(return_X_y=True), n_samples=100, random_state=0)
    X = X[:, :width]
    switcher = switcher_of(shuffle=shuffled).fit(X, y)
    for rows, labels in changed(X, y):
        with pytest.raises(ValueError, match=r"\d+ of \d+ rows were already learned"):
            heldout_codelength_scorer(switcher, rows, labels)
    assert heldout_codelength_scorer(switcher, X, y) == -switcher.codelengths_.mean()


@for_each("kind", ["digits", "iris", "cancer", "binary", "doubled", "coarse"])
def test_rows_that_repeat_by_nature_are_not_refused(kind):
    if kind == "binary":
        X = np.random.default_rng(0).integers(0, 2, (300, 6)).astype(float)
    elif kind == "coarse":  # without one column, many rows are equal by chance
        X = np.random.default_rng(0).integers(0, 5, (300, 6)).astype(float)
    elif kind == "doubled":  # every row twice, in random places
        X = np.random.default_rng(0).normal(size=(150, 6)).repeat(2, axis=0)
    else:
        load = {"digits": load_digits, "iris": load_iris, "cancer": load_breast_cancer}
        X, _ = load[kind](return_X_y=True)
    for seed in range(20):
        rows = shuffle(X, random_state=seed).astype(np.float32)
        for n in (3, 10, 15, len(rows) // 2):
            assert not count_returning(rows[:n], [rows[n:]])
        for train, test in KFold(5).split(rows):
            assert not count_returning(rows[test], [rows[train]])


@for_each("n, n_twins", [(16, 2), (30, 6), (100, 20)])
def test_learned_rows_are_refused_in_any_order_even_if_some_are_equal(n, n_twins):
    X = np.random.default_rng(0).normal(size=(n - n_twins, 5)).astype(np.float32)
    X = shuffle(np.concatenate([X, X[:n_twins]]), random_state=0)
    assert count_returning(X[::-1], [X]) == n


def test_equal_numbers_of_few_different_rows_are_put_down_to_chance():
    X = np.tile([[0.0], [1.0]], (20, 1)).astype(np.float32)
    assert count_returning(X[20:], [X[:20]]) == 0


def test_a_share_of_learned_rows_among_new_rows_is_refused():
    X = np.random.default_rng(0).normal(size=(124, 5)).astype(np.float32)
    assert count_returning(X[76:], [X[:100]]) == 24
    assert count_returning(X[94:], [X[:100]]) == 6
    assert count_returning(X[98:], [X[:100]]) == 0


@pytest.mark.slow
def test_importances_by_permutation_are_positive_where_features_inform():
    X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    switcher = MDLReadoutSwitcher(
        readout_grid(lr=[0.01, 0.03], hidden_layer_sizes=[()])
    )
    switcher.set_params(random_state=0).fit(X, y)
    assert refit_codelength_scorer(switcher, X, y) == -switcher.codelengths_.mean()
    options = {"n_repeats": 1, "random_state": 0}
    with pytest.raises(ValueError, match="178 of 178 rows were already learned"):
        permutation_importance(
            switcher, X, y, scoring=heldout_codelength_scorer, **options
        )
    of_stream = permutation_importance(
        switcher, X, y, scoring=refit_codelength_scorer, **options
    ).importances_mean
    alone = [switcher_of().fit(X[:, [j]], y).codelength_ for j in range(13)]
    best = np.argsort(alone)[:3]
    assert (of_stream[best] > 0.01).all()
    assert of_stream.sum() > 0.1
    switcher.fit(X[:90], y[:90])
    later = permutation_importance(
        switcher, X[90:], y[90:], scoring=heldout_codelength_scorer, **options
    ).importances_mean
    assert (later[best] > 0.01).all()


def test_a_refit_has_the_settings_of_the_fit_and_leaves_its_files_alone(tmp_path):
    X, y = digits()
    options = {"scoring": codelength_scorer, "cv": PrequentialSplit()}
    plain = switcher_of(store=tmp_path / "run", random_state=None)
    search = GridSearchCV(switcher_of(), {"batch_size": [16]}, **options)
    for estimator, labels in (
        (make_pipeline(StandardScaler(), plain), y),
        (search, y),
        (make_pipeline(StandardScaler(), search), y),
        (MultiOutputSwitcher(), np.column_stack([y, y % 2])),
    ):
        estimator.fit(X, labels)
        files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        first = refit_codelength_scorer(estimator, X, labels)
        assert refit_codelength_scorer(estimator, X, labels) == first < 0
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files
    with pytest.raises(
        TypeError, match="refit_codelength_scorer needs a switcher or readout"
    ):
        refit_codelength_scorer(StandardScaler().fit(X), X, y)


def test_no_rows_cost_no_nats():
    assert fitted().heldout_codelengths(*digits()).shape == (N,)
    with pytest.raises(ValueError, match="0 sample"):
        fitted().heldout_codelengths(np.empty((0, 64)), [])


def test_labels_that_were_not_fitted_are_refused():
    X, _ = digits()
    with pytest.raises(
        ValueError,
        match=r"^Labels in y must be among .*got \[12\]; fit rows of all",
    ):
        heldout_codelength_scorer(fitted(), X[:9] + 1, np.full(9, 12))


def test_cross_validation_on_heldout_rows_is_by_hand():
    X, y = digits()
    folds = KFold(3)
    scores = cross_val_score(
        piped(StandardScaler()), X, y, scoring=heldout_codelength_scorer, cv=folds
    )
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        rows = np.concatenate([train, test])
        scaler = StandardScaler().fit(X[train])
        switcher = switcher_of().fit(scaler.transform(X)[rows], y[rows])
        assert_allclose(score, -switcher.codelengths_[len(train) :].mean(), rtol=1e-5)


# In searches and curves


def test_search_over_a_prior_in_a_pipeline_equals_reading_under_each():
    X, y = digits()
    pipe = piped(StandardScaler(), switching=FixedShare())
    search = GridSearchCV(
        pipe,
        {"mdlreadoutswitcher__switching__m": [1, 2, 50]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
    ).fit(X, y)
    switcher = clone(pipe).fit(X, y)[-1]
    expected = [-switcher.remix(FixedShare(m=m)).codelength / N for m in (1, 2, 50)]
    assert_allclose(search.cv_results_["mean_test_score"], expected)
    assert search.best_params_ == {
        "mdlreadoutswitcher__switching__m": [1, 2, 50][int(np.argmax(expected))]
    }
    assert_allclose(codelength_scorer(search, X, y), max(expected))


@pytest.mark.slow
def test_search_in_processes_gives_the_same_scores_for_all_metrics():
    X, y = digits(100)
    found = [
        GridSearchCV(
            piped(PCA(random_state=0)),
            {"pca__n_components": [3, 12]},
            scoring={
                "code": codelength_scorer,
                "later": heldout_codelength_scorer,
                "accuracy": "accuracy",
            },
            refit="code",
            cv=PrequentialSplit(),
            n_jobs=n_jobs,
        )
        .fit(X, y)
        .cv_results_
        for n_jobs in (1, 2)
    ]
    for name in ("code", "later", "accuracy"):
        one, two = (results[f"mean_test_{name}"] for results in found)
        assert_allclose(one, two, rtol=1e-6)
    assert_allclose(found[0]["mean_test_code"], found[0]["mean_test_later"])


def test_halving_compares_at_equal_numbers_of_rows():
    X, y = digits()
    grid = {"pca__n_components": [1, 2, 12]}
    search = HalvingGridSearchCV(
        piped(PCA(random_state=0)),
        grid,
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
        min_resources=50,
        max_resources=150,
        random_state=0,
    ).fit(X, y)
    results = search.cv_results_
    assert search.n_resources_ == [50, 150]
    assert not np.isnan(results["mean_test_score"]).any()
    for n in (50, 150):
        at_n = results["n_resources"] == n
        assert len(set(results["iter"][at_n])) == 1
    assert search.best_params_ == {"pca__n_components": 12}
    assert_allclose(
        codelength_scorer(search, X, y), -search.best_estimator_[-1].codelength_ / N
    )


def test_halving_without_a_seed_scores_other_rows_and_is_refused():
    search = HalvingGridSearchCV(
        switcher_of(),
        {"batch_size": [16, 32]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
        min_resources=50,
        max_resources=150,
        error_score="raise",
        random_state=np.random.RandomState(0),  # draws other rows each time
    )
    with pytest.raises(ValueError, match="other labels"):
        search.fit(*digits())


def test_learning_curve_has_the_code_and_the_code_of_what_follows():
    X, y = digits()
    sizes, train, test = learning_curve(
        switcher_of(),
        X,
        y,
        train_sizes=[40, 100],
        scoring=heldout_codelength_scorer,
        cv=[(np.arange(120), np.arange(120, N))],
    )
    assert_array_equal(sizes, [40, 100])
    for n, code, later in zip(sizes, train[:, 0], test[:, 0], strict=True):
        rows = np.r_[:n, 120:N]
        switcher = switcher_of().partial_fit(X[rows], y[rows], classes=np.arange(10))
        assert_allclose(code, -switcher.codelengths_[:n].mean(), rtol=1e-12)
        assert_allclose(later, -switcher.codelengths_[n:].mean(), rtol=1e-12)


@each_scorer
def test_validation_curve_reads_the_stream_on_both_sides(scorer):
    X, y = digits()
    train, test = validation_curve(
        switcher_of(),
        X,
        y,
        param_name="batch_size",
        param_range=[16, 32],
        scoring=scorer,
        cv=PrequentialSplit(),
    )
    assert_array_equal(train, test)
    expected = [switcher_of(batch_size=b).fit(X, y).codelength_ for b in (16, 32)]
    assert_allclose(test[:, 0], -np.array(expected) / N)


# Features may depend on no label that is coded

SUPERVISED = {
    "SelectKBest": SelectKBest(k=5),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    "TargetEncoder": TargetEncoder(),
    "PLSRegression": PLSRegression(),
    "NeighborhoodComponentsAnalysis": NeighborhoodComponentsAnalysis(),
}


def noise(n=120, n_features=40, n_classes=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, n_features)), rng.integers(0, n_classes, n)


@each_scorer
@for_each("name", SUPERVISED)
def test_steps_that_see_the_labels_are_refused_by_name(name, scorer):
    X, y = noise()
    step = clone(SUPERVISED[name])
    for encoder in (
        step,
        make_pipeline(StandardScaler(), step),
        FeatureUnion([("pca", PCA(1)), ("supervised", step)]),
        ColumnTransformer([("some", step, list(range(20)))], remainder="drop"),
    ):
        pipe = make_pipeline(encoder, LinearReadout(**FAST))
        with pytest.raises(ValueError, match=rf"holds {name}, .*FrozenEstimator") as e:
            scorer(pipe, X, y)
        assert "\n" not in str(e.value)


@each_scorer
def test_frozen_steps_may_have_learned_other_labels(scorer):
    X, y = digits(2 * N)
    frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(X[N:], y[N:]))
    pipe = piped(frozen).fit(X[:N], y[:N])
    expected = -pipe[-1].codelength_ / N
    assert_allclose(scorer(pipe, X[:N], y[:N]), expected, rtol=1e-12)


@each_scorer
def test_search_over_a_selector_on_random_labels_is_refused(scorer):
    X, y = noise()
    cv = PrequentialSplit() if scorer is codelength_scorer else KFold(2)
    search = GridSearchCV(
        make_pipeline(SelectKBest(), LinearReadout(**FAST, random_state=0)),
        {"selectkbest__k": [3, 10]},
        scoring=scorer,
        cv=cv,
        error_score="raise",
    )
    with pytest.raises(ValueError, match="holds SelectKBest"):
        search.fit(X, y)
    search.set_params(error_score=np.nan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert any("holds SelectKBest" in str(w.message) for w in caught)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    assert np.isnan(search.best_score_)


def test_unguarded_a_supervised_step_would_compress_random_labels():
    """Why they are refused."""
    X, y = noise(n=300, n_features=200)
    cheat = make_pipeline(LinearDiscriminantAnalysis(), LinearReadout(lr=0.02))
    cheat.set_params(linearreadout__random_state=0).fit(X, y)
    assert cheat[-1].codelength_ < uniform_codelength(300, 2) - 20


def test_no_search_over_blind_steps_compresses_random_labels():
    X, y = noise()
    search = GridSearchCV(
        make_pipeline(PCA(random_state=0), LinearReadout(**FAST, random_state=0)),
        {"pca__n_components": [1, 5, 20, 40]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
    ).fit(X, y)
    assert -search.best_score_ * len(y) > uniform_codelength(len(y), 2) - 20


# Labels count once

WEIGHTED = {
    "codelength_scorer": lambda w: codelength_scorer(
        fitted(), *digits(), sample_weight=w
    ),
    "heldout_codelength_scorer": lambda w: heldout_codelength_scorer(
        fitted(), *digits(), sample_weight=w
    ),
}


@pytest.mark.parametrize("caller", WEIGHTED)
def test_sample_weights_are_refused_by_name(caller):
    words = rf"{caller} must weight all labels equally.*got sample_weight"
    with pytest.raises(TypeError, match=words) as caught:
        WEIGHTED[caller](np.ones(N))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: LinearReadout(class_weight="balanced"),
        lambda: MDLReadoutSwitcher(class_weight="balanced"),
    ],
    ids=["readout", "switcher"],
)
def test_class_weights_are_refused_by_name(call):
    with pytest.raises(TypeError, match="class_weight"):
        call()


def test_refused_weights_leave_a_fitted_estimator_as_it_was():
    X, y = digits()
    switcher = switcher_of().fit(X, y)
    with pytest.raises(TypeError, match="sample_weight"):
        switcher.fit(X, y, sample_weight=np.ones(N))
    assert_array_equal(switcher.codelengths_, fitted().codelengths_)


@pytest.mark.parametrize("scorer", [heldout_codelength_scorer, refit_codelength_scorer])
def test_a_scorer_that_gets_no_groups_names_the_methods_that_do(scorer):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    fitted = LinearReadout(random_state=0).fit(X, y, groups=np.arange(20) // 2)
    with pytest.raises(ValueError, match=f"pass groups=g to fit .* {scorer.__name__}"):
        scorer(fitted, X + 1, y)
