"""Log-losses of classifiers that are fitted from scratch on parts of the data.

Probabilities are mixed with class frequencies as in
:class:`~sklearn_mdl.RefitReadout`, so no label has probability zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from sklearn_mdl import readouts
from sklearn_mdl._core.validation import check_class_labels, invalid, warn_caller
from sklearn_mdl.baselines._base import (
    Array,
    Floats,
    Integers,
    Part,
    Seed,
    checked_pair,
    scaled_array,
    scaler_of,
)

CALIBRATED_SHARE = 10  # one row in ten is held out, if there are at least ten
LOG_SCALES = (-4.0, 4.0)  # bounds on the log of the factor for log-probabilities


def check_classifier(estimator: object, caller: str) -> None:
    """Raise TypeError unless given an instance with ``fit`` and ``predict_proba``."""
    has_all = all(hasattr(estimator, name) for name in ("fit", "predict_proba"))
    if isinstance(estimator, type) or not has_all:
        raise TypeError(
            f"{caller} needs a classifier with fit and predict_proba, got {estimator!r}"
            "; pass an instance, for example CalibratedClassifierCV(SVC()) for SVC()"
        )


class Refits(readouts.IsolatedClassifier):
    """Classifier that is refitted from scratch and predicts with its last valid fit.

    Before the first valid fit, it predicts class frequencies.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``fit`` and ``predict_proba``, which is copied and not
        modified.
    n_classes : int
    seed : int
        Seed of the estimator if its ``random_state`` is None.
    standardise : bool, default=True
        Standardise features with the rows of each fit.
    calibrate : bool, default=False
        Hold out a tenth of the rows of each fit, and multiply the log-probabilities by
        the factor with the lowest loss on these rows.

    Attributes
    ----------
    complaints : Notes
        Distinct exceptions and warnings of the estimator.
    fault : str
        Exception of the last fit or of a later prediction. Empty if there was none.
    """

    def __init__(
        self,
        estimator: ClassifierMixin,
        n_classes: int,
        seed: int,
        standardise: bool = True,
        calibrate: bool = False,
    ) -> None:
        super().__init__(estimator, n_classes, seed)
        self.estimator = estimator
        self.standardise, self.calibrate = standardise, calibrate
        self.scaler: StandardScaler | None = None
        self.logit_scale = 1.0

    def losses(self, X: Array, labels: Integers) -> Floats:
        """Return the log-losses (n,) of rows (n, d) under the last valid fit."""
        return -self.log_proba(X)[np.arange(len(labels)), labels]

    def refit(self, X: Array, labels: Integers) -> None:
        """Fit on rows (n, d), or keep the previous fit if fitting raises."""
        n_rows = len(labels)
        self.counts = np.bincount(labels, minlength=len(self.counts))
        n_held_out = n_rows // CALIBRATED_SHARE if self.calibrate else 0
        n_learned = n_rows - n_held_out
        scaler = scaler_of(X[:n_learned]) if self.standardise else None
        estimator = clone(self.blank)
        rows = scaled_array(X[:n_learned], scaler, self.dtype)
        if not self.attempt(estimator.fit, rows, labels[:n_learned]):
            return
        self.fitted, self.scaler, self.logit_scale = estimator, scaler, 1.0
        self.known = np.bincount(labels[:n_learned], minlength=len(self.counts)) > 0
        if n_held_out:
            self.logit_scale = self._best_scale(X[n_learned:], labels[n_learned:])

    def log_proba(self, X: Array) -> Floats:
        """Return finite log-probabilities (n, C) of rows (n, d).

        Rows for which the estimator gives no probabilities get the class frequencies.
        """
        if self.fitted is None:
            return np.tile(np.log(readouts.class_frequencies(self.counts)), (len(X), 1))
        logits = np.log(self._proba(X))
        if self.logit_scale == 1.0:
            return logits
        scaled = np.exp(log_softmax(self.logit_scale * logits, axis=1))
        return np.log(readouts.floored(scaled, self.counts))

    def warn_of_failure(self) -> None:
        """Warn if the last fit or prediction raised."""
        if self.fault:
            warn_caller(
                f"{self.estimator!r} failed ({self.fault}), so an earlier fit or class "
                "frequencies were used; fix its settings, or if it rejects negative "
                "features, put MinMaxScaler(clip=True) before it in a pipeline"
            )

    def _proba(self, X: Array) -> Floats:
        """Return positive probabilities (n, C) before calibration."""
        frequencies = readouts.class_frequencies(self.counts)
        try:
            with self.isolated():
                rows = scaled_array(X, self.scaler, self.dtype)
            given = self.probabilities(rows)
            proba = readouts.complete(given, self.known, self.counts)
        except Exception as error:
            self.fault = self.complain(error)
            proba = np.tile(frequencies, (len(X), 1))
        missing = np.isnan(proba).any(1)
        if missing.any():
            text = "no probabilities for some rows, which get the class frequencies"
            self.complaints.add(UserWarning, text, int(self.counts.sum()))
            proba[missing] = frequencies
        return readouts.floored(proba, self.counts)

    def _best_scale(self, X: Array, labels: Integers) -> float:
        logits = np.log(self._proba(X))

        def loss(log_logit_scale: float) -> float:
            log_proba = log_softmax(np.exp(log_logit_scale) * logits, axis=1)
            return -float(log_proba[np.arange(len(labels)), labels].mean())

        optimum = minimize_scalar(loss, bounds=LOG_SCALES, method="bounded")
        return float(np.exp(optimum.x))


N_SIZES = 12


class SubsampledLosses(NamedTuple):
    """Mean loss on test rows as a function of the number of labels learned.

    Attributes
    ----------
    sizes : ndarray of shape (M,)
        Numbers of labels learned.
    losses : ndarray of shape (M,)
        Mean log-loss per test row, averaged over repeats, in nats.
    by_repeat : ndarray of shape (n_repeats, M)
        Mean log-loss per test row in each repeat, in nats.
    """

    sizes: Integers
    losses: Floats
    by_repeat: Floats


def subsampled_losses(
    estimator: ClassifierMixin,
    train: Part,
    test: Part,
    *,
    sizes: ArrayLike | None = None,
    n_repeats: int = 5,
    random_state: Seed = None,
) -> SubsampledLosses:
    """Measure a classifier's test loss against the number of train rows.

    :func:`~sklearn_mdl.metrics.surplus_description_length` and
    :func:`~sklearn_mdl.metrics.sample_complexity` take the ``losses`` and ``sizes`` of
    this curve. For a switcher, pass its ``codelengths_`` to these functions instead,
    which takes no further fits.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``fit`` and ``predict_proba``, which is copied. As in
        :class:`~sklearn_mdl.baselines.BlockwiseCode`, features are standardised with
        the rows of each fit, and no label has probability zero.
    train, test : (X, y)
        Features of shape (n, d) and labels of shape (n,). Subsamples are drawn from the
        train part without replacement, and are nested within a repeat.
    sizes : array-like of int of shape (M,), default=None
        Increasing sizes. If None, use at most 12 sizes in geometric progression, from 1
        to the number of train rows.
    n_repeats : int, default=5
        Number of times to draw the subsamples.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    losses : SubsampledLosses

    Raises
    ------
    TypeError
        If the estimator has no ``fit`` or no ``predict_proba``.
    ValueError
        If sizes are not increasing integers between 1 and the number of train rows, if
        `n_repeats` is below 1, or if train and test rows have different widths. Also if
        rows are not finite numbers or train labels are not classes.

    Warns
    -----
    UserWarning
        If the last fit of a repeat or its predictions failed. Losses are then those of
        an earlier fit or of class frequencies.

    References
    ----------
    Whitney et al., 2020, Evaluating representations by the complexity of learning
    low-loss predictors, arXiv:2009.07368, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_mdl.baselines import subsampled_losses
    >>> from sklearn_mdl.metrics import sample_complexity
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    >>> curve = subsampled_losses(GaussianNB(), *parts, random_state=0)
    >>> sample_complexity(curve.losses, 2.5, sizes=curve.sizes).is_bound
    False
    """
    check_classifier(estimator, "subsampled_losses")
    (X, y), (X_test, y_test) = checked_pair(*train), checked_pair(*test)
    widths = [X.shape[1], X_test.shape[1]]
    if widths[0] != widths[1]:
        cure = "pass encoder.transform(X) of the same encoder"
        raise invalid("Rows of train and test", "of equal width", widths, cure)
    check_class_labels(y)
    X_test = X_test[np.arange(len(X_test))]  # into memory, like the rows of a fit
    classes, places = np.unique(np.concatenate([y, y_test]), return_inverse=True)
    labels, test_labels = places[: len(y)], places[len(y) :]
    counts = _checked_sizes(sizes, len(y))
    if n_repeats < 1:
        raise invalid("n_repeats", "at least 1", n_repeats, "pass n_repeats=5")
    rng = check_random_state(random_state)
    by_repeat, failed = np.empty((n_repeats, len(counts))), None
    for repeat in range(n_repeats):
        order = rng.permutation(len(y))
        refits = Refits(estimator, len(classes), int(rng.randint(2**31 - 1)))
        for i, size in enumerate(counts.tolist()):
            refits.refit(X[order[:size]], labels[order[:size]])
            by_repeat[repeat, i] = refits.losses(X_test, test_labels).mean()
        failed = refits if refits.fault else failed
    if failed is not None:
        failed.warn_of_failure()
    return SubsampledLosses(counts, by_repeat.mean(0), by_repeat)


def _checked_sizes(sizes: ArrayLike | None, n_rows: int) -> Integers:
    if sizes is None:
        return np.unique(np.rint(np.geomspace(1, n_rows, N_SIZES)).astype(np.int64))
    array = np.asarray(sizes)
    whole = array.ndim == 1 and array.dtype.kind in "iu" and array.size > 0
    if not whole or np.any(np.diff(array, prepend=0) <= 0) or array[-1] > n_rows:
        required = f"increasing integers from 1 to {n_rows}, the number of train rows"
        raise invalid("sizes", required, sizes, "pass sizes=None for the default")
    return array.astype(np.int64)
