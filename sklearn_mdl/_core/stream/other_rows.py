"""Rows that are no part of a stream: predicted, or evaluated as if they followed.

The run stays as it is: learners change no state to predict, and a copy evaluates.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch

from sklearn_mdl._core.stream.outcomes import Prediction
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.steps import shown, usable


def predictions(run: PrequentialRun, X: np.ndarray) -> Iterator[Prediction]:
    """Predictions of rows (n, d) that are not part of the stream.

    Yields
    ------
    prediction : Prediction
        Of all readouts awake, (K, b, P), for one block of rows after the other, the
        last one cut to its rows.
    """
    for start in range(0, len(X), run.rows.block_size):
        with run.arithmetic():
            found = _predicted(run, X[start : start + run.rows.block_size])
        yield found


def _predicted(run: PrequentialRun, X: np.ndarray) -> Prediction:
    order = torch.as_tensor(np.argsort(run.columns), device=run.device)
    known = run.diverged[run.retirement.awake]
    diverged = torch.as_tensor(known, device=run.device)[:, None]
    n, views = len(X), run.rows.views.items()
    x = {sees: view.scaled(view.store.pick(X)) for sees, view in views}
    found = [run.outcome.predict(lr, shown(lr, x[lr.sees], n)) for lr in run.learners]
    values = torch.cat([each.values[:, :n] for each in found])[order]
    failed = values[..., 0].isnan() | diverged
    return usable(found[0].with_values(values), failed, run.outcome)


def continued(
    run: PrequentialRun,
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Codelengths of rows that follow, (n,), in nats; evaluated by a copy."""
    if not len(X):
        return np.empty(0)
    other = branched(run)
    other.run(X, y, groups=groups)
    return other.trace.codelengths


def branched(run: PrequentialRun) -> PrequentialRun:
    """Return a copy that can go on; its trace holds the rows that follow alone."""
    own = {
        id(run.samples): run.samples.branch(),
        id(run.trace): run.trace.branch(),
    }
    if run.pooled is not None:
        own[id(run.pooled.history)] = run.pooled.history.branch()
    return copy.deepcopy(run, own)
