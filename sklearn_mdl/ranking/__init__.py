"""Statistics of ranks over datasets.

Codelengths of different tasks are not commensurable: tasks differ in their numbers of
classes and examples. So encoders are ranked on each dataset, the ranks are averaged,
and two averages are called different if they lie further apart than the critical
difference of the Nemenyi test (Li, Bornschein and Hutter, 2023, Evaluating
Representations with Readout Model Switching, ICLR, Section 4; after Demsar, 2006,
Statistical Comparisons of Classifiers over Multiple Data Sets, Journal of Machine
Learning Research 7).

The constant of the test depends on the number of encoders compared. The paper uses
q = 3.12 throughout, which belongs to 14 encoders; here it is computed for each number.

Tables have shape (n_datasets, n_encoders): one score per cell, averaged over orders,
lower is better. Tests of pairs take codelengths and work on their log ratios, which are
commensurable; their outcome does not hang on the other encoders, as that of average
ranks does.
"""

from sklearn_mdl.ranking.bayesian import BayesianSignedRank, bayesian_signed_rank
from sklearn_mdl.ranking.bootstrap import RankIntervals, rank_intervals
from sklearn_mdl.ranking.nemenyi import (
    nemenyi_critical_difference,
    nemenyi_p_values,
    rank_groups,
)
from sklearn_mdl.ranking.omnibus import FriedmanTest, friedman_test
from sklearn_mdl.ranking.ranks import average_ranks
from sklearn_mdl.ranking.wilcoxon import (
    PairwiseWilcoxon,
    holm_adjusted,
    pairwise_wilcoxon,
)
from sklearn_mdl.ranking.wins import WinTable, win_table

__all__ = [
    "BayesianSignedRank",
    "FriedmanTest",
    "PairwiseWilcoxon",
    "RankIntervals",
    "WinTable",
    "average_ranks",
    "bayesian_signed_rank",
    "friedman_test",
    "holm_adjusted",
    "nemenyi_critical_difference",
    "nemenyi_p_values",
    "pairwise_wilcoxon",
    "rank_groups",
    "rank_intervals",
    "win_table",
]
