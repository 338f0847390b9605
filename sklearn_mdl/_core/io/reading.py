"""Errors for damaged files and files of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError

from sklearn_mdl._core.validation import SHOWN, damaged

# Raised by NumPy for a damaged header of ``.npy``, besides ValueError.
DAMAGED_HEADER = TokenError, SyntaxError, RecursionError


@contextmanager
def readable(
    path: Path | str, required: str, cure: str, *errors: type[Exception]
) -> Iterator[None]:
    """Replace a library's error about a damaged file by one with the path and a fix.

    Parameters
    ----------
    path, required, cure
        As for :func:`~sklearn_mdl._core.validation.damaged`.
    *errors : exception types
        Errors of the library. Errors for a missing file, and a ValueError that names
        the path, are not changed.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except errors as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        reason = str(error).partition("\n")[0][:SHOWN]
        problem = f"it cannot be read ({type(error).__name__}: {reason})"
        raise damaged(path, required, problem, cure) from error
