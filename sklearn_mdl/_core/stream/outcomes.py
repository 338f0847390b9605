"""Outcomes of a stream, classes or real numbers, and the cost of predicting them.

A learner's predictions are a tensor (K, n, P), where ``P`` numbers describe a
distribution. An :class:`Outcome` returns their costs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from sklearn_mdl._core.nets.losses import density_losses
from sklearn_mdl._core.numerics import in_lanes, mixture
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.units import TargetScaling
from sklearn_mdl._core.unsupported import ESCAPE, unsupported
from sklearn_mdl.metrics import EscapeCode, summarise
from sklearn_mdl.pooling import DensityPoolPass, GroupPass, LogLinearPool, PoolPass

Floats = NDArray[np.float64]

# A label costs at most this many nats more under a readout than under the fallback.
# The resulting floor changes the sum of all probabilities by less than rounding errors.
MOST_LOST = 40.0


class Outcome(ABC):
    """Kind of labels that a run predicts.

    A prediction of ``K`` readouts for ``n`` rows consists of float64 numbers (K, n, P)
    that describe a distribution for each readout and row.

    Attributes
    ----------
    dtype : torch.dtype
        Dtype of the labels.
    n_numbers : int
        Number ``P`` of numbers that describe the distribution of a label.
    n_kept : int
        Length of the stored summary of a prediction of the mixture.
    feature_reach : float
        Largest absolute value of a scaled feature. Larger values are clipped.
    n_named : int or None
        Number of classes that were named beforehand, if new classes may appear.
        Otherwise None.
    """

    dtype: torch.dtype
    n_numbers: int
    n_kept: int
    feature_reach: float
    n_named: int | None = None

    def bounded(self, values: Tensor) -> Tensor:
        """Return a learner's predictions, which may be changed to limit losses."""
        return values

    def predict(self, learner: Learner, x: Tensor) -> Tensor:
        """Let a learner predict rows (n_scalings, n, d), with NaN if it cannot."""
        return self.bounded(learner.predict(x))

    @abstractmethod
    def losses(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return the cost (K, n), in nats, of labels (n,) under predictions."""

    @abstractmethod
    def fallback(self, values: Tensor) -> Tensor | float:
        """Return the numbers (P,), or one number, that replace missing ``values``."""

    def init_units(self, learner: Learner, y: Tensor) -> None:  # noqa: B027
        """Set the units of a learner before it learns a minibatch with labels (n,)."""

    def refresh(self, y: Tensor, learners: Sequence[Learner]) -> None:  # noqa: B027
        """Update units from all known labels (n,), at a refresh of the scalings."""

    @abstractmethod
    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return the cost, in nats, by which the tolerance of a race is multiplied.

        ``least`` is the lowest cost of ``n_rows`` labels under any readout.
        """

    @abstractmethod
    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of a pool over labels of this kind."""

    @abstractmethod
    def mix(self, values: Iterable[Tensor], weights: Tensor) -> Floats:
        """Mix predictions of readouts, as input of :meth:`summarise`.

        Parameters
        ----------
        values : iterable of Tensor of shape (n, P)
            One for each readout.
        weights : Tensor of shape (K, n)
            Weights of the mixture.
        """

    @abstractmethod
    def mix_with(self, mixed: Floats, pooled: Floats, shares: Floats) -> Floats:
        """Mix the readouts' mixture and a pool's predictions with weights (n, 2)."""

    def mix_rows(self, values: Tensor, weights: Floats) -> Floats:
        """Mix predictions (K, n, P) with weights (K,), for `predict`.

        Returns
        -------
        mixed : ndarray of shape (n, ...)
            Log-probabilities of classes, or mean and standard deviation.
        """
        same = torch.from_numpy(weights)[:, None].expand(values.shape[:2])
        return self.mix(values.cpu(), same)

    def mix_rows_with(self, mixed: Floats, pooled: Floats, shares: Floats) -> Floats:
        """Mix the result of `mix_rows` and a pool's predictions with weights (2,)."""
        return self.mix_with(mixed, pooled, np.tile(shares, (len(mixed), 1)))

    @abstractmethod
    def fresh(self) -> Self:
        """Return a copy that has observed no labels."""

    def check_option(self, option: str, cure: str) -> None:  # noqa: B027
        """Raise for an option that cannot be combined with labels of this kind."""

    def new_rows(self, labels: np.ndarray) -> list[int]:
        """Return the positions of labels (n,) whose class was not known before."""
        return []

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays needed to restore the outcome of a saved run."""
        return {}

    def recall(self, labels: np.ndarray) -> None:  # noqa: B027
        """Record labels (n,) that a resumed run has already coded."""

    def escapes(self, labels: np.ndarray) -> np.ndarray | float:
        """Return the cost (n,), in nats, of coding whether a label's class is new."""
        return 0.0

    def add_escapes(self, mixed: Floats, start: int) -> Floats:
        """Add the probability of a new class to predictions of rows from ``start``."""
        return mixed

    def next_proba(self, proba: Floats) -> Floats:
        """Add the probability that the incoming row has a new class."""
        return proba

    @abstractmethod
    def summarise(self, mixed: Floats) -> Floats:
        """Return summaries (n, n_kept) of mixed predictions, for the measures."""


class ClassLabels(Outcome):
    """Classes encoded as integers, with the uniform fallback.

    Every probability that a readout predicts is at least ``exp(-MOST_LOST) / C``.

    Parameters
    ----------
    n_classes : int
    """

    dtype = torch.long
    n_kept = 3
    feature_reach = math.inf  # no clipping, since MOST_LOST limits every loss

    def __init__(self, n_classes: int) -> None:
        self.n_numbers = n_classes

    def fresh(self) -> Self:
        """Return a copy that has observed no labels."""
        return type(self)(self.n_numbers if self.n_named is None else self.n_named)

    def bounded(self, values: Tensor) -> Tensor:
        """Return log-probabilities (K, n, C), with a lower bound that limits losses."""
        return values.clamp_min(self.fallback(values) - MOST_LOST)

    def losses(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return minus the log-probability (K, n) of the labels (n,), in nats."""
        chosen = labels.expand(len(values), -1).unsqueeze(-1)
        return -values.gather(2, chosen).squeeze(-1)

    def fallback(self, values: Tensor) -> float:
        """Return the log-probability of every class under the uniform distribution."""
        return -math.log(values.shape[-1])

    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return the lowest loss or, if smaller, its saving over a uniform code.

        Readouts have similar losses if labels are nearly certain or unpredictable.
        """
        return min(least, max(0.0, n_rows * math.log(self.n_numbers) - least))

    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of the log-linear pool."""
        return PoolPass(pool, n_groups, self.n_numbers)

    def mix(self, values: Iterable[Tensor], weights: Tensor) -> Floats:
        """Return probabilities (n, C) of the classes."""
        return mixture(values, weights).cpu().numpy()

    def mix_with(self, mixed: Floats, pooled: Floats, shares: Floats) -> Floats:
        """Return probabilities (n, C) of the classes."""
        return np.asarray(shares[:, :1] * mixed + shares[:, 1:] * pooled)

    def mix_rows(self, values: Tensor, weights: Floats) -> Floats:
        """Return log-probabilities (n, C) of the classes."""
        with np.errstate(divide="ignore"):  # weights may be zero
            log_weights = np.log(weights)[:, None, None]
        return np.asarray(logsumexp(log_weights + values.cpu().numpy(), axis=0))

    def mix_rows_with(self, mixed: Floats, pooled: Floats, shares: Floats) -> Floats:
        """Return log-probabilities (n, C) of the classes."""
        both = np.stack([mixed, np.log(pooled)], -1)
        return np.asarray(logsumexp(both, axis=-1, b=shares))

    def summarise(self, mixed: Floats) -> Floats:
        """Return summaries (n, 3) as :func:`sklearn_mdl.metrics.summarise` does."""
        return summarise(mixed)


class OpenClassLabels(ClassLabels):
    """Classes, not all of which need to be named beforehand.

    Parameters
    ----------
    n_named : int
        Number of classes that were named beforehand.
    """

    def __init__(self, n_named: int) -> None:
        self.n_named: int = n_named
        self._escape = EscapeCode(n_named)  # tells which rows have a new class
        super().__init__(self._escape.n_classes)

    def check_option(self, option: str, cure: str) -> None:
        """Raise for an option that cannot be combined with new classes.

        Raises
        ------
        ValueError
            Always.
        """
        raise unsupported(ESCAPE, option, cure)

    def new_rows(self, labels: np.ndarray) -> list[int]:
        """Return the positions of labels (n,) whose class was not known before."""
        known = np.maximum.accumulate(np.append(self.n_numbers - 1, labels))
        return np.flatnonzero(labels > known[:-1]).tolist()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the number of classes that were named."""
        return {"n_named": np.array([self.n_named])}

    def recall(self, labels: np.ndarray) -> None:
        """Record labels (n,) that were already coded, and their classes."""
        self.escapes(labels)
        self.n_numbers = self._escape.n_classes

    def escapes(self, labels: np.ndarray) -> np.ndarray:
        """Return the cost (n,), in nats, of coding whether a label's class is new."""
        return np.array([self._escape.observe(label) for label in labels.tolist()])

    def add_escapes(self, mixed: Floats, start: int) -> Floats:
        """Add the probability of a new class to predictions of rows from ``start``."""
        return self._escape.coded(mixed, start)

    def next_proba(self, proba: Floats) -> Floats:
        """Add the probability that the incoming row has a new class."""
        probability = self._escape.probability
        return np.append((1.0 - probability) * proba, probability)


FIRST_DEGREES_OF_FREEDOM = 1.0  # heavy tails, since nothing is known yet


class RealTargets(Outcome):
    """Labels that are real numbers.

    Until its first labels are learned, a readout predicts a fixed Student-t with one
    degree of freedom, unless its learner has units from the start. The fallback for
    later missing predictions is a Student-t based on labels only: the predictive
    density of Gaussian labels with unknown mean and variance under Jeffreys' prior. It
    is computed at each refresh from the known labels, with outliers winsorised
    (:class:`TargetScaling`). While all labels are equal, it is the fixed Student-t.

    Scaled features are clipped at 50, since readouts extrapolate poorly farther out.

    Parameters
    ----------
    location, scale : float
        Location and scale of the fixed Student-t, in the units of the labels.
    """

    dtype = torch.float64
    n_numbers = 3  # location, log scale, degrees of freedom
    n_kept = 2
    feature_reach = 50.0

    def __init__(self, location: float, scale: float) -> None:
        self.location = location
        self.scale = scale
        self.known: TargetScaling | None = None
        self._fallback: Tensor | None = None  # computed when needed, reset at a refresh

    def fresh(self) -> Self:
        """Return a copy that has observed no labels."""
        return type(self)(self.location, self.scale)

    def predict(self, learner: Learner, x: Tensor) -> Tensor:
        """Return a learner's densities, or the fixed one if it has no units yet."""
        if learner.target is None:
            shape = (len(learner.columns), x.shape[1], 3)
            first = torch.tensor(self._first(), dtype=torch.float64, device=x.device)
            return first.expand(shape)
        return learner.predict(x)

    def losses(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return minus the log density (K, n) of labels (n,), in nats.

        Densities are at least ``exp(-MOST_LOST)`` times that of the fallback.
        """
        most = density_losses(self.fallback(values).expand(1, len(labels), 3), labels)
        return density_losses(values, labels).minimum(most + MOST_LOST)

    def fallback(self, values: Tensor) -> Tensor:
        """Return the fallback density (3,), which is based on labels only."""
        if self._fallback is None:
            density, known = self._first(), self.known
            if known is not None and known.scale:
                n = known.n_rows
                scale = known.scale * math.sqrt((n + 1) / (n - 1))
                density = [known.mean, math.log(scale), n - 1.0]
            self._fallback = values.new_tensor(density)
        return self._fallback

    def _first(self) -> list[float]:
        return [self.location, math.log(self.scale), FIRST_DEGREES_OF_FREEDOM]

    def init_units(self, learner: Learner, y: Tensor) -> None:
        """Set the units of a learner for its first minibatch."""
        if learner.target is None:
            learner.retarget(self._units(TargetScaling.of(y)))

    def refresh(self, y: Tensor, learners: Sequence[Learner]) -> None:
        """Update the fallback and the units of learners from all known labels (n,)."""
        if not len(y):
            return
        self.known, self._fallback = TargetScaling.of(y), None
        for learner in learners:
            learner.retarget(self._units(self.known))

    def _units(self, known: TargetScaling) -> TargetScaling:
        """Return ``known``, but with the fixed scale if all labels are equal."""
        return known if known.scale else known._replace(scale=self.scale)

    def unit_of_loss(self, least: float, n_rows: int) -> float:
        """Return a fifth of a nat per example, which is what features often save.

        This does not depend on the units of the labels.
        """
        return n_rows / 5

    def group_pass(self, pool: LogLinearPool, n_groups: int) -> GroupPass:
        """Begin a pass of the pool of densities."""
        return DensityPoolPass(pool, n_groups)

    def mix(self, values: Iterable[Tensor], weights: Tensor) -> Floats:
        """Return the mean and standard deviation (n, 2) of the mixture.

        The mean is the weighted mean of the locations. If the standard deviation is
        undefined, it is infinite.
        """
        moments = mixture_moments(torch.stack(list(values)), weights)
        return torch.stack(moments, -1).cpu().numpy()

    def mix_with(self, mixed: Floats, pooled: Floats, shares: Floats) -> Floats:
        """Return the mean and standard deviation (n, 2) of the whole mixture."""
        location, log_scale, dof = pooled.T
        # The pool is NaN if a variance is zero or infinite. Then use only the mixture.
        shares = np.where(np.isnan(pooled[:, :1]), [1.0, 0.0], shares)
        with np.errstate(invalid="ignore"):
            deviation = np.exp(log_scale) / np.sqrt(1.0 - 2.0 / dof)
        moments = np.stack([mixed, np.stack([location, deviation], 1)])
        mean, std = np.where(shares.T[..., None] > 0, moments, 0.0).transpose(2, 0, 1)
        centre = (shares.T * mean).sum(0)
        square = (shares.T * (std**2 + (mean - centre) ** 2)).sum(0)
        return np.stack([centre, np.sqrt(square)], 1)

    def summarise(self, mixed: Floats) -> Floats:
        """Return the means and standard deviations (n, 2) unchanged."""
        return mixed


def mixture_moments(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean location and standard deviation of mixed densities, (n,) each.

    Parameters
    ----------
    values : Tensor of shape (K, n, 3)
        Location, log scale, and degrees of freedom (infinite for a Gaussian).
    weights : Tensor of shape (K, n)
        Weights of the mixture.
    """
    location, log_scale, dof = values.unbind(-1)
    mean = _weighted_sum(weights, location)
    spread = torch.where(dof.isinf(), 1.0, dof / (dof - 2))
    spread = torch.where(dof > 2, spread, torch.inf)
    variance = in_lanes(torch.exp, 2 * log_scale) * spread
    return mean, _weighted_sum(weights, variance + (location - mean).square()).sqrt()


def _weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    # Sum in a fixed order, and skip values of zero weight, which may be infinite.
    total = torch.zeros_like(values[0])
    for w, v in zip(weights, values, strict=True):
        total += torch.where(w > 0, w * v, 0.0)
    return total
