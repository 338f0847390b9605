"""What priors cost: bounds over the loss of any sequence of experts, and their numbers.

A mixture costs at most the loss of any sequence and what the prior asks for it. That
price is what a pass costs in which the experts of the sequence hold every label certain
and all others hold it impossible: so bounds are tried on prices, and again on losses.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from each_case import for_each
from hypothesis import given, settings, strategies as st
from scipy.special import gammaln
from switching_cases import every_kind, price, random_losses

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
)
from sklearn_mdl.switching import ElementwiseMixture, RunLength, UniversalShare

RATES = np.concatenate([[0.0, 1e-4], np.linspace(0.001, 0.999, 60), [1.0]])


class Comparator(NamedTuple):
    """A sequence of experts that mixtures are compared with."""

    experts: np.ndarray
    n_experts: int

    @property
    def n_steps(self):
        return len(self.experts)

    @property
    def switches(self):
        """Steps, counted from 1, that another expert enters than spoke before."""
        return np.flatnonzero(np.diff(self.experts)) + 2

    @property
    def n_blocks(self):
        return len(self.switches) + 1

    def loss_in(self, losses):
        return losses[np.arange(self.n_steps), self.experts].sum()


@st.composite
def comparators(draw, max_blocks=7, max_length=60):
    n_experts = draw(st.integers(2, 6))
    runs = draw(
        st.lists(
            st.tuples(st.integers(0, n_experts - 1), st.integers(1, max_length)),
            min_size=1,
            max_size=max_blocks,
        )
    )
    experts, lengths = zip(*runs, strict=True)
    return Comparator(np.repeat(experts, lengths), n_experts)


def cross_entropy(p, q):
    """-p log q - (1 - p) log(1 - q), with 0 log 0 = 0."""
    terms = [(p, q), (1 - p, 1 - q)]
    return sum(-a * math.log(b) if b > 0 else math.inf for a, b in terms if a > 0)


def log_binomial(n, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


# Bounds on the price, from the documentation and from the literature it names.


def bound_without_switch(c):
    return math.log(c.n_experts) if c.n_blocks == 1 else math.inf


def bound_of_every_step(c):
    return c.n_steps * math.log(c.n_experts)


def bound_at_rate(alpha):
    def bound(c):
        chances = c.n_steps - 1
        per_chance = cross_entropy((c.n_blocks - 1) / max(chances, 1), alpha)
        rates = chances * per_chance if chances else 0.0
        return c.n_blocks * math.log(c.n_experts) + rates

    return bound


def bound_at_one_over_t(c):
    return c.n_blocks * (math.log(c.n_experts) + math.log(c.n_steps))


def bound_at_falling_rate(m):
    def bound(c):
        rate = m - 1
        if c.n_steps <= rate:
            return bound_of_every_step(c)
        late = c.switches[c.switches > rate]
        return (
            (len(late) + rate) * math.log(c.n_experts)
            + log_binomial(c.n_steps, rate)
            + np.log(late / rate).sum()
        )

    return bound


def bound_at_summable_rate(c):
    t = c.switches
    rates = -np.expm1(-1 / ((t + 1) * np.log(t + 1) ** 2))
    return c.n_blocks * math.log(c.n_experts) + 1.1 - np.log(rates).sum()


def bound_of_switches(theta):
    def bound(c):
        # Outcomes before each block; the first block comes after none.
        t = np.array([0, *(c.switches - 1)])
        waits = np.log(t[1:] * (t[1:] + 1) / (t[:-1] + 1)).sum()
        blocks = -(c.n_blocks - 1) * math.log(theta) - math.log(1 - theta)
        return c.n_blocks * math.log(c.n_experts) + blocks + waits

    return bound


def bound_of_switches_as_documented(c):
    last = c.switches[-1] - 1 if len(c.switches) else 0
    later = (c.n_blocks - 1) * math.log(last) if last else 0.0
    per_block = math.log(2) + math.log(c.n_experts)
    return c.n_blocks * per_block + later + math.log(last + 1)


def bound_of_runs(extra):
    def bound(c):
        per_block = math.log(c.n_experts) + 2 * math.log(c.n_steps / c.n_blocks + 1)
        return c.n_blocks * (per_block + extra)

    return bound


def bound_over(*ms):
    def bound(c):
        best = min(price(FixedShare(m), c.experts, c.n_experts) for m in ms)
        return best + math.log(len(ms))

    return bound


def bound_of_best_rate(c):
    best = min(price(FixedShare(alpha=a), c.experts, c.n_experts) for a in RATES)
    return best + math.log(2) + math.log(c.n_steps) / 2


BOUNDS = [
    (BayesMixture(), bound_without_switch),
    (ElementwiseMixture(), bound_of_every_step),
    (FixedShare(alpha=0.01), bound_at_rate(0.01)),
    (FixedShare(alpha=0.3), bound_at_rate(0.3)),
    (FixedShare(alpha=0.3, redraw=False), bound_at_rate(0.3)),
    (FixedShare(alpha="summable"), bound_at_summable_rate),
    (FixedShare(), bound_at_one_over_t),
    (FixedShare(m=2), bound_at_falling_rate(2)),
    (FixedShare(m=4), bound_at_falling_rate(4)),
    (FixedShare(m=11), bound_at_falling_rate(11)),
    (SwitchDistribution(), bound_of_switches(0.5)),
    (SwitchDistribution(), bound_of_switches_as_documented),
    (SwitchDistribution(0.9), bound_of_switches(0.9)),
    (RunLength(n_rates=None), bound_of_runs(0.0)),
    (RunLength(), bound_of_runs(0.41)),
    (LearnedShare((1, 2, 5)), bound_over(1, 2, 5)),
    (LearnedShare(), bound_over(2, 3, 6, 11, 21)),
    (UniversalShare(), bound_of_best_rate),
]
every_bound = for_each("prior, bound", BOUNDS)


class TestBounds:
    @pytest.mark.slow
    @every_bound
    @settings(max_examples=25, deadline=None)
    @given(comparator=comparators())
    def test_no_sequence_costs_more_than_its_bound(self, prior, bound, comparator):
        cost = price(prior, comparator.experts, comparator.n_experts)
        assert cost <= bound(comparator) + 1e-9

    @every_kind
    @settings(max_examples=10, deadline=None)
    @given(
        comparator=comparators(max_blocks=4, max_length=20),
        seed=st.integers(0, 99),
        scale=st.sampled_from([0.1, 1.0, 10.0]),
        gain=st.floats(0, 5),
    )
    def test_mixture_pays_at_most_the_price_of_any_sequence(
        self, prior, comparator, seed, scale, gain
    ):
        # With the test above: within its bound of the loss of any sequence.
        n_steps, experts = comparator.n_steps, comparator.experts
        losses = random_losses(n_steps, comparator.n_experts, seed, scale)
        losses[np.arange(n_steps), experts] /= 1 + gain
        cost = price(prior, experts, comparator.n_experts)
        found = forward(prior, losses).codelength
        assert found <= comparator.loss_in(losses) + cost + 1e-9

    @settings(max_examples=40, deadline=None)
    @given(
        n_experts=st.integers(1, 40),
        n_steps=st.integers(1, 200),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_bayes_stays_within_log_k_of_the_best_expert(
        self, n_experts, n_steps, seed
    ):
        losses = random_losses(n_steps, n_experts, seed)
        best = losses.sum(axis=0).min()
        found = forward("bayes", losses).codelength
        assert best - 1e-9 <= found <= best + math.log(n_experts) + 1e-9

    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 99), n_experts=st.sampled_from([2, 6, 40]))
    def test_fixed_share_for_two_blocks_stays_within_log_n_of_bayes(
        self, seed, n_experts
    ):
        losses = random_losses(300, n_experts, seed)
        losses[:, 0] /= 1 + seed % 5
        excess = (
            forward("fixed-share", losses).codelength
            - forward("bayes", losses).codelength
        )
        leave = (1 - 1 / n_experts) / np.arange(2, 301)
        bound = -np.log1p(-leave).sum()
        assert excess <= bound + 1e-9
        assert bound <= math.log(300)

    @settings(max_examples=20, deadline=None)
    @given(
        ms=st.lists(st.floats(1, 30), min_size=1, max_size=5),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_learned_share_stays_within_log_j_of_the_best_m(self, ms, seed):
        losses = random_losses(120, 4, seed)
        losses[:60, 0] /= 3
        losses[60:, 1] /= 3
        costs = [forward(FixedShare(m), losses).codelength for m in ms]
        found = forward(LearnedShare(ms), losses).codelength
        assert min(costs) - 1e-9 <= found <= min(costs) + math.log(len(ms)) + 1e-9

    @settings(max_examples=12, deadline=None)
    @given(
        n_steps=st.integers(1, 250),
        every=st.integers(1, 250),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_universal_share_stays_within_its_bound_of_the_best_rate(
        self, n_steps, every, seed
    ):
        losses = random_losses(n_steps, 3, seed)
        steps = np.arange(n_steps)
        losses[steps, steps // every % 3] /= 10
        best = min(forward(FixedShare(alpha=a), losses).codelength for a in RATES)
        found = forward(UniversalShare(), losses).codelength
        assert found <= best + math.log(2) + math.log(n_steps) / 2 + 1e-9

    def test_fixed_share_follows_the_expert_that_takes_over(self):
        losses = np.zeros((400, 2))
        losses[:200, 0] = losses[200:, 1] = 1.0
        trace = forward(FixedShare(m=2), losses)
        assert trace.codelength <= 2 * (math.log(2) + math.log(400))
        assert forward("bayes", losses).codelength == pytest.approx(200)
        assert trace.posterior[199, 1] > 0.9
        assert trace.posterior[399, 0] > 0.9


def halves(n_steps):
    return np.repeat([0, 1], n_steps // 2)


class TestPrices:
    """Numbers that the documentation names, and how prices grow."""

    def test_bound_of_the_paper_does_not_hold_for_every_sequence(self):
        # b log K + (b - 1) log(N / (b - 1)) for b = 2 blocks, K = 2 and N = 1000.
        claimed = 2 * math.log(2) + math.log(1000)
        found = price(FixedShare(m=2), halves(1000), 2)
        assert round(claimed, 2) == 8.29
        assert round(found, 2) == 10.94
        assert found <= 2 * (math.log(2) + math.log(1000))

    @settings(max_examples=10, deadline=None)
    @given(alpha=st.floats(0.01, 0.9), redraw=st.booleans())
    def test_price_at_a_constant_rate_counts_stays_and_switches(self, alpha, redraw):
        experts = np.repeat([0, 2, 1, 2], [5, 1, 30, 4])
        to_one = alpha / 3 if redraw else alpha / 2
        stay = 1 - 2 * to_one
        expected = math.log(3) - 3 * math.log(to_one) - 36 * math.log(stay)
        found = price(FixedShare(alpha=alpha, redraw=redraw), experts, 3)
        assert found == pytest.approx(expected, rel=1e-13)

    @pytest.mark.slow
    def test_never_to_switch_at_a_summable_rate_costs_at_most_a_constant(self):
        n_steps, n_experts = 100_000, 50
        prior = FixedShare(alpha="summable")
        experts = np.zeros(n_steps, dtype=int)
        extra = price(prior, experts, n_experts) - math.log(n_experts)
        assert 0.9 < extra <= 1.1
        # Nor is it more for any number of experts, or in any longer stream: what the
        # later steps add is below the integral of 1 / (t log(t)^2).
        rates = np.array([prior.rate(t) for t in range(2, n_steps + 1)])
        so_far = -np.log1p(-rates).sum()
        assert extra <= so_far
        assert so_far + 1 / math.log(n_steps + 1) <= 1.1

    def test_switch_at_a_summable_rate_costs_two_log_log_t_more(self):
        summable, falling = FixedShare(alpha="summable"), FixedShare(m=2)
        for t in (10, 30, 100, 1000, 10**6):
            more = math.log(falling.rate(t) / summable.rate(t))
            assert more == pytest.approx(2 * math.log(math.log(t)), abs=0.2)
        # It costs more with one switch half way, and less with an early one.
        early = np.repeat([0, 1], [3, 997])
        assert price(summable, early, 2) < price(falling, early, 2) - 1.5
        assert price(summable, halves(1000), 2) > price(falling, halves(1000), 2) + 0.7

    @pytest.mark.slow
    @for_each("theta", [0.5, 0.9])
    def test_price_of_a_switch_distribution_is_bounded_after_the_last_switch(
        self, theta
    ):
        prior = SwitchDistribution(theta)
        experts = np.repeat([0, 1, 0], [3, 20, 4])
        longest = np.concatenate([experts, np.zeros(20_000, dtype=int)])
        blocks = Comparator(experts, 2)
        prices = [price(prior, longest[:n], 2) for n in (27, 100, 1000, 20_000)]
        # It rises at first, as it turns out that the last block is the last one, ...
        assert prices == sorted(prices)
        # ... but not beyond what these blocks cost, which does not depend on N.
        assert prices[-1] <= bound_of_switches(theta)(blocks)
        fixed = [price(FixedShare(m=2), longest[:n], 2) for n in (1000, 20_000)]
        assert prices[3] - prices[2] < 0.4 < 1 < fixed[1] - fixed[0]

    @for_each("n_rates", [1, 2, 3, 4, 5, 6, 10, 40, 1000])
    def test_mixed_geometric_lengths_are_near_the_exact_ones(self, n_rates):
        # By the formulas, for lengths up to 2^n_rates, in logs.
        rates = 0.5 ** np.arange(1, n_rates + 1)
        log_weights = np.log(rates / rates.sum())
        d = np.unique(np.floor(2 ** np.arange(0, min(n_rates, 60) + 1e-9, 0.125)))
        stays = np.multiply.outer(d - 1, np.log1p(-rates)) + log_weights
        at_least = np.logaddexp.reduce(stays, axis=1)
        exactly = np.logaddexp.reduce(stays + np.log(rates), axis=1)
        within = 0.41 if n_rates >= 5 else 0.45
        assert np.abs(at_least + np.log(d)).max() <= within
        assert np.abs(exactly + np.log(d) + np.log1p(d)).max() <= within

    @for_each("n_rates", [3, 8, 40])
    def test_passes_know_these_lengths(self, n_rates):
        # Expert 0 is hardly ever drawn: its block is a single run, and its price gives
        # the probability of that length, if another block follows, or of at least that.
        weights = [1e-13, 1.0]
        for d, ended in itertools.product([1, 2, 3, 7, 8, 200, 256], [True, False]):
            if d > 2**n_rates:
                continue
            experts = [0] * d + [1] * ended
            mixed, exact = (
                price(RunLength(n), experts, 2, weights) + math.log(1e-13)
                for n in (n_rates, None)
            )
            assert exact == pytest.approx(math.log(d) + ended * math.log(d + 1))
            assert abs(mixed - exact) <= (0.41 if n_rates >= 5 else 0.45)
