"""Public names and packages, for type checkers and for imports on first use."""

from . import (
    baselines as baselines,
    datasets as datasets,
    display as display,
    encoders as encoders,
    metrics as metrics,
    model_selection as model_selection,
    pooling as pooling,
    ranking as ranking,
    readouts as readouts,
    report as report,
    switcher as switcher,
    switching as switching,
)
from .baselines import compare_protocols
from .display import CodelengthDisplay, CriticalDifferenceDisplay, PosteriorDisplay
from .metrics import frequency_codelength, regret, uniform_codelength
from .model_selection import (
    PrequentialSplit,
    RepresentationScorer,
    codelength_scorer,
    heldout_codelength_scorer,
)
from .readouts import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MLPReadout,
    RefitReadout,
    readout_grid,
)
from .report import compare, write_results
from .switcher import (
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MultiOutputSwitcher,
    decode_labels,
    encode_labels,
)
from .switching import (
    BayesMixture,
    FixedShare,
    LearnedShare,
    SwitchDistribution,
    forward,
)

__version__: str

__all__ = [
    "BayesMixture",
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "FixedShare",
    "IncrementalReadout",
    "KNeighborsReadout",
    "KernelReadout",
    "LearnedShare",
    "LinearReadout",
    "MDLReadoutSwitcher",
    "MDLReadoutSwitcherRegressor",
    "MLPReadout",
    "MultiOutputSwitcher",
    "PosteriorDisplay",
    "PrequentialSplit",
    "RefitReadout",
    "RepresentationScorer",
    "SwitchDistribution",
    "codelength_scorer",
    "compare",
    "compare_protocols",
    "decode_labels",
    "encode_labels",
    "forward",
    "frequency_codelength",
    "heldout_codelength_scorer",
    "readout_grid",
    "regret",
    "uniform_codelength",
    "write_results",
]
