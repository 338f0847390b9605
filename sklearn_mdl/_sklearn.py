"""The only module that touches scikit-learn's private names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.multiclass import (
    _check_partial_fit_first_call as check_partial_fit_first_call,
)
from sklearn.utils.validation import _num_samples as num_samples

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this version has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check parameters by ``_parameter_constraints`` before the method runs."""
    decorate: Callable[[Method], Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return decorate


def predict_proba(classifier: Any, X: Any) -> np.ndarray:
    """Return probabilities (n, C) as scikit-learn 1.9 does.

    Before, a linear classifier whose one-vs-rest probabilities of a row were all zero
    divided zero by zero; it is as well to say that they are all alike.
    """
    proba = np.array(classifier.predict_proba(X), dtype=np.float64)
    lost = np.isnan(proba).all(axis=1)
    if lost.any() and hasattr(classifier, "decision_function"):
        decided = np.isfinite(classifier.decision_function(X)).reshape(len(proba), -1)
        proba[lost & decided.all(axis=1)] = 1 / proba.shape[1]
    return proba


class FitTasks:
    """Tells scikit-learn's callbacks of a fit and of its parts, where there are any.

    Parameters
    ----------
    estimator : object
        Within a method that is decorated by ``with_callbacks``.
    n_parts : int
    X, y : array-like
        What is fitted.
    """

    def __init__(self, estimator: Any, n_parts: int, X: Any, y: Any) -> None:
        self._estimator = estimator
        self._told = {"X": X, "y": y}
        begin = getattr(estimator, "_init_callback_context", None)
        self._whole = None if begin is None else begin(max_subtasks=n_parts)
        self._part: Any = None
        if self._whole is not None:
            self._whole.call_on_fit_task_begin(estimator=estimator, **self._told)

    def begin_part(self) -> None:
        """Say that a part begins."""
        if self._whole is not None:
            self._part = self._whole.subcontext(task_name="segment")
            self._part.call_on_fit_task_begin(estimator=self._estimator)

    def end_part(self) -> bool:
        """Say that the part has ended; returns whether a callback wants to stop."""
        if self._whole is None:
            return False
        return bool(self._part.call_on_fit_task_end(estimator=self._estimator))

    def end(self) -> None:
        """Say that all has ended."""
        if self._whole is not None:
            self._whole.call_on_fit_task_end(estimator=self._estimator, **self._told)


__all__ = [
    "CallbackSupportMixin",
    "FitTasks",
    "Interval",
    "Options",
    "StrOptions",
    "check_partial_fit_first_call",
    "fit_context",
    "num_samples",
    "predict_proba",
    "with_callbacks",
]
