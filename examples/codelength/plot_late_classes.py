"""
Classes that appear one after the other
=======================================

A stream may contain classes that you did not name in advance. With
``new_classes="escape"`` the first row of each class also pays for an *escape*, which
announces that the class is new. From then on, all readouts predict the class. Here,
images of handwritten digits are ordered so that one digit after the other appears, and
no digit is named in advance.

Result: with escapes, a linear readout needs 686 nats, 61 of them for the positions of
the ten first appearances. If all ten digits are named in advance, it needs 923 nats. It
then gives some probability to digits that have not appeared yet, and is confident in
wrong digits when a new digit appears. The pool of the list "closed-form" corrects this,
so the list needs 136 to 137 nats in both cases. Without features, the labels cost 3,592
nats with the same escapes.
"""

# %%
# Each image of digit ``d`` gets a random time between ``d`` and 10. Images are sorted
# by time.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import CodelengthDisplay, LinearReadout, MDLReadoutSwitcher
from sklearn_mdl.metrics import escape_codelengths

N_DIGITS = 1797  # fewer digits run faster

X, y = load_digits(return_X_y=True)
X, y = X[:N_DIGITS], y[:N_DIGITS]
times = np.random.default_rng(0).uniform(y, 10)
order = np.argsort(times)
X, y = X[order], y[order]

# %%
# Compare the list "closed-form" with a linear readout, which gets an output for each
# new class.
readouts = {"pooled": "closed-form", "linear": [LinearReadout(lr=0.01)]}
print(f"{'nats':10s}{'escape':>9s}{'named':>9s}{'escapes only':>15s}{'blind':>9s}")
runs = {}
for name, listed in readouts.items():
    late = MDLReadoutSwitcher(listed, new_classes="escape", random_state=0)
    late.partial_fit(X, y)
    named = MDLReadoutSwitcher(listed, random_state=0)
    named.partial_fit(X, y, classes=range(10))
    runs[name] = late, named
    numbers = late.codelength_, named.codelength_, escape_codelengths(y).sum()
    blind = late.reference_codelengths_.sum()
    print(f"{name:10s}{numbers[0]:9.1f}{numbers[1]:9.1f}{numbers[2]:15.1f}{blind:9.1f}")
firsts = np.sort(np.unique(y, return_index=True)[1])
print("classes in order of appearance:", late.classes_.tolist())
print("rows at which they appear:     ", firsts.tolist())

# %%
# Plot nats relative to the same list with all classes named in advance (the line at
# zero).
late, named = runs["pooled"]
CodelengthDisplay.from_codelengths(
    {
        "all digits named": named.codelengths_,
        "escapes": late.codelengths_,
        "escapes, no features": late.reference_codelengths_,
    },
    reference="all digits named",
)
for row in firsts:
    plt.axvline(row, color="0.8", zorder=0)
plt.ylim(-80, 80)
plt.show()
