"""Invariants of orders, and of splits that are pooled and divided again."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.stats import chisquare

from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl.datasets import prequential_order, reshuffle
from sklearn_mdl.datasets._splits import deal

LABELS = np.repeat([0, 1, 2], [60, 30, 10])


# Orders


@pytest.mark.parametrize("stratify", [False, True])
def test_an_order_is_a_permutation_that_a_seed_gives_again(stratify):
    order = prequential_order(LABELS, random_state=3, stratify=stratify)
    assert sorted(order) == list(range(100))
    again = prequential_order(LABELS, random_state=3, stratify=stratify)
    np.testing.assert_array_equal(order, again)
    other = prequential_order(LABELS, random_state=4, stratify=stratify)
    assert not np.array_equal(order, other)


def test_an_order_without_stratification_does_not_look_at_labels():
    one = prequential_order(LABELS, random_state=0)
    other = prequential_order(LABELS[::-1], random_state=0)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("stratify", [False, True])
def test_all_orders_of_few_rows_of_one_class_are_equally_likely(stratify):
    rng = np.random.RandomState(0)
    found = [
        tuple(prequential_order([1, 1, 1], rng, stratify).tolist()) for _ in range(1200)
    ]
    counts = [found.count(p) for p in itertools.permutations(range(3))]
    assert chisquare(counts).pvalue > 1e-4


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 99))
def test_a_stratified_order_keeps_every_class_near_its_share(labels, seed):
    y = np.array(labels)
    ordered = y[prequential_order(y, random_state=seed, stratify=True)]
    n, n_classes = len(y), len(set(labels))
    for label in set(labels):
        n_label = np.count_nonzero(y == label)
        seen = np.cumsum(ordered == label)
        expected = np.arange(1, n + 1) * n_label / n
        assert np.abs(seen - expected).max() < 1 + n_classes * n_label / n


def test_a_stratified_order_takes_labels_of_any_kind():
    y = np.array(["cat", "dog", "cat", "dog"])
    assert sorted(prequential_order(y, 0, stratify=True)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="1d array"):
        prequential_order(np.zeros((3, 2)), 0, stratify=True)


# Reshuffled parts


def parts(kind=np.asarray):
    X, y = np.arange(70).reshape(10, 7), np.arange(10)
    return (kind(X[:6]), y[:6]), (kind(X[6:]), y[6:])


KINDS = [
    np.asarray,
    list,
    torch.as_tensor,
    sparse.csr_matrix,
    pd.DataFrame,
    pl.DataFrame,
    LazyImages,
]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_pooled_shuffled_and_cut_at_the_same_place(kind):
    train, test = parts(kind)
    (X, y), (X_test, y_test) = reshuffle(train, test, random_state=0)
    rows = np.concatenate([y, y_test])
    assert (len(y), len(y_test)) == (6, 4)
    assert sorted(rows) == list(range(10))
    assert not np.array_equal(rows, np.arange(10))
    assert isinstance(X, type(train[0]))
    for found, labels in ((X, y), (X_test, y_test)):
        if isinstance(found, LazyImages):
            found = [found.items[i] for i in range(len(found))]
        if sparse.issparse(found):
            found = found.toarray()
        np.testing.assert_array_equal(np.asarray(found)[:, 0], labels * 7)


@pytest.mark.parametrize("kind", [torch.as_tensor, pd.Series, pl.Series])
def test_labels_go_with_their_rows_whatever_holds_them(kind):
    train, test = (kind(range(6)), list(range(6))), (kind(range(6, 8)), [6, 7])
    for found, rows in reshuffle(train, test, random_state=0):
        assert isinstance(found, type(train[0]))
        assert np.asarray(found).tolist() == rows


def test_every_row_is_as_likely_to_be_tested():
    counts = np.zeros(10)
    for seed in range(600):
        _, (_, y) = reshuffle(*parts(), random_state=seed)
        counts[y] += 1
    assert chisquare(counts).pvalue > 1e-4


def test_parts_are_left_as_they_were():
    train, test = parts()
    before = train[0].copy()
    reshuffle(train, test, random_state=0)
    np.testing.assert_array_equal(train[0], before)


def test_labels_of_longer_names_are_not_cut():
    y, y_test = np.array(["a", "b"]), np.array(["longer"])
    (found,), (found_test,) = reshuffle((y,), (y_test,), random_state=0)
    assert sorted([*found, *found_test]) == ["a", "b", "longer"]


@pytest.mark.parametrize(
    ("train", "test", "match"),
    [
        (([1], [1]), ([1],), r"non-empty tuples of equal size, got \(2, 1\)"),
        (
            ([1, 2], [1]),
            ([1], [1]),
            r"Lengths in train must be equal, got \[2, 1\]",
        ),
        (
            ([1], [1]),
            ([1], [1, 2]),
            r"Lengths in test must be equal, got \[1, 2\]",
        ),
        ((np.ones((2, 3)),), (np.ones((2, 4)),), r"shape, got \(\(3,\), \(4,\)\)"),
        ((torch.ones(2, 3),), (torch.ones(2, 1),), "of equal shape"),
    ],
)
def test_parts_that_do_not_fit_are_refused(train, test, match):
    with pytest.raises(ValueError, match=match):
        reshuffle(train, test)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [0.5, 0.25]),
        (np.uint8([7, 8]), np.array([300, 301])),
        (np.float64([1 + 1e-12, 2]), np.float32([3, 4])),
    ],
    ids=["whole and real", "short and long", "double and single"],
)
def test_tensors_of_two_types_keep_all_their_numbers(one, other):
    one, other = np.asarray(one), np.asarray(other)
    rows = np.array([3, 0, 2, 1])
    wanted = np.concatenate([one, other])[rows]
    (found,) = deal((torch.from_numpy(one),), (torch.from_numpy(other),), rows)
    np.testing.assert_array_equal(found.numpy(), wanted)
    for mixed in ((torch.from_numpy(one), other), (one, torch.from_numpy(other))):
        (found,) = deal(mixed[:1], mixed[1:], rows)
        np.testing.assert_array_equal(found, wanted)


def test_what_is_taken_of_tensors_asks_for_no_gradient():
    one, other = torch.ones(2, 1, requires_grad=True), np.zeros((2, 1), np.float32)
    for parts in ((one, one), (one, other), (other, one)):
        (found,) = deal(parts[:1], parts[1:], np.arange(4))
        assert not getattr(found, "requires_grad", False)
