"""A fitted ranking as tables in files."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.identity import versions
from sklearn_mdl.representation.readouts import most_often
from sklearn_mdl.representation.table import COLUMNS, as_rows, has_tests
from sklearn_mdl.results.settings import settings_as_text, switcher_as_json

LATEX = ("ranking", "codelengths", "readouts")


def write_rows(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]
) -> Path:
    """Write a table and return its path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def write_tables(
    scorer: RepresentationScorer, folder: Path, statistics: dict[str, Any]
) -> list[Path]:
    """Write everything but figures and the report, and return the paths."""
    return [
        write_rows(
            folder / "cells.csv",
            COLUMNS,
            [[row[name] for name in COLUMNS] for row in as_rows(scorer)],
        ),
        _write_ranking(folder / "ranking.csv", scorer),
        _write_readouts(folder / "readouts.csv", scorer),
        _write_json(folder / "cells.json", _cells(scorer)),
        _write_json(folder / "statistics.json", statistics),
        *(_write_latex(folder / f"{name}.tex", scorer, name) for name in LATEX),
    ]


def _write_ranking(path: Path, scorer: RepresentationScorer) -> Path:
    """Write encoders by average rank, with mean nats per example on every dataset."""
    sizes = np.array([cell.n_samples for cell in scorer.first_cells_])
    per_example = scorer.codelengths_ / sizes[:, None]
    bounds: list[list[float]] = [[] for _ in scorer.encoder_names_]
    columns = ["encoder", "average_rank"]
    if has_tests(scorer):
        found = scorer.rank_intervals()
        bounds = np.transpose([found.lower, found.upper, found.p_best]).tolist()
        columns += ["lower", "upper", "p_best"]
    rows = [
        [
            scorer.encoder_names_[e],
            float(scorer.average_ranks_[e]),
            *bounds[e],
            *per_example[:, e].tolist(),
        ]
        for e in np.argsort(scorer.average_ranks_, kind="stable")
    ]
    return write_rows(path, [*columns, *scorer.dataset_names_], rows)


def _write_readouts(path: Path, scorer: RepresentationScorer) -> Path:
    """Write the preferred readout of every encoder on every dataset."""
    by_encoder = zip(*scorer.preferred_readouts(), strict=True)
    rows = [
        [name, *names, most_often(list(names))]
        for name, names in zip(scorer.encoder_names_, by_encoder, strict=True)
    ]
    return write_rows(path, ["encoder", *scorer.dataset_names_, "most_often"], rows)


def _write_latex(path: Path, scorer: RepresentationScorer, name: str) -> Path:
    path.write_text(scorer.to_latex(name), encoding="utf-8")
    return path


def _cells(scorer: RepresentationScorer) -> dict[str, Any]:
    difference = scorer.critical_difference_
    return {
        "unit": "nats",
        "settings": settings_as_text(scorer),
        "switcher": switcher_as_json(scorer),
        "critical_difference": None if math.isnan(difference) else difference,
        "versions": versions(),
        "python": platform.python_version(),
        "cells": [cell.record() for cell in scorer.cells_],
    }


def _write_json(path: Path, content: Any) -> Path:
    """Write JSON as other languages read it: what is not finite becomes null."""
    text = json.dumps(_finite(content), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
