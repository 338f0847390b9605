"""The page of a comparison, a self-contained HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sklearn_mdl import model_selection
from sklearn_mdl._core.io.environment import version_of
from sklearn_mdl._core.tables import duration_text, size_text
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.baselines import ProtocolComparison
from sklearn_mdl.model_selection import rounded
from sklearn_mdl.ranking import MOST_ENCODERS
from sklearn_mdl.report._curves import Floats
from sklearn_mdl.report._details import DETAILS
from sklearn_mdl.report._svg import (
    HEIGHT,
    WIDTH,
    Plot,
    curves_plot,
    kinds_plot,
    main_kinds,
    spark,
    style_of,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from sklearn_mdl.report._comparison import Comparison, Row

INSTALL = 'run pip install "sklearn-mdl[report]"'
GENERATOR = b'<meta name="generator" content="sklearn_mdl">'
FORMATS = {"rank": ".3g", "saved": ".3f", "accuracy": ".1%", "labels": ",.0f"}
HEAD_BYTES = 2**10  # GENERATOR is within this many bytes of a page's beginning


class Column(NamedTuple):
    """A column of the encoder table, with its key, title and term in the glossary."""

    key: str
    title: str
    term: str


class Cell(NamedTuple):
    """A cell of a table: its text and the number to sort by."""

    text: str
    value: float | str


class Versus(NamedTuple):
    """Number of datasets with significant savings over a rival, and all savings."""

    n_shorter: int
    details: str


def page_of(
    comparison: Comparison,
    protocols: ProtocolComparison | None = None,
    *,
    framed: bool = False,
) -> str:
    """Return the page of a comparison as HTML.

    Parameters
    ----------
    comparison : Comparison
    protocols : ProtocolComparison or None
        Results of other protocols for the same encoders.
    framed : bool, default=False
        If True, leave out the header, since a notebook shows the verdict above the
        frame.

    Raises
    ------
    ImportError
        If Jinja2, from the extra ``report``, is not installed.
    """
    if len(comparison.curves_by_cell) < len(comparison.scorer.cells_by_encoder()):
        warn_caller(
            "The losses of some cells are missing in results=FOLDER, so their learning "
            "curves are left out; call compare or fit again to compute them"
        )
    return _template().render(
        result=comparison, protocols=protocols, view=View(comparison), framed=framed
    )


def is_page(path: Path) -> bool:
    """Return True for a file that begins like a page of this package."""
    with path.open("rb") as file:
        return GENERATOR in file.read(HEAD_BYTES)


def notebook_of(comparison: Comparison) -> str:
    """Return the notebook view: the verdict, and the page in a frame.

    The frame keeps the page's styles and scripts apart from the notebook's.
    """
    lines = [f"<div>{html.escape(line)}</div>" for line in comparison.lines()]
    page = html.escape(page_of(comparison, framed=True))
    return (
        f"<b>{lines[0]}</b>{''.join(lines[1:])}<iframe title='comparison' "
        "sandbox='allow-scripts' style='width:100%;height:640px;border:1px solid "
        f'#8888\' srcdoc="{page}"></iframe>'
    )


@cache
def _template() -> Template:
    """Return the template of the page, which escapes text by default."""
    if find_spec("jinja2") is None:
        raise ImportError(f"The page needs Jinja2, which is not installed; {INSTALL}")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sklearn_mdl.report"),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= DETAILS
    environment.globals |= {f.__name__: f for f in (style_of, rounded, version_of)}
    environment.globals["model_selection"] = model_selection
    return environment.get_template("page.html")


class View:
    """Content of a comparison's page, in the form that the template needs.

    Parameters
    ----------
    comparison : Comparison
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.scorer = comparison.scorer
        self.encoders = [row.encoder for row in comparison.rows()]  # best first
        self.datasets = self.scorer.dataset_names_
        self.curves = comparison.curves_by_cell
        self.percent = f"{100 * (1 - self.scorer.alpha):g}%"
        self.figure = {"width": WIDTH, "height": HEIGHT}

    @property
    def title(self) -> str:
        """Title with the numbers of encoders and datasets."""
        e, d = len(self.encoders), len(self.datasets)
        return f"{e} encoder{'s' * (e > 1)} on {d} dataset{'s' * (d > 1)}"

    def place(self, encoder: str) -> int:
        """Return the position of an encoder by rank, which determines its colour."""
        return self.encoders.index(encoder)

    def columns(self, dataset: str | None = None) -> list[Column]:
        """Return the columns to show in the encoder table."""
        level = self.comparison.accuracy_levels.get(dataset or self.datasets[0])
        several = dataset is None and len(self.datasets) > 1
        to = "a level" if several or level is None else f"{level:.0%}"
        columns = [
            Column("rank", "mean rank" if several else "rank", "rank"),
            Column("nats", "nats per label", "nats per label"),
            Column("saved", "saved", "saved"),
            Column("accuracy", "accuracy", "accuracy"),
            Column("labels", f"labels to {to}", "labels to a level"),
            Column("encoding", "encoding", "encoding"),
            Column("seconds", "pass", "pass"),
            Column("megabytes", "features", "features"),
            Column("kept", "kept", "kept"),
        ]
        rows = self.comparison.rows(dataset)
        is_real = all(np.isnan(row.accuracy) for row in rows)
        return [
            column
            for column in columns
            if not all(np.isnan(getattr(row, column.key)) for row in rows)
            or (column.key == "labels" and is_real)
        ]

    def cell(self, row: Row, key: str) -> Cell:
        """Return the cell of an encoder in the column ``key``."""
        value = float(getattr(row, key))
        if np.isnan(value):
            never = "n/a" if np.isnan(row.accuracy) else "never"
            return Cell(never if key == "labels" else "–", float("inf"))
        if key == "nats":
            half = "" if np.isnan(row.half) else f" ± {row.half:.3f}"
            return Cell(f"{value:.3f}{half}", value)
        if key in ("encoding", "seconds"):
            return Cell(duration_text(value), value)
        if key in ("megabytes", "kept"):
            return Cell(size_text(round(value * 1e6)), value)
        return Cell(format(value, FORMATS[key]), value)

    def spark(self, encoder: str, dataset: str | None) -> str:
        """Return the SVG path of an encoder's small curve, or "" without losses."""
        chosen = self.datasets if dataset is None else [dataset]
        tables = {
            e: [self.curves[d, e].nats for d in chosen if (d, e) in self.curves]
            for e in self.encoders
        }
        if not tables[encoder]:
            return ""
        means = {e: _mean_curve(curves) for e, curves in tables.items() if curves}
        low, high = min(map(np.min, means.values())), max(map(np.max, means.values()))
        return spark(means[encoder], low=float(low), high=float(high))

    def measures(self, dataset: str) -> list[str]:
        """Return the measures for which a dataset has curves."""
        curves = [c for (d, _), c in self.curves.items() if d == dataset]
        if not curves:
            return []
        return ["nats", "accuracy"] if len(curves[0].accuracy) else ["nats"]

    def plot(self, dataset: str, measure: str) -> Plot:
        """Return the plot of all encoders' curves on a dataset."""
        curves = {
            e: (name, self.curves[dataset, name])
            for e, name in enumerate(self.encoders)
            if (dataset, name) in self.curves
        }
        return curves_plot(curves, measure)

    def winner(self, dataset: str) -> str:
        """Return the encoder with the shortest code on a dataset."""
        return self.comparison.rows(dataset)[0].encoder

    def kinds(self, dataset: str) -> Plot | None:
        """Return the plot of the weights of the best encoder's kinds of readouts.

        Return None if there is only one kind or no curve.
        """
        curve = self.curves.get((dataset, self.winner(dataset)))
        return kinds_plot(curve) if curve and len(curve.kinds) > 1 else None

    def heat(self) -> list[tuple[str, list[tuple[str, str, float]]]]:
        """Return each encoder with its cells: dataset, nats saved, and shade."""
        saved = self.scorer.savings_per_example("labels")
        low, high = saved.min(1, keepdims=True), saved.max(1, keepdims=True)
        shades = (saved - low) / np.where(high > low, high - low, 1.0)
        rows = []
        for name in self.encoders:
            e = self.scorer.encoder_names_.index(name)
            shade = shades[:, e].round(3).tolist()
            cells = zip(self.datasets, saved[:, e], shade, strict=True)
            rows.append((name, [(d, f"{nats:.2f}", part) for d, nats, part in cells]))
        return rows

    def versus(self) -> list[list[Versus | None]]:
        """Return a table of the best encoders: each row compared with each column."""
        best = self.encoders[:MOST_ENCODERS]
        if not (best[1:] and self.curves):  # without traces there are no intervals
            return []
        names, nats = self.scorer.encoder_names_, self.scorer.codelengths_
        samples, alpha = self.scorer.codelength_samples_, self.scorer.alpha
        half = np.stack([sample.least_significant(alpha) for sample in samples])
        cells: dict[tuple[str, str], Versus] = {}
        for a, b in permutations(best, 2):
            i, j = names.index(a), names.index(b)
            cells[a, b] = self._versus(nats[:, j] - nats[:, i], half[:, i, j])
        return [[cells.get((a, b)) for b in best] for a in best]

    def _versus(self, saved: Floats, half: Floats) -> Versus:
        """Count the datasets with significant savings, and list all savings."""
        rows = zip(self.datasets, saved.tolist(), half.tolist(), strict=True)
        texts = [f"{name}: {rounded(by, error)} nats" for name, by, error in rows]
        return Versus(int((saved > half).sum()), "\n".join(texts))

    def data(self) -> str:
        """Return the data for the page's scripts, as JSON that is safe inside HTML."""
        tables = [
            {
                "name": dataset,
                "measures": self.measures(dataset),
                "x": self._x(dataset),
                "cells": [self._cell_data(dataset, name) for name in self.encoders],
            }
            for dataset in self.datasets
        ]
        content = {"encoders": self.encoders, "datasets": tables}
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
        for sign in "<>&\u2028\u2029":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return text

    def _x(self, dataset: str) -> list[float | None]:
        curves = [c for (d, _), c in self.curves.items() if d == dataset]
        return _short(curves[0].labels) if curves else []

    def _cell_data(self, dataset: str, encoder: str) -> dict[str, Any] | None:
        curve = self.curves.get((dataset, encoder))
        if curve is None:
            return None
        kinds = main_kinds(curve.kinds)
        return {
            "nats": [_short(curve.nats), _short(curve.nats_half)],
            "accuracy": [_short(curve.accuracy), _short(curve.accuracy_half)],
            "kinds": {name: _short(share) for name, share in kinds.items()},
        }

    def bars(self, values: Sequence[float]) -> list[float]:
        """Return the width of each bar, in percent of the longest bar."""
        longest = max(max(values), 1e-9)
        return [round(max(0.0, 100 * value / longest), 1) for value in values]


def _short(values: Floats) -> list[float | None]:
    """Round numbers to four significant digits, and replace NaN by None."""
    numbers = [float(f"{value:.4g}") for value in values.tolist()]
    return [None if np.isnan(number) else number for number in numbers]


def _mean_curve(curves: Sequence[Floats]) -> Floats:
    """Return the mean of curves, which may have different numbers of points."""
    places = np.linspace(0, 1, max(map(len, curves)))
    resampled = [np.interp(places, np.linspace(0, 1, len(c)), c) for c in curves]
    return np.asarray(np.mean(resampled, axis=0), dtype=np.float64)
