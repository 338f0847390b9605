"""Losses in files: the same numbers come back, under their own names or under none."""

import copy
import dataclasses
import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sklearn_mdl._core.io.safetensors_io
import sklearn_mdl.switcher._stored_losses
from sklearn_mdl import KernelReadout, MDLReadoutSwitcher, forward
from sklearn_mdl.switcher import StoredLosses, load_losses, save_losses
from sklearn_mdl.switcher._loss_files import check_losses_path, description
from sklearn_mdl.switching import BayesMixture, FixedShare

N, K = 40, 5
NAMES = ['lr=0.1, "wide"', "it's; a\ttab", "Š\n\\", "", "linear #2"]
KINDS = ["linear", "mlp 1x8", "linear", "mlp, 2x8", "linear"]
WEIGHTS = [0.1, 1 / 3, 7, 0, 2.0**-30]
FIELDS = ("readouts", "architectures", "n_classes")


def losses_of(n=N, k=K, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, k))


def stored_of(n=N, k=K, **fields):
    about = {"readouts": NAMES[:k], "architectures": KINDS[:k], "weights": WEIGHTS[:k]}
    about |= {"switching": FixedShare(m=3), "n_classes": 10}
    return StoredLosses(losses_of(n, k), **{**about, **fields})


def assert_same(found, expected):
    np.testing.assert_array_equal(found.losses, expected.losses)
    np.testing.assert_array_equal(found.weights, expected.weights)
    for name in FIELDS:
        assert getattr(found, name) == getattr(expected, name)
    assert repr(found.switching) == repr(expected.switching)


def rewrite(sidecar, **changes):
    about = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**about, **changes}))


# What is written comes back


def test_everything_comes_back(tmp_path):
    path = tmp_path / "losses.npy"
    written = save_losses(path, stored_of())
    found = load_losses(str(path))
    assert_same(found, stored_of())
    assert found.losses.dtype == np.float64
    assert written[0] == path
    assert sorted(written) == sorted(tmp_path.iterdir())


def test_losses_are_a_memory_map_that_nobody_writes_to(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    found = load_losses(path)
    assert isinstance(found.losses, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found.losses[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.switching = "bayes"


def test_float32_is_the_nearest(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of(), dtype="float32")
    found = load_losses(path).losses
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, losses_of().astype(np.float32))


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.lists(st.text(), min_size=1, max_size=4))
def test_any_names_survive(tmp_path, names):
    path = tmp_path / "losses.npy"
    losses = losses_of(3, len(names))
    save_losses(path, StoredLosses(losses, names, names[::-1]))
    found = load_losses(path)
    assert found.readouts == names
    assert found.architectures == names[::-1]


def test_few_rows_come_back(tmp_path):
    path = tmp_path / "losses.npy"
    for n in (0, 1):
        save_losses(path, stored_of(n))
        found = load_losses(path)
        assert_same(found, stored_of(n))
        assert found.n_samples == n
        assert sum(len(block) for block in found.blocks()) == n


def test_layout_of_the_source_does_not_matter(tmp_path):
    path, losses = tmp_path / "losses.npy", losses_of()
    for source in (
        np.asfortranarray(losses),
        losses.astype(">f8"),
        np.repeat(losses, 2, 0)[::2],
    ):
        save_losses(path, source)
        np.testing.assert_array_equal(load_losses(path).losses, losses)


def test_bare_arrays_can_be_saved(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, losses_of().tolist())
    assert_same(load_losses(path), StoredLosses(losses_of()))


def test_infinite_losses_come_back(tmp_path):
    losses = losses_of()
    losses[3, 2] = np.inf
    for dtype in ("float64", "float32"):
        save_losses(tmp_path / "losses.npy", losses, dtype=dtype)
        found = load_losses(tmp_path / "losses.npy").losses
        np.testing.assert_array_equal(found, losses.astype(dtype))


def test_stored_losses_can_be_copied(tmp_path):
    save_losses(tmp_path / "losses.npy", stored_of())
    stored = load_losses(tmp_path / "losses.npy")
    for copied in (copy.deepcopy(stored), pickle.loads(pickle.dumps(stored))):
        assert_same(copied, stored_of())


# The format


def test_npy_is_plain(tmp_path):
    save_losses(tmp_path / "losses.npy", stored_of())
    np.testing.assert_array_equal(np.load(tmp_path / "losses.npy"), losses_of())
    about = json.loads((tmp_path / "losses.json").read_text())
    assert about["unit"] == "nats"
    assert about["weights"] == WEIGHTS
    assert (about["n_samples"], about["n_readouts"]) == (N, K)


def test_bare_npy_is_read_without_architectures(tmp_path):
    np.save(tmp_path / "bare.npy", losses_of(k=2))
    found = load_losses(tmp_path / "bare.npy")
    assert found.readouts == ["readout 0", "readout 1"]
    assert [getattr(found, name) for name in ("weights", *FIELDS[1:])] == [None] * 3
    with pytest.raises(ValueError, match=r"needs the architecture of each.*; pass"):
        found.kinds  # noqa: B018, a property that raises


# By blocks


def test_a_source_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(sklearn_mdl.switcher._stored_losses, "_BLOCK_BYTES", 2**17)
    source = np.lib.format.open_memmap(
        tmp_path / "source.npy", mode="w+", dtype="f4", shape=(2000, 1000)
    )
    source[:] = np.arange(2000)[:, None]
    tracemalloc.start()
    try:
        save_losses(tmp_path / "losses.npy", source)
        totals = load_losses(tmp_path / "losses.npy").readout_codelengths
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20 < source.nbytes / 7
    np.testing.assert_array_equal(totals, 2000 * 1999 / 2)
    np.testing.assert_array_equal(load_losses(tmp_path / "losses.npy").losses, source)


@pytest.mark.parametrize("n_rows", [None, 1, 7, N, N + 1, np.int64(9)])
def test_blocks_are_the_rows_in_order(n_rows):
    blocks = list(stored_of().blocks(n_rows))
    np.testing.assert_array_equal(np.concatenate(blocks), losses_of())
    assert {len(block) for block in blocks[:-1]} <= {n_rows}


def test_blocks_of_no_size_are_refused():
    for n_rows in (0, -1, 2.5, "7"):
        with pytest.raises(ValueError, match="n_rows must be a positive integer or No"):
            stored_of().blocks(n_rows)


def test_any_number_of_rows_at_a_time_mixes_alike(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of(3000))
    found = load_losses(path)
    expected = forward("fixed-share", losses_of(3000), WEIGHTS).codelengths
    for losses in (found.losses, *(iter(found.blocks(n)) for n in (1, 999, 5000))):
        trace = forward("fixed-share", losses, found.weights)
        np.testing.assert_array_equal(trace.codelengths, expected)


def test_codelengths_of_the_readouts_are_their_sums():
    stored = stored_of(500)
    np.testing.assert_allclose(stored.readout_codelengths, stored.losses.sum(0))
    assert (stored.n_samples, stored.n_readouts) == (500, K)
    assert stored.kinds == KINDS


def test_it_is_shown_by_its_sizes():
    assert repr(stored_of()) == (
        "StoredLosses(n_samples=40, n_readouts=5, dtype='float64', "
        "switching=FixedShare(m=3), n_classes=10)"
    )
    assert repr(StoredLosses(np.ones((2, 3), "f4"))) == (
        "StoredLosses(n_samples=2, n_readouts=3, dtype='float32')"
    )


# Losses never stand under another's names


@pytest.mark.parametrize(
    "other",
    [
        {"n_readouts": K + 1},
        {"n_samples": N + 1},
        {"dtype": "float32"},
        {"readouts": NAMES[:-1]},
        {"architectures": [*KINDS, "more"]},
        {"weights": [1.0]},
        {"weights": ["heavy"] * K},
        {"readouts": 5},
        {"architectures": "abcde"},
        {"n_classes": "many"},
        {"switching": 3},
        {"sklearn_mdl": "cell 1"},
        {"sklearn_mdl": None},
    ],
    ids=str,
)
def test_description_of_another_file_is_refused(tmp_path, other):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    rewrite(tmp_path / "losses.json", **other)
    with pytest.raises(ValueError, match=r"losses\.npy must hold losses with a match"):
        load_losses(path)


def test_sidecar_of_another_file_is_refused(tmp_path):
    for n, k in ((N, K - 1), (N + 1, K)):
        (tmp_path / "b.npy").unlink(missing_ok=True)
        save_losses(tmp_path / "a.npy", stored_of())
        save_losses(tmp_path / "b.npy", stored_of(n, k))
        os.replace(tmp_path / "b.json", tmp_path / "a.json")
        with pytest.raises(ValueError, match="but their description has n_"):
            load_losses(tmp_path / "a.npy")


def test_description_of_growing_losses_leaves_their_number_open(tmp_path):
    about = {**description(stored_of(0), "float64", growing=True), "stream": "id"}
    (tmp_path / "losses.json").write_text(json.dumps(about))
    for n in (1, N):
        np.save(tmp_path / "losses.npy", losses_of(n))
        np.save(tmp_path / "known.npy", np.arange(n))
        assert_same(load_losses(tmp_path / "losses.npy"), stored_of(n))
    np.save(tmp_path / "losses.npy", losses_of(k=K - 1))
    with pytest.raises(ValueError, match=r"n_readouts=4, but .* n_readouts=5"):
        load_losses(tmp_path / "losses.npy")


@pytest.mark.parametrize("n_done", [0, 1])
def test_losses_whose_replacement_is_interrupted_have_no_wrong_names(
    tmp_path, monkeypatch, n_done
):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    done = []

    def interrupt(source, target, replace=os.replace):
        if len(done) == n_done:
            raise KeyboardInterrupt
        done.append(target)
        replace(source, target)

    monkeypatch.setattr(sklearn_mdl._core.io.safetensors_io.os, "replace", interrupt)
    other = dataclasses.replace(
        stored_of(), losses=losses_of(seed=1), readouts=[*"abcde"]
    )
    with pytest.raises(KeyboardInterrupt):
        save_losses(path, other)
    assert [p.name for p in tmp_path.iterdir()] == ["losses.npy"]
    assert_same(load_losses(path), StoredLosses(losses_of(seed=n_done)))


def test_interrupted_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    before = sorted(tmp_path.iterdir())
    blocks = StoredLosses.blocks

    def interrupt(self):
        yield next(blocks(self))
        raise KeyboardInterrupt

    monkeypatch.setattr(StoredLosses, "blocks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_losses(path, losses_of(seed=1))
    assert sorted(tmp_path.iterdir()) == before
    assert_same(load_losses(path), stored_of())


def test_a_file_can_be_replaced_by_what_was_read_from_it(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    old = load_losses(path)
    save_losses(
        path, dataclasses.replace(old, switching=BayesMixture()), dtype="float32"
    )
    assert_same(old, stored_of())
    found = load_losses(path)
    assert isinstance(found.switching, BayesMixture)
    assert found.losses.dtype == np.float32


def test_files_of_other_kinds_are_not_overwritten(tmp_path):
    for text in ('{"unit": "nats"}', "[]", "not JSON"):
        (tmp_path / "cells.json").write_text(text)
        with pytest.raises(ValueError, match=r"cells\.json must be free for"):
            save_losses(tmp_path / "cells.npy", stored_of())
        assert (tmp_path / "cells.json").read_text() == text


# What is refused, in a sentence

LOSSES = losses_of(4, 2)
WRONG = [
    (LOSSES[0], {}, ValueError, r"a floating array .* got float64 of shape \(2,\)"),
    (LOSSES[:, :0], {}, ValueError, r"floating array .* got .* \(4, 0\)"),
    (
        LOSSES.astype(int),
        {},
        ValueError,
        "floating array .*int64 of.*; for example, pass",
    ),
    ([["a"]], {}, ValueError, "floating array"),
    (
        LOSSES,
        {"readouts": ["a"]},
        ValueError,
        "must be 2 names, got .*pass one name per column$",
    ),
    (LOSSES, {"readouts": ["a", 3]}, TypeError, "readouts must be a sequence of str"),
    (LOSSES, {"architectures": []}, ValueError, "architectures must be 2 names"),
    (LOSSES, {"architectures": "ab"}, TypeError, "architectures must be a sequence"),
    (
        LOSSES,
        {"weights": [1]},
        ValueError,
        r"weights` must be of shape \(2,\), got \(1",
    ),
    (LOSSES, {"weights": [1, np.nan]}, ValueError, "weights` must be finite"),
    (LOSSES, {"weights": [2, -1]}, ValueError, "weights` must be finite"),
    (LOSSES, {"weights": [0, 0]}, ValueError, "with a positive sum"),
    (LOSSES, {"n_classes": 0}, ValueError, "n_classes must be a positive integer"),
    (LOSSES, {"n_classes": 2.5}, ValueError, "n_classes must be a positive integer"),
    (LOSSES, {"switching": 3}, TypeError, "switching must be a SwitchingPrior"),
]


@pytest.mark.parametrize(("losses", "about", "error", "words"), WRONG, ids=str)
def test_wrong_contents_are_refused(losses, about, error, words):
    with pytest.raises(error, match=words):
        StoredLosses(losses, **about)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("losses.npz", ValueError, r"ends in \.npy, got"),
        ("losses", ValueError, r"ends in \.npy, got"),
        ("none/losses.npy", FileNotFoundError, "a folder that exists.*; call Path"),
        ("folder.npy", ValueError, "a file, not a folder, got"),
        ("of.npy", ValueError, r"not a folder, got .*of\.json"),
    ],
)
def test_wrong_targets_are_refused(tmp_path, name, error, words):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "of.json").mkdir()
    for use in (check_losses_path, lambda path: save_losses(path, stored_of())):
        with pytest.raises(error, match=words):
            use(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"folder.npy", "of.json"}


def test_other_types_are_not_written(tmp_path):
    for dtype in ("float16", "int64", "f4", None):
        with pytest.raises(ValueError, match=r"dtype must be one of \['float64', 'flo"):
            save_losses(tmp_path / "losses.npy", stored_of(), dtype=dtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("losses.npz", ValueError, r"ends in \.npy, got"),
        ("losses.npy", FileNotFoundError, "must be an existing file"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, name, error, words):
    with pytest.raises(error, match=words):
        load_losses(tmp_path / name)


def test_files_of_other_arrays_are_refused(tmp_path):
    for array in (np.ones(3), np.ones((3, 2), int), np.ones((3, 0))):
        np.save(tmp_path / "losses.npy", array)
        with pytest.raises(ValueError, match="floating array of shape"):
            load_losses(tmp_path / "losses.npy")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    whole = path.read_bytes()
    shape = whole.index(b"(40")
    for n in (0, 5, 9, 40, shape, len(whole) - 1):
        path.write_bytes(whole[:n])
        truncated = r"losses with .* but it is truncated; .* or call fit again$"
        with pytest.raises(ValueError, match=rf"losses\.npy must hold {truncated}"):
            load_losses(path)
    readout = KernelReadout("linear")
    switcher = MDLReadoutSwitcher(readout, store=tmp_path / "run", random_state=0)
    run = switcher.fit(np.eye(9), np.arange(9) % 2).store_
    (run / "known.npy").write_bytes((run / "known.npy").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"known\.npy must .* but it is truncated; "):
        load_losses(run / "losses.npy")
    damaged = [
        whole[:shape] + other + whole[shape + len(other) :]
        for other in (b"(((", b"(41", b"[[[", b"[41", b"\xff")
    ]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"losses\.npy must hold losses with"):
            load_losses(path)


def test_damaged_sidecars_are_refused(tmp_path):
    save_losses(tmp_path / "losses.npy", stored_of())
    whole = (tmp_path / "losses.json").read_bytes()
    others = (b"[1]", b"\xff\xfe", b"null", b"[" * 10**5)
    for content in (b"", whole[:50], whole[:-3], *others):
        (tmp_path / "losses.json").write_bytes(content)
        with pytest.raises(ValueError, match="with a matching description"):
            load_losses(tmp_path / "losses.npy")


def test_losses_that_are_replaced_while_they_are_read_are_refused(
    tmp_path, monkeypatch
):
    path = tmp_path / "losses.npy"
    save_losses(path, stored_of())
    open_memmap = np.lib.format.open_memmap

    def replaced_first(*args, **options):
        monkeypatch.undo()
        save_losses(path, stored_of(switching=FixedShare(m=7)))
        return open_memmap(*args, **options)

    monkeypatch.setattr(np.lib.format, "open_memmap", replaced_first)
    with pytest.raises(ValueError, match="another process replaced them"):
        load_losses(path)
    assert load_losses(path).switching.m == 7
