"""One process for each GPU of a machine."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Self

import torch

_CLAIMED: dict[str, int] = {}  # by this process, for a run


class Devices:
    """Deals the GPUs of a machine out to the processes of a run.

    A process takes the first place that is free and keeps it; place ``p`` is GPU
    ``p mod n``. Places are files in the directory for temporary files, so that every
    machine deals out its own.
    """

    def __init__(self) -> None:
        self.run = secrets.token_hex(8)

    def __enter__(self) -> Self:
        """Begin a run."""
        return self

    def __exit__(self, *error: object) -> None:
        """End it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return Path(tempfile.gettempdir()) / f"sklearn_mdl-{self.run}"

    def claim(self, device: str) -> str | None:
        """Return the device of this process, where there is more than one to choose.

        Parameters
        ----------
        device : str
            As the switcher has it; only "auto" and "cuda" leave a choice.
        """
        n_devices = torch.cuda.device_count() if device in ("auto", "cuda") else 0
        if n_devices < 2:
            return None
        if self.run not in _CLAIMED:
            _CLAIMED[self.run] = self._free_place()
        return f"cuda:{_CLAIMED[self.run] % n_devices}"

    def _free_place(self) -> int:
        self._folder.mkdir(exist_ok=True)
        for place in itertools.count():
            try:
                os.close(os.open(self._folder / str(place), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return place
        raise AssertionError  # a count does not end
