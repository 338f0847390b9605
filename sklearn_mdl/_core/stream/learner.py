"""The contract of a learner, which consists of one or more readouts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sklearn_mdl._core.stream.scaling import Features, ReExpression, ScaledRows
from sklearn_mdl._core.stream.units import TargetScaling
from sklearn_mdl._core.validation import invalid

State = Mapping[str, Tensor]  # tensors of a readout, keyed by name
Learned = Mapping[int, State]  # states keyed by column
Batches = Iterator[tuple[Tensor, Tensor]]  # rows and labels of minibatches


class FeatureView(NamedTuple):
    """The part of X that a learner sees.

    Attributes
    ----------
    columns : tuple of int or None
        Columns of X to use. If None, all are used.
    scalings : sequence of {"standard", "whiten", None}
        Scalings of the rows, equal for all learners of a run that see the same columns.
    """

    columns: Features = None
    scalings: Sequence[str | None] = (None,)


FULL_REPLAY = 1000  # number of rows with all replay streams
MOST_STREAMS = 10_000


class Replay(NamedTuple):
    """Replay of earlier minibatches that a learner requests.

    Attributes
    ----------
    n_streams : int
        Number of replay streams. If ``n_last`` is given, this number holds for the
        first 1,000 rows.
    recency : float
        Recency of the streams (see `ReplayStreams`).
    n_last : int or None
        Smallest number of replay streams, for many rows. If None, the number of replay
        streams stays the same.
    """

    n_streams: int = 0
    recency: float = 1.0
    n_last: int | None = None

    @classmethod
    def requested(cls, n_streams: int | Sequence[int], recency: float = 1.0) -> Replay:
        """Return the replay for a readout's ``n_replay_streams``.

        Raises
        ------
        ValueError
            If ``n_streams`` is neither an integer nor a valid pair of integers.
        """
        match np.atleast_1d(n_streams).tolist():
            case [int(constant)]:
                return cls(constant, float(recency))
            case [int(first), int(last)] if 0 <= last <= first <= MOST_STREAMS:
                return cls(first, float(recency), last)
        most = f"0 <= least <= first <= {MOST_STREAMS}"
        required = f"an integer or a pair (first, least) with {most}"
        cure = "for example, pass n_replay_streams=(30, 3)"
        raise invalid("n_replay_streams", required, n_streams, cure)

    def at(self, n_rows: int) -> int:
        """Return the number of streams that replay after ``n_rows`` rows.

        If ``n_last`` is given, the number falls as ``1 / sqrt(n_rows)`` after the
        first 1,000 rows, but not below ``n_last``. This is a compromise: many replay
        streams shorten the code of the first ten thousand rows, but take too much time
        for many rows.
        """
        if self.n_last is None or n_rows <= FULL_REPLAY:
            return self.n_streams
        thinned = math.ceil(self.n_streams * math.sqrt(FULL_REPLAY / n_rows))
        return max(self.n_last, thinned)


class RowsAhead(NamedTuple):
    """Sizes of the blocks that a learner predicts: first one row, later several rows.

    Attributes
    ----------
    first : int
        First row that is in a block of several rows, a multiple of ``size``.
    size : int
        Number of rows in a later block. Blocks are counted from the first row of the
        stream.
    """

    first: int
    size: int

    def block(self, row: int) -> tuple[int, int]:
        """Return the first row and the end of the block that contains a row."""
        if row < self.first:
            return row, row + 1
        start = row - row % self.size
        return start, start + self.size

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of blocks that lie between two rows."""
        while start < stop:
            end = min(self.block(start)[1], stop)
            yield start, end
            start = end

    def known(self, start: int, stop: int) -> NDArray[np.intp]:
        """Return how many labels are known when each row of a range is predicted."""
        rows = np.arange(start, stop)
        return np.where(rows < self.first, rows, rows - rows % self.size)


# After many rows, a label changes predictions so little that labels can be learned
# block by block, and predicting a block takes hardly longer than predicting one row.
BY_BLOCKS = RowsAhead(4096, 32)
BY_ROW = RowsAhead(0, 1)


class Report(NamedTuple):
    """Exceptions and warnings of a wrapped estimator, for the user.

    Attributes
    ----------
    notes : list of str
        Exceptions and warnings of the estimator.
    failure : str or None
        Message about the error of the last fit, what the readout predicts with instead,
        and what to do. None if the fit succeeded.
    """

    notes: list[str]
    failure: str | None = None


def copy_learned(column: int, own: State, given: State) -> None:
    """Copy the tensors ``given`` for a readout into its tensors ``own``.

    Raises
    ------
    ValueError
        If a tensor is missing or has another shape.
    """
    for name, tensor in own.items():
        if name not in given or given[name].shape != tensor.shape:
            shape = tuple(given[name].shape) if name in given else "none"
            raise ValueError(
                f"Readout {column} needs {name} of shape {tuple(tensor.shape)} to "
                f"continue, got {shape}; load a state of readouts with these settings"
            )
        tensor.copy_(given[name])


class Learner(ABC):
    """Base class of learners, with all methods that a run calls.

    A learner predicts ``rows_ahead`` rows together and then observes their labels. Once
    all labels of a minibatch are known, the learner is updated with the minibatch and
    with replayed minibatches. At the beginning of a stream, minibatches are learned in
    parts (:meth:`ScaledRows.part`), which are also called minibatches here. All rows of
    a group are predicted before any label of the group is revealed.

    Attributes
    ----------
    columns : list of int
        Positions of the learner's ``K`` readouts among all readouts of the run.
    view : FeatureView
        Columns of X that the learner sees, and their scalings.
    replay : Replay
        Number and recency of the minibatches to learn again after each new minibatch.
    rows_ahead : int, RowsAhead or None
        Number of rows to predict before observing their labels. None means a minibatch,
        in blocks of at most 1,024 rows, and labels are then given only to `calibrate`
        and `update`. Whole blocks are predicted, with zeros for unknown rows. Blocks
        are counted from the beginning of a minibatch, or as in `RowsAhead`. If labels
        are delayed, the learner predicts later rows in between, so it predicts a block
        again just before it observes the block's labels.
    foreign : bool
        True if the learner runs user-defined code. Such a learner never sees unknown
        rows, so its blocks may be shorter. Foreign learners may share state, so they
        take turns after every block, as in decoding.
    is_numbers : bool
        True if the learner can be recreated from its settings and :meth:`state_dict`,
        without reading anything else or fitting again.
    target : TargetScaling or None
        Units of real labels. None until the first labels are learned.
    reports : mapping of int to Report
        Reports on wrapped estimators that raised or warned, keyed by column.
    """

    columns: list[int]
    view: FeatureView = FeatureView()
    replay: Replay = Replay()
    rows_ahead: int | RowsAhead | None = None
    foreign: bool = False
    is_numbers: bool = False
    target: TargetScaling | None = None
    reports: Mapping[int, Report] = MappingProxyType({})

    def attach(self, rows: ScaledRows) -> None:  # noqa: B027
        """Store the rows of the run, if the learner reads past rows again."""

    @abstractmethod
    def predict(self, x: Tensor) -> Tensor:
        """Return predictions (K, n, P), in float64, of rows (n_scalings, n, d).

        The ``P`` numbers are log-probabilities of classes, or location, log scale and
        degrees of freedom of a density. If a readout has no prediction for a row, the
        first number is NaN, and a fallback replaces all numbers of the row. The learned
        state does not change.
        """

    def observe(self, labels: Tensor) -> None:  # noqa: B027
        """Observe the labels of all rows that were last given to :meth:`predict`."""

    def calibrate(self, x: Tensor, y: Tensor) -> None:  # noqa: B027
        """Calibrate on a minibatch before learning it.

        Calibration uses all pending minibatches before the first of them is learned,
        since minibatches may share groups.
        """

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:  # noqa: B027
        """Learn from a new minibatch, then from replayed minibatches.

        The learner was already calibrated on the new minibatch. By default do nothing,
        for learners that learn labels when they observe them.
        """

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:  # noqa: B027
        """Adapt to rescaled rows, given one change for each scaling."""

    def retarget(self, target: TargetScaling) -> None:
        """Adopt other units of real labels without changing predictions."""
        self.target = target

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts without changing the others.

        The run drops a learner when all its readouts are dropped.
        """
        raise TypeError(
            f"{type(self).__name__} must hold several readouts to drop some of them, "
            f"got {self.columns}; drop the learner"
        )

    def add_classes(self, n: int) -> None:
        """Add ``n`` classes to all later predictions.

        The probabilities of the other classes keep their ratios, except for floors that
        depend on the number of classes.
        """
        cure = "omit this readout or new_classes='escape'"
        raise self._unable("learn unnamed classes", cure)

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the learned state, keyed by column and by name.

        The result does not depend on which readouts share a learner.

        Raises
        ------
        TypeError
            If the state cannot be written.
        """
        cure = "call pickle.dump(estimator, file) instead"
        raise self._unable("write their state", cure)

    def load_state_dict(self, learned: Learned) -> None:
        """Load the learned state of learners with the same settings."""
        raise self._unable("load a state", "call pickle.load(file) instead")

    def _unable(self, required: str, cure: str) -> TypeError:
        problem = f"but {type(self).__name__} cannot"
        return TypeError(f"Readouts must be able to {required}, {problem}; {cure}")


class LabelLearner(Learner):
    """Base class of learners that ignore features."""

    rows_ahead = BY_ROW
    is_numbers = True

    @abstractmethod
    def follow(self, labels: Tensor) -> Tensor:
        """Predict each of the next labels (n,) from earlier ones, and observe it.

        Returns
        -------
        predictions : Tensor of shape (K, n, P)
            As returned by :meth:`predict` before each label.
        """
