"""What a ranking says of its encoders: statistics, groups, orders, tables, the page."""

import csv
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError

import sklearn_mdl.report._tables
from sklearn_mdl import (
    CriticalDifferenceDisplay,
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RepresentationScorer,
    frequency_codelength,
    write_results,
)
from sklearn_mdl._core.tables import Table, escape_latex
from sklearn_mdl.display import RankDisplay, RankingHeatmapDisplay
from sklearn_mdl.metrics import (
    decayed_frequency_codelengths,
    frequency_codelengths,
    transition_codelengths,
)
from sklearn_mdl.model_selection import Ranking, RankStatistics
from sklearn_mdl.model_selection._certainty import Sample
from sklearn_mdl.model_selection._differences import order_spread, paired_differences
from sklearn_mdl.ranking import (
    NamedResult,
    average_ranks,
    bayesian_signed_rank,
    friedman_test,
    nemenyi_critical_difference,
    nemenyi_p_values,
    pairwise_wilcoxon,
    rank_groups,
    rank_intervals,
    win_table,
)
from sklearn_mdl.switching import FixedShare, forward

ODD = "R&D_50% {#1} $x^2$ ~\\ <b>[a]</b> | \"q\" 'é'"
ENCODERS = ("wide", ODD, "narrow")
GROUPS = {"first & last": ["d 0", "d 3"], "middle": ["d 1", "d 2"], "one": ["d 1"]}


def fit(n_datasets=4, encoders=ENCODERS, **options):
    data = {}
    for d in range(n_datasets):
        X, y = make_blobs(40, 3, centers=2 + d % 2, random_state=d, cluster_std=3)
        features = {name: X[:, : 3 - e] for e, name in enumerate(encoders)}
        data[f"d {d}"] = features, y
    readouts = [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]
    return RepresentationScorer(MDLReadoutSwitcher(readouts), **options).fit(data), data


@pytest.fixture(scope="module")
def study():
    return fit(n_orders=3, dataset_groups=GROUPS)


@pytest.fixture(scope="module")
def scorer(study):
    return study[0]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


# Statistics


def same(one, other):
    for name, value in vars(other).items():
        if name not in ("encoder_names", "dataset_names"):
            assert_array_equal(getattr(one, name), value)


def test_statistics_are_those_of_the_mean_codelengths(scorer):
    table = scorer.order_codelengths_.mean(-1)
    assert_array_equal(scorer.codelengths_, table)
    assert_array_equal(scorer.average_ranks_, average_ranks(table))
    same(scorer.friedman_test(), friedman_test(table))
    same(scorer.rank_intervals(), rank_intervals(table, level=0.9))
    wider = scorer.rank_intervals(level=0.5, n_resamples=10, random_state=1)
    same(wider, rank_intervals(table, level=0.5, n_resamples=10, random_state=1))
    same(scorer.pairwise_wilcoxon(), pairwise_wilcoxon(table))
    same(scorer.pairwise_wilcoxon(top_k=2), pairwise_wilcoxon(table, top_k=2))
    same(scorer.win_table(rope=0.01), win_table(table, rope=0.01))
    same(
        scorer.bayesian_signed_rank(rope=0.1, n_draws=100),
        bayesian_signed_rank(table, rope=0.1, n_draws=100),
    )
    ranks = scorer.average_ranks_
    p_values = nemenyi_p_values(ranks[:, None] - ranks, 3, 4)
    assert_array_equal(scorer.nemenyi_p_values(), p_values)
    threshold = nemenyi_critical_difference(3, 4, 0.1)
    assert scorer.rank_groups() == rank_groups(ranks, threshold)


@pytest.mark.parametrize(
    "method", ["pairwise_wilcoxon", "bayesian_signed_rank", "paired_differences"]
)
def test_pairs_go_by_name(scorer, method):
    found = getattr(scorer, method)([("narrow", "wide")])
    assert found.pairs.tolist() == [[2, 0]]
    names = scorer.encoder_names_
    repeated = [("wide", "wide")], [("narrow", "wide"), ("wide", "narrow")]
    others = ["narrow", "wide"], [("wide",)], [0, 1], [(0, 1)], []
    for pairs in ([("narrow", "big")], *repeated, *others):
        said = f"pairs must be different pairs of two names in {names}, got {pairs}; "
        said += f"pass pairs=[{tuple(names[:2])}]"
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            getattr(scorer, method)(pairs)


def test_one_encoder_has_no_pairs():
    said = "pairs must be different pairs of two names in ['wide'], got "
    said += "[('wide', 'wide')]; rank at least two encoders"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        fit(encoders=["wide"])[0].pairwise_wilcoxon([("wide", "wide")])


@pytest.mark.parametrize(
    "method",
    [
        *("friedman_test", "rank_groups", "nemenyi_p_values", "rank_intervals"),
        *("pairwise_wilcoxon", "bayesian_signed_rank", "win_table", "order_spread"),
        *("paired_differences", "preferred_readouts", "savings_per_example"),
        *("to_frame", "to_latex", "summary"),
    ],
)
def test_statistics_need_a_fit(method):
    with pytest.raises(NotFittedError):
        getattr(RepresentationScorer(), method)()


def test_one_dataset_or_encoder_is_refused_by_what_cannot_do_with_it():
    one_dataset, _ = fit(1)
    one_encoder, _ = fit(2, ["alone"])
    for scorer in (one_dataset, one_encoder):
        for method in ("friedman_test", "rank_intervals"):
            with pytest.raises(ValueError, match="at least 2 datasets and 2 encoders"):
                getattr(scorer, method)()
        assert "nan" not in scorer.summary()
        assert "Friedman" not in scorer.summary()
    with pytest.raises(ValueError, match="Pairs need at least 2 encoders to compare"):
        one_encoder.pairwise_wilcoxon()
    with pytest.raises(
        ValueError, match="number of orders must be at least 2, got 1; "
    ):
        one_dataset.order_spread()
    assert one_encoder.rank_groups() == []


# Orders


def test_the_spread_over_orders_is_that_of_each_cell(scorer):
    spread = scorer.order_spread()
    for d in range(4):
        for e in range(3):
            totals = scorer.order_codelengths_[d, e]
            assert spread.mean[d, e] == pytest.approx(totals.mean())
            assert spread.std[d, e] == pytest.approx(stats.tstd(totals))
            relative = stats.variation(totals, ddof=1)
            assert spread.relative[d, e] == pytest.approx(relative)


def sample(table, contrasts):
    """Codelengths (n_encoders, n_orders) with differences of blocks of rows."""
    mean = table.mean(1)
    return Sample(mean, contrasts[None], (table - mean[:, None]).T, mean, 100)


def pairs_of(n):
    return np.stack(np.triu_indices(n, k=1), axis=1)


def test_without_rows_intervals_are_those_of_the_paired_t_test():
    tables = np.random.default_rng(0).gamma(9.0, size=(5, 4, 6))
    samples = [sample(table, np.zeros((9, 4))) for table in tables]
    found = paired_differences(samples, pairs_of(4), 0.8)
    for k, (i, j) in enumerate(found.pairs):
        for d, table in enumerate(tables):
            test = stats.ttest_rel(table[i], table[j])
            interval = test.confidence_interval(0.8)
            assert_allclose(
                [found.lower[k, d], found.upper[k, d]], [interval.low, interval.high]
            )
            assert_allclose(found.mean[k, d], (table[i] - table[j]).mean())
            assert_allclose(found.std[k, d], np.std(table[i] - table[j], ddof=1))


def test_intervals_of_rows_and_orders_are_those_of_welch():
    rng = np.random.default_rng(0)
    rows, table = rng.normal(size=(7, 2)), rng.normal(size=(2, 4))
    found = paired_differences([sample(table, rows)], pairs_of(2), 0.9)
    # As if a mean of seven squares and that of four orders were two samples.
    squares, orders = (rows[:, 0] - rows[:, 1]) ** 2, table[0] - table[1]
    parts = squares.sum(), orders.var(ddof=1) / 4
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 7 + parts[1] ** 2 / 3)
    assert found.error.item() == pytest.approx(np.sqrt(sum(parts)))
    low, high = stats.t(freedom, orders.mean(), found.error.item()).interval(0.9)
    assert_allclose([found.lower.item(), found.upper.item()], [low, high])


def test_what_orders_do_to_both_cancels():
    shared = np.random.default_rng(0).normal(100, 10, size=8)
    table = np.stack([shared, shared + 1])
    found = paired_differences([sample(table, np.ones((5, 2)))], pairs_of(2), 0.9)
    assert order_spread(table[None]).std.min() > 1
    assert_allclose([found.std, found.error], 0, atol=1e-10)
    assert_allclose([found.lower, found.mean, found.upper], -1)


@pytest.mark.parametrize("n_orders", [1, 4])
def test_intervals_hold_the_true_difference_as_often_as_they_say(n_orders):
    rng = np.random.default_rng(0)
    samples = [
        sample(
            rng.normal(100, 5, size=(2, n_orders)) + rng.normal(0, 4, size=(2, 1)),
            rng.normal(0, np.sqrt((16 + 25 * (n_orders == 1)) / 20), size=(20, 2)),
        )
        for _ in range(2000)
    ]
    found = paired_differences(samples, pairs_of(2), 0.9)
    covered = ((found.lower < 0) & (found.upper > 0)).mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / 2000)


def test_one_order_has_differences_and_no_spread():
    scorer, _ = fit(1)
    found = scorer.paired_differences()
    assert np.isnan(found.std).all()
    assert (found.error > 0).all()
    for table in (np.ones((2, 2, 1)), np.ones((2, 2))):
        with pytest.raises(
            ValueError, match="number of orders must be at least 2, got 1; "
        ):
            order_spread(table)


def test_an_extrapolation_names_the_dataset_that_it_cannot_take(scorer):
    few = [replace(cell, n_samples=39) for cell in scorer.cells_]
    n = scorer.cells_[0].n_samples
    one = [replace(cell, groups=np.zeros(cell.n_samples)) for cell in scorer.cells_]
    text = "extrapolate needs 40 labels, not all of one group, and no loss below 0, "
    for cells, n_labels in ((few, 39), (one, n)):
        rest = rf"but 'd 0' has {n_labels} labels and a loss of [\d.e-]+; add "
        with pytest.raises(ValueError, match=f"^{text}{rest}rows$"):
            Ranking(cells).extrapolate(1000)


# Named results


@pytest.mark.parametrize("kind", NamedResult.__subclasses__(), ids=lambda k: k.__name__)
def test_results_have_names_and_print_as_tables(kind, scorer, monkeypatch):
    methods = [
        name
        for name, method in vars(RankStatistics).items()
        if get_annotation(method).rpartition(".")[2] == kind.__name__
    ]
    labels = [80] if kind.__name__ == "Extrapolations" else []
    found = getattr(scorer, *methods)(*labels)
    assert type(found) is kind
    frame = found.to_frame()
    names = {"encoder": ENCODERS, "first": ENCODERS, "second": ENCODERS}
    names["dataset"] = scorer.dataset_names_
    named = [column for column in frame if column in names]
    assert named
    assert all(set(frame[column]) <= set(names[column]) for column in named)
    head, *rows = repr(found).splitlines()[1:]
    assert head.split() == list(frame)
    shown = frame.iloc[: len(rows)]
    assert len(shown) == min(len(frame), 20) or f"20 of {len(frame)}" in rows[-1]
    assert all(str(x) in row for x, row in zip(shown[named[-1]], rows, strict=False))
    without = replace(found, encoder_names=(), dataset_names=())
    assert 0 in set(without.to_frame()[named[0]])
    uneven = {"_columns": lambda _: {"a": [1, 2], "b": [3]}}
    with pytest.raises(ValueError, match="zip"):
        repr(type(kind.__name__, (kind,), uneven)(**vars(found)))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-mdl\[plot\]"'):
        found.to_frame()


def get_annotation(method):
    return getattr(method, "__annotations__", {}).get("return", "")


# Groups


def test_groups_are_rankings_of_their_datasets(scorer, study):
    assert list(scorer.dataset_groups_) == list(GROUPS)
    for name, members in GROUPS.items():
        group = scorer.dataset_groups_[name]
        assert isinstance(group, Ranking)
        assert group.dataset_names_ == members
        alone = RepresentationScorer(scorer.switcher, n_orders=3).fit(
            {member: study[1][member] for member in members}
        )
        assert_array_equal(group.order_codelengths_, alone.order_codelengths_)
        assert_array_equal(group.average_ranks_, alone.average_ranks_)
        assert group.critical_difference_ == alone.critical_difference_
        assert group.summary() == alone.summary().rpartition("\n\n")[0]  # settings
        assert group.to_latex("codelengths") == alone.to_latex("codelengths")
        assert group.preferred_readouts() == alone.preferred_readouts()
        assert [c.codelength for c in group.cells_] == [
            c.codelength for c in alone.cells_
        ]


@pytest.mark.parametrize("kind", [tuple, set, frozenset, dict.fromkeys, np.array])
def test_any_collection_of_datasets_is_a_group(kind):
    scorer, _ = fit(3, n_orders=1, dataset_groups={"two": kind(["d 0", "d 2"])})
    assert scorer.dataset_groups_["two"].dataset_names_ == ["d 0", "d 2"]


def test_displays_take_a_group(scorer):
    group = scorer.dataset_groups_["middle"]
    for display, options in (
        (CriticalDifferenceDisplay, {}),
        (RankDisplay, {}),
        (RankDisplay, {"kind": "intervals"}),
        (RankingHeatmapDisplay, {}),
    ):
        drawn = display.from_scorer(group, **options)
        texts = [text.get_text() for text in drawn.ax_.get_yticklabels()]
        texts += [text.get_text() for text in drawn.ax_.texts]
        assert any(name in text for text in texts for name in group.encoder_names_)


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"g": ["d 9"]}, ValueError, r"in \['d 0', 'd 1'\], but 'g' holds 'd 9'"),
        ({"g": "d 0"}, TypeError, r"group 'g' is 'd 0'; write {'g': \['d 0'\]}"),
        ({"g": None}, TypeError, "group 'g' is None"),
    ],
)
def test_groups_that_are_none_are_refused(groups, error, message):
    with pytest.raises(error, match=message):
        fit(2, dataset_groups=groups)


# What is saved, and by which readouts


def blind_code(labels):
    codes = [frequency_codelengths, decayed_frequency_codelengths]
    losses = [code(labels) for code in [*codes, transition_codelengths]]
    return forward(FixedShare(), np.stack(losses, 1)).codelengths.sum()


@pytest.mark.parametrize("reference", ["uniform", "frequency", "labels"])
def test_savings_are_measured_against_a_code_without_features(study, reference):
    scorer, data = study
    saved = scorer.savings_per_example(reference)
    for d, (_, y) in enumerate(data.values()):
        code = frequency_codelength(y)
        if reference == "uniform":
            code = len(y) * np.log(len(set(y)))
        if reference == "labels":
            rngs = [np.random.default_rng([0, order]) for order in range(3)]
            orders = [y[rng.permutation(len(y))] for rng in rngs]
            code = np.mean([blind_code(labels) for labels in orders])
        assert_allclose(saved[d], (code - scorer.codelengths_[d]) / len(y))
    with pytest.raises(ValueError, match=r"'labels'\], got 'best'"):
        scorer.savings_per_example("best")


def test_preferred_readouts_have_the_largest_mean_posterior(scorer):
    for d, row in enumerate(scorer.preferred_readouts()):
        for e, name in enumerate(row):
            cells = scorer.cells_[(d * 3 + e) * 3 :][:3]
            mean = np.mean([cell.posterior.mean(0) for cell in cells], axis=0)
            assert name == cells[0].architectures[int(mean.argmax())]


# LaTeX


def read_latex(text):
    """Return the cells of a tabular, with names as they were before escaping."""
    lines = text.splitlines()
    assert lines[0].startswith(r"\begin{tabular}{")
    assert lines[1] == r"\toprule"
    assert lines[3] == r"\midrule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    rows = [lines[2], *lines[4:-2]]
    assert all(row.endswith(r" \\") for row in rows)
    cells = [re.split(r"(?<!\\)&", row[:-3]) for row in rows]
    widths = {len(row) for row in cells}
    assert widths == {len(re.findall("[lr]", lines[0].partition("}{")[2]))}
    return [[unescaped(cell.strip()) for cell in row] for row in cells]


def unescaped(text):
    words = {
        "textbackslash": "\\",
        "textasciitilde": "~",
        "textasciicircum": "^",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
        "textquotedbl": '"',
    }
    text = re.sub(r"\{([\[\]])\}", r"\1", text)
    text = re.sub(r"\\(text\w+)\{\}", lambda found: words[found[1]], text)
    return re.sub(r"\\([&%$#_{}])", r"\1", text)


def test_escaping_loses_nothing():
    assert unescaped(escape_latex(ODD)) == ODD
    assert escape_latex("two\nlines") == "two lines"
    assert escape_latex("50% & more_") == r"50\% \& more\_"


def test_latex_tables_hold_the_numbers(scorer):
    head, *rows = read_latex(scorer.to_latex())
    assert head[:2] == ["encoder", "average rank"]
    found = {row[0]: float(row[1]) for row in rows}
    expected = dict(zip(ENCODERS, scorer.average_ranks_, strict=True))
    assert found == pytest.approx(expected, abs=0.0051)
    assert list(found.values()) == sorted(found.values())
    order = [ENCODERS.index(name) for name in found]  # that of all tables
    head, *rows = read_latex(scorer.to_latex("codelengths"))
    assert head == ["encoder", *scorer.dataset_names_, "average rank"]
    table = np.array([[re.sub(r"\\textbf|[{}]", "", c) for c in r[1:]] for r in rows])
    nats = scorer.codelengths_.T[order]
    assert_allclose(table[:, :-1].astype(float), nats / 40, atol=6e-4)
    bold = np.array([["textbf" in cell for cell in row[1:-1]] for row in rows])
    assert_array_equal(bold.argmax(0), nats.argmin(0))
    head, *rows = read_latex(scorer.to_latex("readouts"))
    assert head == ["encoder", *scorer.dataset_names_, "most often"]
    found = [row[1:-1] for row in rows]
    assert found == np.transpose(scorer.preferred_readouts())[order].tolist()


def test_latex_of_one_dataset_has_no_intervals():
    scorer, _ = fit(1)
    head, *_ = read_latex(scorer.to_latex())
    assert head == ["encoder", "average rank", "saved over labels alone"]


def test_texts_stand_in_columns():
    table = Table(["name", "word", "value"], [["a", "one", "1.5"]], n_left=2)
    assert table.to_text() == "  name  word  value\n  a     one     1.5"
    words = Table(["name", "word"], [["a", "b"]], n_left=2)
    assert words.to_text().splitlines()[1] == "  a     b"


def test_unknown_tables_are_refused(scorer):
    with pytest.raises(ValueError, match=r"table must be one of .*, got 'all'"):
        scorer.to_latex("all")


# Files


@pytest.fixture(scope="module")
def folder(scorer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write_results(scorer, folder)
    return folder


def test_the_statistics_read_back(folder, scorer):
    found = json.loads((folder / "statistics.json").read_text())
    assert found["average_ranks"] == dict(
        zip(ENCODERS, scorer.average_ranks_, strict=True)
    )
    assert found["friedman"]["f_p_value"] == scorer.friedman_test().f_p_value
    wilcoxon = scorer.pairwise_wilcoxon()
    assert found["wilcoxon"]["p_values"] == wilcoxon.p_values.tolist()
    assert found["wilcoxon"]["pairs"][0] == ["wide", ODD]
    paired = scorer.paired_differences()
    assert_allclose(found["paired_differences"]["lower"], paired.lower)
    assert found["orders"]["relative"]["d 1"]["wide"] == pytest.approx(
        scorer.order_spread().relative[1, 0]
    )
    assert list(found["groups"]) == list(GROUPS)
    middle = found["groups"]["middle"]
    assert middle["datasets"] == ["d 1", "d 2"]
    assert "friedman" not in found["groups"]["one"]
    for d, name in enumerate(scorer.dataset_names_):
        for e, encoder in enumerate(ENCODERS):
            shares = found["mean_posteriors"][name][encoder]
            assert max(shares, key=shares.get) == scorer.preferred_readouts()[d][e]
            assert sum(shares.values()) == pytest.approx(1)


def test_the_readouts_read_back(folder, scorer):
    with (folder / "readouts.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["encoder", *scorer.dataset_names_, "most_often"]
    order = np.argsort(scorer.average_ranks_, kind="stable")
    names = np.transpose(scorer.preferred_readouts())[order].tolist()
    assert [row[1:-1] for row in rows] == names
    assert all(row[-1] in row[1:-1] for row in rows)


def test_large_pools_are_compared_in_pairs_of_the_best(monkeypatch):
    monkeypatch.setattr(sklearn_mdl.report._tables, "MOST_ENCODERS", 2)
    scorer, _ = fit(3, n_orders=2)
    found = sklearn_mdl.report._tables.statistics_of(scorer)
    best = np.argsort(scorer.average_ranks_, kind="stable")[:2]
    names = [ENCODERS[i] for i in sorted(best)]
    assert found["wilcoxon"]["pairs"] == [names]
    assert found["paired_differences"]["pairs"] == [names]
    assert np.shape(found["wins"]) == (3, 3)


# The page


class Page(HTMLParser):
    """What a browser would make of a page, and whether its tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags, self.tables = [], [], [], []
        self.data = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.tags and self.tags[-1][1].get("id") == "data":
            self.data += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_is_whole(page):
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert {link[1:] for link in links} <= set(ids)
    assert len(set(ids)) == len(ids)


def test_the_page_asks_no_one_else(page):
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"link", "iframe", "object", "embed", "base", "img", "image"}
    for tag, attrs in page.tags:
        for name in ("src", "href", "srcset", "action", "background", "poster"):
            assert attrs.get(name, "#").startswith("#"), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs)
    policies = [attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs]
    assert policies[0].startswith("default-src 'none'")
    styles = "".join(page.text)
    assert "@import" not in styles
    assert "url(" not in styles


def test_names_are_never_code(tmp_path):
    names = ["</script><script>alert(1)</script>", '"><img src=x>', "{{ 7 * 7 }}"]
    scorer, _ = fit(1, names)
    write_results(scorer, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not any(tag == "img" for tag, _ in page.tags)
    assert {row[0] for row in page.tables[0][1:]} == set(names)
    assert json.loads(page.data)["encoders"] == [row[0] for row in page.tables[0][1:]]


def test_names_stand_on_the_page_as_text(page):
    assert any(row[0] == ODD for table in page.tables for row in table)


def test_tables_of_the_page_hold_the_numbers(page, scorer):
    ranks, *others = page.tables
    found = {row[0]: float(row[1]) for row in ranks[1:]}
    expected = dict(zip(ENCODERS, scorer.average_ranks_, strict=True))
    assert found == pytest.approx(expected, abs=0.0051)
    (nats,) = [t for t in others if t[-1][0] == "labels alone"]
    assert nats[0] == ["encoder", *scorer.dataset_names_]
    values = np.array([row[1:] for row in nats[1:4]], dtype=float)
    order = np.argsort(scorer.average_ranks_, kind="stable")
    assert_allclose(values, scorer.codelengths_.T[order] / 40, atol=6e-5)
    alone = np.array(nats[-1][1:], dtype=float)
    places = [list(found).index(ENCODERS[e]) for e in order]
    saved = np.array([float(row[3]) for row in ranks[1:]])[places]
    assert_allclose(saved, (alone - values).mean(1), atol=1e-3)


def test_pairs_count_the_datasets_on_which_one_is_shorter(page, scorer):
    (pairs,) = [t for t in page.tables if t[0] == ["encoder", "1", "2", "3"]]
    names = [row[0].split(" ", 1)[1] for row in pairs[1:]]
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            if i != j:
                a, b = (scorer.encoder_names_.index(name) for name in (one, other))
                n_shorter = sum(
                    sample.codelengths[b] - sample.codelengths[a]
                    > sample.least_significant(scorer.alpha)[a, b]
                    for sample in scorer.codelength_samples_
                )
                assert pairs[1 + i][1 + j] == str(n_shorter)


def test_the_page_names_settings_and_how_to_cite(page):
    text = "".join(page.text)
    for words in (
        *("n_orders", "random_state", "LinearReadout(lr=0.01)", "torch"),
        *("Evaluating Representations with Readout Model Switching", "@inproceedings"),
        *("first & last", "mlp 1x4"),
    ):
        assert words in text


def test_the_page_says_what_failed(monkeypatch, tmp_path):
    from sklearn_mdl.model_selection import _running as running
    from sklearn_mdl.model_selection._cells import score_cell

    def fail(task, device=None):
        if task.dataset == "d 1":
            raise RuntimeError("<em>no</em> luck")
        return score_cell(task, device)

    monkeypatch.setattr(running, "score_cell", fail)
    with pytest.warns(UserWarning, match="Dropped"):
        scorer, _ = fit(2, missing="drop")
    write_results(scorer, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    text = "".join(page.text)
    assert "because cells or encoders failed: d 1." in text
    assert "<em>no</em> luck" in text


@pytest.mark.parametrize(
    ("encoders", "alpha"), [(["one"], 0.1), (ENCODERS, 0.1), (ENCODERS, 0.6)]
)
def test_small_rankings_have_a_page_too(encoders, alpha, tmp_path):
    scorer, _ = fit(1, encoders, alpha=alpha)
    write_results(scorer, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert "nan" not in " ".join(" ".join(row) for t in page.tables for row in t)


def test_results_name_the_settings_of_the_run_whatever_was_set_since(tmp_path):
    kernel = KernelReadout()
    switcher = MDLReadoutSwitcher([kernel])
    X, y = load_iris(return_X_y=True)
    scorer = RepresentationScorer(switcher, n_orders=1, alpha=0.2)
    scorer.fit({"iris": ({"all": X, "one": X[:, :1]}, y)})
    said = scorer.summary()
    pages = [p.read_bytes() for p in write_results(scorer, tmp_path / "a")]
    kernel.set_params(alpha=99.0)
    scorer.set_params(switcher__switching="bayes", n_orders=7, random_state=9)
    scorer.set_params(switcher="nothing", eliminate=0.1)
    assert [p.read_bytes() for p in write_results(scorer, tmp_path / "b")] == pages
    assert scorer.summary() == said


def test_the_same_ranking_is_written_in_the_same_bytes(scorer, folder, tmp_path):
    write_results(scorer, tmp_path)
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
