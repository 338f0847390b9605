"""Orders of a stream, and splits into train and test part that are fair by force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, column_or_1d

from sklearn_mdl._sklearn import num_samples


def prequential_order(
    y: Any, random_state: Any = None, stratify: bool = False
) -> np.ndarray:
    """Draw an order in which to walk rows.

    A codelength depends on the order, and an order that came with the data (by class,
    by day, by patient) is paid for. A random one makes rows exchangeable.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels; without ``stratify`` only their number counts.
    random_state : int, RandomState instance or None, default=None
        Where the order comes from.
    stratify : bool, default=False
        Spread every class evenly over the stream, at random within that. Of the first
        ``t`` rows, class ``c`` with ``n_c`` rows has ``t n_c / N``, give or take less
        than ``1 + C n_c / N``. Curves of small or unbalanced data become less noisy,
        but the order then tells of the labels: whoever is sent it learns something of
        them that the codelength does not count. Compare codelengths of stratified
        orders with each other alone.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        A permutation: walk ``X[order], y[order]``.

    Raises
    ------
    ValueError
        If ``y`` is not one-dimensional where it is asked for.

    Examples
    --------
    >>> from sklearn_mdl import prequential_order
    >>> y = [0] * 6 + [1] * 3
    >>> order = prequential_order(y, random_state=0, stratify=True)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    rng = check_random_state(random_state)
    if not stratify:
        order: np.ndarray = rng.permutation(num_samples(y))
        return order
    _, labels, counts = np.unique(
        column_or_1d(y), return_inverse=True, return_counts=True
    )
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Row i of a class with n rows comes at a random time in [i / n, (i + 1) / n).
    times = (ranks + rng.uniform(size=len(labels))) / np.repeat(counts, counts)
    spread: np.ndarray = by_class[np.argsort(times, kind="stable")]
    return spread


def reshuffle(
    train: Sequence[Any], test: Sequence[Any], random_state: Any = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Pool a train and a test part, shuffle, and cut into parts of the same sizes.

    So Li, Bornschein and Hutter (2023, appendix "Distribution shift between train and
    test in VTAB") make rows i.i.d. where a dataset's own parts differ.
    :func:`~sklearn_mdl.train_test_shift` tells whether they do.

    Parameters
    ----------
    train, test : tuple of sequences
        ``(X, y)``, or any other number of sequences that go row by row: arrays,
        tensors, sparse matrices, data frames, lists, or objects with ``+`` and
        ``take(rows)`` such as the images of :func:`~sklearn_mdl.load_vtab`, which are
        not opened.
    random_state : int, RandomState instance or None, default=None
        Seeds the permutation.

    Returns
    -------
    train, test : tuple of sequences
        As many, of the same kinds and lengths.

    Raises
    ------
    ValueError
        If the parts hold different numbers of sequences, or unequal lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl import reshuffle
    >>> train, test = (np.eye(3), [0, 1, 2]), (np.zeros((2, 3)), [3, 4])
    >>> (X, y), (X_test, y_test) = reshuffle(train, test, random_state=0)
    >>> len(y), len(y_test), sorted(y + y_test)
    (3, 2, [0, 1, 2, 3, 4])
    """
    n_train, n_test = _check_parts(train, test)
    rows = check_random_state(random_state).permutation(n_train + n_test)
    return deal(train, test, rows[:n_train]), deal(train, test, rows[n_train:])


def deal(
    train: Sequence[Any], test: Sequence[Any], rows: np.ndarray
) -> tuple[Any, ...]:
    """Take rows of the pool: first those of the train part, then of the test part."""
    return tuple(
        _take(one, other, rows) for one, other in zip(train, test, strict=True)
    )


def _check_parts(train: Sequence[Any], test: Sequence[Any]) -> tuple[int, int]:
    if len(train) != len(test) or not len(train):
        raise ValueError(
            "The train and the test part must hold as many sequences each, as in "
            f"(X, y), got {len(train)} and {len(test)}; pass tuples of the same form"
        )
    lengths = [[num_samples(values) for values in part] for part in (train, test)]
    for name, found in zip(("train", "test"), lengths, strict=True):
        if len(set(found)) > 1:
            raise ValueError(
                f"Sequences of one part must go row by row, but those of the {name} "
                f"part have lengths {found}; pass them for the same rows"
            )
    return lengths[0][0], lengths[1][0]


def _take(one: Any, other: Any, rows: np.ndarray) -> Any:
    """Take rows of two sequences as if they were one, without making it first."""
    one, other = _detached(one), _detached(other)
    if hasattr(one, "iloc"):
        import pandas as pd

        return pd.concat([one, other]).iloc[rows]
    if sparse.issparse(one):
        return sparse.vstack([one, other], format="csr")[rows]
    if _is_tensor(one) and _is_tensor(other):
        return _take_tensor(one, other, rows)
    if isinstance(one, np.ndarray) or _is_tensor(one):
        return _take_array(np.asarray(one), np.asarray(other), rows)
    if type(one).__module__.startswith("polars"):
        import polars as pl

        return pl.concat([one, other])[rows]
    if hasattr(one, "take"):
        return (one + other).take(rows)
    n = len(one)
    return [one[i] if i < n else other[i - n] for i in rows.tolist()]


def _is_tensor(values: Any) -> bool:
    return hasattr(values, "new_empty")  # torch is not imported here


def _detached(values: Any) -> Any:
    return values.detach() if _is_tensor(values) else values


def _take_array(one: np.ndarray, other: np.ndarray, rows: np.ndarray) -> np.ndarray:
    _check_shapes(one, other)
    taken = np.empty((len(rows), *one.shape[1:]), np.result_type(one, other))
    first = rows < len(one)
    taken[first] = one[rows[first]]
    taken[~first] = other[rows[~first] - len(one)]
    return taken


def _take_tensor(one: Any, other: Any, rows: np.ndarray) -> Any:
    _check_shapes(one, other)
    both = (one[:0] + other[:0]).dtype  # into which the numbers of either fit
    pool = one.new_empty((len(one) + len(other), *one.shape[1:]), dtype=both)
    pool[: len(one)], pool[len(one) :] = one, other
    return pool[rows]


def _check_shapes(one: Any, other: Any) -> None:
    if one.shape[1:] != other.shape[1:]:
        raise ValueError(
            "Both parts must hold rows of one shape, got "
            f"{one.shape[1:]} in the train part and {other.shape[1:]} in the test part;"
            " compute both with the same encoder"
        )
