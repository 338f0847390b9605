"""Average ranks against the number of labels, read off the courses of the codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import codelengths_of
from sklearn_mdl.ranking import average_ranks


class RankBySizeDisplay:
    """Average rank of each encoder if the datasets had ended after so many labels.

    The codelength of the first ``n`` labels is what a dataset of ``n`` labels would
    have cost, since nothing in the walk depends on what follows. So one walk ranks
    encoders at every size.

    Parameters
    ----------
    sizes : array-like of int of shape (n_sizes,)
        Increasing numbers of labels.
    ranks : array-like of shape (n_sizes, n_encoders)
        Average rank of each encoder at each size; 1 is best.
    names : sequence of str of length n_encoders
        Names of the encoders.
    n_datasets : array-like of int of shape (n_sizes,), optional
        Number of datasets behind the ranks at each size, if some are too short for
        the larger ones.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the ranks were drawn last.
    lines_ : dict of str to matplotlib Line2D
        The drawn ranks.

    Examples
    --------
    >>> from sklearn_mdl.display import RankBySizeDisplay
    >>> ranks = [[1.0, 2.0], [1.5, 1.5], [2.0, 1.0]]
    >>> RankBySizeDisplay([10, 100, 1000], ranks, ["raw", "deep"]).frame()
            raw  deep
    labels
    10      1.0   2.0
    100     1.5   1.5
    1000    2.0   1.0
    """

    def __init__(
        self,
        sizes: ArrayLike,
        ranks: ArrayLike,
        names: Sequence[str],
        n_datasets: ArrayLike | None = None,
    ) -> None:
        self.sizes = _checked_sizes(sizes)
        self.ranks = np.asarray(ranks, dtype=np.float64)
        self.names = list(names)
        shape = len(self.sizes), len(self.names)
        if self.ranks.shape != shape:
            raise ValueError(
                f"`ranks` must have shape {shape}, a row per size and a column per "
                f"encoder, got {self.ranks.shape}: give one rank for each pair."
            )
        if not ((self.ranks >= 1) & (self.ranks <= shape[1])).all():
            raise ValueError(
                f"`ranks` must lie between 1 and {shape[1]}, got {self.ranks.min():g} "
                f"to {self.ranks.max():g}: rank the encoders from 1, the best."
            )
        self.n_datasets = None if n_datasets is None else np.asarray(n_datasets)
        if self.n_datasets is not None and self.n_datasets.shape != shape[:1]:
            raise ValueError(
                f"`n_datasets` must have shape {shape[:1]}, one number per size, got "
                f"{self.n_datasets.shape}: count the datasets at each size."
            )

    @classmethod
    def from_scorer(
        cls,
        scorer: Any,
        *,
        sizes: ArrayLike | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> RankBySizeDisplay:
        """Draw the ranks of a ranking by the codelengths of its first labels.

        Codelengths are means over orders. Those that agree to nine digits tie, as all
        do while nothing is learned yet.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        sizes : array-like of int, optional
            Numbers of labels; a dataset that has fewer does not count at a size. By
            default forty from ten to the length of the shortest dataset, so that all
            count at all of them.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        names = list(canvas.fitted(scorer, "encoder_names_"))
        lengths = {cell.dataset: cell.n_samples for cell in scorer.cells_}
        shortest, longest = min(lengths.values()), max(lengths.values())
        if sizes is None:
            sizes = np.unique(np.geomspace(min(10, shortest), shortest, 40).astype(int))
        checked = _checked_sizes(sizes)
        if checked[-1] > longest:
            raise ValueError(
                f"`sizes` must not exceed {longest}, the length of the longest "
                f"dataset, got {checked[-1]}: ask for fewer labels."
            )
        nats = np.full((len(checked), len(lengths), len(names)), np.nan)
        for d, (dataset, length) in enumerate(lengths.items()):  # one in memory at once
            kept = checked <= length
            for name, orders in codelengths_of(scorer, dataset).items():
                course = np.cumsum(orders.mean(axis=0))
                nats[kept, d, names.index(name)] = course[checked[kept] - 1]
        counts = [sum(length >= n for length in lengths.values()) for n in checked]
        ranks = np.stack([_average_ranks(table) for table in nats])
        return cls(checked, ranks, names, counts).plot(ax, **plot_options)

    def plot(
        self, ax: Any = None, *, log_x: bool = True, max_named: int = 12
    ) -> RankBySizeDisplay:
        """Draw a line for each encoder; the legend lists them as they end.

        Dotted lines stand where datasets end that do not count any more, with the
        number of those that are left.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        log_x : bool, default=True
            Whether labels are spaced logarithmically.
        max_named : int, default=12
            Of more encoders only so many have a colour and a place in the legend: those
            that come first in rank at any size. The others are drawn grey.

        Returns
        -------
        display : RankBySizeDisplay
            The display itself.
        """
        named = self._named(max_named)
        names = [self.names[i] for i in named]
        legend = [*names, "others"] if len(names) < len(self.names) else names
        self.ax_ = ax = canvas.axes_beside_legend(ax, legend)
        self.figure_ = ax.figure
        self.lines_: dict[str, Any] = {}
        styles = {i: canvas.line_style(k) for k, i in enumerate(sorted(named))}
        for i, name in enumerate(self.names):
            (self.lines_[name],) = ax.plot(self.sizes, self.ranks[:, i])
            self.lines_[name].set(**styles.get(i, canvas.OTHERS))
            if i in styles:
                marker = "o" if len(self.sizes) <= 10 else ""
                self.lines_[name].set(linewidth=1.8, marker=marker, markersize=4.0)
        if log_x:
            ax.set_xscale("log")
        self._mark_ends()
        n_encoders = len(self.names)
        ax.set_ylim(n_encoders + 0.15, 0.85)
        ax.set_yticks(np.arange(1, n_encoders + 1, 1 + n_encoders // 15))
        ax.set(xlabel="labels", ylabel="average rank (1 is best)")
        ax.spines[["top", "right"]].set_visible(False)
        shown = [self.lines_[name] for name in names]
        if len(legend) > len(names):
            shown.append(next(v for k, v in self.lines_.items() if k not in names))
        canvas.put_legend(ax, shown, legend)
        return self

    def _named(self, max_named: int) -> list[int]:
        """Return the encoders that the legend names, as they end."""
        best, last = self.ranks.min(axis=0), self.ranks[-1]
        chosen = canvas.named_lines(best, last, max_named)
        return sorted(chosen, key=last.__getitem__)

    def _mark_ends(self) -> None:
        """Mark where the number of datasets falls."""
        counts = self.n_datasets
        if counts is None:
            return
        for i in np.flatnonzero(np.diff(counts)) + 1:
            middle = np.sqrt(self.sizes[i - 1] * self.sizes[i])
            self.ax_.axvline(middle, color="0.5", linestyle=":", linewidth=1.0)
            self.ax_.annotate(
                f"{counts[i]}",
                (middle, 1.0),
                xycoords=self.ax_.get_xaxis_transform(),
                xytext=(3, 0),
                textcoords="offset points",
                va="top",
                fontsize="small",
                color="0.3",
            )

    def frame(self) -> Any:
        """Return the drawn ranks as a DataFrame: one row per size."""
        table = canvas.plot_extra("pandas").DataFrame(
            self.ranks, self.sizes, self.names
        )
        return table.rename_axis("labels")


def _checked_sizes(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return increasing numbers of labels."""
    array = np.asarray(sizes)
    whole = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    if not whole or array.min() < 1 or (np.diff(array) <= 0).any():
        raise ValueError(
            "`sizes` must be increasing integers of at least 1, got "
            f"{sizes!r}: give numbers of labels."
        )
    return array.astype(np.int64)


def _average_ranks(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return average ranks over the datasets, (n_datasets, n_encoders), that count."""
    counting = nats[~np.isnan(nats).any(axis=1)]
    scale = np.abs(counting).max(axis=1, keepdims=True)
    return average_ranks(np.round(counting / np.where(scale > 0, scale, 1.0), 9))
