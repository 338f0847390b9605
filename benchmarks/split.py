"""A pass split over processes, compared with one process with as many threads.

``overhead`` fits a list on the first rows of a permuted stream, in one process and in
parts, which loky runs in worker processes. Seconds are wall time. CPU seconds include
all processes and starting them. "ratio" is the time in parts divided by the time in one
process. ``forecast`` compares the estimate of ``dry_run`` with an actual pass, in CPU
seconds on one thread. ``plan`` computes how many hours the paper's grid would take on
ImageNet, without running it. With ``--results FILE`` an interrupted table resumes.
"""

import resource
import time

import torch
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor

from benchmarks._data import feature_cells, permuted
from benchmarks._kept import OPTION, kept
from sklearn_mdl import MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.schedule import Schedule
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl.readouts import preset_settings, shared_work
from sklearn_mdl.switcher._split_parts import Common, parts_of, state_of

CELL = "cifar10-30k/resnet20_sup-cifar10"
LISTS = {"default": {}, "closed-form": {"readouts": "closed-form"}}


def cpu_seconds():
    """Return the CPU seconds of this process and of its finished children."""
    own = [
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(used.ru_utime + used.ru_stime for used in own)


class _Streams:
    """One stream, whose first rows are used for each measurement."""

    options = {
        "features": {"help": "folder of DATASET/ENCODER.npy"},
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
        if options.get("n_jobs") == "processes":
            get_reusable_executor().shutdown(wait=True)  # to count CPU time of workers
        clock, used = time.perf_counter() - start, cpu_seconds() - before
        return {"seconds": clock, "cpu": used, "nats": switcher.codelength_}


class Overhead(_Streams):
    """One process with several threads, and parts in as many processes."""

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
        options = {"n_jobs": "processes" if how == "parts" else self.workers}

        def measure():
            with parallel_config(backend="loky", n_jobs=self.workers):
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


class Forecast(_Streams):
    """CPU seconds of a pass, as forecast by ``dry_run`` and as measured."""

    params = [[], []]
    param_names = ["readouts", "rows"]
    formats = {
        "track_forecast": ".1f",
        "track_seconds": ".1f",
        "track_ratio": ".2f",
        "track_trial": ".1f",
    }

    def prepare(self):
        super().prepare()
        self.params = [self.lists, self.rows]

    def setup(self, name, n_rows):
        def measure():
            switcher = MDLReadoutSwitcher(**LISTS[name], random_state=0, device="cpu")
            start = time.process_time()
            forecast = switcher.dry_run(self.X[:n_rows], self.y[:n_rows])
            trial = time.process_time() - start
            columns = self.fitted(name, n_rows)
            return {**columns, "said": forecast.cpu_seconds, "trial": trial}

        self.found = kept(self.results, ["forecast", name, n_rows], measure)

    def track_forecast(self, *row):
        return self.found["said"]

    def track_seconds(self, *row):
        return self.found["cpu"]

    def track_ratio(self, *row):
        return self.found["said"] / self.found["cpu"]

    def track_trial(self, *row):
        return self.found["trial"]


class Plan:
    """Computed hours of the paper's grid of frozen readouts on ImageNet.

    Nothing is run. The parts are those of a split pass for this number of GPUs. Each
    GPU evaluates its parts one after the other, the longest first. An optimiser step
    takes 6 operations for each parameter and row, and moves the bytes that ``benchmarks
    gpu`` counts. The time of a part is the time of its operations or of its bytes,
    whichever is longer. The assumed speeds are options.
    """

    options = {
        "--rows": {"type": int, "default": 1_281_167, "help": "training rows"},
        "--classes": {"type": int, "default": 1000},
        "--operations": {
            "type": float,
            "default": 30e12,
            "help": "float32 operations per second of a GPU",
        },
        "--bandwidth": {
            "type": float,
            "default": 2e12,
            "help": "memory bytes per second of a GPU",
        },
    }
    params = [[768, 2048], [1, 8, 64]]
    param_names = ["features", "GPUs"]
    unit = "hours; GB"
    formats = {
        "track_parts": ".0f",
        "track_hours": ".2f",
        "track_longest": ".2f",
        "track_state_gb": ".1f",
        "track_losses_gb": ".1f",
        "track_rows_gb": ".1f",
    }

    def setup(self, n_features, n_gpus):
        readouts = readout_grid("imagenet-frozen", random_state=0)
        outcome = ClassLabels(self.classes)
        self.batch_size = preset_settings("imagenet-frozen").batch_size
        device = torch.device("cpu")
        settings = PassSettings(outcome, n_features, self.batch_size, 0, device)
        common = Common(readouts, settings, "cuda", "", {}, "float32", Schedule())
        self.readouts, self.n_features = readouts, n_features
        self.parts = parts_of(common, n_gpus)
        self.seconds = sorted(map(self.cost, self.parts), reverse=True)
        busy = [0.0] * n_gpus
        for seconds in self.seconds:
            busy[busy.index(min(busy))] += seconds
        self.hours = max(busy) / 3600
        self.state = max(state_of(common, [part]) for part in self.parts)

    def cost(self, columns):
        """Return the seconds of a part: all trainings and all weight averages."""
        trainings, averages = {}, 0.0
        for column in columns:
            readout = self.readouts[column]
            sizes = (self.n_features, *readout.hidden_layer_sizes, self.classes)
            n_parameters = count_parameters(sizes)
            steps = self.rows / self.batch_size * (readout.n_replay_streams + 1)
            trainings[shared_work(readout, 0)] = n_parameters, steps
            if readout.ema_step_size < 1:
                averages += 2 * 4 * n_parameters * steps / self.bandwidth
        moved = sum(10 * 4 * n * steps for n, steps in trainings.values())
        operations = sum(
            6 * n * steps * self.batch_size for n, steps in trainings.values()
        )
        return max(moved / self.bandwidth + averages, operations / self.operations)

    def track_parts(self, *row):
        return len(self.parts)

    def track_hours(self, *row):
        return self.hours

    def track_longest(self, *row):
        return self.seconds[0] / 3600

    def track_state_gb(self, *row):
        return self.state / 1e9

    def track_losses_gb(self, *row):
        return 2 * 8 * len(self.readouts) * self.rows / 1e9

    def track_rows_gb(self, n_features, n_gpus):
        return 4 * n_features * self.rows / 1e9
