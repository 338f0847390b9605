"""Codelengths of several tasks in sequence, and the transfer between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.extras import data_frame
from sklearn_mdl._core.numerics import fixed_arithmetic
from sklearn_mdl._core.sklearn_compat import (
    Constraints,
    Interval,
    StrOptions,
    fit_context,
)
from sklearn_mdl._core.stream.heldout import branched
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import TransferDisplay
from sklearn_mdl.model_selection._certainty import Floats, Losses, sample_of
from sklearn_mdl.model_selection._given import refuse_new_classes
from sklearn_mdl.model_selection._scorers import _detach
from sklearn_mdl.switcher import MDLReadoutSwitcher

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

LEAST = 1e-300  # added to the probability of each class of a task, to avoid zeros


class _Task(NamedTuple):
    """Rows and labels of a task, and the range of its classes in the stream."""

    X: np.ndarray
    y: NDArray[np.intp]
    classes: slice


@dataclass(eq=False, repr=False)
class TaskSequence(BaseEstimator):
    """Codelengths of tasks in sequence, and the transfer between tasks.

    All tasks have the same kind of input, such as features from one encoder, or images.
    ``L(B)`` is the codelength of task B on its own, and ``L(B | A)`` is its codelength
    after task A has been learned. So ``L(A) + L(B | A)`` is the codelength of both. If
    readouts start out worse than the uniform code, any earlier task may shorten the
    code of B, even a task with random labels. The transfer from A to B is therefore
    ``L(B | A permuted) - L(B | A)`` in nats, where the first term is the codelength of
    B after A with permuted labels. So transfer only counts what was learned from the
    labels of A. If the labels of A are noise, the expected transfer is 0.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout, default=None
        Switcher or readout for classes, which is copied for every stream. If None,
        ``MDLReadoutSwitcher("closed-form")``.
    heads : {"separate", "shared"}, default="separate"
        With "shared", equal labels are the same class in all tasks. With "separate",
        every task has its own classes, and predictions are restricted to the classes of
        the current task.
    n_orders : int, default=3
        Number of random orders of each task's rows.
    level : float, default=0.9
        Confidence level of the intervals.
    random_state : int, RandomState instance or None, default=None
        Seed of the orders, and of the switcher if its ``random_state`` is not an
        integer.

    Attributes
    ----------
    task_names_ : list of str
    codelengths_ : ndarray of shape (n_orders, n_tasks)
        ``L(B)``, in nats.
    conditional_codelengths_ : ndarray of shape (n_orders, n_tasks, n_tasks)
        ``L(B | A)`` in nats, with A in rows and B in columns. NaN on the diagonal.
    null_codelengths_ : ndarray of shape (n_orders, n_tasks, n_tasks)
        ``L(B | A permuted)`` in nats, in the same layout.
    transfer_ : ndarray of shape (n_tasks, n_tasks)
        ``L(B | A permuted) - L(B | A)`` in nats, averaged over orders. NaN on the
        diagonal. It may be positive although B costs more after A than by itself,
        since permuted labels may do more harm to what is carried over.
    raw_transfer_ : ndarray of shape (n_tasks, n_tasks)
        ``L(B) - L(B | A)`` in nats, averaged over orders. It may be positive even if
        the labels of A are random.
    transfer_intervals_ : ndarray of shape (n_tasks, n_tasks, 2)
        Student intervals of ``transfer_`` for fresh rows of the two tasks. They account
        for the rows of B, for orders, and for chance in the labels of A, whose effect
        is assumed to vary like that of permuted labels. NaN on the diagonal and for a
        single order.
    sequence_ : list of str
        Names of the tasks in the order of the sequence.
    sequence_codelengths_ : ndarray of shape (n_orders, n_tasks)
        Codelength in nats of each task of the sequence, given all tasks before it. The
        sum over tasks is the codelength of the whole sequence.

    Notes
    -----
    The readouts determine what is carried over from task to task. With separate heads,
    linear and kernel readouts carry over little more than calibration, scaling and the
    posterior over readouts. With shared heads, linear readouts also carry over their
    weights, and kernel readouts carry over the rows. To measure transfer, use networks,
    which carry over their hidden layers. ``FineTunedReadout`` and ``ScratchReadout``
    carry over all layers below the head.

    References
    ----------
    Bornschein et al., 2023, NEVIS'22: a stream of 100 tasks sampled from 30 years of
    computer vision research, JMLR 24.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import KernelReadout
    >>> from sklearn_mdl.model_selection import TaskSequence
    >>> X, y = load_digits(return_X_y=True)
    >>> tasks = {"first": (X[:100], y[:100]), "second": (X[100:200], y[100:200])}
    >>> sequence = TaskSequence(KernelReadout(), heads="shared", n_orders=2)
    >>> bool(sequence.fit(tasks).transfer_[0, 1] > 0)
    True
    """

    switcher: OnlineClassifier | None = None
    _: KW_ONLY
    heads: str = "separate"
    n_orders: int = 3
    level: float = 0.9
    random_state: RandomState = None

    _parameter_constraints: ClassVar[Constraints] = {
        "switcher": [OnlineClassifier, None],
        "heads": [StrOptions({"separate", "shared"})],
        "n_orders": [Interval(Integral, 1, None, closed="left")],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    @fit_context
    def fit(
        self,
        tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
        order: Sequence[str] | None = None,
    ) -> Self:
        """Evaluate each task on its own, after every other task, and in the sequence.

        Parameters
        ----------
        tasks : mapping of str to (X, y)
            Features (n_samples, n_features) and labels (n_samples,). All tasks must
            have the same ``n_features``.
        order : sequence of str, default=None
            Names of all tasks in the order of the sequence. If None, tasks keep their
            order in `tasks`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there are fewer than two tasks, or if their numbers of features differ.
            Also if a task has fewer than two classes, or if `order` does not name every
            task once. With shared heads, also if labels are text in some tasks and
            numbers in others.
        """
        names = _names_of(tasks)
        sequence = names if order is None else [str(name) for name in order]
        if sorted(sequence) != sorted(names):
            required = f"None, or a list that names each of {names} once"
            all_names = sorted(names, key=[*sequence, *names].index)
            raise invalid("order", required, sequence, f"pass order={all_names}")
        encoded = self._encoded(tasks)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        places = [names.index(name) for name in sequence]
        shape = self.n_orders, len(names)
        new = copy(self)  # an interrupted fit changes nothing
        new.codelengths_, new.sequence_codelengths_ = np.empty(shape), np.empty(shape)
        new.conditional_codelengths_ = np.full((*shape, len(names)), np.nan)
        new.null_codelengths_ = new.conditional_codelengths_.copy()
        losses = []
        for i in range(self.n_orders):
            ordered = [_shuffle(task, [seed, i, j]) for j, task in enumerate(encoded)]
            with fixed_arithmetic():
                losses.append(new._evaluate(ordered, places, i, seed))
        new.task_names_, new.sequence_ = names, sequence
        raw = new.codelengths_[:, np.newaxis] - new.conditional_codelengths_
        saved = new.null_codelengths_ - new.conditional_codelengths_
        new.transfer_, new.raw_transfer_ = saved.mean(axis=0), raw.mean(axis=0)
        halves = np.full((len(names), len(names), 1), np.nan)
        if self.n_orders > 1:
            for pair in losses[0]:
                halves[pair] = _half([by_pair[pair] for by_pair in losses], self.level)
        new.transfer_intervals_ = new.transfer_[..., np.newaxis] + halves * [-1, 1]
        self.__dict__ = new.__dict__
        return self

    def _encoded(self, tasks: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> list[_Task]:
        """Return checked tasks, with their labels encoded as classes of one stream."""
        pairs = {str(name): self._checked(str(name), *tasks[name]) for name in tasks}
        widths = {name: X.shape[1] for name, (X, _) in pairs.items()}
        if len(set(widths.values())) > 1:
            cure = "pass encoder.transform(X) of one encoder for all tasks"
            raise invalid("The tasks' numbers of features", "equal", widths, cure)
        labels = [y for _, y in pairs.values()]
        shared = None
        if self.heads == "shared":
            if len({y.dtype.kind in "OUS" for y in labels}) > 1:
                required = "text in all tasks or in none"
                kinds = [str(y.dtype) for y in labels]
                cure = 'pass y.astype(str) in all tasks, or heads="separate"'
                raise invalid("Labels", required, kinds, cure)
            shared = np.unique(np.concatenate(labels))
        encoded, first = [], 0
        for X, y in pairs.values():
            classes = np.unique(y) if shared is None else shared
            own = slice(first, first + len(classes))
            encoded.append(_Task(X, first + np.searchsorted(classes, y), own))
            first = own.stop if shared is None else 0
        return encoded

    def _checked(
        self, name: str, X: ArrayLike, y: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the features and labels of a task, or raise if they are invalid."""
        try:
            rows, labels = self._estimator()._checked(X, y, reset=True)
        except (TypeError, ValueError) as error:
            # A switcher for real numbers is no cure here.
            text = str(error).replace("use MDLReadoutSwitcherRegressor(), or ", "")
            raise type(error)(f"Task {name!r}: {text}") from error
        n_classes = len(np.unique(labels))
        if n_classes < 2:
            raise ValueError(
                f"Task {name!r} must have two or more classes, got {n_classes}; add "
                "rows of another class"
            )
        return rows, labels

    def _evaluate(
        self, tasks: list[_Task], sequence: list[int], i: int, seed: int
    ) -> dict[tuple[int, int], Floats]:
        """Evaluate all pairs of tasks and the sequence in one order of the rows.

        For each pair of tasks, return the losses (2, N) of the second task after the
        first task with permuted labels, and after the first task with true labels.
        """
        losses = {}
        for a, first in enumerate(tasks):
            run = self._run_of(tasks, seed)
            self.codelengths_[i, a] = _costs(run, first).sum()
            null = self._run_of(tasks, seed)
            labels = np.random.default_rng([seed, i, a, 1]).permutation(first.y)
            _costs(null, first._replace(y=labels))
            for b, second in enumerate(tasks):
                if a != b:
                    both = [_costs(branched(known), second) for known in (null, run)]
                    losses[a, b] = np.stack(both)
                    self.null_codelengths_[i, a, b] = both[0].sum()
                    self.conditional_codelengths_[i, a, b] = both[1].sum()
            if a == sequence[0]:
                rest = [_costs(run, tasks[b]).sum() for b in sequence[1:]]
                self.sequence_codelengths_[i] = [self.codelengths_[i, a], *rest]
        return losses

    def _run_of(self, tasks: list[_Task], seed: int) -> PrequentialRun:
        """Return a new run with the classes of all tasks."""
        estimator = self._estimator()
        _detach(estimator, seed)
        classes = np.arange(max(task.classes.stop for task in tasks))
        estimator._checked(tasks[0].X, tasks[0].y, reset=True)
        estimator._begin(tasks[0].X.shape[1], classes)
        return estimator._run

    def _estimator(self) -> OnlineClassifier:
        given = self.switcher or MDLReadoutSwitcher("closed-form")
        estimator: OnlineClassifier = clone(given)
        estimator._validate_params()
        refuse_new_classes(estimator)
        return estimator

    def to_frame(self) -> DataFrame:
        """Return a data frame with a row for each ordered pair of tasks, in nats."""
        check_is_fitted(self)
        first, second = np.nonzero(~np.eye(len(self.task_names_), dtype=bool))
        low, high = self.transfer_intervals_[first, second].T
        conditional = self.conditional_codelengths_.mean(axis=0)
        table = {
            "first": [self.task_names_[a] for a in first],
            "second": [self.task_names_[b] for b in second],
            "codelength": self.codelengths_.mean(axis=0)[second],
            "conditional_codelength": conditional[first, second],
            "null_codelength": self.null_codelengths_.mean(axis=0)[first, second],
            "transfer": self.transfer_[first, second],
            "low": low,
            "high": high,
            "raw_transfer": self.raw_transfer_[first, second],
        }
        return data_frame(table, "first")

    def plot(self, ax: Axes | None = None) -> TransferDisplay:
        """Draw the transfer matrix as a heat map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default a new figure is created.

        Returns
        -------
        display : TransferDisplay
        """
        check_is_fitted(self)
        values = self.transfer_, self.task_names_, self.transfer_intervals_
        return TransferDisplay(*values).plot(ax)


def _names_of(tasks: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> list[str]:
    names = [str(name) for name in tasks] if isinstance(tasks, Mapping) else None
    if names is None or len(set(names)) < max(2, len(names)):
        what = type(tasks).__name__ if names is None else names
        required = "a mapping from at least two names to pairs (X, y)"
        cure = "pass {'first': (X1, y1), 'second': (X2, y2)}"
        raise invalid("tasks", required, what, cure)
    for name, task in tasks.items():
        parts = task if isinstance(task, tuple | list) else [task]
        if len(parts) != 2:
            what = [type(part).__name__ for part in parts]
            raise invalid(f"Task {name!r}", "a pair (X, y)", what, "pass (X, y)")
    return names


def _shuffle(task: _Task, seed: list[int]) -> _Task:
    order = np.random.default_rng(seed).permutation(len(task.y))
    return task._replace(X=task.X[order], y=task.y[order])


def _costs(run: PrequentialRun, task: _Task) -> Floats:
    """Continue the stream with a task, and return the codelength of each label."""
    if task.classes.stop - task.classes.start == run.outcome.n_numbers:
        run.run(task.X, task.y)
        return np.array(run.trace.codelengths[-len(task.y) :])
    steps = stepwise(run, task.X)
    proba, costs = next(steps), []
    for label in task.y.tolist():
        own = proba[task.classes] + LEAST
        costs.append(-np.log(own[label - task.classes.start] / own.sum()))
        with suppress(StopIteration):  # after the last row
            proba = steps.send(label)
    return np.array(costs)


def _half(losses: Sequence[Floats], level: float) -> Floats:
    """Return half the width of the interval for a transfer.

    For each order, ``losses`` has an array (2, N) of the losses after permuted labels
    and after true labels.
    """
    n_orders, starts = len(losses), np.arange(losses[0].shape[1])
    sample = sample_of([[Losses(table[i], starts) for table in losses] for i in (0, 1)])
    # The true labels of the first task are a single draw, while each order has its own
    # permuted labels. So the variance over orders is multiplied by 1 + 1 / n_orders,
    # instead of 1 / n_orders.
    by_order = sample.by_order * np.sqrt(n_orders + 1)
    return replace(sample, by_order=by_order).half_width([0], [1], 1 - level)
