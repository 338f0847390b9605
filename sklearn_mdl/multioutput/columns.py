"""Labels of shape (n_samples, n_outputs), taken apart and checked column by column."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_class_labels


def split_columns(y: Any) -> list[np.ndarray]:
    """Split labels (n_samples, n_outputs) into columns of one type each."""
    if y is None:
        raise ValueError(
            "MultiOutputSwitcher requires y to be passed, but the target y is None; "
            "pass labels of shape (n_samples, n_outputs)"
        )
    y = y.toarray() if issparse(y) else as_array(y)
    y = check_array(y, dtype=None, ensure_2d=False, allow_nd=True, input_name="y")
    if y.ndim != 2:
        raise ValueError(
            "y must have two dimensions, (n_samples, n_outputs), but has shape "
            f"{y.shape}; for one label to a row take MDLReadoutSwitcher"
        )
    # A table of words and numbers comes as objects.
    return [np.array(c.tolist()) if c.dtype == object else c for c in y.T]


@contextmanager
def in_column(j: int) -> Iterator[None]:
    """Say in which column the labels are that are refused."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"In column {j} of y: {error}") from error


def check_labels(columns: list[np.ndarray]) -> None:
    """Refuse columns that hold no labels, or those of one class only."""
    for j, column in enumerate(columns):
        with in_column(j), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # each walk says it
            check_class_labels(column)
            check_several(np.unique(column))


def check_several(classes: np.ndarray) -> None:
    """Refuse classes of which there is one only."""
    if len(classes) < 2:
        raise ValueError(
            "every column needs labels of at least two classes, got one class only, "
            f"{classes.tolist()!r}; leave it out, or walk by partial_fit, which is "
            "told all classes that can occur"
        )


def classes_of_columns(classes: Any, n_outputs: int) -> list[np.ndarray | None]:
    """Check that ``classes`` lists those of every column, if it is given."""
    if classes is None:
        return [None] * n_outputs
    if n_outputs == 1 and all(np.ndim(known) == 0 for known in classes):
        classes = [classes]
    if len(classes) != n_outputs or any(np.ndim(known) != 1 for known in classes):
        raise ValueError(
            f"classes must be a list of the classes of each of {n_outputs} columns, "
            f"got {classes!r}; for 0 and 1 in all of them pass [[0, 1]] * {n_outputs}"
        )
    return [np.unique(known) for known in classes]


def check_first(columns: list[np.ndarray], classes: list[np.ndarray | None]) -> None:
    """Check the first rows of a stream, and that the classes of all columns came."""
    for j, (column, known) in enumerate(zip(columns, classes, strict=True)):
        if known is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, got None; "
                "list the classes of each column, as in [[0, 1], [0, 1]]"
            )
        with in_column(j):
            check_several(known)
            strange = np.setdiff1d(column, known)
            if len(strange):
                raise ValueError(
                    f"labels must be among the classes {known.tolist()!r}, got "
                    f"{strange.tolist()!r}; name all at the first call"
                )
