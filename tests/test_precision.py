"""Factors of short numbers in steps of networks: what is rounded, and what is not."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core import numerics
from sklearn_mdl._core.nets import mlp
from sklearn_mdl._core.nets.mlp import OF_PRECISION, RoundedMLP, StackedMLP
from sklearn_mdl._core.numerics import rounded_product
from sklearn_mdl.cli._main import main
from sklearn_mdl.readouts import MLPReadoutRegressor

X, Y = load_digits(return_X_y=True)
X, Y = X[:150].astype(np.float32), Y[:150]
READOUTS = [
    LinearReadout(),
    MLPReadout((16,), lr=0.01, n_replay_streams=2),
    MLPReadout((16,), lr=0.003, ema_step_size=0.1, n_replay_streams=2),
    MLPReadout((12, 8), lr=0.01),
]
needs_bfloat16 = pytest.mark.skipif(
    not torch.cpu._is_avx512_bf16_supported(), reason="needs AVX-512 BF16"
)


def switcher(readouts=READOUTS, **settings):
    settings = {"precision": "bfloat16", "device": "cpu", "random_state": 0} | settings
    return MDLReadoutSwitcher(readouts, **settings)


def short(x):
    """Round to eight bits, to nearest and even, by the bits of float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) << 16).view(np.float32)


# What is rounded


def test_products_are_those_of_rounded_factors():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 5, 70)), rng.normal(size=(3, 70, 9))
    given = (torch.tensor(m, dtype=torch.float32).bfloat16() for m in (a, b))
    found = rounded_product(*given)
    assert found.dtype == torch.float32
    expected = short(a).astype(float) @ short(b).astype(float)
    assert_allclose(found.numpy(), expected, rtol=2**-8, atol=1e-5)


def test_a_step_is_that_of_its_definition():
    """Forward and backward pass of two hidden layers, by numpy in float64."""
    net = RoundedMLP((6, 5, 4, 3), [0, 1])
    x, grad = torch.randn(7, 6), torch.randn(2, 7, 3)
    with torch.no_grad():
        net.pairs[-1][0].normal_()
    found = [h.detach() for h in net.activations(x)]
    net.backward(found, grad)
    for member in range(2):
        params = [[p[member].detach().numpy() for p in pair] for pair in net.pairs]
        (w1, b1), (w2, b2), (w3, b3) = params
        h1 = np.maximum(short(x) @ short(w1).T + b1, 0)
        h2 = np.maximum(short(h1) @ short(w2).T + b2, 0)
        close = {"rtol": 2**-6, "atol": 2**-6}
        assert_allclose(found[2][member], h2, **close)
        assert_allclose(found[3][member], h2 @ w3.T + b3, rtol=0, atol=0.1)
        g = grad[member].numpy()
        exact = found[2][member].numpy()
        own = [[p.grad[member].numpy() for p in pair] for pair in net.pairs]
        assert_allclose(own[2][0], g.T @ exact, rtol=1e-5, atol=1e-5)  # not rounded
        g2 = (g @ w3) * (exact > 0)
        assert_allclose(own[1][0], short(g2).T @ short(found[1][member]), **close)
        g1 = (short(g2) @ short(w2)) * (found[1][member].numpy() > 0)
        assert_allclose(own[0][0], short(g1).T @ short(x), rtol=2**-6, atol=2**-5)
        assert_allclose(own[0][1][0], g1.sum(0), rtol=2**-6, atol=2**-5)


@needs_bfloat16
def test_predictions_parameters_and_moments_are_float32():
    fitted = switcher().fit(X, Y)
    for learner in fitted._run.learners:
        net = learner.net
        kept = [*net.module_.parameters(), *net.optimizer_.moments()]
        assert {tensor.dtype for tensor in kept} == {torch.float32}
        rows = torch.randn(5, X.shape[1])
        assert isinstance(net.module_, RoundedMLP)
        full = StackedMLP.activations(net.module_, rows)[-1]
        assert torch.equal(net.module_(rows), full)
    full = switcher(precision="float32").fit(X, Y)
    ours, theirs = fitted.readout_losses_, full.readout_losses_
    assert_array_equal(ours[:32, 1:], theirs[:32, 1:])  # until something was learned
    assert_array_equal(ours[:, 0], theirs[:, 0])  # a linear readout hides no layer
    assert (ours[64:, 1:] != theirs[64:, 1:]).any(0).all()
    assert_allclose(ours.sum(0), theirs.sum(0), rtol=0.01)


# The laws of the project hold


@needs_bfloat16
def test_a_stack_equals_its_parts():
    whole = switcher().fit(X, Y)
    for k, readout in enumerate(READOUTS):
        alone = switcher([readout]).fit(X, Y)
        assert_array_equal(alone.readout_losses_[:, 0], whole.readout_losses_[:, k])


@needs_bfloat16
def test_neither_calls_nor_jobs_nor_races_change_a_bit():
    whole = switcher().fit(X, Y)
    parts = switcher()
    for start, end in ((0, 5), (5, 70), (70, 101), (101, 150)):
        parts.partial_fit(X[start:end], Y[start:end], classes=np.unique(Y))
    side_by_side = switcher(n_jobs=2).fit(X, Y)
    for other in (parts, side_by_side):
        assert_array_equal(other.readout_losses_, whole.readout_losses_)
    learner = whole._run.learners[0]
    before = learner.logits(torch.ones(1, 4, X.shape[1]))
    if len(learner.columns) > 1:
        learner.retire(learner.columns[:1])
        kept = learner.logits(torch.ones(1, 4, X.shape[1]))
        assert torch.equal(kept, before[1:])
        assert isinstance(learner.net.module_, RoundedMLP)


@needs_bfloat16
def test_files_and_messages_know_it(tmp_path):
    fitted = switcher().fit(X[:80], Y[:80])
    fitted.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    for each in (found, fitted):
        each.partial_fit(X[80:], Y[80:])
    assert_array_equal(found.codelengths_, fitted.codelengths_)
    message = encode_labels(switcher(READOUTS[1:2]), X[:60], Y[:60])
    decoded = decode_labels(switcher(READOUTS[1:2]), X[:60], message)
    assert_array_equal(decoded, Y[:60])
    with pytest.raises(ValueError, match=r"precision.*float32.*bfloat16"):
        decode_labels(switcher(READOUTS[1:2], precision="float32"), X[:60], message)
    for precision in ("bfloat16", "float32"):
        again = switcher(READOUTS[:2], precision=precision, checkpoint=tmp_path / "c")
        again.fit(X, Y)
    assert len(list((tmp_path / "c").iterdir())) == 2  # each has its own


@needs_bfloat16
def test_regressors_and_the_command_line_have_it(tmp_path, capsys):
    losses = [
        MDLReadoutSwitcherRegressor(
            [MLPReadoutRegressor((16,))], precision=precision, random_state=0
        )
        .fit(X, X[:, 20])
        .codelength_
        for precision in ("float32", "bfloat16")
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    np.save(tmp_path / "X.npy", X[:60])
    np.save(tmp_path / "y.npy", Y[:60])
    files = [str(tmp_path / name) for name in ("X.npy", "y.npy")]
    (tmp_path / "features" / "d").mkdir(parents=True)
    np.save(tmp_path / "features" / "d" / "a.npy", X[:60])
    np.save(tmp_path / "features" / "d" / "labels.npy", Y[:60])
    folders = [
        str(tmp_path / "features"),
        "--n-jobs",
        "1",
        "--out",
        str(tmp_path / "o"),
    ]
    for command in (["score", *files], ["rank", *folders]):
        assert main([*command, "--precision", "tf32", "--device", "cpu"]) != 0
        assert "precision='tf32' needs a GPU" in capsys.readouterr().err


# What is refused


def test_what_the_device_lacks_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"'tf32' needs a GPU .*, but cpu does not"):
        switcher(precision="tf32").fit(X, Y)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    with pytest.raises(ValueError, match=r"'bfloat16' needs a CPU with AVX-512 BF16"):
        switcher().fit(X, Y)
    with pytest.raises(ValueError, match="'precision' parameter"):
        switcher(precision="float16").fit(X, Y)


@pytest.mark.parametrize(
    ("precision", "capability", "n_jobs", "message"),
    [
        ("bfloat16", 8, 2, None),
        ("bfloat16", 7, 1, "compute capability 8.0"),
        ("tf32", 9, 1, None),
        ("tf32", 7, 1, "compute capability 8.0"),
        ("tf32", 8, 2, "pass n_jobs=1"),
    ],
)
def test_gpus_are_asked_what_they_are(
    monkeypatch, precision, capability, n_jobs, message
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda d: (capability, 0))
    given = precision, torch.device("cuda"), n_jobs
    if message is None:
        numerics.check_precision(*given)
        return
    with pytest.raises(ValueError, match=message):
        numerics.check_precision(*given)


def test_the_setting_of_torch_is_that_of_a_step_alone(monkeypatch):
    """TF32 is a setting of the process; a CPU does not know it."""
    sizes, x, grad = (6, 5, 3), torch.randn(4, 6), torch.randn(2, 4, 3)
    nets = [kind(sizes, [0, 1]) for kind in (StackedMLP, OF_PRECISION["tf32"])]
    seen, before = [], torch.get_float32_matmul_precision()
    bmm = torch.bmm

    def recording(*given, **options):
        seen.append(torch.get_float32_matmul_precision())
        return bmm(*given, **options)

    monkeypatch.setattr(mlp.torch, "bmm", recording)
    for net in nets:
        net.backward(net.activations(x), grad)
    assert seen == [before] * 3 + ["high"] * 3
    assert torch.get_float32_matmul_precision() == before
    for mine, theirs in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(mine.grad, theirs.grad)
