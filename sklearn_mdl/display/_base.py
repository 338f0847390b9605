"""Shared parts of the displays: checks, axes, colours, names and legends."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.extras import (
    data_frame as data_frame,
    matrix_frame as matrix_frame,
    plot_extra as plot_extra,
)
from sklearn_mdl._core.validation import check_positive, invalid

if TYPE_CHECKING:  # also imported from here by the other display modules
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap as Colormap
    from matplotlib.container import BarContainer as BarContainer
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage as AxesImage
    from matplotlib.lines import Line2D as Line2D
    from matplotlib.text import Annotation as Annotation
    from matplotlib.transforms import Transform
    from pandas import DataFrame as DataFrame

    Drawn = Artist | BarContainer | list[Line2D]

    from sklearn_mdl.ranking import RankIntervals

Floats = NDArray[np.float64]
Pair = tuple[float, float]  # a point or an offset, or a width and a height
Style = dict[str, Any]

# Okabe and Ito's colour-blind safe palette, with a grey instead of its yellow, which is
# too pale for lines on paper.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
LINE_STYLES, MARKERS = ("-", "--", ":", "-."), "osD^"
LEGEND_ROWS = 24
LEGEND_WIDTH = 48  # characters; longer names take several rows
NARROW_LEGEND_WIDTH = 40  # characters, for a legend below the axes
OTHERS = {"color": "0.75", "linewidth": 0.8, "zorder": 1.5}  # lines without a name
NARROW = 3.6  # inches; narrower axes have their legend below
CHARACTER = 0.075  # inches, the mean width of a character
# What messages advise
SWITCHER = "pass a fitted switcher, such as pipeline[-1] or search.best_estimator_"
SCORER = "pass a fitted RepresentationScorer, such as comparison.scorer"
CURVE = f"{SWITCHER}, or call from_scorer for a RepresentationScorer"
CURVES = f"{SCORER}, or call from_estimator for a switcher"
FILL = "pass a code without NaN or, for losses of a retired readout, "
FILL += "np.where(np.isnan(losses), switcher.switching_codelengths_, losses)"


class Readout(Protocol):
    """A readout of a fitted switcher."""

    architecture: str


class Switcher(Protocol):
    """A fitted switcher."""

    codelengths_: Floats
    readout_weights_: Floats | None
    posterior_: Floats
    readout_losses_: Floats
    retired_at_: NDArray[np.intp]
    switching_codelengths_: Floats
    reference_codelengths_: Floats  # only regressors have it
    readout_names_: list[str]
    readouts_: list[Readout]
    view_names_: list[Hashable]
    view_posterior_: Floats
    pool_kinds_: list[Hashable]
    pool_weights_: Floats


class Cell(Protocol):
    """The result of one encoder on one order of a dataset."""

    @property
    def dataset(self) -> str: ...
    @property
    def encoder(self) -> str: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def codelengths(self) -> Floats: ...
    @property
    def mean_posterior(self) -> Mapping[str, float]: ...


class Ranking(Protocol):
    """A fitted ranking of encoders on datasets."""

    @property
    def alpha(self) -> float: ...
    @property
    def average_ranks_(self) -> Floats: ...
    @property
    def cells_(self) -> Sequence[Cell]: ...
    @property
    def codelengths_(self) -> Floats: ...
    @property
    def critical_difference_(self) -> float: ...
    @property
    def dataset_names_(self) -> list[str]: ...
    @property
    def encoder_names_(self) -> list[str]: ...
    def preferred_readouts(self) -> Sequence[list[str]]: ...
    def rank_intervals(self) -> RankIntervals: ...
    def savings_per_example(self, reference: str) -> Floats: ...


class Display:
    """Base class of displays, which stores the axes and the figure."""

    ax_: Axes
    figure_: Figure

    def _use_axes(self, ax: Axes | None, width: float, height: float) -> Axes:
        """Store and return ``ax``, or axes of a new figure of this size in inches."""
        if ax is None:
            pyplot = plot_extra("matplotlib.pyplot")
            ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
        self.ax_, self.figure_ = ax, cast("Figure", ax.figure)
        return ax

    def _use_axes_beside_legend(
        self, ax: Axes | None, labels: Sequence[str], *, boxed: bool = False
    ) -> Axes:
        """Store and return ``ax``, or new axes with room for a legend on the right.

        Unless `boxed`, the axes have no lines at the top and on the right.
        """
        rows = [row for name in labels for row in _wrapped(name, LEGEND_WIDTH)]
        height = 0.6 + 0.18 * min(len(rows), LEGEND_ROWS)
        ax = self._use_axes(ax, 6.2 + CHARACTER * longest(rows), max(3.6, height))
        if not boxed:
            ax.spines[["top", "right"]].set_visible(False)
        return ax


# Checks


def check_fitted(estimator: object, attribute: str, cure: str = SWITCHER) -> None:
    """Raise AttributeError if the estimator has no ``attribute``."""
    if not hasattr(estimator, attribute):
        name = type(estimator).__name__
        raise AttributeError(f"{name} must have the attribute {attribute!r}; {cure}")


def vector(values: ArrayLike, name: str, cure: str = FILL) -> Floats:
    """Return values as an array (n,), or raise unless n > 0 and no value is NaN.

    By default, the message for NaN is about losses of readouts that have retired.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        cure = "pass one or more numbers in a 1-D array"
        raise invalid(name, "of shape (n,), n > 0", array.shape, cure)
    if n_missing := int(np.isnan(array).sum()):
        given = f"{n_missing} NaN among {array.size}"
        raise ValueError(f"{name} must be without NaN, got {given} numbers; {cure}")
    return array


def vectors(names: Sequence[str], **values: ArrayLike) -> list[Floats]:
    """Return float64 arrays, or raise unless each has one number per name."""
    arrays = [vector(x, name, "omit names with NaN") for name, x in values.items()]
    lengths = [len(names), *map(len, arrays)]
    if len(set(lengths)) > 1:
        given = f"names, {', '.join(values)}"
        raise invalid(given, "of equal length", lengths, "pass a number for each name")
    return arrays


def columns(values: ArrayLike, name: str, names: Sequence[str]) -> Floats:
    """Return values as a float64 array, or raise unless it has one column per name."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(names) or not array.size:
        required = f"of shape (n, {len(names)}), n > 0"
        raise invalid(name, required, array.shape, "pass a column for each name")
    return array


def check_choice(value: object, name: str, choices: Sequence[str | None]) -> None:
    """Raise if the value is not one of the choices."""
    if value not in choices:
        required = f"one of {list(choices)}"
        raise invalid(name, required, value, f"pass {name}={choices[0]!r}")


# Curves and posteriors


def architectures(estimator: Switcher) -> dict[str, list[int]]:
    """Return the indices of readouts, keyed by architecture."""
    members: dict[str, list[int]] = {}
    for k, readout in enumerate(estimator.readouts_):
        members.setdefault(readout.architecture, []).append(k)
    return members


def best_first(ranking: Ranking) -> list[int]:
    """Return the indices of a ranking's encoders, the best average rank first."""
    check_fitted(ranking, "average_ranks_", SCORER)
    return [int(e) for e in np.argsort(ranking.average_ranks_, kind="stable")]


def encoder_styles(ranking: Ranking) -> dict[str, int]:
    """Return a style number for each encoder: zero for the best average rank."""
    return {ranking.encoder_names_[i]: k for k, i in enumerate(best_first(ranking))}


def dataset_of(ranking: Ranking, dataset: str | None) -> str:
    """Return ``dataset``, or the name of the only dataset if ``dataset`` is None."""
    check_fitted(ranking, "dataset_names_", CURVES)
    names = list(ranking.dataset_names_)
    if dataset is None and len(names) == 1:
        dataset = names[0]
    check_choice(dataset, "dataset", names)
    return str(dataset)


def codelengths_of(ranking: Ranking, dataset: str) -> Iterator[tuple[str, Floats]]:
    """Yield each encoder with its mean codelengths in nats, best average rank first.

    At each step, codelengths are averaged over orders.
    """
    cells = [cell for cell in ranking.cells_ if cell.dataset == dataset]
    for name in [ranking.encoder_names_[i] for i in best_first(ranking)]:
        orders = [cell.codelengths for cell in cells if cell.encoder == name]
        yield name, np.mean(orders, axis=0)


def thinned(n_samples: int, max_points: int, log_x: bool) -> NDArray[np.intp]:
    """Return indices of at most `max_points` rows, with the first and the last row."""
    if max_points < 2:
        raise invalid("max_points", "at least 2", max_points, "pass max_points=1000")
    if n_samples <= max_points:
        return np.arange(n_samples)
    spaced = np.geomspace if log_x else np.linspace
    return np.unique(np.rint(spaced(1, n_samples, max_points)).astype(np.intp)) - 1


# Lines


def line_style(index: int) -> Style:
    """Return the colour and dashes of the line with this number, counted from zero.

    Styles repeat after 32 lines.
    """
    cycle, colour = divmod(index, len(COLOURS))
    dashes = LINE_STYLES[cycle % len(LINE_STYLES)]
    return {"color": COLOURS[colour], "linestyle": dashes}


def point_style(index: int) -> Style:
    """Return the colour and marker of the point with this number, counted from zero.

    Styles repeat after 32 points.
    """
    cycle, colour = divmod(index, len(COLOURS))
    marker = MARKERS[cycle % len(MARKERS)]
    return {"color": COLOURS[colour], "marker": marker, "linestyle": "none"}


def named_lines(group: ArrayLike, last: ArrayLike, max_named: int) -> list[int]:
    """Return the indices of at most ``max_named`` lines.

    The lowest ``group`` comes first and, within a group, the lowest ``last`` value.
    """
    check_positive("max_named", max_named, 12)
    order: list[int] = np.lexsort(np.stack([last, group])).tolist()
    return order[:max_named]


# Names, notes and legends


def note(ax: Axes, text: str, at: Pair, offset: Pair, **style: Any) -> Annotation:
    """Write small plain text next to a point, at an offset in typographic points."""
    place: Style = {"textcoords": "offset points", "va": "center"}
    style = {"fontsize": "small", "parse_math": False} | style
    return ax.annotate(text, at, xytext=offset, **(place | style))


def longest(names: Sequence[str]) -> int:
    """Return the length of the longest name."""
    return max(map(len, names))


def inches_of(ax: Axes) -> Pair:
    """Return the width and height of the axes in inches."""
    dpi = ax.figure.dpi
    return ax.bbox.width / dpi, ax.bbox.height / dpi


def size_for(n_rows: int, inches: float) -> float:
    """Return a font size, at least 4.5, at which rows of text fit into a height."""
    return max(4.5, 0.8 * 72 * inches / n_rows)


def name_ticks(axis: Axis, names: Sequence[str], inches: float | None = None) -> None:
    """Label positions 0, 1, ... on an axis.

    If ``inches`` is given, the font shrinks to fit, but not below a size of 4.5.
    """
    axis.set_ticks(range(len(names)), labels=names)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)  # names from users may contain "$"
        if inches is not None:
            size = size_for(len(names), inches)
            label.set_fontsize(min(float(label.get_fontsize()), size))


def put_legend(
    ax: Axes,
    handles: Iterable[Artist | tuple[Artist, ...]],
    labels: Sequence[str],
    *,
    title: str | None = None,
    below: bool | None = None,
) -> None:
    """Put a legend below or to the right of the axes.

    If ``below`` is None, the legend is below narrow axes and to the right of wide axes.
    A legend below is about as wide as the figure, or wider if a name needs more space.
    """
    width, _ = inches_of(ax)
    below = width < NARROW if below is None else below
    letters = NARROW_LEGEND_WIDTH if below else LEGEND_WIDTH
    wrapped = [_wrapped(label, letters) for label in labels]
    rows = [row for label in wrapped for row in label]
    if below:
        n_columns = max(1, int(1.3 * width / (0.45 + 0.065 * longest(rows))))
        place: Style = {"loc": "upper right", "bbox_transform": _below(ax)}
        place |= {"bbox_to_anchor": (1.0, 0.0)}
        place |= {"handlelength": 1.6, "columnspacing": 1.0}
    else:
        n_columns = 1 + (len(rows) - 1) // LEGEND_ROWS
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    place |= {"borderaxespad": 0.0, "frameon": False, "ncols": n_columns}
    # matplotlib would leave out names that begin with "_", and read "$" as maths.
    shown = ["\n".join(label) for label in wrapped]
    shown = [f" {label}" if label.startswith("_") else label for label in shown]
    legend = ax.legend(list(handles), shown, title=title, alignment="left", **place)
    for text in [legend.get_title(), *legend.get_texts()]:
        text.set(parse_math=False, fontsize="small")


def _wrapped(label: str, width: int) -> list[str]:
    """Break a long name into rows, only at spaces."""
    rows = textwrap.wrap(label, width, break_long_words=False, break_on_hyphens=False)
    return rows or [""]


def _below(ax: Axes) -> Transform:
    """Return a copy of ``ax.transAxes`` that is shifted below the tick labels."""
    transforms = plot_extra("matplotlib.transforms")
    inches = 0.1 if ax.xaxis.get_ticks_position() == "top" else 0.45
    gap = transforms.ScaledTranslation(0.0, -inches, ax.figure.dpi_scale_trans)
    return cast("Transform", ax.transAxes + gap)
