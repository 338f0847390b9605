"""Minimum description length of representations, by readout model switching."""

from sklearn_mdl.codelength import frequency_codelength, regret, uniform_codelength
from sklearn_mdl.coding import LabelMessage, decode_labels, encode_labels
from sklearn_mdl.datasets import load_feature_directory, load_features, load_labels
from sklearn_mdl.display import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    PosteriorDisplay,
)
from sklearn_mdl.experts import IncrementalExpert, NeighborsReadout, RefittedExpert
from sklearn_mdl.measures import PrequentialMeasures, expected_calibration_error
from sklearn_mdl.ranking import (
    BayesianSignedRank,
    FriedmanTest,
    PairwiseWilcoxon,
    RankIntervals,
    WinTable,
    average_ranks,
    bayesian_signed_rank,
    friedman_test,
    holm_adjusted,
    nemenyi_critical_difference,
    nemenyi_p_values,
    pairwise_wilcoxon,
    rank_groups,
    rank_intervals,
    win_table,
)
from sklearn_mdl.readouts import LinearReadout, MLPReadout, readout_grid
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.results import write_results
from sklearn_mdl.scorers import (
    PrequentialSplit,
    codelength_scorer,
    heldout_code_scorer,
)
from sklearn_mdl.stored_losses import StoredLosses, load_losses, save_losses
from sklearn_mdl.switcher import MDLReadoutSwitcher
from sklearn_mdl.switching import (
    BayesMixture,
    ElementwiseMixture,
    ExpertSequence,
    FixedShare,
    ForwardTrace,
    LearnedShare,
    MarkovPrior,
    Moves,
    RunLength,
    SwitchDistribution,
    SwitchingPrior,
    UniversalShare,
    best_segments,
    best_sequence,
    forward,
    group_weights,
    sequence_cost,
    smoothed_posterior,
)

__version__ = "0.1.0"

__all__ = [
    "BayesMixture",
    "BayesianSignedRank",
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "ElementwiseMixture",
    "ExpertSequence",
    "FixedShare",
    "ForwardTrace",
    "FriedmanTest",
    "IncrementalExpert",
    "LabelMessage",
    "LearnedShare",
    "LinearReadout",
    "MDLReadoutSwitcher",
    "MLPReadout",
    "MarkovPrior",
    "Moves",
    "NeighborsReadout",
    "PairwiseWilcoxon",
    "PosteriorDisplay",
    "PrequentialMeasures",
    "PrequentialSplit",
    "RankIntervals",
    "RefittedExpert",
    "RepresentationScorer",
    "RunLength",
    "StoredLosses",
    "SwitchDistribution",
    "SwitchingPrior",
    "UniversalShare",
    "WinTable",
    "average_ranks",
    "bayesian_signed_rank",
    "best_segments",
    "best_sequence",
    "codelength_scorer",
    "decode_labels",
    "encode_labels",
    "expected_calibration_error",
    "forward",
    "frequency_codelength",
    "friedman_test",
    "group_weights",
    "heldout_code_scorer",
    "holm_adjusted",
    "load_feature_directory",
    "load_features",
    "load_labels",
    "load_losses",
    "nemenyi_critical_difference",
    "nemenyi_p_values",
    "pairwise_wilcoxon",
    "rank_groups",
    "rank_intervals",
    "readout_grid",
    "regret",
    "save_losses",
    "sequence_cost",
    "smoothed_posterior",
    "uniform_codelength",
    "win_table",
    "write_results",
]
