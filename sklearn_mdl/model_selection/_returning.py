"""Detection of rows that reappear, in another order or with some columns permuted.

Columns are divided into groups. Rows are compared by a hash of all columns, and by one
hash for each group that leaves out its columns. Such a hash detects rows that only
differ in this group.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.stats import binom

GROUPS = 8  # groups of columns
SHARE = 0.1  # share of reappearing rows that is always tolerated
IN_PART = 0.5  # the same for rows with equal values in all but one group of columns
DISTINCT = 10  # with so many different rows, equal sets are not put down to chance
CHANCE = 1e-3  # less probable numbers of reappearing rows are not put down to chance
HASHED_AT_ONCE = 2**22  # number of values in a block of rows


def count_returning(rows: np.ndarray, stream: Iterable[np.ndarray]) -> int:
    """Return the number of reappearing rows, or 0 if chance may explain them.

    New rows from the same source equal earlier rows about as often as rows of the
    stream equal each other. So rows only count if their share exceeds 0.1, or 0.5 if
    one group of columns is left out, and if a binomial test rejects that this share is
    at most three standard errors above the share of repeated rows in the stream. If the
    rows are those of the stream in any order, and ten or more of them differ, all
    count.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    stream : iterable of ndarray of shape (n_block, d)
        All rows of the stream as float32, block by block.
    """
    known = np.concatenate([_hashes(block) for block in stream])
    blocks = np.array_split(rows, 1 + rows.size // HASHED_AT_ONCE)
    new = np.concatenate([_hashes(block) for block in blocks])
    is_same = np.array_equal(np.sort(new[:, 0]), np.sort(known[:, 0]))
    if is_same and len(np.unique(known[:, 0])) >= DISTINCT:
        return len(rows)
    most, tolerated = 0, SHARE
    for new_hashes, known_hashes in zip(new.T, known.T, strict=True):
        values, counts = np.unique(known_hashes, return_counts=True)
        repeated = counts[counts > 1].sum() / len(known)
        # Repeated rows come in pairs or more, which doubles the variance of the share.
        error = np.sqrt(2 * repeated * (1 - repeated) / len(known)) + 1 / len(known)
        count = int(np.isin(new_hashes, values).sum())
        chance = binom.sf(count - 1, len(rows), min(1.0, repeated + 3 * error))
        if count > tolerated * len(rows) and chance < CHANCE:
            most = max(most, count)
        tolerated = IN_PART
    return most


def _hashes(rows: np.ndarray) -> np.ndarray:
    """Return hashes of all columns, then hashes without each group of columns.

    For rows of shape (n, d), the result is of shape (n, n_groups + 1), or (n, 1) if
    there is a single column.
    """
    d = rows.shape[1]
    # A hash is the sum of a row's values, read as 32-bit integers and multiplied by odd
    # numbers, modulo 2^64. Adding zero turns -0 into 0.
    words = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)
    odd = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * 2 + 1
    terms = words.view(np.uint32) * odd
    edges = np.linspace(0, d, min(d, GROUPS) + 1).astype(int)[:-1]
    parts = np.add.reduceat(terms, edges, axis=1)
    whole = parts.sum(1, dtype=np.uint64, keepdims=True)
    return np.concatenate([whole, whole - parts] if d > 1 else [whole], axis=1)
