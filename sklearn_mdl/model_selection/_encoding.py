"""Datasets and their features by encoder, kept on disk where asked."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import assert_all_finite
from torch import Tensor

from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.validation import (
    as_labels,
    check_class_labels,
    distinct_classes,
    invalid,
    refuse_labelled,
    warn_caller,
)
from sklearn_mdl.datasets import load_representations
from sklearn_mdl.encoders import (
    BlockEncoder,
    CachedEncoder,
    FeatureCache,
    encode,
    keeps_data,
)

LONGEST = 300  # characters of a message that are shown


class Failure(NamedTuple):
    """A cell, or an encoder on a dataset, that failed.

    Attributes
    ----------
    dataset, encoder : str
    order : int or None
        None if the encoder failed, and so all orders.
    error : str
        The exception, in one line.
    details : str
        The traceback.
    """

    dataset: str
    encoder: str
    order: int | None
    error: str
    details: str

    @classmethod
    def of(
        cls, error: BaseException, dataset: str, encoder: str, order: int | None = None
    ) -> Self:
        """Write down an exception."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]} ..."
        details = "".join(traceback.format_exception(error))
        return cls(dataset, encoder, order, text, details)

    def __str__(self) -> str:
        """Name the cell and the error."""
        order = "" if self.order is None else f", order {self.order}"
        return f"{self.encoder!r} on {self.dataset!r}{order} ({self.error})"


def listed(failures: Sequence[Failure], n_shown: int = 5) -> str:
    """Name the first failures, and how many more there are."""
    text = "; ".join(map(str, failures[:n_shown]))
    more = len(failures) - n_shown
    return f"{text}; and {more} more" if more > 0 else text


class Dataset(NamedTuple):
    """Labels and groups of a dataset, and its features by encoder."""

    features: dict[str, np.ndarray | Failure]  # encoder: (n_samples, width)
    labels: np.ndarray
    groups: np.ndarray | None = None
    is_real: bool = False  # or labels are classes


def gather(
    datasets: object,
    encoders: object,
    missing: str,
    cache: FeatureCache | None = None,
    *,
    grouped: bool = False,
    targets: str = "classes",
) -> dict[str, Dataset]:
    """Features of all encoders on all datasets, every dataset with the same encoders.

    Parameters
    ----------
    datasets : mapping
        ``{name: (X, y)}`` with ``encoders``, or ``{name: ({encoder: features}, y)}``.
    encoders : mapping or None
        ``{name: transformer}``.
    missing : {"raise", "drop"}
        Refuse a dataset that lacks an encoder, or leave it out.
    cache : FeatureCache or None
        Keeps the features of transformers.
    grouped : bool
        Datasets may have a third part, the groups of their rows.
    targets : {"classes", "real", "auto"}
        What labels are; "auto" takes floats for real numbers that are not all whole.

    Returns
    -------
    found : dict of str to Dataset
        An encoder that fails on a dataset leaves a failure in the place of features.

    Raises
    ------
    ValueError
        If there is nothing to rank, if lengths differ, or if an encoder is missing.
    TypeError
        If the arguments are not mappings of that form.
    """
    transformers = None if encoders is None else _checked_encoders(encoders)
    found = {
        name: _gather_one(name, parts, transformers, cache, targets)
        for name, parts in checked_datasets(datasets, grouped=grouped).items()
    }
    names = list(dict.fromkeys(chain(*(own.features for own in found.values()))))
    gaps = {
        name: [e for e in names if e not in dataset.features]
        for name, dataset in found.items()
        if len(dataset.features) < len(names)
    }
    if gaps:
        _report_gaps(gaps, missing)
        found = {name: dataset for name, dataset in found.items() if name not in gaps}
    if not found or not names:
        raise ValueError(
            f"Ranking needs at least one dataset with all encoders {names}, got none; "
            "complete the features"
        )
    return {
        name: dataset._replace(features={e: dataset.features[e] for e in names})
        for name, dataset in found.items()
    }


def opened(datasets: object) -> object:
    """Replace AnnData, alone or with the name of a column, by its arrays and labels."""
    if hasattr(datasets, "obsm"):
        return load_representations(datasets).datasets
    if not isinstance(datasets, Mapping):
        return datasets
    return {name: _opened_pair(pair) for name, pair in datasets.items()}


def _opened_pair(pair: object) -> object:
    match pair:
        case (data, str(column)) if hasattr(data, "obsm"):
            (found,) = load_representations(data, label=column).datasets.values()
            return found
    return pair


def checked_datasets(
    datasets: object, *, grouped: bool = False
) -> Mapping[str, tuple[object, ArrayLike]]:
    """Return datasets that are pairs by name, or raise TypeError.

    With ``grouped`` they may have a third part, the groups of their rows.
    """
    form = "{name: (X, y)} or {name: ({encoder: features}, y)}"
    checked = _checked_mapping("datasets", opened(datasets), form)
    for name, parts in checked.items():
        n_parts = len(parts) if isinstance(parts, (tuple, list)) else 0
        if n_parts == 3 and not grouped:
            raise TypeError(
                "A dataset must be a pair (X, y) where rows are held out, but "
                f"{name!r} has groups, which would leak; use a RepresentationScorer"
            )
        if n_parts not in (2, 3):
            raise TypeError(
                "A dataset must be a pair (X, y) or ({encoder: features}, y), but "
                f"{name!r} is {type(parts).__name__}; pass features and labels together"
            )
    return checked


def _checked_mapping(name: str, given: object, form: str) -> Mapping[str, Any]:
    """Return a mapping with names that can be written down, or raise TypeError."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            f"{name} must be a non-empty mapping {form}, got {type(given).__name__}; "
            "give each of them a name"
        )
    _check_names(given)
    return given


def _checked_encoders(given: object) -> Mapping[str, BaseEstimator]:
    encoders = _checked_mapping("encoders", given, "{name: transformer} or None")
    for name, encoder in encoders.items():
        if keeps_data(encoder):
            continue
        if isinstance(encoder, type) or not hasattr(encoder, "fit"):
            raise TypeError(
                "An encoder must be a transformer, None or 'passthrough', but "
                f"{name!r} is {encoder!r}; pass an instance with fit and transform"
            )
        refuse_labelled(encoder, repr(name))
    return encoders


def _check_names(names: Iterable[object]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"Names of datasets and encoders must be strings, got {name!r}; write "
                f"{str(name)!r}"
            )
        if not name.isprintable() and name != name.encode(errors="ignore").decode():
            cure = "rename the folder or file"
            raise invalid("Names", "text that UTF-8 can write", name, cure)


def _gather_one(
    name: str,
    parts: tuple[object, ArrayLike] | tuple[object, ArrayLike, ArrayLike],
    encoders: Mapping[str, BaseEstimator] | None,
    cache: FeatureCache | None,
    targets: str,
) -> Dataset:
    data, labels = parts[0], np.asarray(as_labels(parts[1]))
    given = isinstance(data, Mapping)
    if given == (encoders is not None):
        kind = "precomputed features" if given else "data"
        wanted = "encoders=None" if given else "a mapping of encoders"
        raise ValueError(
            "Precomputed features need encoders=None and data need encoders, but "
            f"dataset {name!r} holds {kind}; pass {wanted}"
        )
    is_real = checked_targets(labels, f"dataset {name!r}", targets)
    if not is_real:
        distinct_classes(labels, f"Dataset {name!r}")
    groups = None if len(parts) == 2 else np.asarray(parts[2])
    if groups is not None and groups.shape != labels.shape:
        cure = "name a group for each row"
        title = f"groups of dataset {name!r}"
        raise invalid(title, f"of shape {labels.shape}", groups.shape, cure)
    if isinstance(data, Mapping):
        _check_names(data)
        found = {e: np.asarray(X) for e, X in data.items()}
        for encoder, X in found.items():
            check_features(X, labels, _title(name, encoder))
        return Dataset({**found}, labels, groups, is_real)
    transformers = (encoders or {}).items()
    encoded = {e: _encoded((name, e), t, data, labels, cache) for e, t in transformers}
    return Dataset(encoded, labels, groups, is_real)


def _encoded(
    names: tuple[str, str],
    encoder: BaseEstimator,
    data: object,
    labels: np.ndarray,
    cache: FeatureCache | None,
) -> np.ndarray | Failure:
    """Return the features of an encoder, or its failure, which stops no other."""
    check = partial(check_features, labels=labels, name=_title(*names))
    given = data if keeps_data(encoder) else protected(data)
    try:
        # A cached encoder has a folder of its own.
        if cache is None or keeps_data(encoder) or isinstance(encoder, CachedEncoder):
            features = encode(encoder, given)
            check(features)
            return features if keeps_data(encoder) else _owned(features)
        if isinstance(encoder, BlockEncoder):
            encoder = clone(encoder)  # it is fitted
        return cache.features(encoder, given, name=names, check=check)
    except Exception as error:
        return Failure.of(error, *names)


def protected(data: object) -> object:
    """Return data that encoders cannot change in place.

    Arrays, alone or in a list, become views that cannot be written to; frames and
    tensors, which have no such views, are copied.
    """
    if isinstance(data, np.ndarray):
        view = data.view()
        view.flags.writeable = False
        return view
    if isinstance(data, list | tuple) and any(isinstance(x, np.ndarray) for x in data):
        return type(data)([protected(item) for item in data])
    if hasattr(data, "iloc") or issparse(data):
        return cast(Any, data).copy()
    return data.clone() if isinstance(data, Tensor) else data


def _owned(features: np.ndarray) -> np.ndarray:
    """Copy features that their encoder could overwrite: it may keep one buffer.

    Those on disk are left there, and views of the data are no encoder's to change.
    """
    if is_mapped(features) or not features.flags.writeable:
        return features
    return features.copy()


def _title(dataset: str, encoder: str) -> str:
    return f"encoder {encoder!r} on dataset {dataset!r}"


def checked_targets(labels: np.ndarray, name: str, targets: str) -> bool:
    """Return True for real numbers, False for classes.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
    name : str
    targets : {"classes", "real", "auto"}

    Raises
    ------
    ValueError
        If they are no classes, or no finite real numbers.
    """
    is_float = labels.dtype.kind == "f"
    finite = np.isfinite(labels) if is_float else np.ones(labels.shape, bool)
    whole = not is_float or bool((labels[finite] == np.rint(labels[finite])).all())
    is_real = targets == "real" or (targets == "auto" and not whole)
    if labels.ndim != 1 or (is_real and labels.dtype.kind not in "fiu"):
        kind, cure = "classes", "give one label a row"
        if is_real:
            kind, cure = "real numbers", f"{cure}, or pass a switcher of classes"
        raise ValueError(
            f"Labels must be {kind} of shape (n_samples,), but {name} holds "
            f"{labels.dtype} in shape {labels.shape}; {cure}"
        )
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"Labels must be finite, but {name} holds {labels[row]} in row {row}; "
            "leave out such rows"
        )
    if not is_real:
        _check_classes(labels, name)
    return is_real


def _check_classes(labels: np.ndarray, name: str) -> None:
    try:
        check_class_labels(labels)
    except (TypeError, ValueError) as error:  # some cannot even be compared
        kind = f"others ({' '.join(str(error).split())}); store only numbers or text"
        if labels.dtype.kind == "f":
            kind = "continuous ones; pass an MDLReadoutSwitcherRegressor, or bin them"
        raise ValueError(f"Labels must be classes, but {name} holds {kind}") from error


def check_features(X: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise ValueError unless X is a finite table with a row for every label."""
    if np.ndim(X) != 2 or len(X) != len(labels):
        # numpy wraps other objects, such as a sparse matrix, in an array without axes.
        found = f"shape {np.shape(X)}" if np.ndim(X) else type(X.item()).__name__
        raise ValueError(
            "Features must be dense, of shape (n_samples, n_features), but "
            f"{name} gives {found} for {len(labels)} labels; give a row for each label"
        )
    try:
        assert_all_finite(X)
    except ValueError as error:
        raise ValueError(
            f"Features must be finite, but {name} gives NaN or infinity; impute them "
            "or leave out those rows"
        ) from error


def _report_gaps(gaps: dict[str, list[str]], missing: str) -> None:
    text = "; ".join(f"{name!r} lacks {lacking}" for name, lacking in gaps.items())
    if missing == "raise":
        raise ValueError(
            f"Every dataset must hold every encoder, since ranks over unequal sets "
            f"mean nothing, but {text}; complete the features or pass missing='drop'"
        )
    warn_caller(f"Dropped datasets without all encoders: {text}")
