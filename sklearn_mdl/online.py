"""The scikit-learn chores of a classifier that walks: checks, classes, predictions.

Codes are scored by the course; this module turns user data into rows and encoded labels
that a course can walk, and the course's log-probabilities into predictions.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from tqdm import tqdm

from sklearn_mdl._sklearn import check_partial_fit_first_call, fit_context
from sklearn_mdl.prequential import Course

GROUPED = (
    "y should come in no particular order, but it is grouped by class, and the code "
    "pays for that; pass shuffle=True or permute the rows"
)


class OnlineClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers that predict each example before they learn it.

    Subclasses say in ``_start`` which course they walk.
    """

    shuffle = False
    verbose = 0

    @abstractmethod
    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        """Make the course for a new stream."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y) -> Self:
        """Forget everything, then walk once through the rows in the order given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, taken as float32.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X holds NaN or infinity, if lengths differ, if y holds one class only.
        """
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=True)
            classes, labels = np.unique(y, return_inverse=True)
            seed = self._begin(X.shape[1], classes)
            self.order_ = np.arange(len(X))
            if self.shuffle:
                self.order_ = np.random.default_rng(seed).permutation(len(X))
            elif _is_grouped(labels):
                warnings.warn(GROUPED, UserWarning, stacklevel=3)
            self._walk(X[self.order_], labels[self.order_])
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y, classes=None) -> Self:
        """Walk on over more rows of the same stream.

        How a stream is cut into calls changes nothing: codelengths are those of one
        ``fit`` on all rows, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur; required at the first call, optional afterwards.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If ``classes`` is missing at the first call or differs later, if y holds a
            label outside them, and as in :meth:`fit`.
        """
        first = not hasattr(self, "_course")
        with self._all_or_nothing():
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
        X = validate_data(self, X, dtype=np.float32, reset=False)
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

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a stream has begun."""
        return hasattr(self, "_course")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if what it is given is refused."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes must stay {self.classes_.tolist()!r} as at the first call, "
                f"got {np.unique(classes).tolist()!r}; fit a new estimator for others"
            )

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        # A copy, since the stream is read again in replay, long after this call.
        X, y = validate_data(self, X, y, dtype=np.float32, copy=True, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _begin(self, n_features: int, classes: np.ndarray) -> int:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes, got "
                f"one class only, {classes.tolist()!r}; nothing is left to code"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._course = self._start(n_features, len(classes), seed)
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

    def _walk(self, X: np.ndarray, labels: np.ndarray) -> None:
        name = type(self).__name__
        with tqdm(total=len(X), desc=name, unit="row", disable=not self.verbose) as bar:
            for n_rows in self._course.extend(X, labels):
                bar.update(n_rows)

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


def _is_grouped(labels: np.ndarray) -> bool:
    n_runs = 1 + np.count_nonzero(np.diff(labels))
    return bool(n_runs == labels.max() + 1 and len(labels) > 4 * n_runs)


def resolve_device(device: str) -> torch.device:
    """Return the device a name stands for; "auto" takes a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be 'auto' or the name of a torch device, got {device!r}; try "
            "'cpu' or 'cuda'"
        ) from error
