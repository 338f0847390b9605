"""Base class of estimators that are fitted on all labelled rows together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_X_y, column_or_1d, gen_batches

from sklearn_mdl._core.numerics import as_array, default_torch
from sklearn_mdl._core.validation import as_labels, distinct_classes, validated
from sklearn_mdl.metrics import uniform_codelength

Array = np.ndarray
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Seed = int | RandomState | None
Part = tuple[ArrayLike, ArrayLike]  # rows and their labels

PRECISIONS = (np.float64, np.float32)  # other dtypes are converted to the first
SCALED_AT_ONCE = 2**20  # a block of rows has about this many values


class Labelled(NamedTuple):
    """Checked rows and their labels.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows, in a dtype that the estimator accepts.
    labels : ndarray of shape (n_samples,)
        Class numbers 0, ..., C - 1.
    classes : ndarray of shape (n_classes,)
        The distinct labels, in ascending order.
    """

    X: Array
    labels: Integers
    classes: Array

    @property
    def uniform(self) -> float:
        """Codelength of the labels under the uniform code, in nats."""
        return uniform_codelength(len(self.labels), len(self.classes))


class LabelledEstimator(BaseEstimator):
    """Base class of estimators. It checks rows and labels, then calls ``_fit``."""

    classes_: Array
    n_features_in_: int
    _precisions: ClassVar[DTypeLike | tuple[DTypeLike, ...]] = PRECISIONS

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on all rows, or leave the estimator unchanged if fitting fails.

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
            If a parameter is invalid or rows are not finite numbers. Also if labels are
            not classes, if there is a single class, or if training diverges.
        TypeError
            If the ``estimator`` of a block-wise code is not a classifier with ``fit``
            and ``predict_proba``.

        Warns
        -----
        UserWarning
            If the ``estimator`` of a block-wise code failed in its last fit or
            prediction. Labels are then coded with an earlier fit or class frequencies.
        """
        self._validate_params()
        before = dict(vars(self))
        try:
            data = self._checked(X, y)
            self.classes_ = data.classes
            with default_torch():
                self._fit(data)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    @abstractmethod
    def _fit(self, data: Labelled) -> None: ...

    def _checked(self, X: ArrayLike, y: ArrayLike) -> Labelled:
        pair = as_array(X), as_array(as_labels(y))
        rows, given = validated(self, *pair, dtype=self._precisions, reset=True)
        given = column_or_1d(given, warn=True)
        classes = distinct_classes(given, type(self).__name__)
        return Labelled(rows, np.searchsorted(classes, given).astype(np.int64), classes)


def checked_pair(
    X: ArrayLike, y: ArrayLike, dtype: DTypeLike | tuple[DTypeLike, ...] = PRECISIONS
) -> tuple[Array, Array]:
    """Check the rows and labels passed to a function, and return them as arrays."""
    return cast(tuple[Array, Array], check_X_y(as_array(X), as_array(y), dtype=dtype))


def scaler_of(X: Array) -> StandardScaler:
    """Return a scaler that is fitted to rows (n, d) in float64."""
    scaler = StandardScaler()
    for rows in _blocks(X):
        scaler.partial_fit(X[rows].astype(np.float64))
    return scaler


def scaled_array(X: Array, scaler: StandardScaler | None, dtype: DTypeLike) -> Array:
    """Return rows (n, d) in a dtype, standardised if there is a scaler."""
    if scaler is None:
        return X.astype(dtype)
    scaled = np.empty_like(X, dtype, subok=False)
    for rows in _blocks(X):
        scaled[rows] = scaler.transform(X[rows].astype(np.float64))
    return scaled


def scaled_tensor(
    X: Array, scaler: StandardScaler | None, device: torch.device
) -> torch.Tensor:
    """Return rows (n, d) as float32 on a device, standardised if there is a scaler."""
    scaled = torch.empty(X.shape, dtype=torch.float32, device=device)
    for rows in _blocks(X):
        block = X[rows].astype(np.float64 if scaler else np.float32)
        scaled[rows] = torch.from_numpy(scaler.transform(block) if scaler else block)
    return scaled


def _blocks(X: Array) -> Iterator[slice]:
    """Yield slices of rows whose float64 copies take little memory."""
    yield from gen_batches(len(X), max(1, SCALED_AT_ONCE // X.shape[1]))
