"""Pools of densities: normalised, moved by Newton's steps, without variance none."""

import math

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from sklearn_mdl.pooling import DensityPoolPass, LogLinearPool, Members


def densities(n=300, seed=0):
    """Labels, and Gaussians (n, G, 3) that see them through noise of their own."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    location = y[:, None] + rng.normal(size=(n, 3)) * [0.5, 0.7, 1.0]
    spread = np.log([0.5, 0.7, 1.0]) + np.zeros((n, 3))
    return y, np.stack([location, spread, np.full((n, 3), np.inf)], 2)


def alone(values):
    """Return each density as a group of its own."""
    return DensityPoolPass(LogLinearPool(), 3).mix(
        values.copy(), np.ones(3), Members(np.arange(3), 3)
    )


def test_a_product_of_gaussians_is_normalised_by_quadrature():
    y, values = densities(5)
    online = DensityPoolPass(LogLinearPool(), 3)
    for label, row in zip(y, values, strict=True):
        weights, mixed = online.weights, alone(row)

        def powers(at, w=weights, m=mixed):
            return math.exp(-0.5 * (w * (at - m[:, 0]) ** 2 / m[:, 1]).sum())

        whole, _ = quad(powers, -9, 9)
        _, cost = online.observe(mixed, label)
        assert cost == pytest.approx(-math.log(powers(label) / whole), abs=1e-6)


def test_weights_of_densities_move_by_newtons_steps():
    """The witness differentiates the Gaussian log-loss numerically."""
    y, values = densities(60)
    online, hessian = (
        DensityPoolPass(LogLinearPool(prior_precision=5), 3),
        5 * np.eye(3),
    )
    for label, row in zip(y, values, strict=True):
        mixed, w = alone(row), online.weights

        def loss(w, mixed=mixed, label=label):
            precision = (w / mixed[:, 1]).sum()
            mean = (w * mixed[:, 0] / mixed[:, 1]).sum() / precision
            return 0.5 * (precision * (label - mean) ** 2 - math.log(precision))

        step = 1e-5
        gradient = [(loss(w + e) - loss(w - e)) / (2 * step) for e in step * np.eye(3)]
        pooled_precision = (w / mixed[:, 1]).sum()
        mean = (w * mixed[:, 0] / mixed[:, 1]).sum() / pooled_precision
        # Covariance, under the pool, of the groups' log densities.
        a, d = -0.5 / mixed[:, 1], mean - mixed[:, 0]
        v = 1 / pooled_precision
        hessian += np.outer(a, a) * (4 * np.outer(d, d) * v + 2 * v * v)
        expected = np.maximum(w - np.linalg.solve(hessian, gradient), 0)
        online.observe(mixed, label)
        assert_allclose(online.weights, expected / min(expected.sum(), 1), atol=1e-5)


def test_a_step_on_heavy_tails_is_newtons_on_the_loss_of_a_student_t():
    """The witness is scipy's density, differentiated numerically."""
    values = np.array([[0.0, 0.0, 5.0], [1.0, 0.3, 30.0], [-0.5, -0.2, np.inf]])
    label, eye = 1.7, 1e-5 * np.eye(3)
    online = DensityPoolPass(LogLinearPool(prior_precision=5), 3)
    mixed, w = alone(values), online.weights
    variances = [stats.t.var(d, 0, np.exp(s)) for _, s, d in values]
    assert_allclose(mixed, np.stack([values[:, 0], variances, values[:, 2]], 1))

    def loss(w, at):
        shares = w / mixed[:, 1]
        mean, variance = shares @ mixed[:, 0] / shares.sum(), 1 / shares.sum()
        return -stats.t.logpdf(at, 5, mean, math.sqrt(variance * 3 / 5))

    def slopes(at):
        return np.array([loss(w + e, at) - loss(w - e, at) for e in eye]) / 2e-5

    predicted, cost = online.observe(mixed, label)
    assert cost == pytest.approx(loss(w, label))
    mean, log_scale, dof = predicted
    assert dof == 5
    middles = (np.arange(20_000) + 0.5) / 20_000
    drawn = slopes(stats.t.ppf(middles, dof, mean, math.exp(log_scale)))
    information = 5 * np.eye(3) + drawn @ drawn.T / 20_000
    assert_allclose(online.hessian, information, atol=1e-4)
    expected = np.maximum(w - np.linalg.solve(information, slopes(label)), 0)
    assert_allclose(online.weights, expected / min(expected.sum(), 1), atol=1e-5)


def test_the_cost_under_a_pool_of_gaussians_is_that_of_a_gaussian():
    values = np.array([[0.0, 0.0, np.inf], [1.0, 0.3, np.inf], [-0.5, -0.2, np.inf]])
    (mean, log_scale, _), cost = DensityPoolPass(LogLinearPool(), 3).observe(
        alone(values), 2.5
    )
    assert cost == pytest.approx(-stats.norm.logpdf(2.5, mean, math.exp(log_scale)))


def test_a_kind_has_the_moments_of_the_mixture_of_its_members():
    """The witness draws members of the mixture, and then labels from them."""
    values = np.array([[0.0, 0.0, 9.0], [2.0, 0.5, np.inf], [1.0, 0.2, np.inf]])
    weights, members = np.array([0.3, 0.7, 1.0]), Members(np.array([0, 2]), 3)
    online, order = DensityPoolPass(LogLinearPool(), 2), members.order
    mixed = online.mix(values[order].copy(), weights[order], members)
    rng, n = np.random.default_rng(0), 400_000
    drawn = np.where(
        rng.random(n) < 0.3,
        rng.standard_t(9, size=n),
        rng.normal(2.0, math.exp(0.5), size=n),
    )
    assert_allclose(mixed[0, :2], [drawn.mean(), drawn.var()], rtol=0.01)
    assert_allclose(mixed[1], [1.0, math.exp(0.4), np.inf])


def test_a_pool_of_densities_beats_the_best_one():
    y, values = densities()
    online, stream = DensityPoolPass(LogLinearPool(), 3), zip(y, values, strict=True)
    costs = [online.observe(alone(row), label)[1] for label, row in stream]
    z = (y - values[:, 0, 0]) / 0.5
    first = math.log(0.5) + 0.5 * (z**2 + math.log(2 * math.pi))
    assert sum(costs) < first.sum() - 30


INFINITE = DensityPoolPass(LogLinearPool(), 2).mix(
    np.array([[0.0, 0.0, 1.0], [0.0, 0.0, np.inf]]),
    np.ones(2),
    Members(np.arange(2), 2),
)
GAUSSIAN = [0.0, 1.0, np.inf]


@for_each(
    "mixed",
    [
        INFINITE,
        np.array([[0.0, 0.0, np.inf], GAUSSIAN]),
        np.array([[0.0, 1e-320, np.inf], GAUSSIAN]),  # its inverse overflows
        np.array([[0.0, 1.0, 2.0], GAUSSIAN]),  # has no variance, whatever is stated
    ],
)
def test_no_variance_no_pool(mixed):
    online = DensityPoolPass(LogLinearPool(), 2)
    before = online.weights
    predicted, cost = online.observe(mixed, 0.3)
    assert math.isnan(cost)
    assert np.isnan(predicted).all()
    assert_array_equal(online.weights, before)


def test_an_outlier_moves_a_pool_of_heavy_tails_little():
    values = np.array([[0.0, 0.0, 3.0], [1.0, 0.0, 30.0], [0.5, 0.3, 9.0]])
    online = DensityPoolPass(LogLinearPool(), 3)
    _, cost = online.observe(alone(values), 1e6)
    assert cost < 60
    assert np.abs(online.weights - 1 / 3).max() < 0.2


def test_a_step_that_would_leave_no_weight_is_not_taken():
    values = np.array([[0.0, 0.0, np.inf], [0.0, 0.5, np.inf]])
    online = DensityPoolPass(LogLinearPool(prior_precision=1), 2)
    mixed = online.mix(values, np.ones(2), Members(np.arange(2), 2))
    online.observe(mixed, 0.1)
    before = online.weights
    assert before[0] > before[1]
    online.observe(mixed, 50.0)  # far wider than any of them
    assert_array_equal(online.weights, before)


def test_groups_without_weight_share_it_when_the_one_that_had_it_retires():
    online = DensityPoolPass(LogLinearPool(), 3)
    online.load_state_dict({"weights": np.eye(3)[1], "hessian": np.eye(3)})
    online.retire([1])
    assert online.weights.tolist() == [0.5, 0.5]
