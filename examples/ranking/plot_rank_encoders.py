"""
Rank encoders over datasets
===========================

This example ranks three unsupervised encoders on two datasets, each in two random
orders of its rows. All encoders get the same orders, so their codelengths can be
compared order by order.
"""

# %%
# Encoders are fitted without labels. If an encoder needs labels, an error is raised.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    CriticalDifferenceDisplay,
    MDLReadoutSwitcher,
    RepresentationScorer,
    readout_grid,
)

datasets = {
    "wine": load_wine(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
}
encoders = {
    "raw": "passthrough",
    "PCA to 2": make_pipeline(StandardScaler(), PCA(2)),
    "RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", random_state=0)
    ),
}

# %%
# A small grid of readouts keeps this example fast. For the default readouts, use
# ``RepresentationScorer()``.
readouts = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2])
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), n_orders=2)
print(scorer.fit(datasets, encoders).summary())

# %%
# With two datasets, the critical difference is too large for any difference to be
# significant.
CriticalDifferenceDisplay.from_scorer(scorer)
plt.show()
