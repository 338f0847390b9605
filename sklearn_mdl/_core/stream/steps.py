"""Prequential steps of one learner: predict, observe the labels, learn."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Self

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import Outcome, Prediction
from sklearn_mdl._core.stream.scaling import ScaledRows


class ReplayStreams:
    """Positions of ``S`` replay streams over a growing list of minibatches.

    Parameters
    ----------
    n_streams : int
        Number of streams ``S``.
    recency : float, default=1.0
        ``c`` in the jump probability ``min(1, c / t)``; 1 is uniform replay, smaller
        values favour recent minibatches, larger ones the first.
    seed : int, default=0
        Streams ``1, ..., S`` of one seed and recency are the first ``S`` of one family,
        whatever ``S``: readouts with different numbers of streams replay alike.

    Attributes
    ----------
    positions : ndarray of shape (n_streams,)
        Index (from 0) of the minibatch that each stream reads next.
    n_records : int
        Number of minibatches ``t`` that the streams run over.
    """

    def __init__(self, n_streams: int, *, recency: float = 1.0, seed: int = 0) -> None:
        self.n_streams = n_streams
        self.recency = recency
        self.seed = seed
        self.n_records = 0
        self.positions = np.full(n_streams, -1)

    def advance(self) -> np.ndarray:
        """Count one more minibatch, move every stream, and return the positions."""
        self.n_records += 1
        # A counter-based generator: the draws of step t are a fixed sequence of which
        # each family takes its first S, and nothing but t needs to be remembered.
        bits = np.random.Philox(key=self.seed, counter=[0, self.n_records, 0, 0])
        uniforms = np.random.Generator(bits).random(self.n_streams)
        jump = uniforms < min(1.0, self.recency / self.n_records)
        # The very first minibatch is the only place there is, whatever the recency.
        jump |= self.n_records == 1
        self.positions = np.where(jump, 0, self.positions + 1)
        return self.positions


class PassState:
    """Position of one learner on a stream.

    Parameters
    ----------
    batch_size : int
        Size ``B`` of the minibatches that are learned.
    streams : ReplayStreams
    device : torch.device
        Where the learner predicts.

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

    @classmethod
    def attached(cls, learner: Learner, rows: ScaledRows, seed: int) -> Self:
        """Attach a learner to the rows of a run, and return its position there."""
        learner.attach(rows)
        n_streams, recency = learner.n_replay_streams, learner.recency
        streams = ReplayStreams(n_streams, recency=recency, seed=seed)
        return cls(rows.batch_size, streams, rows.device)

    def resume(self, n_scored: int, failed: Tensor) -> None:
        """Go to where so many rows were scored, and all full minibatches learned."""
        self.n_scored = n_scored
        self.failed = failed.to(self.failed.device)
        n_batches = n_scored // self.batch_size
        self.n_learned = n_batches * self.batch_size
        for _ in range(n_batches):
            self.streams.advance()

    def learn(self, learner: Learner, rows: ScaledRows, outcome: Outcome) -> None:
        """Let the learner learn the pending rows, then replay."""
        positions = self.streams.advance()
        new = self.n_learned // self.batch_size
        self.n_learned = stop = self.n_scored
        x, y = rows.labelled(new, stop)
        outcome.init_units(learner, y)
        learner.update(x, y, (rows.labelled(i, stop) for i in positions.tolist()))


def prequential_steps(
    learner: Learner, rows: ScaledRows, state: PassState, outcome: Outcome, stop: int
) -> Generator[Prediction, Tensor, None]:
    """Predict, observe, learn: the prequential coroutine over rows up to ``stop``.

    Predictions are always made on whole blocks (a minibatch, or the learner's
    ``rows_ahead``), with zeros for rows that are not known yet: so the pieces in which
    rows arrive do not change a bit of any number. A readout that has no prediction for
    a row predicts the outcome's fallback from that row on (uniformly, if these are
    classes), before its label is seen: it never costs more than one that always did so
    in its place.

    Yields
    ------
    prediction : Prediction
        Of ``K`` readouts for the next ``n`` rows, at most up to the end of their block;
        its ``losses(labels)`` are of shape (K, n).

    Receives
    --------
    labels : Tensor of shape (n,)
        Labels of those rows, classes encoded. A minibatch is learned as soon as it is
        full.
    """
    size = state.batch_size
    ahead = size if learner.rows_ahead is None else learner.rows_ahead
    while state.n_scored < stop:
        batch, place = divmod(state.n_scored, size)
        start = place - place % ahead  # of the block, counted from the minibatch's
        end = min(start + ahead, size)
        until = min(end, stop - batch * size)
        x = rows.batch(batch)
        prediction = outcome.predict(learner, x if ahead >= size else x[:, start:end])
        lost = prediction.values[..., 0].isnan() | state.failed[:, None]
        failed = lost.cumsum(1) > 0  # by each row (K, B): now, earlier, or before
        chosen = slice(place - start, until - start)
        labels = yield usable(prediction, failed, outcome, chosen)
        state.failed = failed[:, chosen.stop - 1]
        rows.reveal(state.n_scored, labels)
        state.n_scored += len(labels)
        if until == end and ahead < size:
            block = batch * size + start
            learner.observe(rows.labels[block : state.n_scored])
        if until == size:
            state.learn(learner, rows, outcome)


def usable(
    prediction: Prediction, failed: Tensor, outcome: Outcome, rows: slice = slice(None)
) -> Prediction:
    """Return some rows of a prediction, replaced where readouts have failed, (K, B)."""
    values = prediction.values
    values = torch.where(failed[..., None], outcome.fallback(values), values)
    return prediction.with_values(values[:, rows])


def score_segment(
    steps: Generator[Prediction, Tensor, None], labels: Tensor
) -> tuple[np.ndarray, Prediction]:
    """Drive one learner over rows whose labels are known.

    Parameters
    ----------
    steps : generator
        A :func:`prequential_steps` that has not begun.
    labels : Tensor of shape (n,)
        Labels of the rows it will predict; it is sent each block's own only when it has
        predicted it.

    Returns
    -------
    losses : ndarray of shape (n, K)
        Cost of the labels, in nats.
    prediction : Prediction
        For all rows, (K, n, P).
    """
    # Here too, for this may be a thread of its own: its first product would otherwise
    # be shared by all cores, and sum in another order.
    with one_thread(), flushed_denormals(), suppress(StopIteration):
        prediction, start = next(steps), 0
        n_readouts, _, n_numbers = prediction.values.shape
        found = prediction.values.new_empty(n_readouts, len(labels), n_numbers)
        while True:
            block = labels[start : start + prediction.values.shape[1]]
            found[:, start : start + len(block)] = prediction.values
            start += len(block)
            prediction = steps.send(block)
    whole = prediction.with_values(found)
    return whole.losses(labels).T.cpu().numpy(), whole
