"""Laws of arrays that grow, in memory and on disk alike."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_mdl.conditions import fingerprint, first_difference
from sklearn_mdl.growing import GrowingArray

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


def test_room_that_is_reserved_is_not_moved(tmp_path):
    array = grown("memory", tmp_path)
    array.reserve(100)
    array.append(rows_of(1))
    before = array.rows
    for _ in range(99):
        array.append(rows_of(1))
    assert np.shares_memory(before, array.rows)


@pytest.mark.parametrize("torn", [b"", b"\0", b"torn" * 30])
@pytest.mark.parametrize("n_rows", [0, 1, 4, 5])
def test_another_array_may_adopt_the_first_rows_of_a_file(tmp_path, n_rows, torn):
    grown("disk", tmp_path).append(rows_of(5))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(torn)
    other = grown("disk", tmp_path)
    other.adopt(n_rows)
    other.append(rows_of(2, start=50))
    expected = np.concatenate([rows_of(5)[:n_rows], rows_of(2, start=50)])
    np.testing.assert_array_equal(other.rows, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


def spoilt_by_cutting(path):
    with path.open("r+b") as file:
        file.truncate(128 + 3 * 8 * 4 + 5)


SPOILERS = {
    "gone": lambda path: path.unlink(),
    "too short": spoilt_by_cutting,
    "no array": lambda path: path.write_bytes(b"nothing"),
    "of another width": lambda path: np.save(path, np.zeros((9, 4))),
    "of another type": lambda path: np.save(path, np.zeros((9, 3), dtype=np.float32)),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_file_that_does_not_hold_the_rows_is_not_adopted(tmp_path, spoiler):
    grown("disk", tmp_path).append(rows_of(5))
    SPOILERS[spoiler](tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"a\.npy must still hold the 5 rows"):
        grown("disk", tmp_path).adopt(5)


def test_memory_has_nothing_to_adopt(tmp_path):
    with pytest.raises(ValueError, match="must still hold"):
        grown("memory", tmp_path).adopt(1)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_pickled_array_goes_on(tmp_path, place):
    array = grown(place, tmp_path)
    array.append(rows_of(4))
    array.rows.sum()
    other = pickle.loads(pickle.dumps(array))
    other.append(rows_of(1, start=4))
    np.testing.assert_array_equal(other.rows, rows_of(5))


# Conditions

json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=6,
)


def exactly(value):
    """Tell 1 from True, which Python does not."""
    return (
        repr(value)
        if not isinstance(value, dict)
        else sorted((key, exactly(item)) for key, item in value.items())
    )


@laws
@given(json, json)
def test_a_difference_is_found_where_there_is_one(one, other):
    assert first_difference(one, one) is None
    found = first_difference(one, other)
    if exactly(one) == exactly(other):
        assert found is None
    elif one != other:
        assert found is not None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
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


def test_a_fingerprint_is_of_the_numbers_alone():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    own = fingerprint(X, "<f4")
    assert own == fingerprint(np.asfortranarray(X), "<f4")
    assert own == fingerprint(X.astype(np.float64), "<f4")
    assert own == fingerprint(X.repeat(2, 0)[::2], "<f4")
    assert own != fingerprint(X[::-1], "<f4")
