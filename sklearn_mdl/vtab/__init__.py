"""The Visual Task Adaptation Benchmark (Zhai et al., 2019): tasks, labels, files."""

from sklearn_mdl.vtab.data import VtabData
from sklearn_mdl.vtab.loading import load_vtab
from sklearn_mdl.vtab.tasks import VTAB_TASKS, VtabTask

__all__ = ["VTAB_TASKS", "VtabData", "VtabTask", "load_vtab"]
