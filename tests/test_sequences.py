"""Single sequences and smoothed posteriors, against enumeration of all of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from each_case import for_each
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from switching_cases import (
    KINDS,
    PRIORS,
    THREE_EXPERTS,
    WEIGHTS,
    every_definition,
    every_kind,
    normalised,
    random_losses,
)

from sklearn_mdl import FixedShare, forward
from sklearn_mdl.switching import (
    ElementwiseMixture,
    MarkovPrior,
    Transition,
    UniversalShare,
    best_segments,
    best_sequence,
    sequence_cost,
    smoothed_posterior,
)
from sklearn_mdl.switching._viterbi import most_probable_path


def one_row(prior):
    return isinstance(prior, MarkovPrior) and len(prior.transition(9).draw) == 1


# Without hidden variables: the state is the expert.
ONE_ROW = [case for case in THREE_EXPERTS if one_row(case[0])]
SEQUENCES = np.array(list(itertools.product(range(3), repeat=5)))


def joint_tables(prior, losses, weights):
    """For each component: p(path of states, labels), an axis per step, (row, expert).

    One-hot states fed through `advance` give the rows of the dense matrices.
    """
    tables = []
    for probability, chain, w in prior.components(normalised(weights, 3)):
        table = probability * chain.initial(w)
        shape = table.shape
        table = table.ravel()
        for t, loss in enumerate(losses):
            if t:
                one_hot = np.eye(math.prod(shape)).reshape(-1, *shape)
                after = [chain.advance(state, w, t + 1) for state in one_hot]
                shape = after[0].shape
                matrix = np.array([state.ravel() for state in after])
                table = table[..., np.newaxis] * matrix
            table = table * np.tile(np.exp(-loss), shape[0])
        tables.append(table)
    return tables


def losses_of_sequences(losses):
    """Sum of the losses of every sequence of three experts over five steps."""
    return losses[np.arange(5), SEQUENCES].sum(axis=1).reshape((3,) * 5)


class TestBestSequence:
    @every_kind
    def test_joint_probability_is_the_largest_of_all_paths(self, prior):
        for weights, seed in itertools.product(WEIGHTS, range(2)):
            losses = random_losses(5, 3, seed=seed, scale=2.0)
            found = best_sequence(prior, losses, weights)
            tables = joint_tables(prior, losses, weights)
            largest = max(table.max() for table in tables)
            along = []
            for table in tables:
                for t, expert in enumerate(found.experts):
                    table = np.take(table, range(expert, table.shape[t], 3), axis=t)
                along.append(table.max())
            assert max(along) == pytest.approx(largest, rel=1e-12)

    @for_each("prior, definition", ONE_ROW)
    def test_no_sequence_is_shorter_where_nothing_is_hidden(self, prior, definition):
        for weights in WEIGHTS:
            w = normalised(weights, 3)
            losses = random_losses(5, 3, seed=3, scale=2.0)
            with np.errstate(divide="ignore"):
                shortest = (
                    losses_of_sequences(losses) - np.log(definition(w, 5))
                ).min()
            found = best_sequence(prior, losses, weights)
            assert found.codelength == pytest.approx(shortest, abs=1e-12)
            # The score that the search maximises is the codelength of what it finds.
            ((_, chain, own),) = prior.components(w)
            losses = random_losses(30, 3, seed=4, scale=2.0)
            score, experts = most_probable_path(chain, own, losses)
            cost = sequence_cost(prior, experts, 3, weights)
            loss = losses[np.arange(30), experts].sum()
            assert -score == pytest.approx(loss + cost, rel=1e-13)

    @every_kind
    def test_parts_add_up_to_a_bound_on_the_codelength(self, prior):
        losses = random_losses(60, 3, seed=1)
        found = best_sequence(prior, losses)
        loss = losses[np.arange(60), found.experts].sum()
        assert found.loss == pytest.approx(loss, rel=1e-13)
        assert found.prior_cost == sequence_cost(prior, found.experts, 3)
        assert found.codelength == found.loss + found.prior_cost
        assert found.codelength >= forward(prior, losses).codelength - 1e-9

    @every_kind
    def test_experts_that_exclude_a_label_are_left_out(self, prior):
        losses = random_losses(6, 3)
        losses[2:, 0] = losses[:3, 1] = np.inf
        found = best_sequence(prior, losses)
        assert np.isfinite(found.loss)
        assert np.isfinite(losses[np.arange(6), found.experts]).all()

    def test_impossible_label_teaches_nothing(self):
        losses = random_losses(8, 3, scale=3.0)
        losses[4] = np.inf
        found = best_sequence("fixed-share", losses)
        losses[4] = 0.0
        expected = best_sequence("fixed-share", losses)
        np.testing.assert_array_equal(found.experts, expected.experts)
        assert found.loss == np.inf

    @for_each("prior", ["fixed-share", FixedShare(redraw=False), "switch-distribution"])
    def test_long_stream_is_followed_through_its_blocks(self, prior):
        losses = np.ones((6000, 40))
        for block in range(6):
            losses[1000 * block : 1000 * (block + 1), 7 * block % 40] = 0.0
        found = best_sequence(prior, losses)
        np.testing.assert_array_equal(found.starts, 1000 * np.arange(6))
        assert found.loss == 0

    def test_long_sequences_are_added_up_to_the_end(self):
        losses = random_losses(3000, 3).astype(np.float32)
        found = best_sequence("elementwise", losses)
        np.testing.assert_array_equal(found.experts, losses.argmin(axis=1))
        expected = math.fsum(losses.min(axis=1).tolist())
        assert found.loss == pytest.approx(expected, rel=1e-13)
        assert found.prior_cost == pytest.approx(3000 * math.log(3), rel=1e-12)

    def test_nothing_to_explain(self):
        found = best_sequence("fixed-share", np.empty((0, 3)))
        assert len(found.experts) == len(found.starts) == 0
        assert found.codelength == 0


class TestBestSegments:
    @for_each("n_blocks", [1, 2, 3, 5, 9])
    def test_loss_is_the_least_of_all_sequences(self, n_blocks):
        allowed = np.count_nonzero(np.diff(SEQUENCES), axis=1) < n_blocks
        for seed in range(8):
            losses = random_losses(5, 3, seed=seed)
            found = best_segments(losses, n_blocks)
            least = losses_of_sequences(losses).ravel()[allowed].min()
            assert found.loss == pytest.approx(least, abs=1e-12)
            assert len(found.starts) <= n_blocks
            assert found.loss == pytest.approx(
                losses[range(5), found.experts].sum(), abs=1e-12
            )

    def test_one_block_is_the_best_expert_and_as_many_as_steps_the_best_of_each(self):
        losses = random_losses(300, 5)
        one, all_ = best_segments(losses, 1), best_segments(losses, 300)
        assert one.loss == pytest.approx(losses.sum(axis=0).min())
        assert all_.loss == pytest.approx(losses.min(axis=1).sum())

    def test_price_is_that_of_the_prior(self):
        losses = random_losses(40, 3, seed=2)
        for prior in KINDS:
            found = best_segments(losses, 3, prior, [0.2, 0.3, 0.5])
            cost = sequence_cost(prior, found.experts, 3, [0.2, 0.3, 0.5])
            assert found.prior_cost == cost

    def test_experts_are_left_before_they_exclude_a_label(self):
        losses = np.zeros((30, 3))
        losses[:10, 1:] = losses[10:, 0] = losses[20:, 1] = np.inf
        found = best_segments(losses, 3)
        assert found.loss == 0
        assert best_segments(losses, 2).loss == 0  # expert 2 is good from the tenth on

    def test_memory_maps_are_read_as_they_are(self, tmp_path):
        losses = random_losses(3000, 4).astype(np.float32)
        np.save(tmp_path / "losses.npy", losses)
        mapped = np.load(tmp_path / "losses.npy", mmap_mode="r")
        for read in (
            lambda x: best_segments(x, 4),
            lambda x: best_sequence("fixed-share", x),
        ):
            expected = read(losses.astype(np.float64))
            np.testing.assert_array_equal(read(mapped).experts, expected.experts)
            assert read(mapped).loss == expected.loss

    def test_number_of_blocks_out_of_range_is_refused(self):
        for n_blocks in (0, -1, 2.0, "2"):
            with pytest.raises(
                ValueError, match=r"`n_blocks` must be an integer.*; pass n_b"
            ):
                best_segments(random_losses(4, 3), n_blocks)


class TestSequenceCost:
    @every_definition
    def test_cost_is_that_of_the_definition(self, prior, definition):
        rng = np.random.default_rng(0)
        for weights in WEIGHTS:
            probabilities = definition(normalised(weights, 3), 5)
            for sequence in rng.permutation(SEQUENCES)[:12]:
                with np.errstate(divide="ignore"):
                    expected = -np.log(probabilities[tuple(sequence)])
                cost = sequence_cost(prior, sequence, 3, weights)
                assert cost == pytest.approx(expected, abs=1e-12)

    def test_cost_does_not_depend_on_how_many_experts_stay_silent(self):
        # All but two are one expert with the rest of the weight: only log w matters.
        sequence = [0] * 50 + [3] * 50
        few = sequence_cost("switch-distribution", sequence, 4, [1, 1, 1, 1])
        many = sequence_cost("switch-distribution", sequence, 4, [1, 2, 0, 1])
        assert few == pytest.approx(many, rel=1e-14)

    @for_each(
        "experts, message",
        [
            (
                [0, 3],
                "must be between 0 and 2, got 3; count experts from 0, or pass a "
                "larger n_experts",
            ),
            ([-1, 0], "must be between 0 and 2, got -1; count experts from 0, or pass"),
            ([0.0, 1.0], "vector of integers, got dtype float64"),
            ([[0, 1]], r"vector of integers, .* shape \(1, 2\)"),
        ],
    )
    def test_experts_that_there_are_not_are_refused(self, experts, message):
        with pytest.raises(ValueError, match=message):
            sequence_cost("bayes", experts, 3)


class TestSmoothedPosterior:
    @every_definition
    def test_marginals_are_those_of_enumeration(self, prior, definition):
        for weights, seed in itertools.product(WEIGHTS, range(2)):
            losses = random_losses(5, 3, seed=seed, scale=3.0)
            joint = definition(normalised(weights, 3), 5)
            joint = joint * np.exp(-losses_of_sequences(losses))
            axes = range(5)
            expected = [
                joint.sum(axis=tuple(a for a in axes if a != t)) / joint.sum()
                for t in axes
            ]
            found = smoothed_posterior(prior, losses, weights)
            np.testing.assert_allclose(found, expected, atol=1e-12)

    @every_kind
    def test_last_row_is_the_filtered_posterior(self, prior):
        # Smoothing knows the last label; a further step that teaches nothing does too,
        # but for the move into it, which is why the row before is compared.
        losses = random_losses(30, 3)
        extended = np.vstack([losses, np.zeros(3)])
        smooth = smoothed_posterior(prior, extended)
        np.testing.assert_allclose(
            smooth[-1], forward(prior, extended).posterior[-1], atol=1e-12
        )
        np.testing.assert_allclose(
            smooth[:-1], smoothed_posterior(prior, losses), atol=1e-12
        )

    @every_kind
    def test_impossible_labels_are_as_in_the_forward_pass(self, prior):
        losses = random_losses(12, 3, scale=3.0)
        losses[5] = np.inf
        losses[8:, 1] = np.inf
        found = smoothed_posterior(prior, losses)
        losses[5] = 0.0
        losses[8:, 1] = 1e5
        expected = smoothed_posterior(prior, losses)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
        # A label that is possible for no expert with weight teaches nothing either.
        losses = random_losses(8, 3, scale=3.0)
        losses[4, 1:] = np.inf
        found = smoothed_posterior(prior, losses, [0, 1, 2])
        losses[4] = 0.0
        expected = smoothed_posterior(prior, losses, [0, 1, 2])
        np.testing.assert_allclose(found, expected, atol=1e-12)

    @every_kind
    def test_checkpoints_do_not_show(self, prior, monkeypatch):
        losses = random_losses(200, 4, scale=2.0)
        expected = smoothed_posterior(prior, losses)
        for held in (1, 100):
            monkeypatch.setattr("sklearn_mdl.switching._smoothing._HELD", held)
            found = smoothed_posterior(prior, losses)
            np.testing.assert_array_equal(found, expected)

    def test_nothing_to_explain_needs_no_checkpoint(self, monkeypatch):
        monkeypatch.setattr("sklearn_mdl.switching._smoothing._HELD", 1)
        assert smoothed_posterior("fixed-share", np.empty((0, 3))).shape == (0, 3)

    def test_losses_of_single_precision_are_those_of_double(self):
        single = random_losses(30, 3, scale=20.0).astype(np.float32)
        for prior in KINDS:
            np.testing.assert_array_equal(
                smoothed_posterior(prior, single),
                smoothed_posterior(prior, single.astype(np.float64)),
            )

    def test_groups_are_sums(self):
        losses = random_losses(50, 4)
        whole = smoothed_posterior("fixed-share", losses)
        grouped = smoothed_posterior("fixed-share", losses, kinds=list("abab"))
        np.testing.assert_allclose(grouped[:, 0], whole[:, 0] + whole[:, 2])

    def test_switch_is_seen_where_it_was(self):
        losses = np.zeros((400, 2))
        losses[:200, 0] = losses[200:, 1] = 3.0
        smooth = smoothed_posterior("fixed-share", losses)
        assert (smooth[:198, 1] > 0.9).all()
        assert (smooth[202:, 0] > 0.9).all()

    def test_favourites_a_thousand_nats_apart_do_not_underflow(self):
        losses = np.zeros((6, 2))
        losses[:3, 0] = losses[3:, 1] = 1000.0
        for prior in ("fixed-share", "switch-distribution", FixedShare(alpha=1e-200)):
            smooth = smoothed_posterior(prior, losses)
            np.testing.assert_allclose(smooth[:, 1], [1, 1, 1, 0, 0, 0], atol=1e-12)

    def test_an_expert_that_only_a_late_draw_brings_back_is_not_lost(self):
        class OneDraw(MarkovPrior):
            def transition(self, t):
                return Transition(draw=np.array([float(t == 4001)]))

        losses = np.zeros((4001, 2))
        losses[:1500, 0] = losses[1500:, 1] = 1.0
        smooth = smoothed_posterior(OneDraw(), losses)
        np.testing.assert_allclose(smooth[:4000, 0], 1, atol=1e-12)

    def test_forced_alternation_keeps_its_two_sequences_apart(self):
        losses = np.zeros((3000, 2))
        losses[::2, 0] = losses[1::2, 1] = 2.0
        losses[2000:] = losses[2000:, ::-1] * 3
        smooth = smoothed_posterior(FixedShare(alpha=1, redraw=False), losses)
        first = np.arange(3000) % 2
        np.testing.assert_allclose(smooth[:, 0], 1 - first, atol=1e-12)

    def test_iterators_are_refused(self):
        cure = r"pass np\.vstack\(list\(losses\)\)$"
        given = "read more than once, got an iterator"
        with pytest.raises(TypeError, match=f"{given}; {cure}"):
            smoothed_posterior("bayes", iter([random_losses(3, 3)]))


@settings(max_examples=40, deadline=None)
@given(
    prior=st.sampled_from(PRIORS),
    losses=arrays(
        float, (7, 3), elements=st.one_of(st.floats(0, 900), st.just(np.inf))
    ),
)
def test_sequences_and_posteriors_of_any_losses_agree(prior, losses):
    codelength = forward(prior, losses).codelength
    smooth, path = smoothed_posterior(prior, losses), best_sequence(prior, losses)
    np.testing.assert_allclose(smooth.sum(axis=1), 1, atol=1e-9)
    assert smooth.min() >= 0
    assert path.codelength >= codelength - 1e-9
    assert best_segments(losses, 7).loss <= path.loss


READINGS = {
    "best_sequence": lambda prior, losses: best_sequence(prior, losses),
    "best_segments": lambda prior, losses: best_segments(losses, 2, prior),
    "smoothed_posterior": lambda prior, losses: smoothed_posterior(prior, losses),
}


@for_each("read", READINGS.values())
def test_losses_of_another_shape_are_refused(read):
    for shape in ((4,), (4, 0), (4, 3, 2)):
        with pytest.raises(ValueError, match=r"`losses` must be of shape .* got \(4,"):
            read("fixed-share", np.zeros(shape))


@for_each("prior", [*KINDS, ElementwiseMixture([2])])
def test_one_expert_explains_every_step_at_no_price(prior):
    losses = random_losses(20, 1)
    for sequence in best_sequence(prior, losses), best_segments(losses, 3, prior):
        assert sequence.experts.tolist() == [0] * 20
        assert sequence.loss == pytest.approx(losses.sum(), rel=1e-14)
        assert sequence.prior_cost == pytest.approx(0, abs=1e-13)
    np.testing.assert_allclose(smoothed_posterior(prior, losses), 1, atol=1e-13)


@for_each(
    "read",
    [
        *READINGS.values(),
        lambda prior, losses: sequence_cost(prior, [0] * len(losses), 3),
    ],
)
def test_streams_longer_than_a_prior_allows_are_refused(read):
    with pytest.raises(ValueError, match="use LearnedShare"):
        read(UniversalShare(max_steps=9), random_losses(10, 3))
    read(UniversalShare(max_steps=10), random_losses(10, 3))
