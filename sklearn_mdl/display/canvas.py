"""What the displays share: checks, thinning, figures and legends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The palette of Okabe and Ito, which colour-blind eyes tell apart; its yellow, too pale
# for lines on paper, has given way to a grey.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
LINE_STYLES = ("-", "--", ":", "-.")
LEGEND_ROWS = 24
LEGEND_WIDTH = 48  # characters; longer names run over several rows
NARROW_LEGEND_WIDTH = 40
OTHERS = {"color": "0.75", "linewidth": 0.8, "zorder": 1.5}  # lines without a name
NARROW = 3.6  # inches; such axes have their legend below, where it takes no width


def vector(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return values of shape (n,), n > 0, as float64."""
    array = np.asarray(values, dtype=np.float64)
    n_missing = np.isnan(array).sum()
    if array.ndim != 1 or array.size == 0 or n_missing:
        raise ValueError(
            f"{name} must have shape (n,), n > 0, and no NaN, got shape {array.shape} "
            f"with {n_missing} NaN: give one number for each."
        )
    return array


def fitted(estimator: Any, attribute: str) -> Any:
    """Return a fitted attribute."""
    if not hasattr(estimator, attribute):
        raise AttributeError(
            f"An object with `{attribute}` was required, got "
            f"{type(estimator).__name__}: fit it first, and pass it itself rather than "
            "a pipeline or search around it."
        )
    return getattr(estimator, attribute)


def architectures(estimator: Any) -> dict[str, list[int]]:
    """Return the indices of the readouts of each architecture."""
    members: dict[str, list[int]] = {}
    for k, readout in enumerate(estimator.readouts_):
        members.setdefault(readout.architecture, []).append(k)
    return members


def thinned(n_samples: int, max_points: int, log_x: bool) -> NDArray[np.intp]:
    """Return the rows to draw, at most `max_points`, first and last among them."""
    if max_points < 2:
        raise ValueError(
            f"`max_points` must be at least 2, got {max_points}: raise it."
        )
    if n_samples <= max_points:
        return np.arange(n_samples)
    spaced = np.geomspace if log_x else np.linspace
    return np.unique(np.rint(spaced(1, n_samples, max_points)).astype(np.intp)) - 1


def averaged(n_samples: int, max_points: int, log_x: bool) -> NDArray[np.intp]:
    """Return the first rows of intervals to average, at most `max_points` of them.

    Intervals are even on the axis drawn; the first and the last row stand alone.
    """
    if max_points < 3:
        raise ValueError(
            f"`max_points` must be at least 3, got {max_points}: raise it."
        )
    if n_samples <= max_points:
        return np.arange(n_samples)
    inner = thinned(n_samples - 1, max_points - 1, log_x)
    return np.unique(np.concatenate([[0], 1 + inner]))


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the line with the given number, counted from zero."""
    cycle, colour = divmod(index, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "linestyle": LINE_STYLES[cycle % len(LINE_STYLES)],
    }


def named_lines(place: NDArray[Any], last: NDArray[Any], max_named: int) -> list[int]:
    """Return the lines that a legend names: by their place, and then by their end."""
    if not isinstance(max_named, Integral) or max_named < 1:
        raise ValueError(
            f"`max_named` must be an integer of at least 1, got {max_named!r}: 12 is "
            "usual."
        )
    named: list[int] = np.lexsort((last, place))[:max_named].tolist()
    return named


def plot_extra(module: str) -> Any:
    """Import a module that only drawing needs."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{module} is required but missing: pip install "sklearn_mdl[plot]".'
        ) from error


def new_axes(width: float, height: float) -> Any:
    """Return the axes of a new figure of the given size in inches."""
    pyplot = plot_extra("matplotlib.pyplot")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def axes_beside_legend(ax: Any, labels: Sequence[str]) -> Any:
    """Return the axes given, or new ones with room for a legend on their right."""
    if ax is not None:
        return ax
    rows = "\n".join(_wrapped(name, LEGEND_WIDTH) for name in labels).split("\n")
    height = 0.6 + 0.18 * min(len(rows), LEGEND_ROWS)
    return new_axes(6.2 + 0.075 * max(map(len, rows)), max(3.6, height))


def put_legend(
    ax: Any,
    handles: Sequence[Any],
    labels: Sequence[str],
    *,
    title: str | None = None,
    below: bool | None = None,
) -> None:
    """Put a legend to the right of the axes or below; None is below narrow axes."""
    width, _ = inches_of(ax)
    below = width < NARROW if below is None else below
    longest = NARROW_LEGEND_WIDTH if below else LEGEND_WIDTH
    labels = [_wrapped(label, longest) for label in labels]
    rows = "\n".join(labels).split("\n")
    if below:
        columns = max(1, int(1.3 * width / (0.45 + 0.06 * max(map(len, rows)))))
        place = {"loc": "upper right", "bbox_transform": _below(ax)}
        place |= {"bbox_to_anchor": (1.0, 0.0)}
        place |= {"handlelength": 1.6, "columnspacing": 1.0}
    else:
        columns = 1 + (len(rows) - 1) // LEGEND_ROWS
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    # Names are the user's: matplotlib would drop a leading "_", and read "$" as maths.
    labels = [f" {label}" if label.startswith("_") else label for label in labels]
    place |= {"borderaxespad": 0.0, "frameon": False, "ncols": columns}
    legend = ax.legend(handles, labels, title=title, alignment="left", **place)
    for text in [legend.get_title(), *legend.get_texts()]:
        text.set(parse_math=False, fontsize="small")


def _wrapped(label: str, longest: int) -> str:
    """Break a long name into rows, at spaces alone."""
    rows = textwrap.wrap(label, longest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rows)


def _below(ax: Any) -> Any:
    """Return where the axes' width is one, and zero lies below their labels."""
    transforms = plot_extra("matplotlib.transforms")
    inches = 0.1 if ax.xaxis.get_ticks_position() == "top" else 0.45
    gap = transforms.ScaledTranslation(0.0, -inches, ax.figure.dpi_scale_trans)
    return ax.transAxes + gap


def name_ticks(axis: Any, names: Sequence[str], inches: float | None = None) -> None:
    """Put names, which are the user's and no maths, at 0, 1, ... on an axis.

    If it is known how many inches there are for them, they are set small enough.
    """
    axis.set_ticks(range(len(names)), labels=names)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
        if inches is not None:
            label.set_fontsize(min(label.get_fontsize(), size_for(len(names), inches)))


def size_for(n_rows: int, inches: float) -> float:
    """Return the size of text, in points, of which so many rows fit."""
    return max(4.5, 0.8 * 72 * inches / n_rows)


def inches_of(ax: Any) -> tuple[float, float]:
    """Return width and height of axes before names and legends take their part."""
    dpi = ax.figure.dpi
    return ax.bbox.width / dpi, ax.bbox.height / dpi
