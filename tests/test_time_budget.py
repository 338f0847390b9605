"""A ranking until a time: cells follow from those before, and the clock ends them."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from each_case import for_each
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import make_blobs
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    RefitReadout,
    RepresentationScorer,
)
from sklearn_mdl.cli import main
from sklearn_mdl.model_selection import (
    Ranking,
    _budget as budget,
    _running as running,
)
from sklearn_mdl.model_selection._cells import Cell, Trace


def scorer(**options):
    switcher = MDLReadoutSwitcher([LinearReadout(lr=0.03, n_replay_streams=1)])
    return RepresentationScorer(switcher, **options)


def study():
    """Two datasets, each with the classes in one encoder and noise in another."""
    found = {}
    for d in range(2):
        X, y = make_blobs(60, 2, centers=2, random_state=d)
        noise = np.random.default_rng(d).normal(size=X.shape)
        found[f"d{d}"] = {"good": X, "same": 2 * X + 1, "noise": noise}, y
    return found


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by one second whenever a cell may begin."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(budget, "shortest_cell", lambda tasks, n_jobs: (tasks[0], 0.5))


def names_of(found):
    return {(c.dataset, c.encoder, c.order): c.codelength for c in found.cells_}


def made(nats):
    """A ranking of cells with these codelengths (n_datasets, n_encoders, n_orders)."""
    kept = dict.fromkeys(Cell.__dataclass_fields__)
    cells = [
        Cell(
            **kept
            | {"dataset": f"d{d}", "encoder": f"e{e}", "order": o}
            | {"codelength": nats[d, e, o], "seed": 0, "n_samples": 40, "data": {}}
            | {"source": Trace(np.full(40, nats[d, e, o] / 40), None, None)}
        )
        for d, e, o in np.ndindex(nats.shape)
        if np.isfinite(nats[d, e, o])
    ]
    return Ranking(cells)


def test_encoders_that_are_clearly_worse_have_fewer_orders():
    nats = np.array([100.0, 109.0, 112.0])
    tasks = [
        SimpleNamespace(dataset="d", encoder=e, order=o)
        for e in "abc"
        for o in range(16)
    ]
    kept = dict.fromkeys(Cell.__dataclass_fields__)
    found, turns = {}, []
    for number in range(9):
        due = budget.in_round(number, tasks, dict(reversed(found.items())))
        turns.append("".join(tasks[i].encoder for i in due))
        for i in due:
            code = nats["abc".index(tasks[i].encoder)] + tasks[i].order
            found[i] = Cell(**kept | {"codelength": code})
    assert turns == ["abc", "abc", "ab", "abc", "ab", "ab", "ab", "abc", "ab"]
    counts = [sum(i // 16 == e for i in found) for e in range(3)]
    assert counts == [9, 9, 4]


def test_the_best_encoder_is_not_clearly_worse_if_codelengths_are_negative():
    nats = [np.array([code]) for code in (-100.0, -92.0, -80.0, 5.0)]
    assert budget.clearly_worse(nats) == [False, False, True, True]


@for_each("n_orders", range(1, 10))
def test_with_time_enough_all_have_all_their_orders(n_orders, monkeypatch):
    tasks = [
        SimpleNamespace(dataset="d", encoder=e, order=o)
        for e in "ab"
        for o in range(n_orders)
    ]
    kept = dict.fromkeys(Cell.__dataclass_fields__)
    nats = {"a": 100.0, "b": 200.0}
    monkeypatch.setattr(
        running,
        "_kept_cells",
        lambda store, due: {
            i: Cell(**kept | {"codelength": nats[task.encoder]})
            for i, task in due.items()
        },
    )
    monkeypatch.setattr(running, "_run_missing", lambda missing, *_, **options: {})
    assert None not in running.run_tasks(tasks, budget=1.0, n_jobs=None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:time_budget ran out")
def test_the_clock_ends_the_queue_and_nothing_else(ticking, tmp_path):
    whole = names_of(scorer(n_orders=3).fit(study()))
    before = {}
    for seconds in (3.5, 9.5, 99):
        found = scorer(n_orders=3, time_budget=seconds).fit(study())
        cells = names_of(found)
        assert before.items() <= cells.items() <= whole.items()
        later = scorer(n_orders=3, time_budget=seconds, results=tmp_path)
        assert cells.items() <= names_of(later.fit(study())).items()
        before = cells
    assert before == whole
    with parallel_config("threading"):
        jobs = scorer(n_orders=3, time_budget=9.5, n_jobs=2).fit(study())
    assert names_of(jobs).items() <= whole.items()
    assert jobs.dataset_names_ == ["d0", "d1"]


def test_a_table_that_the_clock_ended_is_whole_and_says_how_many(ticking, tmp_path):
    found = scorer(n_orders=3, time_budget=11.5, results=tmp_path).fit(study())
    assert found.n_orders_.min() < found.n_orders_.max()
    assert np.isfinite(found.codelengths_).all()
    text = found.summary()
    assert ("orders" in text and "number of orders: 1 to 3" in text) or "1 to 2" in text
    assert_array_equal(found.n_orders_.sum(), len(found.cells_))


def test_a_dataset_without_all_encoders_is_left_out(ticking):
    with pytest.raises(ValueError, match="nothing can be ranked; pass a larger"):
        scorer(time_budget=2.5).fit(study())
    with pytest.warns(UserWarning, match=r"on \['d1'\]; these datasets are left out"):
        found = scorer(time_budget=3.5).fit(study())
    assert found.dataset_names_ == ["d0"]


def test_a_budget_shorter_than_a_cell_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"a cell \(\w+ on d\d\)"):
        scorer(time_budget=1e-6).fit(study())
    other = MDLReadoutSwitcher([RefitReadout(GaussianNB(), schedule=3.0)])
    with pytest.raises(ValueError, match=r"a cell \(\w+ on d\d\)"):
        RepresentationScorer(other, time_budget=1e-6).fit(study())
    with pytest.raises(ValueError, match="time_budget"):
        scorer(time_budget=-1).fit(study())


def test_unequal_orders_are_compared_where_they_are_shared():
    rng = np.random.default_rng(0)
    encoders, orders = rng.normal(100, 9, (2, 4, 1)), rng.normal(0, 9, (2, 1, 5))
    nats = encoders + orders  # the effect of an order is the same for all
    full = made(nats)
    nats = nats + 0.0
    for d, e, n in [(0, 1, 2), (0, 3, 4), (1, 0, 1), (1, 2, 3)]:
        nats[d, e, n:] = np.nan
    found = made(nats)
    assert_array_equal(found.order_codelengths_, nats)
    assert_allclose(found.codelengths_, full.codelengths_)
    assert_array_equal(found.average_ranks_, full.average_ranks_)
    nats += rng.normal(size=nats.shape)
    found = made(nats)
    pairs = found.paired_differences(level=0.8)
    for p, (one, other) in enumerate(pairs.pairs):
        means = found.codelengths_[:, one] - found.codelengths_[:, other]
        assert_allclose(pairs.mean[p], means)
        gaps = nats[0, one, :2] - nats[0, other, :2]  # orders that all share
        assert_allclose(pairs.std[p], [gaps.std(ddof=1), np.nan])
        half = stats.t.isf(0.1, 1) * stats.sem(gaps)
        assert_allclose(pairs.upper[p, 0] - pairs.mean[p, 0], half)
    spread = made(nats).order_spread().std[0, 1]
    assert_allclose(spread, np.std(nats[0, 1, :2], ddof=1))


def test_rank_takes_a_time(tmp_path, capsys):
    for name, (features, y) in study().items():
        (tmp_path / "f" / name).mkdir(parents=True)
        np.save(tmp_path / "f" / name / "labels.npy", y)
        for encoder, X in features.items():
            np.save(tmp_path / "f" / name / f"{encoder}.npy", X)
    command = ["rank", str(tmp_path / "f"), "--out", str(tmp_path / "out")]
    assert main([*command, "--time-budget", "1e-9"]) == 2
    assert "time_budget must be at least " in capsys.readouterr().err
