"""The code of a stream: switching between readouts, and a pool of groups.

A coder depends on readouts only through their results for each row, in a `Block`. Codes
of live and stored blocks are bitwise identical, whether rows are coded one by one or
together.

With a pool there are two predictions: the switching mixture of all readouts and the
pool of the groups. A fixed share with rate ``1 / t`` mixes both, so after ``n`` labels
a useless pool has cost at most ``0.5 log(pi (n + 1/2))`` nats, if each label is known
before the next row.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl.pooling import GroupPass, without
from sklearn_mdl.switching import ForwardPass, GroupedShare, PriorLike

Arrays = Mapping[str, np.ndarray]  # arrays of a state, keyed by name
Floats = NDArray[np.float64]
T = TypeVar("T")


class Block(NamedTuple):
    """Results of readouts for ``n`` rows.

    Attributes
    ----------
    losses : ndarray of shape (n, K)
        Cost of the labels under each readout, in nats. NaN for retired readouts.
    mixtures : ndarray of shape (n, G, Q)
        Predictions of the mixtures within groups: probabilities of classes, or mean,
        variance and degrees of freedom. NaN where a group has retired. ``G = 0``
        without a pool.
    labels : ndarray of shape (n,)
        Encoded classes, or real numbers.
    known : ndarray of shape (n + 1,)
        Number of labels of the stream that are known when each row is predicted, and
        after the last row.
    escapes : ndarray of shape (n,) or float
        Cost of coding whether a class is new, in nats, which all losses include.
    """

    losses: Floats
    mixtures: Floats
    labels: NDArray[np.generic]
    known: NDArray[np.intp]
    escapes: Floats | float = 0.0

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join blocks of adjacent rows, without their escapes."""
        losses, mixtures, labels, known, _ = zip(*parts, strict=True)
        ends = [*(part[:-1] for part in known), known[-1][-1:]]
        return cls(*map(np.concatenate, (losses, mixtures, labels, ends)))


class Coded(NamedTuple):
    """Results of a coder for ``n`` rows.

    Attributes
    ----------
    codes : ndarray of shape (n, 3)
        Cost of each label in nats: as coded, under the switching mixture of all
        readouts, and under the pool.
    posterior : ndarray of shape (n, K)
        Probability of each readout before each label.
    shares : ndarray of shape (n, 2)
        Probabilities of switching and of the pool before each label.
    pool_weights : ndarray of shape (n, G)
        Weights of the groups in the pool before each label.
    pooled : ndarray of shape (n, P)
        Predictions of the pool; ``P = 0`` without a pool.
    """

    codes: Floats
    posterior: Floats
    shares: Floats
    pool_weights: Floats
    pooled: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the results for adjacent rows."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Coder:
    """Coder of labels that switches between readouts.

    Parameters
    ----------
    prior : PriorLike
    n_readouts : int
    weights : array-like of shape (K,) or None
        Prior weights of the readouts (uniform if None).

    Attributes
    ----------
    awake : ndarray of shape (K,)
        Mask of the readouts that have not retired.
    """

    def __init__(
        self, prior: PriorLike, n_readouts: int, weights: ArrayLike | None
    ) -> None:
        self._forward = ForwardPass(prior, n_readouts, weights)
        self.awake = np.ones(n_readouts, dtype=bool)

    @property
    def weights(self) -> Floats:
        """Probabilities of the awake readouts for the incoming row, in order."""
        return self._forward.weights[self.awake]

    @property
    def n_rows(self) -> int:
        """Number of rows coded so far."""
        return self._forward.n_steps

    def check_length(self, n_rows: int) -> None:
        """Raise ValueError if the prior does not allow ``n_rows`` more rows."""
        self._forward.check_length(n_rows)

    def extend(self, block: Block) -> Coded:
        """Code the next rows of the stream."""
        trace, n = self._forward.extend(block.losses, block.known), len(block.losses)
        codes = np.repeat(trace.codelengths[:, np.newaxis], 3, axis=1)
        shares, none = np.tile([1.0, 0.0], (n, 1)), np.empty((n, 0))
        return Coded(codes, trace.posterior, shares, none, none)

    def reveal(self, n_known: int) -> None:
        """Learn the labels of the first ``n_known`` rows."""
        self._forward.reveal(n_known)

    def predict(self, values: Floats, mixtures: Floats) -> Floats:
        """Predict the incoming row.

        Parameters
        ----------
        values : ndarray of shape (K, C)
            Log-probabilities of the awake readouts.
        mixtures : ndarray of shape (G, C)
            Mixtures of the groups, as in a block.

        Returns
        -------
        proba : ndarray of shape (C,)
        """
        # A matrix product would sum in an order that depends on the threads.
        weights = self.weights[:, np.newaxis]
        return np.asarray(np.add.reduce(weights * np.exp(values), axis=0))

    def predict_rows(
        self, outcome: Outcome, values: Tensor, mixtures: Floats
    ) -> Floats:
        """Predict rows that are not part of the stream.

        Parameters
        ----------
        outcome : Outcome
        values : Tensor of shape (K, n, P)
            Predictions of the awake readouts.
        mixtures : ndarray of shape (n, G, Q)

        Returns
        -------
        mixed : ndarray of shape (n, ...)
            As returned by :meth:`Outcome.mix_rows`.
        """
        return outcome.mix_rows(values, self.weights)

    def needed(self, slack: float) -> list[NDArray[np.intp]]:
        """Return an empty list, since there is no pool."""
        return []

    def retire(self, readouts: Sequence[int]) -> None:
        """Drop some readouts."""
        self.awake[list(readouts)] = False
        self._forward.retire(readouts)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state that cannot be computed again from losses."""
        return {}

    def load_state_dict(self, state: Arrays) -> None:
        """Restore the state of another coder of the same losses."""

    def recode(self, losses: Floats, known: NDArray[np.intp]) -> Floats:
        """Code losses (n, K) again, and return the posterior."""
        return self._forward.extend(losses, known).posterior


class _Pending(NamedTuple):
    """A coded row whose label is not known yet."""

    mixed: Floats
    label: float
    costs: Floats  # under switching, and under the pool


class PooledCoder(Coder):
    """Coder of labels that mixes switching with a pool of groups.

    Parameters
    ----------
    prior, n_readouts, weights
        As for :class:`Coder`.
    group_pass : GroupPass
        Pass of the pool, before its first row.
    members : sequence of G ndarrays, default=()
        Columns of the readouts of each group (not needed for stored blocks).
    """

    def __init__(
        self,
        prior: PriorLike,
        n_readouts: int,
        weights: ArrayLike | None,
        group_pass: GroupPass,
        members: Sequence[NDArray[np.intp]] = (),
    ) -> None:
        super().__init__(prior, n_readouts, weights)
        self._pool = group_pass
        self._members = members
        self._awake_groups = np.ones(len(group_pass.weights), dtype=bool)
        self._choice = GroupedShare(np.ones(2), np.array([0]))
        self._n_rows = 0
        self._pending: deque[_Pending] = deque()

    def extend(self, block: Block) -> Coded:
        """Code the next rows of the stream."""
        trace, n = self._forward.extend(block.losses, block.known), len(block.losses)
        codes, shares = np.empty((n, 3)), np.empty((n, 2))
        weights, pooled = np.zeros((n, len(self._awake_groups))), []
        codes[:, 1] = trace.codelengths
        asleep = np.logical_and.reduce(np.isnan(block.mixtures), axis=2)
        escapes = np.broadcast_to(block.escapes, n).tolist()
        rows = zip(block.mixtures, block.labels.tolist(), escapes, strict=True)
        for i, (mixed, label, escape) in enumerate(rows):
            self.reveal(int(block.known[i]))
            self._retire_groups(asleep[i])
            shares[i] = self._choice.ahead(len(self._pending))
            weights[i, self._awake_groups] = self._pool.weights
            in_time = not self._pending and block.known[i + 1] == self._n_rows + 1
            pooled.append(self._code(mixed, label, escape, codes[i], in_time))
            self._n_rows += 1
        return Coded(codes, trace.posterior, shares, weights, np.array(pooled))

    def _code(
        self, mixed: Floats, label: float, escape: float, codes: Floats, in_time: bool
    ) -> Floats:
        """Write the codes (3,) of a row, and return the pool's prediction.

        The label is learned only if ``in_time`` is True.
        """
        mixed = mixed[self._awake_groups]
        if not len(mixed):  # in stored blocks all groups may be asleep
            predicted, cost = np.full(mixed.shape[1], np.nan), math.nan
        elif in_time:
            predicted, cost = self._pool.observe(mixed, label)
        else:
            predicted = self._pool.predict(mixed)
            cost = self._pool.cost(predicted, label)
        codes[2] = codes[1] if math.isnan(cost) else cost + escape
        choice = self._choice if in_time else self._choice.moved(len(self._pending))
        (codes[0],) = choice.observe(codes[1:])
        if not in_time:
            self._pending.append(_Pending(mixed, label, codes[1:].copy()))
        return predicted

    def reveal(self, n_known: int) -> None:
        """Learn the labels of the first ``n_known`` rows."""
        super().reveal(n_known)
        while self._n_rows - len(self._pending) < n_known:
            row = self._pending.popleft()
            if len(row.mixed):
                self._pool.observe(row.mixed, row.label)
            self._choice.observe(row.costs)

    @property
    def shares(self) -> Floats:
        """Probabilities (2,) of switching and of the pool for the incoming row."""
        return self._choice.ahead(len(self._pending))

    def predict(self, values: Floats, mixtures: Floats) -> Floats:
        """Predict the incoming row (see :meth:`Coder.predict`)."""
        switching, pool = self.shares
        pooled = self._pool.predict(mixtures[self._awake_groups])
        return np.asarray(switching * super().predict(values, mixtures) + pool * pooled)

    def predict_rows(
        self, outcome: Outcome, values: Tensor, mixtures: Floats
    ) -> Floats:
        """Predict rows that are not part of the stream (see `Coder.predict_rows`)."""
        mixed = super().predict_rows(outcome, values, mixtures)
        pooled = [self._pool.predict(row[self._awake_groups]) for row in mixtures]
        return outcome.mix_rows_with(mixed, np.array(pooled), self.shares)

    def needed(self, slack: float) -> list[NDArray[np.intp]]:
        """Return the columns of awake readouts in each group that the pool needs.

        The least useful group is dropped as long as it saves at most ``slack`` nats
        over all labels so far and is not the last group. The other weights adapt before
        the next group is tried. To second order, dropping group ``g`` costs
        ``w_g^2 / (2 (H^-1)_gg)``.
        """
        weights, hessian = self._pool.weights, self._pool.hessian
        left = np.flatnonzero(self._awake_groups).tolist()
        while len(left) > 1:
            inverse = np.linalg.inv(hessian)
            saved = weights**2 / (2 * np.diag(inverse))
            least = int(saved.argmin())
            if saved[least] > slack:
                break
            weights, hessian = without(weights, hessian, [least])
            del left[least]
        members = [self._members[group] for group in left]
        return [np.sort(columns[self.awake[columns]]) for columns in members]

    def retire(self, readouts: Sequence[int]) -> None:
        """Drop some readouts, and groups without an awake readout."""
        super().retire(readouts)
        gone = [not self.awake[columns].any() for columns in self._members]
        self._retire_groups(np.array(gone))

    def _retire_groups(self, asleep: NDArray[np.bool_]) -> None:
        """Drop the groups in a mask (G,) from the pool, unless already dropped."""
        gone = asleep[self._awake_groups]
        if gone.any():
            self._pool.retire(np.flatnonzero(gone).tolist())
            kept = (row._replace(mixed=row.mixed[~gone]) for row in self._pending)
            self._pending = deque(kept)
            self._awake_groups = self._awake_groups & ~asleep

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state that cannot be computed again from losses."""
        rows = list(zip(*self._pending, strict=True)) or [(), (), ()]
        waiting = zip(_Pending._fields, map(np.array, rows), strict=True)
        parts = {"pool.": self._pool.state_dict(), "choice.": self._choice.state_dict()}
        n_rows = {"n_rows": np.array([self._n_rows])}
        return joined({**parts, "pending.": dict(waiting), "": n_rows})

    def load_state_dict(self, state: Arrays) -> None:
        """Restore the state of another coder of the same losses."""
        self._pool.load_state_dict(under(state, "pool."))
        self._choice.load_state_dict(under(state, "choice."))
        self._n_rows = int(state["n_rows"][0])
        waiting = under(state, "pending.")
        mixed, labels, costs = (np.array(waiting[name]) for name in _Pending._fields)
        self._pending = deque(map(_Pending, mixed, labels.tolist(), costs))


def joined(parts: Mapping[str, Arrays]) -> dict[str, np.ndarray]:
    """Join arrays, keyed by the head of their names and the rest (see `under`)."""
    return {head + k: v for head, part in parts.items() for k, v in part.items()}


def under(arrays: Mapping[str, T], head: str) -> dict[str, T]:
    """Select arrays whose names begin with ``head``, keyed by the rest of the name."""
    names = [name for name in arrays if name.startswith(head)]
    return {name.removeprefix(head): arrays[name] for name in names}


def by_number(arrays: Mapping[str, T]) -> dict[int, dict[str, T]]:
    """Group arrays with names such as "3.weights" by number, keyed by the rest."""
    groups: dict[int, dict[str, T]] = {}
    for key, array in arrays.items():
        number, _, name = key.partition(".")
        groups.setdefault(int(number), {})[name] = array
    return groups
