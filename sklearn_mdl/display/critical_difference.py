"""Average ranks of encoders, and which of them cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.display import canvas
from sklearn_mdl.ranking import rank_groups


class CriticalDifferenceDisplay:
    """Demšar's diagram: average ranks, and bars over those they cannot tell apart.

    Parameters
    ----------
    average_ranks : array-like of shape (n_encoders,)
        Average rank of each encoder over the datasets; 1 is best.
    names : sequence of str of length n_encoders
        Their names.
    critical_difference : float
        The least significant difference between two average ranks.
    alpha : float, default=0.1
        The level of the test behind it.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the diagram was drawn last.
    bars_ : list of matplotlib Line2D
        The drawn bars, in the order of `groups`.

    References
    ----------
    Demšar, 2006, Statistical Comparisons of Classifiers over Multiple Data Sets,
    JMLR 7, Section 3.2.2.

    Examples
    --------
    >>> from sklearn_mdl.display import CriticalDifferenceDisplay
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
        self.average_ranks = canvas.vector(average_ranks, "`average_ranks`")
        self.names = list(names)
        self.critical_difference = float(critical_difference)
        self.alpha = alpha
        ranks, n_names = self.average_ranks, len(self.names)
        if not len(ranks) == n_names > 1 or ranks.min() < 1:
            raise ValueError(
                "Two or more names, each with a rank of at least 1, were required, got "
                f"{n_names} names and {ranks}: rank the encoders from 1, the best."
            )
        if not 0 < self.critical_difference < np.inf:
            raise ValueError(
                "`critical_difference` must be positive and finite, got "
                f"{critical_difference!r}: take it from a Nemenyi test."
            )
        self._order = np.argsort(ranks, kind="stable").tolist()

    @classmethod
    def from_scorer(cls, scorer: Any, *, ax: Any = None) -> CriticalDifferenceDisplay:
        """Draw the diagram of a ranking.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            Of two encoders or more.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        display = cls(
            canvas.fitted(scorer, "average_ranks_"),
            scorer.encoder_names_,
            scorer.critical_difference_,
            alpha=scorer.alpha,
        )
        return display.plot(ax)

    def groups(self) -> list[tuple[int, ...]]:
        """Return the maximal groups of encoders that the ranks cannot tell apart.

        Any two encoders of a group differ by less than the critical difference, and no
        other encoder could join them. Groups of one are left out.

        Returns
        -------
        list of tuple of int
            Indices of encoders, best first. The groups may overlap.
        """
        return rank_groups(self.average_ranks, self.critical_difference)

    def plot(self, ax: Any = None) -> CriticalDifferenceDisplay:
        """Draw the diagram, the better half of the names on the left.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the number of
            the encoders and the length of their names.

        Returns
        -------
        display : CriticalDifferenceDisplay
            The display itself.
        """
        spans = [self.average_ranks[[g[0], g[-1]]] for g in self.groups()]
        lanes = _lanes(spans, gap=0.02 * len(self.names))
        # Heights count in rows of text, downwards from the axis of ranks.
        first_row = 1.2 + 0.5 * max(lanes, default=0)
        depth = first_row + (len(self.names) + 1) // 2
        if ax is None:
            width = 5.0 + 0.06 * len(self.names) + 0.16 * max(map(len, self.names))
            ax = canvas.new_axes(width, 0.24 * (depth + 3.0))
        self.ax_, self.figure_ = ax, ax.figure
        narrow = canvas.inches_of(ax)[0] < canvas.NARROW
        self._size = "x-small" if narrow else "medium"
        self._draw_axis(depth)
        self._draw_names(first_row)
        self.bars_ = [
            self._draw_bar(span, 0.6 + 0.5 * lane)
            for span, lane in zip(spans, lanes, strict=True)
        ]
        return self

    def _draw_axis(self, depth: float) -> None:
        """Draw the axis of ranks and, above it, the critical difference to scale."""
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
        place = {"va": "center", "fontsize": self._size}
        ax.text(last + 2 * pad, 0.0, "average rank", **place)
        ax.tick_params("x", labelsize=self._size)

    def _draw_bar(self, span: NDArray[np.float64], y: float) -> Any:
        """Draw a bar; over equal ranks, where a line is nothing, its markers show."""
        bar = self.ax_.plot(span, [y, y], "o-", color="black", linewidth=4.0)[0]
        bar.set(markersize=4.0, markeredgewidth=0.0, solid_capstyle="butt")
        return bar

    def _draw_names(self, first_row: float) -> None:
        """Hang names and ranks on the axis, the best and the worst in the top row."""
        n_left = (len(self._order) + 1) // 2
        for position, i in enumerate(self._order):
            left = position < n_left
            row = position if left else len(self._order) - 1 - position
            rank, y = self.average_ranks[i], first_row + row
            edge = self.ax_.get_xlim()[0 if left else 1]
            self.ax_.plot([rank, rank, edge], [0, y, y], color="0.35", linewidth=0.9)
            words = (self.names[i], f"{rank:.2f}")
            self.ax_.annotate(
                "  ".join(words if left else words[::-1]),
                (edge, y),
                xytext=(-4 if left else 4, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=self._size,
                parse_math=False,  # names are the user's
            )

    def frame(self) -> Any:
        """Return names, ranks and numbers of groups as a DataFrame, best first."""
        numbers: dict[int, list[str]] = {i: [] for i in self._order}
        for number, group in enumerate(self.groups(), 1):
            for i in group:
                numbers[i].append(str(number))
        table = {
            "encoder": [self.names[i] for i in self._order],
            "average_rank": self.average_ranks[self._order],
            "groups": [" ".join(numbers[i]) for i in self._order],
        }
        return canvas.plot_extra("pandas").DataFrame(table).set_index("encoder")


def _lanes(spans: Sequence[NDArray[np.float64]], gap: float) -> list[int]:
    """Return for each span the first lane in which it stays clear of the others."""
    lanes: list[int] = []
    ends: list[float] = []
    for first, last in spans:
        lane = next((i for i, end in enumerate(ends) if end + gap < first), len(ends))
        ends[lane : lane + 1] = [last]
        lanes.append(lane)
    return lanes
