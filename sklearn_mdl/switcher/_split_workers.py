"""Checks that workers of a split pass see its folder and compute the same numbers."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from sklearn_mdl._core.io.environment import environment_of, first_difference
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.numerics import fixed_arithmetic, memory_of, resolve_device
from sklearn_mdl._core.side_by_side import end_with, watched
from sklearn_mdl._core.validation import warn_caller

PLAN = "plan.json"
PROBES = 2  # calls per job, which makes it likely that every worker gets a call


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
