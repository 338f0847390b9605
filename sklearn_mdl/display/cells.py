"""What the displays take from a ranking: the courses of its codelengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.display import canvas


def best_first(scorer: Any) -> list[int]:
    """Return the numbers of the encoders of a ranking, the best average rank first."""
    ranks = canvas.fitted(scorer, "average_ranks_")
    order: list[int] = np.argsort(ranks, kind="stable").tolist()
    return order


def dataset_of(scorer: Any, dataset: str | None) -> str:
    """Return the name of a dataset of a ranking; None is the only one."""
    names = canvas.fitted(scorer, "dataset_names_")
    if dataset is None and len(names) == 1:
        dataset = names[0]
    if dataset not in names:
        raise ValueError(
            f"`dataset` must be one of {list(names)}, got {dataset!r}: name one."
        )
    return str(dataset)


def codelengths_of(scorer: Any, dataset: str) -> dict[str, NDArray[np.float64]]:
    """Return codelengths by encoder, (n_orders, n_samples), in nats, best rank first.

    Each order has its own labels at a step: their mean is the mean next-step loss.
    """
    cells = [cell for cell in scorer.cells_ if cell.dataset == dataset]
    names = [scorer.encoder_names_[i] for i in best_first(scorer)]
    return {
        name: np.stack([c.codelengths for c in cells if c.encoder == name])
        for name in names
    }
