"""Comparison of encoders by several protocols."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.sklearn_compat import Interval, num_samples, validate_params
from sklearn_mdl._core.validation import as_labels, invalid
from sklearn_mdl.baselines._base import Array, Seed
from sklearn_mdl.baselines._comparison import ProtocolComparison
from sklearn_mdl.baselines._control_tasks import RandomEncoder, cluster_types
from sklearn_mdl.baselines._protocols import (
    ACCURACY,
    PROTOCOLS,
    Measured,
    Measurement,
    Protocol,
    Split,
    list_estimators,
    measure,
)
from sklearn_mdl.encoders import FeatureCache
from sklearn_mdl.model_selection import (
    Failure,
    checked_datasets,
    gather,
    on_equal_terms,
    run_side_by_side,
)
from sklearn_mdl.switcher import MDLReadoutSwitcher

Served = tuple[tuple[str, ...], BaseEstimator | None]
Datasets = Mapping[str, tuple[object, ArrayLike]]

GOOD_ENOUGH = 0.5  # target loss relative to the entropy of the train labels
REFERENCES = {"random": "(random encoder)", "shuffled": "(shuffled features)"}
TYPES_PER_CLASS = 10  # largest number of clusters per class in a control task
ROWS_PER_TYPE = 10  # smallest mean number of rows per cluster, from 20 rows on


class Encoded(NamedTuple):
    """Features of an encoder, or the reason for having none, and encoding time."""

    X: Array | None
    reason: str = ""
    seconds: float = 0.0


Gathered = tuple[object, Array, dict[str, Encoded]]  # rows, labels, features


class Study(NamedTuple):
    """One dataset with its split and the features of all encoders.

    Attributes
    ----------
    name : str
    data : array-like or None
        Rows before encoding, or None if all features were given.
    features : dict of str to Encoded
        Features keyed by encoder, with the references last.
    n_classes : int
        Number of classes among the train rows.
    split : Split
    """

    name: str
    data: object
    features: dict[str, Encoded]
    n_classes: int
    split: Split


@validate_params(
    {
        "protocols": [list, tuple, Mapping, None],
        "references": [list, tuple],
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
        "results": [str, PathLike, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
)
def compare_protocols(  # noqa: PLR0913, named options of one public call
    encoders: Mapping[str, object] | None,
    X: ArrayLike | Mapping[str, tuple[object, ArrayLike]] | None,
    y: ArrayLike | None = None,
    *,
    protocols: Sequence[str] | Mapping[str, BaseEstimator | None] | None = None,
    types: ArrayLike | Mapping[str, ArrayLike] | None = None,
    references: Sequence[str] = (),
    test_size: float = 0.2,
    epsilon: float | None = None,
    results: str | PathLike[str] | None = None,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> ProtocolComparison:
    """Measure encoders by several protocols on the same rows.

    Rows are permuted once and split. All protocols use the same train rows, and
    accuracies are measured on the test rows. Encoders are fitted on all rows without
    labels, as in :class:`~sklearn_mdl.RepresentationScorer`.

    Parameters
    ----------
    encoders : mapping of str to transformer or array
        Arrays of shape (n_samples, width) are features. A value of None or
        "passthrough" stands for X itself. If X maps datasets to features, pass
        ``encoders=None``.
    X : array-like of shape (n_samples, ...), mapping, or None
        Rows to encode, or None if all encoders are arrays. For several datasets pass
        ``{name: (X, y)}``, or ``{name: ({encoder: features}, y)}`` with
        ``encoders=None``.
    y : array-like of shape (n_samples,), default=None
        Labels. Pass None if X is a mapping.
    protocols : sequence of str or mapping of str to estimator, default=None
        If None, use all of the following:

        * "linear", "mlp", "knn": accuracy of a
          :class:`~sklearn_mdl.baselines.LinearProbe`, an
          :class:`~sklearn_mdl.baselines.MLPProbe` with a small grid, and a
          :class:`~sklearn_mdl.baselines.KNeighborsProbe`
        * "selectivity": :func:`~sklearn_mdl.baselines.selectivity` of the linear probe
        * "logme": :func:`~sklearn_mdl.baselines.log_evidence`
        * "rankme": :func:`~sklearn_mdl.baselines.rank_me`, which uses no labels
        * "vinfo": :func:`~sklearn_mdl.baselines.usable_information` of linear models
        * "permutation": mean codelength of 20 permutations of the labels minus the
          codelength of the labels, both under kernel readouts
          (:meth:`~sklearn_mdl.MDLReadoutSwitcher.permutation_test`)
        * "blockwise": :class:`~sklearn_mdl.baselines.BlockwiseCode`
        * "variational": :class:`~sklearn_mdl.baselines.VariationalCode`
        * "sdl", "esc": :func:`~sklearn_mdl.metrics.surplus_description_length` and
          :func:`~sklearn_mdl.metrics.sample_complexity`, from the run of "mdl"
        * "edl", "epiplexity": :func:`~sklearn_mdl.metrics.excess_description_length` of
          the run of "mdl", relative to its loss on test rows ("edl") or to its loss at
          the end ("epiplexity")
        * "mdl": the codelength of :class:`~sklearn_mdl.MDLReadoutSwitcher`

        A mapping assigns an estimator to each name, or None for the default. A
        classifier for "blockwise" is refitted block by block. A classifier for "sdl" or
        "esc" is fitted on subsamples
        (:func:`~sklearn_mdl.baselines.subsampled_losses`). Any other name, with a
        classifier as its value, reports the accuracy of this classifier.
    types : array-like of shape (n_samples,), or mapping, default=None
        Types of the rows for the control tasks of "selectivity", as for
        :func:`~sklearn_mdl.baselines.control_labels`. For several datasets pass
        ``{name: types}``. If None, rows of X are clustered, provided that they are
        finite numbers.
    references : sequence of {"random", "shuffled"}, default=()
        Additional rows of the table, for comparison. "random" is a
        :class:`~sklearn_mdl.baselines.RandomEncoder` as wide as the widest encoder.
        "shuffled" permutes the rows of the first encoder's features, so that the
        features carry no information about labels.
    test_size : float, default=0.2
        Share of the rows on which accuracy is measured.
    epsilon : float, default=None
        Target loss of "sdl" and "esc", in nats per label. If None, half the entropy of
        the train labels is used.
    results : path-like, default=None
        A directory in which features of transformers are cached as float32, as in
        :class:`~sklearn_mdl.RepresentationScorer`.
    random_state : int, RandomState instance or None, default=0
        Seed of the split, the references, the control tasks, and every estimator whose
        ``random_state`` is None.
    n_jobs : int, default=None
        Number of measurements to run in parallel processes. Parallel processes increase
        the measured wall times. If there are several GPUs, each process uses one.
    verbose : int, default=0
        If above 0, show a progress bar over measurements, with the time left.

    Returns
    -------
    comparison : ProtocolComparison
        Values that could not be computed are NaN, with the reason in ``reasons``.

    Raises
    ------
    ValueError
        If data, protocols or settings are invalid. Exceptions that are raised while
        encoding or measuring are stored in ``reasons`` instead.
    TypeError
        If encoders, datasets, types or protocols are of the wrong type.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_mdl import compare_protocols
    >>> X, y = load_wine(return_X_y=True)
    >>> comparison = compare_protocols(
    ...     {"raw": X, "two axes": PCA(2)},
    ...     X,
    ...     y,
    ...     protocols={"knn": None, "blockwise": LogisticRegression(max_iter=1000)},
    ... )
    >>> comparison.frame()["blockwise rank"].tolist()
    [1.0, 2.0]
    """
    if not isinstance(protocols, Mapping):
        protocols = dict.fromkeys(PROTOCOLS if protocols is None else protocols)
    estimators = list_estimators(protocols)
    references = list(dict.fromkeys(references))
    if unknown := [name for name in references if name not in REFERENCES]:
        required, cure = f"among {list(REFERENCES)}", "pass references=['random']"
        raise invalid("references", required, unknown[0], cure)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    datasets = _checked_datasets(X, y)
    cache = None if results is None else FeatureCache(Path(results) / "features")
    by_name = _types_by_name(types, datasets)
    studies = []
    for name, gathered in _encode_all(datasets, encoders, cache).items():
        study = _split(name, gathered, by_name.get(name), test_size, epsilon, seed)
        for reference in references:
            study.features[REFERENCES[reference]] = _reference(reference, study, seed)
        if "selectivity" in protocols and study.split.types is None:
            split = study.split._replace(types=_clusters(study, seed))
            study = study._replace(split=split)
        studies.append(study)
    tasks = [
        Measurement(study.name, encoder, served, estimator, encoded.X, study.split)
        for study in studies
        for encoder, encoded in study.features.items()
        for served, estimator in _on_equal_terms(estimators, study)
        if encoded.X is not None
    ]
    numbered = dict(enumerate(tasks))
    outcomes = run_side_by_side(
        measure, numbered, n_jobs=n_jobs, verbose=verbose, desc="measurements"
    )
    measured = [(tasks[i], outcome) for i, outcome in outcomes]
    return _assembled(studies, list(protocols), measured, len(references))


def _on_equal_terms(estimators: Sequence[Served], study: Study) -> Iterator[Served]:
    """Yield the estimators, and give switchers the same readouts for all encoders."""
    widths = [e.X.shape[1] for e in study.features.values() if e.X is not None]
    for served, estimator in estimators:
        if widths and isinstance(estimator, MDLReadoutSwitcher):
            estimator = on_equal_terms(estimator, max(widths), study.n_classes)
        yield served, estimator


def _checked_datasets(X: object, y: ArrayLike | None) -> Datasets:
    """Return the datasets, keyed by name; a single dataset has an empty name."""
    if not isinstance(X, Mapping):
        if y is None:
            raise invalid("y", "labels", y, "pass y, or X={name: (X, y)}")
        return {"": (X, y)}
    if y is not None:
        raise invalid("y", "None if X maps names to (X, y)", y, "pass y=None")
    return checked_datasets(X)


def _types_by_name(types: object, datasets: Datasets) -> Mapping[str, object]:
    if types is None or "" in datasets:
        return {"": types}
    if not isinstance(types, Mapping):
        raise TypeError(
            "types of several datasets must be a mapping {name: types}, got "
            f"{type(types).__name__}; pass {{{next(iter(datasets))!r}: types}}"
        )
    if unknown := [name for name in types if name not in datasets]:
        cure = f"remove {unknown[0]!r}"
        raise invalid("types", f"keyed by {list(datasets)}", unknown[0], cure)
    return types


def _encode_all(
    datasets: Datasets, encoders: object, cache: FeatureCache | None
) -> dict[str, Gathered]:
    """Return the rows, labels and features of every dataset."""
    if encoders is None and "" not in datasets:
        return {
            name: (None, labels, {e: _encoded(X) for e, X in features.items()})
            for name, (features, labels, *_) in gather(datasets, None, "raise").items()
        }
    if not isinstance(encoders, Mapping) or not encoders:
        raise TypeError(
            "encoders must be a non-empty mapping {name: transformer or features}, got "
            f"{encoders!r:.60}; pass {{'name': encoder}}"
        )
    return {name: _encode(name, *datasets[name], encoders, cache) for name in datasets}


def _encode(
    name: str,
    data: object,
    y: ArrayLike,
    encoders: Mapping[str, object],
    cache: FeatureCache | None,
) -> Gathered:
    y = as_labels(as_array(y), f"y of {_called(name)}")
    data, labels, features = as_array(data), np.asarray(y), {}
    for title, encoder in encoders.items():
        if title in REFERENCES.values():
            required = f"different from {list(REFERENCES.values())}"
            raise invalid("Names of encoders", required, title, f"pass {title[1:-1]!r}")
        is_given = hasattr(encoder, "shape") and not hasattr(encoder, "fit")
        if not is_given:
            _check_rows(name, data, labels, title)
        start = time.perf_counter()
        rows = {title: as_array(encoder)} if is_given else data
        transformers = None if is_given else {title: encoder}
        given = {name or "data": (rows, labels)}
        (dataset,) = gather(given, transformers, "raise", cache).values()
        seconds = 0.0 if is_given else time.perf_counter() - start
        features[title] = _encoded(dataset.features[title], seconds)
    return data, labels, features


def _check_rows(name: str, data: object, labels: Array, encoder: str) -> None:
    if data is None:
        required = f"the data for encoder {encoder!r}"
        raise invalid("X", required, data, f"pass X, or {{{encoder!r}: features}}")
    if not isinstance(data, Mapping) and num_samples(data) != len(labels):
        lengths = [num_samples(data), len(labels)]
        given = f"X and y of {_called(name)}"
        raise invalid(given, "of equal length", lengths, "pass one label for each row")


def _called(name: str) -> str:
    return f"dataset {name!r}" if name else "the data"


def _encoded(X: Array | Failure, seconds: float = 0.0) -> Encoded:
    if isinstance(X, Failure):
        return Encoded(None, X.error, seconds)
    return Encoded(X, "", seconds)


def _split(
    name: str,
    gathered: Gathered,
    types: object,
    test_size: float,
    epsilon: float | None,
    seed: int,
) -> Study:
    """Return a study whose random train rows are the same for every encoder."""
    data, y, features = gathered
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = max(0, len(y) - int(np.ceil(test_size * len(y))))
    counts = np.unique(y[order[:n_train]], return_counts=True)[1]
    if len(counts) < 2:
        raise ValueError(
            f"The {n_train} train rows of {_called(name)} must have at least two "
            f"classes, got {len(counts)}; pass more rows or a smaller test_size"
        )
    of_rows = None if types is None else np.asarray(types)
    if of_rows is not None and of_rows.shape != y.shape:
        required = f"of shape {y.shape}, one for each label of {_called(name)}"
        raise invalid("types", required, of_rows.shape, "pass one type for each row")
    if epsilon is None:
        shares = counts / n_train
        epsilon = GOOD_ENOUGH * -float(shares @ np.log(shares))
    split = Split(y, of_rows, order, n_train, float(epsilon), seed)
    return Study(name, data, features, len(counts), split)


def _table_of(data: object) -> Array | None:
    """Return data as a table of finite numbers, or None if this is impossible."""
    try:
        table = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):  # paths, texts, data frames with text
        return None
    is_table = table.ndim >= 2 and np.isfinite(table).all()
    return table.reshape(len(table), -1) if is_table else None


def _clusters(study: Study, seed: int) -> Array | None:
    """Return types for control tasks, or None if the data are not finite numbers."""
    table = _table_of(study.data)
    if table is None:
        return None
    n_types = min(TYPES_PER_CLASS * study.n_classes, len(table) // ROWS_PER_TYPE)
    return cluster_types(table, max(2, n_types), random_state=seed)


def _reference(reference: str, study: Study, seed: int) -> Encoded:
    usable = [e.X for e in study.features.values() if e.X is not None]
    if not usable:
        return Encoded(None, "no encoder has features")
    if reference == "shuffled":
        places = np.random.default_rng(seed).permutation(len(study.split.y))
        return Encoded(usable[0][places])
    table = _table_of(study.data)
    if table is None:
        return Encoded(None, "a random encoder needs X as an array of finite numbers")
    start = time.perf_counter()
    width = max(X.shape[1] for X in usable)
    features = RandomEncoder(width, random_state=seed).fit_transform(table)
    return Encoded(features, "", time.perf_counter() - start)


def _assembled(
    studies: Sequence[Study],
    wanted: list[str],
    measured: Sequence[tuple[Measurement, Measured | Failure]],
    n_references: int,
) -> ProtocolComparison:
    """Collect values, times and reasons into a comparison."""
    splits, encoders = [study.split for study in studies], list(studies[0].features)
    nan = float("nan")
    results = {}
    for study, encoder, protocol in product(studies, encoders, wanted):
        reason = study.features[encoder].reason
        results[study.name, encoder, protocol] = Measured({}, nan, reason, [])
    for task, outcome in measured:
        if isinstance(outcome, Failure):  # the process died
            outcome = Measured({}, nan, outcome.error, [])
        results |= {(task.dataset, task.encoder, p): outcome for p in task.protocols}
    shape = len(studies), len(encoders), len(wanted)
    pairs = [r.values.get(p, (nan, False)) for (_, _, p), r in results.items()]
    values, are_bounds = np.array(pairs).T.reshape(2, *shape)
    seconds = np.array([result.seconds for result in results.values()])
    return ProtocolComparison(
        tuple(study.name for study in studies),
        tuple(encoders),
        tuple(PROTOCOLS.get(n, Protocol(n, n, ACCURACY, True)) for n in wanted),
        values,
        are_bounds.astype(bool),
        seconds.reshape(shape),
        np.array([[study.features[e].seconds for e in encoders] for study in studies]),
        {place: r.reason for place, r in results.items() if r.reason},
        {place: r.notes for place, r in results.items() if r.notes},
        tuple(split.n_train for split in splits),
        tuple(len(split.y) - split.n_train for split in splits),
        tuple(study.n_classes for study in studies),
        tuple(split.epsilon for split in splits),
        n_references,
    )
