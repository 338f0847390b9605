"""Settings of a net trained side by side, and the best of them on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sklearn_mdl.arithmetic import flushed_denormals
from sklearn_mdl.readouts import ReadoutStack, stack_readouts
from sklearn_mdl.stacked import StackedMLP

Floats = NDArray[np.float64]
EVALUATED_AT_ONCE = 2**23  # outputs of a layer
FEWEST_STEPS = 8  # before which no weights are tried


class Rows(NamedTuple):
    """Rows on a device."""

    x: Tensor  # (n, d), float32
    y: Tensor  # (n,), int64


class Schedule(NamedTuple):
    """How long nets are trained, and on what."""

    max_steps: int
    batch_size: int
    seed: int


class Trials(NamedTuple):
    """What came of all settings.

    Attributes
    ----------
    steps : ndarray of shape (n_checkpoints,)
    losses, scores : ndarray of shape (n_settings, n_checkpoints)
        Mean log-loss in nats and accuracy on held-out rows.
    best : (int, int)
        Setting and checkpoint of the smallest loss.
    net : StackedMLP
        The weights that they left: a stack of one.
    """

    steps: NDArray[np.int64]
    losses: Floats
    scores: Floats
    best: tuple[int, int]
    net: StackedMLP


def checkpoints(max_steps: int) -> list[int]:
    """Return numbers of steps at which nets are tried: the last, and halves of it."""
    found = [max_steps]
    while found[-1] // 2 >= FEWEST_STEPS:
        found.append(found[-1] // 2)
    return found[::-1]


def try_readouts(
    readouts: Sequence[Any],
    learned: Rows,
    held_out: Rows,
    n_classes: int,
    schedule: Schedule,
) -> Trials:
    """Train every readout on minibatches, and keep the best on held-out rows.

    Those of one shape are trained as stacks, with the same minibatches for all, so that
    the numbers of one do not depend on which others are tried. Shapes follow each
    other: memory holds the stacks of one.

    Parameters
    ----------
    readouts : sequence of LinearReadout and MLPReadout
        As settings; they stay as they are.
    learned, held_out : Rows
        On one device.
    n_classes : int
    schedule : Schedule

    Raises
    ------
    ValueError
        If every one of them diverged.
    MemoryError
        If the readouts of one shape do not fit into the device's memory.
    """
    steps = checkpoints(schedule.max_steps)
    losses = np.full((len(readouts), len(steps)), np.nan)
    scores = losses.copy()
    best, net, least = (0, 0), None, np.inf
    for columns, stack in _stacks(readouts, learned.x, n_classes, schedule.seed):
        for i, _ in enumerate(_train(stack, learned, schedule, steps)):
            losses[columns, i], scores[columns, i] = _evaluate(stack, held_out)
            k = int(np.argmin(losses[columns, i]))
            if losses[columns[k], i] < least:
                least, best = float(losses[columns[k], i]), (columns[k], i)
                net = _member(stack, k)
    if net is None:
        raise ValueError(
            f"At least one of {len(readouts)} settings must be trained to finite "
            "predictions, but all diverged; lower lr or scale the features"
        )
    return Trials(np.array(steps), losses, scores, best, net)


def _stacks(
    readouts: Sequence[Any], x: Tensor, n_classes: int, seed: int
) -> Iterator[tuple[list[int], ReadoutStack]]:
    """Yield stacks, each with the places of its members among the readouts."""
    shapes = dict.fromkeys(readout.hidden_layer_sizes for readout in readouts)
    for shape in shapes:
        places = [
            i for i, one in enumerate(readouts) if one.hidden_layer_sizes == shape
        ]
        for stack in stack_readouts(
            [readouts[i] for i in places],
            x.shape[1],
            n_classes,
            seed=seed,
            device=x.device,
        ):
            yield [places[column] for column in stack.columns], stack


def _train(
    stack: ReadoutStack, rows: Rows, schedule: Schedule, stops: Sequence[int]
) -> Iterator[None]:
    """Take steps on shuffled minibatches, and pause where it is to be tried."""
    for n_steps, batch in enumerate(_minibatches(len(rows.y), schedule), start=1):
        places = torch.from_numpy(batch).to(rows.y.device)
        with flushed_denormals():
            stack.update(rows.x[places][None], rows.y[places], iter(()))
        if n_steps in stops:
            yield
        if n_steps == stops[-1]:
            return


def _minibatches(n_rows: int, schedule: Schedule) -> Iterator[NDArray[np.int64]]:
    """Yield minibatches without end: parts of permutations, nearly equal in size."""
    rng = np.random.default_rng(schedule.seed)
    n_parts = -(-n_rows // schedule.batch_size)
    while True:
        yield from np.array_split(rng.permutation(n_rows), n_parts)


def _evaluate(stack: ReadoutStack, rows: Rows) -> tuple[Floats, Floats]:
    """Mean log-loss and accuracy (K,); infinite and NaN where a member diverged."""
    n_members = len(stack.columns)
    step = _rows_at_once(stack.net.module_, n_members)
    loss = torch.zeros(n_members, dtype=torch.float64)
    hits = torch.zeros(n_members, dtype=torch.float64)
    for start in range(0, len(rows.y), step):
        x, y = rows.x[start : start + step], rows.y[start : start + step]
        log_proba = stack.log_proba(x[None])
        index = y.expand(n_members, -1)[..., None]
        loss -= log_proba.gather(2, index)[..., 0].sum(1).cpu()
        hits += (log_proba.argmax(2) == y).sum(1).cpu()
    usable = loss.isfinite()
    nan, inf = float("nan"), float("inf")
    mean = torch.where(usable, loss / len(rows.y), inf)
    return mean.numpy(), torch.where(usable, hits / len(rows.y), nan).numpy()


def _rows_at_once(net: StackedMLP, n_members: int) -> int:
    """Count the rows whose widest layer, of all members, has so many outputs."""
    widest = max(weight.shape[1] for weight, _ in net.pairs)
    return max(1, EVALUATED_AT_ONCE // (n_members * widest))


def _member(stack: ReadoutStack, member: int) -> StackedMLP:
    """Copy the weights by which one member predicts: trained, or averaged."""
    place = int(stack.averages.places[member])
    modules: list[StackedMLP] = [stack.net.module_, *stack.averages.copies]
    for module in modules[:-1]:
        if place < module.n_members:
            return module.pick([place])
        place -= module.n_members
    return modules[-1].pick([place])


def log_probabilities(net: StackedMLP, x: Tensor) -> Floats:
    """Log-probabilities (n, C) of rows (n, d) by a stack of one."""
    step = _rows_at_once(net, 1)
    with torch.no_grad():
        blocks = [
            net(x[start : start + step])[0].double().log_softmax(1).cpu()
            for start in range(0, len(x), step)
        ]
    return torch.cat(blocks).numpy()
