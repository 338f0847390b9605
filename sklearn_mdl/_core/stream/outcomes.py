"""Outcomes of a stream, classes or real numbers, and the cost of predicting them.

A learner's predictions for ``n`` rows are one tensor (K, n, P): ``P`` numbers that name
a distribution. The run slices, joins and replaces them without knowing their meaning; a
:class:`Prediction` knows it, and an :class:`Outcome` makes one of what a learner
predicts, and says what is predicted in place of a readout that has no prediction.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from sklearn_mdl._core.nets.losses import density_losses
from sklearn_mdl._core.numerics import in_lanes, mixture
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.units import TargetScaling
from sklearn_mdl._core.unsupported import ESCAPE, unsupported
from sklearn_mdl.metrics import EscapeCode, summarise
from sklearn_mdl.pooling import DensityPoolPass, GroupPass, LogLinearPool, PoolPass

# Nats that a label costs a readout at most beyond a code without features. A floor so
# low adds less than rounding errors to the sum of all probabilities.
MOST_LOST = 40.0


@dataclass(frozen=True)
class Prediction(ABC):
    """Predictions of ``K`` readouts for ``n`` rows before their labels are seen.

    Attributes
    ----------
    values : Tensor of shape (K, n, P), float64
        The numbers that name a distribution for each readout and row.
    """

    values: Tensor

    @abstractmethod
    def losses(self, labels: Tensor) -> Tensor:
        """Cost (K, n) in nats of the labels (n,)."""

    def with_values(self, values: Tensor) -> Self:
        """Return other numbers (K', n', P) with the same meaning."""
        return replace(self, values=values)


class Outcome(ABC):
    """Kind of labels that a run predicts.

    Attributes
    ----------
    dtype : torch.dtype
        Of the labels.
    n_numbers : int
        Numbers ``P`` that name the distribution of a label.
    n_kept : int
        Numbers that are kept of every prediction of the mixture.
    feature_reach : float
        Deviations from their mean beyond which scaled features count as no further.
    escape : EscapeCode or None
        Code of rows that bring a class which is not known; None where there are none.
    """

    dtype: torch.dtype
    n_numbers: int
    n_kept: int
    feature_reach: float
    escape: EscapeCode | None = None

    @abstractmethod
    def predict(self, learner: Learner, x: Tensor) -> Prediction:
        """Let a learner predict rows (n_scalings, n, d).

        NaN stands first in ``values`` where a readout has no prediction for a row.
        """

    @abstractmethod
    def fallback(self, values: Tensor) -> Tensor | float:
        """Return what is predicted where ``values`` are none, (P,) or one number."""

    def init_units(self, learner: Learner, y: Tensor) -> None:  # noqa: B027
        """Prepare a learner for learning a minibatch with labels (n,)."""

    def refresh(self, y: Tensor, learners: Sequence[Learner]) -> None:  # noqa: B027
        """Take in all labels (n,) seen so far, whose number has doubled."""

    @abstractmethod
    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return the nats of which a tolerance is a share; rows cost ``least`` at best.

        So a tolerance does not depend on the units of labels.
        """

    @abstractmethod
    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of a pool over labels of this kind."""

    @abstractmethod
    def mix(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Mix predictions, for :meth:`summarise`.

        Parameters
        ----------
        values : iterable of Tensor of shape (n, P)
            One for each readout.
        weights : Tensor of shape (K, n)
            Of the mixture.
        """

    @abstractmethod
    def mix_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Mix the mixture of readouts with what a pool predicts, by shares (n, 2)."""

    @abstractmethod
    def mix_rows(self, values: Tensor, weights: np.ndarray) -> np.ndarray:
        """Mix predictions (K, n, P) by weights (K,), for `predict`.

        Returns
        -------
        mixed : ndarray of shape (n, ...)
            Log-probabilities of classes, or mean and standard deviation.
        """

    @abstractmethod
    def mix_rows_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Mix what :meth:`mix_rows` returns with a pool's, by shares (2,)."""

    @abstractmethod
    def fresh(self) -> Self:
        """Return a copy as it is before any label."""

    def check_schedule(self, schedule: str) -> None:  # noqa: B027
        """Refuse labels that are known late, if they must be known at once."""

    def check_stored(self) -> None:  # noqa: B027
        """Refuse to keep predictions, if their number may grow."""

    def new_rows(self, labels: np.ndarray) -> list[int]:
        """Return the places of labels (n,) that bring a class not known before."""
        return []

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what a saved run must know of the kind of its labels."""
        return {}

    def recall(self, labels: np.ndarray) -> None:  # noqa: B027
        """Take note of labels (n,) that a resumed run has coded before."""

    def escapes(self, labels: np.ndarray) -> np.ndarray | float:
        """Cost of knowing which labels (n,) bring a new class, in nats."""
        return 0.0

    def add_escapes(self, mixed: np.ndarray, start: int) -> np.ndarray:
        """Add the probability of a new class to predictions of rows from ``start``."""
        return mixed

    def next_proba(self, proba: np.ndarray) -> np.ndarray:
        """Add the probability that the incoming row brings a new class."""
        return proba

    @abstractmethod
    def summarise(self, mixed: np.ndarray) -> np.ndarray:
        """Return what is kept of mixed predictions for the measures, (n, n_kept)."""


class ClassPrediction(Prediction):
    """Log-probabilities (K, n, C) of classes."""

    def losses(self, labels: Tensor) -> Tensor:
        """Minus log-probability of the labels (n,), (K, n), in nats."""
        chosen = labels.expand(len(self.values), -1).unsqueeze(-1)
        return -self.values.gather(2, chosen).squeeze(-1)


class ClassLabels(Outcome):
    """Classes, encoded as integers; a readout without prediction predicts uniformly.

    No class has less than ``exp(-MOST_LOST)`` of its probability under that.

    Parameters
    ----------
    n_classes : int
    """

    dtype = torch.long
    n_kept = 3
    feature_reach = math.inf  # a class costs as many nats, at most

    def __init__(self, n_classes: int) -> None:
        self.n_numbers = n_classes

    def fresh(self) -> Self:
        """Return a copy as it is before any label."""
        named = self.n_numbers if self.escape is None else self.escape.n_named
        return type(self)(named)

    def predict(self, learner: Learner, x: Tensor) -> ClassPrediction:
        """Ask a learner for the log-probabilities of rows."""
        values = learner.predict(x)
        return ClassPrediction(values.clamp_min(self.fallback(values) - MOST_LOST))

    def fallback(self, values: Tensor) -> float:
        """Return the uniform prediction, one number for all classes."""
        return -math.log(values.shape[-1])

    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return the least loss, or what it saves over a uniform code if that is less.

        Readouts are close to each other where labels are nearly certain, and where they
        can hardly be predicted.
        """
        return min(least, max(0.0, n_rows * math.log(self.n_numbers) - least))

    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of the log-linear pool."""
        return PoolPass(pool, n_groups, self.n_numbers)

    def mix(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Probabilities of the classes, (n, C)."""
        return mixture(values, weights).cpu().numpy()

    def mix_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Probabilities of the classes, (n, C)."""
        both: np.ndarray = shares[:, :1] * mixed
        both += shares[:, 1:] * pooled
        return both

    def mix_rows(self, values: Tensor, weights: np.ndarray) -> np.ndarray:
        """Log-probabilities of the classes, (n, C)."""
        with np.errstate(divide="ignore"):  # a readout of weight zero
            log_weights = np.log(weights)[:, None, None]
        mixed: np.ndarray = logsumexp(log_weights + values.cpu().numpy(), axis=0)
        return mixed

    def mix_rows_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Log-probabilities of the classes, (n, C)."""
        both = np.stack([mixed, np.log(pooled)], -1)
        found: np.ndarray = logsumexp(both, axis=-1, b=shares)
        return found

    def summarise(self, mixed: np.ndarray) -> np.ndarray:
        """Most probable class, its probability, sum of squared ones, (n, 3)."""
        return summarise(mixed)


class OpenClassLabels(ClassLabels):
    """Classes of which some may appear without having been named.

    Parameters
    ----------
    n_named : int
        Classes that are named.

    Attributes
    ----------
    escape : EscapeCode
        Code of the rows that bring a class which is not known.
    """

    def __init__(self, n_named: int) -> None:
        self.escape: EscapeCode = EscapeCode(n_named)
        super().__init__(self.escape.n_classes)

    def check_schedule(self, schedule: str) -> None:
        """Refuse labels that are known late.

        Raises
        ------
        ValueError
            In any case.
        """
        raise unsupported(ESCAPE, schedule, "name all classes, or leave the other out")

    def check_stored(self) -> None:
        """Refuse to keep predictions, whose number may grow.

        Raises
        ------
        ValueError
            In any case.
        """
        cure = 'name all classes, or leave "mixtures" out of store'
        raise unsupported(ESCAPE, "stored mixtures", cure)

    def new_rows(self, labels: np.ndarray) -> list[int]:
        """Return the places of labels (n,) that bring a class not known before."""
        known = np.maximum.accumulate(np.append(self.n_numbers - 1, labels))
        found: list[int] = np.flatnonzero(labels > known[:-1]).tolist()
        return found

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the number of classes that were named."""
        return {"n_named": np.array([self.escape.n_named])}

    def recall(self, labels: np.ndarray) -> None:
        """Take note of labels (n,) that were coded before, and of their classes."""
        self.escapes(labels)
        self.n_numbers = self.escape.n_classes

    def escapes(self, labels: np.ndarray) -> np.ndarray:
        """Cost of knowing which labels (n,) bring a new class, in nats."""
        return np.array([self.escape.observe(label) for label in labels.tolist()])

    def add_escapes(self, mixed: np.ndarray, start: int) -> np.ndarray:
        """Add the probability of a new class to predictions of rows from ``start``."""
        return self.escape.coded(mixed, start)

    def next_proba(self, proba: np.ndarray) -> np.ndarray:
        """Add the probability that the incoming row brings a new class."""
        probability = self.escape.probability
        return np.append((1.0 - probability) * proba, probability)


FIRST_DEGREES_OF_FREEDOM = 1.0  # before anything is known: the heaviest usual tails


@dataclass(frozen=True)
class DensityPrediction(Prediction):
    """Student-t densities: location, logarithm of the scale, degrees of freedom.

    Infinitely many degrees of freedom are a Gaussian. Densities are at least
    ``exp(-MOST_LOST)`` of the ``fallback`` (3,).
    """

    fallback: Tensor

    def losses(self, labels: Tensor) -> Tensor:
        """Minus log density of the labels (n,) in their own units, (K, n), in nats."""
        most = density_losses(self.fallback.expand(1, len(labels), 3), labels)
        return density_losses(self.values, labels).minimum(most + MOST_LOST)


class RealTargets(Outcome):
    """Labels that are real numbers.

    All readouts predict a fixed Student-t with one degree of freedom until the first
    minibatch is full. One that has no prediction later predicts the Student-t that
    labels alone suggest: that of a Gaussian of unknown mean and variance, under
    Jeffreys' prior, after the rows by which the labels were last scaled, outlying ones
    winsorised (:class:`TargetScaling`).

    Scaled features are cut at 50 deviations: beyond them a readout extrapolates, and
    the logarithm of its scale costs as many nats as it is wrong.

    Parameters
    ----------
    location, scale : float
        Of the fixed Student-t, in the units of the labels.
    """

    dtype = torch.float64
    n_numbers = 3  # location, log scale, degrees of freedom
    n_kept = 2
    feature_reach = 50.0

    def __init__(self, location: float, scale: float) -> None:
        self.location = location
        self.scale = scale
        self.known: TargetScaling | None = None
        self._fallback: Tensor | None = None  # made when needed, until the next refresh

    def fresh(self) -> Self:
        """Return a copy as it is before any label."""
        return type(self)(self.location, self.scale)

    def predict(self, learner: Learner, x: Tensor) -> DensityPrediction:
        """Ask a learner for densities, if it has learned anything."""
        if learner.target is None:
            shape = (len(learner.columns), x.shape[1], 3)
            first = torch.tensor(self._first(), dtype=torch.float64, device=x.device)
            return DensityPrediction(first.expand(shape), first)
        values = learner.predict(x)
        return DensityPrediction(values, self.fallback(values))

    def fallback(self, values: Tensor) -> Tensor:
        """Return the density that labels alone suggest, (3,)."""
        if self._fallback is None:
            found, known = self._first(), self.known
            if known is not None and known.scale:
                n = known.n_rows
                scale = known.scale * math.sqrt((n + 1) / (n - 1))
                found = [known.mean, math.log(scale), n - 1.0]
            self._fallback = values.new_tensor(found)
        return self._fallback

    def _first(self) -> list[float]:
        return [self.location, math.log(self.scale), FIRST_DEGREES_OF_FREEDOM]

    def init_units(self, learner: Learner, y: Tensor) -> None:
        """Give a learner units to learn its first minibatch in."""
        if learner.target is None:
            learner.retarget(self._units(TargetScaling.of(y)))

    def refresh(self, y: Tensor, learners: Sequence[Learner]) -> None:
        """Take in all labels (n,) known so far, and give learners other units."""
        if not len(y):
            return
        self.known, self._fallback = TargetScaling.of(y), None
        for learner in learners:
            learner.retarget(self._units(self.known))

    def _units(self, known: TargetScaling) -> TargetScaling:
        """Labels that are all equal say nothing of their scale."""
        return known if known.scale else known._replace(scale=self.scale)

    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return a fifth of a nat an example, about what features save.

        Other units of the labels do not change it.
        """
        return n_rows / 5

    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of the pool of densities."""
        return DensityPoolPass(pool, n_groups)

    def mix(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Return mean and standard deviation of the mixture, (n, 2).

        Infinite where they do not exist. The mean is that of the locations.
        """
        moments = mixture_moments(torch.stack(list(values)), weights)
        return torch.stack(moments, -1).cpu().numpy()

    def mix_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Mean and standard deviation, (n, 2)."""
        location, log_scale, dof = pooled.T
        # No pool, as long as a group has no variance: then the mixture is all there is.
        shares = np.where(np.isnan(pooled[:, :1]), [1.0, 0.0], shares)
        with np.errstate(invalid="ignore"):
            deviation = np.exp(log_scale) / np.sqrt(1.0 - 2.0 / dof)
        moments = np.stack([mixed, np.stack([location, deviation], 1)])
        mean, std = np.where(shares.T[..., None] > 0, moments, 0.0).transpose(2, 0, 1)
        centre = (shares.T * mean).sum(0)
        square = (shares.T * (std**2 + (mean - centre) ** 2)).sum(0)
        return np.stack([centre, np.sqrt(square)], 1)

    def mix_rows(self, values: Tensor, weights: np.ndarray) -> np.ndarray:
        """Mean and standard deviation of the mixture, (n, 2)."""
        values = values.cpu()
        return self.mix(
            values, torch.from_numpy(weights)[:, None].expand(values.shape[:2])
        )

    def mix_rows_with(
        self, mixed: np.ndarray, pooled: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Mean and standard deviation, (n, 2)."""
        return self.mix_with(mixed, pooled, np.tile(shares, (len(mixed), 1)))

    def summarise(self, mixed: np.ndarray) -> np.ndarray:
        """Return mean and standard deviation as they are."""
        return mixed


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
