"""
Compare protocols side by side
==============================

Four encoders of digits, measured by what people use: accuracies of probes, codes of
several kinds, evidence, sample complexity. Two references stand beside the encoders:
random features, and features that have lost their labels.

What came out: the kernel map is first by both trained probes, by LogME, and by all
codes and what is read off them, where pixels share its first place once. Nearest
neighbours prefer the pixels, and selectivity puts the kernel map last: features that
tell much tell the control task, too. The random encoder, as wide as the kernel map, has
a better linear probe than the pixels and a longer code. Features that have lost their
labels cost more than the uniform code by every protocol that is a code, most of all by
blocks, where nothing holds back a classifier that is sure of itself.
"""

# %%
# Settings are small to keep this example quick; None takes the default of a protocol.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.random_projection import GaussianRandomProjection

from sklearn_mdl import (
    LinearProbe,
    MDLReadoutSwitcher,
    MLPProbe,
    VariationalCode,
    compare_protocols,
    readout_grid,
)

X, y = load_digits(return_X_y=True)
encoders = {
    "raw": None,
    "PCA to 16": PCA(16, random_state=0),
    "random projection to 16": GaussianRandomProjection(16, random_state=0),
    "kernel map to 200": make_pipeline(
        MinMaxScaler(), Nystroem(gamma=0.1, n_components=200, random_state=0)
    ),
}
quick = {"lr": (1e-3, 3e-3), "weight_decay": (0.0, 1e-2), "ema_step_size": (1e-2, 1.0)}
board = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3, 1e-2])
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
    "mdl": MDLReadoutSwitcher(board),
}
comparison = compare_protocols(
    encoders, X, y, protocols=protocols, references=["random", "shuffled"]
)
print(comparison)

# %%
# One line for each encoder. Accuracies on the left ask what is right in the end; codes
# on the right also ask how many labels it takes to get there.
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
