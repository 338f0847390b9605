"""Heat map of the probability of each view, layers by positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.display._heatmap import name_fields, write_value


class Comparison(Protocol):
    """A comparison of views."""

    @property
    def names(self) -> list[str]: ...
    @property
    def probabilities(self) -> base.Floats: ...


class ViewPosteriorDisplay(base.Display):
    """Probability of each view as a heat map of layers by positions.

    Parameters
    ----------
    posterior : array-like of shape (n_views,)
        Probabilities, which sum to one.
    names : sequence of str of length n_views
        Names such as ``layer 3|last``: the layer, a bar and the position. A name
        without a bar is the name of a layer.

    Attributes
    ----------
    layers, positions : list of str
        Rows and columns, in order of appearance.
    values : ndarray of shape (n_layers, n_positions)
        Probabilities, or NaN where a layer has no view at a position.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    image_ : matplotlib AxesImage
        The drawn map.

    Examples
    --------
    >>> from sklearn_mdl.display import ViewPosteriorDisplay
    >>> names = ["layer 0|last", "layer 0|mean", "layer 1|last", "layer 1|mean"]
    >>> ViewPosteriorDisplay([0.0, 0.1, 0.2, 0.7], names).frame()
             last  mean
    layer 0   0.0   0.1
    layer 1   0.2   0.7
    """

    def __init__(self, posterior: ArrayLike, names: Sequence[str]) -> None:
        parts = [str(name).partition("|") for name in names]
        if np.isnan(np.asarray(posterior, dtype=np.float64)).any():
            cure = "fit the switcher on more labels, or call from_estimator(switcher)"
            raise invalid("posterior", "without NaN (too few labels)", posterior, cure)
        (shares,) = base.vectors([str(name) for name in names], posterior=posterior)
        if shares.min() < 0 or not np.isclose(shares.sum(), 1.0, rtol=0.0, atol=1e-5):
            required, cure = "probabilities that sum to one", "pass view_posterior_[-1]"
            raise invalid("posterior", required, shares.tolist(), cure)
        self.layers = list(dict.fromkeys(layer for layer, _, _ in parts))
        self.positions = list(dict.fromkeys(position for _, _, position in parts))
        self.values = np.full((len(self.layers), len(self.positions)), np.nan)
        for share, (layer, _, position) in zip(shares, parts, strict=True):
            place = self.layers.index(layer), self.positions.index(position)
            if not np.isnan(self.values[place]):
                cure = "for example, write 'layer 3|last' and 'layer 3|mean'"
                raise invalid("names", "unique", list(names), cure)
            self.values[place] = share

    @classmethod
    def from_comparison(cls, comparison: Comparison, **plot_options: Any) -> Self:
        """Draw the probability that each view is best.

        Parameters
        ----------
        comparison : ViewComparison
            Result of :func:`~sklearn_mdl.model_selection.compare_views`.
        **plot_options : optional
            Passed to `plot`.

        Raises
        ------
        ValueError
            If probabilities are NaN, because there are too few labels.
        """
        base.check_fitted(comparison, "probabilities", "pass compare_views(switcher)")
        return cls(comparison.probabilities, comparison.names).plot(**plot_options)

    @classmethod
    def from_estimator(cls, estimator: base.Switcher, **plot_options: Any) -> Self:
        """Draw the posterior over views before the last label.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted switcher. The last row of its ``view_posterior_`` is drawn.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(estimator, "view_posterior_")
        names = [str(name or "all columns") for name in estimator.view_names_]
        return cls(estimator.view_posterior_[-1], names).plot(**plot_options)

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw the map with numbers, and with the first layer at the bottom.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure, whose size depends on the numbers of
            layers and positions.

        Returns
        -------
        display : ViewPosteriorDisplay
            The display itself.
        """
        n_layers, n_positions = self.values.shape
        if ax is None:
            inches = 0.7 * max(n_positions, 2), 0.24 * max(n_layers, 4)
            beside = base.CHARACTER * base.longest(self.layers)
            above = base.CHARACTER * base.longest(self.positions)
            self._use_axes(None, 1.7 + inches[0] + beside, 0.6 + inches[1] + above)
        else:
            width, height = base.inches_of(self._use_axes(ax, 0, 0))
            inches = 0.7 * width, 0.8 * height
        style: base.Style = {"cmap": "cividis", "vmin": 0.0}
        self.image_ = self.ax_.imshow(self.values, aspect="auto", **style)
        size = min(8.0, base.size_for(n_layers, inches[1]))
        for (i, j), share in np.ndenumerate(self.values):
            if not np.isnan(share):
                text = f"{share:.2f}" if share >= 0.005 else "·"
                write_value(self.image_, (j, i), share, text, fontsize=size)
        name_fields(self.ax_, self.positions, self.layers, inches)
        self.ax_.invert_yaxis()
        self.figure_.colorbar(self.image_, ax=self.ax_, label="probability")
        return self

    def frame(self) -> base.DataFrame:
        """Return the probabilities as a DataFrame, layers by positions."""
        return base.matrix_frame(self.values, self.positions, self.layers)
