"""From a plain list of readouts to as few stacks as possible."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sklearn_mdl.readouts.density_stack import N_OUTPUTS, DensityStack
from sklearn_mdl.readouts.plan import plan_stacks, stack_size
from sklearn_mdl.readouts.stack import (
    Averaging,
    DensityTraining,
    Member,
    ReadoutStack,
    Shape,
    Training,
)
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
    if scalings is None:
        scalings = _scalings(readouts)
    groups = _groups(readouts, Training, seed)
    return [
        ReadoutStack(shape, members, scalings, n_features, n_classes, device)
        for shape, members in _plan(
            readouts, groups, n_features, n_classes, device, n_jobs
        )
    ]


def stack_regressors(
    readouts: Sequence[Any],
    n_features: int,
    *,
    seed: int,
    device: torch.device,
    n_jobs: int = 1,
) -> list[DensityStack]:
    """Gather regressors of one shape, as :func:`stack_readouts` does classifiers.

    Parameters
    ----------
    readouts : sequence of LinearReadoutRegressor or MLPReadoutRegressor
    n_features, seed, device, n_jobs
        As there.

    Returns
    -------
    stacks : list of DensityStack

    Raises
    ------
    ValueError, MemoryError
        As there.
    """
    scalings = _scalings(readouts)
    groups = _groups(readouts, DensityTraining, seed)
    return [
        DensityStack(shape, members, scalings, n_features, N_OUTPUTS, device)
        for shape, members in _plan(
            readouts, groups, n_features, N_OUTPUTS, device, n_jobs
        )
    ]


def _scalings(readouts: Sequence[Any]) -> list[str | None]:
    return list(dict.fromkeys(readout.scaling for readout in readouts))


def _groups(
    readouts: Sequence[Any], kind: type[Training | DensityTraining], seed: int
) -> dict[Shape, list[Member]]:
    groups: dict[Shape, list[Member]] = {}
    for column, readout in enumerate(readouts):
        member = _member(readout, column, seed, kind)
        groups.setdefault(_shape(readout), []).append(member)
    return groups


def _plan(
    readouts: Sequence[Any],
    groups: dict[Shape, list[Member]],
    n_features: int,
    n_outputs: int,
    device: torch.device,
    n_jobs: int,
) -> list[tuple[Shape, list[Member]]]:
    for readout in readouts:
        check_width(readout.scaling, n_features)
    sizes = {shape: stack_size(shape, n_features, n_outputs) for shape in groups}
    return plan_stacks(groups, sizes, device, n_jobs)


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


def architecture_of(sizes: Any) -> str:
    """Return the short name of a shape: "linear", "mlp 2x256", "mlp 256-64"."""
    widths = hidden_widths(sizes)
    if not widths:
        return "linear"
    if len(set(widths)) == 1:
        return f"mlp {len(widths)}x{widths[0]}"
    return "mlp " + "-".join(map(str, widths))


def _shape(readout: Any) -> Shape:
    sizes = hidden_widths(readout.hidden_layer_sizes)
    return Shape(sizes, int(readout.n_replay_streams), float(readout.recency))


def _member(
    readout: Any, column: int, seed: int, kind: type[Training | DensityTraining]
) -> Member:
    if readout.random_state is not None:
        seed = int(check_random_state(readout.random_state).randint(2**31 - 1))
    settings = {name: float(getattr(readout, name)) for name in kind._fields[2:]}
    averaging = Averaging(*(getattr(readout, name) for name in Averaging._fields))
    return Member(column, kind(readout.scaling, seed, **settings), averaging)
