"""What must hold where the run runs on a GPU, as far as a CPU can tell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core.nets import adamw
from sklearn_mdl._core.stream.outcomes import (
    ClassLabels,
    RealTargets,
    TargetScaling,
    mixture_moments,
)
from sklearn_mdl._core.stream.steps import prequential_steps
from sklearn_mdl.readouts import (
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    _build as plan,
    build_learners,
)

# Operators whose result, or the shape of it, the host must wait for.
WAITING = {
    "_local_scalar_dense",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "unique_dim",
    "_unique2",
}


class Calls(TorchDispatchMode):
    """Counts operators, and masks that index."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name == "index":
            chosen = [i for i in args[1] if i is not None]
            name = "nonzero" if any(i.dtype == torch.bool for i in chosen) else name
        self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def pool():
    """Readouts with all that a stack can do: averages, calibration, two scalings."""
    return [
        LinearReadout(scaling="standard", n_replay_streams=3),
        LinearReadout(scaling="whiten", ema_step_size=1.0, n_replay_streams=3),
        MLPReadout((7, 5), scaling=None, n_replay_streams=2, recency=0.5),
        MLPReadout((7, 5), ema_warmup=True, n_replay_streams=2, recency=0.5),
    ]


def calls_of_a_run(monkeypatch, n_rows):
    """Count the operators of a segment of rows behind the first 64."""
    monkeypatch.setattr(adamw, "_way_of", lambda device: adamw._Formula)
    X, y = load_digits(return_X_y=True)
    switcher = MDLReadoutSwitcher(pool(), batch_size=16, random_state=0, device="cpu")
    switcher.partial_fit(X[:64], y[:64], classes=np.arange(10))
    run = switcher._run
    labels = torch.as_tensor(y[64 : 64 + n_rows])
    run.begin(X[64 : 64 + n_rows].astype(np.float32))
    run.threads.open(64 + n_rows)
    with Calls() as calls:
        for learner, state in zip(run.learners, run.threads.states, strict=True):
            steps = prequential_steps(learner, state, run.outcome, 64 + n_rows)
            next(steps)
            for start in range(0, n_rows, 16):
                try:
                    steps.send(labels[start : start + 16])
                except StopIteration:
                    break
    return calls.counts


def test_the_host_never_waits_for_the_device_inside_the_run(monkeypatch):
    counts = calls_of_a_run(monkeypatch, 48)
    assert counts["bmm"] > 0  # the run is what was counted
    assert {name: counts[name] for name in WAITING if counts[name]} == {}


def test_the_calls_of_a_step_do_not_grow_with_the_readouts(monkeypatch):
    few = sum(calls_of_a_run(monkeypatch, 48).values())
    settings = [(lr, decay) for lr in (1e-3, 3e-3) for decay in (0.0, 0.1)]
    many = [
        readout.set_params(lr=lr, weight_decay=decay)
        for lr, decay in settings
        for readout in pool()
    ]
    monkeypatch.setattr(f"{__name__}.pool", lambda: many)
    assert sum(calls_of_a_run(monkeypatch, 48).values()) == pytest.approx(few, rel=0.1)


@pytest.fixture
def fake_gpu(monkeypatch):
    """A GPU whose tensors have no numbers, but mix with those of no other device."""
    monkeypatch.setattr(plan, "memory_of", lambda device: None)
    monkeypatch.setattr(adamw, "has_triton", lambda device: False)
    # Fake tensors cannot be swapped; stacks are made on the GPU instead.
    monkeypatch.setattr(nn.Module, "to", lambda module, *args, **kwargs: module)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield torch.device("cuda")


def test_classifiers_mix_no_tensors_of_two_devices(fake_gpu):
    with fake_gpu:
        stacks = build_learners(pool(), 5, 3, seed=0, device=fake_gpu)
    x = torch.zeros(3, 8, 5, device=fake_gpu)
    y = torch.zeros(8, dtype=torch.long, device=fake_gpu)
    outcome = ClassLabels(3)
    for stack in stacks:
        stack.update(x, y, iter([(x, y)]))
        values = outcome.predict(stack, x)
        assert outcome.losses(values, y).device.type == "cuda"
    with pytest.raises(RuntimeError, match="same device"):  # or nothing is tested
        outcome.losses(values, y.cpu())


def test_regressors_mix_no_tensors_of_two_devices(fake_gpu):
    readouts = [
        LinearReadoutRegressor(likelihood="student-t"),
        LinearReadoutRegressor(scaling="whiten"),
        MLPReadoutRegressor((4,), heteroscedastic=False),
    ]
    with fake_gpu:
        stacks = build_learners(readouts, 5, 3, seed=0, device=fake_gpu)
    x = torch.zeros(2, 8, 5, device=fake_gpu)
    y = torch.zeros(8, dtype=torch.float64, device=fake_gpu)
    outcome = RealTargets(0.0, 1.0)
    for stack in stacks:
        stack.retarget(TargetScaling(8, 0.0, 1.0))
        stack.update(x, y, iter([(x, y)]))
        stack.retarget(TargetScaling(16, 1.0, 2.0))
        values = outcome.predict(stack, x)
        instead = torch.where(values.isnan(), outcome.fallback(values), values)
        weights = torch.ones_like(values[..., 0])
        found = [outcome.losses(values, y), instead, *mixture_moments(values, weights)]
        assert {tensor.device.type for tensor in found} == {"cuda"}
