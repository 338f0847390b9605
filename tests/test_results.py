"""A ranking on disk: what is written reads back as what was found."""

import csv
import json
import platform
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import sklearn_mdl.report._report
from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.report import read_rows
from sklearn_mdl.report._tables import write_rows

ENCODERS = ("raw", "one, two")
DATASETS = ("first", "second", "third")
TABLES = [
    *("cells.csv", "ranking.csv", "scores.csv", "readouts.csv"),
    *("cells.json", "statistics.json"),
    *("ranking.tex", "codelengths.tex", "readouts.tex", "report.html"),
]


def rank(datasets=DATASETS, encoders=ENCODERS, **settings):
    X, y = make_blobs(40, 3, centers=2, random_state=0)
    features = {name: X[:, : 3 - e % 3] for e, name in enumerate(encoders)}
    readouts = [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]
    scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), **settings)
    return scorer.fit(dict.fromkeys(datasets, (features, y)))


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load_json(path):
    """Parse as strictly as other languages do: NaN is no JSON."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.fixture(scope="module")
def scorer():
    return rank(n_orders=2)


@pytest.fixture(scope="module")
def written(scorer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "deep" / "down"
    return folder, write_results(scorer, folder)


LIST = ".sklearn_mdl"  # the names of our files in a folder


def test_it_writes_what_it_says_and_lists_it(written):
    folder, paths = written
    assert sorted(folder.iterdir()) == sorted([*paths, folder / LIST])
    assert (folder / LIST).read_text().splitlines() == ["list 1", *sorted(TABLES)]
    assert [path.name for path in paths] == TABLES


def test_the_table_of_cells_reads_back(written, scorer):
    rows = rows_of(written[0] / "cells.csv")
    frame = scorer.to_frame()
    assert list(rows[0]) == list(frame.columns)
    for row, (_, expected) in zip(rows, frame.iterrows(), strict=True):
        for name, value in expected.items():
            assert type(value)(row[name]) == value


def test_the_scores_read_back_in_long_form(written, scorer):
    rows = rows_of(written[0] / "scores.csv")
    assert list(rows[0]) == ["model", "dataset", "metric", "score"]
    for row in rows:
        d, e = DATASETS.index(row["dataset"]), ENCODERS.index(row["model"])
        saved = scorer.savings_per_example("labels")[d, e]  # as on the page
        assert float(row["score"]) == saved
        assert row["metric"] == "saved_nats_per_label"
    assert len(rows) == len(DATASETS) * len(ENCODERS)


def test_the_ranking_reads_back(written, scorer):
    rows = rows_of(written[0] / "ranking.csv")
    bounds = ["lower", "upper", "p_best"]
    beside = ["savings_over_labels", "accuracy", "n_features", "seconds"]
    assert list(rows[0]) == ["encoder", "average_rank", *bounds, *beside, *DATASETS]
    found = scorer.rank_intervals()
    ranks = [float(row["average_rank"]) for row in rows]
    assert ranks == sorted(scorer.average_ranks_)
    assert {row["encoder"] for row in rows} == set(ENCODERS)
    for row in rows:
        e = scorer.encoder_names_.index(row["encoder"])
        assert float(row["average_rank"]) == scorer.average_ranks_[e]
        assert [float(row[name]) for name in bounds] == [
            getattr(found, name)[e] for name in bounds
        ]
        saved = scorer.savings_per_example("labels")[:, e].mean()
        assert float(row["savings_over_labels"]) == saved
        assert float(row["accuracy"]) == scorer.accuracies_[:, e].mean()
        assert row["n_features"] == str(3 - e)
        assert float(row["seconds"]) > 0
        nats = [float(row[name]) for name in DATASETS]
        assert_allclose(nats, scorer.codelengths_[:, e] / 40)


def test_the_record_of_cells_reads_back(written, scorer):
    found = load_json(written[0] / "cells.json")
    assert found["unit"] == "nats"
    assert found["critical_difference"] == scorer.critical_difference_
    assert len(found["cells"]) == len(scorer.cells_) == 12
    for record, cell in zip(found["cells"], scorer.cells_, strict=True):
        for name in ("dataset", "encoder", "order", "n_samples", "codelength"):
            assert record[name] == getattr(cell, name)
        assert record["readouts"] == cell.readouts
        assert list(record["readouts"]) == ["linear", "mlp 1x4"]
        assert record["diverged"] == []
        posterior = record["mean_posterior"]
        assert list(posterior) == ["linear", "mlp 1x4"]
        assert_allclose(list(posterior.values()), cell.posterior.mean(0))
        assert_allclose(sum(posterior.values()), 1)


def test_the_record_names_settings_and_versions(written, scorer):
    found = load_json(written[0] / "cells.json")
    settings = scorer.get_params(deep=False)
    for name in ("results", "n_jobs", "verbose"):  # no number depends on them
        del settings[name]
    assert found["settings"] == {name: repr(value) for name, value in settings.items()}
    assert found["settings"]["n_orders"] == "2"
    assert "LinearReadout(lr=0.01)" in found["settings"]["switcher"]
    assert list(found["switchers"]) == list(DATASETS)
    readouts = found["switchers"]["first"]["readouts"]
    assert [entry["class"] for entry in readouts] == ["LinearReadout", "MLPReadout"]
    assert [entry["params"]["lr"] for entry in readouts] == [0.01, 0.01]
    assert found["python"] == platform.python_version()
    assert found["versions"]["sklearn_mdl"] == sklearn_mdl.__version__
    for name in ("torch", "skorch", "scikit-learn", "numpy", "scipy"):
        assert found["versions"][name].partition("+")[0] == version(name)


def test_recorded_switchers_give_the_recorded_codelengths(tmp_path):
    X, labels = make_blobs(60, 3, centers=3, cluster_std=4.0, random_state=0)
    datasets = {"classes": ({"a": X}, labels), "reals": ({"a": X}, X @ [1, 2, 3] + 0.5)}
    write_results(RepresentationScorer().fit(datasets), tmp_path)
    found = load_json(tmp_path / "cells.json")
    kinds = {"classes": MDLReadoutSwitcher, "reals": MDLReadoutSwitcherRegressor}
    for name, settings in found["switchers"].items():
        again = RepresentationScorer(kinds[name](**settings)).fit(
            {name: datasets[name]}
        )
        cells = [cell for cell in found["cells"] if cell["dataset"] == name]
        assert again.cells_[0].codelength == cells[0]["codelength"]


def test_a_single_encoder_has_no_critical_difference(tmp_path):
    write_results(rank(DATASETS[:1], ENCODERS[:1]), tmp_path)
    assert load_json(tmp_path / "cells.json")["critical_difference"] is None


def test_without_jinja_the_page_is_left_out(scorer, tmp_path, monkeypatch):
    monkeypatch.setattr(sklearn_mdl.report._report, "find_spec", lambda name: None)
    words = r'pip install "sklearn-mdl\[report\]"'
    with pytest.warns(UserWarning, match=words) as caught:
        paths = write_results(scorer, tmp_path)
    assert caught[0].filename == __file__
    assert [path.name for path in paths] == TABLES[:-1]
    assert sorted(tmp_path.iterdir()) == sorted([*paths, tmp_path / LIST])


def test_our_files_of_the_same_names_are_replaced(scorer, tmp_path):
    for name in TABLES:
        (tmp_path / name).write_text("an older and much longer result\n" * 1000)
    (tmp_path / LIST).write_text("\n".join(["list 1", *TABLES]))
    (tmp_path / "notes.txt").write_text("mine")
    write_results(scorer, tmp_path)
    assert len(rows_of(tmp_path / "cells.csv")) == 12
    assert len(load_json(tmp_path / "cells.json")["cells"]) == 12
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_unfitted_ranking_leaves_nothing(tmp_path):
    with pytest.raises(NotFittedError):
        write_results(RepresentationScorer(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# What a spreadsheet takes for the beginning of a formula.
SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n")


@pytest.mark.parametrize(
    "name",
    [
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        "../outside",
        "/outside",
        "a/b",
        "a\\b",
        "two words",
        "",
        "..",
        ".hidden",
        "x" * 300,
        'quote " and, comma',
        "line\nbreak",
        "naïve Übung",
        "half $ and $x^$",
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_odd_names_stay_inside_the_directory(tmp_path, name):
    folder = tmp_path / "a" / "b"
    paths = write_results(rank([name], ENCODERS[:1]), folder)
    assert set(tmp_path.rglob("*.*")) == {*paths, folder / LIST}
    head, row, *_ = read_rows(folder / "cells.csv")
    assert row[head.index("dataset")] == name
    assert name in read_rows(folder / "ranking.csv")[0]
    assert name in read_rows(folder / "readouts.csv")[0]


@given(names=st.lists(st.text(), min_size=1, max_size=4), sign=st.sampled_from(SIGNS))
def test_no_cell_of_a_table_is_a_formula_and_names_come_back(
    tmp_path_factory, names, sign
):
    path = tmp_path_factory.getbasetemp() / "table.csv"
    names = [*names, sign + names[0], "'" + sign + names[0]]
    write_rows(path, names, [[*names, -1.5]])
    with path.open(newline="", encoding="utf-8") as file:
        head, row = csv.reader(file)
    assert row == [*head, "-1.5"]
    assert not any(name.startswith(SIGNS) for name in head)
    assert read_rows(path) == [names, [*names, "-1.5"]]


def test_a_dataset_may_be_called_like_a_column(tmp_path):
    scorer = rank(["encoder", "average_rank", "third"])
    write_results(scorer, tmp_path)
    with (tmp_path / "ranking.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    names = ["encoder", "average_rank"]
    beside = ["savings_over_labels", "accuracy", "n_features", "seconds"]
    assert head == [*names, "lower", "upper", "p_best", *beside, *names, "third"]
    assert {row[0] for row in rows} == set(ENCODERS)
    per_example = np.array([row[9:] for row in rows], dtype=float)
    assert_allclose(np.sort(per_example, 0), np.sort(scorer.codelengths_.T / 40, 0))
