"""
Who speaks when: the posterior over readouts
============================================

With few labels a simple readout predicts best, with more a deeper one may. The paper's
appendix shows the posterior over a linear readout and perceptrons of one to three
hidden layers as ImageNet is walked, for four encoders ("Posterior of the readout
models"). Here it is drawn for four encoders of handwritten digits, asked whether the
digit is odd.

What came out: the linear readout leads at none of the numbers of labels that are
tabled, and the course differs by encoder. From three principal components the board
goes deeper as labels come, from one hidden layer to three; from the pixels it begins
with three layers and ends with one.
"""

# %%
# One walk for each encoder; readouts of two step sizes, summed by architecture.
import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcher, PosteriorDisplay, readout_grid

X, y = load_digits(return_X_y=True)
n_digits = int(sys.argv[1]) if len(sys.argv) == 2 else len(y)
X, y = X[:n_digits], y[:n_digits]
encoders = {
    "pixels": StandardScaler(),
    "PCA to 10": PCA(10),
    "PCA to 3": PCA(3),
    "200 RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", n_components=200, random_state=0)
    ),
}
board = readout_grid(
    hidden_layer_sizes=[(64,) * depth for depth in range(4)],
    lr=[1e-3, 1e-2],
    n_replay_streams=10,
)
switchers = {
    name: MDLReadoutSwitcher(board, shuffle=True, random_state=0).fit(
        encoder.fit_transform(X), y % 2
    )
    for name, encoder in encoders.items()
}

# %%
# The architecture with the largest posterior, at some numbers of labels seen.
depths = [len(readout.hidden_layer_sizes) for readout in board]
seen = [t for t in (64, 128, 256, 512, 1024, 1796) if t < n_digits]
print(f"{'hidden layers after':20s}", *(f"{t:6d}" for t in seen), "     nats")
for name, switcher in switchers.items():
    by_depth = [
        switcher.posterior_[:, [d == depth for d in depths]].sum(axis=1)
        for depth in range(4)
    ]
    leaders = [max(range(4), key=lambda depth: by_depth[depth][t]) for t in seen]
    print(f"{name:20s}", *(f"{k:6d}" for k in leaders), f"{switcher.codelength_:9.1f}")

# %%
figure, panels = plt.subplots(4, figsize=(7.0, 9.0), sharex=True, layout="constrained")
for ax, (name, switcher) in zip(panels, switchers.items(), strict=True):
    PosteriorDisplay.from_estimator(switcher, ax=ax)
    ax.set_title(name)
    ax.label_outer()
plt.show()
