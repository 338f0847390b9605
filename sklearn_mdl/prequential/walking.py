"""One learner on its way: predict, be told, learn."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import flushed_denormals, one_thread
from sklearn_mdl.prequential.learner import Learner
from sklearn_mdl.prequential.outcomes import ClassLabels, Outcome, Prediction
from sklearn_mdl.replay import ReplayStreams
from sklearn_mdl.scaling import ScaledRows


class WalkState:
    """All that a walk remembers beside the learner itself.

    Parameters
    ----------
    batch_size : int
        Size ``B`` of the minibatches that are learned.
    streams : ReplayStreams
    device : torch.device
        Where the labels are kept.
    outcome : Outcome or None
        What is predicted; None stands for classes.

    Attributes
    ----------
    n_scored, n_learned : int
        Rows predicted, and rows learned, which lag behind by less than a minibatch.
    failed : Tensor of shape (K,), bool
        Readouts that had no prediction for a row so far: those that diverged.
    """

    def __init__(
        self,
        batch_size: int,
        streams: ReplayStreams,
        device: torch.device,
        outcome: Outcome | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.streams = streams
        self.outcome: Outcome = ClassLabels() if outcome is None else outcome
        self.n_scored = 0
        self.n_learned = 0
        self.failed = torch.zeros(1, dtype=torch.bool, device=device)  # broadcasts
        self._labels = torch.empty(0, dtype=self.outcome.dtype, device=device)

    @property
    def labels(self) -> Tensor:
        """Labels of all rows predicted, (n_scored,)."""
        return self._labels[: self.n_scored]

    def see(self, labels: Tensor) -> None:
        """Keep the labels of the rows just predicted."""
        stop = self.n_scored + len(labels)
        if stop > len(self._labels):
            room = self._labels.new_empty(max(stop, 2 * len(self._labels)))
            room[: self.n_scored] = self._labels[: self.n_scored]
            self._labels = room
        self._labels[self.n_scored : stop] = labels
        self.n_scored = stop

    def resume(self, labels: Tensor, failed: Tensor) -> None:
        """Go to where these labels had been seen, and all full minibatches learned."""
        self.see(labels)
        self.failed = failed.to(self.failed.device)
        n_batches = self.n_scored // self.batch_size
        self.n_learned = n_batches * self.batch_size
        for _ in range(n_batches):
            self.streams.advance()

    def learn(self, learner: Learner, rows: ScaledRows) -> None:
        """Let the learner learn the pending rows, then replay."""
        positions = self.streams.advance()
        new = self.n_learned // self.batch_size
        self.n_learned = self.n_scored
        x, y = self._seen(rows, new)
        self.outcome.prepare(learner, y)
        learner.update(x, y, (self._seen(rows, i) for i in positions.tolist()))

    def _seen(self, rows: ScaledRows, batch: int) -> tuple[Tensor, Tensor]:
        start = batch * self.batch_size
        labels = self._labels[start : min(start + self.batch_size, self.n_learned)]
        return rows.batch(batch, len(labels)), labels


def walk(
    learner: Learner, rows: ScaledRows, state: WalkState, stop: int
) -> Generator[Prediction, Tensor, None]:
    """Predict, be told, learn: the prequential coroutine over rows up to ``stop``.

    Predictions are always made on whole minibatches, with zeros for the rows still to
    come: so the pieces in which rows arrive change not a bit of any number. A readout
    that has no prediction for a row predicts what the outcome says instead from that
    row on (uniformly, if these are classes), before its label is seen: it never costs
    more than one that always did so in its place.

    Yields
    ------
    prediction : Prediction
        Of ``K`` readouts for the next ``n`` rows, at most up to the end of their
        minibatch; its ``losses(labels)`` are of shape (K, n).

    Receives
    --------
    labels : Tensor of shape (n,)
        Labels of those rows, classes encoded. A minibatch is learned as soon as it is
        full.
    """
    outcome = state.outcome
    while state.n_scored < stop:
        first, end = state.n_learned, state.n_learned + state.batch_size
        come = slice(state.n_scored - first, min(stop, end) - first)
        prediction = outcome.predict(learner, rows.batch(first // state.batch_size))
        failed = failures(prediction.values, state.failed)
        labels = yield usable(prediction, failed, outcome, come)
        state.failed = failed[:, come.stop - 1]
        state.see(labels)
        if state.n_scored == end:
            state.learn(learner, rows)


def failures(values: Tensor, before: Tensor) -> Tensor:
    """Whether readouts have failed by each row, (K, B): now, earlier, or before."""
    return (values[..., 0].isnan() | before[:, None]).cumsum(1) > 0


def usable(
    prediction: Prediction,
    failed: Tensor,
    outcome: Outcome,
    rows: slice = slice(None),
) -> Prediction:
    """Return some rows of a prediction, replaced where readouts have failed, (K, B)."""
    values = prediction.values
    values = torch.where(failed[..., None], outcome.instead(values), values)
    return prediction.holding(values[:, rows])


def score(
    steps: Generator[Prediction, Tensor, None], labels: Tensor
) -> tuple[np.ndarray, Prediction]:
    """Drive a walk with known labels.

    Parameters
    ----------
    steps : generator
        A :func:`walk` that has not begun.
    labels : Tensor of shape (n,)
        Labels of the rows it will predict; each batch sees its own only when predicted.

    Returns
    -------
    losses : ndarray of shape (n, K)
        What the labels cost, in nats.
    prediction : Prediction
        For all rows, (K, n, P).
    """
    # Here too, for this may be a thread of its own: its first product would otherwise
    # be shared by all cores, and sum in another order.
    with one_thread(), flushed_denormals(), suppress(StopIteration):
        prediction, start = next(steps), 0
        n_readouts, _, n_numbers = prediction.shape
        found = prediction.values.new_empty(n_readouts, len(labels), n_numbers)
        while True:
            batch = labels[start : start + prediction.shape[1]]
            found[:, start : start + len(batch)] = prediction.values
            start += len(batch)
            prediction = steps.send(batch)
    whole = prediction.holding(found)
    return whole.losses(labels).T.cpu().numpy(), whole
