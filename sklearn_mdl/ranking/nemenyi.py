"""Which average ranks differ: the test of Nemenyi."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import studentized_range

from sklearn_mdl.ranking.tables import check_count, check_fraction

_COUNT = "count the columns or rows of the table of scores"


def nemenyi_critical_difference(
    n_encoders: int, n_datasets: int, alpha: float = 0.1
) -> float:
    """Least difference of average ranks that the Nemenyi test calls significant.

    With ``r`` encoders and ``N`` datasets it is::

        CD = q sqrt(r (r + 1) / (6 N)) ,

    where ``q sqrt(2)`` is the upper `alpha` point of the studentized range of ``r``
    normal means with infinitely many degrees of freedom.

    Parameters
    ----------
    n_encoders : int
        Number of encoders compared ``r``, at least 2.
    n_datasets : int
        Number of datasets ``N``, at least 1.
    alpha : float, default=0.1
        Probability of a false alarm over all pairs, between 0 and 1 exclusive.

    Returns
    -------
    critical_difference : float
        In ranks.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    For 6 encoders and 19 datasets this is 1.571. The paper prints 1.894 because it uses
    the constant of 14 encoders.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 4. Demsar, 2006, Section 3.2.2.

    Examples
    --------
    >>> nemenyi_critical_difference(6, 19)
    1.571...
    """
    scale = _scale(n_encoders, n_datasets)
    check_fraction("alpha", alpha, "give the probability of a false alarm, such as 0.1")
    return float(studentized_range.ppf(1 - alpha, n_encoders, np.inf)) * scale


def nemenyi_p_values(
    differences: ArrayLike, n_encoders: int, n_datasets: int
) -> NDArray[np.float64]:
    """Probability of a difference of average ranks as large as this in any pair.

    Parameters
    ----------
    differences : array-like
        Differences of two average ranks, of either sign.
    n_encoders : int
        Number of encoders ranked, at least 2.
    n_datasets : int
        Number of datasets, at least 1.

    Returns
    -------
    p_values : ndarray of the shape of `differences`
        Already for all pairs together: they need no further correction. Below 1e-9
        they are rounding errors.

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
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    if not np.isfinite(sizes).all():
        raise ValueError(
            f"`differences` must be finite, got {differences!r}; subtract average "
            "ranks of a table without gaps."
        )
    p_values: NDArray[np.float64]
    p_values = studentized_range.sf(sizes / scale, n_encoders, np.inf)
    return p_values


def rank_groups(
    average_ranks: ArrayLike, critical_difference: float
) -> list[tuple[int, ...]]:
    """Return the maximal groups of encoders that their ranks cannot tell apart.

    Any two encoders of a group differ by less than the critical difference, and no
    other encoder could join them. Groups of one are left out. These are the bars of
    Demsar's diagram.

    Parameters
    ----------
    average_ranks : array-like of shape (n_encoders,)
        Average rank of each encoder, without NaN.
    critical_difference : float
        The least significant difference, positive.

    Returns
    -------
    groups : list of tuple of int
        Indices of encoders, best first. The groups may overlap.

    Raises
    ------
    ValueError
        If the ranks are no vector of numbers, or the difference is not positive.

    References
    ----------
    Demsar, 2006, Section 3.2.4.

    Examples
    --------
    >>> rank_groups([3.4, 1.2, 2.0], 1.0)
    [(1, 2)]
    """
    given = np.asarray(average_ranks, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
        raise ValueError(
            "`average_ranks` must be finite and of shape (n_encoders,), n_encoders > "
            f"0, got {given.tolist()!r}; give one rank per encoder."
        )
    if not critical_difference > 0:
        raise ValueError(
            "`critical_difference` must be positive, got "
            f"{critical_difference=}; take it from a Nemenyi test."
        )
    order = np.argsort(given, kind="stable")
    ranks, end = given[order], 0
    groups: list[tuple[int, ...]] = []
    for start, rank in enumerate(ranks):
        # In order of rank a group is a run; one that ends no later than the run before
        # it is a part of it.
        stop = int(np.searchsorted(ranks - rank, critical_difference))
        if stop > max(end, start + 1):
            groups.append(tuple(order[start:stop].tolist()))
            end = stop
    return groups


def _scale(n_encoders: int, n_datasets: int) -> float:
    """Return the difference of average ranks that is one unit of studentized range."""
    check_count("n_encoders", n_encoders, 2, _COUNT)
    check_count("n_datasets", n_datasets, 1, _COUNT)
    return math.sqrt(n_encoders * (n_encoders + 1) / (12 * n_datasets))
