"""Races: who retires is a matter of the past, and the others go on as if alone."""

import math
import pickle

import numpy as np
import pytest
from finetune_cases import digits, encoder
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RefitReadout,
    forward,
)
from sklearn_mdl._core.stream.checkpoint import progress_of, resume
from sklearn_mdl.display import (
    CodelengthDisplay,
    PosteriorDisplay,
    RegretSplitDisplay,
)
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    FineTunedReadout,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    ViewReadout,
    ViewReadoutRegressor,
)
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import (
    Race,
    best_segments,
    best_sequence,
    smoothed_posterior,
)

FAST = {"n_replay_streams": 1}
SOME = slice(2, 9)  # columns of X
CLASSIFIERS = [
    LinearReadout(lr=0.03, **FAST),
    ViewReadout(LinearReadout(lr=1e-5, **FAST), SOME),
    RefitReadout(LogisticRegression(), schedule=2),
    MLPReadout((8,), lr=0.01, ema_step_size=0.1, **FAST),
    MLPReadout((8,), lr=0.01, **FAST),
    MLPReadout((8,), lr=1e-5, **FAST),
    KNeighborsReadout(5),
    ViewReadout(KNeighborsReadout(70), SOME),
    ViewReadout(KernelReadout("rbf", alpha=0.1), SOME),
    ViewReadout(KernelReadout("rbf", alpha=1e4), SOME),
    IncrementalReadout(GaussianNB()),
    LinearReadout(lr=1e20, **FAST),
]
REGRESSORS = [
    LinearReadoutRegressor(lr=0.03, **FAST),
    LinearReadoutRegressor(lr=1e-5, **FAST),
    MLPReadoutRegressor((8,), lr=0.01, **FAST),
    MLPReadoutRegressor((8,), lr=1e-5, scaling="whiten", **FAST),
    ViewReadoutRegressor(KernelReadoutRegressor("rbf", alpha=0.1), SOME),
    ViewReadoutRegressor(KernelReadoutRegressor("rbf", alpha=1e4), SOME),
]
IMAGES = [
    (encoder(), LinearReadout(lr=0.03, n_replay_streams=5)),
    (encoder(), LinearReadout(lr=1e-6, **FAST)),
    FineTunedReadout(encoder(), lr=1e-2, n_replay_streams=3),
    FineTunedReadout(encoder(), lr=1e-6, n_replay_streams=0),
    (encoder(seed=1), KNeighborsReadout(20)),
]
KINDS = ["classes", "reals", "images"]
RACE = {"tolerance": 0.1, "slack": 1.0, "pool_slack": 2.0}
RACE |= {"min_readouts": 2, "min_samples": 32}


def rows(kind):
    if kind == "images":
        return digits(90)
    X, y = (load_breast_cancer if kind == "classes" else load_diabetes)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:150]
    return X[order], y[order]


def raced(kind="classes", **options):
    plain = {"pooling": LogLinearPool(), "random_state": 0, "device": "cpu"}
    plain |= {"race": Race(**RACE), "batch_size": 12}
    if kind == "reals":
        plain |= {"prior_location": 150, "prior_scale": 75}
        return MDLReadoutSwitcherRegressor(REGRESSORS, **(plain | options))
    plain["readouts"] = CLASSIFIERS if kind == "classes" else IMAGES
    return MDLReadoutSwitcher(**(plain | options))


FOUND = ("codelengths_", "posterior_", "retired_at_")
FOUND += ("pool_weights_", "pool_posterior_")


def assert_same(one, other):
    for name in (*FOUND, "readout_losses_", "readout_codelengths_"):
        assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.filterwarnings("ignore:the last fit")
@pytest.mark.parametrize("kind", KINDS)
def test_the_others_go_on_with_the_same_bits_and_retired_ones_are_gone(kind):
    X, y = rows(kind)
    whole, race = raced(kind, race=None).fit(X, y), raced(kind).fit(X, y)
    losses, at = race.readout_losses_, race.retired_at_
    assert (whole.retired_at_ == -1).all()
    assert set(at[at >= 0].tolist()) <= {48, 96}
    assert 2 <= (at < 0).sum() < len(at)
    asleep = (at >= 0) & (np.arange(len(y))[:, None] >= at)
    assert_array_equal(np.isnan(losses), asleep)
    assert_array_equal(losses[~asleep], whole.readout_losses_[~asleep])
    # Sums go on with what the mixture costs; its weights are those of the others.
    filled = np.where(asleep, race.switching_codelengths_[:, None], losses)
    assert_allclose(race.readout_codelengths_, filled.sum(0), rtol=1e-12)
    assert_allclose(race.posterior_.sum(1), 1, rtol=1e-12)
    assert (race.posterior_[asleep] == 0).all()
    weights = race.readout_weights_
    assert_array_equal(forward(None, losses, weights).posterior, race.posterior_)
    # Nothing is left of them: neither learners nor parts of stacks.
    run = race._run
    assert sorted(run.threads.columns) == np.flatnonzero(at < 0).tolist()
    assert len(run.threads.states) == len(run.learners) < len(whole._run.learners)
    for learner in run.learners:
        if hasattr(learner, "sources"):
            assert len(learner.calibration.values) == len(learner.columns)
    gone = {race.pool_kinds_.index(g) for g in race.pool_kinds_} - {
        race.pool_kinds_.index(race.readouts_[k].pool_kind) for k in run.threads.columns
    }
    assert (race.pool_weights_[96:, sorted(gone)] == 0).all()


@pytest.mark.slow
def test_any_cut_and_a_copy_of_a_race_over_images_give_the_same_bits():
    """Other races are scenarios."""
    X, y = rows("images")
    whole = raced("images", n_jobs=2).fit(X, y)
    for at in (48, 60):
        parts = raced("images").partial_fit(X[:7], y[:7], classes=whole.classes_)
        parts = pickle.loads(pickle.dumps(parts.partial_fit(X[7:at], y[7:at])))
        later = parts.heldout_codelengths(X[at:], y[at:])
        parts.partial_fit(X[at:], y[at:])
        assert_same(parts, whole)
        assert_array_equal(later, whole.codelengths_[at:])
        assert_array_equal(parts.predict(X), whole.predict(X))
        assert parts.measures() == whole.measures()


def test_progress_over_images_goes_on_to_the_same_bits():
    X, y = rows("images")
    whole = raced("images").fit(X, y)
    for at in (48, 60):
        part = raced("images").partial_fit(X[:at], y[:at], whole.classes_)
        again = raced("images")
        again.n_features_in_ = X.shape[1]
        again._begin(X.shape[1], whole.classes_, seed=part._seed)
        again._run.begin(X[:at])
        resume(again._run, progress_of(part._run), part.readout_losses_)
        again._run.end()
        assert_same(again.partial_fit(X[at:], y[at:]), whole)


@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_the_rule_reads_losses_of_the_last_half(noise):
    X, y = rows("classes")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < noise, rng.permutation(y), y)
    switcher = raced(pooling=None).fit(X, y)
    losses = raced(pooling=None, race=None).fit(X, y).readout_losses_
    awake = np.ones(len(CLASSIFIERS), dtype=bool)
    for count in (48, 96):
        half = np.where(awake, losses[count // 2 : count].sum(0), np.inf)
        saved = count // 2 * math.log(len(np.unique(y))) - half.min()
        assert (saved < half.min()) == (noise > 0)
        unit = min(half.min(), max(saved, 0.0))
        stays = half <= half.min() + 0.1 * math.sqrt(32 / count) * unit + 1.0
        stays[np.argsort(half)[:2]] = True
        assert_array_equal(switcher.retired_at_ == count, awake & ~stays)
        awake &= stays


def test_the_share_by_which_one_may_be_behind_falls_with_the_root_of_the_examples():
    race = Race(tolerance=0.1, slack=1.0, min_readouts=1, min_samples=100)
    losses = np.array([100.0, 105.9, 106.1, 110.9, 111.1, np.inf])
    for n_samples, n_survivors in ((None, 4), (50, 4), (100, 4), (400, 2)):
        stay = race.survivors(losses, n_samples=n_samples)
        assert stay.tolist() == [i < n_survivors for i in range(6)]
    # A share of half the lowest loss, and one of a kind that the pool needs.
    stay = race.survivors(losses, [np.array([3, 4])], unit=50.0)
    assert stay.tolist() == [True, True, False, True, False, False]
    stay = race.survivors(np.array([100.0, 111.0, 111.5]))
    assert stay.tolist() == [True, True, False]


def test_the_limit_of_the_pool_grows_with_the_root_of_the_examples():
    race = Race(pool_slack=0.5, min_samples=100)
    assert [race.slack_of_pool(n) for n in (100, 400, 900)] == [0.5, 1.0, 1.5]


def test_a_closed_form_readout_stays_for_the_pool_or_as_the_best():
    race = Race(tolerance=0.1, slack=1.0, min_readouts=2, min_samples=100)
    losses = np.array([100.0, 101.0, 102.0, 103.0, 200.0, np.inf])
    closed_form = np.array([True, True, False, True, True, True])
    needed = [np.array([3]), np.array([4])]

    def stay(kinds, n_samples):
        found = race.survivors(losses, kinds, None, n_samples, closed_form)
        return np.flatnonzero(found).tolist()

    assert stay(needed, 199) == [0, 1, 2, 3, 4]
    assert stay(needed, 200) == [0, 2, 3, 4]  # 1 is within the tolerance
    assert stay((), 200) == [0, 1, 2, 3]
    for least in (5, 6):  # the last one does not run
        race.set_params(min_readouts=least)
        assert stay(needed, 200) == [0, 1, 2, 3, 4]
    exact = Race(tolerance=0.0, slack=0.0, min_readouts=1)
    assert exact.survivors(np.array([1.0, 2.0, 1.0])).tolist() == [True, False, True]
    exact.set_params(min_readouts=4)
    stay = exact.survivors(np.r_[np.tile([2.0, 1.0], 50), 0.0])
    assert np.flatnonzero(stay).tolist() == [1, 3, 5, 100]  # the first of equal ones


def test_experts_retire_after_min_samples_and_where_their_number_doubles():
    race = Race(min_samples=64)
    counts = [race.next_count(n, 16) for n in (0, 63, 64, 127, 128)]
    assert counts == [64, 64, 128, 128, 256]
    assert race.next_count(0, 48) == 96


def test_a_race_knows_which_readouts_learn_in_closed_form(monkeypatch):
    given, survivors = [], Race.survivors

    def noted(race, losses, kinds, unit, n_samples, closed_form):
        given.append(closed_form)
        return survivors(race, losses, kinds, unit, n_samples, closed_form)

    monkeypatch.setattr(Race, "survivors", noted)
    raced().fit(*rows("classes"))
    assert np.flatnonzero(given[0]).tolist() == [8, 9]  # kernels


def test_files_of_losses_know_who_retired(tmp_path):
    X, y = rows("classes")
    switcher = raced(store=tmp_path / "run").fit(X, y)
    path, _ = switcher.save_losses(tmp_path / "losses.npy")
    stored = load_losses(path)
    assert_array_equal(stored.losses, switcher.readout_losses_)
    assert_allclose(stored.readout_codelengths, switcher.readout_codelengths_)
    for prior in (None, "bayes", "fixed-share"):
        mixed = switcher.remix(prior)
        assert math.isfinite(mixed.codelength)
        assert_allclose(mixed.posterior.sum(1), 1, rtol=1e-9)
    assert_array_equal(
        switcher.remix(None).codelengths, switcher.switching_codelengths_
    )
    losses = switcher.readout_losses_
    for sequence in (best_sequence(None, losses), best_segments(losses, 3)):
        chosen = losses[np.arange(len(losses)), sequence.experts]
        assert sequence.loss == pytest.approx(chosen.sum())
    # An expert asleep only says what the mixture does: its smoothed weight may stay.
    assert_allclose(smoothed_posterior("bayes", losses).sum(1), 1, rtol=1e-9)


def test_displays_mark_who_retired():
    switcher = raced().fit(*rows("classes"))
    curves = CodelengthDisplay.from_estimator(switcher, readouts="all")
    for k, name in enumerate(switcher.readout_names_):
        line, at = curves.lines_[name], switcher.retired_at_[k]
        assert line.get_xdata()[-1] == (at if at > 0 else 150)
        assert (line.get_marker() == "x") == (at > 0)
    areas = PosteriorDisplay.from_estimator(switcher, by=None)
    assert areas.retirements == sorted(set(switcher.retired_at_.tolist()) - {-1})
    assert [line.get_xdata()[0] for line in areas.ax_.lines] == areas.retirements
    split = RegretSplitDisplay.from_estimator(switcher)
    assert np.isfinite(split.codelengths).all()
    CodelengthDisplay.from_losses(switcher.readout_losses_)


def test_readouts_without_weight_neither_win_nor_count():
    X, y = rows("classes")
    weights = np.ones(len(CLASSIFIERS))
    weights[[0, 3, 4]] = 0
    switcher = raced(readout_weights=weights).fit(X, y)
    assert (switcher.retired_at_[[0, 3, 4]] == 48).all()
    assert (switcher.retired_at_ < 0).sum() >= 2


@pytest.mark.filterwarnings("ignore:The best readout should lie inside")
def test_races_are_where_the_readouts_are_ours():
    for name in (None, "closed-form", "nets"):
        switcher = MDLReadoutSwitcher(name)
        assert str(switcher.resolved(30, 2).mixing.race) == str(Race())
        assert switcher.set_params(race=None).resolved(30, 2).mixing.race is None
    few = [LinearReadout(lr=lr, **FAST) for lr in (1e-2, 1e-6, 1e-7, 1e-8, 1e-9)]
    assert MDLReadoutSwitcher(few).resolved(30, 2).mixing.race is None
    assert MDLReadoutSwitcher.from_preset("imagenet-scratch").race is None
    for n, is_raced in ((4, True), (3, False)):
        weights = (
            np.arange(len(MDLReadoutSwitcher("nets").resolved(30, 2).readouts)) < n
        )
        switcher = MDLReadoutSwitcher("nets", readout_weights=weights)
        assert (switcher.resolved(30, 2).mixing.race is not None) == is_raced


@pytest.mark.parametrize(
    ("race", "words"),
    [
        (Race(tolerance=-0.1), "`tolerance` must be a finite number of at least 0"),
        (Race(slack=math.nan), "`slack` must be a finite number"),
        (
            Race(min_samples=0),
            "`min_samples` must be an integer of at least 1, got 0; pass min_samples=",
        ),
        (Race(min_readouts=20), "at least min_readouts=20 readouts, got 12"),
        ("slow", "race"),
    ],
)
def test_bad_races_are_refused_in_a_sentence(race, words):
    with pytest.raises(ValueError, match=words):
        raced(race=race).fit(*rows("classes"))


def test_parameters_of_a_race_are_searched_like_any_other():
    assert raced().set_params(race__tolerance=0.3).race.tolerance == 0.3
    with pytest.raises(ValueError, match=r"for example, pass race=Race\(\)"):
        raced(race="auto").set_params(race__tolerance=0.3)
