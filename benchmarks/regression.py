"""Networks for real labels, compared with a reference and a Bayesian ridge.

``compare`` uses the list "nets" without pool and race, and leaves out the first
minibatch. The reference predicts from earlier labels only. The Bayesian ridge
regression is refitted after every minibatch, and its predictive Gaussian is used. The
data come with scikit-learn. Rows are permuted once, or five times with ``--orders 5``.
``outliers`` moves one or five labels in the first half by a million standard
deviations, and prints how much more the other labels then cost. ``lists`` compares
whole lists, with pool and race: the built-in lists, and kernels with groups of networks
or with whitened rows. It adds a task with random features and heavy-tailed noise. We
chose the default list on the first five orders of this task and of the first three
tasks.
"""

import time

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

from benchmarks._data import NETS, permuted
from benchmarks._kept import OPTION, kept
from sklearn_mdl import MDLReadoutSwitcherRegressor
from sklearn_mdl.metrics import gaussian_codelengths
from sklearn_mdl.readouts import KernelReadoutRegressor
from sklearn_mdl.readouts._grid import build_grid
from sklearn_mdl.readouts._lists import named_regressors

B = 32
# Location and scale that you might guess before seeing labels.
GUESSES = {
    "diabetes": (150, 75),
    "wine: alcohol": (13, 1),
    "cancer: texture": (20, 5),
    "cancer: concave points": (0.05, 0.05),
    "digits: centre of a row": (3.5, 1),
}


def load(name):
    """Return features and labels of a task."""
    if name == "heavy tails":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(800, 8))
        y = X @ rng.normal(size=8) + np.sin(2 * X[:, 0])
        return X, y + rng.standard_t(1.5, size=800) / 2
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
    """Fit the list "nets" without pool and race, with the guess as prior."""
    location, scale = GUESSES[name]
    return MDLReadoutSwitcherRegressor(
        **NETS, prior_location=location, prior_scale=scale, random_state=0
    ).fit(X, y)


class _Tasks:
    """Rows of the tables: order and task."""

    options = {"--orders": {"type": int, "default": 1, "help": "number of orders"}}

    @property
    def params(self):
        return [list(range(self.orders)), list(GUESSES)]


class Compare(_Tasks):
    """Nats of three codes after the first minibatch."""

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
    """Extra nats of all other rows after the first minibatch, due to outliers."""

    param_names = ["order", "labels", "outliers"]
    unit = "extra nats of the other rows, after the first minibatch"
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


NAMED = ("closed-form", "nets", "default")
WHITENED = {"kernel": "rbf", "scaling": "whiten", "alpha": [0.003, 0.03, 1.0]}


def nets_by_shape(n_features):
    """Return the networks of "nets", keyed by hidden layers, likelihood and scale."""
    groups = {}
    for net in named_regressors("nets", n_features):
        scale = "one scale" if not net.heteroscedastic else "scales"
        layers = "x".join(map(str, net.hidden_layer_sizes)) or "linear"
        groups.setdefault(f"{layers}, {net.likelihood}, {scale}", []).append(net)
    return groups


def readouts_of(name, n_features):
    """Return a named list, or "closed-form" with the named groups of readouts."""
    if name in NAMED:
        return None if name == "default" else name
    readouts = named_regressors("closed-form", n_features)  # the part before the plus
    for part in name.split(" + ")[1:]:
        if part == "whitened":
            readouts += build_grid(KernelReadoutRegressor, WHITENED)
        else:
            readouts += nets_by_shape(n_features)[part]
    return readouts


class Lists(_Tasks):
    """Nats after the first minibatch, and CPU seconds, of lists of regressors."""

    options = {
        **_Tasks.options,
        "--lists": {
            "nargs": "*",
            "default": list(NAMED),
            "help": "names, or 'closed-form + GROUP'",
        },
        "--first": {"type": int, "default": 0, "help": "seed of the first order"},
        **OPTION,
    }
    param_names = ["order", "labels", "list"]
    unit = "nats after the first minibatch, CPU seconds on one thread"
    formats = {"track_codelength": ".1f", "track_seconds": ".1f"}

    @property
    def params(self):
        orders = list(range(self.first, self.first + self.orders))
        return [orders, [*GUESSES, "heavy tails"], self.lists]

    def setup(self, order, name, readouts):
        key = [order, name, readouts]
        self.found = kept(self.results, key, lambda: self.measure(*key))

    def measure(self, order, name, readouts):
        """Fit a list and return its columns."""
        X, y = permuted(*load(name), order)
        location, scale = GUESSES.get(name, (0, 3))
        start = time.process_time()
        switcher = MDLReadoutSwitcherRegressor(
            readouts_of(readouts, X.shape[1]),
            prior_location=location,
            prior_scale=scale,
            random_state=0,
            device="cpu",
        ).fit(X, y)
        return {
            "codelength": switcher.codelengths_[B:].sum(),
            "seconds": time.process_time() - start,
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_seconds(self, *row):
        return self.found["seconds"]

    def report(self, table):
        """Print how many more nats each list costs than the first, by task; seconds."""
        for name in self.lists:
            rows = {k[:2]: row for k, row in table.items() if k[2] == name}
            more = {task: [] for _, task in rows}
            for (order, task), row in rows.items():
                base = table[order, task, self.lists[0]]["track_codelength"][0]
                more[task].append(row["track_codelength"][0] - base)
            by_task = ", ".join(f"{t} {np.mean(nats):+.1f}" for t, nats in more.items())
            seconds = sum(row["track_seconds"][0] for row in rows.values())
            print(f"{name}: {by_task}; {seconds:.0f} CPU seconds")
