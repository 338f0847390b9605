"""One cell of a ranking: an encoder on a dataset in one order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from sklearn.base import clone

from sklearn_mdl.codelength import uniform_codelength


class Cell(NamedTuple):
    """What one walk over one encoder's features left.

    Attributes
    ----------
    dataset, encoder : str
    order : int
        Number of the random order.
    n_samples, n_features, n_classes : int
    codelength : float
        Nats for all labels.
    seconds : float
        Wall time of the walk.
    readouts : dict of str to float
        Codelength of every readout alone, in nats.
    diverged : list of str
        Readouts whose predictions stopped being finite.
    codelengths : ndarray of shape (n_samples,)
        Nats by example, in the order walked.
    posterior : ndarray of shape (n_samples, n_architectures)
        Posterior over readouts before each label, settings summed by architecture.
    architectures : list of str
    """

    dataset: str
    encoder: str
    order: int
    n_samples: int
    n_features: int
    n_classes: int
    codelength: float
    seconds: float
    readouts: dict[str, float]
    diverged: list[str]
    codelengths: np.ndarray
    posterior: np.ndarray
    architectures: list[str]

    @property
    def uniform(self) -> float:
        """Codelength of the uniform code, in nats."""
        return uniform_codelength(self.n_samples, self.n_classes)

    @property
    def per_example(self) -> float:
        """Nats per example."""
        return self.codelength / self.n_samples

    @property
    def saved_per_example(self) -> float:
        """Nats per example saved against the uniform code."""
        return (self.uniform - self.codelength) / self.n_samples

    def record(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON can hold it."""
        arrays = ("codelengths", "posterior", "architectures")
        found = {k: v for k, v in self._asdict().items() if k not in arrays}
        mean = self.posterior.mean(0)
        return {
            **found,
            "uniform": self.uniform,
            "per_example": self.per_example,
            "saved_per_example": self.saved_per_example,
            "mean_posterior": dict(zip(self.architectures, mean.tolist(), strict=True)),
        }


def draw_order(seed: int, order: int, n_samples: int) -> np.ndarray:
    """Return permutation number ``order``, the same for all encoders: cells pair."""
    return np.random.default_rng([seed, order]).permutation(n_samples)


def score_cell(
    switcher: Any,
    X: np.ndarray,
    y: np.ndarray,
    *,
    names: tuple[str, str],
    order: int,
    seed: int,
) -> Cell:
    """Walk a fresh copy of the switcher over the rows in one of the random orders."""
    rows = draw_order(seed, order, len(y))
    switcher = clone(switcher).set_params(random_state=seed, shuffle=False)
    if switcher.store != "memory":  # cells must not write each other's traces
        folder = quote(f"{names[0]}-{names[1]}-{order}", safe=" ")
        switcher.set_params(store=Path(switcher.store) / folder)
    start = time.perf_counter()
    switcher.fit(X[rows], y[rows])
    seconds = time.perf_counter() - start
    posterior, architectures = _by_architecture(switcher)
    totals = switcher.readout_codelengths_.tolist()
    return Cell(
        *names,
        order,
        len(y),
        X.shape[1],
        len(switcher.classes_),
        switcher.codelength_,
        seconds,
        dict(zip(switcher.readout_names_, totals, strict=True)),
        switcher.diverged_readouts_,
        np.array(switcher.codelengths_),
        posterior,
        architectures,
    )


def _by_architecture(switcher: Any) -> tuple[np.ndarray, list[str]]:
    kinds = [readout.architecture for readout in switcher.readouts_]
    names = list(dict.fromkeys(kinds))
    belongs = np.array(
        [[kind == name for name in names] for kind in kinds], dtype=float
    )
    return switcher.posterior_ @ belongs, names
