"""Rows and labels as every code here takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import validate_data

from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_class_labels, check_finite
from sklearn_mdl.codelength import uniform_codelength

Array = NDArray[Any]

PRECISIONS = (np.float64, np.float32)  # any other becomes the first


class Labelled(NamedTuple):
    """Checked rows and their labels.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        float32 rows as they came, without a copy; anything else as float64.
    labels : ndarray of shape (n_samples,)
        0, ..., C - 1.
    classes : ndarray of shape (n_classes,)
        What they stand for.
    """

    X: Array
    labels: NDArray[np.int64]
    classes: Array

    @property
    def uniform(self) -> float:
        """Codelength of the labels under the uniform code, in nats."""
        return uniform_codelength(len(self.labels), len(self.classes))


def checked(estimator: Any, X: Any, y: Any) -> Labelled:
    """Check what an estimator is to code; sets its ``n_features_in_``.

    Raises
    ------
    ValueError
        If rows are not finite numbers, or if there is one class only.
    """
    X, y = validate_data(
        estimator, as_array(X), as_array(y), dtype=PRECISIONS, ensure_all_finite=False
    )
    check_finite(X, getattr(estimator, "feature_names_in_", None))
    y = column_or_1d(y, warn=True)
    check_class_labels(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs labels of at least two classes, got one "
            f"class only, {classes.tolist()!r}; nothing is left to code"
        )
    return Labelled(X, labels.astype(np.int64), classes)
