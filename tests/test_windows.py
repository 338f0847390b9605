"""Readouts that forget: kernels and neighbours with windows, and the list for drift."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits

from benchmarks._streams import drifting
from sklearn_mdl import (
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.kernels.ridge import ForwardRidge
from sklearn_mdl.encoders import TimmEncoder
from sklearn_mdl.metrics import gaussian_codelengths
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    DummyReadoutRegressor,
    FrozenReadout,
    KernelReadoutRegressor,
    ViewReadout,
    factor_bytes,
)
from sklearn_mdl.readouts._base import last_restart
from sklearn_mdl.readouts._lists import DefaultGrid, named_readouts

WINDOW = 64
N = 190
KERNELS = [
    KernelReadout(),  # scaled by statistics of the rows that it knows
    KernelReadout(scaling="unit", alpha=0.3),  # none
    KernelReadout("rbf", width=0.3, scaling="unit"),  # the median distance alone
    KernelReadout("rbf", scaling="within-class"),  # these, by their labels
    DiscriminantReadout(),
    CentroidReadout(),
]


def digits(n=N, change=None):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[order], y[order]
    return X, y if change is None else np.where(np.arange(n) < change, y, (y + 5) % 10)


def with_window(readout, window=WINDOW):
    return clone(readout).set_params(window=window)


def fitted(readout, X, y, cut=None):
    readout = clone(readout)
    named = {"classes": range(10)} if is_classifier(readout) else {}
    for start in range(0, len(X), cut or len(X)):
        rows = slice(start, start + (cut or len(X)))
        readout.partial_fit(X[rows], y[rows], **named)
    return readout


def scores(readout, X):
    """Predictions of a kernel readout before they are calibrated."""
    run = readout._run
    with run.threads.arithmetic():
        x = run.rows.scaled(X[:20].astype(np.float32))
        return run.learners[0].predict_others(x[0])[0].numpy()


@pytest.mark.parametrize("readout", KERNELS, ids=str)
@pytest.mark.parametrize(("n_rows", "start"), [(63, 0), (64, 32), (101, 64), (N, 128)])
def test_a_full_window_forgets_its_older_half(readout, n_rows, start):
    X, y = digits()
    own = fitted(with_window(readout), X[:n_rows], y[:n_rows], cut=37)
    fresh = fitted(readout, X[start:n_rows], y[start:n_rows])
    assert_array_equal(scores(own, X), scores(fresh, X))


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"max_exact": 64},
        {"window": 150},
        {"restart": 40},
        {"window": 64, "restart": 128},
        {"window": 1000},
    ],
    ids=str,
)
def test_the_size_of_a_factor_is_that_of_the_most_rows_that_it_holds(
    memory, monkeypatch
):
    held = []

    def close(ridge, *block, own=ForwardRidge.close):
        own(ridge, *block)
        held.append(ridge.n_rows)

    monkeypatch.setattr(ForwardRidge, "close", close)
    X, y = digits(320)
    readout = KernelReadout(**memory)
    fitted(readout, X, y)
    for alike in (readout, ViewReadout(readout, slice(9))):
        assert factor_bytes(alike, len(X)) == 4 * max(held) ** 2
    assert factor_bytes(LinearReadout(), len(X)) == 0


def test_a_window_costs_nothing_before_it_is_full():
    X, y = digits()
    own, whole = (fitted(one, X, y) for one in (with_window(KERNELS[0]), KERNELS[0]))
    same = own.codelengths_ == whole.codelengths_
    assert same[:WINDOW].all()
    assert not same[WINDOW + 1 :].any()


def test_a_window_is_calibrated_on_the_rows_that_it_keeps():
    """From the factors before, by the scores of a fresh factor of these rows."""
    X, y = digits(64)
    own = fitted(with_window(KERNELS[1]), X, y)
    before = fitted(KERNELS[1], X, y)._run.learners[0].calibration
    fresh = fitted(KERNELS[1], X[32:], y[32:])._run.learners[0]
    expected = ForwardSoftmax(1, 10)
    expected.factors = before.factors.copy()
    ridge = fresh.groups[0].ridge
    targets = fresh.targets(torch.tensor(y[32:]))
    means, variances = ridge.predicted(targets, torch.arange(32))
    ratios = (variances[0] / ridge.alphas).numpy()
    for row, label, ratio in zip(means[0].numpy(), y[32:], ratios, strict=True):
        expected.observe(row[None, None], np.array([label]), ratio[None, None])
    found = own._run.learners[0].calibration
    for name in ("factors", "curvature", "counts"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


BEGINNING = [
    (KERNELS[0], 32, 32),
    (KERNELS[1], 57, 32),  # rounded to whole blocks
    (KERNELS[1], 9, 8),
    (KERNELS[2], 31, 16),
    (KERNELS[3], 31, 16),
    (KERNELS[4], 32, 32),
    (KERNELS[5], 9, 8),
    (KernelReadoutRegressor(standardize_targets=False), 32, 32),
    (DummyReadout(), 21, 21),
    (DummyReadout("decayed"), 21, 21),
    (DummyReadout("transition"), 21, 21),
    (DummyReadoutRegressor(), 21, 21),
    (DummyReadoutRegressor("last"), 21, 21),
]


@pytest.mark.parametrize(("readout", "restart", "period"), BEGINNING, ids=str)
def test_a_readout_begun_anew_is_one_that_begins_there(readout, restart, period):
    X, y = digits()
    restarted = fitted(clone(readout).set_params(restart=restart), X, y, cut=37)
    starts = [0, *range(period, N, 2 * period), N]
    parts = [slice(*pair) for pair in pairwise(starts)]
    fresh = [fitted(readout, X[part], y[part]).codelengths_ for part in parts]
    assert_array_equal(restarted.codelengths_, np.concatenate(fresh))


def test_each_multiple_of_the_shortest_period_begins_one_readout():
    periods = [16, 32, 64, 128]
    begun = [
        [period for period in periods if last_restart(t, period) == t]
        for t in range(16, 256, 16)
    ]
    assert [len(some) for some in begun] == [1] * len(begun)


def test_neighbours_begun_anew_see_no_row_before():
    X, y = digits(96)
    plain = {"scaling": None, "calibration": False}
    own = fitted(KNeighborsReadout(5, restart=64, **plain), X, y)
    last = fitted(KNeighborsReadout(5, **plain), X[64:], y[64:])
    assert_allclose(own.predict_proba(X), last.predict_proba(X), rtol=1e-4)
    just = fitted(own, X[:64], y[:64]).predict_proba(X)
    assert_allclose(just, np.full_like(just, 0.1))


def test_regressors_measure_targets_as_before_a_restart():
    """Until there are rows to measure them by, so that another scale is no accident."""
    X, y = digits(68)
    costs = [
        fitted(KernelReadoutRegressor(restart=32), X, scale * y).codelengths_[32:]
        for scale in (1.0, 1000.0)
    ]
    assert_allclose(costs[1] - np.log(1000), costs[0], rtol=1e-6)


def test_neighbours_are_of_the_window_alone():
    X, y = digits(96)
    plain = {"scaling": None, "calibration": False}
    own = fitted(KNeighborsReadout(5, window=32, **plain), X, y)
    last = fitted(KNeighborsReadout(5, **plain), X[64:], y[64:])
    assert_allclose(own.predict_proba(X), last.predict_proba(X), rtol=1e-4)


@pytest.mark.parametrize("size", [7, 40])
def test_neighbours_of_a_window_are_the_same_by_any_blocks(size, monkeypatch):
    X, y = digits()
    readout = KNeighborsReadout(5, window=50)
    whole = fitted(readout, X, y).codelengths_
    monkeypatch.setattr("sklearn_mdl.readouts._neighbors.BLOCK", size)
    assert_allclose(fitted(readout, X, y).codelengths_, whole, rtol=1e-3)


def test_no_state_grows_with_a_window():
    X, y = digits(320)
    sizes = []
    readout = fitted(KernelReadout(window=64), X[:130], y[:130])
    for rows in (slice(130, 161), slice(161, 320)):
        readout.partial_fit(X[rows], y[rows])
        (learner,) = readout._run.learners
        of_run = {"stream", "rows"}
        state = {name: v for name, v in vars(learner).items() if name not in of_run}
        sizes.append(len(pickle.dumps(state)))
    assert sizes[1] < 1.5 * sizes[0]


FORGETFUL = [
    with_window(KERNELS[0]),
    with_window(KERNELS[2], 128),
    with_window(KERNELS[3]),
    with_window(KERNELS[4]),
    clone(KERNELS[5]).set_params(restart=32),
    clone(KERNELS[0]).set_params(restart=32),
    clone(KERNELS[1]).set_params(restart=16, window=64),
    KNeighborsReadout(5, window=40),
    KNeighborsReadout(5, restart=40),
    DummyReadout("transition", restart=32),
]
FORGETFUL_REGRESSORS = [
    KernelReadoutRegressor(window=64),
    KernelReadoutRegressor(restart=32),
    KernelReadoutRegressor("rbf", scaling="unit", restart=32),
    DummyReadoutRegressor("decayed", restart=16),
    DummyReadoutRegressor("last"),
]


@pytest.mark.parametrize("n_rows", [128])
def test_what_forgets_decodes_and_goes_on_from_a_file(tmp_path, n_rows):
    X, y = digits(150)
    switcher = MDLReadoutSwitcher(FORGETFUL, random_state=0)
    whole, begun = (fitted(switcher, X[:n], y[:n]) for n in (150, n_rows))
    begun.save(tmp_path / "stream.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "stream.safetensors")
    for rows in np.split(np.arange(n_rows, 150), range(1, 12)):
        found.partial_fit(X[rows], y[rows])
    assert_array_equal(found.readout_losses_, whole.readout_losses_)
    assert_array_equal(found.predict_proba(X[:9]), whole.predict_proba(X[:9]))
    message = encode_labels(switcher, X[:n_rows], y[:n_rows])
    assert_array_equal(decode_labels(switcher, X[:n_rows], message), y[:n_rows])


@pytest.mark.parametrize("n_rows", [96])
def test_regressors_that_forget_go_on_from_a_file(tmp_path, n_rows):
    X, y = digits(150)
    switcher = MDLReadoutSwitcherRegressor(FORGETFUL_REGRESSORS, random_state=0)
    whole, begun = (fitted(switcher, X[:n], y[:n]) for n in (150, n_rows))
    begun.save(tmp_path / "stream.safetensors")
    found = MDLReadoutSwitcherRegressor.load(tmp_path / "stream.safetensors")
    for rows in np.split(np.arange(n_rows, 150), range(1, 12)):
        found.partial_fit(X[rows], y[rows])
    assert_array_equal(found.readout_losses_, whole.readout_losses_)
    assert_array_equal(found.predict(X[:9]), whole.predict(X[:9]))


def test_the_mean_of_labels_is_the_reference():
    y = np.random.default_rng(0).normal(3, 2, size=100)
    own = DummyReadoutRegressor(prior_scale=2.0).partial_fit(y[:, None], y)
    expected = gaussian_codelengths(y, n_first=2, scale=2.0)
    assert_allclose(own.codelengths_, expected, rtol=1e-9)


def test_a_random_walk_costs_what_its_steps_do():
    """Steps of mean zero and unknown variance under Jeffreys' prior: Student-t."""
    y = np.cumsum(np.random.default_rng(0).normal(size=60))
    own = DummyReadoutRegressor("last").partial_fit(y[:, None], y)
    steps = np.diff(y)
    scales = np.sqrt(np.cumsum(steps**2) / np.arange(1, 60))
    expected = -stats.t.logpdf(steps[1:], np.arange(1, 59), 0, scales[:-1])
    assert_allclose(own.codelengths_[2:], expected, rtol=1e-9)
    assert_allclose(own.codelengths_[1], -stats.cauchy.logpdf(steps[0]))


def test_old_labels_fade_from_a_mean():
    y = np.r_[np.full(50, 10.0), np.random.default_rng(0).normal(size=50)]
    own = DummyReadoutRegressor("decayed", half_life=5).partial_fit(y[:, None], y)
    weights = 0.5 ** (np.arange(99, -1, -1) / 5)
    mean = np.average(y, weights=weights)
    assert_allclose(own.predict(y[:1, None]), mean, rtol=1e-9)


# Streams that drift


def forgetting(**options):
    """Readouts of the list for drift, fewer and with shorter windows."""
    readouts = [
        *KERNELS[1:3],
        with_window(KERNELS[1]),
        clone(KERNELS[1]).set_params(restart=16),
        DummyReadout("transition"),
    ]
    return MDLReadoutSwitcher(DefaultGrid(readouts), random_state=0, **options)


def test_what_forgets_adapts_and_is_not_retired():
    X, y = digits(300, change=150)
    forgets = fitted(forgetting(), X, y)
    remembers = fitted(MDLReadoutSwitcher(KERNELS[1:2], random_state=0), X, y)
    assert forgets.codelength_ < 0.95 * remembers.codelength_
    assert (forgets.retired_at_ == -1).all()
    assert forgets.posterior_[-1, 2] > 0.9


def test_the_list_for_streams_follows_changes_and_never_replays():
    switcher = MDLReadoutSwitcher("stream", random_state=0)
    settings = switcher.resolved(2, 4)
    assert settings.mixing.race is None
    assert settings.mixing.pool.half_life is not None
    assert settings.first_batch_size == settings.batch_size == 8
    nets = [readout for readout in settings.readouts if readout.learns_once]
    assert {readout.architecture for readout in nets} == {"linear", "mlp 1x128"}
    assert not any(readout.learns_once for readout in named_readouts(None, 2, 4))

    rng = np.random.default_rng(0)  # four classes that are renamed halfway
    y, changes = rng.integers(4, size=1200), np.arange(1200) >= 600
    X = np.eye(4)[y, :2] + rng.normal(scale=0.3, size=(1200, 2))
    y = np.where(changes, (y + 1) % 4, y)
    stream, default = (
        fitted(MDLReadoutSwitcher(name, random_state=0), X, y)
        for name in ("stream", None)
    )
    assert (stream.retired_at_ == -1).all()
    assert stream.codelengths_[600:].sum() < 0.9 * default.codelengths_[600:].sum()


def test_random_labels_are_not_compressed():
    X, _ = digits(300)
    y = np.random.default_rng(1).integers(10, size=300)
    # No code saves 5 nats with a probability above exp(-5).
    assert fitted(forgetting(), X, y).codelength_ > 300 * np.log(10) - 5


@pytest.mark.parametrize(
    ("readout", "forgets"),
    [
        (KernelReadout(), False),
        (KernelReadout(window=64), True),
        (DummyReadout("decayed", restart=9), True),
        (LinearReadout(), False),
        (LinearReadout(n_replay_streams=0), True),
    ],
    ids=str,
)
def test_what_wraps_a_readout_forgets_if_the_readout_does(readout, forgets):
    frozen = FrozenReadout(TimmEncoder("a"), readout)
    for one in (readout, ViewReadout(readout, slice(9)), frozen):
        assert one.forgets is forgets


def test_lists_of_ours_are_raced_unless_one_forgets():
    X, y = digits(20)
    readouts = [KernelReadout(scaling="unit", alpha=alpha) for alpha in (1, 2, 3, 4)]
    others = MDLReadoutSwitcher(DefaultGrid(readouts), random_state=0)
    runs = [fitted(one, X, y)._run for one in (forgetting(), others)]
    assert [[event.due(0) for event in run.events] for run in runs] == [[], [1024]]


def test_labellings_share_the_factors_of_readouts_that_forget_nothing():
    X, y = digits(100)
    kernels = KERNELS[:2]
    options = {"shuffle": True, "random_state": 0}
    both = MDLReadoutSwitcher([*kernels, with_window(kernels[0])], **options)
    alone = MDLReadoutSwitcher(kernels, **options)
    found, expected = (one.fit(X, y).null_codelengths(2) for one in (both, alone))
    assert_array_equal(found, expected)
    for forgetful in ({"window": 64}, {"restart": 64}):
        readout = clone(kernels[0]).set_params(**forgetful).fit(X, y)
        with pytest.raises(ValueError, match="needs a readout that keeps all rows"):
            readout.predict_relabelled(y[None], X)


@for_each("kind", ["abrupt", "partial", "gradual", "recurring", "none"])
def test_streams_are_made_by_their_rules(kind):
    """The benchmark's: a permutation of labels holds in every segment, or nearly."""
    labels = np.random.default_rng(0).integers(6, size=2000)
    X, y, changes = drifting(labels[:, None], labels, kind, 1700, 300, 3)
    ends = [0, *changes, len(y)]
    assert np.diff(ends).min() >= 300
    assert len(changes) == (0 if kind == "none" else 3)
    parts = [slice(*pair) for pair in pairwise(ends)]
    pairs = [np.unique(np.c_[X[p, 0], y[p]], axis=0, return_counts=True) for p in parts]
    meanings = [found[counts > 25] for found, counts in pairs]
    if kind != "gradual":
        assert [len(meaning) for meaning in meanings] == [6] * len(parts)
        assert (meanings[0][:, 0] == meanings[0][:, 1]).all()
    if kind == "recurring":
        assert_array_equal(meanings[::2][0], meanings[::2][1])
        assert_array_equal(meanings[1], meanings[3])
    if kind == "partial":
        moved = [np.sum(a[:, 1] != b[:, 1]) for a, b in pairwise(meanings)]
        assert moved == [3, 3, 3]
