"""The forward pass: codelengths and the predictive posterior, for every prior."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching._checks import invalid
from sklearn_mdl.switching._filtering import Coding, MixtureFilter, make_filter
from sklearn_mdl.switching._inputs import (
    checked_losses,
    cut,
    loss_blocks,
    normalised_weights,
)
from sklearn_mdl.switching._registry import PriorLike, as_prior
from sklearn_mdl.switching._scores import condition_scores, log_sums, logs
from sklearn_mdl.switching._sleeping import advance_awake
from sklearn_mdl.switching._thinning import PosteriorThinner

Floats = NDArray[np.float64]


class ForwardTrace(NamedTuple):
    """Result of a forward pass.

    Attributes
    ----------
    codelength : float
        Cost of all labels of this pass in nats, the sum of `codelengths`.
    codelengths : ndarray of shape (N,)
        Cost of each label given the labels before it, in nats.
    posterior : ndarray of shape (n_kept, K) or (n_kept, n_kinds)
        ``posterior[i, k]`` is the probability of expert ``k``, or of kind ``k``, at
        step ``steps[i]`` given the labels *before* it, p(expert at t | y_{<t}).
    steps : ndarray of shape (n_kept,)
        Steps of the posterior's rows, counted from zero. These are all steps unless the
        posterior was thinned.
    kinds : tuple or None
        Names of the columns of the posterior, if experts were grouped.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Algorithm 1: the codelength and ``Q``.
    """

    codelength: float
    codelengths: Floats
    posterior: Floats
    steps: NDArray[np.intp]
    kinds: tuple[Hashable, ...] | None = None


class ForwardPass:
    """The forward pass over a stream that arrives in blocks.

    Codelengths and posteriors are bitwise identical however you split the stream into
    blocks. Between blocks, you can pickle a pass or copy it. Copies share no state.

    Labels may be delayed. Step ``t`` is then coded with the posterior given the labels
    known at that step, advanced by the prior's transitions over the unlabelled steps.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, its name, or None for `LearnedShare`. The pass copies the
        prior, so later changes to the prior's parameters have no effect.
    n_experts : int
        Number of experts ``K``, at least 1.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given), non-negative with a
        positive sum. They need not sum to one. See `kind_weights` for another choice.

    Attributes
    ----------
    n_steps : int
        Number of steps seen so far.

    Raises
    ------
    ValueError
        If a parameter of the prior, the number of experts or a weight is out of range.
    TypeError
        If `prior` is neither a prior, nor a name, nor None.

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
        self, prior: PriorLike, n_experts: int, weights: ArrayLike | None = None
    ) -> None:
        self._prior = copy.deepcopy(as_prior(prior))
        self._prior.check_params()
        w = normalised_weights(weights, n_experts)
        self._n_experts = n_experts
        self.n_steps = 0
        self._pending = np.empty((0, n_experts))  # losses of unlabelled steps
        self._filter = make_filter(self._prior.components(w))
        self._asleep = np.zeros(n_experts, dtype=bool)
        self._possible = self._filter.weights > 0

    __copy__ = copy.deepcopy  # since filters advance in place

    @property
    def weights(self) -> Floats:
        """Probability (K,) of each expert at the next step, given the known labels.

        The transition into that step has already been applied. So if no expert retires
        and no pending label is revealed, the next call of `extend` returns these
        probabilities as the first row of its posterior. Retired experts have
        probability zero.
        """
        if len(self._pending):
            return self._awake(self._filter.ahead(len(self._pending)), self._asleep)
        if not self._asleep.any():
            return self._filter.weights
        return np.exp(self._log_shares(self._asleep))

    @staticmethod
    def _awake(weights: Floats, asleep: NDArray[np.bool_]) -> Floats:
        """Return the probabilities (K,) renormalised over the awake experts."""
        if not asleep.any():
            return weights
        shares = np.where(asleep, 0.0, weights)
        return shares / max(float(shares.sum()), np.finfo(float).tiny)

    def reveal(self, n_known: int) -> None:
        """Condition on the labels of the first ``n_known`` steps."""
        n_new = n_known - (self.n_steps - len(self._pending))
        if n_new > 0:
            self._observe_all(self._pending[:n_new])
            self._pending = self._pending[n_new:]

    def retire(self, experts: ArrayLike) -> None:
        """Retire some experts, which then sleep at all later steps.

        Parameters
        ----------
        experts : array-like of int
            Columns of the experts. Their losses must be NaN from now on.

        Raises
        ------
        ValueError
            If no expert with positive prior weight would be left.
        """
        asleep = self._asleep.copy()
        asleep[np.asarray(experts, dtype=np.intp)] = True
        self._check_left(asleep)
        self._asleep = asleep

    def _check_left(self, asleep: NDArray[np.bool_]) -> None:
        if not (self._possible & ~asleep).any():
            message = "An expert with positive prior weight must not retire, but all do"
            raise ValueError(f"{message}; keep column {np.argmax(self._possible)}")

    def _log_shares(self, asleep: NDArray[np.bool_]) -> Floats:
        """Return log probabilities (K,), renormalised over the awake experts."""
        scores = np.where(asleep, -np.inf, self._filter.log_weights)
        # Impossible labels may have left the awake experts without any weight.
        return scores - max(float(log_sums(scores)), np.finfo(float).min)

    def check_length(self, n_steps: int) -> None:
        """Check that the prior allows ``n_steps`` more steps.

        Parameters
        ----------
        n_steps : int
            Length of the next block.

        Raises
        ------
        ValueError
            If the prior does not allow a stream of that length.
        """
        self._prior.check_length(self.n_steps + n_steps)

    def extend(
        self, losses: ArrayLike, known: NDArray[np.intp] | None = None
    ) -> ForwardTrace:
        """Process the next block of steps.

        Parameters
        ----------
        losses : array-like of shape (n, K)
            Minus log probability of each observed label under each expert, in nats.
            Plus infinity means that the label was impossible for that expert. NaN from
            some step onwards means that the expert has retired. Losses are read in
            chunks, so they may be memory-mapped. They are converted to float64.
        known : ndarray of shape (n + 1,), optional
            Entry ``i`` is the number of steps of the stream whose labels are known when
            step ``i`` of the block is coded. The last entry is for the step after the
            block. Entries must not decrease. By default the labels of all earlier steps
            are known.

        Returns
        -------
        trace : ForwardTrace
            Results for this block only.

        Raises
        ------
        ValueError
            If losses are not of shape (n, K), or contain minus infinity, a number for a
            retired expert, or a step with only NaN. Also if `known` is not of shape
            (n + 1,), or counts fewer labels than at an earlier step, or labels that are
            not earlier. Also if no expert with positive prior weight is left, or if the
            stream becomes longer than the prior allows. The pass then keeps the state
            that it had before the call.

        Notes
        -----
        A label costs infinitely many nats if every expert with positive weight gives it
        probability zero. Such a label is then ignored: the state is not conditioned on
        it.

        Retired experts sleep, and all other experts are awake (Freund et al., 1997). A
        sleeping expert is treated as if it predicted like the mixture of the awake
        experts, so labels do not change its weight relative to the total.
        """
        array = checked_losses(losses, self._n_experts, self._asleep)
        self._check_left(np.array(np.isnan(array[-1:]).any(axis=0)))
        self.check_length(len(array))
        codelengths, posterior = np.empty(len(array)), np.empty(array.shape)
        steps = self.n_steps + np.arange(len(array) + 1)
        known = steps if known is None else np.asarray(known)
        n_before = self.n_steps - len(self._pending)
        is_valid = known.shape == steps.shape and known.dtype.kind == "i"
        is_valid = is_valid and bool((known <= steps).all())
        if not (is_valid and (np.diff(known, prepend=n_before) >= 0).all()):
            required = f"{len(steps)} non-decreasing counts (int) of earlier steps"
            raise invalid("known", required, known, "pass None if no label is late")
        in_time = (known[:-1] == steps[:-1]) & (known[1:] == steps[1:])
        for rows in cut(array):
            block = np.ascontiguousarray(array[rows], dtype=np.float64)
            coding = Coding(block, codelengths[rows], posterior[rows])
            self._code(coding, known[rows], in_time[rows])
        total = float(codelengths.sum())
        return ForwardTrace(total, codelengths, posterior, steps[:-1])

    def _code(
        self, coding: Coding, known: NDArray[np.intp], in_time: NDArray[np.bool_]
    ) -> None:
        """Code all steps, as many at a time as the arrival of labels allows."""
        (losses, codelengths, posterior), start = coding, 0
        while start < len(losses):
            self.reveal(int(known[start]))
            if in_time[start]:
                n_rows = int(np.argmin(np.append(in_time[start:], False)))
                rows = slice(start, start + n_rows)
                self._advance(coding.part(rows))
            else:
                late = known[start:] <= self.n_steps
                late[1:] &= ~in_time[start + 1 :]
                n_rows = int(np.argmin(np.append(late, False)))
                rows = slice(start, start + n_rows)
                posterior[rows] = self._shares_late(known[rows], losses[rows])
                codelengths[rows] = mixture_losses(posterior[rows], losses[rows])
                self._pending = np.concatenate([self._pending, losses[rows]])
            self.n_steps += n_rows
            start = rows.stop

    def _shares_late(self, known: NDArray[np.intp], losses: Floats) -> Floats:
        """Return the probabilities (n, K) of experts at steps with delayed labels."""
        n_before = self.n_steps - len(self._pending)
        places, n_new = known - n_before, int(known[-1]) - n_before
        n_ahead = self.n_steps + np.arange(len(known)) - known
        asleep = np.isnan(losses)
        if not np.isnan(self._pending[:n_new]).any():
            shares = self._filter.follow(self._pending[:n_new], places, n_ahead).weights
        else:
            shares, done = np.empty(losses.shape), 0
            for i, place in enumerate(places.tolist()):
                self._observe_all(self._pending[done:place])
                shares[i], done = self._filter.ahead(int(n_ahead[i])), place
        self._pending = self._pending[n_new:]
        for i in np.flatnonzero(asleep.any(axis=1)).tolist():
            shares[i] = self._awake(shares[i], asleep[i])
        self._asleep = asleep[-1]
        return shares

    def _observe_all(self, losses: Floats) -> None:
        """Condition on the losses (n, K) of several steps in turn."""
        n_plain = int((~np.isnan(losses).any(axis=1)).sum())
        self._filter.advance(Coding.of(losses[:n_plain]))
        for row in losses[n_plain:]:
            self._observe(row, self._log_shares(np.isnan(row)))

    def _advance(self, coding: Coding) -> None:
        losses = coding.losses
        if not self._asleep.any() and not np.isnan(losses[-1]).any():
            self._filter.advance(coding)
            return
        asleep = np.isnan(losses)
        # Experts never wake up, so the rows with all experts awake come first.
        n_plain = 0 if self._asleep.any() else int((~asleep.any(axis=1)).sum())
        self._filter.advance(coding.part(slice(n_plain)))
        is_other = (asleep[n_plain + 1 :] != asleep[n_plain:-1]).any(axis=1)
        changes = n_plain + 1 + np.flatnonzero(is_other)
        for start, stop in pairwise([n_plain, *changes.tolist(), len(losses)]):
            self._asleep = asleep[start]
            self._advance_awake(coding.part(slice(start, stop)))

    def _advance_awake(self, coding: Coding) -> None:
        """Code steps during which the same experts are awake."""
        mixture, awake = self._filter, ~self._asleep
        if isinstance(mixture, MixtureFilter) and advance_awake(mixture, coding, awake):
            return
        for i, row in enumerate(coding.losses):
            shares = self._log_shares(self._asleep)
            coding.posterior[i] = np.exp(shares)
            coding.codelengths[i] = self._observe(row, shares)

    def _observe(self, losses: Floats, shares: Floats) -> float:
        """Condition on the losses (K,) of a step, and return the mixture's cost.

        ``shares`` are the log shares of the experts that are awake.
        """
        asleep = np.isnan(losses)
        codelength, _ = condition_scores(shares[~asleep], losses[~asleep])
        row = np.where(asleep, codelength, losses)[np.newaxis]
        self._filter.advance(Coding.of(row))
        return codelength


def forward(
    prior: PriorLike,
    losses: ArrayLike | Iterator[ArrayLike],
    weights: ArrayLike | None = None,
    *,
    kinds: Sequence[Hashable] | None = None,
    max_rows: int | None = None,
    known: NDArray[np.intp] | None = None,
) -> ForwardTrace:
    """Mix experts under a switching prior in one pass over their losses.

    Besides the losses and the result, the pass stores the state of the prior and some
    temporary arrays of a few tens of megabytes.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        The switching prior, its name, or None for `LearnedShare`.
    losses : array-like of shape (N, K), or iterator of array-like of shape (n, K)
        Minus log probability of each observed label under each expert, in nats. Plus
        infinity is allowed (see `ForwardPass.extend`). NaN from some step onwards means
        that the expert has retired. Only experts that have not retired are mixed
        (Freund et al., 1997). Memory-mapped arrays and iterators are read block by
        block.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given), non-negative with a
        positive sum. They need not sum to one. See `kind_weights` for another choice.
    kinds : sequence of length K, optional
        The kind of each expert, such as the architecture of each readout. The
        posterior then has one column per kind, in order of first appearance.
    max_rows : int, optional
        Largest number of posterior rows to return. Starting from the first step, every
        ``2^j``-th step is kept, with the smallest ``j`` that suffices. By default all
        steps are kept.
    known : ndarray of shape (N + 1,), optional
        Number of steps whose labels are known when each step is coded, and at the end.
        By default all earlier labels are known. See :meth:`ForwardPass.extend`.

    Returns
    -------
    trace : ForwardTrace
        Codelengths in nats, and the posterior over experts (or kinds) before labels.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or a value out of range, or if there are more
        steps than the prior allows.
    TypeError
        If `prior` is neither a prior, nor a name, nor None.

    See Also
    --------
    ForwardPass : The same pass over a stream that arrives in blocks.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Eq. (1) and Algorithm 1.
    Freund, Schapire, Singer and Warmuth, 1997, "Using and combining predictors that
    specialize", STOC (sleeping experts).

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
    thinner = PosteriorThinner(first.shape[1], kinds, max_rows)
    if not isinstance(losses, Iterator):
        n_steps = len(np.asanyarray(losses))
        stream.check_length(n_steps)  # checked before any work is done
        thinner.reserve(n_steps)
    codelengths = [np.empty(0)]
    for block in blocks:
        start = stream.n_steps
        known_here = None if known is None else known[start : start + len(block) + 1]
        trace = stream.extend(block, known_here)
        codelengths.append(trace.codelengths)
        thinner.append(trace.posterior)
    costs = np.concatenate(codelengths)
    posterior, steps = thinner.result()
    return ForwardTrace(float(costs.sum()), costs, posterior, steps, thinner.names)


def mixture_losses(shares: Floats, losses: Floats) -> Floats:
    """Return the cost (n,) of labels under mixtures of experts, in nats.

    Parameters
    ----------
    shares : ndarray of shape (n, K)
        Probabilities of the experts (zero for sleeping experts).
    losses : ndarray of shape (n, K)
        Losses in nats, or NaN for a sleeping expert.
    """
    scores = np.where(np.isnan(losses), -np.inf, logs(shares) - losses)
    top = np.maximum(scores.max(axis=1, keepdims=True), np.finfo(float).min)
    return np.asarray(-(top[:, 0] + logs(np.exp(scores - top).sum(axis=1))))


def filled_losses(
    losses: ArrayLike, prior: PriorLike = None, weights: ArrayLike | None = None
) -> NDArray[np.floating]:
    """Replace NaN in losses (N, K) by the cost of the mixture of awake experts.

    Losses are returned unchanged if no expert has retired.
    """
    array = np.asanyarray(losses)
    if not np.isnan(array[-1:]).any():  # no expert has retired
        return array
    codelengths = forward(prior, array, weights, max_rows=0).codelengths
    return np.where(np.isnan(array), codelengths[:, np.newaxis], array)
