"""A ranking is of the data as they were given, whatever encoders and files do."""

import os
import pickle
import shutil
from collections import OrderedDict, UserDict
from io import BytesIO
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from each_case import for_each
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_array_equal
from PIL import Image, ImageFile, ImageOps, ImageSequence
from scipy.sparse import csr_array, dok_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    StandardScaler,
    normalize,
)

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    RefitReadout,
    RepresentationScorer,
    compare,
    write_results,
)
from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl._core.io.parameters import as_json
from sklearn_mdl._core.side_by_side import Devices
from sklearn_mdl.encoders import FeatureCache, TorchEncoder, protected
from sklearn_mdl.model_selection import _forecast, _running as running


class Pair(NamedTuple):
    first: list
    second: int


def small(**options):
    return RepresentationScorer(MDLReadoutSwitcher([LinearReadout()]), **options)


def wine(n=64):
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    return X[rows], y[rows]


# Encoders that write in place


class Buffered(TransformerMixin, BaseEstimator):
    """Returns one array, again and again."""

    def fit(self, X, y=None):
        self.out_ = np.empty((64, 2))
        return self

    def transform(self, X):
        self.out_[:] = X[:, :2]
        return self.out_


class Shifting(Buffered):
    """Changes what it is given."""

    def transform(self, X):
        X += 1
        return X


@pytest.mark.parametrize("kept", [False, True])
def test_an_encoder_that_writes_in_place_changes_nothing(kept, tmp_path):
    X, y = wine()
    before = X.copy()
    wanted = small().fit({"w": ({"raw": X, "own": normalize(X)}, y)}).codelengths_
    scorer = small(results=tmp_path if kept else None)
    encoders = {"raw": None, "own": Normalizer(copy=False)}  # which copies, if it must
    assert_array_equal(scorer.fit({"w": (X, y)}, encoders).codelengths_, wanted)
    for name, copy in {"new": True, "same": False}.items():  # fit may change its rows
        encoders[name] = make_pipeline(StandardScaler(copy=copy), Normalizer())
    encoders |= {"added": Shifting(), "clamped": FunctionTransformer(clamped)}
    for given in (X, pd.DataFrame(X)):
        if given is not X:  # its numbers are read-only
            del encoders["clamped"]
        found = scorer.fit({"w": (given, y)}, {**encoders, "last": None}).codelengths_
        assert_array_equal(found[0, [0, 1, -1]], wanted[0, [0, 1, 0]])
        assert found[0, 2] == found[0, 3]
        assert_array_equal(given, before)


def clamped(X):  # torch also writes to read-only arrays
    return torch.as_tensor(np.asarray(X)).clamp_(max=0)


def test_a_frame_is_not_changed_by_an_encoder():
    X, y = wine()
    frame = pd.DataFrame(X)
    encoders = {"own": StandardScaler(copy=False), "raw": None}
    found = small().fit({"wine": (frame, y)}, encoders)
    assert_array_equal(frame, X)
    alone = small().fit({"wine": (X, y)}, {"raw": None})
    assert_array_equal(found.codelengths_[:, 1], alone.codelengths_[:, 0])


def test_data_are_protected_and_copied_only_if_they_must_be(tmp_path):
    X = np.ones((3, 2))
    images = protected([X, X])
    assert type(images) is list
    assert images[0] is images[1]
    images[0][:] = 2
    assert X.flags.writeable
    for kind in (csr_array, dok_array):
        protected(sparse := kind(X))[0, 0] = 2
        assert_array_equal(sparse.toarray(), X)
    protected(X)[:] = 2
    assert (X == 1).all()
    flat = TorchEncoder(torch.nn.Flatten())
    assert protected(X, flat) is X
    assert protected(objects := X.astype(object), flat) is not objects
    np.save(tmp_path / "X.npy", X)
    assert protected(mapped := np.load(tmp_path / "X.npy", mmap_mode="r")) is mapped
    protected(np.load(tmp_path / "X.npy", mmap_mode="r+"))[:] = 2
    assert_array_equal(np.load(tmp_path / "X.npy"), X)
    pair = Pair([1], 2)
    protected([pair])[0].first.clear()
    assert pair == Pair([1], 2)
    other = {"a": SimpleNamespace(thumbnail=1), "b": Pair, "c": pd.DataFrame, "d": [1]}
    protected(other)["d"].clear()
    assert protected(other) == other
    assert other["d"] == [1]
    lock = [Lock()]  # cannot be copied
    assert protected(lock) == lock
    words = ["a", "b"]
    protected(words).sort(reverse=True)
    assert words == ["a", "b"]


@for_each(
    "items",
    [
        [[[1, 2]], [[3]]],
        ([[1, 2]], [[3]]),
        [torch.ones(2), {"a": [1]}],
        {"a": [[1]]},
        OrderedDict(a=[[1]]),
        UserDict(a=[[1]]),
        np.array([[1], [2, 3], {"a": 4}], dtype=object),
        pd.Series([[1], [2, 3]]),
        pd.DataFrame({"a": [[1], [2, 3]], "b": [1.0, 2.0]}),
    ],
)
def test_items_that_an_encoder_may_change_are_copied(items):
    given, before = protected(items), repr(items)
    assert repr(given) == before
    is_named = isinstance(items, dict | UserDict | pd.DataFrame)
    for item in given["a"] if is_named else given:
        item.zero_() if hasattr(item, "zero_") else item.clear()
    assert repr(items) == before


def test_frozen_dicts_reach_encoders_unchanged_and_circles_are_copied():
    class Frozen(dict):
        def __setitem__(self, key, value):
            raise TypeError("frozen")

    assert protected(items := Frozen(a=[1])) is items

    class Attributes(dict):
        def __init__(self, **given):
            super().__init__(given)
            self.__dict__ = self

    given = protected(items := Attributes(a=np.ones(2)))
    given.a *= 2
    given.b = 3
    assert given.keys() == {"a", "b"}
    assert_array_equal(given["a"], 2 * items.a)

    # And copies of rows that refer to themselves refer to the copies.
    for tree in ({"parts": [{}]}, UserDict(parts=[{}])):
        tree["parts"] += [tree["parts"]]
        tree["parts"][0]["whole"] = pair = (tree, tree["parts"])
        given, same = protected([tree, pair])
        assert given["parts"][0]["whole"] is same
        assert same[0] is given is not tree
        assert same[1] is given["parts"] is given["parts"][1] is not tree["parts"]


def test_data_frames_are_copied_with_their_objects():
    frame = pd.DataFrame({"a": [[1], [2]], "b": [lambda: 0, Lock()], "c": [0.5, 1.5]})
    frame = frame.set_axis(["a", "a", "c"], axis=1)
    given = protected(frame)
    given.iloc[0, 0].clear()
    assert frame.iloc[0, 0] == [1]
    assert_array_equal(given.dtypes, frame.dtypes)
    assert given.iloc[1, 1] is frame.iloc[1, 1]
    frame = pd.DataFrame(
        {"a": [shared := bytearray(b"a")] * 2 + [{1}]}, index=[0, 0, 1]
    )
    given = protected(frame)["a"].to_numpy()
    assert given[0] is given[1] is not shared
    given[0].clear()
    given[2].clear()
    assert frame["a"].tolist() == [bytearray(b"a")] * 2 + [{1}]
    frame = pd.DataFrame({"a": [[{1}], other := SimpleNamespace(a=[1])]})
    in_list, given = protected(frame)["a"]
    in_list[0].clear()
    assert frame.iloc[0, 0] == [{1}]
    assert given is other  # as the docstring says
    frame = pytest.importorskip("polars").DataFrame({"a": [1.0], "b": [2.0]})
    protected(frame).drop_in_place("a")
    assert frame.columns == ["a", "b"]
    protected(column := frame["a"])[0] = 3.0
    assert column[0] == 1


def test_images_of_several_frames_reach_encoders_as_they_are(tmp_path):
    path = tmp_path / "moving.gif"
    first, *others = [Image.new("L", (4, 4), 80 * i) for i in range(3)]
    first.save(path, save_all=True, append_images=others)
    with Image.open(path) as moving:
        (given,) = protected([moving])
        assert len(list(ImageSequence.Iterator(given))) == 3
    first.save(tmp_path / "moving.tif", save_all=True, append_images=others)
    for each in (path, tmp_path / "moving.tif"):
        with Image.open(each) as edited:
            edited.seek(1)
            edited.thumbnail((2, 2))
            assert protected([edited])[0] is edited
            assert (edited.size, edited.tell()) == ((2, 2), 1)
    first.save(tmp_path / "moving.png", save_all=True, append_images=others)
    for each in (path, tmp_path / "moving.tif", tmp_path / "moving.png"):
        with Image.open(each) as moving:
            if each.suffix != ".png":  # drawing on these loses their later frames
                moving.paste(9, (0, 0, 2, 2))
                protected([moving])
                assert moving.getpixel((1, 1)) == 9
            for _ in range(2):
                assert len(list(ImageSequence.Iterator(protected(moving)))) == 3
            assert protected(moving).n_frames == 3
    with Image.open(tmp_path / "moving.tif") as tagged:
        tagged.getexif()[305], tagged.tag_v2[270] = "mine", "mine"
        protected([tagged])
        assert tagged.getexif()[305] == tagged.tag_v2[270] == "mine"
    with Image.open(path) as closed:
        closed.load()
    with Image.open(path) as unread:
        pass
    assert protected([unread])[0] is unread  # an encoder may open its file
    (given,) = protected([closed])  # only one frame is left
    given.paste(7, (0, 0, *given.size))
    assert (given.getpixel((0, 0)), closed.getpixel((0, 0))) == (7, 0)


@for_each("name", ["a.png", "a.jpg", "a.gif"])
def test_damaged_images_fail_for_every_encoder(name, tmp_path, monkeypatch):
    """PIL reports some errors only once, and then returns what it could decode."""
    noise = np.random.default_rng(0).integers(256, size=(40, 32, 32), dtype=np.uint8)
    images = [Image.fromarray(image) for image in noise]
    path = tmp_path / name
    images[0].save(path)
    content = bytearray(path.read_bytes())
    if name == "a.png":
        content[200:208] = bytes(x ^ 255 for x in content[200:208])
    path.write_bytes(content if name == "a.png" else content[: len(content) // 2])

    @FunctionTransformer
    def pixels(images):
        return np.stack([np.asarray(image).ravel()[::16] for image in images])

    data, encoders = {"d": (images, np.arange(40) % 2)}, {"a": pixels, "b": pixels}
    with Image.open(path) as images[7]:
        column = np.frompyfunc(images.__getitem__, 1, 1)(np.arange(40))
        for given in (images, {"x": images}, pd.Series(column)):
            with pytest.raises(ValueError, match=f"{name} must hold a readable image"):
                protected(given)
        with pytest.raises(ValueError, match=r"2 failed: 'a' on 'd' .*readable"):
            small().fit(data, encoders)
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        small().fit(data, encoders)  # as PIL advises


def test_images_whose_frames_cannot_be_counted_are_refused(tmp_path):
    path = tmp_path / "moving.gif"
    Image.new("L", (4, 4)).save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"!\xf9\x04")  # has it a second frame?
    with Image.open(path) as moving:
        for _ in range(2):
            with pytest.raises(
                ValueError, match=r"moving.gif must hold a readable image"
            ):
                protected([moving])


def test_copies_of_images_keep_what_belongs_to_them(tmp_path):
    faint = Image.new("P", (4, 4))
    faint.putpalette([10, 20, 30, 40], "RGBA")
    faint.save(tmp_path / "still.gif")
    with Image.open(tmp_path / "still.gif") as still:
        given = protected([faint, still])
        assert given[0].convert("RGBA").getpixel((0, 0)) == (10, 20, 30, 40)
        assert len(list(ImageSequence.Iterator(given[1]))) == 1
        assert (given[1].filename, given[1].format) == (still.filename, "GIF")
        assert given[1].is_animated is False
        assert not hasattr(given[0], "filename")
    with BytesIO((tmp_path / "still.gif").read_bytes()) as file:
        still = Image.open(file)
        protected(still).close()
        assert still.n_frames == 1  # read from the file
    flat = [
        b"8BPS",
        *(v.to_bytes(2) for v in (1, 0, 0, 0, 1, 0, 2, 0, 2, 8, 1)),
        bytes(18),
    ]
    with Image.open(BytesIO(b"".join(flat))) as photoshop:  # whose n_frames is 0
        protected(photoshop).thumbnail((1, 1))
        assert photoshop.size == (2, 2)
    orientation = Image.Exif()
    orientation[274] = 6
    Image.new("RGB", (64, 64)).save(tmp_path / "turned.jpg", exif=orientation)
    with Image.open(tmp_path / "turned.jpg") as turned:
        turned.getexif()  # which PIL keeps
        (given,) = protected([turned])
        ImageOps.exif_transpose(given, in_place=True)
        assert 274 not in given.getexif()
        assert turned.getexif()[274] == 6


def test_the_order_of_encoders_that_change_images_does_not_matter():
    """PIL's ``thumbnail`` works in place."""

    def full(images):
        return np.stack([np.asarray(image).ravel() for image in images])

    def small(images):
        for image in images:
            image.thumbnail((2, 2))
        return full(images)

    X, y = wine()
    pixels = (255 * X / X.max()).astype(np.uint8)
    images = [Image.fromarray(np.resize(row, (4, 4))) for row in pixels]
    encoders = {"small": small, "full": full}
    found = compare(encoders, images, y, n_orders=1).scorer
    other = compare(dict(reversed(encoders.items())), images, y, n_orders=1).scorer
    assert_array_equal(found.codelengths_, other.codelengths_[:, ::-1])
    assert images[0].size == (4, 4)


def test_an_encoder_that_returns_one_buffer_is_ranked_as_if_it_did_not():
    (X, y), other = wine(), np.random.default_rng(0).normal(size=(64, 2))
    encoder = FrozenEstimator(Buffered().fit(X))
    datasets = {"wine": (X, y), "noise": (other, y)}
    found = small().fit(datasets, {"first": encoder, "second": encoder})
    plain = small().fit({"wine": ({"e": X[:, :2]}, y), "noise": ({"e": other}, y)})
    assert_array_equal(found.codelengths_, plain.codelengths_.repeat(2, 1))


# Files that change during a ranking


@pytest.fixture
def mapped(tmp_path):
    """Tasks over a map of a file, and the file."""
    X, y = wine()
    path = tmp_path / "features.npy"
    np.save(path, X.astype(np.float32))
    features = np.load(path, mmap_mode="r")[::-1, 1:]
    tasks = small()._tasks({"wine": ({"e": features}, y[::-1])}, None)
    return tasks, path, small().fit({"wine": ({"e": X[::-1, 1:]}, y[::-1])})


def sent(task):
    """A task as a worker receives it."""
    return pickle.loads(pickle.dumps(running._portable(task)))


def attempt(task):
    with Devices() as devices:
        return running._attempt(running.score_cell, 0, task, devices)[1]


def test_a_worker_reads_the_file_of_a_map(mapped):
    (task,), _, plain = mapped
    assert len(pickle.dumps(running._portable(task))) < 6000  # no features in it
    cell = attempt(sent(task))
    assert cell.codelength == plain.cells_[0].codelength
    assert cell.data == plain.cells_[0].data


def test_a_file_that_is_replaced_is_a_failure(mapped):
    (task,), path, _ = mapped
    other = path.with_name("other.npy")
    np.save(other, np.zeros((64, 13), np.float32))
    os.replace(other, path)
    failure = attempt(sent(task))
    assert "'e' on 'wine', order 0 (ValueError: Features and labels" in str(failure)
    assert "the features were changed" in str(failure)
    assert attempt(task).codelength > 0  # the map that was opened is the old file's


def test_a_file_that_vanished_is_a_failure(mapped):
    (task,), path, _ = mapped
    path.unlink()
    assert "'e' on 'wine', order 0 (FileNotFoundError" in str(attempt(sent(task)))


@pytest.mark.slow
def test_a_file_that_vanished_is_a_failure_of_a_worker(mapped, monkeypatch):
    monkeypatch.setattr(_forecast, "START_SECONDS", 0)  # whatever is short, too
    (task,), path, _ = mapped
    path.unlink()
    with parallel_config(backend="loky"):
        (failed, other) = running.run_tasks([task, task], n_jobs=2)
    assert "FileNotFoundError" in failed.error
    assert "FileNotFoundError" in other.error
    assert Parallel(n_jobs=2)([delayed(abs)(-1)]) == [1]  # the pool is whole


# Paths, and classes of one name


def rewrite(path, value):
    path.write_text(str(value))
    os.utime(path, ns=(value, value))


class Reader(TransformerMixin, BaseEstimator):
    """Reads a number from every file."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        X = X.iloc[:, 0] if hasattr(X, "columns") else X
        paths = X.items if isinstance(X, LazyImages) else X
        return np.array([[float(Path(path).read_text())] for path in paths])


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        lambda paths: np.array(paths, object),
        pd.Series,
        lambda paths: pd.DataFrame({"path": paths, "size": 1}),
        LazyImages,
    ],
    ids=["list", "tuple", "text", "object", "series", "frame", "lazy"],
)
def test_features_of_files_are_computed_again_when_these_change(wrap, tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        rewrite(path, 1)
    cache, X = FeatureCache(tmp_path / "cache"), wrap([str(path) for path in paths])
    encoder = Reader()
    assert_array_equal(cache.features(encoder, X), [[1], [1]])
    rewrite(paths[1], 2)
    assert_array_equal(cache.features(encoder, X), [[1], [2]])
    paths[0].unlink()  # one that is missing does not hide the others
    first = cache.path(encoder, X)
    rewrite(paths[1], 3)
    assert cache.path(encoder, X) != first


def test_classes_of_one_name_have_cells_and_checkpoints_of_their_own(tmp_path):
    kinds = [
        type("Clf", (LogisticRegression,), {"__module__": name}) for name in ("a", "b")
    ]
    texts = [as_json(kind(), "clf") for kind in kinds]
    assert [text["class"] for text in texts] == ["a.Clf", "b.Clf"]
    assert as_json(LinearReadout(), "own")["class"] == "LinearReadout"
    X, y = wine()
    first, second = (MDLReadoutSwitcher([RefitReadout(k())]) for k in kinds)
    one = RepresentationScorer(first, results=tmp_path).fit({"w": ({"e": X}, y)})
    other = RepresentationScorer(second, results=tmp_path).fit({"w": ({"e": X}, y)})
    assert len(list((tmp_path / "cells").glob("*.json"))) == 2
    assert_array_equal(one.codelengths_, other.codelengths_)
    options = {"checkpoint": tmp_path / "run", "random_state": 0}
    folders = [s.set_params(**options).fit(X, y).store_ for s in (first, second)]
    assert folders[0] != folders[1]


# Cells that cannot be read or written


def test_places_of_cells_that_are_taken_are_failures_or_run_again(tmp_path):
    X, y = wine()
    study = {"w": ({"a": X, "b": X[:, :2], "c": X[:, 2:], "d": X[:, :1]}, y)}
    wanted = small(results=tmp_path).fit(study).codelengths_
    a, b, c, d = sorted((tmp_path / "cells").glob("*.json"))
    for path in (a, c.with_suffix(".safetensors")):
        path.unlink()
        path.mkdir()
    b.unlink()
    b.symlink_to(b)
    d.unlink()
    d.symlink_to(tmp_path / "nowhere")
    with (
        pytest.warns(
            UserWarning, match="^Running cell .* again, since it is"
        ) as caught,
        pytest.raises(ValueError, match=r"2 failed: 'a' on 'w', order 0 .*directory"),
    ):
        small(results=tmp_path).fit(study)
    assert len(caught) == 2
    assert small(results=tmp_path).dry_run(study).n_missing == 2
    for path in (a, c.with_suffix(".safetensors")):
        shutil.rmtree(path)
    with pytest.warns(UserWarning, match=f"^Running cell {c} again"):  # c lost a trace
        found = small(results=tmp_path).fit(study)
    assert_array_equal(found.codelengths_, wanted)


def test_results_in_a_file_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "cells").write_text("mine")
    with pytest.raises(NotADirectoryError, match="Cells must be kept in a directory"):
        small(results=tmp_path).fit({"w": wine()}, {"raw": None})
    with pytest.raises(NotADirectoryError, match="Cells must be kept in a directory"):
        small(results=tmp_path / "cells").fit({"w": wine()}, {"raw": None})
    assert (tmp_path / "cells").read_text() == "mine"


def test_results_are_written_when_cells_were_deleted(tmp_path):
    X, y = wine()
    scorer = small(results=tmp_path).fit({"w": ({"a": X, "b": X[:, :2]}, y)})
    shutil.rmtree(tmp_path / "cells")
    with pytest.warns(UserWarning, match="left out; call compare or fit again to"):
        paths = write_results(scorer, tmp_path)
    names = {path.name for path in paths}
    assert {"cells.csv", "cells.json", "report.html"} <= names
    assert all(path.exists() for path in paths)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    said = "If losses of single examples are missing, fit again; otherwise, "
    said += "all rows are in one group, so add rows of other groups."
    assert said in page
    assert "± nan" not in page
