"""Results of a comparison of protocols, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sklearn_mdl._core.extras import data_frame
from sklearn_mdl._core.tables import Table
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.baselines._base import Floats
from sklearn_mdl.baselines._protocols import (
    ACCURACY,
    DIMENSIONS,
    EVIDENCE,
    NATS,
    Protocol,
)
from sklearn_mdl.metrics import uniform_codelength

if TYPE_CHECKING:
    from pandas import DataFrame

DIGITS = {ACCURACY: 4, EVIDENCE: 4, NATS: 1, DIMENSIONS: 1}
Place = tuple[str, str, str]  # dataset, encoder, protocol


@dataclass(frozen=True)
class ProtocolComparison:
    """Values of several protocols for encoders on one or more datasets.

    ``print`` shows tables, and notebooks show a data frame.

    Attributes
    ----------
    dataset_names, encoder_names : tuple of str
        The names of references follow those of encoders. References have values, but no
        ranks. A single dataset, passed as X and y, has an empty name.
    protocols : tuple of Protocol
        Each has a ``name``, ``title``, ``unit`` and ``greater_is_better``.
    values : ndarray of shape (n_datasets, n_encoders, n_protocols)
        NaN where a protocol could not be computed.
    is_bound : ndarray of shape (n_datasets, n_encoders, n_protocols), bool
        True where a value is only a lower bound, because losses do not reach the
        target loss.
    seconds : ndarray of shape (n_datasets, n_encoders, n_protocols)
        Wall time, or NaN if nothing was measured. Protocols that share a run all have
        the time of this run.
    encoding_seconds : ndarray of shape (n_datasets, n_encoders)
        Wall time of encoding, or 0 for features that were passed.
    reasons : dict of (dataset, encoder, protocol) to str
        Why a value is missing.
    notes : dict of (dataset, encoder, protocol) to list of str
        Warnings of the computation.
    n_train, n_test, n_classes : tuple of int
        Numbers of train rows, test rows, and classes among the train rows, for each
        dataset.
    epsilons : tuple of float
        Target loss for surplus description length and sample complexity on each
        dataset, in nats per label.
    n_references : int
        Number of references, the last names in ``encoder_names``.
    """

    dataset_names: tuple[str, ...]
    encoder_names: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    values: Floats
    is_bound: NDArray[np.bool_]
    seconds: Floats
    encoding_seconds: Floats
    reasons: dict[Place, str]
    notes: dict[Place, list[str]]
    n_train: tuple[int, ...]
    n_test: tuple[int, ...]
    n_classes: tuple[int, ...]
    epsilons: tuple[float, ...]
    n_references: int = 0

    @property
    def ranks(self) -> Floats:
        """Ranks of encoders, with the shape of ``values``; 1 is best.

        Ties get the mean of their ranks. Ranks of references are NaN. If any encoder
        has no value for a protocol on a dataset, the ranks of all encoders are NaN
        there, because ranks among fewer encoders would not be comparable.
        """
        ranks = np.full(self.values.shape, np.nan)
        ranked = slice(len(self.encoder_names) - self.n_references)
        signs = [-1 if p.greater_is_better else 1 for p in self.protocols]
        # If any value is NaN, rankdata returns only NaN.
        ranks[:, ranked] = rankdata(signs * self.values[:, ranked], axis=1)
        return ranks

    @property
    def average_ranks(self) -> Floats:
        """Mean rank over datasets, (n_encoders, n_protocols).

        A mean is NaN if the rank is NaN on any dataset.
        """
        return np.asarray(self.ranks.mean(0))

    @property
    def average_places(self) -> Floats:
        """Places by average rank, (n_encoders, n_protocols). Ties share the best place.

        A place is NaN where the average rank is NaN.
        """
        ranks = self.average_ranks
        return np.asarray(rankdata(ranks, "min", axis=0, nan_policy="omit"))

    @property
    def heldout_accuracies(self) -> dict[str, dict[tuple[str, str], float]]:
        """Accuracies on test rows, keyed by protocol and then by (dataset, encoder)."""
        cells = list(product(self.dataset_names, self.encoder_names))
        return {
            name: dict(zip(cells, self.values[..., p].ravel().tolist(), strict=True))
            for p, (name, _, unit, _) in enumerate(self.protocols)
            if unit == ACCURACY and name != "selectivity"
        }

    def summary(self) -> str:
        """Return values, ranks, wall times and reasons for missing values as text."""
        n_datasets = len(self.dataset_names)
        blocks = [self._legend(), *map(self._text_of, range(n_datasets))]
        if n_datasets > 1:
            head = f"Average ranks over {n_datasets} datasets"
            table = self._text(self._average_columns(), self.average_ranks)
            blocks.append(f"{head}\n{table}")
        if self.reasons:
            lines = ["Not computed"]
            for place, reason in self.reasons.items():
                lines.append(f"  {', '.join(filter(None, place))}: {reason}")
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    __str__ = summary

    def frame(self, dataset: str | None = None) -> DataFrame:
        """Return values and ranks of one dataset as a pandas DataFrame.

        Parameters
        ----------
        dataset : str, default=None
            Name of the dataset. You can leave it out if there is only one.

        Returns
        -------
        frame : DataFrame
            One row per encoder, with columns NAME and "NAME rank" for each protocol.

        Raises
        ------
        ValueError
            If `dataset` is unknown, or if it is None and there are several datasets.
        ImportError
            If pandas is not installed.
        """
        return self._frame(self._value_columns(self._dataset(dataset)))

    def seconds_frame(self, dataset: str | None = None) -> DataFrame:
        """Return wall times of one dataset in seconds as a pandas DataFrame.

        Parameters
        ----------
        dataset : str, default=None
            Name of the dataset. You can leave it out if there is only one.

        Returns
        -------
        frame : DataFrame
            One row per encoder, with a column "encoding" and one for each protocol.
        """
        return self._frame(self._time_columns(self._dataset(dataset)))

    def average_frame(self) -> DataFrame:
        """Return average ranks over datasets, and places, as a pandas DataFrame.

        Returns
        -------
        frame : DataFrame
            One row per encoder. Each protocol has the average rank in column NAME and
            the place in "NAME #". Protocols that measure accuracies also have the mean
            over datasets in "NAME mean". This mean may order encoders differently than
            the average rank, since accuracies of different tasks are not comparable.
        """
        return self._frame(self._average_columns())

    def _dataset(self, name: str | None) -> int:
        names = list(self.dataset_names)
        if name is None and len(names) == 1:
            return 0
        if name not in names:
            known = [name or None for name in names]  # a single one may have no name
            required, cure = f"one of {known}", f"pass dataset={known[0]!r}"
            raise invalid("dataset", required, name, cure)
        return names.index(name)

    def _value_columns(self, d: int) -> Iterator[Column]:
        n_encoders = len(self.encoder_names)
        for p, (name, *_) in enumerate(self.protocols):
            texts = [value_text(self, d, e, p) for e in range(n_encoders)]
            yield Column(name, name, self.values[d, :, p], texts)
            yield Column.of(f"{name} rank", "#", self.ranks[d, :, p], "g")

    def _time_columns(self, d: int) -> Iterator[Column]:
        yield Column.of("encoding", "encoding", self.encoding_seconds[d], ".2f")
        for p, (name, *_) in enumerate(self.protocols):
            yield Column.of(name, name, self.seconds[d, :, p], ".2f")

    def _average_columns(self) -> Iterator[Column]:
        for p, (name, _, unit, _) in enumerate(self.protocols):
            if unit == ACCURACY:
                title, means = f"{name} mean", self.values[:, :, p].mean(0)
                yield Column.of(title, title, means, ".4f")
            yield Column.of(name, name, self.average_ranks[:, p], ".2f")
            yield Column.of(f"{name} #", "#", self.average_places[:, p], "g")

    def _text(self, columns: Iterable[Column], ranks: Floats) -> str:
        """Return a text table, with the best encoder by the first protocol on top."""
        columns = list(columns)
        texts = (column.texts for column in columns)
        rows = list(zip(self.encoder_names, *texts, strict=True))
        rows = [rows[e] for e in best_first(ranks)]
        return Table(["encoder", *(c.title for c in columns)], rows).to_text()

    def _frame(self, columns: Iterable[Column]) -> DataFrame:
        table: dict[str, object] = {"encoder": self.encoder_names}
        return data_frame(table | {c.name: c.values for c in columns}, "encoder")

    def _repr_html_(self) -> str:
        single = len(self.dataset_names) == 1
        return str((self.frame() if single else self.average_frame()).to_html())

    def _legend(self) -> str:
        better = {True: "greater is better", False: "smaller is better"}
        lines = ["Protocols (# is the rank of the encoder in the column to its left)"]
        lines += [
            f"  {p.name}: {p.title}, {p.unit}, {better[p.greater_is_better]}"
            for p in self.protocols
        ]
        if self.is_bound.any():
            bounds = "lower bounds, where losses do not reach the target loss (epsilon)"
            lines.append(f"  >= marks {bounds}")
        return "\n".join(lines)

    def _text_of(self, d: int) -> str:
        """Return the values, ranks and wall times on one dataset as text."""
        n_train, n_classes = self.n_train[d], self.n_classes[d]
        name = self.dataset_names[d]
        head = (
            f"{f'{name}: ' if name else ''}{n_train} rows learned and coded, "
            f"{self.n_test[d]} tested, {n_classes} classes, uniform code "
            f"{uniform_codelength(n_train, n_classes):.1f} nats"
        )
        if {p.name for p in self.protocols} & {"sdl", "esc"}:
            head += f", epsilon {self.epsilons[d]:.3f} nats"
        values = self._text(self._value_columns(d), self.ranks[d])
        seconds = self._text(self._time_columns(d), self.ranks[d])
        return f"{head}\n{values}\n\n  seconds\n{seconds}"


class Column(NamedTuple):
    """Column of a table, with the name in data frames and the title in text."""

    name: str
    title: str
    values: Floats
    texts: list[str]

    @classmethod
    def of(cls, name: str, title: str, values: Floats, style: str) -> Self:
        """Return a column whose values are all formatted in one style."""
        return cls(name, title, values, [number(value, style) for value in values])


def best_first(ranks: Floats) -> list[int]:
    """Return indices of encoders, sorted by ranks (n_encoders, n_protocols).

    Ties under a protocol are broken by the next protocol. Encoders without a rank under
    the first protocol are last.
    """
    return list(map(int, np.lexsort(ranks.T[::-1])))


def value_text(comparison: ProtocolComparison, d: int, e: int, p: int) -> str:
    """Return a value as text, with its unit's decimals, and a mark if it is a bound."""
    bound = ">= " if comparison.is_bound[d, e, p] else ""
    digits = DIGITS.get(comparison.protocols[p].unit, 0)
    return bound + number(comparison.values[d, e, p], f".{digits}f")


def number(value: float, style: str) -> str:
    """Return a number as text, with no sign on zero, or a dash for NaN."""
    return "-" if np.isnan(value) else format(value, f"z{style}")
