"""Accuracy protocols to compare with: linear, MLP and nearest-neighbour probes."""

from sklearn_mdl.probes.base import Probe
from sklearn_mdl.probes.neighbors import KNeighborsProbe
from sklearn_mdl.probes.nets import LinearProbe, MLPProbe

__all__ = ["KNeighborsProbe", "LinearProbe", "MLPProbe", "Probe"]
