"""Rankings that can be printed, and rankings on a subset of the datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sklearn_mdl._core.extras import plot_extra
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._statistics import RankStatistics
from sklearn_mdl.model_selection._tables import as_latex, as_rows, as_text, columns_of

if TYPE_CHECKING:
    from pandas import DataFrame


class PrintedRanking(RankStatistics):
    """A ranking with tables, which can be printed or returned as a data frame."""

    def to_frame(self) -> DataFrame:
        """Return one row per cell as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            The first columns are dataset, encoder, order, n_samples, n_features and
            n_classes. Then follow codelength, switching_codelength, per_example,
            savings_per_example and savings_over_labels (all in nats), accuracy (online)
            and permutation_p_value (from the kernel readouts, if there was a test). The
            last columns are rank (within the dataset and order), best_readout (the one
            with the shortest code), n_readouts, streams, scalings and seconds. Without
            a pool, codelength and switching_codelength are equal.

        Raises
        ------
        ImportError
            If pandas is missing: run ``pip install "sklearn-mdl[plot]"``.
        """
        return plot_extra("pandas").DataFrame(as_rows(self), columns=columns_of(self))

    def to_latex(self, table: str = "ranking") -> str:
        r"""Return a LaTeX table with booktabs rules and escaped names.

        Parameters
        ----------
        table : {"ranking", "codelengths", "switching", "readouts"}, default="ranking"
            "ranking" gives average ranks, with intervals if there are enough datasets
            for significant differences. "codelengths" gives nats per example, with the
            smallest in bold. "switching" gives nats per example without the pool.
            "readouts" gives each encoder's preferred readout on each dataset.

        Returns
        -------
        text : str
            A ``tabular`` without a surrounding ``table`` or caption.
        """
        return as_latex(self, table)

    def summary(self) -> str:
        """Return the verdict, the results on each dataset and average ranks as text."""
        return as_text(self)


@dataclass(frozen=True, eq=False)
class Ranking(PrintedRanking):
    """The ranking of encoders on a group of datasets.

    It has the same statistics as a fitted :class:`RepresentationScorer`, and you can
    pass it to displays in place of a scorer.

    Attributes
    ----------
    cells_ : list of Cell
        Cells grouped by dataset and encoder, and sorted by order.
    alpha : float
        Significance level of tests. Intervals have confidence level ``1 - alpha``.
    dataset_names_, encoder_names_, order_codelengths_, codelengths_, average_ranks_
        As in the scorer.
    critical_difference_ : float
        As in the scorer.
    """

    cells_: list[Cell]
    alpha: float = 0.1
