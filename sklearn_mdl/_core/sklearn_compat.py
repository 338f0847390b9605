"""Functions of scikit-learn that are private or differ between its versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import (
    HasMethods as HasMethods,
    Interval as Interval,
    Options as Options,
    StrOptions as StrOptions,
    validate_params as _validate_params,
)
from sklearn.utils.validation import _num_samples

try:
    from sklearn.callback import (
        CallbackSupportMixin as CallbackSupportMixin,
        with_callbacks as _with_callbacks,
    )
except ImportError:  # before scikit-learn 1.9
    _with_callbacks = None

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty mixin, since this version of scikit-learn has no callbacks."""


num_samples = _num_samples
take_rows = _safe_indexing
Constraints = dict[str, list[Any]]  # constraints of parameters, for scikit-learn
Method = TypeVar("Method", bound=Callable[..., Any])


class Seed(Interval):
    """Constraint for the seed of calls that must draw the same orders."""

    def __str__(self) -> str:
        """Return the text that scikit-learn inserts into its error message."""
        return (
            "an int of at least 0 (such as 0), since resumed calls need the same seed"
        )


def with_callbacks(method: Method) -> Method:
    """Decorate a method so that callbacks, if supported, are torn down after it."""
    if _with_callbacks is None:
        return method
    return cast(Method, _with_callbacks(method))


def fit_context(method: Method) -> Method:
    """Decorate a method so that it first checks the estimator's parameters."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=False)(method))


def callback_context(estimator: Any, n_parts: int) -> Any:
    """Return the object that notifies an estimator's callbacks of a fit in parts.

    Call this within a method decorated by ``with_callbacks``.
    """
    return estimator._init_callback_context(max_subtasks=n_parts)


def validate_params(constraints: Constraints) -> Callable[[Method], Method]:
    """Return a decorator that checks the parameters of a function before it runs."""
    decorate = _validate_params(constraints, prefer_skip_nested_validation=False)
    return cast(Callable[[Method], Method], decorate)


def predict_proba(classifier: Any, X: Any) -> np.ndarray:
    """Return probabilities (n, C) as scikit-learn 1.9 does.

    In earlier versions, linear classifiers return NaN for a row if all its one-vs-rest
    probabilities are zero. Here the probabilities of such a row are uniform.
    """
    proba = np.array(classifier.predict_proba(X), dtype=np.float64)
    undefined = np.isnan(proba).all(axis=1)
    if undefined.any() and hasattr(classifier, "decision_function"):
        decided = np.isfinite(classifier.decision_function(X)).reshape(len(proba), -1)
        proba[undefined & decided.all(axis=1)] = 1 / proba.shape[1]
    return proba
