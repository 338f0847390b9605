"""Processes that may be looked at after every label, and races by losses."""

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t as student

from sklearn_mdl.ranking import LossRace, combined_e_values, forecast_interval
from sklearn_mdl.ranking._anytime import (
    COSTS,
    LAMBDAS,
    PairSums,
    asymptotic_half_widths,
    asymptotic_log_values,
    clipped_losses,
    exact_half_widths,
    exact_log_values,
    forecast_stop,
)

EXACT = [
    1.0139908202039387,
    1.0060195383371546,
    1.0340221549519413,
    1.0437286702390622,
    1.0703770928370422,
]
ASYMPTOTIC = {
    30: (1.868255635500136, -0.5214750979),
    45: (3.661654780770477, -0.2341480683),
    60: (4.7872795601854605, -0.1474968327),
}


def race_of(shape, n_classes=5, **options):
    defaults = {"alpha": 0.05, "within": None, "method": "asymptotic", "start": 0}
    return LossRace(shape, n_classes, **defaults | options)


def test_exact_e_values_are_those_worked_out_by_hand():
    sums, scale = PairSums((2,)), 2 * np.log(30)
    for difference, expected in zip([0.5, -0.2, 1.0, 0.3, 0.8], EXACT, strict=True):
        sums.add(np.array([difference, 0.0]))
        logs = exact_log_values(sums.totals / scale, sums.squares / scale**2)
        assert_allclose(np.exp(logs[0, 1]), expected, rtol=1e-13)


def test_asymptotic_e_values_and_bounds_are_those_worked_out_by_hand():
    sums = PairSums((2,))
    for i in range(1, 61):
        sums.add(np.array([0.3 + np.cos(i), 0.0]))
        value = np.exp(asymptotic_log_values(sums.n, sums.totals, sums.variances))
        width = asymptotic_half_widths(sums.n, sums.variances, 0.05)
        if i in ASYMPTOTIC:
            found = value[0, 1], (sums.means - width)[0, 1]
            assert_allclose(found, ASYMPTOTIC[i], rtol=1e-9)
        elif i < 30:
            assert value[0, 1] == 0
            assert width[0, 1] == np.inf


def test_exact_sums_are_those_of_the_definition():
    """The mean is that of the differences before, zero at first."""
    x, rng = [], np.random.default_rng(0)
    sums = PairSums((3,))
    for losses in rng.gamma(1.0, size=(40, 3)):
        sums.add(losses)
        x.append(losses[:, None] - losses)
        assert_allclose(sums.means, np.mean(x, axis=0), atol=1e-15)
    x = np.array(x)
    before = [np.zeros((3, 3)), *(x[:i].mean(0) for i in range(1, 40))]
    assert_allclose(sums.squares, ((x - before) ** 2).sum(0))
    assert_allclose(sums.variances, x.var(0))
    total, square = sums.totals / 20, sums.squares / 400
    terms = [
        np.exp(rate * total - cost * square)
        for rate, cost in zip(LAMBDAS, COSTS, strict=True)
    ]
    assert_allclose(np.exp(exact_log_values(total, square)), np.mean(terms, axis=0))


def test_sums_of_a_pair_wait_while_one_of_it_is_absent():
    rows = np.random.default_rng(0).gamma(1.0, size=(20, 3))
    some, pair = PairSums((3,)), PairSums((2,))
    for i, losses in enumerate(rows):
        some.add(np.where(np.arange(3) == 2, np.nan, losses) if i % 2 else losses)
        pair.add(losses[:2])
    both = slice(2), slice(2)
    for name in ("n", "totals", "squares", "moments"):
        assert_array_equal(getattr(some, name)[both], getattr(pair, name))
    third = PairSums((3,))
    for losses in rows[::2]:
        third.add(losses)
    for name in ("n", "totals", "squares", "moments"):
        assert_array_equal(getattr(some, name)[2], getattr(third, name)[2])


def test_exact_bounds_are_where_the_e_value_reaches_the_threshold():
    squares = np.array([0.0, 1e-3, 0.5, 7.0, 900.0])
    for level in (0.4, 0.05, 1e-6):
        widths = exact_half_widths(squares, level)
        assert_allclose(exact_log_values(widths, squares), -np.log(level))


def test_clipped_losses_differ_by_at_most_their_bound():
    losses = np.array([0.0, 0.1, 3.0, 50.0, 1e4])
    clipped = clipped_losses(losses, 7)
    assert (np.diff(clipped) >= 0).all()
    assert np.ptp(clipped) <= np.log(7 / 0.1)
    assert_allclose(clipped[1], -np.log(0.9 * np.exp(-0.1) + 0.1 / 7))


def fair_pairs(n_runs, n_labels, seed):
    """Losses of two encoders in the role of either by a coin, ever smaller ones."""
    rng = np.random.default_rng(seed)
    scale = 1 / (1 + np.arange(n_labels)[:, None, None] / 100)
    losses = rng.gamma(0.5, 2 * scale, size=(n_labels, n_runs, 2))
    flipped = rng.random((n_labels, n_runs, 1)) < 0.5
    return np.where(flipped, losses[..., ::-1], losses)


def teachers(n_runs, n_labels, seed):
    """Losses of forecasts of coins: one by frequencies so far, one by the opposite."""
    rng = np.random.default_rng(seed)
    coins = rng.random((n_labels, n_runs)) < 0.5
    before = np.vstack([np.zeros(n_runs), np.cumsum(coins, axis=0)[:-1]])
    p = (before + 0.5) / (np.arange(n_labels)[:, None] + 1)
    p = 0.5 + np.clip(10 * (p - 0.5), -0.45, 0.45)
    losses = [-np.log(np.where(coins, q, 1 - q)) for q in (p, 1 - p)]
    return np.stack(losses, axis=-1)


def called(losses, alpha=0.05):
    """Share of races in which the first is out: by each process, and by a t-test."""
    n_labels, n_runs, _ = losses.shape
    shares = []
    for method in ("exact", "asymptotic"):
        race = race_of((n_runs, 2), 2, alpha=alpha, method=method)
        for row in losses:
            race.add(row)
        shares.append(1 - race.alive[:, 0].mean())
    x = losses[..., 0] - losses[..., 1]
    n = np.arange(1, n_labels + 1)[29:, None]
    means = x.cumsum(0)[29:] / n
    sds = np.sqrt((np.square(x).cumsum(0)[29:] - n * means**2) / (n - 1))
    is_called = means / sds * np.sqrt(n) > student.ppf(1 - alpha, n - 1)
    return [*shares, is_called.any(0).mean()]


@for_each("stream", [fair_pairs, teachers])
def test_looking_after_every_label_rarely_errs(stream):
    exact, asymptotic, t_test = called(stream(200, 150, 0))
    assert exact <= 0.05
    assert asymptotic <= 0.06
    assert t_test > 0.08


@pytest.mark.slow
@for_each("stream", [fair_pairs, teachers])
def test_the_error_is_at_most_alpha_over_thousands_of_true_nulls(stream):
    exact, asymptotic, t_test = called(stream(2000, 1000, 1))
    assert exact <= 0.05
    assert asymptotic <= 0.06
    assert t_test > 0.1


def losses_with_gaps(gaps, n_labels=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(1.0, size=(n_labels, len(gaps))) * 0.5 + np.array(gaps)


@for_each("method", ["exact", "asymptotic"])
def test_the_worst_leave_first_and_the_leader_stays(method):
    race = race_of((4,), method=method)
    for losses in losses_with_gaps([0.0, 0.5, 1.0, 2.5]):
        race.add(losses)
        assert race.alive[0]
        assert race.leader == 0
    assert_array_equal(race.alive, [True, False, False, False])
    assert race.out_at[1] > race.out_at[2] >= race.out_at[3] > 0
    assert race.stopped_at == race.out_at[1]
    assert race.leader_at_stop == 0
    assert race.could_stop()


def test_threshold_is_shared_by_all_rivals():
    for within, level in ((None, 0.05 / 3), (0.1, 0.025 / 3)):
        race = race_of((4,), within=within)
        assert_allclose(race.level, level)
        for losses in losses_with_gaps([0.0, 0.0, 0.0, 0.9]):
            before = race.alive
            race.add(losses)
            reached = race.log_values().max(-1) >= -np.log(level)
            assert_array_equal(race.alive, before & ~reached)
        assert not race.alive[3]


def test_copies_of_one_encoder_stop_within_and_never_otherwise():
    for within in (None, 0.1):
        race = race_of((3,), within=within)
        for losses in losses_with_gaps([0.3]):
            race.add(np.repeat(losses, 3))
        assert race.alive.all()
        assert bool(race.could_stop()) == (within is not None)


@for_each("method", ["exact", "asymptotic"])
def test_within_bounds_the_leaders_distance(method):
    race = race_of((2,), within=0.3, method=method)
    rows = losses_with_gaps([0.0, 0.02], n_labels=800)
    for losses in rows:
        race.add(losses)
        lower, upper = race.bounds()
        assert lower[race.leader] == upper[race.leader] == 0
        distances = np.array([0.0, 0.02]) - 0.02 * race.leader
        assert (lower <= distances).all()
        assert (distances <= upper).all()
        if race.could_stop():
            break
    assert race.alive.all()
    assert max(-lower) <= 0.3
    assert race.is_certified() == (method == "exact")
    assert race.stopped_at == race.n_labels > 30


def test_bounds_are_those_of_the_process_that_is_named():
    race, exact = race_of((3,)), race_of((3,), method="exact")
    for losses in losses_with_gaps([0.0, 0.1, 0.2], n_labels=60):
        race.add(losses)
        exact.add(losses)
    for found, expected in zip(race.bounds("exact"), exact.bounds(), strict=True):
        assert_array_equal(found, expected)
    assert (race.bounds("exact")[0] <= race.bounds()[0]).all()


@for_each("method", ["asymptotic", "exact"])
def test_bounds_are_on_differences_from_the_encoder_that_is_named(method):
    race = race_after(losses_with_gaps([0.0, 0.1, 0.2], n_labels=60), method=method)
    means, widths = race._sums_of()[0].means, race.half_widths()
    for first in range(3):
        low, high = race.bounds(leader=first)
        others = np.arange(3) != first
        assert low[first] == high[first] == 0
        assert_allclose((low + high) / 2, means[:, first], atol=1e-12)
        assert_allclose(((high - low) / 2)[others], widths[others, first])


def test_real_labels_do_not_change_a_race():
    race, blind = (race_of((2,), None) for _ in range(2))
    for losses in losses_with_gaps([0.0, 0.1], n_labels=20):
        race.add(losses, np.array(0.5))
        blind.add(losses)
    assert_array_equal(race.log_values(), blind.log_values())


def test_exact_bounds_of_a_race_are_in_units_of_the_range_of_clipped_losses():
    race, scale = race_of((2,), 3), 2 * np.log(30)
    for losses in losses_with_gaps([0.0, 0.1], n_labels=20):
        race.add(losses)
    half = exact_half_widths(race.clipped.squares / scale**2, 0.05) * scale / 20
    assert_allclose(race.half_widths("exact"), half, rtol=1e-12)


def test_a_removed_encoder_does_not_keep_the_others_from_stopping():
    race = race_of((3,), within=0.5)
    for losses in losses_with_gaps([0.0, 0.0, 2.0], n_labels=400):
        race.add(losses)
        if race.could_stop():
            break
    assert race.alive.tolist() == [True, True, False]
    assert race.stopped_at == race.n_labels


def test_new_races_have_counted_nothing():
    for n_classes, width in ((5, 5), (None, 1)):
        race = race_of((4, 3), n_classes)
        shapes = {"counts": (4, width), "out_at": (4, 3)}
        for name, shape in {
            **shapes,
            "stopped_at": (4,),
            "leader_at_stop": (4,),
        }.items():
            counts = getattr(race, name)
            assert (counts.shape, counts.dtype.kind, counts.any()) == (shape, "i", 0)
        assert race.is_certified().dtype == bool


def test_before_the_first_label_bounds_are_infinite():
    assert np.isposinf(race_of((3,), method="exact").half_widths()).all()


def test_a_copy_goes_on_without_the_race_that_was_copied():
    rows = losses_with_gaps([0.0, 0.3], n_labels=80)
    race = race_after(rows[:40], method="exact")
    before = race.log_values()
    race.copy().add(rows[40])
    assert_array_equal(race.log_values(), before)


@for_each("method", ["asymptotic", "exact"])
def test_copies_of_a_race_go_on_as_the_race_of_those_left(method):
    rows = losses_with_gaps([0.0, 0.2, 1.5], n_labels=250)
    race, labels = race_of((3,), method=method, within=0.1), np.arange(250) % 5
    for losses, label in zip(rows[:150], labels[:150], strict=True):
        race.add(losses, label)
    assert race.alive.tolist() == [True, True, False]
    copies = race.repeated(4)
    assert (copies.clipped is None) == (method == "asymptotic")
    for losses, label in zip(rows[150:, :2], labels[150:], strict=True):
        copies.add(np.tile(losses, (4, 1)), np.full(4, label))
        race.add([*losses, np.nan], label)
    assert_array_equal(copies.counts, np.tile(race.counts, (4, 1)))
    assert_allclose(copies.log_values(), np.tile(race.log_values()[:2, :2], (4, 1, 1)))


def test_labels_at_first_do_not_count():
    rows = losses_with_gaps([0.0, 0.4])
    late, early = race_of((2,), start=100), race_of((2,))
    for i, losses in enumerate(rows):
        late.add(losses)
        if i >= 100:
            early.add(losses)
    assert late.n_labels == early.n_labels + 100
    assert_array_equal(late.log_values(), early.log_values())


def test_races_side_by_side_are_those_one_by_one():
    rows = np.stack([losses_with_gaps([0, 0.1, 0.6], seed=s) for s in range(3)], 1)
    together = race_of((3, 3), within=0.2)
    for losses in rows:
        together.add(losses)
    for i in range(3):
        alone = race_of((3,), within=0.2)
        for losses in rows[:, i]:
            alone.add(losses)
        for name in ("alive", "out_at", "stopped_at", "leader_at_stop", "certified"):
            assert_array_equal(getattr(together, name)[i], getattr(alone, name))
        assert together.is_certified()[i] == alone.is_certified()
    assert race_of((3, 2), None).is_certified().tolist() == [False] * 3


def test_exact_values_of_a_race_are_those_of_clipped_losses_in_units_of_their_range():
    race, sums, scale = race_of((2,), 3), PairSums((2,)), 2 * np.log(30)
    for losses in losses_with_gaps([0.0, 0.1], n_labels=20):
        race.add(losses)
        sums.add(clipped_losses(losses, 3))
        expected = exact_log_values(sums.totals / scale, sums.squares / scale**2)
        assert_array_equal(race.log_values("exact"), expected)


def test_the_leader_at_the_stop_is_kept_when_another_leads_later():
    race = race_of((2,), within=0.5)
    for losses in losses_with_gaps([0.02, 0.0], n_labels=400):
        race.add(losses)
        if race.stopped_at == race.n_labels:
            leader = int(race.leader)
    for _ in range(200):  # the other one is far better from now on
        race.add(np.where(np.arange(2) == leader, 0.4, 0.0))
    assert race.leader != leader
    assert race.leader_at_stop == leader


def test_what_leaves_is_not_read_any_more():
    rows = losses_with_gaps([0.0, 0.1, 1.5])
    one, other = race_of((3,)), race_of((3,))
    for losses in rows:
        one.add(losses)
        other.add(np.where(other.alive, losses, np.nan))
    assert_array_equal(one.log_values(), other.log_values())


def test_the_exact_process_certifies_what_it_has_shown():
    race = race_of((2,), method="exact")
    for losses in losses_with_gaps([0.0, 1.0]):
        assert bool(race.is_certified()) == bool(race.could_stop())
        race.add(losses)
    assert race.is_certified()
    # The asymptotic process is faster unless an encoder is far worse.
    fast = race_of((2, 2))
    for losses in losses_with_gaps([0.0, 1.0]):
        fast.add([losses, losses * [1.0, 9.0]])
    assert fast.could_stop().all()
    assert fast.is_certified().tolist() == [False, True]
    for within in (None, 9.0):
        without = race_of((2,), None, within=within)
        for losses in losses_with_gaps([0.0, 1.0]):
            without.add(losses)
        assert without.could_stop()
        assert not without.is_certified()


def race_after(rows, **options):
    race = race_of(rows.shape[1:], **options)
    for losses in rows:
        race.add(losses)
    return race


def test_a_forecast_counts_labels_and_leaves_the_race_alone():
    rows = losses_with_gaps([0.0, 0.5, 0.6])
    race = race_after(rows[:40])
    drawn = forecast_stop(race, rows[:40], most=200)
    assert race.n_labels == 40
    assert (np.diff(drawn) >= 0).all()
    assert 0 < drawn[0] <= drawn[32] < 200
    assert_array_equal(drawn, forecast_stop(race, rows[:40], most=200))
    assert np.isinf(forecast_stop(race, rows[:40], most=1)[32:]).all()


@for_each("method", ["asymptotic", "exact"])
def test_a_forecast_is_the_race_of_each_draw(method):
    """The witness runs the race of each draw by itself, with the same random rows."""
    rows, labels = losses_with_gaps([0.0, 0.8])[:40], np.arange(40) % 5
    race = race_of((2,), method=method, start=10)
    for losses, label in zip(rows, labels, strict=True):
        race.add(losses, label)
    most, n_draws, ends = 60, 8, []
    found = forecast_stop(race, rows, most=most, labels=labels, n_draws=n_draws)
    rng, n = np.random.default_rng(0), 15  # the second half of 30 rows
    chosen = rng.integers(n, size=(n_draws, n))
    steps = [rng.integers(n, size=n_draws) for _ in range(most)]
    for i in range(n_draws):
        alone = race.copy()
        for t in range(most):
            row = 25 + chosen[i, steps[t][i]]
            alone.add(rows[row], labels[row])
        ends.append(alone.stopped_at - 40 if alone.stopped_at else np.inf)
    assert_array_equal(found, np.sort(ends))
    assert len(set(ends)) > 2


def test_forecasts_use_the_labels():
    """There is no evidence before enough labels of other classes than the first."""
    rows = losses_with_gaps([0.0, 2.0])[:40]
    race, equal = race_of((2,)), np.zeros(40, dtype=int)
    for losses in rows:
        race.add(losses, 0)
    few = forecast_interval(race, rows, most=50, labels=equal)
    assert few == (np.inf, np.inf, np.inf)
    assert forecast_interval(race, rows, most=50) == few
    many = forecast_interval(race, rows, most=50, labels=np.arange(40) % 5)
    assert np.isfinite(many[0])
    assert np.isfinite(forecast_stop(race, rows, most=50, labels=np.arange(40) % 5)[0])


@for_each("start", [0, 10])
def test_a_forecast_draws_from_the_later_half_of_the_labels_that_count(start):
    rows = losses_with_gaps([0.0, 0.5, 0.6])[:40]
    race, half = race_after(rows, start=start), (start + 40) // 2
    drawn = forecast_stop(race, rows, most=200)
    unread, read = rows.copy(), rows.copy()
    unread[:half] = np.nan
    assert_array_equal(forecast_stop(race, unread, most=200), drawn)
    read[half] = [9.0, 0.0, 0.0]
    assert (forecast_stop(race, read, most=200) != drawn).any()


def test_an_interval_doubles_what_is_drawn_but_its_low_end():
    rows = losses_with_gaps([0.0, 0.5, 0.6])
    race = race_after(rows[:40])
    drawn = forecast_stop(race, rows[:40], most=200)
    low, median, high = forecast_interval(race, rows[:40], most=200)
    # The tenth, half and nine tenths of 64 draws.
    assert (low, median) == (drawn[6], 2 * drawn[31])
    assert high == (2 * drawn[57] if drawn[57] <= 100 else np.inf)
    assert low < median < high
    short = forecast_interval(race, rows[:40], most=int(drawn[31]))
    assert short == (low, np.inf, np.inf)


@pytest.mark.slow
def test_forecasts_hold_what_comes():
    """Of intervals of 80 %, where means and variances stay what they were."""
    held = []
    for seed in range(60):
        rows = losses_with_gaps([0.0, 0.3], n_labels=4000, seed=seed)
        race = race_after(rows[:60])
        if race.could_stop():
            continue
        drawn = forecast_stop(race, rows[:60], most=3900)
        for losses in rows[60:]:
            race.add(losses)
            if race.could_stop():
                break
        held.append(drawn[6] <= race.n_labels - 60 <= drawn[57])
    assert len(held) > 30
    assert 0.65 <= np.mean(held) <= 0.95


def test_e_values_of_datasets_combine_by_claim():
    values = [[2.0, 0.5], [8.0, 4.0]]
    assert_array_equal(combined_e_values(values, "on at least one"), [16.0, 2.0])
    assert_array_equal(combined_e_values(values, "on every one"), [2.0, 0.5])
    assert combined_e_values([10**10, 10**10], "on at least one") == 1e20
    assert combined_e_values([0.0, 3.0], "on every one") == 0
    assert combined_e_values([1e200, 1e200, 1e-300, 1e-99], "on at least one") == 10
    assert combined_e_values([1e-200, 1e-200, 1e300, 1e101], "on at least one") == 10
    found = combined_e_values(np.full(2000, 1.05), "on at least one")
    assert_allclose(found, 1.05**2000)
    found = combined_e_values([[np.inf, 2.0], [0.0, 4.0]], "on at least one")
    assert_array_equal(found, [0.0, 8.0])
    assert combined_e_values([1e200, 1e200], "on at least one") == np.inf
    for bad in ([], [-1.0], [np.nan], 3.0):
        with pytest.raises(ValueError, match="number of at least 0 for each"):
            combined_e_values(bad, "on every one")
    with pytest.raises(ValueError, match="`e_values` must be numbers"):
        combined_e_values(["a"], "on every one")
    claims = "claim` must be 'on at least one' or 'on every one', got claim='on some'"
    with pytest.raises(ValueError, match=claims):
        combined_e_values(values, "on some")


@for_each("gap", [0.0, 0.1])
def test_a_constant_difference_bounds_nothing_unless_it_is_zero(gap):
    race = race_of((2,), within=0.5)
    for _ in range(100):
        race.add([0.0, gap])
    assert np.isfinite(race.half_widths()[0, 1]) == (gap == 0)


def test_rounding_errors_remove_no_encoder():
    """Features in other units give losses that differ in their last digits."""
    race = race_of((2,), within=0.5)
    for error in np.random.default_rng(0).normal(2e-7, 1e-7, 500):
        race.add([0.0, error])
    assert race.alive.all()
    assert race.could_stop()
