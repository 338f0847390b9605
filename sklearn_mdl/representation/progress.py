"""A bar over cells, with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Self

from tqdm import tqdm

from sklearn_mdl.representation.cells import Task

# What a row costs beside its features, in features: measured on default boards, where
# rows of 64 features cost about half of what rows of 256 do, and of 768 twice as much.
# It serves an estimate alone.
FIXED_COST = 256
FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


def cost_of(task: Task) -> float:
    """Return what a cell costs, in a unit of no meaning."""
    n_samples, n_features = task.X.shape
    return float(n_samples * (FIXED_COST + n_features))


class Progress:
    """A bar over cells, those among them that were there already.

    Parameters
    ----------
    tasks : sequence of Task
    found : container of int
        Places of those that were there already.
    disable : bool
    """

    def __init__(
        self, tasks: Sequence[Task], found: Container[int], *, disable: bool
    ) -> None:
        self._costs = {i: cost_of(t) for i, t in enumerate(tasks) if i not in found}
        self._left = sum(self._costs.values())
        self._done = 0.0
        self._start = time.monotonic()
        self._bar = tqdm(
            total=len(tasks),
            initial=len(tasks) - len(self._costs),
            desc="cells",
            disable=disable,
            bar_format=FORMAT,
        )

    def __enter__(self) -> Self:
        """Show the bar."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave it as it is."""
        self._bar.close()

    def seconds_left(self) -> float | None:
        """Estimate the time left from the cells so far, None before the first."""
        if not self._done:
            return None
        return (time.monotonic() - self._start) * self._left / self._done

    def finished(self, index: int) -> None:
        """Count a cell."""
        cost = self._costs[index]
        self._done, self._left = self._done + cost, self._left - cost
        seconds = self.seconds_left()
        if seconds is not None and not self._bar.disable:
            left = tqdm.format_interval(max(0, round(seconds)))
            self._bar.set_postfix_str(f"about {left} left", refresh=False)
        self._bar.update()
