"""Segments of a run: rows that one learner is evaluated on before the others."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn_mdl._core.stream.run import PrequentialRun


def count_segments(run: PrequentialRun) -> int:
    """Count the segments that are not yet evaluated."""
    count, start = 0, run.n_scored
    while start < len(run.samples):
        count, start = count + 1, segment_end(run, start)
    return count


def segment_end(run: PrequentialRun, start: int) -> int:
    """Return the end of a segment.

    None goes beyond a refresh of the scalings, or where readouts may retire, but for
    the rest of a group. A row that brings a new class is one by itself.
    """
    refresh = run.rows.next_refresh(start)
    stop = min(start + run.segment, refresh, len(run.samples))
    groups = run.rows.groups
    count = run.retirement.next_count(groups.known(start)) + groups.delay
    stop = int(min(stop, count))
    for late in run.late[bisect_left(run.late, start) :][:1]:
        stop = min(stop, max(late, start + 1))
    return groups.closing(stop - 1)
