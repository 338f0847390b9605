"""
Encode images and rank the layers of a network
==============================================

A timm network computes the features of several layers in one pass, and a folder caches
these features. Each combination of layer and pooling is then ranked as a separate
encoder, by the codelength of the labels. First of all, a test checks whether the last
images differ from the others.

The network in this example has random weights, so nothing is downloaded. To rank the
layers of a trained network, pass ``pretrained=True``, or a file of weights as
``checkpoint_path``.
"""

# %%
# Load handwritten digits of 8 by 8 pixels, with grey levels from 0 to 16.
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.datasets import prequential_order, train_test_shift
from sklearn_mdl.encoders import CachedEncoder, TimmEncoder

digits = load_digits()
images, labels = digits.images / 16, digits.target

# %%
# Other people wrote the last third of the digits. Do these images resemble the rest?
# No: nearest neighbours among the first images give the right label less often than
# after shuffling.
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
# So shuffle the rows. One pass of the network gives three layers with two poolings.
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
    features = {k: v.copy() for k, v in cached.transform_views(images).items()}
    print("cached in", [path.suffix for path in Path(folder).glob("*.safetensors")])

# %%
# Rank each set of features as an encoder, and also the pixels.
readouts = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[3e-3], n_replay_streams=5)
features["pixels"] = images.reshape(len(images), -1)
scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), random_state=0)
print(scorer.fit({"digits": (features, labels)}).summary())

figure, ax = plt.subplots(layout="constrained")
ax.barh(scorer.encoder_names_, scorer.codelengths_[0] / len(labels))
ax.invert_yaxis()
ax.set(xlabel="nats per example", title="Layers of a random network")
plt.show()
