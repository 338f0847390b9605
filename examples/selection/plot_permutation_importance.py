"""
Which features carry the labels: permutation importance in nats
===============================================================

To measure the importance of a feature, permute it and see how much longer the code of
the labels becomes. For training rows, use
:func:`~sklearn_mdl.model_selection.refit_codelength_scorer`, which refits on the
permuted rows. For held-out rows, use :func:`~sklearn_mdl.heldout_codelength_scorer`.
"""

# %%
# The importance of a feature is the increase in codelength, in nats per example, when
# its values are permuted over the rows. If the importance is negative, permuting the
# feature shortens the code.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.inspection import permutation_importance
from sklearn.utils import shuffle

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    heldout_codelength_scorer,
)
from sklearn_mdl.model_selection import refit_codelength_scorer

wine = load_wine()
X, y = shuffle(wine.data, wine.target, random_state=0)
switcher = MDLReadoutSwitcher(
    [LinearReadout(lr=0.01), LinearReadout(lr=0.03)], random_state=0
)
options = {"n_repeats": 3, "random_state": 0}
of_stream = permutation_importance(
    switcher.fit(X, y), X, y, scoring=refit_codelength_scorer, **options
)

# %%
# The scorer for held-out rows rejects rows that the switcher has already learned.
try:
    permutation_importance(switcher, X, y, scoring=heldout_codelength_scorer, **options)
except ValueError as error:
    print(error)

# %%
# For held-out rows, a copy of the switcher continues the stream.
held_out = permutation_importance(
    switcher.fit(X[:90], y[:90]),
    X[90:],
    y[90:],
    scoring=heldout_codelength_scorer,
    **options,
)
order = np.argsort(held_out.importances_mean)
for j in order[::-1]:
    print(
        f"{wine.feature_names[j]:30s}{of_stream.importances_mean[j]:8.3f}"
        f"{held_out.importances_mean[j]:8.3f}"
    )

places = np.arange(len(order))
figure, ax = plt.subplots(layout="constrained")
ax.barh(places + 0.2, of_stream.importances_mean[order], 0.4, label="training rows")
ax.barh(places - 0.2, held_out.importances_mean[order], 0.4, label="held-out rows")
ax.set_yticks(places, np.array(wine.feature_names)[order])
ax.set(xlabel="nats per example", title="Importance of features of wines")
ax.legend()
plt.show()
