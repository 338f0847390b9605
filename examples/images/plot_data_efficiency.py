"""
Data efficiency: from scratch, frozen or fine-tuned
===================================================

The paper's figure on data efficiency plots the cumulative next-step loss against the
number of examples, relative to a network trained from scratch. It compares a linear
readout and MLPs on a frozen encoder with fine-tuning of the encoder, both within the
domain on which the encoder was trained and outside it. In this example, a small
convolutional network learns to fill in masked pixels and is then evaluated on 700
digits. It is trained once on other handwritten digits (the same domain) and once on
patches of two photographs (another domain). ``plot_finetune_or_not.py`` uses the same
readouts for an encoder that was trained with labels.

Result: within the domain, the frozen encoder with a linear readout is better than
training from scratch for the first 500 digits or so (by 22 nats after 200), and worse
at the end. Outside the domain, the frozen encoder is only better for about 100 digits,
and 150 nats worse at the end. As in the paper, training from scratch catches up earlier
outside the domain. Unlike in the paper, fine-tuning does not pay off, because a network
of two layers learns just as quickly from scratch. The code of the mixture is shorter
than that of the best readout, by over 20 nats within the domain and by over 10 nats
outside it.
"""

# %%
# Define the network and its training data. These contain no labels, and none of the
# digits whose labels are coded.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d
from torch import nn

from sklearn_mdl import (
    CodelengthDisplay,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    forward,
)
from sklearn_mdl.encoders import TorchEncoder, image_rows
from sklearn_mdl.readouts import FineTunedReadout, FrozenReadout, ScratchReadout

torch.set_num_threads(1)
N_DIGITS = 700  # fewer digits run faster
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
    """Return two convolutions with batch normalisation, which output 128 features."""
    layers = []
    for n_in, n_out in [(1, 16), (16, 32)]:
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def pretrained(pictures, n_steps=400):
    """Train the network to fill in masked pixels."""
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
    """Scale pixels to the range from -1 to 1, as the network from scratch does."""
    return torch.as_tensor(np.asarray(image, dtype=np.float32))[None] / 127.5 - 1


# %%
# Evaluate all readouts in one pass. Networks that are trained have two learning rates,
# and the figure shows the one that is better in hindsight. The mixture for a domain
# uses all readouts for this domain, so its codelength includes the cost of choosing
# among them.
X, y = image_rows(images[:N_DIGITS], mode="L"), labels[:N_DIGITS]
settings = {"n_replay_streams": 10, "ema_step_size": 0.1}
learning_rates = (0.03, 0.1)
readouts = {
    ("from scratch", lr): ScratchReadout(network, lr=lr, **settings)
    for lr in learning_rates
}
for domain, pictures in domains.items():
    encoder = TorchEncoder(pretrained(pictures), signed, mode="L", device="cpu")
    linear, mlp = LinearReadout(lr=0.01), MLPReadout((128,), lr=0.003)
    for readout in (linear, mlp):
        readout.set_params(**settings)
    readouts[domain, "frozen, linear"] = FrozenReadout(encoder, linear)
    readouts[domain, "frozen, MLP"] = FrozenReadout(encoder, mlp)
    for lr in learning_rates:
        tuned = FineTunedReadout(encoder, lr=lr, **settings)
        readouts[domain, "fine-tuned", lr] = tuned
switcher = MDLReadoutSwitcher(list(readouts.values()), device="cpu", random_state=0)
losses = switcher.fit(X, y).readout_losses_

# %%
# Select the best readout of each kind, and compute the mixture for each domain.
curves = {}
for domain in domains:
    own = [k for k, name in enumerate(readouts) if name[0] in ("from scratch", domain)]
    best = {}
    for k, name in enumerate(readouts):
        kind = name[0] if name[0] == "from scratch" else name[1]
        if k in own and (kind not in best or losses[:, k].sum() < best[kind].sum()):
            best[kind] = losses[:, k]
    curves[domain] = best | {
        "mixture": forward("learned-share", losses[:, own]).codelengths
    }
# %%
# Print cumulative codelengths after several numbers of digits.
seen = [t for t in (50, 100, 200, 400, 700) if t <= N_DIGITS]
for domain, columns in curves.items():
    print(f"\n{'trained on ' + domain:26s}", *(f"{t:8d}" for t in seen), "digits")
    for name, column in columns.items():
        sums = np.cumsum(column)
        print(f"{name:26s}", *(f"{sums[t - 1]:8.1f}" for t in seen), "nats")

# %%
# Where a curve is below zero, its code is shorter than the code of training from
# scratch.
figure, panels = plt.subplots(2, figsize=(7.0, 7.0), sharex=True, layout="constrained")
for ax, (domain, columns) in zip(panels, curves.items(), strict=True):
    CodelengthDisplay.from_codelengths(columns, reference="from scratch", ax=ax)
    ax.set_title(f"trained on {domain}")
    ax.label_outer()
plt.show()
