"""Classes that appear late: an escape pays for them, then all readouts have them."""

import math
import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from finetune_cases import FAST, digits, encoder
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln
from sklearn.linear_model import LogisticRegression, SGDClassifier
from test_checkpoint import (
    Killed,
    asked_in_segment,
    ctrl_c_as_in_a_terminal as ctrl_c_as_in_a_terminal,
    killed_after,
)
from test_honesty import READOUTS

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    RefitReadout,
    RepresentationScorer,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.stream import checkpoint
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl.metrics import escape_codelengths
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import DummyReadout, FineTunedReadout
from sklearn_mdl.switcher import LabelMessage
from sklearn_mdl.switching import Race

KINDS = {
    **{k: READOUTS[k] for k in ("linear", "averaged", "diverging", "kernel")},
    "landmarks": KernelReadout(max_exact=32),
    "window": KernelReadout(window=64),
    "restarted": KernelReadout(restart=16),
    "labels restarted": DummyReadout("decayed", restart=9),
    "neighbours": KNeighborsReadout(5),
    "labels": DummyReadout("transition"),
    "updated": IncrementalReadout(SGDClassifier(loss="log_loss", random_state=0)),
    "refitted": RefitReadout(LogisticRegression()),
}
IMAGES = {
    "fine-tuned": FineTunedReadout(
        encoder(), **FAST, n_replay_streams=0, ema_step_size=0.3
    ),
    "frozen": (encoder(), LinearReadout(lr=0.01)),
}
N, D = 70, 5
FIRSTS = [0, 5, 31, 40, 41]  # rows at which classes appear
NAMES = np.array(["dog", "bird", "cat", "ant", "eel"])


def stream(seed=0):
    """Rows whose classes appear one after the other, also where rows are rescaled."""
    rng = np.random.default_rng(seed)
    late = np.searchsorted(FIRSTS, np.arange(N), side="right")
    y = (rng.random(N) * late).astype(int)
    y[FIRSTS] = range(len(FIRSTS))
    X = rng.normal(size=(N, D)) + 2 * np.eye(D)[y]
    return X, NAMES[y]


def switcher(readouts, **options):
    options = {"batch_size": 8, "random_state": 0, "device": "cpu", **options}
    return MDLReadoutSwitcher(readouts, new_classes="escape", **options)


def scored(readouts, X, y, at=(), classes=None, **options):
    found = switcher(readouts, **options)
    for start, stop in pairwise([0, *at, len(X)]):
        found.partial_fit(X[start:stop], y[start:stop], classes=classes)
    return found


def case(kind):
    """Readouts, rows and labels of a kind."""
    if kind not in IMAGES:
        return [KINDS[kind]], *stream()
    X, y = digits(44)
    names = np.argsort(np.unique(y, return_index=True)[1])
    return [IMAGES[kind]], X, names[y]


def assert_same(one, other, t=None):
    assert_array_equal(one.codelengths_[:t], other.codelengths_[:t])
    assert_array_equal(one.readout_losses_[:t], other.readout_losses_[:t])
    assert_array_equal(one.posterior_[:t], other.posterior_[:t])


# The code of first appearances


def test_escapes_cost_what_a_table_worked_by_hand_says():
    # Rows a b a c a; before row t = 2 to 5 there are m = 1, 2, 2, 3 classes.
    shares = [1.0, 1 / 2, 1 - 3 / 4, 3 / 6, 1 - 5 / 8]
    assert_allclose(escape_codelengths(list("abaca")), -np.log(shares), atol=1e-15)
    # Classes that were named do not escape, but count among those that have appeared.
    shares = [1 / 2, 1 - 1 / 2, 1 - 3 / 4, 3 / 6, 1 - 5 / 8]
    named = escape_codelengths(list("abaca"), classes=["b", "a"])
    assert_allclose(named, -np.log(shares), atol=1e-15)


def test_all_patterns_of_appearances_have_one_probability_that_is_krichevskys():
    total = 0.0
    for rest in product([False, True], repeat=6):
        fresh = [True, *rest]
        labels = np.where(fresh, np.cumsum(fresh), 1)
        nats = escape_codelengths(labels).sum()
        n_new, n_old = sum(rest), 6 - sum(rest)
        mixed = betaln(n_new + 0.5, n_old + 0.5) - betaln(0.5, 0.5)
        assert nats == pytest.approx(-mixed, rel=1e-12)
        total += math.exp(-nats)
    assert total == pytest.approx(1, rel=1e-12)


# What holds for every kind of readout


def copied(fitted, path):
    """Return a switcher as a pickle keeps it and, where that is possible, a file."""
    found = pickle.loads(pickle.dumps(fitted))
    try:
        found.save(path)
    except TypeError:  # of classes that are not ours
        return found
    return MDLReadoutSwitcher.load(path)


@pytest.mark.quick("averaged", "kernel", "linear", "labels", "neighbours")
@pytest.mark.filterwarnings("ignore:all readouts have diverged")
@pytest.mark.filterwarnings("ignore:labels are grouped")
@pytest.mark.parametrize("kind", [*KINDS, *IMAGES])
def test_classes_that_appear_change_nothing_before_them_and_decode(kind, tmp_path):
    readouts, X, y = case(kind)
    whole, part = scored(readouts, X, y), scored(readouts, X[:1], y[:1])
    for start, stop in pairwise([1, 5, 31, 34, 40, len(X)]):
        if start in (5, 34):
            part = copied(part, tmp_path / "part.safetensors")
        part.partial_fit(X[start:stop], y[start:stop])
    assert_same(whole, part)
    assert_array_equal(whole.predict_proba(X[:9]), part.predict_proba(X[:9]))
    seen = y[np.sort(np.unique(y, return_index=True)[1])]
    assert_array_equal(whole.classes_, seen)
    assert_array_equal(part.classes_, seen)
    # Later classes are unknown before they appear.
    t = 40
    other = np.where(np.arange(len(y)) < t, y, "zebra" if y.dtype.kind == "U" else 99)
    assert_same(whole, scored(readouts, X[: t + 3], other[: t + 3]), t)
    if kind in IMAGES:
        return
    message = encode_labels(switcher(readouts), X, y)
    assert_array_equal(decode_labels(switcher(readouts), X, message), y)
    bits = LabelMessage.from_bytes(message).payload_bits
    assert bits == pytest.approx(whole.codelength_ / math.log(2), abs=65)


# What a readout predicts of the classes that it has


def odds(readout, log_proba, n_known):
    """Log-ratios of known classes to the first, without the floors of a readout."""
    if isinstance(readout, KernelReadout):
        n_classes = log_proba.shape[-1]
        log_proba = np.log(np.exp(log_proba) - 1e-4 / n_classes)
    return (log_proba - log_proba[..., :1])[..., :n_known]


@pytest.mark.parametrize("kind", [*KINDS, *IMAGES])
def test_a_new_class_leaves_the_ratios_of_the_others(kind):
    readouts, X, y = case(kind)
    if kind == "diverging":
        return
    known = scored(readouts, X[:40], y[:40])  # no row is pending
    before = known.predict_log_proba(X)
    known._run.threads.add_classes(1)
    after = known.predict_log_proba(X)
    assert after.shape[1] == before.shape[1] + 1
    n_known = before.shape[1]
    one, two = (odds(readouts[0], part, n_known) for part in (before, after))
    if isinstance(readouts[0], IncrementalReadout | RefitReadout):
        # Floors mix them with label counts, which count the new class as well.
        assert_allclose(one, two, atol=0.1)
    else:
        assert_allclose(one, two, rtol=1e-9, atol=1e-9)
    assert np.exp(after[:, -1]).mean() <= 1 / 3


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_classes_are_named_an_escape_is_one_constant_more(kind):
    if kind == "diverging":
        return
    X, y = stream()
    escapes = escape_codelengths(y, classes=NAMES)
    found = scored([KINDS[kind]], X, y, classes=NAMES)
    plain = MDLReadoutSwitcher(
        [KINDS[kind]], batch_size=8, random_state=0, device="cpu"
    ).partial_fit(X, y, classes=NAMES)
    assert_array_equal(found.classes_, plain.classes_)
    losses = plain.readout_losses_[:, 0] + escapes
    assert_allclose(found.readout_losses_[:, 0], losses, rtol=1e-7)


@pytest.mark.parametrize(
    "readout",
    [DummyReadout(), DummyReadout("decayed"), KNeighborsReadout(5, calibration=False)],
)
def test_a_class_named_but_unseen_and_one_that_appeared_end_in_the_same_odds(readout):
    X, y = stream()
    t = FIRSTS[3]  # before the last two classes
    late, named = (scored([readout], X[:t], y[:t], classes=c) for c in (None, NAMES))
    columns = [named.classes_.tolist().index(name) for name in late.classes_]
    one, two = late.predict_log_proba(X), named.predict_log_proba(X)[:, columns]
    assert_allclose(one - one[:, :1], two - two[:, :1], rtol=1e-9, atol=1e-9)
    late, named = (scored([readout], X, y, classes=c) for c in (None, NAMES))
    assert_allclose(
        late.predict_proba(X),
        named.predict_proba(X)[:, np.argsort(np.argsort(NAMES))],
        rtol=1e-9,
    )


# Mixtures, races and measures


MIXED = [
    KINDS["averaged"],
    LinearReadout(lr=0.001, n_replay_streams=2),
    KINDS["kernel"],
    KINDS["neighbours"],
    KINDS["updated"],
]
RACE = Race(slack=0.5, min_readouts=2, min_samples=20, pool_slack=2)
MIXING = {"pooling": LogLinearPool(), "race": RACE}


@pytest.mark.filterwarnings("ignore:the labels are grouped")
def test_mixtures_pools_and_races_do_not_see_who_pays_for_an_escape():
    X, y = stream()
    whole = scored(MIXED, X, y, at=[6, 50], **MIXING)
    assert_same(whole, switcher(MIXED, **MIXING).fit(X, y))
    assert (whole.retired_at_ >= 0).any()
    late = np.array([row for row in FIRSTS[1:] if row != 31])  # who retires then
    costs = escape_codelengths(y)[late]
    assert_allclose(whole.codelengths_[late], costs, rtol=1e-12)
    assert_allclose(np.nanmax(whole.readout_losses_[late], 1), costs, rtol=1e-12)
    assert_array_equal(whole.pool_weights_[late], whole.pool_weights_[late + 1])
    # Readouts of a stack are what they are alone.
    for k in np.flatnonzero(whole.retired_at_ < 0):
        alone = scored([MIXED[k]], X, y).readout_losses_[:, 0]
        assert_array_equal(whole.readout_losses_[:, k], alone)
    # Stored losses are those of the code.
    again = whole.remix(whole.switching)
    assert_allclose(again.codelengths, whole.switching_codelengths_, rtol=1e-12)


def test_what_is_coded_is_a_distribution_with_one_more_class_and_is_measured_so():
    X, y = stream()
    fitted = scored(MIXED[:4], X, y, **MIXING)
    fresh = switcher(MIXED[:4], **MIXING)
    fresh._begin(D, np.empty(0), n_rows=N)
    labels = [fitted.classes_.tolist().index(name) for name in y]
    steps, row, brier, right = stepwise(fresh._run, X), None, [], []
    for t, label in enumerate(labels):
        row = next(steps) if t == 0 else steps.send(labels[t - 1])
        assert len(row) == max(labels[:t], default=0) + 2
        assert row.sum() == pytest.approx(1, rel=1e-9)
        assert -math.log(row[label]) == pytest.approx(fitted.codelengths_[t], abs=1e-9)
        brier.append(((row - np.eye(len(row))[label]) ** 2).sum())
        right.append(row.argmax() == label)
    measures = fitted.measures()
    assert measures.brier_score == pytest.approx(np.mean(brier), rel=1e-9)
    assert measures.accuracy == pytest.approx(np.mean(right))
    # The code of frequencies learns classes as they come.
    blind = scored([DummyReadout()], X, y).codelength_
    assert measures.frequency_codelength == pytest.approx(blind, rel=1e-12)
    assert fitted.reference_codelengths_.sum() < blind + 3


def test_random_labels_are_not_compressed_beyond_their_entropy():
    saved = []
    for seed in range(2):
        X = stream(seed)[0]
        y = np.random.default_rng(100 + seed).integers(5, size=N)
        saved.append(N * math.log(5) - scored(MIXED[:4], X, y, **MIXING).codelength_)
    assert max(saved) < 0


@pytest.mark.filterwarnings("ignore:labels are grouped")
def test_a_pass_that_was_killed_or_interrupted_goes_on(tmp_path, monkeypatch):
    X, y = stream()
    whole = switcher(MIXED, **MIXING).fit(X, y)
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    live_again = killed_after(monkeypatch, 6)
    with pytest.raises(Killed):
        switcher(MIXED, checkpoint=tmp_path, **MIXING).fit(X, y)
    live_again()
    found = switcher(MIXED, checkpoint=tmp_path, **MIXING).fit(X, y)
    assert_same(found, whole)
    # Classes of rows that were not evaluated are not known.
    asked_in_segment(monkeypatch, 6)
    found = switcher(MIXED, **MIXING)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, y)
    monkeypatch.undo()
    t = found.n_samples_seen_
    assert_array_equal(found.classes_, NAMES[: np.searchsorted(FIRSTS, t)])
    assert 2 <= found.predict_proba(X).shape[1] == len(found.classes_) < 5
    found.partial_fit(X[t:], y[t:])
    assert_same(found, whole)


# Beginnings, names and refusals


@pytest.mark.filterwarnings("ignore:the labels are grouped")
def test_a_stream_may_be_of_one_class_for_long():
    X, y = stream()
    y = np.where(np.arange(N) < 50, "dog", y)
    found = scored("closed-form", X, y)
    free = np.array([math.log((t - 1) / (t - 1.5)) for t in range(2, 51)])
    assert found.codelengths_[0] == pytest.approx(0, abs=1e-12)
    assert_allclose(found.codelengths_[1:50], free, rtol=1e-9)
    assert_allclose(found.predict_proba(X).sum(1), 1, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:the labels are grouped")
@pytest.mark.parametrize("kinds", [(str, object), (object, str), (list, object)])
@pytest.mark.parametrize("named", [None, ["bird", "dog"]])
def test_text_may_be_objects_or_strings(kinds, named):
    X, y = stream()
    of = {str: np.asarray, object: lambda y: np.asarray(y, object), list: list}
    expected = scored([LinearReadout()], X, y, classes=named)
    found = switcher([LinearReadout()])
    for rows, kind in zip([slice(20), slice(20, None)], kinds, strict=True):
        known = named and of[kinds[0]](named)
        found.partial_fit(X[rows], of[kind](y[rows]), classes=known)
    assert_same(found, expected)
    assert found.classes_.tolist() == expected.classes_.tolist()


def test_large_whole_numbers_of_two_types_stay_different_classes():
    X, y = stream()
    numbers = np.unique(y, return_inverse=True)[1]
    expected = scored([LinearReadout()], X, numbers)
    found = switcher([LinearReadout()])
    found.partial_fit(X[:20], (numbers[:20] + 2**60).astype(np.uint64))
    found.partial_fit(X[20:], numbers[20:] + 2**60)
    assert_same(found, expected)
    found = switcher([LinearReadout()]).partial_fit(X[:20], 1.0 * numbers[:20])
    with pytest.raises(ValueError, match="must all be integers if one exceeds"):
        found.partial_fit(X[20:], numbers[20:] + 2**60)


@pytest.mark.filterwarnings("ignore:the labels are grouped")
def test_what_does_not_go_with_new_classes_is_refused_and_changes_nothing():
    X, y = stream()
    found = scored([LinearReadout()], X[:20], y[:20])
    before = pickle.dumps(found.codelengths_)
    with pytest.raises(
        ValueError, match=r"str like the known ones, got 'int'; pass labels of one type"
    ):
        found.partial_fit(X, np.arange(N))
    with pytest.raises(ValueError, match="known by the next row"):
        found.partial_fit(X, y, groups=np.arange(N))
    with pytest.raises(ValueError, match=r"classes must be \[\]"):
        found.partial_fit(X, y, classes=["dog"])
    with pytest.raises(ValueError, match="where classes first appear"):
        found.permutation_test(shuffled=True)
    assert pickle.dumps(found.codelengths_) == before
    assert_array_equal(found.classes_, NAMES[:2])
    with pytest.raises(ValueError, match="one column per class"):
        scored(MIXED[:4], X, y, store=("memory", "mixtures"), **MIXING)
    with pytest.raises(ValueError, match="code the same classes"):
        RepresentationScorer(switcher(None)).fit({"a": (X, y)})
    with pytest.raises(TypeError, match="cannot; omit this readout or new_classes="):
        Learner.add_classes(found._run.learners[0], 1)
