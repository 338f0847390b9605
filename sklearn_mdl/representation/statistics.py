"""A table of cells, and what can be said of its encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_mdl.ranking import (
    BayesianSignedRank,
    FriedmanTest,
    PairwiseWilcoxon,
    RankIntervals,
    WinTable,
    average_ranks,
    bayesian_signed_rank,
    friedman_test,
    nemenyi_critical_difference,
    nemenyi_p_values,
    pairwise_wilcoxon,
    rank_groups,
    rank_intervals,
    win_table,
)
from sklearn_mdl.representation.cells import Cell
from sklearn_mdl.representation.latex import as_latex
from sklearn_mdl.representation.orders import (
    OrderSpread,
    PairedDifferences,
    order_spread,
    paired_differences,
)
from sklearn_mdl.representation.readouts import preferred_readouts
from sklearn_mdl.representation.table import as_frame, as_text

Names = Sequence[tuple[str, str]] | None


class RankStatistics:
    """What a ranking says of its encoders; codelengths are averaged over orders first.

    Whoever derives from it has ``cells_``, ``dataset_names_``, ``encoder_names_``,
    ``order_codelengths_`` of shape (n_datasets, n_encoders, n_orders) and ``alpha``.
    Pairs of encoders are given by their names.
    """

    cells_: list[Cell]
    dataset_names_: list[str]
    encoder_names_: list[str]
    order_codelengths_: np.ndarray
    alpha: float

    def _check_ranked(self) -> None:
        """Refuse if there is no ranking yet."""

    @property
    def codelengths_(self) -> np.ndarray:
        """Mean codelength over orders, (n_datasets, n_encoders), in nats."""
        mean: np.ndarray = self.order_codelengths_.mean(-1)
        return mean

    @property
    def average_ranks_(self) -> np.ndarray:
        """Mean over datasets of the rank by codelength, (n_encoders,); 1 is best."""
        return average_ranks(self.codelengths_)

    @property
    def critical_difference_(self) -> float:
        """Least difference of average ranks that Nemenyi's test calls significant."""
        n_datasets, n_encoders, _ = self.order_codelengths_.shape
        if n_encoders == 1:
            return float("nan")
        return nemenyi_critical_difference(n_encoders, n_datasets, self.alpha)

    @property
    def first_cells_(self) -> list[Cell]:
        """One cell of each dataset: its first encoder in its first order."""
        _, n_encoders, n_orders = self.order_codelengths_.shape
        return self.cells_[:: n_encoders * n_orders]

    def friedman_test(self) -> FriedmanTest:
        """Test whether any encoders differ; see :func:`~sklearn_mdl.friedman_test`."""
        self._check_ranked()
        return friedman_test(self.codelengths_)

    def rank_groups(self) -> list[tuple[int, ...]]:
        """Return the maximal groups of encoders that their ranks cannot tell apart."""
        self._check_ranked()
        return rank_groups(self.average_ranks_, self.critical_difference_)

    def nemenyi_p_values(self) -> np.ndarray:
        """Probability of differences of average ranks as large, (n_enc., n_enc.)."""
        self._check_ranked()
        ranks, (n_datasets, n_encoders) = self.average_ranks_, self.codelengths_.shape
        return nemenyi_p_values(ranks[:, None] - ranks, n_encoders, n_datasets)

    def rank_intervals(
        self, *, level: float | None = None, n_resamples: int = 1000, random_state=0
    ) -> RankIntervals:
        """Intervals of average ranks; see :func:`~sklearn_mdl.rank_intervals`.

        Parameters
        ----------
        level : float, default=None
            None takes ``1 - alpha``.
        n_resamples : int, default=1000
        random_state : int, Generator or None, default=0
        """
        self._check_ranked()
        return rank_intervals(
            self.codelengths_,
            level=1 - self.alpha if level is None else level,
            n_resamples=n_resamples,
            random_state=random_state,
        )

    def pairwise_wilcoxon(
        self, pairs: Names = None, *, top_k: int | None = None
    ) -> PairwiseWilcoxon:
        """Test pairs by their log ratios; see :func:`~sklearn_mdl.pairwise_wilcoxon`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders; None takes all pairs, of at most 40 encoders.
        top_k : int, default=None
            Compare only the so many encoders of the best average ranks.
        """
        self._check_ranked()
        return pairwise_wilcoxon(
            self.codelengths_, pairs=self._columns(pairs), top_k=top_k
        )

    def bayesian_signed_rank(
        self,
        pairs: Names = None,
        *,
        rope: float = 0.01,
        top_k: int | None = None,
        n_draws: int = 50_000,
        random_state=0,
    ) -> BayesianSignedRank:
        """Ask who is better, or as good; :func:`~sklearn_mdl.bayesian_signed_rank`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders; None takes all pairs, of at most 40 encoders.
        rope : float, default=0.01
            The share by which equivalent codelengths may differ.
        top_k : int, default=None
            Compare only the so many encoders of the best average ranks.
        n_draws : int, default=50000
        random_state : int, Generator or None, default=0
        """
        self._check_ranked()
        return bayesian_signed_rank(
            self.codelengths_,
            rope=rope,
            pairs=self._columns(pairs),
            top_k=top_k,
            n_draws=n_draws,
            random_state=random_state,
        )

    def win_table(self, *, rope: float = 0.0) -> WinTable:
        """Count datasets won and lost; see :func:`~sklearn_mdl.win_table`."""
        self._check_ranked()
        return win_table(self.codelengths_, rope=rope)

    def order_spread(self) -> OrderSpread:
        """Means and standard deviations over orders, of which it takes two or more."""
        self._check_ranked()
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
            Compare only the so many encoders of the best average ranks.

        Returns
        -------
        differences : PairedDifferences
            With ``pairs``, and ``mean``, ``std``, ``lower`` and ``upper`` of shape
            (n_pairs, n_datasets): first minus second encoder, in nats, so that below
            zero the first has the shorter code.
        """
        self._check_ranked()
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
        self._check_ranked()
        return preferred_readouts(self)

    def saved_per_example(self, reference: str = "uniform") -> np.ndarray:
        """Nats per example saved against a code without features.

        Parameters
        ----------
        reference : {"uniform", "frequency"}, default="uniform"
            All classes alike, or as often as they came so far.

        Returns
        -------
        saved : ndarray of shape (n_datasets, n_encoders)
        """
        self._check_ranked()
        if reference not in ("uniform", "frequency"):
            raise ValueError(
                f"`reference` must be 'uniform' or 'frequency', got {reference!r}; "
                "choose one"
            )
        first = self.first_cells_
        nats = np.array([getattr(cell, reference) for cell in first])
        sizes = np.array([cell.n_samples for cell in first])
        saved: np.ndarray = (nats[:, None] - self.codelengths_) / sizes[:, None]
        return saved

    def to_frame(self) -> Any:
        """Return one row per cell as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns dataset, encoder, order, n_samples, n_features, n_classes,
            codelength, per_example and saved_per_example (nats), rank within the
            dataset, best readout and seconds.

        Raises
        ------
        ImportError
            If pandas is not installed: it comes with the extra ``plot``.
        """
        self._check_ranked()
        return as_frame(self)

    def to_latex(self, table: str = "ranking") -> str:
        r"""Return a table for LaTeX, with the rules of booktabs and names escaped.

        Parameters
        ----------
        table : {"ranking", "codelengths", "readouts"}, default="ranking"
            Average ranks with their intervals; nats per example, the best of each
            dataset bold; or preferred readouts.

        Returns
        -------
        text : str
            A ``tabular``, without ``table`` and caption.
        """
        self._check_ranked()
        return as_latex(self, table)

    def summary(self) -> str:
        """Return the ranking as text: by dataset, then average ranks."""
        self._check_ranked()
        return as_text(self)

    def _columns(self, pairs: Names) -> list[list[int]] | None:
        """Return pairs of names as pairs of columns."""
        if pairs is None:
            return None
        places = {name: i for i, name in enumerate(self.encoder_names_)}
        strange = [name for pair in pairs for name in pair if name not in places]
        if strange:
            raise ValueError(
                f"`pairs` must name encoders of the ranking, got {strange[0]!r}; there "
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
    dataset_names_, encoder_names_ : list of str
    order_codelengths_ : ndarray of shape (n_datasets, n_encoders, n_orders)
        In nats.
    alpha : float
        Level of tests and intervals.
    codelengths_, average_ranks_, critical_difference_
        As those of the scorer.
    """

    cells_: list[Cell]
    dataset_names_: list[str]
    encoder_names_: list[str]
    order_codelengths_: np.ndarray
    alpha: float = 0.1

    @classmethod
    def of(cls, whole: RankStatistics, names: Sequence[str]) -> Ranking:
        """Take the datasets of these names out of a ranking, in its order."""
        kept = [i for i, name in enumerate(whole.dataset_names_) if name in names]
        chosen = {whole.dataset_names_[i] for i in kept}
        return cls(
            [cell for cell in whole.cells_ if cell.dataset in chosen],
            [whole.dataset_names_[i] for i in kept],
            whole.encoder_names_,
            whole.order_codelengths_[kept],
            whole.alpha,
        )
