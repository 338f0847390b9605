"""Several labels to a row: a run for each column, and nothing but the sum of them."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from sklearn_mdl import (
    FixedShare,
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    MultiOutputSwitcher,
    PrequentialSplit,
    codelength_scorer,
    frequency_codelength,
    heldout_codelength_scorer,
)
from sklearn_mdl.readouts._kernel_groups import KernelGroup

X, DIGITS = load_digits(return_X_y=True)
X, DIGITS = X[:150].astype(np.float32), DIGITS[:150]
# Labels of a digit, and one with three classes.
Y = np.column_stack([DIGITS % 2, DIGITS > 4, DIGITS % 3]).astype(int)
CLASSES = [[0, 1], [0, 1], [0, 1, 2]]
POOL = [LinearReadout(lr=0.01), MLPReadout((8,), lr=0.01, scaling="whiten")]


def plain(**options):
    options = {"readouts": POOL, "random_state": 0, "batch_size": 16, **options}
    return MDLReadoutSwitcher(device="cpu", **options)


def several(n_jobs=None, **options):
    return MultiOutputSwitcher(plain(**options), n_jobs=n_jobs)


def assert_same_run(found, expected):
    assert_array_equal(found.codelengths_, expected.codelengths_)
    assert_array_equal(found.posterior_, expected.posterior_)
    assert_array_equal(found.readout_losses_, expected.readout_losses_)


@pytest.fixture(scope="module")
def fitted():
    return several(shuffle=True).fit(X, Y)


@cache
def in_order():
    return several().fit(X, Y)


# What is asked of every estimator


def test_tags_say_that_labels_have_columns():
    tags = get_tags(MultiOutputSwitcher())
    assert tags.target_tags.multi_output
    assert not tags.target_tags.single_output
    assert tags.target_tags.required
    assert tags.classifier_tags.multi_label


def test_parameters_of_the_switcher_can_be_set():
    switcher = MultiOutputSwitcher(plain(switching=FixedShare(m=3)))
    switcher.set_params(switcher__switching__m=5, switcher__batch_size=8, n_jobs=2)
    copy = clone(switcher)
    assert copy.get_params()["switcher__switching__m"] == 5
    assert (copy.switcher.batch_size, copy.n_jobs) == (8, 2)
    assert copy.switcher is not switcher.switcher
    assert repr(MultiOutputSwitcher()) == "MultiOutputSwitcher()"


def test_it_is_pickled_and_goes_on(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.codelength_ == fitted.codelength_
    copy.partial_fit(X[:20], Y[:20])
    expected = pickle.loads(pickle.dumps(fitted)).partial_fit(X[:20], Y[:20])
    assert_array_equal(copy.codelengths_, expected.codelengths_)
    assert fitted.n_samples_seen_ == 150


# The sum


def test_each_column_is_scored_as_by_a_switcher_of_its_own(fitted):
    alone = [plain(shuffle=True).fit(X, column) for column in Y.T]
    for found, expected in zip(fitted.estimators_, alone, strict=True):
        assert_same_run(found, expected)
    assert fitted.codelength_ == sum(switcher.codelength_ for switcher in alone)
    assert_array_equal(
        fitted.codelengths_, sum(switcher.codelengths_ for switcher in alone)
    )
    assert_array_equal(
        fitted.output_codelengths_, [switcher.codelength_ for switcher in alone]
    )
    assert_allclose(fitted.codelengths_.sum(), fitted.codelength_, rtol=1e-12)


def test_one_column_is_what_the_switcher_makes_of_it():
    found = several(shuffle=True).fit(X, Y[:, [2]])
    expected = plain(shuffle=True).fit(X, Y[:, 2])
    assert found.codelength_ == expected.codelength_
    assert_array_equal(found.codelengths_, expected.codelengths_)
    assert_array_equal(found.order_, expected.order_)
    assert_array_equal(found.predict(X)[:, 0], expected.predict(X))
    (proba,) = found.predict_proba(X)
    assert_array_equal(proba, expected.predict_proba(X))
    assert found.score(X, Y[:, [2]]) == expected.score(X, Y[:, 2])
    assert found.measures() == [expected.measures()]


def test_the_order_of_the_columns_means_nothing(fitted):
    order = [2, 0, 1]
    found = several(shuffle=True).fit(X, Y[:, order])
    for place, column in enumerate(order):
        assert_same_run(found.estimators_[place], fitted.estimators_[column])
    assert_allclose(found.codelengths_, fitted.codelengths_, rtol=1e-12)
    assert_allclose(found.codelength_, fitted.codelength_, rtol=1e-12)


def test_no_column_knows_another():
    twice = several().fit(X, Y[:, [0, 0]])
    assert twice.codelength_ == 2 * plain().fit(X, Y[:, 0]).codelength_


def test_labels_of_a_row_are_independent_given_its_features(fitted):
    """The code of all is the product of the probabilities, by enumeration."""
    found = several(batch_size=150).fit(X[:40], Y[:40])
    cost = found.heldout_codelengths(X[40:41], Y[40:41])
    log_proba = found.predict_log_proba(X[40:41])
    assert cost.shape == (1,)
    total = sum(p[0, label] for p, label in zip(log_proba, Y[40], strict=True))
    uniform = np.log(2) + np.log(2) + np.log(3)  # nothing has been learned in place
    assert_allclose(cost, uniform, rtol=1e-6)
    assert total != pytest.approx(-uniform)  # but a copy has, for predictions
    table = [
        np.exp(sum(p[0, c] for p, c in zip(log_proba, labels, strict=True)))
        for labels in np.ndindex(2, 2, 3)
    ]
    assert_allclose(sum(table), 1)


def test_random_labels_are_not_compressed():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=(300, 3))
    found = several().fit(rng.normal(size=(300, 5)), labels)
    assert found.codelength_ > found.uniform_codelength_ - 20
    assert found.uniform_codelength_ == pytest.approx(900 * np.log(2))


def test_features_that_tell_the_labels_save_nats(fitted):
    assert fitted.codelength_ < 0.8 * fitted.frequency_codelength_


def test_permutations_of_all_columns_share_a_factor(monkeypatch):
    readouts = [KernelReadout(alpha=alpha) for alpha in (0.03, 0.3)]
    found = several(readouts=readouts, shuffle=True).fit(X[:70], Y[:70])
    factored = []
    refitted = KernelGroup.refitted
    monkeypatch.setattr(
        KernelGroup,
        "refitted",
        lambda self, targets: factored.append(self) or refitted(self, targets),
    )
    tests = found.permutation_test(2)
    assert len(factored) == 5  # rows 0, 8, 16, 32, 64
    assert len({group.ridge.alphas.shape for group in factored}) == 1
    for test, switcher in zip(tests, found.estimators_, strict=True):
        own = switcher.permutation_test(2)
        assert_allclose(test.codelength, own.codelength, rtol=1e-9)
        assert_allclose(test.null_codelengths, own.null_codelengths, rtol=1e-9)
        assert test.p_value == own.p_value
    totals = np.sum([test.null_codelengths for test in tests], 0)
    assert_array_equal(found.null_codelengths(2).sum(1), totals)
    assert found.predict(X[:2]).shape == (2, 3)  # runs are as they were
    readout = MultiOutputSwitcher(LinearReadout()).fit(X[:40], Y[:40])
    words = r"needs switcher=MDLReadoutSwitcher\(...\), got .*; fit with this switcher$"
    with pytest.raises(ValueError, match=words):
        readout.permutation_test()


def test_reference_codes_are_summed(fitted):
    frequencies = sum(
        frequency_codelength(column[fitted.order_], len(known))
        for column, known in zip(Y.T, CLASSES, strict=True)
    )
    assert fitted.frequency_codelength_ == pytest.approx(frequencies)
    uniform = 150 * (2 * np.log(2) + np.log(3))
    assert fitted.uniform_codelength_ == pytest.approx(uniform)
    found = sum(measures.codelength for measures in fitted.measures())
    assert found == pytest.approx(fitted.codelength_)


# Seeds and orders


def test_all_columns_are_scored_in_one_order_from_one_seed(fitted):
    for switcher in fitted.estimators_:
        assert_array_equal(switcher.order_, fitted.order_)
    assert not np.array_equal(fitted.order_, np.arange(150))


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)], ids=str)
def test_columns_share_a_seed_that_is_drawn(random_state):
    found = several(shuffle=True, random_state=random_state).fit(X, Y[:, [0, 0]])
    first, second = found.estimators_
    assert_array_equal(first.order_, second.order_)
    assert_same_run(first, second)
    again = clone(found).fit(X, Y[:, [0, 0]])
    if random_state is None:
        assert not np.array_equal(again.order_, found.order_)


def test_a_generator_moves_on_as_that_of_a_switcher():
    ours, theirs = np.random.RandomState(3), np.random.RandomState(3)
    found = MultiOutputSwitcher(plain(shuffle=True).set_params(random_state=ours))
    expected = plain(shuffle=True).set_params(random_state=theirs)
    for _ in range(2):
        found.fit(X, Y[:, [0, 1]])
        assert_same_run(found.estimators_[0], expected.fit(X, Y[:, 0]))


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [False, True], ids=["in memory", "mapped"])
def test_jobs_change_no_number(mapped, tmp_path):
    """Rows of more than a megabyte, which joblib would hand over as a file."""
    rows = np.tile(X, (1, 30))
    narrow = {"shuffle": True, "readouts": [LinearReadout(lr=0.01)]}
    expected = several(**narrow).fit(rows, Y)
    if mapped:
        np.save(tmp_path / "rows.npy", rows)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert rows.nbytes > 2**20
    found = several(n_jobs=2, **narrow).fit(rows, Y)
    for one, other in zip(found.estimators_, expected.estimators_, strict=True):
        assert_same_run(one, other)
    found.partial_fit(rows[:40], Y[:40])  # reads the rows before them again
    expected.partial_fit(rows[:40], Y[:40])
    assert_array_equal(found.codelengths_, expected.codelengths_)


# Streams


@pytest.mark.parametrize("sizes", [(150,), (1, 2, 60, 87), (50, 50, 50)], ids=str)
def test_how_a_stream_is_cut_changes_no_bit(sizes):
    expected, found, start = in_order(), several(), 0
    for size in sizes:
        rows = slice(start, start + size)
        found.partial_fit(X[rows], Y[rows], classes=None if start else CLASSES)
        start += size
    assert_array_equal(found.codelengths_, expected.codelengths_)
    for one, other in zip(
        found.predict_proba(X), expected.predict_proba(X), strict=True
    ):
        assert_array_equal(one, other)


def test_a_column_may_begin_with_one_class_that_comes_alone():
    labels = Y.copy()
    labels[:40, 0] = 1
    found = several().partial_fit(X[:40], labels[:40], classes=CLASSES)
    assert [known.tolist() for known in found.classes_] == CLASSES
    found.partial_fit(X[40:], labels[40:])
    assert found.codelength_ == several().fit(X, labels).codelength_


def test_a_refused_call_names_no_new_class():
    labels = np.where(np.arange(150) > 100, 9, Y[:, 0]), Y[:, 1]
    found, clean = (
        several(new_classes="escape").partial_fit(X[:50], Y[:50, :2], CLASSES[:2])
        for _ in range(2)
    )
    wrong = X[50:53].copy()
    wrong[1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        found.partial_fit(wrong, [[7, 0], [1, 0], [0, 1]])
    assert [known.tolist() for known in found.classes_] == CLASSES[:2]
    for each in (found, clean):
        each.partial_fit(X[50:], np.column_stack(labels)[50:])
    assert_array_equal(found.codelengths_, clean.codelengths_)


@pytest.mark.parametrize("new_classes", ["refuse", "escape"])
def test_a_call_with_a_real_number_in_one_column_changes_nothing(new_classes):
    found = several(new_classes=new_classes)
    found.partial_fit(X[:50], Y[:50, :2].astype(float), CLASSES[:2])
    wrong = Y[50:53, :2].astype(float)
    wrong[2, 1] = 0.5
    with pytest.raises(ValueError, match=r"^In column 1 of y: "):
        found.partial_fit(X[50:53], wrong)
    found.partial_fit(X[50:], Y[50:, :2].astype(float))
    clean = several(new_classes=new_classes)
    clean.partial_fit(X, Y[:, :2].astype(float), CLASSES[:2])
    assert_array_equal(found.codelengths_, clean.codelengths_)


def test_a_constant_column_costs_little_where_its_classes_are_given():
    labels = np.column_stack([Y[:, 0], np.zeros(150, int)])
    found = several().partial_fit(X, labels, classes=[[0, 1], [0, 1]])
    assert found.output_codelengths_[1] < 150 * np.log(2) / 3


def test_a_constant_column_is_refused_by_place_before_any_run(monkeypatch):
    labels = np.column_stack([Y[:, 0], np.zeros(150, int)])
    monkeypatch.setattr(MDLReadoutSwitcher, "fit", None)
    with pytest.raises(ValueError, match=r"In column 1 of y: .* only one class, \[0\]"):
        several().fit(X, labels)


def test_held_out_rows_are_summed_and_leave_no_trace(fitted):
    before = fitted.codelengths_
    found = fitted.heldout_codelengths(X[:30], Y[:30])
    alone = [
        switcher.heldout_codelengths(X[:30], column)
        for switcher, column in zip(fitted.estimators_, Y[:30].T, strict=True)
    ]
    assert_array_equal(found, sum(alone))
    assert_array_equal(fitted.codelengths_, before)


def test_columns_on_disk_have_a_folder_each(tmp_path):
    expected = several(shuffle=True).fit(X, Y)
    options = {"store": tmp_path / "store", "checkpoint": str(tmp_path / "run")}
    for _ in range(2):  # the second time it is all there
        found = several(shuffle=True, **options).fit(X, Y)
        assert_array_equal(found.codelengths_, expected.codelengths_)
    for name in ("store", "run"):
        folders = sorted(path.name for path in (tmp_path / name).iterdir())
        assert folders == ["output-0", "output-1", "output-2"]
    assert found.switcher.store == tmp_path / "store"


# Predictions


def test_predictions_are_those_of_scikit_learns_meta_estimator(fitted):
    theirs = MultiOutputClassifier(plain(shuffle=True)).fit(X, Y)
    assert_array_equal(fitted.predict(X), theirs.predict(X))
    for one, other in zip(
        fitted.predict_proba(X), theirs.predict_proba(X), strict=True
    ):
        assert_array_equal(one, other)
    assert fitted.score(X, Y) == theirs.score(X, Y)
    assert [c.tolist() for c in fitted.classes_] == [
        c.tolist() for c in theirs.classes_
    ]


def test_the_score_is_the_share_of_rows_that_are_right_throughout():
    labels = Y[:, :2]
    found = several().fit(X, labels)
    assert found.score(X, labels) == accuracy_score(labels, found.predict(X))


# What labels come in

KINDS = {
    "lists": Y.tolist(),
    "sparse": csr_matrix(Y),
    "tensor": torch.tensor(Y),
    "floats": Y.astype(float),
    "frame": pd.DataFrame(Y, columns=["odd", "large", "third"]),
    "frame of many types": pd.DataFrame(Y).astype({0: "int8", 1: "float32"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_labels_come_in_changes_no_bit(kind, fitted):
    found = several(shuffle=True).fit(X, KINDS[kind])
    assert_array_equal(found.codelengths_, fitted.codelengths_)
    assert_array_equal(found.predict(X), fitted.predict(X))


def test_words_and_numbers_may_stand_side_by_side(fitted):
    frame = pd.DataFrame({"odd": np.array(["no", "yes"])[Y[:, 0]], "large": Y[:, 1]})
    found = several(shuffle=True).fit(X, frame)
    assert_array_equal(found.output_codelengths_, fitted.output_codelengths_[:2])
    assert [known.tolist() for known in found.classes_] == [["no", "yes"], [0, 1]]
    predicted = found.predict(X)
    assert set(predicted[:, 0]) == {"no", "yes"}
    assert predicted[:, 1].tolist() == fitted.predict(X)[:, 1].tolist()
    assert found.score(X, frame) == np.mean((predicted == frame.to_numpy()).all(1))
    codes = pd.Categorical(np.array(["01", "1"])[Y[:, 0]])
    frame = pd.DataFrame(
        {"code": codes, "id": Y[:, 1] + 2**60, "large": Y[:, 1].astype(float)}
    )
    frame["flag"] = Y[:, 0] == 1
    assert several().fit(X, frame[["large", "flag"]]).predict(X).dtype == float
    expected = [["01", "1"], [2**60, 2**60 + 1], [0.0, 1.0], [False, True]]
    for table in (frame, pytest.importorskip("polars").from_pandas(frame)):
        found = several(shuffle=True).fit(X, table)
        assert [known.tolist() for known in found.classes_] == expected
        codelengths = found.output_codelengths_[:2]
        assert_array_equal(codelengths, fitted.output_codelengths_[:2])
        assert set(found.predict(X[:9])[:, 1]) <= set(expected[1])
    table = pytest.importorskip("pyarrow").table({"a": Y[:, 0], "b": Y[:, 1] / 1.0})
    assert several().fit(X, table).predict(X).dtype == float
    frame.loc[3, "large"] = None
    with pytest.raises(ValueError, match=r"Column 2 of y must hold a label .* row 3"):
        several().fit(X, frame)


def test_names_of_features_are_kept_and_compared():
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    found = several().fit(frame, Y)
    assert found.feature_names_in_[3] == "pixel 3"
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame.iloc[:, ::-1])
    found.fit(X, Y)
    assert not hasattr(found, "feature_names_in_")


# Model selection


def test_scorers_sum_over_the_columns(fitted):
    assert codelength_scorer(fitted, X, Y) == pytest.approx(-fitted.codelength_ / 150)
    pipeline = make_pipeline(StandardScaler(), several()).fit(X, Y)
    score = codelength_scorer(pipeline, X, Y)
    assert score == pytest.approx(-pipeline[-1].codelength_ / 150)
    score = heldout_codelength_scorer(fitted, X[:50] + 1, Y[:50])
    assert score == pytest.approx(
        -fitted.heldout_codelengths(X[:50] + 1, Y[:50]).mean()
    )


def test_a_search_chooses_by_the_sum():
    search = GridSearchCV(
        MultiOutputSwitcher(LinearReadout(random_state=0)),
        {"switcher__lr": [1e-5, 1e-2]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_ == {"switcher__lr": 1e-2}
    assert codelength_scorer(search, X, Y) == search.best_score_


def test_folds_are_scored_as_rows_that_come_later():
    found = cross_val_score(
        several(), X, Y, scoring=heldout_codelength_scorer, cv=KFold(2)
    )
    first = several().fit(X[75:], Y[75:])
    assert found[0] == pytest.approx(-first.heldout_codelengths(X[:75], Y[:75]).mean())


def test_the_scorer_refuses_labels_that_are_not_the_stream(fitted):
    other = Y.copy()
    other[70, 2] = (other[70, 2] + 1) % 3
    with pytest.raises(ValueError, match="y holds other labels"):
        codelength_scorer(fitted, X, other)
    with pytest.raises(ValueError, match="the fit had 150 rows and X has 140"):
        codelength_scorer(fitted, X[:140], Y[:140])
    with pytest.raises(ValueError, match=r"of shape \(n, 3\), got \(150, 2\)"):
        codelength_scorer(fitted, X, Y[:, :2])


# Refusals


@for_each("method", ["fit", "partial_fit"])
@for_each("name", ["sample_weight", "class_weight"])
def test_weights_are_refused_by_name(method, name):
    with pytest.raises(TypeError, match=f"MultiOutputSwitcher.{method}.*{name}"):
        getattr(several(), method)(X, Y, **{name: np.ones(150)})


@pytest.mark.slow
@for_each(
    "labels, words",
    [
        (
            DIGITS,
            r"shape \(n_samples, n_outputs\), got \(150,\).*use MDLReadoutSwitcher",
        ),
        (Y[:, :, None], r"n_outputs\), got \(150, 3, 1\)"),
        (np.column_stack([Y[:, 0], X[:, 20] / 7]), "In column 1 of y: .*continuous"),
        (np.where(Y == 2, np.nan, Y), "NaN"),
        (Y[:140], "inconsistent numbers of samples"),
        (None, "the target y is None"),
    ],
)
def test_labels_that_are_none_are_refused_and_nothing_is_lost(labels, words):
    found = several().fit(X, Y)
    before = found.codelength_
    with pytest.raises(ValueError, match=words):
        found.fit(X, labels)
    assert found.codelength_ == before


@for_each(
    "classes, words",
    [
        (None, "classes must be passed on the first call"),
        ([0, 1, 2], "a list of 3 lists of classes, one for each"),
        ([[0, 1], [0, 1]], "a list of 3 lists of classes, one for each"),
        ([[0, 1], [0], [0, 1, 2]], r"In column 1 of y: .*only one class, \[0\]"),
        ([[0, 1], [0, 1], [0, 1]], r"In column 2 of y: .*\[0, 1\], got \[2\]"),
    ],
)
def test_classes_of_a_stream_are_checked_at_its_first_call(classes, words):
    found = several()
    with pytest.raises(ValueError, match=words):
        found.partial_fit(X, Y, classes=classes)
    with pytest.raises(NotFittedError):
        found.predict(X)


@for_each(
    "labels, classes, words",
    [
        (Y[:20] + np.array([0, 0, 5]), None, r"In column 2 of y: .* got \[5, 6, 7\]"),
        (Y[:20], [[0, 1], [0, 1], [0, 1, 3]], "In column 2 of y: classes must be"),
        (Y[:20, :2], None, r"of shape \(n, 3\), got \(20, 2\)"),
    ],
)
def test_a_refused_call_scores_no_column(labels, classes, words):
    found = several().partial_fit(X, Y, classes=CLASSES)
    before = found.codelengths_
    with pytest.raises(ValueError, match=words):
        found.partial_fit(X[:20], labels, classes=classes)
    with pytest.raises(ValueError, match="9 features"):
        found.partial_fit(X[:20, :9], Y[:20])
    assert_array_equal(found.codelengths_, before)
    assert {switcher.n_samples_seen_ for switcher in found.estimators_} == {150}


def test_a_call_broken_off_between_columns_is_noticed(monkeypatch):
    found = several().partial_fit(X[:100], Y[:100], classes=CLASSES)
    run_segments, calls = MDLReadoutSwitcher.partial_fit, []

    def broken(switcher, *args, **options):
        calls.append(switcher)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run_segments(switcher, *args, **options)

    monkeypatch.setattr(MDLReadoutSwitcher, "partial_fit", broken)
    with pytest.raises(KeyboardInterrupt):
        found.partial_fit(X[100:], Y[100:])
    assert found.n_samples_seen_ == 100  # what all columns have scored
    expected = several().fit(X[:100], Y[:100])
    assert_array_equal(found.codelengths_, expected.codelengths_)
    with pytest.raises(ValueError, match=r"after \[150, 100, 100\] rows; load a saved"):
        found.partial_fit(X[100:], Y[100:])


@for_each("switcher", [MDLReadoutSwitcher, "default", StandardScaler()])
def test_what_is_not_online_is_no_switcher(switcher):
    with pytest.raises(ValueError, match="The 'switcher' parameter"):
        MultiOutputSwitcher(switcher).fit(X, Y)


def test_what_is_not_fitted_says_so():
    for method in ("predict", "predict_proba", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(several(), method)(X)
    with pytest.raises(NotFittedError):
        several().measures()


def test_real_multi_label_data_are_compressed():
    rows, labels = make_multilabel_classification(
        n_samples=400, n_classes=4, random_state=0
    )
    found = several().fit(rows, labels)
    assert found.codelength_ < 0.8 * found.frequency_codelength_


def test_readouts_without_a_seed_serve_all_columns():
    fitted = MultiOutputSwitcher(KernelReadout()).fit(X, Y)
    alone = [KernelReadout().fit(X, column).codelength_ for column in Y.T]
    assert_array_equal(fitted.output_codelengths_, alone)


def test_columns_of_a_table_with_text_hold_labels_of_one_type():
    names, large = np.array(["no", "yes"]), np.array([2**60, 2**60 + 1])
    kind = Y[:, 0].astype(int)
    table = np.column_stack([names[kind].astype(object), large[kind].astype(object)])
    found = MultiOutputSwitcher(KernelReadout()).fit(X, table)
    alone = KernelReadout().fit(X, kind).codelength_
    assert_array_equal(found.output_codelengths_, [alone, alone])
    assert found.classes_[1].tolist() == large.tolist()
    table[3, 0] = 1
    with pytest.raises(ValueError, match=r"^Column 0 of y must hold only text or only"):
        MultiOutputSwitcher(KernelReadout()).fit(X, table)
