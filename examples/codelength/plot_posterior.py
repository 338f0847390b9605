"""
Posterior over readouts against the number of labels
====================================================

With few labels, a simple readout often predicts best. With more labels, a deeper one
may be better. The paper's appendix shows the posterior over a linear readout and MLPs
with one to three hidden layers during a pass over ImageNet, for four encoders
("Posterior of the readout models"). This example draws the posterior for four encoders
of handwritten digits. The task is to decide whether the digit is odd.

Result: the linear readout never has the largest posterior at the numbers of labels in
the table, and the preferred depth depends on the encoder. On three principal
components, the preferred depth grows with the number of labels, from one hidden layer
to three. On the pixels, the posterior first prefers three layers and finally one.
"""

# %%
# Run one pass for each encoder, with two learning rates per architecture.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcher, PosteriorDisplay, readout_grid

N_DIGITS = 1797  # fewer digits run faster

X, y = load_digits(return_X_y=True)
X, y = X[:N_DIGITS], y[:N_DIGITS]
encoders = {
    "pixels": StandardScaler(),
    "PCA to 10": PCA(10),
    "PCA to 3": PCA(3),
    "200 RBF features": make_pipeline(
        StandardScaler(), RBFSampler(gamma="scale", n_components=200, random_state=0)
    ),
}
readouts = readout_grid(
    hidden_layer_sizes=[(64,) * depth for depth in range(4)],
    lr=[1e-3, 1e-2],
    n_replay_streams=10,
)
switchers = {
    name: MDLReadoutSwitcher(readouts, shuffle=True, random_state=0).fit(
        encoder.fit_transform(X), y % 2
    )
    for name, encoder in encoders.items()
}

# %%
# Print the architecture with the largest posterior after several numbers of labels.
depths = [len(readout.hidden_layer_sizes) for readout in readouts]
seen = [t for t in (64, 128, 256, 512, 1024, 1796) if t < N_DIGITS]
print(f"{'hidden layers after':20s}", *(f"{t:6d}" for t in seen), "     nats")
for name, switcher in switchers.items():
    by_depth = [
        switcher.posterior_[:, [d == depth for d in depths]].sum(axis=1)
        for depth in range(4)
    ]
    depth_of = [max(range(4), key=lambda depth: by_depth[depth][t]) for t in seen]
    print(f"{name:20s}", *(f"{k:6d}" for k in depth_of), f"{switcher.codelength_:9.1f}")

# %%
# Draw one panel for each encoder.
figure, panels = plt.subplots(4, figsize=(7.0, 9.0), sharex=True, layout="constrained")
for ax, (name, switcher) in zip(panels, switchers.items(), strict=True):
    PosteriorDisplay.from_estimator(switcher, ax=ax)
    ax.set_title(name)
    ax.label_outer()
plt.show()
