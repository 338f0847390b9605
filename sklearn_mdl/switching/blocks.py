"""Losses in blocks that are small next to memory, whatever they come from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Losses = NDArray[np.floating]
Number = TypeVar("Number", bound=np.generic)

# Numbers of a block: its float64 copy and temporaries then stay in cache.
_BLOCK = 2**19


def loss_blocks(losses: ArrayLike | Iterator[ArrayLike]) -> Iterator[Losses]:
    """Cut losses, an array or an iterator of arrays, into small blocks.

    Parameters
    ----------
    losses : array-like of shape (N, K), or iterator of array-like of shape (n, K)
        Loss of each expert at each step, in nats. An array may be memory-mapped: it is
        read once and never held whole.

    Yields
    ------
    block : ndarray of shape (n, K)
        Its values are not checked. The first one is empty and tells ``K``.

    Raises
    ------
    ValueError
        If a shape is wrong, or an iterator has nothing to give.
    """
    if not isinstance(losses, Iterator):
        losses = iter([losses])
    n_experts = None
    for part in losses:
        array = np.asanyarray(part)
        if array.ndim != 2 or array.shape[1] == 0:
            raise ValueError(_shape_message("n_experts", array))
        if n_experts is None:
            n_experts = array.shape[1]
            yield np.empty((0, n_experts))
        if array.shape[1] != n_experts:
            raise ValueError(_shape_message(str(n_experts), array))
        yield from cut(array)
    if n_experts is None:
        raise ValueError(
            "`losses` must hold at least one block, got an iterator without any; was "
            "it read before?"
        )


def cut(array: NDArray[Number]) -> Iterator[NDArray[Number]]:
    """Cut an array (N,) or (N, K) into blocks of rows."""
    n_rows = max(1, min(1024, _BLOCK // max(1, math.prod(array.shape[1:]))))
    for start in range(0, len(array), n_rows):
        yield array[start : start + n_rows]


def loss_array(losses: ArrayLike) -> Losses:
    """Losses that can be read more than once: an array of shape (N, K), unchecked."""
    if isinstance(losses, Iterator):
        raise TypeError(
            "`losses` must be an array of shape (n_steps, n_experts), since they are "
            "read more than once, got an iterator; pass an array, or a memory map."
        )
    array = np.asanyarray(losses)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(_shape_message("n_experts", array))
    return array


def checked_losses(losses: ArrayLike, n_experts: int) -> Losses:
    """Losses as a floating array of shape (n, K) without NaN or minus infinity."""
    array = np.asarray(losses)
    if array.ndim != 2 or array.shape[1] != n_experts:
        raise ValueError(_shape_message(str(n_experts), array))
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    # The minimum is NaN if any loss is: one pass, no mask as large as the losses.
    lowest = array.min(initial=math.inf)
    if not lowest > -math.inf:
        raise ValueError(
            "`losses` must be numbers in nats or plus infinity, got a smallest value "
            f"of {float(lowest)!r}; look for the expert whose probabilities are wrong."
        )
    return array


def _shape_message(n_experts: str, array: NDArray[np.generic]) -> str:
    return (
        f"`losses` must have shape (n_steps, {n_experts}), got {array.shape}; give one "
        "row per step and one column per expert."
    )
