"""Codes that see labels alone: functions, readouts, and hand-worked tables."""

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose

from sklearn_mdl import (
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    frequency_codelength,
)
from sklearn_mdl.metrics import (
    blind_codelengths,
    costs_without_features,
    decayed_frequency_codelengths,
    escape_codelengths,
    frequency_codelengths,
    transition_codelengths,
)
from sklearn_mdl.readouts import DummyReadout


def sticky(n, seed=0, stay=0.9, n_classes=4):
    """Labels that stay what they are with a probability, else are drawn again."""
    rng = np.random.default_rng(seed)
    draws, moves = rng.integers(n_classes, size=n), rng.random(n) > stay
    moves[0] = True
    return draws[np.maximum.accumulate(np.where(moves, np.arange(n), 0))]


CODES = {
    "frequency": frequency_codelengths,
    "decayed": lambda y: decayed_frequency_codelengths(y, half_life=30),
    "transition": transition_codelengths,
}


@pytest.mark.parametrize("strategy", CODES)
def test_a_readout_costs_what_its_function_says(strategy):
    y = sticky(150)
    X = np.random.default_rng(1).normal(size=(150, 3))
    readout = DummyReadout(strategy, half_life=30)
    readout.partial_fit(X, y, classes=range(4))
    assert_allclose(readout.codelengths_, CODES[strategy](y), rtol=1e-12)
    following = [CODES[strategy](np.append(y, label))[-1] for label in range(4)]
    found = readout.predict_log_proba(X[:2])
    assert_allclose(found, np.tile(np.negative(following), (2, 1)), rtol=1e-12)


def test_an_endless_half_life_counts_all_alike():
    y = sticky(100)
    found = decayed_frequency_codelengths(y, half_life=np.inf)
    assert_allclose(found, frequency_codelengths(y), rtol=1e-12)


def test_counts_fade_by_the_definition():
    y, half_life = sticky(60), 7
    ages = np.arange(60)
    expected = []
    for t in range(60):
        weights = 2.0 ** (-(t - 1 - ages[:t]) / half_life)
        counts = 0.5 + np.bincount(y[:t], weights, minlength=4)
        expected.append(-np.log(counts[y[t]] / counts.sum()))
    found = decayed_frequency_codelengths(y, half_life=half_life)
    assert_allclose(found, expected, rtol=1e-12)


def test_codes_without_features_are_those_of_labels_with_escapes():
    labels = np.random.default_rng(0).integers(3, size=300)
    classes = np.arange(3)
    codes = [
        frequency_codelengths(labels, 3),
        decayed_frequency_codelengths(labels, 3, half_life=100),
        transition_codelengths(labels, 3),
    ]
    expected = np.stack(codes, 1) + escape_codelengths(labels, classes)[:, None]
    assert_allclose(blind_codelengths(labels, 3), expected)


def test_classes_may_be_more_than_those_that_appear():
    labels = [0, 1, 1, 0, 0]
    for code in (
        frequency_codelengths,
        lambda y, n: decayed_frequency_codelengths(y, n, half_life=1e9),
        transition_codelengths,
    ):
        assert_allclose(code(labels, 7)[0], np.log(7))
        assert code(labels, 7).sum() > code(labels, 2).sum()


def test_a_label_counts_half_as_much_after_100_labels_by_default_or_after_less():
    y = sticky(60)
    found = decayed_frequency_codelengths(y)
    assert_allclose(found, decayed_frequency_codelengths(y, half_life=100.0))
    assert np.isfinite(decayed_frequency_codelengths(y, half_life=0.5)).all()
    found = costs_without_features([0, 1, 0, 0], 2, [0, 0, 1, 3])  # labels come late
    kept = 2**-0.01  # weight of the label before the last one
    half, half_of_recent = np.array([1.5 / 2, 2.5 / 4]), 0.5 + kept**2 + 1
    recent = [1.5 / 2, half_of_recent / (half_of_recent + 0.5 + kept)]
    follows = [1 / 2, 0.5 / 2]  # only the 1 of the first labels followed a 0
    for column, expected in zip(found[2:].T, (half, recent, follows), strict=True):
        assert_allclose(column, -np.log(expected))
    assert_allclose(found[:2], np.log(2))


def test_transitions_cost_what_frequencies_do_after_each_label():
    y = sticky(300)
    after = [y[1:][y[:-1] == label] for label in range(4)]
    expected = np.log(4) + sum(frequency_codelength(part, 4) for part in after)
    assert_allclose(transition_codelengths(y).sum(), expected, rtol=1e-12)


@for_each("half_life", [0, -1, np.nan, "7"])
def test_half_lives_that_are_none_are_refused(half_life):
    with pytest.raises(ValueError, match="`half_life` must be a positive number"):
        decayed_frequency_codelengths([0, 1], half_life=half_life)


def test_features_that_say_nothing_earn_nothing_over_sticky_labels():
    """Accuracy shines on such a stream; the posterior is on labels alone."""
    y = sticky(400)
    X = np.random.default_rng(1).normal(size=(400, 5))
    readouts = [KernelReadout(), LinearReadout()]
    alone, beside = (
        MDLReadoutSwitcher(some).partial_fit(X, y, classes=range(4))
        for some in (readouts, [*readouts, DummyReadout("transition")])
    )
    assert beside.posterior_[-1, -1] > 0.99
    assert beside.codelength_ < transition_codelengths(y).sum() + 6 < alone.codelength_
