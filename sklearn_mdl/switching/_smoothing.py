"""Smoothed posteriors over experts at each step, given all labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching._filtering import (
    Coding,
    CumulativeFilter,
    MarkovFilter,
    MixtureFilter,
)
from sklearn_mdl.switching._forward import filled_losses
from sklearn_mdl.switching._inputs import checked_losses, loss_array
from sklearn_mdl.switching._prior import Component, Floats, apply_adjoint, apply_log
from sklearn_mdl.switching._registry import PriorLike, checked_components
from sklearn_mdl.switching._scores import condition_scores
from sklearn_mdl.switching._thinning import PosteriorThinner

# Maximum number of values in the states between two checkpoints. A very long stream
# needs more, since its checkpoints would take even more memory otherwise.
_HELD = 2**22


def smoothed_posterior(
    prior: PriorLike,
    losses: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    kinds: Sequence[Hashable] | None = None,
) -> Floats:
    """Return the probability of each expert at each step given *all* labels.

    The posterior of `forward` is for prediction, so it only uses the labels before a
    step. This posterior is for explanation, so it also uses the label of the step and
    all later labels.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, its name, or None for `LearnedShare`.
    losses : array-like of shape (N, K)
        Minus log probability of each observed label under each expert, in nats. Plus
        infinity is allowed. A memory map without NaN is read in blocks. NaN means that
        an expert has retired. A retired expert is treated as if it predicted like the
        mixture of the remaining experts. So labels after its retirement are no evidence
        for or against the expert, whose probability may stay positive.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given).
    kinds : sequence of length K, optional
        The kind of each expert. The result then has one column per kind, in order of
        first appearance.

    Returns
    -------
    posterior : ndarray of shape (N, K) or (N, n_kinds)
        p(expert at t | y_1, ..., y_N).

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is neither a prior, nor a name, nor None, or `losses` is an iterator.

    Notes
    -----
    The algorithm is the forward-backward recursion. To save memory, states are stored
    at checkpoints and recomputed between them. As in `forward`, probabilities are not
    conditioned on a label that is impossible for every expert.

    References
    ----------
    Rabiner, 1989, A tutorial on hidden Markov models, Proceedings of the IEEE 77.

    Examples
    --------
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> smoothed_posterior("fixed-share", losses)[[0, 19, 20, 39], 0].round(2)
    array([0.98, 0.95, 0.05, 0.  ])
    """
    array = filled_losses(loss_array(losses), prior, weights)
    components = checked_components(prior, len(array), array.shape[1], weights)
    thinner = PosteriorThinner(array.shape[1], kinds)
    thinner.reserve(len(array))
    for rows in _backward(components, array):
        thinner.append(rows)
    return thinner.result()[0][::-1]


def _backward(
    components: list[Component], losses: NDArray[np.generic]
) -> Iterator[Floats]:
    """Yield smoothed posteriors (n, K) block by block, from the last step backwards."""
    # Memory must hold all checkpoints, and the states between two of them.
    n_steps, n_experts = losses.shape
    last = max(2, n_steps)
    n_states = n_experts * max(len(c.prior.transition(last).draw) for c in components)
    n_rows = max(1, math.isqrt(n_steps), min(1024, _HELD // n_states))
    starts = range(0, n_steps, n_rows)

    def block_from(start: int) -> Floats:
        block = checked_losses(losses[start : start + n_rows], n_experts)
        return np.ascontiguousarray(block, dtype=np.float64)

    mixture = MixtureFilter(components)
    checkpoints = []
    for start in starts:
        checkpoints.append([copy.copy(part) for part in mixture.filters])
        mixture.advance(Coding.of(block_from(start)))
    odds, last = mixture.odds.weights, [part.weights for part in mixture.filters]
    messages: list[Floats | None] = [None] * len(components)
    for start in starts[::-1]:
        block, parts = block_from(start), checkpoints.pop()
        mean = np.zeros_like(block)
        for j, part in enumerate(parts):
            if isinstance(part, CumulativeFilter):  # one expert for the whole stream
                mean += odds[j] * last[j]
            else:
                rows, messages[j] = _smooth(part, block, messages[j])
                mean += odds[j] * rows
        yield mean[::-1]


def _smooth(
    part: MarkovFilter, losses: Floats, message: Floats | None
) -> tuple[Floats, Floats | None]:
    """Smooth a block of steps in log space, to avoid underflow.

    Parameters
    ----------
    part : MarkovFilter
        The filter before the block. It is advanced in place.
    losses : ndarray of shape (n, K)
    message : ndarray of shape (n_rows, K) or None
        Log probability, up to a constant, of all labels after the block, given the
        state at the last step of the block. None if no block follows.

    Returns
    -------
    posterior : ndarray of shape (n, K)
    message : ndarray of shape (n_rows, K) or None
        The message for the last step before the block.
    """
    first, prior, w = part.t, part.prior, part.w
    states: list[Floats] = []
    _, codelengths, posterior = coding = Coding.of(losses)
    part.advance(coding, states)
    for i in range(len(losses) - 1, -1, -1):
        message = np.zeros_like(states[i]) if message is None else message
        _, smoothed = condition_scores(states[i], -message)
        posterior[i] = np.exp(smoothed).sum(axis=0)
        if codelengths[i] < np.inf:  # an impossible label is ignored
            message = condition_scores(message, losses[i])[1]
        if first + i > 1:
            back = partial(apply_adjoint, w=w, transition=prior.transition(first + i))
            message = apply_log(message, back)
    return posterior, message
