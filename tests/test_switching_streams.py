"""Streams of losses: in blocks, from files, thinned, grouped, copied half way."""

from __future__ import annotations

import copy
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from each_case import for_each
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from switching_cases import (
    LOSSES,
    OWN_WEIGHTS,
    PRIORS,
    assert_same_bits,
    every_kind,
    random_losses,
)

from sklearn_mdl import FixedShare, LearnedShare, forward
from sklearn_mdl.switching import (
    ForwardPass,
    MarkovPrior,
    RunLength,
    Transition,
    UniversalShare,
    kind_weights,
)
from sklearn_mdl.switching._filtering import MixtureFilter
from sklearn_mdl.switching._kept_shares import redraw_rates

LIMITED = [
    (UniversalShare(max_steps=20), r"UniversalShare.* use LearnedShare\(\)"),
    (RunLength(None, max_steps=20), r"RunLength\(n_rates=None\).* use RunLength\(\)"),
]


def joined(parts):
    return (
        np.concatenate([part.codelengths for part in parts]),
        np.concatenate([part.posterior for part in parts]),
    )


class Listed(MarkovPrior):
    """Draws at rates that are given one by one."""

    def __init__(self, rates):
        self.rates = rates

    def transition(self, t):
        return Transition(draw=np.array([self.rates[t - 2]]))


class TestBlocks:
    @every_kind
    def test_blocks_equal_one_pass_bitwise(self, prior):
        for scale in (1.0, 300.0):
            losses = random_losses(40, 7, scale=scale)
            losses[15:, 2] = np.inf
            losses[22] = np.inf
            whole = forward(prior, losses)
            for borders in ([1], [7, 8, 20], [0, 0, 39], [13, 40]):
                stream = ForwardPass(prior, 7)
                blocks = np.split(losses, borders)
                parts = [stream.extend(block) for block in blocks]
                assert_same_bits((whole.codelengths, whole.posterior), joined(parts))
                assert stream.n_steps == 40
                assert [len(p.steps) for p in parts] == [len(b) for b in blocks]
                steps = np.concatenate([part.steps for part in parts])
                np.testing.assert_array_equal(steps, np.arange(40))
                assert_same_bits(forward(prior, iter(blocks)), whole)

    @settings(max_examples=100, deadline=None)
    @given(
        prior=st.sampled_from([*PRIORS, OWN_WEIGHTS[0]]),
        losses=arrays(
            float, (14, 3), elements=st.one_of(st.floats(0, 1000), st.just(np.inf))
        ),
        borders=st.lists(st.integers(0, 14), max_size=4).map(sorted),
    )
    def test_any_cutting_of_any_losses_gives_the_same_bits(
        self, prior, losses, borders
    ):
        whole, stream = forward(prior, losses), ForwardPass(prior, 3)
        parts = [stream.extend(block) for block in np.split(losses, borders)]
        assert_same_bits((whole.codelengths, whole.posterior), joined(parts))

    @pytest.mark.slow
    @every_kind
    def test_long_blocks_equal_one_pass_bitwise(self, prior):
        # Longer than what is read at once.
        losses = random_losses(1500, 2)
        whole, stream = forward(prior, losses, max_rows=0), ForwardPass(prior, 2)
        parts = [stream.extend(losses[i : i + 477]) for i in range(0, 1500, 477)]
        np.testing.assert_array_equal(joined(parts)[0], whole.codelengths)
        assert parts[0].codelength == parts[0].codelengths.sum()

    @every_kind
    def test_weights_are_the_posterior_of_the_next_step(self, prior):
        losses = np.concatenate([LOSSES, 900 * LOSSES])
        for weights in (None, [0, 1, 2]):
            posterior = forward(prior, losses, weights).posterior
            stream = ForwardPass(prior, 3, weights)
            for row, loss in zip(posterior, losses, strict=True):
                np.testing.assert_array_equal(stream.weights, row)
                stream.extend(loss[np.newaxis])
            assert stream.weights.sum() == pytest.approx(1, abs=1e-13)

    @every_kind
    def test_copies_go_on_as_the_original_does_and_apart_from_it(self, prior):
        losses = random_losses(30, 4, scale=100.0)
        stream = ForwardPass(prior, 4)
        stream.extend(losses[:11])
        twins = copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))
        twins += (copy.copy(stream),)
        expected = stream.extend(losses[11:])
        for twin in twins:
            assert_same_bits(twin.extend(losses[11:]), expected)
            assert twin.n_steps == stream.n_steps == 30

    def test_changing_the_prior_does_not_reach_a_pass_under_way(self):
        prior = FixedShare(m=2)
        stream = ForwardPass(prior, 3)
        prior.set_params(m=11)
        assert_same_bits(stream.extend(LOSSES), forward(FixedShare(m=2), LOSSES))

    def test_changing_a_parameter_in_place_does_not_reach_it_either(self):
        prior = Listed([0.5] * 6)
        stream, expected = ForwardPass(prior, 3), forward(prior, LOSSES)
        prior.rates[:] = [0.0] * 6
        assert_same_bits(stream.extend(LOSSES), expected)

    @every_kind
    def test_empty_and_refused_blocks_change_nothing(self, prior):
        stream = ForwardPass(prior, 3)
        trace = stream.extend(np.empty((0, 3)))
        assert trace.codelength == 0
        assert trace.posterior.shape == (0, 3)
        with pytest.raises(ValueError, match="must stay NaN after"):
            stream.extend([[0.1, math.nan, 0.3], [0.1, 0.2, 0.3]])
        assert stream.n_steps == 0
        assert_same_bits(stream.extend(LOSSES), forward(prior, LOSSES))

    @every_kind
    def test_memory_layout_and_precision_of_losses_do_not_matter(self, prior):
        single = LOSSES.astype(np.float32)
        expected = forward(prior, single.astype(np.float64))
        for same in (
            single,
            np.asfortranarray(single),
            single[:, ::-1][:, ::-1],
            single.tolist(),
        ):
            assert_same_bits(forward(prior, same), expected)
        assert expected[1].dtype == expected[2].dtype == np.float64

    def test_whole_numbers_are_losses_too(self):
        assert_same_bits(
            forward("fixed-share", [[1, 2]]), forward("fixed-share", [[1.0, 2.0]])
        )

    def test_losses_are_left_alone(self):
        losses = LOSSES.copy()
        forward("fixed-share", losses)
        ForwardPass("learned-share", 3).extend(losses)
        np.testing.assert_array_equal(losses, LOSSES)


@pytest.mark.parametrize(("prior", "message"), LIMITED)
class TestLongestStream:
    def test_longer_arrays_are_refused_before_they_are_read(self, prior, message):
        losses = np.full((21, 2), math.nan)  # would be refused as well, if it were read
        with pytest.raises(ValueError, match=message) as refusal:
            forward(prior, losses)
        assert "max_steps=20 steps, got 21" in str(refusal.value)
        assert forward(prior, np.zeros((20, 2))).codelength == pytest.approx(0)

    def test_longer_iterators_are_refused_when_they_get_there(self, prior, message):
        with pytest.raises(ValueError, match=message):
            forward(prior, iter([np.zeros((7, 2))] * 3))
        assert forward(prior, iter([np.zeros((10, 2))] * 2)).codelength < 1e-12

    def test_refused_block_leaves_the_pass_as_it_was(self, prior, message):
        losses = random_losses(20, 3)
        stream = ForwardPass(prior, 3)
        first = stream.extend(losses[:15])
        before = stream.weights
        stream.check_length(5)
        for refused in (
            lambda: stream.check_length(6),
            lambda: stream.extend(random_losses(6, 3, seed=1)),
        ):
            with pytest.raises(ValueError, match=message):
                refused()
        assert stream.n_steps == 15
        np.testing.assert_array_equal(stream.weights, before)
        parts = first, stream.extend(losses[15:])
        whole = forward(prior, losses)
        assert_same_bits(joined(parts), (whole.codelengths, whole.posterior))


@pytest.mark.parametrize("scale", [1, 300, [np.inf, 1, 1, 1, 1]])
def test_rates_give_the_same_bits_together_as_one_after_the_other(scale, monkeypatch):
    losses = scale * random_losses(60, 5)
    together = forward(LearnedShare(), losses)
    monkeypatch.setattr(MixtureFilter, "_advance_together", lambda *_: False)
    assert_same_bits(together, forward(LearnedShare(), losses))


@pytest.mark.parametrize("m", [None, 1, 2.5, np.float32(21.1)])
def test_rates_of_a_fixed_share_are_those_of_its_transitions(m):
    prior = FixedShare(m)
    found = redraw_rates(prior, 2, 60)
    assert_array_equal(found, [prior.transition(t).draw[0] for t in range(2, 60)])


def test_other_streams_may_be_as_long_as_they_like():
    for prior in (FixedShare(), RunLength(max_steps=5), LearnedShare()):
        ForwardPass(prior, 3).check_length(10**12)  # raises nothing
        trace = forward(prior, np.zeros((20, 3)))
        assert trace.codelength == pytest.approx(0, abs=1e-12)


class TestKeptPosterior:
    def test_grouped_posterior_is_the_sum_of_the_whole(self):
        losses, groups = random_losses(40, 5), ["b", "a", "b", "c", "a"]
        whole, grouped = (
            forward("fixed-share", losses, kinds=names) for names in (None, groups)
        )
        assert grouped.kinds == ("b", "a", "c")
        assert whole.kinds is None
        sums = [
            whole.posterior[:, np.array(groups) == name].sum(axis=1)
            for name in grouped.kinds
        ]
        np.testing.assert_allclose(grouped.posterior, np.transpose(sums), rtol=1e-14)
        np.testing.assert_array_equal(grouped.codelengths, whole.codelengths)

    @settings(max_examples=60, deadline=None)
    @given(
        groups=st.lists(
            st.one_of(st.none(), st.integers(0, 2), st.just("x")), min_size=1
        ),
        n_steps=st.integers(0, 5),
    )
    def test_groups_of_any_kind_add_up_to_one(self, groups, n_steps):
        losses = random_losses(n_steps, len(groups))
        trace = forward("fixed-share", losses, kinds=groups)
        assert trace.kinds == tuple(dict.fromkeys(groups))
        assert trace.posterior.shape == (n_steps, len(set(groups)))
        np.testing.assert_allclose(trace.posterior.sum(axis=1), 1, atol=1e-13)

    def test_experts_grouped_one_by_one_are_left_as_they_are(self):
        whole, grouped = (
            forward("fixed-share", LOSSES),
            forward("fixed-share", LOSSES, kinds="abc"),
        )
        np.testing.assert_array_equal(grouped.posterior, whole.posterior)
        assert grouped.kinds == ("a", "b", "c")

    def test_group_weights_make_groups_equal_at_the_start(self):
        groups = ["linear", "mlp", "mlp", "mlp"]
        losses = random_losses(3, 4)
        trace = forward("bayes", losses, kind_weights(groups), kinds=groups)
        np.testing.assert_allclose(trace.posterior[0], [0.5, 0.5])

    def test_wrong_number_of_groups_is_refused(self):
        with pytest.raises(ValueError, match="`kinds` must be of length 3, got 2"):
            forward("fixed-share", LOSSES, kinds=["a", "b"])

    @settings(max_examples=80, deadline=None)
    @given(
        n_steps=st.integers(0, 200),
        max_rows=st.integers(0, 210),
        borders=st.lists(st.integers(0, 200), max_size=3).map(sorted),
        groups=st.sampled_from([None, "aab"]),
    )
    def test_kept_rows_are_rows_of_the_whole(self, n_steps, max_rows, borders, groups):
        losses = random_losses(n_steps, 3)
        whole = forward("fixed-share", losses, kinds=groups)
        blocks = iter(np.split(losses, borders))
        for source in losses, blocks:
            kept = forward("fixed-share", source, kinds=groups, max_rows=max_rows)
            np.testing.assert_array_equal(kept.codelengths, whole.codelengths)
            np.testing.assert_array_equal(kept.posterior, whole.posterior[kept.steps])
            assert len(kept.steps) <= max_rows
            if max_rows:  # every 2^j-th, for the smallest j that does
                stride = next(
                    2**j for j in range(9) if math.ceil(n_steps / 2**j) <= max_rows
                )
                expected = np.arange(0, n_steps, stride)
                np.testing.assert_array_equal(kept.steps, expected)

    def test_long_streams_are_thinned_on_the_way(self):
        losses = random_losses(5000, 2)
        whole, kept = (
            forward("fixed-share", losses),
            forward("fixed-share", losses, max_rows=10),
        )
        assert kept.steps.tolist() == list(range(0, 5000, 512))
        np.testing.assert_array_equal(kept.posterior, whole.posterior[::512])

    def test_all_rows_are_kept_unless_a_number_is_given(self):
        for max_rows in (None, 6):
            steps = forward("fixed-share", LOSSES, max_rows=max_rows).steps
            assert steps.tolist() == [0, 1, 2, 3, 4, 5]
        assert forward("fixed-share", LOSSES, max_rows=5).steps.tolist() == [0, 2, 4]

    @for_each("max_rows", [-1, 2.0, "all"])
    def test_max_rows_out_of_range_is_refused(self, max_rows):
        said = "must be an integer of at least 0, .*; pass max_rows=1000, or None"
        with pytest.raises(ValueError, match=rf"^`max_rows` {said}$"):
            forward("fixed-share", LOSSES, max_rows=max_rows)


class TestSources:
    def test_generator_of_lists_will_do(self):
        blocks = (row[np.newaxis].tolist() for row in LOSSES)
        assert_same_bits(forward("fixed-share", blocks), forward("fixed-share", LOSSES))

    def test_iterator_is_read_no_further_than_it_must(self):
        def blocks():
            yield LOSSES
            yield LOSSES[:, :2]
            raise AssertionError

        with pytest.raises(ValueError, match=r"\(n_steps, 3\), got \(6, 2\)"):
            forward("fixed-share", blocks())

    def test_exhausted_iterator_is_refused(self):
        blocks = iter([LOSSES])
        forward("fixed-share", blocks)
        with pytest.raises(ValueError, match="without any; pass a new iterator"):
            forward("fixed-share", blocks)

    def test_iterator_of_empty_blocks_costs_nothing(self):
        assert forward("fixed-share", iter([np.empty((0, 3))])).codelength == 0

    @for_each(
        "dtype, prior",
        [(np.float32, "learned-share"), (np.float64, "bayes"), (">f4", "fixed-share")],
    )
    def test_memory_map_equals_the_array_bitwise(self, tmp_path, dtype, prior):
        losses = random_losses(3000, 4).astype(dtype)
        np.save(tmp_path / "losses.npy", losses)
        mapped = np.load(tmp_path / "losses.npy", mmap_mode="r")
        expected = forward(prior, losses)
        assert_same_bits(forward(prior, mapped), expected)
        assert_same_bits(ForwardPass(prior, 4).extend(mapped), expected)

    @pytest.mark.quick("bayes-False")
    @pytest.mark.parametrize(
        ("prior", "as_blocks"),
        [
            ("fixed-share", True),
            ("bayes", False),
            ("switch-distribution", True),
        ],
    )
    def test_memory_does_not_grow_with_the_file(self, tmp_path, prior, as_blocks):
        n_steps, shape = 30_000, (30_000, 200)  # 24 MB
        path = tmp_path / "losses.dat"
        losses = np.memmap(path, np.float32, "w+", shape=shape)
        losses[:, ::2] = np.arange(n_steps)[:, np.newaxis] % 3
        losses.flush()
        losses = np.memmap(path, np.float32, "r", shape=shape)
        blocks = iter(np.split(losses, 10))
        tracemalloc.start()
        try:
            trace = forward(prior, blocks if as_blocks else losses, max_rows=10)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(trace.posterior) == 8
        assert len(trace.codelengths) == n_steps
        assert peak < 12e6, peak

    def test_memory_does_not_grow_with_the_number_of_experts_either(self):
        # But for a few states: blocks of many experts have fewer steps.
        losses = np.broadcast_to(np.zeros(5000, np.float32), (1500, 5000))
        tracemalloc.start()
        try:
            forward("fixed-share", losses, max_rows=10)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 40e6, peak
