"""Laws of the experts: any classifier codes, and cutting, copying, mixing keep it."""

import copy
import itertools
import math
import pickle
import threading
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from each_case import for_each
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from skorch import NeuralNetClassifier

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RefitReadout,
    decode_labels,
    encode_labels,
    frequency_codelength,
)
from sklearn_mdl._core.nets.adamw import ForwardCalibration, LogitScale
from sklearn_mdl._core.sklearn_compat import predict_proba
from sklearn_mdl._core.stream.checkpoint import Checkpoint, progress_of, resume
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.scaling import RunningStandardizer
from sklearn_mdl._core.stream.steps import ReplayStreams
from sklearn_mdl.readouts import DummyReadout, KernelReadoutRegressor
from sklearn_mdl.readouts._edges import grid_edges
from sklearn_mdl.readouts._floor import class_frequencies, complete, floored
from sklearn_mdl.readouts._grid import readout_names
from sklearn_mdl.readouts._isolation import KEPT_TEXTS, Notes, collected
from sklearn_mdl.readouts._lists import named_readouts

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

PLAIN = {"scaling": None, "calibration": False}


class Net(torch.nn.Module):
    """A user's own module, with what draws numbers in training."""

    def __init__(self, n_features=64, n_classes=10):
        super().__init__()
        self.hidden = torch.nn.Linear(n_features, 12)
        self.dropout = torch.nn.Dropout(0.2)
        self.out = torch.nn.Linear(12, n_classes)

    def forward(self, x):
        return self.out(self.dropout(torch.relu(self.hidden(x))))


def net(module=Net, **options):
    return NeuralNetClassifier(
        module,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        max_epochs=1,
        train_split=None,
        verbose=0,
        **options,
    )


FAST = {"lr": 0.02, "n_replay_streams": 2}
POOL = [
    KNeighborsReadout(5),
    RefitReadout(LogisticRegression(), schedule=1.5),
    LinearReadout(**FAST),
    KNeighborsReadout(20, metric="cosine", scaling="whiten", calibration=False),
    IncrementalReadout(GaussianNB(var_smoothing=0.1)),
    KNeighborsReadout(12, scaling=None, bandwidth=0.5, window=40),
    IncrementalReadout(SGDClassifier(loss="log_loss"), n_replay_streams=2),
    RefitReadout(
        make_pipeline(StandardScaler(), SelectKBest(k=9), DecisionTreeClassifier()),
        **PLAIN,
    ),
    KNeighborsReadout(1),
    IncrementalReadout(MLPClassifier((5,)), scaling="whiten", random_state=3),
    RefitReadout(CalibratedClassifierCV(SVC(), cv=2, ensemble=False), schedule=1),
    KernelReadout("rbf", scaling="unit", window=64),
    MLPReadout((9,), **FAST, scaling="whiten"),
    KernelReadout(),
    DummyReadout("transition"),
    DummyReadout("decayed", half_life=20, restart=30),
    KernelReadout(restart=16),
    KNeighborsReadout(5, restart=24),
    IncrementalReadout(net(), n_replay_streams=1),
    RefitReadout(net(), schedule=1.5, scaling="whiten"),
]
PLACES = range(len(POOL))


@cache
def digits(n=150):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def scored(X=None, y=None, readouts=POOL, **options):
    if X is None:
        X, y = digits()
    switcher = MDLReadoutSwitcher(readouts, random_state=0, **options)
    return switcher.partial_fit(X, y, classes=np.arange(10))


@cache
def reference():
    return scored()


# The floor that keeps a code


def test_class_frequencies_are_those_of_krichevsky_and_trofimov():
    np.testing.assert_allclose(
        class_frequencies(np.array([3, 1, 0])), [7 / 11, 3 / 11, 1 / 11]
    )
    np.testing.assert_array_equal(class_frequencies(np.zeros(4, int)), 1 / 4)


def test_floor_by_hand():
    counts, known = np.array([3, 1, 0]), np.array([True, True, False])
    proba = complete(np.array([[0.8, 0.2, 0.0]]), known, counts)
    np.testing.assert_allclose(proba, [[0.8 * 10 / 11, 0.2 * 10 / 11, 1 / 11]])
    expected = [[(40 + 7) / 66, (10 + 3) / 66, (5 + 1) / 66]]
    np.testing.assert_allclose(floored(proba, counts), expected)


def test_what_is_given_to_classes_not_seen_is_dropped():
    counts, known = np.array([3, 1, 0]), np.array([True, True, False])
    one, other = (
        complete(np.array([row]), known, counts) for row in ([4, 1, 5], [0.8, 0.2, 0])
    )
    np.testing.assert_allclose(one, other)


@for_each("row", [[0, 0, 1], [math.nan, 0.5, 0.5], [-0.1, 1.1, 0], [math.inf, 0, 0]])
def test_rows_that_hold_no_probabilities_are_nan_throughout(row):
    known = np.array([True, True, False])
    proba = complete(np.array([row, [0.5, 0.5, 0]]), known, np.array([2, 2, 0]))
    assert np.isnan(proba[0]).all()
    assert proba[1].sum() == pytest.approx(1)


@for_each("batch_size", [1, 7, 32])
def test_floor_costs_a_whole_stream_no_more_than_is_said(batch_size):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=500)
    proba = rng.dirichlet(np.full(3, 0.2), size=500)
    own = total = 0.0
    for start in range(0, 500, batch_size):
        counts = np.bincount(labels[:start], minlength=3)
        rows = slice(start, start + batch_size)
        places = np.arange(len(labels[rows])), labels[rows]
        mixed = floored(proba[rows], counts)
        assert np.all(mixed.sum(1) == pytest.approx(1))
        frequencies = class_frequencies(counts)[labels[rows]]
        most = np.log(start + 2) - np.log(frequencies)
        assert np.all(-np.log(mixed[places]) <= most + 1e-12)
        if start:  # nothing is learned before
            gap = np.log(proba[rows][places]) - np.log(mixed[places])
            total += np.maximum(gap, 0).sum()
            own += gap.sum()
    assert own <= total <= 1 + math.log(500 / batch_size)


# Witnesses


def test_naive_bayes_by_hand():
    rng = np.random.default_rng(1)
    y = rng.permutation(np.repeat([0, 1], 20))
    X = (rng.normal(size=(40, 2)) + 2 * y[:, None]).astype(np.float32)
    expert = IncrementalReadout(GaussianNB(), batch_size=10, **PLAIN)
    found = expert.partial_fit(X, y, classes=[0, 1]).codelengths_
    expected = np.full(40, math.log(2))
    for start in (10, 20, 30):
        counts = np.bincount(y[:start], minlength=2)
        rows = slice(start, start + 10)
        joint = [math.log(counts[c] / start) for c in (0, 1)] + np.stack(
            [
                norm.logpdf(
                    X[rows],
                    X[:start][y[:start] == c].mean(0),
                    X[:start][y[:start] == c].std(0),
                ).sum(1)
                for c in (0, 1)
            ],
            axis=1,
        )
        proba = np.exp(joint) / np.exp(joint).sum(1, keepdims=True)
        share, frequencies = 1 / (start + 2), (counts + 0.5) / (start + 1)
        mixed = (1 - share) * proba + share * frequencies
        expected[rows] = -np.log(mixed[np.arange(10), y[rows]])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@for_each("schedule, factor", [("doubling", 2), (1.3, 1.3), (1, 1)])
def test_refitted_regression_equals_a_plain_block_wise_code(schedule, factor):
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32).astype(np.float64), y[order]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    expert = RefitReadout(model, schedule=schedule, **PLAIN).fit(X, y)
    expected, fitted = np.full(len(y), math.log(3)), 0
    for start in range(32, len(y), 32):
        if start >= factor * fitted:
            fitted = start
            model = clone(model).fit(X[:start], y[:start])
        rows = slice(start, start + 32)
        counts = np.bincount(y[:start], minlength=3)
        proba = floored(model.predict_proba(X[rows]), counts)
        expected[rows] = -np.log(proba[np.arange(len(proba)), y[rows]])
    np.testing.assert_allclose(expert.codelengths_, expected, rtol=1e-9)


def test_features_of_a_refit_are_scaled_as_its_own_rows_say():
    X, y = digits()
    expert = RefitReadout(LogisticRegression(), calibration=False)
    expert.partial_fit(X[:64], y[:64], classes=range(10))
    running = RunningStandardizer(64)
    running.update(X[:64])
    scaling = running.scaling()
    scaled = (X - scaling.mean.numpy()) * scaling.transform.numpy()
    model = LogisticRegression().fit(scaled[:64], y[:64])
    counts = np.bincount(y[:64], minlength=10)
    expected = floored(
        complete(model.predict_proba(scaled[64:]), counts > 0, counts), counts
    )
    np.testing.assert_allclose(expert.predict_proba(X[64:]), expected, rtol=1e-3)


class Remembering(ClassifierMixin, BaseEstimator):
    """Predicts the frequencies in its data, and tells how many rows each fit had."""

    n_rows: list[int] = []  # noqa: RUF012, shared by all copies on purpose

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.proba_ = counts / counts.sum()
        type(self).n_rows.append(len(X))
        return self

    def predict_proba(self, X):
        return np.tile(self.proba_, (len(X), 1))


@pytest.mark.quick("90-doubling-[8, 16, 32, 64]", "11-1.5-[8, 16, 24, 40, 64]")
@pytest.mark.parametrize(
    ("schedule", "ends"),
    [
        ("doubling", [8, 16, 32, 64]),
        (1.5, [8, 16, 24, 40, 64]),
        (1, list(range(8, 96, 8))),
        (3, [8, 24, 72]),
    ],
)
@pytest.mark.parametrize("cut", [90, 1, 11])
def test_blocks_end_with_minibatches_however_calls_are_cut(schedule, ends, cut):
    X, y = digits(90)
    expert = RefitReadout(Remembering(), schedule=schedule, batch_size=8)
    Remembering.n_rows.clear()
    for start in range(0, 90, cut):
        rows = slice(start, start + cut)
        expert.partial_fit(X[rows], y[rows], classes=range(10))
    assert Remembering.n_rows == ends


def test_incremental_classifier_learns_all_classes_and_every_minibatch_once():
    observed = []

    class Diary(GaussianNB):
        def partial_fit(self, X, y, classes=None, sample_weight=None):
            observed.append((X, y, classes))
            return super().partial_fit(X, y, classes)

    X, y = digits()
    IncrementalReadout(Diary(), scaling=None).partial_fit(X, y, classes=range(10))
    np.testing.assert_array_equal(np.concatenate([x for x, _, _ in observed]), X[:128])
    np.testing.assert_array_equal(np.concatenate([t for _, t, _ in observed]), y[:128])
    assert [len(t) for _, t, _ in observed] == [32] * 4
    np.testing.assert_array_equal(observed[0][2], range(10))
    assert all(classes is None for _, _, classes in observed[1:])


def test_replayed_minibatches_are_those_of_the_run():
    observed = []

    class Diary(SGDClassifier):
        def partial_fit(self, X, y, classes=None, sample_weight=None):
            observed.append(y)
            return super().partial_fit(X, y, classes)

    X, y = digits()
    expert = IncrementalReadout(
        Diary(loss="log_loss"), n_replay_streams=3, scaling=None, random_state=0
    ).partial_fit(X, y, classes=range(10))
    streams = ReplayStreams(3, seed=expert._seed)
    expected = [
        y[32 * i : 32 * i + 32] for new in range(4) for i in [new, *streams.advance()]
    ]
    np.testing.assert_array_equal(observed, expected)


def test_after_a_refresh_all_that_was_learned_is_scaled_alike():
    X, y = digits()
    expert = IncrementalReadout(GaussianNB(var_smoothing=0.1), n_replay_streams=0)
    expert.partial_fit(X[:128], y[:128], classes=range(10))
    (learner,) = expert._run.learners
    scaling = expert._run.rows.current[0]
    scaled = (X[:128] - scaling.mean.numpy()) * scaling.transform.numpy()
    expected = GaussianNB().partial_fit(scaled, y[:128], classes=range(10))
    np.testing.assert_allclose(learner.fitted.theta_, expected.theta_, atol=1e-5)


def test_classes_that_all_have_no_probability_are_all_alike():
    """As scikit-learn 1.9 says of one against the rest; before, it was 0 / 0."""
    X = np.eye(3)
    classifier = SGDClassifier(loss="log_loss").fit(X, [0, 1, 2])
    classifier.coef_ = np.zeros((3, 3))
    classifier.intercept_ = np.full(3, -1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # before scikit-learn 1.9
        np.testing.assert_array_equal(
            predict_proba(classifier, X), np.full((3, 3), 1 / 3)
        )


def test_probabilities_that_are_none_stay_none():
    class Lost:
        def predict_proba(self, X):
            return np.full((len(X), 3), np.nan)

    class Diverged(Lost):
        decision_function = Lost.predict_proba

    for classifier in (Lost(), Diverged()):
        assert np.isnan(predict_proba(classifier, np.eye(3))).all()


def test_relearning_repeats_the_replay():
    # Two streams of rows that scale alike must teach alike: the second is refreshed.
    X, y = digits()
    straight = IncrementalReadout(
        SGDClassifier(loss="log_loss"), n_replay_streams=2, scaling=None, random_state=0
    ).partial_fit(X[:128], y[:128], classes=range(10))
    (learner,) = straight._run.learners
    weights = learner.fitted.coef_.copy()
    learner.re_express([lambda weight, bias: None])
    np.testing.assert_array_equal(learner.fitted.coef_, weights)


def kernel(bandwidth):
    def weigh(distances):
        squares = distances**2
        excess = squares - squares.min(1, keepdims=True)
        return np.exp(-excess / squares.mean(1, keepdims=True) / bandwidth)

    return weigh


@for_each("metric", ["euclidean", "cosine"])
@for_each("k", [1, 4, 30])
def test_neighbours_equal_scikit_learns_refitted_after_every_minibatch(k, metric):
    # Features far from zero would drown in the squares of a product in float32.
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.log(X[order] + 1) + (100 if metric == "euclidean" else 0), y[order]
    bandwidth = 0.3
    readout = KNeighborsReadout(
        k, metric=metric, bandwidth=bandwidth, smoothing=0.05, batch_size=30, **PLAIN
    ).fit(X, y)

    def weigh(distances):  # scikit-learn hands over cosine distances, half of squares
        return kernel(bandwidth)(distances if metric == "euclidean" else distances**0.5)

    witness = KNeighborsClassifier(k, weights=weigh, metric=metric, algorithm="brute")
    refitted = RefitReadout(witness, schedule=1, batch_size=30, **PLAIN).fit(X, y)
    expected = np.full(len(y), math.log(3))
    for start in range(30, len(y), 30):
        rows = slice(start, start + 30)
        frequencies = class_frequencies(np.bincount(y[:start], minlength=3))[y[rows]]
        share = 1 / (start + 2)
        proba = np.exp(-refitted.codelengths_[rows])
        votes = (proba - share * frequencies) / (1 - share)
        expected[rows] = -np.log((0.05 + votes) / (1 + 3 * 0.05))
    np.testing.assert_allclose(readout.codelengths_, expected, atol=2e-3)


def neighbours_of(X, y, *readouts, **options):
    switcher = MDLReadoutSwitcher(list(readouts), **options).fit(X, y)
    learner = switcher._run.learners[0]
    return learner, learner.seen


def test_equally_near_rows_come_in_their_order():
    X = np.array([[1.0, 0], [0, 1], [-1, 0], [1, 0], [0, -1], [3, 3], [1, 0], [2, 0]])
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    _, seen = neighbours_of(X, y, KNeighborsReadout(scaling=None), batch_size=8)
    for k in range(1, 9):
        distances, places = seen.nearest(torch.zeros(1, 2), (0, 8), k)
        assert places[0].tolist() == [0, 1, 2, 3, 4, 6, 7, 5][:k]
        assert distances[0].tolist() == [1, 1, 1, 1, 1, 1, 4, 18][:k]


@for_each("scaling", ["standard", "whiten", None])
def test_neighbours_are_the_same_by_any_blocks_kept_or_read_again(scaling, monkeypatch):
    X, y = digits()
    readouts = [KNeighborsReadout(k, scaling=scaling) for k in (3, 40)]
    whole, seen = neighbours_of(X, y, *readouts)
    query = seen._scaled(100, 120)
    distances, places = seen.nearest(query, (0, 96), 40)
    monkeypatch.setattr("sklearn_mdl.readouts._neighbors.BLOCK", 16)
    for kept in (6, 2, 0):
        seen.forget()
        seen._n_kept = kept
        for _ in range(2):
            again, there = seen.nearest(query, (0, 96), 40)
            np.testing.assert_allclose(again, distances, rtol=1e-3)
            assert np.mean(there.numpy() == places.numpy()) > 0.99
        assert len(seen._blocks) == kept
    assert [member.n_neighbors for member in whole.members] == [3, 40]


def test_distances_follow_the_scaling_as_it_is_now():
    X, y = digits()
    _, seen = neighbours_of(X, y, KNeighborsReadout())  # refreshed at 128 of 150 rows
    current = seen.rows.current[0]
    assert seen.rows.n_refreshed == 128
    scaled = (X - current.mean.numpy()) * current.transform.numpy()
    expected = np.sort(np.square(scaled[:128] - scaled[140]).sum(1))[:9]
    found, _ = seen.nearest(seen._scaled(140, 141), (0, 128), 9)
    np.testing.assert_allclose(found[0], expected, rtol=1e-3)


def test_slopes_of_the_calibration_are_those_of_autograd():
    X, y = digits()
    readout = KNeighborsReadout(7, bandwidth=0.4, smoothing=0.1)
    learner, seen = neighbours_of(X, y, readout)
    learner.calibration.values.data[:] = torch.tensor([[0.3, -1.2]])
    x, labels = seen._scaled(128, 150)[None], torch.as_tensor(y[128:])
    ((excess, votes),) = learner._excesses(x)
    found = learner._vote(0, excess, votes)[1](labels)
    raw = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
    weights = torch.softmax(-excess / raw[1].exp(), 1)
    shares = (weights[..., None] * votes).sum(1)
    logit_scale = torch.nn.functional.softplus(raw[0])
    loss = torch.nn.functional.cross_entropy(logit_scale * (0.1 + shares).log(), labels)
    (expected,) = torch.autograd.grad(loss, raw)
    loss = loss.detach()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    log_proba = learner.predict(x)[0]
    losses = -log_proba[torch.arange(22), labels]
    assert float(losses.mean()) == pytest.approx(float(loss), rel=1e-6)


def test_calibration_steps_are_those_of_torchs_adam_member_by_member():
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(20, 3, 2))
    start = torch.tensor([[0.5, 1.0], [0.1, -1.0], [2.0, 0.0]], dtype=torch.float64)
    whole, alone = ForwardCalibration(start), ForwardCalibration(start[1:2].clone())
    values = torch.tensor([[0.1, -1.0]], dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([values], lr=0.1, betas=(0.9, 0.99))
    for step in slopes:
        values.grad = torch.from_numpy(step[1:2])
        adam.step()
        whole.learn(torch.from_numpy(step))
        alone.learn(torch.from_numpy(step[1:2]))
    assert whole.member(1) == alone.member(0)
    np.testing.assert_allclose(whole.member(1), values.detach()[0], rtol=1e-9)


def test_calibration_passes_over_slopes_that_are_not_finite():
    calibration, plain = LogitScale(), LogitScale()
    calibration.learn_factor(math.nan)
    plain.learn_factor(0.0)
    assert calibration.member(0) == plain.member(0)
    assert calibration.factor == pytest.approx(1, rel=1e-12)
    calibration.learn_factor(math.inf)
    assert math.isfinite(calibration.member(0)[0])


def test_calibrated_neighbours_bear_labels_that_are_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), rng.integers(2, size=400)
    plain, calibrated = (
        KNeighborsReadout(10, calibration=flag).fit(X, y).codelengths_
        for flag in (False, True)
    )
    assert calibrated.sum() < plain.sum() - 50
    assert calibrated[300:].mean() < math.log(2) + 0.1 < plain[300:].mean()


def test_calibration_softens_a_classifier_that_is_too_sure():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 30)), rng.integers(2, size=400)
    sure = RefitReadout(LogisticRegression(C=1e6), calibration=False)
    calibrated = clone(sure).set_params(calibration=True)
    assert calibrated.fit(X, y).codelength_ < sure.fit(X, y).codelength_ - 50


# Laws of the run, with every kind of expert on one pool


@pytest.mark.quick("77")
@pytest.mark.parametrize("t", [1, 77])
def test_labels_to_come_change_no_loss_bitwise(t):
    X, y = digits()
    changed = y.copy()
    changed[t:] = (changed[t:] + 1 + np.arange(150 - t) % 9) % 10
    found = scored(X, changed).readout_losses_
    np.testing.assert_array_equal(found[:t], reference().readout_losses_[:t])


@pytest.mark.quick("32")
@pytest.mark.parametrize("t", [32, 77])
def test_features_to_come_change_no_loss_bitwise(t):
    X, y = digits()
    changed = X.copy()
    changed[t:] = 100 - 3 * changed[t:, ::-1]
    found = scored(changed, y).readout_losses_
    np.testing.assert_array_equal(found[:t], reference().readout_losses_[:t])


@pytest.mark.quick("23")
@pytest.mark.parametrize("cut", [1, 23])
def test_any_cutting_into_calls_gives_the_same_bits(cut):
    X, y = digits()
    switcher, n = MDLReadoutSwitcher(POOL, random_state=0), 77 if cut == 1 else 150
    for start in range(0, n, cut):
        rows = slice(start, min(start + cut, n))
        switcher.partial_fit(X[rows], y[rows], classes=np.arange(10))
    expected = reference().readout_losses_[:n]
    np.testing.assert_array_equal(switcher.readout_losses_, expected)


@for_each("place", PLACES)
def test_expert_alone_equals_itself_among_others_bitwise(place):
    found = scored(readouts=[POOL[place]]).readout_losses_[:, 0]
    np.testing.assert_array_equal(found, reference().readout_losses_[:, place])


@pytest.mark.slow
def test_numbers_follow_their_experts_through_any_order_bitwise():
    order = np.random.default_rng(0).permutation(len(POOL))
    found = scored(readouts=[POOL[place] for place in order])
    np.testing.assert_array_equal(
        found.readout_losses_, reference().readout_losses_[:, order]
    )
    assert [found.readouts_[k].architecture for k in range(len(order))] == [
        POOL[place].architecture for place in order
    ]


@pytest.mark.parametrize("place", [0, 1, 4, 6, 12])
def test_expert_on_its_own_costs_what_it_does_in_a_switcher(place):
    own = clone(POOL[place])
    if "random_state" in own.get_params():
        own.set_params(random_state=3)
    found = own.partial_fit(*digits(), classes=range(10)).codelengths_
    switcher = MDLReadoutSwitcher([own, POOL[2]], random_state=3)
    switcher.partial_fit(*digits(), classes=range(10))
    expected = switcher.readout_losses_[:, 0]
    if isinstance(own, IncrementalReadout) and own.n_replay_streams:
        expected = found[:32]  # its replay is its own
        found = found[:32]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.slow
def test_experts_as_threads_give_the_same_bits():
    np.testing.assert_array_equal(
        scored(n_jobs=3).readout_losses_, reference().readout_losses_
    )


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.quick("through_pickle-77")
@pytest.mark.parametrize(("copied", "n"), [(copy.deepcopy, 20), (through_pickle, 77)])
def test_a_copy_made_on_the_way_goes_on_with_the_same_bits(copied, n):
    X, y = digits()
    switcher = scored(X[:n], y[:n])
    switcher.predict_proba(X[:5])
    other = copied(switcher)
    for each in (other, switcher):
        each.partial_fit(X[n:], y[n:])
        np.testing.assert_array_equal(each.readout_losses_, reference().readout_losses_)


@pytest.mark.slow
def test_heldout_rows_are_scored_by_a_copy_that_leaves_no_trace():
    X, y = digits()
    switcher = scored(X[:77], y[:77])
    found = switcher.heldout_codelengths(X[77:], y[77:])
    np.testing.assert_array_equal(found, reference().codelengths_[77:])
    np.testing.assert_array_equal(switcher.heldout_codelengths(X[77:], y[77:]), found)
    switcher.partial_fit(X[77:], y[77:])
    np.testing.assert_array_equal(switcher.readout_losses_, reference().readout_losses_)


@pytest.mark.slow
def test_rows_in_a_memory_map_teach_the_same(tmp_path):
    X, y = digits()
    path = tmp_path / "features.npy"
    np.save(path, X.astype(np.float32))
    found = scored(np.load(path, mmap_mode="r"), y)
    np.testing.assert_array_equal(found.readout_losses_, reference().readout_losses_)


@pytest.mark.parametrize("batch_size", [1, 7, 32])
def test_first_minibatch_costs_what_the_uniform_code_does(batch_size):
    X, y = digits()
    pool = [POOL[k] for k in (0, 1, 4, 6, 10)]
    n = batch_size + 8
    found = scored(X[:n], y[:n], pool, batch_size=batch_size).readout_losses_
    np.testing.assert_allclose(found[:batch_size], math.log(10), rtol=1e-14)
    assert np.all(found[batch_size:, 0] != math.log(10))


@pytest.mark.slow
def test_random_labels_are_not_compressed():
    # A code that saves a nats on them has probability exp(-a) at most.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 64)), rng.integers(10, size=200)
    switcher = scored(X, y)
    uniform = 200 * math.log(10)
    assert switcher.codelength_ > uniform - 20
    assert switcher.readout_codelengths_.min() > uniform - 20


@pytest.mark.slow
def test_probabilities_of_all_label_sequences_sum_to_one():
    X = np.random.default_rng(0).normal(size=(5, 3))
    readouts = [
        KNeighborsReadout(3),
        RefitReadout(LogisticRegression(), schedule=1),
        IncrementalReadout(GaussianNB(var_smoothing=0.1)),
        RefitReadout(KNeighborsClassifier(1), calibration=False),
    ]
    totals = []
    for y in itertools.product([0, 1], repeat=5):
        switcher = MDLReadoutSwitcher(readouts, batch_size=2, random_state=0)
        switcher.partial_fit(X, y, classes=[0, 1])
        totals.append([switcher.codelength_, *switcher.readout_codelengths_])
    np.testing.assert_allclose(np.exp(-np.array(totals)).sum(0), 1, rtol=1e-6)
    assert np.ptp(totals, axis=0).min() > 0.1  # something was learned


def test_selecting_features_by_labels_inside_a_refit_saves_nothing_on_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 300)), rng.integers(4, size=200)
    model = make_pipeline(SelectKBest(k=10), LogisticRegression())
    expert = RefitReadout(model, schedule=1.2).fit(X, y)
    assert expert.codelength_ > 200 * math.log(4) - 20


def test_every_kind_of_classifier_compresses_real_labels():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    models = [
        LogisticRegression(),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        CalibratedClassifierCV(SVC(), ensemble=False),
        KNeighborsClassifier(),
        GradientBoostingClassifier(n_estimators=5),
        GaussianProcessClassifier(),
        make_pipeline(SelectKBest(k=6), GaussianNB()),
    ]
    pool = [RefitReadout(model) for model in models]
    switcher = MDLReadoutSwitcher(pool, random_state=0).fit(X[order], y[order])
    frequencies = frequency_codelength(y, 3)
    assert np.all(switcher.readout_codelengths_ < frequencies - 40)
    assert switcher.score(X, y) > 0.9


# Nets of the user


def test_users_own_net_learns_and_more_by_replay():
    X, y = digits(400)
    found = [
        IncrementalReadout(net(), n_replay_streams=s, random_state=0)
        .fit(X, y)
        .codelength_
        for s in (0, 8)
    ]
    assert found[1] < 0.6 * found[0]
    assert found[1] < 0.6 * 400 * math.log(10)


def shallow():
    return torch.nn.Linear(64, 10)


@for_each("module, name", [(Net(), "Net"), (shallow(), "Linear"), (shallow, "shallow")])
@for_each("kind", [IncrementalReadout, RefitReadout])
def test_nets_may_be_made_of_a_module_or_of_what_makes_one(kind, module, name):
    before = copy.deepcopy(module)
    expert = kind(net(module), random_state=0)
    expert.partial_fit(*digits(), classes=range(10))
    assert expert.notes_ == []
    assert np.ptp(expert.codelengths_[64:]) > 0
    assert expert.architecture.startswith(f"NeuralNetClassifier({name})")
    if isinstance(module, torch.nn.Module):  # it is copied, and stays as it is
        for tensor, own in zip(module.parameters(), before.parameters(), strict=True):
            assert torch.equal(tensor, own)


def test_nets_draw_from_their_own_seeds_and_leave_torchs_generators_alone():
    X, y = digits()
    state = torch.get_rng_state()
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed + len(runs))
        before = torch.get_rng_state()
        expert = IncrementalReadout(net(), random_state=seed)
        runs.append(expert.partial_fit(X, y, classes=range(10)).codelengths_)
        assert torch.equal(torch.get_rng_state(), before)
    torch.set_rng_state(state)
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.any(runs[1] != runs[2])


@pytest.mark.parametrize(
    "expert",
    [
        IncrementalReadout(SGDClassifier(loss="log_loss")),
        RefitReadout(make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=5))),
    ],
    ids=str,
)
def test_random_states_that_are_none_take_the_experts_or_the_switchers(expert):
    def losses(own, switchers):
        readout = clone(expert).set_params(random_state=own)
        switcher = MDLReadoutSwitcher([readout], random_state=switchers)
        return switcher.partial_fit(*digits(), classes=range(10)).codelengths_

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(losses(1, 2), losses(1, 3))
    assert np.any(losses(1, 2) != losses(4, 2))
    assert np.any(losses(None, 2) != losses(None, 3))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# What fails


class Moody(ClassifierMixin, BaseEstimator):
    """Fails or speaks nonsense as observed, by the number of rows of its fit."""

    def __init__(self, mood=None, after=0):
        self.mood = mood
        self.after = after

    def fit(self, X, y):
        bad = len(X) >= self.after
        if bad and self.mood == "raises":
            raise ValueError(f"not with {len(np.unique(y))} classes")
        self.bad_ = self.mood if bad else None
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        if self.bad_ == "will not predict":
            raise ArithmeticError("no")
        if self.bad_ == "too few columns":
            return np.ones((len(X), 1))
        n_rows = len(X) - (self.bad_ == "too few rows")
        value = np.nan if self.bad_ == "nan" else 1 / len(self.classes_)
        return np.full((n_rows, len(self.classes_)), value)


def test_one_class_at_first_is_predicted_by_frequencies_and_noted_not_printed():
    X, y = digits()
    y = np.where(np.arange(150) < 40, 3, y)
    expert = RefitReadout(LogisticRegression(), calibration=False)
    expert.partial_fit(X, y, classes=range(10))
    frequencies = class_frequencies(np.bincount(y[:32], minlength=10))
    np.testing.assert_allclose(
        expert.codelengths_[32:64], -np.log(frequencies[y[32:64]])
    )
    (note,) = expert.notes_
    assert note.startswith(
        "ValueError: This solver needs samples of at least 2 classes"
    )
    assert note.endswith("(first after 32 rows, 1 in all)")
    assert expert.codelengths_[128:].mean() < 0.8 * math.log(10)


def test_a_failing_fit_leaves_the_one_before_and_is_reported_in_the_end():
    X, y = digits()
    good, failing = (
        RefitReadout(Moody(mood, after=100), schedule=1, calibration=False)
        for mood in (None, "raises")
    )
    good.fit(X, y)
    with pytest.warns(UserWarning, match="'Moody refitted'.* with 10 .*previous fit"):
        failing.fit(X, y)
    np.testing.assert_array_equal(good.codelengths_[:96], failing.codelengths_[:96])
    assert np.isfinite(failing.codelengths_).all()
    with pytest.warns(UserWarning, match="predicts with class frequencies"):
        never = MDLReadoutSwitcher(
            [KNeighborsReadout(3), RefitReadout(Moody("raises"))]
        ).fit(X, y)
    assert list(never.readout_notes_) == ["Moody refitted"]
    frequencies = [
        class_frequencies(np.bincount(y[: t // 32 * 32], minlength=10))[y[t]]
        for t in range(150)
    ]
    np.testing.assert_allclose(never.readout_losses_[:, 1], -np.log(frequencies))


def test_the_warning_names_the_exception_of_the_last_fit_whatever_else_was_noted():
    class Noisy(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            if len(X) > 32:
                raise RuntimeError(f"{len(X)} rows")
            return super().fit(X, y)

        def predict_proba(self, X):
            n = int(1000 * abs(X).sum())
            warnings.warn(f"warning {n}", UserWarning, stacklevel=1)
            return super().predict_proba(X)

    X, y = digits()
    readout = RefitReadout(Noisy(var_smoothing=0.1), schedule=1, calibration=False)
    said = (
        "^The last fit of readout 'Noisy refitted' raised RuntimeError: 128 rows, so "
        "the readout predicts with its previous fit; debug its estimator, or pass "
        "scaling=None if it needs unscaled rows$"
    )
    with pytest.warns(UserWarning, match=said):
        readout.fit(X, y)
    assert len(readout.notes_) > 3
    said = "raised RuntimeError: 128 rows, so .* previous fit; debug its estimator$"
    with pytest.warns(UserWarning, match=said):  # scaling=None is not advised again
        readout.set_params(scaling=None).fit(X, y)


@for_each("mood", ["nan", "will not predict", "too few columns", "too few rows"])
def test_predictions_that_are_none_are_uniform_from_then_on_and_reported(mood):
    X, y = digits()
    readouts = [RefitReadout(Moody(mood, after=64)), KNeighborsReadout(3)]
    switcher = MDLReadoutSwitcher(readouts).fit(X, y)
    np.testing.assert_array_equal(switcher.readout_losses_[64:, 0], math.log(10))
    assert switcher.diverged_readouts_ == ["Moody refitted"]
    np.testing.assert_array_equal(
        switcher.readout_losses_[:, 1],
        MDLReadoutSwitcher(readouts[1:]).fit(X, y).readout_losses_[:, 0],
    )
    assert np.isfinite(switcher.codelengths_).all()
    assert np.isfinite(switcher.predict_proba(X)).all()
    assert bool(switcher.readout_notes_) == (mood != "nan")
    said = "^predict_proba of the estimator stopped returning valid probabilities"
    with pytest.warns(UserWarning, match=said):  # no advice about other readouts
        readouts[0].fit(X, y)


def test_partial_fit_that_raises_is_noted_and_tried_again():
    class Late(GaussianNB):
        calls = 0

        def partial_fit(self, X, y, classes=None, sample_weight=None):
            type(self).calls += 1
            if type(self).calls <= 2:
                raise RuntimeError("not yet")
            return super().partial_fit(X, y, classes)

    X, y = digits()
    expert = IncrementalReadout(Late(var_smoothing=0.1), scaling=None)
    expert.partial_fit(X, y, classes=range(10))
    assert expert.notes_[0] == "RuntimeError: not yet (first after 32 rows, 2 in all)"
    plain = IncrementalReadout(GaussianNB(var_smoothing=0.1), scaling=None)
    plain.partial_fit(X[64:128], y[64:128], classes=range(10))
    np.testing.assert_allclose(
        expert._run.learners[0].fitted.theta_,
        plain._run.learners[0].fitted.theta_,
    )


def test_the_warning_of_a_readout_that_crashes_gives_the_reason():
    class Broken(GaussianNB):
        def predict_proba(self, X):
            raise RuntimeError("no such layer")

    X, y = digits()
    said = (
        r"those of 'Broken' from row 32 onwards \(RuntimeError: no such layer \(first"
    )
    with pytest.warns(UserWarning, match=said):
        scored(X, y, [IncrementalReadout(Broken()), KNeighborsReadout()])


def test_warnings_of_fits_are_collected_and_filters_left_as_they_were():
    X, y = digits()
    before = list(warnings.filters)
    model = LogisticRegression(max_iter=1)
    switcher = scored(X, y, [RefitReadout(model), KNeighborsReadout()])
    assert warnings.filters == before
    ((name, notes),) = switcher.readout_notes_.items()
    assert name == "LogisticRegression refitted"
    assert notes[0].startswith("ConvergenceWarning: lbfgs failed to converge")
    assert notes[0].endswith("(first after 32 rows, 3 in all)")
    with pytest.raises(ConvergenceWarning):
        warnings.warn("outside", ConvergenceWarning, stacklevel=1)


def test_warnings_are_dealt_out_by_thread_and_others_pass():
    notes = [Notes(), Notes()]
    inside, leave = threading.Barrier(3), threading.Barrier(3)

    def work(i):
        with collected(notes[i], i):
            inside.wait()
            warnings.warn(f"of {i}", UserWarning, stacklevel=1)
            leave.wait()

    with warnings.catch_warnings(record=True) as passed:
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        inside.wait()
        warnings.warn("of none", UserWarning, stacklevel=1)
        leave.wait()
        for thread in threads:
            thread.join()
        with pytest.raises(UserWarning, match="again"):
            warnings.warn("again", UserWarning, stacklevel=1)
    assert [note.lines() for note in notes] == [
        [f"UserWarning: of {i} (first after {i} rows, 1 in all)"] for i in (0, 1)
    ]
    assert [str(warning.message) for warning in passed] == ["of none"]


def test_notes_are_kept_once_and_not_without_end():
    notes = Notes()
    for n in range(100):
        notes.add(UserWarning, "the same\n  thing", n)
        notes.add(ValueError, n, n)
    lines = notes.lines()
    assert lines[0] == "UserWarning: the same thing (first after 0 rows, 100 in all)"
    assert len(lines) == KEPT_TEXTS


# What is refused, and names


@for_each(
    "readout, advice",
    [
        (GaussianNB(), r"wrap it: IncrementalReadout\(GaussianNB\(\)\)"),
        (SVC(), r"RefitReadout\(CalibratedClassifierCV\(SVC\(\), ensemble=False\)\)"),
        (KernelReadoutRegressor(), r"use MDLReadoutSwitcherRegressor\(\[KernelRe"),
        (StandardScaler(), "readout_grid"),
        (GaussianNB, "pass an instance of GaussianNB"),
    ],
)
def test_bare_classifiers_are_refused_with_the_wrapper_they_need(readout, advice):
    with pytest.raises(TypeError, match=f"Readouts must be .*{advice}"):
        MDLReadoutSwitcher([readout]).fit(*digits())


@for_each(
    "expert, said",
    [
        (
            RefitReadout(SVC()),
            "^RefitReadout needs a classifier with fit and predict_proba, got "
            r"SVC\(\); use RefitReadout\(CalibratedClassifierCV\(SVC\(\), "
            r"ensemble=False\)\)$",
        ),
        (
            IncrementalReadout(LogisticRegression()),
            "^IncrementalReadout needs a classifier with partial_fit and "
            r"predict_proba, got LogisticRegression\(\); use "
            r"RefitReadout\(LogisticRegression\(\)\)$",
        ),
        (
            IncrementalReadout(Perceptron()),
            r"; use RefitReadout\(CalibratedClassifierCV\(Perceptron\(\), "
            r"ensemble=False\)\)$",
        ),
        (
            IncrementalReadout(SGDClassifier(alpha=0.1)),
            r"got SGDClassifier\(alpha=0.1\); use IncrementalReadout\("
            r"SGDClassifier\(alpha=0.1, loss='log_loss'\)\)$",
        ),
        (RefitReadout(LogisticRegression), "; pass an instance of a classifier$"),
        (RefitReadout(StandardScaler()), "; pass an instance of a classifier$"),
        (RefitReadout(LogisticRegression(C=-1)), "'C' parameter"),
        (RefitReadout(LogisticRegression(), schedule=0.5), "'schedule'"),
        (RefitReadout(LogisticRegression(), schedule="weekly"), "'schedule'"),
        (IncrementalReadout(GaussianNB(), n_replay_streams=-1), "'n_replay_streams'"),
        (KNeighborsReadout(0), "'n_neighbors'"),
        (KNeighborsReadout(metric="manhattan"), "'metric'"),
        (KNeighborsReadout(smoothing=0.0), "'smoothing'"),
    ],
)
@for_each("in_a_switcher", [False, True])
def test_settings_that_cannot_serve_are_refused_before_the_run(
    expert, said, in_a_switcher
):
    estimator = MDLReadoutSwitcher([expert]) if in_a_switcher else clone(expert)
    with pytest.raises((TypeError, ValueError), match=said):
        estimator.fit(*digits())
    assert not hasattr(estimator, "classes_")


def test_experts_are_left_as_they_were_given():
    pool = [clone(readout) for readout in POOL]
    before = [str(readout) for readout in pool]
    scored(readouts=pool)
    assert [str(readout) for readout in pool] == before
    for readout in pool:
        if hasattr(readout, "estimator"):
            learned = {"classes_", "steps_", "module_"} & set(vars(readout.estimator))
            assert not learned


def test_too_many_features_are_not_whitened_for_experts():
    X, y = np.zeros((4, 2049)), [0, 1, 0, 1]
    for expert in (
        KNeighborsReadout(scaling="whiten"),
        RefitReadout(GaussianNB(), scaling="whiten"),
    ):
        with pytest.raises(ValueError, match="at most 2048 features, got 2049"):
            MDLReadoutSwitcher([expert]).partial_fit(X, y, classes=[0, 1])


def test_names_say_what_predicts_and_in_what_it_differs_from_its_like():
    pool = [
        LinearReadout(lr=0.01),
        LinearReadout(lr=0.02),
        KNeighborsReadout(3),
        KNeighborsReadout(7),
        RefitReadout(LogisticRegression(C=0.1)),
        RefitReadout(LogisticRegression(C=1.0)),
        RefitReadout(make_pipeline(StandardScaler(), KNeighborsClassifier())),
        RefitReadout(CalibratedClassifierCV(SVC(), ensemble=False)),
        RefitReadout(GaussianNB()),
        IncrementalReadout(GaussianNB()),
        IncrementalReadout(net()),
    ]
    assert scored(*digits(20), pool).readout_names_ == [
        "linear lr=0.01",
        "linear lr=0.02",
        "neighbors n_neighbors=3",
        "neighbors n_neighbors=7",
        "LogisticRegression refitted estimator__C=0.1",
        "LogisticRegression refitted estimator__C=1.0",
        "KNeighborsClassifier refitted",
        "CalibratedClassifierCV(SVC) refitted",
        "GaussianNB refitted",
        "GaussianNB",
        "NeuralNetClassifier(Net)",
    ]


def test_weights_by_architecture_count_neighbours_as_one():
    pool = [
        KNeighborsReadout(3),
        KNeighborsReadout(7),
        IncrementalReadout(GaussianNB()),
    ]
    switcher = scored(*digits(20), pool, readout_weights="architecture")
    np.testing.assert_allclose(switcher.readout_weights_, [0.25, 0.25, 0.5])


def test_a_grid_of_neighbours_has_edges_and_other_experts_have_none():
    X, y = digits()
    neighbours = [KNeighborsReadout(k) for k in (60, 80, 100)]
    with pytest.warns(UserWarning, match="n_neighbors=60 is the lowest"):
        MDLReadoutSwitcher(neighbours).fit(X, y)
    refits = [RefitReadout(LogisticRegression(C=c)) for c in (0.01, 0.1, 1.0)]
    pool = [*refits, *neighbours]
    assert grid_edges(pool, np.array([3.0, 2.0, 1.0, 4.0, 5.0, 6.0])) == {}
    assert grid_edges(pool, np.array([3.0, 3.0, 3.0, 4.0, 2.0, 1.0])) == {
        "n_neighbors": (100.0, "highest")
    }


@pytest.mark.quick("128")
@pytest.mark.parametrize("n", [77, 128])
def test_what_was_learned_is_handed_over_and_goes_on_with_the_same_bits(n):
    X, y = digits()
    continued, taken_over = scored(X[:n], y[:n]), scored(X[:20], y[:20])
    run = continued._run
    arrays = progress_of(run)
    fresh = taken_over._make_run(64, ClassLabels(10), continued._seed, ())
    fresh.begin(X[:n].astype(np.float32))
    resume(fresh, arrays, run.trace.losses)
    fresh.end()
    taken_over._run = fresh
    taken_over.partial_fit(X[n:], y[n:])
    np.testing.assert_array_equal(
        taken_over.readout_losses_, reference().readout_losses_
    )


def test_a_last_fit_that_failed_is_handed_over_too():
    X, y = digits()
    expert = RefitReadout(Moody("raises", after=100), schedule=1)
    expert.partial_fit(X, y, classes=range(10))
    (learner,) = expert._run.learners
    fresh = expert._make_run(64, ClassLabels(10), expert._seed, ())
    (other,) = fresh.learners
    fresh.begin(X.astype(np.float32))
    resume(fresh, progress_of(expert._run), expert._run.trace.losses)
    assert (other.n_fitted, other.n_tried) == (96, 128)
    assert other.fault == learner.fault == "ValueError: not with 10 classes"
    assert other.complaints.lines() == [
        "ValueError: not with 10 classes (first after 128 rows, 1 in all)"
    ]


@pytest.mark.parametrize(
    "pool",
    [
        pytest.param("mixed", marks=pytest.mark.slow),
        [KNeighborsReadout(k, scaling=s) for k in (3, 9) for s in (None, "whiten")],
    ],
    ids=str,
)
def test_pools_of_our_own_are_saved_and_go_on_with_the_same_bits(pool, tmp_path):
    X, y = digits()
    straight, saved = scored(X, y, pool), scored(X[:77], y[:77], pool)
    saved.save(tmp_path / "run.safetensors")
    loaded = MDLReadoutSwitcher.load(tmp_path / "run.safetensors")
    loaded.partial_fit(X[77:], y[77:])
    np.testing.assert_array_equal(loaded.readout_losses_, straight.readout_losses_)


def test_a_checkpoint_of_experts_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    X, y = digits()
    pool = [POOL[k] for k in (0, 1, 4, 6)]

    def fit(folder):
        paths = {"checkpoint": tmp_path / folder, "store": tmp_path / f"{folder} rows"}
        return MDLReadoutSwitcher(pool, random_state=0, **paths).fit(X, y)

    straight = fit("straight").readout_losses_
    save, calls = Checkpoint.save, []

    def killed(self, run):
        save(self, run)
        calls.append(run.n_scored)
        if len(calls) == 2:
            raise MemoryError

    monkeypatch.setattr(Checkpoint, "act", killed)
    with pytest.raises(MemoryError):
        fit("killed")
    assert 0 < calls[-1] < 150
    np.testing.assert_array_equal(fit("killed").readout_losses_, straight)


@pytest.mark.parametrize(
    "pool",
    [[POOL[k] for k in (0, 1, 4, 6)], pytest.param("mixed", marks=pytest.mark.slow)],
    ids=str,
)
def test_what_experts_encode_they_decode(pool):
    pytest.importorskip("constriction")
    X, y = digits()
    switcher = MDLReadoutSwitcher(pool, random_state=0)
    message = encode_labels(switcher, X, y)
    np.testing.assert_array_equal(decode_labels(switcher, X, message), y)
    other = clone(switcher).set_params(readouts=[RefitReadout(GaussianNB())])
    with pytest.raises(ValueError, match="readouts"):
        decode_labels(other, X, message)


def test_wrapped_classifiers_are_not_saved_without_pickle(tmp_path):
    switcher = scored(*digits(20), [RefitReadout(LogisticRegression())])
    with pytest.raises(TypeError, match=r"\.LogisticRegression; call pickle\.dump"):
        switcher.save(tmp_path / "run.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_callable_that_returns_one_module_leaves_it_untrained():
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(dim=-1))
    before = [parameter.clone() for parameter in module.parameters()]
    net = NeuralNetClassifier(
        lambda: module, max_epochs=1, lr=0.5, train_split=None, verbose=0
    )
    readout = IncrementalReadout(net, random_state=0)
    X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    codes = [clone(readout).fit(X, y).codelength_ for _ in range(2)]
    assert codes[0] == codes[1]
    assert all(map(torch.equal, module.parameters(), before))


def test_a_frozen_classifier_is_a_readout():
    X, y = load_iris(return_X_y=True)
    frozen = FrozenEstimator(LogisticRegression(max_iter=1000).fit(X[::2], y[::2]))
    X, y = X[1::2], y[1::2]
    found = MDLReadoutSwitcher(
        [RefitReadout(frozen, scaling=None)], shuffle=True, random_state=0
    )
    assert found.fit(X, y).codelength_ < 0.9 * len(y) * np.log(3)


@pytest.mark.parametrize(("n_features", "n_wide"), [(1024, 2), (1025, 0)])
def test_mixed_readouts_of_wide_features_hold_nothing_cubic_in_the_width(
    n_features, n_wide
):
    mixed, plain = (named_readouts(name, n_features, 3) for name in ("mixed", None))
    names = readout_names(mixed)
    others = names[len(plain) :]
    wide = [n for n in others if "Discriminant" in n or "whiten" in n]
    assert len(wide) == n_wide
    assert any("LogisticRegression" in name for name in names)
