"""The reference code for real numbers, beside closed forms and scipy."""

import math

import numpy as np
import pytest
from each_case import for_each
from scipy import stats
from scipy.special import gammaln

from sklearn_mdl.metrics import gaussian_codelengths

Y = np.random.default_rng(0).normal(3.0, 2.0, size=60)


def log_marginal(y):
    """Log density of y under Jeffreys' prior, which is improper: up to a constant."""
    n = len(y)
    squares = np.square(y - y.mean()).sum()
    half = (n - 1) / 2
    return (
        gammaln(half)
        - half * math.log(math.pi)
        - math.log(n) / 2
        - half * np.log(squares)
    )


def test_first_labels_cost_what_the_fixed_student_t_says():
    found = gaussian_codelengths(Y, n_first=20, location=1.0, scale=3.0)
    np.testing.assert_allclose(found[:20], -stats.t(1, 1.0, 3.0).logpdf(Y[:20]))


def test_labels_after_them_are_predicted_by_scipys_student_t():
    found = gaussian_codelengths(Y, n_first=5)
    for n in (5, 6, 31, 59):
        seen = Y[:n]
        scale = seen.std(ddof=1) * math.sqrt(1 + 1 / n)
        expected = -stats.t(n - 1, seen.mean(), scale).logpdf(Y[n])
        assert found[n] == pytest.approx(expected, rel=1e-10)


@for_each("n_first", [2, 3, 32])
def test_their_sum_is_the_ratio_of_closed_form_marginal_likelihoods(n_first):
    found = gaussian_codelengths(Y, n_first=n_first)[n_first:].sum()
    expected = log_marginal(Y[:n_first]) - log_marginal(Y)
    assert found == pytest.approx(expected, rel=1e-10)


@for_each("a, b", [(1e-3, 5.0), (-40.0, 1e4), (1.0, -7.0)])
def test_other_units_add_the_logarithm_of_their_ratio_after_the_first(a, b):
    found, own = (gaussian_codelengths(y, n_first=8)[8:] for y in (a * Y + b, Y))
    np.testing.assert_allclose(found, own + math.log(abs(a)), atol=1e-6)


def test_later_labels_change_no_earlier_cost():
    changed = Y.copy()
    changed[30:] = 1e6
    found = gaussian_codelengths(changed)[:30]
    np.testing.assert_array_equal(found, gaussian_codelengths(Y)[:30])


def test_a_gaussian_source_costs_its_entropy_and_the_logarithm_of_its_length():
    n, excess = 2000, []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(size=n)
        truth = -stats.norm.logpdf(y[32:]).sum()
        excess.append(gaussian_codelengths(y)[32:].sum() - truth)
    # Two parameters cost half a logarithm each (Rissanen), from 32 labels on.
    assert np.mean(excess) == pytest.approx(math.log(n / 32), abs=1.0)


def test_equal_labels_teach_no_scale():
    y = np.array([2.0] * 40 + [3.0, 2.5])
    found = gaussian_codelengths(y)
    np.testing.assert_allclose(found[:41], -stats.t(1).logpdf(y[:41]))
    assert np.isfinite(found).all()


def test_a_single_label_teaches_no_scale():
    np.testing.assert_array_equal(
        gaussian_codelengths(Y, n_first=1), gaussian_codelengths(Y, n_first=2)
    )


def test_the_fixed_density_predicts_32_labels_by_default():
    fixed = -stats.t(1).logpdf(Y)
    np.testing.assert_array_equal(
        np.isclose(gaussian_codelengths(Y), fixed), np.arange(60) < 32
    )


def test_labels_may_be_numbers_of_any_kind():
    np.testing.assert_array_equal(
        gaussian_codelengths(np.array([1, 2, 4], dtype=object), n_first=2),
        gaussian_codelengths([1.0, 2.0, 4.0], n_first=2),
    )


@for_each("largest", [1e-200, 1e-5, 1e200, np.finfo(float).max / 8])
def test_labels_of_any_size_are_learned(largest):
    small = Y / np.abs(Y).max()
    found = gaussian_codelengths(largest * small, scale=largest)
    expected = gaussian_codelengths(small) + np.log(largest)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_no_labels_cost_nothing():
    assert gaussian_codelengths([]).shape == (0,)


@for_each(
    "y, options, match",
    [
        ([[1.0]], {}, "shape"),
        ([1.0, np.nan], {}, "NaN"),
        ([1.0], {"n_first": 0}, "n_first"),
        ([1.0], {"scale": 0.0}, "scale"),
        ([1.0], {"scale": np.inf}, "scale=inf; for example, pass 32, 0.0 and 1.0$"),
        ([1.0], {"location": np.nan}, "`location` finite .* location=nan"),
    ],
)
def test_what_is_no_stream_of_numbers_is_refused(y, options, match):
    with pytest.raises(ValueError, match=match):
        gaussian_codelengths(y, **options)
