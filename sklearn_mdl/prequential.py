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
import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from sklearn_mdl.arithmetic import flushed_denormals, mixture, one_thread
from sklearn_mdl.measures import digest
from sklearn_mdl.replay import ReplayStreams
from sklearn_mdl.samples import SampleStore
from sklearn_mdl.scaling import ReExpression, ScaledRows
from sklearn_mdl.switching import ForwardPass, ForwardTrace, SwitchingPrior
from sklearn_mdl.trace import PrequentialTrace

SEGMENT = 1024  # rows that one learner walks before the next one's turn
KEPT = 2**27  # bytes of predictions that wait for the others' before they are mixed


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

        NaN throughout a row where a readout has no prediction; it counts as a uniform
        one. Changes nothing.
        """

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Learn from a new minibatch first, then from the replayed ones."""

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt to rows that are scaled anew: one change for each scaling."""


@runtime_checkable
class Rereader(Protocol):
    """A learner that reads rows again: those that it has learned, and no others."""

    def attach(self, rows: ScaledRows) -> None:
        """Remember where the walk keeps its rows."""


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
        labels = yield _uniform_where(failed, log_proba)[:, come]
        state.failed = failed[:, come.stop - 1]
        state.see(labels)
        if state.n_scored == end:
            state.learn(learner, rows)


def failures(log_proba: Tensor, before: Tensor) -> Tensor:
    """Whether readouts have failed by each row, (K, B): now, earlier, or before."""
    return (log_proba[..., 0].isnan() | before[:, None]).cumsum(1) > 0


def _uniform_where(failed: Tensor, log_proba: Tensor) -> Tensor:
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
    with flushed_denormals(), suppress(StopIteration):
        log_proba, start = next(steps), 0
        found = log_proba.new_empty(len(log_proba), len(labels), log_proba.shape[2])
        while True:
            batch = labels[start : start + log_proba.shape[1]]
            found[:, start : start + len(batch)] = log_proba
            start += len(batch)
            log_proba = steps.send(batch)
    losses = -found.gather(2, labels.expand(len(found), -1).unsqueeze(-1))
    return losses.squeeze(-1).T.cpu().numpy(), found


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
        Where the trace is kept, and rows that are not memory-mapped.
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
        store: str | PathLike[str] = "memory",
        n_jobs: int | None = None,
    ) -> None:
        self.learners = learners
        self.batch_size = batch_size
        self.device = device
        self.n_jobs = n_jobs
        self.n_readouts = sum(len(learner.columns) for learner in learners)
        folder = None if store == "memory" else Path(store)
        self.samples = SampleStore(n_features, folder and folder / "features.npy")
        self.forward = ForwardPass(prior, self.n_readouts, weights)
        self.trace = PrequentialTrace(self.n_readouts, store)
        self.columns = [c for learner in learners for c in learner.columns]
        self._segment = batch_size
        self._learned: Course | None = None
        self._under_way = False
        self.rows = ScaledRows(self.samples, learners[0].scalings, batch_size, device)
        for learner in learners:
            if isinstance(learner, Rereader):
                learner.attach(self.rows)
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

    @property
    def diverged(self) -> np.ndarray:
        """Whether each readout's predictions have stopped being finite, (K,)."""
        found = np.zeros(self.n_readouts, dtype=bool)
        for learner, state in zip(self.learners, self.states, strict=True):
            found[list(learner.columns)] = state.failed.cpu().numpy()
        return found

    def check_length(self, n_rows: int) -> None:
        """Raise a ValueError if the prior refuses a stream longer by so many rows."""
        self.forward.check_length(n_rows)

    def extend(
        self, X: np.ndarray, y: np.ndarray, order: np.ndarray | None = None
    ) -> Iterator[int]:
        """Walk on over new rows (n, d) with encoded labels (n,).

        Parameters
        ----------
        X, y : ndarray
        order : ndarray of shape (n,) or None
            In which they are walked.

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
        ordered = y if order is None else y[order]
        labels = torch.as_tensor(ordered, dtype=torch.long).to(self.device)
        begin = self.begin(X, order)
        yield from self.walk_on(labels, begin)

    def walk_on(self, labels: Tensor, begin: int = 0) -> Generator[int, None, None]:
        """Walk over the rows taken in, whose labels are given from place ``begin`` on.

        Yields
        ------
        n_rows : int
            Number of rows done, after each segment. Between two segments the walk may
            be left: see :meth:`leave`.
        """
        with one_thread():
            while self.n_scored < len(self.samples):
                start, stop = self.n_scored, self.segment_end()
                self._walk_segment(stop, labels[start - begin : stop - begin])
                yield stop - start
        self.end()

    @property
    def can_go_on(self) -> bool:
        """Whether the last call came to an end, or was left between two segments."""
        return not self._under_way

    def leave(self) -> None:
        """Forget the rows that were taken in but not walked: the stream ends here."""
        self.samples.cut(self.n_scored)
        self.end()

    def begin(self, X: np.ndarray, order: np.ndarray | None = None) -> int:
        """Take in rows (n, d) to be walked; returns the first one's place."""
        if self._under_way:
            raise RuntimeError(
                "A stream goes on only from where a call ended, but the last call was "
                "interrupted on the way; fit anew"
            )
        self.check_length(len(X))
        self._learned = None
        self._under_way = True
        self.samples.append(X, order)
        return len(self.samples) - len(X)

    def end(self) -> None:
        """Say that all rows taken in were walked."""
        self._under_way = False

    def segment_end(self) -> int:
        """Segments end where the scaling is refreshed: at B, 2B, 4B, ... rows."""
        refresh = self.batch_size
        while refresh <= self.n_scored:
            refresh *= 2
        return min(self.n_scored + self._segment, refresh, len(self.samples))

    def _walk_segment(self, stop: int, labels: Tensor) -> None:
        self.open_segment(stop)
        losses = np.empty((len(labels), self.n_readouts))
        parallel = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        found = parallel(
            delayed(score)(walk(learner, self.rows, state, stop), labels)
            for learner, state in zip(self.learners, self.states, strict=True)
        )
        for learner, (columns, _) in zip(self.learners, found, strict=True):
            losses[:, learner.columns] = columns
        log_proba = chain.from_iterable(predicted for _, predicted in found)
        self.close_segment(stop, losses, self.forward.extend(losses), log_proba)

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
        reading: ForwardTrace,
        log_proba: Iterable[Tensor],
    ) -> None:
        """Keep what the rows up to ``stop`` cost, and refresh the scaling if due.

        Predictions (n, C) come one for each readout, learner after learner.
        """
        weights = torch.as_tensor(reading.posterior.T[self.columns]).to(self.device)
        proba = mixture(log_proba, weights).cpu().numpy()
        self.trace.append(losses, reading.codelengths, reading.posterior, digest(proba))
        kept = KEPT // (8 * self.n_readouts * proba.shape[1])
        self._segment = min(SEGMENT, max(1, kept // self.batch_size) * self.batch_size)
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
        order = torch.as_tensor(np.argsort(self.columns), device=self.device)
        diverged = torch.as_tensor(self.diverged, device=self.device)[:, None]
        for start in range(0, len(X), self.batch_size):
            rows = X[start : start + self.batch_size]
            with one_thread():
                x = self.rows.scaled(rows)
                found = [learner.log_proba(x) for learner in self.learners]
            log_proba = torch.cat(found)[order, : len(rows)]
            yield _uniform_where(log_proba[..., 0].isnan() | diverged, log_proba)


def _is_doubling(n_rows: int, batch_size: int) -> bool:
    batches, rest = divmod(n_rows, batch_size)
    return rest == 0 and batches & (batches - 1) == 0
