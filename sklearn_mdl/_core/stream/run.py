"""A prequential run: many learners on one stream, and the trace that they leave."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from joblib import Parallel
from torch import Tensor
from tqdm import tqdm

from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.numerics import fixed_arithmetic, memory_of, one_blas_thread
from sklearn_mdl._core.sklearn_compat import FitTasks
from sklearn_mdl._core.stream.interruption import deferred_interrupt
from sklearn_mdl._core.stream.late_classes import check_groups, late_rows, learn_late
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import Outcome, Prediction
from sklearn_mdl._core.stream.pooled import PooledMixture, PooledRows
from sklearn_mdl._core.stream.retirement import Retirement, without
from sklearn_mdl._core.stream.row_groups import held
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.segments import count_segments, segment_end
from sklearn_mdl._core.stream.steps import (
    PassState,
    Steps,
    prequential_steps,
    segment_jobs,
)
from sklearn_mdl._core.stream.storage import (
    PrequentialTrace,
    SampleStore,
)
from sklearn_mdl.switching import (
    DelayedForwardPass,
    ForwardPass,
    ForwardTrace,
    Race,
    SwitchingPrior,
)

if TYPE_CHECKING:
    from sklearn_mdl._core.stream.checkpoint import Checkpoint

SEGMENT = 1024  # rows that one learner is evaluated on before the next one's turn
KEPT = 2**27  # bytes of predictions that wait for the others' before they are mixed


class PrequentialRun:
    """Many learners on one stream, and the trace that they leave.

    Parameters
    ----------
    learners : list of Learner
        Kept in this order, but that foreign ones come last.
    prior : SwitchingPrior
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts.
    pooled : PooledMixture or None
        Groups beside the mixture of all; None codes by that mixture alone.
    race : Race or None
        By which readouts retire; None keeps all of them.
    outcome : Outcome
        Kind of the labels.
    n_features : int
    batch_size : int
    first_batch_size : int or None
        Rows learned at once at first; None learns whole minibatches from the start.
    seed : int
        Of the replay streams: the same for all readouts.
    device : torch.device
    folder : StreamFolder or None
        Of the trace, and of rows that are not memory-mapped; None keeps them in memory.
    n_jobs : int or None
        Learners that are evaluated side by side, as threads.
    label_delay : int
        Rows that are predicted between a row and its label.

    Attributes
    ----------
    samples : SampleStore
        The rows in their order.
    rows : ScaledRows
        The same as readouts see them, and the one copy of the labels.
    states : list of PassState
        Position of every learner.
    forward : ForwardPass
    retirement : Retirement
        Readouts that have retired. Learners and states are those of the others.
    trace : PrequentialTrace
    flushed : PrequentialRun or None
        A copy that serves predictions; see ``other_rows``.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        prior: SwitchingPrior,
        weights: np.ndarray | None,
        *,
        pooled: PooledMixture | None = None,
        race: Race | None = None,
        outcome: Outcome,
        n_features: int,
        batch_size: int,
        first_batch_size: int | None = None,
        seed: int,
        device: torch.device,
        folder: StreamFolder | None = None,
        n_jobs: int | None = None,
        label_delay: int = 0,
    ) -> None:
        self.learners = sorted(learners, key=lambda learner: learner.foreign)
        self.outcome = outcome
        self.batch_size = batch_size
        self.device = device
        self.n_jobs = n_jobs
        self.n_readouts = sum(len(learner.columns) for learner in learners)
        self._diverged = np.zeros(self.n_readouts, dtype=bool)
        self._notes: dict[int, list[str]] = {}
        path = None if folder is None else Path("features.npy")
        self.samples = SampleStore(n_features, path, folder)
        self.forward = ForwardPass(prior, self.n_readouts, weights)
        if label_delay:
            self.forward = DelayedForwardPass(
                prior, self.n_readouts, weights, delay=label_delay
            )
        self.pooled = pooled
        stored = None if pooled is None else pooled.stored
        self.trace = PrequentialTrace(self.n_readouts, folder, outcome.n_kept, stored)
        n_kept = KEPT // (8 * self.n_readouts * outcome.n_numbers)
        self.segment = min(SEGMENT, max(1, n_kept // batch_size) * batch_size)
        self.flushed: PrequentialRun | None = None
        self.late: list[int] = []  # rows of this call that bring a new class
        self.can_go_on = True  # False if the last call was interrupted in a segment
        shared = [lr.scalings for lr in self.learners if lr.sees is None]
        self.rows = ScaledRows(
            self.samples,
            shared[0] if shared else [None],
            batch_size,
            device,
            outcome.feature_reach,
            outcome.dtype,
            first_batch_size,
        )
        self.rows.groups.delay = label_delay
        self.retirement = Retirement(
            race, weights, self.n_readouts, batch_size, self.rows.groups
        )
        self.states = [PassState.attached(lr, self.rows, seed) for lr in self.learners]
        for learner in self.learners if outcome.escape is not None else ():
            learner.expect_classes()

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """Leave out the copy that serves predictions; it is made again."""
        return copyreg.__newobj__, (type(self),), {**self.__dict__, "flushed": None}  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse what asks for the parts of a run and is not pickle, as skops does."""
        raise TypeError(
            "An estimator must be settings and numbers to be written without pickle, "
            "as skops does, but this one holds a wrapped classifier, an encoder, an "
            "interrupted stream or a trace on disk; pickle it, call its save, or fit "
            "it with other readouts in memory"
        )

    @property
    def is_numbers(self) -> bool:
        """Return True if settings and arrays in memory are enough to make it again."""
        is_whole = self.can_go_on and self.trace.folder is None
        return is_whole and all(learner.is_numbers for learner in self.learners)

    @property
    def n_scored(self) -> int:
        """Number of rows evaluated so far."""
        return len(self.trace)

    @property
    def switching_codelengths(self) -> np.ndarray:
        """Cost of the labels under the mixture of all readouts, (n_scored,), nats."""
        if self.pooled is None:
            return self.trace.codelengths
        return self.pooled.history.switching

    @property
    def columns(self) -> list[int]:
        """Places among all readouts of those awake, learner after learner."""
        return [column for learner in self.learners for column in learner.columns]

    @property
    def weights(self) -> np.ndarray:
        """Probabilities of the readouts awake for the incoming row, in their order."""
        return self.forward.weights[self.retirement.awake]

    @property
    def notes(self) -> dict[int, list[str]]:
        """Exceptions and warnings of wrapped estimators, by column."""
        return self._notes | {k: v for lr in self.learners for k, v in lr.notes.items()}

    @property
    def labels(self) -> Tensor:
        """Labels of all rows evaluated so far, (n_scored,)."""
        return self.rows.labels[: self.n_scored]

    @property
    def diverged(self) -> np.ndarray:
        """Mask of the readouts whose predictions have stopped being finite, (K,)."""
        found = self._diverged.copy()
        for learner, state in zip(self.learners, self.states, strict=True):
            found[list(learner.columns)] = state.failed.cpu().numpy()
        return found

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """Compute with one thread, in BLAS too where code of others may call it."""
        foreign = any(learner.foreign for learner in self.learners)
        with fixed_arithmetic(), one_blas_thread() if foreign else nullcontext():
            yield

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

    def run(
        self,
        X: np.ndarray,
        y: np.ndarray,
        order: np.ndarray | None = None,
        *,
        groups: np.ndarray | None = None,
        checkpoint: Checkpoint | None = None,
        tasks: FitTasks | None = None,
        title: str | None = None,
    ) -> None:
        """Evaluate and learn new rows (n, d) with encoded labels (n,), by segments.

        Parameters
        ----------
        X, y : ndarray
        order : ndarray of shape (n,) or None
            In which they are taken.
        groups : ndarray of shape (n,) or None
            Keys of the groups of X's rows, no label of which is learned before all its
            rows are coded; None learns each row by itself.
        checkpoint : Checkpoint or None
            From which the run goes on, if it holds one, and to which it is written.
        tasks : FitTasks or None
            Notified of every segment; the run ends when it wants to stop.
        title : str or None
            Of the progress bar; None shows none.

        Raises
        ------
        KeyboardInterrupt
            After the segment in which Ctrl-C was pressed; it can go on over other rows.
            A second Ctrl-C does not wait, and leaves a run that cannot.
        RuntimeError
            If an earlier call was interrupted in this way.
        OSError
            After the segment whose losses the disk did not take; likewise.
        ValueError
            If the prior refuses a stream of that length, or if rows of a group do not
            follow each other; nothing is changed then.
        """
        begin = self.begin(X, order, checkpoint, groups)
        if checkpoint is not None:
            checkpoint.resume(self)
        ordered = torch.as_tensor(y if order is None else y[order])
        labels = ordered.to(self.device, self.outcome.dtype)  # where predictions are
        rest = labels[self.n_scored - begin :]
        self.late = [] if self.outcome.escape is None else late_rows(self, rest)
        n_rows, stopped = len(self.samples), False
        if tasks is not None:
            tasks.begin(count_segments(self))
        with (
            # A hidden bar would take tqdm's lock, too, which the child of a fork
            # may hold for good after a Ctrl-C.
            nullcontext()
            if title is None
            else tqdm(
                total=len(X), initial=self.n_scored - begin, unit="row", desc=title
            ) as bar,
            self.arithmetic(),
            deferred_interrupt() as interrupted,
        ):
            while self.n_scored < n_rows and not stopped:
                if tasks is not None:
                    tasks.begin_part()
                start, stop = self.n_scored, self.open_segment()
                revealed = labels[start - begin : stop - begin]
                if start in self.late:
                    learn_late(self, int(revealed[0]))
                else:
                    jobs = segment_jobs(self.learners, self.steps(stop), revealed)
                    found = Parallel(n_jobs=self.n_jobs, require="sharedmem")(jobs)
                    self._mix(list(chain(*found)), revealed)
                if bar is not None:
                    bar.update(stop - start)
                wish = tasks is not None and tasks.end_part()
                stopped = wish or interrupted() or self.trace.refusal is not None
                if checkpoint is not None and not stopped:
                    checkpoint.save_if_due(self)
        self.end(checkpoint)
        if tasks is not None:
            tasks.end()
        if interrupted():
            raise KeyboardInterrupt

    def steps(self, stop: int) -> list[Steps]:
        """Begin the steps of all learners over rows up to ``stop``."""
        return [
            prequential_steps(learner, self.rows, state, self.outcome, stop)
            for learner, state in zip(self.learners, self.states, strict=True)
        ]

    def _mix(
        self, found: Sequence[tuple[np.ndarray, Prediction]], labels: Tensor
    ) -> None:
        """Mix losses and predictions of all learners on a segment, and close it."""
        losses = np.full((len(labels), self.n_readouts), np.nan)
        for learner, (columns, _) in zip(self.learners, found, strict=True):
            losses[:, learner.columns] = columns
        values = list(chain.from_iterable(predicted.values for _, predicted in found))
        rows = None
        if self.pooled is not None:
            stacked = torch.stack([values[i] for i in np.argsort(self.columns)], 1)
            rows = stacked.cpu().numpy()
        reading, pooled = self.mix(losses, rows, labels.cpu().numpy(), self.n_scored)
        self.close_segment(losses, reading, values, pooled)

    def mix(
        self,
        losses: np.ndarray,
        values: Iterable[np.ndarray] | None,
        labels: np.ndarray,
        start: int,
    ) -> tuple[ForwardTrace, PooledRows | None]:
        """Mix losses (n, K), and n predictions (K, P) if pooled, of whole groups.

        Nothing that mixes them moves within a group. Where classes may appear, the
        losses rise by what it costs that none of these rows brings one.
        """
        escapes = None
        if self.outcome.escape is not None:
            escapes = [self.outcome.escape.observe(label) for label in labels.tolist()]
            losses += np.array(escapes)[:, np.newaxis]
        firsts = self.rows.groups.firsts(start, start + len(losses))
        reading = held(self.forward.extend(losses), losses, firsts)
        if self.pooled is None or values is None:
            return reading, None
        codelengths = reading.codelengths
        given = losses, values, labels, codelengths
        return reading, self.pooled.extend(*given, firsts, escapes)

    def begin(
        self,
        X: np.ndarray,
        order: np.ndarray | None = None,
        checkpoint: Checkpoint | None = None,
        groups: np.ndarray | None = None,
    ) -> int:
        """Take in rows (n, d) to be evaluated; returns the first one's place.

        Whatever is refused, also by the disk, leaves the run as it was.
        """
        if not self.can_go_on:
            raise RuntimeError(
                "A stream must go on from where a call ended, but the last call was "
                "interrupted within a segment; call fit again"
            )
        self.check_length(len(X))
        if groups is not None:
            groups = groups if order is None else groups[order]
            check_groups(self, groups)
        if checkpoint is not None:
            checkpoint.open(self.trace)
        self.trace.write_waiting()
        folder = self.trace.folder
        if folder is not None and groups is not None:
            folder.amend(grouped=True)
        self.samples.append(X, order)
        if groups is not None:
            self.rows.groups.append(len(self.samples) - len(X), groups)
        self.flushed = None
        self.can_go_on = False  # until the end
        return len(self.samples) - len(X)

    def end(self, checkpoint: Checkpoint | None = None) -> None:
        """End the stream here: forget rows that were taken in but not evaluated.

        Then the checkpoint is written, if there is one.

        Raises
        ------
        OSError
            If the disk did not take the trace; the stream can go on when it does.
        """
        self.samples.cut(self.n_scored)
        self.rows.groups.cut(self.n_scored)
        self.late = []
        self.can_go_on = True
        if self.trace.refusal is not None:
            raise self.trace.refusal
        if checkpoint is not None:
            checkpoint.save(self)

    def open_segment(self) -> int:
        """Make the rows of the next segment ready; returns its end."""
        stop = segment_end(self, self.n_scored)
        # The first minibatch is learned with its own statistics, after it was scored
        # (uniformly, whatever they are: output layers start at zero).
        if not self.rows.n_refreshed and stop >= self.rows.first:
            self.rows.refresh_all(self.rows.first)
        self.rows.extend(stop)
        return stop

    def close_segment(
        self,
        losses: np.ndarray,
        reading: ForwardTrace,
        values: Sequence[Tensor],
        pooled: PooledRows | None,
    ) -> None:
        """Keep what the rows of a segment cost; retire readouts and refresh if due.

        Predictions (n, P) are given one for each readout, learner after learner.
        """
        # Summed column by column, in an order that does not depend on the stacks.
        in_order = (values[i] for i in np.argsort(self.columns))
        awake = reading.posterior.T[self.retirement.awake]
        weights = torch.as_tensor(awake).to(self.device)
        due = self.rows.next_refresh(self.n_scored)
        kept = self.outcome.mix(in_order, weights)
        losers = self.keep(losses, reading, kept, pooled)
        if losers:
            self.drop(losers)
        self.refresh(due)

    def keep(
        self,
        losses: np.ndarray,
        reading: ForwardTrace,
        kept: np.ndarray | None,
        pooled: PooledRows | None,
    ) -> list[int]:
        """Add rows, and what all readouts predicted; returns who retires after them."""
        codelengths, stored = reading.codelengths, None
        if self.pooled is not None and pooled is not None:
            codelengths, stored = pooled.codelengths, pooled.stored
            columns = pooled.switching, pooled.pool, pooled.shares, pooled.weights
            self.pooled.history.append(*columns)
        summaries = np.full((len(losses), self.outcome.n_kept), np.nan)
        if kept is not None:
            if pooled is not None:
                kept = self.outcome.mix_with(kept, pooled.predicted, pooled.shares)
            if self.outcome.escape is not None:
                kept = self.outcome.escape.coded(kept, self.n_scored)
            summaries = self.outcome.summarise(kept)
        self.trace.append(losses, codelengths, reading.posterior, summaries, stored)
        self.retirement.observe(losses)
        losers = self.retirement.losers(self.outcome, self.pooled)
        if losers:
            self.retirement.record(losers)
            self.forward.retire(losers)
        return losers

    def refresh(self, due: float) -> None:
        """Scale features and labels again, if so many rows were scored."""
        if self.n_scored < due:
            return
        if self.n_scored > self.rows.first:
            changes = self.rows.refresh_all(self.n_scored)
            for learner in self.learners:
                learner.re_express(changes[learner.sees])
        known = self.labels[: self.rows.groups.known(self.n_scored)]
        self.outcome.refresh(known, self.learners)

    def drop(self, columns: list[int]) -> None:
        """Free what readouts have learned that have retired, and their groups."""
        self._diverged, self._notes = self.diverged, self.notes
        self.learners, self.states = without(self.learners, self.states, columns)
        self.rows.keep_views({learner.sees for learner in self.learners})
        if self.pooled is not None:
            self.pooled.retire(self.retirement.awake)
