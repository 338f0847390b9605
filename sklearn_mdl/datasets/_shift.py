"""Test whether the train and test parts of a dataset have the same distribution."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import (
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
)

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.side_by_side import watched
from sklearn_mdl._core.tables import Table
from sklearn_mdl._core.validation import (
    as_labels,
    check_class_labels,
    distinct_classes,
    invalid,
)
from sklearn_mdl.datasets._splits import check_shapes, deal

Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TrainTestShift:
    """Accuracies on the original split of a dataset and on reshuffled splits.

    Attributes
    ----------
    readouts : tuple of str
        Names of the readouts, which are fitted on the train part of each split.
    test_accuracies, train_accuracies : ndarray of shape (n_readouts, 1 + n_reshuffles)
        Accuracies on the test part and on the train part. Column 0 is the original
        split. The other columns are reshuffled splits of the same sizes.
    intervals : ndarray of shape (n_readouts, 2)
        Student-t prediction intervals, at level ``1 - level``, for each readout's test
        accuracy on another reshuffled split.
    p_value : float
        P-value of the hypothesis that both parts have the same distribution.
    level : float
        Largest ``p_value`` that counts as a shift.
    n_train, n_test : int
    """

    readouts: tuple[str, ...]
    test_accuracies: np.ndarray
    train_accuracies: np.ndarray
    intervals: np.ndarray
    p_value: float
    level: float
    n_train: int
    n_test: int

    @property
    def differences(self) -> np.ndarray:
        """Test accuracy of each readout: original split minus reshuffled mean."""
        mean = self.test_accuracies[:, 1:].mean(1)
        return np.asarray(self.test_accuracies[:, 0] - mean)

    @property
    def differs(self) -> bool:
        """True if the parts differ significantly at `level`."""
        return bool(self.p_value <= self.level)

    def summary(self) -> str:
        """Return the accuracies as a table, followed by the result of the test."""
        n_reshuffles = self.test_accuracies.shape[1] - 1
        share = f"{100 * (1 - self.level):g}% interval"
        head = ["readout", "original split", "reshuffled", share, "difference"]
        own, means = self.test_accuracies[:, 0], self.test_accuracies[:, 1:].mean(1)
        rows = [
            [name, f"{x:.4f}", f"{mean:.4f}", f"{low:.4f} - {high:.4f}", f"{gap:+.4f}"]
            for name, x, mean, (low, high), gap in zip(
                self.readouts, own, means, self.intervals, self.differences, strict=True
            )
        ]
        no_difference = "no difference was found between the parts"
        verdict = "the parts differ" if self.differs else no_difference
        return (
            f"Test accuracy with {self.n_train} train and {self.n_test} test examples "
            f"and {n_reshuffles} reshuffled splits of these sizes\n"
            f"{Table(head, rows).to_text()}\n"
            f"p = {self.p_value:.4g}: at level {self.level:g} {verdict}"
        )


def train_test_shift(
    train: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    readouts: Mapping[str, BaseEstimator] | None = None,
    n_reshuffles: int = 19,
    level: float = 0.05,
    random_state: int | RandomState | None = None,
    n_jobs: int | None = None,
) -> TrainTestShift:
    """Test whether the train and test parts have the same distribution.

    If the distributions are the same, the original split is like any random split. So
    this function fits and tests classifiers on the original split and on reshuffled
    splits of the same sizes. Li, Bornschein and Hutter (2023, appendix "Distribution
    shift between train and test in VTAB") compared such results by eye, and found
    shifts in KITTI, DMLab, PatchCamelyon and SmallNORB. This function measures how many
    standard deviations each split's test accuracy is from the mean of the other splits,
    and takes the maximum over readouts. Then it ranks the original split among all
    splits by this distance. Without a shift, all ranks are equally likely, whatever the
    classifiers. So the probability of a false alarm is at most `level`.

    Parameters
    ----------
    train, test : (X, y)
        Features of shape (n, d) and labels of shape (n,).
    readouts : mapping of str to classifier, default=None
        By default, a logistic regression and a multilayer perceptron, both on
        standardised features. The perceptron has a hidden layer of 256 units and is
        trained for at most 30 epochs. Li et al. instead used held-out rows to choose
        readouts from a grid.
    n_reshuffles : int, default=19
        Number of reshuffled splits. More splits detect smaller shifts.
    level : float, default=0.05
        Largest probability of a false alarm. Must be at least ``1 / (n_reshuffles +
        1)``.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits, and of classifiers whose ``random_state`` is None.
    n_jobs : int, default=None
        Number of splits to evaluate in parallel. Results do not depend on ``n_jobs``.

    Returns
    -------
    shift : TrainTestShift

    Raises
    ------
    ValueError
        If the parts have different widths, a part is empty, or ``level`` is too small
        for ``n_reshuffles``.
    TypeError
        If a part is not a pair.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn_mdl.datasets import train_test_shift
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = (X[:1200], y[:1200]), (X[1200:], y[1200:])  # test: other writers
    >>> shift = train_test_shift(
    ...     *parts, readouts={"neighbour": KNeighborsClassifier(1)}, random_state=0
    ... )
    >>> shift.differs
    True
    """
    _check_level(n_reshuffles, level)
    rng = check_random_state(random_state)
    parts = _check_pairs(train, test)
    (_, y_train), (_, y_test) = parts
    n_train, n = len(y_train), len(y_train) + len(y_test)
    classifiers = _with_seeds(readouts, rng)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_reshuffles))]
    jobs = (delayed(_accuracies)(classifiers, parts, order) for order in orders)
    pairs = Parallel(n_jobs=n_jobs, **watched())(jobs)
    on_test, on_train = (np.array(a).T for a in zip(*pairs, strict=True))
    intervals = _prediction_intervals(on_test[:, 1:], level)
    accuracies = tuple(classifiers), on_test, on_train, intervals
    return TrainTestShift(*accuracies, _p_value(on_test), level, n_train, n - n_train)


def _check_level(n_reshuffles: int, level: float) -> None:
    if not 0 < level < 1:
        raise invalid("level", "between 0 and 1 exclusive", level, "pass level=0.05")
    if n_reshuffles < 2 or level * (n_reshuffles + 1) < 1 - 1e-9:
        needed = max(2, int(np.ceil(1 / level - 1e-9)) - 1)
        required = f"at least {needed} at level {level:g}"
        cure = f"pass n_reshuffles={needed}"
        raise invalid("n_reshuffles", required, n_reshuffles, cure)


def _check_pairs(train: object, test: object) -> tuple[Part, Part]:
    parts = []
    for name, part in (("train", train), ("test", test)):
        if not isinstance(part, (tuple, list)) or len(part) != 2:
            raise TypeError(
                f"The {name} part must be a pair (X, y), got {type(part).__name__}; "
                f"pass {name}=(X, y)"
            )
        X, y = map(as_array, part)
        of_part = f"X of the {name} part"
        X = check_array(X, dtype=[np.float32, np.float64], input_name=of_part)
        y = column_or_1d(as_labels(y))
        check_consistent_length(X, y)
        check_class_labels(y)
        parts.append((X, y))
    (X, y), (X_test, y_test) = parts
    check_shapes(X, X_test)
    distinct_classes(y, "The train part")
    return (X, y), (X_test, y_test)


def _with_seeds(
    readouts: Mapping[str, BaseEstimator] | None, rng: RandomState
) -> dict[str, BaseEstimator]:
    """Return copies of the classifiers with fixed seeds, used for all splits."""
    if readouts is None:
        mlp = MLPClassifier(hidden_layer_sizes=(256,), max_iter=30)
        models = {"linear": LogisticRegression(max_iter=300), "mlp": mlp}
        readouts = {k: make_pipeline(StandardScaler(), m) for k, m in models.items()}
    if not readouts:
        cure = "pass readouts=None for the default"
        raise invalid("readouts", "a non-empty mapping", readouts, cure)
    seeded = {}
    for name, readout in readouts.items():
        copy = clone(readout)
        seeds = {
            key: int(rng.randint(2**31 - 1))
            for key, value in sorted(copy.get_params().items())
            if key.split("__")[-1] == "random_state" and value is None
        }
        seeded[name] = copy.set_params(**seeds)
    return seeded


def _accuracies(
    classifiers: Mapping[str, BaseEstimator],
    parts: tuple[Part, Part],
    order: np.ndarray,
) -> tuple[list[float], list[float]]:
    """Return each readout's accuracies on the test part and train part of a split."""
    n_train = len(parts[0][1])
    X, y = deal(*parts, order[:n_train])
    X_test, y_test = deal(*parts, order[n_train:])
    on_test, on_train = [], []
    for readout in classifiers.values():
        with warnings.catch_warnings():
            # All splits have the same limit on iterations, so the comparison is fair.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(readout).fit(X, y)
        on_test.append(float(np.mean(fitted.predict(X_test) == y_test)))
        on_train.append(float(np.mean(fitted.predict(X) == y)))
    return on_test, on_train


def _p_value(accuracies: np.ndarray) -> float:
    """Return the share of splits with at least the distance of the original split."""
    distances = _distances(accuracies)
    return float(np.mean(distances >= distances[0] * (1 - 1e-9)))


def _distances(accuracies: np.ndarray) -> np.ndarray:
    """Return each split's distance from the other splits.

    The distance is from the mean accuracy of the other splits, in standard deviations
    of the other splits. The result is the maximum over readouts.
    """
    n = accuracies.shape[1]
    others = (accuracies.sum(1, keepdims=True) - accuracies) / (n - 1)
    squares = (accuracies**2).sum(1, keepdims=True) - accuracies**2
    variance = np.maximum(squares / (n - 1) - others**2, 0.0)
    # Accuracies are multiples of 1 / n_test, so a spread below 1e-6 is rounding.
    return np.asarray((np.abs(accuracies - others) / np.sqrt(variance + 1e-12)).max(0))


def _prediction_intervals(accuracies: np.ndarray, level: float) -> np.ndarray:
    n = accuracies.shape[1]
    mean, spread = accuracies.mean(1), accuracies.std(1, ddof=1) * np.sqrt(1 + 1 / n)
    half = student.ppf(1 - level / 2, n - 1) * spread
    return np.stack([mean - half, mean + half], axis=1)
