"""A prequential run, which evaluates readouts, codes labels and keeps a trace."""

from __future__ import annotations

import copyreg
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.numerics import memory_of
from sklearn_mdl._core.stream.coder import Block, Coded, Coder, PooledCoder
from sklearn_mdl._core.stream.events import Elimination, Event
from sklearn_mdl._core.stream.interruption import deferred_interrupt
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.mixer import GroupMixer, Groups, NoMixer
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.schedule import Schedule
from sklearn_mdl._core.stream.threads import PassSettings, Scores, Threads
from sklearn_mdl._core.stream.trace import PrequentialTrace, TraceShape
from sklearn_mdl._core.unsupported import ESCAPE, GROUPS
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.switching import Race, SwitchingPrior


class Evaluator(Protocol):
    """Evaluator of the readouts of a run, in threads or processes."""

    def begin(self, labels: np.ndarray) -> None:
        """Set the labels of the rows to evaluate, starting at the incoming row."""

    def next_stop(self, start: int, limit: int) -> int:
        """Return the end of the segment that begins at a row."""

    def evaluate(self, stop: int) -> Iterator[Scores]:
        """Evaluate and learn the rows of a segment in one or more pieces."""

    def retire(self, columns: Sequence[int]) -> None:
        """Drop some readouts."""

    def end(self) -> None:
        """End a call, after its rows were evaluated or dropped."""


class Mixing(NamedTuple):
    """Settings of the mixture of readouts.

    Attributes
    ----------
    prior : SwitchingPrior
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts (uniform if None).
    groups : Groups or None
        Groups to pool. If None, there is no pool.
    pool : LogLinearPool or None
        Pool of the groups.
    race : Race or None
        Rule by which readouts retire. If None, all readouts are kept.
    """

    prior: SwitchingPrior
    weights: np.ndarray | None = None
    groups: Groups | None = None
    pool: LogLinearPool | None = None
    race: Race | None = None

    @property
    def group_names(self) -> tuple[Hashable, ...]:
        """Names of the pooled groups (empty without a pool)."""
        return () if self.groups is None else self.groups.names

    def parts(self, n_readouts: int, outcome: Outcome) -> tuple[NoMixer, Coder]:
        """Return the mixer of groups and the coder of a new stream."""
        prior, weights = self.prior, self.weights
        if self.groups is None or self.pool is None:
            return NoMixer(), Coder(prior, n_readouts, weights)
        n_groups, memory = len(self.groups.names), memory_of(torch.device("cpu"))
        if memory is not None and 8 * n_groups**2 > memory:
            raise MemoryError(
                f"The Hessian of {n_groups} pooled kinds of readouts does not fit into "
                f"{memory / 1e9:.3g} GB; pass fewer kinds, or pooling=None"
            )
        group_pass = outcome.group_pass(self.pool, n_groups)
        mixer = GroupMixer(self.groups, weights, n_readouts, group_pass)
        members = self.groups.members
        return mixer, PooledCoder(prior, n_readouts, weights, group_pass, members)


class PrequentialRun:
    """Run of many readouts on one stream, with its trace.

    Parameters
    ----------
    learners : list of Learner
    mixing : Mixing
    settings : PassSettings
    folder : StreamFolder or None
        Folder of the trace and of rows that are not memory-mapped. If None, they are
        kept in memory.
    label_delay : int
        Number of rows by which labels are delayed.
    store_mixtures : bool
        True if the trace includes the predictions of each group of readouts.

    Attributes
    ----------
    samples : SampleStore
        The rows in order.
    schedule : Schedule
        Schedule of when labels become known.
    threads : Threads
        The learners in this process.
    mixer : NoMixer
        Mixer of the readouts within groups.
    coder : Coder
    events : list of Event
        Events that act after every segment, in addition to the events of a call.
    trace : PrequentialTrace
    retired_at : ndarray of shape (K,), int
        Number of rows after which each readout retired, or -1 if it has not.
    flushed : PrequentialRun or None
        A copy for predictions (see ``heldout``).
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        mixing: Mixing,
        settings: PassSettings,
        *,
        folder: StreamFolder | None = None,
        label_delay: int = 0,
        store_mixtures: bool = False,
    ) -> None:
        outcome, weights = settings.outcome, mixing.weights
        self.settings = settings
        self.samples = SampleStore(settings.n_features, folder)
        self.schedule = Schedule(label_delay)
        self.threads = Threads(learners, self.samples, self.schedule, settings)
        n_readouts = self.threads.n_readouts
        self.mixer, self.coder = mixing.parts(n_readouts, outcome)
        n_groups = len(mixing.group_names)
        kept = n_groups and store_mixtures and outcome.n_numbers
        dtype = torch.empty(0, dtype=outcome.dtype).numpy().dtype.newbyteorder("<").str
        shape = TraceShape(n_readouts, n_groups, outcome.n_kept, kept, dtype)
        self.trace = PrequentialTrace(shape, folder)
        self.retired_at = np.full(n_readouts, -1)
        self.events: list[Event] = []
        by_row = [lr.columns for lr in learners if lr.rows_ahead is not None]
        self.learns_by_row = bool(by_row)
        if mixing.race is not None:
            closed_form = np.isin(np.arange(n_readouts), list(chain(*by_row)))
            options = closed_form, settings.batch_size, self.schedule
            self.events = [Elimination(mixing.race, weights, *options)]
        self.flushed: PrequentialRun | None = None
        self.is_stopped = False  # True if a callback has stopped this call
        self.can_go_on = True  # False if the last call was interrupted in a segment
        self.first_row = 0  # first row of the last call
        self.origin: Any = None  # settings of the run, set by its owner
        self._evaluator: Evaluator = self.threads

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """Leave out the copy for predictions, which can be made again."""
        return copyreg.__newobj__, (type(self),), {**self.__dict__, "flushed": None}  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[object, ...]:
        """Raise for serialisers other than pickle, such as skops."""
        raise TypeError(
            "Only pickle can write this estimator, since it holds a wrapped estimator, "
            "an encoder, an interrupted stream or a trace on disk; call "
            "pickle.dump(estimator, file)"
        )

    @property
    def is_numbers(self) -> bool:
        """True if settings and arrays in memory suffice to recreate the run."""
        is_whole = self.can_go_on and self.trace.folder is None
        return is_whole and all(learner.is_numbers for learner in self.learners)

    @property
    def n_scored(self) -> int:
        """Number of rows evaluated so far."""
        return len(self.trace)

    @property
    def outcome(self) -> Outcome:
        """Kind of the labels."""
        return self.settings.outcome

    @property
    def learners(self) -> list[Learner]:
        """Learners with at least one awake readout."""
        return self.threads.learners

    @property
    def rows(self) -> ScaledRows:
        """The rows as readouts see them, and the only copy of the labels."""
        return self.threads.rows

    @property
    def labels(self) -> Tensor:
        """Labels (n_scored,) of all rows evaluated so far."""
        return self.rows.labels[: self.n_scored]

    @property
    def diverged(self) -> np.ndarray:
        """Mask (K,) of the readouts whose predictions have stopped being finite."""
        return self.threads.diverged_at >= 0

    @property
    def awake(self) -> NDArray[np.bool_]:
        """Mask (K,) of the readouts that have not retired."""
        return self.retired_at < 0

    def check_length(self, n_rows: int) -> None:
        """Raise if ``n_rows`` more rows are too many.

        Raises
        ------
        ValueError
            If the prior does not allow a stream of that length.
        MemoryError
            If the trace would not fit into memory.
        """
        self.coder.check_length(n_rows)
        self.trace.check_room(n_rows, memory_of(torch.device("cpu")))

    def check_groups(self, keys: np.ndarray) -> None:
        """Raise if the group keys (n,) of further rows are invalid.

        Raises
        ------
        ValueError
            If rows of one group are not adjacent, or new classes may appear.
        """
        self.outcome.check_option(GROUPS, f"omit {GROUPS} or {ESCAPE}")
        self.schedule.check(keys)

    def run(
        self,
        X: np.ndarray,
        y: np.ndarray,
        order: np.ndarray | None = None,
        *,
        groups: np.ndarray | None = None,
        events: Sequence[Event] = (),
        evaluator: Evaluator | None = None,
    ) -> None:
        """Evaluate and learn new rows (n, d) with encoded labels (n,), in segments.

        Parameters
        ----------
        X, y : ndarray
        order : ndarray of shape (n,) or None
            Order in which to take the rows.
        groups : ndarray of shape (n,) or None
            Group key of each row. Labels of a group are learned only after all its rows
            are coded. None means no groups.
        events : sequence of Event
            Events of this call, such as a checkpoint. They act after the run's events.
        evaluator : Evaluator or None
            Evaluator of the readouts. If None, the threads of this process.

        Raises
        ------
        KeyboardInterrupt
            After the segment in which Ctrl-C was pressed. The run can then continue
            with other rows. After a second Ctrl-C, it stops immediately and cannot
            continue.
        RuntimeError
            If an earlier call was stopped by an error or a second Ctrl-C.
        OSError
            After the segment whose losses could not be written.
        ValueError
            If the prior does not allow a stream of that length, or if rows of a group
            are not adjacent. The run is then unchanged.
        """
        self.begin(X, order, groups, events)
        evaluator = self.threads if evaluator is None else evaluator
        ordered = y if order is None else y[order]
        evaluator.begin(ordered[self.n_scored - self.first_row :])
        self._evaluator, all_events = evaluator, [*self.events, *events]
        for event in events:
            event.begin(self)
        with self.threads.arithmetic(), deferred_interrupt() as interrupted:
            while self.n_scored < len(self.samples) and not (
                self.is_stopped or interrupted() or self.trace.refusal is not None
            ):
                for scores in evaluator.evaluate(self.next_stop(self.n_scored)):
                    self.close_segment(scores.values, *self.code(scores))
                for event in all_events:
                    event.act(self)
        self.end(events)
        if interrupted():
            raise KeyboardInterrupt

    def next_stop(self, start: int) -> int:
        """Return the end of the segment that begins at row ``start``."""
        due = [event.due(start) for event in self.events]
        return self._evaluator.next_stop(start, int(min([*due, len(self.samples)])))

    def count_segments(self) -> int:
        """Count the segments left to evaluate if nothing retires."""
        count, start = 0, self.n_scored
        while start < len(self.samples):
            count, start = count + 1, self.next_stop(start)
        return count

    def begin(
        self,
        X: np.ndarray,
        order: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        events: Sequence[Event] = (),
    ) -> None:
        """Add rows (n, d) to evaluate.

        If adding rows raises, even because of a disk error, the run does not change.
        """
        if not self.can_go_on:
            raise RuntimeError(
                "A stream must continue where a call ended, but the last call was "
                "stopped by an error or by pressing Ctrl-C twice; start again from the "
                "first row with clone(estimator).partial_fit, or call fit with all rows"
            )
        self.check_length(len(X))
        if groups is not None:
            groups = groups if order is None else groups[order]
            self.check_groups(groups)
        for event in events:
            event.open(self.trace)
        self.trace.write_waiting()
        self.first_row = len(self.samples)
        self.samples.append(X, order)
        if groups is not None:
            self.schedule.append(self.first_row, groups)
        self.flushed = None
        self.is_stopped = False
        self.can_go_on = False  # until end() is called
        for event in events:
            event.restore(self)

    def code(self, scores: Scores) -> tuple[Block, Coded]:
        """Code some rows, such as a segment, given the readouts' results."""
        losses, values, labels = scores
        start, n = self.coder.n_rows, len(losses)
        known = self.schedule.known_by_row(start, start + n)
        escapes = self.outcome.escapes(labels)
        losses += np.reshape(escapes, (-1, 1))
        mixtures = self.mixer.mixtures(values, losses, known)
        block = Block(losses, mixtures, labels, known, escapes)
        return block, self.coder.extend(block)

    def close_segment(
        self, values: Sequence[Tensor], block: Block, coded: Coded
    ) -> None:
        """Add coded rows to the trace, with summaries of the mixture's predictions."""
        weights = torch.as_tensor(coded.posterior.T[self.awake])
        # Sum in the order of readouts, even if some of them share a learner.
        mixed = self.outcome.mix(values, weights.to(values[0].device))
        if coded.pooled.size:
            mixed = self.outcome.mix_with(mixed, coded.pooled, coded.shares)
        mixed = self.outcome.add_escapes(mixed, self.n_scored)
        self.trace.append(block, coded, self.outcome.summarise(mixed))
        self.reveal()
        for event in self.events:
            event.observe(block)

    def retire(self, columns: Sequence[int]) -> None:
        """Drop some readouts and their learned state."""
        if columns:
            self.retired_at[columns] = self.n_scored
            self._evaluator.retire(columns)
            self.mixer.retire(self.awake)
            self.coder.retire(columns)

    def reveal(self) -> None:
        """Update the mixture with all labels known before the incoming row."""
        n_known = self.schedule.known(self.coder.n_rows)
        self.mixer.reveal(n_known)
        self.coder.reveal(n_known)

    def end(self, events: Sequence[Event] = ()) -> None:
        """End the call, and forget rows that were added but not evaluated.

        Then the events of the call end, for example by writing a checkpoint.

        Raises
        ------
        OSError
            If the trace could not be written. The stream can continue once writing
            succeeds.
        """
        self.samples.cut(self.n_scored)
        self.schedule.cut(self.n_scored)
        self._evaluator.end()
        self._evaluator = self.threads
        self.reveal()
        self.can_go_on = True
        if self.trace.refusal is not None:
            raise self.trace.refusal
        for event in events:
            event.end(self)
