"""How much codelengths move from one order of the data to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from sklearn_mdl.ranking.pairs import Pairs, checked_pairs
from sklearn_mdl.ranking.tables import Floats, check_fraction


@dataclass(frozen=True, eq=False)
class OrderSpread:
    """Codelengths over orders.

    Attributes
    ----------
    mean : ndarray of shape (n_datasets, n_encoders)
        Mean codelength, in nats.
    std : ndarray of shape (n_datasets, n_encoders)
        Standard deviation over orders (of the orders, not of their mean), in nats.
    n_orders : int
    """

    mean: Floats
    std: Floats
    n_orders: int

    @property
    def relative(self) -> Floats:
        """Standard deviation as a share of the mean, (n_datasets, n_encoders)."""
        share: Floats = self.std / self.mean
        return share


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """Differences of codelengths of pairs of encoders, order by order.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        First and second encoder of each pair, as columns of the table.
    mean : ndarray of shape (n_pairs, n_datasets)
        Mean over orders of first minus second, in nats: below zero the first encoder
        has the shorter code.
    std : ndarray of shape (n_pairs, n_datasets)
        Standard deviation over orders.
    lower, upper : ndarray of shape (n_pairs, n_datasets)
        Bounds of the interval of the mean over all orders there could be.
    level : float
        Level of each interval by itself.
    n_orders : int
    """

    pairs: Pairs
    mean: Floats
    std: Floats
    lower: Floats
    upper: Floats
    level: float
    n_orders: int


def order_spread(codelengths: ArrayLike) -> OrderSpread:
    """Return means and standard deviations over orders.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders, n_orders)
        In nats, at least two orders.

    Raises
    ------
    ValueError
        If there is one order.
    """
    table = _checked(codelengths)
    return OrderSpread(table.mean(-1), table.std(-1, ddof=1), table.shape[-1])


def paired_differences(
    codelengths: ArrayLike,
    *,
    level: float = 0.9,
    pairs: ArrayLike | None = None,
    top_k: int | None = None,
) -> PairedDifferences:
    """Compare pairs of encoders on the orders that they share.

    What an order does to the one encoder it often does to the other; in the difference
    it cancels. The interval is Student's, ``mean -+ t sd / sqrt(n_orders)``, with
    ``n_orders - 1`` degrees of freedom: it speaks of other orders of the same examples,
    not of other examples.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders, n_orders)
        In nats, at least two orders, the same for all encoders.
    level : float, default=0.9
        Level of the intervals, between 0 and 1 exclusive.
    pairs : array-like of int of shape (n_pairs, 2), optional
        The pairs to compare, as columns; by default all, of at most 40 encoders.
    top_k : int, optional
        Compare only the so many encoders of the best average ranks.

    Raises
    ------
    ValueError
        If there is one order, or an argument is out of range.
    """
    table = _checked(codelengths)
    check_fraction("level", level, "give the level of the intervals, such as 0.9")
    chosen = checked_pairs(table.mean(-1), pairs, top_k)
    by_encoder = np.moveaxis(table, 1, 0)
    differences = by_encoder[chosen[:, 0]] - by_encoder[chosen[:, 1]]
    n_orders = table.shape[-1]
    mean, std = differences.mean(-1), differences.std(-1, ddof=1)
    half = t.ppf((1 + level) / 2, n_orders - 1) * std / np.sqrt(n_orders)
    return PairedDifferences(
        chosen, mean, std, mean - half, mean + half, float(level), n_orders
    )


def _checked(codelengths: Any) -> Floats:
    table = np.asarray(codelengths, dtype=np.float64)
    if table.ndim != 3 or table.shape[-1] < 2:
        raise ValueError(
            "What orders do takes codelengths of shape (n_datasets, n_encoders, "
            f"n_orders) with at least 2 orders, got {table.shape}; pass n_orders=3"
        )
    return table
