"""Checks of losses and prior weights, and iteration over blocks of losses."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.switching._checks import check_integer, invalid

Floats = NDArray[np.float64]
Losses = NDArray[np.floating]

# Maximum number of losses in a block. A float64 copy of a block and temporary arrays
# should fit in the cache.
_BLOCK = 2**19
WRONG = "correct the losses at np.argwhere(~(np.asarray(losses) > -np.inf))"


def loss_blocks(losses: ArrayLike | Iterator[ArrayLike]) -> Iterator[Losses]:
    """Cut an array of losses, or an iterator of such arrays, into small blocks.

    Parameters
    ----------
    losses : array-like of shape (N, K), or iterator of array-like of shape (n, K)
        Loss of each expert at each step, in nats. An array may be memory-mapped: it is
        read once, block by block.

    Yields
    ------
    block : ndarray of shape (n, K)
        Values are not checked. The first block is empty and has ``K`` columns.

    Raises
    ------
    ValueError
        If a shape is wrong, or an iterator yields no block.
    """
    if not isinstance(losses, Iterator):
        losses = iter([losses])
    n_experts = None
    for part in losses:
        array = _as_table(part, n_experts)
        if n_experts is None:
            n_experts = array.shape[1]
            yield np.empty((0, n_experts))
        yield from (array[rows] for rows in cut(array))
    if n_experts is None:
        raise ValueError(
            "`losses` must hold at least one block, got an iterator without any; pass "
            "a new iterator if this one was already read"
        )


def cut(array: NDArray[np.generic]) -> Iterator[slice]:
    """Yield the rows of the blocks into which an array (N,) or (N, K) is cut."""
    n_rows = max(1, min(1024, _BLOCK // max(1, math.prod(array.shape[1:]))))
    for start in range(0, len(array), n_rows):
        yield slice(start, min(start + n_rows, len(array)))


def loss_array(losses: ArrayLike) -> Losses:
    """Return losses as an array (N, K) with unchecked values; reject iterators."""
    if isinstance(losses, Iterator):
        raise TypeError(
            "`losses` must be an array that can be read more than once, got an "
            "iterator; pass np.vstack(list(losses))"
        )
    return _as_table(losses)


def checked_losses(
    losses: ArrayLike, n_experts: int, asleep: NDArray[np.bool_] | None = None
) -> Losses:
    """Return losses as a floating array (n, K); raise for minus infinity.

    NaN raises an error unless a mask (K,) of the sleeping experts is given. With a
    mask, NaN means that an expert has retired, so its later losses must be NaN too.
    """
    array = np.asarray(_as_table(losses, n_experts))
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    # The minimum is NaN if any loss is NaN, so this needs one pass and no large mask.
    lowest = array.min(initial=math.inf)
    if asleep is not None and (asleep.any() or math.isnan(lowest)):
        lowest = np.fmin.reduce(array, axis=None, initial=math.inf)
        _check_asleep(np.vstack([asleep, np.isnan(array)]))
    if not lowest > -math.inf:
        required = "numbers in nats or plus infinity"
        raise invalid("losses", required, float(lowest), WRONG)
    return array


def _check_asleep(asleep: NDArray[np.bool_]) -> None:
    """Raise if an expert wakes up, or if all sleep at a step of the mask (n + 1, K)."""
    woken = asleep[:-1] & ~asleep[1:]
    if woken.any():
        column = int(woken.any(axis=0).argmax())
        raise ValueError(
            "`losses` must stay NaN after an expert has retired, got a number after "
            f"NaN in column {column}; set all its later losses to np.nan"
        )
    if asleep[1:].all(axis=1).any():
        required = "numbers in nats for at least one expert at every step"
        raise invalid("losses", required, np.nan, "drop steps without a number")


def _as_table(losses: ArrayLike, n_experts: int | None = None) -> Losses:
    """Return losses as an array (n, K), with `n_experts` columns if given."""
    array = np.asanyarray(losses)
    if array.ndim != 2 or not array.shape[1] or n_experts not in (None, array.shape[1]):
        required = f"of shape (n_steps, {n_experts or 'n_experts'})"
        raise invalid("losses", required, array.shape, "pass one column per expert")
    return array


def kind_weights(kinds: Sequence[Hashable]) -> Floats:
    """Return prior weights that are uniform over kinds and within each kind.

    With weights uniform over experts, 576 settings of one architecture would outweigh
    the single setting of another.

    Parameters
    ----------
    kinds : sequence of length K
        The kind of each expert, such as the architecture of each readout.

    Returns
    -------
    weights : ndarray of shape (K,)
        Weights that sum to one.

    Examples
    --------
    >>> kind_weights(["linear", "mlp", "mlp", "mlp"])
    array([0.5       , 0.16666667, 0.16666667, 0.16666667])
    """
    _, members = group_columns(kinds)
    counts = np.bincount(members)
    return 1.0 / (len(counts) * counts[members])


def group_columns(
    kinds: Sequence[Hashable],
) -> tuple[tuple[Hashable, ...], NDArray[np.intp]]:
    """Return the distinct kinds in order of appearance, and an index (K,) into them."""
    names = tuple(dict.fromkeys(kinds))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[kind] for kind in kinds], dtype=np.intp)


def normalised_weights(
    weights: ArrayLike | None, n_experts: int, name: str = "weights"
) -> Floats:
    """Return prior weights that sum to one (uniform if none are given)."""
    check_integer("n_experts", n_experts, 1, "pass n_experts=2 for two experts")
    if weights is None:
        return np.full(n_experts, 1.0 / n_experts)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n_experts,):
        cure = f"pass an array of length {n_experts}, or None for the default weights"
        raise invalid(name, f"of shape ({n_experts},)", w.shape, cure)
    if not np.isfinite(w).all() or w.min() < 0 or w.max() <= 0:
        required = "finite and non-negative with a positive sum"
        cure = "replace negative, NaN and infinite weights, or pass None"
        raise invalid(name, required, w.tolist(), cure)
    if w.max() > np.finfo(np.float64).max / n_experts:  # the sum would overflow
        w = w / w.max()
    return np.asarray(w / w.sum())
