"""Lower bounds on the time of a training step on this machine.

Two lower bounds accompany every measured time. The arithmetic bound only counts matrix
products: 2BP flops forward, 2BP for the gradients of the weights, 2B(P - P1) for the
gradients of the hidden layers, and 2BP for each prediction, with B rows and P weights,
P1 of them in the first layer. That is 4BP for a linear readout and at most 6BP for a
deep one. The flops are divided by the rate of a large float32 ``torch.mm``.

The byte bound counts each number of a training step as read once and written once:
weights, gradients and AdamW's two moments take 32 bytes per parameter, and averaged
weights another 8. The bytes are divided by the rate of ``copy_``, measured for tensors
of two sizes. A large tensor comes from memory. A tensor of the size of the whole stack
may fit into a cache, where copies are much faster.
"""

import os
import platform
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

LARGE = 512 * 2**20  # bytes of the large copy
EDGE = 2048  # rows and columns of the large product
THREADS = tuple(n for n in (1, 2) if n <= os.cpu_count())


@dataclass(frozen=True)
class Work:
    """Cost of one readout of a shape, given by its widths from features to classes."""

    sizes: tuple[int, ...]
    batch_size: int = 32
    averaged: bool = False
    steps_per_prediction: int = 11

    @property
    def n_parameters(self):
        return sum((i + 1) * o for i, o in pairwise(self.sizes))

    @property
    def held(self):
        """Return the bytes of weights, gradients, two moments and averages."""
        return 4 * self.n_parameters * (5 if self.averaged else 4)

    @property
    def flops(self):
        """Return the flops of a training step, with its share of a prediction."""
        products = [i * o for i, o in pairwise(self.sizes)]
        step = 6 * sum(products) - 2 * products[0]
        return self.batch_size * (step + 2 * sum(products) / self.steps_per_prediction)

    @property
    def moved(self):
        """Return the bytes of a training step, each number read and written once."""
        return 2 * self.held


def best_seconds(run, repeats=7):
    """Return the best time of a function, after one warm-up run."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


class Machine:
    """Rates of this machine, each measured once per size and number of threads."""

    def __init__(self):
        self._rates = {}

    def product_rate(self, n_threads):
        """Return the flops per second of a large float32 product."""
        return self._measured(("product", n_threads), self._product, n_threads)

    def copy_rate(self, n_threads, n_bytes=LARGE):
        """Return the bytes per second, read and written, of a copy of ``n_bytes``."""
        n_bytes = min(LARGE, 2 ** int(np.ceil(np.log2(n_bytes))))
        return self._measured(
            ("copy", n_bytes, n_threads), self._copy, n_threads, n_bytes
        )

    def floors(self, work, n_readouts, n_threads):
        """Return bounds in seconds per step of a readout: products, bytes, cached."""
        return np.array(
            [
                work.flops / self.product_rate(n_threads),
                work.moved / self.copy_rate(n_threads),
                work.moved / self.copy_rate(n_threads, work.held * n_readouts),
            ]
        )

    def describe(self, threads=THREADS):
        """Return a text about the machine, the version of torch, rates and load."""
        lines = [
            f"{_processor()}, {os.cpu_count()} cores; Python "
            f"{platform.python_version()}, torch {torch.__version__}"
        ]
        for n in threads:
            lines.append(
                f"{n} thread{'s' if n > 1 else ''}: product of {EDGE} x {EDGE} "
                f"{self.product_rate(n) / 1e9:.0f} GFLOP/s; copy of "
                f"{LARGE >> 20} MiB {self.copy_rate(n) / 1e9:.1f} GB/s, of 1 MiB "
                f"{self.copy_rate(n, 2**20) / 1e9:.0f} GB/s (read and written)"
            )
        load = os.getloadavg()[0]
        if load > 0.5:
            lines.append(f"load average {load:.1f}: other programs may slow this run")
        return "\n".join(lines)

    def _measured(self, key, measure, n_threads, *arguments):
        if key not in self._rates:
            with threads_of_torch(n_threads):
                self._rates[key] = measure(*arguments)
        return self._rates[key]

    @staticmethod
    def _product():
        a, b = torch.randn(2, EDGE, EDGE)
        out = torch.empty(EDGE, EDGE)
        return 2 * EDGE**3 / best_seconds(lambda: torch.mm(a, b, out=out))

    @staticmethod
    def _copy(n_bytes):
        source, target = torch.randn(2, n_bytes // 4)
        times = max(1, 2**26 // n_bytes)

        def copies():
            for _ in range(times):
                target.copy_(source)

        return 2 * n_bytes * times / best_seconds(copies)


class threads_of_torch:
    """Context manager that sets torch's number of threads."""

    def __init__(self, n_threads):
        self.n_threads = n_threads

    def __enter__(self):
        self.before = torch.get_num_threads()
        torch.set_num_threads(self.n_threads)

    def __exit__(self, *error):
        torch.set_num_threads(self.before)


def best_of_threads(times):
    """Return the number of threads with the lowest median time, and its times."""
    n_threads = min(times, key=lambda n: np.median(times[n]))
    return n_threads, times[n_threads]


def ratios(ours, theirs):
    """Return the ratio of medians, and of the best times in brackets, as text."""
    medians = np.median(theirs) / np.median(ours)
    return f"{medians:.2f} ({theirs.min() / ours.min():.2f})"


def _processor():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = [line for line in text.splitlines() if line.startswith("model name")]
    return names[0].split(":")[1].strip() if names else platform.processor()
