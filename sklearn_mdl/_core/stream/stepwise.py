"""The prequential pass, one label at a time, as a decoder needs it.

Scoring evaluates every learner on a segment by itself, since the labels are at hand. A
decoder has none: it must know the mixture of all learners before it can decode the next
label, and no learner may go on before it has observed it. Steps, forward pass and trace
are those of :class:`~sklearn_mdl._core.stream.run.PrequentialRun`, and so are the
numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.numerics import flushed_denormals
from sklearn_mdl._core.stream.late_classes import learn_late
from sklearn_mdl._core.stream.outcomes import Prediction
from sklearn_mdl._core.stream.pooled import PooledRows
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl.switching import ForwardTrace


def stepwise(
    run: PrequentialRun,
    X: np.ndarray,
    order: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Generator[np.ndarray, int, None]:
    """Evaluate new rows (n, d), and ask for their classes one by one.

    After it the run is as if it had been given those rows and labels at once.

    Parameters
    ----------
    run : PrequentialRun
    X : ndarray of shape (n, d)
    order : ndarray of shape (n,) or None
        In which the rows are taken; None takes them as they lie.
    groups : ndarray of shape (n,) or None
        Keys of the groups of rows; None learns each by itself.

    Yields
    ------
    probabilities : ndarray of shape (C,), float64
        Of the mixture, for the next row, given all rows and labels before it. They sum
        to one but for rounding, and may be zero. Learners predict as many rows at once
        as they can; the weights of the mixture move with every label, or, where rows
        are grouped, after each group. Where new classes may appear there is one more,
        that of an escape; as a label it is the number of the new class.

    Receives
    --------
    label : int
        Encoded label of that row.

    Raises
    ------
    RuntimeError
        If an earlier call was interrupted.
    ValueError
        If the prior refuses a stream of that length; nothing is changed then.
    """
    run.begin(X, order, groups=groups)
    while run.n_scored < len(run.samples):
        with run.arithmetic():
            stop = run.open_segment()
        late = yield from _segment(run, stop)
        if late is not None:
            with run.arithmetic():
                learn_late(run, late)
    run.end()


def _segment(run: PrequentialRun, stop: int) -> Generator[np.ndarray, int, int | None]:
    """Evaluate rows up to one, or up to that of a new class, which is returned."""
    queues = [_Queue(steps, run) for steps in run.steps(stop)]
    in_order, awake = np.argsort(run.columns), run.retirement.awake
    losses, readings, pooled = [], [], []
    start, late = run.n_scored, None
    while start < stop and late is None:
        group, given, labels = start, [], []
        for _ in range(group, run.rows.groups.closing(group)):
            row = np.concatenate([queue.row() for queue in queues])[in_order]
            label = yield _mixture(run, row)  # of predictions (K, C)
            if label >= run.outcome.n_numbers:  # no row is in a group then
                late = label
                break
            given.append(row)
            labels.append(label)
            losses.append(np.full(run.n_readouts, np.nan))
            losses[-1][awake] = -row[:, label]
            for queue in queues:
                queue.reveal(label)
        start = group + len(labels)
        if labels:
            # The same state of denormals as where a run mixes.
            with flushed_denormals(False):
                own = np.stack(losses[-len(labels) :])
                reading, found = run.mix(own, given, np.array(labels), group)
            losses[-len(labels) :] = own
            readings.append(reading)
            pooled += [] if found is None else [found]
    if late is not None:
        for queue in queues:
            queue.cut()
    if losses:
        values = [v for queue in queues for v in torch.cat(queue.predicted, dim=1)]
        with run.arithmetic():
            joined = PooledRows.joined(pooled) if pooled else None
            run.close_segment(np.stack(losses), _joined(readings), values, joined)
    return late


class _Queue:
    """Predictions of one learner that wait for their labels to be revealed."""

    def __init__(
        self, steps: Generator[Prediction, Tensor, None], run: PrequentialRun
    ) -> None:
        self._steps = steps
        self._run = run
        self.predicted: list[Tensor] = []
        self._revealed: list[int] = []
        self._advance(None)

    def row(self) -> np.ndarray:
        """Log-probabilities (K, C) of the next row."""
        found: np.ndarray = self._rows[:, len(self._revealed)]
        return found

    def reveal(self, label: int) -> None:
        """Keep the label of that row; the learner goes on when its block is full."""
        self._revealed.append(label)
        if len(self._revealed) == self._rows.shape[1]:
            labels = self._as_tensor()
            self._revealed = []
            self._advance(labels)

    def cut(self) -> None:
        """End here: rows that were predicted, but not revealed, are no part of it."""
        n_revealed = len(self._revealed)
        if n_revealed:
            self._advance(self._as_tensor())
            self.predicted[-2] = self.predicted[-2][:, :n_revealed]
        self.predicted.pop()
        self._steps.close()

    def _as_tensor(self) -> Tensor:
        return torch.tensor(self._revealed, dtype=torch.long, device=self._run.device)

    def _advance(self, labels: Tensor | None) -> None:
        with self._run.arithmetic(), flushed_denormals():
            try:
                steps = self._steps
                prediction = next(steps) if labels is None else steps.send(labels)
            except StopIteration:
                return
        self.predicted.append(prediction.values)
        self._rows = prediction.values.cpu().numpy()


def _joined(readings: Sequence[ForwardTrace]) -> ForwardTrace:
    """Join the readings of single rows."""
    return ForwardTrace(
        sum(reading.codelength for reading in readings),
        np.concatenate([reading.codelengths for reading in readings]),
        np.concatenate([reading.posterior for reading in readings]),
        np.concatenate([reading.steps for reading in readings]),
    )


def _mixture(run: PrequentialRun, log_proba: np.ndarray) -> np.ndarray:
    """Mix predictions (K, C) of the readouts awake for one row."""
    # Sums down the columns, not a matrix product, whose order of summation is a matter
    # of the machine's threads. The same state of denormals as in the forward pass.
    with flushed_denormals(False):
        weights = run.weights[:, np.newaxis]
        mixture: np.ndarray = np.add.reduce(weights * np.exp(log_proba), axis=0)
        if run.pooled is not None:
            switching, pool = run.pooled.shares
            mixture = switching * mixture + pool * run.pooled.predict(log_proba)
        if run.outcome.escape is not None:
            probability = run.outcome.escape.probability
            mixture = np.append((1.0 - probability) * mixture, probability)
    return mixture
