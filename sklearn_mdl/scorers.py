"""Model selection by codelength: a codelength needs no held-out data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sklearn_mdl._sklearn import num_samples


class PrequentialSplit:
    """One split whose train and test part are both all rows.

    A prequential code predicts each label before it learns it, so every row is test
    and training data in turn, and a held-out part would only waste rows. It is a
    cross-validation object: ``GridSearchCV(..., cv=PrequentialSplit())``.

    Examples
    --------
    >>> from sklearn_mdl import PrequentialSplit
    >>> [(len(train), len(test)) for train, test in PrequentialSplit().split(range(5))]
    [(5, 5)]
    """

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the one split: all rows, all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
        y, groups : ignored

        Yields
        ------
        train, test : ndarray of shape (n_samples,)
        """
        rows = np.arange(num_samples(X))
        yield rows, rows

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return 1, the number of splits."""
        return 1

    def __repr__(self) -> str:
        """Return the call that makes one."""
        return "PrequentialSplit()"
