"""
Compare with probes, LogME and other codes
==========================================

This example compares four encoders of digits by common protocols: accuracies of probes,
several codes, LogME and sample complexity. We add two references: an encoder with
random weights, and the pixels of other digits ("shuffled").

Result: the kernel map ranks first by both trained probes, by LogME, by all codes and by
all measures derived from codes, once tied with the pixels. Nearest neighbours rank the
pixels first. Selectivity ranks the kernel map last, since informative features also
help with the control task. The random encoder, which is as wide as the kernel map, has
a better linear probe than the pixels but a longer code. Given the pixels of other
digits, every code is longer than the uniform code. The block-wise code is the longest,
because its logistic regression is overconfident.
"""

# %%
# Small settings keep this example fast. A protocol with None has its default settings.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.random_projection import GaussianRandomProjection

from sklearn_mdl import MDLReadoutSwitcher, compare_protocols, readout_grid
from sklearn_mdl.baselines import LinearProbe, MLPProbe, VariationalCode

N_DIGITS = 1797  # fewer digits run faster

X, y = load_digits(return_X_y=True)
X, y = X[:N_DIGITS], y[:N_DIGITS]
encoders = {
    "raw": None,
    "PCA to 16": PCA(16, random_state=0),
    "random projection to 16": GaussianRandomProjection(16, random_state=0),
    "kernel map to 200": make_pipeline(
        MinMaxScaler(), Nystroem(gamma=0.1, n_components=200, random_state=0)
    ),
}
quick = {"lr": (1e-3, 3e-3), "weight_decay": (0.0, 1e-2), "ema_step_size": (1e-2, 1.0)}
readouts = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2])
protocols = {
    "linear": LinearProbe(**quick, max_steps=200),
    "mlp": MLPProbe((64,), **quick, max_steps=100),
    "knn": None,
    "selectivity": None,
    "logme": None,
    "blockwise": None,
    "variational": VariationalCode(n_steps=200),
    "sdl": None,
    "esc": None,
    "mdl": MDLReadoutSwitcher(readouts),
}
comparison = compare_protocols(
    encoders, X, y, protocols=protocols, references=["random", "shuffled"]
)
print(comparison)

# %%
# Draw one line for each encoder. Accuracies, on the left, measure the final
# predictions. Codes, on the right, also measure how many labels the predictions need.
n_encoders = len(encoders)
ranks = comparison.ranks[0, :n_encoders]
names = [protocol.name for protocol in comparison.protocols]
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for name, row, marker in zip(encoders, ranks, "osD^", strict=True):
    ax.plot(row, marker=marker, label=name)
ax.set_xticks(np.arange(len(names)), names, rotation=30, ha="right")
ax.set_yticks(range(1, n_encoders + 1))
ax.invert_yaxis()
ax.set(ylabel="rank (1 is best)", title="Digits: the order depends on the protocol")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
