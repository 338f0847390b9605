"""The benchmark of choosing encoders: its tasks, its measures and its store."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from benchmarks import (
    _agreement as agreement,
    _criteria as criteria,
    _text_data as text_data,
    _text_tables as text_tables,
    choice,
)
from benchmarks._choice_tables import Kept, print_tables, summarise

LISTS = ("linear", "closed-form")
LABELS = np.repeat([3, 1, 7, 5], [10, 40, 30, 30])


def test_a_task_has_as_many_classes_as_a_fifth_of_its_labels():
    assert [criteria.class_count(LABELS, n) for n in (5, 10, 15, 100)] == [2, 2, 3, 4]
    kept = [
        np.unique(LABELS[criteria.frequent_rows(LABELS, k)]).tolist() for k in (2, 3)
    ]
    assert kept == [[1, 5], [1, 5, 7]]  # of 5 and 7, equally frequent, the first


@pytest.mark.parametrize("n_labels", [10, 15])
def test_labels_are_drawn_of_those_that_are_not_kept_for_the_truth(n_labels):
    count = criteria.class_count(LABELS, n_labels)
    rows, test = criteria.split(LABELS, count)
    assert_array_equal(
        np.sort(np.r_[rows, test]), criteria.frequent_rows(LABELS, count)
    )
    assert len(test) == round(0.3 * (len(rows) + len(test)))
    draws = [criteria.drawn(LABELS, n_labels, draw) for draw in (0, 0, 1)]
    assert_array_equal(draws[0], draws[1])
    assert set(draws[0]) != set(draws[2])
    assert all(set(draw) <= set(rows) and len(set(draw)) == n_labels for draw in draws)
    said = "^--labels must be at most 77 on this dataset, got 78; pass smaller numbers$"
    with pytest.raises(ValueError, match=said):
        criteria.drawn(LABELS, 78, 0)


def test_measures_of_agreement_by_hand():
    truth = np.array([0.9, 0.8, 0.8, 0.5])
    scores = np.array([2.0, 2.0, 1.0, 3.0])
    # Pairs of unequal truth: 01 a draw, 02 right, 03 wrong, 13 wrong, 23 wrong.
    assert_allclose(agreement.better_named(scores, truth), 1.5 / 5)
    # Kendall's tau-b: 1 right, 3 wrong, 6 pairs, one tied in each.
    assert_allclose(agreement.tau(scores, truth), -2 / 5)
    assert_allclose(agreement.regret(scores, truth), 0.4)
    assert_allclose(agreement.regret(scores[:3], truth[:3]), 0.05)  # mean of two
    assert agreement.tau(np.zeros(4), truth) == 0
    assert agreement.better_named(truth, truth) == 1


def test_the_ceiling_is_the_agreement_of_halves():
    sure = np.zeros((3, 2, 40))
    sure[1, 0], sure[2, 1] = 0.5, 1  # whatever the half
    assert agreement.ceiling(sure, n_splits=3) == 1
    assert_allclose(agreement.best_of(sure), [0, 0.5, 1])
    rng = np.random.default_rng(0)
    chance = rng.integers(0, 2, (30, 1, 200)).astype(float)
    assert abs(agreement.ceiling(chance)) < 0.2


def test_intervals_are_students():
    assert np.isnan(agreement.interval([1.0]))
    # t of 0.95 with 2 degrees of freedom is 2.91999; sd 1, three values.
    assert_allclose(agreement.interval([1.0, 2.0, 3.0]), 2.91999 / 3**0.5, rtol=1e-5)


def test_scores_of_unseen_labels_are_floored():
    right, log_proba = criteria.scored(
        np.array([[0.2, 0.8], [1.0, 0.0]]), np.array([0, 2]), np.array([2, 1])
    )
    assert_array_equal(right, [1, 0])
    assert_allclose(log_proba, np.log([0.8 / 1.0001, 1e-4 / 1.0002]))


def test_the_effective_rank_of_equal_axes_is_their_number():
    assert_allclose(criteria.rank_me(3 * np.eye(7, 5)), 5, rtol=1e-5)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        place = tmp_path / "features" / name
        place.mkdir(parents=True)
        y = np.arange(60) % 3
        np.save(place / "labels.npy", y)
        for i, encoder in enumerate(list(criteria.PARAMETERS)[:2]):
            X = rng.normal(size=(60, 6)) + i * np.eye(3, 6)[y]
            np.save(place / f"{encoder}.npy", X.astype(np.float32))
    return tmp_path / "features"


def run(folder, results, **changed):
    benchmark = choice.Choice()
    settings = {"datasets": [], "labels": [20], "draws": 1, "no_run": False}
    settings |= {"methods": [], "fresh": False}
    given = {"features": folder, "results": results, "keep": False}
    for name, value in {**settings, **given, **changed}.items():
        setattr(benchmark, name, value)
    benchmark.prepare()
    return benchmark


@pytest.mark.slow
def test_a_run_that_was_ended_goes_on(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(choice, "STAGES", [(["closed-form", "logistic"], [0, 1])])
    monkeypatch.setattr(choice, "n_orders", lambda method, n_labels: 1)
    results = tmp_path / "results"
    whole = run(folder, results).collect()
    assert set(whole.scores) >= {"closed-form", "logistic accuracy", "size"}
    path = results / "values.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]) + lines[-2][:-2])  # torn in a method's values
    part = run(folder, results, no_run=True).collect()
    keys = [set(found.scores["logistic accuracy"]) for found in (whole, part)]
    assert keys[0] - keys[1] == {("two", 20, 0)}
    again = run(folder, results)
    monkeypatch.setattr(criteria, "rival", None)  # nothing is left to be run
    monkeypatch.setattr(criteria, "codes", None)
    assert_array_equal(
        run(folder, results).collect().scores["logistic accuracy"]["one", 20, 0],
        whole.scores["logistic accuracy"]["one", 20, 0],
    )
    text = choice.as_text(again.collect().to_json())
    kept = Kept.from_json(json.loads(text))
    print_tables(kept)
    printed = capsys.readouterr().out
    again.report({})
    assert capsys.readouterr().out == printed
    assert "all: one, two" in printed


def test_methods_run_later_stand_beside_what_is_kept(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "n_orders", lambda method, n_labels: 1)
    monkeypatch.setattr(choice, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(choice, "STAGES", [(["linear", "closed-form"], [0])])
    first = run(folder, tmp_path / "first").collect()
    choice.KEPT.write_text(choice.as_text(first.to_json()))
    monkeypatch.setattr(criteria, "truth", None)  # taken from the file
    later = run(folder, tmp_path / "later", methods=["linear"])
    assert not list((tmp_path / "later" / "truth").iterdir())
    both, kept = later.collect(), Kept.from_json(json.loads(choice.KEPT.read_text()))
    assert_array_equal(both.accuracy["one", 20], kept.accuracy["one", 20])
    for name in ("linear", "closed-form"):
        found, expected = both.scores[name]["one", 20, 0], kept.scores[name]
        assert_allclose(found, expected["one", 20, 0], rtol=1e-4)
    ranking = both.with_ranking().scores["ranking"]
    assert ranking.keys() == both.scores["linear x 4"].keys()
    other = {("one", 600, 0): np.zeros(2)}
    many = both._replace(scores={**both.scores, "closed-form x 4": other})
    found = many.with_ranking().scores["ranking"]
    assert set(found) == {*ranking, *other}


def test_fresh_draws_are_others_and_stand_alone(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(choice, "STAGES", [(["logistic"], [0])])
    first = run(folder, tmp_path / "first").collect()
    choice.KEPT.write_text(choice.as_text(first.to_json()))
    options = {"methods": ["logistic"], "fresh": True}
    fresh = run(folder, tmp_path / "fresh", **options).collect()
    assert {draw for _, _, draw in first.scores["logistic accuracy"]} == {0}
    assert {draw for _, _, draw in fresh.scores["logistic accuracy"]} == {5}
    assert_allclose(fresh.accuracy["one", 20], first.accuracy["one", 20], rtol=1e-4)


def test_summaries_are_of_draws_that_all_tasks_have():
    truth = {("a", 5): np.array([1, 2, 3]), ("b", 5): np.array([3, 2, 1])}
    up = np.array([1.0, 2.0, 3.0])
    table = {("a", 5, 0): up, ("b", 5, 0): up, ("a", 5, 1): up}
    found = summarise(table, truth, ["a", "b"], [5])
    assert_allclose(found.tau, [[0]])
    assert_allclose(found.regret, [[1]])
    assert_allclose(found.better, [[0.5]])
    assert_allclose(summarise(table, truth, ["a"], [5]).tau, [[1], [1]])


def test_the_auc_of_probes_is_one_where_classes_are_apart_and_a_half_by_chance():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    apart = rng.normal(size=(120, 3)) + 20 * np.eye(3)[y]
    assert criteria.rival("probes", apart, y)[0]["probes AUC"] == 1
    X = rng.normal(size=(120, 3))
    found, _ = criteria.rival("probes", X, y)
    assert 0.4 < found["probes AUC"] < 0.65  # the best of nine settings
    # Both kinds at once are as each alone.
    for kind in ("logistic", "neighbors"):
        for name, value in criteria.rival(kind, X, y)[0].items():
            assert found[f"probes {name}"] == value


def test_areas_of_probes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 3, 60), rng.random((60, 3)).round(1)  # with ties
    expected = np.mean([roc_auc_score(y == k, scores[:, k]) for k in range(3)])
    assert_allclose(criteria._auc(scores, np.arange(3), y), expected)


def test_rules_of_texts_join_lists_and_let_the_prior_fade():
    rows = {n: np.arange(3.0) + n for n in (50, 1000)}
    table = {("a", n, 0): own for n, own in rows.items()}
    titles = [f"{one} x 4{part}" for one in LISTS for part in ("", ", last half")]
    scores = dict.fromkeys(titles, table)
    rank = {key: np.array([2.0, 1.0, 0.0]) for key in table}
    truth = {("a", n): np.array([0.5, 0.7, 0.6]) for n in rows}
    right = dict.fromkeys(table, np.array([0.0, 0.3, 0.6]))
    others = {"RankMe": rank, "logistic accuracy": right}
    kept = Kept([*"xyz"], truth, truth, {}, {**scores, **others}, {})
    found = text_tables.with_rules(kept.with_ranking()).scores
    both = found["ranking and probe"]
    assert_allclose(both["a", 50, 0], rows[50] + 0.05 * np.array([0.0, 0.3, 0.6]))
    assert_allclose(both["a", 1000, 0], rows[1000] + np.array([0.0, 0.3, 0.6]))
    late = found["ranking, last half"]
    assert late.keys() == table.keys()
    prior = found["ranking and RankMe"]
    codes = np.sqrt(1.5) * np.array([-1.0, 0.0, 1.0])
    assert_allclose(prior["a", 50, 0], codes / 2)  # RankMe has half the weight
    assert_allclose(prior["a", 1000, 0], codes * (1 - 0.5 * np.sqrt(0.05)))


def test_choices_are_right_by_fresh_labels_and_later_by_accuracy():
    fresh, truth = np.array([3.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.9])
    shares = np.array([0.1, 0.8, 0.3])
    rows = text_tables.choices_of(
        lambda columns: shares[columns],
        fresh,
        truth,
        np.random.default_rng(0),
        n_subsets=0,
    )
    assert_allclose(rows, [[0.8, 1, 0.7]])


def test_texts_of_one_source_are_all_kept_apart_or_none():
    parts = text_data.parts()
    apart, others = ({text_data.family(n) for n in names} for names in parts.values())
    assert list(parts) == ["apart", "others"]
    assert not apart & others
    assert len(parts["apart"]) >= len(parts["others"])
