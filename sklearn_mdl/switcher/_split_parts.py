"""Parts of a pass: which readouts they are of, and what evaluates one of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from sklearn_mdl._core.io.environment import environment_of
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.whole_files import exclusive
from sklearn_mdl._core.numerics import (
    check_precision,
    fixed_arithmetic,
    resolve_device,
)
from sklearn_mdl._core.side_by_side import Devices
from sklearn_mdl._core.stream.checkpoint import ENVIRONMENT
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.part import PartFile, PartRun
from sklearn_mdl._core.stream.pooled import GroupMixer, Groups
from sklearn_mdl._core.validation import kept_warnings
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import Readout, build_learners, shared_work, state_bytes

ROWS, LABELS = "features.npy", "labels.npy"


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
    precision : str
    rates : sequence of float or None
        Of the fixed share inside groups, as of the pool.
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
    precision: str = "float32"
    rates: Sequence[float] | None = None

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
        """Make the run of a part.

        Raises
        ------
        ValueError
            If its device lacks the precision.
        """
        if self.precision != "float32":
            check_precision(self.precision, device, 1)  # a process has one thread
        learners = build_learners(
            [self.readouts[column] for column in columns],
            self.n_features,
            self.outcome.n_numbers,
            seed=self.seed,
            device=device,
            precision=self.precision,
        )
        groups, mixer = self.groups_of(columns), None
        if groups is not None:
            weights = np.ones(self.n_readouts) if self.weights is None else self.weights
            pool = LogLinearPool(rates=self.rates)
            group_pass = self.outcome.group_pass(pool, len(groups.names))
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
    """What a process says of a part that it has evaluated: CPU seconds, warnings."""

    columns: list[int]
    seconds: float
    warnings: list[str]


def evaluate(common: Common, part: Round, devices: Devices) -> Evaluated:
    """Evaluate a part of a round, and leave everything in its file."""
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
    return Evaluated(part.columns, written.seconds, said)


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
        return memory is not None and state_of(common, part) > memory

    while True:
        larger = [p for p in found if len(p) > 1]
        wanted = larger if len(found) < n_jobs else list(filter(too_large, larger))
        if not wanted:
            break
        part = max(wanted, key=lambda p: (state_of(common, p), sum(map(len, p))))
        half = len(part) // 2
        found.remove(part)
        found += [part[:half], part[half:]]
    columns = [sorted(column for atom in part for column in atom) for part in found]
    return sorted(columns, key=lambda part: -state_of(common, [part]))


def state_of(common: Common, part: Sequence[Sequence[int]]) -> int:
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
