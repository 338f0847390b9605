"""Speed of stacks of readouts, relative to plain loops and to lower bounds.

``digits`` trains 48 readouts on digits (linear, one and two hidden layers of 256; four
learning rates by four weight decays; averaged weights; 10 replay streams) with one
``MDLReadoutSwitcher.fit``. It then trains the same nets one after the other, as skorch
nets and with preqtorch 0.2.0 (``pip install --no-deps preqtorch==0.2.0``; omitted if it
is not installed). These loops only train on the first ``--share`` of the rows, and
their times are scaled up by the number of minibatches. ``wide`` times the training
steps of 16 readouts with 768 features, 100 classes and hidden layers of 512, and of 16
plain torch loops. ``scaling`` shows how time grows with readouts and rows, and
``memory`` how memory grows with readouts. ``search`` compares a default fit with a grid
search over scikit-learn's perceptrons. ``cache`` times fits for several maximum sizes
of a stack. ``profile`` shows which operations take the time of a step.

Contenders take turns on the CPU. Loops run with one and with two threads, and the
faster time counts. Tables show the ratio of median times and, in brackets, the ratio of
the best times. The lower bounds are in ``_floors.py``, the baselines in ``_loops.py``.
"""

import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from benchmarks import _loops
from benchmarks._data import permuted
from benchmarks._floors import (
    THREADS,
    Machine,
    Work,
    best_of_threads,
    ratios,
    threads_of_torch,
)
from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.numerics import flushed_denormals, last_level_cache
from sklearn_mdl.readouts import _build, build_learners

LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2)
WEIGHT_DECAYS = (0.0, 1e-2, 1e-1, 1.0)
SETTINGS = [_loops.Setting(*pair) for pair in product(LEARNING_RATES, WEIGHT_DECAYS)]
STREAMS = 10
BATCH = 32
SEED = int(check_random_state(0).randint(2**31 - 1))  # seed drawn by random_state=0
STEP_SIZE = 0.03
DIGITS = {"linear": (), "mlp 1x256": (256,), "mlp 2x256": (256, 256)}
WIDE = {"linear": (), **{f"mlp {n}x512": (512,) * n for n in (1, 2, 3)}}
ALL = "all 48"
TARGETS = {"skorch": 20.0, "preqtorch": 10.0}
WIDE_TARGETS = {"linear": 4.0}  # 1.5 with hidden layers


def readouts_of(hidden, settings, step_size):
    """Return readouts that match the loops, without calibration and scaling."""
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


def similar_readouts(n_readouts, hidden, step_size):
    """Return readouts of one shape with different learning rates."""
    return readout_grid(
        hidden_layer_sizes=[hidden],
        lr=np.geomspace(3e-4, 3e-3, n_readouts).tolist(),
        n_replay_streams=STREAMS,
        ema_step_size=step_size,
    )


def digits():
    """Return digits scaled to [0, 1], in one order."""
    X, y = permuted(*load_digits(return_X_y=True), 0)
    return (X / 16).astype(np.float32), y


def new_switcher(readouts=None, n_jobs=1):
    """Return a switcher on the CPU."""
    return MDLReadoutSwitcher(
        readouts, batch_size=BATCH, device="cpu", n_jobs=n_jobs, random_state=0
    )


def print_floors(machine, rows):
    """Print times and bounds of rows (name, work, seconds per step, threads)."""
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


class Digits:
    """Seconds of 48 trainings on digits, in stacks and in loops."""

    options = {
        "--share": {"type": float, "default": 0.25, "help": "share of rows for loops"}
    }
    params = [[*DIGITS, ALL], ["ours", "skorch", "preqtorch"], list(THREADS)]
    param_names = ["readouts", "contender", "threads"]
    repeat = 5
    unit = f"{len(SETTINGS)} settings each; seconds for all rows, median of the rounds"
    formats = {"track_seconds": ".2f"}

    def has(self, readouts, contender, n_threads):
        if contender == "ours":
            return n_threads == 1 or readouts == ALL
        return readouts != ALL and (contender == "skorch" or _loops.preqtorch)

    def prepare(self):
        self.machine = Machine()
        print(self.machine.describe(THREADS), flush=True)
        if _loops.preqtorch is None:
            print(_loops.WITHOUT_PREQTORCH)
        self.X, self.y = digits()
        self.whole = len(self.y) // BATCH
        self.prefix = max(2, round(self.share * self.whole))
        rows = slice(self.prefix * BATCH)
        self.stream = _loops.Stream(self.X[rows], self.y[rows], SEED, STREAMS, BATCH)
        self.ours, self.loops = {}, {}

    def setup(self, readouts, contender, n_threads):
        if contender != "ours":
            train = getattr(_loops, f"train_{contender}")
            sizes = (64, *DIGITS[readouts], 10)
            loop = _loops.Separate(train, sizes, SETTINGS, self.stream, STEP_SIZE)
            self.loops[readouts, contender, n_threads] = loop
            self.run = partial(loop.run, n_threads)
            return
        shapes = DIGITS.values() if readouts == ALL else [DIGITS[readouts]]
        members = [
            readout
            for hidden in shapes
            for readout in readouts_of(hidden, SETTINGS, STEP_SIZE)
        ]
        self.run = partial(self._fit, readouts, members, n_threads)

    def _fit(self, name, members, n_jobs):
        start = time.perf_counter()
        switcher = new_switcher(members, n_jobs).fit(self.X, self.y)
        seconds = time.perf_counter() - start
        self.ours[name] = switcher.readout_losses_
        return seconds

    def track_seconds(self, readouts, contender, n_threads):
        scale = 1 if contender == "ours" else self.whole / self.prefix
        return self.run() * scale

    def report(self, table):
        seconds = {row: np.array(v["track_seconds"]) for row, v in table.items()}
        names = list(dict.fromkeys(who for _, who, _ in seconds if who != "ours"))
        for name, n in product(names, THREADS):
            each = [seconds[shape, name, n] for shape in DIGITS]
            seconds[ALL, name, n] = np.sum(each, axis=0)
        print(f"loops: {self.prefix} of {self.whole} minibatches, scaled up")
        columns = "".join(f"{name:>12s}{'threads':>9s}{'ratio':>16s}" for name in names)
        print(f"{'':16s}{'ours':>10s}{columns}")
        for shape, who, n_jobs in seconds:
            if who == "ours":
                self._print_ratios(seconds, shape, n_jobs, names)
        print("targets: " + ", ".join(f"{TARGETS[n]:.0f} times {n}" for n in names))
        self._print_checks(names)
        steps = self.whole * (1 + STREAMS) * len(SETTINGS)
        works = {
            name: Work((64, *hidden, 10), BATCH, averaged=True)
            for name, hidden in DIGITS.items()
        }
        print_floors(
            self.machine,
            [
                (name, work, np.median(seconds[name, "ours", 1]) / steps, 1)
                for name, work in works.items()
            ],
        )
        least = steps * sum(
            self.machine.floors(work, len(SETTINGS), 1)[0] for work in works.values()
        )
        print(f"all rows, the products alone, on one thread: {least:.2f} s")

    def _print_ratios(self, seconds, shape, n_jobs, names):
        ours = seconds[shape, "ours", n_jobs]
        title = shape if n_jobs == 1 else f"{shape}, {n_jobs} jobs"
        line = f"{title:16s}{np.median(ours):10.2f}"
        for name in names:
            n, theirs = best_of_threads({n: seconds[shape, name, n] for n in THREADS})
            line += f"{np.median(theirs):12.2f}{n:9d}{ratios(ours, theirs):>16s}"
        print(line)

    def _print_checks(self, names):
        """Print how well contenders agree, and whether times can be scaled up."""
        n_rows = self.stream.n_minibatches * BATCH
        ours = np.stack([self.ours[shape][:n_rows] for shape in DIGITS])
        print(f"\nnats per example of the first {n_rows} rows, mean over all readouts:")
        print(f"{'ours':12s}{ours.mean():10.5f}")
        for name in names:
            loops = [self.loops[shape, name, THREADS[-1]] for shape in DIGITS]
            losses = np.stack([loop.losses for loop in loops])
            line = f"{name:12s}{losses.mean():10.5f}"
            if name == "skorch":
                gap = np.abs(losses - ours).mean()
                line += f", readout by readout {gap:.1e} apart"
            drift = np.median([loop.drift for loop in loops])
            print(
                f"{line}; {self.stream.n_steps} steps per net; second half of the "
                f"minibatches in {drift:.3f} of the first half's time"
            )


class Wide:
    """Milliseconds per step of 16 readouts of each shape, in stacks and in loops."""

    options = {
        "--minibatches": {"type": int, "default": 2},
        "--label-smoothing": {
            "type": float,
            "default": 0.03,
            "help": "at 0, denormal numbers slow stacks and loops (default: 0.03)",
        },
    }
    params = [list(WIDE), ["ours", "loops"], list(THREADS)]
    param_names = ["readouts", "contender", "threads"]
    repeat = 7
    unit = "ms per step and readout, median of the rounds"
    formats = {"track_ms": ".4f"}

    def prepare(self, n_features=768, n_classes=100):
        self.machine = Machine()
        print(self.machine.describe(THREADS), flush=True)
        rng = np.random.default_rng(0)
        y = rng.integers(n_classes, size=self.minibatches * BATCH)
        centres = rng.standard_normal((n_classes, n_features))
        X = (centres[y] + 2 * rng.standard_normal((len(y), n_features))).astype("f4")
        self.stream = _loops.Stream(X, y, SEED, STREAMS, BATCH)
        self.settings = [
            replace(setting, label_smoothing=self.label_smoothing)
            for setting in SETTINGS
        ]
        self.sizes = {
            name: (n_features, *hidden, n_classes) for name, hidden in WIDE.items()
        }
        self.losses = {}

    def setup(self, name, contender, n_threads):
        sizes = self.sizes[name]
        if contender == "ours":
            self.make = partial(
                build_learners,
                readouts_of(sizes[1:-1], self.settings, 1.0),
                sizes[0],
                sizes[-1],
                seed=SEED,
                device=torch.device("cpu"),
                n_jobs=n_threads,
            )
        else:
            self.loop = _loops.Separate(
                _loops.train_plain, sizes, self.settings, self.stream, 1.0
            )

    def track_ms(self, name, contender, n_threads):
        if contender == "ours":
            seconds, losses = self._run_stacks(n_threads)
        else:
            seconds = self.loop.run(n_threads)
            losses = self.loop.losses
        self.losses[name, contender] = losses
        return 1e3 * seconds / (self.stream.n_steps * len(SETTINGS))

    def _run_stacks(self, n_jobs):
        """Train stacks in threads, each with one torch thread, as a switcher does."""
        with threads_of_torch(1):
            stacks = self.make()
            parallel = Parallel(n_jobs=n_jobs, require="sharedmem")
            start = time.perf_counter()
            parts = parallel(delayed(self._train)(stack) for stack in stacks)
            seconds = time.perf_counter() - start
        losses = np.empty((len(parts[0]), len(SETTINGS)))
        for stack, own in zip(stacks, parts, strict=True):
            losses[:, stack.columns] = own
        return seconds, losses

    def _train(self, stack):
        losses = []
        with flushed_denormals():
            for (x, y), replayed in self.stream:
                log_proba = stack.predict(x[None])
                losses.append(-log_proba[:, torch.arange(len(y)), y].T)
                stack.update(x[None], y, ((x_[None], y_) for x_, y_ in replayed))
        return torch.cat(losses).numpy()

    def report(self, table):
        print(f"apart: difference in nats per example after {1 + STREAMS} steps")
        titles = "".join(f"{t:>10s}{'threads':>9s}" for t in ("ours", "loops"))
        print(f"{'':16s}{titles}{'ratio':>16s}{'target':>8s}{'apart':>10s}")
        rows = []
        for name in WIDE:
            (n, ours), (m, theirs) = (
                best_of_threads(
                    {n: np.array(table[name, who, n]["track_ms"]) for n in THREADS}
                )
                for who in ("ours", "loops")
            )
            second = slice(BATCH, 2 * BATCH)
            gap = np.subtract(
                *(self.losses[name, who][second] for who in ("ours", "loops"))
            )
            print(
                f"{name:16s}{np.median(ours):10.4f}{n:9d}{np.median(theirs):10.4f}"
                f"{m:9d}{ratios(ours, theirs):>16s}{WIDE_TARGETS.get(name, 1.5):8.1f}"
                f"{np.abs(gap).mean():10.1e}"
            )
            work = Work(self.sizes[name], BATCH)
            rows.append((name, work, np.median(ours) / 1e3, n))
        print_floors(self.machine, rows)


GROWING = {"linear": (), "mlp 1x256": (256,)}
N_READOUTS = (1, 2, 4, 8, 16, 32, 64)
N_ROWS = tuple(2**n for n in range(8, 15))


class Scaling:
    """Growth of time with readouts (512 rows) and with rows (8 readouts)."""

    options = {"--plot": {"type": Path, "help": "PNG to write, including memory"}}
    params = [list(GROWING), sorted({8, *N_READOUTS}), sorted({512, *N_ROWS})]
    param_names = ["readouts", "K", "N"]
    repeat = 3
    unit = "seconds of a fit on one thread, median of the rounds"
    formats = {"time_fit": ".3f"}

    def has(self, name, n_readouts, n_rows):
        return n_rows == 512 or n_readouts == 8

    def prepare(self):
        self.machine = Machine()
        print(self.machine.describe((1,)), flush=True)

    def setup(self, name, n_readouts, n_rows):
        rng = np.random.default_rng(0)
        X, y = load_digits(return_X_y=True)
        rows = rng.integers(len(y), size=n_rows)  # drawn with replacement
        self.X = X[rows] + rng.standard_normal((n_rows, X.shape[1]))
        self.y = y[rows]
        self.readouts = similar_readouts(n_readouts, GROWING[name], 1.0)

    def time_fit(self, name, n_readouts, n_rows):
        new_switcher(self.readouts).fit(self.X, self.y)

    def report(self, table):
        seconds = {row: np.median(v["time_fit"]) for row, v in table.items()}
        steps = 512 // BATCH * (1 + STREAMS)
        micros = {
            name: [1e6 * seconds[name, k, 512] / (steps * k) for k in N_READOUTS]
            for name in GROWING
        }
        print(
            "us per step and readout, 512 rows of 64 features, one thread; floor: the "
            "larger of\nproducts and bytes, in a copy as large as the stack"
        )
        print(f"{'K':>8s}" + "".join(f"{s:>14s}{'floor':>10s}" for s in GROWING))
        for j, k in enumerate(N_READOUTS):
            line = f"{k:8d}"
            for name, hidden in GROWING.items():
                products, _, cached = self.machine.floors(Work((64, *hidden, 10)), k, 1)
                line += f"{micros[name][j]:14.1f}{1e6 * max(products, cached):10.1f}"
            print(line)
        by_rows = {name: [seconds[name, 8, n] for n in N_ROWS] for name in GROWING}
        print("\nseconds of a fit, 8 readouts; doubled: ratio to a fit on N / 2 rows")
        print(f"{'N':>8s}" + "".join(f"{s:>14s}{'doubled':>10s}" for s in GROWING))
        for j, n in enumerate(N_ROWS):
            line = f"{n:8d}"
            for times in by_rows.values():
                line += f"{times[j]:14.3f}"
                line += f"{times[j] / times[j - 1]:10.2f}" if j else " " * 10
            print(line)
        if self.plot:
            from benchmarks.__main__ import run

            memory = run(Memory(), {"repeats": 1, "n_jobs": 1})
            draw(self.plot, micros, by_rows, Memory.added(memory))


class Memory:
    """Growth of memory with readouts; K = 0 is a tiny fit that loads the libraries."""

    params = [["weights", "averaged weights"], [0, *N_READOUTS]]
    param_names = ["kept", "K"]
    unit = "peak bytes of a process"
    formats = {"peakmem_fit": ",.0f"}
    sizes = (768, 512, 100)

    def peakmem_fit(self, kept, n_readouts):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((8 * BATCH, self.sizes[0])).astype(np.float32)
        y = rng.permutation(np.arange(len(X)) % self.sizes[-1])
        step_size = STEP_SIZE if kept == "averaged weights" else 1.0
        new_switcher(similar_readouts(1, (8,), step_size)).fit(X, y)
        if n_readouts:
            hidden = self.sizes[1:-1]
            new_switcher(similar_readouts(n_readouts, hidden, step_size)).fit(X, y)

    @staticmethod
    def added(table):
        """Return the MiB that a fit adds, with and without averaged weights."""
        peak = {row: values["peakmem_fit"][0] / 2**20 for row, values in table.items()}
        return {
            kept: [peak[kept, k] - peak[kept, 0] for k in N_READOUTS]
            for kept in Memory.params[0]
        }

    def report(self, table):
        n_parameters = Work(self.sizes).n_parameters
        added = self.added(table)
        print(
            f"MiB that a fit adds at its peak, {self.sizes[0]} features, "
            f"{self.sizes[-1]} classes, one hidden layer of {self.sizes[1]}:\n"
            f"{n_parameters:,d} parameters a readout"
        )
        print(f"{'K':>8s}" + "".join(f"{name:>20s}" for name in added))
        for row in zip(N_READOUTS, *added.values(), strict=True):
            print(f"{row[0]:8d}" + "".join(f"{mib:20.1f}" for mib in row[1:]))
        slopes = [
            np.polyfit(N_READOUTS, mib, 1)[0] * 2**20 / n_parameters
            for mib in added.values()
        ]
        print(f"{'bytes':>8s}" + "".join(f"{s:20.2f}" for s in slopes) + " a parameter")


def draw(path, by_readouts, by_rows, memory):
    """Draw three panels, with curves that differ in colour and marker."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    panels = (
        (N_READOUTS, by_readouts, "readouts K", "time per step and readout (µs)"),
        (N_ROWS, by_rows, "rows N", "time of a fit (s)"),
        (N_READOUTS, memory, "readouts K", "memory added by a fit (MiB)"),
    )
    colours, markers = ("#0072B2", "#D55E00"), ("o", "s")  # of Okabe and Ito
    for ax, (x, curves, xlabel, ylabel) in zip(axes, panels, strict=True):
        for i, (name, values) in enumerate(curves.items()):
            ax.plot(x, values, color=colours[i], marker=markers[i], label=name)
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
        ax.set_xticks(x, [str(value) for value in x], minor=False)
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    n = np.array(N_ROWS)
    middle = by_rows["linear"][len(n) // 2] * n / n[len(n) // 2]
    axes[1].plot(n, middle, color="#8C8C8C", linestyle=":", label="proportional to N")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=150)
    print(f"\n{path}")


GRID = {
    "hidden_layer_sizes": [(100,), (256,)],
    "alpha": [1e-4, 1e-2],
    "learning_rate_init": [1e-3, 3e-3],
}


class Search:
    """A default fit, and a grid search over scikit-learn's perceptrons."""

    params = [["default fit", "grid search"]]
    repeat = 3
    unit = "seconds, median of the rounds"
    formats = {"time_fit": ".1f"}

    def prepare(self):
        print(Machine().describe(THREADS), flush=True)
        warnings.simplefilter("ignore", ConvergenceWarning)  # only 200 epochs
        self.X, self.y = digits()
        self.perceptron = MLPClassifier(max_iter=200, random_state=0)
        times = {n: self._seconds(n) for n in THREADS}
        self.n_threads = min(times, key=times.get)
        self.fitted = {}

    def _seconds(self, n_threads):
        with threadpool_limits(n_threads):
            start = time.perf_counter()
            self.perceptron.fit(self.X, self.y)
            return time.perf_counter() - start

    def time_fit(self, contender):
        if contender == "default fit":
            self.fitted[contender] = new_switcher().fit(self.X, self.y)
            return
        with threadpool_limits(self.n_threads):
            search = GridSearchCV(self.perceptron, GRID, cv=5, n_jobs=1)
            self.fitted[contender] = search.fit(self.X, self.y)

    def report(self, table):
        switcher, search = (
            self.fitted[name] for name in ("default fit", "grid search")
        )
        ours, theirs = (np.array(table[name,]["time_fit"]) for name in self.fitted)
        print(
            f"default fit of {len(switcher.readouts_)} readouts, one thread: "
            f"{switcher.codelength_:.1f} nats, "
            f"{switcher.codelength_ / len(self.y):.4f} an example"
        )
        print(
            f"grid search over {len(search.cv_results_['params'])} settings, 5 folds, "
            f"BLAS with {self.n_threads} thread(s): accuracy {search.best_score_:.4f}"
        )
        print(f"ratio {ratios(ours, theirs).strip()}")


# Features, classes, hidden layers, readouts, rows.
CACHED = {
    "digits 1x256": (64, 10, (256,), 48, 448),
    "digits 2x256": (64, 10, (256, 256), 48, 224),
    "wide 1x512": (768, 100, (512,), 16, 96),
}
PROFILED = {
    "digits 2x256": (64, 10, (256, 256), 16, 416),
    "wide 1x512": (768, 100, (512,), 16, 192),
}
LIMITS = (2, 4, 8, 16, 32, 64, 128)  # MB of state
RULE = f"{_build.CACHE / 1e6:.0f} (rule)"


def noise(n_features, n_classes, hidden, n_readouts, n_rows):
    """Return readouts of a shape, and random rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    y = rng.integers(n_classes, size=n_rows)
    return similar_readouts(n_readouts, hidden, STEP_SIZE), X, y


class Cache:
    """Seconds of a fit, by the maximum size of a stack."""

    params = [list(CACHED), list(THREADS), [*LIMITS, RULE]]
    param_names = ["readouts", "jobs", "MB"]
    repeat = 3
    unit = "seconds of a fit, median of the rounds"
    formats = {"time_fit": ".3f"}

    def prepare(self):
        print(Machine().describe(THREADS), flush=True)
        print(
            f"largest cache of a core: {last_level_cache()} bytes; limit {_build.CACHE}"
        )

    def setup(self, name, n_jobs, limit):
        self.readouts, self.X, self.y = noise(*CACHED[name])
        self.classes = np.arange(CACHED[name][1])
        self.limit = int(1e6 * limit) if limit in LIMITS else _build.CACHE

    def time_fit(self, name, n_jobs, limit):
        switcher = new_switcher(self.readouts, n_jobs)
        with mock.patch.object(_build, "CACHE", self.limit):
            switcher.partial_fit(self.X, self.y, classes=self.classes)


class Profile:
    """Time of a training step for each torch operator, on one thread."""

    options = {"--shown": {"type": int, "default": 6, "help": "operators to show"}}
    params = [list(PROFILED)]
    param_names = ["readouts"]
    unit = "ms per step and readout, profiled"
    formats = {"track_ms": ".3f"}

    def prepare(self):
        self.events = {}

    def setup(self, name):
        readouts, self.X, self.y = noise(*PROFILED[name])
        self.switcher = new_switcher(readouts)
        classes, rows = np.arange(PROFILED[name][1]), slice(3 * BATCH)
        self.switcher.partial_fit(self.X[rows], self.y[rows], classes=classes)

    def track_ms(self, name):
        X, y = self.X[3 * BATCH :], self.y[3 * BATCH :]
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities) as profile:
            start = time.perf_counter()
            self.switcher.partial_fit(X, y)
            seconds = time.perf_counter() - start
        self.events[name] = profile.key_averages()
        n_readouts = PROFILED[name][3]
        return seconds / (len(y) // BATCH * (STREAMS + 1) * n_readouts) * 1e3

    def report(self, table):
        for name, events in self.events.items():
            print(f"\n{name}: shares of time")
            total = sum(event.self_cpu_time_total for event in events)
            events = sorted(events, key=lambda event: -event.self_cpu_time_total)
            for event in events[: self.shown]:
                share = event.self_cpu_time_total / total
                print(f"{event.key:28s}{share:8.3f}{event.count:8d} calls")
