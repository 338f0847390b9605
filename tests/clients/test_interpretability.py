"""Hidden states collected by nnsight and TransformerLens, as which-layer.md does it."""

import pytest
import torch
from numpy.testing import assert_allclose

from sklearn_mdl.encoders import HiddenStatesEncoder, views_of

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["the cat sat", "a dog", "the dog sat on the cat", "cat"]
WORDS = ["[PAD]", "[UNK]", *sorted(set(" ".join(TEXTS).split()))]
SIZES = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2}
SIZES |= {"intermediate_size": 32, "num_attention_heads": 2}
LAYERS = ["model.layers.0", "model.layers.1"]


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def tokenizer():
    numbers = {word: number for number, word in enumerate(WORDS)}
    words = tokenizers.models.WordLevel(numbers, unk_token="[UNK]")
    raw = tokenizers.Tokenizer(words)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        unk_token="[UNK]",
        padding_side="left",
        model_max_length=64,
    )


@pytest.fixture
def expected(model, tokenizer):
    return HiddenStatesEncoder(model, tokenizer, layers=LAYERS).fit_transform(TEXTS)


@pytest.fixture
def inputs(tokenizer):
    return tokenizer(TEXTS, padding=True, return_tensors="pt")


def test_nnsight_sees_the_hidden_states(model, inputs, expected):
    nnsight = pytest.importorskip("nnsight")
    wrapped = nnsight.NNsight(model)
    with torch.inference_mode(), wrapped.trace(**inputs):
        outputs = nnsight.save([layer.output for layer in wrapped.model.layers])
    states = torch.stack(outputs, 1)  # (texts, layers, tokens, features)
    assert_allclose(views_of(states, mask=inputs["attention_mask"]).X, expected)


def test_transformer_lens_sees_the_hidden_states(
    model, tokenizer, inputs, expected, tmp_path
):
    lens = pytest.importorskip("transformer_lens")
    model.save_pretrained(tmp_path)
    bridge = lens.TransformerBridge.boot_transformers(
        str(tmp_path), hf_model=model, tokenizer=tokenizer
    )
    mask = inputs["attention_mask"]
    with torch.inference_mode():
        _, cache = bridge.run_with_cache(inputs["input_ids"], attention_mask=mask)
    names = [f"blocks.{layer}.hook_resid_post" for layer in range(2)]
    states = torch.stack([cache[name] for name in names], 1)
    assert_allclose(views_of(states, mask=mask).X, expected, atol=1e-5)
