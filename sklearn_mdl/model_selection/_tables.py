"""Tables of a ranking: text, data frames, LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from sklearn_mdl._core.tables import Table
from sklearn_mdl.display import check_choice
from sklearn_mdl.ranking import average_ranks
from sklearn_mdl.readouts import Terms

if TYPE_CHECKING:
    from sklearn_mdl.model_selection._cells import Cell
    from sklearn_mdl.model_selection._ranking import RankStatistics

COLUMNS = (
    *("dataset", "encoder", "order", "n_samples", "n_features", "n_classes"),
    *("codelength", "switching_codelength", "per_example", "saved_per_example"),
    *("saved_over_labels", "accuracy", "permutation_p_value"),
    *("rank", "best_readout", "n_readouts", "streams", "scalings", "seconds"),
)
P_VALUE = "p, kernels"  # of permutation tests
# Names of the two codes where both are given, since some readouts are pooled.
POOLED, SWITCHING = "pooled", "switching (Li et al. 2023)"
IN_RESAMPLES = "best in resamples"
OVER_LABELS = "saved over labels alone"  # nats per example
FEW = 5  # datasets, of which resampled intervals are too short (docs/ranking.md)


def mean_posteriors(ranking: RankStatistics) -> list[list[dict[str, float]]]:
    """Posterior of every architecture, a mean over examples and orders.

    Returns
    -------
    shares : list of list of dict
        By dataset and encoder; from architectures to probabilities.
    """
    groups = ranking.groups_of_cells()
    return [
        [
            _mean([cell.mean_posterior for cell in groups[dataset, encoder]])
            for encoder in ranking.encoder_names_
        ]
        for dataset in ranking.dataset_names_
    ]


def _mean(orders: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for shares in orders for name in shares)
    return {
        name: float(np.mean([shares.get(name, 0.0) for shares in orders]))
        for name in names
    }


def columns_of(ranking: RankStatistics) -> list[str]:
    """Return ``COLUMNS``, without p-values where nothing was permuted."""
    left_out = set() if permutation_text(ranking) else {"permutation_p_value"}
    return [name for name in COLUMNS if name not in left_out]


def as_rows(ranking: RankStatistics) -> list[dict[str, object]]:
    """One dictionary per cell, with the keys of :func:`columns_of`."""
    table, columns = ranking.order_codelengths_, columns_of(ranking)
    ranks = rankdata(table, axis=1, nan_policy="omit")[np.isfinite(table)]
    return [
        {
            **{name: getattr(cell, name) for name in columns if hasattr(cell, name)},
            "rank": float(rank),
            "best_readout": min(cell.readouts, key=cell.readouts.__getitem__),
            "streams": " ".join(map(str, cell.streams)),
            "scalings": " ".join(cell.scalings),
        }
        for cell, rank in zip(ranking.cells_, ranks, strict=True)
    ]


def terms_note(cells: Sequence[Cell]) -> str:
    """Say where equal terms bind: whose readouts all have, and who alone had others.

    Parameters
    ----------
    cells : sequence of Cell
        Of one dataset.
    """
    bound = {cell.encoder: cell for cell in cells if cell.alone}
    if not bound:
        return ""
    widest = max(cells, key=lambda cell: cell.n_features)
    first = min(bound.values(), key=lambda cell: cell.n_features)
    more = f" ({len(bound) - 1} others, too)" if len(bound) > 1 else ""
    return (
        f"{widest.dataset}: all encoders have the readouts of the widest, "
        f"{widest.encoder} ({widest.n_features} features): {widest.terms}; "
        f"alone {first.encoder} ({first.n_features} features){more} would have "
        f"{Terms.from_json(first.alone)}"
    )


def cell_table(ranking: RankStatistics) -> Table:
    """Tabulate accuracy, mean seconds, width, readouts and their terms by cell."""
    places = {
        (dataset, ranking.encoder_names_[e]): (d, place)
        for d, dataset in enumerate(ranking.dataset_names_)
        for place, e in enumerate(np.argsort(ranking.codelengths_[d], kind="stable"))
    }
    tested = [P_VALUE] if permutation_text(ranking) else []
    head = ["dataset", "encoder", "accuracy", *tested]
    head += ["seconds", "features", "readouts"]
    groups = ranking.groups_of_cells()
    replayed = any(cell.streams for cells in groups.values() for cell in cells)
    head += ["streams", "scalings"] if replayed else ["scalings"]
    rows = [
        [
            *names,
            _share(float(np.mean([cell.accuracy for cell in cells]))),
            *[_p_value(cells) for _ in tested],
            f"{np.mean([cell.seconds for cell in cells]):.1f}",
            *(str(cells[0].n_features), str(cells[0].n_readouts)),
            *([" ".join(map(str, cells[0].streams))] if replayed else []),
            " ".join(cells[0].scalings),
        ]
        for names, cells in sorted(groups.items(), key=lambda item: places[item[0]])
    ]
    return Table(head, rows, n_left=2)


def permutation_text(ranking: RankStatistics) -> str:
    """Say what the p-values of permutations are of, if there are any."""
    numbers = {int(c.permutations["n"]) for c in ranking.cells_ if c.permutations}
    if not numbers:
        return ""
    orders = ranking.order_codelengths_.shape[-1]
    most = f"; the largest of {orders} orders" if orders > 1 else ""
    return (
        f"{P_VALUE}: the probability that permuted labels have a code as short, by "
        f"{max(numbers)} permutations; the codes of labels and of permuted labels are "
        f"both of the kernel readouts alone{most}"
    )


def _p_value(cells: Sequence[Cell]) -> str:
    """Return the largest p-value over orders, which is a p-value itself."""
    found = [c.permutation_p_value for c in cells if c.permutation_p_value is not None]
    return f"{max(found):.3g}" if found else ""


def has_tests(ranking: RankStatistics) -> bool:
    """Return whether there are two datasets and two encoders, enough for tests."""
    return bool(min(ranking.order_codelengths_.shape[:2]) > 1)


# Tables


def _best_first(ranking: RankStatistics) -> list[int]:
    """Return the encoders by number, the best average rank first."""
    order: list[int] = np.argsort(ranking.average_ranks_, kind="stable").tolist()
    return order


def rank_table(ranking: RankStatistics) -> Table:
    """Return encoders by average rank, with intervals where there are tests."""
    names, ranks = ranking.encoder_names_, ranking.average_ranks_
    head = ["encoder", "average rank"]
    rows = [[name, f"{rank:.2f}"] for name, rank in zip(names, ranks, strict=True)]
    if ranking.is_pooled_:
        head[1:] = [f"average rank, {POOLED}", SWITCHING]
        by_switching = average_ranks(ranking.switching_codelengths_)
        for row, rank in zip(rows, by_switching, strict=True):
            row.append(f"{rank:.2f}")
    head.append(OVER_LABELS)
    for row, nats in zip(rows, mean_saved(ranking), strict=True):
        row.append(f"{nats:.3f}")
    if has_tests(ranking):
        found = ranking.rank_intervals()
        head += [f"{found.level:.0%} interval", IN_RESAMPLES]
        for e, row in enumerate(rows):
            row.append(f"[{found.lower[e]:.2f}, {found.upper[e]:.2f}]")
            row.append(f"{found.p_best[e]:.2f}")
    return Table(head, [rows[e] for e in _best_first(ranking)])


def mean_saved(ranking: RankStatistics) -> list[float]:
    """Return nats per example saved over labels alone, means over datasets."""
    means: list[float] = ranking.saved_per_example("labels").mean(0).tolist()
    return means


def codelength_table(
    ranking: RankStatistics, digits: int = 4, *, switching: bool = False
) -> Table:
    """Return nats per example by encoder and dataset, the shortest codes bold.

    Parameters
    ----------
    ranking : RankStatistics
    digits : int, default=4
    switching : bool, default=False
        Of switching alone, the paper's code, and not of the code that is ranked.
    """
    sizes = np.array([cell.n_samples for cell in ranking.first_cells_])
    nats = ranking.switching_codelengths_ if switching else ranking.codelengths_
    nats = (nats / sizes[:, None])[:, _best_first(ranking)]
    printed = np.array([[f"{x:.{digits}f}" for x in row] for row in nats]).T
    # Printed ties with the best are bold too: they show no difference.
    best = printed[nats.argmin(axis=1), np.arange(len(nats))]
    bold = {(i, j + 1) for i, j in np.argwhere(printed == best).tolist()}
    rows = [
        [ranking.encoder_names_[e], *row]
        for e, row in zip(_best_first(ranking), printed.tolist(), strict=True)
    ]
    return Table(["encoder", *ranking.dataset_names_], rows, bold=bold)


def readout_table(ranking: RankStatistics) -> Table:
    """Return the preferred readout by encoder and dataset, and the most frequent."""
    by_encoder = zip(*ranking.preferred_readouts(), strict=True)
    found = [
        [name, *row, Counter(row).most_common(1)[0][0]]
        for name, row in zip(ranking.encoder_names_, by_encoder, strict=True)
    ]
    rows = [found[e] for e in _best_first(ranking)]
    head = ["encoder", *ranking.dataset_names_, "most often"]
    return Table(head, rows, n_left=len(head))


def as_latex(ranking: RankStatistics, table: str) -> str:
    """Return one of the tables; see ``RankStatistics.to_latex``."""
    check_choice(table, "table", ("ranking", "codelengths", "switching", "readouts"))
    if table == "ranking":
        return rank_table(ranking).to_latex()
    if table == "readouts":
        return readout_table(ranking).to_latex()
    found = codelength_table(ranking, digits=3, switching=table == "switching")
    ranks = np.sort(ranking.average_ranks_)
    rows = [[*row, f"{x:.2f}"] for row, x in zip(found.rows, ranks, strict=True)]
    return Table([*found.head, "average rank"], rows, bold=found.bold).to_latex()


# Text


def as_text(ranking: RankStatistics) -> str:
    """Verdict, cells by dataset, then encoders by average rank, as aligned text."""
    n_datasets = len(ranking.dataset_names_)
    blocks = [_dataset_text(ranking, i) for i in range(n_datasets)]
    notes = [note] if (note := permutation_text(ranking)) else []
    return "\n\n".join([str(ranking.verdict()), *blocks, *notes, ranking_text(ranking)])


def _share(value: float) -> str:
    """Write an accuracy; of real labels there is none."""
    return "-" if np.isnan(value) else f"{value:.1%}"


def _dataset_text(ranking: RankStatistics, index: int) -> str:
    cell = ranking.first_cells_[index]
    totals = ranking.codelengths_[index]
    by_switching = ranking.switching_codelengths_[index]
    ranks, accuracies = rankdata(totals), ranking.accuracies_[index]
    saved = ranking.saved_per_example("labels")[index]
    alone = totals[0] + saved[0] * cell.n_samples
    own: dict[str, list[Cell]] = {}
    for one in ranking.cells_:
        if one.dataset == cell.dataset:
            own.setdefault(one.encoder, []).append(one)
    tested = [P_VALUE] if permutation_text(ranking) else []
    nats = ["codelength (nats)"]
    if ranking.is_pooled_:
        nats = [f"{POOLED} (nats)", SWITCHING]
    rows = [
        [
            ranking.encoder_names_[e],
            *[f"{code[e]:.1f}" for code in (totals, by_switching)][: len(nats)],
            f"{totals[e] / cell.n_samples:.4f}",
            f"{saved[e]:.4f}",
            _share(accuracies[e]),
            *[_p_value(own[ranking.encoder_names_[e]]) for _ in tested],
            str(own[ranking.encoder_names_[e]][-1].n_features),
            f"{ranks[e]:g}",
        ]
        for e in np.argsort(totals, kind="stable")
    ]
    head = ["encoder", *nats, "per example", OVER_LABELS, "accuracy"]
    head += [*tested, "features", "rank"]
    if len(set(ranking.n_orders_.flat)) > 1:
        head.append("orders")
        for row, e in zip(rows, np.argsort(totals, kind="stable"), strict=True):
            row.append(str(ranking.n_orders_[index, e]))
    note = ranking.terms_notes_.get(cell.dataset)
    kind = f"{cell.n_classes} classes, uniform code {cell.uniform:.1f} nats, labels"
    if cell.is_real:
        kind = "real labels, Gaussian code of labels"
    return (
        f"{cell.dataset}: {cell.n_samples} examples, {kind} alone {alone:.1f} nats\n"
        f"{Table(head, rows).to_text()}" + (f"\n{note}" if note else "")
    )


def ranking_text(ranking: RankStatistics, title: str = "Average ranks") -> str:
    """Return encoders by average rank, with intervals, and the test of them all."""
    n_datasets, n_encoders, n_orders = ranking.order_codelengths_.shape
    table = rank_table(ranking)
    columns = [j for j, name in enumerate(table.head) if name != IN_RESAMPLES]
    shown = Table(
        [table.head[j] for j in columns],
        [[row[j] for j in columns] for row in table.rows],
    )
    lines = [title, shown.to_text()]
    if has_tests(ranking) and n_datasets <= FEW:
        lines.append(
            f"intervals resample {n_datasets} datasets; of so few they are too short"
        )
    if n_orders > 1:
        lines.append(spread_text(ranking))
    if has_tests(ranking):
        lines.append(friedman_text(ranking))
        lines.append(
            f"critical difference {ranking.critical_difference_:.2f} "
            f"(Nemenyi, alpha = {ranking.alpha:g}, {n_encoders} encoders, "
            f"{n_datasets} datasets, orders of each: {_span(ranking.n_orders_)})"
        )
    return "\n".join(lines)


def _span(counts: np.ndarray) -> str:
    """Return the least and the greatest of some numbers, as text."""
    least, most = int(counts.min()), int(counts.max())
    return str(most) if least == most else f"{least} to {most}"


def friedman_text(ranking: RankStatistics) -> str:
    """Return the test of whether any encoders differ, in a line."""
    test = ranking.friedman_test()
    return (
        f"do any differ? F = {test.f_statistic:.2f}, p = {test.f_p_value:.2g} (Iman"
        f" and Davenport); chi2 = {test.statistic:.2f}, p = {test.p_value:.2g} "
        "(Friedman)"
    )


def spread_text(ranking: RankStatistics) -> str:
    """Return how much codelengths vary over orders, in a line."""
    relative = ranking.order_spread().relative
    i, j = np.unravel_index(int(np.nanargmax(relative)), relative.shape)
    return (
        "standard deviation over orders, of the codelength: median "
        f"{np.nanmedian(relative):.2%}, most {relative[i, j]:.2%} "
        f"({ranking.encoder_names_[j]} on {ranking.dataset_names_[i]})"
    )
