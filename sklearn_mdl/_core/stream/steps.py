"""Prequential steps of one learner: predict, observe the labels, learn."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Self

import numpy as np
import torch
from joblib import delayed
from torch import Tensor

from sklearn_mdl._core.numerics import fixed_arithmetic, flushed_denormals
from sklearn_mdl._core.stream.learner import LabelLearner, Learner, Replay, RowsAhead
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.scaling import ScaledRows

Batch = tuple[Tensor, Tensor]  # rows (n_scalings, n, d), labels (n,)
Steps = Generator[Tensor, Tensor, None]  # predictions (K, n, P), then labels (n,)
NEVER = torch.iinfo(torch.long).max  # larger than every row number


class ReplayStreams:
    """Positions of ``S`` replay streams over a growing list of minibatches.

    Parameters
    ----------
    n_streams : int
        Number of streams ``S``.
    recency : float, default=1.0
        A stream jumps back to the first minibatch with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
        Smaller values favour recent minibatches, and larger values early minibatches.
    seed : int, default=0
        For a given seed and recency, a stream does not depend on ``S``, so readouts
        with different numbers of streams share their first streams.

    Attributes
    ----------
    positions : ndarray of shape (n_streams,)
        Index (from 0) of the minibatch at which each stream is, or -1 at first.
    n_records : int
        Number ``t`` of minibatches so far.
    """

    def __init__(self, n_streams: int, *, recency: float = 1.0, seed: int = 0) -> None:
        self.n_streams = n_streams
        self.recency = recency
        self.seed = seed
        self.n_records = 0
        self.positions = np.full(n_streams, -1)

    def _uniforms(self, place: int) -> np.ndarray:
        if not self.n_streams:  # drawing takes longer than an update of small networks
            return np.empty(0)
        # A counter-based generator fixes the sequence of draws at step t. The streams
        # use the first S of them, so only t must be stored.
        bits = np.random.Philox(key=self.seed, counter=[0, self.n_records, place, 0])
        return np.random.Generator(bits).random(self.n_streams)

    def draw(self, place: int) -> np.ndarray:
        """Draw positions to replay after the part at ``place`` in the last minibatch.

        The streams do not move. Positions relative to ``n_records`` are drawn from
        their limiting distribution, which is Beta(1, recency).
        """
        shares = 1.0 - (1.0 - self._uniforms(place)) ** (1.0 / self.recency)
        return np.minimum((self.n_records * shares).astype(np.intp), self.n_records - 1)

    def advance(self) -> np.ndarray:
        """Add a minibatch, move every stream, and return the new positions."""
        self.n_records += 1
        uniforms = self._uniforms(0)
        jump = uniforms < min(1.0, self.recency / self.n_records)
        # All streams begin with the first minibatch, for any recency.
        jump |= self.n_records == 1
        self.positions = np.where(jump, 0, self.positions + 1)
        return self.positions


class PassState:
    """Position of one learner on a stream.

    Parameters
    ----------
    rows : ScaledRows
        The rows as the learner sees them.
    streams : ReplayStreams

    Attributes
    ----------
    n_scored, n_learned : int
        Numbers of rows predicted and learned. A row is learned once all labels of its
        part of a minibatch are known.
    n_known : int
        Number of rows whose labels the learner has received. A label is received once
        its group is complete and its delay is over.
    failed_at : Tensor of shape (K,) or (1,)
        For each readout, the first row without a prediction, or `NEVER`. A single entry
        holds for all readouts.
    """

    def __init__(self, rows: ScaledRows, streams: ReplayStreams) -> None:
        self.rows = rows
        self.streams = streams
        self.n_scored = 0
        self.n_learned = 0
        self.n_known = 0
        self.failed_at = torch.full((1,), NEVER, device=rows.device)

    @classmethod
    def attached(cls, learner: Learner, rows: ScaledRows, seed: int) -> Self:
        """Attach a learner to the rows of a run, and return its initial position."""
        own = rows.of(*learner.view)
        learner.attach(own)
        n_streams, recency, _ = learner.replay
        return cls(own, ReplayStreams(n_streams, recency=recency, seed=seed))

    def resume(self, n_scored: int, failed_at: Tensor) -> None:
        """Resume after ``n_scored`` rows and the updates that were due by then."""
        rows = self.rows
        self.n_scored, self.n_known = n_scored, rows.schedule.known(n_scored)
        self.failed_at = failed_at.to(self.failed_at.device)
        self.n_learned, _ = rows.part(self.n_known)
        for _ in range(-(-self.n_learned // rows.batch_size)):
            self.streams.advance()

    @property
    def is_sound(self) -> bool:
        """True if no readout has failed so far."""
        return bool((self.failed_at == NEVER).all())

    def keep(self, places: Sequence[int]) -> None:
        """Keep only the readouts at some positions within the learner."""
        if len(self.failed_at) > 1:
            self.failed_at = self.failed_at[list(places)]

    def learn(self, learner: Learner, outcome: Outcome, stop: int) -> None:
        """Learn the pending rows before row ``stop``, and replay after each part.

        The learner is first calibrated on all these rows, since rows of the same group
        may be in several parts.
        """
        rows, parts, start = self.rows, [], self.n_learned
        while start < stop:
            parts.append((start, min(rows.part(start)[1], stop)))
            start = parts[-1][1]
        for start, end in parts:
            x, y = rows.between(start, end), rows.labels[start:end]
            outcome.init_units(learner, y)
            learner.calibrate(x, y)
        for start, end in parts:
            self.n_learned = end
            (x, y), replayed = training_batches(
                rows, self.streams, start, end, learner.replay
            )
            learner.update(x, y, replayed)

    def next_lesson(self, learner: Learner) -> int:
        """Return how many rows are predicted before the learner next uses labels."""
        end = self.rows.part(self.n_learned)[1]
        if learner.rows_ahead is not None:
            end = min(end, block_of(learner, self.rows, self.n_known)[1])
        return self.rows.schedule.when(end)

    def is_flushed(self, learner: Learner) -> bool:
        """Return True if the learner has learned all labels that it has received."""
        return self.n_learned == self.n_known and not self._n_waiting(learner)

    def flush(self, learner: Learner, outcome: Outcome) -> None:
        """Learn all known labels, including labels of incomplete parts and blocks."""
        if n_waiting := self._n_waiting(learner):
            start = self.n_known - n_waiting
            learner.predict(self.rows.between(start, self.n_known))
            learner.observe(self.rows.labels[start : self.n_known])
        self.learn(learner, outcome, self.n_known)

    def _n_waiting(self, learner: Learner) -> int:
        """Return the number of known labels in a block that also has unknown ones."""
        if learner.rows_ahead is None:
            return 0
        return self.n_known - block_of(learner, self.rows, self.n_known)[0]

    def reveal_labels(
        self, learner: Learner, n_known: int, predicted: tuple[int, int]
    ) -> None:
        """Let the learner observe known labels of complete blocks.

        Parameters
        ----------
        predicted : (int, int)
            First row and end of the last block that the learner predicted.
        """
        rows = self.rows
        if learner.rows_ahead is not None:
            start, _ = block_of(learner, rows, self.n_known)
            stop, _ = block_of(learner, rows, n_known)
            if start < stop:  # some blocks are complete
                if predicted != (start, stop):
                    learner.predict(rows.between(start, stop))
                learner.observe(rows.labels[start:stop])
        self.n_known = n_known


def remaining(
    learners: Sequence[Learner], states: Sequence[PassState], columns: Collection[int]
) -> tuple[list[Learner], list[PassState]]:
    """Drop readouts, and return the learners that are left, with their positions."""
    kept = []
    for learner, state in zip(learners, states, strict=True):
        own = learner.columns
        places = [i for i, column in enumerate(own) if column not in columns]
        if 0 < len(places) < len(own):
            state.keep(places)
            learner.retire(columns)
        if places:
            kept.append((learner, state))
    return [learner for learner, _ in kept], [state for _, state in kept]


def training_batches(
    rows: ScaledRows, streams: ReplayStreams, start: int, stop: int, replay: Replay
) -> tuple[Batch, Iterator[Batch]]:
    """Return the rows of a part to learn, and the minibatches to replay after it.

    Each stream replays one minibatch. If the part is a fraction of a minibatch, only
    that fraction of the streams replays. Otherwise early examples, which are learned in
    small parts, would be replayed more often than later examples.
    """
    place = start % rows.batch_size
    positions = streams.draw(place) if place else streams.advance()
    begin, end = rows.part(start)
    positions = positions[: -(-replay.at(start) * (end - begin) // rows.batch_size)]
    replayed = (rows.labelled(i, stop) for i in positions.tolist())
    return (rows.between(start, stop), rows.labels[start:stop]), replayed


def block_of(learner: Learner, rows: ScaledRows, row: int) -> tuple[int, int]:
    """Return the first row and the end of the block that contains a row."""
    ahead = learner.rows_ahead
    if isinstance(ahead, RowsAhead):
        return ahead.block(row)
    ahead = ahead or rows.block_size
    first, last = rows.part(row)
    start = row - (row - first) % ahead  # counted from the start of the part
    return start, min(start + ahead, last)


def prequential_steps(
    learner: Learner,
    state: PassState,
    outcome: Outcome,
    stop: int,
    labels: Tensor | None = None,
) -> Steps:
    """Predict, observe and learn rows up to ``stop``, as a coroutine.

    The learner always predicts a whole block (see `Learner.rows_ahead`). Rows of the
    block that have not arrived are zero, and user-defined code does not see them. So
    results are bitwise identical however you divide the rows into calls.

    If a readout has no prediction for a row, the outcome's fallback (for classes, the
    uniform distribution) is used for that row and all later rows.

    All rows of a group are predicted, block by block, before the learner observes any
    of their labels. Delayed labels are observed only when they arrive.

    If the ``labels`` of all rows up to ``stop`` are given, a learner that ignores
    features predicts and learns all of them in one step, with the same results as row
    by row. This requires that each label is known before the next row.

    Yields
    ------
    values : Tensor of shape (K, n, P)
        Predictions of ``K`` readouts for the next ``n`` rows, at most up to the end of
        their block or group.

    Receives
    --------
    labels : Tensor of shape (n,)
        Labels of these rows, with encoded classes. A part of a minibatch is learned as
        soon as all its labels are known. You may send the labels of only the first
        rows; the remaining rows are then predicted again.
    """
    rows = state.rows
    if labels is not None and isinstance(learner, LabelLearner):
        yield outcome.bounded(learner.follow(labels))
        rows.reveal(state.n_scored, labels)
        state.n_scored = state.n_known = stop
        state.n_learned, _ = rows.part(stop)
    # Checking for failures first is faster for small blocks, but would stall a GPU.
    checks = learner.rows_ahead is not None and state.failed_at.device.type == "cpu"
    all_sound = checks and state.is_sound
    while state.n_scored < stop:
        row = state.n_scored
        (start, end), closing = block_of(learner, rows, row), rows.schedule.closing(row)
        is_single = learner.rows_ahead is not None and (start, end) == (row, row + 1)
        if is_single and closing > end:
            end = min(closing, row + rows.block_size)
        until = min(end, stop, state.next_lesson(learner))
        x = shown(learner, rows.between(start, end), until - start)
        values = outcome.predict(learner, x)
        chosen = slice(row - start, until - start)
        nans = values[..., 0].isnan()
        if all_sound and not nans.any():
            labels = yield values[:, chosen]
            until = row + len(labels)
        else:
            numbers = torch.arange(start, start + nans.shape[1], device=nans.device)
            first = torch.where(nans, numbers, NEVER).amin(1).clamp_min(row)
            failed_at = torch.minimum(state.failed_at, first)
            failed = numbers >= failed_at[:, None]
            labels = yield usable(values, failed, outcome)[:, chosen]
            until = row + len(labels)
            state.failed_at = torch.where(failed_at < until, failed_at, NEVER)
            all_sound = checks and state.is_sound
        rows.reveal(row, labels)
        state.n_scored = until
        known = rows.schedule.known(until)
        if known > state.n_known:
            state.reveal_labels(learner, known, (start, end))
            state.learn(learner, outcome, rows.part(known)[0])


def shown(learner: Learner, x: Tensor, n_arrived: int) -> Tensor:
    """Return a block's rows, or only those that have arrived if the learner is foreign.

    Other learners also get the zeros in place of rows that have not arrived.
    """
    return x[:, :n_arrived] if learner.foreign else x


def usable(values: Tensor, failed: Tensor, outcome: Outcome) -> Tensor:
    """Return predictions, with the fallback where ``failed`` (K, B)."""
    return torch.where(failed[..., None], outcome.fallback(values), values)


def segment_jobs(
    learners: Sequence[Learner], steps: Sequence[Steps], labels: Tensor
) -> Iterator[object]:
    """Yield a job for each built-in learner, and one job for all foreign learners.

    Foreign learners must come last.
    """
    n_own = sum(not learner.foreign for learner in learners)
    for part in [*([each] for each in steps[:n_own]), steps[n_own:]]:
        if part:
            yield delayed(score_segment)(part, labels)


def score_segment(steps: Sequence[Steps], labels: Tensor) -> list[Tensor]:
    """Evaluate learners in turn on rows whose labels are known.

    Learners take turns: each learns a block and predicts its next one. This is the
    order of a decoder, so learners that share state give the same results there.

    Parameters
    ----------
    steps : sequence of generator
        Generators from :func:`prequential_steps` that have not started.
    labels : Tensor of shape (n,)
        Labels of the rows. A learner receives the labels of a block only after all
        learners have predicted its rows.

    Returns
    -------
    predicted : list of Tensor
        For each learner, the predictions (K, n, P) of its readouts for all rows.
    """
    # Enter these contexts in this thread, too. Otherwise the thread's first matrix
    # product would use all cores and sum in another order.
    with fixed_arithmetic(), flushed_denormals():
        blocks = [next(each) for each in steps]
        predicted = [b.new_empty(len(b), len(labels), b.shape[2]) for b in blocks]
        ends, end = [b.shape[1] for b in blocks], 0  # of the current blocks
        while end < len(labels):
            end = min(ends)
            for i, each in enumerate(steps):
                if ends[i] == end:
                    start = end - blocks[i].shape[1]
                    predicted[i][:, start:end] = blocks[i]
                    with suppress(StopIteration):  # after the last row
                        blocks[i] = each.send(labels[start:end])
                    ends[i] = end + blocks[i].shape[1]
    return predicted
