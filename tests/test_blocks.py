"""Laws of readouts of some columns: a view is a table of its own; codes of views."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from public_names import PATHS, public
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    PosteriorDisplay,
    RefitReadout,
    forward,
)
from sklearn_mdl.encoders import TimmEncoder, TorchEncoder
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    DummyReadoutRegressor,
    FrozenReadout,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    Readout,
    ViewReadout,
    ViewReadoutRegressor,
    state_bytes,
    view_readouts,
)
from sklearn_mdl.switcher._views import view_trace

FAST = {"lr": 0.02, "n_replay_streams": 1}
CLASSIFIERS = [
    LinearReadout(**FAST),
    MLPReadout((5,), **FAST, scaling="whiten"),
    MLPReadout((5,), **FAST, ema_step_size=0.1),
    KNeighborsReadout(5, metric="cosine"),
    KernelReadout(),
    KernelReadout("rbf", scaling="centered-unit", max_exact=64),
    KernelReadout("rbf", alpha=0.3, scaling="unit"),
    KernelReadout("rbf", scaling="within-class"),
    DiscriminantReadout(),
    CentroidReadout(),
    IncrementalReadout(GaussianNB(), scaling="whiten"),
    RefitReadout(LogisticRegression(), schedule=1.5),
    DummyReadout(),
]
REGRESSORS = [
    LinearReadoutRegressor(**FAST),
    MLPReadoutRegressor((5,), **FAST, scaling="whiten"),
    KernelReadoutRegressor(),
    KernelReadoutRegressor("rbf", likelihood="gaussian", max_exact=64),
    DummyReadoutRegressor(),
]
LISTS = {"classes": CLASSIFIERS, "reals": REGRESSORS}
# Readouts of images choose what they look at; blocks are none inside each other.
OTHERS = {"ViewReadout", "ViewReadoutRegressor", "FineTunedReadout", "FrozenReadout"}
OTHERS |= {"ScratchReadout"}
BLOCKS = {"early": slice(0, 3), "late": slice(4, 10), "odd": [9, 1, 5, 7]}
B = len(BLOCKS)


def rows(kind):
    X, y = (load_breast_cancer if kind == "classes" else load_diabetes)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:60]
    return X[order, :10], y[order]


def fitted(kind, readouts, X=None, groups=None, **options):
    given, y = rows(kind)
    one = MDLReadoutSwitcher if kind == "classes" else MDLReadoutSwitcherRegressor
    options = {"random_state": 0, "device": "cpu", **options}
    return one(readouts, **options).fit(given if X is None else X, y, groups=groups)


def columns_of(switcher, name):
    return [k for k, readout in enumerate(switcher.readouts_) if readout.view == name]


def test_every_kind_of_readout_is_in_the_lists():
    readouts = {n for n in PATHS if n.rpartition("Readout")[1] and n[0].isupper()}
    kinds = {n for n in readouts if issubclass(public(n), Readout)}
    assert kinds - OTHERS == {type(r).__name__ for r in CLASSIFIERS + REGRESSORS}


@pytest.mark.quick("alone-reals", "in groups-classes")
@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    ("options", "groups"),
    [({"batch_size": (8, 24)}, None), ({}, np.arange(60) // 2)],
    ids=["alone", "in groups"],
)
def test_a_block_costs_bitwise_what_its_columns_cost_alone(kind, options, groups):
    """Beside other blocks, and beside readouts of all columns."""
    X, _ = rows(kind)
    own = LISTS[kind]
    blocks = {name: BLOCKS[name] for name in ("early", "odd")}
    given = [*view_readouts(blocks, own), *map(clone, own)]
    found = fitted(kind, given, groups=groups, **options)
    assert found.view_names_ == [*blocks, None]
    for name, columns in {**blocks, None: slice(None)}.items():
        alone = fitted(kind, own, X[:, columns], groups, **options)
        mine = columns_of(found, name)
        assert_array_equal(found.readout_losses_[:, mine], alone.readout_losses_)
        assert len(mine) == len(own)
    # A block's readouts share what they would share on a table of their own.
    assert len(found._run.learners) == 3 * len(alone._run.learners)


def test_a_block_alone_is_a_classifier_of_its_columns():
    X, y = rows("classes")
    for readout in CLASSIFIERS:
        whole = ViewReadout(readout, slice(2, 6), random_state=0).fit(X[:50], y[:50])
        alone = clone(readout)
        if alone.random_state is None:
            alone.set_params(random_state=0)
        alone.fit(X[:50, 2:6], y[:50])
        assert_array_equal(whole.codelengths_, alone.codelengths_)
        found = whole.predict_proba(X[50:])
        assert_array_equal(found, alone.predict_proba(X[50:, 2:6]))


def test_lists_by_name_are_made_for_each_block_raced_pooled_and_saved(tmp_path):
    X, y = rows("classes")
    found = MDLReadoutSwitcher(view_readouts(BLOCKS, None), random_state=0)
    found.fit(X[:20], y[:20])
    for name, columns in BLOCKS.items():
        alone = MDLReadoutSwitcher(random_state=0).fit(X[:20, columns], y[:20])
        mine = columns_of(found, name)
        inner = [str(found.readouts_[k].readout.get_params()) for k in mine]
        assert inner == [str(r.get_params()) for r in alone.readouts_]
        assert_array_equal(found.readout_losses_[:, mine], alone.readout_losses_)
    assert found._run.events  # a race
    assert len(found.pool_kinds_) >= B
    reals = fitted("reals", view_readouts(BLOCKS, "closed-form"))
    assert {type(r) for r in reals.readouts_} == {ViewReadoutRegressor}
    for switcher, labels in ((found, y), (reals, rows("reals")[1])):
        switcher.save(path := tmp_path / f"{type(switcher).__name__}.safetensors")
        loaded = type(switcher).load(path).partial_fit(X[20:40], labels[20:40])
        switcher.partial_fit(X[20:40], labels[20:40])
        assert_array_equal(loaded.codelengths_, switcher.codelengths_)


# The prior, and what it promises


def test_blocks_have_equal_weight_whatever_is_in_them():
    X, y = rows("classes")
    some = [LinearReadout(), LinearReadout(lr=0.1), KNeighborsReadout()]
    given = [
        *view_readouts({"a": slice(0, 2)}, some),
        *view_readouts({"b": slice(2, 4)}, some[2]),
    ]
    for weights, wanted in [
        (None, [1 / 6, 1 / 6, 1 / 6, 1 / 2]),
        ("architecture", [1 / 8, 1 / 8, 1 / 4, 1 / 2]),
        ([1, 2, 3, 4], [1, 2, 3, 4]),
    ]:
        found = MDLReadoutSwitcher(given, readout_weights=weights).fit(X[:40], y[:40])
        assert_allclose(found.readout_weights_, wanted)
    alone = MDLReadoutSwitcher(view_readouts({"a": slice(0, 2)}, some))
    assert alone.fit(X[:40], y[:40]).readout_weights_ is None


@pytest.mark.filterwarnings("ignore:The best readout should lie")
def test_bayes_over_all_is_bayes_over_blocks():
    """So that it costs at most log B more than the best block's own mixture."""
    found = fitted("classes", view_readouts(BLOCKS, CLASSIFIERS[:5]), switching="bayes")
    losses = found.readout_losses_
    own = [
        forward("bayes", losses[:, columns_of(found, name)]).codelength
        for name in BLOCKS
    ]
    wanted = math.log(B) - logsumexp(-np.array(own))
    assert found.codelength_ == pytest.approx(wanted, rel=1e-12)
    again = found.remix_by_view("bayes")
    assert_allclose(again.view_codelengths, own, rtol=1e-12)
    assert again.codelength == pytest.approx(wanted, rel=1e-12)
    assert_allclose(again.posterior, found.view_posterior_, atol=1e-12)


@pytest.mark.parametrize("switching", ["fixed-share", "learned-share", "run-length"])
def test_blocks_mixed_by_bayes_cost_log_b_more_than_the_best_switching_code(switching):
    rng = np.random.default_rng(0)
    losses, blocks = rng.exponential(size=(40, 7)), [*"aabbbbc"]
    found = view_trace(switching, losses, blocks, None, np.arange(41))
    own = [
        forward(switching, losses[:, s]) for s in (slice(2), slice(2, 6), slice(6, 7))
    ]
    own = np.array([trace.codelength for trace in own])
    assert_allclose(found.view_codelengths, own, rtol=1e-12)
    wanted = math.log(3) - logsumexp(-own)
    assert found.codelength == pytest.approx(wanted, rel=1e-12)
    assert found.codelengths.sum() == pytest.approx(wanted, rel=1e-12)
    assert own.min() - 1e-9 < found.codelength <= own.min() + math.log(3)
    assert_allclose(found.posterior[0], 1 / 3)


def test_a_fixed_share_over_all_readouts_pays_for_blocks_at_every_redraw():
    """By all sequences: log B for the first readout, and for each redraw at most."""
    n, within, blocks = 6, 2, 2
    whole, one, rate = within * blocks, within, 1 / np.arange(1, n + 1)

    def prior(sequence, size):  # of a fixed share of rate 1 / t
        p = 1 / size
        for t, (a, b) in enumerate(itertools.pairwise(sequence), 1):
            p *= (1 - rate[t]) * (a == b) + rate[t] / size
        return p

    losses = np.full((n, whole), 4.0)
    losses[np.arange(n), np.arange(n) % within] = 0.0  # two readouts that take turns
    own = forward("fixed-share", losses[:, :within]).codelength
    found = forward("fixed-share", losses).codelength
    ratios = [
        math.log(prior(s, one) / prior(s, whole))
        for s in itertools.product(range(within), repeat=n)
    ]
    assert math.log(blocks) < found - own <= max(ratios) <= n * math.log(blocks)
    trace = view_trace("fixed-share", losses, [*"aabb"], None, np.arange(n + 1))
    assert trace.codelength - own <= math.log(blocks)


def test_the_posterior_over_blocks_adds_up_and_finds_the_features():
    X, _ = rows("classes")
    X = np.c_[np.random.default_rng(1).normal(size=X.shape), X]
    blocks = {"noise": slice(0, 10), "features": slice(10, 20)}
    found = fitted("classes", view_readouts(blocks, CLASSIFIERS[:5]), X)
    assert_allclose(found.view_posterior_.sum(1), 1)
    assert_allclose(found.view_posterior_[0], 0.5)
    assert found.view_posterior_[-1, 1] > 0.8
    shown = PosteriorDisplay.from_estimator(found, by="view")
    assert shown.names == [*blocks]
    assert_array_equal(shown.posterior, found.view_posterior_)
    trace = found.remix_by_view()
    assert trace.view_names == ["noise", "features"]
    assert trace.posterior[-1, 1] > 0.99


def test_a_block_whose_readouts_retired_costs_what_the_others_cost():
    losses = np.random.default_rng(0).exponential(size=(12, 4))
    losses[8:, 2] = losses[5:, 3] = np.nan
    found = view_trace("fixed-share", losses, [*"aabb"], None, np.arange(13))
    own = forward("fixed-share", losses[:8, 2:])
    assert_allclose(found.codelengths[8:], forward("fixed-share", losses[:, :2])[1][8:])
    wanted = own.codelength + found.codelengths[8:].sum()
    assert found.view_codelengths[1] == pytest.approx(wanted)


# Names, encoders, refusals


def test_names_say_the_block_and_what_differs_inside():
    found = fitted(
        "classes",
        view_readouts(
            {"a": slice(2), "b": slice(2, 4)},
            [
                LinearReadout(lr=0.1),
                LinearReadout(lr=0.2),
            ],
        ),
    )
    assert found.readout_names_ == [
        f"{block}: linear lr={lr}" for block in "ab" for lr in (0.1, 0.2)
    ]
    assert ViewReadout(LinearReadout(), slice(2, 4)).view == "slice(2, 4, None)"


def test_encoders_say_where_their_layers_are():
    """So that the list of a network's layers is one call."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3))
    images = np.random.default_rng(0).random((4, 8, 8, 3))
    encoder = TorchEncoder(network, layer=["0", "last"], pool=["avg", "max"])
    blocks = encoder.fit(images).view_slices_
    features = encoder.transform(images)
    for name, own in encoder.transform_views(images).items():
        assert_array_equal(features[:, blocks[name]], own)
    readouts = view_readouts(blocks)
    assert [r.view for r in readouts] == ["0|avg", "0|max", "last|avg", "last|max"]


def test_permuted_labels_are_coded_by_the_kernels_of_all_blocks():
    X, _ = rows("classes")
    kernels = CLASSIFIERS[4:6]
    found = fitted("classes", view_readouts({"a": slice(3, 6)}, kernels))
    alone = fitted("classes", kernels, X[:, 3:6])
    tests = [one.permutation_test(5, shuffled=True) for one in (found, alone)]
    assert tests[0].codelength == tests[1].codelength
    assert_array_equal(*(test.null_codelengths for test in tests))


@pytest.mark.parametrize(
    ("readout", "columns", "said"),
    [
        (
            LinearReadout(),
            slice(8, 12),
            r"distinct positions from 0 to 9, .*slice\(8, 12",
        ),
        (LinearReadout(), slice(5, 5), "one or more"),
        (LinearReadout(), [1, 1], "columns must be one or more distinct positions"),
        (LinearReadout(), [3, 10], r"got \[3, 10\]"),
        (LinearReadout(), [], "one or more"),
        (LinearReadout(), ["a"], r"got \['a'\]"),
        (ViewReadout(LinearReadout(), slice(2)), slice(2), "must not be a view itself"),
        (LinearReadoutRegressor(), slice(2), "must predict classes in ViewReadout"),
        (FrozenReadout(TimmEncoder("a"), LinearReadout()), slice(2), "images"),
        (LinearReadout(lr=-1), slice(2), "'lr' parameter"),
        (3, slice(2), "'readout' parameter"),
        (GaussianNB(), slice(2), r"wrap it: IncrementalReadout\(GaussianNB\(\)\)$"),
    ],
)
def test_blocks_that_cannot_be_are_refused_in_a_sentence(readout, columns, said):
    with pytest.raises((TypeError, ValueError), match=said):
        fitted("classes", [ViewReadout(readout, columns)])


def test_a_network_on_a_view_has_the_state_of_one_on_a_table_of_the_view():
    for readout in (LinearReadout(), MLPReadout((7, 5))):
        own = state_bytes(ViewReadout(readout, [0, 3, -1]), 10, 4)
        assert own == state_bytes(readout, 3, 4) > 0


@pytest.mark.parametrize("columns", [range(3), (0, 1, 2), np.arange(3), slice(3)])
def test_columns_may_be_any_sequence_of_positions(columns):
    X, y = rows("classes")
    readout = ViewReadout(KernelReadout(), columns).fit(X, y)
    assert readout.codelength_ == KernelReadout().fit(X[:, :3], y).codelength_
    wide = [np.arange(2000) for _ in range(2)]  # NumPy shows only some of the columns
    wide[1][[500, 501]] = wide[1][[501, 500]]
    for kind in (np.asarray, pd.Index, torch.as_tensor):
        first, second = (ViewReadout(KernelReadout(), kind(c)).view for c in wide)
        assert first != second


def test_lists_that_cannot_be_are_refused_in_a_sentence():
    X, y = rows("classes")
    kinds = ViewReadout, ViewReadoutRegressor
    for kind, name in itertools.product(kinds, ("drift", None)):
        view = kind(name, slice(2))
        said = "readout must be one readout, not a list, to fit the view itself, got "
        said += f"{name!r}; pass readouts=[{view!r}] to a switcher"
        with pytest.raises(ValueError, match=re.escape(said)):
            view.fit(X, y)
    said = (
        r"must predict real numbers in .* pass KernelReadoutRegressor\(\), for example$"
    )
    with pytest.raises(TypeError, match=said):
        ViewReadoutRegressor(LogisticRegression(), slice(2)).fit(X, y)
    with pytest.raises(TypeError, match="must use all features of the encoder"):
        FrozenReadout(TimmEncoder("a"), ViewReadout(KernelReadout(), slice(2))).fit(
            X, y
        )
    with pytest.raises(
        ValueError, match="at least one entry each, got views: 0, readouts: 1"
    ):
        view_readouts({})
    with pytest.raises(TypeError, match=r"mapping from names to columns.*'first'"):
        view_readouts([slice(0, 2)])
    with pytest.raises(
        ValueError, match=r"'stream'\], or None .* got 'mixed'; pass None"
    ):
        fitted("reals", view_readouts(BLOCKS, "mixed"))
