"""Ranks and critical differences against hand-worked tables and published constants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from vtab_cases import OBJECTIVES, scores_of

from sklearn_mdl.ranking import (
    average_ranks,
    nemenyi_critical_difference,
    nemenyi_p_values,
    rank_groups,
)


def range_exceeds(width, n):
    """Probability that n standard normal variables span more than a width."""

    def all_within(lowest):
        inside = norm.cdf(lowest + width) - norm.cdf(lowest)
        return n * norm.pdf(lowest) * inside ** (n - 1)

    return 1 - quad(all_within, -9, 9, epsabs=1e-10, limit=200)[0]


class TestAverageRanks:
    def test_hand_worked_table_with_ties(self):
        scores = [
            [0.1, 0.2, 0.3, 0.4],  # 1    2    3    4
            [0.5, 0.5, 0.1, 0.9],  # 2.5  2.5  1    4
            [0.7, 0.7, 0.7, 0.2],  # 3    3    3    1
            [0.3, 0.3, 0.3, 0.3],  # 2.5  2.5  2.5  2.5
        ]
        expected = [9 / 4, 10 / 4, 9.5 / 4, 11.5 / 4]
        np.testing.assert_allclose(average_ranks(scores), expected)

    def test_equals_counting_the_encoders_below(self):
        scores = np.random.default_rng(0).integers(4, size=(30, 6))
        below = (scores[:, None, :] < scores[:, :, None]).sum(axis=2)
        tied = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
        expected = (below + (tied + 1) / 2).mean(axis=0)
        np.testing.assert_allclose(average_ranks(scores), expected, atol=1e-14)

    def test_monotone_transforms_of_a_dataset_change_nothing(self):
        scores = np.random.default_rng(1).random((5, 4))
        scores[0, 1] = scores[0, 2]
        moved = scores.copy()
        moved[0], moved[1], moved[3] = np.exp(scores[0]), scores[1] * 9, scores[3] ** 3
        np.testing.assert_array_equal(average_ranks(moved), average_ranks(scores))

    def test_permuting_encoders_permutes_their_ranks(self):
        scores = np.random.default_rng(2).integers(5, size=(7, 5))
        order = np.array([4, 2, 0, 1, 3])
        np.testing.assert_allclose(
            average_ranks(scores[:, order]), average_ranks(scores)[order]
        )

    def test_ranks_average_to_the_middle(self):
        scores = np.random.default_rng(3).integers(3, size=(11, 6))
        assert average_ranks(scores).mean() == pytest.approx(3.5, abs=1e-14)

    def test_one_encoder_ranks_first(self):
        assert average_ranks([[0.4], [0.2]]).tolist() == [1]

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            ([0.1, 0.2], r"^`scores` must have shape .* got \(2,\)"),
            (np.ones((3, 2, 4)), r"got \(3, 2, 4\); .* several orders"),
            (np.empty((0, 3)), r"not be empty, got \(0, 3\)"),
            ([[0.1, math.nan]], "got nan in row 0, column 1"),
            (np.ma.array([[0.1, 0.2]], mask=[[0, 1]]), "got nan in row 0, column 1"),
            ([[0.1, 0.2], [math.inf, 0.1]], "`scores` .* inf in row 1, .*; omit"),
            ([["a", "b"]], r"^`scores` must be numbers.* got \[\['a', 'b'\]\]; drop"),
            ([[1.0, 2.0], [3.0]], r"must be numbers, in rows of equal length, got"),
        ],
    )
    def test_tables_with_gaps_are_refused(self, scores, message):
        with pytest.raises(ValueError, match=message):
            average_ranks(scores)


class TestCriticalDifference:
    # Demsar, 2006, Table 5(a).
    @pytest.mark.parametrize(
        ("alpha", "constants"),
        [
            (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
            (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
        ],
    )
    def test_constants_are_those_published(self, alpha, constants):
        for r, q in enumerate(constants, start=2):
            factor = math.sqrt(r * (r + 1) / (6 * 19))
            difference = nemenyi_critical_difference(r, 19, alpha)
            # Some published digits are one unit off in the last place.
            assert difference / factor == pytest.approx(q, abs=1.1e-3)

    def test_two_encoders_are_a_normal_test(self):
        # The difference of two ranks has standard deviation 1 / sqrt(N) on average.
        assert nemenyi_critical_difference(2, 25, 0.05) == pytest.approx(
            1.959964 / 5, abs=1e-6
        )

    def test_it_is_the_quantile_of_the_range_of_normal_variables(self):
        for n_encoders in (3, 12, 40, 1000):
            difference = nemenyi_critical_difference(n_encoders, 50)
            scale = math.sqrt(n_encoders * (n_encoders + 1) / (12 * 50))
            p_value = range_exceeds(difference / scale, n_encoders)
            assert p_value == pytest.approx(0.1, abs=1e-6)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                (1, 19),
                "`n_encoders` must be an integer of at least 2, got n_encoders=1; pass "
                r"n_encoders=scores.shape\[1\], at least 2, and "
                r"n_datasets=scores.shape\[0\]$",
            ),
            ((6.0, 19), "`n_encoders`"),
            (
                (6, 0),
                "integer of at least 1, got n_datasets=0; pass "
                r"n_encoders=scores.shape\[1\], at least 2, and "
                r"n_datasets=scores.shape\[0\]$",
            ),
            ((6, 19, 0), "got alpha=0; for example, pass alpha=0.1"),
            ((6, 19, 1.0), "got alpha=1.0"),
            ((6, 19, math.nan), "got alpha=nan"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            nemenyi_critical_difference(*arguments)


class TestNemenyiPValues:
    def test_they_are_those_of_scikit_posthocs(self):
        posthocs = pytest.importorskip("scikit_posthocs")
        scores = scores_of(OBJECTIVES)
        ranks = average_ranks(scores)
        p_values = nemenyi_p_values(ranks[:, None] - ranks, *scores.shape[::-1])
        expected = posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
        np.testing.assert_allclose(p_values, expected, rtol=1e-9)

    def test_a_difference_at_the_threshold_has_the_p_value_alpha(self):
        for alpha in (0.3, 0.1, 0.05, 0.001):
            difference = nemenyi_critical_difference(6, 19, alpha)
            p_value = nemenyi_p_values(-difference, 6, 19)
            assert p_value == pytest.approx(alpha, rel=1e-6)

    def test_they_are_those_of_the_range_of_normal_variables(self):
        scale = math.sqrt(12 * 13 / (12 * 19))
        for difference in (0.7, 3.0, 5.0):
            assert nemenyi_p_values(difference, 12, 19) == pytest.approx(
                range_exceeds(difference / scale, 12), abs=1e-8
            )

    def test_two_encoders_are_a_normal_test(self):
        p_value = nemenyi_p_values(0.3, 2, 25)
        assert p_value == pytest.approx(2 * norm.sf(0.3 * 5), abs=1e-9)

    def test_equal_ranks_have_one_and_distant_ranks_nothing(self):
        assert nemenyi_p_values(0.0, 4, 10) == 1
        assert 0 <= nemenyi_p_values(99.0, 100, 50) < 1e-9

    def test_they_are_probabilities_and_fall_with_the_difference(self):
        differences = np.r_[0, np.geomspace(1e-9, 1e3, 100)]
        for n_encoders in (2, 3, 12, 100):
            p_values = nemenyi_p_values(differences, n_encoders, 19)
            assert ((p_values >= 0) & (p_values <= 1)).all()
            assert (np.diff(p_values) <= 1e-9).all()
            kinds = nemenyi_p_values(differences.astype(object), n_encoders, 19)
            np.testing.assert_array_equal(kinds, p_values)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([0.1, math.nan], 6, 19), "`differences` must be finite"),
            ((["a"], 6, 19), "`differences` must be numbers, .* got .*'a'"),
            ((1.0, 1, 19), "`n_encoders`"),
            ((1.0, 6, 0), "`n_datasets`"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            nemenyi_p_values(*arguments)


class TestRankGroups:
    def test_groups_are_the_largest_sets_without_a_difference(self):
        for seed in range(20):
            ranks = np.random.default_rng(seed).integers(4, 24, size=7) / 4
            sets = [
                set(members)
                for size in range(2, 8)
                for members in itertools.combinations(range(7), size)
                if np.ptp(ranks[list(members)]) < 1.5
            ]
            largest = [s for s in sets if not any(s < other for other in sets)]
            groups = rank_groups(ranks, 1.5)
            assert sorted(map(sorted, groups)) == sorted(map(sorted, largest))

    def test_groups_and_their_members_are_sorted_best_first(self):
        assert rank_groups([2.9, 5.0, 2.0, 3.6, 1.5], 1.3) == [(4, 2), (2, 0), (0, 3)]

    def test_tied_encoders_keep_the_order_of_their_columns(self):
        ranks = np.array([2, 1] * 100, dtype=object)
        first, last = range(1, 200, 2), range(0, 200, 2)
        assert rank_groups(ranks, 0.5) == [tuple(first), tuple(last)]

    def test_a_difference_that_is_critical_tells_apart(self):
        assert rank_groups([1.0, 2.5], 1.5) == []
        assert rank_groups([1.0, 2.5], 1.5001) == [(0, 1)]

    @pytest.mark.parametrize(
        ("ranks", "difference", "message"),
        [
            ([[1.0, 2.0]], 1.0, r"of shape \(n_encoders,\)"),
            ([], 1.0, "n_encoders > 0"),
            ([1.0, math.nan], 1.0, "must be finite"),
            (["a", "b"], 1.0, "`average_ranks` must be numbers"),
            ([1.0, 2.0], 0.0, "must be positive, got critical_difference=0.0"),
            ([1.0, 2.0], math.nan, "must be positive, got critical_difference=nan"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, ranks, difference, message):
        with pytest.raises(ValueError, match=message):
            rank_groups(ranks, difference)
