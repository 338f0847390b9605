"""Arrays of a ranking's results, indexed by dataset, encoder and order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.display import check_choice
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._certainty import Floats, Sample, sample_of, tied
from sklearn_mdl.ranking import average_ranks
from sklearn_mdl.readouts import Terms


class CellArrays:
    """Results indexed by dataset, encoder and order, and their means over orders.

    Subclasses define ``alpha`` and ``cells_``. Cells must be grouped by dataset and
    encoder, and sorted by order.
    """

    cells_: list[Cell]
    alpha: float

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

        An entry is NaN if the encoder was not scored in that order.
        """
        return self._by_order("codelength")

    @property
    def n_orders_(self) -> np.ndarray:
        """Number of orders scored for each encoder, (n_datasets, n_encoders)."""
        return np.asarray(np.isfinite(self.order_codelengths_).sum(-1))

    @property
    def codelengths_(self) -> np.ndarray:
        """Mean codelength over orders, (n_datasets, n_encoders), in nats.

        If encoders were scored in different numbers of orders, the means are adjusted
        to be comparable, as described in :class:`RepresentationScorer`. From the lowest
        mean on, means above it by less than 0.001 nats (rounding errors) become equal.
        """
        return tied(paired_means(self.order_codelengths_))

    @property
    def switching_codelengths_(self) -> np.ndarray:
        """Codelengths without the pool (as in the paper), (n_datasets, n_encoders)."""
        return tied(paired_means(self._by_order("switching_codelength")))

    @property
    def accuracies_(self) -> np.ndarray:
        """Share of labels predicted correctly online, (n_datasets, n_encoders).

        NaN for real-valued labels.
        """
        return paired_means(self._by_order("accuracy"))

    @property
    def average_ranks_(self) -> np.ndarray:
        """Mean over datasets of the rank by codelength, (n_encoders,). 1 is best."""
        return average_ranks(self.codelengths_)

    @property
    def positive_codelengths_(self) -> np.ndarray:
        """Codelengths whose ratios are meaningful, (n_datasets, n_encoders).

        For classes, these are the codelengths. Codelengths of real-valued labels may be
        negative and depend on the unit of the labels, but their differences do not
        depend on the unit. So for real-valued labels, the difference from the shortest
        code is divided by the number of examples and exponentiated.
        """
        lengths = self.codelengths_.copy()
        for row, cell in zip(lengths, self.first_cells_, strict=True):
            if cell.is_real:
                row[:] = np.exp((row - row.min()) / cell.n_samples)
        return lengths

    @property
    def codelength_samples_(self) -> Iterator[Sample]:
        """Codelengths on each dataset, and their variation over rows and orders."""
        for nats, cells in zip(self.codelengths_, self._groups(), strict=True):
            yield sample_of(cells, nats)

    def cells_by_encoder(self) -> dict[tuple[str, str], list[Cell]]:
        """Return the cells for each (dataset, encoder), sorted by order."""
        names = product(self.dataset_names_, self.encoder_names_)
        groups: dict[tuple[str, str], list[Cell]] = {pair: [] for pair in names}
        for cell in self._ranked:
            groups[cell.dataset, cell.encoder].append(cell)
        return groups

    def _by_order(self, name: str) -> np.ndarray:
        groups = list(self.cells_by_encoder().values())
        table = np.full((len(groups), max(map(len, groups))), np.nan)
        for row, cells in zip(table, groups, strict=True):
            row[: len(cells)] = [getattr(cell, name) for cell in cells]
        return table.reshape(len(self.dataset_names_), len(self.encoder_names_), -1)

    @property
    def is_pooled_(self) -> bool:
        """True if any cell pools readouts, so that its two codelengths differ."""
        return any(cell.pool_kinds for cell in self._ranked)

    @property
    def first_cells_(self) -> list[Cell]:
        """For each dataset, the cell of the first encoder in the first order."""
        firsts = {cell.dataset: cell for cell in reversed(self._ranked)}
        return [firsts[name] for name in self.dataset_names_]

    @property
    def sizes_(self) -> np.ndarray:
        """Number of labels of each dataset, (n_datasets, 1)."""
        return np.array([[cell.n_samples] for cell in self.first_cells_])

    @property
    def common_settings_notes_(self) -> dict[str, str]:
        """Notes on encoders that would have other settings if scored separately.

        Keys are names of datasets. Datasets without such encoders have no note.
        """
        notes = {
            name: _terms_note([c for c in self._ranked if c.dataset == name])
            for name in self.dataset_names_
        }
        return {name: note for name, note in notes.items() if note}

    def mean_posteriors(self) -> list[list[dict[str, float]]]:
        """Return each architecture's posterior, averaged over examples and orders.

        Returns
        -------
        shares : list of list of dict
            For each dataset and encoder, a mapping from architectures to probabilities.
        """
        groups = self.cells_by_encoder()
        return [
            [_mean_posterior(groups[name, encoder]) for encoder in self.encoder_names_]
            for name in self.dataset_names_
        ]

    def savings_per_example(self, reference: str = "uniform") -> np.ndarray:
        """Return the nats per example saved relative to a code without features.

        Parameters
        ----------
        reference : {"uniform", "frequency", "labels"}, default="uniform"
            The code without features. "uniform" gives all classes equal probability.
            "frequency" predicts each label by the class frequencies so far. "labels"
            predicts each label from all earlier labels of other groups (or of all rows
            without groups), and its codelength is averaged over orders. For real-valued
            labels, all three are the code of a Gaussian that learns online.

        Returns
        -------
        saved : ndarray of shape (n_datasets, n_encoders)
        """
        check_choice(reference, "reference", ("uniform", "frequency", "labels"))
        nats = [[self._reference(cell, reference)] for cell in self.first_cells_]
        return np.asarray((np.array(nats) - self.codelengths_) / self.sizes_)

    def _reference(self, first: Cell, reference: str) -> float:
        """Return the nats of a code without features, averaged over orders."""
        if not first.is_real and reference != "labels":
            return float(getattr(first, reference))
        own = self.cells_by_encoder()[first.dataset, first.encoder]
        return float(np.mean([cell.labels_alone for cell in own]))

    def _groups(self) -> Iterator[list[list[Cell]]]:
        """For each dataset, yield each encoder's cells in the orders that all share."""
        groups = iter(self.cells_by_encoder().values())
        for counts in self.n_orders_:
            yield [next(groups)[: counts.min()] for _ in counts]


def paired_means(table: Floats) -> Floats:
    """Average over orders, with an adjustment for encoders scored in fewer orders.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_encoders, n_orders)
        NaN for missing orders.

    Returns
    -------
    means : ndarray of shape (n_datasets, n_encoders)
        The complete encoders on a dataset are those scored in the most orders. Their
        means are over these orders. For any other encoder, its mean difference from the
        complete encoders is added to their mean. This difference is taken over the
        orders in which the encoder was scored.
    """
    means: Floats = table.mean(-1)
    for own, own_means in zip(table, means, strict=True):
        is_missing = np.isnan(own)
        if is_missing.all():  # for example, accuracies of real labels
            continue
        is_complete = is_missing.sum(-1) == is_missing.sum(-1).min()
        by_order = own[is_complete].mean(0)
        scored = ~np.isnan(by_order)
        for e in np.flatnonzero(np.isnan(own_means)):
            above = (own[e] - by_order)[~is_missing[e]].mean()
            own_means[e] = by_order[scored].mean() + above
    return means


def _terms_note(cells: Sequence[Cell]) -> str:
    """Describe how common settings affect encoders, or return "" if they do not.

    Parameters
    ----------
    cells : sequence of Cell
        Cells of one dataset.
    """
    changed = {cell.encoder: cell for cell in cells if cell.alone}
    if not changed:
        return ""
    widest = max(cells, key=lambda cell: cell.n_features)
    first = min(changed.values(), key=lambda cell: cell.n_features)
    more = f". {len(changed) - 1} more would also differ" if len(changed) > 1 else ""
    return (
        f"{widest.dataset}: all encoders use the readouts of the encoder with the most "
        f"features, {widest.encoder} ({widest.n_features} features): {widest.terms}. "
        f"Scored separately, {first.encoder} ({first.n_features} features) would have "
        f"{Terms.from_json(first.alone)}{more}"
    )


def _mean_posterior(cells: Sequence[Cell]) -> dict[str, float]:
    orders = [cell.mean_posterior for cell in cells]
    names = dict.fromkeys(name for shares in orders for name in shares)
    return {
        name: float(np.mean([shares.get(name, 0.0) for shares in orders]))
        for name in names
    }
