"""Probes: the paper's accuracy protocols, as classifiers whose settings are chosen."""

import pickle
import tracemalloc
from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from sklearn_mdl._core.nets.mlp import StackedMLP
from sklearn_mdl.baselines import (
    KNeighborsProbe,
    LinearProbe,
    MLPProbe,
    _base as standardising,
)
from sklearn_mdl.baselines._net_probes import (
    DEPTHS,
    EVALUATED_AT_ONCE,
    _rows_at_once,
    checkpoints,
)

QUICK = {"lr": (1e-3, 1e-2), "weight_decay": (0.0, 1e-2), "max_steps": 80}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, random_state=0)


@pytest.fixture(scope="module")
def quick(digits):
    X, _, y, _ = digits
    return LinearProbe(**QUICK, random_state=0).fit(X, y)


# Nets


def test_a_linear_probe_is_as_accurate_as_a_logistic_regression(digits):
    X, X_test, y, y_test = digits
    scaler = StandardScaler().fit(X)
    reference = LogisticRegression(max_iter=1000).fit(scaler.transform(X), y)
    accuracy = reference.score(scaler.transform(X_test), y_test)
    probe = LinearProbe(weight_decay=0.0, max_steps=500, random_state=0).fit(X, y)
    assert abs(probe.score(X_test, y_test) - accuracy) < 0.02


def test_hidden_layers_tell_moons_apart_that_no_line_does():
    X, y = make_moons(600, noise=0.1, random_state=0)
    line = LinearProbe(lr=0.01, weight_decay=0.0, max_steps=200, random_state=0)
    nets = MLPProbe(
        [(), (32,), (32, 32)],
        lr=0.01,
        weight_decay=0.0,
        max_steps=200,
        random_state=0,
    )
    rows = X[:400], y[:400]
    assert line.fit(*rows).score(X[400:], y[400:]) < 0.92
    assert nets.fit(*rows).score(X[400:], y[400:]) > 0.97
    assert nets.best_params_["hidden_layer_sizes"] != ()


def test_the_default_grid_is_the_papers():
    probe = MLPProbe()
    assert probe.batch_size == 1024
    assert probe.validation_fraction == 0.1
    assert probe.lr == (1e-4, 3e-4, 1e-3, 3e-3)
    assert probe.weight_decay == (0.0, 1e-6, 1e-4, 1e-2)
    assert probe.ema_step_size == (1e-4, 1e-2, 1.0)
    assert [len(widths) for widths in DEPTHS] == [1, 2, 3, 4, 5, 6, 7]
    assert LinearProbe().get_params().items() <= probe.get_params().items()


def test_every_setting_is_tried_at_every_checkpoint(quick):
    assert quick.steps_.tolist() == [10, 20, 40, 80]
    assert quick.validation_losses_.shape == quick.validation_scores_.shape == (12, 4)
    tried = [(s["lr"], s["weight_decay"], s["ema_step_size"]) for s in quick.settings_]
    grid = product((1e-3, 1e-2), (0.0, 1e-2), (1e-4, 1e-2, 1.0))
    assert tried == list(grid)


@pytest.mark.parametrize(("last", "steps"), [(1, [1]), (15, [15]), (33, [8, 16, 33])])
def test_checkpoints_are_halves_of_the_last(last, steps):
    assert checkpoints(last) == steps


def test_the_setting_of_the_smallest_loss_is_kept(quick):
    losses = quick.validation_losses_
    setting, checkpoint = np.unravel_index(losses.argmin(), losses.shape)
    wanted = {**quick.settings_[setting], "n_steps": quick.steps_[checkpoint]}
    assert quick.best_params_ == wanted


def test_its_predictions_are_those_of_the_weights_that_were_best(digits, quick):
    X, _, y, _ = digits
    _, held_out, _ = quick._split(len(X))
    log_proba = quick.predict_log_proba(X[held_out])
    loss = -log_proba[np.arange(len(held_out)), y[held_out]].mean()
    assert_allclose(loss, quick.validation_losses_.min(), rtol=1e-6)
    hits = np.mean(quick.predict(X[held_out]) == y[held_out])
    assert hits in quick.validation_scores_[quick.validation_losses_.argmin() // 4]


def test_a_setting_is_tried_alike_whatever_else_is(digits, quick):
    X, _, y, _ = digits
    alone = LinearProbe(**{**QUICK, "lr": 1e-2}, random_state=0).fit(X, y)
    assert_array_equal(alone.validation_losses_, quick.validation_losses_[6:])


def test_it_follows_torchs_adamw_on_full_batches():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = (X[:, 0] > 1).astype(int)  # of unequal numbers: no slope is nearly zero
    probe = LinearProbe(
        lr=0.01, weight_decay=0.1, ema_step_size=1.0, max_steps=5, random_state=0
    ).fit(X, y)
    learned, _, _ = probe._split(40)
    scaled = probe._scaler.transform(X[learned].astype(np.float64))
    layer = torch.nn.Linear(3, 2)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        logits = layer(torch.tensor(scaled, dtype=torch.float32))
        torch.nn.functional.cross_entropy(logits, torch.tensor(y[learned])).backward()
        optimizer.step()
    weight, bias = probe._net.pairs[0]
    assert_allclose(weight[0].numpy(), layer.weight.detach().numpy(), atol=1e-6)
    assert_allclose(bias[0, 0].numpy(), layer.bias.detach().numpy(), atol=1e-6)


def test_averaged_weights_predict_where_they_won():
    """One lr far too large: only the mean of its weights predicts well."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    probe = LinearProbe(
        lr=1.0,
        weight_decay=0.0,
        ema_step_size=(1e-2, 1.0),
        batch_size=32,
        max_steps=200,
        random_state=0,
    ).fit(X, y)
    assert probe.best_params_["ema_step_size"] == 1e-2
    _, held_out, _ = probe._split(400)
    log_proba = probe.predict_log_proba(X[held_out])
    loss = -log_proba[np.arange(len(held_out)), y[held_out]].mean()
    assert_allclose(loss, probe.validation_losses_.min(), rtol=1e-6)


def test_held_out_rows_are_not_learned(digits):
    X, _, y, _ = digits
    probe = LinearProbe(**QUICK, random_state=0)
    learned, held_out, _ = probe._split(len(X))
    assert sorted([*learned, *held_out]) == list(range(len(X)))
    assert len(held_out) == np.ceil(0.1 * len(X))
    changed = X.copy()
    changed[held_out] = 0.0
    probe.set_params(lr=0.01, weight_decay=0.0, ema_step_size=1.0, max_steps=9)
    one, other = clone(probe).fit(X, y), clone(probe).fit(changed, y)
    assert one.best_params_ == other.best_params_
    assert torch.equal(one._net.pairs[0][0], other._net.pairs[0][0])


@pytest.mark.parametrize("kind", [LinearProbe, MLPProbe])
def test_an_invalid_setting_names_the_probe(kind):
    with pytest.raises(ValueError, match=rf"'lr' parameter of {kind.__name__} must be"):
        kind(lr=-1).fit(np.eye(20), np.arange(20) % 2)


def test_what_diverged_is_never_chosen(digits):
    X, _, y, _ = digits
    probe = MLPProbe(
        (16,), lr=(1e-2, 1e30), weight_decay=0.0, max_steps=20, random_state=0
    ).fit(X, y)
    assert np.isinf(probe.validation_losses_[3:, -1]).any()
    assert np.isnan(probe.validation_scores_[np.isinf(probe.validation_losses_)]).all()
    assert probe.best_params_["lr"] == 1e-2
    said = "^At least one setting must converge, but none did; pass lr=1e-05$"
    with pytest.raises(ValueError, match=said):
        clone(probe).set_params(lr=1e30, ema_step_size=1.0).fit(X, y)
    said = "none did; pass lr=1e-05 and scaling='standard'$"
    with pytest.raises(ValueError, match=said):
        clone(probe).set_params(lr=1e30, ema_step_size=1.0, scaling=None).fit(X, y)


def test_a_seed_decides_everything(digits, quick):
    X, X_test, y, _ = digits
    again = LinearProbe(**QUICK, random_state=0).fit(X, y)
    assert_array_equal(again.predict_proba(X_test), quick.predict_proba(X_test))
    other = LinearProbe(**QUICK, random_state=1).fit(X, y)
    assert not np.array_equal(other.predict_proba(X_test), quick.predict_proba(X_test))


def test_log_probabilities_are_finite_where_probabilities_are_not_above_zero(
    digits, quick
):
    _, X_test, *_ = digits
    log_proba = quick.predict_log_proba(1e5 * X_test)
    assert not quick.predict_proba(1e5 * X_test).all()
    assert np.isfinite(log_proba).all()


@pytest.mark.parametrize("width", [2, 4096])
def test_rows_tried_at_once_are_fewer_where_layers_are_wide(width):
    net = StackedMLP((5, width, 3), [0])
    outputs = _rows_at_once(net, 1) * max(width, 3)
    assert outputs <= EVALUATED_AT_ONCE < outputs + max(width, 3)


def test_standardised_rows_are_those_of_scikit_learns_scaler_block_by_block(
    digits, quick, monkeypatch
):
    X, X_test, y, _ = digits
    monkeypatch.setattr(standardising, "SCALED_AT_ONCE", 100 * X.shape[1])
    blocks = LinearProbe(**QUICK, random_state=0).fit(X, y)
    learned, *_ = blocks._split(len(X))
    whole = StandardScaler().fit(X[learned])
    assert_allclose(blocks._scaler.mean_, whole.mean_, atol=1e-12)
    assert_allclose(blocks._scaler.scale_, whole.scale_, atol=1e-12)
    assert_allclose(
        blocks.predict_proba(X_test), quick.predict_proba(X_test), atol=1e-5
    )


def test_standardising_takes_no_copy_of_all_rows_in_float64():
    X = np.random.default_rng(0).normal(size=(4000, 2500)).astype(np.float32)
    y = np.arange(len(X)) % 2
    probe = LinearProbe(lr=1e-3, weight_decay=0.0, ema_step_size=1.0, max_steps=8)
    tracemalloc.start()
    try:
        probe.set_params(random_state=0).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * X.nbytes


def test_a_pickled_probe_predicts_the_same(digits, quick):
    copy = pickle.loads(pickle.dumps(quick))
    assert_array_equal(copy.predict(digits[1]), quick.predict(digits[1]))


@pytest.mark.parametrize("scaling", ["standard", None])
@pytest.mark.parametrize(
    "laid_out", [np.asfortranarray, lambda X: X[::-1].copy()[::-1]], ids=["F", "-"]
)
def test_how_rows_lie_in_memory_changes_no_bit(digits, laid_out, scaling):
    X, X_test, y, _ = (array.astype(np.float32) for array in digits)
    probe = LinearProbe(lr=0.01, max_steps=9, scaling=scaling, random_state=0)
    expected = probe.fit(X, y).predict_proba(X_test)
    found = probe.fit(laid_out(X), y).predict_proba(laid_out(X_test))
    assert_array_equal(found, expected)


def test_labels_may_be_words_and_features_tensors(digits, quick):
    X, X_test, y, _ = digits
    words = np.array([f"digit {c}" for c in range(10)])
    probe = LinearProbe(**QUICK, random_state=0).fit(torch.tensor(X), words[y])
    found = probe.predict(torch.tensor(X_test))
    assert_array_equal(found, words[quick.predict(X_test)])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": (1e-3, 0.0)}, "'lr' parameter of LinearProbe"),
        ({"lr": ()}, "lr must hold at least one"),
        ({"weight_decay": -1.0}, "'weight_decay' parameter"),
        ({"ema_step_size": (1.0, 1.5)}, "'ema_step_size' parameter"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"validation_fraction": 0.9999}, "validation_fraction .* rows for training"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, words, digits, quick):
    X, _, y, _ = digits
    probe = pickle.loads(pickle.dumps(quick)).set_params(**settings)
    before = dict(vars(probe))
    with pytest.raises(ValueError, match=words):
        probe.fit(X, y)
    assert vars(probe) == before


def test_shapes_are_checked(digits):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match="hidden_layer_sizes must be positive"):
        MLPProbe([(16,), (0,)], max_steps=1).fit(X, y)


# Neighbours


def test_neighbours_vote_as_scikit_learns_do(digits):
    X, X_test, y, _ = digits
    probe = KNeighborsProbe((3, 7), temperature=0.1, random_state=0).fit(X, y)
    learned, held_out, _ = probe._split(len(X))

    def classifier(k):
        return KNeighborsClassifier(
            k, metric="cosine", weights=lambda d: np.exp(-d / 0.1)
        )

    scores = [
        classifier(k).fit(X[learned], y[learned]).score(X[held_out], y[held_out])
        for k in (3, 7)
    ]
    assert_allclose(probe.validation_scores_, scores)
    best = classifier(probe.best_params_["n_neighbors"]).fit(X, y)
    assert_allclose(probe.predict_proba(X_test), best.predict_proba(X_test), atol=1e-4)


def test_numbers_of_neighbours_beyond_the_rows_are_left_out():
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 10)
    probe = KNeighborsProbe((1, 5, 50), random_state=0).fit(X, [0, 1] * 10)
    assert [s["n_neighbors"] for s in probe.settings_] == [1, 5]
    probe = KNeighborsProbe(50, random_state=0).fit(X, [0, 1] * 10)
    assert probe.best_params_ == {"n_neighbors": 1}


def test_of_equally_good_numbers_of_neighbours_the_smallest_is_taken():
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    probe = KNeighborsProbe((7, 3, 5), random_state=0).fit(X, [0, 1] * 20)
    assert probe.best_params_ == {"n_neighbors": 3}


def test_votes_of_many_rows_and_classes_take_little_room():
    n_classes = 200
    y = np.repeat(np.arange(n_classes), 15)
    X = np.eye(n_classes, dtype=np.float32)[y]
    tracemalloc.start()
    try:
        probe = KNeighborsProbe((10, 100), random_state=0).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_array_equal(probe.validation_scores_, 1.0)
    n_held_out = len(y) // 10
    assert peak < n_held_out * 100 * n_classes * 8  # all votes at once


def test_a_sharp_temperature_overflows_nothing(digits):
    X, X_test, y, y_test = digits
    probe = KNeighborsProbe((20,), temperature=1e-9, random_state=0).fit(X, y)
    one = KNeighborsClassifier(1, metric="cosine").fit(X.astype(np.float32), y)
    assert_array_equal(probe.predict(X_test), one.predict(X_test.astype(np.float32)))
    assert probe.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("k", [0, (), (1, 2.5), "many"])
def test_numbers_of_neighbours_are_checked(k):
    with pytest.raises(ValueError, match="n_neighbors"):
        KNeighborsProbe(k).fit([[0.0], [1.0]] * 10, [0, 1] * 10)
