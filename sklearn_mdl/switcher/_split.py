"""One pass in parts: readouts in processes of their own, and the mixture of all.

A pass goes in rounds. In a round every part evaluates its readouts on the same rows and
leaves their losses, and the predictions of the mixtures of its groups, in a file. They
are then mixed as in one process; readouts that lose a race retire before the next
round. So a round ends where a race compares readouts, and where its files would become
too large. The numbers are those of one process.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from tqdm import tqdm

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.safetensors_io import (
    read_archive,
    read_some,
    write_archive,
)
from sklearn_mdl._core.io.whole_files import exclusive, replaced
from sklearn_mdl._core.side_by_side import DEATHS, PASSES, Devices
from sklearn_mdl._core.stream.checkpoint import (
    ENVIRONMENT,
    TRACE,
    Checkpoint,
    mix_again,
    mixed_of,
    restore,
)
from sklearn_mdl._core.stream.run import SEGMENT, PrequentialRun
from sklearn_mdl._core.stream.storage import COPIED_AT_ONCE
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.switcher._split_parts import (
    LABELS,
    ROWS,
    Common,
    Evaluated,
    Round,
    evaluate,
    parts_of,
    state_of,
)
from sklearn_mdl.switcher._split_workers import (
    PLAN,
    check_disk,
    check_workers,
    workers_of,
)

ROUND_BYTES = 2**30  # of what all parts leave of a round
JOINED = "joined.safetensors"


class JoinedFile(Checkpoint):
    """Progress of the mixture of all parts, between two rounds.

    Parameters
    ----------
    folder : Path
    about : mapping
    """

    def __init__(self, folder: Path, about: Json) -> None:
        super().__init__(folder, about)
        self.file = folder / JOINED

    def resume(self, run: PrequentialRun) -> int:
        """Bring a run to where the file says, but for its rows and learners."""
        if self._arrays is None:
            return 0
        arrays, self._arrays = self._arrays, None
        run.retirement.retired_at = np.array(arrays["retired_at"])
        awake = run.retirement.awake
        if run.pooled is not None:
            run.pooled.retire(awake)
        mix_again(run, arrays, len(arrays["summaries"]), None)
        if not awake.all():
            run.forward.retire(np.flatnonzero(~awake).tolist())
        return run.n_scored

    def save(self, run: PrequentialRun) -> None:
        """Write the state after a round."""
        labels = np.zeros(run.n_scored)  # their number is what counts
        arrays = {"labels": labels, **mixed_of(run)}
        about = {**self.about, TRACE: run.trace.record()}
        write_archive(self.file, arrays, about)


class SplitPass:
    """A pass whose readouts are evaluated in parts.

    Parameters
    ----------
    run : PrequentialRun
        Of all readouts, before its first row; in the end it is as after a pass of its
        own, but that learners are on its device.
    common : Common
    n_jobs : int or None
        Parts that are evaluated side by side.
    """

    def __init__(self, run: PrequentialRun, common: Common, n_jobs: int | None) -> None:
        self.run = run
        self.common = common
        self.n_jobs = n_jobs
        self.folder = Path(common.folder)
        self.parts: list[list[int]] = []
        self.seconds: dict[int, float] = {}  # of parts, by their first readout

    def drive(
        self,
        X: np.ndarray,
        y: np.ndarray,
        order: np.ndarray | None,
        checkpoint: Checkpoint | None,
        title: str | None,
    ) -> None:
        """Evaluate all rows, round after round."""
        run, joined = self.run, JoinedFile(self.folder, self.common.about)
        own = checkpoint is not None and checkpoint.file.exists()
        run.begin(X, order, checkpoint if own else joined)
        if own and checkpoint is not None:
            self._refuse_part_of_a_pass(checkpoint.resume(run), len(X))
            run.end()
            return
        joined.resume(run)
        ordered = y if order is None else y[order]
        self._prepare(ordered)
        with (
            Devices() as devices,
            tqdm(
                total=len(X),
                initial=run.n_scored,
                unit="row",
                desc=title,
                disable=title is None,
            ) as bar,
        ):
            while run.n_scored < len(X):
                start, stop = run.n_scored, self.round_end(run.n_scored)
                self._evaluate(start, stop, devices)
                self._join(start, stop, ordered[start:stop])
                joined.save(run)
                bar.update(stop - start)
        self._finish(ordered)
        run.end()
        if checkpoint is not None:
            checkpoint.save(run)

    @staticmethod
    def _refuse_part_of_a_pass(n_scored: int, n_rows: int) -> None:
        if n_scored < n_rows:
            raise ValueError(
                f"A pass must end as it began, but {n_scored} of the {n_rows} rows "
                "were evaluated in one process; pass split=None or name another "
                "checkpoint"
            )

    def _prepare(self, labels: np.ndarray) -> None:
        """Look at the workers, cut the readouts, and lay out rows and labels."""
        common, samples = self.common, self.run.samples
        path, n_jobs = self.folder / PLAN, effective_n_jobs(self.n_jobs)
        plan: Json = {"token": secrets.token_hex(16), "parts": []}
        if path.is_file():  # of a pass that goes on
            plan = json.loads(path.read_text(encoding="utf-8"))
        self._write_plan(plan)
        workers = workers_of(common.folder, common.device, self.n_jobs)
        check_workers(workers, self.folder, plan["token"])
        known = [w.memory for w in workers if w.memory is not None]
        self.parts = plan["parts"] or parts_of(common, n_jobs, min(known, default=None))
        check_disk(self.folder, self.disk_bytes(len(samples)))
        self._write_plan({**plan, "parts": self.parts})
        if not (self.folder / ROWS).is_file():
            step = max(1, COPIED_AT_ONCE // (4 * max(1, common.n_features)))
            starts = range(0, len(samples), step)
            blocks = (samples.rows(i, min(i + step, len(samples))) for i in starts)
            rows = GrowingArray(common.n_features, self.folder / ROWS, dtype="<f4")
            rows.extend(blocks)
        kind = labels.dtype.newbyteorder("<").str
        GrowingArray(None, self.folder / LABELS, dtype=kind).append(labels)

    def _write_plan(self, plan: Json) -> None:
        with replaced(self.folder / PLAN) as aside:
            aside.write_text(json.dumps(plan), encoding="utf-8")

    @property
    def row_bytes(self) -> int:
        """Bytes that the parts leave of a row."""
        n_groups = 0 if self.common.groups is None else max(self.common.groups) + 1
        n_numbers = n_groups * self.common.outcome.n_numbers
        return 8 * (self.common.n_readouts + n_numbers)

    def round_end(self, start: int) -> int:
        """End of the round that begins at a row."""
        n_rows = max(SEGMENT, ROUND_BYTES // self.row_bytes)
        n_all = len(self.run.samples)
        return int(min(start + n_rows, self.run.retirement.next_count(start), n_all))

    def disk_bytes(self, n_rows: int) -> int:
        """Bytes that the folder will hold at most: rows, a round, states, twice."""
        longest = min(n_rows * self.row_bytes, ROUND_BYTES)
        states = state_of(self.common, [range(self.common.n_readouts)])
        return 4 * n_rows * self.common.n_features + 2 * (longest + states)

    def _evaluate(self, start: int, stop: int, devices: Devices) -> None:
        """Have a round evaluated; parts whose process dies are given out again."""
        awake = self.run.retirement.awake
        left = {}
        for columns in sorted(self.parts, key=lambda c: -self.seconds.get(c[0], 0.0)):
            retired = [i for i, k in enumerate(columns) if not awake[k]]
            if len(retired) < len(columns):
                left[columns[0]] = Round(columns, start, stop, retired)
        for attempt in range(PASSES):
            try:
                for found in self._side_by_side(list(left.values()), devices):
                    del left[found.columns[0]]
                    self.seconds[found.columns[0]] = found.seconds
                    for message in found.warnings:
                        warn_caller(message)
            except Exception as error:
                dead = type(error).__name__ in DEATHS
                if not dead or attempt == PASSES - 1:
                    raise
            if not left:
                return

    def _side_by_side(
        self, rounds: Sequence[Round], devices: Devices
    ) -> Iterator[Evaluated]:
        calls = (delayed(evaluate)(self.common, part, devices) for part in rounds)
        backend = get_active_backend()[0]
        return_as = "list"
        if backend.supports_return_generator:
            return_as = "generator_unordered"
        found: Iterator[Evaluated]
        found = Parallel(n_jobs=self.n_jobs, return_as=return_as, pre_dispatch="all")(
            calls
        )
        yield from found

    def _join(self, start: int, stop: int, labels: np.ndarray) -> None:
        """Mix a round as one process does, a segment after the other."""
        found = []
        awake = self.run.retirement.awake
        for columns in self.parts:
            if awake[columns].any():
                path, names = self.common.file_of(columns), ("losses", "mixtures")
                arrays = read_some(path, names)
                found.append((columns, self.common.groups_of(columns), arrays))
        n_groups = 0 if self.run.pooled is None else len(self.run.pooled.groups.names)
        for first in range(start, stop, SEGMENT):
            rows = slice(first - start, min(first + SEGMENT, stop) - start)
            n = rows.stop - rows.start
            losses = np.full((n, self.common.n_readouts), np.nan)
            mixtures = np.empty((n, 0, 0))
            if n_groups:
                mixtures = np.full((n, n_groups, self.common.outcome.n_numbers), np.nan)
            for columns, groups, arrays in found:
                losses[:, columns] = arrays["losses"][rows]
                if groups is not None:
                    mixtures[:, np.array(groups.names)] = arrays["mixtures"][rows]
            self._mix(losses, mixtures, labels[rows])

    def _mix(
        self, losses: np.ndarray, mixtures: np.ndarray, labels: np.ndarray
    ) -> None:
        run = self.run
        reading = run.forward.extend(losses)
        kept, pooled = None, None
        if run.pooled is not None:
            given = losses, mixtures, labels, reading.codelengths
            pooled = run.pooled.extend_mixed(*given)
            weights = run.pooled.groups.sums(reading.posterior)
            kept = run.outcome.mix_groups(mixtures, weights)
        losers = run.keep(losses, reading, kept, pooled)
        if losers and run.pooled is not None:
            run.pooled.retire(run.retirement.awake)

    def _finish(self, labels: np.ndarray) -> None:
        """Take over what the readouts have learned, wherever they did."""
        run = self.run
        diverged = np.zeros(self.common.n_readouts, dtype=bool)
        arrays: dict[str, np.ndarray] = {}
        for columns in self.parts:
            found, _ = read_archive(self.common.file_of(columns))
            diverged[columns] = found["diverged"]
            for key, array in found.items():
                head, _, rest = key.partition(".")
                if head == "readout":
                    column, _, name = rest.partition(".")
                    arrays[f"{head}.{columns[int(column)]}.{name}"] = array
        retired_at = run.retirement.retired_at
        arrays |= {"labels": labels, "diverged": diverged, "retired_at": retired_at}
        restore(run, arrays)


def check_split(run: PrequentialRun, groups: np.ndarray | None, tasks: object) -> None:
    """Refuse what no part can do for itself.

    Raises
    ------
    ValueError
        If there are groups of rows, late labels, callbacks, classes that nobody names,
        or readouts that are not numbers alone.
    """
    other = [type(lr).__name__ for lr in run.learners if not lr.is_numbers]
    for given, what in (
        (groups is not None, "groups of rows"),
        (run.rows.groups.delay, "labels that come late"),
        (tasks is not None, "callbacks"),
        (run.outcome.escape is not None, "classes that may appear"),
        (other, f"{', '.join(other)}, whose states are no numbers"),
    ):
        if given:
            raise ValueError(
                "A split pass takes networks, kernels and neighbours on single rows, "
                f"got {what}; pass split=None"
            )


def about_of(checkpoint: Checkpoint | None) -> Json:
    """Say what files of a split pass are of."""
    if checkpoint is not None:
        return dict(checkpoint.about)
    return {"pass": secrets.token_hex(16), ENVIRONMENT: {}}


@contextmanager
def folder_of(
    checkpoint: Checkpoint | None, store: str | PathLike[str]
) -> Iterator[Path]:
    """Give the folder of a pass that is split, which is gone when it has ended."""
    if checkpoint is None:
        root = None if store == "memory" else Path(store)
        if root is not None:
            root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".parts-", dir=root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = checkpoint.path.with_name(f"{checkpoint.name}-parts")
    with exclusive(folder):
        yield folder
    shutil.rmtree(folder, ignore_errors=True)  # stays where the pass has not ended
