"""Wilcoxon's signed-rank test for pairs of encoders, with Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, rankdata

from sklearn_mdl.ranking import _pairs
from sklearn_mdl.ranking._results import NamedResult, Pairs

# Up to this number of datasets, p-values are exact.
EXACT_DATASETS = 100

# Logarithms are rounded, so log ratios whose sizes differ by at most this are tied.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseWilcoxon(NamedResult):
    """Results of Wilcoxon's signed-rank test for pairs of encoders.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        First and second encoder of each pair, as columns of the table.
    median_log_ratios : ndarray of shape (n_pairs,)
        Median over datasets of ``log(first / second)``. For example, -0.02 means that
        the first encoder's code is typically about 2 % shorter.
    rank_sums : ndarray of shape (n_pairs, 2)
        For each of the two encoders, the sum of the ranks of the datasets on which its
        code is shorter.
    p_values : ndarray of shape (n_pairs,)
        Two-sided p-values, not corrected for the other pairs.
    adjusted_p_values : ndarray of shape (n_pairs,)
        P-values after Holm's correction. If you claim a difference for all pairs with
        values of at most ``alpha``, the probability of any false claim is at most
        ``alpha``. This does not hold if you chose the pairs by their scores, as with
        `top_k`.
    """

    pairs: Pairs
    median_log_ratios: _pairs.Floats
    rank_sums: _pairs.Floats
    p_values: _pairs.Floats
    adjusted_p_values: _pairs.Floats

    def _columns(self) -> Mapping[str, Sequence[object]]:
        names = ("median_log_ratios", "p_values", "adjusted_p_values")
        columns = self._by_pair(self.pairs, *names)
        return {name.removesuffix("s"): column for name, column in columns.items()}


def pairwise_wilcoxon(
    codelengths: ArrayLike, *, pairs: ArrayLike | None = None, top_k: int | None = None
) -> PairwiseWilcoxon:
    """Test pairs of encoders by the signed ranks of their log codelength ratios.

    A signed-rank test ranks a pair's differences across datasets, so the differences
    need a common scale. Codelength differences have no common scale, since tasks differ
    in their numbers of classes and examples. So this test ranks ``log(first /
    second)``, which is comparable across tasks. In the Nemenyi test, a pair's p-value
    depends on the codelengths of other encoders. Here, only Holm's correction depends
    on them.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders)
        Positive codelengths, in the same unit within each row.
    pairs : array-like of int of shape (n_pairs, 2), optional
        The pairs to compare, as column indices. By default, all pairs of at most 40
        encoders are compared.
    top_k : int, optional
        Only compare the `top_k` encoders with the best average ranks. Ties go to the
        first columns. Holm's correction only counts pairs of these encoders and does
        not account for their selection.

    Returns
    -------
    result : PairwiseWilcoxon
        One entry per pair.

    Raises
    ------
    ValueError
        If `codelengths` is not a table of positive finite numbers, pairs are invalid,
        or there are more than 40 encoders and neither `pairs` nor `top_k` is given.

    Notes
    -----
    Tied log ratios share the mean of their ranks. Log ratios tie if their absolute
    values differ by at most 1e-12. Datasets on which both codes are equally long are
    ranked but count for neither encoder (Pratt, 1959).

    Up to 100 datasets, the p-value is exact, even with ties and zeros. Under the null
    hypothesis, all ``2^n`` combinations of signs of the ``n`` nonzero log ratios are
    equally likely given the ranks. Splitting the ranks of zeros evenly between the two
    encoders (Demsar, 2006) would give the same p-value. For more than 100 datasets, a
    normal distribution approximates the distribution of the rank sum.

    The smallest possible exact p-value is ``2^(1 - n)``. With 4 datasets it is 0.125,
    so no pair can differ significantly at level 0.1. With 15 pairs and Holm's
    correction, this level needs at least 9 datasets.

    References
    ----------
    Wilcoxon, 1945; Pratt, 1959, Remarks on Zeros and Ties in the Wilcoxon Signed Rank
    Procedures, JASA 54; Holm, 1979. Demsar, 2006, Section 3.1.3. Benavoli, Corani and
    Mangili, 2016, Should We Really Use Post-Hoc Tests Based on Mean-Ranks?, JMLR 17
    (on why pairs should be compared separately).

    Examples
    --------
    >>> table = [[0.8, 0.9], [1.1, 1.3], [0.2, 0.3], [0.5, 0.6], [0.9, 0.8]]
    >>> result = pairwise_wilcoxon(table)
    >>> result.rank_sums, result.p_values
    (array([[13.5,  1.5]]), array([0.1875]))
    """
    table = _pairs.checked_codelengths(codelengths)
    chosen = _pairs.checked_pairs(table, pairs, top_k)
    ratios = _pairs.log_ratios(table, chosen)
    ranks = _ranks_of_sizes(ratios)
    sums = [np.where(wins, ranks, 0).sum(1) for wins in (ratios < 0, ratios > 0)]
    rank_sums = np.stack(sums, axis=1)
    test = _exact_p_values if len(table) <= EXACT_DATASETS else _normal_p_values
    p_values = test(ranks, rank_sums)
    return PairwiseWilcoxon(
        pairs=chosen,
        median_log_ratios=np.median(ratios, axis=1),
        rank_sums=rank_sums,
        p_values=p_values,
        adjusted_p_values=holm_adjusted(p_values),
    )


def holm_adjusted(p_values: ArrayLike) -> _pairs.Floats:
    """Adjust the p-values of several tests by Holm's method.

    The smallest of ``m`` p-values is multiplied by ``m``, the next by ``m - 1``, and so
    on. Each result is then replaced by the largest so far, but not by more than 1.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        P-values of the individual tests.

    Returns
    -------
    adjusted : ndarray of shape (n_tests,)
        Adjusted p-values in the order of `p_values`. If you reject all hypotheses with
        values of at most ``alpha``, the probability of any false alarm is at most
        ``alpha``.

    Raises
    ------
    ValueError
        If `p_values` is not a vector of probabilities.

    References
    ----------
    Holm, 1979, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian
    Journal of Statistics 6. Demsar, 2006, Section 3.2.2.

    Examples
    --------
    >>> holm_adjusted([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    given = _pairs.as_floats("p_values", p_values)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        required, cure = "probabilities of shape (n_tests,)", "pass one for each test"
        raise _pairs.invalid("p_values", required, given.tolist(), cure)
    order = np.argsort(given)
    steps = np.arange(len(given), 0, -1) * given[order]
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _ranks_of_sizes(ratios: _pairs.Floats) -> _pairs.Floats:
    """Rank each row's absolute log ratios. Ties share mean ranks, and zeros rank 0."""
    sizes = np.abs(ratios)
    order = np.argsort(sizes)
    steps = np.diff(np.take_along_axis(sizes, order, -1), prepend=0.0)
    levels = np.empty_like(order)
    np.put_along_axis(levels, order, np.cumsum(steps > _ROUNDING, axis=1), axis=1)
    return np.where(levels == 0, 0.0, rankdata(levels, axis=1))


def _exact_p_values(ranks: _pairs.Floats, rank_sums: _pairs.Floats) -> _pairs.Floats:
    """Return two-sided p-values from all possible combinations of signs."""
    # Twice an average rank is an integer.
    doubled = np.sort(np.rint(2 * ranks).astype(np.intp))
    smaller = np.rint(2 * rank_sums.min(axis=1)).astype(np.intp)
    sums = map(_sum_distribution, map(tuple, doubled.tolist()))
    one_sided = np.array([shares[smaller[i]] for i, shares in enumerate(sums)])
    return np.asarray(np.minimum(2 * one_sided, 1.0))


@lru_cache(maxsize=1024)
def _sum_distribution(ranks: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the distribution function of the sum of ranks with a positive sign.

    Ranks are integers, so they must be doubled if some are half-integers.
    """
    mass: _pairs.Floats = np.ones(1)
    for rank in ranks:
        mass = 0.5 * (np.pad(mass, (0, rank)) + np.pad(mass, (rank, 0)))
    return np.cumsum(mass)


def _normal_p_values(ranks: _pairs.Floats, rank_sums: _pairs.Floats) -> _pairs.Floats:
    """Return two-sided p-values from a normal approximation of the rank sum."""
    deviation = np.sqrt((ranks**2).sum(axis=1))
    gap = np.abs(rank_sums[:, 0] - rank_sums[:, 1])
    # Nonzero ranks are at least 1. If all ranks are 0, the gap is also 0.
    return np.asarray(2 * norm.sf(gap / np.maximum(deviation, 1.0)))
