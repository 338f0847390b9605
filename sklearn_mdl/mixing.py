"""What estimators share whose walk mixes many readouts: prior, trace and files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.online import OnlineEstimator
from sklearn_mdl.prequential import Course, Learner, Outcome
from sklearn_mdl.readouts import readout_names
from sklearn_mdl.readouts.edges import grid_edges
from sklearn_mdl.stored_losses import StoredLosses, description, save_losses
from sklearn_mdl.switching import (
    ForwardTrace,
    SwitchingPrior,
    as_prior,
    forward,
    group_weights,
)

# Learners for a device and so many jobs.
Gather = Callable[[torch.device, int], "list[Learner]"]


class MixedWalk(OnlineEstimator):
    """Base of estimators whose walk mixes many readouts under a switching prior."""

    switching: Any
    expert_weights: Any
    batch_size: int
    device: str
    store: Any
    n_jobs: int | None
    readouts_: list[Any]
    expert_weights_: np.ndarray | None
    _about: StoredLosses

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of a prior object as ``switching__<name>``."""
        prior = params.get("switching", self.switching)
        nested = [name for name in params if name.startswith("switching__")]
        if nested and not isinstance(prior, SwitchingPrior):
            raise ValueError(
                f"{nested[0]} needs switching to be a prior object that has it, "
                f"got switching={prior!r}; pass for example switching=FixedShare(m=2)"
            )
        return super().set_params(**params)

    def _mix(
        self,
        readouts: list[Any],
        gather: Gather,
        n_features: int,
        seed: int,
        *,
        n_classes: int | None = None,
        outcome: Outcome | None = None,
    ) -> Course:
        """Make the course of a new stream for readouts, and say whose losses come."""
        prior = clone(as_prior(self.switching))
        weights = self._weights(readouts)
        device = resolve_device(self.device)
        course = Course(
            gather(device, effective_n_jobs(self.n_jobs)),
            prior,
            weights,
            n_features=n_features,
            batch_size=self.batch_size,
            seed=seed,
            device=device,
            store=self._folder,
            n_jobs=self.n_jobs,
            outcome=outcome,
        )
        self.readouts_ = readouts
        self.expert_weights_ = weights
        self._about = StoredLosses(
            np.empty((0, len(readouts))),
            readout_names(readouts),
            [readout.architecture for readout in readouts],
            weights,
            repr(prior),
            n_classes,
        )
        course.trace.description = description(self._about, "float64", growing=True)
        return course

    def _warn_of_edges(self) -> None:
        """Say if the best readout lies at the edge of what was tried."""
        edges = [
            f"{name}={value:g} is the {side}"
            for name, (value, side) in self.grid_edges_.items()
        ]
        if edges:
            best = self.readout_names_[int(np.argmin(self.readout_codelengths_))]
            warnings.warn(
                f"The best readout should lie inside the grid, but of {best!r} "
                f"{' and '.join(edges)} that was tried; add values beyond",
                UserWarning,
                stacklevel=5,  # who called fit
            )

    @property
    def _folder(self) -> str | PathLike[str]:
        """Where the trace lies: losses on disk are part of a checkpoint."""
        kept = self.store != "memory" or self.checkpoint is None
        return self.store if kept else self.checkpoint

    def _weights(self, readouts: list[Any]) -> np.ndarray | None:
        if self.expert_weights is None:
            return None
        if isinstance(self.expert_weights, str):  # "architecture", as was checked
            return group_weights([readout.architecture for readout in readouts])
        return np.asarray(self.expert_weights, dtype=np.float64)

    def switch(self, switching: str | SwitchingPrior | None) -> ForwardTrace:
        """Read the same losses under another prior, without training again.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            As the parameter of that name.

        Returns
        -------
        trace : ForwardTrace
            ``codelength``, ``codelengths`` and ``posterior``, in nats.
        """
        check_is_fitted(self)
        return forward(as_prior(switching), self.readout_losses_, self.expert_weights_)

    def save_losses(
        self, path: str | PathLike[str], *, dtype: str = "float64"
    ) -> list[Path]:
        """Write the losses of this walk, to be mixed later without training again.

        Parameters
        ----------
        path : path-like
            Ends in ``.npy`` or ``.safetensors``; see :func:`~sklearn_mdl.save_losses`.
        dtype : {"float64", "float32"}, default="float64"
            Float64 keeps every bit, so that a prior costs what it costs here.

        Returns
        -------
        paths : list of Path
            The files written.

        Raises
        ------
        ValueError
            If the path is one that the walk itself writes to, and as in
            :func:`~sklearn_mdl.save_losses`.
        """
        check_is_fitted(self)
        target = Path(path).resolve()
        if target in [file.resolve() for file in self._course.trace.files]:
            raise ValueError(
                f"Losses must be saved apart from the store of the walk, got {path}, "
                "which it writes itself; open that with load_losses or name another"
            )
        stored = replace(self._about, losses=self.readout_losses_)
        return save_losses(Path(path), stored, dtype=dtype)

    @property
    def posterior_(self) -> np.ndarray:
        """Posterior over readouts before each label, (n_samples_seen_, n_readouts)."""
        return self._course.trace.posterior

    @property
    def readout_losses_(self) -> np.ndarray:
        """Log-losses in nats, (n_samples_seen_, n_readouts)."""
        return self._course.trace.losses

    @property
    def readout_codelengths_(self) -> np.ndarray:
        """Codelength of every readout alone, (n_readouts,), in nats."""
        return self.readout_losses_.sum(0)

    @property
    def grid_edges_(self) -> dict[str, tuple[float, str]]:
        """Settings at whose edge the best readout lies; see the class."""
        check_is_fitted(self)
        return grid_edges(self.readouts_, self.readout_codelengths_)

    @property
    def readout_names_(self) -> list[str]:
        """Architecture and differing settings of every readout."""
        check_is_fitted(self)
        return readout_names(self.readouts_)

    @property
    def diverged_readouts_(self) -> list[str]:
        """Names of the readouts whose predictions stopped being finite."""
        check_is_fitted(self)
        return [
            name
            for name, bad in zip(
                self.readout_names_, self._course.diverged, strict=True
            )
            if bad
        ]
