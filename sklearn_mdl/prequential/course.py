"""Many learners on one stream."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from sklearn_mdl.arithmetic import memory_of, one_thread
from sklearn_mdl.prequential.learner import Learner, Rereader
from sklearn_mdl.prequential.outcomes import ClassLabels, Outcome, Prediction
from sklearn_mdl.prequential.walking import WalkState, score, usable, walk
from sklearn_mdl.replay import ReplayStreams
from sklearn_mdl.samples import SampleStore
from sklearn_mdl.scaling import ScaledRows
from sklearn_mdl.switching import ForwardPass, ForwardTrace, SwitchingPrior
from sklearn_mdl.trace import PrequentialTrace

SEGMENT = 1024  # rows that one learner walks before the next one's turn
KEPT = 2**27  # bytes of predictions that wait for the others' before they are mixed


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
    outcome : Outcome or None
        What is predicted; None stands for classes.
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
        outcome: Outcome | None = None,
    ) -> None:
        self.outcome: Outcome = ClassLabels() if outcome is None else outcome
        self.learners = learners
        self.batch_size = batch_size
        self.device = device
        self.n_jobs = n_jobs
        self.n_readouts = sum(len(learner.columns) for learner in learners)
        folder = None if store == "memory" else Path(store)
        self.samples = SampleStore(n_features, folder and folder / "features.npy")
        self.forward = ForwardPass(prior, self.n_readouts, weights)
        self.trace = PrequentialTrace(self.n_readouts, store, self.outcome.n_kept)
        self.columns = [c for learner in learners for c in learner.columns]
        self._segment = SEGMENT
        self._learned: Course | None = None
        self._under_way = False
        self.rows = ScaledRows(
            self.samples,
            learners[0].scalings,
            batch_size,
            device,
            self.outcome.feature_reach,
        )
        for learner in learners:
            if isinstance(learner, Rereader):
                learner.attach(self.rows)
        self.states = [
            WalkState(
                batch_size,
                ReplayStreams(lr.n_replay_streams, recency=lr.recency, seed=seed),
                device,
                self.outcome,
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
        """Refuse a stream that is longer by so many rows, if it must be.

        Raises
        ------
        ValueError
            If the prior allows no such length.
        MemoryError
            If the trace would not fit into memory.
        """
        self.forward.check_length(n_rows)
        self.trace.check_room(n_rows, memory_of(torch.device("cpu")))

    def extend(
        self, X: np.ndarray, y: np.ndarray, order: np.ndarray | None = None
    ) -> Iterator[int]:
        """Walk on over new rows (n, d) with labels (n,), encoded if they are classes.

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
        labels = torch.as_tensor(ordered, dtype=self.outcome.dtype)
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
        labels = labels.to(self.device)  # at once: predictions are there
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

    def expect(self, n_numbers: int) -> None:
        """Make segments as long as predictions of so many numbers (classes) allow."""
        kept = KEPT // (8 * self.n_readouts * n_numbers)
        self._segment = min(SEGMENT, max(1, kept // self.batch_size) * self.batch_size)

    @property
    def n_ahead(self) -> int:
        """Number of rows that were taken in and are still to be walked."""
        return len(self.samples) - self.n_scored

    def count_segments(self) -> int:
        """Count the segments that are still to be walked."""
        count, start = 0, self.n_scored
        while start < len(self.samples):
            count, start = count + 1, self.segment_end(start)
        return count

    def segment_end(self, start: int | None = None) -> int:
        """Segments end where the scaling is refreshed: at B, 2B, 4B, ... rows."""
        start = self.n_scored if start is None else start
        refresh = self.batch_size
        while refresh <= start:
            refresh *= 2
        return min(start + self._segment, refresh, len(self.samples))

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
        values = chain.from_iterable(predicted.values for _, predicted in found)
        self.close_segment(stop, losses, self.forward.extend(losses), values)

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
        values: Iterable[Tensor],
    ) -> None:
        """Keep what the rows up to ``stop`` cost, and refresh the scaling if due.

        Predictions (n, P) come one for each readout, learner after learner.
        """
        # Summed column by column, so in an order that does not depend on the stacks.
        predicted = list(values)
        in_order = (predicted[i] for i in np.argsort(self.columns))
        weights = torch.as_tensor(reading.posterior.T).to(self.device)
        kept = self.outcome.kept_of(in_order, weights)
        self.trace.append(losses, reading.codelengths, reading.posterior, kept)
        self.expect(predicted[0].shape[1])
        if not _is_doubling(stop, self.batch_size):
            return
        if stop > self.batch_size:
            changes = self.rows.refresh(stop)
            for learner in self.learners:
                learner.re_express(changes)
        self.outcome.refresh(self.states[0].labels, self.learners)

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
        """Log-probabilities (K, B, C) of classes, as :meth:`predictions` come."""
        return (prediction.values for prediction in self.predictions(X))

    def predictions(self, X: np.ndarray) -> Iterator[Prediction]:
        """Predictions of rows (n, d) that are not part of the stream.

        Yields
        ------
        prediction : Prediction
            Of all readouts, (K, B, P), for one minibatch after the other, the last one
            cut to its rows.
        """
        order = torch.as_tensor(np.argsort(self.columns), device=self.device)
        diverged = torch.as_tensor(self.diverged, device=self.device)[:, None]
        for start in range(0, len(X), self.batch_size):
            rows = X[start : start + self.batch_size]
            with one_thread():
                x = self.rows.scaled(rows)
                found = [self.outcome.predict(lr, x) for lr in self.learners]
            values = torch.cat([each.values for each in found])[order, : len(rows)]
            failed = values[..., 0].isnan() | diverged
            yield usable(found[0].holding(values), failed, self.outcome)


def _is_doubling(n_rows: int, batch_size: int) -> bool:
    batches, rest = divmod(n_rows, batch_size)
    return rest == 0 and batches & (batches - 1) == 0
