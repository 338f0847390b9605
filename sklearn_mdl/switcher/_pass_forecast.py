"""Forecast of one pass: devices, seconds, memory and disk, by a trial on few rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from joblib import effective_n_jobs, parallel_config
from sklearn.base import clone

from sklearn_mdl._core.numerics import fixed_arithmetic
from sklearn_mdl._core.stream.storage import is_mapped
from sklearn_mdl._core.tables import duration_text, size_text
from sklearn_mdl.switcher._split import SplitPass, about_of, check_split, folder_of

if TYPE_CHECKING:
    from sklearn_mdl.switcher._base import BaseSwitcher

ENDS = (512, 2048, 2560)  # of the trial: kernels are exact up to 2,048 rows
FLOAT = 8


class PassForecast(NamedTuple):
    """Cost of one pass that has not run yet.

    Attributes
    ----------
    n_rows, n_readouts : int
    n_devices : int
        Processes that have one each.
    n_parts : int
        Parts that these take in turns; 1 where the pass is not split.
    cpu_seconds : float
        Of all processes, if a device computes as this machine does.
    seconds : float
        Until the end, if parts share the devices evenly; one thread each.
    memory_bytes : int
        Of the process that mixes; rows that are memory-mapped do not count.
    disk_bytes : int
        Of store, checkpoint and the files of parts, at most.
    trial_rows : int
        By how many rows it was forecast.
    """

    n_rows: int
    n_readouts: int
    n_devices: int
    n_parts: int
    cpu_seconds: float
    seconds: float
    memory_bytes: int
    disk_bytes: int
    trial_rows: int

    def __str__(self) -> str:
        """Say all of it in two lines."""
        return (
            f"{self.n_rows} rows, {self.n_readouts} readouts in {self.n_parts} parts "
            f"on {self.n_devices} devices: about {duration_text(self.seconds)}\n"
            f"({duration_text(self.cpu_seconds)} of computing), "
            f"{size_text(self.memory_bytes)} of memory, "
            f"{size_text(self.disk_bytes)} on disk, by a trial on {self.trial_rows} "
            "rows"
        )


class Trial(SplitPass):
    """The first rows of a pass, part after part, in rounds that are timed.

    Attributes
    ----------
    spent : dict of int to float
        CPU seconds of the parts so far, by their first readout.
    mixed : float
        CPU seconds of mixing so far.
    rows, last, last_mixed
        Rows of the last round, and the same of it alone.
    """

    def drive_first(self, X: np.ndarray, y: np.ndarray) -> None:
        """Evaluate the rows of the trial."""
        self.spent: dict[int, float] = {}
        self.last: dict[int, float] = {}
        self.mixed = self.last_mixed = 0.0
        self.rows = 1
        self.drive(X, y, None, None, None)

    def round_end(self, start: int) -> int:
        """End rounds also where those of trials do."""
        stop = super().round_end(start)
        return min([stop, *(end for end in ENDS if end > start)])

    def _join(self, start: int, stop: int, labels: np.ndarray) -> None:
        before = time.process_time()
        super()._join(start, stop, labels)
        self.last_mixed = time.process_time() - before
        self.mixed += self.last_mixed
        self.rows, self.last, self.seconds = stop - start, self.seconds, {}
        for part, seconds in self.last.items():
            self.spent[part] = self.spent.get(part, 0.0) + seconds

    def _finish(self, labels: np.ndarray) -> None:
        """Measure what readouts have learned, and leave it where it is."""
        files = map(self.common.file_of, self.parts)
        self.state_bytes = sum(file.stat().st_size for file in files)


def trial_rows(n_rows: int) -> int:
    """Return on how many rows a pass is tried."""
    return min(n_rows, ENDS[-1]) if n_rows > ENDS[-2] else -(-n_rows // 2)


def forecast_of(switcher: BaseSwitcher, X: np.ndarray, y: np.ndarray) -> PassForecast:
    """Forecast the pass of a switcher over rows (N, d) and labels (N,)."""
    n_rows, n_trial = len(y), trial_rows(len(y))
    apart = {"store": "memory", "checkpoint": None, "store_mixtures": False}
    trial = clone(switcher).set_params(**apart, split="kinds", n_jobs=1, verbose=0)
    picked = np.arange(n_trial)
    if switcher.shuffle:
        picked = np.random.default_rng(0).permutation(n_rows)[:n_trial]
    with fixed_arithmetic(), parallel_config(backend="sequential"):
        rows, given = trial._checked(X[picked], y[picked], reset=True)
        trial._begin(rows.shape[1], trial._classes_of(y), n_rows=n_trial)
        check_split(trial._run, None, None)
        with folder_of(None, "memory") as folder:
            common = trial._common(str(folder), about_of(None))
            tried = Trial(trial._run, common, 1)
            tried.drive_first(rows, trial._encoded(given))
    left = (n_rows - n_trial) / tried.rows
    parts = [s + tried.last.get(k, 0.0) * left for k, s in tried.spent.items()]
    mixing = tried.mixed + tried.last_mixed * left
    is_split, n_devices, n_parts = switcher.split is not None, 1, 1
    seconds = sum(parts) + mixing
    if is_split:
        n_devices, n_parts = effective_n_jobs(switcher.n_jobs), len(tried.parts)
        seconds = max(max(parts), sum(parts) / n_devices) + mixing
    n_readouts = common.n_readouts
    row_bytes = 2 * FLOAT * n_readouts
    if switcher.store_mixtures:
        row_bytes += tried.row_bytes - FLOAT * n_readouts + FLOAT
    own_rows = 0 if is_mapped(X) else 4 * rows.shape[1] * n_rows
    files = switcher._folder != "memory"
    disk = tried.disk_bytes(n_rows) + 2 * tried.state_bytes if is_split else 0
    disk += files * (row_bytes * n_rows + own_rows)
    disk += (switcher.checkpoint is not None) * tried.state_bytes
    memory = tried.state_bytes + (not files) * (row_bytes * n_rows + own_rows)
    return PassForecast(
        n_rows,
        n_readouts,
        n_devices,
        n_parts,
        sum(parts) + mixing,
        seconds,
        memory,
        disk,
        n_trial,
    )
