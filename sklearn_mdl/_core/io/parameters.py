"""Parameters of estimators as JSON, and back: nothing in a file is ever run.

Lists, numbers and text stand for themselves; whatever JSON lacks is an object with one
key that says what it is.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

Json = dict[str, Any]  # an object that JSON can hold
# Where numbers are kept, what is shown, how work is shared: no bit depends on it.
WITHOUT_EFFECT = frozenset({"store", "checkpoint", "verbose", "n_jobs"})


def settings_of(
    estimator: BaseEstimator, left_out: Container[str], prefix: str = ""
) -> Json:
    """Write down the parameters of an estimator, by name, but for those left out.

    Errors call them by their names behind a prefix.

    Raises
    ------
    TypeError
        If one of them cannot be written down.
    """
    params = estimator.get_params(deep=False)
    kept = sorted(name for name in params if name not in left_out)
    return {name: as_json(params[name], prefix + name) for name in kept}


def as_json(value: object, name: str) -> object:
    """Write a parameter down.

    Parameters
    ----------
    value : object
        Numbers, text, None, lists, tuples, arrays of numbers, dicts, estimators.
    name : str
        Its name in an error.

    Raises
    ------
    TypeError
        If it is, or holds, anything else.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, list):
        return [as_json(v, f"{name}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [as_json(v, f"{name}[{i}]") for i, v in enumerate(value)]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
        return {"array": as_json(value.tolist(), name), "dtype": value.dtype.str}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {k: as_json(v, f"{name}[{k!r}]") for k, v in value.items()}}
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        given = {k: as_json(v, f"{name}.{k}") for k, v in params.items()}
        return {"class": class_name(type(value)), "params": given}
    raise TypeError(
        f"{name} must be made of numbers, text, lists and estimators to be written to "
        f"a file, got {value!r}; pickle can keep it"
    )


def class_name(kind: type) -> str:
    """Return the name of a class that no other one shares.

    Of this package it is the bare name, of others that with their module: two libraries
    may each have a ``LogisticRegression``.
    """
    is_own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return kind.__name__ if is_own else f"{kind.__module__}.{kind.__qualname__}"


def from_json(text: object, classes: Mapping[str, type]) -> Any:
    """Read what :func:`as_json` wrote.

    Parameters
    ----------
    text : object
        As ``json.loads`` returns it.
    classes : mapping of str to type
        The estimators that may be made.

    Raises
    ------
    ValueError
        If it names another class, or is nothing that :func:`as_json` writes.
    """
    if isinstance(text, list):
        return [from_json(item, classes) for item in text]
    if not isinstance(text, dict):
        return text
    match text:
        case {"float": "nan" | "inf" | "-inf" as number}:
            return float(number)
        case {"tuple": list(items)}:
            return tuple(from_json(item, classes) for item in items)
        case {"array": items, "dtype": str(dtype)}:
            return np.array(from_json(items, classes), dtype=dtype)
        case {"dict": dict(items)}:
            return {key: from_json(item, classes) for key, item in items.items()}
        case {"class": str(name), "params": dict(params)} if name in classes:
            given = {key: from_json(item, classes) for key, item in params.items()}
            return classes[name](**given)
    raise ValueError(
        f"Parameters must be made of {', '.join(sorted(classes))}, numbers, text and "
        f"lists, got {str(text)[:80]!r}; this version cannot read them"
    )
