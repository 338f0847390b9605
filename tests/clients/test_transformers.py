"""Hidden states of models of transformers, made from a configuration."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_mdl import MDLReadoutSwitcher, compare
from sklearn_mdl.encoders import HiddenStatesEncoder, views_of

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["the cat sat", "a dog", "the dog sat on the cat", "cat"]
WORDS = ["[PAD]", "[UNK]", *sorted(set(" ".join(TEXTS).split()))]
SIZES = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2}
SIZES |= {"intermediate_size": 32, "num_attention_heads": 2}


@pytest.fixture(params=["left", "right"])
def tokenizer(request):
    numbers = {word: number for number, word in enumerate(WORDS)}
    words = tokenizers.models.WordLevel(numbers, unk_token="[UNK]")
    raw = tokenizers.Tokenizer(words)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        unk_token="[UNK]",
        padding_side=request.param,
        model_max_length=64,
    )


@pytest.mark.parametrize("kind", ["Llama", "Bert"])
def test_hidden_states_are_those_of_the_model(tokenizer, kind):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES)
    model = getattr(transformers, f"{kind}Model")(config)
    encoder = HiddenStatesEncoder(model, tokenizer, positions=["first", "max"])
    features = encoder.fit_transform(TEXTS)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = model.eval()(**inputs, output_hidden_states=True).hidden_states
    mask = inputs["attention_mask"]
    views = views_of(torch.stack(states, 1), mask=mask, positions=["first", "max"])
    assert_array_equal(features, views.X)
    # Bert counts places from the padding on if it is on the left.
    if kind == "Llama" or tokenizer.padding_side == "right":
        rows = [encoder.transform([text])[0] for text in TEXTS]
        assert_allclose(np.array(rows), features, atol=1e-5)


def test_named_layers_are_hidden_states(tokenizer):
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    by_name = HiddenStatesEncoder(model, tokenizer, layers=["model.layers.0"])
    by_number = HiddenStatesEncoder(model, tokenizer, layers=[1])
    assert_array_equal(by_name.fit_transform(TEXTS), by_number.fit_transform(TEXTS))


@pytest.mark.parametrize("as_tensors", [False, True])
def test_a_pipeline_is_an_encoder_of_means_over_tokens(tokenizer, as_tensors):
    torch.manual_seed(0)
    bert = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    parts = {"model": bert, "tokenizer": tokenizer, "return_tensors": as_tensors}
    pipeline = transformers.pipeline("feature-extraction", **parts)
    texts, y = TEXTS * 5, np.arange(20) % 2
    means = np.array([np.mean(np.asarray(row)[0], axis=0) for row in pipeline(texts)])
    encoders = {"own": pipeline, "called": lambda rows: pipeline(list(rows))}
    if as_tensors:
        del encoders["called"]  # would be averages over any axis of any tensors
    switcher = MDLReadoutSwitcher("closed-form")
    for rows in (texts, np.array(texts)):
        found = compare(encoders, rows, y, switcher=switcher, n_orders=1)
        alone = compare({"means": means}, y=y, switcher=switcher, n_orders=1)
        assert_allclose(found.scorer.codelengths_, alone.scorer.codelengths_.item())
