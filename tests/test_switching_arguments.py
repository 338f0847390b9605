"""Parameters, names and special cases of the priors, and what is refused."""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from inspect import getdoc
from typing import get_args

import numpy as np
import pytest
from each_case import for_each
from hypothesis import given, settings, strategies as st
from switching_cases import (
    LOSSES,
    PRIORS,
    assert_same_bits,
    dense_transitions,
    every_kind,
    normalised,
    random_losses,
)

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
)
from sklearn_mdl.switching import (
    ElementwiseMixture,
    ForwardPass,
    MarkovPrior,
    PriorName,
    RunLength,
    SwitchingPrior,
    UniversalShare,
    as_prior,
    kind_weights,
)

NAMES = {
    "bayes": BayesMixture,
    "elementwise": ElementwiseMixture,
    "fixed-share": FixedShare,
    "learned-share": LearnedShare,
    "run-length": RunLength,
    "switch-distribution": SwitchDistribution,
    "universal-share": UniversalShare,
}


def test_numbers_of_known_labels_are_a_list_with_an_entry_more_than_steps():
    losses, known = LOSSES[:4], [0, 0, 1, 2, 4]
    expected = forward("bayes", losses, known=np.array(known)).codelengths
    assert_same_bits(forward("bayes", losses, known=known).codelengths, expected)
    stream = ForwardPass("bayes", losses.shape[1])
    words = (
        r"`known` must be 5 non-decreasing counts \(int\) of earlier steps, got array"
    )
    wrong = [
        known[:4],
        [*known, 4],
        [0, 0, 2, 1, 4],
        [-1, 0, 1, 2, 4],
        [1, 1, 2, 3, 4],
        [0.0, 0, 1, 2, 4],
    ]
    for counts in wrong:
        with pytest.raises(ValueError, match=words):
            stream.extend(losses, counts)
    assert stream.n_steps == 0
    stream.extend(losses, known)
    with pytest.raises(ValueError, match=words):
        stream.extend(losses, known)  # counts begin at the first block


def assert_same_costs(one, other, losses, weights=None):
    first, second = forward(one, losses, weights), forward(other, losses, weights)
    np.testing.assert_allclose(first.codelengths, second.codelengths, atol=1e-13)
    np.testing.assert_allclose(first.posterior, second.posterior, atol=1e-13)


class TestSpecialCases:
    def test_full_rate_is_the_elementwise_mixture(self):
        assert_same_costs(FixedShare(alpha=1), "elementwise", random_losses(50, 4))

    def test_zero_rate_is_the_bayesian_mixture(self):
        losses = random_losses(50, 4)
        for rate in ({"alpha": 0}, {"m": 1}):
            for redraw in (True, False):
                prior = FixedShare(**rate, redraw=redraw)
                assert_same_bits(forward(prior, losses), forward("bayes", losses))

    def test_probabilities_and_cumulative_logs_agree(self):
        # A rate too small to matter goes through the other of the two computations.
        losses = random_losses(50, 4)
        slow, bayes = forward(FixedShare(alpha=1e-18), losses), forward("bayes", losses)
        np.testing.assert_allclose(slow.codelengths, bayes.codelengths, atol=1e-12)
        np.testing.assert_allclose(slow.posterior, bayes.posterior, atol=1e-12)

    def test_transition_of_fixed_share_is_that_of_the_paper(self):
        # Eq. (2), entering step t = 5 with m = 4, K = 3.
        _, matrices = dense_transitions(FixedShare(m=4), normalised(None, 3), n_steps=5)
        alpha = 3 / 5
        expected = np.full((3, 3), alpha / 3)
        np.fill_diagonal(expected, 1 - alpha * 2 / 3)
        np.testing.assert_allclose(matrices[-1], expected, atol=1e-15)

    @settings(max_examples=30, deadline=None)
    @given(
        n_experts=st.integers(2, 8),
        alpha=st.floats(0, 1),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_rates_of_the_two_conventions_are_in_proportion(
        self, n_experts, alpha, seed
    ):
        # With uniform weights the share of the others is a redraw K / (K - 1) times
        # as often.
        alpha *= (n_experts - 1) / n_experts
        others = FixedShare(alpha=alpha, redraw=False)
        redraw = FixedShare(alpha=min(1, alpha * n_experts / (n_experts - 1)))
        losses = random_losses(30, n_experts, seed)
        one, other = forward(others, losses), forward(redraw, losses)
        np.testing.assert_allclose(one.codelengths, other.codelengths, atol=1e-12)
        np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-12)

    def test_others_share_in_proportion_to_their_weights(self):
        prior = FixedShare(alpha=0.4, redraw=False)
        _, (matrix,) = dense_transitions(prior, np.array([0.1, 0.3, 0.6]), n_steps=2)
        expected = [
            [0.6, 0.4 / 3, 0.8 / 3],
            [0.4 / 7, 0.6, 2.4 / 7],
            [0.1, 0.3, 0.6],
        ]
        np.testing.assert_allclose(matrix, expected, atol=1e-15)

    def test_without_others_the_expert_stays(self):
        losses = random_losses(20, 3)
        for alpha in (0.2, 1):
            prior = FixedShare(alpha=alpha, redraw=False)
            for found, expected in [
                (forward(prior, losses[:, :1]), losses[:, 0]),
                (forward(prior, losses, [0, 0, 2]), losses[:, 2]),
            ]:
                np.testing.assert_allclose(found.codelengths, expected, rtol=1e-15)

    def test_weights_may_be_far_apart_without_a_redraw(self):
        losses = random_losses(20, 3)
        trace = forward(FixedShare(alpha=0.5, redraw=False), losses, [1, 1e-300, 1e-20])
        assert np.isfinite(trace.codelengths).all()
        # Whoever leaves the first goes to the third: there is hardly another.
        alone = forward(FixedShare(alpha=0.5, redraw=False), losses[:, ::2], [1, 1e-20])
        np.testing.assert_allclose(trace.codelengths, alone.codelengths, rtol=1e-12)

    def test_own_weights_of_the_elementwise_mixture_take_the_place_of_the_prior_s(self):
        losses = random_losses(20, 3)
        found = forward(ElementwiseMixture([3, 0, 1]), losses, [0.1, 0.8, 0.1])
        assert_same_bits(found, forward("elementwise", losses, [3, 0, 1]))

    def test_one_number_of_blocks_to_learn_is_fixed_share(self):
        losses = random_losses(40, 3)
        found = forward(LearnedShare([5]), losses)
        assert_same_bits(found, forward(FixedShare(5), losses))

    def test_the_same_number_of_blocks_many_times_is_fixed_share(self):
        assert_same_costs(LearnedShare([5] * 4), FixedShare(5), random_losses(40, 3))

    def test_one_rate_of_run_lengths_is_fixed_share(self):
        assert_same_costs(RunLength(1), FixedShare(alpha=0.5), random_losses(40, 3))

    def test_switches_without_end_are_fixed_share(self):
        # What the message says that refuses theta = 1, and theta = 0.
        losses = random_losses(40, 3)
        for theta, limit in [(1 - 1e-14, FixedShare(2)), (1e-14, BayesMixture())]:
            found = forward(SwitchDistribution(theta), losses).codelength
            assert found == pytest.approx(forward(limit, losses).codelength, rel=1e-11)

    def test_certain_beta_prior_is_a_constant_rate(self):
        losses = random_losses(40, 3)
        found = forward(UniversalShare(2e12, 8e12), losses).codelength
        expected = forward(FixedShare(alpha=0.2), losses).codelength
        assert found == pytest.approx(expected, rel=1e-10)

    def test_rate_decreases_and_is_cut_at_one(self):
        rates = [FixedShare(m=4).rate(t) for t in (1, 2, 3, 4, 6, 30)]
        assert rates == [1, 1, 1, 0.75, 0.5, 0.1]
        assert FixedShare().rate(10) == FixedShare(m=2).rate(10) == 0.1
        assert FixedShare(alpha=0.3).rate(10) == 0.3

    def test_summable_rate_is_that_of_its_formula(self):
        prior = FixedShare(alpha="summable")
        for t in (2, 10, 10**9):
            expected = -math.expm1(-1 / ((t + 1) * math.log(t + 1) ** 2))
            assert prior.rate(t) == pytest.approx(expected, rel=1e-12)


class TestNames:
    def test_names_stand_for_priors(self):
        assert set(NAMES) == set(get_args(PriorName))
        for name, kind in [*NAMES.items(), (None, LearnedShare)]:
            assert type(as_prior(name)) is kind
            assert_same_bits(forward(name, LOSSES), forward(kind(), LOSSES))

    def test_prior_stands_for_itself(self):
        for prior in PRIORS:
            assert as_prior(prior) is prior

    def test_unknown_name_is_refused_with_the_known_ones(self):
        with pytest.raises(
            ValueError, match="A switching prior must be one of"
        ) as refusal:
            as_prior("fixed_share")
        assert str(sorted(NAMES)) in str(refusal.value)
        assert "got 'fixed_share'" in str(refusal.value)

    def test_other_objects_are_refused_with_the_known_names(self):
        for switching in (3, FixedShare, ["bayes"]):
            with pytest.raises(TypeError, match="'bayes', 'elementwise', 'fixed-sh"):
                as_prior(switching)

    def test_base_classes_are_abstract(self):
        for base in (SwitchingPrior, MarkovPrior):
            with pytest.raises(TypeError, match="abstract"):
                base()


REFUSED = {
    FixedShare: [
        ({"m": 2, "alpha": 0.1}, "`m` or `alpha`, not both, got m=2 and alpha=0.1"),
        ({"m": 0.5}, "finite number of at least 1, got 0.5"),
        ({"m": math.nan}, "at least 1, got nan"),
        ({"m": math.inf}, "at least 1, got inf"),
        ({"m": "2"}, "at least 1, got '2'"),
        ({"alpha": -0.1}, "between 0 and 1 or 'summable', got -0.1"),
        ({"alpha": 1.5}, "between 0 and 1 or 'summable', got 1.5"),
        ({"alpha": math.nan}, "or 'summable', got nan"),
        ({"alpha": "falling"}, "or 'summable', got 'falling'"),
        ({"redraw": None}, "`redraw` must be True or False, got None"),
        ({"redraw": "no"}, "`redraw` must be True or False, got 'no'"),
    ],
    SwitchDistribution: [
        ({"theta": 0}, "both excluded, got 0; pass BayesMixture"),
        ({"theta": 1.0}, r"got 1.0; .* FixedShare\(m=2\)"),
        ({"theta": 1.5}, "`theta` must be a number between 0 and 1"),
        ({"theta": -0.5}, "`theta` must be a number between 0 and 1"),
        ({"theta": math.nan}, "got nan"),
        ({"theta": "0.5"}, "got '0.5'"),
    ],
    UniversalShare: [
        ({"a": 0}, "`a` must be a positive, finite number, got 0"),
        ({"a": 1, "b": -1}, "`b` must be a positive, finite number, got -1"),
        ({"a": math.inf}, "got inf"),
        ({"b": None}, "got None"),
        ({"max_steps": None}, "`max_steps` .* integer .*got None"),
    ],
    RunLength: [
        ({"n_rates": 0}, "None or an integer between 1 and 1000, got 0"),
        ({"n_rates": 1001}, "between 1 and 1000, got 1001"),
        ({"n_rates": 2.0}, "between 1 and 1000, got 2.0"),
        ({"n_rates": "40"}, "between 1 and 1000, got '40'"),
        (
            {"max_steps": -1},
            "`max_steps` .* integer .*got -1; for example, pass max_steps=5000",
        ),
        ({"n_rates": None, "max_steps": 1e4}, "`max_steps` .* got 10000.0"),
    ],
    LearnedShare: [
        ({"ms": ()}, r"`ms` must be a sequence .* got \(\)"),
        ({"ms": (2, 0.5)}, r"at least 1, got \(2, 0.5\)"),
        ({"ms": (2, math.nan)}, r"at least 1, got \(2, nan\)"),
        ({"ms": (2, "3")}, r"at least 1, got \(2, '3'\)"),
        ({"ms": np.array(3)}, r"at least 1, got array\(3\)"),
        ({"ms": 3}, "at least 1, got 3"),
        ({"ms": "234"}, "at least 1, got '234'"),
        ({"ms": [[2, 3]]}, r"at least 1, got \[\[2, 3\]\]"),
        ({"ms": [[2, 3], [4]]}, r"at least 1, got \[\[2, 3\], \[4\]\]"),
        ({"ms": None}, "at least 1, got None"),
        ({"ms": iter([2, 3])}, "`ms` must be a sequence .* got <"),
    ],
}


class TestParameters:
    @for_each("kind", REFUSED)
    def test_parameters_are_checked_when_used_and_not_before(self, kind):
        for params, message in REFUSED[kind]:
            prior = kind(**params)
            with pytest.raises(ValueError, match=message):
                prior.check_params()
            with pytest.raises(ValueError, match=message):
                ForwardPass(prior, 3)

    def test_valid_parameters_and_borders_that_are_included_pass(self):
        for prior in [
            *PRIORS,
            FixedShare(1),
            FixedShare(alpha=0),
            FixedShare(alpha=1),
            LearnedShare([1]),
            RunLength(1),
            RunLength(1000),
            RunLength(None, max_steps=0),
            UniversalShare(max_steps=0),
        ]:
            assert ForwardPass(prior, 3).extend(np.empty((0, 3))).codelength == 0

    def test_defaults_are_those_that_are_documented(self):
        for kind in NAMES.values():
            entries = re.findall(r"^(\w.*) : .*default=(.*)$", getdoc(kind), re.M)
            documented = {
                name: ast.literal_eval(value)
                for names, value in entries
                for name in names.split(", ")
            }
            params = kind().get_params()
            assert params == {**dict.fromkeys(params), **documented}

    @for_each(
        "make",
        [
            lambda number: FixedShare(number(3)),
            lambda number: FixedShare(alpha=number(1)),
            lambda number: LearnedShare([number(2), number(3)]),
            lambda number: LearnedShare(np.array([2, 3], dtype=object) * number(1)),
            lambda number: UniversalShare(number(2), number(1)),
        ],
    )
    def test_numbers_of_any_kind_are_as_good_as_floats(self, make):
        expected = forward(make(float), LOSSES)
        for kind in (int, np.int64, np.float32, Fraction):
            assert_same_bits(forward(make(kind), LOSSES), expected)

    @for_each(
        "make, number",
        [
            (lambda p: FixedShare(alpha=p), 0.001),
            (lambda p: FixedShare(alpha=p, redraw=False), 0.001),
            (lambda p: FixedShare(m=p), 2.1),
            (lambda p: LearnedShare((p, 2)), 1.7),
            (SwitchDistribution, 0.001),
            (UniversalShare, 0.001),
        ],
    )
    def test_numbers_of_single_precision_cost_no_digits(self, make, number):
        # Rates of 32 bits would let the state stray from a sum of one by 1e-8 a step.
        single = np.float32(number)
        losses = random_losses(100, 3)
        found, expected = (forward(make(p), losses) for p in (single, float(single)))
        np.testing.assert_allclose(found.posterior.sum(axis=1), 1, atol=1e-14)
        np.testing.assert_allclose(found.codelengths, expected.codelengths, rtol=1e-13)

    @for_each(
        "own, message",
        [
            (
                [1, 2],
                r"`ElementwiseMixture.weights` must be of shape \(3,\), got \(2,\)",
            ),
            (
                [1, -1, 1],
                "`ElementwiseMixture.weights` must be finite and non-negative",
            ),
            ([0, 0, 0], "with a positive sum"),
        ],
    )
    def test_own_weights_out_of_range_are_refused(self, own, message):
        with pytest.raises(ValueError, match=message):
            forward(ElementwiseMixture(own), LOSSES)


class TestLosses:
    @for_each(
        "losses, message",
        [
            ([0.1, 0.2], r"shape \(n_steps, n_experts\), got \(2,\)"),
            (np.zeros((2, 2, 2)), r"got \(2, 2, 2\)"),
            (np.zeros((2, 0)), r"got \(2, 0\)"),
            ([[math.nan, math.nan]], "at least one expert at every step"),
            ([[0.1, -math.inf]], "got -inf"),
            (1.0, r"got \(\)"),
        ],
    )
    def test_losses_out_of_range_are_refused(self, losses, message):
        for source in (losses, iter([losses])):
            with pytest.raises(ValueError, match=message):
                forward("bayes", source)

    def test_nan_is_found_wherever_it_is(self):
        losses = random_losses(3000, 3)
        losses[1999, 2] = math.nan
        with pytest.raises(ValueError, match=r"must stay NaN .* column 2"):
            forward("fixed-share", losses)

    def test_block_with_another_number_of_experts_is_refused(self):
        with pytest.raises(ValueError, match=r"\(n_steps, 3\), got \(1, 2\)"):
            ForwardPass("bayes", 3).extend([[0.1, 0.2]])


class TestWeights:
    @for_each(
        "weights, message",
        [
            ([1, 1], r"`weights` must be of shape \(3,\), got \(2,\)"),
            ([1, -1, 1], "non-negative"),
            ([0, 0, 0], "positive sum"),
            ([1, math.nan, 1], "finite"),
            ([1, math.inf, 1], "finite"),
        ],
    )
    def test_weights_out_of_range_are_refused(self, weights, message):
        with pytest.raises(ValueError, match=message):
            forward("bayes", LOSSES, weights)

    @every_kind
    def test_weights_of_single_precision_cost_no_digits(self, prior):
        single = np.array([0.1, 0.2, 0.7], dtype=np.float32)
        double = single.astype(np.float64)
        assert_same_bits(forward(prior, LOSSES, single), forward(prior, LOSSES, double))

    @for_each("n_experts", [0, -1, 2.0])
    def test_number_of_experts_out_of_range_is_refused(self, n_experts):
        said = r"must be an integer of at least 1, .*; pass n_experts=2 for two experts"
        with pytest.raises(ValueError, match=rf"^`n_experts` {said}$"):
            ForwardPass("bayes", n_experts)

    @settings(max_examples=30, deadline=None)
    @given(groups=st.lists(st.sampled_from(["a", "b", 3, None]), min_size=1))
    def test_groups_weigh_the_same_and_so_do_the_members_of_each(self, groups):
        weights = kind_weights(groups)
        assert weights.sum() == pytest.approx(1)
        for name in set(groups):
            own = weights[[group == name for group in groups]]
            assert len(set(own)) == 1
            assert own.sum() == pytest.approx(1 / len(set(groups)))


def test_weights_whose_sum_overflows_are_normalised():
    found = forward("bayes", [[1.0, 2.0]], weights=[1e308, 1e308])
    assert found.codelength == pytest.approx(forward("bayes", [[1.0, 2.0]]).codelength)
