"""
Choose a kernel map by codelength
=================================

Random features turn a kernel machine into a linear readout. Which kernel, how wide, how
many features? The codelength charges for what a map does not separate, and for the
labels that it takes to learn a readout of so many features.
"""

# %%
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

X, y = load_digits(return_X_y=True)
X = X[:1000] / 16
y = y[:1000]

# %%
# The map does what hidden layers would, so linear readouts will do.
board = readout_grid(lr=[1e-3, 1e-2], n_replay_streams=5)
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
    scoring=RepresentationScorer(MDLReadoutSwitcher(board)),
    cv=PrequentialSplit(),
    error_score="raise",
)
search.fit(X, y)
results = search.cv_results_
for i in results["rank_test_score"].argsort():
    print(f"{-results['mean_test_score'][i]:.3f}", results["params"][i])
