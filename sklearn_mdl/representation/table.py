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


def as_rows(scorer: Any) -> list[dict[str, Any]]:
    """One dictionary per cell, with the keys of ``COLUMNS``."""
    ranks = rankdata(scorer.order_codelengths_, axis=1).ravel()
    return [
        {
            **{name: getattr(cell, name) for name in COLUMNS if hasattr(cell, name)},
            "rank": float(rank),
            "best_readout": min(cell.readouts, key=cell.readouts.__getitem__),
        }
        for cell, rank in zip(scorer.cells_, ranks, strict=True)
    ]


def as_frame(scorer: Any) -> Any:
    """Rows as a pandas DataFrame; ImportError names the extra."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_frame() needs pandas, which is not installed; install it with "
            'pip install "sklearn_mdl[plot]"'
        ) from error
    return pd.DataFrame(as_rows(scorer), columns=COLUMNS)


def as_text(scorer: Any) -> str:
    """Cells by dataset, then encoders by average rank, as aligned text."""
    blocks = [_dataset_block(scorer, i) for i in range(len(scorer.dataset_names_))]
    return "\n\n".join([*blocks, _ranking_block(scorer)])


def _dataset_block(scorer: Any, index: int) -> str:
    n_encoders = len(scorer.encoder_names_)
    cell = scorer.cells_[index * n_encoders * scorer.n_orders]
    totals = scorer.codelengths_[index]
    ranks = rankdata(totals)
    head = (
        f"{cell.dataset}: {cell.n_samples} examples, {cell.n_classes} classes, "
        f"uniform code {cell.uniform:.1f} nats"
    )
    rows = [
        (
            scorer.encoder_names_[e],
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


def _ranking_block(scorer: Any) -> str:
    order = np.argsort(scorer.average_ranks_, kind="stable")
    rows = [
        (scorer.encoder_names_[e], f"{scorer.average_ranks_[e]:.2f}") for e in order
    ]
    text = "Average ranks\n" + _aligned([("encoder", "average rank"), *rows])
    n_encoders, n_datasets = len(rows), len(scorer.dataset_names_)
    if n_encoders == 1:
        return text
    return (
        f"{text}\n"
        f"critical difference {scorer.critical_difference_:.2f} "
        f"(Nemenyi, alpha = {scorer.alpha:g}, {n_encoders} encoders, "
        f"{n_datasets} datasets, orders of each: {scorer.n_orders})"
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
