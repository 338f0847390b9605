"""Measures of how well a detector's scores separate two classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.metrics._references import Floats, checked_count

Interval = tuple[float, float]
FEWEST = 2  # examples of each class required for resampling


class DetectionMeasures(NamedTuple):
    """Measures of a detector's scores, with bootstrap intervals.

    Attributes
    ----------
    n_positive, n_negative : int
    roc_auc : float
        Probability that a positive example has a higher score than a negative example,
        where ties count one half.
    roc_auc_interval : (float, float)
    average_precision : float
    average_precision_interval : (float, float)
    recall : float
        Share of the positive examples at or above the threshold.
    recall_interval : (float, float)
    threshold : float
        The lowest observed score that flags at most a share ``max_fpr`` of the negative
        examples, or infinity if no score does. Scores at the threshold are flagged.
    max_fpr : float
        Largest allowed share of flagged negative examples. With fewer than
        ``1 / max_fpr`` negative examples, no false positive is allowed.
    level : float
        Coverage of each interval.
    """

    n_positive: int
    n_negative: int
    roc_auc: float
    roc_auc_interval: Interval
    average_precision: float
    average_precision_interval: Interval
    recall: float
    recall_interval: Interval
    threshold: float
    max_fpr: float
    level: float

    def __str__(self) -> str:
        """Return a title and one line for each measure."""
        share = f"{self.max_fpr:.2g}"
        precision = self.average_precision, self.average_precision_interval
        rows = [
            ("ROC AUC", self.roc_auc, self.roc_auc_interval),
            ("average precision", *precision),
            (f"recall at {share} false positives", self.recall, self.recall_interval),
        ]
        lines = [
            f"{name:34}{value:.3f}  ({low:.3f} to {high:.3f})"
            for name, value, (low, high) in rows
        ]
        counts = f"{self.n_positive} positive, {self.n_negative} negative"
        title = f"{counts}; {100 * self.level:g}% intervals"
        if self.n_negative * self.max_fpr < 1:
            title += "; too few negatives for one false positive"
        return "\n".join([title, *lines])


def positive_probabilities(
    codelengths: ArrayLike, labels: ArrayLike, pos_label: object = 1
) -> Floats:
    """Return the predicted probability of the positive class for each row.

    ``exp(-codelength)`` is the predicted probability of the observed label. With two
    classes, the probability of the other class is one minus this number.

    Parameters
    ----------
    codelengths : array-like of shape (N,)
        ``codelengths_`` of a switcher that was fitted on two classes, in nats.
    labels : array-like of shape (N,)
        Labels in the same order: ``y[switcher.order_]`` if rows were shuffled.
    pos_label : object, default=1
        The positive class.

    Returns
    -------
    probabilities : ndarray of shape (N,)
        Probability of the positive class, predicted before each label was revealed.

    Raises
    ------
    ValueError
        If the labels do not have exactly two classes, one of them ``pos_label``, or if
        the shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.metrics import positive_probabilities
    >>> positive_probabilities(-np.log([0.9, 0.9]), [1, 0]).round(2)
    array([0.9, 0.1])
    """
    nats, y = np.asarray(codelengths, np.float64), np.asarray(labels)
    classes = np.unique(y)
    if nats.ndim != 1 or nats.shape != y.shape:
        raise ValueError(
            "codelengths and labels must have the same shape (N,), got "
            f"{nats.shape} and {y.shape}; pass codelengths_ and y[switcher.order_]"
        )
    if len(classes) != 2 or pos_label not in classes:
        raise ValueError(
            f"labels must have two classes, one of them {pos_label=}, got "
            f"{classes.tolist()}; pass only rows of two classes, and pos_label=CLASS"
        )
    proba = np.exp(-nats)
    return np.where(y == pos_label, proba, 1 - proba)


def detection_measures(
    is_positive: ArrayLike,
    scores: ArrayLike,
    *,
    max_fpr: float = 0.01,
    level: float = 0.9,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> DetectionMeasures:
    """Measure how well scores detect positive examples, with intervals.

    Pass prequential scores from :func:`positive_probabilities`, or scores of held-out
    rows from ``predict_proba``.

    Parameters
    ----------
    is_positive : array-like of shape (N,), bool
    scores : array-like of shape (N,)
        Higher scores indicate the positive class.
    max_fpr : float, default=0.01
        Largest allowed share of flagged negative examples.
    level : float, default=0.9
        Coverage of each interval.
    n_resamples : int, default=1000
        Number of bootstrap resamples. Positive and negative examples are resampled
        separately, and each resample has its own threshold.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    measures : DetectionMeasures

    Raises
    ------
    ValueError
        If shapes differ, if a score is not finite, if a class has fewer than two
        examples, or if a number is out of range.

    Examples
    --------
    >>> from sklearn_mdl.metrics import detection_measures
    >>> measures = detection_measures([0, 0, 0, 1, 1], [0.1, 0.2, 0.6, 0.5, 0.9])
    >>> round(measures.roc_auc, 3), measures.recall, measures.threshold
    (0.833, 0.5, 0.9)
    """
    y, s = np.asarray(is_positive).astype(bool), np.asarray(scores, np.float64)
    n_resamples = checked_count("n_resamples", n_resamples, 1)
    if (wrong := np.sum(~np.isfinite(s))) or y.ndim != 1 or y.shape != s.shape:
        raise ValueError(
            "is_positive and scores must be finite and have the same shape (N,), got "
            f"shapes {y.shape} and {s.shape} with {wrong} NaN or infinite scores; pass "
            "one finite score for each row"
        )
    for name, value, default in (("max_fpr", max_fpr, 0.01), ("level", level, 0.9)):
        if not 0 < value < 1:
            raise ValueError(
                f"{name} must lie in (0, 1), got {value}; pass {name}={default}"
            )
    positive, negative = np.flatnonzero(y), np.flatnonzero(~y)
    if min(len(positive), len(negative)) < FEWEST:
        raise ValueError(
            f"is_positive must have at least {FEWEST} examples of each class, got "
            f"{len(positive)} True, {len(negative)} False; add rows, or pass y == CLASS"
        )
    rng = np.random.default_rng(random_state)
    times = np.ones((1 + n_resamples, len(y)))
    for rows in (positive, negative):
        chances = np.full(len(rows), 1 / len(rows))
        times[1:, rows] = rng.multinomial(len(rows), chances, n_resamples)
    measured = _measured(y, s, times, max_fpr)
    area, precision, recall, threshold = measured[0].tolist()
    bounds = np.quantile(measured[1:, :3], [(1 - level) / 2, (1 + level) / 2], axis=0)
    around_area, around_precision, around_recall = map(tuple, bounds.T.tolist())
    return DetectionMeasures(
        *(len(positive), len(negative), area, around_area),
        *(precision, around_precision, recall, around_recall),
        *(threshold, float(max_fpr), float(level)),
    )


def _measured(
    y: NDArray[np.bool_], scores: Floats, times: Floats, most: float
) -> Floats:
    """Return ROC AUC, average precision, recall and threshold of each resample, (R, 4).

    Parameters
    ----------
    y, scores : ndarray of shape (n,)
    times : ndarray of shape (R, n)
        Number of times that each resample contains each example.
    most : float
        Largest allowed share of flagged negative examples.
    """
    order = np.argsort(-scores)
    # Equal scores are flagged together, so measure only after the last of them.
    ends = np.flatnonzero(np.diff(scores[order], append=-np.inf))
    counts = times[:, order]
    true = (counts * y[order]).cumsum(1)[:, ends]
    flagged = counts.cumsum(1)[:, ends]
    false = flagged - true
    recall, share = true / true[:, -1:], false / false[:, -1:]
    gained = np.diff(recall, prepend=0.0)
    area = ((recall - 0.5 * gained) * np.diff(share, prepend=0.0)).sum(1)
    precision = (gained * true / np.maximum(flagged, 1.0)).sum(1)
    n_allowed = (share <= most).sum(1)
    rows = np.arange(len(times))
    thresholds = np.concatenate([[np.inf], scores[order][ends]])
    recalls = np.concatenate([np.zeros((len(times), 1)), recall], 1)
    best = recalls[rows, n_allowed], thresholds[n_allowed]
    return np.stack([area, precision, *best], 1)
