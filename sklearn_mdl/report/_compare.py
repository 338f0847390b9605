"""The function ``compare``, which compares encoders of any kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import combinations
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import check_order, invalid, warn_caller
from sklearn_mdl.datasets import load_representations
from sklearn_mdl.encoders import FeatureCache
from sklearn_mdl.model_selection import Failure, Ranking, RepresentationScorer
from sklearn_mdl.report._comparison import Comparison, Place
from sklearn_mdl.report._encoders import (
    checked_columns,
    features_of,
    is_given,
    named_encoders,
    shown,
)

Given = dict[str, tuple[Any, ...]]  # {dataset: (rows, labels[, groups])}


def compare(
    encoders: object = None,
    X: Any = None,
    y: Any = None,
    *,
    datasets: Mapping[str, tuple[Any, ...]] | str | PathLike[str] | None = None,
    groups: ArrayLike | None = None,
    top_k: int = 3,
    verbose: int = 1,
    **settings: Any,
) -> Comparison:
    """Compare encoders by the codelength of labels given each encoder's features.

    ``compare({"clip": A, "dino": B}, y=y)`` compares arrays, ``compare([encoder, None],
    X, y)`` runs encoders on X, and ``compare(encoders, datasets={"w": (X, y)})``
    compares encoders on several datasets. The function runs the encoders, fits a
    :class:`~sklearn_mdl.RepresentationScorer` and states the result in words. The
    comparison's attribute ``scorer`` has all other results.

    Parameters
    ----------
    encoders : mapping of str to encoder, list of encoders, or encoder
        An encoder is one of the following:

        * features of shape (n_samples, width), as an array, tensor, data frame, sparse
          matrix, or the path of a ``.npy``, ``.npz`` or ``.safetensors`` file
        * a list of columns, if X is a data frame
        * a transformer, which is fitted on X without labels unless it is a
          FrozenEstimator, or None for X itself
        * a function that maps all rows of X to features
        * a model with ``encode``, such as a SentenceTransformer
        * a torch module for images or rows of numbers
        * the name of a timm model, if X holds images or paths of image files

        Omit `encoders` if `datasets` contains features.
    X : array-like of shape (n_samples, ...), default=None
        Rows to encode, or None if features are given for every encoder.
    y : array-like of shape (n_samples,), default=None
        Labels, either classes or real numbers. Without `switcher` and `targets`, floats
        are real numbers unless all are whole. If X is a data frame, `y` may be the name
        of a column.
    datasets : mapping or path-like, default=None
        ``{name: (X, y)}``, or ``{name: ({encoder: features}, y)}`` without `encoders`.
        An optional third entry holds the group of each row. A path is read by
        :func:`~sklearn_mdl.datasets.load_representations`.
    groups : array-like of shape (n_samples,), default=None
        The group of each row, such as its patient. A group's labels are learned only
        after all of its rows are coded.
    top_k : int, default=3
        Number of best encoders whose features are also concatenated in pairs, to show
        what one encoder adds to another. There are no pairs if `top_k` is 0 or 1, or if
        a `time_budget` is given.
    verbose : int, default=1
        If above 0, steps that take more than two seconds show a progress bar.
    **settings
        Other parameters of :class:`~sklearn_mdl.RepresentationScorer`, such as
        `switcher`, `n_jobs` and `results`. If an encoder has fewer features than there
        are classes, pass ``switcher=MDLReadoutSwitcher("closed-form")``.

    Returns
    -------
    comparison : Comparison
        The result, with ``verdict()``, ``table``, ``curves``, ``plot()`` and
        ``to_html(path)``. Notebooks display it as a page.

    Raises
    ------
    TypeError
        If an argument is unknown or has the wrong form. The message says what to write.
    ValueError
        If a value is invalid, such as y with several columns, or if an encoder needs
        rows and X is None. Also if a pandas frame or groups have the index of y in
        another order, since rows and labels correspond by position.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.decomposition import PCA
    >>> from sklearn_mdl import compare
    >>> X, y = load_wine(return_X_y=True)
    >>> comparison = compare({"all": X, "two": X[:, :2], "PCA": PCA(2)}, X, y)
    >>> comparison.table.index[0]
    'all'
    """
    known = set(RepresentationScorer().get_params(deep=False)) - {"verbose"}
    for name in settings.keys() - known:
        cure = f"for a switcher's options, pass switcher=MDLReadoutSwitcher({name}=...)"
        text = f"compare takes the settings {sorted(known)}, got {name!r}; {cure}"
        raise TypeError(text)
    if not isinstance(top_k, Integral) or top_k < 0:
        raise invalid("top_k", "an integer of at least 0", top_k, "pass top_k=3")
    given = _datasets_of(encoders, X, y, datasets, groups)
    scorer = RepresentationScorer(verbose=verbose, **settings)
    encoded, seconds = _encode(encoders, given, scorer)
    scorer.fit(encoded)
    pairs, together = side_by_side(scorer, encoded, top_k)
    return Comparison(scorer, seconds, pairs, together)


def _datasets_of(encoders: Any, X: Any, y: Any, datasets: Any, groups: Any) -> Given:
    """Return each dataset's rows, labels and groups if given, by dataset name."""
    if datasets is None:
        named = () if groups is None else (groups,)
        return {"data": (*_one_dataset(encoders, X, y), *named)}
    for name, value in {"X": X, "y": y, "groups": groups}.items():
        if value is not None:
            cure = "pass datasets={'name': (X, y)} or {'name': (X, y, groups)}"
            required, kind = "must be None if datasets are given", type(value).__name__
            raise TypeError(f"{name} {required}, got {kind}; {cure}")
    if isinstance(datasets, str | PathLike):
        datasets = load_representations(datasets).datasets
    if not isinstance(datasets, Mapping):
        raise TypeError(
            f"datasets must be a mapping or a path, got {type(datasets).__name__}; "
            "write compare(encoders, datasets={'name': (X, y)})"
        )
    return {name: _parts_of(name, part, encoders) for name, part in datasets.items()}


def _parts_of(name: str, parts: Any, encoders: Any) -> tuple[Any, ...]:
    line = f"write compare(encoders, datasets={{{name!r}: (X, y)}})"
    is_tuple = isinstance(parts, tuple | list)
    if not is_tuple or len(parts) not in (2, 3):
        kind = f"{len(parts)} parts" if is_tuple else type(parts).__name__
        raise TypeError(
            f"Dataset {name!r} must be (X, y) or (X, y, groups), got {kind}; {line}"
        )
    if isinstance(parts[0], Mapping) == (encoders is not None):
        arrays = f"compare(datasets={{{name!r}: ({{'encoder': features}}, y)}})"
        given = "none" if encoders is None else "both"
        raise TypeError(
            f"Dataset {name!r} must have either encoders or precomputed features, got "
            f"{given}; {line} or {arrays}"
        )
    return (*parts[:2], *(groups for groups in parts[2:] if groups is not None))


def _one_dataset(encoders: Any, X: Any, y: Any) -> tuple[Any, Any]:
    if isinstance(y, str):
        (label,) = checked_columns([y], X, "y")
        return X[[c for c in dict.fromkeys(X.columns) if c != label]], X[label]
    if isinstance(encoders, str | PathLike) and Path(encoders).is_dir():
        raise TypeError(
            "encoders must be features or models, got the path of a folder; "
            f"write compare(datasets={str(encoders)!r})"
        )
    if encoders is None:
        raise TypeError(
            "compare must be given encoders, got none; write compare({'clip': A, "
            "'dino': B}, y=y) for arrays, or compare([encoder, None], X, y) to encode X"
        )
    if y is None:
        line = "compare({'clip': A, 'dino': B}, y=y)"
        if X is None:
            line += ", or compare([encoder], X, y)"
        raise TypeError(f"compare must be given labels y, got none; write {line}")
    if hasattr(encoders, "shape") and X is not None:
        raise TypeError(
            "Several arrays must have names, got two without names; "
            "write compare({'clip': A, 'dino': B}, y=y)"
        )
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must hold one label for each row, got shape {shape}; pass a single "
            "column, or call MultiOutputSwitcher().fit(X, y) for all columns"
        )
    return X, y


def _encode(
    encoders: object, given: Given, scorer: RepresentationScorer
) -> tuple[Given, dict[Place, float]]:
    """Return datasets with the features of all encoders, and seconds to encode."""
    store = scorer.results
    cache = None if store is None else FeatureCache(Path(store) / "features")
    cells = []
    for dataset, (rows, *_) in given.items():
        own = named_encoders(rows if encoders is None else encoders)
        cells += [(dataset, name, encoder) for name, encoder in own.items()]
    features: dict[str, dict[str, Any]] = {name: {} for name in given}
    seconds: dict[Place, float] = {}
    verbose = int(scorer.verbose)
    for dataset, name, encoder in shown(cells, "encoding", verbose):
        rows = None if encoders is None else given[dataset][0]
        for frame in (encoder, rows):
            check_order(frame, given[dataset][1], f"Encoder {name!r}")
        start = time.perf_counter()
        try:
            encoded: Any = features_of(encoder, rows, name, cache, verbose=verbose)
        except Exception as error:
            if scorer.missing == "raise":
                error.add_note(f"Encoder {name!r} on dataset {dataset!r}")
                raise
            encoded = Failure.of(error, dataset, name)
        features[dataset][name] = encoded
        if not is_given(encoder):
            seconds[dataset, name] = time.perf_counter() - start
    datasets = {name: (features[name], *rest) for name, (_, *rest) in given.items()}
    return datasets, seconds


class _ScorerOfPairs(RepresentationScorer):
    _bar_title = "pairs"


def _balanced(X: np.ndarray) -> np.ndarray:
    """Scale features to a total variance of one, if they vary."""
    total = float(X.var(0, dtype=np.float64).sum())
    return X / np.sqrt(total) if total > 0 else X


def side_by_side(
    scorer: RepresentationScorer, datasets: Mapping[str, tuple[Any, ...]], top_k: int
) -> tuple[dict[str, Place], Ranking | None]:
    """Score pairs of the best encoders on the same rows and orders as the encoders.

    With a time budget, there are no pairs. Warn if pairs cannot be scored, since an
    error would lose the ranking of the encoders.

    Returns
    -------
    pairs : dict of str to (str, str)
        The two encoders of each pair, keyed by the pair's name.
    together : Ranking or None
        Ranking of the best encoders and their pairs, or None if there are no pairs.
    """
    best = np.argsort(scorer.average_ranks_, kind="stable")[:top_k]
    names = [scorer.encoder_names_[e] for e in best]
    pairs: dict[str, Place] = {}
    for first, second in combinations(names, 2):
        name = f"{first} + {second}"
        while name in scorer.encoder_names_ or name in pairs:
            name += "'"
        pairs[name] = first, second
    if not pairs or scorer.time_budget is not None:
        return {}, None
    concatenated: dict[str, tuple[Any, ...]] = {}
    for dataset in scorer.dataset_names_:
        single, *rest = datasets[dataset]
        both = {
            name: np.hstack([_balanced(single[e]) for e in pair])
            for name, pair in pairs.items()
        }
        concatenated[dataset] = both, *rest
    pair_scorer = _ScorerOfPairs(**scorer.get_params(deep=False))
    pair_scorer.set_params(eliminate=None, n_permutations=None)
    try:
        kept = pair_scorer.fit(concatenated).dataset_names_
    except ValueError as error:
        warn_caller(f"Pairs of encoders are left out: {error}")
        return {}, None
    single = [c for c in scorer.cells_ if c.encoder in names and c.dataset in kept]
    cells = [*single, *pair_scorer.cells_]
    cells.sort(key=lambda cell: kept.index(cell.dataset))
    return pairs, Ranking(cells, scorer.alpha)
