"""Reference codes for labels, and the difference between two codes.

A codelength means little by itself, so compare it with two reference codes that ignore
the features. The uniform code costs ``log C`` nats per label. The frequency code learns
the frequency of each class. Only the saving relative to these codes is due to the
representation. For real labels, the reference code is a Gaussian that learns the mean
and variance of the labels. All codelengths are in nats.

A code's regret relative to another code is the running difference of their
codelengths, as in the figures of the paper (Li, Bornschein and Hutter, 2023, Evaluating
Representations with Readout Model Switching, ICLR).
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def uniform_codelength(n_samples: int, n_classes: int) -> float:
    """Return the cost of labels under the uniform code: ``N log C`` nats.

    Parameters
    ----------
    n_samples : int
        Number of labels ``N``.
    n_classes : int
        Number of classes ``C``, at least 1.

    Returns
    -------
    codelength : float
        Codelength in nats.

    Raises
    ------
    ValueError
        If `n_samples` is not an integer of at least 0, or `n_classes` is not an integer
        of at least 1.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 2 (Minimum Description Length).

    Examples
    --------
    >>> uniform_codelength(100, n_classes=2)
    69.31...
    """
    n_samples = checked_count("n_samples", n_samples, 0)
    return n_samples * math.log(checked_count("n_classes", n_classes, 1))


def frequency_codelength(y: ArrayLike, n_classes: int | None = None) -> float:
    """Return the cost of labels under the adaptive Krichevsky-Trofimov code, in nats.

    Label ``t`` is predicted from the counts ``n_c`` of each class among the previous
    labels::

        p(y_t = c | y_{<t}) = (n_c + 1/2) / (t - 1 + C/2) .

    The codelength is the sum of ``-log p(y_t | y_{<t})``. It does not depend on the
    order of the labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any sortable type.
    n_classes : int, optional
        Number of classes ``C``, at least the number of distinct labels. By default, the
        code uses the number of distinct labels, as if this number were known in
        advance.

    Returns
    -------
    codelength : float
        Codelength in nats, which is 0 without labels or with a single class.

    Raises
    ------
    ValueError
        If `y` is not one-dimensional or has missing labels. Also if `n_classes` is not
        an integer or is smaller than the number of distinct labels.

    References
    ----------
    Krichevsky and Trofimov, 1981, The performance of universal encoding, IEEE
    Transactions on Information Theory 27. Li, Bornschein and Hutter, 2023, Section 2
    (prequential codes).

    Examples
    --------
    >>> frequency_codelength(["dog", "dog", "cat"])
    2.77...
    """
    _, counts, n_classes = _labels(y, n_classes)
    # In any order, the k-th example of a class follows k - 1 examples of that class.
    numerators = sum(float(np.log(np.arange(n) + 0.5).sum()) for n in counts)
    return float(np.log(np.arange(counts.sum()) + n_classes / 2).sum()) - numerators


def frequency_codelengths(y: ArrayLike, n_classes: int | None = None) -> Floats:
    """Return the cost of each label under the Krichevsky-Trofimov code, in nats.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    n_classes : int, optional
        As for :func:`frequency_codelength`, which returns the sum of the costs.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | y_{<t})`` of each label, in nats.

    Raises
    ------
    ValueError
        For the reasons given in :func:`frequency_codelength`.

    Examples
    --------
    >>> frequency_codelengths(["dog", "dog", "cat"])
    array([0.693..., 0.287..., 1.791...])
    """
    codes, counts, n_classes = _labels(y, n_classes)
    firsts = np.cumsum(counts) - counts
    earlier = np.empty(codes.size)
    places = np.arange(codes.size)
    earlier[np.argsort(codes, kind="stable")] = places - np.repeat(firsts, counts)
    return np.asarray(np.log(places + n_classes / 2) - np.log(earlier + 0.5))


def regret(codelengths: ArrayLike, reference: ArrayLike) -> Floats:
    """Return the running difference between two codes of the same labels.

    Parameters
    ----------
    codelengths : array-like of shape (N,)
        Cost of each label under the first code, in nats. Plus infinity is allowed.
    reference : array-like of shape (N,)
        Cost of each label under the reference code, in nats. Costs must be finite.

    Returns
    -------
    regret : ndarray of shape (N,)
        ``regret[i] = sum_{j <= i} (codelengths[j] - reference[j])``, in nats. Negative
        values mean that the reference code is longer so far.

    Raises
    ------
    ValueError
        If the shapes differ or are not (N,), or if a value is out of range.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.6 (regret between two switching priors).

    Examples
    --------
    >>> regret([1.0, 0.5, 0.25], [0.5, 0.5, 0.5])
    array([0.5 , 0.5 , 0.25])
    """
    nats = np.asarray(codelengths, dtype=np.float64)
    base = np.asarray(reference, dtype=np.float64)
    if nats.ndim != 1 or nats.shape != base.shape:
        raise ValueError(
            "`codelengths` and `reference` must both have shape (n_samples,), got "
            f"{nats.shape} and {base.shape}; pass codelengths_ of both runs"
        )
    if np.isnan(nats).any() or np.isneginf(nats).any() or not np.isfinite(base).all():
        raise ValueError(
            "`codelengths` must be finite or plus infinity and `reference` finite, got "
            f"values from {nats.min()} to {nats.max()} and from {base.min()} to "
            f"{base.max()}; pass only rows with finite costs"
        )
    return np.cumsum(nats - base)


def _labels(
    y: ArrayLike, n_classes: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Return labels as integers from 0, the class counts, and the number of classes."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        cure = "pass y.ravel() for one column, or y.argmax(1) for one-hot labels"
        raise invalid("y", "of shape (n_samples,)", labels.shape, cure)
    given = labels.tolist() if labels.dtype.kind in "fO" else []
    if missing := [label for label in given if label is None or label != label]:
        raise invalid("y", "without missing labels", missing[0], "omit missing labels")
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    least = max(1, counts.size)
    n_classes = least if n_classes is None else n_classes
    return codes, counts, checked_count("n_classes", n_classes, least)


def encoded(y: ArrayLike, n_classes: int | None) -> tuple[list[int], int]:
    """Return labels as integers from 0, and the number of classes of the code."""
    codes, _, n_classes = _labels(y, n_classes)
    return codes.tolist(), n_classes


def checked_count(name: str, value: int, least: int) -> int:
    """Return `value` as an int, or raise unless it is an integer >= `least`."""
    if not isinstance(value, Integral) or value < least:
        required = f"an integer of at least {least}"
        raise invalid(name, required, value, f"pass {name}={least} or more")
    return int(value)


def invalid(name: str, required: str, given: object, cure: str) -> ValueError:
    """Return the error for an invalid argument."""
    return ValueError(f"`{name}` must be {required}, got {given!r}; {cure}")


def gaussian_codelengths(
    y: ArrayLike, *, n_first: int = 32, location: float = 0.0, scale: float = 1.0
) -> Floats:
    r"""Return the cost of each label under a Gaussian that learns online, in nats.

    A fixed Student-t with one degree of freedom predicts the first ``n_first`` labels.
    Each later label is predicted from all previous labels by a Gaussian of unknown mean
    and variance, with Jeffreys' prior :math:`p(\mu, \sigma^2) \propto \sigma^{-2}`. For
    label ``t``, with ``n = t - 1``, the prediction is a Student-t around the mean of
    the previous labels, with ``n - 1`` degrees of freedom and scale

    .. math::

        s_n \sqrt{1 + 1 / n}, \qquad
        s_n^2 = \frac{1}{n - 1} \sum_{i \le n} (y_i - \bar y_n)^2 .

    Costs are minus log densities in the units of the labels, so they may be negative.
    If you replace ``y`` by ``a y + b``, each cost under the learned Gaussian changes by
    :math:`\log |a|`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    n_first : int, default=32
        Number of labels that the fixed density predicts. This density also predicts
        later labels as long as all previous labels are equal.
    location, scale : float, default=0.0, 1.0
        Location and scale of the fixed Student-t, in the units of the labels.

    Returns
    -------
    codelengths : ndarray of shape (n_samples,)
        Costs in nats.

    Raises
    ------
    ValueError
        If `y` is not one-dimensional or not finite, if `n_first` is less than 1, or if
        `location` is not finite or `scale` not positive and finite.

    References
    ----------
    Bernardo and Smith, 1994, Bayesian Theory, appendix A.2 (univariate normal,
    reference analysis). Dawid, 1984, Statistical theory: the prequential approach,
    Journal of the Royal Statistical Society A 147.

    Examples
    --------
    >>> from sklearn_mdl.metrics import gaussian_codelengths
    >>> gaussian_codelengths([0.0, 1.0, 2.0, 1.5], n_first=2)
    array([1.1447..., 1.8378..., 2.3871..., 1.3179...])
    """
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1 or not np.isfinite(labels).all():
        raise ValueError(
            "`y` must hold finite numbers in shape (n_samples,), got shape "
            f"{labels.shape}{'' if labels.ndim != 1 else ' with NaN or infinity'}; "
            "pass one number per sample, for example y[np.isfinite(y)]"
        )
    if n_first < 1 or not (0 < scale < math.inf and math.isfinite(location)):
        raise ValueError(
            "`n_first` must be 1 or more, `location` finite and 0 < `scale` < inf, got "
            f"{n_first=}, {location=}, {scale=}; for example, pass 32, 0.0 and 1.0"
        )
    return gaussian_costs(labels, np.arange(len(labels)), n_first, location, scale)


def gaussian_costs(
    labels: Floats, known: NDArray[np.intp], n_first: int, location: float, scale: float
) -> Floats:
    """Return the costs of `gaussian_codelengths` if labels are known later.

    Label ``t`` is predicted from the first ``known[t]`` labels, at most ``t``.
    """
    costs = _student_t_losses(labels, 1.0, location, scale)
    # Division by a power of two is exact and prevents squares from overflowing.
    unit = 2.0 ** min(math.frexp(np.abs(labels).max(initial=0.0))[1], 1023)
    means, squares = _running_moments(labels / unit)
    means, squares = means[known], squares[known]
    learned = (known >= n_first) & (squares > 0)
    n = known[learned].astype(np.float64)
    scales = unit * np.sqrt(squares[learned] / (n - 1) * (1 + 1 / n))
    centres = unit * means[learned]
    costs[learned] = _student_t_losses(labels[learned], n - 1, centres, scales)
    return costs


def _running_moments(labels: Floats) -> tuple[Floats, Floats]:
    """Return the mean and summed squared deviations of all labels before each label.

    Both are updated by Welford's method.
    """
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
    nu = np.asarray(dof)
    constant = np.log(scale) + gammaln(nu / 2) - gammaln((nu + 1) / 2)
    tails = (nu + 1) / 2 * np.log1p(np.square((y - location) / scale) / nu)
    return np.asarray(constant + np.log(nu * math.pi) / 2 + tails)
