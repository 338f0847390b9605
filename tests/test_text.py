"""Texts as data: encoders around models, baselines, and CSV files."""

import csv

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from memory_limit import two_gigabytes
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_mdl import RepresentationScorer
from sklearn_mdl.cli import main
from sklearn_mdl.cli._main import make_parser
from sklearn_mdl.cli._text import encoded_table
from sklearn_mdl.encoders import TextEncoder, encode, text_baselines
from sklearn_mdl.model_selection import EncoderRace

rng = np.random.default_rng(0)
WORDS = {"cats": ["cat", "purr", "milk", "the"], "dogs": ["dog", "bark", "bone", "the"]}
LABELS = rng.choice(list(WORDS), 60)
TEXTS = [" ".join(rng.choice(WORDS[label], 5)) for label in LABELS]


class Model:
    """Encodes as models of sentence-transformers do."""

    def __init__(self, kind=np.asarray):
        self.kind, self.n_texts = kind, 0

    def encode(self, texts):
        self.n_texts += len(texts)
        return self.kind([[len(text), text.count("cat")] for text in texts])


@for_each("kind", [np.asarray, torch.tensor, list])
def test_an_object_that_encodes_is_an_encoder(kind):
    model = Model(kind)
    found = TextEncoder(model).fit_transform(TEXTS)
    assert found.dtype == np.float32
    assert_array_equal(found, np.asarray(Model().encode(TEXTS), np.float32))
    assert clone(TextEncoder(model)).model is model


@pytest.mark.parametrize(
    ("model", "texts", "words"),
    [
        (Model(), "one text", "X must be a non-empty sequence of texts"),
        (
            Model(),
            ["a", None],
            r"^X\[1\] must be a str, got None; replace it",
        ),
        (
            Model(),
            pd.DataFrame({"text": TEXTS}),
            "; pass .*, or one column of a table$",
        ),
        (Model(), np.array([["a"], ["b"]]), "; pass .*, or one column of a table$"),
        (Model(), [], r"non-empty .* of texts, got \[\]; pass .* \['a text'\]"),
        (
            Model(lambda rows: np.ones(3)),
            ["a"],
            r"^The shape of model.encode\(X\[:1\]\) must be \(1, width\), got \(3,\); "
            "return a row per text$",
        ),
        (object(), ["a"], "model"),
    ],
)
def test_what_does_not_fit_is_refused(model, texts, words):
    with pytest.raises(ValueError, match=words):
        TextEncoder(model).fit(texts)


def test_sparse_features_are_those_of_the_vectorizer():
    vectorizer = TfidfVectorizer()
    wanted = clone(vectorizer).fit(TEXTS).transform(TEXTS).toarray()
    assert_array_equal(encode(vectorizer, TEXTS), wanted.astype(np.float32))


def test_baselines_are_ranked_beside_a_model(tmp_path):
    encoders = {"model": TextEncoder(Model()), **text_baselines(4)}
    scorer = RepresentationScorer(n_orders=1, random_state=0, results=tmp_path)
    scorer.fit({"animals": (TEXTS, LABELS)}, encoders)
    assert scorer.codelengths_.shape == (1, 4)
    assert scorer.codelengths_.min() < 0.5 * len(TEXTS) * np.log(2)
    fitted = {name: e.fit(TEXTS) for name, e in text_baselines(4).items()}
    race = EncoderRace(fitted, 2).update(TEXTS, LABELS)  # some features are sparse
    assert race.features_["hashed words"].shape == (len(TEXTS), 1024)


def write_table(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_texts_of_a_csv_file_are_ranked(tmp_path, capsys):
    rows = [*zip(TEXTS, LABELS, strict=True), ("no label", "")]
    path = write_table(tmp_path / "animals.csv", rows, ("review", "kind"))
    rank = ["rank", str(path), "--out", str(tmp_path / "ranking"), "--n-orders", "1"]
    rank += ["--text", "review", "--label", "kind"]
    assert main(rank) == 2
    assert "row 62 has none; fill it in" in capsys.readouterr().err
    assert main([*rank, "--missing", "drop"]) == 0
    printed = capsys.readouterr().out
    assert "animals: 60 rows, 2 classes" in printed
    assert "1 rows without a label were dropped" in printed
    assert "characters (" in printed


@for_each("answers", [["yes", "no"], ["ab cd", "cd ab", "ab ab"]])
def test_texts_of_few_different_words_have_as_many_features(answers, tmp_path):
    rows = [(answers[i % len(answers)], i % 2) for i in range(60)]
    path = write_table(tmp_path / "t.csv", rows)
    found = encoded_table(make_parser().parse_args(["rank", str(path)]))
    features, labels = found.datasets["t"]
    least = len({word for answer in answers for word in answer.split()})
    assert len(labels) == 60
    assert features["words"].shape[1] == features["characters"].shape[1] >= least


@for_each(
    "cells, more, labels",
    [
        (["0.5", "1.25", "NULL"], [], {0.5, 1.25}),
        (["1.0", "2.0", "-NAN"], [], {1.0, 2.0}),
        (["1.1", "1.10", ""], ["--targets", "real"], {1.1}),
        (["1950", "NA", "1951"], ["--targets", "real"], {1950.0, 1951.0}),
        (["1.1", "1.10", " "], ["--targets", "classes"], {"1.1", "1.10"}),
        ([" pos", "neg", "pos "], ["--targets", "classes"], {"pos", "neg"}),
        (["1.1", "1.10", "nan"], ["--targets", "classes"], {"1.1", "1.10"}),
        (["a", "b", "nan"], ["--targets", "classes"], {"a", "b", "nan"}),
        (["1", "2", "NA"], [], {1, 2}),
        (["01", "2", "NAN"], [], {"01", "2"}),
        (["01", "high", "NA"], [], {"01", "high", "NA"}),
    ],
)
def test_labels_of_a_csv_file_are_numbers_or_text(cells, more, labels, tmp_path):
    rows = [(f"{'good' if i % 2 else 'bad'} film", cells[i % 3]) for i in range(30)]
    path = write_table(tmp_path / "t.csv", rows)
    rank = ["rank", str(path), "--missing", "drop", *more]
    found = encoded_table(make_parser().parse_args(rank))
    assert set(found.datasets["t"][1].tolist()) == labels


@for_each(
    "rows, more, message",
    [
        ([("one two", "1", "p"), ("two one", "2", "")], ["--groups", "who"], "1 of 2"),
        ([("one two", "high", "p")], ["--targets", "real"], "must hold numbers"),
        ([("", "1", "p"), ("?", "2", "q")], [], "must hold texts of several words"),
        ([("a b", "NA", "p")], ["--missing", "drop"], "row 2 has none; fill it in\n"),
        ([("a b", "1_1", "p")], ["--targets", "real"], "must hold numbers as labels"),
        ([("a b", "x" * 5000, "p")], [], "at most 4096 characters"),
    ],
)
def test_what_is_missing_in_a_csv_file_is_named(rows, more, message, tmp_path, capsys):
    path = write_table(tmp_path / "t.csv", rows, ("text", "label", "who"))
    assert main(["rank", str(path), "--out", str(tmp_path / "r"), *more]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "; " in said


@for_each("more", [["--label", "groups"], ["--groups", "groups"]])
def test_groups_in_a_csv_file_are_not_ignored(more, tmp_path, capsys):
    rows = [(f"{'good' if i % 2 else 'bad'} film", i % 2, i % 2) for i in range(20)]
    path = write_table(tmp_path / "t.csv", rows, ("text", "label", "groups"))
    rank = ["rank", str(path), "--out", str(tmp_path / "r")]
    assert main(rank) == 2
    cure = "has 'groups'; pass --groups groups, or rename the column"
    assert cure in capsys.readouterr().err
    assert main([*rank, *more]) == 0


@pytest.mark.slow
def test_a_long_text_takes_no_room_for_others(tmp_path):
    rows = [(f"number {i} {'of words ' * 13_000 * (i == 7)}", 0) for i in range(3000)]
    path = write_table(tmp_path / "t.csv", rows)
    with two_gigabytes(2**30):  # a table of fixed width would take 1.4 GB
        found = encoded_table(make_parser().parse_args(["rank", str(path)]))
    assert found.datasets["t"][0]["words"].shape == (3000, 128)


def test_wrong_columns_are_named(tmp_path, capsys):
    path = write_table(tmp_path / "t.csv", [("a", "b")], ("review", "kind"))
    assert main(["rank", str(path), "--out", str(tmp_path / "r")]) == 2
    assert "pass --text review" in capsys.readouterr().err
    path = write_table(tmp_path / "t.csv", [("a", "b")], ("text", "kind"))
    assert main(["rank", str(path), "--out", str(tmp_path / "r")]) == 2
    assert "pass --label kind" in capsys.readouterr().err  # not the column of texts
    assert main(["rank", str(tmp_path), "--out", "r", "--text", "review"]) == 2
    assert "--text applies only if FEATURES is a .csv file" in capsys.readouterr().err
    assert main(["rank", str(path), "--splits", "train"]) == 2
    assert "--splits must be left out for a .csv file" in capsys.readouterr().err
