"""Transitions of states and their adjoints, against dense matrices and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sklearn_mdl.switching import Transition
from sklearn_mdl.switching._prior import (
    apply,
    apply_adjoint,
    apply_log,
    sums_of_others,
)

KINDS = ["first row", "any rows", "next row", "others"]


@st.composite
def cases(draw):
    """Draw a transition of any kind, its number of rows, and weights."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(KINDS))
    n_rows = 1 if kind == "others" else draw(st.integers(1, 5))
    n_experts = draw(st.integers(1, 5))
    rates = st.sampled_from([0.0, 1.0, 0.3, float(rng.random())])
    drawn = np.array(draw(st.lists(rates, min_size=n_rows, max_size=n_rows)))
    w = rng.dirichlet(np.ones(n_experts))
    if draw(st.booleans()):
        w[rng.integers(n_experts)] = 0.0
        w = np.full(n_experts, 1 / n_experts) if not w.any() else w / w.sum()
    ageing = kind in ("first row", "any rows") and draw(st.booleans())
    transition = Transition(drawn, ageing=ageing, others=kind == "others")
    if kind == "any rows":
        n_entered = draw(st.integers(1, n_rows + ageing))
        transition = transition._replace(enter=rng.dirichlet(np.ones(n_entered)))
    if kind == "next row":
        transition = transition._replace(enter=None)
    return transition, n_rows, w, rng


def matrix_of(transition, n_rows, w):
    """Return the matrix from every (row, expert) to every other, entry by entry."""
    draw, enter, ageing, others = transition
    n_new, n_experts = n_rows + (ageing or enter is None), len(w)
    matrix = np.zeros((n_rows, n_experts, n_new, n_experts))
    for j in range(n_rows):
        for k in range(n_experts):
            rest = math.fsum(w[i] for i in range(n_experts) if i != k)
            leaves = draw[j] if not others or rest > 0 else 0.0
            matrix[j, k, j + ageing, k] += 1 - leaves
            for new in range(n_experts):
                if others:
                    share = w[new] / rest if new != k and rest > 0 else 0.0
                else:
                    share = w[new]
                if enter is None:
                    matrix[j, k, j + 1, new] += leaves * share
                else:
                    matrix[j, k, : len(enter), new] += leaves * share * enter
    return matrix


@settings(max_examples=300, deadline=None)
@given(case=cases())
def test_apply_is_its_matrix_and_apply_adjoint_the_transpose(case):
    transition, n_rows, w, rng = case
    matrix = matrix_of(transition, n_rows, w)
    np.testing.assert_allclose(matrix.sum(axis=(2, 3)), 1, atol=1e-14)
    state = rng.dirichlet(np.ones(n_rows * len(w))).reshape(n_rows, len(w))
    applied = apply(state, w, transition)
    expected = np.einsum("jk,jkil->il", state, matrix)
    np.testing.assert_allclose(applied, expected, atol=1e-15)
    assert applied.sum() == pytest.approx(1, abs=1e-14)
    assert applied.min() >= 0

    values = rng.random(applied.shape) * 10.0 ** rng.integers(-5, 5, applied.shape)
    back = apply_adjoint(values, w, transition)
    assert back.shape == state.shape
    np.testing.assert_allclose(
        back, np.einsum("il,jkil->jk", values, matrix), rtol=1e-12, atol=1e-12
    )
    # What is certain one step on is certain now.
    np.testing.assert_allclose(apply_adjoint(np.ones_like(applied), w, transition), 1)


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_arguments_are_left_alone(case):
    transition, n_rows, w, rng = case
    state = rng.random((n_rows, len(w)))
    arrays = [transition.draw, w, state]
    before = [array.copy() for array in arrays]
    applied = apply(state, w, transition)
    apply_adjoint(applied, w, transition)
    apply_log(np.log(state), lambda part: apply(part, w, transition))
    for array, copied in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copied)


@settings(max_examples=100, deadline=None)
@given(case=cases(), scale=st.sampled_from([1.0, 100.0, 1e4, 1e6]))
def test_apply_log_is_the_matrix_in_logs_whatever_the_range(case, scale):
    transition, n_rows, w, rng = case
    scores = -rng.random((n_rows, len(w))) * scale
    scores.flat[rng.integers(scores.size)] = 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(matrix_of(transition, n_rows, w))
    terms = (scores[:, :, np.newaxis, np.newaxis] + logs).reshape(-1, *logs.shape[2:])
    expected = np.logaddexp.reduce(terms, axis=0)
    found = apply_log(scores, lambda part: apply(part, w, transition))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-12)


def test_bands_keep_what_has_no_mass():
    scores = np.array([[0.0, -np.inf, -1000.0]])
    w = np.array([0.5, 0.5, 0.0])
    stay = Transition(np.zeros(1))
    found = apply_log(scores, lambda part: apply(part, w, stay))
    np.testing.assert_array_equal(found, scores)


class TestSumsOfOthers:
    @settings(max_examples=100, deadline=None)
    @given(
        values=st.lists(
            st.one_of(st.just(0.0), st.floats(1e-30, 1e30)), min_size=1, max_size=9
        ).map(np.array)
    )
    def test_each_is_the_sum_over_the_others(self, values):
        expected = [
            math.fsum(other for j, other in enumerate(values) if j != i)
            for i in range(len(values))
        ]
        np.testing.assert_allclose(sums_of_others(values), expected, rtol=1e-14)

    def test_what_is_tiny_beside_the_entry_keeps_its_digits(self):
        values = np.array([1e-25, 1.0, 3e-20])
        expected = [1.0 + 3e-20, 1e-25 + 3e-20, 1.0]
        np.testing.assert_allclose(sums_of_others(values), expected, rtol=1e-15)

    def test_one_entry_has_no_others(self):
        assert sums_of_others(np.array([3.0])).tolist() == [0.0]
