"""Checks of features, labels and pipeline steps, to keep codelengths valid."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import compress
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import gammaln
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

OWN = ("sklearn_mdl", "sklearn", "joblib")  # packages that warnings never point to
CHECKED_AT_ONCE = 2**24  # number of values that are checked at a time
SAMPLED = 2**20  # approximate number of values that are checked for rounding
LARGE = 2**53  # above this, float64 cannot represent all whole numbers
GROUPED = (
    "y should be in random order, but it is grouped by class or nearly so, which "
    "changes the codelength; pass shuffle=True to a switcher, or permute the rows (or "
    "whole groups)"
)
GROUPED_NATS = 14.0  # see is_grouped
STEPS = 1000  # smallest range of a feature, in rounding errors
CONSTANT = 1e-12  # largest range of a constant feature, as a share of its size
SHOWN = 200  # maximum number of characters of a value in a message
MANY_VALUES = 20  # with more distinct values, whole floats may be real numbers


def invalid(name: str, required: str, given: object, cure: str) -> ValueError:
    """Return the error for an invalid value of a parameter.

    Parameters
    ----------
    name : str
        Name of the parameter.
    required : str
        What the value must be.
    given : object
        Given value, shown as a shortened ``repr``.
    cure : str
        What to write instead.
    """
    shown = repr(given)
    shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
    return ValueError(f"{name} must be {required}, got {shown}; {cure}")


def check_positive(name: str, value: object, example: int) -> None:
    """Raise ValueError unless the value of a parameter is a positive integer."""
    if not isinstance(value, Integral) or value < 1:
        raise invalid(name, "a positive integer", value, f"pass {name}={example}")


def damaged(path: object, required: str, problem: object, cure: str) -> ValueError:
    """Return the error for a file with unexpected content."""
    return ValueError(f"{path} must hold {required}, but {problem}; {cure}")


_KEPT: ContextVar[list[str] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Collect the warnings of :func:`warn_caller` instead of issuing them."""
    messages: list[str] = []
    token = _KEPT.set(messages)
    try:
        yield messages
    finally:
        _KEPT.reset(token)


def warn_caller(message: str) -> None:
    """Warn at the line that called this package."""
    if (messages := _KEPT.get()) is not None:
        messages.append(message)
        return
    frame, level = inspect.currentframe(), 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def check_finite(X: np.ndarray, names: Sequence[str] | None) -> None:
    """Raise for features (n, d) that are not finite as float32.

    Raises
    ------
    ValueError
        If a feature is not finite. The message names the first such row and column.
    """
    if fault := non_finite(X, names):
        raise ValueError(
            f"X must hold finite float32 numbers, but Input X contains {fault}; drop "
            "such rows from X and y, or pass SimpleImputer().fit_transform(X) for NaN"
        )


def non_finite(
    X: np.ndarray, names: Sequence[str] | None = None, first: int = 0
) -> str:
    """Describe the first value in X that is not finite as float32, or return "".

    Parameters
    ----------
    X : ndarray of shape (n, d)
    names : sequence of str, optional
        Names of the columns.
    first : int, default=0
        Number that the description gives to the first row.
    """
    step = max(1, CHECKED_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        with np.errstate(over="ignore", invalid="ignore"):  # described below
            rows = X[start : start + step].astype(np.float32, copy=False)
            total = rows.sum(dtype=np.float64)
        if np.isfinite(total):
            continue  # NaN or infinity would make the sum non-finite
        row, column = np.argwhere(~np.isfinite(rows))[0]
        what = "NaN" if np.isnan(rows[row, column]) else "infinity or a value too large"
        name = "" if names is None else f" ({names[column]!r})"
        return f"{what} in row {first + start + row}, column {column}{name}"
    return ""


def validated(estimator: BaseEstimator, *given: Any, dtype: Any, reset: bool) -> Any:
    """Return features, and labels if given, after the checks of scikit-learn.

    Raises
    ------
    ValueError
        If scikit-learn refuses the data, if columns share a name, or if a feature is
        not finite. The message names the row and column of such a feature.
    """
    names: Any = getattr(given[0], "columns", None)
    if not getattr(names, "is_unique", True):  # in pandas
        cure = "pass X.set_axis(range(X.shape[1]), axis=1)"
        raise invalid("Column names of X", "distinct", list(names), cure)
    options = {"dtype": dtype, "ensure_all_finite": False, "reset": reset}
    try:
        with np.errstate(over="ignore"):  # the error below names the position
            checked = validate_data(estimator, *given, **options)
    except (TypeError, ValueError) as error:
        if "could not" in str(error):  # be converted to numbers, or be promoted
            refuse_text(given[0])
        raise
    names = getattr(estimator, "feature_names_in_", None)
    check_finite(checked if len(given) == 1 else checked[0], names)
    return checked


def refuse_text(X: Any, title: str = "X") -> None:
    """Raise ValueError for the first value in X that is not a number."""
    names = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow's, others
    columns = X if names is not None else np.asarray(X, dtype=object).T
    if np.ndim(columns) == 1:
        cure = "for texts pass TfidfVectorizer().fit_transform(X)"
        raise invalid(title, "a table of numbers", columns[0], cure)
    for name in range(len(columns)) if names is None else names:
        for value in np.asarray(columns[name], dtype=object):
            try:
                float(value)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{title} must hold numbers, got {value!r} in column {name!r}; "
                    "encode it, for example with make_column_transformer("
                    f"(OneHotEncoder(), [{name!r}]), remainder='passthrough')"
                ) from error


def warn_if_rounded(X: Any, names: Sequence[str] | None) -> None:
    """Warn if float32 can hardly resolve the variation of a feature.

    Only the first rows are checked, about ``SAMPLED`` numbers.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    rows = np.asarray(X[: max(2, SAMPLED // X.shape[1])], dtype=np.float64)
    rounding = np.abs(rows.astype(np.float32) - rows).max(0)
    spread, size = np.ptp(rows, axis=0), np.abs(rows).max(0)
    # Rounding errors of float64 may make a constant feature appear to vary.
    is_lost = (rounding > spread / STEPS) & (spread > CONSTANT * size)
    if is_lost.any():
        column = int(is_lost.argmax())
        name = column if names is None else names[column]
        warn_caller(
            f"Rounding to float32 should hardly change X, but column {name!r} only "
            f"varies by {spread[column]:.2g} around {rows[:, column].mean():.6g}; pass "
            "StandardScaler().fit_transform(X)"
        )


def as_labels(y: Any, title: str = "y") -> Any:
    """Return numbers as exact integers or floats, and other labels unchanged.

    NumPy would convert some pandas columns and lists to float64 or to objects. Float64
    cannot represent all integers above 2^53, and scikit-learn does not treat objects as
    numbers. A column of a table that also holds text consists of objects, too.

    Raises
    ------
    ValueError
        If a label is missing, or if an array of objects holds text and other labels;
        the error begins with `title`. Also if whole numbers need more than 64 bits, or
        if whole numbers above 2^53 are mixed with real numbers.
    """
    if y is None or issparse(y):
        return y
    y = refuse_missing(y, title)  # before NumPy turns a missing value into text
    if isinstance(y, np.ndarray) and y.dtype != object:
        return y
    labels = np.asarray(y)
    if labels.dtype.kind in "iu":
        return labels
    if labels.dtype.kind not in "fO" or not labels.size:
        return y
    numbers = np.asarray(y, dtype=object).ravel().tolist()
    is_text = [isinstance(v, str) for v in numbers]
    if labels.ndim == 1 and any(is_text) and not all(is_text):
        text, other = (numbers[is_text.index(kind)] for kind in (True, False))
        raise ValueError(
            f"{title} must hold only text or only numbers, got {text!r} and {other!r}; "
            "pass [str(label) for label in y]"
        )
    whole = [isinstance(v, Integral) and not isinstance(v, bool) for v in numbers]
    large = list(compress(numbers, whole))
    if not all(whole):
        if any(abs(v) > LARGE for v in large) and not any(is_text):
            raise ValueError(
                f"Labels must all be integers if one exceeds {LARGE}, got "
                f"{numbers[whole.index(False)]!r}; pass [int(v) for v in y] or, "
                "for real numbers, np.asarray(y, float)"
            )
        is_real = labels.dtype == object and all(isinstance(v, Real) for v in numbers)
        return np.array(numbers).reshape(labels.shape) if is_real else y
    for kind in (np.int64, np.uint64):
        limits = np.iinfo(kind)
        if limits.min <= min(large) and max(large) <= limits.max:
            return np.array(large, dtype=kind).reshape(labels.shape)
    raise ValueError(
        "Labels must be whole numbers of one type, int64 or uint64, of at most 64 bits,"
        f" got {min(large)} to {max(large)}; pass [str(label) for label in y] each time"
    )


def may_be_real(labels: np.ndarray) -> bool:
    """Return True for whole floats that could be ages, counts or prices.

    Labels must have more than 2 distinct values, and more than the smaller of 20 and a
    quarter of the number of rows. So 1.0, 2.0 and 3.0 in 200 rows are classes.
    """
    if labels.dtype.kind != "f" or not np.array_equal(labels, np.rint(labels)):
        return False
    return len(np.unique(labels)) > max(2, min(MANY_VALUES, len(labels) / 4))


def check_class_labels(y: np.ndarray, name: str = "y") -> None:
    """Raise for labels that are not classes, such as real numbers.

    Raises
    ------
    ValueError
        If labels are not classes. The message begins in the words of scikit-learn and
        contains `name`. For real numbers, it also names the estimator to use.
    """
    try:
        check_classification_targets(y)
    except (TypeError, ValueError) as error:
        (fault, *_), cure = re.split(r"[.\n]", str(error)), "pass [str(v) for v in y]"
        if "type: continuous" in fault:
            cure = "use MDLReadoutSwitcherRegressor(), or pass np.digitize(y, bins)"
        required = f"but {name} must hold classes, one for each row"
        raise ValueError(f"{fault}, {required}; {cure}") from error


def refuse_missing(y: object, title: str = "y") -> object:
    """Return labels unchanged, except that NumPy's StringDType becomes objects.

    Raises
    ------
    ValueError
        If a label is None, NaN, or a missing value of pandas or NumPy. The error begins
        with `title` and names the first row with such a label.
    """
    try:
        labels, missing = np.asarray(y), _missing(y)
    except (TypeError, ValueError):  # not labels; a later check raises
        return y
    if missing.any() and labels.ndim:
        row, *place = np.argwhere(missing)[0].tolist()
        label = (y if isinstance(y, np.ndarray) else np.asarray(y, object))[row, *place]
        what = "NaN" if isinstance(label, float | np.floating) else repr(label)
        raise ValueError(
            f"{title} must hold a label for every row, but Input y contains "
            f"{what} in row {row}; pass only rows where pandas.notna(y)"
        )
    # scikit-learn does not support StringDType, whose kind is "T".
    return labels.astype(object) if labels.dtype.kind == "T" else y


def refuse_columns(y: object, cure: str) -> None:
    """Raise ValueError if there are several labels per row."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            "y should be a 1d array of one label per row, got an array of shape "
            f"{shape} instead; {cure}"
        )


def named_groups(groups: Any, title: str = "groups") -> np.ndarray:
    """Return the group of each row as an array.

    Raises
    ------
    ValueError
        If a group is missing: None, NaN, masked, or missing in pandas.
    """
    missing = _missing(groups)
    if missing.any():
        row = np.argwhere(missing)[0][0]
        raise ValueError(
            f"{title} must name the group of every row, but row {row} has no group; "
            "drop this row, or give it a group that no other row has"
        )
    return np.asarray(groups)


def check_order(rows: Any, y: Any, title: str) -> None:
    """Raise ValueError for pandas rows with the index of y in another order."""
    if not (hasattr(rows, "iloc") and hasattr(y, "iloc")):
        return
    own, other = rows.index, y.index
    is_same = len(own) == len(other) and own.is_unique and own.isin(other).all()
    if is_same and not own.equals(other):
        raise ValueError(
            f"{title} must have all rows in the order of y, but a frame has the index "
            "of y in another order; append .loc[y.index], or .to_numpy() to ignore it"
        )


def _missing(values: Any) -> np.ndarray:
    """Return a mask of values that are None, NaN, masked, or pandas' NA."""
    # NumPy would convert NaN to text in a list that also contains text.
    array = values if isinstance(values, np.ndarray) else np.asarray(values, object)
    plain = np.asarray(array)
    if plain.dtype.kind in "OT":
        missing = np.fromiter(map(_is_missing, plain.flat), bool).reshape(plain.shape)
    else:
        missing = plain != plain
    return np.asarray(missing | np.ma.getmaskarray(array))


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas' NA is not a bool; arrays raise
        return np.ndim(label) == 0


def distinct_classes(labels: np.ndarray, name: str) -> np.ndarray:
    """Return the classes of labels in ascending order.

    Raises
    ------
    ValueError
        If there are fewer than two classes. The error names the estimator.
    """
    check_class_labels(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs labels of at least two classes, got only one class, "
            f"{classes.tolist()!r}; add rows of another class"
        )
    return classes


def is_grouped(labels: np.ndarray, keys: np.ndarray | None = None) -> bool:
    """Return True if encoded labels are sorted or nearly sorted by class.

    If `keys` has the group of each row, only the first label of each group counts. Rows
    of a group must be adjacent, and often have the same label.

    The check compares two codes of the labels. The first codes their order, given the
    number of examples of each class. The second codes runs of equal labels: their
    number, starts and classes. Labels are grouped if they have fewer runs than expected
    in random order, and the second code is shorter by a quarter and by 14 nats. In
    random order this happens with probability at most ``exp(-14) < 1e-6``.
    """
    if keys is not None:
        labels = labels[np.sort(np.unique(keys, return_index=True)[1])]
    counts = np.unique(labels, return_counts=True)[1]
    n, n_classes = len(labels), len(counts)
    n_runs = 1 + np.count_nonzero(np.diff(labels))
    if n_classes < 2 or n_runs > n * (1 - np.square(counts / n).sum()):
        return False
    order = gammaln(n + 1) - gammaln(counts + 1).sum()
    places = gammaln(n) - gammaln(n_runs) - gammaln(n - n_runs + 1)
    classes = np.log(n_classes) + (n_runs - 1) * np.log(n_classes - 1)
    return bool((order - (np.log(n) + places + classes)) > max(GROUPED_NATS, order / 4))


def labelled_step(transformer: BaseEstimator) -> str | None:
    """Return the class name of the first step that would fit on the labels, or None.

    Features must not depend on the labels to be coded. For example, selecting the best
    of 1,000 random features by the labels would "compress" random labels. Frozen steps
    are not fitted.
    """
    if transformer is None or isinstance(transformer, (FrozenEstimator, str)):
        return None
    steps = _steps(transformer)
    if steps:
        return next(filter(None, map(labelled_step, steps)), None)
    return type(transformer).__name__ if _learns_y(transformer) else None


def _steps(transformer: BaseEstimator) -> list[BaseEstimator]:
    """List the estimators that a composed transformer fits on its X and y."""
    from sklearn.compose import ColumnTransformer  # slow to import, like the next
    from sklearn.pipeline import FeatureUnion, Pipeline

    match transformer:
        case Pipeline():
            return [step for _, step in transformer.steps]
        case FeatureUnion():
            return [step for _, step in transformer.transformer_list]
        case ColumnTransformer():
            steps = [step for _, step, _ in transformer.transformers]
            return [*steps, transformer.remainder]
        case object(estimator=model, get_support=_) | object(estimator=model, cv=_):
            return [model]  # of a selector, or of a search
    return []


def _learns_y(transformer: BaseEstimator) -> bool:
    """Return True if a transformer requires y, or selects features by y."""
    y = inspect.signature(transformer.fit).parameters.get("y")
    return (
        get_tags(transformer).target_tags.required
        or (y is not None and y.default is y.empty)
        or (hasattr(transformer, "get_support") and hasattr(transformer, "score_func"))
    )


def refuse_labelled(transformer: BaseEstimator, name: str) -> None:
    """Raise ValueError if a transformer would fit on the labels to be coded."""
    step = labelled_step(transformer)
    if step is not None:
        raise ValueError(
            f"An encoder must be fitted without the labels that are coded, but {name} "
            f"holds {step}, which requires y; fit {step} on other rows, and replace it "
            "by FrozenEstimator(fitted)"
        )


def refuse_weights(sample_weight: object, caller: str) -> None:
    """Raise TypeError if weights of labels are given."""
    if sample_weight is not None:
        raise TypeError(
            f"{caller} must weight all labels equally, but got sample_weight; omit it, "
            "since a weighted sum is no codelength, and repeat or drop rows instead"
        )
