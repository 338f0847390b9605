"""Reference codes, learning curves, regret and prequential measures."""

from sklearn_mdl.metrics._detection import (
    DetectionMeasures,
    detection_measures,
    positive_probabilities,
)
from sklearn_mdl.metrics._escape import (
    EscapeCode as EscapeCode,
    blind_codelengths as blind_codelengths,
    escape_codelengths,
)
from sklearn_mdl.metrics._extrapolation import (
    Extrapolation,
    extrapolate,
    is_narrow as is_narrow,
)
from sklearn_mdl.metrics._label_counts import (
    LabelCounts as LabelCounts,
    LabelTransitions as LabelTransitions,
    costs_without_features as costs_without_features,
    decayed_frequency_codelengths,
    transition_codelengths,
)
from sklearn_mdl.metrics._learning_curves import (
    CurveReading,
    LossDataCurve,
    excess_description_length,
    loss_data_curve,
    sample_complexity,
    surplus_description_length,
)
from sklearn_mdl.metrics._measures import (
    PREDICTED as PREDICTED,
    PrequentialMeasures,
    RegressionMeasures,
    expected_calibration_error,
    measure as measure,
    measure_regression as measure_regression,
    summarise as summarise,
)
from sklearn_mdl.metrics._references import (
    frequency_codelength,
    frequency_codelengths,
    gaussian_codelengths,
    gaussian_costs as gaussian_costs,
    regret,
    uniform_codelength,
)

__all__ = [
    "CurveReading",
    "DetectionMeasures",
    "Extrapolation",
    "LossDataCurve",
    "PrequentialMeasures",
    "RegressionMeasures",
    "decayed_frequency_codelengths",
    "detection_measures",
    "escape_codelengths",
    "excess_description_length",
    "expected_calibration_error",
    "extrapolate",
    "frequency_codelength",
    "frequency_codelengths",
    "gaussian_codelengths",
    "loss_data_curve",
    "positive_probabilities",
    "regret",
    "sample_complexity",
    "surplus_description_length",
    "transition_codelengths",
    "uniform_codelength",
]
