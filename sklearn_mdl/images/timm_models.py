"""Models of timm by name, with weights from files."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

HUBS = ("hf-hub:", "hf_hub:", "local-dir:")
NUMPY_FILES = (".npz", ".npy")


def check_name(timm: Any, name: str) -> None:
    """Raise ValueError if timm knows no such model."""
    if name.startswith(HUBS):
        return
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        near = get_close_matches(architecture, timm.list_models(), n=3, cutoff=0.0)
        raise ValueError(
            f"model_name must be one of timm {timm.__version__}, got {name!r}; names "
            f"near it are {', '.join(map(repr, near))}"
        )
    known = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in known:
        raise ValueError(
            f"model_name must be one of timm {timm.__version__}, which knows no "
            f"weights {name!r}; choose from {', '.join(map(repr, known[:5])) or 'none'}"
        )


def source_of(timm: Any, name: str) -> str:
    """Name the file on which timm's weights of a model lie."""
    if name.startswith(HUBS):
        return f"model.safetensors from {name}"
    config = timm.get_pretrained_cfg(name)
    hub = getattr(config, "hf_hub_id", None)
    if hub:
        # timm leaves out the tag where it follows from the name of the model.
        full = hub if "." in hub or not config.tag else f"{hub}.{config.tag}"
        return f"model.safetensors from huggingface.co/{full.removesuffix('/')}"
    return getattr(config, "url", None) or "a file of weights of this model"


def data_config(
    timm: Any, model: nn.Module, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Preprocessing of a model, with changes.

    Raises
    ------
    ValueError
        If an option is none of it.
    """
    config = timm.data.resolve_model_data_config(model)
    unknown = sorted(set(options) - set(config))
    if unknown:
        raise ValueError(
            f"data_options must be among {', '.join(map(repr, config))}, got "
            f"{unknown[0]!r}; leave it out"
        )
    return {**config, **options}


def from_file(
    timm: Any, name: str, path: Path, options: Mapping[str, Any]
) -> nn.Module:
    """Make a model without classifier, with all of its weights from a file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it cannot be read, or its weights are not those of the model.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"checkpoint_path must be a file of weights, got {str(path)!r}, which is no"
            " file; check the path"
        )
    model = timm.create_model(name, pretrained=False, **{**options, "num_classes": 0})
    if path.suffix in NUMPY_FILES:
        return _from_numpy(timm, model, path)
    try:
        found = timm.models.load_state_dict(str(path))
    except Exception as error:  # unpickling may raise anything
        raise ValueError(
            f"checkpoint_path must be a file of weights, but {path} cannot be read as "
            f"one ({type(error).__name__}); fetch it again"
        ) from error
    heads = _heads(model)
    body = {k: v for k, v in found.items() if k.rpartition(".")[0] not in heads}
    own = {k: v.shape for k, v in model.state_dict().items()}
    if own == {k: v.shape for k, v in body.items()}:
        model.load_state_dict(body)
        loaded: nn.Module = model
        return loaded
    return _converted(timm, name, path, options, {**found})


def _from_numpy(timm: Any, model: nn.Module, path: Path) -> nn.Module:
    try:
        timm.models.load_checkpoint(model, str(path))
    except Exception as error:
        raise _mismatch(path, f"{type(error).__name__}") from error
    return model


def _heads(model: nn.Module) -> tuple[str, ...]:
    names = (getattr(model, "pretrained_cfg", None) or {}).get("classifier") or ()
    return (names,) if isinstance(names, str) else tuple(names)


def _converted(
    timm: Any,
    name: str,
    path: Path,
    options: Mapping[str, Any],
    found: Mapping[str, Any],
) -> nn.Module:
    """Let timm translate weights from another program, or for another image size."""
    body = timm.create_model(name, pretrained=False, **{**options, "num_classes": 0})
    heads = [found[f"{h}.weight"] for h in _heads(body) if f"{h}.weight" in found]
    n_classes = heads[0].shape[0] if heads else 0
    overlay = {"file": str(path), "num_classes": n_classes}
    try:  # with as many classes as the file has, timm leaves out no weight in silence
        model = timm.create_model(
            name,
            pretrained=True,
            pretrained_cfg_overlay=overlay,
            **{**options, "num_classes": n_classes},
        )
    except Exception as error:
        own, given = set(body.state_dict()), set(found)
        missing, unknown = sorted(own - given), sorted(given - own)
        text = f"lacks {missing[0]!r}" if missing else "holds other shapes"
        if unknown and missing:
            text += f" and holds {unknown[0]!r}"
        raise _mismatch(path, f"it {text}") from error
    model.reset_classifier(0)
    headless: nn.Module = model
    return headless


def _mismatch(path: Path, what: str) -> ValueError:
    return ValueError(
        f"checkpoint_path must hold all weights of the model, but {path} does not "
        f"({what}); name the model and the model_options that it was saved from"
    )
