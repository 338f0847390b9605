"""CSV tables with a header and a row for each sample."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged


def read_csv(path: Path) -> dict[str, list[str]]:
    """Return the columns of a CSV file by name, as text without spaces around it.

    Raises
    ------
    ValueError
        If the file is not UTF-8 text, names a column twice, has no rows, or has a row
        with more or fewer cells than the header.
    """
    cure = "call df.to_csv(path)"  # a wrong encoding also raises ValueError
    longest = csv.field_size_limit(2**31 - 1)  # texts may be whole books
    try:
        with (
            readable(path, "a CSV table with a header", cure, ValueError, csv.Error),
            path.open(newline="", encoding="utf-8-sig") as file,
        ):
            cells = csv.reader(file, strict=True)
            header, *rows = ([cell.strip() for cell in row] for row in cells)
    finally:
        csv.field_size_limit(longest)
    if len(header) == 1 and not {";", "\t"}.isdisjoint(header[0]):
        fault = f"its header is {header[0]!r}"
        raise damaged(path, "cells separated by commas", fault, cure)
    twice = [name for name, n in Counter(header).items() if n > 1]
    if twice:
        fault = f"its header names {twice[0]!r} twice"
        raise damaged(path, "a name for each column", fault, "rename one of them")
    rows = [row for row in rows if row]
    wrong = [i for i, row in enumerate(rows, 2) if len(row) != len(header)]
    if wrong or not rows:
        fault = f"row {wrong[0]} has more or fewer" if wrong else "it has no row"
        required = f"rows of {len(header)} cells, as in its header"
        raise damaged(path, required, fault, "save it with df.to_csv(path)")
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}
