"""A fitted ranking as rows, as a data frame, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

COLUMNS = (
    "dataset",
    "encoder",
    "order",
    "n_samples",
    "n_features",
    "n_classes",
    "codelength",
    "per_example",
    "saved_per_example",
    "rank",
    "best_readout",
    "seconds",
)

FEW = 5  # datasets, whose resampled intervals hold too little (docs/ranking.md)


def as_rows(ranking: Any) -> list[dict[str, Any]]:
    """One dictionary per cell, with the keys of ``COLUMNS``."""
    ranks = rankdata(ranking.order_codelengths_, axis=1).ravel()
    return [
        {
            **{name: getattr(cell, name) for name in COLUMNS if hasattr(cell, name)},
            "rank": float(rank),
            "best_readout": min(cell.readouts, key=cell.readouts.__getitem__),
        }
        for cell, rank in zip(ranking.cells_, ranks, strict=True)
    ]


def as_frame(ranking: Any) -> Any:
    """Rows as a pandas DataFrame; ImportError names the extra."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_frame() needs pandas, which is not installed; install it with "
            'pip install "sklearn_mdl[plot]"'
        ) from error
    return pd.DataFrame(as_rows(ranking), columns=COLUMNS)


def as_text(ranking: Any) -> str:
    """Cells by dataset, then encoders by average rank, as aligned text."""
    n_datasets = len(ranking.dataset_names_)
    blocks = [_dataset_block(ranking, i) for i in range(n_datasets)]
    return "\n\n".join([*blocks, ranking_text(ranking)])


def _dataset_block(ranking: Any, index: int) -> str:
    cell = ranking.first_cells_[index]
    totals = ranking.codelengths_[index]
    ranks = rankdata(totals)
    head = (
        f"{cell.dataset}: {cell.n_samples} examples, {cell.n_classes} classes, "
        f"uniform code {cell.uniform:.1f} nats"
    )
    rows = [
        (
            ranking.encoder_names_[e],
            f"{totals[e]:.1f}",
            f"{totals[e] / cell.n_samples:.4f}",
            f"{(cell.uniform - totals[e]) / cell.n_samples:.4f}",
            f"{ranks[e]:g}",
        )
        for e in np.argsort(totals, kind="stable")
    ]
    titles = (
        "encoder",
        "codelength (nats)",
        "per example",
        "saved per example",
        "rank",
    )
    return head + "\n" + _aligned([titles, *rows])


def ranking_text(ranking: Any, title: str = "Average ranks") -> str:
    """Return encoders by average rank, with intervals, and the test of them all."""
    order = np.argsort(ranking.average_ranks_, kind="stable")
    titles, rows = (
        ["encoder", "average rank"],
        [[ranking.encoder_names_[e]] for e in order],
    )
    for row, rank in zip(rows, ranking.average_ranks_[order], strict=True):
        row.append(f"{rank:.2f}")
    n_datasets, n_encoders = len(ranking.dataset_names_), len(rows)
    if has_tests(ranking):
        found = ranking.rank_intervals()
        titles.append(f"{found.level:.0%} interval")
        for row, e in zip(rows, order, strict=True):
            row.append(f"[{found.lower[e]:.2f}, {found.upper[e]:.2f}]")
    lines = [title, _aligned([tuple(titles), *map(tuple, rows)])]
    if has_tests(ranking) and n_datasets <= FEW:
        lines.append(
            f"intervals resample {n_datasets} datasets; of so few they are too short"
        )
    if ranking.order_codelengths_.shape[-1] > 1:
        lines.append(spread_text(ranking))
    if has_tests(ranking):
        lines.append(friedman_text(ranking))
    if has_tests(ranking):
        lines.append(
            f"critical difference {ranking.critical_difference_:.2f} "
            f"(Nemenyi, alpha = {ranking.alpha:g}, {n_encoders} encoders, "
            f"{n_datasets} datasets, orders of each: "
            f"{ranking.order_codelengths_.shape[-1]})"
        )
    return "\n".join(lines)


def has_tests(ranking: Any) -> bool:
    """Whether there is enough for tests: two datasets, and two encoders."""
    return min(ranking.order_codelengths_.shape[:2]) > 1


def friedman_text(ranking: Any) -> str:
    """Return the test of whether any encoders differ, in a line."""
    test = ranking.friedman_test()
    return (
        f"do any differ? F = {test.f_statistic:.2f}, p = {test.f_p_value:.2g} (Iman"
        f" and Davenport); chi2 = {test.statistic:.2f}, p = {test.p_value:.2g} "
        "(Friedman)"
    )


def spread_text(ranking: Any) -> str:
    """Say how much orders matter, in a line."""
    relative = ranking.order_spread().relative
    i, j = np.unravel_index(int(np.argmax(relative)), relative.shape)
    return (
        "standard deviation over orders, of the codelength: median "
        f"{np.median(relative):.2%}, most {relative[i, j]:.2%} "
        f"({ranking.encoder_names_[j]} on {ranking.dataset_names_[i]})"
    )


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  "
        + row[0].ljust(widths[0])
        + "".join(
            "  " + text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True)
        )
        for row in rows
    )
