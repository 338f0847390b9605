"""Several labels to a row: one walk for each column of them, and what they cost in all.

``columns`` takes labels apart and checks them, ``walks`` has a switcher for each, and
``readings`` are the sums of what these say.
"""

from sklearn_mdl.multioutput.walks import MultiOutputSwitcher

__all__ = ["MultiOutputSwitcher"]
