"""Libraries that store fitted models: what they read back goes on alike."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    MultiOutputSwitcher,
)
from sklearn_mdl.baselines import LinearProbe
from sklearn_mdl.readouts import LinearReadoutRegressor

X, Y = load_wine(return_X_y=True)
X, Y = X[::2], Y[::2]
SMALL = [LinearReadout(), MLPReadout((8,)), KernelReadout(), KNeighborsReadout()]
FIRST, REST = slice(None, None, 2), slice(1, None, 2)
ESTIMATORS = [
    MDLReadoutSwitcher(SMALL, shuffle=True, random_state=0),
    MDLReadoutSwitcher(shuffle=True, random_state=0),
    LinearReadout(random_state=0),
    MDLReadoutSwitcherRegressor([LinearReadoutRegressor()], random_state=0),
    MultiOutputSwitcher(MDLReadoutSwitcher(SMALL[:1], shuffle=True, random_state=0)),
    LinearProbe(lr=0.03, weight_decay=0.0, max_steps=9, random_state=0),
]
pytestmark = [
    pytest.mark.filterwarnings("default"),  # of other libraries
    pytest.mark.filterwarnings("ignore:y should be in random order"),
]


def fitted(estimator):
    y = np.c_[Y, Y > 0] if isinstance(estimator, MultiOutputSwitcher) else Y
    return estimator.fit(X[FIRST], y[FIRST]), y


def trusted_types(sio, model):
    """Return the types to be trusted: those of this package, and no others."""
    found = sio.get_untrusted_types(data=sio.dumps(model))
    assert {name.partition(".")[0] for name in found} == {"sklearn_mdl"}
    return found


def assert_goes_on(found, model, y):
    assert_array_equal(found.predict(X), model.predict(X))
    if hasattr(model, "partial_fit"):
        for each in (found, model):
            each.partial_fit(X[REST], y[REST])
        assert_array_equal(found.codelengths_, model.codelengths_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_skops(tmp_path, estimator):
    sio = pytest.importorskip("skops.io")
    model, y = fitted(estimator)
    sio.dump(model, tmp_path / "model.skops")
    trusted = trusted_types(sio, model)
    found = sio.load(tmp_path / "model.skops", trusted=trusted)
    assert_goes_on(found, model, y)


def test_skops_refuses_what_is_more_than_numbers():
    sio = pytest.importorskip("skops.io")
    model = MDLReadoutSwitcher("mixed", shuffle=True, random_state=0)
    model.fit(X[FIRST], Y[FIRST])
    said = r"^Only pickle can write this .*; call pickle\.dump\(estimator, file\)$"
    with pytest.raises(TypeError, match=said):
        sio.dumps(model)


@pytest.fixture
def mlflow(tmp_path):
    module = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.sklearn")
    module.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    module.create_experiment("a", artifact_location=(tmp_path / "files").as_uri())
    module.set_experiment("a")
    yield module
    module.sklearn.autolog(disable=True)


def test_mlflow_saves_models_by_default(tmp_path, mlflow):
    sio = pytest.importorskip("skops.io")
    model, y = fitted(ESTIMATORS[0])
    trusted = trusted_types(sio, model)
    path = tmp_path / "model"
    mlflow.sklearn.save_model(model, path, skops_trusted_types=trusted)
    assert (path / "model.skops").exists()
    assert_goes_on(mlflow.sklearn.load_model(path), model, y)


def test_mlflow_logs_fits_of_pipelines(mlflow):
    mlflow.sklearn.autolog()
    pipeline = make_pipeline(StandardScaler(), ESTIMATORS[0])
    with mlflow.start_run() as run:
        pipeline.fit(X, Y)
    record = mlflow.get_run(run.info.run_id)
    assert record.data.params["mdlreadoutswitcher__batch_size"] == "auto"
    assert record.data.metrics["training_score"] == pipeline.score(X, Y)
    (logged,) = mlflow.search_logged_models(output_format="list")
    found = mlflow.sklearn.load_model(logged.model_uri)
    assert_array_equal(found.predict(X), pipeline.predict(X))
