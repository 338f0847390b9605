"""Experts that look at images: networks that learn, and encoders that do not."""

from sklearn_mdl.finetune.estimators import FineTunedReadout, ScratchReadout
from sklearn_mdl.finetune.pairs import (
    FrozenReadout,
    as_readout,
    check_images,
    single_learners,
)

__all__ = [
    "FineTunedReadout",
    "FrozenReadout",
    "ScratchReadout",
    "as_readout",
    "check_images",
    "single_learners",
]
