"""Are there differences at all? The tests of Friedman and of Iman and Davenport."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import chi2, f, rankdata

from sklearn_mdl.ranking.tables import Floats, check_repeats, checked_scores


@dataclass(frozen=True)
class FriedmanTest:
    """Whether encoders differ at all, over datasets.

    Attributes
    ----------
    statistic : float
        Friedman's chi-square, corrected for ties.
    p_value : float
        Its probability under ``r - 1`` degrees of freedom: an approximation, cautious
        where datasets are few.
    f_statistic : float
        F of Iman and Davenport; infinite where all datasets rank the encoders alike.
    f_p_value : float
        Its probability under ``r - 1`` and ``(r - 1) (N - 1)`` degrees of freedom;
        exact where all datasets rank the encoders alike.
    n_datasets : int
        Number of datasets ``N``.
    n_encoders : int
        Number of encoders ``r``.
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    n_datasets: int
    n_encoders: int


def friedman_test(scores: ArrayLike) -> FriedmanTest:
    """Test whether any encoders differ, before asking which.

    Under the null hypothesis every order of the encoders is as likely as any other on
    each dataset. With ``N`` datasets, ``r`` encoders and ``R_ij`` the rank of encoder
    ``j`` on dataset ``i``, tied encoders sharing the mean of their ranks::

        chi2 = (r - 1) sum_j (sum_i R_ij - N (r + 1) / 2)^2
               / sum_ij (R_ij - (r + 1) / 2)^2
        F    = (N - 1) chi2 / (N (r - 1) - chi2) .

    Without ties the denominator of ``chi2`` is ``N r (r^2 - 1) / 12`` and the formula
    the usual one. Of the two, ``F`` is the less cautious and the better approximation.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder, lower is better. At least 2 datasets
        and 2 encoders.

    Returns
    -------
    test : FriedmanTest
        Both statistics with their p-values.

    Raises
    ------
    ValueError
        If `scores` is not a table of finite numbers, or has one row or one column: one
        dataset cannot tell a difference from chance.

    Notes
    -----
    Where all datasets rank the encoders alike, ``chi2`` is the largest there is and
    ``F`` infinite. Its p-value is then the probability of that agreement itself,
    ``(1 / r!)^(N - 1)`` without ties. Where all encoders tie on all datasets both
    statistics are 0 and both p-values 1.

    References
    ----------
    Demsar, 2006, Section 3.2.2, without ties. Conover, 1999, Practical Nonparametric
    Statistics, 3rd ed., Section 5.8: ties and the case of full agreement.

    Examples
    --------
    >>> test = friedman_test([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> test.statistic, round(test.f_statistic, 3)
    (4.5, 3.857)
    >>> round(friedman_test([[1, 2, 3], [4, 5, 6]]).f_p_value, 3)  # 1 / 3!
    0.167
    """
    table = checked_scores(scores)
    check_repeats(table, "Friedman's test")
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


def _chance_of_agreement(ranks: Floats, n_datasets: int) -> float:
    """Probability that the other datasets rank as the first one does."""
    sizes = np.unique(ranks, return_counts=True)[1]
    log_orders = gammaln(len(ranks) + 1) - gammaln(sizes + 1).sum()
    return math.exp(-(n_datasets - 1) * log_orders)
