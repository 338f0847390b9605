"""Hidden states collected while a model runs: the views of what it computes."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from sklearn_mdl import RepresentationScorer
from sklearn_mdl.datasets import load_features
from sklearn_mdl.encoders import (
    CachedEncoder,
    FeatureCache,
    HiddenStatesEncoder,
    views_of,
)

WORDS = ["[PAD]", "the", "cat", "dog", "sat", "ran", "on"]
TEXTS = ["the cat sat", "dog", "the dog sat on the cat", "cat ran", "the dog"]
EVERY = ("first", "last", "mean", "max")


class Model(nn.Module):
    """Looks like a model of transformers: two layers of attention over real tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(len(WORDS), 8)
        layer = {"batch_first": True, "dropout": 0.5, "dim_feedforward": 16}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, **layer) for _ in range(2)
        )
        self._fail_at, self._n_runs = None, 0

    def forward(self, input_ids, attention_mask, output_hidden_states=False):
        self._n_runs += 1
        if self._n_runs == self._fail_at:
            raise KeyboardInterrupt
        states = [self.embed(input_ids)]
        for layer in self.layers:
            padding = attention_mask == 0
            states.append(layer(states[-1], src_key_padding_mask=padding))
        kept = tuple(states) if output_hidden_states else None
        return SimpleNamespace(hidden_states=kept)


def tokenize(texts):
    ids = [[WORDS.index(word) for word in text.split()] for text in texts]
    longest = max(map(len, ids))
    padded = torch.tensor([own + [0] * (longest - len(own)) for own in ids])
    return {"input_ids": padded, "attention_mask": (padded != 0).long()}


# Torch warns of its own road for padded rows.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture
def model():
    return Model().train()


def test_features_are_the_views_of_hidden_states(model):
    encoder = HiddenStatesEncoder(model, tokenize, positions=EVERY, batch_size=5)
    features = encoder.fit_transform(TEXTS)
    inputs = tokenize(TEXTS)
    with torch.inference_mode():
        states = model.eval()(**inputs, output_hidden_states=True).hidden_states
    mask = inputs["attention_mask"]
    views = views_of(torch.stack(states, 1), mask=mask, positions=EVERY)
    assert_array_equal(features, views.X)
    assert encoder.view_slices_ == views.columns
    assert encoder.get_feature_names_out()[8] == "layer 0|last|0"


def test_neither_batches_nor_padding_change_features(model):
    alone = HiddenStatesEncoder(model, tokenize, batch_size=1).fit_transform(TEXTS)
    together = HiddenStatesEncoder(model, tokenize, batch_size=3).fit_transform(TEXTS)
    assert_allclose(together, alone, atol=1e-5)
    # Rows of ids need no tokenizer.
    ids = [[WORDS.index(word) for word in text.split()] for text in TEXTS]
    assert_array_equal(
        HiddenStatesEncoder(model, batch_size=3).fit_transform(ids), together
    )


def test_layers_by_name_and_by_number_are_the_same(model):
    by_number = HiddenStatesEncoder(model, tokenize, layers=[0, -1])
    by_name = HiddenStatesEncoder(model, tokenize, layers=["embed", "layers.1"])
    # Torch takes another road where there are hooks.
    found = by_name.fit_transform(TEXTS)
    assert_allclose(by_number.fit_transform(TEXTS), found, atol=1e-5)
    assert by_number.view_names_[2:] == ["layer 2|last", "layer 2|mean"]
    assert by_name.view_names_[2:] == ["layers.1|last", "layers.1|mean"]
    blocks = by_name.transform_views(TEXTS)
    assert blocks["layers.1|mean"].shape == (5, 8)


def test_the_model_is_left_as_it_was(model):
    model.layers[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    HiddenStatesEncoder(model, tokenize, layers=["embed"]).fit_transform(TEXTS)
    assert [layer.training for layer in model.layers] == [False, True]
    assert not model.embed._forward_hooks
    for name, value in model.state_dict().items():
        assert_array_equal(value, before[name])
    assert clone(HiddenStatesEncoder(model, tokenize)).module is model


def test_collecting_goes_on_after_an_interruption(model, tmp_path, capsys):
    encoder = HiddenStatesEncoder(model, tokenize, batch_size=2)
    wanted = encoder.fit_transform(TEXTS)
    cached = CachedEncoder(encoder.set_params(verbose=1), tmp_path)
    model._n_runs, model._fail_at = 0, 4  # one run for the width, two minibatches
    with pytest.raises(KeyboardInterrupt):
        cached.fit_transform(TEXTS)
    model._n_runs, model._fail_at = 0, None
    assert_array_equal(cached.transform(TEXTS), wanted)
    assert model._n_runs == 2  # for the last adopted row and the last minibatch
    assert "5/5" in capsys.readouterr().err
    assert_array_equal(cached.transform(TEXTS), wanted)
    assert model._n_runs == 3  # for the last row
    (path,) = tmp_path.glob("*.safetensors")
    assert_array_equal(load_features(path), wanted)
    assert cached.view_slices_ == encoder.view_slices_


def test_files_differ_in_all_that_features_depend_on(model, tmp_path):
    cache = FeatureCache(tmp_path)

    def path(texts=TEXTS, **settings):
        return cache.path(HiddenStatesEncoder(model, tokenize, **settings), texts)

    first = path()
    assert path() == first
    paths = {first, path(TEXTS[::-1]), path(layers=[0]), path(positions="max")}
    with torch.no_grad():
        model.embed.weight[1] += 1
    paths.add(path())
    assert len(paths) == 5


def test_a_ranking_takes_texts(model, tmp_path):
    encoders = {
        "last": HiddenStatesEncoder(model, tokenize, positions="last"),
        "mean": CachedEncoder(
            HiddenStatesEncoder(model, tokenize), tmp_path / "states"
        ),
    }
    texts = [f"the {label} {verb}" for label in ("cat", "dog") for verb in WORDS[4:]]
    data = {"animals": (texts, ["cat"] * 3 + ["dog"] * 3)}
    scorer = RepresentationScorer(results=tmp_path / "r", n_orders=1, random_state=0)
    scorer.fit(data, encoders)
    assert scorer.codelengths_.shape == (1, 2)
    assert not hasattr(encoders["last"], "view_names_")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"layers": [3]}, "layers must be integers from -3 to 2"),
        ({"layers": [0, -3]}, "layers must be numbers of different layers, got"),
        ({"layers": [0, "embed"]}, "layers must be None, or different integers"),
        ({"layers": []}, "layers must be None, or"),
        ({"layers": ["layers.2"]}, "name of an inner module"),
        ({"layers": ["layers.0.norm1", ""]}, "layer"),
        ({"positions": "cls"}, "positions must be"),
        ({"positions": -2}, "Example 1 must have 2 or more tokens for position -2"),
        (
            {"tokenizer": None},
            "row of X must be a non-empty list of token ids if tok",
        ),
        (
            {"tokenizer": lambda rows: {"input_ids": rows}},
            "^The tokenizer's output must be a dict of tensors, got",
        ),
        (
            {"tokenizer": lambda rows: [[1, 2]]},
            r"must be a dict of tensors, got \[\[1, 2\]\]; make it return {",
        ),
        (
            {"tokenizer": lambda rows: tokenize(rows[:1])},
            "must be 5, one for each row, got",
        ),
        (
            {"tokenizer": lambda rows: tokenize(rows * 2)},
            "must be 5, one for each row, got",
        ),
    ],
)
def test_what_does_not_fit_is_refused(model, settings, words):
    encoder = HiddenStatesEncoder(model, tokenize).set_params(**settings)
    with pytest.raises(ValueError, match=words):
        encoder.fit_transform(TEXTS)


@pytest.mark.parametrize("rows", ["the cat", [], 3, pd.DataFrame({"a": ["cat"]})])
def test_rows_must_be_a_list(model, rows):
    with pytest.raises(ValueError, match="X must be"):
        HiddenStatesEncoder(model, tokenize).fit(rows)
    with pytest.raises(ValueError, match=r"non-empty list of token ids .*, got \[\]"):
        HiddenStatesEncoder(model).transform([[1, 2], []])


def test_outputs_that_are_no_states_of_tokens_are_named():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.pool = nn.Embedding(9, 4), nn.AdaptiveAvgPool2d((1, 4))

        def forward(self, input_ids, attention_mask):
            return self.pool(self.embed(input_ids))

    encoder = HiddenStatesEncoder(Pooled(), layers=["pool"])
    with pytest.raises(ValueError, match="output of layer 'pool' must be one tensor"):
        encoder.fit([[1, 2, 3]])
    said = r"got Tensor; for example, pass a Hugging Face model$"
    with pytest.raises(ValueError, match=said):
        HiddenStatesEncoder(Silent()).fit([[1, 2, 3]])
    named = Silent()
    named.blocks = nn.ModuleList([nn.Embedding(9, 4)])
    named.forward = lambda input_ids, attention_mask, **_: named.blocks[0](input_ids)
    with pytest.raises(ValueError, match=r"; for example, pass layers=\['blocks.0'\]$"):
        HiddenStatesEncoder(named).fit([[1, 2, 3]])
    HiddenStatesEncoder(named, layers=["blocks.0"]).fit([[1, 2, 3]])


@pytest.mark.parametrize(("layers", "distinct"), [([0, -3], [0]), ([1, 1], [1])])
def test_the_advice_on_repeated_layers_works(model, layers, distinct):
    said = re.escape(f"; pass layers={distinct}")
    with pytest.raises(ValueError, match=f"{said}$"):
        HiddenStatesEncoder(model, tokenize, layers=layers).fit(TEXTS)
    HiddenStatesEncoder(model, tokenize, layers=distinct).fit(TEXTS)


class Silent(nn.Module):
    """Returns no hidden states."""

    def forward(self, input_ids, attention_mask, output_hidden_states):
        return input_ids
