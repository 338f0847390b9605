"""
Switching strategies compared
=============================

The readouts walk once and leave their losses; every switching prior then reads the same
losses in milliseconds. The paper compares strategies on ImageNet and finds the switch
distribution close to fixed share, the Bayesian and the elementwise mixture far worse.
Here the question is asked of digits, or of the losses of a walk of your own::

    sklearn-mdl score features.npy labels.npy --losses losses.npy
    python examples/plot_switching_strategies.py losses.npy
"""

# %%
# One walk. The losses of all readouts at all examples are what every prior reads.
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import (
    BayesMixture,
    CodelengthDisplay,
    ElementwiseMixture,
    FixedShare,
    LearnedShare,
    MDLReadoutSwitcher,
    RegretSplitDisplay,
    RunLength,
    SwitchDistribution,
    best_segments,
    forward,
    load_losses,
)

if len(sys.argv) == 2:
    losses = load_losses(sys.argv[1]).losses
else:
    X, y = load_digits(return_X_y=True)
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    losses = switcher.readout_losses_

# %%
# Every strategy, beside the best readout in hindsight and the best that three blocks of
# one readout each could have done.
strategies = {
    "fixed share, m = 2": FixedShare(m=2),
    "fixed share, m = 11": FixedShare(m=11),
    "learned share": LearnedShare(),
    "switch distribution": SwitchDistribution(),
    "run length": RunLength(),
    "Bayesian mixture": BayesMixture(),
    "elementwise mixture": ElementwiseMixture(),
}
curves = {name: forward(p, losses).codelengths for name, p in strategies.items()}
N, K = losses.shape
segments = best_segments(losses, n_blocks=3, prior=FixedShare(m=2))
print(f"N = {N}, K = {K}, nats")
print(f"{'best readout':22s}{losses.sum(axis=0).min():10.1f}")
print(
    f"{'best three blocks':22s}{segments.loss:10.1f}  from {segments.starts.tolist()}"
)
for name, curve in curves.items():
    print(f"{name:22s}{curve.sum():10.1f}")

# %%
# The regret splits in two, as in the paper's Theorem 1. What the three blocks cost is
# paid for learning; what the mixture costs beyond is paid for not knowing which readout
# to follow, and never more than the prior asks for these very blocks.
switching = curves["fixed share, m = 2"].sum() - segments.loss
print(f"\nswitching cost {switching:.1f} nats, at most {segments.prior_cost:.1f}")
others = {name: prior for name, prior in strategies.items() if "element" not in name}
RegretSplitDisplay.from_losses(losses, others, n_blocks=3)

# %%
# The paper's figure: regret to fixed share. Below zero a strategy has won. The
# elementwise mixture runs off the figure: it never learns which readouts are good.
display = CodelengthDisplay.from_codelengths(curves, reference="fixed share, m = 2")
gaps = [np.cumsum(c - curves["fixed share, m = 2"]) for c in curves.values()]
display.ax_.set_ylim(1.3 * np.min(gaps), 1.3 * np.max(gaps[:-1]))
plt.show()
