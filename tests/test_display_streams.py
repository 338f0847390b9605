"""Displays of single streams, against the same numbers computed again."""

from itertools import pairwise
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_wine

from sklearn_mdl import (
    BayesMixture,
    CodelengthDisplay,
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    PosteriorDisplay,
    RepresentationScorer,
    forward,
    frequency_codelength,
)
from sklearn_mdl.display import LearningCurveDisplay, RegretSplitDisplay
from sklearn_mdl.metrics import frequency_codelengths
from sklearn_mdl.readouts import LinearReadoutRegressor
from sklearn_mdl.switching import ElementwiseMixture

READOUTS = [LinearReadout(lr=0.01), LinearReadout(lr=0.03), MLPReadout((8,), lr=0.01)]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def switcher(wine):
    return MDLReadoutSwitcher(READOUTS, shuffle=True, random_state=0).fit(*wine)


@pytest.fixture(scope="module")
def scorer(wine):
    X, y = wine
    features = {"two": X[:, :2], "all": X}
    scorer = RepresentationScorer(MDLReadoutSwitcher(READOUTS), n_orders=2)
    return scorer.fit({"wine": (features, y), "first half": (features, y)})


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def cells(scorer, dataset, encoder):
    return [
        cell
        for cell in scorer.cells_
        if (cell.dataset, cell.encoder) == (dataset, encoder)
    ]


# Data efficiency


def test_encoders_of_a_ranking_are_means_over_its_orders(scorer):
    display = CodelengthDisplay.from_scorer(scorer, "wine", reference="two")
    first, second = (c.codelengths for c in cells(scorer, "wine", "all"))
    other = [c.codelengths for c in cells(scorer, "wine", "two")]
    regret = np.cumsum((first + second) / 2) - np.cumsum(sum(other) / 2)
    np.testing.assert_allclose(display.lines_["all"].get_ydata(), regret)
    assert not display.lines_["two"].get_ydata().any()
    assert display.ax_.get_ylabel() == "regret relative to two (nats)"


def test_the_last_point_is_what_the_ranking_says(scorer):
    display = CodelengthDisplay.from_scorer(scorer, "wine")
    for e, name in enumerate(scorer.encoder_names_):
        saved = scorer.codelengths_[0, e] - 178 * np.log(3)
        assert display.lines_[name].get_ydata()[-1] == pytest.approx(saved)


def test_a_dataset_must_be_one_of_the_ranking(scorer):
    for draw in (CodelengthDisplay.from_scorer, LearningCurveDisplay.from_scorer):
        with pytest.raises(ValueError, match=r"one of \['wine', .*got 'iris'"):
            draw(scorer, "iris")
        with pytest.raises(ValueError, match=r"one of \['wine', .*got None"):
            draw(scorer)


def test_label_frequencies_are_a_reference(switcher, wine):
    _, y = wine
    reference = {"label frequencies": frequency_codelengths(y[switcher.order_])}
    display = CodelengthDisplay.from_estimator(switcher, reference=reference)
    last = display.lines_["MDLReadoutSwitcher"].get_ydata()[-1]
    assert last == pytest.approx(switcher.codelength_ - frequency_codelength(y))
    assert display.ax_.get_ylabel() == "regret relative to label frequencies (nats)"


def test_a_code_from_elsewhere_is_a_reference_under_its_name():
    scratch = np.array([1.0, 0.9, 0.5])
    display = CodelengthDisplay.from_codelengths(
        {"frozen": [1.0, 0.5, 0.25]}, reference={"from scratch": scratch}, log_x=True
    )
    line = display.lines_["frozen"]
    np.testing.assert_allclose(line.get_ydata(), [0.0, -0.4, -0.65])
    assert display.ax_.get_ylabel() == "regret relative to from scratch (nats)"
    assert display.ax_.get_xscale() == "log"


def test_the_reference_of_real_labels_may_be_an_array_or_none():
    rng = np.random.default_rng(0)
    cell = SimpleNamespace(
        dataset="d", encoder="a", n_classes=0, codelengths=rng.random(60)
    )
    scorer = SimpleNamespace(
        average_ranks_=np.array([1.0]),
        cells_=[cell],
        dataset_names_=["d"],
        encoder_names_=["a"],
    )
    whole = np.cumsum(cell.codelengths)
    for reference, nats in [
        (np.ones(60), whole - np.arange(1, 61)),
        ("uniform", whole),
    ]:
        display = CodelengthDisplay.from_scorer(scorer, reference=reference)
        np.testing.assert_allclose(display.lines_["a"].get_ydata(), nats)


@pytest.mark.parametrize("reference", [{}, {"a": [1.0], "b": [1.0]}])
def test_two_references_are_refused(reference):
    with pytest.raises(
        ValueError, match="reference must be a mapping of one name to one code"
    ):
        CodelengthDisplay.from_codelengths({"x": [1.0]}, reference=reference)


# Switching strategies


def test_strategies_are_drawn_as_closed_forms_have_them(switcher):
    losses = switcher.readout_losses_
    mixtures = {"Bayes": BayesMixture(), "elementwise": "elementwise"}
    display = CodelengthDisplay.from_losses(losses, mixtures, reference=None)
    evidence = -logsumexp(-np.cumsum(losses, axis=0), axis=1) + np.log(3)
    each = -logsumexp(-losses, axis=1) + np.log(3)
    np.testing.assert_allclose(display.lines_["Bayes"].get_ydata(), evidence)
    np.testing.assert_allclose(
        display.lines_["elementwise"].get_ydata(), np.cumsum(each)
    )


def test_strategies_take_the_weights_of_the_readouts(switcher):
    losses, weights = switcher.readout_losses_, [0.5, 0.25, 0.25]
    display = CodelengthDisplay.from_losses(losses, weights=weights, reference=None)
    assert len(display.lines_) == 6
    expected = np.cumsum(forward(FixedShare(m=2), losses, weights).codelengths)
    found = display.lines_["fixed share, m = 2"].get_ydata()
    np.testing.assert_allclose(found, expected)


def least_of_three_blocks(losses):
    """The least loss of at most three blocks, over all their ends."""
    sums = np.vstack([np.zeros(losses.shape[1]), np.cumsum(losses, axis=0)])
    n = len(losses)
    return min(
        sums[i].min() + (sums[j] - sums[i]).min() + (sums[n] - sums[j]).min()
        for i in range(n + 1)
        for j in range(i, n + 1)
    )


@pytest.mark.parametrize("reference", ["best readout", "best blocks", "Bayes"])
def test_strategies_are_held_against(switcher, reference):
    losses = switcher.readout_losses_
    names = {"Bayes": BayesMixture(), "share": FixedShare(m=2)}
    totals = {name: forward(p, losses).codelengths.sum() for name, p in names.items()}
    against = {
        "best readout": losses.sum(axis=0).min(),
        "best blocks": least_of_three_blocks(losses),
        "Bayes": totals["Bayes"],
    }[reference]
    display = CodelengthDisplay.from_losses(losses, names, reference=reference)
    last = display.lines_["share"].get_ydata()[-1]
    assert last == pytest.approx(totals["share"] - against)
    assert display.ax_.get_ylabel() == f"regret relative to {reference} (nats)"


def test_large_regrets_may_be_spaced_logarithmically(switcher):
    display = CodelengthDisplay.from_losses(switcher.readout_losses_, symlog_y=True)
    assert display.ax_.get_yscale() == "symlog"


@pytest.mark.parametrize("draw", ["codelengths", "split"])
def test_no_strategy_is_refused(switcher, draw):
    kind = {"codelengths": CodelengthDisplay, "split": RegretSplitDisplay}[draw]
    with pytest.raises(ValueError, match="strategies must be non-empty"):
        kind.from_losses(switcher.readout_losses_, {})


# Regret, split


def test_bars_are_learning_and_switching(switcher):
    losses = switcher.readout_losses_
    display = RegretSplitDisplay.from_losses(losses)
    learning = least_of_three_blocks(losses)
    rows = display.frame()
    widths = {k: [bar.get_width() for bar in b] for k, b in display.bars_.items()}
    np.testing.assert_allclose(widths["learning"], learning)
    for row, (name, width) in enumerate(
        zip(rows.index, widths["switching"], strict=True)
    ):
        bar = display.bars_["switching"][row]
        assert bar.get_x() == pytest.approx(learning)
        assert learning + width == pytest.approx(rows["codelength"][name])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == list(rows.index)
    assert (np.diff(rows["codelength"]) >= 0).all()
    expected = forward(ElementwiseMixture(), losses).codelengths.sum()
    assert rows["codelength"]["elementwise mixture"] == pytest.approx(expected)
    assert legend_of(display.ax_) == ["learning (best 3 blocks)", "switching"]


def test_switching_costs_no_more_than_the_prior_asks(switcher):
    rows = RegretSplitDisplay.from_losses(switcher.readout_losses_).frame()
    assert (rows["switching"] <= rows["upper_bound"]).all()
    assert np.isfinite(rows["upper_bound"].drop("Bayesian mixture")).all()


def test_against_one_readout_the_bayesian_mixture_pays_at_most_log_k(switcher):
    losses = switcher.readout_losses_
    display = RegretSplitDisplay.from_losses(
        losses, {"Bayes": "bayes"}, n_blocks=1, ax=plt.subplots()[1]
    )
    (row,) = display.frame().itertuples()
    assert row.learning == pytest.approx(losses.sum(axis=0).min())
    assert row.upper_bound == pytest.approx(np.log(3))
    (text,) = display.texts_
    assert text.get_text() == f"{row.switching:+.1f} (≤ 1.1)"
    assert legend_of(display.ax_)[0] == "learning (best readout)"


def test_switching_that_is_shown_as_nothing_has_the_sign_of_a_cost():
    display = RegretSplitDisplay({"a": 99.99}, 100.0).plot(plt.subplots()[1])
    (text,) = display.texts_
    assert text.get_text() == "+0.0"


def test_a_split_takes_the_prior_weights_of_the_switcher(wine):
    switcher = MDLReadoutSwitcher(
        READOUTS, switching="bayes", readout_weights="architecture", shuffle=True
    ).fit(*wine)
    display = RegretSplitDisplay.from_estimator(switcher, {"own": "bayes"})
    assert display.codelengths[0] == pytest.approx(switcher.codelength_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"a": np.inf}, 1.0), "learning and codelengths must be finite"),
        (({"a": 2.0}, np.inf), "learning and codelengths must be finite"),
        (({"a": 2.0}, np.nan), "learning and codelengths must be finite"),
        (({}, 1.0), r"codelengths must be of shape \(n,\)"),
        (
            ({"a": 2.0}, 1.0, {"b": 1.0}),
            r"upper_bounds must be one bound for each of \['a'\]",
        ),
    ],
)
def test_bad_splits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RegretSplitDisplay(*arguments)


# Posteriors of long streams


def drawn(display):
    """Where the areas have points, and their heights there, (n_points, n_groups)."""
    x = np.unique(display.areas_[0].get_paths()[0].vertices[:, 0])
    edges = []
    for area in display.areas_:
        corners = area.get_paths()[0].vertices
        edges.append([corners[np.isclose(corners[:, 0], at, 1e-12), 1] for at in x])
    return x, np.array([[np.ptp(e) for e in row] for row in edges]).T


@pytest.mark.parametrize("log_x", [False, True])
def test_a_burst_between_two_points_is_not_lost(log_x):
    posterior = np.tile([1.0, 0.0], (10_000, 1))
    posterior[7000:7010] = [0.0, 1.0]  # the rows of even thinning would miss it
    display = PosteriorDisplay(posterior, ["a", "b"])
    display.plot(log_x=log_x, max_points=50)
    _, shares = drawn(display)
    assert shares[:, 1].max() > 0.003


def test_points_are_means_over_intervals_that_are_even_on_the_axis():
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), 1001)
    display = PosteriorDisplay(posterior, list("abc"))
    display.plot(log_x=False, max_points=12)
    x, shares = drawn(display)
    edges = [0, 1, *np.rint(np.linspace(1, 1000, 11)).astype(int)[1:], 1001]
    expected = [posterior[a:b].mean(axis=0) for a, b in pairwise(edges)]
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    centres = [(a + b - 1) / 2 for a, b in pairwise(edges)]
    np.testing.assert_allclose(x, centres)


@pytest.mark.parametrize("n_samples", [401, 5000, 12_345])
def test_areas_keep_the_mean_posterior(n_samples):
    posterior = np.random.default_rng(1).dirichlet([0.2, 0.3], n_samples)
    display = PosteriorDisplay(posterior, ["a", "b"]).plot(log_x=False)
    x, shares = drawn(display)
    assert len(x) <= 400
    # Intervals lie around their centres: their ends follow one from the other.
    lengths, end = [], -0.5
    for at in x:
        lengths.append(2 * (at - end))
        end += lengths[-1]
    assert end == pytest.approx(n_samples - 0.5)
    mean = np.average(shares, axis=0, weights=lengths)
    np.testing.assert_allclose(mean, posterior.mean(axis=0), atol=1e-9)


def test_points_on_a_logarithmic_axis_are_even_on_it():
    posterior = np.tile([0.5, 0.5], (100_000, 1))
    display = PosteriorDisplay(posterior, ["a", "b"]).plot(max_points=100)
    x, _ = drawn(display)
    late = np.diff(np.log(x[x > 1000][:-1]))
    np.testing.assert_allclose(late, late.mean(), rtol=0.03)


def test_rows_that_a_trace_left_out_weigh_with_their_neighbours():
    steps = np.r_[0, 1, 2, 3, 4, 8, 9]  # row 4 stands for the examples 4 to 7
    posterior = np.c_[[0, 0, 0, 0, 1.0, 0, 0], [1, 1, 1, 1, 0, 1.0, 1]]
    display = PosteriorDisplay(posterior, ["a", "b"], steps)
    display.plot(log_x=False, max_points=3)
    _, shares = drawn(display)
    np.testing.assert_allclose(shares[:, 0], [0, 4 / 8, 0], atol=1e-12)


def test_from_trace_draws_a_forward_pass(switcher):
    trace = forward(FixedShare(m=2), switcher.readout_losses_)
    display = PosteriorDisplay.from_trace(trace, list("abc"), log_x=False)
    _, shares = drawn(display)
    np.testing.assert_allclose(shares, trace.posterior, atol=1e-9)


def test_from_trace_takes_the_steps_of_a_cell(scorer):
    cell = scorer.cells_[0]
    display = PosteriorDisplay.from_trace(cell, cell.architectures)
    np.testing.assert_array_equal(display.steps, cell.steps)
    assert display.names == ["linear", "mlp 1x8"]


def test_posteriors_on_disk_are_added_up_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.display._posteriors._BLOCK", 7)
    posterior = np.random.default_rng(2).dirichlet(np.ones(3), 50)
    np.save(tmp_path / "posterior.npy", posterior)
    kinds = ["b", "a", "b"]
    estimator = SimpleNamespace(
        retired_at_=np.full(1, -1),
        posterior_=np.load(tmp_path / "posterior.npy", mmap_mode="r"),
        readouts_=[SimpleNamespace(architecture=kind) for kind in kinds],
    )
    display = PosteriorDisplay.from_estimator(estimator)
    assert display.names == ["b", "a"]
    expected = np.c_[posterior[:, 0] + posterior[:, 2], posterior[:, 1]]
    np.testing.assert_allclose(display.posterior, expected)


def test_two_points_are_too_few_for_a_posterior():
    display = PosteriorDisplay([[0.5, 0.5]] * 9, ["a", "b"])
    with pytest.raises(ValueError, match="max_points must be at least 3, got 2"):
        display.plot(max_points=2)


# Learning curves


def test_steps_are_as_high_as_the_mean_losses(switcher):
    display = LearningCurveDisplay.from_estimator(switcher, name="wine", log_x=False)
    x, y = display.lines_["wine"].get_data()
    assert (x[0], x[-1]) == (0, 178)
    for start, stop, height in zip(x, x[1:], y, strict=False):
        assert height == pytest.approx(switcher.codelengths_[start:stop].mean())
    assert (y[:-1] * np.diff(x)).sum() == pytest.approx(switcher.codelength_)
    assert display.lines_["wine"].get_drawstyle() == "steps-post"
    assert display.ax_.get_xlabel() == "labels observed"
    assert display.ax_.get_ylabel() == "next-step loss (nats per label)"
    assert legend_of(display.ax_) == ["wine"]
    assert display.dots_ == {}


def test_a_logarithmic_axis_begins_after_one_label(switcher):
    display = LearningCurveDisplay.from_estimator(switcher, log_y=True)
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"
    (line,) = display.lines_.values()
    assert line.get_xdata()[0] == 1


def test_what_is_read_off_stands_in_the_figure():
    early, late = np.r_[np.ones(8), np.full(92, 0.1)], np.r_[np.ones(99), 0.1]
    display = LearningCurveDisplay(
        {"early": early, "late": late}, epsilon=0.25, n_intervals=5000
    ).plot()
    assert legend_of(display.ax_) == [
        "early: 8 labels, 6 nats",
        "late: 99 labels, 74 nats",
    ]
    for name, labels in (("early", 8), ("late", 99)):
        ((x,), (y,)) = display.dots_[name].get_data()
        assert (x, y) == (labels, 0.25)
        assert display.dots_[name].get_color() == display.lines_[name].get_color()
    assert "ε = 0.25" in [text.get_text() for text in display.ax_.texts]


def test_bounds_are_marked():
    display = LearningCurveDisplay({"a": np.ones(1001)}, epsilon=0.5).plot()
    assert legend_of(display.ax_) == ["a: >1,000 labels, >500 nats"]
    assert display.dots_ == {}


def test_the_shade_under_a_curve_alone_is_the_surplus(switcher):
    display = LearningCurveDisplay.from_estimator(
        switcher, epsilon=0.2, log_x=False, name="a"
    )
    (shade,) = display.ax_.collections
    area = 0.0
    for path in shade.get_paths():
        x, y = path.vertices.T
        area += abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    _, surplus = display.readings()["a"]
    assert area == pytest.approx(surplus.value)


def test_learning_curves_of_a_ranking_are_means_over_its_orders(scorer):
    display = LearningCurveDisplay.from_scorer(scorer, "wine", epsilon=0.5)
    first, second = (c.codelengths for c in cells(scorer, "wine", "all"))
    expected = LearningCurveDisplay({"all": (first + second) / 2}).frame()
    table = display.frame()
    found = table[table["curve"] == "all"].reset_index(drop=True)
    np.testing.assert_allclose(found["loss"], expected["loss"])
    np.testing.assert_array_equal(found["start"], expected["start"])
    assert list(display.lines_) == ["all", "two"]  # the best average rank first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"curves": {}}, "curves must be non-empty"),
        ({"curves": {"a": [[[1.0]]]}}, r"shape .* got \(1, 1, 1\)"),
        ({"curves": {"a": [1.0, np.nan]}}, "finite and at least 0, got nan"),
        ({"curves": {"a": [1.0]}, "epsilon": -1.0}, "`epsilon` must be a finite loss"),
        ({"curves": {"a": [1.0]}, "n_intervals": 1}, "`n_intervals` must be"),
    ],
)
def test_bad_learning_curves_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LearningCurveDisplay(**arguments)


def test_densities_of_real_labels_are_sent_to_another_display():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    readouts = [LinearReadoutRegressor(lr=0.1)]
    switcher = MDLReadoutSwitcherRegressor(readouts, random_state=0)
    switcher.fit(X, X[:, 0] / 100)  # in these units densities are above one
    assert switcher.codelengths_.min() < 0
    words = "'MDLReadoutSwitcherRegressor' must be 0 nats .* got -.*CodelengthDisplay"
    with pytest.raises(ValueError, match=words):
        LearningCurveDisplay.from_estimator(switcher)
    CodelengthDisplay.from_estimator(switcher)


def test_a_certain_label_may_be_rounded_below_zero():
    display = LearningCurveDisplay({"a": [0.5, -1e-12, 0.0]})
    assert display.frame()["loss"].min() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("n_samples", [1, 2, 3])
@pytest.mark.parametrize("log_x", [False, True])
def test_short_learning_curves_are_drawn(n_samples, log_x):
    display = LearningCurveDisplay({"a": np.full(n_samples, 0.5)}, epsilon=0.2)
    display.plot(log_x=log_x).figure_.canvas.draw()
    assert display.ax_.get_xscale() == ("log" if log_x else "linear")
    assert len(display.ax_.lines) + len(display.ax_.collections) >= 1
