"""Functions that compute features with encoders of any kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import clone
from torch import nn
from tqdm import tqdm

from sklearn_mdl._core.numerics import as_array, default_torch, dense, evaluation_mode
from sklearn_mdl._core.validation import invalid, refuse_labelled, refuse_text
from sklearn_mdl.datasets import load_features
from sklearn_mdl.encoders import (
    FeatureCache,
    ImageEncoder,
    TimmEncoder,
    TorchEncoder,
    encode,
    keeps_data,
    protected,
)
from sklearn_mdl.model_selection import LATE, owned

T = TypeVar("T")

FILES = (".npy", ".npz", ".safetensors")
KINDS = (
    "None, an array, the path of a .npy, .npz or .safetensors file, columns of a data "
    "frame X, a function, a transformer, a torch module, the name of a timm model, or "
    "a model with `encode`"
)
ROWS = 256  # rows per call of an encoder


def named_encoders(encoders: object) -> dict[str, object]:
    """Return encoders keyed by name. Without a mapping, choose distinct names."""
    if isinstance(encoders, Mapping):
        return dict(encoders)
    given = list(encoders) if isinstance(encoders, list | tuple) else [encoders]
    named: dict[str, object] = {}
    for i, encoder in enumerate(given):
        first = _name_of(encoder, i)
        others = (f"{first} #{number}" for number in count(i + 1))
        named[next(n for n in chain([first], others) if n not in named)] = encoder
    return named


def _name_of(encoder: Any, place: int) -> str:
    if keeps_data(encoder):
        return "raw"
    if isinstance(encoder, str | Path):
        path = Path(encoder)
        return path.stem if path.suffix in FILES else str(encoder)
    if _is_array(encoder):
        return f"encoder {place + 1}"
    if hasattr(encoder, "steps"):
        return "-".join(step for step, _ in encoder.steps)
    text = " ".join(repr(encoder).split())
    is_instance = hasattr(encoder, "get_params") and not isinstance(encoder, type)
    if is_instance and len(text) <= 60:
        return text
    return str(getattr(encoder, "__name__", type(encoder).__name__))


def _is_array(value: object) -> bool:
    kinds = np.ndarray | torch.Tensor
    return isinstance(value, kinds) or issparse(value) or hasattr(value, "to_numpy")


def is_given(encoder: object) -> bool:
    """Return True for features: an array, a file, columns, or X itself."""
    is_file = isinstance(encoder, str | Path) and Path(encoder).suffix in FILES
    columns = isinstance(encoder, list | tuple)
    return is_file or columns or keeps_data(encoder) or _is_array(encoder)


def features_of(
    encoder: Any, X: Any, name: str, cache: FeatureCache | None, *, verbose: int
) -> np.ndarray:
    """Return an encoder's features of X, (n_samples, width).

    If a function returns lists of shape (1, n_tokens, width) for each row, as pipelines
    of Hugging Face do, features are means over tokens.

    Raises
    ------
    TypeError
        If `encoder` is none of ``KINDS``. The message shows code that works.
    ValueError
        If the encoder needs rows and X is None, or if features are not numbers or do
        not all have one shape.
    """
    output = dense(as_array(_output_of(encoder, X, name, cache, verbose)))
    if callable(encoder) and isinstance(output, list):
        output = [_vector(r) if type(r) is list else as_array(r) for r in output]
    try:
        features = np.asarray(output)
    except ValueError as error:
        text = "must all have one shape; resize images, or average over tokens"
        raise ValueError(f"Features of {name!r} {text}") from error
    if features.ndim and features.dtype.kind not in "biuf":
        refuse_text(output, f"Features of {name!r}")
        features = features.astype(np.float64)
    return features if is_given(encoder) else owned(features)


def _vector(output: Any) -> np.ndarray:
    """Return features of a row from what a pipeline of Hugging Face returns for it."""
    array: np.ndarray = np.asarray(as_array(output))
    if array.ndim not in (2, 3) or len(array) > 1:
        return array
    return np.asarray(array[0].mean(0) if array.ndim == 3 else array[0])


def _output_of(
    encoder: Any, X: Any, name: str, cache: FeatureCache | None, verbose: int
) -> Any:
    """Return an encoder's output for X, in any form."""
    if isinstance(encoder, str | Path) and Path(encoder).suffix in FILES:
        return load_features(encoder)
    if _is_array(encoder):
        return encoder
    if isinstance(encoder, list | tuple) and encoder and hasattr(X, "columns"):
        return X[checked_columns(encoder, X, f"Columns of encoder {name!r}")]
    if X is None:
        raise ValueError(
            f"Encoder {name!r} must be given rows to encode, got none; write compare("
            f'{{"{name}": encoder}}, X, y), or pass features of {name!r} as an array'
        )
    run = _encoder_of(encoder, X, name, verbose)
    if callable(run) and not (hasattr(run, "fit") and hasattr(run, "transform")):
        return run(protected(X))
    if isinstance(run, ImageEncoder):
        run = clone(run).set_params(verbose=verbose)
    refuse_labelled(run, repr(name))
    if keeps_data(run):
        return X
    return encode(run, X) if cache is None else cache.features(run, X)


def checked_columns(columns: Sequence[Any], X: Any, title: str) -> list[Any]:
    """Return the columns as a list, or raise ValueError if X lacks one of them."""
    known = list(getattr(X, "columns", ()))
    for column in columns:
        if column not in known:
            cure = f"for example, pass {known[0]!r}" if known else "pass an array"
            raise invalid(title, "among the columns of X", column, cure)
    return list(columns)


def _encoder_of(encoder: Any, X: Any, name: str, verbose: int) -> Any:
    """Return a transformer, a function that takes all rows, or None for X itself."""
    if keeps_data(encoder):
        return encoder
    if isinstance(encoder, str):
        return _timm_encoder(encoder)
    if isinstance(encoder, type):
        line = f"pass {encoder.__name__}()"
        raise TypeError(f"Encoder {name!r} must be an instance, got a class; {line}")
    if hasattr(encoder, "fit") and hasattr(encoder, "transform"):
        return encoder
    if hasattr(encoder, "encode"):
        return lambda rows: _by_rows(encoder.encode, rows, name, verbose)
    if isinstance(encoder, nn.Module):
        return _module_encoder(encoder, X, name, verbose)
    kind: Any = getattr(sys.modules.get("transformers.pipelines.base"), "Pipeline", ())
    if isinstance(encoder, kind):
        return lambda rows: _by_rows(
            lambda part: [*map(_vector, encoder(part))], list(rows), name, verbose
        )
    if callable(encoder):
        return encoder
    if hasattr(encoder, "fit"):
        raise TypeError(
            f"Encoder {name!r} must have transform, but {type(encoder).__name__} has "
            "none; pass None to use X itself, or pipeline[:-1] to omit a classifier"
        )
    kind = f"{type(encoder).__name__}; to use X itself, pass None"
    raise TypeError(f"Encoder {name!r} must be {KINDS}, got {kind}")


def _timm_encoder(name: str) -> TimmEncoder:
    """Return the encoder that runs the timm model of this name."""
    if "/" in name and not name.startswith(("hf-hub:", "hf_hub:", "local-dir:")):
        raise ValueError(
            "A string must name a timm model or a .npy, .npz or .safetensors file, got "
            f"{name!r}; for a text model, pass SentenceTransformer({name!r})"
        )
    if find_spec("timm") is None:
        raise ImportError(
            f"Encoder {name!r} needs timm, which is not installed; run pip install "
            '"sklearn-mdl[images]", or pass a file of features that ends in .npy'
        )
    return TimmEncoder(name)


def _module_encoder(module: nn.Module, X: Any, name: str, verbose: int) -> Any:
    """Return an encoder for images, or a function if X is a table of numbers."""
    first = X[0] if isinstance(X, list | tuple) else None
    if isinstance(first, str) and hasattr(module, "config"):
        raise TypeError(
            f"Encoder {name!r} must take texts, but a model without its tokenizer "
            "takes tokens; pass SentenceTransformer(...), or a function: lambda texts: "
            'model(**tokenizer(list(texts), padding=True, return_tensors="pt"))'
            ".last_hidden_state.mean(1)"
        )
    if _is_array(X) and np.ndim(X) == 2:
        return lambda rows: _by_rows(partial(_outputs_of, module), rows, name, verbose)
    return TorchEncoder(module)


def _outputs_of(module: nn.Module, rows: Any) -> Any:
    """Return a module's output for rows, in evaluation mode and without gradients."""
    first = next(module.parameters(), torch.empty(0))
    batch = torch.tensor(np.asarray(rows), device=first.device)
    with default_torch(), torch.inference_mode(), evaluation_mode(module):
        return module(batch.to(first.dtype))


def _by_rows(run: Callable[[Any], Any], X: Any, name: str, verbose: int) -> np.ndarray:
    """Return a function's outputs for all rows, computed in blocks of rows."""
    rows: Any = list(X) if isinstance(X, list | tuple) else np.asarray(as_array(X))
    rows = rows.tolist() if getattr(rows, "ndim", 0) == 1 else rows  # texts
    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    blocks = [np.array(as_array(run(part))) for part in shown(parts, name, verbose)]
    return np.concatenate(blocks)


def shown(items: Sequence[T], title: str, verbose: int) -> Iterable[T]:
    """Return the items, with a progress bar after a delay if `verbose` is not 0."""
    return tqdm(items, desc=title, delay=LATE) if verbose else items
