"""Boards of any readouts and experts: their checks, their learners, the mixed board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.base import BaseEstimator, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from sklearn_mdl.experts import (
    Context,
    Expert,
    NeighborsReadout,
    RefittedExpert,
    learners_of,
)
from sklearn_mdl.prequential import Learner
from sklearn_mdl.readouts import (
    LinearReadout,
    MLPReadout,
    default_readouts,
    stack_readouts,
)
from sklearn_mdl.readouts.grid import MAX_WHITENED_BY_DEFAULT
from sklearn_mdl.scaling import check_width

GROWTH = 1.2  # of rows between two fits


def check_readout(readout: Any) -> None:
    """Refuse what is no readout, and say how it could become one.

    Raises
    ------
    TypeError
        If it is neither a readout nor an expert.
    """
    if isinstance(readout, (LinearReadout, MLPReadout, Expert)):
        readout._validate_params()
        return
    advice = "build them with readout_grid(...)"
    given = isinstance(readout, BaseEstimator)  # and no class
    if given and is_classifier(readout):
        incremental = hasattr(readout, "partial_fit")
        wrapper = "IncrementalExpert" if incremental else "RefittedExpert"
        advice = f"wrap it: {wrapper}({readout!r})"
    raise TypeError(
        "readouts must hold LinearReadout, MLPReadout, NeighborsReadout, "
        "IncrementalExpert and RefittedExpert objects, or those that look at images, "
        f"got {readout!r}; {advice}"
    )


def gather_learners(
    readouts: Sequence[Any],
    n_features: int,
    n_classes: int,
    *,
    seed: int,
    device: torch.device,
    n_jobs: int = 1,
) -> list[Learner]:
    """Make the learners that walk for a list of readouts and experts.

    Parameters
    ----------
    readouts : sequence of readouts and experts
        In any order; a learner's ``columns`` remember the places.
    n_features, n_classes : int
    seed : int
        Stands in where a ``random_state`` is None.
    device : torch.device
    n_jobs : int, default=1
        Learners that will walk side by side.

    Returns
    -------
    learners : list of Learner
        Stacks of nets (:func:`~sklearn_mdl.readouts.stack_readouts`), then the others.

    Raises
    ------
    ValueError, MemoryError
        As from ``stack_readouts``.
    """
    experts = [(k, r) for k, r in enumerate(readouts) if isinstance(r, Expert)]
    nets = [(k, r) for k, r in enumerate(readouts) if not isinstance(r, Expert)]
    scalings = list(dict.fromkeys(_seen_scaling(readout) for readout in readouts))
    for readout in readouts:
        check_width(readout.scaling, n_features)
    stacks = stack_readouts(
        [readout for _, readout in nets],
        n_features,
        n_classes,
        seed=seed,
        device=device,
        n_jobs=n_jobs,
        scalings=scalings,
    )
    for stack in stacks:
        stack.columns = [nets[column][0] for column in stack.columns]
    context = Context(scalings, n_features, n_classes, seed, device)
    return [*stacks, *learners_of(experts, context)]


def _seen_scaling(readout: Any) -> str | None:
    scaling: str | None = getattr(readout, "seen_scaling", readout.scaling)
    return scaling


def mixed_readouts(n_features: int, n_classes: int) -> list[Any]:
    """Return the default board, and neighbours and refitted classifiers beside it.

    Four kinds of 30 nearest neighbours (on standardised and on raw features, by the
    angle between standardised ones, and between whitened ones where the default board
    whitens, too), a linear discriminant analysis with shrunk covariances and a logistic
    regression, both refitted whenever their rows have grown by a fifth: chosen by
    measurement on digits and on deep features (``benchmarks/bench_codelength.py``).

    Parameters
    ----------
    n_features, n_classes : int

    Returns
    -------
    readouts : list of readouts and experts
        It depends on ``d`` and ``C`` alone.
    """
    neighbours = [
        NeighborsReadout(),
        NeighborsReadout(scaling=None),
        NeighborsReadout(metric="cosine"),
    ]
    if n_features <= MAX_WHITENED_BY_DEFAULT:
        neighbours.append(NeighborsReadout(metric="cosine", scaling="whiten"))
    discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return [
        *default_readouts(n_features, n_classes),
        *neighbours,
        RefittedExpert(discriminant, schedule=GROWTH),
        RefittedExpert(LogisticRegression(C=3.0), schedule=GROWTH),
    ]
