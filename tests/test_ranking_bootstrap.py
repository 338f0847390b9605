"""Intervals of average ranks: resampled datasets against all resamples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from vtab_cases import OBJECTIVES, scores_of

from sklearn_mdl.ranking import average_ranks, rank_intervals

SCORES = np.array([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 1, 9], [4, 3, 2, 1]])


def all_resamples(scores):
    """Average ranks in each of the N^N resamples, which are equally likely."""
    ranks = rankdata(scores, axis=1)
    n = len(scores)
    return np.array(
        [
            ranks[list(rows)].mean(axis=0)
            for rows in itertools.product(range(n), repeat=n)
        ]
    )


class TestAgainstAllResamples:
    def test_share_of_resamples_won_is_the_probability(self):
        resampled = all_resamples(SCORES)
        best = resampled <= resampled.min(axis=1, keepdims=True) + 1e-9
        expected = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        p_best = rank_intervals(SCORES, n_resamples=20_000).p_best
        # The standard error is at most 0.0036.
        np.testing.assert_allclose(p_best, expected, atol=0.015)

    @pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
    def test_bounds_leave_out_the_tails(self, level):
        resampled = all_resamples(SCORES)
        intervals = rank_intervals(SCORES, level=level, n_resamples=20_000)
        below = (resampled < intervals.lower - 1e-9).mean(axis=0)
        above = (resampled > intervals.upper + 1e-9).mean(axis=0)
        inside = 1 - below - above
        assert (below <= (1 - level) / 2 + 0.015).all()
        assert (above <= (1 - level) / 2 + 0.015).all()
        assert (inside >= level - 0.03).all()

    def test_many_datasets_give_the_interval_of_a_normal_mean(self):
        scores = np.random.default_rng(0).normal([0.0, 0.3, 0.5], size=(2000, 3))
        intervals = rank_intervals(scores, level=0.9, n_resamples=4000)
        ranks = rankdata(scores, axis=1)
        half = norm.ppf(0.95) * ranks.std(axis=0) / math.sqrt(2000)
        # The standard error of a bound is 0.02 of this.
        np.testing.assert_allclose(
            intervals.upper - intervals.average_ranks, half, rtol=0.08
        )
        np.testing.assert_allclose(
            intervals.average_ranks - intervals.lower, half, rtol=0.08
        )


class TestInvariants:
    def test_average_ranks_are_those_of_the_table(self):
        scores = scores_of(OBJECTIVES)
        intervals = rank_intervals(scores)
        np.testing.assert_array_equal(intervals.average_ranks, average_ranks(scores))
        assert (intervals.level, intervals.n_resamples) == (0.9, 1000)

    def test_bounds_enclose_and_stay_between_first_and_last(self):
        intervals = rank_intervals(scores_of(OBJECTIVES), level=0.99)
        assert (intervals.lower >= 1).all()
        assert (intervals.lower <= intervals.average_ranks).all()
        assert (intervals.average_ranks <= intervals.upper).all()
        assert (intervals.upper <= 6).all()
        assert intervals.p_best.sum() == pytest.approx(1)

    def test_a_higher_level_gives_wider_intervals(self):
        narrow, wide = (
            rank_intervals(scores_of(OBJECTIVES), level=p) for p in (0.5, 0.95)
        )
        assert (wide.lower <= narrow.lower).all()
        assert (narrow.upper <= wide.upper).all()
        assert (wide.upper - wide.lower > narrow.upper - narrow.lower).all()

    def test_permuting_encoders_permutes_the_intervals(self):
        scores, order = scores_of(OBJECTIVES), [3, 0, 5, 1, 4, 2]
        intervals, moved = rank_intervals(scores), rank_intervals(scores[:, order])
        for field in ("average_ranks", "lower", "upper", "p_best"):
            np.testing.assert_allclose(
                getattr(moved, field), getattr(intervals, field)[order], atol=1e-12
            )

    def test_units_of_the_datasets_change_nothing(self):
        scores = scores_of(OBJECTIVES)
        units = np.random.default_rng(0).uniform(0.1, 1e5, size=(19, 1))
        scaled = rank_intervals(scores * units)
        np.testing.assert_array_equal(scaled.upper, rank_intervals(scores).upper)

    def test_datasets_that_agree_leave_no_width(self):
        intervals = rank_intervals([[1, 2, 3], [4, 5, 6], [0.1, 0.2, 0.3]])
        for bound in (intervals.lower, intervals.upper, intervals.average_ranks):
            np.testing.assert_allclose(bound, [1, 2, 3], atol=1e-12)
        assert intervals.p_best.tolist() == [1, 0, 0]

    def test_encoders_that_are_the_same_share_the_first_place(self):
        scores = scores_of(OBJECTIVES)[:, [0, 0, 5]]
        intervals = rank_intervals(scores)
        assert intervals.p_best[0] == intervals.p_best[1] > 0.4
        assert intervals.upper[0] == intervals.upper[1]

    def test_a_single_resample_has_no_width(self):
        intervals = rank_intervals(SCORES, n_resamples=1)
        np.testing.assert_array_equal(intervals.lower, intervals.upper)
        resampled = all_resamples(SCORES)
        assert np.abs(resampled - intervals.lower).max(axis=1).min() < 1e-12

    def test_seed_decides_the_resamples(self):
        scores = scores_of(OBJECTIVES)
        first, again = rank_intervals(scores), rank_intervals(scores, random_state=0)
        other = rank_intervals(scores, random_state=np.random.default_rng(1))
        np.testing.assert_array_equal(first.p_best, again.p_best)
        assert not np.array_equal(first.p_best, other.p_best)

    @pytest.mark.parametrize(
        ("scores", "settings", "message"),
        [
            ([[0.1, 0.2]], {}, "^Resampling of datasets .* encoders, got 1 and 2"),
            ([[0.1], [0.2]], {}, "at least 2 datasets and 2 encoders, got 2 and 1"),
            ([[0.1, math.nan], [1, 2]], {}, "got nan in row 0, column 1"),
            (np.ones((3, 2, 4)), {}, r"got \(3, 2, 4\); .* several orders"),
            (SCORES, {"level": 90}, "`level` must be .* got level=90"),
            (SCORES, {"level": 1.0}, "got level=1.0; for example, pass"),
            (SCORES, {"n_resamples": 0}, "n_resamples=0; pass n_resamples=1000"),
            (SCORES, {"n_resamples": 1e3}, "got n_resamples=1000.0"),
        ],
    )
    def test_what_cannot_be_resampled_is_refused(self, scores, settings, message):
        with pytest.raises(ValueError, match=message):
            rank_intervals(scores, **settings)


TABLE = """
RankIntervals(level=0.9, n_resamples=1000)
  encoder      average_rank  lower  upper  p_best
  a                       1      1      1       1
  -b c                2.667  2.333      3       0
  longer name         2.333      2  2.667       0
"""


def test_a_result_prints_as_a_table_with_numbers_on_the_right():
    scores = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [1.0, 2.5, 2.0]]
    found = rank_intervals(scores).named(["a", "-b c", "longer name"], [])
    assert repr(found) == TABLE.strip()
