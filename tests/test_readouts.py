"""Laws of the readouts: a stack equals its parts, and pools are what they say."""

import copy
import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from each_case import for_each
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state
from skorch import NeuralNet

from sklearn_mdl import (
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    readout_grid,
)
from sklearn_mdl._core.stream.scaling import MAX_WHITENED_FEATURES
from sklearn_mdl._core.stream.steps import (
    ReplayStreams,
    prequential_steps,
    score_segment,
)
from sklearn_mdl.readouts import build_learners, preset_settings
from sklearn_mdl.readouts._grid import readout_names
from sklearn_mdl.readouts._lists import (
    default_readouts,
    default_regressors,
    named_readouts,
)

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

CPU = torch.device("cpu")
FAST = {"lr": 0.02, "n_replay_streams": 2}
POOL = [
    LinearReadout(**FAST),
    MLPReadout((9,), **FAST, random_state=5),
    LinearReadout(**FAST, ema_step_size=0.1, weight_decay=0.1),
    LinearReadout(**FAST, scaling="whiten", calibration=False),
    MLPReadout((7, 5), lr=0.02, n_replay_streams=1, scaling=None),
    LinearReadout(**FAST, scaling="whiten", ema_step_size=0.1, ema_warmup=False),
    MLPReadout(9, **FAST, scaling="whiten", label_smoothing=0.0),
    LinearReadout(lr=0.02, n_replay_streams=0),
    MLPReadout((9,), **FAST, recency=0.3, beta1=0.5, beta2=0.9, eps=1e-4),
    LinearReadout(**FAST, calibration=False, batch_size=8, device="cpu"),
]
PLACES = range(len(POOL))


@cache
def digits(n=150):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def scored(readouts, X=None, y=None, **options):
    if X is None:
        X, y = digits()
    return MDLReadoutSwitcher(readouts, random_state=0, **options).fit(X, y)


@cache
def together():
    return scored(POOL)


def stacks_of(readouts, n_features=6, n_classes=3):
    return build_learners(readouts, n_features, n_classes, seed=0, device=CPU)


def n_trainings(stack):
    return stack.net.module_.n_members


# A stack equals its parts


@for_each("place", PLACES)
def test_readout_alone_in_a_switcher_equals_itself_among_others_bitwise(place):
    alone = scored([POOL[place]])
    np.testing.assert_array_equal(
        alone.readout_losses_[:, 0], together().readout_losses_[:, place]
    )


@for_each("seed", range(3))
def test_numbers_follow_their_readouts_through_any_order_bitwise(seed):
    order = np.random.default_rng(seed).permutation(len(POOL))
    found = scored([POOL[place] for place in order])
    np.testing.assert_array_equal(
        found.readout_losses_, together().readout_losses_[:, order]
    )


@pytest.mark.quick("()-7", "(5,)-1", "(5,)-64", "(9, 3)-2", "(9, 3)-7")
@pytest.mark.parametrize("n_features", [1, 2, 7, 64])
@pytest.mark.parametrize("sizes", [(), (5,), (9, 3)], ids=str)
@pytest.mark.filterwarnings("ignore:The best readout should lie")
def test_many_readouts_of_one_shape_equal_each_alone_bitwise(n_features, sizes):
    # Enough members for vector instructions, whose last bits differ from scalar ones.
    X, y = digits()
    X = X[:, 20 : 20 + n_features] if n_features < 44 else X
    pool = readout_grid(
        hidden_layer_sizes=[sizes],
        n_replay_streams=1,
        lr=[0.003, 0.03, 0.1],
        ema_step_size=[1.0, 0.1, 0.01],
        scaling=["standard", "whiten"],
    )
    whole = scored(pool, X, y)
    for place in range(0, len(pool), 5):
        alone = scored([pool[place]], X, y)
        np.testing.assert_array_equal(
            alone.readout_losses_[:, 0], whole.readout_losses_[:, place]
        )


@pytest.mark.parametrize("place", PLACES)
def test_readout_on_its_own_costs_what_it_does_in_a_switcher(place):
    readout = clone(POOL[place]).set_params(random_state=3, batch_size=16)
    own = readout.fit(*digits())
    switcher = MDLReadoutSwitcher(
        [POOL[4], readout, POOL[0]], random_state=3, batch_size=16
    ).fit(*digits())
    np.testing.assert_allclose(
        own.codelengths_, switcher.readout_losses_[:, 1], rtol=1e-12, atol=1e-12
    )
    assert own.codelength_ == pytest.approx(switcher.readout_codelengths_[1])


def test_switchers_batch_size_wins_over_its_readouts():
    small, large = (
        scored([LinearReadout(**FAST, batch_size=size)]) for size in (4, 64)
    )
    np.testing.assert_array_equal(small.codelengths_, large.codelengths_)


def test_readouts_are_left_as_they_were_given():
    readouts = [clone(readout) for readout in POOL]
    before = [str(readout.get_params()) for readout in readouts]
    switcher = scored(readouts)
    assert [str(readout.get_params()) for readout in readouts] == before
    assert not any(hasattr(readout, "classes_") for readout in readouts)
    assert not any(
        used is given for used, given in zip(switcher.readouts_, readouts, strict=True)
    )


@pytest.mark.parametrize("readout", [MLPReadout((9,), **FAST), LinearReadout(**FAST)])
def test_own_random_state_fixes_the_initial_weights_whatever_the_switchers(readout):
    def first_weights(own, switchers):
        readout_ = clone(readout).set_params(random_state=own)
        switcher = MDLReadoutSwitcher([readout_], random_state=switchers)
        run = switcher.partial_fit(*digits(3), classes=range(10))._run
        return run.learners[0].net.module_.layers[0].weight

    assert torch.equal(first_weights(1, 2), first_weights(1, 3))
    hidden = len(np.atleast_1d(getattr(readout, "hidden_layer_sizes", ())))
    assert torch.equal(first_weights(1, 2), first_weights(4, 2)) == (hidden == 0)
    assert torch.equal(first_weights(None, 2), first_weights(2, 3))


# Trainings that are shared


def test_readouts_that_differ_in_averaging_alone_share_one_training():
    pool = readout_grid(
        lr=[0.01, 0.03],
        ema_step_size=[1.0, 0.3, 0.1],
        ema_warmup=[True, False],
        calibration=[True, False],
    )
    (stack,) = stacks_of(pool)
    assert len(pool) == len(stack.columns) == 24
    assert n_trainings(stack) == 2


@for_each(
    "differing",
    [
        {"lr": 0.5},
        {"beta1": 0.5},
        {"beta2": 0.5},
        {"eps": 0.5},
        {"weight_decay": 0.5},
        {"label_smoothing": 0.5},
        {"scaling": "whiten"},
        {"random_state": 1},
    ],
)
def test_readouts_that_train_differently_share_nothing(differing):
    (stack,) = stacks_of([MLPReadout((5,)), MLPReadout((5,), **differing)])
    assert n_trainings(stack) == 2


def test_a_readout_given_twice_is_trained_once_and_costs_the_same():
    switcher = scored([POOL[0], POOL[0]])
    (stack,) = switcher._run.learners
    assert n_trainings(stack) == 1
    np.testing.assert_array_equal(*switcher.readout_losses_.T)


def test_stacks_gather_readouts_by_shape_and_replay_the_most_expensive_first():
    pool = [
        LinearReadout(),
        MLPReadout((8,)),
        LinearReadout(lr=1.0),
        MLPReadout(8, lr=1.0),
        MLPReadout([8, 4]),
        LinearReadout(n_replay_streams=3),
        MLPReadout((8, 4), scaling="whiten"),
        LinearReadout(recency=2.0),
    ]
    stacks = stacks_of(pool)
    assert [list(stack.columns) for stack in stacks] == [
        [4, 6],
        [1, 3],
        [0, 2],
        [7],
        [5],
    ]
    replays = [tuple(stack.replay[:2]) for stack in stacks]
    assert replays == [(10, 1), (10, 1), (10, 1), (10, 2), (3, 1)]
    for stack in stacks:
        assert list(stack.view.scalings) == ["standard", "whiten"]


@pytest.mark.parametrize("scaling", ["standard", "whiten"])
def test_logits_do_not_jump_when_rows_are_scaled_again(scaling):
    X, y = digits()
    readouts = [
        LinearReadout(**FAST, scaling=scaling),
        LinearReadout(**FAST, scaling=scaling, ema_step_size=0.1),
        LinearReadout(**FAST, scaling=None),
    ]
    switcher = MDLReadoutSwitcher(readouts, random_state=0)
    switcher.partial_fit(X[:127], y[:127], classes=range(10))
    run = switcher._run
    second, seen = (run.rows.batch_size, 2 * run.rows.batch_size), {}

    def spied(changes, stack=run.learners[0], own=run.learners[0].re_express):
        own(changes)
        seen["after"] = stack.logits(run.rows.between(*second)).clone()

    refresh = run.rows.refresh

    def refreshed(n_rows):
        seen["before"] = run.learners[0].logits(run.rows.between(*second)).clone()
        return refresh(n_rows)

    run.rows.refresh = refreshed
    run.learners[0].re_express = spied
    switcher.partial_fit(X[127:130], y[127:130])
    assert seen["before"].abs().max() > 1
    torch.testing.assert_close(seen["after"], seen["before"], atol=1e-4, rtol=1e-4)


# Options


def test_label_smoothing_serves_training_alone():
    smooth, sharp = (
        scored([LinearReadout(**FAST, label_smoothing=share)]) for share in (0.5, 0.0)
    )
    np.testing.assert_array_equal(smooth.codelengths_[:32], sharp.codelengths_[:32])
    np.testing.assert_allclose(sharp.codelengths_[:32], math.log(10), rtol=1e-14)
    assert np.all(smooth.codelengths_[32:] != sharp.codelengths_[32:])


@pytest.mark.parametrize(
    ("scaling", "batch_size", "n_replay_streams"),
    [
        ("standard", 1, 3),
        ("whiten", 1, 0),
        (None, 5, 3),
        ("standard", 5, 0),
        ("whiten", 32, 3),
        (None, 32, 0),
        (None, 500, 3),
        ("whiten", 500, 0),
    ],
)
def test_readouts_run_whatever_batch_size_replay_and_scaling(
    scaling, batch_size, n_replay_streams
):
    X, y = digits()
    readout = LinearReadout(
        lr=0.02,
        scaling=scaling,
        batch_size=batch_size,
        n_replay_streams=n_replay_streams,
        random_state=0,
    ).fit(X, y)
    assert np.isfinite(readout.codelengths_).all()
    first = readout.codelengths_[:batch_size]
    np.testing.assert_allclose(first, math.log(10), rtol=1e-14)
    assert readout.score(X, y) > 0.4  # by chance 0.1


def test_more_replay_teaches_more():
    codelengths = [
        scored([LinearReadout(lr=0.003, n_replay_streams=s)]).codelength_
        for s in (0, 3, 30)
    ]
    assert codelengths == sorted(codelengths, reverse=True)


@for_each(
    "options",
    [
        {},
        {"calibration": True},
        {"n_replay_streams": 3},
        {"n_replay_streams": 3, "recency": 0.3},
        {"ema_step_size": 0.3, "ema_warmup": False},
        {"ema_step_size": 0.3, "ema_warmup": True},
        {"n_replay_streams": 3, "calibration": True, "ema_step_size": 0.1},
    ],
)
def test_run_equals_a_plain_loop_of_torchs_layers_and_optimisers(options):
    plain = {"n_replay_streams": 0, "calibration": False, "scaling": None}
    # An eps larger than rounding, whose signs would be all of a first step.
    settings = {"lr": 0.01, "weight_decay": 0.1, "eps": 0.01}
    readout = LinearReadout(**settings, **{**plain, **options}, label_smoothing=0.1)
    np.testing.assert_allclose(
        scored([readout]).codelengths_,
        losses_of_a_plain_loop(readout, settings),
        rtol=1e-4,
        atol=1e-4,
    )


def losses_of_a_plain_loop(readout, settings):
    """Predict, calibrate, learn, replay: the algorithm as one writes it down."""
    X, y = digits()
    x, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    cross_entropy = torch.nn.functional.cross_entropy
    layer = torch.nn.Linear(64, 10)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    average = [parameter.detach().clone() for parameter in layer.parameters()]
    optimizer = torch.optim.AdamW(layer.parameters(), **settings)
    logit_scale = torch.tensor(
        math.log(math.e - 1), requires_grad=True
    )  # its softplus is 1
    scale_optimizer = torch.optim.Adam([logit_scale], lr=0.1, betas=(0.9, 0.99))
    seed = int(check_random_state(0).randint(2**31 - 1))
    streams = ReplayStreams(
        readout.n_replay_streams, recency=readout.recency, seed=seed
    )
    batches = list(zip(x.split(32), labels.split(32), strict=True))
    losses, n_steps = [], 0
    for new, (rows, observed) in enumerate(batches):
        logits = torch.nn.functional.linear(rows, *average)
        softplus = torch.nn.functional.softplus(logit_scale)
        loss = cross_entropy(softplus * logits, observed, reduction="none")
        losses.append(loss.detach())
        if readout.calibration:
            scale_optimizer.zero_grad()
            loss.mean().backward()
            scale_optimizer.step()
        for place in [new, *streams.advance()]:
            rows, observed = batches[place]
            optimizer.zero_grad()
            cross_entropy(layer(rows), observed, label_smoothing=0.1).backward()
            optimizer.step()
            n_steps += 1
            step = readout.ema_step_size
            if readout.ema_warmup:
                step = max(step, 1 / (n_steps + 1))
            for own, parameter in zip(average, layer.parameters(), strict=True):
                own.copy_((1 - step) * own + step * parameter.detach())
    return torch.cat(losses).numpy()


def test_calibration_sharpens_a_readout_that_learns_too_slowly():
    slow = {"lr": 3e-4, "n_replay_streams": 1}
    plain, calibrated = scored(
        [LinearReadout(**slow, calibration=flag) for flag in (False, True)],
        *digits(400),
    ).readout_codelengths_
    assert calibrated < plain - 5


def test_calibration_softens_a_readout_whose_labels_are_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 20)), rng.integers(2, size=400)
    plain, calibrated = scored(
        [
            LinearReadout(lr=0.02, n_replay_streams=10, calibration=flag)
            for flag in (False, True)
        ],
        X,
        y,
    ).readout_codelengths_
    assert calibrated < plain - 10


# Readouts that diverge


@pytest.mark.parametrize("lr", [1e8, 1e13, 1e20])
def test_divergent_readout_is_named_and_hurts_nobody(lr):
    wild = MLPReadout((9,), lr=lr, n_replay_streams=2)
    sober = [MLPReadout((9,), **FAST), LinearReadout(**FAST, scaling="whiten")]
    mixed = scored([sober[0], wild, sober[1]])
    np.testing.assert_array_equal(
        mixed.readout_losses_[:, [0, 2]], scored(sober).readout_losses_
    )
    assert np.isfinite(mixed.readout_losses_).all()
    assert np.isfinite(mixed.codelengths_).all()
    assert np.isfinite(mixed.posterior_).all()
    assert np.isfinite(mixed.predict_log_proba(digits()[0])).all()
    assert mixed.score(*digits()) > 0.8
    named = [name for name in mixed.readout_names_ if f"lr={lr}" in name]
    assert mixed.diverged_readouts_ in ([], named)


@pytest.mark.parametrize("lr", [1e20, 1e30])
def test_divergent_readout_predicts_uniformly_from_then_on(lr):
    wild = MLPReadout((9,), lr=lr, n_replay_streams=2)
    switcher = scored([LinearReadout(**FAST), wild])
    assert switcher.diverged_readouts_ == [switcher.readout_names_[1]]
    np.testing.assert_array_equal(switcher.readout_losses_[64:, 1], math.log(10))
    alone = MDLReadoutSwitcher([wild], random_state=0)
    with pytest.warns(UserWarning, match="all readouts have diverged") as record:
        alone.fit(*digits())
    assert {warning.filename for warning in record} == {__file__}
    np.testing.assert_allclose(alone.predict_proba(digits()[0]), 0.1, rtol=1e-12)


def test_averages_of_a_divergent_training_diverge_with_it():
    wild = [
        MLPReadout((9,), lr=1e20, n_replay_streams=2, ema_step_size=step)
        for step in (1.0, 0.1)
    ]
    switcher = scored([*wild, LinearReadout(**FAST)])
    assert switcher.diverged_readouts_ == switcher.readout_names_[:2]
    assert np.isfinite(switcher.readout_losses_).all()


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_no_learning_rate_breaks_the_code(depth):
    rates = [10.0**exponent for exponent in range(3, 40)]
    wild = readout_grid(hidden_layer_sizes=[(4,) * depth], lr=rates, n_replay_streams=1)
    sober = [LinearReadout(**FAST), LinearReadout(**{**FAST, "lr": 1e-6})]
    switcher = scored([*wild, *sober], *digits(100))
    assert np.isfinite(switcher.codelengths_).all()
    assert np.isfinite(switcher.readout_losses_).all()


def test_sober_readouts_are_not_called_divergent():
    assert together().diverged_readouts_ == []


# Grids and presets


def test_grid_is_the_product_of_its_lists_first_name_slowest():
    pool = readout_grid(
        lr=[0.1, 0.2], hidden_layer_sizes=[(), (4,), (4, 3)], scaling=["whiten", None]
    )
    found = [
        (getattr(readout, "hidden_layer_sizes", ()), readout.lr, readout.scaling)
        for readout in pool
    ]
    assert sorted(found, key=str) == sorted(
        itertools.product([(), (4,), (4, 3)], [0.1, 0.2], ["whiten", None]), key=str
    )
    named = readout_grid(lr=[0.1, 0.2], scaling=["whiten", None])
    assert [(readout.lr, readout.scaling) for readout in named] == list(
        itertools.product([0.1, 0.2], ["whiten", None])
    )


def test_grid_takes_scalars_strings_and_any_iterable_of_values():
    pool = readout_grid(lr=(r for r in (0.1, 0.2)), scaling="whiten", eps=1e-4)
    assert [(r.lr, r.scaling, r.eps) for r in pool] == [
        (0.1, "whiten", 1e-4),
        (0.2, "whiten", 1e-4),
    ]
    assert len(readout_grid(lr=np.geomspace(1e-4, 1e-1, 7))) == 7


@for_each(
    "sizes, architectures",
    [
        ((), ["linear"]),
        ([()], ["linear"]),
        (16, ["mlp 1x16"]),
        ((16, 8), ["mlp 16-8"]),
        ([(16, 8)], ["mlp 16-8"]),
        ([(), 16, (8, 8)], ["linear", "mlp 1x16", "mlp 2x8"]),
        ([[], [16]], ["linear", "mlp 1x16"]),
    ],
)
def test_grid_reads_hidden_sizes_as_one_shape_or_a_list_of_shapes(sizes, architectures):
    pool = readout_grid(hidden_layer_sizes=sizes)
    assert [readout.architecture for readout in pool] == architectures


def test_grid_without_hidden_layers_is_of_linear_readouts():
    kinds = {type(r): r.architecture for r in readout_grid(hidden_layer_sizes=[(), 4])}
    assert kinds == {LinearReadout: "linear", MLPReadout: "mlp 1x4"}


@for_each(
    "arguments, settings, error, words",
    [
        (
            ("paper",),
            {},
            ValueError,
            "preset must be one of .*imagenet-frozen.*'paper'",
        ),
        ((), {"lr": []}, ValueError, "lr must hold at least one value"),
        ((), {"momentum": 0.9}, TypeError, "momentum"),
    ],
)
def test_grid_refuses(arguments, settings, error, words):
    with pytest.raises(error, match=words):
        readout_grid(*arguments, **settings)


@pytest.mark.parametrize(
    ("name", "n_readouts", "n_shapes", "n_per_shape", "m", "batch_size"),
    [
        ("vtab-frozen", 4608, 8, 576, 11, 32),
        ("imagenet-frozen", 384, 4, 96, 2, 512),
    ],
)
def test_presets_are_the_papers_grids(
    name, n_readouts, n_shapes, n_per_shape, m, batch_size
):
    preset, pool = preset_settings(name), readout_grid(name)
    assert (len(pool), preset.m, preset.batch_size) == (n_readouts, m, batch_size)
    assert {readout.batch_size for readout in pool} == {batch_size}
    by_shape = {}
    for readout in pool:
        by_shape.setdefault(readout.architecture, []).append(readout)
    assert len(by_shape) == n_shapes
    assert {len(readouts) for readouts in by_shape.values()} == {n_per_shape}
    assert len({str(vars(readout)) for readout in pool}) == n_readouts


@pytest.mark.quick("imagenet-frozen-12-192")
@pytest.mark.parametrize(
    ("name", "n_stacks", "n_trained"),
    [("vtab-frozen", 8 * 4, 8 * 4 * 48), ("imagenet-frozen", 4 * 3, 4 * 3 * 16)],
)
def test_presets_train_each_of_their_settings_once(name, n_stacks, n_trained):
    narrow = [
        readout
        if isinstance(readout, LinearReadout)
        else clone(readout).set_params(
            hidden_layer_sizes=(2,) * len(readout.hidden_layer_sizes)
        )
        for readout in readout_grid(name)
    ]
    stacks = stacks_of(narrow, n_features=2, n_classes=2)
    assert len(stacks) == n_stacks
    assert sum(n_trainings(stack) for stack in stacks) == n_trained


def test_settings_replace_those_of_a_preset():
    pool = readout_grid("imagenet-frozen", hidden_layer_sizes=[()], lr=0.1)
    assert len(pool) == 96 / 4
    assert {(readout.lr, readout.calibration) for readout in pool} == {(0.1, False)}


# Names


def test_names_tell_readouts_apart_by_what_differs():
    assert readout_names(readout_grid(hidden_layer_sizes=[(), 8], lr=[0.1, 0.2])) == [
        "linear lr=0.1",
        "linear lr=0.2",
        "mlp 1x8 lr=0.1",
        "mlp 1x8 lr=0.2",
    ]
    assert readout_names([LinearReadout()]) == ["linear"]
    assert readout_names([LinearReadout()] * 3) == ["linear", "linear #2", "linear #3"]
    assert readout_names([MLPReadout(8), MLPReadout((8, 8)), MLPReadout((8, 4))]) == [
        "mlp 1x8",
        "mlp 2x8",
        "mlp 8-4",
    ]


@for_each(
    "pool",
    [
        POOL,
        [*POOL, *POOL],
        [MLPReadout(8), MLPReadout((8,)), MLPReadout([8])],
        [LinearReadout(lr=1), LinearReadout(lr=1.0), LinearReadout(lr=2)],
        default_readouts(64, 10),
        readout_grid("imagenet-frozen"),
    ],
)
def test_names_are_unique(pool):
    names = readout_names(pool)
    assert len(set(names)) == len(names) == len(pool)


def test_every_setting_is_read_a_few_times_however_many_readouts_are_named():
    class Counted(float):
        n_read = 0

        def __str__(self):
            Counted.n_read += 1
            return super().__repr__()

    pool = [LinearReadout(lr=Counted(rate)) for rate in range(200)]
    assert readout_names(pool)[-1] == "linear lr=199.0"
    assert Counted.n_read <= 2 * len(pool)


# Widths, and the default pool


def test_whitening_too_many_features_is_refused_in_a_sentence():
    wide = LinearReadout(scaling="whiten")
    stacks_of([wide], MAX_WHITENED_FEATURES)
    X, y = np.zeros((4, MAX_WHITENED_FEATURES + 1)), [0, 1, 0, 1]
    words = "scaling='whiten' needs at most 2048 features, got 2049; pass scaling="
    for estimator in (wide, MDLReadoutSwitcher([wide])):
        with pytest.raises(ValueError, match=words):
            estimator.fit(X, y)
    LinearReadout(n_replay_streams=0).fit(X, y)


def n_updates_per_example(pool, n_features, n_classes):
    """Streams and the new minibatch, times the numbers of all distinct trainings."""
    total = 0
    for stack in stacks_of(pool, n_features, n_classes):
        numbers = sum(p.numel() for p in stack.net.module_.parameters())
        total += (stack.replay.n_streams + 1) * numbers
    return total


def test_the_default_readouts_as_a_list_are_neither_pooled_nor_raced():
    for switcher, listed in (
        (MDLReadoutSwitcher, default_readouts(4, 3)),
        (MDLReadoutSwitcherRegressor, default_regressors(4)),
    ):
        by_name, by_list = (switcher(own).resolved(4, 3) for own in (None, listed))
        assert list(map(str, by_list.readouts)) == list(map(str, by_name.readouts))
        assert by_name.mixing.pool is not None
        assert by_name.mixing.race is not None
        assert by_list.mixing.pool is by_list.mixing.race is None


@for_each("n_classes", [2, 10, 100])
@for_each("n_features", [4, 64, 768])
def test_default_pool_takes_the_most_streams_that_its_budget_allows(
    n_features, n_classes
):
    pool = named_readouts("nets", n_features, n_classes)
    ((n_streams, last),) = {readout.n_replay_streams for readout in pool}
    assert n_streams in (3, 10, 30)
    per_stream = n_updates_per_example(pool, n_features, n_classes) / (n_streams + 1)
    allowed = [s for s in (30, 10, 3) if (s + 1) * per_stream <= 150_000_000]
    assert n_streams == [*allowed, 3][0]
    allowed = [s for s in range(3, 21) if (s + 1) * per_stream <= 6_000_000]
    assert last == min([3, *allowed][-1], n_streams)


@for_each("n_features", [4, 64, 768])
def test_the_default_regressors_replay_least_after_many_rows(n_features):
    pool = default_regressors(n_features)
    replay = {getattr(r, "n_replay_streams", (3, 3))[1] for r in pool}
    assert replay == {3}


def test_default_pool_thins_its_replay_as_features_and_classes_grow():
    streams = [
        default_readouts(d, c)[0].n_replay_streams[0]
        for d, c in [(64, 10), (768, 100), (1024, 1000), (20_000, 1000)]
    ]
    assert streams == sorted(streams, reverse=True)
    assert streams[0] == 30
    assert streams[-1] == 3


def test_default_pool_whitens_up_to_a_width():
    def scalings(d):
        return {readout.scaling for readout in named_readouts("nets", d, 2)}

    assert scalings(1024) == {"standard", "whiten"}
    assert scalings(1025) == scalings(20_000) == {"standard"}


def test_default_pool_depends_on_width_and_classes_alone():
    X, y = digits()
    pools = [
        [str(readout) for readout in pool]
        for pool in (
            default_readouts(64, 10),
            MDLReadoutSwitcher(batch_size=5)
            .partial_fit(X[:2] * 100, y[:2], classes=range(10))
            .readouts_,
            MDLReadoutSwitcher(random_state=8)
            .partial_fit(X[5:9], y[5:9].astype(str), classes=list("0123456789"))
            .readouts_,
        )
    ]
    assert pools[0] == pools[1] == pools[2]


def test_the_net_of_a_readout_is_skorchs_with_what_was_trained():
    X, y = load_digits(return_X_y=True)
    net = MLPReadout((7,), random_state=0).fit(X[:64], y[:64]).net_
    assert isinstance(net, NeuralNet)
    n_numbers = sum(weights.numel() for weights in net.module_.parameters())
    assert n_numbers == 64 * 7 + 7 + 7 * 10 + 10
    assert all(net.optimizer_.state[p] for p in net.module_.parameters())


# Readouts that retire


def learned_by(learner, run, n_rows):
    """Drive one learner of a run over rows whose labels are there already."""
    state = run.threads.states[run.learners.index(learner)]
    steps = prequential_steps(learner, state, run.outcome, n_rows)
    labels = run.rows.labels.clone()
    return score_segment([steps], labels[state.n_scored : n_rows])[0].numpy()


@for_each("gone", [{0}, {1, 2}, {0, 2, 3}])
@for_each("kind", ["nets", "neighbours"])
def test_readouts_that_stay_go_on_with_the_same_bits(kind, gone):
    X, y = digits(160)
    readouts = [LinearReadout(lr=lr, ema_step_size=s) for lr, s in SHARED]
    if kind == "neighbours":
        readouts = [KNeighborsReadout(k) for k in (3, 5, 9, 20)]
    switcher = MDLReadoutSwitcher(readouts, random_state=0, device="cpu")
    run = switcher.partial_fit(X[:96], y[:96], classes=range(10))._run
    run.begin(X[96:].astype(np.float32))
    run.rows.extend(160)
    run.rows.reveal(96, torch.as_tensor(y[96:]))
    (learner,) = run.learners
    other = copy.deepcopy(run)
    expected = learned_by(learner, run, 160)
    (some,) = other.learners
    kept = [k for k in range(4) if k not in gone]
    some.retire(gone)
    assert list(some.columns) == kept
    other.threads.states[0].failed_at = other.threads.states[0].failed_at[kept]
    np.testing.assert_array_equal(learned_by(some, other, 160), expected[kept])


SHARED = [(0.01, 1.0), (0.01, 0.1), (0.01, 0.1), (0.03, 0.1)]
