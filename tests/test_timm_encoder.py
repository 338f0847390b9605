"""TimmEncoder gives what timm gives, from files and without a network."""

import copy
import io
import pickle
import re
import sys
from importlib.util import find_spec

import lazy_loader
import numpy as np
import pytest
import torch
from image_cases import SHARED, pixels
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl.encoders import TimmEncoder
from sklearn_mdl.encoders._timm import check_name, cure_of
from sklearn_mdl.readouts import ScratchReadout

Image = pytest.importorskip("PIL.Image")
for extra in ("timm", "torchvision"):
    if find_spec(extra) is None:
        pytest.skip(f"could not import {extra!r}", allow_module_level=True)
timm = lazy_loader.load("timm")  # seconds, not spent where tests are only collected

IMAGES = pixels(5)
SMALL = {"pretrained": False, "device": "cpu"}
WEIGHTS = SHARED / "weights"
CIFAR = SHARED / "images" / "cifar10_test.npz"


def prepared(model, images=IMAGES, **changes):
    """Images as timm itself prepares them."""
    config = {**timm.data.resolve_model_data_config(model), **changes}
    transform = timm.data.create_transform(**config, is_training=False)
    return torch.stack([transform(Image.fromarray(image)) for image in images])


def seeded(name, **options):
    """The model that an encoder with random_state=0 makes."""
    seed = np.random.RandomState(0).randint(2**31 - 1)
    torch.manual_seed(seed)
    return timm.create_model(name, **options).eval()


# The features


@pytest.mark.parametrize(
    "name",
    ["test_vit", "test_resnet", "test_efficientnet", "test_convnext", "test_mambaout"],
)
def test_features_are_the_models_own_before_its_classifier(name):
    model = seeded(name, num_classes=0)
    with torch.no_grad():
        wanted = model(prepared(model)).numpy()
    found = TimmEncoder(name, **SMALL).transform(IMAGES)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_random_weights_are_seeded_and_use_no_other_generator():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one = TimmEncoder("test_vit", **SMALL).transform(IMAGES)
    assert torch.equal(torch.get_rng_state(), before)
    same = TimmEncoder("test_vit", **SMALL, random_state=0).transform(IMAGES)
    np.testing.assert_array_equal(one, same)
    other = TimmEncoder("test_vit", **SMALL, random_state=1).transform(IMAGES)
    assert not np.allclose(one, other)
    unseeded = TimmEncoder("test_vit", **SMALL, random_state=None)
    features = unseeded.transform(IMAGES)
    another = TimmEncoder("test_vit", **SMALL, random_state=None)
    assert not np.allclose(another.transform(IMAGES), features)
    again = pickle.loads(pickle.dumps(unseeded))
    np.testing.assert_array_equal(again.transform(IMAGES), features)


def test_tokens_of_a_transformer_are_pooled_without_its_class_token():
    encoder = TimmEncoder(
        "test_vit",
        **SMALL,
        layer=["blocks.0", "blocks.5", "last"],
        pool=["default", "max", "cls", "flatten"],
    )
    found = encoder.transform_views(IMAGES)
    model = seeded("test_vit", num_classes=0)
    batch = prepared(model)
    with torch.no_grad():
        final, inner = model.forward_intermediates(
            batch, indices=[0, 5], output_fmt="NLC", return_prefix_tokens=True
        )
        whole = model(batch)
    for name, (patches, prefix) in zip(["blocks.0", "blocks.5"], inner, strict=True):
        wanted = {
            "avg": patches.mean(1),
            "max": patches.amax(1),
            "cls": prefix[:, 0],
            "flatten": torch.cat([prefix, patches], 1).flatten(1),
        }
        for pool, values in wanted.items():
            np.testing.assert_allclose(
                found[f"{name}|{pool}"], values, rtol=1e-4, atol=1e-5
            )
    np.testing.assert_allclose(found["last|model"], whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["last|max"], final[:, 1:].amax(1), rtol=1e-4)
    np.testing.assert_allclose(found["last|cls"], final[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["test_resnet", "test_mambaout"])
def test_maps_are_pooled_over_their_places(name):
    encoder = TimmEncoder(name, **SMALL, pool=["avg", "max"])
    found = encoder.transform_views(IMAGES)
    model = seeded(name, num_classes=0)
    with torch.no_grad():
        maps = model.forward_features(prepared(model))
    places = (1, 2) if name == "test_mambaout" else (2, 3)
    np.testing.assert_allclose(found["last|avg"], maps.mean(places), rtol=1e-4)
    np.testing.assert_allclose(found["last|max"], maps.amax(places), rtol=1e-4)


def test_stages_of_a_convolutional_network_have_names():
    encoder = TimmEncoder("test_resnet", **SMALL, layer=["layer1", "layer3", "last"])
    found = encoder.transform_views(IMAGES)
    assert list(found) == ["layer1|avg", "layer3|avg", "last|model"]
    model = seeded("test_resnet", num_classes=0)
    with torch.no_grad():
        inner = model.forward_intermediates(
            prepared(model), indices=[1, 3], intermediates_only=True
        )
    for name, maps in zip(["layer1|avg", "layer3|avg"], inner, strict=True):
        np.testing.assert_allclose(found[name], maps.mean((2, 3)), rtol=1e-4, atol=1e-6)


def test_preprocessing_is_the_models_own_unless_it_is_changed():
    encoder = TimmEncoder("test_vit", **SMALL).fit(IMAGES)
    model = seeded("test_vit", num_classes=0)
    assert encoder.data_config_ == timm.data.resolve_model_data_config(model)
    changes = {"mean": (0.1, 0.2, 0.3), "crop_pct": 0.5}
    other = TimmEncoder("test_vit", **SMALL, data_options=changes)
    with torch.no_grad():
        wanted = model(prepared(model, **changes))
    np.testing.assert_allclose(other.transform(IMAGES), wanted, rtol=1e-4, atol=1e-6)
    assert encoder.fingerprint() != other.fingerprint()


def test_models_of_one_channel_see_grey():
    options = {"in_chans": 1}
    changes = {"input_size": (1, 160, 160), "mean": (0.5,), "std": (0.5,)}
    encoder = TimmEncoder(
        "test_resnet", **SMALL, model_options=options, data_options=changes
    )
    grey = np.asarray(Image.fromarray(IMAGES[0]).convert("L"))
    found = encoder.transform([grey, IMAGES[0]])
    np.testing.assert_array_equal(found[0], found[1])


# Weights from files


@pytest.fixture
def checkpoint(tmp_path):
    """A function that saves a model, and what it makes of the images."""

    def save(name, suffix, **options):
        model = seeded(name, **options)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.01)
            body = copy.deepcopy(model)
            body.reset_classifier(0)
            features = body(prepared(model)).numpy()
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".safetensors":
            save_file(model.state_dict(), path)
        else:
            torch.save({"state_dict": model.state_dict()}, path)
        return path, features

    return save


@pytest.mark.quick(
    "test_vit-0-.safetensors",
    "test_vit-7-.pth",
    "test_resnet-1000-.pth",
    "test_resnet-7-.safetensors",
)
@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
@pytest.mark.parametrize("n_classes", [0, 7, 1000])
@pytest.mark.parametrize("name", ["test_vit", "test_resnet"])
def test_weights_are_loaded_from_a_file_with_or_without_a_classifier(
    checkpoint, name, n_classes, suffix
):
    path, features = checkpoint(name, suffix, num_classes=n_classes)
    encoder = TimmEncoder(name, checkpoint_path=path, device="cpu")
    np.testing.assert_allclose(encoder.transform(IMAGES), features, rtol=1e-5)
    as_text = clone(encoder).set_params(checkpoint_path=str(path))
    np.testing.assert_array_equal(as_text.transform(IMAGES), encoder.transform(IMAGES))


@pytest.mark.parametrize("n_classes", [0, 7])
def test_weights_of_another_image_size_are_fitted_by_timm(checkpoint, n_classes):
    path, _ = checkpoint("test_vit", ".safetensors", num_classes=n_classes)
    encoder = TimmEncoder(
        "test_vit",
        checkpoint_path=path,
        device="cpu",
        model_options={"img_size": 96},
        data_options={"input_size": (3, 96, 96)},
    )
    model = timm.create_model("test_vit", num_classes=n_classes)
    model.load_state_dict(timm.models.load_state_dict(path))
    model.set_input_size(img_size=96)
    model.reset_classifier(0)
    with torch.no_grad():
        wanted = model.eval()(prepared(model, input_size=(3, 96, 96)))
    found = encoder.transform(IMAGES)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_file_that_lacks_a_weight_is_refused(checkpoint, tmp_path):
    path, _ = checkpoint("test_vit", ".safetensors", num_classes=0)
    state = timm.models.load_state_dict(path)
    del state["blocks.2.mlp.fc1.bias"]
    save_file(state, path)
    with pytest.raises(ValueError, match=r"it lacks 'blocks\.2\.mlp\.fc1\.bias'"):
        TimmEncoder("test_vit", checkpoint_path=path).fit(IMAGES)
    with pytest.raises(ValueError, match="must hold all weights of the model"):
        TimmEncoder("test_resnet", checkpoint_path=path).fit(IMAGES)
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(ValueError, match=r"text\.pth must hold weights"):
        TimmEncoder("test_vit", checkpoint_path=tmp_path / "text.pth").fit(IMAGES)
    with pytest.raises(FileNotFoundError, match="must be a file of weights"):
        TimmEncoder("test_vit", checkpoint_path=tmp_path / "none").fit(IMAGES)


@pytest.mark.parametrize("prefix", ["backbone.", "module.encoder."])
def test_a_prefix_of_all_names_is_told_with_code_that_strips_it(
    checkpoint, tmp_path, monkeypatch, prefix
):
    path, features = checkpoint("test_vit", ".pth", num_classes=7)
    state = timm.models.load_state_dict(path)
    state = {prefix + name: value for name, value in state.items()}
    torch.save({"state_dict": state | {"projector.weight": torch.ones(2)}}, path)
    own = prefix.removeprefix("module.")  # timm strips that of torch itself
    words = rf"their names begin with '{own}'; save them without it: (.*)$"
    with pytest.raises(ValueError, match=words) as caught:
        TimmEncoder("test_vit", checkpoint_path=path).fit(IMAGES)
    code = re.search(words, str(caught.value))[1]
    monkeypatch.chdir(tmp_path)
    exec(code, {"torch": torch, "timm": timm, "path": path})
    encoder = TimmEncoder("test_vit", checkpoint_path="new.pth", device="cpu")
    np.testing.assert_allclose(encoder.transform(IMAGES), features, rtol=1e-5)


def test_arrays_of_numpy_that_are_no_weights_of_the_model_are_refused(tmp_path):
    np.savez(tmp_path / "weights.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="must hold all weights of the model, but"):
        TimmEncoder("test_vit", checkpoint_path=tmp_path / "weights.npz").fit(IMAGES)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Code:
        def __reduce__(self):
            return (print, ("run",))

    buffer = io.BytesIO()
    torch.save({"state_dict": Code()}, buffer)
    (tmp_path / "weights.pth").write_bytes(buffer.getvalue())
    encoder = TimmEncoder("test_vit", checkpoint_path=tmp_path / "weights.pth")
    with pytest.raises(ValueError, match="reading it raises"):
        encoder.fit(IMAGES)


@pytest.mark.parametrize("options", [{}, {"img_size": 96}], ids=["as it is", "fitted"])
def test_weights_are_unpickled_once_and_without_code(checkpoint, monkeypatch, options):
    path, _ = checkpoint("test_vit", ".pth", num_classes=7)
    read, calls = torch.load, []

    def watched(*args, **kwargs):
        calls.append(kwargs["weights_only"])
        return read(*args, **kwargs)

    monkeypatch.setattr(torch, "load", watched)
    encoder = TimmEncoder("test_vit", checkpoint_path=path, model_options=options)
    encoder.set_params(data_options={"input_size": (3, 96, 96)} if options else None)
    encoder.fit(IMAGES)
    assert calls == [True]
    assert len(pickle.dumps(encoder)) < 2000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("checkpoint_path", "weights.pth"),
        ("pretrained_cfg_overlay", {"file": "weights.pth"}),
        ("pretrained_cfg", {"url": "https://example.org/weights.pth"}),
    ],
)
def test_timm_reads_no_file_by_an_option(name, value):
    options = {"model_options": {name: value}}
    words = f"model_options must not contain {name}, since timm could then read other"
    with pytest.raises(ValueError, match=words):
        TimmEncoder("test_vit", pretrained=False, **options).fit(IMAGES)
    with pytest.raises(ValueError, match=words):
        ScratchReadout("test_vit", **options).fit(np.zeros((8, 48)), [0, 1] * 4)


def test_pickles_hold_no_weights_but_know_them(checkpoint):
    path, _ = checkpoint("test_vit", ".safetensors", num_classes=0)
    encoder = TimmEncoder("test_vit", checkpoint_path=path).fit(IMAGES)
    features = encoder.transform(IMAGES)
    content = pickle.dumps(encoder)
    assert len(content) < 2000 < path.stat().st_size
    np.testing.assert_array_equal(pickle.loads(content).transform(IMAGES), features)
    state = timm.models.load_state_dict(path)
    state["norm.bias"] += 1
    save_file(state, path)
    with pytest.raises(ValueError, match=r"SHA-256 of the weights .* in the pickle"):
        pickle.loads(content).transform(IMAGES)


# Without a network


def test_weights_that_cannot_be_fetched_are_named(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        OSError,
        match=r"Weights of 'resnet18\.a1_in1k' .*; download model\.safetensors from "
        r"huggingface\.co/timm/resnet18\.a1_in1k on .* pass "
        r"checkpoint_path=PATH, or pass pretrained=False for random weights$",
    ):
        TimmEncoder("resnet18.a1_in1k").fit(IMAGES)


@pytest.mark.parametrize("name", ["fastvit_mci0.apple_mclip", "resnet18.a1_in1k"])
def test_weights_are_looked_up_under_the_name_that_timm_uses(name, monkeypatch):
    hub, looked_up, loaded = pytest.importorskip("huggingface_hub"), [], []

    def look_up(repository, file):
        looked_up.append(repository)
        return "cached"

    def load(repository, *_, **__):
        loaded.append(repository)
        raise FileNotFoundError

    monkeypatch.setattr(hub, "try_to_load_from_cache", look_up)
    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", load)
    monkeypatch.setattr("sklearn_mdl.encoders._timm.getproxies", dict)
    with pytest.raises(OSError, match=r"download model\.safetensors from"):
        TimmEncoder(name).fit(IMAGES)
    assert looked_up == loaded != []


def test_a_model_of_a_hub_is_left_to_the_hub():
    name = "hf-hub:somebody/model"
    check_name(timm, name)
    assert cure_of(timm, name) == (
        "download somebody/model with huggingface_hub.snapshot_download on another "
        "machine and pass model_name='local-dir:FOLDER'"
    )


def test_the_cure_for_missing_weights_depends_on_the_model(tmp_path):
    folder, name = f"local-dir:{tmp_path}", "vit_giant_patch14_224"
    for model, cure in [
        (folder, r"pass a folder with config\.json and model\.safetensors$"),
        (
            name,
            r"download weights \(timm lists none\) on another machine and pass "
            r"checkpoint_path=PATH, or pass pretrained=False for random weights$",
        ),
    ]:
        with pytest.raises(OSError, match=rf"could not be loaded .*; {cure}"):
            TimmEncoder(
                model, model_options={"depth": 1} if model == name else None
            ).fit(IMAGES)
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        TimmEncoder(name, model_options={"foo": 1}).fit(IMAGES)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("resnot18", r"pass one of \['resnet18'"),
        ("resnet18.none", r"weights in timm .* pass one of \['resnet18.a1_in1k'"),
    ],
)
def test_names_that_timm_does_not_know_are_refused(name, match):
    with pytest.raises(ValueError, match=match):
        TimmEncoder(name).fit(IMAGES)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"layer": "blocks.6"}, r"pass one of \['blocks.5'"),
        ({"layer": "blocks.1", "pool": "model"}, "must be 'last'"),
        (
            {"data_options": {"size": 3}},
            r"^Keys of data_options must be among \['input",
        ),
        (
            {"data_options": {"input_size": (4, 160, 160)}},
            r"^input_size\[0\] of 'test_vit' must be 1 or 3, got 4; pass data_options="
            r"\{'input_size': \(3, 160, 160\)\}, or another model$",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        TimmEncoder("test_vit", **SMALL, **options).fit(IMAGES)


def test_a_network_without_class_token_has_none():
    with pytest.raises(ValueError, match="tokens that begin with a class token"):
        TimmEncoder("test_resnet", **SMALL, pool="cls").fit(IMAGES)
    registers = TimmEncoder(
        "vit_tiny_patch16_224",
        **SMALL,
        pool=["avg", "cls"],
        model_options={
            "depth": 1,
            "class_token": False,
            "reg_tokens": 2,
            "global_pool": "avg",
        },
    )
    with pytest.raises(ValueError, match="begin with a class token"):
        registers.fit(IMAGES)
    registers.set_params(pool="avg").fit(IMAGES)


@pytest.mark.parametrize("module", ["timm", "torchvision"])
def test_missing_libraries_are_named(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}.*sklearn-mdl\[images\]"):
        TimmEncoder("test_vit", **SMALL).fit(IMAGES)


# Weights that were trained


@pytest.mark.slow
@pytest.mark.skipif(
    not (WEIGHTS.is_dir() and CIFAR.is_file()), reason="needs the shared data"
)
def test_trained_weights_know_more_of_photographs_than_random_ones():
    path = WEIGHTS / "mobilenetv2_035.safetensors"
    with np.load(CIFAR) as archive:
        offsets, data = archive["offsets"], archive["data"].tobytes()
        rows = np.random.default_rng(0).permutation(len(archive["labels"]))[:240]
        labels = archive["labels"][rows]
    images = [data[offsets[i] : offsets[i + 1]] for i in rows]
    options = {
        "model_options": {"pad_type": "same", "bn_eps": 1e-3},
        "data_options": {
            "mean": (0.5,) * 3,
            "std": (0.5,) * 3,
            "input_size": (3, 96, 96),
        },
        "device": "cpu",
    }
    trained = TimmEncoder("mobilenetv2_035", checkpoint_path=path, **options)
    random = TimmEncoder("mobilenetv2_035", pretrained=False, **options)
    accuracies = []
    for encoder in (trained, random):
        X = encoder.transform(LazyImages(images))
        X = (X - X.mean(0)) / (X.std(0) + 1e-6)
        linear = LogisticRegression(C=0.01, max_iter=1000).fit(X[:160], labels[:160])
        accuracies.append(linear.score(X[160:], labels[160:]))
    assert accuracies[0] > accuracies[1] + 0.1
