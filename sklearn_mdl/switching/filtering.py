"""The forward pass over the losses of the experts, for whatever prior.

States are probabilities, not logs: a step is then one product, one sum and one
division, several times faster than adding in logs. Likelihoods are scaled by that of
the best expert, and a prior that shares lifts every weight again, so nothing that
matters underflows. Priors that never share are the exception: there a weight only ever
falls, would reach zero and could not come back; they use cumulative sums of logs.
"""

from __future__ import annotations

import copy
import math
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching.priors import SwitchingPrior, as_prior

Floats = NDArray[np.float64]

# Rows handled at a time: float64 copies and temporaries stay small next to the losses.
_CHUNK = 1024

# Below this a step's probability is worked out again in logs, before digits get lost.
_TINY = 1e-280


class ForwardTrace(NamedTuple):
    """What a forward pass leaves behind.

    Attributes
    ----------
    codelength : float
        Cost of all the labels of this pass, in nats; the sum of `codelengths`.
    codelengths : ndarray of shape (N,)
        Cost of each label given the labels before it, in nats.
    posterior : ndarray of shape (N, K)
        ``posterior[i, k]`` is the probability of expert ``k`` at that step given the
        labels *before* it, p(expert at t | y_{<t}).

    References
    ----------
    Li, Bornschein and Hutter, 2023, Algorithm 1: the codelength and ``Q``.
    """

    codelength: float
    codelengths: Floats
    posterior: Floats


class ForwardPass:
    """The forward pass over a stream that arrives in blocks.

    Any way of cutting the stream into blocks gives bitwise the same codelengths and
    posteriors. A pass can be pickled and copied between blocks.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands. It is copied, so that later
        changes of its parameters do not reach into a pass under way.
    n_experts : int
        Number of experts ``K``, at least 1.
    weights : array-like of shape (K,), optional
        Prior weights of the experts, non-negative with a positive sum; normalised here.
        Uniform if not given.

    Raises
    ------
    ValueError
        If a parameter of the prior, the number of experts or a weight is out of range.
    TypeError
        If `prior` is nothing that `as_prior` understands.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Algorithm 1, and Appendix A.3 (second stage).

    Examples
    --------
    >>> stream = ForwardPass("fixed-share", n_experts=2)
    >>> stream.extend([[0.0, 3.0], [0.0, 3.0]]).codelength
    0.945...
    >>> stream.weights.round(2)
    array([0.82, 0.18])
    >>> stream.n_steps
    2
    """

    def __init__(
        self,
        prior: SwitchingPrior | str | None,
        n_experts: int,
        weights: ArrayLike | None = None,
    ) -> None:
        prior = copy.deepcopy(as_prior(prior))
        prior.check_params()
        w = _normalised_weights(weights, n_experts)
        self._n_experts = n_experts
        self._n_steps = 0
        self._filter: _SharingFilter | _CumulativeFilter = (
            _SharingFilter(prior, w)
            if prior.shares
            else _CumulativeFilter(prior.initial(w).sum(axis=0))
        )

    @property
    def n_steps(self) -> int:
        """Number of steps seen so far."""
        return self._n_steps

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, given all labels so far.

        An ndarray of shape (K,) with the transition into that step already made: the
        row of the posterior that the next `extend` will begin with.
        """
        return self._filter.weights

    def extend(self, losses: ArrayLike) -> ForwardTrace:
        """Take in the next block of steps.

        Parameters
        ----------
        losses : array-like of shape (n, K)
            Minus log probability that each expert gave to the label that came, in nats.
            Plus infinity is allowed: that expert held the label impossible. Computed in
            float64 whatever the dtype; read in chunks, so it may be memory-mapped.

        Returns
        -------
        trace : ForwardTrace
            Codelength, codelengths and posteriors of this block alone.

        Raises
        ------
        ValueError
            If `losses` has not the shape (n, K), or holds NaN or minus infinity. The
            pass is then as it was before the call.

        Notes
        -----
        A label to which every expert with positive weight gives probability zero costs
        infinitely many nats. It teaches nothing about the experts: the weights of that
        step are carried to the next as if the label had not been seen.
        """
        array = _checked_losses(losses, self._n_experts)
        codelengths, posterior = np.empty(len(array)), np.empty(array.shape)
        for start in range(0, len(array), _CHUNK):
            rows = slice(start, start + _CHUNK)
            block = np.ascontiguousarray(array[rows], dtype=np.float64)
            self._filter.advance(block, codelengths[rows], posterior[rows])
            self._n_steps += len(block)
        return ForwardTrace(float(codelengths.sum()), codelengths, posterior)


def forward(
    prior: SwitchingPrior | str | None,
    losses: ArrayLike,
    weights: ArrayLike | None = None,
) -> ForwardTrace:
    """Mix experts under a switching prior, in one pass over their losses.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands.
    losses : array-like of shape (N, K)
        Minus log probability that each expert gave to the label that came, in nats;
        plus infinity is allowed (see `ForwardPass.extend`).
    weights : array-like of shape (K,), optional
        Prior weights of the experts, non-negative with a positive sum; normalised here.
        Uniform if not given.

    Returns
    -------
    trace : ForwardTrace
        Codelength and codelengths in nats, and the posterior over experts before each
        label.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range.
    TypeError
        If `prior` is nothing that `as_prior` understands.

    See Also
    --------
    ForwardPass : The same for a stream that arrives in blocks.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (1) and Algorithm 1.

    Examples
    --------
    >>> trace = forward("fixed-share", [[0.1, 2.0], [0.1, 2.0], [2.0, 0.1]])
    >>> trace.codelength
    2.28...
    >>> trace.posterior.round(2)
    array([[0.5 , 0.5 ],
           [0.68, 0.32],
           [0.79, 0.21]])
    """
    array = np.asarray(losses)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(_shape_message("n_experts", array))
    return ForwardPass(prior, array.shape[1], weights).extend(array)


class _SharingFilter:
    """State of a prior that shares: probabilities, renormalised at every step."""

    def __init__(self, prior: SwitchingPrior, w: Floats) -> None:
        self.prior = prior
        self.w = w
        self.state = prior.initial(w)
        self.t = 1

    @property
    def weights(self) -> Floats:
        weights: Floats = np.add.reduce(self.state, axis=0)
        return weights

    def advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        """Walk the rows of `losses`, and write into the other two arrays."""
        shifts = _row_minima(losses)
        likelihoods = np.exp(shifts[:, np.newaxis] - losses)
        state, t, w, transition = self.state, self.t, self.w, self.prior.transition
        for i, shift in enumerate(shifts.tolist()):
            np.add.reduce(state, axis=0, out=posterior[i])
            joint = state * likelihoods[i]
            total = float(np.add.reduce(joint, axis=None))
            if total > _TINY:
                codelengths[i] = shift - math.log(total)
                joint /= total
            else:
                codelengths[i], joint = _condition_in_logs(state, losses[i])
            t += 1
            state = transition(joint, w, t)
        self.state, self.t = state, t


class _CumulativeFilter:
    """State of a prior that never shares: log weights, never renormalised.

    Each row's smallest loss is set apart, so that the sums of good experts stay small
    and keep their digits; and nothing is subtracted at the borders of a block, so that
    every cutting adds the same numbers in the same order.
    """

    def __init__(self, w: Floats) -> None:
        with np.errstate(divide="ignore"):  # a weight of zero is a score of -inf
            self.scores: Floats = np.log(w)

    @property
    def weights(self) -> Floats:
        weights: Floats = _softmax(self.scores[np.newaxis, :])[0][0]
        return weights

    def advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        """Walk the rows of `losses`, and write into the other two arrays."""
        shifts = _row_minima(losses)
        scores = np.empty((len(losses) + 1, losses.shape[1]))
        scores[0] = self.scores
        np.subtract(shifts[:, np.newaxis], losses, out=scores[1:])
        impossible = self._impossible_rows(losses)
        scores[1:][impossible] = 0.0
        np.add.accumulate(scores, axis=0, out=scores)
        probabilities, evidence = _softmax(scores)
        posterior[:] = probabilities[:-1]
        codelengths[:] = shifts - np.diff(evidence)
        codelengths[impossible] = math.inf
        self.scores = scores[-1].copy()

    def _impossible_rows(self, losses: Floats) -> list[int]:
        """Rows whose label is impossible for every expert that is still alive."""
        alive = self.scores > -math.inf
        dead = np.isinf(losses)
        impossible = []
        for i in np.flatnonzero(dead.any(axis=1)).tolist():
            left = alive & ~dead[i]
            if left.any():
                alive = left
            else:
                impossible.append(i)
        return impossible


def _row_minima(losses: Floats) -> Floats:
    """Smallest loss of each row, or zero where all are infinite: never inf - inf."""
    minima: Floats = losses.min(axis=1)
    minima[np.isinf(minima)] = 0.0
    return minima


def _condition_in_logs(state: Floats, losses: Floats) -> tuple[float, Floats]:
    """Condition on a label that is nearly or wholly impossible for the mixture."""
    with np.errstate(divide="ignore"):
        scores = np.log(state) - losses
    top = float(scores.max())
    if top == -math.inf:
        return math.inf, state
    joint = np.exp(scores - top)
    total = float(joint.sum())
    return -(top + math.log(total)), joint / total


def _softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Normalise exp(scores) row by row; also return the log of each row's sum."""
    top = scores.max(axis=1, keepdims=True)
    joint: Floats = np.exp(scores - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, (top + np.log(total))[:, 0]


def _normalised_weights(weights: ArrayLike | None, n_experts: int) -> Floats:
    """Prior weights that sum to one; uniform if none are given."""
    if not isinstance(n_experts, Integral) or n_experts < 1:
        raise ValueError(
            f"`n_experts` must be an integer of at least 1, got {n_experts=}; give one "
            "column of losses per expert."
        )
    if weights is None:
        return np.full(n_experts, 1.0 / n_experts)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n_experts,):
        raise ValueError(
            f"`weights` must have shape ({n_experts},), got {w.shape}; give one weight "
            "per expert."
        )
    if not np.isfinite(w).all() or w.min() < 0 or w.sum() <= 0:
        raise ValueError(
            "`weights` must be finite and non-negative with a positive sum, got "
            f"{w.tolist()!r}; give a positive weight to each expert that may speak."
        )
    normalised: Floats = w / w.sum()
    return normalised


def _checked_losses(losses: ArrayLike, n_experts: int) -> NDArray[np.floating]:
    """Losses as a floating array of shape (n, K) without NaN or minus infinity."""
    array = np.asarray(losses)
    if array.ndim != 2 or array.shape[1] != n_experts:
        raise ValueError(_shape_message(str(n_experts), array))
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    # The minimum is NaN if any loss is: one pass, no mask as large as the losses.
    lowest = array.min(initial=math.inf)
    if not lowest > -math.inf:
        raise ValueError(
            "`losses` must be numbers in nats or plus infinity, got a smallest value "
            f"of {float(lowest)!r}; look for the expert whose probabilities are wrong."
        )
    return array


def _shape_message(n_experts: str, array: NDArray[np.generic]) -> str:
    return (
        f"`losses` must have shape (n_steps, {n_experts}), got {array.shape}; give one "
        "row per step and one column per expert."
    )
