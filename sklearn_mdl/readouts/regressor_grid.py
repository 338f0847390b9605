"""Boards of regressors: products of settings, and the default board."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_mdl.readouts.density_stack import N_OUTPUTS
from sklearn_mdl.readouts.grid import (
    MAX_WHITENED_BY_DEFAULT,
    STREAMS,
    UPDATES_PER_EXAMPLE,
    as_values,
    check_settings,
    grid_of,
)
from sklearn_mdl.readouts.regressors import LinearReadoutRegressor, MLPReadoutRegressor
from sklearn_mdl.stacked import count_parameters

# One scale and strong weight decay serve few or noisy rows; scales that depend on the
# features and a second hidden layer serve many.
_DEFAULT: list[dict[str, Any]] = [
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
]


def regressor_grid(**settings: Any) -> list[Any]:
    """Build every combination of the given settings as a list of regressors.

    Parameters
    ----------
    **settings : scalar or list
        Parameters of :class:`~sklearn_mdl.MLPReadoutRegressor`; a list is a dimension
        of the grid. ``hidden_layer_sizes`` is a list of tuples, where ``()`` is a
        linear regressor, or the widths of one.

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
    >>> from sklearn_mdl import regressor_grid
    >>> board = regressor_grid(likelihood=["gaussian", "student-t"], lr=3e-3)
    >>> [(readout.likelihood, readout.lr) for readout in board]
    [('gaussian', 0.003), ('student-t', 0.003)]
    """
    check_settings(MLPReadoutRegressor, settings)
    settings = {"hidden_layer_sizes": [()], **settings}
    columns = {name: as_values(name, values) for name, values in settings.items()}
    return [_regressor(**chosen) for chosen in grid_of(columns)]


def _regressor(hidden_layer_sizes: Any, **settings: Any) -> Any:
    if np.size(hidden_layer_sizes) == 0:
        return LinearReadoutRegressor(**settings)
    return MLPReadoutRegressor(hidden_layer_sizes, **settings)


def default_regressors(n_features: int) -> list[Any]:
    """Return the default board for features of width ``d``.

    Linear regressors and perceptrons with Gaussian and Student-t densities, on
    standardised and on whitened features, with and without averaged weights: chosen by
    measurement (``benchmarks/bench_regression.py``). The number of replay streams
    follows the rule of :func:`~sklearn_mdl.readouts.default_readouts`.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    readouts : list of LinearReadoutRegressor and MLPReadoutRegressor
        It depends on ``d`` alone.
    """
    scaling = ["standard", "whiten"][
        : 2 if n_features <= MAX_WHITENED_BY_DEFAULT else 1
    ]
    board = [
        readout
        for settings in _DEFAULT
        for readout in regressor_grid(
            **settings, ema_step_size=[1.0, 0.03], scaling=scaling
        )
    ]
    n_trained = sum(
        count_parameters((n_features, *readout.hidden_layer_sizes, N_OUTPUTS))
        for readout in board
        if readout.ema_step_size == 1
    )
    fitting = [s for s in STREAMS if (s + 1) * n_trained <= UPDATES_PER_EXAMPLE]
    n_streams = fitting[0] if fitting else STREAMS[-1]
    return [readout.set_params(n_replay_streams=n_streams) for readout in board]
