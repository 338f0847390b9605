"""Prior weights of the experts: uniform, given, or uniform over groups of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def group_weights(groups: Sequence[Hashable]) -> Floats:
    """Prior weights that are uniform over groups, then within each group.

    With uniform weights a group of many experts weighs more than one of few: 576
    settings of one architecture would drown the single setting of another.

    Parameters
    ----------
    groups : sequence of length K
        The group of each expert, such as the architecture of each readout.

    Returns
    -------
    weights : ndarray of shape (K,)
        Weights that sum to one.

    Examples
    --------
    >>> group_weights(["linear", "mlp", "mlp", "mlp"])
    array([0.5       , 0.16666667, 0.16666667, 0.16666667])
    """
    _, members = group_columns(groups)
    counts = np.bincount(members)
    weights: Floats = 1.0 / (len(counts) * counts[members])
    return weights


def group_columns(
    groups: Sequence[Hashable],
) -> tuple[tuple[Hashable, ...], NDArray[np.intp]]:
    """Return the distinct groups, by first appearance, and the place of each expert."""
    names = tuple(dict.fromkeys(groups))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[group] for group in groups], dtype=np.intp)


def normalised_weights(
    weights: ArrayLike | None, n_experts: int, name: str = "weights"
) -> Floats:
    """Prior weights that sum to one; uniform if none are given."""
    if not isinstance(n_experts, Integral) or n_experts < 1:
        raise ValueError(
            f"`n_experts` must be an integer of at least 1, got {n_experts=}; give one "
            "column of losses per expert."
        )
    if weights is None:
        return np.full(n_experts, 1.0 / n_experts)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n_experts,):
        raise ValueError(
            f"`{name}` must have shape ({n_experts},), got {w.shape}; give one weight "
            "per expert."
        )
    if not np.isfinite(w).all() or w.min() < 0 or w.sum() <= 0:
        raise ValueError(
            f"`{name}` must be finite and non-negative with a positive sum, got "
            f"{w.tolist()!r}; give a positive weight to each expert that may speak."
        )
    normalised: Floats = w / w.sum()
    return normalised
