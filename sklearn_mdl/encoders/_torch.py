"""Features from any torch module."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.content_hash import content_hash
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.encoders._base import (
    Frozen,
    ImageEncoder,
    attributes_fingerprint,
    freeze,
)
from sklearn_mdl.encoders._layers import Layout, Vectors, View, pooled

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(eq=False, repr=False)
class TorchEncoder(ImageEncoder):
    """Features of images from any frozen torch module.

    Parameters
    ----------
    module : torch.nn.Module
        Module that takes tensors (B, C, H, W). ``fit`` copies the module and leaves the
        original unchanged.
    preprocess : callable, default=None
        Maps a PIL image to a tensor (C, H, W) of constant shape. If an encoder must be
        identified, as by a cache or by ``FineTunedReadout``, it must accept images of
        any size. A cache finds features again only if it is not random. If None, pixels
        are only scaled to the range [0, 1].
    layer : str or list of str, default="last"
        "last", for the output of the module, or names of inner modules. One pass
        collects the outputs of all layers.
    pool : str or list of str, default="default"
        How each layer becomes one vector. "avg" and "max" pool over pixels or tokens.
        "cls" keeps the first token and needs ``n_prefix_tokens``. "flatten" keeps all
        values. "model" keeps the module's output, which must be vectors (B, width), and
        is only possible for the last layer. "default" is "model" for the last layer and
        "avg" for others. Every layer is combined with every pool.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if there is one.
    batch_size : int, default=64
        Number of images in a minibatch. It affects the last bits of features.
    amp : bool, default=False
        Run in half precision where torch considers it safe.
    n_jobs : int, default=None
        Number of threads that decode and preprocess images.
    verbose : int, default=0
        If above 0, show a progress bar.
    mode : {"RGB", "L"}, default="RGB"
        ``preprocess`` receives colour images ("RGB") or grey images ("L").
    channels_last : bool, default=False
        True if the outputs of layers are maps (B, H, W, C).
    n_prefix_tokens : int, default=0
        Number of leading tokens that "avg" and "max" ignore, such as a class token. If
        above 0, the first token is the class token, which ``pool="cls"`` keeps.

    Attributes
    ----------
    view_names_ : list of str
        Layers and pools, as ``layer|pool``.
    view_widths_ : list of int
        Number of features of each view.
    view_slices_ : dict of str to slice
        Columns of each view, for :func:`~sklearn_mdl.readouts.view_readouts`.

    Notes
    -----
    A pickle contains the module. ``clone`` shares the module, since ``fit`` does not
    modify it.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sklearn_mdl.encoders import TorchEncoder
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    >>> images = np.zeros((2, 8, 8, 3), np.uint8)
    >>> encoder = TorchEncoder(module, layer=["0", "last"])
    >>> {k: v.shape for k, v in encoder.transform_views(images).items()}
    {'0|avg': (2, 4), 'last|model': (2, 144)}
    """

    module: nn.Module
    preprocess: Callable[[Image], Tensor] | None = None
    _: KW_ONLY
    mode: str = "RGB"
    channels_last: bool = False
    n_prefix_tokens: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        **ImageEncoder._parameter_constraints,
        "module": [nn.Module],
        "preprocess": [callable, None],
        "mode": [StrOptions({"RGB", "L"})],
        "channels_last": ["boolean"],
        "n_prefix_tokens": [Interval(Integral, 0, None, closed="left")],
    }

    def __sklearn_clone__(self) -> Self:
        """Copy the settings, but share the module."""
        return self._copy_sharing("module")

    def _load(self) -> Frozen:
        prefix = int(self.n_prefix_tokens)
        layout = Layout(bool(self.channels_last), prefix, prefix > 0)
        module, device = freeze(deepcopy(self.module), self.device)
        return Frozen(module, self._prepared, self.mode, layout, device)

    def _prepared(self, image: Image) -> Tensor:
        if self.preprocess is None:  # a tensor (C, H, W) of values from 0 to 1
            pixels = np.atleast_3d(np.asarray(image, dtype=np.float32) / 255)
            return torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        tensor = self.preprocess(image)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"preprocess must return a tensor, got {type(tensor).__name__}; pass "
                "transforms.Compose([preprocess, ToTensor()]) or, with Hugging Face, "
                "lambda i: processor(i, return_tensors='pt')['pixel_values'][0]"
            )
        return tensor

    def _last(self, frozen: Frozen, batch: Tensor, views: list[View]) -> Vectors:
        output = frozen.module(batch)
        if not isinstance(output, Tensor) and views:
            cure = "pass such a module, or layer=NAME of an inner module"
            kind = type(output).__name__
            raise ValueError(f"The module must return one tensor, got {kind}; {cure}")
        unpooled = any(view.pool == "model" for view in views)
        if unpooled and output.ndim != 2:
            shape, cure = tuple(output.shape), "pass pool='avg' or pool='flatten'"
            raise invalid("The output of the module", "vectors (B, width)", shape, cure)
        return {view.name: pooled(output, view, frozen.layout) for view in views}

    def _identity(self) -> dict[str, object]:
        module = self._frozen.module if hasattr(self, "_frozen") else self.module
        return {
            "model": f"{type(module).__module__}.{type(module).__qualname__}",
            "options": repr(module),
            "attributes": attributes_fingerprint(module),
            "preprocessing": [self.mode, self._effect()],
            "layout": [bool(self.channels_last), int(self.n_prefix_tokens)],
        }

    def _effect(self) -> str:
        """Return the hash of test images after preprocessing.

        Keys of a cache contain this hash instead of the code of ``preprocess``, which
        may use objects that change in each call, such as random generators. The images
        differ in shape, in the range of their values and in EXIF orientation.
        """
        pil = needed("PIL.Image", "TorchEncoder", "images")
        rng, tensors = np.random.default_rng(0), []
        for i, shape in enumerate([(37, 53, 3), (301, 222, 3)] * 8):
            pixels = rng.integers(5 * i, 256 - 5 * i, shape, dtype=np.uint8)
            image = pil.fromarray(pixels).convert(self.mode)
            image.getexif()[274] = 1 + i // 2  # both shapes in each orientation
            image.info["exif"] = image.getexif().tobytes()  # as in images from files
            try:
                tensors.append(self._prepared(image))
            except Exception as error:
                error.add_note("To be hashed, preprocess must take images of any size")
                raise
        return content_hash(tensors)
