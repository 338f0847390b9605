"""Escape code for rows that introduce new classes, and codes without features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.metrics._label_counts import costs_without_features
from sklearn_mdl.metrics._references import Floats, encoded


class EscapeCode:
    """Adaptive code for where new classes first appear in a stream.

    Classes are integers. Named classes come first, and new classes follow in order of
    appearance. For the probabilities, see :func:`escape_codelengths`.

    Parameters
    ----------
    n_named : int
        Number of classes known before the first row. If it is 0, the first row must
        have class 0 and costs nothing.

    Attributes
    ----------
    n_named : int
        Number of classes known before the first row.
    n_classes : int
        Number of classes known so far, at least 1.
    probabilities : list of float
        Probability of an escape at each row so far.
    """

    def __init__(self, n_named: int) -> None:
        self.n_named = n_named
        self.n_classes = max(n_named, 1)
        self.probabilities: list[float] = []
        self._seen: set[int] = set()

    @property
    def probability(self) -> float:
        """Probability of an escape: that the next row introduces a new class."""
        n_rows = len(self.probabilities)
        if not n_rows:
            return 0.5 if self.n_named else 0.0
        return (len(self._seen) - 0.5) / n_rows

    def observe(self, label: int) -> float:
        """Count a label, and return the cost of coding whether its class is new."""
        probability, is_new = self.probability, label >= self.n_classes
        self.probabilities.append(probability)
        self._seen.add(label)
        self.n_classes = max(self.n_classes, label + 1)
        return 0.0 - math.log(probability if is_new else 1.0 - probability)

    def coded(self, proba: Floats, start: int) -> Floats:
        """Return probabilities (n, C + 1) of the known classes and of an escape.

        ``proba`` has the class probabilities (n, C) of the rows from number ``start``.
        All of these rows must have been observed.
        """
        escapes = np.array(self.probabilities[start : start + len(proba)])[:, None]
        return np.hstack([proba * (1.0 - escapes), escapes])


def escape_codelengths(y: ArrayLike, classes: ArrayLike = ()) -> Floats:
    r"""Return the cost of coding where unnamed classes first appear, in nats.

    Row ``t``, counted from 1, introduces an unnamed class with probability

    .. math::

        e_t = \frac{m - 1/2}{t - 1} ,

    where ``m`` is the number of classes among the previous rows. This is the
    Krichevsky-Trofimov estimate from all previous rows except the first, whose class is
    always new. It is a valid probability, since :math:`1/2 \le (t - 1) e_t \le t -
    3/2`. For the first row, the probability is 1/2 if classes were named, and 1
    otherwise. The cost of naming the class itself is not included.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    classes : array-like of shape (n_classes,), default=()
        Classes known before the first row.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        In nats: :math:`-\log e_t` for each row with a class that is neither named nor
        among the previous rows, and :math:`-\log(1 - e_t)` for each other row.

    Raises
    ------
    ValueError
        If `y` is not one-dimensional or has missing labels.

    References
    ----------
    Krichevsky and Trofimov, 1981, The performance of universal encoding, IEEE
    Transactions on Information Theory 27. Cleary and Witten, 1984, Data compression
    using adaptive coding and partial string matching, IEEE Transactions on
    Communications 32 (escapes).

    Examples
    --------
    >>> escape_codelengths(["cat", "cat", "dog", "cat"])
    array([0.        , 0.693..., 1.386..., 0.693...])
    """
    encoded(y, None)  # raises for invalid labels
    names = {c: i for i, c in enumerate(np.unique(np.asarray(classes)).tolist())}
    code = EscapeCode(len(names))
    labels = np.asarray(y).tolist()
    costs = [code.observe(names.setdefault(name, len(names))) for name in labels]
    return np.array(costs)


def blind_codelengths(labels: NDArray[np.intp], n_named: int) -> Floats:
    """Return each label's cost under three codes that ignore features.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        Classes as integers. Unnamed classes are numbered in order of appearance.
    n_named : int
        As for :class:`EscapeCode`.

    Returns
    -------
    codelengths : ndarray of shape (N, 3)
        Costs in nats under label frequencies, recent label frequencies and label
        transitions. Each includes the cost of coding whether the row's class is new.
    """
    escape = EscapeCode(n_named)
    given: Sequence[int] = labels.tolist()
    escapes: Floats = np.array([escape.observe(label) for label in given])
    return costs_without_features(given, max(n_named, 1)) + escapes[:, None]
