"""Base class of online regressors, which predict densities of real-valued labels."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from sklearn_mdl._core.base.estimator import OnlineEstimator
from sklearn_mdl._core.io.environment import fingerprint
from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.sklearn_compat import fit_context
from sklearn_mdl._core.stream.outcomes import RealTargets
from sklearn_mdl._core.stream.units import LEAST_SPREAD
from sklearn_mdl._core.validation import invalid, refuse_columns, warn_caller
from sklearn_mdl.metrics import RegressionMeasures, gaussian_costs, measure_regression

LARGEST = 1e150  # its square is still finite


class OnlineRegressor(RegressorMixin, OnlineEstimator):
    """Base class of regressors that predict each example before they learn it."""

    prior_location: float = 0.0
    prior_scale: float = 1.0
    _once_diverged = "without features"

    @fit_context
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> Self:
        """Evaluate more rows of the same stream.

        With an integer ``random_state``, the codelengths do not depend on how you split
        a stream into calls. They are bitwise those of a single ``fit`` on all rows in
        that order, without shuffling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`fit`. All rows of a group must be in the same call.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a group occurs again in a later call, or for the reasons given in
            :meth:`fit`.
        """
        return self._continue(X, y, groups=groups)

    def fit_stream(self, blocks: Iterable[object]) -> Self:
        """Fit from scratch: one prequential pass over blocks of rows.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Pairs ``(X, y)`` as for :meth:`partial_fit`, from a generator or a torch
            ``DataLoader``.

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
        return self._continue_by_blocks(blocks)

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of the mixture under the current posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Weighted mean of the locations of all densities.
        std : ndarray of shape (n_samples,)
            Standard deviation of the mixture, only if ``return_std``. It is infinite if
            a density of positive weight has at most two degrees of freedom.
        """
        mean, std = self._predicted(X).T
        return (mean, std) if return_std else mean

    @property
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every example under a Gaussian that learns online, in nats.

        An array of shape (n_samples_seen_,), computed by
        :func:`~sklearn_mdl.metrics.gaussian_codelengths`. The Gaussian first learns
        after two labels if a readout learns row by row, as kernels do, and otherwise
        after the first minibatch. Until then, labels are coded with the same fixed
        density as under the readouts. The labels of a group are learned once all rows
        of the group are coded.
        """
        targets = cast(RealTargets, self._run.outcome)
        n_first = 2 if self._run.learns_by_row else self._run.rows.first
        labels = self._labels_seen()
        known = self._run.schedule.groups(0, len(labels))
        return gaussian_costs(labels, known, n_first, targets.location, targets.scale)

    def measures(self) -> RegressionMeasures:
        """Return errors of the prequential predictions.

        Every prediction of the mixture was made before its label was seen, so no rows
        need to be held out.

        Returns
        -------
        measures : RegressionMeasures
            Includes the codelengths of the mixture and of the reference, in nats.
        """
        predicted, n_first = self._run.trace.summaries[:, 0], self._run.rows.first
        nats = self.codelength_, float(self.reference_codelengths_.sum())
        return measure_regression(predicted, self._labels_seen(), *nats, n_first)

    def _checked(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        with suppress(TypeError):  # invalid labels raise an error below
            _check_size(np.asarray(as_array(y)))
        refuse_columns(as_array(y), "fit a regressor to each column, such as y[:, 0]")
        rows, given = self._validated(X, y, reset=reset)
        labels = _as_numbers(column_or_1d(given, warn=True))
        _check_size(labels)  # again, for columns and objects
        return rows, labels

    def _outcome(self, classes: np.ndarray | None) -> RealTargets:
        return RealTargets(float(self.prior_location), float(self.prior_scale))

    def _check_labels(self, labels: np.ndarray, keys: np.ndarray | None) -> None:
        middle = np.median(labels)
        count = np.count_nonzero(labels == middle)
        if count > max(20, len(labels) / 2):
            warn_caller(
                f"y is {middle:g} in {count} of {len(labels)} rows, so even useless "
                "features may save nats over the reference; compare the codelength "
                "with that of permuted rows"
            )

    def _encoded(self, y: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
        """Return the labels as given."""
        return y

    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        return labels

    def _fingerprint_of(self, labels: np.ndarray) -> str:
        return fingerprint(labels, "<f8")


def _as_numbers(labels: np.ndarray) -> np.ndarray:
    """Return a float64 copy, so later changes by the caller have no effect."""
    if labels.dtype.kind in "mM":  # dates would become counts of nanoseconds
        cure = "for example, pass (y - y.min()) / np.timedelta64(1, 'D')"
        raise invalid("y", "real numbers", labels.dtype.name, cure)
    with suppress(TypeError, ValueError):
        return np.array(labels, dtype=np.float64)
    cure = "for classes use MDLReadoutSwitcher()"
    raise invalid("y", "real numbers", labels.tolist(), cure)


def _check_size(labels: np.ndarray) -> None:
    """Raise if labels are not finite, or if the largest is too small or too large."""
    if labels.dtype.kind not in "fiu" or labels.ndim != 1:
        return
    largest = float(np.abs(labels).max(initial=0.0))
    if 0 < largest < LEAST_SPREAD:
        required = f"all zero, or reach {LEAST_SPREAD:g} in absolute value"
        raise invalid("y", required, largest, "for example, pass 1e300 * y")
    bad = ~(np.abs(labels.astype(np.float64)) <= LARGEST)
    if bad.any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(labels[row]) else "infinity or a number too large"
        cure = "drop such rows"
        cure = "for example, pass 1e-160 * y" if np.isfinite(labels[row]) else cure
        raise ValueError(
            f"y must hold finite numbers from -{LARGEST:g} to {LARGEST:g}, but Input y "
            f"contains {what} in row {row}; {cure}"
        )
