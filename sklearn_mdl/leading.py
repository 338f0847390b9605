"""Lead a course over its rows: show progress, heed Ctrl-C, write checkpoints."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import torch
from tqdm import tqdm

from sklearn_mdl._sklearn import FitTasks
from sklearn_mdl.interrupts import held_back
from sklearn_mdl.persistence import Checkpoint
from sklearn_mdl.prequential import Course


def lead(
    course: Course,
    labels: torch.Tensor,
    begin: int,
    *,
    checkpoint: Checkpoint | None = None,
    tasks: FitTasks | None = None,
    **bar: Any,
) -> None:
    """Walk over the rows that a course has taken in.

    Parameters
    ----------
    course : Course
    labels : Tensor of shape (n,)
        Encoded labels of its rows from place ``begin`` on.
    begin : int
    checkpoint : Checkpoint or None
    tasks : FitTasks or None
        Told of every segment; the walk ends when it wants to stop.
    **bar
        Of the progress bar.

    Raises
    ------
    KeyboardInterrupt
        After the segment that was under way. The course then ends there, and can go on
        over other rows. A second Ctrl-C does not wait, and leaves a course that cannot.
    """
    n_done = course.n_scored - begin
    with (
        closing(course.walk_on(labels, begin)) as steps,
        tqdm(total=len(labels), initial=n_done, unit="row", **bar) as shown,
        held_back() as asked,
    ):
        stop = False
        while course.n_ahead and not stop:
            if tasks is not None:
                tasks.begin_part()
            shown.update(next(steps))
            wish = tasks is not None and tasks.end_part()
            stop = wish or asked()
            if checkpoint is not None and not stop:
                checkpoint.save_if_due(course)
        course.leave()
    if checkpoint is not None:
        checkpoint.save(course)
    if tasks is not None:
        tasks.end()
    if asked():
        raise KeyboardInterrupt
