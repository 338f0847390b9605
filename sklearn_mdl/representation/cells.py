"""One cell of a ranking: an encoder on a dataset in one order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from sklearn.base import clone

from sklearn_mdl.arithmetic import one_thread, resolve_device
from sklearn_mdl.codelength import frequency_codelength, uniform_codelength
from sklearn_mdl.conditions import environment_of
from sklearn_mdl.representation.naming import stem_of

KEPT_ROWS = 2000  # of a posterior


class Trace(NamedTuple):
    """What a cell keeps of its walk, by example.

    Attributes
    ----------
    codelengths : ndarray of shape (n_samples,)
        Nats by example, in the order walked.
    steps : ndarray of shape (n_rows,)
        Examples seen before each row of the posterior: all, of at most 2,000 examples.
    posterior : ndarray of shape (n_rows, n_architectures)
        Posterior over readouts before a label, settings summed by architecture.
    """

    codelengths: np.ndarray
    steps: np.ndarray
    posterior: np.ndarray


class TraceSource(Protocol):
    """Where a cell has its trace: in memory, or in a file."""

    def read(self) -> Trace:
        """Return the trace."""


class TraceInMemory(NamedTuple):
    """A trace that no file holds."""

    trace: Trace

    def read(self) -> Trace:
        """Return the trace."""
        return self.trace


@dataclass(frozen=True, eq=False)
class Cell:
    """What one walk over one encoder's features left.

    Attributes
    ----------
    dataset, encoder : str
    order : int
        Number of the random order.
    seed : int
        Of orders, initial weights and replay.
    n_samples, n_features, n_classes : int
    codelength : float
        Nats for all labels.
    frequency : float
        Nats under the code of label frequencies, which sees no features.
    readouts : dict of str to float
        Codelength of every readout alone, in nats.
    diverged : list of str
        Readouts whose predictions stopped being finite.
    notes : dict of str to list of str
        Complaints of wrapped classifiers.
    mean_posterior : dict of str to float
        Mean over examples of the posterior, settings summed by architecture.
    data : dict of str to str
        SHA-256 of features and labels as the walk reads them.
    environment : dict
        Versions, machine, device and dtype of the arithmetic.
    seconds : float
        Wall time of the walk.
    codelengths, steps, posterior : ndarray
        The trace; see :class:`Trace`.
    """

    dataset: str
    encoder: str
    order: int
    seed: int
    n_samples: int
    n_features: int
    n_classes: int
    codelength: float
    frequency: float
    readouts: dict[str, float]
    diverged: list[str]
    notes: dict[str, list[str]]
    mean_posterior: dict[str, float]
    data: dict[str, str]
    environment: dict[str, Any]
    seconds: float
    source: TraceSource = field(repr=False)

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

    @property
    def architectures(self) -> list[str]:
        """Names of the columns of the posterior."""
        return list(self.mean_posterior)

    @property
    def codelengths(self) -> np.ndarray:
        """Nats by example, in the order walked, (n_samples,)."""
        return self.source.read().codelengths

    @property
    def steps(self) -> np.ndarray:
        """Examples seen before each row of the posterior, (n_rows,)."""
        return self.source.read().steps

    @property
    def posterior(self) -> np.ndarray:
        """Posterior over architectures before a label, (n_rows, n_architectures)."""
        return self.source.read().posterior

    def kept(self) -> dict[str, Any]:
        """All that the walk left but the trace."""
        names = [f.name for f in fields(self) if f.name != "source"]
        return {name: getattr(self, name) for name in names}

    def record(self) -> dict[str, Any]:
        """Those, and what follows from them, as JSON can hold it."""
        return {
            **self.kept(),
            "uniform": self.uniform,
            "per_example": self.per_example,
            "saved_per_example": self.saved_per_example,
        }


class Task(NamedTuple):
    """All that a cell is made of.

    Attributes
    ----------
    dataset, encoder : str
    order, seed : int
    switcher : MDLReadoutSwitcher
        Copied for the walk.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    data : dict of str to str
        SHA-256 of X and y as the walk reads them.
    """

    dataset: str
    encoder: str
    order: int
    seed: int
    switcher: Any
    X: np.ndarray
    y: np.ndarray
    data: Mapping[str, str]


def draw_order(seed: int, order: int, n_samples: int) -> np.ndarray:
    """Return permutation number ``order``, the same for all encoders: cells pair."""
    return np.random.default_rng([seed, order]).permutation(n_samples)


def score_cell(task: Task, device: str | None = None) -> Cell:
    """Walk a fresh copy of the switcher over the rows in one of the random orders.

    Parameters
    ----------
    task : Task
    device : str or None
        Wins over the switcher's own.

    Raises
    ------
    ValueError
        If the codelength is not finite, beside what the walk raises.
    """
    start = time.perf_counter()
    switcher = _switcher_of(task, device)
    rows = draw_order(task.seed, task.order, len(task.y))
    switcher.fit(task.X[rows], task.y[rows])
    seconds = time.perf_counter() - start
    if not np.isfinite(switcher.codelength_):
        raise ValueError(
            f"A codelength must be finite, got {switcher.codelength_} nats; add a "
            "readout that gives every class some probability"
        )
    trace, mean_posterior = _by_architecture(switcher)
    totals = switcher.readout_codelengths_.tolist()
    n_classes = len(switcher.classes_)
    return Cell(
        task.dataset,
        task.encoder,
        task.order,
        task.seed,
        task.X.shape[0],
        task.X.shape[1],
        n_classes,
        float(switcher.codelength_),
        frequency_codelength(task.y, n_classes),
        dict(zip(switcher.readout_names_, totals, strict=True)),
        switcher.diverged_readouts_,
        switcher.readout_notes_,
        mean_posterior,
        dict(task.data),
        environment(resolve_device(switcher.device)),
        seconds,
        TraceInMemory(trace),
    )


@lru_cache(maxsize=8)
def environment(device: torch.device) -> dict[str, Any]:
    """Where this process does its arithmetic; it is asked once."""
    with one_thread():  # as the walk does
        return environment_of(device)


def _switcher_of(task: Task, device: str | None) -> Any:
    switcher = clone(task.switcher).set_params(random_state=task.seed, shuffle=False)
    if device is not None:
        switcher.set_params(device=device)
    folder = stem_of(task.dataset, task.encoder, task.order)
    if switcher.store != "memory":  # cells must not write each other's traces
        switcher.set_params(store=Path(switcher.store) / folder)
    if switcher.checkpoint is not None:
        switcher.set_params(checkpoint=Path(switcher.checkpoint) / folder)
    return switcher


def _by_architecture(switcher: Any) -> tuple[Trace, dict[str, float]]:
    """Add up the settings of each architecture; of long posteriors keep some rows."""
    kinds = [readout.architecture for readout in switcher.readouts_]
    names = list(dict.fromkeys(kinds))
    belongs = np.array(
        [[kind == name for name in names] for kind in kinds], dtype=float
    )
    posterior = switcher.posterior_ @ belongs
    mean = dict(zip(names, posterior.mean(0).tolist(), strict=True))
    steps = kept_steps(len(posterior))
    return Trace(np.array(switcher.codelengths_), steps, posterior[steps]), mean


def kept_steps(n_samples: int) -> np.ndarray:
    """Choose rows of a posterior: dense at first, first and last among them."""
    if n_samples <= KEPT_ROWS:
        return np.arange(n_samples)
    half = KEPT_ROWS // 2
    late = np.linspace(0, n_samples - 1, half)
    early = np.geomspace(1, n_samples, half) - 1
    return np.unique(np.rint(np.concatenate([early, late])).astype(np.int64))
