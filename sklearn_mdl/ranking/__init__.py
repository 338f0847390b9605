"""Statistics of ranks over datasets.

Codelengths are not comparable between tasks with different numbers of classes or
examples. So encoders are ranked on each dataset and their ranks are averaged. Two
average ranks differ significantly if their difference reaches the critical difference
of the Nemenyi test (Li, Bornschein and Hutter, 2023, Evaluating Representations with
Readout Model Switching, ICLR, Section 4). The method follows Demsar, 2006, Statistical
Comparisons of Classifiers over Multiple Data Sets, Journal of Machine Learning
Research 7.

The constant q of the Nemenyi test depends on the number of compared encoders. Li,
Bornschein and Hutter always use q = 3.12, which is the constant for 14 encoders. This
package computes q for the actual number of encoders.

Tables of scores have shape (n_datasets, n_encoders). Scores are averaged over orders,
and lower is better. Pairwise tests use log ratios of codelengths, which are comparable
across tasks. Unlike average ranks, a pair's log ratios do not depend on other encoders.
"""

from sklearn_mdl.ranking._anytime import (
    LossRace as LossRace,
    combined_e_values,
    forecast_interval as forecast_interval,
)
from sklearn_mdl.ranking._bayesian import BayesianSignedRank, bayesian_signed_rank
from sklearn_mdl.ranking._pairs import (
    MOST_ENCODERS as MOST_ENCODERS,
    Floats as Floats,
    WinTable,
    average_ranks,
    check_fraction as check_fraction,
    checked_pairs as checked_pairs,
    win_table,
)
from sklearn_mdl.ranking._ranks import (
    FriedmanTest,
    RankIntervals,
    friedman_test,
    nemenyi_critical_difference,
    nemenyi_p_values,
    rank_groups,
    rank_intervals,
    shares_best as shares_best,
)
from sklearn_mdl.ranking._results import NamedResult as NamedResult, Pairs as Pairs
from sklearn_mdl.ranking._wilcoxon import (
    PairwiseWilcoxon,
    holm_adjusted,
    pairwise_wilcoxon,
)

__all__ = [
    "BayesianSignedRank",
    "FriedmanTest",
    "PairwiseWilcoxon",
    "RankIntervals",
    "WinTable",
    "average_ranks",
    "bayesian_signed_rank",
    "combined_e_values",
    "friedman_test",
    "holm_adjusted",
    "nemenyi_critical_difference",
    "nemenyi_p_values",
    "pairwise_wilcoxon",
    "rank_groups",
    "rank_intervals",
    "win_table",
]
