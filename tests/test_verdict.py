"""What a ranking says first: both codes, the verdict in words, what stands beside."""

import csv
import itertools
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from each_case import for_each
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.signal import lfilter
from sklearn.datasets import make_blobs

import sklearn_mdl.report._details
from sklearn_mdl import (
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    MultiOutputSwitcher,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.cli._main import main
from sklearn_mdl.display import CodelengthDisplay, RankDisplay, RankingHeatmapDisplay
from sklearn_mdl.display._base import COLOURS
from sklearn_mdl.metrics import extrapolate
from sklearn_mdl.model_selection import Ranking
from sklearn_mdl.model_selection._cells import Cell, Trace
from sklearn_mdl.model_selection._certainty import TRAINING, Sample, tied
from sklearn_mdl.model_selection._tables import as_rows
from sklearn_mdl.model_selection._tasks import digest_of, draw_order
from sklearn_mdl.ranking import shares_best
from sklearn_mdl.report import Comparison, _curves, _svg

SWITCHING = "switching (Li et al. 2023)"
SLOW = pytest.mark.slow


def readouts():
    return [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]


def blobs(seed=0, n=60):
    return make_blobs(n, 3, centers=2, random_state=seed, cluster_std=4)


def rank(pooling=None, n_datasets=2, **options):
    data = {}
    for d in range(n_datasets):
        X, y = blobs(d)
        data[f"d{d}"] = {"narrow": X[:, :1], "wide": X}, y
    switcher = MDLReadoutSwitcher(readouts(), pooling=pooling)
    return RepresentationScorer(switcher, **options).fit(data)


@pytest.fixture(scope="module")
def pooled():
    return rank(["linear", "mlp"], n_orders=2)


def test_shares_and_pages_of_mixed_rankings_depend_on_each_dataset(tmp_path):
    X, y = blobs()
    reals = X[:, 0] + 0.5  # codelengths of real labels have no share of a whole
    data = {name: {"narrow": X[:, :1], "wide": X} for name in ("reals", "classes")}
    given = {"reals": (data["reals"], reals), "classes": (data["classes"], y)}
    for names in (["reals", "classes"], ["classes", "reals"]):
        scorer = RepresentationScorer(targets="auto", n_orders=1)
        scorer.fit({name: given[name] for name in names})
        verdicts = {one.dataset: one for one in scorer.verdict().datasets}
        assert np.isnan(verdicts["reals"].share)
        assert 0 < verdicts["classes"].share < 1
        comparison = Comparison(scorer)
        kinds = {name: type(comparison.plot(name)).__name__ for name in names}
        assert kinds == {
            "reals": "CodelengthDisplay",
            "classes": "LearningCurveDisplay",
        }


# Both codes


def test_cells_hold_both_codes(pooled):
    for cell in pooled.cells_:
        X, y = blobs(int(cell.dataset[1]))
        X = X[:, : cell.n_features]
        order = np.random.default_rng([0, cell.order]).permutation(60)
        switcher = MDLReadoutSwitcher(
            readouts(), pooling=["linear", "mlp"], random_state=0
        ).fit(X[order], y[order])
        assert cell.codelength == pytest.approx(switcher.codelength_)
        assert cell.switching_codelength == pytest.approx(
            switcher.switching_codelength_
        )
        assert cell.switching_codelength != cell.codelength
        assert cell.pool_kinds == switcher.pool_kinds_ == ["linear", "mlp"]
        assert cell.accuracy == switcher.measures().accuracy


def test_tables_and_files_hold_both_codes(pooled, tmp_path):
    write_results(pooled, tmp_path)
    record = json.loads((tmp_path / "cells.json").read_text())["cells"]
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    for found in (record, rows):
        nats = [float(cell["switching_codelength"]) for cell in found]
        assert nats == [cell.switching_codelength for cell in pooled.cells_]
    with (tmp_path / "ranking.csv").open() as file:
        rows = {row["encoder"]: row for row in csv.DictReader(file)}
    for e, name in enumerate(pooled.encoder_names_):
        nats = [float(rows[name][f"{d}, {SWITCHING}"]) for d in ("d0", "d1")]
        assert_allclose(nats, pooled.switching_codelengths_[:, e] / 60)
    page = (tmp_path / "report.html").read_text()
    for text in (page, pooled.summary(), pooled.to_frame().to_string()):
        assert "switching" in text
    assert SWITCHING in page
    assert "pooled (nats)" in pooled.summary()
    assert pooled.to_latex("switching") != pooled.to_latex("codelengths")


def test_where_nothing_is_pooled_there_is_one_column(tmp_path):
    scorer = rank(None)
    assert not scorer.is_pooled_
    assert_array_equal(scorer.switching_codelengths_, scorer.codelengths_)
    write_results(scorer, tmp_path)
    page = (tmp_path / "report.html").read_text()
    for text in (page, scorer.summary(), (tmp_path / "ranking.csv").read_text()):
        assert SWITCHING not in text
        assert "pooled" not in text
    assert "codelength (nats)" in scorer.summary()


@pytest.mark.parametrize("pooling", [None, ["linear", "mlp"]])
def test_score_prints_both_codes_if_there_are_two(
    tmp_path, capsys, monkeypatch, pooling
):
    X, y = blobs()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    switcher = MDLReadoutSwitcher(readouts(), pooling=pooling, random_state=0)
    monkeypatch.setattr(
        sklearn_mdl.cli._options, "switcher_of", lambda *given: switcher
    )
    assert main(["score", str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]) == 0
    printed = capsys.readouterr().out
    assert (SWITCHING in printed) == ("pooled" in printed) == (pooling is not None)
    assert f"{switcher.codelength_:.1f} nats" in printed
    assert f"{switcher.switching_codelength_:.1f} nats" in printed


def test_codes_of_several_outputs_add_up():
    X, y = blobs()
    switcher = MDLReadoutSwitcher(readouts(), pooling=["linear", "mlp"])
    switcher.set_params(random_state=0)
    found = MultiOutputSwitcher(switcher).fit(X, np.stack([y, y[::-1]], axis=1))
    each = found.estimators_
    expected = sum(one.switching_codelengths_ for one in each)
    assert_array_equal(found.switching_codelengths_, expected)
    assert found.switching_codelength_ == pytest.approx(expected.sum())
    assert found.switching_codelength_ != found.codelength_
    alone = MultiOutputSwitcher(LinearReadout(random_state=0)).fit(X, y[:, None])
    assert alone.switching_codelength_ == alone.codelength_


def test_a_cell_kept_without_the_other_code_is_run_again(tmp_path):
    scorer = rank(None, 1, results=tmp_path)
    path = next((tmp_path / "cells").glob("*wide*.json"))
    content = json.loads(path.read_text())
    del content["sha256"], content["cell"]["switching_codelength"]
    path.write_text(json.dumps({"sha256": digest_of(content), **content}))
    text = f"Running cell {path} again, since it is damaged: its entries differ"
    with pytest.warns(UserWarning, match=f"^{re.escape(text)} from those of a cell$"):
        again = rank(None, 1, results=tmp_path)
    assert_array_equal(again.codelengths_, scorer.codelengths_)


# In words


def made(losses, alpha=0.1, n_classes=2, per_label=None, groups=None, data=None):
    """A ranking of cells whose losses are given, (datasets, encoders, orders, rows).

    ``per_label`` is the code of a label without features in nats.
    """
    cells = []
    per_label = np.log(max(n_classes, 1)) if per_label is None else per_label
    for d, e, order in np.ndindex(np.shape(losses)[:3]):
        rows = np.asarray(losses[d][e][order])
        places = np.random.default_rng([0, order]).permutation(len(rows))
        trace = Trace(rows[places], np.arange(1), np.ones((1, 1)))
        kept = dict.fromkeys(Cell.__dataclass_fields__)
        kept |= {"dataset": f"d{d}", "encoder": f"e{e}", "order": order, "seed": 0}
        kept |= {"n_samples": len(rows), "codelength": rows.sum(), "source": trace}
        kept |= {"n_classes": n_classes, "frequency": per_label * len(rows)}
        kept["labels_alone"] = per_label * len(rows) + 1
        kept |= {"switching_codelength": rows.sum(), "readouts": {"linear": 1.0}}
        kept |= {"streams": (), "scalings": ()}
        kept |= {"groups": groups, "data": data}
        cells.append(Cell(**kept))
    return Ranking(cells, alpha)


def noise(*shape):
    return np.random.default_rng(0).gamma(4.0, 0.1, size=shape)


def stream(rows):
    """Rows in the first order of a ranking that is made."""
    return rows[np.random.default_rng([0, 0]).permutation(len(rows))]


def test_an_encoder_that_wins_the_test_is_not_called_worse():
    """The best average rank is that of e0, but Wilcoxon's test favours e1."""
    codes = np.array([[100, 97 - 0.1 * d, 110, 112, 114] for d in range(8)])
    others = [[100, 100.4 + 0.1 * d, 100.1, 100.2, 100.3] for d in range(3)]
    rows = np.repeat(np.vstack([codes, others])[:, :, None, None] / 60, 60, axis=-1)
    ranking = made(rows)
    verdict, test = ranking.verdict(), ranking.pairwise_wilcoxon([("e0", "e1")])
    assert verdict.best == "e0"
    assert verdict.has_test
    assert test.rank_sums[0, 0] < test.rank_sums[0, 1]
    assert test.p_values[0] < 0.1
    assert verdict.equivalent == ["e1"]
    assert verdict.out == ["e2", "e3", "e4"]


def test_only_encoders_with_longer_codes_than_the_best_everywhere_are_called_worse():
    """e2 is worse than the winner of each dataset, but better than e0 on d1."""
    extra = np.array([[0.0, 0.3, 0.1], [0.3, 0.0, 0.1], [0.0, 0.1, 0.3]])
    verdict = made(noise(3, 1, 1, 60) + extra[:, :, None, None]).verdict()
    assert [dataset.winner for dataset in verdict.datasets] == ["e0", "e1", "e0"]
    assert all("e2" in dataset.worse for dataset in verdict.datasets)
    assert not verdict.has_test
    assert verdict.best == "e0"
    assert verdict.out == []
    assert verdict.equivalent == ["e1", "e2"]


def test_one_order_of_few_labels_per_class_is_named_where_an_encoder_is_called_worse():
    extra = np.array([0.0, 0.3])[:, None, None]
    pairs = np.arange(250) // 2
    for n_orders, n_rows, n_classes, gap, is_named, options in [
        (1, 240, 5, 1, True, {}),
        (2, 240, 5, 1, False, {}),
        (1, 251, 5, 1, False, {}),
        (1, 250, 5, 1, True, {"groups": pairs}),
        (1, 251, 5, 1, True, {"per_label": 0.8}),  # a class of .8 has many labels
        (1, 80, 4, 1, False, {}),
        (1, 600, 2, 1, True, {"per_label": 0.1}),  # 2 % in one class
        (1, 2400, 2, 1, False, {"per_label": 0.1}),
        (1, 80, 0, 1, False, {}),  # real numbers
        (1, 80, 10, 0, False, {}),  # equal encoders
    ]:
        rows = noise(1, 2, n_orders, n_rows) + gap * extra
        verdict = made(rows, n_classes=n_classes, **options).verdict()
        assert bool(verdict.out) is bool(gap)
        named = [line for line in verdict.sentences() if "pass n_orders=4" in line]
        assert named == verdict.sentences()[-1:] * is_named
        assert ("pass n_orders=4" in str(verdict.datasets[0])) == is_named
        several = made(np.repeat(rows, 3, axis=0), n_classes=n_classes, **options)
        assert str(several.verdict()).count("pass n_orders=4") == is_named


def test_codes_that_are_not_shorter_than_that_of_the_labels_are_named():
    rows = noise(2, 3, 1, 60)  # 0.4 nats per label, the uniform code 0.7
    for per_label, more, data, is_named in [
        (0.3, 0, None, True),
        (0.5, 0, None, False),
        (1.1, 0.4, None, True),
        (0.3, 0, {"groups": "a digest"}, True),
        (0.5, 0, {"groups": "a digest"}, False),
    ]:
        for chosen in (rows, rows[:1], rows[:, :1], rows[:1, :1]):
            ranking = made(chosen + more, per_label=per_label, data=data)
            for cell in ranking.cells_:
                object.__setattr__(cell, "groups", data and np.arange(60))
            said = str(ranking.verdict())
            no_gain = (
                "No code is shorter than both the uniform code and that of the labels "
                "alone."
            )
            assert said.count(no_gain) == len(chosen) * is_named


def test_codes_that_differ_by_rounding_errors_are_tied():
    nats = np.array([[3.0, 1.0007, 1.0, 1.0014, np.inf, np.nan, np.inf]])
    expected = [[3.0, 1.0, 1.0, 1.0014, np.inf, np.nan, np.inf]]
    np.testing.assert_array_equal(tied(nats), expected)


def test_equal_encoders_tie_however_many_labels_follow():
    rows = noise(60)
    rounded = rows + np.random.default_rng(0).normal(2e-7, 1e-7, 60)
    for other in (rows, rounded):  # as in other units
        ranking = made(np.stack([rows, other])[None, :, None, :])
        found = ranking.best("d0")
        assert found.more_labels == np.inf
        assert found.ties == ["e1"]
        assert found.probability == 0.5
        assert ranking.average_ranks_.tolist() == [1.5, 1.5]
        assert np.ptp(ranking.switching_codelengths_) == 0
        assert [row["rank"] for row in as_rows(ranking)] == [1.5, 1.5]
        assert "0 ± 0 nats" in str(ranking.verdict())
    found = made(np.array([[rows, rows], [rows + 1, rows]])[:, :, None]).verdict()
    assert (found.best, found.n_shortest) == ("e1", 2)
    several = rows + np.random.default_rng(0).normal(2e-7, 1e-7, (5, 60))
    found = made(several[None, :, None, :]).best("d0")
    assert_allclose(list(found.probabilities.values()), 0.2)


@pytest.mark.parametrize("n_orders", [1, 2])
def test_one_group_of_rows_has_no_interval(n_orders):
    ranking = made(noise(1, 2, n_orders, 6))
    for cell in ranking.cells_:
        object.__setattr__(cell, "groups", np.zeros(6, int))
    found = ranking.verdict()
    assert np.isnan(found.datasets[0].half_width)
    assert np.isnan(found.answer.probability)


# Bands of learning curves


@pytest.mark.parametrize(("size", "n_orders"), [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_the_band_of_all_labels_is_the_interval_of_the_codelength(size, n_orders):
    ranking = made(noise(1, 1, n_orders, 96))
    for cell in ranking.cells_:
        object.__setattr__(cell, "groups", np.arange(96) // size)
    losses = np.stack([cell.codelengths for cell in ranking.cells_])
    starts = [cell.starts for cell in ranking.cells_]
    mean, half = _curves._means(losses, np.array([0, 96]), starts, 0.1)
    assert mean == pytest.approx(ranking.codelengths_[0] / 96)
    assert half == pytest.approx(Comparison(ranking)._halves[0])


@pytest.mark.parametrize(("size", "n_orders"), [(1, 10), (10, 1), (10, 4)])
def test_bands_hold_the_mean_over_fresh_draws_of_groups(size, n_orders):
    rng, covered = np.random.default_rng(0), []
    starts = np.arange(0, 240, size)
    edges = _curves._edges(len(starts)) * size
    for _ in range(200):
        by_group = rng.normal(size=len(starts))
        orders = np.stack([rng.permutation(by_group) for _ in range(n_orders)])
        losses = np.repeat(orders, size, axis=1) + rng.normal(size=(n_orders, 240))
        mean, half = _curves._means(losses, edges, [starts] * n_orders, 0.1)
        covered.append(np.abs(mean) <= half)
    rates = np.mean(covered, axis=0)
    assert rates.min() > 0.85
    assert rates.mean() < 0.99


@for_each("size", [1, 5])  # rows of a group are all right or all wrong
@for_each("share, n_orders", [(0.95, 1), (0.98, 4), (0.995, 4), (0.5, 2), (0.0, 1)])
def test_bands_hold_shares_close_to_none_and_to_all(share, n_orders, size):
    rng, covered = np.random.default_rng(0), []
    starts, edges = np.arange(150) * size, _curves._edges(150) * size
    for _ in range(200):
        labels = rng.random(150) < share
        correct = np.stack([rng.permutation(labels) for _ in range(n_orders)])
        correct = np.repeat(correct, size, axis=1)
        given = correct.astype(float), edges, [starts] * n_orders, 0.1
        found = _curves._means(*given, is_share=True)
        covered.append(np.abs(found[0] - share) <= found[1])
        assert (found[1] > 0).all()
    assert np.mean(covered, axis=0).min() > 0.85


def test_draws_have_the_tails_of_few_orders():
    rng = np.random.default_rng(0)
    sample = Sample(
        np.zeros(2),
        np.zeros((2, 40, 2)),
        np.array([[1.0, 0], [-1.0, 0]]),
        np.zeros(2),
        80,
    )
    draws = np.concatenate([sample.draws(rng)[:, 0] for _ in range(20)])
    error = np.sqrt(sample.variance(0, 1)[0])
    for level in (0.25, 0.1, 0.05):
        limit = stats.t.isf(level, 1) * error
        assert np.mean(draws > limit) == pytest.approx(level, rel=0.1)


def test_a_margin_is_judged_by_neighbours_in_the_stream():
    rows = noise(50)
    losses = np.stack([rows, rows + 0.05 + noise(50) / 2, rows + noise(50)])
    found = made(losses[None, :, None, :]).verdict().datasets[0]
    order = np.argsort(losses.sum(1))
    first, second = losses[order[0]], losses[order[1]]
    steps = -np.diff(stream(second - first))[::2]
    # No pair differs, so that all three have the level of Holm's first step.
    half = stats.t.isf(0.1 / 3 / 2, 25) * TRAINING * np.sqrt((steps**2).sum())
    assert (found.winner, found.runner_up) == (f"e{order[0]}", f"e{order[1]}")
    assert found.margin == pytest.approx((second - first).sum())
    assert found.half_width == pytest.approx(half)
    assert found.worse + found.ties != []


@pytest.mark.parametrize("shift", [0.0, 0.04, 0.3])
def test_pairs_differ_where_holms_steps_say_so(shift):
    losses = noise(5, 60) + shift * np.arange(5)[:, None]
    (sample,) = made(losses[None, :, None, :]).codelength_samples_
    codes, least = losses.sum(1), sample.least_significant(0.1)
    p_values = {}
    for i, j in itertools.combinations(range(5), 2):
        error = np.sqrt(sample.variance(i, j)[0])
        p_values[i, j] = 2 * stats.t.sf(abs(codes[i] - codes[j]) / error, 30)
    steps = sorted(p_values, key=p_values.get)
    n_apart = next(
        (k for k, pair in enumerate(steps) if p_values[pair] > 0.1 / (10 - k)), 10
    )
    assert [abs(codes[i] - codes[j]) > least[i, j] for i, j in steps] == [
        k < n_apart for k in range(10)
    ]
    for k, (i, j) in enumerate(steps):
        factor = stats.t.isf(0.1 / (10 - min(k, n_apart)) / 2, 30)
        assert least[i, j] == pytest.approx(factor * np.sqrt(sample.variance(i, j)[0]))


def test_orders_add_the_variance_of_their_mean():
    rows = noise(40)
    shifts = np.array([0.0, 1.0, 3.0]) / 40
    losses = np.stack([np.tile(rows, (3, 1)), rows + 0.2 + shifts[:, None]])
    found = made(losses[None]).verdict().datasets[0]
    # Rows differ by the same, so that all that is left comes from orders.
    half = stats.t.isf(0.05, 2) * stats.sem([0.0, 1.0, 3.0])
    assert found.half_width == pytest.approx(half)
    assert found.margin == pytest.approx(0.2 * 40 + 4 / 3)


@pytest.mark.parametrize("n_orders", [1, 2, 4])
def test_more_orders_do_not_average_the_variance_of_rows(n_orders):
    rng, found, draws = np.random.default_rng(0), [], []
    for _ in range(80):
        losses = rng.normal(size=(2, n_orders, 400))
        losses -= losses.mean(-1, keepdims=True)  # orders have equal codelengths
        (sample,) = made(losses[None]).codelength_samples_
        found.append(sample.variance(0, 1)[0])
        draws.append(np.var(np.diff(sample.draws(rng))))
    assert np.mean(found) == pytest.approx(TRAINING**2 * 2 * 400, rel=0.1)
    tails = 25 / 23  # of Student's distribution
    assert np.mean(draws) == pytest.approx(tails * np.mean(found), rel=0.1)


@pytest.mark.parametrize(("trend", "memory"), [(0.0, 0.0), (3.0, 0.0), (0.0, 0.5)])
def test_the_variance_of_a_sum_knows_no_trend_and_knows_neighbours(trend, memory):
    rng = np.random.default_rng(0)
    n, found = 1000, []
    places = np.random.default_rng([0, 0]).permutation(n)
    for _ in range(40):
        noise = lfilter([1.0], [1.0, -memory], rng.normal(size=n))
        losses = np.zeros((2, n))
        losses[1, places] = noise + trend * np.linspace(1, 0, n)
        (sample,) = made(losses[None, :, None, :]).codelength_samples_
        found.append(sample.variance(0, 1)[0] / TRAINING**2)
    expected = n / (1 - memory) ** 2
    assert np.mean(found) == pytest.approx(expected, rel=0.15)


def test_the_probability_of_being_best_is_that_of_the_difference():
    rows = noise(80)
    losses = np.stack([rows + noise(2, 80)[1], rows, rows + 9])
    ranking = made(losses[None, :, None, :])
    ranking.cells_[1].source.codelengths[0] += losses[0].sum() - losses[1].sum() - 1.5
    for cell in ranking.cells_:
        object.__setattr__(cell, "codelength", cell.codelengths.sum())
    found = ranking.best()
    steps = -np.diff(stream(losses[0] - losses[1]))[::2]
    steps[0] -= losses[0].sum() - losses[1].sum() - 1.5
    spread = TRAINING * np.sqrt((steps**2).sum())
    expected = stats.t.cdf(1.5 / spread, 40)
    assert found.encoder == "e1"
    assert found.rival == "e0"
    assert found.probability == pytest.approx(expected, abs=0.05)
    assert found.probabilities["e2"] == 0
    assert sum(found.probabilities.values()) == pytest.approx(1)


def test_labels_that_would_settle_it_grow_the_margin_beyond_its_doubt():
    rows = noise(200)
    losses = np.stack([rows, rows + 0.02 + noise(2, 200)[1] - 0.4])
    ranking = made(losses[None, :, None, :])
    found, (sample,) = ranking.best("d0"), ranking.codelength_samples_
    late = stream(losses[1] - losses[0])[100:].mean()
    margin = (losses[1] - losses[0]).sum()
    total = 200 + found.more_labels
    deviation = np.sqrt(sample.variance(0, 1)[0] * total / 200)
    doubt = stats.t.isf(0.05, 25) * deviation
    assert 0.5 < found.probability < 0.95
    assert margin + late * (total - 200) == pytest.approx(doubt, rel=0.01)
    assert f"About {found.more_labels:.1g}"[:7] in str(ranking.verdict())
    assert not made(losses[None, ::-1, None, ::-1]).best().more_labels < 0


@pytest.mark.parametrize("n_orders", [1, 2, 4])
def test_a_choice_is_settled_if_and_only_if_its_probability_says_so(n_orders):
    rng, probabilities = np.random.default_rng(n_orders), []
    for margin in np.linspace(10, 60, 50):
        contrasts = 2 * rng.normal(size=(n_orders, 50, 3)) / np.sqrt(n_orders)
        orders = 9 * rng.normal(size=(n_orders, 3)) * (n_orders > 1)
        codelengths = np.array([100, 100 + margin, 105 + margin])
        rates = np.array([0.2, 0.5, 0.6])
        sample = Sample(codelengths, contrasts, orders - orders.mean(0), rates, 200)
        shares = shares_best(sample.draws(rng))
        rival = 1 + int(shares[1:].argmax())
        more = sample.more_labels(0, rival, shares)
        assert (more == 0) == (shares[0] >= 0.95)
        probabilities.append(shares[0])
    assert min(probabilities) < 0.9
    assert max(probabilities) > 0.96


def test_the_doubt_that_may_remain_is_shared_among_the_rivals_as_it_is_now():
    rows, (second, third) = noise(200), noise(2, 200) - 0.4
    losses = np.stack([rows, rows + 0.02 + second, rows + 0.03 + third])
    ranking = made(losses[None, :, None, :])
    found, (sample,) = ranking.best("d0"), ranking.codelength_samples_
    names = sorted(found.probabilities)
    winner, rival = names.index(found.encoder), names.index(found.last_rival)
    shares = np.array([found.probabilities[name] for name in names])
    probable = sample.more_labels(winner, names.index(found.rival), shares)
    assert found.more_labels > probable  # against another encoder
    others = [found.probabilities[name] for name in names if name != found.encoder]
    assert min(others) > 0.01
    tail = 0.05 * found.probabilities[found.last_rival] / sum(others)
    total = 200 + found.more_labels
    margin = sample.codelengths[rival] - sample.codelengths[winner]
    gain = (sample.rates[rival] - sample.rates[winner]) * found.more_labels
    variance, freedom = sample.variance(winner, rival)
    doubt = stats.t.isf(tail, freedom) * np.sqrt(variance * total / 200)
    assert margin + gain == pytest.approx(doubt, rel=0.01)


@pytest.mark.parametrize("n_orders", [1, 2])
def test_no_number_of_labels_settles_a_choice_between_copies(n_orders):
    rows, others = noise(2, n_orders, 200)
    others += 0.001 + rows.mean() - others.mean()
    found = made(np.stack([rows, rows, others])[None]).best("d0")
    assert found.rival == "e2"  # the most probable other encoder
    assert found.more_labels == np.inf
    assert f"would not settle it against {found.last_rival}" in str(found)
    assert {found.encoder, found.last_rival} == {"e0", "e1"}


@pytest.mark.parametrize("n_orders", [1, 2])
def test_who_would_overtake_whom_is_told_or_not(n_orders):
    rng, t = np.random.default_rng(0), np.arange(1, 201)
    flat, steep = np.full(200, 0.5), 0.05 + 9 * (t + 5.0) ** -0.7
    shared = rng.uniform(0.9, 1.1, size=(n_orders, 200))
    curves = np.stack([flat * shared, steep * shared, 2 * shared, flat * shared])
    curves[3] += rng.normal(0.01, 0.05, size=(n_orders, 200))
    losses = np.empty(curves.shape)
    for k in range(n_orders):
        places = np.random.default_rng([0, k]).permutation(200)
        losses[:, k, places] = curves[:, k]
    ranking = made(losses[None])
    found = ranking.extrapolate(2000)
    assert found.best.tolist() == [0]
    (sentence,) = found.sentences()
    assert sentence.startswith("d0: with 2,000 labels, e1 would overtake e0 by ")
    assert sentence.endswith(" nats (a guess)")
    assert "guess" not in ranking.extrapolate(400).sentences()[0]
    assert found.margins_upper[0, 1] < 0 < found.margins_lower[0, 2]
    total = (0.05 + 9 * (np.arange(1, 2001) + 5.0) ** -0.7).sum()
    assert found.lower[0, 1] < total < found.upper[0, 1]
    assert found.lower[0, 0] < 1000 < found.upper[0, 0]
    assert ranking.extrapolate(300).is_precise[0, 0]
    some = made(losses[None, [0, 2]])
    assert some.extrapolate(2000).sentences() == [
        "d0: with 2,000 labels, e0 would still have the shortest code (a guess)"
    ]
    close = made(losses[None, [0, 3]]).extrapolate(900)
    assert "it is unclear whether e1 would overtake e0" in close.sentences()[0]
    with pytest.raises(ValueError, match="`n` must be an integer of at least 201"):
        ranking.extrapolate(200)


@pytest.mark.slow
def test_four_orders_keep_false_alarms_rare_where_classes_are_well_separated():
    """With one order, a sixth of these verdicts are false alarms (docs/ranking.md)."""
    worse = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = rng.integers(10, size=100)
        means = 3 * np.eye(10)[y]
        equal = {e: means + rng.standard_normal(means.shape) for e in "ab"}
        switcher = MDLReadoutSwitcher(KernelReadout("linear"))
        scorer = RepresentationScorer(switcher, n_orders=4).fit({"d": (equal, y)})
        worse.append(bool(scorer.verdict().datasets[0].worse))
    assert np.mean(worse) <= 0.1


def test_groups_of_a_ranking_are_extrapolated_as_groups():
    ranking = made(noise(1, 2, 2, 200))
    for cell in ranking.cells_:
        groups = np.arange(200) // 5 + (np.arange(200) % 10 == 0)
        object.__setattr__(cell, "groups", groups)
    found = ranking.extrapolate(400)
    orders = [draw_order(0, k, 200, groups) for k in range(2)]
    losses = np.stack([c.codelengths for c in ranking.cells_]).reshape(2, 2, 200)
    wanted = extrapolate(losses, 400, groups=groups[np.array(orders)])
    assert_array_equal(found.lower[0], wanted.lower)


def test_where_a_rival_gains_it_is_too_early_to_tell():
    gains = np.linspace(0.3, -0.28, 100)
    losses = np.zeros((2, 100)) + noise(100)
    places = np.random.default_rng([0, 0]).permutation(100)
    losses[1, places] += gains + 0.5 * np.resize([1, 1, -1, -1], 100)
    found = made(losses[None, :, None, :]).best()
    assert np.isnan(found.more_labels)
    assert "It is too early to tell how many more labels would settle it" in str(found)


def test_encoders_that_a_few_times_as_many_labels_tell_apart_are_not_called_equal():
    rng = np.random.default_rng(0)  # (1.645 TRAINING / 0.1) ** 2 = 493 labels suffice
    tables = 1 + rng.normal([[[0.0], [0.1]]], 0.5**0.5, size=(300, 2, 200))
    found = [d.best.more_labels for d in made(tables[:, :, None]).verdict().datasets]
    assert np.mean(np.isposinf(found)) <= 0.01
    assert 0.05 < np.mean(np.isnan(found)) < 0.3


def test_encoders_whose_losses_become_equal_are_not_told_apart_by_more_labels():
    losses = np.stack([noise(200), noise(200)])
    places = np.random.default_rng([0, 0]).permutation(200)
    losses[1, places[:96]] += 0.2 * np.resize([1] * 4 + [-1] * 4, 96)
    found = made(losses[None, :, None, :]).best()
    assert found.more_labels == np.inf
    assert "A hundred times as many labels would not settle it" in str(found)


@pytest.mark.parametrize(("n", "is_told"), [(3, False), (39, False), (40, True)])
def test_labels_that_would_settle_it_are_only_forecast_from_40_rows(n, is_told):
    losses = 1 + np.stack([0.2 * np.sin(9.0 * np.arange(n)), np.full(n, 0.02)])
    verdict = made(losses[None, :, None, :]).verdict()
    found = verdict.answer
    assert found.probability < 0.95
    assert np.isfinite(found.more_labels) == is_told
    few = " It is too early to tell how many more labels would settle it."
    assert str(verdict).endswith(few) != is_told
    apart = made(losses[None, :, None, :] + [[[[0.0]], [[9.0]]]]).best()
    assert apart.more_labels == 0  # no forecast is needed


def test_the_best_over_datasets_has_the_best_average_rank(pooled):
    losses = noise(3, 4, 1, 60)
    losses[:, 0] -= 0.05
    ranking = made(losses)
    draws = [
        sample.draws(np.random.default_rng(d))
        for d, sample in enumerate(ranking.codelength_samples_)
    ]
    ranks = sum(stats.rankdata(table, axis=1) for table in draws)
    share = (ranks.argmin(1) == 0).mean()
    found = ranking.best()
    assert found.encoder == "e0"
    assert found.probability == pytest.approx(share, abs=0.1)
    assert found.more_labels is found.dataset is None
    assert ranking.verdict().answer == found
    assert pooled.best("d1") == pooled.verdict().datasets[1].best
    with pytest.raises(ValueError, match=r"dataset must be one of \['d0', 'd1'\]"):
        pooled.best("d2")


@pytest.mark.parametrize("n_encoders", [2, 4, pytest.param(12, marks=SLOW)])
def test_encoders_alike_are_seldom_told_apart_on_a_dataset(n_encoders):
    tables = np.random.default_rng(0).gamma(2.0, size=(300, n_encoders, 1, 60))
    found = made(tables).verdict().datasets
    wrong = np.mean([d.worse != [] for d in found])
    assert wrong <= 0.1 + 3 * np.sqrt(0.09 / 300)


@pytest.mark.parametrize("n_encoders", [2, pytest.param(6, marks=SLOW)])
def test_encoders_alike_are_seldom_told_apart_over_datasets(n_encoders):
    tables = np.random.default_rng(0).gamma(2.0, size=(200, 12, n_encoders, 1, 4))
    found = [made(table).verdict() for table in tables]
    assert all(verdict.has_test for verdict in found)
    wrong = np.mean([verdict.out != [] for verdict in found])
    assert wrong <= 0.1 + 3 * np.sqrt(0.09 / 200)


@pytest.mark.parametrize(("n_datasets", "speaks"), [(4, False), (6, True)])
def test_a_test_over_datasets_speaks_only_where_it_can(n_datasets, speaks):
    rows = noise(n_datasets, 1, 1, 50)
    losses = np.concatenate([rows, rows + noise(n_datasets, 1, 1, 50), rows], axis=1)
    losses[:, 2] += 0.001 * np.where(np.arange(n_datasets) % 2, -1, 1)[:, None, None]
    found = made(losses).verdict()
    assert found.out == ["e1"]
    assert len(found.equivalent) == 1
    assert found.n_needed == 6  # 2 ** (1 - 6) is at most 0.1 / 3
    assert found.has_test == speaks
    text = str(found)
    assert ("Wilcoxon's test, Holm" in text) == speaks
    assert ("4 datasets are too few to generalise to others" in text) != speaks
    if speaks:
        assert "Not significantly worse: e2 (" in text or "worse: e0 (" in text
    else:
        assert "Significantly worse than the winner on every dataset: e1." in text


def test_the_verdict_comes_first_everywhere(pooled, tmp_path):
    words = str(pooled.verdict())
    assert pooled.summary().startswith(words)
    assert all(line in words for line in pooled.verdict().sentences())
    write_results(pooled, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index('class="answer"') < page.index("<table")
    (first, *_) = Comparison(pooled).verdict().splitlines()
    assert first in page
    kept = json.loads((tmp_path / "statistics.json").read_text())["verdict"]
    assert kept["sentences"] == pooled.verdict().sentences()


def test_the_verdict_says_that_traces_are_gone(tmp_path):
    scorer = rank(None, 1, results=tmp_path)
    for path in (tmp_path / "cells").glob("*.safetensors"):
        path.unlink()
    for text in (scorer.summary(), str(scorer.best()), str(scorer.best("d0"))):
        said = "If losses of single examples are missing, fit again; otherwise, "
        said += "all rows are in one group, so add rows of other groups."
        assert said in text


def test_pairs_come_by_what_they_say():
    losses = noise(3, 7, 1, 20)
    ranking = made(losses)
    rows = sklearn_mdl.report._details.pairs(ranking).rows
    said = [(float(row[4]), -abs(np.log(float(row[2])))) for row in rows]
    assert all(
        p < q or (p == q and a <= b + 0.01)
        for (p, a), (q, b) in itertools.pairwise(said)
    )


# The command line


def features_on_disk(folder):
    for d in range(2):
        X, y = blobs(d)
        place = folder / "features" / f"d{d}"
        place.mkdir(parents=True)
        np.save(place / "labels.npy", y)
        for width in (1, 2, 3):
            np.save(place / f"w{width}.npy", X[:, :width])
    return folder / "features"


def test_rank_takes_a_choice_and_has_a_folder_by_default(tmp_path, monkeypatch, capsys):
    features = features_on_disk(tmp_path)
    monkeypatch.chdir(tmp_path)
    options = ["--datasets", "d1", "--encoders", "w3", "w1", "--max-rows", "40"]
    options += ["--device", "cpu", "--accuracy", "--readouts", "closed-form"]
    assert main(["rank", str(features), "--n-jobs", "1", *options]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Verdict\n")
    assert "found feature directory: 1 dataset\n  d1: 40 rows, " in printed
    with open("ranking/cells.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["dataset"], row["encoder"]) for row in rows] == [
        *(("d1", "w3"), ("d1", "w1")),
    ]
    assert {row["n_samples"] for row in rows} == {"40"}
    assert all(0 < float(row["accuracy"]) <= 1 for row in rows)
    with open("ranking/protocols.csv") as file:
        probes = {row["encoder"]: row["value"] for row in csv.DictReader(file)}
    column = "heldout_accuracy_linear"
    assert {row["encoder"]: row[column] for row in rows} == probes
    with open("ranking/ranking.csv") as file:
        assert {r["encoder"]: r[column] for r in csv.DictReader(file)} == probes
    page = Path("ranking/report.html").read_text()
    assert "held out, linear" in page
    assert "8 of 40 on d1" in page
    for option, names in (("--datasets", "d0"), ("--encoders", "w1")):
        assert main(["rank", str(features), option, "none"]) == 2
        error = capsys.readouterr().err
        assert f"{option}" in error
        assert "got 'none'; pass " in error
        assert names in error
    assert main(["rank", str(features), "--max-rows", "0"]) == 2
    said = "--max-rows must be at least 1, got 0; pass --max-rows 1000"
    assert capsys.readouterr().err == f"sklearn-mdl rank: {said}\n"


# The page


def test_an_encoder_has_one_colour_in_all_figures(pooled):
    ranks = RankDisplay.from_scorer(pooled, kind="by-size")
    best = pooled.verdict().best
    for dataset in pooled.dataset_names_:
        curves = CodelengthDisplay.from_scorer(pooled, dataset)
        for name, line in curves.lines_.items():
            assert line.get_color() == ranks.artists_[name].get_color()
        assert curves.lines_[best].get_color() == COLOURS[0]
    for kind in ("intervals", "boxes"):
        display = RankDisplay.from_scorer(pooled, kind=kind)
        points = zip(display.frame().index, display.artists_["means"], strict=True)
        for name, point in points:
            assert point.get_color() == ranks.artists_[name].get_color()
    plt.close("all")


def test_curves_of_a_page_have_styles_of_their_own_that_the_page_knows():
    rules = Path(_svg.__file__).with_name("templates") / "style.css"
    text = rules.read_text("utf-8")
    styles = [_svg.style_of(place) for place in range(40)]
    assert len(set(styles)) == 40
    for style in [*styles[10:], _svg.style_of(1000)]:
        colour, dashes = style.split()
        assert f".{colour} {{ --stroke" in text
        assert f".line.{dashes} {{ stroke-dasharray" in text
        assert f".dot.{dashes} {{" in text


def test_an_outlier_does_not_press_the_others_into_one_colour():
    saved = [[1.0], [0.9], [0.8], [-100.0]]
    display = RankingHeatmapDisplay(saved, list("abcd"), ["d"]).plot()
    shades = display.image_.get_array().ravel()
    assert shades[0] - shades[2] > 0.2
    assert (shades[3], shades[0]) == (0, 1)
    plt.close("all")


def test_preferred_readouts_have_colours_without_an_order():
    names = [["linear", "mlp"], ["knn", "linear"]]
    display = RankingHeatmapDisplay(
        names, ["a", "b"], ["c", "d"], kind="preferred-readout"
    ).plot()
    colours = {to_hex(c).upper() for c in display.image_.cmap.colors}
    assert colours == set(COLOURS[:3])
    legend = display.ax_.get_legend()
    assert legend.get_title().get_text() == "largest mean posterior"
    plt.close("all")


def test_an_interval_without_width_is_no_certainty():
    display = RankDisplay([[1, 2], [1, 2], [1, 2]], ["a", "b"], kind="intervals").plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts == ["too few datasets"] * 2
    plt.close("all")
