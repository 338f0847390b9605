"""From a list of readouts to learners: one builder for all kinds of readouts.

Networks of one shape become stacks, as few as memory and jobs allow.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.numerics import last_level_cache, memory_of
from sklearn_mdl._core.stream.learner import FeatureView, Learner, Replay
from sklearn_mdl._core.stream.scaling import check_width
from sklearn_mdl.readouts._stack import Averaging, Member, NetStack, Shape

if TYPE_CHECKING:
    from sklearn_mdl.readouts._base import Readout
    from sklearn_mdl.readouts._nets import NetReadout

# Bytes of state that a stack on a CPU holds at most, if it is more than one training: a
# third of the cache, which also holds averages and activations, or the gain of size
# where cache is plenty (measured: python -m benchmarks stacks cache).
CACHE = min((last_level_cache() or 2**25) // 3, 50_000_000)
# And at least, if it is cut so that jobs need not wait for each other: the calls of
# smaller stacks are so short that threads pass the interpreter to and fro instead.
WORTH_A_JOB = 10_000_000
FLOAT = 4


class StackSize(NamedTuple):
    """Size and cost of one training of a shape.

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
        """Weights, gradients and two moments; averaged weights are extra."""
        return 4 * FLOAT * self.n_parameters

    @property
    def cost(self) -> int:
        """Parameters updated for every minibatch."""
        return self.n_parameters * self.n_updates


def plan_stacks(
    groups: Mapping[Shape, Sequence[Member]],
    sizes: Mapping[Shape, StackSize],
    device: torch.device,
    n_jobs: int,
) -> list[tuple[Shape, list[Member]]]:
    """Distribute the members of every shape over stacks, the most expensive first.

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


def state_bytes(readout: Readout, n_features: int, n_outputs: int) -> int:
    """Bytes of weights, gradients, moments and averages; 0 for other readouts."""
    hidden = getattr(readout, "hidden_layer_sizes", None)
    if hidden is None:
        return 0
    widths = (n_features, *hidden_widths(hidden), n_outputs)
    return 5 * FLOAT * count_parameters(widths)


def shared_work(readout: Readout, seed: int) -> Hashable:
    """Name what a readout trains or computes: equal names are worked out once.

    Networks that differ in averaging alone are one training, and kernels that differ in
    their noise alone have one kernel matrix.
    """
    if readout.stack is None:
        return readout.pool_group
    net = cast("NetReadout", readout)
    member = _member(net, 0, seed, readout.stack)
    widths = hidden_widths(net.hidden_layer_sizes)
    return widths, _replay_of(net), member.training


class Context(NamedTuple):
    """Settings that all learners of one run have in common.

    Attributes
    ----------
    n_features : int
    n_classes : int
        Numbers that name the distribution of a label: classes, or 3 for densities.
    seed : int
        Stands in where a ``random_state`` is None.
    device : torch.device
    n_jobs : int
        Learners that will be evaluated side by side.
    precision : str
        Of the factors by which stacks of networks learn.
    may_grow : bool
        True if classes may be added that are not named.
    view : FeatureView
        Columns of X that learners are shown, and in which scalings.
    """

    n_features: int
    n_classes: int
    seed: int
    device: torch.device
    n_jobs: int = 1
    precision: str = "float32"
    may_grow: bool = False
    view: FeatureView = FeatureView()

    def place_of(self, readout: Readout) -> int:
        """Place of the scaling in which the learner of a readout is given rows."""
        return self.view.scalings.index(scaling_of(readout))


def scaling_of(readout: Readout) -> str | None:
    """Scaling of the rows that the learner of a readout is given."""
    return None if readout.takes_raw_rows else readout.scaling


def build_learners(
    readouts: Sequence[Readout] | Mapping[int, Readout],
    n_features: int,
    n_classes: int,
    **settings: Any,
) -> list[Learner]:
    """Make the learners of a list of readouts, of classes or of real numbers.

    Parameters
    ----------
    readouts : sequence of readouts, or mapping of int to readout
        In any order; a learner's ``columns`` remember the places: those in the
        sequence, or the keys, for some of the readouts of a run.
    n_features, n_classes : int
    **settings
        As in :class:`Context`.

    Returns
    -------
    learners : list of Learner
        Stacks of networks, the most expensive first, then the learners of others.
        Networks of one shape share a stack, except that on a CPU a stack is cut where
        its state would not stay in cache, or where one job would wait for another. A
        stack equals its parts: numbers of a readout depend neither on its neighbours
        nor on their order.

    Raises
    ------
    ValueError
        If a readout asks to whiten more than ``MAX_WHITENED_FEATURES`` features.
    MemoryError
        If the readouts together need more memory than the device has.
    """
    by_place = readouts if isinstance(readouts, Mapping) else dict(enumerate(readouts))
    return learners_in(Context(n_features, n_classes, **settings), by_place)


def learners_in(context: Context, by_place: Mapping[int, Readout]) -> list[Learner]:
    """Make the learners of readouts in a context, in the scalings that they need."""
    for readout in by_place.values():
        check_width(readout.scaling, context.n_features)
    scalings = list(dict.fromkeys(map(scaling_of, by_place.values())))
    context = context._replace(view=context.view._replace(scalings=scalings))
    stacked: dict[type[NetStack], list[tuple[int, NetReadout]]] = {}
    others: dict[type[Readout], list[tuple[int, Readout]]] = {}
    for column, readout in by_place.items():
        if readout.stack is not None:
            member = column, cast("NetReadout", readout)
            stacked.setdefault(readout.stack, []).append(member)
        else:
            others.setdefault(type(readout), []).append((column, readout))
    learners: list[Learner] = []
    for stack, nets in stacked.items():
        learners += build_stacks(nets, context, stack)
    for family, members in others.items():
        learners += family.learners_of(members, context)
    return learners


def build_stacks(
    members: Sequence[tuple[int, NetReadout]], context: Context, kind: type[NetStack]
) -> list[NetStack]:
    """Gather networks of one shape into modules with a leading readout axis.

    Parameters
    ----------
    members : sequence of (int, readout)
        Each with its place among all readouts.
    context : Context
    kind : type
        ``ReadoutStack`` or ``DensityStack``.
    """
    groups: dict[Shape, list[Member]] = {}
    for column, readout in members:
        widths = hidden_widths(readout.hidden_layer_sizes)
        shape = Shape(widths, _replay_of(readout), context.precision)
        own = _member(readout, column, context.seed, kind)
        groups.setdefault(shape, []).append(own)
    n_outputs = kind.n_outputs or context.n_classes
    sizes = {}
    for shape in groups:
        widths = (context.n_features, *shape.hidden_layer_sizes, n_outputs)
        sizes[shape] = StackSize(count_parameters(widths), shape.replay.n_streams + 1)
    return [
        kind(shape, part, context.view, context.n_features, n_outputs, context.device)
        for shape, part in plan_stacks(groups, sizes, context.device, context.n_jobs)
    ]


def _replay_of(readout: NetReadout) -> Replay:
    return Replay(int(readout.n_replay_streams), float(readout.recency))


def _member(
    readout: NetReadout, column: int, seed: int, kind: type[NetStack]
) -> Member:
    names = kind.training._fields[2:]  # behind scaling and seed
    settings = {name: float(getattr(readout, name)) for name in names}
    averaging = Averaging(*(getattr(readout, name) for name in Averaging._fields))
    training = kind.training(readout.scaling, readout.seed_or(seed), **settings)
    return Member(column, training, averaging)


def hidden_widths(sizes: object) -> tuple[int, ...]:
    """Return widths of hidden layers as a tuple of int, from one or from a sequence."""
    array = np.atleast_1d(np.asarray(sizes, dtype=object))
    widths = array.tolist()
    if array.ndim != 1 or not all(
        isinstance(w, Integral) and int(w) > 0 for w in widths
    ):
        raise ValueError(
            "hidden_layer_sizes must be positive integers, one for each hidden layer, "
            f"got {sizes!r}; give for example (512,)"
        )
    return tuple(int(width) for width in widths)


def architecture_of(sizes: object) -> str:
    """Return the short name of a shape: "linear", "mlp 2x256", "mlp 256-64"."""
    widths = hidden_widths(sizes)
    if not widths:
        return "linear"
    if len(set(widths)) == 1:
        return f"mlp {len(widths)}x{widths[0]}"
    return "mlp " + "-".join(map(str, widths))
