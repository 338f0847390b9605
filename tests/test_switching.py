"""Invariants of every switching prior, and of the forward pass that serves them all.

The priors stand in `switching_cases`, each with its definition: a new prior is tested
by one more line there.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from each_case import for_each
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from switching_cases import (
    KINDS,
    LOSSES,
    OWN_WEIGHTS,
    PRIORS,
    THREE_EXPERTS,
    WEIGHTS,
    assert_same_bits,
    dense_transitions,
    enumerated,
    every_definition,
    every_kind,
    normalised,
    random_losses,
    sequences_by_transition,
)

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
    switching,
)
from sklearn_mdl.switching import (
    ElementwiseMixture,
    MarkovPrior,
    RunLength,
    SwitchingPrior,
    UniversalShare,
)
from sklearn_mdl.switching._prior import Component

CHAINS = [prior for prior, _ in THREE_EXPERTS if isinstance(prior, MarkovPrior)]


class LearnedRate(SwitchingPrior):
    """Constant rates with equal probabilities: a mixture that is not built in."""

    def __init__(self, alphas):
        self.alphas = alphas

    def components(self, w):
        return [
            Component(1 / len(self.alphas), FixedShare(alpha=alpha), w)
            for alpha in self.alphas
        ]


# Worked out once by enumeration of all 3^6 sequences, independently of this package.
GOLDEN = [
    (BayesMixture(), 4.2952042952),
    (ElementwiseMixture(), 4.0110143567),
    (FixedShare(alpha=0.2), 4.1641424944),
    (FixedShare(alpha=0.2, redraw=False), 4.1297199391),
    (FixedShare(m=2), 4.1290804610),
    (FixedShare(m=11), 4.0110143567),
    (UniversalShare(), 4.1125050580),
    (UniversalShare(1, 1), 4.1032459966),
    (SwitchDistribution(), 4.2167771858),
    (RunLength(n_rates=None), 4.1170725541),
    (RunLength(n_rates=3), 4.1233194263),
    (LearnedRate([0.5, 0.25, 0.125]), 4.1436893952),
]

# Wide enough for probabilities of 1e-300, and for labels held impossible.
any_loss = st.one_of(
    st.floats(0, 3), st.floats(0, 691), st.just(0.0), st.just(2000.0), st.just(math.inf)
)
any_weights = arrays(
    float, 3, elements=st.one_of(st.just(0.0), st.floats(1e-6, 10))
).filter(np.any)


class TestDefinitions:
    def test_every_prior_has_a_definition_and_a_place_among_the_kinds(self):
        public = {getattr(switching, name) for name in switching.__all__}
        priors = {
            found
            for found in public
            if isinstance(found, type) and issubclass(found, SwitchingPrior)
        } - {SwitchingPrior, MarkovPrior}
        assert priors <= {type(prior) for prior in PRIORS}
        assert priors <= {type(prior) for prior in KINDS}

    @for_each("prior, codelength", GOLDEN)
    def test_golden_numbers(self, prior, codelength):
        assert forward(prior, LOSSES).codelength == pytest.approx(codelength, abs=1e-9)

    def test_last_posterior_of_the_golden_example(self):
        posterior = forward(FixedShare(m=2), LOSSES).posterior
        expected = [0.11796565, 0.45164491, 0.43038944]
        np.testing.assert_allclose(posterior[-1], expected, atol=1e-8)

    @every_definition
    def test_every_sequence_has_the_probability_that_the_definition_gives_it(
        self, prior, definition
    ):
        for weights in WEIGHTS:
            w = normalised(weights, 3)
            expected = definition(w, 6)
            assert expected.sum() == pytest.approx(1, abs=1e-14)
            found = sequences_by_transition(prior, w, 6)
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)

    @every_definition
    @settings(max_examples=15, deadline=None)
    @given(losses=arrays(float, (5, 3), elements=any_loss), weights=any_weights)
    @example(losses=LOSSES, weights=None)
    @example(losses=LOSSES, weights=[0.0, 3.0, 1.0])
    @example(losses=LOSSES, weights=[0.0, 0.0, 2.0])
    def test_forward_equals_enumeration_whatever_the_losses(
        self, prior, definition, losses, weights
    ):
        sequences = definition(normalised(weights, 3), len(losses))
        codelengths, posterior = enumerated(sequences, losses)
        trace = forward(prior, losses, weights)
        atol = 1e-12 if losses.max() < 10 else 1e-11
        np.testing.assert_allclose(
            trace.codelengths, codelengths, rtol=1e-12, atol=atol
        )
        np.testing.assert_allclose(trace.posterior, posterior, atol=atol)
        assert trace.codelength == trace.codelengths.sum()


class TestTransitions:
    @for_each("prior", [p for p in KINDS if isinstance(p, MarkovPrior)])
    def test_rows_are_distributions_and_arguments_are_left_alone(self, prior):
        for weights in WEIGHTS:
            w = normalised(weights, 3)
            initial, matrices = dense_transitions(prior, w, n_steps=15)
            for matrix in [initial[np.newaxis], *matrices]:
                assert matrix.min() >= 0
                np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-15)
            state = prior.initial(w[::-1].copy())
            before = w.copy(), state.copy()
            prior.advance(state, w, 2)
            assert_same_bits((w, state), before)

    def test_shares_is_false_exactly_for_identity_transitions(self):
        for prior in CHAINS:
            _, matrices = dense_transitions(prior, normalised(None, 3), n_steps=5)
            identity = all(np.array_equal(m, np.eye(len(m))) for m in matrices)
            assert prior.shares is not identity, prior


class TestInvariants:
    @settings(max_examples=60, deadline=None)
    @given(
        prior=st.sampled_from([*PRIORS, OWN_WEIGHTS[0]]),
        weights=any_weights,
        seed=st.integers(0, 2**32 - 1),
        concentration=st.sampled_from([1.0, 0.1, 0.01]),
    )
    def test_probabilities_of_all_label_sequences_sum_to_one(
        self, prior, weights, seed, concentration
    ):
        # A table of predictions after every history; the smaller the concentration,
        # the nearer they are to zero and one, which are met as well.
        rng = np.random.default_rng(seed)
        n_labels, n_steps = 3, 4
        tables = [
            rng.dirichlet(np.full(n_labels, concentration), (n_labels**t, 3))
            for t in range(n_steps)
        ]
        for table in tables:
            table[rng.random(table.shape[:2]) < 0.1] = [1, 0, 0]
        total = 0.0
        for labels in itertools.product(range(n_labels), repeat=n_steps):
            history, p_label = 0, np.empty((n_steps, 3))
            for t, label in enumerate(labels):
                p_label[t] = tables[t][history, :, label]
                history = history * n_labels + label
            with np.errstate(divide="ignore"):
                losses = -np.log(p_label)
            total += math.exp(-forward(prior, losses, weights).codelength)
        assert total == pytest.approx(1, abs=1e-12)

    @every_kind
    def test_copies_of_one_expert_cost_what_it_costs(self, prior):
        losses = random_losses(200, 1)
        for copies in (1, 7):
            trace = forward(prior, np.repeat(losses, copies, axis=1))
            np.testing.assert_allclose(trace.codelengths, losses[:, 0], atol=1e-12)
            np.testing.assert_allclose(trace.posterior, 1 / copies, atol=1e-12)

    @every_kind
    def test_one_expert_with_all_the_weight_costs_its_losses(self, prior):
        losses = random_losses(20, 3)
        trace = forward(prior, losses, [0, 7, 0])
        np.testing.assert_allclose(trace.codelengths, losses[:, 1], atol=1e-13)
        np.testing.assert_allclose(trace.posterior, [[0, 1, 0]] * 20, atol=1e-13)

    @every_kind
    def test_order_of_experts_and_scale_of_weights_do_not_matter(self, prior):
        losses, weights = random_losses(100, 5), np.array([1.0, 2, 3, 4, 5])
        order = np.array([3, 0, 4, 1, 2])
        trace = forward(prior, losses, weights)
        assert_same_bits(forward(prior, losses, 16 * weights), trace)
        permuted = forward(prior, losses[:, order], weights[order])
        np.testing.assert_allclose(permuted.codelengths, trace.codelengths, atol=1e-12)
        np.testing.assert_allclose(
            permuted.posterior, trace.posterior[:, order], atol=1e-12
        )

    # Without a redraw the other half is one of the others: then it does matter.
    @for_each("prior", [p for p in KINDS if getattr(p, "redraw", True)])
    def test_an_expert_cut_in_two_equal_halves_costs_what_it_did(self, prior):
        losses = random_losses(60, 3)
        whole = forward(prior, losses, [2, 3, 4])
        halves = forward(prior, losses[:, [0, 1, 2, 2]], [2, 3, 1, 3])
        np.testing.assert_allclose(halves.codelengths, whole.codelengths, atol=1e-12)
        both = halves.posterior[:, 2] + halves.posterior[:, 3]
        np.testing.assert_allclose(both, whole.posterior[:, 2], atol=1e-12)

    @every_kind
    def test_nothing_depends_on_later_losses_or_on_how_many_follow(self, prior):
        losses = random_losses(80, 3)
        changed = losses.copy()
        changed[33:] = random_losses(47, 3, seed=1)
        whole, other, part = (
            forward(prior, stream) for stream in (losses, changed, losses[:33])
        )
        first = whole.codelengths[:33], whole.posterior[:34]
        assert_same_bits(first, (other.codelengths[:33], other.posterior[:34]))
        assert_same_bits((part.codelengths, part.posterior), (first[0], first[1][:33]))

    @every_kind
    def test_prior_is_a_parameter_object(self, prior):
        copied = clone(prior)
        assert copied is not prior
        assert copied.get_params() == prior.get_params()
        assert_same_bits(forward(copied, LOSSES), forward(prior, LOSSES))


class TestExtremes:
    @every_kind
    def test_diverged_expert_is_one_that_holds_the_labels_impossible(self, prior):
        losses = random_losses(30, 3)
        diverged, hopeless = losses.copy(), losses.copy()
        diverged[10:, 1], hopeless[10:, 1] = np.inf, 1e4
        one, other = forward(prior, diverged), forward(prior, hopeless)
        np.testing.assert_allclose(one.codelengths, other.codelengths, atol=1e-12)
        np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-12)
        assert np.isfinite(one.codelength)

    @every_kind
    def test_impossible_label_costs_infinity_and_teaches_nothing(self, prior):
        losses = random_losses(10, 3)
        losses[4] = np.inf
        trace = forward(prior, losses)
        assert trace.codelength == np.inf
        assert np.flatnonzero(np.isinf(trace.codelengths)).tolist() == [4]
        # A label that all experts are sure of teaches nothing either.
        losses[4] = 0.0
        expected = forward(prior, losses).posterior
        np.testing.assert_allclose(trace.posterior, expected, atol=1e-14)

    def test_label_impossible_for_all_that_are_left_teaches_nothing(self):
        losses = [[np.inf, 1.0, 1.0], [1.0, np.inf, np.inf], [0.0, 1.0, 2.0]]
        trace = forward("bayes", losses)
        assert trace.codelengths[1] == np.inf
        np.testing.assert_allclose(trace.posterior[1:], [[0, 0.5, 0.5]] * 2)

    def test_part_that_held_a_label_impossible_is_out_of_the_mixture(self):
        # For m = 1 nobody is left at the second step; m = 2 has drawn another expert.
        losses = [[np.inf, 1.0], [1.0, np.inf], [0.5, 0.2], [0.1, 0.4]]
        both, share = (forward(LearnedShare(ms), losses) for ms in [(1, 2), (2,)])
        assert both.codelength == pytest.approx(share.codelength + math.log(2))
        np.testing.assert_allclose(both.posterior[2:], share.posterior[2:])

    @every_kind
    def test_expert_without_prior_weight_never_speaks(self, prior):
        # Its losses are far smaller than the others': they must not set the scale.
        for gap in (740, 2000):
            losses = random_losses(20, 3)
            losses[:, 1:] += gap
            trace = forward(prior, losses, [0, 1, 1])
            alone = forward(prior, losses[:, 1:])
            np.testing.assert_allclose(trace.codelengths, alone.codelengths, rtol=1e-13)
            assert trace.posterior[:, 0].tolist() == [0] * 20

    @every_kind
    def test_labels_that_nobody_expected_cost_what_they_must(self, prior):
        losses = random_losses(20, 3)
        trace = forward(prior, losses + 5000)
        expected = forward(prior, losses)
        np.testing.assert_allclose(
            trace.codelengths, expected.codelengths + 5000, rtol=1e-13
        )
        np.testing.assert_allclose(trace.posterior, expected.posterior, atol=1e-10)

    @settings(max_examples=150, deadline=None)
    @given(
        prior=st.sampled_from([*PRIORS, OWN_WEIGHTS[0]]),
        losses=arrays(
            float, (9, 3), elements=st.one_of(st.floats(0, 1000), st.just(np.inf))
        ),
    )
    def test_posterior_is_a_distribution_and_costs_lie_between_the_losses(
        self, prior, losses
    ):
        trace = forward(prior, losses)
        assert not np.isnan(trace.codelengths).any()
        assert trace.posterior.min() >= 0
        np.testing.assert_allclose(trace.posterior.sum(axis=1), 1, atol=1e-12)
        lowest, highest = losses.min(axis=1), losses.max(axis=1)
        assert (trace.codelengths >= lowest - 1e-9).all()
        assert (trace.codelengths <= highest + 1e-9)[np.isfinite(highest)].all()
