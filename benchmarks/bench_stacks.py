"""Speed of stacks of readouts: ratios to what one writes without them, and floors.

    python benchmarks/bench_stacks.py digits
    python benchmarks/bench_stacks.py wide
    python benchmarks/bench_stacks.py scaling --plot scaling.png
    python benchmarks/bench_stacks.py search
    python benchmarks/bench_stacks.py cache
    python benchmarks/bench_stacks.py profile

The first trains 48 readouts on digits (linear, one and two hidden layers of 256; four
learning rates by four weight decays; averaged weights; 10 replay streams) with one
``MDLReadoutSwitcher.fit``, and beside it the same nets one after the other, as skorch
nets and with preqtorch 0.2.0 (``pip install --no-deps preqtorch==0.2.0``; left out
where it is missing). Those walk a prefix of the rows, ``--share`` of them, and their
times are scaled up by the number of minibatches. The second steps 16 readouts of 768
features, 100 classes and hidden layers of 512 beside 16 plain loops in torch. The third
shows how time grows with readouts and rows, and memory with readouts. The fourth times
a default fit beside a grid search over perceptrons of scikit-learn, the fifth fits by
the size to which stacks are cut, and the last says where the time of a step goes.

Contenders take turns, round after round, on the CPU; of one and two threads the better
counts. Ratios are those of the median times, and in brackets of the best. What the
floors count is said in ``floors.py``, what the baselines do in ``baseline_loops.py``.
Nothing else should run on the machine meanwhile.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path

import numpy as np
import torch
from baseline_loops import (
    WITHOUT_PREQTORCH,
    Separate,
    Setting,
    Stream,
    plain_walk,
    preqtorch,
    preqtorch_walk,
    skorch_walk,
)
from floors import THREADS, Machine, Work, alternate, best_of_threads, ratios
from joblib import Parallel, delayed
from sklearn.utils import check_random_state
from stack_cache import bench_cache
from stack_growth import bench_scaling
from stack_profile import bench_profile
from stack_search import bench_search, digits

from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl.arithmetic import flushed_denormals
from sklearn_mdl.readouts import stack_readouts

LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2)
WEIGHT_DECAYS = (0.0, 1e-2, 1e-1, 1.0)
SETTINGS = [Setting(*pair) for pair in product(LEARNING_RATES, WEIGHT_DECAYS)]
STREAMS = 10
BATCH = 32
SEED = int(check_random_state(0).randint(2**31 - 1))  # what random_state=0 comes to
STEP_SIZE = 0.03
DIGITS = {"linear": (), "mlp 1x256": (256,), "mlp 2x256": (256, 256)}
WIDE = {"linear": (), **{f"mlp {n}x512": (512,) * n for n in (1, 2, 3)}}
ALL = "all 48"
TARGETS = {"skorch": 20.0, "preqtorch": 10.0}
WIDE_TARGETS = {"linear": 4.0}  # 1.5 with hidden layers


def board(hidden, settings, step_size):
    """Readouts that do what the loops do: no calibration and no scaling."""
    return [
        readout
        for setting in settings
        for readout in readout_grid(
            hidden_layer_sizes=[hidden],
            lr=setting.lr,
            weight_decay=setting.weight_decay,
            n_replay_streams=STREAMS,
            ema_step_size=step_size,
            ema_warmup=False,
            label_smoothing=setting.label_smoothing,
            calibration=False,
            scaling=None,
        )
    ]


class Fits:
    """Fits of boards, one after the other: a contender."""

    def __init__(self, boards, X, y):
        self.boards = boards
        self.X, self.y = X, y

    def run(self, n_jobs):
        seconds, losses = [], []
        for readouts in self.boards:
            start = time.perf_counter()
            switcher = MDLReadoutSwitcher(
                readouts,
                batch_size=BATCH,
                device="cpu",
                n_jobs=n_jobs,
                random_state=0,
            ).fit(self.X, self.y)
            seconds.append(time.perf_counter() - start)
            losses.append(switcher.readout_losses_)
        self.losses = losses
        return np.array(seconds)


def bench_digits(options):
    """48 trainings on digits."""
    X, y = digits()
    machine = Machine()
    print(machine.describe(THREADS), flush=True)
    whole = len(y) // BATCH
    prefix = max(2, round(options.share * whole))
    stream = Stream(X[: prefix * BATCH], y[: prefix * BATCH], SEED, STREAMS, BATCH)
    shapes = [(64, *hidden, 10) for hidden in DIGITS.values()]
    walks = {"skorch": skorch_walk}
    if preqtorch is None:
        print(WITHOUT_PREQTORCH)
    else:
        walks["preqtorch"] = preqtorch_walk
    loops = {
        name: Separate(walk, shapes, SETTINGS, stream, STEP_SIZE)
        for name, walk in walks.items()
    }
    boards = [board(hidden, SETTINGS, STEP_SIZE) for hidden in DIGITS.values()]
    fits, one_fit = Fits(boards, X, y), Fits([list(chain(*boards))], X, y)
    contenders = {("one fit", n): partial(one_fit.run, n) for n in THREADS}
    contenders["fits", 1] = partial(fits.run, 1)
    for n, (name, loop) in product(THREADS, loops.items()):
        contenders[name, n] = partial(loop.run, n)
    seconds = alternate(contenders, options.repeats)
    for (name, _), times in seconds.items():
        if name in loops:
            times *= whole / prefix
    _print_digits(seconds, list(loops), f"{prefix} of {whole}")
    _print_checks(fits, loops, stream)
    steps = whole * (1 + STREAMS) * len(SETTINGS)
    works = [Work(sizes, BATCH, averaged=True) for sizes in shapes]
    rows = zip(DIGITS, works, np.median(seconds["fits", 1], 0) / steps, strict=True)
    print_floors(machine, [(*row, 1) for row in rows])
    least = steps * sum(machine.floors(work, len(SETTINGS), 1)[0] for work in works)
    print(f"all rows, the products alone, on one thread: {least:.2f} s")


def _print_digits(seconds, names, prefix):
    ours = np.concatenate([seconds["fits", 1], seconds["one fit", 1]], axis=1)
    loops = {
        (name, n): np.column_stack([seconds[name, n], seconds[name, n].sum(1)])
        for name, n in product(names, THREADS)
    }
    print(
        f"\n{len(SETTINGS)} settings each; seconds for all rows, median of "
        f"{len(ours)} rounds; ours: n_jobs=1; loops: {prefix} minibatches, scaled up"
    )
    columns = "".join(f"{name:>12s}{'threads':>9s}{'ratio':>16s}" for name in names)
    print(f"{'':16s}{'ours':>10s}{columns}")
    rows = {title: ours[:, i] for i, title in enumerate((*DIGITS, ALL))}
    rows.update({f"{ALL}, {n} jobs": seconds["one fit", n][:, 0] for n in THREADS[1:]})
    for i, (title, times) in enumerate(rows.items()):
        line = f"{title:16s}{np.median(times):10.2f}"
        for name in names:
            theirs = {n: loops[name, n][:, min(i, len(DIGITS))] for n in THREADS}
            n, theirs = best_of_threads(theirs)
            line += f"{np.median(theirs):12.2f}{n:9d}{ratios(times, theirs):>16s}"
        print(line)
    print("targets: " + ", ".join(f"{TARGETS[n]:.0f} times {n}" for n in names))


def _print_checks(fits, loops, stream):
    """Whether all did the same, and whether a prefix may be scaled up."""
    n_rows = stream.n_minibatches * BATCH
    ours = np.stack([losses[:n_rows] for losses in fits.losses], axis=1)
    print(f"\nnats per example of the first {n_rows} rows, mean over all readouts:")
    print(f"{'ours':12s}{ours.mean():10.5f}")
    for name, loop in loops.items():
        line = f"{name:12s}{loop.losses.mean():10.5f}"
        if name == "skorch":
            gap = np.abs(loop.losses - ours)
            line += f", readout by readout {gap.mean():.1e} apart"
        print(
            f"{line}; {stream.n_steps} steps a net; second half of the minibatches "
            f"in {np.median(loop.drift):.3f} of the first half's time"
        )


def print_floors(machine, rows):
    """One row for each shape: name, work, seconds of a step of a readout, threads."""
    print(
        "\nms per step and readout, and floors: products; bytes, copied in memory, and "
        "in a copy\nas large as the stack; share: the larger floor over ours, with "
        "either rate (target 0.5)"
    )
    titles = ("ours", "products", "bytes", "cached", "share", "cached")
    print(f"{'':16s}{'parameters':>12s}" + "".join(f"{title:>10s}" for title in titles))
    for name, work, seconds, n_threads in rows:
        arithmetic, large, cached = machine.floors(work, len(SETTINGS), n_threads)
        values = np.array([seconds, arithmetic, large, cached]) * 1e3
        shares = [max(arithmetic, floor) / seconds for floor in (large, cached)]
        print(
            f"{name:16s}{work.n_parameters:12,d}"
            + "".join(f"{value:10.4f}" for value in values)
            + "".join(f"{share:10.2f}" for share in shares),
            flush=True,
        )


class Steps:
    """Stacks of readouts, walked one after the other or, as jobs, side by side.

    Jobs are what ``n_jobs`` gives a switcher: threads, each with one torch thread.
    """

    def __init__(self, sizes, settings, stream):
        self.make = partial(
            stack_readouts,
            board(sizes[1:-1], settings, 1.0),
            sizes[0],
            sizes[-1],
            seed=SEED,
            device=torch.device("cpu"),
        )
        self.stream = stream

    def run(self, n_jobs):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        stacks = self.make(n_jobs=n_jobs)
        parallel = Parallel(n_jobs=n_jobs, require="sharedmem")
        start = time.perf_counter()
        found = parallel(delayed(self.walk)(stack) for stack in stacks)
        seconds = time.perf_counter() - start
        torch.set_num_threads(before)
        self.losses = np.empty((len(found[0]), len(SETTINGS)))
        for stack, losses in zip(stacks, found, strict=True):
            self.losses[:, stack.columns] = losses
        return np.array([seconds])

    def walk(self, stack):
        losses = []
        with flushed_denormals():
            for (x, y), replayed in self.stream:
                log_proba = stack.log_proba(x[None])
                losses.append(-log_proba[:, torch.arange(len(y)), y].T)
                stack.update(x[None], y, ((x_[None], y_) for x_, y_ in replayed))
        return torch.cat(losses).numpy()


def clusters(n_rows, n_features=768, n_classes=100):
    """Rows around the centres of classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_rows)
    centres = rng.standard_normal((n_classes, n_features))
    rows = centres[y] + 2 * rng.standard_normal((n_rows, n_features))
    return rows.astype(np.float32), y


def bench_wide(options):
    """16 readouts a shape, 768 features, 100 classes, beside 16 plain loops."""
    machine = Machine()
    print(machine.describe(THREADS), flush=True)
    X, y = clusters(options.minibatches * BATCH)
    stream = Stream(X, y, SEED, STREAMS, BATCH)
    settings = [
        replace(setting, label_smoothing=options.label_smoothing)
        for setting in SETTINGS
    ]
    print(
        f"\nms per step and readout, median of {options.repeats} rounds of "
        f"{stream.n_steps} steps of {len(settings)} readouts;\napart: difference in "
        f"nats per example after {1 + STREAMS} steps"
    )
    titles = "".join(f"{t:>10s}{'threads':>9s}" for t in ("ours", "loops"))
    print(f"{'':16s}{titles}{'ratio':>16s}{'target':>8s}{'apart':>10s}")
    rows = []
    for name, hidden in WIDE.items():
        sizes = (X.shape[1], *hidden, y.max() + 1)
        pair = {
            "ours": Steps(sizes, settings, stream),
            "loops": Separate(plain_walk, [sizes], settings, stream, 1.0),
        }
        n, times = _compare(name, pair, stream, options.repeats)
        rows.append((name, Work(sizes, BATCH), np.median(times), n))
    print_floors(machine, rows)


def _compare(name, pair, stream, repeats):
    """Print a row; return our threads and times."""
    contenders = {
        (who, n): partial(pair[who].run, n) for n, who in product(THREADS, pair)
    }
    seconds = alternate(contenders, repeats)
    steps = stream.n_steps * len(SETTINGS)
    found = {
        who: best_of_threads({n: seconds[who, n][:, 0] / steps for n in THREADS})
        for who in pair
    }
    second = slice(BATCH, 2 * BATCH)
    gap = pair["ours"].losses[second] - pair["loops"].losses[second, 0]
    columns = [f"{np.median(t) * 1e3:10.4f}{n:9d}" for n, t in found.values()]
    print(
        f"{name:16s}{''.join(columns)}"
        f"{ratios(found['ours'][1], found['loops'][1]):>16s}"
        f"{WIDE_TARGETS.get(name, 1.5):8.1f}{np.abs(gap).mean():10.1e}",
        flush=True,
    )
    return found["ours"]


def main():
    """Choose a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = parser.add_subparsers(required=True)
    commands = {
        "digits": (bench_digits, 5),
        "wide": (bench_wide, 7),
        "scaling": (bench_scaling, 3),
        "search": (bench_search, 3),
        "cache": (bench_cache, 3),
        "profile": (bench_profile, 1),
    }
    made = {}
    for name, (run, repeats) in commands.items():
        made[name] = tables.add_parser(name, help=run.__doc__)
        made[name].set_defaults(run=run)
        made[name].add_argument("--repeats", type=int, default=repeats)
    made["digits"].add_argument(
        "--share", type=float, default=0.25, help="of the rows, for the loops"
    )
    made["wide"].add_argument("--minibatches", type=int, default=2)
    made["wide"].add_argument(
        "--label-smoothing",
        type=float,
        default=0.03,
        help="without it probabilities vanish, and denormal numbers slow both sides",
    )
    made["scaling"].add_argument("--plot", type=Path, help="PNG to write")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
