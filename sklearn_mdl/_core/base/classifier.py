"""Base class of online classifiers: classes, labels and probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import column_or_1d

from sklearn_mdl._core.base.estimator import OnlineEstimator
from sklearn_mdl._core.io.environment import fingerprint
from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.sklearn_compat import fit_context
from sklearn_mdl._core.stream.outcomes import ClassLabels, OpenClassLabels
from sklearn_mdl._core.validation import (
    GROUPED,
    as_labels,
    check_class_labels,
    invalid,
    is_grouped,
    may_be_real,
    refuse_columns,
    warn_caller,
)
from sklearn_mdl.metrics import PREDICTED, PrequentialMeasures, measure

NONE_NAMED = np.empty(0)


class OnlineClassifier(ClassifierMixin, OnlineEstimator):
    """Base class of classifiers that predict each example before they learn it."""

    classes_: np.ndarray
    new_classes: str = "refuse"

    @fit_context
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Evaluate more rows of the same stream.

        With an integer ``random_state``, the codelengths do not depend on how you split
        a stream into calls. They are bitwise those of a single ``fit`` on all rows in
        that order, without shuffling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur. Required in the first call, optional afterwards.
            With ``new_classes="escape"``, the classes known beforehand, or None.
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`fit`. All rows of a group must be in the same call.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If ``classes`` is missing in the first call or differs later, or if y
            contains other labels. Also if a group occurs again in a later call, and for
            the reasons given in :meth:`fit`.
        """
        known = None
        if hasattr(self, "_run"):
            self._check_classes(classes)
        elif classes is not None:
            known = np.unique(as_labels(classes))
        with warnings.catch_warnings():  # a call may have few rows of many classes
            warnings.filterwarnings("ignore", "The number of unique classes")
            return self._continue(X, y, known, groups)

    def fit_stream(
        self, blocks: Iterable[object], classes: ArrayLike | None = None
    ) -> Self:
        """Fit from scratch: one prequential pass over blocks of rows.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Pairs ``(X, y)`` as for :meth:`partial_fit`, from a generator or a torch
            ``DataLoader``.
        classes : array-like of shape (n_classes,), default=None
            As for :meth:`partial_fit`, since the first block may not contain all
            classes.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is no block, or for the reasons given in :meth:`partial_fit`.
            The estimator keeps what it learned from earlier blocks.
        TypeError
            If a block is not a pair.
        """
        return self._continue_by_blocks(blocks, classes=classes)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict log-probabilities with the mixture under the current posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Natural logarithms. Columns are in the order of ``classes_``.
        """
        log_proba = self._predicted(X)
        log_proba -= logsumexp(log_proba, axis=1, keepdims=True)
        return log_proba

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict probabilities with the mixture under the current posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._decoded(self.predict_log_proba(X).argmax(1))

    @property
    def correct_(self) -> np.ndarray:
        """Mask (n_samples_seen_,) of examples whose class was predicted correctly.

        The prediction is the most probable class before the label was seen. Examples
        are in order of evaluation.
        """
        predicted = self._run.trace.summaries[:, PREDICTED]
        return np.asarray(predicted == self._labels_seen())

    def measures(self, *, n_bins: int = 15) -> PrequentialMeasures:
        """Return accuracy, Brier score and calibration of prequential predictions.

        Every prediction of the mixture was made before its label was seen, so no rows
        need to be held out.

        Parameters
        ----------
        n_bins : int, default=15
            Bins of the expected calibration error.

        Returns
        -------
        measures : PrequentialMeasures
            Includes the codelength and those of two reference codes, in nats.
        """
        given = self._run.trace.summaries, self.codelengths_, self._labels_seen()
        n_classes, n_named = len(self.classes_), self._run.outcome.n_named
        return measure(*given, n_classes=n_classes, n_bins=n_bins, n_named=n_named)

    def _check_classes(self, classes: ArrayLike | None) -> None:
        given = None if classes is None else np.unique(as_labels(classes))
        named = self.classes_[: self._run.outcome.n_named]
        if given is not None and not np.array_equal(given, named):
            required = f"{named.tolist()!r}, the classes of this stream"
            cure = "omit classes, or begin a new stream with clone(estimator)"
            raise invalid("classes", required, given.tolist(), cure)

    def _checked(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        given = as_labels(as_array(y))
        refuse_columns(given, "pass y.argmax(1) if one-hot, or use MultiOutputSwitcher")
        rows, labels = self._validated(X, given, reset=reset)
        labels = column_or_1d(labels, warn=True)
        check_class_labels(labels)
        return rows, labels

    def _classes_of(self, y: np.ndarray) -> np.ndarray:
        if may_be_real(y):
            warn_caller(
                f"y holds {len(np.unique(y))} different whole numbers as floats in "
                f"{len(y)} rows, and each number is treated as a class; fit an "
                "MDLReadoutSwitcherRegressor if they are real numbers, or pass "
                "np.asarray(y, int) if they are classes"
            )
        if self.new_classes == "escape":
            return NONE_NAMED
        return np.asarray(np.unique(y))

    def _outcome(self, classes: np.ndarray | None) -> ClassLabels:
        is_open = self.new_classes == "escape"
        if classes is None and not is_open:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, or to "
                "fit_stream, got None; pass classes=[...] with all possible labels"
            )
        known = NONE_NAMED if classes is None else classes
        if len(known) < 2 and not is_open:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes, got "
                f"only one class, {known.tolist()!r}; add rows of another class, or "
                "in partial_fit pass classes=[...] with all labels that can occur"
            )
        self.classes_ = known
        return OpenClassLabels(len(known)) if is_open else ClassLabels(len(known))

    def _check_labels(self, labels: np.ndarray, keys: np.ndarray | None) -> None:
        if not self.shuffle and is_grouped(labels, keys):
            warn_caller(GROUPED)

    def _encoded(self, y: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
        if self._run.outcome.n_named is not None:
            self.classes_ = joined(self.classes_, y if order is None else y[order])
        by_name = np.argsort(self.classes_)
        labels = np.searchsorted(self.classes_, y, sorter=by_name)
        labels = np.take(by_name, labels.clip(max=len(by_name) - 1))
        unknown = self.classes_[labels] != y
        if np.any(unknown):
            required = f"among the classes {self.classes_.tolist()!r}"
            given = np.unique(y[unknown]).tolist()
            cure = "fit rows of all classes, or pass them all to the first partial_fit"
            raise invalid("Labels in y", required, given, cure)
        return labels

    def _forget_classes(self) -> None:
        self.classes_ = self.classes_[: self._run.outcome.n_numbers]

    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[labels])

    def _fingerprint_of(self, labels: np.ndarray) -> str:
        named = np.concatenate([self.classes_, self.classes_[labels]])
        return fingerprint(named.astype(str), "U")


def joined(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the classes, followed by new classes in y in order of appearance.

    Raises
    ------
    ValueError
        If labels are not of the same type as the classes, or if no type of numbers
        represents all of them.
    """
    classes = classes if len(classes) else y[:0]
    same = {"u": "f", "i": "f", "O": "U"}  # numbers, and texts
    kinds = [same.get(part.dtype.kind, part.dtype.kind) for part in (classes, y)]
    if kinds[0] != kinds[1]:
        known, given = (type(part.tolist()[0]).__name__ for part in (classes, y))
        cure = "pass labels of one type in all calls, for example [str(v) for v in y]"
        raise invalid("New classes", f"{known} like the known ones", given, cure)
    names, firsts = np.unique(y, return_index=True)
    names = names[np.argsort(firsts)]
    if classes.dtype.kind == "U":
        names = names.astype(str)
    elif classes.dtype != names.dtype and kinds[0] == "f":  # floats would merge classes
        joint = as_labels([*classes.tolist(), *names.tolist()], "New classes")
        classes, names = np.split(np.asarray(joint), [len(classes)])
    return np.concatenate([classes, names[~np.isin(names, classes)]])
