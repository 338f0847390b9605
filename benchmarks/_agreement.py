"""Agreement between the scores of encoders and their reference scores on a task.

Scores and reference scores are arrays of shape (n_encoders,), where greater is better.
The reference score of an encoder is the highest accuracy of several classifiers on
held-out rows.
"""

import numpy as np
from scipy.stats import kendalltau, t


def tau(scores, truth):
    """Return Kendall's tau-b, or 0 if all scores are equal."""
    value = kendalltau(scores, truth).statistic
    return 0.0 if np.isnan(value) else float(value)


def better_named(scores, truth):
    """Return the share of pairs in which the better encoder has the higher score.

    Equal scores count half. Pairs with equal reference scores are omitted.
    """
    i, j = np.triu_indices(len(truth), 1)
    differs = truth[i] != truth[j]
    agree = np.sign(scores[i] - scores[j]) * np.sign(truth[i] - truth[j])
    return float((0.5 + 0.5 * agree[differs]).mean())


def regret(scores, truth):
    """Return how far the encoder with the highest score is below the best one.

    Compare their reference scores. If several encoders have the highest score, return
    the mean of their differences.
    """
    return float(truth.max() - truth[scores == scores.max()].mean())


def best_of(table):
    """Return each encoder's reference score: the highest mean over rows.

    Parameters
    ----------
    table : ndarray of shape (n_encoders, n_classifiers, n_test)
        For example, whether each prediction is right.

    Returns
    -------
    truth : ndarray of shape (n_encoders,)
    """
    return table.mean(-1).max(-1)


def ceiling(table, n_splits=50):
    """Return the mean tau of reference scores on two random halves of the rows.

    Parameters
    ----------
    table : ndarray of shape (n_encoders, n_classifiers, n_test)
    """
    rng = np.random.default_rng(0)
    taus = []
    for _ in range(n_splits):
        rows = rng.permutation(table.shape[-1])
        halves = np.array_split(rows, 2)
        taus.append(tau(*(best_of(table[..., half]) for half in halves)))
    return float(np.mean(taus))


def interval(values, level=0.9):
    """Return half the width of Student's interval of a mean, or NaN for one value."""
    n = len(values)
    if n < 2:
        return float("nan")
    return float(t.ppf(0.5 + level / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
