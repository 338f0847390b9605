"""Learners of a run that are evaluated in this process, in parallel threads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from joblib import Parallel
from torch import Tensor

from sklearn_mdl._core.numerics import (
    fixed_arithmetic,
    flushed_denormals,
    one_blas_thread,
)
from sklearn_mdl._core.stream.learner import Learner, Report
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.schedule import Schedule
from sklearn_mdl._core.stream.steps import (
    NEVER,
    PassState,
    Steps,
    prequential_steps,
    remaining,
    score_segment,
    segment_jobs,
)

SEGMENT = 1024  # a learner is evaluated on this many rows, then the next learner
KEPT = 2**27  # bytes of predictions kept until they are mixed


class PassSettings(NamedTuple):
    """Settings of a pass that all of its learners share.

    Attributes
    ----------
    outcome : Outcome
        Kind of the labels.
    n_features : int
    batch_size : int
    seed : int
        Seed of the replay streams, the same for all readouts.
    device : torch.device
    first_batch_size : int or None
        Number of rows in the first parts of minibatches. If None, whole minibatches are
        learned from the start.
    n_jobs : int or None
        Number of learners evaluated in parallel. If None, as configured in joblib, and
        one by default.
    """

    outcome: Outcome
    n_features: int
    batch_size: int
    seed: int
    device: torch.device
    first_batch_size: int | None = None
    n_jobs: int | None = None


class Scores(NamedTuple):
    """Predictions of readouts for ``n`` rows, and costs of the labels.

    Attributes
    ----------
    losses : ndarray of shape (n, K)
        Costs of the labels in nats. NaN where a readout has retired.
    values : list of Tensor of shape (n, P)
        Predictions of the awake readouts, in their order.
    labels : ndarray of shape (n,)
    """

    losses: np.ndarray
    values: list[Tensor]
    labels: np.ndarray


class Threads:
    """Learners of a run in this process, which predict, observe and learn rows.

    Parameters
    ----------
    learners : sequence of Learner
        Foreign learners are moved to the end, and the others keep their order.
    samples : SampleStore
        The rows of the run in order.
    schedule : Schedule
    settings : PassSettings

    Attributes
    ----------
    learners : list of Learner
        The learners with at least one awake readout.
    states : list of PassState
        Positions of the learners on the stream.
    rows : ScaledRows
        The rows as readouts see them, and the only copy of the labels.
    n_readouts : int
        Number ``K`` of readouts, including retired ones.
    n_scored : int
        Number of rows evaluated so far.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        samples: SampleStore,
        schedule: Schedule,
        settings: PassSettings,
    ) -> None:
        outcome = settings.outcome
        self.learners = sorted(learners, key=lambda learner: learner.foreign)
        self.outcome = outcome
        self.n_jobs = settings.n_jobs
        self.n_readouts = sum(len(learner.columns) for learner in learners)
        self.n_scored = 0
        self.n_numbers = outcome.n_numbers  # numbers that learners predict
        n_kept = KEPT // (8 * self.n_readouts * outcome.n_numbers)
        batch_size = settings.batch_size
        self.segment = min(SEGMENT, max(1, n_kept // batch_size) * batch_size)
        shared = [lr.view.scalings for lr in self.learners if lr.view.columns is None]
        scalings, first = shared[0] if shared else [None], settings.first_batch_size
        options = batch_size, settings.device, outcome.feature_reach, outcome.dtype
        self.rows = ScaledRows(samples, scalings, *options, first)
        self.rows.schedule = schedule
        self.states = [
            PassState.attached(learner, self.rows, settings.seed)
            for learner in self.learners
        ]
        self._diverged_at = np.full(self.n_readouts, -1)
        self._reports: dict[int, Report] = {}
        self._first = 0  # row of the first entry of _labels
        self._labels = torch.empty(0)
        self._new_rows: list[int] = []  # rows of this call with a new class

    @property
    def columns(self) -> list[int]:
        """Positions of the awake readouts among all readouts, learner by learner."""
        return [column for learner in self.learners for column in learner.columns]

    @property
    def notes(self) -> dict[int, list[str]]:
        """Exceptions and warnings of wrapped estimators, keyed by column."""
        return {column: report.notes for column, report in self.reports.items()}

    @property
    def reports(self) -> dict[int, Report]:
        """Reports on wrapped estimators, also retired ones, keyed by column."""
        own = (learner.reports.items() for learner in self.learners)
        return self._reports | dict(chain.from_iterable(own))

    @property
    def diverged_at(self) -> np.ndarray:
        """First row (K,) for which each readout had no finite prediction, or -1."""
        diverged = self._diverged_at.copy()
        for learner, state in zip(self.learners, self.states, strict=True):
            rows = state.failed_at.cpu().numpy()
            diverged[list(learner.columns)] = np.where(rows == NEVER, -1, rows)
        return diverged

    @property
    def labels(self) -> Tensor:
        """Labels (n_scored,) of all rows evaluated so far."""
        return self.rows.labels[: self.n_scored]

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """Compute in one thread, and limit BLAS if user-defined code may call it."""
        foreign = any(learner.foreign for learner in self.learners)
        with fixed_arithmetic(), one_blas_thread() if foreign else nullcontext():
            yield

    def begin(self, labels: np.ndarray) -> None:
        """Set the labels of the rows to evaluate, starting at the incoming row."""
        self._first = self.n_scored
        # Labels are needed on the device of the predictions.
        self._labels = torch.as_tensor(labels).to(self.rows.device, self.outcome.dtype)
        new = self.outcome.new_rows(np.asarray(labels))
        self._new_rows = [self.n_scored + place for place in new]

    def next_stop(self, start: int, limit: int) -> int:
        """Return the end of the segment that begins at a row.

        A segment has at most ``segment`` rows, and ends at the latest at the limit or
        the next refresh of the scalings. If its end would divide a group, the segment
        ends after the group. A row with a new class is a separate segment.
        """
        stop = min(start + self.segment, self.rows.next_refresh(start), limit)
        for new in self._new_rows[bisect_left(self._new_rows, start) :][:1]:
            stop = min(stop, max(new, start + 1))
        return self.rows.schedule.closing(stop - 1)

    def evaluate(self, stop: int) -> Iterator[Scores]:
        """Evaluate and learn the rows of a segment.

        Yields
        ------
        scores : Scores
            Scores of all rows of the segment.
        """
        start = self.n_scored
        self.open(stop)
        labels = self._labels[start - self._first : stop - self._first]
        if start in self._new_rows[bisect_left(self._new_rows, start) :][:1]:
            yield self.new_class_scores(int(labels[0]))
            self.learn_new_class(int(labels[0]))
        else:
            jobs = segment_jobs(self.learners, self.steps(stop, labels), labels)
            results = Parallel(n_jobs=self.n_jobs, require="sharedmem")(jobs)
            yield self._scores(list(chain(*results)), labels)
        self.close(stop)

    def steps(self, stop: int, labels: Tensor | None = None) -> list[Steps]:
        """Return generators of the learners' steps over rows up to ``stop``.

        If the ``labels`` of these rows are given, learners that ignore features use
        them to take all steps at once.
        """
        if self.rows.schedule.delay or self.rows.schedule.ends:
            labels = None
        return [
            prequential_steps(learner, state, self.outcome, stop, labels)
            for learner, state in zip(self.learners, self.states, strict=True)
        ]

    def _scores(self, predicted: Sequence[Tensor], labels: Tensor) -> Scores:
        losses = np.full((len(labels), self.n_readouts), np.nan)
        for learner, values in zip(self.learners, predicted, strict=True):
            own = self.outcome.losses(values, labels)
            losses[:, learner.columns] = own.T.cpu().numpy()
        in_order = self.in_order(list(chain(*predicted)))
        return Scores(losses, in_order, labels.cpu().numpy())

    def in_order(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Sort predictions, given learner by learner, into the order of readouts."""
        return [values[i] for i in np.argsort(self.columns)]

    def new_class_scores(self, label: int) -> Scores:
        """Predict the incoming row, which has an unknown class.

        Coding that the class is new costs the same under every readout. That cost is
        added later, so losses are zero here. Weights of readouts do not change.
        """
        with fixed_arithmetic(), flushed_denormals():
            predicted = [next(steps) for steps in self.steps(self.n_scored + 1)]
        losses = np.full((1, self.n_readouts), np.nan)
        losses[:, self.columns] = 0.0
        return Scores(losses, self.in_order(list(chain(*predicted))), np.array([label]))

    def learn_new_class(self, label: int) -> None:
        """Add a class to all readouts, and learn the row that has it."""
        self.add_classes(1)
        dtype, device = self.outcome.dtype, self.rows.device
        labels = torch.full((1,), label, dtype=dtype, device=device)
        score_segment(self.steps(self.n_scored + 1), labels)

    def add_classes(self, n: int) -> None:
        """Add classes to all learners (see ``Learner.add_classes``)."""
        self.n_numbers += n
        self.outcome.n_numbers = self.n_numbers
        for learner in self.learners:
            learner.add_classes(n)

    def open(self, stop: int) -> None:
        """Prepare the rows of the next segment."""
        # The first minibatch is scaled by its own statistics, which need no labels.
        if not self.rows.n_refreshed and stop >= self.rows.first:
            self.rows.refresh_all(self.rows.first)
        self.rows.extend(stop)

    def close(self, stop: int) -> None:
        """End a segment, and refresh all scalings and units if a refresh is due."""
        due, self.n_scored = self.rows.next_refresh(self.n_scored), stop
        if stop < due:
            return
        if stop > self.rows.first:
            changes = self.rows.refresh_all(stop)
            for learner in self.learners:
                learner.re_express(changes[learner.view.columns])
        known = self.labels[: self.rows.schedule.known(stop)]
        self.outcome.refresh(known, self.learners)

    def retire(self, columns: Sequence[int]) -> None:
        """Drop some readouts, and learners and views that are left without readouts."""
        self._diverged_at, self._reports = self.diverged_at, self.reports
        self.learners, self.states = remaining(self.learners, self.states, set(columns))
        self.rows.keep_views({learner.view.columns for learner in self.learners})

    def end(self) -> None:
        """Forget labels of rows that were not evaluated."""
        self._labels, self._new_rows = torch.empty(0), []
