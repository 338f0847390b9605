"""Reference codes for labels, and the difference between two codes.

A codelength says little alone. Two codes that look at no feature put it in proportion:
the uniform code, which costs ``log C`` nats per label, and the frequency code, which
learns how often each class comes. What a readout saves against them, it owes to the
representation. All codelengths are in nats and measured against the labels alone.

The regret of one code against another is the running difference of their codelengths,
as in the figures of the paper: Li, Bornschein and Hutter, 2023, Evaluating
Representations with Readout Model Switching, ICLR.
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def uniform_codelength(n_samples: int, n_classes: int) -> float:
    """Cost of labels under the uniform code: ``N log C`` nats.

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
        If `n_samples` is not an integer of at least 0, or `n_classes` not one of at
        least 1.

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
    """Cost of labels under the adaptive code of Krichevsky and Trofimov, in nats.

    Label ``t`` is predicted from how often each class came before it::

        p(y_t = c | y_{<t}) = (n_c + 1/2) / (t - 1 + C/2) ,

    and the codelength is the sum of ``-log p(y_t | y_{<t})``. It depends on the counts
    of the labels alone, not on their order.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any sortable type.
    n_classes : int, optional
        Number of classes ``C``, at least the number of distinct labels. If not given,
        the number of distinct labels, which the code then takes as known beforehand.

    Returns
    -------
    codelength : float
        Codelength in nats; 0 for no labels and for a single class.

    Raises
    ------
    ValueError
        If `y` is not one-dimensional or has missing labels, or if `n_classes` is not an
        integer or smaller than the number of distinct labels.

    References
    ----------
    Krichevsky and Trofimov, 1981, The performance of universal encoding, IEEE
    Transactions on Information Theory 27. It is a prequential code in the sense of Li,
    Bornschein and Hutter, 2023, Section 2.

    Examples
    --------
    >>> frequency_codelength(["dog", "dog", "cat"])
    2.77...
    """
    _, counts = _labels(y)
    n_classes = _classes_of_code(n_classes, counts)
    # Class c is met with n_c = 0, 1, ... earlier ones, whenever that may be.
    numerators = sum(float(np.log(np.arange(n) + 0.5).sum()) for n in counts)
    denominators = np.log(np.arange(counts.sum()) + n_classes / 2)
    return float(denominators.sum()) - numerators


def frequency_codelengths(y: ArrayLike, n_classes: int | None = None) -> Floats:
    """Cost of each label under the code of Krichevsky and Trofimov, in nats.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    n_classes : int, optional
        As for :func:`frequency_codelength`, which is the sum.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | y_{<t})`` of each label, in nats.

    Raises
    ------
    ValueError
        As :func:`frequency_codelength`.

    Examples
    --------
    >>> frequency_codelengths(["dog", "dog", "cat"])
    array([0.693..., 0.287..., 1.791...])
    """
    codes, counts = _labels(y)
    n_classes = _classes_of_code(n_classes, counts)
    firsts = np.cumsum(counts) - counts
    earlier = np.empty(codes.size)
    earlier[np.argsort(codes, kind="stable")] = np.arange(codes.size) - np.repeat(
        firsts, counts
    )
    costs: Floats = np.log(np.arange(codes.size) + n_classes / 2) - np.log(
        earlier + 0.5
    )
    return costs


def regret(codelengths: ArrayLike, reference: ArrayLike) -> Floats:
    """Return the running difference between two codes of the same labels.

    Parameters
    ----------
    codelengths : array-like of shape (N,)
        Cost of each label under the code in question, in nats; plus infinity allowed.
    reference : array-like of shape (N,)
        Cost of each label under the code to compare with, in nats, finite.

    Returns
    -------
    regret : ndarray of shape (N,)
        ``regret[i] = sum_{j <= i} (codelengths[j] - reference[j])``, in nats; negative
        where the reference has cost more so far.

    Raises
    ------
    ValueError
        If the shapes are not one and the same (N,), or a value is out of range.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Appendix A.6 (regret of one switching prior against
    another).

    Examples
    --------
    >>> regret([1.0, 0.5, 0.25], [0.5, 0.5, 0.5])
    array([0.5 , 0.5 , 0.25])
    """
    own = np.asarray(codelengths, dtype=np.float64)
    other = np.asarray(reference, dtype=np.float64)
    if own.ndim != 1 or own.shape != other.shape:
        raise ValueError(
            "`codelengths` and `reference` must both have shape (n_samples,), got "
            f"{own.shape} and {other.shape}; give one cost per label for each code."
        )
    if np.isnan(own).any() or np.isneginf(own).any() or not np.isfinite(other).all():
        raise ValueError(
            "`codelengths` must be finite or plus infinity and `reference` finite, got "
            "NaN or an infinity out of place; compare with a code that never diverged."
        )
    return np.cumsum(own - other)


def _classes_of_code(n_classes: int | None, counts: NDArray[np.intp]) -> int:
    """Return the number of classes that a frequency code knows of."""
    least = max(1, counts.size)
    if n_classes is None:
        return least
    return checked_count("n_classes", n_classes, least)


def _labels(y: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return labels as numbers from zero, and how often each of these occurs."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(
            f"`y` must have shape (n_samples,), got {labels.shape}; give one label per "
            "sample."
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(
            "`y` must have no missing labels, got NaN; drop the samples that lack one."
        )
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return codes, counts


def checked_count(name: str, value: int, least: int) -> int:
    """Return `value` as an int if it is an integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}, got {name}={value!r}; "
            "give the number that the labels have."
        )
    return int(value)
