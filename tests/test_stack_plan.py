"""How trainings are dealt out to stacks: a matter of speed, never of bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from each_case import for_each
from sklearn.datasets import load_digits

from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.numerics import flushed_denormals
from sklearn_mdl.readouts import ViewReadout, _build as plan, build_learners

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:The best readout should lie")
POOL = readout_grid(
    hidden_layer_sizes=[(), (9,), (40, 40)],
    lr=[1e-3, 3e-3, 1e-2],
    ema_step_size=[1.0, 0.1],
    n_replay_streams=3,
)


def stacks(readouts=POOL, n_jobs=1):
    return build_learners(readouts, 64, 10, seed=0, device=CPU, n_jobs=n_jobs)


def widths(found):
    return [stack.net.module_.n_members for stack in found]


def scored(n_jobs=None, readouts=POOL, **options):
    X, y = load_digits(return_X_y=True)
    switcher = MDLReadoutSwitcher(readouts, random_state=0, n_jobs=n_jobs, **options)
    return switcher.fit(X[:200], y[:200])


def state_bytes(stack):
    """Bytes of weights, gradients, moments and averages, once the stack has learned."""
    net, averages = stack.net, stack.averages
    tensors = list(net.module_.parameters())
    held = [*tensors, *(p.grad for p in tensors)]
    for moments in (net.optimizer_.state[p] for p in tensors):
        held += [moments["exp_avg"], moments["exp_avg_sq"]]
    held += [p for copy in averages.copies for pair in copy.pairs for p in pair]
    return sum(tensor.nbytes for tensor in held)


def test_trainings_of_one_shape_share_a_stack_where_it_stays_in_cache():
    assert widths(stacks()) == [3, 3, 3]


def test_large_stacks_are_cut_evenly_and_averages_stay_with_their_training(monkeypatch):
    monkeypatch.setattr(plan, "CACHE", 150_000)  # one of 40, 40 takes 74 KB
    found = stacks()
    assert widths(found) == [2, 1, 3, 3]
    columns = sorted(column for stack in found for column in stack.columns)
    assert columns == list(range(len(POOL)))
    for stack in found:
        assert len(stack.columns) == 2 * stack.net.module_.n_members


def test_one_training_larger_than_the_cache_is_a_stack_of_its_own(monkeypatch):
    monkeypatch.setattr(plan, "CACHE", 1)
    assert widths(stacks()) == [1] * 9


def test_stacks_are_cut_for_jobs_if_the_parts_are_worth_it(monkeypatch):
    assert widths(stacks(n_jobs=2)) == [3, 3, 3]
    monkeypatch.setattr(plan, "WORTH_A_JOB", 50_000)
    assert widths(stacks(n_jobs=2)) == [2, 1, 3, 3]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cutting_changes_no_bit(monkeypatch, n_jobs):
    whole = scored()
    monkeypatch.setattr(plan, "CACHE", 1)
    found = scored(n_jobs)
    np.testing.assert_array_equal(found.readout_losses_, whole.readout_losses_)
    assert found.measures() == whole.measures()


def test_products_of_a_new_thread_keep_to_one_core(monkeypatch):
    # Where nothing else comes first: weights that are not averaged, one to a stack.
    monkeypatch.setattr(plan, "CACHE", 1)
    readouts = [r for r in POOL if r.ema_step_size == 1 and not r.hidden_layer_sizes]
    one, three = (scored(n_jobs, readouts, batch_size=16) for n_jobs in (1, 3))
    np.testing.assert_array_equal(three.readout_losses_, one.readout_losses_)


def test_memory_is_counted_as_it_is_taken(monkeypatch):
    counted = []
    count = plan._bytes_of
    monkeypatch.setattr(
        plan, "_bytes_of", lambda *given: counted.append(count(*given)) or counted[-1]
    )
    X, y = load_digits(return_X_y=True)
    switcher = MDLReadoutSwitcher(POOL, random_state=0).fit(X[:64], y[:64])
    taken = [state_bytes(stack) for stack in switcher._run.learners]
    assert sorted(counted) == sorted(taken)


def test_readouts_that_do_not_fit_are_refused_with_their_sizes(monkeypatch):
    monkeypatch.setattr(plan, "memory_of", lambda device: 300_000)
    words = (
        r"^The readouts need at least 0\.000\d+ GB for weights, gradients, moments and "
        r"averages, but cpu has 0\.0003 GB; pass fewer readouts, features or hidden "
        r"units: "
        r"hidden_layer_sizes=\(40, 40\) needs 7\S+-05 GB for each trained network, "
        r"and 0\.000\d+ GB for 6 readouts of this shape$"
    )
    with pytest.raises(MemoryError, match=words):
        stacks()
    views = [ViewReadout(POOL[-1], slice(i, 64)) for i in range(3)]
    assert widths(stacks(views[:2])) == [1, 1]
    with pytest.raises(MemoryError, match=r"^The readouts need at least 0\.000\d+ GB"):
        stacks(views)


def test_memory_that_the_system_does_not_tell_is_not_checked(monkeypatch):
    monkeypatch.setattr(plan, "memory_of", lambda device: None)
    assert widths(stacks()) == [3, 3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@for_each("before", [True, False])
def test_the_thread_gets_its_denormals_back(before, dtype):
    number = torch.tensor(1e-40)
    torch.set_flush_denormal(before)
    torch.set_default_dtype(dtype)
    try:
        with flushed_denormals():
            assert not (number * 1.0).any()
        assert bool((number * 1.0).any()) is not before
    finally:
        torch.set_flush_denormal(False)
        torch.set_default_dtype(torch.float32)
