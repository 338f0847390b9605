"""Many cells side by side: each once, each reported, none in another's way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from sklearn_mdl.representation.cells import Cell, Task, score_cell
from sklearn_mdl.representation.devices import Devices
from sklearn_mdl.representation.encoding import Dataset
from sklearn_mdl.representation.failures import Failure
from sklearn_mdl.representation.identity import fingerprints
from sklearn_mdl.representation.progress import Progress
from sklearn_mdl.representation.store import CellStore

PORTION = 4  # cells for each job, where they come back together
PASSES = 2  # over cells whose process died: by its own doing, or by another's
# What joblib and Dask raise when a process dies. A task that cannot be unpickled breaks
# a pool, too, but would do so again.
DEATHS = {"TerminatedWorkerError", "KilledWorker", "FutureCancelledError"}

Outcome = Cell | Failure


def run_tasks(
    tasks: Sequence[Task],
    *,
    n_jobs: int | None,
    store: CellStore | None = None,
    verbose: int = 0,
) -> list[Outcome]:
    """Walk over what is missing, and return all cells in the order of the tasks.

    Parameters
    ----------
    tasks : sequence of Task
    n_jobs : int or None
        Cells walked side by side, as joblib understands it.
    store : CellStore or None
        Where cells are looked up, and kept as they come.
    verbose : int
        Whether to show a bar.

    Returns
    -------
    outcomes : list of Cell or Failure
    """
    found: dict[int, Outcome] = {}
    if store is not None:
        loaded = ((i, store.load(task)) for i, task in enumerate(tasks))
        found = {i: cell for i, cell in loaded if cell is not None}
    with Progress(tasks, found, disable=not verbose) as progress:
        for _ in range(PASSES):
            missing = [(i, t) for i, t in enumerate(tasks) if i not in found]
            for i, outcome in _side_by_side(missing, n_jobs) if missing else ():
                if store is not None and isinstance(outcome, Cell):
                    outcome = store.save(tasks[i], outcome)
                found[i] = outcome
                progress.finished(i)
    return [found.get(i) or _died(task) for i, task in enumerate(tasks)]


def _side_by_side(
    tasks: Sequence[tuple[int, Task]], n_jobs: int | None
) -> Iterator[tuple[int, Outcome]]:
    """Yield outcomes as they come; end early if a process dies."""
    with Devices() as devices:
        calls = [delayed(_attempt)(i, task, devices) for i, task in tasks]
        step, return_as = len(calls), "generator_unordered"
        if not get_active_backend()[0].supports_return_generator:
            # Ray's, for one: all come at the end, so they are given out in portions.
            step, return_as = PORTION * effective_n_jobs(n_jobs), "list"
        try:
            for start in range(0, len(calls), step):
                parallel = Parallel(n_jobs=n_jobs, return_as=return_as)
                yield from parallel(calls[start : start + step])
        except Exception as error:
            if type(error).__name__ not in DEATHS:
                raise


def _attempt(index: int, task: Task, devices: Devices) -> tuple[int, Outcome]:
    try:
        return index, score_cell(task, devices.claim(task.switcher.device))
    except Exception as error:
        return index, Failure.of(error, task.dataset, task.encoder, task.order)


def _died(task: Task) -> Failure:
    error = "its process died; see whether memory runs out"
    return Failure(task.dataset, task.encoder, task.order, error, "")


def list_tasks(
    data: dict[str, Dataset], switcher: Any, n_orders: int, seed: int
) -> list[Task | Failure]:
    """List all cells: dataset by dataset, encoder by encoder, order by order.

    Parameters
    ----------
    data : dict of str to Dataset
    switcher : MDLReadoutSwitcher
    n_orders, seed : int

    Returns
    -------
    tasks : list of Task or Failure
        A failure stands for all orders of an encoder that left no features.
    """
    tasks: list[Task | Failure] = []
    for name, dataset in data.items():
        for encoder, X in dataset.features.items():
            if isinstance(X, Failure):
                tasks.append(X)
                continue
            digests = fingerprints(X, dataset.labels)
            tasks += [
                Task(name, encoder, order, seed, switcher, X, dataset.labels, digests)
                for order in range(n_orders)
            ]
    return tasks
