"""
Choose a layer of a network and its pooling
===========================================

Every layer of a network is a representation. A convolutional layer has a vector at
every position, so you also need to choose a pooling. In this example a small
convolutional network learns, without labels, to fill in masked pixels of images. A
search then chooses the layer and the pooling by the codelength of the labels.
"""

# %%
# Load digits. The network is trained on digits whose labels are not coded.
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from torch import nn

from sklearn_mdl import (
    MDLReadoutSwitcher,
    PrequentialSplit,
    RepresentationScorer,
    readout_grid,
)

N_DIGITS = 800  # fewer digits run faster

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32").reshape(-1, 1, 8, 8)
rest, images = images[800:], images[:N_DIGITS]
labels = labels[:N_DIGITS]

# %%
# Each step masks a random half of the pixels, and the network predicts all of them.
torch.manual_seed(0)
torch.set_num_threads(1)
channels = [1, 32, 32, 32]
network = nn.Sequential(
    *(
        nn.Sequential(nn.Conv2d(n, m, 3, padding=1), nn.ReLU())
        for n, m in pairwise(channels)
    ),
    nn.Conv2d(32, 1, 3, padding=1),
)
optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
pixels = torch.as_tensor(rest)
for _ in range(400):
    batch = pixels[torch.randint(len(pixels), (64,))]
    hidden = batch * (torch.rand_like(batch) < 0.5)
    loss = nn.functional.mse_loss(network(hidden), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# %%
# A transformer computes the features of one layer with one pooling. The search tries
# all combinations.
class Features(TransformerMixin, BaseEstimator):
    """Features of a layer, pooled over positions; layer 0 is the image itself."""

    def __init__(self, network, layer=1, pooling="mean"):
        self.network = network
        self.layer = layer
        self.pooling = pooling

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def transform(self, X):
        with torch.no_grad():
            maps = self.network[: self.layer](torch.as_tensor(X))
        if self.pooling == "mean":
            maps = maps.mean((2, 3))
        elif self.pooling == "max":
            maps = maps.amax((2, 3))
        elif self.pooling == "quarters":
            maps = nn.functional.adaptive_avg_pool2d(maps, 2)
        return maps.flatten(1).numpy()


readouts = readout_grid(
    hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2], n_replay_streams=5
)
search = GridSearchCV(
    Features(network),
    {"layer": [0, 1, 2, 3], "pooling": ["mean", "max", "quarters", "all positions"]},
    scoring=RepresentationScorer(MDLReadoutSwitcher(readouts)),
    cv=PrequentialSplit(),
    error_score="raise",
)
search.fit(images, labels)

# %%
# Plot nats per example of every layer and pooling; shorter is better.
table = -search.cv_results_["mean_test_score"].reshape(4, 4)
print("nats per example", *search.param_grid["pooling"], sep="  ")
for layer, row in enumerate(table):
    print(f"layer {layer:<10d}", *(f"{nats:8.3f}" for nats in row))
print("best:", search.best_params_)

figure, ax = plt.subplots(layout="constrained")
image = ax.imshow(table, cmap="viridis_r", aspect="auto")
ax.set_xticks(range(4), search.param_grid["pooling"])
ax.set(yticks=range(4), xlabel="pooling", ylabel="layer")
figure.colorbar(image, label="nats per example")
plt.show()
