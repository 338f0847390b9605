"""File names made from names that the user chose."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

DIGITS = 20  # hexadecimal digits of a digest in a file name
LONGEST = 100  # maximum number of bytes of a user's name in a file name


def _plain(name: str, longest: int = LONGEST) -> str:
    """Return a name as a safe file name of at most ``longest`` bytes."""
    text = re.sub(r"[^\w .-]", "_", name).lstrip(". ")
    return text.encode()[:longest].decode(errors="ignore") or "_"


def file_stems(names: Iterable[str]) -> list[str]:
    """Return a file name for each name. No two are equal, even if case is ignored."""
    stems: list[str] = []
    for name in names:
        stem = _plain(name)
        while stem.casefold() in map(str.casefold, stems):
            stem += "_"
        stems.append(stem)
    return stems


def stem_of(*parts: object, key: str | None = None) -> str:
    """Return a readable file name, without extension, that is unique to these parts.

    Parameters
    ----------
    *parts : object
        Names and numbers, compared as text.
    key : str or None
        A digest that identifies the parts. If None, it is computed from them.
    """
    if key is None:
        key = hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()
    words = "-".join(_plain(str(part), 40) for part in parts)
    return f"{words}-{key[:DIGITS]}"
