"""Displays of encoders on datasets, against the same numbers computed again."""

import csv
import re
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.datasets import load_iris, load_wine

from sklearn_mdl import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    PosteriorDisplay,
    RepresentationScorer,
)
from sklearn_mdl.display import (
    LearningCurveDisplay,
    RankDisplay,
    RankingHeatmapDisplay,
    RegretSplitDisplay,
)
from sklearn_mdl.ranking import average_ranks

DATA = Path(__file__).parent / "data"


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def read(name):
    """Encoders, datasets and the fields between them of a table of the paper."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(line for line in file if not line.startswith("#"))
    return [" ".join(row[:2]) for row in rows], head[2:], [row[2:] for row in rows]


@pytest.fixture(scope="module")
def scorer():
    tasks = {}
    for name, load in (("wine", load_wine), ("iris", load_iris)):
        X, y = load(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        tasks[name] = ({"last": X[:, -1:], "two": X[:, :2], "all": X}, y)
    readouts = [
        LinearReadout(lr=0.01),
        LinearReadout(lr=0.03),
        MLPReadout((8,), lr=0.01),
    ]
    return RepresentationScorer(MDLReadoutSwitcher(readouts), n_orders=2).fit(tasks)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# Preferred readouts

PREFERRED = "preferred-readout"
DEPTHS = ["linear", *(f"{k} hidden" for k in range(1, 8))]


@pytest.fixture(scope="module")
def paper():
    encoders, datasets, fields = read("preferred_readout")
    names = [[DEPTHS[int(k)] for k in row] for row in fields]
    return names, encoders, datasets


def test_the_map_of_the_paper_shows_its_numbers(paper):
    names, encoders, datasets = paper
    _, _, fields = read("preferred_readout")
    display = RankingHeatmapDisplay(*paper, kind=PREFERRED, readouts=DEPTHS).plot()
    shown = {text.get_position(): text.get_text() for text in display.ax_.texts}
    assert shown == {
        (j, i): field for i, row in enumerate(fields) for j, field in enumerate(row)
    }
    np.testing.assert_array_equal(
        display.image_.get_array(), np.array(fields, dtype=int)
    )
    ax = display.ax_
    assert [label.get_text() for label in ax.get_yticklabels()] == encoders
    assert [label.get_text() for label in ax.get_xticklabels()] == datasets
    assert legend_of(ax) == [f"{k}  {name}" for k, name in enumerate(DEPTHS)]
    assert display.frame().to_numpy().tolist() == names


def test_every_readout_has_a_colour_of_its_own(paper):
    display = RankingHeatmapDisplay(*paper, kind=PREFERRED, readouts=DEPTHS).plot()
    colours = display.image_.cmap(display.image_.norm(np.arange(8)))[:, :3]
    assert len(np.unique(colours, axis=0)) == 8
    handles = display.ax_.get_legend().legend_handles
    found = [handle.get_facecolor()[:3] for handle in handles]
    np.testing.assert_allclose(found, colours)


def test_readouts_are_ordered_by_their_numbers_by_default():
    names = [["mlp 10x8", "linear", "mlp 9x8", "mlp 10x8"]]
    display = RankingHeatmapDisplay(names, ["a"], list("wxyz"), kind=PREFERRED)
    assert display.readouts == ["linear", "mlp 9x8", "mlp 10x8"]


def test_a_ranking_prefers_the_largest_mean_posterior(scorer):
    display = RankingHeatmapDisplay.from_scorer(scorer, kind=PREFERRED)
    assert display.readouts == ["linear", "mlp 1x8"]
    order = np.argsort(scorer.average_ranks_, kind="stable")
    assert display.encoders == [scorer.encoder_names_[i] for i in order]
    for (i, encoder), (j, dataset) in (
        (row, column)
        for row in enumerate(display.encoders)
        for column in enumerate(display.datasets)
    ):
        shares = [
            cell.posterior.mean(axis=0)
            for cell in scorer.cells_
            if (cell.encoder, cell.dataset) == (encoder, dataset)
        ]
        best = np.mean(shares, axis=0).argmax()
        assert display.values[i, j] == display.readouts[best]


@pytest.mark.parametrize(
    ("names", "readouts", "message"),
    [
        (["x", "y"], None, r"must be of shape \(1, 2\)"),
        ([["x"]], None, r"must be of shape \(1, 2\)"),
        ([["x", "y"]], ["x"], r"add \['y'\]"),
    ],
)
def test_bad_maps_are_refused(names, readouts, message):
    with pytest.raises(ValueError, match=message):
        RankingHeatmapDisplay(
            names, ["a"], ["c", "d"], kind=PREFERRED, readouts=readouts
        )


@pytest.mark.parametrize(("n_encoders", "n_datasets"), [(1, 1), (3, 19), (40, 3)])
def test_names_beside_the_map_do_not_overlap(n_encoders, n_datasets):
    rng = np.random.default_rng(0)
    names = np.array(DEPTHS)[rng.integers(8, size=(n_encoders, n_datasets))]
    encoders = [f"encoder {i} of some length" for i in range(n_encoders)]
    datasets = [f"dataset {i} of some length" for i in range(n_datasets)]
    display = RankingHeatmapDisplay(
        names, encoders, datasets, kind=PREFERRED, readouts=DEPTHS
    )
    check_page(display.plot(), apart=True)


# Box plots of ranks


def test_boxes_are_the_quartiles_of_the_ranks_in_the_paper():
    encoders, datasets, fields = read("vtab_codelengths")
    table = np.array(fields, dtype=float).T
    display = RankDisplay.from_codelengths(table, encoders)
    ranks = np.array([rankdata(row) for row in table])
    order = np.argsort(average_ranks(table), kind="stable")
    for row, e in enumerate(order):
        q1, median, q3 = np.quantile(ranks[:, e], [0.25, 0.5, 0.75])
        box = display.artists_["boxes"][row]
        assert (box.get_x(), box.get_x() + box.get_width()) == pytest.approx((q1, q3))
        line = display.artists_["medians"].get_segments()[row]
        np.testing.assert_allclose(line, [[median, row - 0.3], [median, row + 0.3]])
        near = ranks[abs(ranks[:, e] - (q1 + q3) / 2) <= 2 * (q3 - q1), e]
        whisker = display.artists_["whiskers"].get_segments()[row]
        ends = min(near.min(), q1), max(near.max(), q3)
        np.testing.assert_allclose(whisker, [[ends[0], row], [ends[1], row]])
        x, y = display.artists_["fliers"].get_data()
        beyond = ranks[abs(ranks[:, e] - (q1 + q3) / 2) > 2 * (q3 - q1), e]
        assert sorted(x[y == row]) == sorted(beyond)
    x = np.concatenate([point.get_xdata() for point in display.artists_["means"]])
    np.testing.assert_allclose(x, np.sort(average_ranks(table)))
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [encoders[e] for e in order]
    assert f"{len(datasets)} datasets" in display.ax_.get_xlabel()


def test_boxes_of_a_ranking_have_its_average_ranks_for_means(scorer):
    table = RankDisplay.from_scorer(scorer).frame()
    for name, rank in zip(scorer.encoder_names_, scorer.average_ranks_, strict=True):
        assert table["mean"][name] == pytest.approx(rank)
    ranks = rankdata(scorer.codelengths_, axis=1)
    best = scorer.encoder_names_.index(table.index[0])
    assert table["median"].iloc[0] == pytest.approx(np.median(ranks[:, best]))


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([1, 2], r"shape \(n, 2\).* got \(2,\)"),
        ([[1, 2, 3]], r"shape \(n, 2\).* got \(1, 3\)"),
        (np.empty((0, 2)), r"shape \(n, 2\).* got \(0, 2\)"),
        ([[0, 1]], "ranks must be between 1 and 2"),
        ([[1, np.nan]], "between 1 and 2"),
    ],
)
def test_bad_ranks_are_refused(ranks, message):
    with pytest.raises(ValueError, match=message):
        RankDisplay(ranks, ["a", "b"])


def test_codelengths_without_end_have_no_boxes():
    cure = "omit datasets (rows) or encoders (columns) with NaN or inf"
    said = f"codelengths must be 2-D and finite, got [[1.0, inf]]; {cure}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        RankDisplay.from_codelengths([[1.0, np.inf]], ["a", "b"])


# Ranks against size


def by_size(sizes, ranks, names, counts=None):
    """A display of given average ranks."""
    return RankDisplay(ranks, names, kind="by-size", sizes=sizes, n_datasets=counts)


def ranks_of_prefixes(scorer, size):
    """Average ranks if every dataset that is long enough ended after so many labels."""
    ranks = []
    for dataset in scorer.dataset_names_:
        cells = [cell for cell in scorer.cells_ if cell.dataset == dataset]
        if cells[0].n_samples >= size:
            nats = [
                sum(c.codelengths[:size].sum() for c in cells if c.encoder == name)
                for name in scorer.encoder_names_
            ]
            ranks.append(rankdata(np.round(nats, 6)))
    return np.mean(ranks, axis=0), len(ranks)


def test_ranks_are_those_of_datasets_that_end_early(scorer):
    display = RankDisplay.from_scorer(scorer, kind="by-size")
    assert (display.sizes[0], display.sizes[-1]) == (10, 150)  # iris has 150
    for size, found in zip(display.sizes, display.ranks, strict=True):
        expected, _ = ranks_of_prefixes(scorer, size)
        np.testing.assert_allclose(found, expected)
    for e, name in enumerate(scorer.encoder_names_):
        x, y = display.artists_[name].get_data()
        np.testing.assert_array_equal(x, display.sizes)
        np.testing.assert_array_equal(y, display.ranks[:, e])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.yaxis_inverted()  # the best on top


def test_all_tie_before_anything_is_learned(scorer):
    display = RankDisplay.from_scorer(scorer, kind="by-size", sizes=[1, 32, 100])
    np.testing.assert_array_equal(display.ranks[:2], 2.0)
    assert np.ptp(display.ranks[2]) > 0


def test_datasets_that_are_too_short_do_not_count(scorer):
    display = RankDisplay.from_scorer(scorer, kind="by-size", sizes=[50, 150, 151, 178])
    assert display.n_datasets.tolist() == [2, 2, 1, 1]
    for size, found in zip(display.sizes, display.ranks, strict=True):
        np.testing.assert_allclose(found, ranks_of_prefixes(scorer, size)[0])
    (end,) = [text for text in display.ax_.texts if text.get_text() == "1"]
    assert 150 < end.xy[0] < 151


def test_ranks_at_the_end_are_those_of_the_ranking(scorer):
    display = RankDisplay.from_scorer(scorer, kind="by-size", sizes=[178], log_x=False)
    wine = rankdata(scorer.codelengths_[scorer.dataset_names_.index("wine")])
    np.testing.assert_array_equal(display.ranks[0], wine)
    assert display.ax_.get_xscale() == "linear"


def test_the_legend_lists_encoders_as_they_end():
    ranks = [[1.0, 2.0, 3.0], [2.5, 1.0, 2.5], [3.0, 2.0, 1.0]]
    display = by_size([10, 100, 1000], ranks, list("abc")).plot()
    assert legend_of(display.ax_) == ["c", "b", "a"]


def test_of_many_encoders_those_are_named_that_are_ever_near_the_top():
    ranks = np.empty((3, 20))
    for row in ranks:
        row[:] = np.random.default_rng(0).permutation(20) + 1
    ranks[0] = np.roll(ranks[0], 7)  # others are best at first
    names = [f"e{i}" for i in range(20)]
    display = by_size([10, 100, 1000], ranks, names).plot(max_named=5)
    *listed, others = legend_of(display.ax_)
    assert others == "others"
    best = ranks.min(axis=0)
    assert max(best[names.index(name)] for name in listed) <= np.sort(best)[4]
    ends = [ranks[-1, names.index(name)] for name in listed]
    assert ends == sorted(ends)
    greys = {
        line.get_color() for n, line in display.artists_.items() if n not in listed
    }
    assert greys == {"0.75"}
    assert len({display.artists_[name].get_color() for name in listed}) == 5
    for i, name in enumerate(names):  # they are drawn all the same
        np.testing.assert_array_equal(display.artists_[name].get_ydata(), ranks[:, i])


def test_a_legend_names_at_least_one_encoder():
    display = by_size([10], [[1, 2]], ["a", "b"])
    said = "^max_named must be a positive integer, got 0; pass max_named=12$"
    with pytest.raises(ValueError, match=said):
        display.plot(max_named=0)


@pytest.mark.parametrize("sizes", [[], [0, 5], [5, 5], [5.5], [[5]]])
def test_sizes_must_be_increasing_numbers_of_labels(scorer, sizes):
    with pytest.raises(ValueError, match="sizes must be increasing integers"):
        RankDisplay.from_scorer(scorer, kind="by-size", sizes=sizes)


def test_sizes_beyond_the_longest_dataset_are_refused(scorer):
    with pytest.raises(
        ValueError, match=r"sizes must be at most 178.* omit larger sizes"
    ):
        RankDisplay.from_scorer(scorer, kind="by-size", sizes=[10, 179])


@pytest.mark.parametrize(
    ("ranks", "counts", "message"),
    [
        ([[1, 2]], None, r"sizes must be of shape \(1,\), got \(2,\)"),
        ([[1, 2], [0, 1]], None, r"between 1 and 2, got \[0"),
        ([[1, 2], [2, 1]], [3], r"n_datasets must be of shape \(2,\)"),
    ],
)
def test_bad_ranks_by_size_are_refused(ranks, counts, message):
    with pytest.raises(ValueError, match=message):
        by_size([10, 100], ranks, ["a", "b"], counts)


# In print


def shown_ticks(axis):
    low, high = sorted(axis.get_view_interval())
    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
    return [label for t in ticks for label in (t.label1, t.label2)]


def check_page(display, *, apart=False):
    """All that is written lies on the page; names beside an axis do not overlap."""
    figure, ax = display.figure_, display.ax_
    figure.draw_without_rendering()
    legend = ax.get_legend()
    names = [shown_ticks(axis) for axis in (ax.xaxis, ax.yaxis)]
    texts = [*ax.texts, ax.xaxis.label, ax.yaxis.label, *names[0], *names[1]]
    texts += [] if legend is None else legend.get_texts()
    page = figure.bbox
    for text in texts:
        box = text.get_window_extent()
        if text.get_text() and text.get_visible():
            assert page.x0 - 1 <= box.x0 < box.x1 <= page.x1 + 1, text.get_text()
            assert page.y0 - 1 <= box.y0 < box.y1 <= page.y1 + 1, text.get_text()
    for group in names if apart else []:
        shown = [t for t in group if t.get_text() and t.get_visible()]
        boxes = [text.get_window_extent() for text in shown]
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def in_a_column():
    """Every display with what makes it wide, by name."""
    rng = np.random.default_rng(0)
    strategies = ["learned share", "elementwise mixture", "switch distribution"]
    encoders, datasets, fields = read("preferred_readout")
    names = [[DEPTHS[int(k)] for k in row] for row in fields]
    _, _, codelengths = read("vtab_codelengths")
    ranks = rankdata(np.array(codelengths, dtype=float).T, axis=1)
    curves = {name: rng.gamma(2.0, 0.2, 3000) for name in strategies}
    reference = np.ones(3000)
    return [
        CodelengthDisplay(
            curves, reference=reference, reference_name="learning from scratch"
        ),
        LearningCurveDisplay(curves, epsilon=0.1),
        PosteriorDisplay(rng.dirichlet(np.ones(5), 99), DEPTHS[:5]),
        RegretSplitDisplay(
            dict.fromkeys(strategies, 1234.5),
            1200.0,
            dict.fromkeys(strategies, 98.7),
        ),
        RankingHeatmapDisplay(
            names, encoders, datasets, kind=PREFERRED, readouts=DEPTHS
        ),
        RankDisplay(ranks, encoders),
        by_size([10, 1000], ranks[:2], encoders),
        RankDisplay(rankdata(ranks[:, :6], axis=1), encoders[:6], kind="intervals"),
        RankingHeatmapDisplay(rng.normal(size=(3, 4)), encoders[:3], datasets[:4]),
        CriticalDifferenceDisplay([1.2, 1.8], ["ours", "theirs"], 0.5),
    ]


def name_of(display):
    return f"{type(display).__name__}-{getattr(display, 'kind', '')}"


@pytest.mark.parametrize("display", in_a_column(), ids=name_of)
def test_in_a_column_of_print_nothing_leaves_the_page(display):
    ax = plt.subplots(figsize=(3.5, 4.0), layout="constrained")[1]
    check_page(display.plot(ax))


@pytest.mark.parametrize("display", in_a_column(), ids=name_of)
def test_on_a_page_of_its_own_nothing_leaves_the_page(display):
    check_page(display.plot())


@pytest.mark.parametrize("width", [3.5, 7.0])
def test_names_of_many_settings_leave_no_page(width):
    settings = "ema_step_size=1.0 label_smoothing=0.03 lr=0.01 scaling=standard"
    curves = {f"{name} {settings}": np.ones(9) for name in ("linear", "mlp 1x512")}
    ax = plt.subplots(figsize=(width, 4.0), layout="constrained")[1]
    check_page(CodelengthDisplay(curves).plot(ax))
