"""Walks that outlive their process: what is kept of them, and where.

``resuming`` says what must be kept so that a walk can go on to the same bits,
``checkpoint`` writes that down while it walks, ``saving`` keeps an estimator in one
file.
"""

from sklearn_mdl.persistence.checkpoint import ENVIRONMENT, Checkpoint
from sklearn_mdl.persistence.saving import FileMixin

__all__ = ["ENVIRONMENT", "Checkpoint", "FileMixin"]
