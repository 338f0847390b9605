"""SVG figures without scripts, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sklearn_mdl.report._curves import Curve, Floats

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 44
N_COLOURS, N_DASHES = 10, 4  # in style.css and page.js: colours repeat with dashes
MOST_KINDS = 6  # kinds to show if the others are added up


class Line(NamedTuple):
    """A line or an area of a figure: name, style and paths."""

    name: str
    style: str
    path: str
    band: str = ""


class Plot(NamedTuple):
    """A figure: titles of the axes, ticks (position and text), and lines."""

    x_title: str
    y_title: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    lines: list[Line]


class Scale:
    """A scale that maps numbers to positions in a figure.

    Parameters
    ----------
    low, high : float
        Numbers at the two ends of the scale.
    start, stop : float
        Positions of the two ends in the figure.
    log : bool, default=False
    """

    def __init__(
        self, low: float, high: float, start: float, stop: float, *, log: bool = False
    ) -> None:
        self.log = log
        self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.stop = start, stop

    def __call__(self, values: Floats) -> Floats:
        """Return the positions of numbers."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(values), math.log(low), math.log(high)
        share: Floats = (np.asarray(values) - low) / (high - low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the positions and texts of ticks, which are at round numbers."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), 9)
            steps = [m * 10.0**k for k in decades for m in (1, 2, 5)]
        else:
            rough = (self.high - self.low) / 5
            unit = 10.0 ** math.floor(math.log10(rough))
            step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough)
            first = math.ceil(self.low / step - 1e-9)
            steps = [k * step for k in range(first, first + 12)]
        low, high = self.low * (1 - 1e-9), self.high * (1 + 1e-9)
        inside = [step for step in steps if low <= step <= high]
        places = self(np.array(inside)).tolist()
        return [(p, f"{x:,.10g}") for p, x in zip(places, inside, strict=True)]


def style_of(place: int) -> str:
    """Return the CSS classes of a curve: a colour, and dashes if colours repeat."""
    return f"c{place % N_COLOURS} d{min(place // N_COLOURS, N_DASHES - 1)}"


def curves_plot(curves: Mapping[int, tuple[str, Curve]], measure: str) -> Plot:
    """Return a figure of curves with their bands.

    Parameters
    ----------
    curves : mapping of int to (str, Curve)
        Names and curves, keyed by a number that determines the style of the curve.
    measure : {"nats", "accuracy"}
    """
    tables = [
        (place, name, c.labels, getattr(c, measure), np.nan_to_num(half))
        for place, (name, c) in curves.items()
        for half in [getattr(c, f"{measure}_half")]  # NaN for a single group
    ]
    x = _x_scale([labels for _, _, labels, _, _ in tables])
    lows = [float((y - half).min()) for *_, y, half in tables]
    highs = [float((y + half).max()) for *_, y, half in tables]
    low, high = (0.0, 1.0) if measure == "accuracy" else (min(lows), max(highs))
    low = max(low, 0.0) if min(float(y.min()) for *_, y, _ in tables) >= 0 else low
    y_scale = Scale(low, high, HEIGHT - BOTTOM, TOP)
    lines = []
    for place, name, labels, values, half in tables:
        places, bounds = x(labels), (values - half, values + half)
        below, above = (y_scale(np.clip(b, low, high)) for b in bounds)
        band = _path(np.r_[places, places[::-1]], np.r_[below, above[::-1]]) + "Z"
        lines.append(Line(name, style_of(place), _path(places, y_scale(values)), band))
    title = "nats per label" if measure == "nats" else "accuracy"
    return Plot("labels seen", title, x.ticks(), y_scale.ticks(), lines)


def kinds_plot(curve: Curve) -> Plot:
    """Return a figure with the weights of readout kinds as stacked areas."""
    x = _x_scale([curve.labels])
    y_scale = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    places, lines, below = x(curve.labels), [], np.zeros(len(curve.labels))
    for place, (name, share) in enumerate(main_kinds(curve.kinds).items()):
        above = below + share
        ends = y_scale(below), y_scale(above)
        path = _path(np.r_[places, places[::-1]], np.r_[ends[0], ends[1][::-1]]) + "Z"
        lines.append(Line(name, style_of(place), path))
        below = above
    return Plot("labels seen", "weight", x.ticks(), y_scale.ticks(), lines)


def main_kinds(kinds: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the kinds with the largest weights, and the sum of the others if any."""
    names = sorted(kinds, key=lambda name: -float(kinds[name].mean()))
    named = names if len(names) <= MOST_KINDS + 1 else names[:MOST_KINDS]
    weights = {name: kinds[name] for name in named}
    if rest := names[len(named) :]:
        weights["others"] = np.sum([kinds[name] for name in rest], axis=0)
    return weights


def spark(values: Floats, *, low: float, high: float) -> str:
    """Return the path of a small curve, 90 by 22 pixels."""
    return _path(np.linspace(1, 89, len(values)), Scale(low, high, 21, 1)(values))


def _x_scale(labels: Sequence[Floats]) -> Scale:
    low = max(1.0, min(float(curve[0]) for curve in labels))
    high = max(float(curve[-1]) for curve in labels)
    return Scale(low, max(high, low + 1), LEFT, WIDTH - RIGHT, log=True)


def _path(x: Floats, y: Floats) -> str:
    points = zip(np.round(x, 1).tolist(), np.round(y, 1).tolist(), strict=True)
    return "M" + "L".join(f"{a:g} {b:g}" for a, b in points)
