"""Minibatches that grow: places, replay, and the laws of every other pass."""

import math
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from sklearn_mdl import (
    IncrementalReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
)
from sklearn_mdl._core.stream.learner import Replay
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.steps import ReplayStreams, training_batches

READOUTS = [
    LinearReadout(lr=0.03, n_replay_streams=3),
    MLPReadout((6,), lr=0.01, n_replay_streams=2, scaling="whiten"),
]


def rows(n=150):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return X[order][:, 20:36], y[order] % 3


def growing(readouts=READOUTS, **options):
    defaults = {"batch_size": (2, 16), "random_state": 0}
    return MDLReadoutSwitcher(readouts, device="cpu", **(defaults | options))


@settings(deadline=None, max_examples=60)
@given(batch_size=st.integers(1, 600), first=st.integers(1, 700))
def test_parts_follow_each_other_inside_minibatches_and_never_outgrow_them(
    batch_size, first
):
    scaled = ScaledRows(
        SampleStore(1), [None], batch_size, torch.device("cpu"), first=first
    )
    first = min(first, batch_size)
    before, place = 0, 0
    for start, stop in scaled.parts(40 * batch_size):
        size = stop - start
        assert start == place
        assert start // batch_size == (stop - 1) // batch_size
        assert all(scaled.part(row) == (start, stop) for row in (start, stop - 1))
        assert size <= max(first, start / 16)
        ends_minibatch = stop % batch_size == 0
        assert ends_minibatch or size >= before or start % batch_size == 0
        before, place = size, stop
    if batch_size <= 40:  # by then they are whole
        assert scaled.part(64 * batch_size**2) == (
            64 * batch_size**2,
            64 * batch_size**2 + batch_size,
        )


def test_minibatches_that_begin_whole_are_those_without_growth():
    X, y = rows()
    one = growing(batch_size=(16, 16)).fit(X, y)
    assert_array_equal(one.codelengths_, growing(batch_size=16).fit(X, y).codelengths_)


def test_a_stream_learns_before_its_first_minibatch_is_full():
    X, y = rows(16)
    assert_array_equal(
        growing(batch_size=16).fit(X, y).readout_losses_,
        np.full((16, 2), math.log(3)),
    )
    learned = growing().fit(X, y).readout_losses_ != math.log(3)
    assert not learned[:2].any()
    assert learned[2:].all()


@pytest.mark.parametrize("recency", [0.4, 1.0, 3.0])
def test_positions_drawn_at_once_have_the_law_of_streams(recency):
    n_streams, t = 20_000, 12
    streams = ReplayStreams(n_streams, recency=recency, seed=3)
    for _ in range(t):
        streams.advance()
    marginal = np.ones(1)
    for n in range(2, 400):  # exact law of a stream, and its share of twelfths
        jump = min(1.0, recency / n)
        marginal = np.concatenate([[jump], (1 - jump) * marginal])
    edges = np.linspace(0, len(marginal), t + 1)
    limit = np.diff(
        np.interp(edges, np.arange(len(marginal) + 1), np.r_[0, marginal.cumsum()])
    )
    for place in (4, 8):
        drawn = np.bincount(streams.draw(place), minlength=t) / n_streams
        assert np.abs(drawn - limit).max() < 0.02
    assert (streams.draw(4) != streams.draw(8)).any()
    assert_array_equal(streams.draw(4), streams.draw(4))


def test_after_a_part_as_large_a_share_of_the_streams_replays():
    store = SampleStore(1)
    store.append(np.arange(160, dtype=np.float32)[:, None])
    scaled = ScaledRows(store, [None], 16, torch.device("cpu"), first=4)
    scaled.extend(160)
    streams = ReplayStreams(30)
    for start, end in scaled.parts(160):
        (x, _), replayed = training_batches(scaled, streams, start, end, Replay(30))
        assert x[0, :, 0].tolist() == list(range(start, end))
        known = [some.max() < end for some, _ in replayed]
        assert all(known)
        assert len(known) == math.ceil(30 * (end - start) / 16)


@pytest.mark.parametrize("at", [[1, 2, 16, 17, 77, 149]])
def test_any_cut_a_copy_and_a_file_give_the_same_bits(at, tmp_path):
    X, y = rows()
    whole, parts = growing().fit(X, y), growing()
    for block, labels in zip(np.split(X, at), np.split(y, at), strict=True):
        parts.partial_fit(block, labels, classes=range(3))
        parts.save(tmp_path / "a.safetensors")
        parts = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    assert_array_equal(parts.codelengths_, whole.codelengths_)
    assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))


@pytest.mark.slow
def test_wrapped_classifiers_learn_again_what_they_had_learned(tmp_path, monkeypatch):
    X, y = rows()
    wrapped = IncrementalReadout(
        SGDClassifier(loss="log_loss", random_state=0), n_replay_streams=2
    )
    options = {"readouts": [wrapped, READOUTS[0]]}
    whole = growing(**options, checkpoint=tmp_path / "whole").fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_mdl._core.stream.checkpoint.SECONDS", 0.0)
        full = OSError("full")
        patch.setattr(type(whole._run), "end", Mock(side_effect=full))
        with pytest.raises(OSError, match="full"):
            growing(**options, checkpoint=tmp_path / "cut").fit(X, y)
    again = growing(**options, checkpoint=tmp_path / "cut").fit(X, y)
    assert_array_equal(again.codelengths_, whole.codelengths_)
    later = [s.partial_fit(X[:40], y[:40]).codelengths_ for s in (whole, again)]
    assert_array_equal(*later)


def test_growth_is_where_the_readouts_are_ours():
    assert MDLReadoutSwitcher.from_preset("imagenet-scratch").batch_size == 512
    X, y = rows(40)
    mine = growing(batch_size="auto").fit(X, y)
    named = growing("nets", batch_size="auto").fit(X, y)
    assert (mine._run.rows.first, named._run.rows.first) == (32, 8)
    alone = LinearReadout(first_batch_size=4, random_state=0).fit(X, y)
    assert (alone.codelengths_[4:32] != math.log(3)).all()
