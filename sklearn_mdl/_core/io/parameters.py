"""Parameters of estimators as JSON and back, without running code.

None, booleans, finite numbers, text and lists are written as they are, and paths as
text. Any other value is written as an object whose first key is its kind.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

Json = dict[str, Any]  # a JSON object
# Storage, progress bars and parallelism, which do not affect results.
WITHOUT_EFFECT = frozenset({"store", "checkpoint", "verbose", "n_jobs"})


class Sources(NamedTuple):
    """Downloads and files that an estimator reads, as named in its parameters.

    Attributes
    ----------
    network : sequence of str
        Names of weights to download.
    paths : sequence of str
        Files and folders.
    """

    network: Sequence[str] = ()
    paths: Sequence[str] = ()


def estimators_in(value: object) -> Iterator[BaseEstimator]:
    """Yield all estimators in a value, including those in items and parameters."""
    if isinstance(value, BaseEstimator):
        yield value
        value = value.get_params(deep=False)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from estimators_in(part)


def settings_of(
    estimator: BaseEstimator, left_out: Container[str], prefix: str = ""
) -> Json:
    """Return an estimator's parameters as JSON, keyed by name, except ``left_out``.

    Error messages put ``prefix`` before the name of a parameter.

    Raises
    ------
    TypeError
        If a parameter cannot be written to JSON.
    """
    params = estimator.get_params(deep=False)
    kept = sorted(name for name in params if name not in left_out)
    return {name: as_json(params[name], prefix + name) for name in kept}


def as_json(value: object, name: str) -> object:
    """Return a parameter as JSON.

    Parameters
    ----------
    value : object
        None, numbers, text, paths, lists, tuples, slices, arrays, dicts or estimators.
    name : str
        Name of the parameter for error messages.

    Raises
    ------
    TypeError
        If the value is or contains anything else.
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
    if isinstance(value, slice):
        ends = value.start, value.stop, value.step
        return {"slice": [as_json(v, name) for v in ends]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
        return {"array": as_json(value.tolist(), name), "dtype": value.dtype.str}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {k: as_json(v, f"{name}[{k!r}]") for k, v in value.items()}}
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        given = {k: as_json(v, f"{name}.{k}") for k, v in params.items()}
        return {"class": class_name(type(value)), "params": given}
    raise TypeError(
        f"{name} must consist of None, real numbers, text, lists, tuples, slices, "
        f"arrays, dicts with text as keys and estimators, got {value!r}; instead of "
        "save, call pickle.dump(estimator, file), which needs functions defined by "
        "def; if you did not call save, omit checkpoint, results or folder"
    )


# The dtypes that as_json writes: booleans, integers, floats, text and objects.
_DTYPES = re.compile(r"\|(b1|O|[iu]1)|[<>]([iu][248]|f(2|4|8|16)|U[0-9]{1,9})")
PLAIN_BYTES = 2**24  # arrays up to this size are always created
BYTES_A_LETTER = 64  # larger arrays may take this many bytes per item and character


def array_of(items: object, dtype: str) -> np.ndarray:
    """Create an array from a list, with a limit on its size.

    Raises
    ------
    ValueError
        If the dtype is not one that :func:`as_json` writes, or so wide that the array
        would be far larger than its text.
    ValueError, TypeError, OverflowError or Warning
        If NumPy cannot convert the items to the dtype.
    """
    if not _DTYPES.fullmatch(dtype):
        raise ValueError(f"an array must be of a plain dtype, got {dtype[:80]!r}")
    flat = np.array(items, dtype=object).ravel().tolist()
    length = len(flat) + sum(len(item) for item in flat if isinstance(item, str))
    n_bytes = len(flat) * np.dtype(dtype).itemsize
    if n_bytes > max(PLAIN_BYTES, BYTES_A_LETTER * length):
        raise ValueError(f"{len(flat)} items must not take {n_bytes} bytes of {dtype}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as for floats that overflow
        return np.array(items, dtype=dtype)


def class_name(kind: type) -> str:
    """Return a unique name of a class.

    Only names of other packages' classes include the module, since two libraries may
    each have a ``LogisticRegression``.
    """
    is_own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return kind.__name__ if is_own else f"{kind.__module__}.{kind.__qualname__}"


def from_json(text: object, classes: Mapping[str, type]) -> Any:
    """Recreate a parameter from the output of :func:`as_json`.

    Parameters
    ----------
    text : object
        As returned by ``json.loads``.
    classes : mapping of str to type
        The estimators that may be created.

    Raises
    ------
    ValueError
        If the text names another class or was not written by :func:`as_json`.
    """

    def read(text: object) -> Any:
        return from_json(text, classes)

    if isinstance(text, list):
        return list(map(read, text))
    if not isinstance(text, dict):
        return text
    match text:
        case {"float": "nan" | "inf" | "-inf" as number}:
            return float(number)
        case {"tuple": list(items)}:
            return tuple(map(read, items))
        case {"slice": [start, stop, step]}:
            return slice(read(start), read(stop), read(step))
        case {"array": items, "dtype": str(dtype)}:
            return array_of(read(items), dtype)
        case {"dict": dict(items)}:
            return {key: read(item) for key, item in items.items()}
        case {"class": str(name), "params": dict(params)} if name in classes:
            return classes[name](**{key: read(item) for key, item in params.items()})
    raise ValueError(
        f"Parameters must consist of {', '.join([*sorted(classes), 'numbers'])}, text "
        f"and containers of these, got {str(text)[:80]!r}, which this version cannot "
        "read; save the estimator again"
    )
