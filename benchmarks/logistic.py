"""The baseline: a logistic regression refitted at the ends of blocks that double.

This is Voita and Titov's (2020) online code as you would write it today with
scikit-learn. Features are standardised. Blocks end at ``b, 2b, 4b, ...``, where ``b``
is ``int(max(16, n_classes / 2))``, and at the last row. The first block is coded
uniformly, and every later block with the model fitted on all earlier rows.
Probabilities are floored at 1e-4 and renormalised. The regularisation is the best of
four *in hindsight*, which favours this baseline.

A cell (a dataset with the features of one encoder) takes up to nine seconds, so results
are saved in ``logistic.json`` next to this file. If the data of a cell change, its
result is computed again.
"""

import hashlib
import json
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from benchmarks._data import feature_cells

CACHE = Path(__file__).with_suffix(".json")
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
FLOOR = 1e-4


def block_ends(n_samples, n_classes):
    """Return the ends of the blocks: b, 2b, 4b, ..., n_samples."""
    end = int(max(16, n_classes / 2))
    ends = []
    while end < n_samples:
        ends.append(end)
        end *= 2
    return [*ends, n_samples]


def blockwise_codelength(X, y, C):
    """Return the codelength in nats of labels ``y``, which are 0 .. n_classes - 1.

    ``C`` is the parameter of ``LogisticRegression``. If None, it is tuned before each
    block except the first, by cross-validation on the earlier rows.
    """
    n_classes = y.max() + 1
    X = StandardScaler().fit_transform(X)
    ends = block_ends(len(y), n_classes)
    total = ends[0] * np.log(n_classes)
    for start, stop in pairwise(ends):
        past = X[:start], y[:start]
        strength = tuned_strength(*past, n_classes) if C is None else C
        total += cost_of(strength, *past, X[start:stop], y[start:stop], n_classes)
    return float(total)


def cost_of(C, X_past, y_past, X, y, n_classes):
    """Fit on the past rows, and return the cost of ``y`` given ``X`` in nats."""
    seen = np.unique(y_past)
    proba = np.zeros((len(y), n_classes))
    if len(seen) == 1:
        proba[:, seen] = 1.0
    else:
        model = LogisticRegression(C=C, max_iter=1000).fit(X_past, y_past)
        proba[:, model.classes_] = model.predict_proba(X)
    proba = np.maximum(proba, FLOOR)
    proba /= proba.sum(1, keepdims=True)
    return -np.log(proba[np.arange(len(y)), y]).sum()


def tuned_strength(X, y, n_classes):
    """Return the ``C`` with the lowest cost in 3-fold cross-validation."""
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    costs = [
        sum(cost_of(C, X[a], y[a], X[b], y[b], n_classes) for a, b in folds)
        for C in STRENGTHS
    ]
    return STRENGTHS[int(np.argmin(costs))]


def fingerprint(X, y):
    """Return a short hash of a cell's features and labels."""
    digest = hashlib.sha256(np.ascontiguousarray(X))
    digest.update(np.ascontiguousarray(y))
    return digest.hexdigest()[:16]


def best_codelength(name, X, y):
    """Return the shortest codelength for four values of ``C``, from a file if saved."""
    cache = json.loads(CACHE.read_text()) if CACHE.exists() else {}
    key = fingerprint(X, y)
    if cache.get(name, {}).get("data") != key:
        y = np.unique(y, return_inverse=True)[1]
        start = time.perf_counter()
        nats = {str(C): blockwise_codelength(X, y, C) for C in STRENGTHS}
        seconds = time.perf_counter() - start
        cache = json.loads(CACHE.read_text()) if CACHE.exists() else {}
        cache[name] = {"data": key, "seconds": round(seconds, 1), "nats": nats}
        partial = CACHE.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(cache, indent=1, sort_keys=True) + "\n")
        os.replace(partial, CACHE)
    return min(cache[name]["nats"].values())


class Logistic:
    """Codelengths of every cell of a folder."""

    options = {"features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"}}
    param_names = ["cell"]
    unit = "nats, with the best of four regularisations"
    formats = {"track_codelength": ".1f"}

    def prepare(self):
        self.cells = feature_cells(self.features)

    @property
    def params(self):
        return list(self.cells)

    def track_codelength(self, name):
        X, y = self.cells[name]
        return best_codelength(name, X.astype(np.float64), y)
