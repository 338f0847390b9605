"""Minimum description length of representations, by readout model switching."""

from sklearn_mdl.codelength import frequency_codelength, regret, uniform_codelength
from sklearn_mdl.coding import LabelMessage, decode_labels, encode_labels
from sklearn_mdl.datasets import load_feature_directory, load_features, load_labels
from sklearn_mdl.display import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    PosteriorDisplay,
    RankIntervalDisplay,
    SavingsDisplay,
)
from sklearn_mdl.experts import IncrementalExpert, NeighborsReadout, RefittedExpert
from sklearn_mdl.images import CachedEncoder, FeatureCache, TimmEncoder, TorchEncoder
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
from sklearn_mdl.representation import Ranking, RepresentationScorer
from sklearn_mdl.results import write_results
from sklearn_mdl.scorers import (
    PrequentialSplit,
    codelength_scorer,
    heldout_code_scorer,
)
from sklearn_mdl.shift import TrainTestShift, train_test_shift
from sklearn_mdl.splits import prequential_order, reshuffle
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
from sklearn_mdl.vtab import VTAB_TASKS, VtabData, VtabTask, load_vtab

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022, plainly sorted
    "BayesMixture",
    "BayesianSignedRank",
    "CachedEncoder",
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "ElementwiseMixture",
    "ExpertSequence",
    "FeatureCache",
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
    "RankIntervalDisplay",
    "RankIntervals",
    "Ranking",
    "RefittedExpert",
    "RepresentationScorer",
    "RunLength",
    "SavingsDisplay",
    "StoredLosses",
    "SwitchDistribution",
    "SwitchingPrior",
    "TimmEncoder",
    "TorchEncoder",
    "TrainTestShift",
    "UniversalShare",
    "VTAB_TASKS",
    "VtabData",
    "VtabTask",
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
    "load_vtab",
    "nemenyi_critical_difference",
    "nemenyi_p_values",
    "pairwise_wilcoxon",
    "prequential_order",
    "rank_groups",
    "rank_intervals",
    "readout_grid",
    "regret",
    "reshuffle",
    "save_losses",
    "sequence_cost",
    "smoothed_posterior",
    "train_test_shift",
    "uniform_codelength",
    "win_table",
    "write_results",
]
