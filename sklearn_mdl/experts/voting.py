r"""Neighbours that vote: the learner behind :class:`~sklearn_mdl.NeighborsReadout`.

Let :math:`e_i \ge 0` be by how much the squared distance of the ``i``-th nearest row
exceeds that of the nearest, in units of the mean squared distance of the ``k`` nearest.
With a bandwidth ``h``, a smoothing ``s`` and a heat :math:`\beta`,

.. math::

    w_i = \frac{e^{-e_i / h}}{\sum_j e^{-e_j / h}}, \qquad
    v_c = \sum_{i : y_i = c} w_i, \qquad
    p_c \propto (s + v_c)^\beta .

Forward calibration moves ``b`` and :math:`\log h`, where :math:`\beta =
\log(1 + e^b)`, by one step on each minibatch before its rows join the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sklearn_mdl.experts.seen import SeenRows
from sklearn_mdl.scaling import ReExpression, ScaledRows
from sklearn_mdl.stacked import ForwardCalibration, heat_of
from sklearn_mdl.stacked.calibration import IDENTITY

TINY = 1e-300
BANDWIDTHS = (1e-4, 1e4)  # between which calibration keeps them


class Voters(NamedTuple):
    """A readout as this learner sees it."""

    column: int
    n_neighbors: int
    bandwidth: float
    smoothing: float
    calibration: bool


class NeighborsLearner:
    """Readouts that look at the same neighbours, more or fewer of them.

    Parameters
    ----------
    members : sequence of Voters
    metric : {"euclidean", "cosine"}
    scaling : {"standard", "whiten"} or None
    scalings : sequence of {"standard", "whiten", None}
        How rows will be handed to it.
    n_classes : int
    device : torch.device
    """

    n_replay_streams = 0
    recency = 1.0

    def __init__(
        self,
        members: Sequence[Voters],
        metric: str,
        scaling: str | None,
        scalings: Sequence[str | None],
        n_classes: int,
        device: torch.device,
    ) -> None:
        self.columns = [member.column for member in members]
        self.members = list(members)
        self.metric = metric
        self.scalings = scalings
        self.view = scalings.index(scaling)
        self.classes = torch.arange(n_classes, device=device)
        self.labels = torch.empty(0, dtype=torch.long, device=device)
        self.calibration = ForwardCalibration(
            [[IDENTITY, math.log(member.bandwidth)] for member in members]
        )

    def attach(self, rows: ScaledRows) -> None:
        """Remember where the rows learned can be read."""
        self.seen = SeenRows(rows, self.view, self.metric)

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (K, n, C), float64, of rows (n_scalings, n, d)."""
        if not len(self.labels):
            shape = (len(self.members), x.shape[1], len(self.classes))
            return torch.full(
                shape, -math.log(shape[2]), dtype=torch.float64, device=x.device
            )
        excesses = self._excesses(x)
        return torch.stack(
            [self._vote(i, *excess).log_proba for i, excess in enumerate(excesses)]
        )

    def _excesses(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the ``e_i`` (n, k) and the votes (n, k, C) of every member."""
        most = max(member.n_neighbors for member in self.members)
        distances, places = self.seen.nearest(x[self.view], len(self.labels), most)
        votes = (self.labels[places][..., None] == self.classes).double()
        for member in self.members:
            near = distances[:, : member.n_neighbors]
            unit = near.mean(1, keepdim=True).clamp_min(TINY)
            yield (near - near[:, :1]) / unit, votes[:, : member.n_neighbors]

    def _vote(self, index: int, excess: Tensor, votes: Tensor) -> _Ballot:
        raw, log_bandwidth = self.calibration.member(index)
        heat, slope = heat_of(raw)
        scaled = excess / math.exp(log_bandwidth)
        weights = torch.softmax(-scaled, 1)
        shares = torch.bmm(weights[:, None], votes)[:, 0]
        smoothed = shares + self.members[index].smoothing
        logits = smoothed.log()
        log_proba = torch.log_softmax(heat * logits, 1)
        return _Ballot(heat, slope, scaled, weights, smoothed, logits, log_proba)

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Calibrate on a new minibatch, and let its rows vote from now on."""
        if len(self.labels) and any(member.calibration for member in self.members):
            self._calibrate(x, y)
        self.labels = torch.cat([self.labels, y])

    def _calibrate(self, x: Tensor, y: Tensor) -> None:
        slopes = [
            self._slopes(i, excess, votes, y) if member.calibration else [0.0, 0.0]
            for i, (member, (excess, votes)) in enumerate(
                zip(self.members, self._excesses(x), strict=True)
            )
        ]
        self.calibration.learn(slopes)
        low, high = map(math.log, BANDWIDTHS)
        self.calibration.values.data[:, 1].clamp_(low, high)

    def _slopes(
        self, index: int, excess: Tensor, votes: Tensor, y: Tensor
    ) -> list[float]:
        """Differentiate the mean loss by ``b`` and by the log of the bandwidth."""
        ballot = self._vote(index, excess, votes)
        onehot = (y[:, None] == self.classes).double()
        error = ballot.log_proba.exp() - onehot  # (n, C), of heat times logits
        by_heat = (error * ballot.logits).sum(1).mean()
        mean = (ballot.weights * ballot.scaled).sum(1, keepdim=True)
        change = ballot.weights * (ballot.scaled - mean)  # of the weights, (n, k)
        moved = torch.bmm(change[:, None], votes)[:, 0]  # of the shares, (n, C)
        by_bandwidth = ballot.heat * (error * moved / ballot.smoothed).sum(1).mean()
        return [float(by_heat) * ballot.slope, float(by_bandwidth)]

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Take distances between rows as they are scaled from now on."""
        if changes[self.view] is not None:
            self.seen.forget()

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """All that it has learned beside the rows, under its first column."""
        own = {"labels": self.labels, **self.calibration.learned()}
        return {self.columns[0]: own}

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what a learner of the same readouts has learned."""
        own = learned[self.columns[0]]
        self.labels = own["labels"].to(self.labels)
        self.calibration.relearn(own)


class _Ballot(NamedTuple):
    """A prediction and what its derivatives need."""

    heat: float
    slope: float
    scaled: Tensor
    weights: Tensor
    smoothed: Tensor
    logits: Tensor
    log_proba: Tensor
