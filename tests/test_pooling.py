"""Log-linear pools: golden numbers, an independent witness, bounds, honesty."""

import copy
import math

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone

from sklearn_mdl import forward
from sklearn_mdl.pooling import LogLinearPool, Members, PoolPass
from sklearn_mdl.pooling._groups import newton_step, without
from sklearn_mdl.switching import (
    FixedShare,
    ForwardPass,
    GroupedShare,
    LearnedGroupedShare,
)

GOLDEN_ROWS = np.log(
    [
        [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]],
        [[0.6, 0.2, 0.2], [0.1, 0.8, 0.1]],
        [[0.3, 0.3, 0.4], [0.25, 0.5, 0.25]],
        [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3]],
    ]
)
GOLDEN_LABELS = np.array([0, 1, 2, 1])


def stream(n_samples=400, n_groups=4, n_classes=5, seed=0):
    """Draw labels, and groups that each see them through noise of their own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n_samples)
    signal = 1.2 * np.eye(n_classes)[labels][:, None]
    noise = rng.normal(size=(n_samples, n_groups, n_classes))
    return log_softmax(signal + noise, axis=2), labels


def test_golden_numbers():
    pool = LogLinearPool(prior_precision=10, floor=0)
    trace = pool(GOLDEN_ROWS, GOLDEN_LABELS)
    expected = [
        1.09839277812179,
        0.7409238952110339,
        1.1396054312929351,
        1.1833506957809092,
    ]
    assert_allclose(trace.codelengths, expected, rtol=1e-13)
    assert trace.codelength == pytest.approx(4.162272800406669, rel=1e-14)
    online = PoolPass(pool, 2, 3)
    online.extend(GOLDEN_ROWS, GOLDEN_LABELS)
    assert_allclose(online.weights, [0.4838720359, 0.5403376886], rtol=1e-9)


def test_each_step_is_newtons_on_the_quadratic_model():
    """The witness differentiates the log-loss numerically."""
    q, labels = stream(60, n_groups=3, n_classes=4)
    trace = LogLinearPool(prior_precision=5.0, floor=0)(q, labels)
    hessian, w, step = 5.0 * np.eye(3), np.full(3, 1 / 3), 1e-4

    def loss(w, row, label):
        return -log_softmax(w @ row)[label]

    for row, label, found in zip(q, labels, trace.weights, strict=True):
        assert_allclose(found, w, rtol=1e-4, atol=1e-5)
        eye = step * np.eye(3)
        gradient = [
            (loss(w + e, row, label) - loss(w - e, row, label)) / (2 * step)
            for e in eye
        ]
        for i, a in enumerate(eye):
            for j, b in enumerate(eye):
                hessian[i, j] += (
                    loss(w + a + b, row, label)
                    - loss(w + a - b, row, label)
                    - loss(w - a + b, row, label)
                    + loss(w - a - b, row, label)
                ) / (4 * step**2)
        w = w - np.linalg.solve(hessian, gradient)


def test_regret_against_the_best_weights_in_hindsight_is_logarithmic():
    q, labels = stream(4000)
    trace = LogLinearPool(floor=0)(q, labels)

    def losses(w):
        rows = q.transpose(0, 2, 1) @ w
        return -log_softmax(rows, axis=1)[np.arange(len(labels)), labels]

    best = minimize(lambda w: losses(w).sum(), np.full(4, 0.25)).x
    regret = (trace.codelengths - losses(best)).cumsum()
    assert regret[-1] > 0
    # Linear or square-root growth would multiply it by four or two.
    assert regret[-1] < 1.5 * regret[999]


def test_pooling_beats_the_best_group_where_errors_differ():
    q, labels = stream(1000)
    alone = -q[np.arange(1000), :, labels].sum(0)
    assert LogLinearPool()(q, labels).codelength < 0.8 * alone.min()


@pytest.mark.parametrize("cuts", [[0, 7, 7, 399], range(400)], ids=repr)
@pytest.mark.parametrize("floor", [0.0, 1e-4])
def test_cutting_a_stream_changes_no_bit(floor, cuts):
    q, labels = stream()
    pool = LogLinearPool(floor=floor)
    whole, online = pool(q, labels), PoolPass(pool, 4, 5)
    blocks = zip(np.split(q, cuts), np.split(labels, cuts), strict=True)
    parts = [online.extend(*block) for block in blocks]
    joined = np.concatenate([part.codelengths for part in parts])
    np.testing.assert_array_equal(joined, whole.codelengths)
    weights = np.concatenate([part.weights for part in parts])
    np.testing.assert_array_equal(weights, whole.weights)


def test_rows_and_labels_of_any_width_are_taken_as_64_bits():
    q, labels = stream()
    narrow = q.astype(np.float32)
    found = LogLinearPool()(narrow, labels.astype(np.uint8))
    whole = LogLinearPool()(narrow.astype(np.float64), labels)
    assert_array_equal(found.codelengths, whole.codelengths)
    assert_array_equal(found.weights, whole.weights)


def test_predicting_before_observing_gives_the_same_bits():
    q, labels = stream()
    pool = LogLinearPool()
    online, losses = PoolPass(pool, 4, 5), []
    for row, label in zip(q, labels, strict=True):
        proba = online.predict(np.exp(row))
        assert proba.sum() == pytest.approx(1, abs=1e-12)
        predicted, cost = online.observe(np.exp(row), label)
        np.testing.assert_array_equal(predicted, proba)
        losses.append(cost)
    np.testing.assert_array_equal(losses, pool(q, labels).codelengths)


def test_later_labels_and_rows_move_nothing_before():
    q, labels = stream()
    q_later, other = q.copy(), labels.copy()
    q_later[201:], other[200:] = q[201:][::-1], (labels[200:] + 1) % 5
    pool = LogLinearPool()
    first, second = pool(q, labels), pool(q_later, other)
    np.testing.assert_array_equal(first.codelengths[:200], second.codelengths[:200])
    np.testing.assert_array_equal(first.weights[:201], second.weights[:201])


def test_random_labels_are_not_compressed():
    for seed in range(20):
        q, _ = stream(seed=seed)
        labels = np.random.default_rng(seed + 100).integers(5, size=len(q))
        assert LogLinearPool()(q, labels).codelength > len(q) * math.log(5) - 12


def adversary(n_samples):
    """A group that is certain, right and wrong in turn, beside a uniform one."""
    certain = np.full((n_samples, 2), math.log(1e-12))
    certain[:, 0] = math.log1p(-1e-12)
    labels = np.arange(n_samples) % 2
    return np.stack([certain, np.full((n_samples, 2), -math.log(2))], 1), labels


@pytest.mark.parametrize("draw", [adversary, stream, lambda n: stream(n, seed=3)])
def test_sharing_with_another_code_costs_half_a_logarithm(draw):
    """The guarantee: fixed share at rate 1 / t over {another code, the pool}."""
    q, labels = draw(1000)
    pooled = LogLinearPool()(q, labels).codelengths
    other = np.full(1000, math.log(q.shape[2]))
    shared = forward(FixedShare(m=2), np.stack([other, pooled], 1)).codelength
    bound = 0.5 * math.log(math.pi * (1000 + 0.5))
    assert shared <= min(other.sum(), pooled.sum()) + bound


def test_the_floor_bounds_what_a_certain_group_costs():
    q, labels = adversary(1000)
    uniform = 1000 * math.log(2)
    assert LogLinearPool(floor=0)(q, labels).codelength > 10 * uniform
    assert LogLinearPool()(q, labels).codelength < uniform + 12


def test_groups_that_are_each_certain_of_another_class_leave_all_alike():
    rows = -740.0 * (1 - np.eye(3))  # the smallest probabilities that there are
    assert LogLinearPool(floor=0)([rows], [1]).codelength == pytest.approx(math.log(3))


@for_each("sizes", [[1], [3], [1, 4, 2], [2, 1, 5, 3]])
def test_sums_over_groups_are_those_of_each_alone(sizes):
    starts = np.cumsum([0, *sizes[:-1]])
    values = np.random.default_rng(0).normal(size=(sum(sizes), 2))
    members = Members(starts, sum(sizes))
    of_each = np.repeat(np.arange(len(sizes)), sizes)
    assert_array_equal(members.groups, of_each[members.order])
    found = members.sums(values[members.order])
    assert_allclose(found, np.add.reduceat(values, starts), rtol=1e-12)
    for one, part in zip(found, np.split(values, starts[1:]), strict=True):
        alone = Members(np.array([0]), len(part))
        assert_array_equal(alone.sums(part[alone.order]), [one])


def test_kinds_predict_the_weighted_means_of_their_members():
    rng = np.random.default_rng(0)
    proba, weights = rng.dirichlet(np.ones(4), size=3), np.array([0.3, 0.7, 1.0])
    members = Members(np.array([0, 2]), 3)
    order = members.order
    found = PoolPass(LogLinearPool(), 2, 4).mix(
        np.log(proba[order]), weights[order], members
    )
    expected = [0.3 * proba[0] + 0.7 * proba[1], proba[2]]
    assert_allclose(found, expected, rtol=1e-12)


def test_a_step_solves_its_equations_even_if_no_cholesky_factor_exists():
    hessian, gradient = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([3.0, -1.0])
    assert_allclose(hessian @ newton_step(hessian, gradient), gradient)


def test_weights_of_remaining_groups_minimise_the_quadratic_loss():
    rng = np.random.default_rng(0)
    roots, weights = rng.normal(size=(6, 4)), rng.normal(size=4)
    hessian = roots.T @ roots

    def loss(kept):
        moved = np.array([kept[0], 0, kept[1], 0]) - weights
        return moved @ hessian @ moved

    found, left = without(weights, hessian, [3, 1])
    assert_allclose(found, minimize(loss, np.zeros(2), tol=1e-12).x, rtol=1e-5)
    assert_array_equal(left, hessian[np.ix_([0, 2], [0, 2])])


def test_a_pass_says_at_which_rates_experts_are_redrawn_in_a_kind():
    assert PoolPass(LogLinearPool(rates=RATES), 2, 3).rates == RATES
    assert PoolPass(LogLinearPool(), 2, 3).rates is None


@for_each("name", ["n_kinds", "n_classes"])
def test_a_pass_needs_a_kind_and_a_class(name):
    cure = r"pass PoolPass\(pool, \*log_proba.shape\[1:\]\)"
    words = f"`{name}` must be an integer of at least 1, got 0; {cure}"
    with pytest.raises(ValueError, match=words):
        PoolPass(LogLinearPool(), **{"n_kinds": 1, "n_classes": 1, name: 0})


@pytest.mark.parametrize("sizes", [[1], [3], [1, 4, 2]], ids=repr)
def test_fixed_share_in_each_group_is_that_of_each_alone(sizes):
    rng = np.random.default_rng(0)
    starts = np.cumsum([0, *sizes[:-1]])
    prior = rng.uniform(0.1, 1, sum(sizes))
    losses = 5 * rng.random((300, sum(sizes)))
    losses[7] = np.inf
    losses[11, 0] = np.inf
    together, found, weights = GroupedShare(prior, starts), [], []
    for row in losses:
        weights.append(together.weights)
        found.append(together.observe(row))
    groups = zip(
        np.split(losses, starts[1:], 1), np.split(prior, starts[1:]), strict=True
    )
    alone = [ForwardPass("fixed-share", len(w), w).extend(part) for part, w in groups]
    assert_allclose(found, np.stack([t.codelengths for t in alone], 1), rtol=1e-12)
    assert_allclose(weights, np.hstack([t.posterior for t in alone]), rtol=1e-12)


RATES = [0.3, 0.05, 0.0]


@for_each("rates", [RATES, [0.2]])
def test_rates_are_learned_in_each_group_alone(rates):
    """As a mixture of passes at constant rates; who sleeps costs the mixture."""
    rng = np.random.default_rng(0)
    starts, prior = np.array([0, 1, 5]), rng.uniform(0.1, 1, 7)
    losses = 5 * rng.random((200, 7))
    losses[11, 2] = np.inf
    losses[60:120, 3] = losses[150:, 6] = np.nan
    losses[90] += 2000
    kind = LearnedGroupedShare if len(rates) > 1 else GroupedShare
    together, found = kind(prior, starts, rates if len(rates) > 1 else rates[0]), []
    filled = losses.copy()
    for row in filled:
        awake, weights = ~np.isnan(row), together.weights
        for group in np.split(np.arange(7), starts[1:]):
            own = group[awake[group]]
            logs = np.log(weights[own] / weights[own].sum()) - row[own]
            row[group[~awake[group]]] = -np.logaddexp.reduce(logs)
        asleep = np.where(awake, row, np.nan)
        found.append(together.observe(asleep))
    for g, group in enumerate(np.split(np.arange(7), starts[1:])):
        passes = [
            ForwardPass(FixedShare(alpha=r), len(group), prior[group]) for r in rates
        ]
        costs = [p.extend(filled[:, group]).codelengths.cumsum() for p in passes]
        expected = np.log(len(rates)) - np.logaddexp.reduce(-np.array(costs), 0)
        assert_allclose(np.cumsum(found, 0)[:, g], expected, rtol=1e-10)


def test_steps_without_labels_are_redraws():
    prior, starts = np.full(3, 1 / 3), np.array([0])
    losses = np.array([[0.0, 1.0, 2.0]])
    for begun in (
        GroupedShare(prior, starts),
        GroupedShare(prior, starts, 0.2),
        LearnedGroupedShare(prior, starts, RATES),
    ):
        begun.observe(losses[0])
        expected, moved = begun.weights, copy.deepcopy(begun)
        for _ in range(4):
            moved.observe(np.zeros(3))  # a label that all predict alike
        before = begun.weights
        assert_allclose(begun.ahead(4), moved.weights, rtol=1e-12)
        assert_array_equal(begun.weights, before)
        assert_array_equal(expected, before)


def test_a_half_life_halves_what_labels_count():
    """The weights by their definition, with sums over labels instead of a recursion."""
    q, labels = stream()
    pool = LogLinearPool(half_life=20, prior_precision=3.0, floor=0.0)
    found, weights, seen = pool(q, labels), np.full(4, 1 / 4), []
    for t in range(60):
        assert_allclose(found.weights[t], weights, rtol=1e-8)
        p = np.exp(weights @ q[t])
        p /= p.sum()
        gaps = q[t] - (q[t] @ p)[:, None]
        seen.append((gaps * p) @ gaps.T)
        ages = np.arange(t, -1, -1)[:, None, None]
        hessian = 3.0 * np.eye(4) + (0.5 ** (ages / 20) * seen).sum(0)
        weights = weights + np.linalg.solve(hessian, gaps[:, labels[t]])


def test_it_is_a_scikit_learn_object():
    pool = clone(LogLinearPool(prior_precision=3.0)).set_params(floor=0.5)
    assert pool.get_params() == {
        "kinds": None,
        "prior_precision": 3.0,
        "floor": 0.5,
        "half_life": None,
        "rates": None,
    }


@for_each(
    "change, words",
    [
        ({"prior_precision": 0}, "`prior_precision` must be a positive"),
        ({"prior_precision": math.nan}, "`prior_precision` must be a positive"),
        ({"floor": 1.0}, r"`floor` must be a number in \[0, 1\), got 1.0"),
        ({"floor": 1.5}, r"`floor` must be a number in \[0, 1\), got 1.5"),
        ({"half_life": 0}, "`half_life` must be a positive number or None, got 0"),
        (
            {"rates": []},
            r"`rates` must be a list of 1 to 1000 .* in \[0, 1\], or None, got \[\]",
        ),
        (
            {"rates": 0.1},
            r"`rates` must be a list of 1 to 1000 numbers.* got 0.1; for example, pass",
        ),
        ({"rates": [0.1] * 1001}, r"`rates` must be a list of 1 to 1000 numbers"),
        ({"rates": [[0.1], [0.2]]}, r"`rates` must be a list of 1 to 1000 numbers"),
        (
            {"rates": [0.1, 2]},
            r"`rates` must be a list of 1 to 1000 numbers in \[0, 1\]",
        ),
        (
            {"labels": [0, 1]},
            r"shape \(4,\), one for each row, got 'int64 \(2,\)'; for sorted classes, ",
        ),
        ({"labels": [0.0, 1.0, 2.0, 1.0]}, r"must be integers .* got 'float64 "),
        (
            {"labels": [0, 1, 3, 1]},
            r"must be from 0 to 2, got \[0, 3\]; for sorted classes, pass np",
        ),
        ({"rows": GOLDEN_ROWS[0]}, "must be of shape"),
        ({"rows": GOLDEN_ROWS * math.nan}, "at most 0, got nan"),
        ({"rows": -GOLDEN_ROWS}, "at most 0, got"),
        ({"rows": GOLDEN_ROWS + 0.71}, "at most 0, got"),
        ({"rows": GOLDEN_ROWS - math.inf, "floor": 0}, "pass floor=1e-4"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, words):
    rows, labels = change.get("rows", GOLDEN_ROWS), change.get("labels", GOLDEN_LABELS)
    settings = {name: change[name] for name in change if name not in ("rows", "labels")}
    with pytest.raises(ValueError, match=words):
        LogLinearPool(**settings)(rows, labels)


def test_settings_may_be_fractions():
    pool = LogLinearPool(prior_precision=0.5, floor=0.5, half_life=0.5)
    assert pool(GOLDEN_ROWS, GOLDEN_LABELS).codelength > 0


def test_a_pass_goes_on_from_the_state_of_another_to_the_same_bits():
    begun, other = (PoolPass(LogLinearPool(half_life=3), 2, 3) for _ in range(2))
    begun.extend(GOLDEN_ROWS[:2], GOLDEN_LABELS[:2])
    other.load_state_dict(begun.state_dict())
    rows, labels = GOLDEN_ROWS[2:], GOLDEN_LABELS[2:]
    ends = begun.extend(rows, labels), other.extend(rows, labels)
    assert_array_equal(ends[0].codelengths, ends[1].codelengths)
    assert_array_equal(begun.weights, other.weights)


@for_each("shape", [(3, 3), (2, 4)])
def test_a_pass_takes_predictions_of_its_kinds_and_classes(shape):
    rows = np.full((1, *shape), -2.0)
    with pytest.raises(ValueError, match=r"must be of shape \(n_samples, 2, 3\)"):
        PoolPass(LogLinearPool(), 2, 3).extend(rows, [0])


def test_a_share_goes_on_from_the_state_of_another_to_the_same_bits():
    prior, starts = np.arange(1.0, 8.0), np.array([0, 1, 5])
    losses = 5 * np.random.default_rng(0).random((40, 7))
    for make in (
        lambda: GroupedShare(prior, starts),
        lambda: GroupedShare(prior, starts, 0.2),
        lambda: LearnedGroupedShare(prior, starts, RATES),
    ):
        begun, other = make(), make()
        for row in losses[:20]:
            begun.observe(row)
        other.load_state_dict(begun.state_dict())
        for row in losses[20:]:
            assert_array_equal(other.weights, begun.weights)
            assert_array_equal(other.observe(row), begun.observe(row))
