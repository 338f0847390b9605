"""From encoders and data to split features, the same split for every encoder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl._sklearn import num_samples
from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_class_labels
from sklearn_mdl.guards import refuse_labelled
from sklearn_mdl.protocols.controls import cluster_types
from sklearn_mdl.protocols.references import RandomEncoder
from sklearn_mdl.representation.encoding import check_features
from sklearn_mdl.representation.features import encode, keeps_data

Array = NDArray[Any]

REFERENCES = {"random": "(random encoder)", "shuffled": "(shuffled labels)"}
TYPES_PER_CLASS = 10  # clusters of a control task
ROWS_PER_TYPE = 10


class Encoded(NamedTuple):
    """Features of one encoder.

    Attributes
    ----------
    X : ndarray of shape (n_samples, width), or None
    seconds : float
        Spent on them here; 0 if they were given.
    reason : str
        Why there are none.
    """

    X: Array | None
    seconds: float = 0.0
    reason: str = ""


class Dataset(NamedTuple):
    """One dataset as all encoders show it.

    Attributes
    ----------
    name : str
    features : dict of str to Encoded
        References stand last.
    y : ndarray of shape (n_samples,)
    types : ndarray of shape (n_samples,) or None
    order : ndarray of shape (n_samples,)
        A permutation, whose first ``n_train`` rows are learned.
    n_train : int
    """

    name: str
    features: dict[str, Encoded]
    y: Array
    types: Array | None
    order: Array
    n_train: int

    @property
    def n_classes(self) -> int:
        """Classes among the rows learned."""
        return len(np.unique(self.y[self.order[: self.n_train]]))

    @property
    def entropy(self) -> float:
        """Of the label frequencies among the rows learned, in nats."""
        labels = self.y[self.order[: self.n_train]]
        shares = np.unique(labels, return_counts=True)[1] / self.n_train
        return -float(shares @ np.log(shares))

    def split(self, values: Array) -> tuple[Array, Array]:
        """Return the train and the test rows of an array."""
        return values[self.order[: self.n_train]], values[self.order[self.n_train :]]


class Split(NamedTuple):
    """How a dataset is split, and what is set beside its encoders."""

    test_size: float
    references: Sequence[str]
    seed: int


def gather_dataset(
    name: str, encoders: Any, X: Any, y: Any, types: Any, split: Split
) -> Dataset:
    """Run encoders over one dataset, and split it.

    Parameters
    ----------
    name : str
    encoders : mapping of str to transformer, array or None
        Arrays are features.
    X : array-like or None
        Data before any encoder; None if all encoders are arrays.
    y : array-like of shape (n_samples,)
    types : array-like of shape (n_samples,) or None
        None takes clusters of X, if X are numbers.
    split : Split

    Raises
    ------
    ValueError, TypeError
        If names, lengths or labels are not as they should be, if there is nothing to
        encode, or if an encoder requires labels. What an encoder itself raises is kept
        as a reason.
    """
    _check_encoders(encoders, X)
    y = np.asarray(as_array(y))
    check_class_labels(y)
    called = f"dataset {name!r}" if name else "the data"
    if X is not None and num_samples(X) != len(y):
        raise ValueError(
            f"Every row needs one label, but {called} has {num_samples(X)} rows and "
            f"{len(y)} labels; pass X and y of one length"
        )
    rng = np.random.default_rng(split.seed)
    order = rng.permutation(len(y))
    n_train = len(y) - int(np.ceil(split.test_size * len(y)))
    n_classes = len(np.unique(y[order[: max(0, n_train)]]))
    if n_classes < 2:
        raise ValueError(
            f"At least two classes must be among the rows learned, but {called} has "
            f"{n_classes} among {n_train}; pass more rows or a smaller test_size"
        )
    features = {title: _encoded(title, e, X, y) for title, e in encoders.items()}
    if types is not None:
        types = np.asarray(types)
        if types.shape != y.shape:
            raise ValueError(
                f"types must have shape {y.shape}, one for each label of {called}, got "
                f"{types.shape}; say of what kind each row is"
            )
    dataset = Dataset(name, features, y, types, order, n_train)
    for reference in split.references:
        features[REFERENCES[reference]] = _reference(reference, dataset, X, split.seed)
    return dataset


def with_clusters(dataset: Dataset, X: Any, seed: int) -> Dataset:
    """Give a dataset types for control tasks, if its data are numbers."""
    raw = _numbers(X) if dataset.types is None else None
    if raw is None:
        return dataset
    n_types = min(TYPES_PER_CLASS * dataset.n_classes, len(raw) // ROWS_PER_TYPE)
    types = cluster_types(raw, max(2, n_types), random_state=seed)
    return dataset._replace(types=types)


def _check_encoders(encoders: Any, X: Any) -> None:
    if not isinstance(encoders, Mapping) or not encoders:
        raise TypeError(
            "encoders must be a non-empty mapping {name: transformer or features}, got "
            f"{type(encoders).__name__}; give each encoder a name"
        )
    for name, encoder in encoders.items():
        if not isinstance(name, str) or name in REFERENCES.values():
            raise TypeError(
                "Names of encoders must be strings that no reference has, got "
                f"{name!r}; choose another"
            )
        if _is_features(encoder):
            continue
        if X is None:
            raise ValueError(
                f"X must hold the data that encoder {name!r} is to encode, got None; "
                "pass X, or features in place of encoders"
            )
        if not keeps_data(encoder) and (
            isinstance(encoder, type) or not hasattr(encoder, "fit")
        ):
            raise TypeError(
                "An encoder must be a transformer, an array of features, None or "
                f"'passthrough', but {name!r} is {encoder!r}; pass an instance"
            )
        refuse_labelled(encoder, repr(name))


def _is_features(encoder: Any) -> bool:
    return hasattr(encoder, "shape") and not hasattr(encoder, "fit")


def _encoded(name: str, encoder: Any, X: Any, y: Array) -> Encoded:
    """Return features, checked where they were given; an encoder may fail."""
    if _is_features(encoder):
        found = np.asarray(as_array(encoder))
        check_features(found, y, f"encoder {name!r}")
        return Encoded(found)
    started = time.perf_counter()
    try:
        found = encode(encoder, as_array(X))
        check_features(found, y, f"encoder {name!r}")
    except Exception as error:
        seconds = time.perf_counter() - started
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Encoded(None, seconds, reason)
    return Encoded(found, time.perf_counter() - started)


def _numbers(X: Any) -> Array | None:
    """Return data as a table of finite numbers, or None where they are none."""
    if X is None:
        return None
    try:
        table = np.asarray(as_array(X), dtype=np.float64)
    except (TypeError, ValueError):  # paths, texts, data frames with words
        return None
    if table.ndim < 2 or not np.isfinite(table).all():
        return None
    return table.reshape(len(table), -1)


def _reference(reference: str, dataset: Dataset, X: Any, seed: int) -> Encoded:
    usable = [e.X for e in dataset.features.values() if e.X is not None]
    if not usable:
        return Encoded(None, reason="no encoder has features")
    if reference == "shuffled":  # rows that have lost their labels
        places = np.random.default_rng(seed).permutation(len(dataset.y))
        return Encoded(usable[0][places])
    raw = _numbers(X)
    if raw is None:
        return Encoded(None, reason="a random encoder needs X as finite numbers")
    started = time.perf_counter()
    width = max(X.shape[1] for X in usable)
    found = RandomEncoder(width, random_state=seed).fit_transform(raw)
    return Encoded(found, time.perf_counter() - started)
