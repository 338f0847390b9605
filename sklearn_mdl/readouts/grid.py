"""Boards of readouts: products of settings, the default board, names."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from difflib import get_close_matches
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np

from sklearn_mdl.readouts.estimators import LinearReadout, MLPReadout
from sklearn_mdl.stacked import count_parameters

SHAPES = ("hidden_layer_sizes", "image_shape")  # settings of which one value is several


def net_grid(**settings: Any) -> list[Any]:
    """Build every combination of settings as linear readouts and MLPs.

    :func:`sklearn_mdl.readout_grid` does so for all kinds of readouts.

    Parameters
    ----------
    **settings : scalar or list
        Parameters of :class:`~sklearn_mdl.MLPReadout`; a list is a dimension of the
        grid.

    Returns
    -------
    readouts : list of LinearReadout and MLPReadout
        The first setting named varies slowest.
    """
    settings = {"hidden_layer_sizes": [()], **settings}
    columns = {name: as_values(name, values) for name, values in settings.items()}
    return [linear_or_mlp(**chosen) for chosen in grid_of(columns)]


def grid_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Combine the values of settings; the first setting named varies slowest.

    Raises
    ------
    ValueError
        If a setting is a distribution, which has no list of values.
    """
    for name, values in columns.items():
        if hasattr(values, "rvs"):
            raise ValueError(
                f"{name} must be values to be combined, got {values!r}, from which one "
                "can only draw; pass n_samples"
            )
    return [
        dict(zip(columns, values, strict=True)) for values in product(*columns.values())
    ]


def check_settings(kind: type, names: Iterable[str]) -> None:
    """Refuse names of settings that a kind of readout does not have.

    Raises
    ------
    TypeError
        With all that it has, and the one that comes near.
    """
    known = list(inspect.signature(kind).parameters)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise TypeError(
                f"Settings must be parameters of {kind.__name__}, which are "
                f"{', '.join(known)}, got {name!r}; {_advice(near)}"
            )


def _advice(near: Sequence[str]) -> str:
    return f"the nearest of them is {near[0]!r}" if near else "choose one of them"


def as_values(name: str, values: Any) -> Any:
    """Return the values of a setting as a list; a distribution stays as it is.

    Raises
    ------
    ValueError
        If the list is empty.
    """
    if hasattr(values, "rvs"):
        return values
    if name == "hidden_layer_sizes" and isinstance(values, Integral):
        return [(values,)]
    if name in SHAPES and isinstance(values, Sized) and _is_one_shape(values):
        return [values]
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise ValueError(
            f"{name} must hold at least one value, got an empty list; add one"
        )
    return found


def _is_one_shape(sizes: Any) -> bool:
    """Whether these are the sizes of one readout: () is, an empty list is not."""
    if len(sizes) == 0:
        return isinstance(sizes, tuple)
    return all(isinstance(size, Integral) for size in sizes)


def linear_or_mlp(hidden_layer_sizes: Any, **settings: Any) -> Any:
    """Make the readout with these hidden layers: a linear one, if there are none."""
    if np.size(hidden_layer_sizes) == 0:
        return LinearReadout(**settings)
    return MLPReadout(hidden_layer_sizes, **settings)


STREAMS = (30, 10, 3)
UPDATES_PER_EXAMPLE = 150_000_000
# Strong weight decay at small steps serves noisy tasks, none at large steps serves
# digits; perceptrons take more label smoothing than linear readouts.
_DEFAULT: list[dict[str, Any]] = [
    {"lr": [3e-3, 1e-2], "label_smoothing": 0.03},
    {"lr": [1e-3, 3e-3], "label_smoothing": 0.03, "weight_decay": 3.0},
    *(
        {"label_smoothing": 0.1, **settings}
        for settings in (
            {"hidden_layer_sizes": (512,), "lr": 3e-3},
            {"hidden_layer_sizes": (512,), "lr": [3e-4, 1e-3], "weight_decay": 1.0},
            {"hidden_layer_sizes": (256, 256), "lr": [1e-3, 3e-3]},
            {"hidden_layer_sizes": (128, 128, 128), "lr": 1e-3},
        )
    ),
]
MAX_WHITENED_BY_DEFAULT = 1024


def default_readouts(n_features: int, n_classes: int) -> list[Any]:
    """Return the default board for features of width ``d`` and ``C`` classes.

    Linear readouts and perceptrons of one to three hidden layers, on standardised and
    on whitened features, with and without averaged weights: chosen by measurement on
    digits and on deep features (``benchmarks/bench_codelength.py``).

    One rule bounds what an example costs: the number of replay streams is the largest
    of 30, 10 and 3 for which ``(streams + 1) * parameters`` stays within 1.5e8.
    Features wider than 1,024 are not whitened. The board depends on ``d`` and ``C``
    alone, since a stream does not know its length and how it is cut into calls must
    change nothing.

    Parameters
    ----------
    n_features, n_classes : int

    Returns
    -------
    readouts : list of LinearReadout and MLPReadout
    """
    scaling = ["standard", "whiten"][
        : 2 if n_features <= MAX_WHITENED_BY_DEFAULT else 1
    ]
    board = [
        readout
        for settings in _DEFAULT
        for readout in net_grid(**settings, ema_step_size=[1.0, 0.03], scaling=scaling)
    ]
    n_trained = sum(
        count_parameters((n_features, *readout.hidden_layer_sizes, n_classes))
        for readout in board
        if readout.ema_step_size == 1
    )
    fitting = [s for s in STREAMS if (s + 1) * n_trained <= UPDATES_PER_EXAMPLE]
    n_streams = fitting[0] if fitting else STREAMS[-1]
    return [readout.set_params(n_replay_streams=n_streams) for readout in board]


def readout_names(readouts: Sequence[Any]) -> list[str]:
    """Name readouts by their architecture and by the settings in which they differ.

    Each is compared with those that have the same settings: nets with nets, wrapped
    classifiers with others of their class.
    """
    settings = [_named_settings(readout) for readout in readouts]
    groups: defaultdict[frozenset[str], list[dict[str, Any]]] = defaultdict(list)
    for setting in settings:
        groups[frozenset(setting)].append(setting)
    varying = {
        kind: {name for name in kind if len({str(one[name]) for one in alike}) > 1}
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


def _named_settings(readout: Any) -> dict[str, Any]:
    """List what may stand in a name: what is set in estimators, but not they."""
    params = readout.get_params()
    return {
        name: value
        for name, value in params.items()
        if name != "hidden_layer_sizes"
        and not hasattr(value, "get_params")
        and not callable(value)
    }
