"""Regressors that walk: labels that are real numbers, and densities of them."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from sklearn_mdl._sklearn import fit_context
from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.codelength import gaussian_codelengths
from sklearn_mdl.conditions import fingerprint
from sklearn_mdl.guards import refuse_weights
from sklearn_mdl.measures import RegressionMeasures, measure_regression
from sklearn_mdl.online.estimator import OnlineEstimator, pairs_of
from sklearn_mdl.prequential import Course, RealTargets, mixture_moments

LARGEST = 1e150  # whose square is still a number


class OnlineRegressor(RegressorMixin, OnlineEstimator):
    """Base of regressors that predict each example before they learn it.

    Subclasses say in ``_start`` which course they walk.
    """

    prior_location: float = 0.0
    prior_scale: float = 1.0
    _all_diverged = (
        "all readouts have diverged and predict what the labels alone suggest since "
        "then, so that the code says little about the features; lower the learning "
        "rates"
    )

    @abstractmethod
    def _start(self, n_features: int, targets: RealTargets, seed: int) -> Course:
        """Make the course for a new stream."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **weights) -> Self:
        """Forget everything, then walk once through the rows in the order given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, taken as float32.
        y : array-like of shape (n_samples,)
            Real labels, taken as float64.
        **weights
            Nothing: every label counts once, since a weighted sum is no codelength.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X or y holds NaN or infinity, y no numbers, or if lengths differ.
        TypeError
            If ``sample_weight`` or anything else comes along.
        """
        refuse_weights(weights, f"{type(self).__name__}.fit")
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=True)
            self._set_out(len(X), X.shape[1], None)
            order = self.order_ if self.shuffle else None
            self._walk(X, y, order, self._checkpoint_of(X, y), told=(X, y))
        self._after_fit()
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y, **weights) -> Self:
        """Walk on over more rows of the same stream.

        How a stream is cut into calls changes nothing: codelengths are those of one
        ``fit`` on all rows, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **weights
            Nothing, as in :meth:`fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As in :meth:`fit`.
        """
        refuse_weights(weights, f"{type(self).__name__}.partial_fit")
        first = not hasattr(self, "_course")
        with self._all_or_nothing():
            X, y = self._checked(X, y, reset=first)
            if first:
                self._begin(X.shape[1], None)
            self._course.check_length(len(X))
        self._walk(X, y)
        return self

    def fit_stream(self, blocks) -> Self:
        """Forget everything, then walk over blocks of rows as they come.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Each as for :meth:`partial_fit`: what a generator yields, or a torch
            ``DataLoader``.

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
        first = next(blocks)
        with self._all_or_nothing():
            self._forget()
            self.partial_fit(*first)
        for X, y in blocks:
            self.partial_fit(X, y)
        return self

    def predict(self, X, return_std=False):
        """Mean of the mixture under the posterior for the next example.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Of the densities' locations.
        std : ndarray of shape (n_samples,)
            Only if ``return_std``: the standard deviation of the mixture; infinite
            where a density has none, with two degrees of freedom or less.
        """
        check_is_fitted(self)
        X = self._checked_rows(X, reset=False)
        course = self._course.learned()
        weights = torch.from_numpy(course.forward.weights)[:, None]
        found = []
        for prediction in course.predictions(X):
            values = prediction.values.cpu()
            moments = mixture_moments(values, weights.expand(values.shape[:2]))
            found.append(torch.stack(moments))
        mean, std = torch.cat(found, 1).numpy()
        return (mean, std) if return_std else mean

    @property
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every example under a Gaussian that learns online, in nats.

        Of shape (n_samples_seen_,): :func:`~sklearn_mdl.gaussian_codelengths`, with the
        same fixed density for the first minibatch.
        """
        targets = cast(RealTargets, self._course.outcome)
        return gaussian_codelengths(
            self._labels_seen(),
            n_first=self._course.batch_size,
            location=targets.location,
            scale=targets.scale,
        )

    def measures(self) -> RegressionMeasures:
        """Errors of the walk's own predictions, beside its codelength.

        Every prediction of the mixture was made before its label was seen, so that no
        row need be held out for them.

        Returns
        -------
        measures : RegressionMeasures
            With the codelength and that of the reference, in nats.
        """
        check_is_fitted(self)
        return measure_regression(
            self._course.trace.digests[:, 0],
            self._labels_seen(),
            self.codelength_,
            float(self.reference_codelengths_.sum()),
            self._course.batch_size,
        )

    def _labels_seen(self) -> np.ndarray:
        seen = self._course.states[0].labels[: self.n_samples_seen_]
        labels: np.ndarray = seen.cpu().numpy()
        return labels

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        with suppress(TypeError):  # what is no array is refused below
            _check_size(np.asarray(as_array(y)))
        X, y = self._validated(X, y, reset=reset)
        labels = _as_numbers(column_or_1d(y, warn=True))
        _check_size(labels)  # also those that came as a column, or as objects
        return X, labels

    def _begin(self, n_features: int, classes: Any, seed: int | None = None) -> int:
        seed = self._drawn(seed)
        targets = RealTargets(float(self.prior_location), float(self.prior_scale))
        self._course = self._start(n_features, targets, seed)
        self._seed = seed
        return seed

    def _encoded(self, y: np.ndarray) -> np.ndarray:
        """Return the labels as they are: none is unknown."""
        return y

    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        return labels

    def _fingerprint_of(self, labels: np.ndarray) -> str:
        return fingerprint(labels, "<f8")


def _as_numbers(labels: np.ndarray) -> np.ndarray:
    """Return a float64 copy, which nobody else changes."""
    with suppress(TypeError, ValueError):
        if labels.dtype.kind not in "mM":  # numpy would count days, or nanoseconds
            return np.array(labels, dtype=np.float64)
    raise ValueError(
        f"y must hold real numbers, got labels of type {labels.dtype}; take a "
        "classifier for classes, and numbers for dates"
    )


def _check_size(labels: np.ndarray) -> None:
    """Refuse labels that are not finite, or whose squares would not be, by place."""
    if labels.dtype.kind not in "fiu" or labels.ndim != 1:
        return
    bad = ~(np.abs(labels.astype(np.float64)) <= LARGEST)
    if bad.any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(labels[row]) else "infinity or a number too large"
        raise ValueError(
            f"y must hold finite numbers of at most {LARGEST:g}, but Input y contains "
            f"{what} in row {row}; drop rows that lack a label"
        )
