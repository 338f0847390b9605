"""Densities of stacked regressors: losses, slopes, units, against other libraries."""

import copy
import math

import numpy as np
import pytest
import torch
from each_case import for_each
from scipy import stats

from sklearn_mdl._core.nets.losses import (
    LEAST_LOG_SCALE,
    MAX_RESIDUAL,
    StackedStudentT,
    density_losses,
)
from sklearn_mdl._core.stream.outcomes import (
    RealTargets,
    TargetScaling,
    mixture_moments,
)
from sklearn_mdl.readouts import (
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    build_learners,
)

CPU = torch.device("cpu")
DOF = [math.inf, 1.0, 3.5, 40.0]
N, D, B = 7, 3, 7


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def densities(seed=0):
    """Four densities for each of N rows."""
    location, log_scale = numbers(2, len(DOF), N, seed=seed).double()
    dof = torch.tensor(DOF, dtype=torch.float64)[:, None].expand_as(location)
    return torch.stack([location, log_scale, dof], -1)


def student(dof):
    return StackedStudentT(dof, [1.0] * len(dof))


def scipy_density(location, log_scale, dof):
    scale = math.exp(log_scale)
    if math.isinf(dof):
        return stats.norm(location, scale)
    return stats.t(dof, location, scale)


# Losses


def test_losses_are_scipys_minus_log_densities():
    values, y = densities(), 3 * numbers(N, seed=1).double()
    found = density_losses(values, y)
    assert found.shape == (len(DOF), N)
    for k in range(len(DOF)):
        for i in range(N):
            density = scipy_density(*values[k, i].tolist())
            expected = -density.logpdf(y[i].item())
            assert found[k, i].item() == pytest.approx(expected, rel=1e-10)


def test_losses_of_a_row_do_not_depend_on_the_rows_beside_it():
    values, y = densities(), numbers(N, seed=1).double()
    whole = density_losses(values, y)
    for i in range(N):
        alone = density_losses(values[1:3, i : i + 1], y[i : i + 1])
        assert torch.equal(alone, whole[1:3, i : i + 1])


def test_losses_of_labels_are_numbers_at_any_distance_in_scales():
    values = torch.tensor([[[0.0, -400.0, dof]] for dof in DOF], dtype=torch.float64)
    found = density_losses(values, torch.tensor([1e150], dtype=torch.float64))
    assert found.isfinite().all()


def test_losses_where_a_readout_failed_on_the_way_follow_the_degrees_of_each_row():
    values, y = densities(), numbers(N, seed=1).double()
    values[1:3, 4:, 2] = 9.0
    whole = density_losses(values, y)
    for rows in (slice(4), slice(4, None)):
        part = density_losses(values[:, rows], y[rows])
        assert torch.equal(part, whole[:, rows])


def test_many_degrees_of_freedom_are_nearly_a_gaussian():
    criterion = student([math.inf]), student([1e7])
    outputs, y = numbers(1, N, 2).double(), numbers(N, seed=1).double()
    gaussian, other = (c.forward(outputs, y) for c in criterion)
    torch.testing.assert_close(other, gaussian, rtol=1e-5, atol=1e-5)


def test_gradient_is_autograds():
    criterion = student(DOF)
    outputs = (numbers(len(DOF), N, 2) / 2).requires_grad_()
    y = numbers(N, seed=1)
    z = (y - outputs[..., 0]) * (-outputs[..., 1]).exp()
    assert z.abs().max() < MAX_RESIDUAL
    criterion.forward(outputs, y).backward()
    found = criterion.gradient(outputs.detach(), y)
    torch.testing.assert_close(found, outputs.grad, rtol=1e-4, atol=1e-5)


def test_a_far_outlier_pulls_no_harder_than_a_near_one():
    criterion = student([math.inf])
    outputs = torch.zeros(1, 1, 2)
    near, far = (
        criterion.gradient(outputs, torch.tensor([y])) for y in (MAX_RESIDUAL, 1e20)
    )
    assert torch.equal(near, far)


def test_no_scale_is_narrowed_without_end_but_each_can_be_widened():
    criterion = student([math.inf, 3.0])
    outputs = torch.zeros(2, 1, 2)
    outputs[..., 1] = LEAST_LOG_SCALE - 1
    equal, other = (criterion.gradient(outputs, torch.tensor([y])) for y in (0.0, 1e-3))
    assert not equal[..., 1].any()
    assert (other[..., 1] < 0).all()


# Mixtures


def test_moments_of_a_mixture_are_those_of_its_samples():
    dof = torch.tensor([math.inf, 8.0])[:, None].double()
    location, log_scale = torch.tensor([[[0.0], [3.0]], [[0.0], [-1.0]]]).double()
    values = torch.stack([location, log_scale, dof], -1)
    weights = torch.tensor([[0.3], [0.7]], dtype=torch.float64)
    mean, std = mixture_moments(values, weights)
    rng = np.random.default_rng(0)
    draws = [
        scipy_density(*v[0].tolist()).rvs(400_000, random_state=rng) for v in values
    ]
    samples = np.where(rng.random(400_000) < 0.3, *draws)
    assert mean.item() == pytest.approx(samples.mean(), abs=0.01)
    assert std.item() == pytest.approx(samples.std(), rel=0.01)


def test_a_density_without_variance_counts_only_if_it_has_weight():
    values = densities()
    weights = torch.zeros(len(DOF), N, dtype=torch.float64)
    weights[0] = 1
    mean, std = mixture_moments(values, weights)
    torch.testing.assert_close(mean, values[0, :, 0])
    torch.testing.assert_close(std, values[0, :, 1].exp())
    weights[:2] = 0.5
    assert torch.isinf(mixture_moments(values, weights)[1]).all()


# Units of labels


def test_scaling_of_labels_is_numpys_mean_and_deviation():
    y = 50 + 3 * numbers(100).double()
    found = TargetScaling.of(y)
    expected = (100, y.numpy().mean(), y.numpy().std())
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@for_each("size", [1e-200, 1.0, 1e150])
def test_labels_of_any_size_have_a_finite_scale(size):
    found = TargetScaling.of(size * torch.tensor([-1.0, 1.0], dtype=torch.float64))
    assert found == (2, 0.0, size)


@for_each("label", [0.0, 0.1, -3e7])
def test_equal_labels_have_none_and_keep_the_prior_scale(label):
    y = torch.full((9,), label, dtype=torch.float64)
    assert TargetScaling.of(y).scale == 0
    (stack,) = build_learners([LinearReadoutRegressor()], D, 3, seed=0, device=CPU)
    RealTargets(0.0, 2.5).init_units(stack, y)
    assert stack.target.scale == 2.5


def test_a_label_far_from_the_core_counts_as_five_times_as_far_as_the_core_reaches():
    y = torch.tensor([*range(10), 1000.0], dtype=torch.float64)
    drawn_in = [*range(10), 30.0]  # nine in ten lie within 5 of the median, which is 5
    expected = (11, np.mean(drawn_in), np.std(drawn_in))
    np.testing.assert_allclose(TargetScaling.of(y), expected, rtol=1e-12)


@for_each("n_wild", [1, 3, 9])
def test_wild_labels_up_to_a_tenth_leave_units_of_the_size_of_the_others(n_wild):
    y = 50 + 3 * numbers(100).double()
    wild = y.clone()
    wild[:n_wild] = 1e6
    found, own = TargetScaling.of(wild), TargetScaling.of(y[n_wild:])
    assert own.scale <= found.scale < 5 * own.scale
    assert abs(found.mean - own.mean) < 2 * own.scale


@for_each("a", [2.0**30, -(2.0**-7), -1.0])
def test_units_of_labels_with_wild_ones_follow_the_units_of_the_labels(a):
    y = 50 + 3 * numbers(100).double()
    y[3] = -1e6
    n, mean, scale = TargetScaling.of(y)
    assert TargetScaling.of(a * y) == (n, a * mean, abs(a) * scale)


def test_labels_that_are_nearly_all_equal_keep_the_deviation_of_all():
    y = torch.tensor([2.0] * 39 + [5.0], dtype=torch.float64)
    expected = (40, y.numpy().mean(), y.numpy().std())
    np.testing.assert_allclose(TargetScaling.of(y), expected, rtol=1e-12)


@for_each("n", [1, 2, 3])
def test_few_labels_have_units_too(n):
    found = TargetScaling.of(torch.arange(n, dtype=torch.float64))
    np.testing.assert_allclose(found, (n, (n - 1) / 2, np.std(range(n))))


POOL = [
    LinearReadoutRegressor(lr=0.01, ema_step_size=0.1),
    LinearReadoutRegressor(likelihood="student-t", calibration=False),
    LinearReadoutRegressor(heteroscedastic=False, weight_decay=1.0),
]
PERCEPTRONS = [
    MLPReadoutRegressor((8,), lr=0.01),
    MLPReadoutRegressor((8,), likelihood="student-t", degrees_of_freedom=1.5),
    MLPReadoutRegressor((8,), heteroscedastic=False, ema_step_size=0.1),
]


def trained(readouts, n_steps=12):
    """Return one stack that has learned minibatches of odd size."""
    (stack,) = build_learners(readouts, D, 3, seed=3, device=CPU)
    for step in range(n_steps):
        x, y = numbers(1, B, D, seed=step), 7 + numbers(B, seed=100 + step).double()
        if not step:
            stack.retarget(TargetScaling.of(y))
        stack.update(x, y, iter([(x, y)]))
    return stack


@pytest.mark.parametrize("readouts", [POOL, PERCEPTRONS])
def test_a_stack_equals_its_parts(readouts):
    x = numbers(1, B, D, seed=50)
    whole = trained(readouts).predict(x)
    for k, readout in enumerate(readouts):
        assert torch.equal(trained([readout]).predict(x)[0], whole[k])


@pytest.mark.parametrize("readouts", [POOL, PERCEPTRONS])
def test_other_units_leave_what_is_predicted(readouts):
    stack, x = trained(readouts), numbers(1, B, D, seed=50)
    before = stack.predict(x)
    stack.retarget(TargetScaling(99, -3.0, 0.2))
    torch.testing.assert_close(stack.predict(x), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("readouts", [POOL, PERCEPTRONS])
def test_a_scale_that_is_the_same_for_all_features_stays_so(readouts):
    log_scale = trained(readouts).predict(numbers(1, B, D, seed=50))[..., 1]
    spread = log_scale.amax(1) - log_scale.amin(1)
    constant = [not readout.heteroscedastic for readout in readouts]
    assert (spread == 0).tolist() == constant


def test_calibration_moves_along_the_slope_of_the_loss():
    stack = trained(PERCEPTRONS)
    x, y = numbers(1, B, D, seed=50), 7 + numbers(B, seed=51).double()
    outputs, units = stack.logits(x).double(), stack.target
    found = stack._slope(outputs, (y - units.mean) / units.scale)
    logit_scale = stack._logit_scale()[:, 0, 0]
    for k in range(len(PERCEPTRONS)):
        losses = []
        for step in (1e-5, -1e-5):
            factor = logit_scale.clone()
            factor[k] += step
            values = stack.predict(x)
            values[..., 1] += (logit_scale / factor).log()[:, None]
            losses.append(density_losses(values, y)[k].mean())
        slope = (losses[0] - losses[1]) / 2e-5
        torch.testing.assert_close(found[k], slope, rtol=1e-6, atol=1e-8)


def test_calibration_stays_a_number_whatever_a_label():
    stack = trained(PERCEPTRONS, n_steps=3)
    with torch.no_grad():
        stack.net.module_.pairs[-1][1][..., 1] = -20.0  # of a scale in units of labels
    stack.update(numbers(1, B, D), torch.full((B,), 1e150, dtype=torch.float64), [])
    assert stack.calibration.values.isfinite().all()


def test_calibration_widens_a_scale_that_is_too_small():
    (stack,) = build_learners(
        [LinearReadoutRegressor(lr=1e-9, scaling=None)], D, 3, seed=0, device=CPU
    )
    stack.retarget(TargetScaling(B, 0.0, 1.0))
    for step in range(60):
        x, y = numbers(1, B, D, seed=step), 5 * numbers(B, seed=step).double()
        stack.calibrate(x, y)
        stack.update(x, y, [])
    scale = stack.predict(numbers(1, B, D))[0, 0, 1].exp()
    assert scale.item() == pytest.approx(5, rel=0.3)


def test_outputs_that_are_not_finite_are_no_prediction():
    stack = trained(POOL)
    other = copy.deepcopy(stack)
    with torch.no_grad():
        other.net.module_.pairs[-1][1][1, 0, 1] = torch.inf
    x = numbers(1, B, D, seed=50)
    found = other.predict(x)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], stack.predict(x)[[0, 2]])


def test_a_stack_without_units_says_so():
    (stack,) = build_learners([LinearReadoutRegressor()], D, 3, seed=0, device=CPU)
    with pytest.raises(RuntimeError, match="units"):
        stack.predict(numbers(1, B, D))
