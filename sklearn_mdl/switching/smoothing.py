"""Which expert explains a step, given the labels before it, its own and those after."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching.blocks import checked_losses, loss_array
from sklearn_mdl.switching.filtering import (
    CumulativeFilter,
    MarkovFilter,
    MixtureFilter,
    condition_scores,
)
from sklearn_mdl.switching.keeping import PosteriorKeeper
from sklearn_mdl.switching.moves import carry_back, in_bands
from sklearn_mdl.switching.named import checked_components
from sklearn_mdl.switching.prior import Component, SwitchingPrior

Floats = NDArray[np.float64]

# Numbers of the states that are held between two checkpoints, if that are steps enough.
_HELD = 2**22


def smoothed_posterior(
    prior: SwitchingPrior | str | None,
    losses: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
) -> Floats:
    """Probability of each expert at each step given *all* labels.

    The posterior of `forward` says who should speak before a label is seen; this one
    says, after the last label, who explains it.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands.
    losses : array-like of shape (N, K)
        Minus log probability that each expert gave to the label that came, in nats;
        plus infinity is allowed. May be memory-mapped; read twice, in blocks.
    weights : array-like of shape (K,), optional
        Prior weights of the experts; uniform if not given.
    groups : sequence of length K, optional
        The group of each expert; the result then has one column per group, in order of
        first appearance.

    Returns
    -------
    posterior : ndarray of shape (N, K) or (N, n_groups)
        p(expert at t | y_1, ..., y_N).

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is nothing that `as_prior` understands, or `losses` is an iterator.

    Notes
    -----
    Forward and backward recursion. States are kept at checkpoints and worked out again
    between them, so that the memory beyond losses and result does not grow with ``N``
    but for the checkpoints. A label that every expert holds impossible teaches nothing,
    as in `forward`.

    References
    ----------
    Rabiner, 1989, A tutorial on hidden Markov models, Proceedings of the IEEE 77.

    Examples
    --------
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> smoothed_posterior("fixed-share", losses)[[0, 19, 20, 39], 0].round(2)
    array([0.98, 0.95, 0.05, 0.  ])
    """
    array = loss_array(losses)
    components = checked_components(prior, len(array), array.shape[1], weights)
    backward = _Backward(components, array)
    keeper = PosteriorKeeper(array.shape[1], groups)
    keeper.reserve(len(array))
    for rows in backward:
        keeper.append(rows)
    return keeper.result()[0][::-1]


class _Backward:
    """Smoothed posteriors from the last step to the first, block by block.

    Parameters
    ----------
    components : list of Component
    losses : ndarray of shape (N, K)
    """

    def __init__(
        self, components: list[Component], losses: NDArray[np.generic]
    ) -> None:
        self.components = components
        self.losses = losses
        self.n_rows = _segment_length(components, losses)
        self.starts = range(0, len(losses), self.n_rows)
        mixture = MixtureFilter(components)
        self.checkpoints = []
        for start in self.starts:
            self.checkpoints.append([copy.copy(part) for part in mixture.filters])
            block = self._block(start)
            mixture.advance(block, np.empty(len(block)), np.empty_like(block))
        self.odds = mixture.odds.weights
        self.last = [part.weights for part in mixture.filters]

    def __iter__(self) -> Iterator[Floats]:
        """Yield blocks of shape (n, K), the last steps first, in reversed order."""
        messages: list[Floats | None] = [None] * len(self.components)
        for start, parts in zip(self.starts[::-1], self.checkpoints[::-1], strict=True):
            block = self._block(start)
            mean = np.zeros_like(block)
            for j, part in enumerate(parts):
                if isinstance(part, CumulativeFilter):  # one expert explains all steps
                    mean += self.odds[j] * self.last[j]
                else:
                    rows, messages[j] = _smooth(part, block, messages[j])
                    mean += self.odds[j] * rows
            yield mean[::-1]

    def _block(self, start: int) -> Floats:
        block = checked_losses(
            self.losses[start : start + self.n_rows], self.losses.shape[1]
        )
        return np.ascontiguousarray(block, dtype=np.float64)


def _segment_length(components: list[Component], losses: NDArray[np.generic]) -> int:
    """Count steps between checkpoints: few states, or as many as checkpoints."""
    n_steps, n_experts = losses.shape
    last = max(2, n_steps)
    n_rows = max(len(component.prior.moves(last).draw) for component in components)
    few: int = min(1024, _HELD // (n_rows * n_experts))
    return max(1, math.isqrt(n_steps), few)


def _smooth(
    part: MarkovFilter, losses: Floats, message: Floats | None
) -> tuple[Floats, Floats | None]:
    """Smooth a block of steps, in logs: what lies ahead may outweigh what lies behind.

    Parameters
    ----------
    part : MarkovFilter
        As it was before the block; it is moved on.
    losses : ndarray of shape (n, K)
    message : ndarray of shape (n_rows, K) or None
        Log probability of all labels after the block given the state of its last step,
        up to a constant; None if there are none.

    Returns
    -------
    posterior : ndarray of shape (n, K)
    message : ndarray of shape (n_rows, K) or None
        The same for the last step before the block.
    """
    first, prior, w = part.t, part.prior, part.w
    states: list[Floats] = []
    codelengths, posterior = np.empty(len(losses)), np.empty_like(losses)
    part.advance(losses, codelengths, posterior, states)
    for i in range(len(losses) - 1, -1, -1):
        message = np.zeros_like(states[i]) if message is None else message
        _, told = condition_scores(states[i], -message)
        posterior[i] = np.exp(told).sum(axis=0)
        if codelengths[i] < np.inf:  # an impossible label teaches nothing
            message = condition_scores(message, losses[i])[1]
        if first + i > 1:
            back = partial(carry_back, w=w, moves=prior.moves(first + i))
            message = in_bands(message, back)
    return posterior, message
