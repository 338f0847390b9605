"""Texts with labels from the installed package ``sae_probes``, and text encoders."""

import csv
import io
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from torch import nn

from sklearn_mdl.encoders import HiddenStatesEncoder, TextEncoder, encode

PARTS = Path(__file__).with_name("text_datasets.json")
MOST_CHARACTERS = 1000
MOST_BYTES = 128
FEWEST_ROWS, MOST_CLASSES = 1430, 11


def folder():
    """Return the data folder of the package, without importing the package."""
    spec = find_spec("sae_probes")
    if spec is None or spec.origin is None:
        raise ImportError(
            "The texts need sae_probes; run pip install --no-deps sae-probes==0.4.2 "
            "and pip install zstandard wordllama"
        )
    return Path(spec.origin).parent / "data"


def read(path):
    """Return the distinct texts of a file and their targets."""
    from zstandard import ZstdDecompressor

    with path.open("rb") as file:
        text = ZstdDecompressor().stream_reader(file).read().decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    texts = {row["prompt"][:MOST_CHARACTERS]: row["target"] for row in rows}
    return list(texts), np.array(list(texts.values()))


def load(name, n_rows):
    """Return texts and targets of random rows of a dataset."""
    texts, y = read(folder() / "cleaned_data" / f"{name}.csv.zst")
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return [texts[row] for row in rows], y[rows]


def usable():
    """Return the names of datasets with enough distinct texts and few classes."""
    names = []
    for path in sorted((folder() / "cleaned_data").glob("*.zst")):
        _, y = read(path)
        counts = np.unique(y, return_counts=True)[1]
        if len(y) >= FEWEST_ROWS and 2 <= len(counts) <= MOST_CLASSES:
            names.append(path.name.removesuffix(".csv.zst"))
    return names


def family(name):
    """Return the source of a dataset: the first two words of its name."""
    return "_".join(re.sub(r"^\d+_", "", name).split("_")[:2])


def write_parts():
    """Write ``PARTS``, in which the datasets of every second family are held out."""
    names = usable()
    families = sorted({family(name) for name in names})
    parts = {
        "apart": [n for n in names if families.index(family(n)) % 2 == 0],
        "others": [n for n in names if families.index(family(n)) % 2 == 1],
    }
    PARTS.write_text(json.dumps(parts, indent=1) + "\n")


def parts():
    """Return the names of held-out datasets ("apart") and of the others."""
    return json.loads(PARTS.read_text())


class ByteModel(nn.Module):
    """A small causal transformer over bytes, where 0 is padding."""

    def __init__(self, width=64, n_layers=2):
        super().__init__()
        self.embed = nn.Embedding(257, width)
        self.places = nn.Parameter(torch.randn(MOST_BYTES, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(n_layers)
        )
        self.head = nn.Linear(width, 257)

    def forward(self, input_ids, attention_mask=None):
        n = input_ids.shape[1]
        states = self.embed(input_ids) + self.places[:n]
        causal = nn.Transformer.generate_square_subsequent_mask(n)
        for layer in self.layers:
            states = layer(states, src_mask=causal, is_causal=True)
        return self.head(states)


def ids_of(texts):
    """Return the bytes of each text, plus one because 0 is padding."""
    return [[byte + 1 for byte in text.encode()[:MOST_BYTES]] or [1] for text in texts]


def byte_model(path, names, n_steps=400):
    """Return a transformer from a file, or train it on named datasets and save it."""
    torch.manual_seed(0)
    model = ByteModel()
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model
    texts = [text for name in names for text in load(name, 500)[0]]
    stream = torch.tensor([byte for own in ids_of(texts) for byte in [*own, 0]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        starts = torch.randint(len(stream) - 65, (16,))
        batch = torch.stack([stream[start : start + 65] for start in starts])
        logits = model(batch[:, :-1]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), path)
    return model


class _WordLlama:
    """Static embeddings of tokens, whose weights are in the package."""

    def __init__(self):
        import wordllama

        # The package contains the tokenizer, but only looks for it in a cache.
        own = Path(wordllama.__file__).parent
        self.model = wordllama.WordLlama.load(cache_dir=own, disable_download=True)

    def encode(self, texts):
        return self.model.embed(texts)


def features(texts, model):
    """Return the features of texts keyed by encoder, computed without labels."""
    words = {"sublinear_tf": True, "ngram_range": (1, 2)}
    characters = {**words, "analyzer": "char_wb", "ngram_range": (2, 5)}
    tables = _latent(texts, "words", (32, 128, 300), **words)
    tables |= _latent(texts, "characters", (32, 128), **characters)
    tables["hashed"] = encode(HashingVectorizer(n_features=256), texts)
    tables["wordllama"] = encode(TextEncoder(_WordLlama()), texts)
    layers = ["embed", "layers.0", "layers.1"]
    hidden = HiddenStatesEncoder(model, layers=layers, positions="mean", batch_size=32)
    blocks = hidden.fit(ids_of(texts)).transform_views(ids_of(texts))
    tables |= {f"transformer {name[:-5]}": X for name, X in blocks.items()}
    return {name: _dense(X) for name, X in tables.items()}


def _latent(texts, name, widths, **settings):
    """Return the first columns of a latent semantic analysis, for several widths."""
    weights = TfidfVectorizer(max_features=20_000, **settings).fit_transform(texts)
    X = TruncatedSVD(max(widths), random_state=0).fit_transform(weights)
    return {f"{name}-{width}": X[:, :width] for width in widths}


def _dense(X):
    return np.asarray(X.toarray() if issparse(X) else X, np.float32)
