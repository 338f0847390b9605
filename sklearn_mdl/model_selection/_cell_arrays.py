"""Cells of a ranking as arrays: their numbers by dataset, encoder and order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.display import check_choice
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._differences import paired_means
from sklearn_mdl.model_selection._tables import terms_note


class CellArrays:
    """Numbers of cells by dataset, encoder and order, or as means over orders.

    Subclasses have ``cells_``, dataset by dataset, encoder by encoder, order by order.
    """

    cells_: list[Cell]

    @property
    def _ranked(self) -> list[Cell]:
        if not hasattr(self, "cells_"):
            check_is_fitted(self)
        return self.cells_

    @property
    def dataset_names_(self) -> list[str]:
        """Names of the datasets, in the order of the cells."""
        return list(dict.fromkeys(cell.dataset for cell in self._ranked))

    @property
    def encoder_names_(self) -> list[str]:
        """Names of the encoders, in the order of the cells."""
        return list(dict.fromkeys(cell.encoder for cell in self._ranked))

    @property
    def order_codelengths_(self) -> np.ndarray:
        """Codelengths in nats, (n_datasets, n_encoders, n_orders).

        NaN where an encoder has fewer orders than another.
        """
        return self._by_order("codelength")

    @property
    def n_orders_(self) -> np.ndarray:
        """Number of orders scored, (n_datasets, n_encoders)."""
        counts: np.ndarray = np.isfinite(self.order_codelengths_).sum(-1)
        return counts

    @property
    def codelengths_(self) -> np.ndarray:
        """Mean codelength over orders, (n_datasets, n_encoders), in nats.

        Where orders are unequal, encoders are compared on those that they share: see
        the class.
        """
        return paired_means(self.order_codelengths_)

    @property
    def switching_codelengths_(self) -> np.ndarray:
        """The same by switching alone, the paper's code, (n_datasets, n_encoders)."""
        return paired_means(self._by_order("switching_codelength"))

    @property
    def accuracies_(self) -> np.ndarray:
        """Share of labels predicted rightly beforehand, (n_datasets, n_encoders)."""
        return paired_means(self._by_order("accuracy"))

    def groups_of_cells(self) -> dict[tuple[str, str], list[Cell]]:
        """Cells by dataset and encoder, order by order."""
        groups: dict[tuple[str, str], list[Cell]] = {
            (dataset, encoder): []
            for dataset in self.dataset_names_
            for encoder in self.encoder_names_
        }
        for cell in self._ranked:
            groups[cell.dataset, cell.encoder].append(cell)
        return groups

    def _by_order(self, name: str) -> np.ndarray:
        groups = list(self.groups_of_cells().values())
        table = np.full((len(groups), max(map(len, groups))), np.nan)
        for row, cells in zip(table, groups, strict=True):
            row[: len(cells)] = [getattr(cell, name) for cell in cells]
        return table.reshape(len(self.dataset_names_), len(self.encoder_names_), -1)

    @property
    def is_pooled_(self) -> bool:
        """Whether any cell pools readouts, so that the two codes differ."""
        return any(cell.pool_groups for cell in self._ranked)

    @property
    def first_cells_(self) -> list[Cell]:
        """One cell of each dataset: its first encoder in its first order."""
        firsts = {cell.dataset: cell for cell in reversed(self._ranked)}
        return [firsts[name] for name in self.dataset_names_]

    @property
    def terms_notes_(self) -> dict[str, str]:
        """Datasets on which equal terms bind, and how; see the class."""
        notes = {
            name: terms_note([c for c in self._ranked if c.dataset == name])
            for name in self.dataset_names_
        }
        return {name: note for name, note in notes.items() if note}

    def saved_per_example(self, reference: str = "uniform") -> np.ndarray:
        """Nats per example saved against a code without features.

        Parameters
        ----------
        reference : {"uniform", "frequency", "labels"}, default="uniform"
            All classes alike, as often as observed so far, or the best that the labels
            before each predict, in the same orders; for real labels all three are a
            Gaussian that learns online.

        Returns
        -------
        saved : ndarray of shape (n_datasets, n_encoders)
        """
        check_choice(reference, "reference", ("uniform", "frequency", "labels"))
        nats = [[self._reference(cell, reference)] for cell in self.first_cells_]
        sizes = [[cell.n_samples] for cell in self.first_cells_]
        saved: np.ndarray = (np.array(nats) - self.codelengths_) / np.array(sizes)
        return saved

    def _reference(self, first: Cell, reference: str) -> float:
        """Nats of a code without features, a mean over orders where these matter."""
        if not first.is_real and reference != "labels":
            return float(getattr(first, reference))
        names = first.dataset, first.encoder
        own = [c for c in self._ranked if (c.dataset, c.encoder) == names]
        return float(np.mean([cell.labels_alone for cell in own]))

    def _groups(self) -> Iterator[list[list[Cell]]]:
        """Yield the cells of each dataset, by encoder and order that all share."""
        groups = iter(self.groups_of_cells().values())
        for counts in self.n_orders_:
            yield [next(groups)[: counts.min()] for _ in counts]
