"""Laws of the replay streams."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sklearn_mdl import LinearReadout
from sklearn_mdl._core.stream.learner import Replay
from sklearn_mdl._core.stream.steps import ReplayStreams

WIDTH = 3
laws = settings(deadline=None, max_examples=50)


def positions_after(n_records, **options):
    streams = ReplayStreams(**options)
    for _ in range(n_records):
        streams.advance()
    return streams.positions


def exact_marginal(n_records, recency):
    """P(position) after ``n_records`` minibatches, by the recursion over their number.

    With probability ``r = min(1, c / t)`` a stream is at the first place, else it is
    one place on from where it was.
    """
    marginal = np.ones(1)
    for t in range(2, n_records + 1):
        jump = min(1.0, recency / t)
        marginal = np.concatenate([[jump], (1 - jump) * marginal])
    return marginal


# The streams


@laws
@given(
    n_streams=st.integers(0, 20),
    recency=st.floats(0.01, 100),
    seed=st.integers(0, 2**31 - 1),
)
def test_positions_are_always_among_the_minibatches_seen(n_streams, recency, seed):
    streams = ReplayStreams(n_streams, recency=recency, seed=seed)
    for n_records in range(1, 30):
        positions = streams.advance()
        assert streams.n_records == n_records
        assert positions.shape == (n_streams,)
        assert np.all((positions >= 0) & (positions < n_records))


@laws
@given(seed=st.integers(0, 2**31 - 1), recency=st.floats(0.1, 5))
def test_a_stream_goes_one_on_or_back_to_the_first(seed, recency):
    streams = ReplayStreams(10, recency=recency, seed=seed)
    before = streams.advance()
    for _ in range(30):
        after = streams.advance()
        assert np.all((after == before + 1) | (after == 0))
        before = after


@laws
@given(
    n_few=st.integers(0, 10),
    n_more=st.integers(0, 90),
    seed=st.integers(0, 2**31 - 1),
    recency=st.floats(0.1, 5),
)
def test_few_streams_are_the_first_of_many(n_few, n_more, seed, recency):
    few = ReplayStreams(n_few, recency=recency, seed=seed)
    many = ReplayStreams(n_few + n_more, recency=recency, seed=seed)
    for _ in range(20):
        np.testing.assert_array_equal(few.advance(), many.advance()[:n_few])


def test_exact_marginal_of_recency_one_is_uniform():
    np.testing.assert_allclose(exact_marginal(50, 1.0), 1 / 50, rtol=1e-12)


@pytest.mark.parametrize("recency", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n_records", [2, 3, 10, 40])
def test_positions_follow_the_exact_marginal(n_records, recency):
    n_streams = 50_000
    positions = positions_after(
        n_records, n_streams=n_streams, recency=recency, seed=n_records
    )
    expected = exact_marginal(n_records, recency)
    found = np.bincount(positions, minlength=n_records) / n_streams
    deviation = np.sqrt(expected * (1 - expected) / n_streams)
    assert np.all(np.abs(found - expected) <= 4.5 * deviation)


@pytest.mark.parametrize("recency", [0.3, 1.0, 3.0])
def test_relative_position_is_beta_distributed_on_long_streams(recency):
    # Beta(1, c) has mean 1 / (1 + c), and median 1 - 0.5 ** (1 / c).
    n_records = 300
    positions = positions_after(n_records, n_streams=20_000, recency=recency, seed=1)
    relative = (positions + 0.5) / n_records
    assert relative.mean() == pytest.approx(1 / (1 + recency), abs=0.01)
    assert np.median(relative) == pytest.approx(1 - 0.5 ** (1 / recency), abs=0.015)


def test_streams_move_independently_of_each_other():
    # Two neighbours agree as often as independent uniform positions do.
    positions = positions_after(10, n_streams=40_000, seed=3)
    agree = np.mean(positions[::2] == positions[1::2])
    assert agree == pytest.approx(0.1, abs=5 * np.sqrt(0.1 * 0.9 / 20_000))


def test_replay_is_uniform_unless_set_otherwise():
    default = positions_after(30, n_streams=100, seed=2)
    uniform = positions_after(30, n_streams=100, seed=2, recency=1.0)
    np.testing.assert_array_equal(default, uniform)


def test_streams_are_those_of_seed_zero_unless_set_otherwise():
    default, zero = (positions_after(30, n_streams=99, **s) for s in ({}, {"seed": 0}))
    np.testing.assert_array_equal(default, zero)


def test_streams_stand_before_the_first_minibatch_until_there_is_one():
    assert ReplayStreams(3).positions.tolist() == [-1, -1, -1]


def test_draws_of_a_step_are_those_of_the_counter_at_its_number():
    # A run that was kept goes on to the same numbers in any later version.
    streams, positions = ReplayStreams(50, seed=9), np.full(50, -1)
    for t in range(1, 20):
        bits = np.random.Philox(key=9).advance(t * 2**64)
        jump = np.random.Generator(bits).random(50) < 1 / t
        positions = np.where(jump, 0, positions + 1)
        np.testing.assert_array_equal(streams.advance(), positions)
    early = ReplayStreams(100, recency=0.001)  # shares that are 1 after rounding
    early.n_records = 5
    assert early.draw(1).max() == 4


def test_streams_repeat_by_seed_and_differ_between_seeds():
    one, same, other = (
        positions_after(50, n_streams=100, seed=seed) for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(one, same)
    assert np.mean(one == other) < 0.2


def test_streams_leave_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    positions_after(5, n_streams=5)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_streams_pickled_on_the_way_go_on_as_if_never_put_down():
    streams = ReplayStreams(20, recency=0.7, seed=5)
    for _ in range(13):
        streams.advance()
    copy = pickle.loads(pickle.dumps(streams))
    for _ in range(20):
        np.testing.assert_array_equal(copy.advance(), streams.advance())


def test_positions_handed_out_do_not_change_afterwards():
    streams = ReplayStreams(20, seed=5)
    for _ in range(5):
        streams.advance()
    before = streams.positions
    kept = before.copy()
    streams.advance()
    np.testing.assert_array_equal(before, kept)


# Replay that thins


def test_streams_fall_with_the_root_of_the_rows():
    replay = Replay.requested((30, 3))
    rows = [0, 1000, 1001, 4000, 10_000, 110_000, 10**7]
    assert [replay.at(n) for n in rows] == [30, 30, 30, 15, 10, 3, 3]
    assert {Replay.requested(30).at(n) for n in rows} == {30}
    assert {Replay.requested((7, 7)).at(n) for n in rows} == {7}


@pytest.mark.parametrize("pair", [(3, 30), (1, 2, 3), (3, -1), (3.5, 1), ("3", "1")])
def test_pairs_of_other_numbers_are_refused(pair):
    readout = LinearReadout(n_replay_streams=pair)
    with pytest.raises(ValueError, match="n_replay_streams must be"):
        readout.fit(np.eye(4), [0, 1, 0, 1])


def test_thinning_begins_late_and_any_cut_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr("sklearn_mdl._core.stream.learner.FULL_REPLAY", 32)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, WIDTH)), rng.integers(0, 2, 160)
    codes = [
        LinearReadout(n_replay_streams=streams, random_state=0).fit(X, y).codelengths_
        for streams in (4, (4, 4), (4, 0), (4, 1))
    ]
    np.testing.assert_array_equal(codes[0], codes[1])
    for thinned in codes[2:]:  # 4 streams are 3 after 64 rows
        np.testing.assert_array_equal(thinned[:96], codes[0][:96])
        assert (thinned[96:] != codes[0][96:]).any()
    parts = LinearReadout(n_replay_streams=(4, 1), random_state=0)
    for piece in np.split(np.arange(160), [7, 70, 71, 130]):
        parts.partial_fit(X[piece], y[piece], classes=[0, 1])
    np.testing.assert_array_equal(parts.codelengths_, codes[3])


def test_a_fit_replays_with_the_given_recency_and_the_seed_of_the_run():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(320, WIDTH)), rng.integers(0, 2, 320)
    readout = LinearReadout(n_replay_streams=7, recency=0.4, random_state=3).fit(X, y)
    (state,) = readout._run.threads.states
    expected = positions_after(10, n_streams=7, recency=0.4, seed=readout._seed)
    np.testing.assert_array_equal(state.streams.positions, expected)
