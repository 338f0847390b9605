"""Pictures of a walk and of a ranking: stored arrays in, matplotlib out.

A display keeps the arrays that it draws, so a figure can be drawn again, on other axes
or with other options, without computing anything anew. ``from_*`` take the arrays from
a fitted object and draw them, ``plot`` draws and returns the display, ``frame`` gives
back the drawn table. Legends and names stand beside the axes, where they hide nothing;
a figure that lends its axes makes room for them with ``layout="constrained"``.

Matplotlib and pandas are imported only when something is drawn or tabulated.
"""

from sklearn_mdl.display.codelengths import CodelengthDisplay
from sklearn_mdl.display.critical_difference import CriticalDifferenceDisplay
from sklearn_mdl.display.learning_curves import LearningCurveDisplay
from sklearn_mdl.display.posteriors import PosteriorDisplay
from sklearn_mdl.display.preferred_readouts import PreferredReadoutDisplay
from sklearn_mdl.display.rank_boxes import RankBoxDisplay
from sklearn_mdl.display.rank_intervals import RankIntervalDisplay
from sklearn_mdl.display.ranks_by_size import RankBySizeDisplay
from sklearn_mdl.display.regret_split import RegretSplitDisplay
from sklearn_mdl.display.savings import SavingsDisplay

__all__ = [
    "CodelengthDisplay",
    "CriticalDifferenceDisplay",
    "LearningCurveDisplay",
    "PosteriorDisplay",
    "PreferredReadoutDisplay",
    "RankBoxDisplay",
    "RankBySizeDisplay",
    "RankIntervalDisplay",
    "RegretSplitDisplay",
    "SavingsDisplay",
]
