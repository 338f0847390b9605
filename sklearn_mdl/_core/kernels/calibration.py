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
    """Calibration of ``K`` readouts of one stream, of one labelling or of many.

    Parameters
    ----------
    n_readouts, n_classes : int
    floor : float
        Share of the uniform distribution in what is coded; none in what is learned.
    n_sets : int or None
        Labellings ``S`` of the same rows, which stand on an axis before all others;
        None is one, without that axis.

    Attributes
    ----------
    factors : ndarray of shape (K, 2) or (S, K, 2)
        ``(b, a)`` of every readout.
    curvature : ndarray of shape (K, 3) or (S, K, 3)
        Upper triangle of the Hessian by ``(b, a)``.
    counts : ndarray of shape (C,) or (S, C)
        Labels observed, by class.
    """

    def __init__(
        self,
        n_readouts: int,
        n_classes: int,
        floor: float = FLOOR,
        n_sets: int | None = None,
    ) -> None:
        self.floor = floor
        sets = () if n_sets is None else (n_sets,)
        first, last = CURVATURE
        self.factors: Floats = np.tile(START, (*sets, n_readouts, 1))
        self.curvature: Floats = np.tile([first, 0.0, last], (*sets, n_readouts, 1))
        self.counts = np.zeros((*sets, n_classes))

    def log_proba(self, scores: Floats) -> Floats:
        """Log-probabilities (K, n, C) that are coded, of scores of that shape."""
        log_counts = np.log(self.counts + 0.5)[..., np.newaxis, np.newaxis, :]
        found = self._proba(scores, log_counts)
        found *= 1 - self.floor
        found += self.floor / self.counts.shape[-1]
        return np.log(found, out=found)

    def observe(self, scores: Floats, label: int | NDArray[np.int64]) -> None:
        """Learn from one row with scores (K, C), and its label or ``S`` of them."""
        log_counts = np.log(self.counts + 0.5)[..., np.newaxis, :]
        several = scores[..., np.newaxis, :], log_counts[..., np.newaxis, :]
        proba = self._proba(*several)[..., 0, :]
        by_score = scores - (proba * scores).sum(-1)[..., np.newaxis]
        by_count = log_counts - (proba * log_counts).sum(-1)[..., np.newaxis]
        weighted = proba * by_score
        curvature, factors = self.curvature, self.factors
        curvature[..., 0] += (weighted * by_score).sum(-1)
        curvature[..., 1] += (weighted * by_count).sum(-1)
        curvature[..., 2] += (proba * by_count * by_count).sum(-1)
        first, mixed, last = (curvature[..., i] for i in range(3))
        up, across = _chosen(by_score, label), _chosen(by_count, label)
        determinant = first * last - mixed * mixed
        factors[..., 0] += (last * up - mixed * across) / determinant
        factors[..., 1] += (first * across - mixed * up) / determinant
        np.maximum(factors[..., 0], LOWEST, out=factors[..., 0])
        if isinstance(label, np.ndarray):
            self.counts[np.arange(len(label)), label] += 1
        else:
            self.counts[label] += 1

    def _proba(self, scores: Floats, log_counts: Floats) -> Floats:
        factors = self.factors[..., np.newaxis, np.newaxis, :]
        logits = factors[..., 0] * scores
        logits += factors[..., 1] * log_counts
        logits -= logits.max(-1, keepdims=True)
        proba: Floats = np.exp(logits, out=logits)
        proba /= proba.sum(-1, keepdims=True)
        return proba

    def add_classes(self, n: int) -> None:
        """Go on with more classes, none of which was seen."""
        room = np.zeros((*self.counts.shape[:-1], n))
        self.counts = np.concatenate([self.counts, room], -1)

    def retire(self, kept: Sequence[int]) -> None:
        """Keep some of the readouts only."""
        self.factors = self.factors[list(kept)]
        self.curvature = self.curvature[list(kept)]


def _chosen(values: Floats, label: int | NDArray[np.int64]) -> Floats:
    """Return numbers (K,) or (S, K) of a label (K, C), or of one for each set."""
    if not isinstance(label, np.ndarray):
        one: Floats = values[..., label]
        return one
    found: Floats = np.take_along_axis(values, label[:, None, None], -1)[..., 0]
    return found
