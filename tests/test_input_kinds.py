"""The same rows are the same stream, whatever they come in."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from each_case import for_each
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from sklearn_mdl import (
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MultiOutputSwitcher,
    RefitReadout,
    RepresentationScorer,
    compare,
    compare_protocols,
)
from sklearn_mdl.datasets import prequential_order
from sklearn_mdl.encoders import views_of
from sklearn_mdl.model_selection import EncoderRace, two_axes

X, Y = load_digits(return_X_y=True)
X, Y = X[:120].astype(np.float32), Y[:120]
CLASSES = np.arange(10)


def switcher(**options):
    readouts = [LinearReadout(lr=0.01), LinearReadout(lr=0.01, scaling="whiten")]
    options = {"random_state": 0, "device": "cpu", "batch_size": 16, **options}
    return MDLReadoutSwitcher(readouts, **options)


@pytest.fixture(scope="module")
def expected():
    return switcher().fit(X, Y)


def as_pandas(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    return frame.astype(kind), pd.Series(Y, name="digit")


def as_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({f"pixel {i}": column for i, column in enumerate(X.T)})
    return frame, pl.Series("digit", Y)


KINDS = {
    "lists": lambda: (X.tolist(), Y.tolist()),
    "float16": lambda: (X.astype(np.float16), Y),
    "float64": lambda: (X.astype(np.float64), Y.astype(np.int8)),
    "integers": lambda: (X.astype(np.int32), Y),
    "Fortran order": lambda: (np.asfortranarray(X), Y),
    "every second of twice as many": lambda: (X.repeat(2, 0)[::2], Y.repeat(2)[::2]),
    "other bytes": lambda: (X.astype(">f8"), Y.astype(">i4")),
    "read-only": lambda: (np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape), Y),
    "tensors": lambda: (torch.tensor(X), torch.tensor(Y)),
    "tensors that learn": lambda: (torch.tensor(X, requires_grad=True), Y),
    "bfloat16": lambda: (torch.tensor(X, dtype=torch.bfloat16), torch.tensor(Y)),
    "pandas": lambda: as_pandas("float64"),
    "pandas of its own types": lambda: as_pandas("Float32"),
    "polars": as_polars,
    "sparse, by row": lambda: (sparse.csr_array(X), Y),
    "sparse, by column": lambda: (sparse.csc_matrix(X), Y),
    "sparse, by entry": lambda: (sparse.coo_array(X), Y),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_rows_come_in_changes_no_bit(kind, expected):
    X_given, y_given = KINDS[kind]()
    found = switcher().fit(X_given, y_given)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)
    np.testing.assert_array_equal(
        found.predict_proba(X_given), expected.predict_proba(X)
    )
    if kind == "sparse, by entry":  # old versions of scipy cannot slice it
        X_given = X_given.tocsr()
    pieces = switcher().partial_fit(X_given[:50], y_given[:50], classes=CLASSES)
    pieces.partial_fit(X_given[50:], y_given[50:])
    np.testing.assert_array_equal(pieces.codelengths_, expected.codelengths_)
    said = switcher(shuffle=True).dry_run(X_given, y_given, groups=Y)
    wanted = switcher(shuffle=True).dry_run(X, Y, groups=Y)
    assert (said.n_rows, said.memory_bytes) == (120, wanted.memory_bytes)


def test_a_dry_run_names_the_row_of_a_missing_label():
    y = Y.astype(float)
    y[3] = np.nan
    for call in (switcher(shuffle=True).fit, switcher(shuffle=True).dry_run):
        with pytest.raises(ValueError, match="row 3"):
            call(X, y)


NUMBERS = 2**53 + np.arange(3)  # float64 knows two of them


def as_series(dtype):
    pd = pytest.importorskip("pandas")
    return lambda y: pd.Series(y, dtype=dtype)


LARGE = {
    "Int64": as_series("Int64"),
    "UInt64": as_series("UInt64"),
    "pandas of objects": as_series(object),
    "objects": lambda y: np.array(y.tolist(), dtype=object),
    "unsigned": lambda y: y.astype(np.uint64),
    "list": np.ndarray.tolist,
}


@cache
def of_large_numbers():
    return switcher().fit(X, NUMBERS[Y % 3])


@pytest.mark.slow
@for_each("kind", LARGE)
def test_large_whole_numbers_are_labels_of_their_own(kind):
    y, expected = NUMBERS[Y % 3], of_large_numbers()
    given = LARGE[kind](y)
    classes = LARGE[kind](NUMBERS)
    found = switcher().fit(X, given)
    assert found.classes_.tolist() == [int(v) for v in classes]
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)
    assert found.predict(X[:9]).tolist() == [
        int(classes[i]) for i in np.searchsorted(NUMBERS, expected.predict(X[:9]))
    ]
    pieces = switcher().partial_fit(X[:50], given[:50], classes=classes)
    pieces.partial_fit(X[50:], given[50:], classes=classes)
    np.testing.assert_array_equal(pieces.codelengths_, expected.codelengths_)
    scorer = RepresentationScorer(switcher())
    ranked = scorer.fit({"a": ({"b": X}, given)}).codelengths_
    np.testing.assert_array_equal(ranked, scorer.fit({"a": ({"b": X}, y)}).codelengths_)
    np.testing.assert_array_equal(
        MultiOutputSwitcher(switcher())
        .fit(X, np.array([given, given], dtype=object).T)
        .estimators_[1]
        .codelengths_,
        expected.codelengths_,
    )


@for_each("y", [[2**70, 2**70 + 1], [2**63, -1], [2**53 + 1, 0.5]])
def test_whole_numbers_that_would_be_rounded_are_refused(y):
    with pytest.raises(ValueError, match=r"Labels .*be (whole numbers|integers)"):
        switcher().fit(X[:60], y * 30)


@pytest.mark.gpu
def test_tensors_on_a_gpu_are_taken(expected):
    found = switcher().fit(torch.tensor(X).cuda(), torch.tensor(Y).cuda())
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_names_of_features_are_kept_and_compared(kind):
    frame, y = KINDS[kind]()
    found = switcher().fit(frame, y)
    assert found.feature_names_in_.tolist() == [f"pixel {i}" for i in range(64)]
    swapped = frame[[*frame.columns[1:], frame.columns[0]]]
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(swapped)


# Blocks


def blocks(*sizes):
    ends = np.cumsum([0, *sizes])
    return [(X[start:stop], Y[start:stop]) for start, stop in pairwise(ends)]


@for_each("sizes", [(120,), (1, 2, 3, 40, 74), (60, 60)])
def test_a_stream_of_blocks_is_one_stream(sizes, expected):
    generator = (block for block in blocks(*sizes))
    found = switcher().fit_stream(generator, CLASSES)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


def test_a_data_loader_is_a_stream(expected):
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=50)
    found = switcher().fit_stream(loader, CLASSES)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


def test_a_stream_of_blocks_forgets_what_was_before(expected):
    found = switcher().fit(X[:, :3], Y % 2)
    found.fit_stream(blocks(100, 20), CLASSES)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)
    assert found.n_features_in_ == 64
    assert not hasattr(found, "order_")


def test_no_block_is_refused_and_nothing_forgotten(expected):
    found = switcher().fit(X, Y)
    with pytest.raises(ValueError, match="at least one pair"):
        found.fit_stream(iter([]), CLASSES)
    with pytest.raises(ValueError, match=r"among the classes \[0, 1\]"):
        found.fit_stream(blocks(120), [0, 1])
    with pytest.raises(
        TypeError, match=r"but block 0 is array\(.*\.\.\.; write yield X, y$"
    ):
        found.fit_stream([X, Y], CLASSES)
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


def test_blocks_before_one_that_is_refused_stay_scored(expected):
    found = switcher()
    with pytest.raises(ValueError, match="9 features"):
        found.fit_stream([*blocks(40, 30), (X[70:, :9], Y[70:])], CLASSES)
    assert found.n_samples_seen_ == 70
    with pytest.raises(
        TypeError, match=r"but block 2 is array\(.*\.\.\.; write yield X, y$"
    ):
        found.fit_stream([*blocks(40, 30), X[70:]], CLASSES)
    assert found.n_samples_seen_ == 70
    found.partial_fit(X[70:], Y[70:])
    np.testing.assert_array_equal(found.codelengths_, expected.codelengths_)


TEXT = np.array(["a", "b"] * 20, dtype=object)
MISSING = {
    "None": lambda pd: np.where(np.arange(40) == 3, None, TEXT),
    "NaN": lambda pd: np.where(np.arange(40) == 3, np.nan, TEXT),
    "<NA>": lambda pd: pd.Series(TEXT, dtype="string").where(np.arange(40) != 3),
    "datetime64('NaT'": lambda pd: np.where(
        np.arange(40) == 3, np.datetime64("NaT", "D"), np.datetime64("2020-01-01")
    ),
}
HAS_TEXT = hasattr(np.dtypes, "StringDType")  # since numpy 2
if HAS_TEXT:
    MISSING["nan"] = lambda pd: MISSING["None"](pd).astype(
        np.dtypes.StringDType(na_object=None)
    )


@for_each("name", MISSING)
def test_a_label_that_is_missing_is_named_by_its_row(name):
    y = MISSING[name](pytest.importorskip("pandas"))
    named = re.escape("" if name == "nan" else name)
    words = f".*{named}.* in row 3; pass only rows where"
    with pytest.raises(ValueError, match=f"Input y contains {words}"):
        switcher().fit(X[:40], y)
    with pytest.raises(ValueError, match=f"Input y contains {words}"):
        switcher().partial_fit(X[:40], y, classes=["a", "b"])


RANKINGS = {
    "compare": lambda y: compare({"a": X[:40]}, y=y, verbose=0),
    "scorer": lambda y: RepresentationScorer().fit({"d": ({"a": X[:40]}, y)}),
    "one transformer": lambda y: RepresentationScorer()(PCA(2).fit(X), X[:40], y),
    "protocols": lambda y: compare_protocols({"a": PCA(2)}, X[:40], y),
    "two axes": lambda y: two_axes({"a": X[:40]}, y, Y[:40]),
    "order": lambda y: prequential_order(y, stratify=True),
}


@for_each("kind", [list, np.array])
@for_each("name", RANKINGS)
def test_a_missing_label_is_never_a_class(name, kind):
    given = ["a", "b"] * 20
    given[3] = np.nan
    y = given if kind is list else np.array(given, object)
    with pytest.raises(ValueError, match=r"Input y contains NaN in row 3; .*notna"):
        RANKINGS[name](y)


@pytest.mark.skipif(not HAS_TEXT, reason="numpy before 2 has no such type")
def test_text_of_numpys_own_type_is_text():
    fitted = switcher().fit(X[:40], TEXT.astype(np.dtypes.StringDType()))
    expected = switcher().fit(X[:40], TEXT)
    np.testing.assert_array_equal(fitted.codelengths_, expected.codelengths_)
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))


@pytest.mark.parametrize("kind", ["networks", "others"])
def test_minibatches_larger_than_the_data_cost_no_more_than_they(kind, expected):
    others = [KNeighborsReadout(), RefitReadout(LogisticRegression())]
    options = {"readouts": others} if kind == "others" else {}
    huge = switcher(batch_size=10**9).set_params(**options).fit(X, Y)
    large = switcher(batch_size=len(X) + 1).set_params(**options).fit(X, Y)
    np.testing.assert_array_equal(huge.codelengths_, large.codelengths_)
    np.testing.assert_allclose(huge.codelengths_, np.log(10))
    found = huge.predict_proba(X)
    np.testing.assert_allclose(found, large.predict_proba(X), rtol=1e-3)
    np.testing.assert_array_equal(huge.predict_proba(X[5:6]), found[5:6])


MASKED = np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) == 3 * 64 + 5)
HIDDEN = np.ma.masked_array(Y, np.arange(len(Y)) == 3)
TWO = {"a": X, "b": X[:, :9]}


@pytest.mark.parametrize(
    "call",
    [
        lambda: switcher().fit(MASKED, Y),
        lambda: switcher().fit(X, HIDDEN),
        lambda: MDLReadoutSwitcherRegressor("closed-form").fit(X, HIDDEN / 7),
        lambda: RepresentationScorer().fit({"digits": ({"a": MASKED}, Y)}),
        lambda: RepresentationScorer().fit({"digits": ({"a": X}, HIDDEN)}),
        lambda: compare({"a": X, "b": MASKED}, y=Y),
        lambda: EncoderRace(list(TWO), 10).update({**TWO, "a": MASKED}, Y),
        lambda: EncoderRace(list(TWO), 10).update(TWO, HIDDEN),
        lambda: views_of(MASKED.reshape(-1, 8, 8), ("example", "position", "feature")),
    ],
)
def test_masked_values_are_missing(call):
    with pytest.raises(ValueError, match="must have no masked values, but row 3"):
        call()
