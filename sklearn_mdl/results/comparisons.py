"""A comparison of protocols as a section of the page, and as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sklearn_mdl.protocols import ProtocolComparison
from sklearn_mdl.protocols.text import number, value_text
from sklearn_mdl.results.page import Bold, heading, paragraph, table

COLUMNS = (
    "dataset",
    "encoder",
    "protocol",
    "unit",
    "value",
    "bound",
    "rank",
    "seconds",
)


def side_by_side(comparison: ProtocolComparison) -> tuple[str, str]:
    """Return heading and HTML of the protocols side by side."""
    better = {True: "greater is better", False: "smaller is better"}
    html = paragraph(
        "Encoders by other measures, each dataset split once for all of them: "
        + "; ".join(
            f"{p.name}: {p.title} ({p.unit}, {better[p.greater_is_better]})"
            for p in comparison.protocols
        )
        + "."
    )
    several = len(comparison.dataset_names) > 1
    if several:
        html += heading("Average ranks") + _averages(comparison)
    for d, name in enumerate(comparison.dataset_names):
        html += (heading(name) if name else "") + _values(comparison, d)
    for place, reason in comparison.reasons.items():
        text = ", ".join(filter(None, place))
        html += paragraph(f"Not computed: {text}: {reason}", note=True)
    return "Protocols side by side", html


def _values(comparison: ProtocolComparison, d: int) -> str:
    """Tabulate values on a dataset, the best of each protocol bold, and its times."""
    ranks = comparison.ranks[d]
    least = np.min(ranks, axis=0, where=~np.isnan(ranks), initial=np.inf)
    rows = []
    for e, encoder in enumerate(comparison.encoder_names):
        cells = [
            value_text(comparison, d, e, p) for p in range(len(comparison.protocols))
        ]
        best = ranks[e] == least
        shown = (Bold(c) if b else c for c, b in zip(cells, best, strict=True))
        rows.append([encoder, *shown])
    totals = np.nansum(comparison.seconds[d], axis=0)
    rows.append(["seconds, all encoders", *(number(s, ".1f") for s in totals)])
    return table(["encoder", *(p.name for p in comparison.protocols)], rows)


def _averages(comparison: ProtocolComparison) -> str:
    rows = [
        [encoder, *(number(rank, ".2f") for rank in comparison.average_ranks[e])]
        for e, encoder in enumerate(comparison.encoder_names)
    ]
    return table(["encoder", *(p.name for p in comparison.protocols)], rows)


def rows_of(comparison: ProtocolComparison) -> Iterator[list[Any]]:
    """Yield a row for each dataset, encoder and protocol, as ``COLUMNS`` name them."""
    ranks = comparison.ranks
    for at in np.ndindex(comparison.values.shape):
        d, e, p = at
        protocol = comparison.protocols[p]
        yield [
            comparison.dataset_names[d],
            comparison.encoder_names[e],
            protocol.name,
            protocol.unit,
            float(comparison.values[at]),
            bool(comparison.is_bound[at]),
            float(ranks[at]),
            float(comparison.seconds[at]),
        ]
