"""V-information: information about labels that a family of predictors can use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl._core.sklearn_compat import predict_proba
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.baselines._base import Part, checked_pair
from sklearn_mdl.baselines._refits import check_classifier


class UsableInformation(NamedTuple):
    """Information about labels that a family of predictors can use.

    Attributes
    ----------
    value : float
        ``entropy - conditional_entropy``, which may be negative if the classifier
        overfits.
    entropy : float
        Mean log-loss of test rows under the label frequencies of the train rows, in
        nats.
    conditional_entropy : float
        Mean log-loss of test rows under the fitted classifier, in nats.
    """

    value: float
    entropy: float
    conditional_entropy: float


def usable_information(
    train: Part, test: Part, estimator: BaseEstimator | None = None
) -> UsableInformation:
    """Estimate the predictive V-information from features to labels.

    ``I_V(X -> Y) = H_V(Y) - H_V(Y | X)`` is the lowest expected log-loss of the family
    without features, minus the lowest with features. Both predictors are fitted on
    the train rows, and their log-losses are averaged over the test rows.

    Parameters
    ----------
    train, test : tuple of (X, y)
        Every test label must be among the train labels.
    estimator : classifier, default=None
        Classifier whose fit represents the best predictor of the family. If None,
        logistic regression on standardised features (the linear family) is used.

    Returns
    -------
    information : UsableInformation

    Raises
    ------
    ValueError
        If a test label is not among the train labels, rows are not finite numbers, or
        the estimator does not predict probabilities.
    TypeError
        If the estimator has no ``fit`` or no ``predict_proba``.

    References
    ----------
    Xu, Zhao, Song, Stewart and Ermon, 2020, A theory of usable information under
    computational constraints, ICLR, Definitions 1 to 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl.baselines import usable_information
    >>> X, y = load_iris(return_X_y=True)
    >>> round(usable_information((X[::2], y[::2]), (X[1::2], y[1::2])).entropy, 3)
    1.099
    """
    if estimator is None:
        estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    check_classifier(estimator, "usable_information")
    rows, labels = checked_pair(*train)
    test_rows, test_labels = checked_pair(*test)
    classes, counts = np.unique(labels, return_counts=True)
    unknown = test_labels[~np.isin(test_labels, classes)]
    if len(unknown):
        given, cure = unknown.tolist()[0], "keep rows where np.isin(y_test, y_train)"
        raise invalid("Test labels", "among the train labels", given, cure)
    places = np.searchsorted(classes, test_labels)
    fitted, shape = clone(estimator).fit(rows, labels), (len(places), len(classes))
    proba = predict_proba(fitted, test_rows).astype(np.float64)
    sums = proba.sum(axis=1, keepdims=True)  # about 1, or 0 for some classifiers
    if proba.shape != shape or (proba < 0).any() or not np.all(sums < 1.5):
        raise invalid("Predictions", f"{shape} probabilities", proba, "debug the model")
    least = np.finfo(np.float64).tiny  # some classifiers predict zero for a label
    proba /= np.maximum(sums, least)
    right = np.maximum(proba[np.arange(len(places)), places], least)
    entropy = -float(np.log(counts[places] / counts.sum()).mean())
    conditional = -float(np.log(right).mean())
    return UsableInformation(entropy - conditional, entropy, conditional)
