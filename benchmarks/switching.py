"""Switching priors: their cost in nats, seconds and memory.

``priors`` prints the codelength of every prior on digits, wine and breast cancer, with
a small list of readouts, the list "nets" ("default" in the table) and a large list:
means over the orders ``default_rng(s).permutation(N)`` for s = 0, ..., 4. ``features``
uses every encoder and dataset of a folder, with the list "nets" and the order for s =
0. Both save the losses of their fits in a folder, so the next run does not train.
``speed`` times the forward pass and a plain loop in numpy and scipy, on one core.
``disk`` reads 663,552 steps of 4,608 experts, 12 GB of float32, from a file, and tracks
the anonymous memory of the process.
"""

import multiprocessing
import re
import threading
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from benchmarks._data import SWITCHING, feature_cells, permuted
from sklearn_mdl import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    MDLReadoutSwitcher,
    SwitchDistribution,
    forward,
    readout_grid,
)
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import (
    ElementwiseMixture,
    RunLength,
    UniversalShare,
    kind_weights,
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
READOUTS = {
    "small": readout_grid(hidden_layer_sizes=SHAPES, lr=1e-3, n_replay_streams=10),
    "default": "nets",
    "large": readout_grid(
        hidden_layer_sizes=SHAPES,
        n_replay_streams=10,
        lr=[3e-4, 1e-3, 3e-3, 1e-2],
        weight_decay=[0.0, 1e-2, 1.0],
        label_smoothing=[0.01, 0.1],
        ema_step_size=[1e-2, 1e-1, 1.0],
    ),
}
LOSSES = {"type": Path, "help": "folder in which losses are saved"}


def train(path, X, y, readouts, seed):
    """Save the losses of a fit, unless they are already saved."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        switcher = MDLReadoutSwitcher(readouts, **SWITCHING, random_state=0)
        switcher.fit(*permuted(X, y, seed)).save_losses(path)
    return path


def codelength(prior, losses, weights=None):
    """Return a prior's codelength, or NaN if there are more than ``max_steps`` rows."""
    try:
        return forward(PRIORS[prior], losses, weights, max_rows=0).codelength
    except ValueError as error:
        if "max_steps" not in str(error):
            raise
        return np.nan


class Priors:
    """Every prior on three datasets, for three lists of readouts."""

    options = {"losses": LOSSES}
    params = [["uniform", "architecture"], list(READOUTS), list(PRIORS)]
    param_names = ["weights", "readouts", "prior"]
    unit = f"nats, mean over {len(ORDERS)} orders"
    formats = {f"track_{name}": ".2f" for name in (*SETS, "sum")}

    def prepare(self):
        data = {name: load(return_X_y=True) for name, load in SETS.items()}
        cells = [(n, r, s) for r in READOUTS for n in data for s in ORDERS]
        Parallel(self.n_jobs)(
            delayed(train)(self._path(n, r, s), *data[n], READOUTS[r], s)
            for n, r, s in cells
        )

    def _path(self, name, readouts, seed):
        return self.losses / f"{name}-{readouts}-{seed}.npy"

    def setup(self, weights, readouts, prior):
        self.found = {name: self._mean(name, weights, readouts, prior) for name in SETS}

    def _mean(self, name, weights, readouts, prior):
        nats = []
        for seed in ORDERS:
            stored = load_losses(self._path(name, readouts, seed))
            w = kind_weights(stored.architectures) if weights != "uniform" else None
            nats.append(codelength(prior, np.array(stored.losses), w))
        return np.mean(nats)

    def track_digits(self, *row):
        return self.found["digits"]

    def track_wine(self, *row):
        return self.found["wine"]

    def track_cancer(self, *row):
        return self.found["cancer"]

    def track_sum(self, *row):
        return sum(self.found.values())


class Features:
    """Every prior on all cells of a folder, in order 0."""

    options = {
        "losses": LOSSES,
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
    }
    params = [list(PRIORS)]
    param_names = ["prior"]
    unit = 'nats of the list "nets"'
    formats = {
        "track_per_example": ".4f",
        **{f"track_{name}_over_m_2": ".2f" for name in ("mean", "least", "most")},
    }

    def prepare(self):
        cells = feature_cells(self.features)
        paths = Parallel(self.n_jobs)(
            delayed(train)(self.losses / f"{n.replace('/', '-')}.npy", X, y, "nets", 0)
            for n, (X, y) in cells.items()
        )
        self.stored = [np.array(load_losses(path).losses) for path in paths]
        tables = Parallel(self.n_jobs)(
            delayed(codelength)(prior, losses)
            for prior in PRIORS
            for losses in self.stored
        )
        self.nats = np.reshape(tables, (len(PRIORS), -1))

    def setup(self, prior):
        self.own = self.nats[list(PRIORS).index(prior)]
        self.excess = self.own - self.nats[0]

    def track_per_example(self, prior):
        return np.mean(self.own / [len(losses) for losses in self.stored])

    def track_mean_over_m_2(self, prior):
        return self.excess.mean()

    def track_least_over_m_2(self, prior):
        return self.excess.min()

    def track_most_over_m_2(self, prior):
        return self.excess.max()

    def track_shortest_in(self, prior):
        return (self.own <= np.nanmin(self.nats, axis=0)).sum()


BIG = ("fixed share, m = 2", "switch distribution", "learned share", "Bayes mixture")
PLAIN = "plain loop"


def plain_loop(losses, m=2):
    """Compute fixed share by a plain loop with numpy and scipy's logsumexp."""
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


class Speed:
    """Seconds of the forward pass, and of a plain loop over 1/20 of the steps."""

    options = {"--steps": {"type": int, "default": 100_000}}
    params = [[32, 4608], [PLAIN, *PRIORS]]
    param_names = ["K", "prior"]
    repeat = 3
    formats = {"time_forward": ".2f"}
    unit = "seconds, median of all rounds"

    def prepare(self):
        self.inputs = {}  # losses shared by all priors

    def has(self, n_experts, prior):
        if prior == PLAIN:
            return True
        is_long = getattr(PRIORS[prior], "max_steps", None) and prior != "run length"
        return not is_long and (n_experts == 32 or prior in BIG)

    def setup(self, n_experts, prior):
        steps = self.steps // 20 if prior == PLAIN else self.steps
        if n_experts not in self.inputs:
            rng = np.random.default_rng(0)
            shape = (self.steps, n_experts)
            self.inputs[n_experts] = rng.gamma(1.0, 1.0, size=shape).astype(np.float32)
        self.losses = self.inputs[n_experts][:steps]

    def time_forward(self, n_experts, prior):
        if prior == PLAIN:
            plain_loop(self.losses)
        else:
            forward(PRIORS[prior], self.losses, max_rows=1000)

    def report(self, table):
        few = self.steps // 20
        for n_experts, losses in self.inputs.items():
            plain = min(table[n_experts, PLAIN]["time_forward"]) / few
            ours = forward("fixed-share", losses[:few]).codelength
            gap = abs(ours - plain_loop(losses[:few]))
            print(
                f"K = {n_experts}, N = {self.steps}; plain loop {plain * 1e6:.1f} us a "
                f"step; the two codelengths differ by {gap:.1e} of {ours:.0f} nats"
            )
            for (k, prior), values in table.items():
                if k == n_experts and prior != PLAIN:
                    step = min(values["time_forward"]) / self.steps
                    print(
                        f"{prior:27s}{step * 1e6:9.1f} us per step"
                        f"{plain / step:8.1f} times the plain loop's speed"
                    )


class Disk:
    """Losses that are larger than memory."""

    options = {
        "scratch": {"type": Path, "help": "folder for the 12 GB file"},
        "--steps": {"type": int, "default": 663_552},
    }
    params = [["fixed share, m = 2", "switch distribution"]]
    param_names = ["prior"]
    unit = "seconds, nats, MiB of anonymous memory: peak and before"
    formats = {"track_seconds": ".1f", "track_codelength": ".3f"}

    def prepare(self):
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.path = self.scratch / "losses.npy"
        if self.path.exists():
            return
        rng = np.random.default_rng(0)
        file = np.lib.format.open_memmap(
            self.path, "w+", dtype=np.float32, shape=(self.steps, 4608)
        )
        for start in range(0, len(file), 4096):
            rows = file[start : start + 4096]
            rows[:] = rng.standard_exponential(rows.shape, dtype=np.float32)
        file.flush()

    def setup(self, prior):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.found = pool.apply(read_from_disk, (self.path, prior))

    def track_seconds(self, prior):
        return self.found[0]

    def track_codelength(self, prior):
        return self.found[1]

    def track_peak(self, prior):
        return self.found[3] / 1024

    def track_before(self, prior):
        return self.found[2] / 1024


def read_from_disk(path, prior):
    """Return seconds, codelength, memory before the forward pass, and peak memory."""
    losses = np.load(path, mmap_mode="r")
    architectures = [k // 576 for k in range(losses.shape[1])]
    before, peak, done = anonymous_memory(), [0], threading.Event()

    def watch():
        while not done.wait(0.05):
            peak[0] = max(peak[0], anonymous_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.perf_counter()
    trace = forward(PRIORS[prior], losses, kinds=architectures, max_rows=1000)
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    return seconds, trace.codelength, before, peak[0]


def anonymous_memory():
    """Return the resident anonymous memory of this process, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1])
