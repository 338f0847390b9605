"""Embeddings in the files of other programs: all say the same, faults in a sentence.

Files are written in the layout that the program documents; those that the program
itself writes are read in ``tests/clients``.
"""

import csv
import io
import json
import pickle
import re
import zipfile
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from each_case import for_each
from memory_limit import two_gigabytes
from numpy.testing import assert_array_equal
from safetensors.numpy import save_file

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.cli._main import main
from sklearn_mdl.datasets import (
    labels_of,
    load_labels,
    load_representations,
    read_csv,
    stage_rows,
)

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N, WIDTHS = 40, {"deep": 3, "flat": 2}
RNG = np.random.default_rng(0)
FEATURES = {
    name: RNG.normal(size=(N, width)).astype("f4") for name, width in WIDTHS.items()
}
LABELS = np.where(FEATURES["deep"][:, 0] > 0, "up", "down")
IDS = np.array([f"row{i}" for i in range(N)])
PATIENTS = np.array([f"p{i // 3}" for i in range(N)])


def write_table(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def with_gaps(labels, gaps):
    return [None if i in gaps else str(label) for i, label in enumerate(labels)]


# One writer for each format: it stores FEATURES, LABELS and IDS, where there is a place
# for them, leaves out the labels of some rows, and returns the path to be read.


def h5ad(root, gaps=(), labels=LABELS, **layout):
    path = root / "study.h5ad"
    names, codes = np.unique(labels, return_inverse=True)
    codes = np.where(np.isin(np.arange(N), list(gaps)), -1, codes)
    with h5py.File(path, "w") as file:
        obs, obsm = file.create_group("obs"), file.create_group("obsm")
        obs.attrs["_index"] = "cell"
        obs["cell"] = IDS.astype(object)
        column = obs.create_group("cell_type")
        column["codes"], column["categories"] = codes.astype("i1"), names.astype(object)
        obs["n_genes"] = np.arange(N)
        obs["patient"] = PATIENTS.astype(object)
        for name, X in FEATURES.items():
            obsm.create_dataset(name, data=X, **layout)
        obsm.create_group("sparse")["data"] = np.ones(3)
    return path


def compressed_h5ad(root, gaps=()):
    return h5ad(root, gaps, compression="gzip")


def npz(root, gaps=()):
    names, codes = np.unique(LABELS, return_inverse=True)
    labels = np.where(np.isin(np.arange(N), list(gaps)), np.nan, codes)
    labels = labels if gaps else names[codes]
    named = {"ids": IDS, "label": labels, "patient": PATIENTS}
    np.savez(root / "study.npz", **named, **FEATURES)
    return root / "study.npz"


def arrow_table(gaps=()):
    lists = {name: X.tolist() for name, X in FEATURES.items()}
    labels = with_gaps(LABELS, gaps)
    named = {"id": IDS.tolist(), "label": labels, "patient": PATIENTS.tolist()}
    table = pa.table({**named, **lists})
    kinds = {"deep": pa.list_(pa.float32(), 3), "flat": pa.list_(pa.float64())}
    for name, kind in kinds.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(kind))
    return table


def parquet_file(root, gaps=()):
    parquet.write_table(arrow_table(gaps), root / "study.parquet")
    return root / "study.parquet"


def parquet_shards(root, gaps=()):
    folder, table = root / "study", arrow_table(gaps)
    folder.mkdir()
    parquet.write_table(table[:15], folder / "train-00000-of-00002.parquet")
    parquet.write_table(table[15:30], folder / "train-00001-of-00002.parquet")
    parquet.write_table(table[30:], folder / "val.parquet")
    return folder


def saved(root, gaps=()):
    """As ``DatasetDict.save_to_disk`` writes it."""
    table = arrow_table(gaps)
    (root / "study").mkdir()
    splits = {"train": table[:25], "test": table[25:]}
    (root / "study" / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    for name, part in splits.items():
        folder = root / "study" / name
        folder.mkdir()
        with (
            pa.OSFile(str(folder / "data-0.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, part.schema) as writer,
        ):
            writer.write_table(part)
        files = {"_data_files": [{"filename": "data-0.arrow"}]}
        (folder / "state.json").write_text(json.dumps(files))
    return root / "study"


def hdf5(root, gaps=(), order=range(N), columns=()):
    (root / "study").mkdir()
    for name, X in FEATURES.items():
        with h5py.File(root / "study" / f"{name}.h5", "w", track_order=True) as file:
            for row in order:
                item = file.create_dataset(f"{row}", data=X[row])
                item.attrs["original_id"] = str(IDS[row])
    rows = [row for row in range(N) if row not in gaps]
    table = {"id": IDS[rows], "location": LABELS[rows]}
    table |= dict.fromkeys(columns, PATIENTS[rows])
    write_table(root / "study" / "labels.csv", table)
    return root / "study"


def eva(root, gaps=(), wrap=lambda X: [torch.from_numpy(X)]):
    for name, X in FEATURES.items():
        folder = root / "embeddings" / name / "study"
        folder.mkdir(parents=True)
        for row in range(N):
            torch.save(wrap(X[row]), folder / f"{row}.pt")
        table = {
            "origin": IDS,
            "embeddings": [f"{row}.pt" for row in range(N)],
            "target": [label or "" for label in with_gaps(LABELS, gaps)],
            "split": ["train"] * 30 + ["val"] * (N - 30),
            "patient": PATIENTS,
        }
        write_table(folder / "manifest.csv", table)
    return root / "embeddings"


def hear(root, gaps=()):
    for name, X in FEATURES.items():
        folder = root / "embeddings" / name / "study"
        folder.mkdir(parents=True)
        about = {"embedding_type": "scene", "splits": ["train", "test"]}
        (folder / "task_metadata.json").write_text(json.dumps(about))
        labels = [[label] for label in with_gaps(LABELS, gaps)]
        for split, rows in (("train", slice(0, 30)), ("test", slice(30, N))):
            X[rows].tofile(folder / f"{split}.embeddings.npy")
            shape = json.dumps(X[rows].shape)
            (folder / f"{split}.embedding-dimensions.json").write_text(shape)
            content = pickle.dumps(labels[rows])
            (folder / f"{split}.target-labels.pkl").write_bytes(content)
    return root / "embeddings"


WRITERS = (
    *(h5ad, compressed_h5ad, npz, parquet_file, parquet_shards),
    *(saved, hdf5, eva, hear),
)
WITH_SPLITS = (parquet_shards, saved, eva, hear)


def message(path, **options):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_representations(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_back_what_was_stored(tmp_path, write, monkeypatch):
    path = write(tmp_path)
    found = load_representations(path)
    assert list(found.datasets) == ["study"]
    features, labels = found.datasets["study"]
    assert {name: X.shape[1] for name, X in features.items()} == WIDTHS
    for name, X in features.items():
        assert_array_equal(X, FEATURES[name])
    assert_array_equal(labels, LABELS)
    if found.ids:
        assert_array_equal(found.ids["study"], IDS)
    assert "study: 40 rows, 2 classes" in str(found)
    if path.is_dir():
        (path / "inside").mkdir()
        for folder, name in ((path, "."), (path / "inside", "..")):
            monkeypatch.chdir(folder)
            assert str(load_representations(name)) == str(found)


@for_each("write", [eva, hear])
def test_names_above_a_relative_path_are_those_of_folders(write, tmp_path, monkeypatch):
    study = write(tmp_path) / "deep" / "study"
    (study / "inside").mkdir()
    wanted = str(load_representations(study))
    assert "deep" in wanted
    for folder, name in ((study, "../study"), (study / "inside", "../../study")):
        monkeypatch.chdir(folder)
        assert str(load_representations(name)) == wanted
        with pytest.raises(FileNotFoundError, match="there is no 'nowhere"):
            load_representations("nowhere/..")


@pytest.mark.parametrize("write", WRITERS)
def test_rows_without_a_label_are_counted_and_dropped_on_request(tmp_path, write):
    path, gaps = write(tmp_path, {3, 31}), [3, 31]
    said = message(path)
    assert "2 of 40 on dataset 'study' have none" in said
    assert said.endswith("; add labels or pass missing='drop' (--missing drop)")
    found = load_representations(path, missing="drop")
    features, labels = found.datasets["study"]
    expected = np.delete(LABELS, gaps)
    assert_array_equal(np.unique(labels, return_inverse=True)[1], expected == "up")
    assert_array_equal(features["deep"], np.delete(FEATURES["deep"], gaps, axis=0))
    assert "dropped 2 of 40 rows (no label)" in str(found)


@pytest.mark.parametrize("write", WITH_SPLITS)
def test_splits_may_be_chosen(tmp_path, write):
    path = write(tmp_path)
    found = load_representations(path, splits=["train"])
    n_train = {saved: 25}.get(write, 30)
    assert_array_equal(found.datasets["study"][1], LABELS[:n_train])
    assert f"splits: train {n_train}" in str(found)
    assert "got 'dev'" in message(path, splits=["dev"])


@for_each("write", [h5ad, npz, parquet_file, hdf5, eva])
def test_a_label_column_that_is_not_there_lists_those_that_are(tmp_path, write):
    text = message(write(tmp_path), label="age")
    there = {h5ad: "cell_type", hdf5: "location", eva: "target"}.get(write, "label")
    assert f"'{there}'" in text
    assert "got 'age'" in text
    assert "--label" in text


def test_a_file_without_labels_is_refused(tmp_path):
    np.savez(tmp_path / "study.npz", X=np.zeros((5, 3)))
    found = message(tmp_path / "study.npz")
    assert "must hold labels, but it holds none; add an array" in found


@pytest.mark.parametrize("write", [w for w in WRITERS if w != hear])
def test_groups_are_those_of_a_column(tmp_path, write):
    options = {"columns": ["patient"]} if write == hdf5 else {}
    path = write(tmp_path, {3, 31}, **options)
    found = load_representations(path, groups="patient", missing="drop")
    _, labels, groups = found.datasets["study"]
    assert_array_equal(groups, np.delete(PATIENTS, [3, 31]))
    assert len(labels) == N - 2
    assert ", 14 groups; " in str(found)
    text = message(path, groups="ward", missing="drop")
    assert "groups must be one of" in text
    assert "'patient'" in text


def test_groups_that_a_format_does_not_name_are_refused(tmp_path):
    text = message(hear(tmp_path), groups="patient")
    assert "groups must be None for HEAR files, got 'patient'" in text
    folder = tmp_path / "features" / "study"
    folder.mkdir(parents=True)
    for name, array in {**FEATURES, "labels": LABELS, "groups": PATIENTS}.items():
        np.save(folder / f"{name}.npy", array)
    assert "groups must be None for the directory" in message(folder, groups="a")
    assert "study: 40 rows, 2 classes, 14 groups" in str(
        load_representations(folder.parent)
    )
    np.savez(tmp_path / "a.npz", X=FEATURES["deep"], y=LABELS, p=np.full(N, np.nan))
    assert "40 of 40 rows have none" in message(tmp_path / "a.npz", groups="p")


def test_a_column_of_groups_is_never_ignored(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=FEATURES["deep"], label=LABELS, groups=PATIENTS)
    assert message(path) == (
        f"{path} must hold no unused column 'groups', but it has one; rename it, or "
        "pass groups='groups' (--groups) to load_representations"
    )
    assert ", 14 groups; " in str(load_representations(path, groups="groups"))
    assert "40 rows, 14 classes; " in str(load_representations(path, label="groups"))


def saved_dataset(root):
    """As ``Dataset.save_to_disk`` writes it."""
    return saved(root) / "train"


WITHOUT_SPLITS = [w for w in (*WRITERS, saved_dataset) if w not in WITH_SPLITS]


@pytest.mark.parametrize("write", WITHOUT_SPLITS)
def test_splits_that_a_format_does_not_name_are_refused(tmp_path, write, capsys):
    path = write(tmp_path)
    text = message(path, splits=["train"])
    assert "splits must be None for " in text
    assert "got ['train']; omit splits (--splits)" in text
    assert main(["rank", str(path), "--splits", "train", "--out", f"{tmp_path}/o"]) == 2
    assert "splits must be None for " in capsys.readouterr().err


def test_columns_and_splits_that_a_directory_does_not_name_are_refused(tmp_path):
    assert "label must be None for HEAR" in message(hear(tmp_path), label="age")
    folder = tmp_path / "features" / "study"
    folder.mkdir(parents=True)
    for name, array in {**FEATURES, "labels": LABELS}.items():
        np.save(folder / f"{name}.npy", array)
    for path in (folder, folder.parent):
        assert "label must be None for the directory" in message(path, label="age")
        assert "splits must be None for the dir" in message(path, splits=["train"])


def test_rank_learns_no_label_of_a_group_before_all_its_rows(tmp_path, capsys):
    path, out = str(npz(tmp_path)), str(tmp_path / "out")
    options = ["--out", out, "--n-orders", "1", "--encoders", "deep"]
    main(["rank", path, "--groups", "patient", *options])
    assert ", 14 groups; deep (3)" in capsys.readouterr().out
    scorer = RepresentationScorer(n_orders=1, random_state=0)
    scorer.fit({"study": ({"deep": FEATURES["deep"]}, LABELS, PATIENTS)})
    with (tmp_path / "out" / "cells.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["codelength"]) == pytest.approx(scorer.codelengths_[0, 0])


@pytest.mark.parametrize("missing", ["raise", "drop"])
def test_dropping_is_not_advised_if_it_leaves_no_rows(tmp_path, missing):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.full(3, np.nan))
    said = message(tmp_path / "a.npz", missing=missing)
    assert said.endswith("; add labels")
    path = hdf5(tmp_path)
    with h5py.File(path / "deep.h5", "r+") as file:
        for name, item in file.items():
            item.attrs["original_id"] = f"other {name}"
    said = message(path, missing=missing)
    assert said.endswith("; save the same ids for all encoders")


def test_what_lies_in_one_piece_is_mapped(tmp_path):
    for write in (h5ad, hear):
        found = load_representations(write(tmp_path), splits=None)
        if write is hear:
            found = load_representations(tmp_path / "embeddings", splits=["train"])
        assert isinstance(found.datasets["study"][0]["deep"], np.memmap)


def test_encoders_are_aligned_by_their_ids(tmp_path):
    path = hdf5(tmp_path, order=np.arange(N)[::-1])
    with h5py.File(path / "deep.h5", "r+") as file:
        del file["7"]
    assert "1 of 40 ids on dataset 'study' lack one" in message(path)
    found = load_representations(path, missing="drop")
    features, labels = found.datasets["study"]
    rows = np.delete(np.arange(N), 7)[::-1]
    for name, X in features.items():
        assert_array_equal(X, FEATURES[name][rows])
    assert_array_equal(labels, LABELS[rows])
    assert "ids of labels.csv without an embedding in deep.h5: 1" in str(found)
    table = (path / "labels.csv").read_text().splitlines()
    table[12] = table[12].rpartition(",")[0] + ","
    (path / "labels.csv").write_text("\n".join(table))
    found = load_representations(path, missing="drop").datasets["study"]
    assert len(found[1]) == N - 2
    path = eva(tmp_path / "eva")
    manifest = path / "deep" / "study" / "manifest.csv"
    lines = manifest.read_text().splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join([*cells[:2], "", *cells[3:]])
    manifest.write_text("\n".join(lines))
    assert "but 1 of 40 on dataset 'study' have none" in message(path)
    found = load_representations(path, missing="drop").datasets["study"]
    assert len(found[1]) == N - 1


def test_labels_and_texts_are_neither_rounded_nor_padded(tmp_path):
    large = [2**64 - 1, 2**64 - 2, 1]
    assert labels_of(large)[0].tolist() == large
    texts = ["a"] * 5000 + ["b" * 4096]
    assert labels_of(texts)[0].nbytes < 100_000
    assert labels_of(texts)[0].tolist() == texts
    book = "word " * 50_000  # more than Python's reader takes by default
    (tmp_path / "books.csv").write_text(f"text,label\n{book}end,1\n")
    assert read_csv(tmp_path / "books.csv")["text"] == [f"{book}end"]


def test_encoders_with_other_labels_are_refused(tmp_path):
    path = hear(tmp_path)
    labels = [[label] for label in LABELS[:30][::-1].tolist()]
    file = path / "flat" / "study" / "train.target-labels.pkl"
    file.write_bytes(pickle.dumps(labels))
    assert "must have the same labels" in message(path)


class Harmful:
    def __reduce__(self):
        return print, ("this was run",)


def test_pickles_that_could_run_code_are_refused(tmp_path, capsys):
    path = hear(tmp_path)
    file = path / "deep" / "study" / "train.target-labels.pkl"
    for content in (Harmful(), [[np.float64(1)]] * 30):
        file.write_bytes(pickle.dumps(content))
        assert "only lists, text and numbers" in message(path)
    other = eva(tmp_path / "other", wrap=lambda _: Harmful())
    assert "only tensors" in message(other)
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2)), y=np.array([None, 1], dtype=object))
    assert "y.astype(str)" in message(tmp_path / "a.npz")
    assert "this was run" not in capsys.readouterr().out


def ragged(root, write):
    """Store one embedding of another length than the others."""
    if write is parquet_file:
        X = [row.tolist() for row in FEATURES["deep"]]
        X[5] = X[5][:2]
        table = pa.table({"label": LABELS.tolist(), "deep": X})
        parquet.write_table(table, root / "a.parquet")
        return root / "a.parquet"
    path = write(root)
    if write is hdf5:
        with h5py.File(path / "deep.h5", "r+") as file:
            del file["5"]
            file["5"] = np.ones((7, 3))
    else:
        torch.save(torch.ones(7, 3), path / "deep" / "study" / "5.pt")
    return path


@pytest.mark.parametrize("write", [parquet_file, hdf5, eva])
def test_embeddings_of_unequal_length_are_refused(tmp_path, write):
    text = message(ragged(tmp_path, write))
    mean = "tensor.mean(0)" if write is eva else "the mean over tokens, or omit the row"
    assert text.endswith(f"; save {mean}")


def test_faults_of_labels_in_tables_are_not_said_to_be_faults_of_columns(tmp_path):
    path = tmp_path / "a.parquet"
    table = {"X": [[1.0, 2.0]] * 2, "label": ["a", "b" * 5000]}
    parquet.write_table(pa.table(table), path)
    assert message(path) == (
        "labels must be at most 4096 characters long, got 5000; pass another column, "
        "or shorten them"
    )


@for_each("write", [hdf5, eva])
def test_names_of_classes_that_are_the_same_number_are_refused(
    tmp_path, write, monkeypatch
):
    names = np.resize(["1.1", "1.10", "2.7"], N)  # classes of enzymes
    monkeypatch.setitem(globals(), "LABELS", names)
    assert message(write(tmp_path)).endswith(
        ".csv must hold numbers written in one way, but it holds 1.1, 1.10; write "
        "equal numbers alike, or names of classes like c1.10"
    )
    for names, values in (
        (["1.1", "", "2.7"], {1.1, 2.7}),
        (["0.0", "-0.0", "NA"], {0.0}),
        (["1.5", "0.25", "NULL"], {1.5, 0.25}),
        ([f"{0.1:.18e}", f"{1 / 3:.18e}", "n/a"], {0.1, 1 / 3}),  # as np.savetxt writes
        ([repr(1 / 3000), repr(1 / 7000)], {1 / 3000, 1 / 7000}),
        (["0", "1", "null"], {0, 1}),
        ([" 1", "1", "-2 "], {1, -2}),
        (["3", "", ""], {3}),
        (["01", "02", "NA"], {"01", "02"}),
        (["1_1", "11", "2"], {"1_1", "11", "2"}),
        (["2.5", "1_1"], {"2.5", "1_1"}),
        (["9223372036854775808", "9223372036854775809"],) * 2,
        (["a", "NA", "b"], {"a", "NA", "b"}),
    ):
        monkeypatch.setitem(globals(), "LABELS", np.resize(names, N))
        folder = tmp_path / names[0]
        folder.mkdir()
        found = load_representations(write(folder), missing="drop")
        assert set(found.datasets["study"][1].tolist()) == set(values)


@for_each("write", [hdf5, eva])
def test_numbers_of_every_type_are_kept(tmp_path, write, monkeypatch):
    kinds = [np.zeros(3, dtype=np.int64), *np.eye(3) / 3]
    rows = [kinds[row % 4] for row in range(N)]
    monkeypatch.setitem(globals(), "FEATURES", {"deep": rows})
    (X,) = load_representations(write(tmp_path)).datasets["study"][0].values()
    assert_array_equal(X, rows)


def test_a_missing_file_is_not_said_to_be_no_directory(tmp_path):
    said = r"^source must exist, but there is no 'none\.h5ad'; correct the path$"
    with pytest.raises(FileNotFoundError, match=said):
        load_representations("none.h5ad")
    other = tmp_path / "a.txt"
    other.touch()
    assert message(other) == (
        "source must be a directory, .h5ad, .parquet, .npz, .h5 or .hdf5 file, got "
        f"{str(other)!r}; pass a folder with DATASET/ENCODER.npy and DATASET/labels.npy"
    )


def test_empty_text_is_no_label_in_npz(tmp_path):
    np.savez(tmp_path / "x.npz", raw=np.eye(3), labels=["a", "", "b"])
    assert "1 of 3" in message(tmp_path / "x.npz")
    found = load_representations(tmp_path / "x.npz", missing="drop").datasets["x"]
    assert found[1].tolist() == ["a", "b"]
    np.testing.assert_array_equal(found[0]["raw"], np.eye(3)[[0, 2]])


def test_groups_of_a_directory_are_read_from_its_files(tmp_path):
    arrays = {"raw": np.eye(3), "labels": [0, 1, 1], "groups": [0, 1, 2]}
    for name, rows in arrays.items():
        np.save(tmp_path / f"{name}.npy", rows)
    assert message(tmp_path, groups="groups") == (
        f"groups must be None for the directory {tmp_path}, got 'groups'; omit groups "
        "(--groups), and save them as DATASET/groups.npy next to DATASET/ENCODER.npy "
        "and DATASET/labels.npy"
    )


def test_a_single_path_is_no_list_of_shards(tmp_path):
    said = (
        r"^shards must be a non-empty list of paths, got 'a\.parquet'; pass \[path\], "
    )
    with pytest.raises(ValueError, match=said):
        stage_rows("a.parquet", tmp_path)


def test_shards_are_not_staged_in_a_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"X": np.ones((3, 2)), "y": np.arange(3)}, path)
    with pytest.raises(
        ValueError, match=r"must be a folder, but .* is a file; pass an"
    ):
        stage_rows([path], path)


def test_shards_without_features_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"y": np.arange(3)}, path)
    with pytest.raises(
        ValueError, match=r"must hold features, but it holds none; save "
    ):
        stage_rows([path], tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.h5ad", b"no HDF5"),
        ("a.parquet", b"no table"),
        ("a.npz", b"no archive"),
        ("a.txt", b"text"),
        ("manifest.csv", b"origin,embeddings\n1\n"),
        ("manifest.csv", b"origin,file\n1,2\n"),
        ("task_metadata.json", b"{"),
        ("task_metadata.json", b'{"embedding_type": "event"}'),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    is_folder = name in ("manifest.csv", "task_metadata.json")
    text = message(tmp_path if is_folder else tmp_path / name)
    assert str(tmp_path) in text
    assert " must " in text


def test_a_heap_entry_of_no_bytes_at_which_libhdf5_loops_is_refused(tmp_path):
    path = h5ad(tmp_path)
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL") + 16
    content[heap : heap + 16] = bytes(16)
    path.write_bytes(content)
    assert f"a heap entry of 0 bytes at byte {heap}" in message(path)


def test_an_attribute_of_lists_at_which_libhdf5_crashes_is_refused(tmp_path):
    path = hdf5(tmp_path)
    lists = np.array([np.zeros(2, "u1"), None], dtype=object)[:1]
    with h5py.File(path / "deep.h5", "a") as file:
        attributes = next(iter(file.values())).attrs
        attributes.create("original_id", lists, (1,), h5py.vlen_dtype("u1"))
    assert "'original_id' of " in message(path)


LISTS = pa.array([[1.0, 2.0]] * 6)
NO_TEXT = pa.py_buffer(np.arange(7, dtype="i4")), pa.py_buffer(b"\xff" * 6)
NO_TEXTS = pa.Array.from_buffers(pa.string(), 6, [None, *NO_TEXT])
LARGE = pa.array(["up", "down" * 10**6] * 3)


@pytest.mark.parametrize(
    ("labels", "words"),
    [(NO_TEXTS, "UTF8"), (LARGE, "bytes cannot expand")],
    ids=["none", "large"],
)
def test_texts_that_are_none_or_larger_than_their_file_are_refused(
    labels, words, tmp_path
):
    path = tmp_path / "a.parquet"
    table = pa.table({"deep": LISTS, "label": labels})
    parquet.write_table(table, path, compression="zstd")
    assert words in message(path)
    with pytest.raises(ValueError, match=rf"a\.parquet must hold .*{words}"):
        stage_rows([path], tmp_path / "rows")


def test_shards_with_offsets_beyond_their_buffers_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    shard(path, slice(0, 6))
    content = path.read_bytes()
    ends = np.arange(0, 19, 3, dtype="i4").tobytes()
    path.write_bytes(content.replace(ends, ends[:-4] + b"\0\0\0\x7f"))
    with pytest.raises(ValueError, match=r"a\.arrow must hold a \.arrow table"):
        stage_rows([path], tmp_path / "rows")


def test_splits_with_other_columns_are_refused(tmp_path):
    path = parquet_shards(tmp_path)
    file = sorted(path.glob("*.parquet"))[-1]
    table = parquet.read_table(file)
    names = [name.replace("deep", "other") for name in table.column_names]
    parquet.write_table(table.rename_columns(names), file)
    assert "tables with the same columns" in message(path)


# Silent faults, each of which was once read as something else


@for_each("kind", ["", "offset", "chunks"])
def test_a_link_to_another_file_is_read_there(tmp_path, kind):
    path, X = h5ad(tmp_path), np.arange(4.0 * N).reshape(N, 4)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        if kind == "offset":
            file["pad"] = np.zeros(5000)
        file.create_dataset("X", data=X, chunks=(5, 4) if kind == "chunks" else None)
    with h5py.File(path, "a") as file:
        file["obsm"]["linked"] = h5py.ExternalLink("other.h5", "/X")
    features, _ = load_representations(path).datasets["study"]
    assert_array_equal(features["linked"], X)
    assert_array_equal(features["deep"], FEATURES["deep"])


# Files that were sent: none reads another file, or takes far more than its size


@for_each("name", ["../other.arrow", "/etc/hosts"])
def test_files_named_elsewhere_are_refused(tmp_path, name):
    path = saved(tmp_path)
    state = json.dumps({"_data_files": [{"filename": name}]})
    (path / "test" / "state.json").write_text(state)
    assert f"it names {name!r}" in message(path)
    (path / "dataset_dict.json").write_text(json.dumps({"splits": [name]}))
    assert f"it names {name!r}" in message(path)
    path = eva(tmp_path / "eva")
    table = {"origin": ["a", "b"], "embeddings": ["0.pt", name], "target": ["x", "y"]}
    write_table(path / "deep" / "study" / "manifest.csv", table)
    assert f"it names {name!r}" in message(path)


def test_hdf5_reads_no_file_elsewhere(tmp_path, monkeypatch):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["X"] = np.zeros((N, 4))
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path)  # where libhdf5 looks for relative names, too
    for target in (str(secret), "../secret.h5", "secret.h5"):
        path = h5ad(tmp_path / "study")
        with h5py.File(path, "a") as file:
            file["obsm"]["linked"] = h5py.ExternalLink(target, "/X")
        said = f"{path.parent / target} must exist, since {path} links to it; copy "
        if target != "secret.h5":
            said = f"{path} must hold only names of files in its folder, but it names "
        assert message(path).startswith(said)
    path = h5ad(tmp_path / "study")
    with h5py.File(path, "a") as file, h5py.File(path.with_name("b.h5"), "w") as other:
        other["all"] = h5py.ExternalLink(str(secret), "/")
        file["obsm"]["linked"] = h5py.ExternalLink("b.h5", "/all/X")
    assert "but it names" in message(path)
    path = h5ad(tmp_path / "study")
    with h5py.File(path, "a") as file:
        external = [(str(secret), 0, 32 * N)]
        file["obsm"].create_dataset("raw", (N, 4), "f8", external=external)
    assert "/obsm/raw is in other files" in message(path)


def test_tensors_are_read_from_an_archive_as_torch_writes_it(tmp_path):
    path = eva(tmp_path) / "deep" / "study" / "0.pt"
    plain = path.read_bytes()
    path.write_bytes(b"before" + plain)
    assert "not stored as by torch.save" in message(tmp_path / "embeddings")
    with (
        zipfile.ZipFile(io.BytesIO(plain)) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert "not stored as by torch.save" in message(tmp_path / "embeddings")
    torch.save(bytearray(8), path)
    assert "its pickle names __builtin__ bytearray" in message(tmp_path / "embeddings")
    plain = path.read_bytes()
    path.write_bytes(plain.replace(b"data.pkl", b"DATA.PKL"))  # torch reads it, too
    assert "its pickle names __builtin__ bytearray" in message(tmp_path / "embeddings")


def test_rows_of_arrow_without_any_byte_are_refused(tmp_path):
    n = 10**7
    lists = pa.list_(pa.float32(), 0)
    empty = pa.Array.from_buffers(
        lists, n, [None], children=[pa.array([], pa.float32())]
    )
    table = pa.table({"x": empty, "label": pa.nulls(n)})
    with pa.ipc.new_stream(str(tmp_path / "data.arrow"), table.schema) as writer:
        writer.write_table(table)
    state = {"_data_files": [{"filename": "data.arrow"}]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert f"cannot hold {n} rows" in message(tmp_path)


def test_an_array_of_values_without_any_byte_is_refused(tmp_path):
    about = {"descr": "<U0", "fortran_order": False, "shape": (10**8,)}
    with (tmp_path / "labels.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, about)
    with pytest.raises(ValueError, match="values take 0 bytes"):
        load_labels(tmp_path / "labels.npy")


def test_names_that_write_to_the_terminal_are_refused(tmp_path, capsys):
    folder = tmp_path / "study"
    folder.mkdir()
    np.save(folder / "a\x1b[31m.npy", np.ones((8, 2)))
    np.save(folder / "labels.npy", np.arange(8) % 2)
    race = ["race", str(folder), "--classes", "2", "--out", str(tmp_path / "race")]
    for command in (["rank", str(tmp_path), "--dry-run"], race):
        assert main(command) != 0
        said = capsys.readouterr().err
        assert "Names must be printable, got 'a\\x1b[31m'" in said
    (folder / "a\x1b[31m.npy").write_bytes(b"no array")
    for command in (["rank", str(tmp_path), "--dry-run"], race):
        assert main(command) != 0
        said = capsys.readouterr().err
        assert r"a\x1b[31m.npy" in said
        assert "\x1b" not in said


def test_values_without_any_byte_are_refused(tmp_path):
    path = npz(tmp_path)
    about = {"descr": "<U0", "fortran_order": False, "shape": (N,)}
    with (
        zipfile.ZipFile(path, "a") as archive,
        archive.open("id.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, about)
    assert "bytes instead of" in message(path)


def test_escape_sequences_of_names_are_shown(tmp_path):
    path = npz(tmp_path)
    arrays = dict(np.load(path))
    np.savez(
        path, **{("\x1b]0;a\x07" if k == "deep" else k): v for k, v in arrays.items()}
    )
    assert r"\x1b]0;a\x07" in str(load_representations(path))


def test_columns_named_twice_or_separated_by_other_signs_are_refused(tmp_path):
    table = b"id,label,label\n" + b"".join(b"row%d,a,b\n" % i for i in range(N))
    path = hdf5(tmp_path)
    (path / "labels.csv").write_bytes(table)
    assert "names 'label' twice" in message(path)
    for other in (b";", b"\t"):
        (path / "labels.csv").write_bytes(table.replace(b",", other))
        assert "must hold cells separated by commas, but" in message(path)
    (path / "labels.csv").write_bytes(table.replace(b"row3,a,b", b'row3,a,"b'))
    assert "labels.csv must hold a CSV table" in message(path)
    path = eva(tmp_path / "eva")
    manifest = path / "deep" / "study" / "manifest.csv"
    lines = manifest.read_text().splitlines()
    manifest.write_text(
        "\n".join([lines[0] + ",target", *(f"{x},a" for x in lines[1:])])
    )
    assert "names 'target' twice" in message(path)


def test_an_origin_that_is_there_twice_is_refused(tmp_path):
    path = eva(tmp_path) / "deep"
    manifest = path / "study" / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("row7,", "row8,"))
    assert "'row8' occurs several times" in message(path)
    eva(tmp_path / "files")
    manifest = tmp_path / "files" / "embeddings" / "deep" / "study" / "manifest.csv"
    manifest.write_text(manifest.read_text().replace(",7.pt,", ",./8.pt,"))
    assert "8.pt' occurs several times; save df.drop_duplicates('embeddings')" in (
        message(manifest.parent.parent)
    )
    path = hear(tmp_path / "splits") / "deep"
    about = {"embedding_type": "scene", "splits": ["test", "train", "test"]}
    (path / "study" / "task_metadata.json").write_text(json.dumps(about))
    assert f"study: {N} rows" in str(load_representations(path))
    path = saved(tmp_path / "files")
    (path / "dataset_dict.json").write_text('{"splits": ["train", "./train", "test"]}')
    for file in path.glob("*/state.json"):
        about = json.loads(file.read_text())
        about["_data_files"] *= 2
        file.write_text(json.dumps(about))
    assert f": {N} rows" in str(load_representations(path))


@for_each("splits", [None, ["train"]])
def test_a_task_without_embeddings_is_refused_with_any_splits(tmp_path, splits):
    path = hear(tmp_path)
    for file in path.rglob("*.embeddings.npy"):
        file.unlink()
    words = "must hold a file SPLIT.embeddings.npy, but it has none; run heareval"
    assert words in message(path, splits=splits)


@for_each("labels", [[True, 1], [1, "1"], ["a", False], [0.5, True]])
def test_labels_of_several_types_are_refused(tmp_path, labels):
    path = hear(tmp_path)
    rows = [[labels[i % 2]] for i in range(30)]
    (path / "deep" / "study" / "train.target-labels.pkl").write_bytes(
        pickle.dumps(rows)
    )
    assert "all numbers, all text or all bool" in message(path, splits=["train"])


def test_a_label_longer_than_a_name_is_refused(tmp_path):
    """As an array of text, where each takes the bytes of the longest."""
    path = hear(tmp_path)
    rows = [["a" * 5000]] * 30
    (path / "deep" / "study" / "train.target-labels.pkl").write_bytes(
        pickle.dumps(rows)
    )
    assert "at most 4096 characters" in message(path, splits=["train"])


@for_each(
    "first, second, words",
    [
        ([1, 2], ["a", "b"], "Labels of all shards must be of type int64"),
        ([1, 2], [True, False], "Labels of all shards must be of type int64"),
        ([1.0, 2.0], [np.nan, 1.0], "it contains a NaN label in row 0"),
    ],
)
def test_shards_with_labels_of_other_types_are_refused(tmp_path, first, second, words):
    for name, labels in (("a", first), ("b", second)):
        table = pa.table({"x": [[1.0], [2.0]], "label": labels})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=words):
        stage_rows([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "rows")
    assert not (tmp_path / "rows" / "features.npy").exists()


@for_each("number", [1e300, np.nan, -np.inf])
def test_numbers_that_are_none_as_float32_are_not_staged(tmp_path, number):
    table = pa.table({"x": [[1.0], [number]], "label": [0, 1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet must hold finite.*row 1"):
        stage_rows([tmp_path / "a.parquet"], tmp_path / "rows")


@for_each("column", ["rows", "y"])
def test_rows_that_cannot_be_staged_are_counted_from_the_start_of_the_shard(
    tmp_path, column
):
    tensors = {"rows": np.ones((5000, 1)), "y": np.ones(5000)}
    tensors[column][4999] = np.nan
    save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="row 4999"):
        stage_rows([tmp_path / "a.safetensors"], tmp_path / "rows")


# What a file may ask for is bounded by its bytes


def unallocated(root, which):
    """Write an AnnData with an array of a shape that the file cannot hold."""
    path = h5ad(root)
    with h5py.File(path, "a") as file:
        place = {"X": "obsm/huge", "codes": "obs/cell_type/codes", "ids": "obs/cell"}
        shape = {"X": (N, 10**9), "codes": (10**12,), "ids": (10**11,)}[which]
        if place[which] in file:
            del file[place[which]]
        kind = h5py.string_dtype() if which == "ids" else "i8"
        file.create_dataset(place[which], shape, kind, chunks=True)
    return path


@for_each("which", ["X", "codes", "ids"])
def test_shapes_of_an_h5ad_are_bounded_by_its_bytes(tmp_path, which):
    path = unallocated(tmp_path, which)
    with two_gigabytes():
        text = message(path)
    assert "study.h5ad must hold the arrays that it names" in text
    assert " and has 0" in text


def test_shapes_of_embeddings_by_id_are_bounded_by_their_bytes(tmp_path):
    path = hdf5(tmp_path)
    with h5py.File(path / "deep.h5", "w") as file:
        for row in range(N):
            file.create_dataset(str(IDS[row]), (10**11,), "f4", chunks=True)
    with two_gigabytes():
        assert " and has 0" in message(path)


@for_each(
    "wrap",
    [
        lambda X: torch.ones(1).expand(10**12),
        lambda X: torch.ones(3).to_sparse(),
        lambda X: torch.ones(3, device="meta"),
        lambda X: torch.ones(3, dtype=torch.complex64)[:0],
        lambda X: {"a": 1},
    ],
)
def test_tensors_that_are_none_or_larger_than_their_file_are_refused(tmp_path, wrap):
    with two_gigabytes():
        text = message(eva(tmp_path, wrap=wrap))
    assert re.search(" must .*; ", text)


PICKLES = {
    "REDUCE on text": b"\x80\x02U\x01aU\x01b\x85R.",
    "BUILD on a list": b"\x80\x02]U\x01ab.",
    "BUILD on text": b"\x80\x02U\x01aU\x01ab.",
    "SETITEM on a list": b"\x80\x02]U\x01aK\x01s.",
    "APPEND on text": b"\x80\x02U\x01aK\x01a.",
    "a long text": b"\x80\x04\x8e" + (2**63).to_bytes(8, "little") + b".",
    "a longer text than there is": b"\x80\x04\x8d"
    + (10**12).to_bytes(8, "little")
    + b"a.",
    "a far place of the memo": b"\x80\x02]r\xff\xff\xff\x7f.",
    "a place that is not there": b"\x80\x02h\x07.",
}


@for_each("content", list(PICKLES.values()))
def test_pickles_out_of_order_are_refused_in_a_sentence(tmp_path, content):
    path = hear(tmp_path)
    (path / "deep" / "study" / "train.target-labels.pkl").write_bytes(content)
    with two_gigabytes():
        assert "only lists, text and numbers" in message(path)


def test_odd_parts_of_an_h5ad_are_told_in_a_sentence(tmp_path):
    def categories(file):
        file["obs/cell_type/codes"][3] = 77

    def loop(file):
        file["obsm/loop"] = h5py.SoftLink("/obsm/loop")

    def structured(file):
        del file["obs/cell_type"]
        kind = [("a", "i4"), ("b", "f4")]
        file["obs/cell_type"] = np.zeros(N, kind)

    for spoil in (categories, loop, structured):
        path = h5ad(tmp_path)
        with h5py.File(path, "a") as file:
            spoil(file)
        text = message(path)
        assert "study.h5ad" in text
        assert " must " in text


def test_names_of_class_labels_are_read_and_minus_one_is_none(tmp_path):
    feature = {"_type": "ClassLabel", "names": ["no", "yes"]}
    about = json.dumps({"info": {"features": {"label": feature}}})
    table = pa.table({"label": [1, 0, -1], "X": [[1.0], [2.0], [3.0]]})
    table = table.replace_schema_metadata({"huggingface": about})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = load_representations(tmp_path / "a.parquet", missing="drop")
    assert found.datasets["a"][1].tolist() == ["yes", "no"]


# Where they are used


def anndata_like():
    pd = pytest.importorskip("pandas")
    obs = pd.DataFrame({"cell_type": LABELS, "batch": np.arange(N) % 2}, index=IDS)
    obs["cell_type"] = obs["cell_type"].astype("category")
    return SimpleNamespace(obs=obs, obsm=dict(FEATURES), obs_names=obs.index)


def test_the_scorer_takes_an_anndata():
    scorer = RepresentationScorer(MDLReadoutSwitcher("closed-form"))
    direct = scorer.fit({"AnnData": (FEATURES, LABELS)}).codelengths_
    assert_array_equal(scorer.fit(anndata_like()).codelengths_, direct)
    named = scorer.fit({"AnnData": (anndata_like(), "cell_type")}).codelengths_
    assert_array_equal(named, direct)
    with pytest.raises(ValueError, match=r"one of \['cell_type', 'batch'\]"):
        scorer.fit({"cells": (anndata_like(), "donor")})


@pytest.mark.parametrize("write", [h5ad, hear])
def test_rank_says_what_it_found(tmp_path, capsys, write):
    arguments = ["rank", str(write(tmp_path)), "--readouts", "closed-form"]
    status = main([*arguments, "--dry-run", "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "study: 40 rows, 2 classes; deep (3), flat (2)" in printed
    assert "2 cells" in printed


# Shards


def shard(path, rows, labels=LABELS):
    """Write some rows of the deep features, in the format of the ending."""
    X, y = FEATURES["deep"][rows], labels[rows]
    if path.suffix == ".safetensors":
        save_file({"rows": X, "y": (y == "up").astype("i8")}, path)
        return
    table = pa.table({"rows": list(X), "label": y, "id": IDS[rows]})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=7)
        return
    with pa.ipc.new_stream(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=7)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "safetensors"])
def test_shards_are_laid_out_in_order_in_one_map(kind, tmp_path):
    names = [f"b.{kind}", f"a.{kind}"]
    for i, name in enumerate(names):
        shard(tmp_path / name, slice(15 * i, None if i else 15))
    X, y = stage_rows([tmp_path / name for name in names], tmp_path / "rows")
    assert isinstance(X, np.memmap)
    assert not X.flags.writeable
    assert_array_equal(X, FEATURES["deep"])
    assert_array_equal(y if y.dtype.kind != "i" else np.where(y, "up", "down"), LABELS)
    there = {path.name for path in (tmp_path / "rows").iterdir()}
    assert there == {"features.npy", ".sklearn_mdl"}


@pytest.mark.parametrize(
    ("names", "options", "sentence"),
    [
        ([], {}, r"shards must be a non-empty list of paths, got \[\]; pass \[path\]"),
        (["a.csv"], {}, r"shards must be \.parquet, .* got .*a\.csv"),
        (["damaged.parquet"], {}, r"damaged\.parquet must hold a \.parquet table"),
        (["damaged.safetensors"], {}, "must hold tensors, .* call save_file"),
        (
            ["deep.parquet"],
            {"features": "x"},
            r"must be one of \['rows'\] in .*, got 'x'",
        ),
        (["gaps.parquet"], {}, "must hold a label in each row, but some rows lack one"),
        (
            ["deep.parquet", "flat.safetensors"],
            {},
            "width of all shards must be 3 .*, got 2",
        ),
        (["long.safetensors"], {}, "must hold 40 labels, but it holds 3"),
        (["half.safetensors"], {}, "must hold types F64, .* I16; save X.astype"),
        (["empty.parquet"], {}, "must hold rows"),
    ],
)
def test_damaged_shards_are_refused(names, options, sentence, tmp_path):
    shard(tmp_path / "deep.parquet", slice(None))
    for kind in ("parquet", "safetensors"):
        (tmp_path / f"damaged.{kind}").write_text("none")
    gaps = pa.table({"x": [[1.0]], "label": pa.array([None], pa.string())})
    parquet.write_table(gaps, tmp_path / "gaps.parquet")
    shard(tmp_path / "empty.parquet", slice(0))
    flat, whole = FEATURES["flat"], np.zeros(N, "i8")
    save_file({"x": flat, "y": whole}, tmp_path / "flat.safetensors")
    save_file({"x": flat, "y": whole[:3]}, tmp_path / "long.safetensors")
    save_file({"x": flat, "y": whole.astype("i2")}, tmp_path / "half.safetensors")
    with pytest.raises(ValueError, match=sentence):
        stage_rows([tmp_path / n for n in names], tmp_path / "rows", **options)
    assert not (tmp_path / "rows" / "features.npy").exists()
