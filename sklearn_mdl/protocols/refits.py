"""A classifier fitted from scratch on parts of the data, and its predictions as a code.

Probabilities are completed and floored as those of
:class:`~sklearn_mdl.RefittedExpert` are, so that no label is impossible.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from sklearn_mdl._sklearn import predict_proba
from sklearn_mdl.experts.draws import has_net, net_draws, seeded
from sklearn_mdl.experts.floor import class_frequencies, complete, floored, spread
from sklearn_mdl.experts.notes import Notes, collected
from sklearn_mdl.probes.standardising import Array, scaled_array, scaler_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CALIBRATED_SHARE = 10  # one row of so many is held out, once there are as many
HEATS = (-4.0, 4.0)  # logarithms of what log-probabilities may be multiplied by


def check_classifier(estimator: Any, caller: str) -> None:
    """Raise TypeError for what cannot be fitted or gives no probabilities."""
    has_all = all(hasattr(estimator, name) for name in ("fit", "predict_proba"))
    if isinstance(estimator, type) or not has_all:
        raise TypeError(
            f"{caller} needs a classifier with fit and predict_proba, got "
            f"{estimator!r}; pass an instance that has both, for example "
            "CalibratedClassifierCV(SVC(), ensemble=False)"
        )


class Refits:
    """Predictions by the last fit, and by class frequencies before there is one.

    Parameters
    ----------
    estimator : classifier
        With ``fit`` and ``predict_proba``; it is copied and stays as it is.
    n_classes : int
    standardise : bool
        Whether features are standardised, by the rows of each fit.
    calibrate : bool
        Whether a tenth of the rows is held out of each fit, and the log-probabilities
        are multiplied by the factor that serves these rows best.
    seed : int
        Stands in where a ``random_state`` of the estimator is None.

    Attributes
    ----------
    notes : Notes
        Exceptions and warnings of the estimator.
    failure : str
        What the last fit raised, or a prediction since; empty if they came through.
    """

    def __init__(
        self,
        estimator: Any,
        n_classes: int,
        *,
        standardise: bool,
        calibrate: bool,
        seed: int,
    ) -> None:
        self.estimator = estimator
        self.blank = seeded(estimator, seed)
        self.is_net = has_net(self.blank)
        self.dtype = np.float32 if self.is_net else np.float64
        self.standardise, self.calibrate, self.seed = standardise, calibrate, seed
        self.counts = np.zeros(n_classes, dtype=np.int64)
        self.known = np.zeros(n_classes, dtype=bool)
        self.fitted: Any = None
        self.scaler: StandardScaler | None = None
        self.heat = 1.0
        self.notes = Notes()
        self.failure = ""

    def refit(self, X: Array, labels: Integers) -> None:
        """Fit on rows (n, d); if that raises, the fit before stays."""
        n_rows = len(labels)
        self.counts = np.bincount(labels, minlength=len(self.counts))
        n_held_out = n_rows // CALIBRATED_SHARE if self.calibrate else 0
        n_learned = n_rows - n_held_out
        scaler = scaler_of(X[:n_learned]) if self.standardise else None
        estimator = clone(self.blank)
        rows = scaled_array(X[:n_learned], scaler, self.dtype)
        self.failure = ""
        try:
            with collected(self.notes, n_rows), net_draws(self.is_net, self.seed):
                estimator.fit(rows, labels[:n_learned])
        except Exception as error:
            self._fail(error)
            return
        self.fitted, self.scaler, self.heat = estimator, scaler, 1.0
        self.known = np.bincount(labels[:n_learned], minlength=len(self.counts)) > 0
        if n_held_out:
            self.heat = self._best_heat(X[n_learned:], labels[n_learned:])

    def _fail(self, error: Exception) -> None:
        self.failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        self.notes.add(type(error), error, int(self.counts.sum()))

    def log_proba(self, X: Array) -> Floats:
        """Log-probabilities (n, C) of rows (n, d), all finite.

        Rows for which the estimator gives no probabilities get the class frequencies.
        """
        if self.fitted is None:
            log_proba: Floats = np.log(class_frequencies(self.counts))
            return np.tile(log_proba, (len(X), 1))
        logits = np.log(self._proba(X))
        if self.heat == 1.0:
            return logits
        heated = np.exp(log_softmax(self.heat * logits, axis=1))
        return np.log(floored(heated, self.counts))

    def warn_of_failure(self, stacklevel: int) -> None:
        """Warn of a last fit or prediction that raised, so many calls up."""
        if self.failure:
            warnings.warn(
                f"The last fit of {self.estimator!r} should have come through and "
                f"predicted, but it raised ({self.failure}), so that an earlier one or "
                "the class frequencies predict in its place; change its settings or "
                "leave it out",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _proba(self, X: Array) -> Floats:
        """Probabilities (n, C) before calibration, none of them zero."""
        n_rows = int(self.counts.sum())
        try:
            with collected(self.notes, n_rows), net_draws(self.is_net, self.seed):
                rows = scaled_array(X, self.scaler, self.dtype)
                given = predict_proba(self.fitted, rows)
            given = spread(given, self.fitted, len(self.counts))
        except Exception as error:
            self._fail(error)
            given = np.tile(class_frequencies(self.counts), (len(X), 1))
            return floored(given, self.counts)
        proba = complete(given, self.known, self.counts)
        lost = np.isnan(proba).any(1)
        if lost.any():
            text = "no probabilities in some rows, which get the class frequencies"
            self.notes.add(UserWarning, text, n_rows)
            proba[lost] = class_frequencies(self.counts)
        return floored(proba, self.counts)

    def _best_heat(self, X: Array, labels: Integers) -> float:
        logits = np.log(self._proba(X))

        def loss(log_heat: float) -> float:
            log_proba = log_softmax(np.exp(log_heat) * logits, axis=1)
            return -float(log_proba[np.arange(len(labels)), labels].mean())

        found = minimize_scalar(loss, bounds=HEATS, method="bounded")
        return float(np.exp(found.x))
