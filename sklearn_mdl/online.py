"""The scikit-learn chores of a classifier that walks: checks, classes, predictions.

Codes are scored by the course; this module turns user data into rows and encoded labels
that a course can walk, and the course's log-probabilities into predictions.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sklearn_mdl._sklearn import (
    CallbackSupportMixin,
    FitTasks,
    check_partial_fit_first_call,
    fit_context,
    with_callbacks,
)
from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import GROUPED, check_finite, is_grouped
from sklearn_mdl.conditions import environment_of, fingerprint
from sklearn_mdl.guards import refuse_weights
from sklearn_mdl.leading import lead
from sklearn_mdl.persistence import ENVIRONMENT, Checkpoint, FileMixin
from sklearn_mdl.prequential import Course
from sklearn_mdl.readings import StreamReadings
from sklearn_mdl.samples import is_mapped
from sklearn_mdl.settings import WITHOUT_EFFECT, settings_of

ALL_DIVERGED = (
    "all readouts have diverged and predict uniformly since then, so that the code "
    "says little about the features; lower the learning rates"
)


class OnlineClassifier(
    CallbackSupportMixin, StreamReadings, FileMixin, ClassifierMixin, BaseEstimator
):
    """Base of classifiers that predict each example before they learn it.

    Subclasses say in ``_start`` which course they walk.
    """

    shuffle = False
    verbose = 0
    checkpoint: Any = None

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
        """
        blocks = iter(blocks)
        first = next(blocks, None)
        if first is None:
            raise ValueError(
                "blocks must yield at least one pair (X, y), got none; a generator "
                "that was read before yields nothing more"
            )
        with self._all_or_nothing():
            for name in vars(self).keys() - self.get_params(deep=False).keys():
                if not name.startswith("_skl"):  # callbacks, which are scikit-learn's
                    delattr(self, name)
            self.partial_fit(*first, classes=classes)
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

    def _after_fit(self) -> None:
        """Say what is to be said of a stream that `fit` has walked."""

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a stream has begun."""
        return hasattr(self, "_course")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if what it is given is refused."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, KeyboardInterrupt) and self._has_new(before)):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _has_new(self, before: dict[str, Any]) -> bool:
        """Whether a new stream was left where it can go on."""
        course = self.__dict__.get("_course")
        if course is None or course is before.get("_course"):
            return False
        return bool(course.can_go_on and course.n_scored)

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes must stay {self.classes_.tolist()!r} as at the first call, "
                f"got {np.unique(classes).tolist()!r}; fit a new estimator for others"
            )

    def _validated(self, X: Any, *y: Any, reset: bool) -> Any:
        """Check features, and labels where they come along.

        Memory maps are not converted, which would copy them whole.
        """
        X, *labels = map(as_array, (X, *y))
        left_alone = is_mapped(X) and X.dtype.kind in "fiu"
        with np.errstate(over="ignore"):  # refused below, with its place
            found = validate_data(
                self,
                X,
                *labels,
                dtype=X.dtype if left_alone else np.float32,
                ensure_all_finite=False,
                reset=reset,
            )
        names = getattr(self, "feature_names_in_", None)
        check_finite(found[0] if y else found, names)
        return found

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._validated(X, y, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _checked_rows(self, X: Any, *, reset: bool) -> np.ndarray:
        found: np.ndarray = self._validated(X, reset=reset)
        return found

    def _set_out(self, n_rows: int, n_features: int, classes: np.ndarray) -> None:
        """Begin anew, and settle the order in which all rows will be walked."""
        seed = self._begin(n_features, classes)
        self.order_ = np.arange(n_rows)
        if self.shuffle:
            self.order_ = np.random.default_rng(seed).permutation(n_rows)

    def _begin(
        self, n_features: int, classes: np.ndarray, seed: int | None = None
    ) -> int:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes, got "
                f"one class only, {classes.tolist()!r}; nothing is left to code"
            )
        if seed is None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
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

    def _walk(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray | None = None,
        checkpoint: Checkpoint | None = None,
        told: tuple[Any, Any] | None = None,
    ) -> None:
        course = self._course
        begin = course.begin(X, order)
        if checkpoint is not None:
            checkpoint.resume(course)
        try:
            self._lead(
                labels if order is None else labels[order], begin, checkpoint, told
            )
        finally:
            if hasattr(self, "order_"):
                self.order_ = self.order_[: course.n_scored]
        if course.diverged.all():
            warnings.warn(ALL_DIVERGED, UserWarning, stacklevel=5)

    @with_callbacks
    def _lead(
        self,
        labels: np.ndarray,
        begin: int,
        checkpoint: Checkpoint | None,
        told: tuple[Any, Any] | None,
    ) -> None:
        course = self._course
        lead(
            course,
            torch.from_numpy(labels),
            begin,
            checkpoint=checkpoint,
            tasks=told and FitTasks(self, course.count_segments(), *told),
            desc=type(self).__name__,
            disable=not self.verbose,
        )

    def _checkpoint_of(self, X: np.ndarray, labels: np.ndarray) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "checkpoint needs a random_state that is an integer, got "
                f"{self.random_state!r}, with which a resumed walk would draw other "
                "numbers; pass for example random_state=0"
            )
        about = {
            # The device is part of the environment: another one warns.
            "settings": settings_of(self, WITHOUT_EFFECT | {"device"}),
            "X": {"shape": list(X.shape), "sha256": fingerprint(X, "<f4")},
            "y": fingerprint(self.classes_[labels].astype(str), "U"),
            ENVIRONMENT: environment_of(self._course.device),
        }
        return Checkpoint(Path(self.checkpoint), about)
