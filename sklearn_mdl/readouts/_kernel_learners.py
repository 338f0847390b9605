"""Kernel readouts on a stream: one learner for all of a list.

Blocks of rows are counted from the beginning of the stream: 0, 8, 16, 32, and so on by
32. The whole block is joined to the factor at once, as far as its rows are known, with
nothing in place of the others: how a stream is cut changes no bit. Within it targets
enter row by row.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.kernels.functions import (
    FIRST_DISTANCE,
    Kernel,
    Pairs,
    median_distance,
)
from sklearn_mdl._core.kernels.ridge import Block, ForwardRidge, Pending
from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.learner import Learned, Learner
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._kernel_rows import (
    FIRST,
    RowScaler,
    block_end,
    block_start,
    is_refresh,
    last_refresh,
)

PIECE = 512  # rows that are scaled, or joined, at once when a factor is computed again


class Member(NamedTuple):
    """Settings of one readout."""

    column: int
    scaling: str | None
    kernel: Kernel
    alpha: float

    @property
    def group(self) -> object:
        """Return what readouts with one factor have in common."""
        name = self.kernel.name
        known = name if isinstance(name, str) else id(name)
        return self.scaling, known, self.kernel[1:]


class View:
    """The rows evaluated so far in one scaling, which several kernels read.

    Parameters
    ----------
    scaling : {"standard", "centered-unit", "unit"} or None
    """

    def __init__(self, scaling: str | None) -> None:
        self.scaling = scaling
        self.distance = FIRST_DISTANCE
        self.n_rows = 0
        self._room: Tensor | None = None

    @property
    def has_statistics(self) -> bool:
        """True if rows are scaled again as statistics change."""
        return self.scaling in {"standard", "centered-unit"}

    @property
    def rows(self) -> Tensor:
        """The rows in their order, (n_rows, d')."""
        assert self._room is not None
        return self._room[: self.n_rows]

    def append(self, rows: Tensor) -> None:
        """Add scaled rows."""
        stop = self.n_rows + len(rows)
        if self._room is None or stop > len(self._room):
            room = rows.new_zeros(max(stop, 2 * self.n_rows), rows.shape[1])
            if self.n_rows:
                room[: self.n_rows] = self.rows
            self._room = room
        self._room[self.n_rows : stop] = rows
        self.n_rows = stop

    def forget(self) -> None:
        """Drop all rows, in memory of its own: copies may still read them."""
        self.n_rows, self._room = 0, None

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share the rows; the copy takes new memory before it adds any."""
        other = copy.copy(self)
        vars(other)["_room"] = self.rows if self.n_rows else None
        return other


class KernelGroup:
    """One kernel in one scaling: the factors of all its readouts.

    Parameters
    ----------
    view : View
    kernel : Kernel
    alphas : sequence of float
    n_outputs : int
    device : torch.device
    """

    def __init__(
        self,
        view: View,
        kernel: Kernel,
        alphas: Sequence[float],
        n_outputs: int,
        device: torch.device,
    ) -> None:
        self.view = view
        self.kernel = kernel
        self.scale = 1.0  # the mean diagonal, if rows have statistics
        self.ridge = ForwardRidge(alphas, n_outputs, device)

    @property
    def is_refreshed(self) -> bool:
        """True if the kernel changes when 8, 16, 32, ... rows were evaluated."""
        return self.view.has_statistics or self.kernel.is_relative

    def values(self, pairs: Pairs) -> Tensor:
        """Kernel (n, m) of pairs of rows, in its own unit."""
        return self.kernel.values(pairs) / self.scale

    def diagonal(self, rows: Tensor) -> Tensor:
        """Kernel (n,) of rows with themselves."""
        return self.kernel.diagonal(rows) / self.scale

    def refresh(self, targets: Tensor) -> None:
        """Factor again, for the rows of the view and their targets (n, P)."""
        rows, distance = self.view.rows, self.view.distance
        if self.view.has_statistics:
            mean = float(self.kernel.diagonal(rows).mean())
            self.scale = mean if mean > 0 else 1.0

        def gram(one: slice, other: slice) -> Tensor:
            return self.values(Pairs(rows[one], rows[other], distance))

        self.ridge.refactor(len(rows), gram, targets)


class OpenBlock:
    """A block of rows whose targets are observed one by one.

    Parameters
    ----------
    start : int
        Number of its first row.
    raw : ndarray of shape (n, d)
        Its rows, as far as they are known.
    scaled : dict of View to Tensor of shape (B, d')
    parts : list of Block, by group
    """

    def __init__(
        self,
        start: int,
        raw: np.ndarray,
        scaled: dict[View, Tensor],
        parts: list[Block],
    ) -> None:
        self.start = start
        self.raw = raw
        self.scaled = scaled
        self.parts = parts
        self.factor = torch.cat([part.factor for part in parts]).cpu()  # (K, B, B)
        self.base = torch.cat([part.base for part in parts]).cpu()  # (K, B, P)
        self.errors = torch.zeros_like(self.base)
        self.n_observed = 0

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        """Leave it out: copies open their own, if they go on."""
        return

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Leave it out of files."""
        return type(None), ()

    @property
    def size(self) -> int:
        """Rows of the whole block."""
        return self.factor.shape[1]

    def is_next(self, raw: np.ndarray) -> bool:
        """Return True for the row (d,) that is to be predicted next."""
        t = self.n_observed
        return t < len(self.raw) and np.array_equal(self.raw[t], raw)

    def means(self) -> Tensor:
        """Return predictions (K, P) of the next row."""
        t = self.n_observed
        own = torch.bmm(self.factor[:, t : t + 1, :t], self.errors[:, :t])
        return self.base[:, t] + own[:, 0]

    def deviations(self) -> Tensor:
        """Return standard deviations (K,) of the next row, noise included."""
        return self.factor[:, self.n_observed, self.n_observed]

    def observe(self, target: Tensor) -> None:
        """Take in the target (P,) of the next row."""
        errors = (target - self.means()) / self.deviations()[:, None]
        self.errors[:, self.n_observed] = errors
        self.n_observed += 1


class KernelLearner(Learner):
    """Base of the kernel readouts of a list, of classes or of real numbers.

    Parameters
    ----------
    members : sequence of Member
    n_outputs : int
        Columns ``P`` of the targets.
    context : Context
    """

    rows_ahead = 1

    def __init__(
        self, members: Sequence[Member], n_outputs: int, context: Context
    ) -> None:
        self.scalings = context.scalings
        self.view = context.scalings.index(None)
        self.device = context.device
        self.n_observed = 0
        self._block: OpenBlock | None = None
        self._scaler = RowScaler(context.n_features)
        self.views = {m.scaling: View(m.scaling) for m in members}
        alike: dict[object, list[Member]] = {}
        for member in members:
            alike.setdefault(member.group, []).append(member)
        self.groups = [
            KernelGroup(
                self.views[some[0].scaling],
                some[0].kernel,
                [member.alpha for member in some],
                n_outputs,
                context.device,
            )
            for some in alike.values()
        ]
        self.columns = [m.column for some in alike.values() for m in some]

    def attach(self, rows: ScaledRows) -> None:
        """Remember the rows of the run."""
        self.stream = rows

    @abstractmethod
    def targets(self, labels: Tensor) -> Tensor:
        """Return labels (n,) as targets (n, P)."""

    @abstractmethod
    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Turn means (K, n, P) and variances (K, n) into what is predicted."""

    @abstractmethod
    def learn(self, means: Tensor, deviations: Tensor, label: Tensor) -> None:
        """Learn from the label of a row, beyond what enters the factor."""

    def predict(self, x: Tensor) -> Tensor:
        """Predict the next row of the stream, or any others."""
        raw = x[self.view]
        block = self._block_of(raw)
        if block is None:
            return self._predict_others(raw)
        variances = block.deviations().square()[:, None]
        return self.predictive(block.means()[:, None], variances)

    def observe(self, labels: Tensor) -> None:
        """Take in the label of the row just predicted."""
        block = self._block
        assert block is not None
        self.learn(block.means(), block.deviations(), labels)
        block.observe(self.targets(labels)[0].cpu())
        self.n_observed += 1
        if block.n_observed == block.size:
            self._close(block)
            self._block = None

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Do nothing: every row was learned when its label was observed."""

    def _block_of(self, raw: Tensor) -> OpenBlock | None:
        """Return the block of the stream's next row, if that is what is given."""
        store, number = self.stream.store, self.n_observed
        if len(raw) != 1 or len(store) <= number:
            return None
        given, block = raw[0].cpu().numpy(), self._block
        if block is not None and block.is_next(given):
            return block
        if not np.array_equal(store.rows(number, number + 1)[0], given):
            return None
        self._block = self._opened(block_start(number), self.groups, number)
        return self._block

    def _opened(
        self, start: int, groups: Sequence[KernelGroup], stop: int | None = None
    ) -> OpenBlock:
        """Open a block, and take in the labels of its rows before row ``stop``."""
        end = block_end(start)
        raw = np.array(self.stream.store.rows(start, min(end, len(self.stream.store))))
        missing = end - start - len(raw)
        scaled: dict[View, Tensor] = {}
        pairs: dict[View, tuple[Pairs, Pairs]] = {}
        for view in dict.fromkeys(group.view for group in groups):
            rows = self._scaler.scaled(raw, view.scaling, self.device)
            rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
            scaled[view] = rows
            past = view.rows if start else rows[:0]
            both = Pairs(rows, past, view.distance), Pairs(rows, rows, view.distance)
            pairs[view] = both
        parts = []
        for group in groups:
            cross, own = (group.values(some) for some in pairs[group.view])
            cross[len(raw) :] = 0
            own[len(raw) :] = own[:, len(raw) :] = 0
            own.diagonal()[len(raw) :] = 1
            parts.append(group.ridge.open(cross, own))
        block = OpenBlock(start, raw, scaled, parts)
        if stop is not None:
            for target in self.targets(self.stream.labels[start:stop]).cpu():
                block.observe(target)
        return block

    def _close(self, block: OpenBlock) -> None:
        """Add a complete block, and scale rows again where that is due."""
        self._append(block, self.groups)
        if is_refresh(self.n_observed):
            self._refresh(self.n_observed)

    def _append(self, block: OpenBlock, groups: Sequence[KernelGroup]) -> None:
        first = 0
        for group, part in zip(groups, block.parts, strict=True):
            last = first + len(group.ridge.alphas)
            group.ridge.close(part, block.errors[first:last].to(self.device))
            first = last
        for view, rows in block.scaled.items():
            view.append(rows)

    def _refresh(self, n_rows: int) -> None:
        """Scale the first rows again, and compute factors again."""
        if not any(group.is_refreshed for group in self.groups):
            return
        self._scaler.refresh(self._new_rows(n_rows))
        self._factor(n_rows)

    def _new_rows(self, n_rows: int) -> np.ndarray:
        """Return the rows between one refresh and the next, after ``n_rows``."""
        start = n_rows // 2 if n_rows > FIRST else 0
        return self.stream.store.rows(start, n_rows)

    def _factor(self, n_rows: int) -> None:
        """Compute the factors of kernels that statistics have changed."""
        due = [group for group in self.groups if group.is_refreshed]
        for view in self.views.values():
            if view.has_statistics:
                self._fill(view, n_rows)
        for view in {group.view for group in due if group.kernel.is_relative}:
            view.distance = median_distance(view.rows)
        targets = self.targets(self.stream.labels[:n_rows])
        for group in due:
            group.refresh(targets)

    def _fill(self, view: View, n_rows: int) -> None:
        view.forget()
        for start in range(0, n_rows, PIECE):
            raw = self.stream.store.rows(start, min(start + PIECE, n_rows))
            view.append(self._scaler.scaled(raw, view.scaling, self.device))

    def _predict_others(self, raw: Tensor) -> Tensor:
        """Predict rows that are not the next ones of the stream."""
        rows, start = raw.cpu().numpy(), block_start(self.n_observed)
        block = None
        if self.n_observed > start:
            block = self._opened(start, self.groups, self.n_observed)
        means, variances, first = [], [], 0
        for number, group in enumerate(self.groups):
            view, last = group.view, first + len(group.ridge.alphas)
            x = self._scaler.scaled(rows, view.scaling, self.device)
            past = view.rows if start else x[:0]
            cross, pending = group.values(Pairs(x, past, view.distance)), None
            if block is not None:
                errors = block.errors[first:last, : block.n_observed].to(self.device)
                own = block.scaled[view][: block.n_observed]
                near = group.values(Pairs(own, x, view.distance))
                pending = Pending(block.parts[number], errors, near)
            found = group.ridge.predict(cross, group.diagonal(x), pending)
            means.append(found[0])
            variances.append(found[1])
            first = last
        return self.predictive(torch.cat(means).cpu(), torch.cat(variances).cpu())

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts; the others go on with the same bits."""
        kept, first = [], 0
        for group in self.groups:
            n_alphas = len(group.ridge.alphas)
            own = [i for i in range(n_alphas) if self.columns[first + i] not in columns]
            group.ridge.retire(own)
            kept += [first + i for i in own]
            first += n_alphas
        self.groups = [group for group in self.groups if len(group.ridge.alphas)]
        self.columns = [self.columns[i] for i in kept]
        self._block = None
        self._keep(kept)

    @abstractmethod
    def _keep(self, kept: list[int]) -> None:
        """Keep some of what is learned beyond the factor, by place."""

    @abstractmethod
    def _learned(self) -> list[dict[str, Tensor]]:
        """Return what is learned beyond the factor, by readout."""

    @abstractmethod
    def _take_over(self, learned: list[Mapping[str, Tensor]], labels: Tensor) -> None:
        """Take over what is learned beyond the factor from labels (n,)."""

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return number of rows and calibration: factors follow from the labels."""
        n_observed = torch.tensor(self.n_observed)
        return {
            column: {"n_observed": n_observed, **own}
            for column, own in zip(self.columns, self._learned(), strict=True)
        }

    def load_state_dict(self, learned: Learned) -> None:
        """Take over the state of readouts with the same settings, and factor again."""
        own = [learned[column] for column in self.columns]
        self.n_observed = int(own[0]["n_observed"])
        self._take_over(own, self.stream.labels[: self.n_observed])
        with one_thread(), flushed_denormals():
            self._recompute()

    def _recompute(self) -> None:
        """Compute all factors again, by the same steps as the first time."""
        steady = [group for group in self.groups if not group.is_refreshed]
        refreshed = last_refresh(self.n_observed)
        complete = block_start(self.n_observed)
        self._replay(0, refreshed, steady)
        read = {id(group.view) for group in steady}
        for view in self.views.values():
            if not view.has_statistics and id(view) not in read:
                self._fill(view, refreshed)
        for power in range(3, refreshed.bit_length()):
            self._scaler.refresh(self._new_rows(1 << power))
        if refreshed:
            self._factor(refreshed)
        self._replay(refreshed, complete, self.groups)

    def _replay(self, start: int, stop: int, groups: Sequence[KernelGroup]) -> None:
        while start < stop and groups:
            end = block_end(start)
            self._append(self._opened(start, groups, end), groups)
            start = end


class KernelClassifierLearner(KernelLearner):
    """Kernel readouts of classes: scores of one-hot labels, calibrated forwards."""

    def __init__(self, members: Sequence[Member], context: Context) -> None:
        super().__init__(members, context.n_classes, context)
        self.calibration = ForwardSoftmax(len(members), context.n_classes)

    def targets(self, labels: Tensor) -> Tensor:
        """One-hot labels less their mean, (n, C)."""
        n_classes = len(self.calibration.counts)
        onehot = torch.nn.functional.one_hot(labels, n_classes)
        return onehot.double() - 1 / n_classes

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Log-probabilities (K, n, C) of scores."""
        found = self.calibration.log_proba(means.numpy())
        return torch.from_numpy(found).to(self.device)

    def learn(self, means: Tensor, deviations: Tensor, label: Tensor) -> None:
        """Calibrate."""
        self.calibration.observe(means.numpy(), int(label))

    def _keep(self, kept: list[int]) -> None:
        self.calibration.retire(kept)

    def _learned(self) -> list[dict[str, Tensor]]:
        own = self.calibration
        return [
            {"factors": torch.tensor(one), "curvature": torch.tensor(other)}
            for one, other in zip(own.factors, own.curvature, strict=True)
        ]

    def _take_over(self, learned: list[Mapping[str, Tensor]], labels: Tensor) -> None:
        own = self.calibration
        own.factors = np.stack([one["factors"].numpy() for one in learned])
        own.curvature = np.stack([one["curvature"].numpy() for one in learned])
        counts = np.bincount(labels.cpu().numpy(), minlength=len(own.counts))
        own.counts = counts.astype(np.float64)
