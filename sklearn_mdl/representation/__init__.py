"""Encoders x datasets x orders: codelengths, ranks, a scorer for model selection."""

from sklearn_mdl.representation.scorer import RepresentationScorer
from sklearn_mdl.representation.statistics import Ranking

__all__ = ["Ranking", "RepresentationScorer"]
