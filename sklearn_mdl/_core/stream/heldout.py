"""Prediction of rows outside a stream, and codelengths as if these rows followed it.

The run does not change, since prediction changes no state, and codelengths are computed
by a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.steps import shown, usable


def predict_rows(run: PrequentialRun, X: np.ndarray) -> np.ndarray:
    """Predict rows (n, d) as if each were the incoming row of the stream.

    If some known labels are not learned yet, a copy of the run first learns them.

    Returns
    -------
    mixed : ndarray of shape (n, ...)
        As returned by :meth:`Outcome.mix_rows`.
    """
    with run.threads.arithmetic():
        flushed, mixed = flushed_copy(run), []
        for values in predictions(flushed, X):
            mixtures = run.mixer.predict(values.cpu().numpy())
            mixed.append(run.coder.predict_rows(run.outcome, values, mixtures))
    return np.concatenate(mixed)


def predictions(run: PrequentialRun, X: np.ndarray) -> Iterator[Tensor]:
    """Yield predictions of rows (n, d) that are not part of the stream.

    Yields
    ------
    values : Tensor
        Predictions of all awake readouts, (K, b, P), block by block.
    """
    for start in range(0, len(X), run.rows.block_size):
        with run.threads.arithmetic():
            values = _predicted(run, X[start : start + run.rows.block_size])
        yield values


def _predicted(run: PrequentialRun, X: np.ndarray) -> Tensor:
    threads, device = run.threads, run.rows.device
    order = torch.as_tensor(np.argsort(threads.columns), device=device)
    diverged = torch.as_tensor(run.diverged[run.awake], device=device)[:, None]
    n, views = len(X), run.rows.views.items()
    x = {columns: view.scaled(view.store.pick(X)) for columns, view in views}
    parts = [
        run.outcome.predict(lr, shown(lr, x[lr.view.columns], n)) for lr in run.learners
    ]
    values = torch.cat([part[:, :n] for part in parts])[order]
    return usable(values, values[..., 0].isnan() | diverged, run.outcome)


def flushed_copy(run: PrequentialRun) -> PrequentialRun:
    """Return a copy of a run, for prediction only, that has learned all known labels.

    If the run itself has learned them, return the run. Delayed labels that are not
    known yet stay unknown.
    """
    pairs = list(zip(run.learners, run.threads.states, strict=True))
    if all(state.is_flushed(learner) for learner, state in pairs):
        return run
    if run.flushed is not None:
        return run.flushed
    flushed, threads = copy.copy(run), run.threads
    # Scaled rows do not change and need no copy.
    views = run.rows.views.values() if run.rows.n_refreshed else ()
    shared = [run.samples, run.outcome, *views]
    flushed.threads = own = copy.deepcopy(threads, {id(part): part for part in shared})
    with run.threads.arithmetic():
        if not flushed.rows.n_refreshed:
            flushed.rows.refresh_all(run.n_scored)
        for learner, state in zip(own.learners, own.states, strict=True):
            state.flush(learner, run.outcome)
    run.flushed = flushed
    return flushed


def continued(
    run: PrequentialRun, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None
) -> np.ndarray:
    """Return the codelengths (n,), in nats, of rows as if they followed the stream."""
    if not len(X):
        return np.empty(0)
    branch = branched(run)
    branch.run(X, y, groups=groups)
    return branch.trace.codelengths


def branched(run: PrequentialRun) -> PrequentialRun:
    """Return a copy that can continue a run, with a trace of only later rows."""
    own = {id(run.samples): run.samples.branch(), id(run.trace): run.trace.branch()}
    return copy.deepcopy(run, own)
