"""The codelength of each encoder against what it costs: seconds, or width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.display import _base as base

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_TICKS = 8
COSTS = {"seconds": "seconds of a cell", "features": "width of features"}


class CostDisplay(base.Display):
    """Nats per example against seconds or width, a point for each encoder.

    Good encoders lie at the lower left. A line joins those than which no other one has
    both a shorter code and a smaller cost.

    Parameters
    ----------
    names : sequence of str of length n_encoders
    nats : array-like of shape (n_encoders,)
        Per example; over several datasets a mean over them.
    costs : array-like of shape (n_encoders,)
        Positive numbers.
    cost : {"seconds", "features"}, default="seconds"
        What the costs are.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the points were drawn last.

    Examples
    --------
    >>> from sklearn_mdl.display import CostDisplay
    >>> CostDisplay(["small", "large", "slow"], [0.9, 0.4, 0.5], [1, 3, 9]).best
    ['small', 'large']
    """

    def __init__(
        self,
        names: Sequence[str],
        nats: ArrayLike,
        costs: ArrayLike,
        *,
        cost: str = "seconds",
    ) -> None:
        base.check_choice(cost, "cost", list(COSTS))
        self.names, self.cost = list(names), cost
        self.nats, self.costs = base.vector(nats, "nats"), base.vector(costs, "costs")
        lengths = {len(self.names), len(self.nats), len(self.costs)}
        if len(lengths) > 1 or not (self.costs > 0).all():
            raise ValueError(
                "`names`, `nats` and `costs` must be of one length, and costs "
                f"positive, got lengths {sorted(lengths)} and a least cost of "
                f"{self.costs.min():g}: give one of each for every encoder."
            )

    @classmethod
    def from_scorer(
        cls, scorer: base.Ranking, *, cost: str = "seconds", **plot_options: Any
    ) -> Self:
        """Draw a ranking, by means over datasets and orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        cost : {"seconds", "features"}, default="seconds"
            Wall time of a cell, or the number of features.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(scorer, "average_ranks_")
        base.check_choice(cost, "cost", list(COSTS))
        rows = {cell.dataset: cell.n_samples for cell in scorer.cells_}
        sizes = [[rows[name]] for name in scorer.dataset_names_]
        nats = (scorer.codelengths_ / np.array(sizes)).mean(0)
        costs = [
            np.mean(
                [
                    cell.seconds if cost == "seconds" else cell.n_features
                    for cell in scorer.cells_
                    if cell.encoder == name
                ]
            )
            for name in scorer.encoder_names_
        ]
        order = base.best_first(scorer)
        names = [scorer.encoder_names_[e] for e in order]
        found = cls(names, nats[order], np.array(costs)[order], cost=cost)
        options = {"styles": base.encoder_styles(scorer)}
        return found.plot(**options | plot_options)

    @property
    def best(self) -> list[str]:
        """Names of those that no other one beats in both, the cheapest first."""
        found: list[int] = []
        for i in np.lexsort((self.nats, self.costs)).tolist():
            if not found or self.nats[i] < self.nats[found[-1]]:
                found.append(i)
        return [self.names[i] for i in found]

    def plot(
        self, ax: Axes | None = None, *, styles: Mapping[str, int] | None = None
    ) -> Self:
        """Draw a point for each encoder; costs are spaced logarithmically.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the number of
            encoders and the length of their names.
        styles : mapping of str to int, optional
            Numbers of the colours of encoders, so that several figures give a name one
            colour; by default they are counted in this figure.

        Returns
        -------
        display : CostDisplay
            The display itself.
        """
        ax = self._use_axes_beside_legend(ax, self.names)
        styles = {name: k for k, name in enumerate(self.names)} | dict(styles or {})
        front = [self.names.index(name) for name in self.best]
        ax.plot(self.costs[front], self.nats[front], color="0.8", zorder=1.0)
        points = [
            ax.plot(x, y, **base.point_style(styles[name]))[0]
            for name, x, y in zip(self.names, self.costs, self.nats, strict=True)
        ]
        ax.set_xscale("log")
        widths = np.unique(self.costs)
        if self.cost == "features" and len(widths) <= MOST_TICKS:
            ax.set_xticks(widths, [f"{width:.0f}" for width in widths])
            ax.minorticks_off()
        else:  # plain numbers, which powers of ten seldom are
            ticker = base.plot_extra("matplotlib.ticker")
            ax.xaxis.set_major_formatter(ticker.LogFormatter())
            ax.xaxis.set_minor_formatter(ticker.LogFormatter())
        ax.margins(0.08)
        ax.set(xlabel=COSTS[self.cost], ylabel="nats per example (less is better)")
        ax.spines[["top", "right"]].set_visible(False)
        base.put_legend(ax, points, self.names)
        return self

    def frame(self) -> DataFrame:
        """Return the numbers as a DataFrame: one row per encoder."""
        table = {"encoder": self.names, "nats": self.nats, self.cost: self.costs}
        return base.data_frame(table, "encoder")
