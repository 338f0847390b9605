"""What a ranking would take: cells, memory, and the time from a short trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from sklearn_mdl.readouts.gather import hidden_widths
from sklearn_mdl.representation.cells import Task, draw_order
from sklearn_mdl.representation.store import CellStore
from sklearn_mdl.stacked import count_parameters

WARM, TIMED = 2, 4  # minibatches of a trial


@dataclass(frozen=True)
class ForecastRow:
    """The cells of an encoder on a dataset.

    Attributes
    ----------
    dataset, encoder : str
    n_samples, n_features, n_classes : int
    n_cells : int
        Orders.
    n_done : int
        Those of them that are there already.
    seconds : float
        For one cell, by a trial on its first minibatches.
    bytes : int
        For one cell: rows, losses and posterior, and the state of the readouts.
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
    """What a ranking would take.

    Attributes
    ----------
    rows : list of ForecastRow
        One for each encoder on each dataset.
    n_jobs : int
        Cells side by side.
    """

    rows: list[ForecastRow]
    n_jobs: int

    @property
    def n_missing(self) -> int:
        """Number of cells to walk."""
        return sum(row.n_cells - row.n_done for row in self.rows)

    @property
    def seconds(self) -> float:
        """Time for what is missing, if jobs share it evenly."""
        total = sum((row.n_cells - row.n_done) * row.seconds for row in self.rows)
        return total / self.n_jobs

    @property
    def bytes(self) -> int:
        """Memory of the largest cells that may be walked side by side."""
        missing = [r.bytes for r in self.rows for _ in range(r.n_cells - r.n_done)]
        return sum(sorted(missing, reverse=True)[: self.n_jobs])

    def __str__(self) -> str:
        """List the cells, and what they take together."""
        titles = (
            "dataset",
            "encoder",
            "shape",
            "classes",
            "cells",
            "there",
            "time",
            "memory",
        )
        rows = [titles, *map(_texts, self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(w) if i < 2 else text.rjust(w)
                for i, (text, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join(
            [
                *lines,
                f"{self.n_missing} cells to walk, {self.n_jobs} side by side: about "
                f"{_duration(self.seconds)} and {_size(self.bytes)} by a "
                f"trial on {WARM + TIMED} minibatches of each",
            ]
        )


def forecast(
    tasks: Sequence[Task], *, n_jobs: int | None, store: CellStore | None
) -> Forecast:
    """Try each kind of cell on its first minibatches, and reckon up.

    Parameters
    ----------
    tasks : sequence of Task
        All orders of an encoder on a dataset follow each other.
    n_jobs : int or None
    store : CellStore or None
        Where cells may be already.
    """
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        groups.setdefault((task.dataset, task.encoder), []).append(task)
    tried: dict[tuple[int, int], _Trial] = {}
    rows = []
    for names, orders in groups.items():
        (n, d), y = orders[0].X.shape, orders[0].y
        kind = d, len(np.unique(y))
        n_done = sum(
            store is not None and store.load(task) is not None for task in orders
        )
        if kind not in tried and n_done < len(orders):
            tried[kind] = _trial(orders[0])
        per_row, kept, state = tried.get(kind, _Trial(0.0, 0, 0))
        counts = n, *kind, len(orders), n_done
        rows.append(ForecastRow(*names, *counts, n * per_row, n * kept + state))
    return Forecast(rows, min(effective_n_jobs(n_jobs), max(1, len(tasks))))


class _Trial(NamedTuple):
    """What a walk takes: seconds and bytes for a row, and bytes for the readouts."""

    seconds: float
    row_bytes: int
    state_bytes: int


def _trial(task: Task) -> _Trial:
    """Walk over the first minibatches, of which the first ones do not count."""
    switcher = clone(task.switcher).set_params(
        random_state=task.seed, store="memory", checkpoint=None, verbose=0
    )
    classes, batch = np.unique(task.y), switcher.batch_size
    rows = draw_order(task.seed, task.order, len(task.y))
    n_warm = min(WARM * batch, len(rows) // 2)
    warm, timed = rows[:n_warm], rows[n_warm : (WARM + TIMED) * batch]
    switcher.partial_fit(task.X[warm], task.y[warm], classes=classes)
    start = time.perf_counter()
    switcher.partial_fit(task.X[timed], task.y[timed])
    seconds = (time.perf_counter() - start) / len(timed)
    _, d = task.X.shape
    state = sum(_state_of(r, d, len(classes)) for r in switcher.readouts_)
    # Features as float32, a loss and a probability for every readout.
    return _Trial(seconds, 4 * d + 2 * 8 * len(switcher.readouts_), state)


def _state_of(readout: Any, n_features: int, n_classes: int) -> int:
    """Bytes of weights, gradients, moments and averages; experts keep their own."""
    hidden = getattr(readout, "hidden_layer_sizes", None)
    if hidden is None:
        return 0
    sizes = (n_features, *hidden_widths(hidden), n_classes)
    return 5 * 4 * count_parameters(sizes)


def _texts(row: ForecastRow) -> tuple[str, ...]:
    missing = row.n_done < row.n_cells
    return (
        row.dataset,
        row.encoder,
        f"{row.n_samples} x {row.n_features}",
        str(row.n_classes),
        str(row.n_cells),
        str(row.n_done),
        _duration(row.seconds) if missing else "-",
        _size(row.bytes) if missing else "-",
    )


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"
