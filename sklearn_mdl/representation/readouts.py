"""Which readouts the representations prefer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np


def mean_posteriors(ranking: Any) -> list[list[dict[str, float]]]:
    """Posterior of every architecture, a mean over examples and orders.

    Returns
    -------
    shares : list of list of dict
        By dataset and encoder; from architectures to probabilities.
    """
    _, n_encoders, n_orders = ranking.order_codelengths_.shape
    cells = iter(ranking.cells_)
    return [
        [
            _mean([next(cells).mean_posterior for _ in range(n_orders)])
            for _ in range(n_encoders)
        ]
        for _ in ranking.dataset_names_
    ]


def preferred_readouts(ranking: Any) -> list[list[str]]:
    """Return the architecture of the largest mean, by dataset and encoder."""
    return [
        [max(shares, key=shares.__getitem__) for shares in row]
        for row in mean_posteriors(ranking)
    ]


def most_often(names: list[str]) -> str:
    """Return the name that comes most often, the first of those that do."""
    return Counter(names).most_common(1)[0][0]


def _mean(orders: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for shares in orders for name in shares)
    return {
        name: float(np.mean([shares.get(name, 0.0) for shares in orders]))
        for name in names
    }
