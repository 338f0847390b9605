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
    tables = load_feature_directory(folder)
    check_names(folder, datasets, list(tables))
    chosen = {name: tables[name] for name in tables if name in (datasets or tables)}
    known = dict.fromkeys(name for own, _ in chosen.values() for name in own)
    check_names(folder, encoders, list(known))
    return {
        f"{dataset}/{encoder}": (np.asarray(X, dtype=np.float32), np.asarray(y))
        for dataset, (features, y) in chosen.items()
        for encoder, X in features.items()
        if encoder in (encoders or known)
    }


def tables_of(folder, least=2, scored=None):
    """Return the datasets in a folder of features.

    Raise ValueError if a dataset has fewer than ``least`` encoders, or if it or one of
    its encoders has no reference scores in ``scored``, which is a ``Kept``.
    """
    tables = load_feature_directory(folder)
    for name, (features, _) in tables.items():
        if len(features) < least:
            raise ValueError(
                f"{folder} must contain features of at least {least} encoders for "
                f"{name!r}, but contains only {list(features)}; add ENCODER.npy files"
            )
        if scored is not None:
            check_names("choice.json", [name], sorted({d for d, _ in scored.accuracy}))
            check_names("choice.json", features, scored.encoders)
    return tables


def check_names(folder, names, known):
    """Raise ValueError if a dataset or encoder is not in a folder of features."""
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(
            f"{folder} must contain {missing[0]!r}, but contains only {known}; check "
            "the name, or pass another folder"
        )


def permuted(X, y, seed):
    """Return X and y in the order ``default_rng(seed).permutation(N)``."""
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]
