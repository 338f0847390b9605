"""Laws of the cache: whole or absent, computed once, the same bits after a kill."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from image_cases import network, pixels
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.decomposition import PCA

from sklearn_mdl import CachedEncoder, FeatureCache, TorchEncoder, load_features
from sklearn_mdl.images import LazyImages
from sklearn_mdl.samples import is_mapped

Image = pytest.importorskip("PIL.Image")
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


def test_features_are_those_of_the_encoder_and_are_computed_once(tmp_path, monkeypatch):
    wanted = encoder().transform(IMAGES)
    seen = counted(monkeypatch)
    for _ in range(3):
        found = FeatureCache(tmp_path / "new").features(encoder(), IMAGES)
        np.testing.assert_array_equal(found, wanted)
    assert sum(seen) == 23


def test_features_are_a_map_of_a_file_that_others_can_read(tmp_path):
    cache = FeatureCache(tmp_path)
    found = cache.features(encoder(), IMAGES)
    assert is_mapped(found)
    assert not found.flags.writeable
    (path,) = sets(tmp_path)
    assert path == cache.path(encoder(), IMAGES)
    np.testing.assert_array_equal(load_features(path), found)
    assert not list(tmp_path.glob("*.part.npy"))


def test_what_features_depend_on_tells_sets_apart(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path)
    seen = counted(monkeypatch)
    changed = IMAGES.copy()
    changed[20, 3, 4, 1] ^= 1
    cases = [
        (encoder(), IMAGES),
        (encoder(network(1)), IMAGES),
        (encoder(layer="0"), IMAGES),
        (encoder(preprocess=halved), IMAGES),
        (encoder(), changed),
        (encoder(), IMAGES[:-1]),
    ]
    for case in cases:
        cache.features(*case)
    assert len(sets(tmp_path)) == 6
    assert sum(seen) == 5 * 23 + 22
    for each, images in cases:
        found = cache.features(clone(each).set_params(batch_size=9), images)
        wanted = each.transform(images)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(sets(tmp_path)) == 6


def halved(image):
    pixels = np.asarray(image, dtype=np.float32) / 510
    return torch.from_numpy(pixels).permute(2, 0, 1)


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

    def run(self, frozen, blocks, batch):
        if len(batch) > 1 and len(done) == n_batches:  # fit looks at one image
            raise Killed
        done.append(len(batch))
        return whole(self, frozen, blocks, batch)

    monkeypatch.setattr(TorchEncoder, "_run", run)
    return lambda: monkeypatch.setattr(TorchEncoder, "_run", whole)


@pytest.mark.parametrize("n_batches", [1, 3, 6])
def test_an_extraction_that_was_killed_goes_on_to_the_same_bits(
    tmp_path, monkeypatch, n_batches
):
    wanted = encoder().transform(IMAGES)
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    live_again = killed_after(monkeypatch, n_batches)
    if n_batches < 6:
        with pytest.raises(Killed):
            cache.features(ready, IMAGES)
        assert not sets(tmp_path)
    live_again()
    seen = counted(monkeypatch)
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)
    assert sum(seen) == 23 - (4 * n_batches if n_batches < 6 else 0)


def test_a_torn_row_is_computed_again(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    live_again = killed_after(monkeypatch, 3)
    with pytest.raises(Killed):
        cache.features(ready, IMAGES)
    live_again()
    (part,) = tmp_path.glob("*.part.npy")
    with part.open("ab") as file:
        file.write(b"torn")
    wanted = encoder().transform(IMAGES)
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)


@pytest.mark.parametrize("content", [b"", b"no rows", None])
def test_a_part_that_cannot_be_read_is_begun_anew(tmp_path, monkeypatch, content):
    cache = FeatureCache(tmp_path)
    ready = encoder().fit(IMAGES)
    live_again = killed_after(monkeypatch, 3)
    with pytest.raises(Killed):
        cache.features(ready, IMAGES)
    live_again()
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
    with pytest.raises(ValueError, match=r"row 13 \('.*13\.png'\) is not"):
        cache.features(encoder(), paths)
    assert not sets(tmp_path / "cache")


def test_a_damaged_set_is_never_taken_for_a_whole_one(tmp_path):
    cache = FeatureCache(tmp_path)
    wanted = np.array(cache.features(encoder(), IMAGES))
    (path,) = sets(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged; delete it to compute them agai"):
        cache.features(encoder(), IMAGES)
    path.unlink()
    np.testing.assert_array_equal(cache.features(encoder(), IMAGES), wanted)


# A child tells through a pipe of every image that it prepares, so that the moment of
# the kill hangs on its progress and not on how busy the machine is.
FORKS = """
import os, signal, sys
import numpy as np
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
from image_cases import network, pixels
from sklearn_mdl import FeatureCache, TorchEncoder

folder, images = sys.argv[1], pixels(40)


def telling(progress):
    def prepare(image):
        os.write(progress, b".")
        values = np.asarray(image, dtype=np.float32) / 255
        return torch.from_numpy(values).permute(2, 0, 1)

    return prepare


def encoder(progress):
    return TorchEncoder(network(), telling(progress), batch_size=4, device="cpu")


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
    told, progress = os.pipe()
    pid = child(progress)
    os.close(progress)
    left = int(rng.integers(9, 20))
    while left and os.read(told, 1):
        left -= 1
    os.close(told)
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills")
def test_a_process_killed_time_and_again_comes_to_the_same_bits(tmp_path):
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", textwrap.dedent(FORKS), str(tmp_path), here]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    n_kills, n_resumed = map(int, done.stdout.split())
    assert n_kills >= 1
    assert n_resumed >= 1


def test_two_that_want_a_set_at_once_compute_it_once(tmp_path):
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
    assert not hasattr(cached.encoder, "block_names_")
    blocks = cached.transform_blocks(IMAGES)
    assert list(blocks) == ["0|avg", "last|model"]
    assert all(is_mapped(block) for block in blocks.values())
    np.testing.assert_array_equal(np.hstack(list(blocks.values())), wanted)
    names = cached.fit(IMAGES).get_feature_names_out()
    assert names.tolist() == encoder().fit(IMAGES).get_feature_names_out().tolist()
    frame = cached.set_output(transform="pandas").transform(IMAGES)
    np.testing.assert_array_equal(frame.to_numpy(), wanted)
    assert cached.set_params(encoder__layer="0").fit_transform(IMAGES).shape == (23, 4)


def test_encoders_that_cannot_be_known_are_refused(tmp_path):
    with pytest.raises(TypeError, match="got PCA; save the features with numpy"):
        FeatureCache(tmp_path).features(PCA(), IMAGES)
    with pytest.raises(ValueError, match="encoder"):
        CachedEncoder(PCA(), tmp_path).fit(IMAGES)
