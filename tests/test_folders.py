"""Laws of the folders that are named by ``store`` and ``checkpoint``.

Nobody's files are touched but those of the stream itself, and no stream ever returns
the numbers of another: each is right, or an error.
"""

import copy
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from filelock import FileLock, Timeout
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    PrequentialSplit,
    RepresentationScorer,
)
from sklearn_mdl._core.io import whole_files
from sklearn_mdl._core.io.formats import with_format
from sklearn_mdl._core.io.safetensors_io import read_archive
from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.io.whole_files import (
    exclusive,
    filled,
    refuse_foreign,
    replaced,
    sweep,
)
from sklearn_mdl._core.stream import (
    checkpoint as checkpoint_module,
    threads as threads_module,
)
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl.encoders import FeatureCache
from sklearn_mdl.report import write_results
from sklearn_mdl.switcher import load_losses

resource = pytest.importorskip("resource", reason="limits of POSIX")

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS[:, 20:28]
N = 96


def data(which=0, n_rows=N):
    """Return rows of one dataset or another."""
    start = 300 * which
    return DIGITS[start : start + n_rows], LABELS[start : start + n_rows]


def small(**options):
    readouts = [LinearReadout(lr=lr, n_replay_streams=1) for lr in (0.01, 0.03)]
    return MDLReadoutSwitcher(readouts, random_state=0, device="cpu", **options)


def stream(which=0, **options):
    return small(**options).partial_fit(*data(which, 64), classes=range(10))


def assert_same(found, expected):
    for name in ("codelengths_", "readout_losses_", "posterior_"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
    np.testing.assert_array_equal(
        found.remix(None).codelengths, expected.remix(None).codelengths
    )
    X, _ = data(2, 10)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def often(monkeypatch):
    """Short segments, each of them written to the checkpoint."""
    monkeypatch.setattr(threads_module, "SEGMENT", 32)
    monkeypatch.setattr(checkpoint_module, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint_module, "SHARE", np.inf)


class Killed(BaseException):
    """Stands for a process that ends."""


def killed_after(monkeypatch, n_segments):
    whole, done = PrequentialRun.close_segment, []

    def end(self, *args):
        if len(done) == n_segments:
            raise Killed
        done.append(None)
        return whole(self, *args)

    monkeypatch.setattr(PrequentialRun, "close_segment", end)
    return lambda: monkeypatch.setattr(PrequentialRun, "close_segment", whole)


# Files of others

FOREIGN = ("features.npy", "losses.npy", "posterior.npy", "labels.npy")


@pytest.mark.parametrize(
    "places", [("store",), ("checkpoint",), ("store", "checkpoint")]
)
def test_files_of_others_stay_as_they_are(tmp_path, monkeypatch, places):
    X, y = data()
    for name in FOREIGN:
        np.save(tmp_path / name, X)
    for name in (
        "losses.json",
        "progress.safetensors",
        ".a.npy.0123abcd.mdl-part~",
        ".film.mkv.0123abcd.part",
    ):
        (tmp_path / name).write_text("{}")
    before = contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, ".", ""):
        options = dict.fromkeys(places, folder)
        fitted = small(shuffle=True, **options)
        assert_same(fitted.fit(X, y), small(shuffle=True).fit(X, y))
        assert_same(stream(**options), stream())
    assert before.items() <= contents(tmp_path).items()


def test_a_run_may_read_the_files_that_lie_beside_its_own(tmp_path):
    X, y = data()
    np.save(tmp_path / "features.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    found = small(store=tmp_path).fit(mapped, y)
    found.partial_fit(*data(1))  # not mapped
    expected = small().fit(X, y).partial_fit(*data(1))
    assert_same(found, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), X)


def test_a_folder_of_a_run_with_files_of_others_is_refused(tmp_path):
    folder = small(checkpoint=tmp_path).fit(*data()).store_
    for path in folder.iterdir():
        path.unlink()
    np.save(folder / "features.npy", DIGITS)
    before = contents(tmp_path)
    with pytest.raises(
        ValueError, match=r"of sklearn_mdl, but contains features\.npy; pass another"
    ):
        small(checkpoint=tmp_path).fit(*data())
    assert contents(tmp_path) == before
    other = StreamFolder(tmp_path, with_format("losses", {}))
    assert other.name == other.stream[:16]
    other.path.mkdir()
    text = json.dumps({**other.about, "stream": other.stream})  # without a writer
    (other.path / "losses.json").write_text(text)
    with pytest.raises(ValueError, match="but contains no trace; pass the folder"):
        other.adopt(other.stream)


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("store", "checkpoint"):
        with pytest.raises(ValueError, match=r"be a folder, but .*/file is a file"):
            small(**{place: tmp_path / "file"}).fit(*data())
    X, y = data()
    scorer = RepresentationScorer(small()).fit({"d": ({"x": X}, y)})
    for path in (tmp_path / "file", tmp_path / "file" / "inner"):
        with pytest.raises(ValueError, match=r"be a folder, but .*/file is a file"):
            FeatureCache(path).features(PCA(2), X)
        with pytest.raises(ValueError, match=r"be a folder, but .*/file is a file"):
            write_results(scorer, path)
    assert (tmp_path / "file").read_text() == "mine"


# One folder for many streams


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_loop_over_datasets_with_one_store_can_be_run_again(tmp_path, has_checkpoint):
    for _ in range(2):
        fits = []
        for which in (0, 1):
            options = {"store": tmp_path / "store"}
            if has_checkpoint:
                options["checkpoint"] = tmp_path / f"checkpoint {which}"
            fits.append(small(**options).fit(*data(which)))
        for which, found in enumerate(fits):  # losses are first mapped here
            assert_same(found, small().fit(*data(which)))


def test_a_checkpoint_does_not_go_on_over_the_trace_of_another(tmp_path):
    c, d1, d2 = (tmp_path / name for name in ("c", "d1", "d2"))
    whole = small(store=d1, checkpoint=c).fit(*data())
    small(store=d2).fit(*data(1))
    with pytest.raises(ValueError, match="but contains no trace; pass the folder"):
        small(store=d2, checkpoint=c).fit(*data())
    # Of the same settings and data, but of another stream.
    small(store=d2, checkpoint=tmp_path / "other").fit(*data())
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="but contains another trace; pass the folder"):
        small(store=d2, checkpoint=c).fit(*data())
    assert contents(tmp_path) == before
    assert_same(small(store=d1, checkpoint=c).fit(*data()), whole)


def test_two_streams_with_one_store_go_on_in_turn(tmp_path):
    one, two = stream(0, store=tmp_path), stream(1, store=tmp_path)
    for found, which in ((one, 0), (two, 1)):
        found.partial_fit(*data(which + 3))
        assert_same(found, stream(which).partial_fit(*data(which + 3)))


@pytest.mark.parametrize("place", ["store", "checkpoint"])
def test_a_fit_that_fails_leaves_the_one_before(tmp_path, monkeypatch, often, place):
    options = {place: tmp_path}
    for again in (0, 1):  # the same rows, or others
        found = small(**options).fit(*data())
        if again:
            live_again = killed_after(monkeypatch, 2)
            with pytest.raises(Killed):
                found.fit(*data(again))
            live_again()
        elif place == "store":
            live_again = killed_after(monkeypatch, 2)
            with pytest.raises(Killed):
                found.fit(*data())
            live_again()
        found = pickle.loads(pickle.dumps(found))
        assert_same(found, small().fit(*data()))
        found.partial_fit(*data(1))
        assert_same(found, small().fit(*data()).partial_fit(*data(1)))


def test_a_fit_that_is_refused_leaves_the_others_in_its_folder(tmp_path):
    live = small(checkpoint=tmp_path).fit(*data())
    before = contents(tmp_path)
    X, y = data(1)
    for X_bad, y_bad in ((X * np.nan, y), (X, y[:-1]), (X, np.zeros(N))):
        with pytest.raises(ValueError, match=r"NaN|inconsistent|class"):
            clone(live).fit(X_bad, y_bad)
    (path,) = tmp_path.glob("*/progress.safetensors")
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="checksum"):
        clone(live).fit(*data())
    assert contents(tmp_path).keys() == before.keys()
    live = pickle.loads(pickle.dumps(live)).partial_fit(*data(1))
    assert_same(live, small().fit(*data()).partial_fit(*data(1)))


def test_a_stream_that_another_run_goes_on_with_is_refused_to_the_first(tmp_path):
    first = small(checkpoint=tmp_path).fit(*data())
    first.partial_fit(*data(1))
    waiting = pickle.loads(pickle.dumps(first))
    second = small(checkpoint=tmp_path).fit(*data())
    assert_same(second, small().fit(*data()))
    second.partial_fit(*data(2))  # as many rows, but others
    for use in (
        lambda: waiting.readout_losses_,
        lambda: waiting.remix(None),
        lambda: waiting.posterior_,
        lambda: waiting.partial_fit(*data(3)),
        lambda: first.partial_fit(*data(3)),
    ):
        with pytest.raises(ValueError, match="another run has written to them; call"):
            use()
    assert_same(second, small().fit(*data()).partial_fit(*data(2)))


def test_reading_a_run_that_has_ended_takes_it_from_nobody(tmp_path):
    first = small(checkpoint=tmp_path).fit(*data())
    first.partial_fit(*data(1))
    second = small(checkpoint=tmp_path).fit(*data())
    assert_same(second, small().fit(*data()))
    first = pickle.loads(pickle.dumps(first)).partial_fit(*data(2))
    assert_same(first, small().fit(*data()).partial_fit(*data(1)).partial_fit(*data(2)))


def test_maps_that_are_open_keep_their_numbers(tmp_path):
    first = small(checkpoint=tmp_path).fit(*data()).partial_fit(*data(1))
    losses, kept = first.readout_losses_, np.array(first.readout_losses_)
    small(checkpoint=tmp_path).fit(*data()).partial_fit(*data(2, 10))
    np.testing.assert_array_equal(losses, kept)


def test_files_that_are_gone_are_told_in_a_sentence(tmp_path):
    found = pickle.loads(pickle.dumps(small(store=tmp_path).fit(*data())))
    for path in found.store_.glob("losses.*"):
        path.unlink()
    with pytest.raises(ValueError, match="but they are gone; call fit again"):
        found.remix("bayes")
    with pytest.raises(ValueError, match="but they are gone; call fit again"):
        found.partial_fit(*data(1))


@pytest.mark.parametrize("name", ["losses.npy", "posterior.npy", "features.npy"])
def test_copies_of_a_stream_go_on_one_by_one(tmp_path, name):
    first = stream(store=tmp_path)
    other = copy.deepcopy(first)
    other.partial_fit(*data(1, 5))
    before = contents(tmp_path)
    for rows in (data(2, 5), data(2, 7)):
        with pytest.raises(ValueError, match=r"pass another store= to each fit$"):
            first.partial_fit(*rows)
    assert contents(tmp_path) == before
    assert_same(first, stream())
    assert_same(other, stream().partial_fit(*data(1, 5)))


def test_an_id_stands_in_every_file_or_beside_it(tmp_path):
    found = small(checkpoint=tmp_path).fit(*data())
    stamp = json.loads((found.store_ / "losses.json").read_text())
    _, about = read_archive(found.store_ / "progress.safetensors", "checkpoint")
    assert stamp["stream"] == about["trace"]["stream"]
    assert len(found.store_.name) == 16
    assert len(stamp["stream"]) == len(stamp["writer"]) == 32
    again = small(store=tmp_path).fit(*data())
    assert stamp["stream"] != json.loads((again.store_ / "losses.json").read_text())
    assert load_losses(again.store_ / "losses.npy").readouts == again.readout_names_


# Processes side by side: functions that a process of its own calls, since it forks


def child_of(function, *args):
    """Run a function in a forked process; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = function(*args)
    except ValueError:
        code = 2
    finally:
        os._exit(code)


def end_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def race(folder, kind, n_times):
    """Let two processes use one folder at once, so many times.

    Returns the numbers of those that were right, failed, were refused, were wrong.
    """
    warnings.simplefilter("ignore")  # of one that waits
    place = {("store" if kind in ("store", "copies") else "checkpoint"): folder}
    first = {1: 1, 2: 1 if kind == "same" else 2}

    def result(which, live, **options):
        if kind == "copies":
            return live.partial_fit(*data(which))
        return small(**options).fit(*data(first[which]))

    def run(which, live):
        found = result(which, live, **place)
        names = ("codelengths_", "readout_losses_", "posterior_")
        same = [
            np.array_equal(getattr(found, name), getattr(truth[which], name))
            for name in names
        ]
        return 0 if all(same) else 3

    truth = {which: result(which, stream()) for which in (1, 2)}
    codes = []
    for _ in range(n_times):
        live = stream(**place) if kind == "copies" else None
        pids = [child_of(run, which, live) for which in (1, 2)]
        codes += map(end_of, pids)
    return [codes.count(code) for code in range(4)]


def kill_again_and_again(root, n_kills):
    """Kill runs with checkpoints and stores at random places, then let one go on.

    Returns the numbers of kills, of temporary files and of checkpoints that are left.
    """
    checkpoint_module.SECONDS, checkpoint_module.SHARE = 0.0, float("inf")
    threads_module.SEGMENT = 32
    rng = np.random.default_rng(0)
    X, y = data(0, 800)

    def fits():
        small(checkpoint=root / "c", store=root / "s").fit(X, y)
        small(store=root / "alone").fit(X, y)
        return 0

    start = time.monotonic()
    end_of(child_of(fits))
    seconds, n_done = time.monotonic() - start, 0
    shutil.rmtree(root)
    while n_done < n_kills:
        pid = child_of(fits)
        time.sleep(rng.uniform(0, 0.5) * seconds)
        gone, _ = os.waitpid(pid, os.WNOHANG)
        if gone or n_done % 20 == 19:  # begin again
            shutil.rmtree(root, ignore_errors=not gone)
        if not gone:
            os.kill(pid, signal.SIGKILL)
            end_of(pid)
            n_done += 1
    found = small(checkpoint=root / "c", store=root / "s").fit(X, y)
    assert_same(found, small().fit(X, y))
    left = [path for place in "cs" for path in root.glob(f"{place}/*/.*.mdl-part")]
    return [n_done, len(left), len(list((root / "c").iterdir()))]


def outlive(folder):
    """Wait for a process that writes to a folder and is killed.

    Returns the numbers of its temporary files before that and afterwards.
    """

    def hold():
        with exclusive(folder), replaced(folder / "losses.json"):
            time.sleep(600)
        return 0

    pid, kept = child_of(hold), []
    while not list(folder.glob(".*.mdl-part")):
        time.sleep(0.01)
    with pytest.raises(Timeout):
        FileLock(folder / ".lock").acquire(timeout=0)

    def kill_now(message):
        assert "another call that writes to" in message
        sweep(folder)
        kept.append(len(list(folder.glob(".*.mdl-part"))))
        os.kill(pid, signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_files, "warn_caller", kill_now)
        with exclusive(folder):
            return [*kept, len(list(folder.glob(".*.mdl-part"))), end_of(pid)]


def in_a_process_of_its_own(*calls):
    """Call functions of this module, each with a folder first; return the numbers."""
    script = f"""
    import importlib.util, sys
    from pathlib import Path
    spec = importlib.util.spec_from_file_location("tests_of_folders", {__file__!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, folder, *arguments in {calls!r}:
        print(getattr(module, name)(Path(folder), *arguments))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_processes_with_one_folder_and_kills(tmp_path):
    same, copies, outlived, killed = in_a_process_of_its_own(
        ("race", str(tmp_path / "same"), "same", 2),
        ("race", str(tmp_path / "copies"), "copies", 2),
        ("outlive", str(tmp_path / "outlive")),
        ("kill_again_and_again", str(tmp_path / "kills"), 2),
    )
    assert same == [4, 0, 0, 0]
    assert copies == [2, 0, 2, 0]  # of two copies one may go on
    assert outlived == [1, 0, -9]
    assert killed == [2, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["store", "checkpoint", "same", "copies"])
def test_two_processes_with_one_folder_200_times(tmp_path, kind):
    (found,) = in_a_process_of_its_own(("race", str(tmp_path), kind, 200))
    assert found == ([200, 0, 200, 0] if kind == "copies" else [400, 0, 0, 0])


@pytest.mark.slow
def test_200_kills_leave_a_run_that_goes_on_and_nothing_else(tmp_path):
    call = ("kill_again_and_again", str(tmp_path / "kills"), 200)
    assert in_a_process_of_its_own(call) == [[200, 0, 1]]


def test_whoever_waits_says_so(tmp_path):
    with (
        exclusive(tmp_path),
        pytest.raises(UserWarning, match=r"waiting for another call"),
    ):
        exclusive(tmp_path).__enter__()


# What killed processes leave


def test_left_overs_of_older_processes_are_swept(tmp_path, tmp_path_factory):
    with replaced(tmp_path_factory.mktemp("before") / "first"):
        pass  # a forked process counts as started when it first writes
    names = (".a.npy.0123abcd.mdl-part", ".b.npy.0123abcd.mdl-part", ".c.mdl-part")
    old, young, odd = (tmp_path / name for name in names)
    for path in (old, young, odd):
        path.write_text("left")
    for path in (old, odd):
        os.utime(path, (1e9, 1e9))
    os.utime(young, (time.time(),) * 2)  # clocks of file systems are coarser
    with replaced(tmp_path / "new") as aside:
        assert not old.exists()
        assert young.exists()
        assert aside.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [young.name, odd.name, "new"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no folders")
def test_partial_folders_are_swept_as_files_are(tmp_path):
    """That of a live writer stays, and so do folders of other names."""
    names = (
        ".files.0123abcd.mdl-part",
        ".files.4567cdef.mdl-part",
        ".part-of.mdl-part",
    )
    left, young, odd = (tmp_path / name for name in names)
    for folder in (left, young, odd):
        folder.mkdir()
        (folder / "cells.csv").write_text("left")
    for folder in (left, odd):
        os.utime(folder, (1e9, 1e9))
    with filled(tmp_path) as live:
        assert not left.exists()
        assert young.exists()
        (live / "new.csv").write_text("new")
        sweep(tmp_path)
        assert not young.exists()
        assert (live / "new.csv").read_text() == "new"
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == [odd.name, ".sklearn_mdl", "new.csv"]


def kill_before_the_end(folder):
    """Fill a folder in a process that is killed, then in one that is not.

    Returns the numbers of files and partial folders that each of them left.
    """

    def fill(is_killed):
        with filled(folder) as aside:
            (aside / "a.csv").write_text("a")
            if is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
        return 0

    counts = []
    for is_killed in (True, False):
        end_of(child_of(fill, is_killed))
        counts += [len(list(folder.glob(name))) for name in ("*.csv", ".*.mdl-part")]
    return counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_sweeps_what_a_killed_sibling_left(tmp_path):
    call = ("kill_before_the_end", str(tmp_path))
    assert in_a_process_of_its_own(call) == [[0, 1, 1, 0]]


# Full disks


class Limit:
    """A disk on which no file may be longer than so many bytes."""

    def __init__(self, n_bytes):
        self.n_bytes = n_bytes

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.n_bytes, self.before[1]))

    def __exit__(self, *error):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


def blocks(size=32, n_rows=256):
    return [
        (DIGITS[i : i + size], LABELS[i : i + size]) for i in range(0, n_rows, size)
    ]


@pytest.mark.parametrize("what", ["features", "losses"])
def test_a_stream_goes_on_after_a_full_disk(tmp_path, what):
    X = DIGITS if what == "features" else DIGITS[:, :1]
    expected = small().partial_fit(X[:32], LABELS[:32], classes=range(10))
    found = small(store=tmp_path).partial_fit(X[:32], LABELS[:32], classes=range(10))
    failed = []
    # Rows of 32 bytes of features and 16 of losses; or of 4 and 16.
    limit = 128 + 80 * (32 if what == "features" else 16)
    at = 32
    while at < 224:
        rows = slice(at, at + 32)
        try:
            with Limit(limit):
                found.partial_fit(X[rows], LABELS[rows])
        except OSError:
            failed.append(found.n_samples_seen_)
            if found.n_samples_seen_ == at:  # nothing was taken in
                found.partial_fit(X[rows], LABELS[rows])
            limit = 10**6
        at += 32
        assert found.n_samples_seen_ == at
    expected.partial_fit(X[32:224], LABELS[32:224])
    assert failed == ([64] if what == "features" else [96])
    for name in ("codelengths_", "readout_losses_", "posterior_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(
        np.load(found.store_ / "losses.npy"), expected.readout_losses_
    )
    np.testing.assert_array_equal(np.load(found.store_ / "features.npy"), X[:224])


def test_losses_that_wait_for_room_are_an_error_and_then_all_there(tmp_path):
    X, y = DIGITS[:, :1], LABELS
    found = small(store=tmp_path).partial_fit(X[:32], y[:32], classes=range(10))
    with Limit(128 + 40 * 16):
        for _ in range(2):
            with pytest.raises(OSError, match="too large"):
                found.partial_fit(X[32:64], y[32:64])
            assert found.n_samples_seen_ == 64  # they were learned, once
            with pytest.raises(OSError, match="too large"):
                found.readout_losses_.sum()
        other = pickle.loads(pickle.dumps(found))
    assert len(other.readout_losses_) == 64
    expected = small().partial_fit(X[:64], y[:64], classes=range(10))
    np.testing.assert_array_equal(other.readout_losses_, expected.readout_losses_)


@pytest.fixture
def little_disk(tmp_path):
    """A file system of a few kilobytes, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_stream_goes_on_after_a_disk_of_little_room(little_disk):
    filler, n_full = little_disk / "filler", 0
    filler.write_bytes(b"0" * 50_000)
    found = small(store=little_disk).partial_fit(*blocks()[0], classes=range(10))
    expected = small().partial_fit(*blocks()[0], classes=range(10))
    for X, y in blocks(n_rows=800)[1:]:
        before = found.n_samples_seen_
        try:
            found.partial_fit(X, y)
        except OSError:
            n_full += 1
            with pytest.raises(OSError, match="No space left"):
                (little_disk / "more").write_bytes(b"0" * 100_000)
            (little_disk / "more").unlink()
            filler.unlink()
            if found.n_samples_seen_ == before:
                found.partial_fit(X, y)
        expected.partial_fit(X, y)
    assert n_full == 1
    assert_same(found, expected)


# Searches and loops


def search(n_jobs=None, **options):
    grid = {"switching": ["bayes", "fixed-share"]}
    return GridSearchCV(small(**options), grid, cv=2, n_jobs=n_jobs, refit=True)


@pytest.mark.parametrize("place", ["store", "checkpoint"])
def test_a_search_may_share_one_folder(tmp_path, place):
    X, y = data()
    expected = search().fit(X, y)
    for _ in range(2):
        found = search(**{place: tmp_path}).fit(X, y)
        for name in ("mean_test_score", "std_test_score"):
            np.testing.assert_array_equal(
                found.cv_results_[name], expected.cv_results_[name]
            )
        assert_same(found.best_estimator_, expected.best_estimator_)
    n_fits = 2 * 2 + 1
    n_folders = n_fits if place == "checkpoint" else 2 * n_fits
    assert len(list(tmp_path.iterdir())) == n_folders


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on(tmp_path, monkeypatch, often):
    X, y = data()
    live_again = killed_after(monkeypatch, 7)
    with pytest.raises(Killed):
        search(checkpoint=tmp_path).fit(X, y)
    live_again()
    closed, whole = [], PrequentialRun.close_segment
    monkeypatch.setattr(
        PrequentialRun,
        "close_segment",
        lambda self, *args: (closed.append(self.n_scored), whole(self, *args))[1],
    )
    found = search(checkpoint=tmp_path).fit(X, y)
    n_resumed, expected = len(closed), search().fit(X, y)
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    assert n_resumed == len(closed) - n_resumed - 7


@pytest.mark.parametrize(
    ("backend", "n_jobs"),
    [(None, None), ("threading", 2), pytest.param("loky", 2, marks=pytest.mark.slow)],
)
def test_loops_and_scorers_may_share_one_folder(tmp_path, backend, n_jobs):
    X, y = data()
    grid = {"pca__n_components": [1, 3], "pca__copy": [True, False]}  # two are alike

    def scores(n_jobs=None, **options):
        scorer = RepresentationScorer(small(**options))
        pipeline = make_pipeline(PCA(random_state=0))
        found = GridSearchCV(
            pipeline, grid, scoring=scorer, cv=PrequentialSplit(), n_jobs=n_jobs
        )
        folds = cross_validate(small(**options), X, y, cv=3, n_jobs=n_jobs)
        means = found.fit(X, y).cv_results_["mean_test_score"]
        return [*means, *folds["test_score"]]

    with warnings.catch_warnings(), parallel_config(backend or "sequential"):
        warnings.filterwarnings("ignore", "waiting for another call")
        found = scores(n_jobs, checkpoint=tmp_path / "c", store=tmp_path / "s")
    assert found == scores()
    assert np.isfinite(found).all()


def test_an_error_says_which_files_may_be_replaced(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(ValueError, match="must be new, but"):
        refuse_foreign(tmp_path / "a")
    with pytest.raises(ValueError, match="must be new or written by sklearn_mdl, but"):
        refuse_foreign(tmp_path / "a", lambda path: False)
    refuse_foreign(tmp_path / "a", lambda path: path.name == "a")
    refuse_foreign(tmp_path / "b")
