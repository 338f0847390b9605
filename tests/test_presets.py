"""The paper's tables, typed from its appendix, and the readouts drawn from them."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import kstest, loguniform, randint
from sklearn.base import clone

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout, readout_grid
from sklearn_mdl.encoders import TimmEncoder
from sklearn_mdl.readouts import (
    FineTunedReadout,
    ScratchReadout,
    preset_settings,
    regressor_grid,
)
from sklearn_mdl.readouts._paper_grids import LogUniform

ENCODER = TimmEncoder("test_resnet", pretrained=False)
IMAGENET = {
    "n_replay_streams": {10, 30, 50},
    "lr": {0.00003, 0.0001, 0.0003, 0.001},
    "beta1": {0.5, 0.7},
    "weight_decay": {0.01, 1},
    "ema_step_size": {0.01, 1},
}
# Table by table: batch size, m, number of configurations, values.
TABLES = {
    "vtab-frozen": (
        (32, 11, 8 * 576),
        {
            "n_replay_streams": {3, 10, 30, 100},
            "lr": {0.0001, 0.0003, 0.001, 0.003},
            "beta1": {0.5, 0.7, 0.9},
            "weight_decay": {0, 0.000001, 0.0001, 0.01},
            "ema_step_size": {0.0001, 0.01, 1},
        },
    ),
    "vtab-scratch": (
        (32, 11, 300),
        {
            "n_replay_streams": {50, 100, 150, 200},
            "lr": {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1},
            "momentum": {0.9},
            "weight_decay": {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2},
            "ema_step_size": {0.001, 0.01, 0.1, 1},
        },
    ),
    "vtab-finetune": (
        (32, 11, 300),
        {
            "n_replay_streams": {10, 30, 50},
            "lr": {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1},
            "momentum": {0.9},
            "weight_decay": {0, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3},
            "ema_step_size": {0.001, 0.01, 0.1, 1},
        },
    ),
    "imagenet-frozen": ((512, 2, 4 * 96), IMAGENET),
    "imagenet-finetune": ((512, 2, 96), IMAGENET),
}
INTERVALS = {
    "n_replay_streams": (25, 100),
    "lr": (0.0001, 0.003),
    "eps": (0.0001, 1),
    "ema_step_size": (0.001, 0.01),
    "weight_decay": (0.0001, 1),
}
OPTIMIZERS = {
    "vtab-scratch": "sgd",
    "vtab-finetune": "sgd",
    "imagenet-finetune": "adamw",
    "imagenet-scratch": "adamw",
}
KINDS = {"finetune": FineTunedReadout, "scratch": ScratchReadout}


def preset_grid(name, **options):
    given = {"encoder": ENCODER} if name.endswith("finetune") else {}
    return readout_grid(name, **given, **options)


def settings_of(readout):
    params = readout.get_params(deep=False)
    return tuple(value for name, value in params.items() if name != "encoder")


@pytest.mark.parametrize("name", TABLES)
def test_presets_hold_the_values_of_the_papers_tables(name):
    (batch_size, m, n_readouts), values = TABLES[name]
    preset, readouts = preset_settings(name), preset_grid(name, random_state=0)
    assert (preset.batch_size, preset.m, len(readouts)) == (batch_size, m, n_readouts)
    assert {readout.batch_size for readout in readouts} == {batch_size}
    for setting, expected in values.items():
        assert {getattr(readout, setting) for readout in readouts} == expected
    assert len({settings_of(readout) for readout in readouts}) == n_readouts


@pytest.mark.parametrize(
    ("name", "depth"), [("vtab-frozen", 7), ("imagenet-frozen", 3)]
)
def test_frozen_presets_are_linear_readouts_and_perceptrons_up_to_a_depth(name, depth):
    readouts = preset_grid(name)
    depths = Counter(len(readout.hidden_layer_sizes) for readout in readouts)
    per_depth = len(readouts) // (depth + 1)
    assert depths == dict.fromkeys(range(depth + 1), per_depth)
    assert {type(readout) for readout in readouts} == {LinearReadout, MLPReadout}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_networks_have_the_papers_optimiser_and_augmentation(name):
    readouts = preset_grid(name, random_state=0)
    assert {type(readout) for readout in readouts} == {KINDS[name.split("-")[1]]}
    assert {readout.optimizer for readout in readouts} == {OPTIMIZERS[name]}
    augmentation = {"imagenet-finetune": "crop", "imagenet-scratch": "randaugment"}
    assert {r.augmentation for r in readouts} == {augmentation.get(name)}
    assert {r.calibration for r in readouts} == {name == "imagenet-scratch"}
    if name.endswith("scratch"):
        assert {(r.model, r.input_size) for r in readouts} == {("resnet50", 224)}
    else:
        assert {id(readout.encoder) for readout in readouts} == {id(ENCODER)}


def test_training_from_scratch_on_imagenet_is_drawn_from_intervals():
    readouts = readout_grid("imagenet-scratch", random_state=0)
    assert len(readouts) == 50
    assert {readout.label_smoothing for readout in readouts} == {0.01}
    assert {readout.batch_size for readout in readouts} == {512}
    assert preset_settings("imagenet-scratch").m == 2
    many = readout_grid("imagenet-scratch", n_samples=400, random_state=1)
    for setting, (low, high) in INTERVALS.items():
        values = np.array([getattr(readout, setting) for readout in many], float)
        assert low <= values.min() < values.max() <= high
        if setting == "n_replay_streams":
            assert values.tolist() == values.round().tolist()
            assert {type(readout.n_replay_streams) for readout in many} == {int}
        else:
            assert kstest(values, loguniform(low, high).cdf).pvalue > 1e-4


def test_whole_numbers_are_drawn_as_often_as_their_intervals_are_long():
    draw = LogUniform(1, 3, whole=True)
    rng = np.random.RandomState(0)
    counts = Counter(draw.rvs(rng) for _ in range(4000))
    for number in (1, 2, 3):
        share = math.log((number + 0.5) / (number - 0.5)) / math.log(3.5 / 0.5)
        assert abs(counts[number] / 4000 - share) < 0.04
    assert set(counts) == {1, 2, 3}


def test_a_preset_draws_no_more_than_the_combinations_that_settings_leave():
    readouts = preset_grid("vtab-finetune", lr=0.1)  # 84 of 756, and 300 are drawn
    assert [r.n_replay_streams for r in readouts] == [10] * 28 + [30] * 28 + [50] * 28
    assert len({settings_of(readout) for readout in readouts}) == 84
    with pytest.raises(ValueError, match="84, got 300; pass n_samples=84"):
        preset_grid("vtab-finetune", lr=0.1, n_samples=300)
    assert len(preset_grid("vtab-finetune", lr=[0.1, 0.01] * 2)) == 300


@pytest.mark.parametrize("name", ["vtab-frozen", "vtab-finetune", "imagenet-frozen"])
def test_draws_are_distinct_and_repeat_with_the_seed(name):
    values = preset_settings(name).settings.values()
    n_all = math.prod(map(len, values))
    drawn = [settings_of(r) for r in preset_grid(name, n_samples=60, random_state=3)]
    assert len(set(drawn)) == 60
    again = [settings_of(r) for r in preset_grid(name, n_samples=60, random_state=3)]
    assert drawn == again
    other = [settings_of(r) for r in preset_grid(name, n_samples=60, random_state=4)]
    assert set(drawn) != set(other)
    whole = {settings_of(r) for r in preset_grid(name, n_samples=n_all, random_state=0)}
    assert set(drawn) <= whole
    assert len(whole) == n_all


def test_settings_beside_a_preset_replace_its_own():
    readouts = readout_grid(
        "vtab-scratch", model=["resnet18", "resnet34"], lr=0.1, n_samples=40
    )
    assert {readout.lr for readout in readouts} == {0.1}
    assert {readout.model for readout in readouts} == {"resnet18", "resnet34"}


def test_grids_without_a_preset_can_be_of_networks_too():
    tuned = readout_grid(encoder=ENCODER, lr=[0.1, 0.2], image_shape=(8, 6, 3))
    assert [(type(r), r.lr, r.image_shape) for r in tuned] == [
        (FineTunedReadout, 0.1, (8, 6, 3)),
        (FineTunedReadout, 0.2, (8, 6, 3)),
    ]
    options = {"zero_init_last": False}
    scratch = readout_grid(model="resnet18", momentum=[0, 0.9], model_options=options)
    assert [(r.momentum, r.model_options) for r in scratch] == [
        (0, options),
        (0.9, options),
    ]
    drawn = readout_grid(lr=loguniform(1e-3, 1e-2), n_samples=5, random_state=0)
    assert all(1e-3 <= readout.lr <= 1e-2 for readout in drawn)
    widths = randint(5, 64)
    drawn = readout_grid(hidden_layer_sizes=widths, n_samples=5, random_state=0)
    assert all(5 <= readout.hidden_layer_sizes < 64 for readout in drawn)


def test_changing_what_a_preset_returns_changes_no_preset():
    preset = preset_settings("vtab-finetune")
    preset.settings["lr"].append(7)
    preset.others["momentum"] = 0
    assert 7 not in preset_settings("vtab-finetune").settings["lr"]
    assert preset_settings("vtab-finetune").others["momentum"] == 0.9


def test_switchers_take_batch_size_and_prior_with_a_preset():
    switcher = MDLReadoutSwitcher.from_preset("vtab-scratch", random_state=5)
    assert (switcher.batch_size, switcher.switching.m) == (32, 11)
    drawn = readout_grid("vtab-scratch", random_state=5)
    assert [settings_of(r) for r in switcher.readouts] == [
        settings_of(r) for r in drawn
    ]
    own = readout_grid("imagenet-finetune", encoder=ENCODER, n_samples=3)
    switcher = MDLReadoutSwitcher.from_preset("imagenet-finetune", readouts=own)
    assert (switcher.batch_size, switcher.switching.m) == (512, 2)
    assert switcher.readouts is own
    assert len(clone(switcher).readouts) == 3


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (["paper"], {}, "preset must be one of .*'vtab-scratch'.*got 'paper'"),
        (["vtab-finetune"], {}, "needs an encoder .* got none; write readouts="),
        ([], {"lr": [1, 2], "n_samples": 3}, "number of combinations, 2, got 3"),
        ([], {"n_samples": 0}, "n_samples must be a positive integer, got 0"),
        (
            [],
            {"lr": loguniform(1, 2)},
            "lr must be a scalar or a list .*pass n_samples=20",
        ),
    ],
    ids=["name", "no encoder", "too many", "none", "distribution for a grid"],
)
def test_grids_refuse_in_a_sentence(arguments, settings, words):
    with pytest.raises(ValueError, match=words):
        readout_grid(*arguments, **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lrr": [1]}, "parameters of MLPReadout, .*, lr, .*got 'lrr'; .* mean 'lr'"),
        (
            {"learning_rate": 1},
            "of MLPReadout, .*got 'learning_rate'; pass one of these",
        ),
        ({"model": "a", "momentun": 0}, "of ScratchReadout, .*; .* mean 'momentum'"),
        ({"encoder": ENCODER, "scaling": None}, "of FineTunedReadout, .*got 'scaling'"),
    ],
    ids=["nets", "nothing near", "networks", "encoders"],
)
def test_settings_that_readouts_lack_are_refused_with_the_nearest(settings, words):
    with pytest.raises(TypeError, match=words):
        readout_grid(**settings)


def test_grids_of_regressors_refuse_them_too():
    with pytest.raises(TypeError, match=r"MLPReadoutRegressor, .* mean 'likelihood'"):
        regressor_grid(likelyhood="gaussian")
    said = (
        "a scalar or a list if all combinations are built, got .*; pass a list of "
        r"values, such as distribution.rvs\(5\)$"
    )
    with pytest.raises(ValueError, match=said):  # n_samples is not an option here
        regressor_grid(lr=loguniform(1, 2))
    assert len(regressor_grid(lr=loguniform(1, 2).rvs(5))) == 5
