"""Laws of the run: no label leaks, every label is paid for, cutting means nothing."""

import copy
import itertools
import math
import pickle
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from sklearn_mdl import FixedShare, LinearReadout, MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core.numerics import one_thread
from sklearn_mdl._core.stream import steps as steps_module
from sklearn_mdl._core.stream.heldout import flushed_copy, predictions
from sklearn_mdl._core.stream.learner import FeatureView, Learner, Replay, RowsAhead
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.run import Mixing, PrequentialRun
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.steps import (
    PassState,
    ReplayStreams,
    prequential_steps,
    score_segment,
    usable,
)
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl._core.stream.threads import SEGMENT, PassSettings

CPU = torch.device("cpu")
C = 3
WIDTH = 2
B = 4
laws = settings(deadline=None, max_examples=30)


class Diary(Learner):
    """A learner that counts labels and writes down everything that it is given.

    Its two readouts predict by the counts so far, with different pseudo-counts.
    """

    def __init__(self, columns=(0, 1), n_replay_streams=2, recency=1.0):
        self.columns = columns
        self.replay = Replay(n_replay_streams, recency)
        self.counts = torch.zeros(C, dtype=torch.float64)
        self.predicted = []
        self.learned = []
        self.replayed = []
        self.changes = []

    def predict(self, x):
        self.predicted.append(x.clone())
        pseudo = torch.tensor([0.5, 2.0], dtype=torch.float64)[:, None]
        proba = self.counts + pseudo  # (K, C)
        proba = proba / proba.sum(-1, keepdim=True)
        return proba.log()[:, None].expand(-1, x.shape[1], -1)

    def update(self, x, y, replayed):
        self.learned.append((x.clone(), y.clone()))
        self.replayed.append([(x.clone(), y.clone()) for x, y in replayed])
        self.counts += torch.bincount(y, minlength=C)

    def re_express(self, changes):
        self.changes.append((len(self.learned), changes))


def numbered(n):
    """Rows that tell which they are, and labels."""
    X = np.arange(1, n * WIDTH + 1, dtype=np.float32).reshape(n, WIDTH)
    return X, np.random.default_rng(n).integers(C, size=n)


def path_of(X, n_streams=2):
    """Return the other arguments of the coroutine, with all rows known."""
    store = SampleStore(WIDTH)
    store.append(X)
    rows = ScaledRows(store, [None], B, CPU)
    rows.extend(len(X))
    return PassState(rows, ReplayStreams(n_streams, seed=1)), ClassLabels(C)


def run_of(*learners, prior=None, n_features=WIDTH, batch_size=B, **options):
    own = {k: options.pop(k) for k in ("first_batch_size", "n_jobs") if k in options}
    settings = PassSettings(ClassLabels(C), n_features, batch_size, 1, CPU, **own)
    mixing = Mixing(FixedShare() if prior is None else prior)
    return PrequentialRun(learners, mixing, settings, **options)


def run_segments(run, X, y, at=()):
    """Give rows in pieces; returns the lengths of the segments."""
    lengths, whole = [], run.close_segment

    def close_segment(values, block, coded):
        lengths.append(len(block.losses))
        whole(values, block, coded)

    run.close_segment = close_segment
    for start, stop in itertools.pairwise([0, *at, len(X)]):
        run.run(X[start:stop], y[start:stop])
    del run.close_segment
    return lengths


def predicted(run, X):
    return torch.cat(list(predictions(run, X)), dim=1)


def assert_same_pages(found, expected):
    """Two lists of (rows, labels) are the same."""
    for one, other in zip(found, expected, strict=True):
        for tensor, same in zip(one, other, strict=True):
            assert torch.equal(tensor, same)


class Failing(Diary):
    """A diary whose first readout has no prediction for one row, told by its content.

    Zeros, which stand for rows still to come, are predicted.
    """

    def __init__(self, at, **options):
        super().__init__(**options)
        self.row = 1 + at * WIDTH

    def predict(self, x):
        found = super().predict(x).clone()
        found[0, x[0, :, 0] == self.row] = torch.nan
        return found


# The coroutine


def test_run_predicts_then_observes_then_learns_full_minibatches():
    X, y = numbered(11)
    diary, labels = Diary(), torch.as_tensor(y)
    state, outcome = path_of(X)
    steps = prequential_steps(diary, state, outcome, 11)
    log_proba = next(steps)
    for batch, (start, stop) in enumerate([(0, 4), (4, 8), (8, 11)]):
        assert log_proba.shape == (2, stop - start, C)
        assert (len(diary.predicted), len(diary.learned)) == (batch + 1, batch)
        assert state.n_scored == start
        try:
            log_proba = steps.send(labels[start:stop])
        except StopIteration:
            assert stop == 11
    assert (state.n_scored, state.n_learned, len(diary.learned)) == (11, 8, 2)
    for batch, (x, observed) in enumerate(diary.learned):
        part = slice(4 * batch, 4 * batch + 4)
        np.testing.assert_array_equal(x[0], X[part])
        np.testing.assert_array_equal(observed, y[part])


def test_run_shows_whole_minibatches_with_zeros_for_later_rows():
    X, y = numbered(6)
    diary = Diary()
    steps = prequential_steps(diary, *path_of(X), 6)
    score_segment([steps], torch.as_tensor(y))
    first, second = diary.predicted
    np.testing.assert_array_equal(first[0], X[:4])
    np.testing.assert_array_equal(second[0], [*X[4:], [0, 0], [0, 0]])


def test_run_with_nothing_to_do_yields_nothing():
    assert list(prequential_steps(Diary(), *path_of(numbered(4)[0]), 0)) == []


def test_scores_are_minus_the_log_probabilities_of_the_labels():
    X, y = numbered(10)
    steps = prequential_steps(Diary(), *path_of(X), 10)
    (log_proba,) = score_segment([steps], torch.as_tensor(y))
    assert log_proba.shape == (2, 10, C)
    losses = ClassLabels(C).losses(log_proba, torch.as_tensor(y)).T.numpy()
    assert losses.shape == (10, 2)
    assert losses.dtype == np.float64
    for t in range(10):
        learned = y[: t // B * B]
        for k, pseudo in enumerate((0.5, 2.0)):
            proba = (np.sum(learned == y[t]) + pseudo) / (len(learned) + C * pseudo)
            assert losses[t, k] == pytest.approx(-math.log(proba), rel=1e-12)


def test_replay_reads_minibatches_that_were_seen_in_the_order_of_the_streams():
    X, y = numbered(40)
    diary = Diary(n_replay_streams=5)
    steps = prequential_steps(diary, *path_of(X, n_streams=5), 40)
    score_segment([steps], torch.as_tensor(y))
    streams = ReplayStreams(5, seed=1)
    for n_seen, replayed in enumerate(diary.replayed, start=1):
        positions = streams.advance()
        assert positions.max() < n_seen
        assert_same_pages(replayed, [diary.learned[i] for i in positions])


@laws
@given(at=st.lists(st.integers(1, 29), max_size=10, unique=True).map(sorted))
def test_any_cutting_teaches_the_same(at):
    X, y = numbered(30)
    once, pieces = Diary(), Diary()
    runs = run_of(once), run_of(pieces)
    run_segments(runs[0], X, y)
    run_segments(runs[1], X, y, at)
    assert_same_pages(pieces.learned, once.learned)
    for found, expected in zip(pieces.replayed, once.replayed, strict=True):
        assert_same_pages(found, expected)
    for name in ("losses", "codelengths", "posterior"):
        found, expected = (getattr(run.trace, name) for run in runs)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("t", [1, 4, 6, 19])
def test_later_labels_change_nothing_that_was_decoded_before(t):
    X, y = numbered(20)
    changed = y.copy()
    changed[t:] = (changed[t:] + 1) % C
    diaries = Diary(), Diary()
    losses = []
    for diary, labels in zip(diaries, (y, changed), strict=True):
        run = run_of(diary)
        run_segments(run, X, labels)
        losses.append(run.trace.losses[:t])
    np.testing.assert_array_equal(*losses)
    assert_same_pages(*(diary.learned[: t // B] for diary in diaries))


# The run


def test_run_puts_learners_in_their_columns():
    X, y = numbered(15)
    apart = [run_of(Diary(n_replay_streams=s)) for s in (0, 3)]
    together = run_of(Diary(columns=[3, 0], n_replay_streams=0), Diary(columns=(1, 2)))
    for run in (*apart, together):
        run_segments(run, X, y)
    losses = [run.trace.losses for run in apart]
    expected = np.column_stack([losses[0][:, 1], losses[1], losses[0][:, 0]])
    np.testing.assert_array_equal(together.trace.losses, expected)
    log_proba = predicted(together, X[:6])
    assert log_proba.shape == (4, 6, C)
    alone = predicted(apart[0], X[:6])
    assert torch.equal(log_proba[[3, 0]], alone)


def test_learners_of_one_run_replay_alike():
    X, y = numbered(40)
    few, many = Diary(n_replay_streams=2), Diary((2, 3), n_replay_streams=5)
    run_segments(run_of(few, many), X, y)
    assert_same_pages(few.learned, many.learned)
    for own, theirs in zip(few.replayed, many.replayed, strict=True):
        assert_same_pages(own, theirs[:2])


def test_run_codes_by_the_prior_it_was_given():
    X, y = numbered(15)
    run = run_of(Diary(), prior=FixedShare(alpha=1))
    run_segments(run, X, y)
    np.testing.assert_allclose(
        run.trace.codelengths,
        math.log(2) - logsumexp(-run.trace.losses, axis=1),
    )


def test_run_reports_all_rows_and_segments_of_bounded_length():
    X, y = numbered(3 * SEGMENT + 7)
    run = run_of(Diary(n_replay_streams=0))
    reported = run_segments(run, X, y)
    assert sum(reported) == run.n_scored == len(X)
    assert max(reported) <= SEGMENT


def test_labels_are_brought_to_where_the_predictions_are(monkeypatch):
    X, y = numbered(B)
    run, found = run_of(Diary()), []
    run.rows.device = torch.device("meta")  # one that every machine has

    def score(steps, labels):
        found.append(labels.device.type)
        raise EOFError

    monkeypatch.setattr(steps_module, "score_segment", score)
    with pytest.raises(EOFError):
        run.run(X, y)
    assert found == ["meta"]


def test_scalings_are_refreshed_whenever_their_rows_have_doubled():
    X, y = numbered(37)
    diary = Diary()
    diary.view = FeatureView(scalings=("standard", "whiten", None))
    run = run_of(diary)
    run_segments(run, X, y, at=(3, 9, 16, 18))
    assert run.rows.n_refreshed == 32
    # Told after 2, 4 and 8 minibatches; the first one refreshes before it is learned.
    assert [n_learned for n_learned, _ in diary.changes] == [2, 4, 8]
    for _, (standard, whiten, plain) in diary.changes:
        assert callable(standard)
        assert callable(whiten)
        assert plain is None


@pytest.mark.parametrize("n", [2, 4, 6, 8, 21])
def test_learned_copy_knows_the_pending_rows_and_the_original_does_not(n):
    X, y = numbered(30)
    run, untouched = run_of(Diary()), run_of(Diary())
    run_segments(run, X[:n], y[:n])
    run_segments(untouched, X[:n], y[:n])
    other = flushed_copy(run)
    (theirs,), (own,) = other.learners, run.learners
    assert (other is run) == (n % B == 0)
    np.testing.assert_array_equal(theirs.counts, np.bincount(y[:n], minlength=C))
    assert_same_pages(own.learned, untouched.learners[0].learned)
    for each in (run, untouched):
        run_segments(each, X[n:], y[n:])
    assert_same_pages(own.learned, untouched.learners[0].learned)
    np.testing.assert_array_equal(run.trace.losses, untouched.trace.losses)


def test_learned_copy_is_dropped_when_more_rows_come():
    X, y = numbered(20)
    run = run_of(Diary())
    for n in (6, 7, 13):
        run_segments(run, X[run.n_scored : n], y[run.n_scored : n])
        counts = flushed_copy(run).learners[0].counts
        np.testing.assert_array_equal(counts, np.bincount(y[:n], minlength=C))


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_run_copied_on_the_way_goes_on_alone(copied):
    X, y = numbered(30)
    straight, run = run_of(Diary()), run_of(Diary())
    run_segments(straight, X, y)
    run_segments(run, X[:18], y[:18])
    flushed_copy(run)
    other = copied(run)
    for each in (other, run):
        run_segments(each, X[18:], y[18:])
        np.testing.assert_array_equal(each.trace.losses, straight.trace.losses)
        np.testing.assert_array_equal(each.trace.posterior, straight.trace.posterior)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_one_thread_gives_the_threads_back(n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == n_threads
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


def test_scoring_and_predicting_give_the_threads_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        X, y = numbered(10)
        switcher = MDLReadoutSwitcher([LinearReadout(n_replay_streams=1)]).fit(X, y)
        assert torch.get_num_threads() == 2
        switcher.predict_proba(X)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class RowByRow(Diary):
    """A diary that predicts a few rows at once, by all labels observed so far."""

    def __init__(self, rows_ahead=1, **options):
        super().__init__(**options)
        self.rows_ahead = rows_ahead
        self.observed = []

    def observe(self, labels):
        self.observed.append(labels.tolist())
        self.counts += torch.bincount(labels, minlength=C)

    def update(self, x, y, replayed):
        before = self.counts.clone()
        super().update(x, y, replayed)
        self.counts = before  # which has them already


def test_a_learner_may_predict_row_by_row_and_observe_every_label():
    X, y = numbered(10)
    learner = RowByRow(columns=(0, 1))
    run = run_of(learner)
    run_segments(run, X, y)
    assert learner.observed == [[label] for label in y]
    for x, row in zip(learner.predicted, X, strict=True):
        np.testing.assert_array_equal(x[0], row[None])
    for t in range(10):
        for k, pseudo in enumerate((0.5, 2.0)):
            proba = (np.sum(y[:t] == y[t]) + pseudo) / (t + C * pseudo)
            loss = run.trace.losses[t, k]
            assert loss == pytest.approx(-math.log(proba), rel=1e-12)


def test_learners_by_row_predict_the_rows_of_a_group_together():
    X, y = numbered(12)
    learner, (state, outcome) = RowByRow(columns=(0, 1)), path_of(X)
    state.rows.schedule.append(0, np.repeat([0, 1, 2], [1, 6, 5]))
    steps = prequential_steps(learner, state, outcome, 12)
    score_segment([steps], torch.as_tensor(y))
    # Four rows at most; and all rows of a group again, when their labels are known.
    n_rows = [x.shape[1] for x in learner.predicted]
    assert n_rows == [1, 4, 2, 6, 4, 1, 5]
    assert learner.observed == [y[:1].tolist(), y[1:7].tolist(), y[7:].tolist()]


class FailingByRow(Failing, RowByRow):
    """A diary that predicts row by row, and one row not at all."""


def test_sound_predictions_of_learners_by_row_are_not_checked_again(monkeypatch):
    (X, y), checked = numbered(10), []

    def noted(values, failed, outcome):
        checked.append(values.shape[1])
        return usable(values, failed, outcome)

    monkeypatch.setattr("sklearn_mdl._core.stream.steps.usable", noted)
    for learner, n_checked in (
        (RowByRow(), []),
        (FailingByRow(3), [1] * 7),
        (Diary(), [4, 4, 4]),
    ):
        checked.clear()
        steps = prequential_steps(learner, *path_of(X), 10)
        score_segment([steps], torch.as_tensor(y))
        assert checked == n_checked


@pytest.mark.parametrize("rows_ahead", [1, 3, 4, 7, RowsAhead(6, 3)])
@pytest.mark.parametrize("at", [(), (1, 2, 7, 11), (5, 6)])
def test_blocks_of_any_size_mean_nothing_to_how_a_stream_is_cut(rows_ahead, at):
    X, y = numbered(14)
    runs = [run_of(RowByRow(rows_ahead), Diary((2, 3))) for _ in range(3)]
    run_segments(runs[0], X, y)
    run_segments(runs[1], X, y, at)
    steps = stepwise(runs[2], X)
    next(steps)
    for label in y.tolist()[:-1]:
        steps.send(label)
    with pytest.raises(StopIteration):
        steps.send(int(y[-1]))
    for other in runs[1:]:
        np.testing.assert_array_equal(other.trace.losses, runs[0].trace.losses)
        np.testing.assert_array_equal(other.trace.posterior, runs[0].trace.posterior)
        assert other.learners[0].observed == runs[0].learners[0].observed


@pytest.mark.parametrize("at", [(), (1, 9, 21), (5, 6, 33)])
@pytest.mark.parametrize("rows_ahead", [None, 3, 5, 12])
def test_minibatches_of_several_blocks_are_one_minibatch(at, rows_ahead, monkeypatch):
    X, y = numbered(40)
    learners = [Diary((0, 1)), RowByRow(rows_ahead, columns=(2, 3))]
    whole = run_of(*copy.deepcopy(learners), batch_size=12)
    run_segments(whole, X, y)
    monkeypatch.setattr("sklearn_mdl._core.stream.scaling.BLOCK", 5)
    cut = run_of(*learners, batch_size=12)
    run_segments(cut, X, y, at)
    np.testing.assert_array_equal(cut.trace.losses, whole.trace.losses)
    for one, other in zip(cut.learners, whole.learners, strict=True):
        assert_same_pages(one.learned, other.learned)
        assert {x.shape[1] for x in one.predicted} <= {5, 2, rows_ahead}


# Real readouts: every option of theirs on one pool

FAST = {"lr": 0.02, "n_replay_streams": 2}
POOL = [
    LinearReadout(**FAST),
    LinearReadout(**FAST, calibration=False),
    LinearReadout(**FAST, ema_step_size=0.1),
    LinearReadout(**FAST, scaling="whiten", ema_step_size=0.1, ema_warmup=False),
    LinearReadout(**FAST, scaling=None, label_smoothing=0.0),
    LinearReadout(lr=0.02, n_replay_streams=0, recency=3.0),
    MLPReadout((9,), **FAST, scaling="whiten"),
    MLPReadout((9,), **FAST, calibration=False, weight_decay=0.1),
    MLPReadout((9,), **FAST, recency=0.3, beta1=0.5),
    MLPReadout((7, 5), lr=0.02, n_replay_streams=5, scaling=None),
]


@cache
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:150]
    return X[order], y[order]


def scored(X, y, readouts=POOL, **options):
    switcher = MDLReadoutSwitcher(readouts, random_state=0, **options)
    return switcher.partial_fit(X, y, classes=range(10))


@cache
def reference():
    return scored(*digits())


@pytest.mark.parametrize("t", [1, 31, 32, 33, 64, 77, 128, 149])
def test_labels_to_come_change_no_loss_bitwise(t):
    X, y = digits()
    changed = y.copy()
    changed[t:] = (changed[t:] + 1 + np.arange(150 - t) % 9) % 10
    found, expected = scored(X, changed), reference()
    np.testing.assert_array_equal(
        found.readout_losses_[:t], expected.readout_losses_[:t]
    )
    np.testing.assert_array_equal(found.codelengths_[:t], expected.codelengths_[:t])
    np.testing.assert_array_equal(
        found.posterior_[: t + 1], expected.posterior_[: t + 1]
    )
    if t >= 32:  # before that nothing was learned
        assert np.all(found.codelengths_[t:] != expected.codelengths_[t:])


@pytest.mark.parametrize("t", [32, 50, 64, 128])
def test_features_to_come_change_no_loss_bitwise(t):
    X, y = digits()
    changed = X.copy()
    changed[t:] = 100 - 3 * changed[t:, ::-1]
    np.testing.assert_array_equal(
        scored(changed, y).readout_losses_[:t], reference().readout_losses_[:t]
    )


@pytest.mark.parametrize("batch_size", [1, 7, 32])
def test_first_minibatch_costs_what_the_uniform_code_does(batch_size):
    X, y = digits()
    switcher = scored(X[:40], y[:40], batch_size=batch_size)
    first = slice(batch_size)
    np.testing.assert_array_equal(switcher.readout_losses_[first], math.log(10))
    np.testing.assert_allclose(switcher.codelengths_[first], math.log(10), rtol=1e-14)
    assert np.all(switcher.readout_losses_[batch_size:] != math.log(10))


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_are_not_compressed(seed):
    # A code that saves a nats on them has probability exp(-a) at most.
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 12)), rng.integers(4, size=200)
    switcher = MDLReadoutSwitcher(POOL, random_state=seed)
    switcher.partial_fit(X, y, classes=range(4))
    uniform = 200 * math.log(4)
    assert switcher.codelength_ > uniform - 20
    assert switcher.readout_codelengths_.min() > uniform - 20


@pytest.mark.quick("fixed-share")
@pytest.mark.parametrize("switching", ["fixed-share", "bayes", "elementwise"])
def test_probabilities_of_all_label_sequences_sum_to_one(switching):
    X = np.random.default_rng(0).normal(size=(6, 3))
    options = {"n_replay_streams": 2, "lr": 0.5}
    readouts = [
        LinearReadout(**options),
        LinearReadout(**options, scaling="whiten", ema_step_size=0.2),
        MLPReadout((3,), **options, calibration=False, scaling=None),
    ]
    totals = []
    for y in itertools.product([0, 1], repeat=6):
        switcher = MDLReadoutSwitcher(
            readouts, switching=switching, batch_size=2, random_state=0
        )
        switcher.partial_fit(X, y, classes=[0, 1])
        totals.append([switcher.codelength_, *switcher.readout_codelengths_])
    np.testing.assert_allclose(np.exp(-np.array(totals)).sum(0), 1, rtol=1e-6)
    assert np.ptp(totals, axis=0).min() > 0.1  # something was learned


# Readouts that fail


@pytest.mark.parametrize("at", [0, 1, 5, 7, 8, 11, 18])
def test_a_readout_predicts_uniformly_from_its_first_failure_on(at):
    X, y = numbered(19)
    whole, failing = run_of(Diary()), run_of(Failing(at))
    run_segments(whole, X, y)
    run_segments(failing, X, y)
    found, expected = failing.trace.losses, whole.trace.losses.copy()
    expected[at:, 0] = math.log(C)
    np.testing.assert_array_equal(found, expected)
    assert failing.diverged.tolist() == [True, False]
    assert whole.diverged.tolist() == [False, False]


@laws
@given(
    failure=st.integers(0, 18),
    at=st.lists(st.integers(0, 19), max_size=5).map(sorted),
)
def test_a_failure_is_the_same_however_calls_are_cut(failure, at):
    X, y = numbered(19)
    once, pieces = run_of(Failing(failure)), run_of(Failing(failure))
    run_segments(once, X, y)
    run_segments(pieces, X, y, at)
    np.testing.assert_array_equal(pieces.trace.losses, once.trace.losses)
    np.testing.assert_array_equal(pieces.diverged, once.diverged)


def test_a_failure_changes_no_other_prediction_and_comes_before_its_label():
    X, y = numbered(19)
    other = y.copy()
    other[6:] = (y[6:] + 1) % C
    runs = [run_of(Failing(6)) for _ in range(2)]
    for run, labels in zip(runs, (y, other), strict=True):
        run_segments(run, X, labels)
    one, two = (run.trace.losses for run in runs)
    np.testing.assert_array_equal(one[:6], two[:6])
    np.testing.assert_array_equal(one[6, 0], math.log(C))
    np.testing.assert_array_equal(two[6, 0], math.log(C))


def test_a_readout_that_has_failed_predicts_other_rows_uniformly():
    X, y = numbered(19)
    run = run_of(Failing(6))
    run_segments(run, X, y)
    log_proba = predicted(run, X[:3])
    np.testing.assert_allclose(log_proba[0], -math.log(C))
    assert (log_proba[1] != -math.log(C)).all()
