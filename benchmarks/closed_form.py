"""Kernel readouts beside networks: codelengths and seconds.

``digits`` prints the codelength of the list "closed-form" in ten orders,
``default_rng(s).permutation(N)`` for s = 100, ..., 109, and that of its best readout.
``cells`` prints, for every encoder and dataset of a directory, its codelength and
seconds as shares of those of "nets", rows in the order of the files.
``growth`` prints seconds and peak memory of a single kernel against the rows, up to
10,000 of 512 features, exact throughout and with landmarks.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_classification

from benchmarks._data import feature_cells, permuted
from benchmarks.codelength import ORDERS, timed_fit
from sklearn_mdl import KernelReadout


class Digits:
    """The list "closed-form" on digits in ten orders."""

    params = [list(ORDERS)]
    param_names = ["order"]
    unit = "nats"
    formats = dict.fromkeys(
        ["track_codelength", "track_best_readout", "track_seconds"], ".1f"
    )
    summarise = True

    def setup(self, order):
        X, y = permuted(*load_digits(return_X_y=True), order)
        self.switcher, self.seconds = timed_fit(X, y, "closed-form")

    def track_codelength(self, order):
        return self.switcher.codelength_

    def track_best_readout(self, order):
        return self.switcher.readout_codelengths_.min()

    def track_seconds(self, order):
        return self.seconds


class Cells:
    """The list "closed-form" beside "nets", on every cell of a directory."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "datasets": {"nargs": "*", "help": "some of them (default: all)"},
    }
    param_names = ["cell"]
    unit = "nats"
    formats = {
        "track_nets": ".1f",
        "track_kernels": ".1f",
        "track_ratio": ".4f",
        "track_seconds": ".1f",
        "track_share_of_seconds": ".3f",
    }

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets)

    @property
    def params(self):
        return list(self.cells)

    def setup(self, name):
        X, y = self.cells[name]
        self.kernels, self.seconds = timed_fit(X, y, "closed-form")
        self.nets, self.seconds_of_nets = timed_fit(X, y, "nets")

    def track_nets(self, name):
        return self.nets.codelength_

    def track_kernels(self, name):
        return self.kernels.codelength_

    def track_ratio(self, name):
        return self.kernels.codelength_ / self.nets.codelength_

    def track_seconds(self, name):
        return self.seconds

    def track_share_of_seconds(self, name):
        return self.seconds / self.seconds_of_nets

    def report(self, table):
        ratios = np.array([row["track_ratio"] for row in table.values()])
        shares = np.array([row["track_share_of_seconds"] for row in table.values()])
        print(
            f"kernels over nets: mean ratio {ratios.mean():.4f}, shorter in "
            f"{np.sum(ratios < 1)} of {len(ratios)} cells, mean share of seconds "
            f"{shares.mean():.3f}"
        )


class Growth:
    """Seconds and memory of one kernel against the number of rows."""

    params = [[1000, 2000, 4000, 10000], [None, 2048]]
    param_names = ["rows", "max_exact"]
    formats = {"time_fit": ".1f", "peakmem_fit": ",.0f"}

    def setup(self, n_rows, max_exact):
        self.X, self.y = make_classification(
            n_rows, 512, n_informative=40, n_classes=10, random_state=0
        )
        self.readout = KernelReadout(max_exact=max_exact)

    def time_fit(self, n_rows, max_exact):
        self.readout.fit(self.X, self.y)

    def peakmem_fit(self, n_rows, max_exact):
        self.readout.fit(self.X, self.y)
