"""Laws of arrays that grow, in memory and on disk alike."""

import hashlib
import json as json_module
import os
import pickle
import platform
import sys

import numpy as np
import pytest
import scipy
import sklearn
import skorch
import torch
from each_case import for_each
from hypothesis import given, settings, strategies as st

import sklearn_mdl
from sklearn_mdl._core.io import environment as conditions
from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.environment import (
    cut_short,
    environment_of,
    fingerprint,
    first_difference,
    version_of,
)

laws = settings(deadline=None, max_examples=60)
PLACES = st.sampled_from(["memory", "disk"])


def grown(place, folder, dtype="<f8"):
    return GrowingArray(3, folder / "a.npy" if place == "disk" else None, dtype=dtype)


def rows_of(n, start=0):
    return np.arange(3 * start, 3 * (start + n), dtype=np.float64).reshape(n, 3)


@laws
@given(
    place=PLACES,
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=12),
)
def test_it_is_a_list_of_rows_that_can_be_extended_and_cut(
    tmp_path_factory, place, steps
):
    array = grown(place, tmp_path_factory.mktemp("grown"))
    expected = np.empty((0, 3))
    for is_cut, n in steps:
        if is_cut:
            n = min(n, len(expected))
            array.cut(n)
            expected = expected[:n]
        else:
            new = rows_of(n, start=len(expected) + 100 * n)
            array.append(new)
            expected = np.concatenate([expected, new])
        assert array.n_rows == len(expected)
        np.testing.assert_array_equal(array.rows, expected)


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_what_is_on_disk_is_an_array_of_numpys(tmp_path, dtype):
    array = grown("disk", tmp_path, dtype)
    for n in (4, 1, 7):
        array.append(rows_of(n))
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array.rows)
    array.cut(5)
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array.rows)
    assert (tmp_path / "a.npy").stat().st_size == 128 + 5 * 3 * found.itemsize


@for_each("place", ["memory", "disk"])
@for_each("dtype", ["<f8", "<f4", "<i4"])
def test_rows_are_of_one_type_and_nobody_writes_to_them(tmp_path, place, dtype):
    array = grown(place, tmp_path, dtype)
    for n_rows in (0, 2, 5):
        array.append(rows_of(n_rows))
        assert array.rows.dtype == dtype
        with pytest.raises(ValueError, match="read-only"):
            array.rows[:] = 1


def test_rows_on_disk_are_mapped_once_until_more_come(tmp_path):
    array = grown("disk", tmp_path)
    for _ in range(2):
        array.append(rows_of(5))
        assert isinstance(array.rows, np.memmap)
        assert np.shares_memory(array.rows, array.rows)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_rows_may_be_single_numbers(tmp_path, place):
    path = tmp_path / "a.npy" if place == "disk" else None
    array = GrowingArray(None, path)
    array.append(np.arange(5.0))
    array.cut(3)
    array.append(np.array([9.0]))
    assert array.rows.tolist() == [0, 1, 2, 9]
    if path is not None:
        assert np.load(path).tolist() == [0, 1, 2, 9]
        assert GrowingArray(None, path).count_left() == 4


def test_room_that_is_reserved_is_not_moved(tmp_path):
    array = grown("memory", tmp_path)
    array.reserve(100)
    array.append(rows_of(1))
    before = array.rows
    for _ in range(99):
        array.append(rows_of(1))
    assert np.shares_memory(before, array.rows)


def test_room_that_is_there_is_not_reserved_again(tmp_path):
    array = grown("memory", tmp_path)
    array.reserve(10)
    array.append(rows_of(4))
    before = array.rows
    for n_more in (6, 1):
        array.reserve(n_more)
        assert np.shares_memory(before, array.rows)


def test_rows_are_moved_a_few_times_also_where_room_is_reserved_block_by_block():
    array, n_moves = GrowingArray(3), 0
    for n_blocks in range(200):
        before = array.rows
        array.reserve(5)
        array.append(rows_of(5))
        n_moves += n_blocks > 0 and not np.shares_memory(before, array.rows)
    assert n_moves <= 8  # 2^8 blocks


def test_a_pickle_holds_no_room_without_rows(tmp_path):
    array = grown("memory", tmp_path)
    array.append(rows_of(3))
    array.reserve(10_000)
    assert len(pickle.dumps(array)) < 2000


def test_on_disk_there_is_nothing_to_reserve(tmp_path):
    array = grown("disk", tmp_path)
    array.reserve(2**60)  # more than any memory holds
    array.append(rows_of(2))
    np.testing.assert_array_equal(array.rows, rows_of(2))


@for_each("torn", [b"", b"\0", b"torn" * 30])
@for_each("n_rows", [0, 1, 4, 5])
def test_another_array_may_adopt_the_first_rows_of_a_file(tmp_path, n_rows, torn):
    grown("disk", tmp_path).append(rows_of(5))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(torn)
    other = grown("disk", tmp_path)
    other.adopt(n_rows)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), rows_of(5)[:n_rows])
    other.append(rows_of(2, start=50))
    expected = np.concatenate([rows_of(5)[:n_rows], rows_of(2, start=50)])
    np.testing.assert_array_equal(other.rows, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


def spoilt_by_cutting(path):
    with path.open("r+b") as file:
        file.truncate(128 + 3 * 8 * 4 + 5)


NONE = "is missing or damaged"
SPOILERS = {
    "gone": (lambda path: path.unlink(), NONE),
    "too short": (spoilt_by_cutting, "contains 4"),
    "no array": (lambda path: path.write_bytes(b"nothing"), NONE),
    "of another width": (lambda path: np.save(path, np.zeros((9, 4))), NONE),
    "of another type": (
        lambda path: np.save(path, np.zeros((9, 3), dtype=np.float32)),
        NONE,
    ),
}


@for_each("spoiler", SPOILERS)
def test_a_file_that_does_not_hold_the_rows_is_not_adopted(tmp_path, spoiler):
    grown("disk", tmp_path).append(rows_of(5))
    spoil, held = SPOILERS[spoiler]
    spoil(tmp_path / "a.npy")
    message = rf"a\.npy must still contain the 5 rows .* but {held}; delete its folder"
    with pytest.raises(ValueError, match=message):
        grown("disk", tmp_path).adopt(5)


@for_each("place", ["memory", "disk"])
@for_each("n_before", [0, 3])
def test_blocks_are_added_all_or_none(tmp_path, place, n_before):
    array, expected = grown(place, tmp_path), rows_of(n_before)
    if n_before:
        array.append(expected)

    def blocks():
        yield rows_of(2, start=50)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        array.extend(blocks())
    np.testing.assert_array_equal(array.rows, expected)
    array.extend(rows_of(1, start=i) for i in range(4))
    np.testing.assert_array_equal(array.rows, np.concatenate([expected, rows_of(4)]))
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"] * (place == "disk")


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_digest_is_of_all_rows_however_they_came(tmp_path, place):
    array = grown(place, tmp_path)
    for n_rows in (0, 4, 1, 3):
        array.append(rows_of(n_rows, start=array.n_rows))
        for each in (array, pickle.loads(pickle.dumps(array))):
            expected = hashlib.sha256(rows_of(array.n_rows).tobytes()).hexdigest()
            assert each.digest() == expected
    array.cut(5)
    array.append(rows_of(1, start=9))
    expected = rows_of(5).tobytes() + rows_of(1, start=9).tobytes()
    assert array.digest() == hashlib.sha256(expected).hexdigest()


def test_rows_of_another_digest_are_not_adopted(tmp_path):
    array = grown("disk", tmp_path)
    array.append(rows_of(5))
    other = grown("disk", tmp_path)
    other.adopt(5, array.digest())
    np.testing.assert_array_equal(other.rows, array.rows)
    with (tmp_path / "a.npy").open("r+b") as file:
        file.seek(130)
        file.write(b"?")
    with pytest.raises(ValueError, match="but it is damaged, since its checksum"):
        grown("disk", tmp_path).adopt(5, array.digest())


def test_whole_rows_of_a_file_are_counted(tmp_path):
    assert grown("disk", tmp_path).count_left() is None
    grown("disk", tmp_path).append(rows_of(5))
    assert grown("disk", tmp_path).count_left() == 5
    spoilt_by_cutting(tmp_path / "a.npy")
    assert repr(grown("disk", tmp_path).count_left()) == "4"
    assert GrowingArray(None, tmp_path / "a.npy").count_left() is None


@for_each("dtype", ["<f8", "<f4"])
def test_rows_that_a_file_begins_with_are_adopted(tmp_path, dtype):
    grown("disk", tmp_path, dtype).append(rows_of(6))
    other = grown("disk", tmp_path, dtype)
    assert other.adopt_if_equal([rows_of(2), rows_of(3, start=2)])
    np.testing.assert_array_equal(other.rows, rows_of(5))
    for blocks in ([rows_of(2), rows_of(2)], [rows_of(7)]):
        assert not grown("disk", tmp_path, dtype).adopt_if_equal(blocks)


def test_memory_has_nothing_to_adopt(tmp_path):
    with pytest.raises(ValueError, match="must still contain"):
        grown("memory", tmp_path).adopt(1)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_pickled_array_goes_on(tmp_path, place):
    array = grown(place, tmp_path)
    array.append(rows_of(4))
    array.rows.sum()
    other = pickle.loads(pickle.dumps(array))
    other.append(rows_of(1, start=4))
    np.testing.assert_array_equal(other.rows, rows_of(5))


def test_a_pickle_holds_no_rows_that_are_on_disk(tmp_path):
    array = grown("disk", tmp_path)
    array.append(rows_of(1000))
    empty = len(pickle.dumps(array))
    array.rows.sum()
    assert len(pickle.dumps(array)) == empty < 1000


@pytest.mark.parametrize("n_rows", [0, 4])
def test_what_is_secured_is_the_file_once_there_is_one(tmp_path, monkeypatch, n_rows):
    secured = []
    monkeypatch.setattr("os.fsync", lambda at: secured.append(os.fstat(at).st_ino))
    for place in ("memory", "disk"):
        array = grown(place, tmp_path)
        if n_rows:
            array.append(rows_of(n_rows))
        array.secure()
    assert secured == ([(tmp_path / "a.npy").stat().st_ino] if n_rows else [])


# Conditions

json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=6,
)


@laws
@given(json, json)
def test_a_difference_is_found_where_there_is_one(one, other):
    assert first_difference(one, one) is None
    # what JSON writes tells 1 from True, which Python's == does not
    alike = json_module.dumps(one, sort_keys=True) == json_module.dumps(
        other, sort_keys=True
    )
    assert (first_difference(one, other) is None) == alike


@for_each(
    "one, other, expected",
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a.b[1]", 2, 3)),
        ({"a": [1]}, {"a": [1, 2]}, ("a", [1], [1, 2])),
        ({"a": True}, {"a": 1}, ("a", True, 1)),
    ],
)
def test_the_place_of_a_difference_is_named(one, other, expected):
    assert first_difference(one, other) == expected


def test_what_is_missing_is_not_given():
    name, was, now = first_difference({"a": 1}, {})
    assert (name, was, repr(now)) == ("a", 1, "not given")


def test_differences_are_looked_for_in_the_order_of_what_is_now():
    was, now = {"z": 1, "b": 2, "a": 3}, {"a": 4, "b": 5, "c": 6}
    assert first_difference(was, now) == ("a", 3, 4)
    assert first_difference({"z": 1, "a": 3}, {"a": 3}) == ("z", 1, NotGiven())
    assert first_difference({}, {"a": None}) == ("a", NotGiven(), None)
    assert first_difference([1, 2], 3, "at") == ("at", [1, 2], 3)
    assert first_difference([1, {}], [1, {"x": []}], "at") == (
        "at[1].x",
        NotGiven(),
        [],
    )


class NotGiven:
    def __eq__(self, other):
        return repr(other) == "not given"


def test_a_fingerprint_does_not_depend_on_how_it_is_cut(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 4))
    expected = hashlib.sha256(X.astype("<f4").tobytes()).hexdigest()
    for n_bytes in (1, 4 * 8, 3 * 4 * 8 + 1, 2**24):
        monkeypatch.setattr(conditions, "HASH_BYTES", n_bytes)
        assert fingerprint(X, "<f4") == expected
    assert fingerprint(X[:0], "<f4") == hashlib.sha256().hexdigest()
    assert fingerprint(X[:, :0], "<f4") == hashlib.sha256().hexdigest()


def test_a_fingerprint_is_of_the_numbers_alone():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    own = fingerprint(X, "<f4")
    assert own == fingerprint(np.asfortranarray(X), "<f4")
    assert own == fingerprint(X.astype(np.float64), "<f4")
    assert own == fingerprint(X.repeat(2, 0)[::2], "<f4")
    assert own != fingerprint(X[::-1], "<f4")


def test_long_values_are_cut_short_in_messages():
    assert cut_short("a") == "'a'"
    assert cut_short("x" * 198) == repr("x" * 198)
    assert cut_short("x" * 199) == "'" + "x" * 199 + "..."


CPU = torch.device("cpu")


def test_an_environment_says_what_computes_and_is_plain_json():
    found = environment_of(CPU)
    assert json_module.loads(json_module.dumps(found)) == found
    assert found["versions"] == {
        "sklearn_mdl": sklearn_mdl.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "skorch": skorch.__version__,
    }
    assert sys.version.startswith(found["python"] + ".")
    assert found["machine"] == "{0.system} {0.machine}".format(platform.uname())
    assert found["device"] == "cpu"
    for name in ("cpu_torch", "cpu_numpy"):
        assert found[name] == found[name].strip() != ""


@for_each(
    "name, setting, changed, back",
    [
        ("threads", torch.set_num_threads, 3, torch.get_num_threads()),
        ("dtype", torch.set_default_dtype, torch.float64, torch.float32),
        ("matmul_precision", torch.set_float32_matmul_precision, "high", "highest"),
    ],
)
def test_what_may_move_a_bit_makes_another_environment(name, setting, changed, back):
    before = environment_of(CPU)
    setting(changed)
    try:
        found = first_difference(before, environment_of(CPU))
    finally:
        setting(back)
    assert found[0] == name
    assert str(found[2]) == str(changed)
    assert environment_of(CPU) == before


def test_code_paths_that_are_chosen_outside_make_another_environment(monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    before = environment_of(CPU)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    found = first_difference(before, environment_of(CPU))
    assert found == ("mkl_cbwr", None, "COMPATIBLE")


def test_which_of_several_devices_alike_computes_is_no_matter(monkeypatch):
    kinds = {torch.device("cuda", 0): "A", torch.device("cuda", 1): "A"}
    kinds[torch.device("cuda", 2)] = "B"
    monkeypatch.setattr(torch.cuda, "get_device_name", kinds.__getitem__)
    first, second, third = (environment_of(device) for device in kinds)
    assert first == second
    name, one, other = first_difference(first, third)
    assert (name, one.replace("A,", "B,")) == ("device", other)
    assert other.startswith("cuda: B, CUDA")


def test_a_numpy_that_names_no_instructions_has_an_environment(monkeypatch):
    monkeypatch.setattr(np, "show_config", lambda mode: {})
    assert environment_of(CPU)["cpu_numpy"] == ""


def test_a_library_that_is_not_installed_has_no_version():
    assert version_of("no-such-library") == "not installed"
