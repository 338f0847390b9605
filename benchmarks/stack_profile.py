"""Where the time of a training step goes, by operator of torch."""

import time

import numpy as np
import torch

from sklearn_mdl import MDLReadoutSwitcher, readout_grid

SHAPES = {  # features, classes, hidden layers, readouts, rows that are timed
    "digits 2x256": (64, 10, (256, 256), 16, 320),
    "wide 1x512": (768, 100, (512,), 16, 96),
}
SHOWN = 6
STREAMS = 10
BATCH = 32


def bench_profile(options):
    """Shares of the operators in a walk on one thread."""
    for name, (n_features, n_classes, hidden, n_readouts, n_rows) in SHAPES.items():
        rng = np.random.default_rng(0)
        n_before = 3 * BATCH
        X = rng.standard_normal((n_before + n_rows, n_features)).astype(np.float32)
        y = rng.integers(n_classes, size=len(X))
        readouts = readout_grid(
            hidden_layer_sizes=[hidden],
            lr=np.geomspace(3e-4, 3e-3, n_readouts).tolist(),
            n_replay_streams=STREAMS,
            ema_step_size=0.03,
        )
        switcher = MDLReadoutSwitcher(readouts, device="cpu", random_state=0)
        classes = np.arange(n_classes)
        switcher.partial_fit(X[:n_before], y[:n_before], classes=classes)
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities) as profile:
            start = time.perf_counter()
            switcher.partial_fit(X[n_before:], y[n_before:])
            seconds = time.perf_counter() - start
        events = profile.key_averages()
        total = sum(event.self_cpu_time_total for event in events)
        steps = n_rows // BATCH * (STREAMS + 1) * n_readouts
        print(
            f"\n{name}: {seconds / steps * 1e3:.3f} ms per step and readout, profiled"
        )
        events = sorted(events, key=lambda event: -event.self_cpu_time_total)
        for event in events[:SHOWN]:
            share = event.self_cpu_time_total / total
            print(f"{event.key:28s}{share:8.3f}{event.count:8d} calls")
