r"""Measures of features based on their singular values: LogME and RankMe.

LogME is the evidence of a linear model for one-hot labels. The model is ``y = X w + e``
with ``w ~ N(0, I / alpha)`` and ``e ~ N(0, I / beta)``. So ``y ~ N(0, X X' / alpha
+ I / beta)``. Let ``s_i`` be the ``r`` singular values of ``X``, ``z = U' y`` the
projections on its left singular vectors, and ``l = alpha / beta``. Then

.. math::

    -2 \log p(y) = n \log 2 \pi v + \sum_i \log(s_i^2 + l) + (n - r) \log l
        + \frac{1}{v} \Bigl( \sum_i \frac{z_i^2}{s_i^2 + l}
        + \frac{\|y\|^2 - \|z\|^2}{l} \Bigr), \qquad v = 1 / \alpha .

For a given ``l``, the best ``v`` is the expression in large brackets divided by ``n``.
The best ``l`` is found on a grid and then refined. This search replaces the article's
fixed-point iteration, which may stop before the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import svd, svdvals
from scipy.optimize import minimize_scalar
from sklearn.utils import check_array

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.validation import distinct_classes
from sklearn_mdl.baselines._base import Floats, checked_pair

ALL_ZERO = "X must not be all zero, but is; check the encoder that computed X"
ROUNDING = 1e-7  # the RankMe article's constant for float32

# Logs of the ratio ``l`` to try, relative to the largest squared singular value.
GRID = np.linspace(np.log(1e-10), np.log(1e6), 60)


class LogEvidence(NamedTuple):
    """Evidence of linear models for one class versus the rest.

    Attributes
    ----------
    value : float
        Mean over classes of the log evidence per example, in nats. Higher is better.
        The evidence is a density at zeros and ones, so its log may have either sign and
        is not a codelength of labels.
    by_class : ndarray of shape (n_classes,)
        Log evidence per example of each class.
    alphas, betas : ndarray of shape (n_classes,)
        Precisions of the weights and of the noise that maximise the evidence.
    """

    value: float
    by_class: Floats
    alphas: Floats
    betas: Floats


def log_evidence(X: ArrayLike, y: ArrayLike) -> LogEvidence:
    """Compute LogME, the maximum evidence of linear models for one-hot labels.

    This takes a single singular value decomposition and no training. As in the article,
    features are neither centred nor scaled, although the result depends on both.
    Multiplying all features by the same factor does not change the evidence.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)

    Returns
    -------
    evidence : LogEvidence

    Raises
    ------
    ValueError
        If labels are not classes or have a single class, or if rows are not finite or
        all zero. Also if a linear combination of features reproduces the labels of a
        class exactly, although the rank of X is below the number of examples. The
        evidence is then infinite.

    References
    ----------
    You, Liu, Wang and Long, 2021, LogME: Practical assessment of pre-trained models for
    transfer learning, ICML, section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_mdl.baselines import log_evidence
    >>> X, y = load_wine(return_X_y=True)
    >>> log_evidence(scale(X), y).value > log_evidence(scale(X)[:, :2], y).value
    True
    """
    rows, labels = checked_pair(X, y, np.float64)
    classes = distinct_classes(labels, "log_evidence")
    left, values, _ = svd(rows, full_matrices=False)
    kept = values > values[0] * max(rows.shape) * np.finfo(float).eps
    if not kept.any():
        raise ValueError(ALL_ZERO)
    left, squares = left[:, kept], values[kept] ** 2
    targets = ((labels == label).astype(np.float64) for label in classes)
    maxima = [_maximum(squares, left, target) for target in targets]
    by_class, alphas, betas = np.array(maxima).T
    return LogEvidence(float(by_class.mean()), by_class, alphas, betas)


def _maximum(
    squares: Floats, left: Floats, target: Floats
) -> tuple[float, float, float]:
    """Return log evidence per example, alpha and beta at the optimum.

    Parameters
    ----------
    squares : ndarray of shape (r,)
        Squared singular values.
    left : ndarray of shape (n, r)
        Left singular vectors.
    target : ndarray of shape (n,)
    """
    rank, n = len(squares), len(target)
    z, total = left.T @ target, float(target @ target)
    rest = max(0.0, total - float(z @ z)) if rank < n else 0.0
    if rank < n and rest <= 1e-12 * total:
        raise ValueError(
            f"Features must not predict labels exactly, but {rank} dimensions of X do, "
            "so the evidence has no maximum; add rows, or omit columns that hold labels"
        )

    def variance(ratio: float) -> float:
        return (float(np.sum(z**2 / (squares + ratio))) + rest / ratio) / n

    def minus_evidence(log_ratio: float) -> float:
        ratio = float(np.exp(log_ratio))
        log_det = float(np.log(squares + ratio).sum()) + (n - rank) * log_ratio
        return 0.5 * float(1 + np.log(2 * np.pi * variance(ratio)) + log_det / n)

    grid = GRID + np.log(squares[0])
    best = int(np.argmin([minus_evidence(x) for x in grid]))
    bounds = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    optimum = minimize_scalar(
        minus_evidence, bounds=bounds, method="bounded", options={"xatol": 1e-8}
    )
    ratio = float(np.exp(optimum.x))
    alpha = 1 / variance(ratio)
    return -float(optimum.fun), alpha, alpha / ratio


def rank_me(X: ArrayLike) -> float:
    """Return RankMe, the effective rank of features.

    Let ``s_k`` be the singular values of the features, neither centred nor scaled, and
    ``p_k = s_k / sum_j s_j + 1e-7`` their shares. The rank is ``exp(-sum_k p_k log
    p_k)``. Apart from the effect of 1e-7, it lies between 1 and the smaller dimension
    of X.

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
        If features are not finite numbers or are all zero.

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
        raise ValueError(ALL_ZERO)
    shares = values / values.sum() + ROUNDING
    return float(np.exp(-(shares * np.log(shares)).sum()))
