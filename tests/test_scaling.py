"""Laws of the running scalings and of the rows that readouts see through them."""

import numpy as np
import pytest
import torch
from each_case import for_each
from hypothesis import given, settings, strategies as st
from sklearn.covariance import oas

from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import (
    RunningStandardizer,
    RunningWhitener,
    ScaledRows,
    Scaling,
    shrunk_covariance,
)

CPU = torch.device("cpu")
BOTH = pytest.mark.parametrize("running", [RunningStandardizer, RunningWhitener])
laws = settings(deadline=None, max_examples=30)
cuts = st.lists(st.integers(1, 59), max_size=6, unique=True).map(sorted)


def correlated(n_rows, n_features, seed=0):
    """Rows with a mean, unequal variances and correlations."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_features, n_features)) * np.arange(1, n_features + 1)
    rows = rng.normal(size=(n_rows, n_features)) @ mixing + 10 * rng.normal(
        size=n_features
    )
    return rows.astype(np.float32)


def taken_in(running, X, at=()):
    found = running(X.shape[1])
    for piece in np.split(X, at):
        found.update(piece)
    return found


def through(scaling, X):
    return scaling.apply(torch.as_tensor(X)[None])[0].numpy()


def rows_of(X, scalings, batch_size=8):
    store = SampleStore(X.shape[1])
    store.append(X)
    return ScaledRows(store, scalings, batch_size, CPU)


# Running statistics


@laws
@given(at=cuts)
def test_running_mean_and_variance_are_numpys_for_any_cutting(at):
    X = correlated(60, 4)
    running = taken_in(RunningStandardizer, X, at)
    assert running.n_rows == 60
    exact = X.astype(np.float64)
    np.testing.assert_allclose(running.mean, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(running.scatter / 60, exact.var(0), rtol=1e-12)


@laws
@given(at=cuts)
def test_running_covariance_is_numpys_for_any_cutting(at):
    X = correlated(60, 4)
    running = taken_in(RunningWhitener, X, at)
    exact = X.astype(np.float64)
    np.testing.assert_allclose(running.mean, exact.mean(0), rtol=1e-12)
    covariance = np.cov(exact, rowvar=False, bias=True)
    np.testing.assert_allclose(running.scatter / 60, covariance, rtol=1e-10)


def test_running_variance_keeps_its_digits_far_from_the_origin():
    X = np.arange(40, dtype=np.float64)[:, None] + 1e9
    running = taken_in(RunningStandardizer, X, [7, 20])
    assert float(running.scatter / 40) == pytest.approx(X.var(), rel=1e-9)


# Standardising


def test_standardiser_divides_by_the_root_of_own_plus_median_variance():
    # Variances 1, 4, 9 and 0, which is not counted: the median is 4.
    X = np.array([[0.0, 2.0, 5.0, 3.0], [2.0, 6.0, -1.0, 3.0]], np.float32)
    scaling = taken_in(RunningStandardizer, X).scaling()
    row = np.array([-1 / 5**0.5, -2 / 8**0.5, 3 / 13**0.5, 0.0])
    np.testing.assert_allclose(through(scaling, X), [row, -row], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_one_feature_on_a_large_scale_does_not_silence_the_others(scale):
    X = np.random.default_rng(0).normal(size=(500, 5)).astype(np.float32)
    X[:, 2] *= scale
    found = through(taken_in(RunningStandardizer, X).scaling(), X)
    np.testing.assert_allclose(found.var(0), [0.5, 0.5, 1, 0.5, 0.5], atol=0.05)


def test_standardiser_spares_constant_features():
    X = correlated(50, 3)
    X[:, 1] = 7.0
    found = through(taken_in(RunningStandardizer, X).scaling(), X)
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_standardised_features_of_equal_variance_have_variance_one_half():
    rng = np.random.default_rng(0)
    X = rng.normal(3, 5, size=(20_000, 4)).astype(np.float32)
    found = through(taken_in(RunningStandardizer, X).scaling(), X)
    np.testing.assert_allclose(found.var(0), 0.5, atol=0.02)


# Whitening


@for_each("shape", [(5, 8), (30, 8), (1000, 8), (2, 3), (40, 1)])
def test_shrunk_covariance_is_scikit_learns(shape):
    X = correlated(*shape).astype(np.float64)
    centred = X - X.mean(0)
    expected, _ = oas(centred, assume_centered=True)
    covariance = torch.as_tensor(centred.T @ centred / len(X))
    found = shrunk_covariance(covariance, len(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_shrunk_covariance_keeps_the_trace_and_approaches_the_sample_one():
    covariance = torch.as_tensor(np.diag([1.0, 2.0, 6.0]))
    for n_rows in (1, 10, 10**7):
        assert shrunk_covariance(covariance, n_rows).trace() == pytest.approx(9)
    np.testing.assert_allclose(shrunk_covariance(covariance, 10**7), covariance, 1e-5)
    np.testing.assert_allclose(shrunk_covariance(covariance, 1), 3 * np.eye(3))


def test_whitened_big_sample_has_almost_identity_covariance():
    X = correlated(20_000, 6)
    found = through(taken_in(RunningWhitener, X).scaling(), X)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(found.T), np.eye(6), atol=0.02)


def test_whitening_transform_is_the_symmetric_inverse_root():
    X = correlated(30, 5)
    running = taken_in(RunningWhitener, X)
    transform = running.scaling().transform
    covariance = shrunk_covariance(running.scatter / 30, 30)
    np.testing.assert_allclose(transform, transform.T, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(transform) > 0)
    np.testing.assert_allclose(transform @ covariance @ transform, np.eye(5), atol=1e-9)


@BOTH
def test_transform_and_inverse_undo_each_other(running):
    scaling = taken_in(running, correlated(40, 5)).scaling()
    if scaling.transform.ndim == 1:
        product = np.diag(scaling.transform * scaling.inverse)
    else:
        product = scaling.transform @ scaling.inverse
    np.testing.assert_allclose(product, np.eye(5), atol=1e-8)


# Small and degenerate samples


@BOTH
@for_each(
    "X",
    [
        np.ones((1, 3)),
        np.ones((10, 3)),
        np.zeros((10, 3)),
        np.eye(10, 3),
        np.repeat([[1e30, 0.0, 1.0]], 4, axis=0),
        np.array([[0.0], [1.0]]),
    ],
)
def test_degenerate_samples_give_finite_rows(running, X):
    scaling = taken_in(running, X.astype(np.float32)).scaling()
    for tensor in (scaling.mean, scaling.transform, scaling.inverse):
        assert tensor.isfinite().all()
    assert np.isfinite(through(scaling, X.astype(np.float32))).all()


@BOTH
def test_constant_rows_become_zero(running):
    X = np.full((9, 4), 3.0, np.float32)
    found = through(taken_in(running, X).scaling(), X)
    np.testing.assert_array_equal(found, 0.0)


# First layers at a refresh


def change_of_scaling(running, n_features=6):
    X = correlated(200, n_features)
    X[:, 0] = 0.5  # a constant feature
    statistics = taken_in(running, X[:40])
    old = statistics.scaling()
    statistics.update(X[40:])
    return X, old, statistics.scaling()


@BOTH
def test_re_expressed_first_layer_computes_what_it_did(running):
    X, old, new = change_of_scaling(running)
    weight = torch.randn(3, 5, 6)
    bias = torch.randn(3, 1, 5)
    before = torch.as_tensor(through(old, X)) @ weight.mT + bias
    new.re_expression(old)(weight, bias)
    after = torch.as_tensor(through(new, X)) @ weight.mT + bias
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)


@BOTH
def test_re_expression_changes_in_place(running):
    _, old, new = change_of_scaling(running)
    weight, bias = torch.randn(2, 4, 6), torch.randn(2, 1, 4)
    tensors, kept = (weight, bias), (weight.clone(), bias.clone())
    assert new.re_expression(old)(weight, bias) is None
    for tensor, before in zip(tensors, kept, strict=True):
        assert not torch.equal(tensor, before)


@BOTH
def test_re_expression_by_the_same_scaling_changes_nothing(running):
    _, old, _ = change_of_scaling(running)
    weight, bias = torch.randn(2, 4, 6), torch.randn(2, 1, 4)
    kept = weight.clone(), bias.clone()
    old.re_expression(old)(weight, bias)
    torch.testing.assert_close((weight, bias), kept)


@BOTH
@for_each("n_features, width", [(6, 5), (7, 10), (2, 2), (64, 10), (1, 3)])
def test_re_expression_treats_a_member_as_if_it_were_alone(running, n_features, width):
    _, old, new = change_of_scaling(running, n_features)
    weight, bias = torch.randn(5, width, n_features), torch.randn(5, 1, width)
    alone = [(weight[k : k + 1].clone(), bias[k : k + 1].clone()) for k in range(5)]
    new.re_expression(old)(weight, bias)
    for k, (own_weight, own_bias) in enumerate(alone):
        new.re_expression(old)(own_weight, own_bias)
        assert torch.equal(own_weight[0], weight[k])
        assert torch.equal(own_bias[0], bias[k])


def test_hand_worked_re_expression():
    # One feature: from (x - 1) * 2 to (x - 3) * 4, so W' = W / 2 and b' = b + 4 W.
    one = torch.ones(1, dtype=torch.float64)
    old, new = Scaling(one, 2 * one, one / 2), Scaling(3 * one, 4 * one, one / 4)
    weight, bias = torch.tensor([[[5.0]]]), torch.tensor([[[1.0]]])
    new.re_expression(old)(weight, bias)
    assert (weight.item(), bias.item()) == (2.5, 21.0)


# Scaled rows

SCALINGS = ["standard", "whiten", None]


def batch_of(rows, index):
    return rows.between(8 * index, 8 * index + 8)


@pytest.mark.parametrize("n_features", [1, 5, 7, 64])
@laws
@given(at=st.lists(st.integers(1, 90), max_size=8, unique=True).map(sorted))
def test_extending_by_pieces_equals_extending_at_once_bitwise(n_features, at):
    X = correlated(91, n_features)
    once, pieces = rows_of(X, SCALINGS), rows_of(X, SCALINGS)
    for rows in (once, pieces):
        rows.refresh(16)
    once.extend(91)
    for stop in [*at, 91]:
        pieces.extend(stop)
    for index in range(12):
        assert torch.equal(batch_of(pieces, index), batch_of(once, index))


def test_refreshing_late_equals_refreshing_early_bitwise():
    X = correlated(64, 5)
    early, late = rows_of(X, SCALINGS), rows_of(X, SCALINGS)
    early.refresh(16)
    early.extend(64)
    late.extend(64)
    late.refresh(16)
    for index in range(8):
        assert torch.equal(batch_of(early, index), batch_of(late, index))


def test_scaled_rows_are_the_rows_scaled():
    X = correlated(30, 5)
    rows = rows_of(X, SCALINGS)
    rows.refresh(16)
    rows.extend(30)
    expected = [
        through(taken_in(RunningStandardizer, X[:16]).scaling(), X),
        through(taken_in(RunningWhitener, X[:16]).scaling(), X),
        X,
    ]
    for index in range(4):
        part = slice(8 * index, min(30, 8 * index + 8))
        found = rows.between(part.start, part.stop)
        for view, whole in zip(found, expected, strict=True):
            np.testing.assert_allclose(view, whole[part], rtol=1e-5, atol=1e-6)


def test_scaled_features_count_as_no_further_than_the_reach():
    X = correlated(16, 4)
    X[3] *= 100
    store = SampleStore(4)
    store.append(X)
    rows, bounded = (
        ScaledRows(store, ["standard", "whiten", None], 8, CPU, *reach)
        for reach in ([], [1.5])
    )
    for some in (rows, bounded):
        some.extend(16)
        some.refresh(16)
    whole, found = batch_of(rows, 0).numpy(), batch_of(bounded, 0).numpy()
    assert np.abs(whole[:2]).max() > 1.5
    np.testing.assert_array_equal(found[:2], whole[:2].clip(-1.5, 1.5))
    np.testing.assert_array_equal(found[2], whole[2])  # not scaled: as it is


def test_rows_still_to_come_are_zero():
    rows = rows_of(correlated(30, 5) + 9, SCALINGS)
    rows.refresh(8)
    for stop in (11, 16, 21):
        rows.extend(stop)
        in_last, of_last = (stop - 1) % 8 + 1, (stop - 1) // 8
        assert batch_of(rows, of_last)[:, :in_last].abs().sum() > 0
        assert batch_of(rows, of_last)[:, in_last:].abs().sum() == 0


def test_rows_are_zero_as_long_as_no_statistics_are_known():
    X = correlated(30, 5)
    rows = rows_of(X, SCALINGS)
    rows.extend(30)
    assert rows.n_refreshed == 0
    assert batch_of(rows, 1)[:2].abs().sum() == 0
    np.testing.assert_array_equal(batch_of(rows, 1)[2], X[8:16])


def test_refresh_counts_its_rows_and_uses_no_later_one():
    X = correlated(64, 4)
    changed = X.copy()
    changed[32:] *= -50
    rows, others = rows_of(X, SCALINGS), rows_of(changed, SCALINGS)
    for each in (rows, others):
        each.extend(64)
        for n_rows in (8, 16, 32):
            each.refresh(n_rows)
            assert each.n_refreshed == n_rows
            assert [r and r.n_rows for r in each.running] == [n_rows, n_rows, None]
    for index in range(4):
        assert torch.equal(batch_of(rows, index), batch_of(others, index))


def test_changes_come_from_the_second_refresh_on_and_for_scalings_alone():
    rows = rows_of(correlated(64, 4), SCALINGS)
    assert rows.refresh(8) == [None, None, None]
    standard, whiten, plain = rows.refresh(16)
    assert callable(standard)
    assert callable(whiten)
    assert plain is None


@pytest.mark.parametrize("scaling", ["standard", "whiten"])
def test_refresh_keeps_what_first_layers_compute_on_all_rows(scaling):
    rows = rows_of(correlated(64, 6), [scaling])
    rows.extend(64)
    rows.refresh(32)
    weight, bias = torch.randn(2, 3, 6), torch.randn(2, 1, 3)
    before = torch.stack([batch_of(rows, i) @ weight.mT + bias for i in range(8)])
    (change,) = rows.refresh(64)
    change(weight, bias)
    after = torch.stack([batch_of(rows, i) @ weight.mT + bias for i in range(8)])
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)


@for_each("n_rows", [1, 5, 8, 9, 40])
def test_scaling_fresh_rows_equals_scoring_them_bitwise(n_rows):
    X = correlated(40, 7)
    rows = rows_of(X, SCALINGS)
    rows.refresh(16)
    rows.extend(n_rows)
    for index in range(-(-n_rows // 8)):
        fresh = rows.scaled(X[8 * index : min(8 * index + 8, n_rows)])
        assert fresh.shape == (3, 8, 7)
        assert torch.equal(fresh, batch_of(rows, index))


def test_constant_columns_of_any_value_do_not_lower_the_usual_variance():
    varying = np.random.default_rng(0).normal(size=(48, 3)) * [1.0, 2.0, 3.0]
    deviations = []
    for constant in (0.0, 0.1, 1e4):
        X = np.column_stack([varying, np.full((48, 7), constant)]).astype(np.float32)
        running = RunningStandardizer(10)
        for start in range(0, 48, 16):
            running.update(X[start : start + 16])
        deviations.append(running.scaling().inverse[:3])
    np.testing.assert_array_equal(deviations[1], deviations[0])
    np.testing.assert_array_equal(deviations[2], deviations[0])
