"""Pool for real-valued labels, which combines densities as if they were Gaussian."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_mdl.pooling._groups import Floats, Members, newton_step
from sklearn_mdl.pooling._log_linear import GroupPass

NONE = np.full(3, np.nan)  # prediction if kinds cannot be pooled


class _Pooled(NamedTuple):
    """The pool's density: a Student-t described by its variance."""

    mean: float
    variance: float
    dof: float  # degrees of freedom, infinite for a Gaussian

    @property
    def squared_scale(self) -> float:
        return self.variance * (1.0 - 2.0 / self.dof)


class DensityPoolPass(GroupPass):
    r"""One online pass of a pool of densities over a stream.

    A product of powers of Gaussians is a Gaussian. If the kinds' mixtures have means
    :math:`\mu_g` and variances :math:`v_g`, the product's precision is :math:`\sum_g
    w_g / v_g`, and its mean is :math:`\sum_g w_g \mu_g / v_g` divided by the precision.
    Under a Gaussian, however, outliers would be too costly. So the pool is a Student-t
    with this mean and variance, and with the lowest degrees of freedom of any kind.
    After each label, the weights take one online Newton step, with the gradient of the
    label's log-loss. The Hessian is the sum of the Fisher information of the pool's
    densities so far and the prior precision. Weights are non-negative and sum to at
    least one, so the pool's variance never exceeds the largest variance of a kind.

    The pool predicts NaN for a row unless every kind has a positive, finite variance.

    Parameters
    ----------
    pool : LogLinearPool
        Settings of the pool. ``floor`` has no effect on densities. A switcher mixes the
        pool with the switching mixture, which bounds the cost of a wrong pool.
    n_groups : int

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def mix(self, values: Floats, weights: Floats, members: Members) -> Floats:
        """Return mean, variance and degrees of freedom (G, ..., 3) of the mixtures.

        Values (K, ..., 3) are the experts' location, log scale and degrees of freedom.
        """
        location, log_scale, dof = np.moveaxis(values, -1, 0)
        with np.errstate(all="ignore"):  # kinds with infinite moments are not pooled
            spread = np.where(np.isinf(dof), 1.0, dof / (dof - 2.0))
            variance = np.where(dof > 2, np.exp(2 * log_scale) * spread, np.inf)
            mean = members.sums(weights * location)
            gaps = location - mean[members.groups]
            total = members.sums(weights * (variance + gaps * gaps))
            return np.stack([mean, total, 1.0 / members.sums(weights / dof)], -1)

    def predict(self, mixed: Floats) -> Floats:
        """Return location, log scale and degrees of freedom (3,), or NaN."""
        pooled = self._pooled(mixed)
        return NONE if pooled is None else _location_scale(pooled)

    def observe(self, mixed: Floats, label: float) -> tuple[Floats, float]:
        """Predict a row, then update the weights if the cost is finite."""
        pooled = self._pooled(mixed)
        if pooled is None:
            return NONE, math.nan
        predicted = _location_scale(pooled)
        cost = self.cost(predicted, label)
        if math.isfinite(cost):
            self._step(mixed, pooled, label)
        return predicted, cost

    def cost(self, predicted: Floats, label: float) -> float:
        """Return minus the log density of a label in nats (NaN if predictions are)."""
        return _student_t_loss(label, *predicted.tolist())

    def _pooled(self, mixed: Floats) -> _Pooled | None:
        mean, variance, dof = mixed.T
        if not (np.isfinite(variance).all() and (variance > 0).all()):
            return None
        with np.errstate(all="ignore"):
            shares = self.weights / variance
            centre = float(np.average(mean, weights=shares))
            pooled = _Pooled(centre, float(1 / shares.sum()), float(dof.min()))
            defined = np.isfinite([centre, pooled.variance]).all()
        return pooled if defined and pooled.squared_scale > 0 else None

    def _step(self, mixed: Floats, pooled: _Pooled, label: float) -> None:
        mean, variance, _ = mixed.T
        residual, square = label - pooled.mean, pooled.squared_scale
        scaled = residual * residual / square
        if math.isinf(pooled.dof):
            pull, fisher = 1.0, (1.0, 0.5)
        else:
            pull = (pooled.dof + 1) / (pooled.dof + scaled)
            location = (pooled.dof + 1) / (pooled.dof + 3)
            fisher = location, 0.5 * pooled.dof / (pooled.dof + 3)
        # Derivatives of the log variance, and of the mean in units of the scale, with
        # respect to the weights.
        by_variance = -pooled.variance / variance
        by_mean = by_variance * (pooled.mean - mean) / math.sqrt(square)
        gradient = by_mean * (pull * residual / math.sqrt(square))
        gradient += by_variance * (0.5 * pull * scaled - 0.5)
        if not np.isfinite(gradient).all():
            return
        self._fade()
        self.hessian += fisher[0] * np.outer(by_mean, by_mean)
        self.hessian += fisher[1] * np.outer(by_variance, by_variance)
        weights = self.weights + newton_step(self.hessian, gradient)
        if np.maximum(weights, 0.0).sum() == 0:
            return
        self.weights = self._project(weights)

    def _project(self, weights: Floats) -> Floats:
        positive = np.maximum(weights, 0.0)
        total = float(positive.sum())
        if not total:
            return np.full_like(weights, 1 / len(weights))
        return positive / min(total, 1.0)


def _location_scale(pooled: _Pooled) -> Floats:
    """Return the location, log scale and degrees of freedom of a density."""
    return np.array([pooled.mean, 0.5 * math.log(pooled.squared_scale), pooled.dof])


def _student_t_loss(label: float, mean: float, log_scale: float, dof: float) -> float:
    """Return minus the log density of a label, in nats."""
    z = (label - mean) / math.exp(log_scale)
    if math.isinf(dof):
        return log_scale + 0.5 * (z * z + math.log(2 * math.pi))
    normaliser = (
        math.lgamma(dof / 2)
        - math.lgamma((dof + 1) / 2)
        + 0.5 * math.log(dof * math.pi)
    )
    return log_scale + normaliser + (dof + 1) / 2 * math.log1p(z * z / dof)
