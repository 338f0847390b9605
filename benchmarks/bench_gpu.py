"""The paper's whole VTAB grid of frozen readouts: 8 shapes x 576 settings, on a GPU.

    python benchmarks/bench_gpu.py run slices.json --rows 1024
    python benchmarks/bench_gpu.py run slices.json --rows 2048
    python benchmarks/bench_gpu.py report slices.json
    python benchmarks/bench_gpu.py floor --bandwidth 4.8e12
    python benchmarks/bench_gpu.py run small.json --rows 64 --device cpu --small

``run`` walks every shape of the grid, with all its settings, over so many random rows
(d = 768, 100 classes), keeps what it measured after each shape and goes on from there
when started again. ``report`` checks that time is linear in the rows, extrapolates to
50,000, and sets the bytes that the steps must move, and the time they would take at the
measured copy bandwidth, beside it. ``floor`` says how long those bytes take at a
bandwidth in bytes a second, without a GPU. ``--small`` is the same with few settings of
little width, to see on a CPU that it works.
"""

import argparse
import json
import platform
import time
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl.stacked import count_parameters

N_FEATURES, N_CLASSES, GOAL_ROWS = 768, 100, 50_000
SMALL = {
    "hidden_layer_sizes": [(32,) * depth for depth in range(8)],
    "n_replay_streams": [3, 10],
    "lr": [1e-3, 3e-3],
    "beta1": [0.9],
    "weight_decay": [0.0, 1e-2],
}


def grid(small):
    """Readouts by shape."""
    board = readout_grid("vtab-frozen", **(SMALL if small else {}))
    shapes = groupby(board, key=lambda readout: len(readout.hidden_layer_sizes))
    return {depth: list(readouts) for depth, readouts in shapes}


def data(n_rows):
    """Random rows whose labels a linear map almost tells."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES)).astype(np.float32)
    W = rng.standard_normal((N_FEATURES, N_CLASSES)).astype(np.float32)
    y = (X @ W + 10 * rng.standard_normal((n_rows, N_CLASSES))).argmax(1)
    y[:N_CLASSES] = np.arange(N_CLASSES)[:n_rows]
    return X, y


def copy_rate(device):
    """Bytes a second, read and written, of a large copy."""
    source = torch.zeros(2**27 if device.type == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    best = np.inf
    for _ in range(5):
        _wait(device)
        start = time.perf_counter()
        target.copy_(source)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def _wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bytes_to_move(learner, n_rows, batch_size=32):
    """Bytes that a stack's optimiser steps must read and write.

    A step reads weights forward and backward, writes gradients, reads weights,
    gradients and both moments and writes all but the gradients, and reads and writes
    every average: each number once. Activations are left out.
    """
    trained = sum(p.nbytes for p in learner.net.module_.parameters())
    averaged = sum(
        p.nbytes for own in learner.averages.copies for pair in own.pairs for p in pair
    )
    n_steps = n_rows // batch_size * (learner.n_replay_streams + 1)
    return n_steps * (10 * trained + 2 * averaged)


def run(options):
    """Walk each shape that the file does not hold yet."""
    device = torch.device(options.device)
    found = _load(options.slices)
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor()
    )
    X, y = data(options.rows)
    for depth, readouts in grid(options.small).items():
        key = f"{options.rows}/{depth}"
        if key in found:
            continue
        walk(readouts[:: len(readouts) // 2], X[:512], y[:512], device)  # warm up
        switcher, seconds = walk(readouts, X, y, device)
        learners = switcher._course.learners
        found[key] = {
            "rows": options.rows,
            "hidden_layers": depth,
            "readouts": len(readouts),
            "steps": sum(
                len(stack.columns) * (options.rows // 32) * (stack.n_replay_streams + 1)
                for stack in learners
            ),
            "seconds": seconds,
            "bytes": sum(bytes_to_move(stack, options.rows) for stack in learners),
            "copy_rate": copy_rate(device),
            "codelength": switcher.codelength_,
            "device": name,
            "torch": torch.__version__,
        }
        options.slices.write_text(json.dumps(found, indent=1) + "\n")
        print(
            f"{key}: {seconds:.1f} s, {found[key]['codelength']:.2f} nats", flush=True
        )


def walk(readouts, X, y, device):
    """Walk and time; the paper's batch of 32."""
    switcher = MDLReadoutSwitcher(readouts, device=str(device), random_state=0)
    _wait(device)
    start = time.perf_counter()
    switcher.partial_fit(X, y, classes=np.arange(N_CLASSES))
    _wait(device)
    return switcher, time.perf_counter() - start


def report(options):
    """Print seconds by shape, linearity, and the extrapolation."""
    found = list(_load(options.slices).values())
    sizes = sorted({entry["rows"] for entry in found})
    last = [entry for entry in found if entry["rows"] == sizes[-1]]
    print(f"{last[0]['device']}, torch {last[0]['torch']}")
    titles = ("layers", "readouts", "rows", "seconds", "us/step", "GB/s", "of floor")
    print("".join(title.rjust(10) for title in titles))
    for entry in sorted(found, key=lambda e: (e["rows"], e["hidden_layers"])):
        floor = entry["bytes"] / entry["copy_rate"]
        print(
            f"{entry['hidden_layers']:10d}{entry['readouts']:10d}{entry['rows']:10d}"
            f"{entry['seconds']:10.1f}{entry['seconds'] / entry['steps'] * 1e6:10.2f}"
            f"{entry['bytes'] / entry['seconds'] / 1e9:10.0f}"
            f"{floor / entry['seconds']:10.2f}"
        )
    totals = {n: sum(e["seconds"] for e in found if e["rows"] == n) for n in sizes}
    floor = sum(e["bytes"] / e["copy_rate"] for e in last) / sizes[-1] * GOAL_ROWS
    print(
        "\nall shapes: " + ", ".join(f"{n} rows {t:.1f} s" for n, t in totals.items())
    )
    if len(sizes) > 1:
        (a, b), n = sizes[-2:], GOAL_ROWS
        slope = (totals[b] - totals[a]) / (b - a)
        print(
            f"{totals[b] / totals[a] * a / b:.3f} of linear from {a} to {b} rows; at "
            f"{n} rows {(totals[b] + slope * (n - b)) / 60:.1f} min, extrapolated"
        )
    print(f"byte floor at {GOAL_ROWS} rows: {floor / 60:.1f} min at the copy bandwidth")


def floor(options):
    """Print the bytes of the whole grid at 50,000 rows, and the time they take."""
    total = 0
    for depth, readouts in grid(small=False).items():
        sizes = (N_FEATURES, *readouts[-1].hidden_layer_sizes, N_CLASSES)
        n_parameters = count_parameters(sizes)
        averages = {r.ema_step_size for r in readouts if r.ema_step_size < 1}
        n_trainings = len(readouts) / (len(averages) + 1)
        steps = np.mean([r.n_replay_streams + 1 for r in readouts])
        step = 4 * n_parameters * (10 + 2 * len(averages))
        moved = GOAL_ROWS // 32 * steps * n_trainings * step
        print(f"{depth} hidden layers: {n_parameters:9,d} parameters {moved:.2e} bytes")
        total += moved
    print(f"all: {total:.2e} bytes, {total / options.bandwidth / 60:.1f} min")


def _load(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main():
    """Run, or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, function in (("run", run), ("report", report)):
        command = commands.add_parser(name)
        command.set_defaults(run=function)
        command.add_argument("slices", type=Path, help="JSON file of measurements")
    command = commands.add_parser("floor")
    command.set_defaults(run=floor)
    command.add_argument("--bandwidth", type=float, default=4.8e12, help="bytes/s")
    command = commands.choices["run"]
    command.add_argument("--rows", type=int, default=1024)
    command.add_argument("--device", default="cuda")
    command.add_argument("--small", action="store_true")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
