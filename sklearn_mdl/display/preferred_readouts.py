"""Which readout every encoder prefers on every dataset, as a heat map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import best_first


class PreferredReadoutDisplay:
    """The readout of the largest mean posterior: encoders x datasets.

    The paper's table of readout models: ``argmax_k 1/T sum_t p(k at t | labels before
    t)``, settings summed by architecture (Li, Bornschein and Hutter, 2023, Section 4).
    Numbers and colours go from the first readout, usually the simplest, to the last.

    Parameters
    ----------
    preferred : array-like of str of shape (n_encoders, n_datasets)
        Names of readouts.
    encoders : sequence of str of length n_encoders
    datasets : sequence of str of length n_datasets
        Their names, in the order of rows and columns.
    readouts : sequence of str, optional
        All readouts, from simple to deep, whether preferred anywhere or not. By default
        those preferred, in the order of their names, numbers in them read as numbers.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the map was drawn last.
    image_ : matplotlib AxesImage
        The drawn map: places of the preferred readouts among all, counted from zero.

    Examples
    --------
    >>> from sklearn_mdl.display import PreferredReadoutDisplay
    >>> names = [["linear", "mlp 2x256"]]
    >>> PreferredReadoutDisplay(names, ["raw"], ["digits", "wine"]).frame()
         digits       wine
    raw  linear  mlp 2x256
    """

    def __init__(
        self,
        preferred: ArrayLike,
        encoders: Sequence[str],
        datasets: Sequence[str],
        *,
        readouts: Sequence[str] | None = None,
    ) -> None:
        self.preferred = np.asarray(preferred).astype(str)
        self.encoders, self.datasets = list(encoders), list(datasets)
        shape = len(self.encoders), len(self.datasets)
        if self.preferred.shape != shape or not self.preferred.size:
            raise ValueError(
                f"`preferred` must have shape {shape}, a row per encoder and a column "
                f"per dataset, got {self.preferred.shape}: name one readout for each "
                "pair."
            )
        found = set(self.preferred.ravel().tolist())
        if readouts is None:
            readouts = sorted(found, key=_naturally)
        self.readouts = [str(name) for name in readouts]
        if not found <= set(self.readouts):
            raise ValueError(
                "`readouts` must name every readout that is preferred, got none called "
                f"{sorted(found - set(self.readouts))}: name these too."
            )

    @classmethod
    def from_scorer(
        cls,
        scorer: Any,
        *,
        readouts: Sequence[str] | None = None,
        ax: Any = None,
    ) -> PreferredReadoutDisplay:
        """Draw the preferred readouts of a ranking, the best average rank on top.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        readouts : sequence of str, optional
            Architectures, from simple to deep; by default all of the ranking, in the
            order of its readouts.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        order = best_first(scorer)
        preferred = np.array(scorer.preferred_readouts()).T[order]
        if readouts is None:
            names = [name for cell in scorer.cells_ for name in cell.mean_posterior]
            readouts = list(dict.fromkeys(names))
        display = cls(
            preferred,
            [scorer.encoder_names_[i] for i in order],
            scorer.dataset_names_,
            readouts=readouts,
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> PreferredReadoutDisplay:
        """Draw the map, with the number of the readout in every field.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the numbers
            of encoders and datasets and the length of their names.

        Returns
        -------
        display : PreferredReadoutDisplay
            The display itself.
        """
        n_encoders, n_datasets = self.preferred.shape
        below = None
        if ax is None:
            above, below = 0.09 * max(map(len, self.datasets)), False
            beside = max(map(len, self.encoders)) + max(map(len, self.readouts))
            rows = max(4, n_encoders, min(len(self.readouts), canvas.LEGEND_ROWS))
            width = 1.2 + 0.28 * n_datasets + 0.075 * beside
            ax = canvas.new_axes(width, 0.6 + above + 0.24 * rows)
            room = 0.28 * n_datasets, 0.24 * rows
        else:
            width, height = canvas.inches_of(ax)
            room = 0.7 * width, 0.6 * height
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_map(min(8.0, canvas.size_for(n_datasets, 1.3 * room[0])))
        ax.xaxis.tick_top()
        canvas.name_ticks(ax.xaxis, self.datasets, room[0])
        canvas.name_ticks(ax.yaxis, self.encoders, room[1])
        ax.tick_params(length=0)
        ax.tick_params("x", rotation=90)
        ax.spines[:].set_visible(False)
        self._put_legend(below)
        return self

    def _draw_map(self, size: float) -> None:
        """Draw fields, and in them numbers of the given size in points."""
        places = {name: k for k, name in enumerate(self.readouts)}
        numbers = np.vectorize(places.__getitem__, otypes=[int])(self.preferred)
        last = max(1, len(self.readouts) - 1)
        self.image_ = self.ax_.imshow(
            numbers, cmap="cividis", vmin=0, vmax=last, aspect="auto"
        )
        for (i, j), k in np.ndenumerate(numbers):
            self.ax_.text(
                j,
                i,
                str(k),
                ha="center",
                va="center",
                fontsize=size,
                color="white" if k < last / 2 else "black",
            )

    def _put_legend(self, below: bool | None) -> None:
        """List the readouts, whose numbers stand in the map."""
        patch = canvas.plot_extra("matplotlib.patches").Patch
        colours = self.image_.cmap(self.image_.norm(np.arange(len(self.readouts))))
        handles = [patch(facecolor=colour) for colour in colours]
        labels = [f"{k}  {name}" for k, name in enumerate(self.readouts)]
        canvas.put_legend(self.ax_, handles, labels, below=below)

    def frame(self) -> Any:
        """Return the drawn table as a DataFrame, encoders by datasets."""
        pandas = canvas.plot_extra("pandas")
        return pandas.DataFrame(self.preferred, self.encoders, self.datasets)


def _naturally(name: str) -> list[tuple[bool, int, str]]:
    """Return a key by which "mlp 10x8" comes after "mlp 9x8"."""
    parts = re.split(r"(\d+)", name)
    return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]
