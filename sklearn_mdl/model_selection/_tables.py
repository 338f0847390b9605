"""Tables of a ranking as text, rows of a data frame and LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from sklearn_mdl._core.tables import Table
from sklearn_mdl.display import best_first, check_choice
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._certainty import tied
from sklearn_mdl.model_selection._statistics import RankStatistics
from sklearn_mdl.model_selection._tasks import Switcher, default_switcher
from sklearn_mdl.model_selection._verdict import names_of
from sklearn_mdl.ranking import average_ranks

COLUMNS = (
    *("dataset", "encoder", "order", "n_samples", "n_features", "n_classes"),
    *("codelength", "switching_codelength", "per_example", "savings_per_example"),
    *("savings_over_labels", "accuracy", "permutation_p_value"),
    *("rank", "best_readout", "n_readouts", "streams", "scalings", "seconds"),
)
P_VALUE = "p, kernels"  # p-value of a permutation test with only the kernel readouts
# Names of the two codelengths if readouts are pooled.
POOLED, SWITCHING = "pooled", "switching (Li et al. 2023)"
IN_RESAMPLES = "best in resamples"
OVER_LABELS = "saved over labels alone"  # nats per example
# Linear kernels miss classes that lie between others (docs/choosing.md).
NARROW = 'With fewer features than classes, also try the readouts "closed-form".'
FEW = 5  # with up to this many datasets, intervals are too short (docs/how-sure.md)


def columns_of(ranking: RankStatistics) -> list[str]:
    """Return ``COLUMNS``, without p-values if there were no permutation tests."""
    left_out = set() if permutation_text(ranking) else {"permutation_p_value"}
    return [name for name in COLUMNS if name not in left_out]


def as_rows(ranking: RankStatistics) -> list[dict[str, object]]:
    """Return a dictionary per cell whose keys are the names of :func:`columns_of`."""
    codes, columns = np.moveaxis(ranking.order_codelengths_, 1, -1), columns_of(ranking)
    ranks = np.moveaxis(rankdata(tied(codes), axis=-1, nan_policy="omit"), -1, 1)
    return [
        {
            **{name: getattr(cell, name) for name in columns if hasattr(cell, name)},
            "rank": float(rank),
            "best_readout": min(cell.readouts, key=cell.readouts.__getitem__),
            "streams": " ".join(map(str, cell.streams)),
            "scalings": " ".join(cell.scalings),
        }
        for cell, rank in zip(ranking.cells_, ranks[np.isfinite(ranks)], strict=True)
    ]


def cell_table(
    ranking: RankStatistics, heldout: Mapping[str, Mapping[tuple[str, str], float]]
) -> Table:
    """Return a table with details of each encoder on each dataset.

    The details are the accuracy, the p-value of a permutation test if there was one,
    the time, the number of features, and the readouts with their settings.

    Parameters
    ----------
    ranking : RankStatistics
    heldout : mapping of str to mapping
        Further accuracies, such as those on held-out rows. Keys are column titles, and
        values map (dataset, encoder) to the accuracy.
    """
    groups = ranking.cells_by_encoder()
    cells = list(groups.values())
    firsts = [orders[0] for orders in cells]
    columns = {
        "dataset": [dataset for dataset, _ in groups],
        "encoder": [encoder for _, encoder in groups],
        "accuracy": _shares(_means(cells, "accuracy")),
    }
    for title, shares in heldout.items():
        columns[title] = _shares([shares.get(names, np.nan) for names in groups])
    if permutation_text(ranking):
        columns[P_VALUE] = [_p_value(orders) for orders in cells]
    columns["seconds"] = _fixed(_means(cells, "seconds"), 1)
    columns["features"] = [str(cell.n_features) for cell in firsts]
    columns["readouts"] = [str(cell.n_readouts) for cell in firsts]
    if any(cell.streams for cell in firsts):
        columns["streams"] = [" ".join(map(str, cell.streams)) for cell in firsts]
    columns["scalings"] = [" ".join(cell.scalings) for cell in firsts]
    by_codelength = np.argsort(ranking.codelengths_, axis=1, kind="stable")
    n_datasets, n_encoders = by_codelength.shape
    order = by_codelength + n_encoders * np.arange(n_datasets)[:, np.newaxis]
    return _table(columns, order.ravel().tolist(), n_left=2)


def _table(
    columns: Mapping[str, Sequence[str]], order: Iterable[int], n_left: int = 1
) -> Table:
    """Return a table of columns, with rows in the given order."""
    rows = list(zip(*columns.values(), strict=True))
    return Table(list(columns), [rows[i] for i in order], n_left=n_left)


def _means(cells: Iterable[Sequence[Cell]], name: str) -> list[float]:
    """Return the mean over orders of a numeric attribute of cells."""
    return [float(np.mean([getattr(c, name) for c in orders])) for orders in cells]


def _fixed(values: Iterable[float], digits: int) -> list[str]:
    """Format numbers with a given number of decimals."""
    return [f"{value:.{digits}f}" for value in values]


def _shares(values: Iterable[float]) -> list[str]:
    """Format accuracies as percentages, or as "-" if they are NaN."""
    return ["-" if np.isnan(value) else f"{value:.1%}" for value in values]


def permutation_text(ranking: RankStatistics) -> str:
    """Return a note on the p-values of permutation tests, or "" if there are none."""
    numbers = {int(c.permutations["n"]) for c in ranking.cells_ if c.permutations}
    if not numbers:
        return ""
    orders = ranking.order_codelengths_.shape[-1]
    most = f"; largest of {orders} orders" if orders > 1 else ""
    return (
        f"{P_VALUE}: probability that kernel readouts give permuted labels a code that "
        f"is no longer than that of the labels ({max(numbers)} permutations{most})"
    )


def _p_value(cells: Sequence[Cell]) -> str:
    """Return the largest p-value over orders as text, or "" if there was no test.

    The largest p-value is itself a valid p-value.
    """
    p_values = [p for c in cells if (p := c.permutation_p_value) is not None]
    return f"{max(p_values):.3g}" if p_values else ""


def has_tests(ranking: RankStatistics) -> bool:
    """Return True if there are enough datasets for a significant rank difference."""
    most = len(ranking.encoder_names_) - 1
    return len(ranking.dataset_names_) > 1 and ranking.critical_difference_ <= most


# Tables


def rank_table(ranking: RankStatistics) -> Table:
    """Return a table of average ranks, with intervals if there are tests."""
    return _table(_rank_columns(ranking), best_first(ranking))


def _rank_columns(ranking: RankStatistics) -> dict[str, list[str]]:
    ranks = _fixed(ranking.average_ranks_, 2)
    columns = {"encoder": ranking.encoder_names_}
    if ranking.is_pooled_:
        columns[f"average rank, {POOLED}"] = ranks
        columns[SWITCHING] = _fixed(average_ranks(ranking.switching_codelengths_), 2)
    else:
        columns["average rank"] = ranks
    columns[OVER_LABELS] = _fixed(ranking.savings_per_example("labels").mean(0), 3)
    if has_tests(ranking):
        intervals = ranking.rank_intervals()
        bounds = zip(intervals.lower, intervals.upper, strict=True)
        title = f"{100 * intervals.level:g}% interval"
        columns[title] = [f"[{lower:.2f}, {upper:.2f}]" for lower, upper in bounds]
        columns[IN_RESAMPLES] = _fixed(intervals.p_best, 2)
    return columns


def codelength_table(
    ranking: RankStatistics, digits: int = 4, *, switching: bool = False
) -> Table:
    """Return a table of nats per example, with the shortest code per dataset in bold.

    Parameters
    ----------
    ranking : RankStatistics
    digits : int, default=4
    switching : bool, default=False
        Show codelengths without the pool (as in the paper), instead of the codelengths
        that determine the ranking.
    """
    nats = ranking.switching_codelengths_ if switching else ranking.codelengths_
    nats = (nats / ranking.sizes_)[:, best_first(ranking)]
    printed = np.array([[f"{x:.{digits}f}" for x in row] for row in nats]).T
    # Values that equal the best one after rounding are bold too.
    best = printed[nats.argmin(axis=1), np.arange(len(nats))]
    bold = {(i, j + 1) for i, j in np.argwhere(printed == best).tolist()}
    rows = [
        [ranking.encoder_names_[e], *row]
        for e, row in zip(best_first(ranking), printed.tolist(), strict=True)
    ]
    return Table(["encoder", *ranking.dataset_names_], rows, bold=bold)


def readout_table(ranking: RankStatistics) -> Table:
    """Return a table of each encoder's preferred readouts, by dataset and overall."""
    by_encoder = zip(*ranking.preferred_readouts(), strict=True)
    preferred = [
        [name, *row, Counter(row).most_common(1)[0][0]]
        for name, row in zip(ranking.encoder_names_, by_encoder, strict=True)
    ]
    head = ["encoder", *ranking.dataset_names_, "most often"]
    return Table(head, [preferred[e] for e in best_first(ranking)], n_left=len(head))


def as_latex(ranking: RankStatistics, table: str) -> str:
    """Return one of the tables as LaTeX (see ``PrintedRanking.to_latex``)."""
    check_choice(table, "table", ("ranking", "codelengths", "switching", "readouts"))
    if table == "ranking":
        return rank_table(ranking).to_latex()
    if table == "readouts":
        return readout_table(ranking).to_latex()
    nats = codelength_table(ranking, digits=3, switching=table == "switching")
    ranks = np.sort(ranking.average_ranks_)
    rows = [[*row, f"{x:.2f}"] for row, x in zip(nats.rows, ranks, strict=True)]
    return Table([*nats.head, "average rank"], rows, bold=nats.bold).to_latex()


# Text


def as_text(ranking: RankStatistics) -> str:
    """Return the verdict, a table for each dataset, and average ranks as text.

    Average ranks are left out for a single dataset, whose table shows the ranks.
    """
    n_datasets, _, n_orders = ranking.order_codelengths_.shape
    blocks = [_dataset_text(ranking, i) for i in range(n_datasets)]
    notes = [permutation_text(ranking)]
    if n_datasets > 1:
        notes.append(ranking_text(ranking))
    elif n_orders > 1:
        notes.append(spread_text(ranking))
    return "\n\n".join(filter(None, [str(ranking.verdict()), *blocks, *notes]))


def _dataset_text(ranking: RankStatistics, index: int) -> str:
    cell, totals = ranking.first_cells_[index], ranking.codelengths_[index]
    saved = ranking.savings_per_example("labels")[index]
    groups = ranking.cells_by_encoder()
    cells = [groups[cell.dataset, encoder] for encoder in ranking.encoder_names_]
    columns = {"encoder": ranking.encoder_names_}
    if ranking.is_pooled_:
        columns[f"{POOLED} (nats)"] = _fixed(totals, 1)
        columns[SWITCHING] = _fixed(ranking.switching_codelengths_[index], 1)
    else:
        columns["codelength (nats)"] = _fixed(totals, 1)
    columns["per example"] = _fixed(totals / cell.n_samples, 4)
    columns[OVER_LABELS] = _fixed(saved, 4)
    columns["accuracy"] = _shares(ranking.accuracies_[index])
    if permutation_text(ranking):
        columns[P_VALUE] = [_p_value(orders) for orders in cells]
    columns["features"] = [str(orders[0].n_features) for orders in cells]
    columns["rank"] = [f"{rank:g}" for rank in rankdata(totals)]
    if len(set(ranking.n_orders_.flat)) > 1:
        columns["orders"] = [str(n) for n in ranking.n_orders_[index]]
    table = _table(columns, np.argsort(totals, kind="stable").tolist())
    alone = totals[0] + saved[0] * cell.n_samples
    classes = f"{cell.n_classes} classes, uniform code {cell.uniform:.1f} nats, labels"
    kind = "real labels, Gaussian code of labels" if cell.is_real else classes
    title = f"{cell.dataset}: {cell.n_samples} examples, {kind} alone {alone:.1f} nats"
    note = ranking.common_settings_notes_.get(cell.dataset)
    is_narrow = all(orders[0].n_features < cell.n_classes for orders in cells)
    narrow = NARROW * (is_narrow and cell.architectures == ["linear kernel"])
    return "\n".join(filter(None, [title, table.to_text(), note, narrow]))


def ranking_text(ranking: RankStatistics, title: str = "Average ranks") -> str:
    """Return a table of average ranks as text, with the results of tests.

    Tests are left out if there are too few datasets for significant differences.
    """
    n_datasets, n_encoders, n_orders = ranking.order_codelengths_.shape
    columns = _rank_columns(ranking)
    columns.pop(IN_RESAMPLES, None)
    lines = [title, _table(columns, best_first(ranking)).to_text()]
    short = f"intervals are too short, since they resample only {n_datasets} datasets"
    lines += [short] * (has_tests(ranking) and n_datasets <= FEW)
    if n_orders > 1:
        lines.append(spread_text(ranking))
    if has_tests(ranking):
        lines.append(friedman_text(ranking))
        lines.append(
            f"critical difference {ranking.critical_difference_:.2f} "
            f"(Nemenyi, alpha = {ranking.alpha:g}, {n_encoders} encoders, "
            f"{n_datasets} datasets)"
        )
    return "\n".join(lines)


def _span(counts: np.ndarray) -> str:
    """Return the smallest and the largest number as text."""
    least, most = int(counts.min()), int(counts.max())
    return str(most) if least == most else f"{least} to {most}"


def friedman_text(ranking: RankStatistics) -> str:
    """Return a line with the results of Friedman's test of all encoders."""
    test = ranking.friedman_test()
    return (
        f"do any encoders differ? F = {test.f_statistic:.2f}, p = {test.f_p_value:.2g} "
        f"(Iman and Davenport), chi2 = {test.statistic:.2f}, p = {test.p_value:.2g} "
        "(Friedman)"
    )


def settings_text(ranking: RankStatistics, switcher: Switcher | None) -> str:
    """Return a line with the readouts, orders and seed that were used."""
    places: dict[str, list[str]] = {}
    for cell in ranking.first_cells_:
        used = switcher or default_switcher(cell.n_samples, cell.is_real)
        given, count = used.readouts, f"{cell.n_readouts} readout"
        count += "s" * (cell.n_readouts > 1)
        text = f"{type(used).__name__}() with the list 'default', {count}"
        if given is not None:
            name = repr(given) if isinstance(given, str) else "..."
            text = f"{type(used).__name__}({name}) with {count}"
        places.setdefault(text, []).append(cell.dataset)
    lists = [f"{text} on {names_of(names)}" for text, names in places.items()]
    orders = f"orders of the rows: {_span(ranking.n_orders_)}"
    return "; ".join([*lists, orders, f"random_state={ranking.cells_[0].seed}"])


def spread_text(ranking: RankStatistics) -> str:
    """Return a line on how much codelengths vary over orders."""
    relative = ranking.order_spread().relative
    i, j = np.unravel_index(int(np.nanargmax(relative)), relative.shape)
    return (
        "standard deviation of the codelength over orders: median "
        f"{np.nanmedian(relative):.2%}, largest {relative[i, j]:.2%} "
        f"({ranking.encoder_names_[j]} on {ranking.dataset_names_[i]}); "
        f"number of orders: {_span(ranking.n_orders_)}"
    )
