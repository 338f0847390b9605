"""Learners for kernel readouts, in classification and in regression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.nets.losses import density_losses
from sklearn_mdl._core.stream.learner import State
from sklearn_mdl._core.stream.outcomes import FIRST_DEGREES_OF_FREEDOM
from sklearn_mdl._core.stream.units import OUTLIER, TargetScaling
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._dummy import RecentMean
from sklearn_mdl.readouts._kernel_groups import Member
from sklearn_mdl.readouts._kernel_labellings import Labellings, LabellingsLearner
from sklearn_mdl.readouts._kernel_rows import FIRST, Memory
from sklearn_mdl.readouts._row_learners import CalibratedLearner

Unit = float | Tensor  # of one labelling, or of several


class KernelClassifierLearner(CalibratedLearner, LabellingsLearner):
    """Learner for kernel classifiers, with forward calibration of their scores."""

    def __init__(self, members: list[Member], memory: Memory, context: Context) -> None:
        super().__init__(members, context.n_classes, memory, context)
        self.calibration = ForwardSoftmax(len(members), context.n_classes)
        # Calibration ignores a constant that is added to all targets. If classes may be
        # added, the constant is zero, so that targets of new classes can be zero.
        self.mean = 0.0 if context.may_grow else 1 / context.n_classes

    def targets(self, labels: Tensor) -> Tensor:
        """Return one-hot labels (n, C) minus ``mean``."""
        n_classes = len(self.calibration.counts)
        return torch.nn.functional.one_hot(labels, n_classes).double() - self.mean

    def add_classes(self, n: int) -> None:
        """Add columns of targets for new classes, with zeros for all earlier rows."""
        self.calibration.add_classes(n)
        for group in self.groups:
            group.ridge.add_outputs(n)
        self.n_added += n
        self._block = None  # reopened when needed

    def in_noises(self, variances: Tensor) -> np.ndarray:
        """Divide variances (K, ...), which include noise, by the noise variances."""
        noises = torch.cat([group.ridge.alphas for group in self.groups]).cpu()
        shape = -1, *[1] * (variances.ndim - 1)
        return (variances / noises.reshape(shape)).clamp_min_(1).numpy()

    def null_losses(self, outputs: Sequence[Labellings]) -> list[np.ndarray]:
        """Return losses (N, S, K) for each output, under its ``S`` labellings.

        The learner must be new and cannot be used for anything else afterwards. All
        outputs and labellings share the same factors.
        """
        return self._coded(outputs)[0]

    def predict_sets(
        self, outputs: Sequence[Labellings], rows: np.ndarray
    ) -> list[np.ndarray]:
        """Return log-probabilities (S, K, m, C) of rows (m, d) for each output.

        The learner must be new and cannot be used for anything else afterwards.
        """
        _, calibrations, targets = self._coded(outputs)
        widths = [output.labels.shape[0] * output.n_numbers for output in outputs]
        means, variances = self.predict_beyond(targets, rows)
        ratios, own = self.in_noises(variances), torch.split(means, widths, 2)
        return [
            calibration.log_proba(given.scores(part).transpose(2, 0, 1, 3), ratios)
            for part, given, calibration in zip(own, outputs, calibrations, strict=True)
        ]

    def _coded(
        self, outputs: Sequence[Labellings]
    ) -> tuple[list[np.ndarray], list[ForwardSoftmax], Tensor]:
        """Return the losses and the calibration of each output, and all targets."""
        n_readouts, n_rows = len(self.columns), outputs[0].labels.shape[1]
        losses = [np.empty((n_rows, len(out.labels), n_readouts)) for out in outputs]
        calibrations = [
            ForwardSoftmax(n_readouts, out.n_numbers, n_sets=len(out.labels))
            for out in outputs
        ]
        columns = [output.targets().flatten(1) for output in outputs]
        targets = torch.cat(columns, 1).to(self.device)
        widths = [part.shape[1] for part in columns]
        for stretch in self.evaluated(lambda _: targets, n_rows):
            means = torch.split(stretch.means.cpu(), widths, 2)
            ratios = self.in_noises(stretch.variances.cpu())
            for parts in zip(means, outputs, calibrations, losses, strict=True):
                self._calibrate(stretch.start, ratios, *parts)
        return losses, calibrations, targets

    def _learn_again(self) -> None:
        """Calibrate again on known rows, if any, starting from the last calibration."""
        labels, before = self._labels[: self.n_observed], self.calibration
        self.calibration = ForwardSoftmax(len(self.columns), len(before.counts))
        if self.n_observed:
            self.calibration.factors = before.factors.copy()
            targets, known = self.targets(labels), torch.arange(self.n_observed)
            predicted = [ridge.predicted(targets, known) for ridge in self._ridges]
            means, variances = map(torch.cat, zip(*predicted, strict=True))
            means, variances = means.cpu(), variances.cpu()
            for t, label in enumerate(labels[:, None].cpu()):
                self.learn(means[:, t : t + 1], variances[:, t : t + 1], label)

    def _calibrate(
        self,
        start: int,
        ratios: np.ndarray,
        means: Tensor,
        given: Labellings,
        calibration: ForwardSoftmax,
        losses: np.ndarray,
    ) -> None:
        """Write the losses (N, S, K) of successive rows, and update the calibration.

        ``means`` (K, n, S * C) holds the scores, and ``ratios`` (K, n) the variances
        divided by the noise.
        """
        scores = given.scores(means).transpose(2, 0, 1, 3)  # (S, K, n, C)
        stop = start + scores.shape[2]
        for first, end in self.rows_ahead.blocks(start, stop):
            rows, labels = slice(first - start, end - start), given.labels[:, first:end]
            inputs = scores[:, :, rows], ratios[:, rows]
            logs = calibration.log_proba(*inputs)
            chosen = np.take_along_axis(logs, labels[:, None, :, None], -1)[..., 0]
            losses[first:end] = -chosen.transpose(2, 0, 1)
            calibration.observe(inputs[0], labels, inputs[1])


class Units(NamedTuple):
    """Units of real-valued targets, shared by all readouts of a learner.

    Attributes
    ----------
    location, scale : float
        Location and scale before the first refresh, or throughout if labels are not
        standardised.
    standardize : bool
        Whether to standardise by the mean and standard deviation of earlier labels,
        which are refreshed after 8, 16, 32, ... rows, up to the last landmark.
    """

    location: float
    scale: float
    standardize: bool


class KernelRegressorLearner(LabellingsLearner):
    """Learner for kernel regressors, which are Gaussian or Student-t processes.

    Parameters
    ----------
    members : list of Member
    memory : Memory
    units : Units
    has_tails : mapping of int to bool
        For each column, True if the scale is unknown, which makes the density a
        Student-t.
    context : Context
    """

    def __init__(
        self,
        members: list[Member],
        memory: Memory,
        units: Units,
        has_tails: Mapping[int, bool],
        context: Context,
    ) -> None:
        super().__init__(members, 1, memory, context)
        self.units = units
        self.location, self.scale = units.location, units.scale
        self.has_tails = np.array([has_tails[column] for column in self.columns])
        self.squares = np.zeros(len(self.columns))
        self.reach = math.inf  # largest absolute value of targets
        # Never None, or the run would replace predictions by a fixed density.
        self.target = TargetScaling(0, self.location, self.scale)

    def retarget(self, target: TargetScaling) -> None:
        """Do nothing, since units change at fixed rows rather than with minibatches."""

    def targets(self, labels: Tensor) -> Tensor:
        """Return labels (n, 1) in the current units, with outliers clipped."""
        return _in_units(labels, self.location, self.scale, self.reach)[:, None]

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Return location, log scale and degrees of freedom, (K, n, 3)."""
        if self.units.standardize and self.n_forgotten + self.n_observed < FIRST:
            early = self._early_density(self._labels[: self.n_observed])
            return torch.where(means.isnan(), means, early).to(self.device)
        known = means.new_full((means.shape[1],), self.n_observed)
        squares = torch.from_numpy(self.squares)[:, None, None]
        densities = self._densities(known, means, variances, squares)[:, :, 0]
        densities[..., 0] = densities[..., 0] * self.scale + self.location
        densities[..., 1] += math.log(self.scale)
        return densities.to(self.device)

    def _early_density(self, labels: Tensor) -> Tensor:
        """Return the density (3,) of the next label, predicted without features.

        The units of the labels are still unknown. A Gaussian process with wrong units
        would favour encoders whose rows are similar, because it could then learn the
        mean of the labels from fewer rows.
        """
        model = RecentMean(self.units.location, self.units.scale, decay=1.0)
        for label in labels.tolist():
            model.observe(label)
        return torch.tensor(model.density(), dtype=torch.float64)

    def learn(self, means: Tensor, variances: Tensor, labels: Tensor) -> None:
        """Add squared errors, divided by variances, to the sums that set the scale."""
        errors = self.targets(labels).cpu()[:, 0] - means[..., 0]
        self.squares = self.squares + (errors.square() / variances).sum(1).numpy()

    def null_losses(self, outputs: Sequence[Labellings]) -> list[np.ndarray]:
        """Return losses (N, S, K) for each output, under its ``S`` labellings.

        The learner must be new and cannot be used for anything else afterwards.
        """
        return [self._null_losses(output.labels) for output in outputs]

    def _null_losses(self, labels: np.ndarray) -> np.ndarray:
        n_sets, n_rows = labels.shape
        squares = torch.zeros(len(self.columns), n_sets, dtype=torch.float64)
        losses = np.empty((n_rows, n_sets, len(self.columns)))
        numbers = torch.from_numpy(labels.T)

        def targets(refreshed: int) -> Tensor:
            units = self._units_of(labels, refreshed)
            return _in_units(numbers, *units).to(self.device)

        standardize, refreshed = self.units.standardize, 0
        for stretch in self.evaluated(targets, n_rows, squares=standardize):
            start, n_own = stretch.start, stretch.means.shape[1]
            means, variances = stretch.means.cpu(), stretch.variances.cpu()
            if standardize and stretch.squares is not None:
                squares, refreshed = stretch.squares.cpu(), start
            units = self._units_of(labels, refreshed)
            places = slice(start, start + n_own)
            block = numbers[places]
            errors = _in_units(block, *units) - means
            added = errors.square() / variances[..., None]
            known = torch.from_numpy(self.rows_ahead.known(start, start + n_own))
            before = squares[:, None] + (added.cumsum(1) - added)[:, known - start]
            densities = self._densities(known, means, variances, before)
            densities[..., 0] = densities[..., 0] * units[1] + units[0]
            densities[..., 1] += units[1].log()
            if standardize and not start:
                for t in range(n_own):
                    early = [self._early_density(row[:t]) for row in numbers.T]
                    densities[:, t] = torch.stack(early)
            nats = density_losses(densities.flatten(1, 2), block.flatten())
            nats = nats.reshape(len(nats), n_own, n_sets).permute(1, 2, 0)
            losses[places] = nats.numpy()
            squares = squares + added.sum(1)
        return losses

    def _densities(
        self, known: Tensor, means: Tensor, variances: Tensor, squares: Tensor
    ) -> Tensor:
        """Return densities (K, n, S, 3) of rows in units of the targets.

        Parameters
        ----------
        known : Tensor of shape (n,)
            Number of labels known when each row is predicted.
        means : Tensor of shape (K, n, S)
        variances : Tensor of shape (K, n)
        squares : Tensor of shape (K, n, S)
            Squared errors of the known labels, divided by variances and summed.
        """
        has_tails = torch.from_numpy(self.has_tails)[:, None, None]
        dof = FIRST_DEGREES_OF_FREEDOM + known[None, :, None]
        mean_square = (FIRST_DEGREES_OF_FREEDOM + squares) / dof
        mean_square = torch.where(has_tails, mean_square, 1.0)
        variances = variances.clamp_min(torch.finfo(variances.dtype).tiny)
        log_scale = 0.5 * (variances[..., None] * mean_square).log()
        tails = torch.where(has_tails, dof, math.inf).expand_as(means)
        return torch.stack([means, log_scale, tails], -1)

    def _units_of(self, labels: np.ndarray, n_rows: int) -> Tensor:
        """Return location, scale and reach (3, S) given the first ``n_rows`` labels."""
        units = [(self.units.location, self.units.scale, math.inf)] * len(labels)
        if self.units.standardize and n_rows:
            known = torch.from_numpy(labels[:, :n_rows])
            units = [self._units_after(row) for row in known]
        return torch.tensor(units, dtype=torch.float64).T

    def _units_after(self, labels: Tensor) -> tuple[float, float, float]:
        """Return location, scale and reach given these labels."""
        known = TargetScaling.of(labels)
        if not known.scale:  # all labels are equal
            return known.mean, self.units.scale, math.inf
        return known.mean, known.scale, OUTLIER

    def _rescale_targets(self, n_rows: int) -> bool:
        if not self.units.standardize:
            return False
        self._take_units(self._labels[:n_rows])
        return True

    def _recompute(self) -> None:
        """Recompute factors.

        Start from the units of the rows that were forgotten most recently.
        """
        if self.units.standardize and self.n_forgotten:
            first = self.memory.first_known(self.n_forgotten - 1)
            self._take_units(self.rows.labels[first : self.n_forgotten])
        super()._recompute()

    def _take_units(self, labels: Tensor) -> None:
        location, scale = self.location, self.scale
        self.location, self.scale, self.reach = self._units_after(labels)
        if self._others is not None:
            means, variances = self._others
            means = (location - self.location + scale * means) / self.scale
            self._others = means, (scale / self.scale) ** 2 * variances

    def _retarget(self, n_rows: int) -> None:
        super()._retarget(n_rows)
        self._learn_again()

    def _keep(self, kept: list[int]) -> None:
        super()._keep(kept)
        self.has_tails, self.squares = self.has_tails[kept], self.squares[kept]

    def _learned(self) -> list[dict[str, Tensor]]:
        return [{"squares": torch.tensor(square)} for square in self.squares]

    def _learn_again(self) -> None:
        """Sum each readout's squared errors, divided by variances, over its rows."""
        squares = [ridge.squares()[:, 0] for ridge in self._ridges]
        self.squares = torch.cat(squares).cpu().numpy()

    def _take_over(self, learned: Sequence[State], labels: Tensor) -> None:
        self.squares = np.array([float(state["squares"]) for state in learned])


def _in_units(labels: Tensor, location: Unit, scale: Unit, reach: Unit) -> Tensor:
    """Return standardised labels, clipped at ``reach``."""
    units: Tensor = (labels - location) / scale
    ends = torch.as_tensor(reach).to(units)
    return units.clamp(-ends, ends)
