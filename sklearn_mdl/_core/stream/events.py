"""Events between the segments of a run, such as retirement or a progress bar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sklearn_mdl._core.sklearn_compat import callback_context
from sklearn_mdl._core.stream.coder import Block
from sklearn_mdl._core.stream.schedule import Schedule
from sklearn_mdl._core.stream.trace import PrequentialTrace
from sklearn_mdl.switching import Race

if TYPE_CHECKING:
    from sklearn_mdl._core.stream.run import PrequentialRun

Floats = NDArray[np.float64]


class Event:
    """Base class of actions between segments. Its methods do nothing."""

    def open(self, trace: PrequentialTrace) -> None:
        """Read what is needed before rows are added."""

    def restore(self, run: PrequentialRun) -> None:
        """Restore the state of an interrupted run, after its rows were added."""

    def begin(self, run: PrequentialRun) -> None:
        """Act before the first segment of a call."""

    def observe(self, block: Block) -> None:
        """Record rows that were coded."""

    def resumed(self) -> None:
        """Act after a resumed run has observed its earlier rows again."""

    def due(self, start: int) -> float:
        """Return the row by which a segment from row ``start`` must end."""
        return math.inf

    def act(self, run: PrequentialRun) -> None:
        """Act after a segment."""

    def end(self, run: PrequentialRun) -> None:
        """Act after the last segment of a call if nothing has failed."""

    def close(self) -> None:
        """Release resources, even if a call has failed."""


class Elimination(Event):
    """Retirement of readouts that lose a race, judged by losses on known labels.

    Whenever the number of known labels has doubled, losses over the last half of these
    labels are compared.

    Parameters
    ----------
    race : Race
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts. A readout with zero weight never keeps another
        awake.
    closed_form : ndarray of shape (K,), bool
        Mask of the readouts that learn in closed form.
    batch_size : int
    schedule : Schedule
        Schedule of the stream.
    """

    def __init__(
        self,
        race: Race,
        weights: Floats | None,
        closed_form: NDArray[np.bool_],
        batch_size: int,
        schedule: Schedule,
    ) -> None:
        self._closed_form, n_readouts = closed_form, len(closed_form)
        self._possible = np.ones(n_readouts, bool) if weights is None else weights > 0
        race.check_params(int(self._possible.sum()))
        self._race = race
        self._batch_size = batch_size
        self._schedule = schedule
        self._n_known = 0
        self._pending = np.empty((0, n_readouts))  # losses of rows with unknown labels
        self._count = self._next_count(0)
        self._mark = self._count // 2
        self._windows = [(0, np.zeros(n_readouts))]  # the last two: first row, sums

    def _next_count(self, n_known: int) -> int:
        return self._race.next_count(n_known, self._batch_size)

    def due(self, start: int) -> float:
        """Return the first row after row ``start`` at which readouts may retire."""
        return self._schedule.when(self._next_count(self._schedule.known(start)))

    def observe(self, block: Block) -> None:
        """Sum the losses of rows whose labels are known after a block."""
        losses = np.concatenate([self._pending, block.losses])
        n_new = int(block.known[-1]) - self._n_known
        for row in losses[:n_new]:  # fixed order of summation, however rows are divided
            if self._n_known == self._mark:
                self._windows = [self._windows[-1], (self._mark, np.zeros(len(row)))]
                self._mark = self._next_count(self._mark)
            for _, sums in self._windows:
                sums += row
            self._n_known += 1
        self._pending = losses[n_new:]

    def resumed(self) -> None:
        """Skip the comparisons that were made before the interruption."""
        self._count = self._next_count(self._n_known)

    def act(self, run: PrequentialRun) -> None:
        """Retire readouts that have lost."""
        if self._n_known < self._count:
            return
        last, self._count = self._count, self._next_count(self._n_known)
        while (following := self._next_count(last)) <= self._n_known:
            last = following
        start, sums = next(w for w in reversed(self._windows) if w[0] <= last // 2)
        awake = run.awake
        losses = np.where(awake & self._possible, sums, np.inf)
        unit = run.outcome.unit_of_loss(float(losses.min()), self._n_known - start)
        needed = run.coder.needed(self._race.slack_of_pool(self._n_known))
        results = losses, needed, unit, self._n_known, self._closed_form
        run.retire(np.flatnonzero(awake & ~self._race.survivors(*results)).tolist())


class Progress(Event):
    """A progress bar.

    Parameters
    ----------
    title : str
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: tqdm | None = None

    def begin(self, run: PrequentialRun) -> None:
        """Show the bar, including rows restored from a checkpoint."""
        total, done = len(run.samples) - run.first_row, run.n_scored - run.first_row
        self._bar = tqdm(total=total, initial=done, unit="row", desc=self._title)

    def act(self, run: PrequentialRun) -> None:
        """Update the bar."""
        assert self._bar is not None
        self._bar.update(run.n_scored - run.first_row - self._bar.n)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


class Notify(Event):
    """Notifier of scikit-learn's callbacks, which may end a run.

    Parameters
    ----------
    estimator : object
        An estimator with callbacks, within a method decorated by ``with_callbacks``.
    X, y : array-like
        Data of the fit.
    """

    def __init__(self, estimator: Any, X: object, y: object) -> None:
        self._estimator = estimator
        self._data = {"X": X, "y": y}

    def begin(self, run: PrequentialRun) -> None:
        """Notify callbacks of the start of the fit and of its first segment."""
        self._fit = callback_context(self._estimator, run.count_segments())
        self._fit.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        self._begin_segment(run)

    def _begin_segment(self, run: PrequentialRun) -> None:
        if run.n_scored < len(run.samples):
            self._segment = self._fit.subcontext(task_name="segment")
            self._segment.call_on_fit_task_begin(estimator=self._estimator)

    def act(self, run: PrequentialRun) -> None:
        """Notify callbacks of the end of a segment and the start of the next."""
        stops = self._segment.call_on_fit_task_end(estimator=self._estimator)
        run.is_stopped = bool(stops)
        if not run.is_stopped:
            self._begin_segment(run)

    def end(self, run: PrequentialRun) -> None:
        """Notify callbacks of the end of the fit."""
        self._fit.call_on_fit_task_end(estimator=self._estimator, **self._data)
