"""Passes in parts: the numbers of one process, whoever evaluates and whoever dies."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RepresentationScorer,
)
from sklearn_mdl._core.stream import checkpoint as checkpoints
from sklearn_mdl._core.stream.threads import Threads
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import LinearReadoutRegressor, MLPReadoutRegressor
from sklearn_mdl.switcher import (
    _pass_forecast,
    _split as split,
    _split_parts as workers_module,
)
from sklearn_mdl.switching import Race

READOUTS = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    MLPReadout((8,), lr=0.01, n_replay_streams=2, ema_step_size=0.1),
    LinearReadout(lr=0.003, n_replay_streams=2),
    LinearReadout(lr=0.03, n_replay_streams=2, scaling="whiten"),
    KernelReadout(alpha=1.0),
    KernelReadout(alpha=0.1),
]
REGRESSORS = [
    LinearReadoutRegressor(lr=0.03, n_replay_streams=2),
    LinearReadoutRegressor(lr=0.003, n_replay_streams=2),
    MLPReadoutRegressor((8,), lr=0.01, n_replay_streams=2),
]
ATTRIBUTES = [
    *("codelengths_", "switching_codelengths_", "posterior_", "readout_losses_"),
    *("pool_weights_", "pool_posterior_", "retired_at_", "readout_codelengths_"),
]


def rows(n=160, real=False):
    X, y = (load_diabetes if real else load_breast_cancer)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return X[order], y[order]


def switcher(readouts=READOUTS, **options):
    kind = MDLReadoutSwitcherRegressor if readouts is REGRESSORS else MDLReadoutSwitcher
    defaults = {"shuffle": True, "random_state": 0, "device": "cpu"}
    return kind(readouts, **{"pooling": LogLinearPool(), **defaults, **options})


def in_parts(X, y, readouts=READOUTS, **options):
    n_jobs = options.pop("n_jobs", 1)
    with parallel_config(backend="threading", n_jobs=n_jobs):
        return switcher(readouts, n_jobs="processes", **options).fit(X, y)


def fitted(**options):
    return switcher(**options).fit(*rows())


def assert_same(found, expected, X):
    for name in ATTRIBUTES:
        assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.quick("pooled", "groups", "real")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": None, "n_jobs": 3},  # parts of a kind
        {"race": Race(min_samples=32, min_readouts=1, slack=0.0, tolerance=0.0)},
        {"readout_weights": [1, 2, 0, 1, 1, 3], "pooling": [0, 1, 0, 0, 2, 1]},
        {"readouts": REGRESSORS},
    ],
    ids=["pooled", "switching", "raced", "groups", "real"],
)
def test_parts_give_the_bits_of_one_process(options, monkeypatch, tmp_path):
    monkeypatch.setattr(split, "ROUND_BYTES", 0)
    monkeypatch.setattr(split, "SEGMENT", 50)
    X, y = rows(real="readouts" in options)
    expected = switcher(**options).fit(X, y)
    found = in_parts(X, y, **options, store=(tmp_path, "mixtures"))
    assert_same(found, expected, X)
    if "race" in options:
        assert (found.retired_at_ >= 0).any()
    assert sorted(p.name for p in tmp_path.iterdir()) == [found.store_.name]
    assert_array_equal(
        found.partial_fit(X[:40], y[:40]).codelengths_,
        expected.partial_fit(X[:40], y[:40]).codelengths_,
    )


@pytest.mark.parametrize("pooling", [None, LogLinearPool()])
def test_measures_are_those_of_one_process(pooling):
    X, y = rows()
    one, parts = (fit(pooling=pooling) for fit in (fitted, partial(in_parts, X, y)))
    assert parts.measures() == one.measures()


def has_callbacks():
    return importlib.util.find_spec("sklearn.callback") is not None


class Interrupted(Exception):
    """Stands for a kill: nothing that follows is run."""


def dying(n_segments, monkeypatch):
    """Write after each segment, and stop within one; returns the rows of each."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    score, counts = Threads._scores, []

    def score_or_die(self, *given):
        counts.append(len(given[1]))
        if len(counts) == n_segments:
            raise Interrupted
        return score(self, *given)

    monkeypatch.setattr(Threads, "_scores", score_or_die)
    return counts


LATE_RACE = Race(tolerance=0.05, slack=10, min_samples=32, min_readouts=2)


@pytest.mark.parametrize(("race", "n_segments"), [(None, 7), (LATE_RACE, 9)])
def test_a_pass_that_was_killed_goes_on(race, n_segments, monkeypatch, tmp_path):
    """In the middle of a round, and in a later one."""
    options = {"checkpoint": tmp_path, "race": race}
    X, y = rows(160)
    expected = switcher(race=race).fit(X, y)
    counts = dying(n_segments, monkeypatch)
    with pytest.raises(Interrupted):
        in_parts(X, y, **options)
    assert list(tmp_path.glob("*-parts"))
    found = in_parts(X, y, **options)
    assert not list(tmp_path.glob("*-parts"))
    assert_same(found, expected, X)
    n_segments_run = len(counts)
    assert_same(in_parts(X, y, **options), found, X)  # by its last checkpoint
    assert len(counts) == n_segments_run
    in_parts(X, y, race=race)
    assert len(counts) - n_segments_run == n_segments_run - 1  # none ran twice


def test_a_pass_whose_part_was_lost_does_not_go_on(monkeypatch, tmp_path):
    X, y = rows(160)
    dying(9, monkeypatch)
    with pytest.raises(Interrupted):
        in_parts(X, y, checkpoint=tmp_path, race=LATE_RACE)
    (folder,) = tmp_path.glob("*-parts")
    for file in folder.glob("part-*.safetensors"):
        file.unlink()
    with pytest.raises(ValueError, match="must hold results, but is missing"):
        in_parts(X, y, checkpoint=tmp_path, race=LATE_RACE)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_workers_are_processes_that_are_replaced(dies, monkeypatch, tmp_path):
    evaluate, marker = split.evaluate, str(tmp_path / "died")

    def dying(common, part, devices):
        if dies and part.start and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return evaluate(common, part, devices)

    monkeypatch.setattr(split, "evaluate", dying)
    readouts, options = READOUTS[:3], {"race": Race(min_samples=64, min_readouts=2)}
    X, y = rows(100)
    with parallel_config(backend="loky", n_jobs=2):
        found = switcher(readouts, n_jobs="processes", **options).fit(X, y)
    assert os.path.exists(marker) == dies
    assert_same(found, switcher(readouts, **options).fit(X, y), X)


DASK = """
import os, signal, sys
import numpy as np
from dask.distributed import Client, LocalCluster
from joblib import parallel_config
sys.path.insert(0, sys.argv[2])
from test_split import READOUTS, assert_same, rows, switcher
from sklearn_mdl.switcher import _split as split
from sklearn_mdl.switching import Race

evaluate, marker = split.evaluate, os.path.join(sys.argv[1], "died")

def dying(common, part, devices):
    if part.start and not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(common, part, devices)

def main():
    X, y = rows()
    options = {"race": Race(min_samples=64)}
    expected = switcher(**options).fit(X, y)
    split.evaluate = dying
    with LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None
    ) as cluster, Client(cluster) as client:
        before = set(client.run(os.getpid).values())
        with parallel_config(backend="dask"):
            found = switcher(n_jobs="processes", checkpoint=sys.argv[1], **options)
            found.fit(X, y)
        after = set(client.run(os.getpid).values())
    assert_same(found, expected, X)
    print("lost", len(before - after), "of", len(before))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_bits(tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "pass.py"
    script.write_text(DASK)
    shared = tmp_path / "shared"
    shared.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(shared), os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert not done.returncode, done.stderr
    assert "lost 1 of 3" in done.stdout


@pytest.mark.parametrize("options", [{}, {"pooling": None}])
def test_cells_of_a_ranking_are_split(options, tmp_path):
    X, y = rows(120)
    data = {"cancer": ({"all": X, "some": X[:, :5]}, y)}
    expected = RepresentationScorer(switcher(**options)).fit(data)
    with parallel_config(backend="threading"):
        split = switcher(n_jobs="processes", **options)
        for _ in range(2):  # the second time cells are read
            found = RepresentationScorer(split, results=tmp_path).fit(data)
            assert_array_equal(found.codelengths_, expected.codelengths_)
            assert_array_equal(found.accuracies_, expected.accuracies_)
            assert found.summary()


def common():
    fitted = switcher()
    fitted._begin(5, np.arange(2), n_rows=10)
    return fitted._common("", {})


@pytest.mark.parametrize(
    ("n_jobs", "parts"),
    [
        (1, [[1], [0, 2, 3], [4, 5]]),  # architectures
        (4, [[1], [2, 3], [0], [4, 5]]),
        (9, [[1], [0], [2], [3], [4, 5]]),  # kernels share a factor
    ],
)
def test_parts_are_architectures_and_then_halves(n_jobs, parts):
    assert split.parts_of(common(), n_jobs) == parts


def test_parts_that_do_not_fit_into_a_device_are_halved():
    assert len(split.parts_of(common(), 1, memory=1)) == 5


def worker(**changes):
    known = {"versions": {"torch": "2.7"}, "cpu_torch": "AVX2"}
    return workers_module.Worker("a", "token", {**known, **changes}, None)


def test_unlike_workers_are_warned_of(tmp_path):
    with pytest.warns(
        UserWarning, match="different cpu_torch: 'AVX2' on a and 'AVX512'"
    ):
        split.check_workers([worker(), worker(cpu_torch="AVX512")], tmp_path, "token")


def refused(what, monkeypatch, tmp_path):
    X, y = rows(60)
    if what == "disk":
        usage = namedtuple("usage", "free")(1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    if what == "blind":
        monkeypatch.setattr(split, "workers_of", lambda *given: [worker()])
    if what == "foreign":
        in_parts(X, y, [IncrementalReadout(GaussianNB()), READOUTS[0]])
    in_parts(X, y)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("disk", r"Processes need .* GB of disk space.*pass checkpoint=PATH on"),
        (
            "blind",
            r"Workers must share a folder to exchange results, but a cannot read",
        ),
        ("foreign", r"not code; leave 'GaussianNB' out, or pass n_jobs=None"),
    ],
)
def test_what_cannot_be_split_is_refused(what, sentence, monkeypatch, tmp_path):
    monkeypatch.setattr(split, "evaluate", None)  # nothing runs before
    with pytest.raises((ValueError, OSError), match=sentence):
        refused(what, monkeypatch, tmp_path)


class Stop:
    """A callback that ends a run after its second segment or round."""

    def setup(self, estimator, context):
        self.n_left = 2

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.n_left -= 1
        return not self.n_left

    def teardown(self, estimator, context):
        pass


@pytest.mark.skipif(not has_callbacks(), reason="scikit-learn 1.9 has callbacks")
@pytest.mark.parametrize("begun_in_parts", [False, True])
def test_a_pass_goes_on_in_one_process_or_in_parts(
    begun_in_parts, monkeypatch, tmp_path
):
    """A stream that was stopped is continued by whichever evaluator comes next."""
    X, y = rows()
    first, then = ("processes", 1) if begun_in_parts else (1, "processes")
    monkeypatch.setattr(split, "ROUND_BYTES", 0)
    monkeypatch.setattr(split, "SEGMENT", 50)
    one = switcher(checkpoint=tmp_path, n_jobs=first)
    with parallel_config(backend="threading"):
        one.set_callbacks(Stop()).fit(X, y)
    assert 0 < one.n_samples_seen_ < len(y)
    again = switcher(checkpoint=tmp_path, n_jobs=then)
    with parallel_config(backend="threading"):
        again.fit(X, y)
    assert_same(again, fitted(), X)


def test_workers_say_what_they_see(tmp_path):
    assert workers_module.introduce(str(tmp_path), "cpu", 0).token is None
    (tmp_path / split.PLAN).write_text(json.dumps({"token": "t"}))
    (found, *_) = split.workers_of(str(tmp_path), "cpu")
    assert found.token == "t"
    split.check_workers([found], tmp_path, "t")


def test_a_forecast_counts_rows_parts_and_bytes(tmp_path):
    X, y = rows(120)
    options = {"race": None, "n_jobs": "processes", "checkpoint": tmp_path}
    with parallel_config(n_jobs=2):
        few, many = (switcher(**options).dry_run(*given) for given in ((X, y), (X, y)))
        more = switcher(**options).dry_run(np.tile(X, (8, 1)), np.tile(y, 8))
    assert (few.n_rows, few.n_readouts, few.n_parts, few.n_processes) == (120, 6, 3, 2)
    assert few.trial_rows == 60
    assert 0.5 * few.cpu_seconds <= few.seconds <= few.cpu_seconds
    assert few.memory_bytes == many.memory_bytes
    losses = 2 * 8 * 6 * 7 * 120  # and posterior, of seven times as many rows
    features = 4 * X.shape[1] * 7 * 120
    assert more.disk_bytes - few.disk_bytes >= losses + 2 * features
    assert more.cpu_seconds > 2 * few.cpu_seconds
    assert "960 rows, 6 readouts in 3 parts in 2 processes: about" in str(more)
    assert not any(tmp_path.iterdir())
    one = switcher(REGRESSORS).dry_run(*rows(120, real=True))
    assert (one.n_parts, one.n_processes, one.disk_bytes) == (1, 1, 0)
    assert one.seconds == one.cpu_seconds


def test_windows_of_a_forecast_end_with_groups(monkeypatch):
    windows = []
    seconds = _pass_forecast.TimedParts.seconds

    def observed(timed, n_rows):
        windows.append([window.n_rows for window in timed.windows])
        return seconds(timed, n_rows)

    monkeypatch.setattr(_pass_forecast.TimedParts, "seconds", observed)
    X, y = np.tile(rows(400)[0], (3, 1)), np.tile(rows(400)[1], 3)
    few = switcher(READOUTS[:2], shuffle=False)
    for groups in (None, np.arange(1200) // 7):
        few.dry_run(X, y, groups=groups)
    assert windows == [[512, 88], [518, 82]]
