r"""Lower bounds on the probabilities of a classifier, so that no label is impossible.

Classifiers predict probability zero for classes that they have not seen, and some
classifiers also for other classes. A label of such a class would cost infinitely many
nats. Let ``n`` be the number of labels learned, ``n_c`` the number of labels of class
``c``, and

.. math::

    f_c = \frac{n_c + 1/2}{n + C/2}

the estimate of Krichevsky and Trofimov (1981). Classes not seen in the fit get
probability ``f_c``, and the others get the classifier's probabilities, scaled to the
remaining mass. These probabilities ``p_c`` are then mixed with ``f_c``,

.. math::

    q_c = \Bigl(1 - \frac{1}{n + 2}\Bigr) p_c + \frac{1}{n + 2} f_c .

So an example costs at most :math:`\log(n + 2) + \log(1 / f_c)`, even if the classifier
was certain of another class. Mixing adds at most :math:`\log(1 + 1/(n + 1)) < 1/n` to
the cost of an example. Minibatch ``m`` of ``B`` rows is predicted with ``n = (m - 1)
B``, so mixing adds at most ``B / n = 1 / (m - 1)`` nats to its cost. Over a stream of
``N`` rows, mixing adds at most ``1 + log(N / B)`` nats: 5 nats for 1,500 rows in
minibatches of 32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]


def class_frequencies(counts: NDArray[np.int64]) -> Floats:
    """Return the Krichevsky-Trofimov estimate (C,) from class counts."""
    return np.asarray((counts + 0.5) / (counts.sum() + len(counts) / 2))


def spread(proba: ArrayLike, fitted: BaseEstimator, shape: tuple[int, int]) -> Floats:
    """Return predictions of a classifier in the shape (n_rows, classes of the stream).

    Raises
    ------
    ValueError
        If there is not a prediction for each row, or if the columns match neither the
        fitted classes nor all classes.
    """
    given: Floats = np.asarray(proba, dtype=np.float64)
    if given.shape == shape:
        return given
    classes = np.asarray(fitted.classes_, dtype=np.intp)
    if given.shape != (own := (shape[0], len(classes))):
        raise ValueError(
            f"predict_proba must return shape {own}, a row for each row of X and a "
            f"column for each class in classes_, got {given.shape}; debug predict_proba"
        )
    by_class = np.zeros(shape)
    by_class[:, classes] = given
    return by_class


def complete(
    proba: Floats, known: NDArray[np.bool_], counts: NDArray[np.int64]
) -> Floats:
    """Fill in unseen classes with their estimated frequencies, and rescale the others.

    Parameters
    ----------
    proba : ndarray of shape (n, C)
        Probabilities of a classifier. The columns of unseen classes are ignored.
    known : ndarray of shape (C,), bool
        True for classes in the training data.
    counts : ndarray of shape (C,)
        Number of labels of each class learned so far.

    Returns
    -------
    proba : ndarray of shape (n, C)
        NaN in rows where `proba` does not hold probabilities.
    """
    frequencies = class_frequencies(counts)
    proba = np.where(known, proba, 0.0)
    total = proba.sum(1, keepdims=True)
    usable = np.isfinite(total) & (total > 0) & np.all(proba >= 0, 1, keepdims=True)
    scale = (1 - frequencies[~known].sum()) / np.where(usable, total, np.nan)
    return np.where(usable & ~known, frequencies, scale * proba)


def floored(proba: Floats, counts: NDArray[np.int64]) -> Floats:
    """Mix probabilities with class frequencies, which get weight ``1 / (n + 2)``."""
    share = 1 / (counts.sum() + 2)
    return np.asarray((1 - share) * proba + share * class_frequencies(counts))
