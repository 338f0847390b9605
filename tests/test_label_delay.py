"""Laws of labels that come late: row t is coded by labels before t - n alone."""

import itertools

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    FixedShare,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    MultiOutputSwitcher,
    RefitReadout,
)
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    DummyReadoutRegressor,
    IncrementalReadout,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
)
from sklearn_mdl.switching import (
    BayesMixture,
    ForwardPass,
    LearnedShare,
    MarkovPrior,
    Race,
    SwitchDistribution,
    Transition,
    UniversalShare,
    _filtering,
    forward,
)
from sklearn_mdl.switching._filtering import MarkovFilter
from sklearn_mdl.switching._kept_shares import KeptShares

READOUTS = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    MLPReadout((4,), lr=0.03, ema_step_size=0.1, n_replay_streams=2),
    KernelReadout(),
    KernelReadout("rbf", gamma=0.1, scaling=None, max_exact=32),
    KernelReadout("rbf", scaling="within-class"),
    DiscriminantReadout(),
    CentroidReadout(restart=16),
    DummyReadout("transition"),
    KNeighborsReadout(3),
    KernelReadout(scaling="unit", restart=16),
    KNeighborsReadout(3, restart=12),
    IncrementalReadout(GaussianNB()),
    RefitReadout(GaussianNB()),
]
REGRESSORS = [
    LinearReadoutRegressor(lr=0.03),
    KernelReadoutRegressor(),
    KernelReadoutRegressor(restart=16),
    DummyReadoutRegressor("last"),
]
N, D, C, DELAY = 72, 4, 3, 11
TRACES = ["codelengths_", "readout_losses_", "posterior_", "pool_weights_"]


def stream(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=N)
    return rng.normal(size=(N, D)) + 2 * np.eye(C, D)[y], y


def switcher(kind="classes", **options):
    options = {
        "batch_size": (4, 8),
        "pooling": LogLinearPool(half_life=30, rates=[0.1, 0.01]),
        "race": Race(slack=0.5, min_readouts=2, min_samples=16),
        "random_state": 0,
        "label_delay": DELAY,
        **options,
    }
    if kind == "classes":
        return MDLReadoutSwitcher(**{"readouts": READOUTS, **options})
    return MDLReadoutSwitcherRegressor(REGRESSORS, **{**options, "race": None})


def labels_of(kind, y):
    return y if kind == "classes" else y + np.linspace(0, 0.1, len(y))


def assert_same(one, other, rows=slice(None)):
    for name in [*TRACES, "pool_posterior_"]:
        found, wanted = getattr(one, name)[rows], getattr(other, name)[rows]
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.quick("3-classes", "50-reals")
@pytest.mark.parametrize("kind", ["classes", "reals"])
@pytest.mark.parametrize("n_known", [3, 50])
def test_a_row_is_coded_by_labels_before_the_delay_alone(kind, n_known):
    X, y = stream()
    other = y.copy()
    other[n_known:] = (other[n_known:] + 1) % C
    one, two = (switcher(kind).fit(X, labels_of(kind, v)) for v in (y, other))
    assert_same(one, two, slice(n_known))
    stop = n_known + DELAY + 1  # row t knows label t - DELAY - 1
    for name in ("posterior_", "pool_weights_", "pool_posterior_"):
        found, wanted = getattr(one, name), getattr(two, name)
        np.testing.assert_array_equal(found[:stop], wanted[:stop], err_msg=name)
        assert (found[stop:] != wanted[stop:]).any()
    # The same predictions, and so the same losses of what did not change.
    summaries = one._run.trace.summaries, two._run.trace.summaries
    np.testing.assert_array_equal(summaries[0][:stop], summaries[1][:stop])
    assert (summaries[0][stop:] != summaries[1][stop:]).any()


def test_a_late_readout_predicts_what_it_knew_in_time():
    """What learns row by row predicts as one that has just learned the labels known."""
    X, y = stream()
    options = {"pooling": None, "race": None, "readouts": READOUTS[2:5]}
    late = switcher(**options).fit(X, y)
    for t in (12, 40, N - 1):
        n_known = t - DELAY
        intime = switcher(**options, label_delay=0)
        intime.partial_fit(X[:n_known], y[:n_known], range(C))
        run = intime._run
        for learner, state in zip(run.learners, run.threads.states, strict=True):
            assert state.n_known == n_known
            found = learner.predict(run.rows.scaled(X[t : t + 1])[:, :1])
            np.testing.assert_allclose(
                late.readout_losses_[t, learner.columns],
                -found[:, 0, y[t]],
                rtol=1e-6,
            )


class AgeingLater(MarkovPrior):
    """A prior whose kept experts age from step 3 on, and are redrawn more often."""

    def transition(self, t):
        return Transition(draw=np.linspace(0.1, 0.9, max(1, t - 2)), ageing=t > 2)


PRIORS = {
    "bayes": BayesMixture(),
    "fixed": FixedShare(m=2),
    "learned": LearnedShare(ms=(2, 6)),
    "distribution": SwitchDistribution(),
    "universal": UniversalShare(),
    "others": FixedShare(alpha=0.3, redraw=False),
    "all redrawn": FixedShare(m=4),
    "ageing later": AgeingLater(),
}


SCHEDULES = {  # labels known at each of five rows, and after the last
    "at once": [0, 1, 2, 3, 4, 5],
    "one late": [0, 0, 1, 2, 3, 4],
    "two late": [0, 0, 0, 1, 2, 3],
    "never": [0, 0, 0, 0, 0, 0],
    "in groups": [0, 0, 0, 3, 4, 5],
    "in groups and one late": [0, 0, 0, 2, 3, 3],
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("known", SCHEDULES)
def test_the_forward_pass_is_the_sum_over_all_sequences(name, known):
    """p(expert at t | labels known at t), every sequence of experts enumerated."""
    n_rows, n_experts, prior = 5, 2, PRIORS[name]
    late = np.array(SCHEDULES[known])
    losses = np.random.default_rng(0).exponential(2.0, (n_rows, n_experts))
    weights = [0.3, 0.7]
    found = ForwardPass(prior, n_experts, weights).extend(losses, late)
    expected = np.zeros((n_rows, n_experts))
    for sequence in itertools.product(range(n_experts), repeat=n_rows):
        # Its probability a priori: what it alone would explain, by infinite losses.
        only = np.full((n_rows, n_experts), np.inf)
        only[np.arange(n_rows), sequence] = 0.0
        plain = forward(prior, only, weights)
        for t in range(n_rows):
            explained = sum(losses[i, sequence[i]] for i in range(late[t]))
            expected[t, sequence[t]] += np.exp(-plain.codelength - explained)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.posterior, expected, rtol=1e-9)
    costs = -np.log((expected * np.exp(-losses)).sum(axis=1))
    np.testing.assert_allclose(found.codelengths, costs, rtol=1e-9)


def test_a_label_that_never_comes_in_time_teaches_nothing():
    X, y = stream()
    with pytest.warns(
        UserWarning, match="learn before its last .*or lower label_delay"
    ):
        model = switcher(label_delay=N).fit(X, y)
    np.testing.assert_allclose(model.codelengths_, np.log(C), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X[:3]), 1 / C, rtol=1e-12)


def test_what_was_learned_late_predicts_and_remixes():
    X, y = stream()
    model = switcher(readouts=READOUTS[1:4]).fit(X, y)
    more = np.random.default_rng(1).normal(size=(1, D))
    kernels = switcher(readouts=READOUTS[2:4]).fit(X, y)
    nats = kernels.heldout_codelengths(more, y[:1])
    np.testing.assert_allclose(nats, -kernels.predict_log_proba(more)[0, y[0]])
    again = model.remix("learned-share")
    np.testing.assert_array_equal(again.posterior, model.posterior_)
    np.testing.assert_array_equal(again.codelengths, model.switching_codelengths_)
    segments = kernels.score_segments(2)
    assert segments.restarted_codelengths[0] == pytest.approx(segments.codelengths[0])
    columns = np.stack([y, (y + 1) % C], 1)
    both = MultiOutputSwitcher(switcher(readouts=READOUTS[2:4])).fit(X, columns)
    alone = switcher(readouts=READOUTS[2:4]).fit(X, y)
    assert both.output_codelengths_[0] == pytest.approx(alone.codelength_)


def test_a_delay_is_a_number_of_rows():
    with pytest.raises(ValueError, match="'label_delay' parameter"):
        switcher(label_delay=-1).fit(*stream())


class GivenRates(MarkovPrior):
    """Redraws by rates that a test chooses, one for each step."""

    def __init__(self, rates=()):
        self.rates = rates

    def transition(self, t):
        return Transition(draw=np.array([self.rates[t]]))


def test_shares_kept_over_many_steps_are_products_over_these_steps():
    rates = np.random.default_rng(0).uniform(0, 0.4, size=80)
    rates[[9, 10, 31, 70]] = 1.0  # where a redraw is certain
    shares = KeptShares(GivenRates(rates))
    for most in (3, 2, 8, 40, 75):  # the table grows by little and by much
        first, n_steps = (a.ravel() for a in np.mgrid[1:most, 0:5])
        expected = [
            np.prod(1 - rates[t + 1 : t + n + 1])
            for t, n in zip(first, n_steps, strict=True)
        ]
        np.testing.assert_allclose(shares.between(first, n_steps), expected, rtol=1e-12)
    np.testing.assert_allclose(shares.between(4, 3), np.prod(1 - rates[5:8]))
    assert shares.between(8, 1) == shares.between(8, 50) == 0
    assert shares.between(1, np.array([], dtype=int)).shape == (0,)
    assert KeptShares(SwitchDistribution()).between(2, 3) is None


def test_codelengths_of_rows_that_a_filter_follows_are_those_of_the_prior(monkeypatch):
    losses = np.random.default_rng(0).exponential(size=(12, 3))
    places, n_ahead = np.array([0, 4, 5, 12]), np.array([2, 0, 3, 1])
    for prior in ("bayes", FixedShare(), LearnedShare(), SwitchDistribution()):
        followed = ForwardPass(prior, 3)._filter.follow(losses, places, n_ahead)
        expected = forward(prior, losses)
        np.testing.assert_allclose(followed.codelengths, expected.codelengths)
        np.testing.assert_allclose(followed.weights[1], expected.posterior[4])
        later = ForwardPass(prior, 3)._filter.follow(losses, places[1:], n_ahead[1:])
        np.testing.assert_allclose(later.weights, followed.weights[1:])
    # Neither is needed if steps only redraw, even if there are many.
    monkeypatch.setattr(_filtering, "apply", None)
    begun = ForwardPass(FixedShare(), 3)._filter
    np.testing.assert_allclose(begun.ahead(1000), 1 / 3)
    monkeypatch.setattr(MarkovFilter, "ahead", None)
    begun.follow(losses, places, n_ahead)
