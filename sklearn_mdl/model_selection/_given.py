"""Checks of datasets and encoders. Error messages show the correct form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from torch import nn

from sklearn_mdl._core.unsupported import ESCAPE, unsupported
from sklearn_mdl._core.validation import invalid, refuse_labelled
from sklearn_mdl.datasets import load_representations
from sklearn_mdl.encoders import keeps_data

BOTH_FORMS = (
    '{"data": (X, y)} with encoders={"raw": None}, or '
    '{"data": ({"clip": array}, y)} without encoders'
)


def opened(datasets: object) -> object:
    """Return the datasets, with each AnnData replaced by its arrays and labels."""
    if hasattr(datasets, "obsm"):
        return load_representations(datasets).datasets
    if not isinstance(datasets, Mapping):
        return datasets
    return {name: _load_pair(pair) for name, pair in datasets.items()}


def _load_pair(pair: object) -> object:
    match pair:
        case (data, str(column)) if hasattr(data, "obsm"):
            (loaded,) = load_representations(data, label=column).datasets.values()
            return loaded
    return pair


def checked_datasets(
    datasets: object, *, grouped: bool = False
) -> Mapping[str, tuple[object, ArrayLike]]:
    """Return the datasets as a mapping from names to (X, y), after checking its form.

    If ``grouped``, a dataset may have a third part, which gives the group of each row.
    """
    checked = _checked_mapping("datasets", opened(datasets), BOTH_FORMS)
    for name, parts in checked.items():
        n_parts = len(parts) if isinstance(parts, (tuple, list)) else 0
        if n_parts == 3 and not grouped:
            raise TypeError(
                f"A dataset must be a pair (X, y) here, but {name!r} also has groups, "
                "which held-out rows would split; use RepresentationScorer()"
            )
        if n_parts not in (2, 3):
            raise TypeError(
                "A dataset must be a pair of data and labels, but "
                f"{name!r} is {_brief(parts)}; write {BOTH_FORMS}"
            )
    return checked


def _brief(value: object) -> str:
    """Describe a value in a few words, without its elements."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{kind} of shape {shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list | tuple | Mapping):
        return f"{kind} of length {len(value)}" if value else f"an empty {kind}"
    return f"{value!r}"[:60] if isinstance(value, str | int | float) else kind


def refuse_arrays(datasets: object, encoders: object) -> None:
    """Raise TypeError if arrays of features were passed as encoders or datasets."""
    named, dataset = encoders, "data"
    if isinstance(encoders, Mapping) and isinstance(datasets, Mapping) and datasets:
        dataset = str(next(iter(datasets)))
    elif isinstance(datasets, Mapping) and _is_array(encoders):  # fit({"clip": A}, y)
        named = datasets
    if not (isinstance(named, Mapping) and any(map(_is_array, named.values()))):
        return
    pairs = ", ".join(f"{name!r}: {_brief(X)}" for name, X in list(named.items())[:3])
    form = ", ".join(f"{name!r}: array" for name in list(named)[:3])
    raise TypeError(
        f"An encoder must be a transformer, but these are features: {pairs}; write "
        f"{{{dataset!r}: ({{{form}}}, y)}} without encoders"
    )


def _is_array(value: object) -> bool:
    """Return True for an array, tensor, data frame or list that could be features."""
    is_list = isinstance(value, list) and bool(value) and not isinstance(value[0], str)
    return is_list or (hasattr(value, "shape") and not hasattr(value, "fit"))


def _checked_mapping(name: str, given: object, form: str) -> Mapping[str, Any]:
    """Return a mapping after checking that it is not empty and has valid names."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            f"{name} must be a non-empty mapping with names as keys, got "
            f"{_brief(given)}; write {form}"
        )
    check_names(given)
    return given


def refuse_new_classes(switcher: object) -> None:
    """Raise ValueError for a switcher that accepts new classes during the stream."""
    if getattr(switcher, "new_classes", "refuse") != "refuse":
        cure = 'pass new_classes="refuse"'
        raise unsupported(ESCAPE, "a comparison of streams", cure)


def check_names(names: Iterable[object]) -> None:
    """Raise TypeError for names other than strings, or ValueError for invalid text."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"Names of datasets and encoders must be strings, got {name!r}; write "
                f"{str(name)!r}"
            )
        if not name.isprintable() and name != name.encode(errors="ignore").decode():
            cure = "rename the dataset or encoder, or its folder or file"
            raise invalid("Names", "text that UTF-8 can encode", name, cure)


def checked_encoders(given: object) -> Mapping[str, BaseEstimator]:
    """Return a mapping from names to transformers, after checking the transformers."""
    form = 'encoders={"raw": None, "pca": PCA(50)}'
    if not isinstance(given, Mapping) and hasattr(given, "fit"):
        form = 'encoders={"name": encoder}'
    elif isinstance(given, nn.Module):
        form = f'encoders={{"name": {_code_for(given)}}}'
    encoders = _checked_mapping("encoders", given, form)
    for name, encoder in encoders.items():
        if keeps_data(encoder):
            continue
        if isinstance(encoder, type) or not hasattr(encoder, "fit"):
            raise TypeError(
                "An encoder must be a transformer, None or 'passthrough', but "
                f"{name!r} is {_brief(encoder)}; {_cure_of(encoder)}"
            )
        refuse_labelled(encoder, repr(name))
    return encoders


def _cure_of(given: object) -> str:
    if isinstance(given, nn.Module):
        return f"write {_code_for(given)}"
    if isinstance(given, str):
        return f"write encoders.TimmEncoder({given!r}) for a model of timm"
    if isinstance(given, type):
        return f"pass an instance, {given.__name__}(...)"
    if _is_array(given):  # only in a race
        return "pass names of encoders, EncoderRace([...]), and features to update"
    return "pass None to use X as it is, or FunctionTransformer(f) for a function f"


def _code_for(module: nn.Module) -> str:
    """Return the code that creates an encoder from a network."""
    config = getattr(module, "pretrained_cfg", None)  # only for models of timm
    if isinstance(config, Mapping) and config.get("architecture"):
        tag = f".{config['tag']}" if config.get("tag") else ""
        return f'encoders.TimmEncoder("{config["architecture"]}{tag}")'
    return "encoders.TorchEncoder(module)"
