"""Laws of runs that are broken off: nothing is lost but a segment, no bit is moved."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core.io import (
    append_array,
    safetensors_io as archives,
    whole_files,
)
from sklearn_mdl._core.stream import (
    checkpoint as checkpoint_module,
    threads as threads_module,
)
from sklearn_mdl._core.stream.checkpoint import progress_of, resume
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.threads import Threads
from sklearn_mdl.readouts import _build as plan
from sklearn_mdl.readouts._stack import NetStack

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

DIGITS, LABELS = load_digits(return_X_y=True)
CALIBRATED = {"ema_step_size": 0.1, "n_replay_streams": 3}
PRIORS = ["learned-share", "fixed-share", "run-length", "bayes", "elementwise"]


@pytest.fixture(autouse=True)
def at_every_segment(monkeypatch):
    """Segments of two minibatches, each of them written down."""
    monkeypatch.setattr(threads_module, "SEGMENT", 32)
    monkeypatch.setattr(checkpoint_module, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint_module, "SHARE", np.inf)


@pytest.fixture(autouse=True)
def ctrl_c_as_in_a_terminal():
    """A process in the background of a shell begins with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def data(n_rows=136):
    return DIGITS[:n_rows], LABELS[:n_rows]


def pool(**options):
    readouts = [
        LinearReadout(lr=0.01, scaling="standard", **CALIBRATED),
        LinearReadout(lr=0.01, scaling="whiten", ema_step_size=1.0, n_replay_streams=3),
        MLPReadout((7, 5), lr=0.01, scaling=None, **CALIBRATED),
        MLPReadout((7, 5), lr=1e20, scaling=None, n_replay_streams=2),  # it diverges
    ]
    options = {"batch_size": 16, "random_state": 0, "device": "cpu", **options}
    return MDLReadoutSwitcher(readouts, **options)


@cache
def uninterrupted(**options):
    """A run without a checkpoint, which several tests compare with."""
    return pool(**options).fit(*data())


def wide_pool(**options):
    """Many readouts of few shapes, that follow trainings of their own and others'."""
    readouts = [
        MLPReadout(hidden, lr=lr, ema_step_size=step, calibration=step != 0.1)
        for hidden in ((), (6,))
        for step in (0.1, 1.0, 0.02)
        for lr in (0.01, 0.02, 0.04)
    ]
    return pool(**options).set_params(readouts=readouts)


def folder_in(root):
    """Return the folder of the one run that was begun there."""
    (folder,) = root.iterdir()
    return folder


def files_in(folder):
    """Names of the files, but for that of the lock, which some versions remove."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def assert_same_run(found, expected):
    for name in ("readout_losses_", "codelengths_", "posterior_", "order_"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert found.diverged_readouts_ == expected.diverged_readouts_
    np.testing.assert_array_equal(found.diverged_at_, expected.diverged_at_)
    np.testing.assert_array_equal(
        found.predict_log_proba(DIGITS[-30:]), expected.predict_log_proba(DIGITS[-30:])
    )
    assert found.measures() == expected.measures()


class Killed(BaseException):
    """Stands for a process that ends."""


def killed_after(monkeypatch, n_segments, method=(PrequentialRun, "close_segment")):
    """Let a run end with the next segment after so many."""
    whole, done = getattr(*method), []

    def end(self, *args):
        if len(done) == n_segments:
            raise Killed
        done.append(None)
        return whole(self, *args)

    monkeypatch.setattr(*method, end)
    return lambda: monkeypatch.setattr(*method, whole)


# Killed and resumed


@pytest.mark.parametrize(
    ("switching", "n_segments"), list(zip(PRIORS, [0, 1, 3, 5, 1], strict=True))
)
def test_a_run_that_was_killed_goes_on_to_the_same_bits(
    tmp_path, monkeypatch, switching, n_segments
):
    options = {"switching": switching, "shuffle": True}
    live_again = killed_after(monkeypatch, n_segments)
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path, **options).fit(*data())
    live_again()
    resumed = pool(checkpoint=tmp_path, **options).fit(*data())
    assert_same_run(resumed, uninterrupted(**options))


@pytest.mark.parametrize(
    "method", [(Threads, "open"), (PrequentialRun, "close_segment")]
)
def test_a_run_may_be_killed_time_and_again(tmp_path, monkeypatch, method):
    for _ in range(20):
        live_again = killed_after(monkeypatch, 1, method)
        switcher = pool(checkpoint=str(tmp_path))
        try:
            switcher.fit(*data())
            break
        except Killed:
            live_again()
    else:
        pytest.fail("no run came to its end")
    live_again()
    assert_same_run(switcher, uninterrupted())


def test_a_run_resumes_where_the_last_whole_segment_ended(tmp_path, monkeypatch):
    live_again = killed_after(monkeypatch, 4)
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path).fit(*data())
    live_again()
    begun = []
    open_segment = Threads.open
    monkeypatch.setattr(
        Threads,
        "open",
        lambda self, stop: begun.append(self.n_scored) or open_segment(self, stop),
    )
    pool(checkpoint=tmp_path).fit(*data())
    assert begun[0] == 96  # segments end at 16, 32, 64 and 96 rows


def test_a_run_that_ended_is_read_and_not_scored_again(tmp_path, monkeypatch):
    whole = pool(checkpoint=tmp_path).fit(*data())
    monkeypatch.setattr(Threads, "open", None)
    read = pool(checkpoint=tmp_path).fit(*data())
    monkeypatch.undo()
    assert_same_run(read, whole)
    expected = pool().fit(*data())
    for each in (read, expected):
        each.partial_fit(DIGITS[136:150], LABELS[136:150])
    np.testing.assert_array_equal(read.codelengths_, expected.codelengths_)


def test_the_trace_of_a_checkpoint_may_lie_elsewhere(tmp_path, monkeypatch):
    places = {"checkpoint": tmp_path / "state", "store": tmp_path / "trace"}
    live_again = killed_after(monkeypatch, 5)
    with pytest.raises(Killed):
        pool(**places).fit(*data())
    live_again()
    assert_same_run(pool(**places).fit(*data()), uninterrupted())
    assert files_in(folder_in(tmp_path / "state")) == ["progress.safetensors"]
    assert "losses.npy" in files_in(folder_in(tmp_path / "trace"))


def test_rows_after_the_last_checkpoint_are_scored_again(tmp_path, monkeypatch):
    # The trace has grown by two segments more, the last of them torn.
    live_again = killed_after(monkeypatch, 3)
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path).fit(*data())
    live_again()
    for name in ("losses.npy", "posterior.npy"):
        with (folder_in(tmp_path) / name).open("ab") as file:
            file.write(b"torn" * 77)
    assert_same_run(pool(checkpoint=tmp_path).fit(*data()), uninterrupted())


def test_a_checkpoint_of_another_process_with_other_jobs_goes_on(tmp_path, monkeypatch):
    live_again = killed_after(monkeypatch, 5)
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path).fit(*data())
    live_again()
    resumed = pool(checkpoint=tmp_path, n_jobs=2, verbose=0).fit(*data())
    assert_same_run(resumed, uninterrupted())


@pytest.mark.parametrize("sizes", [(1, 10**9), (10**9, 1), (3000, 10**9)])
def test_a_run_goes_on_in_stacks_that_are_cut_otherwise(tmp_path, monkeypatch, sizes):
    # As they are where there is another number of jobs, or another device.
    live_again = killed_after(monkeypatch, 5)
    with pytest.raises(Killed):
        wide_pool(checkpoint=tmp_path).fit(*data())
    live_again()
    whole = wide_pool().fit(*data())
    monkeypatch.setattr(plan, "CACHE", sizes[0])
    monkeypatch.setattr(plan, "WORTH_A_JOB", sizes[1])
    resumed = wide_pool(checkpoint=tmp_path, n_jobs=2).fit(*data())
    assert len(resumed._run.learners) > len(whole._run.learners)
    assert_same_run(resumed, whole)
    resumed.save(tmp_path / "a.safetensors")
    monkeypatch.undo()
    loaded = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    loaded.set_params(n_jobs=None)
    for each in (loaded, whole):
        each.partial_fit(DIGITS[136:180], LABELS[136:180])
    np.testing.assert_array_equal(loaded.codelengths_, whole.codelengths_)


# What does not go on


def changed(array, at=5):
    array = np.array(array)
    array[at] = array[at - 1]
    return array


OTHERS = {
    "settings.batch_size": ({"batch_size": 8}, lambda X, y: (X, y)),
    "settings.shuffle": ({"shuffle": True}, lambda X, y: (X, y)),
    "settings.switching": ({"switching": "bayes"}, lambda X, y: (X, y)),
    "settings.readouts": ({"readouts": [LinearReadout()]}, lambda X, y: (X, y)),
    "settings.random_state": ({"random_state": 1}, lambda X, y: (X, y)),
    "X.shape": ({}, lambda X, y: (X[:-1], y[:-1])),
    "X.sha256": ({}, lambda X, y: (changed(X), y)),
    "y": ({}, lambda X, y: (X, changed(y))),
}


def test_other_runs_leave_the_first_as_it_is(tmp_path):
    whole = pool(checkpoint=tmp_path).fit(*data(48))
    first = folder_in(tmp_path)
    before = {file: (first / file).read_bytes() for file in files_in(first)}
    for n_others, (options, change) in enumerate(OTHERS.values(), 1):
        other = pool(checkpoint=tmp_path).set_params(**options)
        plain = pool().set_params(**options).fit(*change(*data(48)))
        assert_same_run(other.fit(*change(*data(48))), plain)
        assert len(list(tmp_path.iterdir())) == 1 + n_others
        assert {file: (first / file).read_bytes() for file in files_in(first)} == before
    assert_same_run(pool(checkpoint=tmp_path).fit(*data(48)), whole)


@pytest.mark.parametrize("name", ["settings.batch_size", "X.sha256", "y"])
def test_a_checkpoint_in_the_folder_of_another_run_is_refused(tmp_path, name):
    options, change = OTHERS[name]
    pool(checkpoint=tmp_path).fit(*data(48))
    first = folder_in(tmp_path)
    other = pool(checkpoint=tmp_path).set_params(**options).fit(*change(*data(48)))
    (first / "progress.safetensors").replace(other.store_ / "progress.safetensors")
    before = {file: (other.store_ / file).read_bytes() for file in files_in(first)[:-1]}
    with pytest.raises(ValueError, match=rf"{name}.* was .* pass another folder"):
        other.fit(*change(*data(48)))
    assert {f: (other.store_ / f).read_bytes() for f in before} == before
    assert other.readout_losses_.sum() > 0


def test_numbers_that_come_back_as_texts_are_another_run(tmp_path):
    # As texts "10" is before "5": the same labels would have other numbers.
    X, y = data(40)
    pool(checkpoint=tmp_path).fit(X, y + 5)
    texts = pool(checkpoint=tmp_path).fit(X, (y + 5).astype(str))
    assert_same_run(texts, pool().fit(X, (y + 5).astype(str)))


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_a_checkpoint_needs_a_seed_that_can_be_written_down(tmp_path, random_state):
    switcher = pool(checkpoint=tmp_path, random_state=random_state)
    with pytest.raises(ValueError, match="random_state must be an integer"):
        switcher.fit(*data())


def test_a_run_that_goes_on_elsewhere_says_so(tmp_path, monkeypatch):
    pool(checkpoint=tmp_path).fit(*data(48))
    monkeypatch.setattr(
        "sklearn_mdl._core.io.environment.version_of", lambda name: "0.0"
    )
    words = "versions.* and is resumed with '0.0'"
    with pytest.warns(UserWarning, match=words) as record:
        pool(checkpoint=tmp_path).fit(*data(48))
    assert {warning.filename for warning in record} == {__file__}


@pytest.mark.parametrize("at", [3, 100, 5000, -3])
def test_a_damaged_checkpoint_is_never_taken_for_a_whole_one(tmp_path, at):
    pool(checkpoint=tmp_path).fit(*data(48))
    path = folder_in(tmp_path) / "progress.safetensors"
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"progress\.safetensors must hold"):
        pool(checkpoint=tmp_path).fit(*data(48))
    path.write_bytes(content[:at])
    with pytest.raises(ValueError, match=r"progress\.safetensors must hold"):
        pool(checkpoint=tmp_path).fit(*data(48))


def test_a_run_of_fewer_rows_does_not_go_on():
    longer, shorter = pool().fit(*data(80)), pool().fit(*data(48))
    with pytest.raises(ValueError, match="the 80 rows that were evaluated, got 48"):
        resume(shorter._run, progress_of(longer._run))


def test_stacks_take_over_nothing_from_other_readouts():
    (stack, *_) = pool().fit(*data(48))._run.learners
    learned = stack.state_dict()
    column = min(learned)
    name = next(iter(learned[column]))
    del learned[column][name]
    with pytest.raises(ValueError, match=f"Readout {column} needs {name} of shape"):
        stack.load_state_dict(learned)


def test_a_readout_that_cannot_write_its_state_is_named(monkeypatch):
    fitted = pool().fit(*data(48))
    monkeypatch.setattr(NetStack, "state_dict", Learner.state_dict)
    with pytest.raises(TypeError, match=r"but ReadoutStack cannot; call pickle\.dump"):
        progress_of(fitted._run)


@pytest.mark.parametrize("name", ["losses.npy", "posterior.npy"])
def test_a_trace_that_is_damaged_gone_or_cut_is_not_guessed_at(tmp_path, name):
    whole = pool(checkpoint=tmp_path).fit(*data(48))
    path = folder_in(tmp_path) / name
    content = bytearray(path.read_bytes())
    for at in (128, 1000, -1):
        content[at] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} .* checksum differs"):
            pool(checkpoint=tmp_path).fit(*data(48))
        content[at] ^= 1
    path.write_bytes(content)
    assert_same_run(pool(checkpoint=tmp_path).fit(*data(48)), whole)
    for spoil in (
        lambda: os.truncate(path, 1000),
        lambda: path.write_bytes(b"\x93NUMPY\x01\x00\x02\x00{("),
        path.unlink,
    ):
        spoil()
        with pytest.raises(ValueError, match="must still contain the 48 rows"):
            pool(checkpoint=tmp_path).fit(*data(48))


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs file limits")
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    live_again = killed_after(monkeypatch, 4)
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path).fit(*data())
    live_again()
    size = (folder_in(tmp_path) / "progress.safetensors").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        with pytest.raises(OSError, match="too large"):
            pool(checkpoint=tmp_path).fit(*data())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(folder_in(tmp_path).glob(".*.part"))
    assert_same_run(pool(checkpoint=tmp_path).fit(*data()), uninterrupted())


def test_an_error_between_segments_gives_the_threads_back(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("no room")

    monkeypatch.setattr(checkpoint_module.Checkpoint, "act", fail)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(OSError, match="no room") as caught:
            pool(checkpoint=tmp_path).fit(*data())
        # Also while the frames of the error still hold the run.
        assert (torch.get_num_threads(), caught.type) == (2, OSError)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
@pytest.mark.parametrize("call", [0, 3, 9])
def test_writing_may_be_killed_at_any_place(tmp_path, monkeypatch, name, call):
    class Disk:
        """What ``os`` does, up to some call."""

        calls = 0

        def __getattr__(self, asked):
            def called(*args):
                if asked == name:
                    Disk.calls += 1
                    if Disk.calls > call:
                        raise Killed
                return getattr(os, asked)(*args)

            return called if callable(getattr(os, asked)) else getattr(os, asked)

    for module in (whole_files, archives, append_array):
        monkeypatch.setattr(module, "os", Disk())
    with pytest.raises(Killed):
        pool(checkpoint=tmp_path).fit(*data())
    for module in (whole_files, archives, append_array):
        monkeypatch.setattr(module, "os", os)
    assert_same_run(pool(checkpoint=tmp_path).fit(*data()), uninterrupted())


# Ctrl-C


def asked_in_segment(monkeypatch, n_segments, n_times=1):
    """Press Ctrl-C inside a segment."""
    whole, done = Threads.open, []

    def press(self, stop):
        whole(self, stop)
        done.append(None)
        if len(done) == n_segments:
            for _ in range(n_times):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Threads, "open", press)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_interrupted_run_ends_with_its_segment_and_can_go_on(monkeypatch, method):
    X, y = data()
    asked_in_segment(monkeypatch, 4)
    switcher = pool()
    options = {"classes": range(10)} if method == "partial_fit" else {}
    with pytest.raises(KeyboardInterrupt):
        getattr(switcher, method)(X, y, **options)
    monkeypatch.undo()
    assert switcher.n_samples_seen_ == 96
    whole = pool().fit(X, y)
    np.testing.assert_array_equal(switcher.codelengths_, whole.codelengths_[:96])
    assert switcher.predict(X).shape == (136,)
    switcher.partial_fit(X[96:], y[96:])
    np.testing.assert_array_equal(switcher.codelengths_, whole.codelengths_)
    np.testing.assert_array_equal(switcher.readout_losses_, whole.readout_losses_)


def test_a_stream_in_files_can_go_on_after_an_interruption(tmp_path, monkeypatch):
    X, y = data()
    asked_in_segment(monkeypatch, 3)
    switcher = pool(store=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        switcher.fit(X, y)
    monkeypatch.undo()
    switcher.partial_fit(X[64:], y[64:])
    np.testing.assert_array_equal(switcher.codelengths_, pool().fit(X, y).codelengths_)
    np.testing.assert_array_equal(np.load(switcher.store_ / "features.npy"), X)


def test_an_interrupted_fit_knows_its_order(monkeypatch):
    asked_in_segment(monkeypatch, 4)
    switcher = pool(shuffle=True)
    with pytest.raises(KeyboardInterrupt):
        switcher.fit(*data())
    monkeypatch.undo()
    whole = pool(shuffle=True).fit(*data())
    np.testing.assert_array_equal(switcher.order_, whole.order_[:96])


def test_an_interrupted_run_with_a_checkpoint_goes_on(tmp_path, monkeypatch):
    asked_in_segment(monkeypatch, 4)
    monkeypatch.setattr(checkpoint_module, "SECONDS", 1e9)  # written on leaving
    with pytest.raises(KeyboardInterrupt):
        pool(checkpoint=tmp_path).fit(*data())
    monkeypatch.undo()
    assert_same_run(pool(checkpoint=tmp_path).fit(*data()), uninterrupted())


def test_a_second_ctrl_c_does_not_wait(monkeypatch):
    before = pool().fit(*data(60))
    kept = before.codelengths_
    asked_in_segment(monkeypatch, 4, n_times=2)
    with pytest.raises(KeyboardInterrupt):
        before.fit(*data())
    np.testing.assert_array_equal(before.codelengths_, kept)


def test_ctrl_c_is_itself_again_after_a_run_and_elsewhere_untouched():
    handler = signal.getsignal(signal.SIGINT)
    pool().fit(*data(40))
    assert signal.getsignal(signal.SIGINT) is handler
    scored = []
    thread = threading.Thread(target=lambda: scored.append(pool().fit(*data(40))))
    thread.start()
    thread.join()
    assert len(scored) == 1


# Killed processes


FORKS = """
import os
import shutil
import signal
import sys
import threading
from functools import cache
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher
from sklearn_mdl._core.stream import checkpoint
from sklearn_mdl._core.stream import threads

checkpoint.SECONDS, checkpoint.SHARE = 0.0, float("inf")
threads.SEGMENT = 32
folder, n_kills = sys.argv[1], int(sys.argv[2])
X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(os.getpid())
readouts = [LinearReadout(lr=lr, n_replay_streams=30) for lr in (0.01, 0.03)]


def switcher(**options):
    options = {"random_state": 0, "batch_size": 32, "shuffle": True, **options}
    return MDLReadoutSwitcher(readouts, device="cpu", **options)


def child():
    pid = os.fork()
    if not pid:
        try:
            switcher(checkpoint=folder).fit(X, y)
        finally:
            os._exit(0)
    return pid


n_finished, start = 0, time.monotonic()
os.waitpid(child(), 0)
seconds = time.monotonic() - start
shutil.rmtree(folder)
signals = [signal.SIGKILL, signal.SIGTERM]
for kill in range(n_kills):
    pid = child()
    time.sleep(rng.uniform(0, 0.12) * seconds)
    gone, _ = os.waitpid(pid, os.WNOHANG)
    if gone:  # it came to its end: begin again
        n_finished += 1
        shutil.rmtree(folder)
        continue
    os.kill(pid, signals[kill % 4 == 3])
    os.waitpid(pid, 0)
resumed = switcher(checkpoint=folder).fit(X, y)
whole = switcher().fit(X, y)
np.testing.assert_array_equal(resumed.codelengths_, whole.codelengths_)
np.testing.assert_array_equal(resumed.readout_losses_, whole.readout_losses_)
np.testing.assert_array_equal(resumed.posterior_, whole.posterior_)
assert not list(Path(folder).glob("**/.*.part"))
print(n_kills - n_finished, n_finished)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_process_killed_at_random_points_loses_nothing(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(FORKS), str(tmp_path), "70"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    n_kills, _ = map(int, done.stdout.split())
    assert n_kills >= 50
