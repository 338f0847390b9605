"""
Choose a kernel map by codelength
=================================

Random features turn a kernel machine into a linear readout. Which kernel, which
bandwidth and how many features should you use? The codelength accounts both for the
remaining errors and for the labels needed to learn a readout on that many features.
"""

# %%
# Load one thousand digits.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from sklearn_mdl import (
    MDLReadoutSwitcher,
    PrequentialSplit,
    RepresentationScorer,
    readout_grid,
)

N_DIGITS = 1000  # fewer digits run faster

X, y = load_digits(return_X_y=True)
X = X[:N_DIGITS] / 16
y = y[:N_DIGITS]

# %%
# The map replaces hidden layers, so linear readouts suffice.
readouts = readout_grid(lr=[1e-3, 1e-2], n_replay_streams=5)
seed = {"random_state": 0}
search = GridSearchCV(
    Pipeline([("map", "passthrough")]),
    [
        {"map": ["passthrough"]},
        {
            "map": [RBFSampler(**seed), Nystroem(**seed)],
            "map__gamma": [0.02, 0.1, 0.5],
            "map__n_components": [100, 400],
        },
        {
            "map": [PolynomialCountSketch(degree=2, **seed)],
            "map__n_components": [100, 400],
        },
    ],
    scoring=RepresentationScorer(MDLReadoutSwitcher(readouts)),
    cv=PrequentialSplit(),
    error_score="raise",
)
search.fit(X, y)
results = search.cv_results_
order = results["rank_test_score"].argsort()
for i in order:
    print(f"{-results['mean_test_score'][i]:.3f}", results["params"][i])


# %%
# Draw the codelength of every candidate. Shorter is better.
def name(params):
    """Describe a candidate in a few words."""
    kernel = params["map"] if isinstance(params["map"], str) else type(params["map"])
    settings = [f"{key[5:]}={value}" for key, value in params.items() if key != "map"]
    return ", ".join([getattr(kernel, "__name__", "no map"), *settings])


figure, ax = plt.subplots(figsize=(7.0, 4.5), layout="constrained")
names = [name(results["params"][i]) for i in order]
ax.barh(names, -results["mean_test_score"][order])
ax.invert_yaxis()
ax.set(xlabel="nats per example", title="Kernel maps of digits")
plt.show()
