"""Base of switchers: parameters, and how a run is made from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.numerics import resolve_device
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.pooled import Groups, PooledMixture
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.storage import StoredMixtures
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import DefaultGrid, Readout, build_learners
from sklearn_mdl.switcher._fitted import FittedSwitcher
from sklearn_mdl.switcher._loss_files import description
from sklearn_mdl.switching import (
    PriorLike,
    Race,
    SwitchingPrior,
    as_prior,
    group_weights,
)

ExpertWeights = ArrayLike | Literal["architecture"] | None
Pooling = LogLinearPool | ArrayLike | Literal["auto"] | None
Racing = Race | Literal["auto"] | None
StorePath = str | PathLike[str]

FIRST_BATCH_SIZE = 8  # where readouts are ours; chosen by measurement
# Parameters whose own parameters can be set: what has some, in words, an example.
NESTED: list[tuple[str, type, str, str]] = [
    ("switching", SwitchingPrior, "a prior", "FixedShare(m=2)"),
    ("pooling", LogLinearPool, "a pool", "LogLinearPool()"),
    ("race", Race, "a race", "Race()"),
]


@dataclass(eq=False, repr=False, kw_only=True)
class BaseSwitcher(FittedSwitcher):
    """Base of estimators that mix many readouts under a switching prior."""

    readouts: Sequence[object] | BaseEstimator | str | None = None
    switching: PriorLike = "learned-share"
    expert_weights: ExpertWeights = None
    pooling: Pooling = "auto"
    race: Racing = "auto"
    batch_size: int = 32
    first_batch_size: int | Literal["auto"] | None = "auto"
    shuffle: bool = False
    device: str = "auto"
    store: StorePath = "memory"
    store_mixtures: bool = False
    checkpoint: StorePath | None = None
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    _parameter_constraints: ClassVar[Constraints] = {
        "switching": [str, SwitchingPrior, None],
        "expert_weights": ["array-like", StrOptions({"architecture"}), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "first_batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "pooling": [StrOptions({"auto"}), None, LogLinearPool, list, tuple, np.ndarray],
        "race": [StrOptions({"auto"}), None, Race],
        "shuffle": ["boolean"],
        "device": [str],
        "store": [str, PathLike],
        "store_mixtures": ["boolean"],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _pool(self, n_features: int, outcome: Outcome) -> list[Readout]:
        """Return unfitted copies of the readouts."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of a prior object as ``switching__<name>``."""
        for name, kind, noun, example in NESTED:
            value = params.get(name, getattr(self, name))
            nested = [given for given in params if given.startswith(f"{name}__")]
            if nested and not isinstance(value, kind):
                raise ValueError(
                    f"{nested[0]} needs {name} to be {noun} object that has it, got "
                    f"{name}={value!r}; pass for example {name}={example}"
                )
        return super().set_params(**params)

    def _make_run(self, n_features: int, outcome: Outcome, seed: int) -> PrequentialRun:
        if isinstance(self.readouts, list | tuple) and not self.readouts:
            raise ValueError(
                "readouts must hold at least one readout, got an empty list; pass None "
                "for the default grid"
            )
        self.readouts_ = self._pool(n_features, outcome)
        self.expert_weights_ = self._weights(self.readouts_)
        pooled = self._pooled(outcome)
        prior = clone(as_prior(self.switching))
        self._prior_text = repr(prior)
        folder = None
        if self._folder != "memory":
            stored = self._stored(np.empty((0, len(self.readouts_))))
            about = description(stored, "float64", growing=True)
            if outcome.escape is not None:
                about["n_classes"] = None  # nobody knows
            if pooled is not None and self.store_mixtures:
                about["pool_groups"] = [str(name) for name in pooled.groups.names]
            folder = StreamFolder(Path(self._folder), about)
        device = resolve_device(self.device)
        learners = build_learners(
            self.readouts_,
            n_features,
            outcome.n_numbers,
            seed=seed,
            device=device,
            n_jobs=effective_n_jobs(self.n_jobs),
            late_classes=outcome.escape is not None,
        )
        return PrequentialRun(
            learners,
            prior,
            self.expert_weights_,
            pooled=pooled,
            race=self._racing(),
            outcome=outcome,
            n_features=n_features,
            batch_size=self.batch_size,
            first_batch_size=self._first_batch_size,
            seed=seed,
            device=device,
            folder=folder,
            n_jobs=self.n_jobs,
        )

    @property
    def _given(self) -> Sequence[object]:
        """Return the readouts that the user gave, a single one as a list of one."""
        if isinstance(self.readouts, BaseEstimator):
            return [self.readouts]
        return self.readouts or []

    @property
    def _is_by_name(self) -> bool:
        """Return True if the list of readouts is one of ours, not the user's."""
        return isinstance(self.readouts, str | DefaultGrid | None)

    def _racing(self) -> Race | None:
        """Return by which rule readouts retire, None if they do not."""
        if not isinstance(self.race, str):
            return self.race
        race = Race()  # "auto", as was checked
        enough = len(self.readouts_) >= race.min_readouts
        return race if self._is_by_name and enough else None

    def _pooled(self, outcome: Outcome) -> PooledMixture | None:
        """Return the groups that are pooled; None if there is nothing to pool."""
        pool = self.pooling
        if isinstance(pool, str):  # "auto", as was checked
            pool = LogLinearPool() if self._is_by_name else None
        if pool is None:
            return None
        if not isinstance(pool, LogLinearPool):
            pool = LogLinearPool(groups=pool)
        labels = pool.groups
        if labels is None:
            labels = [readout.pool_group for readout in self.readouts_]
        groups = Groups.of(labels, len(self.readouts_), self.expert_weights_)
        group_pass = outcome.group_pass(pool, len(groups.names))
        if len(groups.names) < 2:
            return None
        kept = None
        if self.store_mixtures:
            if outcome.escape is not None:
                raise ValueError(
                    "Mixtures are stored with as many columns as there are classes, "
                    'which may grow with new_classes="escape"; pass '
                    "store_mixtures=False, or name all classes"
                )
            sizes = len(groups.names), outcome.n_numbers
            kept = StoredMixtures.none(*sizes, outcome.dtype)
        return PooledMixture(groups, self.expert_weights_, group_pass, kept)

    @property
    def _first_batch_size(self) -> int | None:
        """Rows that are learned at once at first."""
        if isinstance(self.first_batch_size, str):  # "auto", as was checked
            return FIRST_BATCH_SIZE if self._is_by_name else None
        return self.first_batch_size

    @property
    def _folder(self) -> StorePath:
        """Place of the trace: losses on disk are part of a checkpoint."""
        if self.store == "memory" and self.checkpoint is not None:
            return self.checkpoint
        return self.store

    def _weights(self, readouts: list[Readout]) -> np.ndarray | None:
        if self.expert_weights is None:
            return None
        if isinstance(self.expert_weights, str):  # "architecture", as was checked
            return group_weights([readout.architecture for readout in readouts])
        return np.asarray(self.expert_weights, dtype=np.float64)
