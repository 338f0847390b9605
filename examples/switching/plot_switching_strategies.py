"""
Compare switching priors on the same losses
===========================================

One pass gives the losses of all readouts. Every switching prior then mixes the same
losses in milliseconds. The paper compares strategies on ImageNet. It finds that the
switch distribution is close to fixed share, and that the Bayesian and elementwise
mixtures are far worse. This example compares the priors on digits, where the Bayesian
mixture is as good as fixed share. To use your own losses, write them to a file and set
``LOSSES`` below to its path::

    sklearn-mdl score features.npy labels.npy --losses losses.npy
"""

# %%
# Run one pass, which gives the losses of all readouts. After a readout retires, its
# losses are NaN.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import (
    BayesMixture,
    CodelengthDisplay,
    FixedShare,
    LearnedShare,
    MDLReadoutSwitcher,
    SwitchDistribution,
    forward,
)
from sklearn_mdl.display import RegretSplitDisplay
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import ElementwiseMixture, RunLength, best_segments

LOSSES = None  # or a file of losses
N_DIGITS = 1797  # fewer digits run faster

if LOSSES is not None:
    losses = load_losses(LOSSES).losses
else:
    X, y = (part[:N_DIGITS] for part in load_digits(return_X_y=True))
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    losses = switcher.readout_losses_

# %%
# Compare every strategy with the best readout in hindsight, and with the best sequence
# of three blocks, each with one readout.
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
print(f"{'best readout':22s}{np.nanmin(losses.sum(axis=0)):10.1f}")
print(
    f"{'best three blocks':22s}{segments.loss:10.1f}  from {segments.starts.tolist()}"
)
for name, curve in curves.items():
    print(f"{name:22s}{curve.sum():10.1f}")

# %%
# Split each codelength into two parts. *Learning* is the loss of the best three blocks.
# *Switching* is the rest. It is at most ``-log p``, where ``p`` is the prior
# probability of these blocks (see the paper's Theorem 1). So switching costs little if
# the prior expects few switches.
switching = curves["fixed share, m = 2"].sum() - segments.loss
print(f"\nswitching cost {switching:.1f} nats, at most {segments.prior_cost:.1f}")
others = {name: prior for name, prior in strategies.items() if "element" not in name}
RegretSplitDisplay.from_losses(losses, others, n_blocks=3)

# %%
# Draw regret relative to fixed share, as in the paper's figure. Below zero, a strategy
# is better than fixed share. The curve of the elementwise mixture leaves the figure,
# since this mixture never learns which readouts are good.
display = CodelengthDisplay.from_codelengths(curves, reference="fixed share, m = 2")
gaps = [np.cumsum(c - curves["fixed share, m = 2"]) for c in curves.values()]
display.ax_.set_ylim(1.3 * np.min(gaps), 1.3 * np.max(gaps[:-1]))
plt.show()
