"""Statistics of a table of cells: ranks of encoders, tests, spread over orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl import ranking
from sklearn_mdl.display import check_choice, plot_extra
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._tables import (
    COLUMNS,
    as_latex,
    as_rows,
    as_text,
    mean_posteriors,
    terms_note,
)
from sklearn_mdl.model_selection._verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from pandas import DataFrame

RandomState = int | np.random.Generator | None
Names = Sequence[tuple[str, str]] | None


class RankStatistics:
    """Statistics of a ranking of encoders; codelengths are averaged over orders first.

    Subclasses have ``cells_``, dataset by dataset, encoder by encoder, order by order,
    and ``alpha``. Pairs of encoders are given by their names.
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
    def average_ranks_(self) -> np.ndarray:
        """Mean over datasets of the rank by codelength, (n_encoders,); 1 is best."""
        return ranking.average_ranks(self.codelengths_)

    @property
    def critical_difference_(self) -> float:
        """Least difference of average ranks that Nemenyi's test calls significant."""
        n_datasets, n_encoders = self.codelengths_.shape
        if n_encoders == 1:
            return float("nan")
        return ranking.nemenyi_critical_difference(n_encoders, n_datasets, self.alpha)

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

    def verdict(self) -> Verdict:
        """Say who wins, by how much, who is not told apart, and who is out.

        On a dataset encoders are compared row by row, with rows as a sample and with
        Bonferroni's correction; over datasets by Wilcoxon's test against the best
        average rank, with Holm's. Where datasets are too few for that test to find
        anything, an encoder is out if it is told apart from the winner on every one.

        Returns
        -------
        verdict : Verdict
            Prints as sentences; with ``best``, ``equivalent``, ``out`` and
            ``datasets``, which have winners and margins in nats.
        """
        return verdict_of(self)

    def friedman_test(self) -> ranking.FriedmanTest:
        """Test if any encoders differ; :func:`~sklearn_mdl.ranking.friedman_test`."""
        return ranking.friedman_test(self.codelengths_)

    def rank_groups(self) -> list[tuple[int, ...]]:
        """Return the maximal groups of encoders with indistinguishable ranks."""
        return ranking.rank_groups(self.average_ranks_, self.critical_difference_)

    def nemenyi_p_values(self) -> np.ndarray:
        """Probability of differences of average ranks as large, (n_enc., n_enc.)."""
        ranks, (n_datasets, n_encoders) = self.average_ranks_, self.codelengths_.shape
        return ranking.nemenyi_p_values(ranks[:, None] - ranks, n_encoders, n_datasets)

    def rank_intervals(
        self,
        *,
        level: float | None = None,
        n_resamples: int = 1000,
        random_state: RandomState = 0,
    ) -> ranking.RankIntervals:
        """Intervals of average ranks; see :func:`~sklearn_mdl.ranking.rank_intervals`.

        Parameters
        ----------
        level : float, default=None
            None takes ``1 - alpha``.
        n_resamples : int, default=1000
        random_state : int, Generator or None, default=0
        """
        return ranking.rank_intervals(
            self.codelengths_,
            level=1 - self.alpha if level is None else level,
            n_resamples=n_resamples,
            random_state=random_state,
        )

    def pairwise_wilcoxon(
        self, pairs: Names = None, *, top_k: int | None = None
    ) -> ranking.PairwiseWilcoxon:
        """Test pairs: :func:`~sklearn_mdl.ranking.pairwise_wilcoxon`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders; None takes all pairs, of at most 40 encoders.
        top_k : int, default=None
            Compare only this many encoders, those of the best average ranks.
        """
        return ranking.pairwise_wilcoxon(
            self.codelengths_, pairs=self._columns(pairs), top_k=top_k
        )

    def bayesian_signed_rank(
        self,
        pairs: Names = None,
        *,
        rope: float = 0.01,
        top_k: int | None = None,
        n_draws: int = 50_000,
        random_state: RandomState = 0,
    ) -> ranking.BayesianSignedRank:
        """Compare pairs: :func:`~sklearn_mdl.ranking.bayesian_signed_rank`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders; None takes all pairs, of at most 40 encoders.
        rope : float, default=0.01
            The share by which equivalent codelengths may differ.
        top_k : int, default=None
            Compare only this many encoders, those of the best average ranks.
        n_draws : int, default=50000
        random_state : int, Generator or None, default=0
        """
        return ranking.bayesian_signed_rank(
            self.codelengths_,
            rope=rope,
            pairs=self._columns(pairs),
            top_k=top_k,
            n_draws=n_draws,
            random_state=random_state,
        )

    def win_table(self, *, rope: float = 0.0) -> ranking.WinTable:
        """Count datasets won and lost; see :func:`~sklearn_mdl.ranking.win_table`."""
        return ranking.win_table(self.codelengths_, rope=rope)

    def order_spread(self) -> OrderSpread:
        """Means and standard deviations over orders, of which it takes two or more."""
        return order_spread(self.order_codelengths_)

    def paired_differences(
        self,
        pairs: Names = None,
        *,
        level: float | None = None,
        top_k: int | None = None,
    ) -> PairedDifferences:
        """Differences of pairs over the orders that they share, dataset by dataset.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders; None takes all pairs, of at most 40 encoders.
        level : float, default=None
            None takes ``1 - alpha``.
        top_k : int, default=None
            Compare only this many encoders, those of the best average ranks.

        Returns
        -------
        differences : PairedDifferences
            With ``pairs``, and ``mean``, ``std``, ``lower`` and ``upper`` of shape
            (n_pairs, n_datasets): first minus second encoder, in nats, so that below
            zero the first has the shorter code.
        """
        return paired_differences(
            self.order_codelengths_,
            level=1 - self.alpha if level is None else level,
            pairs=self._columns(pairs),
            top_k=top_k,
        )

    def preferred_readouts(self) -> list[list[str]]:
        """Architecture of the largest mean posterior, by dataset and encoder.

        The mean is over examples and orders, ``argmax_k 1/T sum_t p(k at t | labels
        before t)``, as in the paper's table of readout models (Li, Bornschein and
        Hutter, 2023, Section 4).
        """
        return [
            [max(shares, key=shares.__getitem__) for shares in row]
            for row in mean_posteriors(self)
        ]

    def saved_per_example(self, reference: str = "uniform") -> np.ndarray:
        """Nats per example saved against a code without features.

        Parameters
        ----------
        reference : {"uniform", "frequency"}, default="uniform"
            All classes alike, or as often as observed so far.

        Returns
        -------
        saved : ndarray of shape (n_datasets, n_encoders)
        """
        check_choice(reference, "reference", ("uniform", "frequency"))
        nats = [[getattr(cell, reference)] for cell in self.first_cells_]
        sizes = [[cell.n_samples] for cell in self.first_cells_]
        saved: np.ndarray = (np.array(nats) - self.codelengths_) / np.array(sizes)
        return saved

    def to_frame(self) -> DataFrame:
        """Return one row per cell as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns dataset, encoder, order, n_samples, n_features, n_classes,
            codelength, switching_codelength, per_example and saved_per_example (nats),
            accuracy (of predictions made before their label), rank within the dataset,
            best readout, number of readouts, their replay streams and scalings, and
            seconds. Both codelengths are equal where nothing is pooled.

        Raises
        ------
        ImportError
            If pandas is not installed; it belongs to the extra ``plot``.
        """
        return plot_extra("pandas").DataFrame(as_rows(self), columns=COLUMNS)

    def to_latex(self, table: str = "ranking") -> str:
        r"""Return a table for LaTeX, with the rules of booktabs and names escaped.

        Parameters
        ----------
        table : {"ranking", "codelengths", "switching", "readouts"}, default="ranking"
            Average ranks with their intervals; nats per example, the best of each
            dataset bold, as they are ranked or by switching alone; or preferred
            readouts.

        Returns
        -------
        text : str
            A ``tabular``, without ``table`` and caption.
        """
        return as_latex(self, table)

    def summary(self) -> str:
        """Return the ranking as text: the verdict, by dataset, then average ranks."""
        return as_text(self)

    def _columns(self, pairs: Names) -> list[list[int]] | None:
        """Return pairs of names as pairs of columns."""
        if pairs is None:
            return None
        places = {name: i for i, name in enumerate(self.encoder_names_)}
        unknown = [name for pair in pairs for name in pair if name not in places]
        if unknown:
            raise ValueError(
                f"`pairs` must name encoders of the ranking, got {unknown[0]!r}; there "
                f"are {self.encoder_names_}"
            )
        return [[places[name] for name in pair] for pair in pairs]


@dataclass(frozen=True, eq=False)
class Ranking(RankStatistics):
    """The ranking of encoders on some of the datasets.

    It has the statistics of a fitted :class:`RepresentationScorer`, and the displays
    take it in its place.

    Attributes
    ----------
    cells_ : list of Cell
        Dataset by dataset, encoder by encoder, order by order.
    alpha : float
        Level of tests and intervals.
    dataset_names_, encoder_names_, order_codelengths_, codelengths_, average_ranks_
        As those of the scorer.
    critical_difference_ : float
        As that of the scorer.
    """

    cells_: list[Cell]
    alpha: float = 0.1


@dataclass(frozen=True, eq=False)
class OrderSpread:
    """Codelengths over orders.

    Attributes
    ----------
    mean : ndarray of shape (n_datasets, n_encoders)
        Mean codelength, in nats.
    std : ndarray of shape (n_datasets, n_encoders)
        Standard deviation over orders (of the orders, not of their mean), in nats; NaN
        of one order.
    n_orders : int
        The most that any encoder has.
    """

    mean: ranking.Floats
    std: ranking.Floats
    n_orders: int

    @property
    def relative(self) -> ranking.Floats:
        """Standard deviation as a share of the mean, (n_datasets, n_encoders)."""
        share: ranking.Floats = self.std / self.mean
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
        Level of each interval by itself; bounds are NaN of one order.
    n_orders : int
        The most that any pair shares.
    """

    pairs: ranking.Pairs
    mean: ranking.Floats
    std: ranking.Floats
    lower: ranking.Floats
    upper: ranking.Floats
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
    _, std = _moments(table)
    return OrderSpread(paired_means(table), std, table.shape[-1])


def paired_differences(
    codelengths: ArrayLike,
    *,
    level: float = 0.9,
    pairs: ArrayLike | None = None,
    top_k: int | None = None,
) -> PairedDifferences:
    """Compare pairs of encoders on the orders that they share.

    The effect of an order is often the same for both encoders and cancels in the
    difference. The interval is Student's, ``mean -+ t sd / sqrt(n_orders)``, with
    ``n_orders - 1`` degrees of freedom: it holds for other orders of the same examples,
    not for other examples.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders, n_orders)
        In nats, at least two orders; NaN after the last one of an encoder.
    level : float, default=0.9
        Level of the intervals, between 0 and 1 exclusive.
    pairs : array-like of int of shape (n_pairs, 2), optional
        The pairs to compare, as columns; by default all, of at most 40 encoders.
    top_k : int, optional
        Compare only this many encoders, those of the best average ranks.

    Raises
    ------
    ValueError
        If there is one order, or an argument is out of range.
    """
    table = _checked(codelengths)
    ranking.check_fraction(
        "level", level, "give the level of the intervals, such as 0.9"
    )
    chosen = ranking.checked_pairs(paired_means(table), pairs, top_k)
    by_encoder = np.moveaxis(table, 1, 0)
    differences = by_encoder[chosen[:, 0]] - by_encoder[chosen[:, 1]]
    counts = np.isfinite(differences).sum(-1)
    mean, std = _moments(differences)
    half = t.ppf((1 + level) / 2, counts - 1) * std / np.sqrt(counts)
    return PairedDifferences(
        chosen, mean, std, mean - half, mean + half, float(level), int(counts.max())
    )


def paired_means(table: ranking.Floats) -> ranking.Floats:
    """Means over orders, of which some encoders have the first ones only.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_encoders, n_orders)
        NaN where there is no order.

    Returns
    -------
    means : ndarray of shape (n_datasets, n_encoders)
        Of an encoder with fewer orders than others: the mean in all orders of those
        that have all, and what it is above theirs in the orders that they share.
    """
    means: ranking.Floats = table.mean(-1)
    for own, found in zip(table, means, strict=True):
        lacks = np.isnan(own)
        full = lacks.sum(-1) == lacks.sum(-1).min()
        by_order = own[full].mean(0)
        there = ~np.isnan(by_order)
        for e in np.flatnonzero(np.isnan(found)):
            above = (own[e] - by_order)[~lacks[e]].mean()
            found[e] = by_order[there].mean() + above
    return means


def _moments(table: ranking.Floats) -> tuple[ranking.Floats, ranking.Floats]:
    """Means and standard deviations over the orders that are there."""
    counts = np.isfinite(table).sum(-1)
    filled = np.where(np.isnan(table), 0.0, table)
    mean = filled.sum(-1) / counts
    gaps = np.where(np.isnan(table), 0.0, table - mean[..., None])
    with np.errstate(invalid="ignore"):  # one order has none
        std = np.sqrt((gaps**2).sum(-1) / (counts - 1))
    return mean, std


def _checked(codelengths: ArrayLike) -> ranking.Floats:
    table = np.asarray(codelengths, dtype=np.float64)
    if table.ndim != 3 or table.shape[-1] < 2:
        raise ValueError(
            "Codelengths must have shape (n_datasets, n_encoders, n_orders) with at "
            f"least 2 orders, got {table.shape}; pass n_orders=3"
        )
    return table
