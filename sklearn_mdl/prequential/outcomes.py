"""What is predicted, classes or real numbers, and what a prediction of it costs.

A learner's predictions for ``n`` rows are one tensor (K, n, P): ``P`` numbers that name
a distribution. The walk slices, joins and replaces them without knowing what they mean;
a :class:`Prediction` knows, and an :class:`Outcome` says how to ask a learner for one,
and what is predicted in place of a readout that has no prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import mixture
from sklearn_mdl.measures import digest


class Prediction(Protocol):
    """What ``K`` readouts say of ``n`` rows before their labels are seen.

    Attributes
    ----------
    values : Tensor of shape (K, n, P), float64
        The numbers that name a distribution for each readout and row.
    """

    @property
    def values(self) -> Tensor: ...  # noqa: D102

    @property
    def shape(self) -> torch.Size: ...  # noqa: D102

    def losses(self, labels: Tensor) -> Tensor:
        """Cost (K, n) in nats of the labels (n,) that came."""

    def holding(self, values: Tensor) -> Self:
        """Return other numbers (K', n', P) with the same meaning."""


class Outcome(Protocol):
    """What a course predicts.

    Attributes
    ----------
    dtype : torch.dtype
        Of the labels.
    n_kept : int
        Numbers that are kept of every prediction of the mixture.
    feature_reach : float
        Deviations from their mean beyond which scaled features count as no further.
    """

    @property
    def dtype(self) -> torch.dtype: ...  # noqa: D102
    @property
    def n_kept(self) -> int: ...  # noqa: D102
    @property
    def feature_reach(self) -> float: ...  # noqa: D102

    def predict(self, learner: Any, x: Tensor) -> Prediction:
        """Let a learner predict rows (n_scalings, n, d).

        NaN stands first in ``values`` where a readout has no prediction for a row.
        """

    def instead(self, values: Tensor) -> Tensor | float:
        """Return what is predicted where ``values`` are none, (P,) or one number."""

    def prepare(self, learner: Any, y: Tensor) -> None:
        """Do what a learner needs before it learns a minibatch with labels (n,)."""

    def refresh(self, y: Tensor, learners: Sequence[Any]) -> None:
        """Take in all labels (n,) seen so far, whose number has doubled."""

    def kept_of(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Return what is kept, (n, n_kept), of the mixture of predictions.

        Parameters
        ----------
        values : iterable of Tensor of shape (n, P)
            One for each readout.
        weights : Tensor of shape (K, n)
            Of the mixture.
        """


@dataclass(frozen=True)
class ClassPrediction:
    """Log-probabilities (K, n, C) of classes."""

    values: Tensor

    @property
    def shape(self) -> torch.Size:
        """Readouts, rows, classes."""
        return self.values.shape

    def losses(self, labels: Tensor) -> Tensor:
        """Minus log-probability of the label that came, (K, n), in nats."""
        chosen = labels.expand(len(self.values), -1).unsqueeze(-1)
        return -self.values.gather(2, chosen).squeeze(-1)

    def holding(self, values: Tensor) -> Self:
        """Return other log-probabilities."""
        return replace(self, values=values)


class ClassLabels:
    """Classes, encoded as integers; a readout without prediction predicts uniformly."""

    dtype: ClassVar[torch.dtype] = torch.long
    n_kept: ClassVar[int] = 3
    feature_reach: ClassVar[float] = math.inf  # a class costs as many nats, at most

    def predict(self, learner: Any, x: Tensor) -> ClassPrediction:
        """Ask a learner for the log-probabilities of rows."""
        return ClassPrediction(learner.log_proba(x))

    def instead(self, values: Tensor) -> float:
        """Return the uniform prediction, one number for all classes."""
        return -math.log(values.shape[-1])

    def prepare(self, learner: Any, y: Tensor) -> None:
        """Do nothing: classes need no units."""

    def refresh(self, y: Tensor, learners: Sequence[Any]) -> None:
        """Do nothing, likewise."""

    def kept_of(self, values: Iterable[Tensor], weights: Tensor) -> np.ndarray:
        """Return what the measures need of the mixture, (n, 3)."""
        return digest(mixture(values, weights).cpu().numpy())
