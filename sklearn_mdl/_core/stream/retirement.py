"""Who of a run's readouts has retired, and who is to retire next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.pooled import PooledMixture
from sklearn_mdl._core.stream.row_groups import RowGroups
from sklearn_mdl._core.stream.steps import PassState
from sklearn_mdl.switching import Race

Floats = NDArray[np.float64]


class Retirement:
    """Losses of readouts since the middle of what a race compares next.

    Parameters
    ----------
    race : Race or None
        None retires nobody.
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts; one without any keeps nobody running.
    n_readouts, batch_size : int
    groups : RowGroups
        Of the stream; readouts retire at the end of one, by losses whose labels are
        known.

    Attributes
    ----------
    retired_at : ndarray of shape (K,), int
        Number of examples after which each readout retired; -1 while it runs.
    """

    def __init__(
        self,
        race: Race | None,
        weights: Floats | None,
        n_readouts: int,
        batch_size: int,
        groups: RowGroups,
    ) -> None:
        self._race = race
        self._possible = np.ones(n_readouts, dtype=bool)
        if weights is not None:
            self._possible = np.asarray(weights) > 0
        if race is not None:
            race.check_params(int(self._possible.sum()))
        self._batch_size = batch_size
        self._groups = groups
        self._n_seen = self._since = 0  # rows taken in; of them before the sums
        self._count = self.next_count(0)
        self._sums = np.zeros(n_readouts)
        self._late = np.empty((0, n_readouts))  # losses whose labels are not known yet
        self.retired_at = np.full(n_readouts, -1)

    @property
    def awake(self) -> NDArray[np.bool_]:
        """Mask of the readouts that run, (K,)."""
        return self.retired_at < 0

    def next_count(self, n_known: int) -> float:
        """Return the next number of labels known at which readouts may retire."""
        if self._race is None:
            return np.inf
        return self._race.next_count(n_known, self._batch_size)

    def observe(self, losses: Floats) -> None:
        """Take in losses (n, K), in nats."""
        if self._race is None:
            self._n_seen += len(losses)
            return
        losses = np.concatenate([self._late, losses])
        n_known = max(0, len(losses) - self._groups.delay)
        losses, self._late = losses[:n_known], losses[n_known:]
        for row in losses:  # one order of summation, however rows are cut
            begins = self._n_seen == self._count // 2
            if self._n_seen >= self._count and self._is_whole:
                self._count = self.next_count(self._n_seen)
                begins = self._n_seen >= self._count // 2  # a group may end beyond
            if begins:
                self._sums[:] = 0.0
                self._since = self._n_seen
            self._sums += row
            self._n_seen += 1

    @property
    def _is_whole(self) -> bool:
        """Return True if the group of the last row has ended with it."""
        return self._groups.closing(self._n_seen - 1) == self._n_seen

    def check(self, losses: Floats) -> None:
        """Refuse losses (n, K) of the rows that follow that others were asleep at.

        Raises
        ------
        ValueError
            If they are NaN elsewhere than where readouts had retired.
        """
        n_scored = self._n_seen + len(self._late)
        rows = n_scored + np.arange(len(losses))[:, np.newaxis]
        asleep = (self.retired_at >= 0) & (rows >= self.retired_at)
        if (np.isnan(losses) != asleep).any():
            raise ValueError("Losses must be NaN just where readouts have retired")

    def losers(self, outcome: Outcome, pooled: PooledMixture | None) -> list[int]:
        """Return the columns of readouts that retire now; most often none."""
        if self._race is None or self._n_seen < self._count:
            return []
        running = self.awake
        losses = np.where(running & self._possible, self._sums, np.inf)
        needed = [] if pooled is None else pooled.needed(self._race.pool_slack)
        n_compared = self._n_seen - self._since
        unit = outcome.unit_of_loss(float(losses.min()), n_compared)
        staying = self._race.staying(losses, needed, unit, self._n_seen)
        columns: list[int] = np.flatnonzero(running & ~staying).tolist()
        return columns

    def record(self, columns: list[int]) -> None:
        """Remember that readouts retire now."""
        self.retired_at[columns] = self._n_seen + len(self._late)


def without(
    learners: Sequence[Learner], states: Sequence[PassState], columns: Sequence[int]
) -> tuple[list[Learner], list[PassState]]:
    """Let readouts retire; returns the learners that have others, and their states."""
    gone, kept = set(columns), []
    for learner, state in zip(learners, states, strict=True):
        own = learner.columns
        places = [i for i, column in enumerate(own) if column not in gone]
        if 0 < len(places) < len(own):
            state.keep(places)
            learner.retire(gone)
        if places:
            kept.append((learner, state))
    return [learner for learner, _ in kept], [state for _, state in kept]
