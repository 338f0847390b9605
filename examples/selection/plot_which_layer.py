"""
Which layer? One code over all of them
======================================

Every layer of a network is a representation. Here one list contains readouts on all
layers of a small network. Each readout uses the columns of one layer. So there is one
code, and the posterior over layers shows which layer is best after each number of
labels.
"""

# %%
# The network learns to distinguish digits below five from the others. Readouts then
# predict all ten digits, on other images.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sklearn_mdl import MDLReadoutSwitcher, PosteriorDisplay
from sklearn_mdl.encoders import TorchEncoder
from sklearn_mdl.readouts import view_readouts

N_DIGITS = 400  # fewer digits run faster

images, labels = load_digits(return_X_y=True)
images = np.repeat((images / 16).reshape(-1, 8, 8, 1), 3, axis=3)
torch.manual_seed(0)
torch.set_num_threads(1)
network = nn.Sequential(
    *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()),
    *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
    *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 2)),
)
optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
pixels = torch.as_tensor(images[800:], dtype=torch.float32).permute(0, 3, 1, 2)
below_five = torch.as_tensor(labels[800:] < 5).long()
for _ in range(300):
    batch = torch.randint(len(pixels), (64,))
    loss = nn.functional.cross_entropy(network(pixels[batch]), below_five[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# One table contains the features of all layers, and the encoder records which columns
# belong to which layer. Each layer gets the readouts of the list "closed-form".
encoder = TorchEncoder(network, layer=["1", "3", "5", "8", "last"], pool="flatten")
features = encoder.transform(images[:N_DIGITS])
readouts = view_readouts(encoder.view_slices_)
switcher = MDLReadoutSwitcher(readouts, random_state=0)
switcher.fit(features, labels[:N_DIGITS])

# %%
# Compare the code over all layers with the code of each layer by itself, which takes
# one more pass per layer.
alone = {
    name: MDLReadoutSwitcher("closed-form", random_state=0)
    .fit(features[:, columns], labels[:N_DIGITS])
    .codelength_
    for name, columns in encoder.view_slices_.items()
}
for (name, nats), weight in zip(
    alone.items(), switcher.view_posterior_[-1], strict=True
):
    print(f"{name:14}{nats:8.1f} nats   posterior {weight:.3f}")
print(f"all layers    {switcher.codelength_:8.1f} nats")

# %%
# Draw the posterior. The last layer has discarded information that the network's own
# task did not need.
PosteriorDisplay.from_estimator(switcher, by="view")
plt.show()
