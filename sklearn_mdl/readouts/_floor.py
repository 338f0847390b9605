r"""Probabilities of a classifier bounded away from zero: no label may be impossible.

A classifier gives probability zero to a class that it has not seen, and many give it to
others, too; as a code that would be infinitely long. Let ``n`` be the number of labels
learned, ``n_c`` those of class ``c``, and

.. math::

    f_c = \frac{n_c + 1/2}{n + C/2}

the estimate of Krichevsky and Trofimov (1981). Classes that the fit has not seen are
predicted with ``f_c``, and the others with the classifier's probabilities, scaled to
what is left. Then all are mixed,

.. math::

    q_c = \Bigl(1 - \frac{1}{n + 2}\Bigr) p_c + \frac{1}{n + 2} f_c .

An example costs at most :math:`\log(n + 2) + \log 1 / f_c`, however sure the classifier
was of another class. If it was right, the floor costs :math:`\log(1 + 1/(n + 1))`,
which is less than ``1 / n``: with minibatches of ``B`` rows at most ``1 + log(N / B)``
nats for a whole stream of ``N``, since minibatch ``m`` is predicted with ``n = (m - 1)
B`` and costs ``B / n = 1 / (m - 1)`` at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]


def class_frequencies(counts: NDArray[np.int64]) -> Floats:
    """Krichevsky and Trofimov's estimate from ``n_c`` labels of each class, (C,)."""
    found: Floats = (counts + 0.5) / (counts.sum() + len(counts) / 2)
    return found


def spread(proba: ArrayLike, classifier: BaseEstimator, n_classes: int) -> Floats:
    """Spread the columns of a fitted classifier over all classes, (n, C).

    Raises
    ------
    ValueError
        If they are neither the classes of its fit nor all of them.
    """
    given: Floats = np.asarray(proba, dtype=np.float64)
    if given.shape[1] == n_classes:
        return given
    classes = np.asarray(classifier.classes_, dtype=np.intp)
    if given.shape[1] != len(classes):
        raise ValueError(
            f"predict_proba must have {len(classes)} columns, one for each class of "
            f"the fit, or {n_classes}, one for each class of all, got "
            f"{given.shape[1]}; check the output of the classifier"
        )
    found = np.zeros((len(given), n_classes))
    found[:, classes] = given
    return found


def complete(
    proba: Floats, known: NDArray[np.bool_], counts: NDArray[np.int64]
) -> Floats:
    """Give unseen classes the probabilities that the labels so far suggest.

    Parameters
    ----------
    proba : ndarray of shape (n, C)
        Of a classifier; those of classes that it has not seen are dropped.
    known : ndarray of shape (C,), bool
        Classes in the data of its fit.
    counts : ndarray of shape (C,)
        Labels learned so far.

    Returns
    -------
    proba : ndarray of shape (n, C)
        NaN throughout a row that holds no probabilities.
    """
    frequencies = class_frequencies(counts)
    proba = np.where(known, proba, 0.0)
    total = proba.sum(1, keepdims=True)
    usable = np.isfinite(total) & (total > 0) & np.all(proba >= 0, 1, keepdims=True)
    scale = (1 - frequencies[~known].sum()) / np.where(usable, total, np.nan)
    found: Floats = np.where(usable & ~known, frequencies, scale * proba)
    return found


def floored(proba: Floats, counts: NDArray[np.int64]) -> Floats:
    """Mix probabilities (n, C) with the class frequencies, by a share that falls."""
    share = 1 / (counts.sum() + 2)
    found: Floats = (1 - share) * proba + share * class_frequencies(counts)
    return found
