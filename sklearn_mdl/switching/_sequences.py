"""The most probable sequence of experts, the best sequence, and costs of sequences.

A mixture never costs more than a single sequence plus the cost of naming the sequence:

    codelength <= sum_t L_t(xi_t) - log pi(xi)

for every sequence of experts ``xi`` under the switching prior ``pi``. The first term is
the cost of learning, and the second bounds the cost of switching. This is the
decomposition of the regret in Theorem 1 of the paper: Li, Bornschein and Hutter, 2023,
Evaluating Representations with Readout Model Switching, ICLR.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching._checks import check_integer, invalid
from sklearn_mdl.switching._filtering import Coding, make_filter
from sklearn_mdl.switching._inputs import checked_losses, cut, loss_array
from sklearn_mdl.switching._prior import Component, Steps
from sklearn_mdl.switching._registry import PriorLike, checked_components
from sklearn_mdl.switching._viterbi import most_probable_path


class ExpertSequence(NamedTuple):
    """A sequence of experts, its loss, and its cost under the prior.

    Attributes
    ----------
    experts : ndarray of shape (N,)
        The expert of every step, as a column of the losses.
    loss : float
        Sum of the losses of these experts, in nats.
    prior_cost : float
        Minus log probability of the sequence under the switching prior, in nats.
    """

    experts: Steps
    loss: float
    prior_cost: float

    @property
    def codelength(self) -> float:
        """Loss plus prior cost in nats, never less than the mixture's codelength."""
        return self.loss + self.prior_cost

    @property
    def starts(self) -> Steps:
        """First step of every block (a run of one expert), counted from zero."""
        return np.flatnonzero(np.diff(self.experts, prepend=-1))


def best_sequence(
    prior: PriorLike, losses: ArrayLike, weights: ArrayLike | None = None
) -> ExpertSequence:
    """Find the most probable sequence of experts given all labels.

    If the prior has hidden variables, they are chosen together with the experts.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, its name, or None for `LearnedShare`.
    losses : array-like of shape (N, K)
        Minus log probability of each observed label under each expert, in nats. Plus
        infinity is allowed. NaN means that an expert has retired, and no sequence uses
        it from then on. The array may be memory-mapped.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given).

    Returns
    -------
    sequence : ExpertSequence
        Under a Bayesian mixture, elementwise mixture or fixed share, no sequence has a
        shorter `codelength`. Most other priors have hidden variables, for example ``m``
        in `LearnedShare`. The sequence is then part of the most probable combination of
        experts and hidden variables. `prior_cost` is the cost of this sequence of
        experts, with hidden variables summed out.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is neither a prior, nor a name, nor None, or `losses` is an iterator.

    See Also
    --------
    best_segments : Find the sequence of lowest loss with at most `n_blocks` blocks.

    Notes
    -----
    The Viterbi algorithm takes O(n_rows K) operations per step if the prior's states
    have ``n_rows`` rows (see `MarkovPrior`). A step does not compare all pairs of
    experts, since a new expert is drawn from the same weights after any expert. In
    addition to the losses, the algorithm needs O(n_rows (N + K)) memory.

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
    array = _awake_only(losses)
    components = checked_components(prior, len(array), array.shape[1], weights)
    paths = [most_probable_path(c.prior, c.w, array) for c in components]
    scores = np.log([c.probability for c in components]) + [score for score, _ in paths]
    return _with_cost(paths[int(np.argmax(scores))][1], array, components)


def best_segments(
    losses: ArrayLike,
    n_blocks: int,
    prior: PriorLike = None,
    weights: ArrayLike | None = None,
) -> ExpertSequence:
    """Find the sequence with the lowest loss and at most `n_blocks` blocks.

    The sequence is chosen in hindsight, by its loss only. Its cost under a switching
    prior is reported but does not affect the choice.

    Parameters
    ----------
    losses : array-like of shape (N, K)
        Minus log probability of each observed label under each expert, in nats. Plus
        infinity is allowed. NaN means that an expert has retired, and no sequence uses
        it from then on. The array may be memory-mapped.
    n_blocks : int
        Maximum number of blocks, at least 1. A block is a run of one expert.
    prior : SwitchingPrior, str or None
        The switching prior of `prior_cost`, its name, or None for `LearnedShare`.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given).

    Returns
    -------
    sequence : ExpertSequence
        A sequence with the lowest `loss` among all sequences of at most `n_blocks`
        blocks.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is neither a prior, nor a name, nor None, or `losses` is an iterator.

    Notes
    -----
    Dynamic programming takes O(n_blocks K) operations per step, and O(n_blocks (N + K))
    memory besides the losses.

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
    array = _awake_only(losses)
    components = checked_components(prior, len(array), array.shape[1], weights)
    check_integer("n_blocks", n_blocks, 1, "pass n_blocks=2 for one switch")
    return _with_cost(_best_blocks(array, int(n_blocks)), array, components)


def sequence_cost(
    prior: PriorLike,
    experts: ArrayLike,
    n_experts: int,
    weights: ArrayLike | None = None,
) -> float:
    """Return the cost of a sequence of experts under a switching prior.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, its name, or None for `LearnedShare`.
    experts : array-like of int of shape (N,)
        The expert of every step, from 0 to ``n_experts - 1``.
    n_experts : int
        Number ``K`` of experts to choose from.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given).

    Returns
    -------
    cost : float
        ``-log p(xi_1, ..., xi_N)`` in nats, with hidden variables summed out. The cost
        is infinite if the prior excludes the sequence.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is neither a prior, nor a name, nor None.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (2) and Theorem 1.

    Examples
    --------
    The paper's bound for two blocks, ``2 log K + log N``, is 8.3 nats here. It does not
    hold for every sequence (see `FixedShare`), such as this one:

    >>> sequence_cost("fixed-share", [0] * 500 + [1] * 500, n_experts=2)
    10.93...
    """
    xi = np.asarray(experts)
    if xi.ndim != 1 or (xi.size and not np.issubdtype(xi.dtype, np.integer)):
        raise ValueError(
            f"`experts` must be a vector of integers, got dtype {xi.dtype} and "
            f"shape {xi.shape}; for example, pass experts=[0, 0, 1]"
        )
    components = checked_components(prior, len(xi), n_experts, weights)
    if xi.size and not (xi.min() >= 0 and xi.max() < n_experts):
        wrong = int(xi.min() if xi.min() < 0 else xi.max())
        cure = "count experts from 0, or pass a larger n_experts"
        raise invalid("experts", f"between 0 and {n_experts - 1}", wrong, cure)
    return _path_cost(components, xi.astype(np.intp))


def _awake_only(losses: ArrayLike) -> NDArray[np.floating]:
    """Return losses (N, K) with NaN replaced by infinity, which excludes experts."""
    array = loss_array(losses)
    if not np.isnan(array[-1:]).any():  # no expert has retired
        return array
    checked_losses(array, array.shape[1], np.zeros(array.shape[1], dtype=bool))
    return np.where(np.isnan(array), np.inf, array)


def _with_cost(
    experts: Steps, losses: NDArray[np.floating], components: list[Component]
) -> ExpertSequence:
    loss = 0.0
    for rows in cut(losses):
        chosen = np.take_along_axis(losses[rows], experts[rows, np.newaxis], 1)
        loss += float(chosen.sum(dtype=np.float64))
    return ExpertSequence(experts, loss, _path_cost(components, experts))


def _path_cost(components: list[Component], experts: Steps) -> float:
    """Return the cost of a sequence of experts, in nats.

    The cost equals the codelength of labels that are possible only under this sequence.
    Unused experts are merged into one expert with the sum of their weights, so the time
    does not depend on the number of unused experts.
    """
    used, path = np.unique(experts, return_inverse=True)
    merged = [
        c._replace(w=np.append(c.w[used], np.delete(c.w, used).sum()))
        for c in components
    ]
    stream = make_filter(merged)
    cost = 0.0
    for rows in cut(path):
        steps = path[rows]
        losses = np.full((len(steps), len(used) + 1), np.inf)
        losses[np.arange(len(steps)), steps] = 0.0
        coding = Coding.of(losses)
        stream.advance(coding)
        cost += float(coding.codelengths.sum())
    return cost


def _best_blocks(losses: NDArray[np.generic], n_blocks: int) -> Steps:
    """Return the experts of the best path of at most `n_blocks` blocks.

    By dynamic programming, row ``m`` of `total` contains, for each expert, the lowest
    loss of paths with at most ``m + 1`` blocks that end in this expert. Row ``m`` of
    `start` contains, for each such path, the first step of its last block. The best
    path of each row is stored at every step, since a new block always follows a best
    path.
    """
    n_steps, n_experts = losses.shape
    total = np.full((n_blocks, n_experts), np.inf)
    start = np.zeros((n_blocks, n_experts), dtype=np.intp)
    ends = np.zeros((n_steps, n_blocks, 2), dtype=np.intp)  # expert, first step
    rows, t = np.arange(n_blocks), 0
    total[0] = 0.0
    for block in cut(losses):
        for loss in checked_losses(losses[block], n_experts).astype(np.float64):
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
