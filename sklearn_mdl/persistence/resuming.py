"""What is kept of a walk, so that it can go on in another process.

Little has to be: labels, losses and what the learners have learned. The rest follows
from them, bit by bit, and is computed again: scaling and replay from the rows and their
number, the mixture from the losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import one_thread
from sklearn_mdl.prequential import Course

BLOCK = 4096  # rows of losses that are mixed at once
READOUT = "readout"  # what the names of arrays that belong to one begin with


class Relearner(Protocol):
    """A learner that can hand over what it has learned."""

    @property
    def columns(self) -> Sequence[int]: ...  # noqa: D102

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """All that it has learned, by column and name, however readouts are dealt."""

    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what learners of the same settings have learned."""


def progress_of(course: Course) -> dict[str, np.ndarray]:
    """Everything but rows and losses that a course needs in order to go on.

    Raises
    ------
    TypeError
        If a learner cannot hand over what it has learned.
    """
    arrays = {
        "labels": course.states[0].labels.cpu().numpy(),
        "digests": course.trace.digests,
        "diverged": course.diverged,
    }
    for learner in course.learners:
        if not hasattr(learner, "learned"):
            raise TypeError(
                "Readouts must be able to hand over what they have learned, but "
                f"{type(learner).__name__} is not; pickle the estimator instead"
            )
        for column, parts in cast(Relearner, learner).learned().items():
            for name, tensor in parts.items():
                arrays[f"{READOUT}.{column}.{name}"] = tensor.detach().cpu().numpy()
    return arrays


def resume(
    course: Course, arrays: Mapping[str, np.ndarray], losses: np.ndarray | None = None
) -> int:
    """Bring a new course to where another one was.

    Parameters
    ----------
    course : Course
        With its rows taken in, none of them walked.
    arrays : mapping
        What :func:`progress_of` returned.
    losses : ndarray of shape (n, K) or None
        None where they lie in the store of this course already.

    Returns
    -------
    n_rows : int
        Number of rows that count as walked.

    Raises
    ------
    ValueError
        If the arrays are not those of such a course.
    """
    labels = torch.from_numpy(np.array(arrays["labels"])).to(course.outcome.dtype)
    n_rows = len(labels)
    if n_rows > len(course.samples):
        raise ValueError(
            f"The stream must hold the {n_rows} rows that were walked, got "
            f"{len(course.samples)}; give them all, in the same order"
        )
    with one_thread():
        _scale_again(course, labels)
        learned = _by_column(arrays)
        for learner, state in zip(course.learners, course.states, strict=True):
            cast(Relearner, learner).relearn(learned)
            failed = np.asarray(arrays["diverged"])[list(learner.columns)]
            state.resume(labels, torch.from_numpy(failed))
    _mix_again(course, np.asarray(arrays["digests"]), losses)
    return n_rows


def _by_column(arrays: Mapping[str, np.ndarray]) -> dict[int, dict[str, Tensor]]:
    found: dict[int, dict[str, Tensor]] = {}
    for key, array in arrays.items():
        head, _, rest = key.partition(".")
        if head == READOUT:
            column, _, name = rest.partition(".")
            tensor = torch.from_numpy(np.array(array))
            found.setdefault(int(column), {})[name] = tensor
    return found


def _scale_again(course: Course, labels: Tensor) -> None:
    count = course.batch_size
    while count <= len(labels):
        course.rows.refresh(count)
        count *= 2
    if count > course.batch_size:
        # No learner has units of its own yet, so that none is re-expressed.
        course.outcome.refresh(labels[: count // 2], course.learners)
    course.rows.extend(len(labels))


def _mix_again(course: Course, digests: np.ndarray, losses: np.ndarray | None) -> None:
    trace, adopted = course.trace, losses is None
    if losses is None:
        trace.adopt(len(digests))
        losses = trace.losses
    for start in range(0, len(digests), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.asarray(losses[rows])
        reading = course.forward.extend(block)
        if adopted:
            trace.account(reading.codelengths, digests[rows])
        else:
            trace.append(block, reading.codelengths, reading.posterior, digests[rows])
