r"""Tables of a ranking for LaTeX, with the rules of booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_mdl.representation.readouts import most_often
from sklearn_mdl.representation.table import has_tests

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it stands, in one line.

    A "[" after the end of a row would be read as the length of a skip, so that it is
    put in braces.
    """
    one_line = " ".join(text.split())
    return one_line.translate(_ESCAPES).replace("[", "{[}").replace("]", "{]}")


def as_latex(ranking: Any, table: str) -> str:
    """Return one of the tables; see ``RankStatistics.to_latex``."""
    makers = {
        "ranking": _ranking,
        "codelengths": _codelengths,
        "readouts": _readouts,
    }
    if table not in makers:
        raise ValueError(f"`table` must be one of {list(makers)}, got {table!r}")
    return makers[table](ranking)


def _ranking(ranking: Any) -> str:
    order = np.argsort(ranking.average_ranks_, kind="stable").tolist()
    head, rows = ["encoder", "average rank"], []
    if has_tests(ranking):
        found = ranking.rank_intervals()
        head += [rf"{100 * found.level:.0f}\,\% interval", "best"]
    for e in order:
        row = [escaped(ranking.encoder_names_[e]), f"{ranking.average_ranks_[e]:.2f}"]
        if has_tests(ranking):
            row.append(rf"{found.lower[e]:.2f}--{found.upper[e]:.2f}")
            row.append(f"{found.p_best[e]:.2f}")
        rows.append(row)
    return _tabular("l" + "r" * (len(head) - 1), head, rows)


def _codelengths(ranking: Any) -> str:
    sizes = [cell.n_samples for cell in ranking.first_cells_]
    table = ranking.codelengths_ / np.array(sizes)[:, None]
    printed = np.array([[f"{nats:.3f}" for nats in row] for row in table])
    best = table.argmin(axis=1)
    rows = []
    for e, name in enumerate(ranking.encoder_names_):
        cells = [
            # Printed ties with the best are bold too: they show no difference.
            rf"\textbf{{{text}}}" if text == printed[d, best[d]] else text
            for d, text in enumerate(printed[:, e].tolist())
        ]
        rows.append([escaped(name), *cells, f"{ranking.average_ranks_[e]:.2f}"])
    head = ["encoder", *map(escaped, ranking.dataset_names_), "average rank"]
    return _tabular("l" + "r" * (len(head) - 1), head, rows)


def _readouts(ranking: Any) -> str:
    by_encoder = list(zip(*ranking.preferred_readouts(), strict=True))
    rows = [
        [escaped(name), *map(escaped, row), escaped(most_often(list(row)))]
        for name, row in zip(ranking.encoder_names_, by_encoder, strict=True)
    ]
    head = ["encoder", *map(escaped, ranking.dataset_names_), "most often"]
    return _tabular("l" * len(head), head, rows)


def _tabular(columns: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(head) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
