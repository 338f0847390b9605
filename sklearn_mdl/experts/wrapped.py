"""Learners around scikit-learn's classifiers: told minibatch by minibatch, or refitted.

What a learner here knows is a function of the rows and labels learned and of its seed
alone, so that copies and pickles go on as it would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone
from torch import Tensor

from sklearn_mdl._sklearn import predict_proba
from sklearn_mdl.arithmetic import flushed_denormals
from sklearn_mdl.experts.draws import has_net, net_draws, seeded
from sklearn_mdl.experts.floor import class_frequencies, complete, floored, spread
from sklearn_mdl.experts.notes import Notes, collected
from sklearn_mdl.replay import ReplayStreams
from sklearn_mdl.scaling import RUNNING, ReExpression, ScaledRows, Scaling
from sklearn_mdl.stacked import ForwardCalibration, heat_of
from sklearn_mdl.stacked.calibration import IDENTITY

Array = NDArray[Any]
SCALED_AT_ONCE = 2**21  # numbers


class Context(NamedTuple):
    """What learners of one course have in common."""

    scalings: Sequence[str | None]
    n_features: int
    n_classes: int
    seed: int
    device: torch.device


class WrappedLearner(ABC):
    """One classifier that walks.

    Parameters
    ----------
    column : int
        Its place among all readouts of the walk.
    expert : IncrementalExpert or RefittedExpert
        The settings.
    context : Context

    Attributes
    ----------
    notes : Notes
        Exceptions and warnings of the estimator.
    failing : bool
        Whether the last attempt to fit raised.
    """

    n_replay_streams = 0
    recency = 1.0

    def __init__(self, column: int, expert: Any, context: Context) -> None:
        self.columns = [column]
        self.scalings = context.scalings
        self.view = context.scalings.index(expert.seen_scaling)
        self.seed = expert.seed_or(context.seed)
        self.blank = seeded(expert.estimator, self.seed)
        self.has_net = has_net(self.blank)
        # Modules of torch hold float32; other estimators are at their best in float64.
        self.dtype = np.float32 if self.has_net else np.float64
        self.fitted: Any = None
        self.labels = np.empty(0, dtype=np.int64)
        self.known = np.zeros(context.n_classes, dtype=bool)
        self.counts = np.zeros(context.n_classes, dtype=np.int64)
        self.calibration = (
            ForwardCalibration([[IDENTITY]]) if expert.calibration else None
        )
        self.notes = Notes()
        self.failing = False

    def attach(self, rows: ScaledRows) -> None:
        """Remember where past rows can be read anew."""
        self.rows = rows

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (1, n, C), float64, of rows (n_scalings, n, d)."""
        proba = self._floored(x)
        if self.calibration is not None and self.fitted is not None:
            heat, _ = heat_of(*self.calibration.member(0))
            proba = floored(softmax(heat * np.log(proba), axis=1), self.counts)
        return torch.from_numpy(np.log(proba))[None].to(x.device)

    def _floored(self, x: Tensor) -> NDArray[np.float64]:
        """Probabilities (n, C), none of them zero; NaN in rows that have none."""
        if self.fitted is None:
            return np.tile(class_frequencies(self.counts), (x.shape[1], 1))
        features = self._features(x[self.view].cpu().numpy())
        try:
            with self._attended(), net_draws(self.has_net, self.seed):
                given = predict_proba(self.fitted, features)
                proba = spread(given, self.fitted, len(self.counts))
        except Exception as error:
            self.notes.add(type(error), error, int(self.counts.sum()))
            return np.full((x.shape[1], len(self.counts)), np.nan)
        return floored(complete(proba, self.known, self.counts), self.counts)

    def _features(self, rows: Array) -> Array:
        """Rows (n, d), as this learner is handed them, as its estimator takes them."""
        return rows.astype(self.dtype)

    @contextmanager
    def _attended(self) -> Iterator[None]:
        """Note warnings, and keep to the arithmetic that estimators expect."""
        n_rows = int(self.counts.sum())
        with collected(self.notes, n_rows), flushed_denormals(flush=False):
            yield

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Calibrate on a new minibatch, then learn from it and the replayed ones."""
        self._calibrate(x, y)
        labels = y.cpu().numpy()
        self.labels = np.concatenate([self.labels, labels])
        self.counts = self.counts + self._counted(labels)
        self._learn(x, y, replayed)

    def _counted(self, labels: Array) -> Array:
        return np.bincount(labels, minlength=len(self.counts))

    def _calibrate(self, x: Tensor, y: Tensor) -> None:
        if self.calibration is None or self.fitted is None:
            return
        logits = np.log(self._floored(x))
        heat, slope = heat_of(*self.calibration.member(0))
        own = np.take_along_axis(logits, y.cpu().numpy()[:, None], 1)[:, 0]
        expected = (softmax(heat * logits, axis=1) * logits).sum(1)
        self.calibration.learn([[float(np.mean(expected - own)) * slope]])

    @abstractmethod
    def _learn(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None: ...

    @abstractmethod
    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt to rows that are scaled anew."""

    def _attempt(self, fit: Any, *arguments: Any, draw: int, **named: Any) -> bool:
        """Call an estimator's method, and say whether it came through."""
        try:
            with self._attended(), net_draws(self.has_net, self.seed + draw):
                fit(*arguments, **named)
        except Exception as error:
            self.failing = True
            self.notes.add(type(error), error, int(self.counts.sum()))
        else:
            self.failing = False
        return not self.failing

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """Hand over what a learner of the same settings needs to learn all this again.

        Estimators themselves are not among it: they are made anew from rows and labels,
        which takes as long as it took.
        """
        found = {"labels": torch.from_numpy(self.labels)}
        calibrated = {} if self.calibration is None else self.calibration.learned()
        return {self.columns[0]: found | calibrated}

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Learn again what such a learner has learned, from the same rows."""
        own = learned[self.columns[0]]
        self.labels = own["labels"].numpy()
        self.counts = self._counted(self.labels)
        if self.calibration is not None:
            self.calibration.relearn(own)


class IncrementalLearner(WrappedLearner):
    """A classifier that is told one minibatch after the other by ``partial_fit``."""

    def __init__(self, column: int, expert: Any, context: Context) -> None:
        super().__init__(column, expert, context)
        self.n_replay_streams = expert.n_replay_streams
        self.walk_seed = context.seed
        self.n_told = 0

    def _learn(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        self._tell(x, y.cpu().numpy())
        for some_x, some_y in replayed:
            self._tell(some_x, some_y.cpu().numpy())

    def _tell(self, x: Tensor, y: Array) -> None:
        named = {}
        if not self.n_told:
            self.estimator = clone(self.blank)
            named["classes"] = np.arange(len(self.counts))
        features = self._features(x[self.view].cpu().numpy())
        partial_fit = self.estimator.partial_fit
        came_through = self._attempt(
            partial_fit, features, y, draw=self.n_told, **named
        )
        self.fitted = self.estimator if came_through else None
        self.known = self.counts > 0
        self.n_told += came_through

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Learn everything once more, from rows as they are scaled now.

        A walk refreshes its scalings when its rows have doubled, so that all of this
        costs at most twice what learning once does.
        """
        if changes[self.view] is not None:
            self._tell_all()

    def _tell_all(self) -> None:
        self.n_told = 0
        size = self.rows.batch_size
        streams = ReplayStreams(self.n_replay_streams, seed=self.walk_seed)
        for new in range(len(self.labels) // size):
            for i in [new, *streams.advance().tolist()]:
                self._tell(self.rows.batch(i), self.labels[i * size : (i + 1) * size])

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Learn all minibatches again; see the base class."""
        super().relearn(learned)
        self._tell_all()


class RefittedLearner(WrappedLearner):
    """A classifier that is fitted anew whenever its rows have grown by a factor."""

    def __init__(self, column: int, expert: Any, context: Context) -> None:
        super().__init__(column, expert, context)
        self.growth = expert.growth
        self.scaling = expert.scaling
        self.applied: Scaling | None = None
        self.n_fitted = 0  # rows of the last fit that came through
        self.n_tried = 0  # and of the last one

    def _learn(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        if len(self.labels) >= self.growth * self.n_tried:
            self._refit(len(self.labels))

    def _refit(self, n_rows: int) -> None:
        self.n_tried = n_rows
        rows, labels = self.rows.store.rows(0, n_rows), self.labels[:n_rows]
        scaling = self._scaling_of(rows)
        estimator = clone(self.blank)
        features = _scaled(rows, scaling, self.dtype)
        if self._attempt(estimator.fit, features, labels, draw=n_rows):
            self.fitted, self.applied, self.n_fitted = estimator, scaling, n_rows
            self.known = self._counted(labels) > 0

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """Labels, calibration, and where the last blocks ended; see the base class."""
        found = super().learned()
        ends = torch.tensor([self.n_fitted, self.n_tried])
        found[self.columns[0]]["ends"] = ends
        return found

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Fit again where the last blocks ended; see the base class."""
        super().relearn(learned)
        for end in dict.fromkeys(learned[self.columns[0]]["ends"].tolist()):
            if end:
                self._refit(end)

    def _scaling_of(self, rows: Array) -> Scaling | None:
        if self.scaling is None:
            return None
        running = RUNNING[self.scaling](rows.shape[1])
        for block in _blocks(rows):
            running.update(block)
        return running.scaling()

    def _features(self, rows: Array) -> Array:
        """Rows scaled as those of the last fit were."""
        return _scaled(rows, self.applied, self.dtype)

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Do nothing: its rows come as they are."""


def _blocks(rows: Array) -> Iterator[Array]:
    step = max(1, SCALED_AT_ONCE // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _scaled(rows: Array, scaling: Scaling | None, dtype: type) -> Array:
    """Rows (n, d) in a scaling, block by block: only the result is as large as they."""
    if scaling is None:
        return rows.astype(dtype)
    found: Array = np.empty(rows.shape, dtype)
    start = 0
    for block in _blocks(rows):
        x = torch.tensor(block, dtype=torch.float32)[None]
        found[start : start + len(block)] = scaling.apply(x)[0].numpy()
        start += len(block)
    return found
