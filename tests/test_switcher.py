"""Laws of the switcher: calls mean nothing, codes add up, nothing is lost."""

import copy
import io
import itertools
import math
import pickle
from functools import cache
from inspect import signature
from typing import get_args

import joblib
import numpy as np
import pandas as pd
import pytest
from each_case import for_each
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    PrequentialSplit,
    forward,
    readout_grid,
)
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import (
    ElementwiseMixture,
    PriorLike,
    RunLength,
    UniversalShare,
    as_prior,
)

FAST = {"lr": 0.02, "n_replay_streams": 2}
POOL = [
    LinearReadout(**FAST),
    MLPReadout((9,), **FAST, scaling="whiten"),
    LinearReadout(**FAST, ema_step_size=0.1, calibration=False),
    MLPReadout((7, 5), lr=0.02, n_replay_streams=0, scaling=None),
]
CLASSES = np.arange(10)
N = 200
ARRAYS = ("readout_losses_", "codelengths_", "posterior_")


@cache
def digits(n=N):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def pool_of(readouts=None, **options):
    options = {"random_state": 0, **options}
    return MDLReadoutSwitcher(POOL if readouts is None else readouts, **options)


def small(**options):
    return pool_of([LinearReadout(**FAST), MLPReadout((9,), **FAST)], **options)


@cache
def fitted():
    return pool_of().fit(*digits())


@cache
def fitted_on_800():
    # A prefix of a permutation; linear readouts at first, perceptrons later.
    pool = readout_grid(
        hidden_layer_sizes=[(), (32,)], lr=[1e-3, 1e-2], n_replay_streams=4
    )
    return pool_of(pool).fit(*digits(800))


def in_pieces(switcher, X, y, at, classes=CLASSES):
    cut = [0, *at, len(X)]
    for start, stop in itertools.pairwise(cut):
        if start < stop:
            switcher.partial_fit(X[start:stop], y[start:stop], classes=classes)
    return switcher


def assert_same_run(found, expected):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


# Calls mean nothing


@settings(deadline=None, max_examples=15)
@given(at=st.lists(st.integers(1, N - 1), max_size=10, unique=True).map(sorted))
def test_any_cutting_into_calls_equals_one_fit_bitwise(at):
    X, y = digits()
    assert_same_run(in_pieces(pool_of(shuffle=False), X, y, at), fitted())


@pytest.mark.parametrize(
    "at",
    [
        (),
        tuple(range(1, N)),
        (32, 64, 96, 128, 160, 192),
        (31, 33, 63, 65, 127, 129),
        (199,),
    ],
    ids=["once", "row by row", "minibatches", "around minibatches", "last row"],
)
def test_chosen_cuttings_equal_one_fit_bitwise(at):
    X, y = digits()
    found = in_pieces(pool_of(), X, y, at)
    assert_same_run(found, fitted())
    np.testing.assert_array_equal(found.predict_proba(X), fitted().predict_proba(X))


@pytest.mark.parametrize("n", [1, 20, 22, 77])
def test_fit_then_partial_fit_equals_one_fit_bitwise(n):
    X, y = digits()
    # All classes must be known to `fit`: put one of each first.
    first = np.array([np.flatnonzero(y == label)[0] for label in CLASSES])
    order = np.concatenate([first, np.setdiff1d(np.arange(N), first)])
    X, y = X[order], y[order]
    n += len(first)
    parts = pool_of().fit(X[:n], y[:n]).partial_fit(X[n:], y[n:])
    assert_same_run(parts, pool_of().fit(X, y))


@pytest.mark.parametrize("n", [9, 32])
def test_predicting_between_calls_changes_nothing(n):
    X, y = digits()
    switcher = pool_of()
    for start in range(0, N, n):
        part = slice(start, start + n)
        switcher.partial_fit(X[part], y[part], classes=CLASSES)
        one, same = switcher.predict_proba(X[:5]), switcher.predict_proba(X[:5])
        np.testing.assert_array_equal(one, same)
        switcher.predict(X[:40])
        switcher.remix("bayes")
    assert_same_run(switcher, fitted())


def through_pickle(switcher):
    return pickle.loads(pickle.dumps(switcher))


def through_joblib(switcher):
    file = io.BytesIO()
    joblib.dump(switcher, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    ("copied", "n"),
    [
        (copy.deepcopy, 5),
        (through_pickle, 40),
        (through_joblib, 64),
        (copy.deepcopy, 100),
        (through_pickle, 5),
    ],
)
def test_copy_made_on_the_way_goes_on_as_if_uninterrupted(copied, n):
    X, y = digits()
    switcher = pool_of().partial_fit(X[:n], y[:n], classes=CLASSES)
    switcher.predict(X[:2])
    other = copied(switcher)
    np.testing.assert_array_equal(other.predict_proba(X), switcher.predict_proba(X))
    for each in (other, switcher):
        assert_same_run(each.partial_fit(X[n:], y[n:]), fitted())


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_numbers_do_not_depend_on_the_number_of_jobs(n_jobs):
    assert_same_run(pool_of(n_jobs=n_jobs).fit(*digits()), fitted())


@for_each(
    "name",
    [
        *(
            "codelength_",
            "codelengths_",
            "posterior_",
            "readout_losses_",
            "grid_edges_",
        ),
        *("n_samples_seen_", "readout_names_", "diverged_readouts_"),
    ],
)
def test_what_only_a_run_leaves_is_missed_by_name_before_it(name):
    switcher = MDLReadoutSwitcher()
    assert not hasattr(switcher, name)
    with pytest.raises(NotFittedError, match=r"(?i)This MDLReadoutSwitcher .* call "):
        getattr(switcher, name)


def test_refit_forgets_everything():
    X, y = digits()
    switcher = pool_of().fit(X[:50, :9], y[:50] % 3)
    assert_same_run(switcher.fit(X, y), fitted())
    assert switcher.n_features_in_ == 64


def test_run_does_not_see_later_changes_of_the_callers_arrays():
    X, y = (
        np.array(part, dtype)
        for part, dtype in zip(digits(), ("f4", "i8"), strict=True)
    )
    switcher = pool_of()
    for start in range(0, N, 50):
        rows, labels = X[start : start + 50].copy(), y[start : start + 50].copy()
        switcher.partial_fit(rows, labels, classes=CLASSES)
        rows[:], labels[:] = -1, 0
    assert_same_run(switcher, fitted())


# Codes add up


def test_codelength_is_the_sum_of_codelengths():
    switcher = fitted()
    assert switcher.n_samples_seen_ == len(switcher.codelengths_) == N
    assert switcher.codelength_ == pytest.approx(math.fsum(switcher.codelengths_))
    np.testing.assert_allclose(
        switcher.readout_codelengths_,
        [math.fsum(c) for c in switcher.readout_losses_.T],
    )
    assert switcher.codelength_ < N * math.log(10)


@pytest.mark.parametrize("weights", [None, [4, 2, 1, 1]])
def test_posterior_sums_to_one_and_begins_with_the_prior(weights):
    switcher = pool_of(readout_weights=weights).fit(*digits())
    assert switcher.posterior_.shape == (N, 4)
    np.testing.assert_allclose(switcher.posterior_.sum(1), 1, rtol=1e-12)
    prior = np.full(4, 0.25) if weights is None else np.array(weights) / 8
    np.testing.assert_allclose(switcher.posterior_[0], prior, rtol=1e-12)


def test_codelengths_mix_the_losses_by_the_posterior():
    switcher = fitted()
    mixed = -logsumexp(np.log(switcher.posterior_) - switcher.readout_losses_, axis=1)
    np.testing.assert_allclose(switcher.codelengths_, mixed, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@for_each("weights", [None, [4.0, 2, 1, 0]])
@for_each(
    "switching",
    [
        "bayes",
        "elementwise",
        "fixed-share",
        None,
        FixedShare(m=11),
        FixedShare(alpha=0.1),
    ],
)
def test_reading_under_another_prior_equals_fitting_under_it(switching, weights):
    switcher = pool_of(readout_weights=weights).fit(*digits())
    before = switcher.codelengths_.copy()
    trace = switcher.remix(switching)
    other = pool_of(switching=switching, readout_weights=weights).fit(*digits())
    np.testing.assert_array_equal(trace.codelengths, other.codelengths_)
    np.testing.assert_array_equal(trace.posterior, other.posterior_)
    assert trace.codelength == pytest.approx(other.codelength_, rel=1e-12)
    np.testing.assert_array_equal(switcher.codelengths_, before)
    by_hand = forward(switching, switcher.readout_losses_, weights)
    np.testing.assert_array_equal(by_hand.codelengths, trace.codelengths)


def test_readout_of_weight_zero_is_neither_heard_nor_trained_otherwise():
    silent = pool_of(readout_weights=[1, 1, 1, 0]).fit(*digits())
    np.testing.assert_array_equal(silent.readout_losses_, fitted().readout_losses_)
    np.testing.assert_array_equal(silent.posterior_[:, 3], 0)
    without = pool_of(POOL[:3]).fit(*digits())
    np.testing.assert_allclose(silent.codelengths_, without.codelengths_, rtol=1e-9)
    X, _ = digits()
    np.testing.assert_allclose(
        silent.predict_proba(X), without.predict_proba(X), rtol=1e-9, atol=1e-12
    )


def test_prior_object_is_left_as_it_was_and_later_changes_do_not_reach_the_run():
    X, y = digits()
    prior = FixedShare(m=2)
    switcher = pool_of(switching=prior).partial_fit(X[:50], y[:50], classes=CLASSES)
    prior.m = 50
    expected = pool_of(switching=FixedShare(m=2)).fit(X, y)
    assert_same_run(switcher.partial_fit(X[50:], y[50:]), expected)
    assert prior.get_params() == {"m": 50, "alpha": None, "redraw": True}


def test_fixed_share_pays_little_for_switching_and_beats_independent_draws():
    switcher = fitted_on_800()
    shared, bayes, elementwise = (
        switcher.remix(name).codelength
        for name in ("fixed-share", "bayes", "elementwise")
    )
    n, k = switcher.readout_losses_.shape
    bound = sum(-math.log(1 - (k - 1) / (k * t)) for t in range(2, n + 1))
    assert shared <= bayes + bound
    assert bound <= math.log(n)
    assert shared < elementwise
    best = switcher.readout_codelengths_.min()
    assert bayes <= (best + math.log(k)) * (1 + 1e-12)  # nearly equal; sums round
    assert switcher.codelength_ <= shared + math.log(5)  # the default, over five m


def test_digits_are_compressed_to_a_small_part_of_the_uniform_code():
    switcher = fitted_on_800()
    assert switcher.codelength_ < 0.3 * 800 * math.log(10)
    X, y = digits(1400)
    assert switcher.score(X[800:], y[800:]) > 0.9


# Predictions


@pytest.mark.parametrize("n", [32, 64, 96, 128])
def test_next_example_is_coded_with_the_probability_predicted(n):
    # Only between minibatches: the run learns pending rows later than a prediction.
    X, y = digits()
    switcher = pool_of().partial_fit(X[:n], y[:n], classes=CLASSES)
    coded = []
    for label in CLASSES:
        other = copy.deepcopy(switcher).partial_fit(X[n : n + 1], [label])
        coded.append(math.exp(-other.codelengths_[-1]))
    assert sum(coded) == pytest.approx(1, rel=1e-9)
    (predicted,) = switcher.predict_proba(X[n : n + 1])
    np.testing.assert_allclose(predicted, coded, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("n", [1, 20, 45, 100])
def test_codes_of_all_labels_of_the_next_example_sum_to_one(n):
    X, y = digits()
    switcher = pool_of().partial_fit(X[:n], y[:n], classes=CLASSES)
    coded = [
        math.exp(
            -copy.deepcopy(switcher).partial_fit(X[n : n + 1], [c]).codelengths_[-1]
        )
        for c in CLASSES
    ]
    assert sum(coded) == pytest.approx(1, rel=1e-9)


@for_each("n", [1, 2, 20, 31])
def test_prediction_knows_rows_that_fill_no_minibatch(n):
    X, y = digits()
    switcher = pool_of().partial_fit(X[:n], y[:n], classes=CLASSES)
    proba = switcher.predict_proba(X[:n])
    assert np.all(proba[np.arange(n), y[:n]] > 0.1)
    np.testing.assert_array_equal(switcher.readout_losses_, math.log(10))


def test_predicting_row_by_row_equals_predicting_in_bulk():
    X, _ = digits()
    bulk = fitted().predict_proba(X)
    rows = np.concatenate([fitted().predict_proba(row[None]) for row in X])
    np.testing.assert_allclose(rows, bulk, rtol=1e-5, atol=1e-9)
    backwards = fitted().predict_proba(X[::-1])[::-1]
    np.testing.assert_allclose(backwards, bulk, rtol=1e-5, atol=1e-9)


def test_predictions_agree_with_each_other():
    X, _ = digits()
    proba, log_proba = fitted().predict_proba(X), fitted().predict_log_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-12)
    np.testing.assert_array_equal(fitted().predict(X), proba.argmax(1))


@for_each("n_calls", [0, 1, 2, 20])
@for_each("readouts", [None, [LinearReadout(lr=0.05, n_replay_streams=30)]])
def test_twenty_rows_already_predict(readouts, n_calls):
    X, y = make_blobs(220, centers=3, random_state=0, cluster_std=0.5)
    switcher = MDLReadoutSwitcher(readouts, random_state=0)
    if n_calls:
        step = 20 // n_calls
        in_pieces(switcher, X[:20], y[:20], range(step, 20, step), [0, 1, 2])
    else:
        switcher.fit(X[:20], y[:20])
    assert switcher.score(X[20:], y[20:]) > 0.9


# Traces on disk


def test_trace_on_disk_holds_the_same_numbers_and_is_memory_mapped(tmp_path):
    folder = tmp_path / "new" / "trace"
    X, y = digits()
    switcher = in_pieces(pool_of(store=folder), X, y, (10, 100))
    assert_same_run(switcher, fitted())
    assert isinstance(switcher.posterior_, np.memmap)
    assert isinstance(switcher.readout_losses_, np.memmap)
    assert switcher.store_.parent == folder
    np.testing.assert_array_equal(
        np.load(switcher.store_ / "losses.npy"), fitted().readout_losses_
    )
    np.testing.assert_array_equal(
        np.load(switcher.store_ / "posterior.npy"), fitted().posterior_
    )
    np.testing.assert_array_equal(
        switcher.remix("bayes").codelengths, fitted().remix("bayes").codelengths
    )


def test_a_second_fit_has_a_folder_of_its_own(tmp_path):
    X, y = digits()
    switcher = pool_of(store=str(tmp_path))
    first = switcher.fit(X[:150, :20], y[:150]).store_
    before = {path: path.read_bytes() for path in first.glob("*.npy")}
    assert_same_run(switcher.fit(X, y), fitted())
    assert switcher.store_ != first
    assert {path: path.read_bytes() for path in first.glob("*.npy")} == before
    switcher.fit(X[:60], y[:60])
    assert switcher.posterior_.shape == (60, 4)
    np.testing.assert_array_equal(switcher.codelengths_, fitted().codelengths_[:60])


def test_run_with_its_trace_on_disk_goes_on_after_pickling(tmp_path):
    X, y = digits()
    switcher = pool_of(store=tmp_path).partial_fit(X[:70], y[:70], classes=CLASSES)
    other = through_pickle(switcher)
    assert_same_run(other.partial_fit(X[70:], y[70:]), fitted())


# Losses for the second stage


@pytest.mark.parametrize("weights", [None, [4.0, 2, 1, 0]])
def test_saved_losses_cost_what_the_run_costs(tmp_path, weights):
    switcher = pool_of(switching=FixedShare(m=3), readout_weights=weights)
    switcher.fit(*digits())
    written = switcher.save_losses(tmp_path / "losses.npy")
    stored = load_losses(written[0])
    trace = forward(FixedShare(m=3), stored.losses, stored.weights)
    assert trace.codelength == switcher.codelength_
    np.testing.assert_array_equal(trace.posterior, switcher.posterior_)
    assert stored.readouts == switcher.readout_names_
    assert stored.architectures == [readout.architecture for readout in POOL]
    assert repr(stored.switching) == "FixedShare(m=3)"
    assert stored.n_classes == 10
    assert (stored.weights is None) == (weights is None)
    switcher.save_losses(str(written[0]), dtype="float32")
    halved = load_losses(written[0])
    assert halved.losses.dtype == np.float32
    found = forward(FixedShare(m=3), halved.losses, halved.weights).codelength
    assert found == pytest.approx(switcher.codelength_, rel=1e-6)


def test_saved_losses_say_how_the_run_was_begun(tmp_path):
    X, y = digits()
    switcher = small(readout_weights=[1, 2]).partial_fit(X[:50], y[:50], CLASSES)
    switcher.set_params(readout_weights=None, switching="bayes", readouts=POOL)
    other = through_pickle(switcher.partial_fit(X[50:], y[50:]))
    for each in (switcher, other):
        each.save_losses(tmp_path / "losses.npy")
        stored = load_losses(tmp_path / "losses.npy")
        assert repr(stored.switching) == "LearnedShare()"
        assert stored.architectures == ["linear", "mlp 1x9"]
        trace = forward(None, stored.losses, stored.weights)
        np.testing.assert_array_equal(trace.codelengths, each.codelengths_)


def test_losses_in_the_store_can_be_opened_on_the_way(tmp_path):
    X, y = digits()
    switcher = pool_of(store=tmp_path)
    for start in range(0, N, 50):
        rows = slice(start, start + 50)
        switcher.partial_fit(X[rows], y[rows], classes=CLASSES)
        stored = load_losses(switcher.store_ / "losses.npy")
        np.testing.assert_array_equal(stored.losses, switcher.readout_losses_)
        assert stored.readouts == switcher.readout_names_
        assert stored.kinds == [readout.architecture for readout in POOL]
    trace = forward(None, stored.losses, stored.weights)
    assert trace.codelength == switcher.codelength_
    assert_same_run(switcher, fitted())


@for_each("name", ["losses.npy", "posterior.npy", "new/../losses.npy"])
def test_losses_are_not_saved_over_a_store(tmp_path, name):
    switcher = small(store=tmp_path).fit(*digits())
    (switcher.store_ / "new").mkdir()
    with pytest.raises(ValueError, match="outside the store of the run"):
        switcher.save_losses(switcher.store_ / name)
    other = small().fit(*digits())
    with pytest.raises(ValueError, match=r"losses\.json must be free for"):
        other.save_losses(switcher.store_ / "losses.npy")
    switcher.save_losses(switcher.store_ / "new" / "losses.npy")
    assert_same_run(switcher, small().fit(*digits()))


@pytest.mark.parametrize("on_disk", [False, True])
def test_traces_cannot_be_written_to(on_disk, tmp_path):
    switcher = small(store=tmp_path if on_disk else "memory").fit(*digits())
    for name in ARRAYS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(switcher, name)[0] = 0


# Data


def test_labels_may_be_strings():
    X, y = digits()
    names = np.array([f"n{9 - label}" for label in y])
    switcher = pool_of().fit(X, names)
    assert switcher.classes_.tolist() == [f"n{i}" for i in range(10)]
    mirrored = pool_of().fit(X, 9 - y)
    assert_same_run(switcher, mirrored)
    expected = [f"n{label}" for label in mirrored.predict(X)]
    assert switcher.predict(X).tolist() == expected
    more = in_pieces(pool_of(), X, names, (40,), [f"n{i}" for i in range(10)])
    assert_same_run(more, mirrored)


@for_each("labels", [[-5, 7], [False, True], [0.0, 1.0], ["a", "b"]])
def test_labels_stand_for_their_order_alone(labels):
    X, y = digits()
    switcher = small().fit(X, np.array(labels)[y % 2])
    assert switcher.classes_.tolist() == labels
    assert_same_run(switcher, small().fit(X, y % 2))
    assert set(switcher.predict(X).tolist()) <= set(labels)


@for_each("dtype", ["float16", "float32", "float64", "int64", "uint8"])
def test_dtype_of_features_changes_nothing(dtype):
    X, y = digits()
    assert_same_run(pool_of().fit(X.astype(dtype), y), fitted())


def test_data_frames_are_scored_and_their_columns_remembered():
    X, y = digits()
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    switcher = pool_of().fit(frame, pd.Series(y))
    assert_same_run(switcher, fitted())
    assert switcher.feature_names_in_.tolist() == list(frame)
    np.testing.assert_array_equal(switcher.predict(frame), fitted().predict(X))
    with pytest.raises(ValueError, match="feature names"):
        switcher.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names"):
        switcher.partial_fit(frame.rename(columns={"pixel 3": "x"}), y)


def test_lists_are_scored_too():
    X, y = digits()
    assert_same_run(pool_of().fit(X.tolist(), y.tolist()), fitted())


def test_shuffled_run_equals_the_run_over_permuted_rows():
    X, y = digits()
    shuffled = pool_of(shuffle=True).fit(X, y)
    order = shuffled.order_
    assert sorted(order) == list(range(N))
    assert not np.array_equal(order, np.arange(N))
    assert_same_run(shuffled, pool_of(shuffle=False).fit(X[order], y[order]))
    np.testing.assert_array_equal(fitted().order_, np.arange(N))


@pytest.mark.parametrize("shuffle", [False, True])
def test_seeds_repeat_and_their_absence_does_not(shuffle):
    X, y = digits()
    one, same, other = (
        pool_of(shuffle=shuffle, random_state=seed).fit(X, y) for seed in (5, 5, 6)
    )
    assert_same_run(same, one)
    assert one.codelength_ != other.codelength_
    free = pool_of(shuffle=shuffle, random_state=None)
    assert free.fit(X, y).codelength_ != clone(free).fit(X, y).codelength_


def test_generator_as_seed_gives_new_draws_at_every_fit():
    X, y = digits()
    generator = np.random.RandomState(3)
    one, other = (small(random_state=generator).fit(X, y) for _ in range(2))
    assert one.codelength_ != other.codelength_
    again = small(random_state=np.random.RandomState(3)).fit(X, y)
    assert_same_run(again, one)


def test_run_leaves_the_global_generators_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    small(shuffle=True, random_state=0).fit(*digits()).predict(digits()[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_grouped_labels_are_warned_of_and_nothing_else_is():
    X, y = digits()
    by_class = np.argsort(y, kind="stable")
    with pytest.warns(UserWarning, match="grouped by class.*shuffle=True") as record:
        small().fit(X[by_class], y[by_class])
    assert [warning.filename for warning in record] == [__file__]
    # Warnings are errors here.
    small(shuffle=True).fit(X[by_class], y[by_class])
    small().fit(X, y)
    small().fit(X[:10], CLASSES)
    small().fit(X, np.arange(N) % 10)
    in_pieces(small(), X[by_class], y[by_class], (60, 100))


# Parameters


def test_parameters_of_a_prior_object_can_be_set_and_searched():
    X, y = digits()
    switcher = small(switching=FixedShare()).set_params(switching__m=7)
    assert switcher.switching.m == 7
    assert switcher.get_params()["switching__m"] == 7
    search = GridSearchCV(
        switcher,
        {"switching__m": [1, 2, 100]},
        scoring=lambda estimator, X, y: -estimator.codelength_,
        cv=PrequentialSplit(),
    ).fit(X, y)
    expected = [
        -switcher.fit(X, y).remix(FixedShare(m=m)).codelength for m in (1, 2, 100)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)


def test_prior_and_its_parameter_can_be_set_at_once():
    switcher = small(switching="bayes").set_params(
        switching=FixedShare(), switching__m=3
    )
    assert switcher.switching.m == 3


@pytest.mark.parametrize("kind", [MDLReadoutSwitcher, MDLReadoutSwitcherRegressor])
def test_the_default_prior_is_named(kind):
    assert signature(kind).parameters["switching"].default == "learned-share"
    assert 'default="learned-share"' in kind.__doc__


def test_no_prior_is_the_default_one():
    X, y = digits()
    assert_same_run(
        pool_of(switching=None).fit(X[:40], y[:40]), pool_of().fit(X[:40], y[:40])
    )


@pytest.mark.parametrize("switching", ["fixed-share", None])
def test_parameters_of_no_prior_object_are_refused_in_a_sentence(switching):
    words = r"switching must be a prior object if switching__m .*FixedShare\(m=2\)"
    with pytest.raises(ValueError, match=words):
        small(switching=switching).set_params(switching__m=3)


@pytest.mark.parametrize(
    ("name", "m", "batch_size", "n_readouts"),
    [("vtab-frozen", 11, 32, 4608), ("imagenet-frozen", 2, 512, 384)],
)
def test_presets_bring_their_readouts_prior_and_batch_size(
    name, m, batch_size, n_readouts
):
    switcher = MDLReadoutSwitcher.from_preset(name, random_state=4)
    assert switcher.switching.get_params() == {"m": m, "alpha": None, "redraw": True}
    assert switcher.batch_size == batch_size
    assert len(switcher.readouts) == n_readouts
    assert switcher.random_state == 4
    assert MDLReadoutSwitcher.from_preset(name, batch_size=8).batch_size == 8


def test_unknown_preset_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"preset must be one of .*'paper'"):
        MDLReadoutSwitcher.from_preset("paper")


def test_switcher_works_in_a_pipeline():
    X, y = digits()
    pipeline = make_pipeline(FunctionTransformer(), pool_of()).fit(X, y)
    assert_same_run(pipeline[-1], fitted())


def test_clone_of_a_fitted_switcher_is_as_new():
    other = clone(fitted())
    assert not hasattr(other, "classes_")
    assert_same_run(other.fit(*digits()), fitted())


@for_each(
    "read",
    [
        lambda s: s.predict(digits()[0]),
        lambda s: s.predict_proba(digits()[0]),
        lambda s: s.remix("bayes"),
        lambda s: s.save_losses("losses.npy"),
    ],
)
def test_unfitted_switcher_says_so(read):
    with pytest.raises(NotFittedError):
        read(small())


@for_each("name", ["codelength_", "posterior_", "readout_names_"])
def test_unfitted_switcher_has_no_fitted_attributes(name):
    assert not hasattr(small(), name)


# The bar


def test_bar_is_shown_only_when_asked_for(capsys):
    small().fit(*digits())
    assert capsys.readouterr() == ("", "")
    switcher = small(verbose=1).fit(*digits())
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "MDLReadoutSwitcher" in shown.err
    assert "200/200" in shown.err
    assert_same_run(switcher, small().fit(*digits()))


# Bad input

X_OK, Y_OK = np.eye(8, 3), np.arange(8) % 2
WRONG_DATA = [
    (np.where(X_OK == 1, np.nan, X_OK), Y_OK, "Input X contains NaN"),
    (np.where(X_OK == 1, np.inf, X_OK), Y_OK, "Input X contains infinity"),
    (X_OK, Y_OK * 0, r"labels of at least two classes, got only one class, \[0\]"),
    (X_OK, Y_OK[:-1], r"inconsistent numbers of samples: \[8, 7\]"),
    (X_OK[:0], Y_OK[:0], r"Found array with 0 sample\(s\)"),
    (X_OK[:, :0], Y_OK, r"Found array with 0 feature\(s\)"),
    (X_OK[0], Y_OK, "Expected 2D array, got 1D array"),
    (X_OK, None, "requires y to be passed"),
    (X_OK, np.linspace(0, 1, 8), "type: continuous, but y must hold classes"),
    (X_OK, np.eye(8), "y should be a 1d array"),
    (X_OK, [0, 1, np.nan] * 2 + [0, 1], "Input y contains NaN"),
]


@for_each("X, y, words", WRONG_DATA)
def test_fit_refuses_data_in_a_sentence(X, y, words):
    with pytest.raises(ValueError, match=words):
        small().fit(X, y)


WRONG_OPTIONS = [
    ({"switching": "nope"}, ValueError, r"must be one of \['bayes'.*got 'nope'"),
    ({"switching": 3}, ValueError, "'switching' parameter.*Got 3"),
    ({"switching": FixedShare(m=2, alpha=0.1)}, ValueError, "`m` or `alpha`, not both"),
    ({"switching": FixedShare(m=0.5)}, ValueError, "`m` must be a finite number"),
    ({"readouts": []}, ValueError, "readouts must be a non-empty list"),
    (
        {"readouts": [3]},
        TypeError,
        "Readouts must be LinearReadout.*got 3; for example, pass",
    ),
    ({"readouts": [LinearReadout]}, TypeError, "pass an instance of LinearReadout"),
    ({"readouts": [LinearReadout(lr=-1)]}, ValueError, "'lr' parameter of LinearRead"),
    ({"readout_weights": [1]}, ValueError, r"must be of shape \(2,\), got \(1,\)"),
    ({"readout_weights": [1, -1]}, ValueError, "must be finite and non-negative"),
    ({"readout_weights": [0, 0]}, ValueError, "with a positive sum"),
    ({"batch_size": 0}, ValueError, "'batch_size' parameter.*Got 0"),
    ({"batch_size": 2.5}, ValueError, "'batch_size' parameter.*Got 2.5"),
    ({"store": 3}, ValueError, "'store' parameter.*Got 3"),
]


@for_each("options, error, words", WRONG_OPTIONS)
def test_fit_refuses_options_in_a_sentence(options, error, words):
    with pytest.raises(error, match=words):
        small().set_params(**options).fit(X_OK, Y_OK)
    with pytest.raises(error, match=words):
        small().set_params(**options).partial_fit(X_OK, Y_OK, classes=[0, 1])


WRONG_CALLS = {
    "another width": (lambda X: X[:, :5], lambda y: y, {}, "X has 5 features.*64"),
    "unknown label": (
        lambda X: X,
        lambda y: y + 1,
        {},
        r"^Labels in y must be among the classes \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\], got "
        r"\[10\]; fit rows of all classes, or pass them all to the first partial_fit$",
    ),
    "unknown type": (
        lambda X: X,
        lambda y: y.astype(str),
        {},
        "Labels in y must be among the classes|Unknown label type|mix of",
    ),
    "fewer classes": (
        lambda X: X,
        lambda y: y,
        {"classes": range(9)},
        r"classes must be .*, the classes of this stream, got .*; omit classes, or "
        r"begin a new stream with clone\(estimator\)$",
    ),
    "NaN": (lambda X: X * np.nan, lambda y: y, {}, "Input X contains NaN"),
    "lengths": (lambda X: X, lambda y: y[1:], {}, "inconsistent numbers of samples"),
    "no rows": (lambda X: X[:0], lambda y: y[:0], {}, r"0 sample\(s\)"),
}


@pytest.mark.slow
@for_each("n", [20, 64, 77])
@for_each("name", WRONG_CALLS)
def test_refused_call_leaves_the_stream_as_it_was(name, n):
    of_X, of_y, options, words = WRONG_CALLS[name]
    X, y = digits()
    switcher = pool_of().partial_fit(X[:n], y[:n], classes=CLASSES)
    kept = switcher.predict_proba(X[:50])
    with pytest.raises(ValueError, match=words):
        switcher.partial_fit(of_X(X[n:]), of_y(y[n:]), **options)
    assert switcher.n_samples_seen_ == n
    np.testing.assert_array_equal(switcher.predict_proba(X[:50]), kept)
    assert_same_run(switcher.partial_fit(X[n:], y[n:]), fitted())


@for_each(
    "first",
    [
        {"X": X_OK, "y": Y_OK, "classes": None},
        {"X": X_OK, "y": Y_OK * 0, "classes": [0]},
        {"X": X_OK, "y": Y_OK + 5, "classes": [0, 1]},
        {"X": X_OK * np.nan, "y": Y_OK, "classes": [0, 1]},
    ],
)
def test_refused_first_call_leaves_no_trace(first):
    switcher = pool_of()
    with pytest.raises(ValueError, match=r"classes|NaN"):
        switcher.partial_fit(**first)
    with pytest.raises(NotFittedError):
        switcher.predict(X_OK)
    X, y = digits()
    assert_same_run(switcher.partial_fit(X, y, classes=CLASSES), fitted())


def test_first_call_refused_for_an_option_can_be_made_again():
    switcher = pool_of(switching="nope")
    with pytest.raises(ValueError, match="nope"):
        switcher.partial_fit(X_OK, Y_OK, classes=[0, 1])
    switcher.set_params(switching="learned-share")
    with pytest.raises(NotFittedError):
        switcher.predict(X_OK)
    assert_same_run(switcher.partial_fit(*digits(), classes=CLASSES), fitted())


@for_each("X, y", [(X_OK, Y_OK * 0), (X_OK * np.nan, Y_OK), (X_OK, Y_OK[1:])])
def test_refused_refit_leaves_the_fitted_switcher_as_it_was(X, y):
    rows, labels = digits()
    switcher = small().fit(rows, labels)
    kept = switcher.predict_proba(rows)
    with pytest.raises(ValueError, match=r"one class|NaN|inconsistent"):
        switcher.fit(X, y)
    np.testing.assert_array_equal(switcher.predict_proba(rows), kept)
    assert switcher.n_samples_seen_ == N


def test_priors_by_name_are_the_objects():
    objects = {
        "bayes": BayesMixture(),
        "elementwise": ElementwiseMixture(),
        "fixed-share": FixedShare(m=2),
    }
    for name, prior in objects.items():
        np.testing.assert_array_equal(
            fitted().remix(name).codelengths, fitted().remix(prior).codelengths
        )


class TestStreamsThatAPriorRefuses:
    """Some priors take short streams alone: nothing is scored, nothing is lost."""

    def test_fit_is_refused_before_the_run(self):
        X, y = digits(60)
        switcher = small(switching=UniversalShare(max_steps=59))
        with pytest.raises(ValueError, match="max_steps=59 steps, got 60; use Learned"):
            switcher.fit(X, y)
        assert not hasattr(switcher, "classes_")
        switcher.set_params(switching__max_steps=60).fit(X, y)
        assert switcher.n_samples_seen_ == 60

    def test_stream_goes_on_after_a_refusal(self):
        X, y = digits(60)
        switcher = small(switching=RunLength(n_rates=None, max_steps=60))
        with pytest.raises(ValueError, match="got 61; use RunLength"):
            switcher.partial_fit(np.tile(X, (2, 1))[:61], np.tile(y, 2)[:61], CLASSES)
        assert not hasattr(switcher, "classes_")
        switcher.partial_fit(X[:40], y[:40], CLASSES)
        with pytest.raises(ValueError, match="got 80; use RunLength"):
            switcher.partial_fit(X[:40], y[:40])
        switcher.partial_fit(X[40:], y[40:])
        whole = small(switching=RunLength(n_rates=None)).partial_fit(X, y, CLASSES)
        assert_same_run(switcher, whole)


def test_weights_by_architecture_do_not_drown_the_few():
    X, y = digits(80)
    pool = [LinearReadout(**FAST), *(MLPReadout((9,), **FAST) for _ in range(3))]
    switcher = pool_of(pool, readout_weights="architecture").fit(X, y)
    np.testing.assert_allclose(switcher.readout_weights_, [1 / 2, *[1 / 6] * 3])
    np.testing.assert_allclose(switcher.posterior_[0], switcher.readout_weights_)
    given = pool_of(pool, readout_weights=switcher.readout_weights_).fit(X, y)
    assert_same_run(given, switcher)
    again = switcher.remix(None)
    assert again.codelength == switcher.codelength_
    assert small().fit(X, y).readout_weights_ is None


def test_types_name_every_prior_and_no_other():
    names = get_args(get_args(PriorLike)[1])
    with pytest.raises(
        ValueError, match="; for example, pass 'learned-share'"
    ) as caught:
        as_prior("none")
    assert str(sorted(names)) in str(caught.value)
