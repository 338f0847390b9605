"""Data that several benchmarks use."""

import numpy as np

from sklearn_mdl.datasets import load_feature_directory

# No pool, no race, and full minibatches from the start.
SWITCHING = {"pooling": None, "race": None, "batch_size": 32}
NETS = {"readouts": "nets", **SWITCHING}


def feature_cells(folder, datasets=(), encoders=()):
    """Return features (float32) and labels of a folder, keyed by ``dataset/encoder``.

    If no ``datasets`` or no ``encoders`` are given, all of them are returned.
    """
    return {
        f"{dataset}/{encoder}": (np.asarray(X, dtype=np.float32), np.asarray(y))
        for dataset, (features, y) in load_feature_directory(folder).items()
        if not datasets or dataset in datasets
        for encoder, X in features.items()
        if not encoders or encoder in encoders
    }


def permuted(X, y, seed):
    """Return X and y in the order ``default_rng(seed).permutation(N)``."""
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]
