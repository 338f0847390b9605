"""The most probable path of a Markov prior, with O(n_rows K) operations per step.

A path is a sequence of blocks in which the expert is kept. Storing a predecessor for
every state and step would take as much memory as the losses. Instead, each state stores
where its block began, and each step stores only the few best states that a new block
may follow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching._inputs import checked_losses, cut
from sklearn_mdl.switching._prior import Floats, MarkovPrior, Transition, sums_of_others

Integers = NDArray[np.int64]

# The beginning of a block is stored as one number. The low bits are the index of the
# previous state among the sources of the block's first step. The other bits are that
# step.
_PLACE_BITS = 20


def most_probable_path(
    prior: MarkovPrior, w: Floats, losses: NDArray[np.floating]
) -> tuple[float, NDArray[np.intp]]:
    """Find the most probable path of states given all labels.

    Parameters
    ----------
    prior : MarkovPrior
    w : ndarray of shape (K,)
        Prior weights of the experts, summing to one.
    losses : ndarray of shape (N, K)
        In nats; NaN and minus infinity raise ValueError.

    Returns
    -------
    score : float
        Joint log-probability of the path and the labels.
    experts : ndarray of shape (N,)
        Experts of the path.
    """
    with np.errstate(divide="ignore"):  # probabilities of zero are scores of -inf
        search = _Search(prior, w)
        for rows in cut(losses):
            for loss in checked_losses(losses[rows], len(w)).astype(np.float64):
                search.advance(loss)
    return search.best()


class _Search:
    """The best path to every state: its score and where its last block began.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, K)
        Joint log-probability of the path and the labels.
    begins : ndarray of shape (n_rows, K)
        First step and source of the last block.
    sources : list of ndarray of shape (n_places, 2)
        For every step after the first, the states that a new block may follow. Each is
        given by its expert and the beginning of its block.
    """

    def __init__(self, prior: MarkovPrior, w: Floats) -> None:
        self.prior = prior
        self.w = w
        self.log_w: Floats = np.log(w)
        self.scores: Floats = np.log(prior.initial(w))
        self.begins: Integers = np.zeros(self.scores.shape, dtype=np.int64)
        self.sources: list[Integers] = []
        self.n_steps = 0

    def advance(self, loss: Floats) -> None:
        """Enter the next step, and subtract its losses (K,) from the scores."""
        if self.n_steps:
            self._move(self.prior.transition(self.n_steps + 1))
        scores = self.scores - loss
        if scores.max() > -np.inf:  # an impossible label is ignored
            self.scores = scores
        self.n_steps += 1

    def _move(self, transition: Transition) -> None:
        kept, begins = self._keep(transition)
        drawn, places = np.full(kept.shape, -np.inf), np.zeros(kept.shape, np.int64)
        self.sources.append(self._draw(transition, drawn, places))
        new = drawn > kept
        self.scores = np.where(new, drawn, kept)
        self.begins = np.where(new, (self.n_steps << _PLACE_BITS) + places, begins)

    def _keep(self, transition: Transition) -> tuple[Floats, Integers]:
        """Return `scores` and `begins` of the paths that keep their expert."""
        draw, enter, ageing, others = transition
        stay = (1.0 - draw)[:, np.newaxis]
        if others:  # without another expert, switching is impossible
            stay = np.where(sums_of_others(self.w) > 0, stay, 1.0)
        elif enter is not None and not ageing:
            # A draw that returns the same expert in the same row continues the path.
            stay = stay + (draw * enter)[:, np.newaxis] * self.w
        kept, begins = self.scores + np.log(stay), self.begins
        if enter is not None and not ageing:
            return kept, begins
        added = ((1, 0) if ageing else (0, 1)), (0, 0)
        return np.pad(kept, added, constant_values=-np.inf), np.pad(begins, added)

    def _draw(
        self, transition: Transition, drawn: Floats, places: Integers
    ) -> Integers:
        """Write the scores and places of paths with a new block; return the sources."""
        draw, enter, _, others = transition
        leaving = self.scores + np.log(draw)[:, np.newaxis]
        if others:
            return self._draw_others(leaving, drawn, places)
        scores, sources = self._best_of_rows(leaving)
        if enter is None:  # every row leads to the next
            drawn[1:] = scores[:, np.newaxis] + self.log_w
            places += np.arange(len(drawn))[:, np.newaxis]
            return np.concatenate([sources[:1], sources])
        best = int(scores.argmax())
        entering = scores[best] + np.log(enter)
        drawn[: len(enter)] = entering[:, np.newaxis] + self.log_w
        return sources[[best]]

    def _draw_others(
        self, leaving: Floats, drawn: Floats, places: Integers
    ) -> Integers:
        """Draw a different expert: the best expert can only follow the second best."""
        rest = sums_of_others(self.w)
        leaving = np.where(rest > 0, leaving - np.log(rest), -np.inf)
        first, source = self._best_of_rows(leaving)
        best = source[0, 0]
        leaving[0, best] = -np.inf
        second, runner_up = self._best_of_rows(leaving)
        drawn[0] = first[0] + self.log_w
        drawn[0, best] = second[0] + self.log_w[best]
        places[0, best] = 1
        return np.concatenate([source, runner_up])

    def _best_of_rows(self, scores: Floats) -> tuple[Floats, Integers]:
        rows, experts = np.arange(len(scores)), scores.argmax(axis=1)
        sources = np.stack([experts, self.begins[rows, experts]], axis=1)
        return scores[rows, experts], sources

    def best(self) -> tuple[float, NDArray[np.intp]]:
        """Return score and experts of the best path, traced back block by block."""
        experts = np.zeros(self.n_steps, dtype=np.intp)
        state = np.unravel_index(self.scores.argmax(), self.scores.shape)
        expert, begin, stop = state[1], int(self.begins[state]), self.n_steps
        while stop:
            start, place = divmod(begin, 1 << _PLACE_BITS)
            experts[start:stop] = expert
            if start:
                expert, begin = self.sources[start - 1][place].tolist()
            stop = start
        return float(self.scores[state]), experts
