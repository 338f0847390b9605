"""Real numbers as outcomes: densities in the units of the labels.

The code of a label is minus the logarithm of its density in its own units. Learners
work in units of their own, with labels standardised by the past alone; a density that
they give carries the Jacobian of that map in its scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import in_lanes
from sklearn_mdl.prequential.learner import Learner
from sklearn_mdl.stacked import student_t_loss
from sklearn_mdl.stacked.densities import FARTHEST

FIRST_DEGREES_OF_FREEDOM = 1.0  # before anything is known: the heaviest usual tails
EVEN = 2.0**-40  # labels that differ by less, relative to their size, count as equal
# Nine in ten Gaussian labels lie within 1.6 deviations of the median. Those beyond 8.2,
# five times that, are none of theirs.
CORE = 0.9
REACH = 5.0


class TargetScaling(NamedTuple):
    """Mean and standard deviation of labels that were seen, wild ones drawn in.

    Labels further from the median than ``REACH`` times the distance within which
    ``CORE`` of them lie count as being that far, unless this distance is zero. So a few
    wild labels move neither much, and labels without any keep both to the bit.

    Attributes
    ----------
    n_rows : int
    mean, scale : float
        In the units of the labels; the scale is 0 if they are all equal.
    """

    n_rows: int
    mean: float
    scale: float

    @classmethod
    def of(cls, y: Tensor) -> Self:
        """Take the labels (n,), in sums that are exact."""
        labels = _drawn_in(y.cpu().numpy())
        n = len(labels)
        mean = math.fsum(labels / n)
        gaps = labels - mean
        widest = float(np.abs(gaps).max())
        if widest <= EVEN * np.abs(labels).max():
            return cls(n, mean, 0.0)
        squares = math.fsum((gaps / widest) ** 2)
        return cls(n, mean, widest * math.sqrt(squares / n))


def _drawn_in(labels: np.ndarray) -> np.ndarray:
    """Winsorise labels (n,), by distance, unless those of the core are all equal."""
    median = np.median(labels)
    rank = int(CORE * (len(labels) - 1))
    core = np.partition(np.abs(labels - median), rank)[rank]
    bound = REACH * core if core > EVEN * np.abs(median) else np.inf
    return labels.clip(median - bound, median + bound)


class DensityLearner(Learner, Protocol):
    """A learner of real numbers."""

    @property
    def target(self) -> TargetScaling | None:
        """The units in which it works; None before it has learned anything."""

    def densities(self, x: Tensor) -> Tensor:
        """Densities (K, n, 3), float64, of rows (n_scalings, n, d).

        Location and logarithm of the scale in the units of the labels, and degrees of
        freedom; NaN first where a readout has no prediction. Changes nothing.
        """

    def retarget(self, target: TargetScaling) -> None:
        """Go over to other units, without a change of what is predicted."""


@dataclass(frozen=True)
class DensityPrediction:
    """Student-t densities: location, logarithm of the scale, degrees of freedom.

    Infinitely many degrees of freedom are a Gaussian.
    """

    values: Tensor

    @property
    def shape(self) -> torch.Size:
        """Readouts, rows, three."""
        return self.values.shape

    def losses(self, labels: Tensor) -> Tensor:
        """Minus log density of the labels (n,) in their own units, (K, n), in nats."""
        location, log_scale, dof = self.values.unbind(-1)
        z = (labels - location) * in_lanes(torch.exp, -log_scale)
        z = z.clamp(-FARTHEST, FARTHEST)
        # One number for a readout, unless it failed on the way: only a CPU is asked.
        if not dof.is_cuda and (dof == dof[:, :1]).all():
            dof = dof[:, :1]
        return student_t_loss(z, log_scale, dof)

    def holding(self, values: Tensor) -> Self:
        """Return other densities."""
        return replace(self, values=values)


class RealTargets:
    """Labels that are real numbers.

    All readouts predict a fixed Student-t with one degree of freedom until the first
    minibatch is full. One that has no prediction later predicts the Student-t that
    labels alone suggest: that of a Gaussian of unknown mean and variance, under
    Jeffreys' prior, after the rows by which the labels were last scaled, wild ones
    drawn in (:class:`TargetScaling`).

    Scaled features are cut at 50 deviations: beyond them a readout that was never there
    extrapolates, and the logarithm of its scale costs as many nats as it is wrong.

    Parameters
    ----------
    location, scale : float
        Of the fixed Student-t, in the units of the labels.
    """

    dtype: ClassVar[torch.dtype] = torch.float64
    n_kept: ClassVar[int] = 2
    feature_reach: ClassVar[float] = 50.0

    def __init__(self, location: float, scale: float) -> None:
        self.location = location
        self.scale = scale
        self.known: TargetScaling | None = None
        self._fallback: Tensor | None = (
            None  # where it is needed, until the next refresh
        )

    def predict(self, learner: DensityLearner, x: Tensor) -> DensityPrediction:
        """Ask a learner for densities, if it has learned anything."""
        if learner.target is None:
            shape = (len(learner.columns), x.shape[1], 3)
            first = torch.tensor(self._first(), dtype=torch.float64, device=x.device)
            return DensityPrediction(first.expand(shape))
        return DensityPrediction(learner.densities(x))

    def instead(self, values: Tensor) -> Tensor:
        """Return what labels alone suggest, (3,)."""
        if self._fallback is None:
            self._fallback = values.new_tensor(self._suggested())
        return self._fallback

    def _suggested(self) -> list[float]:
        known = self.known
        if known is None or not known.scale:
            return self._first()
        n = known.n_rows
        scale = known.scale * math.sqrt((n + 1) / (n - 1))
        return [known.mean, math.log(scale), n - 1.0]

    def _first(self) -> list[float]:
        return [self.location, math.log(self.scale), FIRST_DEGREES_OF_FREEDOM]

    def prepare(self, learner: DensityLearner, y: Tensor) -> None:
        """Give a learner units to learn its first minibatch in."""
        if learner.target is None:
            learner.retarget(self._units(TargetScaling.of(y)))

    def refresh(self, y: Tensor, learners: Sequence[DensityLearner]) -> None:
        """Take in all labels (n,) seen so far, and give learners other units."""
        self.known, self._fallback = TargetScaling.of(y), None
        for learner in learners:
            learner.retarget(self._units(self.known))

    def _units(self, known: TargetScaling) -> TargetScaling:
        """Labels that are all equal say nothing of their scale."""
        return known if known.scale else known._replace(scale=self.scale)

    def kept_of(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Return mean and standard deviation of the mixture, (n, 2).

        Infinite where they do not exist. The mean is that of the locations.
        """
        moments = mixture_moments(torch.stack(list(values)), weights)
        return torch.stack(moments, -1).cpu().numpy()


def mixture_moments(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of the locations and standard deviation of mixed densities, (n,) each.

    Parameters
    ----------
    values : Tensor of shape (K, n, 3)
        Densities, as of a :class:`DensityPrediction`.
    weights : Tensor of shape (K, n)
        Of the mixture.
    """
    location, log_scale, dof = values.unbind(-1)
    mean = _weighted_sum(weights, location)
    spread = torch.where(dof.isinf(), 1.0, dof / (dof - 2))
    spread = torch.where(dof > 2, spread, torch.inf)
    variance = in_lanes(torch.exp, 2 * log_scale) * spread
    both = variance + (location - mean).square()
    return mean, _weighted_sum(weights, both).sqrt()


def _weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    # One after the other, in one order; nothing of what has no weight, infinite or not.
    total = torch.zeros_like(values[0])
    for w, v in zip(weights, values, strict=True):
        total += torch.where(w > 0, w * v, 0.0)
    return total
