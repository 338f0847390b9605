"""What lets labels into features is found by name; what is asked of X and y."""

import warnings
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from each_case import for_each
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder
from sklearn.utils import all_estimators
from sklearn.utils.multiclass import check_classification_targets

from sklearn_mdl._core import validation
from sklearn_mdl._core.validation import (
    check_class_labels,
    check_finite,
    is_grouped,
    labelled_step,
    refuse_labelled,
    refuse_weights,
)

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], 30)
X = np.abs(RNG.normal(size=(60, 6)) + np.outer(Y, [3, 0, 0, 0, 0, 0]))


def transformers():
    """All of scikit-learn's that can be made without arguments."""
    for name, cls in all_estimators(type_filter="transformer"):
        try:
            yield name, cls()
        except TypeError:
            continue


def features(transformer, y):
    seeded = {"random_state": 0} if "random_state" in transformer.get_params() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = clone(transformer).set_params(**seeded).fit(X, y).transform(X)
        except Exception:  # it wants other data: text, kernels, one feature
            return None
    return np.asarray(found.todense() if hasattr(found, "todense") else found, float)


def same(one, other):
    return one.shape == other.shape and np.allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_every_transformer_whose_features_change_with_the_labels_is_named():
    shuffled = RNG.permutation(Y)
    depends = []
    for name, transformer in transformers():
        one, other = features(transformer, Y), features(transformer, shuffled)
        if one is None or other is None or same(one, other):
            continue
        depends.append(name)
        assert labelled_step(transformer) == name
    assert {"LinearDiscriminantAnalysis", "SelectPercentile"} < set(depends)


@pytest.mark.slow
def test_every_transformer_that_does_without_labels_is_let_through():
    blind = []
    for name, transformer in transformers():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clone(transformer).fit(X)
        except Exception:
            continue
        if name not in {"LabelEncoder", "LabelBinarizer", "MultiLabelBinarizer"}:
            blind.append(name)
            assert labelled_step(transformer) is None
    assert {"PCA", "StandardScaler", "Nystroem", "KMeans"} < set(blind)


SELECT = SelectKBest(k=2)


@for_each(
    "transformer, name",
    [
        (make_pipeline(StandardScaler(), SELECT), "SelectKBest"),
        (FeatureUnion([("a", PCA(1)), ("b", SELECT)]), "SelectKBest"),
        (ColumnTransformer([("a", "drop", [0])], remainder=SELECT), "SelectKBest"),
        (GridSearchCV(make_pipeline(SELECT), {}), "SelectKBest"),
        (SelectFromModel(LogisticRegression()), "LogisticRegression"),
        (RFE(LogisticRegression()), "LogisticRegression"),
        (StackingClassifier([("a", LogisticRegression())]), "StackingClassifier"),
        (VotingClassifier([("a", LogisticRegression())]), "VotingClassifier"),
        (make_pipeline(FrozenEstimator(PCA()), make_pipeline(SELECT)), "SelectKBest"),
        (make_pipeline(FrozenEstimator(SELECT), "passthrough", None), None),
        (PLSRegression(), "PLSRegression"),  # says so by its signature alone
        (TargetEncoder(), "TargetEncoder"),
        (VarianceThreshold(), None),
        (FunctionTransformer(), None),
        (IterativeImputer(BayesianRidge()), None),
        ("passthrough", None),
        (None, None),
    ],
)
def test_composed_transformers_are_looked_into(transformer, name):
    assert labelled_step(transformer) == name


class _Quiet(TransformerMixin, BaseEstimator):
    """Uses y but does not say so."""

    def fit(self, X, y=None):
        self.y_ = y
        return self

    def transform(self, X):
        return X


class _Frank(_Quiet):
    """Says by its tags alone that it uses y."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def test_what_says_by_its_tags_that_it_uses_labels_is_named():
    assert labelled_step(_Frank()) == "_Frank"


def test_what_uses_labels_on_the_quiet_passes_as_the_guide_says():
    assert labelled_step(_Quiet()) is None


def test_refusal_is_one_sentence_with_a_way_out():
    with pytest.raises(ValueError, match=r"'best' holds SelectKBest.*Frozen") as caught:
        refuse_labelled(SELECT, "'best'")
    assert "\n" not in str(caught.value)
    refuse_labelled(FrozenEstimator(SELECT), "'best'")


@pytest.mark.parametrize("weights", [[1.0, 2.0], []])
def test_weights_are_refused_by_name(weights):
    words = "f must weight all labels equally.*sample_weight"
    with pytest.raises(TypeError, match=words):
        refuse_weights(weights, "f")
    refuse_weights(None, "f")


# Checks


@for_each("value", [np.nan, np.inf, -np.inf, 1e39])
@for_each("at_once", [1, 3, 7, 2**24])
@for_each("kind", ["<f4", "<f8"])
def test_the_first_number_that_is_not_finite_is_found(
    monkeypatch, value, at_once, kind
):
    monkeypatch.setattr("sklearn_mdl._core.validation.CHECKED_AT_ONCE", at_once)
    X = np.full((5, 3), 3e38).astype(kind)  # their sum is beyond float32
    check_finite(X, None)
    for row, column in np.ndindex(5, 3):
        spoilt = X.copy()
        with np.errstate(over="ignore"):
            spoilt[row, column] = value
            spoilt[-1, -1] = -value  # a sum of both is no number, infinite or not
        what = "NaN" if np.isnan(value) else "infinity or a value too large"
        where = f"contains {what} in row {row}, column {column}"
        with pytest.raises(ValueError, match=f"{where};"):
            check_finite(spoilt, None)
        with pytest.raises(ValueError, match=rf"{where} \('{'abc'[column]}'\);"):
            check_finite(spoilt, ["a", "b", "c"])
        for shape in ((0, 3), (3, 0), (0, 0)):  # without numbers there is no place
            check_finite(np.empty(shape), None)


def nearly_sorted(n, n_classes, share, seed=0):
    """Sorted labels, of which a share has been permuted among themselves."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, n_classes, n))
    moved = rng.permutation(n)[: int(share * n)]
    labels[moved] = labels[rng.permutation(moved)]
    return labels


@for_each("n, n_classes", [(60, 2), (60, 3), (1000, 2), (1000, 10), (2000, 100)])
def test_sorted_and_nearly_sorted_labels_are_grouped(n, n_classes):
    assert is_grouped(nearly_sorted(n, n_classes, 0.0))
    assert is_grouped(nearly_sorted(n, n_classes, 0.0)[::-1])
    assert is_grouped(nearly_sorted(n, n_classes, 0.1))
    assert not is_grouped(nearly_sorted(n, n_classes, 0.6))


def test_labels_in_random_order_are_not_grouped():
    rng = np.random.default_rng(0)
    for n_classes, n in product([1, 2, 3, 10, 100], [1, 2, 5, 20, 40, 200, 2000]):
        weights = rng.dirichlet(np.full(n_classes, 0.3), size=20)  # rare classes too
        for own in weights:
            assert not is_grouped(rng.choice(n_classes, n, p=own))


def test_the_share_of_false_alarms_is_below_its_bound():
    """Of all orders of 11 labels, as few are grouped as the bound in nats says."""
    labels = np.repeat([0, 1], [5, 6])
    places = np.array(list(combinations(range(11), 5)))
    orders = np.ones((len(places), 11), int)
    np.put_along_axis(orders, places, 0, axis=1)
    assert len(orders) == comb(11, 5)
    for nats in (0.5, 1.0, 2.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(validation, "GROUPED_NATS", nats)
            share = np.mean([is_grouped(own) for own in orders])
        assert share <= np.exp(-nats)
    assert not is_grouped(np.tile([0, 1], 500))  # alternating is not grouped
    assert not is_grouped(labels)  # so few may come so by chance


def test_labels_that_are_no_classes_are_refused_with_scikit_learns_words():
    check_class_labels(np.array(["a", "b"]))
    with pytest.raises(ValueError, match=r"^Unknown label type: continuous, but y"):
        check_class_labels(np.array([0.5, 1.5]))
    cube = np.zeros((2, 2, 2))
    with pytest.raises(ValueError, match="Unknown label type: unknown") as theirs:
        check_classification_targets(cube)
    first = str(theirs.value).partition(".")[0]
    with pytest.raises(ValueError, match=rf"^{first}, but labels must hold classes"):
        check_class_labels(cube, "labels")
