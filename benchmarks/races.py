"""Races of readouts: codelength, seconds and training work with and without a race.

``cells`` fits the default list to every cell (dataset and encoder) of a folder. Rows
keep their order in the files. ``long`` uses the first rows of long streams. It fits the
default list without a race and with two rules of the race, the list "closed-form" with
a race, and the list "nets" with and without a race. ``grid`` fits the paper's grid of
readouts or a part of it. All these runs have a pool. ``finetuned`` switches between
fine-tuned networks on small images, in several orders.

"ratio" is the codelength divided by that of the contender "unraced": in ``cells`` and
``long``, of the default list without a race. "work" is the share of optimiser steps
that are still made with a race. Each step is weighted by the number of parameters. A
minibatch, counted as 32 rows from the start, takes one step, and one for each replay
stream. Readouts that differ only in averaging or calibration share their training,
which is counted once. Seconds are CPU seconds on one thread. With ``--results FILE`` an
interrupted table resumes.
"""

import time
import warnings
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.__main__ import sd
from benchmarks._data import feature_cells, permuted
from benchmarks._kept import OPTION, kept
from benchmarks.pretrained import images_of
from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.stream.learner import Replay
from sklearn_mdl.encoders import TorchEncoder, image_rows
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import hidden_widths
from sklearn_mdl.switching import Race

CONTENDERS = {
    "unraced": {"race": None},
    "raced": {"race": Race()},
    "raced hastily": {"race": Race(tolerance=0.05, pool_slack=2)},
    "closed-form": {"readouts": "closed-form"},
    "nets unraced": {"readouts": "nets", "race": None},
    "nets raced": {"readouts": "nets"},
}
# We chose the rule on these cells and on the two long streams. The last choice, among
# five ways to retire kernels, used all cells. We chose `pool_slack` without cells, on
# the two long streams and on two of ``million.py``: repeated rows, and the teacher.
SOUGHT_ON = {
    "caltech101/conv_cpc-mnist",
    "caltech101/mobilenetv1-025_sup-imagenet",
    "cifar10/resnet20_sup-cifar10",
    "gtsrb/conv-burgess_vae-celeba",
    "gtsrb/mobilenetv1-025_sup-imagenet",
    "gtsrb/resnet20_sup-cifar10",
    "mnist/conv4_relation-miniimagenet",
    "mnist/resnet20_sup-cifar10",
    "pneumonia/conv-burgess_vae-celeba",
    "pneumonia/mobilenetv1-025_sup-imagenet",
    "ucmerced/mobilenetv1-050_sup-imagenet",
    "ucmerced/resnet56_sup-cifar10",
}
BATCH = 32  # rows per minibatch; the smaller ones at the start hardly matter
SERVES_PREDICTION = {"ema_step_size", "ema_warmup", "calibration", "random_state"}


def training_work(switcher, sizes):
    """Return optimiser steps weighted by parameters, with the race and without one.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher
    sizes : callable
        Returns the number of parameters that a readout trains.
    """
    last, weights = {}, {}
    n_rows = switcher.n_samples_seen_
    for readout, at in zip(switcher.readouts_, switcher.retired_at_, strict=True):
        if not hasattr(readout, "n_replay_streams"):
            continue
        params = readout.get_params(deep=False)
        settings = {k: v for k, v in params.items() if k not in SERVES_PREDICTION}
        key = readout.architecture, str(settings)
        end = n_rows if at < 0 else int(at)
        last[key] = max(last.get(key, 0), end)
        replay = Replay.requested(readout.n_replay_streams)
        steps = np.array([1 + replay.at(row) for row in range(0, n_rows, BATCH)])
        weights[key] = np.concatenate([[0], steps.cumsum()]) * sizes(readout)
    done = sum(weights[key][-(-end // BATCH)] for key, end in last.items())
    return done, sum(work[-1] for work in weights.values())


class _Raced:
    """Columns of all tables."""

    codes: ClassVar[dict] = {}  # results of all rows so far
    options = {**OPTION}
    unit = "nats, CPU seconds"
    formats = {
        "track_codelength": ".1f",
        "track_ratio": ".4f",
        "track_switching": ".1f",
        "track_seconds": ".1f",
        "track_work": ".3f",
        "track_left": ".0f",
    }

    def fit(self, case, name, X, y, about="", **settings):
        """Measure all columns for a case and a contender."""
        key = [type(self).__name__, case, name, len(y), str(about)]
        self.found = kept(self.results, key, lambda: self.measure(X, y, name, settings))
        self.codes[case, name] = self.found["codelength"]

    def measure(self, X, y, name, settings):
        """Fit a contender and return its columns."""
        start = time.process_time()
        options = {"random_state": 0, **settings, **CONTENDERS[name]}
        with warnings.catch_warnings():  # the best readout may be at the grid's edge
            warnings.simplefilter("ignore", UserWarning)
            switcher = MDLReadoutSwitcher(**options).fit(X, y)
        seconds = time.process_time() - start
        done, full = training_work(switcher, lambda one: self.size(one, X, y))
        return {
            "codelength": switcher.codelength_,
            "switching": switcher.switching_codelength_,
            "seconds": seconds,
            "work": done / full if full else np.nan,
            "left": int((switcher.retired_at_ < 0).sum()),
            "readouts": len(switcher.readouts_),
        }

    def size(self, readout, X, y):
        """Return the number of parameters of a network readout."""
        hidden = hidden_widths(readout.hidden_layer_sizes)
        return count_parameters((X.shape[1], *hidden, len(np.unique(y))))

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_ratio(self, case, name):
        return self.found["codelength"] / self.codes.get((case, "unraced"), np.nan)

    def track_switching(self, *row):
        return self.found["switching"]

    def track_seconds(self, *row):
        return self.found["seconds"]

    def track_work(self, *row):
        return self.found["work"]

    def track_left(self, *row):
        return self.found["left"]

    def report(self, table):
        cases = list(dict.fromkeys(case for case, _ in table))
        others = [case for case in cases if case not in SOUGHT_ON]
        for name in CONTENDERS:
            if name != "unraced":
                self.compare(table, name, cases, "cases")
                if len(others) < len(cases):
                    self.compare(table, name, others, "others")

    def compare(self, table, name, cases, what):
        """Print the codelengths and seconds of a contender relative to "unraced"."""
        pairs = [
            (table[case, name], table[case, "unraced"])
            for case in cases
            if {(case, name), (case, "unraced")} <= set(table)
        ]
        if not pairs:
            return
        code, seconds = (
            np.array([[one[key][0] for one in pair] for pair in pairs]).T
            for key in ("track_codelength", "track_seconds")
        )
        ratio = code[0] / code[1]
        error = ""
        if len(ratio) > 1:
            error = f" (standard error {sd(ratio) / len(ratio) ** 0.5:.4f})"
        print(
            f"{name} / unraced on {len(ratio)} {what}: codelength ratio "
            f"{ratio.mean():.4f} on average{error}, at most {ratio.max():.4f}, below 1 "
            f"in {np.sum(ratio < 1)}; {seconds[0].sum():.1f} instead of "
            f"{seconds[1].sum():.1f} CPU seconds "
            f"({seconds[1].sum() / seconds[0].sum():.2f} times as fast)"
        )


class Cells(_Raced):
    """The default list on every cell of a folder."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        **OPTION,
    }
    param_names = ["cell", "list"]

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets, self.encoders)

    @property
    def params(self):
        return [list(self.cells), ["unraced", "raced"]]

    def setup(self, case, name):
        self.fit(case, name, *self.cells[case])


class Long(_Raced):
    """Lists on long streams, with and without a race."""

    options = {
        **Cells.options,
        "--rows": {"type": int, "default": 30_000, "help": "only the first rows"},
        "--lists": {"nargs": "*", "default": list(CONTENDERS), "choices": CONTENDERS},
        "--order": {"type": int, "help": "seed of the row order (default: file order)"},
    }
    param_names = ["stream", "list"]
    prepare = Cells.prepare

    @property
    def params(self):
        return [list(self.cells), self.lists]

    def setup(self, case, name):
        X, y = self.cells[case]
        if self.order is not None:
            X, y = permuted(X, y, self.order)
        self.fit(case, name, X[: self.rows], y[: self.rows], self.order or "")


class Grid(_Raced):
    """The paper's grid of readouts or a part of it, pooled by kind."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--cell": {"help": "DATASET/ENCODER (default: the first)"},
        "--rows": {"type": int, "default": 4000, "help": "only the first rows"},
        "--width": {"type": int, "default": 512, "help": "units per layer"},
        "--samples": {"type": int, "help": "readouts to draw (default: all)"},
        **OPTION,
    }
    param_names = ["cell", "list"]

    def prepare(self):
        cells = feature_cells(self.features)
        self.cell = self.cell or next(iter(cells))
        self.X, self.y = (part[: self.rows] for part in cells[self.cell])

    @property
    def params(self):
        return [[self.cell], ["unraced", "raced"]]

    def setup(self, case, name):
        depths = [(self.width,) * depth for depth in range(8)]
        readouts = readout_grid(
            "vtab-frozen",
            hidden_layer_sizes=depths,
            n_samples=self.samples,
            random_state=0,
        )
        about = self.width, len(readouts)
        pooling = {"pooling": LogLinearPool(), "readouts": readouts, "about": about}
        self.fit(case, name, self.X, self.y, **pooling)


class _Small(nn.Module):
    """A small convolutional network, for grey images of any size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x)))).flatten(1)


class Finetuned(_Raced):
    """Twelve fine-tuned networks on digits, or on the images of a folder."""

    options = {
        "images": {
            "type": Path,
            "nargs": "?",
            "help": "folder of CIFAR-10, PneumoniaMNIST and MNIST (default: digits)",
        },
        **OPTION,
        "--rows": {"type": int, "default": 1797, "help": "only the first rows"},
        "--orders": {"type": int, "default": 1, "help": "number of row orders"},
    }
    param_names = ["images", "list"]

    def prepare(self):
        pixels, y = load_digits(return_X_y=True)
        self.data = {"digits": (pixels.reshape(-1, 8, 8) / 16, y)}
        if self.images is not None:
            self.data = {
                name: (small(pixels), labels)
                for name, pixels, labels in images_of(self.images)
            }

    @property
    def params(self):
        cases = product(self.data, range(self.orders))
        return [[f"{name} {order}" for name, order in cases], ["unraced", "raced"]]

    def setup(self, case, name):
        images, order = case.split()
        pixels, y = permuted(*self.data[images], int(order))
        X = image_rows(pixels[: self.rows], mode="L")
        torch.manual_seed(0)
        encoder = TorchEncoder(_Small(), mode="L")
        readouts = readout_grid(
            encoder=encoder,
            lr=[1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3],
            n_replay_streams=[2, 5],
        )
        self.n_weights = sum(p.numel() for p in encoder.module.parameters())
        self.fit(case, name, X, y[: self.rows], readouts=readouts)

    def size(self, readout, X, y):
        """Return the encoder's number of parameters, ignoring the layer on top."""
        return self.n_weights


def small(pixels):
    """Return grey images whose pixels, from 0 to 1, are means of 4 by 4 pixels."""
    grey = pixels.reshape(*pixels.shape[:3], -1).mean(-1) / 255
    n, height, width = grey.shape
    return grey.reshape(n, height // 4, 4, width // 4, 4).mean((2, 4))
