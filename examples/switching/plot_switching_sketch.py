"""
Why switch between readouts: loss curves that cross
===================================================

The paper's first figure sketches three models of different complexity. Model A predicts
best with few examples, model B with more, and model C with the most. The area under a
curve is a codelength, and switching at the crossings gives the smallest area. This
example draws such curves for three readouts of handwritten digits: linear, nearest
neighbours and an MLP.

Result: two curves cross. Nearest neighbours predict best for the first 640 digits or
so, and the MLP predicts best after them. The linear readout is never best. The best
single readout needs 261.4 nats, and the best sequence of two blocks needs 245.8. The
mixture, which has to find out when to switch, needs 251.5.
"""

# %%
# Run one pass for all three readouts. Each digit is predicted before its label is
# revealed.
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import (
    FixedShare,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
)
from sklearn_mdl.switching import best_segments

X, y = load_digits(return_X_y=True)
readouts = [
    ("linear", LinearReadout(lr=0.01, weight_decay=0.1)),
    ("neighbours", KNeighborsReadout()),
    ("MLP", MLPReadout((128,), lr=0.003, n_replay_streams=30)),
]
names = [name for name, _ in readouts]
switcher = MDLReadoutSwitcher(
    [readout for _, readout in readouts],
    switching=FixedShare(m=2),
    shuffle=True,
    random_state=0,
).fit(X, y)
losses = switcher.readout_losses_

# %%
# Print the mean loss of each readout over intervals of growing length.
ends = [0, 32, 64, 128, 256, 512, 1024, len(y)]
print("nats per example", *(f"{name:>11s}" for name in names))
for start, stop in pairwise(ends):
    means = losses[start:stop].mean(axis=0)
    print(f"{start:6d} to {stop:6d}", *(f"{mean:11.3f}" for mean in means))

# %%
# Compare the areas. The best two blocks are only known in hindsight. The mixture has to
# find them during the pass, which costs nats.
total = losses.sum(axis=0)
segments = best_segments(losses, n_blocks=2, prior=FixedShare(m=2))
best = [names[segments.experts[start]] for start in segments.starts]
print()
for name, nats in zip(names, total, strict=True):
    print(f"{name:16s}{nats:8.1f} nats")
print(
    f"{'best two blocks':16s}{segments.loss:8.1f} nats: {best} from {segments.starts}"
)
print(f"{'fixed share':16s}{switcher.codelength_:8.1f} nats")

# %%
# Top: nats per example, averaged over a window that grows with the number of examples.
# Bottom: the regret of each readout relative to the mixture.
figure, (above, below) = plt.subplots(
    2, sharex=True, figsize=(6.4, 6.4), layout="constrained"
)
curves = dict(zip(names, losses.T, strict=True)) | {"mixture": switcher.codelengths_}
centres = np.unique(np.geomspace(32, len(y) / 1.25, 60).astype(int))
mixture = np.cumsum(switcher.codelengths_)
for name, nats in curves.items():
    style = {"color": "black", "lw": 2.5, "zorder": 0} if name == "mixture" else {}
    area = np.concatenate([[0.0], np.cumsum(nats)])
    first, last = (centres / 1.25).astype(int), (centres * 1.25).astype(int)
    above.plot(
        centres, (area[last] - area[first]) / (last - first), label=name, **style
    )
    below.plot(np.arange(1, len(y) + 1), area[1:] - mixture, **style)
above.set(xscale="log", yscale="log", ylabel="nats per example")
below.set(
    xlabel="examples seen",
    ylabel="regret relative to the mixture, nats",
    xlim=(26, len(y)),
    ylim=(-10, 60),
)
above.legend()
for ax in (above, below):
    ax.grid(alpha=0.4)
plt.show()
