"""The only module that touches scikit-learn's private names."""

from __future__ import annotations

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.multiclass import (
    _check_partial_fit_first_call as check_partial_fit_first_call,
)
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "Interval",
    "Options",
    "StrOptions",
    "check_partial_fit_first_call",
    "fit_context",
    "num_samples",
]
