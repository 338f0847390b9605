"""Units in which readouts learn real labels: the labels' mean and scale."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

EVEN = 2.0**-40  # smaller relative differences between labels count as zero
LEAST_SPREAD = 1e-300  # smaller absolute differences also count as zero
# Nine in ten Gaussian labels are within 1.64 standard deviations of the median. Labels
# beyond five times that distance, 8.2 standard deviations, are outliers.
CORE = 0.9
REACH = 5.0
OUTLIER = 8.2


class TargetScaling(NamedTuple):
    """Mean and standard deviation of labels seen so far, with outliers winsorised.

    Distances from the median are clipped at ``REACH`` times the distance within which
    the share ``CORE`` of labels lies, unless that distance is almost zero. So a few
    outliers have little effect. Without outliers, no label is clipped.

    Attributes
    ----------
    n_rows : int
    mean, scale : float
        In the units of the labels. The scale is 0 if all labels count as equal.
    """

    n_rows: int
    mean: float
    scale: float

    @classmethod
    def of(cls, y: Tensor) -> Self:
        """Compute the scaling of labels (n,), with exact sums."""
        labels = _winsorised(y.cpu().numpy())
        n = len(labels)
        mean = math.fsum(labels / n)
        gaps = labels - mean
        widest = float(np.abs(gaps).max())
        if widest <= max(EVEN * np.abs(labels).max(), LEAST_SPREAD):
            return cls(n, mean, 0.0)
        return cls(n, mean, widest * math.sqrt(math.fsum((gaps / widest) ** 2) / n))


def _winsorised(labels: np.ndarray) -> np.ndarray:
    """Clip outliers among labels (n,), unless nine in ten labels are equal."""
    median = np.median(labels)
    core = np.quantile(np.abs(labels - median), CORE, method="lower")
    bound = REACH * core if core > EVEN * np.abs(median) else np.inf
    return labels.clip(median - bound, median + bound)
