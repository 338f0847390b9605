"""The paper's whole VTAB grid of frozen readouts, 8 shapes x 576 settings, on a GPU.

``run`` evaluates every shape of the grid with all its settings on ``--rows`` random
rows (d = 768, 100 classes). The measurements of each shape are saved in a file, so an
interrupted run resumes. ``run`` prints how close the time is to linear in the number of
rows, and extrapolates to 50,000 rows. It also prints how long moving the bytes of all
steps would take at the measured copy bandwidth. ``floor`` needs no GPU. It prints the
number of bytes for 50,000 rows, and how long moving them takes at a bandwidth that you
pass. ``--small`` uses a few settings with narrow layers, to check on a CPU that the
benchmark runs. ``passes`` times whole lists of readouts on both devices:

    python -m benchmarks gpu run slices.json --rows 1024 2048
    python -m benchmarks gpu run small.json --rows 64 --device cpu --small
    python -m benchmarks gpu passes --rows 2000 10000
"""

import json
import platform
import time
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from benchmarks._kept import OPTION, kept
from benchmarks._streams import teacher
from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl.readouts._lists import NAMES

N_FEATURES, N_CLASSES, GOAL_ROWS = 768, 100, 50_000
SMALL = {
    "hidden_layer_sizes": [(32,) * depth for depth in range(8)],
    "n_replay_streams": [3, 10],
    "lr": [1e-3, 3e-3],
    "beta1": [0.9],
    "weight_decay": [0.0, 1e-2],
}


def grid(small):
    """Return the readouts of each shape, keyed by the number of hidden layers."""
    readouts = readout_grid("vtab-frozen", **(SMALL if small else {}))
    shapes = groupby(readouts, key=lambda readout: len(readout.hidden_layer_sizes))
    return {depth: list(members) for depth, members in shapes}


def data(n_rows):
    """Return random rows, and labels from a linear map and noise.

    The first 100 labels include every class.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES)).astype(np.float32)
    W = rng.standard_normal((N_FEATURES, N_CLASSES)).astype(np.float32)
    y = (X @ W + 10 * rng.standard_normal((n_rows, N_CLASSES))).argmax(1)
    y[:N_CLASSES] = np.arange(N_CLASSES)[:n_rows]
    return X, y


def copy_rate(device):
    """Return the bytes per second, read and written, of a large copy."""
    source = torch.zeros(2**27 if device.type == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    best = np.inf
    for _ in range(5):
        wait(device)
        start = time.perf_counter()
        target.copy_(source)
        wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bytes_to_move(learner, n_rows, batch_size):
    """Return the bytes that the optimiser steps of a stack must read and write.

    The forward and backward passes read the weights, and the backward pass writes the
    gradients. The update reads weights, gradients and both moments, writes all but the
    gradients, and reads and writes every average. Activations are not included.
    """
    trained = sum(p.nbytes for p in learner.net.module_.parameters())
    averaged = sum(
        p.nbytes for own in learner.averages.copies for pair in own.pairs for p in pair
    )
    n_steps = n_rows // batch_size * (learner.replay.n_streams + 1)
    return n_steps * (10 * trained + 2 * averaged)


def evaluate(readouts, X, y, device, **settings):
    """Return a fitted switcher, and the wall time of the fit."""
    settings = {"device": str(device), "random_state": 0, **settings}
    switcher = MDLReadoutSwitcher(readouts, **settings)
    wait(device)
    start = time.perf_counter()
    switcher.fit(X, y)
    wait(device)
    return switcher, time.perf_counter() - start


class Run:
    """Seconds of every shape, linearity in the rows, and an extrapolation."""

    options = {
        "slices": {"type": Path, "help": "JSON file of measurements"},
        "--rows": {"type": int, "nargs": "+", "default": [1024]},
        "--device": {"default": "cuda"},
        "--small": {"action": "store_true", "help": "few settings, narrow layers"},
        "--batch": {"type": int, "default": 32, "help": "batch size (paper: 32)"},
        "--precision": {"default": "float32", "help": "precision of matrix products"},
    }
    param_names = ["rows", "hidden layers"]
    unit = "one shape of the grid; of floor: the time of a copy divided by ours"
    formats = {
        "track_readouts": ".0f",
        "track_seconds": ".1f",
        "track_us_per_step": ".2f",
        "track_million_samples": ".2f",
        "track_gb_per_s": ".0f",
        "track_of_floor": ".2f",
        "track_nats": ".2f",
    }

    def prepare(self):
        self.grid = grid(self.small)

    @property
    def params(self):
        return [self.rows, list(self.grid)]

    def setup(self, n_rows, depth):
        saved = json.loads(self.slices.read_text()) if self.slices.exists() else {}
        key = f"{n_rows}/{depth}/{self.batch}/{self.precision}"
        if key not in saved:
            saved[key] = self._measure(n_rows, self.grid[depth])
            self.slices.write_text(json.dumps(saved, indent=1) + "\n")
        self.entry = saved[key]

    def _measure(self, n_rows, readouts):
        device = torch.device(self.device)
        X, y = data(n_rows)
        settings = {
            **{"pooling": None, "race": None},
            **{"batch_size": self.batch, "precision": self.precision},
        }
        few = readouts[:: len(readouts) // 2]
        evaluate(few, X[:512], y[:512], device, **settings)  # warm up
        switcher, seconds = evaluate(readouts, X, y, device, **settings)
        learners = switcher._run.learners
        is_gpu = device.type == "cuda"
        return {
            "readouts": len(readouts),
            "steps": sum(
                len(stack.columns)
                * (n_rows // self.batch)
                * (stack.replay.n_streams + 1)
                for stack in learners
            ),
            "seconds": seconds,
            "bytes": sum(
                bytes_to_move(stack, n_rows, self.batch) for stack in learners
            ),
            "copy_rate": copy_rate(device),
            "codelength": switcher.codelength_,
            "device": torch.cuda.get_device_name(device)
            if is_gpu
            else platform.processor(),
            "torch": torch.__version__,
        }

    def track_readouts(self, *row):
        return self.entry["readouts"]

    def track_seconds(self, *row):
        return self.entry["seconds"]

    def track_us_per_step(self, *row):
        return self.entry["seconds"] / self.entry["steps"] * 1e6

    def track_million_samples(self, *row):
        """Training rows per second, including replay, over all readouts."""
        return self.entry["steps"] * self.batch / self.entry["seconds"] / 1e6

    def track_gb_per_s(self, *row):
        return self.entry["bytes"] / self.entry["seconds"] / 1e9

    def track_of_floor(self, *row):
        return self.entry["bytes"] / self.entry["copy_rate"] / self.entry["seconds"]

    def track_nats(self, *row):
        return self.entry["codelength"]

    def report(self, table):
        totals, floors = dict.fromkeys(self.rows, 0.0), dict.fromkeys(self.rows, 0.0)
        for (n_rows, _), values in table.items():
            seconds = values["track_seconds"][0]
            totals[n_rows] += seconds
            floors[n_rows] += values["track_of_floor"][0] * seconds
        parts = ", ".join(f"{n} rows {t:.1f} s" for n, t in totals.items())
        print(f"all shapes: {parts}")
        n, last = GOAL_ROWS, max(totals)
        if len(totals) > 1:
            a, b = sorted(totals)[-2:]
            slope = (totals[b] - totals[a]) / (b - a)
            print(
                f"{totals[b] / totals[a] * a / b:.3f} of linear from {a} to {b} rows; "
                f"extrapolated to {n}: {(totals[b] + slope * (n - b)) / 60:.1f} min"
            )
        minutes = floors[last] / last * n / 60
        print(f"byte floor at {n} rows: {minutes:.1f} min at the copy bandwidth")


class Passes:
    """Seconds of whole passes: a first pass, which compiles, and a second one.

    On a CPU, one pass counts as both. The stream "teacher" has 64 features, and 10
    classes from a random network. "wide" has 768 features, and 100 classes from a
    linear map and noise.
    """

    options = {
        "--rows": {"type": int, "nargs": "*", "default": [2000, 10_000]},
        "--lists": {
            "nargs": "*",
            "default": ["closed-form", "nets", "default"],
            "choices": ["default", *NAMES],
        },
        "--devices": {"nargs": "*", "default": ["cuda", "cpu"]},
        "--streams": {
            "nargs": "*",
            "default": ["teacher", "wide"],
            "choices": ["teacher", "wide"],
        },
        **OPTION,
    }
    param_names = ["stream", "rows", "list", "device"]
    unit = "wall seconds, CPU seconds, and nats per row"
    formats = {
        "track_first": ".1f",
        "track_seconds": ".1f",
        "track_cpu_seconds": ".1f",
        "track_nats": ".5f",
    }

    @property
    def params(self):
        return [self.streams, self.rows, self.lists, self.devices]

    def setup(self, *case):
        self.entry = kept(self.results, list(case), lambda: self._measure(*case))

    def _measure(self, stream, n_rows, name, device):
        X, y = teacher(n_rows) if stream == "teacher" else data(n_rows)
        device = torch.device(device)
        readouts = None if name == "default" else name
        first = evaluate(readouts, X, y, device)[1] if device.type == "cuda" else None
        start = time.process_time()
        switcher, seconds = evaluate(readouts, X, y, device)
        return {
            "first": first or seconds,
            "seconds": seconds,
            "cpu_seconds": time.process_time() - start,
            "nats": switcher.codelength_ / n_rows,
        }

    def track_first(self, *case):
        return self.entry["first"]

    def track_seconds(self, *case):
        return self.entry["seconds"]

    def track_cpu_seconds(self, *case):
        return self.entry["cpu_seconds"]

    def track_nats(self, *case):
        return self.entry["nats"]


class Floor:
    """Bytes that the whole grid moves for 50,000 rows, and the time that this takes."""

    options = {
        "--bandwidth": {"type": float, "default": 4.8e12, "help": "bytes per second"}
    }
    params = [list(range(8))]
    param_names = ["hidden layers"]
    unit = f"{GOAL_ROWS} rows"
    formats = {"track_bytes": ".2e", "track_parameters": ",.0f"}

    def setup(self, depth):
        self.readouts = grid(small=False)[depth]
        sizes = (N_FEATURES, *self.readouts[-1].hidden_layer_sizes, N_CLASSES)
        self.n_parameters = count_parameters(sizes)

    def track_parameters(self, depth):
        return self.n_parameters

    def track_bytes(self, depth):
        readouts = self.readouts
        averages = {r.ema_step_size for r in readouts if r.ema_step_size < 1}
        n_trainings = len(readouts) / (len(averages) + 1)
        steps = np.mean([r.n_replay_streams + 1 for r in readouts])
        step = 4 * self.n_parameters * (10 + 2 * len(averages))
        return GOAL_ROWS // 32 * steps * n_trainings * step

    def report(self, table):
        total = sum(values["track_bytes"][0] for values in table.values())
        print(f"all: {total:.2e} bytes, {total / self.bandwidth / 60:.1f} min")
