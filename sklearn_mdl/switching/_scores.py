"""Sums, logs and normalisation of losses and log-probabilities."""

from __future__ import annotations

import math

import numpy as np

from sklearn_mdl.switching._prior import Floats

LEAST = float(np.finfo(np.float64).min)


def row_minima(losses: Floats) -> Floats:
    """Return the smallest loss of each row, or zero if all its losses are infinite."""
    minima: Floats = losses.min(axis=1)
    minima[np.isinf(minima)] = 0.0
    return minima


def condition_scores(scores: Floats, losses: Floats) -> tuple[float, Floats]:
    """Return the codelength of a label, and log probabilities conditioned on it.

    An impossible label costs infinitely many nats and is otherwise ignored.
    """
    joint = scores - losses
    top = float(joint.max())
    if top == -math.inf:
        return math.inf, scores
    evidence = top + math.log(float(np.exp(joint - top).sum()))
    return -evidence, joint - evidence


@np.errstate(divide="ignore")
def logs(values: Floats) -> Floats:
    """Return the logs of numbers that may be zero."""
    return np.log(values)


@np.errstate(divide="ignore")
def log_sums(scores: Floats) -> Floats:
    """Return the log of the sum of exp(scores) in each column."""
    top = np.maximum(np.maximum.reduce(scores, axis=0), LEAST)
    log_totals: Floats = np.log(np.add.reduce(np.exp(scores - top), axis=0)) + top
    return log_totals


def scaled_rows(state: Floats) -> tuple[Floats, Floats]:
    """Divide rows by their sums unless these are zero; return rows and log sums."""
    sums = np.add.reduce(state, axis=1)
    return state / np.where(sums > 0, sums, 1.0)[:, np.newaxis], logs(sums)


def softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Return exp(scores) with normalised rows, and the logs of the rows' sums."""
    top = scores.max(axis=1, keepdims=True)
    joint: Floats = np.exp(scores - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, (top + np.log(total))[:, 0]
