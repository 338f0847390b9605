"""Evaluation of some readouts of a pass in another process.

Readouts can be evaluated separately, since learners do not depend on other readouts,
and the mixture needs only losses and predictions. The file of a part contains losses,
predictions and everything needed to continue.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad

from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.stream.checkpoint import READOUT, Checkpoint, learned_of, restore
from sklearn_mdl._core.stream.coder import Arrays, by_number, under
from sklearn_mdl._core.stream.threads import Scores, Threads
from sklearn_mdl._core.validation import damaged

SCORES = "losses", "values", "labels_scored"  # names of a round's results


class Round(NamedTuple):
    """Rows on which a part of the readouts is evaluated before all readouts are mixed.

    Attributes
    ----------
    columns : list of int
        Positions of the part's readouts among all readouts.
    start, stop : int
        First row and end of the round.
    retired : list of int
        Positions, within the part, of readouts that retired before the round.
    """

    columns: list[int]
    start: int
    stop: int
    retired: list[int]


class PartFile(Checkpoint):
    """File of a part, with its state and its results of the last round.

    Parameters
    ----------
    file : Path
    about : mapping
        As for :class:`Checkpoint`.

    Attributes
    ----------
    seconds : float
        CPU seconds of the round so far in this process, excluding reading and writing.
    """

    def __init__(self, file: Path, about: Mapping[str, object]) -> None:
        super().__init__(file.parent, about)
        self.file = file
        self.seconds = 0.0
        self._since = time.process_time()
        self._scores: list[Scores] = []

    def evaluate(self, threads: Threads, labels: np.ndarray, part: Round) -> None:
        """Evaluate a round with learners restored from the file, and write the file.

        Parameters
        ----------
        threads : Threads
            Threads of the part's readouts, before their first row.
        labels : ndarray of shape (stop,)
        part : Round
        """
        retired_at = self._resume(threads, part)
        new = [k for k in part.retired if retired_at[k] < 0]
        if new:
            retired_at[new] = part.start
            threads.retire(new)
        self._wait(0.0)
        threads.begin(labels[threads.n_scored :])
        with threads.arithmetic():
            self._since = time.process_time()
            while threads.n_scored < part.stop:
                stop = threads.next_stop(threads.n_scored, part.stop)
                self._scores += threads.evaluate(stop)
                if time.monotonic() >= self._next:
                    self._save(threads, part.start, retired_at)
        self._save(threads, part.start, retired_at)

    def _resume(self, threads: Threads, part: Round) -> np.ndarray:
        """Restore the file's state, and return the row at which each readout retired.

        The row is -1 for awake readouts.
        """
        if not self.file.exists():
            if part.start:
                raise damaged(self.file, "results", "is missing", "delete its folder")
            return np.full(threads.n_readouts, -1)
        arrays, about = read_archive(self.file, "part")
        self._compare(about)
        restore(threads, arrays)
        retired_at, start = np.array(arrays["retired_at"]), int(arrays["start"][0])
        new = (retired_at[part.retired] < 0).any()
        same = start == part.start and not (new and threads.n_scored > start)
        if not same and threads.n_scored != part.start:
            required = f"results of the rows before row {part.start}"
            problem = f"holds those of the rows before row {threads.n_scored}"
            raise damaged(self.file, required, problem, "delete its folder")
        if same and threads.n_scored > start:
            self._scores = [scores_in(arrays, slice(None))]
        return retired_at

    def _save(self, threads: Threads, start: int, retired_at: np.ndarray) -> None:
        """Write the state and the results so far after a segment."""
        begin = time.monotonic()
        self.seconds += time.process_time() - self._since
        arrays = {
            **learned_of(threads),
            **_arrays_of(self._scores),
            "retired_at": retired_at,
            "start": np.array([start]),
        }
        write_archive(self.file, "part", arrays, self.about)
        self._wait(time.monotonic() - begin)
        self._since = time.process_time()


def state_of_part(
    arrays: Arrays, columns: Sequence[int], n_rows: int
) -> dict[str, np.ndarray]:
    """Select the state of a part from the arrays of all readouts of a run.

    Parameters
    ----------
    arrays : mapping
        As returned by :func:`learned_of`, with ``retired_at``.
    columns : sequence of int
    n_rows : int
        Number of rows that were evaluated.
    """
    state = {k: array for k, array in arrays.items() if not k.startswith(READOUT)}
    for name in ("diverged_at", "retired_at"):
        state[name] = state[name][list(columns)]
    places = {column: place for place, column in enumerate(columns)}
    return {"start": np.array([n_rows]), **state, **_renumbered(arrays, places)}


def states_joined(
    parts: Sequence[tuple[Sequence[int], Arrays]], n_readouts: int
) -> dict[str, np.ndarray]:
    """Join the states of the readouts in all parts, keyed as in the whole run."""
    diverged_at = np.full(n_readouts, -1)
    joined: dict[str, np.ndarray] = {}
    for columns, arrays in parts:
        diverged_at[list(columns)] = arrays["diverged_at"]
        joined |= _renumbered(arrays, dict(enumerate(columns)))
    return {**joined, "diverged_at": diverged_at}


def _renumbered(arrays: Arrays, numbers: Mapping[int, int]) -> dict[str, np.ndarray]:
    """Select the arrays of some readouts, and name them by new numbers of readouts."""
    states = by_number(under(arrays, READOUT))
    return {
        f"{READOUT}{new}.{name}": array
        for old, new in numbers.items()
        for name, array in states.get(old, {}).items()
    }


def _arrays_of(scores: Sequence[Scores]) -> dict[str, np.ndarray]:
    """Return a round's results as arrays, with NaN for classes not known yet."""
    values = [torch.stack(each.values, 1).cpu() for each in scores]
    width = max(value.shape[2] for value in values)
    padded = [pad(v, (0, width - v.shape[2]), value=math.nan) for v in values]
    return {
        "losses": np.concatenate([each.losses for each in scores]),
        "values": torch.cat(padded).numpy(),
        "labels_scored": np.concatenate([each.labels for each in scores]),
    }


def scores_in(arrays: Arrays, rows: slice) -> Scores:
    """Return the results for some rows of a round, from the arrays of a file."""
    values = torch.from_numpy(np.array(arrays["values"][rows])).unbind(1)
    losses, labels = arrays["losses"][rows], arrays["labels_scored"][rows]
    return Scores(np.array(losses), list(values), np.array(labels))
