"""Encoders out of any torch module."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.images.encoder import Frozen, ImageEncoder, freeze
from sklearn_mdl.images.extras import needed
from sklearn_mdl.images.pooling import Block, Layout, pooled


class TorchEncoder(ImageEncoder):
    """Features of images from any torch module, frozen.

    Parameters
    ----------
    module : torch.nn.Module
        Takes tensors (B, C, H, W). A copy is taken in ``fit``; the module itself is
        left as it is.
    preprocess : callable, default=None
        From a PIL image to a tensor (C, H, W) of one shape for all. None scales pixels
        to 0 to 1 and does no more.
    layer : str or list of str, default="last"
        "last", for what the module returns, or names of modules inside it; all in one
        pass.
    pool : str or list of str, default="default"
        How each layer becomes one vector: "avg" and "max" over places, or over tokens;
        "cls" the first token, which is one of the prefix then; "flatten" all numbers;
        "model" takes vectors (B, width) as they are. "default" is "model" for the last
        layer and "avg" for others. Layers and pools are combined.
    mode : {"RGB", "L"}, default="RGB"
        What ``preprocess`` is given: colour or grey.
    channels_last : bool, default=False
        Whether maps inside the module are (B, H, W, C).
    n_prefix_tokens : int, default=0
        Tokens before those of patches, which "avg" and "max" leave out.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one.
    batch_size : int, default=64
        Images encoded at once. It moves the last bits of features.
    amp : bool, default=False
        Run in half precision where torch deems it safe.
    n_jobs : int, default=None
        Threads that decode and preprocess images.
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    block_names_ : list of str
        Layers and pools, as ``layer|pool``.
    block_widths_ : list of int
        Their numbers of features.

    Notes
    -----
    ``clone`` copies the module, and a pickle holds it, since it cannot be made again.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sklearn_mdl import TorchEncoder
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    >>> images = np.zeros((2, 8, 8, 3), np.uint8)
    >>> encoder = TorchEncoder(module, layer=["0", "last"])
    >>> {k: v.shape for k, v in encoder.transform_blocks(images).items()}
    {'0|avg': (2, 4), 'last|model': (2, 144)}
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImageEncoder._parameter_constraints,
        "module": [nn.Module],
        "preprocess": [callable, None],
        "mode": [StrOptions({"RGB", "L"})],
        "channels_last": ["boolean"],
        "n_prefix_tokens": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        module: Any,
        preprocess: Any = None,
        *,
        layer: Any = "last",
        pool: Any = "default",
        mode: Any = "RGB",
        channels_last: bool = False,
        n_prefix_tokens: Any = 0,
        device: Any = "auto",
        batch_size: Any = 64,
        amp: bool = False,
        n_jobs: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.module = module
        self.preprocess = preprocess
        self.layer = layer
        self.pool = pool
        self.mode = mode
        self.channels_last = channels_last
        self.n_prefix_tokens = n_prefix_tokens
        self.device = device
        self.batch_size = batch_size
        self.amp = amp
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _load(self) -> Frozen:
        prefix = int(self.n_prefix_tokens)
        layout = Layout(bool(self.channels_last), prefix, prefix > 0)
        module, device = freeze(deepcopy(self.module), self.device)
        return Frozen(module, self._prepared, self.mode, layout, device)

    def _prepared(self, image: Any) -> Tensor:
        if self.preprocess is None:
            return to_tensor(image)
        tensor = self.preprocess(image)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "preprocess must make a tensor (C, H, W) of a PIL image, but it makes "
                f"{type(tensor).__name__}; add a conversion"
            )
        return tensor

    def _last(
        self, frozen: Frozen, batch: Tensor, blocks: list[Block]
    ) -> dict[str, Tensor]:
        output = frozen.module(batch)
        if not isinstance(output, Tensor) and blocks:
            raise ValueError(
                "The module must return one tensor, but it returned "
                f"{type(output).__name__}; name a layer inside it"
            )
        return {block.name: _pooled(output, block, frozen.layout) for block in blocks}

    def _identity(self) -> dict[str, Any]:
        return {
            "model": f"{type(self.module).__module__}.{type(self.module).__qualname__}",
            "options": repr(self.module),
            "preprocessing": [self.mode, self._effect()],
            "layout": [bool(self.channels_last), int(self.n_prefix_tokens)],
        }

    def _effect(self) -> str:
        """SHA-256 of what the preprocessing makes of two test images.

        A callable cannot be read off reliably, but what it does can be.
        """
        pil = needed("PIL.Image", "TorchEncoder", "images")
        digest = hashlib.sha256()
        rng = np.random.default_rng(0)
        for height, width in ((37, 53), (301, 222)):
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            tensor = self._prepared(pil.fromarray(pixels).convert(self.mode)).cpu()
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            flat = tensor.contiguous().view(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()


def to_tensor(image: Any) -> Tensor:
    """Make a tensor (C, H, W) from 0 to 1 of a PIL image."""
    pixels = np.asarray(image, dtype=np.float32) / 255
    if pixels.ndim == 2:
        return torch.from_numpy(pixels[None])
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def _pooled(output: Tensor, block: Block, layout: Layout) -> Tensor:
    if block.pool == "model" and output.ndim != 2:
        raise ValueError(
            "The module must return vectors (B, width) to be taken as they are, but it "
            f"returned shape {tuple(output.shape)}; pass pool='avg' or 'flatten'"
        )
    return pooled(output, block, layout)
