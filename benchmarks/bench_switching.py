"""Switching priors: what they cost in nats, in seconds and in memory.

    python benchmarks/bench_switching.py priors losses
    python benchmarks/bench_switching.py features losses FEATURES_DIR
    python benchmarks/bench_switching.py speed
    python benchmarks/bench_switching.py disk scratch

The first prints the codelength of every prior on digits, wine and breast cancer, each
in the orders ``default_rng(s).permutation(N)`` for s = 0, ..., 4, with a small, the
default and a large board of readouts; the second on every encoder and dataset of a
directory, with the default board. Both walk once and keep the losses in a directory, so
that they print at once when run again. The third times the forward pass beside a plain
loop over numpy and scipy, on one core. The fourth reads 663,552 steps of 4,608 experts,
12 GB of float32, from a file, and watches the anonymous memory of the process.
"""

import argparse
import multiprocessing
import re
import threading
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from sklearn_mdl import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    LearnedShare,
    MDLReadoutSwitcher,
    RunLength,
    SwitchDistribution,
    UniversalShare,
    forward,
    group_weights,
    load_feature_directory,
    load_losses,
    readout_grid,
)

PRIORS = {
    "fixed share, m = 2": FixedShare(2),
    "fixed share, m = 3": FixedShare(3),
    "fixed share, m = 6": FixedShare(6),
    "fixed share, m = 11": FixedShare(11),
    "fixed share, m = 21": FixedShare(21),
    "fixed share, m = 2, others": FixedShare(2, redraw=False),
    "fixed share, summable": FixedShare(alpha="summable"),
    "fixed share, alpha = 0.01": FixedShare(alpha=0.01),
    "switch distribution": SwitchDistribution(),
    "learned share": LearnedShare(),
    "universal share": UniversalShare(),
    "run length": RunLength(),
    "run length, exact": RunLength(n_rates=None),
    "Bayes mixture": BayesMixture(),
    "elementwise mixture": ElementwiseMixture(),
}
SETS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
ORDERS = range(5)
# Linear and one to seven hidden layers, as in the paper's grid for VTAB.
SHAPES = [(64,) * depth for depth in range(8)]
BOARDS = {
    "small": readout_grid(hidden_layer_sizes=SHAPES, lr=1e-3, n_replay_streams=10),
    "default": None,
    "large": readout_grid(
        hidden_layer_sizes=SHAPES,
        n_replay_streams=10,
        lr=[3e-4, 1e-3, 3e-3, 1e-2],
        weight_decay=[0.0, 1e-2, 1.0],
        label_smoothing=[0.01, 0.1],
        ema_step_size=[1e-2, 1e-1, 1.0],
    ),
}


def walked(path, X, y, board, order_seed):
    """Walk, unless the losses are there already."""
    if not path.exists():
        order = np.arange(len(y))
        if order_seed is not None:
            order = np.random.default_rng(order_seed).permutation(len(y))
        switcher = MDLReadoutSwitcher(board, random_state=0).fit(X[order], y[order])
        switcher.save_losses(path)
    return path


def read(path, weights=None):
    """Codelengths of all priors on one file of losses; NaN where a prior refuses."""
    stored = load_losses(path)
    losses = np.array(stored.losses)
    if weights == "architecture":
        weights = group_weights(stored.architectures)
    found = {}
    for name, prior in PRIORS.items():
        try:
            found[name] = forward(prior, losses, weights, max_rows=0).codelength
        except ValueError as error:
            if "max_steps" not in str(error):
                raise
            found[name] = np.nan
    return found


def bench_priors(options):
    """Every prior on three datasets, for three boards."""
    options.losses.mkdir(parents=True, exist_ok=True)
    data = {name: load(return_X_y=True) for name, load in SETS.items()}
    cells = [(b, n, s) for b in BOARDS for n in data for s in ORDERS]
    paths = Parallel(options.n_jobs)(
        delayed(walked)(
            options.losses / f"{n}-{b}-{s}.npy", *data[n], BOARDS[b], order_seed=s
        )
        for b, n, s in cells
    )
    for weights in ("uniform", "architecture"):
        tables = Parallel(options.n_jobs)(
            delayed(read)(path, None if weights == "uniform" else weights)
            for path in paths
        )
        found = dict(zip(cells, tables, strict=True))
        print(f"\n{weights} prior weights: mean nats over {len(ORDERS)} orders")
        _print_boards(found, list(data), options.losses)


def _print_boards(found, names, folder):
    columns = [(b, n) for b in BOARDS for n in names]
    sizes = {b: load_losses(folder / f"wine-{b}-0.npy").losses.shape[1] for b in BOARDS}
    print(" " * 27 + "".join(f"{f'{b}, {sizes[b]}':>14s}" for b, n in columns))
    print(" " * 27 + "".join(f"{n:>14s}" for b, n in columns) + f"{'sum':>10s}")
    for prior in PRIORS:
        means = [np.mean([found[b, n, s][prior] for s in ORDERS]) for b, n in columns]
        row = "".join(f"{mean:14.2f}" for mean in means)
        print(f"{prior:27s}{row}{sum(means):10.1f}")


def bench_features(options):
    """Every prior on every cell of a directory."""
    options.losses.mkdir(parents=True, exist_ok=True)
    cells = {
        f"{dataset}-{encoder}": (np.asarray(X, dtype=np.float32), y)
        for dataset, (features, y) in load_feature_directory(options.features).items()
        for encoder, X in features.items()
    }
    paths = Parallel(options.n_jobs)(
        delayed(walked)(options.losses / f"{name}.npy", X, y, None, order_seed=0)
        for name, (X, y) in cells.items()
    )
    tables = Parallel(options.n_jobs)(delayed(read)(path) for path in paths)
    nats = np.array([list(table.values()) for table in tables])
    sizes = np.array([len(y) for _, y in cells.values()])
    excess = nats - nats[:, [0]]
    print(f"{len(cells)} cells, default board, order 0")
    titles = ("nats/example", "over m = 2", "least", "most", "shortest in")
    print(" " * 27 + "".join(title.rjust(14) for title in titles))
    for j, prior in enumerate(PRIORS):
        shortest = int((nats[:, j] <= np.nanmin(nats, axis=1)).sum())
        values = (
            f"{np.mean(nats[:, j] / sizes):14.4f}{np.mean(excess[:, j]):14.2f}"
            f"{np.min(excess[:, j]):14.2f}{np.max(excess[:, j]):14.2f}{shortest:14d}"
        )
        print(f"{prior:27s}{values}")


BIG = ["fixed share, m = 2", "switch distribution", "learned share", "Bayes mixture"]


def plain_loop(losses, m=2):
    """Fixed share as one writes it down: numpy, and logsumexp from scipy."""
    n_steps, n_experts = losses.shape
    log_w = np.full(n_experts, -np.log(n_experts))
    scores, posterior = log_w, np.empty((n_steps, n_experts))
    for t in range(1, n_steps + 1):
        if t > 1:
            alpha = min(1.0, (m - 1) / t)
            redrawn = np.log(alpha) + logsumexp(scores) + log_w
            scores = np.logaddexp(np.log1p(-alpha) + scores, redrawn)
        posterior[t - 1] = np.exp(scores - logsumexp(scores))
        scores = scores - losses[t - 1]
    return -logsumexp(scores)


def bench_speed(options):
    """Microseconds a step, as ratios to the plain loop, best of three runs."""
    rng = np.random.default_rng(0)
    for n_experts, priors in (
        (32, PRIORS),
        (4608, BIG),
    ):
        losses = rng.gamma(1.0, 1.0, size=(options.steps, n_experts)).astype(np.float32)
        few = losses[: options.steps // 20]
        reference, plain = _seconds(lambda few=few: plain_loop(few))
        ours = forward("fixed-share", few).codelength
        print(
            f"\nK = {n_experts}, N = {options.steps}; plain loop "
            f"{reference / len(few) * 1e6:.1f} us a step over {len(few)} steps; "
            f"the two codelengths differ by {abs(ours - plain):.1e} of {plain:.0f} nats"
        )
        for name in priors:
            prior = PRIORS[name]
            if getattr(prior, "max_steps", None) and name != "run length":
                continue
            seconds, _ = _seconds(
                lambda prior=prior, losses=losses: forward(prior, losses, max_rows=1000)
            )
            step = seconds / options.steps
            print(
                f"{name:27s}{seconds:8.2f} s{step * 1e6:9.1f} us a step"
                f"{reference / len(few) / step:8.1f} times the plain loop's speed"
            )


def _seconds(run, repeats=3):
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - start)
    return best, result


def bench_disk(options):
    """Read losses that are larger than memory should hold."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    path, shape = options.scratch / "losses.npy", (options.steps, 4608)
    if not path.exists():
        rng = np.random.default_rng(0)
        file = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=shape)
        for start in range(0, len(file), 4096):
            rows = file[start : start + 4096]
            rows[:] = rng.standard_exponential(rows.shape, dtype=np.float32)
        file.flush()
        del file
    for name in ("fixed share, m = 2", "switch distribution"):
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            seconds, nats, before, peak = pool.apply(_read_from_disk, (path, name))
        print(
            f"{name:27s}N = {shape[0]}, K = {shape[1]}: {seconds:.1f} s, {nats:.6f} "
            f"nats, peak RssAnon {peak / 1024:.0f} MiB, {before / 1024:.0f} MiB before"
        )


def _read_from_disk(path, name):
    losses = np.load(path, mmap_mode="r")
    architectures = [k // 576 for k in range(losses.shape[1])]
    before, peak, done = _anonymous(), [0], threading.Event()

    def watch():
        while not done.wait(0.05):
            peak[0] = max(peak[0], _anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.perf_counter()
    trace = forward(PRIORS[name], losses, groups=architectures, max_rows=1000)
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    return seconds, trace.codelength, before, peak[0]


def _anonymous():
    """Resident anonymous memory of this process, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1])


def main():
    """Choose a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = parser.add_subparsers(required=True)
    priors = tables.add_parser("priors")
    priors.set_defaults(run=bench_priors)
    features = tables.add_parser("features")
    features.set_defaults(run=bench_features)
    for table in (priors, features):
        table.add_argument("losses", type=Path, help="directory for losses")
        table.add_argument("--n-jobs", type=int, default=None)
    features.add_argument("features", type=Path)
    speed = tables.add_parser("speed")
    speed.set_defaults(run=bench_speed)
    speed.add_argument("--steps", type=int, default=100_000)
    disk = tables.add_parser("disk")
    disk.set_defaults(run=bench_disk)
    disk.add_argument("scratch", type=Path, help="directory for the 12 GB file")
    disk.add_argument("--steps", type=int, default=663_552)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
