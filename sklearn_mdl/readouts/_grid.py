"""Grids of readouts and their names."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from math import inf, prod
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator

from sklearn_mdl._core.validation import check_positive, invalid
from sklearn_mdl.readouts._build import grouped
from sklearn_mdl.readouts._nets import (
    LinearReadout,
    LinearReadoutRegressor,
    MLPReadout,
    MLPReadoutRegressor,
)

SHAPES = ("hidden_layer_sizes", "image_shape")  # one value is a sequence
LINEAR: dict[type, type] = {
    MLPReadout: LinearReadout,
    MLPReadoutRegressor: LinearReadoutRegressor,
}


def build_grid(
    kind: type,
    settings: Mapping[str, object],
    n_samples: int | None = None,
    random_state: int | RandomState | None = None,
    most: float = inf,
) -> list[BaseEstimator]:
    """Build readouts of one kind with all or some combinations of settings.

    Parameters
    ----------
    kind : type
        Class of the readouts. MLPs without hidden layers become linear readouts.
    settings : mapping of str to scalar, list or distribution
    n_samples : int, default=None
        Number of combinations to draw at random. If None, all are built, unless there
        are more than `most`.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.
    most : float, default=inf
        Number of combinations to draw if there are more and `n_samples` is None.

    Returns
    -------
    readouts : list
        If all combinations are built, ``hidden_layer_sizes`` varies slowest, followed
        by the other settings in their order.

    Raises
    ------
    ValueError
        If a list is empty, if a setting is a distribution but `n_samples` is None, or
        if `n_samples` is not positive or exceeds the number of combinations.
    TypeError
        If a setting is not a parameter of the readouts.
    """
    known = list(inspect.signature(kind).parameters)
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]!r}?" if near else "pass one of these"
            raise TypeError(
                f"Settings must be parameters of {kind.__name__}, which are "
                f"{', '.join(known)}, got {name!r}; {advice}"
            )
    if kind in LINEAR:
        settings = {"hidden_layer_sizes": [()], **settings}
    columns = {name: _values(name, given) for name, given in settings.items()}
    is_finite = all(isinstance(values, list) for values in columns.values())
    n_all = prod(map(len, columns.values())) if is_finite else inf
    if n_samples is None and n_all > most:
        n_samples = int(most)
    if n_samples is None:
        grid = _combined(columns, kind)
    else:
        from sklearn.model_selection import ParameterSampler

        _check_draws(n_samples, n_all)
        grid = ParameterSampler(columns, int(n_samples), random_state=random_state)
    return [_built(kind, chosen) for chosen in grid]


def _values(name: str, given: object) -> Any:
    """Return the values of a setting as a list; leave a distribution unchanged."""
    if hasattr(given, "rvs"):
        return given
    if name == "hidden_layer_sizes" and isinstance(given, Integral):
        return [(given,)]
    if name in SHAPES and isinstance(given, Collection) and _is_one_shape(given):
        return [given]
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        return [given]
    values = list(given)
    if not values:
        raise ValueError(f"{name} must hold at least one value, got none; omit {name}")
    return values


def _is_one_shape(sizes: Collection[object]) -> bool:
    """Return True for a single shape, such as () or (64, 64), but not for []."""
    is_shape = len(sizes) > 0 or isinstance(sizes, tuple)
    return is_shape and all(isinstance(size, Integral) for size in sizes)


def _combined(columns: dict[str, Sequence[object]], kind: type) -> list[dict[str, Any]]:
    for name, values in columns.items():
        if hasattr(values, "rvs"):
            draws = "" if kind is MLPReadoutRegressor else "n_samples=20, or "
            cure = f"pass {draws}a list of values, such as distribution.rvs(5)"
            required = "a scalar or a list if all combinations are built"
            raise invalid(name, required, values, cure)
    combinations = product(*columns.values())
    return [dict(zip(columns, values, strict=True)) for values in combinations]


def _check_draws(n_samples: int, n_all: float) -> None:
    check_positive("n_samples", n_samples, 20)
    if n_samples > n_all:
        required = f"at most the number of combinations, {n_all}"
        cure = f"pass n_samples={n_all}, or more values"
        raise invalid("n_samples", required, n_samples, cure)


def _built(kind: type, settings: dict[str, Any]) -> BaseEstimator:
    if kind in LINEAR and np.size(settings["hidden_layer_sizes"]) == 0:
        kind = LINEAR[kind]
        settings.pop("hidden_layer_sizes")
    return kind(**settings)


def readout_names(readouts: Sequence[BaseEstimator]) -> list[str]:
    """Name readouts by architecture and by the settings in which they differ.

    Settings are compared only among readouts that have the same parameters, such as
    networks, or wrapped classifiers of the same class.
    """
    settings = [_named_settings(getattr(r, "inner", r)) for r in readouts]
    groups = grouped((frozenset(setting), setting) for setting in settings)
    varying = {
        kind: {name for name in kind if len({str(s[name]) for s in alike}) > 1}
        for kind, alike in groups.items()
    }
    names = []
    seen: Counter[str] = Counter()
    for readout, setting in zip(readouts, settings, strict=True):
        shown = varying[frozenset(setting)]
        words = [readout.architecture]
        words += [f"{name}={value}" for name, value in setting.items() if name in shown]
        name = " ".join(words)
        seen[name] += 1
        names.append(f"{name} #{seen[name]}" if seen[name] > 1 else name)
    return names


def _named_settings(readout: BaseEstimator) -> dict[str, object]:
    """Return the settings, including nested ones, that may appear in a name."""
    return {
        name: value
        for name, value in readout.get_params().items()
        if name != "hidden_layer_sizes"
        and not hasattr(value, "get_params")
        and not callable(value)
    }


def regressor_grid(**settings: object) -> list[BaseEstimator]:
    """Build a regressor for every combination of the given settings.

    Parameters
    ----------
    **settings : scalar or list
        Parameters of :class:`~sklearn_mdl.readouts.MLPReadoutRegressor`. Each list is a
        dimension of the grid. ``hidden_layer_sizes`` is a list of tuples, or the widths
        of a single regressor. ``()`` stands for a linear regressor.

    Returns
    -------
    readouts : list of LinearReadoutRegressor and MLPReadoutRegressor
        ``hidden_layer_sizes`` varies slowest, followed by the other settings in their
        order.

    Raises
    ------
    ValueError
        If a list is empty, or if a setting is a distribution.
    TypeError
        If a setting is not a parameter of the regressors.

    Examples
    --------
    >>> from sklearn_mdl.readouts import regressor_grid
    >>> readouts = regressor_grid(likelihood=["gaussian", "student-t"], lr=3e-3)
    >>> [(readout.likelihood, readout.lr) for readout in readouts]
    [('gaussian', 0.003), ('student-t', 0.003)]
    """
    return build_grid(MLPReadoutRegressor, settings)
