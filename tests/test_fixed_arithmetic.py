"""Invariants of arithmetic: settings and threads of a program change no number."""

import pickle
import threading
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle
from skorch import NeuralNetClassifier
from threadpoolctl import threadpool_info

from sklearn_mdl import (
    IncrementalReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RefitReadout,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.numerics import fixed_arithmetic, one_blas_thread, one_thread
from sklearn_mdl.baselines import LinearProbe
from sklearn_mdl.encoders import TorchEncoder
from sklearn_mdl.readouts import LinearReadoutRegressor
from sklearn_mdl.switcher import MDLReadoutSwitcherRegressor

X, y = shuffle(*load_iris(return_X_y=True), random_state=0, n_samples=110)
X = X.astype(np.float32)
MODULE = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten())


@contextmanager
def restored(setting, value, before):
    setting(value)
    try:
        yield
    finally:
        setting(before)


def dtype(value):
    return restored(torch.set_default_dtype, value, torch.float32)


SETTINGS = {
    "none": nullcontext,
    "float64": lambda: dtype(torch.float64),
    "bfloat16": lambda: dtype(torch.bfloat16),
    "meta": lambda: restored(torch.set_default_device, "meta", None),
    "cpu": lambda: restored(torch.set_default_device, "cpu", None),
    "on meta": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "no grad": torch.no_grad,
    "grad disabled": lambda: restored(torch.set_grad_enabled, False, True),
}


def settings_now():
    return (
        torch.get_default_dtype(),
        torch.get_default_device().type,
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
    )


class Net(torch.nn.Module):
    """A module of a user's, made where a readout is."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.softmax(self.linear(x), -1)


def switcher():
    options = {"max_epochs": 1, "train_split": None, "verbose": 0}
    readouts = [
        LinearReadout(lr=0.02, scaling="whiten", ema_step_size=0.1),
        MLPReadout((5,), n_replay_streams=2),
        KNeighborsReadout(5),
        RefitReadout(LogisticRegression()),
        IncrementalReadout(NeuralNetClassifier(Net, **options)),
    ]
    return MDLReadoutSwitcher(readouts, random_state=0)


def numbers_of(tmp_path):
    """Compute a bit of everything that computes with torch."""
    fitted = switcher().fit(X[:50], y[:50])
    own = MDLReadoutSwitcher([LinearReadout()], random_state=0).fit(X[:50], y[:50])
    own.save(tmp_path / "own.safetensors")
    loaded = MDLReadoutSwitcher.load(tmp_path / "own.safetensors")
    copied = pickle.loads(pickle.dumps(own))
    regressor = MDLReadoutSwitcherRegressor([LinearReadoutRegressor()], random_state=0)
    message = encode_labels(own, X[:50], y[:50])
    probe = LinearProbe(lr=0.1, max_steps=3, random_state=0)
    images = np.arange(3 * 48, dtype=np.uint8).reshape(3, 4, 4, 3)
    encoder = TorchEncoder(MODULE, n_jobs=2)
    return fitted, [
        fitted.partial_fit(X[50:80], y[50:80]).readout_losses_,
        fitted.predict_proba(X[80:]),
        fitted.heldout_codelengths(X[80:], y[80:]),
        loaded.partial_fit(X[50:], y[50:]).codelengths_,
        copied.partial_fit(X[50:], y[50:]).codelengths_,
        regressor.fit(X[:, 1:], X[:, 0]).codelengths_,
        regressor.predict(X[:, 1:]),
        decode_labels(own, X[:50], message),
        probe.fit(X, y).predict_proba(X),
        encoder.fit_transform(images),
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    fitted, numbers = numbers_of(tmp_path_factory.mktemp("expected"))
    return [*numbers, fitted.partial_fit(X[80:], y[80:]).codelengths_]


@pytest.mark.quick("float64", "meta", "autocast", "inference")
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_torch_change_no_bit_and_stay_as_they_were(
    name, expected, tmp_path
):
    with SETTINGS[name]():
        before = settings_now()
        fitted, found = numbers_of(tmp_path)
        assert settings_now() == before
    found.append(fitted.partial_fit(X[80:], y[80:]).codelengths_)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def blas_threads():
    return [
        lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"
    ]


def in_a_new_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_limits_of_threads_that_overlap_are_all_lifted():
    """One thread begins, another one begins, the first ends, the second ends."""
    begun, ended = threading.Event(), threading.Event()
    n_before, dtype_before, blas_before = (
        torch.get_num_threads(),
        torch.float64,
        blas_threads(),
    )
    found = {}

    def limited():
        return torch.get_num_threads(), torch.get_default_dtype(), {*blas_threads()}

    def later():
        with fixed_arithmetic(), one_blas_thread():
            begun.set()
            ended.wait(60)
            found["second inside"] = limited()
        found["second after"] = torch.get_num_threads()

    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    try:
        second = threading.Thread(target=later)
        with fixed_arithmetic(), one_blas_thread():
            second.start()
            begun.wait(60)
            found["first inside"] = limited()
            found["made inside"] = in_a_new_thread(torch.get_num_threads)
        found["first after"] = torch.get_num_threads()
        ended.set()
        second.join()
        assert (
            found["first inside"] == found["second inside"] == (1, torch.float32, {1})
        )
        assert found["made inside"] == found["first after"] == 2
        assert found["second after"] == in_a_new_thread(torch.get_num_threads) == 2
        with one_blas_thread():  # OpenBLAS takes a higher limit in the main thread only
            pass
        assert (torch.get_default_dtype(), blas_threads()) == (
            dtype_before,
            blas_before,
        )
    finally:
        torch.set_num_threads(n_before)
        torch.set_default_dtype(torch.float32)


def test_fits_in_several_threads_leave_threads_to_others():
    n_before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = LinearReadout(random_state=0).fit(X, y).codelength_
        readouts = [RefitReadout(GaussianNB(), random_state=0) for _ in range(3)]
        readouts += [LinearReadout(random_state=0) for _ in range(3)]
        threads = [threading.Thread(target=one.fit, args=(X, y)) for one in readouts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.codelength_ for one in readouts[3:]] == [expected] * 3
        assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == 2
    finally:
        torch.set_num_threads(n_before)


def test_an_exception_lifts_the_limits():
    before = settings_now()
    with pytest.raises(KeyError), one_thread(), fixed_arithmetic():
        raise KeyError
    assert settings_now() == before
