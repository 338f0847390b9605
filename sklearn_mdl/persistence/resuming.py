"""What is kept of a walk, so that it can go on in another process.

Little has to be: labels, losses and what the learners have learned. The rest follows
from them, bit by bit, and is computed again: scaling and replay from the rows and their
number, the mixture from the losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import one_thread
from sklearn_mdl.prequential import Course

BLOCK = 4096  # rows of losses that are mixed at once


class Relearner(Protocol):
    """A learner that can hand over what it has learned."""

    def learned(self) -> dict[str, Tensor]:
        """All that it has learned, by name."""

    def relearn(self, learned: Mapping[str, Tensor]) -> None:
        """Take over what a learner of the same settings has learned."""


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
    }
    for i, (learner, state) in enumerate(
        zip(course.learners, course.states, strict=True)
    ):
        if not hasattr(learner, "learned"):
            raise TypeError(
                "Readouts must be able to hand over what they have learned, but "
                f"{type(learner).__name__} is not; pickle the estimator instead"
            )
        for name, tensor in cast(Relearner, learner).learned().items():
            arrays[f"learner.{i}.{name}"] = tensor.detach().cpu().numpy()
        arrays[f"failed.{i}"] = state.failed.cpu().numpy()
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
    labels = np.array(arrays["labels"], dtype=np.int64)
    n_rows = len(labels)
    if n_rows > len(course.samples):
        raise ValueError(
            f"The stream must hold the {n_rows} rows that were walked, got "
            f"{len(course.samples)}; give them all, in the same order"
        )
    with one_thread():
        _scale_again(course, n_rows)
        for i, (learner, state) in enumerate(
            zip(course.learners, course.states, strict=True)
        ):
            head = f"learner.{i}."
            learned = {
                name.removeprefix(head): torch.from_numpy(np.array(array))
                for name, array in arrays.items()
                if name.startswith(head)
            }
            cast(Relearner, learner).relearn(learned)
            failed = torch.from_numpy(np.array(arrays[f"failed.{i}"]))
            state.resume(torch.from_numpy(labels), failed)
    _mix_again(course, np.asarray(arrays["digests"]), losses)
    return n_rows


def _scale_again(course: Course, n_rows: int) -> None:
    count = course.batch_size
    while count <= n_rows:
        course.rows.refresh(count)
        count *= 2
    course.rows.extend(n_rows)


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
