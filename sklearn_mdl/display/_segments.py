"""Nats per example in segments of a stream, compared with other codes."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.display import _base as base

LABELS = {
    "codelengths": "whole stream",
    "restarted_codelengths": "restarted in the segment",
    "reference_codelengths": "labels alone, no features",
}


class Segments(Protocol):
    """Codelengths of segments."""

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    intervals: base.Floats

    def to_frame(self) -> base.DataFrame: ...


class SegmentsDisplay(base.Display):
    """Nats per example in each segment of a stream.

    If the line of the whole stream is above that of restarted readouts, earlier
    learning hurts in this segment. If both lines are higher than elsewhere, the segment
    is hard. If both are at the level of the labels alone, the readouts find nothing in
    the features.

    Parameters
    ----------
    segments : StreamSegments
        As returned by ``switcher.score_segments()``.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    lines_ : dict of str to matplotlib artist
        The drawn lines, keyed by their columns in ``frame``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> from sklearn_mdl.display import SegmentsDisplay
    >>> switcher = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    >>> segments = switcher.fit(*load_wine(return_X_y=True)).score_segments(3)
    >>> len(SegmentsDisplay(segments).frame())
    3
    """

    def __init__(self, segments: Segments) -> None:
        base.check_fitted(segments, "starts", "pass switcher.score_segments()")
        self.segments = segments

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ends: Any = 8, **plot_options: Any
    ) -> Self:
        """Compute the segments of a switcher, and draw them.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
            A fitted switcher.
        ends : int, array-like or "posterior", default=8
            Passed to ``score_segments``.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(estimator, "codelengths_")
        return cls(estimator.score_segments(ends)).plot(**plot_options)

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw a step for each segment and code, and intervals of the stream's code.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.

        Returns
        -------
        display : SegmentsDisplay
            The display itself.
        """
        edges = np.append(self.segments.starts, self.segments.ends[-1])
        table = self.frame()
        drawn = {n: text for n, text in LABELS.items() if table[n].notna().all()}
        ax = self._use_axes_beside_legend(ax, list(drawn.values()))
        self.lines_: dict[str, base.Artist] = {}
        for i, name in enumerate(drawn):
            heights = table[name].to_numpy() / np.diff(edges)
            style: base.Style = {"linewidth": 1.6, **base.line_style(i)}
            self.lines_[name] = ax.stairs(heights, edges, baseline=None, **style)
        low, high = self.segments.intervals.T
        ax.stairs(high, edges, baseline=low, fill=True, color="0.85", zorder=0.5)
        ax.margins(x=0.0)
        ax.set(xlabel="examples seen", ylabel="nats per example")
        base.put_legend(ax, self.lines_.values(), list(drawn.values()))
        return self

    def frame(self) -> base.DataFrame:
        """Return the numbers as a DataFrame: one row per segment."""
        return self.segments.to_frame()
