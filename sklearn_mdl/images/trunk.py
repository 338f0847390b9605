"""An encoder's network as one that can learn: a copy, with its own preprocessing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from os import PathLike
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.base import clone
from torch import Tensor, nn

from sklearn_mdl.images.encoder import Frozen, ImageEncoder
from sklearn_mdl.images.layers import listening
from sklearn_mdl.images.pooling import LAST
from sklearn_mdl.images.preparing import minibatches
from sklearn_mdl.images.reading import image_at
from sklearn_mdl.images.rows import Shape

PLAIN = (str, int, float, list, tuple, dict, PathLike, type(None))


class EncoderTrunk(nn.Module):
    """The network of an image encoder, as a module whose parameters can be trained.

    What it returns are the features of the encoder: the same layers and poolings, side
    by side.

    Parameters
    ----------
    encoder : TimmEncoder or TorchEncoder
        Fitted. Its network is copied.
    """

    def __init__(self, encoder: ImageEncoder) -> None:
        super().__init__()
        frozen = encoder._frozen
        self.encoder = fresh_encoder(encoder)
        self.module = deepcopy(frozen.module).requires_grad_(True)
        self.about = frozen._replace(module=nn.Identity())
        self.names = list(encoder.block_names_)
        self.inner = [block for block in encoder._blocks if block.layer != LAST]
        self.last = [block for block in encoder._blocks if block.layer == LAST]

    def prepare(self, images: Tensor) -> Tensor:
        """Preprocess images (n, H, W, C), uint8, to a minibatch (n, c, h, w)."""
        arrays = images.cpu().numpy()

        def one(row: int) -> Tensor:
            return self.about.transform(image_at(arrays, row, self.about.mode))

        n_threads = effective_n_jobs(self.encoder.n_jobs)
        (batch,) = minibatches(one, range(len(arrays)), len(arrays), n_threads)
        return batch

    def forward(self, batch: Tensor) -> Tensor:
        """Features (n, width) of a minibatch."""
        frozen: Frozen = self.about._replace(module=self.module)
        with listening(self.module, self.inner, frozen.layout) as found:
            found |= self.encoder._last(frozen, batch, self.last)
        return torch.cat([found[name].float() for name in self.names], 1)


def fresh_encoder(encoder: Any) -> Any:
    """Copy the settings of an encoder; a module that it copies itself is shared."""
    params = encoder.get_params(deep=False)
    return type(encoder)(**{name: _fresh(value) for name, value in params.items()})


def _fresh(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return value
    if isinstance(value, ImageEncoder):
        return fresh_encoder(value)
    return clone(value, safe=False)


def image_encoder_of(encoder: Any) -> ImageEncoder:
    """Return the encoder behind a cache, or an encoder itself, as it is fitted."""
    found: ImageEncoder = getattr(encoder, "encoder_", encoder)
    return found


def distinct_encoders(encoders: Sequence[Any], shape: Shape) -> list[Any]:
    """Make fitted copies of encoders, one for all that make the same features.

    Parameters
    ----------
    encoders : sequence of TimmEncoder, TorchEncoder or CachedEncoder
        They are left as they are.
    shape : (H, W, C)
        Of the images to come.

    Returns
    -------
    copies : list
        One for each encoder; the same object where settings are the same, or the
        weights and all else that features depend on.
    """
    by_settings: dict[str, Any] = {}
    by_content: dict[str, Any] = {}
    keys = [_settings(encoder) for encoder in encoders]
    for key, encoder in zip(keys, encoders, strict=True):
        if key not in by_settings:
            own = _fitted(encoder, shape)
            content = json.dumps(image_encoder_of(own).fingerprint(), sort_keys=True)
            kind = type(encoder).__name__
            by_settings[key] = by_content.setdefault(kind + content, own)
    return [by_settings[key] for key in keys]


def _settings(encoder: Any) -> str:
    """Write settings down; objects that are no plain values are told by identity."""
    params = encoder.get_params(deep=True)
    words = [
        f"{name}={value!r}" if isinstance(value, PLAIN) else f"{name}@{id(value)}"
        for name, value in sorted(params.items())
        if not isinstance(value, ImageEncoder)
    ]
    return f"{type(encoder).__name__} {words}"


def _fitted(encoder: Any, shape: Shape) -> Any:
    own = deepcopy(encoder)
    if not hasattr(image_encoder_of(own), "_frozen"):
        own.fit(np.zeros((1, *shape), np.uint8))
    image_encoder_of(own).verbose = 0  # a walk has a bar of its own
    return own
