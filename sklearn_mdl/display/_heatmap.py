"""Heat map of encoders by datasets: savings or preferred readouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base

KINDS = ("savings", "preferred-readout")
_CODES = {"frequency": "label frequencies", "labels": "labels alone"}
_CODES |= {"uniform": "the uniform code"}
_GAUSSIAN = "a Gaussian code without features"


class RankingHeatmapDisplay(base.Display):
    """Heat map with one value for each encoder and dataset.

    ``"savings"`` shows the nats per example saved relative to a code without features.
    A negative value means that the code with features is the longer one.

    ``"preferred-readout"`` shows the readout with the largest mean posterior, as in the
    paper's table of readout models: ``argmax_k 1/T sum_t p(k at t | labels before t)``,
    summed by architecture (Li, Bornschein and Hutter, 2023, Section 4). Numbers are
    positions in `readouts`, usually from simple to deep. Colours have no order.

    Parameters
    ----------
    values : array-like of shape (n_encoders, n_datasets)
        Nats per example, or names of readouts.
    encoders : sequence of str of length n_encoders
        Names of the rows.
    datasets : sequence of str of length n_datasets
        Names of the columns.
    kind : {"savings", "preferred-readout"}, default="savings"
    reference : str, default="the uniform code"
        Name of the code relative to which savings are measured.
    readouts : sequence of str, optional
        All readouts from simple to deep, including those that are never preferred. By
        default, the preferred readouts in the natural order of their names.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    image_ : matplotlib AxesImage
        The drawn map. For preferred readouts, it holds their indices in `readouts`.

    Examples
    --------
    >>> from sklearn_mdl.display import RankingHeatmapDisplay
    >>> RankingHeatmapDisplay([[1.2, 0.3]], ["raw"], ["digits", "wine"]).frame()
         digits  wine
    raw     1.2   0.3
    """

    def __init__(
        self,
        values: ArrayLike,
        encoders: Sequence[str],
        datasets: Sequence[str],
        *,
        kind: str = "savings",
        reference: str = "the uniform code",
        readouts: Sequence[str] | None = None,
    ) -> None:
        base.check_choice(kind, "kind", KINDS)
        self.values = np.asarray(values, dtype=float if kind == "savings" else str)
        self.encoders, self.datasets = list(encoders), list(datasets)
        self.kind, self.reference = kind, reference
        shape = len(self.encoders), len(self.datasets)
        if self.values.shape != shape or not self.values.size:
            required = f"of shape {shape}, encoders by datasets, and not empty"
            cure = "pass a row for each encoder and a column for each dataset"
            raise invalid("values", required, self.values.shape, cure)
        if kind == "savings":
            if not np.isfinite(self.values).all():
                cure = "omit encoders (rows) or datasets (columns) with NaN or inf"
                raise invalid("values", "finite", self.values.tolist(), cure)
            return
        names = set(self.values.ravel().tolist())
        self.readouts = sorted(names, key=_sort_key) if readouts is None else readouts
        if missing := sorted(names - set(self.readouts)):
            required = "a list of all preferred readouts"
            raise invalid("readouts", required, self.readouts, f"add {missing}")

    @classmethod
    def from_scorer(
        cls,
        scorer: base.Ranking,
        *,
        kind: str = "savings",
        reference: str = "uniform",
        readouts: Sequence[str] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the map of a ranking, with the best average rank on top.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted ranking.
        kind : {"savings", "preferred-readout"}, default="savings"
        reference : {"uniform", "frequency", "labels"}, default="uniform"
            The code without features: the uniform code, the code of the label
            frequencies so far, or a code that predicts each label from earlier labels.
            For real-valued labels, all three are the same Gaussian code, which learns
            online.
        readouts : sequence of str, optional
            Architectures from simple to deep. By default all architectures of the
            ranking, in the order of its readouts.
        **plot_options : optional
            Passed to `plot`.
        """
        order = base.best_first(scorer)
        if kind == "preferred-readout":
            values = np.array(scorer.preferred_readouts()).T[order]
            if readouts is None:
                names = [name for cell in scorer.cells_ for name in cell.mean_posterior]
                readouts = list(dict.fromkeys(names))
        else:
            values = scorer.savings_per_example(reference).T[order]
        axes = [scorer.encoder_names_[i] for i in order], scorer.dataset_names_
        kinds = sorted({bool(cell.n_classes) for cell in scorer.cells_}, reverse=True)
        codes = [_CODES.get(reference, reference) if k else _GAUSSIAN for k in kinds]
        code = " or, for real-valued labels, ".join(codes)
        display = cls(values, *axes, kind=kind, reference=code, readouts=readouts)
        return display.plot(**plot_options)

    def plot(
        self, ax: base.Axes | None = None, *, within_datasets: bool = True
    ) -> Self:
        """Draw the map with a number in every cell.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure, whose size depends on the numbers of
            encoders and datasets and the length of their names.
        within_datasets : bool, default=True
            If True, colours of savings run from the lowest to the highest value on each
            dataset. Let d be the distance from the median to the highest value. Values
            more than 3 d below the median share the lowest colour, unless d is zero. If
            False, equal savings have the same colour on all datasets.

        Returns
        -------
        display : RankingHeatmapDisplay
            The display itself.
        """
        savings, below = self.kind == "savings", False if ax is None else None
        inches = self._make_axes(ax, 0.5 if savings else 0.28)
        ax = self.ax_
        style: base.Style
        if savings:
            shown = _from_least_to_most(self.values) if within_datasets else self.values
            texts = [f"{x:.2f}" for x in (np.round(self.values, 2) + 0.0).ravel()]
            style = {"cmap": "cividis", "vmin": shown.min(), "vmax": shown.max()}
            width = 2.5  # width of a number, in letters
        else:
            places = {name: k for k, name in enumerate(self.readouts)}
            shown = np.vectorize(places.__getitem__, otypes=[int])(self.values)
            texts = [str(k) for k in shown.ravel()]
            most = max(1, len(places) - 1)
            style = {"cmap": self._colour_map(), "vmin": 0, "vmax": most}
            width = 1 / 1.3
        self.image_ = ax.imshow(shown, aspect="auto", **style)
        size = min(8.0, base.size_for(self.values.shape[1], inches[0] / width))
        for ((i, j), value), text in zip(np.ndenumerate(shown), texts, strict=True):
            write_value(self.image_, (j, i), value, text, fontsize=size)
        name_fields(ax, self.datasets, self.encoders, inches)
        if savings:
            label = f"nats per example saved relative to {self.reference}"
            if within_datasets:
                label += "\ncolours run from lowest to highest on each dataset"
            ax.set_xlabel(label, wrap=True)
        else:
            self._put_legend(below)
        return self

    def _colour_map(self) -> base.Colormap:
        """Return a map with a colour for each readout. Colours repeat after 28."""
        more = base.plot_extra("matplotlib").colormaps["tab20b"].colors
        listed = list(islice(cycle([*base.COLOURS, *more]), max(2, len(self.readouts))))
        colours = base.plot_extra("matplotlib.colors")
        return cast("base.Colormap", colours.ListedColormap(listed))

    def _make_axes(self, ax: base.Axes | None, column: float) -> base.Pair:
        """Store the axes, and return the width and height of the map in inches."""
        n_encoders, n_datasets = self.values.shape
        if ax is not None:
            width, height = base.inches_of(self._use_axes(ax, 0, 0))
            return 0.7 * width, 0.6 * height
        beside, rows = base.longest(self.encoders), max(n_encoders, 7)
        width = column * max(n_datasets, 5)
        if self.kind == "preferred-readout":
            width = column * n_datasets
            beside += base.longest(self.readouts)
            rows = max(4, n_encoders, min(len(self.readouts), base.LEGEND_ROWS))
        above, height = 0.09 * base.longest(self.datasets), 0.24 * rows
        whole = 1.4 + width + base.CHARACTER * beside, 0.8 + above + height
        self._use_axes(None, *whole)
        return width, height

    def _put_legend(self, below: bool | None) -> None:
        """List the readouts in a legend, with their numbers in the map."""
        patch = base.plot_extra("matplotlib.patches").Patch
        colours = self.image_.cmap(self.image_.norm(np.arange(len(self.readouts))))
        handles = [patch(facecolor=colour) for colour in colours]
        labels = [f"{k}  {name}" for k, name in enumerate(self.readouts)]
        title = "largest mean posterior"
        base.put_legend(self.ax_, handles, labels, title=title, below=below)

    def frame(self) -> base.DataFrame:
        """Return the drawn table as a DataFrame, encoders by datasets."""
        return base.matrix_frame(self.values, self.datasets, self.encoders)


def write_value(
    image: base.AxesImage, at: tuple[int, int], value: Any, text: str, **style: Any
) -> None:
    """Write text into the cell (x, y) of a heat map, in white on dark colours."""
    colour = np.asarray(image.cmap(image.norm(value)))
    dark = np.dot(colour[:3], [0.299, 0.587, 0.114]) < 0.5
    place: base.Style = {"ha": "center", "va": "center"} | style
    image.axes.text(*at, text, color="white" if dark else "black", **place)


def name_fields(
    ax: base.Axes, columns: Sequence[str], rows: Sequence[str], inches: base.Pair
) -> None:
    """Label columns above and rows on the left, in a font that shrinks to fit."""
    ax.xaxis.tick_top()
    base.name_ticks(ax.xaxis, columns, inches[0])
    base.name_ticks(ax.yaxis, rows, inches[1])
    ax.tick_params(length=0)
    ax.tick_params("x", rotation=90)
    ax.spines[:].set_visible(False)


def _from_least_to_most(saved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale each column to the range from 0 to 1. Constant columns become 1/2."""
    most, middle = saved.max(axis=0), np.median(saved, axis=0)
    # Without a limit, a low outlier would give all other values similar colours.
    reach = np.where(most > middle, 4 * (most - middle), np.inf)
    least = np.maximum(saved.min(axis=0), most - reach)
    spans = most - least
    stretched = np.maximum(saved - least, 0.0) / np.where(spans > 0, spans, 1.0)
    return np.where(spans > 0, stretched, 0.5)


def _sort_key(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts "mlp 10x8" after "mlp 9x8"."""
    parts = re.split(r"(\d+)", name)
    return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]
