"""
Data efficiency: from scratch, frozen or fine-tuned?
====================================================

The paper's figure on data efficiency plots the cumulative next-step loss against the
number of examples, relative to a network trained from scratch, for a linear readout and
for perceptrons on a frozen encoder and for the encoder fine-tuned: once in the domain
that the encoder was trained in, once outside. Here a small convolutional network learns
to fill in hidden pixels, once of other handwritten digits and once of patches of two
photographs, and is then asked for 700 digits. ``plot_finetune_or_not.py`` has the same
board for an encoder that was trained with labels.

What came out: in the domain the frozen encoder with a linear readout is ahead of
training from scratch for some 500 digits, by 22 nats after 200, and behind at the end.
Outside it is ahead for about 100, and 150 nats behind at the end. That scratch
overtakes outside first is as in the paper. Unlike there, fine-tuning does not pay: a
network of two layers is learned from scratch as fast. The mixture of all is 25 nats
shorter than the best of them in the domain, 14 outside.
"""

# %%
# The network, and what it is trained on. It sees no label, and none of the digits that
# count.
import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d
from torch import nn

from sklearn_mdl import (
    CodelengthDisplay,
    FineTunedReadout,
    FrozenReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    ScratchReadout,
    TorchEncoder,
    forward,
    image_rows,
)

torch.set_num_threads(1)
n_digits = int(sys.argv[1]) if len(sys.argv) == 2 else 700
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images, labels = digits.images[order] / 16, digits.target[order]
photographs = [
    picture[::4, ::4].mean(axis=2) for picture in load_sample_images().images
]
patches = np.concatenate(
    [
        extract_patches_2d(p, (8, 8), max_patches=600, random_state=0)
        for p in photographs
    ]
)
domains = {"other digits": images[700:], "photographs": patches / 255}


def network():
    """Two convolutions with batch normalisation; 128 numbers an image."""
    layers = []
    for n_in, n_out in [(1, 16), (16, 32)]:
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def pretrained(pictures, n_steps=400):
    """Train the network to fill in hidden pixels."""
    torch.manual_seed(0)
    trunk, head = network(), nn.Linear(128, 64)
    optimizer = torch.optim.AdamW([*trunk.parameters(), *head.parameters()], lr=3e-3)
    pixels = 2 * torch.as_tensor(pictures, dtype=torch.float32)[:, None] - 1
    for _ in range(n_steps):
        batch = pixels[torch.randint(len(pixels), (64,))]
        hidden = batch * (torch.rand_like(batch) < 0.5)
        loss = nn.functional.mse_loss(head(trunk(hidden)), batch.flatten(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return trunk


def signed(image):
    """Pixels from -1 to 1, as the network from scratch sees them, too."""
    return torch.as_tensor(np.asarray(image, dtype=np.float32))[None] / 127.5 - 1


# %%
# All readouts on one board, walked in one order. Networks that learn have two step
# sizes, of which the one that is better in hindsight is shown; the mixture of a domain
# is read off the losses of all its readouts, and pays for that choice.
X, y = image_rows(images[:n_digits], mode="L"), labels[:n_digits]
settings = {"n_replay_streams": 10, "ema_step_size": 0.1}
steps = (0.03, 0.1)
board = {
    ("from scratch", lr): ScratchReadout(network, lr=lr, **settings) for lr in steps
}
for domain, pictures in domains.items():
    encoder = TorchEncoder(pretrained(pictures), signed, mode="L", device="cpu")
    linear, perceptron = LinearReadout(lr=0.01), MLPReadout((128,), lr=0.003)
    for readout in (linear, perceptron):
        readout.set_params(**settings)
    board[domain, "frozen, linear"] = FrozenReadout(encoder, linear)
    board[domain, "frozen, perceptron"] = FrozenReadout(encoder, perceptron)
    for lr in steps:
        board[domain, "fine-tuned", lr] = FineTunedReadout(encoder, lr=lr, **settings)
switcher = MDLReadoutSwitcher(list(board.values()), device="cpu", random_state=0)
losses = switcher.fit(X, y).readout_losses_

# %%
# The best of each kind, and the mixture of all of a domain.
curves = {}
for domain in domains:
    own = [k for k, name in enumerate(board) if name[0] in ("from scratch", domain)]
    best = {}
    for k, name in enumerate(board):
        kind = name[0] if name[0] == "from scratch" else name[1]
        if k in own and (kind not in best or losses[:, k].sum() < best[kind].sum()):
            best[kind] = losses[:, k]
    curves[domain] = best | {
        "mixture": forward("learned-share", losses[:, own]).codelengths
    }
# %%
# What each has cost after so many digits.
seen = [t for t in (50, 100, 200, 400, 700) if t <= n_digits]
for domain, columns in curves.items():
    print(f"\n{'trained on ' + domain:26s}", *(f"{t:8d}" for t in seen), "digits")
    for name, column in columns.items():
        sums = np.cumsum(column)
        print(f"{name:26s}", *(f"{sums[t - 1]:8.1f}" for t in seen), "nats")

# %%
# Below zero a readout has cost less than training from scratch.
figure, panels = plt.subplots(2, figsize=(7.0, 7.0), sharex=True, layout="constrained")
for ax, (domain, columns) in zip(panels, curves.items(), strict=True):
    CodelengthDisplay.from_codelengths(columns, reference="from scratch", ax=ax)
    ax.set_title(f"trained on {domain}")
    ax.label_outer()
plt.show()
