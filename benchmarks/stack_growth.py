"""How time grows with readouts and rows, and memory with readouts."""

import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from floors import Machine, Work
from sklearn.datasets import load_digits

from sklearn_mdl import MDLReadoutSwitcher, readout_grid

STREAMS = 10
BATCH = 32
READOUTS = (1, 2, 4, 8, 16, 32, 64)
ROWS = tuple(2**n for n in range(8, 15))
SHAPES = {"linear": (), "mlp 1x256": (256,)}
WIDE = (768, 512, 100)
COLOURS = ("#0072B2", "#D55E00")  # of Okabe and Ito
MARKERS = ("o", "s")


def board(n_readouts, hidden, step_size=1.0):
    """Readouts of one shape that differ in their learning rate."""
    return readout_grid(
        hidden_layer_sizes=[hidden],
        lr=np.geomspace(3e-4, 3e-3, n_readouts).tolist(),
        n_replay_streams=STREAMS,
        ema_step_size=step_size,
    )


def resampled(n_rows):
    """Digits, drawn with replacement, with a little noise."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    rows = rng.integers(len(y), size=n_rows)
    return X[rows] + rng.standard_normal((n_rows, X.shape[1])), y[rows]


def fit_seconds(readouts, X, y):
    """Wall time of a fit on one thread."""
    switcher = MDLReadoutSwitcher(readouts, batch_size=BATCH, device="cpu", n_jobs=1)
    start = time.perf_counter()
    switcher.fit(X, y)
    return time.perf_counter() - start


def rounds(cells, repeats):
    """Median seconds of each cell, the cells taking turns."""
    times = [[fit_seconds(*cell) for cell in cells] for _ in range(repeats + 1)]
    return np.median(times[1:], axis=0)


def bench_scaling(options):
    """Growth of time with readouts and rows, and of memory with readouts."""
    machine = Machine()
    print(machine.describe((1,)), flush=True)
    by_readouts = time_by_readouts(machine, options.repeats)
    by_rows = time_by_rows(options.repeats)
    memory = memory_by_readouts()
    if options.plot:
        draw(options.plot, by_readouts, by_rows, memory)


def time_by_readouts(machine, repeats, n_rows=512):
    """Microseconds of a step of one readout, against the size of its stack."""
    X, y = resampled(n_rows)
    steps = n_rows // BATCH * (1 + STREAMS)
    cells = [(board(k, hidden), X, y) for hidden in SHAPES.values() for k in READOUTS]
    seconds = rounds(cells, repeats).reshape(len(SHAPES), len(READOUTS))
    micros = 1e6 * seconds / (steps * np.array(READOUTS))
    print(
        f"\nus per step and readout, {n_rows} rows of 64 features, one thread; floor: "
        "the larger of\nproducts and bytes, copied as much as the stack holds"
    )
    print(f"{'K':>8s}" + "".join(f"{s:>14s}{'floor':>10s}" for s in SHAPES))
    for j, k in enumerate(READOUTS):
        line = f"{k:8d}"
        for i, hidden in enumerate(SHAPES.values()):
            products, _, cached = machine.floors(Work((64, *hidden, 10)), k, 1)
            line += f"{micros[i, j]:14.1f}{1e6 * max(products, cached):10.1f}"
        print(line, flush=True)
    return dict(zip(SHAPES, micros, strict=True))


def time_by_rows(repeats, n_readouts=8):
    """Seconds of a fit against the number of rows."""
    cells = [
        (board(n_readouts, hidden), *resampled(n))
        for hidden in SHAPES.values()
        for n in ROWS
    ]
    seconds = rounds(cells, repeats).reshape(len(SHAPES), len(ROWS))
    print(f"\nseconds of a fit, {n_readouts} readouts; doubled: over that of half N")
    print(f"{'N':>8s}" + "".join(f"{s:>14s}{'doubled':>10s}" for s in SHAPES))
    for j, n in enumerate(ROWS):
        line = f"{n:8d}"
        for times in seconds:
            line += f"{times[j]:14.3f}"
            line += f"{times[j] / times[j - 1]:10.2f}" if j else " " * 10
        print(line, flush=True)
    return dict(zip(SHAPES, seconds, strict=True))


def memory_by_readouts():
    """Peak resident memory that a fit adds, in processes of their own, in bytes."""
    context = multiprocessing.get_context("spawn")
    peaks = {}
    for name, step_size in (("weights", 1.0), ("averaged weights", 0.03)):
        peaks[name] = []
        for k in READOUTS:
            with ProcessPoolExecutor(1, context) as pool:
                peaks[name].append(pool.submit(_growth, k, step_size).result())
    n_parameters = Work(WIDE).n_parameters
    print(
        f"\nMiB that a fit adds at its peak, {WIDE[0]} features, {WIDE[-1]} classes, "
        f"one hidden layer of {WIDE[1]}:\n{n_parameters:,d} parameters a readout"
    )
    print(f"{'K':>8s}" + "".join(f"{name:>20s}" for name in peaks))
    for row in zip(READOUTS, *peaks.values(), strict=True):
        print(f"{row[0]:8d}" + "".join(f"{peak / 2**20:20.1f}" for peak in row[1:]))
    slopes = [np.polyfit(READOUTS, p, 1)[0] / n_parameters for p in peaks.values()]
    print(f"{'bytes':>8s}" + "".join(f"{s:20.2f}" for s in slopes) + " a parameter")
    return peaks


def _growth(n_readouts, step_size):
    """Run in a fresh process: a small fit first, so that libraries are loaded."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8 * BATCH, WIDE[0])).astype(np.float32)
    y = rng.permutation(np.arange(len(X)) % WIDE[-1])
    fit_seconds(board(1, (8,), step_size), X, y)
    before = _kibibytes("VmRSS")
    fit_seconds(board(n_readouts, WIDE[1:-1], step_size), X, y)
    return 1024 * (_kibibytes("VmHWM") - before)


def _kibibytes(name):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+)", status)[1])


def draw(path, by_readouts, by_rows, memory):
    """Three panels, told apart by colour and marker."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    panels = (
        (READOUTS, by_readouts, "readouts K", "time per step and readout (µs)"),
        (ROWS, by_rows, "rows N", "time of a fit (s)"),
        (
            READOUTS,
            {name: np.array(peak) / 2**20 for name, peak in memory.items()},
            "readouts K",
            "memory added by a fit (MiB)",
        ),
    )
    for ax, (x, curves, xlabel, ylabel) in zip(axes, panels, strict=True):
        for i, (name, values) in enumerate(curves.items()):
            ax.plot(x, values, color=COLOURS[i], marker=MARKERS[i], label=name)
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
        ax.set_xticks(x, [str(value) for value in x], minor=False)
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    n = np.array(ROWS)
    middle = by_rows["linear"][len(n) // 2] * n / n[len(n) // 2]
    axes[1].plot(n, middle, color="#8C8C8C", linestyle=":", label="proportional to N")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=150)
    print(f"\n{path}")
