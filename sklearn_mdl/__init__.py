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
from sklearn_mdl.switcher import MDLReadoutSwitcher
from sklearn_mdl.switching import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    ForwardTrace,
    SwitchingPrior,
    forward,
)

__version__ = "0.1.0"

__all__ = [
    "BayesMixture",
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "ElementwiseMixture",
    "FixedShare",
    "ForwardTrace",
    "LinearReadout",
    "MDLReadoutSwitcher",
    "MLPReadout",
    "PosteriorDisplay",
    "PrequentialSplit",
    "RepresentationScorer",
    "SwitchingPrior",
    "average_ranks",
    "forward",
    "frequency_codelength",
    "load_feature_directory",
    "load_features",
    "load_labels",
    "nemenyi_critical_difference",
    "readout_grid",
    "regret",
    "uniform_codelength",
    "write_results",
]
