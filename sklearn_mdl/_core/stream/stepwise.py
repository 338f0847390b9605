"""The prequential pass, one label at a time, for decoders.

When labels are known, every learner is evaluated separately on a segment. A decoder has
no labels. It needs the mixture of all learners to decode a label, which the learners
must observe before they continue. Steps, forward pass, trace and results are the same
as in :class:`~sklearn_mdl._core.stream.run.PrequentialRun`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.numerics import flushed_denormals
from sklearn_mdl._core.stream.coder import Block, Coded
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.steps import Steps
from sklearn_mdl._core.stream.threads import Scores, Threads


def stepwise(
    run: PrequentialRun,
    X: np.ndarray,
    order: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Generator[np.ndarray, int, None]:
    """Evaluate new rows (n, d), whose classes are sent to the generator one by one.

    Afterwards the run is the same as if it had been given rows and labels together.

    Parameters
    ----------
    run : PrequentialRun
    X : ndarray of shape (n, d)
    order : ndarray of shape (n,) or None
        Order in which rows are evaluated. If None, rows are evaluated as given.
    groups : ndarray of shape (n,) or None
        Group key of each row. None means no groups.

    Yields
    ------
    probabilities : ndarray of shape (C,), float64
        Probabilities of the classes of the next row, as predicted by the mixture. They
        sum to one up to rounding, and may be zero. If new classes may appear, the last
        probability is that of a new class.

    Receives
    --------
    label : int
        Encoded label of that row. A new class has the next free number.

    Raises
    ------
    RuntimeError
        If an earlier call was stopped by an error or a second Ctrl-C.
    ValueError
        If the prior does not allow a stream of that length, or if rows of a group are
        not adjacent. The run is then unchanged.
    """
    run.begin(X, order, groups)
    threads = run.threads
    while run.n_scored < len(run.samples):
        with threads.arithmetic():
            stop = run.next_stop(run.n_scored)
            threads.open(stop)
        new = yield from _segment(run, stop)
        with threads.arithmetic():
            _finish(run)
            if new is not None:
                scores = threads.new_class_scores(new)
                run.close_segment(scores.values, *run.code(scores))
                threads.learn_new_class(new)
                _finish(run)
    run.end()


def _finish(run: PrequentialRun) -> None:
    """Close a segment and let the events act, as in a run."""
    run.threads.close(run.n_scored)
    for event in run.events:
        event.act(run)


def _segment(run: PrequentialRun, stop: int) -> Generator[np.ndarray, int, int | None]:
    """Evaluate rows up to ``stop`` or a new class, and return that class or None."""
    threads = run.threads
    queues = [_Queue(steps, threads) for steps in threads.steps(stop)]
    parts: list[tuple[Block, Coded]] = []
    new, awake, order = None, run.awake, np.argsort(threads.columns)
    for _ in range(run.n_scored, stop):
        row = np.concatenate([queue.row() for queue in queues])[order]
        with flushed_denormals(False):  # as in a run
            run.reveal()
            proba = run.coder.predict(row, run.mixer.predict(row[:, np.newaxis])[0])
        label = yield run.outcome.next_proba(proba)
        if label >= run.outcome.n_numbers:
            new = label
            break
        losses = np.full((1, threads.n_readouts), np.nan)
        losses[0, awake] = -row[:, label]
        for queue in queues:
            queue.reveal(label)
        with flushed_denormals(False):
            values = [torch.from_numpy(value) for value in row[:, np.newaxis]]
            parts.append(run.code(Scores(losses, values, np.array([label]))))
    if new is not None:
        for queue in queues:
            queue.cut()
    if parts:
        values = [v for queue in queues for v in torch.cat(queue.predicted, dim=1)]
        with threads.arithmetic():
            blocks, coded = zip(*parts, strict=True)
            results = Block.joined(blocks), Coded.joined(coded)
            run.close_segment(threads.in_order(values), *results)
    return new


class _Queue:
    """Predictions of one learner for rows whose labels are not known yet."""

    def __init__(self, steps: Steps, threads: Threads) -> None:
        self._steps = steps
        self._threads = threads
        self.predicted: list[Tensor] = []
        self._revealed: list[int] = []
        self._advance()

    def row(self) -> np.ndarray:
        """Return log-probabilities (K, C) of the next row."""
        return self._rows[:, len(self._revealed)]

    def reveal(self, label: int) -> None:
        """Store the label of the next row, and send the labels of a full block."""
        self._revealed.append(label)
        if len(self._revealed) == self._rows.shape[1]:
            self._advance()
            self._revealed = []

    def cut(self) -> None:
        """Send the labels revealed so far, drop the other rows, and end the segment."""
        n_revealed = len(self._revealed)
        if n_revealed:
            self._advance()
            self.predicted[-2] = self.predicted[-2][:, :n_revealed]
        self.predicted.pop()
        self._steps.close()

    def _advance(self) -> None:
        """Send the revealed labels, if there are any, and store new predictions."""
        device = self._threads.rows.device
        labels = torch.tensor(self._revealed, dtype=torch.long, device=device)
        last = suppress(StopIteration)  # after the last row
        with self._threads.arithmetic(), flushed_denormals(), last:
            values = self._steps.send(labels) if self._revealed else next(self._steps)
            self.predicted.append(values)
            self._rows = values.cpu().numpy()
