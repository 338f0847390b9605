"""Ranks of encoders: over datasets, averaged with intervals, and by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.ranking import RankIntervals, average_ranks, rank_intervals

FEW = 5  # with at most this many datasets, resampled intervals are too short
KINDS = ("boxes", "intervals", "by-size")
_BOX = ("whislo", "q1", "med", "q3", "whishi")


class RankDisplay(base.Display):
    """Ranks of encoders, in one of three kinds of figure. Rank 1 is best.

    ``"boxes"`` shows the distribution of ranks over datasets, with the best average on
    top. Boxes span the first to the third quartile, with a line at the median and a
    point at the average rank. Whiskers reach the farthest ranks within 1.5
    interquartile ranges of the box. Circles are ranks beyond the whiskers (Li,
    Bornschein and Hutter, 2023, Appendix A.7).

    ``"intervals"`` shows average ranks with intervals from resampled datasets.

    ``"by-size"`` shows average ranks against the number of labels. Predictions do not
    depend on later labels, so the first ``n`` labels cost as much as a dataset of ``n``
    labels with the same classes and settings. A single prequential run therefore ranks
    encoders at every size.

    Parameters
    ----------
    ranks : array-like of shape (n_datasets, n_encoders) or (n_sizes, n_encoders)
        Rank of each encoder on each dataset. For ``"by-size"``, the average rank at
        each size.
    names : sequence of str of length n_encoders
        Names of the encoders.
    kind : {"boxes", "intervals", "by-size"}, default="boxes"
    intervals : RankIntervals, optional
        Intervals for ``"intervals"``. By default computed by
        :func:`~sklearn_mdl.ranking.rank_intervals`.
    sizes : array-like of int of shape (n_sizes,), optional
        Increasing numbers of labels, required for ``"by-size"``.
    n_datasets : array-like of int of shape (n_sizes,), optional
        Number of datasets with enough labels for each size.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    artists_ : dict of str to matplotlib artists
        For ``"boxes"``, the drawn ``boxes``, ``whiskers``, ``medians``, ``fliers`` and
        ``means``. For ``"intervals"``, the ``intervals`` and ``means``. ``means`` is a
        list of points, best first. For ``"by-size"``, the line of each encoder, keyed
        by name.

    Examples
    --------
    >>> from sklearn_mdl.display import RankDisplay
    >>> RankDisplay([[1, 2], [1, 2], [2, 1]], ["a", "b"]).frame()["mean"].round(2)
    encoder
    a    1.33
    b    1.67
    Name: mean, dtype: float64
    >>> ranks = [[1.0, 2.0], [1.5, 1.5], [2.0, 1.0]]
    >>> sizes = [10, 100, 1000]
    >>> RankDisplay(ranks, ["raw", "deep"], kind="by-size", sizes=sizes).frame()
            raw  deep
    labels
    10      1.0   2.0
    100     1.5   1.5
    1000    2.0   1.0
    """

    def __init__(
        self,
        ranks: ArrayLike,
        names: Sequence[str],
        *,
        kind: str = "boxes",
        intervals: RankIntervals | None = None,
        sizes: ArrayLike | None = None,
        n_datasets: ArrayLike | None = None,
    ) -> None:
        base.check_choice(kind, "kind", KINDS)
        self.names, self.kind = list(names), kind
        self.ranks = base.columns(ranks, "ranks", self.names)
        if not ((self.ranks >= 1) & (self.ranks <= len(self.names))).all():
            limits = [float(self.ranks.min()), float(self.ranks.max())]
            cure = "pass scipy.stats.rankdata(codelengths, axis=1)"
            raise invalid("ranks", f"between 1 and {len(self.names)}", limits, cure)
        self.intervals: RankIntervals | None = None
        if kind == "by-size":
            self.sizes = _checked_sizes(sizes)
            self.n_datasets = None if n_datasets is None else np.asarray(n_datasets)
            self._check_sizes()
        elif kind == "intervals":
            self.intervals = intervals or rank_intervals(self.ranks)
            self._check_intervals(self.intervals)
        self._order = np.argsort(self.ranks.mean(axis=0), kind="stable")

    def _check_sizes(self) -> None:
        shape = self.ranks.shape[:1]
        for name in ("sizes", "n_datasets"):
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                cure = f"pass one for each row of ranks ({shape[0]} in all)"
                raise invalid(name, f"of shape {shape}", values.shape, cure)

    def _check_intervals(self, intervals: RankIntervals) -> None:
        lower, upper, shape = intervals.lower, intervals.upper, (len(self.names),)
        if not lower.shape == upper.shape == shape or not (lower <= upper).all():
            required = f"bounds with lower <= upper for each of {shape[0]} encoders"
            given = [lower.tolist(), upper.tolist()]
            raise invalid("intervals", required, given, "pass rank_intervals(ranks)")

    @classmethod
    def from_codelengths(
        cls,
        codelengths: ArrayLike,
        names: Sequence[str],
        *,
        kind: str = "boxes",
        **plot_options: Any,
    ) -> Self:
        """Rank encoders on each dataset by their codelengths, and draw the ranks.

        Parameters
        ----------
        codelengths : array-like of shape (n_datasets, n_encoders)
            Codelengths, in the same unit within each dataset. Ties share the mean of
            their ranks.
        names : sequence of str of length n_encoders
            Names of the encoders.
        kind : {"boxes", "intervals"}, default="boxes"
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_choice(kind, "kind", KINDS[:2])
        table = np.asarray(codelengths, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            cure = "omit datasets (rows) or encoders (columns) with NaN or inf"
            raise invalid("codelengths", "2-D and finite", table.tolist(), cure)
        return cls(rankdata(table, axis=1), names, kind=kind).plot(**plot_options)

    @classmethod
    def from_scorer(
        cls,
        scorer: base.Ranking,
        *,
        kind: str = "boxes",
        sizes: ArrayLike | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a ranking's ranks, computed from codelengths averaged over orders.

        For ``"by-size"``, codelengths on a dataset are ties if they agree to nine
        decimals after division by the longest.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted ranking. Intervals need at least two datasets and two encoders.
        kind : {"boxes", "intervals", "by-size"}, default="boxes"
        sizes : array-like of int, optional
            Numbers of labels for ``"by-size"``. Each size leaves out datasets with
            fewer labels. By default, at most forty sizes from ten (or fewer) to the
            length of the shortest dataset, so every size includes all datasets.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(scorer, "average_ranks_", base.SCORER)
        names = scorer.encoder_names_
        if kind == "by-size":
            checked, ranks, counts = _ranks_by_size(scorer, sizes)
            display = cls(ranks, names, kind=kind, sizes=checked, n_datasets=counts)
        else:
            intervals = scorer.rank_intervals() if kind == "intervals" else None
            ranks = rankdata(scorer.codelengths_, axis=1)
            display = cls(ranks, names, kind=kind, intervals=intervals)
        return display.plot(**{"styles": base.encoder_styles(scorer)} | plot_options)

    def plot(
        self,
        ax: base.Axes | None = None,
        *,
        log_x: bool = True,
        max_named: int = 12,
        styles: Mapping[str, int] | None = None,
    ) -> Self:
        """Draw the ranks.

        For ``"by-size"``, a dotted line marks where the number of datasets decreases,
        and gives the number of datasets from there on.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure, whose size depends on the number of
            encoders and the length of their names.
        log_x : bool, default=True
            If True, the x-axis is logarithmic. Only used for ``"by-size"``.
        max_named : int, default=12
            For ``"by-size"``, the largest number of encoders with a colour and a legend
            entry, chosen by the best of their ranks at all sizes. All other encoders
            are grey.
        styles : mapping of str to int, optional
            Colour number of each encoder, to give a name the same colour in several
            figures. By default the numbers follow the average rank or, for
            ``"by-size"``, the order of the names.

        Returns
        -------
        display : RankDisplay
            The display itself.
        """
        if self.kind == "by-size":
            self._plot_by_size(ax, log_x, max_named, styles or {})
        else:
            self._plot_rows(ax, styles or {})
        return self

    def _plot_rows(self, ax: base.Axes | None, numbers: Mapping[str, int]) -> None:
        """Draw a row for each encoder, with the best average on top."""
        n_encoders, boxes = len(self.names), self.kind == "boxes"
        width = base.CHARACTER * base.longest(self.names)
        row = 0.28 if boxes else 0.24
        ax = self._use_axes(ax, 4.5 + width, 1.0 + row * n_encoders)
        inches = base.inches_of(ax)[0] - width + 0.5
        self.artists_: dict[str, base.Drawn] = {}
        last = self._draw_boxes() if boxes else self._draw_intervals()
        self.artists_["means"] = self._draw_means(numbers)
        base.name_ticks(ax.yaxis, [self.names[i] for i in self._order])
        ax.set_ylim(n_encoders - 0.4, -0.6)
        ax.set_xlim(0.7, last + 0.3)
        every = 1 + int(0.25 * n_encoders / max(0.5, inches))
        ax.set_xticks(np.arange(1, n_encoders + 1, every))
        ax.tick_params("y", length=0)
        ax.spines[["right", "top"]].set_visible(False)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)

    def _draw_intervals(self) -> float:
        intervals, order = cast("RankIntervals", self.intervals), self._order
        rows = np.arange(len(self.names))
        lines = self.ax_.hlines(rows, intervals.lower[order], intervals.upper[order])
        lines.set(color="0.6", linewidth=3.0)
        self._mark_widthless(intervals)
        self.artists_["intervals"] = lines
        label = f"average rank, {100 * intervals.level:g}% interval over datasets"
        self.ax_.set_xlabel(label, wrap=True)
        return float(max(len(self.names), intervals.upper.max()))

    def _draw_means(self, numbers: Mapping[str, int]) -> list[base.Line2D]:
        """Draw the average rank of each encoder in its colour, best first."""
        points = []
        for row, (e, mean) in enumerate(zip(self._order, self._means(), strict=True)):
            style = base.point_style(numbers.get(self.names[e], row))
            (point,) = self.ax_.plot([mean], [row], **style, clip_on=False, zorder=3.0)
            point.set(markersize=7.0, markeredgecolor="white")
            points.append(point)
        return points

    def _mark_widthless(self, intervals: RankIntervals) -> None:
        """Explain each interval of zero width in a note next to it."""
        words = "the same rank on all datasets; new datasets may differ"
        if len(self.ranks) <= FEW:
            words = "too few datasets"
        for row, (e, mean) in enumerate(zip(self._order, self._means(), strict=True)):
            if intervals.upper[e] - intervals.lower[e] < 1e-9:
                right = mean > (1 + len(self.names)) / 2
                place: base.Style = {"ha": "right" if right else "left", "color": "0.4"}
                offset = (-7 if right else 7, 0)
                base.note(self.ax_, words, (mean, row), offset, **place)

    def _draw_boxes(self) -> float:
        ax, rows = self.ax_, np.arange(len(self.names))
        boxplot_stats = base.plot_extra("matplotlib.cbook").boxplot_stats
        statistics = boxplot_stats(self.ranks[:, self._order])
        numbers = [[box[key] for key in _BOX] for box in statistics]
        low, q1, median, q3, high = np.transpose(numbers)
        dark: base.Style = {"color": "0.3", "linewidth": 1.0}
        whiskers = ax.hlines(rows, low, high, zorder=1.5, **dark)
        ends = np.r_[rows, rows]
        ax.vlines(np.r_[low, high], ends - 0.15, ends + 0.15, **dark)
        boxes = ax.barh(rows, q3 - q1, 0.6, left=q1, zorder=2.0)
        for box in boxes:
            box.set(facecolor="0.85", edgecolor="0.3")
        medians = ax.vlines(median, rows - 0.3, rows + 0.3, color="black", zorder=2.5)
        medians.set(linewidth=2.0)
        beyond = [(x, i) for i, box in enumerate(statistics) for x in box["fliers"]]
        (fliers,) = ax.plot(*np.reshape(beyond, (-1, 2)).T, "o", fillstyle="none")
        fliers.set(markersize=4.0, markeredgecolor="0.3")
        self.artists_ |= {"boxes": boxes, "whiskers": whiskers}
        self.artists_ |= {"medians": medians, "fliers": fliers}
        ax.set_xlabel(f"rank on {len(self.ranks)} datasets (1 is best)", wrap=True)
        return float(len(self.names))

    def _plot_by_size(
        self,
        ax: base.Axes | None,
        log_x: bool,
        max_named: int,
        numbers: Mapping[str, int],
    ) -> None:
        """Draw a line for each encoder. The legend follows the final order."""
        best, last = self.ranks.min(axis=0), self.ranks[-1]
        named = base.named_lines(best, last, max_named)
        styles = {
            i: base.line_style(numbers.get(self.names[i], k))
            for k, i in enumerate(sorted(named))
        }
        legend = [self.names[i] for i in sorted(named, key=last.__getitem__)]
        others = ["others"] if len(named) < len(self.names) else []
        ax = self._use_axes_beside_legend(ax, legend + others)
        lines: dict[str, base.Line2D] = {}
        for i, name in enumerate(self.names):
            (lines[name],) = ax.plot(self.sizes, self.ranks[:, i])
            lines[name].set(**styles.get(i, base.OTHERS))
            if i in styles:
                marker = "o" if len(self.ranks) <= 10 else ""
                lines[name].set(linewidth=1.8, marker=marker, markersize=4.0)
        self.artists_ = dict(lines)
        if log_x:
            ax.set_xscale("log")
        self._mark_ends()
        n_encoders = len(self.names)
        ax.set_ylim(n_encoders + 0.15, 0.85)
        ax.set_yticks(np.arange(1, n_encoders + 1, 1 + n_encoders // 15))
        ax.set(xlabel="labels", ylabel="average rank (1 is best)")
        unnamed = [name for name in self.names if name not in legend]
        shown = [lines[name] for name in [*legend, *unnamed[:1]]]
        base.put_legend(ax, shown, legend + others)

    def _mark_ends(self) -> None:
        """Mark where the number of datasets changes, with the new number."""
        if self.n_datasets is None:
            return
        for i in np.flatnonzero(np.diff(self.n_datasets)) + 1:
            middle = np.sqrt(self.sizes[i - 1] * self.sizes[i])
            self.ax_.axvline(middle, color="0.5", linestyle=":", linewidth=1.0)
            words, edge = f"{self.n_datasets[i]}", self.ax_.get_xaxis_transform()
            place: base.Style = {"xycoords": edge, "va": "top", "color": "0.3"}
            base.note(self.ax_, words, (middle, 1.0), (3, 0), **place)

    def _means(self) -> base.Floats:
        """Return average ranks, best first."""
        return np.sort(self.ranks.mean(axis=0))

    def frame(self) -> base.DataFrame:
        """Return the numbers in the figure as a DataFrame.

        For boxes and intervals, there is a row for each encoder, best first. The
        columns are the mean rank, the quartiles and the median for boxes, and the
        average rank and its bounds for intervals. For ``"by-size"``, each row has the
        average ranks at one size.
        """
        if self.kind == "by-size":
            table = base.matrix_frame(self.ranks, self.names, self.sizes)
            return table.rename_axis("labels")
        columns: dict[str, object] = {"encoder": [self.names[i] for i in self._order]}
        if self.intervals is None:
            ranks = self.ranks[:, self._order]
            first, median, third = np.percentile(ranks, [25, 50, 75], axis=0)
            columns |= {"mean": self._means(), "first_quartile": first}
            columns |= {"median": median, "third_quartile": third}
        else:
            columns["average_rank"] = self._means()
            for name in ("lower", "upper"):
                columns[name] = getattr(self.intervals, name)[self._order]
        return base.data_frame(columns, "encoder")


def _checked_sizes(sizes: ArrayLike | None) -> NDArray[np.int64]:
    """Return sizes as an array, or raise unless they are positive and increasing."""
    array = np.asarray(sizes)
    whole = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    if not whole or array.min() < 1 or (np.diff(array) <= 0).any():
        raise invalid("sizes", "increasing integers > 0", sizes, "pass sizes=[10, 100]")
    return array.astype(np.int64)


def _ranks_by_size(
    scorer: base.Ranking, sizes: ArrayLike | None
) -> tuple[NDArray[np.int64], base.Floats, list[int]]:
    """Return the sizes, with average ranks and the number of datasets at each size."""
    names = list(scorer.encoder_names_)
    lengths = {cell.dataset: cell.n_samples for cell in scorer.cells_}
    shortest, longest = min(lengths.values()), max(lengths.values())
    if sizes is None:
        sizes = np.unique(np.geomspace(min(10, shortest), shortest, 40).astype(int))
    checked = _checked_sizes(sizes)
    if checked[-1] > longest:
        required = f"at most {longest} (the longest dataset)"
        raise invalid("sizes", required, checked.tolist(), "omit larger sizes")
    nats = np.full((len(checked), len(lengths), len(names)), np.nan)
    for d, (dataset, length) in enumerate(lengths.items()):
        kept = checked <= length
        for name, codelengths in base.codelengths_of(scorer, dataset):
            nats[kept, d, names.index(name)] = np.cumsum(codelengths)[checked[kept] - 1]
    counts = [sum(length >= n for length in lengths.values()) for n in checked]
    return checked, np.stack([_average_ranks(table) for table in nats]), counts


def _average_ranks(nats: base.Floats) -> base.Floats:
    """Return average ranks over the datasets with enough labels."""
    counting = nats[~np.isnan(nats).any(axis=1)]
    scale = np.abs(counting).max(axis=1, keepdims=True)
    return average_ranks(np.round(counting / np.where(scale > 0, scale, 1.0), 9))
