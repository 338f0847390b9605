"""Stopping: races of encoders over fresh orders, and how many labels they take.

Every encoder of a dataset is run once over up to 1,000 labels in each of many orders,
by the readouts of an ``EncoderRace``; all races below read these losses. With
``--results`` they are kept, and a command that was ended continues.
"""

from pathlib import Path

import numpy as np

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.model_selection import on_equal_terms

MOST = 1000  # labels of a stream
FEATURES = {
    "folder": {"help": "folder of features, as load_feature_directory reads it"}
}
OPTIONS = {
    **FEATURES,
    "--orders": {"type": int, "default": 20, "help": "orders (default: %(default)s)"},
    "--results": {"type": Path, "help": "folder in which losses are kept"},
}


def stream(y, order):
    """Rows of a stream, in order."""
    return np.random.default_rng([36, order]).permutation(len(y))[:MOST]


def losses_of(dataset, features, y, order, results):
    """Losses of all encoders in an order, (n_labels, n_encoders), in nats."""
    path = results and results / f"{dataset}-{order}.npy"
    if path and path.exists():
        return np.load(path)
    rows, classes = stream(y, order), np.unique(y, return_inverse=True)[1]
    width = max(X.shape[1] for X in features.values())
    found = []
    for X in features.values():
        switcher = MDLReadoutSwitcher("linear", random_state=0)
        switcher = on_equal_terms(switcher, width, classes.max() + 1)
        named = np.arange(classes.max() + 1)
        switcher.partial_fit(np.asarray(X)[rows], classes[rows], classes=named)
        found.append(switcher.codelengths_)
    losses = np.stack(found, axis=1)
    if path:
        results.mkdir(parents=True, exist_ok=True)
        np.save(path, losses)
    return losses


class _Streams:
    """Losses of all encoders of each dataset in many orders."""

    options = OPTIONS
    param_names = ["dataset"]

    def prepare(self):
        self.data = load_feature_directory(self.folder)
        self.params = [sorted(self.data)]
        self.losses = {name: [] for name in self.data}
        for order in range(self.orders):  # so that all datasets grow alike
            for name, (features, y) in self.data.items():
                found = losses_of(name, features, np.asarray(y), order, self.results)
                self.losses[name].append(found)

    def races(self, dataset):
        """Losses (n_orders, n_labels, n_encoders)."""
        return np.stack(self.losses[dataset])


class Races(_Streams):
    """How often the best encoder is lost, how many are left, and labels to stop."""

    def track_labels(self, dataset):
        return self.races(dataset).shape[1]
