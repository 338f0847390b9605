"""
Replay or block-wise refits at equal compute
============================================

Block-wise codes (Voita and Titov, 2020) refit a classifier from scratch at the end of
each block, on all rows seen so far. Bornschein, Li and Hutter (2022) claim that
continued training with replay of earlier examples gives shorter codes for the same
compute. Here the same network, with the same optimiser and learning rate, is trained in
both ways on 1,000 digits, with increasing compute. Either each block doubles the number
of rows, or each block increases it by a half.

We measure compute by the number of examples visited in gradient steps, which does not
depend on the machine. Up to about 30,000 visits, replay and doubling blocks need about
the same number of nats: 462 and 450 after 10,000 visits, and 317 and 320 after 30,000.
With more compute, replay is ahead: 271 nats compared with 288 after 100,000 visits. So
with enough compute, replay gives a code that is 6 % shorter. In a doubling block, all
labels are predicted by a fit to the rows before the block. At the end of the block,
these are only half of the rows seen so far. If blocks increase the number of rows by a
half, fits are more recent, but the shorter code does not repay their cost.

Seconds are measured on the machine that runs this example. They depend on the
implementations as much as on the methods, since the refits run a plain torch loop.
"""

# %%
# Define the network to refit. It has one hidden layer of 64 units. Like the readout
# with replay, it uses AdamW, minibatches of 32 and label smoothing.
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from torch import nn

from sklearn_mdl import MLPReadout, RefitReadout

torch.set_num_threads(1)
N_DIGITS = 1000  # fewer digits run faster
HIDDEN, LR, SMOOTHING = 64, 3e-3, 0.01


class Epochs(ClassifierMixin, BaseEstimator):
    """An MLP trained from scratch for a number of epochs."""

    visited = 0  # examples in gradient steps, over all fits of all copies

    def __init__(self, n_epochs=10, seed=0):
        self.n_epochs = n_epochs
        self.seed = seed

    def fit(self, X, y):
        torch.manual_seed(self.seed)
        self.classes_, targets = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        self.net_ = nn.Sequential(
            nn.Linear(X.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)
        )
        optimizer = torch.optim.AdamW(self.net_.parameters(), lr=LR, weight_decay=0.0)
        loss = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
        X, targets = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(targets)
        for _ in range(self.n_epochs):
            for rows in torch.randperm(len(X)).split(32):
                optimizer.zero_grad()
                loss(self.net_(X[rows]), targets[rows]).backward()
                optimizer.step()
            Epochs.visited += len(X)
        return self

    def predict_proba(self, X):
        with torch.no_grad():
            logits = self.net_(torch.as_tensor(X, dtype=torch.float32))
        return logits.softmax(dim=1).numpy()


# %%
# Both methods predict each label before it is revealed, and both learn a factor by
# which logits are multiplied.
X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))[:N_DIGITS]
X, y = X[order], y[order]


def replayed(n_streams, seed):
    readout = MLPReadout(
        (HIDDEN,),
        lr=LR,
        n_replay_streams=n_streams,
        label_smoothing=SMOOTHING,
        random_state=seed,
    )
    return readout, lambda: (n_streams + 1) * len(y)


def refitted(schedule, n_epochs, seed):
    Epochs.visited = 0
    readout = RefitReadout(Epochs(n_epochs, seed), schedule=schedule, random_state=0)
    return readout, lambda: Epochs.visited


def measured(name, make, *settings):
    """Run a pass for each of two seeds; return visits, mean nats and seconds."""
    nats, seconds = [], []
    for seed in (0, 1):
        readout, visited = make(*settings, seed)
        start = time.perf_counter()
        nats.append(readout.fit(X, y).codelength_)
        seconds.append(time.perf_counter() - start)
    both = " ".join(f"{code:8.1f}" for code in nats)
    print(f"{name:34s}{visited():10d}{both}{np.mean(seconds):10.2f}")
    return visited(), np.mean(nats), np.mean(seconds)


for readout, _ in (replayed(1, seed=0), refitted(2.0, 1, seed=0)):
    readout.fit(X[:64], y[:64])  # not timed, since the first fit loads libraries

print(f"{'':37s}visited    nats, two seeds   seconds")
curves = {
    "online, with replay": [
        measured(f"replay streams: {n}", replayed, n) for n in (1, 3, 10, 30, 100)
    ]
}
for schedule, all_epochs in {2.0: (3, 10, 30, 100), 1.5: (1, 3, 10, 30)}.items():
    blocks = f"refitted, blocks x {schedule:g}"
    curves[blocks] = [
        measured(f"{blocks}, epochs: {n}", refitted, schedule, n) for n in all_epochs
    ]

# %%
# Lower points have shorter codes, and points further left need less compute.
figure, panels = plt.subplots(
    1, 2, sharey=True, figsize=(9.0, 3.8), layout="constrained"
)
for (name, points), style in zip(curves.items(), ("o-", "s--", "^:"), strict=True):
    visited, nats, seconds = zip(*points, strict=True)
    for ax, cost in zip(panels, (visited, seconds), strict=True):
        ax.plot(cost, nats, style, label=name)
panels[0].set(xlabel="examples visited in gradient steps", ylabel="codelength, nats")
panels[1].set(xlabel="seconds on this machine")
for ax in panels:
    ax.set(xscale="log", yscale="log")
    ax.grid(alpha=0.4, which="both")
panels[0].legend()
plt.show()
