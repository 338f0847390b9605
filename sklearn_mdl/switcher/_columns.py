"""Checks of labels with several columns, and of the classes of each column."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, spmatrix
from sklearn.utils import check_array

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.validation import as_labels, check_class_labels, invalid


def split_columns(y: Any) -> list[np.ndarray]:
    """Return the columns of labels y (n_samples, n_outputs), each with its dtype."""
    if y is None:
        raise ValueError(
            "MultiOutputSwitcher requires y to be passed, but the target y is None; "
            "pass y of shape (n_samples, n_outputs)"
        )
    if hasattr(y, "columns") and len(set(getattr(y, "dtypes", ()))) > 1:
        # The whole table would become floats, in which different labels may be equal.
        table, width = y.iloc if hasattr(y, "iloc") else y, y.shape[1]
        labels = np.stack([np.asarray(table[:, j], object) for j in range(width)], 1)
    else:
        target = as_labels(cast(spmatrix, y).toarray() if issparse(y) else as_array(y))
        options = {"dtype": None, "ensure_2d": False, "allow_nd": True}
        labels = check_array(target, **options, input_name="y")
    if labels.ndim != 2:
        required = "of shape (n_samples, n_outputs)"
        cure = "for one label per row, use MDLReadoutSwitcher()"
        raise invalid("y", required, labels.shape, cure)
    # A table that contains both text and numbers has dtype object.
    columns = [as_labels(c, f"Column {j} of y") for j, c in enumerate(labels.T)]
    return [np.array(c.tolist()) if c.dtype == object else c for c in columns]


@contextmanager
def in_column(j: int) -> Iterator[None]:
    """Add the number of the column to the message of any ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"In column {j} of y: {error}") from error


def check_labels(columns: list[np.ndarray]) -> None:
    """Raise if the labels of a column are invalid or all of one class."""
    for j, column in enumerate(columns):
        with in_column(j), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fit will issue these warnings
            check_class_labels(column)
            check_several(np.unique(column), f"drop column {j} of y")


def check_several(classes: np.ndarray, cure: str) -> None:
    """Raise if there is only one class."""
    if len(classes) < 2:
        raise ValueError(
            "each column needs labels of at least two classes, got only one class, "
            f"{classes.tolist()!r}; {cure}"
        )


def classes_of_columns(
    classes: Sequence[ArrayLike] | None, n_outputs: int
) -> list[np.ndarray | None]:
    """Return the sorted classes of each column, or None for each if not given."""
    if classes is None:
        return [None] * n_outputs
    if n_outputs == 1 and all(np.ndim(known) == 0 for known in classes):
        classes = [np.asarray(classes)]
    if len(classes) != n_outputs or any(np.ndim(known) != 1 for known in classes):
        required = f"a list of {n_outputs} lists of classes, one for each column"
        cure = f"for example, pass classes=[[0, 1]] * {n_outputs}"
        raise invalid("classes", required, classes, cure)
    return [np.unique(known) for known in classes]


def check_first(columns: list[np.ndarray], classes: list[np.ndarray | None]) -> None:
    """Raise unless classes are given for each column and include all its labels."""
    for j, (column, known) in enumerate(zip(columns, classes, strict=True)):
        if known is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, got None; "
                f"pass a list per column, for example classes=[[0, 1]] * {len(columns)}"
            )
        with in_column(j):
            check_several(known, f"add the other classes of column {j} to classes[{j}]")
            unknown = np.setdiff1d(column, known)
            if len(unknown):
                required = f"among the classes {known.tolist()!r}"
                cure = f"extend classes[{j}] by {unknown.tolist()!r}"
                raise invalid("labels", required, unknown.tolist(), cure)
