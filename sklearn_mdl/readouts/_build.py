"""Settings shared by a run's learners, and the assignment of networks to stacks.

Networks of the same shape share as few stacks as the cache and the jobs allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.numerics import last_level_cache, memory_of
from sklearn_mdl._core.stream.learner import FeatureView, Learner
from sklearn_mdl.readouts._stack import Member, NetStack, Shape

# On a CPU, a stack is split if the state of its networks is larger than this number of
# bytes. A third of the cache leaves room for averages and activations. Stacks larger
# than 50 MB were no faster (``python -m benchmarks stacks cache``).
CACHE = min((last_level_cache() or 2**25) // 3, 50_000_000)
# If a stack is split to balance jobs, its parts hold at least this many bytes of state
# on average. Computations on smaller parts would be so short that threads would compete
# for the interpreter.
WORTH_A_JOB = 10_000_000
FLOAT = 4
LAYER = 2**14  # bytes of a layer's objects in a stack, however narrow the layer is

Key = TypeVar("Key")
Value = TypeVar("Value")
Members = Sequence[tuple[int, Value]]  # (column, readout) pairs


class StackSize(NamedTuple):
    """Size and cost of training one network of a given shape.

    Attributes
    ----------
    n_parameters : int
        Number of weights and biases.
    n_updates : int
        Optimiser steps for each minibatch of new rows: one on these rows, and one for
        each replay stream before the number of streams falls.
    """

    n_parameters: int
    n_updates: int

    @property
    def bytes(self) -> int:
        """Bytes of weights, gradients and both moments, but not of averaged weights."""
        return 4 * FLOAT * self.n_parameters

    @property
    def cost(self) -> int:
        """Number of parameters times the number of optimiser steps per minibatch."""
        return self.n_parameters * self.n_updates


def plan_stacks(
    groups: Mapping[Shape, Sequence[Member]],
    sizes: Mapping[Shape, StackSize],
    device: torch.device,
    n_jobs: int,
) -> list[tuple[Shape, list[Member]]]:
    """Assign the members of each shape to stacks, most expensive stack first."""
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
        plan += [(whole / n_parts, shape, part) for part in _cut(members, n_parts)]
    return [entry[1:] for entry in sorted(plan, key=lambda entry: -entry[0])]  # stable


def _trainings(members: Sequence[Member]) -> list[object]:
    return list(dict.fromkeys(member.training for member in members))


def _cut(members: Sequence[Member], n_parts: int) -> list[list[Member]]:
    """Divide members into parts that train nearly equal numbers of networks.

    Members that share a network stay together.
    """
    trainings = _trainings(members)
    place = {t: i * n_parts // len(trainings) for i, t in enumerate(trainings)}
    return list(grouped((place[m.training], m) for m in members).values())


def reserve_memory(
    groups: Mapping[Shape, Sequence[Member]],
    sizes: Mapping[Shape, StackSize],
    context: Context,
) -> None:
    """Add the bytes of networks to those built so far, or raise if they do not fit.

    Raises
    ------
    MemoryError
        If the size of the device's memory is known, and weights, gradients, moments and
        averages exceed it.
    """
    available = memory_of(device := context.device)
    needed = {
        shape: _bytes_of(members, sizes[shape]) + LAYER * len(shape.hidden_layer_sizes)
        for shape, members in groups.items()
    }
    context.built.append(sum(needed.values()))
    total = sum(context.built)
    if available is None or total <= available:
        return
    shape = max(needed, key=lambda s: needed[s])
    raise MemoryError(
        f"The readouts need at least {total / 1e9:.3g} GB for weights, gradients, "
        f"moments and averages, but {device} has {available / 1e9:.3g} GB; pass fewer "
        "readouts, features or hidden units: hidden_layer_sizes="
        f"{shape.hidden_layer_sizes} needs {sizes[shape].bytes / 1e9:.3g} GB for each "
        f"trained network, and {needed[shape] / 1e9:.3g} GB for "
        f"{len(groups[shape])} readouts of this shape"
    )


def _bytes_of(members: Sequence[Member], size: StackSize) -> int:
    averages = {
        (member.training, member.averaging.ema_step_size, member.averaging.ema_warmup)
        for member in members
        if member.averaging.ema_step_size < 1
    }
    trained = len(_trainings(members)) * size.bytes
    return trained + len(averages) * FLOAT * size.n_parameters


class Context(NamedTuple):
    """Settings that all learners of a run share.

    Attributes
    ----------
    n_features : int
    n_classes : int
        Length of the vector that describes a label's distribution: the number of
        classes, or 3 for densities.
    seed : int
        Seed of the run, and of readouts whose ``random_state`` is None.
    device : torch.device
    built : list of int
        Bytes of the networks that were built so far, on all views.
    n_jobs : int
        Number of learners evaluated in parallel.
    precision : str
        Precision of matrix products while stacks of networks are trained.
    may_grow : bool
        True if new classes may appear in the stream.
    view : FeatureView
        Columns of X that the learners see, and the scalings of these columns.
    retired : collection of int
        Positions of readouts that are dropped before they predict. Their networks,
        which a saved file does not hold, are not built.
    """

    n_features: int
    n_classes: int
    seed: int
    device: torch.device
    built: list[int]
    n_jobs: int = 1
    precision: str = "float32"
    may_grow: bool = False
    view: FeatureView = FeatureView()
    retired: Collection[int] = ()


class RetiredNetworks(Learner):
    """Stand-in for networks that are dropped before they predict."""

    is_numbers = True

    def __init__(self, columns: list[int], view: FeatureView) -> None:
        self.columns, self.view = columns, view

    def predict(self, x: Tensor) -> Tensor:
        """Raise, since the run must drop these networks."""
        raise RuntimeError(f"retired networks cannot predict, got {self.columns}")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Group values by key; keys and values keep their order of appearance."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def build_stacks(
    members: Sequence[tuple[Shape, Member]], context: Context, kind: type[NetStack]
) -> list[Learner]:
    """Build stacks of networks, each stack with networks of the same shape.

    Parameters
    ----------
    members : sequence of (Shape, Member)
    context : Context
    kind : type
        ``ReadoutStack`` or ``DensityStack``.

    Raises
    ------
    MemoryError
        If the size of the device's memory is known, and the networks do not fit.
    """
    groups = grouped(members)
    n_outputs = kind.n_outputs or context.n_classes
    sizes = {}
    for shape in groups:
        widths = (context.n_features, *shape.hidden_layer_sizes, n_outputs)
        sizes[shape] = StackSize(count_parameters(widths), shape.replay.n_streams + 1)
    awake = grouped(pair for pair in members if pair[1].column not in context.retired)
    reserve_memory(awake, sizes, context)
    options = context.view, context.n_features, n_outputs, context.device
    learners: list[Learner] = []
    # Stacks have the same order as if retired networks had been built and dropped.
    for shape, part in plan_stacks(groups, sizes, context.device, context.n_jobs):
        kept = [m for m in part if m.column not in context.retired]
        retired = [m.column for m in part if m.column in context.retired]
        learners += [RetiredNetworks(retired, context.view)] if retired else []
        learners += [kind(shape, kept, *options)] if kept else []
    return learners


def hidden_widths(sizes: object) -> tuple[int, ...]:
    """Convert the widths of hidden layers, an int or a sequence, to a tuple."""
    array = np.atleast_1d(np.asarray(sizes, dtype=object))
    widths = array.tolist()
    is_valid = all(isinstance(width, Integral) and int(width) > 0 for width in widths)
    if array.ndim != 1 or not is_valid:
        raise ValueError(
            "hidden_layer_sizes must be positive integers, one for each hidden layer, "
            f"got {sizes!r}; for example, pass hidden_layer_sizes=(512,)"
        )
    return tuple(int(width) for width in widths)
