"""What a pool adds to the time of a fit.

``share`` fits the default list on digits and on a cell of 101 classes, and takes the
CPU time of everything that is done for the pool alone, within the same fit. ``row``
pools predictions of 60 readouts in 20 groups that were drawn before, so that there is
nothing else.
"""

import time
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.datasets import load_digits

from benchmarks._data import feature_cells, permuted
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.pooled import Groups, PooledMixture, PoolHistory
from sklearn_mdl.pooling import LogLinearPool, PoolPass

CELL = "caltech101/mobilenetv1-025_sup-imagenet"
N_READOUTS, N_GROUPS = 60, 20


POOLED = (  # all that is done for a pool alone, beside the mixture of all readouts
    (PooledMixture, "extend"),
    (torch, "stack"),
    (ClassLabels, "mix_with"),
    (PoolHistory, "keep"),
)


@contextmanager
def timed():
    """Yield a list of the CPU seconds that go into the pool from now on."""
    spent = []

    def of(method):
        def call(*args, **options):
            start = time.process_time()
            found = method(*args, **options)
            spent.append(time.process_time() - start)
            return found

        return call

    with ExitStack() as patches:
        for kind, name in POOLED:
            method = of(getattr(kind, name))
            patches.enter_context(patch.object(kind, name, method))
        yield spent


class Share:
    """The pool's share in the CPU time of a fit, in per cent."""

    options = {
        "features": {"help": "a directory of features: DATASET/ENCODER.npy"},
        "--rows": {"type": int, "help": "the first so many alone"},
    }
    params = [["digits", CELL], ["with a race", "without"]]
    param_names = ["cell", "default list"]
    formats = {"track_percent": ".2f", "track_seconds": ".2f", "track_ms_a_row": ".3f"}

    def prepare(self):
        X, y = load_digits(return_X_y=True)
        cells = feature_cells(self.features, [CELL.partition("/")[0]])
        self.cells = {"digits": (X, y), CELL: cells[CELL]}

    def setup(self, cell, name):
        X, y = permuted(*self.cells[cell], 100)
        X, y = X[: self.rows], y[: self.rows]
        race = {} if name == "with a race" else {"race": None}
        switcher = MDLReadoutSwitcher(random_state=0, device="cpu", **race)
        with timed() as spent:
            start = time.process_time()
            switcher.fit(X, y)
            self.seconds = time.process_time() - start
        self.pool, self.n_rows = sum(spent), len(y)

    def track_seconds(self, *row):
        return self.seconds

    def track_ms_a_row(self, *row):
        return 1000 * self.pool / self.n_rows

    def track_percent(self, *row):
        return 100 * self.pool / self.seconds


class Row:
    """Milliseconds that a row takes in a pool of 60 readouts in 20 groups."""

    params = [[10, 100, 1000]]
    param_names = ["classes"]
    repeat = 3
    n_rows = 200
    formats = {"track_ms_a_row": ".3f"}

    def setup(self, n_classes):
        rng = np.random.default_rng(0)
        self.labels = rng.integers(n_classes, size=self.n_rows)
        signal = 4 * np.eye(n_classes)[self.labels][:, None]
        noise = rng.normal(size=(self.n_rows, N_READOUTS, n_classes))
        self.values = log_softmax(signal + noise, axis=2)
        own = self.values[np.arange(self.n_rows), :, self.labels]
        self.losses, self.switching = -own, -own.mean(1)

    def track_ms_a_row(self, n_classes):
        labels = np.arange(N_READOUTS) % N_GROUPS
        groups = Groups.of(labels, N_READOUTS, None)
        online = PoolPass(LogLinearPool(), N_GROUPS, n_classes)
        pooled = PooledMixture(groups, None, online)
        start = time.process_time()
        pooled.extend(self.losses, self.values, self.labels, self.switching)
        return 1000 * (time.process_time() - start) / self.n_rows
