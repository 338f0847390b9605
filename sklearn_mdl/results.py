"""A fitted ranking on disk: tables, per-cell results and figures."""

from __future__ import annotations

import csv
import json
import math
import platform
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.display import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    PosteriorDisplay,
)
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.cells import Cell
from sklearn_mdl.representation.table import COLUMNS, as_rows

LIBRARIES = ("sklearn_mdl", "torch", "skorch", "scikit-learn", "numpy", "scipy")


def write_results(scorer: RepresentationScorer, directory: str | Path) -> list[Path]:
    """Write a ranking's tables, cells and figures.

    Parameters
    ----------
    scorer : RepresentationScorer
        Fitted.
    directory : path-like
        Made if need be; files of the same names are replaced.

    Returns
    -------
    paths : list of Path
        ``cells.csv`` (one row per cell), ``ranking.csv``, ``cells.json`` (everything
        but the arrays, with settings and versions), and, where matplotlib is installed,
        ``average_ranks.png`` and, for each dataset, ``DATASET-codelength.png`` and
        ``DATASET-posterior.png``, where characters that are none of letters, digits,
        spaces and ``_.-`` become ``_``.
    """
    check_is_fitted(scorer)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [
        write_rows(
            folder / "cells.csv",
            COLUMNS,
            [[row[name] for name in COLUMNS] for row in as_rows(scorer)],
        ),
        _write_ranking(folder / "ranking.csv", scorer),
        _write_cells(folder / "cells.json", scorer),
    ]
    if can_draw():
        paths += _draw(folder, scorer)
    return paths


def can_draw() -> bool:
    """Whether matplotlib is there; it comes with the extra ``plot``."""
    return find_spec("matplotlib") is not None


def write_rows(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]
) -> Path:
    """Write a table and return its path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def _write_ranking(path: Path, scorer: RepresentationScorer) -> Path:
    """Write encoders by average rank, with mean nats per example on every dataset."""
    sizes = np.array([cell.n_samples for cell in first_cells(scorer)])
    per_example = scorer.codelengths_ / sizes[:, None]
    rows = [
        [
            scorer.encoder_names_[e],
            float(scorer.average_ranks_[e]),
            *per_example[:, e].tolist(),
        ]
        for e in np.argsort(scorer.average_ranks_, kind="stable")
    ]
    return write_rows(path, ["encoder", "average_rank", *scorer.dataset_names_], rows)


def _write_cells(path: Path, scorer: RepresentationScorer) -> Path:
    difference = scorer.critical_difference_
    found = {
        "unit": "nats",
        "settings": {
            name: repr(value) for name, value in scorer.get_params(False).items()
        },
        "critical_difference": None if math.isnan(difference) else difference,
        "versions": {name: _version(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "cells": [cell.record() for cell in scorer.cells_],
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a bare checkout
        return "not installed"


def first_cells(scorer: RepresentationScorer) -> list[Cell]:
    """Return one cell per dataset: its first encoder in its first order."""
    step = len(scorer.encoder_names_) * scorer.n_orders
    return scorer.cells_[::step]


def _draw(folder: Path, scorer: RepresentationScorer) -> list[Path]:
    import matplotlib.pyplot as plt

    drawn: dict[str, Any] = {}
    if len(scorer.encoder_names_) > 1:
        drawn["average_ranks"] = CriticalDifferenceDisplay.from_scorer(scorer)
    stems = file_stems(scorer.dataset_names_)
    for index, name in enumerate(scorer.dataset_names_):
        cells = [
            cell for cell in scorer.cells_ if cell.dataset == name and cell.order == 0
        ]
        best = cells[int(np.argmin(scorer.codelengths_[index]))]
        drawn[f"{stems[index]}-codelength"] = _regrets(cells, best)
        drawn[f"{stems[index]}-posterior"] = _posterior(best)
    paths = []
    for name, display in drawn.items():
        paths.append(folder / f"{name}.png")
        display.figure_.savefig(paths[-1], dpi=150, bbox_inches="tight")
        plt.close(display.figure_)
    return paths


def file_stems(names: Iterable[str]) -> list[str]:
    """Return names that stay inside the directory and differ, whatever the case."""
    stems: list[str] = []
    for name in names:
        stem = re.sub(r"[^\w .-]", "_", name).lstrip(". ")[:100] or "_"
        while stem.casefold() in map(str.casefold, stems):
            stem += "_"
        stems.append(stem)
    return stems


def _regrets(cells: list[Cell], best: Cell) -> CodelengthDisplay:
    """Draw what each encoder costs more than the best one, as examples come."""
    curves = {cell.encoder: cell.codelengths for cell in cells}
    display = CodelengthDisplay.from_codelengths(curves, reference=best.encoder)
    display.ax_.set_title(f"{best.dataset}: regret of encoders", parse_math=False)
    return display


def _posterior(cell: Cell) -> PosteriorDisplay:
    display = PosteriorDisplay(cell.posterior, cell.architectures).plot()
    display.ax_.set_title(
        f"{cell.dataset}: readouts on {cell.encoder}", parse_math=False
    )
    return display
