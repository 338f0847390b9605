"""Reference codes against closed forms, enumeration and hand-worked numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

from sklearn_mdl.codelength import frequency_codelength, regret, uniform_codelength


def sequential_code(y, n_classes):
    """The code label by label, as its definition reads."""
    seen, codelength = [0] * n_classes, 0.0
    for t, label in enumerate(y):
        codelength -= math.log((seen[label] + 0.5) / (t + n_classes / 2))
        seen[label] += 1
    return codelength


class TestUniformCodelength:
    def test_hand_worked_values(self):
        assert uniform_codelength(10, 4) == pytest.approx(20 * math.log(2), abs=1e-13)
        assert uniform_codelength(7, 1) == 0
        assert uniform_codelength(0, 5) == 0

    def test_equals_minus_log_of_the_number_of_sequences(self):
        assert uniform_codelength(6, 3) == pytest.approx(math.log(3**6), abs=1e-13)

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [((-1, 2), "n_samples"), ((1.5, 2), "n_samples"), ((1, 0), "n_classes")],
    )
    def test_counts_out_of_range_are_refused(self, arguments, name):
        with pytest.raises(ValueError, match=f"`{name}` must be an integer"):
            uniform_codelength(*arguments)


class TestFrequencyCodelength:
    @pytest.mark.parametrize("n_classes", [3, 4, 50])
    def test_equals_the_code_label_by_label(self, n_classes):
        y = np.random.default_rng(0).integers(3, size=200)
        expected = sequential_code(y, n_classes)
        assert frequency_codelength(y, n_classes) == pytest.approx(expected, rel=1e-12)

    def test_equals_the_closed_form(self):
        # The Dirichlet integral with all parameters one half.
        y = np.random.default_rng(1).choice(5, size=1000, p=[0.5, 0.3, 0.1, 0.1, 0])
        counts = np.bincount(y, minlength=5)
        log_evidence = gammaln(2.5) - gammaln(1002.5)
        log_evidence += (gammaln(counts + 0.5) - gammaln(0.5)).sum()
        assert frequency_codelength(y, 5) == pytest.approx(-log_evidence, rel=1e-12)

    def test_hand_worked_value(self):
        # 1/2, then 3/4, then 1/6.
        expected = -math.log(1 / 2 * 3 / 4 * 1 / 6)
        assert frequency_codelength([0, 0, 1]) == pytest.approx(expected, abs=1e-14)

    @pytest.mark.parametrize(("n_samples", "n_classes"), [(8, 2), (5, 3)])
    def test_probabilities_of_all_label_sequences_sum_to_one(
        self, n_samples, n_classes
    ):
        sequences = itertools.product(range(n_classes), repeat=n_samples)
        total = sum(math.exp(-frequency_codelength(y, n_classes)) for y in sequences)
        assert total == pytest.approx(1, abs=1e-12)

    def test_order_and_names_of_labels_do_not_matter(self):
        y = np.random.default_rng(2).integers(3, size=50)
        names = np.array(["cat", "dog", "emu"])
        assert frequency_codelength(np.sort(y)) == frequency_codelength(y)
        assert frequency_codelength(names[y]) == frequency_codelength(y)

    def test_skewed_labels_cost_less_than_uniform_and_even_ones_hardly_more(self):
        skewed, even = [0] * 95 + [1] * 5, [0, 1] * 500
        assert frequency_codelength(skewed) < uniform_codelength(100, 2)
        excess = frequency_codelength(even) - uniform_codelength(1000, 2)
        assert 0 < excess < 0.5 * math.log(1000) + math.log(2)

    def test_few_labels_and_few_classes_cost_nothing(self):
        assert frequency_codelength([]) == 0
        assert frequency_codelength(["a", "a", "a"]) == 0

    @pytest.mark.parametrize(
        ("y", "n_classes", "message"),
        [
            ([[0, 1]], None, r"shape \(n_samples,\), got \(1, 2\)"),
            ([0.0, math.nan], None, "no missing labels"),
            ([0, 1, 2], 2, "at least 3, got n_classes=2"),
            ([0, 1], 2.5, "integer"),
            ([], 0, "at least 1"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, y, n_classes, message):
        with pytest.raises(ValueError, match=message):
            frequency_codelength(y, n_classes)


class TestRegret:
    def test_hand_worked_values(self):
        curve = regret([1.0, 0.5, 0.25], [0.5, 0.5, 0.5])
        np.testing.assert_allclose(curve, [0.5, 0.5, 0.25])

    def test_code_has_no_regret_against_itself(self):
        costs = np.random.default_rng(0).random(20)
        np.testing.assert_array_equal(regret(costs, costs), np.zeros(20))

    def test_last_value_is_the_difference_of_codelengths_and_swapping_negates(self):
        one, other = np.random.default_rng(1).random((2, 30))
        curve = regret(one, other)
        assert curve[-1] == pytest.approx(one.sum() - other.sum(), abs=1e-13)
        np.testing.assert_array_equal(regret(other, one), -curve)

    def test_impossible_label_leaves_infinite_regret(self):
        curve = regret([0.5, math.inf, 0.5], [0.5, 0.5, 0.5])
        assert curve.tolist() == [0, math.inf, math.inf]

    def test_no_labels_leave_an_empty_curve(self):
        assert regret([], []).shape == (0,)

    @pytest.mark.parametrize(
        ("costs", "reference", "message"),
        [
            ([1.0, 2.0], [1.0], r"got \(2,\) and \(1,\)"),
            ([[1.0]], [[1.0]], r"got \(1, 1\) and \(1, 1\)"),
            ([math.nan], [1.0], "finite or plus infinity"),
            ([-math.inf], [1.0], "finite or plus infinity"),
            ([1.0], [math.inf], "`reference` finite"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, costs, reference, message):
        with pytest.raises(ValueError, match=message):
            regret(costs, reference)
