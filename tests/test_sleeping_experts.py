"""Experts that retire: asleep, they predict what the mixture of those awake does."""

import itertools
import math

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from switching_cases import (
    WEIGHTS,
    assert_same_bits,
    every_definition,
    every_kind,
    normalised,
    random_losses,
)

from sklearn_mdl import forward
from sklearn_mdl.switching import (
    BayesMixture,
    ForwardPass,
    LearnedShare,
    smoothed_posterior,
)
from sklearn_mdl.switching._forward import filled_losses, mixture_losses

# The step from which on each expert is asleep, of six.
RETIRED = [(6, 3, 6), (2, 6, 6), (4, 6, 2), (0, 6, 6), (6, 5, 5)]


def asleep_from(losses, retired_at):
    steps = np.arange(len(losses))[:, None]
    return np.where(steps < np.array(retired_at), losses, math.nan)


def specialists(sequences, losses):
    """Codelengths, posteriors and filled losses, from all sequences, by definition."""
    n_steps, n_experts = losses.shape
    with np.errstate(divide="ignore"):
        scores = np.log(sequences)
    codelengths, posterior, filled = [], [], []
    for t, row in enumerate(losses):
        others = tuple(axis for axis in range(n_steps) if axis != t)
        own = np.where(np.isnan(row), -np.inf, logsumexp(scores, axis=others))
        own -= logsumexp(own)
        posterior.append(np.exp(own))
        codelengths.append(-logsumexp(own - np.nan_to_num(row)))
        filled.append(np.where(np.isnan(row), codelengths[-1], row))
        shape = [1] * n_steps
        shape[t] = n_experts
        scores = scores - filled[-1].reshape(shape)
    return np.array(codelengths), np.array(posterior), np.array(filled)


@every_definition
def test_the_code_is_that_of_all_sequences_of_specialists(prior, definition):
    for seed, (retired_at, weights) in enumerate(
        itertools.product(RETIRED, WEIGHTS[:2])
    ):
        losses = asleep_from(random_losses(6, 3, seed), retired_at)
        sequences = definition(normalised(weights, 3), 6)
        codelengths, posterior, filled = specialists(sequences, losses)
        trace = forward(prior, losses, weights)
        np.testing.assert_allclose(trace.codelengths, codelengths, rtol=1e-10)
        np.testing.assert_allclose(trace.posterior, posterior, atol=1e-12)
        complete = filled_losses(losses, prior, weights)
        np.testing.assert_allclose(complete, filled, rtol=1e-10)
        smoothed = [smoothed_posterior(prior, x, weights) for x in (losses, complete)]
        np.testing.assert_allclose(*smoothed, atol=1e-12)
        # The bound: where the experts of a sequence are awake, the code costs no more
        # than they do and what the prior charges for the sequence.
        steps = np.indices((3,) * 6).reshape(6, -1)
        theirs = filled[np.arange(6)[:, None], steps]
        awake = ~np.isnan(losses)[np.arange(6)[:, None], steps]
        excess = (awake * (codelengths[:, None] - theirs)).sum(0)
        with np.errstate(divide="ignore"):
            charged = -np.log(sequences.ravel())
        assert (excess <= charged + 1e-9).all()


@every_kind
def test_any_cut_gives_the_same_bits(prior):
    losses = asleep_from(random_losses(60, 4, 1, 3.0), (60, 33, 17, 60))
    whole = forward(prior, losses)
    for at in (1, 16, 17, 40):
        stream = ForwardPass(prior, 4)
        parts = [stream.extend(losses[:at])]
        stream.retire(np.flatnonzero(np.isnan(losses[at])))
        stream.retire([])
        weights = stream.weights
        parts.append(stream.extend(losses[at:]))
        np.testing.assert_array_equal(weights, parts[1].posterior[0])
        joined = [np.concatenate([p[i] for p in parts]) for i in (1, 2)]
        assert_same_bits(joined, whole[1:3])


@every_kind
@pytest.mark.parametrize("delay", [1, 3, 20])
def test_labels_that_come_late_count_as_those_that_all_predict_alike(prior, delay):
    """Until its label is known, a step moves weights as a label without information."""
    losses = asleep_from(random_losses(25, 4, 2), (25, 9, 11, 25))
    known = np.maximum(np.arange(26) - delay, 0)
    found = forward(prior, losses, known=known)
    for at in (8, 11, 14):
        stream = ForwardPass(prior, 4)
        before = np.append(known[:at], known[at - 1])
        parts = [stream.extend(losses[:at], before)]
        parts.append(stream.extend(losses[at:], known[at:]))
        joined = [np.concatenate([p[i] for p in parts]) for i in (1, 2)]
        for part, whole in zip(joined, found[1:3], strict=True):
            np.testing.assert_allclose(part, whole, rtol=1e-9, atol=1e-12)
    for t in (0, 2, 8, 9, 10, 12, 16, 24):
        seen = losses[: t + 1].copy()
        unknown = seen[known[t] : t]
        unknown[~np.isnan(unknown)] = 0
        expected = forward(prior, seen)
        np.testing.assert_allclose(
            found.posterior[t], expected.posterior[t], rtol=1e-9, atol=1e-12
        )
        assert found.codelengths[t] == pytest.approx(expected.codelengths[t], rel=1e-9)


def test_those_awake_share_what_is_left_however_little(monkeypatch):
    """Probabilities of e^-5000 next to those of an expert that has retired."""
    losses = np.array([[0.0, 50.0, 51.0]] * 100 + [[math.nan, 0.5, 0.7]])
    trace = forward(BayesMixture(), losses)
    odds = math.exp(-100)
    assert trace.codelengths[-1] == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(trace.posterior[-1], [0, 1, odds], rtol=1e-9)
    # Ordinary losses are mixed under all rates together, not row by row.
    monkeypatch.setattr(ForwardPass, "_observe", None)
    forward(LearnedShare(), asleep_from(random_losses(25, 4, 2), (25, 9, 11, 25)))


@for_each(
    "losses, weights, words",
    [
        ([[1, math.nan], [1, 1]], None, "must stay NaN .* column 1"),
        ([[math.nan, math.nan]], None, "at least one expert at every step"),
        ([[1, 1], [1, 1], [math.nan] * 2], None, "at least one expert at every step"),
        (
            [[1, math.nan]],
            [0, 1],
            "with positive prior weight must not retire, but all do; keep column 1$",
        ),
        ([[1, math.nan], [-math.inf, math.nan]], None, "got -inf"),
    ],
)
def test_losses_that_no_retirement_leaves_are_refused(losses, weights, words):
    with pytest.raises(ValueError, match=words):
        forward(None, losses, weights)


def test_a_label_costs_the_log_of_its_mixed_probability():
    shares = np.array([[0.5, 0.5, 0], [1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]])
    losses = np.array([[1, 2, 9], [3, 9, 9], [1, np.inf, 9], [9, np.inf, 9], [9, 9, 0]])
    mixed = (shares * np.exp(-losses)).sum(axis=1)
    with np.errstate(divide="ignore"):
        assert_allclose(mixture_losses(shares, losses), -np.log(mixed))
    shares[:, 2], losses[:, 2] = 0, np.nan  # asleep
    found = mixture_losses(shares, losses)
    assert_allclose(found, [*-np.log(mixed[:3]), np.inf, np.inf])


def test_a_label_impossible_for_all_but_the_retired_costs_infinitely_much():
    losses = np.ones((10, 3))
    losses[5:, 1] = np.nan
    losses[7, [0, 2]] = np.inf
    for prior in ("learned-share", "switch-distribution", "elementwise"):
        codelengths = forward(prior, losses).codelengths
        assert_allclose(codelengths, [1] * 7 + [np.inf] + [1] * 2)


def test_steps_taken_together_have_the_bits_of_single_ones(monkeypatch):
    losses = asleep_from(random_losses(60, 9, 1), (60, 20, 60, 0, 31, 20, 60, 59, 3))
    losses[40:, 2] += 900  # its weight becomes too small
    together = [forward(None, part) for part in (losses[:40], losses)]
    name = "sklearn_mdl.switching._forward.advance_awake"
    monkeypatch.setattr(name, lambda *given: False)
    for found in together:
        single = forward(None, losses[: len(found.codelengths)])
        np.testing.assert_array_equal(found.codelengths, single.codelengths)
        np.testing.assert_array_equal(found.posterior, single.posterior)
