"""Base class of switchers, which creates a run from the parameters."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import indexable

from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.numerics import PRECISIONS, as_array
from sklearn_mdl._core.side_by_side import Devices
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.checkpoint import Checkpoint
from sklearn_mdl._core.stream.events import Event
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.run import Evaluator, PrequentialRun
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl._core.unsupported import DELAY, ESCAPE
from sklearn_mdl._core.validation import as_labels, invalid, warn_caller
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    COUNT,
    DefaultGrid,
    Readout,
    ViewSettings,
    learners_for,
    warn_of_failures,
)
from sklearn_mdl.switcher._fitted import FittedSwitcher
from sklearn_mdl.switcher._loss_files import description
from sklearn_mdl.switcher._pass_forecast import PassForecast, forecast_of
from sklearn_mdl.switcher._resolved import (
    PROCESSES,
    ResolvedSettings,
    resolved,
    store_of,
)
from sklearn_mdl.switcher._split import JoinedFile, Processes, check_split, folder_of
from sklearn_mdl.switching import Race, SwitchingPrior

# Parameters that are objects: name, class, and the noun and example that errors use.
NESTED: list[tuple[str, type, str, str]] = [
    ("switching", SwitchingPrior, "a prior", "FixedShare(m=2)"),
    ("pooling", LogLinearPool, "a pool", "LogLinearPool()"),
    ("race", Race, "a race", "Race()"),
]

SHOWN = 3  # maximum number of readouts that a warning names


class BaseSwitcher(FittedSwitcher):
    """Base class of estimators that mix many readouts under a switching prior."""

    _parameter_constraints: ClassVar[Constraints] = {
        "switching": [str, SwitchingPrior, None],
        "readout_weights": ["array-like", StrOptions({"architecture"}), None],
        "batch_size": [COUNT, StrOptions({"auto"}), tuple],
        "pooling": [StrOptions({"auto"}), None, LogLinearPool, list, tuple, np.ndarray],
        "race": [StrOptions({"auto"}), None, Race],
        "label_delay": [Interval(Integral, 0, None, closed="left")],
        "shuffle": ["boolean"],
        "device": [str],
        "precision": [StrOptions(set(PRECISIONS))],
        "store": [str, PathLike, tuple],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, StrOptions({PROCESSES}), None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _pool(self, n_features: int, outcome: Outcome) -> list[Readout]:
        """Return unfitted copies of the readouts."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including parameters of a prior as ``switching__<name>``.

        Parameters
        ----------
        **params : dict
        """
        for name, kind, noun, example in NESTED:
            value = params.get(name, getattr(self, name))
            nested = [given for given in params if given.startswith(f"{name}__")]
            if nested and not isinstance(value, kind):
                required = f"{noun} object if {nested[0]} is set"
                cure = f"for example, pass {name}={example}"
                raise invalid(name, required, value, cure)
        return super().set_params(**params)

    def _make_run(
        self, n_features: int, outcome: Outcome, seed: int, retired: Collection[int]
    ) -> PrequentialRun:
        if isinstance(self.readouts, list | tuple) and not self.readouts:
            cure = "pass readouts=None for the default list"
            raise invalid("readouts", "a non-empty list", self.readouts, cure)
        if self.label_delay:
            outcome.check_option(DELAY, f"omit {DELAY} or {ESCAPE}")
        readouts = self._pool(n_features, outcome)
        settings = resolved(self, readouts, self._is_by_name)
        if settings.mixing.groups is not None and settings.keeps_mixtures:
            cure = f'omit {ESCAPE}, or pass store without "mixtures"'
            outcome.check_option("stored mixtures", cure)
        n_jobs = None if isinstance(self.n_jobs, str) else self.n_jobs
        last, first = settings.batch_size, settings.first_batch_size
        given = n_features, last, seed, settings.device, first, n_jobs
        pass_settings = PassSettings(outcome, *given)
        options = {"n_jobs": settings.n_threads, "precision": self.precision}
        run = PrequentialRun(
            learners_for(readouts, pass_settings, retired=retired, **options),
            settings.mixing,
            pass_settings,
            folder=self._stream_folder(settings, outcome),
            label_delay=int(self.label_delay),
            store_mixtures=settings.keeps_mixtures,
        )
        run.origin = settings
        return run

    def _stream_folder(
        self, settings: ResolvedSettings, outcome: Outcome
    ) -> StreamFolder | None:
        """Return the folder of the trace, or None if the trace is in memory."""
        if settings.folder is None:
            return None
        empty = self._described(np.empty((0, len(settings.readouts))), settings)
        about = description(empty, "float64", growing=True)
        if outcome.n_named is not None:
            about["n_classes"] = None  # new classes may appear
        if settings.mixing.group_names and settings.keeps_mixtures:
            about["pool_kinds"] = [str(name) for name in settings.mixing.group_names]
        return StreamFolder(settings.folder, about)

    def resolved(
        self, n_features: int, n_classes: int | None = None
    ) -> ResolvedSettings:
        """Return the settings to which "auto" and None resolve.

        Parameters
        ----------
        n_features : int
            Number of features, on which named lists of readouts depend.
        n_classes : int, default=None
            Number of classes (2 if None). Has no effect on regression.

        Returns
        -------
        settings : ResolvedSettings
            ``print`` shows one setting per line.

        Raises
        ------
        ValueError
            If a parameter is invalid, or if parameters cannot be combined.
        """
        self._validate_params()
        copied: Self = clone(self)
        outcome = copied._outcome(np.arange(n_classes or 2))
        return resolved(copied, copied._pool(n_features, outcome), copied._is_by_name)

    @contextmanager
    def _evaluating(
        self, checkpoint: Checkpoint | None
    ) -> Iterator[tuple[Evaluator | None, list[Event]]]:
        """Yield an evaluator (None to use threads) and events that save checkpoints."""
        if not self.settings_.in_processes:
            with super()._evaluating(checkpoint) as evaluation:
                yield evaluation
            return
        check_split(self._run)
        store, _ = store_of(self.store)
        with folder_of(checkpoint, store) as folder, Devices() as devices:
            saving = list[Event]()
            about: dict[str, object] = {"pass": secrets.token_hex(16)}
            if checkpoint is not None:
                about = dict(checkpoint.about)
                saving = [JoinedFile(folder, about, checkpoint)]
            common = self._common(str(folder), about)
            yield Processes(self._run, common, devices), saving

    def dry_run(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> PassForecast:
        """Forecast the time, memory and disk space of ``fit`` from a short trial run.

        The trial uses at most 2,560 rows. The forecast assumes that further rows cost
        as much as the last rows of the trial, and that no readout retires. So a pass
        with a race may take less time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only the rows of the trial are read from a memory map.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            As for ``fit``.

        Returns
        -------
        forecast : PassForecast
            ``print`` shows a summary of two lines.

        Raises
        ------
        ValueError
            If X and y differ in length, or for the reasons given in ``fit``.
        """
        self._validate_params()
        rows, labels = indexable(as_array(X), np.asarray(as_labels(as_array(y))))
        return forecast_of(self, rows, labels, groups)

    def _after_fit(self) -> None:
        for learner in self._run.learners:
            if learner.reports:
                warn_of_failures(learner.reports, self.readout_names_)
        if not self._is_by_name:  # users cannot widen a built-in list
            self._warn_of_edges()

    def _warn_of_diverged(self, start: int) -> None:
        super()._warn_of_diverged(start)
        rows, names = self.diverged_at_, self.readout_names_
        new = np.flatnonzero(rows >= start).tolist()
        if new and (rows < 0).any():
            notes = self._run.threads.notes
            causes = {k: f" ({notes[k][-1]})" for k in new if k in notes}
            shown = [
                f"those of {names[k]!r} from row {rows[k]} onwards{causes.get(k, '')}"
                for k in new[:SHOWN]
            ]
            more = [f"those of {len(new) - SHOWN} others"] if len(new) > SHOWN else []
            warn_caller(
                "Predictions of readouts should be finite, but "
                f"{' and '.join([*shown, *more])} are not, so they are replaced by "
                "predictions without features; for example, pass lr=0.001 to networks "
                "and alpha=1.0 to kernels, or leave these readouts out"
            )

    @property
    def _given(self) -> Sequence[object]:
        """Return the user's readouts as a sequence, even if there is only one."""
        if isinstance(self.readouts, BaseEstimator):
            return [self.readouts]
        return self.readouts or []

    @property
    def _is_by_name(self) -> bool:
        """Return True for a built-in list of readouts, or for views of such lists."""
        if isinstance(self.readouts, str | DefaultGrid | None):
            return True
        return all(isinstance(r, ViewSettings) and r.is_list for r in self._given)
