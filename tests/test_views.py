"""Views of activations: what columns hold, and which view is said to be best."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
)
from sklearn_mdl.display import ViewPosteriorDisplay
from sklearn_mdl.encoders import _views, views_of
from sklearn_mdl.model_selection import compare_views
from sklearn_mdl.model_selection._certainty import Losses, sample_of
from sklearn_mdl.readouts import view_readouts

N, L, S, H = 7, 3, 5, 4
AXES = ("example", "layer", "position", "feature")
ALL = ["first", "last", "mean", "max", 1, -2]


@pytest.fixture
def states():
    return np.random.default_rng(0).normal(size=(N, L, S, H)).astype(np.float32)


@pytest.fixture
def lengths():
    return np.array([5, 2, 3, 4, 5, 2, 3])


def by_hand(tokens, position):
    """Reduce the real tokens (n, H) of one example and layer, one by one."""
    named = {"first": tokens[0], "last": tokens[-1]}
    if position in ("mean", "max"):
        return getattr(np, position)(tokens, axis=0)
    return named[position] if position in named else tokens[position]


def expected(examples, positions):
    """Return the table of examples, a list of (L, n, H)."""
    rows = [[[by_hand(t, p) for p in positions] for t in own] for own in examples]
    return np.array(rows).reshape(len(examples), -1)


def test_views_are_vectors_of_real_tokens(states, lengths):
    examples = [own[:, :n] for own, n in zip(states, lengths, strict=True)]
    views = views_of(examples, positions=ALL)
    assert_allclose(views.X, expected(examples, ALL), rtol=1e-6)
    assert list(views.columns)[:7] == [
        *(f"layer 0|{p}" for p in ("first", "last", "mean", "max", "1", "-2")),
        "layer 1|first",
    ]
    for number, own in enumerate(views.columns.values()):
        assert own == slice(number * H, (number + 1) * H)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing_wherever_it_is(states, lengths, side):
    places = np.arange(S)[None]
    mask = places < lengths[:, None]
    padded = np.where(mask[:, None, :, None], states, np.nan)
    if side == "left":
        padded, mask = padded[:, :, ::-1], mask[:, ::-1]
    order = slice(None, None, -1 if side == "left" else 1)
    examples = [own[:, :n][:, order] for own, n in zip(states, lengths, strict=True)]
    views = views_of(padded, mask=mask.astype(int), positions=ALL)
    assert_allclose(views.X, expected(examples, ALL), rtol=1e-6)


def test_kinds_of_arrays_and_parts_of_them_give_the_same(states, tmp_path, monkeypatch):
    whole = views_of(states, layers=[-1, 0])
    assert list(whole.columns) == [
        *("layer 2|last", "layer 2|mean", "layer 0|last", "layer 0|mean")
    ]
    np.save(tmp_path / "states.npy", states)
    mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
    monkeypatch.setattr(_views, "READ_AT_ONCE", 2 * L * S * H)
    path = tmp_path / "views.npy"
    in_parts = views_of(mapped, layers=[-1, 0], path=path)
    assert isinstance(in_parts.X, np.memmap)
    assert_array_equal(np.load(path), whole.X)
    shuffled = ("position", "example", "feature", "layer")
    moved = states.transpose([AXES.index(axis) for axis in shuffled])
    assert_array_equal(views_of(moved, shuffled, layers=[-1, 0]).X, whole.X)
    tensor = torch.from_numpy(states)
    assert_array_equal(views_of(tensor, layers=[-1, 0]).X, whole.X)
    half = tensor.bfloat16()
    assert_array_equal(
        views_of(half, layers=[0]).X, views_of(half.float(), layers=[0]).X
    )


def test_a_file_of_views_is_whole_or_not_there(states, tmp_path, monkeypatch):
    monkeypatch.setattr(_views, "READ_AT_ONCE", 2 * L * S * H)
    states[-1] = np.nan  # read last
    with pytest.raises(ValueError, match="finite"):
        views_of(states, path=tmp_path / "views.npy")
    assert list(tmp_path.iterdir()) == []
    gone = tmp_path / "gone" / "views.npy"
    with pytest.raises(FileNotFoundError, match=rf"create the folder .*: '{gone}'"):
        views_of(states[:2], path=gone)


def test_axes_may_be_missing(states):
    layers = views_of(states[:, :, 0], ("example", "layer", "feature"))
    assert_array_equal(layers.X, states[:, :, 0].reshape(N, -1))
    assert list(layers.columns) == ["layer 0", "layer 1", "layer 2"]
    tokens = views_of(states[:, 0], ("example", "position", "feature"), positions="max")
    assert_array_equal(tokens.X, states[:, 0].max(1))
    assert list(tokens.columns) == ["max"]
    alone = views_of(states[:, 0, 0], ("example", "feature"))
    assert (list(alone.columns), alone.X.shape) == (["features"], (N, H))
    frame = pytest.importorskip("pandas").DataFrame(states[:, 0, 0])
    assert_array_equal(views_of(frame, ("example", "feature")).X, alone.X)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mask": np.ones((N, 2))}, "mask must be of shape"),
        ({"mask": np.full((N, S), 2)}, "mask must be"),
        (
            {"mask": np.zeros((N, S))},
            r"^Example 0 must have 1 or more tokens .* got 0; omit the example$",
        ),
        ({"positions": "cls"}, "positions must be"),
        ({"positions": []}, "positions must be"),
        ({"positions": ["last", "last"]}, "positions must be"),
        (
            {"positions": S},
            "^Example 0 must have 6 or more tokens for position 5, got 5; .*mean'$",
        ),
        ({"layers": [L]}, "layers must be None or different layers from -3 to 2"),
        ({"layers": [0, -L]}, "layers must be"),
        ({"layers": []}, "layers must be"),
        (
            {"axes": ("rows", "layers", "tokens", "features")},
            r"^axes must be distinct names among \('example', 'layer', 'position', "
            r"'feature'\), including 'example' and 'feature', got \('rows', 'layers', "
            r"'tokens', 'features'\); name each axis, as in axes=\('example', 'layer', "
            r"'position', 'feature'\)$",
        ),
        ({"axes": ("example", "layer")}, "axes must be distinct names among"),
        (
            {"axes": ("example", "feature")},
            "activations must be an array of real numbers with",
        ),
    ],
)
def test_what_does_not_fit_is_refused(states, settings, words):
    with pytest.raises(ValueError, match=words):
        views_of(states, **settings)


def test_layers_of_activations_without_layers_are_refused(states):
    axes = ("example", "position", "feature")
    with pytest.raises(ValueError, match="layers must be None if axes omit"):
        views_of(states[:, 0], axes, layers=[-1])


def test_examples_that_do_not_fit_are_named(states):
    with pytest.raises(ValueError, match="activations must be non-empty"):
        views_of([])
    with pytest.raises(
        ValueError, match="Example 1 of activations must be like the first"
    ):
        views_of([states[0], states[1, :2]])
    with pytest.raises(ValueError, match=r"must be an array of real .* complex64"):
        views_of(states.astype("c8"))
    with pytest.raises(ValueError, match="mask must be None for a list"):
        views_of(list(states), mask=np.ones((N, S)))
    states[3, 1, 2, 1] = np.inf
    with pytest.raises(ValueError, match=r"example 3, view 'layer 1\|mean'; if"):
        views_of(states, positions=["last", "mean"])


@pytest.fixture(scope="module")
def fitted():
    """Labels that the last token of layer 1 shows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    states = rng.normal(size=(80, 3, 4, 6))
    states[:, 1, -1, :3] += 2.0 * (2 * y[:, None] - 1)
    views = views_of(states, positions=["first", "last"])
    readouts = view_readouts(views.columns, "linear")
    return MDLReadoutSwitcher(readouts, random_state=0).fit(views.X, y)


def test_the_best_view_is_found(fitted):
    found = compare_views(fitted)
    assert found.best == "layer 1|last"
    assert found.layers["layer 1"] > 0.95
    assert found.positions["last"] > 0.95
    assert ", settled (probability over 0.99)" in str(found)
    assert re.search(r"^  layer 1\|last .* over 0\.99$", str(found), re.MULTILINE)
    assert "1.00" not in str(found)
    assert found.more_labels == 0
    trace = fitted.remix_by_view()
    assert_allclose(found.codelengths, trace.view_codelengths)
    # Bayes' rule over views whose codes are known.
    weights = np.exp(-found.codelengths)
    assert_allclose(found.posterior, weights / weights.sum())
    assert found.codelength == fitted.codelength_
    assert_allclose(found.gain, trace.view_codelengths.min() - fitted.codelength_)


def test_codes_of_blocks_by_example_add_up(fitted):
    trace = fitted.remix_by_view()
    assert_allclose(trace.view_losses.sum(0), trace.view_codelengths)
    assert_array_equal(trace.known, np.arange(80))


def test_alike_views_are_not_told_apart():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 8)) + (2 * y[:, None] - 1)
    readouts = view_readouts({"a|b": slice(0, 4), "c|b": slice(4, 8)}, KernelReadout())
    found = compare_views(MDLReadoutSwitcher(readouts).fit(X, y))
    assert "Another may be better: " in str(found)
    few = compare_views(MDLReadoutSwitcher(readouts).fit(X[:20], y[:20]))
    assert np.isnan(few.more_labels)
    assert str(few).count("too early to tell how many more labels would") == 1
    assert_allclose(sum(found.layers.values()), 1.0)
    assert_allclose(list(found.positions.values()), [1.0])


def test_rows_of_a_group_count_as_one():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 40)
    X = rng.normal(size=(40, 4)) + y[:, None]
    once = view_readouts({"a": slice(0, 2), "b": slice(2, 4)}, KernelReadout())
    alone = MDLReadoutSwitcher(once).fit(X, y, groups=np.arange(40))
    twice = MDLReadoutSwitcher(once).fit(
        np.repeat(X, 2, 0), np.repeat(y, 2), groups=np.repeat(np.arange(40), 2)
    )
    # A sure answer must not come of saying everything twice.
    assert len(np.unique(alone.remix_by_view().known)) == 40
    assert len(np.unique(twice.remix_by_view().known)) == 40


def test_labels_that_would_settle_a_choice_of_views_are_rows_not_groups():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 4)) + np.repeat([0.5, 0.4], 2) * (2 * y[:, None] - 1)
    readouts = view_readouts({"a": slice(0, 2), "b": slice(2, 4)}, KernelReadout())
    switcher = MDLReadoutSwitcher(readouts).fit(X, y, groups=np.arange(300) // 5)
    found, trace = compare_views(switcher), switcher.remix_by_view()
    by_group = trace.view_losses.reshape(60, 5, 2).sum(1)
    sample = sample_of([[Losses(column, np.arange(60))] for column in by_group.T])
    order = np.argsort(found.codelengths).tolist()
    n_groups = sample.more_labels(*order, found.probabilities)
    assert 0 < n_groups < np.inf
    assert found.more_labels == pytest.approx(5 * n_groups, abs=5)


def test_views_of_real_labels_are_compared():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6))
    y = X[:, 3] + 0.1 * rng.normal(size=60)
    readouts = view_readouts({"a": slice(0, 3), "b": slice(3, 6)}, "closed-form")
    switcher = MDLReadoutSwitcherRegressor(readouts, random_state=0).fit(X, y)
    found = compare_views(switcher)
    assert found.best == "b"
    assert found.codelength < found.reference_codelength
    assert "No view is informative" not in str(found)


def test_useless_views_are_said_to_be_useless():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(40, 4)), rng.integers(0, 2, 40)
    readouts = view_readouts({"a": slice(0, 2), "b": slice(2, 4)}, "linear")
    switcher = MDLReadoutSwitcher(readouts, random_state=0).fit(X, y)
    assert "No view is informative about the labels" in str(compare_views(switcher))


def test_one_view_is_refused():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    switcher = MDLReadoutSwitcher([KernelReadout()]).fit(X, y)
    with pytest.raises(ValueError, match="readouts must be on at least two views"):
        compare_views(switcher)


def test_the_display_shows_layers_by_positions(fitted):
    found = compare_views(fitted)
    display = ViewPosteriorDisplay.from_comparison(found)
    assert display.layers == ["layer 0", "layer 1", "layer 2"]
    assert display.positions == ["first", "last"]
    assert_array_equal(display.frame().to_numpy().ravel(), found.probabilities)
    at_the_end = ViewPosteriorDisplay.from_estimator(fitted, ax=plt.figure().gca())
    assert_array_equal(at_the_end.values.ravel(), fitted.view_posterior_[-1])
    display = ViewPosteriorDisplay([0.25, 0.75], ["a|x", "b|y"]).plot()
    assert np.isnan(display.values[0, 1])
    plt.close("all")


def test_the_display_of_too_few_labels_says_what_to_do():
    X, y = np.eye(4)[[0, 1, 0, 1]], np.array([0, 1, 0, 1])
    readouts = view_readouts({"a": slice(0, 2), "b": slice(2, 4)}, [KernelReadout()])
    switcher = MDLReadoutSwitcher(readouts).fit(X, y, groups=np.zeros(4))
    found = compare_views(switcher)
    assert np.isnan(found.probabilities).all()
    said = "posterior must be without NaN (too few labels), got array([nan, nan]); fit "
    said += "the switcher on more labels, or call from_estimator(switcher)"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        ViewPosteriorDisplay.from_comparison(found)
    drawn = ViewPosteriorDisplay.from_estimator(switcher).values
    assert_array_equal(drawn.ravel(), switcher.view_posterior_[-1])


@pytest.mark.parametrize(
    ("shares", "names", "words"),
    [
        ([0.5, 0.4], ["a", "b"], "probabilities that sum to one"),
        ([0.5, 0.5], ["a", "a"], "names must be unique"),
        ([1.0], ["a", "b"], "posterior"),
    ],
)
def test_displays_of_others_are_refused(shares, names, words):
    with pytest.raises(ValueError, match=words):
        ViewPosteriorDisplay(shares, names)
