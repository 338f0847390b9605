"""Laws of the store of rows, and of runs over rows that lie on disk."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core.io.formats import with_format
from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.stream import (
    run as run_module,
    samples as samples_module,
    scaling as scaling_module,
)
from sklearn_mdl._core.stream.samples import SampleStore, is_mapped
from sklearn_mdl.model_selection import EncoderRace
from sklearn_mdl.switcher._split import folder_of

WIDTH = 3
laws = settings(deadline=None, max_examples=50)


def mapped(X, path, dtype="<f4", order="C"):
    """Write an array to a file and map it."""
    np.save(path, np.asarray(X, dtype=dtype, order=order))
    return np.load(path, mmap_mode="r")


def numbered_rows(n_rows, start=0):
    first = WIDTH * start
    return np.arange(first, first + WIDTH * n_rows, dtype=np.float32).reshape(-1, WIDTH)


def stream_folder(root):
    return StreamFolder(root, with_format("losses", {}))


def filled_store(sizes, folder=None, kinds=()):
    """Return a store of numbered rows, cut into blocks, and the same rows at once.

    Where ``kinds`` says so, a block comes as a map, or in an order of its own.
    """
    whole = numbered_rows(sum(sizes))
    store = SampleStore(WIDTH, folder and stream_folder(folder))
    start = 0
    for i, size in enumerate(sizes):
        block = whole[start : start + size].copy()
        start += size
        is_map, is_ordered = kinds[i] if kinds else (False, False)
        order = None
        if is_ordered:
            order = np.random.default_rng(i).permutation(size)
            block[order] = block.copy()
        if is_map and size:  # no file is mapped that holds nothing
            block = mapped(block, folder / f"{i}.npy")
        store.append(block, order)
    return store, whole


@laws
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_rows_equal_those_of_the_concatenated_blocks(sizes, ends):
    store, whole = filled_store(sizes)
    start, stop = sorted(round(end * len(whole)) for end in ends)
    found = store.rows(start, stop)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole[start:stop].reshape(-1, WIDTH))


@settings(laws, max_examples=30)
@given(data=st.data(), sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_rows_on_disk_mapped_or_permuted_are_the_same_rows(
    tmp_path_factory, data, sizes
):
    kinds = [data.draw(st.tuples(st.booleans(), st.booleans())) for _ in sizes]
    store, whole = filled_store(sizes, tmp_path_factory.mktemp("rows"), kinds)
    assert len(store) == len(whole)
    for start in range(len(whole)):
        for stop in range(start, len(whole) + 1):
            np.testing.assert_array_equal(store.rows(start, stop), whole[start:stop])


def test_rows_gathered_in_several_goes_are_the_same_rows(monkeypatch):
    monkeypatch.setattr(samples_module, "COPIED_AT_ONCE", 4 * WIDTH * 2)  # two rows
    X, order = numbered_rows(7), np.random.default_rng(0).permutation(7)
    store = SampleStore(WIDTH)
    store.append(X, order)
    store.append(X)
    np.testing.assert_array_equal(store.rows(0, 14), np.concatenate([X[order], X]))


@laws
@given(st.lists(st.integers(0, 5), max_size=8))
def test_length_is_the_number_of_rows_appended(sizes):
    assert len(filled_store([0, *sizes])[0]) == sum(sizes)


def test_rows_belong_to_the_store_whatever_their_owner_does_later(tmp_path):
    for folder in (None, stream_folder(tmp_path)):
        store = SampleStore(WIDTH, folder)
        X = numbered_rows(4)
        store.append(X)
        X += 100
        np.testing.assert_array_equal(store.rows(0, 4), numbered_rows(4))


def test_rows_that_lie_together_are_read_as_a_view():
    store, _ = filled_store([4, 5])
    assert np.shares_memory(store.rows(1, 7), store.rows(2, 3))


def test_mapped_rows_are_read_from_their_own_file(tmp_path):
    X = mapped(numbered_rows(6), tmp_path / "X.npy")
    store = SampleStore(WIDTH)
    store.append(X)
    assert np.shares_memory(store.rows(1, 4), X)


def test_store_that_grew_after_reading_keeps_what_was_read():
    store, whole = filled_store([4, 4])
    before = store.rows(2, 7)
    store.append(whole + 100)
    np.testing.assert_array_equal(before, whole[2:7])
    np.testing.assert_array_equal(store.rows(6, 10)[2:], whole[:2] + 100)


@pytest.mark.parametrize("left", [0, 1, 3, 4, 6, 9, 10])
def test_cutting_leaves_the_first_rows_whatever_they_lie_in(tmp_path, left):
    kinds = [(True, False), (True, True), (False, True)]
    whole, rows = filled_store([4, 3, 3], tmp_path, kinds)
    branch = whole.branch()
    for store in (branch, whole):
        store.cut(left)
        assert len(store) == left
        np.testing.assert_array_equal(store.rows(0, left), rows[:left])
    whole.append(rows[left:])
    np.testing.assert_array_equal(whole.rows(0, 10), rows)


def test_a_pickled_store_goes_on(tmp_path):
    store, whole = filled_store(
        [3, 4, 2], tmp_path, [(False, True), (True, False), (False, False)]
    )
    store.rows(0, 9)
    other = pickle.loads(pickle.dumps(store))
    other.append(numbered_rows(2, start=9))
    np.testing.assert_array_equal(other.rows(0, 9), whole)
    np.testing.assert_array_equal(other.rows(8, 11), numbered_rows(3, start=8))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_branch_begins_alike_and_goes_on_by_itself(tmp_path, on_disk):
    store = SampleStore(WIDTH, stream_folder(tmp_path) if on_disk else None)
    store.append(mapped(numbered_rows(4), tmp_path / "X.npy"))
    store.append(numbered_rows(3, start=4))
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    branch = store.branch()
    branch.append(-numbered_rows(5))
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before
    store.append(numbered_rows(2, start=7))
    assert (len(store), len(branch)) == (9, 12)
    np.testing.assert_array_equal(store.rows(0, 9), numbered_rows(9))
    both = np.concatenate([numbered_rows(7), -numbered_rows(5)])
    for start, stop in ((0, 12), (2, 9), (6, 8), (7, 12), (3, 5)):
        np.testing.assert_array_equal(branch.rows(start, stop), both[start:stop])


def test_what_looks_at_a_file_is_distinguished_from_what_does_not(tmp_path):
    X = mapped(numbered_rows(6), tmp_path / "X.npy")
    assert all(is_mapped(view) for view in (X, X[2:], X.T, np.asarray(X)[1:, :2]))
    copies = (X + 0, X[[1, 2]], np.array(X), X.copy(), X.astype("f8"), np.empty_like(X))
    assert not any(is_mapped(copy) for copy in copies)  # memmaps by class, some of them
    assert not any(is_mapped(other) for other in (None, "X", [[1.0]]))


# Runs


def rows_and_labels(n_rows=150, dtype="<f4"):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    X = rng.normal(size=(n_rows, 6)) * 4 + y[:, None]
    return np.rint(X).astype(dtype), y


def pool(**options):
    readouts = [
        LinearReadout(lr=0.01, scaling="standard", n_replay_streams=3),
        LinearReadout(lr=0.01, scaling="whiten", n_replay_streams=2),
        MLPReadout(hidden_layer_sizes=(5,), scaling=None, n_replay_streams=3),
    ]
    options = {"batch_size": 8, "random_state": 0, "device": "cpu", **options}
    return MDLReadoutSwitcher(readouts, **options)


def assert_same_run(one, other):
    np.testing.assert_array_equal(one.readout_losses_, other.readout_losses_)
    np.testing.assert_array_equal(one.codelengths_, other.codelengths_)


@pytest.mark.quick(
    "<f4-C-False",
    "<f8-F-True",
    "<f2-C-True",
    "<f4-F-True",
    "<i8-C-False",
    "|i1-F-False",
)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<f2", "<i8", "|i1"])
def test_run_over_a_memory_map_equals_one_over_memory(tmp_path, dtype, order, shuffle):
    X, y = rows_and_labels(70, dtype)
    X_mapped = mapped(X, tmp_path / "X.npy", dtype, order)
    inside = pool(shuffle=shuffle).fit(X, y)
    outside = pool(shuffle=shuffle).fit(X_mapped, y)
    assert_same_run(outside, inside)
    np.testing.assert_array_equal(
        outside.predict_log_proba(X_mapped), inside.predict_log_proba(X)
    )


def test_maps_and_arrays_may_take_turns(tmp_path):
    X, y = rows_and_labels()
    switcher = pool(store=tmp_path / "store")
    for i, at in enumerate(np.array_split(np.arange(len(X)), 5)):
        block = mapped(X[at], tmp_path / f"{i}.npy") if i % 2 else X[at]
        switcher.partial_fit(block, y[at], classes=range(3))
    assert_same_run(switcher, pool().fit(X, y))


def test_a_writable_map_that_is_filled_again_is_refused(tmp_path):
    X, y = rows_and_labels()
    path, shape = tmp_path / "buffer.npy", (40, X.shape[1])
    buffer = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    switcher = pool()
    for start in range(0, len(X) - 40, 40):
        buffer[:] = X[start : start + 40]
        block = buffer if not start else np.array(buffer)
        switcher.partial_fit(block, y[start : start + 40], classes=range(3))
        if not start:
            with pytest.raises(
                ValueError,
                match="place as earlier rows of this stream, starting at row 0",
            ):
                switcher.partial_fit(buffer, y[:40])
            X = np.concatenate([X[40:80], X[40:]])  # that is in the buffer from now on
    X_mapped = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", "<f4", X.shape)
    X_mapped[:] = X
    blocks = pool()  # blocks of one map, and the rest of one that was interrupted
    blocks.partial_fit(X_mapped[:70], y[:70], classes=range(3))
    blocks._run.begin(X_mapped[70:])
    blocks._run.end()
    blocks.partial_fit(X_mapped[70:], y[70:])
    assert_same_run(blocks, pool().fit(X, y))


def test_rows_in_the_store_are_those_of_the_run(tmp_path):
    X, y = rows_and_labels()
    switcher = pool(store=tmp_path, shuffle=True).fit(X, y)
    assert_same_run(switcher, pool(shuffle=True).fit(X, y))
    np.testing.assert_array_equal(
        np.load(switcher.store_ / "features.npy"), X[switcher.order_]
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_run_with_room_for_few_scaled_minibatches_is_the_same(monkeypatch, n_jobs):
    X, y = rows_and_labels()
    ample = pool(n_jobs=n_jobs).fit(X, y)
    monkeypatch.setattr(scaling_module, "KEPT_BYTES", {"cpu": 1, "cuda": 1})
    assert_same_run(pool(n_jobs=n_jobs).fit(X, y), ample)


def test_moments_taken_in_several_goes_agree(monkeypatch):
    X, y = rows_and_labels()
    once = pool().fit(X, y)
    monkeypatch.setattr(scaling_module, "TAKEN_AT_ONCE", 6 * 16)  # 16 rows
    several = pool().fit(X, y)
    np.testing.assert_allclose(several.codelength_, once.codelength_, rtol=1e-4)
    assert_same_run(pool().partial_fit(X, y, classes=range(3)), several)


BAD_ENTRIES = {
    "NaN": (np.nan, "Input X contains NaN in row 70, column 4"),
    "infinity": (-np.inf, "Input X contains infinity or .* in row 70, column 4"),
    "too large": (1e300, "Input X contains infinity or .* in row 70, column 4"),
}


@pytest.mark.parametrize("is_map", [False, True])
@pytest.mark.parametrize("entry", BAD_ENTRIES)
def test_a_number_that_is_not_finite_is_refused_with_its_place(
    tmp_path, monkeypatch, entry, is_map
):
    monkeypatch.setattr("sklearn_mdl._core.validation.CHECKED_AT_ONCE", 64)
    value, message = BAD_ENTRIES[entry]
    X, y = rows_and_labels(dtype="<f8")
    switcher = pool().fit(X, y)
    X[70, 4] = value
    X_given = mapped(X, tmp_path / "X.npy", "<f8") if is_map else X
    for method in (pool().fit, switcher.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X_given, y)
    with pytest.raises(ValueError, match=message):
        switcher.predict(X_given)


def test_infinities_that_undo_each_other_are_refused_without_more_words():
    X, y = rows_and_labels()
    X[3, 2], X[70, 4] = np.inf, -np.inf
    with pytest.raises(ValueError, match=r"infinity or .* in row 3, column 2"):
        pool().fit(X, y)  # where warnings are errors


def test_a_bad_number_is_named_by_its_feature():
    pd = pytest.importorskip("pandas")
    X, y = rows_and_labels()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame.loc[9, "e"] = np.nan
    with pytest.raises(ValueError, match=r"row 9, column 4 \('e'\)"):
        pool().fit(frame, y)


def test_a_trace_that_does_not_fit_in_memory_is_refused_with_what_to_do(
    tmp_path, monkeypatch
):
    X, y = rows_and_labels()
    monkeypatch.setattr(run_module, "memory_of", lambda device: 6000)
    switcher = pool().partial_fit(X[:100], y[:100], classes=range(3))
    said = r"need 8\.4e-06 GB.*pass store=path to a switcher to keep them on disk$"
    with pytest.raises(MemoryError, match=said):
        switcher.partial_fit(X[100:], y[100:])
    with pytest.raises(MemoryError, match=r"150 examples \(readouts: 3\) need"):
        switcher.fit(X, y)
    assert switcher.n_samples_seen_ == 100
    first = pool()
    with pytest.raises(MemoryError, match=r"150 examples \(readouts: 3\) need"):
        first.partial_fit(X, y, classes=range(3))
    assert vars(first).keys() == first.get_params(deep=False).keys()
    monkeypatch.undo()
    monkeypatch.setattr(run_module, "memory_of", lambda device: None)
    assert_same_run(switcher.partial_fit(X[100:], y[100:]), pool().fit(X, y))
    monkeypatch.setattr(run_module, "memory_of", lambda device: 6000)
    on_disk = pool(store=tmp_path).fit(X, y)
    assert_same_run(on_disk, switcher)
    assert len(on_disk.heldout_codelengths(X[:50], y[:50])) == 50


WATCHED = """
import re
import sys
import threading
from pathlib import Path

import numpy as np

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher


def anonymous():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status)[1])


def pool(**options):
    readouts = [LinearReadout(lr=0.01, n_replay_streams=1)]
    return MDLReadoutSwitcher(
        readouts, batch_size=256, random_state=0, device="cpu", **options
    )
"""

OVER_A_MAP = """
X = np.load(sys.argv[1], mmap_mode="r")
y = np.random.default_rng(0).integers(2, size=len(X))
peak, stop = [0], threading.Event()


def watch():
    while not stop.wait(0.02):
        peak.append(max(peak.pop(), anonymous()))


thread = threading.Thread(target=watch)
thread.start()
pool(store=sys.argv[2], shuffle=True).fit(X, y)
stop.set()
thread.join()
print(len(X), X.nbytes, peak[0])
"""

IN_CALLS = """
rng = np.random.default_rng(0)
switcher = pool(store=sys.argv[1])
sizes, n_rows, seen = rng.permutation([1, 2, 31, 32, 33, 256, 1000, 5000]), 0, []
while n_rows < 10**6:
    size = min(int(sizes[len(seen) % len(sizes)]), 10**6 - n_rows)
    y = rng.integers(2, size=size)
    X = rng.normal(size=(size, 64)) + y[:, None]
    switcher.partial_fit(X, y, classes=[0, 1])
    n_rows += size
    seen.append((n_rows, anonymous()))
early = max(memory for n, memory in seen if n < 10**5)
print(switcher.n_samples_seen_, early, max(memory for _, memory in seen))
"""


def printed(script, *arguments):
    """Run a script of this module's and return the numbers that it prints."""
    command = [sys.executable, "-c", textwrap.dedent(WATCHED + script)]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return map(int, done.stdout.split())


reads_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc"
)


@pytest.mark.slow
@reads_proc
def test_run_over_a_map_of_four_gigabytes_stays_under_one(tmp_path):
    shape = (2**18, 2**12)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", "<f4", shape)
    X[::1000] = 1.0  # the rest of the file is a hole, and reads as zeros
    X.flush()
    n_rows, n_bytes, peak = printed(OVER_A_MAP, tmp_path / "X.npy", tmp_path / "store")
    assert (n_rows, n_bytes) == (2**18, 2**32)
    assert peak < 10**6, f"RssAnon reached {peak} kB"


@pytest.mark.slow
@reads_proc
def test_a_stream_of_a_million_rows_grows_by_little_but_its_store(tmp_path):
    # The rows are 256 MB, the trace 16. In memory are a label, a codelength and three
    # numbers of the prediction of each, with room for as many again (80 MB), and 134 MB
    # of minibatches at hand.
    n_rows, early, peak = printed(IN_CALLS, tmp_path)
    assert n_rows == 10**6
    assert peak - early < 214_000, f"RssAnon grew from {early} to {peak} kB"
    (rows,) = tmp_path.rglob("features.npy")
    assert rows.stat().st_size >= 4 * 64 * 10**6


def test_pickles_with_relative_folders_may_move_together_with_them(
    tmp_path, monkeypatch
):
    X, y = numbered_rows(40) % 7, np.arange(40) % 2
    start, other = tmp_path / "start", tmp_path / "other"
    start.mkdir()
    monkeypatch.chdir(start)
    switcher = MDLReadoutSwitcher([LinearReadout()], store="kept", random_state=0)
    race = EncoderRace(["x", "z"], 2, folder="race")
    switcher.partial_fit(X[:20], y[:20], classes=[0, 1])
    race.update({"x": X[:20], "z": X[:20]}, y[:20])
    content = pickle.dumps((switcher, race))
    with folder_of(None, "parts") as folder:  # workers may be elsewhere
        assert folder.parent == start / "parts"
    monkeypatch.chdir(tmp_path)
    start.rename(other)
    monkeypatch.chdir(other)
    switcher, race = pickle.loads(content)
    switcher.partial_fit(X[20:], y[20:])
    race.update({"x": X[20:], "z": X[20:]}, y[20:])
    assert (switcher.n_samples_seen_, race.n_labels_) == (40, 40)
