"""What a new user gives at first: taken if it is clear, or refused with the cure."""

import re
import threading

import numpy as np
import pytest
from joblib import Parallel, parallel_config
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from tqdm import tqdm

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RepresentationScorer,
)
from sklearn_mdl.model_selection import _forecast, _running
from sklearn_mdl.model_selection._forecast import jobs_for
from sklearn_mdl.readouts import LinearReadoutRegressor


class OfSomebody(LinearReadout):
    """A readout of ours by name, whose methods may be anybody's."""


X, Y = load_wine(return_X_y=True)
MIXED = np.arange(177).reshape(3, 59).T.ravel()[:60]  # rows of all classes in turn
X, Y = X[MIXED], Y[MIXED]


def switcher(readouts=None):
    readouts = [LinearReadout()] if readouts is None else readouts
    return MDLReadoutSwitcher(readouts, shuffle=True, random_state=0)


def test_a_single_readout_is_a_list_of_one():
    alone = switcher(LinearReadout()).fit(X, Y)
    assert_array_equal(alone.codelengths_, switcher().fit(X, Y).codelengths_)
    numbers = [
        MDLReadoutSwitcherRegressor(given, random_state=0).fit(X, X[:, 0]).codelength_
        for given in (LinearReadoutRegressor(), [LinearReadoutRegressor()])
    ]
    assert numbers[0] == numbers[1]
    with pytest.raises(TypeError, match="RefitReadout"):
        switcher(LogisticRegression()).fit(X, Y)


@pytest.mark.parametrize("estimator", [switcher(), LinearReadout()])
@pytest.mark.parametrize("name", ["sample_weight", "class_weight"])
def test_weights_are_no_arguments(estimator, name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        estimator.fit(X, Y, **{name: np.ones(len(Y))})


@pytest.mark.parametrize("estimator", [switcher(), LinearReadout()])
def test_one_hot_labels_are_refused_with_the_cure(estimator):
    with pytest.raises(ValueError, match=r"argmax\(1\) .* MultiOutputSwitcher"):
        estimator.fit(X, np.eye(3)[Y])


def test_sparse_features_are_refused_only_where_memory_is_short():
    wide = csr_matrix((len(Y), 10**12), dtype=np.float32)
    with pytest.raises(ValueError, match=r"a quarter of the memory.*TruncatedSVD"):
        switcher().fit(wide, Y)


@pytest.mark.parametrize("estimator", [switcher(), LinearReadout(batch_size=20)])
def test_a_stream_of_which_nothing_was_learned_warns(estimator):
    n_rows = 20 if isinstance(estimator, LinearReadout) else 32
    with pytest.warns(
        UserWarning, match=f"all {n_rows} rows .* batch_size={n_rows // 4}"
    ) as caught:
        estimator.fit(X[:n_rows], Y[:n_rows])
    assert [warning.filename for warning in caught] == [__file__]
    estimator.fit(X[: n_rows + 1], Y[: n_rows + 1])
    switcher([LinearReadout(), KernelReadout()]).fit(X[:9], Y[:9])  # learns by row


@pytest.mark.parametrize(
    ("delay", "cure", "cured"),
    [
        (99, "more than 103 rows, or lower label_delay", {"label_delay": 11}),
        (15, "more than 19 rows, or lower label_delay", {"label_delay": 11}),
        (14, "more than 18 rows, or set batch_size=1", {"batch_size": 1}),
    ],
)
def test_a_stream_whose_labels_come_late_warns_of_the_delay(delay, cure, cured):
    late = switcher().set_params(batch_size=4, label_delay=delay)
    with pytest.warns(UserWarning, match=cure):
        late.fit(X[:16], Y[:16])
    late.set_params(**cured).fit(X[:16], Y[:16])
    late.set_params(batch_size=4, label_delay=delay)
    late.fit(*(np.resize(a, (delay + 5, *a.shape[1:])) for a in (X, Y)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_warnings_of_a_ranking_come_once_and_name_their_place(n_jobs):
    datasets = {name: ({"a": X, "b": X[:, ::-1]}, Y) for name in "AB"}
    short = MDLReadoutSwitcher([LinearReadout(lr=1e20)], batch_size=100, random_state=0)
    scorer = RepresentationScorer(short, n_jobs=n_jobs)
    with (
        parallel_config(backend="threading"),
        pytest.warns(UserWarning, match="should learn before its last") as caught,
    ):
        scorer.fit(datasets)
    (warning,) = caught
    assert warning.filename == __file__
    assert re.search(
        r"\(dataset '[AB]', encoder '[ab]', order 0 and 3 more\)$", str(warning.message)
    )


def cells(**options):
    given = {"readouts": [LinearReadout(), KernelReadout()], **options}
    scorer = RepresentationScorer(MDLReadoutSwitcher(**given))
    return scorer._tasks({"A": ({"a": X, "b": X[:, ::-1]}, Y)}, None)


@pytest.mark.parametrize(
    ("options", "n_jobs"),
    [
        ({}, 1),
        ({"readouts": "linear"}, 1),
        ({"readouts": None}, 1),
        ({"readouts": LinearReadout()}, 1),
        ({"readouts": [LinearReadout(), IncrementalReadout(GaussianNB())]}, 2),
        ({"readouts": [OfSomebody()]}, 2),
        ({"n_jobs": "processes"}, 2),
    ],
    ids=["ours", "a name", "default", "alone", "of others", "derived", "processes"],
)
def test_cells_that_may_end_their_process_have_one_of_their_own(options, n_jobs):
    assert jobs_for(cells(**options), 2) == n_jobs


@pytest.mark.parametrize("limit", ["START_SECONDS", "FEW_ROWS", "FEW_NUMBERS"])
def test_workers_start_where_cells_take_longer_than_that(limit, monkeypatch):
    monkeypatch.setattr(_forecast, limit, 0)
    assert jobs_for(cells(), 2) == 2


def test_a_backend_that_was_chosen_is_used():
    with parallel_config(backend="threading"):
        assert jobs_for(cells(), 2) == 2


def test_a_ranking_on_few_rows_starts_no_worker(monkeypatch):
    """Which imports torch and scikit-learn first."""
    asked = []

    def parallel(n_jobs, **settings):
        asked.append(n_jobs)
        return Parallel(n_jobs=1, **settings)

    monkeypatch.setattr(_running, "Parallel", parallel)
    RepresentationScorer(switcher(), n_jobs=2).fit({"A": ({"a": X}, Y)})
    monkeypatch.setattr(_forecast, "_trial", lambda task: 1 / 0)  # the cell's own fault
    RepresentationScorer(switcher(), n_jobs=2).fit({"A": ({"a": X}, Y)})
    assert asked == [1, 2]


def test_a_ranking_whose_cells_are_all_kept_is_read_again(tmp_path):
    scorer = RepresentationScorer(switcher(), n_jobs=2, results=tmp_path)
    first = scorer.fit({"A": ({"a": X}, Y)}).order_codelengths_
    again = scorer.fit({"A": ({"a": X}, Y)}).order_codelengths_
    np.testing.assert_array_equal(again, first)


def test_without_a_bar_no_lock_of_tqdm_is_taken():
    """The child of a fork may hold it for good after a Ctrl-C."""
    lock = tqdm.get_lock()
    done = threading.Event()

    def fit():
        switcher().fit(X, Y)
        RepresentationScorer(switcher()).fit({"A": ({"a": X}, Y)})
        done.set()

    with lock:
        worker = threading.Thread(target=fit, daemon=True)
        worker.start()
        assert done.wait(60)
