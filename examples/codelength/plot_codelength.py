"""
A first codelength: what it is and how it grows
===============================================

All readouts predict every digit before its label is revealed. The codelength is the
total log-loss of their combined predictions. How the codelength grows shows how quickly
the readouts learn. The posterior over readouts shows which readout predicts best at
each number of labels.
"""

# %%
# One fit is one pass over the data. Nothing is held out: each example is first test
# data and then training data.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from sklearn_mdl import (
    CodelengthDisplay,
    MDLReadoutSwitcher,
    PosteriorDisplay,
    uniform_codelength,
)

N_DIGITS = 1797  # fewer digits run faster

X, y = (part[:N_DIGITS] for part in load_digits(return_X_y=True))
switcher = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
uniform = uniform_codelength(len(y), len(switcher.classes_))
print(f"{switcher.codelength_:.0f} nats; a uniform code needs {uniform:.0f}")

# %%
# Plot the cumulative codelengths of the switcher and of the best readout of each
# architecture, minus the codelength of the best readout of all. At the end, the curve
# of the switcher is below zero: the combined predictions are better than those of any
# single readout.
CodelengthDisplay.from_estimator(switcher, reference="best")

# %%
# Plot the posterior over readouts, summed over the settings of each architecture.
PosteriorDisplay.from_estimator(switcher)
plt.show()
