"""What a stream that was walked has to say: its code, its measures, what would follow.

Nothing here trains what it reads: rows that would follow are walked on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.measures import PrequentialMeasures, measure
from sklearn_mdl.prequential import Course


class NotYet:
    """Stands where a walk will leave something: an instance's own comes before it."""

    def __get__(self, estimator: Any, owner: type) -> Any:
        """Tell whoever asks an estimator for it that `fit` comes first."""
        if estimator is None:
            return self
        raise NotFittedError(
            f"This {owner.__name__} has walked over no rows yet, so that nothing can "
            "be read off it; call fit first"
        )


class StreamReadings:
    """Mixin of estimators that walk: what the trace of their course says."""

    _course: Course = NotYet()  # type: ignore[assignment]
    _checked: Callable[..., Any]
    _encoded: Callable[..., Any]

    @property
    def codelength_(self) -> float:
        """Codelength of all labels seen, in nats."""
        return float(np.sum(self.codelengths_))

    @property
    def codelengths_(self) -> np.ndarray:
        """Codelength of every example in the order walked, (n_samples_seen_,), nats."""
        return self._course.trace.codelengths

    @property
    def n_samples_seen_(self) -> int:
        """Number of examples walked so far."""
        return self._course.n_scored

    def heldout_codelengths(self, X, y) -> np.ndarray:
        """Codelengths of rows that come after the stream; they leave no trace in it.

        The walk goes on over them on a copy: each is predicted by what was learned from
        all before it, and then learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        codelengths : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If y holds a class that the stream does not know, and as in :meth:`fit`.
        """
        check_is_fitted(self)
        return self._continued(*self._checked(X, y, reset=False))

    def _continued(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        labels = self._encoded(y)
        if not len(X):
            return np.empty(0)
        samples, trace = self._course.samples, self._course.trace
        own = {id(samples): samples.branch(), id(trace): trace.branch()}
        course = copy.deepcopy(self._course, own)
        for _ in course.extend(X, labels):
            pass
        return course.trace.codelengths


class ClassReadings(StreamReadings):
    """Mixin of classifiers that walk: what their predictions were worth, besides."""

    classes_: np.ndarray

    def measures(self, *, n_bins: int = 15) -> PrequentialMeasures:
        """Accuracy, Brier score and calibration of the walk's own predictions.

        Every prediction of the mixture was made before its label was seen, so that no
        row need be held out for them.

        Parameters
        ----------
        n_bins : int, default=15
            Bins of the expected calibration error.

        Returns
        -------
        measures : PrequentialMeasures
            With the codelength, and two reference codes, in nats.
        """
        check_is_fitted(self)
        return measure(
            self._course.trace.digests,
            self.codelengths_,
            self._course.states[0].labels[: self.n_samples_seen_].cpu().numpy(),
            n_classes=len(self.classes_),
            n_bins=n_bins,
        )
