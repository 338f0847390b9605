"""Forecast of the time and space that a pass takes, from a trial on a few rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import clone
from torch import Tensor

from sklearn_mdl._core.numerics import fixed_arithmetic
from sklearn_mdl._core.side_by_side import jobs_at_once
from sklearn_mdl._core.sklearn_compat import take_rows
from sklearn_mdl._core.stream.checkpoint import learned_of
from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.stream.schedule import grouped_order, keys_of
from sklearn_mdl._core.stream.threads import Scores, Threads
from sklearn_mdl._core.tables import duration_text, size_text
from sklearn_mdl.readouts import factor_bytes
from sklearn_mdl.switcher._fitted import FittedSwitcher
from sklearn_mdl.switcher._resolved import PROCESSES, store_of
from sklearn_mdl.switcher._split import ROUND_BYTES, check_split
from sklearn_mdl.switcher._split_parts import Common, parts_of

ENDS = (512, 2048, 2560)  # ends of windows; by default, kernels are exact to row 2,048
FLOAT = 8


class PassForecast(NamedTuple):
    """Estimated cost of one pass.

    Attributes
    ----------
    n_rows, n_readouts : int
    n_processes : int
        Number of processes, or 1 if the pass is not split. If there are fewer GPUs than
        processes, processes share GPUs. Without a GPU, they share the CPUs.
    n_parts : int
        Number of parts shared by the processes, or 1 if the pass is not split.
    cpu_seconds : float
        CPU time of all processes, if each runs as fast as the trial.
    seconds : float
        Elapsed time if the parts are spread evenly over the processes and each part
        uses one thread. Processes on this machine are assumed to share the CPUs that
        this process may use.
    memory_bytes : int
        Memory of readouts and, without a store or checkpoint, of rows, losses and
        posterior. Libraries and temporary arrays (up to 1 GB together) and
        memory-mapped rows are not included.
    disk_bytes : int
        Largest total size of the store, the checkpoint and the files of the parts.
    trial_rows : int
        Number of rows in the trial.
    """

    n_rows: int
    n_readouts: int
    n_processes: int
    n_parts: int
    cpu_seconds: float
    seconds: float
    memory_bytes: int
    disk_bytes: int
    trial_rows: int

    def __str__(self) -> str:
        """Return the forecast in two lines."""
        parts = f" in {self.n_parts} parts in {self.n_processes} processes"
        what = f"{self.n_rows} rows, {self.n_readouts} readouts"
        size, disk = size_text(self.memory_bytes), size_text(self.disk_bytes)
        return (
            f"{what}{parts * (self.n_parts > 1)}: about {duration_text(self.seconds)}\n"
            f"({duration_text(self.cpu_seconds)} of CPU time), {size} of memory, "
            f"{disk} on disk, estimated from a trial on {self.trial_rows} rows"
        )


@dataclass
class _Window:
    """CPU seconds of each part, and then of mixing, over the rows of one window."""

    seconds: np.ndarray
    n_rows: int = 0


class TimedParts:
    """Evaluator that runs the parts of a pass one by one and times each of them.

    Parameters
    ----------
    parts : list of (list of int, Threads)
        The readouts (as columns) and the threads of each part.

    Attributes
    ----------
    windows : list of _Window
        The windows so far. A new window starts at each of `ENDS`, or at the end of the
        group that contains it.
    """

    def __init__(self, parts: list[tuple[list[int], Threads]]) -> None:
        self.parts = parts
        self.windows = [_Window(np.zeros(len(parts) + 1))]
        self._n_readouts = sum(len(columns) for columns, _ in parts)

    def begin(self, labels: np.ndarray) -> None:
        """Begin all parts."""
        for _, threads in self.parts:
            threads.begin(labels)

    def next_stop(self, start: int, limit: int) -> int:
        """Return the end of the segment that begins at row ``start``.

        A segment only crosses the end of a window to complete a group.
        """
        limit = min([limit, *[end for end in ENDS if end > start]])
        return min(threads.next_stop(start, limit) for _, threads in self.parts)

    def evaluate(self, stop: int) -> Iterator[Scores]:
        """Evaluate a segment part by part, and add the CPU time to the window."""
        window, start = self.windows[-1], self.parts[0][1].n_scored
        losses = np.full((stop - start, self._n_readouts), np.nan)
        values = dict[int, Tensor]()
        begun = [threads.evaluate(stop) for _, threads in self.parts]
        for i, (columns, threads) in enumerate(self.parts):
            before = time.process_time()
            scores = next(begun[i])
            window.seconds[i] += time.process_time() - before
            losses[:, columns] = scores.losses
            awake = sorted(threads.columns)
            values |= {columns[k]: v for k, v in zip(awake, scores.values, strict=True)}
        before = time.process_time()
        yield Scores(losses, [values[k] for k in sorted(values)], scores.labels)
        window.seconds[-1] += time.process_time() - before
        for i, rest in enumerate(begun):
            before = time.process_time()
            next(rest, None)
            window.seconds[i] += time.process_time() - before
        window.n_rows += stop - start
        if any(start < end <= stop for end in ENDS):
            self.windows.append(_Window(np.zeros_like(window.seconds)))

    def retire(self, columns: Sequence[int]) -> None:
        """Retire readouts in the parts to which they belong."""
        for part, threads in self.parts:
            retiring = [place for place, column in enumerate(part) if column in columns]
            if retiring:
                threads.retire(retiring)

    def end(self) -> None:
        """End all parts."""
        for _, threads in self.parts:
            threads.end()

    def seconds(self, n_rows: int) -> tuple[np.ndarray, float]:
        """Estimate the CPU seconds of each part and of mixing for ``n_rows`` rows.

        A row after the trial is assumed to cost as much as a row in the last window.
        """
        windows = [window for window in self.windows if window.n_rows]
        n_timed = sum(window.n_rows for window in windows)
        ratio = (n_rows - n_timed) / windows[-1].n_rows
        timed = sum(window.seconds for window in windows)
        seconds = timed + ratio * windows[-1].seconds
        return seconds[:-1], float(seconds[-1])


def trial_rows(n_rows: int) -> int:
    """Return how many of ``n_rows`` rows the trial uses."""
    return min(n_rows, ENDS[-1]) if n_rows > ENDS[-2] else -(-n_rows // 2)


def forecast_of(
    switcher: FittedSwitcher, X: Any, y: np.ndarray, groups: ArrayLike | None
) -> PassForecast:
    """Forecast the cost of a pass of a switcher over indexable rows X and labels y."""
    n_rows, n_trial = len(y), trial_rows(len(y))
    overrides = {"store": "memory", "checkpoint": None, "n_jobs": 1, "verbose": 0}
    trial = clone(switcher).set_params(**overrides)
    keys, picked = keys_of(groups, n_rows), np.arange(n_rows)
    if switcher.shuffle:
        picked = grouped_order(np.random.default_rng(0).permutation(n_rows), keys)
    picked = picked[:n_trial]
    with fixed_arithmetic():
        rows, labels = trial._checked(take_rows(X, picked), y[picked], reset=True)
        trial._begin(rows.shape[1], trial._classes_of(y), n_rows=n_trial)
        run = trial._run
        parts = [(list(range(run.threads.n_readouts)), run.threads)]
        n_processes = n_at_once = 1
        common = trial._common("", {})
        if switcher.n_jobs == PROCESSES:
            check_split(run)
            n_processes, n_at_once = effective_n_jobs(), jobs_at_once()
            device, samples = run.settings.device, run.samples
            parts = [
                (columns, common.threads_of(columns, device, samples))
                for columns in parts_of(common, n_processes)
            ]
        timed = TimedParts(parts)
        trial_keys = None if keys is None else keys[picked]
        run.run(rows, trial._encoded(labels), groups=trial_keys, evaluator=timed)
    times, mixing = timed.seconds(n_rows)
    return PassForecast(
        n_rows,
        len(trial.readouts_),
        n_processes,
        len(parts),
        cpu_seconds=float(times.sum()) + mixing,
        seconds=max(float(times.max()), float(times.sum()) / n_at_once) + mixing,
        **_bytes_of(switcher, n_rows, is_mapped(X), parts, common),
        trial_rows=n_trial,
    )


def _bytes_of(
    switcher: FittedSwitcher,
    n_rows: int,
    mapped: bool,
    parts: list[tuple[list[int], Threads]],
    common: Common,
) -> dict[str, int]:
    """Return the fields of a `PassForecast` that are in bytes."""
    width, n_numbers = common.settings.n_features, common.settings.outcome.n_numbers
    states = 0
    for _, threads in parts:
        if all(learner.is_numbers for learner in threads.learners):
            states += sum(array.nbytes for array in learned_of(threads).values())
    row_bytes = 2 * FLOAT * common.n_readouts
    place, keeps_mixtures = store_of(switcher.store)
    if keeps_mixtures:
        kinds = {readout.pool_kind for readout in common.readouts}
        row_bytes += FLOAT * (len(kinds) * n_numbers + 1)
    own_rows = 0 if mapped else 4 * width * n_rows
    checkpoint = switcher.checkpoint is not None
    on_disk = place != "memory" or checkpoint
    disk = on_disk * (row_bytes * n_rows + own_rows) + checkpoint * states
    if switcher.n_jobs == PROCESSES:
        score_bytes = FLOAT * common.n_readouts * (1 + n_numbers) * n_rows
        disk += 4 * width * n_rows + 2 * (min(score_bytes, ROUND_BYTES) + 2 * states)
    memory = sum(factor_bytes(readout, n_rows) for readout in common.readouts)
    memory += states + (not on_disk) * (row_bytes * n_rows + own_rows)
    return {"memory_bytes": int(memory), "disk_bytes": int(disk)}
