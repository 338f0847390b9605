"""A comparison as aligned text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_mdl.codelength import uniform_codelength
from sklearn_mdl.protocols.measuring import ACCURACY, EVIDENCE, NATS

DIGITS = {ACCURACY: 4, EVIDENCE: 4, NATS: 1}


def as_text(comparison: Any) -> str:
    """Values, ranks and wall times of every dataset, then averages, then reasons."""
    n_datasets = len(comparison.dataset_names)
    blocks = [_legend(comparison)]
    blocks += [dataset_text(comparison, d) for d in range(n_datasets)]
    if n_datasets > 1:
        blocks.append(average_text(comparison))
    if comparison.reasons:
        lines = [
            f"  {', '.join(filter(None, place))}: {reason}"
            for place, reason in comparison.reasons.items()
        ]
        blocks.append("\n".join(["Not computed", *lines]))
    return "\n\n".join(blocks)


def _legend(comparison: Any) -> str:
    lines = ["Protocols, and after each the rank (#) of the encoder by it"]
    lines += [
        f"  {p.name}: {p.title}, {p.unit}, "
        f"{'greater' if p.greater_is_better else 'smaller'} is better"
        for p in comparison.protocols
    ]
    if comparison.is_bound.any():
        lines.append(
            "  >= marks lower bounds: the data end before the threshold is met"
        )
    return "\n".join(lines)


def dataset_text(comparison: Any, d: int) -> str:
    """Values, ranks and wall times on one dataset."""
    n_train, n_classes = comparison.n_train[d], comparison.n_classes[d]
    name = comparison.dataset_names[d]
    head = (
        f"{f'{name}: ' if name else ''}{n_train} rows learned and coded, "
        f"{comparison.n_test[d]} tested, {n_classes} classes, uniform code "
        f"{uniform_codelength(n_train, n_classes):.1f} nats"
    )
    if {p.name for p in comparison.protocols} & {"sdl", "esc"}:
        head += f", epsilon {comparison.epsilons[d]:.3f} nats"
    titles = ["encoder"]
    for protocol in comparison.protocols:
        titles += [protocol.name, "#"]
    ranks = comparison.ranks[d]
    rows = [titles]
    for e, encoder in enumerate(comparison.encoder_names):
        row = [encoder]
        for p in range(len(comparison.protocols)):
            row += [value_text(comparison, d, e, p), number(ranks[e, p], "g")]
        rows.append(row)
    return "\n".join(
        [head, aligned(rows), "", "  seconds", aligned(_times(comparison, d))]
    )


def _times(comparison: Any, d: int) -> list[list[str]]:
    rows = [["encoder", "encoding", *(p.name for p in comparison.protocols)]]
    for e, encoder in enumerate(comparison.encoder_names):
        seconds = [comparison.encoding_seconds[d, e], *comparison.seconds[d, e]]
        rows.append([encoder, *(number(s, ".2f") for s in seconds)])
    return rows


def average_text(comparison: Any) -> str:
    """Average ranks over datasets with their places, and mean accuracies."""
    titles, columns = ["encoder"], [list(comparison.encoder_names)]
    for p, protocol in enumerate(comparison.protocols):
        average = comparison.average_ranks[:, p]
        if protocol.unit == ACCURACY:
            titles.append(f"{protocol.name} mean")
            means = comparison.values[:, :, p].mean(0)
            columns.append([number(x, ".4f") for x in means])
        titles += [protocol.name, "#"]
        columns.append([number(x, ".2f") for x in average])
        columns.append([number(x, "g") for x in comparison.average_places[:, p]])
    head = f"Average ranks over {len(comparison.dataset_names)} datasets"
    return "\n".join([head, aligned([titles, *map(list, zip(*columns, strict=True))])])


def value_text(comparison: Any, d: int, e: int, p: int) -> str:
    """Return a value in the digits of its unit, marked if it is a lower bound."""
    bound = ">= " if comparison.is_bound[d, e, p] else ""
    digits = DIGITS.get(comparison.protocols[p].unit, 0)
    return bound + number(comparison.values[d, e, p], f".{digits}f")


def number(value: float, style: str) -> str:
    """Return a number as text, and a dash where there is none; zero has no sign."""
    return "-" if np.isnan(value) else format(value, f"z{style}")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells, the first column on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + row[0].ljust(widths[0])
        + "".join(
            "  " + cell.rjust(width)
            for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        for row in rows
    )
