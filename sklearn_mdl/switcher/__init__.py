"""Switchers between readouts, compression of labels, and files of losses."""

from sklearn_mdl.switcher._classifier import MDLReadoutSwitcher
from sklearn_mdl.switcher._coding import decode_labels, encode as encode, encode_labels
from sklearn_mdl.switcher._loss_files import (
    check_losses_path as check_losses_path,
    load_losses,
    save_losses,
)
from sklearn_mdl.switcher._message import LabelMessage, is_message as is_message
from sklearn_mdl.switcher._multioutput import MultiOutputSwitcher
from sklearn_mdl.switcher._permutation import PermutationTest, kernels_of as kernels_of
from sklearn_mdl.switcher._regressor import MDLReadoutSwitcherRegressor
from sklearn_mdl.switcher._repooling import KindMixtures, PooledTrace
from sklearn_mdl.switcher._resolved import (
    ResolvedSettings,
    batch_sizes as batch_sizes,
    folders_below as folders_below,
)
from sklearn_mdl.switcher._segments import StreamSegments
from sklearn_mdl.switcher._stored_losses import StoredLosses
from sklearn_mdl.switcher._views import ViewTrace

__all__ = [
    "KindMixtures",
    "LabelMessage",
    "MDLReadoutSwitcher",
    "MDLReadoutSwitcherRegressor",
    "MultiOutputSwitcher",
    "PermutationTest",
    "PooledTrace",
    "ResolvedSettings",
    "StoredLosses",
    "StreamSegments",
    "ViewTrace",
    "decode_labels",
    "encode_labels",
    "load_losses",
    "save_losses",
]
