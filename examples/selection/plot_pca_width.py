"""
Choose the width of a PCA in a grid search
==========================================

A :class:`~sklearn_mdl.RepresentationScorer` can score any unsupervised transformer in
scikit-learn's searches. Pass ``cv=PrequentialSplit()``
(:class:`~sklearn_mdl.PrequentialSplit`), a single split in which all rows are both
training and test rows.
"""

# %%
# Use scikit-learn's search, with codelength as the score.
import matplotlib.pyplot as plt
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
readouts = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2])
search = GridSearchCV(
    make_pipeline(StandardScaler(), PCA()),
    {"pca__n_components": [1, 2, 4, 8, 13]},
    scoring=RepresentationScorer(MDLReadoutSwitcher(readouts)),
    cv=PrequentialSplit(),
)
search.fit(X, y)

# %%
# Print and draw the codelength for each width. Shorter is better.
widths = search.cv_results_["param_pca__n_components"]
nats = -search.cv_results_["mean_test_score"]
for width, cost in zip(widths, nats, strict=True):
    print(f"{width:3d} components: {cost:.3f} nats per example")
print("best:", search.best_params_)

figure, ax = plt.subplots(layout="constrained")
ax.plot(widths, nats, "o-")
ax.set(xlabel="components", ylabel="nats per example", title="PCA of wines")
ax.grid(alpha=0.4)
plt.show()
