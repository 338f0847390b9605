"""Displays: what is drawn is what was stored, and everything stays readable."""

import re
import sys
from itertools import combinations
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from each_case import for_each

from sklearn_mdl import CodelengthDisplay, CriticalDifferenceDisplay, PosteriorDisplay
from sklearn_mdl._core.tables import short_names
from sklearn_mdl.display import (
    CostDisplay,
    LearningCurveDisplay,
    PoolWeightsDisplay,
    RankDisplay,
    RankingHeatmapDisplay,
    RegretSplitDisplay,
    SegmentsDisplay,
    TwoAxesDisplay,
)
from sklearn_mdl.display._base import COLOURS
from sklearn_mdl.ranking import RankIntervals
from sklearn_mdl.readouts import named_readouts, readout_names

ARCHITECTURES = ["mlp 1x256", "linear", "mlp 1x256", "linear", "mlp 2x256"]
NAMES = [f"{a} lr={k}" for k, a in enumerate(ARCHITECTURES)]
N_SAMPLES, N_CLASSES = 50, 3


class Switcher:
    """Looks like a fitted MDLReadoutSwitcher."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.classes_ = np.arange(N_CLASSES)
        self.readouts_ = [SimpleNamespace(architecture=a) for a in ARCHITECTURES]
        self.readout_names_ = NAMES
        self.readout_losses_ = rng.gamma(2.0, [0.4, 0.3, 0.2, 0.5, 0.6], (N_SAMPLES, 5))
        self.posterior_ = rng.dirichlet(np.ones(5), N_SAMPLES)
        self.codelengths_ = rng.gamma(2.0, 0.2, N_SAMPLES)
        self.switching_codelengths_ = self.codelengths_
        self.retired_at_ = np.full(5, -1)


@pytest.fixture
def switcher():
    return Switcher()


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def curves():
    rng = np.random.default_rng(2)
    return {name: rng.gamma(2.0, 0.5, N_SAMPLES) for name in ("low", "high")}


def bounds(ranks, lower, upper, level=0.9):
    """Intervals of given bounds."""
    ranks, lower, upper = map(np.asarray, (ranks, lower, upper))
    return RankIntervals(ranks, lower, upper, np.full(len(ranks), np.nan), level, 0)


def rank_intervals(ranks, lower, upper, names):
    """A display of given average ranks and bounds."""
    found = bounds(ranks, lower, upper)
    return RankDisplay([ranks], names, kind="intervals", intervals=found)


def displays():
    """One display of each kind, not yet drawn."""
    return [
        CodelengthDisplay({"a": [1.0, 2.0]}),
        PosteriorDisplay([[0.5, 0.5], [0.25, 0.75]], ["a", "b"]),
        PoolWeightsDisplay([[0.5, 0.5], [0.7, -0.2]], ["a", "b"]),
        TwoAxesDisplay(
            ["a", "b"],
            [0.2, 0.3],
            [0.1, 0.6],
            {"label": 1.1, "batch": 0.7, "batch given label": 0.6},
        ),
        CostDisplay(["a", "b"], [0.5, 0.4], [1.0, 3.0]),
        CriticalDifferenceDisplay([1.2, 1.8], ["a", "b"], 0.5),
        rank_intervals([1.2, 1.8], [1.0, 1.5], [1.5, 2.0], ["a", "b"]),
        RankingHeatmapDisplay([[0.5, 0.1], [0.2, 0.3]], ["a", "b"], ["c", "d"]),
        LearningCurveDisplay({"a": [1.0, 0.5, 0.2]}, epsilon=0.3),
        RegretSplitDisplay({"a": 12.0, "b": 11.0}, 10.0, {"a": 3.0, "b": np.inf}),
        RankingHeatmapDisplay(
            [["x", "y"], ["x", "x"]], ["a", "b"], ["c", "d"], kind="preferred-readout"
        ),
        RankDisplay([[1, 2], [2, 1]], ["a", "b"]),
        RankDisplay(
            [[1, 2], [2, 1]],
            ["a", "b"],
            kind="by-size",
            sizes=[10, 100],
            n_datasets=[2, 1],
        ),
    ]


def name_of(display):
    return f"{type(display).__name__}-{getattr(display, 'kind', '')}"


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# What all displays share


@pytest.mark.parametrize("display", displays(), ids=name_of)
def test_plot_draws_on_the_axes_given(display):
    plt.close("all")
    figure, axes = plt.subplots(1, 2)
    assert display.plot(axes[1]) is display
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("display", displays(), ids=name_of)
def test_plot_makes_one_figure_where_no_axes_are_given(display):
    assert display.plot() is display
    assert plt.get_fignums() == [display.figure_.number]
    assert display.figure_.axes == [display.ax_]


@pytest.mark.parametrize("display", displays(), ids=name_of)
@pytest.mark.parametrize(
    ("module", "method"), [("matplotlib.pyplot", "plot"), ("pandas", "frame")]
)
def test_a_missing_module_is_named_with_its_extra(display, module, method, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-mdl\[plot\]"'):
        getattr(display, method)()


@pytest.mark.parametrize(
    ("draw", "attribute"),
    [
        (CodelengthDisplay.from_estimator, "readout_losses_"),
        (PosteriorDisplay.from_estimator, "posterior_"),
        (PoolWeightsDisplay.from_estimator, "pool_weights_"),
        (CriticalDifferenceDisplay.from_scorer, "average_ranks_"),
        (CostDisplay.from_scorer, "average_ranks_"),
        (RankDisplay.from_scorer, "average_ranks_"),
        (RankingHeatmapDisplay.from_scorer, "average_ranks_"),
        (CodelengthDisplay.from_scorer, "dataset_names_"),
        (LearningCurveDisplay.from_estimator, "readout_losses_"),
        (LearningCurveDisplay.from_scorer, "dataset_names_"),
        (RegretSplitDisplay.from_estimator, "readout_losses_"),
    ],
)
def test_what_is_not_fitted_is_refused(draw, attribute):
    both = draw.__self__ in (CodelengthDisplay, LearningCurveDisplay)
    cure = "pass a fitted RepresentationScorer, such as comparison.scorer"
    cure += ", or call from_estimator for a switcher" * both
    if draw.__name__ == "from_estimator":
        cure = "pass a fitted switcher, such as pipeline[-1] or search.best_estimator_"
        cure += ", or call from_scorer for a RepresentationScorer" * both
    said = f"SimpleNamespace must have the attribute '{attribute}'; {cure}"
    # A ranking and a switcher both have codelengths, of different shapes.
    for estimator in (SimpleNamespace(), SimpleNamespace(codelengths_=np.ones((2, 3)))):
        with pytest.raises(AttributeError, match=f"^{re.escape(said)}$"):
            draw(estimator)
    assert plt.get_fignums() == []


def test_segments_are_wanted_and_no_switcher():
    said = "SimpleNamespace must have the attribute 'starts'; pass "
    said += "switcher.score_segments()"
    with pytest.raises(AttributeError, match=f"^{re.escape(said)}$"):
        SegmentsDisplay(SimpleNamespace(codelengths_=np.ones(3)))


# Codelengths


def test_lines_are_cumulative_codelengths(curves):
    display = CodelengthDisplay(curves).plot()
    for name, codelengths in curves.items():
        line = display.lines_[name]
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, N_SAMPLES + 1))
        np.testing.assert_allclose(line.get_ydata(), np.cumsum(codelengths))
    assert display.ax_.get_xlabel() == "examples"
    assert display.ax_.get_ylabel() == "cumulative codelength (nats)"
    assert display.ax_.get_xscale() == "linear"


@pytest.mark.parametrize("reference", ["low", "uniform", "array"])
def test_lines_are_regrets_where_there_is_a_reference(curves, reference):
    given = np.linspace(0.5, 1.5, N_SAMPLES)
    codes = {"uniform": np.full(N_SAMPLES, np.log(N_CLASSES)), "array": given, **curves}
    display = CodelengthDisplay.from_codelengths(
        curves,
        reference=given if reference == "array" else reference,
        n_classes=N_CLASSES,
    )
    expected = np.cumsum(curves["high"]) - np.cumsum(codes[reference])
    np.testing.assert_allclose(display.lines_["high"].get_ydata(), expected)
    name = {"array": "reference"}.get(reference, reference)
    assert display.ax_.get_ylabel() == f"regret relative to {name} (nats)"


def test_a_curve_named_uniform_is_meant_before_the_uniform_code(curves):
    curves = {**curves, "uniform": np.ones(N_SAMPLES)}
    display = CodelengthDisplay.from_codelengths(
        curves, reference="uniform", n_classes=N_CLASSES
    )
    assert not display.lines_["uniform"].get_ydata().any()


def test_an_unknown_reference_is_refused(curves):
    said = "reference must be None, an array, a mapping or one of "
    said += f"{list(curves)}, got 'hihg'; pass 'high'"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        CodelengthDisplay.from_codelengths(curves, reference="hihg")


def test_the_uniform_code_needs_the_number_of_classes(curves):
    said = "n_classes must be given for reference='uniform', got None; for ten "
    said += "classes, pass n_classes=10"
    with pytest.raises(ValueError, match=f"^{said}$"):
        CodelengthDisplay.from_codelengths(curves, reference="uniform")


def test_the_references_of_strategies_include_the_best_blocks():
    losses = np.random.default_rng(0).random((20, 2))
    said = "reference must be None, an array, a mapping or one of "
    said += "['best blocks', 'best readout', 'own'], got 'best block'; "
    said += "pass 'best blocks'"
    draw = CodelengthDisplay.from_losses
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        draw(losses, {"own": "bayes"}, reference="best block")
    draw(losses, {"own": "bayes"}, reference="best blocks")


def test_a_reference_unlike_all_names_is_to_be_passed_as_an_array(curves):
    said = "reference must be None, an array, a mapping or one of "
    said += f"{list(curves)}, got 'uniformly'; pass an array"
    draw = CodelengthDisplay.from_codelengths
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        draw(curves, reference="uniformly")
    nats = next(iter(curves.values()))
    draw(curves, reference={"uniformly": nats})


def test_codelengths_of_a_retired_readout_are_to_be_filled():
    losses = np.array([0.5, np.nan])
    said = "curve 'mlp' must be without NaN, got 1 NaN among 2 numbers; pass a "
    said += "code without NaN or, for losses of a retired readout, "
    said += "np.where(np.isnan(losses), switcher.switching_codelengths_, losses)"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        CodelengthDisplay.from_codelengths({"mlp": losses})
    switcher = SimpleNamespace(switching_codelengths_=np.array([0.6, 0.7]))
    filled = np.where(np.isnan(losses), switcher.switching_codelengths_, losses)
    CodelengthDisplay.from_codelengths({"mlp": filled})


def test_a_posterior_of_any_rows_becomes_one_as_its_message_says():
    posterior = np.array([[0.5, 0.6], [-0.1, 1.0], [np.nan, 0.5], [0.0, 0.0]])
    said = "rows of posterior must be probabilities that sum to one, got sums from nan "
    said += "to nan, minimum nan; with p = np.nan_to_num(posterior).clip(1e-12), pass "
    said += "p / p.sum(1, keepdims=True)"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        PosteriorDisplay(posterior, ["a", "b"])
    p = np.nan_to_num(posterior).clip(1e-12)
    PosteriorDisplay(p / p.sum(1, keepdims=True), ["a", "b"])


def test_names_in_a_legend_below_do_not_leave_the_figure():
    figure, ax = plt.subplots(figsize=(3.5, 3.0), layout="constrained")
    names = ["all features", "2 components", "8 components"]
    CodelengthDisplay({name: np.ones(3) for name in names}).plot(ax)
    figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= 0


def test_from_estimator_draws_the_best_readout_of_each_architecture(switcher):
    display = CodelengthDisplay.from_estimator(switcher, reference=None, name="mix")
    losses = switcher.readout_losses_
    best = {"mix": switcher.codelengths_}
    best |= {NAMES[k]: losses[:, k] for k in (2, 1, 4)}
    assert list(display.lines_) == list(best)
    for name, codelengths in best.items():
        np.testing.assert_allclose(
            display.lines_[name].get_ydata(), np.cumsum(codelengths)
        )
    widths = [line.get_linewidth() for line in display.lines_.values()]
    assert widths[0] > widths[1] == widths[2] == widths[3]


@pytest.mark.parametrize("step", [1, 3, 11, 51])
def test_short_names_keep_apart_what_differs_and_nothing_else(step):
    names = readout_names(named_readouts(None, 64, 10))[::step]
    short = short_names(names)
    kinds = [re.split(r" \w+=", name)[0] for name in names]
    assert len(set(short)) == len(set(names))
    for one, full, kind in zip(short, names, kinds, strict=True):
        assert one.startswith(kind)
        assert set(one.split()) <= set(full.split())
        alike = [
            n.split() for n, other in zip(names, kinds, strict=True) if other == kind
        ]
        for word in one.removeprefix(kind).split():
            assert not all(word in words for words in alike)


def test_legends_name_what_differs_among_those_shown(switcher):
    display = CodelengthDisplay.from_estimator(switcher)
    assert sorted(legend_of(display.ax_)) == ["Switcher", *sorted(set(ARCHITECTURES))]
    assert list(display.lines_)[1] in NAMES  # in full
    display = PosteriorDisplay.from_estimator(switcher, by=None)
    linear = [name for name in legend_of(display.ax_) if name.startswith("linear")]
    assert linear == ["linear lr=3", "linear lr=1"]


def test_from_estimator_draws_all_readouts_under_their_architectures(switcher):
    display = CodelengthDisplay.from_estimator(switcher, readouts="all")
    assert list(display.lines_) == ["Switcher", *(NAMES[k] for k in (0, 2, 1, 3, 4))]
    assert sorted(legend_of(display.ax_)) == ["Switcher", *sorted(set(ARCHITECTURES))]
    colours = {
        a: {display.lines_[n].get_color() for n in NAMES if n.startswith(a)}
        for a in ARCHITECTURES
    }
    assert all(len(shared) == 1 for shared in colours.values())
    assert len(set.union(*colours.values())) == 3


def test_from_estimator_draws_no_readouts_if_asked(switcher):
    display = CodelengthDisplay.from_estimator(switcher, readouts=None)
    assert list(display.lines_) == ["Switcher"]


def test_from_estimator_keeps_curves_of_one_name_apart(switcher):
    display = CodelengthDisplay.from_estimator(switcher, name=NAMES[4])
    assert list(display.lines_)[::3] == [NAMES[4], f"{NAMES[4]} [4]"]


@pytest.mark.parametrize(
    ("reference", "name"),
    [("uniform", "uniform"), ("best", "best readout"), ("array", "reference")],
)
def test_from_estimator_compares_with(switcher, reference, name):
    given = np.linspace(0.5, 1.5, N_SAMPLES)
    code = {
        "uniform": np.full(N_SAMPLES, np.log(N_CLASSES)),
        "best": switcher.readout_losses_[:, 2],
        "array": given,
    }[reference]
    display = CodelengthDisplay.from_estimator(
        switcher, reference=given if reference == "array" else reference
    )
    np.testing.assert_allclose(
        display.lines_["Switcher"].get_ydata(), np.cumsum(switcher.codelengths_ - code)
    )
    assert display.ax_.get_ylabel() == f"regret relative to {name} (nats)"


def test_from_estimator_compares_real_labels_with_the_featureless_gaussian(switcher):
    del switcher.classes_  # a regressor has none
    code = np.random.default_rng(4).normal(1.0, 0.5, N_SAMPLES)
    switcher.reference_codelengths_ = code
    for options in ({}, {"reference": "gaussian"}):
        display = CodelengthDisplay.from_estimator(switcher, **options)
        np.testing.assert_allclose(
            display.lines_["Switcher"].get_ydata(),
            np.cumsum(switcher.codelengths_ - code),
        )
        assert display.ax_.get_ylabel() == "regret relative to Gaussian (nats)"
    said = r"one of \['auto', 'gaussian', 'best'\], got 'uniform'; pass"
    with pytest.raises(ValueError, match=said):
        CodelengthDisplay.from_estimator(switcher, reference="uniform")


@pytest.mark.parametrize("option", ["reference", "readouts"])
def test_from_estimator_refuses_unknown_options(switcher, option):
    with pytest.raises(ValueError, match=f"{option} must be .*got 'worst'"):
        CodelengthDisplay.from_estimator(switcher, **{option: "worst"})


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("max_points", [2, 30, 1000])
def test_thinned_lines_keep_first_and_last_point(log_x, max_points):
    codelengths = np.random.default_rng(3).gamma(2.0, 0.5, 12_345)
    display = CodelengthDisplay({"a": codelengths})
    display.plot(log_x=log_x, max_points=max_points)
    x, y = display.lines_["a"].get_data()
    assert max_points / 3 < len(x) <= max_points
    assert (x[0], x[-1]) == (1, 12_345)
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(y, np.cumsum(codelengths)[x - 1])
    assert display.ax_.get_xscale() == ("log" if log_x else "linear")


def test_max_points_of_one_is_refused():
    with pytest.raises(ValueError, match="at least 2, got 1"):
        CodelengthDisplay({"a": [1.0, 2.0]}).plot(max_points=1)


def test_legend_lists_lines_from_the_top():
    heights = {"b": [2.0, 2.0], "c": [1.0, 1.0], "a": [9.0, 0.0]}
    display = CodelengthDisplay(heights).plot()
    assert legend_of(display.ax_) == ["a", "b", "c"]


def test_two_displays_on_one_axes_share_legend_but_no_style(curves):
    first = CodelengthDisplay({"low": curves["low"]}).plot()
    second = CodelengthDisplay({"high": curves["high"]}).plot(first.ax_)
    assert sorted(legend_of(second.ax_)) == ["high", "low"]
    assert first.lines_["low"].get_color() != second.lines_["high"].get_color()


def test_marks_of_lines_stay_out_of_files():
    display = CodelengthDisplay({str(i): [1.0, i] for i in range(20)}).plot()
    assert all(line.get_gid() is None for line in display.lines_.values())


@pytest.mark.parametrize("max_named", [0, 2.5])
def test_how_many_are_named_is_a_number_of_lines(max_named):
    with pytest.raises(ValueError, match="max_named must be a positive integer"):
        CodelengthDisplay({"a": [1.0, 2.0]}).plot(max_named=max_named)


def test_thirty_curves_differ_in_colour_or_dashes():
    display = CodelengthDisplay({str(i): [1.0, i] for i in range(30)})
    lines = display.plot(max_named=30).lines_.values()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 30


def test_of_many_curves_those_that_are_or_end_best_are_named():
    curves = {str(i): [1.0, 1.0, 1.0 + i] for i in range(48)}
    curves["47"] = [1.0, 0.5, 99.0]  # ahead for one example, and the worst at the end
    display = CodelengthDisplay(curves).plot()
    named = [*map(str, range(11)), "47"]
    rows = legend_of(display.ax_)
    assert rows[-1] == "and 36 others"
    assert sorted(rows[:-1]) == sorted(named)
    assert rows[0] == "47"  # as they end, from the top
    styles = {
        (line.get_color(), line.get_linestyle(), line.get_linewidth())
        for name, line in display.lines_.items()
        if name not in named
    }
    assert len(styles) == 1
    assert set(display.lines_) == set(curves)


def test_curves_that_tie_lead_nowhere():
    curves = {"late": [0.5, 0.5, 9.0], "slow": [0.5, 0.5, 8.0], "best": [1.0, 1.0, 1.0]}
    display = CodelengthDisplay(curves).plot(max_named=2)
    assert legend_of(display.ax_) == ["slow", "best", "and 1 other"]


def test_the_mixture_is_named_before_its_readouts(switcher):
    losses = switcher.readout_losses_
    switcher.codelengths_ = losses.max(axis=1)  # it is best nowhere
    display = CodelengthDisplay.from_estimator(switcher, max_named=1, readouts="all")
    assert legend_of(display.ax_) == ["Switcher", "and 3 others"]
    assert len(display.lines_) == 6


def test_others_of_an_earlier_display_stand_last_and_take_no_colour():
    first = CodelengthDisplay({str(i): [1.0, i] for i in range(4)}).plot(max_named=1)
    second = CodelengthDisplay({"low": [0.0, 0.5]}).plot(first.ax_)
    assert legend_of(second.ax_) == ["0", "low", "and 3 others"]
    plain = CodelengthDisplay({"a": [1.0, 0.0], "b": [1.0, 1.0]}).plot()
    assert second.lines_["low"].get_color() == plain.lines_["b"].get_color()


def test_a_name_that_begins_with_an_underscore_stands_in_the_legend():
    display = CodelengthDisplay({"_x": [1.0, 2.0], "b": [1.0, 1.0]}).plot()
    display.ax_.plot([1, 2], [0, 0], label="mine")
    assert legend_of(display.plot(display.ax_).ax_) == [" _x", " _x", "b", "b", "mine"]


def test_a_long_name_runs_over_several_rows_of_the_legend():
    name = "mlp 1x512 " + " ".join(f"setting_{i}=0.0001" for i in range(6))
    display = CodelengthDisplay({name: [1.0, 2.0], "short": [1.0, 1.0]}).plot()
    long, short = legend_of(display.ax_)
    assert long.replace("\n", " ") == name
    assert max(map(len, long.split("\n"))) <= 48
    assert short == "short"
    assert list(display.lines_) == [name, "short"]


def test_a_code_that_breaks_is_drawn_up_to_there():
    display = CodelengthDisplay({"a": [1.0, np.inf, 1.0], "b": [1.0, 1.0, 1.0]})
    display.plot(log_x=True).figure_.canvas.draw()
    assert display.lines_["a"].get_ydata().tolist() == [1.0, np.inf, np.inf]


def test_codelength_frame_is_the_drawn_table(curves):
    display = CodelengthDisplay(curves, reference=curves["low"])
    table = display.frame()
    assert table.index.name == "examples"
    assert table.index.tolist() == list(range(1, N_SAMPLES + 1))
    display.plot()
    assert list(table.columns) == list(display.lines_)
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(table[name], line.get_ydata())


@pytest.mark.parametrize(
    ("curves", "reference", "message"),
    [
        ({}, None, "curves must be non-empty"),
        ({"a": [1.0, 2.0], "b": [1.0]}, None, r"of equal length, got \[1, 2\]"),
        ({"a": [1.0, 2.0]}, [1.0], r"of equal length, got \[1, 2\]"),
        ({"a": [[1.0]]}, None, r"curve 'a' must be of shape .* got \(1, 1\); pass one"),
        ({"a": [1.0, np.nan]}, None, "curve 'a' .* without NaN, got 1 NaN among 2"),
        ({"a": []}, None, r"curve 'a' .* got \(0,\); pass one or more numbers"),
    ],
)
def test_bad_curves_are_refused(curves, reference, message):
    with pytest.raises(ValueError, match=message):
        CodelengthDisplay(curves, reference=reference)


# Posteriors


def heights(area, x):
    """Lower and upper edge of a stacked area at x, from the corners of its polygon."""
    corners = area.get_paths()[0].vertices
    edges = corners[np.isclose(corners[:, 0], x), 1]
    return edges.min(), edges.max()


def test_areas_stack_up_to_the_posterior(switcher):
    display = PosteriorDisplay(switcher.posterior_, NAMES).plot(log_x=False)
    for t in (0, 1, 17, N_SAMPLES - 1):
        edges = np.array([heights(area, t) for area in display.areas_])
        np.testing.assert_allclose(np.diff(edges)[:, 0], switcher.posterior_[t])
        np.testing.assert_allclose(edges[1:, 0], edges[:-1, 1])
        np.testing.assert_allclose(edges[[0, -1], [0, 1]], [0.0, 1.0], atol=1e-12)
    assert display.ax_.get_ylim() == (0.0, 1.0)
    assert display.ax_.get_xlim() == (0.0, N_SAMPLES - 1)
    assert display.ax_.get_xlabel() == "examples seen"
    assert display.ax_.get_ylabel() == "posterior probability"


def test_from_estimator_adds_up_architectures(switcher):
    display = PosteriorDisplay.from_estimator(switcher)
    assert display.names == ["mlp 1x256", "linear", "mlp 2x256"]
    p = switcher.posterior_
    sums = np.stack([p[:, 0] + p[:, 2], p[:, 1] + p[:, 3], p[:, 4]], axis=1)
    np.testing.assert_allclose(display.posterior, sums)
    assert legend_of(display.ax_) == ["mlp 2x256", "linear", "mlp 1x256"]


def test_from_estimator_shows_every_readout_if_asked(switcher):
    display = PosteriorDisplay.from_estimator(switcher, by=None)
    assert display.names == NAMES
    np.testing.assert_array_equal(display.posterior, switcher.posterior_)


def test_from_estimator_refuses_other_groups(switcher):
    with pytest.raises(ValueError, match=r"'architecture', 'view', None\], got 'lr'"):
        PosteriorDisplay.from_estimator(switcher, by="lr")


def test_logarithmic_axis_starts_after_the_first_label(switcher):
    display = PosteriorDisplay(switcher.posterior_, NAMES).plot()
    assert display.ax_.get_xscale() == "log"
    np.testing.assert_allclose(display.ax_.get_xlim(), (1.0, N_SAMPLES - 1))
    low, high = heights(display.areas_[0], 1)
    np.testing.assert_allclose(high - low, switcher.posterior_[1, 0])


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_short_posteriors_are_drawn(n_samples, log_x):
    display = PosteriorDisplay(np.full((n_samples, 2), 0.5), ["a", "b"])
    display.plot(log_x=log_x).figure_.canvas.draw()
    assert [len(area.get_paths()) for area in display.areas_] == [1, 1]


@pytest.mark.parametrize("log_x", [False, True])
def test_thinned_areas_keep_the_last_point(log_x):
    posterior = np.random.default_rng(4).dirichlet(np.ones(3), 5_000)
    display = PosteriorDisplay(posterior, list("abc")).plot(log_x=log_x, max_points=100)
    x = np.unique(display.areas_[1].get_paths()[0].vertices[:, 0])
    assert len(x) <= 100
    assert (x[0], x[-1]) == (int(log_x), 4_999)
    low, high = heights(display.areas_[1], 4_999)
    np.testing.assert_allclose(high - low, posterior[-1, 1])


def test_legend_of_many_readouts_lists_those_that_rise_highest():
    peaks = np.r_[np.zeros(20), np.full(20, 0.05)]
    names = [str(i) for i in range(40)]
    display = PosteriorDisplay(np.tile(peaks, (9, 1)), names).plot()
    listed = legend_of(display.ax_)
    assert len(listed) == 24
    assert listed[:20] == names[:19:-1]
    styles = {
        (tuple(area.get_facecolor()[0]), area.get_hatch())
        for area in display.areas_[:32]
    }
    assert len(styles) == 32


def test_posterior_frame_is_the_drawn_table(switcher):
    table = PosteriorDisplay(switcher.posterior_, NAMES).frame()
    assert table.index.name == "examples seen"
    assert table.index.tolist() == list(range(N_SAMPLES))
    assert list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(), switcher.posterior_)


@pytest.mark.parametrize(
    ("posterior", "message"),
    [
        ([0.5, 0.5], r"posterior must be of shape \(n, 2\).* got \(2,\)"),
        ([[1.0]], r"posterior must be of shape \(n, 2\).* got \(1, 1\)"),
        (np.empty((0, 2)), r"posterior must be of shape \(n, 2\).* got \(0, 2\)"),
        ([[0.5, 0.6]], "sum to one, got sums from 1.1 to 1.1"),
        ([[1.5, -0.5]], "minimum -0.5; with p ="),
        ([[np.nan, 1.0]], "sum to one, got sums from nan"),
    ],
)
def test_bad_posteriors_are_refused(posterior, message):
    with pytest.raises(ValueError, match=message):
        PosteriorDisplay(posterior, ["a", "b"])


@pytest.mark.parametrize("steps", [[0], [1, 0], [3, 3]])
def test_steps_of_a_posterior_must_increase_row_by_row(steps):
    said = "steps must be 2 strictly increasing numbers, one for each row, got "
    said += f"{steps}; omit steps or, for the posterior of a trace, pass trace.steps"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        PosteriorDisplay([[0.5, 0.5], [0.9, 0.1]], ["a", "b"], steps)


# Critical differences


def test_groups_of_a_case_worked_by_hand():
    # Sorted: e 1.5, c 2.0, a 2.9, d 3.6, b 5.0. Of the runs within 1.5, {c, a} lies in
    # {e, c, a} and {b} is alone.
    display = CriticalDifferenceDisplay([2.9, 5.0, 2.0, 3.6, 1.5], list("abcde"), 1.5)
    assert display.groups() == [(4, 2, 0), (0, 3), (3, 1)]


@pytest.mark.parametrize(
    ("ranks", "groups"),
    [
        ([1.0, 2.0], []),  # a difference as large as the critical one is significant
        ([1.0, 1.75], [(0, 1)]),
        ([2.0, 2.0, 2.0], [(0, 1, 2)]),
        ([1.0, 3.5, 3.5, 2.0], [(1, 2)]),
    ],
)
def test_groups_at_the_edges(ranks, groups):
    display = CriticalDifferenceDisplay(ranks, [str(r) for r in ranks], 1.0)
    assert display.groups() == groups


@pytest.mark.parametrize("seed", range(10))
def test_groups_are_the_maximal_cliques(seed):
    rng = np.random.default_rng(seed)
    ranks = rng.integers(4, 29, 7) / 4  # quarters: ties and exact differences
    cliques = [
        set(group)
        for size in range(2, 8)
        for group in combinations(range(7), size)
        if np.ptp(ranks[list(group)]) < 1.5
    ]
    maximal = {frozenset(c) for c in cliques if not any(c < other for other in cliques)}
    groups = CriticalDifferenceDisplay(ranks, list("abcdefg"), 1.5).groups()
    assert {frozenset(group) for group in groups} == maximal
    assert len(groups) == len(maximal)


def ranking(n_encoders, length=30):
    """A display of encoders whose names are of the given length, the best one last."""
    ranks = 1 + np.linspace(0.9, 0.1, n_encoders) * (n_encoders - 1)
    names = [f"{i:02}-conv-burgess_betavae-cars3d-vtab"[:length] for i in range(99)]
    return CriticalDifferenceDisplay(ranks, names[:n_encoders], 0.3 * n_encoders)


def texts(ax):
    return {text.get_text(): text for text in ax.texts}


def test_bars_join_groups_and_scale_bar_is_the_critical_difference():
    display = ranking(8).plot()
    groups = display.groups()
    assert len(display.bars_) == len(groups) > 2
    for bar, group in zip(display.bars_, groups, strict=True):
        ends = display.average_ranks[[group[0], group[-1]]]
        np.testing.assert_array_equal(bar.get_xdata(), ends)
    scale = [line for line in display.ax_.get_lines() if line.get_marker() == "|"]
    np.testing.assert_allclose(scale[0].get_xdata(), [1.0, 1.0 + 2.4])
    assert "CD = 2.40 (alpha = 0.1)" in texts(display.ax_)


def test_bars_do_not_touch():
    display = ranking(20).plot()
    spans = [(*bar.get_xdata(), bar.get_ydata()[0]) for bar in display.bars_]
    assert len({y for *_, y in spans}) < len(spans)  # some do share a lane
    for (_, end, y), (start, _, other) in combinations(spans, 2):
        assert y != other or end < start


def test_names_hang_at_their_ranks_best_on_the_left():
    display = CriticalDifferenceDisplay([2.5, 1.25, 3.0], ["a", "b", "c"], 0.6).plot()
    shown = texts(display.ax_)
    assert {"b  1.25", "a  2.50", "3.00  c"} < set(shown)
    assert shown["b  1.25"].get_ha() == shown["a  2.50"].get_ha() == "right"
    hooks = [line for line in display.ax_.get_lines() if len(line.get_xdata()) == 3]
    hung = {line.get_xdata()[0]: line.get_ydata()[-1] for line in hooks}
    assert set(hung) == {2.5, 1.25, 3.0}
    for label, rank in [("b  1.25", 1.25), ("a  2.50", 2.5), ("3.00  c", 3.0)]:
        assert shown[label].xy[1] == hung[rank]
    assert hung[1.25] == hung[3.0] < hung[2.5]  # best and worst in the top row


@pytest.mark.parametrize("n_encoders", [2, 3, 11, 20])
def test_texts_neither_overlap_nor_leave_the_figure(n_encoders):
    display = ranking(n_encoders).plot()
    display.figure_.canvas.draw()
    ax = display.ax_
    shown = [*ax.texts, *ax.get_xticklabels()]
    boxes = [text.get_window_extent() for text in shown]
    page = display.figure_.bbox
    for box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_equal_ranks_and_a_wide_critical_difference_are_drawn():
    display = CriticalDifferenceDisplay([2.0, 2.0, 2.0], list("abc"), 7.0).plot()
    display.figure_.canvas.draw()
    assert display.bars_[0].get_marker() == "o"  # a line of no length would not show
    assert display.ax_.get_xlim()[1] > 8.0


def test_from_scorer_takes_the_ranking():
    scorer = SimpleNamespace(
        average_ranks_=np.array([2.75, 1.25, 2.0]),
        encoder_names_=["a", "b", "c"],
        dataset_names_=["x", "y", "z", "w"],
        critical_difference_=1.0,
        alpha=0.05,
    )
    ax = plt.subplots()[1]
    display = CriticalDifferenceDisplay.from_scorer(scorer, ax=ax)
    assert display.ax_ is ax
    assert display.groups() == [(1, 2), (2, 0)]
    assert "CD = 1.00 (alpha = 0.05)" in texts(ax)


def test_critical_difference_frame_is_the_drawn_table():
    display = CriticalDifferenceDisplay([2.9, 5.0, 2.0, 3.6, 1.5], list("abcde"), 1.3)
    table = display.frame()
    assert table.index.name == "encoder"
    assert table.index.tolist() == list("ecadb")
    assert table["average_rank"].tolist() == [1.5, 2.0, 2.9, 3.6, 5.0]
    assert table["groups"].tolist() == ["1", "1 2", "2 3", "3", ""]


@pytest.mark.parametrize(
    ("ranks", "critical_difference", "message"),
    [
        ([1.0, 2.0, 3.0], 1.0, r"got \[2, 3\]"),
        ([0.0, 1.0], 1.0, "average_ranks must be at least 1"),
        ([1.0, np.nan], 1.0, "without NaN"),
        ([1.0, 2.0], 0.0, "positive and finite, got 0.0"),
        ([1.0, 2.0], np.inf, "positive and finite, got inf"),
        ([1.0, 2.0], np.nan, "positive and finite, got nan"),
    ],
)
def test_bad_rankings_are_refused(ranks, critical_difference, message):
    with pytest.raises(ValueError, match=message):
        CriticalDifferenceDisplay(ranks, ["a", "b"], critical_difference)


def test_one_encoder_is_no_ranking():
    with pytest.raises(
        ValueError, match=r"ranking must be of two or more encoders, got \['a'\];"
    ):
        CriticalDifferenceDisplay([1.0], ["a"], 1.0)


# Intervals of ranks


def intervals(n_encoders):
    rng = np.random.default_rng(n_encoders)
    ranks = rng.uniform(1, n_encoders, n_encoders)
    widths = rng.uniform(0, 1, (2, n_encoders))
    names = [f"encoder_{i} $of$ {'a long ' * (i % 3)}name" for i in range(n_encoders)]
    lower = np.maximum(1, ranks - widths[0])
    return rank_intervals(ranks, lower, ranks + widths[1], names)


def inside(texts, figure):
    """Return the boxes of texts, which must lie on the page."""
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    page = figure.bbox
    for box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    return boxes


def test_intervals_are_drawn_from_the_best_rank_on():
    display = rank_intervals(
        [2.5, 1.25, 3.0], [2.0, 1.0, 2.5], [2.75, 1.5, 3.0], ["a", "_b_ $x$", "c"]
    ).plot()
    labels = display.ax_.get_yticklabels()
    assert [label.get_text() for label in labels] == ["_b_ $x$", "a", "c"]
    assert not any(label.get_parse_math() for label in labels)
    segments = display.artists_["intervals"].get_segments()
    ends = [segment[:, 0].tolist() for segment in segments]
    assert ends == [[1.0, 1.5], [2.0, 2.75], [2.5, 3.0]]
    x, y = np.concatenate([dot.get_data() for dot in display.ax_.get_lines()], axis=1)
    assert x.tolist() == [1.25, 2.5, 3.0]
    rows = [segment[0, 1] for segment in segments]
    assert rows == y.tolist() == [0, 1, 2]
    assert display.ax_.yaxis_inverted()  # the best on top
    assert "90% interval" in display.ax_.get_xlabel()


@pytest.mark.parametrize("n_encoders", [2, 3, 11, 40])
def test_names_of_intervals_neither_overlap_nor_leave_the_figure(n_encoders):
    display = intervals(n_encoders).plot()
    display.figure_.canvas.draw()
    ax = display.ax_
    boxes = inside([*ax.get_yticklabels(), ax.xaxis.label], display.figure_)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_intervals_come_from_the_statistics_of_the_ranking():
    scorer = SimpleNamespace(
        codelengths_=np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]),
        encoder_names_=["a", "b"],
        average_ranks_=np.array([1.75, 1.25]),
        rank_intervals=lambda: bounds([1.75, 1.25], [1.5, 1.0], [2.0, 1.5], 0.8),
    )
    display = RankDisplay.from_scorer(scorer, kind="intervals")
    assert "80% interval" in display.ax_.get_xlabel()
    frame = display.frame()
    assert frame.index.tolist() == ["b", "a"]
    assert frame.to_numpy().tolist() == [[1.25, 1.0, 1.5], [1.75, 1.5, 2.0]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([1, 2], [1, 2], [1, 2], ["a"]), r"shape \(n, 1\).* got \(1, 2\)"),
        (([1, 2], [1], [1, 2], ["a", "b"]), "upper for each of 2 encoders"),
        (
            ([1, 2], [1, 2], [1, 1.5], ["a", "b"]),
            "intervals must be bounds with lower <= upper",
        ),
        (
            ([1, 2], [1, np.nan], [1, 2], ["a", "b"]),
            "intervals must be bounds with lower <= upper",
        ),
        (([1, np.nan], [1, 2], [1, 2], ["a", "b"]), "ranks must be between 1 and 2"),
    ],
)
def test_bad_intervals_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        rank_intervals(*arrays)


# Savings


def test_the_map_shows_what_was_given():
    saved = [[0.5, -0.004, 2.0], [1.5, 0.25, 2.0]]
    names = ["_a", "$b$"], ["x_1", "y", "$z$"]
    display = RankingHeatmapDisplay(saved, *names).plot()
    ax = display.ax_
    shown = {text.get_position(): text.get_text() for text in ax.texts}
    assert shown == {
        **{(0, 0): "0.50", (1, 0): "0.00", (2, 0): "2.00"},
        **{(0, 1): "1.50", (1, 1): "0.25", (2, 1): "2.00"},
    }
    assert [label.get_text() for label in ax.get_yticklabels()] == names[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == names[1]
    labels = [*ax.get_yticklabels(), *ax.get_xticklabels()]
    assert not any(label.get_parse_math() for label in labels)
    np.testing.assert_array_equal(
        display.image_.get_array(), [[0, 0, 0.5], [1, 1, 0.5]]
    )
    display.plot(within_datasets=False)
    np.testing.assert_array_equal(display.image_.get_array(), saved)
    assert display.frame().to_numpy().tolist() == saved


@pytest.mark.quick("1-1", "3-3", "19-3")
@pytest.mark.parametrize("n_encoders", [1, 3, 40])
@pytest.mark.parametrize("n_datasets", [1, 3, 19])
def test_texts_of_the_map_are_apart_and_on_the_page(n_encoders, n_datasets):
    saved = np.random.default_rng(0).normal(-3.0, 1.0, (n_encoders, n_datasets))
    encoders = [f"encoder {i} of some length" for i in range(n_encoders)]
    datasets = [f"dataset {i} of some length" for i in range(n_datasets)]
    display = RankingHeatmapDisplay(saved, encoders, datasets).plot()
    display.figure_.canvas.draw()
    ax = display.ax_
    names = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label]
    boxes = inside([*ax.texts, *names], display.figure_)
    starts = sorted(boxes, key=lambda box: box.y0)
    for i, box in enumerate(starts):
        later = (b for b in starts[i + 1 :] if b.y0 < box.y1)
        assert not any(box.overlaps(other) for other in later)


def test_the_map_of_a_ranking_has_the_best_on_top():
    saved = np.array([[0.1, 0.9], [0.3, 0.2]])  # by dataset and encoder
    scorer = SimpleNamespace(
        average_ranks_=np.array([1.75, 1.25]),
        encoder_names_=["a", "b"],
        dataset_names_=["c", "d"],
        cells_=[SimpleNamespace(n_classes=2)],
        savings_per_example={"uniform": saved, "frequency": saved / 2}.__getitem__,
    )
    display = RankingHeatmapDisplay.from_scorer(scorer)
    assert display.encoders == ["b", "a"]
    assert display.values.tolist() == [[0.9, 0.2], [0.1, 0.3]]
    assert "the uniform code" in display.ax_.get_xlabel()
    display = RankingHeatmapDisplay.from_scorer(scorer, reference="frequency")
    assert display.values.tolist() == [[0.45, 0.1], [0.05, 0.15]]
    assert "label frequencies" in display.ax_.get_xlabel()
    scorer.cells_[0].n_classes = 0  # real-valued labels have no uniform code
    display = RankingHeatmapDisplay.from_scorer(scorer)
    assert "a Gaussian code without features" in display.ax_.get_xlabel()
    scorer.cells_.append(SimpleNamespace(n_classes=2))  # some labels are classes
    said = "the uniform code or, for real-valued labels, a Gaussian code without "
    assert RankingHeatmapDisplay.from_scorer(scorer).reference == f"{said}features"


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([[0.5]], r"must be of shape \(2, 1\)"),
        ([0.5, 0.6], r"must be of shape \(2, 1\)"),
        ([[0.5], [np.nan]], "values must be finite"),
    ],
)
def test_bad_savings_are_refused(saved, message):
    with pytest.raises(ValueError, match=message):
        RankingHeatmapDisplay(saved, ["a", "b"], ["c"])


@pytest.mark.parametrize("cost", ["seconds", "features"])
def test_nats_stand_against_what_they_cost(cost):
    cells = [
        SimpleNamespace(
            dataset=d, encoder=e, n_samples=10, n_features=width, seconds=width / 8
        )
        for d in "cd"
        for e, width in (("small", 8), ("large", 64), ("slow", 512))
    ]
    scorer = SimpleNamespace(
        average_ranks_=np.array([3.0, 1.0, 2.0]),
        encoder_names_=["small", "large", "slow"],
        dataset_names_=["c", "d"],
        codelengths_=np.array([[9.0, 4.0, 5.0], [5.0, 2.0, 3.0]]),
        cells_=cells,
    )
    display = CostDisplay.from_scorer(scorer, cost=cost)
    costs = np.array([64, 512, 8]) / (8 if cost == "seconds" else 1)
    assert display.frame()[cost].tolist() == costs.tolist()
    assert display.frame()["nats"].to_list() == pytest.approx([0.3, 0.4, 0.7])
    assert display.best == ["small", "large"]
    front, *points = display.ax_.get_lines()
    assert front.get_ydata().tolist() == pytest.approx([0.7, 0.3])
    assert [p.get_color() for p in points] == list(COLOURS[:3])
    assert legend_of(display.ax_) == ["large", "slow", "small"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["a"], [0.5, 0.4], [1, 2]), r"of equal length, got \[1, 2, 2\]"),
        ((["a"], [0.5], [0]), "costs must be positive"),
    ],
)
def test_bad_costs_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CostDisplay(*given)


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match=r"kind must be one of \['boxes', .*got 'pie'"):
        RankDisplay([[1.0]], ["a"], kind="pie")
    with pytest.raises(
        ValueError, match=r"kind must be one of \['savings', .*got 'pie'"
    ):
        RankingHeatmapDisplay([[1.0]], ["a"], ["b"], kind="pie")


@for_each("largest", [0.25, 0.9, 3.0, 40.0, 3e4])
def test_ticks_of_costs_are_different_numbers(largest):
    costs = np.geomspace(0.2, largest, 5).tolist()
    display = CostDisplay([*"abcde"], [0.5, 0.4, 0.3, 0.2, 0.1], costs).plot()
    display.figure_.canvas.draw()
    low, high = display.ax_.get_xlim()
    ticks = [
        t for t in display.ax_.xaxis.get_major_ticks() if low <= t.get_loc() <= high
    ]
    labels = [tick.label1.get_text() for tick in ticks]
    assert len(labels) >= 2
    assert len(set(labels)) == len(labels)
    assert not any("e-" in label for label in labels)
    plt.close("all")
