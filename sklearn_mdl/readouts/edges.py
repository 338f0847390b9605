"""Whether the best readout lies at the edge of the grid that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl._sklearn import Interval

INTERIOR = 3  # of two values one is always the lowest and one the highest


def grid_edges(
    readouts: Sequence[Any], codelengths: NDArray[np.float64]
) -> dict[str, tuple[float, str]]:
    """Find settings in which the best readout is the lowest or highest of those tried.

    It is compared with the readouts of its own architecture, in numeric settings with
    at least three values there. The best must be strictly better than all with other
    values of the setting. A value at which the setting's range ends, such as no weight
    decay, is no edge: beyond it is nothing to try.

    Parameters
    ----------
    readouts : sequence of length K
    codelengths : ndarray of shape (K,)
        In nats.

    Returns
    -------
    edges : dict of str to (float, {"lowest", "highest"})
        By setting, its value and which edge that is.
    """
    best = readouts[int(np.argmin(codelengths))]
    same = [k for k, r in enumerate(readouts) if _kind(r) == _kind(best)]
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


def _kind(readout: Any) -> str:
    return str(getattr(readout, "architecture", type(readout).__name__))


def _numeric(readout: Any) -> list[str]:
    """List settings whose values have an order; batch_size is the switcher's own."""
    return [
        name
        for name, value in readout.get_params(deep=False).items()
        if isinstance(value, Real)
        and not isinstance(value, bool)
        and name not in {"batch_size", "random_state"}
    ]


def _is_end_of_range(readout: Any, name: str, value: float) -> bool:
    ranges = getattr(readout, "_parameter_constraints", {}).get(name, [])
    return any(
        (value == r.left and r.closed in {"left", "both"})
        or (value == r.right and r.closed in {"right", "both"})
        for r in ranges
        if isinstance(r, Interval)
    )
