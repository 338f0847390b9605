"""Learners that observe labels row by row and process rows block by block.

In long streams, they observe the labels of several rows at a time, unless they forget
old rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.learner import (
    BY_BLOCKS,
    BY_ROW,
    Learned,
    Learner,
    RowsAhead,
    State,
)
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._kernel_rows import Memory, block_of


class RowBlock(ABC):
    """Block of ``B`` rows whose labels are observed one or several at a time.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        The known rows of the block.
    size : int
        Size ``B`` of the block.
    """

    def __init__(self, raw: np.ndarray, size: int) -> None:
        self.raw, self.size = raw, size
        self.n_observed = 0

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Replace the block by None in copies and pickles, which open their own."""
        return type(None), ()

    @abstractmethod
    def ahead(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Predict the next rows from the labels observed so far.

        Returns
        -------
        means : Tensor of shape (K, n_rows, P)
        variances : Tensor of shape (K, n_rows)
        """

    @abstractmethod
    def observe(self, targets: Tensor) -> None:
        """Observe the targets (n, ...) of the next rows."""


class RowLearner(Learner):
    """Base class of learners that do not wait for a full minibatch.

    Rows and blocks are counted from the first row that is not forgotten. When a block
    is opened, all of its rows that are known are processed together.

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
        self.n_forgotten = 0  # rows before the first row that is kept
        self.n_observed = 0  # rows observed since then
        self._others: tuple[Tensor, Tensor] | None = None  # from predict_others
        self._block: RowBlock | None = None

    def attach(self, rows: ScaledRows) -> None:
        """Store the rows of the run."""
        self.rows = rows

    @property
    def _n_arrived(self) -> int:
        """Number of rows that have arrived and are not forgotten."""
        return len(self.rows.store) - self.n_forgotten

    def _raw(self, start: int, stop: int) -> np.ndarray:
        """Return the raw rows from ``start`` to ``stop`` that have arrived."""
        stop = min(stop, self._n_arrived)
        return self.rows.store.rows(self.n_forgotten + start, self.n_forgotten + stop)

    @property
    def _labels(self) -> Tensor:
        """Labels of the rows, with space for labels that are not yet known."""
        return self.rows.labels[self.n_forgotten :]

    @abstractmethod
    def targets(self, labels: Tensor) -> Tensor:
        """Return labels (n,) as the targets of :meth:`RowBlock.observe`."""

    @abstractmethod
    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Turn means (K, n, P) and variances (K, n) into predictions."""

    @abstractmethod
    def learn(self, means: Tensor, variances: Tensor, labels: Tensor) -> None:
        """Update the state outside blocks, such as calibration, with labels (n,)."""

    @abstractmethod
    def _open(self, number: int) -> RowBlock:
        """Open the block of row ``number``, and observe the block's earlier labels."""

    @abstractmethod
    def _close(self, block: RowBlock) -> None:
        """Add a complete block to the state."""

    @abstractmethod
    def _begin_again(self) -> None:
        """Start again with only the rows that are not forgotten."""

    @abstractmethod
    def _recompute(self) -> None:
        """Recompute all that known rows and labels determine, in the same steps."""

    @abstractmethod
    def _learned(self) -> list[dict[str, Tensor]]:
        """Return the state of each readout that ``_recompute`` does not restore."""

    @abstractmethod
    def _take_over(self, learned: Sequence[State], labels: Tensor) -> None:
        """Load the state that ``_learned`` returns, given labels (n,)."""

    @abstractmethod
    def predict_others(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Predict rows that need not be the next rows of the stream.

        Returns
        -------
        means : Tensor of shape (K, n, P)
        variances : Tensor of shape (K, n)
        """

    def predict(self, x: Tensor) -> Tensor:
        """Predict the next rows of the stream, or other rows."""
        raw = x[self.place]
        if self._is_next(raw):
            return self.predictive(*self._open_block().ahead(len(raw)))
        # Use a local variable, since other threads may predict at the same time.
        self._others = others = self.predict_others(raw)
        return self.predictive(*others)

    def observe(self, labels: Tensor) -> None:
        """Observe the labels of the next rows, or of a group of rows."""
        if len(labels) == self._n_ahead:
            block = self._open_block()
            self.learn(*block.ahead(len(labels)), labels)
            self._enter(block, labels)
            return
        # Learn a group block by block, without predicting its rows again.
        first = self.n_observed
        for start, end in self.rows_ahead.blocks(first, first + len(labels)):
            assert self._others is not None
            means, variances = self._others  # in the new units if they have changed
            rows = slice(start - first, end - first)
            self.learn(means[:, rows], variances[:, rows], labels[rows])
            self._enter(self._open_block(), labels[rows])
        self._others = None

    def _enter(self, block: RowBlock, labels: Tensor) -> None:
        block.observe(self.targets(labels).cpu())
        self.n_observed += len(labels)
        if block.n_observed == block.size:
            self._close(block)
            self._block = None
            known = self.n_forgotten + self.n_observed
            if self.memory.forgets and self._begin_at(known):
                self._begin_again()

    def _begin_at(self, n_observed: int) -> bool:
        """Set the number of observed rows; return True if more rows are forgotten."""
        before, self.n_forgotten = self.n_forgotten, self.memory.first_known(n_observed)
        self.n_observed = n_observed - self.n_forgotten
        return self.n_forgotten != before

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts without changing the others."""
        self._keep([i for i, c in enumerate(self.columns) if c not in columns])

    def _keep(self, kept: list[int]) -> None:
        """Drop the state of all readouts whose positions are not in ``kept``."""
        self.columns = [self.columns[i] for i in kept]
        self._block = None  # reopened when needed

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the number of observed rows and the result of ``_learned``."""
        n_observed = torch.tensor(self.n_forgotten + self.n_observed)
        return {
            column: {"n_observed": n_observed, **state}
            for column, state in zip(self.columns, self._learned(), strict=True)
        }

    def load_state_dict(self, learned: Learned) -> None:
        """Load the state of readouts with the same settings, and recompute the rest."""
        states = [learned[column] for column in self.columns]
        self._begin_at(int(states[0]["n_observed"]))
        with one_thread(), flushed_denormals():
            self._restore(states)
        self._take_over(states, self._labels[: self.n_observed])

    def _restore(self, learned: list[State]) -> None:
        self._recompute()

    def _ends(self, row: int) -> tuple[int, int]:
        """Return the first row and the end of the block that contains ``row``."""
        return block_of(row)

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the first row and the end of each block from ``start`` to ``stop``."""
        while start < stop:
            _, end = self._ends(start)
            yield start, end
            start = end

    @property
    def _n_ahead(self) -> int:
        """Number of rows to predict next."""
        return self.rows_ahead.block(self.n_observed)[1] - self.n_observed

    def _is_next(self, raw: Tensor) -> bool:
        """Return True if rows (n, d) are the next rows, perhaps padded with zeros."""
        if len(raw) != self._n_ahead:
            return False
        known = self._raw(self.n_observed, self.n_observed + len(raw))
        given = raw.cpu().numpy()
        same = (known == given[: len(known)]).all(1)
        n_same = len(same) if same.all() else int(same.argmin())
        return n_same > 0 and not given[n_same:].any()

    def _open_block(self) -> RowBlock:
        """Return the block of the next row, opened with all known rows."""
        start, end = self._ends(self.n_observed)
        n_known = min(end, self._n_arrived) - start
        if self._block is None or len(self._block.raw) < n_known:
            self._block = self._open(self.n_observed)
        return self._block

    def _read(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the known rows of a block, and the same rows padded with zeros.

        Padding fixes the shape of the block, since the last bits of products depend on
        the shape.
        """
        _, end = self._ends(start)
        raw = np.array(self._raw(start, end))
        return raw, np.pad(raw, ((0, end - start - len(raw)), (0, 0)))


class CalibratedLearner(RowLearner):
    """Base class of learners for classifiers, with forward calibration of scores.

    Attributes
    ----------
    calibration : ForwardSoftmax
    """

    calibration: ForwardSoftmax

    def in_noises(self, variances: Tensor) -> np.ndarray | None:
        """Divide variances (K, ...) by the noise, or return None if there is none."""
        return None

    def predictive(self, means: Tensor, variances: Tensor) -> Tensor:
        """Return log-probabilities (K, n, C) of scores."""
        log_proba = self.calibration.log_proba(means.numpy(), self.in_noises(variances))
        return torch.from_numpy(log_proba).to(self.device)

    def learn(self, means: Tensor, variances: Tensor, labels: Tensor) -> None:
        """Update the calibration with the labels."""
        ratios = self.in_noises(variances)
        self.calibration.observe(means.numpy(), labels.cpu().numpy(), ratios)

    def _keep(self, kept: list[int]) -> None:
        super()._keep(kept)
        self.calibration.retire(kept)

    def _learned(self) -> list[dict[str, Tensor]]:
        own = self.calibration
        return [
            {"factors": torch.tensor(factors), "curvature": torch.tensor(curvature)}
            for factors, curvature in zip(own.factors, own.curvature, strict=True)
        ]

    def _take_over(self, learned: Sequence[State], labels: Tensor) -> None:
        own = self.calibration
        own.factors = np.stack([state["factors"].numpy() for state in learned])
        own.curvature = np.stack([state["curvature"].numpy() for state in learned])
        counts = np.bincount(labels.cpu().numpy(), minlength=len(own.counts))
        own.counts = counts.astype(np.float64)
