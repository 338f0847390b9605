"""Rows that reappear: unchanged, in another order, or with some columns changed.

Rows are compared by hashes, of all columns and of all but one group of columns in turn.
The second finds rows in which a few columns were permuted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

GROUPS = 8  # of columns
SHARE = 0.1  # of rows that may reappear beyond the stream's own repetition
FEWEST = 3
HASHED_AT_ONCE = 2**22  # numbers


def count_returning(rows: np.ndarray, stream: Iterable[np.ndarray]) -> int:
    """Count rows of a stream that reappear, 0 if its own repetition may explain them.

    In new rows from the same source, the share that repeats an earlier row is about the
    share of repeated rows within the stream. So rows count as reappearing if their
    share exceeds twice the stream's own share by more than a tenth.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    stream : iterable of ndarray of shape (n_block, d)
        All rows of the stream, float32.
    """
    if len(rows) < FEWEST:
        return 0
    known = np.concatenate([_hashes(block) for block in stream])
    new = np.concatenate([_hashes(block) for block in _blocks(rows)])
    most = 0
    for own, theirs in zip(new.T, known.T, strict=True):
        values, counts = np.unique(theirs, return_counts=True)
        repeated = counts[counts > 1].sum() / len(theirs)
        count = int(np.isin(own, values).sum())
        if count >= FEWEST and count > len(rows) * (SHARE + 2 * repeated):
            most = max(most, count)
    return most


def _blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    step = max(1, HASHED_AT_ONCE // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _hashes(rows: np.ndarray) -> np.ndarray:
    """Hash rows (n, d) by all columns, and without each group: (n, groups + 1)."""
    d = rows.shape[1]
    # The sum of words times odd numbers, modulo 2^64; adding zero makes -0 equal to 0.
    words = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)
    odd = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * 2 + 1
    terms = words.view(np.uint32) * odd
    edges = np.linspace(0, d, min(d, GROUPS) + 1).astype(int)[:-1]
    parts = np.add.reduceat(terms, edges, axis=1)
    whole = parts.sum(1, dtype=np.uint64, keepdims=True)
    return np.concatenate([whole, whole - parts] if d > 1 else [whole], axis=1)
