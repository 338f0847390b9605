"""Measures of predictions: hand-worked cases, scikit-learn, limits, and real runs."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
)

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    frequency_codelength,
    uniform_codelength,
)
from sklearn_mdl._core.stream import threads as threads_module
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl.metrics import expected_calibration_error
from sklearn_mdl.metrics._measures import measure, measure_regression, summarise


def measured(proba, labels, n_bins=15):
    proba, labels = np.asarray(proba, dtype=float), np.asarray(labels)
    codelengths = -np.log(proba[np.arange(len(labels)), labels])
    return measure(
        summarise(proba), codelengths, labels, n_classes=proba.shape[1], n_bins=n_bins
    )


def predictions(n=500, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.6), size=n)
    return proba, np.array([rng.choice(n_classes, p=p) for p in proba])


# Against scikit-learn


def test_measures_agree_with_scikit_learn():
    proba, labels = predictions()
    found = measured(proba, labels)
    assert_allclose(found.codelength, len(labels) * log_loss(labels, proba))
    assert found.accuracy == accuracy_score(labels, proba.argmax(1))
    expected = balanced_accuracy_score(labels, proba.argmax(1))
    assert_allclose(found.balanced_accuracy, expected)
    assert_allclose(
        found.brier_score, brier_score_loss(labels, proba, scale_by_half=False)
    )


def test_brier_score_of_two_classes_is_twice_the_one_of_one_probability():
    proba, labels = predictions(n_classes=2)
    expected = 2 * np.mean((proba[:, 1] - labels) ** 2)
    assert_allclose(measured(proba, labels).brier_score, expected)


def test_reference_codes_are_those_of_the_labels_alone():
    proba, labels = predictions()
    found = measured(proba, labels)
    assert found.uniform_codelength == uniform_codelength(500, 4)
    assert found.frequency_codelength == frequency_codelength(labels, 4)
    assert found.savings_over_uniform == found.uniform_codelength - found.codelength
    assert_allclose(
        found.savings_over_frequency, found.frequency_codelength - found.codelength
    )
    assert_allclose(found.per_example, found.codelength / 500)
    labels[labels == 3] = 0  # a class may never be observed
    assert measured(proba, labels).frequency_codelength == frequency_codelength(
        labels, 4
    )


# Worked by hand


def test_three_predictions_by_hand():
    proba = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2]]
    found = measured(proba, [0, 1, 2], n_bins=10)
    assert_allclose(found.accuracy, 2 / 3)
    assert_allclose(found.balanced_accuracy, 2 / 3)
    brier = (0.25 + 0.09 + 0.04) + (0.01 + 0.04 + 0.01) + (0.36 + 0.04 + 0.64)
    assert_allclose(found.brier_score, brier / 3)
    # Bins (0.4, 0.5], (0.7, 0.8], (0.5, 0.6], one prediction in each.
    assert_allclose(found.expected_calibration_error, (0.5 + 0.2 + 0.6) / 3)


def test_predictions_of_one_bin_may_make_up_for_each_other():
    correct = [1, 1, 0, 1, 0]
    assert_allclose(expected_calibration_error([0.6] * 5, correct), 0, atol=1e-12)
    assert_allclose(expected_calibration_error([0.9] * 5, correct), 0.3)
    two = expected_calibration_error([0.95, 0.55], [0, 1], n_bins=1)
    assert_allclose(two, 0.25)
    assert_allclose(expected_calibration_error([0.95, 0.55], [0, 1], n_bins=2), 0.25)
    assert_allclose(expected_calibration_error([0.95, 0.55], [0, 1], n_bins=10), 0.7)


def test_confidence_on_an_edge_belongs_to_the_bin_below():
    # With 4 bins 0.5 stands in (0.25, 0.5] and 0.75 in (0.5, 0.75].
    assert_allclose(expected_calibration_error([0.5, 0.51], [1, 0], n_bins=4), 0.505)
    assert_allclose(expected_calibration_error([0.5, 0.49], [1, 0], n_bins=4), 0.005)
    assert_allclose(expected_calibration_error([0.05, 0.15], [1, 0], n_bins=10), 0.55)


def test_confidence_of_zero_belongs_to_the_first_bin():
    assert_allclose(expected_calibration_error([0.0, 0.5], [0, 1]), 0.25)
    sure = np.array([0.05, 0.1, 0.15, 0.95, 1.0])
    correct = np.array([0, 1, 1, 1, 0], dtype=np.uint8)  # bins of 0.1 end at their ends
    wanted = (abs(1 - 0.15) + abs(1 - 0.15) + abs(1 - 1.95)) / 5
    assert_allclose(expected_calibration_error(sure, correct, n_bins=10), wanted)
    narrow = sure.astype(np.float16)
    found = expected_calibration_error(narrow, correct, n_bins=10)
    assert found == expected_calibration_error(narrow.astype(float), correct, n_bins=10)
    objects = correct.astype(bool).astype(object)  # as from pandas' "boolean"
    assert expected_calibration_error(sure, objects, n_bins=10) == wanted


def test_confidence_above_one_by_rounding_belongs_to_the_last_bin():
    assert_allclose(
        expected_calibration_error([1 + 1e-10, 0.9], [0, 1], n_bins=1), 0.45
    )
    assert expected_calibration_error([1 + 1e-9], [1], n_bins=1) < 1e-8


def test_calibration_error_equals_a_plain_loop_over_bins():
    proba, labels = predictions()
    sure, hits = proba.max(1), proba.argmax(1) == labels
    edges = np.linspace(0, 1, 16)
    expected = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (sure > low) & (sure <= high)
        if inside.any():
            gap = abs(hits[inside].mean() - sure[inside].mean())
            expected += inside.mean() * gap
    assert_allclose(expected_calibration_error(sure, hits), expected)


# Limits


def test_certain_and_right_is_perfect():
    found = measured(np.eye(3)[[0, 1, 2, 1]], [0, 1, 2, 1])
    assert (found.codelength, found.accuracy, found.balanced_accuracy) == (0, 1, 1)
    assert (found.brier_score, found.expected_calibration_error) == (0, 0)


def test_certain_and_wrong_is_worst():
    with np.errstate(divide="ignore"):
        found = measured(np.eye(2)[[0, 1]], [1, 0])
    assert (found.codelength, found.accuracy) == (np.inf, 0)
    assert (found.brier_score, found.expected_calibration_error) == (2, 1)


def test_uniform_predictions_cost_the_uniform_code_and_predict_the_first_class():
    labels = np.array([0, 0, 1, 2, 3, 3])
    found = measured(np.full((6, 4), 0.25), labels)
    assert_allclose(found.savings_over_uniform, 0, atol=1e-12)
    assert_allclose(found.accuracy, 2 / 6)
    assert_allclose(found.balanced_accuracy, 1 / 4)
    assert_allclose(found.brier_score, 0.75)
    assert_allclose(found.expected_calibration_error, 2 / 6 - 1 / 4)


def test_classes_that_were_not_observed_do_not_count_in_the_balance():
    proba = np.array([[0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    found = measured(proba, [1, 1, 1])
    assert_allclose(found.balanced_accuracy, 2 / 3)


def test_calibrated_predictions_have_a_small_error():
    proba, labels = predictions(20_000)
    assert measured(proba, labels).expected_calibration_error < 0.02


# Bad input


@pytest.mark.parametrize(
    ("sure", "hits", "n_bins", "message"),
    [
        ([], [], 15, r"non-empty shape \(n,\), got \(0,\)"),
        ([0.5], [1, 0], 15, r"got \(1,\) and \(2,\)"),
        ([[0.5]], [[1]], 15, r"got \(1, 1\)"),
        ([1.5], [1], 15, "between 0 and 1, got 1.5 to 1.5"),
        ([-0.5], [1], 15, "between 0 and 1"),
        ([np.nan], [1], 15, "between 0 and 1"),
        ([0.5], [1], 0, "`n_bins` must be an integer of at least 1, got 0"),
        ([0.5], [1], 2.5, "`n_bins` must be an integer of at least 1, got 2.5"),
    ],
)
def test_bad_input_gets_one_sentence(sure, hits, n_bins, message):
    with pytest.raises(ValueError, match=message) as caught:
        expected_calibration_error(sure, hits, n_bins=n_bins)
    assert "\n" not in str(caught.value)


# Of a prequential run

FAST = {"lr": 0.02, "n_replay_streams": 2}
POOL = [
    LinearReadout(**FAST),
    MLPReadout((9,), **FAST, scaling="whiten"),
    LinearReadout(**FAST, ema_step_size=0.1),
]
N, C = 150, 10


@functools.cache
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:N]
    return X[order], y[order]


def switcher_of(**options):
    return MDLReadoutSwitcher(POOL, **{"random_state": 0, **options})


@functools.cache
def fitted():
    return switcher_of().fit(*digits())


def row_by_row(switcher, X, y):
    """Predict every row by the public methods just before its label is observed."""
    proba = [np.full(C, 1 / C)]
    for t in range(len(X)):
        if t:
            proba.append(switcher.predict_proba(X[t : t + 1])[0])
        switcher.partial_fit(X[t : t + 1], y[t : t + 1], classes=np.arange(C))
    return np.array(proba)


def test_measures_are_those_of_the_predictions_made_row_by_row():
    # Minibatches of one row: nothing is pending, and a prediction is that of the run.
    X, y = (part[:60] for part in digits())
    proba = row_by_row(switcher_of(batch_size=1), X, y)
    found = switcher_of(batch_size=1).fit(X, y).measures()
    expected = measured(proba, y)
    for name, value in expected._asdict().items():
        assert_allclose(getattr(found, name), value, rtol=1e-5, err_msg=name)


def test_confidence_in_the_observed_label_is_its_codelength():
    # Also inside a minibatch, where the posterior moves with every label.
    switcher, (_, y) = fitted(), digits()
    predicted, confidence, squares = switcher._run.trace.summaries.T
    right = predicted == y
    assert right.sum() > N / 2
    probability = np.exp(-switcher.codelengths_)
    assert_allclose(confidence[right], probability[right], rtol=1e-12)
    assert np.all(probability[~right] <= confidence[~right] * (1 + 1e-12))
    assert np.all(squares <= confidence * (1 + 1e-12))
    assert np.all(squares >= confidence**2)
    assert switcher.measures().accuracy == right.mean()


def test_predictions_are_those_of_a_decoder():
    X, y = digits()
    decoder = switcher_of()
    decoder._begin(X.shape[1], np.arange(C), n_rows=N)
    steps = stepwise(decoder._run, X.astype(np.float32))
    proba = [next(steps), *(steps.send(label) for label in y[:-1])]
    expected = fitted()._run.trace.summaries
    assert_allclose(summarise(np.array(proba)), expected, rtol=1e-12)
    with pytest.raises(StopIteration):
        steps.send(y[-1])
    np.testing.assert_array_equal(decoder._run.trace.summaries, expected)


def test_measures_hold_the_codes():
    found, (_, y) = fitted().measures(), digits()
    assert (found.n_samples, found.n_classes) == (N, C)
    assert_allclose(found.codelength, fitted().codelength_)
    assert found.uniform_codelength == uniform_codelength(N, C)
    assert found.frequency_codelength == frequency_codelength(y, C)
    assert found.savings_over_frequency > 0


@pytest.mark.parametrize("at", [(1, 2, 40), (32, 64), (100,)], ids=str)
def test_cutting_into_calls_changes_no_measure(at):
    X, y = digits()
    switcher = switcher_of()
    for start, stop in itertools.pairwise([0, *at, N]):
        switcher.partial_fit(X[start:stop], y[start:stop], classes=np.arange(C))
    expected = fitted()._run.trace.summaries
    np.testing.assert_array_equal(switcher._run.trace.summaries, expected)
    assert switcher.measures() == fitted().measures()


def test_small_segments_change_no_number(monkeypatch):
    monkeypatch.setattr(threads_module, "KEPT", 8 * len(POOL) * C * 40)
    switcher = switcher_of().fit(*digits())
    assert switcher._run.threads.segment == 32
    for name in ("codelengths_", "readout_losses_", "posterior_"):
        np.testing.assert_array_equal(getattr(switcher, name), getattr(fitted(), name))
    assert switcher.measures() == fitted().measures()


def test_single_readouts_and_shuffled_runs_and_text_labels_are_measured_too(tmp_path):
    X, y = digits()
    words = np.array([f"n{label}" for label in y])
    shuffled = switcher_of(shuffle=True, store=tmp_path).fit(X, words)
    by_hand = switcher_of().fit(X[shuffled.order_], y[shuffled.order_])
    assert shuffled.measures() == by_hand.measures()
    again = pickle.loads(pickle.dumps(shuffled))
    assert again.measures() == shuffled.measures()
    found = LinearReadout(**FAST, random_state=0).fit(X, y).measures()
    assert 0.5 < found.accuracy < 1


def test_accuracy_of_a_run_is_near_that_on_heldout_rows():
    # The share of later rows that are predicted right is near that of held-out rows.
    X, y = load_digits(return_X_y=True)
    switcher = switcher_of(shuffle=True).fit(X[:900], y[:900])
    rows = switcher.order_[600:]
    predicted = switcher._run.trace.summaries[600:, 0]
    late = np.mean(predicted == y[:900][rows])
    assert abs(late - switcher.score(X[900:], y[900:])) < 0.06


def test_random_labels_are_not_predicted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 20)), rng.integers(0, 2, 300)
    found = MDLReadoutSwitcher(POOL, random_state=0).fit(X, y).measures()
    assert found.savings_over_uniform < 0
    assert abs(found.accuracy - 0.5) < 0.1
    assert found.brier_score > 0.5


def test_the_number_of_bins_is_checked():
    with pytest.raises(ValueError, match="`n_bins` must be an integer"):
        fitted().measures(n_bins=0)
    assert (
        fitted().measures(n_bins=1).expected_calibration_error
        <= fitted().measures(n_bins=50).expected_calibration_error
    )


def test_unfitted_switcher_has_no_measures():
    with pytest.raises(NotFittedError):
        switcher_of().measures()


def test_errors_of_real_labels_by_hand():
    means, labels = np.array([9.0, 0.0, 0.25]), np.array([0.0, 0.5, 0.25])
    found = measure_regression(means, labels, 1.0, 2.0, n_first=1)
    assert (found.n_samples, found.n_measured) == (3, 2)
    assert found.root_mean_squared_error == pytest.approx(0.125**0.5)
    assert found.mean_absolute_error == 0.25
    assert found.r2 == pytest.approx(1 - 0.125 / 0.015625)
    equal = measure_regression(means, np.ones(3), 1.0, 2.0, n_first=1)
    assert equal.mean_absolute_error == 0.875
    assert np.isnan(equal.r2)
