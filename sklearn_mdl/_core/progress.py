"""Progress bars, and none where none is asked for."""

from __future__ import annotations

from typing import Any, Self


class NoBar:
    """What shows nothing, and does nothing else either.

    A disabled bar of tqdm still takes its lock, which the child of a fork may hold
    forever after a Ctrl-C.
    """

    def __enter__(self) -> Self:
        """Begin nothing."""
        return self

    def __exit__(self, *error: object) -> None:
        """End nothing."""

    def update(self, n: int = 1) -> None:
        """Count nothing."""


def progress_bar(shown: bool, **options: Any) -> Any:
    """Return a bar of tqdm with such options, to be entered; NoBar if hidden."""
    if not shown:
        return NoBar()
    from tqdm import tqdm  # not imported where no bar is asked for

    return tqdm(**options)
