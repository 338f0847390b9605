"""
Choose the width of a PCA by codelength
=======================================

A :class:`~sklearn_mdl.RepresentationScorer` is a scorer for any transformer, and
:class:`~sklearn_mdl.PrequentialSplit` is the one split that a codelength needs: all
rows, all rows.
"""

# %%
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    MDLReadoutSwitcher,
    PrequentialSplit,
    RepresentationScorer,
    readout_grid,
)

X, y = load_wine(return_X_y=True)
board = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2])
search = GridSearchCV(
    make_pipeline(StandardScaler(), PCA()),
    {"pca__n_components": [1, 2, 4, 8, 13]},
    scoring=RepresentationScorer(MDLReadoutSwitcher(board)),
    cv=PrequentialSplit(),
)
search.fit(X, y)
widths = search.cv_results_["param_pca__n_components"]
for width, score in zip(widths, search.cv_results_["mean_test_score"], strict=True):
    print(f"{width:3d} components: {-score:.3f} nats per example")
print("best:", search.best_params_)
