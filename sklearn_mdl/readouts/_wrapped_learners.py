"""Learners that wrap scikit-learn classifiers and update or refit them.

A learner's state depends only on its seed and on the rows and labels learned. So copies
and unpickled learners give bitwise identical results.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import gen_batches
from torch import Tensor

from sklearn_mdl._core.nets.adamw import LogitScale
from sklearn_mdl._core.stream.learner import Batches, Learned, Learner, Replay, Report
from sklearn_mdl._core.stream.scaling import RUNNING, ReExpression, ScaledRows, Scaling
from sklearn_mdl._core.stream.steps import ReplayStreams, training_batches
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._floor import class_frequencies, complete, floored
from sklearn_mdl.readouts._isolation import IsolatedClassifier

Array = NDArray[Any]
SCALED_AT_ONCE = 2**21  # numbers in a block of rows that is scaled in one step


class WrappedLearner(IsolatedClassifier, Learner):
    """Base class of learners that wrap a single classifier.

    Parameters
    ----------
    column : int
        Position among all readouts of the run.
    readout : IncrementalReadout or RefitReadout
        The settings.
    context : Context
    """

    foreign = True

    def __init__(self, column: int, readout: Any, context: Context) -> None:
        seed = readout.seed_or(context.seed)
        super().__init__(readout.estimator, context.n_classes, seed)
        self.columns = [column]
        self.view = context.view
        self.place = context.view.scalings.index(readout.row_scaling)
        self.advice = ""
        if readout.scaling is not None:
            self.advice = ", or pass scaling=None if it needs unscaled rows"
        self.n_learned = 0
        self.calibration = LogitScale() if readout.calibration else None

    def attach(self, rows: ScaledRows) -> None:
        """Store the rows of the run, so that past rows can be read again."""
        self.rows = rows

    @property
    def labels(self) -> Array:
        """Labels of all rows learned."""
        return self.rows.labels[: self.n_learned].cpu().numpy()

    @property
    def reports(self) -> dict[int, Report]:  # type: ignore[override]
        """The estimator's report, keyed by column, or {} without notes."""
        lines, failure = self.complaints.lines(), None
        if not lines:
            return {}
        if self.fault:
            instead = "class frequencies" if self.fitted is None else "its previous fit"
            failure = (
                f"raised {self.fault}, so the readout predicts with {instead}; debug "
                f"its estimator{self.advice}"
            )
        return {self.columns[0]: Report(lines, failure)}

    def predict(self, x: Tensor) -> Tensor:
        """Return log-probabilities (1, n, C), float64, of rows (n_scalings, n, d)."""
        # Fill incomplete blocks with copies of the first row. The last bits of
        # predictions may depend on the number of rows, so the estimator always gets a
        # whole block.
        n_copies = self.rows.block_size - x.shape[1]
        filled = torch.cat([x, x[:, :1].expand(-1, n_copies, -1)], 1)
        proba = self._floored(filled)[: x.shape[1]]
        if self.calibration is not None and self.fitted is not None:
            scaled = self.calibration.factor * np.log(proba)
            proba = floored(softmax(scaled, axis=1), self.counts)
        return torch.from_numpy(np.log(proba))[None].to(x.device)

    def _floored(self, x: Tensor) -> NDArray[np.float64]:
        """Return positive probabilities (n, C), or NaN in rows without predictions."""
        if self.fitted is None:
            return np.tile(class_frequencies(self.counts), (x.shape[1], 1))
        features = self._features(x[self.place].cpu().numpy())
        try:
            proba = self.probabilities(features)
        except Exception as error:
            self.complain(error)
            proba = self._row_by_row(features)
        return floored(complete(proba, self.known, self.counts), self.counts)

    def _row_by_row(self, features: Array) -> NDArray[np.float64]:
        """Predict each row separately; return NaN for rows that raise an exception."""
        proba = np.full((len(features), len(self.counts)), np.nan)
        for i, row in enumerate(features):
            with suppress(Exception):
                proba[i] = self.probabilities(np.tile(row, (len(features), 1)))[0]
        return proba

    def _features(self, rows: Array) -> Array:
        """Convert rows (n, d) to the estimator's input."""
        return rows.astype(self.dtype)

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        """Learn from a new minibatch and replayed minibatches."""
        self.n_learned += len(y)
        self.counts = self.counts + self._counted(y.cpu().numpy())
        self._learn(x, y, replayed)

    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Take one gradient step for the logit scale on the loss of new rows."""
        if self.calibration is not None and self.fitted is not None:
            logits = np.log(self._floored(x))
            proba = softmax(self.calibration.factor * logits, axis=1)
            chosen = np.take_along_axis(logits, y.cpu().numpy()[:, None], 1)[:, 0]
            gaps = (proba * logits).sum(1) - chosen
            self.calibration.learn_factor(float(np.mean(gaps)))

    def add_classes(self, n: int) -> None:
        """Add classes.

        Until a fit includes a new class, the class is predicted with its frequency.
        """
        self.counts = np.append(self.counts, np.zeros(n, self.counts.dtype))
        self.known = np.append(self.known, np.zeros(n, bool))

    def _counted(self, labels: Array) -> Array:
        return np.bincount(labels, minlength=len(self.counts))

    @abstractmethod
    def _learn(self, x: Tensor, y: Tensor, replayed: Batches) -> None: ...

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the numbers needed to learn the state again.

        The estimator is not stored. :meth:`load_state_dict` fits it again from the rows
        and labels, which may take as long as the first time.
        """
        numbers = {"n_learned": torch.tensor(self.n_learned)}
        calibrated = {} if self.calibration is None else self.calibration.state_dict()
        return {self.columns[0]: numbers | calibrated}

    def load_state_dict(self, learned: Learned) -> None:
        """Restore counts and calibration. Subclasses then fit the estimator again."""
        state = learned[self.columns[0]]
        self.n_learned = int(state["n_learned"])
        self.counts = self._counted(self.labels)
        if self.calibration is not None:
            self.calibration.load_state_dict(state)


class IncrementalLearner(WrappedLearner):
    """Learner that updates a classifier minibatch by minibatch."""

    def __init__(self, column: int, readout: Any, context: Context) -> None:
        super().__init__(column, readout, context)
        self.replay = Replay.requested(readout.n_replay_streams)
        self.replay_seed = context.seed
        self.n_updates = 0

    def _learn(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        self._update_once(x, y)
        for batch in replayed:
            self._update_once(*batch)

    def _update_once(self, x: Tensor, y: Tensor) -> None:
        named = {}
        if not self.n_updates:
            self.estimator = clone(self.blank)
            named["classes"] = np.arange(len(self.counts))
        features = self._features(x[self.place].cpu().numpy())
        fit, labels = self.estimator.partial_fit, y.cpu().numpy()
        succeeded = self.attempt(fit, features, labels, draw=self.n_updates, **named)
        self.fitted = self.estimator if succeeded else None
        self.known = self.counts > 0
        self.n_updates += succeeded

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Learn all rows again in the current scaling.

        A run refreshes its scalings whenever its number of rows has doubled. So in
        total, relearning takes at most twice as long as learning once.
        """
        if changes[self.place] is not None:
            self._learn_again()

    def add_classes(self, n: int) -> None:
        """Add classes.

        If rows were learned already, learn them again, since only the first
        ``partial_fit`` can name classes.
        """
        super().add_classes(n)
        if self.n_updates:
            self._learn_again()

    def _learn_again(self) -> None:
        self.n_updates, rows = 0, self.rows
        streams = ReplayStreams(self.replay.n_streams, seed=self.replay_seed)
        for start, end in rows.parts(self.n_learned):
            new, replayed = training_batches(rows, streams, start, end, self.replay)
            for x, y in (new, *replayed):
                self._update_once(x, y)

    def load_state_dict(self, learned: Learned) -> None:
        """Learn all minibatches again, since the estimator is not stored."""
        super().load_state_dict(learned)
        self._learn_again()


class RefittedLearner(WrappedLearner):
    """Learner that refits a classifier as the number of rows grows."""

    def __init__(self, column: int, readout: Any, context: Context) -> None:
        super().__init__(column, readout, context)
        self.growth = readout.growth
        self.scaling = readout.scaling
        self.applied: Scaling | None = None
        self.n_fitted = 0  # number of rows in the last successful fit
        self.n_tried = 0  # number of rows in the last attempted fit

    def _learn(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        if self.n_learned >= self.growth * self.n_tried:
            self._refit(self.n_learned)

    def _refit(self, n_rows: int) -> None:
        self.n_tried = n_rows
        rows, labels = self.rows.store.rows(0, n_rows), self.labels[:n_rows]
        scaling = None
        if self.scaling is not None:
            running = RUNNING[self.scaling](rows.shape[1])
            for block in _blocks(rows):
                running.update(rows[block])
            scaling = running.scaling()
        estimator = clone(self.blank)
        features = _scaled(rows, scaling, self.dtype)
        if self.attempt(estimator.fit, features, labels, draw=n_rows):
            self.fitted, self.applied, self.n_fitted = estimator, scaling, n_rows
            self.known = self._counted(labels) > 0

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the state, with the numbers of rows in the last fits."""
        numbers = super().state_dict()
        numbers[self.columns[0]]["ends"] = torch.tensor([self.n_fitted, self.n_tried])
        return numbers

    def load_state_dict(self, learned: Learned) -> None:
        """Repeat the last successful fit and the last attempt, which are not stored."""
        super().load_state_dict(learned)
        for end in dict.fromkeys(learned[self.columns[0]]["ends"].tolist()):
            if end:
                self._refit(end)

    def _features(self, rows: Array) -> Array:
        """Return rows in the scaling of the last successful fit."""
        return _scaled(rows, self.applied, self.dtype)


def _blocks(rows: Array) -> Iterator[slice]:
    yield from gen_batches(len(rows), max(1, SCALED_AT_ONCE // max(1, rows.shape[1])))


def _scaled(rows: Array, scaling: Scaling | None, dtype: type) -> Array:
    """Return scaled rows (n, d), computed block by block to save memory."""
    if scaling is None:
        return rows.astype(dtype)
    scaled: Array = np.empty(rows.shape, dtype)
    for block in _blocks(rows):
        x = torch.tensor(rows[block], dtype=torch.float32)[None]
        scaled[block] = scaling.apply(x)[0].numpy()
    return scaled
