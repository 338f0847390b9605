"""
Choose a text encoder with 100 labels
=====================================

Rank text encoders on a hundred labels: n-grams of words and characters, and a model
with a method ``encode``, like those of sentence-transformers.
"""

# %%
# Real text that every Python has: is a docstring about text or about numbers?
import inspect
import math

import matplotlib.pyplot as plt
import numpy as np

from sklearn_mdl import CodelengthDisplay, RepresentationScorer
from sklearn_mdl.encoders import TextEncoder, text_baselines

found = [
    (inspect.getdoc(thing), topic)
    for topic, home in {"text": str, "numbers": math}.items()
    for thing in vars(home).values()
    if callable(thing) and inspect.getdoc(thing)
]
texts, labels = [text for text, _ in found], [topic for _, topic in found]


class Letters:
    """A stand-in for your model: how often each letter occurs."""

    def encode(self, texts):
        counts = [np.bincount(list(text.encode()), minlength=256) for text in texts]
        return np.log1p(counts)


# %%
# A pre-trained encoder should beat the n-grams; this stand-in does not.
encoders = {"letters": TextEncoder(Letters()), **text_baselines(width=32)}
scorer = RepresentationScorer(random_state=0).fit({"topic": (texts, labels)}, encoders)
print(scorer.verdict())

# %%
# Codelengths as labels arrive show from how many labels on encoders differ.
CodelengthDisplay.from_scorer(scorer)
plt.show()
