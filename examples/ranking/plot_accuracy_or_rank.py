"""
Average accuracy or average rank
================================

The paper averages ranks over tasks, since accuracies of different tasks are not
comparable. A table in its appendix ("average accuracy against average ranking", linear
evaluation) shows that the two averages order six encoders differently. This example
compares six unsupervised encoders on four small datasets of scikit-learn, by the
held-out accuracy of a logistic regression and by codelength.

Result: average accuracy and average rank by accuracy order the six encoders in the same
way. The average rank by codelength differs: it places 200 random features above the raw
features, and 20 random features above three principal components. The reason is that a
codelength also reflects how well non-linear readouts can use the features.
"""

# %%
# Start with the six encoders in the paper's table. BYOL has the best average accuracy
# and DINO the best average rank. SimCLR is fourth by accuracy and last by rank.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.ranking import average_ranks

N_DIGITS = 600  # fewer digits run faster

paper = {
    "ViT/B16 DINO": (76.01, 2.26),
    "ResNet-50 BYOL": (77.93, 2.37),
    "ResNet-50 SUP": (75.51, 3.82),
    "ViT/B16 MAE": (74.10, 3.84),
    "ViT/B16 SUP": (72.46, 4.18),
    "ResNet-50 SimCLR": (74.35, 4.53),
}
accuracy, rank = np.array(list(paper.values())).T
print(f"{'the paper':18s}  accuracy  place  rank  place")
for i, name in enumerate(paper):
    print(
        f"{name:18s}{accuracy[i]:10.2f}{rankdata(-accuracy)[i]:7.0f}"
        f"{rank[i]:6.2f}{rankdata(rank)[i]:7.0f}"
    )

# %%
# Define six encoders that do not use labels.
datasets = {
    "digits": load_digits(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
    "iris": load_iris(return_X_y=True),
}
digits = np.random.default_rng(0).permutation(len(datasets["digits"][1]))[:N_DIGITS]
datasets["digits"] = tuple(part[digits] for part in datasets["digits"])
encoders = {
    "raw": StandardScaler(),
    "PCA to 2": make_pipeline(StandardScaler(), PCA(2)),
    "PCA to 3": make_pipeline(StandardScaler(), PCA(3)),
    "2 projections": make_pipeline(
        StandardScaler(), GaussianRandomProjection(2, random_state=0)
    ),
    "20 RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", n_components=20, random_state=0)
    ),
    "200 RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", n_components=200, random_state=0)
    ),
}

# %%
# Measure held-out accuracy in five folds, with encoders fitted on the training rows.
folds = StratifiedKFold(5, shuffle=True, random_state=0)
accuracies = np.array(
    [
        [
            cross_val_score(
                make_pipeline(encoder, LogisticRegression(max_iter=1000)),
                *data,
                cv=folds,
            ).mean()
            for encoder in encoders.values()
        ]
        for data in datasets.values()
    ]
)

# %%
# Measure codelengths on the same rows, with a small grid of readouts.
readouts = readout_grid(
    hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2], n_replay_streams=10
)
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts)).fit(datasets, encoders)

# %%
# Accuracies differ by up to 62 points on digits but only by 9 on iris, so digits
# dominate the average accuracy. In the average rank, every dataset has the same weight.
print(f"\n{'accuracy, %':18s}", *(f"{name:>14s}" for name in datasets))
for name, column in zip(encoders, accuracies.T, strict=True):
    print(f"{name:18s}", *(f"{100 * value:14.1f}" for value in column))

# %%
# Print the three averages and the place of each encoder.
averages = {
    "accuracy": 100 * accuracies.mean(axis=0),
    "rank by accuracy": average_ranks(-accuracies),
    "rank by codelength": scorer.average_ranks_,
}
signs = [-1, 1, 1]
places = [rankdata(s * a) for s, a in zip(signs, averages.values(), strict=True)]
print(f"\n{'average, and place':18s}", *(f"{title:>20s}" for title in averages))
for i, name in enumerate(encoders):
    columns = zip(averages.values(), places, strict=True)
    print(f"{name:18s}", *(f"{a[i]:14.2f} ({p[i]:.0f}.)" for a, p in columns))

# %%
# Rank 1 is at the top. Where a point is lower than another one to its left, the two
# averages disagree about these encoders.
figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
shown = [
    ("the paper, 19 tasks", list(paper), accuracy, rank),
    ("here, 4 tasks", list(encoders), *list(averages.values())[:2]),
]
for ax, (title, names, x, y) in zip(panels, shown, strict=True):
    ax.plot(x, y, "o")
    for name, *point in zip(names, x, y, strict=True):
        left = point[0] < np.mean(x)
        offset = {"xytext": (-6 if left else 6, 3), "textcoords": "offset points"}
        ax.annotate(name, point, ha="right" if left else "left", size=8, **offset)
    ax.set(title=title, xlabel="average accuracy, %", ylabel="average rank by accuracy")
    ax.margins(x=0.5, y=0.15)
    ax.invert_yaxis()
    ax.grid(alpha=0.4)
plt.show()
