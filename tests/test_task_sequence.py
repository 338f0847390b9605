"""Laws of sequences of tasks: what the first one saves the next."""

import re

import numpy as np
import pytest
from finetune_cases import Net
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from sklearn_mdl import KernelReadout, MDLReadoutSwitcher
from sklearn_mdl.display import TransferDisplay
from sklearn_mdl.model_selection import TaskSequence
from sklearn_mdl.model_selection._certainty import TRAINING
from sklearn_mdl.model_selection._task_sequence import _half
from sklearn_mdl.readouts import DummyReadout, ScratchReadout

N, D = 48, 4


def task(seed, names=("a", "b", "c"), noise=False, centres=None):
    rng = np.random.default_rng(seed)
    y = rng.integers(len(names), size=N)
    centres = np.eye(len(names), D) if centres is None else centres
    X = rng.normal(size=(N, D)) + 3 * centres[y]
    return X, np.asarray(names)[rng.permutation(y) if noise else y]


def switcher(**options):
    readouts = [KernelReadout(), KernelReadout(alpha=1.0)]
    return MDLReadoutSwitcher(readouts, random_state=0, **options)


TASKS = {"one": task(0), "same": task(1), "noise": task(2, noise=True)}


@pytest.fixture(scope="module", params=["shared", "separate"])
def fitted(request):
    model = TaskSequence(switcher(), heads=request.param, n_orders=2, random_state=0)
    return model.fit(TASKS, ["same", "noise", "one"])


def test_shared_classes_are_one_stream():
    """L(A) + L(B | A) = L(A, B), by one switcher over both."""
    tasks = {"one": TASKS["one"], "same": TASKS["same"]}
    model = TaskSequence(switcher(), heads="shared", n_orders=1, random_state=3)
    model.fit(tasks)
    seed = np.random.RandomState(3).randint(2**31 - 1)
    rows = [np.random.default_rng([seed, 0, j]).permutation(N) for j in range(2)]
    X, y = (
        np.concatenate([tasks[name][i][rows[j]] for j, name in enumerate(tasks)])
        for i in range(2)
    )
    both = switcher().fit(X, y)
    nats = both.codelengths_[:N].sum(), both.codelengths_[N:].sum()
    assert model.codelengths_[0, 0] == nats[0]
    assert model.conditional_codelengths_[0, 0, 1] == nats[1]
    np.testing.assert_array_equal(model.sequence_codelengths_[0], nats)


@pytest.mark.quick("shared")
def test_the_same_task_again_is_short_and_noise_saves_nothing(fitted):
    one, same, noise = range(3)
    saved, alone = fitted.transfer_, fitted.codelengths_.mean(0)
    given = fitted.conditional_codelengths_.mean(0)
    assert np.isnan(np.diagonal(saved)).all()
    if fitted.heads == "shared":
        assert saved[one, same] > 0.4 * alone[same]
        assert saved[same, one] > 0.4 * alone[one]
    for other in (one, same):
        assert given[other, noise] > 0.95 * N * np.log(3)  # noise stays noise
    low, high = np.moveaxis(fitted.transfer_intervals_, -1, 0)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(((low + high) / 2)[off], saved[off])
    assert (low[off] < high[off]).all()


def noise_saves(seed):
    """Transfer, and nats fewer than alone, of a pair of tasks that are pure noise."""
    rng = np.random.default_rng(seed)
    tasks = {k: (rng.normal(size=(30, D)), rng.integers(3, size=30)) for k in "ab"}
    readouts = [KernelReadout(), KernelReadout(alpha=1e-3)]
    model = TaskSequence(MDLReadoutSwitcher(readouts), n_orders=1, random_state=seed)
    model.fit(tasks)
    return model.transfer_[0, 1], model.raw_transfer_[0, 1]


def test_intervals_of_a_transfer_count_the_true_labels_as_one_draw():
    base, shifts = np.ones((2, 40)), np.array([0.0, 1.0, 3.0])
    losses = [base + np.array([[shift], [0.0]]) / 40 for shift in shifts]
    half = stats.t.isf(0.05, 2) * shifts.std(ddof=1) * np.sqrt(1 + 1 / 3)
    assert _half(losses, 0.9) == pytest.approx(half)


def test_intervals_of_a_transfer_are_for_fresh_rows():
    losses = np.stack([np.ones(40), np.random.default_rng(0).gamma(4.0, 0.25, 40)])
    steps = np.diff((losses[0] - losses[1]).reshape(-1, 2))
    half = stats.t.isf(0.05, 20) * TRAINING * np.sqrt((steps**2).sum())
    assert _half([losses] * 3, 0.9) == pytest.approx(half)


@pytest.mark.slow
def test_intervals_of_noise_seldom_exclude_zero():
    n_excluding = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, D)), rng.integers(2, size=60)
        y[30:] = X[30:, 0] > 0
        model = TaskSequence(KernelReadout(), heads="shared", random_state=seed)
        model.fit({"noise": (X[:30], y[:30]), "signal": (X[30:], y[30:])})
        low, high = model.transfer_intervals_[0, 1]
        n_excluding += not low <= 0 <= high
    assert n_excluding <= 60 * 0.1 + 5


@pytest.mark.slow
def test_noise_transfers_nothing_to_noise():
    """Alone a task may cost more than after noise; the null takes that away."""
    saved, raw = np.transpose([noise_saves(seed) for seed in range(60)])
    error = saved.std(ddof=1) / np.sqrt(60)
    assert abs(saved.mean()) < 2.5 * error
    assert abs(saved.mean()) < abs(raw.mean()) / 2


@pytest.mark.slow
def test_a_sequence_begins_as_its_first_pair(fitted):
    nats = fitted.sequence_codelengths_
    np.testing.assert_array_equal(nats[:, 0], fitted.codelengths_[:, 1])
    np.testing.assert_array_equal(nats[:, 1], fitted.conditional_codelengths_[:, 1, 2])
    assert np.isfinite(nats).all()


def test_heads_know_the_classes_of_their_task_alone():
    """The first labels of a task cost those of a uniform code over its own classes."""
    tasks = {"three": task(0), "two": task(1, names=("u", "v"))}
    model = TaskSequence(DummyReadout(), n_orders=1, random_state=0).fit(tasks)
    for j, name in enumerate(tasks):
        y = tasks[name][1]
        seed = np.random.RandomState(0).randint(2**31 - 1)
        order = np.random.default_rng([seed, 0, j]).permutation(N)
        alone = DummyReadout().fit(np.zeros((N, 1)), y[order])
        # Counts of other tasks stand beside those of a task, and cancel.
        assert model.codelengths_[0, j] == pytest.approx(alone.codelength_)
        found = model.conditional_codelengths_[0, 1 - j, j]
        assert found == pytest.approx(alone.codelength_)


@pytest.mark.slow
def test_a_trunk_carries_over_what_separate_heads_do_not():
    images, y = load_digits(return_X_y=True)
    odd, even = (np.flatnonzero(y % 2 == i)[:150] for i in (1, 0))
    tasks = {"odd": (images[odd], y[odd]), "even": (images[even], y[even])}
    options = {"image_shape": (8, 8, 1), "n_replay_streams": 2, "batch_size": 8}
    trunk = ScratchReadout(Net, **options, optimizer="adamw", lr=0.01)
    model = TaskSequence(trunk, n_orders=1, random_state=0).fit(tasks)
    assert min(model.transfer_[0, 1], model.transfer_[1, 0]) > 10
    assert np.isnan(model.transfer_intervals_).all()  # of one order


def test_an_interrupted_fit_changes_nothing(monkeypatch):
    tasks = {"a": task(0), "b": task(1)}
    sequence = TaskSequence(switcher(), n_orders=2).fit(tasks)
    before, whole = dict(vars(sequence)), TaskSequence._evaluate

    def interrupted(self, ordered, places, i, seed):
        if i:
            raise KeyboardInterrupt
        return whole(self, ordered, places, i, seed)

    monkeypatch.setattr(TaskSequence, "_evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sequence.fit({**tasks, "c": task(2)})
    assert all(vars(sequence)[name] is value for name, value in before.items())
    fresh = TaskSequence(switcher(), n_orders=2)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(tasks)
    with pytest.raises(NotFittedError):
        fresh.to_frame()


def test_numbers_of_a_sequence_are_a_table_and_a_figure(fitted):
    table = fitted.to_frame().reset_index()
    assert len(table) == 6
    given = table["conditional_codelength"]
    np.testing.assert_allclose(table["null_codelength"] - given, table["transfer"])
    np.testing.assert_allclose(table["codelength"] - given, table["raw_transfer"])
    display = fitted.plot()
    np.testing.assert_array_equal(display.frame(), fitted.transfer_)
    texts = [text.get_text() for text in display.ax_.texts]
    assert len(texts) == 6
    assert all("±" in text for text in texts)


@pytest.mark.parametrize(
    ("changes", "order", "message"),
    [
        ({"wide": (np.zeros((6, 9)), [0, 1] * 3)}, None, "features must be equal"),
        ({"one": None, "same": None}, None, "at least two names to pairs"),
        ({1: TASKS["one"], "1": TASKS["same"]}, None, "at least two names to pairs"),
        ({"three": (1, 2, 3)}, None, "Task 'three' must be a pair .* 'int', 'int'"),
        (
            {},
            ["one", "same", "other"],
            r"order must be None, or a list that names each of .* once, got .*; pass "
            r"order=\['one', 'same', 'noise'\]",
        ),
        (
            {"flat": (np.zeros((6, D)), np.ones(6))},
            None,
            "'flat' must have two or more classes",
        ),
        ({"numbers": (np.zeros((6, D)), [0, 1] * 3)}, None, "must be text in all"),
        ({"bad": (np.full((6, D), np.nan), list("ab") * 3)}, None, "Task 'bad': .*NaN"),
        (
            {"real": (np.zeros((6, D)), np.arange(6) / 7)},
            None,
            "^Task 'real': Unknown label type: continuous, but y must hold classes, "
            r"one for each row; pass np.digitize\(y, bins\)$",
        ),
    ],
)
def test_tasks_that_make_no_sequence_are_refused(changes, order, message):
    tasks = {k: v for k, v in {**TASKS, **changes}.items() if v is not None}
    with pytest.raises(ValueError, match=message):
        TaskSequence(switcher(), heads="shared").fit(tasks, order)


def test_a_map_of_another_shape_is_refused():
    shapes = "(n, n) and (n, n, 2), n > 1, here n = 2, got ((1, 2),)"
    cure = "pass transfer_, task_names_, transfer_intervals_ of a TaskSequence"
    said = f"transfer and intervals must be of shapes {shapes}; {cure}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        TransferDisplay([[0.0, 1.0]], ["a", "b"])
