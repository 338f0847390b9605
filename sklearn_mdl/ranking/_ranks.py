"""Average ranks over datasets: the Friedman and Nemenyi tests, and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import chi2, f, rankdata, studentized_range

from sklearn_mdl.ranking import _pairs
from sklearn_mdl.ranking._results import NamedResult

_COUNT = "pass n_encoders=scores.shape[1], at least 2, and n_datasets=scores.shape[0]"


def nemenyi_critical_difference(
    n_encoders: int, n_datasets: int, alpha: float = 0.1
) -> float:
    """Return the smallest difference in average rank that a Nemenyi test detects.

    With ``r`` encoders and ``N`` datasets the critical difference is::

        CD = q sqrt(r (r + 1) / (6 N)) ,

    where ``q sqrt(2)`` is the upper `alpha` point of the studentized range of ``r``
    normal variables with infinitely many degrees of freedom.

    Parameters
    ----------
    n_encoders : int
        Number ``r`` of compared encoders, at least 2.
    n_datasets : int
        Number ``N`` of datasets, at least 1.
    alpha : float, default=0.1
        Approximate probability of any false alarm among all pairs, between 0 and 1
        exclusive.

    Returns
    -------
    critical_difference : float
        Critical difference in ranks.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    For 6 encoders and 19 datasets the result is 1.571. The paper prints 1.894 because
    it uses the constant for 14 encoders.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 4. Demsar, 2006, Section 3.2.2.

    Examples
    --------
    >>> nemenyi_critical_difference(6, 19)
    1.571...
    """
    scale = _scale(n_encoders, n_datasets)
    _pairs.check_fraction("alpha", alpha, "for example, pass alpha=0.1")
    return float(studentized_range.ppf(1 - alpha, n_encoders, np.inf)) * scale


def nemenyi_p_values(
    differences: ArrayLike, n_encoders: int, n_datasets: int
) -> NDArray[np.float64]:
    """Return p-values of differences in average rank, corrected for all pairs.

    Parameters
    ----------
    differences : array-like
        Differences between two average ranks, of either sign.
    n_encoders : int
        Number of ranked encoders, at least 2.
    n_datasets : int
        Number of datasets, at least 1.

    Returns
    -------
    p_values : ndarray of the shape of `differences`
        P-values, corrected for all pairs. Values below 1e-9 are inaccurate.

    Raises
    ------
    ValueError
        If an argument is outside its range, or a difference is not finite.

    References
    ----------
    Demsar, 2006, Section 3.2.2.

    Examples
    --------
    >>> nemenyi_p_values([0.0, 1.571, -2.0], 6, 19).round(3)
    array([1.   , 0.1  , 0.013])
    """
    scale = _scale(n_encoders, n_datasets)
    sizes = np.abs(_pairs.as_floats("differences", differences))
    if not np.isfinite(sizes).all():
        cure = "pass ranks - ranks[0], where ranks = average_ranks(scores)"
        raise _pairs.invalid("differences", "finite", differences, cure)
    return np.asarray(studentized_range.sf(sizes / scale, n_encoders, np.inf))


def rank_groups(
    average_ranks: ArrayLike, critical_difference: float
) -> list[tuple[int, ...]]:
    """Return the maximal groups of encoders without a significant rank difference.

    Any two encoders of a group differ by less than the critical difference, and no
    other encoder could join the group. Groups of one encoder are omitted. The groups
    are the bars of Demsar's diagram.

    Parameters
    ----------
    average_ranks : array-like of shape (n_encoders,)
        Average rank of each encoder.
    critical_difference : float
        Smallest significant difference between two average ranks.

    Returns
    -------
    groups : list of tuple of int
        Indices of encoders, best first. The groups may overlap.

    Raises
    ------
    ValueError
        If the ranks are not a vector of finite numbers, or if the critical difference
        is not positive.

    References
    ----------
    Demsar, 2006, Section 3.2.4.

    Examples
    --------
    >>> rank_groups([3.4, 1.2, 2.0], 1.0)
    [(1, 2)]
    """
    given = _pairs.as_floats("average_ranks", average_ranks)
    if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
        required = "finite and of shape (n_encoders,), n_encoders > 0"
        cure = "pass average_ranks(scores)"
        raise _pairs.invalid("average_ranks", required, given.tolist(), cure)
    if not critical_difference > 0:
        cure = "pass nemenyi_critical_difference(n_encoders, n_datasets)"
        raise _pairs.invalid(
            "critical_difference", "positive", critical_difference, cure
        )
    order = np.argsort(given, kind="stable")
    ranks, end = given[order], 0
    groups: list[tuple[int, ...]] = []
    for start, rank in enumerate(ranks):
        # Sorted by rank, a group is contiguous. If a group ends no later than the
        # previous group, the previous group contains it.
        stop = int(np.searchsorted(ranks - rank, critical_difference))
        if stop > max(end, start + 1):
            groups.append(tuple(order[start:stop].tolist()))
            end = stop
    return groups


def _scale(n_encoders: int, n_datasets: int) -> float:
    """Return the unit in which Nemenyi's test measures rank differences."""
    _pairs.check_count("n_encoders", n_encoders, 2, _COUNT)
    _pairs.check_count("n_datasets", n_datasets, 1, _COUNT)
    return math.sqrt(n_encoders * (n_encoders + 1) / (12 * n_datasets))


@dataclass(frozen=True)
class FriedmanTest:
    """Result of Friedman's test of the hypothesis that no encoders differ.

    Attributes
    ----------
    statistic : float
        Friedman's chi-square, corrected for ties.
    p_value : float
        Approximate p-value of `statistic`, from ``n_encoders - 1`` degrees of freedom.
        It is conservative with few datasets.
    f_statistic : float
        Iman and Davenport's F. Infinite if all datasets give the same ranking.
    f_p_value : float
        Approximate p-value of `f_statistic`, from ``n_encoders - 1`` and ``(n_encoders
        - 1) (n_datasets - 1)`` degrees of freedom. It is exact if all datasets give the
        same ranking.
    n_datasets, n_encoders : int
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    n_datasets: int
    n_encoders: int


def friedman_test(scores: ArrayLike) -> FriedmanTest:
    """Test the hypothesis that no encoders differ, before comparing pairs.

    Under the null hypothesis, all rankings of the encoders are equally likely on each
    dataset. Let ``R_ij`` be the rank of encoder ``j`` of ``r`` on dataset ``i`` of
    ``N``, where tied encoders share the mean of their ranks::

        chi2 = (r - 1) sum_j (sum_i R_ij - N (r + 1) / 2)^2
               / sum_ij (R_ij - (r + 1) / 2)^2
        F    = (N - 1) chi2 / (N (r - 1) - chi2) .

    Without ties, the denominator of ``chi2`` is ``N r (r^2 - 1) / 12``, as in the usual
    formula. The p-value of ``F`` is less conservative and more accurate than that of
    ``chi2``.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder. Lower is better. At least 2 datasets
        and 2 encoders are required.

    Returns
    -------
    test : FriedmanTest
        Both statistics with their p-values.

    Raises
    ------
    ValueError
        If `scores` is not a table of finite numbers, or has a single row or column.

    Notes
    -----
    If all datasets give the same ranking, ``chi2`` has its largest value and ``F`` is
    infinite. The p-value of ``F`` is then the probability that all datasets agree by
    chance, ``(1 / r!)^(N - 1)`` without ties. If all encoders tie on all datasets, both
    statistics are 0 and both p-values are 1.

    References
    ----------
    Demsar, 2006, Section 3.2.2 (no ties). Conover, 1999, Practical Nonparametric
    Statistics, 3rd ed., Section 5.8 (ties and full agreement).

    Examples
    --------
    >>> test = friedman_test([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> test.statistic, round(test.f_statistic, 3)
    (4.5, 3.857)
    >>> round(friedman_test([[1, 2, 3], [4, 5, 6]]).f_p_value, 3)  # 1 / 3!
    0.167
    """
    table = _pairs.checked_scores(scores)
    _pairs.check_repeats(table, "Friedman's test")
    n_datasets, n_encoders = table.shape
    ranks = rankdata(table, axis=1)
    deviations = ranks - (n_encoders + 1) / 2
    spread = (deviations**2).sum()
    largest = n_datasets * (n_encoders - 1)
    between = (deviations.sum(axis=0) ** 2).sum()
    statistic = (n_encoders - 1) * between / spread if spread > 0 else 0.0
    if spread > 0 and (ranks == ranks[0]).all():
        f_statistic, f_p_value = math.inf, _chance_of_agreement(ranks[0], n_datasets)
    else:
        f_statistic = (n_datasets - 1) * statistic / (largest - statistic)
        f_p_value = f.sf(f_statistic, n_encoders - 1, largest - n_encoders + 1)
    return FriedmanTest(
        statistic=float(statistic),
        p_value=float(chi2.sf(statistic, n_encoders - 1)),
        f_statistic=float(f_statistic),
        f_p_value=float(f_p_value),
        n_datasets=n_datasets,
        n_encoders=n_encoders,
    )


def _chance_of_agreement(ranks: _pairs.Floats, n_datasets: int) -> float:
    """Return the probability that all datasets give the same ranking by chance."""
    sizes = np.unique(ranks, return_counts=True)[1]
    log_orders = gammaln(len(ranks) + 1) - gammaln(sizes + 1).sum()
    return math.exp(-(n_datasets - 1) * log_orders)


@dataclass(frozen=True, eq=False, repr=False)
class RankIntervals(NamedResult):
    """Average ranks with intervals from resampled datasets.

    Attributes
    ----------
    average_ranks : ndarray of shape (n_encoders,)
        Average rank of each encoder over the original datasets.
    lower, upper : ndarray of shape (n_encoders,)
        Bounds of each percentile interval.
    p_best : ndarray of shape (n_encoders,)
        Share of the resamples in which the encoder has the best average rank. If k
        encoders tie for the best rank, the resample counts 1/k for each of them.
    level : float
        Share of the resamples between the bounds.
    n_resamples : int
        Number of resamples.
    """

    average_ranks: _pairs.Floats
    lower: _pairs.Floats
    upper: _pairs.Floats
    p_best: _pairs.Floats
    level: float
    n_resamples: int

    def _columns(self) -> Mapping[str, Sequence[object]]:
        return {
            "encoder": self._encoders(range(len(self.average_ranks))),
            "average_rank": self.average_ranks.tolist(),
            **self._values("lower", "upper", "p_best"),
        }


def rank_intervals(
    scores: ArrayLike,
    *,
    level: float = 0.9,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> RankIntervals:
    """Compute bootstrap intervals of average ranks by resampling datasets.

    The datasets are treated as a sample of tasks. Each resample draws datasets with
    replacement, as many as were given, and uses the same draw for all encoders. Orders
    of the same data are not a sample of tasks, so average over orders first.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder, averaged over orders. Lower is better.
        At least 2 datasets and 2 encoders are required.
    level : float, default=0.9
        Share of the resamples between the bounds, between 0 and 1 exclusive.
    n_resamples : int, default=1000
        Number of resamples.
    random_state : int, Generator or None, default=0
        Seed of the resamples.

    Returns
    -------
    intervals : RankIntervals
        Average ranks, bounds of their intervals, and the share of the resamples in
        which each encoder is best.

    Raises
    ------
    ValueError
        If `scores` is not a table of finite numbers, has a single row or column, or if
        another argument is out of range.

    Notes
    -----
    Each interval is for a single encoder. Two encoders with overlapping intervals may
    still differ significantly, since they are compared on the same datasets. Percentile
    intervals are too short with few datasets, and hardly informative with 2 or 3.

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
    table = _pairs.checked_scores(scores)
    _pairs.check_repeats(table, "Resampling of datasets")
    _pairs.check_fraction("level", level, "for example, pass level=0.9")
    _pairs.check_count("n_resamples", n_resamples, 1, "pass n_resamples=1000")
    ranks, n_datasets = rankdata(table, axis=1), len(table)
    rng = np.random.default_rng(random_state)
    chances = np.full(n_datasets, 1 / n_datasets)
    resampled = rng.multinomial(n_datasets, chances, n_resamples) @ ranks / n_datasets
    tail = (1 - level) / 2
    lower, upper = np.quantile(resampled, [tail, 1 - tail], axis=0)
    # Sums of ranks are multiples of 1/2 and thus exact, so equal sums tie.
    p_best = shares_best(resampled)
    average = ranks.mean(axis=0)
    return RankIntervals(average, lower, upper, p_best, float(level), int(n_resamples))


def shares_best(scores: _pairs.Floats) -> _pairs.Floats:
    """Return, for each column, the share of rows that it wins. The lowest score wins.

    If k columns tie for the lowest score, the row counts 1/k for each. If any score is
    NaN, so are all shares.
    """
    best = scores == scores.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # no column wins a row with NaN
        return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))
