"""What every encoder saves on every dataset, as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import best_first

_CODES = {"uniform": "the uniform code", "frequency": "label frequencies"}


class SavingsDisplay:
    """Nats per example saved against a code without features: encoders x datasets.

    Parameters
    ----------
    saved : array-like of shape (n_encoders, n_datasets)
        Nats per example; below zero the features cost more than they tell.
    encoders : sequence of str of length n_encoders
    datasets : sequence of str of length n_datasets
        Their names, in the order of rows and columns.
    reference : str, default="the uniform code"
        What the savings are measured against.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the map was drawn last.
    image_ : matplotlib AxesImage
        The drawn map.

    Examples
    --------
    >>> from sklearn_mdl.display import SavingsDisplay
    >>> SavingsDisplay([[1.2, 0.3]], ["raw"], ["digits", "wine"]).frame()
         digits  wine
    raw     1.2   0.3
    """

    def __init__(
        self,
        saved: ArrayLike,
        encoders: Sequence[str],
        datasets: Sequence[str],
        *,
        reference: str = "the uniform code",
    ) -> None:
        self.saved = np.asarray(saved, dtype=np.float64)
        self.encoders, self.datasets = list(encoders), list(datasets)
        self.reference = reference
        shape = len(self.encoders), len(self.datasets)
        if self.saved.shape != shape or not self.saved.size:
            raise ValueError(
                f"`saved` must have shape {shape}, a row per encoder and a column per "
                f"dataset, got {self.saved.shape}: give one number for each pair."
            )
        if not np.isfinite(self.saved).all():
            raise ValueError(
                "`saved` must be finite, got "
                f"{(~np.isfinite(self.saved)).sum()} that are not: leave them out."
            )

    @classmethod
    def from_scorer(
        cls, scorer: Any, *, reference: str = "uniform", ax: Any = None, **options: Any
    ) -> SavingsDisplay:
        """Draw the savings of a ranking, the best average rank on top.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        reference : {"uniform", "frequency"}, default="uniform"
            The code without features: all classes alike, or as often as they came so
            far.
        ax, **options : optional
            Passed to `plot`.
        """
        order = best_first(scorer)
        saved = scorer.saved_per_example(reference).T[order]
        display = cls(
            saved,
            [scorer.encoder_names_[i] for i in order],
            scorer.dataset_names_,
            reference=_CODES[reference],
        )
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, within_datasets: bool = True) -> SavingsDisplay:
        """Draw the map, with its numbers.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure, whose size follows the numbers
            of encoders and datasets and the length of their names.
        within_datasets : bool, default=True
            Whether colours go from the least to the most that is saved on each
            dataset; otherwise they stand for the nats, which differ more between
            datasets than between encoders.

        Returns
        -------
        display : SavingsDisplay
            The display itself.
        """
        n_encoders, n_datasets = self.saved.shape
        if ax is None:
            above = 0.075 * max(map(len, self.datasets))
            width = (
                1.8 + 0.5 * max(5, n_datasets) + 0.075 * max(map(len, self.encoders))
            )
            height = 1.0 + above + max(1.6, 0.22 * n_encoders)
            ax = canvas.new_axes(width, height)
        self.ax_, self.figure_ = ax, ax.figure
        shown = _from_least_to_most(self.saved) if within_datasets else self.saved
        self.image_ = ax.imshow(shown, cmap="cividis", aspect="auto")
        self._write_numbers(shown)
        ax.xaxis.tick_top()
        canvas.name_ticks(ax.xaxis, self.datasets)
        canvas.name_ticks(ax.yaxis, self.encoders)
        ax.tick_params(length=0)
        ax.tick_params("x", rotation=90)
        ax.spines[:].set_visible(False)
        label = f"nats per example saved against {self.reference}"
        if within_datasets:
            label += "\ncolours from the least to the most on each dataset"
        ax.set_xlabel(label, wrap=True)
        return self

    def _write_numbers(self, shown: NDArray[np.float64]) -> None:
        middle = (shown.min() + shown.max()) / 2
        for (i, j), nats in np.ndenumerate(self.saved):
            dark = shown[i, j] < middle
            self.ax_.text(
                j,
                i,
                f"{np.round(nats, 2) + 0.0:.2f}",
                ha="center",
                va="center",
                fontsize="small",
                color="white" if dark else "black",
            )

    def frame(self) -> Any:
        """Return the drawn table as a DataFrame, encoders by datasets."""
        pandas = canvas.plot_extra("pandas")
        return pandas.DataFrame(self.saved, self.encoders, self.datasets)


def _from_least_to_most(saved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stretch every column to 0 ... 1; where all are alike, to the middle."""
    least, most = saved.min(axis=0), saved.max(axis=0)
    spans = most - least
    stretched: NDArray[np.float64] = np.where(
        spans > 0, (saved - least) / np.where(spans > 0, spans, 1.0), 0.5
    )
    return stretched
