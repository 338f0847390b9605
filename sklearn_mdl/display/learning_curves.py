"""Next-step loss against labels learned, and what it takes to get it low enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.codelength import (
    CurveReading,
    LossDataCurve,
    loss_data_curve,
    sample_complexity,
    surplus_description_length,
)
from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import codelengths_of, dataset_of


class LearningCurveDisplay:
    """Mean next-step loss against labels learned, over intervals that grow.

    It is of classes: densities of real labels may cost less than nothing, and have no
    loss that is good enough. Their codelengths are drawn by :class:`CodelengthDisplay`.

    With `epsilon`, a loss that is good enough, two numbers are read off each curve: the
    sample complexity, a dot where the curve is there for good, and the surplus
    description length, the nats paid above `epsilon` on the way (Whitney et al., 2020).

    Parameters
    ----------
    curves : mapping of str to array-like of shape (n_samples,) or (n_orders, n_samples)
        Codelength of each example in the order walked, in nats, under each name; of
        several orders the mean is drawn.
    epsilon : float, optional
        Nats per label that are good enough.
    n_intervals : int, default=20
        Largest number of intervals over which losses are averaged.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn last.
    lines_ : dict of str to matplotlib Line2D
        The drawn curves: steps, each as high as the mean loss of its interval.
    dots_ : dict of str to matplotlib Line2D
        Sample complexities, of the curves that get there.

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
        self.curves = {
            name: np.asarray(curve, dtype=np.float64) for name, curve in curves.items()
        }
        if not self.curves:
            raise ValueError("`curves` must hold a curve, got none: give one or more.")
        for name, curve in self.curves.items():
            _refuse_densities(name, curve)
        self.epsilon, self.n_intervals = epsilon, n_intervals
        self._means: dict[str, LossDataCurve] = {
            name: loss_data_curve(curve, n_intervals=n_intervals)
            for name, curve in self.curves.items()
        }
        self.readings()

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> LearningCurveDisplay:
        """Draw the curve of a switcher.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted one.
        epsilon : float, optional
            Nats per label that are good enough.
        name : str, optional
            Name of the curve; by default that of the switcher's class.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        codelengths = canvas.fitted(estimator, "codelengths_")
        curves = {name or type(estimator).__name__: codelengths}
        return cls(curves, epsilon=epsilon).plot(ax, **plot_options)

    @classmethod
    def from_scorer(
        cls,
        scorer: Any,
        dataset: str | None = None,
        *,
        epsilon: float | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> LearningCurveDisplay:
        """Draw the encoders of a ranking on one dataset, means over its orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        dataset : str, optional
            Its name; not needed if there is only one.
        epsilon : float, optional
            Nats per label that are good enough.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        curves = codelengths_of(scorer, dataset_of(scorer, dataset))
        return cls(curves, epsilon=epsilon).plot(ax, **plot_options)

    def readings(self) -> dict[str, tuple[CurveReading, CurveReading]]:
        """Return sample complexity and surplus description length by name.

        Returns
        -------
        readings : dict of str to (CurveReading, CurveReading)
            In labels, and in nats; empty without `epsilon`.
        """
        if self.epsilon is None:
            return {}
        epsilon, n = self.epsilon, self.n_intervals
        return {
            name: (
                sample_complexity(curve, epsilon, n_intervals=n),
                surplus_description_length(curve, epsilon, n_intervals=n),
            )
            for name, curve in self.curves.items()
        }

    def plot(
        self, ax: Any = None, *, log_x: bool = True, log_y: bool = False
    ) -> LearningCurveDisplay:
        """Draw the curves; the legend tells what was read off them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        log_x : bool, default=True
            Whether labels are spaced logarithmically. Such an axis has no zero, so the
            first prediction, made from nothing, is left out.
        log_y : bool, default=False
            Whether losses are.

        Returns
        -------
        display : LearningCurveDisplay
            The display itself.
        """
        labels = self._labels()
        self.ax_ = ax = canvas.axes_beside_legend(ax, list(labels.values()))
        self.figure_ = ax.figure
        self.lines_: dict[str, Any] = {}
        self.dots_: dict[str, Any] = {}
        for i, (name, curve) in enumerate(self._means.items()):
            x, y = _steps(curve, int(log_x))
            style = {**canvas.line_style(i), "drawstyle": "steps-post"}
            (self.lines_[name],) = ax.plot(x, y, linewidth=1.8, **style)
        if self.epsilon is not None:
            ax.axhline(self.epsilon, color="0.4", linewidth=0.8, zorder=1)
            self._mark_readings()
        if log_x:
            ax.set_xscale("log")
        if log_y:
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0.0)
        ax.set_xlabel("labels learned")
        ax.set_ylabel("next-step loss (nats per label)", wrap=True)
        ax.spines[["top", "right"]].set_visible(False)
        title = None if self.epsilon is None else "sample complexity, surplus"
        handles = list(self.lines_.values())
        canvas.put_legend(ax, handles, list(labels.values()), title=title)
        return self

    def _labels(self) -> dict[str, str]:
        """Return what the legend calls each curve."""
        readings = self.readings()
        if not readings:
            return {name: name for name in self.curves}
        return {
            name: f"{name}: {_words(labels, 0)} labels, {_words(surplus, 0)} nats"
            for name, (labels, surplus) in readings.items()
        }

    def _mark_readings(self) -> None:
        """Mark epsilon, sample complexities and, of a curve alone, the surplus."""
        ax, epsilon = self.ax_, float(self.epsilon or 0.0)
        for name, (labels, _) in self.readings().items():
            colour = self.lines_[name].get_color()
            if not labels.is_bound:
                (self.dots_[name],) = ax.plot(
                    labels.value, epsilon, "o", color=colour, zorder=3
                )
        if len(self.lines_) == 1:
            ((name, line),) = self.lines_.items()
            x, y = line.get_data()
            ax.fill_between(
                *(x, epsilon, np.maximum(y, epsilon)),
                step="post",
                color=line.get_color(),
                alpha=0.2,
                linewidth=0.0,
            )
        ax.annotate(
            f"ε = {epsilon:g}",
            (0.0, epsilon),
            xycoords=ax.get_yaxis_transform(),
            xytext=(3, 2),
            textcoords="offset points",
            fontsize="small",
            color="0.3",
        )

    def frame(self) -> Any:
        """Return the drawn means as a DataFrame: one row per curve and interval."""
        pandas = canvas.plot_extra("pandas")
        rows = [
            (name, start, stop, loss)
            for name, curve in self._means.items()
            for start, stop, loss in zip(*curve, strict=True)
        ]
        return pandas.DataFrame(rows, columns=["curve", "start", "stop", "loss"])


def _refuse_densities(name: str, curve: NDArray[np.float64]) -> None:
    """Refuse codelengths below zero; rounding may leave a certain label there."""
    least = np.min(curve, initial=0.0)
    if least < -1e-9:
        raise ValueError(
            "A learning curve is of classes, whose labels cost 0 nats or more, but "
            f"curve {name!r} holds {least:g}; draw densities of real labels by "
            "CodelengthDisplay."
        )


def _steps(
    curve: LossDataCurve, first: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return corners of steps, from so many labels on to the last prediction."""
    kept = curve.starts >= first if len(curve.starts) > 1 else curve.starts >= 0
    x = np.append(curve.starts[kept], curve.stops[-1])
    losses = curve.losses[kept]
    return x, np.append(losses, losses[-1])


def _words(reading: CurveReading, digits: int) -> str:
    return f"{'>' if reading.is_bound else ''}{reading.value:,.{digits}f}"
