"""The tables of a fitted ranking as files, and its statistics as JSON."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl import model_selection
from sklearn_mdl._core.io.formats import with_format
from sklearn_mdl.baselines import ProtocolComparison
from sklearn_mdl.model_selection import RankStatistics, RepresentationScorer
from sklearn_mdl.ranking import MOST_ENCODERS

REFERENCES = ("uniform", "frequency", "labels")
LATEX = ("ranking", "codelengths", "readouts")
# First characters of formulas, including full-width ones of East Asian keyboards.
FORMULAS = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
NO_EFFECT = {"results", "n_jobs", "verbose"}  # settings that do not affect numbers

Statistics = dict[str, Any]  # for JSON
Heldout = dict[str, dict[tuple[str, str], float]]  # by protocol and (dataset, encoder)


def write_rows(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]
) -> Path:
    """Write a table for :func:`read_rows`, and return its path.

    Names of encoders may come from untrusted files. So text that a spreadsheet would
    run as a formula is prefixed with an apostrophe.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in chain([columns], rows):
            writer.writerow([_escape(c) if isinstance(c, str) else c for c in row])
    return path


def read_rows(path: str | PathLike[str]) -> list[list[str]]:
    r"""Read a table of a ranking or a comparison, and restore the original names.

    In the file, text that a spreadsheet would run as a formula begins with an
    apostrophe. This function removes the apostrophe.

    Parameters
    ----------
    path : path-like
        A table written by :func:`write_results`, such as ``cells.csv``.

    Returns
    -------
    rows : list of list of str
        Rows, beginning with the names of columns.

    Raises
    ------
    OSError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sklearn_mdl.report import read_rows
    >>> _ = Path("cells.csv").write_text("encoder,nats\n'=1+1,2.5\n")
    >>> read_rows("cells.csv")
    [['encoder', 'nats'], ['=1+1', '2.5']]
    """
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [[_unescape(cell) for cell in row] for row in csv.reader(file)]


def _escape(text: str) -> str:
    return f"'{text}" if _is_formula(text) else text


def _unescape(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    """Return True for a formula, possibly after apostrophes."""
    return text.lstrip("'").startswith(FORMULAS)


def settings_as_text(scorer: RepresentationScorer) -> dict[str, str]:
    """Return the settings that affect results, as text keyed by name."""
    # Tests use the current alpha, since they are computed when they are read.
    params = scorer.settings_.get_params(deep=False) | {"alpha": scorer.alpha}
    return {name: repr(v) for name, v in params.items() if name not in NO_EFFECT}


def write_tables(
    scorer: RepresentationScorer, folder: Path, comparison: ProtocolComparison | None
) -> list[Path]:
    """Write the tables and statistics, and return the paths."""
    heldout = {} if comparison is None else comparison.heldout_accuracies
    tables = list(heldout.values())
    columns = model_selection.columns_of(scorer)
    rows = []
    for row in model_selection.as_rows(scorer):
        place = str(row["dataset"]), str(row["encoder"])
        shares = [table.get(place, "") for table in tables]
        rows.append([*(row[name] for name in columns), *shares])
    names = [f"heldout_accuracy_{name}" for name in heldout]
    preferred = ["encoder", *scorer.dataset_names_, "most_often"]
    readouts = model_selection.readout_table(scorer).rows
    return [
        write_rows(folder / "cells.csv", [*columns, *names], rows),
        _write_ranking(folder / "ranking.csv", scorer, heldout),
        _write_scores(folder / "scores.csv", scorer),
        write_rows(folder / "readouts.csv", preferred, readouts),
        _write_json(folder / "cells.json", _cells(scorer)),
        _write_json(folder / "statistics.json", statistics_of(scorer)),
        *(_write_latex(folder / f"{name}.tex", scorer, name) for name in LATEX),
    ]


def _write_ranking(path: Path, scorer: RepresentationScorer, heldout: Heldout) -> Path:
    """Write a row of results for each encoder, sorted by average rank."""
    encoders, datasets = scorer.encoder_names_, scorer.dataset_names_
    cells = [[c for c in scorer.cells_ if c.encoder == name] for name in encoders]
    columns: list[tuple[str, Sequence[object]]] = [
        ("encoder", encoders),
        ("average_rank", scorer.average_ranks_.tolist()),
    ]
    if model_selection.has_tests(scorer):
        bounds = _as_lists(scorer.rank_intervals(), "lower", "upper", "p_best")
        columns += bounds.items()
    saved = scorer.savings_per_example("labels").mean(0)
    columns.append(("savings_over_labels", saved.tolist()))
    columns.append(("accuracy", [_mean(row) for row in scorer.accuracies_.T.tolist()]))
    for protocol, shares in heldout.items():
        known = [[shares.get((d, e), math.nan) for d in datasets] for e in encoders]
        columns.append((f"heldout_accuracy_{protocol}", [_mean(row) for row in known]))
    widths = [dict.fromkeys(str(cell.n_features) for cell in row) for row in cells]
    columns.append(("n_features", [" ".join(row) for row in widths]))
    seconds = [float(np.mean([cell.seconds for cell in row])) for row in cells]
    columns.append(("seconds", seconds))
    nats = (scorer.codelengths_ / scorer.sizes_).tolist()
    columns += zip(datasets, nats, strict=True)
    if scorer.is_pooled_:
        titles = [f"{name}, {model_selection.SWITCHING}" for name in datasets]
        nats = (scorer.switching_codelengths_ / scorer.sizes_).tolist()
        columns += zip(titles, nats, strict=True)
    order = np.argsort(scorer.average_ranks_, kind="stable")
    rows = ([values[e] for _, values in columns] for e in order)
    return write_rows(path, [title for title, _ in columns], rows)


def _write_scores(path: Path, scorer: RepresentationScorer) -> Path:
    """Write nats saved over labels alone, with a row per encoder and dataset.

    Other ranking tools read this form, in which a higher score is better.
    """
    saved = scorer.savings_per_example("labels")
    rows = [
        [encoder, dataset, "saved_nats_per_label", float(saved[d, e])]
        for d, dataset in enumerate(scorer.dataset_names_)
        for e, encoder in enumerate(scorer.encoder_names_)
    ]
    return write_rows(path, ["model", "dataset", "metric", "score"], rows)


def _mean(shares: Sequence[float]) -> float | str:
    """Return the mean of the known values, or empty text if there are none."""
    known = [share for share in shares if not math.isnan(share)]
    return float(np.mean(known)) if known else ""


def _write_latex(path: Path, scorer: RepresentationScorer, name: str) -> Path:
    path.write_text(scorer.to_latex(name), encoding="utf-8")
    return path


def _cells(scorer: RepresentationScorer) -> dict[str, object]:
    switchers = {}
    for cell in scorer.first_cells_:
        default = model_selection.default_switcher(cell.n_samples, cell.is_real)
        used = scorer.settings_.switcher or default
        try:
            switchers[cell.dataset] = model_selection.settings_of_cells(used)
        except TypeError as error:  # some settings cannot be stored
            switchers[cell.dataset] = {"unavailable": str(error)}
    return {
        "unit": "nats",
        "settings": settings_as_text(scorer),
        "switchers": switchers,
        "critical_difference": scorer.critical_difference_,
        "versions": model_selection.versions(),
        "python": platform.python_version(),
        "terms": scorer.common_settings_notes_,
        "cells": [cell.record() for cell in scorer.cells_],
    }


def _write_json(path: Path, content: Mapping[str, object]) -> Path:
    """Write JSON with null instead of NaN and infinity, which JSON lacks."""
    finite = json.loads(json.dumps(content), parse_constant=lambda _: None)
    text = json.dumps(with_format("results", finite), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


# Statistics


def statistics_of(scorer: RepresentationScorer) -> Statistics:
    """Return the statistics of all datasets and of each group of datasets."""
    return {
        **_statistics(scorer),
        "n_orders": scorer.order_codelengths_.shape[-1],
        "mean_posteriors": _by_name(scorer, scorer.mean_posteriors()),
        "groups": {name: _statistics(r) for name, r in scorer.dataset_groups_.items()},
        "failures": [failure._asdict() for failure in scorer.failures_],
        "eliminated": scorer.eliminated_,
    }


def _n_compared(ranking: RankStatistics) -> int | None:
    """Return the number of best encoders to compare in pairs, or None for all."""
    return MOST_ENCODERS if len(ranking.encoder_names_) > MOST_ENCODERS else None


def _statistics(ranking: RankStatistics) -> Statistics:
    names = ranking.encoder_names_
    saved = {name: ranking.savings_per_example(name).tolist() for name in REFERENCES}
    statistics: Statistics = {
        "verdict": ranking.verdict().record(),
        "datasets": ranking.dataset_names_,
        "encoders": names,
        "alpha": ranking.alpha,
        "codelengths": _by_name(ranking, ranking.codelengths_.tolist()),
        "savings_per_example": {n: _by_name(ranking, x) for n, x in saved.items()},
        "preferred_readouts": _by_name(ranking, list(ranking.preferred_readouts())),
        "average_ranks": dict(zip(names, ranking.average_ranks_.tolist(), strict=True)),
        "critical_difference": ranking.critical_difference_,
    }
    if ranking.order_codelengths_.shape[-1] > 1:
        spread = ranking.order_spread()
        statistics["orders"] = {
            "scored": _by_name(ranking, ranking.n_orders_.tolist()),
            "standard_deviations": _by_name(ranking, spread.std.tolist()),
            "relative": _by_name(ranking, spread.relative.tolist()),
        }
    if len(ranking.encoder_names_) > 1:
        paired = ranking.paired_differences(top_k=_n_compared(ranking))
        statistics["paired_differences"] = {
            "pairs": _names(ranking, paired.pairs),
            **_as_lists(paired, "mean", "std", "error", "lower", "upper", "level"),
        }
    if not model_selection.has_tests(ranking):
        return statistics
    return {**statistics, **tests_of(ranking)}


def tests_of(ranking: RankStatistics) -> Statistics:
    """Return tests over datasets, intervals of mean ranks, and counts of wins."""
    top_k, friedman = _n_compared(ranking), ranking.friedman_test()
    intervals = ranking.rank_intervals()
    wilcoxon = ranking.pairwise_wilcoxon(top_k=top_k)
    bayesian = ranking.bayesian_signed_rank(top_k=top_k)
    wins = ranking.win_table()
    return {
        "friedman": {
            "chi2": friedman.statistic,
            "p_value": friedman.p_value,
            "f": friedman.f_statistic,
            "f_p_value": friedman.f_p_value,
        },
        "rank_intervals": _as_lists(intervals, "lower", "upper", "p_best", "level"),
        "nemenyi_p_values": ranking.nemenyi_p_values().tolist(),
        "rank_groups": _names(ranking, ranking.rank_groups()),
        "wilcoxon": {
            "pairs": _names(ranking, wilcoxon.pairs),
            **_as_lists(wilcoxon, "median_log_ratios", "p_values", "adjusted_p_values"),
        },
        "bayesian_signed_rank": {
            "pairs": _names(ranking, bayesian.pairs),
            **_as_lists(bayesian, "p_first", "p_equivalent", "p_second", "rope"),
        },
        "wins": wins.wins.tolist(),
        "ties": wins.ties.tolist(),
    }


def _as_lists(result: object, *names: str) -> Statistics:
    return {name: np.asarray(getattr(result, name)).tolist() for name in names}


def _names(ranking: RankStatistics, groups: Iterable[Iterable[int]]) -> list[list[str]]:
    return [[ranking.encoder_names_[i] for i in group] for group in groups]


def _by_name(ranking: RankStatistics, table: Sequence[Sequence[object]]) -> Statistics:
    """Return a table as ``{dataset: {encoder: value}}``."""
    return {
        dataset: dict(zip(ranking.encoder_names_, row, strict=True))
        for dataset, row in zip(ranking.dataset_names_, table, strict=True)
    }
