"""Laws of regression: densities in the units of labels, nothing ahead or for free."""

import copy
import math
import pickle
import re
from functools import cache

import numpy as np
import pytest
from each_case import for_each
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import DataConversionWarning
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcherRegressor,
    PrequentialSplit,
    codelength_scorer,
    encode_labels,
    heldout_codelength_scorer,
)
from sklearn_mdl._core.stream.heldout import flushed_copy, predictions
from sklearn_mdl.metrics import gaussian_codelengths
from sklearn_mdl.readouts import (
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    regressor_grid,
)
from sklearn_mdl.readouts._lists import named_regressors
from sklearn_mdl.switcher import load_losses

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

B = 16
N = 150
SMALL_POOL = [
    LinearReadoutRegressor(lr=0.01),
    LinearReadoutRegressor(lr=0.01, likelihood="student-t", heteroscedastic=False),
    LinearReadoutRegressor(scaling="whiten", ema_step_size=0.1),
    MLPReadoutRegressor((16,), lr=0.01, scaling=None),
    MLPReadoutRegressor((16,), lr=0.01, likelihood="student-t", ema_step_size=0.1),
]


def pool(readouts=None, **options):
    given = {"batch_size": B, "random_state": 0, **options}
    return MDLReadoutSwitcherRegressor(readouts or SMALL_POOL, **given)


@cache
def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, 3.0 + X @ [2.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=n)


@cache
def fitted():
    return pool().fit(*data())


def in_pieces(switcher, at):
    X, y = data()
    for start, stop in zip([0, *at], [*at, len(X)], strict=True):
        switcher.partial_fit(X[start:stop], y[start:stop])
    return switcher


def assert_same_run(found, expected):
    for name in ("codelengths_", "posterior_", "readout_losses_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(
        found._run.trace.summaries, expected._run.trace.summaries
    )


# The code


def test_the_first_minibatch_costs_what_the_fixed_student_t_says():
    X, y = data()
    switcher = pool(prior_location=2.0, prior_scale=3.0).fit(X[:40], y[:40])
    expected = -stats.t(1, 2.0, 3.0).logpdf(y[:B])
    np.testing.assert_allclose(switcher.codelengths_[:B], expected)
    np.testing.assert_allclose(switcher.reference_codelengths_[:B], expected)


@pytest.mark.parametrize("t", [1, B, B + 3, 90])
def test_labels_to_come_change_nothing_that_was_paid_before(t):
    X, y = data()
    changed = y.copy()
    changed[t:] = -100 * changed[t:]
    found = pool().fit(X, changed)
    for name in ("codelengths_", "readout_losses_", "reference_codelengths_"):
        np.testing.assert_array_equal(
            getattr(found, name)[:t], getattr(fitted(), name)[:t]
        )


@pytest.mark.parametrize("a", [2.0**40, -(2.0**-9)])
def test_units_that_are_a_power_of_two_add_their_logarithm_after_the_first(a):
    X, y = data()
    found = pool().fit(X, a * y)
    expected = fitted().readout_losses_[B:] + math.log(abs(a))
    np.testing.assert_allclose(found.readout_losses_[B:], expected, atol=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.3, 10.0), (-700.0, 2e4)])
def test_any_units_add_their_logarithm_to_float32_after_the_first(a, b):
    X, y = data()
    readouts = SMALL_POOL[:3]  # perceptrons amplify the last bit
    found, own = (pool(readouts).fit(X, labels) for labels in (a * y + b, y))
    expected = own.readout_losses_[B:] + math.log(abs(a))
    np.testing.assert_allclose(found.readout_losses_[B:], expected, atol=2e-3)
    np.testing.assert_allclose(found.posterior_, own.posterior_, atol=2e-3)


def test_refreshed_scaling_of_labels_moves_no_prediction():
    """At 2B rows all is rescaled; the next minibatch is predicted as it would be."""
    X, y = data()
    before = pool().fit(X[: 2 * B - 1], y[: 2 * B - 1])
    learned = flushed_copy(before._run)  # its pending minibatch lacks a row
    after = pool().fit(X[: 2 * B], y[: 2 * B])
    units = {stack.target for stack in after._run.learners}
    assert [u.n_rows for u in units] == [2 * B]
    assert {stack.target.n_rows for stack in learned.learners} == {B}
    stale = copy.deepcopy(after._run)
    for stack in stale.learners:
        stack.retarget(learned.learners[0].target)
    for found, expected in zip(
        predictions(stale, X[100 : B + 100]),
        predictions(after._run, X[100 : B + 100]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_codelength_is_that_of_the_mixture_of_densities():
    losses, posterior = fitted().readout_losses_, fitted().posterior_
    mixed = -np.log((posterior * np.exp(-losses)).sum(1))
    np.testing.assert_allclose(fitted().codelengths_, mixed, rtol=1e-9)


def test_reference_is_the_gaussian_that_learns_online():
    y = data()[1]
    expected = gaussian_codelengths(y, n_first=B)
    np.testing.assert_array_equal(fitted().reference_codelengths_, expected)


# Nothing for free (no code beats a source's own by u nats with probability exp(-u))


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_compressed(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(400, 6)), rng.normal(size=400)
    switcher = pool(random_state=seed).fit(X, y)
    truth = -stats.norm.logpdf(y)
    assert switcher.codelengths_[B:].sum() >= truth[B:].sum() - 10
    assert (switcher.readout_losses_[B:].sum(0) >= truth[B:].sum() - 10).all()


def exact_codelengths(X, y, noise):
    """Bayesian linear regression under the prior by which the weights were drawn."""
    n, d = X.shape
    precision, moment, found = np.eye(d), np.zeros(d), np.empty(n)
    for t in range(n):
        covariance = np.linalg.inv(precision)
        scale = math.sqrt(X[t] @ covariance @ X[t] + noise**2)
        found[t] = -stats.norm(X[t] @ covariance @ moment, scale).logpdf(y[t])
        precision += np.outer(X[t], X[t]) / noise**2
        moment += X[t] * y[t] / noise**2
    return found


@pytest.mark.parametrize("seed", range(2))
def test_linear_source_costs_at_least_what_exact_bayes_pays_and_little_more(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 5))
    y = X @ rng.normal(size=5) + 0.5 * rng.normal(size=600)
    exact = exact_codelengths(X, y, 0.5)
    switcher = pool(
        regressor_grid(lr=[3e-3, 1e-2], heteroscedastic=False, n_replay_streams=30)
    )
    switcher.fit(X, y)
    assert exact[B:].sum() - 10 <= switcher.codelengths_[B:].sum()
    # Learning costs most at first; then each label costs nearly the same.
    assert switcher.codelengths_[300:].mean() <= exact[300:].mean() + 0.05
    np.testing.assert_allclose(exact.sum(), -marginal(X, y, 0.5), rtol=1e-8)


def marginal(X, y, noise):
    covariance = X @ X.T + noise**2 * np.eye(len(X))
    return stats.multivariate_normal(cov=covariance).logpdf(y)


# Real data


@pytest.mark.slow
def test_diabetes_costs_far_less_than_the_reference_and_as_much_as_bayesian_ridge():
    X, y = load_diabetes(return_X_y=True)
    switcher = MDLReadoutSwitcherRegressor(
        prior_location=150, prior_scale=75, random_state=0
    ).fit(X, y)
    saved = switcher.reference_codelengths_.sum() - switcher.codelength_
    assert saved > 100
    assert switcher.measures().r2 > 0.4
    # Refitted after every minibatch, its predictive Gaussian is a code, too.
    ridge = switcher.codelengths_[:32].sum()
    for start in range(32, len(y), 32):
        seen, rows = slice(0, start), slice(start, start + 32)
        scaler = StandardScaler().fit(X[seen])
        model = BayesianRidge().fit(scaler.transform(X[seen]), y[seen])
        mean, std = model.predict(scaler.transform(X[rows]), return_std=True)
        ridge -= stats.norm(mean, std).logpdf(y[rows]).sum()
    assert switcher.codelength_ == pytest.approx(ridge, abs=15)


def test_alcohol_of_wine_follows_from_its_other_attributes():
    X, _ = load_wine(return_X_y=True)
    switcher = MDLReadoutSwitcherRegressor(
        prior_location=13, shuffle=True, random_state=0
    ).fit(X[:, 1:], X[:, 0])
    saved = switcher.reference_codelengths_.sum() - switcher.codelength_
    assert saved > 20


def test_student_t_beats_the_gaussian_where_tails_are_heavy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.standard_t(1.5, size=500)
    readouts = regressor_grid(
        likelihood=["gaussian", "student-t"], degrees_of_freedom=2.0, lr=0.01
    )
    switcher = pool(readouts).fit(X, y)
    gaussian, student = switcher.readout_codelengths_
    assert student < gaussian - 100
    assert switcher.posterior_[-1, 1] > 0.9


def test_a_scale_that_depends_on_the_features_serves_data_whose_scale_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.exp(1.5 * X[:, 0]) * rng.normal(size=600)
    readouts = regressor_grid(heteroscedastic=[False, True], lr=0.01)
    constant, varying = pool(readouts).fit(X, y).readout_codelengths_
    assert varying < constant - 100


# How the rows come


@pytest.mark.parametrize(
    "at", [[1], [5, B, 50], [B, 2 * B], [31, 33, 149], range(1, 40)]
)
def test_any_cutting_gives_the_same_bits(at):
    assert_same_run(in_pieces(pool(), at), fitted())


def test_blocks_of_a_stream_give_the_same_bits():
    X, y = data()
    blocks = ((X[i : i + 40], y[i : i + 40]) for i in range(0, N, 40))
    assert_same_run(pool().fit_stream(blocks), fitted())


def test_readouts_in_other_stacks_and_jobs_give_the_same_bits():
    X, y = data()
    turned = pool(SMALL_POOL[::-1], n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        turned.readout_losses_[:, ::-1], fitted().readout_losses_
    )
    for k, readout in enumerate(SMALL_POOL):
        alone = pool([readout]).fit(X, y)
        np.testing.assert_array_equal(
            alone.readout_losses_[:, 0], fitted().readout_losses_[:, k]
        )


def test_a_readout_alone_is_a_regressor_with_the_same_code():
    X, y = data()
    readout = clone(SMALL_POOL[0]).set_params(batch_size=B, random_state=0)
    alone = pool([readout]).fit(X, y)
    np.testing.assert_array_equal(
        readout.fit(X, y).codelengths_, alone.readout_losses_[:, 0]
    )
    assert readout.net_.module_.n_members == 1


def test_shuffled_rows_are_those_of_the_order_kept():
    X, y = data()
    shuffled = pool(shuffle=True).fit(X, y)
    order = shuffled.order_
    assert_same_run(shuffled, pool().fit(X[order], y[order]))


@pytest.mark.parametrize("n", [70, 2 * B])
def test_a_pickled_run_goes_on_to_the_same_bits(n):
    X, y = data()
    other = pickle.loads(pickle.dumps(pool().fit(X[:n], y[:n])))
    other.predict(X[:5])
    assert_same_run(other.partial_fit(X[n:], y[n:]), fitted())


@pytest.mark.parametrize("n", [5, 70, 4 * B])
def test_a_saved_run_goes_on_to_the_same_bits(tmp_path, n):
    X, y = data()
    path = tmp_path / "run.safetensors"
    pool().fit(X[:n], y[:n]).save(path)
    other = MDLReadoutSwitcherRegressor.load(path)
    assert_same_run(other.partial_fit(X[n:], y[n:]), fitted())


def test_a_fit_that_was_broken_off_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    X, y = data()
    options = {"checkpoint": tmp_path, "random_state": 0}

    class Killed(Exception):
        pass

    switcher = pool(**options)
    drive, calls = switcher._drive, []

    def kill(run, *args, **kwargs):
        from sklearn_mdl._core.stream import checkpoint

        def save(self, run):
            original(self, run)
            calls.append(run.n_scored)
            if run.n_scored > 60:
                raise Killed

        original = checkpoint.Checkpoint.save
        monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
        monkeypatch.setattr(checkpoint.Checkpoint, "act", save)
        return drive(run, *args, **kwargs)

    monkeypatch.setattr(switcher, "_drive", kill)
    with pytest.raises(Killed):
        switcher.fit(X, y)
    monkeypatch.undo()
    assert calls[-1] < N
    assert_same_run(pool(**options).fit(X, y), fitted())


def test_other_labels_do_not_go_on_from_a_checkpoint(tmp_path):
    X, y = data()
    pool(checkpoint=tmp_path).fit(X[:40], y[:40])
    found = pool(checkpoint=tmp_path).fit(X[:40], y[:40] + 1e-9)
    expected = pool().fit(X[:40], y[:40] + 1e-9)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)
    assert len(list(tmp_path.iterdir())) == 2


def test_heldout_rows_cost_what_they_would_and_leave_no_trace():
    X, y = data()
    part = pool().fit(X[:100], y[:100])
    found = part.heldout_codelengths(X[100:], y[100:])
    np.testing.assert_array_equal(found, fitted().codelengths_[100:])
    assert part.n_samples_seen_ == 100


# Readings and predictions


def test_another_prior_reads_the_same_losses(tmp_path):
    other = fitted().remix(FixedShare(m=2))
    scored = pool(switching=FixedShare(m=2)).fit(*data())
    np.testing.assert_allclose(other.codelengths, scored.codelengths_)
    fitted().save_losses(tmp_path / "losses.npy")
    stored = load_losses(tmp_path / "losses.npy")
    assert stored.n_classes is None
    np.testing.assert_array_equal(stored.losses, fitted().readout_losses_)


@for_each("n", [1, 5, B, 100])
def test_predictions_are_finite_after_any_number_of_rows(n):
    X, y = data()
    mean, std = pool().fit(X[:n], y[:n]).predict(X, return_std=True)
    assert mean.shape == std.shape == (N,)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_predictions_follow_the_labels_with_errors_of_the_size_they_say():
    X, y = data(400, seed=3)
    switcher = pool().fit(*data(400))
    mean, std = switcher.predict(X, return_std=True)
    errors = y - mean
    assert switcher.score(X, y) > 0.9
    assert np.sqrt(np.mean(np.square(errors / std))) == pytest.approx(1, abs=0.2)
    np.testing.assert_array_equal(switcher.predict(X), mean)


def test_measures_are_those_of_the_means_that_were_predicted():
    y, measures = data()[1], fitted().measures()
    means = fitted()._run.trace.summaries[B:, 0]
    assert measures.n_samples == N
    assert measures.n_measured == N - B
    assert measures.mean_absolute_error == pytest.approx(np.abs(y[B:] - means).mean())
    assert measures.r2 == pytest.approx(
        1 - measures.root_mean_squared_error**2 / y[B:].var()
    )
    assert measures.savings_over_reference == pytest.approx(
        fitted().reference_codelengths_.sum() - fitted().codelength_
    )
    assert measures.per_example == fitted().codelength_ / N
    assert np.isnan(pool().fit(*(part[:9] for part in data())).measures().r2)


# What may go wrong


@pytest.mark.filterwarnings("ignore:all readouts have diverged")
def test_a_readout_that_diverges_predicts_what_the_labels_suggest():
    X, y = data()
    readouts = [LinearReadoutRegressor(lr=1e38), SMALL_POOL[0]]
    switcher = pool(readouts).fit(X, y)
    assert switcher.diverged_readouts_ == switcher.readout_names_[:1]
    seen, n = y[: 8 * B], 8 * B
    scale = seen.std(ddof=1) * math.sqrt(1 + 1 / n)
    expected = -stats.t(n - 1, seen.mean(), scale).logpdf(y[n:])
    np.testing.assert_allclose(switcher.readout_losses_[n:, 0], expected)
    np.testing.assert_array_equal(
        switcher.readout_losses_[:, 1], fitted().readout_losses_[:, 0]
    )
    assert np.isfinite(switcher.predict(X)).all()


def test_all_that_diverge_are_reported():
    with pytest.warns(UserWarning, match="predicted without features"):
        LinearReadoutRegressor(lr=1e38).fit(*data())


@pytest.mark.filterwarnings("ignore:y is . in 1")
@for_each("size", [0.0, 1e-298, 1e-200, 1e140])
def test_labels_of_any_size_leave_all_finite(size):
    X, y = data()
    switcher = pool().fit(X, size * y)
    assert np.isfinite(switcher.readout_losses_).all()
    assert np.isfinite(switcher.predict(X)).all()
    if size:  # after the first minibatch the unit matters by its logarithm alone
        reference = gaussian_codelengths(y)[32:] + np.log(size)
        found = switcher.reference_codelengths_[32:]
        np.testing.assert_allclose(found, reference, rtol=1e-9)


def test_labels_that_differ_by_less_than_can_be_computed_count_as_equal():
    X, y = data()
    faint, equal = y.copy(), y.copy()
    faint[:32], equal[:32] = 1e-320 * np.arange(32), 0.0
    one, other = (pool().fit(X, labels) for labels in (faint, equal))
    np.testing.assert_array_equal(one.codelengths_, other.codelengths_)


def with_wild_labels(places, size=1e6):
    X, y = data()
    wild = y.copy()
    wild[places] = size
    return X, wild


@pytest.mark.parametrize("places", [[5], [20], [75], [5, 20, 40, 75, 100]])
def test_wild_labels_cost_their_tails_and_the_others_next_to_nothing(places):
    codelengths = pool().fit(*with_wild_labels(places)).codelengths_
    assert codelengths[places].max() < 120  # 80 by a Student-t with 4 degrees
    others = np.setdiff1d(np.arange(B, N), places)
    dearer = codelengths[others] - fitted().codelengths_[others]
    assert dearer.mean() < 0.35  # nats a row


def test_any_cutting_gives_the_same_bits_where_labels_are_wild():
    X, wild = with_wild_labels([5, 20, 75])
    pieces, at = pool(), [5, B, 21, 50, 70]
    for start, stop in zip([0, *at], [*at, N], strict=True):
        pieces.partial_fit(X[start:stop], wild[start:stop])
    assert_same_run(pieces, pool().fit(X, wild))


def test_units_add_their_logarithm_where_labels_are_wild():
    X, wild = with_wild_labels([5, 20, 75])
    own, found = (
        pool().fit(X, a * wild).readout_losses_[B:] for a in (1.0, -(2.0**30))
    )
    np.testing.assert_allclose(found, own + 30 * math.log(2), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("size", [1e45, 1e150])
def test_a_label_that_no_float32_holds_makes_no_readout_diverge(size):
    switcher = pool().fit(*with_wild_labels([75], size))
    assert switcher.diverged_readouts_ == []
    assert np.isfinite(switcher.codelengths_).all()
    dearer = switcher.codelengths_[76:] - fitted().codelengths_[76:]
    assert dearer.mean() < 0.35


@for_each(
    "y, match",
    [
        ([0.0, np.nan, 1.0], "NaN in row 1; drop such rows$"),
        (
            [0.0, 1.0, np.inf],
            "infinity or a number too large in row 2; drop such rows$",
        ),
        ([0.0, 1.0, -1e200], r"too large in row 2; for example, pass 1e-160 \* y$"),
        (
            [0.0, 1e-320, -1e-301],
            "reach 1e-300 in absolute value, got 1e-301; for example, pass 1e300",
        ),
        (np.array([0.0, 1e300, 1.0], dtype=object), "too large in row 1"),
    ],
)
def test_labels_that_are_no_finite_numbers_are_refused_with_their_place(y, match):
    switcher = pool()
    with pytest.raises(ValueError, match=match):
        switcher.fit(np.zeros((3, 2)), y)
    assert not hasattr(switcher, "n_features_in_")


@for_each("y", [["a", "b", "c"], [{}, {}, {}], np.arange(3).astype("datetime64[D]")])
def test_labels_that_are_no_numbers_are_refused_in_one_sentence(y):
    switcher = pool()
    with pytest.raises(ValueError, match="y must be real numbers"):
        switcher.fit(np.zeros((3, 2)), np.asarray(y))
    assert not hasattr(switcher, "n_features_in_")


def test_dates_with_any_index_become_numbers_as_the_message_says():
    pd = pytest.importorskip("pandas")
    days = pd.Series(np.datetime64("2020-01-01") + np.arange(3), index=[7, 5, 6])
    cure = "(y - y.min()) / np.timedelta64(1, 'D')"
    with pytest.raises(ValueError, match=f"; for example, pass {re.escape(cure)}$"):
        pool().fit(np.zeros((3, 2)), days)
    y = days
    assert list((y - y.min()) / np.timedelta64(1, "D")) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:y is . in 1")
@for_each("dtype", [np.float16, np.float32, np.int8, bool])
def test_labels_of_any_type_are_taken_as_the_float64_that_they_are(dtype):
    X, y = data()
    y = y.astype(dtype)
    found, expected = (pool().fit(X, labels) for labels in (y, y.astype(float)))
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


def test_labels_in_a_column_are_checked_as_those_in_a_row():
    switcher, y = pool(), np.array([[0.0], [-1e200], [1.0]])
    with (
        pytest.warns(DataConversionWarning),
        pytest.raises(ValueError, match="too large in row 1"),
    ):
        switcher.fit(np.zeros((3, 2)), y)
    assert not hasattr(switcher, "n_features_in_")


def one_far_out(deviations, slope):
    """A source whose scale depends on a feature, and one row far out in it."""
    X, y = np.random.default_rng(0).normal(size=(2, 400, 2)).astype(np.float32)
    y = np.exp(slope * X[:, 1]) * y[:, 0]
    X[300, 1] = deviations
    return X, y


def test_a_row_far_out_costs_what_one_at_fifty_deviations_does():
    readout = LinearReadoutRegressor(lr=0.01, likelihood="student-t", random_state=0)
    near, far, farther = (
        clone(readout).fit(*one_far_out(d, slope=0.1)) for d in (1.0, -100.0, -1e30)
    )
    np.testing.assert_array_equal(far.codelengths_[:320], farther.codelengths_[:320])
    assert far.codelengths_[300] < 60
    assert farther.codelengths_[301:].mean() < near.codelengths_[301:].mean() + 0.1


def test_a_row_far_out_of_features_not_scaled_costs_40_nats_more_than_without_them():
    # Where its scale would be less than any number.
    readout = LinearReadoutRegressor(lr=0.03, scaling=None, random_state=0)
    readout.fit(*one_far_out(-3000.0, slope=1.0))
    assert np.isfinite(readout.codelengths_).all()
    assert readout.codelengths_[300] == pytest.approx(
        40 + readout.reference_codelengths_[300], abs=0.2
    )
    assert not readout._run.diverged.any()


def test_labels_that_are_all_equal_make_no_readout_diverge():
    X, _ = data()
    pool = regressor_grid(lr=[1.0], likelihood=["gaussian", "student-t"])
    switcher = MDLReadoutSwitcherRegressor(pool, random_state=0)
    with pytest.warns(UserWarning, match="^y is 3 in 1500 of 1500 rows, so even"):
        switcher.fit(np.tile(X, (10, 1)), np.full(10 * len(X), 3.0))
    assert switcher.diverged_readouts_ == []
    assert np.isfinite(switcher.readout_losses_).all()


@for_each(
    "readouts, error, match",
    [
        ([], ValueError, "a non-empty list"),
        ([LinearReadout()], TypeError, "regressor_grid"),
        ([LinearReadoutRegressor(likelihood="laplace")], ValueError, "likelihood"),
        ([LinearReadoutRegressor(degrees_of_freedom=0)], ValueError, "freedom"),
    ],
)
def test_what_is_no_regressor_is_refused(readouts, error, match):
    with pytest.raises(error, match=match):
        MDLReadoutSwitcherRegressor(readouts).fit(*data())


def test_weights_on_labels_are_refused():
    X, y = data()
    for method in ("fit", "partial_fit"):
        with pytest.raises(TypeError, match="sample_weight"):
            getattr(pool(), method)(X, y, sample_weight=np.ones(N))


def test_entropy_coding_is_for_classes_only():
    pytest.importorskip("constriction")
    words = r"; pass MDLReadoutSwitcher\(random_state=0\) and np.digitize\(y, bins\)$"
    with pytest.raises(TypeError, match=words):
        encode_labels(pool(), *data())


# Pools


def test_default_pool_depends_on_the_width_alone_and_fits_its_budget():
    few, many = (named_regressors("nets", d) for d in (10, 2000))
    assert {readout.n_replay_streams for readout in few} == {(30, 3)}
    assert {readout.scaling for readout in many} == {"standard"}
    assert len({str(readout.get_params()) for readout in few}) == len(few)


def test_grid_makes_perceptrons_and_linear_regressors():
    found = regressor_grid(hidden_layer_sizes=[(), (8,)], likelihood="student-t")
    assert [type(readout) for readout in found] == [
        LinearReadoutRegressor,
        MLPReadoutRegressor,
    ]
    assert [readout.tails for readout in found] == [4.0, 4.0]


# In searches


def test_a_search_takes_the_regressor_whose_code_is_shortest():
    X, y = data()
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), pool()),
        {"mdlreadoutswitcherregressor__readouts": [SMALL_POOL, SMALL_POOL[2:3]]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
        error_score="raise",
    ).fit(X, y)
    means = [
        pool(readouts).fit(X, y).codelengths_.mean()
        for readouts in (SMALL_POOL, SMALL_POOL[2:3])
    ]
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], np.negative(means)
    )
    assert search.best_index_ == np.argmin(means)


def test_scorers_read_streams_of_real_labels():
    X, y = data()
    switcher = pool().fit(X[:100], y[:100])
    found = heldout_codelength_scorer(switcher, X[100:], y[100:])
    assert found == -switcher.heldout_codelengths(X[100:], y[100:]).mean()
    with pytest.raises(ValueError, match="y holds other labels"):
        codelength_scorer(switcher, X[:100], y[:100] + 1e-9)


def test_scorers_refuse_features_that_were_chosen_by_the_labels_they_code():
    X, y = data()
    chosen = make_pipeline(SelectKBest(f_regression, k=2), pool()).fit(X, y)
    with pytest.raises(ValueError, match="SelectKBest"):
        codelength_scorer(chosen, X, y)


KERNELS = {"readouts": "closed-form", "shuffle": True, "random_state": 0}


def saved(X, y, **options):
    fit = MDLReadoutSwitcherRegressor(**KERNELS, **options).fit(X, y)
    return fit.measures().savings_over_reference


def test_what_kernels_save_depends_on_neither_units_nor_prior():
    X, y = load_diabetes(return_X_y=True)
    good = {"prior_location": 150, "prior_scale": 75}
    nats = [saved(X, y, **good), saved(X, y), saved(X, 1000 * y), saved(X, y + 2000)]
    np.testing.assert_allclose(nats, nats[0], rtol=1e-6)
    noise = np.random.default_rng(0).normal(size=(100, 10))
    for options in (good, {}):
        assert saved(noise, y[:100], **options) < 0


def test_before_they_know_units_kernels_cost_what_the_reference_costs():
    X, y = load_diabetes(return_X_y=True)
    for features, shift in ((X, 0), (X[:, :1], 300), (np.ones_like(X), 0)):
        fit = MDLReadoutSwitcherRegressor(**KERNELS, prior_scale=70.0)
        fit.fit(features[:30], y[:30] + shift)
        early, expected = fit.readout_losses_[:8], fit.reference_codelengths_[:8]
        np.testing.assert_allclose(early, np.tile(expected, (21, 1)).T, rtol=1e-9)
    held = KernelReadoutRegressor(standardize_targets=False)
    losses = [held.fit(F[:8], y[:8]).codelengths_ for F in (X, X[:, :1])]
    assert (losses[0] != losses[1]).any()  # known units are used from the first label


def test_an_outlier_costs_kernels_little_and_leaves_the_winner():
    X, y = load_diabetes(return_X_y=True)
    wild = y.copy()
    wild[50] = 9999
    codes = {}
    for name, F in {"all": X, "two": X[:, :2]}.items():
        one, other = (MDLReadoutSwitcherRegressor(**KERNELS) for _ in range(2))
        codes[name] = other.fit(F, wild).codelength_
        assert 0 < codes[name] - one.fit(F, y).codelength_ < 250
    assert codes["two"] - codes["all"] > 100


def test_several_columns_are_refused_with_a_cure_that_works():
    X, Y = np.eye(9), np.arange(18.0).reshape(9, 2)
    switcher = MDLReadoutSwitcherRegressor(KernelReadoutRegressor())
    with pytest.raises(ValueError, match=r"\(9, 2\) instead; fit .* such as y\[:, 0\]"):
        switcher.fit(X, Y)
    assert switcher.fit(X, Y[:, 0]).n_samples_seen_ == 9
