"""Average ranks of encoders with intervals from resampled datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.display import canvas


class RankIntervalDisplay:
    """Average ranks and their intervals, the best on top.

    Parameters
    ----------
    average_ranks, lower, upper : array-like of shape (n_encoders,)
        Average ranks over the datasets and the bounds of their intervals; 1 is best.
    names : sequence of str of length n_encoders
        Names of the encoders.
    level : float, default=0.9
        Level of each interval by itself.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the intervals were drawn last.
    lines_ : matplotlib LineCollection
        The drawn intervals, from the best average rank on.

    Examples
    --------
    >>> from sklearn_mdl.display import RankIntervalDisplay
    >>> display = RankIntervalDisplay([1.8, 1.2], [1.5, 1.0], [2.0, 1.5], ["a", "b"])
    >>> display.frame().index.tolist()
    ['b', 'a']
    """

    def __init__(
        self,
        average_ranks: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        names: Sequence[str],
        *,
        level: float = 0.9,
    ) -> None:
        self.average_ranks = canvas.vector(average_ranks, "`average_ranks`")
        self.lower = canvas.vector(lower, "`lower`")
        self.upper = canvas.vector(upper, "`upper`")
        self.names = list(names)
        self.level = float(level)
        lengths = len(self.lower), len(self.upper), len(self.names)
        if set(lengths) != {len(self.average_ranks)}:
            raise ValueError(
                f"Each of {len(self.average_ranks)} average ranks needs a lower and an "
                f"upper bound and a name, got {lengths}: give one of each."
            )
        if (self.lower > self.upper).any():
            raise ValueError(
                "`lower` must not exceed `upper`, got "
                f"{self.names[int(np.argmax(self.lower > self.upper))]!r} the other "
                "way round: exchange them."
            )
        self._order = np.argsort(self.average_ranks, kind="stable")

    @classmethod
    def from_scorer(cls, scorer: Any, *, ax: Any = None) -> RankIntervalDisplay:
        """Draw the intervals of a ranking.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            Of two datasets and two encoders or more.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        ranks = canvas.fitted(scorer, "average_ranks_")
        found = scorer.rank_intervals()
        display = cls(
            ranks, found.lower, found.upper, scorer.encoder_names_, level=found.level
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> RankIntervalDisplay:
        """Draw a line for each interval and a dot for each average rank.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the number of
            the encoders and the length of their names.

        Returns
        -------
        display : RankIntervalDisplay
            The display itself.
        """
        n_encoders = len(self.names)
        if ax is None:
            width = 4.5 + 0.075 * max(map(len, self.names))
            ax = canvas.new_axes(width, 1.0 + 0.24 * n_encoders)
        self.ax_, self.figure_ = ax, ax.figure
        rows, order = np.arange(n_encoders), self._order
        self.lines_ = ax.hlines(
            rows, self.lower[order], self.upper[order], color="0.6", linewidth=3.0
        )
        ax.plot(
            self.average_ranks[order], rows, "o", color=canvas.COLOURS[0], clip_on=False
        )
        canvas.name_ticks(ax.yaxis, [self.names[i] for i in order])
        ax.set_ylim(n_encoders - 0.4, -0.6)
        ax.set_xlim(0.9, max(n_encoders, self.upper.max()) + 0.1)
        ax.set_xlabel(
            f"average rank, {self.level:.0%} interval over datasets", wrap=True
        )
        ax.spines[["right", "top"]].set_visible(False)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        return self

    def frame(self) -> Any:
        """Return names, ranks and bounds as a DataFrame, best first."""
        table = {
            "encoder": [self.names[i] for i in self._order],
            "average_rank": self.average_ranks[self._order],
            "lower": self.lower[self._order],
            "upper": self.upper[self._order],
        }
        return canvas.plot_extra("pandas").DataFrame(table).set_index("encoder")
