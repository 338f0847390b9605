"""Control tasks and selectivity, which show how much a probe memorises.

A control task assigns a random label to every *type* of row. Only a probe that
memorises types can predict these labels better than chance. Selectivity is the accuracy
on a task minus the accuracy on a control task (Hewitt and Liang, 2019).
:class:`RandomEncoder` is a control of another kind, to which trained encoders are
compared.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.sklearn_compat import Constraints, Interval
from sklearn_mdl._core.validation import check_positive, invalid
from sklearn_mdl.baselines._base import Array, Floats, Part, Seed
from sklearn_mdl.readouts import KernelReadout


class Selectivity(NamedTuple):
    """Accuracy on a task and on a control task.

    Attributes
    ----------
    value : float
        ``accuracy - control_accuracy``. Higher is better.
    accuracy, control_accuracy : float
        Accuracies on the test rows, averaged over control tasks if there are several.
    """

    value: float
    accuracy: float
    control_accuracy: float


def control_labels(
    types: ArrayLike, y: ArrayLike, *, random_state: Seed = None
) -> Array:
    """Draw a random label for each type, from the label frequencies of the task.

    Parameters
    ----------
    types : array-like of shape (n_samples,)
        Types of the rows, such as words, identities or clusters
        (:func:`cluster_types`). The types must not depend on the features under test.
        If every row has its own type, no probe predicts the control labels of new rows
        better than chance.
    y : array-like of shape (n_samples,)
        Labels of the task.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    labels : ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        If `types` or `y` is not one-dimensional, or if their lengths differ.

    References
    ----------
    Hewitt and Liang, 2019, Designing and interpreting probes with control tasks, EMNLP,
    section 2.

    Examples
    --------
    >>> from sklearn_mdl.baselines import control_labels
    >>> labels = control_labels(["a", "b", "a"], [0, 1, 1], random_state=0)
    >>> bool(labels[0] == labels[2])
    True
    """
    types, y = np.asarray(as_array(types)), np.asarray(as_array(y))
    if types.ndim != 1 or y.shape != types.shape:
        shapes, cure = [types.shape, y.shape], "pass types.ravel() and y.ravel()"
        cure = cure if types.size == y.size else "pass one type for each label"
        raise invalid("types and y", "of equal shape (n_samples,)", shapes, cure)
    distinct, places = np.unique(types, return_inverse=True)
    rng = check_random_state(random_state)
    return np.asarray(y[rng.randint(len(y), size=len(distinct))][places])


def cluster_types(X: ArrayLike, n_types: int, *, random_state: Seed = None) -> Array:
    """Cluster rows into types by k-means, for data without types.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data before encoding, so that all encoders have the same control task.
    n_types : int
        Number of clusters. Choose far more types than classes, but far fewer than rows.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    types : ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        If rows are not finite, or if there are fewer rows than types.
    """
    X = check_array(as_array(X), dtype=[np.float64, np.float32])
    clusters = KMeans(n_types, n_init=1, random_state=random_state)
    return np.asarray(clusters.fit_predict(X))


def selectivity(
    probe: ClassifierMixin,
    train: Part,
    test: Part,
    types: Part,
    *,
    n_controls: int = 1,
    random_state: Seed = None,
) -> Selectivity:
    """Compare a probe's accuracy on a task and on control tasks.

    Parameters
    ----------
    probe : classifier
        The probe, which is copied and fitted once for each task. A
        :class:`~sklearn_mdl.KernelReadout` is factorised only once for all control
        tasks, unless it whitens within classes or has a `window` or `restart`.
    train, test : (X, y)
        Features of shape (n, d) and labels of shape (n,).
    types : (array-like, array-like)
        Types of the train and test rows (see :func:`control_labels`).
    n_controls : int, default=1
        Number of control tasks, each with its own random labels.
    random_state : int, RandomState instance or None, default=None
        Seed of the control labels. The probe has its own ``random_state``.

    Returns
    -------
    selectivity : Selectivity

    Raises
    ------
    ValueError
        If lengths differ, or if `n_controls` is not a positive integer.

    References
    ----------
    Hewitt and Liang, 2019, section 2.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn_mdl.baselines import cluster_types, selectivity
    >>> X, y = load_digits(return_X_y=True)
    >>> types = cluster_types(X, 100, random_state=0)
    >>> parts = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    >>> result = selectivity(
    ...     RidgeClassifier(), *parts, (types[:1000], types[1000:]), random_state=0
    ... )
    >>> result.accuracy > result.control_accuracy
    True
    """
    check_positive("n_controls", n_controls, 1)
    parts = (map(as_array, part) for part in (train, test, types))
    (X, y), (X_test, y_test), (kinds, test_kinds) = parts
    check_consistent_length(X, y, kinds)
    check_consistent_length(X_test, y_test, test_kinds)
    all_kinds, labels = (np.concatenate(p) for p in ((kinds, test_kinds), (y, y_test)))
    rng = check_random_state(random_state)
    draws = range(n_controls)
    drawn = [control_labels(all_kinds, labels, random_state=rng) for _ in draws]
    learned, held_out = np.split(np.stack(drawn), [len(y)], axis=1)
    fitted = clone(probe).fit(X, y)
    accuracy = float(np.mean(fitted.predict(X_test) == y_test))
    is_kernel = isinstance(fitted, KernelReadout)
    if is_kernel and not (fitted.reads_labels or fitted.window or fitted.restart):
        predicted = fitted.predict_relabelled(learned, X_test)
    else:
        fits = (clone(probe).fit(X, control) for control in learned)
        predicted = np.stack([fit.predict(X_test) for fit in fits])
    control_accuracy = float(np.mean(predicted == held_out))
    return Selectivity(accuracy - control_accuracy, accuracy, control_accuracy)


@dataclass(eq=False, repr=False)
class RandomEncoder(TransformerMixin, BaseEstimator):
    """A reference encoder: one layer of rectified units with random weights.

    Features are standardised and multiplied by a Gaussian matrix. Random biases are
    added, and the sums are rectified. A trained encoder should give a shorter code than
    a random encoder of the same width. For your own network, a better reference is the
    same network before training, for example ``TimmEncoder(..., pretrained=False)``.

    Parameters
    ----------
    n_components : int, default=None
        Number of units. If None, the number of features.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    biases_ : ndarray of shape (n_components,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.baselines import RandomEncoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> RandomEncoder(100, random_state=0).fit_transform(X).shape
    (1797, 100)
    """

    n_components: int | None = None
    _: KW_ONLY
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the weights and biases, and learn the scales of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._validate_params()
        rows = validate_data(self, X, dtype=np.float64)
        rng = check_random_state(self.random_state)
        n_components = self.n_components or rows.shape[1]
        self.components_ = rng.normal(size=(n_components, rows.shape[1]))
        self.components_ /= np.sqrt(rows.shape[1])
        self.biases_ = rng.normal(size=n_components)
        self._scaler = StandardScaler().fit(rows)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Return activations (n_samples, n_components).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        activations = self._scaler.transform(X) @ self.components_.T + self.biases_
        return np.asarray(np.maximum(0.0, activations))
