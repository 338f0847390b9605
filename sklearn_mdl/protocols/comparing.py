"""One call that measures encoders by several protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from sklearn_mdl.protocols.comparison import Place, ProtocolComparison
from sklearn_mdl.protocols.measuring import (
    ACCURACY,
    PROTOCOLS,
    Job,
    Outcome,
    Part,
    Protocol,
    list_jobs,
    measure,
)
from sklearn_mdl.protocols.parts import (
    REFERENCES,
    Dataset,
    Split,
    gather_dataset,
    with_clusters,
)

GOOD_ENOUGH = 0.5  # of the entropy of the labels


class Settings(NamedTuple):
    """What is the same for all protocols."""

    types: Any = None
    references: Sequence[str] = ()
    test_size: float = 0.2
    epsilon: float | None = None


def compare_protocols(
    encoders: Any,
    X: Any,
    y: Any = None,
    *,
    protocols: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    **settings: Any,
) -> ProtocolComparison:
    """Measure encoders by several protocols, side by side.

    Rows are permuted once and split. All protocols learn from, or code, the same train
    rows; accuracies are those on the test rows. Encoders are fitted on all rows without
    labels, as :class:`~sklearn_mdl.RepresentationScorer` fits them.

    Parameters
    ----------
    encoders : mapping of str to transformer or array
        An array of shape (n_samples, width) is features; None or "passthrough" keeps X.
        May be None if X is a mapping of datasets that holds features.
    X : array-like of shape (n_samples, ...), mapping, or None
        Data. None if all encoders are arrays. A mapping ``{name: (X, y)}``, or ``{name:
        ({encoder: features}, y)}`` with ``encoders=None``, is several datasets.
    y : array-like of shape (n_samples,), default=None
        Labels; None if X is a mapping.
    protocols : sequence of str or mapping of str to estimator, default=None
        None takes all there are, by name:

        * "linear", "mlp", "knn": accuracy of :class:`~sklearn_mdl.LinearProbe`, of an
          :class:`~sklearn_mdl.MLPProbe` with a small grid, of
          :class:`~sklearn_mdl.KNeighborsProbe`
        * "selectivity": of the linear probe, on a control task
          (:func:`~sklearn_mdl.selectivity`)
        * "logme": :func:`~sklearn_mdl.log_evidence`
        * "blockwise": :class:`~sklearn_mdl.BlockwiseCode`
        * "variational": :class:`~sklearn_mdl.VariationalCode`
        * "sdl", "esc": :func:`~sklearn_mdl.surplus_description_length` and
          :func:`~sklearn_mdl.sample_complexity`, from the walk of "mdl"
        * "mdl": the codelength of :class:`~sklearn_mdl.MDLReadoutSwitcher`

        In a mapping each may have an estimator of its own, or None for the default. A
        classifier at "blockwise" is refitted by blocks; one at "sdl" or "esc" is fitted
        on subsamples (:func:`~sklearn_mdl.subsampled_losses`). Any other name needs a
        classifier, whose accuracy is taken.
    random_state : int, RandomState instance or None, default=0
        Split, references, and every ``random_state`` of an estimator that is None.
    n_jobs : int, default=None
        Measurements side by side, as processes; wall times then contend.
    **settings
        types : array-like of shape (n_samples,), or mapping of dataset to such
            What rows are of a kind, for control tasks. By default clusters of X.
        references : sequence of {"random", "shuffled"}, default=()
            Rows to be set beside the encoders: a :class:`~sklearn_mdl.RandomEncoder` of
            the width of the widest, and the first encoder's features with their rows
            permuted against the labels, which carry nothing.
        test_size : float, default=0.2
            Share of the rows on which accuracy is taken.
        epsilon : float, default=None
            Loss that is good enough, in nats a label; None takes half the entropy of
            the labels.

    Returns
    -------
    comparison : ProtocolComparison
        What could not be computed is NaN there, and has its reason.

    Raises
    ------
    ValueError, TypeError
        If encoders, data, protocols or settings are not of that form. What a protocol
        or an encoder itself raises is kept as a reason.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_mdl import compare_protocols
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_protocols(
    ...     {"raw": X, "two axes": PCA(2)},
    ...     X,
    ...     y,
    ...     protocols={"knn": None, "blockwise": LogisticRegression(max_iter=1000)},
    ... )
    >>> found.frame()["blockwise rank"].tolist()
    [1.0, 2.0]
    """
    chosen = _checked_settings(settings)
    wanted = _checked_protocols(protocols)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    jobs = list_jobs(wanted)
    clustered = "selectivity" in wanted
    datasets = [
        with_clusters(dataset, data, seed) if clustered else dataset
        for dataset, data in _gathered(encoders, X, y, chosen, seed)
    ]
    cells = [
        (dataset, name, job)
        for dataset in datasets
        for name in dataset.features
        for job in jobs
    ]
    outcomes = Parallel(n_jobs=n_jobs)(
        delayed(measure)(job, _part(dataset, name, chosen), seed)
        for dataset, name, job in cells
        if dataset.features[name].X is not None
    )
    return _assembled(datasets, wanted, chosen, cells, outcomes)


def _checked_settings(given: dict[str, Any]) -> Settings:
    strange = [name for name in given if name not in Settings._fields]
    if strange:
        raise TypeError(
            f"compare_protocols takes the settings {list(Settings._fields)}, got "
            f"{strange[0]!r}; leave it out"
        )
    found = Settings(**given)
    named = found.references
    is_list = isinstance(named, Sequence) and not isinstance(named, str)
    if not is_list or set(named) - {*REFERENCES} or len(set(named)) < len(named):
        raise ValueError(
            f"references must be a list of different names among {list(REFERENCES)}, "
            f"got {named!r}; name one or both"
        )
    if not 0 < found.test_size < 1:
        raise ValueError(
            f"test_size must lie between 0 and 1, got {found.test_size!r}; try 0.2"
        )
    if found.epsilon is not None and not 0 <= found.epsilon < np.inf:
        raise ValueError(
            "epsilon must be a finite loss of at least 0 nats, got "
            f"{found.epsilon!r}; say what a prediction may cost"
        )
    return found


def _checked_protocols(protocols: Any) -> dict[str, Any]:
    if protocols is None:
        return dict.fromkeys(PROTOCOLS)
    if isinstance(protocols, str) or not isinstance(protocols, Sequence | Mapping):
        raise TypeError(
            "protocols must be a list of names or a mapping {name: estimator or None}, "
            f"got {protocols!r}; name some of {list(PROTOCOLS)}"
        )
    found = (
        dict(protocols) if isinstance(protocols, Mapping) else dict.fromkeys(protocols)
    )
    if not found:
        raise ValueError(
            f"protocols must name at least one of {list(PROTOCOLS)}, got none; pass "
            "None for all"
        )
    return found


def _gathered(
    encoders: Any, X: Any, y: Any, chosen: Settings, seed: int
) -> list[tuple[Dataset, Any]]:
    """Return every dataset, split and encoded, and its data before any encoder."""
    split = Split(chosen.test_size, chosen.references, seed)
    if not isinstance(X, Mapping):
        if y is None:
            raise ValueError(
                "y must hold the labels, got None; only a mapping of datasets, "
                "{name: (X, y)}, has its own"
            )
        return [(gather_dataset("", encoders, X, y, chosen.types, split), X)]
    if y is not None:
        raise ValueError(
            "y must be None where X is a mapping of datasets, which has the labels, "
            f"{{name: (X, y)}}, but got {type(y).__name__}; leave it out"
        )
    types = {} if chosen.types is None else chosen.types
    if not X or not isinstance(types, Mapping):
        raise TypeError(
            "Several datasets must be a non-empty mapping {name: (X, y)}, and types, "
            f"if given, one of the same names, got {len(X)} datasets and types of "
            f"{type(types).__name__}; give each dataset a name"
        )
    strange = [name for name in types if name not in X]
    if strange:
        raise ValueError(
            f"types must be of datasets among {list(X)}, got those of {strange[0]!r}; "
            "name the dataset that has them"
        )
    found = []
    for name, pair in X.items():
        data, labels, own = _one_of_several(name, pair, encoders)
        of_rows = types.get(name)
        found.append((gather_dataset(name, own, data, labels, of_rows, split), data))
    _check_alike([dataset for dataset, _ in found])
    return found


def _one_of_several(name: Any, pair: Any, encoders: Any) -> tuple[Any, Any, Any]:
    """Return data, labels and encoders of one dataset in a mapping."""
    if (
        not isinstance(name, str)
        or not isinstance(pair, tuple | list)
        or len(pair) != 2
    ):
        raise TypeError(
            "A dataset must have a name and be a pair (X, y) or ({encoder: features}, "
            f"y), but {name!r} is {type(pair).__name__}; pass both together"
        )
    data, labels = pair
    given = isinstance(data, Mapping)
    if given == (encoders is not None):
        came = "features" if given else "data"
        raise ValueError(
            "Datasets of features go with encoders=None and datasets of data with "
            f"encoders, but {name!r} holds {came}; pass the other"
        )
    return (None, labels, data) if given else (data, labels, encoders)


def _check_alike(datasets: Sequence[Dataset]) -> None:
    names = list(datasets[0].features)
    for dataset in datasets:
        if set(dataset.features) != set(names):
            raise ValueError(
                "Every dataset must hold the same encoders, but "
                f"{datasets[0].name!r} has {names} and {dataset.name!r} "
                f"{list(dataset.features)}; complete the features"
            )


def _part(dataset: Dataset, encoder: str, chosen: Settings) -> Part:
    features, y = dataset.features[encoder].X, dataset.y
    assert features is not None  # those without are left out
    X, X_test = dataset.split(features)
    labels, test_labels = dataset.split(y)
    types = None if dataset.types is None else dataset.split(dataset.types)
    return Part((X, labels), (X_test, test_labels), types, _epsilon(dataset, chosen))


def _epsilon(dataset: Dataset, chosen: Settings) -> float:
    if chosen.epsilon is not None:
        return float(chosen.epsilon)
    return GOOD_ENOUGH * dataset.entropy


def _assembled(
    datasets: Sequence[Dataset],
    wanted: Mapping[str, Any],
    chosen: Settings,
    cells: Sequence[tuple[Dataset, str, Job]],
    outcomes: Sequence[Outcome],
) -> ProtocolComparison:
    """Put numbers, times and reasons in their places."""
    names = list(datasets[0].features)
    shape = (len(datasets), len(names), len(wanted))
    values, seconds = np.full(shape, np.nan), np.full(shape, np.nan)
    is_bound = np.zeros(shape, dtype=bool)
    reasons: dict[Place, str] = {}
    notes: dict[Place, list[str]] = {}
    columns, rows = list(wanted), [dataset.name for dataset in datasets]
    coming = iter(outcomes)
    for dataset, encoder, job in cells:
        encoded = dataset.features[encoder]
        outcome = next(coming) if encoded.X is not None else None
        for protocol in job.names:
            place = (dataset.name, encoder, protocol)
            at = rows.index(dataset.name), names.index(encoder), columns.index(protocol)
            if outcome is None:
                reasons[place] = encoded.reason
                continue
            values[at], is_bound[at] = outcome.measured[protocol]
            seconds[at] = outcome.seconds
            if outcome.reason:
                reasons[place] = outcome.reason
            if outcome.notes:
                notes[place] = outcome.notes
    return ProtocolComparison(
        tuple(rows),
        tuple(names),
        tuple(PROTOCOLS.get(name, _accuracy_of(name)) for name in wanted),
        values,
        is_bound,
        seconds,
        np.array([[d.features[name].seconds for name in names] for d in datasets]),
        reasons,
        notes,
        tuple(dataset.n_train for dataset in datasets),
        tuple(len(dataset.y) - dataset.n_train for dataset in datasets),
        tuple(dataset.n_classes for dataset in datasets),
        tuple(_epsilon(dataset, chosen) for dataset in datasets),
        len(chosen.references),
    )


def _accuracy_of(name: str) -> Protocol:
    return Protocol(name, name, ACCURACY, True)
