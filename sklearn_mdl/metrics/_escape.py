"""Escape code for the first rows of unnamed classes, and codes without features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.metrics._label_counts import LabelCounts, LabelTransitions, costs_of
from sklearn_mdl.metrics._references import Floats, encoded


class EscapeCode:
    """Code for which rows of a stream introduce a class that is not known yet.

    Classes are integers, named ones first and then new ones in order of appearance. For
    the probabilities see :func:`escape_codelengths`.

    Parameters
    ----------
    n_named : int
        Number of classes known before the first row. If it is zero, the first row has
        class 0 with certainty.

    Attributes
    ----------
    n_named, n_classes : int
        Number of classes named at first, and number known so far (at least one).
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
        """Probability that the next row has a class that is not known."""
        n_rows = len(self.probabilities)
        if not n_rows:
            return 0.5 if self.n_named else 0.0
        return (len(self._seen) - 0.5) / n_rows

    def observe(self, label: int) -> float:
        """Return the cost in nats of whether a row escapes, and learn its class."""
        probability, is_new = self.probability, label >= self.n_classes
        self.probabilities.append(probability)
        self._seen.add(label)
        self.n_classes = max(self.n_classes, label + 1)
        return 0.0 - math.log(probability if is_new else 1.0 - probability)

    def coded(self, proba: Floats, start: int) -> Floats:
        """Append an escape's probability to those of known classes, (n, C + 1).

        The first row is row ``start``. All rows must have been observed.
        """
        escapes = np.array(self.probabilities[start : start + len(proba)])[:, None]
        return np.hstack([proba * (1.0 - escapes), escapes])


def escape_codelengths(y: ArrayLike, classes: ArrayLike = ()) -> Floats:
    r"""Return the cost of coding where unnamed classes first appear, in nats.

    Row ``t``, counted from 1, introduces an unnamed class with probability

    .. math::

        e_t = \frac{m - 1/2}{t - 1} ,

    where ``m`` is the number of classes among the rows before it. This is the
    Krichevsky-Trofimov estimate from all previous rows except the first, whose class is
    always new. It is a probability, as :math:`1/2 \le (t - 1) e_t \le t - 3/2`. The
    first row has probability 1/2 if classes were named, and 1 otherwise. The cost of
    naming a known or new class is not included.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    classes : array-like of shape (n_classes,), default=()
        Classes known before the first row.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        In nats: :math:`-\log e_t` for rows with a class that was neither named nor seen
        before, and :math:`-\log(1 - e_t)` for all other rows.

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
    return np.array(costs, dtype=np.float64)


def blind_codelengths(labels: NDArray[np.intp], n_named: int) -> Floats:
    """Return the costs of labels under codes without features that learn new classes.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        Classes as integers, unnamed ones in order of appearance.
    n_named : int
        As for :class:`EscapeCode`.

    Returns
    -------
    codelengths : ndarray of shape (N, 3)
        In nats, from frequencies, recent frequencies and transitions, including
        escapes.
    """
    escape, n_classes = EscapeCode(n_named), max(n_named, 1)
    given: Sequence[int] = labels.tolist()
    escapes = np.array([escape.observe(label) for label in given])
    counts, recent = LabelCounts(n_classes), LabelCounts(n_classes, 100.0)
    codes = counts, recent, LabelTransitions(n_classes)
    found: Floats = np.stack([costs_of(given, code) for code in codes], 1)
    found += escapes[:, np.newaxis]
    return found
