"""The parameters that predictions hang on, in a form in which they can be compared."""

from __future__ import annotations

import inspect
from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.settings import WITHOUT_EFFECT, as_json
from sklearn_mdl.switching import as_prior

OVERRULED = ("batch_size", "device")  # what a switcher says for its readouts


def settings_of(switcher: OnlineClassifier) -> dict[str, Any]:
    """Say by what the predictions are made, as JSON.

    Parameters
    ----------
    switcher : OnlineClassifier

    Returns
    -------
    settings : dict
        All parameters that have an effect. Of readouts those alone that are not their
        class's defaults: there may be thousands.

    Raises
    ------
    ValueError
        If a ``random_state`` is no integer.
    TypeError
        If a parameter is nothing that can be written down and compared.
    """
    _check_seed("random_state", switcher.random_state)
    params = switcher.get_params(deep=False)
    if "switching" in params:
        params["switching"] = as_prior(params["switching"])
    if isinstance(params.get("readouts"), (list, tuple)):  # not the name of a board
        params["readouts"] = [_of_readout(readout) for readout in params["readouts"]]
    return {"class": type(switcher).__name__} | {
        name: _comparable(params[name], name)
        # The device is compared as it turns out, not as it is named.
        for name in sorted(params.keys() - WITHOUT_EFFECT - {"device"})
    }


def _of_readout(readout: Any) -> Any:
    if not isinstance(readout, BaseEstimator):
        return readout  # refused where readouts are taken
    given = readout.get_params(deep=False)
    if given.get("random_state") is not None:
        _check_seed("random_state of a readout", given["random_state"])
    defaults = inspect.signature(type(readout)).parameters
    kept = {}
    for name in sorted(given.keys() - set(OVERRULED)):
        value = _comparable(given[name], f"{name} of a readout")
        default = defaults[name].default
        if default is inspect.Parameter.empty or value != _comparable(default, name):
            kept[name] = value
    return {"class": type(readout).__name__} | kept


def _check_seed(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(
            f"{name} must be an integer, for a decoder must draw the same numbers, got "
            f"{value!r}; pass for example random_state=0"
        )


def _comparable(value: Any, name: str) -> Any:
    try:
        return _flat(as_json(value, name))
    except TypeError as error:
        raise TypeError(
            f"{name} must be made of numbers, text, lists and estimators, which can "
            f"stand in a message, got {value!r}; decoding depends on it"
        ) from error


def _flat(text: Any) -> Any:
    """Drop what makes no difference to a prediction: a tuple or an array is a list."""
    if isinstance(text, list):
        return [_flat(item) for item in text]
    match text:
        case {"tuple": inner} | {"array": inner} | {"dict": inner}:
            return _flat(inner)
        case {"class": str(name), "params": dict(params)}:
            return {"class": name} | _flat(params)
        case dict():
            return {key: _flat(item) for key, item in text.items()}
    return text
