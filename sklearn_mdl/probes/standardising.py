"""Rows standardised block by block: no copy of all of them in float64 on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

Array = NDArray[Any]

SCALED_AT_ONCE = 2**20  # numbers


def scaler_of(X: Array) -> StandardScaler:
    """Learn means and variances of rows (n, d), in float64."""
    scaler = StandardScaler()
    for rows in _blocks(X):
        scaler.partial_fit(X[rows].astype(np.float64))
    return scaler


def scaled_array(X: Array, scaler: StandardScaler | None, dtype: Any) -> Array:
    """Copy rows (n, d) in a scaling, or as they are, as numbers of a type."""
    if scaler is None:
        return X.astype(dtype)
    found: Array = np.empty_like(X, dtype, subok=False)
    for rows, scaled in _scaled_blocks(X, scaler):
        found[rows] = scaled
    return found


def scaled_tensor(
    X: Array, scaler: StandardScaler | None, device: torch.device
) -> torch.Tensor:
    """Copy rows (n, d) in a scaling, or as they are, to a device as float32."""
    if scaler is None:
        given = np.ascontiguousarray(X)  # torch takes none that go backwards
        return torch.tensor(given, dtype=torch.float32, device=device)
    found = torch.empty(X.shape, dtype=torch.float32, device=device)
    for rows, scaled in _scaled_blocks(X, scaler):
        found[rows] = torch.from_numpy(scaled)
    return found


def _scaled_blocks(X: Array, scaler: StandardScaler) -> Iterator[tuple[slice, Array]]:
    for rows in _blocks(X):
        yield rows, scaler.transform(X[rows].astype(np.float64))


def _blocks(X: Array) -> Iterator[slice]:
    """Yield slices of rows, of which float64 copies take little room."""
    step = max(1, SCALED_AT_ONCE // X.shape[1])
    for start in range(0, len(X), step):
        yield slice(start, start + step)
