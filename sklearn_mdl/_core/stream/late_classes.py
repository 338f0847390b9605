"""Classes that appear in a run without having been named."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.numerics import fixed_arithmetic, flushed_denormals
from sklearn_mdl._core.stream.pooled import PooledRows
from sklearn_mdl._core.stream.steps import score_segment

if TYPE_CHECKING:
    from sklearn_mdl._core.stream.run import PrequentialRun


def check_groups(run: PrequentialRun, keys: np.ndarray) -> None:
    """Refuse groups of further rows, (n,), that cannot be kept apart.

    Raises
    ------
    ValueError
        If rows of one group do not follow each other, or classes may appear.
    """
    if run.outcome.escape is not None:
        raise ValueError(
            'Rows must be learned one by one where new_classes="escape", since a class '
            "that appears is known to the next row, but groups were given; leave them "
            "out, or name all classes"
        )
    run.rows.groups.check(keys)


def late_rows(run: PrequentialRun, labels: Tensor) -> list[int]:
    """Return the rows that bring a new class, given labels from the incoming row on."""
    new, n_known = labels.cpu().numpy(), run.outcome.n_numbers
    known = np.maximum.accumulate(np.append(n_known - 1, new))
    found: list[int] = (run.n_scored + np.flatnonzero(new > known[:-1])).tolist()
    return found


def learn_late(run: PrequentialRun, label: int) -> None:
    """Code the incoming row, which brings a class that is not known, and learn it.

    All readouts pay for the escape alike, so that nothing is learned of which is best.
    Then they predict one class more, and meet the row like any other, but for its cost.
    """
    row, escape, awake = run.n_scored, run.outcome.escape, run.retirement.awake
    assert escape is not None
    with fixed_arithmetic(), flushed_denormals():
        found = [next(steps).values for steps in run.steps(row + 1)]
    values, cost = list(chain(*found)), escape.observe(label)
    losses = np.where(awake, cost, np.nan)[np.newaxis]
    reading, pooled = run.forward.extend(losses), None
    if run.pooled is not None:
        row_values = torch.cat([values[i] for i in np.argsort(run.columns)])
        nats = float(reading.codelengths[0])
        mixed = run.pooled.mixed(row_values.cpu().numpy())
        pooled = PooledRows.of([run.pooled.observe(mixed, losses[0], None, nats, cost)])
    add_classes(run, 1)
    labels = torch.full((1,), label, dtype=run.outcome.dtype, device=run.device)
    score_segment(run.steps(row + 1), labels)
    run.close_segment(losses, reading, values, pooled)


def add_classes(run: PrequentialRun, n: int) -> None:
    """Let all learners of a run predict more classes; see ``Learner.add_classes``."""
    run.outcome.n_numbers += n
    for learner in run.learners:
        learner.add_classes(n)
    if run.pooled is not None:
        run.pooled.add_classes(n)


def recall_classes(run: PrequentialRun, labels: Tensor) -> None:
    """Know the classes of rows that were evaluated, before their state is loaded."""
    escape = run.outcome.escape
    if escape is not None:
        for label in labels.tolist():
            escape.observe(label)
        if n_new := escape.n_classes - run.outcome.n_numbers:
            add_classes(run, n_new)
