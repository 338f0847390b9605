"""Progress of a fit as scikit-learn's callbacks are told of it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher
from sklearn_mdl._core.stream import threads as threads_module
from sklearn_mdl._core.stream.threads import Threads
from sklearn_mdl.switching import Race

pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")

X, Y = load_digits(return_X_y=True)
X, Y = X[:200], Y[:200]


class Diary:
    """A callback that writes down what it is observed, and may want to stop."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name))
        return self.events.count(("end", "segment")) == self.stop_after

    def teardown(self, estimator, context):
        self.events.append("teardown")


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr(threads_module, "SEGMENT", 64)


def switcher(**options):
    options = {"random_state": 0, "device": "cpu", "batch_size": 16, **options}
    return MDLReadoutSwitcher([LinearReadout(lr=0.01)], **options)


def test_callbacks_learn_of_the_fit_and_of_every_segment():
    diary = Diary()
    switcher().set_callbacks(diary).fit(X, Y)
    n_segments = 5  # which end at 16, 32, 64, 128, 192 and 200 rows
    segments = [("begin", "segment", 0), ("end", "segment")] * (n_segments + 1)
    assert diary.events == [
        "setup",
        ("begin", "fit", n_segments + 1),
        *segments,
        ("end", "fit"),
        "teardown",
    ]


def test_segments_of_a_race_are_counted_in_advance():
    diary, race = Diary(), Race(min_readouts=1, min_samples=16)
    readouts = [LinearReadout(lr=0.01), LinearReadout(lr=0.02)]
    found = MDLReadoutSwitcher(readouts, race=race, batch_size=16, random_state=0)
    found.set_callbacks(diary).fit(X, Y)
    assert diary.events[1] == ("begin", "fit", diary.events.count(("end", "segment")))


def test_callbacks_change_no_number():
    diary = Diary()
    np.testing.assert_array_equal(
        switcher().set_callbacks(diary).fit(X, Y).codelengths_,
        switcher().fit(X, Y).codelengths_,
    )


def test_a_callback_may_end_the_run_which_can_then_go_on():
    found = switcher().set_callbacks(Diary(stop_after=4)).fit(X, Y)
    assert found.n_samples_seen_ == 128
    found.partial_fit(X[128:], Y[128:])
    np.testing.assert_array_equal(found.codelengths_, switcher().fit(X, Y).codelengths_)


def test_callbacks_are_taken_down_after_a_fit_that_failed(monkeypatch):
    diary, found = Diary(), switcher()

    def fail(*args):
        raise RuntimeError("broken")

    monkeypatch.setattr(Threads, "open", fail)
    with pytest.raises(RuntimeError, match="broken"):
        found.set_callbacks(diary).fit(X, Y)
    assert diary.events[-1] == "teardown"
    assert not hasattr(found, "_callback_fit_ctx")
    monkeypatch.undo()
    assert clone(found).fit(X, Y).n_samples_seen_ == 200


def test_callbacks_of_a_pipeline_do_not_disturb():
    diary = Diary()
    pipeline = make_pipeline(FunctionTransformer(), switcher())
    pipeline.set_callbacks(diary).fit(X, Y)
    assert diary.events[0] == "setup"
    assert diary.events[-1] == "teardown"


def test_the_progress_bar_of_scikit_learn_works():
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    found = switcher().set_callbacks(ProgressBar()).fit(X, Y)
    assert found.n_samples_seen_ == 200
