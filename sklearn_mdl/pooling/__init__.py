"""Pools, which combine different kinds of experts with weights learned online.

A switching mixture follows one expert at a time. If kinds of experts make different
errors, combining the kinds predicts better. A log-linear pool multiplies powers of the
kinds' predictions,

    p_t(y)  ~  prod_g q_gt(y) ^ w_g.

After coding each label, the pool updates the powers ``w`` by one online Newton step.
The gradient of the step is that of the label's log-loss. The Hessian is the sum of the
Hessians of all log-losses so far, plus a prior precision.
"""

from sklearn_mdl.pooling._densities import DensityPoolPass as DensityPoolPass
from sklearn_mdl.pooling._groups import Members as Members, without as without
from sklearn_mdl.pooling._log_linear import (
    GroupPass as GroupPass,
    LogLinearPool,
    PoolPass,
    PoolTrace,
)

__all__ = ["LogLinearPool", "PoolPass", "PoolTrace"]
