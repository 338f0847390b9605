"""A trainable copy of an encoder's network, with its preprocessing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from os import PathLike
from typing import cast

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from sklearn_mdl._core.images.rows import Shape
from sklearn_mdl.encoders._base import ImageEncoder, prepared
from sklearn_mdl.encoders._cache import CachedEncoder

AnyEncoder = ImageEncoder | CachedEncoder
PLAIN = (str, int, float, list, tuple, dict, PathLike, type(None))


class EncoderTrunk(nn.Module):
    """The network of an image encoder as a trainable module.

    The module returns the encoder's features, from the same layers and pools.

    Parameters
    ----------
    encoder : TimmEncoder or TorchEncoder
        Fitted encoder, whose network is copied.
    """

    def __init__(self, encoder: ImageEncoder) -> None:
        super().__init__()
        frozen = encoder._frozen
        self.encoder: ImageEncoder = clone(encoder)
        self.module = deepcopy(frozen.module).requires_grad_(True)
        self.about = frozen._replace(module=nn.Identity())
        self.views = list(encoder._views)

    def prepare(self, images: Tensor) -> Tensor:
        """Preprocess uint8 images (n, H, W, C) into a minibatch (n, c, h, w)."""
        arrays, n = images.cpu().numpy(), len(images)
        (batch,) = prepared(self.about, arrays, range(n), n, self.encoder.n_jobs)
        return batch

    def forward(self, batch: Tensor) -> Tensor:
        """Return the features (n, width) of a minibatch."""
        frozen = self.about._replace(module=self.module)
        vectors = self.encoder._outputs(frozen, self.views, batch)
        return torch.cat([vectors[view.name].float() for view in self.views], 1)


def image_encoder_of(encoder: AnyEncoder) -> ImageEncoder:
    """Return the fitted encoder of a fitted CachedEncoder, or the encoder itself."""
    return cast(ImageEncoder, getattr(encoder, "encoder_", encoder))


def distinct_encoders(
    encoders: Sequence[AnyEncoder], shapes: Sequence[Shape]
) -> list[AnyEncoder]:
    """Return a fitted copy of each encoder. Equal encoders share a copy.

    Parameters
    ----------
    encoders : sequence of TimmEncoder, TorchEncoder or CachedEncoder
        Encoders to copy, which are not modified.
    shapes : sequence of (H, W, C)
        Image shape of each encoder.

    Returns
    -------
    copies : list
        One entry for each encoder. Encoders of the same class with equal image shapes
        share a copy if their settings or their fingerprints are equal.
    """
    by_settings: dict[tuple[str, Shape], AnyEncoder] = {}
    by_content: dict[tuple[str, Shape], AnyEncoder] = {}
    keys = [(_settings(e), shape) for e, shape in zip(encoders, shapes, strict=True)]
    for (settings, shape), encoder in zip(keys, encoders, strict=True):
        if (settings, shape) not in by_settings:
            copy = _fitted_copy(encoder, shape)
            content = json.dumps(image_encoder_of(copy).fingerprint(), sort_keys=True)
            key = type(encoder).__name__ + content, shape
            by_settings[settings, shape] = by_content.setdefault(key, copy)
    return [by_settings[key] for key in keys]


def _settings(encoder: AnyEncoder) -> str:
    """Return the class and settings as text, with ids of objects such as modules."""
    params = encoder.get_params(deep=True)
    words = [
        f"{name}={value!r}" if isinstance(value, PLAIN) else f"{name}@{id(value)}"
        for name, value in sorted(params.items())
        if not isinstance(value, ImageEncoder)
    ]
    return f"{type(encoder).__name__} {words}"


def _fitted_copy(encoder: AnyEncoder, shape: Shape) -> AnyEncoder:
    fitted = deepcopy(encoder)
    if not hasattr(image_encoder_of(fitted), "_frozen"):
        fitted.fit(np.zeros((1, *shape), np.uint8))
    image_encoder_of(fitted).verbose = 0  # the pass over images has its own bar
    return fitted
