"""From a plain list of readouts to as few stacks as possible."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sklearn_mdl.readouts.plan import plan_stacks, stack_size
from sklearn_mdl.readouts.stack import Averaging, Member, ReadoutStack, Shape, Training
from sklearn_mdl.scaling import check_width


def stack_readouts(
    readouts: Sequence[Any],
    n_features: int,
    n_classes: int,
    *,
    seed: int,
    device: torch.device,
    n_jobs: int = 1,
    scalings: Sequence[str | None] | None = None,
) -> list[ReadoutStack]:
    """Gather readouts of one shape into modules with a leading readout axis.

    Parameters
    ----------
    readouts : sequence of LinearReadout or MLPReadout
        In any order; a stack's ``columns`` remember the places.
    n_features, n_classes : int
        Width of the features and number of classes.
    seed : int
        Stands in where a readout's ``random_state`` is None.
    device : torch.device
    n_jobs : int, default=1
        Stacks that will walk side by side.
    scalings : sequence of {"standard", "whiten", None}, default=None
        How rows will be handed over, if others walk beside these readouts; None takes
        the scalings that the readouts ask for.

    Returns
    -------
    stacks : list of ReadoutStack
        The most expensive first. Trainings of one shape share a stack, except that on a
        CPU a stack is cut where its state would not stay in cache while it walks, or
        where one job would wait for another. A stack equals its parts: numbers of a
        readout depend neither on its neighbours nor on their order.

    Raises
    ------
    ValueError
        If a readout asks to whiten more than ``MAX_WHITENED_FEATURES`` features.
    MemoryError
        If the readouts together need more memory than the device has.
    """
    groups: dict[Shape, list[Member]] = {}
    for column, readout in enumerate(readouts):
        check_width(readout.scaling, n_features)
        groups.setdefault(_shape(readout), []).append(_member(readout, column, seed))
    if scalings is None:
        scalings = list(dict.fromkeys(readout.scaling for readout in readouts))
    sizes = {shape: stack_size(shape, n_features, n_classes) for shape in groups}
    plan = plan_stacks(groups, sizes, device, n_jobs)
    return [
        ReadoutStack(shape, members, scalings, n_features, n_classes, device)
        for shape, members in plan
    ]


def hidden_widths(sizes: Any) -> tuple[int, ...]:
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


def _shape(readout: Any) -> Shape:
    sizes = hidden_widths(readout.hidden_layer_sizes)
    return Shape(sizes, int(readout.n_replay_streams), float(readout.recency))


def _member(readout: Any, column: int, seed: int) -> Member:
    if readout.random_state is not None:
        seed = int(check_random_state(readout.random_state).randint(2**31 - 1))
    settings = {name: float(getattr(readout, name)) for name in Training._fields[2:]}
    averaging = Averaging(*(getattr(readout, name) for name in Averaging._fields))
    return Member(column, Training(readout.scaling, seed, **settings), averaging)
