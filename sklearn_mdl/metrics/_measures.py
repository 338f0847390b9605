"""Accuracy, Brier score and calibration of a prequential run.

Every prediction of a run is made before its label is revealed, so measures for held-out
predictions apply to all predictions. A run stores three numbers per prediction: the
most probable class, its probability, and the sum of the squared probabilities. The
codelength gives the probability of the observed label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.metrics._escape import blind_codelengths
from sklearn_mdl.metrics._references import (
    Floats,
    checked_count,
    frequency_codelength,
    uniform_codelength,
)

PREDICTED, CONFIDENCE, SQUARES = range(3)  # columns of `summarise`


def summarise(proba: Floats) -> Floats:
    """Summarise each prediction by the three numbers that the measures need.

    Parameters
    ----------
    proba : ndarray of shape (n, C)
        Probabilities of the classes.

    Returns
    -------
    summaries : ndarray of shape (n, 3)
        The most probable class (the first class in a tie), its probability, and the sum
        of the squared probabilities.
    """
    predicted = proba.argmax(1)
    largest = proba[np.arange(len(proba)), predicted]
    return np.column_stack([predicted, largest, np.square(proba).sum(1)])


class PrequentialMeasures(NamedTuple):
    """Measures of a prequential run, whose predictions precede their labels.

    Attributes
    ----------
    n_samples, n_classes : int
    codelength : float
        Codelength of all labels, in nats.
    uniform_codelength : float
        Codelength of the uniform code, ``N log C`` nats.
    frequency_codelength : float
        Codelength of :func:`~sklearn_mdl.frequency_codelength`, in nats. That code
        learns the frequency of each class and ignores the features. If new classes may
        appear, the codelength includes the cost of coding where they first appear.
    accuracy : float
        Share of examples whose label was the most probable class. If several classes
        are equally probable, as before the first minibatch is learned, the first of
        these classes counts.
    balanced_accuracy : float
        Mean recall of the observed classes.
    brier_score : float
        Mean of ``sum_c (p_c - [c = y])^2``, between 0 and 2 (Brier, 1950). For two
        classes, some libraries report half this value.
    expected_calibration_error : float
        See :func:`~sklearn_mdl.metrics.expected_calibration_error`.

    References
    ----------
    Brier, 1950, Verification of forecasts expressed in terms of probability, Monthly
    Weather Review 78. Dawid, 1984, Statistical theory: the prequential approach,
    Journal of the Royal Statistical Society A 147.
    """

    n_samples: int
    n_classes: int
    codelength: float
    uniform_codelength: float
    frequency_codelength: float
    accuracy: float
    balanced_accuracy: float
    brier_score: float
    expected_calibration_error: float

    @property
    def per_example(self) -> float:
        """Nats per example."""
        return self.codelength / self.n_samples

    @property
    def savings_over_uniform(self) -> float:
        """Nats saved relative to the uniform code (negative if that is shorter)."""
        return self.uniform_codelength - self.codelength

    @property
    def savings_over_frequency(self) -> float:
        """Nats saved relative to the frequency code, which ignores the features."""
        return self.frequency_codelength - self.codelength


def measure(
    summaries: Floats,
    codelengths: Floats,
    labels: NDArray[np.intp],
    *,
    n_classes: int,
    n_bins: int,
    n_named: int | None = None,
) -> PrequentialMeasures:
    """Return measures of predictions, each made before its label was revealed.

    Parameters
    ----------
    summaries : ndarray of shape (N, 3)
        As returned by :func:`summarise`.
    codelengths : ndarray of shape (N,)
        Minus log-probabilities of the observed labels, in nats.
    labels : ndarray of shape (N,)
        Encoded labels, ``0, ..., C - 1``.
    n_classes : int
    n_bins : int
        Number of bins of the calibration error.
    n_named : int or None
        Number of classes known before the first row, if new classes may appear. If
        None, all classes are known.

    Returns
    -------
    measures : PrequentialMeasures
    """
    frequency = frequency_codelength(labels, n_classes)
    if n_named is not None:
        frequency = float(blind_codelengths(labels, n_named)[:, 0].sum())
    correct = summaries[:, PREDICTED].astype(np.intp) == labels
    error = expected_calibration_error(summaries[:, CONFIDENCE], correct, n_bins=n_bins)
    brier = 1 - 2 * np.exp(-codelengths) + summaries[:, SQUARES]
    return PrequentialMeasures(
        n_samples=len(labels),
        n_classes=n_classes,
        codelength=float(codelengths.sum()),
        uniform_codelength=uniform_codelength(len(labels), n_classes),
        frequency_codelength=frequency,
        accuracy=float(correct.mean()),
        balanced_accuracy=_mean_recall(correct, labels),
        brier_score=float(brier.mean()),
        expected_calibration_error=error,
    )


class RegressionMeasures(NamedTuple):
    """Measures of a regression run, whose predictions precede their labels.

    Errors are differences between the labels and the mixture's predicted means. The
    first minibatch is left out. If there are no further examples, the measures of error
    are NaN.

    Attributes
    ----------
    n_samples : int
        Number of examples.
    n_measured : int
        Number of examples after the first minibatch.
    codelength : float
        Codelength of all labels, in nats.
    reference_codelength : float
        Sum of :func:`~sklearn_mdl.metrics.gaussian_codelengths`, in nats. That code
        ignores the features.
    root_mean_squared_error, mean_absolute_error : float
        Errors in the units of the labels.
    r2 : float
        One minus the ratio of the mean squared error to the variance of the same
        labels. NaN if these labels are all equal.
    """

    n_samples: int
    n_measured: int
    codelength: float
    reference_codelength: float
    root_mean_squared_error: float
    mean_absolute_error: float
    r2: float

    @property
    def per_example(self) -> float:
        """Nats per example."""
        return self.codelength / self.n_samples

    @property
    def savings_over_reference(self) -> float:
        """Nats saved relative to the reference, which ignores the features.

        Heavy tails, outliers and repeated labels make the reference long, so they save
        nats even if the features are useless.
        """
        return self.reference_codelength - self.codelength


def measure_regression(
    means: Floats, labels: Floats, codelength: float, reference: float, n_first: int
) -> RegressionMeasures:
    """Return measures of the predicted means (N,) of labels (N,).

    The errors leave out the first ``n_first`` predictions.
    """
    errors, seen = (labels - means)[n_first:], labels[n_first:]
    scores = [math.nan] * 3
    if len(seen):
        squared, variance = float(np.square(errors).mean()), float(seen.var())
        r2 = 1 - squared / variance if variance > 0 else math.nan
        scores = [squared**0.5, float(np.abs(errors).mean()), r2]
    return RegressionMeasures(len(labels), len(seen), codelength, reference, *scores)


def _mean_recall(correct: NDArray[np.bool_], labels: NDArray[np.intp]) -> float:
    # scikit-learn's balanced_accuracy_score would warn about predicted classes that
    # were never observed, which are normal in a short stream.
    counts = np.bincount(labels)
    hits = np.bincount(labels, weights=correct)
    return float((hits[counts > 0] / counts[counts > 0]).mean())


def expected_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = 15
) -> float:
    r"""Return the weighted mean gap between confidence and accuracy over bins.

    Confidences are divided into bins of equal width, ``(0, 1/n_bins], ...,
    (1 - 1/n_bins, 1]``. The error is

    .. math::

        \sum_b \frac{n_b}{N} \bigl| \mathrm{accuracy}_b - \mathrm{confidence}_b \bigr| .

    Parameters
    ----------
    confidence : array-like of shape (N,)
        Probabilities of the predicted classes.
    correct : array-like of shape (N,)
        True where the predicted class was observed.
    n_bins : int, default=15
        Number of bins.

    Returns
    -------
    error : float
        Between 0 (calibrated) and 1.

    Raises
    ------
    ValueError
        If the shapes differ or are not (N,) with N at least 1, if a confidence is not a
        probability, or if `n_bins` is not a positive integer.

    References
    ----------
    Naeini, Cooper and Hauskrecht, 2015, Obtaining well calibrated probabilities using
    Bayesian binning, AAAI. Guo, Pleiss, Sun and Weinberger, 2017, On calibration of
    modern neural networks, ICML, Eq. (3).

    Examples
    --------
    >>> from sklearn_mdl.metrics import expected_calibration_error
    >>> expected_calibration_error([1.0, 1.0, 1.0, 1.0], [True, True, True, False])
    0.25
    """
    sure, hits = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    if sure.ndim != 1 or sure.shape != hits.shape or not len(sure):
        raise ValueError(
            "`confidence` and `correct` must have the same non-empty shape (n,), got "
            f"{sure.shape} and {hits.shape}; pass proba.max(1), proba.argmax(1) == y"
        )
    # Rounding errors may make a sum of probabilities exceed 1.
    if not (np.all(sure >= 0) and np.all(sure <= 1 + 1e-9)):
        raise ValueError(
            "`confidence` must hold probabilities between 0 and 1, got "
            f"{sure.min():g} to {sure.max():g}; pass proba.max(axis=1)"
        )
    n_bins = checked_count("n_bins", n_bins, 1)
    bins = np.clip(np.ceil(sure * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, hits - sure)).sum() / len(sure))
