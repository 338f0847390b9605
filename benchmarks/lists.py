"""Named lists of readouts compared: nats and seconds.

``digits`` codes the labels of digits in ten orders, ``default_rng(s).permutation(N)``
for s = 100, ..., 109. ``cells`` uses every encoder and dataset of a folder, in the
order of the files. The contenders are "plain nets", the networks without pool and race,
with full minibatches from the start; "nets"; "without growth", which is "nets" with
full minibatches; "closed-form"; and the default list, which adds networks to
"closed-form". For each contender, the tables show the codelength, the codelength of
switching only, and CPU seconds on one thread. ``cells`` also shows the ratio to the
best block-wise logistic regression (``logistic.py``). All other ratios are to the first
contender. ``--rows N`` uses only the first N rows, but all classes of the whole stream.
With ``--results FILE`` an interrupted table resumes, and ``--against FILE`` compares
cells with the results of another version.

``growth`` prints seconds and peak memory of a single kernel readout on 512 features, by
the number of rows: up to 10,000 rows if it is exact, and up to 30,000 with landmarks.
``wide`` prints seconds and peak memory of whole lists on 2,000 rows of 768 features.
``landmarks`` compares the nats of an exact kernel readout and of one with landmarks, on
the rows after the first 2,048.
``shares`` prints the seconds of networks and of all other readouts in the default list,
and the memory of kernel readouts.
``nulls`` prints the seconds of coding 100 permutations of the labels and of one fit.
``sizes`` prints the seconds of one encoder with default settings, in a ranking and with
a switcher.
"""

import time
from itertools import product
from pathlib import Path

import numpy as np
import torch
from scipy.stats import kendalltau
from sklearn.datasets import load_digits, make_classification

from benchmarks._data import NETS, feature_cells, permuted
from benchmarks._kept import OPTION, kept, read
from benchmarks._memory import apart
from benchmarks.codelength import ORDERS
from benchmarks.logistic import best_codelength
from sklearn_mdl import KernelReadout, MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl._core.stream import steps
from sklearn_mdl.readouts._kernel_learners import KernelLearner
from sklearn_mdl.readouts._row_learners import RowLearner

LISTS = {
    "plain nets": NETS,
    "nets": {"readouts": "nets"},
    "without growth": {"readouts": "nets", "batch_size": 32},
    "closed-form": {"readouts": "closed-form"},
    "default": {},
}
CHOSEN_ON = 101, 102  # orders of digits on which we chose the lists
MAIN = ["plain nets", "nets", "closed-form", "default"]


class _Lists:
    """Columns and options of the tables ``digits`` and ``cells``."""

    options = {
        "--lists": {"nargs": "*", "default": MAIN, "choices": list(LISTS)},
        "--rows": {"type": int, "help": "only the first rows (default: all)"},
        **OPTION,
    }
    unit = "nats"
    formats = {
        "track_codelength": ".1f",
        "track_switching": ".1f",
        "track_seconds": ".1f",
    }

    def fit(self, case, X, y, name):
        """Measure all columns for a case and a list."""
        key = [type(self).__name__, case, name, self.rows]
        self.found = kept(self.results, key, lambda: self.measure(X, y, name))

    def measure(self, X, y, name):
        """Fit a list and return its columns."""
        start = time.process_time()
        switcher = MDLReadoutSwitcher(**LISTS[name], random_state=0)
        rows = X[: self.rows], y[: self.rows]
        switcher.partial_fit(*rows, classes=np.unique(y))
        return {
            "codelength": switcher.codelength_,
            "switching": switcher.switching_codelength_,
            "seconds": time.process_time() - start,
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_switching(self, *row):
        return self.found["switching"]

    def track_seconds(self, *row):
        return self.found["seconds"]

    def report(self, table):
        base = self.lists[0]
        tables = {name: self.columns(table, name) for name in self.lists}
        for name, columns in tables.items():
            for column in ("codelength", "switching"):
                ratio = columns[column] / tables[base]["codelength"]
                shorter = f"{np.sum(ratio < 1)} of {len(ratio)}"
                print(
                    f"{name}, {column}: mean {columns[column].mean():.1f} nats, "
                    f"{ratio.mean():.4f} of {base} (sd {ratio.std():.4f}, worst "
                    f"{ratio.max():.3f}, shorter in {shorter})"
                )
            pooled = np.sum(columns["codelength"] < columns["switching"])
            share = columns["seconds"].sum() / tables[base]["seconds"].sum()
            print(
                f"{name}: {columns['seconds'].sum():.0f} CPU seconds, {share:.2f} of "
                f"{base}; at most {columns['seconds'].max():.1f} a fit; shorter than "
                f"by switching in {pooled}"
            )

    def columns(self, table, name):
        """Return the columns of one contender."""
        rows = [row for key, row in table.items() if key[1] == name]
        keys = [key for key in rows[0] if key.startswith("track_")]
        return {
            key.removeprefix("track_"): np.array([row[key] for row in rows])
            for key in keys
        }


class Digits(_Lists):
    """Lists on digits in ten orders."""

    param_names = ["order", "list"]

    @property
    def params(self):
        return [list(ORDERS), self.lists]

    def setup(self, order, name):
        self.fit(order, *permuted(*load_digits(return_X_y=True), order), name)

    def report(self, table):
        super().report(table)
        fresh = {key: row for key, row in table.items() if key[0] not in CHOSEN_ON}
        for name in self.lists:
            mean = self.columns(fresh, name)["codelength"].mean()
            print(f"{name}, fresh orders: mean {mean:.1f} nats")


class Cells(_Lists):
    """Lists on every cell of a folder."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        **_Lists.options,
        "--against": {"type": Path, "help": "results of another version, to compare"},
    }
    param_names = ["cell", "list"]
    formats = {**_Lists.formats, "track_of_logistic": ".4f"}

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets, self.encoders)

    @property
    def params(self):
        return [list(self.cells), self.lists]

    def setup(self, cell, name):
        self.fit(cell, *self.cells[cell], name)

    def track_of_logistic(self, cell, name):
        """Codelength divided by that of the best block-wise logistic regression."""
        X, y = self.cells[cell]
        if self.rows is not None:
            return np.nan
        return self.found["codelength"] / best_codelength(cell, X.astype(float), y)

    def report(self, table):
        super().report(table)
        for name in self.lists if self.rows is None else []:
            ratio = self.columns(table, name)["of_logistic"]
            print(
                f"{name} over block-wise logistic regression: mean {ratio.mean():.4f}, "
                f"shorter in {np.sum(ratio < 1)} of {len(ratio)}"
            )
        if self.against is not None:
            self.compare(table)

    def compare(self, table):
        """Print ratios to the results of another version, over cells and by dataset."""
        other = {tuple(key): row for key, row in read(self.against)}
        for name, base in product(self.lists, self.lists):
            cells = [table[cell, name] for cell in self.cells]
            own = np.array([row["track_codelength"][0] for row in cells])
            seconds = np.sum([row["track_seconds"][0] for row in cells])
            before = [
                other[type(self).__name__, c, base, self.rows] for c in self.cells
            ]
            codes = np.array([row["codelength"] for row in before])
            ratio = own / codes
            print(
                f"{name} over {base} of {self.against.name}: mean {ratio.mean():.4f}, "
                f"worst {ratio.max():.3f}, shorter in {np.sum(ratio < 1)} of "
                f"{len(ratio)}; {seconds / sum(row['seconds'] for row in before):.2f} "
                "of the CPU seconds"
            )
            if name == base:
                self.compare_datasets(own, codes)

    def compare_datasets(self, own, before):
        """Print mean ratios, and how similarly two versions rank the encoders."""
        datasets = np.array([cell.split("/")[0] for cell in self.cells])
        rows = [datasets == dataset for dataset in dict.fromkeys(datasets)]
        means = [f"{datasets[r][0]} {np.mean(own[r] / before[r]):.3f}" for r in rows]
        taus = [kendalltau(own[r], before[r]).statistic for r in rows]
        same = sum(own[r].argmin() == before[r].argmin() for r in rows)
        print("  " + ", ".join(means))
        print(
            f"  rankings of encoders: Kendall's tau {np.mean(taus):.3f} on average, "
            f"{np.min(taus):.3f} at least; the same encoder first on {same} of "
            f"{len(rows)} datasets"
        )


def _problem(n_rows, n_features, n_classes):
    return make_classification(
        n_rows,
        n_features,
        n_informative=min(n_features, 40),
        n_classes=n_classes,
        random_state=0,
    )


def _seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start


class Growth:
    """Seconds and memory of one kernel readout, by the number of rows."""

    options = {
        "--rows": {
            "type": int,
            "nargs": "*",
            "default": [1000, 2000, 4000, 7000, 10000, 30000],
        },
        "--image": {"type": Path, "help": "draw the table into this file"},
    }
    param_names = ["rows", "max_exact"]
    unit = "CPU seconds on one thread, and peak memory in MiB, imports included"
    formats = {"track_seconds": ".1f", "track_memory": ",.0f"}

    @property
    def params(self):
        return [self.rows, [None, 2048]]

    def has(self, n_rows, max_exact):
        """Omit exact factors of more than 10,000 rows."""
        return max_exact is not None or n_rows <= 10000

    def setup(self, n_rows, max_exact):
        X, y = _problem(n_rows, 512, 10)
        X = X.astype(np.float32)
        readout = KernelReadout(max_exact=max_exact)
        self.seconds, self.peak = apart(readout.fit, X, y)

    def track_seconds(self, *row):
        return self.seconds

    def track_memory(self, *row):
        return self.peak / 2**20

    def report(self, table):
        """Draw seconds and memory against the rows."""
        if self.image is None:
            return
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        names = {None: "exact", 2048: "2,048 landmarks"}
        units = {"track_seconds": "CPU seconds", "track_memory": "peak memory (MiB)"}
        for axis, (name, unit) in zip(axes, units.items(), strict=True):
            for bound, label in names.items():
                curve = {row[0]: v[name] for row, v in table.items() if row[1] == bound}
                axis.plot(list(curve), list(curve.values()), "o-", label=label)
            axis.set(xlabel="rows", ylabel=unit, xscale="log")
        axes[0].set(yscale="log")
        axes[0].legend(frameon=False)
        axes[1].set_ylim(bottom=0)
        figure.savefig(self.image, dpi=100, metadata={"Software": None})
        print(f"wrote {self.image}")


class Wide:
    """Seconds and memory of a list on 2,000 rows of 768 features."""

    options = {"--lists": {"nargs": "*", "default": MAIN[2:], "choices": list(LISTS)}}
    param_names = ["list", "classes"]
    unit = "CPU seconds on one thread, and peak memory in MiB, imports included"
    formats = {"track_seconds": ".1f", "track_memory": ",.0f"}

    @property
    def params(self):
        return [self.lists, [10, 101]]

    def setup(self, name, n_classes):
        X, y = _problem(2000, 768, n_classes)
        switcher = MDLReadoutSwitcher(**LISTS[name], random_state=0)
        self.seconds, self.peak = apart(switcher.fit, X.astype(np.float32), y)

    def track_seconds(self, *row):
        return self.seconds

    def track_memory(self, *row):
        return self.peak / 2**20


class Sizes:
    """Seconds of one encoder with default settings."""

    options = {
        "--rows": {"type": int, "nargs": "*", "default": [500, 2000, 5000]},
        "--features": {"type": int, "nargs": "*", "default": [64, 768]},
    }
    param_names = ["rows", "features"]
    unit = "CPU seconds on one thread"
    formats = {"track_ranking": ".1f", "track_switcher": ".1f"}

    @property
    def params(self):
        return [self.rows, self.features]

    def setup(self, n_rows, n_features):
        self.X, self.y = _problem(n_rows, n_features, 10)

    def track_ranking(self, *row):
        ranking, dataset = RepresentationScorer(), {"data": (self.X, self.y)}
        return _seconds(lambda: ranking.fit(dataset, {"features": None}))

    def track_switcher(self, *row):
        switcher = MDLReadoutSwitcher(random_state=0)
        return _seconds(lambda: switcher.fit(self.X, self.y))


class Landmarks:
    """Nats of the rows after the first 2,048, exact and with landmarks."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--rows": {"type": int, "default": 6000},
    }
    param_names = ["cell", "alpha"]
    formats = {"track_exact": ".1f", "track_reduced": ".1f", "track_ratio": ".4f"}

    def prepare(self):
        self.cells = feature_cells(self.features)

    @property
    def params(self):
        return [list(self.cells), [0.003, 0.03, 0.3]]

    def setup(self, cell, alpha):
        X, y = (values[: self.rows] for values in permuted(*self.cells[cell], 0))
        readouts = [KernelReadout(alpha=alpha, max_exact=n) for n in (None, 2048)]
        fitted = MDLReadoutSwitcher(readouts).fit(X, y)
        self.exact, self.reduced = fitted.readout_losses_[2048:].sum(0)

    def track_exact(self, *row):
        return self.exact

    def track_reduced(self, *row):
        return self.reduced

    def track_ratio(self, *row):
        return self.reduced / self.exact


class Shares:
    """Seconds of networks and other readouts in the default list; memory of kernels."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--rows": {"type": int, "nargs": "*", "default": [2000, 10000, 30000]},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
    }
    param_names = ["cell", "rows"]
    unit = "CPU seconds on one thread; largest MiB of kernels after any segment"
    formats = {
        "track_nets": ".1f",
        "track_kernels": ".1f",
        "track_ratio": ".2f",
        "track_memory": ",.0f",
    }

    def prepare(self):
        self.cells = feature_cells(self.features, encoders=self.encoders)

    @property
    def params(self):
        return [list(self.cells), self.rows]

    def setup(self, cell, n_rows):
        X, y = (values[:n_rows] for values in permuted(*self.cells[cell], 0))
        self.seconds, self.held = {False: 0.0, True: 0.0}, 0
        self.plain = steps.score_segment
        steps.score_segment = self.score_segment
        try:
            MDLReadoutSwitcher(random_state=0, device="cpu").fit(X, y)
        finally:
            steps.score_segment = self.plain

    def score_segment(self, part, labels):
        """Time a segment of one learner, and measure the memory of kernels."""
        learner = part[0].gi_frame.f_locals["learner"]
        is_kernel = isinstance(learner, RowLearner)  # includes discriminants
        start = time.process_time()
        result = self.plain(part, labels)
        self.seconds[is_kernel] += time.process_time() - start
        if isinstance(learner, KernelLearner):
            self.held = max(self.held, _bytes_of(learner))
        return result

    def track_nets(self, *row):
        return self.seconds[False]

    def track_kernels(self, *row):
        return self.seconds[True]

    def track_ratio(self, *row):
        return self.seconds[True] / self.seconds[False]

    def track_memory(self, *row):
        return self.held / 2**20


def _bytes_of(learner):
    """Return the bytes of factors, posteriors and scaled rows of kernels."""
    held = [view.rows for view in learner.views.values()]
    for group in learner.groups:
        state = vars(group.ridge)
        held += [value for value in state.values() if torch.is_tensor(value)]
        held += [part for panel in state.get("_panels", []) for part in panel]
    return sum(tensor.nbytes for tensor in held)


class Nulls:
    """Seconds of coding permuted labels, and of one fit of "closed-form"."""

    params = [[2000], [2, 21]]
    param_names = ["rows", "classes"]
    unit = "seconds on one thread; ratio of 100 label sets to one fit"
    formats = {"track_fit": ".2f", "track_nulls": ".2f", "track_ratio": ".2f"}

    def setup(self, n_rows, n_classes):
        X, y = _problem(n_rows, 128, n_classes)
        switcher = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
        self.fit = _seconds(lambda: switcher.fit(X, y))
        self.nulls = _seconds(lambda: switcher.null_codelengths(100))

    def track_fit(self, *row):
        return self.fit

    def track_nulls(self, *row):
        return self.nulls

    def track_ratio(self, *row):
        return self.nulls / self.fit
