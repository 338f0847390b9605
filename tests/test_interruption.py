"""What is broken off says so, and files of one stream are not another's."""

import copy
import signal
import threading

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout, readout_grid
from sklearn_mdl._core.stream.interruption import deferred_interrupt

X, y = load_digits(return_X_y=True)
X, y = X[::5], y[::5]
POOL = [LinearReadout(lr=0.01, n_replay_streams=2), MLPReadout((8,), lr=0.01)]


@pytest.fixture
def interrupted(monkeypatch):
    switcher = MDLReadoutSwitcher(POOL, random_state=0)
    switcher.partial_fit(X[:40], y[:40], classes=range(10))
    stack = switcher._run.learners[1]
    learn = stack.update

    def break_off(*args):
        learn(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(stack, "update", break_off)
    with pytest.raises(KeyboardInterrupt):
        switcher.partial_fit(X[40:80], y[40:80])
    monkeypatch.undo()
    return switcher


def test_an_interrupted_stream_refuses_to_go_on(interrupted):
    stopped = (
        r"stopped by an error or by pressing Ctrl-C twice; start again from the first "
        r"row with clone\(estimator\)\.partial_fit, or call fit with all rows$"
    )
    with pytest.raises(RuntimeError, match=stopped):
        interrupted.partial_fit(X[40:80], y[40:80])


def test_an_interrupted_stream_is_not_saved(interrupted, tmp_path):
    with pytest.raises(ValueError, match="must be complete to be saved"):
        interrupted.save(tmp_path / "stream.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_stream_can_be_fitted_again_after_an_interruption(interrupted):
    fresh = MDLReadoutSwitcher(POOL, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        interrupted.fit(X, y).codelengths_, fresh.codelengths_
    )


def test_views_of_an_old_trace_outlive_a_refit(tmp_path):
    switcher = MDLReadoutSwitcher(POOL, store=tmp_path, random_state=0).fit(X, y)
    old, total = switcher.posterior_, switcher.posterior_.sum()
    switcher.fit(X[:40], y[:40])
    assert old.sum() == total
    assert len(switcher.posterior_) == 40


def test_a_copy_that_writes_to_the_same_files_is_refused(tmp_path):
    switcher = MDLReadoutSwitcher(POOL, store=tmp_path, random_state=0).fit(X, y)
    other = copy.deepcopy(switcher)
    other.partial_fit(X[:3], y[:3])
    with pytest.raises(ValueError, match="another stream has written"):
        switcher.partial_fit(X[:3], y[:3])


@pytest.mark.parametrize("sizes", [(3.7,), (0,), (-3,), [[3, 4], [5, 6]], ("a",)])
def test_widths_must_be_positive_integers(sizes):
    with pytest.raises(ValueError, match="positive integers"):
        MDLReadoutSwitcher([MLPReadout(sizes)]).fit(X, y)


@pytest.mark.parametrize("sizes", [np.array([4, 8]), [np.int64(4), np.int64(8)]])
def test_numpy_widths_make_one_readout(sizes):
    (readout,) = readout_grid(hidden_layer_sizes=sizes)
    assert readout.architecture == "mlp 4-8"


def test_no_widths_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        readout_grid(hidden_layer_sizes=[])


def test_unknown_devices_are_named():
    with pytest.raises(ValueError, match="nope"):
        MDLReadoutSwitcher(POOL, device="nope").fit(X, y)


# Ctrl-C


@pytest.fixture(params=["as in a terminal", "handled", "ignored"])
def handler(request):
    """What a program has set before, and what it heard."""
    heard = []
    handlers = {
        "as in a terminal": signal.default_int_handler,
        "handled": lambda number, frame: heard.append(number),
        "ignored": signal.SIG_IGN,
    }
    before = signal.signal(signal.SIGINT, handlers[request.param])
    yield request.param, handlers[request.param], heard
    signal.signal(signal.SIGINT, before)


def test_only_a_first_ctrl_c_that_would_break_off_is_held_back(handler):
    kind, set_before, heard = handler
    with deferred_interrupt() as asked:
        assert asked() is False
        signal.raise_signal(signal.SIGINT)
        assert asked() is (kind == "as in a terminal")
        if kind == "as in a terminal":
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is set_before
    assert heard == ([signal.SIGINT] if kind == "handled" else [])


def test_what_was_set_is_set_again_after_an_error(handler):
    with pytest.raises(OSError, match="full"), deferred_interrupt():
        raise OSError("full")
    assert signal.getsignal(signal.SIGINT) is handler[1]


def test_nothing_is_held_back_in_another_thread(handler):
    def hold():
        with deferred_interrupt() as asked:
            found.append((asked(), signal.getsignal(signal.SIGINT)))

    found = []
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [(False, handler[1])]
