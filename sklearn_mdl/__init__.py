"""Minimum description length of representations, by readout model switching."""

from sklearn_mdl.codelength import frequency_codelength, regret, uniform_codelength
from sklearn_mdl.datasets import load_feature_directory, load_features, load_labels
from sklearn_mdl.display import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    PosteriorDisplay,
)
from sklearn_mdl.ranking import average_ranks, nemenyi_critical_difference
from sklearn_mdl.readouts import LinearReadout, MLPReadout, readout_grid
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.results import write_results
from sklearn_mdl.scorers import PrequentialSplit
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
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "ElementwiseMixture",
    "ExpertSequence",
    "FixedShare",
    "ForwardTrace",
    "LearnedShare",
    "LinearReadout",
    "MDLReadoutSwitcher",
    "MLPReadout",
    "MarkovPrior",
    "Moves",
    "PosteriorDisplay",
    "PrequentialSplit",
    "RepresentationScorer",
    "RunLength",
    "StoredLosses",
    "SwitchDistribution",
    "SwitchingPrior",
    "UniversalShare",
    "average_ranks",
    "best_segments",
    "best_sequence",
    "forward",
    "frequency_codelength",
    "group_weights",
    "load_feature_directory",
    "load_features",
    "load_labels",
    "load_losses",
    "nemenyi_critical_difference",
    "readout_grid",
    "regret",
    "save_losses",
    "sequence_cost",
    "smoothed_posterior",
    "uniform_codelength",
    "write_results",
]
