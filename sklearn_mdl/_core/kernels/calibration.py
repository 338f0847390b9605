r"""Forward calibration, which turns scores of classes into probabilities.

Let :math:`s_c` be the score of class ``c``, and :math:`n_c` the number of earlier rows
of that class. If predictions have variances, let :math:`v_t` be the variance divided by
the variance of the noise. Then

.. math::

    \log p_c = b\, s_c + v\, s_c \log(v_t / 1.5) + u \log(\max(q_c, 0) + 0.02)
        + a \log(n_c + 1/2) - \mathrm{const},

where :math:`q_c = s_c + (1 - \sum_k s_k) / C` are scores that sum to one over the ``C``
classes. ``(b, v, u, a)`` take one online Newton step on the log-loss after each row is
coded, or after each block of rows that are predicted together. ``v`` and ``u`` are
learned only after 64 labels, and omitted if predictions have no variances. Then ``p``
is mixed with a small share of the uniform distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Initial (b, v, u, a), and the initial diagonal of the Hessian in the same order.
START = (5.0, 0.0, 0.0, 1.0)
CURVATURE = (1.0, 3.0, 10.0, 10.0)
# The same for (b, a), which calibrate scores without variances. These scores need not
# sum to one and may be much larger.
PLAIN_START = (1.0, 1.0)
PLAIN_CURVATURE = (0.3, 10.0)
USUAL = math.log(1.5)  # log of a typical v_t
LEAST = 0.02  # added to q_c
LOWEST = 0.05  # lowest factor of the scores
FLOOR = 1e-4  # share of the uniform distribution
FIRST = 64  # v and u are learned after this many labels; earlier they add noise


class ForwardSoftmax:
    """Calibration of ``K`` readouts of one stream, for one or many labellings.

    Parameters
    ----------
    n_readouts, n_classes : int
    has_variances : bool
        True if scores predict one-hot labels, perhaps minus a constant. False for other
        scores, which need not sum to one and have no variances.
    n_sets : int or None
        Number ``S`` of labellings of the same rows. Arrays then have a leading axis
        for labellings. None means a single labelling without that axis.

    Attributes
    ----------
    factors : ndarray of shape (K, F) or (S, K, F)
        ``(b, v, u, a)`` of every readout, or ``(b, a)`` without variances.
    curvature : ndarray of shape (K, F, F) or (S, K, F, F)
        Hessian with respect to the factors.
    counts : ndarray of shape (C,) or (S, C)
        Number of observed labels of each class.
    """

    def __init__(
        self,
        n_readouts: int,
        n_classes: int,
        *,
        has_variances: bool = True,
        n_sets: int | None = None,
    ) -> None:
        sets = () if n_sets is None else (n_sets,)
        start = np.array(START if has_variances else PLAIN_START)
        diagonal = np.diag(CURVATURE if has_variances else PLAIN_CURVATURE)
        self.factors: Floats = np.tile(start, (*sets, n_readouts, 1))
        self.curvature: Floats = np.tile(diagonal, (*sets, n_readouts, 1, 1))
        self.counts = np.zeros((*sets, n_classes))

    def log_proba(self, scores: Floats, variances: Floats | None = None) -> Floats:
        """Return the log-probabilities of the classes, in the shape of ``scores``.

        Parameters
        ----------
        scores : ndarray of shape (K, n, C) or (S, K, n, C)
        variances : ndarray of shape (K, n) or None
            In units of the noise's variance.
        """
        proba = self._proba(self._features(scores, variances))
        proba *= 1 - FLOOR
        proba += FLOOR / self.counts.shape[-1]
        return np.log(proba, out=proba)

    def observe(
        self, scores: Floats, labels: NDArray[np.int64], variances: Floats | None = None
    ) -> None:
        """Take one Newton step on rows that were predicted together.

        Parameters
        ----------
        scores : ndarray of shape (K, n, C) or (S, K, n, C)
        labels : ndarray of shape (n,) or (S, n)
        variances : ndarray of shape (K, n) or None
            In units of the noise's variance.
        """
        features = self._features(scores, variances)
        proba = self._proba(features)[..., np.newaxis, :]
        centred = features - (proba * features).sum(-1, keepdims=True)
        self.curvature += ((proba * centred) @ centred.swapaxes(-1, -2)).sum(-3)
        places = labels[..., np.newaxis, :, np.newaxis, np.newaxis]
        chosen = np.take_along_axis(centred, places, -1).sum(-3)
        self.factors += np.linalg.solve(self.curvature, chosen)[..., 0]
        np.maximum(self.factors[..., 0], LOWEST, out=self.factors[..., 0])
        labellings = labels.reshape(-1, labels.shape[-1])
        for counts, own in zip(np.atleast_2d(self.counts), labellings, strict=True):
            counts += np.bincount(own, minlength=len(counts))

    def _features(self, scores: Floats, variances: Floats | None) -> Floats:
        """Return the terms, ([S,] K, n, F, C), that the factors multiply."""
        shape = *scores.shape[:-1], self.factors.shape[-1], scores.shape[-1]
        features = np.zeros(shape)
        features[..., 0, :] = scores
        is_late = self.counts.sum(-1).max() >= FIRST
        if is_late and variances is not None:
            by_variance = (np.log(variances) - USUAL)[..., np.newaxis]
            np.multiply(scores, by_variance, out=features[..., 1, :])
            shares = scores + (1 - scores.sum(-1, keepdims=True)) / scores.shape[-1]
            features[..., 2, :] = np.log(np.maximum(shares, 0) + LEAST)
        features[..., -1, :] = np.log(self.counts + 0.5)[..., np.newaxis, np.newaxis, :]
        return features

    def _proba(self, features: Floats) -> Floats:
        factors = self.factors[..., np.newaxis, np.newaxis, :]
        logits = (factors @ features)[..., 0, :]
        logits -= logits.max(-1, keepdims=True)
        proba: Floats = np.exp(logits, out=logits)
        proba /= proba.sum(-1, keepdims=True)
        return proba

    def add_classes(self, n: int) -> None:
        """Add ``n`` classes, which have no labels so far."""
        room = np.zeros((*self.counts.shape[:-1], n))
        self.counts = np.concatenate([self.counts, room], -1)

    def retire(self, kept: Sequence[int]) -> None:
        """Keep only some readouts."""
        self.factors = self.factors[list(kept)]
        self.curvature = self.curvature[list(kept)]
