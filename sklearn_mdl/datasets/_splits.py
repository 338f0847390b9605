"""Random orders of a stream and reshuffled train and test parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse
from sklearn.utils import check_random_state, column_or_1d

from sklearn_mdl._core.sklearn_compat import num_samples
from sklearn_mdl._core.validation import as_labels, invalid

Rows = Any  # a list, array, tensor, sparse matrix, data frame or lazy images
Part = Sequence[Rows]


def prequential_order(
    y: object, random_state: int | RandomState | None = None, stratify: bool = False
) -> np.ndarray:
    """Draw an order in which to evaluate rows online.

    A codelength depends on the order of rows. The original order of the data (by class,
    day or patient) may cost extra. A random order makes rows exchangeable.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels. Without ``stratify`` only their number matters.
    random_state : int, RandomState instance or None, default=None
        Seeds the order.
    stratify : bool, default=False
        Spread every class evenly over the stream instead of at random. A class ``c``
        with ``n_c`` rows has ``t n_c / N`` of the first ``t`` rows, with an error of
        less than ``1 + C n_c / N``. Curves of small or unbalanced data become less
        noisy. But the order then depends on the labels. The codelength does not count
        what a receiver of the order learns about the labels. Only compare codelengths
        of stratified orders with each other.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        A permutation. Fit on ``X[order], y[order]``.

    Raises
    ------
    ValueError
        If ``y`` is not one-dimensional, with ``stratify``.

    Examples
    --------
    >>> from sklearn_mdl.datasets import prequential_order
    >>> y = [0] * 6 + [1] * 3
    >>> order = prequential_order(y, random_state=0, stratify=True)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    rng = check_random_state(random_state)
    if not stratify:
        order: np.ndarray = rng.permutation(num_samples(y))
        return order
    given = column_or_1d(as_labels(y))
    _, labels, counts = np.unique(given, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Row i of a class with n rows has a random time in [i / n, (i + 1) / n).
    times = (ranks + rng.uniform(size=len(labels))) / np.repeat(counts, counts)
    spread: np.ndarray = by_class[np.argsort(times, kind="stable")]
    return spread


def reshuffle(
    train: Part, test: Part, random_state: int | RandomState | None = None
) -> tuple[tuple[Rows, ...], tuple[Rows, ...]]:
    """Pool a train and a test part, shuffle, and split into parts of the same sizes.

    Li, Bornschein and Hutter (2023, appendix "Distribution shift between train and test
    in VTAB") do so to make rows i.i.d. if the original parts differ. Test this with
    :func:`~sklearn_mdl.datasets.train_test_shift`.

    Parameters
    ----------
    train, test : tuple of sequences
        ``(X, y)``, or any other number of sequences of rows. A sequence is an array,
        tensor, sparse matrix, data frame or list, or an object with ``+`` and
        ``take(rows)``. The images of :func:`~sklearn_mdl.datasets.load_vtab` are such
        objects, and are not decoded.
    random_state : int, RandomState instance or None, default=None
        Seeds the permutation.

    Returns
    -------
    train, test : tuple of sequences
        Parts with sequences of the same kinds and lengths.

    Raises
    ------
    ValueError
        If the parts have different numbers of sequences, or sequences differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.datasets import reshuffle
    >>> train, test = (np.eye(3), [0, 1, 2]), (np.zeros((2, 3)), [3, 4])
    >>> (X, y), (X_test, y_test) = reshuffle(train, test, random_state=0)
    >>> len(y), len(y_test), sorted(y + y_test)
    (3, 2, [0, 1, 2, 3, 4])
    """
    n_train, n_test = _check_parts(train, test)
    rows = check_random_state(random_state).permutation(n_train + n_test)
    return deal(train, test, rows[:n_train]), deal(train, test, rows[n_train:])


def deal(train: Part, test: Part, rows: np.ndarray) -> tuple[Rows, ...]:
    """Take rows of the pool, in which the test part follows the train part."""
    pairs = zip(train, test, strict=True)
    return tuple(_take(one, other, rows) for one, other in pairs)


def _check_parts(train: Part, test: Part) -> tuple[int, int]:
    if len(train) != len(test) or not len(train):
        counts = len(train), len(test)
        cure = "pass both in one form, such as (X, y)"
        raise invalid("train and test", "tuples of equal length", counts, cure)
    lengths = [[num_samples(values) for values in part] for part in (train, test)]
    for name, found in zip(("train", "test"), lengths, strict=True):
        if len(set(found)) > 1:
            raise invalid(name, "equally long sequences", found, "pass the same rows")
    return lengths[0][0], lengths[1][0]


def _take(one: Rows, other: Rows, rows: np.ndarray) -> Rows:
    """Take rows of two sequences as if they were one, without joining them."""
    one, other = (v.detach() if _is_tensor(v) else v for v in (one, other))
    if hasattr(one, "iloc"):
        import pandas as pd

        return pd.concat([one, other]).iloc[rows]
    if sparse.issparse(one):
        return sparse.vstack([one, other], format="csr")[rows]
    if _is_tensor(one) and _is_tensor(other):
        import torch

        check_shapes(one, other)
        return torch.cat([one, other.to(one.device)])[rows]
    if isinstance(one, np.ndarray) or _is_tensor(one):
        return _take_array(np.asarray(one), np.asarray(other), rows)
    if type(one).__module__.startswith("polars"):
        import polars as pl

        return pl.concat([one, other])[rows]
    if hasattr(one, "take"):
        return (one + other).take(rows)
    n = len(one)
    return [one[i] if i < n else other[i - n] for i in rows.tolist()]


def _is_tensor(values: object) -> bool:
    return hasattr(values, "new_empty")  # torch is not imported here


def _take_array(one: np.ndarray, other: np.ndarray, rows: np.ndarray) -> np.ndarray:
    check_shapes(one, other)
    taken = np.empty((len(rows), *one.shape[1:]), np.result_type(one, other))
    first = rows < len(one)
    taken[first] = one[rows[first]]
    taken[~first] = other[rows[~first] - len(one)]
    return taken


def check_shapes(one: Rows, other: Rows) -> None:
    """Reject a train and a test part whose rows have different shapes."""
    shapes = tuple(one.shape[1:]), tuple(other.shape[1:])
    if shapes[0] != shapes[1]:
        cure = "compute both with one encoder.transform"
        raise invalid("Rows of train and test", "of equal shape", shapes, cure)
