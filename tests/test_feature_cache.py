"""Invariants of the cache.

A set is complete or absent, computed once, and has the same bits after a kill.
"""

import importlib
import linecache
import os
import re
import signal
import subprocess
import sys
import textwrap
from functools import partial, wraps
from types import MethodType, ModuleType, SimpleNamespace

import joblib
import numpy as np
import pytest
import torch
from image_cases import network, pixels
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl._core.io.content_hash import (
    _is_own,
    _parts,
    content_hash,
    readable,
)
from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl.datasets import load_features
from sklearn_mdl.encoders import CachedEncoder, FeatureCache, TorchEncoder

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
IMAGES = pixels(23)


def encoder(module=None, **options):
    options = {"layer": ["0", "last"], "batch_size": 4, "device": "cpu", **options}
    return TorchEncoder(module or network(), **options)


def counted(monkeypatch):
    """Count the images that are encoded, but for those that fit looks at."""
    seen = []
    whole = TorchEncoder.batches

    def batches(self, X, start=0):
        for batch in whole(self, X, start):
            seen.append(len(batch))
            yield batch

    monkeypatch.setattr(TorchEncoder, "batches", batches)
    return seen


def sets(folder):
    return sorted(path for path in folder.glob("*.safetensors"))


# Computed once


def inverted(image):
    image.paste(ImageOps.invert(image))  # in place
    return torch.tensor(np.array(image)).permute(2, 0, 1) / 255


def test_features_are_those_of_the_encoder_and_are_computed_once(tmp_path, monkeypatch):
    wanted = encoder().transform(IMAGES)
    seen = counted(monkeypatch)
    for _ in range(3):
        found = FeatureCache(tmp_path / "new").features(encoder(), IMAGES)
        np.testing.assert_array_equal(found, wanted)
    assert sum(seen) == 23

    # Preprocessing that works in place sees a new copy each time.
    images = [Image.fromarray(image) for image in IMAGES]
    flat = TorchEncoder(torch.nn.Flatten(), inverted)
    cache = FeatureCache(tmp_path)
    for _ in range(2):
        found = cache.features(flat, images)
        wanted = np.array([inverted(image.copy()).ravel() for image in images])
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert [cache.path(flat, images)] == sets(tmp_path)


def test_features_are_a_map_of_a_file_that_others_can_read(tmp_path):
    cache = FeatureCache(tmp_path)
    found = cache.features(encoder(), IMAGES)
    assert is_mapped(found)
    assert not found.flags.writeable
    (path,) = sets(tmp_path)
    assert path == cache.path(encoder(), IMAGES)
    np.testing.assert_array_equal(load_features(path), found)
    assert not list(tmp_path.glob("*.part.npy"))


def test_sets_differ_in_all_that_features_depend_on(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path)
    seen = counted(monkeypatch)
    changed = IMAGES.copy()
    changed[20, 3, 4, 1] ^= 1
    cases = [
        (encoder(), IMAGES),
        (encoder(network(1)), IMAGES),
        (encoder(layer="0"), IMAGES),
        (encoder(preprocess=halved), IMAGES),
        (encoder(preprocess=upright), IMAGES),
        (encoder(preprocess=upside_down), IMAGES),
        (encoder(preprocess=stretched), IMAGES),
        (encoder(preprocess=half_upright), IMAGES),
        (encoder(preprocess=landscape), IMAGES),
        (encoder(), changed),
        (encoder(), IMAGES[:-1]),
    ]
    for case in cases:
        cache.features(*case)
    assert len(sets(tmp_path)) == 11
    assert sum(seen) == 10 * 23 + 22
    for each, images in cases:
        found = cache.features(clone(each).set_params(batch_size=9), images)
        wanted = each.transform(images)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(sets(tmp_path)) == 11

    # The key names what preprocessing does, whatever its code.
    found = cache.path(encoder(preprocess=copied_upright), IMAGES)
    assert found == cache.path(encoder(preprocess=upright), IMAGES)

    # Images with the same pixels may differ in all else that functions can see.
    images = [Image.fromarray(image) for image in IMAGES]
    turned = [Image.fromarray(image) for image in IMAGES]
    images[3].info["exif"], turned[3].info["exif"] = b"1", b"2"
    path, same = cache.path(encoder(), images), FunctionTransformer()
    cached = cache.path(same, images)
    assert path != cache.path(encoder(), turned)
    turned[3].info["exif"] = b"1"
    assert path == cache.path(encoder(), turned)
    assert cached == cache.path(same, turned)
    turned[3].format = "PNG"
    named = cache.path(same, turned)
    turned[3].filename = "b\udce9.png"  # not UTF-8
    assert cached != named != cache.path(same, turned) != cached

    # PIL adds to what an image says of itself when it loads a frame.
    images[0].save(tmp_path / "a.webp", save_all=True, append_images=images[1:3])
    opened = Image.open(tmp_path / "a.webp")
    path = cache.path(encoder(), [opened])
    opened.load()
    assert path == cache.path(encoder(), [opened])


def halved(image):
    pixels = np.asarray(image, dtype=np.float32) / 510
    return torch.from_numpy(pixels).permute(2, 0, 1)


def upright(image):
    return halved(ImageOps.exif_transpose(image))


def copied_upright(image):
    return halved(ImageOps.exif_transpose(image.copy()))


def half_upright(image):
    is_turned = image.getexif().get(274) == 6
    return halved(image.rotate(270, expand=True) if is_turned else image)


def landscape(image):
    is_tall = image.height > image.width
    return halved(image.rotate(270, expand=True) if is_tall else image)


def upside_down(image):
    return halved(image.rotate(180))


def stretched(image):
    values = halved(image)
    return (values - values.min()) / (values.max() - values.min()) / 2


def test_files_are_known_by_their_content_and_not_by_their_names(tmp_path, monkeypatch):
    seen = counted(monkeypatch)
    cache = FeatureCache(tmp_path / "cache")
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        paths = [tmp_path / name / f"{i}.png" for i in range(23)]
        for path, image in zip(paths, IMAGES, strict=True):
            Image.fromarray(image).save(path)
        cache.features(encoder(), LazyImages(paths))
    assert sum(seen) == 23
    Image.fromarray(IMAGES[0]).save(paths[5])  # the same name, another image
    cache.features(encoder(), LazyImages(paths))
    assert sum(seen) == 46


# Whole or absent


class Killed(BaseException):
    """Stands for a process that ends."""


def killed_after(monkeypatch, n_batches):
    whole = TorchEncoder._run
    done = []

    def run(self, frozen, batch):
        if len(batch) > 1 and len(done) == n_batches:  # fit looks at one image
            raise Killed
        done.append(len(batch))
        return whole(self, frozen, batch)

    monkeypatch.setattr(TorchEncoder, "_run", run)
    return lambda: monkeypatch.setattr(TorchEncoder, "_run", whole)


@pytest.mark.parametrize("n_batches", [1, 3, 6])
def test_an_extraction_that_was_killed_continues_to_the_same_bits(
    tmp_path, monkeypatch, n_batches
):
    wanted = encoder().transform(IMAGES)
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    revive = killed_after(monkeypatch, n_batches)
    if n_batches < 6:
        with pytest.raises(Killed):
            cache.features(ready, IMAGES)
        assert not sets(tmp_path)
    revive()
    seen = counted(monkeypatch)
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)
    assert sum(seen) == 23 - (4 * n_batches if n_batches < 6 else 0)


def test_a_torn_row_is_computed_again(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    revive = killed_after(monkeypatch, 3)
    with pytest.raises(Killed):
        cache.features(ready, IMAGES)
    revive()
    (part,) = tmp_path.glob("*.part.npy")
    with part.open("ab") as file:
        file.write(b"torn")
    wanted = encoder().transform(IMAGES)
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)


@pytest.mark.parametrize("content", [b"", b"no rows", None])
def test_a_part_that_cannot_be_read_is_computed_again(tmp_path, monkeypatch, content):
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    revive = killed_after(monkeypatch, 3)
    with pytest.raises(Killed):
        cache.features(ready, IMAGES)
    revive()
    (part,) = tmp_path.glob("*.part.npy")
    if content is None:
        np.save(part, np.zeros((8, 3), np.float32))  # of another width
    else:
        part.write_bytes(content)
    wanted = encoder().transform(IMAGES)
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)


def test_an_image_that_cannot_be_read_leaves_no_set(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(23)]
    for path, image in zip(paths, IMAGES, strict=True):
        Image.fromarray(image).save(path)
    content = paths[13].read_bytes()
    paths[13].write_bytes(content[:-200])
    cache = FeatureCache(tmp_path / "cache")
    with pytest.raises(ValueError, match=r"row 13 \('.*13\.png'\) cannot be read"):
        cache.features(encoder(), paths)
    assert not sets(tmp_path / "cache")


def test_a_damaged_set_is_never_taken_for_a_whole_one(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path)
    wanted = np.array(cache.features(encoder(), IMAGES))
    (path,) = sets(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    seen = counted(monkeypatch)
    said = "^Recomputing features, because the cached file "
    said += re.escape(f"{path} is damaged (its checksum differs)")
    with pytest.warns(UserWarning, match=f"{said}$"):
        np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)
    assert sum(seen) == 23
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)


# A child reports through a pipe every image that it prepares, so that the moment of the
# kill depends on its progress and not on the load of the machine.
FORKS = """
import os, signal, sys
import numpy as np
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
from image_cases import network, pixels
from sklearn_mdl.encoders import FeatureCache, TorchEncoder

folder, images = sys.argv[1], pixels(40)


def reporting(progress):
    def prepare(image):
        os.write(progress, b".")
        values = np.asarray(image, dtype=np.float32) / 255
        return torch.from_numpy(values).permute(2, 0, 1)

    return prepare


def encoder(progress):
    return TorchEncoder(network(), reporting(progress), batch_size=4, device="cpu")


def child(progress):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            FeatureCache(folder).features(encoder(progress), images)
            code = 0
        finally:
            os._exit(code)
    return pid


nowhere = os.open(os.devnull, os.O_WRONLY)
rng = np.random.default_rng(os.getpid())
n_kills, n_resumed = 0, 0
while True:
    readable, progress = os.pipe()
    pid = child(progress)
    os.close(progress)
    left = 16 + int(rng.integers(7, 18))  # the key takes 16 test images
    while left and os.read(readable, 1):
        left -= 1
    os.close(readable)
    if left:
        assert os.waitpid(pid, 0)[1] == 0
        break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    n_kills += 1
    if not any(name.endswith(".safetensors") for name in os.listdir(folder)):
        n_resumed += any(name.endswith(".part.npy") for name in os.listdir(folder))
wanted = encoder(nowhere).transform(images)
found = FeatureCache(folder).features(encoder(nowhere), images)
np.testing.assert_array_equal(found, wanted)
print(n_kills, n_resumed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills")
def test_a_process_killed_repeatedly_ends_with_the_same_bits(tmp_path):
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", textwrap.dedent(FORKS), str(tmp_path), here]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    n_kills, n_resumed = map(int, done.stdout.split())
    assert n_kills >= 1
    assert n_resumed >= 1


def test_simultaneous_requests_compute_a_set_once(tmp_path):
    def features(folder):
        return np.array(FeatureCache(folder).features(encoder(), IMAGES))

    jobs = (delayed(features)(tmp_path) for _ in range(3))
    found = Parallel(n_jobs=2, backend="threading")(jobs)
    wanted = encoder().transform(IMAGES)
    for each in found:
        np.testing.assert_array_equal(each, wanted)
    assert len(sets(tmp_path)) == 1


# As a transformer


def test_a_cached_encoder_is_a_transformer(tmp_path, monkeypatch):
    cached = CachedEncoder(encoder(), tmp_path)
    wanted = encoder().transform(IMAGES)
    seen = counted(monkeypatch)
    np.testing.assert_array_equal(clone(cached).fit_transform(IMAGES), wanted)
    np.testing.assert_array_equal(cached.transform(IMAGES), wanted)
    assert sum(seen) == 23
    assert not hasattr(cached.encoder, "view_names_")
    blocks = cached.transform_views(IMAGES)
    assert list(blocks) == ["0|avg", "last|model"]
    assert all(is_mapped(block) for block in blocks.values())
    np.testing.assert_array_equal(np.hstack(list(blocks.values())), wanted)
    names = cached.fit(IMAGES).get_feature_names_out()
    assert names.tolist() == encoder().fit(IMAGES).get_feature_names_out().tolist()
    frame = cached.set_output(transform="pandas").transform(IMAGES)
    np.testing.assert_array_equal(frame.to_numpy(), wanted)
    assert cached.set_params(encoder__layer="0").fit_transform(IMAGES).shape == (23, 4)


def test_a_set_under_the_name_of_another_is_computed_again(tmp_path):
    cache = FeatureCache(tmp_path)
    cache.features(encoder(network(1)), IMAGES)
    (other,) = sets(tmp_path)
    path = cache.path(encoder(), IMAGES)
    path.write_bytes(other.read_bytes())
    with pytest.warns(UserWarning, match="because .* contains different features"):
        found = cache.features(encoder(), IMAGES)
    np.testing.assert_array_equal(found, encoder().transform(IMAGES))


# Other transformers


def test_features_of_any_transformer_are_kept(tmp_path):
    cache, X = FeatureCache(tmp_path), np.eye(4)
    frozen = FrozenEstimator(PCA(2).fit(np.diag([1.0, 2, 3, 4])))
    for given in (PCA(2), PCA(1), frozen):
        for _ in range(2):
            found = cache.features(given, X, name=("data/1", "..pca"))
            assert found.dtype == np.float32
            wanted = (
                given.transform(X)
                if given is frozen
                else PCA(given.n_components).fit_transform(X)
            )
            np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert len(sets(tmp_path)) == 3
    assert all(path.name.startswith("data_1-..pca-") for path in tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError):
        cache.features(PCA(3), X, check=lambda features: 1 / 0)
    assert len(list(tmp_path.iterdir())) == 3


class Pooling(nn.Module):
    def __init__(self, kind, offset):
        super().__init__()
        self.kind = kind
        self.offset = torch.tensor(float(offset))
        self.register_buffer("scale", torch.tensor(2.0 + offset), persistent=False)
        self.unpicklable = lambda batch: batch

    def forward(self, batch):
        pooled = batch.amax((2, 3)) if self.kind == "max" else batch.mean((2, 3))
        return self.scale * pooled + self.offset


def with_function(factor):
    module = nn.Sequential(nn.Flatten())
    module.forward = lambda batch: batch.flatten(1) * factor
    return module


def with_method(factor):
    module = nn.Sequential(nn.Flatten())
    if factor > 1:
        module.forward = MethodType(lambda self, batch: batch.flatten(1) * 1.01, module)
    else:
        module.forward = MethodType(lambda self, batch: batch.flatten(1), module)
    return module


class Choosing(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.one = nn.Sequential(nn.Flatten())
        self.other = nn.Sequential(nn.ReLU(), nn.Flatten())
        self.used = [getattr(self, name)]

    def forward(self, batch):
        return self.used[0](batch - 0.5)


def with_local_class(factor):
    class Flat(nn.Module):
        def forward(self, batch):
            return batch.flatten(1) * factor

    return nn.Sequential(Flat())


def test_modules_differ_by_their_attributes(tmp_path):
    modules = {
        f"{kind} {offset}": nn.Sequential(Pooling(kind, offset))
        for kind in ("max", "mean")
        for offset in (0, 1)
    }
    for made in (with_function, with_method, with_local_class):
        modules |= {f"{made.__name__} {factor}": made(factor) for factor in (1, 1.01)}
    modules |= {name: Choosing(name) for name in ("one", "other")}
    encoders = {
        name: TorchEncoder(m, pool="model", device="cpu") for name, m in modules.items()
    }
    cache = FeatureCache(tmp_path)
    for _ in range(2):
        for each in encoders.values():
            found = cache.features(each, IMAGES)
            np.testing.assert_array_equal(found, each.transform(IMAGES))
    assert len(sets(tmp_path)) == 12


def with_hook(factor):
    module = nn.Sequential(nn.Flatten())
    module.register_forward_hook(lambda module, inputs, output: output * factor)
    return module


class Multiplied(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self._factor = factor

    def forward(self, batch):
        return batch.flatten(1) * self._factor


@pytest.mark.parametrize("made", [with_hook, Multiplied])
def test_features_of_a_module_that_keys_do_not_tell_apart_are_computed_again(
    made, tmp_path, monkeypatch
):
    cache = FeatureCache(tmp_path)
    one, other = (
        TorchEncoder(made(k), pool="model", device="cpu", batch_size=4) for k in (1, 3)
    )
    features = cache.features(one, IMAGES).copy()
    with pytest.warns(UserWarning, match=r"^Recomputing .* of another encoder"):
        found = cache.features(other, IMAGES)
    np.testing.assert_array_equal(found, features * 3)
    assert len(sets(tmp_path)) == 1
    sets(tmp_path)[0].unlink()
    with monkeypatch.context() as patch:
        patch.setattr(TorchEncoder, "batches", broken_off(8))
        with pytest.raises(KeyboardInterrupt):
            cache.features(one, IMAGES)
    np.testing.assert_array_equal(cache.features(other, IMAGES), features * 3)


class Cut(nn.Module):
    def __init__(self, width):
        super().__init__()
        self._width = width

    def forward(self, batch):
        return batch.flatten(1)[:, : self._width]


def test_features_of_another_width_are_computed_again(tmp_path):
    one, other = (TorchEncoder(Cut(k), pool="model", device="cpu") for k in (4, 8))
    cache = FeatureCache(tmp_path)
    assert cache.features(one, IMAGES).shape == (len(IMAGES), 4)
    with pytest.warns(UserWarning, match=r"^Recomputing .* of another encoder"):
        found = cache.features(other, IMAGES)
    np.testing.assert_array_equal(found, other.transform(IMAGES))


class FirstRows(nn.Module):
    def __init__(self, n_rows):
        super().__init__()
        self._n_rows = n_rows

    def forward(self, batch):
        return batch.flatten(1)[: self._n_rows]


def test_a_module_that_returns_fewer_rows_is_another_encoder(tmp_path):
    cache = FeatureCache(tmp_path)
    one, other = (
        TorchEncoder(FirstRows(k), pool="model", device="cpu") for k in (64, 1)
    )
    cache.features(one, IMAGES)
    with (
        pytest.warns(UserWarning, match=r"^Recomputing .* of another encoder"),
        pytest.raises(ValueError, match="number of feature vectors"),
    ):
        cache.features(other, IMAGES)


def broken_off(n_rows):
    """Return a method like ``batches`` that is interrupted after some rows."""
    whole = TorchEncoder.batches

    def batches(self, X, start=0):
        for batch in whole(self, X, start):
            if start >= n_rows:
                raise KeyboardInterrupt
            start += len(batch)
            yield batch

    return batches


KEYS = """
import sys
import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from sklearn_mdl.encoders import FeatureCache, TextEncoder, TorchEncoder
from sklearn_mdl.model_selection import EncoderRace

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.others = {"tensors": [torch.ones(2), torch.eye(3).to_sparse()]}

    def encode(self, texts, **options):
        rows = torch.tensor([[len(text), text.count("a")] for text in texts])
        return self.layer(rows.float()).detach().numpy()

MODES = {"RGB", "L", "P"}

def scaled(image):
    assert image.mode in MODES
    return torch.from_numpy(np.asarray(image, np.float32) / 255).permute(2, 0, 1)

torch.manual_seed(0)
texts, images = ["a cat", "a dog"], np.zeros((2, 4, 4, 3), np.uint8)
image = TorchEncoder(nn.Conv2d(3, 2, 2), scaled, pool="avg", device="cpu")
for given, X in [
    (TextEncoder(Model()), texts),
    (image, images),
    (make_pipeline(image, StandardScaler()), images),
    (FrozenEstimator(image), images),
]:
    print(FeatureCache("features").path(given, X).name)
words = frozenset(["a", "the", "of"])
print(FeatureCache("features").path(TfidfVectorizer(stop_words=words), texts).name)
race = EncoderRace({"a": image, "none": None}, 2, folder=sys.argv[1])
rows = images + np.arange(2, dtype=np.uint8)[:, None, None, None]
print(race.resume().n_labels_, file=sys.stderr)
race.update({"a": image.transform(rows), "none": np.eye(2)}, [0, 1])
"""


def test_keys_are_the_same_in_every_process(tmp_path):
    found = [
        subprocess.run(
            [sys.executable, "-c", KEYS, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in "12"
    ]
    names = found[0].stdout.split()
    assert found[1].stdout.split() == names
    assert len(set(names)) == 5
    assert [each.stderr.split()[-1] for each in found] == ["0", "2"]


OWN = """
from collections import deque
from enum import IntEnum
from functools import cached_property, lru_cache, partial
from types import SimpleNamespace
import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import nn


def scaled(X):
    return np.asarray(X) * 3


def with_default(X, *, factor=1 * 3):
    return np.asarray(X) * factor


def applied(X, function):
    return function(X)


class Base(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.is_fitted_ = True
        return self

    def transform(self, X):
        return np.asarray(X) * 3


class Scaled(Base):
    pass


class Listed(Base):
    factors = {"rows": [1 * 3]}

    def transform(self, X):
        return np.asarray(X) * self.factors["rows"][0]


class Tripled(nn.Module):
    def forward(self, batch):
        return batch.flatten(1) * 3


class Held(Base):
    factor = np.array([1.0 * 3])

    def transform(self, X):
        return np.asarray(X) * self.factor


class Chosen(Base):
    factors = {1 * 3}

    def transform(self, X, also=np.array([1.0])):
        return np.asarray(X) * also * max(self.factors)


class Lazy(Base):
    @cached_property
    def factor(self):
        return 1 * 3

    def transform(self, X):
        return np.asarray(X) * self.factor


class Remembered(Base):
    @lru_cache
    def factor(self):
        return 1 * 3

    def transform(self, X):
        return np.asarray(X) * self.factor()


FACTOR = 1 * 3
_CALLS = 0


def by_factor(X):
    global _CALLS
    _CALLS += 1
    return np.asarray(X) * FACTOR


class Calling(Base):
    def transform(self, X):
        return [by_factor(row) for row in X]


class Factor:
    def __init__(self, factor):
        self.factor = factor
        self.label = lambda: "cannot be pickled"

    def applied(self, X):
        return np.asarray(X) * self.factor


BOUND, PARTIAL = Factor(1 * 3).applied, partial(lambda X, k: X * k, k=1 * 3)


def by_method(X):
    return BOUND(X)


def by_partial(X):
    return PARTIAL(np.asarray(X))


SPACE = SimpleNamespace(steps=deque([lambda X: X, 1 * 3]))
LAYER = nn.Sequential(nn.Linear(2, 2))
LAYER.requires_grad_(False)[0].weight.fill_(1 * 3)
LAYER[0].bias.zero_()
LAYER.label = lambda: "cannot be pickled"


def by_library_object(X):
    return np.asarray(X) * SPACE.steps[1]


def by_layer(X):
    return LAYER(torch.ones(len(X), 2)).numpy()


class Words(dict):
    def __missing__(self, word):
        return 1 * 3


class Size(IntEnum):
    SMALL = 1

    def tripled(self):
        return self * 3


class Kind(type):
    def factor(cls):
        return 1 * 3


class Made(metaclass=Kind):
    pass


WORDS, SIZE, _STEPS = Words(), Size.SMALL, (scaled, "last")


def by_missing_word(X):
    return np.asarray(X) * WORDS["any"]


def by_number(X):
    return np.asarray(X) * SIZE.tripled()


def by_metaclass(X):
    return np.asarray(X) * Made.factor()


def by_steps(X):
    return _STEPS[0](X)
"""
OWN_ENCODERS = {
    "class": lambda own: own.Scaled(),
    "frozen": lambda own: FrozenEstimator(own.Scaled()),
    "pipeline": lambda own: make_pipeline("passthrough", own.Scaled()),
    "function": lambda own: FunctionTransformer(own.scaled),
    "partial function": lambda own: FunctionTransformer(partial(own.scaled)),
    "default": lambda own: FunctionTransformer(own.with_default),
    "class attribute": lambda own: own.Listed(),
    "argument": lambda own: FunctionTransformer(
        own.applied, kw_args={"function": own.scaled}
    ),
    "frozen pipeline": lambda own: FrozenEstimator(
        make_pipeline(own.Scaled()).fit(np.ones((4, 2)))
    ),
    "network": lambda own: TorchEncoder(nn.Sequential(own.Tripled()), pool="model"),
    "array of a class": lambda own: own.Held(),
    "set of a class": lambda own: own.Chosen(),
    "cached property": lambda own: own.Lazy(),
    "cached method": lambda own: own.Remembered(),
    "variable": lambda own: FunctionTransformer(own.by_factor),
    "called function": lambda own: own.Calling(),
    "method of a variable": lambda own: FunctionTransformer(own.by_method),
    "partial lambda": lambda own: FunctionTransformer(own.by_partial),
    "library object": lambda own: FunctionTransformer(own.by_library_object),
    "weights of a variable": lambda own: FunctionTransformer(own.by_layer),
    "kind of dict": lambda own: FunctionTransformer(own.by_missing_word),
    "kind of int": lambda own: FunctionTransformer(own.by_number),
    "kind of class": lambda own: FunctionTransformer(own.by_metaclass),
    "private tuple": lambda own: FunctionTransformer(own.by_steps),
}


@pytest.mark.parametrize("kind", OWN_ENCODERS)
def test_features_are_computed_again_if_the_encoder_has_other_code(
    kind, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    name, means = f"own_{kind.replace(' ', '_')}", []
    X = IMAGES[:4] if kind == "network" else np.ones((4, 2))
    for code in (OWN, OWN, OWN.replace("* 3", "* 30"), OWN):
        (tmp_path / f"{name}.py").write_text(code)
        linecache.checkcache()
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        given = OWN_ENCODERS[kind](importlib.import_module(name))
        means.append(FeatureCache(tmp_path / "features").features(given, X).mean())
    assert means[0] == means[1] == means[3] == pytest.approx(means[2] / 10)
    assert len(sets(tmp_path / "features")) == 2


def test_functions_of_the_same_name_differ_wherever_they_are_named():
    def times(factor):
        return lambda X: X * factor

    two, three = times(2), times(3)
    assert readable([two, three, two], {}) != readable([two, three, three], {})
    assert readable([two, three, two], {}) == readable([two, three, two], {})


def test_keys_stay_as_they_were_in_earlier_versions(monkeypatch):
    """Under other names of parts, saved features would not be found."""

    @wraps(len)
    def measured(X, scale=2):
        return np.abs(X) * scale

    class Words(list):
        _width, _edges, limit = 1, (1, 2), 3

    parts = dict(_parts(measured))
    assert list(parts) == ["code", "closure", "wrapped", "np"]
    assert [parts["code"][1:], parts["wrapped"]] == [[(2,), None], len]
    parts = dict(_parts(Words))
    assert parts["bases"] == [type, list]
    assert "limit" in parts
    assert not {"_width", "_edges"} & set(parts)
    held = SimpleNamespace(__wrapped__=len)
    assert dict(_parts(held)) == {"type": SimpleNamespace, "wrapped": len}
    parts = dict(_parts(SimpleNamespace(rows=3)))
    assert list(parts) == ["type", "state"]
    assert parts["type"] is SimpleNamespace
    assert {"rows": 3} in parts["state"]
    within = []
    within.append(within)
    assert readable(within, {}) == ["itself"]
    assert readable(type("Lazy", (ModuleType,), {})("numpy"), {}) == ["numpy"]
    measured.__module__ = "__main__"
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    assert _is_own(measured)
    sys.modules["__main__"].__file__ = joblib.__file__  # as in its workers
    assert _is_own(measured)
    measured.__module__ = "unknown"
    assert not _is_own(measured)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_sets_maps_and_tensors_are_hashed_by_their_values(tmp_path):
    given = [frozenset({1, 2}), frozenset({2, 1}), frozenset({1}), {1, 2}]
    hashes = [content_hash(each) for each in given]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    np.save(tmp_path / "rows.npy", np.arange(3.0))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert content_hash(mapped) == content_hash(np.arange(3.0))
    assert len(content_hash(mapped)) == 40  # of SHA-1
    halves, wholes = (
        torch.quantize_per_tensor(torch.full((3,), scale), scale, 0, torch.qint8)
        for scale in (0.5, 1.0)
    )
    assert torch.equal(halves.int_repr(), wholes.int_repr())
    assert len({content_hash(each) for each in (halves, wholes, torch.ones(3))}) == 3


def test_hashes_are_the_same_in_all_versions_of_python():
    """From 3.14 on, `pickle.dumps` writes protocol 5 by default, also in joblib."""
    data = [np.arange(3.0), np.ones(2, "i4"), torch.ones(2), {"a": np.array(["b"])}]
    assert content_hash(data) == "f0749ac657f1be376227e5aaa9ddb09dfccb3887"


NAMING = """
from sklearn.preprocessing import scale as step
from sklearn.base import BaseEstimator, TransformerMixin

data, nested = [1], {}
nested["again"] = nested


def shared(X):
    return nested, X


class Mean:
    def of(self, X):
        return shared(X)


class Median(Mean):
    def other(self, X):
        return shared(X)


KINDS = {Mean, Median}


class Encoder(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return step(X) if KINDS else self.data
"""


def keys_of(folder, *codes):
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for code in codes:
        (folder / "naming.py").write_text(code)
        sys.modules.pop("naming", None)
        importlib.invalidate_caches()
        linecache.checkcache()
        encoder = importlib.import_module("naming").Encoder()
        names.append(FeatureCache("features").path(encoder, np.ones((4, 2))).name)
    return names


def test_keys_contain_the_names_of_library_functions_that_code_uses(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    other = NAMING.replace("import scale", "import minmax_scale")
    based = NAMING.replace("class Mean:", "class Mean(TransformerMixin):")
    assert len(set(keys_of(tmp_path, NAMING, other, based))) == 3
    same = NAMING.replace("data, nested = [1], {}", "data, nested = [2], {}")
    assert len(set(keys_of(tmp_path, *[NAMING] * 8, same))) == 1


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_code_of_packages_in_any_environment_is_not_in_keys(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path / folder)
    other = NAMING.replace("import scale", "import minmax_scale")
    assert len(set(keys_of(tmp_path / folder, NAMING, other))) == 1


def test_classes_of_a_notebook_are_compared_by_their_code(tmp_path):
    cell = "from sklearn_mdl.encoders import FeatureCache\n" + OWN
    cell += "\nprint(FeatureCache('features').path(Scaled(), [[1.0]]).name)\n"
    found = [
        subprocess.run(
            [sys.executable, "-"],
            input=code,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for code in (cell, f"# moved\n{cell}\n{cell.replace('* 3', '* 30')}")
    ]
    names = "".join(found).split()
    assert names[0] == names[1] != names[2]


def test_transformers_that_have_no_key_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"a transformer, got 'resnet18'.*TimmEncoder"):
        FeatureCache(tmp_path).features("resnet18", np.eye(3))
    with pytest.raises(
        TypeError, match=r"a transformer, got <class .*PCA'>; for example, pass"
    ):
        FeatureCache(tmp_path).features(PCA, np.eye(3))
    with pytest.raises(TypeError, match=r"must be picklable .* omit the cache"):
        FeatureCache(tmp_path).features(FunctionTransformer(lambda X: X), IMAGES)
    fixed = encoder(preprocess=lambda image: halved(image).reshape(3, 40, 52))
    with pytest.raises(RuntimeError, match="invalid for input") as caught:
        FeatureCache(tmp_path).features(fixed, IMAGES)
    assert "preprocess must take images of any size" in caught.value.__notes__[0]
    said = r"TimmEncoder', .*TorchEncoder' or .*HiddenStatesEncoder'\. Got PCA\(\)"
    with pytest.raises(ValueError, match=said):
        CachedEncoder(PCA(), tmp_path).fit(IMAGES)
