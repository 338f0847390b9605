"""Modules that extras install, imported when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


def needed(module: str, caller: str, extra: str) -> ModuleType:
    """Import a module that an extra of this package installs.

    Raises
    ------
    ImportError
        If the module is missing. The message names the extra to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{caller} needs {module.partition('.')[0]}, which cannot be imported "
            f'({error}); run pip install "sklearn-mdl[{extra}]"'
        ) from error


def plot_extra(module: str) -> ModuleType:
    """Import a module that only figures and frames need."""
    return needed(module, "A figure or frame", "plot")


def data_frame(table: Mapping[str, object], index: str) -> DataFrame:
    """Return a DataFrame of named columns, one of which becomes the index."""
    return plot_extra("pandas").DataFrame(table).set_index(index)


def matrix_frame(values: object, columns: object, rows: object = None) -> DataFrame:
    """Return a DataFrame of values with names of columns and, if given, of rows."""
    return plot_extra("pandas").DataFrame(values, rows, columns)
