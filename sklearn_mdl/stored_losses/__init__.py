"""Losses on disk: what the first stage, training, hands to the second, mixing.

A file holds the loss of every readout at every example and says whose they are, so that
it can be mixed under any switching prior without training again. It is a ``.npy`` with
a ``.json`` of the same stem beside it, or one ``.safetensors``. ``N x K`` may be larger
than memory: writing goes by blocks of rows, and what is read is a memory map.
"""

from sklearn_mdl.stored_losses.contents import StoredLosses, description
from sklearn_mdl.stored_losses.files import (
    check_losses_path,
    load_losses,
    save_losses,
)

__all__ = [
    "StoredLosses",
    "check_losses_path",
    "description",
    "load_losses",
    "save_losses",
]
