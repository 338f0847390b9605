"""Streams that drift: the list "drift" beside an oracle that knows the changes.

``made`` draws streams from cells of real features by the rules of
``benchmarks/_streams.py``, and codes them by lists of readouts, by the oracle, which is
the default list restarted at the true changes, and by logistic regression refitted at
the ends of blocks that grow by a fifth. ``river`` compares with classifiers of river on
streams that river and other packages ship.
"""

import math
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._data import feature_cells
from benchmarks._kept import OPTION, kept
from benchmarks._streams import drifting
from sklearn_mdl import MDLReadoutSwitcher, RefitReadout

CONTENDERS = {
    "drift": {"readouts": "drift"},
    "default": {},
    "closed-form": {"readouts": "closed-form"},
    "logistic": {"readouts": [RefitReadout(LogisticRegression(), schedule=1.2)]},
}
ORACLE = "oracle"


def fitted(X, y, n_classes, settings):
    """Return a switcher that has seen a stream in its order."""
    switcher = MDLReadoutSwitcher(**settings, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that have not converged
        return switcher.partial_fit(X, y, classes=range(n_classes))


class Made:
    """Streams made from cells of real features."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "some (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "some (default: all)"},
        "--kinds": {"nargs": "*", "default": ["abrupt"]},
        "--seeds": {"nargs": "*", "type": int, "default": [0]},
        "--rows": {"type": int, "default": 4700},
        "--least": {"type": int, "default": 1000, "help": "rows of a segment"},
        "--contenders": {"nargs": "*", "default": [*CONTENDERS, ORACLE]},
        **OPTION,
    }
    param_names = ["cell", "kind", "seed", "contender"]
    unit = "nats, and their ratio to the first contender's on the same stream"
    formats = {"track_codelength": ".1f", "track_accuracy": ".4f", "track_saved": ".0f"}

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets, self.encoders)

    @property
    def params(self):
        return [list(self.cells), self.kinds, self.seeds, self.contenders]

    def setup(self, cell, kind, seed, name):
        key = ["made", cell, kind, seed, self.rows, self.least, name]
        self.found = kept(self.results, key, lambda: self.measure(*key[1:4], name))

    def measure(self, cell, kind, seed, name):
        X, y = self.cells[cell]
        n_classes = int(y.max()) + 1
        X, y, changes = drifting(X, y, kind, self.rows, self.least, seed)
        settings = CONTENDERS["default" if name == ORACLE else name]
        starts = [0, *changes.tolist()] if name == ORACLE else [0]
        codelength, hits, blind = 0.0, 0, 0.0
        for start, end in zip(starts, [*starts[1:], len(y)], strict=True):
            switcher = fitted(X[start:end], y[start:end], n_classes, settings)
            codelength += switcher.codelength_
            hits += switcher.measures().accuracy * (end - start)
            blind += switcher.reference_codelengths_.sum()
        return {
            "codelength": codelength,
            "accuracy": hits / len(y),
            "saved": blind - codelength,
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_accuracy(self, *row):
        return self.found["accuracy"]

    def track_saved(self, *row):
        """Nats saved over labels alone."""
        return self.found["saved"]

    def report(self, table):
        """Ratios of codelengths to the oracle's, or to the last contender's."""
        base = ORACLE if ORACLE in self.contenders else self.contenders[-1]
        for kind in self.kinds:
            for name in self.contenders:
                ratios = [
                    columns["track_codelength"][0]
                    / table[*row[:3], base]["track_codelength"][0]
                    for row, columns in table.items()
                    if row[1] == kind and row[3] == name
                ]
                print(
                    f"{kind}: {name} {np.mean(ratios):.3f} of {base} "
                    f"({min(ratios):.3f} to {max(ratios):.3f})"
                )
