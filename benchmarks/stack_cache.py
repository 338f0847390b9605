"""How large a stack may grow before it falls out of the cache."""

import time
from functools import partial
from unittest import mock

import numpy as np
from floors import THREADS, Machine, alternate

from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl.arithmetic import last_level_cache
from sklearn_mdl.readouts import plan

LIMITS = (2e6, 4e6, 8e6, 16e6, 32e6, 64e6, 128e6)  # bytes of state
SHAPES = {  # features, classes, hidden layers, readouts, rows
    "digits 1x256": (64, 10, (256,), 48, 448),
    "digits 2x256": (64, 10, (256, 256), 48, 224),
    "wide 1x512": (768, 100, (512,), 16, 96),
}


def bench_cache(options):
    """Time by the largest state of a stack."""
    print(Machine().describe(THREADS), flush=True)
    print(f"largest cache of a core: {last_level_cache()} bytes; limit {plan.CACHE}")
    print(
        f"\nseconds of a fit by the bytes that a stack holds at most, median of "
        f"{options.repeats} rounds"
    )
    titles = "".join(f"{limit / 1e6:8.0f}MB" for limit in (*LIMITS, plan.CACHE))
    print(f"{'':24s}{titles}")
    for (name, shape), n_jobs in ((s, n) for s in SHAPES.items() for n in THREADS):
        fit = _fit(*shape, n_jobs)
        runs = {limit: partial(fit, limit) for limit in (*LIMITS, plan.CACHE)}
        seconds = alternate(runs, options.repeats)
        line = "".join(f"{np.median(times):10.3f}" for times in seconds.values())
        print(f"{name + f', {n_jobs} jobs':24s}{line}", flush=True)


def _fit(n_features, n_classes, hidden, n_readouts, n_rows, n_jobs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    y = rng.integers(n_classes, size=n_rows)
    readouts = readout_grid(
        hidden_layer_sizes=[hidden],
        lr=np.geomspace(3e-4, 3e-3, n_readouts).tolist(),
        n_replay_streams=10,
        ema_step_size=0.03,
    )

    def fit(limit):
        switcher = MDLReadoutSwitcher(
            readouts, device="cpu", n_jobs=n_jobs, random_state=0
        )
        with mock.patch.object(plan, "CACHE", int(limit)):
            start = time.perf_counter()
            switcher.partial_fit(X, y, classes=np.arange(n_classes))
            return np.array([time.perf_counter() - start])

    return fit
