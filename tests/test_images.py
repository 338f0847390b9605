"""Invariants of encoders: the same images give the same features in every form."""

import copy
import io
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from each_case import for_each
from image_cases import Tokens, network, pixels
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from torch import nn

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl._core.images.lazy import LazyImages, images_fingerprint
from sklearn_mdl._core.images.reading import FilePart
from sklearn_mdl._core.validation import refuse_labelled
from sklearn_mdl.encoders import FeatureCache, TorchEncoder
from sklearn_mdl.encoders._base import weights_fingerprint

Image = pytest.importorskip("PIL.Image")
IMAGES = pixels()


def expected(images=IMAGES, module=None):
    """What a module makes of images, without any of ours."""
    batch = torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        return (module or network()).eval()(batch.contiguous()).numpy()


class Pairs(torch.utils.data.Dataset):
    """Images with labels, as torch datasets have them."""

    def __init__(self, images, convert):
        self.images = images
        self.convert = convert

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError(i)
        return self.convert(self.images[i]), i % 2


def channels_first(image):
    return torch.from_numpy(image / np.float32(255)).permute(2, 0, 1)


@pytest.fixture
def paths(tmp_path):
    names = [tmp_path / f"{i}.png" for i in range(len(IMAGES))]
    for name, image in zip(names, IMAGES, strict=True):
        Image.fromarray(image).save(name)
    return names


@pytest.fixture
def parts(paths, tmp_path):
    """All files in one, one after the other."""
    contents = [path.read_bytes() for path in paths]
    (tmp_path / "all").write_bytes(b"".join(contents))
    ends = np.cumsum([len(content) for content in contents]).tolist()
    return [
        FilePart(tmp_path / "all", end - len(content), len(content))
        for end, content in zip(ends, contents, strict=True)
    ]


# What images may be

FORMS = {
    "array": lambda paths, parts: IMAGES,
    "floats": lambda paths, parts: IMAGES / 255,
    "list of arrays": lambda paths, parts: list(IMAGES),
    "paths": lambda paths, parts: paths,
    "strings": lambda paths, parts: [str(path) for path in paths],
    "array of strings": lambda paths, parts: np.array([str(path) for path in paths]),
    "bytes": lambda paths, parts: [path.read_bytes() for path in paths],
    "column": lambda paths, parts: pd.Series(paths, index=range(7, 14)),
    "PIL": lambda paths, parts: [Image.fromarray(image) for image in IMAGES],
    "with alpha": lambda paths, parts: [
        Image.fromarray(image).convert("RGBA") for image in IMAGES
    ],
    "dataset": lambda paths, parts: Pairs(IMAGES, Image.fromarray),
    "tensors": lambda paths, parts: Pairs(IMAGES, channels_first),
    "lazy": lambda paths, parts: LazyImages(paths),
    "parts of a file": lambda paths, parts: LazyImages(parts),
    "lazy, joined and turned twice": lambda paths, parts: (
        LazyImages(paths[:3]) + LazyImages(paths[3:])
    ).take(range(6, -1, -1))[::-1],
}


@for_each("form", FORMS)
def test_images_give_the_same_features_in_every_form(form, paths, parts):
    images = FORMS[form](paths, parts)
    found = TorchEncoder(network(), batch_size=3).transform(images)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-5)


def test_grey_images_may_have_a_channel_axis():
    grey = IMAGES[..., 0]
    encoder = TorchEncoder(network())
    three = expected(np.repeat(grey[..., None], 3, axis=-1))
    np.testing.assert_allclose(encoder.transform(grey), three, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        encoder.transform(grey[..., None]), three, rtol=1e-4, atol=1e-5
    )
    module = nn.Conv2d(1, 2, 5)
    found = TorchEncoder(module, mode="L", pool="flatten").transform(grey)
    batch = torch.from_numpy(grey.astype(np.float32) / 255)[:, None]
    np.testing.assert_allclose(
        found, module(batch).flatten(1).detach(), rtol=1e-4, atol=1e-5
    )


def test_palettes_and_bits_are_images_too():
    one = Image.fromarray(IMAGES[0])
    palette = one.quantize(16)
    palette.info["transparency"] = b"\x00" * 16
    bits = one.convert("1")
    found = TorchEncoder(network()).transform([palette, bits])
    images = np.stack([np.asarray(i.convert("RGB")) for i in (one.quantize(16), bits)])
    np.testing.assert_allclose(found, expected(images), rtol=1e-4, atol=1e-5)
    booleans = np.asarray(bits)[None]
    np.testing.assert_allclose(
        TorchEncoder(network()).transform(booleans)[0], found[1], rtol=1e-5, atol=1e-5
    )


@for_each(
    "images, error, match",
    [
        (np.zeros((3, 64)), ValueError, r"got \(3, 64\)"),
        (np.array([b"GIF", b"PNG"]), ValueError, r"got \(2,\)"),
        (np.zeros((2, 8, 8, 5)), ValueError, r"Shape of row 0 .* got \(8, 8, 5\)"),
        (
            np.full((2, 8, 8), 3),
            ValueError,
            "uint8 or floats .* got int64, from 3 to 3;",
        ),
        (np.full((2, 8, 8), 3.0), ValueError, "got float64, from 3 to 3;"),
        (
            np.full((2, 8, 8), np.nan),
            ValueError,
            "got float64, from nan to nan; pass np",
        ),
        (torch.zeros(2, 3, 8, 8), TypeError, r"permute\(0, 2, 3, 1\)"),
        ("image.png", TypeError, r"got str; pass \[image"),
        (iter([]), TypeError, "got list_iterator"),
        ({"a": 1}, TypeError, "got dict"),
        ([], ValueError, "at least one image, got none"),
        ([3], TypeError, "row 0 is of type int; pass a path"),
        (
            Pairs(np.zeros((2, 8, 8, 5)), torch.from_numpy),
            ValueError,
            r"got \(8, 8, 5\); pass tensor\[:1\] for one channel",
        ),
        ([Image.new("I;16", (8, 8))], ValueError, "Mode of row 0 must be of 8 bits"),
    ],
)
def test_what_is_no_image_is_refused(images, error, match):
    with pytest.raises(error, match=match):
        TorchEncoder(network()).transform(images)


def test_a_broken_file_is_named_with_its_row(paths):
    content = paths[4].read_bytes()
    paths[4].write_bytes(content[: len(content) // 2])
    encoder = TorchEncoder(network(), batch_size=3)
    with pytest.raises(ValueError, match=r"row 4 \('.*4\.png'\) cannot be read"):
        encoder.transform(paths)
    with pytest.raises(ValueError, match=r"row 4 \('.*4\.png'\) cannot be read"):
        encoder.set_params(n_jobs=2).transform(LazyImages(paths))
    paths[2].unlink()
    with pytest.raises(
        ValueError, match=r"row 2 \('.*2\.png'\) cannot be read .*No such file"
    ):
        encoder.transform(paths)
    paths[0].write_text("no image")
    with pytest.raises(ValueError, match=r"row 0 .*cannot identify"):
        TorchEncoder(network()).fit(paths)


def test_features_that_are_not_finite_are_named(paths):
    def spoil(image):
        tensor = channels_first(np.asarray(image))
        seen.append(None)
        return tensor * (torch.nan if len(seen) == 6 else 1)  # one is seen in fit

    seen = []
    encoder = TorchEncoder(network(), spoil, layer=["0", "last"], batch_size=2)
    with pytest.raises(ValueError, match=r"view '0\|avg' of row 4 \('.*4\.png'\)"):
        encoder.transform(paths)


# Layers and pools


def test_layers_are_pooled_before_later_ones_write_over_them():
    module = network()
    names = [str(i) for i in range(5)]
    encoder = TorchEncoder(module, layer=names, pool="max").fit(IMAGES)
    found = encoder.transform_views(IMAGES)
    batch = torch.from_numpy(IMAGES.astype(np.float32) / 255).permute(0, 3, 1, 2)
    for i, name in enumerate(names):
        with torch.no_grad():
            batch = module[i](batch.clone())
        pooled = batch.amax((2, 3)) if batch.ndim == 4 else batch
        np.testing.assert_allclose(
            found[f"{name}|max"], pooled, rtol=1e-4, atol=1e-5, err_msg=name
        )
    assert found["2|max"].min() < 0 <= found["3|max"].min()


def test_several_layers_and_pools_take_one_pass():
    runs = []
    module = network()
    module.register_forward_hook(lambda *_: runs.append(1))
    encoder = TorchEncoder(module, layer=["0", "2"], pool=["avg", "max"], batch_size=7)
    encoder.fit(IMAGES)
    runs.clear()
    together = encoder.transform_views(IMAGES)
    assert len(runs) == 1
    assert list(together) == ["0|avg", "0|max", "2|avg", "2|max"]
    for name, features in together.items():
        layer, pool = name.split("|")
        alone = TorchEncoder(network(), layer=layer, pool=pool, batch_size=7)
        np.testing.assert_array_equal(features, alone.transform(IMAGES))
    np.testing.assert_array_equal(
        np.hstack(list(together.values())), encoder.transform(IMAGES)
    )


@pytest.mark.parametrize("pool", ["flatten", "cls", "avg"])
def test_layers_that_write_in_place_do_not_change_earlier_features(pool):
    first = {"flatten": network()[0], "cls": Tokens(), "avg": nn.Flatten()}[pool]
    images = pixels(3, 16, 24)
    options = {"layer": "0", "pool": pool, "n_prefix_tokens": int(pool == "cls")}
    safe, unsafe = (
        TorchEncoder(nn.Sequential(first, nn.Threshold(2.0, 9.0, inplace)), **options)
        for inplace in (False, True)
    )
    np.testing.assert_array_equal(unsafe.transform(images), safe.transform(images))


def test_tokens_are_pooled_with_and_without_their_prefix():
    images = pixels(3, 16, 24)
    module = Tokens()
    with torch.no_grad():
        tokens = module(torch.stack([channels_first(image) for image in images]))
    pools = ["avg", "max", "cls", "flatten"]
    encoder = TorchEncoder(module, pool=pools, n_prefix_tokens=1)
    found = encoder.transform_views(images)
    assert tokens.shape == (3, 7, 5)
    wanted = {
        "avg": tokens[:, 1:].mean(1),
        "max": tokens[:, 1:].amax(1),
        "cls": tokens[:, 0],
        "flatten": tokens.flatten(1),
    }
    for pool, values in wanted.items():
        np.testing.assert_allclose(found[f"last|{pool}"], values, rtol=1e-5)
    plain = TorchEncoder(module, pool="avg").transform(images)
    np.testing.assert_allclose(plain, tokens.mean(1), rtol=1e-5)


def test_maps_may_have_their_channels_last():
    class Last(nn.Module):
        def forward(self, x):
            return x.permute(0, 2, 3, 1)

    for pool, over in (("avg", np.mean), ("max", np.max)):
        encoder = TorchEncoder(Last(), pool=pool, channels_last=True)
        np.testing.assert_allclose(
            encoder.transform(IMAGES), over(IMAGES / 255, axis=(1, 2)), rtol=1e-5
        )


@for_each(
    "options, match",
    [
        ({"layer": "5"}, "pass one of"),
        (
            {"layer": ["0", "0"]},
            r"^Combinations of layer and pool must be distinct, got \['0\|avg', "
            r"'0\|avg'\]; pass each layer and pool once, and not 'default' with 'avg' "
            "or 'model'$",
        ),
        ({"layer": []}, r"^layer must be non-empty, got \[\]; pass layer='last'$"),
        ({"pool": []}, r"^pool must be non-empty, got \[\]; pass pool='avg'$"),
        ({"pool": "mean"}, r"pool must be one of \[\'default\'"),
        ({"pool": ["model", "default"]}, r"pool must be distinct, got \['last\|model'"),
        ({"layer": "0", "pool": "model"}, "must be 'last'"),
        ({"layer": "0", "pool": "cls"}, "tokens that begin with a class token"),
        (
            {"layer": ["0", "2"], "pool": ["max", "cls"]},
            "tokens that begin with a class token",
        ),
        ({"batch_size": 0}, "batch_size"),
        ({"device": "abacus"}, "device must be 'auto'"),
        ({"mode": "CMYK"}, "mode"),
    ],
)
def test_layers_and_pools_that_are_not_there_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        TorchEncoder(network(), **options).fit(IMAGES)


class Pair(nn.Module):
    def forward(self, x):
        return x.mean((2, 3)), x


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)
        self.unused = nn.Identity()

    def forward(self, x):
        return self.inner(self.inner(x)).mean((2, 3))


@for_each(
    "module, options, match",
    [
        (Pair(), {}, "^The module must return one tensor, got tuple; pass"),
        (
            nn.Sequential(nn.Sequential(Pair())),
            {"layer": "0"},
            r"^Layer '0' must return one tensor, got tuple; pass one of \['0.0'\]$",
        ),
        (
            nn.Sequential(Pair()),
            {"layer": "0"},
            "^Layer '0' must return one tensor, got tuple; pass another layer$",
        ),
        (
            Twice(),
            {"layer": "inner"},
            "^Layer 'inner' must run once per minibatch, but ran twice; pass another "
            "layer$",
        ),
        (
            nn.Flatten(),
            {"layer": "0"},
            "^A layer must be the name of an inner module, got '0'; pass layer='last'$",
        ),
        (Twice(), {"layer": "unused"}, "'unused' must run"),
        (nn.Conv2d(3, 3, 1), {}, r"vectors .* got \(1, 3, 40, 52\)"),
        (Tokens(), {"pool": "cls"}, "begin with a class token"),
        (
            nn.Unflatten(1, (3, 1)),
            {"pool": "avg"},
            r"^The output of layer 'last' must be 2-D, 3-D or 4-D, got "
            r"\(1, 3, 1, 40, 52\); pass pool='flatten'$",
        ),
    ],
)
def test_modules_without_vectors_are_refused(module, options, match):
    with pytest.raises(ValueError, match=match):
        TorchEncoder(module, **options).fit(IMAGES)


def test_outputs_of_any_shape_can_be_flattened():
    class Brightness(nn.Module):
        def forward(self, x):
            return x.mean((1, 2, 3))

    for module, width in [(Brightness(), 1), (nn.Unflatten(1, (3, 1)), 3 * 40 * 52)]:
        X = TorchEncoder(module, pool="flatten").fit_transform(IMAGES)
        assert X.shape == (len(IMAGES), width)


def test_tokens_without_a_class_token_can_be_declared_to_have_one():
    said = (
        r"^The output of layer 'last' must be tokens that begin with a class token, "
        r"got \(1, .*\); pass pool='avg', or n_prefix_tokens=1 if a TorchEncoder has a "
        "class token$"
    )
    with pytest.raises(ValueError, match=said):
        TorchEncoder(Tokens(), pool="cls").fit(IMAGES)
    TorchEncoder(Tokens(), pool="cls", n_prefix_tokens=1).fit(IMAGES)


def test_preprocessing_must_make_tensors_of_one_shape():
    with pytest.raises(TypeError, match=r"preprocess must .* got ndarray"):
        TorchEncoder(network(), np.asarray).fit(IMAGES)
    images = [*IMAGES[:3], IMAGES[3][:30]]
    said = (
        r"^Preprocessing must give one shape, but row 0 has shape \(3, 40, 52\) and "
        r"row 3 has \(3, 30, 52\); resize with preprocess=Compose\(\[Resize\(\(224, "
        r"224\)\), ToTensor\(\)\]\)$"
    )
    with pytest.raises(ValueError, match=said):
        TorchEncoder(network()).transform(images)


def test_minibatches_of_images_of_other_shapes_are_refused(tmp_path):
    encoder = TorchEncoder(nn.Flatten(), batch_size=1).fit(IMAGES)
    images = [IMAGES[0], IMAGES[1][:30]]
    said = (
        "^The number of features must be 6240, as for the first image in fit, got "
        "4680; preprocess all images to the same shape$"
    )
    with pytest.raises(ValueError, match=said):
        encoder.transform(images)
    with pytest.raises(ValueError, match=said):
        FeatureCache(tmp_path).features(encoder, images)


# As a transformer


def test_batches_and_threads_move_no_more_than_the_last_bits():
    whole = TorchEncoder(network()).transform(IMAGES)
    for options in ({"batch_size": 1}, {"batch_size": 3, "n_jobs": 2}):
        found = TorchEncoder(network(), **options).transform(IMAGES)
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)
    one = TorchEncoder(network(), batch_size=3).transform(IMAGES)
    two = TorchEncoder(network(), batch_size=3, n_jobs=2).transform(IMAGES)
    np.testing.assert_array_equal(one, two)


def test_half_precision_moves_features_a_little():
    whole = TorchEncoder(network(), device="cpu").transform(IMAGES)
    half = TorchEncoder(network(), device="cpu", amp=True).transform(IMAGES)
    assert half.dtype == np.float32
    assert not np.array_equal(half, whole)
    np.testing.assert_allclose(half, whole, atol=0.02 * np.abs(whole).max())


def test_features_have_names():
    encoder = TorchEncoder(network(), layer=["0", "last"]).fit(IMAGES)
    names = encoder.get_feature_names_out()
    assert names[[0, 3, 4]].tolist() == ["0|avg|0", "0|avg|3", "last|model|0"]
    assert len(names) == encoder.transform(IMAGES).shape[1]
    frame = encoder.set_output(transform="pandas").transform(IMAGES)
    assert frame.columns.tolist() == names.tolist()
    with pytest.raises(NotFittedError):
        TorchEncoder(network()).get_feature_names_out()


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_views_are_arrays_whatever_container_transform_returns(container):
    encoder = TorchEncoder(network(), layer=["0", "last"])
    expected = encoder.fit(IMAGES).transform_views(IMAGES)
    with sklearn.config_context(transform_output=container):
        found = encoder.transform_views(IMAGES)
    assert found.keys() == expected.keys()
    for name, view in found.items():
        assert type(view) is np.ndarray
        np.testing.assert_array_equal(view, expected[name])


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_modules_in_torchscript_are_encoders_like_others(tmp_path):
    torch.jit.trace(network(), torch.zeros(1, 3, 40, 52)).save(tmp_path / "network.pt")
    encoder = TorchEncoder(torch.jit.load(tmp_path / "network.pt"))
    np.testing.assert_allclose(encoder.fit_transform(IMAGES), expected(), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_modules_in_torchscript_differ_by_code_and_frozen_weights(tmp_path):
    digests = []
    for factor, name in [(1.0, "one"), (1.0, "one"), (1.01, "other")]:
        layer = nn.Sequential(nn.Conv2d(3, 2, 2), nn.Flatten()).eval()
        nn.init.constant_(layer[0].weight, factor)
        nn.init.zeros_(layer[0].bias)
        traced = torch.jit.trace(layer, torch.zeros(1, 3, 4, 4))
        for form, module in {"": traced, "frozen": torch.jit.freeze(traced)}.items():
            path = tmp_path / f"{name}{form}.pt"
            if not path.exists():
                module.save(path)
            encoder = TorchEncoder(torch.jit.load(path), device="cpu").fit(IMAGES)
            digests.append(encoder.fingerprint()["weights"])
    assert digests[:2] == digests[2:4]
    assert len(set(digests)) == 4


def test_an_encoder_learns_nothing():
    encoder = TorchEncoder(network())
    tags = get_tags(encoder)
    assert not tags.requires_fit
    assert not tags.target_tags.required
    refuse_labelled(encoder, "'encoder'")
    one = encoder.fit(IMAGES[:1]).transform(IMAGES)
    two = encoder.fit(IMAGES[3:], [0] * 4).transform(IMAGES)
    np.testing.assert_array_equal(one, two)


def test_only_switchers_need_a_device_with_float64(monkeypatch):
    made = torch.zeros

    def without_float64(*size, dtype=None, **options):
        if dtype == torch.float64:
            raise TypeError("This device does not support float64")
        return made(*size, dtype=dtype, **options)

    expected = TorchEncoder(network()).fit_transform(IMAGES)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", without_float64)
        found = TorchEncoder(network(), device="cpu").fit_transform(IMAGES)
        with pytest.raises(ValueError, match="a GPU that supports float64"):
            MDLReadoutSwitcher("linear", device="cpu").fit(found, range(len(found)))
    np.testing.assert_array_equal(found, expected)


def test_modules_are_not_changed():
    module = network().train()
    module.append(nn.BatchNorm1d(6 * 5 * 7))
    before = copy.deepcopy(module.state_dict())
    encoder = TorchEncoder(module).fit(IMAGES)
    features = encoder.transform(IMAGES)
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])
    with torch.no_grad():
        module[0].weight.zero_()  # what was fitted is a copy
    np.testing.assert_array_equal(encoder.transform(IMAGES), features)


def test_a_fit_that_fails_leaves_the_one_before():
    encoder = TorchEncoder(network()).fit(IMAGES)
    features = encoder.transform(IMAGES)
    with pytest.raises(ValueError, match="pass one of"):
        encoder.set_params(layer="9").fit(IMAGES)
    with pytest.raises(ValueError, match="at least one"):
        encoder.fit([])
    np.testing.assert_array_equal(encoder.transform(IMAGES), features)
    assert encoder.view_names_ == ["last|model"]


def test_copies_and_pickles_give_the_same_features():
    encoder = TorchEncoder(network(), layer=["0", "last"], batch_size=3).fit(IMAGES)
    features = encoder.transform(IMAGES)
    for other in (
        clone(encoder),
        copy.deepcopy(encoder),
        pickle.loads(pickle.dumps(encoder)),
    ):
        np.testing.assert_array_equal(other.transform(IMAGES), features)
    assert len(pickle.dumps(encoder)) < 2 * len(pickle.dumps(encoder.module)) + 2000
    framed = TorchEncoder(network()).set_output(transform="pandas")
    assert isinstance(clone(framed).fit(IMAGES).transform(IMAGES), pd.DataFrame)


def test_weights_that_changed_under_a_pickle_are_noticed():
    encoder = TorchEncoder(network()).fit(IMAGES)
    other = pickle.loads(pickle.dumps(encoder))
    with torch.no_grad():
        other.module[0].bias += 1
    with pytest.raises(
        ValueError, match=r"SHA-256 of the weights must .* in the pickle"
    ):
        other.transform(IMAGES)
    other.fit(IMAGES).transform(IMAGES)


def test_encoders_stand_in_pipelines_and_beside_other_columns(paths):
    pipeline = make_pipeline(TorchEncoder(network()), StandardScaler())
    found = pipeline.fit_transform(paths)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-5)
    frame = pd.DataFrame({"age": np.arange(7.0), "image": [str(p) for p in paths]})
    table = ColumnTransformer(
        [("image", TorchEncoder(network(), layer="0"), "image")],
        remainder="passthrough",
    )
    assert table.fit_transform(frame).shape == (7, 5)


def test_encoders_are_ranked_like_any_transformer():
    images, labels = pixels(40, 16, 16), np.arange(40) % 2
    encoders = {
        "one": TorchEncoder(network(0), layer="0"),
        "other": TorchEncoder(network(1), layer="0"),
    }
    switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01)])
    scorer = RepresentationScorer(switcher, random_state=0)
    scorer.fit({"boxes": (images, labels)}, encoders)
    features = {name: encoder.transform(images) for name, encoder in encoders.items()}
    given = RepresentationScorer(switcher, random_state=0)
    given.fit({"boxes": (features, labels)})
    assert scorer.summary() == given.summary()


def test_progress_is_shown(capsys):
    TorchEncoder(network(), verbose=1).transform(IMAGES)
    assert "TorchEncoder: 100%" in capsys.readouterr().err


# Fingerprints


def test_weights_have_one_fingerprint_and_others_have_another():
    one = weights_fingerprint(network())
    assert one == weights_fingerprint(network())
    module = network()
    module[2].bias.data[3] = torch.nextafter(module[2].bias[3], torch.tensor(9.0))
    assert weights_fingerprint(module) != one
    assert weights_fingerprint(network().double()) != one
    assert weights_fingerprint(nn.Sequential(network())) != one


def test_state_that_is_no_tensor_counts_as_well():
    class Counting(nn.Identity):
        n_calls = 0

        def get_extra_state(self):
            return self.n_calls

    one, other = Counting(), Counting()
    assert weights_fingerprint(one) == weights_fingerprint(other)
    other.n_calls = 1
    assert weights_fingerprint(one) != weights_fingerprint(other)
    one.n_calls, other.n_calls = io.BytesIO(b"state"), io.BytesIO(b"state")
    assert weights_fingerprint(one) == weights_fingerprint(other)
    one.n_calls, other.n_calls = ({"scales": torch.zeros(3000)} for _ in range(2))
    assert weights_fingerprint(one) == weights_fingerprint(other)
    other.n_calls["scales"][1500] = 1  # which repr does not show
    assert weights_fingerprint(one) != weights_fingerprint(other)
    for module, value in ((one, 1.0), (other, 2.0)):
        module.register_buffer("graph", (value * torch.eye(3)).to_sparse())
        module.n_calls = 0
    assert weights_fingerprint(one) != weights_fingerprint(other)


def test_images_have_one_fingerprint_and_others_have_another(paths, parts):
    one = images_fingerprint(paths)
    assert one == images_fingerprint([str(path) for path in paths])
    assert one == images_fingerprint(LazyImages(paths))
    arrays = images_fingerprint(IMAGES)
    assert arrays == images_fingerprint(IMAGES.copy())
    changed = IMAGES.copy()
    changed[6, -1, -1, 2] ^= 1
    others = [
        changed,
        IMAGES[::-1],
        IMAGES[:-1],
        IMAGES.reshape(7, 52, 40, 3),
        paths,
        paths[::-1],
        LazyImages(paths, about="processed"),
    ]
    assert len({images_fingerprint(images) for images in others} | {arrays}) == 8
    dataset = images_fingerprint(Pairs(IMAGES, Image.fromarray))
    assert dataset == images_fingerprint([Image.fromarray(image) for image in IMAGES])
    paths[3].write_bytes(paths[2].read_bytes())
    assert images_fingerprint(paths) != one
    assert images_fingerprint(LazyImages(parts)) == one
    paths[3].unlink()
    with pytest.raises(ValueError, match=r"row 3 \('.*3\.png'\) cannot be read"):
        images_fingerprint(paths)


def test_fingerprints_hold_all_that_features_depend_on():
    def darker(image):
        return channels_first(np.asarray(image)) / 2

    def same(image):
        return channels_first(np.asarray(image))

    def said(module, *args, **options):
        return TorchEncoder(module, *args, **options).fit(IMAGES).fingerprint()

    one = said(network())
    assert one == said(network(), batch_size=2, n_jobs=2, verbose=0)
    assert one == said(network(), same)  # it is known by what it does
    strided = network()
    strided[0].padding = (1, 1)
    others = [
        said(network(1)),
        said(strided),
        said(network(), darker),
        said(network(), layer="0"),
        said(network(), layer="0", pool="max"),
        said(network(), amp=True),
        said(network(), layer="0", channels_last=True),
    ]
    assert all(other != one for other in others)
    assert len({repr(other) for other in others}) == len(others)


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"needs PIL.*sklearn-mdl\[images\]"):
        TorchEncoder(network()).fit(IMAGES)


def test_images_that_are_decoded_otherwise_are_not_joined(paths):
    drawn = LazyImages(paths, Image.open, "drawn")
    with pytest.raises(ValueError, match=r"decoded in the same way, got \['', 'drawn'"):
        LazyImages(paths) + drawn
