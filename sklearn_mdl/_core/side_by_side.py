"""Worker processes that each use one GPU and end with their parent."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from itertools import count
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Self

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend

# Errors that joblib and Dask raise when a process dies. They do not include the error
# for a task that cannot be unpickled, since trying it again would not help.
DEATHS = {"TerminatedWorkerError", "KilledWorker", "FutureCancelledError"}
CLAIMED: dict[str, int] = {}  # GPU slots of this process, keyed by run
WATCHED: set[int] = set()  # the parent of this process once it is watched
WATCH_SECONDS = 1.0
# Backends of joblib whose processes are on this machine.
OWN_PROCESSES = {"LokyBackend", "MultiprocessingBackend"}


def end_with(parent: int) -> None:
    """End this process soon after its parent, even if the parent is killed.

    Parameters
    ----------
    parent : int
        Id of the process that distributes the work. If it is not the parent of this
        process, as in a thread or a worker of a cluster, nothing happens. However, a
        joblib worker whose parent has already died ends immediately.
    """
    is_parent, is_self = os.getppid() == parent, os.getpid() == parent
    if current_process().name.startswith("LokyProcess") and not (is_parent or is_self):
        os._exit(1)  # the parent died before the first task arrived
    if is_parent and parent not in WATCHED:
        WATCHED.add(parent)
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def watched() -> dict[str, Any]:
    """Return options for joblib that make its workers end with this process.

    Otherwise a worker without a task would outlive a killed parent. The options are
    empty if workers are threads or on other machines, and if the user has set an
    initializer.
    """
    backend = get_active_backend()[0]
    own = type(backend).__name__ in OWN_PROCESSES
    if not own or "initializer" in backend.backend_kwargs:
        return {}
    return {"initializer": end_with, "initargs": (os.getpid(),)}


def jobs_at_once(n_jobs: int | None = None) -> int:
    """Return how many jobs can run at a time: on this machine, at most one per CPU."""
    own = type(get_active_backend()[0]).__name__ in OWN_PROCESSES
    return int(min(effective_n_jobs(n_jobs), cpu_count() if own else sys.maxsize))


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


class Devices:
    """Assignment of the GPUs of a machine to the processes of a run.

    A process takes and keeps the first free slot. With ``n`` GPUs, slot ``p`` is GPU
    ``p mod n``. Slots are files in the directory for temporary files, so each machine
    assigns its own GPUs.
    """

    def __init__(self) -> None:
        self.run = secrets.token_hex(8)
        self.parent = os.getpid()

    @property
    def _folder(self) -> Path:  # on the machine of the worker
        return Path(tempfile.gettempdir()) / f"sklearn_mdl-{self.run}"

    def __enter__(self) -> Self:
        """Begin a run."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the run, and free its slots."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def claim(self, device: str) -> str | None:
        """Return the GPU of this process, or None if there is no choice.

        Parameters
        ----------
        device : str
            As for an estimator. There is a choice for "auto" and "cuda", if the machine
            has at least two GPUs.
        """
        import torch  # later, since a new worker must first watch its parent

        n_devices = torch.cuda.device_count() if device in ("auto", "cuda") else 0
        if n_devices < 2:
            return None
        if self.run not in CLAIMED:
            self._folder.mkdir(exist_ok=True)
            CLAIMED[self.run] = next(filter(self._is_free, count()))
        return f"cuda:{CLAIMED[self.run] % n_devices}"

    def _is_free(self, place: int) -> bool:
        try:
            os.close(os.open(self._folder / str(place), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
