"""Tables of the page: codes, cells, tests, orders and protocols."""

from __future__ import annotations

import numpy as np

from sklearn_mdl._core.tables import Table
from sklearn_mdl.baselines import ProtocolComparison, best_first, number, value_text
from sklearn_mdl.model_selection import (
    RankStatistics,
    RepresentationScorer,
    cell_table,
    codelength_table,
)
from sklearn_mdl.report._tables import settings_as_text, tests_of


def codelengths(scorer: RepresentationScorer, *, switching: bool = False) -> Table:
    """Tabulate nats per label of encoders, then of codes that ignore features."""
    table, first = codelength_table(scorer, switching=switching), scorer.first_cells_
    saved = scorer.savings_per_example("labels")[:, 0]
    labels_only = (scorer.codelengths_ / scorer.sizes_)[:, 0] + saved
    codes = {
        "uniform code": [cell.uniform / cell.n_samples for cell in first],
        "label frequencies": [cell.frequency / cell.n_samples for cell in first],
        "labels alone": labels_only.tolist(),
    }
    if all(cell.is_real for cell in first):
        codes = {"Gaussian code": codes["uniform code"]}
    elif any(cell.is_real for cell in first):
        codes = {f"{name} (Gaussian of reals)": nats for name, nats in codes.items()}
    rows = [[name, *(f"{x:.4f}" for x in nats)] for name, nats in codes.items()]
    return Table(table.head, [*table.rows, *rows], bold=table.bold)


def cells(scorer: RepresentationScorer, comparison: ProtocolComparison | None) -> Table:
    """Tabulate details of each encoder on each dataset, and held-out accuracies."""
    heldout = {} if comparison is None else comparison.heldout_accuracies
    return cell_table(scorer, {f"held out, {name}": heldout[name] for name in heldout})


def pairs(scorer: RankStatistics) -> Table:
    """Tabulate pairwise tests, sorted by p-value and then by decreasing difference."""
    statistics = tests_of(scorer)
    names = scorer.encoder_names_
    wilcoxon, bayesian = statistics["wilcoxon"], statistics["bayesian_signed_rank"]
    wins, ties = statistics["wins"], statistics["ties"]
    head = ["first", "second", "ratio", "won-tied-lost"]
    head += ["p", "p (Holm)", "P(first)", "P(equal)", "P(second)"]
    rows = []
    sizes = -np.abs(wilcoxon["median_log_ratios"])
    for k in np.lexsort((sizes, wilcoxon["p_values"])):
        i, j = map(names.index, wilcoxon["pairs"][k])
        ratio = np.exp(wilcoxon["median_log_ratios"][k])
        counts = f"{wins[i][j]} - {ties[i][j]} - {wins[j][i]}"
        tests = [wilcoxon[name][k] for name in ("p_values", "adjusted_p_values")]
        shares = [bayesian[name][k] for name in ("p_first", "p_equivalent", "p_second")]
        numbers = [f"{p:.2g}" for p in tests] + [f"{p:.2f}" for p in shares]
        rows.append([*wilcoxon["pairs"][k], f"{ratio:.3f}", counts, *numbers])
    return Table(head, rows, n_left=2)


def spread(scorer: RepresentationScorer) -> Table:
    """Tabulate standard deviations over orders, in percent of the codelength."""
    relative = scorer.order_spread().relative.T
    rows = [
        [scorer.encoder_names_[e], *(f"{share:.2%}" for share in relative[e])]
        for e in np.argsort(scorer.average_ranks_, kind="stable")
    ]
    return Table(["encoder", *scorer.dataset_names_], rows)


def averages(comparison: ProtocolComparison) -> Table:
    """Tabulate the average rank of each encoder under each protocol."""
    ranks = comparison.average_ranks
    rows = [
        [comparison.encoder_names[e], *(number(rank, ".2f") for rank in ranks[e])]
        for e in best_first(ranks)
    ]
    return Table(["encoder", *(p.name for p in comparison.protocols)], rows)


def values(comparison: ProtocolComparison, d: int) -> Table:
    """Tabulate values and total times on a dataset, with the best values in bold."""
    ranks, protocols = comparison.ranks[d], comparison.protocols
    least = np.min(ranks, axis=0, where=~np.isnan(ranks), initial=np.inf)
    order = best_first(ranks)
    rows = []
    for e in order:
        texts = [value_text(comparison, d, e, p) for p in range(len(protocols))]
        rows.append([comparison.encoder_names[e], *texts])
    totals = np.nansum(comparison.seconds[d], axis=0)
    rows.append(["seconds, all encoders", *(number(s, ".1f") for s in totals)])
    bold = {(i, p + 1) for i, p in np.argwhere(ranks[order] == least).tolist()}
    return Table(["encoder", *(p.name for p in protocols)], rows, bold=bold)


DETAILS = {
    f.__name__: f
    for f in (averages, cells, codelengths, pairs, settings_as_text, spread, values)
}
