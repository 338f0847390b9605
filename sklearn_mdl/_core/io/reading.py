"""Errors of files that another program wrote, or that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sklearn_mdl._core.validation import SHOWN, damaged


@contextmanager
def readable(
    path: Path | str, required: str, cure: str, *errors: type[Exception]
) -> Iterator[None]:
    """Report what a library raises for a damaged file with the file and a cure.

    Parameters
    ----------
    path, required, cure
        As :func:`~sklearn_mdl._core.validation.damaged` takes them.
    *errors : exception types
        What the library raises. A file that is missing is not damaged.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except errors as error:
        reason = str(error).partition("\n")[0].strip("'\"")[:SHOWN]
        found = f"it cannot be read ({type(error).__name__}: {reason})"
        raise damaged(path, required, found, cure) from error
