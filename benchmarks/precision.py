"""Products of bfloat16 factors in networks: seconds and nats beside float32.

``step`` times one product of a stack, ``fit`` whole passes of the list "nets". Factors
are rounded to bfloat16 and sums are float32; torch rounds the results of such products
to bfloat16 on a CPU. Parameters, moments, sums over rows and all else stay float32.
"""

import time
import timeit
from unittest.mock import patch

import torch
from sklearn.datasets import load_digits

from benchmarks._data import feature_cells, permuted
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.nets.mlp import StackedMLP, gradient_of
from sklearn_mdl._core.numerics import fixed_arithmetic

CELL = "cifar10/mobilenetv1-050_sup-imagenet"


class RoundedMLP:
    """The products of a stack of networks, of bfloat16 factors."""

    def activations(self, x):
        h = x.expand(self.n_members, *x.shape[-2:])
        found = [h]
        for weight, bias in self.pairs:
            h = bias + rounded_product(h, weight.mT)
            found.append(h)
            if len(found) <= len(self.pairs):
                h.relu_()
        return found

    @torch.no_grad()
    def backward(self, activations, grad):
        for i in range(len(self.pairs) - 1, -1, -1):
            (weight, bias), h = self.pairs[i], activations[i]
            gradient_of(weight).copy_(rounded_product(grad.mT, h))
            torch.sum(grad, 1, keepdim=True, out=gradient_of(bias))
            if i:
                grad = rounded_product(grad, weight)
                grad = torch.ops.aten.threshold_backward(grad, h, 0.0)


def rounded_product(a, b):
    """Return the product of factors that are rounded to bfloat16, as float32."""
    return torch.bmm(a.bfloat16(), b.bfloat16()).float()


class Fit:
    """CPU seconds and codelength of the networks, all to the end."""

    options = {
        "features": {"help": "a directory of features: DATASET/ENCODER.npy"},
        "--rows": {"type": int, "help": "the first so many alone"},
    }
    params = [["digits", CELL], ["float32", "bfloat16"]]
    param_names = ["cell", "factors"]
    formats = {"track_seconds": ".1f", "track_codelength": ".1f"}

    def prepare(self):
        X, y = load_digits(return_X_y=True)
        cells = feature_cells(self.features, [CELL.partition("/")[0]])
        self.cells = {"digits": (X, y), CELL: cells[CELL]}

    def setup(self, cell, factors):
        X, y = permuted(*self.cells[cell], 100)
        switcher = MDLReadoutSwitcher("nets", race=None, random_state=0, device="cpu")
        kind = RoundedMLP if factors == "bfloat16" else StackedMLP
        methods = {name: getattr(kind, name) for name in ("activations", "backward")}
        with patch.multiple(StackedMLP, **methods):
            start = time.process_time()
            switcher.fit(X[: self.rows], y[: self.rows])
            self.seconds = time.process_time() - start
        self.nats = switcher.codelength_

    def track_seconds(self, *row):
        return self.seconds

    def track_codelength(self, *row):
        return self.nats


class Step:
    """Microseconds of a product of a stack, with and without the rounding."""

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
        return _microseconds(lambda: torch.bmm(*self.short))

    def track_rounded_in_each(self, *row):
        return _microseconds(lambda: rounded_product(self.h, self.weight))


def _microseconds(call, n_calls=20):
    with fixed_arithmetic():
        times = timeit.repeat(call, number=n_calls, repeat=9, timer=time.process_time)
    return 1e6 * min(times) / n_calls
