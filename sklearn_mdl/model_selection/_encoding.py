"""Features of every encoder on every dataset, cached on disk if requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from traceback import format_exception, format_exception_only
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.numerics import as_array, dense
from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.validation import (
    as_labels,
    check_class_labels,
    check_order,
    damaged,
    distinct_classes,
    invalid,
    may_be_real,
    named_groups,
    non_finite,
    warn_caller,
)
from sklearn_mdl.encoders import (
    CachedEncoder,
    FeatureCache,
    ViewEncoder,
    encode,
    keeps_data,
)
from sklearn_mdl.model_selection._given import (
    check_names,
    checked_datasets,
    checked_encoders,
    refuse_arrays,
)

LONGEST = 300  # maximum number of characters of an error message


class Failure(NamedTuple):
    """The failure of a cell, or of an encoder on a dataset.

    Attributes
    ----------
    dataset, encoder : str
    order : int or None
        None if the encoder itself failed, which affects all orders.
    error : str
        The exception, in one line.
    details : str
        The traceback, or "" if the process died.
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
        """Create a failure from an exception and its notes."""
        lines = [line for line in format_exception_only(error) if line[:1].strip()]
        text = " ".join("; ".join(map(str.strip, lines)).split())  # no lines of source
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]} ..."
        return cls(dataset, encoder, order, text, "".join(format_exception(error)))

    def __str__(self) -> str:
        """Return one line that names the encoder, any dataset and the error."""
        order = "" if self.order is None else f", order {self.order}"
        where = f" on {self.dataset!r}{order}" if self.dataset else order
        return f"{self.encoder!r}{where} ({self.error})"


def listed(failures: Sequence[Failure], n_shown: int = 5) -> str:
    """Return text with the first failures and the number of all others."""
    text = "; ".join(map(str, failures[:n_shown]))
    more = len(failures) - n_shown
    return f"{text}; and {more} more" if more > 0 else text


class Dataset(NamedTuple):
    """Labels and groups of a dataset, and its features from each encoder."""

    features: dict[str, np.ndarray | Failure]  # keyed by encoder
    labels: np.ndarray
    groups: np.ndarray | None = None
    is_real: bool = False  # whether labels are real numbers rather than classes


def gather(
    datasets: object,
    encoders: object,
    missing: str,
    cache: FeatureCache | None = None,
    *,
    grouped: bool = False,
    targets: str = "classes",
    verbose: int = 0,
) -> dict[str, Dataset]:
    """Return the features of every encoder on every dataset.

    Parameters
    ----------
    datasets : mapping
        ``{name: (X, y)}`` with ``encoders``, or ``{name: ({encoder: features}, y)}``.
    encoders : mapping or None
        ``{name: transformer}``.
    missing : {"raise", "drop"}
        What to do with datasets for which an encoder has no features.
    cache : FeatureCache or None
        Cache for the features of transformers.
    grouped : bool
        Whether a dataset may have a third part, which gives the group of each row.
    targets : {"classes", "real", "auto"}
        Kind of labels. "auto" treats floats as real numbers unless all are whole, and
        raises for whole floats with many distinct values.
    verbose : int
        If above 0, show progress bars over the rows that network encoders encode.

    Returns
    -------
    gathered : dict of str to Dataset
        If an encoder fails on a dataset, a `Failure` replaces its features.

    Raises
    ------
    ValueError
        If there is nothing to rank, or if labels or groups are invalid. With
        ``missing="raise"``, also if precomputed features are missing or invalid.
    TypeError
        If the arguments are not mappings of these forms.
    """
    refuse_arrays(datasets, encoders)
    checked = checked_datasets(datasets, grouped=grouped)
    transformers = None if encoders is None else checked_encoders(encoders)
    if transformers and verbose > 0:
        transformers = {e: _verbose(t) for e, t in transformers.items()}
    gathered = {
        name: _gather_one(name, parts, transformers, cache, missing, targets)
        for name, parts in checked.items()
    }
    names = list(dict.fromkeys(chain(*(own.features for own in gathered.values()))))
    gaps = {
        name: [e for e in names if e not in dataset.features]
        for name, dataset in gathered.items()
        if len(dataset.features) < len(names)
    }
    if gaps:
        _report_gaps(gaps, missing)
        gathered = {name: own for name, own in gathered.items() if name not in gaps}
    if not names:
        raise invalid("A mapping of encoders", "non-empty", {}, "pass {'raw': X}")
    if not gathered:
        raise ValueError(
            f"Ranking needs at least one dataset with all encoders {names}, got none; "
            "add the features that the warning lists"
        )
    return {
        name: dataset._replace(features={e: dataset.features[e] for e in names})
        for name, dataset in gathered.items()
    }


def _verbose(encoder: BaseEstimator) -> BaseEstimator:
    """Return a copy of a network encoder that shows a progress bar.

    Return any other encoder unchanged.
    """
    if isinstance(encoder, CachedEncoder):
        return clone(encoder).set_params(encoder__verbose=1)
    is_ours = isinstance(encoder, ViewEncoder)
    return clone(encoder).set_params(verbose=1) if is_ours else encoder


def _gather_one(
    name: str,
    parts: tuple[object, ArrayLike] | tuple[object, ArrayLike, ArrayLike],
    encoders: Mapping[str, BaseEstimator] | None,
    cache: FeatureCache | None,
    missing: str,
    targets: str,
) -> Dataset:
    data, called = parts[0], f"Dataset {name!r}"
    labels = np.asarray(as_labels(as_array(parts[1]), called))
    given = isinstance(data, Mapping)
    if given == (encoders is not None):
        text = 'needs encoders, got none; for example, pass encoders={"raw": None}'
        if given:
            text = "already holds features, but encoders are given; pass encoders=None"
        raise ValueError(f"Dataset {name!r} {text}")
    by_name = data if isinstance(data, Mapping) else {name: data}
    for rows in (*by_name.values(), *parts[2:]):
        check_order(rows, parts[1], called)
    is_real = checked_targets(labels, f"dataset {name!r}", targets)
    if not is_real:
        distinct_classes(labels, called)
    elif len(labels) and np.allclose(labels, np.float64(labels[0]), 1e-12, 0):
        cure = f"correct dataset {name!r} or leave it out"
        raise invalid("Labels", "of two or more values", labels[:1].tolist(), cure)
    title = f"groups of dataset {name!r}"
    groups = None if len(parts) == 2 else named_groups(parts[2], title)
    if groups is not None and groups.shape != labels.shape:
        required = f"of shape {labels.shape}"
        raise invalid(title, required, groups.shape, "pass one group for each row")
    if isinstance(data, Mapping):
        check_names(data)
        features = {e: _given((name, e), X, labels, missing) for e, X in data.items()}
    else:
        features = {
            e: _encoded((name, e), t, data, labels, cache)
            for e, t in (encoders or {}).items()
        }
    return Dataset(features, labels, groups, is_real)


def _given(
    names: tuple[str, str], X: Any, labels: np.ndarray, missing: str
) -> np.ndarray | Failure:
    """Return precomputed features, or a `Failure` if they are invalid.

    With ``missing="raise"``, raise ValueError instead.
    """
    if isinstance(X, Failure):
        return X
    try:
        features = np.asarray(dense(as_array(X)))
        check_features(features, labels, _title(*names))
    except ValueError as error:
        if missing == "raise":
            raise
        return Failure.of(error, *names)
    return features


def _encoded(
    names: tuple[str, str],
    encoder: BaseEstimator,
    data: object,
    labels: np.ndarray,
    cache: FeatureCache | None,
) -> np.ndarray | Failure:
    """Return an encoder's features of a dataset, or a `Failure` if encoding fails."""
    check = partial(check_features, labels=labels, name=_title(*names))
    try:
        # A cached encoder has its own folder.
        if cache is None or keeps_data(encoder) or isinstance(encoder, CachedEncoder):
            features = encode(encoder, data)
            check(features)
            return features if keeps_data(encoder) else owned(features)
        if isinstance(encoder, ViewEncoder):
            encoder = clone(encoder)  # fitting must not change the caller's encoder
        return cache.features(encoder, data, name=names, check=check)
    except Exception as error:
        return Failure.of(error, *names)


def owned(features: np.ndarray) -> np.ndarray:
    """Return a copy of features, since the encoder may reuse its output buffer.

    Memory-mapped features are not copied, since they may be too large.
    """
    return features if is_mapped(features) else features.copy()


def _title(dataset: str, encoder: str) -> str:
    return f"encoder {encoder!r} on dataset {dataset!r}"


def checked_targets(labels: np.ndarray, name: str, targets: str) -> bool:
    """Return True if labels are real numbers and False if they are classes.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
    name : str
        Name of the labels in errors.
    targets : {"classes", "real", "auto"}

    Raises
    ------
    ValueError
        If labels are invalid for `targets`. With "auto", also if they are whole floats
        with so many distinct values that they may be real numbers.
    """
    is_float = labels.dtype.kind == "f"
    finite = np.isfinite(labels) if is_float else np.ones(labels.shape, bool)
    whole = not is_float or bool((labels[finite] == np.rint(labels[finite])).all())
    is_real = targets == "real" or (targets == "auto" and not whole)
    if targets == "auto" and labels.ndim == 1 and finite.all() and may_be_real(labels):
        fault = f"{len(np.unique(labels))} different whole numbers as floats fit both"
        cure = 'pass targets="real" or targets="classes"'
        cure += " (on the command line, --targets real or --targets classes)"
        raise damaged(name, "either classes or real numbers", fault, cure)
    if labels.ndim != 1 or (is_real and labels.dtype.kind not in "fiu"):
        kind = "real numbers" if is_real else "classes"
        cure = "pass one column, such as np.asarray(y)[:, 0]"
        if labels.ndim == 1:
            cure = "pass y.astype(float), or MDLReadoutSwitcher() (--targets classes)"
        fault = f"{name} holds {labels.dtype} in shape {labels.shape}; {cure}"
        raise ValueError(f"Labels must be {kind} of shape (n_samples,), but {fault}")
    if not finite.all():
        row, cure = np.argmin(finite), "pass X[np.isfinite(y)] and y[np.isfinite(y)]"
        fault = f"{name} holds {labels[row]} in row {row}"
        raise ValueError(f"Labels must be finite, but {fault}; {cure}")
    if not is_real:
        check_class_labels(labels, name)
    return is_real


def check_features(X: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise ValueError unless X is a finite 2-D array with a row for every label."""
    if np.ndim(X) != 2 or len(X) != len(labels):
        # NumPy wraps other objects, such as sparse matrices, in an array without axes.
        given = f"shape {np.shape(X)}" if np.ndim(X) else type(X.item()).__name__
        raise ValueError(
            "Features must be dense, of shape (n_samples, n_features), but "
            f"{name} gives {given} for {len(labels)} labels; pass a row for each label "
            "(images: X.reshape(len(X), -1); tokens: X.mean(1); sparse X: X.toarray())"
        )
    if fault := non_finite(X):
        raise ValueError(
            f"Features must be finite, but {name} gives {fault}; drop such rows from X "
            "and y, or for NaN apply SimpleImputer() (after an encoder: in a Pipeline)"
        )


def _report_gaps(gaps: dict[str, list[str]], missing: str) -> None:
    text = ", ".join(f"{name!r} lacks {lacking}" for name, lacking in gaps.items())
    if missing == "raise":
        cure = "add these features, or leave these datasets out with missing='drop'"
        raise damaged("Every dataset", "features from every encoder", text, cure)
    warn_caller(f"Dropped datasets without features from every encoder: {text}")
