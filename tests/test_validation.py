"""Checks of labels and groups, one by one: what they take, return and refuse."""

import math
import re
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from each_case import for_each
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.validation import (
    as_labels,
    check_order,
    check_positive,
    damaged,
    distinct_classes,
    invalid,
    is_grouped,
    kept_warnings,
    named_groups,
    refuse_columns,
    refuse_missing,
    refuse_text,
    warn_caller,
    warn_if_rounded,
)

NAT = np.datetime64("NaT", "D")


class Missing:
    """As pandas' NA: a comparison gives no bool."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"

    __hash__ = None


def test_an_error_says_what_must_be_what_was_given_and_the_cure():
    error = invalid("lr", "a positive number", -1.0, "pass 0.1")
    assert str(error) == "lr must be a positive number, got -1.0; pass 0.1"
    whole, cut = ("x" * n for n in (198, 199))  # repr adds two quotes
    assert str(invalid("a", "b", whole, "c")) == f"a must be b, got {whole!r}; c"
    shown = "'" + "x" * 196 + "..."
    assert str(invalid("a", "b", cut, "c")) == f"a must be b, got {shown}; c"
    error = damaged("run.safetensors", "losses", "it is empty", "save it again")
    said = "run.safetensors must hold losses, but it is empty; save it again"
    assert str(error) == said


def test_warnings_can_be_kept_for_later():
    with kept_warnings() as said:
        warn_caller("one")
        with kept_warnings() as inner:
            warn_caller("two")
        warn_caller("three")
    assert said == ["one", "three"]
    assert inner == ["two"]
    with pytest.raises(KeyError), kept_warnings():
        raise KeyError
    with pytest.warns(UserWarning, match="four") as record:
        warn_caller("four")
    assert len(record) == 1


@for_each(
    "given, kind",
    [
        ([3, 1, 2], np.int64),
        ([[3], [1]], np.int64),
        ([2**63, 1], np.uint64),
        ([2**64 - 1, 0], np.uint64),
        (np.array([-(2**63), 2**63 - 1], object), np.int64),
        (np.array([[2**63], [0]], object), np.uint64),
        (np.array([2**53 + 1, -1], object), np.int64),
        ((7, 7), np.int64),
    ],
)
def test_whole_numbers_are_exact_integers_of_the_same_shape(given, kind):
    found = as_labels(given)
    assert found.dtype == kind
    assert found.tolist() == np.asarray(given, object).tolist()


@for_each(
    "values, kind",
    [
        ([0.5, 2], np.float64),
        ([[1.0], [2.0]], np.float64),
        ([True, False], bool),
        ([True, 2], np.int64),
    ],
)
def test_numbers_in_a_table_of_objects_are_numbers(values, kind):
    found = as_labels(np.array(values, object))
    assert found.dtype == kind
    assert found.tolist() == values


@for_each(
    "given",
    [
        None,
        [],
        ["a", "b"],
        [True, False],
        [0.5, 1.0],
        [2**53, 0.5],
        [-(2**53), 0.5],
        np.array([1.0, 2.0]),
        np.array([1, 2], np.int8),
        np.array([[1, "a"]], object),
        np.array([], object),
        np.array([np.ones(2), np.ones(3)], object),
        csr_array(np.eye(2)),
    ],
)
def test_other_labels_are_left_alone(given):
    assert as_labels(given) is given


@for_each(
    "given, words",
    [
        ([2**53 + 1, 0.5], "if one exceeds 9007199254740992, got 0.5; pass"),
        (np.array([2**70, 0.5], object), "if one exceeds .* got 0.5; pass"),
        ([3, -(2**53) - 1, 0.5], "must all be integers .* got 0.5; pass"),
        ([2**64, 1], f"at most 64 bits, got 1 to {2**64}"),
        (
            [2**63, -1],
            f"one type, int64 or uint64, of at most 64 bits, got -1 to {2**63}",
        ),
        ([-(2**63) - 1, 0], f"at most 64 bits, got {-(2**63) - 1} to 0"),
    ],
)
def test_whole_numbers_that_would_be_rounded_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        as_labels(given)


@for_each(
    "given, words",
    [
        (["a", None], "contains None in row 1;"),
        (["a", "b", math.nan], "contains NaN in row 2;"),  # text to NumPy
        (np.array(["a", math.nan, None], object), "contains NaN in row 1;"),
        (np.array([1, Missing()], object), "contains <NA> in row 1;"),
        (np.array([NAT, NAT]), "contains .*NaT.* in row 0;"),
        (np.array(["2020", "NaT"], "M8[D]"), "in row 1;"),
        (np.array([3, "NaT"], "m8[D]"), "in row 1;"),
        (np.array([1.0, math.nan]), "contains NaN in row 1;"),
        (np.array([["a", "b"], ["a", None]], object), "contains None in row 1;"),
        (None, None),  # scikit-learn refuses it
        ([[1], [2, 3]], None),
        (["a", "b"], None),
        (np.array([1, 2]), None),
    ],
)
def test_the_first_label_that_is_missing_is_named(given, words):
    if words is None:
        assert refuse_missing(given) is given
        return
    with pytest.raises(ValueError, match=f"^y must hold a label .*{words}"):
        refuse_missing(given)
    with pytest.raises(ValueError, match=f"^labels must hold a label .*{words}"):
        as_labels(given, "labels")


def test_numbers_are_checked():
    check_positive("n", np.int64(1), 5)
    for wrong in (0, 1.5, "2"):
        with pytest.raises(ValueError, match=r"^n must be a positive integer, got"):
            check_positive("n", wrong, 5)
    refuse_text([[1, "2.5"]])
    with pytest.raises(ValueError, match=r"^X must hold numbers, got 'a' in column 1;"):
        refuse_text([[1, "a"]])
    for given in ([1, 2], [[1], [2]], np.zeros((1, 2, 2))):
        refuse_columns(given, "pass one")
    with pytest.raises(
        ValueError, match=r"got an array of shape \(1, 2\) .*; pass one"
    ):
        refuse_columns([[1, 2]], "pass one")
    with pytest.warns(UserWarning, match="column 0 only varies by 1 around 1e"):
        warn_if_rounded([[1e9], [1e9 + 1]], None)
    frame = pd.DataFrame({"a": [0.0, np.nan], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"contains NaN in row 1, column 0 \('a'\)"):
        MDLReadoutSwitcher("closed-form").fit(frame, [0, 1])


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="since numpy 2")
def test_text_of_any_length_becomes_objects():
    given = np.array(["a", "long"], np.dtypes.StringDType())
    found = refuse_missing(given)
    assert found.dtype == object
    assert found.tolist() == ["a", "long"]
    none = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    with pytest.raises(ValueError, match="contains None in row 1;"):
        refuse_missing(none)


@for_each(
    "groups",
    [
        [1, 1, 2],
        ["a", "b"],
        [[1], [2]],
        np.array([0.5, 1.0]),
        np.array(["a", 3], object),
    ],
)
def test_names_of_groups_are_returned_as_they_are(groups):
    found = named_groups(groups)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == np.asarray(groups).tolist()


@for_each(
    "groups, row",
    [
        ([1.0, math.nan], 1),
        (["a", "b", math.nan], 2),
        (["a", None], 1),
        (np.array([0.5, math.nan, math.nan]), 1),
        (np.array(["a", Missing()], object), 1),
        (np.array(["2020", "NaT"], "M8[D]"), 1),
        (np.ma.masked_array([1, 2, 3], [0, 0, 1]), 2),
        (np.ma.masked_array([1.0, math.nan, 3.0], [0, 0, 1]), 1),
        (np.ma.masked_array(["a", "b"], [1, 0], dtype=object), 0),
        (np.array([["a"], [None]], object), 1),
    ],
)
def test_rows_without_a_group_are_refused(groups, row):
    with pytest.raises(ValueError, match=f"^groups must .* row {row} has no group;"):
        named_groups(groups)
    with pytest.raises(ValueError, match=r"^subjects must name the group"):
        named_groups(groups, "subjects")


def test_a_single_class_is_refused():
    assert distinct_classes(np.array(["b", "a", "b"]), "f").tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"^f needs .* one class, \['b'\]; add"):
        distinct_classes(np.array(["b", "b"]), "f")
    for labels, cure in (
        ([0.5, 1.5], r"use MDLReadoutSwitcherRegressor\(\), or pass np.digitize"),
        ([{}, {}], r"pass \[str\(v\) for v in y\]"),
    ):
        with pytest.raises(ValueError, match=f"y must hold classes, .*; {cure}"):
            distinct_classes(np.array(labels), "f")


def test_grouped_is_what_two_codes_of_the_labels_say():
    """The witness counts orders and runs in whole numbers."""
    rng, seen = np.random.default_rng(0), []
    for _ in range(600):
        n, k = int(rng.integers(20, 60)), int(rng.integers(2, 5))
        labels = np.sort(rng.integers(k, size=n))
        moved = rng.permutation(n)[: int(rng.integers(0, n // 3))]
        labels[moved] = labels[rng.permutation(moved)]
        counts = [c for c in np.bincount(labels).tolist() if c]
        orders = math.factorial(n) // math.prod(map(math.factorial, counts))
        runs = 1 + sum(a != b for a, b in pairwise(labels.tolist()))
        k = len(counts)
        codes = n * math.comb(n - 1, runs - 1) * k * (k - 1) ** (runs - 1)
        saved = math.log(orders) - math.log(codes)
        few = runs <= n * (1 - sum((c / n) ** 2 for c in counts))
        expected = few and saved > max(14, math.log(orders) / 4)
        assert is_grouped(labels) == expected
        repeats = rng.integers(1, 4, size=n)  # only the first row of a group counts
        rows = np.zeros(repeats.sum(), int)
        rows[np.cumsum(repeats) - repeats] = labels
        assert is_grouped(rows, np.repeat(-np.arange(n), repeats)) == expected
        seen.append(expected)
    assert 100 < sum(seen) < 500
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_grouped(np.zeros(30, int))


@pytest.mark.parametrize("kind", [np.array, pd.Series])
@pytest.mark.parametrize("values", [[1, "a"], ["a", 2.5], [True, "a", 2**70]], ids=str)
def test_labels_that_have_no_order_are_refused(values, kind):
    X, y = np.eye(30)[:, :4], kind(values * (30 // len(values)), dtype=object)
    other = values[values[0] == "a"]
    said = f"y must hold only text or only numbers, got 'a' and {other!r}; pass [str("
    switcher = MDLReadoutSwitcher("linear")
    with pytest.raises(ValueError, match=re.escape(said)):
        switcher.fit(X, y)
    with pytest.raises(ValueError, match=re.escape(said)):
        switcher.partial_fit(X, y, classes=np.array(values, object))
    switcher.fit(X, [str(label) for label in y])


def test_columns_of_one_name_are_refused():
    X, y = pd.DataFrame(np.eye(30)[:, :3], columns=["a", "b", "a"]), [0, 1] * 15
    switcher = MDLReadoutSwitcher("linear")
    said = r"^Column names of X must be distinct, got \['a', 'b', 'a'\]; pass X.set"
    with pytest.raises(ValueError, match=said):
        switcher.fit(X, y)
    switcher.fit(X.set_axis(range(X.shape[1]), axis=1), y)


@pytest.mark.parametrize("kind", ["frame", "arrow", "array", "list"])
def test_text_among_features_is_named_with_its_column(kind):
    X = pd.DataFrame({"size": [1.0, 2.0], "day": ["3", "Sun"]})
    name = "day" if kind in ("frame", "arrow") else 1
    array = X.to_numpy(object)
    arrow = pa.Table.from_pandas(X)
    X = {"frame": X, "arrow": arrow, "array": array, "list": array.tolist()}[kind]
    said = f"X must hold numbers, got 'Sun' in column {name!r}; encode it"
    with pytest.raises(ValueError, match=re.escape(said)):
        MDLReadoutSwitcher("linear").fit(X, [0, 1])
    transformed = make_column_transformer(
        (OneHotEncoder(), [name]), remainder="passthrough"
    )
    if kind in ("frame", "array"):
        MDLReadoutSwitcher("linear").fit(transformed.fit_transform(X), [0, 1])


NAN = pd.DataFrame({"a": [1.0, 2.0] * 15, "b": [0.5, np.nan] + [1.5] * 28})


@for_each(
    "X",
    [
        NAN,
        NAN.convert_dtypes(),
        NAN.to_numpy(),
        NAN.to_numpy(object),
        NAN.to_numpy().tolist(),
        csr_array(NAN.to_numpy()),
    ],
)
def test_missing_features_are_cured_in_every_kind_of_table(X):
    switcher, y = MDLReadoutSwitcher("linear"), [0, 1] * 15
    name = r" \('b'\)" if isinstance(X, pd.DataFrame) else ""
    said = rf"NaN in row 1, column 1{name}; .*SimpleImputer\(\)\.fit_trans"
    with pytest.raises(ValueError, match=said):
        switcher.fit(X, y)
    switcher.fit(SimpleImputer().fit_transform(X), y)


def test_texts_and_dates_are_not_features():
    y, texts = [0, 1] * 15, ["good film", "bad film"] * 15
    dates = pd.DataFrame({"size": y, "day": pd.date_range("2020", periods=30)})
    said = "X must be a table of numbers, got 'good film'; for texts pass Tfidf"
    for rows in (texts, np.array(texts), pd.Series(texts)):
        with pytest.raises(ValueError, match=said):
            MDLReadoutSwitcher("linear").fit(rows, y)
    with pytest.raises(ValueError, match=r"got Timestamp\(.* in column 'day'; encode"):
        MDLReadoutSwitcher("linear").fit(dates, y)
    MDLReadoutSwitcher("linear").fit(TfidfVectorizer().fit_transform(texts), y)


@for_each(
    "offset, spread, is_lost",
    [
        *((1e8, 1.0, True), (0.0, 1e-60, True), (0.0, 1e-43, True)),
        *((0.1, 1e-17, False), (1e4, 1.0, False), (0.0, 1e-39, False)),
    ],
)
def test_features_that_float32_cannot_resolve_are_named(offset, spread, is_lost):
    X = np.random.default_rng(0).standard_normal((20, 3))
    X[:, 1] = offset + X[:, 1] * spread
    with kept_warnings() as said:
        warn_if_rounded(X, None)
    assert len(said) == is_lost
    assert all("column 1 only varies by" in text for text in said)
    with kept_warnings() as said:
        warn_if_rounded(X.astype(np.float32), None)
        warn_if_rounded(X[:1], None)
        warn_if_rounded(StandardScaler().fit_transform(X), None)
    assert not said


def test_whole_numbers_in_a_frame_are_checked_for_float32_too():
    X = pd.DataFrame({"a": [0, 1, 2, 3], "time": [10**12 + k for k in range(4)]})
    with pytest.warns(UserWarning, match="column 'time' only varies by 3 around 1e"):
        MDLReadoutSwitcher("linear", random_state=0).fit(X, [0, 1, 0, 1])


def test_frames_are_compared_by_their_index_only_if_it_names_each_row():
    y = pd.Series([0, 1, 2], index=["a", "b", "c"])
    for index in (["b", "a", "c"], ["c", "b", "a"]):
        with pytest.raises(ValueError, match=r"^title must have all rows in the order"):
            check_order(y.loc[index].to_frame(), y, "title")
    check_order(y.to_frame(), y, "title")
    for index in (["b", "a"], ["a", "b", "d"], ["d", "e", "f"], ["b", "b", "a"]):
        check_order(pd.DataFrame({"x": index}, index=index), y, "title")
    rows = y.loc[["b", "a", "c"]].to_frame()
    for pair in ((rows.to_numpy(), y), (rows, y.to_numpy()), (["b"], y), (rows, [0])):
        check_order(*pair, "title")
