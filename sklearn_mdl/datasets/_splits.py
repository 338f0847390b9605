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

    Codelengths depend on the order of rows, and change if rows are sorted (by class,
    day or patient). A random order makes rows exchangeable.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels. Without ``stratify``, only the number of labels matters.
    random_state : int, RandomState instance or None, default=None
        Seed of the order.
    stratify : bool, default=False
        Spread each class evenly over the stream instead of randomly. If ``n_c`` of the
        ``N`` rows belong to class ``c``, then about ``t n_c / N`` of the first ``t``
        rows do, with an error below ``1 + C n_c / N`` for ``C`` classes. This makes
        learning curves of small or unbalanced data less noisy. But a stratified order
        reveals information about the labels, and codelengths do not include the cost
        of this information. So compare codelengths of stratified orders only with each
        other.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        A permutation. Fit on ``X[order], y[order]``.

    Raises
    ------
    ValueError
        If ``stratify`` is True and ``y`` has several columns.

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
        return np.asarray(rng.permutation(num_samples(y)))
    given = column_or_1d(as_labels(y))
    _, labels, counts = np.unique(given, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Row i of a class with n rows has a random time in [i / n, (i + 1) / n).
    times = (ranks + rng.uniform(size=len(labels))) / np.repeat(counts, counts)
    return np.asarray(by_class[np.argsort(times, kind="stable")])


def reshuffle(
    train: Part, test: Part, random_state: int | RandomState | None = None
) -> tuple[tuple[Rows, ...], tuple[Rows, ...]]:
    """Pool a train and a test part, shuffle, and split into parts of the same sizes.

    The reshuffled parts have the same distribution, even if the original parts do not.
    Li, Bornschein and Hutter do this in VTAB (2023, appendix "Distribution shift
    between train and test in VTAB"). :func:`~sklearn_mdl.datasets.train_test_shift`
    tests whether the original distributions differ.

    Parameters
    ----------
    train, test : tuple of sequences
        ``(X, y)``, or another number of sequences with an entry for each row. A
        sequence is an array, tensor, sparse matrix, data frame or list, or an object
        with ``+`` and ``take(rows)``, such as the images of
        :func:`~sklearn_mdl.datasets.load_vtab`, which are not decoded.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutation.

    Returns
    -------
    train, test : tuple of sequences
        Reshuffled parts, whose sequences have the original lengths. Sparse matrices
        become CSR matrices.

    Raises
    ------
    ValueError
        If the parts have different numbers of sequences or rows of different shapes,
        or if the sequences in a part have different lengths.

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
    """Return some rows, numbered as if the test rows followed the train rows."""
    pairs = zip(train, test, strict=True)
    return tuple(_take(first, second, rows) for first, second in pairs)


def _check_parts(train: Part, test: Part) -> tuple[int, int]:
    if len(train) != len(test) or not len(train):
        counts = len(train), len(test)
        cure = "pass both as tuples such as (X, y)"
        raise invalid("train and test", "non-empty tuples of equal size", counts, cure)
    lengths = [[num_samples(values) for values in part] for part in (train, test)]
    for name, sizes in zip(("train", "test"), lengths, strict=True):
        if len(set(sizes)) > 1:
            raise invalid(f"Lengths in {name}", "equal", sizes, "pass all for each row")
    return lengths[0][0], lengths[1][0]


def _take(first: Rows, second: Rows, rows: np.ndarray) -> Rows:
    """Return rows of two sequences as if the second were appended to the first."""
    first, second = (v.detach() if _is_tensor(v) else v for v in (first, second))
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat([first, second]).iloc[rows]
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")[rows]
    if _is_tensor(first) and _is_tensor(second):
        import torch

        check_shapes(first, second)
        return torch.cat([first, second.to(first.device)])[rows]
    if isinstance(first, np.ndarray) or _is_tensor(first):
        return _take_array(np.asarray(first), np.asarray(second), rows)
    if type(first).__module__.startswith("polars"):
        import polars as pl

        return pl.concat([first, second])[rows]
    if hasattr(first, "take"):
        return (first + second).take(rows)
    n = len(first)
    return [first[i] if i < n else second[i - n] for i in rows.tolist()]


def _is_tensor(values: object) -> bool:
    return hasattr(values, "new_empty")  # avoids importing torch


def _take_array(first: np.ndarray, second: np.ndarray, rows: np.ndarray) -> np.ndarray:
    check_shapes(first, second)
    taken = np.empty((len(rows), *first.shape[1:]), np.result_type(first, second))
    in_first = rows < len(first)
    taken[in_first] = first[rows[in_first]]
    taken[~in_first] = second[rows[~in_first] - len(first)]
    return taken


def check_shapes(train: Rows, test: Rows) -> None:
    """Raise ValueError if train rows and test rows have different shapes."""
    shapes = tuple(train.shape[1:]), tuple(test.shape[1:])
    if shapes[0] != shapes[1]:
        cure = "compute both with the same encoder.transform"
        raise invalid("Rows of train and test", "of equal shape", shapes, cure)
