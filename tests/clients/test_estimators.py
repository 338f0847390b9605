"""Libraries that take estimators of scikit-learn: the same numbers as without them.

What an oversampler makes of a code is stated, too: numbers that mean nothing.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    HalvingGridSearchCV,
    LearningCurveDisplay,
    cross_val_score,
    learning_curve,
)
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    PrequentialSplit,
    frequency_codelength,
    uniform_codelength,
)
from sklearn_mdl.model_selection import codelength_scorer

X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
SWITCHER = MDLReadoutSwitcher([KernelReadout()], shuffle=True, random_state=0)
CODELENGTH = SWITCHER.fit(X, Y).codelength_
pytestmark = pytest.mark.filterwarnings("default")  # of other libraries


def test_scikit_learn():
    switcher = clone(SWITCHER)
    calibrated = CalibratedClassifierCV(switcher, cv=3).fit(X, Y)
    assert calibrated.score(X, Y) > 0.9
    stack = StackingClassifier([("mdl", switcher), ("linear", LogisticRegression())])
    assert stack.fit(X, Y).score(X, Y) > 0.9
    fitted = clone(switcher).fit(X, Y)
    importance = permutation_importance(fitted, X, Y, n_repeats=2, random_state=0)
    assert importance.importances_mean.max() > 0
    sizes, _, scores = learning_curve(
        switcher, X, Y, train_sizes=[30, 60], cv=3, shuffle=True, random_state=0
    )
    assert sizes.tolist() == [30, 60]
    assert scores.mean() > 0.9
    LearningCurveDisplay.from_estimator(
        *(switcher, X, Y), train_sizes=[30, 60], cv=3, shuffle=True, random_state=0
    )


def test_halving_search():
    """Resources are rows: a code of few rows is dearer per label, for all alike."""
    grid = {"readouts": [[KernelReadout()], [LinearReadout(lr=1e-5)]]}
    search = HalvingGridSearchCV(
        SWITCHER, grid, cv=2, min_resources=40, factor=2, random_state=0
    )
    search.fit(X, Y)
    assert isinstance(search.best_params_["readouts"][0], KernelReadout)


def test_optuna():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def nats(trial):
        n = trial.suggest_categorical("n_components", [1, 4])
        return clone(SWITCHER).fit(PCA(n).fit_transform(X), Y).codelength_

    sampler = optuna.samplers.GridSampler({"n_components": [1, 4]})
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.optimize(nats, n_trials=2)
    assert study.best_params == {"n_components": 4}
    direct = clone(SWITCHER).fit(PCA(4).fit_transform(X), Y).codelength_
    assert study.best_value == direct


def test_skore():
    skore = pytest.importorskip("skore")
    report = skore.EstimatorReport(
        clone(SWITCHER), X_train=X[::2], y_train=Y[::2], X_test=X[1::2], y_test=Y[1::2]
    )
    direct = clone(SWITCHER).fit(X[::2], Y[::2]).score(X[1::2], Y[1::2])
    assert_allclose(report.metrics.accuracy(), direct)
    assert report.metrics.log_loss() > 0
    crossed = skore.CrossValidationReport(clone(SWITCHER), X=X, y=Y, splitter=2)
    assert "accuracy" in crossed.metrics.summarize().frame().index


def test_imbalanced_learn():
    """A pipeline that undersamples codes fewer labels; one that oversamples, copies."""
    pipelines = pytest.importorskip("imblearn.pipeline")
    over = pytest.importorskip("imblearn.over_sampling").RandomOverSampler
    under = pytest.importorskip("imblearn.under_sampling").RandomUnderSampler
    keep = np.concatenate([np.flatnonzero(Y == 0)[:10], np.flatnonzero(Y > 0)])
    X_rare, y_rare = X[keep], Y[keep]
    lengths = {}
    for name, sampler in (("over", over(random_state=0)), ("under", under())):
        pipeline = pipelines.make_pipeline(sampler, clone(SWITCHER)).fit(X_rare, y_rare)
        assert pipeline.score(X, Y) > 0.9
        lengths[name] = pipeline[-1].codelengths_
    plain = clone(SWITCHER).fit(X_rare, y_rare).codelengths_
    assert len(lengths["under"]) < len(plain) < len(lengths["over"])
    # Of noise, copies are compressed: the code has seen rows and labels before.
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(110, 20)), np.repeat([0, 1], [10, 100])
    honest = clone(SWITCHER).fit(noise, labels)
    pipeline = pipelines.make_pipeline(over(random_state=0), clone(SWITCHER))
    copied = pipeline.fit(noise, labels)[-1]
    assert honest.codelength_ > frequency_codelength(labels)
    assert copied.codelength_ < 0.6 * uniform_codelength(200, 2)


def test_dask():
    dask_array = pytest.importorskip("dask.array")
    joblib = pytest.importorskip("joblib")
    distributed = pytest.importorskip("distributed")
    direct = cross_val_score(SWITCHER, X, Y, cv=2)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    client = distributed.Client(**options, dashboard_address=None)
    with client, joblib.parallel_config("dask"):
        found = cross_val_score(SWITCHER, X, Y, cv=2, n_jobs=2)
    assert_array_equal(found, direct)
    lazy = dask_array.from_array(X, chunks=50)
    assert clone(SWITCHER).fit(lazy, Y).codelength_ == CODELENGTH


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_tables(library):
    module = pytest.importorskip(library)
    names = [f"x{i}" for i in range(X.shape[1])]
    columns = dict(zip(names, X.T.tolist(), strict=True))
    make = {"pyarrow": "table"}.get(library, "DataFrame")
    table = getattr(module, make)(columns)
    if library == "pyarrow":  # scikit-learn reads arrays and data frames
        table = table.to_pandas()
    fitted = clone(SWITCHER).fit(table, Y)
    assert fitted.codelength_ == CODELENGTH
    assert fitted.feature_names_in_.tolist() == names
    scores = cross_val_score(
        SWITCHER, table, Y, cv=PrequentialSplit(), scoring=codelength_scorer
    )
    assert_allclose(scores, -CODELENGTH / len(Y))
