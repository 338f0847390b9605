"""Leaks that checks may miss: labels used by features or readouts, sorted labels.

Features are noise. ``hidden`` computes codelengths of random labels with readouts and
transformers that use the labels, and shows which transformers the checks recognise.
``sorted`` computes codelengths of sorted labels after a share of them was permuted, and
shows whether ``fit`` warns. ``alarms`` counts the warnings for labels in random order.
"""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from benchmarks._data import NETS
from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    RefitReadout,
    uniform_codelength,
)
from sklearn_mdl._core.validation import is_grouped, labelled_step

N, C, D = 640, 4, 100


def data():
    """Return noise and independent random labels."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.integers(0, C, N)


class _Table(ClassifierMixin, BaseEstimator):
    """Looks up labels by the first number of a row."""

    def __init__(self, look_up):
        self.look_up = look_up

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        labels = np.array([self.look_up(row[0]) for row in X])
        return 0.99 * (labels[:, None] == self.classes_) + 0.01 / len(self.classes_)


class _Holder(TransformerMixin, BaseEstimator):
    """Fits a transformer on y without declaring that it uses y."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner.fit(X, y)
        return self

    def transform(self, X):
        return self.inner.transform(X)


def _score(estimator, X, y=None):
    components = estimator.transform(X)
    return LogisticRegression(max_iter=500).fit(components, y).score(components, y)


def _calibrated(X, y):
    forest = RandomForestClassifier(random_state=0).fit(X, y)
    return CalibratedClassifierCV(FrozenEstimator(forest), cv=3)


def _table(X, y):
    known = dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))
    return _Table(lambda number: known[float(number)])


class Hidden:
    """Nats of random labels, by the step that leaks them."""

    unit = "nats"
    param_names = ["what holds the labels"]
    formats = {"track_codelength": ".0f", "track_uniform": ".0f", "track_named": ".0f"}
    transformers = {
        "nothing": None,
        "LDA, recognised": LinearDiscriminantAnalysis(),
        "LDA in a class of your own": _Holder(LinearDiscriminantAnalysis()),
        "search over PCA, scored by y": GridSearchCV(
            PCA(), {"n_components": [1, 2, 5, 10]}, scoring=_score
        ),
        "selector by clusters against y": SequentialFeatureSelector(
            KMeans(C, n_init=1, random_state=0),
            n_features_to_select=3,
            scoring="adjusted_rand_score",
        ),
    }
    readouts = {"forest, frozen and calibrated": _calibrated, "a table": _table}
    params = [[*transformers, *readouts]]

    def setup(self, name):
        X, self.y = data()
        self.transformer = self.transformers.get(name)
        # Use the dtype of the switcher, so that the table finds the rows.
        X = X.astype(np.float32)
        switcher = MDLReadoutSwitcher([LinearReadout()], random_state=0)
        if name in self.readouts:
            model = self.readouts[name](X, self.y)
            switcher.set_params(readouts=[RefitReadout(model, scaling=None)])
        steps = [s for s in (self.transformer, switcher) if s is not None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.fitted = make_pipeline(*steps).fit(X, self.y)[-1]

    def track_codelength(self, name):
        return self.fitted.codelength_

    def track_uniform(self, name):
        return uniform_codelength(N, C)

    def track_named(self, name):
        return int(labelled_step(self.transformer) is not None)


class Sorted:
    """Nats of sorted labels given noise, after a share of them was permuted."""

    unit = "nats"
    param_names = ["share permuted"]
    formats = {"track_codelength": ".0f", "track_uniform": ".0f", "track_warned": ".0f"}
    params = [[0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0]]

    def setup(self, share):
        X, y = data()
        rng = np.random.default_rng(1)
        self.y = np.sort(y)
        moved = rng.permutation(N)[: int(share * N)]
        self.y[moved] = self.y[rng.permutation(moved)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.fitted = MDLReadoutSwitcher(**NETS, random_state=0).fit(X, self.y)

    def track_codelength(self, share):
        return self.fitted.codelength_

    def track_uniform(self, share):
        return uniform_codelength(N, C)

    def track_warned(self, share):
        return int(is_grouped(self.y))


class Alarms:
    """Number of warnings for labels in random order, for equal and for rare classes."""

    options = {"--draws": {"type": int, "default": 10_000, "help": "draws per row"}}
    param_names = ["rows", "classes"]
    formats = {"track_equal": ".0f", "track_rare": ".0f"}
    params = [[20, 50, 200, 1000], [2, 3, 10, 100]]

    def setup(self, n, n_classes):
        self.rng = np.random.default_rng([n, n_classes])

    def track_equal(self, n, n_classes):
        return sum(
            is_grouped(self.rng.integers(0, n_classes, n)) for _ in range(self.draws)
        )

    def track_rare(self, n, n_classes):
        shares = 1 / np.arange(1, n_classes + 1) ** 2
        bounds = np.cumsum(shares / shares.sum())[:-1]
        return sum(
            is_grouped(np.searchsorted(bounds, self.rng.random(n)))
            for _ in range(self.draws)
        )
