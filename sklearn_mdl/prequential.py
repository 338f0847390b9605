"""The walk: predict a minibatch, only then see its labels, learn from them, go on.

A *learner* is whatever has ``log_proba`` and ``update``: a stack of readouts, an
adapted classifier, an encoder that learns. ``walk`` leads one learner over rows as a
coroutine that yields log-probabilities and is sent labels; no label can leak into its
own prediction, because it does not exist yet when the prediction is made. ``Course``
leads many learners over one stream, segment by segment, and keeps the trace that
everything else reads.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from sklearn_mdl.replay import ReplayStreams, SampleStore
from sklearn_mdl.scaling import ReExpression, ScaledRows
from sklearn_mdl.switching import ForwardPass, SwitchingPrior
from sklearn_mdl.trace import PrequentialTrace

SEGMENT = 1024  # rows that one learner walks before the next one's turn


class Learner(Protocol):
    """What can walk.

    Attributes
    ----------
    columns : sequence of int
        Places of its ``K`` readouts among all readouts of the walk.
    scalings : sequence of {"standard", "whiten", None}
        How rows are handed to it; the same for all learners of a course.
    n_replay_streams : int
    recency : float
        The replay it asks for.
    """

    @property
    def columns(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def scalings(self) -> Sequence[str | None]: ...  # noqa: D102
    @property
    def n_replay_streams(self) -> int: ...  # noqa: D102
    @property
    def recency(self) -> float: ...  # noqa: D102

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (K, n, C), float64, of rows (n_scalings, n, d).

        Changes nothing.
        """

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Learn from a new minibatch first, then from the replayed ones."""

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt to rows that are scaled anew: one change for each scaling."""


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
    """

    def __init__(
        self, batch_size: int, streams: ReplayStreams, device: torch.device
    ) -> None:
        self.batch_size = batch_size
        self.streams = streams
        self.n_scored = 0
        self.n_learned = 0
        self._labels = torch.empty(0, dtype=torch.long, device=device)

    def see(self, labels: Tensor) -> None:
        """Keep the labels of the rows just predicted."""
        stop = self.n_scored + len(labels)
        if stop > len(self._labels):
            room = self._labels.new_empty(max(stop, 2 * len(self._labels)))
            room[: self.n_scored] = self._labels[: self.n_scored]
            self._labels = room
        self._labels[self.n_scored : stop] = labels
        self.n_scored = stop

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
    come: so the pieces in which rows arrive change not a bit of any number.

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
        labels = yield log_proba[:, come]
        state.see(labels)
        if state.n_scored == end:
            state.learn(learner, rows)


def score(steps: Generator[Tensor, Tensor, None], labels: Tensor) -> np.ndarray:
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
    """
    with flushed_denormals():
        losses, start = [], 0
        log_proba = next(steps, None)
        while log_proba is not None:
            batch = labels[start : start + log_proba.shape[1]]
            index = batch.expand(len(log_proba), -1).unsqueeze(-1)
            losses.append(-log_proba.gather(2, index).squeeze(-1).T)
            start += len(batch)
            try:
                log_proba = steps.send(batch)
            except StopIteration:
                log_proba = None
        return torch.cat(losses).cpu().numpy()


class Course:
    """Many learners on one stream, and the trace they leave.

    Parameters
    ----------
    learners : list of Learner
    prior : SwitchingPrior
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts.
    n_features : int
    batch_size : int
    seed : int
        Of the replay streams: the same for all readouts.
    device : torch.device
    store : "memory" or path
        Where the trace is kept.
    n_jobs : int or None
        Learners that walk side by side, as threads.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        prior: SwitchingPrior,
        weights: np.ndarray | None,
        *,
        n_features: int,
        batch_size: int,
        seed: int,
        device: torch.device,
        store: str = "memory",
        n_jobs: int | None = None,
    ) -> None:
        self.learners = learners
        self.batch_size = batch_size
        self.device = device
        self.n_jobs = n_jobs
        self.n_readouts = sum(len(learner.columns) for learner in learners)
        self.samples = SampleStore(n_features)
        self.forward = ForwardPass(prior, self.n_readouts, weights)
        self.trace = PrequentialTrace(self.n_readouts, store)
        self._learned: Course | None = None
        self._under_way = False
        self.rows = ScaledRows(self.samples, learners[0].scalings, batch_size, device)
        self.states = [
            WalkState(
                batch_size,
                ReplayStreams(lr.n_replay_streams, recency=lr.recency, seed=seed),
                device,
            )
            for lr in learners
        ]

    def __getstate__(self) -> dict[str, object]:
        """Leave out the copy that serves predictions; it is made again."""
        return {**self.__dict__, "_learned": None}

    @property
    def n_scored(self) -> int:
        """Number of rows walked so far."""
        return len(self.trace)

    def check_length(self, n_rows: int) -> None:
        """Raise a ValueError if the prior refuses a stream longer by so many rows."""
        self.forward.check_length(n_rows)

    def extend(self, X: np.ndarray, y: np.ndarray) -> Iterator[int]:
        """Walk on over new rows (n, d) with encoded labels (n,).

        Yields
        ------
        n_rows : int
            Number of rows done, after each segment.

        Raises
        ------
        RuntimeError
            If an earlier call did not come to its end.
        ValueError
            If the prior refuses a stream of that length; nothing is changed then.
        """
        labels = torch.as_tensor(y, dtype=torch.long).to(self.device)
        begin = self.begin(X)
        with one_thread():
            while self.n_scored < len(self.samples):
                start, stop = self.n_scored, self.segment_end()
                self._walk_segment(stop, labels[start - begin : stop - begin])
                yield stop - start
        self.end()

    def begin(self, X: np.ndarray) -> int:
        """Take in rows (n, d) to be walked; returns the first one's place."""
        if self._under_way:
            raise RuntimeError(
                "A stream goes on only from where a call ended, but the last call was "
                "interrupted on the way; fit anew"
            )
        self.check_length(len(X))
        self._learned = None
        self._under_way = True
        self.samples.append(X)
        return len(self.samples) - len(X)

    def end(self) -> None:
        """Say that all rows taken in were walked."""
        self._under_way = False

    def segment_end(self) -> int:
        """Segments end where the scaling is refreshed: at B, 2B, 4B, ... rows."""
        refresh = self.batch_size
        while refresh <= self.n_scored:
            refresh *= 2
        return min(self.n_scored + SEGMENT, refresh, len(self.samples))

    def _walk_segment(self, stop: int, labels: Tensor) -> None:
        self.open_segment(stop)
        losses = np.empty((len(labels), self.n_readouts))
        parallel = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        found = parallel(
            delayed(score)(walk(learner, self.rows, state, stop), labels)
            for learner, state in zip(self.learners, self.states, strict=True)
        )
        for learner, columns in zip(self.learners, found, strict=True):
            losses[:, learner.columns] = columns
        reading = self.forward.extend(losses)
        self.close_segment(stop, losses, reading.codelengths, reading.posterior)

    def open_segment(self, stop: int) -> None:
        """Make the rows up to ``stop`` ready to be walked."""
        # The first minibatch is learned with its own statistics, after it was scored
        # (uniformly, whatever they are: output layers start at zero).
        if not self.rows.n_refreshed and stop >= self.batch_size:
            self.rows.refresh(self.batch_size)
        self.rows.extend(stop)

    def close_segment(
        self,
        stop: int,
        losses: np.ndarray,
        codelengths: np.ndarray,
        posterior: np.ndarray,
    ) -> None:
        """Keep what the rows up to ``stop`` cost, and refresh the scaling if due."""
        self.trace.append(losses, codelengths, posterior)
        if stop > self.batch_size and _is_doubling(stop, self.batch_size):
            changes = self.rows.refresh(stop)
            for learner in self.learners:
                learner.re_express(changes)

    def learned(self) -> Course:
        """Return a copy that has learned its pending rows too, for prediction only."""
        if all(state.n_learned == state.n_scored for state in self.states):
            return self
        if self._learned is None:
            self._learned = self._learn_pending()
        return self._learned

    def _learn_pending(self) -> Course:
        other = copy.copy(self)
        # Seen rows, once they were scaled, stay as they are and need no copy.
        shared = [self.samples, *([self.rows] if self.rows.n_refreshed else [])]
        memo = {id(thing): thing for thing in shared}
        parts = (self.learners, self.states, self.rows)
        other.learners, other.states, other.rows = copy.deepcopy(parts, memo)
        with one_thread():
            if not other.rows.n_refreshed:
                other.rows.refresh(self.n_scored)
            for learner, state in zip(other.learners, other.states, strict=True):
                state.learn(learner, other.rows)
        return other

    def log_proba(self, X: np.ndarray) -> Iterator[Tensor]:
        """Log-probabilities of rows (n, d) that are not part of the stream.

        Yields
        ------
        log_proba : Tensor of shape (K, B, C)
            For one minibatch after the other, the last one cut to its rows.
        """
        columns = [column for learner in self.learners for column in learner.columns]
        order = torch.as_tensor(np.argsort(columns), device=self.device)
        for start in range(0, len(X), self.batch_size):
            rows = X[start : start + self.batch_size]
            with one_thread():
                x = self.rows.scaled(rows)[0]
                found = [learner.log_proba(x) for learner in self.learners]
            yield torch.cat(found)[order, : len(rows)]


def _is_doubling(n_rows: int, batch_size: int) -> bool:
    batches, rest = divmod(n_rows, batch_size)
    return rest == 0 and batches & (batches - 1) == 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: small products lose more than they win by a second.

    It also makes the numbers independent of how many cores a machine has.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@contextmanager
def flushed_denormals(flush: bool = True) -> Iterator[None]:
    """Take numbers below 1e-38 for zero, in this thread; or see that it does not.

    Moments and gradients of rare features fade to such numbers, with which a processor
    is many times slower; no prediction is moved by them.
    """
    smallest = torch.tensor(1e-40)
    flushes = not bool((smallest * 1.0).any())  # what the thread did before
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushes)
