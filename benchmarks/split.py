"""One pass in parts beside one process with as many threads: seconds and codelength.

``overhead`` fits a list on the first rows of a stream, permuted, in one process and in
parts under loky. Seconds are of the clock; CPU seconds are those of all processes,
their start included. "ratio" is of the parts to the one process. ``points`` fits a list
in one process on more and more rows: CPU seconds on one thread, and those of a row
beside those of the first number of rows. With ``--results FILE`` an interrupted table
goes on where it ended.
"""

import resource
import time

from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor

from benchmarks._data import feature_cells, permuted
from benchmarks._kept import OPTION, kept
from sklearn_mdl import MDLReadoutSwitcher

CELL = "cifar10-30k/resnet20_sup-cifar10"
LISTS = {"default": {}, "closed-form": {"readouts": "closed-form"}}


def cpu_seconds():
    """CPU seconds of this process, and of those that it has started and that ended."""
    own = [
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(used.ru_utime + used.ru_stime for used in own)


class _Streams:
    """Rows of a stream, of which each measurement takes the first."""

    options = {
        "features": {"help": "a directory of features: DATASET/ENCODER.npy"},
        "--rows": {"type": int, "nargs": "+", "default": [3000]},
        "--lists": {"nargs": "+", "choices": list(LISTS), "default": ["default"]},
        **OPTION,
    }

    def prepare(self):
        dataset, _, encoder = CELL.partition("/")
        cells = feature_cells(self.features, [dataset], [encoder])
        self.X, self.y = permuted(*cells[CELL], 0)

    def fitted(self, name, n_rows, **options):
        """Return seconds, CPU seconds and nats of a fit."""
        start, before = time.perf_counter(), cpu_seconds()
        switcher = MDLReadoutSwitcher(
            **LISTS[name], **options, random_state=0, device="cpu"
        ).fit(self.X[:n_rows], self.y[:n_rows])
        if "split" in options:
            get_reusable_executor().shutdown(wait=True)  # their seconds count then
        clock, used = time.perf_counter() - start, cpu_seconds() - before
        return {"seconds": clock, "cpu": used, "nats": switcher.codelength_}


class Overhead(_Streams):
    """One process with threads, and as many processes for parts."""

    options = {**_Streams.options, "--workers": {"type": int, "default": 2}}
    params = [[], [], ["threads", "parts"]]
    param_names = ["readouts", "rows", "how"]
    formats = {
        "track_seconds": ".1f",
        "track_ratio": ".3f",
        "track_cpu": ".1f",
        "track_cpu_ratio": ".3f",
        "track_nats": ".6f",
    }

    def prepare(self):
        super().prepare()
        self.params = [self.lists, self.rows, ["threads", "parts"]]
        self.first = {}

    def setup(self, name, n_rows, how):
        options = {"n_jobs": self.workers}
        if how == "parts":
            options["split"] = "kinds"

        def measure():
            with parallel_config(backend="loky"):
                return self.fitted(name, n_rows, **options)

        key = ["split", name, n_rows, how, self.workers]
        self.found = kept(self.results, key, measure)
        if how == "threads":
            self.first[name, n_rows] = self.found

    def track_seconds(self, *row):
        return self.found["seconds"]

    def track_ratio(self, name, n_rows, how):
        return self.found["seconds"] / self.first[name, n_rows]["seconds"]

    def track_cpu(self, *row):
        return self.found["cpu"]

    def track_cpu_ratio(self, name, n_rows, how):
        return self.found["cpu"] / self.first[name, n_rows]["cpu"]

    def track_nats(self, *row):
        return self.found["nats"]


class Points(_Streams):
    """CPU seconds of one process against the number of rows."""

    params = [[], []]
    param_names = ["readouts", "rows"]
    formats = {
        "track_cpu": ".1f",
        "track_milliseconds_a_row": ".2f",
        "track_growth": ".2f",
        "track_nats_a_row": ".4f",
    }

    def prepare(self):
        super().prepare()
        self.params = [self.lists, self.rows]
        self.first = {}

    def setup(self, name, n_rows):
        key = ["points", name, n_rows]
        self.found = kept(self.results, key, lambda: self.fitted(name, n_rows))
        self.first.setdefault(name, self.found["cpu"] / n_rows)

    def track_cpu(self, *row):
        return self.found["cpu"]

    def track_milliseconds_a_row(self, name, n_rows):
        return 1e3 * self.found["cpu"] / n_rows

    def track_growth(self, name, n_rows):
        return self.found["cpu"] / n_rows / self.first[name]

    def track_nats_a_row(self, name, n_rows):
        return self.found["nats"] / n_rows
