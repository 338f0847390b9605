"""The commonest first calls of ``compare``: each works, or names the line that does."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_array_equal
from PIL import Image
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_mdl import (
    MDLReadoutSwitcher,
    MultiOutputSwitcher,
    RepresentationScorer,
    compare,
    write_results,
)
from sklearn_mdl.encoders import _timm
from sklearn_mdl.model_selection import rounded
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.report import Comparison, _compare
from sklearn_mdl.report._encoders import named_encoders

WINE = load_wine(return_X_y=True)
ROWS = np.random.default_rng(0).permutation(178)[:60]
X, Y = WINE[0][ROWS], WINE[1][ROWS]
A, B = X[:, :6], X[:, 6:]
TEXTS = [("red " if y else "white ") + f"bottle {i % 7}" for i, y in enumerate(Y)]
SWITCHER = MDLReadoutSwitcher("linear")
QUICK = {"switcher": SWITCHER, "top_k": 0, "verbose": 0}


def names(*given, **options):
    """Return the encoders in the order of their ranks; all numbers are known."""
    found = compare(*given, **{**QUICK, **options})
    assert isinstance(found, Comparison)
    assert np.isfinite(found.scorer.codelengths_).all()
    assert 1 <= len(found.verdict().splitlines()) <= 3
    return list(found.table.index)


def code(features, y=Y, **options):
    """Return the codelength of features by the scorer itself."""
    found = compare({"given": features}, y=y, **{**QUICK, **options})
    return found.scorer.codelengths_.item()


# The twelve commonest first calls


def test_arrays():
    assert set(names({"clip": A, "dino": torch.as_tensor(B)}, y=Y)) == {"clip", "dino"}
    assert set(names([A, B], y=Y)) == {"encoder 1", "encoder 2"}
    given = named_encoders(["a/x #3.npy", "x.npy", "b/x.npy", "c/x.npy"])
    assert list(given) == ["x #3", "x", "x #4", "x #5"]
    with pytest.raises(TypeError, match=r"got none; write compare\(\{'clip': A, "):
        compare({"clip": A}, Y)
    line = r"compare\(\{'clip': A, 'dino': B\}, y=y\)"
    for wrong in ((), (A,), (A, B)):
        with pytest.raises(TypeError, match=line):
            compare(*wrong, y=None if len(wrong) == 1 else Y)


def test_columns_of_data_frames():
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(13)])
    assert set(names({"a": frame[["c0", "c1"]], "b": frame[["c2"]]}, y=pd.Series(Y)))
    frame["label"] = Y
    found = compare({"a": ["c0", "c1"], "all": None}, frame, "label", **QUICK)
    sizes = {cell.encoder: cell.n_features for cell in found.scorer.cells_}
    assert sizes == {"a": 2, "all": 13}
    with pytest.raises(ValueError, match=r"'a' must hold numbers, got 'w' in column"):
        compare({"a": frame.assign(word="w")}, y=Y)


def test_numbers_in_a_table_of_objects_are_numbers():
    table = np.column_stack([X.astype(object), np.repeat("w", len(X))])
    assert names({"a": table[:, :-1]}, y=Y) == names({"a": X}, y=Y)
    reals = compare({"a": table[:, 1:-1]}, y=table[:, 0])
    assert reals.scorer.cells_[0].is_real
    with pytest.raises(ValueError, match="'a' must hold numbers, got 'w' in column 13"):
        compare({"a": table}, y=Y)
    columns = make_column_transformer((OneHotEncoder(), [13]), remainder="passthrough")
    assert names({"a": columns}, table, Y) == ["a"]


def test_a_frame_of_polars_gives_labels_and_columns():
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(13)]).assign(label=Y)
    encoders = {"a": ["c0", "c1"], "all": None}
    codes = [
        compare(encoders, rows, "label", **QUICK).scorer.codelengths_
        for rows in (frame, polars.DataFrame(frame.to_dict("list")))
    ]
    assert_array_equal(*codes)


def test_names_that_are_no_columns_are_named():
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(13)])
    words = "must be among the columns of X, got 'zz'; for example, pass 'c0'"
    with pytest.raises(ValueError, match=f"^y {words}$"):
        compare({"all": None}, frame, "zz")
    said = "y must be among the columns of X, got 'zz'; pass an array"
    for rows in (X, None):
        with pytest.raises(ValueError, match=f"^{said}$"):
            compare({"all": A}, rows, "zz")
    with pytest.raises(ValueError, match=f"^Columns of encoder 'a' {words}"):
        compare({"a": ["c0", "zz"]}, frame, Y)


def test_frames_in_another_order_than_labels_are_refused():
    frame, y = pd.DataFrame(X), pd.Series(Y)
    shuffled = frame.sample(frac=1, random_state=0)
    for given in (({"a": shuffled},), ({"a": None}, shuffled), (PCA(2), shuffled)):
        with pytest.raises(ValueError, match=r"in the order of y.*loc\[y.index\]"):
            compare(*given, y=y)
    groups, match = pd.Series(np.arange(60) // 2), r"'data' must .*loc\[y.index\]"
    mixed = groups.loc[shuffled.index]
    with pytest.raises(ValueError, match=match):
        compare({"a": frame}, y=y, groups=mixed)
    scorer = RepresentationScorer(SWITCHER, n_orders=1)
    for parts in ((shuffled, y), ({"a": shuffled}, y), (frame, y, mixed)):
        raw = None if isinstance(parts[0], dict) else {"raw": None}
        with pytest.raises(ValueError, match=match):
            scorer.fit({"data": parts}, raw)
    scorer.fit({"data": (frame, y, mixed.loc[y.index])}, {"raw": None})
    other = frame.set_axis(range(100, 160))  # another index says nothing of the order
    assert code(other, y) == code(frame.set_axis([0] * 60), y) == code(X)
    assert code(shuffled.to_numpy(), y.loc[shuffled.index].to_numpy()) > 0


# Encoders that fail


def test_an_encoder_that_fails_is_named():
    def fails(rows):
        raise RuntimeError("out of paper")

    with pytest.raises(RuntimeError, match="out of paper") as caught:
        compare({"a": None, "b": fails}, X, Y, **QUICK)
    assert caught.value.__notes__ == ["Encoder 'b' on dataset 'data'"]


def test_datasets_of_failing_encoders_are_dropped_on_request():
    def fails(rows):
        if rows is not X and len(rows) == 40:
            raise RuntimeError("out of paper")
        return rows

    datasets = {"d": (X, Y), "e": (X[:40], Y[:40])}
    with pytest.warns(
        UserWarning, match=r"Dropped .*'b' on 'e' \(Runt.*: out of paper"
    ):
        found = compare(
            {"a": None, "b": fails}, datasets=datasets, missing="drop", **QUICK
        )
    assert found.scorer.dataset_names_ == ["d"]
    assert [(f.dataset, f.encoder) for f in found.scorer.failures_] == [("e", "b")]
    holes = np.where(np.arange(60)[:, None] == 3, np.nan, A)
    datasets = {"d": ({"a": A}, Y), "e": ({"a": holes}, Y)}
    with pytest.warns(UserWarning, match=r"Dropped .*'a' on 'e' \(.*NaN"):
        found = compare(datasets=datasets, missing="drop", **QUICK)
    assert found.scorer.dataset_names_ == ["d"]
    with pytest.raises(ValueError, match="encoder 'a' on dataset 'e' gives NaN in row"):
        compare(datasets=datasets, **QUICK)


def test_a_list_of_paths(tmp_path):
    paths = [tmp_path / f"{name}.npy" for name in ("clip", "dino")]
    for path, features in zip(paths, (A, B), strict=True):
        np.save(path, features)
    assert set(names(paths, y=Y)) == {"clip", "dino"}
    assert code(str(paths[0])) == code(A)


def test_pipelines():
    encoders = [make_pipeline(StandardScaler(), PCA(2)), PCA(2), None]
    shown = {"standardscaler-pca", "PCA(n_components=2)", "raw"}
    assert set(names(encoders, X, Y)) == shown
    supervised = make_pipeline(SelectKBest(), PCA(1))
    with pytest.raises(ValueError, match=r"without the labels.*FrozenEstimator"):
        compare([supervised], X, Y)
    classifier = make_pipeline(PCA(2), LogisticRegression())
    with pytest.raises(TypeError, match=r"must have transform.*pipeline\[:-1\]"):
        compare([classifier], X, Y)
    text = r"(?m)^Encoder 'PCA' must be an instance, got a class; pass PCA\(\)$"
    with pytest.raises(TypeError, match=text):
        compare([PCA], X, Y)
    with pytest.raises(TypeError, match=r"(?m), got int; to use X itself, pass None$"):
        compare([3], X, Y)
    with pytest.raises(ValueError, match=r"'nothing' on .* gives NoneType for 60 labe"):
        compare({"nothing": lambda rows: None}, X, Y)
    with pytest.raises(ValueError, match=r"write compare\(\{\"pca\": encoder\}, X"):
        compare({"pca": PCA(2)}, y=Y)


def test_sparse_text():
    two = make_pipeline(TfidfVectorizer(), TruncatedSVD(2))
    encoders = {"words": TfidfVectorizer(), "two": two}
    assert set(names(encoders, TEXTS, Y)) == {"words", "two"}
    assert code(csr_array(A)) == code(A)
    wide = csr_array((60, 10**12), dtype=np.float32)
    with pytest.raises(ValueError, match=r"quarter of the memory.*TruncatedSVD\(256\)"):
        compare({"wide": wide}, y=Y)


def test_a_name_of_timm(tmp_path, monkeypatch):
    timm = pytest.importorskip("timm")
    create = timm.create_model

    def without_download(name, pretrained, **options):
        return create(name, **options)

    monkeypatch.setattr(timm, "create_model", without_download)
    monkeypatch.setattr(_timm, "check_network", lambda timm, name: None)
    pixels = np.random.default_rng(0).integers(0, 255, (6, 40, 40, 3), np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    found = names(["test_resnet.r160_in1k"], list(map(str, paths)), [0, 1] * 3)
    assert found == ["test_resnet.r160_in1k"]
    with pytest.raises(ValueError, match=r"model in timm .*got 'rasnet18'; pass one"):
        compare(["rasnet18"], pixels, [0, 1] * 3)


class Texts(torch.nn.Module):
    """As sentence-transformers has it: a module that encodes lists of texts."""

    def encode(self, sentences):
        assert isinstance(sentences, list)
        return np.array([[len(s), s.count("red"), 1.0] for s in sentences])


def test_models_that_encode():
    for texts in (TEXTS, pd.Series(TEXTS), np.array(TEXTS)):
        assert names([Texts()], texts, Y) == ["Texts"]
    expected = code(Texts().encode(TEXTS))
    found = compare([Texts().encode], TEXTS, Y, **QUICK)
    assert found.scorer.codelengths_.item() == expected
    said = "A string must name a timm model or a .npy, .npz or .safetensors file, got "
    said += "'org/all-x'; for a text model, pass SentenceTransformer('org/all-x')"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        compare(["org/all-x"], TEXTS, Y)


def reused_buffer(order, output=np.asarray):
    """A function that writes features into the same array in every call."""

    def encode(sentences):
        BUFFER[: len(sentences)] = Texts().encode(sentences)[::order]
        return output(BUFFER[: len(sentences)])

    return encode


BUFFER = np.empty((500, 3))


def read_only(buffer):
    return np.broadcast_to(buffer, buffer.shape)


def test_models_that_reuse_their_output():
    texts, y = TEXTS + TEXTS, np.r_[Y, Y]
    model = SimpleNamespace(encode=reused_buffer(1))  # called for blocks of rows
    backwards = reused_buffer(-1, read_only)
    encoders = {"a": reused_buffer(1, read_only), "b": backwards, "c": model}
    found = compare(encoders, texts, y, **QUICK).scorer.codelengths_[0]
    features = Texts().encode(texts)
    alone = compare({"a": features, "b": features[::-1]}, y=y, **QUICK)
    assert_array_equal(found[:2], alone.scorer.codelengths_[0])
    assert found[2] == found[0] != found[1]


def test_models_of_hugging_face():
    def pipeline(texts):  # features of tokens: (1, n_tokens, width) for each text
        return [[[[len(word), 1.0] for word in text.split()]] for text in texts]

    tokens = [text + " more" * (i % 2) for i, text in enumerate(TEXTS)]
    means = [np.mean(row[0], axis=0) for row in pipeline(tokens)]
    found = compare({"tokens": pipeline}, tokens, Y, **QUICK)
    assert found.scorer.codelengths_.item() == code(np.array(means))
    images = np.array(X[:, :12].reshape(-1, 2, 2, 3))
    called = {"__call__": lambda _, rows: rows}
    for part in ("fit", "transform"):  # as models of Keras, and many others
        some = type("Some", (), {part: None, **called})()
        found = compare({"called": some}, X, Y, **QUICK)
        assert found.scorer.codelengths_.item() == code(X)
    for given in (None, lambda images: images, lambda images: list(images), some):
        with pytest.raises(ValueError, match=r"images: X.reshape\(len\(X\), -1\)"):
            compare({"pixels": given}, images, Y, **QUICK)
    uneven = [np.zeros((2 + i % 2, 2)) for i in range(len(Y))]
    with pytest.raises(ValueError, match="'pixels' must all have one shape; resize"):
        compare({"pixels": None}, uneven, Y, **QUICK)
    bert = torch.nn.Linear(2, 2)
    bert.config = {"model_type": "bert"}
    with pytest.raises(TypeError, match=r"lambda texts: model\(\*\*tokenizer\("):
        compare({"bert": bert}, TEXTS, Y)


def test_one_folder(tmp_path):
    folder = tmp_path / "features" / "wine"
    folder.mkdir(parents=True)
    for name, array in {"clip": A, "labels": Y}.items():
        np.save(folder / f"{name}.npy", array)
    assert names(datasets=folder.parent) == ["clip"]
    found = compare(datasets=folder, **QUICK)
    assert (found.scorer.dataset_names_, found.scorer.encoder_names_) == (
        ["wine"],
        ["clip"],
    )
    line = re.escape(f"compare(datasets={str(folder)!r})")
    with pytest.raises(TypeError, match=line):
        compare(folder)


def test_several_datasets():
    both = {"w": (X, Y), "half": (X[:40], Y[:40])}
    assert set(names({"pca": PCA(2), "raw": None}, datasets=both)) == {"pca", "raw"}
    arrays = {"w": ({"clip": A, "dino": B}, Y)}
    assert set(names(datasets=arrays)) == {"clip", "dino"}
    line = r"compare\(encoders, datasets=\{'w': \(X, y\)\}\)"
    for encoders, data in (([None], arrays), (None, {"w": (X, Y)})):
        with pytest.raises(TypeError, match=line):
            compare(encoders, datasets=data)
    with pytest.raises(TypeError, match=line):
        compare([None], datasets={"w": X})
    with pytest.raises(TypeError, match="y must be None if datasets are given"):
        compare([None], datasets=both, y=Y)


def test_groups_of_rows():
    patients = np.repeat(np.arange(20), 3)
    grouped, free = code(A, groups=patients), code(A)
    assert grouped == code(A, groups=np.repeat(list("abcdefghijklmnopqrst"), 3))
    assert grouped != free
    data = {"w": ({"given": A}, Y, patients)}
    assert compare(datasets=data, **QUICK).scorer.codelengths_.item() == grouped


@pytest.mark.slow
def test_real_targets():
    target = A[:, 0] + 0.5
    assert set(names({"a": A, "b": B}, y=target, switcher=None)) == {"a", "b"}
    found = compare({"a": A}, y=target, verbose=0)
    assert found.scorer.first_cells_[0].is_real
    assert "accuracy" not in found.table
    assert ">n/a</td>" in found._repr_html_().replace("&gt;", ">").replace("&lt;", "<")


@for_each("late", [0.0, 60.0])
def test_bars_say_what_they_count(late, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.model_selection._running.LATE", late)
    compare({"clip": A, "dino": B}, y=Y, **QUICK | {"verbose": 1, "top_k": 2})
    said = capsys.readouterr().err
    assert ("cells: 100%" in said, "pairs: 100%" in said) == (late == 0, late == 0)


def test_two_columns_of_labels():
    columns = np.c_[Y, Y % 2]
    said = f"y must hold one label for each row, got shape {columns.shape}; pass a "
    said += "single column, or call MultiOutputSwitcher().fit(X, y) for all columns"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        compare({"a": A}, y=columns)
    assert np.isfinite(MultiOutputSwitcher(SWITCHER).fit(A, columns).codelength_)


# What comes out


def test_modules_run_on_rows_as_they_are():
    module = torch.nn.Sequential(torch.nn.Linear(13, 3), torch.nn.Dropout()).train()
    module[0].eval()  # a part that is frozen
    with torch.no_grad():
        features = module[0](torch.as_tensor(X, dtype=torch.float32)).numpy()
    found = compare({"net": module}, X, Y, **QUICK)
    assert found.scorer.codelengths_.item() == pytest.approx(code(features), rel=1e-6)
    assert [part.training for part in module.modules()] == [True, False, True]


@pytest.fixture(scope="module")
def wine():
    encoders = {"all": X, "first": A, "last": B}
    return compare(encoders, y=Y, switcher=SWITCHER, n_orders=2, top_k=2, verbose=0)


def test_the_numbers_are_those_of_the_scorer(wine):
    table, scorer = wine.table, wine.scorer
    nats = dict(zip(scorer.encoder_names_, scorer.codelengths_[0] / 60, strict=True))
    assert table["nats"].to_dict() == pytest.approx(nats)
    assert list(table["nats"]) == sorted(nats.values())
    assert list(table["rank"]) == [1, 2, 3]
    saved = scorer.savings_per_example("labels")[0]
    assert table["saved"].to_dict() == pytest.approx(
        dict(zip(scorer.encoder_names_, saved, strict=True))
    )


def test_pairs_are_coded_side_by_side(wine):
    (gain,) = wine.gains
    best = {row.encoder for row in wine.rows()[:2]}
    assert {gain.first, gain.second} == best
    given = {"all": X, "first": A, "last": B}
    ((_, own),) = wine.pairs.items()
    scaled = [given[name] / np.sqrt(given[name].var(0).sum()) for name in own]
    both = np.hstack(scaled)
    assert gain.both == pytest.approx(code(both, n_orders=2))
    assert gain.saved == pytest.approx(gain.alone - gain.both)
    assert gain.alone <= gain.other


def test_savings_of_a_pair_are_relative_to_the_encoder_that_is_named():
    """On "small" A is better, in total B; A wins the tie of average ranks."""
    rng = np.random.default_rng(1)
    datasets = {}
    for name, n, shifts in (("small", 50, (2, 0.1)), ("big", 300, (0.1, 2))):
        y = np.arange(n) % 2
        A, B = (
            rng.normal(size=(2, n, 3)) + np.multiply.outer(shifts, 2 * y - 1)[..., None]
        )
        datasets[name] = {"A": A, "B": B}, y
    found = compare(datasets=datasets, switcher=SWITCHER, n_orders=2, verbose=0)
    ((both, _),) = found.pairs.items()
    paired = found.pair_ranking.paired_differences([("A", both), ("B", both)])
    halves = dict(zip("AB", np.hypot(*(paired.upper - paired.mean).T), strict=True))
    saved = dict(zip("AB", paired.mean.sum(1), strict=True))
    (total,) = found.total_gains
    assert total.first == "B"
    assert (total.saved, total.half) == pytest.approx((saved["B"], halves["B"]))
    line = f"Adding B to A saves {rounded(saved['A'], halves['A'])} nats in total on 2"
    assert line in found.verdict()


def test_savings_of_a_pair_that_cannot_be_tested_are_not_stated():
    grouped = {**QUICK, "groups": np.zeros(60), "top_k": 2}
    last = compare({"A": A, "B": B}, y=Y, **grouped).lines()[-1]
    assert re.fullmatch("What another encoder adds to [AB] cannot be tested.", last)


def test_what_is_beside_it_hides_no_encoder_by_its_scale():
    noise = 1e4 * np.random.default_rng(0).normal(size=(60, 13))
    good, bad = X / X.std(0), noise
    found = compare({"good": good, "bad": bad}, y=Y, switcher=SWITCHER, verbose=0)
    (gain,) = found.gains
    assert gain.first == "good"
    assert gain.both < (gain.alone + gain.other) / 2


def test_curves_average_the_losses_of_the_run(wine):
    frame = wine.curves
    cells = [cell for cell in wine.scorer.cells_ if cell.encoder == "all"]
    own = frame[frame.encoder == "all"]
    sizes = np.r_[own.labels.iloc[0] * 2 + 1, np.zeros(len(own) - 1)]
    for i in range(1, len(own)):  # each point is the middle of its interval
        sizes[i] = 2 * (own.labels.iloc[i] - sizes[:i].sum()) + 1
    assert sizes.sum() == 60
    total = sum(cell.codelength for cell in cells) / 2
    assert (own.nats * sizes).sum() == pytest.approx(total)
    hits = np.mean([cell.accuracy for cell in cells])
    assert (own.accuracy * sizes).sum() / 60 == pytest.approx(hits)
    assert (own.nats_half > 0).all()


def test_curves_of_a_single_group_have_no_band(tmp_path):
    found = compare({"all": X, "first": A}, y=Y, groups=np.zeros(60), **QUICK)
    assert np.isnan(found.curves.nats_half).all()
    page = found.to_html(tmp_path / "page.html").read_text("utf-8")
    assert not re.search(r"\bnan\b", page)


def test_no_encoder_is_said_to_reach_an_accuracy_of_zero(wine):
    found = Comparison(wine.scorer)
    assert found.accuracy_levels.keys() == {"data"}
    assert "labels" in found.table
    found = Comparison(wine.scorer)
    found.__dict__["curves_by_cell"] = {
        place: curve._replace(accuracy=curve.accuracy / 20)
        for place, curve in wine.curves_by_cell.items()
    }
    assert found.accuracy_levels == {}
    assert "labels" not in found.table


def test_correct_predictions_survive_a_store(tmp_path, wine):
    options = {"switcher": SWITCHER, "n_orders": 2, "top_k": 0, "verbose": 0}
    given = {"all": X, "first": A, "last": B}
    for _ in range(2):
        kept = compare(given, y=Y, results=tmp_path, **options)
        for cell, same in zip(kept.scorer.cells_, wine.scorer.cells_, strict=True):
            assert_array_equal(cell.source.read().correct, same.source.read().correct)


def test_results_hold_the_page_of_the_comparison(wine, tmp_path):
    *_, page = write_results(wine, tmp_path)
    assert page.read_text(encoding="utf-8") == wine.to_html(page).read_text("utf-8")
    assert "What a second encoder adds" in page.read_text(encoding="utf-8")


def test_unknown_settings_are_named():
    with pytest.raises(TypeError, match=r"compare takes .*'n_jobs'.* got 'jobs'"):
        compare({"a": A}, y=Y, jobs=2)


def test_a_page_replaces_pages_of_ours_alone(wine, tmp_path):
    page, theirs = tmp_path / "page.html", b'<html><meta name="generator" content="x">'
    page.write_bytes(theirs)
    with pytest.raises(ValueError, match=r"written by sklearn_mdl, but .*page\.html"):
        wine.to_html(page)
    assert page.read_bytes() == theirs
    page.unlink()
    assert wine.to_html(page).read_bytes() == wine.to_html(page).read_bytes()


def test_a_folder_or_dataset_that_is_missing_is_named(wine, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"create the folder '.*nodir'"):
        wine.to_html(tmp_path / "nodir" / "x.html")
    with pytest.raises(ValueError, match=r"dataset must be .*'data'.*, got 'zz'"):
        wine.rows("zz")


def test_the_page_is_one_file(wine, tmp_path):
    path = wine.to_html(tmp_path / "page.html")
    assert isinstance(path, Path)
    assert "<script" in path.read_text(encoding="utf-8")
    shown = wine._repr_html_()
    assert "sandbox='allow-scripts'" in shown
    assert shown.count("<iframe") == 1
    assert "<script" not in shown  # it is escaped, inside the frame


def test_encoders_of_one_average_rank_share_it():
    datasets = {"w": ({"a": A, "b": B, "c": A}, Y), "v": ({"a": B, "b": A, "c": B}, Y)}
    first, *_ = compare(datasets=datasets, **QUICK).verdict().splitlines()
    assert first == (
        "a has the best average rank, 2.0 of 3, tied with b, c, and the shortest code "
        "on 1 of 2 datasets; on these datasets it is best with probability 0.33."
    )


# Pairs that cannot be scored leave the ranking of the encoders as it is


def pairs_of(datasets, **options):
    return compare(datasets=datasets, switcher=SWITCHER, verbose=0, **options)


def test_a_time_budget_is_for_the_encoders_alone():
    datasets = {name: ({"a": A, "b": B}, Y) for name in ("d", "e")}
    found = pairs_of(datasets, time_budget=60.0, n_orders=2)
    expected = pairs_of(datasets, top_k=0, n_orders=2)
    assert_array_equal(found.scorer.codelengths_, expected.scorer.codelengths_)
    assert not found.gains
    assert found.verdict() == expected.verdict()


@for_each("missing, bad", [("raise", "de"), ("drop", "de"), ("drop", "d")])
def test_a_ranking_outlives_its_pairs(missing, bad, monkeypatch):
    class Failing(_compare._ScorerOfPairs):
        def _run(self, tasks):
            return [
                Failure(t.dataset, t.encoder, t.order, "lost", "")
                if t.dataset in bad
                else cell
                for t, cell in zip(tasks, super()._run(tasks), strict=True)
            ]

    monkeypatch.setattr(_compare, "_ScorerOfPairs", Failing)
    datasets = {name: ({"a": A, "b": B}, Y) for name in ("d", "e")}
    with pytest.warns(UserWarning, match=r"'. \+ .' on 'd', order 0 \(lost"):
        found = pairs_of(datasets, missing=missing, n_orders=2)
    assert found.scorer.dataset_names_ == ["d", "e"]
    assert [gain.dataset for gain in found.gains] == ["e"] * (bad == "d")
    assert ("Adding" in found.verdict()) == (bad == "d")


@for_each("wrong", [-1, "2", 1.5])
def test_a_wrong_number_of_encoders_to_pair_is_refused_first(wrong):
    def never(rows):
        raise AssertionError

    with pytest.raises(ValueError, match="top_k must be an integer of at least 0, got"):
        compare(never, X, Y, top_k=wrong)


def test_options_of_a_switcher_and_datasets_of_four_parts_are_refused():
    known = set(RepresentationScorer().get_params(deep=False)) - {"verbose"}
    said = f"compare takes the settings {sorted(known)}, got 'readouts'; for a "
    said += "switcher's options, pass switcher=MDLReadoutSwitcher(readouts=...)"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        compare({"a": A}, y=Y, readouts="linear")
    said = "Dataset 'd' must be (X, y) or (X, y, groups), got 4 parts; write "
    said += "compare(encoders, datasets={'d': (X, y)})"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        compare({"a": None}, datasets={"d": (A, Y, Y, Y)})


def test_lists_of_rows_are_to_be_passed_as_arrays():
    said = "Encoder 'a' must be given rows to encode, got none; write "
    said += """compare({"a": encoder}, X, y), or pass features of 'a' as an array"""
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        compare({"a": A.tolist()}, y=Y)
    compare({"a": np.array(A.tolist())}, y=Y, **QUICK)


def test_curves_without_any_losses_say_what_to_do(tmp_path):
    comparison = compare({"a": A}, y=Y, results=tmp_path, **QUICK)
    shutil.rmtree(tmp_path / "cells")
    said = "All losses are missing; call compare or fit again"
    with pytest.raises(FileNotFoundError, match=f"^{said}$"):
        _ = comparison.curves
    again = compare({"a": A}, y=Y, results=tmp_path, **QUICK)
    assert len(again.curves)
