"""Pool weights against the number of examples seen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from sklearn_mdl.display import _base as base


class PoolWeightsDisplay(base.Display):
    """Weight of each kind of readout in a pool before each label.

    A kind with weight zero has no effect, and a kind with weight one contributes its
    prediction unchanged. A negative weight subtracts what a kind predicts, for example
    if other kinds predict it twice.

    Parameters
    ----------
    weights : array-like of shape (n_samples, n_kinds)
        Weights before each label.
    names : sequence of length n_kinds
        Names of the kinds.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    lines_ : dict of str to matplotlib Line2D
        The drawn lines.

    Examples
    --------
    >>> from sklearn_mdl.display import PoolWeightsDisplay
    >>> display = PoolWeightsDisplay([[0.5, 0.5], [0.6, 0.3]], ["linear", "mlp"])
    >>> display.frame()["mlp"].tolist()
    [0.5, 0.3]
    """

    def __init__(self, weights: ArrayLike, names: Sequence[Hashable]) -> None:
        self.names = [str(name) for name in names]
        self.weights = base.columns(weights, "weights", self.names)

    @classmethod
    def from_estimator(cls, estimator: base.Switcher, **plot_options: Any) -> Self:
        """Draw the pool weights of a switcher.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted switcher with a pool.
        **plot_options : optional
            Passed to `plot`.

        Raises
        ------
        ValueError
            If the switcher has no pool.
        """
        base.check_fitted(estimator, "pool_weights_")
        if not estimator.pool_kinds_:
            cure = "fit MDLReadoutSwitcher(readouts, pooling=LogLinearPool())"
            raise ValueError(f"The switcher must have a pool, but has none; {cure}")
        return cls(estimator.pool_weights_, estimator.pool_kinds_).plot(**plot_options)

    def plot(
        self,
        ax: base.Axes | None = None,
        *,
        log_x: bool = True,
        max_points: int = 400,
        max_named: int = 12,
    ) -> Self:
        """Draw a line for each kind, with the largest final weight first in the legend.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.
        log_x : bool, default=True
            If True, the x-axis is logarithmic. Such an axis has no zero, so the first
            row is left out if there are others.
        max_points : int, default=400
            Largest number of rows to draw, which are about evenly spaced on the axis.
        max_named : int, default=12
            Largest number of kinds that the legend names, which are the kinds with the
            largest final weights. All other kinds are grey.

        Returns
        -------
        display : PoolWeightsDisplay
            The display itself.
        """
        n_samples = len(self.weights)
        rows = base.thinned(n_samples, max_points, log_x)
        rows = rows[rows > 0] if log_x and n_samples > 1 else rows
        named = base.named_lines(0 * self.weights[-1], -self.weights[-1], max_named)
        names = [self.names[i] for i in named]
        ax = self._use_axes_beside_legend(ax, names)
        self.lines_: dict[str, base.Line2D] = {}
        for i, name in enumerate(self.names):
            (line,) = ax.plot(rows, self.weights[rows, i], linewidth=1.4)
            style = {"color": "0.8", "zorder": 1.0, "linewidth": 1.0}
            line.set(**base.line_style(named.index(i)) if i in named else style)
            self.lines_[name] = line
        ax.axhline(0.0, color="0.4", linewidth=0.8, zorder=1)
        if log_x and rows[0] > 0:
            ax.set_xscale("log")
        ax.margins(x=0.0)
        ax.set(xlabel="examples seen", ylabel="weight in the pool")
        base.put_legend(ax, [self.lines_[name] for name in names], names)
        return self

    def frame(self) -> base.DataFrame:
        """Return the weights as a DataFrame: one row per example."""
        return base.matrix_frame(self.weights, self.names).rename_axis("examples seen")
