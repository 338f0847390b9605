"""Nats against CPU seconds: lists of readouts, their options, and logistic regression.

Each cell is the first ``--rows`` rows of a dataset and encoder, in the order of the
files. "default" has a pool, a race and growing minibatches. The contenders "default
without ..." each lack one of these, and "plain nets" lacks all of them. The logistic
regression is refitted at the ends of blocks that double (``logistic.py``), either with
scikit-learn's default regularisation, or tuned at the end of every block by three-fold
cross-validation on the earlier rows. Results are saved in ``pareto.jsonl`` next to this
file, from which ``docs/make_pareto.py`` draws a figure.
"""

import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._data import NETS, feature_cells
from benchmarks._kept import kept
from benchmarks.logistic import blockwise_codelength
from sklearn_mdl import MDLReadoutSwitcher

RESULTS = Path(__file__).with_suffix(".jsonl")


def switching(settings, X, y):
    """Return the codelength of a switcher with these settings."""
    with warnings.catch_warnings():  # logistic regressions may not converge
        warnings.simplefilter("ignore", UserWarning)
        switcher = MDLReadoutSwitcher(**settings, random_state=0).fit(X, y)
    return switcher.codelength_


def logistic(C, X, y):
    """Return the codelength of the logistic regression, refitted at block ends."""
    y = np.unique(y, return_inverse=True)[1]
    return blockwise_codelength(X.astype(float), y, C)


CONTENDERS = {
    "closed-form": partial(switching, {"readouts": "closed-form"}),
    "default": partial(switching, {}),
    "nets": partial(switching, {"readouts": "nets"}),
    "logistic": partial(logistic, 1.0),
    "default without race": partial(switching, {"race": None}),
    "default without pool": partial(switching, {"pooling": None}),
    "default without growth": partial(switching, {"batch_size": 32}),
    "plain nets": partial(switching, NETS),
    "tuned logistic": partial(logistic, None),
    "mixed": partial(switching, {"readouts": "mixed"}),
}


def front(points):
    """Return the names on the Pareto front of points (nats, seconds)."""
    return [
        name
        for name, (nats, seconds) in points.items()
        if not any(
            other != name and n <= nats and s <= seconds
            for other, (n, s) in points.items()
        )
    ]


class Pareto:
    """Nats and seconds of every contender."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--rows": {"type": int, "help": "only the first rows (default: all)"},
        "--contenders": {
            "nargs": "*",
            "default": list(CONTENDERS),
            "choices": list(CONTENDERS),
        },
        "--results": {
            "type": Path,
            "default": RESULTS,
            "help": "(default: %(default)s)",
        },
    }
    param_names = ["contender", "cell"]
    unit = "nats, CPU seconds"
    formats = {"track_nats": ".1f", "track_seconds": ".1f"}

    def prepare(self):
        cells = feature_cells(self.features, self.datasets, self.encoders)
        self.cells = {
            name: (X[: self.rows], y[: self.rows]) for name, (X, y) in cells.items()
        }

    @property
    def params(self):
        return [self.contenders, list(self.cells)]

    def setup(self, name, cell):
        X, y = self.cells[cell]
        key = [cell, len(y), name]
        self.found = kept(self.results, key, lambda: self.measure(name, X, y))

    def measure(self, name, X, y):
        """Return the nats and CPU seconds of a contender."""
        start = time.process_time()
        nats = CONTENDERS[name](X, y)
        return {"nats": nats, "seconds": time.process_time() - start}

    def track_nats(self, name, cell):
        return self.found["nats"]

    def track_seconds(self, name, cell):
        return self.found["seconds"]

    def report(self, table):
        points = {
            name: tuple(
                sum(row[column][0] for (one, _), row in table.items() if one == name)
                for column in ("track_nats", "track_seconds")
            )
            for name in self.contenders
        }
        best = front(points)
        print(f"{len(self.cells)} cells in total")
        for name, (nats, seconds) in sorted(points.items(), key=lambda p: p[1][1]):
            mark = "  on the front" if name in best else ""
            print(f"{name:24s}{nats:10.1f} nats{seconds:9.1f} s{mark}")
