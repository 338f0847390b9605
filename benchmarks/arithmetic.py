"""How much codelengths change with the arithmetic, and how much with the seed.

Networks are fitted on digits with seeds 0 to 9. Then they are fitted with seed 0 and
other instruction sets, with more threads, and with the formula that updates weights on
a GPU. Each fit runs in a separate process. torch offers matrix products of lower
precision on GPUs (``torch.set_float32_matmul_precision``). To emulate them, factors are
rounded to 10 fraction bits (TF32) or 7 (bfloat16), and sums are in float32. All fits
use the same order of the rows, so the seed affects only initial weights and replay.
"""

import os
import subprocess
import sys

import numpy as np

FIT = """
import sys

import numpy as np
import torch
from sklearn.datasets import load_digits

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.nets import adamw

seed, n_threads, n_jobs = map(int, sys.argv[1:4])
if sys.argv[4] != "fused":
    adamw._way_of = lambda device: adamw._Formula
n_bits = int(sys.argv[5])


def rounded(x):  # round to nearest, ties to even
    if x.dtype != torch.float32:
        return x
    unit = 1 << (23 - n_bits)
    bits = x.contiguous().view(torch.int32)
    bits = bits + (unit // 2 - 1) + (bits >> (23 - n_bits) & 1)
    return (bits & -unit).view(torch.float32)


def bmm(a, b, **options):
    return exact_bmm(rounded(a), rounded(b), **options)


def baddbmm(bias, a, b, **options):
    return exact_baddbmm(bias, rounded(a), rounded(b), **options)


exact_bmm, exact_baddbmm = torch.bmm, torch.baddbmm
if n_bits < 23:
    torch.bmm, torch.baddbmm = bmm, baddbmm
torch.set_num_threads(n_threads)
X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
switcher = MDLReadoutSwitcher(
    "nets", pooling=None, race=None, batch_size=32,
    random_state=seed, device="cpu", n_jobs=n_jobs,
)
print(repr(switcher.fit(X[order], y[order]).codelength_))
"""
SEEDS = range(10)
ARITHMETIC = {
    "as it is, again": {},
    "two torch threads": {"n_threads": 2},
    "two jobs": {"n_jobs": 2},
    "AVX2 in torch": {"ATEN_CPU_CAPABILITY": "avx2"},
    "AVX2 in products": {"MKL_CBWR": "AVX2"},
    "AVX2 in both": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"},
    "formula of the GPU": {"update": "formula"},
    "TF32 products": {"n_bits": 10},
    "bfloat16 products": {"n_bits": 7},
    "any processor": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
}


def codelength(seed=0, n_threads=1, n_jobs=1, update="fused", n_bits=23, **environment):
    """Return the codelength of digits in nats, computed in a new process."""
    arguments = [str(seed), str(n_threads), str(n_jobs), update, str(n_bits)]
    done = subprocess.run(
        [sys.executable, "-c", FIT, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


class Arithmetic:
    """Codelength of digits by seed, and by arithmetic at seed 0."""

    params = [[*(f"seed {seed}" for seed in SEEDS), *ARITHMETIC]]
    unit = "nats"
    formats = {"track_codelength": ".4f"}

    def track_codelength(self, case):
        if case in ARITHMETIC:
            return codelength(**ARITHMETIC[case])
        return codelength(int(case.removeprefix("seed ")))

    def report(self, table):
        nats_of = {case: row["track_codelength"][0] for (case,), row in table.items()}
        nats = np.array([nats_of[f"seed {seed}"] for seed in SEEDS])
        print(
            f"seeds {SEEDS.start} to {SEEDS.stop - 1}: mean {nats.mean():.2f} nats, "
            f"standard deviation {nats.std(ddof=1):.2f}, from {nats.min():.2f} to "
            f"{nats.max():.2f}"
        )
        print(f"\nseed 0: {nats[0]:.4f} nats; differences from it, in nats")
        for name in ARITHMETIC:
            print(f"{name:20s}{nats_of[name] - nats[0]:+10.4f}")
