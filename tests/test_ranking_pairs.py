"""Pairs of encoders: which are compared, wins, and Wilcoxon's signed-rank test."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon
from vtab_cases import OBJECTIVES, SIZES, scores_of

from sklearn_mdl.ranking import (
    bayesian_signed_rank,
    holm_adjusted,
    pairwise_wilcoxon,
    rank_intervals,
    win_table,
)
from sklearn_mdl.ranking._results import _pad

PAIRWISE = {
    "wilcoxon": pairwise_wilcoxon,
    "bayesian": lambda table, **options: bayesian_signed_rank(
        table, n_draws=50, **options
    ),
}
# Demsar, 2006, Table 2: accuracies of C4.5 with another setting, less those without.
DEMSAR = np.array(
    [5, -8, 17, 33, 6, -5, 7, 0, 63, 0, 22, 47, 9, 21],
)


def table_of(log_ratios):
    """Codelengths of two encoders with the given log ratios, in various units."""
    ratios = np.asarray(log_ratios, dtype=float)
    units = np.random.default_rng(0).uniform(0.1, 100, size=len(ratios))
    return np.stack([units * np.exp(ratios), units], axis=1)


def by_enumeration(log_ratios):
    """Two-sided p-value of the signed ranks, over all signs of what is not zero."""
    sizes = np.abs(log_ratios)
    ranks = rankdata(sizes)[sizes > 0]
    sums = np.array(
        [signs @ ranks for signs in itertools.product([-1, 1], repeat=len(ranks))]
    )
    observed = np.sign(log_ratios)[sizes > 0] @ ranks
    return (np.abs(sums) >= abs(observed) - 1e-9).mean()


@pytest.mark.parametrize("compare", PAIRWISE.values(), ids=PAIRWISE)
class TestChoiceOfPairs:
    def test_all_pairs_are_compared(self, compare):
        pairs = compare(scores_of(OBJECTIVES)).pairs
        assert pairs.tolist() == [list(p) for p in itertools.combinations(range(6), 2)]

    def test_named_pairs_are_compared_as_they_are_named(self, compare):
        pairs = [[3, 0], [1, 2]]
        assert compare(scores_of(OBJECTIVES), pairs=pairs).pairs.tolist() == pairs

    def test_top_k_are_those_of_the_best_average_ranks(self, compare):
        scores = scores_of(OBJECTIVES)[:, [5, 1, 3, 0, 2, 4]]
        pairs = compare(scores, top_k=3).pairs
        assert pairs.tolist() == [[1, 3], [1, 4], [3, 4]]
        # As many as there are: all pairs.
        assert compare(scores, top_k=6).pairs.tolist() == compare(scores).pairs.tolist()

    def test_of_tied_encoders_top_k_takes_the_first_columns(self, compare):
        scores = np.tile(np.r_[np.full(50, 3.0), np.full(150, 2.0)], (2, 1))
        assert compare(scores, top_k=2).pairs.tolist() == [[50, 51]]

    def test_large_pools_need_a_choice(self, compare):
        scores = np.random.default_rng(0).uniform(1, 2, size=(5, 41))
        with pytest.raises(
            ValueError, match="at most 40 encoders, got 41; pass top_k=40, or only the"
        ):
            compare(scores)
        assert len(compare(scores, top_k=4).pairs) == 6
        assert len(compare(scores, pairs=[(0, 40)]).pairs) == 1
        assert len(compare(scores[:, :40]).pairs) == 780

    def test_one_encoder_makes_no_pair(self, compare):
        message = "^Pairs need at least 2 encoders to compare, got 1; add another"
        with pytest.raises(ValueError, match=message):
            compare([[1.0], [2.0]])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"pairs": [0, 1]}, r"in shape \(2,\)"),
        ({"pairs": np.empty((0, 2), int)}, r"in shape \(0, 2\)"),
        ({"pairs": [[0.0, 1.0]]}, "got float64 in shape"),
        ({"pairs": [[0, 6]]}, "columns from 0 to 5, got 0 to 6"),
        ({"pairs": [[-1, 2]]}, "columns from 0 to 5, got -1 to 2"),
        ({"pairs": [[2, 2]]}, r"different pairs of two columns, got \[\[2, 2\]\];"),
        ({"pairs": [[0, 1], [1, 0]]}, "list each pair once, and no column with itself"),
        ({"top_k": 1}, "integer of at least 2, got top_k=1; pass top_k=2"),
        ({"top_k": 7}, "at most the number of encoders, 6, got top_k=7"),
        ({"top_k": 2, "pairs": [[0, 1]]}, "got both; omit top_k=2"),
    ],
)
def test_choices_that_are_none_are_refused(choice, message):
    for compare in PAIRWISE.values():
        with pytest.raises(ValueError, match=message):
            compare(scores_of(OBJECTIVES), **choice)


@pytest.mark.parametrize(
    ("codelengths", "message"),
    [
        ([[1, 2], [1, math.nan]], "must be finite, got nan in row 1, column 1"),
        ([[1, 2], [1, 0]], "`codelengths` must be positive, got 0.0 in row 1, col"),
        ([[1, -2]], "got -2.0 in row 0, column 1; do not round"),
        ([1, 2], r"`codelengths` must have shape .* got \(2,\)"),
        (np.ones((2, 2, 2)), "with several orders"),
    ],
)
def test_tables_without_logarithms_are_refused(codelengths, message):
    for compare in (*PAIRWISE.values(), win_table):
        with pytest.raises(ValueError, match=message):
            compare(codelengths)


class TestWinTable:
    def test_hand_worked_table(self):
        table = win_table([[1, 2, 3], [1, 1, 3], [5, 4, 4]])
        assert table.wins.tolist() == [[0, 1, 2], [1, 0, 2], [1, 0, 0]]
        assert table.ties.tolist() == [[3, 1, 0], [1, 3, 1], [0, 1, 3]]
        assert table.losses.tolist() == [[0, 1, 1], [1, 0, 0], [2, 2, 0]]

    def test_wins_ties_and_losses_are_all_datasets(self):
        for rope in (0, 0.01, 0.1):
            table = win_table(scores_of(SIZES), rope=rope)
            assert (table.wins + table.ties + table.losses == 19).all()

    def test_average_ranks_follow_from_it(self):
        # A rank counts the encoders that win, and half of those that tie.
        table = win_table(scores_of(SIZES))
        ranks = 0.5 + (table.losses + 0.5 * table.ties).sum(axis=1) / 19
        np.testing.assert_allclose(ranks, rankdata(scores_of(SIZES), axis=1).mean(0))

    def test_codelengths_within_the_rope_tie(self):
        table = [[1.000, 1.009], [1.000, 1.011], [3.3, 3.2]]
        assert win_table(table, rope=0.01).wins.tolist() == [[0, 1], [1, 0]]
        assert win_table(table, rope=0.01).ties[0, 1] == 1
        assert win_table(table).wins.tolist() == [[0, 2], [1, 0]]

    def test_units_of_the_datasets_change_nothing(self):
        scores = scores_of(OBJECTIVES)
        units = 2.0 ** np.arange(-9, 10)[:, None]
        for rope in (0, 0.05, 5.0):
            found, expected = (
                win_table(s, rope=rope).wins for s in (scores * units, scores)
            )
            assert found.dtype.kind == "i"
            np.testing.assert_array_equal(found, expected)

    def test_without_a_rope_the_last_bit_decides(self):
        assert win_table([[1e5, np.nextafter(1e5, 2e5)]]).wins[0, 1] == 1

    def test_a_rope_is_a_share(self):
        for rope in (-0.01, math.nan, math.inf, "1 %"):
            with pytest.raises(ValueError, match="`rope` must be a finite number"):
                win_table([[1, 2]], rope=rope)


class TestHolm:
    def test_hand_worked_list(self):
        # 0.01 x 4; 0.02 x 3; 0.03 x 2, not below the one before; 0.9 x 1.
        adjusted = holm_adjusted([0.9, 0.01, 0.03, 0.02])
        np.testing.assert_allclose(adjusted, [0.9, 0.04, 0.06, 0.06])

    @pytest.mark.slow
    def test_it_is_that_of_statsmodels(self):
        multitest = pytest.importorskip("statsmodels.stats.multitest")
        for seed in range(5):
            p_values = np.random.default_rng(seed).beta(0.3, 2, size=40).round(3)
            expected = multitest.multipletests(p_values, method="holm")[1]
            np.testing.assert_allclose(holm_adjusted(p_values), expected, rtol=1e-12)

    def test_adjusted_keep_their_order_and_stay_probabilities(self):
        p_values = np.random.default_rng(0).random(30)
        adjusted = holm_adjusted(p_values)
        order = np.argsort(p_values)
        assert (np.diff(adjusted[order]) >= 0).all()
        assert (adjusted >= p_values).all()
        assert (adjusted <= 1).all()

    def test_probabilities_of_any_kind_of_number_are_adjusted(self):
        assert holm_adjusted([0, 1]).tolist() == [0, 1]
        assert holm_adjusted(np.array([0, 1], dtype=object)).dtype == np.float64

    def test_equal_ones_stay_equal(self):
        for p_value in (0.0, 0.01, 0.5, 1.0):
            adjusted = holm_adjusted([p_value] * 40 + [1.0])
            np.testing.assert_array_equal(adjusted[:40], min(1.0, 41 * p_value))

    def test_one_test_needs_no_correction(self):
        assert holm_adjusted([0.03]).tolist() == [0.03]

    def test_only_probabilities_are_adjusted(self):
        for p_values in (0.1, [[0.1]], [0.1, math.nan], [1.1], [-0.1]):
            with pytest.raises(ValueError, match="`p_values` must be probabilities"):
                holm_adjusted(p_values)
        with pytest.raises(ValueError, match="`p_values` must be numbers"):
            holm_adjusted(["a"])


class TestWilcoxonPValues:
    def test_they_count_the_signs_ties_and_zeros_among_them(self):
        for seed in range(10):
            log_ratios = np.random.default_rng(seed).integers(-4, 7, size=11) / 50
            result = pairwise_wilcoxon(table_of(log_ratios))
            expected = by_enumeration(log_ratios)
            assert result.p_values[0] == pytest.approx(expected, rel=1e-12)

    def test_they_are_the_exact_ones_of_scipy_without_ties(self):
        for n in (1, 2, 5, 12, 50, 100):
            log_ratios = np.random.default_rng(n).normal(0.3, 1, size=n)
            result = pairwise_wilcoxon(table_of(log_ratios))
            expected = wilcoxon(log_ratios, method="exact")
            assert result.p_values[0] == pytest.approx(expected.pvalue, rel=1e-9)
            assert result.rank_sums[0].min() == expected.statistic

    @pytest.mark.parametrize("ties", [False, True])
    def test_many_datasets_use_the_normal_approximation(self, ties):
        log_ratios = np.random.default_rng(0).normal(0.1, 1, size=150)
        if ties:
            log_ratios = log_ratios.round(1)
        result = pairwise_wilcoxon(table_of(log_ratios))
        expected = wilcoxon(log_ratios, zero_method="pratt", method="approx")
        assert result.p_values[0] == pytest.approx(expected.pvalue, rel=1e-9)
        assert result.rank_sums[0].min() == expected.statistic

    def test_pairs_on_many_datasets_are_each_tested_alone(self):
        logs = np.random.default_rng(0).normal(size=(150, 3)) * [1.0, 2.0, 1.0]
        logs[:, 2] = logs[:, 0]
        result = pairwise_wilcoxon(np.exp(logs))
        expected = wilcoxon(logs[:, 0] - logs[:, 1], method="approx").pvalue
        np.testing.assert_allclose(result.p_values, [expected, 1, expected], rtol=1e-9)

    def test_the_two_ways_meet(self):
        log_ratios = np.random.default_rng(2).normal(0.15, 1, size=101).round(2)
        exact = pairwise_wilcoxon(table_of(log_ratios[:100])).p_values[0]
        approximate = wilcoxon(
            log_ratios[:100], zero_method="pratt", method="approx"
        ).pvalue
        assert exact == pytest.approx(approximate, rel=0.02)

    def test_few_datasets_prove_nothing(self):
        for n_datasets in range(1, 7):
            p_values = pairwise_wilcoxon(table_of([-1.0] * n_datasets)).p_values
            assert p_values[0] == 2.0 ** (1 - n_datasets)

    def test_all_equal_is_no_difference(self):
        for n_datasets in (1, 5, 150):
            result = pairwise_wilcoxon(np.ones((n_datasets, 2)))
            assert result.p_values.tolist() == [1]
            assert result.rank_sums.tolist() == [[0, 0]]

    def test_published_example(self):
        # Positive differences of accuracies are shorter codes of the first. Demsar
        # splits the ranks 1.5 of the two zeros evenly: R+ = 93 and R- = 12.
        result = pairwise_wilcoxon(table_of(-DEMSAR / 1000))
        np.testing.assert_allclose(result.rank_sums, [[93 - 1.5, 12 - 1.5]])
        assert result.p_values[0] == pytest.approx(by_enumeration(DEMSAR), rel=1e-12)
        assert result.p_values[0] < 0.05  # as by his table of critical values

    @pytest.mark.parametrize("sizes", [[1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 2, 2, 2, 3]])
    def test_each_is_reached_by_just_its_share_of_all_signs(self, sizes):
        signs = np.array(list(itertools.product([-1, 1], repeat=7)))
        table = np.exp(np.column_stack([np.zeros(7), (signs * sizes).T / 10]))
        pairs = [(0, j) for j in range(1, 129)]
        p_values = pairwise_wilcoxon(table, pairs=pairs).p_values
        shares = (p_values <= p_values[:, None]).mean(axis=1)
        np.testing.assert_allclose(p_values, shares, rtol=1e-12)

    def test_scikit_posthocs_agrees_without_ties(self):
        posthocs = pytest.importorskip("scikit_posthocs")
        table = np.random.default_rng(0).uniform(1, 2, size=(15, 5))
        result = pairwise_wilcoxon(table)
        theirs = posthocs.posthoc_wilcoxon(np.log(table).T, p_adjust="holm").to_numpy()
        np.testing.assert_allclose(
            result.adjusted_p_values, theirs[tuple(result.pairs.T)], rtol=1e-9
        )


class TestWilcoxonInvariants:
    def test_the_shorter_code_has_the_larger_sum(self):
        result = pairwise_wilcoxon([[1, 2], [1, 3], [4, 3.9]])
        assert result.rank_sums.tolist() == [[5, 1]]
        assert result.median_log_ratios[0] == pytest.approx(-math.log(2))

    def test_naming_a_pair_the_other_way_round_mirrors_it(self):
        scores = scores_of(OBJECTIVES)
        one = pairwise_wilcoxon(scores, pairs=[(0, 1), (2, 4)])
        other = pairwise_wilcoxon(scores, pairs=[(1, 0), (4, 2)])
        np.testing.assert_array_equal(one.rank_sums, other.rank_sums[:, ::-1])
        np.testing.assert_array_equal(one.p_values, other.p_values)
        np.testing.assert_array_equal(one.median_log_ratios, -other.median_log_ratios)

    def test_units_of_the_datasets_change_nothing(self):
        # Equal ratios, such as 0.14 / 0.07 and 0.22 / 0.11, stay tied.
        scores = scores_of(OBJECTIVES)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            scaled = scores * rng.uniform(1e-3, 1e6, size=(19, 1))
            np.testing.assert_array_equal(
                pairwise_wilcoxon(scaled).rank_sums, pairwise_wilcoxon(scores).rank_sums
            )

    def test_permuting_encoders_permutes_the_pairs(self):
        scores, order = scores_of(OBJECTIVES), [3, 0, 5, 1, 4, 2]
        pairs = np.array(list(itertools.combinations(range(6), 2)))
        moved = pairwise_wilcoxon(scores[:, order], pairs=pairs)
        there = pairwise_wilcoxon(scores, pairs=np.array(order)[pairs])
        np.testing.assert_array_equal(moved.rank_sums, there.rank_sums)
        np.testing.assert_array_equal(moved.adjusted_p_values, there.adjusted_p_values)

    def test_other_encoders_change_nothing_but_the_correction(self):
        scores = scores_of(SIZES)
        alone = pairwise_wilcoxon(scores[:, :2])
        among = pairwise_wilcoxon(scores)
        assert among.pairs[0].tolist() == [0, 1]
        assert alone.p_values[0] == among.p_values[0]
        assert alone.adjusted_p_values[0] < among.adjusted_p_values[0]

    def test_an_encoder_and_its_copy_do_not_differ(self):
        scores = scores_of(OBJECTIVES)[:, [0, 0, 3]]
        result = pairwise_wilcoxon(scores)
        assert result.p_values[0] == 1
        assert result.p_values[1] == result.p_values[2] < 0.01
        assert result.rank_sums[0].tolist() == [0, 0]

    def test_order_of_datasets_changes_nothing(self):
        scores = scores_of(OBJECTIVES)
        shuffled = np.random.default_rng(0).permutation(scores)
        np.testing.assert_array_equal(
            pairwise_wilcoxon(scores).p_values, pairwise_wilcoxon(shuffled).p_values
        )


def test_a_long_table_prints_its_first_rows_and_the_number_of_all():
    table = np.random.default_rng(0).uniform(1, 2, size=(5, 8))
    heading, columns, *rows, last = repr(pairwise_wilcoxon(table)).splitlines()
    assert heading.startswith("PairwiseWilcoxon(")
    assert columns.split()[:2] == ["first", "second"]
    assert [row.split()[:2] for row in (rows[0], rows[-1])] == [["0", "1"], ["3", "5"]]
    assert len(rows) == 20
    assert last == "  20 of 28 rows: call to_frame() for all"
    twenty_one = repr(pairwise_wilcoxon(table[:, :7])).splitlines()
    assert twenty_one[-1] == "  20 of 21 rows: call to_frame() for all"
    assert len(repr(pairwise_wilcoxon(table[:, :6])).splitlines()) == 2 + 15
    twenty = rank_intervals(np.tile(np.arange(20), (2, 1)), n_resamples=2)
    assert len(repr(twenty).splitlines()) == 2 + 20
    assert repr(twenty).startswith("RankIntervals(level=0.9, n_resamples=2)\n")


def test_numbers_are_printed_to_the_right_and_words_to_the_left():
    for number in ("-1.5", "nan", "inf", "-inf", "12.25"):
        assert _pad(number, 7) == number.rjust(7)
    for word in ("a", "-", "none", "-a"):
        assert _pad(word, 7) == word.ljust(7)


def test_tables_of_pairs_have_a_row_for_each_and_all_columns():
    table = np.random.default_rng(0).uniform(1, 2, size=(9, 3))
    columns = {
        pairwise_wilcoxon: ["median_log_ratio", "p_value", "adjusted_p_value"],
        bayesian_signed_rank: ["p_first", "p_equivalent", "p_second"],
        win_table: ["wins", "ties", "losses"],
    }
    for compare, names in columns.items():
        found = compare(table).named(["a", "b", "longer"], [])
        _, heading, *rows = repr(found).splitlines()
        assert heading.split() == ["first", "second", *names]
        pairs = [["a", "b"], ["a", "longer"], ["b", "longer"]]
        assert [row.split()[:2] for row in rows] == pairs
        assert [row.index(row.split()[0]) for row in rows] == [2] * 3  # to the left
