"""Names of files that are made of the user's names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

DIGITS = 20  # of a digest in the name of a file
LONGEST = 100  # bytes of a user's name in that of a file


def _plain(name: str, longest: int = LONGEST) -> str:
    """Return a name that stays inside its directory, whatever is given."""
    text = re.sub(r"[^\w .-]", "_", name).lstrip(". ")
    return text.encode()[:longest].decode(errors="ignore") or "_"


def file_stems(names: Iterable[str]) -> list[str]:
    """Return plain names that differ, whatever the case."""
    stems: list[str] = []
    for name in names:
        stem = _plain(name)
        while stem.casefold() in map(str.casefold, stems):
            stem += "_"
        stems.append(stem)
    return stems


def stem_of(*parts: object, key: str | None = None) -> str:
    """Return a readable name for parts, which no other parts share.

    Parameters
    ----------
    *parts : object
        Names and numbers; their text counts.
    key : str or None
        A digest that identifies them; by default that of the parts.
    """
    if key is None:
        key = hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()
    words = "-".join(_plain(str(part), 40) for part in parts)
    return f"{words}-{key[:DIGITS]}"
