"""Filters: the state of a pass over losses, for whatever prior.

States are probabilities, not logs: a step is then one product, one sum and one
division, several times faster than adding in logs. Likelihoods are scaled by that of
the best expert, and a draw lifts every weight again, so nothing that matters
underflows. Where no draw comes, a weight only falls, would reach zero and could not
come back. Priors that never share therefore use cumulative sums of logs, and those that
share now and then only are held in logs from the step on at which an expert sinks. Rows
that count draws are scaled one by one.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching.moves import Moves, carry, in_bands
from sklearn_mdl.switching.prior import Component, MarkovPrior

Floats = NDArray[np.float64]

# Below this a step's probability is worked out again in logs. What the step leaves of
# an expert that has not sunk, `LOW` times its prior weight, then has all its digits.
TINY = 1e-100
LOW = 1e-200


class Filter(Protocol):
    """What all filters have in common."""

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, shape (K,)."""

    def advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        """Walk the rows of `losses` (n, K), and write into the other two arrays."""


class MarkovFilter:
    """State of a prior that shares: probabilities, renormalised at every step.

    Attributes
    ----------
    state : ndarray of shape (n_rows, K)
        p(state_t | y_{<t}).
    scores : ndarray of shape (n_rows, K) or None
        Its logs, while an expert is too low for `state` to hold it.
    """

    def __init__(self, prior: MarkovPrior, w: Floats) -> None:
        self.prior = prior
        self.w = w
        self.state = prior.initial(w)
        self.scores: Floats | None = None
        self.t = 1

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, shape (K,)."""
        weights: Floats = np.add.reduce(self.state, axis=0)
        return weights

    def advance(
        self,
        losses: Floats,
        codelengths: Floats,
        posterior: Floats,
        states: list[Floats] | None = None,
    ) -> None:
        """Walk the rows of `losses`, and write into the other two arrays.

        Into the list `states`, if given, go the logs of the state of every step,
        conditioned on its label.
        """
        if self.scores is None:
            begin = self.state, self.t
            self._walk(losses, codelengths, posterior, states)
            if not (self._sunk(posterior[1:]).any() or self._sunk(self.weights).any()):
                return
            self.state, self.t = begin
            if states is not None:
                del states[len(states) - len(losses) :]
        for i in range(len(losses)):
            row = slice(i, i + 1)
            state = self._step(losses[row], codelengths[row], posterior[row])
            if states is not None:
                states.append(state)

    def _walk(
        self,
        losses: Floats,
        codelengths: Floats,
        posterior: Floats,
        states: list[Floats] | None,
    ) -> None:
        """Walk the rows in probabilities, whether or not an expert sinks."""
        shifts = row_minima(losses)
        likelihoods = np.exp(shifts[:, np.newaxis] - losses)
        state, t, w, moves = self.state, self.t, self.w, self.prior.moves
        for i, shift in enumerate(shifts.tolist()):
            np.add.reduce(state, axis=0, out=posterior[i])
            joint = state * likelihoods[i]
            total = float(np.add.reduce(joint, axis=None))
            if total > TINY:
                codelengths[i] = shift - math.log(total)
                joint /= total
            else:
                codelengths[i], joint = condition_in_logs(state, losses[i])
            if states is not None:
                states.append(logs(joint))
            t += 1
            state = carry(joint, w, moves(t))
        self.state, self.t = state, t

    def _step(self, loss: Floats, codelength: Floats, posterior: Floats) -> Floats:
        """Walk one row, in logs if an expert has sunk or would sink otherwise."""
        posterior[0] = self.weights
        if self.scores is None:
            before = self.state
            states: list[Floats] = []
            self._walk(loss, codelength, posterior, states)
            if not self._sunk(self.weights).any():
                return states[0]
            self.t -= 1
            self.scores = logs(before)
        codelength[0], told = condition_scores(self.scores, loss[0])
        self.t += 1
        moves = self.prior.moves(self.t)
        scores = in_bands(told, lambda state: carry(state, self.w, moves))
        self.state = np.exp(scores)
        # An expert without any weight has none to lose.
        lost = self._sunk(self.weights) & (scores > -np.inf).any(axis=0)
        self.scores = scores if lost.any() else None
        return told

    def _sunk(self, weights: Floats) -> NDArray[np.bool_]:
        """Tell the experts that have sunk to where probabilities lose them."""
        sunk: NDArray[np.bool_] = weights < LOW * self.w
        return sunk


class CountingFilter(MarkovFilter):
    """State of a prior whose rows count draws: every row has a scale of its own.

    No draw leads back to a lower count, and the rate of later draws depends on it. So a
    count that is out of all proportion today may explain best what comes tomorrow.

    Attributes
    ----------
    state : ndarray of shape (n_rows, K)
        p(expert | row), each row summing to one.
    scales : ndarray of shape (n_rows,)
        log p(row).
    """

    def __init__(self, prior: MarkovPrior, w: Floats) -> None:
        super().__init__(prior, w)
        self.state, self.scales = _scaled_rows(self.state)

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, shape (K,)."""
        weights: Floats = np.add.reduce(self._unscaled(), axis=0)
        return weights

    def advance(
        self,
        losses: Floats,
        codelengths: Floats,
        posterior: Floats,
        states: list[Floats] | None = None,
    ) -> None:
        """Walk the rows of `losses`, and write into the other two arrays."""
        shifts = row_minima(losses)
        for i, loss in enumerate(losses - shifts[:, np.newaxis]):
            posterior[i] = self.weights
            codelengths[i] = shifts[i] + self._condition(loss)
            if states is not None:
                states.append(logs(self.state) + self.scales[:, np.newaxis])
            self.t += 1
            self._move(self.prior.moves(self.t))

    def _condition(self, losses: Floats) -> float:
        """Condition on a label, unless it is impossible, and return its cost."""
        rows, sums = _scaled_rows(self.state * np.exp(-losses))
        low = np.flatnonzero(sums < math.log(TINY))
        if len(low):
            told = logs(self.state[low]) - losses
            top = np.maximum(told.max(axis=1), np.finfo(float).min)
            rows[low], sums[low] = _scaled_rows(np.exp(told - top[:, np.newaxis]))
            sums[low] += top
        codelength, scales = condition_scores(self.scales, -sums)
        if codelength < math.inf:
            self.state, self.scales = rows, scales
        return codelength

    def _move(self, moves: Moves) -> None:
        draw, enter, _, others = moves
        if enter is not None or others:
            state = carry(self._unscaled(), self.w, moves)
            self.state, self.scales = _scaled_rows(state)
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
        state: Floats = np.exp(self.scales)[:, np.newaxis] * self.state
        return state


class CumulativeFilter:
    """State of a prior that never shares: log weights, never renormalised.

    Each row's smallest loss is set apart, so that the sums of good experts stay small
    and keep their digits; and nothing is subtracted at the borders of a block, so that
    every cutting adds the same numbers in the same order.
    """

    def __init__(self, w: Floats) -> None:
        self.scores = logs(w)

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, shape (K,)."""
        weights: Floats = softmax(self.scores[np.newaxis, :])[0][0]
        return weights

    def advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        """Walk the rows of `losses`, and write into the other two arrays."""
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


class MixtureFilter:
    """State of a mixture of priors: theirs, and the odds between them.

    The odds are those of a Bayesian mixture over the codelengths of the parts. They are
    kept apart from the states, so that a part that has fallen thousands of nats behind
    does not underflow and can come back.
    """

    def __init__(self, components: list[Component]) -> None:
        self.filters = [_filter_of(component) for component in components]
        self.odds = CumulativeFilter(np.array([c.probability for c in components]))

    @property
    def weights(self) -> Floats:
        """Probability of each expert at the step to come, shape (K,)."""
        parts = [part.weights[np.newaxis] for part in self.filters]
        weights: Floats = _averages(self.odds.weights[np.newaxis], parts)[0]
        return weights

    def advance(self, losses: Floats, codelengths: Floats, posterior: Floats) -> None:
        """Walk the rows of `losses`, and write into the other two arrays."""
        parts = [np.empty_like(losses) for _ in self.filters]
        costs = np.empty((len(losses), len(parts)))
        for j, part in enumerate(self.filters):
            part.advance(losses, costs[:, j], parts[j])
        odds = np.empty_like(costs)
        self.odds.advance(costs, codelengths, odds)
        posterior[:] = _averages(odds, parts)


def _averages(odds: Floats, parts: list[Floats]) -> Floats:
    """Average the parts (n, K) with odds (n, J), in an order that no shape changes."""
    averages = odds[:, :1] * parts[0]
    for j, part in enumerate(parts[1:], start=1):
        averages += odds[:, j : j + 1] * part
    return averages


def _filter_of(component: Component) -> MarkovFilter | CumulativeFilter:
    _, prior, w = component
    if not prior.shares:
        return CumulativeFilter(w)
    counts = prior.moves(2).enter is None
    return CountingFilter(prior, w) if counts else MarkovFilter(prior, w)


def make_filter(components: list[Component]) -> Filter:
    """Return the filter for a prior's components."""
    if len(components) == 1:
        return _filter_of(components[0])
    return MixtureFilter(components)


def row_minima(losses: Floats) -> Floats:
    """Smallest loss of each row, or zero where all are infinite: never inf - inf."""
    minima: Floats = losses.min(axis=1)
    minima[np.isinf(minima)] = 0.0
    return minima


def condition_in_logs(state: Floats, losses: Floats) -> tuple[float, Floats]:
    """Condition on a label that is nearly or wholly impossible for the mixture."""
    codelength, scores = condition_scores(logs(state), losses)
    return codelength, state if codelength == math.inf else np.exp(scores)


def condition_scores(scores: Floats, losses: Floats) -> tuple[float, Floats]:
    """Condition the logs of a state on a label; unchanged if it is impossible."""
    told: Floats = scores - losses
    top = float(told.max())
    if top == -math.inf:
        return math.inf, scores
    evidence = top + math.log(float(np.exp(told - top).sum()))
    return -evidence, told - evidence


def logs(values: Floats) -> Floats:
    """Return the logs of numbers that may be zero."""
    with np.errstate(divide="ignore"):
        found: Floats = np.log(values)
    return found


def _scaled_rows(state: Floats) -> tuple[Floats, Floats]:
    """Return rows that sum to one and the logs of what they summed to."""
    sums = np.add.reduce(state, axis=1)
    return state / np.where(sums > 0, sums, 1.0)[:, np.newaxis], logs(sums)


def softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Normalise exp(scores) row by row; also return the log of each row's sum."""
    top = scores.max(axis=1, keepdims=True)
    joint: Floats = np.exp(scores - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, (top + np.log(total))[:, 0]
