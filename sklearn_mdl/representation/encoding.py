"""From data and transformers, or features, to features by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite

from sklearn_mdl.checks import check_class_labels
from sklearn_mdl.guards import refuse_labelled
from sklearn_mdl.representation.failures import Failure
from sklearn_mdl.representation.features import FeatureStore, encode, keeps_data


class Dataset(NamedTuple):
    """A dataset as the encoders show it."""

    features: dict[str, np.ndarray | Failure]  # encoder: (n_samples, width)
    labels: np.ndarray


def gather(
    datasets: Any, encoders: Any, missing: str, cache: FeatureStore | None = None
) -> dict[str, Dataset]:
    """Features of all encoders on all datasets, every dataset with the same encoders.

    Parameters
    ----------
    datasets : mapping
        ``{name: (X, y)}`` with ``encoders``, or ``{name: ({encoder: features}, y)}``.
    encoders : mapping or None
        ``{name: transformer}``.
    missing : {"raise", "drop"}
        What to do with a dataset that lacks an encoder.
    cache : FeatureStore or None
        Where features of transformers are kept.

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
    _check_mappings(datasets, encoders)
    found = {
        name: _gather_one(name, pair, encoders, cache)
        for name, pair in datasets.items()
    }
    names = list(
        dict.fromkeys(e for dataset in found.values() for e in dataset.features)
    )
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
        name: Dataset({e: dataset.features[e] for e in names}, dataset.labels)
        for name, dataset in found.items()
    }


def _check_mappings(datasets: Any, encoders: Any) -> None:
    if not isinstance(datasets, Mapping) or not datasets:
        raise TypeError(
            "datasets must be a non-empty mapping {name: (X, y)} or {name: ({encoder: "
            f"features}}, y)}}, got {type(datasets).__name__}; give each dataset a name"
        )
    if encoders is not None and (not isinstance(encoders, Mapping) or not encoders):
        raise TypeError(
            "encoders must be a non-empty mapping {name: transformer} or None, got "
            f"{type(encoders).__name__}; give each encoder a name"
        )
    _check_names(datasets)
    _check_names(encoders or {})
    for name, encoder in (encoders or {}).items():
        if keeps_data(encoder):
            continue
        if isinstance(encoder, type) or not hasattr(encoder, "fit"):
            raise TypeError(
                "An encoder must be a transformer, None or 'passthrough', but "
                f"{name!r} is {encoder!r}; pass an instance with fit and transform"
            )
        refuse_labelled(encoder, repr(name))


def _check_names(names: Iterable[Any]) -> None:
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise TypeError(
            f"Names of datasets and encoders must be strings, got {strange[0]!r}; "
            f"write {str(strange[0])!r}"
        )


def _gather_one(
    name: str, pair: Any, encoders: Any, cache: FeatureStore | None
) -> Dataset:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"A dataset must be a pair (X, y) or ({{encoder: features}}, y), but "
            f"{name!r} is {type(pair).__name__}; pass features and labels together"
        )
    data, labels = pair
    given = isinstance(data, Mapping)
    if given == (encoders is not None):
        came = "precomputed features" if given else "data"
        wanted = "encoders=None" if given else "a mapping of encoders"
        raise ValueError(
            f"Precomputed features go with encoders=None and data with encoders; "
            f"dataset {name!r} holds {came}, so pass {wanted}"
        )
    labels = np.asarray(labels)
    check_labels(labels, f"dataset {name!r}")
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"Every dataset needs labels of at least two classes, but {name!r} has "
            f"{len(np.unique(labels))}; leave it out"
        )
    if given:
        _check_names(data)
        found = {e: np.asarray(X) for e, X in data.items()}
        for encoder, X in found.items():
            check_features(X, labels, _title(name, encoder))
        return Dataset({**found}, labels)
    return Dataset(
        {e: _encoded((name, e), t, data, labels, cache) for e, t in encoders.items()},
        labels,
    )


def _encoded(
    names: tuple[str, str],
    encoder: Any,
    data: Any,
    labels: np.ndarray,
    cache: FeatureStore | None,
) -> np.ndarray | Failure:
    """Run an encoder, or take what it left; what fails does not stop the others."""

    def make() -> np.ndarray:
        features = encode(encoder, data)
        check_features(features, labels, _title(*names))
        return features

    path = None
    if cache is not None and not keeps_data(encoder):
        path = cache.place_of(names, encoder, data)
    try:
        return make() if cache is None or path is None else cache.get(path, make)
    except Exception as error:
        return Failure.of(error, *names)


def _title(dataset: str, encoder: str) -> str:
    return f"encoder {encoder!r} on dataset {dataset!r}"


def check_labels(labels: np.ndarray, name: str) -> None:
    """Raise ValueError unless labels are classes, one for each row."""
    if labels.ndim != 1:
        raise ValueError(
            f"Labels must be of shape (n_samples,), but {name} holds them in shape "
            f"{labels.shape}; give one label a row"
        )
    is_real = labels.dtype.kind == "f"
    if is_real and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise ValueError(
            f"Labels must be classes, but {name} holds {labels[row]} in row {row}; "
            "leave out such rows"
        )
    try:
        check_class_labels(labels)
    except (TypeError, ValueError) as error:  # some cannot even be compared
        if is_real:
            raise ValueError(
                f"Labels must be classes here, but {name} holds continuous ones; fit "
                "an MDLReadoutSwitcherRegressor on the features of each encoder and "
                "compare codelength_, or cut the labels into classes"
            ) from error
        reason = " ".join(str(error).split())
        raise ValueError(
            f"Labels must be classes, but {name} holds others ({reason}); store "
            "numbers alone or text alone"
        ) from error


def check_features(X: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise ValueError unless X is a finite table with a row for every label."""
    if np.ndim(X) != 2 or len(X) != len(labels):
        # numpy wraps what it cannot take apart, a sparse matrix for one, whole.
        came = f"shape {np.shape(X)}" if np.ndim(X) else type(X.item()).__name__
        raise ValueError(
            "Features must be dense, of shape (n_samples, n_features) with one label a "
            f"row, but {name} gives {came} for {len(labels)} labels; mend the files or "
            "arrays"
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
    warnings.warn(
        f"Dropped datasets without all encoders: {text}", UserWarning, stacklevel=6
    )
