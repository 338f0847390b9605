"""Minimum description length of representations, by readout model switching."""

from sklearn_mdl.readouts import LinearReadout, MLPReadout, readout_grid
from sklearn_mdl.switcher import MDLReadoutSwitcher

__version__ = "0.1.0"
