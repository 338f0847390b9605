"""Encoders out of timm, with their own weights and preprocessing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from sklearn_mdl.images.encoder import Frozen, ImageEncoder, freeze
from sklearn_mdl.images.extras import needed
from sklearn_mdl.images.pooling import Block, Layout, pooled
from sklearn_mdl.images.timm_models import (
    check_name,
    data_config,
    from_file,
    source_of,
)


class TimmEncoder(ImageEncoder):
    """Features of images from a network of timm, frozen.

    The image is resized, cropped at the centre and normalised as the model's training
    asks for (``timm.data.resolve_model_data_config``); the network runs in evaluation
    mode, without its classifier.

    Parameters
    ----------
    model_name : str
        As ``timm.list_models()`` gives it, such as "resnet50.a1_in1k" or
        "vit_base_patch16_224.dino".
    pretrained : bool, default=True
        Take the weights that timm names, which are downloaded if they are not yet
        there. False leaves them random, unless ``checkpoint_path`` is given.
    checkpoint_path : path-like, default=None
        A file of weights to take instead, without any network: ``.safetensors``,
        ``.pth``, or ``.npz`` for models that read it. It must hold every weight of the
        model but the classifier.
    layer : str or list of str, default="last"
        "last", or names of modules inside the model, such as "blocks.3" or "layer2",
        whose outputs are taken; all in one pass.
    pool : str or list of str, default="default"
        How each layer becomes one vector: "avg" and "max" over places, or over the
        tokens of patches; "cls" the class token; "flatten" all numbers; "model", for
        the last layer, as the model itself does before its classifier. "default" is
        "model" for the last layer and "avg" for others. Layers and pools are combined.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one.
    batch_size : int, default=64
        Images encoded at once. It moves the last bits of features.
    amp : bool, default=False
        Run in half precision where torch deems it safe: faster on GPUs, and features
        move in the third digit.
    n_jobs : int, default=None
        Threads that decode and resize images.
    model_options : mapping, default=None
        Further arguments of ``timm.create_model``, such as ``{"pad_type": "same"}``.
    data_options : mapping, default=None
        What to change in the preprocessing: ``mean``, ``std``, ``input_size``,
        ``interpolation``, ``crop_pct``, ``crop_mode``.
    random_state : int, RandomState instance or None, default=0
        Seeds random weights.
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    block_names_ : list of str
        Layers and pools, as ``layer|pool``.
    block_widths_ : list of int
        Their numbers of features.
    data_config_ : dict
        The preprocessing.

    Notes
    -----
    Nothing is learned from images or labels, and ``transform`` works without ``fit``. A
    pickle holds no weights: they are made again from the same name, file or seed, and
    must have the same fingerprint. Images are taken as they are stored: orientation in
    EXIF is not applied, as it was not in training.

    Examples
    --------
    >>> from sklearn_mdl import TimmEncoder
    >>> encoder = TimmEncoder("resnet50.a1_in1k", layer=["layer3", "last"])
    >>> features = encoder.transform_blocks(paths)  # doctest: +SKIP
    >>> sorted(features)  # doctest: +SKIP
    ['last|model', 'layer3|avg']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImageEncoder._parameter_constraints,
        "model_name": [str],
        "pretrained": ["boolean"],
        "checkpoint_path": [str, PathLike, None],
        "model_options": [Mapping, None],
        "data_options": [Mapping, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        model_name: Any,
        *,
        pretrained: bool = True,
        checkpoint_path: Any = None,
        layer: Any = "last",
        pool: Any = "default",
        device: Any = "auto",
        batch_size: Any = 64,
        amp: bool = False,
        n_jobs: Any = None,
        model_options: Any = None,
        data_options: Any = None,
        random_state: Any = 0,
        verbose: Any = 0,
    ) -> None:
        self.model_name = model_name
        self.pretrained = pretrained
        self.checkpoint_path = checkpoint_path
        self.layer = layer
        self.pool = pool
        self.device = device
        self.batch_size = batch_size
        self.amp = amp
        self.n_jobs = n_jobs
        self.model_options = model_options
        self.data_options = data_options
        self.random_state = random_state
        self.verbose = verbose

    def _load(self) -> Frozen:
        timm = needed("timm", "TimmEncoder", "images")
        needed("torchvision", "TimmEncoder", "images")  # timm's transforms need it
        check_name(timm, self.model_name)
        if not hasattr(self, "seed_"):
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            self.seed_ = int(seed)
        with _seeded(self.seed_):
            model = self._model(timm)
        config = data_config(timm, model, self.data_options or {})
        channels = config["input_size"][0]
        if channels not in (1, 3):
            raise ValueError(
                f"Models must take 1 or 3 channels, but {self.model_name!r} takes "
                f"{channels}; choose another model"
            )
        self.data_config_ = config
        layout = Layout(
            getattr(model, "output_fmt", None) == "NHWC",
            int(getattr(model, "num_prefix_tokens", 0)),
            getattr(model, "cls_token", None) is not None,
        )
        transform = timm.data.create_transform(**config, is_training=False)
        model, device = freeze(model, self.device)
        return Frozen(model, transform, "L" if channels == 1 else "RGB", layout, device)

    def _model(self, timm: Any) -> nn.Module:
        name, options = self.model_name, {**(self.model_options or {})}
        if self.checkpoint_path is not None:
            return from_file(timm, name, Path(self.checkpoint_path), options)
        options["num_classes"] = 0
        if not self.pretrained:
            model: nn.Module = timm.create_model(name, pretrained=False, **options)
            return model
        try:
            model = timm.create_model(name, pretrained=True, **options)
        except Exception as error:  # the hub's client raises errors of a dozen kinds
            raise OSError(
                f"Pretrained weights of {name!r} are needed, but they could not be had "
                f"({type(error).__name__}); fetch {source_of(timm, name)} where there "
                "is a network and pass its path as checkpoint_path, or pass "
                "pretrained=False"
            ) from error
        return model

    def _last(
        self, frozen: Frozen, batch: Tensor, blocks: list[Block]
    ) -> dict[str, Tensor]:
        model: Any = frozen.module
        features = model.forward_features(batch)
        found = {}
        for block in blocks:
            if block.pool == "model":
                found[block.name] = model.forward_head(features, pre_logits=True)
            else:
                found[block.name] = pooled(features, block, frozen.layout)
        return found

    def _identity(self) -> dict[str, Any]:
        return {
            "model": self.model_name,
            "options": repr(sorted((self.model_options or {}).items())),
            "preprocessing": repr(sorted(self.data_config_.items())),
        }


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Make weights from a seed, and leave the global generator as it was."""
    state = torch.get_rng_state()
    try:
        torch.default_generator.manual_seed(seed)
        yield
    finally:
        torch.set_rng_state(state)
