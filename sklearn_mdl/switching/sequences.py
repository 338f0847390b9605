"""Single sequences of experts: the most probable, the best in hindsight, their cost.

A mixture never costs more than what one sequence costs with its prior. With ``xi`` a
sequence of experts and ``pi`` the switching prior,

    codelength <= sum_t L_t(xi_t) - log pi(xi)

whatever ``xi``; the first term is what learning cost, the second what switching may
cost at most. This is how the regret splits in Theorem 1 of the paper: Li, Bornschein
and Hutter, 2023, Evaluating Representations with Readout Model Switching, ICLR.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching.blocks import checked_losses, cut, loss_array
from sklearn_mdl.switching.filtering import make_filter
from sklearn_mdl.switching.named import checked_components
from sklearn_mdl.switching.prior import Component, SwitchingPrior
from sklearn_mdl.switching.viterbi import most_probable_path

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


class ExpertSequence(NamedTuple):
    """A sequence of experts, what their predictions cost and what the prior asks.

    Attributes
    ----------
    experts : ndarray of shape (N,)
        The expert of every step, as a column of the losses.
    loss : float
        Sum of the losses of these experts, in nats.
    prior_cost : float
        Minus log probability of the sequence under the switching prior, in nats.
    """

    experts: Integers
    loss: float
    prior_cost: float

    @property
    def codelength(self) -> float:
        """Loss and prior cost, in nats: never less than the mixture's codelength."""
        return self.loss + self.prior_cost

    @property
    def starts(self) -> Integers:
        """First step of every block of one expert, counted from zero."""
        changes = np.flatnonzero(np.diff(self.experts)) + 1
        return np.concatenate([np.zeros(min(1, len(self.experts)), np.intp), changes])


def best_sequence(
    prior: SwitchingPrior | str | None,
    losses: ArrayLike,
    weights: ArrayLike | None = None,
) -> ExpertSequence:
    """Find the most probable sequence of experts given all labels.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands.
    losses : array-like of shape (N, K)
        Minus log probability that each expert gave to the label that came, in nats;
        plus infinity is allowed. May be memory-mapped.
    weights : array-like of shape (K,), optional
        Prior weights of the experts; uniform if not given.

    Returns
    -------
    sequence : ExpertSequence
        For priors with one row (the Bayesian and elementwise mixtures and fixed share)
        no sequence has a shorter `codelength`. The others have hidden variables, such
        as the rate of a run length: found are then the experts of the most probable
        sequence of experts *and* hidden variables, and `prior_cost` adds up all hidden
        variables that go with these experts.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is nothing that `as_prior` understands, or `losses` is an iterator.

    See Also
    --------
    best_segments : The best sequence with a given number of blocks, whatever its prior.

    Notes
    -----
    The algorithm of Viterbi, with O(n_rows K) operations a step since a new expert is
    drawn from the same weights wherever one comes from; its memory beyond the losses
    is O(n_rows (N + K)).

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Theorem 1 (the sequence ``xi*``).

    Examples
    --------
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> sequence = best_sequence("fixed-share", losses)
    >>> sequence.starts
    array([ 0, 20])
    >>> round(sequence.codelength, 1)
    6.1
    """
    array = loss_array(losses)
    components = checked_components(prior, len(array), array.shape[1], weights)
    paths = [
        most_probable_path(component.prior, component.w, array)
        for component in components
    ]
    scores = [
        math.log(component.probability) + score
        for component, (score, _) in zip(components, paths, strict=True)
    ]
    return _priced(paths[int(np.argmax(scores))][1], array, components)


def best_segments(
    losses: ArrayLike,
    n_blocks: int,
    prior: SwitchingPrior | str | None = None,
    weights: ArrayLike | None = None,
) -> ExpertSequence:
    """Find the sequence of at most so many blocks whose loss is least.

    It is chosen with hindsight and by its loss alone; what a switching prior asks for
    it is told, and does not matter for the choice.

    Parameters
    ----------
    losses : array-like of shape (N, K)
        Minus log probability that each expert gave to the label that came, in nats;
        plus infinity is allowed. May be memory-mapped.
    n_blocks : int
        Largest number of blocks of one expert each, at least 1.
    prior : SwitchingPrior, str or None
        The switching prior that prices the sequence, or what `as_prior` understands.
    weights : array-like of shape (K,), optional
        Prior weights of the experts; uniform if not given.

    Returns
    -------
    sequence : ExpertSequence
        Among all sequences with at most `n_blocks` blocks, one with the least `loss`.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is nothing that `as_prior` understands, or `losses` is an iterator.

    Notes
    -----
    Dynamic programming over steps, in O(n_blocks K) operations a step; its memory
    beyond the losses is O(n_blocks (N + K)).

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Theorem 1, and Appendix A.6.

    Examples
    --------
    >>> losses = [[0.0, 3.0]] * 20 + [[3.0, 0.0]] * 20
    >>> sequence = best_segments(losses, 2)
    >>> sequence.loss, sequence.starts
    (0.0, array([ 0, 20]))
    """
    array = loss_array(losses)
    components = checked_components(prior, len(array), array.shape[1], weights)
    if not isinstance(n_blocks, (int, np.integer)) or n_blocks < 1:
        raise ValueError(
            f"`n_blocks` must be an integer of at least 1, got {n_blocks=}; say how "
            "often the expert may change, plus one."
        )
    return _priced(_best_blocks(array, int(n_blocks)), array, components)


def sequence_cost(
    prior: SwitchingPrior | str | None,
    experts: ArrayLike,
    n_experts: int,
    weights: ArrayLike | None = None,
) -> float:
    """Cost of a sequence of experts under a switching prior.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands.
    experts : array-like of int of shape (N,)
        The expert of every step, from 0 to ``n_experts - 1``.
    n_experts : int
        Number ``K`` of experts to choose from.
    weights : array-like of shape (K,), optional
        Prior weights of the experts; uniform if not given.

    Returns
    -------
    cost : float
        ``-log p(xi_1, ..., xi_N)`` in nats, hidden variables summed out; infinity if
        the prior excludes the sequence.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is nothing that `as_prior` understands.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (2) and Theorem 1.

    Examples
    --------
    The paper's bound for two blocks, ``2 log K + log N``, says 8.3 nats here:

    >>> sequence_cost("fixed-share", [0] * 500 + [1] * 500, n_experts=2)
    10.93...
    """
    xi = np.asarray(experts)
    if xi.ndim != 1 or (xi.size and not np.issubdtype(xi.dtype, np.integer)):
        raise ValueError(
            "`experts` must be a vector of integers, got shape "
            f"{xi.shape} of {xi.dtype}; give the expert of every step."
        )
    components = checked_components(prior, len(xi), n_experts, weights)
    if xi.size and not (xi.min() >= 0 and xi.max() < n_experts):
        raise ValueError(
            f"`experts` must lie between 0 and {n_experts - 1}, got values from "
            f"{xi.min()} to {xi.max()}; count experts from zero."
        )
    return _path_cost(components, xi.astype(np.intp))


def _priced(
    experts: Integers, losses: NDArray[np.generic], components: list[Component]
) -> ExpertSequence:
    loss, start = 0.0, 0
    for block in cut(losses):
        chosen = experts[start : start + len(block), np.newaxis]
        loss += float(np.take_along_axis(block, chosen, 1).sum(dtype=np.float64))
        start += len(block)
    return ExpertSequence(experts, loss, _path_cost(components, experts))


def _path_cost(components: list[Component], experts: Integers) -> float:
    """Codelength of labels that these experts foretold and all others excluded.

    Experts that never speak are one expert with the sum of their weights, so that the
    cost of this does not grow with their number.
    """
    speakers, path = np.unique(experts, return_inverse=True)
    merged = [
        component._replace(
            w=np.append(component.w[speakers], np.delete(component.w, speakers).sum())
        )
        for component in components
    ]
    stream = make_filter(merged)
    cost = 0.0
    for steps in cut(path):
        losses = np.full((len(steps), len(speakers) + 1), np.inf)
        losses[np.arange(len(steps)), steps] = 0.0
        codelengths = np.empty(len(steps))
        stream.advance(losses, codelengths, np.empty_like(losses))
        cost += float(codelengths.sum())
    return cost


def _best_blocks(losses: NDArray[np.generic], n_blocks: int) -> Integers:
    """Experts of the best `n_blocks` blocks, by where each block's best path began.

    Row ``m`` of `total` holds the least loss of paths with ``m + 1`` blocks that end in
    each expert, and `start` the first step of their last block. The best path of every
    row at every step is kept: a block that begins was preceded by one of these.
    """
    n_steps, n_experts = losses.shape
    total = np.full((n_blocks, n_experts), np.inf)
    start = np.zeros((n_blocks, n_experts), dtype=np.intp)
    ends = np.zeros((n_steps, n_blocks, 2), dtype=np.intp)  # expert, first step
    rows, t = np.arange(n_blocks), 0
    total[0] = 0.0
    for block in cut(losses):
        for loss in checked_losses(block, n_experts).astype(np.float64):
            if t:
                best = ends[t - 1, :-1, 0]
                entering = total[rows[:-1], best][:, np.newaxis]
                enters = entering < total[1:]
                np.copyto(total[1:], entering, where=enters)
                start[1:][enters] = t
            total += loss
            ends[t, :, 0] = total.argmin(axis=1)
            ends[t, :, 1] = start[rows, ends[t, :, 0]]
            t += 1
    experts = np.zeros(n_steps, dtype=np.intp)
    row, stop = int(total.min(axis=1).argmin()), n_steps
    while stop:
        expert, begin = ends[stop - 1, row]
        experts[begin:stop] = expert
        row, stop = row - 1, int(begin)
    return experts
