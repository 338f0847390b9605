"""The user's readouts, grids of them, and how they are gathered into stacks."""

from sklearn_mdl.readouts.density_stack import DensityStack
from sklearn_mdl.readouts.estimators import LinearReadout, MLPReadout
from sklearn_mdl.readouts.gather import stack_readouts, stack_regressors
from sklearn_mdl.readouts.grid import (
    as_values,
    check_settings,
    default_readouts,
    grid_of,
    linear_or_mlp,
    net_grid,
    readout_names,
)
from sklearn_mdl.readouts.regressor_grid import default_regressors, regressor_grid
from sklearn_mdl.readouts.regressors import (
    LinearReadoutRegressor,
    MLPReadoutRegressor,
)
from sklearn_mdl.readouts.stack import ReadoutStack

__all__ = [
    "DensityStack",
    "LinearReadout",
    "LinearReadoutRegressor",
    "MLPReadout",
    "MLPReadoutRegressor",
    "ReadoutStack",
    "as_values",
    "check_settings",
    "default_readouts",
    "default_regressors",
    "grid_of",
    "linear_or_mlp",
    "net_grid",
    "readout_names",
    "regressor_grid",
    "stack_readouts",
    "stack_regressors",
]
