"""
Rank pre-trained encoders by objective and by size
==================================================

This example ranks pre-trained encoders on real images: six small convolutional networks
that differ in their training objective, and five networks of two families that differ
in size. It ranks them by codelength, as in the paper, and by the accuracy of a linear
probe on held-out rows. Set the environment variable ``SKLEARN_MDL_DATA`` to a folder
that contains ``features/DATASET/ENCODER.npy`` and ``features/DATASET/labels.npy``.
Without this folder, the example prints which files it needs.

To keep the example fast, there are few datasets, few rows and a small grid of readouts.
For the full comparison, see the page on pre-trained encoders
(``docs/pretrained-encoders.md``).
"""

# %%
# The relation network and the supervised networks were trained with labels, but not
# with the labels coded here. The ResNets were trained with labels of other CIFAR-10
# images. MobileNets of different widths also take images of different sizes, so the
# effects of width and image size are confounded.
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, readout_grid
from sklearn_mdl.datasets import load_features, load_labels
from sklearn_mdl.ranking import average_ranks, friedman_test, rank_intervals

DATASETS = ["cifar10", "pneumonia", "ucmerced", "mnist"]
QUESTIONS = {
    "objectives of small networks": {
        "conv-burgess_vae-celeba": "VAE",
        "conv-burgess_betavae-celeba": "beta-VAE",
        "conv-burgess_btcvae-celeba": "beta-TCVAE",
        "conv-burgess_vae-dsprites": "VAE, dSprites",
        "conv_cpc-mnist": "CPC, MNIST",
        "conv4_relation-miniimagenet": "relation network",
    },
    "sizes of supervised networks": {
        "mobilenetv1-025_sup-imagenet": "MobileNet 0.25",
        "mobilenetv1-050_sup-imagenet": "MobileNet 0.50",
        "mobilenetv1-075_sup-imagenet": "MobileNet 0.75",
        "resnet20_sup-cifar10": "ResNet-20",
        "resnet56_sup-cifar10": "ResNet-56",
    },
}
N_CODED, N_ROWS = 300, 800


# %%
# Rows are in random order. The labels of the first rows are coded, and the accuracy is
# measured on the other rows.
def read(folder, encoders):
    datasets = {}
    for name in DATASETS:
        labels = np.asarray(load_labels(folder / name / "labels.npy"))[:N_ROWS]
        features = {
            title: np.asarray(load_features(folder / name / f"{key}.npy"))[:N_ROWS]
            for key, title in encoders.items()
        }
        datasets[name] = features, labels
    return datasets


# %%
# A codelength includes the cost of every coded label, from the first one on, under a
# mixture of readouts. A probe is a single readout trained on all coded rows.
def rank(datasets):
    readouts = readout_grid(
        hidden_layer_sizes=[(), (64,)], lr=[3e-3], n_replay_streams=5
    )
    coded = {
        name: ({key: X[:N_CODED] for key, X in features.items()}, y[:N_CODED])
        for name, (features, y) in datasets.items()
    }
    return RepresentationScorer(MDLReadoutSwitcher(readouts)).fit(coded)


def errors(datasets):
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    train, test = slice(N_CODED), slice(N_CODED, None)
    return np.array(
        [
            [
                1 - probe.fit(X[train], y[train]).score(X[test], y[test])
                for X in features.values()
            ]
            for features, y in datasets.values()
        ]
    )


# %%
# Print one row for each encoder, with the shortest code first. Intervals show how much
# an average rank varies when the datasets are resampled. With only four datasets,
# the intervals are too short.
def show(ax, title, scorer, errors):
    test = friedman_test(scorer.codelengths_)
    ranks = rank_intervals(scorer.codelengths_)
    by_accuracy = average_ranks(errors)
    print(f"\n{title}: F = {test.f_statistic:.2f}, p = {test.f_p_value:.2g}")
    print(f"{'':18s}codelength  90% interval  accuracy")
    order = np.argsort(ranks.average_ranks, kind="stable")
    for j in order:
        print(
            f"{scorer.encoder_names_[j]:18s}{ranks.average_ranks[j]:10.2f}"
            f"  [{ranks.lower[j]:.2f}, {ranks.upper[j]:.2f}]{by_accuracy[j]:10.2f}"
        )
    at, where = ranks.average_ranks[order], np.arange(len(order))
    ends = abs(np.stack([ranks.lower, ranks.upper])[:, order] - at)
    ax.errorbar(at, where, xerr=ends, fmt="o", capsize=3, label="codelength")
    ax.plot(by_accuracy[order], where + 0.2, "s", ms=5, label="linear accuracy")
    ax.set_yticks(where, [scorer.encoder_names_[j] for j in order])
    ax.invert_yaxis()
    ax.set(title=title, xlabel="average rank, 1 is best")
    ax.grid(axis="x", alpha=0.4)


# %%
# Run both comparisons if the features are available.
# sphinx_gallery_thumbnail_path = 'images/pretrained-ranks.png'
folder = Path(os.environ.get("SKLEARN_MDL_DATA", ".")) / "features"
if (folder / DATASETS[0] / "labels.npy").is_file():
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    for ax, (title, encoders) in zip(panels, QUESTIONS.items(), strict=True):
        datasets = read(folder, encoders)
        show(ax, title, rank(datasets), errors(datasets))
    panels[0].legend(fontsize="small")
    plt.show()
else:
    print(
        f"This example found no labels.npy in {folder / DATASETS[0]}; run `export "
        "SKLEARN_MDL_DATA=FOLDER`, where FOLDER contains features/."
    )
