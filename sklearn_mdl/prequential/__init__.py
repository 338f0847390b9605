"""The walk: predict a minibatch, only then see its labels, learn from them, go on.

A *learner* is whatever predicts and has ``update``: a stack of readouts, an adapted
classifier, an encoder that learns. ``walk`` leads one learner over rows as a coroutine
that yields predictions and is sent labels; no label can leak into its own prediction,
because it does not exist yet when the prediction is made. ``Course`` leads many
learners over one stream, segment by segment, and keeps the trace that everything else
reads. What is predicted, classes or real numbers, is a matter of its ``Outcome``.
"""

from sklearn_mdl.prequential.course import Course
from sklearn_mdl.prequential.densities import (
    DensityLearner,
    DensityPrediction,
    RealTargets,
    TargetScaling,
    mixture_moments,
)
from sklearn_mdl.prequential.learner import ClassLearner, Learner, Rereader
from sklearn_mdl.prequential.outcomes import (
    ClassLabels,
    ClassPrediction,
    Outcome,
    Prediction,
)
from sklearn_mdl.prequential.walking import WalkState, score, walk

__all__ = [
    "ClassLabels",
    "ClassLearner",
    "ClassPrediction",
    "Course",
    "DensityLearner",
    "DensityPrediction",
    "Learner",
    "Outcome",
    "Prediction",
    "RealTargets",
    "Rereader",
    "TargetScaling",
    "WalkState",
    "mixture_moments",
    "score",
    "walk",
]
