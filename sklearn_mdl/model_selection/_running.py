"""Evaluation of tasks, possibly in parallel on several devices, with a progress bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from tqdm import tqdm

from sklearn_mdl._core.io.whole_files import make_folder
from sklearn_mdl._core.side_by_side import (
    DEATHS,
    OWN_PROCESSES,
    Devices,
    end_with,
    watched,
)
from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.validation import kept_warnings, warn_caller
from sklearn_mdl.model_selection._budget import Outcomes, check_budget, rounds
from sklearn_mdl.model_selection._cells import Cell, score_cell
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._forecast import jobs_for
from sklearn_mdl.model_selection._store import CellStore
from sklearn_mdl.model_selection._tasks import Task

DIED = "its process died, even with nothing else running, perhaps for lack of memory"
LATE = 2.0  # seconds before a progress bar appears
PORTION = 4  # tasks per job in a batch, for backends that return all outcomes together

# A task is a named tuple with the fields dataset, encoder, order and device.
T = TypeVar("T", bound=Any)
R = TypeVar("R")


def run_tasks(
    tasks: Sequence[Task],
    *,
    n_jobs: int | None,
    store: CellStore | None = None,
    verbose: int = 0,
    budget: float | None = None,
    desc: str = "cells",
) -> list[Cell | Failure | None]:
    """Score the missing cells, and return all outcomes in the order of the tasks.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks of an encoder on a dataset must be sorted by order.
    n_jobs : int or None
        Number of cells scored in parallel, as in joblib.
    store : CellStore or None
        Store with the cells already scored. New cells are saved as soon as they are
        scored.
    verbose : int
        If above 0, a progress bar appears after two seconds.
    budget : float or None
        Seconds after which no cell is started. Running cells are finished. With a
        budget, cells are scored round by round (see ``in_round``).
    desc : str
        Title of the progress bar.

    Returns
    -------
    outcomes : list of Cell, Failure or None
        None for a cell that was not started.

    Raises
    ------
    ValueError
        If the budget does not suffice for the smallest of the first cells to run.
    """
    outcomes: Outcomes = {}
    end = None
    for due in [range(len(tasks))] if budget is None else rounds(tasks, outcomes):
        kept = _kept_cells(store, {i: tasks[i] for i in due})
        outcomes |= kept
        missing = {i: tasks[i] for i in due if i not in kept}
        if budget is not None and missing and end is None:
            check_budget(budget, list(missing.values()), n_jobs)
            end = time.monotonic() + budget
        shown = {"verbose": verbose, "n_done": len(kept), "desc": desc}
        outcomes |= _run_missing(missing, store, n_jobs, end=end, **shown)
        if not outcomes.keys() >= set(due):
            break
    return [outcomes.get(i) for i in range(len(tasks))]


def _kept_cells(store: CellStore | None, tasks: Mapping[int, Task]) -> Outcomes:
    """Return the stored cells, keyed by task number.

    If a cell cannot be looked up, a `Failure` replaces it.
    """
    kept: Outcomes = {}
    if store is None:
        return kept
    for i, task in tasks.items():
        try:
            if (cell := store.load(task)) is not None:
                kept[i] = cell
        except OSError as error:  # a directory has the file's name; other tasks can run
            kept[i] = Failure.of(error, task.dataset, task.encoder, task.order)
    return kept


def _run_missing(
    tasks: Mapping[int, Task],
    store: CellStore | None,
    n_jobs: int | None,
    **options: Any,
) -> Iterator[tuple[int, Cell | Failure]]:
    """Score cells, store them, and yield the number and outcome of each task.

    The options are passed to :func:`run_side_by_side`.
    """
    if store is not None:
        store.warn_of_other_terms(list(tasks.values()))
        if tasks:
            make_folder(store.folder)
    n_jobs = jobs_for(list(tasks.values()), n_jobs)
    for i, outcome in run_side_by_side(score_cell, tasks, n_jobs=n_jobs, **options):
        if store is not None and isinstance(outcome, Cell):
            outcome = store.save(tasks[i], outcome)
        yield i, outcome


def run_side_by_side(
    measure: Callable[[T, str | None], R],
    tasks: Mapping[int, T],
    *,
    n_jobs: int | None,
    verbose: int = 0,
    n_done: int = 0,
    desc: str = "cells",
    end: float | None = None,
) -> Iterator[tuple[int, R | Failure]]:
    """Yield the number and outcome of every started task as soon as it is finished.

    Parameters
    ----------
    measure : callable
        Called with a task and a device, which is None for the task's own device.
    tasks : mapping of int to task
        Tasks keyed by number.
    n_jobs : int or None
    verbose : int
        If above 0, a progress bar appears after two seconds.
    n_done : int
        Number of tasks that the progress bar counts as already finished.
    desc : str
        Title of the progress bar.
    end : float or None
        Time of ``time.monotonic()`` after which no task is started.
    """
    queue = _Queue(tasks, end)
    causes: dict[str, list[tuple[str, T]]] = {}  # warnings by what they require
    # Do not create a disabled bar, since it would also take tqdm's lock.
    options = {"initial": n_done, "desc": desc, "delay": LATE}
    bar = tqdm(total=n_done + len(tasks), **options) if verbose > 0 else None
    with nullcontext() if bar is None else bar:
        for due in queue.portions():
            for i, outcome, messages in _attempt_all(measure, due, n_jobs):
                task = queue.missing.pop(i)
                for message in messages:
                    required = message.partition(", but ")[0]  # without given values
                    causes.setdefault(required, []).append((message, task))
                if bar is not None:
                    bar.update()
                yield i, outcome
    for warned in causes.values():
        _warn_once(warned)
    for i in queue.lost():
        task = tasks[i]
        yield i, Failure(task.dataset, task.encoder, task.order, DIED, "")


class _Queue(Generic[T]):
    """Tasks to start, and to start again after the death of a process.

    Any of the tasks that were running may be the cause. So all others run first, then
    these once more together, and finally those still left, one by one.
    """

    def __init__(self, tasks: Mapping[int, T], end: float | None) -> None:
        self.missing, self._end = dict(tasks), math.inf if end is None else end
        self._begun, self._is_late = set[int](), False

    def portions(self) -> Iterator[Iterator[tuple[int, T]]]:
        """Yield the tasks to run next until all are finished or have failed."""
        while (new := self.missing.keys() - self._begun) and not self._is_late:
            yield self._start([i for i in self.missing if i in new])
        yield self._start(self.lost())
        yield from (self._start([i]) for i in self.lost())

    def lost(self) -> list[int]:
        """Return the numbers of the tasks that were started, but did not finish."""
        return [i for i in self.missing if i in self._begun]

    def _start(self, numbers: Sequence[int]) -> Iterator[tuple[int, T]]:
        for i in numbers:
            self._is_late = i not in self._begun and time.monotonic() > self._end
            if self._is_late:
                return
            self._begun.add(i)
            yield i, self.missing[i]


def _warn_once(warned: Sequence[tuple[str, Any]]) -> None:
    """Issue one of several similar warnings, with its task and the number of others."""
    message, task = warned[0]
    where = f"dataset {task.dataset!r}, encoder {task.encoder!r}"
    if task.order is not None:
        where += f", order {task.order}"
    others = len({(t.dataset, t.encoder, t.order) for _, t in warned}) - 1
    more = f" and {others} more" if others else ""
    warn_caller(f"{message} ({where}{more})")


def _attempt_all(
    measure: Callable[[T, str | None], R],
    tasks: Iterator[tuple[int, T]],
    n_jobs: int | None,
) -> Iterator[tuple[int, R | Failure, list[str]]]:
    """Yield the number, outcome and warnings of each task, until a process dies."""
    with Devices() as devices:
        backend = type(get_active_backend()[0]).__name__
        if backend in OWN_PROCESSES and effective_n_jobs(n_jobs) > 1:
            tasks = ((i, _portable(task)) for i, task in tasks)
        calls = (delayed(_attempt)(measure, *item, devices) for item in tasks)
        step, return_as = None, "generator_unordered"
        if not get_active_backend()[0].supports_return_generator:
            # Backends such as Ray's return all outcomes together, so submit tasks in
            # small batches.
            step, return_as = PORTION * effective_n_jobs(n_jobs) - 1, "list"
        try:
            while (first := next(calls, None)) is not None:
                settings = {"return_as": return_as, "pre_dispatch": "n_jobs"}
                portion = chain([first], islice(calls, step))
                parallel = Parallel(n_jobs=n_jobs, **settings, **watched())
                yield from parallel(portion if step is None else list(portion))
        except Exception as error:
            if type(error).__name__ not in DEATHS:
                raise


def _portable(task: T) -> T:
    """Return the task, with a `RemoteMap` in place of each array mapped from a file."""
    fields = task._asdict().items()
    maps = {name: RemoteMap.of(x) or x for name, x in fields if is_mapped(x)}
    return cast(T, task._replace(**maps))


class RemoteMap(NamedTuple):
    """A reference to an array in a file, which another process can open.

    joblib would open a memory map while it unpickles a task, and an exception at that
    point would end the pool of processes.
    """

    path: str
    start: int
    n_bytes: int
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Return a reference to a memory map, or None if it is empty or has no file."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not isinstance(root, np.memmap) or root.filename is None or not array.size:
            return None
        reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        before = -sum(r for r in reach if r < 0)  # bytes before the first element
        start = root.offset + array.ctypes.data - root.ctypes.data - before
        n_bytes = sum(map(abs, reach)) + array.itemsize
        layout = array.shape, array.dtype, before, array.strides
        return cls(str(root.filename), start, n_bytes, *layout)

    def open(self) -> np.ndarray:
        """Return the array as a read-only memory map."""
        data = np.memmap(self.path, np.uint8, "r", self.start, (self.n_bytes,))
        return np.ndarray(self.shape, self.dtype, data, self.offset, self.strides)


def _attempt(
    measure: Callable[[T, str | None], R], i: int, task: T, devices: Devices
) -> tuple[int, R | Failure, list[str]]:
    """Measure a task, and return its number, its outcome and the warnings."""
    end_with(devices.parent)
    fields = task._asdict().items()
    with kept_warnings() as messages:
        try:
            maps = {name: x.open() for name, x in fields if isinstance(x, RemoteMap)}
            own = task._replace(**maps)
            return i, measure(own, devices.claim(own.device)), messages
        except Exception as error:
            failure = Failure.of(error, task.dataset, task.encoder, task.order)
            return i, failure, messages
