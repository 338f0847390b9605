"""Libraries that not everyone has: imported when needed, and named when missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, caller: str, extra: str) -> Any:
    """Import a module of an extra.

    Raises
    ------
    ImportError
        Naming the extra to install, if it is missing.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{caller} needs {module.partition('.')[0]}, which cannot be imported "
            f"({error}); install it with pip install 'sklearn-mdl[{extra}]'"
        ) from error
