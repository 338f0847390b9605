"""Laws of the experts that look at images, beside those that all experts keep."""

import copy
import math
import pickle
from functools import cache

import numpy as np
import pytest
import torch
from each_case import for_each
from finetune_cases import (
    FAST,
    LEARNS,
    Net,
    digits,
    encoder,
    pool,
    seeded_net,
    timm_encoder,
)
from image_cases import SHARED
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RefitReadout,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.checkpoint import progress_of, resume
from sklearn_mdl._core.stream.steps import ReplayStreams
from sklearn_mdl.encoders import CachedEncoder, TimmEncoder, TorchEncoder, image_rows
from sklearn_mdl.readouts import (
    DummyReadout,
    FineTunedReadout,
    FrozenReadout,
    ScratchReadout,
    _build,
)
from sklearn_mdl.readouts._finetune.learner import drawn_seed
from sklearn_mdl.readouts._finetune.networks import (
    AveragedNetwork,
    HeadedNetwork,
    PixelTrunk,
    augment_of,
    augmented,
)

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

KINDS = {
    "fine-tuned": lambda **o: FineTunedReadout(encoder(), **{**LEARNS, **o}),
    "scratch": lambda **o: ScratchReadout(Net, **{**LEARNS, **o}),
    "frozen": lambda **o: FrozenReadout(encoder(), LinearReadout(), **{**FAST, **o}),
}
LEARNING = ["fine-tuned", "scratch"]


def switcher(readouts=None, **options):
    settings = {"batch_size": 16, "device": "cpu", "random_state": 0, **options}
    return MDLReadoutSwitcher(pool() if readouts is None else readouts, **settings)


def scored(X=None, y=None, readouts=None, **options):
    if X is None:
        X, y = digits()
    return switcher(readouts, **options).partial_fit(X, y, classes=np.arange(10))


@cache
def reference():
    return scored()


# Laws of a run


def test_the_first_minibatch_costs_a_uniform_code():
    losses = reference().readout_losses_
    np.testing.assert_allclose(losses[:16], math.log(10), rtol=1e-12)
    assert (losses[16:].mean(0) != losses[:16].mean(0)).all()


@pytest.mark.quick("[7, 16, 33]")
@pytest.mark.parametrize("cuts", [[1, 2, 40, 41, 64], [7, 16, 33]])
def test_cuts_copies_and_pickles_on_the_way_change_no_bit(cuts):
    X, y = digits()
    other = switcher()
    for i, rows in enumerate(np.split(np.arange(90), cuts)):
        if len(rows):
            other.partial_fit(X[rows], y[rows], classes=np.arange(10))
            other = [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))][i % 2](
                other
            )
            other.predict(X[:2])
    np.testing.assert_array_equal(other.readout_losses_, reference().readout_losses_)
    np.testing.assert_array_equal(
        other.predict_log_proba(X[:5]), reference().predict_log_proba(X[:5])
    )


def test_predictions_depend_on_no_later_label_and_no_later_image():
    X, y = digits()
    X, y = X.copy(), y.copy()
    X[50:], y[50:] = X[50:][::-1], (y[50:] + 3) % 10
    losses = scored(X, y).readout_losses_
    expected = reference().readout_losses_
    np.testing.assert_array_equal(losses[:50], expected[:50])
    assert (losses[50:] != expected[50:]).any(0).all()


def test_numbers_depend_neither_on_neighbours_nor_on_their_order():
    readouts = pool()
    for k in (0, 1, 5, 7):
        alone = scored(readouts=[readouts[k]]).readout_losses_[:, 0]
        np.testing.assert_array_equal(alone, reference().readout_losses_[:, k])
    backwards = scored(readouts=readouts[::-1]).readout_losses_
    np.testing.assert_array_equal(backwards[:, ::-1], reference().readout_losses_)


def test_jobs_change_no_bit():
    losses = scored(n_jobs=2).readout_losses_
    np.testing.assert_array_equal(losses, reference().readout_losses_)


def test_random_labels_are_not_compressed():
    X, _ = digits()
    y = np.random.default_rng(1).integers(10, size=len(X))
    losses = scored(X, y).readout_losses_.sum(0)
    assert (losses > len(X) * math.log(10) - 20).all()
    assert scored(X, y).codelength_ > len(X) * math.log(10) - 20


def test_labels_are_decoded_from_the_message_of_a_mixed_pool():
    X, y = digits()
    X, y = X[:36], y[:36]
    readouts = [
        FineTunedReadout(timm_encoder(), **LEARNS),
        (timm_encoder(), LinearReadout()),
        ScratchReadout("test_resnet", input_size=16, **LEARNS),
    ]
    message = encode_labels(switcher(readouts), X, y)
    np.testing.assert_array_equal(decode_labels(switcher(readouts), X, message), y)


@for_each("kind", KINDS)
def test_labels_never_seen_keep_a_positive_probability(kind):
    X, y = digits()
    few = y < 2
    found = KINDS[kind](random_state=0)
    found.partial_fit(X[few], y[few], classes=range(10))
    proba = found.predict_proba(X)
    assert (proba > 0).all()
    np.testing.assert_allclose(proba.sum(1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_alone_it_is_a_classifier_that_runs_as_in_a_pool(kind):
    X, y = digits()
    alone = KINDS[kind](random_state=0).fit(X, y)
    beside = scored(readouts=[KINDS[kind]()], switching="bayes")
    np.testing.assert_allclose(alone.codelengths_, beside.codelengths_, rtol=1e-12)
    assert alone.predict(X).shape == y.shape
    assert clone(alone).get_params(deep=False).keys() == alone.get_params(False).keys()
    assert type(alone).__name__ in repr(alone)


# Draws


@pytest.mark.parametrize("kind", LEARNING)
def test_random_state_rules_all_draws_and_global_seeds_stay(kind):
    X, y = digits()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    options = {"augmentation": "randaugment"}
    one, again, other = (
        KINDS[kind](**options, random_state=seed).fit(X, y).codelengths_
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_networks_from_scratch_begin_where_their_own_seed_says():
    one, other = (
        ScratchReadout(Net, random_state=seed, **LEARNS).fit(*digits()).net_.module_
        for seed in (0, 0)
    )
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@for_each("augmentation", ["crop", "crop-flip", "randaugment"])
@for_each("shape", [(8, 8, 1), (12, 9, 3)])
def test_augmentations_keep_size_and_kind_of_images(augmentation, shape):
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (20, *shape), dtype=np.uint8))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = augmented(images, augment_of(augmentation, shape))
    assert (found.shape, found.dtype) == (images.shape, torch.uint8)
    assert not torch.equal(found, images)


def test_crops_are_mirrored_half_of_the_time():
    ramp = torch.arange(0, 240, 15, dtype=torch.uint8).expand(400, 16, 16)[..., None]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = augmented(ramp, augment_of("crop-flip", (16, 16, 1)))[..., 0].float()
        plain = augmented(ramp, augment_of("crop", (16, 16, 1)))[..., 0].float()
    mirrored = (found[:, 0, 0] > found[:, 0, -1]).float().mean()
    assert 0.4 < mirrored < 0.6
    assert (plain[:, 0, 0] <= plain[:, 0, -1]).all()


def test_augmentations_are_for_training_alone():
    X, y = digits()
    seen = []

    def watch(image):
        seen.append(tuple(image.shape))
        return image

    plain = ScratchReadout(Net, random_state=0, **LEARNS).fit(X[:64], y[:64])
    watched = ScratchReadout(Net, random_state=0, augmentation=watch, **LEARNS)
    watched.fit(X[:64], y[:64])
    np.testing.assert_array_equal(watched.codelengths_, plain.codelengths_)
    # Four minibatches of 16, and a replayed one after each.
    assert seen == [(1, 8, 8)] * (4 * 2 * 16)


# Witnesses


def by_hand(module, X, y, make_optimizer, n_streams, seed, ema=1.0):
    """A plain loop of torch: predict, then a step on the new and on replayed ones."""
    network = nn.Sequential(module, nn.Linear(54, 10)).train()
    nn.init.zeros_(network[1].weight)
    nn.init.zeros_(network[1].bias)
    average = copy.deepcopy(network)
    optimizer = make_optimizer(network.parameters())
    images = torch.tensor(X.reshape(-1, 1, 8, 8) / np.float32(255))
    labels, losses = torch.tensor(y), []
    streams = ReplayStreams(n_streams, seed=seed)
    for new in range(len(y) // 16):
        rows = slice(16 * new, 16 * new + 16)
        predictor = average if ema < 1 else network
        with torch.no_grad():
            logits = predictor.eval()(images[rows])
        losses.extend(
            nn.functional.cross_entropy(logits, labels[rows], reduction="none")
        )
        for i in [new, *streams.advance()]:
            some = slice(16 * i, 16 * i + 16)
            network.train()
            loss = nn.functional.cross_entropy(
                network(images[some]), labels[some], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mine = [*average.parameters(), *average.buffers()]
            theirs = [*network.parameters(), *network.buffers()]
            for a, b in zip(mine, theirs, strict=True):
                a.data = (1 - ema) * a + ema * b if a.is_floating_point() else b.clone()
    return np.array([float(loss.detach()) for loss in losses])


@pytest.mark.parametrize(
    ("settings", "make_optimizer"),
    [
        (
            {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.01},
            lambda p: torch.optim.SGD(
                p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.01
            ),
        ),
        (
            {"optimizer": "adamw", "lr": 2e-3, "beta1": 0.5, "eps": 1e-4}
            | {"weight_decay": 0.1},
            lambda p: torch.optim.AdamW(
                p, lr=2e-3, betas=(0.5, 0.999), eps=1e-4, weight_decay=0.1
            ),
        ),
        ({"lr": 0.02, "momentum": 0}, lambda p: torch.optim.SGD(p, lr=0.02)),
    ],
    ids=["sgd", "adamw", "no momentum"],
)
@pytest.mark.parametrize("ema", [1.0, 0.2])
def test_fine_tuning_is_a_plain_loop_of_torch(settings, make_optimizer, ema):
    X, y = digits()
    X, y = X[:80], y[:80]
    module = seeded_net(dropout=0.0)
    readout = FineTunedReadout(
        TorchEncoder(module, mode="L"),
        **{**LEARNS, "n_replay_streams": 2},
        **settings,
        ema_step_size=ema,
        ema_warmup=False,
        label_smoothing=0.05,
        calibration=False,
        random_state=0,
    ).fit(X, y)
    expected = by_hand(
        copy.deepcopy(module), X, y, make_optimizer, 2, readout._seed, ema
    )
    np.testing.assert_allclose(readout.codelengths_, expected, rtol=2e-4)


def test_forward_calibration_keeps_a_network_that_is_too_sure_in_check():
    X, y = digits()
    settings = {**LEARNS, "n_replay_streams": 12, "lr": 0.3, "label_smoothing": 0}
    y = np.random.default_rng(0).integers(10, size=len(y))
    plain, calibrated = (
        ScratchReadout(Net, calibration=c, random_state=0, **settings).fit(X, y)
        for c in (False, True)
    )
    assert calibrated.codelength_ < plain.codelength_
    np.testing.assert_allclose(  # before it has learned anything
        calibrated.codelengths_[:32], plain.codelengths_[:32], rtol=1e-12
    )


@pytest.mark.parametrize("warmup", [False, True])
def test_averages_are_those_of_torch_but_counters_are_copied(warmup):
    network = seeded_net()
    average = AveragedNetwork(network, 0.1, warmup)
    witness = AveragedModel(network, multi_avg_fn=None, use_buffers=False)
    witness.multi_avg_fn = get_ema_multi_avg_fn(0.9)
    witness.n_averaged.fill_(1)  # the first update would copy
    means = [network.norm.running_mean.clone()]
    for step in range(3):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(1.0 + step)
        network.train()(torch.randn(4, 1, 8, 8, generator=torch.manual_seed(step)))
        means.append(network.norm.running_mean.clone())
        average.update(network)
        if warmup:
            witness.multi_avg_fn = get_ema_multi_avg_fn(1 - max(0.1, 1 / (step + 2)))
        witness.update_parameters(network)
    pairs = zip(average.network.parameters(), witness.module.parameters(), strict=True)
    for own, other in pairs:
        torch.testing.assert_close(own, other)
    expected = means[0]
    for step, mean in enumerate(means[1:]):
        share = max(0.1, 1 / (step + 2)) if warmup else 0.1
        expected = (1 - share) * expected + share * mean
    torch.testing.assert_close(average.network.norm.running_mean, expected)
    assert average.network.norm.num_batches_tracked == 3


FROZEN = [
    LinearReadout(),
    MLPReadout((12,), scaling="whiten", n_replay_streams=3),
    KNeighborsReadout(7),
    IncrementalReadout(GaussianNB(var_smoothing=0.1), n_replay_streams=1),
    RefitReadout(LogisticRegression(), schedule=1.5),
    LinearReadout(scaling=None, lr=1e-3, random_state=3),
]


def test_kernels_on_an_encoder_learn_minibatches_as_groups_of_rows():
    """Bit for bit, and so do codes of labels alone."""
    X, y = digits()
    X, y = X[:80], y[:80]  # whole minibatches
    one, own = encoder(), [KernelReadout(), KernelReadout("rbf"), DummyReadout()]
    with one_thread(), flushed_denormals():
        features = one.transform(X.reshape(-1, 8, 8))
    found = scored(X, y, [(one, readout) for readout in own], batch_size=16)
    alone = switcher(own, batch_size=16)
    alone.partial_fit(features, y, np.arange(10), groups=np.arange(len(y)) // 16)
    np.testing.assert_array_equal(found.readout_losses_, alone.readout_losses_)
    np.testing.assert_allclose(
        found.predict_proba(X[:9]), alone.predict_proba(features[:9]), 1e-4
    )


def test_frozen_pairs_code_as_their_readouts_do_on_features_bit_for_bit():
    X, y = digits()
    X, y = X[:80], y[:80]  # whole minibatches
    one = encoder()
    with one_thread(), flushed_denormals():
        features = one.transform(X.reshape(-1, 8, 8))
    on_features = scored(features, y, FROZEN)
    on_images = scored(X, y, [(one, readout) for readout in FROZEN])
    np.testing.assert_array_equal(
        on_images.readout_losses_, on_features.readout_losses_
    )
    np.testing.assert_allclose(
        on_images.predict_proba(X[:9]), on_features.predict_proba(features[:9]), 1e-4
    )


@pytest.mark.slow
def test_posterior_goes_over_to_a_network_that_learns():
    X, y = digits(400)
    frozen = (encoder(), LinearReadout(lr=0.01))
    scratch = ScratchReadout(
        Net, model_options={"width": 24, "dropout": 0.0}, lr=0.1, n_replay_streams=8
    )
    found = scored(X, y, [frozen, scratch])
    frozen_loss, scratch_loss = found.readout_losses_.sum(0)
    assert scratch_loss < frozen_loss
    assert found.posterior_[-1, 1] > 0.9
    assert found.codelength_ < scratch_loss + 10


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs images and weights")
def test_on_real_images_a_pretrained_network_is_worth_more_than_one_from_scratch():
    stored = np.load(SHARED / "images" / "cifar10_test.npz")
    ends, data = stored["offsets"], stored["data"]
    rows = np.random.default_rng(0).permutation(10_000)[:320]
    X = image_rows([data[ends[i] : ends[i + 1]].tobytes() for i in rows])
    pretrained = TimmEncoder(
        "mobilenetv2_035",
        pretrained=False,
        checkpoint_path=SHARED / "weights" / "mobilenetv2_035.safetensors",
        model_options={"pad_type": "same", "bn_eps": 1e-3},
        data_options={"input_size": (3, 96, 96), "mean": (0.5,) * 3, "std": (0.5,) * 3},
    )
    readouts = [
        (pretrained, LinearReadout(n_replay_streams=2)),
        FineTunedReadout(pretrained, lr=0.003, n_replay_streams=2),
        ScratchReadout("mobilenetv2_035", input_size=48, n_replay_streams=2),
    ]
    found = MDLReadoutSwitcher(readouts, random_state=0).fit(X, stored["labels"][rows])
    frozen, tuned, scratch = found.readout_codelengths_
    uniform = 320 * math.log(10)
    assert max(frozen, tuned) < 0.95 * uniform < scratch
    assert found.codelength_ < 0.8 * uniform


# Encoders are shared, and left as they are


class Returning(nn.Module):
    """A network that returns what a function makes of images."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Counting(Net):
    _n_images = 0

    def forward(self, x):
        type(self)._n_images += len(x)
        return super().forward(x)


def counting():
    Counting._n_images = 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return TorchEncoder(Counting(), mode="L", batch_size=16)


COPIES = {"shared": lambda encoder: encoder, "cloned": clone, "copied": copy.deepcopy}


@for_each("copies", COPIES)
def test_images_are_encoded_once_for_all_readouts_of_an_encoder(copies):
    X, y = digits()
    one = counting()
    pairs = [
        (COPIES[copies](one), LinearReadout(n_replay_streams=s)) for s in (0, 3, 9)
    ]
    scored(X[:80], y[:80], pairs)
    # Each module is fitted once, to one image; clones share theirs.
    n_modules = 3 if copies == "copied" else 1
    assert Counting._n_images == 80 + n_modules


def test_encoders_are_left_as_they_are():
    X, y = digits()
    one = encoder().fit(X[:1].reshape(-1, 8, 8))
    before = copy.deepcopy(one.module.state_dict())
    frozen = one._frozen.module
    scored(X, y, [(one, LinearReadout()), FineTunedReadout(one, **LEARNS)])
    FineTunedReadout(one, **LEARNS).fit(X, y)
    for module in (one.module, frozen):
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, before[name])
    assert one._frozen.module is frozen


def test_copies_of_pairs_share_modules_but_not_settings():
    one = encoder()
    for expert in (FrozenReadout(one, LinearReadout()), FineTunedReadout(one)):
        other = clone(expert)
        assert other.encoder.module is one.module
        other.set_params(encoder__layer="norm")
        assert one.layer == "last"


@for_each("delay", [0, 1, 3])
def test_the_order_of_stacks_does_not_matter_to_files(tmp_path, monkeypatch, delay):
    """It depends on the processor's cache, which may differ where a file is read."""
    (X, y), one = digits(120), timm_encoder()
    readouts = [FrozenReadout(one, LinearReadout(**FAST)) for _ in range(2)]
    readouts[1].set_params(readout=MLPReadout((4,)))
    model = MDLReadoutSwitcher(readouts, random_state=0, label_delay=delay)
    model.fit(X[:95], y[:95]).save(tmp_path / "frozen.safetensors")
    plan = _build.plan_stacks
    monkeypatch.setattr(_build, "plan_stacks", lambda *given: plan(*given)[::-1])
    loaded = MDLReadoutSwitcher.load(tmp_path / "frozen.safetensors")
    (learner,), (other,) = model._run.learners, loaded._run.learners
    assert learner.columns == other.columns[::-1]
    for each in (model, loaded):
        each.partial_fit(X[95:], y[95:])
    np.testing.assert_array_equal(model.codelengths_, loaded.codelengths_)


def test_encoders_behind_a_cache_serve_as_well(tmp_path):
    X, y = digits()
    X, y = X[:64], y[:64]
    cached = CachedEncoder(encoder(), tmp_path)
    experts = [(cached, LinearReadout()), FineTunedReadout(cached, **LEARNS)]
    plain = [(encoder(), LinearReadout()), FineTunedReadout(encoder(), **LEARNS)]
    np.testing.assert_array_equal(
        scored(X, y, experts).readout_losses_, scored(X, y, plain).readout_losses_
    )
    assert len(list(tmp_path.glob("*.safetensors"))) == 4  # minibatches


def test_threads_that_prepare_images_change_no_bit():
    X, y = digits()
    (losses,) = scored(
        X[:40], y[:40], [FineTunedReadout(encoder(n_jobs=2), **LEARNS)]
    ).readout_losses_.T
    (plain,) = scored(
        X[:40], y[:40], [FineTunedReadout(encoder(), **LEARNS)]
    ).readout_losses_.T
    np.testing.assert_array_equal(losses, plain)


def test_inner_layers_can_be_tuned_with_their_pooling():
    X, y = digits()
    one = TorchEncoder(seeded_net(), mode="L", layer=["norm", "second"], pool="max")
    readout = FineTunedReadout(one, random_state=0, **LEARNS).fit(X, y)
    assert readout.net_.module_.head.in_features == 4 + 6


def test_networks_of_timm_can_be_tuned_and_trained_from_scratch():
    X, y = digits()
    X, y = X[:40], y[:40]
    readouts = [
        FineTunedReadout(timm_encoder(), **LEARNS),
        (timm_encoder(), LinearReadout()),
        ScratchReadout("test_resnet", input_size=16, **LEARNS),
    ]
    found = scored(X, y, readouts)
    assert found.readout_names_[0].startswith("fine-tuned")
    assert found.readout_names_[1].startswith("frozen linear")
    assert found.readout_names_[2].startswith("test_resnet from scratch")
    again = pickle.loads(pickle.dumps(found)).partial_fit(*[a[:16] for a in (X, y)])
    found.partial_fit(X[:16], y[:16])
    np.testing.assert_array_equal(again.readout_losses_, found.readout_losses_)


# Networks


def test_pixels_are_cropped_at_the_centre_and_scaled():
    images = torch.zeros(1, 4, 8, 1, dtype=torch.uint8)
    images[:, :, 2:6] = 255
    found = PixelTrunk(nn.Identity(), 2).prepare(images)
    torch.testing.assert_close(found, torch.ones(1, 1, 2, 2))
    plain = PixelTrunk(nn.Identity(), None).prepare(images)
    assert (plain.shape, plain.min(), plain.max()) == ((1, 1, 4, 8), -1, 1)


def test_a_minibatch_of_one_row_is_learned_with_running_statistics():
    network = HeadedNetwork(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4)), 4, 3)
    x = torch.arange(8.0).view(2, 1, 2, 2)
    network.train()(x[:1])
    norm = network.trunk[1]
    assert norm.num_batches_tracked == 0
    assert norm.training
    network.train()(x)
    assert norm.num_batches_tracked == 1


@for_each("kind", KINDS)
@for_each("batch_size, n_rows", [(1, 5), (16, 33), (16, 1)])
def test_streams_that_end_in_one_row_can_be_predicted_from(kind, batch_size, n_rows):
    X, y = digits()
    readout = KINDS[kind](batch_size=batch_size, random_state=0)
    readout.partial_fit(X[:n_rows], y[:n_rows], classes=range(10))
    assert np.isfinite(readout.predict_log_proba(X[:3])).all()


@pytest.mark.parametrize("kind", LEARNING)
def test_networks_that_diverge_predict_uniformly(kind):
    X, y = digits()
    readouts = [KINDS[kind](lr=1e30), KINDS[kind]()]
    found = scored(X, y, readouts)
    assert found.diverged_readouts_ == found.readout_names_[:1]
    np.testing.assert_allclose(found.readout_losses_[32:, 0], math.log(10))
    assert np.isfinite(found.predict_log_proba(X[:3])).all()


def test_seeds_of_steps_differ():
    seeds = {drawn_seed(seed, step) for seed in range(3) for step in range(50)}
    assert len(seeds) == 150


# Kept, and gone on with


def restored(found, X, n_rows):
    other = switcher()
    other._begin(X.shape[1], np.arange(10), seed=found._seed)
    other._run.begin(X[:n_rows])
    run = found._run
    resume(other._run, progress_of(run), run.trace.losses)
    other._run.end()
    other.n_features_in_ = X.shape[1]
    return other


@pytest.mark.parametrize("n_rows", [64, 40, 10])
def test_what_is_learned_can_be_handed_over(n_rows):
    X, y = digits()
    found = scored(X[:n_rows], y[:n_rows])
    other = restored(found, X, n_rows)
    for one in (found, other):
        one.partial_fit(X[n_rows:], y[n_rows:])
    np.testing.assert_array_equal(other.readout_losses_, found.readout_losses_)


def test_pools_of_timm_are_kept_in_files_and_go_on(tmp_path):
    X, y = digits()
    readouts = [
        FineTunedReadout(timm_encoder(), ema_step_size=0.5, **LEARNS),
        (timm_encoder(), LinearReadout(n_replay_streams=1)),
        ScratchReadout("test_resnet", optimizer="adamw", input_size=16, **LEARNS),
    ]
    found = scored(X[:40], y[:40], readouts)
    found.save(tmp_path / "run.safetensors")
    other = MDLReadoutSwitcher.load(tmp_path / "run.safetensors")
    for one in (found, other):
        one.partial_fit(X[40:56], y[40:56])
    np.testing.assert_array_equal(other.readout_losses_, found.readout_losses_)


def test_networks_of_another_shape_are_not_taken_over():
    X, y = digits()
    one = scored(X[:32], y[:32], [ScratchReadout(Net, **LEARNS)])
    other = ScratchReadout(Net, model_options={"width": 3}, **LEARNS)
    (learner,) = scored(X[:1], y[:1], [other])._run.learners
    with pytest.raises(ValueError, match=r"needs network\.trunk.* to continue"):
        learner.load_state_dict(one._run.learners[0].state_dict())


def test_notes_of_wrapped_classifiers_inside_pairs_are_reported():
    X, y = digits()
    failing = RefitReadout(LogisticRegression(solver="liblinear"))
    found = scored(X, y, [LinearReadout(), (encoder(), failing)])
    (notes,) = found.readout_notes_.items()
    assert notes[0] == "frozen LogisticRegression refitted"
    assert "liblinear" in " ".join(notes[1])


# Refusals


@for_each(
    "readout, error, words",
    [
        (lambda: FineTunedReadout("resnet50"), ValueError, "'encoder' parameter"),
        (lambda: FineTunedReadout(encoder(), lr=0), ValueError, "'lr' parameter"),
        (
            lambda: FineTunedReadout(encoder(), augmentation="blur"),
            ValueError,
            "'augmentation' parameter",
        ),
        (
            lambda: ScratchReadout("resnet5"),
            ValueError,
            "^model must be .*'resnet5'; pass one",
        ),
        (lambda: ScratchReadout(3), ValueError, "'model' parameter"),
        (
            lambda: ScratchReadout(dict),
            TypeError,
            "returns a torch.nn.Module, but it returned dict; pass a function that",
        ),
        (
            lambda: ScratchReadout(nn.Flatten()),
            TypeError,
            "returns a torch.nn.Module, but it is itself a module; pass a function",
        ),
        (
            lambda: ScratchReadout(lambda: nn.Conv2d(1, 2, 3)),
            ValueError,
            r"must return vectors \(n, width\), but it returned \(1, 2, 6, 6\); end it "
            r"with nn\.AdaptiveAvgPool2d\(1\) and nn\.Flatten\(\)$",
        ),
        (
            lambda: ScratchReadout(lambda: Returning(lambda x: {"out": x.flatten(1)})),
            ValueError,
            r"must return vectors \(n, width\), but it returned dict; return only the "
            r"features, for example output\[0\] or output\['out'\]$",
        ),
        (
            lambda: ScratchReadout(lambda: Returning(lambda x: x.mean((1, 2, 3)))),
            ValueError,
            r"must return vectors \(n, width\), but it returned \(1,\); return "
            r"output\.reshape\(len\(output\), -1\)$",
        ),
        (
            lambda: ScratchReadout(Net, image_shape=(8, 8, 3)),
            ValueError,
            r"image_shape must be .*\(H, W, C\) with product 64.*got \(8, 8, 3\)",
        ),
        (
            lambda: ScratchReadout(Net, augmentation=lambda image: image[:, :4]),
            ValueError,
            r"must keep the type and shape of images, but it .*uint8 \(1, 4, 8\) for .*"
            r"\(1, 8, 8\); end it with Resize\(\[8, 8\]\)$",
        ),
        (
            lambda: ScratchReadout(Net, augmentation=lambda image: image.float()),
            ValueError,
            r"must keep the type and shape of images, but it .*float32 \(1, 8, 8\) for"
            r".*; return values from 0 to 255 as image\.to\(torch\.uint8\)$",
        ),
        (
            lambda: ScratchReadout(Net, augmentation=lambda image: image[0]),
            ValueError,
            r"must keep the type and shape of images, but it .*uint8 \(8, 8\) for"
            r".*; return image\.expand\(1, -1, -1\)$",
        ),
        (
            lambda: ScratchReadout(Net, augmentation=lambda image: image / 255),
            ValueError,
            r"must keep the type and shape of images, but it .*float32 \(1, 8, 8\) for"
            r".*; end it with ConvertImageDtype\(torch\.uint8\), without Normalize$",
        ),
        (
            lambda: ScratchReadout(
                Net, augmentation=lambda image: image.repeat(3, 1, 1)
            ),
            ValueError,
            r"must keep the type and shape of images, but it .*uint8 \(3, 8, 8\) for.*"
            r"; return Grayscale\(\)\(image\)\.expand\(1, -1, -1\)$",
        ),
        (
            lambda: ScratchReadout(Net, augmentation=lambda image: image.numpy()),
            ValueError,
            r"must keep the type and shape of images, but it .*ndarray for.*; end it "
            r"with torchvision\.transforms\.v2\.ToImage\(\)$",
        ),
        (
            lambda: ScratchReadout(
                Net, augmentation=lambda image: image[:, int(image[0, 2, 3]) % 2 :]
            ),
            ValueError,
            r"must keep the type and shape of images, but it .*uint8 \(1, 7, 8\) for",
        ),
        (
            lambda: FrozenReadout(encoder(), ScratchReadout(Net)),
            TypeError,
            r"readout of features, not of images.*; use that readout directly, not on",
        ),
        (
            lambda: (encoder(), GaussianNB()),
            TypeError,
            "wrap it: IncrementalReadout",
        ),
        (lambda: (Net(), LinearReadout()), ValueError, "'encoder' parameter"),
        (lambda: (encoder(),), TypeError, "Readouts must be LinearReadout"),
    ],
)
def test_readouts_are_refused_in_a_sentence(readout, error, words):
    X, y = digits()
    found = switcher([readout()])
    with pytest.raises(error, match=words):
        found.fit(X, y)
    assert not hasattr(found, "classes_")


@for_each("value", [0.5, -1, 256, 3e7])
def test_rows_that_are_no_pixels_are_refused_and_the_stream_goes_on(value):
    X, y = digits()
    unknown = X.astype(float)
    unknown[3, 5] = value
    words = rf"row 3, column 5 must .* got {float(value)}; pass image_rows"
    kinds = [KINDS[kind](random_state=0) for kind in KINDS]
    for one in (*kinds, switcher([(encoder(), LinearReadout())])):
        one.partial_fit(X[:20], y[:20], classes=range(10))
        for call in (one.partial_fit, one.fit):
            with pytest.raises(ValueError, match=words):
                call(unknown, y)
        with pytest.raises(ValueError, match=words):
            one.predict(unknown)
        assert one.n_samples_seen_ == 20
        one.partial_fit(X[20:40], y[20:40])


def test_rows_that_are_no_square_are_refused():
    X, y = digits()
    with pytest.raises(ValueError, match=r"3 \* H \* H, got 63; pass image_shape"):
        ScratchReadout(Net).fit(X[:, 1:], y)


def test_a_callable_that_returns_one_module_leaves_it_untrained():
    """Otherwise random labels would be learned from one fit to the next."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(256, size=(96, 64)), rng.integers(3, size=96)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
    before = [parameter.clone() for parameter in module.parameters()]
    readout = ScratchReadout(
        lambda: module,
        image_shape=(8, 8, 1),
        optimizer="adamw",
        lr=1e-2,
        random_state=0,
    )
    codes = [clone(readout).fit(X, y).codelength_ for _ in range(2)]
    assert codes[0] == codes[1]
    assert all(map(torch.equal, module.parameters(), before))
