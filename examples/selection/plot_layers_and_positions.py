"""
Which layer, which position? A language model as views
=======================================================

A small language model learns to predict the next byte of Python's own documentation.
Which layer, and which position in a text, best shows what the text is about? One pass
over about 120 labels answers this question, and shows how certain the answer is.
"""

# %%
# This model stands in for yours. It reads bytes and predicts the next byte.
import inspect
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.display import ViewPosteriorDisplay
from sklearn_mdl.encoders import HiddenStatesEncoder
from sklearn_mdl.metrics import detection_measures, positive_probabilities
from sklearn_mdl.model_selection import compare_views
from sklearn_mdl.readouts import view_readouts

N_STEPS = 150  # fewer steps run faster

torch.manual_seed(0)
torch.set_num_threads(1)


class Model(nn.Module):
    """Three recurrent layers over bytes."""

    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.layers = nn.ModuleList(
            nn.GRU(width, width, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(width, 256)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        for layer in self.layers:
            states = states + layer(states)[0]
        return self.head(states)


homes = [int, list, dict, set, bytes, np.ndarray, np]
training = " ".join(
    inspect.getdoc(thing) or "" for home in homes for thing in vars(home).values()
)
stream = torch.tensor(list(training.encode()))
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(N_STEPS):
    starts = torch.randint(len(stream) - 65, (16,))
    batch = torch.stack([stream[start : start + 65] for start in starts])
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.2f} nats per byte, {math.log(256):.2f} before training")

# %%
# The labelled texts are other docstrings. The task is to decide whether a docstring is
# about text or about numbers.
docstrings = [
    (inspect.getdoc(thing), topic)
    for topic, home in {"text": str, "numbers": math}.items()
    for thing in vars(home).values()
    if callable(thing) and inspect.getdoc(thing)
]
ids = [list(text[:100].encode()) for text, _ in docstrings]
labels = np.array([topic for _, topic in docstrings])

# %%
# Hooks capture the hidden states and pool them while the model runs.
encoder = HiddenStatesEncoder(
    model,
    layers=["embed", "layers.0", "layers.1", "layers.2"],
    positions=["first", "last", "mean", "max"],
)
X = encoder.fit_transform(ids)
readouts = view_readouts(encoder.view_slices_, "linear")
probe = MDLReadoutSwitcher(readouts, shuffle=True, random_state=0).fit(X, labels)
comparison = compare_views(probe)
print(comparison)

# %%
# Draw the probability that each view is the best one, by layer and position.
ViewPosteriorDisplay.from_comparison(comparison)
plt.show()

# %%
# Every label was predicted before it was revealed, so you can evaluate the mixture of
# all views as a detector without held-out rows.
scores = positive_probabilities(probe.codelengths_, labels[probe.order_], "text")
print(detection_measures(labels[probe.order_] == "text", scores))
