"""Passes whose readouts are split into parts that run in separate processes.

Such a pass consists of rounds. In a round, every part evaluates its readouts on the
same rows and writes their losses and predictions to a file. The run then codes these
losses as if its own threads had computed them. Readouts that lose a race retire before
the next round. So a round ends at the latest where a race compares readouts, or before
its files become too large. The results are the same as in a single process, as long as
all workers compute the same numbers.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.formats import check_format, with_format
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.safetensors_io import read_archive, read_some, write_archive
from sklearn_mdl._core.io.whole_files import exclusive, replaced
from sklearn_mdl._core.side_by_side import DEATHS, Devices, watched
from sklearn_mdl._core.stream.checkpoint import (
    TRACE,
    Checkpoint,
    coded_of,
    learned_of,
    recode,
    restore,
)
from sklearn_mdl._core.stream.part import (
    SCORES,
    Round,
    scores_in,
    state_of_part,
    states_joined,
)
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.samples import COPIED_AT_ONCE
from sklearn_mdl._core.stream.threads import SEGMENT, Scores
from sklearn_mdl._core.stream.trace import PrequentialTrace
from sklearn_mdl._core.unsupported import WRAPPED, unsupported
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.readouts import readout_names
from sklearn_mdl.switcher._split_parts import (
    LABELS,
    PLAN,
    ROWS,
    Common,
    Evaluated,
    check_disk,
    check_workers,
    evaluate,
    parts_of,
    state_of,
    workers_of,
)

PASSES = 2  # how often a part is tried if its process dies
ROUND_BYTES = 2**28  # size of a round's results, unless 1,024 rows need more
JOINED = "joined.safetensors"


class JoinedFile(Checkpoint):
    """Checkpoint of the mixture of all parts, saved after every round.

    Parameters
    ----------
    folder : Path
    about : mapping
    own : Checkpoint
        Checkpoint of the pass, written when the pass ends. If no round has been saved,
        the pass resumes from this checkpoint.
    """

    def __init__(self, folder: Path, about: Json, own: Checkpoint) -> None:
        super().__init__(folder, about)
        self.file = folder / JOINED
        self._own = own

    def open(self, trace: PrequentialTrace) -> None:
        """Open the trace after the last round, or at the checkpoint of the pass."""
        if self.file.exists():
            super().open(trace)
        else:
            self._own.open(trace)

    def restore(self, run: PrequentialRun) -> None:
        """Restore a run except its learners, whose states are in the files of parts."""
        if self._arrays is None:
            self._own.restore(run)
        else:
            recode(run, self._arrays, None)
            run.outcome.recall(np.load(self.file.with_name(LABELS))[: run.n_scored])
            self._arrays = None

    def act(self, run: PrequentialRun) -> None:
        """Write the state after a round."""
        labels = np.zeros(run.n_scored)  # only the length matters
        about = {**self.about, TRACE: run.trace.record()}
        arrays = {"labels": labels, **coded_of(run)}
        write_archive(self.file, "checkpoint", arrays, about)

    def end(self, run: PrequentialRun) -> None:
        """Write the checkpoint of the pass."""
        self._own.end(run)


class Processes:
    """Evaluator that runs the parts of a pass in separate processes.

    Parameters
    ----------
    run : PrequentialRun
        Run of all readouts. At the end, the learners of all parts are loaded into it.
    common : Common
    devices : Devices
        Devices assigned to the processes.
    """

    def __init__(self, run: PrequentialRun, common: Common, devices: Devices) -> None:
        self.run = run
        self.common = common
        self.folder = Path(common.folder)
        self.parts: list[list[int]] = []
        self.seconds: dict[int, float] = {}  # last round of each part, by first readout
        self._devices = devices

    def begin(self, labels: np.ndarray) -> None:
        """Check the workers, split the readouts, and write rows, labels and states."""
        common, run = self.common, self.run
        n_rows, path = len(run.samples), self.folder / PLAN
        plan: Json = {"token": secrets.token_hex(16), "parts": []}
        if path.is_file():  # left by an interrupted pass
            plan = json.loads(path.read_text(encoding="utf-8"))
            check_format(path, "plan", plan)
        self._write_plan(plan)
        workers = workers_of(common.folder, common.device)
        check_workers(workers, self.folder, plan["token"])
        known = [w.memory for w in workers if w.memory is not None]
        n_jobs = effective_n_jobs()
        self.parts = plan["parts"] or parts_of(common, n_jobs, min(known, default=None))
        check_disk(self.folder, self.disk_bytes(n_rows))
        if not plan["parts"]:
            self._write_rows(labels)
            self._write_states()
        self._write_plan({**plan, "parts": self.parts})
        self._labels = np.load(self.folder / LABELS)
        new = common.settings.outcome.fresh().new_rows(self._labels)
        self._new_rows = np.array(new, dtype=np.intp)

    def _write_plan(self, plan: Json) -> None:
        with replaced(self.folder / PLAN) as new_file:
            new_file.write_text(json.dumps(with_format("plan", plan)), encoding="utf-8")

    def _write_rows(self, labels: np.ndarray) -> None:
        samples = self.run.samples
        step = max(1, COPIED_AT_ONCE // (4 * max(1, samples.n_features)))
        starts = range(0, len(samples), step)
        blocks = (samples.rows(i, min(i + step, len(samples))) for i in starts)
        GrowingArray(samples.n_features, self.folder / ROWS, dtype="<f4").extend(blocks)
        seen = self.run.labels.cpu().numpy().astype(labels.dtype)
        kind = labels.dtype.newbyteorder("<").str
        file = GrowingArray(None, self.folder / LABELS, dtype=kind)
        file.append(np.concatenate([seen, labels]))

    def _write_states(self) -> None:
        """Write the states of the run's learners, from which the parts continue."""
        run, n_rows = self.run, self.run.n_scored
        if not n_rows:
            return
        arrays = {**learned_of(run.threads), "retired_at": run.retired_at}
        for columns in self.parts:
            state = state_of_part(arrays, columns, n_rows)
            about = self.common.about_part(columns)
            write_archive(self.common.file_of(columns), "part", state, about)

    @property
    def row_bytes(self) -> int:
        """Number of bytes that the parts write per row."""
        return 8 * self.common.n_readouts * (1 + self.run.outcome.n_numbers)

    def next_stop(self, start: int, limit: int) -> int:
        """Return the end of the round that begins at row ``start``."""
        n_rows = max(SEGMENT, ROUND_BYTES // self.row_bytes)
        return self.run.schedule.closing(int(min(start + n_rows, limit)) - 1)

    def disk_bytes(self, n_rows: int) -> int:
        """Return the approximate largest size of the folder for ``n_rows`` rows.

        The size is in bytes. While a file is written, its previous version still
        exists. Only the states of networks are counted.
        """
        longest = min(n_rows * self.row_bytes, ROUND_BYTES)
        states = state_of(self.common, [range(self.common.n_readouts)])
        return 4 * n_rows * self.common.settings.n_features + 2 * (longest + states)

    def retire(self, columns: Sequence[int]) -> None:
        """Do nothing, since the next round passes retired readouts to the parts."""

    def evaluate(self, stop: int) -> Iterator[Scores]:
        """Evaluate a round, and resubmit the parts whose processes died.

        Yields
        ------
        scores : Scores
            Scores of each segment of the round, in order.
        """
        start, awake = self.run.n_scored, self.run.awake
        rounds = {}
        for columns in sorted(self.parts, key=lambda c: -self.seconds.get(c[0], 0.0)):
            retired = [i for i, k in enumerate(columns) if not awake[k]]
            if len(retired) < len(columns):
                rounds[columns[0]] = Round(columns, start, stop, retired)
        for attempt in range(PASSES):
            try:
                for report in self._side_by_side(list(rounds.values())):
                    del rounds[report.columns[0]]
                    self.seconds[report.columns[0]] = report.seconds
                    for message in report.warnings:
                        warn_caller(message)
            except Exception as error:
                dead = type(error).__name__ in DEATHS
                if not dead or attempt == PASSES - 1:
                    raise
            if not rounds:
                break
        yield from self._joined(start, stop, awake)

    def _side_by_side(self, rounds: Sequence[Round]) -> Iterator[Evaluated]:
        calls = (delayed(evaluate)(self.common, part, self._devices) for part in rounds)
        can_yield = get_active_backend()[0].supports_return_generator
        return_as = "generator_unordered" if can_yield else "list"
        yield from Parallel(return_as=return_as, pre_dispatch="all", **watched())(calls)

    def _joined(self, start: int, stop: int, awake: np.ndarray) -> Iterator[Scores]:
        """Yield the scores that all parts wrote in a round, segment by segment."""
        parts = [columns for columns in self.parts if awake[columns].any()]
        files = [read_some(self.common.file_of(c), SCORES) for c in parts]
        running = [k for columns in parts for k in columns if awake[k]]
        new = self._new_rows[(self._new_rows >= start) & (self._new_rows < stop)]
        cuts = [*range(start, stop, SEGMENT), stop, *new, *(new + 1)]
        ends = sorted({cut for cut in cuts if cut <= stop})
        outcome = self.run.outcome
        for first, end in pairwise(ends):
            rows = slice(first - start, end - start)
            losses = np.full((end - first, self.common.n_readouts), np.nan)
            scores = [scores_in(arrays, rows) for arrays in files]
            for columns, part_scores in zip(parts, scores, strict=True):
                losses[:, columns] = part_scores.losses
            values = [value for part_scores in scores for value in part_scores.values]
            width, order = outcome.n_numbers, np.argsort(running)
            in_order = [values[i][:, :width] for i in order]
            yield Scores(losses, in_order, scores[0].labels)
            outcome.n_numbers += int(first in new)

    def end(self) -> None:
        """Load the learned state of every readout into the run."""
        run, n_rows = self.run, self.run.n_scored
        everything = range(self.common.n_readouts)
        threads = self.common.threads_of(everything, run.settings.device, run.samples)
        run.settings = run.settings._replace(outcome=threads.outcome)
        run.threads = threads
        if not n_rows:
            return
        files = [(columns, self.common.file_of(columns)) for columns in self.parts]
        states = [(columns, read_archive(file, "part")[0]) for columns, file in files]
        arrays = states_joined(states, self.common.n_readouts)
        of_run = {"labels": self._labels[:n_rows], "retired_at": run.retired_at}
        restore(threads, {**arrays, **of_run})


def check_split(run: PrequentialRun) -> None:
    """Check that the states of all readouts can be written to files.

    Raises
    ------
    ValueError
        If the run has readouts that wrap a classifier, an encoder or a network.
    """
    wrapped = [k for lr in run.learners if not lr.is_numbers for k in lr.columns]
    if wrapped:
        names = [repr(readout_names(run.origin.readouts)[k]) for k in wrapped]
        cure = f"leave {', '.join(names)} out, or pass n_jobs=None"
        raise unsupported(WRAPPED, 'n_jobs="processes"', cure)


@contextmanager
def folder_of(
    checkpoint: Checkpoint | None, store: str | PathLike[str]
) -> Iterator[Path]:
    """Yield the folder of a split pass, and remove it unless the pass can resume."""
    if checkpoint is None:
        root = None if store == "memory" else Path(store)
        if root is not None:
            root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=".parts-", dir=root, ignore_cleanup_errors=True
        ) as name:
            yield Path(name).absolute()  # workers may be in another folder
        return
    folder = checkpoint.path.with_name(f"{checkpoint.name}-parts")
    with exclusive(folder):
        yield folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)  # not reached if the pass was interrupted
