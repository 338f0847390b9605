"""Encoders x datasets x orders: codelengths, ranks, a scorer for model selection."""

from sklearn_mdl.representation.scorer import RepresentationScorer

__all__ = ["RepresentationScorer"]
