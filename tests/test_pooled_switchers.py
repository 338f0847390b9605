"""Pools in switchers: the numbers of their definition, and of another pool later."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    MultiOutputSwitcher,
    RefitReadout,
    forward,
)
from sklearn_mdl.cli import main
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import LinearReadoutRegressor, MLPReadoutRegressor
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import FixedShare, Race

READOUTS = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    LinearReadout(lr=0.003, n_replay_streams=2),
    LinearReadout(lr=0.03, n_replay_streams=2, scaling="whiten"),
    MLPReadout((8,), lr=0.01, n_replay_streams=2, ema_step_size=0.1),
]
REGRESSORS = [
    LinearReadoutRegressor(lr=0.03, n_replay_streams=2),
    LinearReadoutRegressor(lr=0.003, n_replay_streams=2),
    MLPReadoutRegressor((8,), lr=0.01, n_replay_streams=2),
]


def rows(kind, n=200):
    X, y = (load_breast_cancer if kind == "classes" else load_diabetes)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return X[order], y[order]


def pooled(kind="classes", **options):
    options = {"pooling": LogLinearPool(), "random_state": 0, "device": "cpu"} | options
    if kind == "classes":
        return MDLReadoutSwitcher(READOUTS, **options)
    prior = {"prior_location": 150, "prior_scale": 75}
    return MDLReadoutSwitcherRegressor(REGRESSORS, **(prior | options))


def test_the_codelength_is_that_of_its_definition():
    """With two classes losses tell all probabilities: a witness from public parts."""
    X, y = rows("classes")
    switcher = pooled().fit(X, y)
    losses = switcher.readout_losses_
    groups = [[0, 1], [2], [3]]
    right = np.stack(
        [-forward(FixedShare(), losses[:, group]).codelengths for group in groups],
        1,
    )
    wrong = np.log(-np.expm1(right))
    log_proba = np.where(y[:, None, None] == [0, 1], right[..., None], wrong[..., None])
    trace = LogLinearPool()(log_proba, y)
    assert_allclose(switcher.pool_weights_, trace.weights, atol=1e-8)
    switching = forward(None, losses).codelengths
    assert_array_equal(switcher.switching_codelengths_, switching)
    both = forward(FixedShare(), np.stack([switching, trace.codelengths], 1))
    assert_allclose(switcher.codelengths_, both.codelengths, atol=1e-8)
    assert_allclose(switcher.pool_posterior_, both.posterior, atol=1e-8)
    assert switcher.pool_kinds_ == [
        "linear, standard",
        "linear, whiten",
        "mlp 1x8, standard, averaged",
    ]


class Certain(ClassifierMixin, BaseEstimator):
    """Certain of one class."""

    def __init__(self, sure=0):
        self.sure = sure

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return np.tile(np.eye(2)[self.sure] * (1 - 2e-12) + 1e-12, (len(X), 1))


@pytest.mark.filterwarnings("ignore:y should be in random order")
@pytest.mark.parametrize("stream", ["in turn", "halves", "random", "real"])
def test_a_pool_costs_half_a_logarithm_at_most(stream):
    X, y = rows("classes", 300)
    labels = {
        "in turn": np.arange(300) % 2,
        "halves": np.arange(300) // 150,
        "random": np.random.default_rng(0).integers(2, size=300),
        "real": y,
    }[stream]
    readouts = [READOUTS[0], *(RefitReadout(Certain(k), schedule=2) for k in (0, 1))]
    switcher = MDLReadoutSwitcher(
        readouts, pooling=[0, 1, 2], random_state=0, device="cpu"
    ).fit(X, labels)
    bound = 0.5 * math.log(math.pi * (300 + 0.5))
    assert switcher.codelength_ <= switcher.switching_codelength_ + bound


def test_pools_are_where_the_readouts_are_ours():
    X, y = rows("classes", 40)
    default = MDLReadoutSwitcher(random_state=0, device="cpu")
    mine = MDLReadoutSwitcher(READOUTS, random_state=0, device="cpu").fit(X, y)
    assert mine.pool_kinds_ == []
    assert mine.pool_weights_.shape == (40, 0)
    assert_array_equal(mine.pool_posterior_, np.tile([1.0, 0.0], (40, 1)))
    assert_array_equal(mine.switching_codelengths_, mine.codelengths_)
    assert len(default.fit(X, y).pool_kinds_) > 8
    assert default.set_params(pooling=None).fit(X, y).pool_kinds_ == []
    assert MDLReadoutSwitcher.from_preset("imagenet-scratch").pooling is None


@pytest.mark.parametrize(
    ("groups", "weights", "names"),
    [
        (["a", "b", "a", "b"], None, ["a", "b"]),
        ([0, 0, 0, 0], None, []),
        ([0, 1, 2, 2], [1, 0, 1, 1], [0, 2]),
        ([0, 1, 1, 1], [1, 0, 0, 0], []),
    ],
)
def test_groups_are_those_given_that_have_weight(groups, weights, names):
    X, y = rows("classes", 40)
    for pooling in (groups, LogLinearPool(groups), np.array(groups)):
        switcher = pooled(pooling=pooling, readout_weights=weights).fit(X, y)
        assert switcher.pool_kinds_ == names


@pytest.mark.parametrize(
    ("pooling", "words"),
    [
        ([0, 1], r"of all 4 readouts, got .*; pass a name for each, or LogLinearPool"),
        (["a", "a", np.nan, "b"], "^Kinds in pooling must be names without NaN, got "),
        (LogLinearPool(prior_precision=-1), "`prior_precision` must be a positive"),
        ("all", "pooling"),
    ],
)
def test_bad_pools_are_refused_in_a_sentence(pooling, words):
    with pytest.raises(ValueError, match=words):
        pooled(pooling=pooling).fit(*rows("classes", 40))


def test_parameters_of_a_pool_are_searched_like_any_other():
    assert pooled().set_params(pooling__floor=0.01).pooling.floor == 0.01
    with pytest.raises(
        ValueError, match=r"for example, pass pooling=LogLinearPool\(\)$"
    ):
        pooled(pooling="auto").set_params(pooling__floor=0.01)


# Mixtures that are kept for another pool


def kept(kind, place, **options):
    """A switcher that keeps mixtures, and races, so that groups fall asleep."""
    race = Race(tolerance=0.0, slack=0.0, min_readouts=2, min_samples=32)
    readouts = {"classes": READOUTS, "reals": REGRESSORS}[kind]
    plain = {"race": race, "pooling": list(range(len(readouts)))}
    return pooled(kind, **plain | {"store": (place, "mixtures")} | options)


@pytest.mark.parametrize("kind", ["classes", "reals"])
def test_the_same_pool_of_what_was_kept_has_the_bits_of_the_run(kind, tmp_path):
    X, y = rows(kind)
    whole = kept(kind, tmp_path).fit(X, y)
    assert_array_equal(
        whole.codelengths_,
        kept(kind, "memory", store="memory").fit(X, y).codelengths_,
    )
    known = {"classes": [0, 1]} if kind == "classes" else {}
    parts = kept(kind, "memory").partial_fit(X[:50], y[:50], **known)
    parts.heldout_codelengths(X[50:], y[50:])
    parts.save(tmp_path / "a.safetensors")
    parts = type(parts).load(tmp_path / "a.safetensors", store=tmp_path)
    parts.partial_fit(X[50:], y[50:])
    stored = load_losses(whole.store_ / "losses.npy")
    assert isinstance(stored.mixtures.mixtures, np.memmap)
    assert stored.mixtures.names == [str(name) for name in whole.pool_kinds_]
    assert_array_equal(
        np.isnan(stored.mixtures.mixtures[-1]).all(1), whole.pool_weights_[-1] == 0
    )
    for found in (whole, parts, stored):
        trace = found.repool(None, LogLinearPool())
        assert_array_equal(trace.codelengths, whole.codelengths_)
        assert_array_equal(trace.pool_weights, whole.pool_weights_)
        assert_array_equal(trace.pool_posterior, whole.pool_posterior_)
        assert trace.codelength == trace.codelengths.sum()


def test_another_pool_of_what_was_kept_is_that_of_another_run(tmp_path):
    X, y = rows("classes")
    another = LogLinearPool(prior_precision=3, floor=0.01)
    race = {"race": None}
    found = kept("classes", tmp_path, **race).fit(X, y)
    again = found.repool("bayes", another)
    run = kept("classes", "memory", **race, pooling=another.set_params(kinds=range(4)))
    run = run.set_params(switching="bayes", store="memory").fit(X, y)
    assert_array_equal(again.codelengths, run.codelengths_)
    assert_array_equal(again.switching_codelengths, run.switching_codelengths_)
    # Some groups, by a pool of the array alone.
    some = found.repool(None, LogLinearPool(), kinds=[3, 1])
    mixtures = np.load(found.store_ / "mixtures.npy", mmap_mode="r")
    labels = np.load(found.store_ / "labels.npy")
    trace = LogLinearPool()(np.log(mixtures[:, [3, 1]]), labels)
    assert_allclose(some.pool_codelengths, trace.codelengths, rtol=1e-9)
    assert_array_equal(labels, y)


def test_a_killed_run_leaves_mixtures_that_another_goes_on_with(tmp_path, monkeypatch):
    X, y = rows("classes")
    whole = kept("classes", "memory").fit(X, y)
    monkeypatch.setattr("sklearn_mdl._core.stream.checkpoint.SECONDS", 0.0)
    monkeypatch.setattr("sklearn_mdl._core.stream.checkpoint.SHARE", np.inf)
    close, calls = type(whole._run).close_segment, iter(range(99))

    def killed(self, *args):
        if next(calls) == 2:
            raise KeyboardInterrupt
        close(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(type(whole._run), "close_segment", killed)
        with pytest.raises(KeyboardInterrupt):
            kept("classes", "memory", checkpoint=tmp_path).fit(X, y)
    (folder,) = tmp_path.iterdir()
    left = load_losses(folder / "losses.npy")
    n = len(left.losses)
    assert_array_equal(
        left.repool(None, LogLinearPool()).codelengths, whole.codelengths_[:n]
    )
    again = kept("classes", "memory", checkpoint=tmp_path).fit(X, y)
    assert again.store_ == folder
    trace = load_losses(folder / "losses.npy").repool(None, LogLinearPool())
    assert_array_equal(trace.codelengths, whole.codelengths_)


@pytest.mark.parametrize(
    ("pooling", "options", "error", "words"),
    [
        (LogLinearPool(), {"kinds": [0]}, ValueError, "must be two or more of"),
        (LogLinearPool(), {"kinds": [0, 9]}, ValueError, "must be two or more of"),
        (None, {}, TypeError, "must be a LogLinearPool, got None"),
    ],
)
def test_other_pools_that_cannot_be_are_refused(pooling, options, error, words):
    found = kept("classes", "memory").fit(*rows("classes", 40))
    with pytest.raises(error, match=words):
        found.repool(None, pooling, **options)


def test_what_was_not_kept_is_refused(tmp_path):
    X, y = rows("classes", 40)
    for found in (
        pooled().fit(X, y),
        kept("classes", tmp_path, pooling=None).fit(X, y),
    ):
        with pytest.raises(ValueError, match="fit with pooling=LogLinearPool"):
            found.repool(None, LogLinearPool())
    checkpoint = {"checkpoint": tmp_path / "run"}
    pooled(**checkpoint).fit(X, y)
    with pytest.raises(ValueError, match=r"must contain labels .* from store"):
        pooled(**checkpoint, store=("memory", "mixtures")).fit(X, y)


def test_each_output_keeps_mixtures_of_its_own(tmp_path, capsys):
    X, y = rows("classes", 64)
    both = MultiOutputSwitcher(kept("classes", tmp_path)).fit(
        X, np.stack([y, 1 - y], 1)
    )
    for j, one in enumerate(both.estimators_):
        assert one.store_.parent == tmp_path / f"output-{j}"
        path = one.store_ / "losses.npy"
        stored = load_losses(path)
        assert_array_equal(stored.mixtures.labels, [y, 1 - y][j])
        assert main(["remix", str(path)]) == 0
        assert (
            f"learned-share, pooled {one.codelength_:12.1f} nats"
            in capsys.readouterr().out
        )
