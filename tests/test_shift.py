"""Invariants of the test for a shift between train and test part."""

import re

import numpy as np
import pytest
import torch
from joblib import parallel_config
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from sklearn_mdl.cli._main import main
from sklearn_mdl.datasets import TrainTestShift, train_test_shift
from sklearn_mdl.datasets._shift import _distances, _p_value, _prediction_intervals

DIGITS, LABELS = load_digits(return_X_y=True)
QUICK = {"centroid": NearestCentroid()}
NEIGHBOUR = {"neighbour": KNeighborsClassifier(1)}


def draws(rng, n, shift=0.0):
    """Two classes, one apart from the other; a shift moves both."""
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 2)) + 2 * y[:, None] + shift, y


# The rank of the own split


@pytest.mark.parametrize("level", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_no_more_splits_than_the_level_stand_out_whatever_their_accuracies(seed, level):
    # The own split is as likely to be any of them, so the level is exact.
    rng = np.random.default_rng(seed)
    accuracies = rng.integers(0, 9, (2, 40)) / 8
    accuracies[0, seed] = 5.0  # one is far out
    p_values = []
    for first in range(40):
        rest = np.delete(np.arange(40), first)
        p_values.append(_p_value(accuracies[:, [first, *rest]]))
    assert np.mean(np.array(p_values) <= level) <= level
    assert p_values[seed] == 1 / 40


def test_distances_are_those_from_all_other_splits():
    rng = np.random.default_rng(0)
    accuracies = rng.uniform(size=(3, 7))
    for split, found in enumerate(_distances(accuracies)):
        others = np.delete(accuracies, split, axis=1)
        z = np.abs(accuracies[:, split] - others.mean(1)) / others.std(1)
        assert found == pytest.approx(z.max())


def test_splits_that_are_all_alike_do_not_differ():
    assert _p_value(np.full((2, 20), 0.9)) == 1


def test_intervals_are_students_for_one_more_draw():
    # By hand: mean 0.5, variance 0.02 / 3, and t(0.975, 3) = 3.1824 of the tables.
    accuracies = np.array([[0.4, 0.5, 0.5, 0.6]])
    half = 3.182446 * np.sqrt(0.02 / 3 * (1 + 1 / 4))
    found = _prediction_intervals(accuracies, 0.05)
    np.testing.assert_allclose(found, [[0.5 - half, 0.5 + half]], rtol=1e-6)


# The test on data


@pytest.mark.slow
def test_parts_of_one_distribution_are_flagged_no_more_often_than_the_level():
    n_flagged = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = train_test_shift(
            draws(rng, 40), draws(rng, 20), readouts=QUICK, random_state=seed
        )
        n_flagged += found.differs
    assert n_flagged <= binom.ppf(1 - 1e-4, 60, 0.05)


def test_parts_that_are_apart_are_flagged():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        # Nearly all of the test part now looks like the second class.
        parts = draws(rng, 200), draws(rng, 100, shift=2)
        found = train_test_shift(*parts, readouts=QUICK, random_state=seed)
        assert found.differs
        assert found.differences[0] < -0.1


def test_other_peoples_digits_differ_and_shuffled_ones_do_not():
    own = (DIGITS[:1200], LABELS[:1200]), (DIGITS[1200:], LABELS[1200:])
    found = train_test_shift(*own, readouts=NEIGHBOUR, random_state=0)
    assert found.differs
    assert found.differences[0] < -0.02
    assert found.test_accuracies[0, 0] < found.intervals[0, 0]
    rows = np.random.default_rng(0).permutation(len(LABELS))
    X, y = DIGITS[rows], LABELS[rows]
    parts = (X[:1200], y[:1200]), (X[1200:], y[1200:])
    found = train_test_shift(*parts, readouts=NEIGHBOUR, random_state=0)
    assert not found.differs
    low, high = found.intervals[0]
    assert low < found.test_accuracies[0, 0] < high


def test_levels_of_intervals_are_not_rounded():
    parts = (DIGITS[:60], LABELS[:60]), (DIGITS[60:90], LABELS[60:90])
    found = train_test_shift(
        *parts, readouts=NEIGHBOUR, n_reshuffles=199, level=0.005, random_state=0
    )
    assert " 99.5% interval " in found.summary()


def test_accuracies_on_the_own_split_are_the_classifiers():
    train, test = (DIGITS[:150], LABELS[:150]), (DIGITS[150:250], LABELS[150:250])
    classifiers = {"linear": LogisticRegression(max_iter=5000), "Bayes": GaussianNB()}
    found = train_test_shift(train, test, readouts=classifiers, random_state=0)
    for i, readout in enumerate(classifiers.values()):
        readout.fit(*train)
        assert found.test_accuracies[i, 0] == pytest.approx(readout.score(*test))
        assert found.train_accuracies[i, 0] == pytest.approx(readout.score(*train))


def test_labels_alone_can_differ():
    # Features say nothing; the shares of the classes move.
    X, y = np.zeros((90, 1)), np.repeat([0, 1, 1], [50, 10, 30])
    majority = {"majority": DummyClassifier()}
    parts = (X[:60], y[:60]), (X[60:], y[60:])
    found = train_test_shift(*parts, readouts=majority, random_state=0)
    assert found.differs
    assert found.test_accuracies[0, 0] == 0


def test_the_default_readouts_are_a_linear_one_and_a_perceptron():
    parts = (DIGITS[:90], LABELS[:90]), (DIGITS[90:140], LABELS[90:140])
    found = train_test_shift(*parts, random_state=0)
    assert isinstance(found, TrainTestShift)
    assert found.readouts == ("linear", "mlp")
    assert found.test_accuracies.shape == found.train_accuracies.shape == (2, 20)
    assert (found.test_accuracies > 0.6).all()


def test_jobs_change_no_number():
    parts = (DIGITS[:90], LABELS[:90]), (DIGITS[90:140], LABELS[90:140])
    settings = {"readouts": NEIGHBOUR, "random_state": 0}
    found = train_test_shift(*parts, **settings)
    with parallel_config(backend="threading"):
        again = train_test_shift(*parts, **settings, n_jobs=2)
    np.testing.assert_array_equal(found.test_accuracies, again.test_accuracies)


def test_labels_may_be_words():
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = draws(rng, 40), draws(rng, 20)
    words = np.array(["no", "yes"])
    one = train_test_shift((X, y), (X_test, y_test), readouts=QUICK, random_state=0)
    other = train_test_shift(
        (X, words[y]), (X_test, words[y_test]), readouts=QUICK, random_state=0
    )
    np.testing.assert_array_equal(one.test_accuracies, other.test_accuracies)


def test_parts_may_be_tensors():
    parts = (DIGITS[:40], LABELS[:40]), (DIGITS[40:60], LABELS[40:60])
    tensors = [(torch.tensor(X, requires_grad=True), torch.tensor(y)) for X, y in parts]
    found, expected = (
        train_test_shift(*given, readouts=NEIGHBOUR, random_state=0).test_accuracies
        for given in (tensors, parts)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_reshuffles": 18}, "n_reshuffles must be at least 19"),
        ({"level": 0.01}, "n_reshuffles must be at least 99"),
        ({"level": 0.0}, "between 0 and 1"),
        ({"readouts": {}}, "readouts must be a non-empty mapping"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        train_test_shift((DIGITS[:9], LABELS[:9]), (DIGITS[:9], LABELS[:9]), **options)


@pytest.mark.parametrize(
    ("train", "test", "match"),
    [
        ((DIGITS, LABELS), (DIGITS[:, :9], LABELS), r"got \(\(64,\), \(9,\)\)"),
        ((DIGITS, LABELS[:-1]), (DIGITS, LABELS), "inconsistent numbers"),
        ((DIGITS[:3], [1, 1, 1]), (DIGITS, LABELS), "at least two classes"),
        ((DIGITS, LABELS), (DIGITS[:3] * np.nan, LABELS[:3]), "X of the test part"),
        ((DIGITS[:3], [0.1, 0.2, 0.3]), (DIGITS, LABELS), "continuous"),
    ],
)
def test_parts_that_do_not_fit_are_refused(train, test, match):
    with pytest.raises(ValueError, match=match):
        train_test_shift(train, test)


def test_a_part_that_is_no_pair_is_refused():
    with pytest.raises(TypeError, match=r"train part must be a pair .* got ndarray"):
        train_test_shift(DIGITS, LABELS)


# At the door


@pytest.fixture
def files(tmp_path):
    paths = []
    for name, rows in (("train", slice(0, 300)), ("test", slice(1500, 1600))):
        for what, array in (("X", DIGITS), ("y", LABELS)):
            paths.append(str(tmp_path / f"{name}-{what}.npy"))
            np.save(paths[-1], array[rows])
    return paths


@pytest.mark.slow
def test_the_command_prints_the_table(files, capsys):
    assert main(["shift", *files, "--seed", "3", "--max-samples", "200"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Test accuracy with 150 train and 50 test examples")
    assert re.search(
        r"^  linear +0\.\d{4} +0\.\d{4} +0\.\d{4} - [01]\.\d{4}", text, re.M
    )
    assert re.search(r"^p = [\d.]+: at level 0\.05 ", text, re.M)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "0.001"], "at least 999"),
        (["--max-samples", "1"], "must leave a row in each part"),
    ],
)
def test_the_command_refuses_what_the_function_does(files, capsys, arguments, message):
    assert main(["shift", *files, *arguments]) == 2
    assert message in capsys.readouterr().err
