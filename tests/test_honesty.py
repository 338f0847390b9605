"""No label is seen before it is paid for, whatever the options: so it is a code."""

import math
from itertools import pairwise

import numpy as np
import pytest
from each_case import for_each
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

from sklearn_mdl import (
    FixedShare,
    KernelReadout,
    LearnedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    SwitchDistribution,
)
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import CentroidReadout, DiscriminantReadout
from sklearn_mdl.readouts._kernel_rows import SCALINGS
from sklearn_mdl.switching import Race, RunLength, UniversalShare

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

laws = settings(
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# One for each kind of training and prediction.
READOUTS = {
    "linear": LinearReadout(lr=0.03, n_replay_streams=2),
    "whitened": LinearReadout(lr=0.03, scaling="whiten", n_replay_streams=1),
    "unscaled": LinearReadout(lr=0.03, scaling=None, n_replay_streams=2),
    "averaged": MLPReadout((6,), lr=0.03, ema_step_size=0.1, n_replay_streams=2),
    "warmed up": MLPReadout((6,), lr=0.03, ema_step_size=0.01, n_replay_streams=3),
    "uncalibrated": MLPReadout((4, 3), lr=0.03, calibration=False, n_replay_streams=3),
    "smoothed": LinearReadout(lr=0.03, label_smoothing=0.1, n_replay_streams=0),
    "recent": LinearReadout(lr=0.03, recency=0.5, n_replay_streams=5),
    "kernel": KernelReadout(),
    "kernel of raw rows": KernelReadout("rbf", gamma=0.1, scaling=None),
    "kernel that forgets": KernelReadout(window=64),
    "diverging": MLPReadout((6,), lr=1e20, n_replay_streams=3),
}
PRIORS = [
    "bayes",
    "elementwise",
    FixedShare(m=2),
    LearnedShare(),
    RunLength(),
    RunLength(n_rates=None),
    SwitchDistribution(),
    UniversalShare(),
]
POOLS = [None, LogLinearPool()]
RACES = [None, Race(slack=0.5, min_readouts=1, min_samples=20)]
N, D, C = 90, 5, 3


def stream(seed, n_rows=N, n_features=D, n_classes=C):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    X = (
        rng.normal(size=(n_rows, n_features))
        + 2 * np.eye(max(n_classes, n_features))[y, :n_features]
    )
    return X, y


def scored(readouts, X, y, at=(), n_classes=C, **options):
    options = {"batch_size": 8, "random_state": 0, "device": "cpu", **options}
    switcher = MDLReadoutSwitcher(readouts, **options)
    for start, stop in pairwise([0, *at, len(X)]):
        if stop > start:
            switcher.partial_fit(X[start:stop], y[start:stop], classes=range(n_classes))
    return switcher


def assert_same_beginning(one, other, t):
    for name in ("codelengths_", "readout_losses_"):
        np.testing.assert_array_equal(getattr(one, name)[:t], getattr(other, name)[:t])
    np.testing.assert_array_equal(one.posterior_[: t + 1], other.posterior_[: t + 1])


@pytest.mark.quick("averaged", "kernel", "kernel that forgets", "diverging")
@pytest.mark.filterwarnings("ignore:all readouts have diverged")
@pytest.mark.parametrize("kind", READOUTS)
def test_later_labels_leave_earlier_codelengths_bitwise_unchanged(kind):
    X, y = stream(0)
    one = scored([READOUTS[kind]], X, y)
    for t in (0, 1, 7, 8, 9, 40, 63, 64, 89):
        other = y.copy()
        other[t:] = (other[t:] + 1) % C
        assert_same_beginning(one, scored([READOUTS[kind]], X, other), t)


@laws
@given(
    kinds=st.lists(st.sampled_from(list(READOUTS)), min_size=1, max_size=4),
    prior=st.sampled_from(PRIORS),
    t=st.integers(0, N),
    at=st.lists(st.integers(0, N), max_size=4).map(sorted),
    sizes=st.sampled_from([1, 5, (2, 8), (3, 32), 100]),
    mixing=st.tuples(st.sampled_from(POOLS), st.sampled_from(RACES)),
    seed=st.integers(0, 99),
)
@pytest.mark.filterwarnings("ignore:all readouts have diverged")
def test_no_option_lets_a_label_leak(kinds, prior, t, at, sizes, mixing, seed):
    X, y = stream(seed)
    rng = np.random.default_rng(seed)
    other_X, other_y = X.copy(), y.copy()
    other_y[t:] = rng.integers(C, size=N - t)
    other_X[t:] *= rng.normal(size=(N - t, D))
    readouts = [READOUTS[kind] for kind in kinds]
    options = {"switching": prior, "pooling": mixing[0], "race": mixing[1]}
    options["batch_size"] = sizes
    one = scored(readouts, X, y, **options)
    two = scored(readouts, X, other_y, at, **options)
    assert_same_beginning(one, two, t)
    three = scored(readouts, other_X, other_y, **options)
    np.testing.assert_array_equal(one.readout_losses_[:t], three.readout_losses_[:t])


@laws
@given(
    n_rows=st.integers(1, 70),
    n_features=st.integers(1, 9),
    n_classes=st.integers(2, 12),
    dtype=st.sampled_from(["f2", "f4", "f8", "i4", "?"]),
    at=st.lists(st.integers(0, 70), max_size=4).map(sorted),
)
def test_streams_of_any_size_and_type_are_cut_at_will(
    n_rows, n_features, n_classes, dtype, at
):
    X, y = stream(n_rows, n_rows, n_features, n_classes)
    X = (10 * X).astype(dtype)
    readouts = [READOUTS["whitened"], READOUTS["averaged"]]
    at = [place for place in at if place < n_rows]
    once = scored(readouts, X, y, n_classes=n_classes)
    pieces = scored(readouts, X, y, at, n_classes=n_classes)
    np.testing.assert_array_equal(once.codelengths_, pieces.codelengths_)
    assert len(once.codelengths_) == n_rows
    assert np.all(once.codelengths_ >= 0)
    np.testing.assert_allclose(once.codelengths_[:8], math.log(n_classes), rtol=1e-12)
    np.testing.assert_allclose(once.predict_proba(X).sum(1), 1, rtol=1e-12)


# Labels that tell nothing


def saved_on_random_labels(seed, readouts, X, n_classes):
    """Nats that a code saves on labels drawn blindly."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=len(X))
    switcher = scored(
        readouts, X, y, n_classes=n_classes, batch_size=32, random_state=seed
    )
    return len(X) * math.log(n_classes) - switcher.codelength_


@pytest.mark.slow
def test_random_labels_are_not_compressed_over_two_hundred_seeds():
    # By chance a code saves a nats with probability exp(-a) at most.
    X = load_digits().data[::9]
    saved = [
        saved_on_random_labels(seed, [*READOUTS.values()], X, 10) for seed in range(200)
    ]
    assert max(saved) < 20
    assert np.mean(saved) < 0


@pytest.mark.slow
def test_the_default_pool_does_not_compress_random_labels():
    X = load_wine().data
    saved = [saved_on_random_labels(seed, None, X, 3) for seed in range(20)]
    assert max(saved) < 20
    assert np.mean(saved) < 0


# Features of every kind


def finite(X, y=None, n_classes=C, **options):
    if y is None:
        y = np.random.default_rng(0).integers(n_classes, size=len(X))
    readouts = [READOUTS[kind] for kind in ("linear", "whitened", "averaged")]
    switcher = scored(readouts, X, y, n_classes=n_classes, **options)
    assert np.isfinite(switcher.codelengths_).all()
    assert np.isfinite(switcher.predict_log_proba(X)).all()
    assert not switcher.diverged_readouts_
    return switcher


@for_each("value", [0.0, 1.0, -7.5, 1e30, 1e-30])
def test_constant_features_say_nothing(value):
    X, y = stream(0)
    code = finite(np.full_like(X, value), y).codelength_
    assert code > N * math.log(C) - 20
    padded = finite(np.column_stack([X, np.full(N, value)]), y).codelength_
    assert padded < N * math.log(C) - 20


@for_each("scale", [1e-30, 1e-10, 1e10, 1e18])
def test_the_unit_of_the_features_does_not_matter(scale):
    X, y = stream(0)
    code, scaled = finite(X, y).codelength_, finite(X * scale, y).codelength_
    assert scaled == pytest.approx(code, rel=1e-3)


@for_each("scale", [1e-36, 1e-38, 1e-42])
def test_features_that_are_denormal_numbers_say_what_they_can(scale):
    X, y = stream(0)
    small = (X * scale).astype(np.float32)  # some digits of it
    larger = small.astype(np.float64) / scale
    code = finite(larger, y).codelength_
    assert finite(small, y).codelength_ == pytest.approx(code, rel=1e-3)
    kernels = [KernelReadout(scaling=each) for each in SCALINGS]
    for readout in (*kernels, CentroidReadout(), DiscriminantReadout()):
        one, other = (scored([readout], rows, y) for rows in (small, larger))
        assert one.codelength_ == pytest.approx(other.codelength_, rel=1e-3)


@for_each("scale", [1e30, 3e38 / 50])
def test_features_near_the_end_of_the_floats_break_nothing(scale):
    X, y = stream(0)
    finite(X * scale, y)


def test_one_feature_on_a_huge_scale_silences_no_other():
    X, y = stream(0)
    X = np.column_stack([X, 1e25 * np.random.default_rng(0).normal(size=N)])
    assert finite(X, y).codelength_ < N * math.log(C) - 20


@for_each("n_rows", [1, 2, 7, 8, 9])
def test_a_stream_of_few_rows(n_rows):
    X, y = stream(0, n_rows)
    code = finite(X, y)
    np.testing.assert_allclose(code.codelengths_[:8], math.log(C), rtol=1e-12)


def test_one_feature_and_two_classes():
    X, y = stream(0, n_features=1, n_classes=2)
    assert finite(X, y, n_classes=2).codelength_ < N * math.log(2)


def test_a_thousand_classes_most_of_which_never_come():
    X, y = stream(0)
    code = finite(X, y, n_classes=1000)
    assert code.posterior_.shape == (N, 3)
    assert code.codelength_ < N * math.log(1000)


def test_classes_that_the_first_minibatches_lack_are_paid_for_when_they_come():
    X, y = stream(0)
    late = np.where(np.arange(N) < 60, y % 2, y)
    code = finite(X, late)
    assert code.predict_proba(X).shape == (N, C)
    first = np.flatnonzero(late == 2)[0]
    assert code.codelengths_[first] > math.log(C)


@for_each("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_features_have_the_code_of_dense_ones(kind):
    X, y = stream(0)
    rows = getattr(sparse, kind)(X)
    switcher = MDLReadoutSwitcher([READOUTS["linear"]], random_state=0)
    code, same = (clone(switcher).fit(given, y) for given in (X, rows))
    assert_array_equal(code.codelengths_, same.codelengths_)
    assert_array_equal(code.predict_proba(X), same.predict_proba(rows))


LABELS = {
    "text": ["a", "b", "c"],
    "objects": np.array(["c", "a", "b"], dtype=object),
    "negative": [-5, -1, 7],
    "large": [2**40, 1, 2],
    "bytes": [0, 1, 255],
}


@for_each("kind", LABELS)
def test_the_names_of_the_classes_do_not_matter(kind):
    X, y = stream(0)
    names = np.asarray(LABELS[kind])
    order = np.argsort(names)
    options = {"batch_size": 8, "random_state": 0, "device": "cpu"}
    readouts = [READOUTS["linear"], READOUTS["averaged"]]
    named = MDLReadoutSwitcher(readouts, **options).fit(X, names[order][y])
    plain = MDLReadoutSwitcher(readouts, **options).fit(X, y)
    np.testing.assert_array_equal(named.codelengths_, plain.codelengths_)
    np.testing.assert_array_equal(named.predict(X), names[order][plain.predict(X)])


def test_two_classes_may_be_booleans():
    X, y = stream(0, n_classes=2)
    code = MDLReadoutSwitcher([READOUTS["linear"]], random_state=0).fit(X, y == 1)
    assert code.predict(X).dtype == bool


def test_an_unknown_class_is_refused_and_changes_nothing():
    X, y = stream(0)
    switcher = scored([READOUTS["linear"]], X[:50], y[:50])
    before = switcher.codelengths_.copy()
    with pytest.raises(ValueError, match=r"among the classes \[0, 1, 2\], got \[3\]"):
        switcher.partial_fit(X[50:], np.where(np.arange(40) == 30, 3, y[50:]))
    np.testing.assert_array_equal(switcher.codelengths_, before)
    switcher.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(
        switcher.codelengths_, scored([READOUTS["linear"]], X, y).codelengths_
    )
