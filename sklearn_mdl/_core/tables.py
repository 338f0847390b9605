"""Text tables, aligned for the screen or for LaTeX."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        # LaTeX would read "[" at the beginning of a row as the length of a skip.
        **{bracket: f"{{{bracket}}}" for bracket in "[]"},
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


@dataclass(frozen=True)
class Table:
    """A table of texts whose first column names the rows.

    Attributes
    ----------
    head : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
    n_left : int, default=1
        Number of left-aligned columns. The other columns are right-aligned.
    bold : collection of (int, int), default=()
        Row and column of each cell that :meth:`to_latex` prints in bold.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_left: int = 1
    bold: Collection[tuple[int, int]] = ()

    def to_text(self) -> str:
        """Return the table as aligned text, with two spaces before each column."""
        rows = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "".join(
                f"  {text:{'<' if j < self.n_left else '>'}{width}}"
                for j, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def to_latex(self) -> str:
        """Return a ``tabular`` with booktabs rules and escaped texts."""
        head = [escape_latex(text) for text in self.head]
        rows = [[escape_latex(text) for text in row] for row in self.rows]
        for i, j in self.bold:
            rows[i][j] = rf"\textbf{{{rows[i][j]}}}"
        columns = "l" * self.n_left + "r" * (len(head) - self.n_left)
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


def escape_latex(text: str) -> str:
    """Return text as one line, escaped for LaTeX."""
    return " ".join(text.split()).translate(_LATEX)


# Separates the words of a name: the architecture, settings "name=value", a final "#2".
_WORDS = re.compile(r" (?=\w+=|#\d+$)")


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten names of readouts by omitting settings.

    Settings are omitted if all readouts of the same architecture share them, so
    different names stay different.

    Examples
    --------
    >>> short_names(["linear lr=0.1 wd=0.0", "linear lr=0.3 wd=0.0", "mlp lr=0.1"])
    ['linear lr=0.1', 'linear lr=0.3', 'mlp']
    """
    words = [_WORDS.split(name) for name in names]
    kept = []
    for own in words:
        alike = [set(other) for other in words if other[0] == own[0]]
        common = set.intersection(*alike)
        kept.append(" ".join([own[0], *(w for w in own[1:] if w not in common)]))
    return kept


def duration_text(seconds: float) -> str:
    """Format a time with a suitable unit."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def size_text(n_bytes: int) -> str:
    """Format a number of bytes with a suitable unit."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:.0f} kB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"
