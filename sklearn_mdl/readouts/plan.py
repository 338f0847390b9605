"""How trainings are dealt out to stacks: by cache, by jobs, and within memory.

Cutting a stack is a matter of speed alone, since a stack equals its parts. Large stacks
spread the cost of a call over many trainings; small ones keep weights, gradients and
moments in cache from one step to the next, and can walk side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from sklearn_mdl.arithmetic import last_level_cache, memory_of
from sklearn_mdl.readouts.stack import Member, Shape
from sklearn_mdl.stacked import count_parameters

# Bytes of state that a stack on a CPU holds at most, if it is more than one training: a
# third of the cache, which also holds averages and activations, or the gain of size
# where cache is plenty (measured: benchmarks/bench_stacks.py cache).
CACHE = min((last_level_cache() or 2**25) // 3, 50_000_000)
# And at least, if it is cut so that jobs need not wait for each other: the calls of
# smaller stacks are so short that threads pass the interpreter to and fro instead.
WORTH_A_JOB = 10_000_000
FLOAT = 4


class StackSize(NamedTuple):
    """What one training of a shape needs.

    Attributes
    ----------
    n_parameters : int
        Weights and biases.
    n_updates : int
        Optimiser steps for every minibatch: the new one, and one per replay stream.
    """

    n_parameters: int
    n_updates: int

    @property
    def bytes(self) -> int:
        """Weights, gradients and two moments; averaged weights come on top."""
        return 4 * FLOAT * self.n_parameters

    @property
    def cost(self) -> int:
        """Parameters updated for every minibatch."""
        return self.n_parameters * self.n_updates


def stack_size(shape: Shape, n_features: int, n_classes: int) -> StackSize:
    """Return what one training of a shape needs."""
    sizes = (n_features, *shape.hidden_layer_sizes, n_classes)
    return StackSize(count_parameters(sizes), shape.n_replay_streams + 1)


def plan_stacks(
    groups: Mapping[Shape, Sequence[Member]],
    sizes: Mapping[Shape, StackSize],
    device: torch.device,
    n_jobs: int,
) -> list[tuple[Shape, list[Member]]]:
    """Deal the members of every shape out to stacks, the most expensive first.

    Raises
    ------
    MemoryError
        If all of them together do not fit into the device's memory.
    """
    check_memory(groups, sizes, device)
    counts = {shape: len(_trainings(members)) for shape, members in groups.items()}
    total = sum(counts[shape] * size.cost for shape, size in sizes.items())
    plan = []
    for shape, members in groups.items():
        n_parts, whole = 1, counts[shape] * sizes[shape].cost
        if device.type == "cpu":
            state = counts[shape] * sizes[shape].bytes
            shares = -(-whole * n_jobs // total) if n_jobs > 1 else 1
            n_parts = max(-(-state // CACHE), min(shares, state // WORTH_A_JOB), 1)
            n_parts = min(counts[shape], n_parts)
        parts = _cut(members, n_parts)
        plan += [(whole / n_parts, shape, part) for part in parts]
    plan.sort(key=lambda entry: -entry[0])  # stable: equals stay in their order
    return [(shape, part) for _, shape, part in plan]


def _trainings(members: Sequence[Member]) -> list[object]:
    return list(dict.fromkeys(member.training for member in members))


def _cut(members: Sequence[Member], n_parts: int) -> list[list[Member]]:
    """Cut members into parts with nearly equal numbers of trainings."""
    trainings = _trainings(members)
    place = {t: i * n_parts // len(trainings) for i, t in enumerate(trainings)}
    parts: list[list[Member]] = [[] for _ in range(n_parts)]
    for member in members:
        parts[place[member.training]].append(member)
    return parts


def check_memory(
    groups: Mapping[Shape, Sequence[Member]],
    sizes: Mapping[Shape, StackSize],
    device: torch.device,
) -> None:
    """Refuse readouts whose states do not fit, before any is made.

    Raises
    ------
    MemoryError
        If weights, gradients, moments and averages exceed the device's memory.
    """
    available = memory_of(device)
    needed = {shape: _bytes_of(groups[shape], size) for shape, size in sizes.items()}
    total = sum(needed.values())
    if available is None or total <= available:
        return
    shape = max(needed, key=lambda s: needed[s])
    raise MemoryError(
        f"The readouts need {total / 1e9:.3g} GB for weights, gradients, moments and "
        f"averages, {needed[shape] / 1e9:.3g} GB of it for the {len(groups[shape])} of "
        f"hidden layers {shape.hidden_layer_sizes}, {sizes[shape].bytes / 1e9:.3g} GB "
        f"for a single one, but {device} has {available / 1e9:.3g} GB; take fewer or "
        "smaller readouts"
    )


def _bytes_of(members: Sequence[Member], size: StackSize) -> int:
    averages = {
        (member.training, member.averaging.ema_step_size, member.averaging.ema_warmup)
        for member in members
        if member.averaging.ema_step_size < 1
    }
    trained = len(_trainings(members)) * size.bytes
    return trained + len(averages) * FLOAT * size.n_parameters
