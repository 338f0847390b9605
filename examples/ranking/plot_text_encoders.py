"""
Choose a text encoder with 100 labels
=====================================

This example ranks text encoders on about 120 labels: n-grams of words and of
characters, hashed words, and a model with an ``encode`` method, like those of
sentence-transformers.
"""

# %%
# Every Python installation contains real text: its docstrings. The task is to decide
# whether a docstring is about text or about numbers.
import inspect
import math

import matplotlib.pyplot as plt
import numpy as np

from sklearn_mdl import CodelengthDisplay, RepresentationScorer
from sklearn_mdl.encoders import TextEncoder, text_baselines

docstrings = [
    (inspect.getdoc(thing), topic)
    for topic, home in {"text": str, "numbers": math}.items()
    for thing in vars(home).values()
    if callable(thing) and inspect.getdoc(thing)
]
texts, labels = [text for text, _ in docstrings], [topic for _, topic in docstrings]


class Letters:
    """A stand-in for your model: how often each letter occurs."""

    def encode(self, texts):
        counts = [np.bincount(list(text.encode()), minlength=256) for text in texts]
        return np.log1p(counts)


# %%
# A pre-trained encoder should have a shorter code than n-grams. This stand-in does not.
encoders = {"letters": TextEncoder(Letters()), **text_baselines(width=32)}
scorer = RepresentationScorer(random_state=0).fit({"topic": (texts, labels)}, encoders)
print(scorer.verdict())

# %%
# Plot codelengths against the number of labels, to see when the encoders begin to
# differ.
CodelengthDisplay.from_scorer(scorer)
plt.show()
