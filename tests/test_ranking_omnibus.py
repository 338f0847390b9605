"""Friedman's test and that of Iman and Davenport: are there differences at all?"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, f, friedmanchisquare, rankdata
from vtab_cases import OBJECTIVES, SIZES, scores_of

from sklearn_mdl.ranking import (
    average_ranks,
    friedman_test,
    nemenyi_critical_difference,
)

# Demsar, 2006, Table 6: ranks of four variants of C4.5 on 14 datasets.
DEMSAR = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)


RNG = np.random.default_rng(0)
TABLES = [
    pytest.param(RNG.random((8, 5)), id="without ties"),
    pytest.param(RNG.random((2, 3)), id="two datasets"),
    pytest.param(RNG.integers(4, size=(12, 6)), id="many ties"),
    pytest.param(scores_of(OBJECTIVES), id="objectives"),
    pytest.param(scores_of(SIZES), id="sizes"),
    pytest.param(DEMSAR, id="Demsar"),
]


def without_ties(ranks):
    """Friedman's chi-square and F as Demsar writes them, which do not see ties."""
    n, r = ranks.shape
    averages = ranks.mean(axis=0)
    chi_square = 12 * n / (r * (r + 1)) * (sum(averages**2) - r * (r + 1) ** 2 / 4)
    return chi_square, (n - 1) * chi_square / (n * (r - 1) - chi_square)


class TestStatistic:
    @pytest.mark.parametrize("scores", TABLES)
    def test_chi_square_is_that_of_scipy_and_f_a_function_of_it(self, scores):
        expected = friedmanchisquare(*np.asarray(scores).T)
        test = friedman_test(scores)
        assert test.statistic == pytest.approx(expected.statistic, rel=1e-12)
        assert test.p_value == pytest.approx(expected.pvalue, rel=1e-9)
        n, r = np.shape(scores)
        statistic = (n - 1) * test.statistic / (n * (r - 1) - test.statistic)
        assert test.f_statistic == pytest.approx(statistic, rel=1e-12)
        p_value = f.sf(statistic, r - 1, (r - 1) * (n - 1))
        assert test.f_p_value == pytest.approx(p_value, rel=1e-9)
        assert (test.n_datasets, test.n_encoders) == (n, r)

    def test_autorank_agrees_on_ranks_p_value_and_critical_difference(self):
        autorank, pandas = map(pytest.importorskip, ("autorank", "pandas"))
        scores = pandas.DataFrame(scores_of(OBJECTIVES), columns=list(OBJECTIVES))
        theirs = autorank.autorank(
            scores, alpha=0.05, order="ascending", force_mode="nonparametric"
        )
        ranks = theirs.rankdf["meanrank"][list(OBJECTIVES)]
        np.testing.assert_allclose(average_ranks(scores), ranks, rtol=1e-12)
        assert friedman_test(scores).p_value == pytest.approx(theirs.pvalue, rel=1e-9)
        assert nemenyi_critical_difference(6, 19, 0.05) == pytest.approx(
            theirs.cd, rel=1e-4
        )

    def test_published_example_and_its_correction_for_ties(self):
        np.testing.assert_allclose(
            DEMSAR.mean(axis=0), [3.143, 2.000, 2.893, 1.964], atol=5e-4
        )
        chi_square, f_statistic = without_ties(DEMSAR)
        assert chi_square == pytest.approx(9.28, abs=5e-3)
        assert f_statistic == pytest.approx(3.69, abs=5e-3)
        n, r = DEMSAR.shape
        ties = [4**3 - 4, *[2**3 - 2] * 3]  # one dataset all tied, three with a pair
        correction = 1 - sum(ties) / (n * r * (r**2 - 1))
        expected = chi_square / correction
        assert friedman_test(DEMSAR).statistic == pytest.approx(expected, rel=1e-12)

    def test_without_ties_it_is_the_usual_formula(self):
        scores = np.random.default_rng(1).random((9, 7))
        test, (chi_square, f_statistic) = (
            friedman_test(scores),
            without_ties(rankdata(scores, axis=1)),
        )
        assert test.statistic == pytest.approx(chi_square, rel=1e-12)
        assert test.f_statistic == pytest.approx(f_statistic, rel=1e-12)

    def test_two_encoders_are_a_sign_test(self):
        scores = [[1, 2]] * 9 + [[2, 1]] * 3 + [[1, 1]] * 2
        test = friedman_test(scores)
        assert test.statistic == pytest.approx((9 - 3) ** 2 / 12)
        assert test.p_value == pytest.approx(chi2.sf(3, 1))


class TestAgreement:
    @pytest.mark.parametrize(
        "row", [[1, 2], [1, 2, 3], [1, 1, 2], [5, 2, 2, 9], [1, 2, 2, 1]]
    )
    def test_p_value_is_the_share_of_tables_that_agree_as_much(self, row):
        orders = list(itertools.permutations(row))
        for n_datasets in (2, 3):
            agree = [
                all(order == other for other in others)
                for order, *others in itertools.product(orders, repeat=n_datasets)
            ]
            test = friedman_test([row] * n_datasets)
            assert test.f_statistic == math.inf
            assert test.f_p_value == pytest.approx(np.mean(agree), rel=1e-12)
            assert test.statistic == pytest.approx(n_datasets * (len(row) - 1))

    def test_scores_of_different_units_agree_if_their_ranks_do(self):
        assert friedman_test([[1, 2, 3], [10, 40, 50]]).f_statistic == math.inf

    def test_ranks_that_agree_but_for_a_tie_are_no_full_agreement(self):
        test = friedman_test([[1, 2, 3], [1, 2, 3], [1, 1, 3]])
        assert math.isfinite(test.f_statistic)
        assert 0 < test.f_p_value < 0.1

    def test_a_dataset_that_ties_all_encoders_says_nothing_for_any(self):
        test = friedman_test([[1, 2, 3], [1, 2, 3], [7, 7, 7]])
        assert test.statistic == pytest.approx(4)
        assert test.f_statistic == pytest.approx(4)

    def test_encoders_that_tie_everywhere_do_not_differ(self):
        test = friedman_test(np.ones((4, 3)))
        assert (test.statistic, test.f_statistic) == (0, 0)
        assert (test.p_value, test.f_p_value) == (1, 1)

    def test_much_agreement_of_many_encoders_does_not_overflow(self):
        test = friedman_test(np.tile(np.arange(1000), (50, 1)))
        assert test.f_p_value == 0  # 1 / 1000! to the power of 49
        assert test.statistic == pytest.approx(50 * 999)


class TestInvariants:
    def test_order_of_encoders_and_of_datasets_changes_nothing(self):
        scores, rng = scores_of(SIZES), np.random.default_rng(0)
        moved = scores[rng.permutation(19)][:, rng.permutation(12)]
        assert friedman_test(moved).statistic == pytest.approx(
            friedman_test(scores).statistic, rel=1e-12
        )

    def test_units_of_the_datasets_change_nothing(self):
        scores = scores_of(SIZES)
        units = np.random.default_rng(0).uniform(0.1, 1e5, size=(19, 1))
        assert friedman_test(scores * units) == friedman_test(scores)

    def test_random_scores_are_significant_as_often_as_alpha_says(self):
        tables = np.random.default_rng(0).random((2000, 5, 5))
        tests = [friedman_test(table) for table in tables]
        by_f = np.mean([test.f_p_value < 0.1 for test in tests])
        by_chi_square = np.mean([test.p_value < 0.1 for test in tests])
        # Three standard errors, and the error of the approximation.
        assert by_f == pytest.approx(0.1, abs=0.03)
        assert by_chi_square < by_f

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            (
                [[0.1, 0.2]],
                "^Friedman's test .* 2 datasets and 2 encoders, got 1 and 2",
            ),
            ([[0.1], [0.2]], "at least 2 datasets and 2 encoders, got 2 and 1"),
            ([[0.1, math.nan], [1, 2]], "got nan in row 0, column 1"),
            ([0.1, 0.2], r"got \(2,\)"),
        ],
    )
    def test_tables_without_repeats_or_with_gaps_are_refused(self, scores, message):
        with pytest.raises(ValueError, match=message):
            friedman_test(scores)
