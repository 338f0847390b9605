"""Discriminants and class means: tables by hand, scikit-learn, refits at each row."""

import math

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import oas
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl.readouts import CentroidReadout, DiscriminantReadout, _class_means

KINDS = {
    "discriminant": DiscriminantReadout(),
    "shrunk more": DiscriminantReadout(2.0),
    "centroid": CentroidReadout(),
    "raw centroid": CentroidReadout(None),
    "whitened centroid": CentroidReadout("within-class"),
}


def digits(n=150):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def scores(readout, X):
    """Scores (n, C) of rows, before they are calibrated."""
    run = readout._run
    with run.threads.arithmetic():
        x = run.rows.scaled(np.asarray(X, np.float32))
        return run.learners[0].predict_others(x[0, : len(X)])[0].numpy()[0]


# By hand

ROWS = np.array([[3.0, 4], [4, 3], [0, 2], [6, 8]])
LABELS = np.array([0, 0, 1, 1])
OTHERS = np.array([[1.0, 0], [0, 5]])
# Unit rows are (.6 .8) (.8 .6) | (0 1) (.6 .8), so that sums over n + 1 are
# (1.4 1.4) / 3 and (.6 1.8) / 3, whose squares are 3.92 / 9 and 3.6 / 9.
DISCRIMINANT = [
    [1.4 / 3 - 1.96 / 9, 0.2 - 0.2, 0],
    [1.4 / 3 - 1.96 / 9, 0.6 - 0.2, 0],
]
# Sums are (7 7) and (6 10).
CENTROID = [
    [7 / math.sqrt(98), 6 / math.sqrt(136), 0],
    [7 / math.sqrt(98), 10 / math.sqrt(136), 0],
]


@pytest.mark.parametrize(
    ("readout", "table"),
    [
        (DiscriminantReadout(), DISCRIMINANT),
        (CentroidReadout(), CENTROID),
        (CentroidReadout(None), CENTROID),
    ],
    ids=str,
)
def test_scores_of_a_few_rows_are_those_by_hand(readout, table):
    readout.partial_fit(ROWS, LABELS, classes=[0, 1, 2])
    assert_allclose(scores(readout, OTHERS), table, atol=1e-14)
    calibration, expected = ForwardSoftmax(1, 3, has_variances=False), []
    first = [[0, 0, 0], [0.5 * 0.96 - 0.125, 0, 0]]
    if isinstance(readout, CentroidReadout):
        first[1][0] = 0.96
    for row, label in zip(first, LABELS[:2], strict=True):
        found = calibration.log_proba(np.array(row, float)[None, None])
        expected.append(-found[0, 0, label])
        calibration.observe(np.array(row, float)[None, None], np.array([label]))
    assert_allclose(readout.codelengths_[:2], expected, rtol=1e-12)


# Refits at every row


def covariance(past, y, strength):
    """Covariance within classes, shrunk towards that of all rows."""
    (n, d), classes = past.shape, np.unique(y)
    total = oas(past - past.mean(0), assume_centered=True)[0]
    within = past - np.stack([past[y == label].mean(0) for label in y])
    freedom = max(1, n - len(classes))
    found = within.T @ within + d * strength * total
    found /= freedom + d * strength
    return found + 1e-3 * np.trace(found) / d * np.eye(d)


def refitted(readout, X, y, t):
    """Scores of row ``t`` from scratch: from the rows before it, straight."""
    refresh = 1 << (t.bit_length() - 1) if t >= 8 else 0
    known, d = X[:refresh], X.shape[1]
    rows, root = X[: t + 1], np.eye(d)
    if readout.scaling == "within-class" and not refresh:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if refresh and readout.scaling is not None:
        rows = rows - known.mean(0)
    if refresh and readout.scaling == "within-class":
        own = covariance(known, y[:refresh], readout.shrinkage)
        root = np.linalg.inv(np.linalg.cholesky(own)).T
    rows, found = rows @ root, np.zeros(10)
    for label in set(y[:t]):
        own = rows[:t][y[:t] == label]
        mean = own.sum(0) / (len(own) + 1)
        if isinstance(readout, CentroidReadout):
            found[label] = mean @ rows[t] / np.linalg.norm(mean)
        else:
            found[label] = mean @ (rows[t] - mean / 2)
    return found / np.linalg.norm(rows[t])


@for_each("name", KINDS)
def test_a_pass_equals_refits_at_every_row(name):
    X, y = digits(75)
    X = X.astype(np.float32).astype(np.float64)
    readout = clone(KINDS[name]).partial_fit(X, y, classes=range(10))
    calibration, expected = ForwardSoftmax(1, 10, has_variances=False), []
    for t, label in enumerate(y):
        row = refitted(readout, X, y, t)
        expected.append(-calibration.log_proba(row[None, None])[0, 0, label])
        calibration.observe(row[None, None], np.array([label]))
    assert_allclose(readout.codelengths_, expected, atol=1e-8)


class Known(BaseEstimator):
    """A covariance that is given."""

    def __init__(self, covariance_):
        self.covariance_ = covariance_

    def fit(self, X):
        return self


def test_a_frozen_discriminant_is_that_of_scikit_learn():
    """With plain means and equal priors, up to a scale and a shift a row."""
    X, y = digits(64)
    X = X.astype(np.float32).astype(np.float64)
    readout = DiscriminantReadout(0.3).partial_fit(X, y, classes=range(10))
    (learner,) = readout._run.learners
    rows = learner._mapped(X)[0].numpy()
    means = learner._sums[0].numpy() / learner._counts[:, None]
    own = rows @ means.T - (means**2).sum(1) / 2
    witness = LinearDiscriminantAnalysis(
        solver="lsqr",
        priors=np.full(10, 0.1),
        covariance_estimator=Known(covariance(X, y, 0.3)),
    )  # it averages what the estimator finds for each class, here the same
    expected = witness.fit(X, y).decision_function(X)
    found, expected = (v - v.mean(1, keepdims=True) for v in (own, expected))
    assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


# Streams


def test_statistics_stay_from_some_row_on(monkeypatch):
    monkeypatch.setattr(_class_means, "LAST", 64)
    X, y = digits(200)
    readout = DiscriminantReadout().fit(X, y)
    (learner,) = readout._run.learners
    assert learner._refreshed(200) == 64
    other = DiscriminantReadout().fit(X[:64], y[:64])._run.learners[0]
    assert_array_equal(learner._mapped(X[:3])[0], other._mapped(X[:3])[0])
    assert learner._counts.sum() == 192  # whole blocks; means go on


def test_discriminants_and_means_of_one_list_share_a_learner():
    X, y = digits()
    switcher = MDLReadoutSwitcher([*KINDS.values()], random_state=0).fit(X, y)
    assert len(switcher._run.learners) == 1
    for i, readout in enumerate(KINDS.values()):
        alone = readout.fit(X, y)
        assert_array_equal(switcher.readout_losses_[:, i], alone.codelengths_)


def test_wide_rows_need_no_matrix_of_their_width():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 20_000)).astype(np.float32)
    readout = DiscriminantReadout().fit(X, np.arange(40) % 2)
    assert np.isfinite(readout.codelengths_).all()
    (learner,) = readout._run.learners
    assert sum(v.nbytes for v in vars(learner).values() if hasattr(v, "nbytes")) < 1e6
