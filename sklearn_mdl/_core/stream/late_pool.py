"""A pool of groups of readouts where labels come late."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl._core.stream.pooled import (
    Floats,
    Groups,
    PooledMixture,
    PooledRow,
    PooledRows,
)
from sklearn_mdl._core.stream.storage import StoredMixtures
from sklearn_mdl.pooling import GroupPass


class _Late(NamedTuple):
    """A row that is coded and whose label is not learned yet.

    Predictions of the groups as it was coded, losses of all readouts, the label, and
    what it cost the switching mixture and the pool.
    """

    mixed: Floats
    losses: Floats
    label: float
    switching: float
    pool: float


class LatePooledMixture(PooledMixture):
    """Pooled mixture whose labels are learned ``delay`` rows after they were coded.

    Parameters
    ----------
    groups, weights, group_pass, stored
        As of :class:`PooledMixture`.
    delay : int
    """

    def __init__(
        self,
        groups: Groups,
        weights: Floats | None,
        group_pass: GroupPass,
        stored: StoredMixtures | None = None,
        *,
        delay: int,
    ) -> None:
        super().__init__(groups, weights, group_pass, stored)
        self._delay = delay
        self._late: deque[_Late] = deque()
        self._restored: tuple[Floats, list[float]] = np.empty(0), []

    @property
    def shares(self) -> Floats:
        """Probability of switching mixture and pool for the incoming row, (2,)."""
        return self._choice.ahead(len(self._late))

    def mixed(self, values: Floats) -> Floats:
        """Predictions of the groups' mixtures, of one row."""
        if self._late:
            return self.snapshot().mixed(values)
        return super().mixed(values)

    def snapshot(self) -> PooledMixture:
        """Return a copy as it is for the incoming row, which knows of none before."""
        n_late = len(self._late)
        within, choice = self._within.moved(n_late), self._choice.moved(n_late)
        other = super().snapshot()
        other.__dict__.update(_within=within, _choice=choice, _late=deque())
        return other

    def retire(self, awake: NDArray[np.bool_]) -> None:
        """Go on with some readouts, by a mask (K,); a group without any is dropped."""
        before = self._awake.groups
        super().retire(awake)
        kept = np.isin(before, self._awake.groups)
        self._late = deque(row._replace(mixed=row.mixed[kept]) for row in self._late)

    def extend(
        self,
        losses: Floats,
        values: Iterable[Floats],
        labels: Floats,
        switching: Floats,
        firsts: NDArray[np.intp] | None = None,
        escapes: Sequence[float] | None = None,
    ) -> PooledRows:
        """Take in rows one after the other; there are no groups, and no new classes."""
        given = zip(values, losses, labels.tolist(), switching.tolist(), strict=True)
        return PooledRows.of([self._code(self.mixed(v), *row) for v, *row in given])

    def _code(
        self, mixed: Floats, losses: Floats, label: float, switching: float
    ) -> PooledRow:
        """Code a row, then learn the one whose label is known now."""
        coded = self.snapshot().observe(mixed, losses, label, switching)
        self._late.append(_Late(mixed, losses, label, switching, coded.pool))
        if len(self._late) > self._delay:
            row = self._late.popleft()
            self._pass.observe(row.mixed, row.label)
            self._close(row.losses, row.switching, row.pool)
        return coded

    def retrace(
        self,
        losses: Floats,
        switching: Floats,
        pool: Floats,
        weights: Floats,
        firsts: NDArray[np.intp] | None = None,
    ) -> Floats:
        """Go over rows that were pooled before, but for what :meth:`_code` learned."""
        shares, found = np.empty((len(pool), 2)), np.empty(len(pool))
        for i, row in enumerate(losses):
            costs = np.array([switching[i], pool[i]])
            choice = self._choice.moved(len(self._late))
            shares[i] = choice.weights
            (found[i],) = choice.observe(costs)
            self._late.append(_Late(np.empty(0), row, math.nan, *costs))
            if len(self._late) > self._delay:
                late = self._late.popleft()
                self._close(late.losses, late.switching, late.pool)
        self.history.append(switching, pool, shares, weights)
        self._late = deque(  # right as soon as the last rows are there
            late._replace(mixed=mixed, label=label)
            for late, mixed, label in zip(self._late, *self._restored, strict=False)
        )
        return found

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what cannot be computed again from the readouts' losses."""
        late = {
            "late": np.array([row.mixed for row in self._late]),
            "late_labels": np.array([row.label for row in self._late]),
        }
        return super().state_dict() | late

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Set the state of the pool; the rows must follow by :meth:`retrace`."""
        super().load_state_dict(state)
        self._restored = state["late"], state["late_labels"].tolist()
