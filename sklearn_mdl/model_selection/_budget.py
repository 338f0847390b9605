"""Cells in as many orders as time allows: the queue of a ranking with a budget.

The queue follows from the cells that are finished, and from nothing else; the clock
only ends it. So a run that goes on later goes through the same cells.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._forecast import shortest_cell
from sklearn_mdl.model_selection._running import kept_cells, run_missing
from sklearn_mdl.model_selection._store import CellStore
from sklearn_mdl.model_selection._tasks import Task

CLEARLY = 1.1  # times the shortest codelength on the dataset, over common orders

Outcomes = dict[int, Cell | Failure]


def run_until(
    tasks: Sequence[Task],
    *,
    budget: float,
    n_jobs: int | None,
    store: CellStore | None = None,
    verbose: int = 0,
) -> list[Cell | Failure | None]:
    """Score cells round by round until the time is over; no cell is cut short.

    Parameters
    ----------
    tasks : sequence of Task
        All orders of an encoder on a dataset follow each other.
    budget : float
        Seconds after which no cell is begun.
    n_jobs, store, verbose
        As of ``run_tasks``.

    Returns
    -------
    outcomes : list of Cell, Failure or None
        None for a cell whose turn did not come.

    Raises
    ------
    ValueError
        If the budget is shorter than the shortest cell of the first round.
    """
    found: Outcomes = {}
    number, end = 0, None
    while len(found) < len(tasks):
        due = {i: tasks[i] for i in in_round(number, tasks, found)}
        if not due:
            if _none_left(tasks, found):
                break
            number = (1 << number.bit_length()) - 1  # the next in which all have a turn
            continue
        found |= kept_cells(store, due)
        missing = {i: task for i, task in due.items() if i not in found}
        if missing and end is None:
            _check(budget, list(missing.values()))
            end = time.monotonic() + budget
        found |= run_missing(
            missing, n_jobs=n_jobs, store=store, verbose=verbose, end=end
        )
        if not found.keys() >= due.keys():
            break
        number += 1
    return [found.get(i) for i in range(len(tasks))]


def in_round(
    number: int, tasks: Sequence[Task], found: Mapping[int, Cell | Failure]
) -> list[int]:
    """Return which cells are due in a round, counted from 0.

    In each round every encoder gets its next order on every dataset; but one whose
    codelength is more than ``CLEARLY`` times the shortest on a dataset gets one there
    in rounds 0, 1, 3, 7, ... alone. A dataset on which a cell failed gets none.
    """
    groups: dict[str, dict[str, list[int]]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault(task.dataset, {}).setdefault(task.encoder, []).append(i)
    for_all = (number + 1) & number == 0
    due = []
    for encoders in groups.values():
        scored = [[found[i] for i in own if i in found] for own in encoders.values()]
        if any(isinstance(one, Failure) for cells in scored for one in cells):
            continue
        nats = [
            np.array([cell.codelength for cell in cells if isinstance(cell, Cell)])
            for cells in scored
        ]
        worse = clearly_worse(nats)
        for own, codes, is_worse in zip(encoders.values(), nats, worse, strict=True):
            if len(codes) < len(own) and (for_all or not is_worse):
                due.append(own[len(codes)])
    return due


def clearly_worse(nats: Sequence[np.ndarray]) -> list[bool]:
    """Tell which encoders are clearly worse on a dataset.

    Parameters
    ----------
    nats : sequence of ndarray
        Codelengths of each in its first orders.
    """
    if not all(len(codes) for codes in nats):
        return [False] * len(nats)
    shared = min(map(len, nats))
    best = nats[int(np.argmin([codes[:shared].mean() for codes in nats]))]
    counts = [min(len(codes), len(best)) for codes in nats]
    return [
        bool(codes[:n].mean() > CLEARLY * best[:n].mean())
        for codes, n in zip(nats, counts, strict=True)
    ]


def _none_left(tasks: Sequence[Task], found: Outcomes) -> bool:
    """Return whether what is missing is of datasets on which a cell failed."""
    failed = {tasks[i].dataset for i, o in found.items() if isinstance(o, Failure)}
    return all(t.dataset in failed for i, t in enumerate(tasks) if i not in found)


def _check(budget: float, tasks: Sequence[Task]) -> None:
    task, seconds = shortest_cell(tasks)
    if budget < seconds:
        raise ValueError(
            "time_budget must allow one cell, the shortest of which takes about "
            f"{seconds:.3g} s by a trial ({task.encoder} on {task.dataset}), got "
            f"{budget}; raise it"
        )
