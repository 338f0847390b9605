"""Pools: predictions of kinds of experts, combined with weights learned online.

A switching prior bets on one expert at a time. Kinds of experts that err differently
are better combined: a log-linear pool multiplies powers of their predictions,

    p_t(y)  ~  prod_g q_gt(y) ^ w_g,

and learns the powers ``w`` by one exact Newton step of the log-loss for every label,
after the label was coded.
"""

from sklearn_mdl.pooling._densities import DensityPoolPass as DensityPoolPass
from sklearn_mdl.pooling._groups import (
    GroupPass as GroupPass,
    Members as Members,
    without as without,
)
from sklearn_mdl.pooling._log_linear import LogLinearPool, PoolPass, PoolTrace

__all__ = ["LogLinearPool", "PoolPass", "PoolTrace"]
