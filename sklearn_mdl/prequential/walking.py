"""One learner on its way: predict, be told, learn."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import flushed_denormals, one_thread
from sklearn_mdl.prequential.learner import Learner
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

    Attributes
    ----------
    n_scored, n_learned : int
        Rows predicted, and rows learned, which lag behind by less than a minibatch.
    failed : Tensor of shape (K,), bool
        Readouts that had no prediction for a row so far: those that diverged.
    """

    def __init__(
        self, batch_size: int, streams: ReplayStreams, device: torch.device
    ) -> None:
        self.batch_size = batch_size
        self.streams = streams
        self.n_scored = 0
        self.n_learned = 0
        self.failed = torch.zeros(1, dtype=torch.bool, device=device)  # broadcasts
        self._labels = torch.empty(0, dtype=torch.long, device=device)

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
        learner.update(x, y, (self._seen(rows, i) for i in positions.tolist()))

    def _seen(self, rows: ScaledRows, batch: int) -> tuple[Tensor, Tensor]:
        start = batch * self.batch_size
        labels = self._labels[start : min(start + self.batch_size, self.n_learned)]
        return rows.batch(batch, len(labels)), labels


def walk(
    learner: Learner, rows: ScaledRows, state: WalkState, stop: int
) -> Generator[Tensor, Tensor, None]:
    """Predict, be told, learn: the prequential coroutine over rows up to ``stop``.

    Predictions are always made on whole minibatches, with zeros for the rows still to
    come: so the pieces in which rows arrive change not a bit of any number. A readout
    that has no prediction for a row predicts uniformly from that row on, before its
    label is seen: it never costs more than a uniform one in its place.

    Yields
    ------
    log_proba : Tensor of shape (K, n, C)
        For the next ``n`` rows, at most up to the end of their minibatch.

    Receives
    --------
    labels : Tensor of shape (n,)
        Encoded labels of those rows. A minibatch is learned as soon as it is full.
    """
    while state.n_scored < stop:
        first, end = state.n_learned, state.n_learned + state.batch_size
        come = slice(state.n_scored - first, min(stop, end) - first)
        log_proba = learner.log_proba(rows.batch(first // state.batch_size))
        failed = failures(log_proba, state.failed)
        labels = yield uniform_where(failed, log_proba)[:, come]
        state.failed = failed[:, come.stop - 1]
        state.see(labels)
        if state.n_scored == end:
            state.learn(learner, rows)


def failures(log_proba: Tensor, before: Tensor) -> Tensor:
    """Whether readouts have failed by each row, (K, B): now, earlier, or before."""
    return (log_proba[..., 0].isnan() | before[:, None]).cumsum(1) > 0


def uniform_where(failed: Tensor, log_proba: Tensor) -> Tensor:
    """Replace the predictions (K, B, C) of rows (K, B)."""
    return torch.where(failed[..., None], -math.log(log_proba.shape[-1]), log_proba)


def score(
    steps: Generator[Tensor, Tensor, None], labels: Tensor
) -> tuple[np.ndarray, Tensor]:
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
        Minus log-probability of the label that came, in nats.
    log_proba : Tensor of shape (K, n, C)
    """
    # Here too, for this may be a thread of its own: its first product would otherwise
    # be shared by all cores, and sum in another order.
    with one_thread(), flushed_denormals(), suppress(StopIteration):
        log_proba, start = next(steps), 0
        found = log_proba.new_empty(len(log_proba), len(labels), log_proba.shape[2])
        while True:
            batch = labels[start : start + log_proba.shape[1]]
            found[:, start : start + len(batch)] = log_proba
            start += len(batch)
            log_proba = steps.send(batch)
    losses = -found.gather(2, labels.expand(len(found), -1).unsqueeze(-1))
    return losses.squeeze(-1).T.cpu().numpy(), found
