"""The files of a fitted ranking: tables, and a page that works offline."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.io.whole_files import filled
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.baselines import ProtocolComparison
from sklearn_mdl.model_selection import RepresentationScorer
from sklearn_mdl.report._comparison import Comparison
from sklearn_mdl.report._page import INSTALL, page_of
from sklearn_mdl.report._tables import LATEX, write_rows, write_tables

COLUMNS = (  # columns of protocols.csv
    *("dataset", "encoder", "protocol", "unit"),
    *("value", "bound", "rank", "seconds"),
)
RESULTS = (  # all files of a ranking, with a comparison of protocols
    *("cells.csv", "ranking.csv", "scores.csv", "readouts.csv", "cells.json"),
    *("statistics.json", *(f"{name}.tex" for name in LATEX)),
    *("protocols.csv", "report.html"),
)


def write_results(
    scorer: RepresentationScorer | Comparison,
    directory: str | Path,
    comparison: ProtocolComparison | None = None,
) -> list[Path]:
    """Write the tables, cells and page of a ranking.

    Parameters
    ----------
    scorer : RepresentationScorer or Comparison
        A fitted scorer, or a comparison. The page of a comparison also shows what one
        encoder adds to another, if there are pairs.
    directory : path-like
        Folder to write to, created if it does not exist. Existing files are replaced
        only if the file ``.sklearn_mdl`` in the folder says that sklearn_mdl wrote
        them.
    comparison : ProtocolComparison, default=None
        Result of :func:`~sklearn_mdl.compare_protocols` for the same encoders. It adds
        ``protocols.csv``, a section on the page, and held-out accuracies in
        ``cells.csv`` and ``ranking.csv``.

    Returns
    -------
    paths : list of Path
        The written files:

        * ``cells.csv``: one row per cell (one order of an encoder on a dataset)
        * ``ranking.csv``: one row per encoder, best first
        * ``readouts.csv``: the preferred readout of each encoder on each dataset
        * ``scores.csv``: model, dataset, metric (nats per label saved relative to
          labels alone) and score, for other ranking tools
        * ``cells.json``: settings, the switcher that each dataset used, versions, and
          the cells without their arrays
        * ``statistics.json``: ranks, tests, intervals, orders and groups
        * ``ranking.tex``, ``codelengths.tex``, ``readouts.tex``: tables for LaTeX
        * ``protocols.csv``: results of other protocols, if `comparison` is given
        * ``report.html``: a self-contained page that works offline, if Jinja2 is
          installed

    Raises
    ------
    ValueError
        If the folder has a file of one of these names that sklearn_mdl did not write.
        In this case nothing is written. Also if the path is a file.
    """
    result = scorer if isinstance(scorer, Comparison) else Comparison(scorer)
    check_is_fitted(result.scorer)
    with filled(Path(directory)) as aside:
        paths = write_tables(result.scorer, aside, comparison)
        if comparison is not None:
            rows = _protocol_rows(comparison)
            paths.append(write_rows(aside / "protocols.csv", COLUMNS, rows))
        if find_spec("jinja2") is None:
            warn_caller(
                f"report.html needs Jinja2, which is not installed; {INSTALL} to get it"
            )
        else:
            paths.append(aside / "report.html")
            paths[-1].write_text(page_of(result, comparison), encoding="utf-8")
    return [Path(directory) / path.name for path in paths]


def _protocol_rows(comparison: ProtocolComparison) -> Iterator[list[object]]:
    """Yield a row of ``protocols.csv`` for each dataset, encoder and protocol."""
    c = comparison
    tables = c.values, c.is_bound, c.ranks, c.seconds
    numbers = [table.ravel().tolist() for table in tables]
    places = product(c.dataset_names, c.encoder_names, c.protocols)
    for (dataset, encoder, protocol), *row in zip(places, *numbers, strict=True):
        yield [dataset, encoder, protocol.name, protocol.unit, *row]
