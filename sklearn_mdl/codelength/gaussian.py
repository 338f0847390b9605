"""The reference code for real numbers: a Gaussian that learns online."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]


def gaussian_codelengths(
    y: ArrayLike, *, n_first: int = 32, location: float = 0.0, scale: float = 1.0
) -> Floats:
    r"""Cost of every label under a Gaussian that learns online, in nats.

    The first ``n_first`` labels cost what a fixed Student-t with one degree of freedom
    makes of them. Label ``t`` after them is predicted from all labels before it, by a
    Gaussian of unknown mean and variance under Jeffreys' prior
    :math:`p(\mu, \sigma^2) \propto \sigma^{-2}`: a Student-t with ``n - 1`` degrees of
    freedom, where ``n = t - 1``, about their mean, of scale

    .. math::

        s_n \sqrt{1 + 1 / n}, \qquad
        s_n^2 = \frac{1}{n - 1} \sum_{i \le n} (y_i - \bar y_n)^2 .

    Costs are minus log densities in the units of the labels: those of ``a y + b`` are
    :math:`\log |a|` higher, after the first. They may be negative.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    n_first : int, default=32
        Labels that the fixed density predicts, as it does those of the first minibatch
        of :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`; it goes on as long as all
        labels were equal.
    location, scale : float, default=0.0, 1.0
        Of the fixed Student-t, in the units of the labels.

    Returns
    -------
    codelengths : ndarray of shape (n_samples,)
        In nats.

    Raises
    ------
    ValueError
        If `y` is not one-dimensional or not finite, if `n_first` is not at least 1, or
        `scale` not positive.

    References
    ----------
    Bernardo and Smith, 1994, Bayesian Theory, appendix A.2 (univariate normal,
    reference analysis). Dawid, 1984, Statistical theory: the prequential approach,
    Journal of the Royal Statistical Society A 147.

    Examples
    --------
    >>> from sklearn_mdl import gaussian_codelengths
    >>> gaussian_codelengths([0.0, 1.0, 2.0, 1.5], n_first=2)
    array([1.1447..., 1.8378..., 2.3871..., 1.3179...])
    """
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1 or not np.isfinite(labels).all():
        raise ValueError(
            "`y` must hold finite numbers in shape (n_samples,), got shape "
            f"{labels.shape}{'' if labels.ndim != 1 else ' with NaN or infinity'}; "
            "drop what is missing and give one label per sample"
        )
    if n_first < 1 or not scale > 0:
        raise ValueError(
            "`n_first` must be at least 1 and `scale` positive, got "
            f"n_first={n_first!r} and scale={scale!r}; the first label has nothing to "
            "be predicted from"
        )
    found = _student_t_losses(labels, 1.0, location, scale)
    means, squares = _running_moments(labels)
    counts = np.arange(len(labels))
    learned = (counts >= n_first) & (squares > 0)
    n = counts[learned].astype(np.float64)
    scales = np.sqrt(squares[learned] / (n - 1) * (1 + 1 / n))
    found[learned] = _student_t_losses(labels[learned], n - 1, means[learned], scales)
    return found


def _running_moments(labels: Floats) -> tuple[Floats, Floats]:
    """Mean of the labels before each, and the sum of squares about it (Welford)."""
    means, squares = np.zeros(len(labels)), np.zeros(len(labels))
    mean = total = 0.0
    for t, label in enumerate(labels.tolist()):
        means[t], squares[t] = mean, total
        gap = label - mean
        mean += gap / (t + 1)
        total += gap * (label - mean)
    return means, squares


def _student_t_losses(
    y: Floats, dof: Floats | float, location: Floats | float, scale: Floats | float
) -> Floats:
    squares = np.square((y - location) / scale)
    found: Floats = (
        np.log(scale)
        + gammaln(np.asarray(dof) / 2)
        - gammaln((np.asarray(dof) + 1) / 2)
        + np.log(np.asarray(dof) * math.pi) / 2
        + (np.asarray(dof) + 1) / 2 * np.log1p(squares / dof)
    )
    return found
