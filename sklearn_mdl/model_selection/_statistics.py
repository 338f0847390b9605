"""Statistics of a ranking: the verdict, ranks, tests and spread over orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from sklearn_mdl import ranking
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import check_choice
from sklearn_mdl.model_selection import _differences as differences
from sklearn_mdl.model_selection._cell_arrays import CellArrays
from sklearn_mdl.model_selection._verdict import Best, Verdict, verdict_of

Result = TypeVar("Result", bound=ranking.NamedResult)
RandomState = int | np.random.Generator | None
Names = Sequence[tuple[str, str]] | None


class RankStatistics(CellArrays):
    """Statistics of a ranking of encoders, with codelengths averaged over orders.

    Subclasses define ``cells_`` and ``alpha``.
    """

    @property
    def critical_difference_(self) -> float:
        """Smallest difference in average rank that is significant (Nemenyi's test).

        NaN for a single encoder.
        """
        n_datasets, n_encoders = self.codelengths_.shape
        if n_encoders == 1:
            return float("nan")
        return ranking.nemenyi_critical_difference(n_encoders, n_datasets, self.alpha)

    def verdict(self) -> Verdict:
        """Summarise the winner, its margin, ties and encoders that are clearly worse.

        Within a dataset, Student's test compares the encoders' losses on the same rows.
        Across datasets, Wilcoxon's test compares their codelengths. Both are corrected
        for all pairs of encoders (Holm), since the winner is chosen from the same
        labels. If there are too few datasets for Wilcoxon's test, an encoder only
        counts as clearly worse if it is significantly worse than the winner on every
        dataset.

        With one order and well separated classes, the probability that any encoder is
        called worse by chance may be twice ``alpha``. The reason is that codelengths
        depend on the order of the first labels, and one order cannot show by how much.
        With ``n_orders=4``, this probability is below ``alpha``.

        Returns
        -------
        verdict : Verdict
            Use ``print(verdict)`` to show it as sentences. ``best``, ``equivalent`` and
            ``out`` name encoders. ``datasets`` holds the winner on each dataset and its
            margin in nats.
        """
        return verdict_of(self)

    def best(self, dataset: str | None = None) -> Best:
        """Return the best encoder, the probability that it is best, and its rival.

        Parameters
        ----------
        dataset : str, default=None
            Name of a dataset, or None for all datasets together.

        Returns
        -------
        best : Best
            Use ``print(best)`` to show it as sentences. ``encoder`` has the shortest
            code or, over all datasets, the best average rank. ``probability`` is the
            probability that this encoder is also best by expected codelength over fresh
            draws of equal size. ``ties``, ``rival`` and ``more_labels`` give more
            detail.

        Raises
        ------
        ValueError
            If the dataset is not in the ranking.
        """
        verdict = self.verdict()
        if dataset is None:
            return verdict.answer
        check_choice(dataset, "dataset", self.dataset_names_)
        return verdict.datasets[self.dataset_names_.index(dataset)].best

    def extrapolate(
        self, n: int, *, level: float | None = None
    ) -> differences.Extrapolations:
        """Predict codelengths with more labels, and which encoder would be best.

        The learning curves of all encoders are extrapolated together, since they share
        rows and orders. With several orders, the predictions are for a new ranking with
        the same readouts in as many orders. With one order, they are for the same
        order, continued with new rows. If no switcher was given, the ranking of `n`
        labels may use other readouts and fewer orders, because the defaults change
        above 500 and 2,048 labels. To keep them, pass a switcher. See
        :func:`~sklearn_mdl.metrics.extrapolate`.

        Parameters
        ----------
        n : int
            Number of labels, including those given. Must exceed the size of every
            dataset.
        level : float, default=None
            Confidence level of the intervals. If None, ``1 - alpha``.

        Returns
        -------
        extrapolations : Extrapolations
            Use ``print(extrapolations)`` to show a table. ``sentences()`` states, for
            each dataset, whether another encoder would overtake the one that is best
            now.

        Raises
        ------
        ValueError
            If a dataset has `n` or more labels, fewer than 40 labels, or only one group
            of rows, or if `level` is not between 0 and 1. Also if a loss is negative,
            which is possible for real-valued labels.
        FileNotFoundError
            If losses of single examples or groups of rows are missing.
        """
        level = 1 - self.alpha if level is None else level
        curves, units = [], []
        for encoders in self._groups():
            curves.append(np.array([[c.codelengths for c in row] for row in encoders]))
            cell, least = encoders[0][0], curves[-1].min()
            if cell.n_samples < 40 or len(cell.starts) < 2 or least < 0:
                cure = f"use best({cell.dataset!r}).more_labels instead"
                raise ValueError(
                    "extrapolate needs 40 labels, not all of one group, and no loss "
                    f"below 0, but {cell.dataset!r} has {cell.n_samples} labels and a "
                    f"loss of {least:.3g}; {cure if least < 0 else 'add rows'}"
                )
            rows = np.arange(curves[-1].shape[-1])
            units.append([c.starts.searchsorted(rows, "right") for c in encoders[0]])
        best = self.codelengths_.argmin(1)
        return self._named(differences.extrapolations(curves, units, n, level, best))

    def friedman_test(self) -> ranking.FriedmanTest:
        """Test the hypothesis that no encoders differ (Friedman's test).

        See :func:`~sklearn_mdl.ranking.friedman_test`.
        """
        return ranking.friedman_test(self.codelengths_)

    def rank_groups(self) -> list[tuple[int, ...]]:
        """Return maximal groups of encoders whose ranks do not differ significantly.

        Groups contain indices of encoders. An encoder may be in several groups or none.
        A single encoder forms no group.
        """
        width = np.nan_to_num(self.critical_difference_, nan=1.0)  # for one encoder
        return ranking.rank_groups(self.average_ranks_, float(width))

    def nemenyi_p_values(self) -> np.ndarray:
        """Return Nemenyi's p-values of all pairs, (n_encoders, n_encoders)."""
        ranks, (n_datasets, n_encoders) = self.average_ranks_, self.codelengths_.shape
        return ranking.nemenyi_p_values(ranks[:, None] - ranks, n_encoders, n_datasets)

    def rank_intervals(
        self,
        *,
        level: float | None = None,
        n_resamples: int = 1000,
        random_state: RandomState = 0,
    ) -> ranking.RankIntervals:
        """Return confidence intervals of average ranks.

        See :func:`~sklearn_mdl.ranking.rank_intervals`.

        Parameters
        ----------
        level : float, default=None
            Confidence level of the intervals. If None, ``1 - alpha``.
        n_resamples : int, default=1000
        random_state : int, Generator or None, default=0
        """
        intervals = ranking.rank_intervals(
            self.codelengths_,
            level=1 - self.alpha if level is None else level,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        return self._named(intervals)

    def pairwise_wilcoxon(
        self, pairs: Names = None, *, top_k: int | None = None
    ) -> ranking.PairwiseWilcoxon:
        """Compare pairs of encoders over datasets by Wilcoxon's signed-rank test.

        See :func:`~sklearn_mdl.ranking.pairwise_wilcoxon`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders. If None, compare all pairs (of at most 40 encoders).
        top_k : int, default=None
            Only compare the `top_k` encoders with the best average ranks.
        """
        nats, chosen = self.positive_codelengths_, self._columns(pairs)
        return self._named(ranking.pairwise_wilcoxon(nats, pairs=chosen, top_k=top_k))

    def bayesian_signed_rank(
        self,
        pairs: Names = None,
        *,
        rope: float = 0.01,
        top_k: int | None = None,
        n_draws: int = 50_000,
        random_state: RandomState = 0,
    ) -> ranking.BayesianSignedRank:
        """Compare pairs of encoders by the Bayesian signed-rank test.

        See :func:`~sklearn_mdl.ranking.bayesian_signed_rank`.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders. If None, compare all pairs (of at most 40 encoders).
        rope : float, default=0.01
            Codelengths are equivalent if they differ by less than this share of the
            shorter one.
        top_k : int, default=None
            Only compare the `top_k` encoders with the best average ranks.
        n_draws : int, default=50000
        random_state : int, Generator or None, default=0
        """
        tests = ranking.bayesian_signed_rank(
            self.positive_codelengths_,
            rope=rope,
            pairs=self._columns(pairs),
            top_k=top_k,
            n_draws=n_draws,
            random_state=random_state,
        )
        return self._named(tests)

    def win_table(self, *, rope: float = 0.0) -> ranking.WinTable:
        """Count, for each pair of encoders, the datasets that each of the two wins.

        See :func:`~sklearn_mdl.ranking.win_table`.

        Parameters
        ----------
        rope : float, default=0.0
            Codelengths tie if the longer one is at most ``1 + rope`` times the shorter
            one.
        """
        return self._named(ranking.win_table(self.positive_codelengths_, rope=rope))

    def order_spread(self) -> differences.OrderSpread:
        """Return means and standard deviations of codelengths over orders.

        Raises
        ------
        ValueError
            If there is only one order.
        """
        return self._named(differences.order_spread(self.order_codelengths_))

    def paired_differences(
        self,
        pairs: Names = None,
        *,
        level: float | None = None,
        top_k: int | None = None,
    ) -> differences.PairedDifferences:
        """Return differences in codelength between pairs of encoders on each dataset.

        Intervals are for the mean difference over fresh draws of equal size. They
        account for the variation over rows and over orders.

        Parameters
        ----------
        pairs : sequence of (str, str), default=None
            Names of encoders. If None, compare all pairs (of at most 40 encoders).
        level : float, default=None
            Confidence level of the intervals. If None, ``1 - alpha``.
        top_k : int, default=None
            Only compare the `top_k` encoders with the best average ranks.

        Returns
        -------
        differences : PairedDifferences
            Attributes are ``pairs``, and ``mean``, ``std``, ``error``, ``lower`` and
            ``upper`` of shape (n_pairs, n_datasets). Differences are in nats, and
            negative if the first encoder of the pair has the shorter code.
        """
        chosen = ranking.checked_pairs(self.codelengths_, self._columns(pairs), top_k)
        level = 1 - self.alpha if level is None else level
        samples = list(self.codelength_samples_)
        return self._named(differences.paired_differences(samples, chosen, level))

    def preferred_readouts(self) -> differences.PreferredReadouts:
        """Return the architecture with the largest mean posterior for each encoder.

        The mean is over examples and orders. For a single order of T examples, this is
        the ``k`` with the largest ``1/T sum_t p(k at t | labels before t)``. Li,
        Bornschein and Hutter, 2023, Section 4, show these in their table of readout
        models.

        Returns
        -------
        readouts : PreferredReadouts
            A sequence with one list per dataset, which contains the name of an
            architecture for each encoder.
        """
        names = [
            [max(shares, key=shares.__getitem__) for shares in row]
            for row in self.mean_posteriors()
        ]
        return self._named(differences.PreferredReadouts(names))

    def _named(self, result: Result) -> Result:
        return result.named(self.encoder_names_, self.dataset_names_)

    def _columns(self, pairs: Names) -> list[list[int]] | None:
        """Return the column indices for pairs of names."""
        if pairs is None:
            return None
        names = self.encoder_names_
        wrong = [p for p in pairs if np.shape(p) != (2,) or len({*p} & {*names}) < 2]
        if wrong or not 0 < len(set(map(frozenset, pairs))) == len(pairs):
            required, two = f"different pairs of two names in {names}", tuple(names[:2])
            cure = f"pass pairs=[{two}]" if two[1:] else "rank at least two encoders"
            raise invalid("pairs", required, wrong or pairs, cure)
        return [[names.index(name) for name in pair] for pair in pairs]
