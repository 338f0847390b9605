"""What the displays share: checks, thinning, figures and legends."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The palette of Okabe and Ito, which colour-blind eyes tell apart; its yellow, too pale
# for lines on paper, has given way to a grey.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
LEGEND_ROWS = 24


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
            f"{type(estimator).__name__}: fit it first."
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
    height = 0.6 + 0.18 * min(len(labels), LEGEND_ROWS)
    return new_axes(6.2 + 0.075 * max(map(len, labels)), max(3.6, height))


def put_legend(ax: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend to the right of the axes."""
    columns = 1 + (len(labels) - 1) // LEGEND_ROWS
    place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
    # Names are the user's: matplotlib would drop a leading "_", and read "$" as maths.
    labels = [f" {label}" if label.startswith("_") else label for label in labels]
    legend = ax.legend(handles, labels, ncols=columns, frameon=False, **place)
    for text in legend.get_texts():
        text.set(parse_math=False, fontsize="small")


def name_ticks(axis: Any, names: Sequence[str]) -> None:
    """Put names, which are the user's and no maths, at 0, 1, ... on an axis."""
    axis.set_ticks(range(len(names)), labels=names)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
