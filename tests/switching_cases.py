"""Every switching prior and its definition, for the tests of what serves them all.

A definition is a function from the prior weights ``w`` of shape (K,) and a number of
steps ``N`` to the probabilities of all sequences of experts, an array of shape
``(K,) * N``. It is written from what the prior means, by enumeration, and knows nothing
of states, rows and transitions.

`CASES` holds every configuration, limits of others included, for the tests against
enumeration. `KINDS` holds one configuration of every kind of state and transition, for
the invariants that the enumeration of short streams cannot show.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from each_case import for_each
from scipy.special import beta, logsumexp

from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
)
from sklearn_mdl.switching import (
    ElementwiseMixture,
    MarkovPrior,
    RunLength,
    Transition,
    UniversalShare,
)

# Definitions. All but "others" draw experts from the weights and keep them meanwhile:
# what differs is only the probability of the steps at which an expert is drawn.


def drawn_at(probability, own_weights=None):
    """Define by the probability of the steps, from 0 on, at which experts are drawn."""

    def definition(w, n_steps):
        w = np.array(own_weights) if own_weights is not None else w
        sequences = np.indices((len(w),) * n_steps).reshape(n_steps, -1)
        total = np.zeros(sequences.shape[1])
        for later in itertools.product([False, True], repeat=n_steps - 1):
            drawn = np.array([True, *later])
            kept = np.flatnonzero(~drawn)
            unbroken = (sequences[kept] == sequences[kept - 1]).all(axis=0)
            starts = np.flatnonzero(drawn).tolist()
            experts = w[sequences[starts]].prod(axis=0)
            total += probability(starts, n_steps) * experts * unbroken
        return total.reshape((len(w),) * n_steps)

    return definition


def shared(rate, own_weights=None):
    """Draw with probability ``rate(t)`` into step ``t``, counted from 1."""

    def probability(starts, n_steps):
        steps = range(1, n_steps)
        return math.prod(rate(t + 1) if t in starts else 1 - rate(t + 1) for t in steps)

    return drawn_at(probability, own_weights)


def at_unknown_rate(a, b):
    """Average over a constant rate with a Beta prior: an integral for every number."""

    def probability(starts, n_steps):
        n_draws = len(starts) - 1
        n_kept = n_steps - 1 - n_draws
        return beta(n_draws + a, n_kept + b) / beta(a, b)

    return probability


def after_runs(length, at_least):
    """Draw after blocks of independent lengths, the last of which may go on."""

    def probability(starts, n_steps):
        *runs, last = np.diff([*starts, n_steps]).tolist()
        return math.prod(length(d) for d in runs) * at_least(last)

    return probability


def after_geometric_runs(n_rates):
    """Mix geometric lengths of the rates 1/2, 1/4, ..., weighted in proportion."""
    rates = 0.5 ** np.arange(1, n_rates + 1)
    weights = rates / rates.sum()
    return after_runs(
        lambda d: np.sum(weights * rates * (1 - rates) ** (d - 1)),
        lambda d: np.sum(weights * (1 - rates) ** (d - 1)),
    )


def after_switches(theta):
    """Add up over the number of blocks, as van Erven, Grunwald and de Rooij have it."""

    def probability(starts, n_steps):
        n_seen = len(starts)
        times = math.prod(
            (before + 1) / (t * (t + 1)) for before, t in itertools.pairwise(starts)
        )
        # Whoever has more blocks than are seen switches after the last step or later.
        unseen = (starts[-1] + 1) / n_steps
        return theta ** (n_seen - 1) * times * ((1 - theta) + theta * unseen)

    return probability


def shared_with_others(rate):
    """Multiply K x K matrices, in which no expert is drawn to follow itself."""

    def definition(w, n_steps):
        table, n_experts = w, len(w)
        for t in range(2, n_steps + 1):
            matrix = np.eye(n_experts)
            for i, j in itertools.product(range(n_experts), repeat=2):
                rest = sum(w[other] for other in range(n_experts) if other != i)
                if rest > 0:
                    matrix[i, j] = rate(t) * w[j] / rest if i != j else 1 - rate(t)
            table = table[..., np.newaxis] * matrix
        return table

    return definition


def average(definitions):
    """Average the probabilities themselves."""

    def definition(w, n_steps):
        return sum(each(w, n_steps) for each in definitions) / len(definitions)

    return definition


def falling(m):
    return lambda t: min(1.0, (m - 1) / t)


def summable(t):
    return 1 - math.exp(-1 / ((t + 1) * math.log(t + 1) ** 2))


class Tiring(MarkovPrior):
    """A prior such as users may write: draws enter either of two rows, which age."""

    def rows(self):
        return np.array([0.7, 0.3])

    def transition(self, t):
        return Transition(
            draw=self.hazard(np.arange(t)), enter=self.rows(), ageing=True
        )

    @staticmethod
    def hazard(row):
        return (row + 1) / (row + 4)

    @classmethod
    def at_least(cls, d):
        stays = [1 - cls.hazard(first + np.arange(d - 1)) for first in (0, 1)]
        return 0.7 * stays[0].prod() + 0.3 * stays[1].prod()

    @classmethod
    def exactly(cls, d):
        return cls.at_least(d) - cls.at_least(d + 1)


class RarelyShared(MarkovPrior):
    """A prior that draws into every third step only: weights just fall in between."""

    def transition(self, t):
        return Transition(draw=np.array([self.rate(t)]))

    @staticmethod
    def rate(t):
        return 0.3 if t % 3 == 1 else 0.0


class Forgetful(MarkovPrior):
    """A prior that counts draws at four steps; any later draw resets the count."""

    counted = (2, 3, 5, 6)
    rates = np.array([0.3, 1.0, 0.2, 0.5, 0.6])

    def transition(self, t):
        n_rows = 1 + sum(step < t for step in self.counted)
        draw = self.rates[:n_rows]
        return Transition(draw, enter=None) if t in self.counted else Transition(draw)

    @classmethod
    def probability(cls, starts, n_steps):
        row, total = 0, 1.0
        for t in range(2, n_steps + 1):
            drawn = t - 1 in starts
            total *= cls.rates[row] if drawn else 1 - cls.rates[row]
            if drawn:
                row = row + 1 if t in cls.counted else 0
        return total


class SometimesAgeing(MarkovPrior):
    """A prior whose kept experts change rows at some steps only."""

    def transition(self, t):
        assert t >= 2, "there is no transition into the first step"
        n_rows = 1 + (t - 1) // 3
        return Transition(draw=np.full(n_rows, 0.3), ageing=t % 3 == 0)


CASES = [
    (BayesMixture(), shared(lambda t: 0.0)),
    (ElementwiseMixture(), shared(lambda t: 1.0)),
    (FixedShare(), shared(falling(2))),
    (FixedShare(m=11), shared(falling(11))),
    (FixedShare(m=1), shared(falling(1))),
    (FixedShare(m=3.5), shared(falling(3.5))),
    (FixedShare(alpha=0.2), shared(lambda t: 0.2)),
    (FixedShare(alpha=0), shared(lambda t: 0.0)),
    (FixedShare(alpha=1), shared(lambda t: 1.0)),
    (FixedShare(alpha="summable"), shared(summable)),
    (FixedShare(redraw=False), shared_with_others(falling(2))),
    (FixedShare(m=11, redraw=False), shared_with_others(falling(11))),
    (FixedShare(alpha=0.2, redraw=False), shared_with_others(lambda t: 0.2)),
    (FixedShare(alpha=1, redraw=False), shared_with_others(lambda t: 1.0)),
    (SwitchDistribution(), drawn_at(after_switches(0.5))),
    (SwitchDistribution(0.9), drawn_at(after_switches(0.9))),
    (UniversalShare(), drawn_at(at_unknown_rate(0.5, 0.5))),
    (UniversalShare(1, 2), drawn_at(at_unknown_rate(1, 2))),
    (RunLength(), drawn_at(after_geometric_runs(40))),
    (RunLength(3), drawn_at(after_geometric_runs(3))),
    (
        RunLength(None),
        drawn_at(after_runs(lambda d: 1 / (d * (d + 1)), lambda d: 1 / d)),
    ),
    (LearnedShare(), average([shared(falling(m)) for m in (2, 3, 6, 11, 21)])),
    (LearnedShare((1, 2)), average([shared(falling(m)) for m in (1, 2)])),
    (Tiring(), drawn_at(after_runs(Tiring.exactly, Tiring.at_least))),
    (RarelyShared(), shared(RarelyShared.rate)),
    (Forgetful(), drawn_at(Forgetful.probability)),
    (SometimesAgeing(), shared(lambda t: 0.3)),
]
# The one prior that fixes the number of experts.
OWN_WEIGHTS = (
    ElementwiseMixture([1, 2, 3]),
    shared(lambda t: 1.0, own_weights=[1 / 6, 2 / 6, 3 / 6]),
)

PRIORS = [prior for prior, _ in CASES]
THREE_EXPERTS = [*CASES, OWN_WEIGHTS]
KINDS = [
    BayesMixture(),
    ElementwiseMixture(),
    FixedShare(),
    FixedShare(alpha=0.2, redraw=False),
    LearnedShare(),
    SwitchDistribution(),
    UniversalShare(),
    RunLength(4),
    RunLength(None),
    Tiring(),
    RarelyShared(),
    Forgetful(),
    SometimesAgeing(),
]
every_kind = for_each("prior", KINDS)
every_definition = for_each("prior, definition", THREE_EXPERTS)
WEIGHTS = [None, [0.5, 0.2, 0.3], [0.0, 3.0, 1.0], [0.0, 0.0, 2.0]]

# The losses that the golden numbers are worked out for.
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


def normalised(weights, n_experts):
    w = np.ones(n_experts) if weights is None else np.array(weights, dtype=float)
    return w / w.sum()


def dense_transitions(prior, w, n_steps):
    """Initial state and transition matrices into steps 2..n, flattened and dense.

    One-hot states fed through `advance` give the rows of the matrix.
    """
    initial = prior.initial(w)
    shape, matrices = initial.shape, []
    for t in range(2, n_steps + 1):
        one_hot = np.eye(math.prod(shape)).reshape(-1, *shape)
        rows = [prior.advance(state, w, t) for state in one_hot]
        shape = rows[0].shape
        matrices.append(np.array([row.ravel() for row in rows]))
    return initial.ravel(), matrices


def sequences_by_transition(prior, weights, n_steps):
    """Probabilities of all sequences of experts, as the prior's own matrices say."""
    total = 0.0
    for probability, chain, w in prior.components(weights):
        initial, matrices = dense_transitions(chain, w, n_steps)
        n_experts = len(w)
        # Axes: the experts so far, and the row of the state.
        table = initial.reshape(-1, n_experts).T
        for matrix in matrices:
            transition = matrix.reshape(table.shape[-1], n_experts, -1, n_experts)
            table = np.einsum("...kr,rkjl->...klj", table, transition)
        total = total + probability * table.sum(axis=-1)
    return total


def enumerated(sequences, losses):
    """Codelengths and posteriors, from the probabilities of all sequences, in logs."""
    n_steps, n_experts = losses.shape
    with np.errstate(divide="ignore"):
        scores = np.log(sequences)
    evidence = logsumexp(scores)
    codelengths, posterior = [], []
    for t, row in enumerate(losses):
        others = tuple(axis for axis in range(n_steps) if axis != t)
        posterior.append(np.exp(logsumexp(scores, axis=others) - evidence))
        shape = [1] * n_steps
        shape[t] = n_experts
        joint = scores - row.reshape(shape)
        if np.isneginf(joint).all():  # an impossible label teaches nothing
            codelengths.append(math.inf)
            continue
        scores, before, evidence = joint, evidence, logsumexp(joint)
        codelengths.append(before - evidence)
    return np.array(codelengths), np.array(posterior)


def price(prior, sequence, n_experts, weights=None):
    """Minus log probability of a sequence of experts, as the forward pass finds it.

    Its experts hold every label certain and all others hold it impossible.
    """
    losses = np.full((len(sequence), n_experts), np.inf)
    losses[np.arange(len(sequence)), sequence] = 0.0
    return forward(prior, losses, weights, max_rows=0).codelength


def random_losses(n_steps, n_experts, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.gamma(1.0, scale, size=(n_steps, n_experts))


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
