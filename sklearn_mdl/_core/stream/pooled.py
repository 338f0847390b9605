"""Readouts that switch within their groups, groups that are pooled, and the code.

What is coded is the better of two predictions, as far as that can be known in time: the
switching mixture of all readouts, and the pool of the groups. A fixed share, at rate
``1 / t``, follows the better one, so that a pool costs next to nothing where it is of
no use.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.stream.storage import StoredMixtures
from sklearn_mdl.pooling import GroupPass, Members, share_within, without

Floats = NDArray[np.float64]


class PooledRow(NamedTuple):
    """What pooling has made of one row; the attributes of :class:`PooledRows`."""

    codelength: float
    switching: float
    pool: float
    shares: Floats
    weights: Floats
    predicted: Floats
    kept: tuple[float, Floats] | None


class PooledRows(NamedTuple):
    """What pooling has made of ``n`` rows.

    Attributes
    ----------
    codelengths : ndarray of shape (n,)
        Cost of the labels under what is coded, in nats.
    switching, pool : ndarray of shape (n,)
        Under the switching mixture of all readouts, and under the pool.
    shares : ndarray of shape (n, 2)
        Probability of those two before each label.
    weights : ndarray of shape (n, G)
        Weights of the groups in the pool, before each label.
    predicted : ndarray of shape (n, P)
        What the pool predicts.
    stored : StoredMixtures or None
        Labels and what the groups predict, if that is to be kept.
    """

    codelengths: Floats
    switching: Floats
    pool: Floats
    shares: Floats
    weights: Floats
    predicted: Floats
    stored: StoredMixtures | None

    @classmethod
    def of(cls, rows: Sequence[PooledRow]) -> Self:
        """Stack single rows."""
        *columns, kept = zip(*rows, strict=True)
        stored = None
        if kept[0] is not None:
            stored = StoredMixtures(*map(np.array, zip(*kept, strict=True)))
        return cls._make([*map(np.array, columns), stored])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join rows that follow each other."""
        *columns, stored = zip(*parts, strict=True)
        both = None
        if stored[0] is not None:
            both = StoredMixtures(*map(np.concatenate, zip(*stored, strict=True)))
        return cls._make([*map(np.concatenate, columns), both])


@dataclass
class Groups:
    """Readouts in groups: names, and the columns of each side by side."""

    names: tuple[Hashable, ...]
    columns: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, groups: ArrayLike, n_readouts: int, weights: Floats | None) -> Self:
        """Group readouts by their labels; those without prior weight are left out.

        Raises
        ------
        ValueError
            If there is not one label for each readout.
        """
        labels = np.asarray(groups).tolist()
        if np.ndim(groups) != 1 or len(labels) != n_readouts:
            raise ValueError(
                f"Groups of a pool must be {n_readouts} labels, one for each readout, "
                f"got shape {np.shape(groups)}; name the group of each, or pass None"
            )
        kept = [k for k in range(n_readouts) if weights is None or weights[k] > 0]
        names = tuple(dict.fromkeys(labels[k] for k in kept))
        members = [[k for k in kept if labels[k] == name] for name in names]
        starts = np.cumsum([0, *map(len, members[:-1])])
        return cls(names, np.concatenate(members).astype(np.intp), starts)

    def places(self, n_readouts: int) -> list[int]:
        """Return the place of each readout's group, -1 for those of none."""
        found = np.full(n_readouts, -1)
        sizes = np.diff([*self.starts, len(self.columns)])
        found[self.columns] = np.repeat(np.arange(len(sizes)), sizes)
        return list(map(int, found))

    def sums(self, values: Floats) -> Floats:
        """Sum values (n, K) of readouts over each group, (n, G)."""
        found: Floats = np.add.reduceat(values[:, self.columns], self.starts, axis=1)
        return found


class _Awake(NamedTuple):
    """Groups with a readout awake, and their members in the order of these.

    Places of the members are those among all readouts awake, and among all grouped. A
    group is whole if all its members are awake.
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
        found, starts, counts = np.unique(
            of_group, return_index=True, return_counts=True
        )
        sizes = np.diff([*groups.starts, len(groups.columns)])
        members = Members(starts, len(grouped))
        grouped = grouped[members.order]
        places = (np.cumsum(awake) - 1)[groups.columns[grouped]]
        return cls(found, places, grouped, members, counts == sizes[found])


class GroupMixer:
    """Readouts that switch within their groups, by a fixed share.

    Parameters
    ----------
    groups : Groups
    weights : ndarray of shape (K,) or None
        Prior weights of all readouts; None is uniform.
    group_pass : GroupPass
        Says how predictions of this kind are mixed.

    Attributes
    ----------
    groups : Groups
    rates : sequence of float or None
        Of the fixed share inside groups, as of the pool.
    """

    def __init__(
        self, groups: Groups, weights: Floats | None, group_pass: GroupPass
    ) -> None:
        self.groups = groups
        size = len(groups.columns)
        prior = np.ones(size) if weights is None else weights[groups.columns]
        self._within = share_within(prior, groups.starts, group_pass.rates)
        self._pass = group_pass
        self.rates = group_pass.rates
        n_readouts = size if weights is None else len(weights)
        self._awake = _Awake.of(groups, np.ones(n_readouts, dtype=bool))

    def mixed(self, values: Floats) -> Floats:
        """Predictions of the groups' mixtures, of one row."""
        _, places, grouped, members, whole = self._awake
        weights = self._within.weights[grouped]
        if len(grouped) < len(self.groups.columns):  # the others sleep
            sums = np.where(whole, 1.0, members.sums(weights.copy()))
            weights /= sums[members.groups]
        return self._pass.mix(values[places], weights, members)

    def of_all(self, mixed: Floats) -> Floats:
        """Predictions of all groups, (G, Q); NaN asleep."""
        whole = np.full((len(self.groups.names), *mixed.shape[1:]), np.nan)
        whole[self._awake.groups] = mixed
        return whole

    def mixtures(self, values: Iterable[Floats], losses: Floats) -> Floats:
        """Mix n rows of predictions (K, P) of readouts awake, one after the other.

        Parameters
        ----------
        values : iterable of n ndarrays of shape (K, P)
        losses : ndarray of shape (n, K)
            What the labels cost all readouts, in nats; NaN asleep.

        Returns
        -------
        mixtures : ndarray of shape (n, G, Q)
            NaN asleep.
        """
        found = []
        for row, costs in zip(values, losses, strict=True):
            found.append(self.of_all(self.mixed(row)))
            self._within.observe(costs[self.groups.columns])
        return np.array(found)

    def retire(self, awake: NDArray[np.bool_]) -> None:
        """Go on with some readouts, by a mask (K,)."""
        self._awake = _Awake.of(self.groups, awake)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the weights within groups, and the step that they are for."""
        return self._within.state_dict()

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from where another mixer was."""
        self._within.load_state_dict(state)


class PooledMixture(GroupMixer):
    """Switching within groups of readouts, a pool across them, and their code.

    Parameters
    ----------
    groups, weights, group_pass
        As of :class:`GroupMixer`; the pass is that of the pool.
    stored : StoredMixtures or None
        An empty one, if what the groups predict is kept.

    Attributes
    ----------
    groups : Groups
    stored : StoredMixtures or None
    history : PoolHistory
    """

    def __init__(
        self,
        groups: Groups,
        weights: Floats | None,
        group_pass: GroupPass,
        stored: StoredMixtures | None = None,
    ) -> None:
        super().__init__(groups, weights, group_pass)
        self.stored = stored
        self._choice = share_within(np.ones(2), np.array([0]), None)
        self.history = PoolHistory(len(groups.names))

    @property
    def weights(self) -> Floats:
        """Weights of the groups for the incoming row, (G,); of those asleep none."""
        weights = np.zeros(len(self.groups.names))
        weights[self._awake.groups] = self._pass.weights
        return weights

    def needed(self, slack: float) -> list[NDArray[np.intp]]:
        """Columns of each group that awake readouts form and the pool needs.

        The group goes first that saves least; the others' weights take over what they
        can, and so on, while the group saves at most ``slack`` nats of all labels so
        far. To second order dropping group ``g`` costs ``w_g^2 / (2 (H^-1)_gg)``.
        """
        weights, hessian = self._pass.weights, self._pass.hessian
        left = list(range(len(weights)))
        while len(left) > 1:
            inverse = np.linalg.inv(hessian)
            saved = weights**2 / (2 * np.diag(inverse))
            least = int(saved.argmin())
            if saved[least] > slack:
                break
            weights, hessian = without(weights, hessian, [least])
            del left[least]
        columns = self.groups.columns[self._awake.grouped]
        of_member = self._awake.members.groups
        return [np.sort(columns[of_member == group]) for group in left]

    def retire(self, awake: NDArray[np.bool_]) -> None:
        """Go on with some readouts, by a mask (K,); a group without any is dropped."""
        before = self._awake.groups.tolist()
        super().retire(awake)
        left = set(self._awake.groups.tolist())
        self._pass.retire([i for i, group in enumerate(before) if group not in left])

    @property
    def shares(self) -> Floats:
        """Probability of switching mixture and pool for the incoming row, (2,)."""
        return self._choice.weights

    def predict(self, values: Floats) -> Floats:
        """Predict one row, given predictions (K, P) of the readouts awake."""
        return self._pass.predict(self.mixed(values))

    def predictions(self, values: Floats) -> Floats:
        """Predict rows that are not part of the stream, (n, P).

        Predictions of the readouts are of shape (K, n, P).
        """
        return np.array([self.predict(row) for row in values.swapaxes(0, 1)])

    def add_classes(self, n: int) -> None:
        """Go on with more classes."""
        self._pass.add_classes(n)

    def observe(
        self,
        mixed: Floats,
        losses: Floats,
        label: float | None,
        switching: float,
        escape: float = 0.0,
    ) -> PooledRow:
        """Take in one row.

        Parameters
        ----------
        mixed : ndarray of shape (G, Q)
            Predictions of the groups awake, as of :meth:`mixed`.
        losses : ndarray of shape (K,)
            What the label cost all of them, in nats; NaN asleep.
        label : int, float or None
            None is a class that nobody has predicted, which moves no weight.
        switching : float
            What it cost the switching mixture, in nats.
        escape : float, default=0.0
            Part of the costs that all readouts share.
        """
        weights, shares = self.weights, self.shares
        kept = None
        if label is None:
            predicted, cost = self._pass.predict(mixed), 0.0
        else:
            if self.stored is not None:
                kept = label, self.of_all(mixed)
            predicted, cost = self._pass.observe(mixed, label)
        cost = switching if math.isnan(cost) else cost + escape
        codelength = self._close(losses, switching, cost)
        return PooledRow(codelength, switching, cost, shares, weights, predicted, kept)

    def extend(
        self,
        losses: Floats,
        values: Iterable[Floats],
        labels: Floats,
        switching: Floats,
        firsts: NDArray[np.intp] | None = None,
        escapes: Sequence[float] | None = None,
    ) -> PooledRows:
        """Take in rows one after the other: (n, K), n of (K, P), (n,), (n,).

        ``firsts`` (n,) is the first row of each row's group: what codes and predicts
        all rows of a group is the pool as it was then. ``escapes`` (n,) are the parts
        of the costs that all readouts share.
        """
        parts = values, losses, labels.tolist(), switching.tolist()
        given = zip(*parts, escapes or [0.0] * len(losses), strict=True)
        if firsts is None:
            return PooledRows.of([self.observe(self.mixed(v), *r) for v, *r in given])
        found, known = [], self
        for i, row in enumerate(given):
            if firsts[i] == i:
                known = self.snapshot()
            mixed = known.mixed(row[0])
            found.append(known.snapshot().observe(mixed, *row[1:]))
            self._learn(mixed, *row[1:3], found[-1])
        return PooledRows.of(found)

    def extend_mixed(
        self, losses: Floats, mixtures: Floats, labels: Floats, switching: Floats
    ) -> PooledRows:
        """Take in rows whose groups were mixed elsewhere: (n, K), (n, G, Q), (n,)."""
        awake = mixtures[:, self._awake.groups]
        given = zip(awake, losses, labels.tolist(), switching.tolist(), strict=True)
        return PooledRows.of([self.observe(*row) for row in given])

    def _learn(
        self,
        mixed: Floats,
        losses: Floats,
        label: float,
        row: PooledRow,
    ) -> None:
        """Take in a row that was coded by what was known when its group began."""
        self._pass.observe(mixed, label)
        self._close(losses, row.switching, row.pool)

    def snapshot(self) -> PooledMixture:
        """Return a copy that does not move with this one, for predictions."""
        own = copy.copy(self._pass)
        own.load_state_dict(self._pass.state_dict())
        within, choice = copy.copy(self._within), copy.copy(self._choice)
        other = copy.copy(self)
        other.__dict__.update(_within=within, _choice=choice, _pass=own)
        return other

    def retrace(
        self,
        losses: Floats,
        switching: Floats,
        pool: Floats,
        weights: Floats,
        firsts: NDArray[np.intp] | None = None,
    ) -> Floats:
        """Go over rows that were pooled before: (n, K), (n,), (n,), (n, G), (n,).

        Returns
        -------
        codelengths : ndarray of shape (n,)
        """
        shares, found = np.empty((len(pool), 2)), np.empty(len(pool))
        known = self._choice
        for i, row in enumerate(losses):
            if firsts is None or firsts[i] == i:
                known = copy.copy(self._choice)
            costs = np.array([switching[i], pool[i]])
            shares[i], (found[i],) = known.weights, copy.copy(known).observe(costs)
            self._close(row, *costs)
        self.history.append(switching, pool, shares, weights)
        return found

    def _close(self, losses: Floats, switching: float, pool: float) -> float:
        self._within.observe(losses[self.groups.columns])
        (codelength,) = self._choice.observe(np.array([switching, pool]))
        return float(codelength)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what cannot be computed again from the readouts' losses."""
        history = self.history
        return {"codelengths": history.pool, "history": history.weights} | (
            self._pass.state_dict()
        )

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Set the state of the pool; the rows must follow by :meth:`retrace`."""
        self._pass.load_state_dict(state)


class PoolHistory:
    """What a pool has done so far, by example.

    Attributes
    ----------
    switching, pool : ndarray of shape (N,)
        Codelengths of the two, in nats.
    shares : ndarray of shape (N, 2)
        Their probabilities before each label.
    weights : ndarray of shape (N, G)
        Weights of the groups before each label.
    """

    def __init__(self, n_groups: int) -> None:
        self._n_groups = n_groups
        self._costs = GrowingArray(2)
        self._shares = GrowingArray(2)
        self._weights = GrowingArray(n_groups)

    def append(
        self, switching: Floats, pool: Floats, shares: Floats, weights: Floats
    ) -> None:
        """Add n rows, in the shapes of the attributes."""
        self._costs.append(np.column_stack([switching, pool]))
        self._shares.append(shares)
        self._weights.append(weights)

    def branch(self) -> PoolHistory:
        """Return an empty history for what follows."""
        return PoolHistory(self._n_groups)

    @property
    def switching(self) -> np.ndarray:
        """Codelength of every example under the switching mixture, (N,), in nats."""
        return self._costs.rows[:, 0]

    @property
    def pool(self) -> np.ndarray:
        """Codelength of every example under the pool, (N,), in nats."""
        return self._costs.rows[:, 1]

    @property
    def shares(self) -> np.ndarray:
        """Probability of the two before each label, (N, 2)."""
        return self._shares.rows

    @property
    def weights(self) -> np.ndarray:
        """Weights of the groups before each label, (N, G)."""
        return self._weights.rows
