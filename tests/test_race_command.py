"""``sklearn-mdl race``: labels of a file that grows or of standard input."""

import re
from argparse import Namespace
from io import StringIO

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from sklearn_mdl.cli import _race
from sklearn_mdl.cli._main import main
from sklearn_mdl.model_selection import EncoderRace

N_ROWS = 70


@pytest.fixture
def study(tmp_path):
    X, y = make_blobs(N_ROWS, 4, centers=3, cluster_std=1.5, random_state=0)
    folder = tmp_path / "features"
    folder.mkdir()
    np.save(folder / "good.npy", X.astype(np.float32))
    np.savez(folder / "noise.npz", X=np.random.default_rng(0).normal(size=(N_ROWS, 3)))
    labels = np.array(["cat", "dog", "cow"])[y]
    np.save(folder / "labels.npy", labels)  # not read
    return tmp_path, labels


def race(study, *more, labels=True):
    folder, _ = study
    given = ["--labels", str(folder / "labels.txt")] if labels else []
    out = ["--out", str(folder / "race"), "--classes", "3", "--start", "5"]
    return main(["race", str(folder / "features"), *given, *out, *more])


def write(study, start=0, stop=N_ROWS):
    folder, labels = study
    with (folder / "labels.txt").open("a") as file:
        file.writelines(f"{label}\n" for label in labels[start:stop])


def complaint(capsys, status):
    assert status == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_the_command_runs_the_race_of_its_labels(study, capsys):
    folder, labels = study
    write(study)
    path = folder / "labels.txt"
    path.write_text(path.read_text(), "utf-8-sig")  # as Windows writes it
    assert race(study, "--once") == 0
    printed = capsys.readouterr().out
    X = {"good": np.load(folder / "features" / "good.npy")}
    X["noise"] = np.load(folder / "features" / "noise.npz")["X"]
    alone = EncoderRace(["good", "noise"], 3, start=5).update(X, labels)
    assert printed.endswith(f"{alone.verdict()}\n")
    assert "70 labels: 1 of 2 encoders left, good leads" in printed


def test_labels_come_from_standard_input_until_it_stops(study, capsys, monkeypatch):
    _, labels = study
    text = "\n".join(labels) + "\n"
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert race(study, labels=False) == 0
    lines = capsys.readouterr().out.splitlines()
    n_steps = sum(" labels: " in line for line in lines)
    assert 30 <= n_steps < N_ROWS
    assert lines[0] == "waiting for the label of row 1 in standard input"
    assert lines[n_steps].endswith("good leads, dropped noise")
    assert f"'good' leads after {n_steps} labels." in lines[n_steps + 1]
    assert race(study, labels=False) == 0  # it reads no more
    printed = capsys.readouterr().out
    assert printed.startswith(f"continuing after {n_steps} labels")
    assert "waiting for" not in printed


def test_a_label_that_is_refused_can_be_typed_again(study, capsys, monkeypatch):
    text = StringIO("cat\n\ndog\ncow\nemu\ncat\n")
    monkeypatch.setattr("sys.stdin", text)
    status = race(study, labels=False)
    assert "Line 2 must hold a label" in complaint(capsys, status)
    monkeypatch.setattr(text, "isatty", lambda: True)
    assert race(study, labels=False) == 0
    printed = capsys.readouterr()
    assert "waiting for the label of row 2 in standard input" in printed.out
    assert (
        "got ['cat', 'dog', 'cow', 'emu']; correct labels, or start a race with "
        "n_classes=4" in printed.err
    )
    assert printed.err.count("\n") == 1
    assert "\n4 labels: " in printed.out


def test_a_file_is_followed_while_it_grows(study, capsys, monkeypatch):
    folder, labels = study
    text = "\n".join(labels) + "\n"
    path = folder / "labels.txt"  # not there at first
    # Two labels, and half of a third that is being written.
    ends = iter([10, 12, 12, 28, len(text)])
    monkeypatch.setattr(
        _race.time, "sleep", lambda _: path.write_text(text[: next(ends)])
    )
    assert race(study) == 0
    printed = capsys.readouterr().out.splitlines()
    steps = [line.partition(" ")[0] for line in printed if " labels: " in line]
    assert steps == ["2", "3", "7", "70"]


def test_half_a_letter_is_waited_for(study, monkeypatch):
    data = "Kühe\nÖl\n".encode()
    path = study[0] / "labels.txt"
    path.write_bytes(data[:7])
    monkeypatch.setattr(_race.time, "sleep", lambda _: path.write_bytes(data))
    options = Namespace(labels=path, once=False, classes=2)
    new = Namespace(labels_=np.empty(0), should_stop_=False, n_labels_=0)
    steps = _race._steps(options, new, 2)
    assert [next(steps), next(steps)] == [["Kühe"], ["Öl"]]


def test_an_earlier_line_may_not_change(study, capsys):
    folder, labels = study
    write(study, 0, 9)
    race(study, "--once")
    path = folder / "labels.txt"
    good = path.read_text()
    capsys.readouterr()
    path.write_text(good.replace(labels[0], "emu", 1) + "cat\n")
    held = f"must hold '{labels[0]}' in line 1, as before, but now it holds 'emu'"
    assert held in complaint(capsys, race(study, "--once"))
    path.write_text("\n".join(good.split()[:4]))
    assert "in line 5, as before, but the line is missing" in complaint(
        capsys, race(study, "--once")
    )
    path.write_text(good + f"{labels[9]}")  # the last line without an end
    assert race(study, "--once") == 0
    assert "10 labels: 2 of 2 encoders left" in capsys.readouterr().out
    path.write_text("\n".join(labels))  # and so without --once, once it was read
    assert race(study, "--once") == race(study) == 0
    for more in (
        "",
        "\n",
        "cow\n",
    ):  # once the race has stopped, more labels do not matter
        path.write_text(path.read_text() + more)
        assert race(study) == 0
        assert "'good' leads after 70 labels." in capsys.readouterr().out
    path.write_text("emu\n" + path.read_text().partition("\n")[2])
    assert held in complaint(capsys, race(study))


def test_labels_that_cannot_be_are_refused(study, capsys):
    folder, _ = study
    path = folder / "labels.txt"
    path.write_text("cat\n\ndog\n")
    assert "Line 2 must hold a label" in complaint(capsys, race(study, "--once"))
    path.write_text("cat\ndog\ncow\nemu\n")
    assert "at most 3 classes in total" in complaint(capsys, race(study, "--once"))
    path.write_text("cat\n" * (N_ROWS + 1))
    assert "a row for each of 71 labels" in complaint(capsys, race(study, "--once"))
    path.write_text("cat\n")
    real = ["race", str(folder / "features"), "--labels", str(path), "--once"]
    real += ["--out", str(folder / "real")]
    assert "must be numbers" in complaint(capsys, main(real))
    path.write_text("".join(f"{i / 7}\n" for i in range(9)))
    assert main(real) == 0
    with path.open("a") as file:
        file.write("2.5\n")
    assert main(real) == 0
    path.write_text(path.read_text().replace("2.5", "two"))
    assert "must hold '2.5' in line 10, as before" in complaint(capsys, main(real))
    for bad in ("1_1", "nan", "inf"):
        path.write_text(path.read_text().partition("two")[0] + f"2.5\n{bad}\n")
        said = complaint(capsys, main(real))
        assert f"--classes is not given, but line 11 holds '{bad}'; " in said
        path.write_text(path.read_text().replace(f"2.5\n{bad}", "two"))
    path.write_bytes(b"cat\n\xff\n")
    said = complaint(capsys, main(real))
    assert "must be a text file in UTF-8" in said
    assert "byte 0xff in position 4" in said
    path.write_text("cat\n", "utf-16")
    assert "a text file in UTF-8" in complaint(capsys, race(study, "--once"))
    path.unlink()
    assert "labels.txt" in complaint(capsys, race(study, "--once"))
    followed = [option for option in real if option != "--once"]
    assert "labels.txt" in complaint(capsys, main(followed))


def test_whole_numbers_without_classes_are_remarked_once(study, capsys):
    folder, labels = study
    numbers = {"dog": "0", "cat": "1", "cow": "2"}
    for add, n_remarks in (("", 1), (".5", 0)):
        (folder / "labels.txt").write_text(
            "".join(f"{numbers[label]}{add}\n" for label in labels[:20])
        )
        given = ["--labels", str(folder / "labels.txt"), "--once"]
        out = ["--out", str(folder / f"race{add}")]
        assert main(["race", str(folder / "features"), *given, *out]) == 0
        remarks = capsys.readouterr().err
        assert remarks.count("start again with --classes N") == n_remarks


def test_a_race_goes_on_with_the_same_features_until_their_end(
    study, capsys, monkeypatch
):
    folder, _ = study
    write(study)
    never = ["--alpha", "1e-9"]
    whole = np.arange(N_ROWS, dtype=np.int8)[:, None]
    np.save(folder / "features" / "whole.npy", whole)
    for _ in range(2):  # the second finds no row to label
        assert race(study, *never) == 0
        printed = capsys.readouterr().out
        assert "Not stopped. After 70 labels, 3 encoders are left." in printed
    assert "waiting" not in printed
    assert race(study, *never, labels=False) == 0
    assert "waiting" not in capsys.readouterr().out
    with (folder / "labels.txt").open("a") as file:
        file.write("cat\n")
    assert "a row for each of 71 labels" in complaint(capsys, race(study, *never))
    path = folder / "features" / "good.npy"
    np.save(path, np.load(path) + 1)
    words = (
        "features from which the race in .*race learned, but those of 'good' differ;"
    )
    assert re.search(words, complaint(capsys, race(study, *never)))
    inside = ["--out", str(folder / "features" / "race")]
    assert "must go to a folder outside" in complaint(capsys, race(study, *inside))
    monkeypatch.setattr("sys.stdin", None)
    assert race(study, "--out", str(folder / "new"), labels=False) == 0
    assert "After 0 labels" in capsys.readouterr().out


def test_features_must_be_there_and_of_the_same_rows(study, capsys):
    folder, _ = study
    np.save(folder / "features" / "short.npy", np.zeros((3, 2)))
    assert "'noise' has 70 rows" not in complaint(capsys, race(study, "--once"))
    assert "must be a directory" in complaint(capsys, main(["race", "nowhere"]))


def test_lines_of_labels_are_read_as_text(tmp_path):
    path = tmp_path / "labels.txt"

    def lines(content, *, whole=False, n_seen=0):
        path.write_bytes(content)
        return _race._lines_of(path, whole=whole, n_seen=n_seen)

    assert lines("\ufeffa\nb \n\xa0".encode()) == ["a", "b"]
    assert lines(b"a\nb", whole=True) == ["a"]  # the last line may grow
    assert lines(b"a\nb", whole=True, n_seen=2) == ["a", "b"]
    with pytest.raises(ValueError, match="position 8: invalid continuation"):
        lines("\ufeffa\ncaf".encode() + b"\xe9\n")
