"""
When fine-tuning pays: frozen or fine-tuned
===========================================

Should you freeze an encoder and train a linear readout or an MLP, fine-tune the whole
encoder, or train the same network from scratch? The answer depends on the number of
labels. The paper asks this question for a ResNet-50 (Li, Bornschein and Hutter, 2023,
section 4, "Data Efficiency"). In this example, all four options are readouts of one
switcher. So there is a single codelength, and the posterior shows after how many labels
fine-tuning pays off.

The encoder is a small network that was trained to classify the handwritten digits 0 to
4. The task is to classify the digits 5 to 9, which were not in its training data.
"""

# %%
# Define the network.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    PosteriorDisplay,
    regret,
)
from sklearn_mdl.encoders import TorchEncoder, image_rows
from sklearn_mdl.readouts import FineTunedReadout, ScratchReadout


class Network(nn.Sequential):
    """Two convolutions with batch normalisation, which output 128 features."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )


# %%
# A switcher takes images as rows of pixels.
digits = load_digits()
rows = image_rows(digits.images / 16, mode="L")
known = digits.target < 5

# %%
# Pre-train for ten epochs on the digits 0 to 4.
torch.manual_seed(0)
network = Network()
head = nn.Linear(128, 5)
x = torch.tensor(rows[known]).view(-1, 1, 8, 8) / 255
y = torch.tensor(digits.target[known])
parameters = [*network.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=3e-3)
for _ in range(10):
    for batch in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(head(network(x[batch])), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"last training loss: {loss.item():.3f}")

# %%
# Define the readouts. In a pair ``(encoder, readout)`` the encoder is frozen, and its
# features are computed once. The network from scratch gets pixels from -1 to 1.
encoder = TorchEncoder(network, mode="L", device="cpu")
settings = {"n_replay_streams": 6, "ema_step_size": 0.1}
readouts = [
    (encoder, LinearReadout(lr=0.003, **settings)),
    (encoder, MLPReadout((128,), lr=0.003, **settings)),
    FineTunedReadout(encoder, lr=0.01, **settings),
    ScratchReadout(Network, lr=0.03, **settings),
]
X, y = rows[~known], digits.target[~known]
order = np.random.default_rng(0).permutation(len(y))
switcher = MDLReadoutSwitcher(readouts, device="cpu", random_state=0)
switcher.fit(X[order], y[order])
for name, nats in zip(
    switcher.readout_names_, switcher.readout_codelengths_, strict=True
):
    print(f"{name:22} {nats:6.1f} nats")
print(f"{'all, with switching':22} {switcher.codelength_:6.1f} nats")

# %%
# Top: regret relative to training from scratch (below zero, the code is shorter).
# Bottom: the posterior before each label. At first, the frozen linear readout predicts
# best. Within the first hundred labels, fine-tuning becomes better. After a few hundred
# labels, the network from scratch costs no more per label than the fine-tuned one.
figure, (above, below) = plt.subplots(2, 1, figsize=(7, 7), sharex=True)
display = PosteriorDisplay.from_estimator(switcher, ax=below, log_x=False)
losses, scratch = switcher.readout_losses_, switcher.readout_losses_[:, 3]
for k, name in enumerate(switcher.readout_names_[:3]):
    colour = display.areas_[k].get_facecolor()
    above.plot(regret(losses[:, k], scratch), color=colour, label=name)
above.plot(regret(switcher.codelengths_, scratch), "k--", label="with switching")
above.axhline(0, color="grey", lw=0.8)
above.set_ylabel("regret relative to scratch, nats")
above.legend()
figure.tight_layout()
plt.show()
