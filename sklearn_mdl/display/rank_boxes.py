"""How the ranks of encoders scatter over datasets, as box plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from sklearn_mdl.display import canvas

_STATISTICS = ("whislo", "q1", "med", "q3", "whishi", "mean")


class RankBoxDisplay:
    """Ranks over datasets: boxes, medians, means and whiskers, the best mean on top.

    As the paper draws them (Li, Bornschein and Hutter, 2023, Appendix A.7): a box from
    the first to the third quartile with a line at the median and a diamond at the mean,
    the average rank; whiskers reach the farthest ranks within 1.5 interquartile ranges
    of the box; ranks beyond are circles.

    Parameters
    ----------
    ranks : array-like of shape (n_datasets, n_encoders)
        Rank of each encoder on each dataset; 1 is best.
    names : sequence of str of length n_encoders
        Names of the encoders.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the boxes were drawn last.
    artists_ : dict of str to matplotlib artists
        The drawn ``boxes``, ``whiskers``, ``medians`` and ``means``, from the best
        average rank on, and ``fliers``.

    Examples
    --------
    >>> from sklearn_mdl.display import RankBoxDisplay
    >>> RankBoxDisplay([[1, 2], [1, 2], [2, 1]], ["a", "b"]).frame()["mean"].round(2)
    encoder
    a    1.33
    b    1.67
    Name: mean, dtype: float64
    """

    def __init__(self, ranks: ArrayLike, names: Sequence[str]) -> None:
        self.ranks = np.asarray(ranks, dtype=np.float64)
        self.names = list(names)
        shape = self.ranks.shape
        if len(shape) != 2 or shape[0] == 0 or shape[1] != len(self.names):
            raise ValueError(
                f"`ranks` must have shape (n_datasets, {len(self.names)}), a column "
                f"per encoder, got {shape}: give one rank for each pair."
            )
        if not ((self.ranks >= 1) & (self.ranks <= shape[1])).all():
            raise ValueError(
                f"`ranks` must lie between 1 and {shape[1]}, got {self.ranks.min():g} "
                f"to {self.ranks.max():g}: rank the encoders of each dataset from 1, "
                "the best."
            )
        self._order = np.argsort(self.ranks.mean(axis=0), kind="stable")

    @classmethod
    def from_codelengths(
        cls, codelengths: ArrayLike, names: Sequence[str], *, ax: Any = None
    ) -> RankBoxDisplay:
        """Rank encoders on each dataset by their codelengths, and draw the ranks.

        Parameters
        ----------
        codelengths : array-like of shape (n_datasets, n_encoders)
            In one unit within each dataset; those that tie share the mean of their
            ranks.
        names : sequence of str of length n_encoders
            Names of the encoders.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        table = np.asarray(codelengths, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            raise ValueError(
                "`codelengths` must be finite and of shape (n_datasets, n_encoders), "
                f"got shape {table.shape}: give one codelength for each pair."
            )
        return cls(rankdata(table, axis=1), names).plot(ax)

    @classmethod
    def from_scorer(cls, scorer: Any, *, ax: Any = None) -> RankBoxDisplay:
        """Draw the ranks of a ranking.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        codelengths = canvas.fitted(scorer, "codelengths_")
        return cls.from_codelengths(codelengths, scorer.encoder_names_, ax=ax)

    def plot(self, ax: Any = None) -> RankBoxDisplay:
        """Draw a box for each encoder.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the number of
            the encoders and the length of their names.

        Returns
        -------
        display : RankBoxDisplay
            The display itself.
        """
        n_datasets, n_encoders = self.ranks.shape
        if ax is None:
            width = 4.5 + 0.075 * max(map(len, self.names))
            ax = canvas.new_axes(width, 1.0 + 0.28 * n_encoders)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_boxes()
        canvas.name_ticks(ax.yaxis, [self.names[i] for i in self._order])
        ax.set_ylim(n_encoders - 0.4, -0.6)
        ax.set_xlim(0.7, n_encoders + 0.3)
        room = canvas.inches_of(ax)[0] - 0.075 * max(map(len, self.names)) + 0.5
        every = 1 + int(0.25 * n_encoders / max(0.5, room))
        ax.set_xticks(np.arange(1, n_encoders + 1, every))
        ax.set_xlabel(f"rank on {n_datasets} datasets (1 is best)", wrap=True)
        ax.tick_params("y", length=0)
        ax.spines[["right", "top"]].set_visible(False)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        return self

    def _draw_boxes(self) -> None:
        ax, rows = self.ax_, np.arange(self.ranks.shape[1])
        found = canvas.plot_extra("matplotlib.cbook").boxplot_stats(
            self.ranks[:, self._order]
        )
        low, q1, median, q3, high, mean = np.transpose(
            [[box[key] for key in _STATISTICS] for box in found]
        )
        dark = {"color": "0.3", "linewidth": 1.0}
        whiskers = ax.hlines(rows, low, high, zorder=1.5, **dark)
        ax.vlines(
            np.r_[low, high], np.r_[rows, rows] - 0.15, np.r_[rows, rows] + 0.15, **dark
        )
        boxes = ax.barh(rows, q3 - q1, 0.6, left=q1, zorder=2.0)
        for box in boxes:
            box.set(facecolor=canvas.COLOURS[5], edgecolor="0.3")
        medians = ax.vlines(median, rows - 0.3, rows + 0.3, color="black", zorder=2.5)
        medians.set(linewidth=2.0)
        (means,) = ax.plot(mean, rows, "D", color=canvas.COLOURS[1], markersize=5.0)
        means.set(markeredgecolor="white", zorder=3.0)
        beyond = [
            (x, row)
            for row, box in zip(rows, found, strict=True)
            for x in box["fliers"]
        ]
        (circles,) = ax.plot(*np.reshape(beyond, (-1, 2)).T, "o", fillstyle="none")
        circles.set(markersize=4.0, markeredgecolor="0.3")
        self.artists_ = {
            "boxes": boxes,
            "whiskers": whiskers,
            "medians": medians,
            "means": means,
            "fliers": circles,
        }

    def frame(self) -> Any:
        """Return means, quartiles and medians as a DataFrame, the best mean first."""
        ranks = self.ranks[:, self._order]
        quartiles = np.percentile(ranks, [25, 50, 75], axis=0)
        table = {
            "encoder": [self.names[i] for i in self._order],
            "mean": ranks.mean(axis=0),
            "first_quartile": quartiles[0],
            "median": quartiles[1],
            "third_quartile": quartiles[2],
        }
        return canvas.plot_extra("pandas").DataFrame(table).set_index("encoder")
