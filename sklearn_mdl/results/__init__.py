"""A fitted ranking on disk: tables, per-cell results, figures and a report."""

from __future__ import annotations

from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.protocols import ProtocolComparison
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.results.comparisons import COLUMNS, rows_of
from sklearn_mdl.results.figures import can_draw, draw
from sklearn_mdl.results.report import write_report
from sklearn_mdl.results.statistics import statistics_of
from sklearn_mdl.results.tables import write_rows, write_tables

__all__ = ["can_draw", "write_report", "write_results", "write_rows"]


def write_results(
    scorer: RepresentationScorer,
    directory: str | Path,
    comparison: ProtocolComparison | None = None,
) -> list[Path]:
    """Write a ranking's tables, cells, figures and report.

    Parameters
    ----------
    scorer : RepresentationScorer
        Fitted.
    directory : path-like
        Made if need be; files of the same names are replaced.
    comparison : ProtocolComparison, default=None
        What :func:`~sklearn_mdl.compare_protocols` found of the same encoders, for a
        section of the page and ``protocols.csv``.

    Returns
    -------
    paths : list of Path
        Tables: ``cells.csv`` (one row per cell), ``ranking.csv``, ``readouts.csv``
        (preferred readouts), and ``ranking.tex``, ``codelengths.tex``,
        ``readouts.tex`` for LaTeX. Numbers: ``cells.json`` (everything but the arrays,
        with settings and versions) and ``statistics.json`` (ranks, tests, intervals,
        orders, groups). ``report.html``, a page that holds them all and needs no
        network. Where matplotlib is installed, figures: ``average_ranks.png``,
        ``rank_intervals.png``, ``saved.png``, ``preferred_readouts.png``,
        ``ranks_by_size.png``, the first two for each group, and for each dataset
        ``DATASET-codelength.png`` and ``DATASET-posterior.png``, where characters that
        are none of letters, digits, spaces and ``_.-`` become ``_``.
    """
    check_is_fitted(scorer)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    statistics = statistics_of(scorer)
    paths = write_tables(scorer, folder, statistics)
    figures = draw(scorer, folder) if can_draw() else []
    if comparison is not None:
        paths.append(write_rows(folder / "protocols.csv", COLUMNS, rows_of(comparison)))
    report = folder / "report.html"
    paths.append(write_report(scorer, report, figures, statistics, comparison))
    return paths + [figure.path for figure in figures]
