"""The command line: files in, numbers and files out; bad input ends in one sentence."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest
from each_case import for_each
from numpy.testing import assert_allclose
from safetensors.numpy import save_file

import sklearn_mdl.cli._demo_ranking
import sklearn_mdl.cli._main
import sklearn_mdl.cli._options
import sklearn_mdl.datasets
from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RepresentationScorer,
    encode_labels,
    forward,
    frequency_codelength,
    uniform_codelength,
)
from sklearn_mdl.cli._main import COMMANDS as COMMAND_MODULES, main, make_parser
from sklearn_mdl.cli._options import parse_prior
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.report import RESULTS
from sklearn_mdl.switcher import StoredLosses, load_losses, save_losses
from sklearn_mdl.switching import kind_weights

N_SAMPLES, N_FEATURES = 60, 4
# What holds of any readouts is shown with those that cost a tenth of the default ones.
QUICK = ["--readouts", "closed-form"]
COMMANDS = ("demo", "rank", "race", "score", "remix", "encode", "decode", "shift")


def dataset(seed, n_classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, N_FEATURES)).astype(np.float32)
    y = np.digitize(X[:, 0], [-0.5, 0.5]) % n_classes
    return X, y


def write_study(root):
    (X, y), (X3, y3) = dataset(0, 2), dataset(1, 3)
    for name in ("two", "three"):
        (root / name).mkdir(parents=True)
    np.save(root / "two" / "good.npy", X)
    np.savez(root / "two" / "poor.npz", features=X[:, 1:])
    np.save(root / "two" / "labels.npy", y)
    save_file({"X": X3}, root / "three" / "good.safetensors")
    np.save(root / "three" / "poor.npy", X3[:, 1:])
    np.savez(root / "three" / "labels.npz", y=y3)
    return root


@pytest.fixture
def study(tmp_path):
    """Two datasets, two encoders, all formats."""
    return write_study(tmp_path / "features")


@pytest.fixture
def files(tmp_path):
    """Features and labels of one dataset."""
    X, y = dataset(0, 2)
    np.save(tmp_path / "features.npy", X)
    np.save(tmp_path / "labels.npy", y)
    return [str(tmp_path / "features.npy"), str(tmp_path / "labels.npy")]


def rank(study, *more):
    out = study.parent / "out"
    given = ["rank", str(study), "--out", str(out), "--n-jobs", "1", *more]
    return main(given), out


def quick_rank(study, *more):
    return rank(study, *QUICK, *more)


def quick_switcher(**options):
    return MDLReadoutSwitcher("closed-form", random_state=0, **options)


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """Rank a study once: its folder, that of its results, and both texts printed."""
    study = write_study(tmp_path_factory.mktemp("ranked") / "features")
    with (
        redirect_stdout(StringIO()) as printed,
        redirect_stderr(StringIO()) as bar,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sklearn_mdl.model_selection._running.LATE", 0.0)
        status, out = quick_rank(study)
    assert status == 0
    return study, out, printed.getvalue(), bar.getvalue()


@pytest.fixture
def ranked_copy(ranked, tmp_path):
    """A copy of the ranked study, whose cells may be lost."""
    shutil.copytree(ranked[0].parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "features"


def complaint(capsys, command):
    """Return the one line that a failed command leaves, after its bar if there is."""
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith("\n")
    line = err.splitlines()[-1]
    assert line.startswith(f"sklearn-mdl {command}: ")
    return line


def number(text, title):
    """Return the nats on the line with that title."""
    (line,) = [line for line in text.splitlines() if line.startswith(title)]
    return float(re.search(r"(-?[\d.]+) nats", line)[1])


# rank


def test_rank_gives_what_the_scorer_gives(study, capsys):
    (study / "three" / "poor.npy").unlink()
    (study / "two" / "poor.npz").unlink()
    status, out = rank(study, "--n-orders", "2", "--seed", "3", "--alpha", "0.05")
    assert status == 0
    settings = {"n_orders": 2, "random_state": 3, "alpha": 0.05}
    scorer = RepresentationScorer(**settings).fit(load_feature_directory(study))
    printed = capsys.readouterr().out
    assert scorer.summary() in printed
    assert "4 cells" in printed
    with (out / "cells.csv").open(newline="", encoding="utf-8") as file:
        found = [float(row["codelength"]) for row in csv.DictReader(file)]
    assert_allclose(found, scorer.order_codelengths_.ravel(), rtol=1e-5)


def test_rank_puts_good_features_before_poor_ones(ranked):
    _, out, _, _ = ranked
    with (out / "ranking.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["encoder"] for row in rows] == ["good", "poor"]
    assert [float(row["average_rank"]) for row in rows] == [1, 2]


def shown_in(folder):
    return sorted(str(p) for p in folder.glob("[!.]*") if p.is_file())


def test_rank_names_every_file_it_writes(ranked):
    _, out, printed, _ = ranked
    written = [
        line.split(" ", 1)[1] for line in printed.splitlines() if "wrote " in line
    ]
    assert sorted(written) == shown_in(out)
    assert {"cells.csv", "report.html"} <= {path.name for path in out.iterdir()}


def test_rank_shows_its_bar_apart_from_its_results(ranked):
    _, _, out, err = ranked
    assert "4/4" in err
    assert "cells: " not in out


def test_rank_shows_what_one_encoder_adds_to_another(study, capsys):
    status, out = quick_rank(study, "--pairs", "2")
    printed = capsys.readouterr().out
    assert status == 0
    assert re.search("^Adding .* to good saves", printed, re.MULTILINE)
    assert "What a second encoder adds" in (out / "report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--pairs", "1"], "--pairs must be at least 2, got 1; pass --pairs 3"),
        (
            ["--pairs", "3", "--time-budget", "9"],
            "--pairs cannot be combined with --time-budget, because a pair needs the "
            "same orders as its encoders; leave out --pairs or --time-budget",
        ),
    ],
)
def test_pairs_that_cannot_be_compared_are_refused(study, capsys, given, said):
    assert quick_rank(study, *given)[0] == 2
    assert capsys.readouterr().err == f"sklearn-mdl rank: {said}\n"


@pytest.mark.slow
def test_rank_takes_the_mixed_readouts(study, capsys):
    (study / "three" / "poor.npy").unlink()
    (study / "two" / "poor.npz").unlink()
    status, out = rank(study, "--readouts", "mixed")
    assert status == 0
    scorer = RepresentationScorer(MDLReadoutSwitcher("mixed"))
    scorer.fit(load_feature_directory(study))
    assert scorer.summary() in capsys.readouterr().out
    kept = json.loads((out / "cells.json").read_text())
    assert kept["settings"]["switcher"] == "MDLReadoutSwitcher(readouts='mixed')"
    cell = json.loads(next((out / "cells").glob("two-good-*.json")).read_text())
    assert "LogisticRegression refitted" in str(cell)


@pytest.mark.slow
def test_cells_of_some_readouts_never_serve_others(ranked_copy, capsys):
    assert quick_rank(ranked_copy, "--readouts", "mixed", "--dry-run")[0] == 0
    assert "4 cells to run" in capsys.readouterr().out
    assert quick_rank(ranked_copy, "--dry-run")[0] == 0
    assert "All cells are scored." in capsys.readouterr().out


def test_rank_without_labels_is_refused(study, capsys):
    (study / "two" / "labels.npy").unlink()
    assert rank(study)[0] == 2
    assert "two must hold the labels" in complaint(capsys, "rank")


def test_rank_refuses_real_labels_beside_classes(study, capsys):
    np.save(study / "two" / "labels.npy", np.linspace(0, 1, N_SAMPLES))
    assert rank(study, "--readouts", "closed-form")[0] == 2
    cure = "rank one kind at a time with --datasets D"
    said = complaint(capsys, "rank")
    assert f"those of dataset 'two' are real numbers; {cure}" in said


def test_groups_in_a_file_of_another_kind_are_not_ignored(study, capsys):
    (study / "two" / "groups.csv").write_text("patient\n1\n")
    assert rank(study, "--readouts", "closed-form")[0] == 2
    said = complaint(capsys, "rank")
    assert "must hold groups.npy, groups.npz or groups.safetensors, but it has" in said
    path = str(study / "two" / "groups.npy")
    assert said.endswith(f"'groups.csv'; call np.save({path!r}, groups)")


def test_rank_refuses_the_accuracy_of_rows_in_groups_before_it_runs(study, capsys):
    n_rows = len(np.load(study / "two" / "labels.npy"))
    np.save(study / "two" / "groups.npy", np.arange(n_rows) // 2)
    status, out = rank(study, "--accuracy")
    assert status == 2
    assert not out.exists()
    assert "'two' has groups; leave out --accuracy" in complaint(capsys, "rank")


def test_rank_names_the_dataset_whose_labels_are_missing(study, capsys):
    y = np.load(study / "two" / "labels.npy").astype(float)
    y[3] = np.nan
    np.save(study / "two" / "labels.npy", y)
    assert rank(study)[0] == 2
    assert (
        "'two' must hold a label for every row, but Input y contains NaN in row 3"
        in complaint(capsys, "rank")
    )


def test_rank_with_a_missing_encoder_is_refused(study, capsys):
    (study / "two" / "poor.npz").unlink()
    assert rank(study)[0] == 2
    line = complaint(capsys, "rank")
    assert "'two' lacks ['poor']" in line
    assert "drop" in line


def test_rank_drops_incomplete_datasets_on_request(study, capsys):
    (study / "two" / "poor.npz").unlink()
    with pytest.warns(UserWarning, match=r"Dropped .*'two' lacks \['poor'\]"):
        status, out = quick_rank(study, "--missing", "drop")
    assert status == 0
    cells = json.loads((out / "cells.json").read_text())["cells"]
    assert {cell["dataset"] for cell in cells} == {"three"}
    assert "two: 60 examples" not in capsys.readouterr().out


@for_each("name", sorted(RESULTS))
def test_rank_refuses_to_replace_a_file_of_another_program_before_it_runs(
    name, study, capsys, tmp_path
):
    out = tmp_path / "other"
    out.mkdir()
    (out / name).write_text("mine", encoding="utf-8")
    assert main(["rank", str(study), "--out", str(out), "--accuracy"]) == 2
    assert "new or written by sklearn_mdl" in complaint(capsys, "rank")
    assert [path.name for path in out.iterdir()] == [name]


def test_rank_of_no_directory_is_refused(study, capsys):
    assert rank(study / "nowhere")[0] == 2
    assert "nowhere" in complaint(capsys, "rank")


def test_rank_of_an_empty_directory_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert rank(tmp_path / "empty")[0] == 2
    assert "one folder per dataset" in complaint(capsys, "rank")


def test_rank_names_the_file_whose_numbers_are_not_finite(study, capsys):
    X, _ = dataset(0, 2)
    X[7, 2] = np.nan
    np.save(study / "two" / "good.npy", X)
    assert rank(study)[0] == 2
    assert "encoder 'good' on dataset 'two'" in complaint(capsys, "rank")


def numbers_of(path):
    """Return the rows of a table, but for how long they took."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {name: text for name, text in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


def test_rank_scores_missing_cells_and_nothing_else(ranked_copy, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.model_selection._running.LATE", 0.0)
    out = ranked_copy.parent / "out"
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    lost = next((out / "cells").glob("two-good-*.json"))
    lost.unlink()
    before = numbers_of(out / "ranking.csv")
    assert quick_rank(ranked_copy)[0] == 0
    out_text, err = capsys.readouterr()
    assert f"saved cells in {out / 'cells'}" in out_text
    assert "3/4" in err
    assert numbers_of(out / "ranking.csv") == before
    again = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert again.keys() == kept.keys()
    scored = {name for name in again if again[name] != kept[name]}
    assert scored == {lost.name, lost.with_suffix(".safetensors").name}


def test_dry_run_lists_cells_and_scores_nothing(study, capsys):
    status, out = quick_rank(study, "--dry-run", "--n-orders", "3")
    assert status == 0
    text, err = capsys.readouterr()
    assert not out.exists()
    assert "12 cells to run, 1 in parallel: about" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["two", "good", "60", "x", "4", "2", "3", "0"] in [li[:8] for li in lines]
    assert err == ""


def test_rank_also_ranks_groups_apart(study, capsys):
    status, out = quick_rank(
        study, "--dataset-group", "small=two", "--dataset-group", "all=two,three"
    )
    assert status == 0
    text = capsys.readouterr().out
    assert "Average ranks on small\n" in text
    assert "Average ranks on all\n" in text
    groups = json.loads((out / "statistics.json").read_text())["groups"]
    assert groups["small"]["datasets"] == ["two"]
    assert sorted(groups["all"]["datasets"]) == ["three", "two"]


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("two", "NAME=DATASET,..."),
        ("=two", "NAME=DATASET,..."),
        ("a=", "NAME=DATASET,..."),
        ("a=four", "'a' holds 'four'"),
    ],
)
def test_rank_refuses_groups_that_are_none(study, capsys, group, message):
    assert rank(study, "--dataset-group", group)[0] == 2
    assert message in complaint(capsys, "rank")


def test_rank_refuses_a_group_given_twice(study, capsys):
    assert rank(study, "--dataset-group", "a=two", "--dataset-group", "a=three")[0] == 2
    said = complaint(capsys, "rank")
    assert "must be NAME=DATASET,..., with each NAME once, got 'a=three'; for " in said
    assert "example, pass --dataset-group natural=cifar100,svhn" in said


def test_rank_writes_a_page(ranked):
    _, out, _, _ = ranked
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert "2 encoders on 2 datasets" in page


@pytest.mark.parametrize(
    "wrong",
    [
        ["--n-orders", "0"],
        ["--alpha", "2"],
        ["--seed", "-1"],
        ["--n-jobs", "0"],
    ],
    ids=" ".join,
)
def test_rank_refuses_settings_out_of_range(study, capsys, wrong):
    assert rank(study, *wrong)[0] == 2
    name = {"--seed": "random_state"}.get(wrong[0], wrong[0][2:].replace("-", "_"))
    assert name in complaint(capsys, "rank")


def test_rank_refuses_an_unusable_directory_before_it_scores(study, capsys):
    (study.parent / "out").write_text("a file")
    assert rank(study)[0] == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "cells" not in err
    assert "out must be a folder, but" in err
    assert "out" in err
    assert len(err.splitlines()) == 1


# score


def test_score_prints_the_codelength_of_the_switcher(files, capsys):
    assert main(["score", *files, "--seed", "3"]) == 0
    X, y = dataset(0, 2)
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=3).fit(X, y)
    text = capsys.readouterr().out
    uniform = uniform_codelength(N_SAMPLES, 2)
    saved = uniform - switcher.codelength_
    best = int(np.argmin(switcher.readout_codelengths_))
    expected = {
        "pooled": switcher.codelength_,
        "switching": switcher.switching_codelength_,
        "uniform code": uniform,
        "label frequencies": frequency_codelength(y[switcher.order_], 2),
        "labels alone": switcher.reference_codelengths_.sum(),
        "saved": saved,
        "best readout": switcher.readout_codelengths_[best],
    }
    for title, nats in expected.items():
        assert number(text, title) == pytest.approx(nats, abs=0.0501)
    assert f"{N_SAMPLES} examples, {N_FEATURES} features, 2 classes" in text
    assert text.rstrip().endswith(switcher.readout_names_[best])
    assert f"{switcher.codelength_ / N_SAMPLES:.4f} per example" in text
    assert f"compression {uniform / switcher.codelength_:.2f}" in text


def test_score_keeps_the_order_on_request(files, capsys):
    X, y = dataset(0, 2)
    switcher = quick_switcher().fit(X, y)
    main(["score", *files, *QUICK, "--keep-order"])
    kept = number(capsys.readouterr().out, "pooled")
    assert kept == pytest.approx(switcher.codelength_, abs=0.0501)
    main(["score", *files, *QUICK])
    assert number(capsys.readouterr().out, "pooled") != kept


def test_score_warns_of_sorted_labels_that_keep_their_order(files, capsys):
    np.save(files[1], np.arange(N_SAMPLES) // 30)
    with pytest.warns(UserWarning, match="grouped by class"):
        assert main(["score", *files, *QUICK, "--keep-order"]) == 0


@pytest.mark.parametrize("name", ["fixed-share", "bayes", "elementwise"])
def test_score_takes_a_prior_by_name(files, capsys, name):
    assert main(["score", *files, *QUICK, "--switching", name]) == 0
    X, y = dataset(0, 2)
    switcher = quick_switcher(shuffle=True).fit(X, y)
    nats = number(capsys.readouterr().out, "switching")
    assert nats == pytest.approx(switcher.remix(name).codelength, abs=0.0501)


def test_score_takes_the_mixed_readouts(files, tmp_path, capsys):
    losses = str(tmp_path / "losses.npy")
    assert main(["score", *files, "--readouts", "mixed", "--losses", losses]) == 0
    expected = MDLReadoutSwitcher("mixed", shuffle=True, random_state=0)
    expected.fit(*dataset(0, 2))
    text = capsys.readouterr().out
    assert_allclose(number(text, "pooled"), expected.codelength_, atol=0.06)
    assert load_losses(losses).readouts == expected.readout_names_


@pytest.mark.parametrize("command", ["score", "rank", "encode", "decode"])
def test_unknown_readouts_are_refused_by_name(command, capsys):
    more = ["--out", "out"] if command != "score" else []
    given = ["a"] if command == "rank" else ["a", "b"]
    with pytest.raises(SystemExit) as exit_:
        main([command, *given, *more, "--readouts", "best"])
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert "--readouts" in error
    assert "closed-form" in error
    assert "mixed" in error


def test_score_names_the_priors_there_are(files, capsys):
    assert main(["score", *files, "--switching", "sometimes"]) == 2
    line = complaint(capsys, "score")
    for name in ("sometimes", "fixed-share", "bayes", "elementwise"):
        assert name in line


def test_score_names_the_file_whose_numbers_are_not_finite(files, capsys):
    X, _ = dataset(0, 2)
    X[0, 0] = np.inf
    np.save(files[0], X)
    assert main(["score", *files]) == 2
    line = complaint(capsys, "score")
    assert "must be finite" in line
    assert files[0] in line


def test_score_takes_labels_that_are_words(files, capsys):
    main(["score", *files, *QUICK])
    numbers = capsys.readouterr().out
    np.save(files[1], np.array(["a", "b"])[np.load(files[1])])
    assert main(["score", *files, *QUICK]) == 0
    assert capsys.readouterr().out == numbers


@pytest.mark.parametrize("which", [0, 1], ids=["features", "labels"])
def test_score_of_no_file_is_refused(files, capsys, which):
    files[which] += ".npy"
    assert main(["score", *files]) == 2
    assert files[which] in complaint(capsys, "score")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(N_SAMPLES, int), "at least two classes"),
        (np.arange(N_SAMPLES - 1) % 2, "shape (60, 4) for 59 labels"),
        (np.r_[np.nan, np.ones(N_SAMPLES - 1)], "labels.npy holds nan in row 0"),
        (np.zeros((N_SAMPLES, 2), int), "shape"),
    ],
    ids=["one class", "too few", "NaN", "table"],
)
def test_score_refuses_labels_that_cannot_be_coded(files, capsys, labels, message):
    np.save(files[1], labels)
    assert main(["score", *files]) == 2
    assert message in complaint(capsys, "score")


def test_score_takes_a_prior_with_parameters(files, capsys):
    assert main(["score", *files, *QUICK, "--switching", "fixed-share:m=11"]) == 0
    X, y = dataset(0, 2)
    switcher = quick_switcher(shuffle=True).fit(X, y)
    nats = number(capsys.readouterr().out, "switching")
    assert nats == pytest.approx(switcher.remix(FixedShare(m=11)).codelength, abs=0.06)


def test_score_saves_the_losses_that_remix_reads(files, tmp_path, capsys):
    path = tmp_path / "losses.npy"
    assert main(["score", *files, *QUICK, "--losses", str(path)]) == 0
    scored = capsys.readouterr().out
    assert f"wrote {path}\n" in scored
    assert main(["remix", str(path), "--out", str(tmp_path)]) == 0
    mixed = capsys.readouterr().out
    assert number(mixed, "learned-share") == number(scored, "switching")
    for title in ("best readout", "uniform code"):
        assert number(mixed, title) == number(scored, title)
    X, y = dataset(0, 2)
    switcher = quick_switcher(shuffle=True).fit(X, y)
    assert load_losses(path).readouts == switcher.readout_names_
    np.testing.assert_array_equal(
        np.load(tmp_path / "learned-share-codelengths.npy"),
        switcher.switching_codelengths_,
    )


@pytest.mark.parametrize("name", ["none/losses.npy", "losses.npz", "features.json"])
def test_score_refuses_a_file_for_losses_before_the_run(files, tmp_path, capsys, name):
    assert main(["score", *files, "--losses", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1  # no bar
    assert name in err


# remix

READOUTS = [
    LinearReadout(lr=0.02, n_replay_streams=1),
    MLPReadout((6,), lr=0.02, n_replay_streams=1),
    LinearReadout(lr=0.01, n_replay_streams=1),
]
WEIGHTS = [1, 3, 0.5]


@pytest.fixture
def fitted(tmp_path):
    """A switcher, and the file with its losses."""
    switcher = MDLReadoutSwitcher(READOUTS, readout_weights=WEIGHTS, random_state=0)
    path, _ = switcher.fit(*dataset(0, 2)).save_losses(tmp_path / "losses.npy")
    return switcher, str(path)


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return head, np.array(rows, dtype=float)


def test_remix_prints_codelengths_under_every_prior(fitted, capsys):
    switcher, path = fitted
    priors = ["fixed-share", "bayes", "fixed-share:m=11", "elementwise"]
    assert main(["remix", path, *(a for p in priors for a in ("--prior", p))]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == (
        "60 examples, 3 readouts, 2 architectures, float64, "
        "evaluated under LearnedShare()"
    )
    assert number(text, "uniform code") == pytest.approx(60 * np.log(2), abs=0.051)
    best = int(np.argmin(switcher.readout_codelengths_))
    nats = switcher.readout_codelengths_[best]
    assert number(text, "best readout") == pytest.approx(nats, abs=0.0501)
    assert lines[2].endswith(switcher.readout_names_[best])
    assert len(lines) == 3 + len(priors)
    for prior, line in zip(priors, lines[3:], strict=True):
        trace = switcher.remix(parse_prior(prior))
        linear = trace.posterior[:, [0, 2]].sum(1).mean()
        most = f"mostly linear ({linear:.0%})"
        if linear < 0.5:
            most = f"mostly mlp 1x6 ({1 - linear:.0%})"
        assert line.startswith(f"{prior} ")
        assert number(line, prior) == pytest.approx(trace.codelength, abs=0.0501)
        assert f"{trace.codelength / 60:.4f} per example" in line
        assert line.endswith(most)


def test_remix_takes_learned_share_if_no_prior_is_named(fitted, capsys):
    switcher, path = fitted
    assert main(["remix", path]) == 0
    text = capsys.readouterr().out
    nats = number(text, "learned-share")
    assert nats == pytest.approx(switcher.codelength_, abs=0.06)
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize(
    ("which", "weights"),
    [
        ("uniform", None),
        ("stored", WEIGHTS),
        ("architecture", [0.25, 0.5, 0.25]),
    ],
)
def test_remix_takes_weights(fitted, tmp_path, capsys, which, weights):
    switcher, path = fitted
    out = tmp_path / "out" / "deep"
    command = ["remix", path, "--weights", which, "--prior", "bayes"]
    assert main([*command, "--out", str(out)]) == 0
    expected = forward("bayes", switcher.readout_losses_, weights)
    found = np.load(out / "bayes-codelengths.npy")
    np.testing.assert_array_equal(found, expected.codelengths)
    np.testing.assert_array_equal(kind_weights(["a", "b", "a"]), [0.25, 0.5, 0.25])


def test_remix_writes_codelengths_and_posteriors(fitted, tmp_path, capsys):
    switcher, path = fitted
    out = tmp_path / "out"
    priors = ["bayes", "learned-share:ms=(2,3)", "learned-share:ms=[2,3]"]
    command = ["remix", path, *(a for p in priors for a in ("--prior", p))]
    assert main([*command, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    written = [line[6:] for line in text.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == shown_in(out)
    ends = ("codelengths.npy", "posterior.csv", "posterior.png")
    stems = ("bayes", "learned-share_ms__2_3_", "learned-share_ms__2_3__")
    names = [f"{stem}-{end}" for stem in stems for end in ends]
    assert [Path(line).name for line in written] == names
    head, rows = table(out / "bayes-posterior.csv")
    assert head == ["examples seen", "linear", "mlp 1x6"]
    np.testing.assert_array_equal(rows[:, 0], np.arange(60))
    posterior = switcher.remix("bayes").posterior
    assert_allclose(rows[:, 1], posterior[:, [0, 2]].sum(1), rtol=1e-9)
    assert_allclose(rows[:, 2], posterior[:, 1], rtol=1e-9)
    for name in stems[1:]:
        found = np.load(out / f"{name}-codelengths.npy")
        expected = switcher.remix(parse_prior(priors[1])).codelengths
        np.testing.assert_array_equal(found, expected)


def long_losses(tmp_path, **about):
    losses = np.random.default_rng(0).exponential(size=(2500, 3)).astype("f4")
    (path, *_) = save_losses(
        tmp_path / "long.npy", StoredLosses(losses, **about), dtype="float32"
    )
    return str(path), losses


def test_remix_thins_what_it_writes(tmp_path, capsys):
    kinds = ["a, b", 'the "c"', "a, b"]
    path, losses = long_losses(tmp_path, architectures=kinds)
    assert main(["remix", path, "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2500 examples, 3 readouts, 2 architectures, float32\n")
    assert "uniform code" not in text
    head, rows = table(tmp_path / "out" / "learned-share-posterior.csv")
    assert head == ["examples seen", "a, b", 'the "c"']
    np.testing.assert_array_equal(rows[:, 0], np.arange(0, 2500, 4))
    trace = forward("learned-share", losses)
    assert_allclose(rows[:, 2], trace.posterior[::4, 1], rtol=1e-9)
    nats = number(text, "learned-share")
    assert nats == pytest.approx(trace.codelength, abs=0.0501)


def test_remix_counts_a_single_architecture(tmp_path, capsys):
    path, _ = long_losses(tmp_path, architectures=["linear"] * 3)
    assert main(["remix", path]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2500 examples, 3 readouts, 1 architecture, float32\n")


def test_remix_mixes_bare_losses(tmp_path, capsys):
    path, losses = long_losses(tmp_path)
    np.save(tmp_path / "bare.npy", losses)
    for file in (path, str(tmp_path / "bare.npy")):
        out = tmp_path / "out"
        assert main(["remix", file, "--prior", "bayes", "--out", str(out)]) == 0
        text = capsys.readouterr().out
        assert "3 readouts, unknown architectures, float32" in text
        trace = forward("bayes", losses, max_rows=1000)
        top = int(trace.posterior.mean(0).argmax())
        assert f"mostly readout {top} (" in text
        assert "no figures: these losses do not name the architectures" in text
        head, rows = table(out / "bayes-posterior.csv")
        assert head == ["examples seen", *(f"readout {i}" for i in range(3))]
        np.testing.assert_array_equal(rows[:, 0], trace.steps)
        assert_allclose(rows[:, 1:], trace.posterior, rtol=1e-9)
        assert not list(out.glob("*.png"))
        assert main(["remix", file, "--weights", "architecture"]) == 2
        assert "needs the architecture of each" in complaint(capsys, "remix")


def test_remix_says_that_figures_need_matplotlib(fitted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sklearn_mdl.cli._options, "find_spec", lambda name: None)
    assert main(["remix", fitted[1], "--out", str(tmp_path / "out")]) == 0
    assert 'pip install "sklearn-mdl[plot]"' in capsys.readouterr().out
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("fixed-share", {"m": None, "alpha": None}),
        ("fixed-share:m=11", {"m": 11}),
        ("fixed-share:alpha=0.01,redraw=False", {"alpha": 0.01, "redraw": False}),
        (
            "fixed-share: alpha = 1e-2 , redraw = False",
            {"alpha": 0.01, "redraw": False},
        ),
        ("learned-share:ms=(2,3)", {"ms": (2, 3)}),
        ("learned-share:ms=2,3", {"ms": (2, 3)}),
    ],
)
def test_priors_are_parsed(text, params):
    prior = parse_prior(text)
    found = prior.get_params()
    assert {name: found[name] for name in params} == params


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sometimes", "must be one of .*'bayes'.* got 'sometimes'"),
        ("", r"got ''; for example, pass 'learned-share'$"),
        ("fixed-share:", r"fixed-share:PARAM=VALUE,\.\.\. .* got ''"),
        ("fixed-share:11", "'alpha', 'm', .*got '11'"),
        ("fixed-share:n=11", "got 'n=11'; write fixed-share"),
        ("fixed-share:m=2,n=11", "got 'n=11'"),
        ("bayes:m=11", "must be given as bayes, got 'm=11'; write bayes"),
        ("fixed-share:m=0.5", "`m` must be a finite number of at least 1"),
        ("fixed-share:m=many", "`m` must .* got 'many'"),
        ("fixed-share:m=2,alpha=0.1", "`m` or `alpha`, not both"),
    ],
)
def test_remix_refuses_priors_in_a_sentence(fitted, capsys, text, words):
    assert main(["remix", fitted[1], "--prior", "bayes", "--prior", text]) == 2
    line = complaint(capsys, "remix")
    assert re.search(words, line)


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_remix_refuses_losses_that_are_no_numbers(fitted, capsys, wrong):
    losses = np.load(fitted[1])
    losses[5, 1] = wrong
    np.save(fitted[1], losses)
    assert main(["remix", fitted[1]]) == 2
    line = complaint(capsys, "remix")
    assert f"got {wrong} in 'mlp 1x6" in line


def test_remix_takes_labels_that_a_readout_holds_impossible(fitted, capsys):
    losses = np.load(fitted[1])
    losses[5, 1] = np.inf
    np.save(fitted[1], losses)
    assert main(["remix", fitted[1]]) == 0
    assert "inf" not in capsys.readouterr().out


def test_remix_refuses_a_file_without_examples(tmp_path, capsys):
    save_losses(tmp_path / "none.npy", np.ones((0, 3)))
    assert main(["remix", str(tmp_path / "none.npy")]) == 2
    assert "cover at least one example" in complaint(capsys, "remix")


def test_remix_refuses_files_in_a_sentence(fitted, tmp_path, capsys):
    assert main(["remix", str(tmp_path / "nowhere.npy")]) == 2
    assert "nowhere.npy" in complaint(capsys, "remix")
    assert main(["remix", str(tmp_path / "losses.json")]) == 2
    assert "ends in .npy, got" in complaint(capsys, "remix")
    np.save(fitted[1], np.ones((3, 4)))
    assert main(["remix", fitted[1]]) == 2
    assert "with a matching description" in complaint(capsys, "remix")


def test_remix_refuses_a_prior_for_short_streams_before_it_mixes(fitted, capsys):
    priors = ["--prior", "bayes", "--prior", "universal-share:max_steps=59"]
    assert main(["remix", fitted[1], *priors]) == 2
    assert "max_steps" in complaint(capsys, "remix")


def test_remix_refuses_an_unusable_directory_before_it_mixes(fitted, capsys):
    assert main(["remix", fitted[1], "--out", fitted[1]]) == 2
    assert "losses.npy" in complaint(capsys, "remix")


# encode and decode


@pytest.fixture
def message(files, tmp_path):
    """Features, labels and where their message lies."""
    path = str(tmp_path / "labels.mdl")
    assert main(["encode", *files, *QUICK, "--out", path]) == 0
    return [*files, path]


def bits(text, title):
    """Return the bits on the line with that title."""
    (line,) = [line for line in text.splitlines() if line.startswith(title)]
    return float(re.search(r" ([\d.]+) bits", line)[1])


def test_encode_prints_payload_and_header_apart_beside_the_codelength(
    files, tmp_path, capsys
):
    X, y = dataset(0, 2)
    fitted = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    path = tmp_path / "labels.mdl"
    assert main(["encode", *files, "--out", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"wrote {path}\n")
    size = 8 * len(path.read_bytes())
    assert bits(out, "payload") + bits(out, "header") == size
    assert_allclose(bits(out, "codelength"), fitted.codelength_ / np.log(2), atol=0.06)
    assert abs(bits(out, "payload") - bits(out, "codelength")) <= 64
    assert bits(out, "uniform code") == N_SAMPLES


def test_decode_writes_the_labels_as_they_were(message, tmp_path, capsys):
    features, labels, path = message
    Path(labels).unlink()
    out = tmp_path / "decoded.npy"
    assert main(["decode", *QUICK, features, path, "--out", str(out)]) == 0
    assert f"{N_SAMPLES} labels, 2 classes\nwrote {out}\n" in capsys.readouterr().out
    y = dataset(0, 2)[1]
    assert np.load(out).dtype == y.dtype
    assert np.load(out).tolist() == y.tolist()


def test_labels_coded_by_mixed_readouts_are_decoded_by_these_alone(
    files, tmp_path, capsys
):
    path, out = str(tmp_path / "labels.mdl"), str(tmp_path / "decoded.npy")
    mixed = ["--readouts", "mixed"]
    assert main(["encode", *files, "--out", path, *mixed]) == 0
    assert main(["decode", files[0], path, "--out", out, *mixed]) == 0
    np.testing.assert_array_equal(np.load(out), dataset(0, 2)[1])
    capsys.readouterr()
    assert main(["decode", files[0], path, "--out", f"{out}.npy"]) == 2
    assert "readouts" in complaint(capsys, "decode")


def test_one_file_may_hold_both_and_decode_does_not_read_the_labels(tmp_path):
    X, y = dataset(1, 3)
    both, path, out = (tmp_path / name for name in ("both.npz", "m", "decoded.txt"))
    np.savez(both, X=X, y=np.array(["a b", "ü", "c"])[y])
    options = ["--switching", "fixed-share:m=3", "--keep-order", "--seed", "4"]
    assert main(["encode", str(both), *QUICK, "-o", str(path), *options]) == 0
    np.savez(both, X=X, y=np.array([{}], dtype=object))  # to be read by nobody
    assert main(["decode", *QUICK, str(both), str(path), "-o", str(out), *options]) == 0
    assert out.read_text(encoding="utf-8").splitlines() == [
        ["a b", "ü", "c"][i] for i in y
    ]


def test_text_in_objects_is_written_without_pickling_it(files, tmp_path):
    X, y = dataset(0, 2)
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=0)
    names = np.array(["a", "bcd"], dtype=object)[y]
    path, out = tmp_path / "m", tmp_path / "decoded.npy"
    path.write_bytes(encode_labels(switcher, X, names))
    assert main(["decode", files[0], str(path), "-o", str(out)]) == 0
    assert np.load(out, allow_pickle=False).tolist() == names.tolist()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--seed", "1"], "settings.random_state is 1 here and 0 in the message"),
        (["--keep-order"], "settings.shuffle is False here and True"),
        (
            ["--switching", "bayes"],
            "settings.switching.class is 'BayesMixture' he",
        ),
        (["--switching", "often"], "A switching prior must be one of"),
    ],
)
def test_decode_with_other_settings_is_refused(
    message, tmp_path, capsys, options, what
):
    features, _, path = message
    out = tmp_path / "decoded.npy"
    assert main(["decode", *QUICK, features, path, "--out", str(out), *options]) == 2
    assert what in complaint(capsys, "decode")
    assert not out.exists()


def test_decode_refuses_a_damaged_message_and_files_that_are_none(
    message, tmp_path, capsys
):
    features, labels, path = message
    out = ["--out", str(tmp_path / "decoded.npy")]
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-1])
    for broken, what in [(path, "complete and unchanged"), (labels, "begins with")]:
        assert main(["decode", *QUICK, features, broken, *out]) == 2
        assert what in complaint(capsys, "decode")
    for none in (tmp_path / "none", tmp_path):
        assert main(["decode", *QUICK, features, str(none), *out]) == 2
        line = complaint(capsys, "decode")
        assert f"MESSAGE must be a file, got '{none}'" in line


@pytest.mark.parametrize("command", ["encode", "decode"])
def test_output_that_cannot_be_written_is_refused_before_the_run(
    message, tmp_path, capsys, command
):
    given = message[:2] if command == "encode" else message[::2]
    for out in (tmp_path / "no" / "x.npy", tmp_path):
        assert main([command, *given, *QUICK, "--out", str(out)]) == 2
        assert "must be a file in an existing folder" in complaint(capsys, command)


def test_decode_says_what_it_can_write(message, tmp_path, capsys):
    out = str(tmp_path / "labels.csv")
    assert main(["decode", *QUICK, *message[::2], "--out", out]) == 2
    assert ".npy or .txt, got" in complaint(capsys, "decode")


def test_labels_of_two_lines_are_no_text_file(files, tmp_path, capsys):
    X, y = dataset(0, 2)
    path = tmp_path / "m"
    switcher = quick_switcher(shuffle=True)
    path.write_bytes(encode_labels(switcher, X, np.array(["a", "b\nc"])[y]))
    out = str(tmp_path / "decoded.txt")
    assert main(["decode", *QUICK, files[0], str(path), "--out", out]) == 2
    assert "single lines" in complaint(capsys, "decode")


# demo


class Few:
    """Ranks small features in place of the demo."""

    def __init__(self):
        self.calls = []

    def __call__(self, **settings):
        self.calls.append(settings)
        X, y = dataset(0, 2)
        scorer = RepresentationScorer(MDLReadoutSwitcher([LinearReadout(lr=0.01)]))
        return scorer.fit({"d": ({"e": X}, y)})


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ([], {"n_orders": 3, "n_jobs": 2}),
        (["--n-orders", "1", "--n-jobs", "4"], {"n_orders": 1, "n_jobs": 4}),
    ],
    ids=["plain", "settings"],
)
def test_demo_writes_and_prints_its_ranking(
    tmp_path, capsys, monkeypatch, more, settings
):
    few = Few()
    monkeypatch.setattr(sklearn_mdl.cli._demo_ranking, "run_demo", few)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *more]) == 0
    assert few.calls == [settings]
    assert few().summary() in capsys.readouterr().out
    assert (tmp_path / "demo-results" / "cells.csv").is_file()


# The command line itself


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    example = text.partition("example:\n")[2].strip()
    assert example.startswith(f"sklearn-mdl {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_argument(command):
    commands = next(a for a in make_parser()._actions if a.choices)
    bare = [a.dest for a in commands.choices[command]._actions if not a.help]
    assert bare == []


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_commands_that_parse(command, capsys, monkeypatch):
    """Those of each command, and those of ``sklearn-mdl --help``."""
    ran = []
    for module in COMMAND_MODULES:
        monkeypatch.setattr(module, "run", ran.append)
    texts = [sklearn_mdl.cli._main.EXAMPLES]
    with pytest.raises(SystemExit):
        main([command, "--help"])
    texts.append(capsys.readouterr().out.partition("example:\n")[2])
    pattern = rf"^ +sklearn-mdl ({command} .*)$"
    examples = [e for text in texts for e in re.findall(pattern, text, re.MULTILINE)]
    assert len(examples) == 2
    for example in examples:
        assert main(example.split()) == 0
    assert [options.command for options in ran] == [command] * 2


def test_help_names_all_commands(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^ +{command} ", text, re.MULTILINE)
        assert f"  sklearn-mdl {command} " in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["rank"],
        ["score", "x.npy"],
        ["demo", "--fast"],
        ["remix"],
    ],
    ids=" ".join,
)
def test_what_does_not_parse_exits_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: sklearn-mdl" in capsys.readouterr().err


def test_a_missing_extra_is_one_sentence(files, capsys, monkeypatch):
    def miss(path):
        raise ImportError("this needs what is not installed; install it")

    monkeypatch.setattr(sklearn_mdl.datasets, "load_features", miss)
    assert main(["score", *files]) == 2
    assert complaint(capsys, "score").endswith("install it")


MEMORY = r"DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
LACKS = [
    MemoryError(),
    MemoryError("Unable to allocate 30. TiB"),
    RuntimeError(f"[enforce fail] .\n {MEMORY}."),
]


@pytest.mark.parametrize("error", LACKS)
def test_a_lack_of_memory_is_one_sentence(files, capsys, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr(sklearn_mdl.datasets, "load_features", fail)
    assert main(["score", *files]) == 2
    words = "More memory is needed than is available"
    assert complaint(capsys, "score").startswith(f"sklearn-mdl score: {words}")


def test_readouts_that_do_not_fit_are_refused_in_a_sentence(files, capsys, monkeypatch):
    module = sklearn_mdl.readouts._build
    monkeypatch.setattr(module, "memory_of", lambda device: 10**5)
    assert main(["score", *files]) == 2
    line = complaint(capsys, "score")
    assert line.startswith("sklearn-mdl score: The readouts need at least ")


def test_no_nesting_of_options_or_files_leaves_a_trace(fitted, capsys):
    deep = "[" * 5000 + "]" * 5000
    assert main(["remix", fitted[1], "--prior", f"fixed-share:m={deep}"]) == 2
    assert "must be" in complaint(capsys, "remix")
    Path(fitted[1]).with_suffix(".json").write_text("[" * 10**5)
    assert main(["remix", fitted[1]]) == 2
    assert "with a matching description" in complaint(capsys, "remix")


LINKS = {"itself": None, "a symlink": Path.symlink_to, "a hard link": Path.hardlink_to}
BOTH = ["features.npy", "labels.npy"]


@pytest.mark.usefixtures("files")
def test_encode_asks_for_labels_that_a_file_of_features_lacks(tmp_path, capsys):
    path = str(tmp_path / "features.npy")
    assert main(["encode", path, "--out", str(tmp_path / "labels.mdl")]) == 2
    text = "LABELS must be given for a .npy file, got none; add y.npy"
    assert complaint(capsys, "encode") == f"sklearn-mdl encode: {text}"


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "command",
    [
        ["score", *BOTH, "--losses", "features.npy"],
        ["score", *BOTH, "--losses", "labels.npy"],
        ["encode", *BOTH, "--out", "labels.npy"],
        ["decode", *BOTH, "--out", "labels.npy"],
        ["decode", *BOTH, "--out", "features.npy"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("files")
def test_no_output_replaces_what_is_read(tmp_path, capsys, monkeypatch, command, link):
    monkeypatch.chdir(tmp_path)
    *command, target = command
    out = Path(target)
    if LINKS[link]:
        out = Path("link.npy")
        LINKS[link](out, target)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main([*command, str(tmp_path / "." / out)]) == 2
    text = rf"Output must not replace the input '\S*{target}', got '\S*{out}'; pass"
    assert re.search(f"{text} another output path$", complaint(capsys, command[0]))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_remix_does_not_write_over_its_losses(fitted, tmp_path, capsys):
    _, losses = fitted
    save_losses(tmp_path / "bayes-codelengths.npy", load_losses(losses))
    given = ["remix", str(tmp_path / "bayes-codelengths.npy"), "--prior", "bayes"]
    assert main([*given, "--out", str(tmp_path)]) == 2
    assert "Output must not replace the input" in complaint(capsys, "remix")


@pytest.mark.parametrize("out", [".", "ranking", "two/more", "../features", "link"])
def test_rank_refuses_results_among_the_features(study, capsys, out):
    (study.parent / "link").symlink_to(study)
    place = study.parent / "link" if out == "link" else study / out
    before = sorted(study.rglob("*"))
    assert main(["rank", str(study), "--out", str(place)]) == 2
    assert "must go to a folder outside" in complaint(capsys, "rank")
    assert sorted(study.rglob("*")) == before


def test_rank_takes_no_empty_folder_for_a_dataset(study):
    (study / "__pycache__").mkdir()
    (study / "__pycache__" / "a.pyc").write_bytes(b"")
    (study / "empty").mkdir()
    assert list(load_feature_directory(study)) == ["three", "two"]


def test_rank_refuses_names_that_no_table_can_hold(study, capsys):
    try:
        (study / "two").rename(study / "tw\udcff")
    except OSError:
        pytest.skip("this file system knows no such names")
    assert rank(study)[0] == 2
    line = complaint(capsys, "rank")
    assert r"must be text that UTF-8 can encode, got 'tw\udcff'" in line
    assert not (study.parent / "out" / "cells").exists()


@pytest.mark.parametrize(
    ("command", "more"),
    [("rank", "; run it again to score the missing cells"), ("demo", "")],
)
def test_ctrl_c_leaves_one_line(command, more, tmp_path, capsys, monkeypatch):
    def interrupt(options):
        raise KeyboardInterrupt

    modules = {module.__name__.rpartition("_")[2]: module for module in COMMAND_MODULES}
    monkeypatch.setattr(modules[command], "run", interrupt)
    given = [str(tmp_path)] if command == "rank" else []
    assert main([command, *given, "--out", str(tmp_path)]) == 130
    assert complaint(capsys, command) == f"sklearn-mdl {command}: interrupted{more}"


def test_a_closed_pipe_ends_a_command_without_a_message(fitted):
    read, write = os.pipe()
    os.close(read)  # as `| head` does after its last line
    command = [sys.executable, "-m", "sklearn_mdl", "remix", fitted[1]]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_command_needs_no_standard_output_and_error(fitted, files, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # pythonw.exe, services
    assert main(["remix", fitted[1]]) == 0
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["score", *files]) == 0
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["score", "missing.npy", files[1]]) == 2


def test_a_fault_of_ours_is_not_hidden(files, monkeypatch):
    def fail(path):
        raise ZeroDivisionError

    monkeypatch.setattr(sklearn_mdl.datasets, "load_features", fail)
    with pytest.raises(ZeroDivisionError):
        main(["score", *files])


def test_the_installed_script_is_this_command_line():
    (script,) = entry_points(group="console_scripts", name="sklearn-mdl")
    assert script.load() is main


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "sklearn_mdl", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: sklearn-mdl")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), None),
        (("--readouts", "default"), MDLReadoutSwitcher()),
        (("--readouts", "nets"), MDLReadoutSwitcher("nets")),
        (("--device", "cpu"), MDLReadoutSwitcher(device="cpu")),
    ],
)
def test_rank_leaves_lists_to_the_scorer_unless_one_or_a_device_is_named(
    study, monkeypatch, given, expected
):
    made = []

    class Noted(RepresentationScorer):
        def __init__(self, switcher, **settings):
            made.append((switcher, settings["n_orders"]))
            raise ValueError("A scorer is made, and no more")

    monkeypatch.setattr(sklearn_mdl, "RepresentationScorer", Noted)
    assert rank(study, *given)[0] != 0
    assert repr(made) == repr([(expected, "auto")])


def test_the_command_line_prints_its_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"sklearn_mdl {sklearn_mdl.__version__}\n"


def test_names_are_printed_even_if_the_terminal_cannot_show_them(study):
    (study / "three").rename(study / "trois é")
    with redirect_stdout(TextIOWrapper(BytesIO(), encoding="ascii")) as printed:
        assert rank(study, "--dry-run", "--readouts", "linear")[0] == 0
        printed.flush()
    assert b"trois \\xe9" in printed.buffer.getvalue()
