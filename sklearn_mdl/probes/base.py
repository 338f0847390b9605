"""What all probes share: checks, classes, predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_class_labels, check_finite

Array = NDArray[Any]


class Probe(ClassifierMixin, BaseEstimator):
    """Base of classifiers whose settings are chosen on held-out rows.

    Subclasses fit in ``_fit`` and predict in ``_proba``.
    """

    classes_: Array
    n_features_in_: int
    validation_fraction: float
    random_state: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Try every setting on a part of the rows, and keep the best on the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If rows or labels are not finite numbers and classes, if there is one class
            only, or if no row is left to validate on.
        """
        self._validate_params()
        with all_or_nothing(self):
            X, y = self._checked(X, y)
            self.classes_, labels = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs labels of at least two classes, got "
                    f"one class only, {self.classes_.tolist()!r}; nothing is to be told"
                )
            self._fit(X, labels)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n_samples, n_classes), in the order of ``classes_``."""
        return self._proba(self._checked_rows(X))

    def _checked_rows(self, X: Any) -> Array:
        check_is_fitted(self)
        checked: Array = validate_data(
            self, as_array(X), dtype=np.float32, ensure_all_finite=False, reset=False
        )
        check_finite(checked, getattr(self, "feature_names_in_", None))
        return checked

    def predict(self, X: Any) -> Array:
        """Most probable class of every row, (n_samples,)."""
        proba = self.predict_proba(X)
        found: Array = self.classes_[proba.argmax(1)]
        return found

    @abstractmethod
    def _fit(self, X: Array, labels: Array) -> None:
        """Fit on rows (n, d) and labels 0, ..., C - 1."""

    @abstractmethod
    def _proba(self, X: Array) -> NDArray[np.float64]:
        """Probabilities (n, C) of checked rows."""

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):  # refused below, with its place
            X, y = validate_data(
                self,
                as_array(X),
                as_array(y),
                dtype=np.float32,
                ensure_all_finite=False,
            )
        check_finite(X, getattr(self, "feature_names_in_", None))
        y = column_or_1d(y, warn=True)
        check_class_labels(y)
        return X, y

    def _split(self, n_rows: int) -> tuple[Array, Array, int]:
        """Draw rows to learn from, rows to validate on, and a seed.

        Raises
        ------
        ValueError
            If there is none of either.
        """
        rng = check_random_state(self.random_state)
        n_held_out = int(np.ceil(self.validation_fraction * n_rows))
        if n_held_out >= n_rows:
            raise ValueError(
                f"{type(self).__name__} needs rows to learn from beside those to "
                f"validate on, got n_samples = {n_rows} of which {n_held_out} are held "
                "out; pass more rows or a smaller validation_fraction"
            )
        order = rng.permutation(n_rows)
        return order[n_held_out:], order[:n_held_out], int(rng.randint(2**31 - 1))


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if what it is given is refused."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
