"""The posterior over readouts against the number of examples seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.tables import short_names
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base

_HATCHES = ("", "////", "....", "xxxx")
_BLOCK = 8192


class Trace(Protocol):
    """A trace with the posterior before each of its steps."""

    @property
    def posterior(self) -> base.Floats: ...


class PosteriorDisplay(base.Display):
    """Stacked posterior probabilities of readouts against examples seen.

    Long posteriors are averaged over intervals, not subsampled. So each area shows the
    mean posterior, and short peaks still count.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_kinds)
        Probability of each readout, or kind of readout, at example ``t`` given the
        labels before ``t``. Rows sum to one.
    names : sequence of str of length n_kinds
        Names of the columns.
    steps : array-like of shape (n_samples,), optional
        Number of examples seen before each row, strictly increasing. Pass
        ``trace.steps`` for a thinned posterior. By default ``t`` for row ``t``.
    retirements : sequence of int, optional
        Numbers of examples after which readouts retired, marked by dotted lines.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    areas_ : list of matplotlib PolyCollection
        The drawn areas, from the lowest to the highest.
    """

    def __init__(
        self,
        posterior: ArrayLike,
        names: Sequence[str],
        steps: ArrayLike | None = None,
        *,
        retirements: Sequence[int] = (),
    ) -> None:
        self.retirements = list(retirements)
        self.names = list(names)
        self.posterior = base.columns(posterior, "posterior", self.names)
        n_samples, least = len(self.posterior), self.posterior.min()
        total = self.posterior.sum(axis=1)
        if not np.allclose(total, 1.0, rtol=0.0, atol=1e-5) or least < 0:
            raise ValueError(
                "rows of posterior must be probabilities that sum to one, got sums "
                f"from {total.min():g} to {total.max():g}, minimum {least:g}; with p = "
                "np.nan_to_num(posterior).clip(1e-12), pass p / p.sum(1, keepdims=True)"
            )
        self.steps = np.arange(n_samples) if steps is None else np.asarray(steps)
        if self.steps.shape != (n_samples,) or (np.diff(self.steps) <= 0).any():
            required = f"{n_samples} strictly increasing numbers, one for each row"
            cure = "omit steps or, for the posterior of a trace, pass trace.steps"
            raise invalid("steps", required, self.steps.tolist(), cure)

    @classmethod
    def from_estimator(
        cls,
        estimator: base.Switcher,
        *,
        by: str | None = "architecture",
        **plot_options: Any,
    ) -> Self:
        """Draw the posterior over the readouts of a switcher.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted estimator.
        by : {"architecture", "view"} or None
            Add up the probabilities of all readouts of an architecture, or of all
            readouts of a view. If None, each area shows one readout.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(estimator, "posterior_")
        base.check_choice(by, "by", ("architecture", "view", None))
        posterior = estimator.posterior_
        if by is None:
            names = estimator.readout_names_
        elif by == "view":
            posterior = estimator.view_posterior_
            names = [str(name or "all columns") for name in estimator.view_names_]
        else:
            members = base.architectures(estimator)
            posterior = _sums(posterior, list(members.values()))
            names = list(members)
        counts = sorted(set(estimator.retired_at_.tolist()) - {-1})
        return cls(posterior, names, retirements=counts).plot(**plot_options)

    @classmethod
    def from_trace(
        cls, trace: Trace, names: Sequence[str], **plot_options: Any
    ) -> Self:
        """Draw the posterior of a trace, such as a cell of a ranking.

        Parameters
        ----------
        trace : object with ``posterior`` and optionally ``steps``
            A ``ForwardTrace`` or a cell of a ranking. For a cell, pass
            ``cell.architectures`` as `names`.
        names : sequence of str
            Names of the columns of the posterior.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(trace, "posterior", "pass a ForwardTrace or scorer.cells_[0]")
        display = cls(trace.posterior, names, getattr(trace, "steps", None))
        return display.plot(**plot_options)

    def plot(
        self, ax: base.Axes | None = None, *, log_x: bool = True, max_points: int = 400
    ) -> Self:
        """Draw the areas. The legend lists them from top to bottom.

        If there are more than 24 areas, the legend lists the 24 with the highest peaks.
        It omits settings that all listed readouts of an architecture share.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.
        log_x : bool, default=True
            If True, the x-axis is logarithmic. Such an axis has no zero, so the prior
            (a first row with zero examples seen) is left out if there are other rows.
        max_points : int, default=400
            Longer posteriors are averaged over at most this many intervals, which are
            about evenly spaced on the axis. Each interval is drawn at the mean position
            of its examples. The first and the last row are intervals of their own.

        Returns
        -------
        display : PosteriorDisplay
            The display itself.
        """
        start = int(log_x and len(self.posterior) > 1 and self.steps[0] <= 0)
        steps, shares = self._interval_means(start, max_points, log_x)
        by_peak = np.argsort(-self.posterior.max(axis=0), kind="stable")
        listed = np.sort(by_peak[: base.LEGEND_ROWS])[::-1]
        labels = short_names([self.names[i] for i in listed])
        ax = self._use_axes_beside_legend(ax, labels, boxed=True)
        self.areas_ = ax.stackplot(steps, shares.T, linewidth=0.0)
        for i, area in enumerate(self.areas_):
            cycle, colour = divmod(i, len(base.COLOURS))
            hatch = _HATCHES[cycle % len(_HATCHES)]
            area.set(facecolor=base.COLOURS[colour], edgecolor="white", hatch=hatch)
        for count in self.retirements:
            ax.axvline(count, color="0.2", linewidth=0.8, linestyle=":")
        if log_x and steps[0] > 0:
            ax.set_xscale("log")
        ax.margins(x=0.0)
        ax.set(ylim=(0.0, 1.0), xlabel="examples seen", ylabel="posterior probability")
        base.put_legend(ax, [self.areas_[i] for i in listed], labels)
        return self

    def _interval_means(
        self, start: int, max_points: int, log_x: bool
    ) -> tuple[base.Floats, base.Floats]:
        """Return the position and the mean posterior of each interval."""
        rows = start + _starts(len(self.posterior) - start, max_points, log_x)
        # In a thinned trace, a row represents the examples up to the next row. The last
        # row only represents itself.
        weights = np.diff(self.steps, append=self.steps[-1] + 1).astype(np.float64)
        totals = np.add.reduceat(weights, rows)
        shares = np.add.reduceat(weights[:, None] * self.posterior, rows)
        is_log = log_x and self.steps[start] > 0
        x = self.steps.astype(np.float64)
        x[start:] = np.log(x[start:]) if is_log else x[start:]
        places = np.add.reduceat(weights * x, rows) / totals
        places = np.exp(places) if is_log else places
        single = np.diff(rows, append=len(x)) == 1
        places[single] = self.steps[rows[single]]
        return places, shares / totals[:, None]

    def frame(self) -> base.DataFrame:
        """Return the whole posterior as a DataFrame, indexed by the examples seen."""
        table = base.matrix_frame(self.posterior, self.names, self.steps)
        return table.rename_axis("examples seen")


def _starts(n_samples: int, max_points: int, log_x: bool) -> NDArray[np.intp]:
    """Return the first row of each interval. There are at most `max_points` intervals.

    Intervals are about evenly spaced on the axis. The first and the last row are
    intervals of their own.
    """
    if max_points < 3:
        raise invalid("max_points", "at least 3", max_points, "pass max_points=1000")
    inner = base.thinned(n_samples - 1, max_points - 1, log_x)
    return np.unique(np.concatenate([[0], 1 + inner]))


def _sums(posterior: ArrayLike, groups: Sequence[Sequence[int]]) -> base.Floats:
    """Return sums over groups of columns. A posterior on disk is read in blocks."""
    array = np.asarray(posterior)
    belongs = np.zeros((array.shape[1], len(groups)))
    for j, columns in enumerate(groups):
        belongs[list(columns), j] = 1.0
    starts = range(0, max(1, len(array)), _BLOCK)
    return np.concatenate([array[i : i + _BLOCK] @ belongs for i in starts])
