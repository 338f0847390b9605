"""Kills in the midst of work: the right number afterwards, and nothing left behind.

``KILLS=50 python -m pytest -m slow -s tests/test_kills.py`` kills each kind so often.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc"),
]
KILLS = int(os.environ.get("KILLS", "3"))
SECONDS_LEFT = 10.0  # after which nothing may be left
SECONDS_TO_END = 600.0  # of a pass that is not killed, on however busy a machine

DATA = """
import os, sys
import numpy as np
from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn_mdl import (
    IncrementalReadout, KernelReadout, LinearReadout, MDLReadoutSwitcher, MLPReadout,
    RepresentationScorer,
)
folder = sys.argv[1]
X, y = load_digits(return_X_y=True)
X, y = X[:200], y[:200]
readouts = [LinearReadout(lr=0.01), MLPReadout((8,), lr=0.01), KernelReadout("linear")]
print("began", flush=True)
"""
KINDS = {
    "the parent of a split pass": DATA
    + """
switcher = MDLReadoutSwitcher(
    readouts, n_jobs="processes", checkpoint=folder, race=None, random_state=0
)
with parallel_config(backend="loky", n_jobs=2):
    print("done", repr(switcher.fit(X, y).codelength_), flush=True)
""",
    "a ranking": DATA
    + """
features = {"all": X, "half": X[:, ::2], "few": X[:, :9]}
bayes = IncrementalReadout(GaussianNB())  # by others: few rows start workers, too
scorer = RepresentationScorer(
    MDLReadoutSwitcher([*readouts, bayes]), n_orders=2, n_jobs=2, results=folder
)
with parallel_config(backend="loky", n_jobs=2):
    scorer.fit({"digits": (features, y)})
print("done", scorer.order_codelengths_.tolist(), flush=True)
""",
    "a race, label by label": DATA
    + """
from sklearn_mdl.model_selection import EncoderRace

features = {"all": X, "half": X[:, ::2], "few": X[:, :9]}
race = EncoderRace(list(features), 10, within=0.01, folder=folder).resume()
while race.n_labels_ < 120:
    row = slice(race.n_labels_, race.n_labels_ + 1)
    race.update({name: features[name][row] for name in race.alive_}, y[row])
print("done", race.losses_.tolist(), flush=True)
""",
}

# One cluster for all kills: it starts another worker for each that dies.
WORKERS_OF_DASK = (
    """
import random, signal, threading, time
import dask
from dask.distributed import Client, LocalCluster
"""
    + DATA
    + """
def kill(client, seconds, killed):
    time.sleep(seconds)
    pid = random.choice(list(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)

def codelengths(name):
    scorer = RepresentationScorer(
        MDLReadoutSwitcher(readouts), n_orders=2, results=os.path.join(folder, name)
    )
    scorer.fit({"digits": ({"all": X, "half": X[:, ::2], "few": X[:, :9]}, y)})
    return scorer.order_codelengths_.tolist()

def passes(client, n_kills, expected):
    random.seed(0)
    seconds, n_killed, n_ended = 5.0, 0, 0
    while n_killed < n_kills:
        client.wait_for_workers(2)
        start, killed = time.monotonic(), []
        arguments = client, random.uniform(0, seconds), killed
        killer = threading.Thread(target=kill, args=arguments)
        killer.start()
        assert codelengths(f"{n_killed} {n_ended}") == expected
        n_killed, n_ended = n_killed + len(killed), n_ended + (not killed)
        seconds = time.monotonic() - start if not killed else seconds
        killer.join()
    print("done", n_killed, n_ended, flush=True)

if __name__ == "__main__":
    # A busy machine takes longer to start a worker than Dask and joblib wait for it.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"})
    expected = codelengths("whole")
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        with (
            Client(cluster) as client,
            parallel_config(backend="dask", wait_for_workers_timeout=600),
        ):
            passes(client, int(sys.argv[2]), expected)
"""
)

ONE_TASK = """
import time
from joblib import Parallel, delayed
from sklearn_mdl._core.side_by_side import watched
print("began", flush=True)
Parallel(2, **watched())([delayed(time.sleep)(99)])
"""


def started(code, folder, *more):
    script = folder.parent / "kill.py"
    script.write_text(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, str(script), str(folder), *more]
    with open(folder.parent / "errors.txt", "ab") as errors:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors
        )


def finished(process, seconds=SECONDS_TO_END):
    text, _ = process.communicate(timeout=seconds)
    script = Path(process.args[1])
    assert process.returncode == 0, (script.parent / "errors.txt").read_text()
    lines = text.decode().splitlines()
    return next(line for line in lines if line.startswith("done"))


def descendants(pid):
    """List the processes below one, by what the system says of their parents."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        new = children.get(todo.pop(), [])
        found += new
        todo += new
    return found


def is_running(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def left_of(pid, below):
    maps = Path("/dev/shm").glob(f"joblib_memmapping_folder_{pid}_*")
    return [p for p in below if is_running(p)] + [p.name for p in maps]


def below_and_seconds_left(process):
    """Kill a process: how many were below it, and seconds until nothing is left."""
    process.send_signal(signal.SIGSTOP)  # it starts no more of them
    below = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    process.wait()  # not for the end of its output, which its workers may hold open
    process.stdout.close()
    while left := left_of(process.pid, below):
        assert time.monotonic() - killed < SECONDS_LEFT, left
        time.sleep(0.2)
    return len(below), time.monotonic() - killed


@pytest.mark.parametrize("seconds", [0.5, 15.0])  # while workers start, and afterwards
def test_a_worker_that_got_no_task_ends_with_its_parent(seconds, tmp_path):
    process = started(ONE_TASK, tmp_path / "none")
    process.stdout.readline()
    time.sleep(seconds)
    n_below, _ = below_and_seconds_left(process)
    assert n_below >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_killed_is_resumed_and_leaves_nothing(kind, tmp_path):
    process = started(KINDS[kind], tmp_path / "whole")
    process.stdout.readline()  # imports are over
    start = time.monotonic()
    expected = finished(process)
    seconds = time.monotonic() - start
    rng, n_ended, kills = random.Random(0), 0, []
    while len(kills) < KILLS:
        folder = tmp_path / str(n_ended)
        process = started(KINDS[kind], folder)
        process.stdout.readline()
        time.sleep(rng.uniform(0, seconds))
        if process.poll() is not None:  # it was quicker
            assert finished(process) == expected
            n_ended += 1
            continue
        kills.append(below_and_seconds_left(process))
    assert finished(started(KINDS[kind], folder)) == expected
    n_with_workers = sum(n_below >= 2 for n_below, _ in kills)
    print(
        f"{kind}: {len(kills)} kills, {n_with_workers} of them with workers, "
        f"{n_ended + 1} passes that ended alike, nothing left after "
        f"{max(seconds for _, seconds in kills):.1f} s at most"
    )
    assert n_with_workers or "race" in kind


def test_workers_of_dask_that_are_killed_change_no_number(tmp_path):
    pytest.importorskip("distributed")
    process = started(WORKERS_OF_DASK, tmp_path / "results", str(KILLS))
    found = finished(process, SECONDS_TO_END * (1 + KILLS / 10))
    _, n_killed, n_ended = found.split()
    print(f"workers of Dask: {n_killed} kills, {n_ended} passes that were quicker")
