r"""Forward calibration: from scores of kernel ridge regression to probabilities.

With scores :math:`s_c` and class counts :math:`n_c` of the rows before,

.. math::

    \log p_c = b\, s_c + a \log(n_c + 1/2) - \mathrm{const},

where ``(b, a)`` take one online Newton step of the log-loss a row, after its label is
paid. Then ``p`` is mixed with a small share of the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

START = (5.0, 1.0)  # of the factors of scores and of class frequencies
CURVATURE = (1.0, 10.0)  # diagonal of the Hessian before the first row
LOWEST = 0.05  # factor of the scores
FLOOR = 1e-4  # share of the uniform distribution


class ForwardSoftmax:
    """Calibration of ``K`` readouts of one stream.

    Parameters
    ----------
    n_readouts, n_classes : int
    floor : float
        Share of the uniform distribution in what is coded; none in what is learned.

    Attributes
    ----------
    factors : ndarray of shape (K, 2)
        ``(b, a)`` of every readout.
    curvature : ndarray of shape (K, 3)
        Upper triangle of the Hessian by ``(b, a)``.
    counts : ndarray of shape (C,)
        Labels observed, by class.
    """

    def __init__(self, n_readouts: int, n_classes: int, floor: float = FLOOR) -> None:
        self.floor = floor
        self.factors: Floats = np.tile(START, (n_readouts, 1))
        first, last = CURVATURE
        self.curvature: Floats = np.tile([first, 0.0, last], (n_readouts, 1))
        self.counts = np.zeros(n_classes)

    def log_proba(self, scores: Floats) -> Floats:
        """Log-probabilities (K, n, C) that are coded, of scores of that shape."""
        found = self._proba(scores, np.log(self.counts + 0.5))
        found *= 1 - self.floor
        found += self.floor / len(self.counts)
        return np.log(found, out=found)

    def observe(self, scores: Floats, label: int) -> None:
        """Learn from one row, with scores (K, C)."""
        log_counts = np.log(self.counts + 0.5)
        proba = self._proba(scores[:, None], log_counts)[:, 0]
        by_score = scores - (proba * scores).sum(1)[:, None]
        by_count = log_counts - (proba * log_counts).sum(1)[:, None]
        weighted = proba * by_score
        curvature = self.curvature
        curvature[:, 0] += (weighted * by_score).sum(1)
        curvature[:, 1] += (weighted * by_count).sum(1)
        curvature[:, 2] += (proba * by_count * by_count).sum(1)
        first, mixed, last = curvature.T
        up, across = by_score[:, label], by_count[:, label]
        determinant = first * last - mixed * mixed
        self.factors[:, 0] += (last * up - mixed * across) / determinant
        self.factors[:, 1] += (first * across - mixed * up) / determinant
        np.maximum(self.factors[:, 0], LOWEST, out=self.factors[:, 0])
        self.counts[label] += 1

    def _proba(self, scores: Floats, log_counts: Floats) -> Floats:
        logits = self.factors[:, 0, None, None] * scores
        logits += self.factors[:, 1, None, None] * log_counts
        logits -= logits.max(-1, keepdims=True)
        proba: Floats = np.exp(logits, out=logits)
        proba /= proba.sum(-1, keepdims=True)
        return proba

    def retire(self, kept: Sequence[int]) -> None:
        """Keep some of the readouts only."""
        self.factors = self.factors[list(kept)]
        self.curvature = self.curvature[list(kept)]
