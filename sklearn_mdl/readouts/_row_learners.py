"""Learners that take in labels row by row, whose rows are opened block by block.

In long streams they take in the labels of several rows at once, except those that
forget rows: these follow streams that drift.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.stream.learner import BY_BLOCKS, BY_ROW, Learner, RowsAhead
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._kernel_rows import LaterRows, Memory, block_of


class Opened(ABC):
    """A block of ``B`` rows whose labels are observed one by one, or several at once.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Its rows, as far as they are known.
    size : int
        ``B``.
    """

    def __init__(self, raw: np.ndarray, size: int) -> None:
        self.raw, self.size = raw, size
        self.n_observed = 0

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        """Leave it out: copies open their own, if they continue."""
        return

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Leave it out of files."""
        return type(None), ()

    @property
    def is_full(self) -> bool:
        """True if all of its rows are observed."""
        return self.n_observed == self.size

    @abstractmethod
    def ahead(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Predict the next rows, by the labels that were observed.

        Returns
        -------
        means : Tensor of shape (K, n_rows, P)
        variances : Tensor of shape (K, n_rows)
        """

    @abstractmethod
    def observe(self, targets: Tensor) -> None:
        """Take in the targets (n, ...) of the next rows, predicted at once."""


class RowLearner(Learner):
    """Base of readouts that learn each row once its label is known.

    Blocks are counted from the beginning of the stream, or from the last row that was
    forgotten, and are opened as far as their rows are known.

    Parameters
    ----------
    memory : Memory
    context : Context
    """

    rows_ahead: RowsAhead
    is_numbers = True

    def __init__(self, memory: Memory, context: Context) -> None:
        self.memory = memory
        self.rows_ahead = BY_ROW if memory.forgets else BY_BLOCKS
        self.view = context.view
        self.place = context.view.scalings.index(None)
        self.device = context.device
        self.n_forgotten = 0  # rows before the first that is known
        self.n_observed = 0  # rows known
        self._others: tuple[Tensor, Tensor] | None = None  # rows predicted last
        self._block: Opened | None = None

    def attach(self, rows: ScaledRows) -> None:
        """Remember the rows of the run."""
        self.rows = rows
        self.stream: ScaledRows | LaterRows = rows

    @abstractmethod
    def targets(self, labels: Tensor) -> Tensor:
        """Return labels (n,) as targets (n, P)."""

    @abstractmethod
    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Turn means (K, n, P) and variances (K, n) into what is predicted."""

    @abstractmethod
    def learn(self, means: Tensor, variances: Tensor, labels: Tensor) -> None:
        """Learn from the labels (n,) of rows, beyond what a block takes in."""

    @abstractmethod
    def _open(self, number: int) -> Opened:
        """Open the block of a row, and take in the labels of its rows before it."""

    @abstractmethod
    def _close(self, block: Opened) -> None:
        """Add a complete block."""

    @abstractmethod
    def _begin_again(self) -> None:
        """Learn the rows that are known, as if these were all."""

    @abstractmethod
    def predict_others(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Predict rows that need not be the next ones of the stream.

        Returns
        -------
        means : Tensor of shape (K, n, P)
        variances : Tensor of shape (K, n)
        """

    def predict(self, x: Tensor) -> Tensor:
        """Predict the next rows of the stream that are predicted at once, or others."""
        raw = x[self.place]
        if self._is_next(raw):
            return self.predictive(*self._open_block().ahead(len(raw)))
        # Other threads may predict meanwhile.
        self._others = found = self.predict_others(raw)
        return self.predictive(*found)

    def observe(self, labels: Tensor) -> None:
        """Take in the labels of the rows just predicted, or those of a group's rows."""
        if len(labels) == self._n_ahead:
            block = self._open_block()
            self.learn(*block.ahead(len(labels)), labels)
            self._enter(block, labels)
        else:
            self._observe_group(labels)

    def _observe_group(self, labels: Tensor) -> None:
        """Learn one part after the other, all from what was predicted before."""
        first = self.n_observed
        for start, end in self.rows_ahead.blocks(first, first + len(labels)):
            assert self._others is not None
            means, variances = self._others  # in other units if these have changed
            rows = slice(start - first, end - first)
            self.learn(means[:, rows], variances[:, rows], labels[rows])
            self._enter(self._open_block(), labels[rows])
        self._others = None

    def _enter(self, block: Opened, labels: Tensor) -> None:
        block.observe(self.targets(labels).cpu())
        self.n_observed += len(labels)
        if block.is_full:
            self._close(block)
            self._block = None
            known = self.n_forgotten + self.n_observed
            if self.memory.forgets and self._begin_at(known):
                self._begin_again()

    def _begin_at(self, n_observed: int) -> bool:
        """Count from the first row that is known; returns if that is another one."""
        start = self.memory.first_known(n_observed)
        is_other = start != self.n_forgotten
        self.n_forgotten, self.n_observed = start, n_observed - start
        if is_other:
            self.stream = LaterRows(self.rows, start)
        return is_other

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Do nothing: every row was learned when its label was observed."""

    def _ends(self, row: int) -> tuple[int, int]:
        """Return first row and end of the block that a row lies in."""
        return block_of(row)

    @property
    def _n_ahead(self) -> int:
        """Number of rows that are predicted next."""
        return self.rows_ahead.block(self.n_observed)[1] - self.n_observed

    def _is_next(self, raw: Tensor) -> bool:
        """Return True for the next rows (n, d), of which the last ones may be zero."""
        store, start = self.stream.store, self.n_observed
        if len(raw) != self._n_ahead or len(store) <= start:
            return False
        known = store.rows(start, min(start + len(raw), len(store)))
        given = raw.cpu().numpy()
        same = (known == given[: len(known)]).all(1)
        n_same = len(same) if same.all() else int(same.argmin())
        return n_same > 0 and not given[n_same:].any()

    def _open_block(self) -> Opened:
        """Return the block of the next row, opened with all its rows that are known."""
        start, end = self._ends(self.n_observed)
        n_known = min(end, len(self.stream.store)) - start
        if self._block is None or len(self._block.raw) < n_known:
            self._block = self._open(self.n_observed)
        return self._block

    def _read(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Read the rows of a block as far as they are known, and with zeros behind.

        Products of all blocks have one shape: their last bits depend on it.
        """
        _, end = self._ends(start)
        raw = np.array(self.stream.store.rows(start, min(end, len(self.stream.store))))
        return raw, np.pad(raw, ((0, end - start - len(raw)), (0, 0)))


class CalibratedLearner(RowLearner):
    """A learner of classes whose scores are calibrated forwards.

    Attributes
    ----------
    calibration : ForwardSoftmax
    """

    calibration: ForwardSoftmax

    def in_noises(self, variances: Tensor) -> np.ndarray | None:
        """Variances (K, ...) in units of the noise; None if there are none."""
        return None

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Log-probabilities (K, n, C) of scores."""
        ratios = self.in_noises(variances)
        found = self.calibration.log_proba(means.numpy(), ratios)
        return torch.from_numpy(found).to(self.device)

    def learn(self, means: Tensor, variances: Tensor, labels: Tensor) -> None:
        """Calibrate."""
        ratios = self.in_noises(variances)
        self.calibration.observe(means.numpy(), labels.cpu().numpy(), ratios)

    def _keep(self, kept: list[int]) -> None:
        self.calibration.retire(kept)

    def _learned(self) -> list[dict[str, Tensor]]:
        own = self.calibration
        return [
            {"factors": torch.tensor(one), "curvature": torch.tensor(other)}
            for one, other in zip(own.factors, own.curvature, strict=True)
        ]

    def _take_over(
        self, learned: Sequence[Mapping[str, Tensor]], labels: Tensor
    ) -> None:
        own = self.calibration
        own.factors = np.stack([one["factors"].numpy() for one in learned])
        own.curvature = np.stack([one["curvature"].numpy() for one in learned])
        counts = np.bincount(labels.cpu().numpy(), minlength=len(own.counts))
        own.counts = counts.astype(np.float64)
