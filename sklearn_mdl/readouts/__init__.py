"""The user's readouts, grids of them, and how they are gathered into stacks."""

from sklearn_mdl.readouts.estimators import LinearReadout, MLPReadout
from sklearn_mdl.readouts.gather import stack_readouts
from sklearn_mdl.readouts.grid import (
    default_readouts,
    preset_options,
    readout_grid,
    readout_names,
)
from sklearn_mdl.readouts.stack import ReadoutStack

__all__ = [
    "LinearReadout",
    "MLPReadout",
    "ReadoutStack",
    "default_readouts",
    "preset_options",
    "readout_grid",
    "readout_names",
    "stack_readouts",
]
