"""A walk that is written down as it goes, and goes on after it was killed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn_mdl.archives import read_archive, write_archive
from sklearn_mdl.conditions import cut_short, first_difference
from sklearn_mdl.persistence.resuming import progress_of, resume
from sklearn_mdl.prequential import Course

NAME = "walk.safetensors"
ENVIRONMENT = "environment"  # what may change on the way, and is told
SECONDS = 30.0  # between two times, at least
SHARE = 0.05  # of the time that may go into writing


class Checkpoint:
    """Where a walk is written to from time to time.

    Losses lie in the store of the course, which grows with every segment; a file beside
    them says how many of them count, and what the readouts had learned by then. It is
    replaced whole, so that a killed process leaves one that is whole.

    Parameters
    ----------
    folder : Path
    about : mapping
        All that determines the numbers, as JSON: a walk goes on only as it began. If
        the "environment" differs, that is told.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.path = folder / NAME
        self.about = about
        self._next = 0.0

    def resume(self, course: Course) -> int:
        """Bring a course, whose rows are taken in, to where the file says.

        Returns
        -------
        n_rows : int
            Number of rows that count as walked; 0 if there is no file yet.

        Raises
        ------
        ValueError
            If the file is damaged, or tells of another walk.
        """
        if not self.path.exists():
            return 0
        arrays, about = read_archive(self.path)
        self._compare(about)
        n_rows = resume(course, arrays)
        self._wait(0.0)
        return n_rows

    def _compare(self, about: Mapping[str, Any]) -> None:
        names = [name for name in {**self.about, **about} if name != ENVIRONMENT]
        was, now = ({k: a.get(k) for k in names} for a in (about, self.about))
        if difference := first_difference(was, now):
            name, then, here = difference
            raise ValueError(
                f"A checkpoint goes on only as it began, but {name} was "
                f"{cut_short(then)} in {self.path}, and is {cut_short(here)}; name "
                "another folder, or delete this one to begin anew"
            )
        elsewhere = first_difference(about.get(ENVIRONMENT), self.about[ENVIRONMENT])
        if elsewhere is not None:
            name, then, here = elsewhere
            warnings.warn(
                f"the walk began where {name} was {then!r}, and goes on where it is "
                f"{here!r}, so that the last digits may differ",
                UserWarning,
                stacklevel=6,  # who called fit
            )

    def save_if_due(self, course: Course) -> None:
        """Write the state after a segment, if the last time is long enough ago."""
        if time.monotonic() >= self._next:
            self.save(course)

    def save(self, course: Course) -> None:
        """Write the state after a segment.

        Raises
        ------
        OSError
            If the disk is full; the file before is then still there.
        """
        start = time.monotonic()
        course.trace.secure()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_archive(self.path, progress_of(course), self.about)
        self._wait(time.monotonic() - start)

    def _wait(self, seconds: float) -> None:
        self._next = time.monotonic() + max(SECONDS, seconds / SHARE)
