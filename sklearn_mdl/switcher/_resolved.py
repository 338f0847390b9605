"""Settings of a switcher after "auto" and None have been resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.numerics import check_precision, resolve_device
from sklearn_mdl._core.stream.mixer import Groups
from sklearn_mdl._core.stream.run import Mixing
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import Readout
from sklearn_mdl.switching import (
    PriorLike,
    Race,
    as_prior,
    group_columns,
    kind_weights,
    normalised_weights,
)

ReadoutWeights = ArrayLike | Literal["architecture"] | None
Pooling = LogLinearPool | ArrayLike | Literal["auto"] | None
Racing = Race | Literal["auto"] | None
BatchSize = int | tuple[int, int] | Literal["auto"]
StorePath = str | PathLike[str]
Store = StorePath | tuple[StorePath, Literal["mixtures"]]

PROCESSES = "processes"
MIXTURES: Literal["mixtures"] = "mixtures"
BATCH_SIZE = 32
FIRST_BATCH_SIZE = 8  # for built-in lists; chosen in benchmarks
# Settings of the pool for built-in lists with readouts that forget, from benchmarks.
FORGETTING: dict[str, Any] = {
    "prior_precision": 30.0,
    "half_life": 100.0,
    "rates": (1 / 16, 1 / 64, 1 / 256, 1 / 1024, 1 / 4096),
}


@dataclass(eq=False, repr=False, kw_only=True)
class Parameters:
    """Parameters of a switcher, before "auto" and None are resolved."""

    readouts: Sequence[object] | BaseEstimator | str | None = None
    switching: PriorLike = "learned-share"
    readout_weights: ReadoutWeights = None
    pooling: Pooling = "auto"
    race: Racing = "auto"
    batch_size: BatchSize = "auto"
    label_delay: int = 0
    shuffle: bool = False
    device: str = "auto"
    precision: str = "float32"
    store: Store = "memory"
    checkpoint: StorePath | None = None
    n_jobs: int | Literal["processes"] | None = None
    verbose: int = 0
    random_state: RandomState = None


class ResolvedSettings(NamedTuple):
    """Settings of a switcher for one stream, with "auto" and None resolved.

    Attributes
    ----------
    readouts : list of Readout
    mixing : Mixing
        Prior, weights of the readouts, pooled kinds, pool and race.
    batch_size, first_batch_size : int
        Number of rows in a minibatch at the end and at the start of the stream.
    device : torch.device
        Device of the readouts in this process.
    n_threads : int
    in_processes : bool
        True if readouts are evaluated in separate processes.
    folder : Path or None
        Folder that contains the folders of traces, or None if traces are in memory.
    keeps_mixtures : bool
        True if the predictions of each kind are kept.
    """

    readouts: list[Readout]
    mixing: Mixing
    batch_size: int
    first_batch_size: int
    device: torch.device
    n_threads: int
    in_processes: bool
    folder: Path | None
    keeps_mixtures: bool

    def __str__(self) -> str:
        """Return one line per setting."""
        kinds = Counter(readout.pool_kind for readout in self.readouts)
        mixing, weights = self.mixing, self.mixing.weights
        pooled = f"{mixing.pool} over {len(mixing.group_names)} kinds"
        grown = f", growing from {self.first_batch_size}"
        evaluator = "processes" if self.in_processes else f"threads ({self.n_threads})"
        lines = {
            "readouts": f"{len(self.readouts)} (kinds: {len(kinds)})",
            **{f"  {kind}": str(count) for kind, count in kinds.items()},
            "switching": str(mixing.prior),
            "readout weights": "uniform" if weights is None else str(weights),
            "pooling": "none" if mixing.pool is None else pooled,
            "race": "none" if mixing.race is None else str(mixing.race),
            "batch size": f"{self.batch_size}"
            + grown * (self.first_batch_size < self.batch_size),
            "device": str(self.device),
            "evaluated by": evaluator,
            "trace": "memory" if self.folder is None else str(self.folder),
            "mixtures of kinds": "kept" if self.keeps_mixtures else "not kept",
        }
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())


def resolved(
    switcher: Parameters, readouts: list[Readout], is_by_name: bool
) -> ResolvedSettings:
    """Resolve "auto" and None in the parameters of a switcher.

    Parameters
    ----------
    switcher : Parameters
        Its parameters must already be validated.
    readouts : list of Readout
        Readouts of the stream.
    is_by_name : bool
        True if the readouts are a built-in list, not a list from the user.

    Raises
    ------
    ValueError
        If parameters do not fit the readouts, or if the device does not support the
        precision.
    """
    forgets = any(readout.forgets for readout in readouts)
    weights = readout_weights(switcher.readout_weights, readouts)
    groups, pool = pool_of(switcher.pooling, readouts, weights, is_by_name, forgets)
    n_rivals = len(readouts) if weights is None else int(np.count_nonzero(weights))
    race = race_of(switcher.race, n_rivals, is_by_name and not forgets)
    mixing = Mixing(clone(as_prior(switcher.switching)), weights, groups, pool, race)
    learns_once = is_by_name and any(readout.learns_once for readout in readouts)
    first, last = batch_sizes(switcher.batch_size, is_by_name, learns_once)
    in_processes = switcher.n_jobs == PROCESSES
    # The worker processes have their own devices; this process collects their states.
    device = resolve_device("cpu" if in_processes else switcher.device)
    n_threads = 1 if in_processes else effective_n_jobs(switcher.n_jobs)
    if switcher.precision != "float32" and not in_processes:
        check_precision(switcher.precision, device, n_threads)
    place, keeps_mixtures = store_of(switcher.store)
    if place == "memory" and switcher.checkpoint is not None:
        place = switcher.checkpoint  # resuming needs the trace on disk
    folder = None if place == "memory" else Path(place)
    where = device, n_threads, in_processes, folder
    return ResolvedSettings(readouts, mixing, last, first, *where, keeps_mixtures)


def batch_sizes(
    batch_size: BatchSize, is_by_name: bool, learns_once: bool = False
) -> tuple[int, int]:
    """Return the numbers of rows in the first and in the largest minibatches."""
    if isinstance(batch_size, str):  # "auto" is the only valid string
        first = FIRST_BATCH_SIZE if is_by_name else BATCH_SIZE
        # Without replay, small minibatches follow changes faster.
        return first, first if learns_once else BATCH_SIZE
    sizes = batch_size if isinstance(batch_size, tuple) else (batch_size, batch_size)
    whole = len(sizes) == 2 and all(isinstance(size, Integral) for size in sizes)
    if not (whole and 1 <= sizes[0] <= sizes[1]):
        required = "'auto', an integer >= 1, or a pair with 1 <= first <= last"
        cure = "for example, pass batch_size=(8, 32)"
        raise invalid("batch_size", required, batch_size, cure)
    return int(sizes[0]), int(sizes[1])


def store_of(store: Store) -> tuple[StorePath, bool]:
    """Return the place of a trace, and True if it includes predictions of kinds."""
    if not isinstance(store, tuple):
        return store, False
    is_pair = len(store) == 2 and store[1] == MIXTURES
    if not (is_pair and isinstance(store[0], str | PathLike)):
        required = "a path, 'memory', or a pair of one of these and 'mixtures'"
        cure = "for example, pass store=('memory', 'mixtures')"
        raise invalid("store", required, store, cure)
    return store[0], True


def folders_below(estimator: BaseEstimator, name: str) -> dict[str, Store]:
    """Return the parameters that make an estimator write to subfolders `name`."""
    params, folders = estimator.get_params(deep=False), dict[str, Store]()
    place, keeps_mixtures = store_of(params.get("store", "memory"))
    if place != "memory":
        folder = Path(place) / name
        folders["store"] = (folder, MIXTURES) if keeps_mixtures else folder
    if params.get("checkpoint") is not None:
        folders["checkpoint"] = Path(params["checkpoint"]) / name
    return folders


def readout_weights(
    given: ReadoutWeights, readouts: Sequence[Readout]
) -> np.ndarray | None:
    """Return prior weights, or None if uniform.

    Unless an array is given, all views weigh the same.
    """
    if given is not None and not isinstance(given, str):
        normalised_weights(given, len(readouts), "readout_weights")  # may raise
        return np.asarray(given, dtype=np.float64)
    names = [readout.view for readout in readouts]
    n_views = len(set(names))
    if given is None:
        return kind_weights(names) if n_views > 1 else None
    weights = kind_weights([readout.architecture for readout in readouts])
    if n_views > 1:
        _, members = group_columns(names)
        weights /= n_views * np.bincount(members, weights)[members]
    return weights


def race_of(race: Racing, n_rivals: int, may_race: bool) -> Race | None:
    """Return the rule by which readouts retire, or None if they never retire."""
    if not isinstance(race, str):
        return None if race is None else clone(race)
    default = Race()  # "auto" is the only valid string
    return default if may_race and n_rivals >= default.min_readouts else None


def pool_of(
    pooling: Pooling,
    readouts: Sequence[Readout],
    weights: np.ndarray | None,
    is_by_name: bool,
    forgets: bool,
) -> tuple[Groups | None, LogLinearPool | None]:
    """Return the kinds and their pool, or (None, None) if there is no pool."""
    if isinstance(pooling, str):  # "auto" is the only valid string
        pooling = LogLinearPool(**FORGETTING if forgets else {}) if is_by_name else None
    if pooling is None:
        return None, None
    is_pool = isinstance(pooling, LogLinearPool)
    pool = clone(pooling) if is_pool else LogLinearPool(kinds=pooling)
    pool.check_params()
    labels = [r.pool_kind for r in readouts] if pool.kinds is None else pool.kinds
    groups = Groups.of(labels, len(readouts), weights)
    return (None, None) if len(groups.names) < 2 else (groups, pool)
