"""
Preferred readouts: which depth serves which task
=================================================

The paper's table of readout models shows the readout with the largest mean posterior
for every encoder and task. It finds that this depends on the type of task: linear
readouts and one hidden layer for natural images, deeper readouts for structured tasks.
This example has four tasks on the same 600 handwritten digits: which digit it is,
whether it is odd, whether it is greater than four, and whether the upper half has more
ink than the lower half, which is a linear function of the pixels.

Result: the last task prefers a linear readout on the pixels. One other cell is linear
by a narrow margin, the digit itself from 200 random features. The artificial tasks (odd
and greater than four) prefer two or three hidden layers in all cells but one. With 600
labels the preference is weak: in most cells no architecture has half of the mean
posterior. The paper finds that the encoder matters little; here it matters as well.
"""

# %%
# The encoders are fitted without labels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.display import RankingHeatmapDisplay

N_DIGITS = 600  # fewer make it quicker

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
# Readouts of no, one, two and three hidden layers, each with two learning rates.
readouts = readout_grid(
    hidden_layer_sizes=[(64,) * depth for depth in range(4)],
    lr=[1e-3, 1e-2],
    n_replay_streams=10,
)
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts)).fit(tasks, encoders)

# %%
# The mean posterior of each architecture, and the codelength.
print(f"{'':38s} linear 1 layer 2 layers 3 layers  nats per example")
for cell in scorer.cells_:
    means = "".join(f"{mean:9.2f}" for mean in cell.mean_posterior.values())
    print(f"{cell.dataset:20s}{cell.encoder:16s}{means}{cell.per_example:18.3f}")

# %%
# The paper's table, as a map: 0 is linear, 1 to 3 are hidden layers.
RankingHeatmapDisplay.from_scorer(scorer, kind="preferred-readout")
plt.show()
