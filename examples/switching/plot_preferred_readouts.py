"""
Preferred readouts: which depth suits which task
================================================

The paper's table of readout models shows the readout with the largest mean posterior
for every encoder and task. There, natural images prefer linear readouts and MLPs with
one hidden layer, and structured tasks prefer deeper readouts. This example has four
tasks on the same 600 handwritten digits: which digit it is, whether it is odd, whether
it is greater than four, and whether the upper half has more ink than the lower half.
The last task only depends on a linear function of the pixels.

Result: on the pixels, the ink task prefers a linear readout. The only other task that
prefers a linear readout, by a narrow margin, is the digit task on 200 random features.
The artificial tasks (odd, and greater than four) prefer two or three hidden layers in
five of six cases. With 600 labels these preferences are weak: in most cases no
architecture has even half of the mean posterior. In the paper, preferences hardly
depend on the encoder, but here they do.
"""

# %%
# Fit the encoders without labels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.display import RankingHeatmapDisplay

N_DIGITS = 600  # fewer digits run faster

digits = load_digits()
rows = np.random.default_rng(0).permutation(len(digits.target))[:N_DIGITS]
X, y, images = digits.data[rows], digits.target[rows], digits.images[rows]
upper, lower = images[:, :4].sum((1, 2)), images[:, 4:].sum((1, 2))
tasks = {
    "which digit": (X, y),
    "odd or even": (X, y % 2),
    "greater than 4": (X, y > 4),
    "ink above or below": (X, upper > lower),
}
encoders = {
    "pixels": "passthrough",
    "PCA to 10": PCA(10),
    "200 RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", n_components=200, random_state=0)
    ),
}

# %%
# Use readouts with zero to three hidden layers, each with two learning rates.
readouts = readout_grid(
    hidden_layer_sizes=[(64,) * depth for depth in range(4)],
    lr=[1e-3, 1e-2],
    n_replay_streams=10,
)
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts)).fit(tasks, encoders)

# %%
# Print the mean posterior of each architecture, and the codelength.
print(f"{'':38s} linear 1 layer 2 layers 3 layers  nats per example")
for cell in scorer.cells_:
    means = "".join(f"{mean:9.2f}" for mean in cell.mean_posterior.values())
    print(f"{cell.dataset:20s}{cell.encoder:16s}{means}{cell.per_example:18.3f}")

# %%
# Draw a heat map like the paper's table, with numbers of hidden layers (0 is linear).
RankingHeatmapDisplay.from_scorer(scorer, kind="preferred-readout")
plt.show()
