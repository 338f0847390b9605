"""The runner of benchmarks: rows, rounds and options; every benchmark has its help."""

import importlib
import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from each_case import for_each
from joblib import parallel_config
from numpy.testing import assert_array_equal

from benchmarks import _data, _stopping_rivals, _streams
from benchmarks.__main__ import (
    PREFIXES,
    benchmark_names,
    main,
    make_parser,
    rows_of,
    run,
)
from benchmarks._choice_tables import Kept
from benchmarks._data import feature_cells
from benchmarks.discriminants import with_tails
from benchmarks.races import training_work
from sklearn_mdl import KernelReadout, LinearReadout
from sklearn_mdl.readouts import _class_means


class Sums:
    """Sums of two numbers."""

    options = {"--scale": {"type": int, "default": 1}}
    params = [[1, 2], ["a", "b"]]
    param_names = ["number", "letter"]
    formats = {"track_sum": ".1f"}
    summarise = True

    def prepare(self):
        self.calls = []

    def has(self, number, letter):
        return (number, letter) != (2, "b")

    def setup(self, number, letter):
        self.length = len(letter)

    def track_sum(self, number, letter):
        self.calls.append((number, letter))
        return self.scale * (number + self.length)

    def time_nothing(self, number, letter):
        pass

    def report(self, table):
        print(f"{len(table)} rows")


def options(**changed):
    return {"scale": 1, "repeats": 1, "n_jobs": 1, **changed}


def test_rows_are_printed_with_summary_and_report(capsys):
    table = run(Sums(), options(scale=10))
    assert [row["track_sum"] for row in table.values()] == [[20], [20], [30]]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["number", "letter", "sum", "nothing"]
    assert [line[:3] for line in lines[1:4]] == [
        ["1", "a", "20.0"],
        ["1", "b", "20.0"],
        ["2", "a", "30.0"],
    ]
    assert lines[4][:2] == ["mean", "23.3"]
    assert lines[-1] == ["3", "rows"]


def test_work_of_a_race_counts_the_streams_that_replay(monkeypatch):
    monkeypatch.setattr("sklearn_mdl._core.stream.learner.FULL_REPLAY", 64)
    readouts = [
        LinearReadout(n_replay_streams=(4, 1)),
        LinearReadout(lr=0.1, n_replay_streams=2),
        LinearReadout(lr=0.1, n_replay_streams=2, ema_step_size=0.1),  # one training
        KernelReadout(),
    ]
    retired = SimpleNamespace(
        readouts_=readouts, retired_at_=np.array([-1, 32, 128, 8]), n_samples_seen_=160
    )
    # After 0, 32, 64, 96 and 128 rows 4, 4, 4, 4 and 3 streams replay.
    thinned, constant = 5 + 5 + 5 + 5 + 4, 5 * 3
    done, full = training_work(retired, lambda readout: 10)
    assert (done, full) == (10 * (thinned + 4 * 3), 10 * (thinned + constant))


def test_rounds_take_turns_after_one_that_does_not_count():
    sums = Sums()
    table = run(sums, options(repeats=2))
    rows = [(1, "a"), (1, "b"), (2, "a")]
    assert sums.calls == rows * 3
    assert list(table) == rows
    assert all(len(v) == 2 for row in table.values() for v in row.values())


def test_rows_may_run_in_parallel():
    with parallel_config("threading"):
        found = run(Sums(), options(n_jobs=2))
    assert [row["track_sum"] for row in found.values()] == [[2], [2], [3]]


def test_a_single_list_of_values_may_stand_alone():
    class One:
        params = (1, 2)

    assert rows_of(One()) == [(1,), (2,)]
    assert rows_of(object()) == [()]


def test_benchmarks_are_listed_without_being_imported(capsys):
    main([])
    text = capsys.readouterr().out
    for name in benchmark_names():
        assert re.search(rf"^  {name} ", text, re.MULTILINE)
    with pytest.raises(SystemExit) as exit_:
        main(["nothing"])
    assert exit_.value.code == 2


@pytest.mark.parametrize("name", benchmark_names())
def test_every_benchmark_has_help_for_its_tables(name, capsys):
    parser = make_parser(importlib.import_module(f"benchmarks.{name}"))
    tables = next((a.choices for a in parser._actions if a.choices), {})
    for table in [[], *([table] for table in tables)]:
        with pytest.raises(SystemExit) as exit_:
            parser.parse_args([*table, "--help"])
        assert exit_.value.code == 0
        assert "usage: python -m benchmarks" in capsys.readouterr().out


@pytest.mark.parametrize("name", benchmark_names())
def test_every_table_that_is_listed_can_be_run(name):
    module = importlib.import_module(f"benchmarks.{name}")
    own = [v for k, v in vars(module).items() if isinstance(v, type) and k[0] != "_"]
    tables = [v for v in own if v.__module__ == module.__name__]
    assert tables
    for table in tables:
        parts = (*PREFIXES, "prepare", "report")
        assert [m for m in dir(table) if m.startswith(parts)], table.__name__
        # Code of a base class may read an option of which the table has a method.
        for base in table.__mro__:
            for option in vars(base).get("options", ()):
                attribute = option.removeprefix("--").replace("-", "_")
                assert not callable(getattr(table, attribute, None)), option


def test_names_that_a_folder_of_features_lacks_are_refused(tmp_path):
    folder = tmp_path / "features"
    for name in ("one", "other"):
        (folder / name).mkdir(parents=True)
        np.save(folder / name / "pixels.npy", np.eye(4))
        np.save(folder / name / "labels.npy", [0, 1, 0, 1])
    assert list(feature_cells(folder)) == ["one/pixels", "other/pixels"]
    assert list(feature_cells(folder, ["other"], ["pixels"])) == ["other/pixels"]
    for names, known in [((["two"],), "['one', 'other']"), (([], ["x"]), "['pixels']")]:
        said = (
            f"{folder} must contain {names[-1][0]!r}, but contains only {known}; "
            "check the name, or pass another folder"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            feature_cells(folder, *names)
    said = (
        f"{folder} must contain 'two', but contains only ['one', 'other']; check the "
        "name, or pass another folder"
    )
    arguments = ["choice", str(folder), "--results", str(tmp_path / "values")]
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        main([*arguments, "--datasets", "two"])


@for_each(
    "arguments",
    [
        "choice features --methods probe",
        "drift made features --kinds sudden",
        "drift made features --contenders nets",
        "drift river --contenders tree",
        "gpu passes --lists net",
        "gpu passes --streams noise",
        "rivals --contenders SGD",
    ],
)
def test_unknown_names_are_refused_before_a_benchmark_runs(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments.split())
    assert f"invalid choice: '{arguments.split()[-1]}'" in capsys.readouterr().err


def test_heavy_tails_change_only_scores_that_are_not_cosines():
    rng = np.random.default_rng(0)
    products, squares = rng.normal(size=(2, 5, 3)), rng.gamma(9, size=(2, 5))
    given = products, squares, rng.gamma(9, size=(2, 3)), np.array([4, 2, 0])
    is_cosine = np.array([True, False])[:, None, None]
    plain, variances = _class_means.scores_of(*given, is_cosine)
    heavy, own = with_tails(4)(*given, is_cosine)
    assert heavy.shape == plain.shape
    assert_array_equal(own, variances)
    assert_array_equal(heavy[0], plain[0])
    assert (heavy[1, :, :2] != plain[1, :, :2]).all()
    assert not heavy[1, :, 2].any()


@pytest.mark.parametrize("kind", ["abrupt", "partial", "gradual", "recurring", "none"])
def test_streams_drift_by_their_rules(kind):
    X, y = np.arange(800.0)[:, None], np.arange(800) % 5
    rows, labels, changes = _streams.drifting(X, y, kind, 500, 60, seed=0)
    before = y[rows[:, 0].astype(int)]
    if kind == "none":
        assert not len(changes)
        assert_array_equal(labels, before)
        return
    assert np.diff([0, *changes, 500]).min() >= 60
    if kind != "gradual":
        assert_array_equal(labels[: changes[0]], before[: changes[0]])
    assert (labels != before)[changes[0] :].any()
    if kind == "recurring":  # the second change takes the first one back
        middle = slice(changes[1], changes[2])
        assert_array_equal(labels[middle], before[middle])


def test_segments_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"least 300 rows, .* need 1260 rows, got 1259"
    ):
        _streams.change_points(np.random.default_rng(0), 1259, 300)
    points = _streams.change_points(np.random.default_rng(0), 1260, 300)
    assert np.diff([0, *points, 1260]).min() >= 300


def test_saved_probes_are_only_used_for_the_same_encoders(tmp_path, monkeypatch):
    monkeypatch.setattr(_stopping_rivals, "CHECKPOINTS", [12])
    y = np.arange(1000) % 2
    one, other = np.random.default_rng(0).normal(size=(2, 1000, 2))
    right = _stopping_rivals.probed("d", {"a": one}, y, 0, tmp_path)
    again = _stopping_rivals.probed("d", {"a": other}, y, 0, tmp_path)
    assert_array_equal(again, right)
    both = _stopping_rivals.probed("d", {"a": one, "b": one}, y, 0, tmp_path)
    assert both.shape == (1, 2, 1000)
    said = "^'d' must have at least 1000 rows, got 60; remove it from the folder$"
    with pytest.raises(ValueError, match=said):
        _stopping_rivals.probed("d", {"a": one[:60]}, y[:60], 0, None)


def test_folders_have_the_encoders_and_scores_that_a_benchmark_needs(tmp_path):
    (tmp_path / "d").mkdir()
    for name in "ab":
        np.save(tmp_path / "d" / f"{name}.npy", np.arange(8.0)[:, None])
    np.save(tmp_path / "d" / "labels.npy", np.arange(8) % 2)
    assert [*_data.tables_of(tmp_path)] == ["d"]
    few = r"at least 3 encoders for 'd', but contains only \['a', 'b'\]; add "
    with pytest.raises(ValueError, match=few):
        _data.tables_of(tmp_path, 3)
    scored = Kept(["a"], {("d", 1000): [0.5]}, {}, {}, {}, {})
    with pytest.raises(ValueError, match="must contain 'b', but contains only"):
        _data.tables_of(tmp_path, 2, scored)


def test_tests_of_probes_need_two_encoders():
    said = (
        "^Tests need at least two encoders, got one; add the features of another "
        "encoder to the folder$"
    )
    with pytest.raises(ValueError, match=said):
        _stopping_rivals.tested(np.ones((15, 1, 1000), bool), 0.05, 0.1)


def test_long_streams_of_one_encoder_have_separate_panels(tmp_path, monkeypatch):
    path = Path(__file__).parents[1] / "docs/make_pareto.py"
    spec = importlib.util.spec_from_file_location("make_pareto", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = tmp_path / "rows.jsonl"
    cells = [("c/net-025_x", 10_000), ("d/net-050_x", 10_000), ("c/a", 9), ("d/a", 9)]
    rows = [
        {"key": [cell, n, "nets"], "found": {"nats": 1.0, "seconds": 2.0}}
        for cell, n in cells
    ]
    results.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(module, "RESULTS", results)
    assert module.panels() == {
        "2 cells\n9 rows": {"nets": (2.0, 4.0)},
        "c/net-025_x\n10,000 rows": {"nets": (1.0, 2.0)},
        "d/net-050_x\n10,000 rows": {"nets": (1.0, 2.0)},
    }
