"""The log-linear pool of densities: Gaussians, whose product is one again."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.pooling._groups import GroupPass
from sklearn_mdl.pooling._log_linear import LogLinearPool

Floats = NDArray[np.float64]


class GaussianPoolPass(GroupPass):
    def __init__(self, pool: LogLinearPool, n_groups: int) -> None:
        pool.check_params()
        self.weights = np.full(n_groups, 1 / n_groups)
        self._hessian = float(pool.prior_precision) * np.eye(n_groups)
