"""The queue of a ranking with a time budget: as many orders as time allows.

The queue depends only on the finished cells. The clock only decides when the queue
ends. So a resumed run scores the same cells in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sklearn_mdl._core.io.environment import first_difference
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._forecast import shortest_cell
from sklearn_mdl.model_selection._tasks import Task

CLEARLY = 1.1  # times the shortest codelength on the dataset, over shared orders

Outcomes = dict[int, Cell | Failure]


def rounds(tasks: Sequence[Task], found: Outcomes) -> Iterator[list[int]]:
    """Yield the due cells round by round; the caller adds their outcomes to ``found``.

    All orders of an encoder on a dataset are adjacent in ``tasks``. The generator ends
    when all cells have an outcome, except on datasets with a failed cell.
    """
    number = 0
    while len(found) < len(tasks):
        due = in_round(number, tasks, found)
        if due:
            yield due
            number += 1
        elif _none_left(tasks, found):
            return
        else:
            number = (1 << number.bit_length()) - 1  # next round for all encoders


def in_round(
    number: int, tasks: Sequence[Task], found: Mapping[int, Cell | Failure]
) -> list[int]:
    """Return the cells that are due in a round, counted from 0.

    In each round, the next order of every encoder on every dataset is due, with two
    exceptions. If the codelength of an encoder on a dataset is more than ``CLEARLY``
    times the shortest, an order is only due in rounds 0, 1, 3, 7, .... On a dataset
    with a failed cell, no order is due.
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
    """Return whether each encoder is clearly worse than the best on a dataset.

    Parameters
    ----------
    nats : sequence of ndarray
        Codelengths of each encoder in its first orders.
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
    """Return True if all missing cells are on datasets with failed cells."""
    failed = {tasks[i].dataset for i, o in found.items() if isinstance(o, Failure)}
    return all(t.dataset in failed for i, t in enumerate(tasks) if i not in found)


def check_budget(budget: float, tasks: Sequence[Task]) -> None:
    """Raise if the budget is shorter than the shortest of the cells."""
    task, seconds = shortest_cell(tasks)
    if budget < seconds:
        raise ValueError(
            f"time_budget must leave time for a cell, about {seconds:.3g} s for "
            f"{task.encoder} on {task.dataset}, got {budget}; pass a larger time_budget"
        )


def with_all_encoders(
    names: Sequence[str],
    tasks: Sequence[Task],
    outcomes: Sequence[Cell | Failure | None],
) -> list[str]:
    """Return the datasets on which every encoder has a cell; warn about the others."""
    due = {(t.dataset, t.encoder) for t in tasks}
    scored = {(c.dataset, c.encoder) for c in outcomes if isinstance(c, Cell)}
    lacking = {dataset for dataset, _ in due - scored}
    left = [name for name in names if name in lacking]
    if not left:
        return list(names)
    text = f"time_budget ran out before every encoder had a cell on {left}"
    if len(left) == len(names):
        raise ValueError(
            f"{text}, so nothing can be ranked; pass a larger time_budget, and "
            "results=FOLDER to keep finished cells"
        )
    warn_caller(f"{text}; these datasets are left out")
    return [name for name in names if name not in lacking]


def warn_of_environments(cells: Sequence[Cell]) -> None:
    """Warn if cells were scored on different machines."""
    for cell in cells:
        found = first_difference(cells[0].environment, cell.environment)
        if found is not None:
            name, one, other = found
            warn_caller(
                f"Cells were scored on different machines ({name} is {one!r} and "
                f"{other!r}), so their results may differ slightly"
            )
            return
