"""
Variance over orders of the examples
====================================

A codelength depends on the order of the rows. Li, Bornschein and Hutter (2023, "the
paper") evaluate one encoder on five orders of CIFAR-100 (appendix, "Data ordering and
Variance of MDL score"). The standard deviation is 134 nats, or 0.24 % of the mean,
55,906 nats. This is far less than the differences from the encoders ranked next to this
one. This example does the same for 900 digits, three encoders and five orders.

Result: the standard deviation is 5 to 7 % of the mean. This is twenty to thirty times
the paper's percentage, because there are far fewer examples. The ranking is still
clear, since no interval of a difference contains zero.
"""

# %%
# Evaluate every encoder in the same five orders.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid

N_DIGITS = 900  # fewer digits run faster

X, y = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(y))[:N_DIGITS]
encoders = {"raw": "passthrough", "PCA to 16": PCA(16), "PCA to 8": PCA(8)}
readouts = readout_grid(
    hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2], n_replay_streams=10
)
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), n_orders=5)
scorer.fit({"digits": (X[rows], y[rows])}, encoders)
nats = scorer.order_codelengths_[0]

# %%
# Print the spread over orders, and the paper's spread for comparison.
print(f"{'':18s}   mean      sd   sd / mean")
print(f"{'the paper':18s}{55906:7.0f}{134:8.1f}{134 / 55906:12.2%}")
for name, row in zip(encoders, nats, strict=True):
    sd = row.std(ddof=1)
    print(f"{name:18s}{row.mean():7.1f}{sd:8.1f}{sd / row.mean():12.2%}")

# %%
# An order tends to shift all codelengths in the same direction. Part of this variation
# cancels in the differences, whose standard deviations over orders are printed below.
# The intervals are Student's t intervals at level 0.9, for the mean difference over new
# samples of equal size. The sampling of rows contributes more to their width than the
# orders.
paired = scorer.paired_differences()
names = list(encoders)
print(f"\n{'':24s}   mean      sd   90% interval")
for (i, j), mean, sd, low, high in zip(
    paired.pairs, paired.mean, paired.std, paired.lower, paired.upper, strict=True
):
    pair = f"{names[i]} - {names[j]}"
    print(f"{pair:24s}{mean[0]:7.1f}{sd[0]:8.1f}   [{low[0]:.1f}, {high[0]:.1f}]")

# %%
# Each line connects the codelengths in one order.
figure, ax = plt.subplots(layout="constrained")
for k, column in enumerate(nats.T):
    ax.plot(column, range(len(names)), f"{'osD^v'[k]}-", label=f"order {k}")
ax.set_yticks(range(len(names)), names)
ax.set(xlabel="codelength of the digits, nats", ylim=(-0.4, len(names) - 0.6))
ax.legend()
ax.grid(axis="x", alpha=0.4)
plt.show()
