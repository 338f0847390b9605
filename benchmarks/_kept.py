"""Results that a long benchmark saves in a file, so that it can resume."""

import json
from pathlib import Path

OPTION = {
    "--results": {
        "type": Path,
        "help": "file of measured rows to reuse, to which new rows are added",
    }
}


def read(path):
    """Yield the key and numbers of every row of a file. A missing file has no rows."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        row = json.loads(line)
        yield row["key"], row["found"]


def kept(path, key, measure):
    """Return the saved numbers of a key, or measure and save them.

    Parameters
    ----------
    path : Path or None
        File with one JSON row per line. If None, nothing is saved.
    key : list of JSON values
        Everything that the numbers depend on.
    measure : callable
        Returns a dict of numbers or lists of numbers.
    """
    for known, saved in () if path is None else read(path):
        if known == key:
            return saved
    numbers = measure()
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "found": numbers}) + "\n")
    return numbers
