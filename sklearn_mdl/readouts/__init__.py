"""Readouts, which predict labels and learn online, and lists of readouts."""

from sklearn_mdl.readouts._base import (
    COUNT as COUNT,
    Readout as Readout,
    build_learners as build_learners,
    check_readout as check_readout,
    learners_for as learners_for,
)
from sklearn_mdl.readouts._build import (
    grouped as grouped,
    hidden_widths as hidden_widths,
)
from sklearn_mdl.readouts._class_means import CentroidReadout, DiscriminantReadout
from sklearn_mdl.readouts._dummy import DummyReadout, DummyReadoutRegressor
from sklearn_mdl.readouts._edges import grid_edges as grid_edges
from sklearn_mdl.readouts._finetune.estimators import FineTunedReadout, ScratchReadout
from sklearn_mdl.readouts._finetune.frozen import (
    FrozenReadout,
    as_readout as as_readout,
    check_images as check_images,
)
from sklearn_mdl.readouts._floor import (
    class_frequencies as class_frequencies,
    complete as complete,
    floored as floored,
)
from sklearn_mdl.readouts._grid import readout_names as readout_names, regressor_grid
from sklearn_mdl.readouts._isolation import (
    IsolatedClassifier as IsolatedClassifier,
    Notes as Notes,
    collected as collected,
    seeded as seeded,
)
from sklearn_mdl.readouts._kernel_labellings import Labellings as Labellings
from sklearn_mdl.readouts._kernel_rows import (
    REACH as REACH,
    last_refresh as last_refresh,
)
from sklearn_mdl.readouts._kernels import (
    KernelReadout,
    KernelReadoutRegressor,
    factor_bytes as factor_bytes,
)
from sklearn_mdl.readouts._lists import (
    DefaultGrid as DefaultGrid,
    default_readouts,
    default_regressors,
    named_readouts as named_readouts,
    named_regressors as named_regressors,
)
from sklearn_mdl.readouts._neighbors import KNeighborsReadout
from sklearn_mdl.readouts._nets import (
    LinearReadout,
    LinearReadoutRegressor,
    MLPReadout,
    MLPReadoutRegressor,
    shared_work as shared_work,
    state_bytes as state_bytes,
)
from sklearn_mdl.readouts._paper_grids import preset_settings, readout_grid
from sklearn_mdl.readouts._stack import ReadoutStack as ReadoutStack
from sklearn_mdl.readouts._terms import Terms as Terms, terms_of as terms_of
from sklearn_mdl.readouts._views import (
    ViewReadout,
    ViewReadoutRegressor,
    ViewSettings as ViewSettings,
    expanded as expanded,
    view_readouts,
)
from sklearn_mdl.readouts._wrappers import (
    IncrementalReadout,
    RefitReadout,
    warn_of_failures as warn_of_failures,
)

__all__ = [
    "CentroidReadout",
    "DiscriminantReadout",
    "DummyReadout",
    "DummyReadoutRegressor",
    "FineTunedReadout",
    "FrozenReadout",
    "IncrementalReadout",
    "KNeighborsReadout",
    "KernelReadout",
    "KernelReadoutRegressor",
    "LinearReadout",
    "LinearReadoutRegressor",
    "MLPReadout",
    "MLPReadoutRegressor",
    "RefitReadout",
    "ScratchReadout",
    "ViewReadout",
    "ViewReadoutRegressor",
    "default_readouts",
    "default_regressors",
    "preset_settings",
    "readout_grid",
    "regressor_grid",
    "view_readouts",
]
