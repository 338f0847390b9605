"""What is asked of features and labels beyond what scikit-learn asks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

CHECKED_AT_ONCE = 2**24  # numbers
GROUPED = (
    "y should come in no particular order, but it is grouped by class, and the code "
    "pays for that; pass shuffle=True or permute the rows"
)


def check_finite(X: np.ndarray, names: Sequence[str] | None) -> None:
    """Refuse features (n, d) that are not finite as float32, and say where.

    Raises
    ------
    ValueError
        With the first row and column at fault.
    """
    step = max(1, CHECKED_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            rows = X[start : start + step].astype(np.float32, copy=False)
            total = rows.sum(dtype=np.float64)
        if np.isfinite(total):
            continue  # no number is out of range, or the sum would be, too
        row, column = np.argwhere(~np.isfinite(rows))[0]
        what = "NaN" if np.isnan(rows[row, column]) else "infinity or a value too large"
        where = f"row {start + row}, column {column}"
        if names is not None:
            where += f" ({names[column]!r})"
        raise ValueError(
            f"X must hold finite float32 numbers, but Input X contains {what} in "
            f"{where}; drop or impute what is missing"
        )


def check_class_labels(y: np.ndarray) -> None:
    """Refuse labels that are no classes, such as real numbers.

    Raises
    ------
    ValueError
        Begins as scikit-learn's own message does, and says where real labels go.
    """
    try:
        check_classification_targets(y)
    except ValueError as error:
        if "type: continuous" not in str(error):
            raise
        raise ValueError(
            "Unknown label type: continuous, where classes are needed; pass real "
            "numbers to MDLReadoutSwitcherRegressor, or cut them into classes"
        ) from error


def is_grouped(labels: np.ndarray) -> bool:
    """Whether encoded labels come class by class."""
    n_runs = 1 + np.count_nonzero(np.diff(labels))
    return bool(n_runs == labels.max() + 1 and len(labels) > 4 * n_runs)
