"""Classifiers that walk: classes, labels and probabilities."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from sklearn_mdl._sklearn import check_partial_fit_first_call, fit_context
from sklearn_mdl.checks import GROUPED, check_class_labels, is_grouped
from sklearn_mdl.conditions import fingerprint
from sklearn_mdl.guards import refuse_weights
from sklearn_mdl.online.estimator import OnlineEstimator, pairs_of
from sklearn_mdl.prequential import Course
from sklearn_mdl.readings import ClassReadings

ALL_DIVERGED = (
    "all readouts have diverged and predict uniformly since then, so that the code "
    "says little about the features; lower the learning rates"
)


class OnlineClassifier(ClassReadings, ClassifierMixin, OnlineEstimator):
    """Base of classifiers that predict each example before they learn it.

    Subclasses say in ``_start`` which course they walk.
    """

    _all_diverged = ALL_DIVERGED

    @abstractmethod
    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        """Make the course for a new stream."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **weights) -> Self:
        """Forget everything, then walk once through the rows in the order given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, taken as float32.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        **weights
            Nothing: every label counts once, since a weighted sum is no codelength.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X holds NaN or infinity, if lengths differ, if y holds one class only.
        TypeError
            If ``sample_weight``, ``class_weight`` or anything else comes along.
        """
        refuse_weights(weights, f"{type(self).__name__}.fit")
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=True)
            classes, labels = np.unique(y, return_inverse=True)
            self._set_out(len(X), X.shape[1], classes)
            if not self.shuffle and is_grouped(labels):
                warnings.warn(GROUPED, UserWarning, stacklevel=3)
            self._walk(
                X,
                labels,
                self.order_ if self.shuffle else None,
                self._checkpoint_of(X, labels),
                told=(X, y),
            )
        self._after_fit()
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y, classes=None, **weights) -> Self:
        """Walk on over more rows of the same stream.

        How a stream is cut into calls changes nothing: codelengths are those of one
        ``fit`` on all rows, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur; required at the first call, optional afterwards.
        **weights
            Nothing, as in :meth:`fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If ``classes`` is missing at the first call or differs later, if y holds a
            label outside them, and as in :meth:`fit`.
        TypeError
            As in :meth:`fit`.
        """
        refuse_weights(weights, f"{type(self).__name__}.partial_fit")
        first = not hasattr(self, "_course")
        with self._all_or_nothing():
            with warnings.catch_warnings():  # a few rows may well be of as many classes
                warnings.filterwarnings("ignore", "The number of unique classes")
                X, y = self._checked(X, y, reset=first)
            if first:
                check_partial_fit_first_call(self, classes)
                labels = self._encoded(y)
                self._begin(X.shape[1], self.classes_)
            else:
                self._check_classes(classes)
                labels = self._encoded(y)
            self._course.check_length(len(X))
        self._walk(X, labels)
        return self

    def fit_stream(self, blocks, classes) -> Self:
        """Forget everything, then walk over blocks of rows as they come.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Each as for :meth:`partial_fit`: what a generator yields, or a torch
            ``DataLoader``.
        classes : array-like of shape (n_classes,)
            All labels that can occur, since the first blocks may lack some.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is no block, and as in :meth:`partial_fit`. The blocks before one
            that is refused stay walked.
        TypeError
            If a block is no pair.
        """
        blocks = pairs_of(blocks)
        X, y = next(blocks)
        with self._all_or_nothing():
            self._forget()
            self.partial_fit(X, y, classes=classes)
        for X, y in blocks:
            self.partial_fit(X, y)
        return self

    def predict_log_proba(self, X) -> np.ndarray:
        """Log-probabilities of the mixture under the posterior for the next example.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            In nats, columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._checked_rows(X, reset=False)
        course = self._course.learned()
        with np.errstate(divide="ignore"):  # a readout of weight zero
            log_weights = np.log(course.forward.weights)[:, None, None]
        blocks = [
            logsumexp(log_weights + log_proba.cpu().numpy(), axis=0)
            for log_proba in course.log_proba(X)
        ]
        log_proba = np.concatenate(blocks)
        return log_proba - logsumexp(log_proba, axis=1, keepdims=True)

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the mixture, (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X) -> np.ndarray:
        """Most probable class of every row, (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(1)]

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes must stay {self.classes_.tolist()!r} as at the first call, "
                f"got {np.unique(classes).tolist()!r}; fit a new estimator for others"
            )

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._validated(X, y, reset=reset)
        y = column_or_1d(y, warn=True)
        check_class_labels(y)
        return X, y

    def _begin(
        self, n_features: int, classes: np.ndarray, seed: int | None = None
    ) -> int:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes, got "
                f"one class only, {classes.tolist()!r}; nothing is left to code"
            )
        seed = self._drawn(seed)
        self._course = self._start(n_features, len(classes), seed)
        self._course.expect(len(classes))
        self._seed = seed
        self.classes_ = classes
        return seed

    def _encoded(self, y: np.ndarray) -> np.ndarray:
        labels = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        strange = self.classes_[labels] != y
        if np.any(strange):
            raise ValueError(
                f"y must hold labels among the classes {self.classes_.tolist()!r}, got "
                f"{np.unique(y[strange]).tolist()!r}; name all at the first call"
            )
        return labels

    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        decoded: np.ndarray = self.classes_[labels]
        return decoded

    def _fingerprint_of(self, labels: np.ndarray) -> str:
        named = np.concatenate([self.classes_, self.classes_[labels]])
        return fingerprint(named.astype(str), "U")
