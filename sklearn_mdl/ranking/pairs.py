"""Which pairs of encoders are compared, and the ratios of their codelengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.ranking.ranks import average_ranks
from sklearn_mdl.ranking.tables import Floats, check_count

Pairs = NDArray[np.intp]

# Of more encoders all pairs are not tested unasked: 40 make 780 tests.
MOST_ENCODERS = 40


def checked_pairs(table: Floats, pairs: ArrayLike | None, top_k: int | None) -> Pairs:
    """Return the pairs to compare, as columns of the table, of shape (n_pairs, 2)."""
    n_encoders = table.shape[1]
    if n_encoders < 2:
        raise ValueError(
            "Pairs need at least 2 encoders, got 1; add a column to the table."
        )
    if pairs is not None and top_k is not None:
        raise ValueError(
            "Either `pairs` or `top_k` chooses what is compared, got both, with "
            f"top_k={top_k!r}; leave one out."
        )
    if pairs is not None:
        return _named(pairs, n_encoders)
    if top_k is not None:
        return _all_of(_best(table, top_k))
    if n_encoders > MOST_ENCODERS:
        raise ValueError(
            f"All pairs are compared of at most {MOST_ENCODERS} encoders, got "
            f"{n_encoders}; name the pairs in `pairs`, or compare the best `top_k`."
        )
    return _all_of(np.arange(n_encoders))


def _all_of(encoders: NDArray[np.intp]) -> Pairs:
    chosen: Pairs = encoders[np.stack(np.triu_indices(len(encoders), k=1), axis=1)]
    return chosen


def _best(table: Floats, top_k: int) -> NDArray[np.intp]:
    """Return the columns of the best average ranks, in their order in the table."""
    check_count("top_k", top_k, 2, "a pair takes two encoders")
    if top_k > table.shape[1]:
        raise ValueError(
            f"`top_k` must be at most the number of encoders, {table.shape[1]}, got "
            f"{top_k=}; leave it out to compare all pairs."
        )
    return np.sort(np.argsort(average_ranks(table), kind="stable")[:top_k])


def _named(pairs: ArrayLike, n_encoders: int) -> Pairs:
    """Return pairs that the user named, if each is one and none comes twice."""
    array = np.asarray(pairs)
    shaped = array.ndim == 2 and array.shape[1] == 2 and len(array) > 0
    if not shaped or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "`pairs` must be integers of shape (n_pairs, 2), n_pairs > 0, got shape "
            f"{array.shape} of {array.dtype}; give two columns of the table per pair."
        )
    array = array.astype(np.intp)
    if array.min() < 0 or array.max() >= n_encoders:
        raise ValueError(
            f"`pairs` must name columns from 0 to {n_encoders - 1}, got "
            f"{array.min()} to {array.max()}; count the columns of the table from 0."
        )
    distinct = np.unique(np.sort(array, axis=1), axis=0)
    if len(distinct) < len(array) or (array[:, 0] == array[:, 1]).any():
        raise ValueError(
            "`pairs` must be distinct pairs of two encoders each, got "
            f"{array.tolist()!r}; leave out repeated ones."
        )
    return array


def log_ratios(table: Floats, pairs: Pairs) -> Floats:
    """Return log(first / second) of each pair, of shape (n_pairs, n_datasets)."""
    logs = np.log(table).T
    ratios: Floats = logs[pairs[:, 0]] - logs[pairs[:, 1]]
    return ratios
