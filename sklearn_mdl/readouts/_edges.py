"""Settings of the best readout that are at the edge of the values tried."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_mdl._core.sklearn_compat import Interval

INTERIOR = 3  # with fewer values, the best value is always at an edge


def grid_edges(
    readouts: Sequence[BaseEstimator], codelengths: NDArray[np.float64]
) -> dict[str, tuple[float, str]]:
    """Find settings of the best readout that have the lowest or highest value tried.

    For each numeric setting with at least three values, the best readout is compared
    with the other readouts of its architecture. A value is an edge only if the best
    readout is strictly better than all readouts with other values. A value at the end
    of the valid range, such as zero weight decay, is not an edge, since no further
    value can be tried.

    Parameters
    ----------
    readouts : sequence of length K
    codelengths : ndarray of shape (K,)
        In nats.

    Returns
    -------
    edges : dict of str to (float, {"lowest", "highest"})
        The value and the edge, keyed by the name of the setting.
    """
    kind = _kind(readouts[int(np.argmin(codelengths))])
    same = [k for k, r in enumerate(readouts) if _kind(r) == kind]
    readouts = [getattr(readout, "inner", readout) for readout in readouts]
    best = readouts[int(np.argmin(codelengths))]
    edges = {}
    for name in _numeric(best):
        alike = [k for k in same if name in _numeric(readouts[k])]
        values = np.array([getattr(readouts[k], name) for k in alike], np.float64)
        value = float(getattr(best, name))
        others = codelengths[alike][values != value]
        tried = sorted(set(values.tolist()))
        if len(tried) < INTERIOR or others.min() <= codelengths.min():
            continue
        side = {tried[0]: "lowest", tried[-1]: "highest"}.get(value)
        if side is not None and not _is_end_of_range(best, name, value):
            edges[name] = (value, side)
    return edges


def _kind(readout: BaseEstimator) -> str:
    return str(getattr(readout, "architecture", type(readout).__name__))


def _numeric(readout: BaseEstimator) -> list[str]:
    """Return the names of numeric settings, except sizes of minibatches and seeds."""
    return [
        name
        for name, value in readout.get_params(deep=False).items()
        if isinstance(value, Real)
        and not isinstance(value, bool)
        and name not in {"batch_size", "first_batch_size", "random_state"}
    ]


def _is_end_of_range(readout: BaseEstimator, name: str, value: float) -> bool:
    ranges = getattr(readout, "_parameter_constraints", {}).get(name, [])
    return any(
        (value == r.left and r.closed in {"left", "both"})
        or (value == r.right and r.closed in {"right", "both"})
        for r in ranges
        if isinstance(r, Interval)
    )
