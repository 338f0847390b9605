"""The forward pass: codelengths and the predictive posterior, for whatever prior."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching.blocks import checked_losses, cut, loss_blocks
from sklearn_mdl.switching.filtering import make_filter
from sklearn_mdl.switching.keeping import PosteriorKeeper
from sklearn_mdl.switching.named import as_prior
from sklearn_mdl.switching.prior import SwitchingPrior
from sklearn_mdl.switching.weights import normalised_weights

Floats = NDArray[np.float64]


class ForwardTrace(NamedTuple):
    """What a forward pass leaves behind.

    Attributes
    ----------
    codelength : float
        Cost of all the labels of this pass, in nats; the sum of `codelengths`.
    codelengths : ndarray of shape (N,)
        Cost of each label given the labels before it, in nats.
    posterior : ndarray of shape (n_kept, K) or (n_kept, n_groups)
        ``posterior[i, k]`` is the probability of expert ``k``, or of group ``k``, at
        step ``steps[i]`` given the labels *before* it, p(expert at t | y_{<t}).
    steps : ndarray of shape (n_kept,)
        The steps of the posterior's rows, counted from zero; all of them unless the
        posterior was thinned.
    groups : tuple or None
        Names of the posterior's columns, if experts were grouped.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Algorithm 1: the codelength and ``Q``.
    """

    codelength: float
    codelengths: Floats
    posterior: Floats
    steps: NDArray[np.intp]
    groups: tuple[Hashable, ...] | None = None


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
        Uniform if not given; see `group_weights` for another choice.

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
        self._prior = copy.deepcopy(as_prior(prior))
        self._prior.check_params()
        w = normalised_weights(weights, n_experts)
        self._n_experts = n_experts
        self._n_steps = 0
        self._filter = make_filter(self._prior.components(w))

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

    def check_length(self, n_steps: int) -> None:
        """Check that the stream may go on for so many steps more.

        Parameters
        ----------
        n_steps : int
            Length of the block to come.

        Raises
        ------
        ValueError
            If the prior refuses a stream of that length.
        """
        self._prior.check_length(self._n_steps + n_steps)

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
            If `losses` has not the shape (n, K), or holds NaN or minus infinity, or if
            the stream becomes longer than the prior allows. The pass is then as it was
            before the call.

        Notes
        -----
        A label to which every expert with positive weight gives probability zero costs
        infinitely many nats. It teaches nothing about the experts: the weights of that
        step are carried to the next as if the label had not been seen.
        """
        array = checked_losses(losses, self._n_experts)
        self.check_length(len(array))
        codelengths, posterior = np.empty(len(array)), np.empty(array.shape)
        start = 0
        for part in cut(array):
            rows = slice(start, start + len(part))
            block = np.ascontiguousarray(part, dtype=np.float64)
            self._filter.advance(block, codelengths[rows], posterior[rows])
            start = rows.stop
        steps = self._n_steps + np.arange(len(array))
        self._n_steps += len(array)
        return ForwardTrace(float(codelengths.sum()), codelengths, posterior, steps)


def forward(
    prior: SwitchingPrior | str | None,
    losses: ArrayLike | Iterator[ArrayLike],
    weights: ArrayLike | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
    max_rows: int | None = None,
) -> ForwardTrace:
    """Mix experts under a switching prior, in one pass over their losses.

    Besides the losses and what it returns it needs memory for the state of the prior
    and at most some tens of megabytes.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, or what `as_prior` understands.
    losses : array-like of shape (N, K), or iterator of array-like of shape (n, K)
        Minus log probability that each expert gave to the label that came, in nats;
        plus infinity is allowed (see `ForwardPass.extend`). A memory-mapped array is
        read block by block, as are the blocks of an iterator.
    weights : array-like of shape (K,), optional
        Prior weights of the experts, non-negative with a positive sum; normalised here.
        Uniform if not given; see `group_weights` for another choice.
    groups : sequence of length K, optional
        The group of each expert, such as the architecture of each readout. The
        posterior then has one column per group, in order of first appearance.
    max_rows : int, optional
        Keep at most so many rows of the posterior: those of every ``2^j``-th step from
        the first on, for the smallest ``j`` that does. 0 keeps none; by default all are
        kept.

    Returns
    -------
    trace : ForwardTrace
        Codelength and codelengths in nats, and the posterior over experts before each
        label.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
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
    blocks = loss_blocks(losses)
    first = next(blocks)
    stream = ForwardPass(prior, first.shape[1], weights)
    keeper = PosteriorKeeper(first.shape[1], groups, max_rows)
    if not isinstance(losses, Iterator):
        n_steps = len(np.asanyarray(losses))
        stream.check_length(n_steps)  # refuses what is too long before the work
        keeper.reserve(n_steps)
    codelengths = [np.empty(0)]
    for block in blocks:
        trace = stream.extend(block)
        codelengths.append(trace.codelengths)
        keeper.append(trace.posterior)
    found = np.concatenate(codelengths)
    posterior, steps = keeper.result()
    return ForwardTrace(float(found.sum()), found, posterior, steps, keeper.names)
