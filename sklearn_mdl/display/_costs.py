"""Each encoder's codelength against its cost: seconds, or number of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base

MOST_TICKS = 8
MOST_DECADES = 3  # on a wider axis, only powers of ten have labels
COSTS = {"seconds": "seconds per cell", "features": "number of features"}


class CostDisplay(base.Display):
    """Nats per example against seconds or number of features, for several encoders.

    Good encoders are at the lower left. A line joins the Pareto-optimal encoders, whose
    code is shorter than that of any other encoder at the same or a lower cost. If
    several encoders have the same codelength and cost, the line only joins the first.

    Parameters
    ----------
    names : sequence of str of length n_encoders
    nats : array-like of shape (n_encoders,)
        Nats per example, averaged over datasets.
    costs : array-like of shape (n_encoders,)
        Cost of each encoder, which must be positive.
    cost : {"seconds", "features"}, default="seconds"
        Kind of cost.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.

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
        self.nats, self.costs = base.vectors(self.names, nats=nats, costs=costs)
        if not (self.costs > 0).all():
            cure = "pass np.maximum(costs, 1e-3)"
            raise invalid("costs", "positive", self.costs.tolist(), cure)

    @classmethod
    def from_scorer(
        cls, scorer: base.Ranking, *, cost: str = "seconds", **plot_options: Any
    ) -> Self:
        """Draw a ranking, averaged over datasets and orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted ranking.
        cost : {"seconds", "features"}, default="seconds"
            Mean wall time of an encoder's cells, or its mean number of features.
        **plot_options : optional
            Passed to `plot`.
        """
        order = base.best_first(scorer)
        rows = {cell.dataset: cell.n_samples for cell in scorer.cells_}
        sizes = [[rows[name]] for name in scorer.dataset_names_]
        nats = (scorer.codelengths_ / np.array(sizes)).mean(0)
        names = [scorer.encoder_names_[e] for e in order]
        attribute = "seconds" if cost == "seconds" else "n_features"
        costs: dict[str, list[float]] = {name: [] for name in names}
        for cell in scorer.cells_:
            costs[cell.encoder].append(getattr(cell, attribute))
        means = [float(np.mean(values)) for values in costs.values()]
        plot_options = {"styles": base.encoder_styles(scorer)} | plot_options
        return cls(names, nats[order], means, cost=cost).plot(**plot_options)

    @property
    def best(self) -> list[str]:
        """Names of the Pareto-optimal encoders, cheapest first."""
        front: list[int] = []
        for i in np.lexsort((self.nats, self.costs)).tolist():
            if not front or self.nats[i] < self.nats[front[-1]]:
                front.append(i)
        return [self.names[i] for i in front]

    def plot(
        self, ax: base.Axes | None = None, *, styles: Mapping[str, int] | None = None
    ) -> Self:
        """Draw a point for each encoder, with costs on a logarithmic axis.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure, whose size depends on the number of
            encoders and the length of their names.
        styles : mapping of str to int, optional
            Colour number of each encoder, to give a name the same colour in several
            figures. By default the numbers start at zero in each figure.

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
        else:  # powers of ten may give too few tick labels
            ticker = base.plot_extra("matplotlib.ticker")
            decades = np.log10(widths[-1] / widths[0])
            if decades < 1:
                ax.xaxis.set_major_locator(ticker.MaxNLocator(5))
            elif decades < MOST_DECADES:
                ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.margins(0.08)
        ax.set(xlabel=COSTS[self.cost], ylabel="nats per example (less is better)")
        base.put_legend(ax, points, self.names)
        return self

    def frame(self) -> base.DataFrame:
        """Return the numbers as a DataFrame: one row per encoder."""
        table = {"encoder": self.names, "nats": self.nats, self.cost: self.costs}
        return base.data_frame(table, "encoder")
