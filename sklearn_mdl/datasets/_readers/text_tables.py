"""Tables of text: a header, and a row for each sample."""

from __future__ import annotations

import csv
from pathlib import Path


def read_csv(path: Path) -> dict[str, list[str]]:
    """Return the columns of a CSV file by name, as text.

    Raises
    ------
    ValueError
        If it is no text, has no rows, or rows of other lengths than its header.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = csv.reader(file)
    except (ValueError, csv.Error) as error:  # the first includes wrong encodings
        raise ValueError(
            f"{path} must be a table in CSV, with a header, got: {error}; write it "
            "again as UTF-8"
        ) from error
    rows = [row for row in rows if row]
    wrong = [i for i, row in enumerate(rows, 2) if len(row) != len(header)]
    if wrong or not rows:
        found = f"another number in row {wrong[0]}" if wrong else "no row"
        raise ValueError(
            f"{path} must have {len(header)} cells in every row, as in its header, got "
            f"{found}; write it again"
        )
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}
