"""What scikit-learn asks of every estimator."""

import inspect

import numpy as np
import pytest
from each_case import for_each
from public_names import PATHS, public
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import check_estimator

from sklearn_mdl import (
    FixedShare,
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    MultiOutputSwitcher,
    RefitReadout,
    RepresentationScorer,
)
from sklearn_mdl.baselines import (
    BlockwiseCode,
    KNeighborsProbe,
    LinearProbe,
    MLPProbe,
    RandomEncoder,
    VariationalCode,
)
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    DummyReadoutRegressor,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    ViewReadout,
    ViewReadoutRegressor,
)

# Few replay streams and few steps, as every check fits several times.
QUICK = {"lr": 0.03, "n_replay_streams": 2}
SMALL_GRID = [
    LinearReadout(**QUICK),
    LinearReadout(**QUICK, scaling="whiten", ema_step_size=0.1),
    MLPReadout((8,), **QUICK),
]
SMALL_REGRESSORS = [
    LinearReadoutRegressor(**QUICK, likelihood="student-t", heteroscedastic=False),
    MLPReadoutRegressor((8,), **QUICK, scaling="whiten", ema_step_size=0.1),
]
ESTIMATORS = [
    LinearReadout(**QUICK),
    RefitReadout(LogisticRegression(), batch_size=100),
    MDLReadoutSwitcher(SMALL_GRID),
    MDLReadoutSwitcherRegressor(SMALL_REGRESSORS),
    MultiOutputSwitcher(MDLReadoutSwitcher(SMALL_GRID[:1], random_state=0)),
    KNeighborsReadout(),
    KernelReadout(batch_size=100),
    IncrementalReadout(GaussianNB(), batch_size=100),
    DiscriminantReadout(batch_size=100),
    DummyReadout(),
    DummyReadoutRegressor(),
    KernelReadoutRegressor(batch_size=100),
    ViewReadout(KNeighborsReadout(), slice(None)),
    LinearReadoutRegressor(**QUICK),
    LinearProbe(lr=0.03, weight_decay=0.0, max_steps=20),
    KNeighborsProbe(),
    BlockwiseCode(random_state=0),
    VariationalCode(n_steps=3, n_draws=2),
    RandomEncoder(random_state=0),
]
# They share all that the checks reach with one above, but their constructors.
TWINS = [
    MDLReadoutSwitcher(),
    MLPReadout((8,), **QUICK),
    MLPReadoutRegressor((8,), **QUICK),
    CentroidReadout(batch_size=100),
    ViewReadoutRegressor(KernelReadoutRegressor(), slice(None)),
    MLPProbe((8,), lr=0.03, weight_decay=0.0, max_steps=20),
]
# These take images, text, or encoders and datasets, and no table of numbers.
NO_TABLE = {
    "CachedEncoder",
    "FineTunedReadout",
    "FrozenReadout",
    "HiddenStatesEncoder",
    "RepresentationScorer",
    "ScratchReadout",
    "TaskSequence",
    "TextEncoder",
    "TimmEncoder",
    "TorchEncoder",
}
ONE_COLUMN = "hands over y of shape (n_samples,), or expects predictions of that shape"
EXPECTED_FAILURES = {
    MultiOutputSwitcher: {
        "check_classifiers_one_label": ONE_COLUMN,
        "check_classifiers_classes": ONE_COLUMN,
        "check_classifiers_train": ONE_COLUMN,
        "check_classifiers_regression_target": ONE_COLUMN,
        "check_methods_sample_order_invariance": "takes rows from a list of columns",
        "check_estimator_sparse_array": "expects one array of probabilities",
        "check_estimator_sparse_matrix": "expects one array of probabilities",
    }
}

# Some checks hand over labels sorted by class.
may_be_grouped = pytest.mark.filterwarnings("ignore:y should be in random order")


def estimators():
    """Public classes that are fitted, by name."""
    found = {name: public(name) for name in PATHS}
    return {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind)
        and issubclass(kind, BaseEstimator)
        and hasattr(kind, "fit")
    }


@pytest.mark.quick(
    "MDLReadoutSwitcher0",
    "DiscriminantReadout",
    "LinearReadout",
    "ViewReadout",
    "RandomEncoder",
    "BlockwiseCode",
    "VariationalCode",
    "KNeighborsProbe",
)
@may_be_grouped
@pytest.mark.parametrize(
    "estimator",
    [*ESTIMATORS, *(pytest.param(twin, marks=pytest.mark.slow) for twin in TWINS)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_all_of_scikit_learns_checks(estimator):
    expected = EXPECTED_FAILURES.get(type(estimator), {})
    checks = check_estimator(estimator, on_skip=None, expected_failed_checks=expected)
    failed = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert failed == set(expected), "a check passes that was expected to fail"


def test_every_public_estimator_is_checked():
    checked = {type(e).__name__ for e in [*ESTIMATORS, *TWINS]}
    assert checked | NO_TABLE == set(estimators())


@for_each("kind", estimators().values())
def test_constructors_keep_every_parameter_as_given(kind):
    params = {name: object() for name in inspect.signature(kind).parameters}
    built = kind(**params)
    assert built.get_params(deep=False) == params


def test_representation_scorer_is_an_estimator_with_searchable_parameters():
    switcher = MDLReadoutSwitcher(SMALL_GRID, switching=FixedShare(m=3))
    scorer = RepresentationScorer(
        switcher, n_orders=2, alpha=0.05, missing="drop", n_jobs=2, random_state=7
    )
    params = scorer.get_params()
    assert params["switcher__switching__m"] == 3
    assert RepresentationScorer().set_params(
        **scorer.get_params(deep=False)
    ).get_params(deep=False) == scorer.get_params(deep=False)
    copy = clone(scorer)
    assert copy is not scorer
    assert copy.switcher is not switcher
    assert str(copy.get_params()) == str(params)
    copy.set_params(switcher__switching__m=5)
    assert (copy.switcher.switching.m, switcher.switching.m) == (5, 3)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
@for_each(
    "estimator, name, value",
    [
        (LinearReadout(**QUICK, random_state=0), "batch_size", 8),
        (LinearReadout(**QUICK, random_state=0), "first_batch_size", 2),
        (KNeighborsReadout(), "window", 20),
        (KernelReadout(), "window", 64),
        (KernelReadout(), "max_exact", 32),
        (CentroidReadout(), "restart", 33),
        (DummyReadout(), "restart", 33),
        (MDLReadoutSwitcher([KernelReadout()]), "label_delay", 3),
        (MDLReadoutSwitcher([KernelReadout()]), "batch_size", 8),
        (LinearProbe(max_steps=5, random_state=0), "batch_size", 64),
    ],
)
def test_integers_of_numpy_are_integers(estimator, name, value, kind):
    X, y = shuffle(*load_iris(return_X_y=True), random_state=0, n_samples=75)
    found, expected = (
        clone(estimator).set_params(**{name: number}).fit(X, y).predict_proba(X)
        for number in (kind(value), value)
    )
    np.testing.assert_array_equal(found, expected)
