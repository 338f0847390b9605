"""Choice of the next cells to score in a ranking with a time budget.

The choice only depends on the finished cells, and the clock only decides when to stop.
So a resumed run scores the same cells in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sklearn_mdl._core.io.environment import first_difference
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._forecast import shortest_cell
from sklearn_mdl.model_selection._tasks import Task

CLEARLY = 1.1  # codes longer than this multiple of the best encoder's are clearly worse

Outcomes = dict[int, Cell | Failure]


def rounds(tasks: Sequence[Task], outcomes: Outcomes) -> Iterator[list[int]]:
    """Yield the indices of the tasks that are due in each round.

    Before the next round, the caller must add the results of these tasks to
    ``outcomes``. In ``tasks``, the tasks of an encoder on a dataset must be sorted by
    order. After a round in which a task failed, no task on its dataset is due.
    """
    number = 0
    while True:
        due = in_round(number, tasks, outcomes)
        if due:
            yield due
            number += 1
        elif _is_for_all(number):
            return
        else:
            number = (1 << number.bit_length()) - 1  # next round with all encoders


def in_round(number: int, tasks: Sequence[Task], outcomes: Outcomes) -> list[int]:
    """Return the indices of the tasks that are due in a round.

    Rounds are numbered from 0. In each round, the next order of every encoder on every
    dataset is due, with two exceptions. If an encoder is clearly worse than the best
    encoder on a dataset, no order of this encoder is due on the dataset, except in
    rounds 0, 1, 3, 7, .... On a dataset with a failed task, no order is due.
    """
    groups: dict[str, dict[str, list[int]]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault(task.dataset, {}).setdefault(task.encoder, []).append(i)
    due = []
    for encoders in groups.values():
        scored = [[outcomes.get(i) for i in orders] for orders in encoders.values()]
        if any(isinstance(cell, Failure) for cells in scored for cell in cells):
            continue
        nats = [
            np.array([cell.codelength for cell in cells if isinstance(cell, Cell)])
            for cells in scored
        ]
        worse = clearly_worse(nats)
        for orders, codes, is_worse in zip(encoders.values(), nats, worse, strict=True):
            if len(codes) < len(orders) and (_is_for_all(number) or not is_worse):
                due.append(orders[len(codes)])
    return due


def _is_for_all(number: int) -> bool:
    """Return True for rounds 0, 1, 3, 7, ..., in which no encoder is skipped."""
    return (number + 1) & number == 0


def clearly_worse(nats: Sequence[np.ndarray]) -> list[bool]:
    """Return, for each encoder on a dataset, whether it is clearly worse than the best.

    An encoder is clearly worse if its mean codelength is more than ``CLEARLY`` times
    that of the best encoder, over the orders in which both were scored. If the mean of
    the best encoder is negative, the limit is this mean divided by ``CLEARLY``. As long
    as some encoder has not been scored, no encoder is clearly worse.

    Parameters
    ----------
    nats : sequence of ndarray
        Codelengths of each encoder in the orders scored so far.
    """
    if not all(len(codes) for codes in nats):
        return [False] * len(nats)
    shared = min(map(len, nats))
    best = nats[int(np.argmin([codes[:shared].mean() for codes in nats]))]
    means = [(codes[: len(best)].mean(), best[: len(codes)].mean()) for codes in nats]
    return [bool(mean > max(CLEARLY * low, low / CLEARLY)) for mean, low in means]


def check_budget(budget: float, tasks: Sequence[Task], n_jobs: int | None) -> None:
    """Raise ValueError if the smallest task would probably exceed the budget."""
    task, seconds = shortest_cell(tasks, n_jobs)
    if budget < seconds:
        raise ValueError(
            f"time_budget must be at least {seconds:.3g} s for a cell ({task.encoder}"
            f"{f' on {task.dataset}' * bool(task.dataset)}), got {budget}; pass "
            f"time_budget={seconds + 1:.0f} (--time-budget {seconds + 1:.0f})"
        )


def with_all_encoders(
    names: Sequence[str],
    tasks: Sequence[Task],
    outcomes: Sequence[Cell | Failure | None],
) -> list[str]:
    """Return the datasets on which every encoder was scored, and warn about the rest.

    Raise ValueError if there is no such dataset.
    """
    due = {(t.dataset, t.encoder) for t in tasks}
    scored = {(c.dataset, c.encoder) for c in outcomes if isinstance(c, Cell)}
    lacking = {dataset for dataset, _ in due - scored}
    left = [name for name in names if name in lacking]
    text = f"time_budget ran out before every encoder was scored on {left}"
    if left and len(left) == len(names):
        raise ValueError(
            f"{text}, so nothing can be ranked; pass a larger time_budget; cells saved "
            "in results=FOLDER (--out FOLDER) are not run again"
        )
    if left:
        warn_caller(f"{text}; these datasets are left out; pass a larger time_budget")
    return [name for name in names if name not in lacking]


def warn_of_environments(cells: Sequence[Cell]) -> None:
    """Warn if cells were scored in different environments."""
    for cell in cells:
        difference = first_difference(cells[0].environment, cell.environment)
        if difference is not None:
            name, first, second = difference
            warn_caller(
                f"Cells were scored in different environments ({name} is {first!r} in "
                f"one, {second!r} in another), so their results may differ slightly"
            )
            return
