"""The default readouts for real labels, beside a reference and a Bayesian ridge.

Every code pays the same for the first minibatch; afterwards the reference predicts by
labels alone, and Bayesian ridge regression, refitted after every minibatch, by its
predictive Gaussian. Data come with scikit-learn; rows are permuted once, or with
``--orders 5`` five times. ``outliers`` puts labels of a million deviations into the
first half, and prints what the others cost more for them.
"""

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

from benchmarks._data import NETS, permuted
from sklearn_mdl import MDLReadoutSwitcherRegressor
from sklearn_mdl.metrics import gaussian_codelengths

B = 32
# Location and scale that one would guess before seeing labels.
GUESSES = {
    "diabetes": (150, 75),
    "wine: alcohol": (13, 1),
    "cancer: texture": (20, 5),
    "cancer: concave points": (0.05, 0.05),
    "digits: centre of a row": (3.5, 1),
}


def load(name):
    """Return features and labels of a task."""
    dataset, _, label = name.partition(": ")
    if dataset == "diabetes":
        return load_diabetes(return_X_y=True)
    if dataset == "wine":
        X, _ = load_wine(return_X_y=True)
        return X[:, 1:], X[:, 0]
    if dataset == "cancer":
        X, _ = load_breast_cancer(return_X_y=True)
        column = {"texture": 1, "concave points": 7}[label]
        return np.delete(X[:, :10], column, axis=1), X[:, column]
    X, _ = load_digits(return_X_y=True)
    ink = X[:, 32:40]
    return np.delete(X, range(32, 40), axis=1), ink @ np.arange(8) / ink.sum(1)


def fit(name, X, y):
    """Fit the default readouts, with the guess as prior."""
    location, scale = GUESSES[name]
    return MDLReadoutSwitcherRegressor(
        **NETS, prior_location=location, prior_scale=scale, random_state=0
    ).fit(X, y)


class _Tasks:
    """Rows of either table: order and task."""

    options = {"--orders": {"type": int, "default": 1, "help": "of the rows"}}

    @property
    def params(self):
        return [list(range(self.orders)), list(GUESSES)]


class Compare(_Tasks):
    """Nats after the first minibatch of three codes."""

    param_names = ["order", "labels"]
    unit = "nats after the first minibatch"
    formats = {
        "track_rows": ".0f",
        "track_reference": ".1f",
        "track_bayesian_ridge": ".1f",
        "track_default": ".1f",
        "track_r2": ".2f",
    }

    def setup(self, order, name):
        self.X, self.y = permuted(*load(name), order)
        self.switcher = fit(name, self.X, self.y)

    def track_rows(self, order, name):
        return len(self.y)

    def track_reference(self, order, name):
        return gaussian_codelengths(self.y, n_first=B)[B:].sum()

    def track_bayesian_ridge(self, order, name):
        X, y, total = self.X, self.y, 0.0
        for start in range(B, len(y), B):
            rows = slice(start, start + B)
            scaler = StandardScaler().fit(X[:start])
            model = BayesianRidge().fit(scaler.transform(X[:start]), y[:start])
            mean, std = model.predict(scaler.transform(X[rows]), return_std=True)
            total -= float(stats.norm(mean, std).logpdf(y[rows]).sum())
        return total

    def track_default(self, order, name):
        return self.switcher.codelengths_[B:].sum()

    def track_r2(self, order, name):
        return self.switcher.measures().r2


class Outliers(_Tasks):
    """What the other rows cost more, after the first minibatch, for a few outliers."""

    param_names = ["order", "labels", "outliers"]
    unit = "nats that the other rows cost more, after the first minibatch"
    formats = {
        "track_reference": ".1f",
        "track_default": ".1f",
        "track_per_row": ".3f",
        "track_per_outlier": ".1f",
    }

    @property
    def params(self):
        return [*super().params, [1, 5]]

    def setup(self, order, name, n_outliers):
        rng = np.random.default_rng(order)
        X, y = load(name)
        rows = rng.permutation(len(y))
        X, y = X[rows], y[rows]
        self.places = rng.choice(len(y) // 2, n_outliers, replace=False)
        moved = y.copy()
        moved[self.places] += rng.choice([-1e6, 1e6], n_outliers) * y.std()
        self.others = np.setdiff1d(np.arange(B, len(y)), self.places)
        self.labels = y, moved
        self.costs = [fit(name, X, labels).codelengths_ for labels in self.labels]

    def track_reference(self, order, name, n_outliers):
        own, moved = (gaussian_codelengths(y, n_first=B) for y in self.labels)
        return (moved - own)[self.others].sum()

    def track_default(self, order, name, n_outliers):
        return np.subtract(*self.costs[::-1])[self.others].sum()

    def track_per_row(self, order, name, n_outliers):
        return np.subtract(*self.costs[::-1])[self.others].mean()

    def track_per_outlier(self, order, name, n_outliers):
        return self.costs[1][self.places].mean()
