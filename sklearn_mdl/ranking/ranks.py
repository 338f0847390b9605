"""Average ranks over datasets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from sklearn_mdl.ranking.tables import checked_scores


def average_ranks(scores: ArrayLike) -> NDArray[np.float64]:
    """Average rank of each encoder over datasets; lower scores rank first.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder, lower is better: codelengths, in one
        unit within each row.

    Returns
    -------
    ranks : ndarray of shape (n_encoders,)
        Mean over datasets of the rank within the dataset, between 1 and n_encoders.
        Tied encoders share the mean of the ranks they occupy.

    Raises
    ------
    ValueError
        If `scores` is not a non-empty table of finite numbers.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 4 (average rank over VTAB).

    Examples
    --------
    >>> average_ranks([[0.8, 1.1, 0.9], [0.5, 0.7, 0.5]])
    array([1.25, 3.  , 1.75])
    """
    ranks: NDArray[np.float64] = rankdata(checked_scores(scores), axis=1).mean(axis=0)
    return ranks
