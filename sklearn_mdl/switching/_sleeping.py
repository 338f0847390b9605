"""Forward pass over steps at which some experts are asleep.

A sleeping (retired) expert is given the loss of the mixture of the awake experts. This
loss depends on all parts of the mixture of priors. So steps are processed one by one,
with all parts together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching._filtering import LOW, TINY, Coding, MixtureFilter
from sklearn_mdl.switching._scores import LEAST, condition_scores, log_sums


@np.errstate(divide="ignore", invalid="ignore")  # a label may be impossible for all
def advance_awake(
    mixture: MixtureFilter, coding: Coding, awake: NDArray[np.bool_]
) -> bool:
    """Process rows at which the same experts are awake, with all parts together.

    Sleeping experts get the loss of the mixture of the awake experts.

    Returns
    -------
    is_done : bool
        False if filters cannot be joined, if a weight would become too small, or if a
        label is almost or entirely impossible. The mixture is then unchanged, and the
        rows must be processed in another way.
    """
    if (joined := mixture.joined(len(coding.losses))) is None:
        return False
    parts, w, state, rates = joined
    losses, codelengths, posterior = coding
    odds, least, asleep = mixture.odds.scores, state.copy(), ~awake
    rows = zip(losses, losses[:, awake], 1.0 - rates, rates * w, strict=True)
    for i, (loss, awake_loss, kept, drawn) in enumerate(rows):
        weights = odds - log_sums(odds[:, np.newaxis])
        scores = log_sums(weights[:, np.newaxis] + np.log(state))
        scores[asleep] = -np.inf
        scores -= max(float(log_sums(scores)), LEAST)
        posterior[i] = np.exp(scores)
        codelengths[i], _ = condition_scores(scores[awake], awake_loss)
        row = np.where(asleep, codelengths[i], loss)
        shift = np.minimum.reduce(row)
        state = state * np.exp(shift - row)
        totals = np.add.reduce(state, axis=1)
        if not (math.isfinite(shift) and (totals > TINY).all()):
            return False
        costs = np.array([shift - math.log(total) for total in totals.tolist()])
        odds = odds + (costs.min() - costs)
        state = kept * (state / totals[:, np.newaxis]) + drawn
        np.minimum(least, state, out=least)
    if (least < LOW * w).any():
        return False
    mixture.odds.scores = odds
    for part, row in zip(parts, state, strict=True):
        part.state, part.t = row[np.newaxis], part.t + len(losses)
    return True
