"""The setting ``precision``: seconds and nats with bfloat16 and with float32 factors.

``step`` times one matrix product of a stack. ``fit`` times whole passes of the list
"nets" or of one wide network. The docstring of the switchers explains what is rounded.
"""

import time
import timeit

import torch
from sklearn.datasets import load_digits

from benchmarks._data import feature_cells, permuted
from sklearn_mdl import MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core.numerics import fixed_arithmetic, rounded_product

CELL = "cifar10/mobilenetv1-050_sup-imagenet"


class Fit:
    """CPU seconds and codelength of the networks, without a race."""

    options = {
        "features": {"help": "folder of DATASET/ENCODER.npy"},
        "--rows": {"type": int, "help": "number of rows to use (default: all)"},
        "--units": {
            "type": int,
            "help": "width of one network with two layers, which replaces the list",
        },
    }
    params = [["digits", CELL], ["float32", "bfloat16"]]
    param_names = ["cell", "factors"]
    formats = {"track_seconds": ".1f", "track_codelength": ".1f"}

    def prepare(self):
        X, y = load_digits(return_X_y=True)
        cells = feature_cells(self.features, *([name] for name in CELL.split("/")))
        self.cells = {"digits": (X, y), CELL: cells[CELL]}

    def setup(self, cell, factors):
        X, y = permuted(*self.cells[cell], 100)
        readouts = "nets" if self.units is None else [MLPReadout((self.units,) * 2)]
        switcher = MDLReadoutSwitcher(
            readouts, race=None, random_state=0, device="cpu", precision=factors
        )
        start = time.process_time()
        switcher.fit(X[: self.rows], y[: self.rows])
        self.seconds = time.process_time() - start
        self.nats = switcher.codelength_

    def track_seconds(self, *row):
        return self.seconds

    def track_codelength(self, *row):
        return self.nats


class Step:
    """Microseconds of one matrix product of a stack, with and without rounding."""

    params = [[64, 512, 1024], [64, 512]]
    param_names = ["features", "units"]
    formats = dict.fromkeys(
        ("track_float32", "track_rounded_before", "track_rounded_in_each"), ".0f"
    )

    def setup(self, n_features, n_units):
        torch.manual_seed(0)
        self.h = torch.randn(10, 32, n_features)
        self.weight = torch.randn(10, n_features, n_units)
        self.short = self.h.bfloat16(), self.weight.bfloat16()

    def track_float32(self, *row):
        return _microseconds(lambda: torch.bmm(self.h, self.weight))

    def track_rounded_before(self, *row):
        return _microseconds(lambda: rounded_product(*self.short))

    def track_rounded_in_each(self, *row):
        return _microseconds(
            lambda: rounded_product(self.h.bfloat16(), self.weight.bfloat16())
        )


def _microseconds(call, n_calls=20):
    with fixed_arithmetic():
        times = timeit.repeat(call, number=n_calls, repeat=9, timer=time.process_time)
    return 1e6 * min(times) / n_calls
