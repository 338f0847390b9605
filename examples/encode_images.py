"""
Encode images, and rank the layers of a network
===============================================

A network of timm turns images into features, layer by layer, in one pass. The features
are kept in a folder, and each layer and pooling is ranked like an encoder of its own,
by the codelength of the labels. Before that, a test says whether the images that come
last are like those that came first.

The network here has random weights, so that nothing need be downloaded: with
``pretrained=True``, or a file of weights as ``checkpoint_path``, the same lines rank
what training has taught it.
"""

# %%
# Handwritten digits of 8 by 8 pixels, in grey from 0 to 16.
from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from sklearn_mdl import (
    CachedEncoder,
    MDLReadoutSwitcher,
    RepresentationScorer,
    TimmEncoder,
    prequential_order,
    readout_grid,
    train_test_shift,
)

digits = load_digits()
images, labels = digits.images / 16, digits.target

# %%
# Are the last third of the images, by other writers, like the rest? They are not: a
# neighbour among the first finds fewer of them than it would after shuffling.
n_first = 1200
rows = images.reshape(len(images), -1)
shift = train_test_shift(
    (rows[:n_first], labels[:n_first]),
    (rows[n_first:], labels[n_first:]),
    readouts={"nearest neighbour": KNeighborsClassifier(1)},
    random_state=0,
)
print(shift.summary())

# %%
# So they are walked in a random order. One pass gives three layers in two poolings.
order = prequential_order(labels, random_state=0)[:500]
images, labels = images[order], labels[order]
encoder = TimmEncoder(
    "test_resnet",
    pretrained=False,
    layer=["layer1", "layer2", "last"],
    pool=["avg", "max"],
    data_options={"input_size": (3, 64, 64)},
)
with TemporaryDirectory() as folder:
    cached = CachedEncoder(encoder, folder)
    features = {k: v.copy() for k, v in cached.transform_blocks(images).items()}
    print("kept in", [path.suffix for path in Path(folder).glob("*.safetensors")])

# %%
board = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3], n_replay_streams=5)
features["pixels"] = images.reshape(len(images), -1)
scorer = RepresentationScorer(MDLReadoutSwitcher(board), random_state=0)
print(scorer.fit({"digits": (features, labels)}).summary())
