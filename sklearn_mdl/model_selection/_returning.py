"""Detection of rows that reappear, reordered or with some columns changed.

Rows are compared by hashes of all columns, and by hashes of all columns except one
group at a time. The latter find rows in which a few columns were permuted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.utils import gen_batches

GROUPS = 8  # groups of columns
SHARE = 0.1  # tolerated share of rows, beyond repetition within the stream
FEWEST = 3
HASHED_AT_ONCE = 2**22  # numbers


def count_returning(rows: np.ndarray, stream: Iterable[np.ndarray]) -> int:
    """Count reappearing rows, or 0 if repetition within the stream may explain them.

    New rows from the same source repeat earlier rows about as often as rows within the
    stream do. So rows only count as reappearing if their share exceeds twice the share
    of repeated rows in the stream by more than a tenth.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    stream : iterable of ndarray of shape (n_block, d)
        All rows of the stream as float32.
    """
    if len(rows) < FEWEST:
        return 0
    known = np.concatenate([_hashes(block) for block in stream])
    step = max(1, HASHED_AT_ONCE // max(1, rows.shape[1]))
    blocks = gen_batches(len(rows), step)
    new = np.concatenate([_hashes(rows[block]) for block in blocks])
    most = 0
    for own, theirs in zip(new.T, known.T, strict=True):
        values, counts = np.unique(theirs, return_counts=True)
        repeated = counts[counts > 1].sum() / len(theirs)
        count = int(np.isin(own, values).sum())
        if count >= FEWEST and count > len(rows) * (SHARE + 2 * repeated):
            most = max(most, count)
    return most


def _hashes(rows: np.ndarray) -> np.ndarray:
    """Hash rows (n, d) with all columns and without each group, (n, groups + 1)."""
    d = rows.shape[1]
    # A hash is the sum of words times odd numbers modulo 2^64. Adding zero makes -0
    # equal to 0.
    words = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)
    odd = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * 2 + 1
    terms = words.view(np.uint32) * odd
    edges = np.linspace(0, d, min(d, GROUPS) + 1).astype(int)[:-1]
    parts = np.add.reduceat(terms, edges, axis=1)
    whole = parts.sum(1, dtype=np.uint64, keepdims=True)
    return np.concatenate([whole, whole - parts] if d > 1 else [whole], axis=1)
