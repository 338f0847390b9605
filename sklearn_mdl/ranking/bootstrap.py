"""How far average ranks move when the datasets are drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from sklearn_mdl.ranking.tables import (
    Floats,
    check_count,
    check_fraction,
    check_repeats,
    checked_scores,
)


@dataclass(frozen=True, eq=False)
class RankIntervals:
    """Average ranks with intervals from resampled datasets.

    Attributes
    ----------
    average_ranks : ndarray of shape (n_encoders,)
        Average rank of each encoder over the datasets given.
    lower, upper : ndarray of shape (n_encoders,)
        Bounds of its percentile interval.
    p_best : ndarray of shape (n_encoders,)
        Share of the resamples in which its average rank is the best; equal ones share.
    level : float
        Share of the resamples between the bounds.
    n_resamples : int
        Number of resamples.
    """

    average_ranks: Floats
    lower: Floats
    upper: Floats
    p_best: Floats
    level: float
    n_resamples: int


def rank_intervals(
    scores: ArrayLike,
    *,
    level: float = 0.9,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> RankIntervals:
    """Bootstrap intervals of average ranks, by resampling datasets.

    The datasets stand for the tasks one might have chosen: each resample draws as many
    of them with replacement, and all encoders keep together. What varies between
    orders of the same data is no such choice: average over orders first.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder, lower is better, averaged over
        orders. At least 2 datasets and 2 encoders.
    level : float, default=0.9
        Level of the intervals, between 0 and 1 exclusive.
    n_resamples : int, default=1000
        Number of resamples.
    random_state : int, Generator or None, default=0
        Seed of the resamples.

    Returns
    -------
    intervals : RankIntervals
        Average ranks, bounds, and the share of resamples that each encoder leads.

    Raises
    ------
    ValueError
        If `scores` is not a table of finite numbers or has one row or one column, or
        another argument is out of range.

    Notes
    -----
    Each interval is for its encoder alone: two that overlap may still differ
    significantly, since encoders are compared on the same datasets. Intervals of a
    percentile bootstrap are too short where datasets are few, and resampling 2 or 3 of
    them says next to nothing.

    Ranks within a dataset do not change with the resample, so all resamples together
    are one matrix product.

    References
    ----------
    Efron and Tibshirani, 1993, An Introduction to the Bootstrap, Section 13.3.

    Examples
    --------
    >>> scores = [[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3], [1, 2, 3]]
    >>> intervals = rank_intervals(scores)
    >>> intervals.average_ranks, intervals.lower, intervals.upper
    (array([1.2, 2. , 2.8]), array([1. , 1.6, 2.4]), array([1.6, 2.4, 3. ]))
    """
    table = checked_scores(scores)
    check_repeats(table, "Resampling of datasets")
    check_fraction("level", level, "give the level of the intervals, such as 0.9")
    check_count("n_resamples", n_resamples, 1, "1000 serve most tables")
    ranks, n_datasets = rankdata(table, axis=1), len(table)
    rng = np.random.default_rng(random_state)
    counts = rng.multinomial(
        n_datasets, np.full(n_datasets, 1 / n_datasets), n_resamples
    )
    resampled = counts @ ranks / n_datasets
    tail = (1 - level) / 2
    lower, upper = np.quantile(resampled, [tail, 1 - tail], axis=0)
    # Sums of ranks are multiples of 1/2, so that equal ones are equal to the last bit.
    leads = resampled == resampled.min(axis=1, keepdims=True)
    return RankIntervals(
        average_ranks=ranks.mean(axis=0),
        lower=lower,
        upper=upper,
        p_best=(leads / leads.sum(axis=1, keepdims=True)).mean(axis=0),
        level=float(level),
        n_resamples=int(n_resamples),
    )
