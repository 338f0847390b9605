"""Grids of readouts, and their names."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import product
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterSampler

from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl.readouts._dummy import DummyReadout
from sklearn_mdl.readouts._kernels import KernelReadout, KernelReadoutRegressor
from sklearn_mdl.readouts._neighbors import KNeighborsReadout
from sklearn_mdl.readouts._net_regressors import (
    LinearReadoutRegressor,
    MLPReadoutRegressor,
)
from sklearn_mdl.readouts._nets import LinearReadout, MLPReadout
from sklearn_mdl.readouts._stack import N_OUTPUTS
from sklearn_mdl.readouts._wrappers import RefitReadout

if TYPE_CHECKING:
    from numpy.random import RandomState

SHAPES = ("hidden_layer_sizes", "image_shape")  # settings of which one value is several
LINEAR: dict[type, type] = {
    MLPReadout: LinearReadout,
    MLPReadoutRegressor: LinearReadoutRegressor,
}


def build_grid(
    kind: type,
    settings: Mapping[str, object],
    n_samples: int | None = None,
    random_state: int | RandomState | None = None,
) -> list[BaseEstimator]:
    """Build readouts of one kind with all combinations of settings, or some of them.

    Parameters
    ----------
    kind : type
        MLPs without hidden layers are built as linear readouts.
    settings : mapping of str to scalar, list or distribution
    n_samples : int, default=None
        Number of combinations drawn at random; None takes all.
    random_state : int, RandomState instance or None, default=None
        Seeds the draws.

    Returns
    -------
    readouts : list
        The first setting named varies slowest.

    Raises
    ------
    ValueError
        If a list is empty, a distribution shall be combined rather than drawn from, or
        more combinations are asked for than exist.
    TypeError
        If a setting is not a parameter of the readouts.
    """
    known = list(inspect.signature(kind).parameters)
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            advice = (
                f"the nearest of them is {near[0]!r}" if near else "choose one of them"
            )
            raise TypeError(
                f"Settings must be parameters of {kind.__name__}, which are "
                f"{', '.join(known)}, got {name!r}; {advice}"
            )
    if kind in LINEAR:
        settings = {"hidden_layer_sizes": [()], **settings}
    columns = {name: _values(name, given) for name, given in settings.items()}
    if n_samples is None:
        combinations = _combined(columns)
    else:
        combinations = _drawn(columns, n_samples, random_state)
    return [_built(kind, chosen) for chosen in combinations]


def _values(name: str, given: object) -> Any:
    """Return the values of a setting as a list; a distribution is left unchanged."""
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
        raise ValueError(
            f"{name} must hold at least one value, got an empty list; add one"
        )
    return values


def _is_one_shape(sizes: Collection[object]) -> bool:
    """Return true for the sizes of one readout, as () is; an empty list is not."""
    if len(sizes) == 0:
        return isinstance(sizes, tuple)
    return all(isinstance(size, Integral) for size in sizes)


def _combined(columns: Mapping[str, Sequence[object]]) -> list[dict[str, Any]]:
    for name, values in columns.items():
        if hasattr(values, "rvs"):
            raise ValueError(
                f"{name} must be values to be combined, got {values!r}, from which one "
                "can only draw; pass n_samples"
            )
    return [
        dict(zip(columns, values, strict=True)) for values in product(*columns.values())
    ]


def _drawn(
    columns: Mapping[str, Any],
    n_samples: int,
    random_state: int | RandomState | None,
) -> list[dict[str, Any]]:
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(
            f"n_samples must be a positive integer, got {n_samples!r}; None takes all"
        )
    if all(isinstance(values, list) for values in columns.values()):
        n_all = prod(len(values) for values in columns.values())
        if n_samples > n_all:
            raise ValueError(
                f"n_samples must be at most the {n_all} combinations there are, got "
                f"{n_samples}; name more values or draw fewer"
            )
    return list(ParameterSampler(columns, int(n_samples), random_state=random_state))


def _built(kind: type, settings: dict[str, Any]) -> BaseEstimator:
    if kind in LINEAR and np.size(settings["hidden_layer_sizes"]) == 0:
        kind = LINEAR[kind]
        settings.pop("hidden_layer_sizes")
    return kind(**settings)


# Settings of the default grids, chosen by measurement. Strong weight decay at small
# steps suits noisy tasks, none at large steps suits digits; MLPs need more label
# smoothing than linear readouts. Of regressors, one scale and strong weight decay suit
# few or noisy rows; scales that depend on the features and a second hidden layer suit
# many.
DEFAULTS: dict[type, list[dict[str, object]]] = {
    MLPReadout: [
        {"lr": [3e-3, 1e-2], "label_smoothing": 0.03},
        {"lr": [1e-3, 3e-3], "label_smoothing": 0.03, "weight_decay": 3.0},
        {"hidden_layer_sizes": (512,), "lr": 3e-3, "label_smoothing": 0.1},
        {
            "hidden_layer_sizes": (512,),
            "lr": [3e-4, 1e-3],
            "label_smoothing": 0.1,
            "weight_decay": 1.0,
        },
        {"hidden_layer_sizes": (256, 256), "lr": [1e-3, 3e-3], "label_smoothing": 0.1},
        {"hidden_layer_sizes": (128, 128, 128), "lr": 1e-3, "label_smoothing": 0.1},
    ],
    MLPReadoutRegressor: [
        {"heteroscedastic": False, "lr": [3e-3, 1e-2]},
        {"heteroscedastic": False, "lr": 3e-3, "weight_decay": 3.0},
        {"likelihood": "student-t", "lr": 1e-2},
        {
            "hidden_layer_sizes": [(128,), (64, 64)],
            "heteroscedastic": False,
            "lr": 1e-3,
            "weight_decay": 1.0,
        },
        {"hidden_layer_sizes": (128, 128), "lr": 3e-3},
        {"hidden_layer_sizes": (128, 128), "likelihood": "student-t", "lr": 1e-3},
    ],
}


class DefaultGrid(list[Any]):
    """A list of readouts that stands for a name: no user chose its settings."""


STREAMS = (30, 10, 3)
UPDATES_PER_EXAMPLE = 150_000_000
MAX_WHITENED_BY_DEFAULT = 1024
# The kernels of the list "closed-form", each at two noises: chosen by measurement on
# two orders of digits and on seven cells of deep features.
KERNELS: list[dict[str, Any]] = [
    {"scaling": "unit"},
    {"scaling": "centered-unit"},
    {"kernel": "rbf", "width": 0.3, "scaling": "unit"},
    {"kernel": "rbf", "width": 1.0, "scaling": "unit"},
    {"kernel": "rbf", "width": 0.3, "scaling": "standard"},
    {"kernel": "rbf", "width": 1.0, "scaling": "standard"},
]
ALPHAS = (0.003, 0.3)
REAL_ALPHAS = (0.003, 0.03, 1.0)
NAMES = ("closed-form", "nets", "mixed", "drift")
PARTS = {
    "closed-form": ("kernels",),
    "nets": ("nets",),
    None: ("nets", "kernels"),
    "mixed": ("nets", "kernels", "others"),
    "drift": ("nets", "kernels", "windows"),
}
# Windows of the list "drift": each forgets down to half of its own, so that from 64 to
# 2,048 rows after a change one of them holds at least a quarter of the rows since then,
# and none of those before.
WINDOWS = (64, 128, 256, 512, 1024)
STRATEGIES = ("frequency", "decayed", "transition")


def named_readouts(
    name: str | None, n_features: int, n_classes: int
) -> list[BaseEstimator]:
    """Return the list of readouts that a name of ``NAMES``, or None, stands for."""
    parts, readouts = PARTS[name], DefaultGrid()
    if "nets" in parts:
        readouts += _default_grid(MLPReadout, n_features, n_classes)
    if "kernels" in parts:
        readouts += _kernels(KernelReadout, ALPHAS)
    if "others" in parts:
        readouts += _others(n_features)
    if "windows" in parts:
        for window in WINDOWS:
            readouts += _kernels(partial(KernelReadout, window=window), ALPHAS)
        readouts += [DummyReadout(strategy) for strategy in STRATEGIES]
    return readouts


def named_regressors(name: str | None, n_features: int) -> list[BaseEstimator]:
    """Return the list of regressors that "closed-form", "nets" or None stands for."""
    nets = _default_grid(MLPReadoutRegressor, n_features, N_OUTPUTS)
    kernels = _kernels(KernelReadoutRegressor, REAL_ALPHAS)
    lists: dict[str | None, list[BaseEstimator]] = {
        "nets": nets,
        "closed-form": kernels,
        None: [*nets, *kernels],
    }
    return DefaultGrid(lists[name])


def _kernels(
    kind: Callable[..., BaseEstimator], alphas: Sequence[float]
) -> list[BaseEstimator]:
    return [kind(alpha=alpha, **own) for own in KERNELS for alpha in alphas]


def default_readouts(n_features: int, n_classes: int) -> list[BaseEstimator]:
    """Return the default grid for features of width ``d`` and ``C`` classes.

    Networks, the list "nets": linear readouts and MLPs of one to three hidden layers,
    on standardised and on whitened features, with and without averaged weights; and
    kernels, the list "closed-form". Both were chosen by measurement on digits and on
    deep features (``python -m benchmarks codelength`` and ``lists``).

    One rule bounds the cost of an example: the number of replay streams is the largest
    of 30, 10 and 3 for which ``(streams + 1) * parameters`` stays within 1.5e8.
    Features wider than 1,024 are not whitened. The grid depends on ``d`` and ``C``
    alone, since the length of a stream is unknown while it is evaluated, and dividing
    it into calls must change nothing.

    Parameters
    ----------
    n_features, n_classes : int

    Returns
    -------
    readouts : list of LinearReadout, MLPReadout and KernelReadout

    Examples
    --------
    >>> from sklearn_mdl.readouts import default_readouts
    >>> readouts = default_readouts(64, 10)
    >>> len(readouts), readouts[0].architecture, readouts[-1].architecture
    (52, 'linear', 'rbf kernel')
    """
    return list(named_readouts(None, n_features, n_classes))


def default_regressors(n_features: int) -> list[BaseEstimator]:
    """Return the default grid of regressors for features of width ``d``.

    Linear regressors and MLPs with Gaussian and Student-t densities, on standardised
    and on whitened features, with and without averaged weights, and kernels: chosen by
    measurement (``python -m benchmarks regression``). The number of replay streams
    follows the rule of :func:`~sklearn_mdl.readouts.default_readouts`.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    readouts : list of regressors
        It depends on ``d`` alone.

    Examples
    --------
    >>> from sklearn_mdl.readouts import default_regressors
    >>> {readout.likelihood for readout in default_regressors(8)} == {
    ...     "gaussian", "student-t"
    ... }
    True
    """
    return named_regressors(None, n_features)


def _default_grid(kind: type, n_features: int, n_outputs: int) -> list[BaseEstimator]:
    whitened = n_features <= MAX_WHITENED_BY_DEFAULT
    shared = {
        "ema_step_size": [1.0, 0.03],
        "scaling": ["standard", "whiten"] if whitened else ["standard"],
    }
    grid = [
        readout
        for settings in DEFAULTS[kind]
        for readout in build_grid(kind, {**settings, **shared})
    ]
    n_trained = sum(
        count_parameters((n_features, *readout.hidden_layer_sizes, n_outputs))
        for readout in grid
        if readout.ema_step_size == 1
    )
    fitting = [s for s in STREAMS if (s + 1) * n_trained <= UPDATES_PER_EXAMPLE]
    n_streams = fitting[0] if fitting else STREAMS[-1]
    return [readout.set_params(n_replay_streams=n_streams) for readout in grid]


def readout_names(readouts: Sequence[BaseEstimator]) -> list[str]:
    """Name readouts by their architecture and by the settings in which they differ.

    Each is compared with those that have the same settings: nets with nets, wrapped
    classifiers with others of their class.
    """
    settings = [_named_settings(getattr(r, "inner", r)) for r in readouts]
    groups: defaultdict[frozenset[str], list[dict[str, object]]] = defaultdict(list)
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


def _named_settings(readout: BaseEstimator) -> dict[str, object]:
    """Return the settings that may appear in a name: plain values, nested ones too."""
    return {
        name: value
        for name, value in readout.get_params().items()
        if name != "hidden_layer_sizes"
        and not hasattr(value, "get_params")
        and not callable(value)
    }


def regressor_grid(**settings: object) -> list[BaseEstimator]:
    """Build every combination of the given settings as a list of regressors.

    Parameters
    ----------
    **settings : scalar or list
        Parameters of :class:`~sklearn_mdl.readouts.MLPReadoutRegressor`; a list is a
        dimension of the grid. ``hidden_layer_sizes`` is a list of tuples, where ``()``
        is a linear regressor, or the widths of one.

    Returns
    -------
    readouts : list of LinearReadoutRegressor and MLPReadoutRegressor
        The first setting named varies slowest.

    Raises
    ------
    ValueError
        If a list is empty.
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


GROWTH = 1.2  # of rows between two fits


def _others(n_features: int) -> list[Any]:
    """Return what the list "mixed" adds: neighbours and refitted classifiers.

    Four kinds of 30 nearest neighbours (on standardised and on raw features, by the
    angle between standardised ones, and between whitened ones), a linear discriminant
    analysis with shrunk covariances and a logistic regression, both refitted whenever
    their rows have grown by a fifth: chosen by measurement on digits and on deep
    features (``python -m benchmarks codelength``).

    Features wider than 1,024 are not whitened, as in the default grid, and no
    discriminant analysis is fitted on them: the cost of both grows with the third power
    of the width.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression

    neighbours = [
        KNeighborsReadout(),
        KNeighborsReadout(scaling=None),
        KNeighborsReadout(metric="cosine"),
    ]
    refitted = [LogisticRegression(C=3.0)]
    if n_features <= MAX_WHITENED_BY_DEFAULT:
        neighbours.append(KNeighborsReadout(metric="cosine", scaling="whiten"))
        discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        refitted.insert(0, discriminant)
    return [
        *neighbours,
        *(RefitReadout(classifier, schedule=GROWTH) for classifier in refitted),
    ]
