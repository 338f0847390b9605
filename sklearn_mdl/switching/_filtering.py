"""Filters that keep the state of a forward pass, one for each kind of prior.

States are probabilities, not logs. So a step takes only one product, one sum and one
division, which is several times faster than adding in log space. No weight that matters
underflows: the likelihoods of a step are divided by the largest one, and sharing raises
every weight again. Without sharing, a weight that has underflowed to zero would stay
zero. So priors that never share use cumulative sums of logs. Other priors use logs only
while a weight is too small. If the rows of a state count draws, each row is normalised
separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching._kept_shares import KeptShares, redraw_rates
from sklearn_mdl.switching._prior import (
    Component,
    Floats,
    MarkovPrior,
    Steps,
    Transition,
    apply,
    apply_log,
)
from sklearn_mdl.switching._scores import (
    condition_scores,
    log_sums,
    logs,
    row_minima,
    scaled_rows,
    softmax,
)

# Likelihoods of a step are relative to the largest one. If their weighted mean is at
# most `TINY`, the step is recomputed in log space. So a weight of at least `LOW` times
# the prior weight keeps all its digits.
TINY = 1e-100
LOW = 1e-200


class Coding(NamedTuple):
    """Losses of some steps, with arrays for the results that a filter writes.

    Attributes
    ----------
    losses : ndarray of shape (n, K)
    codelengths : ndarray of shape (n,)
    posterior : ndarray of shape (n, K)
    """

    losses: Floats
    codelengths: Floats
    posterior: Floats

    @classmethod
    def of(cls, losses: Floats) -> Coding:
        """Return losses (n, K) with new arrays."""
        return cls(losses, np.empty(len(losses)), np.empty_like(losses))

    def part(self, rows: slice) -> Coding:
        """Return views of some rows."""
        return Coding(*(array[rows] for array in self))


class Followed(NamedTuple):
    """Weights (m, K), and codelengths (n,) in nats, from a filter's ``follow``."""

    weights: Floats
    codelengths: Floats


class MarkovFilter:
    """State of a prior that shares: probabilities, renormalised at every step.

    Attributes
    ----------
    state : ndarray of shape (n_rows, K)
        p(state_t | y_{<t}).
    scores : ndarray of shape (n_rows, K) or None
        Logs of the state while a weight is too small for `state`, otherwise None.
    """

    def __init__(self, prior: MarkovPrior, w: Floats) -> None:
        self.prior = prior
        self.w = w
        self.state = prior.initial(w)
        self.scores: Floats | None = None
        self.t = 1
        self._kept = KeptShares(prior)

    @property
    def weights(self) -> Floats:
        """Probability (K,) of each expert at the next step."""
        return np.asarray(np.add.reduce(self._unscaled(), axis=0))

    def rates(self, n_steps: int) -> Floats | None:
        """Return the probability (n,) of a redraw on entering each of the next steps.

        None if a step does more than redraw, if states have several rows, or while a
        weight is too small.
        """
        if self.scores is not None or len(self.state) > 1:
            return None
        return redraw_rates(self.prior, self.t + 1, self.t + 1 + n_steps)

    @property
    def log_weights(self) -> Floats:
        """Logs of the weights, which do not underflow."""
        return logs(self.weights) if self.scores is None else log_sums(self.scores)

    def ahead(self, n_steps: int) -> Floats:
        """Return the weights (K,) after ``n_steps`` further steps without labels."""
        kept = self._kept.between(self.t, n_steps)
        if kept is not None:
            return self._moved(self.weights, kept)
        state = self._unscaled()
        for t in range(self.t + 1, self.t + n_steps + 1):
            state = apply(state, self.w, self.prior.transition(t))
        return np.asarray(np.add.reduce(state, axis=0))

    def follow(self, losses: Floats, places: Steps, n_ahead: Steps) -> Followed:
        """Process losses (n, K), and return weights predicted from some rows.

        Parameters
        ----------
        losses : ndarray of shape (n, K)
        places : ndarray of shape (m,)
            Sorted positions from 0 to n. Weights are predicted from the losses before
            each position.
        n_ahead : ndarray of shape (m,)
            Number of steps by which each weight is advanced without labels.

        Returns
        -------
        followed : Followed
        """
        kept = self._kept.between(self.t + places, n_ahead)
        if kept is not None:
            before, codelengths = _weights_around(self, losses)
            weights = self._moved(before[places], kept[:, np.newaxis])
            return Followed(weights, codelengths)
        coding, done = Coding.of(losses), 0
        weights = np.empty((len(places), len(self.w)))
        for i, place in enumerate(places):
            self.advance(coding.part(slice(done, place)))
            weights[i], done = self.ahead(int(n_ahead[i])), place
        self.advance(coding.part(slice(done, None)))
        return Followed(weights, coding.codelengths)

    def _moved(self, weights: Floats, kept: Floats | float) -> Floats:
        """Return the weights after keeping a share of them and redrawing the rest."""
        return self.w + kept * (weights - self.w)

    def _unscaled(self) -> Floats:
        return self.state

    def advance(self, coding: Coding, states: list[Floats] | None = None) -> None:
        """Process the rows of `coding`, and fill its codelengths and posterior.

        If a list `states` is given, append to it the log state at every step,
        conditioned on the label of that step.
        """
        if self.scores is None:
            begin = self.state, self.t
            self._advance(coding, states)
            later = coding.posterior[1:]
            if not (self._low(later).any() or self._low(self.weights).any()):
                return
            self.state, self.t = begin
            if states is not None:
                del states[len(states) - len(coding.losses) :]
        for i in range(len(coding.losses)):
            state = self._step(coding.part(slice(i, i + 1)))
            if states is not None:
                states.append(state)

    def _advance(self, coding: Coding, states: list[Floats] | None) -> None:
        """Process the rows without logs, even if a weight becomes too small."""
        losses, codelengths, posterior = coding
        shifts = row_minima(losses)
        likelihoods = np.exp(shifts[:, np.newaxis] - losses)
        state, t, w, transition = self.state, self.t, self.w, self.prior.transition
        rates = self.rates(len(losses))  # much faster than applying transitions
        if rates is not None:
            kept, drawn = (1.0 - rates).tolist(), rates[:, np.newaxis] * w
        for i, shift in enumerate(shifts.tolist()):
            np.add.reduce(state, axis=0, out=posterior[i])
            joint = state * likelihoods[i]
            total = float(np.add.reduce(joint, axis=None))
            if total > TINY:
                codelengths[i] = shift - math.log(total)
                joint /= total
            else:
                codelengths[i], scores = condition_scores(logs(state), losses[i])
                joint = state if codelengths[i] == math.inf else np.exp(scores)
            if states is not None:
                states.append(logs(joint))
            t += 1
            if rates is None:
                state = apply(joint, w, transition(t))
            else:
                state = kept[i] * joint + drawn[i]
        self.state, self.t = state, t

    def _step(self, row: Coding) -> Floats:
        """Process one row, and return the log state conditioned on its label.

        The row is processed in log space if a weight is or would become too small.
        """
        row.posterior[0] = self.weights
        if self.scores is None:
            before = self.state
            states: list[Floats] = []
            self._advance(row, states)
            if not self._low(self.weights).any():
                return states[0]
            self.t -= 1
            self.scores = logs(before)
        row.codelengths[0], conditioned = condition_scores(self.scores, row.losses[0])
        self.t += 1
        transition = self.prior.transition(self.t)
        scores = apply_log(conditioned, lambda state: apply(state, self.w, transition))
        self.state = np.exp(scores)
        # Experts whose weight is exactly zero do not need logs.
        lost = self._low(self.weights) & (scores > -np.inf).any(axis=0)
        self.scores = scores if lost.any() else None
        return conditioned

    def _low(self, weights: Floats) -> NDArray[np.bool_]:
        """Return a mask of the experts whose weights are too small."""
        return weights < LOW * self.w


class CountingFilter(MarkovFilter):
    """State of a prior whose rows count draws. Rows are normalised separately.

    Counts never decrease, and the rate of later draws depends on the count. So a count
    that is very improbable now may become the most probable count later.

    Attributes
    ----------
    state : ndarray of shape (n_rows, K)
        p(expert | row). Each row sums to one, or to zero if it is impossible.
    scales : ndarray of shape (n_rows,)
        log p(row).
    """

    def __init__(self, prior: MarkovPrior, w: Floats) -> None:
        super().__init__(prior, w)
        self.state, self.scales = scaled_rows(self.state)

    @property
    def log_weights(self) -> Floats:
        """Logs of the weights, which do not underflow."""
        return log_sums(logs(self.state) + self.scales[:, np.newaxis])

    def advance(self, coding: Coding, states: list[Floats] | None = None) -> None:
        """Process the rows of `coding`, and fill its codelengths and posterior."""
        losses, codelengths, posterior = coding
        shifts = row_minima(losses)
        for i, loss in enumerate(losses - shifts[:, np.newaxis]):
            posterior[i] = self.weights
            codelengths[i] = shifts[i] + self._condition(loss)
            if states is not None:
                states.append(logs(self.state) + self.scales[:, np.newaxis])
            self.t += 1
            self._move(self.prior.transition(self.t))

    def _condition(self, losses: Floats) -> float:
        """Condition on a label, unless it is impossible, and return its codelength."""
        rows, sums = scaled_rows(self.state * np.exp(-losses))
        low = np.flatnonzero(sums < math.log(TINY))
        if len(low):
            joint = logs(self.state[low]) - losses
            top = np.maximum(joint.max(axis=1), np.finfo(float).min)
            rows[low], sums[low] = scaled_rows(np.exp(joint - top[:, np.newaxis]))
            sums[low] += top
        codelength, scales = condition_scores(self.scales, -sums)
        if codelength < math.inf:
            self.state, self.scales = rows, scales
        return codelength

    def _move(self, transition: Transition) -> None:
        draw, enter, _, others = transition
        if enter is not None or others:
            state = apply(self._unscaled(), self.w, transition)
            self.state, self.scales = scaled_rows(state)
            return
        with np.errstate(divide="ignore"):
            stay, leave = np.log1p(-draw), np.log(draw)
        stay = np.append(self.scales + stay, -np.inf)
        leave = np.append(-np.inf, self.scales + leave)
        self.scales = np.logaddexp(stay, leave)
        finite = np.maximum(self.scales, np.finfo(float).min)
        kept = np.exp(stay - finite)[:-1, np.newaxis] * self.state
        self.state = np.exp(leave - finite)[:, np.newaxis] * self.w
        self.state[:-1] += kept

    def _unscaled(self) -> Floats:
        return np.exp(self.scales)[:, np.newaxis] * self.state


Joined = tuple[list[MarkovFilter], Floats, Floats, Floats]


class CumulativeFilter:
    """State of a prior that never shares: log weights, never renormalised.

    The smallest loss of each row is subtracted from the row, so the sums of good
    experts stay small and keep their digits. Sums continue from block to block. So
    the same numbers are added in the same order however the stream is split.
    """

    def __init__(self, w: Floats) -> None:
        self.scores = logs(w)

    @property
    def weights(self) -> Floats:
        """Probability (K,) of each expert at the next step."""
        return np.asarray(softmax(self.scores[np.newaxis, :])[0][0])

    @property
    def log_weights(self) -> Floats:
        """Logs of the weights, which do not underflow."""
        return self.scores - log_sums(self.scores[:, np.newaxis])

    def ahead(self, n_steps: int) -> Floats:
        """Return the weights of the next step, which only labels can change."""
        return self.weights

    def follow(self, losses: Floats, places: Steps, n_ahead: Steps) -> Followed:
        """Process losses (n, K), and return weights predicted from some rows."""
        before, codelengths = _weights_around(self, losses)
        return Followed(before[places], codelengths)

    def advance(self, coding: Coding) -> None:
        """Process the rows of `coding`, and fill its codelengths and posterior."""
        losses, codelengths, posterior = coding
        shifts = row_minima(losses)
        scores = np.empty((len(losses) + 1, losses.shape[1]))
        scores[0] = self.scores
        np.subtract(shifts[:, np.newaxis], losses, out=scores[1:])
        impossible = self._impossible_rows(losses)
        scores[1:][impossible] = 0.0
        np.add.accumulate(scores, axis=0, out=scores)
        probabilities, evidence = softmax(scores)
        posterior[:] = probabilities[:-1]
        codelengths[:] = shifts - np.diff(evidence)
        codelengths[impossible] = math.inf
        self.scores = scores[-1].copy()

    def _impossible_rows(self, losses: Floats) -> list[int]:
        """Return the rows whose labels all experts with positive weight rule out."""
        alive = self.scores > -math.inf
        dead = np.isinf(losses)
        impossible = []
        for i in np.flatnonzero(dead.any(axis=1)).tolist():
            possible = alive & ~dead[i]
            if possible.any():
                alive = possible
            else:
                impossible.append(i)
        return impossible


class MixtureFilter:
    """State of a mixture of priors: the states of its parts, and the odds of the parts.

    The odds follow from a Bayesian mixture over the codelengths of the parts. Odds are
    stored separately from the states, so a part that is thousands of nats behind does
    not underflow and can recover.
    """

    def __init__(self, components: list[Component]) -> None:
        self.filters = [_filter_of(component) for component in components]
        self.odds = CumulativeFilter(np.array([c.probability for c in components]))

    @property
    def weights(self) -> Floats:
        """Probability (K,) of each expert at the next step."""
        return _averages(self.odds.weights, [part.weights for part in self.filters])

    @property
    def log_weights(self) -> Floats:
        """Logs of the weights, which do not underflow."""
        parts = np.stack([part.log_weights for part in self.filters])
        return log_sums(self.odds.log_weights[:, np.newaxis] + parts)

    def ahead(self, n_steps: int) -> Floats:
        """Return the weights (K,) after ``n_steps`` further steps without labels."""
        parts = [part.ahead(n_steps) for part in self.filters]
        return _averages(self.odds.weights, parts)

    def follow(self, losses: Floats, places: Steps, n_ahead: Steps) -> Followed:
        """Process losses (n, K), and return weights predicted from some rows."""
        parts = [part.follow(losses, places, n_ahead) for part in self.filters]
        costs = np.stack([part.codelengths for part in parts], axis=1)
        before, codelengths = _weights_around(self.odds, costs)
        weights = _averages(before[places], [part.weights for part in parts])
        return Followed(weights, codelengths)

    def advance(self, coding: Coding) -> None:
        """Process the rows of `coding`, and fill its codelengths and posterior."""
        losses = coding.losses
        parts = np.empty((len(self.filters), *losses.shape))
        costs = np.empty((len(losses), len(parts)))
        if not self._advance_together(losses, costs, parts):
            for j, part in enumerate(self.filters):
                part.advance(Coding(losses, costs[:, j], parts[j]))
        odds = np.empty_like(costs)
        self.odds.advance(Coding(costs, coding.codelengths, odds))
        coding.posterior[:] = _averages(odds, parts)

    def joined(self, n_steps: int) -> Joined | None:
        """Return all filters with their weights, states (J, K) and rates (n, J, 1).

        None if the rates of a filter are None, or if a part of the prior never shares.
        """
        filters = [part for part in self.filters if isinstance(part, MarkovFilter)]
        rates = [part.rates(n_steps) for part in filters]
        given = [rate for rate in rates if rate is not None]
        if len(given) < len(self.filters):
            return None
        w = np.stack([part.w for part in filters])
        state = np.concatenate([part.state for part in filters])
        return filters, w, state, np.stack(given, axis=1)[..., np.newaxis]

    @np.errstate(divide="ignore", invalid="ignore")
    def _advance_together(self, losses: Floats, costs: Floats, parts: Floats) -> bool:
        """Advance all filters at once, with the same bits as one after the other.

        Returns False, and changes no filter, if filters cannot be joined or a weight
        would become too small.
        """
        if (joined := self.joined(len(losses))) is None:
            return False
        filters, w, state, rates = joined
        shifts, totals = row_minima(losses), np.empty_like(costs)
        likelihoods = np.exp(shifts[:, np.newaxis] - losses)
        rows = zip(likelihoods, 1.0 - rates, rates * w, strict=True)
        for i, (likelihood, kept, drawn) in enumerate(rows):
            parts[:, i] = state
            joint = state * likelihood
            np.add.reduce(joint, axis=1, out=totals[i])
            joint /= totals[i, :, np.newaxis]
            state = kept * joint + drawn
        least = np.minimum(parts[:, 1:].min(axis=1, initial=math.inf), state)
        if not ((totals > TINY).all() and (least >= LOW * w).all()):
            return False
        logs = [math.log(total) for total in totals.ravel().tolist()]
        costs[:] = shifts[:, np.newaxis] - np.reshape(logs, totals.shape)
        for part, row in zip(filters, state, strict=True):
            part.state, part.t = row[np.newaxis], part.t + len(losses)
        return True


def _weights_around(
    stream: MarkovFilter | CumulativeFilter, losses: Floats
) -> tuple[Floats, Floats]:
    """Process losses (n, K), and return weights (n + 1, K) and codelengths (n,)."""
    codelengths = np.empty(len(losses))
    weights = np.empty((len(losses) + 1, losses.shape[1]))
    stream.advance(Coding(losses, codelengths, weights[:-1]))
    weights[-1] = stream.weights
    return weights, codelengths


def _averages(odds: Floats, parts: Sequence[Floats] | Floats) -> Floats:
    """Average the parts (..., K) with odds (..., J), adding in a fixed order."""
    averages = odds[..., :1] * parts[0]
    for j, part in enumerate(parts[1:], start=1):
        averages += odds[..., j : j + 1] * part
    return averages


def _filter_of(component: Component) -> MarkovFilter | CumulativeFilter:
    _, prior, w = component
    if not prior.shares:
        return CumulativeFilter(w)
    counts = prior.transition(2).enter is None
    return CountingFilter(prior, w) if counts else MarkovFilter(prior, w)


Filter = MarkovFilter | CumulativeFilter | MixtureFilter


def make_filter(components: list[Component]) -> Filter:
    """Return the filter for a prior's components."""
    if len(components) == 1:
        return _filter_of(components[0])
    return MixtureFilter(components)
