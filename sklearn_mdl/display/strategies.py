"""Switching strategies that read the same losses, and what to hold them against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    LearnedShare,
    RunLength,
    SwitchDistribution,
    SwitchingPrior,
    best_segments,
    forward,
    sequence_cost,
)

Strategies = Mapping[str, SwitchingPrior | str]


def usual_strategies() -> dict[str, SwitchingPrior | str]:
    """Return the strategies of the paper, and the two others that cost O(K) a step."""
    return {
        "learned share": LearnedShare(),
        "fixed share, m = 2": FixedShare(m=2),
        "switch distribution": SwitchDistribution(),
        "run length": RunLength(),
        "Bayesian mixture": BayesMixture(),
        "elementwise mixture": ElementwiseMixture(),
    }


def mix(
    losses: ArrayLike, strategies: Strategies | None, weights: ArrayLike | None
) -> dict[str, NDArray[np.float64]]:
    """Return the codelength of every example under every strategy, in nats."""
    chosen = usual_strategies() if strategies is None else strategies
    if not chosen:
        raise ValueError("`strategies` must name a prior, got none: give one or more.")
    return {
        name: np.array(forward(prior, losses, weights).codelengths)
        for name, prior in chosen.items()
    }


class Blocks(NamedTuple):
    """The best sequence of a few blocks of one readout each, with hindsight.

    Attributes
    ----------
    readouts : ndarray of shape (N,)
    losses : ndarray of shape (N,)
        In nats.
    """

    readouts: NDArray[np.intp]
    losses: NDArray[np.float64]


def best_blocks(losses: Any, n_blocks: int) -> Blocks:
    """Find the sequence of at most so many blocks that costs least."""
    readouts = best_segments(losses, n_blocks).experts
    array = np.asarray(losses)
    chosen = np.take_along_axis(array, readouts[:, None], axis=1)[:, 0]
    return Blocks(readouts, chosen.astype(np.float64))


def prior_costs(
    strategies: Strategies | None,
    readouts: NDArray[np.intp],
    n_readouts: int,
    weights: ArrayLike | None,
) -> dict[str, float]:
    """Return what every strategy may ask at most for following this sequence."""
    chosen = usual_strategies() if strategies is None else strategies
    return {
        name: sequence_cost(prior, readouts, n_readouts, weights)
        for name, prior in chosen.items()
    }
