"""Critical difference diagram of the average ranks of encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.ranking import rank_groups


class CriticalDifferenceDisplay(base.Display):
    """Critical difference diagram. Bars join encoders that do not differ significantly.

    Parameters
    ----------
    average_ranks : array-like of shape (n_encoders,)
        Average rank of each encoder over the datasets. 1 is best.
    names : sequence of str of length n_encoders
        Names of the encoders.
    critical_difference : float
        The smallest significant difference between two average ranks.
    alpha : float, default=0.1
        Significance level of the test, shown in the diagram.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    bars_ : list of matplotlib Line2D
        The drawn bars, in the order of `groups`.

    References
    ----------
    Demšar, 2006, Statistical Comparisons of Classifiers over Multiple Data Sets,
    JMLR 7, Section 3.2.2.

    Examples
    --------
    >>> from sklearn_mdl import CriticalDifferenceDisplay
    >>> CriticalDifferenceDisplay([3.4, 1.2, 2.0], ["a", "b", "c"], 1.0).groups()
    [(1, 2)]
    """

    def __init__(
        self,
        average_ranks: ArrayLike,
        names: Sequence[str],
        critical_difference: float,
        *,
        alpha: float = 0.1,
    ) -> None:
        self.names = list(names)
        (self.average_ranks,) = base.vectors(self.names, average_ranks=average_ranks)
        cd = self.critical_difference = float(critical_difference)
        self.alpha = alpha
        if len(self.names) < 2:
            required = "of two or more encoders"
            raise invalid("A ranking", required, self.names, "rank more encoders")
        if self.average_ranks.min() < 1:
            cure = "pass sklearn_mdl.ranking.average_ranks(codelengths)"
            raise invalid("average_ranks", "at least 1", average_ranks, cure)
        if not 0 < cd < np.inf:
            cure = "call sklearn_mdl.ranking.nemenyi_critical_difference to compute it"
            raise invalid("critical_difference", "positive and finite", cd, cure)
        self._order = np.argsort(self.average_ranks, kind="stable").tolist()

    @classmethod
    def from_scorer(cls, scorer: base.Ranking, **plot_options: Any) -> Self:
        """Draw the diagram of a ranking.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A ranking of two or more encoders.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(scorer, "average_ranks_", base.SCORER)
        ranks, cd = scorer.average_ranks_, scorer.critical_difference_
        display = cls(ranks, scorer.encoder_names_, cd, alpha=scorer.alpha)
        return display.plot(**plot_options)

    def groups(self) -> list[tuple[int, ...]]:
        """Return the maximal groups of encoders without significant differences.

        Any two encoders of a group differ by less than the critical difference, and no
        other encoder could join the group. Groups of one encoder are omitted.

        Returns
        -------
        list of tuple of int
            Indices of encoders, best first. The groups may overlap.
        """
        return rank_groups(self.average_ranks, self.critical_difference)

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw the diagram, with the better half of the encoders on the left.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure, whose size depends on the number of
            encoders and the length of their names.

        Returns
        -------
        display : CriticalDifferenceDisplay
            The display itself.
        """
        spans = [self.average_ranks[[g[0], g[-1]]] for g in self.groups()]
        lanes = _lanes(spans, gap=0.02 * len(self.names))
        # Heights are measured in rows of text below the rank axis.
        first_row = 1.2 + 0.5 * max(lanes, default=0)
        depth = first_row + (len(self.names) + 1) // 2
        width = 5.0 + 0.06 * len(self.names) + 0.16 * base.longest(self.names)
        ax = self._use_axes(ax, width, 0.24 * (depth + 3.0))
        self._size = "x-small" if base.inches_of(ax)[0] < base.NARROW else "medium"
        self._draw_axis(depth)
        self._draw_names(first_row)
        heights = [0.6 + 0.5 * lane for lane in lanes]
        self.bars_ = list(map(self._draw_bar, spans, heights))
        return self

    def _draw_axis(self, depth: float) -> None:
        """Draw the rank axis and, above it, the critical difference to scale."""
        ax, cd = self.ax_, self.critical_difference
        last = max(len(self.names), int(np.ceil(self.average_ranks.max())))
        pad = 0.02 * (last - 1)
        ax.set(xlim=(1 - pad, max(last, 1 + cd) + pad), ylim=(depth, -3.0), yticks=[])
        ax.set_xticks(np.arange(1, last + 1, 1 + last // 25))
        ax.xaxis.set_ticks_position("top")
        ax.spines[["left", "right", "bottom"]].set_visible(False)
        ax.spines["top"].set_position(("data", 0.0))
        ax.spines["top"].set_bounds(1, last)
        ax.plot([1, 1 + cd], [-1.9, -1.9], color="black", marker="|", linewidth=1.2)
        words = f"CD = {cd:.2f} (alpha = {self.alpha:g})"
        ax.text(1, -2.2, words, va="bottom", fontsize=self._size)
        ax.text(last + 2 * pad, 0.0, "average rank", va="center", fontsize=self._size)
        ax.tick_params("x", labelsize=self._size)

    def _draw_bar(self, span: base.Floats, y: float) -> base.Line2D:
        """Draw a bar, or only its end markers if the ranks are equal."""
        bar = self.ax_.plot(span, [y, y], "o-", color="black", linewidth=4.0)[0]
        bar.set(markersize=4.0, markeredgewidth=0.0, solid_capstyle="butt")
        return bar

    def _draw_names(self, first_row: float) -> None:
        """Draw names and ranks below the axis, with best and worst in the top row."""
        n_left = (len(self._order) + 1) // 2
        for position, i in enumerate(self._order):
            left = position < n_left
            row = position if left else len(self._order) - 1 - position
            rank, y = self.average_ranks[i], first_row + row
            edge = self.ax_.get_xlim()[0 if left else 1]
            self.ax_.plot([rank, rank, edge], [0, y, y], color="0.35", linewidth=0.9)
            words = (self.names[i], f"{rank:.2f}")
            text = "  ".join(words if left else words[::-1])
            place = {"ha": "right" if left else "left", "fontsize": self._size}
            base.note(self.ax_, text, (edge, y), (-4 if left else 4, 0), **place)

    def frame(self) -> base.DataFrame:
        """Return names, ranks and group numbers as a DataFrame, best rank first."""
        order, groups = self._order, list(enumerate(self.groups(), 1))
        table = {
            "encoder": [self.names[i] for i in order],
            "average_rank": self.average_ranks[order],
            "groups": [" ".join(str(k) for k, g in groups if i in g) for i in order],
        }
        return base.data_frame(table, "encoder")


def _lanes(spans: Sequence[base.Floats], gap: float) -> list[int]:
    """Return a lane for each span, such that spans in a lane do not overlap."""
    lanes: list[int] = []
    ends: list[float] = []
    for first, last in spans:
        lane = next((i for i, end in enumerate(ends) if end + gap < first), len(ends))
        ends[lane : lane + 1] = [last]
        lanes.append(lane)
    return lanes
