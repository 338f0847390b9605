"""Reference codes for labels, the difference between two codes, and learning curves.

All codelengths are in nats and measured against the labels alone.
"""

from sklearn_mdl.codelength.curves import (
    CurveReading,
    LossDataCurve,
    loss_data_curve,
    sample_complexity,
    surplus_description_length,
)
from sklearn_mdl.codelength.gaussian import gaussian_codelengths
from sklearn_mdl.codelength.references import (
    frequency_codelength,
    frequency_codelengths,
    regret,
    uniform_codelength,
)

__all__ = [
    "CurveReading",
    "LossDataCurve",
    "frequency_codelength",
    "frequency_codelengths",
    "gaussian_codelengths",
    "loss_data_curve",
    "regret",
    "sample_complexity",
    "surplus_description_length",
    "uniform_codelength",
]
