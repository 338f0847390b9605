"""What kernel readouts predict: classes, and densities of real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.kernels.ridge import ForwardRidge
from sklearn_mdl._core.stream.outcomes import FIRST_DEGREES_OF_FREEDOM, TargetScaling
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._kernel_groups import Member
from sklearn_mdl.readouts._kernel_learners import KernelLearner


class KernelClassifierLearner(KernelLearner):
    """Kernel readouts of classes: scores of one-hot labels, calibrated forwards."""

    def __init__(
        self, members: Sequence[Member], max_exact: int | None, context: Context
    ) -> None:
        super().__init__(members, context.n_classes, max_exact, context)
        self.calibration = ForwardSoftmax(len(members), context.n_classes)

    def targets(self, labels: Tensor) -> Tensor:
        """One-hot labels less their mean, (n, C)."""
        n_classes = len(self.calibration.counts)
        onehot = torch.nn.functional.one_hot(labels, n_classes)
        return onehot.double() - 1 / n_classes

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Log-probabilities (K, n, C) of scores."""
        found = self.calibration.log_proba(means.numpy())
        return torch.from_numpy(found).to(self.device)

    def learn(self, means: Tensor, variances: Tensor, label: Tensor) -> None:
        """Calibrate."""
        self.calibration.observe(means.numpy(), int(label))

    def null_losses(self, labels: np.ndarray) -> np.ndarray:
        """Losses (N, S, K) of the stream's rows under ``S`` labellings (S, N), in nats.

        For a learner that has observed nothing, which then is of no other use.
        """
        n_sets, n_classes = len(labels), len(self.calibration.counts)
        calibration = ForwardSoftmax(len(self.columns), n_classes, n_sets=n_sets)
        targets = self.targets(torch.from_numpy(labels.T).to(self.device))
        losses = np.empty((labels.shape[1], n_sets, len(self.columns)))
        for start, means in self.scores_of(targets.flatten(1)):
            scores = means.cpu().numpy().reshape(*means.shape[:2], n_sets, n_classes)
            for row, given in enumerate(scores.transpose(1, 2, 0, 3), start):
                own = labels[:, row]
                found = calibration.log_proba(given[:, :, np.newaxis])[:, :, 0]
                losses[row] = -np.take_along_axis(found, own[:, None, None], -1)[..., 0]
                calibration.observe(given, own)
        return losses

    def _keep(self, kept: list[int]) -> None:
        self.calibration.retire(kept)

    def _learned(self) -> list[dict[str, Tensor]]:
        own = self.calibration
        return [
            {"factors": torch.tensor(one), "curvature": torch.tensor(other)}
            for one, other in zip(own.factors, own.curvature, strict=True)
        ]

    def _take_over(self, learned: list[Mapping[str, Tensor]], labels: Tensor) -> None:
        own = self.calibration
        own.factors = np.stack([one["factors"].numpy() for one in learned])
        own.curvature = np.stack([one["curvature"].numpy() for one in learned])
        counts = np.bincount(labels.cpu().numpy(), minlength=len(own.counts))
        own.counts = counts.astype(np.float64)


class Units(NamedTuple):
    """Units of real targets, the same for all readouts of one learner.

    Attributes
    ----------
    location, scale : float
        Before any label, and for ever if they are not standardised.
    standardize : bool
        Take mean and deviation of the labels before row 8, 16, 32, and so on.
    """

    location: float
    scale: float
    standardize: bool


class KernelRegressorLearner(KernelLearner):
    """Kernel readouts of real numbers: the density is the Gaussian process's own.

    Parameters
    ----------
    members : sequence of Member
    max_exact : int or None
    units : Units
    has_tails : mapping of int to bool
        By column, if the scale is unknown: then the density is a Student-t.
    context : Context
    """

    def __init__(
        self,
        members: Sequence[Member],
        max_exact: int | None,
        units: Units,
        has_tails: Mapping[int, bool],
        context: Context,
    ) -> None:
        super().__init__(members, 1, max_exact, context)
        self.units = units
        self.location, self.scale = units.location, units.scale
        self.has_tails = np.array([has_tails[column] for column in self.columns])
        self.squares = np.zeros(len(self.columns))
        self.target = TargetScaling(0, self.location, self.scale)  # it predicts at once

    def retarget(self, target: TargetScaling) -> None:
        """Keep its own units: they follow rows and not minibatches."""

    def targets(self, labels: Tensor) -> Tensor:
        """Labels in their units, (n, 1)."""
        return ((labels - self.location) / self.scale)[:, None]

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Location, log scale and degrees of freedom, (K, n, 3)."""
        dof = FIRST_DEGREES_OF_FREEDOM + self.n_observed
        mean_square = (FIRST_DEGREES_OF_FREEDOM + self.squares) / dof
        squares = torch.from_numpy(np.where(self.has_tails, mean_square, 1.0))
        tails = torch.from_numpy(np.where(self.has_tails, dof, math.inf))
        location = self.location + self.scale * means[..., 0]
        variances = variances.clamp_min(torch.finfo(variances.dtype).tiny)
        log_scale = 0.5 * (variances * squares[:, None]).log() + math.log(self.scale)
        values = location, log_scale, tails[:, None].expand_as(location)
        return torch.stack(values, -1).to(self.device)

    def learn(self, means: Tensor, variances: Tensor, label: Tensor) -> None:
        """Add to the squares by which the scale is known."""
        errors = self.targets(label).cpu()[0] - means[:, 0]
        self.squares = self.squares + (errors.square() / variances).numpy()

    def _rescale_targets(self, n_rows: int) -> bool:
        if not self.units.standardize:
            return False
        known = TargetScaling.of(self.stream.labels[:n_rows])
        self.location, self.scale = known.mean, known.scale or self.units.scale
        return True

    def _retarget(self, n_rows: int) -> None:
        super()._retarget(n_rows)
        ridges = [group.ridge for group in self.groups]
        found = [r.squares()[:, 0] for r in ridges if isinstance(r, ForwardRidge)]
        self.squares = torch.cat(found).cpu().numpy()

    def _keep(self, kept: list[int]) -> None:
        self.has_tails, self.squares = self.has_tails[kept], self.squares[kept]

    def _learned(self) -> list[dict[str, Tensor]]:
        return [{"squares": torch.tensor(square)} for square in self.squares]

    def _take_over(self, learned: list[Mapping[str, Tensor]], labels: Tensor) -> None:
        self.squares = np.array([float(one["squares"]) for one in learned])
