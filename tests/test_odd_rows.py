"""No rows end a stream, whatever the readouts, and their units and order do not matter.

Kinds of readouts are those that the package names, with every choice that each of
their parameters allows; kinds of rows are those of ``odd_rows.py``.
"""

import inspect
import warnings

import numpy as np
import pytest
from odd_rows import KINDS as KINDS_OF_ROWS, odd_rows
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, readouts
from sklearn_mdl._core.sklearn_compat import StrOptions
from sklearn_mdl.readouts import Readout
from sklearn_mdl.readouts._lists import named_readouts, named_regressors

N_QUICK, N_SLOW = 32, 320
LEFT_ALONE = {"device"}  # parameters that choose nothing of the predictor
OF_IMAGES = {"FineTunedReadout", "FrozenReadout", "ScratchReadout"}
GIVEN = {  # what a kind cannot be made without, or to be quick
    "ViewReadout": {"readout": readouts.KernelReadout(), "columns": [0], "name": "a"},
    "ViewReadoutRegressor": {
        "readout": readouts.KernelReadoutRegressor(),
        "columns": [0],
        "name": "a",
    },
    "IncrementalReadout": {"estimator": GaussianNB()},
    "RefitReadout": {"estimator": LogisticRegression()},
    "MLPReadout": {"hidden_layer_sizes": (4,)},
    "MLPReadoutRegressor": {"hidden_layer_sizes": (4,)},
}


def choices(constraints):
    """Values that are named by what a parameter must be."""
    for constraint in constraints:
        if isinstance(constraint, StrOptions):
            yield from sorted(constraint.options)
        elif constraint == "boolean":
            yield from (True, False)
        elif constraint is None:
            yield None


def variants(kind):
    """Readouts of a kind: as it is, and with each choice of each parameter."""
    names, given = inspect.signature(kind).parameters, {**GIVEN.get(kind.__name__, {})}
    if "n_replay_streams" in names:
        given["n_replay_streams"] = 1
    return [kind(**given)] + [
        kind(**given, **{name: choice})
        for name, constraints in kind._parameter_constraints.items()
        if name in names and name not in {*given, *LEFT_ALONE}
        for choice in choices(constraints)
        if choice != names[name].default
    ]


def all_readouts(*, of_classes):
    """Readouts of all kinds, of classes or of real labels."""
    switcher = MDLReadoutSwitcher if of_classes else MDLReadoutSwitcherRegressor
    kinds = [getattr(readouts, name) for name in readouts.__all__]
    kinds = [
        kind
        for kind in kinds
        if inspect.isclass(kind)
        and issubclass(kind, Readout)
        and kind.__name__ not in OF_IMAGES
        and kind.__name__.endswith("Regressor") != of_classes
    ]
    assert len(kinds) >= 5
    return switcher, [readout for kind in kinds for readout in variants(kind)]


def losses(switcher, given, X, y):
    """Fit readouts side by side: their losses, and where they diverged."""
    options = {"pooling": None, "race": None, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = switcher(given, **options).fit(X, y)
    assert np.isfinite(fitted.readout_losses_).all()
    assert np.isfinite(fitted.codelengths_).all()
    return fitted.readout_losses_, fitted.diverged_at_


def depends_on_order(readout):
    """Whether it draws weights for columns, or picks or compares them in order."""
    kernels = readouts.KernelReadout, readouts.KernelReadoutRegressor
    return not isinstance(readout, kernels)


def check(switcher, given, X, y, rng):
    """Hold the law for some readouts on rows."""
    X = X.astype(np.float32)
    factor, order = np.float32(2.0 ** rng.integers(-3, 4)), rng.permutation(X.shape[1])
    for picks_columns in (True, False):
        some = [one for one in given if depends_on_order(one) == picks_columns]
        if not some:
            continue
        found, diverged_at = losses(switcher, some, X, y)
        other = factor * (X if picks_columns else X[:, order])
        again, _ = losses(switcher, some, other, y)
        for i, readout in enumerate(some):
            if getattr(readout.inner, "scaling", "none") is None:
                continue
            assert diverged_at[i] < 0 or "NB" in readout.architecture, readout
            np.testing.assert_allclose(
                again[:, i], found[:, i], rtol=1e-4, atol=1e-4, err_msg=repr(readout)
            )


@pytest.mark.parametrize("seed", range(N_QUICK))
def test_no_rows_end_a_stream_nor_do_units_or_order_matter(seed):
    rng = np.random.default_rng([seed, 1])
    _, X, classes, reals = odd_rows(seed)
    is_real = seed // len(KINDS_OF_ROWS) % 2
    switcher, given = all_readouts(of_classes=not is_real)
    some = [given[i] for i in rng.choice(len(given), 5, replace=False)]
    check(switcher, some, X, reals if is_real else classes, rng)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_rows_end_a_stream_whatever_the_readouts_and_lists(block):
    for seed in range(block, N_SLOW, 10):
        rng = np.random.default_rng([seed, 2])
        name, X, *labels = odd_rows(seed)
        for of_classes, y in zip((True, False), labels, strict=True):
            switcher, given = all_readouts(of_classes=of_classes)
            try:
                check(switcher, given, X, y, rng)
            except BaseException as error:
                error.add_note(f"These are rows of kind {name}, seed {seed}")
                raise


def rare(seed, n=160):
    """Three rare binary features, none in the first eight rows, and labels."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, 3)) < 0.05) * 1.0
    X[:8] = 0.0
    return X, X.any(1) | (rng.random(n) < 0.1), rng.normal(size=n)


def list_by_name(name, n_features, *, of_classes):
    if of_classes:
        return MDLReadoutSwitcher, named_readouts(name, n_features, 3)
    return MDLReadoutSwitcherRegressor, named_regressors(name, n_features)


@pytest.mark.quick("0-True")
@pytest.mark.parametrize("of_classes", [True, False])
@pytest.mark.parametrize("seed", [0, 5])  # none varies before row 16, and before row 9
def test_lists_by_name_live_on_rare_features_in_whatever_units(seed, of_classes):
    X, *labels = rare(seed)
    switcher, given = list_by_name("closed-form", 3, of_classes=of_classes)
    y = labels[not of_classes]
    found, diverged_at = losses(switcher, given, X, y)
    assert diverged_at.max() < 0
    for other in (1024 * X[:, [2, 0, 1]], X / 1024):
        again, _ = losses(switcher, given, other, y)
        np.testing.assert_allclose(again, found, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["linear", "closed-form", "drift", "stream", "mixed", None]
)
def test_no_rows_end_the_stream_of_a_list_by_name(name):
    step = 1 if name in ("linear", "closed-form") else 21  # of each kind of rows
    for seed in range(0, N_SLOW, step):
        _, X, *labels = odd_rows(seed)
        for of_classes, y in zip((True, False), labels, strict=True):
            if of_classes or name not in ("linear", "mixed"):
                given = list_by_name(name, X.shape[1], of_classes=of_classes)
                _, diverged_at = losses(*given, X, y)
                unscaled = [readout.scaling is None for readout in given[1]]
                assert (diverged_at[np.logical_not(unscaled)] < 0).all(), seed


@pytest.mark.parametrize("of_classes", [True, False])
def test_no_label_costs_a_readout_more_than_40_nats_beyond_none(of_classes):
    """Rows of 1e15 among rows of one, which no readout scales."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(3, size=120)
    X[60::9] *= 1e15
    kinds = readouts.LinearReadout, readouts.KernelReadout
    switcher, usual = MDLReadoutSwitcher, np.log(3)
    if not of_classes:
        kinds = readouts.LinearReadoutRegressor, readouts.KernelReadoutRegressor
        switcher, y, usual = MDLReadoutSwitcherRegressor, rng.normal(size=120), 6.0
    given = [kinds[0](scaling=None, n_replay_streams=1), kinds[1](scaling=None)]
    found, _ = losses(switcher, given, X, y)
    assert 40 < found.max() <= 40 + usual
