"""The Bayesian signed-rank test: closed forms, plain loops, limits and invariants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from vtab_cases import OBJECTIVES, SIZES, scores_of

from sklearn_mdl.ranking import bayesian_signed_rank

# Four standard errors of a probability at the default number of draws, at most.
CLOSE = 4 * math.sqrt(0.25 / 50_000)


def probabilities(result):
    return np.stack([result.p_first, result.p_equivalent, result.p_second], axis=1)


def by_loops(log_ratios, margin, prior_strength, n_draws, seed):
    """The test as it is defined, one product of weights at a time."""
    z = [0.0, *log_ratios]
    concentration = [prior_strength, *np.ones(len(log_ratios))]
    draws = np.random.default_rng(seed).dirichlet(concentration, size=n_draws)
    wins = np.zeros(3)
    for w in draws:
        first = second = 0.0
        for i, j in itertools.product(range(len(z)), repeat=2):
            first += w[i] * w[j] * np.heaviside(-2 * margin - (z[i] + z[j]), 0.5)
            second += w[i] * w[j] * np.heaviside(z[i] + z[j] - 2 * margin, 0.5)
        regions = np.array([first, 1 - first - second, second])
        largest = regions >= regions.max() - 1e-9
        wins += largest / largest.sum()
    return wins / n_draws


class TestAgainstOtherWays:
    @pytest.mark.parametrize("rope", [0.0, 0.01, 0.1, 1.0])
    @pytest.mark.parametrize("prior_strength", [0.5, 2.0])
    def test_it_is_the_definition_draw_by_draw(self, rope, prior_strength):
        table = scores_of(OBJECTIVES)[:7, :2]
        settings = {"prior_strength": prior_strength, "n_draws": 100}
        result = bayesian_signed_rank(table, rope=rope, random_state=3, **settings)
        log_ratios = np.log(table[:, 0]) - np.log(table[:, 1])
        expected = by_loops(
            log_ratios, math.log1p(rope), prior_strength, n_draws=100, seed=3
        )
        np.testing.assert_allclose(probabilities(result)[0], expected, atol=1e-12)

    def test_it_is_that_of_baycomp(self):
        rope = 0.1
        baycomp = pytest.importorskip("baycomp")
        scores = scores_of(OBJECTIVES)
        result = bayesian_signed_rank(scores, rope=rope)
        logs = np.log(scores)
        for pair, ours in list(zip(result.pairs, probabilities(result), strict=True))[
            ::4
        ]:
            # Theirs names first the one of the higher scores.
            theirs = baycomp.SignedRankTest.probs(
                *logs[:, pair].T, rope=math.log1p(rope), nsamples=4000, random_state=0
            )
            atol = CLOSE + 4 * math.sqrt(0.25 / 4000)
            np.testing.assert_allclose(ours[::-1], theirs, atol=atol)

    @pytest.mark.parametrize("prior_strength", [0.5, 1.0, 3.0])
    def test_one_dataset_is_a_closed_form(self, prior_strength):
        # The prior has weight w ~ Beta(s, 1), and the dataset wins if w^2 < 1/2.
        result = bayesian_signed_rank([[1.0, 2.0]], prior_strength=prior_strength)
        expected = 2 ** (-prior_strength / 2)
        assert result.p_first[0] == pytest.approx(expected, abs=CLOSE)
        assert result.p_equivalent[0] == pytest.approx(1 - expected, abs=CLOSE)
        assert result.p_second[0] == 0

    def test_one_dataset_within_twice_the_rope_is_a_closed_form(self):
        # Only the dataset with itself lies beyond: it wins if its weight v ~ Beta(1, s)
        # has v^2 > 1/2.
        result = bayesian_signed_rank([[1.0, math.exp(0.15)]], rope=0.1)
        expected = (1 - 0.5**0.5) ** 0.5
        assert result.p_first[0] == pytest.approx(expected, abs=CLOSE)

    def test_a_bound_itself_counts_half_to_either_side(self):
        # log 4 is just twice log(1 + rope). With weight v ~ Beta(1, 1/2) the second has
        # v^2 + v (1 - v), equivalence (1 - v)^2 + v (1 - v): it wins if v > 1/2.
        result = bayesian_signed_rank([[4.0, 1.0]], rope=1.0)
        assert result.p_second[0] == pytest.approx(0.5**0.5, abs=CLOSE)
        assert result.p_equivalent[0] == pytest.approx(1 - 0.5**0.5, abs=CLOSE)


class TestLimits:
    def test_codes_within_the_rope_are_equivalent(self):
        scores = np.random.default_rng(0).uniform(1, 1.009, size=(12, 2))
        assert probabilities(bayesian_signed_rank(scores)).tolist() == [[0, 1, 0]]

    def test_many_shorter_codes_leave_no_doubt(self):
        rng = np.random.default_rng(0)
        table = rng.uniform(1, 2, size=(40, 1)) * np.array([[1.0, 1.2]])
        assert bayesian_signed_rank(table).p_first[0] > 0.9999

    def test_a_strong_prior_sees_no_difference(self):
        result = bayesian_signed_rank(scores_of(OBJECTIVES), prior_strength=1e4)
        np.testing.assert_allclose(result.p_equivalent, 1)

    def test_without_a_rope_nothing_is_equivalent(self):
        result = bayesian_signed_rank(scores_of(OBJECTIVES), rope=0)
        assert (result.p_equivalent == 0).all()

    def test_a_wider_rope_finds_more_equivalent(self):
        ropes = [0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 9.0]
        results = [
            bayesian_signed_rank(scores_of(OBJECTIVES), rope=rope) for rope in ropes
        ]
        p_equivalent = np.array([result.p_equivalent for result in results])
        assert (np.diff(p_equivalent, axis=0) >= 0).all()
        assert (p_equivalent[-1] == 1).all()

    def test_a_wide_rope_reads_ratios_and_not_logarithms(self):
        # A ratio of 1.9 lies within a rope of 1, which is a ratio of 2.
        assert bayesian_signed_rank([[1.9, 1.0]], rope=1.0).p_equivalent[0] == 1


class TestInvariants:
    def test_probabilities_add_up(self):
        result = bayesian_signed_rank(scores_of(SIZES), n_draws=3000)
        np.testing.assert_allclose(probabilities(result).sum(axis=1), 1, rtol=1e-12)
        assert (result.rope, result.n_draws) == (0.01, 3000)

    def test_naming_a_pair_the_other_way_round_mirrors_it(self):
        scores = scores_of(OBJECTIVES)
        one = bayesian_signed_rank(scores, pairs=[(0, 1), (2, 4)])
        other = bayesian_signed_rank(scores, pairs=[(1, 0), (4, 2)])
        np.testing.assert_allclose(
            probabilities(one), probabilities(other)[:, ::-1], atol=1e-12
        )

    def test_other_encoders_change_nothing(self):
        scores = scores_of(SIZES)
        among = bayesian_signed_rank(scores)
        alone = bayesian_signed_rank(scores, pairs=among.pairs[40:41])
        np.testing.assert_allclose(
            probabilities(alone)[0], probabilities(among)[40], atol=1e-12
        )

    def test_units_of_the_datasets_change_nothing(self):
        scores = scores_of(OBJECTIVES)
        units = np.random.default_rng(0).uniform(1e-3, 1e6, size=(19, 1))
        np.testing.assert_allclose(
            probabilities(bayesian_signed_rank(scores * units)),
            probabilities(bayesian_signed_rank(scores)),
            atol=1e-12,
        )

    def test_an_encoder_and_its_copy_are_equivalent(self):
        scores = scores_of(OBJECTIVES)[:, [0, 0]]
        assert probabilities(bayesian_signed_rank(scores)).tolist() == [[0, 1, 0]]
        without = probabilities(bayesian_signed_rank(scores, rope=0))
        np.testing.assert_allclose(without, [[0.5, 0, 0.5]])

    def test_cutting_into_blocks_changes_nothing(self, monkeypatch):
        scores = scores_of(OBJECTIVES)
        whole = bayesian_signed_rank(scores, n_draws=500)
        monkeypatch.setattr("sklearn_mdl.ranking._bayesian._BLOCK", 2000)
        cut = bayesian_signed_rank(scores, n_draws=500)
        np.testing.assert_allclose(probabilities(cut), probabilities(whole), atol=1e-12)

    def test_fifty_thousand_draws_of_seed_zero_are_the_default(self):
        default = bayesian_signed_rank([[1.0, 2.0]])
        named = bayesian_signed_rank([[1.0, 2.0]], n_draws=50_000, random_state=0)
        assert default.n_draws == 50_000
        np.testing.assert_array_equal(probabilities(default), probabilities(named))

    def test_seed_decides_the_draws(self):
        scores = scores_of(OBJECTIVES)
        first, again, other = (
            bayesian_signed_rank(scores, n_draws=2000, random_state=seed).p_first
            for seed in (0, np.random.default_rng(0), 1)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)
        np.testing.assert_allclose(first, other, atol=0.07)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"rope": -0.1}, "`rope` must be a finite number of at least 0"),
            ({"rope": math.nan}, "got rope=nan"),
            ({"prior_strength": 0}, "`prior_strength` must be .* got prior_strength=0"),
            ({"prior_strength": math.inf}, "got prior_strength=inf"),
            (
                {"n_draws": 0},
                "`n_draws` must be an integer of at least 1, got n_draws=0",
            ),
            ({"n_draws": 1e4}, "got n_draws=10000.0; pass n_draws=50000"),
        ],
    )
    def test_settings_out_of_range_are_refused(self, settings, message):
        with pytest.raises(ValueError, match=message):
            bayesian_signed_rank(scores_of(OBJECTIVES), **settings)
