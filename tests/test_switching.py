"""Laws of the switching priors and of the forward pass that serves them all.

`PRIORS` lists every prior; each law holds for each of them, so a new prior is tested by
one more line there.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_mdl.switching import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    ForwardPass,
    SwitchingPrior,
    as_prior,
    forward,
)


class StableOrNot(SwitchingPrior):
    """A prior with two rows, so that the laws are tried on more than one.

    The first row will switch again and the second never will: the switch distribution
    of van Erven, Grunwald and de Rooij with even odds for either.
    """

    def initial(self, w):
        return np.array([w, w]) / 2

    def transition(self, state, w, t):
        leave = 1 / t
        staying = state * [[1 - leave], [1.0]]
        return staying + leave * state[0].sum() * w / 2


PRIORS = [
    StableOrNot(),
    BayesMixture(),
    ElementwiseMixture(),
    FixedShare(),
    FixedShare(m=11),
    FixedShare(m=1),
    FixedShare(m=3.5),
    FixedShare(alpha=0.2),
    FixedShare(alpha=0),
    FixedShare(alpha=1),
]
WEIGHTS = [None, [0.5, 0.2, 0.3], [0.0, 3.0, 1.0]]

# Worked out once by enumeration of all 3^6 sequences, independently of this package.
LOSSES = np.array(
    [
        [0.9, 1.1, 0.4],
        [0.2, 1.0, 0.7],
        [1.5, 0.3, 0.8],
        [0.6, 0.6, 0.1],
        [2.0, 0.5, 0.9],
        [0.3, 0.4, 1.2],
    ]
)
GOLDEN = [
    (BayesMixture(), 4.2952042952),
    (ElementwiseMixture(), 4.0110143567),
    (FixedShare(alpha=0.2), 4.1641424944),
    (FixedShare(m=2), 4.1290804610),
    (FixedShare(m=11), 4.0110143567),
    (StableOrNot(), 4.2167771858),
]

every_prior = pytest.mark.parametrize("prior", PRIORS, ids=repr)
every_weighting = pytest.mark.parametrize("weights", WEIGHTS, ids=repr)


def normalised(weights, n_experts):
    w = np.ones(n_experts) if weights is None else np.array(weights, dtype=float)
    return w / w.sum()


def dense_transitions(prior, w, n_steps):
    """Initial state and transition matrices into steps 2..n, flattened and dense.

    One-hot states fed through `transition` give the rows of the matrix.
    """
    initial = prior.initial(w)
    shape, matrices = initial.shape, []
    for t in range(2, n_steps + 1):
        one_hot = np.eye(math.prod(shape)).reshape(-1, *shape)
        rows = [prior.transition(state, w, t) for state in one_hot]
        shape = rows[0].shape
        matrices.append(np.array([row.ravel() for row in rows]))
    return initial.ravel(), matrices


def enumerate_sequences(prior, losses, weights):
    """Codelength and posteriors from the joint table over all sequences of states."""
    n_steps, n_experts = losses.shape
    initial, matrices = dense_transitions(
        prior, normalised(weights, n_experts), n_steps
    )
    table, posterior = initial, []
    for t in range(n_steps):
        if t > 0:
            table = table[..., np.newaxis] * matrices[t - 1]
        last = table.sum(axis=tuple(range(t))) / table.sum()
        posterior.append(last.reshape(-1, n_experts).sum(axis=0))
        table = table * np.tile(np.exp(-losses[t]), table.shape[-1] // n_experts)
    return -np.log(table.sum()), np.array(posterior)


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def random_losses(n_steps, n_experts, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.gamma(1.0, scale, size=(n_steps, n_experts))


class TestLawsOfEveryPrior:
    @pytest.mark.parametrize(("prior", "codelength"), GOLDEN, ids=repr)
    def test_golden_numbers(self, prior, codelength):
        assert forward(prior, LOSSES).codelength == pytest.approx(codelength, abs=1e-9)

    @every_prior
    @every_weighting
    def test_forward_equals_enumeration(self, prior, weights):
        codelength, posterior = enumerate_sequences(prior, LOSSES, weights)
        trace = forward(prior, LOSSES, weights)
        assert trace.codelength == pytest.approx(codelength, abs=1e-12)
        assert trace.codelengths.sum() == pytest.approx(codelength, abs=1e-12)
        np.testing.assert_allclose(trace.posterior, posterior, atol=1e-12)

    @every_prior
    @every_weighting
    def test_transition_rows_sum_to_one(self, prior, weights):
        w = normalised(weights, 3)
        initial, matrices = dense_transitions(prior, w, n_steps=15)
        assert initial.min() >= 0
        assert initial.sum() == pytest.approx(1, abs=1e-15)
        for matrix in matrices:
            assert matrix.min() >= 0
            np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-15)

    @every_prior
    def test_transition_leaves_its_arguments_alone(self, prior):
        w = np.array([0.2, 0.5, 0.3])
        state = prior.initial(w[::-1].copy())
        before = w.copy(), state.copy()
        prior.transition(state, w, 4)
        assert_same_bits((w, state), before)

    @every_prior
    def test_shares_is_false_exactly_for_identity_transitions(self, prior):
        _, matrices = dense_transitions(prior, normalised(None, 3), n_steps=5)
        identity = all(np.array_equal(m, np.eye(len(m))) for m in matrices)
        assert prior.shares is not identity

    @every_prior
    def test_probabilities_of_all_label_sequences_sum_to_one(self, prior):
        # Three adaptive coins, which differ in how readily they learn.
        n_steps, strength = 6, np.array([0.1, 0.5, 5.0])
        total = 0.0
        for number in range(2**n_steps):
            y = np.array([number >> t & 1 for t in range(n_steps)])
            ones, seen = np.cumsum(y) - y, np.arange(n_steps)
            p_one = (ones[:, None] + strength) / (seen[:, None] + 2 * strength)
            p_label = np.where(y[:, None] == 1, p_one, 1 - p_one)
            total += math.exp(-forward(prior, -np.log(p_label)).codelength)
        assert total == pytest.approx(1, abs=1e-12)

    @every_prior
    def test_copies_of_one_expert_cost_what_one_costs(self, prior):
        losses = random_losses(200, 1)
        trace = forward(prior, np.repeat(losses, 7, axis=1))
        np.testing.assert_allclose(trace.codelengths, losses[:, 0], atol=1e-12)
        np.testing.assert_allclose(trace.posterior, 1 / 7, atol=1e-12)

    @every_prior
    def test_order_of_experts_does_not_matter(self, prior):
        losses, weights = random_losses(100, 5), np.array([1.0, 2, 3, 4, 5])
        order = np.array([3, 0, 4, 1, 2])
        trace = forward(prior, losses, weights)
        permuted = forward(prior, losses[:, order], weights[order])
        np.testing.assert_allclose(permuted.codelengths, trace.codelengths, atol=1e-12)
        np.testing.assert_allclose(
            permuted.posterior, trace.posterior[:, order], atol=1e-12
        )

    @every_prior
    def test_later_losses_leave_earlier_codelengths_alone(self, prior):
        losses = random_losses(50, 4)
        changed = losses.copy()
        changed[30:] = random_losses(20, 4, seed=1)
        one, other = forward(prior, losses), forward(prior, changed)
        assert_same_bits(
            (one.codelengths[:30], one.posterior[:31]),
            (other.codelengths[:30], other.posterior[:31]),
        )

    @every_prior
    def test_weights_do_not_need_to_be_normalised(self, prior):
        assert_same_bits(
            forward(prior, LOSSES, [1, 2, 5]), forward(prior, LOSSES, [10, 20, 50])
        )

    @every_prior
    def test_prior_is_a_parameter_object(self, prior):
        copied = clone(prior)
        assert copied is not prior
        assert copied.get_params() == prior.get_params()
        assert_same_bits(forward(copied, LOSSES), forward(prior, LOSSES))


class TestStreaming:
    @every_prior
    @pytest.mark.parametrize("borders", [[1], [7, 8, 20], [0, 0, 39], [13, 40]])
    def test_blocks_equal_one_pass_bitwise(self, prior, borders):
        losses = random_losses(40, 7)
        losses[15:, 2] = np.inf
        losses[22] = np.inf
        whole, stream = forward(prior, losses), ForwardPass(prior, 7)
        parts = [stream.extend(block) for block in np.split(losses, borders)]
        assert_same_bits(
            (whole.codelengths, whole.posterior),
            (
                np.concatenate([part.codelengths for part in parts]),
                np.concatenate([part.posterior for part in parts]),
            ),
        )
        assert stream.n_steps == 40

    @every_prior
    def test_long_blocks_equal_one_pass_bitwise(self, prior):
        losses = random_losses(2500, 5)
        whole, stream = forward(prior, losses), ForwardPass(prior, 5)
        parts = [stream.extend(losses[i : i + 777]) for i in range(0, 2500, 777)]
        codelengths = np.concatenate([part.codelengths for part in parts])
        np.testing.assert_array_equal(codelengths, whole.codelengths)
        assert parts[0].codelength == parts[0].codelengths.sum()

    @every_prior
    @pytest.mark.parametrize("weights", [None, [0, 1, 2]])
    def test_weights_are_the_posterior_of_the_step_to_come(self, prior, weights):
        posterior = forward(prior, LOSSES, weights).posterior
        stream = ForwardPass(prior, 3, weights)
        for row, losses in zip(posterior, LOSSES, strict=True):
            np.testing.assert_array_equal(stream.weights, row)
            stream.extend(losses[np.newaxis])
        assert stream.weights.sum() == pytest.approx(1, abs=1e-15)

    @every_prior
    @pytest.mark.parametrize(
        "copied", [copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))]
    )
    def test_copies_go_on_as_the_original_does(self, prior, copied):
        losses = random_losses(30, 4)
        stream = ForwardPass(prior, 4)
        stream.extend(losses[:11])
        twin = copied(stream)
        assert_same_bits(stream.extend(losses[11:]), twin.extend(losses[11:]))
        assert twin.n_steps == stream.n_steps == 30

    def test_changing_the_prior_does_not_reach_a_pass_under_way(self):
        prior = FixedShare(m=2)
        stream = ForwardPass(prior, 3)
        prior.set_params(m=11)
        assert_same_bits(stream.extend(LOSSES), forward(FixedShare(m=2), LOSSES))

    @every_prior
    def test_empty_block_changes_nothing(self, prior):
        stream = ForwardPass(prior, 3)
        trace = stream.extend(np.empty((0, 3)))
        assert trace.codelength == 0
        assert trace.posterior.shape == (0, 3)
        assert_same_bits(stream.extend(LOSSES), forward(prior, LOSSES))

    @every_prior
    def test_refused_block_changes_nothing(self, prior):
        stream = ForwardPass(prior, 3)
        with pytest.raises(ValueError, match="got a smallest value of nan"):
            stream.extend([[0.1, 0.2, 0.3], [0.1, math.nan, 0.3]])
        assert_same_bits(stream.extend(LOSSES), forward(prior, LOSSES))

    @every_prior
    def test_memory_layout_and_precision_of_losses_do_not_matter(self, prior):
        single = LOSSES.astype(np.float32)
        expected = forward(prior, single.astype(np.float64))
        assert_same_bits(forward(prior, single), expected)
        assert_same_bits(forward(prior, np.asfortranarray(single)), expected)
        assert_same_bits(forward(prior, single.tolist()), expected)
        assert expected.codelengths.dtype == np.float64

    def test_whole_numbers_are_losses_too(self):
        assert_same_bits(forward(None, [[1, 2]]), forward(None, [[1.0, 2.0]]))


class TestSpecialCases:
    def test_full_rate_is_the_elementwise_mixture(self):
        losses = random_losses(50, 4)
        one, other = (
            forward(FixedShare(alpha=1), losses),
            forward("elementwise", losses),
        )
        np.testing.assert_allclose(one.codelengths, other.codelengths, atol=1e-13)

    @pytest.mark.parametrize("prior", [FixedShare(alpha=0), FixedShare(m=1)], ids=repr)
    def test_zero_rate_is_the_bayesian_mixture(self, prior):
        losses = random_losses(50, 4)
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

    def test_rate_decreases_and_is_cut_at_one(self):
        rates = [FixedShare(m=4).rate(t) for t in (1, 2, 3, 4, 6, 30)]
        assert rates == [1, 1, 1, 0.75, 0.5, 0.1]
        assert FixedShare().rate(10) == FixedShare(m=2).rate(10) == 0.1
        assert FixedShare(alpha=0.3).rate(10) == 0.3

    def test_last_posterior_of_the_golden_example(self):
        posterior = forward(FixedShare(m=2), LOSSES).posterior
        expected = [0.11796565, 0.45164491, 0.43038944]
        np.testing.assert_allclose(posterior[-1], expected, atol=1e-8)

    def test_one_expert_costs_its_losses(self):
        losses = random_losses(20, 1)
        for prior in PRIORS:
            trace = forward(prior, losses)
            np.testing.assert_allclose(trace.codelengths, losses[:, 0], atol=1e-13)

    def test_no_labels_cost_nothing(self):
        assert forward("bayes", np.empty((0, 2))).codelength == 0


class TestBounds:
    @pytest.mark.parametrize("seed", range(5))
    def test_bayes_stays_within_log_k_of_the_best_expert(self, seed):
        losses = random_losses(300, 6, seed, scale=[1, 1.1, 0.9, 1, 2, 1])
        best = losses.sum(axis=0).min()
        assert forward("bayes", losses).codelength <= best + math.log(6) + 1e-9

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("n_experts", [2, 6, 40])
    def test_default_fixed_share_stays_within_log_n_of_bayes(self, seed, n_experts):
        losses = random_losses(300, n_experts, seed)
        losses[:, 0] /= 1 + seed
        excess = forward(None, losses).codelength - forward("bayes", losses).codelength
        leave = (1 - 1 / n_experts) / np.arange(2, 301)
        bound = -np.log1p(-leave).sum()
        assert excess <= bound + 1e-9
        assert bound <= math.log(300)

    def test_fixed_share_follows_the_expert_that_takes_over(self):
        losses = np.zeros((400, 2))
        losses[:200, 0] = losses[200:, 1] = 1.0
        trace = forward(FixedShare(m=2), losses)
        assert trace.codelength <= 2 * (math.log(2) + math.log(400))
        assert forward("bayes", losses).codelength == pytest.approx(200)
        assert trace.posterior[199, 1] > 0.9
        assert trace.posterior[399, 0] > 0.9

    @settings(max_examples=40, deadline=None)
    @given(
        losses=arrays(float, (8, 3), elements=st.floats(0, 50)),
        sequence=st.lists(st.integers(0, 2), min_size=8, max_size=8),
        m=st.floats(1.5, 12),
    )
    def test_mixture_pays_at_most_the_prior_price_of_any_sequence(
        self, losses, sequence, m
    ):
        initial, matrices = dense_transitions(FixedShare(m=m), normalised(None, 3), 8)
        steps = zip(matrices, sequence[:-1], sequence[1:], strict=True)
        price = -math.log(initial[sequence[0]])
        price -= sum(math.log(matrix[old, new]) for matrix, old, new in steps)
        cost = losses[np.arange(8), sequence].sum()
        assert forward(FixedShare(m=m), losses).codelength <= cost + price + 1e-9


class TestExtremes:
    @every_prior
    def test_diverged_expert_is_one_that_holds_the_labels_impossible(self, prior):
        losses = random_losses(30, 3)
        diverged, hopeless = losses.copy(), losses.copy()
        diverged[10:, 1], hopeless[10:, 1] = np.inf, 1e4
        one, other = forward(prior, diverged), forward(prior, hopeless)
        np.testing.assert_allclose(one.codelengths, other.codelengths, atol=1e-12)
        np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-12)
        assert np.isfinite(one.codelength)

    @every_prior
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

    @pytest.mark.parametrize("prior", ["bayes", FixedShare(alpha=0.1)], ids=repr)
    @pytest.mark.parametrize("gap", [740, 2000])
    def test_expert_without_prior_weight_never_speaks(self, prior, gap):
        # Its losses are far smaller than the others': they must not set the scale.
        losses = random_losses(20, 3)
        losses[:, 1:] += gap
        trace = forward(prior, losses, [0, 1, 1])
        alone = forward(prior, losses[:, 1:])
        np.testing.assert_allclose(trace.codelengths, alone.codelengths, rtol=1e-13)
        assert trace.posterior[:, 0].tolist() == [0] * 20

    @every_prior
    def test_labels_that_nobody_expected_cost_what_they_must(self, prior):
        losses = random_losses(20, 3)
        trace = forward(prior, losses + 5000)
        expected = forward(prior, losses)
        np.testing.assert_allclose(
            trace.codelengths, expected.codelengths + 5000, rtol=1e-13
        )
        np.testing.assert_allclose(trace.posterior, expected.posterior, atol=1e-10)

    def test_steps_are_safe_when_the_favourite_is_wrong(self):
        # The favourite's likelihood and the other's weight are both very small.
        losses = np.array([[0.0, 600.0], [690.0, 0.0], [0.0, 690.0]])
        prior = FixedShare(alpha=1e-299)
        w, log_alpha = np.log([0.5, 0.5]), math.log(1e-299)
        score = w - losses[0]
        for row in losses[1:]:
            redrawn = log_alpha + logsumexp(score) + w
            score = np.logaddexp(math.log1p(-1e-299) + score, redrawn) - row
        expected = -logsumexp(score)
        assert forward(prior, losses).codelength == pytest.approx(expected, rel=1e-13)

    def test_long_bayesian_stream_does_not_underflow(self):
        # The expert that trails by 50 000 nats half way comes back and wins.
        rng = np.random.default_rng(0)
        losses = rng.random((20_000, 4))
        losses[:10_000, 0] += 5.0
        losses[10_000:, 1:] += 5.5
        trace = forward("bayes", losses)
        sums = np.cumsum(losses.astype(np.longdouble), axis=0)
        running = -logsumexp(-sums - np.log(np.longdouble(4)), axis=1)
        np.testing.assert_allclose(
            np.cumsum(trace.codelengths), running.astype(float), rtol=1e-12
        )
        assert trace.posterior[10_000, 0] == 0
        assert trace.posterior[-1, 0] == pytest.approx(1)

    def test_long_shared_stream_equals_the_recursion_in_logs(self):
        losses = random_losses(2000, 4, scale=3.0)
        losses[:1000, 0] += 5.0
        losses[1000:, 1:] += 5.0
        log_w, score, total = np.log(np.full(4, 0.25)), np.log(np.full(4, 0.25)), 0.0
        for i, row in enumerate(losses):
            if i > 0:
                alpha = min(1.0, 3.0 / (i + 1))
                with np.errstate(divide="ignore"):
                    kept = np.log1p(-alpha) + score
                score = np.logaddexp(kept, np.log(alpha) + log_w)
            score = score - row
            total -= logsumexp(score)
            score -= logsumexp(score)
        assert forward(FixedShare(m=4), losses).codelength == pytest.approx(total)


@settings(max_examples=60, deadline=None)
@given(
    prior=st.sampled_from(PRIORS),
    losses=arrays(
        float, (9, 3), elements=st.one_of(st.floats(0, 1000), st.just(np.inf))
    ),
    border=st.integers(0, 9),
)
def test_any_losses_give_probabilities_and_any_cutting_the_same(prior, losses, border):
    whole, stream = forward(prior, losses), ForwardPass(prior, 3)
    parts = [stream.extend(losses[:border]), stream.extend(losses[border:])]
    assert not np.isnan(whole.codelengths).any()
    assert whole.posterior.min() >= 0
    np.testing.assert_allclose(whole.posterior.sum(axis=1), 1, atol=1e-12)
    lowest, highest = losses.min(axis=1), losses.max(axis=1)
    assert (whole.codelengths >= lowest - 1e-9).all()
    assert (whole.codelengths <= highest + 1e-9)[np.isfinite(highest)].all()
    assert_same_bits(
        (whole.codelengths,), (np.concatenate([part.codelengths for part in parts]),)
    )


class TestArguments:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("fixed-share", FixedShare),
            ("bayes", BayesMixture),
            ("elementwise", ElementwiseMixture),
            (None, FixedShare),
        ],
    )
    def test_names_stand_for_priors(self, name, kind):
        assert type(as_prior(name)) is kind
        assert_same_bits(forward(name, LOSSES), forward(kind(), LOSSES))

    def test_prior_stands_for_itself(self):
        prior = FixedShare(m=5)
        assert as_prior(prior) is prior

    def test_unknown_name_is_refused_with_the_known_ones(self):
        with pytest.raises(ValueError, match=r"'bayes', 'elementwise', 'fixed-share'"):
            as_prior("fixed_share")

    @pytest.mark.parametrize("switching", [3, FixedShare, ["bayes"]])
    def test_other_objects_are_refused_with_the_known_names(self, switching):
        with pytest.raises(TypeError, match="'bayes', 'elementwise', 'fixed-share'"):
            as_prior(switching)

    def test_base_class_is_abstract(self):
        with pytest.raises(TypeError, match="abstract"):
            SwitchingPrior()

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"m": 2, "alpha": 0.1}, "`m` or `alpha`, not both"),
            ({"m": 0.5}, "at least 1, got m=0.5"),
            ({"m": math.nan}, "at least 1, got m=nan"),
            ({"m": math.inf}, "at least 1, got m=inf"),
            ({"m": "2"}, "at least 1, got m='2'"),
            ({"alpha": -0.1}, "between 0 and 1, got alpha=-0.1"),
            ({"alpha": 1.5}, "between 0 and 1, got alpha=1.5"),
        ],
    )
    def test_parameters_are_checked_when_used_and_not_before(self, params, message):
        prior = FixedShare().set_params(**params)
        with pytest.raises(ValueError, match=message):
            prior.check_params()
        with pytest.raises(ValueError, match=message):
            ForwardPass(prior, 3)

    @pytest.mark.parametrize(
        ("losses", "message"),
        [
            ([0.1, 0.2], r"shape \(n_steps, n_experts\), got \(2,\)"),
            (np.zeros((2, 2, 2)), r"got \(2, 2, 2\)"),
            (np.zeros((2, 0)), r"got \(2, 0\)"),
            ([[0.1, math.nan]], "smallest value of nan"),
            ([[0.1, -math.inf]], "smallest value of -inf"),
        ],
    )
    def test_losses_out_of_range_are_refused(self, losses, message):
        with pytest.raises(ValueError, match=message):
            forward("bayes", losses)

    def test_block_with_another_number_of_experts_is_refused(self):
        with pytest.raises(ValueError, match=r"\(n_steps, 3\), got \(1, 2\)"):
            ForwardPass("bayes", 3).extend([[0.1, 0.2]])

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1, 1], r"shape \(3,\), got \(2,\)"),
            ([1, -1, 1], "non-negative"),
            ([0, 0, 0], "positive sum"),
            ([1, math.nan, 1], "finite"),
            ([1, math.inf, 1], "finite"),
        ],
    )
    def test_weights_out_of_range_are_refused(self, weights, message):
        with pytest.raises(ValueError, match=message):
            forward("bayes", LOSSES, weights)

    @pytest.mark.parametrize("n_experts", [0, -1, 2.0])
    def test_number_of_experts_out_of_range_is_refused(self, n_experts):
        with pytest.raises(ValueError, match="`n_experts` must be an integer"):
            ForwardPass("bayes", n_experts)
