"""Mixtures of the readouts in each group, which a pool combines."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.pooling import GroupPass, Members
from sklearn_mdl.switching import GroupedShare, LearnedGroupedShare

Floats = NDArray[np.float64]


@dataclass
class Groups:
    """Groups of readouts, with their names and columns."""

    names: tuple[Hashable, ...]
    columns: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, groups: ArrayLike, n_readouts: int, weights: Floats | None) -> Self:
        """Group readouts by name, leaving out readouts with zero prior weight.

        Raises
        ------
        ValueError
            If there is not one name for each readout, or if a name is NaN.
        """
        labels = np.asarray(groups).tolist()
        if np.ndim(groups) != 1 or len(labels) != n_readouts:
            raise ValueError(
                f"pooling must name the kinds of all {n_readouts} readouts, got shape "
                f"{np.shape(groups)}; pass a name for each, or LogLinearPool()"
            )
        if any(name != name for name in np.asarray(groups, dtype=object).tolist()):
            cure = "replace NaN by a name, for example 'other'"
            raise invalid("Kinds in pooling", "names without NaN", labels, cure)
        kept = [k for k in range(n_readouts) if weights is None or weights[k] > 0]
        names = tuple(dict.fromkeys(labels[k] for k in kept))
        members = [[k for k in kept if labels[k] == name] for name in names]
        starts = np.cumsum([0, *map(len, members[:-1])])
        return cls(names, np.concatenate(members).astype(np.intp), starts)

    @property
    def members(self) -> list[NDArray[np.intp]]:
        """Columns of the readouts of each group."""
        return np.split(self.columns, self.starts[1:])


class _Awake(NamedTuple):
    """Groups with at least one awake readout, and their awake members.

    ``places`` are positions of the members among all awake readouts, and ``grouped``
    are their positions in ``Groups.columns``. A group is whole if all its members are
    awake.
    """

    groups: NDArray[np.intp]
    places: NDArray[np.intp]
    grouped: NDArray[np.intp]
    members: Members
    whole: NDArray[np.bool_]

    @classmethod
    def of(cls, groups: Groups, awake: NDArray[np.bool_]) -> Self:
        grouped = np.flatnonzero(awake[groups.columns])
        of_group = np.searchsorted(groups.starts, grouped, side="right") - 1
        present, starts, counts = np.unique(
            of_group, return_index=True, return_counts=True
        )
        sizes = np.diff([*groups.starts, len(groups.columns)])
        members = Members(starts, len(grouped))
        grouped = grouped[members.order]
        places = (np.cumsum(awake) - 1)[groups.columns[grouped]]
        return cls(present, places, grouped, members, counts == sizes[present])


class NoMixer:
    """Mixer of a run without a pool, which has no groups."""

    def mixtures(
        self, values: Sequence[Tensor], losses: Floats, known: NDArray[np.intp]
    ) -> Floats:
        """Return empty mixtures (n, 0, 0) for n rows (see `GroupMixer`)."""
        return np.empty((len(losses), 0, 0))

    def predict(self, values: Floats) -> Floats:
        """Return empty mixtures (n, 0, 0) for n rows."""
        return np.empty((values.shape[1], 0, 0))

    def reveal(self, n_known: int) -> None:
        """Do nothing, since there are no weights to learn."""

    def retire(self, awake: NDArray[np.bool_]) -> None:
        """Change nothing."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Change nothing."""


class GroupMixer(NoMixer):
    """Mixer of the readouts within each group, by a fixed share.

    Parameters
    ----------
    groups : Groups
    weights : ndarray of shape (K,) or None
        Prior weights of all readouts (uniform if None).
    n_readouts : int
    group_pass : GroupPass
        Pass of the pool, which determines how predictions are mixed.
    """

    def __init__(
        self,
        groups: Groups,
        weights: Floats | None,
        n_readouts: int,
        group_pass: GroupPass,
    ) -> None:
        self._groups = groups
        size = len(groups.columns)
        prior = np.ones(size) if weights is None else weights[groups.columns]
        self._within: GroupedShare | LearnedGroupedShare
        if group_pass.rates is None:
            self._within = GroupedShare(prior, groups.starts)
        else:
            self._within = LearnedGroupedShare(prior, groups.starts, group_pass.rates)
        self._pass = group_pass
        self._awake = _Awake.of(groups, np.ones(n_readouts, dtype=bool))
        self._n_rows = 0
        self._pending: deque[Floats] = deque()  # losses of rows with unknown labels

    def predict(self, values: Floats) -> Floats:
        """Mix the awake readouts' predictions (K, n, P) of rows outside the stream.

        The weights are those for the incoming row of the stream.

        Returns
        -------
        mixtures : ndarray of shape (n, G, Q)
            NaN for groups without an awake readout.
        """
        weights = self._within.ahead(len(self._pending))
        return self._mixed(values[self._awake.places], weights[:, np.newaxis])

    def mixtures(
        self, values: Sequence[Tensor], losses: Floats, known: NDArray[np.intp]
    ) -> Floats:
        """Mix the predictions of the awake readouts for n rows, row by row.

        Parameters
        ----------
        values : sequence of Tensor of shape (n, P)
            Predictions of the awake readouts.
        losses : ndarray of shape (n, K)
            Cost of the labels under all readouts, in nats. NaN for retired readouts.
        known : ndarray of shape (n + 1,)
            Number of rows with known labels at each row, and after the last row.

        Returns
        -------
        mixtures : ndarray of shape (n, G, Q)
            NaN for groups without an awake readout.
        """
        weights = []
        self.reveal(int(known[0]))
        for i, row in enumerate(losses[:, self._groups.columns], start=1):
            weights.append(self._within.ahead(len(self._pending)))
            self._pending.append(row)
            self._n_rows += 1
            self.reveal(int(known[i]))
        picked = torch.stack([values[place] for place in self._awake.places])
        return self._mixed(picked.cpu().numpy(), np.transpose(weights))

    def _mixed(self, values: Floats, weights: Floats) -> Floats:
        """Mix predictions (A, n, P) of awake members, given all weights (M, n)."""
        groups, _, grouped, members, whole = self._awake
        weights = weights[grouped]
        if len(grouped) < len(self._groups.columns):  # some members are asleep
            sums = np.where(whole[:, np.newaxis], 1.0, members.sums(weights.copy()))
            weights /= sums[members.groups]
        mixed = self._pass.mix(values, weights, members).swapaxes(0, 1)
        if len(groups) == len(self._groups.names):
            return mixed
        widened = np.full((len(mixed), len(self._groups.names), mixed.shape[2]), np.nan)
        widened[:, groups] = mixed
        return widened

    def reveal(self, n_known: int) -> None:
        """Learn the labels of the first ``n_known`` rows."""
        while self._n_rows - len(self._pending) < n_known:
            self._within.observe(self._pending.popleft())

    def retire(self, awake: NDArray[np.bool_]) -> None:
        """Keep only the readouts in a mask (K,)."""
        self._awake = _Awake.of(self._groups, awake)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the weights within groups, and losses of rows with unknown labels."""
        rows = np.reshape(self._pending, (-1, len(self._groups.columns)))
        waiting = {"n_rows": np.array([self._n_rows]), "pending": rows}
        return {**self._within.state_dict(), **waiting}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the state of another mixer."""
        self._within.load_state_dict(state)
        self._n_rows = int(state["n_rows"][0])
        self._pending = deque(np.array(state["pending"]))
