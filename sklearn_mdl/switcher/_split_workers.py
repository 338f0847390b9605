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
PROBES = 2  # for each job, since the backend assigns jobs to workers


class Worker(NamedTuple):
    """Report of a worker before the pass.

    Attributes
    ----------
    name : str
        Name of its machine.
    token : str or None
        Token read in the shared folder, or None if the worker does not see the folder.
    environment : dict
    memory : int or None
        Memory of its device, in bytes.
    """

    name: str
    token: str | None
    environment: Json
    memory: int | None


def introduce(folder: str, device: str, parent: int) -> Worker:
    """Return the report of this worker before the pass."""
    end_with(parent)
    path, token = Path(folder) / PLAN, None
    if path.is_file():
        token = json.loads(path.read_text(encoding="utf-8"))["token"]
    with fixed_arithmetic():
        own = resolve_device(device)
        found = environment_of(own)
    return Worker(socket.gethostname(), token, found, memory_of(own))


def workers_of(folder: str, device: str) -> list[Worker]:
    """Collect reports from workers of the active backend (all of them with Dask)."""
    client = getattr(get_active_backend()[0], "client", None)
    if client is not None and hasattr(client, "run"):
        return list(client.run(introduce, folder, device, os.getpid()).values())
    n_calls = PROBES * effective_n_jobs()
    call = delayed(introduce)(folder, device, os.getpid())
    return list(Parallel(**watched())(call for _ in range(n_calls)))


def check_workers(workers: Sequence[Worker], folder: Path, token: str) -> None:
    """Raise if a worker does not see the folder; warn if environments differ.

    Raises
    ------
    ValueError
        If a worker does not see the folder.
    """
    blind = sorted({worker.name for worker in workers if worker.token != token})
    if blind:
        raise ValueError(
            f"Workers must share the folder of a split pass, but {', '.join(blind)} "
            f"cannot read {folder}; pass checkpoint=PATH on a disk they all mount"
        )
    for worker in workers:
        other = first_difference(workers[0].environment, worker.environment)
        if other is not None:
            name, one, here = other
            warn_caller(
                f"parts of the pass run with different {name}: {one!r} on "
                f"{workers[0].name} and {here!r} on {worker.name}, so the last digits "
                "may differ"
            )
            return


def check_disk(folder: Path, n_bytes: int) -> None:
    """Raise if a disk does not have enough space.

    Raises
    ------
    OSError
        If there is not enough free space.
    """
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"A split pass needs {n_bytes / 1e9:.3g} GB for rows, a round and the "
            f"states of readouts, but there are {free / 1e9:.3g} GB in {folder}; pass "
            "checkpoint=PATH on another disk"
        )
