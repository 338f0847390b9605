"""A fitted ranking on disk: tables, figures, and one page that needs no network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl import model_selection
from sklearn_mdl._core.io.environment import version_of
from sklearn_mdl._core.io.whole_files import filled
from sklearn_mdl._core.tables import Table
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.baselines import ProtocolComparison, best_first, number, value_text
from sklearn_mdl.model_selection import (
    RepresentationScorer,
    cell_table,
    codelength_table,
    rounded,
)
from sklearn_mdl.report._figures import can_draw, draw
from sklearn_mdl.report._tables import (
    Statistics,
    settings_as_text,
    statistics_of,
    write_rows,
    write_tables,
)

if TYPE_CHECKING:
    from jinja2 import Template


LONGEST_TAIL = 20  # letters of a name that a table always shows
TOP_PAIRS = 15  # of the table of pairs are in sight


@cache
def _template() -> Template:
    """Return the template of the page, which escapes every text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sklearn_mdl.report"),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    functions: list[Callable[..., object]] = [
        *(_averages, _cells, _codelengths, _differences, _head, _pairs, _spread),
        *(_values, settings_as_text, version_of),
    ]
    environment.globals |= {f.__name__.lstrip("_"): f for f in functions}
    environment.globals["model_selection"] = model_selection
    return environment.get_template("report.html")


def _codelengths(scorer: RepresentationScorer, *, switching: bool = False) -> Table:
    """Tabulate codelengths, and below them those of codes without features."""
    table, first = codelength_table(scorer, switching=switching), scorer.first_cells_
    sizes = np.array([cell.n_samples for cell in first])
    alone = scorer.codelengths_[:, 0] / sizes + scorer.saved_per_example("labels")[:, 0]
    codes = {
        "uniform code": [cell.uniform / cell.n_samples for cell in first],
        "label frequencies": [cell.frequency / cell.n_samples for cell in first],
        "labels alone": alone.tolist(),
    }
    if all(cell.is_real for cell in first):
        codes = {"Gaussian code": codes["uniform code"]}
    elif any(cell.is_real for cell in first):
        codes = {f"{name} (Gaussian of reals)": nats for name, nats in codes.items()}
    rows = [[name, *(f"{x:.4f}" for x in nats)] for name, nats in codes.items()]
    return Table(table.head, [*table.rows, *rows], bold=table.bold)


def _cells(
    scorer: RepresentationScorer, comparison: ProtocolComparison | None
) -> Table:
    """Tabulate cells, with accuracies of rows held out if there are any."""
    heldout = {} if comparison is None else comparison.heldout_accuracies
    return cell_table(scorer, {f"held out, {name}": heldout[name] for name in heldout})


def _pairs(statistics: Statistics, has_test: bool) -> Table:
    """Tabulate pairs: the smallest p first, of equal ones the most unlike.

    Where no p can be small it is left out.
    """
    wilcoxon, bayesian = statistics["wilcoxon"], statistics["bayesian_signed_rank"]
    wins, ties = statistics["wins"], statistics["ties"]
    head = ["first", "second", "ratio", "won-tied-lost"]
    head += ["p", "p (Holm)"] * has_test + ["P(first)", "P(equal)", "P(second)"]
    rows = []
    sizes = -np.abs(wilcoxon["median_log_ratios"])
    for k in np.lexsort((sizes, wilcoxon["p_values"])):
        i, j = map(statistics["encoders"].index, wilcoxon["pairs"][k])
        ratio = np.exp(wilcoxon["median_log_ratios"][k])
        counts = f"{wins[i][j]} - {ties[i][j]} - {wins[j][i]}"
        names = ("p_values", "adjusted_p_values") if has_test else ()
        tests = [wilcoxon[name][k] for name in names]
        shares = [bayesian[name][k] for name in ("p_first", "p_equivalent", "p_second")]
        numbers = [f"{p:.2g}" for p in tests] + [f"{p:.2f}" for p in shares]
        rows.append([*wilcoxon["pairs"][k], f"{ratio:.3f}", counts, *numbers])
    return Table(head, rows, n_left=2)


def _head(found: Table) -> Table:
    """Return the first rows of a table, which are shown unfolded."""
    return Table(found.head, found.rows[:TOP_PAIRS], n_left=found.n_left)


def _tail(names: Sequence[str]) -> int:
    """Return how many last letters keep names apart whose middle is cut."""
    for n_letters in range(8, LONGEST_TAIL):
        ends = {name[-n_letters:] for name in names}
        if len(ends) == len(set(names)):
            return n_letters
    return LONGEST_TAIL


def _spread(scorer: RepresentationScorer) -> Table:
    """Tabulate standard deviations over orders, relative to the codelengths."""
    relative = scorer.order_spread().relative.T
    rows = [
        [name, *(f"{share:.2%}" for share in shares)]
        for name, shares in zip(scorer.encoder_names_, relative, strict=True)
    ]
    rows = [rows[e] for e in np.argsort(scorer.average_ranks_, kind="stable")]
    return Table(["encoder", *scorer.dataset_names_], rows)


def _differences(scorer: RepresentationScorer) -> tuple[Table, str]:
    """Tabulate differences to the best average rank; the level of their intervals."""
    places = np.argsort(scorer.average_ranks_, kind="stable")
    best, *others = [scorer.encoder_names_[e] for e in places]
    found = scorer.paired_differences([(name, best) for name in others])
    intervals = np.stack([found.mean, found.lower, found.upper], axis=-1)
    rows = [
        [name, *(rounded(x, (high - low) / 2) for x, low, high in row)]
        for name, row in zip(others, intervals.tolist(), strict=True)
    ]
    return Table(["encoder", *scorer.dataset_names_], rows), f"{found.level:.0%}"


def _averages(comparison: ProtocolComparison) -> Table:
    """Tabulate average ranks by every protocol."""
    found = comparison.average_ranks
    rows = [
        [comparison.encoder_names[e], *(number(rank, ".2f") for rank in found[e])]
        for e in best_first(found)
    ]
    return Table(["encoder", *(p.name for p in comparison.protocols)], rows)


def _values(comparison: ProtocolComparison, d: int) -> Table:
    """Tabulate values on a dataset, the best of each protocol bold, and its times."""
    ranks, protocols = comparison.ranks[d], comparison.protocols
    least = np.min(ranks, axis=0, where=~np.isnan(ranks), initial=np.inf)
    order = best_first(ranks)
    rows = [
        [
            comparison.encoder_names[e],
            *(value_text(comparison, d, e, p) for p in range(len(protocols))),
        ]
        for e in order
    ]
    totals = np.nansum(comparison.seconds[d], axis=0)
    rows.append(["seconds, all encoders", *(number(s, ".1f") for s in totals)])
    bold = {(i, p + 1) for i, p in np.argwhere(ranks[order] == least).tolist()}
    return Table(["encoder", *(p.name for p in protocols)], rows, bold=bold)


COLUMNS = (  # of protocols.csv
    *("dataset", "encoder", "protocol", "unit"),
    *("value", "bound", "rank", "seconds"),
)


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
        Created if it does not exist. Files of the same names are replaced if this
        function wrote them, as ``.sklearn_mdl`` in the folder says.
    comparison : ProtocolComparison, default=None
        Result of :func:`~sklearn_mdl.compare_protocols` for the same encoders, for a
        section of the page and ``protocols.csv``; its accuracies, of rows held out,
        stand in ``cells.csv`` and ``ranking.csv``, too.

    Returns
    -------
    paths : list of Path
        Tables: ``cells.csv`` (one row per cell), ``ranking.csv``, ``readouts.csv``
        (preferred readouts), ``scores.csv`` (rows of model, dataset, metric and score,
        for ranking tools of others), and ``ranking.tex``, ``codelengths.tex``,
        ``readouts.tex`` for LaTeX. Numbers: ``cells.json`` (everything but the arrays,
        with settings and versions) and ``statistics.json`` (ranks, tests, intervals,
        orders, groups). Where Jinja2 is installed, ``report.html``, a page that holds
        them all and needs no network. Where matplotlib is installed, figures:
        ``average_ranks.png``, ``rank_intervals.png``, ``saved.png``,
        ``preferred_readouts.png``, ``ranks_by_size.png``, ``nats_by_seconds.png``,
        ``nats_by_features.png``, the first two for each group, and for each
        dataset ``DATASET-codelength.png`` and ``DATASET-posterior.png``, where
        characters other than letters, digits, spaces and ``_.-`` become ``_``.

    Raises
    ------
    ValueError
        If a file of other origin has one of these names; nothing is written.
    """
    check_is_fitted(scorer)
    with filled(Path(directory)) as aside:
        paths = _write(scorer, aside, comparison)
    return [Path(directory) / path.name for path in paths]


def _write(
    scorer: RepresentationScorer, folder: Path, comparison: ProtocolComparison | None
) -> list[Path]:
    statistics = statistics_of(scorer)
    paths = write_tables(scorer, folder, statistics, comparison)
    figures = draw(scorer, folder) if can_draw() else []
    if comparison is not None:
        rows = _protocol_rows(comparison)
        paths.append(write_rows(folder / "protocols.csv", COLUMNS, rows))
    if find_spec("jinja2") is not None:
        paths.append(folder / "report.html")
        page = _template().render(
            scorer=scorer,
            figures={figure.path.stem: figure for figure in figures},
            statistics=statistics,
            comparison=comparison,
            verdict=scorer.verdict(),
            tail=_tail(scorer.encoder_names_),
            environment=json.dumps(scorer.cells_[0].environment, indent=1),
        )
        paths[-1].write_text(page, encoding="utf-8")
    else:
        warn_caller(
            "Jinja2 is required for report.html, but it is not installed; run pip "
            'install "sklearn_mdl[report]"'
        )
    return paths + [figure.path for figure in figures]


def _protocol_rows(comparison: ProtocolComparison) -> Iterator[list[object]]:
    """Yield a row for each dataset, encoder and protocol, as ``COLUMNS`` name them."""
    ranks = comparison.ranks
    for at in np.ndindex(comparison.values.shape):
        d, e, p = at
        protocol = comparison.protocols[p]
        value, is_bound = float(comparison.values[at]), bool(comparison.is_bound[at])
        yield [
            *(comparison.dataset_names[d], comparison.encoder_names[e]),
            *(protocol.name, protocol.unit, value, is_bound),
            *(float(ranks[at]), float(comparison.seconds[at])),
        ]
