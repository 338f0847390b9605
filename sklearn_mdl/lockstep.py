"""All learners in lockstep: the walk, one label at a time.

Scoring lets every learner walk a segment by itself, since the labels are at hand. A
decoder has none: it must know the mixture of all learners before it can tell the next
label, and no learner may go on before it is told. The walks, the forward pass and the
trace are those of a :class:`~sklearn_mdl.prequential.Course`, and so are the numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.arithmetic import flushed_denormals, one_thread
from sklearn_mdl.prequential import Course, Prediction, walk
from sklearn_mdl.switching import ForwardTrace

Walks = Sequence[Generator[Prediction, Tensor, None]]


def lockstep(
    course: Course, X: np.ndarray, order: np.ndarray | None = None
) -> Generator[np.ndarray, int, None]:
    """Walk on over new rows (n, d), and ask for their classes one by one.

    After it the course is as if it had been extended by those rows and labels.

    Parameters
    ----------
    course : Course
    X : ndarray of shape (n, d)
    order : ndarray of shape (n,) or None
        In which the rows are walked; None takes them as they lie.

    Yields
    ------
    probabilities : ndarray of shape (C,), float64
        Of the mixture, for the next row, given all rows and labels before it. They sum
        to one but for rounding, and may be zero. A minibatch is predicted at once; the
        weights of the mixture move with every label.

    Receives
    --------
    label : int
        Encoded label of that row.

    Raises
    ------
    RuntimeError
        If an earlier call did not come to its end.
    ValueError
        If the prior refuses a stream of that length; nothing is changed then.
    """
    course.begin(X, order)
    while course.n_scored < len(course.samples):
        stop = course.segment_end()
        with one_thread():
            course.open_segment(stop)
        losses, reading, log_proba = yield from _segment(course, stop)
        with one_thread():
            course.close_segment(stop, losses, reading, log_proba)
    course.end()


def _segment(
    course: Course, stop: int
) -> Generator[np.ndarray, int, tuple[np.ndarray, ForwardTrace, Tensor]]:
    """Lead all learners up to ``stop``; returns what the segment leaves."""
    walks = [
        walk(learner, course.rows, state, stop)
        for learner, state in zip(course.learners, course.states, strict=True)
    ]
    order = np.argsort(course.columns)
    losses, readings, predictions = [], [], []
    labels: Tensor | None = None
    while (found := _next_predictions(walks, labels)) is not None:
        told = []
        for row in found[order].swapaxes(0, 1):  # (K, C), log-probabilities
            label = yield _mixture(course, row)
            told.append(label)
            losses.append(-row[:, label])
            with flushed_denormals(False):
                readings.append(course.forward.extend(losses[-1][np.newaxis]))
        labels = torch.tensor(told, dtype=torch.long, device=course.device)
        predictions.append(torch.as_tensor(found, device=course.device))
    return np.stack(losses), _joined(readings), torch.cat(predictions, dim=1)


def _next_predictions(walks: Walks, labels: Tensor | None) -> np.ndarray | None:
    """Tell all walks the labels of the rows just predicted, and let them predict.

    Returns
    -------
    log_proba : ndarray of shape (K, n, C) or None
        Learner after learner; None where the walks end, which they all do at once.
    """
    found = []
    with one_thread(), flushed_denormals():
        for steps in walks:
            try:
                predicted = next(steps) if labels is None else steps.send(labels)
            except StopIteration:
                continue
            found.append(predicted.values)
    return torch.cat(found).cpu().numpy() if found else None


def _mixture(course: Course, log_proba: np.ndarray) -> np.ndarray:
    """Mix predictions (K, C) of one row by the weights of its step."""
    # Sums down the columns, not a matrix product, whose order of summation is a matter
    # of the machine's threads. The same state of denormals as in the forward pass.
    with flushed_denormals(False):
        weights = course.forward.weights[:, np.newaxis]
        mixture: np.ndarray = np.add.reduce(weights * np.exp(log_proba), axis=0)
    return mixture


def _joined(readings: Sequence[ForwardTrace]) -> ForwardTrace:
    codelengths, posterior, steps = (
        np.concatenate([getattr(reading, name) for reading in readings])
        for name in ("codelengths", "posterior", "steps")
    )
    return ForwardTrace(float(codelengths.sum()), codelengths, posterior, steps)
