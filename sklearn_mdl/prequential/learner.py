"""What can be led over a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from sklearn_mdl.scaling import ReExpression, ScaledRows


class Learner(Protocol):
    """What can walk.

    Beside what is named here it has what its outcome asks for: ``log_proba``, if it
    predicts classes (:class:`ClassLearner`), densities, if real numbers.

    Attributes
    ----------
    columns : sequence of int
        Places of its ``K`` readouts among all readouts of the walk.
    scalings : sequence of {"standard", "whiten", None}
        How rows are handed to it; the same for all learners of a course.
    n_replay_streams : int
    recency : float
        The replay it asks for.
    """

    @property
    def columns(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def scalings(self) -> Sequence[str | None]: ...  # noqa: D102
    @property
    def n_replay_streams(self) -> int: ...  # noqa: D102
    @property
    def recency(self) -> float: ...  # noqa: D102

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Learn from a new minibatch first, then from the replayed ones."""

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt to rows that are scaled anew: one change for each scaling."""


class ClassLearner(Learner, Protocol):
    """A learner of classes."""

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (K, n, C), float64, of rows (n_scalings, n, d).

        NaN throughout a row where a readout has no prediction; it counts as a uniform
        one. Changes nothing.
        """


@runtime_checkable
class Rereader(Protocol):
    """A learner that reads rows again: those that it has learned, and no others."""

    def attach(self, rows: ScaledRows) -> None:
        """Remember where the walk keeps its rows."""
