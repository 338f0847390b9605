"""Cells of a ranking, each with the results of an encoder on a dataset in one order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from sklearn_mdl._core.io.environment import environment_of
from sklearn_mdl._core.io.safetensors_io import read_archive
from sklearn_mdl._core.numerics import fixed_arithmetic, resolve_device
from sklearn_mdl._core.stream.schedule import group_starts
from sklearn_mdl._core.validation import damaged, invalid
from sklearn_mdl.metrics import frequency_codelength, uniform_codelength
from sklearn_mdl.model_selection._file_names import stem_of
from sklearn_mdl.model_selection._tasks import Switcher, Task, draw_order, switcher_of
from sklearn_mdl.readouts import Terms, terms_of
from sklearn_mdl.switcher import (
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    folders_below,
)

KEPT_ROWS = 2000  # maximum number of rows of a stored posterior
NOT_IN_JSON = ("source", "groups")  # fields of a cell that its JSON omits


class Trace(NamedTuple):
    """Codelength, posterior and correctness at each example of a cell.

    Attributes
    ----------
    codelengths : ndarray of shape (n_samples,)
        Codelength of each example in nats, in the order of the run.
    steps : ndarray of shape (n_rows,)
        Number of examples seen before each row of the posterior. At most 2,000 rows are
        kept.
    posterior : ndarray of shape (n_rows, n_architectures)
        Posterior over readouts at each of these steps, summed by architecture.
    correct : ndarray of shape (n_samples,), uint8
        1 where a label was predicted correctly before it was observed, else 0. Empty
        for real-valued labels.
    """

    codelengths: np.ndarray
    steps: np.ndarray
    posterior: np.ndarray
    correct: np.ndarray = np.empty(0, np.uint8)

    def read(self) -> Trace:
        """Return the trace itself, like `TraceFile.read`."""
        return self


class TraceFile(NamedTuple):
    """The trace of a cell, stored in a file.

    Attributes
    ----------
    path : Path
    key : str
        Digest of the cell's identity.
    """

    path: Path
    key: str

    def read(self) -> Trace:
        """Return the trace.

        Raises
        ------
        FileNotFoundError
            If the file does not exist.
        ValueError
            If the file is damaged or belongs to another cell.
        """
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path} is missing; call fit again")
        arrays, about = read_archive(self.path, "trace")
        if about != {"key": self.key} or arrays.keys() != set(Trace._fields):
            raise damaged(self.path, "this cell's trace", "it has another", "delete it")
        return Trace(**arrays)


@dataclass(frozen=True, eq=False)
class Cell:
    """The result of one run over one encoder's features.

    Attributes
    ----------
    dataset, encoder : str
    order : int
        Index of the random order, from 0.
    seed : int
        Seed of the orders, initial weights and replay.
    n_samples, n_features, n_classes : int
        Sizes of the data. ``n_classes`` is 0 for real-valued labels.
    codelength : float
        Nats for all labels, using the pool if there is one.
    switching_codelength : float
        Nats for all labels without the pool, as in the paper (Li et al., 2023).
    pool_kinds : list of str
        Kinds of readouts that are pooled. Empty without a pool.
    accuracy : float
        Share of labels that were predicted correctly before they were observed, or NaN
        for real-valued labels.
    frequency : float
        Nats under a code that only uses label frequencies. For real-valued labels, nats
        under a Gaussian that learns online.
    labels_alone : float
        Nats under a code that predicts each label from earlier labels only, as in
        ``reference_codelengths_`` of the switcher. For real-valued labels, this is
        `frequency`.
    readouts : dict of str to float
        Codelength of every readout, in nats.
    streams : list of int
        Distinct values of the readouts' ``n_replay_streams``.
    scalings : list of str
        Distinct values of the readouts' ``scaling``.
    alone : dict of str to number or list
        ``n_readouts``, ``streams`` and ``scalings`` that this encoder would have if it
        were scored on its own. Empty if these equal the settings of the cell.
    diverged : list of str
        Readouts whose predictions stopped being finite.
    notes : dict of str to list of str
        Exceptions and warnings of wrapped classifiers, keyed by readout.
    permutations : dict of str to float
        ``n``, ``codelength``, ``mean_null_codelength`` and ``p_value`` of a permutation
        test, which uses only kernel readouts. Empty without a test.
    mean_posterior : dict of str to float
        Posterior averaged over examples and summed by architecture.
    data : dict of str to str
        SHA-256 digests of the features, the labels and any groups.
    environment : dict
        Versions, machine, device and dtype used for the run.
    seconds : float
        Wall time of the run.
    codelengths, steps, posterior : ndarray
        The trace: nats per example (n_samples,) in the order of the run, the number of
        examples seen before each row of the posterior (n_rows,), and the posterior over
        architectures (n_rows, n_architectures).
    groups : ndarray of shape (n_samples,) or None
        Group of each row, in the order of the dataset. Files do not store groups.
    """

    dataset: str
    encoder: str
    order: int
    seed: int
    n_samples: int
    n_features: int
    n_classes: int
    codelength: float
    switching_codelength: float
    pool_kinds: list[str]
    accuracy: float
    frequency: float
    labels_alone: float
    readouts: dict[str, float]
    streams: list[int]
    scalings: list[str]
    alone: dict[str, object]
    diverged: list[str]
    notes: dict[str, list[str]]
    permutations: dict[str, float]
    mean_posterior: dict[str, float]
    data: dict[str, str]
    environment: dict[str, object]
    seconds: float
    source: Trace | TraceFile = field(repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)

    @property
    def uniform(self) -> float:
        """Nats under the uniform code, or `frequency` for real-valued labels."""
        if self.is_real:
            return self.frequency
        return uniform_codelength(self.n_samples, self.n_classes)

    @property
    def is_real(self) -> bool:
        """True if labels are real-valued, which are coded with densities."""
        return self.n_classes == 0

    @property
    def n_readouts(self) -> int:
        """Number of readouts."""
        return len(self.readouts)

    @property
    def terms(self) -> Terms:
        """Settings of the readouts, the same for all encoders on this dataset."""
        return Terms(self.n_readouts, tuple(self.streams), tuple(self.scalings))

    @property
    def per_example(self) -> float:
        """Nats per example."""
        return self.codelength / self.n_samples

    @property
    def savings_per_example(self) -> float:
        """Nats per example saved relative to the uniform code."""
        return (self.uniform - self.codelength) / self.n_samples

    @property
    def savings_over_labels(self) -> float:
        """Nats per example saved relative to `labels_alone`."""
        return (self.labels_alone - self.codelength) / self.n_samples

    @property
    def permutation_p_value(self) -> float | None:
        """P-value of the permutation test, or None if there was no test."""
        return self.permutations.get("p_value")

    @property
    def architectures(self) -> list[str]:
        """Names of the columns of the posterior."""
        return list(self.mean_posterior)

    @property
    def codelengths(self) -> np.ndarray:
        """Codelength of each example in nats, in the order of the run, (n_samples,)."""
        return self.source.read().codelengths

    @property
    def starts(self) -> np.ndarray:
        """Position of each group's first row in the run, or of every row if ungrouped.

        Raises
        ------
        FileNotFoundError
            If rows have groups, but the cell was read from a file, which omits groups.
        """
        if self.groups is None and "groups" in (self.data or {}):
            raise FileNotFoundError("The groups of rows are missing; call fit again")
        if self.groups is None:
            return np.arange(self.n_samples)
        rows = draw_order(self.seed, self.order, self.n_samples, self.groups)
        return group_starts(self.groups[rows])

    @property
    def steps(self) -> np.ndarray:
        """Number of examples seen before each row of the posterior, (n_rows,)."""
        return self.source.read().steps

    @property
    def posterior(self) -> np.ndarray:
        """Posterior over architectures at each step, (n_rows, n_architectures)."""
        return self.source.read().posterior

    def kept(self) -> dict[str, object]:
        """Return a dictionary of all results except the trace and the groups."""
        names = [f.name for f in fields(self) if f.name not in NOT_IN_JSON]
        return {name: getattr(self, name) for name in names}

    def record(self) -> dict[str, object]:
        """Return the results from :meth:`kept` and derived measures, for JSON."""
        derived = "uniform", "per_example", "savings_per_example", "savings_over_labels"
        return {**self.kept(), **{name: getattr(self, name) for name in derived}}


def score_cell(task: Task, device: str | None = None) -> Cell:
    """Return the results of a run over the rows of a task in the task's order.

    Parameters
    ----------
    task : Task
    device : str or None
        Device of the run. If None, the run uses the switcher's device.

    Raises
    ------
    ValueError
        If the codelength is not finite, if the features, labels or groups have changed
        since the task was created, or if the switcher raises ValueError.
    """
    start = time.perf_counter()
    switcher = _switcher_of(task, device)
    rows = draw_order(task.seed, task.order, len(task.y), task.groups)
    X, y = task.X[rows], task.y[rows]  # copies that no other code can change
    options = {} if task.groups is None else {"groups": task.groups[rows]}
    task.check_content()
    switcher.fit(X, y, **options)
    seconds = time.perf_counter() - start
    if not np.isfinite(switcher.codelength_):
        cure = "add DummyReadout() (DummyReadoutRegressor() for reals) to the readouts"
        raise invalid("A codelength", "finite", float(switcher.codelength_), cure)
    trace, mean_posterior = _by_architecture(switcher)
    totals = switcher.readout_codelengths_.tolist()
    terms = terms_of(switcher.readouts_)
    n_samples, n_features = task.X.shape
    n_classes, accuracy, notes = 0, np.nan, dict[str, list[str]]()
    reference = labels_alone = float(switcher.reference_codelengths_.sum())
    if not isinstance(switcher, MDLReadoutSwitcherRegressor):
        n_classes, notes = len(switcher.classes_), switcher.readout_notes_
        accuracy = float(switcher.measures().accuracy)
        trace = trace._replace(correct=switcher.correct_.astype(np.uint8))
        reference = frequency_codelength(task.y, n_classes)
    return Cell(
        dataset=task.dataset,
        encoder=task.encoder,
        order=task.order,
        seed=task.seed,
        n_samples=n_samples,
        n_features=n_features,
        n_classes=n_classes,
        codelength=float(switcher.codelength_),
        switching_codelength=float(switcher.switching_codelength_),
        pool_kinds=[str(name) for name in switcher.pool_kinds_],
        accuracy=accuracy,
        frequency=reference,
        labels_alone=labels_alone,
        readouts=dict(zip(switcher.readout_names_, totals, strict=True)),
        streams=list(terms.streams),
        scalings=list(terms.scalings),
        alone=task.terms_alone(terms),
        diverged=switcher.diverged_readouts_,
        notes=notes,
        permutations=_test_summary(switcher, task.n_permutations),
        mean_posterior=mean_posterior,
        data=dict(task.data),
        environment=environment(resolve_device(switcher.device)),
        seconds=seconds,
        source=trace,
    )


def _test_summary(
    switcher: MDLReadoutSwitcher, n_permutations: int | None
) -> dict[str, float]:
    """Return a summary of a permutation test, or {} if no test was requested."""
    if n_permutations is None:
        return {}
    # draw_order has already shuffled the rows.
    test = switcher.permutation_test(n_permutations, shuffled=True)
    return {
        "n": float(n_permutations),
        "codelength": test.codelength,
        "mean_null_codelength": float(test.null_codelengths.mean()),
        "p_value": test.p_value,
    }


@lru_cache(maxsize=8)
def environment(device: torch.device) -> dict[str, object]:
    """Return a cached description of this process's environment."""
    with fixed_arithmetic():  # as in the run
        return environment_of(device)


def _switcher_of(task: Task, device: str | None) -> Switcher:
    switcher = switcher_of(task)
    if device is not None and switcher.n_jobs != "processes":  # each chooses its own
        switcher.set_params(device=device)
    folder = stem_of(task.dataset, task.encoder, task.order)
    return switcher.set_params(**folders_below(switcher, folder))


def _by_architecture(switcher: Switcher) -> tuple[Trace, dict[str, float]]:
    """Return the trace, and the mean posterior of each architecture."""
    kinds = [readout.architecture for readout in switcher.readouts_]
    names = list(dict.fromkeys(kinds))
    is_of_kind = np.array([[float(kind == name) for name in names] for kind in kinds])
    posterior = switcher.posterior_ @ is_of_kind
    mean = dict(zip(names, posterior.mean(0).tolist(), strict=True))
    steps = kept_steps(len(posterior))
    return Trace(np.array(switcher.codelengths_), steps, posterior[steps]), mean


def kept_steps(n_samples: int) -> np.ndarray:
    """Return the rows of a posterior to keep, including the first and the last.

    Rows are kept more densely at the start of a long posterior.
    """
    if n_samples <= KEPT_ROWS:
        return np.arange(n_samples)
    half = KEPT_ROWS // 2
    late = np.linspace(0, n_samples - 1, half)
    early = np.geomspace(1, n_samples, half) - 1
    return np.unique(np.rint(np.concatenate([early, late])).astype(np.int64))
