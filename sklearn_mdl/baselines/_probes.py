"""Base class of accuracy probes, and a nearest-neighbour probe."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.sklearn_compat import Constraints, Interval
from sklearn_mdl._core.validation import invalid, validated
from sklearn_mdl.baselines._base import Array, Floats, Labelled, LabelledEstimator, Seed


class Probe(ClassifierMixin, LabelledEstimator):
    """Base class of classifiers whose settings are chosen on held-out rows.

    Subclasses implement ``_fit`` and ``predict_proba``.
    """

    validation_fraction: float
    random_state: Seed
    _precisions = np.float32

    @abstractmethod
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return class probabilities, (n_samples, n_classes)."""

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of every row, (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        places = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[places])

    def _checked_rows(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        X = as_array(X)
        return np.asarray(validated(self, X, dtype=self._precisions, reset=False))

    def _split(self, n_rows: int) -> tuple[Array, Array, int]:
        """Return random indices of training and validation rows, and a seed.

        Raises
        ------
        ValueError
            If no training rows would be left.
        """
        rng = check_random_state(self.random_state)
        n_held_out = int(np.ceil(self.validation_fraction * n_rows))
        if n_held_out >= n_rows:
            required = f"small enough to leave some of {n_rows} rows for training"
            share, cure = self.validation_fraction, "pass validation_fraction=0.1"
            raise invalid("validation_fraction", required, share, cure)
        order = rng.permutation(n_rows)
        return order[n_held_out:], order[:n_held_out], int(rng.randint(2**31 - 1))


@dataclass(eq=False, repr=False)
class KNeighborsProbe(Probe):
    """Nearest neighbours with cosine-weighted votes and ``k`` chosen on held-out rows.

    A neighbour at cosine distance ``d`` has weight ``exp(-d / temperature)``. Classes
    without neighbours get probability zero, so the probe has an accuracy but no finite
    codelength. Use :class:`~sklearn_mdl.KNeighborsReadout` for codelengths.

    Parameters
    ----------
    n_neighbors : int or sequence of int, default=(1, 5, 20, 100)
        Numbers of neighbours to try. Numbers that exceed the number of training rows
        are left out. If none is left, one neighbour is used.
    temperature : float, default=0.07
        Smaller values give the nearest neighbours more weight.
    validation_fraction : float, default=0.1
        Share of the rows to hold out, at random, to compare numbers of neighbours.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out rows.

    Attributes
    ----------
    best_params_ : dict
        The ``n_neighbors`` with the highest accuracy on the held-out rows. Of tied
        numbers, the smallest is chosen.
    settings_ : list of dict
        All numbers of neighbours that were tried, in ascending order.
    validation_scores_ : ndarray of shape (n_settings,)
        Accuracy on the held-out rows.
    estimator_ : KNeighborsClassifier
        Fitted on all rows, with labels 0, ..., C - 1.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    References
    ----------
    Wu, Xiong, Yu and Lin, 2018, Unsupervised Feature Learning via Non-Parametric
    Instance Discrimination, CVPR, section 3.4 (the vote and its temperature).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.baselines import KNeighborsProbe
    >>> X, y = load_digits(return_X_y=True)
    >>> probe = KNeighborsProbe(random_state=0).fit(X[:1000], y[:1000])
    >>> probe.score(X[1000:], y[1000:]) > 0.9
    True
    """

    n_neighbors: int | Sequence[int] = (1, 5, 20, 100)
    _: KW_ONLY
    temperature: float = 0.07
    validation_fraction: float = 0.1
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "n_neighbors": ["array-like", Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def _fit(self, data: Labelled) -> None:
        learned, held_out, _ = self._split(len(data.X))
        counts = [k for k in _counts(self.n_neighbors) if k <= len(learned)] or [1]
        weights = partial(_weights, temperature=self.temperature)
        knn = KNeighborsClassifier(weights=weights, metric="cosine")
        grid, cv = {"n_neighbors": counts}, [(learned, held_out)]
        search = GridSearchCV(knn, grid, scoring="accuracy", cv=cv, error_score="raise")
        search.fit(data.X, data.labels)
        self.settings_ = search.cv_results_["params"]
        self.validation_scores_ = search.cv_results_["mean_test_score"]
        self.best_params_ = search.best_params_
        self.estimator_ = search.best_estimator_

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities (n_samples, n_classes) in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        rows = self._checked_rows(X)
        return np.asarray(self.estimator_.predict_proba(rows))


def _weights(distances: Array, temperature: float) -> Floats:
    """Return weights (n, k), with 1 for the nearest neighbour to avoid underflow."""
    gaps = distances - distances.min(1, keepdims=True)
    return np.asarray(np.exp(-gaps.astype(np.float64) / temperature))


def _counts(values: int | Sequence[int]) -> list[int]:
    """Return distinct numbers of neighbours in ascending order."""
    numbers = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    if not numbers or not all(isinstance(k, Integral) and int(k) > 0 for k in numbers):
        cure = "for example, pass n_neighbors=(1, 5)"
        raise invalid("n_neighbors", "positive integers", values, cure)
    return sorted({int(k) for k in numbers})
