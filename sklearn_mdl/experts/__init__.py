"""Experts beside the stacks of nets: any classifier, and nearest neighbours."""

from sklearn_mdl.experts.base import Expert, learners_of
from sklearn_mdl.experts.estimators import (
    IncrementalExpert,
    RefittedExpert,
    WrappingExpert,
    warn_of_failures,
)
from sklearn_mdl.experts.neighbors import NeighborsReadout
from sklearn_mdl.experts.voting import NeighborsLearner
from sklearn_mdl.experts.wrapped import Context, WrappedLearner

__all__ = [
    "Context",
    "Expert",
    "IncrementalExpert",
    "NeighborsLearner",
    "NeighborsReadout",
    "RefittedExpert",
    "WrappedLearner",
    "WrappingExpert",
    "learners_of",
    "warn_of_failures",
]
