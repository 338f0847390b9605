"""Parts into which a pass is split, and the workers that evaluate them."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from sklearn_mdl._core.io.environment import environment_of, first_difference
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.whole_files import exclusive
from sklearn_mdl._core.numerics import (
    check_precision,
    fixed_arithmetic,
    memory_of,
    resolve_device,
)
from sklearn_mdl._core.side_by_side import Devices, end_with, watched
from sklearn_mdl._core.stream.checkpoint import ENVIRONMENT
from sklearn_mdl._core.stream.part import PartFile, Round
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.schedule import Schedule
from sklearn_mdl._core.stream.threads import PassSettings, Threads
from sklearn_mdl._core.validation import kept_warnings, warn_caller
from sklearn_mdl.readouts import (
    Readout,
    grouped,
    learners_for,
    shared_work,
    state_bytes,
)

ROWS, LABELS, PLAN = "features.npy", "labels.npy", "plan.json"
PROBES = 2  # calls per job, which makes it likely that every worker gets a call


class Common(NamedTuple):
    """Data of a split pass that are sent to the process of each part.

    Attributes
    ----------
    readouts : list of Readout
        All ``K`` readouts of the pass.
    settings : PassSettings
        Settings of the pass. Each part uses a fresh copy of ``settings.outcome``, and
        `device` overrides ``settings.device``.
    device : str
        Device of the parts.
    folder : str
        Folder with the rows, the labels and the files of the parts.
    about : dict
        Description that identifies the pass, the same as in its checkpoint.
    precision : str
    schedule : Schedule
        Step at which each label becomes known.
    """

    readouts: list[Readout]
    settings: PassSettings
    device: str
    folder: str
    about: Json
    precision: str
    schedule: Schedule

    def file_of(self, columns: Sequence[int]) -> Path:
        """Return the file of a part, numbered by its first column."""
        return Path(self.folder) / f"part-{columns[0]}.safetensors"

    def threads_of(
        self, columns: Sequence[int], device: torch.device, samples: SampleStore
    ) -> Threads:
        """Create the threads of a part, with untrained learners.

        Raises
        ------
        ValueError
            If the device does not support the precision.
        """
        if self.precision != "float32":
            check_precision(self.precision, device, 1)  # a process has one thread
        outcome = self.settings.outcome.fresh()
        settings = self.settings._replace(outcome=outcome, device=device, n_jobs=None)
        readouts = [self.readouts[column] for column in columns]
        learners = learners_for(readouts, settings, precision=self.precision)
        return Threads(learners, samples, self.schedule, settings)

    def about_part(self, columns: Sequence[int]) -> Json:
        """Return the description in the file of a part, without the environment."""
        about = {name: v for name, v in self.about.items() if name != ENVIRONMENT}
        return {**about, "columns": list(columns)}

    @property
    def n_readouts(self) -> int:
        """Number ``K`` of readouts."""
        return len(self.readouts)


class Evaluated(NamedTuple):
    """Report on an evaluated part: columns, CPU seconds and warning messages."""

    columns: list[int]
    seconds: float
    warnings: list[str]


def evaluate(common: Common, part: Round, devices: Devices) -> Evaluated:
    """Evaluate a part in a round, and write its scores and state to its file."""
    end_with(devices.parent)
    with kept_warnings() as messages, fixed_arithmetic():
        device = resolve_device(devices.claim(common.device) or common.device)
        folder, file = Path(common.folder), common.file_of(part.columns)
        X = np.load(folder / ROWS, mmap_mode="r")[: part.stop]
        y = np.load(folder / LABELS)[: part.stop]
        about = common.about_part(part.columns)
        part_file = PartFile(file, {**about, ENVIRONMENT: environment_of(device)})
        samples = SampleStore(X.shape[1])
        samples.append(X)
        with exclusive(file.with_suffix("")):
            threads = common.threads_of(part.columns, device, samples)
            part_file.evaluate(threads, y, part)
    return Evaluated(part.columns, part_file.seconds, messages)


def parts_of(common: Common, n_jobs: int, memory: int | None = None) -> list[list[int]]:
    """Split the readouts into parts, and return the columns of each part.

    Readouts that share computations stay together. At first, each architecture is one
    part. While there are fewer parts than jobs, the largest part that can be divided is
    halved. After that, parts whose networks do not fit into the `memory` of a device
    are halved, as far as possible. Other readouts count as empty.
    """
    readouts, seed = common.readouts, common.settings.seed
    sharing = grouped((shared_work(r, seed), k) for k, r in enumerate(readouts))
    groups = sharing.values()
    by_architecture = grouped((readouts[own[0]].architecture, own) for own in groups)
    parts = list(by_architecture.values())

    def too_large(part: list[list[int]]) -> bool:
        return memory is not None and state_of(common, part) > memory

    while True:
        larger = [p for p in parts if len(p) > 1]
        candidates = larger if len(parts) < n_jobs else list(filter(too_large, larger))
        if not candidates:
            break
        part = max(candidates, key=lambda p: (state_of(common, p), sum(map(len, p))))
        half = len(part) // 2
        parts.remove(part)
        parts += [part[:half], part[half:]]
    columns = [sorted(column for group in part for column in group) for part in parts]
    return sorted(columns, key=lambda part: -state_of(common, [part]))


def state_of(common: Common, part: Sequence[Sequence[int]]) -> int:
    """Return the approximate size of the networks of a part, in bytes.

    Readouts other than networks count as empty.
    """
    settings = common.settings
    width, n_outputs = settings.n_features, settings.outcome.n_numbers
    readouts = [common.readouts[column] for group in part for column in group]
    return sum(state_bytes(readout, width, n_outputs) for readout in readouts)


class Worker(NamedTuple):
    """Report that a worker returns before the pass.

    Attributes
    ----------
    name : str
        Name of the worker's machine.
    token : str or None
        Token read in the shared folder, or None if the worker does not see the folder.
    environment : dict
    memory : int or None
        Memory of the worker's device in bytes, or None if unknown.
    """

    name: str
    token: str | None
    environment: Json
    memory: int | None


def introduce(folder: str, device: str, parent: int) -> Worker:
    """Return the report of the worker that runs this function."""
    end_with(parent)
    path, token = Path(folder) / PLAN, None
    if path.is_file():
        token = json.loads(path.read_text(encoding="utf-8"))["token"]
    with fixed_arithmetic():
        resolved = resolve_device(device)
        environment = environment_of(resolved)
    return Worker(socket.gethostname(), token, environment, memory_of(resolved))


def workers_of(folder: str, device: str) -> list[Worker]:
    """Collect the reports of the workers of the active joblib backend."""
    client = getattr(get_active_backend()[0], "client", None)
    if client is not None and hasattr(client, "run"):
        return list(client.run(introduce, folder, device, os.getpid()).values())
    n_calls = PROBES * effective_n_jobs()
    call = delayed(introduce)(folder, device, os.getpid())
    return list(Parallel(**watched())(call for _ in range(n_calls)))


def check_workers(workers: Sequence[Worker], folder: Path, token: str) -> None:
    """Check that all workers see the folder, and warn if their environments differ.

    Raises
    ------
    ValueError
        If a worker does not see the folder.
    """
    names = sorted({worker.name for worker in workers if worker.token != token})
    if names:
        raise ValueError(
            f"Workers must share a folder to exchange results, but {', '.join(names)} "
            f"cannot read {folder}; pass checkpoint=PATH on a disk that they share"
        )
    for worker in workers:
        difference = first_difference(workers[0].environment, worker.environment)
        if difference is not None:
            name, first, own = difference
            warn_caller(
                f"Workers should compute the same numbers, but have different {name}: "
                f"{first!r} on {workers[0].name} and {own!r} on {worker.name}, so the "
                f"last digits may differ; use machines with the same {name}"
            )
            return


def check_disk(folder: Path, n_bytes: int) -> None:
    """Check that a disk has enough free space.

    Raises
    ------
    OSError
        If there is too little space.
    """
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"Processes need {n_bytes / 1e9:.3g} GB of disk space to exchange rows and "
            f"results, but {folder} has {free / 1e9:.3g} GB free; pass checkpoint=PATH "
            "on another disk"
        )
