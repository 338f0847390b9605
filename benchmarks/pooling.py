"""How much time a pool adds to a fit.

``share`` fits the default readouts, with and without a race, on digits and on
Caltech101. Within the fit, it measures the CPU time of the functions that only a pool
needs. ``row`` times only a pool, on random predictions of 60 readouts in 20 kinds.
``late`` times the mixing of 52 readouts in 8 kinds over 50,000 rows, under the default
prior, with labels that are up to 1,600 rows late.
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
from sklearn_mdl._core.stream.coder import Block, PooledCoder
from sklearn_mdl._core.stream.mixer import GroupMixer, Groups
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl.pooling import LogLinearPool, PoolPass
from sklearn_mdl.switching import ForwardPass

STACK = torch.stack
CELL = "caltech101/mobilenetv1-025_sup-imagenet"
N_READOUTS, N_GROUPS = 60, 20


POOLED = (  # functions that only a pool needs
    (GroupMixer, "mixtures"),
    (PooledCoder, "extend"),  # includes switching, which is subtracted
    (torch, "stack"),  # along the second axis; kernels stack along the last one
    (ClassLabels, "mix_with"),
)


@contextmanager
def timed():
    """Yield a list that collects the CPU seconds spent on the pool."""
    spent = []

    def of(method, sign=1):
        def call(*args, **options):
            start = time.process_time()
            result = method(*args, **options)
            if method is not STACK or args[1:] == (1,):
                spent.append(sign * (time.process_time() - start))
            return result

        return call

    with ExitStack() as patches:
        for kind, name in POOLED:
            method = of(getattr(kind, name))
            patches.enter_context(patch.object(kind, name, method))
        forward = of(ForwardPass.extend, sign=-1)
        patches.enter_context(patch.object(ForwardPass, "extend", forward))
        yield spent


class Share:
    """The pool's share of the CPU time of a fit, in per cent."""

    options = {
        "features": {"help": "folder of DATASET/ENCODER.npy"},
        "--rows": {"type": int, "help": "only the first rows (default: all)"},
    }
    params = [["digits", CELL], ["with a race", "without"]]
    param_names = ["cell", "default list"]
    formats = {"track_percent": ".2f", "track_seconds": ".2f", "track_ms_a_row": ".3f"}

    def prepare(self):
        X, y = load_digits(return_X_y=True)
        cells = feature_cells(self.features, *([name] for name in CELL.split("/")))
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
    """Milliseconds per row in a pool of 60 readouts in 20 kinds."""

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
        self.losses, self.values = -own, torch.from_numpy(self.values)

    def track_ms_a_row(self, n_classes):
        mixer, coder = parts_of(N_READOUTS, N_GROUPS, n_classes)
        known = np.arange(self.n_rows + 1)
        with timed() as spent:
            mixtures = mixer.mixtures(self.values.unbind(1), self.losses, known)
            coder.extend(Block(self.losses, mixtures, self.labels, known))
        return 1000 * sum(spent) / self.n_rows


class Late:
    """CPU seconds of mixing 52 readouts over 50,000 rows, by label delay."""

    params = [[0, 100, 1600]]
    param_names = ["delay"]
    formats = {"track_seconds": ".1f"}

    def track_seconds(self, delay):
        rng, n_classes = np.random.default_rng(0), 10
        mixer, coder = parts_of(52, 8, n_classes)
        spent = 0.0
        for start in range(0, 50_000, 1000):
            values = log_softmax(rng.normal(size=(1000, 52, n_classes)), axis=2)
            labels = rng.integers(n_classes, size=1000)
            losses = -values[np.arange(1000), :, labels]
            known = np.maximum(np.arange(start, start + 1001) - delay, 0)
            begin = time.process_time()
            mixtures = mixer.mixtures(torch.from_numpy(values).unbind(1), losses, known)
            coder.extend(Block(losses, mixtures, labels, known))
            spent += time.process_time() - begin
        return spent


def parts_of(n_readouts, n_groups, n_classes):
    """Return a mixer and a coder like those of a run."""
    groups = Groups.of(np.arange(n_readouts) % n_groups, n_readouts, None)
    online = PoolPass(LogLinearPool(), n_groups, n_classes)
    mixer = GroupMixer(groups, None, n_readouts, online)
    return mixer, PooledCoder(None, n_readouts, None, online, groups.members)
