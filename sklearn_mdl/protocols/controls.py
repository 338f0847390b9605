"""Control tasks and selectivity: what a probe learns without a representation's help.

A control task gives every *type* a label drawn at random, and asks for it: only a probe
that memorises types can tell. What a probe gets right of the task beyond what it gets
right of a control task is its selectivity (Hewitt and Liang, 2019).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils import check_array, check_consistent_length, check_random_state

from sklearn_mdl.arithmetic import as_array

Array = NDArray[Any]
Part = tuple[Any, Any]


class Selectivity(NamedTuple):
    """Accuracy on a task, and on a control task.

    Attributes
    ----------
    value : float
        ``accuracy - control_accuracy``: greater is better.
    accuracy, control_accuracy : float
        On the test rows.
    """

    value: float
    accuracy: float
    control_accuracy: float


def control_labels(types: Any, y: Any, *, random_state: Any = None) -> Array:
    """Draw a label for each type, from the frequencies of the labels of a task.

    Parameters
    ----------
    types : array-like of shape (n_samples,)
        What the control task is a function of: words, identities, clusters
        (:func:`cluster_types`). They must not come from the features under test. Where
        every row is a type of its own, control labels are random labels, and no probe
        gets them right on rows it has not seen.
    y : array-like of shape (n_samples,)
        Labels of the task.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    labels : ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        If the lengths differ.

    References
    ----------
    Hewitt and Liang, 2019, Designing and interpreting probes with control tasks, EMNLP,
    section 2.

    Examples
    --------
    >>> from sklearn_mdl import control_labels
    >>> found = control_labels(["a", "b", "a"], [0, 1, 1], random_state=0)
    >>> bool(found[0] == found[2])
    True
    """
    types, y = np.asarray(as_array(types)), np.asarray(as_array(y))
    if types.ndim != 1 or y.shape != types.shape:
        raise ValueError(
            "types and y must both have shape (n_samples,), got "
            f"{types.shape} and {y.shape}; give one type for each label"
        )
    distinct, places = np.unique(types, return_inverse=True)
    rng = check_random_state(random_state)
    drawn: Array = y[rng.randint(len(y), size=len(distinct))][places]
    return drawn


def cluster_types(X: Any, n_types: int, *, random_state: Any = None) -> Array:
    """Sort rows into types by k-means, for data that have none of their own.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data before any encoder, so that all of them face one control task.
    n_types : int
        Clusters; many more than classes, and many fewer than rows.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    types : ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        If rows are not finite, or fewer than types.
    """
    X = check_array(as_array(X), dtype=[np.float64, np.float32])
    found: Array = KMeans(n_types, n_init=1, random_state=random_state).fit_predict(X)
    return found


def selectivity(
    probe: Any,
    train: Part,
    test: Part,
    types: Part,
    *,
    random_state: Any = None,
) -> Selectivity:
    """Compare a probe's accuracy on a task and on a control task.

    Parameters
    ----------
    probe : classifier
        Copied and fitted once for each task.
    train, test : (X, y)
        Features of shape (n, d) and labels of shape (n,).
    types : (array-like, array-like)
        Of the train and of the test rows; see :func:`control_labels`.
    random_state : int, RandomState instance or None, default=None
        Of the control labels. What the probe draws is its own.

    Returns
    -------
    selectivity : Selectivity

    Raises
    ------
    ValueError
        If lengths differ.

    References
    ----------
    Hewitt and Liang, 2019, section 2.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn_mdl import cluster_types, selectivity
    >>> X, y = load_digits(return_X_y=True)
    >>> types = cluster_types(X, 100, random_state=0)
    >>> parts = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    >>> found = selectivity(
    ...     RidgeClassifier(), *parts, (types[:1000], types[1000:]), random_state=0
    ... )
    >>> found.accuracy > found.control_accuracy
    True
    """
    (X, y), (X_test, y_test), (kinds, test_kinds) = (
        map(as_array, part) for part in (train, test, types)
    )
    check_consistent_length(X, y, kinds)
    check_consistent_length(X_test, y_test, test_kinds)
    all_kinds, labels = (np.concatenate(p) for p in ((kinds, test_kinds), (y, y_test)))
    control = control_labels(all_kinds, labels, random_state=random_state)
    accuracy = float(np.mean(clone(probe).fit(X, y).predict(X_test) == y_test))
    fitted = clone(probe).fit(X, control[: len(y)])
    hits = fitted.predict(X_test) == control[len(y) :]
    control_accuracy = float(np.mean(hits))
    return Selectivity(accuracy - control_accuracy, accuracy, control_accuracy)
