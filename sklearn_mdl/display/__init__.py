"""Figures."""

from sklearn_mdl.display._base import (
    best_first as best_first,
    check_choice as check_choice,
)
from sklearn_mdl.display._codelengths import CodelengthDisplay
from sklearn_mdl.display._costs import CostDisplay
from sklearn_mdl.display._critical_difference import CriticalDifferenceDisplay
from sklearn_mdl.display._heatmap import RankingHeatmapDisplay
from sklearn_mdl.display._learning_curves import LearningCurveDisplay
from sklearn_mdl.display._pool_weights import PoolWeightsDisplay
from sklearn_mdl.display._posteriors import PosteriorDisplay
from sklearn_mdl.display._race import RaceDisplay
from sklearn_mdl.display._ranks import RankDisplay
from sklearn_mdl.display._regret_split import RegretSplitDisplay
from sklearn_mdl.display._segments import SegmentsDisplay
from sklearn_mdl.display._transfer import TransferDisplay
from sklearn_mdl.display._two_axes import TwoAxesDisplay
from sklearn_mdl.display._views import ViewPosteriorDisplay

__all__ = [
    "CodelengthDisplay",
    "CostDisplay",
    "CriticalDifferenceDisplay",
    "LearningCurveDisplay",
    "PoolWeightsDisplay",
    "PosteriorDisplay",
    "RaceDisplay",
    "RankDisplay",
    "RankingHeatmapDisplay",
    "RegretSplitDisplay",
    "SegmentsDisplay",
    "TransferDisplay",
    "TwoAxesDisplay",
    "ViewPosteriorDisplay",
]
