"""How exact the forward pass is: against extended precision in logs, and fractions.

Neither witness scales, rescales or shares a line with the package.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from each_case import for_each
from scipy.special import betaln, gammaln, logsumexp
from switching_cases import falling, price, random_losses, summable

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
)
from sklearn_mdl.switching import (
    ForwardPass,
    MarkovPrior,
    RunLength,
    Transition,
    UniversalShare,
)
from sklearn_mdl.switching._filtering import log_sums

LONG = np.longdouble


def test_columns_are_summed_each_on_its_own_scale():
    scores = np.array([[0.0, -5000.0, -np.inf, 800.0], [-1.0, -5001.0, -np.inf, 799.0]])
    found = log_sums(scores)
    np.testing.assert_allclose(found, logsumexp(scores, axis=0), rtol=1e-14)


def drifting_losses(n_steps, n_experts=3):
    """Losses of which now this, now that expert has the smallest for a while."""
    losses = random_losses(n_steps, n_experts, seed=7)
    best = np.arange(n_steps) * 37 // n_steps % n_experts
    losses[np.arange(n_steps), best] /= 2
    return losses


# Recursions in logs. Each gives the codelength of the first 1, 2, ..., N labels.


def shared_in_logs(losses, rates):
    """Fixed share with rates (N, J), several at once: the result is (N, J)."""
    n_experts = losses.shape[1]
    with np.errstate(divide="ignore"):
        log_stay, log_draw = np.log1p(-LONG(rates)), np.log(LONG(rates) / n_experts)
    score = np.full((rates.shape[1], n_experts), -np.log(LONG(n_experts)))
    evidence = np.empty(rates.shape, LONG)
    for t, loss in enumerate(losses.astype(LONG)):
        if t > 0:
            drawn = evidence[t - 1] + log_draw[t]
            score = np.logaddexp(score + log_stay[t][:, None], drawn[:, None])
        score = score - loss
        evidence[t] = np.logaddexp.reduce(score, axis=1)
    return -evidence


def mixed_in_logs(codelengths):
    """Mix codelengths (N, J) with equal weights."""
    n_parts = codelengths.shape[1]
    return -np.logaddexp.reduce(-codelengths, axis=1) + np.log(LONG(n_parts))


def drawn_in_logs(losses, enter, hazards):
    """Priors whose rows are entered with fixed odds and left at rates (N, rows)."""
    n_experts = losses.shape[1]
    with np.errstate(divide="ignore"):
        log_stay, log_draw = np.log1p(-LONG(hazards)), np.log(LONG(hazards))
    entry = np.log(LONG(enter))[:, None] - np.log(LONG(n_experts))
    score = np.repeat(entry, n_experts, axis=1)
    evidence = np.empty(len(losses), LONG)
    for t, loss in enumerate(losses.astype(LONG)):
        if t > 0:
            leaving = np.logaddexp.reduce(score + log_draw[t][:, None], axis=None)
            score = np.logaddexp(score + log_stay[t][:, None], leaving + entry)
        score = score - loss
        evidence[t] = np.logaddexp.reduce(score, axis=None)
    return -evidence


def bayes_in_logs(losses):
    sums = np.cumsum(losses.astype(LONG), axis=0)
    return -np.logaddexp.reduce(-sums, axis=1) + np.log(LONG(losses.shape[1]))


def rates_of(rate, n_steps):
    return np.array([0.0] + [rate(t) for t in range(2, n_steps + 1)])


def hazards_of_switches(n_steps):
    t = np.arange(1, n_steps + 1)
    return np.stack([1 / t, 0 * t], axis=1)


def assert_exact(prior, losses, expected):
    trace = forward(prior, losses, max_rows=0)
    found = np.cumsum(trace.codelengths.astype(LONG))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert trace.codelength == pytest.approx(float(expected[-1]), rel=1e-11)


FIXED_SHARES = [
    (FixedShare(m=2), falling(2)),
    (FixedShare(m=11), falling(11)),
    (FixedShare(alpha=0.01), lambda t: 0.01),
    (FixedShare(alpha=1e-9), lambda t: 1e-9),
    (FixedShare(alpha="summable"), summable),
]
MS = LearnedShare().ms


class TestAgainstLogs:
    def assert_all_exact(self, n_steps, n_steps_of_runs):
        losses = drifting_losses(n_steps)
        assert_exact(BayesMixture(), losses, bayes_in_logs(losses))

        rates = [rate for _, rate in FIXED_SHARES] + [falling(m) for m in MS]
        columns = np.stack([rates_of(rate, n_steps) for rate in rates], axis=1)
        shared = shared_in_logs(losses, columns)
        for (prior, _), expected in zip(FIXED_SHARES, shared.T, strict=False):
            assert_exact(prior, losses, expected)
        learned = mixed_in_logs(shared[:, len(FIXED_SHARES) :])
        assert_exact(LearnedShare(), losses, learned)

        switches = drawn_in_logs(losses, [0.5, 0.5], hazards_of_switches(n_steps))
        assert_exact(SwitchDistribution(), losses, switches)

        losses = losses[:n_steps_of_runs]
        geometric = 0.5 ** np.arange(1, 41)
        hazards = np.tile(geometric, (len(losses), 1))
        expected = drawn_in_logs(losses, geometric / geometric.sum(), hazards)
        assert_exact(RunLength(), losses, expected)

    @pytest.mark.slow
    def test_ten_thousand_steps(self):
        self.assert_all_exact(10_000, 3000)

    @pytest.mark.slow
    def test_a_million_steps(self):
        self.assert_all_exact(1_000_000, 100_000)

    def test_single_costs_keep_their_digits_far_into_the_stream(self):
        losses = drifting_losses(10_000)
        for prior, rate in FIXED_SHARES:
            rates = rates_of(rate, len(losses))[:, None]
            expected = np.diff(shared_in_logs(losses, rates)[:, 0])
            found = forward(prior, losses, max_rows=0).codelengths[1:]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)

    def test_expert_that_trails_far_behind_comes_back_and_wins(self):
        # By 50 000 nats half way; nothing of that is lost in sums of logs.
        rng = np.random.default_rng(0)
        losses = rng.random((20_000, 4))
        losses[:10_000, 0] += 5.0
        losses[10_000:, 1:] += 5.5
        trace = forward("bayes", losses)
        running = bayes_in_logs(losses)
        np.testing.assert_allclose(np.cumsum(trace.codelengths), running, rtol=1e-12)
        assert trace.posterior[10_000, 0] == 0
        assert trace.posterior[-1, 0] == pytest.approx(1)

    def test_part_of_a_mixture_that_trails_far_behind_comes_back_and_wins(self):
        # Never to switch is 5000 nats behind at first, and thousands ahead at last.
        losses = np.zeros((4000, 2))
        losses[np.arange(1000), np.arange(1000) % 2] = 30.0
        losses[1000:, 1] = 30.0
        ms = (1, 1000)
        rates = np.stack([rates_of(falling(m), len(losses)) for m in ms], axis=1)
        shared = shared_in_logs(losses, rates)
        assert shared[999, 0] > shared[999, 1] + 5000
        assert_exact(LearnedShare(ms), losses, mixed_in_logs(shared))

    def test_steps_are_safe_when_the_favourite_is_wrong(self):
        # The favourite's likelihood and the other's weight are both very small.
        losses = np.array([[0.0, 600.0], [690.0, 0.0], [0.0, 690.0]])
        expected = shared_in_logs(losses, rates_of(lambda t: 1e-299, 3)[:, None])[:, 0]
        assert_exact(FixedShare(alpha=1e-299), losses, expected)


class Borders(MarkovPrior):
    """Redraws at every 1000th step only."""

    def transition(self, t):
        return Transition(draw=np.array([float(t % 1000 == 1)]))


class TestUnlifted:
    """Priors under which no draw lifts an expert again for a while, or ever."""

    @pytest.mark.parametrize("gap", [46.0, 800.0])
    @pytest.mark.parametrize("n_turns", [1, 8])
    def test_forced_alternation_keeps_both_its_sequences(self, gap, n_turns):
        # With two experts and never a stay there are two sequences, 0101... and
        # 1010...: one falls behind, by masses of 1e-20 or 1e-2780, and catches up.
        steps = np.arange(4 * n_turns)
        losses = np.zeros((len(steps), 2))
        wrong = np.where(steps < 2 * n_turns, 1 - steps % 2, steps % 2)
        losses[steps, wrong] = gap
        prior = FixedShare(alpha=1, redraw=False)
        trace = forward(prior, losses)
        sums = np.stack(
            [np.cumsum(losses[steps, (steps + k) % 2]) for k in (0, 1)], axis=1
        )
        expected = mixed_in_logs(sums.astype(LONG))
        np.testing.assert_allclose(np.cumsum(trace.codelengths), expected, rtol=1e-13)
        # Up to here both sequences cost the same, and the next expert is open.
        stream = ForwardPass(prior, 2)
        stream.extend(losses)
        np.testing.assert_allclose(stream.weights, 0.5, rtol=1e-11)

    def test_masses_of_1e_20_survive_a_swap(self):
        stream = ForwardPass(FixedShare(alpha=1, redraw=False), 2)
        gap = 20 * math.log(10)
        stream.extend([[0.0, gap]])
        np.testing.assert_allclose(stream.weights, [1e-20, 1.0], rtol=1e-13)
        stream.extend([[0.0, 0.0]])
        np.testing.assert_allclose(stream.weights, [1.0, 1e-20], rtol=1e-13)

    @pytest.mark.parametrize("n_experts", [2, 3, 5])
    def test_never_to_stay_equals_the_matrices_in_logs(self, n_experts):
        losses = random_losses(60, n_experts, scale=400.0)
        leave = np.full((n_experts, n_experts), -math.log(n_experts - 1))
        np.fill_diagonal(leave, -np.inf)
        score = np.full(n_experts, -math.log(n_experts)) - losses[0]
        for loss in losses[1:]:
            score = np.logaddexp.reduce(score[:, None] + leave, axis=0) - loss
        found = forward(FixedShare(alpha=1, redraw=False), losses).codelength
        assert found == pytest.approx(-np.logaddexp.reduce(score), rel=1e-13)

    def test_expert_may_come_back_between_draws_that_are_rare(self):
        # It is 1500 nats behind before it turns better, and there is no draw yet.
        losses = np.zeros((4000, 2))
        losses[:300, 0] = 5.0
        losses[300:1000, 1] = 5.0
        losses[1000:] = drifting_losses(3000, 2)
        rates = rates_of(lambda t: float(t % 1000 == 1), 4000)
        assert_exact(Borders(), losses, shared_in_logs(losses, rates[:, None])[:, 0])

    @pytest.mark.parametrize("theta", [1e-150, 1e-250])
    def test_expert_may_come_back_by_a_switch_that_is_all_but_excluded(self, theta):
        # It pays 345 or 576 nats for the switch, where its row has no draw to offer.
        losses = drifting_losses(900)
        losses[:300, 0] += 5.0
        losses[300:, 1:] += 5.0
        expected = drawn_in_logs(losses, [theta, 1 - theta], hazards_of_switches(900))
        assert_exact(SwitchDistribution(theta), losses, expected)
        # Cut into single steps, the pass does not forget in between either.
        stream = ForwardPass(SwitchDistribution(theta), 3)
        costs = [stream.extend(row[np.newaxis]).codelength for row in losses]
        np.testing.assert_array_equal(
            costs, forward(SwitchDistribution(theta), losses).codelengths
        )

    def test_digits_survive_where_an_expert_without_weight_sets_the_scale(self):
        # Beside its loss of zero the others' likelihoods are 1e-278 and 1e-319; the
        # second of them has the last word.
        losses = np.array([[0.0, 640.0, 735.0], [0.0, 200.0, 0.0]])
        found = forward(Borders(), losses, [0, 1, 1])
        expected = -np.logaddexp(-840.0, -735.0) + math.log(2)
        assert found.codelength == pytest.approx(expected, rel=1e-14)
        assert found.codelengths[1] == pytest.approx(95.0, rel=1e-13)

    @pytest.mark.parametrize("n_before", [0, 1, 5])
    def test_digits_survive_a_single_step_at_which_they_are_few(self, n_before):
        # An expert is at e^-740, where a float64 has two digits left, and back at once.
        losses = np.zeros((n_before + 4, 2))
        losses[n_before, 0] = losses[n_before + 1, 1] = 740.0
        trace = forward(Borders(), losses)
        expected = np.zeros(n_before + 4)
        expected[n_before : n_before + 2] = math.log(2), 740.0 - math.log(2)
        np.testing.assert_allclose(trace.codelengths, expected, rtol=1e-14, atol=1e-12)
        np.testing.assert_allclose(trace.posterior[-2:], 0.5, rtol=1e-12)

    def test_impossible_labels_between_draws_are_exact_too(self):
        losses = random_losses(50, 3, scale=300.0)
        losses[3, 0] = losses[20] = np.inf
        whole = forward(Borders(), losses).codelengths
        np.testing.assert_allclose(whole, forward("bayes", losses).codelengths)

    @pytest.mark.quick("3")
    @pytest.mark.parametrize("n_experts", [2, 3])
    def test_numbers_of_draws_that_were_unlikely_may_be_right_in_the_end(
        self, n_experts
    ):
        # The first half asks for no draw and the second for one at every step; what
        # explains both best is a number that has a mass of 1e-400 half way.
        n_steps = 4000
        first, second = np.arange(n_steps // 2), np.arange(n_steps // 2, n_steps)
        experts = np.concatenate([0 * first, second % n_experts])
        n_switches = np.count_nonzero(np.diff(experts))
        n_stays = n_steps - 1 - n_switches
        # Some of the stays are draws as well. What is left is a Beta integral.
        also = np.arange(n_stays + 1)
        n_draws = n_switches + also
        terms = (
            gammaln(n_stays + 1) - gammaln(also + 1) - gammaln(n_stays - also + 1)
        ) + (betaln(n_draws + 0.5, n_steps - 1 - n_draws + 0.5) - betaln(0.5, 0.5))
        expected = -np.logaddexp.reduce(terms - (n_draws + 1) * math.log(n_experts))
        found = price(UniversalShare(), experts, n_experts)
        assert found == pytest.approx(expected, rel=1e-10)
        if n_experts > 2:
            return
        # So much for certain labels and impossible ones; here all are possible.
        losses = np.full((n_steps, n_experts), 700.0)
        losses[np.arange(n_steps), experts] = 0.0
        possible = forward(UniversalShare(), losses, max_rows=0).codelength
        assert possible == pytest.approx(expected, rel=1e-10)


# Fractions: the probability of the labels is a rational number, worked out exactly.


def rational_probabilities(n_steps):
    options = [Fraction(*pair) for pair in [(1, 3), (1, 7), (2, 5), (6, 7), (1, 1)]]
    picks = np.random.default_rng(5).integers(len(options), size=(n_steps, 3))
    return [[options[i] for i in row] for row in picks.tolist()]


def minus_log(fraction):
    return math.log(fraction.denominator) - math.log(fraction.numerator)


def shared_in_fractions(probabilities, rate):
    state = [Fraction(1, 3)] * 3
    for t, row in enumerate(probabilities, start=1):
        if t > 1:
            total = sum(state)
            state = [(1 - rate(t)) * s + rate(t) * total / 3 for s in state]
        state = [s * p for s, p in zip(state, row, strict=True)]
    return sum(state)


def drawn_in_fractions(probabilities, length, at_least):
    """Add up over the blocks between draws.

    A block that begins after `i` outcomes ends after `j` with probability
    ``length(i, j)``, and lasts beyond `j` with probability ``at_least(i, j)``.
    """
    n_steps = len(probabilities)
    products = [[Fraction(1)] * 3]
    for row in probabilities:
        products.append([a * p for a, p in zip(products[-1], row, strict=True)])

    def labels(i, j):
        ends = zip(products[i], products[j], strict=True)
        return sum(late / early for early, late in ends) / 3

    begins = [Fraction(1)] + [Fraction(0)] * (n_steps - 1)
    for j in range(1, n_steps):
        begins[j] = sum(begins[i] * length(i, j) * labels(i, j) for i in range(j))
    return sum(
        begins[i] * at_least(i, n_steps) * labels(i, n_steps) for i in range(n_steps)
    )


def universal_in_fractions(probabilities):
    """Average over all numbers of draws, which all rates in between are made of."""
    rows = {0: [Fraction(1, 3)] * 3}
    for t, row in enumerate(probabilities, start=1):
        if t > 1:
            moved = {s: [Fraction(0)] * 3 for s in range(t)}
            for s, state in rows.items():
                draw = Fraction(2 * s + 1, 2 * (t - 2) + 2)
                share = draw * sum(state) / 3
                moved[s] = [
                    m + (1 - draw) * p for m, p in zip(moved[s], state, strict=True)
                ]
                moved[s + 1] = [m + share for m in moved[s + 1]]
            rows = moved
        rows = {
            s: [a * p for a, p in zip(state, row, strict=True)]
            for s, state in rows.items()
        }
    return sum(sum(state) for state in rows.values())


class TestAgainstFractions:
    def assert_exact(self, prior, probabilities, expected):
        losses = -np.log(np.array(probabilities, dtype=float))
        found = forward(prior, losses).codelength
        assert found == pytest.approx(minus_log(expected), rel=1e-13)

    @for_each(
        "prior, rate",
        [
            (BayesMixture(), lambda t: Fraction(0)),
            (FixedShare(m=2), lambda t: Fraction(1, t)),
            (FixedShare(m=11), lambda t: min(Fraction(1), Fraction(10, t))),
            (FixedShare(alpha=0.25), lambda t: Fraction(1, 4)),
            (FixedShare(alpha=Fraction(1, 7)), lambda t: Fraction(1, 7)),
            # The others' share of 1/6 is a redraw of 1/4.
            (FixedShare(alpha=Fraction(1, 6), redraw=False), lambda t: Fraction(1, 4)),
        ],
    )
    def test_fixed_share(self, prior, rate):
        probabilities = rational_probabilities(200)
        self.assert_exact(
            prior, probabilities, shared_in_fractions(probabilities, rate)
        )

    def test_learned_share(self):
        probabilities = rational_probabilities(150)
        parts = [
            shared_in_fractions(
                probabilities, lambda t, m=m: min(1, Fraction(m - 1, t))
            )
            for m in MS
        ]
        self.assert_exact(LearnedShare(), probabilities, sum(parts) / len(parts))

    @for_each("theta", [Fraction(1, 2), Fraction(9, 10)])
    def test_switch_distribution(self, theta):
        probabilities = rational_probabilities(60)
        expected = drawn_in_fractions(
            probabilities,
            lambda i, j: theta * Fraction(i + 1, j * (j + 1)),
            lambda i, j: 1 - theta + theta * Fraction(i + 1, j),
        )
        self.assert_exact(SwitchDistribution(theta), probabilities, expected)

    def test_run_lengths(self):
        probabilities = rational_probabilities(60)
        expected = drawn_in_fractions(
            probabilities,
            lambda i, j: Fraction(1, (j - i) * (j - i + 1)),
            lambda i, j: Fraction(1, j - i),
        )
        self.assert_exact(RunLength(None), probabilities, expected)

    def test_mixed_run_lengths(self):
        probabilities = rational_probabilities(40)
        rates = [Fraction(1, 2**j) for j in range(1, 6)]
        weights = [rate / sum(rates) for rate in rates]
        mixed = list(zip(weights, rates, strict=True))
        expected = drawn_in_fractions(
            probabilities,
            lambda i, j: sum(w * a * (1 - a) ** (j - i - 1) for w, a in mixed),
            lambda i, j: sum(w * (1 - a) ** (j - i - 1) for w, a in mixed),
        )
        self.assert_exact(RunLength(5), probabilities, expected)

    def test_universal_share(self):
        probabilities = rational_probabilities(60)
        expected = universal_in_fractions(probabilities)
        self.assert_exact(UniversalShare(), probabilities, expected)
