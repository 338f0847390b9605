"""Format numbers of all files that this package writes and reads.

Each file, or its description, contains its kind and format number, such as "losses 1".
If older versions would misread files of a changed format, the format gets a new number.
Files with older numbers stay readable, which tests check on ``tests/data/formats``.
"""

from __future__ import annotations

from collections.abc import Mapping

from sklearn_mdl._core.io.environment import version_of
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.validation import damaged

KEY = "sklearn_mdl"  # key of the format in JSON and in safetensors metadata

FORMATS = {
    "cell": 1,  # a cell of a ranking
    "checkpoint": 1,
    "estimator": 1,
    "features": 1,  # a cache of features
    "list": 1,  # names of this package's files in a folder
    "losses": 1,  # the description of a .npy, or of a stream's folder
    "message": 1,  # encoded labels
    "part": 1,  # the share of one process in a split pass
    "plan": 1,  # how a pass is split among processes
    "probe": 1,
    "race": 1,  # settings of a race
    "results": 1,  # results of a ranking, for other programs
    "trace": 1,  # the trace of a cell
    "update": 1,  # an update of a race
}


class NewerFormat(ValueError):
    """Error for a file in a format that needs a later version of this package."""


def format_of(kind: str) -> str:
    """Return the format in which this version writes a kind of file."""
    return f"{kind} {FORMATS[kind]}"


def with_format(kind: str, content: Mapping[str, object]) -> Json:
    """Return JSON that begins with its format."""
    return {KEY: format_of(kind), **content}


def kind_of(content: object) -> tuple[str, int]:
    """Return kind and format number of JSON, or "" and 0 for other programs' JSON."""
    text = content.get(KEY) if isinstance(content, Mapping) else None
    kind, _, number = str(text).rpartition(" ")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    return (kind, int(number)) if kind in FORMATS and is_number else ("", 0)


def check_format(where: object, kind: str, content: object) -> None:
    """Raise unless JSON is of a kind and in a format that this version can read.

    Parameters
    ----------
    where : path-like or str
        Path or description for the error.
    kind : str
    content : object
        JSON that contains the format.

    Raises
    ------
    NewerFormat
        If the format number is higher than that of this version.
    ValueError
        If the kind differs, or if kind and number are missing.
    """
    actual, number = kind_of(content)
    required = f"format {format_of(kind)!r}, which sklearn_mdl {version_of(KEY)} reads"
    held = f"it holds format '{actual} {number}'" if actual else "it names no format"
    if actual == kind and number > FORMATS[kind]:
        cure = "run pip install -U sklearn-mdl, or pass another path"
        raise NewerFormat(str(damaged(where, required, held, cure)))
    if actual != kind or number < 1:
        raise damaged(where, required, held, "pass another path")
