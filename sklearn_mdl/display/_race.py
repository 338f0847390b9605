"""Evidence against the encoders of a race, and bounds on their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base

QUANTITIES = ("evidence", "bounds")
LEAST_EVIDENCE = -7.0  # lowest log evidence to draw


class Race(Protocol):
    """A race of encoders with at least one label.

    Its history is three arrays (n_labels, n_encoders): logs of the e-values, and the
    lower and upper bounds.
    """

    encoder_names_: list[str]
    eliminated_at_: dict[str, int]
    threshold_: float
    leader_: str

    def history(self) -> tuple[base.Floats, base.Floats, base.Floats]: ...


class RaceDisplay(base.Display):
    """A race of encoders against the number of labels observed.

    The figure shows either evidence or bounds. The evidence against an encoder is its
    largest e-value for being behind a rival, on a log scale. A horizontal line marks
    the e-value at which an encoder is eliminated. Bounds are confidence bands for the
    mean difference from the leader. The bands stay valid however often you look, but
    those of an asymptotic race are approximate. An encoder's curve ends where the
    encoder is eliminated.

    Parameters
    ----------
    names : sequence of str
        Names of the encoders.
    log_e_values, lower, upper : array-like of shape (n_labels, n_encoders)
        Logs of the e-values, and bounds in nats per label. Infinite bounds are not
        drawn.
    threshold : float
        E-value at which an encoder is eliminated.
    eliminated_at : mapping of str to int
        Number of labels after which each eliminated encoder left the race.
    leader : str
        The encoder to which the others are compared.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    lines_ : dict of str to matplotlib Line2D
        The drawn curves, keyed by encoder.

    Examples
    --------
    >>> from sklearn_mdl.display import RaceDisplay
    >>> logs, bound = [[0.0, 0.1], [-1.0, 3.5]], [[0.0, 0.2], [0.0, 0.3]]
    >>> display = RaceDisplay(["a", "b"], logs, bound, bound, threshold=20.0,
    ...                       eliminated_at={"b": 2}, leader="a")
    >>> len(display.frame())
    4
    """

    def __init__(
        self,
        names: Sequence[str],
        log_e_values: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        threshold: float,
        eliminated_at: Mapping[str, int],
        leader: str,
    ) -> None:
        self.names, self.threshold = list(names), threshold
        base.check_choice(leader, "leader", self.names)
        self.eliminated_at, self.leader = dict(eliminated_at), leader
        tables = [np.asarray(t, np.float64) for t in (log_e_values, lower, upper)]
        self.log_e_values, self.lower, self.upper = tables
        for table in tables:
            if table.shape != (len(tables[0]), len(names)) or not len(table):
                required = f"of shape (n_labels, {len(names)}), n_labels > 0"
                cure = "call race.update(X, y), or pass *race.history()"
                raise invalid("log_e_values, lower, upper", required, table.shape, cure)

    @classmethod
    def from_race(cls, race: Race, **plot_options: Any) -> Self:
        """Draw a race.

        Parameters
        ----------
        race : EncoderRace
            A race with at least one label.
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(race, "encoder_names_", "call race.update(X, y) first")
        ends = {"eliminated_at": race.eliminated_at_, "leader": race.leader_}
        options: base.Style = {"threshold": race.threshold_, **ends}
        return cls(race.encoder_names_, *race.history(), **options).plot(**plot_options)

    def plot(
        self,
        ax: base.Axes | None = None,
        *,
        quantity: str = "evidence",
        max_named: int = 12,
    ) -> Self:
        """Draw a curve for each encoder or, for bounds, a curve with a band.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.
        quantity : {"evidence", "bounds"}, default="evidence"
            E-values, or bounds on the difference from the leader.
        max_named : int, default=12
            Largest number of encoders that the legend names: the leader, then the
            encoders that stay in the race longest.

        Returns
        -------
        display : RaceDisplay
            The display itself.
        """
        base.check_choice(quantity, "quantity", QUANTITIES)
        n_labels = len(self.log_e_values)
        ends = [self.eliminated_at.get(name, n_labels) for name in self.names]
        is_leader = np.array([name == self.leader for name in self.names])
        named = base.named_lines(~is_leader, -np.array(ends, dtype=float), max_named)
        labels = [self._label(i) for i in named]
        ax = self._use_axes_beside_legend(ax, labels)
        self.lines_: dict[str, base.Line2D] = {}
        for i in np.argsort(ends):
            style = base.line_style(named.index(i)) if i in named else base.OTHERS
            self._draw(ax, int(i), ends[i], quantity, style)
        if quantity == "evidence":
            ax.axhline(self.threshold, color="0.4", linewidth=0.8, zorder=1)
            place: base.Style = {"xycoords": ax.get_yaxis_transform(), "va": "bottom"}
            text = f"out at {self.threshold:.3g}"
            base.note(ax, text, (1.0, self.threshold), (-3, 2), ha="right", **place)
            ax.set_yscale("log")
            ax.set_ylabel("evidence of being behind (e-value)", wrap=True)
        else:
            ax.axhline(0.0, color="0.4", linewidth=0.8, zorder=1)
            ax.set_ylabel("loss minus that of the leader (nats per label)", wrap=True)
        ax.set_xlabel("labels observed")
        base.put_legend(ax, [self.lines_[self.names[i]] for i in named], labels)
        return self

    def _draw(
        self, ax: base.Axes, i: int, end: int, quantity: str, style: base.Style
    ) -> None:
        """Draw one encoder's curve, with a dot where the encoder is eliminated."""
        name, x = self.names[i], np.arange(1, end + 1)
        if quantity == "evidence":
            logs = self.log_e_values[:end, i]
            y = np.where(logs < LEAST_EVIDENCE, np.nan, np.exp(np.minimum(logs, 700)))
        else:
            low, high = self.lower[:end, i], self.upper[:end, i]
            kept = np.isfinite(low) & np.isfinite(high)
            low, high = np.where(kept, [low, high], np.nan)
            y = (low + high) / 2
            if name != self.leader:
                colour = style["color"]
                ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        (self.lines_[name],) = ax.plot(x, y, linewidth=1.6)
        self.lines_[name].set(**style)
        if name in self.eliminated_at:
            ax.plot(end, y[-1], "o", color=style["color"], markersize=4)

    def _label(self, i: int) -> str:
        name = self.names[i]
        if name in self.eliminated_at:
            return f"{name}: out at {self.eliminated_at[name]}"
        return f"{name} (leads)" if name == self.leader else name

    def frame(self) -> base.DataFrame:
        """Return the numbers as a DataFrame: a row for each label and encoder.

        Returns
        -------
        frame : pandas.DataFrame
            Columns n_labels, encoder, log_e_value, lower and upper (nats per label).
        """
        n_labels, n_encoders = self.log_e_values.shape
        columns = {
            "n_labels": np.repeat(np.arange(1, n_labels + 1), n_encoders),
            "encoder": np.tile(self.names, n_labels),
            "log_e_value": self.log_e_values.ravel(),
            "lower": self.lower.ravel(),
            "upper": self.upper.ravel(),
        }
        return base.plot_extra("pandas").DataFrame(columns)
