"""Heat map of the nats that the labels of one task save on a later task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.display._heatmap import name_fields, write_value


class TransferDisplay(base.Display):
    """Nats that a task's labels (row) save on a later task (column).

    Positive numbers mean that the first task helps the second, and negative numbers
    that it hurts. Numbers whose interval contains zero are pale.

    Parameters
    ----------
    transfer : array-like of shape (n_tasks, n_tasks)
        Codelength in nats of the column's task after the row's task with permuted
        labels, minus its codelength after the row's task with true labels (see
        ``transfer_`` of TaskSequence). The diagonal is left out.
    names : sequence of length n_tasks
    intervals : array-like of shape (n_tasks, n_tasks, 2), optional
        Lower and upper bounds of ``transfer``. The map shows half the width of each
        interval after ``±``.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    image_ : matplotlib AxesImage

    Examples
    --------
    >>> from sklearn_mdl.display import TransferDisplay
    >>> TransferDisplay([[0, 12], [-3, 0]], ["digits", "signs"]).frame()
            digits  signs
    digits     NaN   12.0
    signs     -3.0    NaN
    """

    def __init__(
        self,
        transfer: ArrayLike,
        names: Sequence[str],
        intervals: ArrayLike | None = None,
    ) -> None:
        self.names = [str(name) for name in names]
        self.transfer = np.array(transfer, dtype=float)
        shape = (len(self.names),) * 2
        given = np.full((*shape, 2), np.nan) if intervals is None else intervals
        self.intervals = np.asarray(given, dtype=float)
        shapes = self.transfer.shape, self.intervals.shape
        if shapes != (shape, (*shape, 2)) or len(names) < 2:
            required = f"of shapes (n, n) and (n, n, 2), n > 1, here n = {len(names)}"
            cure = "pass transfer_, task_names_, transfer_intervals_ of a TaskSequence"
            given = shapes[:1] if intervals is None else shapes
            raise invalid("transfer and intervals", required, given, cure)
        np.fill_diagonal(self.transfer, np.nan)

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw the map, with a number in every cell off the diagonal.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default a new figure is created.

        Returns
        -------
        display : TransferDisplay
            The display itself.
        """
        beside = base.CHARACTER * base.longest(self.names)
        side = max(2.0, 0.75 * len(self.names))
        ax = self._use_axes(ax, side + beside + 1.2, side + beside + 0.6)
        most = max(float(np.nanmax(np.abs(self.transfer))), np.finfo(float).tiny)
        colours = base.plot_extra("matplotlib.colors").Normalize(-most, most)
        self.image_ = ax.imshow(self.transfer, cmap="RdBu", aspect="auto", norm=colours)
        for (i, j), value in np.ndenumerate(self.transfer):
            if i == j:
                continue
            low, high = self.intervals[i, j]
            text = f"{np.round(value, 0) + 0.0:.0f}"
            if np.isfinite(low):
                text += f"\n±{(high - low) / 2:.0f}"
            pale = 0.5 if low <= 0 <= high else 1.0
            write_value(self.image_, (j, i), value, text, fontsize=8, alpha=pale)
        name_fields(ax, self.names, self.names, (side, side))
        ax.xaxis.set_label_position("top")
        ax.set(xlabel="second task", ylabel="first task")
        self.figure_.colorbar(self.image_, ax=ax, label="nats saved on the second task")
        return self

    def frame(self) -> base.DataFrame:
        """Return a DataFrame of the savings in nats.

        Each row is a first task, and each column is a second task.
        """
        return base.matrix_frame(self.transfer, self.names, self.names)
