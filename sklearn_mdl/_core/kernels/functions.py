"""Kernels that share the inner products from which they are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FIRST_DISTANCE = 1.0  # median squared distance if there are no distinct rows
MOST_COMPARED = 512  # the median is over distances of at most this many rows
ROUNDING = 1e-9  # rounding error of squared distances, relative to squared lengths


class Kernel(NamedTuple):
    """A kernel and its settings.

    Attributes
    ----------
    name : {"arc-cosine", "rbf", "linear", "polynomial"} or callable
        A callable takes two arrays of rows, like scikit-learn's kernels.
    depth : int
        Number of layers of the arc-cosine kernel.
    width : float
        Width of "rbf", in units of the median squared distance.
    gamma : float or None
        Factor of squared distances ("rbf") or of inner products ("polynomial"). If
        None, ``1 / (width * median)`` or 1, respectively.
    degree, coef0 : float
        Degree and constant of "polynomial".
    """

    name: str | Callable[[Any, Any], Any]
    depth: int = 1
    width: float = 1.0
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0

    @property
    def is_relative(self) -> bool:
        """True if the kernel depends on the median squared distance."""
        return self.name == "rbf" and self.gamma is None

    def values(self, pairs: Pairs) -> Tensor:
        """Return the kernel values (n, m) of pairs of rows."""
        if callable(self.name):
            if not len(pairs.other):
                return pairs.one.new_empty(len(pairs.one), 0)
            result = self.name(pairs.one.cpu().numpy(), pairs.other.cpu().numpy())
            return _matrix(result, len(pairs.one), len(pairs.other)).to(pairs.one)
        if self.name == "rbf":
            return torch.exp(-self._rate(pairs.distance) * pairs.squared_distances)
        if self.name != "arc-cosine":
            return self._of_products(pairs.products)
        one, other = (squares.sqrt() for squares in pairs.squares)
        return arc_cosine(pairs.products, one[:, None], other, self.depth)

    def diagonal(self, rows: Tensor) -> Tensor:
        """Return the kernel value (n,) of each row with itself."""
        if callable(self.name):
            if hasattr(self.name, "diag"):
                result = np.asarray(self.name.diag(rows.cpu().numpy()), np.float64)
                return torch.as_tensor(result).to(rows)
            parts = [self.values(Pairs(row[None], row[None], 1.0)) for row in rows]
            return torch.cat(parts)[:, 0] if parts else rows.new_empty(0)
        squares = rows.square().sum(1)
        if self.name == "rbf":
            return torch.ones_like(squares)
        return self._of_products(squares)  # layers of "arc-cosine" keep the norm

    def _of_products(self, products: Tensor) -> Tensor:
        """Return products of rows, or their polynomial if the kernel is one."""
        if self.name != "polynomial":
            return products
        gamma = 1.0 if self.gamma is None else self.gamma
        return (gamma * products + self.coef0) ** self.degree

    def _rate(self, distance: float) -> float:
        return 1 / (self.width * distance) if self.gamma is None else self.gamma


def _matrix(result: Any, n: int, m: int) -> Tensor:
    """Check and return the result (n, m) of a callable kernel.

    Raises
    ------
    ValueError
        If the result has another shape or is not numeric.
    """
    values: NDArray[np.float64] = np.empty(0)
    with suppress(TypeError, ValueError):
        values = np.asarray(result, np.float64)
    if values.shape != (n, m):
        is_array = values.size and values.ndim
        got = f"shape {values.shape}" if is_array else type(result).__name__
        raise ValueError(
            f"kernel must be a callable that returns shape ({n}, {m}) for {n} and {m} "
            f"rows, got {got}; if it compares two single rows, pass "
            "lambda A, B: pairwise_kernels(A, B, metric=kernel)"
        )
    return torch.as_tensor(values)


@dataclass(eq=False)
class Pairs:
    """Two sets of rows, with the quantities that their kernels share.

    Parameters
    ----------
    one, other : Tensor of shape (n, d) and (m, d), float64
    distance : float
        The median squared distance, which is the unit of widths.
    known : Tensor of shape (m,) or None
        Squared lengths of ``other`` if already computed.
    """

    one: Tensor
    other: Tensor
    distance: float
    known: Tensor | None = None

    @cached_property
    def products(self) -> Tensor:
        """Inner products (n, m)."""
        return self.one @ self.other.mT

    @cached_property
    def squared_distances(self) -> Tensor:
        """Squared Euclidean distances (n, m)."""
        one, other = self.squares
        return torch.add(one[:, None] + other, self.products, alpha=-2).clamp_min_(0)

    @cached_property
    def squares(self) -> tuple[Tensor, Tensor]:
        """Squared lengths of the rows, (n,) and (m,)."""
        other = self.other.square().sum(1) if self.known is None else self.known
        return self.one.square().sum(1), other


def arc_cosine(products: Tensor, one: Tensor, other: Tensor, depth: int) -> Tensor:
    """Compute the kernel of an infinitely wide ReLU network (arc-cosine, degree 1).

    Cho and Saul, 2009, Kernel methods for deep learning, NeurIPS, equations 1 and 6.

    Parameters
    ----------
    products : Tensor of shape (n, m)
        Inner products.
    one, other : Tensor of shape (n, 1) and (m,)
        Lengths of the rows, which the kernel preserves.
    depth : int
        Number of hidden layers.
    """
    lengths = one * other
    cosine = (products / lengths.clamp_min(1e-300)).clamp_(-1, 1)
    for _ in range(depth):
        angle = torch.acos(cosine)
        sine = (1 - cosine.square()).clamp_min_(0).sqrt_()
        cosine = (sine + (math.pi - angle) * cosine).div_(math.pi).clamp_(-1, 1)
    return lengths * cosine


def median_distance(rows: Tensor) -> float:
    """Return the median squared distance between some evenly spaced rows (n, d).

    If at least half of the pairs are of equal rows, whose distances are only rounding
    errors, the median is over the other pairs.
    """
    step = -(-len(rows) // MOST_COMPARED)
    some = rows[::step]
    places = torch.triu_indices(len(some), len(some), 1, device=rows.device)
    pairs = Pairs(some, some, 1.0)
    distances = pairs.squared_distances[places[0], places[1]]
    least = ROUNDING * pairs.squares[1].max()
    for known in (distances, distances[distances > least]):
        if len(known) and known.median() > least:
            return float(known.median())
    return FIRST_DISTANCE
