"""Forecast of a ranking's time and memory, from short trials of its cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend

from sklearn_mdl import readouts
from sklearn_mdl._core.numerics import resolve_device
from sklearn_mdl._core.side_by_side import jobs_at_once
from sklearn_mdl._core.tables import Table, duration_text, size_text
from sklearn_mdl._core.validation import kept_warnings
from sklearn_mdl.model_selection._store import CellStore
from sklearn_mdl.model_selection._tasks import Task, draw_order, switcher_of
from sklearn_mdl.switcher import (
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    batch_sizes,
)

WARM, TIMED = 2, 4  # minibatches of a trial for the warm-up, and for the timing
START_SECONDS = 3.0  # time a worker process takes to import torch and scikit-learn
FEW_ROWS = 2048  # with more rows, trials may be wrong by more than a factor of 3
FEW_NUMBERS = 2**24  # up to this many numbers in total, features take little memory
OURS = {
    *(MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, readouts.KNeighborsReadout),
    *(readouts.CentroidReadout, readouts.DiscriminantReadout),
    *(readouts.DummyReadout, readouts.DummyReadoutRegressor),
    *(readouts.KernelReadout, readouts.KernelReadoutRegressor),
    *(readouts.LinearReadout, readouts.LinearReadoutRegressor),
    *(readouts.MLPReadout, readouts.MLPReadoutRegressor),
}


@dataclass(frozen=True)
class ForecastRow:
    """Forecast for the cells of one encoder on one dataset.

    Attributes
    ----------
    dataset, encoder : str
    n_samples, n_features, n_classes : int
        Sizes of the data. ``n_classes`` is 0 for real-valued labels.
    n_cells : int
        Number of cells, one for each order.
    n_done : int
        Number of cells already scored.
    seconds : float
        Time for one cell in seconds, estimated from a trial, or 0 without a trial.
    bytes : int
        Memory in bytes for the rows, losses, posterior and readouts of one cell, or 0
        without a trial.
    """

    dataset: str
    encoder: str
    n_samples: int
    n_features: int
    n_classes: int
    n_cells: int
    n_done: int
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Forecast:
    """Forecast of the cells, time and memory of a ranking.

    Attributes
    ----------
    rows : list of ForecastRow
        One row for each encoder on each dataset.
    n_jobs : int
        Number of parallel jobs, each of which holds a cell in memory.
    n_at_once : int
        Number of these jobs that run at the same time. Smaller than `n_jobs` if this
        process may use fewer CPUs.
    """

    rows: list[ForecastRow]
    n_jobs: int
    n_at_once: int

    @property
    def n_missing(self) -> int:
        """Number of cells that are not scored yet."""
        return sum(row.n_cells - row.n_done for row in self.rows)

    @property
    def seconds(self) -> float:
        """Time in seconds for the missing cells, with work spread evenly."""
        total = sum((row.n_cells - row.n_done) * row.seconds for row in self.rows)
        return total / self.n_at_once

    @property
    def bytes(self) -> int:
        """Memory in bytes if the largest missing cells run in parallel."""
        missing = [r.bytes for r in self.rows for _ in range(r.n_cells - r.n_done)]
        return sum(sorted(missing, reverse=True)[: self.n_jobs])

    def __str__(self) -> str:
        """Return a table of the cells, and their total time and memory."""
        head = ["dataset", "encoder", "shape", "classes", "cells", "done"]
        table = Table([*head, "time", "memory"], list(map(_texts, self.rows)), n_left=2)
        if not self.n_missing:
            return f"{table.to_text()}\nAll cells are scored."
        return (
            f"{table.to_text()}\n"
            f"{self.n_missing} cell{'s' * (self.n_missing != 1)} to run, "
            f"{self.n_jobs} in parallel: about "
            f"{duration_text(self.seconds)} and {size_text(self.bytes)} (estimated "
            f"from {TIMED} minibatches of each kind of cell)"
        )


def forecast(
    tasks: Sequence[Task], *, n_jobs: int | None, store: CellStore | None
) -> Forecast:
    """Forecast a ranking by timing each kind of missing cell on a few minibatches.

    Cells are of the same kind if they have the same readouts and equal numbers of
    features and of classes.

    Parameters
    ----------
    tasks : sequence of Task
        All orders of an encoder on a dataset must be adjacent.
    n_jobs : int or None
    store : CellStore or None
        Store with the cells already scored.
    """
    tried: dict[tuple[object, ...], tuple[float, int, int]] = {}
    rows = []
    for names, group in groupby(tasks, lambda task: (task.dataset, task.encoder)):
        orders = list(group)
        (n, d), y = orders[0].X.shape, orders[0].y
        n_classes = 0 if orders[0].is_real else len(np.unique(y))
        kind = d, n_classes, orders[0].readouts
        n_done = sum(_is_kept(store, task) for task in orders)
        if kind not in tried and n_done < len(orders):
            tried[kind] = _trial(orders[0])
        per_row, row_bytes, state = tried.get(kind, (0.0, 0, 0))
        counts = n, *kind[:2], len(orders), n_done
        rows.append(ForecastRow(*names, *counts, n * per_row, n * row_bytes + state))
    most = max(1, Forecast(rows, 1, 1).n_missing)
    jobs, at_once = effective_n_jobs(n_jobs), jobs_at_once(n_jobs)
    return Forecast(rows, min(jobs, most), min(at_once, most))


def shortest_cell(tasks: Sequence[Task], n_jobs: int | None) -> tuple[Task, float]:
    """Return the smallest task, and its time in seconds estimated from a trial.

    If cells run in parallel, the time is 0 for classes that are not in ``OURS``, since
    a trial of these could crash this process.
    """
    task = min(tasks, key=lambda task: task.X.size)
    may_try = effective_n_jobs(n_jobs) == 1 or _is_ours(task)
    return task, _trial(task)[0] * len(task.y) if may_try else 0.0


def jobs_for(tasks: Sequence[Task], n_jobs: int | None) -> int | None:
    """Return `n_jobs`, or 1 if scoring all cells is faster than starting processes.

    If joblib's backend is ``"loky"``, and all cells are small and only run classes in
    ``OURS``, a trial on the largest cell estimates the time. Otherwise, `n_jobs` is
    returned unchanged, since a trial of other classes could crash this process.

    Parameters
    ----------
    tasks : sequence of Task
    n_jobs : int or None
        Number of jobs, as in joblib.
    """
    backend = type(get_active_backend()[0]).__name__
    if backend != "LokyBackend" or effective_n_jobs(n_jobs) == 1:
        return n_jobs
    is_small = sum(task.X.size for task in tasks) <= FEW_NUMBERS
    if not (tasks and is_small and all(map(_is_short_and_ours, tasks))):
        return n_jobs
    try:
        with kept_warnings():  # the cell itself will issue these warnings
            per_row, _, _ = _trial(max(tasks, key=lambda task: task.X.size))
    except Exception:  # the cell itself will raise this error
        return n_jobs
    return 1 if per_row * sum(len(task.y) for task in tasks) < START_SECONDS else n_jobs


def _is_short_and_ours(task: Task) -> bool:
    """Return True if a cell is short and only runs classes in ``OURS`` on the CPU."""
    is_short = len(task.y) <= FEW_ROWS and task.n_permutations is None
    return is_short and _is_ours(task) and resolve_device(task.device).type == "cpu"


def _is_ours(task: Task) -> bool:
    switcher = switcher_of(task)
    listed = switcher.readouts
    members = listed if isinstance(listed, list | tuple) else [listed]
    kinds = {type(switcher), *map(type, members)}
    return kinds <= OURS and switcher.n_jobs != "processes"


def _is_kept(store: CellStore | None, task: Task) -> bool:
    try:
        return store is not None and store.load(task) is not None
    except OSError:  # a directory has the file's name; fit reports this failure
        return False


def _trial(task: Task) -> tuple[float, int, int]:
    """Time a task on its first minibatches, after a warm-up.

    Return seconds per row, bytes per row, and the bytes of the readouts' state.
    """
    without_files = {"store": "memory", "checkpoint": None, "n_jobs": None}
    switcher = switcher_of(task).set_params(**without_files, verbose=0)
    classes = np.unique(task.y)
    _, batch = batch_sizes(switcher.batch_size, is_by_name=False)
    named = {} if task.is_real else {"classes": classes}
    rows = draw_order(task.seed, task.order, len(task.y))
    n_warm = min(WARM * batch, len(rows) // 2)
    warm, timed = rows[:n_warm], rows[n_warm : (WARM + TIMED) * batch]
    switcher.partial_fit(task.X[warm], task.y[warm], **named)
    start = time.perf_counter()
    switcher.partial_fit(task.X[timed], task.y[timed])
    seconds = (time.perf_counter() - start) / len(timed)
    _, d = task.X.shape
    n_outputs = 2 if task.is_real else len(classes)  # 2 for location and scale
    state = sum(readouts.state_bytes(r, d, n_outputs) for r in switcher.readouts_)
    state += sum(readouts.factor_bytes(r, len(rows)) for r in switcher.readouts_)
    # A row holds features as float32, plus a loss and a weight for every readout.
    return seconds, 4 * d + 2 * 8 * len(switcher.readouts_), state


def _texts(row: ForecastRow) -> list[str]:
    missing = row.n_done < row.n_cells
    shape = f"{row.n_samples} x {row.n_features}"
    counts = map(str, (row.n_classes, row.n_cells, row.n_done))
    cost = [duration_text(row.seconds), size_text(row.bytes)] if missing else ["-", "-"]
    return [row.dataset, row.encoder, shape, *counts, *cost]
