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
import socket
import tempfile
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from tqdm import tqdm

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.environment import environment_of, first_difference
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.io.whole_files import exclusive, replaced
from sklearn_mdl._core.numerics import fixed_arithmetic, memory_of, resolve_device
from sklearn_mdl._core.side_by_side import DEATHS, PASSES, Devices
from sklearn_mdl._core.stream.checkpoint import (
    ENVIRONMENT,
    TRACE,
    Checkpoint,
    mix_again,
    mixed_of,
    restore,
)
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.part import PartFile, PartRun
from sklearn_mdl._core.stream.pooled import GroupMixer, Groups
from sklearn_mdl._core.stream.run import SEGMENT, PrequentialRun
from sklearn_mdl._core.stream.storage import COPIED_AT_ONCE
from sklearn_mdl._core.validation import kept_warnings, warn_caller
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import Readout, build_learners, shared_work, state_bytes

ROUND_BYTES = 2**30  # of what all parts leave of a round
ROWS, LABELS, PLAN, JOINED = "features.npy", "labels.npy", "plan.json", "joined"
PROBES = 2  # for each job, since which worker takes one is not ours to say


class Common(NamedTuple):
    """Whatever all parts of a pass have in common, as it is sent to them.

    Attributes
    ----------
    readouts : list of Readout
        All of the pass, ``K``.
    groups : list of int or None
        Place of the group of each readout, -1 for none; None where nothing is pooled.
    weights : ndarray of shape (K,) or None
    outcome : Outcome
        Before any label.
    n_features, batch_size, seed : int
    first_batch_size : int or None
    device : str
    folder : str
        Where rows and labels are, and the files of the parts.
    about : dict
        All that determines the numbers.
    """

    readouts: list[Readout]
    groups: list[int] | None
    weights: np.ndarray | None
    outcome: Outcome
    n_features: int
    batch_size: int
    first_batch_size: int | None
    seed: int
    device: str
    folder: str
    about: Json

    def file_of(self, columns: Sequence[int]) -> Path:
        """Return the file of a part, which its first readout names."""
        return Path(self.folder) / f"part-{columns[0]}.safetensors"

    def groups_of(self, columns: Sequence[int]) -> Groups | None:
        """Return the groups of a part, by their places among those of all."""
        if self.groups is None:
            return None
        own = [self.groups[column] for column in columns]
        kept = [float(group >= 0) for group in own]
        return Groups.of(own, len(own), np.array(kept)) if any(kept) else None

    def run_of(self, columns: Sequence[int], device: torch.device) -> PartRun:
        """Make the run of a part."""
        learners = build_learners(
            [self.readouts[column] for column in columns],
            self.n_features,
            self.outcome.n_numbers,
            seed=self.seed,
            device=device,
        )
        groups, mixer = self.groups_of(columns), None
        if groups is not None:
            weights = np.ones(self.n_readouts) if self.weights is None else self.weights
            group_pass = self.outcome.group_pass(LogLinearPool(), len(groups.names))
            mixer = GroupMixer(groups, weights[list(columns)], group_pass)
        return PartRun(
            learners,
            mixer,
            outcome=self.outcome,
            n_features=self.n_features,
            batch_size=self.batch_size,
            first_batch_size=self.first_batch_size,
            seed=self.seed,
            device=device,
        )

    @property
    def n_readouts(self) -> int:
        """Number ``K`` of readouts."""
        return len(self.readouts)


class Round(NamedTuple):
    """The part of a round that one process evaluates.

    Attributes
    ----------
    columns : list of int
        Places of its readouts among all.
    start, stop : int
        First row of the round, and its end.
    retired : list of int
        Readouts of the part that have retired before it, by their places in the part.
    """

    columns: list[int]
    start: int
    stop: int
    retired: list[int]


class Evaluated(NamedTuple):
    """What a process says of a part that it has evaluated."""

    columns: list[int]
    seconds: float
    warnings: list[str]


def evaluate(common: Common, part: Round, devices: Devices) -> Evaluated:
    """Evaluate a part of a round, and leave everything in its file."""
    begin = time.process_time()
    with kept_warnings() as said, fixed_arithmetic():
        device = resolve_device(devices.claim(common.device) or common.device)
        folder, file = Path(common.folder), common.file_of(part.columns)
        X = np.load(folder / ROWS, mmap_mode="r")[: part.stop]
        y = np.load(folder / LABELS)[: part.stop]
        about = {
            **common.about,
            "columns": part.columns,
            ENVIRONMENT: environment_of(device),
        }
        run = common.run_of(part.columns, device)
        written = PartFile(file, about, part.start, part.retired)
        with exclusive(file.with_suffix("")):
            run.run(X, y, checkpoint=written)
    return Evaluated(part.columns, time.process_time() - begin, said)


class Worker(NamedTuple):
    """What a worker says of itself before anything runs.

    Attributes
    ----------
    name : str
        Of its machine.
    token : str or None
        What it reads in the folder that all share; None where it sees none.
    environment : dict
    memory : int or None
        Bytes of its device.
    """

    name: str
    token: str | None
    environment: Json
    memory: int | None


def introduce(folder: str, device: str) -> Worker:
    """Say what a worker must say before anything runs."""
    path, token = Path(folder) / PLAN, None
    if path.is_file():
        token = json.loads(path.read_text(encoding="utf-8"))["token"]
    with fixed_arithmetic():
        own = resolve_device(device)
        found = environment_of(own)
    return Worker(socket.gethostname(), token, found, memory_of(own))


def workers_of(folder: str, device: str, n_jobs: int | None) -> list[Worker]:
    """Ask workers of the active backend; those of Dask are all asked."""
    client = getattr(get_active_backend()[0], "client", None)
    if hasattr(client, "run"):
        return list(client.run(introduce, folder, device).values())
    n_calls = PROBES * effective_n_jobs(n_jobs)
    call = delayed(introduce)(folder, device)
    return list(Parallel(n_jobs=n_jobs)(call for _ in range(n_calls)))


def check_workers(workers: Sequence[Worker], folder: Path, token: str) -> None:
    """Refuse workers that do not see the folder; warn of unlike ones.

    Raises
    ------
    ValueError
        If one does not see it.
    """
    blind = sorted({worker.name for worker in workers if worker.token != token})
    if blind:
        raise ValueError(
            f"Workers must share the folder of a split pass, but {', '.join(blind)} "
            f"does not see {folder}; name one on a disk that all mount as checkpoint"
        )
    for worker in workers:
        other = first_difference(workers[0].environment, worker.environment)
        if other is not None:
            name, one, here = other
            warn_caller(
                f"the parts run where {name} is {one!r} (on {workers[0].name}) and "
                f"where it is {here!r} (on {worker.name}), so that the last digits may "
                "differ"
            )
            return


def check_disk(folder: Path, n_bytes: int) -> None:
    """Refuse a disk without room for so many bytes.

    Raises
    ------
    OSError
        If it has less.
    """
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"A split pass needs {n_bytes / 1e9:.3g} GB for rows, a round and the "
            f"states of readouts, but there are {free / 1e9:.3g} GB in {folder}; name "
            "another disk as checkpoint"
        )


def parts_of(common: Common, n_jobs: int, memory: int | None = None) -> list[list[int]]:
    """Cut the readouts into parts, each the columns of some.

    Readouts that share work stay together, and so do those of a group that is pooled.
    Of those, all of one architecture are a part; as long as there are fewer parts than
    jobs, or one does not fit into the memory of a device, the largest is halved.
    """
    atoms = _atoms(common)
    parts: dict[Hashable, list[list[int]]] = {}
    for atom in atoms:
        architecture = common.readouts[atom[0]].architecture
        parts.setdefault(architecture, []).append(atom)
    found = list(parts.values())

    def too_large(part: list[list[int]]) -> bool:
        return memory is not None and _state(common, part) > memory

    while True:
        larger = [p for p in found if len(p) > 1]
        wanted = larger if len(found) < n_jobs else list(filter(too_large, larger))
        if not wanted:
            break
        part = max(wanted, key=lambda p: (_state(common, p), sum(map(len, p))))
        half = len(part) // 2
        found.remove(part)
        found += [part[:half], part[half:]]
    columns = [sorted(column for atom in part for column in atom) for part in found]
    return sorted(columns, key=lambda part: -_state(common, [part]))


def _state(common: Common, part: Sequence[Sequence[int]]) -> int:
    width, n_outputs = common.n_features, common.outcome.n_numbers
    return sum(
        state_bytes(common.readouts[column], width, n_outputs)
        for atom in part
        for column in atom
    )


def _atoms(common: Common) -> list[list[int]]:
    """Return columns of readouts that must stay together."""
    atom = list(range(common.n_readouts))  # the first column of each one's
    first: dict[Hashable, int] = {}
    for column, readout in enumerate(common.readouts):
        keys: list[Hashable] = [("work", shared_work(readout, common.seed))]
        if common.groups is not None and common.groups[column] >= 0:
            keys.append(("group", common.groups[column]))
        for key in keys:
            one, other = sorted((atom[first.setdefault(key, column)], atom[column]))
            atom = [one if a == other else a for a in atom]
    return [[k for k, a in enumerate(atom) if a == one] for one in sorted(set(atom))]


class JoinedFile(Checkpoint):
    """Progress of the mixture of all parts, between two rounds.

    Parameters
    ----------
    folder : Path
    about : mapping
    """

    def __init__(self, folder: Path, about: Json) -> None:
        super().__init__(folder, about)
        self.file = folder / f"{JOINED}.safetensors"

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
        plan = {"token": secrets.token_hex(16), "parts": []}
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
        states = _state(self.common, [range(self.common.n_readouts)])
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
                arrays, _ = read_archive(self.common.file_of(columns))
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
                    mixtures[:, list(groups.names)] = arrays["mixtures"][rows]
            self._mix(losses, mixtures, labels[rows])

    def _mix(
        self, losses: np.ndarray, mixtures: np.ndarray, labels: np.ndarray
    ) -> None:
        run = self.run
        reading = run.forward.extend(losses)
        codelengths, stored = reading.codelengths, None
        summaries = np.full((len(losses), run.outcome.n_kept), np.nan)
        if run.pooled is not None:
            found = run.pooled.extend_mixed(losses, mixtures, labels, codelengths)
            codelengths, stored = found.codelengths, found.stored
            columns = found.switching, found.pool, found.shares, found.weights
            run.pooled.history.append(*columns)
            weights = run.pooled.groups.sums(reading.posterior)
            kept = run.outcome.mix_groups(mixtures, weights)
            kept = run.outcome.mix_with(kept, found.predicted, found.shares)
            summaries = run.outcome.summarise(kept)
        losers = run.keep(losses, codelengths, reading.posterior, summaries, stored)
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
        If there are groups of rows, callbacks, or readouts that are not numbers alone.
    """
    other = [type(lr).__name__ for lr in run.learners if not lr.is_numbers]
    for given, what in (
        (groups is not None, "groups of rows"),
        (tasks is not None, "callbacks"),
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
def folder_of(checkpoint: Checkpoint | None, store: str) -> Iterator[Path]:
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
