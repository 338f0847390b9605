"""Base of switchers: parameters, and how a run is made from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.numerics import (
    PRECISIONS,
    as_array,
    check_precision,
    resolve_device,
)
from sklearn_mdl._core.side_by_side import Devices
from sklearn_mdl._core.sklearn_compat import (
    Constraints,
    Interval,
    StrOptions,
)
from sklearn_mdl._core.stream.checkpoint import Checkpoint
from sklearn_mdl._core.stream.events import Event
from sklearn_mdl._core.stream.mixer import Groups
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.run import Evaluator, Mixing, PrequentialRun
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl._core.unsupported import DELAY
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    BlockSettings,
    DefaultGrid,
    Readout,
    build_learners,
    readout_names,
)
from sklearn_mdl.switcher._fitted import FittedSwitcher
from sklearn_mdl.switcher._loss_files import StoredLosses, description
from sklearn_mdl.switcher._pass_forecast import PassForecast, forecast_of
from sklearn_mdl.switcher._split import (
    JoinedFile,
    Processes,
    about_of,
    check_split,
    folder_of,
)
from sklearn_mdl.switcher._split_parts import Common
from sklearn_mdl.switching import (
    PriorLike,
    Race,
    SwitchingPrior,
    as_prior,
    group_columns,
    group_weights,
)

ExpertWeights = ArrayLike | Literal["architecture"] | None
Pooling = LogLinearPool | ArrayLike | Literal["auto"] | None
Racing = Race | Literal["auto"] | None
StorePath = str | PathLike[str]

FIRST_BATCH_SIZE = 8  # where readouts are ours; chosen by measurement
# How the pool of a list of ours forgets whose readouts do; chosen by measurement.
FORGETTING: dict[str, Any] = {
    "half_life": 100.0,
    "rates": (1 / 16, 1 / 64, 1 / 256, 1 / 1024, 1 / 4096),
}
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
    label_delay: int = 0
    shuffle: bool = False
    device: str = "auto"
    precision: str = "float32"
    store: StorePath = "memory"
    store_mixtures: bool = False
    checkpoint: StorePath | None = None
    n_jobs: int | None = None
    split: Literal["kinds"] | None = None
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
        "label_delay": [Interval(Integral, 0, None, closed="left")],
        "shuffle": ["boolean"],
        "device": [str],
        "precision": [StrOptions(set(PRECISIONS))],
        "store": [str, PathLike],
        "store_mixtures": ["boolean"],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "split": [StrOptions({"kinds"}), None],
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
        if self.label_delay:
            outcome.check_schedule(DELAY)
        self.readouts_ = self._pool(n_features, outcome)
        self.expert_weights_ = self._weights(self.readouts_)
        self._mixing = Mixing(
            clone(as_prior(self.switching)),
            self.expert_weights_,
            *self._pooled(),
            self._racing(),
        )
        if self._mixing.groups is not None and self.store_mixtures:
            outcome.check_stored()
        # Parts have devices of their own; what they have learned is gathered here.
        device = resolve_device("cpu" if self.split else self.device)
        n_jobs = 1 if self.split else effective_n_jobs(self.n_jobs)
        if self.precision != "float32" and not self.split:
            check_precision(self.precision, device, n_jobs)
        learners = build_learners(
            self.readouts_,
            n_features,
            outcome.n_numbers,
            seed=seed,
            device=device,
            n_jobs=n_jobs,
            precision=self.precision,
            may_grow=outcome.escape is not None,
        )
        settings = PassSettings(
            outcome,
            n_features,
            self.batch_size,
            seed,
            device,
            self._first_batch_size,
            self.n_jobs,
        )
        return PrequentialRun(
            learners,
            self._mixing,
            settings,
            folder=self._stream_folder(outcome),
            label_delay=self.label_delay,
            store_mixtures=self.store_mixtures,
        )

    def _stream_folder(self, outcome: Outcome) -> StreamFolder | None:
        """Return the folder of the trace; None keeps it in memory."""
        if self._folder == "memory":
            return None
        none = StoredLosses(
            np.empty((0, len(self.readouts_))),
            readout_names(self.readouts_),
            [readout.architecture for readout in self.readouts_],
            self.expert_weights_,
            self._mixing.prior,
            len(getattr(self, "classes_", ())) or None,
        )
        about = description(none, "float64", growing=True)
        if outcome.escape is not None:
            about["n_classes"] = None  # not known before the end
        if self._mixing.group_names and self.store_mixtures:
            about["pool_groups"] = [str(name) for name in self._mixing.group_names]
        return StreamFolder(Path(self._folder), about)

    @contextmanager
    def _evaluating(
        self, checkpoint: Checkpoint | None
    ) -> Iterator[tuple[Evaluator | None, list[Event]]]:
        """Give what evaluates readouts, None for threads, and what saves progress."""
        if self.split is None:
            with super()._evaluating(checkpoint) as found:
                yield found
            return
        check_split(self._run)
        with folder_of(checkpoint, self.store) as folder, Devices() as devices:
            about, saving = about_of(checkpoint), list[Event]()
            if checkpoint is not None:
                saving = [JoinedFile(folder, about, checkpoint)]
            common = self._common(str(folder), about)
            yield Processes(self._run, common, self.n_jobs, devices), saving

    def _common(self, folder: str, about: Json) -> Common:
        """Return whatever all parts of a pass must know."""
        run = self._run
        return Common(
            self.readouts_,
            run.settings,
            self.device,
            folder,
            about,
            self.precision,
            run.schedule,
        )

    def dry_run(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> PassForecast:
        """Forecast seconds, memory and disk of ``fit``, by a trial on its first rows.

        The trial takes at most 2,560 rows, since kernels go on at one cost beyond
        2,048. Whoever retires later in a race is counted to the end, so that raced
        passes are rather shorter.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A memory map is read where the trial needs it alone.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            As for ``fit``.

        Returns
        -------
        forecast : PassForecast
            Prints as a few lines.
        """
        self._validate_params()
        return forecast_of(self, as_array(X), np.asarray(as_array(y)), groups)

    @property
    def _given(self) -> Sequence[object]:
        """Return the readouts that the user gave, a single one as a list of one."""
        if isinstance(self.readouts, BaseEstimator):
            return [self.readouts]
        return self.readouts or []

    @property
    def _is_by_name(self) -> bool:
        """Return True if the list of readouts is one of ours, not the user's."""
        if isinstance(self.readouts, str | DefaultGrid | None):
            return True
        named = [own for own in self._given if isinstance(own, BlockSettings)]
        return len(named) == len(self._given) and all(own.is_list for own in named)

    @property
    def _forgets(self) -> bool:
        """Return True if readouts forget: the stream may drift."""
        return any(readout.forgets for readout in self.readouts_)

    def _racing(self) -> Race | None:
        """Return by which rule readouts retire, None if they do not."""
        if not isinstance(self.race, str):
            return self.race
        race = Race()  # "auto", as was checked
        enough = len(self.readouts_) >= race.min_readouts
        return race if self._is_by_name and enough and not self._forgets else None

    def _pooled(self) -> tuple[Groups | None, LogLinearPool | None]:
        """Return groups and pool; None if there is nothing to pool."""
        pool = self.pooling
        if isinstance(pool, str):  # "auto", as was checked
            pool = None
            if self._is_by_name:
                pool = LogLinearPool(**(FORGETTING if self._forgets else {}))
        if pool is None:
            return None, None
        if not isinstance(pool, LogLinearPool):
            pool = LogLinearPool(groups=pool)
        pool.check_params()
        labels = pool.groups
        if labels is None:
            labels = [readout.pool_group for readout in self.readouts_]
        groups = Groups.of(labels, len(self.readouts_), self.expert_weights_)
        return (None, None) if len(groups.names) < 2 else (groups, pool)

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
        """Prior weights: uniform over blocks, if there are several, whatever is in."""
        given = self.expert_weights
        if given is not None and not isinstance(given, str):
            return np.asarray(given, dtype=np.float64)
        names = [readout.block for readout in readouts]
        n_blocks = len(set(names))
        if given is None:
            return group_weights(names) if n_blocks > 1 else None
        found = group_weights([readout.architecture for readout in readouts])
        if n_blocks > 1:
            _, members = group_columns(names)
            found /= n_blocks * np.bincount(members, found)[members]
        return found
