"""
Choose a layer of a network, and how to pool it
===============================================

A network has as many representations as layers, and an image as many vectors as places;
which to take, and how to make one vector of many, is usually settled by habit. Here a
small convolutional network learns to fill in hidden pixels of images, without a label,
and a search settles both by the codelength of the labels.
"""

# %%
from itertools import pairwise

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

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32").reshape(-1, 1, 8, 8)
rest, images = images[800:], images[:800]  # the network sees none of those that count
labels = labels[:800]

# %%
# Half of the pixels are hidden, anew at every step, and all are to be told.
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
class Features(TransformerMixin, BaseEstimator):
    """What a layer says of an image, pooled over places; 0 is the image itself."""

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


board = readout_grid(
    hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2], n_replay_streams=5
)
search = GridSearchCV(
    Features(network),
    {"layer": [0, 1, 2, 3], "pooling": ["mean", "max", "quarters", "all places"]},
    scoring=RepresentationScorer(MDLReadoutSwitcher(board)),
    cv=PrequentialSplit(),
    error_score="raise",
)
search.fit(images, labels)

# %%
table = -search.cv_results_["mean_test_score"].reshape(4, 4)
print("nats per example", *search.param_grid["pooling"], sep="  ")
for layer, row in enumerate(table):
    print(f"layer {layer:<10d}", *(f"{nats:8.3f}" for nats in row))
print("best:", search.best_params_)
