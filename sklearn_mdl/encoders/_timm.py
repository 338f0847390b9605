"""Features from timm models."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import ClassVar, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from numpy.random import RandomState
from sklearn.utils import check_random_state
from torch import Tensor, nn

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.io.parameters import Sources
from sklearn_mdl._core.sklearn_compat import Constraints
from sklearn_mdl._core.validation import damaged, invalid
from sklearn_mdl.encoders._base import Frozen, ImageEncoder, freeze
from sklearn_mdl.encoders._layers import Layout, Vectors, View, pooled

HUBS = ("hf-hub:", "hf_hub:", "local-dir:")
CONNECT_SECONDS = 5.0
NUMPY_FILES = (".npz", ".npy")
READ = {"checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"}


def sources_of_name(name: str) -> Sources:
    """Return the folder or repository in a model name such as "hf-hub:REPOSITORY"."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return Sources()
    return Sources(paths=[rest]) if kind == "local-dir" else Sources(network=[name])


def check_options(options: Mapping[str, object] | None) -> None:
    """Raise ValueError for options that could make timm read files or URLs."""
    for name in sorted(READ & set(options or {})):
        raise ValueError(
            f"model_options must not contain {name}, since timm could then read other "
            "files; omit it, or pass TimmEncoder(..., checkpoint_path=PATH)"
        )


def check_name(timm: ModuleType, name: str, what: str = "model_name") -> None:
    """Raise ValueError if timm lacks a model or its weights.

    Names that begin with one of `HUBS` are not checked. The message calls the parameter
    `what`.
    """
    if name.startswith(HUBS):
        return
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        near = get_close_matches(architecture, timm.list_models(), n=3, cutoff=0.0)
        required = f"the name of a model in timm {timm.__version__}"
        raise invalid(what, required, name, f"pass one of {near}")
    known = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in known:
        required = f"the name of weights in timm {timm.__version__}"
        cure = f"one of {known[:5]}" if known else f"{architecture!r}, pretrained=False"
        raise invalid(what, required, name, f"pass {cure}")


def cure_of(timm: ModuleType, name: str) -> str:
    """Return what to do if the weights of a model cannot be loaded, for messages."""
    kind, _, repository = name.partition(":")
    if kind == "local-dir":
        return "pass a folder with config.json and model.safetensors"
    if repository:
        how = "with huggingface_hub.snapshot_download on another machine"
        return f"download {repository} {how} and pass model_name='local-dir:FOLDER'"
    config = timm.get_pretrained_cfg(name)
    file = getattr(config, "url", None) or "weights (timm lists none)"
    if hub := getattr(config, "hf_hub_id", None):  # timm has completed "timm/"
        file = f"model.safetensors from huggingface.co/{hub}"
    how = "on another machine and pass checkpoint_path=PATH"
    return f"download {file} {how}, or pass pretrained=False for random weights"


def check_network(timm: ModuleType, name: str) -> None:
    """Raise OSError if weights must be downloaded from a hub that is unreachable.

    Without this check, the hub's client would retry several times.

    Raises
    ------
    OSError
        If timm's weights are on the hub but not on disk, no proxy is configured, and
        the hub cannot be reached.
    """
    hub = needed("huggingface_hub", "TimmEncoder", "images")
    config = None if name.startswith(HUBS) else timm.get_pretrained_cfg(name)
    repository = getattr(config, "hf_hub_id", None)
    if not repository or getproxies():
        return
    for file in ("model.safetensors", "pytorch_model.bin"):
        if isinstance(hub.try_to_load_from_cache(repository, file), str):
            return
    address = urlsplit(hub.constants.ENDPOINT)
    port = address.port or (80 if address.scheme == "http" else 443)
    socket.create_connection((address.hostname or "", port), CONNECT_SECONDS).close()


def data_config(
    timm: ModuleType, model: nn.Module, options: Mapping[str, object]
) -> dict[str, object]:
    """Return a model's preprocessing settings, updated by the options.

    Raises
    ------
    ValueError
        If an option is unknown.
    """
    config: dict[str, object] = timm.data.resolve_model_data_config(model)
    if unknown := sorted(set(options) - set(config)):
        required, cure = f"among {list(config)}", f"omit {unknown[0]!r}"
        raise invalid("Keys of data_options", required, unknown[0], cure)
    return {**config, **options}


def from_file(
    timm: ModuleType, name: str, path: Path, options: Mapping[str, object]
) -> nn.Module:
    """Create a model without its classifier and load its weights from a file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file cannot be read or does not contain the weights of the model.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"checkpoint_path must be a file of weights that exists, got {str(path)!r};"
            " for example, pass checkpoint_path='model.safetensors'"
        )
    model: nn.Module = timm.create_model(name, pretrained=False, **options)
    if path.suffix in NUMPY_FILES:
        try:
            timm.models.load_checkpoint(model, str(path), weights_only=True)
        except Exception as error:
            raise _mismatch(path, f"timm raised {type(error).__name__}") from error
        return model
    try:
        weights = timm.models.load_state_dict(str(path), weights_only=True)
    except Exception as error:  # torch's own message gives unsafe advice
        reason = f"reading it raises {type(error).__name__}"
        cure = "download it again, or torch.save(model.state_dict(), 'new.pth')"
        raise damaged(path, "weights", reason, cure) from error
    heads = _heads(model)
    body = {k: v for k, v in weights.items() if k.rpartition(".")[0] not in heads}
    shapes = {k: v.shape for k, v in model.state_dict().items()}
    if shapes == {k: v.shape for k, v in body.items()}:
        model.load_state_dict(body)
        return model
    return _convert(timm, name, path, options, model, weights)


def _heads(model: nn.Module) -> tuple[str, ...]:
    names = (getattr(model, "pretrained_cfg", None) or {}).get("classifier") or ()
    return (names,) if isinstance(names, str) else tuple(names)


def _convert(
    timm: ModuleType,
    name: str,
    path: Path,
    options: Mapping[str, object],
    body: nn.Module,
    weights: Mapping[str, Tensor],
) -> nn.Module:
    """Return a model with weights that timm converts to its names and shapes."""
    heads = [weights[f"{h}.weight"] for h in _heads(body) if f"{h}.weight" in weights]
    n_classes = heads[0].shape[0] if heads else 0
    # Pass the loaded weights, since timm would read the file in an unsafe way.
    overlay = {"state_dict": weights, "num_classes": n_classes}
    options = {**options, "num_classes": n_classes, "pretrained_cfg_overlay": overlay}
    try:  # with the file's number of classes, timm does not silently drop weights
        model = timm.create_model(name, pretrained=True, **options)
    except Exception as error:
        expected, given = set(body.state_dict()), set(weights)
        if prefix := _prefix_of(expected, given):
            reason = f"their names begin with {prefix!r}"
            cure = (
                f"save them without it: weights = timm.models.load_state_dict(path); "
                f"torch.save({{k.removeprefix({prefix!r}): v for k, v in "
                f"weights.items() if k.startswith({prefix!r})}}, 'new.pth')"
            )
            raise damaged(path, "all weights of the model", reason, cure) from error
        missing, unknown = sorted(expected - given), sorted(given - expected)
        text = f"lacks {missing[0]!r}" if missing else "has other weights or shapes"
        if unknown and missing:
            text += f" and has {unknown[0]!r}"
        raise _mismatch(path, f"it {text}") from error
    model.reset_classifier(0)
    model.pretrained_cfg.pop("state_dict", None)
    return cast(nn.Module, model)


def _prefix_of(expected: Set[str], given: Set[str]) -> str:
    """Return what precedes all names of weights in a file, such as "module."."""
    first = min(expected)
    starts = {name.removesuffix(first) for name in given if name.endswith(first)}
    return next((s for s in starts if {s + name for name in expected} <= given), "")


def _mismatch(path: Path, reason: str) -> ValueError:
    cure = "pass the model_name and the model_options of the saved model"
    return damaged(path, "all weights of the model", reason, cure)


@dataclass(eq=False, repr=False)
class TimmEncoder(ImageEncoder):
    """Features of images from a frozen timm network.

    Images are preprocessed as in timm's evaluation of the model. The network runs in
    evaluation mode without its classifier.

    Parameters
    ----------
    model_name : str
        Name of a timm model, such as "resnet50", or name with weights, such as
        "resnet50.a1_in1k". ``timm.list_models()`` lists all models, and
        ``timm.list_pretrained()`` lists all names with weights.
    layer : str or list of str, default="last"
        "last", or names of inner modules such as "blocks.3" or "layer2". One pass
        collects the outputs of all layers.
    pool : str or list of str, default="default"
        How each layer becomes one vector. "avg" and "max" pool over pixels or patch
        tokens, "cls" keeps the class token, and "flatten" keeps all values. "model" is
        the model's own pooling before its classifier, for the last layer only.
        "default" is "model" for the last layer and "avg" for others. Every layer is
        combined with every pool.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if there is one.
    batch_size : int, default=64
        Number of images in a minibatch. It affects the last bits of features.
    amp : bool, default=False
        Run in half precision where torch considers it safe. This is faster on GPUs, but
        changes features in the third digit.
    n_jobs : int, default=None
        Number of threads that decode and preprocess images.
    verbose : int, default=0
        If above 0, show a progress bar.
    pretrained : bool, default=True
        Use the model's pre-trained weights, which are downloaded if necessary. If
        False, weights are random unless ``checkpoint_path`` is given.
    checkpoint_path : path-like, default=None
        A file of weights to use instead of a download: ``.safetensors``, ``.pth``, or
        ``.npz`` for models that can read it. It must contain all weights of the model
        except those of the classifier.
    model_options : mapping, default=None
        Further arguments of ``timm.create_model``, such as ``{"pad_type": "same"}``.
    data_options : mapping, default=None
        Settings that replace those of the model's preprocessing: ``mean``, ``std``,
        ``input_size``, ``interpolation``, ``crop_pct``, ``crop_mode``.
    random_state : int, RandomState instance or None, default=0
        Seed of random weights.

    Attributes
    ----------
    view_names_ : list of str
        Layers and pools, as ``layer|pool``.
    view_widths_ : list of int
        Number of features of each view.
    view_slices_ : dict of str to slice
        Columns of each view, for :func:`~sklearn_mdl.readouts.view_readouts`.
    data_config_ : dict
        Settings of the preprocessing.

    Notes
    -----
    ``transform`` works without ``fit``, since nothing is learned from images or labels.
    A pickle contains no weights. An unpickled encoder reloads its weights from the same
    name, file or seed, and raises ValueError if their fingerprint differs. The EXIF
    orientation of images is ignored.

    Examples
    --------
    >>> from sklearn_mdl.encoders import TimmEncoder
    >>> encoder = TimmEncoder("resnet50.a1_in1k", layer=["layer3", "last"])
    >>> features = encoder.transform_views(paths)  # doctest: +SKIP
    >>> sorted(features)  # doctest: +SKIP
    ['last|model', 'layer3|avg']
    """

    model_name: str
    _: KW_ONLY
    pretrained: bool = True
    checkpoint_path: str | PathLike[str] | None = None
    model_options: Mapping[str, object] | None = None
    data_options: Mapping[str, object] | None = None
    random_state: int | RandomState | None = 0

    _parameter_constraints: ClassVar[Constraints] = {
        **ImageEncoder._parameter_constraints,
        "model_name": [str],
        "pretrained": ["boolean"],
        "checkpoint_path": [str, PathLike, None],
        "model_options": [Mapping, None],
        "data_options": [Mapping, None],
        "random_state": ["random_state"],
    }

    def _load(self) -> Frozen:
        timm = needed("timm", "TimmEncoder", "images")
        needed("torchvision", "TimmEncoder", "images")  # timm's transforms need it
        check_name(timm, self.model_name)
        check_options(self.model_options)
        if not hasattr(self, "seed_"):
            self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.seed_)
            model = self._model(timm)
        config = data_config(timm, model, self.data_options or {})
        channels, *size = cast(Sequence[int], config["input_size"])
        if channels not in (1, 3):
            name, required = f"input_size[0] of {self.model_name!r}", "1 or 3"
            cure = f"pass data_options={{'input_size': {(3, *size)}}}, or another model"
            raise invalid(name, required, channels, cure)
        self.data_config_ = config
        layout = Layout(
            getattr(model, "output_fmt", None) == "NHWC",
            int(getattr(model, "num_prefix_tokens", 0)),
            getattr(model, "cls_token", None) is not None,
        )
        transform = timm.data.create_transform(**config, is_training=False)
        model, device = freeze(model, self.device)
        return Frozen(model, transform, "L" if channels == 1 else "RGB", layout, device)

    def _sources(self) -> Sources:
        """Return the names of files and downloads that ``fit`` needs."""
        reads = sources_of_name(self.model_name)
        if self.checkpoint_path is not None:
            return reads._replace(paths=[*reads.paths, fspath(self.checkpoint_path)])
        return reads._replace(network=[self.model_name]) if self.pretrained else reads

    def _model(self, timm: ModuleType) -> nn.Module:
        name = self.model_name
        options = {**(self.model_options or {}), "num_classes": 0}
        if self.checkpoint_path is not None:
            return from_file(timm, name, Path(self.checkpoint_path), options)
        if not self.pretrained:
            return cast(nn.Module, timm.create_model(name, pretrained=False, **options))
        try:
            check_network(timm, name)
            return cast(nn.Module, timm.create_model(name, pretrained=True, **options))
        except TypeError:  # for unknown model_options
            raise
        except Exception as error:  # the hub's client raises many types of errors
            raise OSError(
                f"Weights of {name!r} could not be loaded ({type(error).__name__}); "
                f"{cure_of(timm, name)}"
            ) from error

    def _last(self, frozen: Frozen, batch: Tensor, views: list[View]) -> Vectors:
        features = frozen.module.forward_features(batch)  # type: ignore[operator]

        def pool(view: View) -> Tensor:
            if view.pool != "model":
                return pooled(features, view, frozen.layout)
            return cast(Tensor, frozen.module.forward_head(features, pre_logits=True))  # type: ignore[operator]

        return {view.name: pool(view) for view in views}

    def _identity(self) -> dict[str, object]:
        return {
            "model": self.model_name,
            "options": repr(sorted((self.model_options or {}).items())),
            "preprocessing": repr(sorted(self.data_config_.items())),
        }
