"""RankMe, the effective rank of features without labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import svdvals
from sklearn.utils import check_array

from sklearn_mdl._core.numerics import as_array

ROUNDING = 1e-7  # the constant of the article, for float32


def rank_me(X: ArrayLike) -> float:
    """Return the effective rank, the exponential of the entropy of singular values.

    Let ``s_k`` be the singular values of the features, neither centred nor scaled, and
    ``p_k = s_k / sum_j s_j + 1e-7`` their shares. The rank is ``exp(-sum_k p_k log
    p_k)``, which is between 1 and the smaller dimension of X up to rounding.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    rank : float
        Effective number of dimensions.

    Raises
    ------
    ValueError
        If features are not finite numbers, or all zero.

    References
    ----------
    Garrido, Balestriero, Najman and LeCun, 2023, RankMe: Assessing the downstream
    performance of pretrained self-supervised representations by their rank, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.baselines import rank_me
    >>> round(rank_me(np.eye(5)), 3), round(rank_me(np.ones((5, 3))), 3)
    (5.0, 1.0)
    """
    values = svdvals(check_array(as_array(X), dtype=np.float64))
    if not values[0] > 0:
        raise ValueError("X must not be all zero, but is; pass encoder.transform(...)")
    shares = values / values.sum() + ROUNDING
    return float(np.exp(-(shares * np.log(shares)).sum()))
