"""Next-step loss against labels observed, and labels needed for a target loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl import metrics
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base


class LearningCurveDisplay(base.Display):
    """Mean next-step loss against labels observed, over growing intervals.

    Labels must be classes. For real-valued labels, whose codelengths may be negative,
    use :class:`CodelengthDisplay`.

    With a target loss `epsilon`, each curve has two summaries (Whitney et al., 2020).
    The sample complexity, drawn as a dot, is the number of labels needed until the mean
    losses of intervals stay at or below `epsilon`. The surplus description length is a
    sum: each interval whose mean loss exceeds `epsilon` adds the excess times its
    number of labels. In the legend, ``>`` marks a lower bound, for a curve that ends
    too early.

    Parameters
    ----------
    curves : mapping of str to array-like of shape (n_samples,) or (n_orders, n_samples)
        Codelength of each example in the order of evaluation, in nats, keyed by the
        curve's name. Codelengths are averaged over orders.
    epsilon : float, optional
        Target loss, in nats per label.
    n_intervals : int, default=20
        Largest number of intervals over which losses are averaged.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    lines_ : dict of str to matplotlib Line2D
        The drawn curves, with steps at the mean loss of each interval.
    dots_ : dict of str to matplotlib Line2D
        Dots at the sample complexities of the curves that reach `epsilon`.

    Examples
    --------
    >>> from sklearn_mdl.display import LearningCurveDisplay
    >>> losses = [0.7, 0.7, 0.4, 0.1, 0.1]
    >>> LearningCurveDisplay({"raw": losses}, epsilon=0.2).readings()["raw"][0]
    CurveReading(value=3.0, is_bound=False)
    """

    def __init__(
        self,
        curves: Mapping[str, ArrayLike],
        *,
        epsilon: float | None = None,
        n_intervals: int = 20,
    ) -> None:
        self.curves = {name: np.asarray(c, np.float64) for name, c in curves.items()}
        if not self.curves:
            raise invalid("curves", "non-empty", curves, "pass {'raw': codelengths}")
        for name, curve in self.curves.items():
            least = float(np.min(curve, initial=0.0))
            if least < -1e-9:  # rounding may give values slightly below zero
                cure = "for real-valued labels, use CodelengthDisplay instead"
                raise invalid(f"curve {name!r}", "0 nats or more", least, cure)
        self.epsilon, self.n_intervals = epsilon, n_intervals
        self._means: dict[str, metrics.LossDataCurve] = {
            name: metrics.loss_data_curve(curve, n_intervals=n_intervals)
            for name, curve in self.curves.items()
        }
        self.readings()

    @classmethod
    def from_estimator(
        cls,
        estimator: base.Switcher,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the curve of a switcher.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted switcher.
        epsilon : float, optional
            Target loss, in nats per label.
        name : str, optional
            Name of the curve (by default the name of the switcher's class).
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(estimator, "readout_losses_", base.CURVE)
        curves = {name or type(estimator).__name__: estimator.codelengths_}
        return cls(curves, epsilon=epsilon).plot(**plot_options)

    @classmethod
    def from_scorer(
        cls,
        scorer: base.Ranking,
        dataset: str | None = None,
        *,
        epsilon: float | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the encoders of a ranking on one dataset, averaged over orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted ranking.
        dataset : str, optional
            Name of the dataset (not needed if there is only one).
        epsilon : float, optional
            Target loss, in nats per label.
        **plot_options : optional
            Passed to `plot`.
        """
        curves = dict(base.codelengths_of(scorer, base.dataset_of(scorer, dataset)))
        return cls(curves, epsilon=epsilon).plot(**plot_options)

    def readings(self) -> dict[str, tuple[metrics.CurveReading, metrics.CurveReading]]:
        """Return each curve's sample complexity and surplus description length.

        Returns
        -------
        readings : dict of str to (CurveReading, CurveReading)
            Sample complexity in labels and surplus in nats, keyed by the curve's name.
            Empty if `epsilon` is None.
        """
        if self.epsilon is None:
            return {}
        epsilon, n = self.epsilon, self.n_intervals
        return {
            name: (
                metrics.sample_complexity(curve, epsilon, n_intervals=n),
                metrics.surplus_description_length(curve, epsilon, n_intervals=n),
            )
            for name, curve in self.curves.items()
        }

    def plot(
        self, ax: base.Axes | None = None, *, log_x: bool = True, log_y: bool = False
    ) -> Self:
        """Draw the curves, with their summaries in the legend.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.
        log_x : bool, default=True
            If True, the x-axis is logarithmic. Such an axis has no zero, so the first
            prediction, before any label, is left out if there are others.
        log_y : bool, default=False
            If True, the y-axis is logarithmic.

        Returns
        -------
        display : LearningCurveDisplay
            The display itself.
        """
        labels = {name: name for name in self.curves}
        for name, (n, nats) in self.readings().items():
            labels[name] += f": {_words(n)} labels, {_words(nats)} nats"
        ax = self._use_axes_beside_legend(ax, list(labels.values()))
        self.lines_: dict[str, base.Line2D] = {}
        self.dots_: dict[str, base.Line2D] = {}
        for i, (name, curve) in enumerate(self._means.items()):
            x, y = _steps(curve, int(log_x))
            (self.lines_[name],) = ax.plot(x, y, linewidth=1.8, drawstyle="steps-post")
            self.lines_[name].set(**base.line_style(i))
        if self.epsilon is not None:
            ax.axhline(self.epsilon, color="0.4", linewidth=0.8, zorder=1)
            self._mark_readings()
        if log_x:
            ax.set_xscale("log")
        if log_y:
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0.0)
        ax.set_xlabel("labels observed")
        ax.set_ylabel("next-step loss (nats per label)", wrap=True)
        title = None if self.epsilon is None else "sample complexity, surplus"
        base.put_legend(ax, self.lines_.values(), list(labels.values()), title=title)
        return self

    def _mark_readings(self) -> None:
        """Label epsilon, and draw sample complexities and a single curve's surplus."""
        ax, epsilon = self.ax_, float(self.epsilon or 0.0)
        for name, (labels, _) in self.readings().items():
            if not labels.is_bound:
                (self.dots_[name],) = ax.plot(labels.value, epsilon, "o", zorder=3)
                self.dots_[name].set_color(self.lines_[name].get_color())
        if len(self.lines_) == 1:
            ((name, line),) = self.lines_.items()
            x, y = map(np.asarray, line.get_data())
            shade = ax.fill_between(x, epsilon, np.maximum(y, epsilon), step="post")
            shade.set(color=line.get_color(), alpha=0.2, linewidth=0.0)
        words, edge = f"ε = {epsilon:g}", ax.get_yaxis_transform()
        place: base.Style = {"xycoords": edge, "va": "baseline", "color": "0.3"}
        base.note(ax, words, (0.0, epsilon), (3, 2), **place)

    def frame(self) -> base.DataFrame:
        """Return the drawn means as a DataFrame: one row per curve and interval."""
        rows = [
            (name, start, stop, loss)
            for name, curve in self._means.items()
            for start, stop, loss in zip(*curve, strict=True)
        ]
        return base.matrix_frame(rows, ["curve", "start", "stop", "loss"])


def _steps(
    curve: metrics.LossDataCurve, first: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the corners of the steps. Steps before `first` labels are left out.

    A single step is kept in any case.
    """
    kept = curve.starts >= first if len(curve.starts) > 1 else curve.starts >= 0
    x = np.append(curve.starts[kept], curve.stops[-1])
    losses = curve.losses[kept]
    return x, np.append(losses, losses[-1])


def _words(reading: metrics.CurveReading) -> str:
    return f"{'>' if reading.is_bound else ''}{reading.value:,.0f}"
