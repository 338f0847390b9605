"""From ten thousand rows to a million: CPU seconds and memory of one pass.

Rows are drawn with replacement from a real encoder's features, and normal noise with a
tenth of the standard deviation is added to each feature. With ``--fresh``, each row is
new, and labels come from a random network. Rows and trace are in memory-mapped files.
Each pass runs in a separate process, with checkpoints. With ``--kill``, the process is
killed after that many CPU seconds, and a second process resumes the pass. The seconds
of both are counted. Memory is the peak of the process, with and without the pages of
mapped files, which the system can reclaim. "full" is the default list without race and
with full replay.
"""

import multiprocessing
import os
import shutil
import time
from pathlib import Path

import numpy as np

from benchmarks._data import feature_cells
from benchmarks._kept import OPTION, kept
from benchmarks._streams import teacher
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.stream import learner

SEED = 0
PIECE = 100_000  # rows drawn in one piece
NOISE = 0.1  # share of a feature's standard deviation
LISTS = {"default": None, "closed-form": "closed-form", "nets": "nets", "full": None}


class Million:
    """Nats, seconds and memory of one pass, by the number of rows."""

    options = {
        "features": {
            "type": Path,
            "help": "folder of DATASET/ENCODER.npy (not read with --fresh)",
        },
        "folder": {"type": Path, "help": "folder for the files of a pass"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--fresh": {
            "action": "store_true",
            "help": "new rows, labelled by a random network",
        },
        "--rows": {"type": int, "nargs": "*", "default": [10**4, 10**5, 10**6]},
        "--lists": {"nargs": "*", "default": list(LISTS)[:2], "choices": list(LISTS)},
        "--kill": {"type": float, "help": "CPU seconds before killing the process"},
        "--jobs": {"type": int, "default": 1, "help": "threads per pass"},
        "--image": {"type": Path, "help": "draw the table into this file"},
        **OPTION,
    }
    param_names = ["cell", "list", "rows"]
    unit = "nats; CPU and wall seconds; MiB, without and with mapped files"
    formats = {
        "track_codelength": ",.0f",
        "track_seconds": ",.0f",
        "track_clock": ",.0f",
        "track_per_row": ".2f",
        "track_memory": ",.0f",
        "track_mapped": ",.0f",
        "track_kills": ".0f",
    }

    def prepare(self):
        self.cells = {"teacher": None}
        if not self.fresh:
            self.cells = feature_cells(self.features, encoders=self.encoders)

    @property
    def params(self):
        return [list(self.cells), self.lists, self.rows]

    def setup(self, cell, name, n_rows):
        def measure():
            return self.measured(cell, name, n_rows)

        key = [cell, name, n_rows, self.kill, *[self.jobs][: self.jobs > 1]]
        self.found = kept(self.results, key, measure)

    def measured(self, cell, name, n_rows):
        """Run a pass in new processes until one finishes."""
        folder = self.folder / f"{cell.replace('/', '-')}-{name}-{n_rows}"
        shutil.rmtree(folder, ignore_errors=True)  # remains of an interrupted pass
        folder.mkdir(parents=True)
        write_rows(folder, self.cells[cell], n_rows)
        seconds, memory, mapped, kills = 0.0, 0, 0, 0
        begin = time.perf_counter()
        while not (folder / "codelength.txt").exists():
            limit = self.kill if not kills else None
            used = _run(folder, name, limit, self.jobs)
            seconds += used[0]
            memory, mapped = max(memory, used[1]), max(mapped, used[2])
            kills += used[3]
        clock = time.perf_counter() - begin
        codelength = float((folder / "codelength.txt").read_text())
        shutil.rmtree(folder)
        return {
            "codelength": codelength,
            "seconds": seconds,
            "clock": clock,
            "memory": memory / 2**20,
            "mapped": mapped / 2**20,
            "kills": kills,
        }

    def track_codelength(self, *row):
        return self.found["codelength"]

    def track_seconds(self, *row):
        return self.found["seconds"]

    def track_clock(self, *row):
        return self.found["clock"]

    def track_per_row(self, cell, name, n_rows):
        """Milliseconds per row."""
        return 1e3 * self.found["seconds"] / n_rows

    def track_memory(self, *row):
        return self.found["memory"]

    def track_mapped(self, *row):
        return self.found["mapped"]

    def track_kills(self, *row):
        return self.found["kills"]

    def report(self, table):
        """Draw seconds per row and memory against the number of rows."""
        if self.image is None:
            return
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        columns = {"track_per_row": "CPU ms per row", "track_memory": "memory (MiB)"}
        for axis, (column, unit) in zip(axes, columns.items(), strict=True):
            for series in dict.fromkeys(key[:2] for key in table):
                rows = {k[2]: v[column] for k, v in table.items() if k[:2] == series}
                label = series[1] if len(self.cells) == 1 else ", ".join(series)
                axis.plot(list(rows), list(rows.values()), "o-", label=label)
            axis.set(xlabel="rows", ylabel=unit, xscale="log", ylim=(0, None))
        axes[0].legend(frameon=False)
        figure.savefig(self.image, dpi=100, metadata={"Software": None})
        print(f"wrote {self.image}")


def write_rows(folder, cell, n_rows):
    """Write rows and labels drawn from a cell, with noise added to the features.

    Rows are drawn with replacement. Without a cell, rows are random, and labels come
    from a random network.
    """
    shape = n_rows, 64 if cell is None else cell[0].shape[1]
    rows = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, shape)
    if cell is None:
        _, labels = teacher(n_rows, out=rows)
        rows.flush()
        np.save(folder / "y.npy", labels)
        return
    X, y = cell
    rng = np.random.default_rng(SEED)
    noise = NOISE * X.std(0)
    labels = np.empty(n_rows, dtype=np.intp)
    for start in range(0, n_rows, PIECE):
        stop = min(start + PIECE, n_rows)
        drawn = rng.integers(len(X), size=stop - start)
        jitter = rng.standard_normal((len(drawn), X.shape[1]), dtype=np.float32)
        rows[start:stop] = X[drawn] + noise * jitter
        labels[start:stop] = y[drawn]
    rows.flush()
    np.save(folder / "y.npy", labels)


def _run(folder, name, limit, n_jobs):
    """Run a pass in a process, which is killed after a number of CPU seconds.

    Returns
    -------
    seconds : float
    memory, mapped : int
        Peak bytes, without and with pages of mapped files.
    killed : bool
    """
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_fit, args=(folder, name, n_jobs))
    process.start()
    seconds, memory, mapped = 0.0, 0, 0
    while process.is_alive():
        used = _used(process.pid)
        seconds = max(seconds, used[0])
        memory, mapped = max(memory, used[1]), max(mapped, used[2])
        if limit is not None and seconds > limit:
            process.kill()
            process.join()
            return seconds, memory, mapped, True
        time.sleep(0.25)
    if process.exitcode:
        raise RuntimeError(
            f"A pass must finish, but its process ended with exit code "
            f"{process.exitcode}; see the traceback above"
        )
    return seconds, memory, mapped, False


def _used(pid):
    """Return a process's CPU seconds, private bytes, and bytes with mapped files."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process has ended
        return 0.0, 0, 0
    rows = dict(line.split(":", 1) for line in status.splitlines())
    own, mapped = (
        1024 * int(rows.get(k, "0").split()[0]) for k in ("RssAnon", "VmHWM")
    )
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), own, mapped


def _fit(folder, name, n_jobs):
    X = np.load(folder / "X.npy", mmap_mode="r")
    y = np.load(folder / "y.npy")
    options = {"random_state": 0, "device": "cpu", "n_jobs": n_jobs}
    if name == "full":
        options["race"], learner.FULL_REPLAY = None, len(y)
    switcher = MDLReadoutSwitcher(LISTS[name], checkpoint=folder / "pass", **options)
    codelength = switcher.fit(X, y).codelength_
    (folder / "codelength.txt").write_text(repr(codelength))
