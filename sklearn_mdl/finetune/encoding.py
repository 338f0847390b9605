"""Readouts of one encoder, where a walk is over images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.board import gather_learners
from sklearn_mdl.experts import Context
from sklearn_mdl.images import Shape, image_encoder_of, pixels_of
from sklearn_mdl.prequential import ClassLearner, Rereader, WalkState
from sklearn_mdl.replay import ReplayStreams
from sklearn_mdl.samples import SampleStore
from sklearn_mdl.scaling import ReExpression, ScaledRows

LABELS = "encoded.labels"


class Relearner(Protocol):
    """A learner that can hand over what it has learned."""

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """All that it has learned, by column and name."""

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what learners of the same settings have learned."""


class EncodingLearner:
    """Readouts of one encoder: a walk over features inside a walk over images.

    A minibatch of images is encoded when it is to be predicted, always whole, with
    zeros for the rows still to come. Once it is learned its features are kept, and
    scaled and replayed as those of a walk over features are: the codes are the same.

    Parameters
    ----------
    members : sequence of (int, readout or expert)
        With their places among all readouts.
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        Fitted.
    shape : (H, W, C)
        Of the images.
    context : Context
        Of the walk over images.

    Attributes
    ----------
    inner : list of Learner
        The learners of its readouts.
    """

    n_replay_streams = 0
    recency = 1.0

    def __init__(
        self,
        members: Sequence[tuple[int, Any]],
        encoder: Any,
        shape: Shape,
        context: Context,
    ) -> None:
        self.scalings = context.scalings
        self.view = context.scalings.index(None)
        self.encoder = encoder
        self.shape = shape
        self.seed = context.seed
        self.width = sum(image_encoder_of(encoder).block_widths_)
        self.inner = gather_learners(
            [readout for _, readout in members],
            self.width,
            context.n_classes,
            seed=context.seed,
            device=context.device,
        )
        for learner in self.inner:
            places = [members[k][0] for k in learner.columns]
            learner.columns = places  # type: ignore[misc]
        self.columns = [k for learner in self.inner for k in learner.columns]
        self._last: tuple[Tensor, np.ndarray] | None = None  # rows, and features

    def attach(self, rows: ScaledRows) -> None:
        """Begin the walk over features."""
        self.images = rows
        size, device = rows.batch_size, rows.device
        self.features = ScaledRows(
            SampleStore(self.width), self.inner[0].scalings, size, device
        )
        for learner in self.inner:
            if isinstance(learner, Rereader):
                learner.attach(self.features)
        self.states = [
            WalkState(
                size,
                ReplayStreams(lr.n_replay_streams, recency=lr.recency, seed=self.seed),
                device,
            )
            for lr in self.inner
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the last features, which can be computed again."""
        return {**self.__dict__, "_last": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> EncodingLearner:
        """Copy what learns; the encoder, and features that stay as they are, do not."""
        store = self.features.store
        memo[id(store)] = store.branch()
        memo[id(self.encoder)] = self.encoder
        other = object.__new__(EncodingLearner)
        memo[id(self)] = other
        other.__dict__.update(deepcopy(self.__getstate__(), memo))
        return other

    def _encoded(self, rows: Tensor) -> np.ndarray:
        """Features (B, width) of the rows (n, d) of a minibatch, n at most B."""
        if self._last is None or not torch.equal(self._last[0], rows):
            batch = rows.new_zeros(self.features.batch_size, rows.shape[1])
            batch[: len(rows)] = rows
            images = pixels_of(batch, self.shape).cpu().numpy()
            self._last = rows, np.array(self.encoder.transform(images))
        return self._last[1]

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (K, n, C), float64, of rows (n_scalings, n, d)."""
        scaled = self.features.scaled(self._encoded(x[self.view]))[:, : x.shape[1]]
        return torch.cat(
            [cast(ClassLearner, lr).log_proba(scaled) for lr in self.inner]
        )

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Keep the features of a new minibatch, learn from them and from past ones."""
        self._keep(x[self.view])
        if not self.features.n_refreshed:
            self.features.refresh(len(self.features.store))
        for learner, state in zip(self.inner, self.states, strict=True):
            state.see(y)
            state.learn(learner, self.features)

    def _keep(self, rows: Tensor) -> None:
        self.features.store.append(self._encoded(rows)[: len(rows)])
        self.features.extend(len(self.features.store))

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Scale features anew, when the walk does so with its rows."""
        own = self.features.refresh(len(self.features.store))
        for learner in self.inner:
            learner.re_express(own)

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """Labels, and what its readouts have learned; features are computed again."""
        found: dict[int, dict[str, Tensor]] = {self.columns[0]: {}}
        for learner in self.inner:
            for column, own in cast(Relearner, learner).learned().items():
                found.setdefault(column, {}).update(own)
        found[self.columns[0]][LABELS] = self.states[0].labels
        return found

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Encode the images of all full minibatches again, and take the rest over."""
        labels = learned[self.columns[0]][LABELS]
        size = self.features.batch_size
        refresh = size
        for i in range(len(labels) // size):
            self._keep(self.images.batch(i)[self.view])
            if len(self.features.store) == refresh:
                self.features.refresh(refresh)
                refresh *= 2
        for learner, state in zip(self.inner, self.states, strict=True):
            cast(Relearner, learner).relearn(learned)
            state.resume(labels, torch.zeros(1, dtype=torch.bool))
