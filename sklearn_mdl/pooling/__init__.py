"""Pools, which combine different kinds of experts with weights learned online.

A switching mixture follows one expert at a time. If kinds of experts make different
errors, it is better to combine the kinds. A log-linear pool multiplies powers of the
kinds' predictions,

    p_t(y)  ~  prod_g q_gt(y) ^ w_g.

After coding each label, the pool updates the powers ``w`` by one exact Newton step on
the log-loss of that label.
"""

from sklearn_mdl.pooling._densities import DensityPoolPass as DensityPoolPass
from sklearn_mdl.pooling._groups import (
    GroupPass as GroupPass,
    Members as Members,
    without as without,
)
from sklearn_mdl.pooling._log_linear import LogLinearPool, PoolPass, PoolTrace

__all__ = ["LogLinearPool", "PoolPass", "PoolTrace"]
